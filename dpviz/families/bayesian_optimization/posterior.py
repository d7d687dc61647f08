"""Posterior of every user's gradient. All users are evaluated at the same points, so one factor serves all of them, and
none of their losses enters here (THEORY.md, section 3)."""

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
MIN_NOISE = 1e-6  # relative, assumed where observations have none


class Kernel(ABC):
    """Covariance k(x, z) of one user's losses at two points, in units of their variance."""

    @abstractmethod
    def gram(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return (N, M) k between points x (N, d) and z (M, d)."""

    def diagonal(self, x: np.ndarray) -> np.ndarray:
        """Return (N,) k(x, x) of points (N, d); 1 for stationary kernels."""
        return np.ones(len(x))

    @abstractmethod
    def slopes(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return (N, d) ∇ₓ k(x, z_j) at one point x (d,) for points z (N, d)."""

    @abstractmethod
    def mixed(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return (d, d) ∂²k(x, z)/∂x_a∂z_b at two points (d,)."""

    def prior(self, x: np.ndarray) -> np.ndarray:
        """Return the covariance (d, d) of the gradient at x (d,) before any evaluation."""
        return self.mixed(x, x)


@dataclass(frozen=True)
class SquaredExponential(Kernel):
    """Kernel exp(-r²/2), r = ‖x - z‖/ℓ."""

    length: float

    def gram(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.exp(-squares(x, z) / (2 * self.length**2))

    def slopes(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        away = (z - x) / self.length**2
        return away * self.gram(x[None], z)[0][:, None]

    def mixed(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        away = (x - z) / self.length**2
        k = math.exp(-float(away @ (x - z)) / 2)
        return k * (np.eye(len(x)) / self.length**2 - np.outer(away, away))


@dataclass(frozen=True)
class Matern(Kernel):
    """Matérn's kernel of smoothness 5/2, (1 + √5 r + 5r²/3) exp(-√5 r), r = ‖x - z‖/ℓ."""

    length: float

    def gram(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        r = ROOT_5 * np.sqrt(squares(x, z)) / self.length
        return (1 + r + r**2 / 3) * np.exp(-r)

    def slopes(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        r = ROOT_5 * np.sqrt(squares(x[None], z)[0]) / self.length
        return (z - x) * ((5 / 3) / self.length**2 * (1 + r) * np.exp(-r))[:, None]

    def mixed(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        away = x - z
        r = ROOT_5 * math.sqrt(float(away @ away)) / self.length
        inner = (1 + r) * np.eye(len(x)) - 5 * np.outer(away, away) / self.length**2
        return 5 / (3 * self.length**2) * math.exp(-r) * inner


@dataclass(frozen=True)
class Quadratic(Kernel):
    """Kernel (1 + xᵀz)² of quadratic functions, known exactly after (d + 1)(d + 2)/2 evaluations. Not stationary."""

    def gram(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return (1 + x @ z.T) ** 2

    def diagonal(self, x: np.ndarray) -> np.ndarray:
        return (1 + (x**2).sum(axis=1)) ** 2

    def slopes(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return 2 * (1 + z @ x)[:, None] * z

    def mixed(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return 2 * (1 + x @ z) * np.eye(len(x)) + 2 * np.outer(z, x)


def squares(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return (N, M) ‖x - z‖² between points (N, d) and (M, d), computed from their middle, so that less cancels for
    near points."""
    middle = z.mean(axis=0) if len(z) else 0.0
    x, z = x - middle, z - middle
    lengths = np.einsum("ij,ij->i", x, x)[:, None] + np.einsum("ij,ij->i", z, z)
    return np.maximum(lengths - 2 * (x @ z.T), 0.0)


class Surrogate(Specification):
    """Gaussian process for the loss of one user, chosen without its losses: privacy does not depend on it, but it must
    not be fitted to the users' losses (THEORY.md, E3)."""

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

    def observing(self, deviation: float, factor: float = 1.0) -> "Surrogate":
        """Return this process with the noise of observations with a declared standard deviation, times a factor.

        A noise that is set replaces the declared one.
        """
        declared = deviation**2 if self.relative_noise is None else self.relative_noise
        minimum = MIN_NOISE if self.relative_noise is None else 0.0
        return self.replaced(relative_noise=min(100.0, max(minimum, 1e-10, declared * factor**2)))

    @property
    def covariance(self) -> Kernel:
        """Kernel of the process."""
        if self.kernel == "quadratic":
            return Quadratic()
        return (SquaredExponential if self.kernel == "rbf" else Matern)(self.length_scale)


JITTER = 1e-12  # of the mean variance
NOTHING_NEW = 1e-8  # of a point's variance: if less than this remains, the point adds no information


class Evaluated:
    """Points at which losses are known, and the Cholesky factor of their covariance.

    points : (N, d). factor : (N, N) lower triangular, L Lᵀ = k(X, X) + noise.
    """

    def __init__(self, surrogate: Surrogate, points: np.ndarray, factor: np.ndarray | None = None) -> None:
        self.surrogate, self.points = surrogate, points
        self.kernel = surrogate.covariance
        self.factor = self._factorised(points) if factor is None else factor

    def _factorised(self, points: np.ndarray) -> np.ndarray:
        if not len(points):
            return np.zeros((0, 0))
        return np.linalg.cholesky(self.kernel.gram(points, points) + np.diag(self.noise(points)))

    def noise(self, points: np.ndarray) -> np.ndarray:
        """Return (N,) the amounts added to the variances at points (N, d): observation noise and jitter."""
        return np.full(len(points), self.surrogate.noise) + JITTER * self.kernel.diagonal(points)

    def latest(self, count: int) -> "Evaluated":
        """Return the last `count` points only, with their factor."""
        dropped = len(self.points) - count
        return self if dropped <= 0 else Evaluated(self.surrogate, self.points[dropped:])

    def at(self, theta: np.ndarray) -> "Local":
        """Return the posterior of the gradient at theta (d,)."""
        return Local(self, theta, solved(self.factor, self.kernel.slopes(theta, self.points)), self._ones)

    @cached_property
    def _ones(self) -> np.ndarray:
        """L⁻¹ 1 (N,)."""
        return solved(self.factor, np.ones((len(self.points), 1)))[:, 0]


class Local:
    """Posterior of the gradient at one point theta (d,).

    slopes : V = L⁻¹ D (N, d), D the slopes of the kernel. ones : a = L⁻¹ 1 (N,).
    """

    def __init__(self, known: Evaluated, theta: np.ndarray, slopes: np.ndarray, ones: np.ndarray) -> None:
        self._known, self.theta, self.slopes, self.ones = known, theta, slopes, ones
        self._kernel, self._constant = known.kernel, known.surrogate.mean == "constant" and len(ones) > 1

    @property
    def known(self) -> Evaluated:
        """Evaluations that the posterior is based on."""
        return self._known

    @cached_property
    def prior(self) -> float:
        """P(θ), trace of the gradient's covariance before any evaluation."""
        return float(np.trace(self._kernel.prior(self.theta)))

    @cached_property
    def _constant_terms(self) -> tuple[np.ndarray, float]:
        """aᵀV (d,) and aᵀa, from which the variance due to an unknown constant follows."""
        return self.ones @ self.slopes, float(self.ones @ self.ones)

    @cached_property
    def covariance(self) -> np.ndarray:
        """Σ (d, d) of a user's gradient, for unit amplitude."""
        covariance = self._kernel.prior(self.theta) - self.slopes.T @ self.slopes
        if self._constant:
            product, square = self._constant_terms
            covariance += np.outer(product, product) / square
        return covariance

    @cached_property
    def unexplained(self) -> float:
        """α/P, share of the gradient's variance that remains after the evaluations."""
        explained = float((self.slopes**2).sum())
        if self._constant:
            product, square = self._constant_terms
            explained -= float(product @ product) / square
        return max(0.0, 1 - explained / self.prior)

    @cached_property
    def largest(self) -> float:
        """√λ_max(Σ), largest standard deviation of the gradient in any direction, for unit amplitude."""
        return math.sqrt(max(0.0, float(np.linalg.eigvalsh(self.covariance)[-1])))

    @cached_property
    def weights(self) -> np.ndarray:
        """W (N, d): a user with losses y (N,) at the points has the gradient estimate Wᵀy. With an unknown constant,
        columns sum to 0."""
        slopes = self.slopes
        if self._constant:
            product, square = self._constant_terms
            slopes = slopes - np.outer(self.ones, product) / square
        return solved(self.known.factor, slopes, transposed=True)

    def trial(self, points: np.ndarray) -> "Trial":
        """Return the posterior after further evaluations at points (b, d), without those that add no information."""
        return Trial(self, points)


class Trial(Local):
    """Local posterior with hypothetical evaluations; the large factor is put together only if they are made.

    kept : (k,) indices of the proposed points that add information. points : (k, d) these points.
    """

    def __init__(self, local: Local, points: np.ndarray) -> None:
        known, kernel = local.known, local.known.kernel
        cross = solved(known.factor, kernel.gram(known.points, points))
        conditional = kernel.gram(points, points) - cross.T @ cross
        self._new_factor, self.kept = factor_of_new(conditional, known.noise(points), kernel.diagonal(points))
        self.points, self._cross = points[self.kept], cross[:, self.kept]
        new_slopes = kernel.slopes(local.theta, self.points) - self._cross.T @ local.slopes
        new_ones = 1 - self._cross.T @ local.ones
        slopes = np.concatenate([local.slopes, solved(self._new_factor, new_slopes)])
        ones = np.concatenate([local.ones, solved(self._new_factor, new_ones[:, None])[:, 0]])
        super().__init__(known, local.theta, slopes, ones)

    @cached_property
    def known(self) -> Evaluated:
        """Evaluations including the hypothetical ones: the factor grows, and is not computed again."""
        old = self._known
        n, count = len(old.points), len(self.points)
        factor = np.zeros((n + count, n + count))
        factor[:n, :n], factor[n:, :n], factor[n:, n:] = old.factor, self._cross.T, self._new_factor
        return Evaluated(old.surrogate, np.concatenate([old.points, self.points]), factor)


def factor_of_new(covariance: np.ndarray, noise: np.ndarray, variances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the Cholesky factor of covariance + noise for the new points that add information, and their indices (k,).

    A point adds information if its variance given the old points and the earlier new ones is at least NOTHING_NEW of
    its variance. covariance : (b, b) of the new points given the old ones. noise, variances : (b,) of the new points.
    """
    minimum = noise + NOTHING_NEW * variances
    factor, info = lapack.dpotrf((covariance + np.diag(noise)).T, lower=1, clean=1)
    if not info and (np.diag(factor) ** 2 >= minimum).all():
        return factor, np.arange(len(covariance))
    indices: list[int] = []
    rows = np.zeros_like(covariance)
    for i in range(len(covariance)):
        k = len(indices)
        row = solved(rows[:k, :k], covariance[indices, i][:, None])[:, 0]
        remaining = covariance[i, i] + noise[i] - row @ row
        if remaining >= minimum[i]:
            rows[k, :k], rows[k, k] = row, np.sqrt(remaining)
            indices.append(i)
    return rows[: len(indices), : len(indices)], np.array(indices, dtype=int)


def solved(factor: np.ndarray, right: np.ndarray, transposed: bool = False) -> np.ndarray:
    """Return L⁻¹ B, or L⁻ᵀ B, for a lower triangular factor L (N, N) and B (N, k)."""
    if not right.size:
        return np.zeros(right.shape)
    # LAPACK reads columns first: a matrix in rows is its transpose, an upper triangle.
    solution, info = lapack.dtrtrs(factor.T, right, lower=0, trans=0 if transposed else 1)
    assert not info
    return solution
