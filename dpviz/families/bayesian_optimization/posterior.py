"""The posterior of every user's gradient. All users are evaluated at the same points, so one factor serves all of them,
and none of their losses enters here (THEORY.md, section 3)."""

import math
from functools import cached_property

import numpy as np
from scipy.linalg import lapack

from dpviz.families.bayesian_optimization.kernels import Surrogate

JITTER = 1e-12  # of the mean variance
NOTHING_NEW = 1e-8  # of a point's variance: who knows it up to this much does not evaluate there


class Evaluated:
    """The points at which losses are known, and the Cholesky factor of their covariance.

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
        """(N,) what is added to the variances at points (N, d): observation noise and jitter."""
        return np.full(len(points), self.surrogate.noise) + JITTER * self.kernel.diagonal(points)

    def latest(self, count: int) -> "Evaluated":
        """Itself with the last `count` points only."""
        old = len(self.points) - count
        return self if old <= 0 else Evaluated(self.surrogate, self.points[old:])

    def at(self, theta: np.ndarray) -> "Local":
        """What is known of the gradient at theta (d,)."""
        return Local(self, theta, solved(self.factor, self.kernel.slopes(theta, self.points)), self._ones)

    @cached_property
    def _ones(self) -> np.ndarray:
        return solved(self.factor, np.ones((len(self.points), 1)))[:, 0]


class Local:
    """What is known of the gradient at one point theta (d,).

    slopes : V = L⁻¹ D (N, d), D the slopes of the kernel. ones : a = L⁻¹ 1 (N,).
    """

    def __init__(self, known: Evaluated, theta: np.ndarray, slopes: np.ndarray, ones: np.ndarray) -> None:
        self._known, self.theta, self.slopes, self.ones = known, theta, slopes, ones
        self._kernel, self._constant = known.kernel, known.surrogate.mean == "constant" and len(ones) > 1

    @property
    def known(self) -> Evaluated:
        """The evaluations that this rests on."""
        return self._known

    @cached_property
    def prior(self) -> float:
        """P(θ), the trace of the gradient's covariance before any evaluation."""
        return float(np.trace(self._kernel.prior(self.theta)))

    @cached_property
    def _pulled(self) -> tuple[np.ndarray, float]:
        """aᵀV (d,) and aᵀa: what an unknown constant takes away."""
        return self.ones @ self.slopes, float(self.ones @ self.ones)

    @cached_property
    def covariance(self) -> np.ndarray:
        """Σ (d, d) of a user's gradient, for unit amplitude."""
        found = self._kernel.prior(self.theta) - self.slopes.T @ self.slopes
        if self._constant:
            along, size = self._pulled
            found += np.outer(along, along) / size
        return found

    @cached_property
    def unexplained(self) -> float:
        """α/P: the share of the gradient's variance that the evaluations leave."""
        explained = float((self.slopes**2).sum())
        if self._constant:
            along, size = self._pulled
            explained -= float(along @ along) / size
        return max(0.0, 1 - explained / self.prior)

    @cached_property
    def largest(self) -> float:
        """√λ_max(Σ), the largest standard deviation of the gradient in any direction, for unit amplitude."""
        return math.sqrt(max(0.0, float(np.linalg.eigvalsh(self.covariance)[-1])))

    @cached_property
    def weights(self) -> np.ndarray:
        """W (N, d): a user with losses y (N,) at the points has the gradient estimate Wᵀy. With an unknown constant,
        columns sum to 0."""
        slopes = self.slopes
        if self._constant:
            along, size = self._pulled
            slopes = slopes - np.outer(self.ones, along) / size
        return solved(self.known.factor, slopes, transposed=True)

    def trial(self, points: np.ndarray) -> "Trial":
        """What would be known after evaluations at points (b, d), too; those that tell nothing new are left out."""
        return Trial(self, points)


class Trial(Local):
    """A local posterior with hypothetical evaluations; the large factor is put together only if they are made.

    kept : (k,) which of the points that were proposed; the others tell nothing new. points : (k, d) those.
    """

    def __init__(self, before: Local, points: np.ndarray) -> None:
        known, kernel = before.known, before.known.kernel
        self._across = solved(known.factor, kernel.gram(known.points, points))
        rest = kernel.gram(points, points) - self._across.T @ self._across
        self._own, self.kept = factor_of_new(rest, known.noise(points), kernel.diagonal(points))
        self.points, self._across = points[self.kept], self._across[:, self.kept]
        own = kernel.slopes(before.theta, self.points) - self._across.T @ before.slopes
        ones = 1 - self._across.T @ before.ones
        slopes = np.concatenate([before.slopes, solved(self._own, own)])
        both = np.concatenate([before.ones, solved(self._own, ones[:, None])[:, 0]])
        super().__init__(known, before.theta, slopes, both)

    @cached_property
    def known(self) -> Evaluated:
        """What is known if the evaluations are made: the factor grows, and is not computed again."""
        before = self._known
        old, count = len(before.points), len(self.points)
        factor = np.zeros((old + count, old + count))
        factor[:old, :old], factor[old:, :old], factor[old:, old:] = before.factor, self._across.T, self._own
        return Evaluated(before.surrogate, np.concatenate([before.points, self.points]), factor)


def factor_of_new(rest: np.ndarray, noise: np.ndarray, variances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cholesky factor of rest + noise, and the places (k,) of the points that were kept: what the old points and the
    earlier new ones leave of a point's variance is more than NOTHING_NEW of it.

    rest : (b, b) covariance of new points given the old ones. noise, variances : (b,), of the new points.
    """
    least = noise + NOTHING_NEW * variances
    factor, failed = lapack.dpotrf((rest + np.diag(noise)).T, lower=1, clean=1)
    if not failed and (np.diag(factor) ** 2 >= least).all():
        return factor, np.arange(len(rest))
    kept: list[int] = []
    rows = np.zeros_like(rest)
    for i in range(len(rest)):
        row = solved(rows[: len(kept), : len(kept)], rest[kept, i][:, None])[:, 0]
        left = rest[i, i] + noise[i] - row @ row
        if left >= least[i]:
            rows[len(kept), : len(kept)], rows[len(kept), len(kept)] = row, np.sqrt(left)
            kept.append(i)
    return rows[: len(kept), : len(kept)], np.array(kept, dtype=int)


def solved(factor: np.ndarray, right: np.ndarray, transposed: bool = False) -> np.ndarray:
    """L⁻¹ B, or L⁻ᵀ B, of a lower triangular factor (N, N) and B (N, k)."""
    if not right.size:
        return np.zeros(right.shape)
    # LAPACK reads columns first: a matrix in rows is its transpose, an upper triangle.
    found, failed = lapack.dtrtrs(factor.T, right, lower=0, trans=0 if transposed else 1)
    assert not failed
    return found
