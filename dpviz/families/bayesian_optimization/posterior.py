"""Posterior of the gradient of a user's loss, by a Gaussian process through the user's losses at evaluated points.

All users are evaluated at the same points, so the covariance of their gradients is the same, and one matrix of weights
estimates the gradients of all users. No loss enters here, so nothing here is secret (THEORY.md, section 3).

Symbols: X (N, d) the evaluated points, k the kernel, L the lower Cholesky factor of k(X, X) + noise, D (N, d) the
slopes of the kernel, that is the covariances of the losses at X with the gradient at θ; V = L⁻¹ D and a = L⁻¹ 1. All
variances are in units of the variance of a user's loss ("unit amplitude").
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from scipy.linalg import lapack

from dpviz.specification import Specification, choice, number

KERNELS = {"rbf": "Squared exponential", "matern": "Matérn 5/2: rougher", "quadratic": "Quadratic functions"}
MEANS = {"constant": "Unknown constant", "zero": "Zero, as published"}
ROOT_5 = math.sqrt(5.0)
MIN_NOISE = 1e-6  # variance that is assumed for observations without noise, against rounding errors


class Kernel(ABC):
    """Covariance k(x, z) of a user's losses at two points, with its derivatives."""

    @abstractmethod
    def gram(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return (N, M) the covariances k(x, z) between points x (N, d) and z (M, d)."""

    def diagonal(self, x: np.ndarray) -> np.ndarray:
        """Return (N,) the variances k(x, x) at points x (N, d); 1 for stationary kernels."""
        return np.ones(len(x))

    @abstractmethod
    def slopes(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return (N, d) the derivatives ∇ₓ k(x, z_j) at one point x (d,) for points z (N, d): covariances of the
        gradient at x with the losses at z."""

    @abstractmethod
    def mixed(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return (d, d) the second derivatives ∂²k(x, z)/∂x_a∂z_b at two points (d,): covariances of the gradients
        there."""

    def prior(self, x: np.ndarray) -> np.ndarray:
        """Return (d, d) the covariance of the gradient at x (d,) before any evaluation."""
        return self.mixed(x, x)


@dataclass(frozen=True)
class SquaredExponential(Kernel):
    """Kernel exp(-‖x - z‖²/(2ℓ²))."""

    length: float

    def gram(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.exp(-squared_distances(x, z) / (2 * self.length**2))

    def slopes(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        scaled = (z - x) / self.length**2
        return scaled * self.gram(x[None], z)[0][:, None]

    def mixed(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        scaled = (x - z) / self.length**2
        k = math.exp(-float(scaled @ (x - z)) / 2)
        return k * (np.eye(len(x)) / self.length**2 - np.outer(scaled, scaled))


@dataclass(frozen=True)
class Matern(Kernel):
    """Matérn's kernel of smoothness 5/2: (1 + q + q²/3) exp(-q) with q = √5 ‖x - z‖/ℓ."""

    length: float

    def gram(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        q = ROOT_5 * np.sqrt(squared_distances(x, z)) / self.length
        return (1 + q + q**2 / 3) * np.exp(-q)

    def slopes(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        q = ROOT_5 * np.sqrt(squared_distances(x[None], z)[0]) / self.length
        return (z - x) * ((5 / 3) / self.length**2 * (1 + q) * np.exp(-q))[:, None]

    def mixed(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        difference = x - z
        q = ROOT_5 * math.sqrt(float(difference @ difference)) / self.length
        bracket = (1 + q) * np.eye(len(x)) - 5 * np.outer(difference, difference) / self.length**2
        return 5 / (3 * self.length**2) * math.exp(-q) * bracket


@dataclass(frozen=True)
class QuadraticKernel(Kernel):
    """Kernel (1 + xᵀz)² of quadratic functions, which are known exactly after (d + 1)(d + 2)/2 evaluations. It is not
    stationary."""

    def gram(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return (1 + x @ z.T) ** 2

    def diagonal(self, x: np.ndarray) -> np.ndarray:
        return (1 + (x**2).sum(axis=1)) ** 2

    def slopes(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return 2 * (1 + z @ x)[:, None] * z

    def mixed(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return 2 * (1 + x @ z) * np.eye(len(x)) + 2 * np.outer(z, x)


def squared_distances(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return (N, M) the squared distances ‖x - z‖² between points x (N, d) and z (M, d).

    They are ‖x‖² + ‖z‖² - 2 xᵀz. Points are first moved to have their middle at 0, so that less is lost to rounding
    where points are near each other.
    """
    middle = z.mean(axis=0) if len(z) else 0.0
    x, z = x - middle, z - middle
    squared_norms = np.einsum("ij,ij->i", x, x)[:, None] + np.einsum("ij,ij->i", z, z)
    return np.maximum(squared_norms - 2 * (x @ z.T), 0.0)


class Surrogate(Specification):
    """Settings of the Gaussian process for a user's loss.

    Privacy holds for any settings, but they must not be fitted to the users' losses (THEORY.md, E3).
    """

    kind: ClassVar[str] = "families.bayesian_optimization.surrogate"
    kernel: Literal["rbf", "matern", "quadratic"] = choice(
        "rbf", KERNELS, label="Kernel", help="What is assumed of a user's loss: how smooth it is."
    )
    length_scale: float = number(
        1.0,
        0.1,
        10.0,
        label="Length scale",
        symbol="ℓ",
        scale="log",
        help="Over which distance losses change, in the unit of the settings. Points are placed in proportion to it.",
    )
    relative_noise: float | None = number(
        None,
        1e-10,
        100.0,
        label="Assumed noise",
        symbol="s",
        scale="log",
        help="Variance of an observation's noise over that of a user's loss. Empty: what the problem declares, for "
        "losses of variance 1. Too small a value costs most.",
    )
    mean: Literal["constant", "zero"] = choice(
        "constant",
        MEANS,
        label="Mean of the process",
        help="With an unknown constant, adding a number to all losses of a user changes nothing.",
    )

    @property
    def noise(self) -> float:
        """s, the relative noise; if it is not set, a small number against rounding errors."""
        return MIN_NOISE if self.relative_noise is None else self.relative_noise

    @property
    def kernel_function(self) -> Kernel:
        """Kernel of the process."""
        if self.kernel == "quadratic":
            return QuadraticKernel()
        return (SquaredExponential if self.kernel == "rbf" else Matern)(self.length_scale)


JITTER = 1e-12  # share of a point's variance that is added to it, against rounding errors
NOTHING_NEW = 1e-8  # a point adds no information if a smaller share of its variance is unknown


class EvaluatedPoints:
    """The points at which losses have been evaluated, with the Cholesky factor of the losses' covariance.

    points : X (N, d). factor : L (N, N), with L Lᵀ = k(X, X) + noise; computed if it is not given.
    """

    def __init__(self, surrogate: Surrogate, points: np.ndarray, factor: np.ndarray | None = None) -> None:
        self.surrogate, self.points = surrogate, points
        self.kernel = surrogate.kernel_function
        if factor is None:
            factor = np.linalg.cholesky(self.kernel.gram(points, points) + np.diag(self.noise(points)))
        self.factor = factor

    def noise(self, points: np.ndarray) -> np.ndarray:
        """Return (N,) the amounts that are added to the variances at points (N, d): observation noise and jitter."""
        return np.full(len(points), self.surrogate.noise) + JITTER * self.kernel.diagonal(points)

    def latest(self, count: int) -> "EvaluatedPoints":
        """Return the last `count` points with their factor; this object itself if there are no more points."""
        surplus = len(self.points) - count
        return self if surplus <= 0 else EvaluatedPoints(self.surrogate, self.points[surplus:])

    def at(self, theta: np.ndarray) -> "LocalPosterior":
        """Return the posterior of the gradient at theta (d,)."""
        whitened_slopes = solve_triangular(self.factor, self.kernel.slopes(theta, self.points))
        return LocalPosterior(self, theta, whitened_slopes, self._whitened_ones)

    @cached_property
    def _whitened_ones(self) -> np.ndarray:
        """a = L⁻¹ 1 (N,)."""
        return solve_triangular(self.factor, np.ones((len(self.points), 1)))[:, 0]


class LocalPosterior:
    """Posterior of the gradient of a user's loss at one point theta (d,), given the losses at the evaluated points.

    whitened_slopes : V = L⁻¹ D (N, d). whitened_ones : a = L⁻¹ 1 (N,). The process has mean zero, or an unknown
    constant mean for each user, which adds terms with a (ordinary kriging, from two points on: a single loss tells the
    constant at most, and no slope).
    """

    def __init__(
        self, evaluated: EvaluatedPoints, theta: np.ndarray, whitened_slopes: np.ndarray, whitened_ones: np.ndarray
    ) -> None:
        self._evaluated, self._kernel, self.theta = evaluated, evaluated.kernel, theta
        self.whitened_slopes, self.whitened_ones = whitened_slopes, whitened_ones
        self._has_constant = evaluated.surrogate.mean == "constant" and len(whitened_ones) > 1

    @property
    def evaluated(self) -> EvaluatedPoints:
        """Evaluations that the posterior is based on; a property, because a `TrialPosterior` computes it late."""
        return self._evaluated

    @cached_property
    def prior_trace(self) -> float:
        """P, trace of the gradient's covariance before any evaluation."""
        return float(np.trace(self._kernel.prior(self.theta)))

    @cached_property
    def _constant_terms(self) -> tuple[np.ndarray, float]:
        """aᵀV (d,) and aᵀa, which an unknown constant mean adds to the formulas."""
        return self.whitened_ones @ self.whitened_slopes, float(self.whitened_ones @ self.whitened_ones)

    @cached_property
    def covariance(self) -> np.ndarray:
        """Posterior covariance Σ (d, d) of a user's gradient: prior - VᵀV, and for an unknown constant mean
        + (aᵀV)ᵀ(aᵀV)/aᵀa."""
        covariance = self._kernel.prior(self.theta) - self.whitened_slopes.T @ self.whitened_slopes
        if self._has_constant:
            product, square = self._constant_terms
            covariance += np.outer(product, product) / square
        return covariance

    @cached_property
    def unexplained(self) -> float:
        """α/P, the share of the gradient's variance that remains after the evaluations: trace of Σ over P."""
        explained = float((self.whitened_slopes**2).sum())
        if self._has_constant:
            product, square = self._constant_terms
            explained -= float(product @ product) / square
        return max(0.0, 1 - explained / self.prior_trace)

    @cached_property
    def largest_deviation(self) -> float:
        """√λ_max(Σ), the largest posterior standard deviation of the gradient in any direction."""
        return math.sqrt(max(0.0, float(np.linalg.eigvalsh(self.covariance)[-1])))

    @cached_property
    def weights(self) -> np.ndarray:
        """Weights W (N, d): a user with the losses y (N,) at the points has the gradient estimate Wᵀy.

        W = L⁻ᵀ V, or L⁻ᵀ (V - a aᵀV/aᵀa) for an unknown constant mean. Then the columns of W sum to 0, so that a number
        which is added to all losses of a user changes nothing.
        """
        whitened = self.whitened_slopes
        if self._has_constant:
            product, square = self._constant_terms
            whitened = whitened - np.outer(self.whitened_ones, product) / square
        return solve_triangular(self.evaluated.factor, whitened, transposed=True)

    def trial(self, points: np.ndarray) -> "TrialPosterior":
        """Return the posterior after hypothetical further evaluations at points (b, d); points that add no information
        are left out."""
        return TrialPosterior(self, points)


class TrialPosterior(LocalPosterior):
    """Posterior of the gradient at theta after hypothetical evaluations at further points.

    V and a get further rows, which need the small factor of the new points only. The factor of all points is put
    together when `evaluated` is first asked for, so it is not if the evaluations are not made.

    points : (k, d) the proposed points that add information. indices : (k,) theirs among the proposed ones.
    """

    def __init__(self, local: LocalPosterior, points: np.ndarray) -> None:
        evaluated, kernel = local.evaluated, local.evaluated.kernel
        # L⁻¹ k(X, Z) for the new points Z.
        cross = solve_triangular(evaluated.factor, kernel.gram(evaluated.points, points))
        conditional = kernel.gram(points, points) - cross.T @ cross  # covariance at Z, given the losses at X
        self._new_factor, self.indices = factor_of_new(conditional, evaluated.noise(points), kernel.diagonal(points))
        self.points, self._cross = points[self.indices], cross[:, self.indices]
        # New rows of V and a: M⁻¹ (D_Z - CᵀV) and M⁻¹ (1 - Cᵀa), with C = L⁻¹ k(X, Z), M the new points' factor.
        new_slopes = kernel.slopes(local.theta, self.points) - self._cross.T @ local.whitened_slopes
        new_ones = 1 - self._cross.T @ local.whitened_ones
        slope_rows = solve_triangular(self._new_factor, new_slopes)
        one_rows = solve_triangular(self._new_factor, new_ones[:, None])[:, 0]
        whitened_slopes = np.concatenate([local.whitened_slopes, slope_rows])
        super().__init__(evaluated, local.theta, whitened_slopes, np.concatenate([local.whitened_ones, one_rows]))

    @cached_property
    def evaluated(self) -> EvaluatedPoints:
        """Evaluated points including the new ones. Their factor is composed of the old one and the new rows."""
        old = self._evaluated
        n_old, n_new = len(old.points), len(self.points)
        factor = np.zeros((n_old + n_new, n_old + n_new))
        factor[:n_old, :n_old] = old.factor
        factor[n_old:, :n_old] = self._cross.T
        factor[n_old:, n_old:] = self._new_factor
        return EvaluatedPoints(old.surrogate, np.concatenate([old.points, self.points]), factor)


def factor_of_new(covariance: np.ndarray, noise: np.ndarray, variances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the Cholesky factor (k, k) of covariance + noise of the new points that add information, and the indices
    (k,) of these points.

    A point adds information if the part of its variance that remains, given the old points and the earlier new ones, is
    at least the share NOTHING_NEW of it. covariance : (b, b) of the losses at the new points given those at the old
    ones. noise : (b,) that is added to their variances. variances : (b,) prior variances at the new points.
    """
    minimum = noise + NOTHING_NEW * variances
    # The transpose of this symmetric matrix is stored by columns, as LAPACK expects it. clean: above the diagonal are
    # zeros. info > 0: the matrix is not positive definite.
    factor, info = lapack.dpotrf((covariance + np.diag(noise)).T, lower=1, clean=1)
    if not info and (np.diag(factor) ** 2 >= minimum).all():  # squares of the diagonal: what remains of the variances
        return factor, np.arange(len(covariance))
    # Some points add nothing: compute the factor row by row, and leave out their rows.
    indices: list[int] = []
    rows = np.zeros_like(covariance)
    for i in range(len(covariance)):
        k = len(indices)
        row = solve_triangular(rows[:k, :k], covariance[indices, i][:, None])[:, 0]
        remaining = covariance[i, i] + noise[i] - row @ row
        if remaining >= minimum[i]:
            rows[k, :k], rows[k, k] = row, np.sqrt(remaining)
            indices.append(i)
    return rows[: len(indices), : len(indices)], np.array(indices, dtype=int)


def solve_triangular(factor: np.ndarray, right: np.ndarray, transposed: bool = False) -> np.ndarray:
    """Return L⁻¹ B, or L⁻ᵀ B if `transposed`, for a lower triangular factor L (N, N) and right sides B (N, k)."""
    if not right.size:
        return np.zeros(right.shape)
    # LAPACK expects matrices stored by columns. L is stored by rows, so it is passed as Lᵀ, an upper triangle, which
    # needs no copy; then trans=1 solves with L.
    solution, info = lapack.dtrtrs(factor.T, right, lower=0, trans=0 if transposed else 1)
    assert not info
    return solution
