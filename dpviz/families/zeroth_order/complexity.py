"""Number of rows that a stationary point needs, by inverting the planner; and ν_T for epochs of any length.

The rates of papers leave out constants and logarithms, which are a factor of several hundred here.
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
LENGTHS: tuple[int, ...] = tuple(2**j for j in range(1, 21))
_EPOCHS = 60  # of the grid
_RANGE = (2.0, 11.0)  # powers of ten of the numbers of rows in the grid
_ROWS = 73


@dataclass(frozen=True)
class Way:
    """Way to estimate gradients. sums : of the variance-reduced oracle, None for the naive one. full : True for m = d
    directions per row, False for one."""

    name: str
    kind: Kind
    sums: Growing | None
    full: bool = True


WAYS: tuple[Way, ...] = (
    Way("as published", "iid", "published"),
    Way("orthonormal, square root", "orthonormal", "square_root"),
    Way("naive, one direction", "iid", None, full=False),
    Way("naive, orthonormal", "orthonormal", None),
)


def mean_variances(sums: Growing, lengths: Sequence[int]) -> np.ndarray:
    """Return (k,) ν_T as in `theory.mean_variance`, for epochs of any length."""
    first, _, rows = leaf_norms(sums, lengths)
    return np.asarray(first**2 * rows)


def leaf_norms(sums: Growing, lengths: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return `theory.leaf_norms`, (k,) each, for epochs of any length: in closed form, or by one sum for all."""
    T = np.array(lengths, dtype=np.int64)
    ones = np.ones(T.shape)
    if sums == "independent":
        return ones, ones, (T + 1) / 2
    if sums == "square_root":
        first, later, rows = np.array(_square_root(tuple(lengths))).T
        return np.sqrt(first), np.sqrt(later), rows
    published = sums == "published"
    levels = np.ceil(np.log2(T)) + 1 if published else np.floor(np.log2(T)) + 1
    bits = np.zeros(T.shape)
    for bit in range(int(T.max()).bit_length()):  # number of times that it is set in 1, …, T
        period = 2 << bit
        bits += (T + 1) // period * (period // 2) + np.maximum((T + 1) % period - period // 2, 0)
    return np.sqrt(levels), np.sqrt(levels - (not published)), bits / T


@lru_cache(maxsize=8)
def _square_root(lengths: tuple[int, ...]) -> tuple[tuple[float, float, float], ...]:
    """Return, for each length T, S_T, S_(T-1) and the mean of S_1, …, S_T, where S_t = Σ_{k<t} c_k².

    As (k + 1)² c²_{k+1} - k² c²_k = (k + 1/4) c²_k, the sum of the S_t is (T + 1/4) S_T - T² c²_T.
    """
    k = np.arange(1, max(lengths) + 1)
    squares = np.cumprod(np.append(1.0, (2 * k - 1) / (2 * k))) ** 2
    T = np.array(lengths)
    sums = np.cumsum(squares)
    total = sums[T - 1]
    parts = total, sums[T - 2], (1 + 1 / (4 * T)) * total - T * squares[T]
    return tuple(zip(*(part.tolist() for part in parts), strict=True))


@lru_cache(maxsize=64)
def bounds(setting: Setting, way: Way) -> tuple[np.ndarray, np.ndarray]:
    """Return rows n (k,), ascending, and (k,) the smallest bound with each, over epochs of up to 2²⁰ steps; D = r/T.

    Its radius is r + R_w ≤ 2r. The directions are those of `way`, not of the setting. 5 ms; read-only and cached.
    """
    s = replace(setting, kind=way.kind, count=setting.d if way.full else 1)
    rows = np.geomspace(10 ** _RANGE[0], 10 ** _RANGE[1], _ROWS)
    T = np.array(LENGTHS, dtype=float)[None, :, None]
    max_epochs = rows / 2 if way.sums else rows
    K = np.rint(max_epochs[:, None, None] ** np.linspace(0, 1, _EPOCHS))
    rows_per_epoch = np.floor(rows[:, None, None] / K)
    if way.sums:
        first, later, variance = (part[None, :, None] for part in leaf_norms(way.sums, LENGTHS))
        bound = theory.reduced_grid(s, rows_per_epoch, K, T, (first, later, variance))[0]
    else:
        bound = theory.naive_grid(s, rows_per_epoch, K, T)[0]
    smallest = np.minimum.accumulate(bound.min(axis=(1, 2)))
    for array in (rows, smallest):
        array.flags.writeable = False
    return rows, smallest


def rows_needed(setting: Setting, way: Way, accuracy: float) -> float:
    """Return M, the smallest number of rows with which the bound is at most ε = accuracy; inf if 10¹¹ are too few."""
    rows, smallest = bounds(setting, way)
    if smallest[-1] > accuracy:
        return math.inf
    ascending = np.log(smallest[::-1])
    return float(np.exp(np.interp(math.log(accuracy), ascending, np.log(rows[::-1]))))
