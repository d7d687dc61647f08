"""Distribution of the largest eigenvalue λ_max of a symmetric matrix of noise, for any number d of columns.

There are two shapes of noise, of scale 1. Even noise ("goe") is the same in all directions: its entries have variance 1
on the diagonal and ½ off it. The other shape ("upper") has variance 1 on all entries.

For even noise the distribution is computed exactly, as the Pfaffian of a matrix of integrals (de Bruijn 1955; Mehta,
"Random matrices"), by Gauss-Legendre quadrature. For the other there is no formula: its quantiles are those of even
noise, with mean, deviation and skewness as simulated. The file noise_spectrum.npy has quantiles of both shapes for a
few d. Between these they are interpolated, above 400 extrapolated. A probability is off by at most 0.0005 for even
noise, and by 0.006 for the other. The file is written in a few minutes by

    python -m dpviz.families.second_order.noise_spectrum
"""

import math
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.polynomial import legendre
from scipy.special import log_ndtr, ndtri

from dpviz.problems.nonconvex.symmetric import Shape

_FILE = Path(__file__).with_name("noise_spectrum.npy")
_SHAPES: tuple[Shape, ...] = ("goe", "upper")
_SIZES = np.array([1, 2, 3, 4, 5, 6, 8, 10, 14, 20, 30, 50, 100, 200, 400])
_SCORES = np.arange(-8.0, 6.25, 0.25)  # Φ⁻¹ of the probabilities of the stored quantiles
_NODES, _PANELS_PER_COLUMN, _MIN_PANELS = 16, 0.5, 40  # of the quadrature: nodes in a panel, numbers of panels
# The simulation of one size draws _DRAWS/d^2.5 matrices, and 2,000 more: by trial, fewer the more time each takes.
_DRAWS = 4e7


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


@lru_cache(maxsize=1)
def _table() -> np.ndarray:
    """Return the stored quantiles, (shapes, sizes, scores), normalised by the centre and the scale of `_limit`."""
    return np.asarray(np.load(_FILE))


@lru_cache(maxsize=256)
def _quantiles(d: int, shape: Shape) -> np.ndarray:
    """Return the quantiles of λ_max, (scores,), at the probabilities Φ(_SCORES).

    Normalised, they are linear in d^(-1/3) between the sizes stored, and beyond them.
    """
    rows, roots = _table()[_SHAPES.index(shape)], _SIZES ** (-1 / 3)  # a row of quantiles for each size
    upper = int(np.clip(np.searchsorted(_SIZES, d), 1, len(_SIZES) - 1))
    share = (d ** (-1 / 3) - roots[upper - 1]) / (roots[upper] - roots[upper - 1])
    normalised = rows[upper - 1] + share * (rows[upper] - rows[upper - 1])
    centre, scale = _limit(d, shape)
    return centre + scale * normalised


def _limit(d: int, shape: Shape) -> tuple[float, float]:
    """Return the centre and the scale of λ_max for large d, by which quantiles are normalised (Tracy, Widom 1996)."""
    factor = math.sqrt(0.5) if shape == "goe" else 1.0
    return factor * 2 * math.sqrt(d), factor * d ** (-1 / 6)


# ------------------------------------------------------------------------------------------------------- the file


def _integrals(d: int, top: float) -> np.ndarray:
    """Return the matrix whose Pfaffian is P(λ_max ≤ top) times a constant, for even noise on d × d matrices.

    Its entries are the integrals of φᵢ(u)φⱼ(v) - φⱼ(u)φᵢ(v) over u < v ≤ top, of the Hermite functions φ₀ to φ_{d-1};
    for odd d a last row and column have the integrals of φᵢ up to top. The range is divided into panels, on each of
    which the functions are taken at Gauss-Legendre nodes.
    """
    nodes, weights = legendre.leggauss(_NODES)
    panels = max(_MIN_PANELS, int(_PANELS_PER_COLUMN * d))
    # Beyond ±√(2d) Hermite functions decay: 9 farther out they are below e^-40, and count as 0.
    edges = np.linspace(-math.sqrt(2 * d) - 9, top, panels + 1)
    half = (edges[1] - edges[0]) / 2
    x = ((edges[:-1] + half)[:, None] + half * nodes).ravel()  # nodes of all panels
    values = np.empty((d, len(x)))  # φⱼ at all nodes, by their three-term recursion
    values[0] = math.pi**-0.25 * np.exp(-x * x / 2)
    for j in range(1, d):
        second_term = math.sqrt((j - 1) / j) * values[j - 2] if j > 1 else 0.0
        values[j] = math.sqrt(2 / j) * x * values[j - 1] - second_term
    # A matrix that turns values at the nodes of [-1, 1] into integrals from -1 up to each node, read from the right:
    # values to Legendre coefficients, to those of the antiderivative, to its values at the nodes.
    coefficients = np.linalg.inv(legendre.legvander(nodes, _NODES - 1))
    antiderivatives = legendre.legint(np.eye(_NODES), lbnd=-1)  # of each Legendre polynomial, one in each column
    up_to_node = legendre.legvander(nodes, _NODES) @ antiderivatives @ coefficients
    by_panel = values.reshape(d, panels, _NODES)
    panel_integrals = half * (by_panel @ weights)
    earlier_panels = np.cumsum(panel_integrals, axis=1) - panel_integrals
    inner = earlier_panels[:, :, None] + half * (by_panel @ up_to_node.T)  # ∫ φᵢ(u) over u up to each node
    double_integrals = inner.reshape(d, -1) @ (values * np.tile(half * weights, panels)).T  # of φᵢ(u)φⱼ(v), u < v
    matrix = double_integrals - double_integrals.T
    if d % 2:
        integrals = panel_integrals.sum(axis=1)[:, None]
        matrix = np.block([[matrix, integrals], [-integrals.T, np.zeros((1, 1))]])
    return matrix


