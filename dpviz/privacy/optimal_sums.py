"""Running sums with the smallest possible noise: factorisations of the prefix-sum matrix that are optimal.

To find one takes some fifteen eigenvalue problems; but it follows from T numbers, the multipliers, which change little
with T and with the first leaf's sensitivity. So `optimal_sums.npy` has those for a few T and sensitivities, at some
coordinates along the sum. Between them they are interpolated: one eigenvalue problem remains. The file is written by

    python -m dpviz.privacy.optimal_sums

The multipliers decide only how good a factorisation is, 10⁻⁶ above the smallest variance at most; its cost is computed
from the factorisation itself, for any multipliers.
"""

from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.linalg import cholesky, eigh_tridiagonal

from dpviz.privacy.matrix_factorisation import LONGEST_DENSE, DenseFactorisation, Factorisation, Floats, checked

_GAP = 1e-5  # of the optimised variance above the smallest possible one, relative, at most
_FILE = Path(__file__).with_name("optimal_sums.npy")
_LENGTHS = (64, 128, 256, 512)  # of the file; shorter sums are optimised at once, which takes 3 ms at most
# log₂ of the first leaf's sensitivity relative to the others', closer where they are alike.
_FIRSTS = np.concatenate([np.arange(-7, -2, 0.5), np.arange(-2, 2, 0.125), np.arange(2, 7.5, 0.5)])
_END, _STRETCH, _INNER = 4.0, 10.0, 24  # see `_places`


@lru_cache(maxsize=8)
def optimal_max(length: int) -> Factorisation:
    """Return the factorisation with the smallest possible noise at the worst t, γ₂(A) (Matoušek et al. 2020), to 1e-5.
    UserError: T > 1 024."""
    leaves = np.ones(checked(length, LONGEST_DENSE))
    return DenseFactorisation("Optimal (maximum)", _encoder("max", leaves, _multipliers("max", leaves)))


def optimal_mean(length: int, first: float = 1.0) -> Factorisation:
    """Return the factorisation with the smallest possible mean variance over t (Denisov et al. 2022), to 1e-5.
    UserError: T > 1 024.

    first : sensitivity of the first query relative to the others', which are equal. It only steers the optimisation
        (from 1/100 to 100; beyond, these): the cost of the result is `sensitivity(leaves)`, for any leaves.
    """
    return _optimal_mean(checked(length, LONGEST_DENSE), float(np.clip(first, 0.01, 100.0)))


@lru_cache(maxsize=8)
def _optimal_mean(length: int, first: float) -> Factorisation:
    leaves = _leaves(length, first)
    log_v = _multipliers("mean", leaves) if length < _LENGTHS[0] else _interpolated(length, first)
    return DenseFactorisation("Optimal (mean)", _encoder("mean", leaves, log_v))


def _leaves(length: int, first: float) -> Floats:
    """Return the leaf sensitivities s (T,), the largest of which is 1."""
    leaves = np.ones(length)
    leaves[0] = first
    return leaves / leaves.max()


# --------------------------------------------------------------------------------------------------------- optimisation


def _multipliers(objective: Literal["mean", "max"], leaves: Floats, gap: float | None = None) -> Floats:
    """Return ln v (T,) of the best factorisation; `leaves` (s, equal for "max") is (T,). gap : `_GAP`, unless given.

    The variance is minimised over X = CᵀC under s_i² X_ii ≤ 1. With multipliers v = q² of these constraints and
    weights p² of the rows (p = 1 for the mean; at the maximum they mirror v, because reversing rows and columns
    transposes A), X = D⁻¹ (MᵀM)^(1/2) D⁻¹ with M = diag(p) A D, D = diag(s q). X_ii s_i² is the same for all i at the
    optimum, and its largest value over its mean bounds the distance to it (duality).
    The fixed-point iteration v_i ← v_i X_ii s_i² (Denisov et al. 2022) is taken in ln v, over-relaxed and extrapolated.
    """
    points: list[Floats] = []
    residuals: list[Floats] = []
    log_v, length = np.zeros(len(leaves)), len(leaves)
    for _ in range(100):
        singular, vectors, q = _decomposed(objective, leaves, log_v)
        scaled = (vectors**2 @ singular) / q**2  # s_i² X_ii
        mean = singular.sum() / (q @ q)
        if scaled.max() <= (1 + (_GAP if gap is None else gap) / 2) * mean:
            return log_v
        points, residuals = [*points[-5:], log_v], [*residuals[-5:], np.log(scaled / mean)]
        log_v = _extrapolated(points, residuals)
    raise ArithmeticError(f"the optimal factorisation for {length} steps did not converge")


