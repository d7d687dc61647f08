"""Running sums with the smallest possible noise: optimal factorisations A = B C of the T × T prefix-sum matrix A.

The notation is that of `matrix_factorisation`: C_i is column i of C, and leaf i is the set of rows that query i is
computed on; s_i is the query's sensitivity. Only the first leaf may have another sensitivity than the others.

An optimal factorisation follows from T Lagrange multipliers v_i, one for each leaf, by one eigenvalue problem. To find
the multipliers takes some fifteen such problems. But as a function of the position along the sum, ln v changes little
with T and with the first leaf's sensitivity. So `optimal_sums.npy` has ln v for a few T and sensitivities, at a few
positions, and for others it is interpolated between them. The file is written by

    python -m dpviz.privacy.optimal_sums

The multipliers decide only how good a factorisation is: its variance is at most 10⁻⁵ above the smallest one, as the
search ends 5·10⁻⁶ above it (`_GAP`) and interpolation adds 10⁻⁶. The cost is computed from the factorisation itself, so
it is right for any multipliers.
"""

from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy.linalg import cholesky, eigh_tridiagonal

from dpviz.privacy.matrix_factorisation import LONGEST_DENSE, DenseFactorisation, Factorisation, Floats, checked_length

_GAP = 5e-6  # relative distance of the mean variance to the smallest one, at which the search ends
_FILE = Path(__file__).with_name("optimal_sums.npy")
_LENGTHS = (64, 128, 256, 512)  # values of T on file; shorter sums are optimised when needed, which takes 3 ms at most
# Values on file of log₂ of the first leaf's sensitivity relative to the others'; they are closest around 0.
_FIRSTS = np.concatenate([np.arange(-7, -2, 0.5), np.arange(-2, 2, 0.125), np.arange(2, 7.5, 0.5)])
# Of the coordinates along a sum (`_coordinates`): steps at each end that have a coordinate each; length of the
# coordinate from there to the middle; number of coordinates on file within that length.
_END, _STRETCH, _INNER = 4.0, 10.0, 24


def optimal_mean(length: int, first: float = 1.0) -> Factorisation:
    """Return the factorisation whose mean variance over all prefixes t is the smallest possible one, to 1e-5.

    The method is that of Denisov et al. 2022. Raises UserError for T > 1 024.

    first : sensitivity of the first query relative to that of the others, which are equal; it is clipped to 1/100 to
        100. It only decides for which sensitivities the result is optimal: the cost, `sensitivity(…)` of the result,
        holds for any.
    """
    return _optimal_mean(checked_length(length, LONGEST_DENSE), float(np.clip(first, 0.01, 100.0)))


@lru_cache(maxsize=8)
def _optimal_mean(length: int, first: float) -> Factorisation:
    """Return `optimal_mean` for arguments within the limits; cached for these."""
    sensitivities = _leaf_sensitivities(length, first)
    log_v = _multipliers(sensitivities, _GAP) if length < _LENGTHS[0] else _interpolated(length, first)
    return DenseFactorisation("Optimal (mean)", _encoder(sensitivities, log_v))


def _leaf_sensitivities(length: int, first: float) -> Floats:
    """Return s, (T,): the first is `first` times the others. The largest is 1; it fixes the scale of the matrices."""
    sensitivities = np.ones(length)
    sensitivities[0] = first
    return sensitivities / sensitivities.max()


# --------------------------------------------------------------------------------------------------------- optimisation


def _multipliers(sensitivities: Floats, gap: float) -> Floats:
    """Return ln v, (T,), the logarithms of the multipliers of the best factorisation.

    sensitivities : s, (T,), of the leaves. gap : relative distance of the mean variance to the smallest one.

    The variance is minimised over X = CᵀC under s_i² X_ii ≤ 1. Let v_i = q_i² be the multipliers of these constraints.
    Then X = D⁻¹ (MᵀM)^(1/2) D⁻¹ with M = A D, D = diag(s q). At the optimum s_i² X_ii is the same for all i. By duality
    its maximum divided by its mean, weighted by v, bounds the distance to the optimum. The fixed-point iteration
    v_i ← v_i X_ii s_i² (Denisov et al. 2022) is applied to ln v, with steps of double length and extrapolation.
    """
    points: list[Floats] = []
    residuals: list[Floats] = []
    length = len(sensitivities)
    log_v = np.zeros(length)
    for _ in range(100):
        q = np.exp(log_v / 2)
        sigmas, vectors = _right_singular(sensitivities * q)
        constraints = (vectors**2 @ sigmas) / q**2  # s_i² X_ii, as D X D = (MᵀM)^(1/2)
        mean = sigmas.sum() / (q @ q)  # of these, with weights v = q²
        if constraints.max() <= (1 + gap) * mean:
            return log_v
        # The last six points, and the step of the iteration at each.
        points, residuals = [*points[-5:], log_v], [*residuals[-5:], np.log(constraints / mean)]
        log_v = _extrapolated(points, residuals)
    raise ArithmeticError(f"the optimal factorisation for {length} steps did not converge")