def exact_log_chance(d: int, level: float) -> float:
    """Compute ln P(λ_max ≤ level) for even noise of scale 1; up to about d = 500.

    The constant of `_integrals` is found at a level so high that the probability is 1. A Pfaffian is the root of the
    determinant.
    """
    certain_level = math.sqrt(2 * d) + 9  # beyond it the functions of `_integrals` count as 0
    log_pfaffian, log_constant = (
        float(np.linalg.slogdet(_integrals(d, top)).logabsdet) / 2 for top in (level, certain_level)
    )
    return min(0.0, log_pfaffian - log_constant)


def _exact(d: int) -> np.ndarray:
    """Compute the quantiles of λ_max for even noise, (scores,), normalised by `_limit`.

    The probabilities of many levels give their scores; between those the quantiles are interpolated.
    """
    centre, scale = _limit(d, "goe")
    levels = centre + scale * np.linspace(-14, 12, 261)  # beyond all quantiles that are stored
    logs = np.array([exact_log_chance(d, level) for level in levels.tolist()])
    complements = np.array([1 - math.exp(log) for log in logs.tolist()])
    is_accurate = (logs > -60) & (complements > 1e-11)  # beyond these limits rounding errors count
    # Probabilities below ½ from their logarithm, larger ones from their complement: neither loses digits. A complement
    # that is rounded to 0 has no score; it is not used.
    scores = np.where(logs < -0.7, _probit(logs), -ndtri(np.maximum(complements, 1e-300)))
    return np.interp(_SCORES, scores[is_accurate], (levels[is_accurate] - centre) / scale)


def _probit(logs: np.ndarray) -> np.ndarray:
    """Compute Φ⁻¹(exp(logs)) by bisection, also where exp(logs) is too small for a float."""
    low, high = np.full_like(logs, -20.0), np.full_like(logs, 10.0)  # ln Φ(-20) is -204
    for _ in range(60):  # 30/2^60 is below the rounding of a score
        middle = (low + high) / 2
        is_below = log_ndtr(middle) < logs
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return high


def _simulated(d: int, even: np.ndarray) -> np.ndarray:
    """Compute the quantiles of λ_max for the same noise on all entries, (scores,), normalised by `_limit`, from those
    of even noise, `even` (scores,).

    They are those of even noise with mean, deviation and skewness changed. The changes are simulated with the same
    random numbers for both shapes of noise, so that most of the sampling error cancels.
    """
    generator, draws = np.random.default_rng(d), int(_DRAWS / d**2.5) + 2000
    eigenvalues = []  # the largest ones, of both shapes
    at_once = max(1, 4_000_000 // d**2)  # matrices, for 32 MB of numbers
    for start in range(0, draws, at_once):
        normal = generator.standard_normal((min(at_once, draws - start), d, d))
        # Variance 2 on the diagonal, 1 off it: √2 times even noise of scale 1, so that centre and scale of "upper"
        # normalise both shapes.
        matrices = (normal + normal.transpose(0, 2, 1)) / math.sqrt(2)
        largest_of_even = np.linalg.eigvalsh(matrices)[:, -1]
        matrices[:, np.arange(d), np.arange(d)] /= math.sqrt(2)  # variance 1 on the diagonal, too
        eigenvalues.append([largest_of_even, np.linalg.eigvalsh(matrices)[:, -1]])
    values = (np.concatenate(eigenvalues, axis=1) - 2 * math.sqrt(d)) * d ** (1 / 6)  # (2, draws), normalised
    (even_mean, mean), (even_deviation, deviation) = values.mean(axis=1), values.std(axis=1)
    standardised = (values - values.mean(axis=1, keepdims=True)) / values.std(axis=1, keepdims=True)
    even_skewness, skewness = (standardised**3).mean(axis=1)
    correction = (skewness - even_skewness) / 6 * (_SCORES**2 - 1)  # Cornish, Fisher 1938
    correction_at_4 = correction[np.argmin(np.abs(_SCORES - 4))]  # and at -4
    shift = np.where(np.abs(_SCORES) < 4, correction, correction_at_4)  # constant in the tails
    return np.asarray(mean + deviation * ((even - even_mean) / even_deviation + shift))


def write() -> None:
    """Compute the quantiles of both shapes of noise for all sizes, and write the file; this takes a few minutes."""
    even = [_exact(d) for d in _SIZES.tolist()]
    centre, scale = _limit(1, "upper")
    upper = [(_SCORES - centre) / scale]  # d = 1: the only entry is a normal number
    upper += [_simulated(d, row) for d, row in zip(_SIZES[1:].tolist(), even[1:], strict=True)]
    np.save(_FILE, np.array([even, upper]))


if __name__ == "__main__":
    write()