def _encoder(objective: Literal["mean", "max"], leaves: Floats, log_v: Floats) -> Floats:
    """Return C for these multipliers, with s_i ‖C_i‖ = 1 for all i."""
    singular, vectors, _ = _decomposed(objective, leaves, log_v)
    norms = np.sqrt(vectors**2 @ singular)  # s_i q_i √X_ii
    return _cholesky_reversed((vectors * singular) @ vectors.T) / (norms * leaves)


def _decomposed(objective: Literal["mean", "max"], leaves: Floats, log_v: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the singular values and right singular vectors of M, and q."""
    q = np.exp(log_v / 2)
    return *_right_singular(q[::-1] if objective == "max" else np.ones(len(q)), leaves * q), q


def _right_singular(p: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Return the singular values (T,) and right singular vectors (T, T) of diag(p) A diag(q), in O(T²): as A⁻¹ is
    bidiagonal, the inverse of its Gram matrix is tridiagonal."""
    weights = p**-2
    diagonal = weights + np.append(0.0, weights[:-1])
    eigenvalues, vectors = eigh_tridiagonal(diagonal / q**2, -weights[:-1] / (q[:-1] * q[1:]))
    return eigenvalues**-0.5, vectors


def _cholesky_reversed(gram: Floats) -> Floats:
    """Return the lower-triangular C with CᵀC = gram."""
    return cholesky(gram[::-1, ::-1], lower=True).T[::-1, ::-1]


def _extrapolated(points: list[Floats], residuals: list[Floats]) -> Floats:
    """Return the next point of x ← x + 2 f(x), by Anderson's extrapolation from the last few."""
    step = points[-1] + 2 * residuals[-1]
    if len(points) == 1:
        return step
    d_points, d_residuals = np.diff(points, axis=0).T, np.diff(residuals, axis=0).T
    return step - (d_points + 2 * d_residuals) @ np.linalg.lstsq(d_residuals, residuals[-1], rcond=None)[0]


# ------------------------------------------------------------------------------------------------- multipliers on file


def _coordinates(positions: Floats, length: int) -> Floats:
    """Return coordinates from -14 to 14 of steps along a sum of any length: the first and the last four steps keep
    their distance to the end, the others are placed by its logarithm. So multipliers of different lengths look alike.

    positions : steps, from 1.
    """
    half = (length + 1) / 2
    near = np.minimum(positions, length + 1 - positions)
    fractions = np.log(np.maximum(near, _END) / _END) / np.log(half / _END)
    coordinates = np.where(near <= _END, near, _END + _STRETCH * fractions) - (_END + _STRETCH)
    return np.where(positions <= half, coordinates, -coordinates)


def _nodes() -> Floats:
    """Return the coordinates at which the file has multipliers."""
    first = np.append(np.arange(1.0, _END + 1), _END + _STRETCH * np.arange(1, _INNER + 1) / _INNER)
    first -= _END + _STRETCH
    return np.append(first, -first[-2::-1])


@lru_cache(maxsize=1)
def _on_file() -> Floats:
    """Return (lengths, firsts, coordinates) ln v, 0 in the middle."""
    return np.load(_FILE, allow_pickle=False).astype(float)


def _interpolated(length: int, first: float) -> Floats:
    """Return ln v (T,): cubic in ln T, in the logarithm of the first sensitivity, and along the sum."""
    at_length = _cubic(np.log2(_LENGTHS), _on_file(), np.log2([length]))[0]
    row = _cubic(_FIRSTS, at_length, np.log2([first]))[0]
    return _cubic(_nodes(), row, _coordinates(np.arange(1.0, length + 1), length))


def _cubic(grid: Floats, values: Floats, at: Floats) -> Floats:
    """Return (m, ...) values at `at` (m,) of the cubics through the four nearest of `values` (k, ...) on an ascending
    grid."""
    nearest = np.clip(np.searchsorted(grid, at) - 2, 0, len(grid) - 4)[:, None] + np.arange(4)
    nodes = grid[nearest]
    weights = np.ones(nearest.shape)
    for i in range(4):
        for j in set(range(4)) - {i}:
            weights[:, i] *= (at - nodes[:, j]) / (nodes[:, i] - nodes[:, j])
    return np.einsum("mi,mi...->m...", weights, values[nearest])


def tabulated(length: int, first: float) -> Floats:
    """Return ln v at the coordinates of the file, for a length and a sensitivity: ten times as exact as
    interpolated."""
    log_v = _multipliers("mean", _leaves(length, first), _GAP / 10)
    return _cubic(_coordinates(np.arange(1.0, length + 1), length), log_v - log_v[length // 2], _nodes())


if __name__ == "__main__":
    np.save(_FILE, np.array([[tabulated(T, 2.0**r) for r in _FIRSTS] for T in _LENGTHS], dtype=np.float32))