def _encoder(sensitivities: Floats, log_v: Floats) -> Floats:
    """Return C for the multipliers `log_v`, scaled so that s_i ‖C_i‖ = 1 for all i; arguments as in `_multipliers`."""
    sigmas, vectors = _right_singular(sensitivities * np.exp(log_v / 2))
    gram = (vectors * sigmas) @ vectors.T  # (MᵀM)^(1/2) = D X D
    # A usual Cholesky factor L has L Lᵀ = gram; in reversed order it is the lower-triangular F with FᵀF = gram.
    factor = cholesky(gram[::-1, ::-1], lower=True).T[::-1, ::-1]
    norms = np.sqrt(vectors**2 @ sigmas)  # s_i q_i √X_ii, the norms of the columns of the factor
    return factor / (norms * sensitivities)


def _right_singular(d: Floats) -> tuple[Floats, Floats]:
    """Return the singular values (T,) and right singular vectors (T, T) of M = A diag(d), in O(T²).

    A⁻¹ has 1 on the diagonal and -1 below it, so (MᵀM)⁻¹ is tridiagonal. It has the same eigenvectors as MᵀM, and the
    eigenvalues σ⁻².
    """
    diagonal = np.full(len(d), 2.0)  # of A⁻¹ A⁻ᵀ
    diagonal[0] = 1.0
    eigenvalues, vectors = eigh_tridiagonal(diagonal / d**2, -1 / (d[:-1] * d[1:]))
    return eigenvalues**-0.5, vectors


def _extrapolated(points: list[Floats], residuals: list[Floats]) -> Floats:
    """Return the next point of the iteration x ← x + 2 f(x), by Anderson's extrapolation.

    points, residuals : the last few x, newest last, and f(x) of each.
    """
    step = points[-1] + 2 * residuals[-1]
    if len(points) == 1:
        return step
    d_points, d_residuals = np.diff(points, axis=0).T, np.diff(residuals, axis=0).T
    # The combination of recent changes of f that is nearest to the newest f is subtracted, with its changes of x.
    coefficients, *_ = np.linalg.lstsq(d_residuals, residuals[-1], rcond=None)
    return step - (d_points + 2 * d_residuals) @ coefficients


# ------------------------------------------------------------------------------------------------- multipliers on file


def _coordinates(positions: Floats, length: int) -> Floats:
    """Return coordinates from -13 to 13 for steps along a sum of `length` steps; the middle has coordinate 0.

    The first and the last four steps are 1 apart. Between them the coordinate is linear in the logarithm of the
    distance to the nearer end. In these coordinates the multipliers of sums of different lengths look alike.

    positions : numbers of the steps, from 1.
    """
    half = (length + 1) / 2
    to_end = np.minimum(positions, length + 1 - positions)
    fractions = np.log(np.maximum(to_end, _END) / _END) / np.log(half / _END)
    coordinates = np.where(to_end <= _END, to_end, _END + _STRETCH * fractions) - (_END + _STRETCH)
    return np.where(positions <= half, coordinates, -coordinates)


def _nodes() -> Floats:
    """Return the coordinates at which the file has multipliers, ascending: up to the middle, and mirror images."""
    first_half = np.append(np.arange(1.0, _END + 1), _END + _STRETCH * np.arange(1, _INNER + 1) / _INNER)
    first_half -= _END + _STRETCH
    mirror_image = -first_half[-2::-1]  # without the middle
    return np.append(first_half, mirror_image)


@lru_cache(maxsize=1)
def _on_file() -> Floats:
    """Return ln v from the file, up to a constant: an array of axes _LENGTHS, _FIRSTS, and the coordinates `_nodes`."""
    return np.load(_FILE, allow_pickle=False).astype(float)


def _interpolated(length: int, first: float) -> Floats:
    """Return ln v, (T,), by cubic interpolation of the file in ln T, then in ln `first`, then in the coordinate."""
    (at_length,) = _cubic(np.log2(_LENGTHS), _on_file(), np.log2([length]))  # of axes _FIRSTS and `_nodes`
    (at_first,) = _cubic(_FIRSTS, at_length, np.log2([first]))
    return _cubic(_nodes(), at_first, _coordinates(np.arange(1.0, length + 1), length))


def _cubic(grid: Floats, values: Floats, at: Floats) -> Floats:
    """Interpolate `values` (k, ...), given on an ascending grid (k,), at the points `at` (m,); return (m, ...).

    The value at a point is that of the cubic polynomial through the four nearest grid points (Lagrange's formula).
    """
    nearest = np.clip(np.searchsorted(grid, at) - 2, 0, len(grid) - 4)[:, None] + np.arange(4)
    nodes = grid[nearest]
    weights = np.ones(nearest.shape)
    for i in range(4):
        for j in set(range(4)) - {i}:
            weights[:, i] *= (at - nodes[:, j]) / (nodes[:, i] - nodes[:, j])
    return np.einsum("mi,mi...->m...", weights, values[nearest])


def tabulated(length: int, first: float) -> Floats:
    """Return a row of the file: ln v at the coordinates `_nodes`, 0 in the middle, for T = `length` and one `first`.

    It is optimised to a tenth of _GAP, so that errors of interpolation have room.
    """
    log_v = _multipliers(_leaf_sensitivities(length, first), _GAP / 10)
    return _cubic(_coordinates(np.arange(1.0, length + 1), length), log_v - log_v[length // 2], _nodes())


if __name__ == "__main__":
    np.save(_FILE, np.array([[tabulated(T, 2.0**r) for r in _FIRSTS] for T in _LENGTHS], dtype=np.float32))
