"""Distribution of the largest eigenvalue λ_max of a symmetric matrix of noise, for any number d of columns.

There are two shapes of noise, of scale 1. Even noise ("goe") is the same in all directions: its entries have variance 1
on the diagonal and ½ off it. The other shape ("upper") has variance 1 on all entries.

The file noise_spectrum.npy has quantiles of both shapes for a few d. Between these they are interpolated, above 400
extrapolated. A probability is off by at most 0.0005 for even noise, and by 0.006 for the other. The file is written by
`noise_table.py`, in the folder of the tests.
"""

import math
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy.special import log_ndtr

from dpviz.problems.nonconvex.symmetric import Shape

_FILE = Path(__file__).with_name("noise_spectrum.npy")
_SHAPES: tuple[Shape, ...] = ("goe", "upper")
_SIZES = np.array([1, 2, 3, 4, 5, 6, 8, 10, 14, 20, 30, 50, 100, 200, 400])
_SCORES = np.arange(-8.0, 6.25, 0.25)  # Φ⁻¹ of the probabilities of the stored quantiles


def log_chance(d: int, shape: Shape, level: float) -> float:
    """Return ln P(λ_max ≤ level) for noise of scale 1 on symmetric d × d matrices: normal numbers of variance 1 on the
    diagonal, and off it of ½ ("goe") or 1 ("upper").

    The score Φ⁻¹ of the probability is interpolated between the quantiles; beyond them the last line goes on.
    """
    quantiles = _quantiles(d, shape)
    index = int(np.clip(np.searchsorted(quantiles, level), 1, len(quantiles) - 1))
    low, high = quantiles[index - 1 : index + 1].tolist()
    share = (level - low) / (high - low)
    score = _SCORES[index - 1] + share * (_SCORES[index] - _SCORES[index - 1])
    return float(log_ndtr(score))


@lru_cache(maxsize=256)
def _quantiles(d: int, shape: Shape) -> np.ndarray:
    """Return the quantiles of λ_max, (scores,), at the probabilities Φ(_SCORES).

    Those in the file, (shapes, sizes, scores), are normalised by the centre and the scale of `_limit`. Normalised, they
    are linear in d^(-1/3) between the sizes stored, and beyond them.
    """
    rows = np.load(_FILE)[_SHAPES.index(shape)]  # (sizes, scores)
    inverse_roots = _SIZES ** (-1 / 3)
    upper = int(np.clip(np.searchsorted(_SIZES, d), 1, len(_SIZES) - 1))
    share = (d ** (-1 / 3) - inverse_roots[upper - 1]) / (inverse_roots[upper] - inverse_roots[upper - 1])
    normalised = rows[upper - 1] + share * (rows[upper] - rows[upper - 1])
    centre, scale = _limit(d, shape)
    return centre + scale * normalised


def _limit(d: int, shape: Shape) -> tuple[float, float]:
    """Return the centre and the scale of λ_max for large d, by which quantiles are normalised (Tracy, Widom 1996)."""
    factor = math.sqrt(0.5) if shape == "goe" else 1.0
    return factor * 2 * math.sqrt(d), factor * d ** (-1 / 6)
