"""Number of rows that a stationary point needs, with all constants, by inverting the bounds of `theory`.

The rates of papers leave out constants and logarithms, which are a factor of several hundred here. For this, the noise
of running sums is needed for epochs of up to 2²⁰ steps, where `theory`, which builds the matrices, would be too slow.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np

from dpviz.families.zeroth_order import theory
from dpviz.families.zeroth_order.theory import Setting
from dpviz.problems.values.value_problem import Kind

Growing = Literal["published", "tree", "square_root", "independent"]  # sums whose noise is known for any T
# The grid over which bounds are minimised: steps of an epoch T, numbers of epochs K, and numbers of rows n.
LENGTHS: tuple[int, ...] = tuple(2**j for j in range(1, 21))
_EPOCHS = 60  # numbers of epochs
_RANGE = (2.0, 11.0)  # powers of ten of the smallest and the largest number of rows
_ROWS = 73  # numbers of rows


@dataclass(frozen=True)
class EstimatorAtAnyLength:
    """Way to estimate gradients from values, with running sums whose noise is known for epochs of any length.

    name : for legends. kind : of the directions. sums : running sums of the variance-reduced oracle, which adds up
        changes of the gradient; None for the naive one, which estimates it afresh. full : True for m = d directions per
        row, False for one.
    """

    name: str
    kind: Kind
    sums: Growing | None
    full: bool = True


WAYS: tuple[EstimatorAtAnyLength, ...] = (
    EstimatorAtAnyLength("as published", "iid", "published"),
    EstimatorAtAnyLength("orthonormal, square root", "orthonormal", "square_root"),
    EstimatorAtAnyLength("naive, one direction", "iid", sums=None, full=False),
    EstimatorAtAnyLength("naive, orthonormal", "orthonormal", sums=None),
)


def mean_variances(sums: Growing, lengths: Sequence[int]) -> np.ndarray:
    """Return (k,) for each of k lengths T of an epoch the noise variance ν_T of a running sum, mean over the T steps,
    per coordinate, at sensitivity 1 and μ = 1; as `theory.mean_variance`, for any length."""
    first_norm, _, mean_square = leaf_norms(sums, lengths)  # the first leaf's norm is the largest
    return np.asarray(first_norm**2 * mean_square)


def leaf_norms(sums: Growing, lengths: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return three numbers on the running sums of an epoch, (k,) each for k lengths T of the epoch, in closed form.

    They are those of `theory.leaf_norms`: the sensitivity of all T sums per unit of change in the first leaf (the
    rows of the first step), the largest one per unit of change in a later leaf, and the mean over the steps of the
    noise variance of a sum, for noise of scale σ = 1.
    """
    T = np.array(lengths, dtype=np.int64)
    ones = np.ones(T.shape)
    if sums == "independent":
        return ones, ones, (T + 1) / 2
    if sums == "square_root":
        first_squared, later_squared, mean_square = np.array(_square_root_norms(tuple(lengths))).T
        return np.sqrt(first_squared), np.sqrt(later_squared), mean_square
    # A binary tree: the first leaf enters a node of every level, any other leaf at least one fewer. The published noise
    # counts ⌈log₂ T⌉ + 1 levels for every leaf.
    if sums == "published":
        first_levels = later_levels = np.ceil(np.log2(T)) + 1
    else:
        first_levels = np.floor(np.log2(T)) + 1
        later_levels = first_levels - 1
    # Sum t adds up one node for each bit that is set in t; `bits` counts those of 1, …, T together.
    bits = np.zeros(T.shape)
    for bit in range(int(T.max()).bit_length()):  # of 0, …, T it is set in the second half of each period
        period = 2 << bit
        bits += (T + 1) // period * (period // 2) + np.maximum((T + 1) % period - period // 2, 0)
    return np.sqrt(first_levels), np.sqrt(later_levels), bits / T


@lru_cache(maxsize=8)
def _square_root_norms(lengths: tuple[int, ...]) -> tuple[tuple[float, float, float], ...]:
    """Return three numbers for each length T of an epoch whose sums have the square-root factorisation.

    Its matrices B and C are Toeplitz, with the entries c_0 = 1, c_k = c_{k-1} (2k-1)/(2k). The numbers are S_T and
    S_{T-1}, the squared norms of the first two columns of C, and the mean of S_1, …, S_T, the squared norms of the rows
    of B, where S_t = Σ_{k<t} c_k².

    The sum of S_1, …, S_T is Σ_{k<T} (T - k) c_k² = (T + 1/4) S_T - Σ_{k<T} (k + 1/4) c_k². The last sum is T² c²_T, as
    its terms are the differences (k + 1)² c²_{k+1} - k² c²_k.
    """
    k = np.arange(1, max(lengths) + 1)
    c_squared = np.cumprod(np.append(1.0, (2 * k - 1) / (2 * k))) ** 2
    S = np.cumsum(c_squared)  # S[t - 1] is S_t
    T = np.array(lengths)
    first, later = S[T - 1], S[T - 2]
    mean = (1 + 1 / (4 * T)) * first - T * c_squared[T]
    return tuple(zip(first.tolist(), later.tolist(), mean.tolist(), strict=True))


@lru_cache(maxsize=64)
def bounds(setting: Setting, way: EstimatorAtAnyLength) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of rows n (k,), ascending, and the smallest bound on stationarity (k,) with each.

    It is the smallest over a grid of T steps per epoch, up to 2²⁰, and K epochs, with moves of at most D = r/T, where r
    is the smoothing radius. Such a bound holds within a radius r + R_w ≤ 2r of the result (R_w: `theory.path_radius`).
    The directions are those of `way`, not of the setting. Both arrays are read-only and cached; to compute them
    takes 5 ms.
    """
    s = replace(setting, kind=way.kind, count=setting.d if way.full else 1)
    rows = np.geomspace(10 ** _RANGE[0], 10 ** _RANGE[1], _ROWS)
    # The axes of the grid: rows n, steps T, epochs K.
    T = np.array(LENGTHS, dtype=float)[None, :, None]
    max_epochs = rows / 2 if way.sums else rows  # with running sums an epoch has two rows at least, one for each half
    K = np.rint(max_epochs[:, None, None] ** np.linspace(0, 1, _EPOCHS))  # from 1 to the most, in equal ratios
    rows_per_epoch = np.floor(rows[:, None, None] / K)
    if way.sums:
        first, later, mean_square = leaf_norms(way.sums, LENGTHS)
        norms = first[None, :, None], later[None, :, None], mean_square[None, :, None]
        bound, _, _ = theory.reduced_grid(s, rows_per_epoch, K, T, norms)
    else:
        bound, _ = theory.naive_grid(s, rows_per_epoch, K, T)
    # More rows never hurt, as rows may be left unused.
    smallest = np.minimum.accumulate(bound.min(axis=(1, 2)))
    for array in (rows, smallest):
        array.flags.writeable = False
    return rows, smallest


def rows_needed(setting: Setting, way: EstimatorAtAnyLength, accuracy: float) -> float:
    """Return M, the smallest number of rows with which the bound is at most ε = accuracy; inf if 10¹¹ are too few.

    Between the numbers of rows of `bounds` it is interpolated in logarithms.
    """
    rows, smallest = bounds(setting, way)
    if smallest[-1] > accuracy:
        return math.inf
    log_bounds, log_rows = np.log(smallest[::-1]), np.log(rows[::-1])  # `interp` needs ascending bounds; they fall in n
    return float(np.exp(np.interp(math.log(accuracy), log_bounds, log_rows)))
