"""Distribution of the largest eigenvalue of a symmetric matrix of noise, for any number d of columns.

Even noise (GOE): exact, the Pfaffian of a matrix of integrals (de Bruijn 1955; Mehta, "Random matrices"), by
Gauss-Legendre quadrature. The same noise on all entries has no formula: its quantiles are those of even noise, with
mean, deviation and skewness as simulated. `noise_spectrum.npy` has quantiles of both for a few d; between these they
are interpolated, above 400 extrapolated. Errors of a probability: 0.0005 at most (even), 0.006 (same on all entries).
The file is written in a few minutes by

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
_NODES, _PANELS_PER_COLUMN, _MIN_PANELS = 16, 0.5, 40
_DRAWS = 4e7  # random numbers for one size


def log_chance(d: int, shape: Shape, level: float) -> float:
    """Return ln P(λ_max ≤ level) for noise of scale 1 on symmetric d × d matrices: normal numbers of variance 1 on the
    diagonal, and off it of ½ (goe) or 1 (upper)."""
    quantiles = _quantiles(d, shape)
    index = int(np.clip(np.searchsorted(quantiles, level), 1, len(quantiles) - 1))  # beyond the ends the line goes on
    low, high = quantiles[index - 1 : index + 1].tolist()
    return float(log_ndtr(_SCORES[index - 1] + (level - low) / (high - low) * (_SCORES[index] - _SCORES[index - 1])))


@lru_cache(maxsize=1)
def _table() -> np.ndarray:
    """Return (shapes, sizes, scores) the stored quantiles, less the centre and over the scale of their `_limit`."""
    return np.asarray(np.load(_FILE))


@lru_cache(maxsize=256)
def _quantiles(d: int, shape: Shape) -> np.ndarray:
    """Return (scores,) quantiles of the largest eigenvalue; linear in d^(-1/3) between and beyond the sizes stored."""
    rows, roots = _table()[_SHAPES.index(shape)], _SIZES ** (-1 / 3)
    upper = int(np.clip(np.searchsorted(_SIZES, d), 1, len(_SIZES) - 1))
    part = (d ** (-1 / 3) - roots[upper - 1]) / (roots[upper] - roots[upper - 1])
    return _limit(d, shape)[0] + _limit(d, shape)[1] * (rows[upper - 1] + part * (rows[upper] - rows[upper - 1]))


def _limit(d: int, shape: Shape) -> tuple[float, float]:
    """Return centre and scale of λ_max for large d (Tracy, Widom 1996)."""
    factor = math.sqrt(0.5) if shape == "goe" else 1.0
    return factor * 2 * math.sqrt(d), factor * d ** (-1 / 6)


# ------------------------------------------------------------------------------------------------------- the file


def _integrals(d: int, top: float) -> np.ndarray:
    """Return the matrix whose Pfaffian is P(λ_max ≤ top) times a constant.

    Its entries are ∬ (φᵢ(u)φⱼ(v) - φⱼ(u)φᵢ(v)) over u < v ≤ top, of the Hermite functions φ₀ to φ_{d-1}; for odd d
    with ∫ φᵢ as a last row and column.
    """
    nodes, weights = legendre.leggauss(_NODES)
    panels = max(_MIN_PANELS, int(_PANELS_PER_COLUMN * d))
    edges = np.linspace(-math.sqrt(2 * d) - 9, top, panels + 1)
    half = (edges[1] - edges[0]) / 2
    x = ((edges[:-1] + half)[:, None] + half * nodes).ravel()
    values = np.empty((d, len(x)))
    values[0] = math.pi**-0.25 * np.exp(-x * x / 2)
    for j in range(1, d):
        second = math.sqrt((j - 1) / j) * values[j - 2] if j > 1 else 0.0
        values[j] = math.sqrt(2 / j) * x * values[j - 1] - second
    up_to = legendre.legint(np.eye(_NODES), lbnd=-1)  # antiderivatives of P₀, P₁, ...: one in each column
    within = legendre.legvander(nodes, _NODES) @ up_to @ np.linalg.inv(legendre.legvander(nodes, _NODES - 1))
    by_panel = values.reshape(d, panels, _NODES)
    panel_integrals = half * (by_panel @ weights)
    below = (np.cumsum(panel_integrals, axis=1) - panel_integrals)[:, :, None] + half * (by_panel @ within.T)
    first_term = below.reshape(d, -1) @ (values * np.tile(half * weights, panels)).T
    matrix = first_term - first_term.T
    if d % 2:
        integrals = panel_integrals.sum(axis=1)[:, None]
        matrix = np.block([[matrix, integrals], [-integrals.T, np.zeros((1, 1))]])
    return matrix


def exact_log_chance(d: int, level: float) -> float:
    """Compute ln P(λ_max ≤ level) for even noise of scale 1; up to about d = 500."""
    log_pfaffians = [float(np.linalg.slogdet(_integrals(d, top))[1]) / 2 for top in (level, math.sqrt(2 * d) + 9)]
    return min(0.0, log_pfaffians[0] - log_pfaffians[1])


def _exact(d: int) -> np.ndarray:
    """Compute (scores,) the quantiles for even noise, less the centre and over the scale of their `_limit`."""
    centre, scale = _limit(d, "goe")
    levels = centre + scale * np.linspace(-14, 12, 261)
    logs = np.array([exact_log_chance(d, level) for level in levels.tolist()])
    complements = np.array([1 - math.exp(log) for log in logs.tolist()])
    is_accurate = (logs > -60) & (complements > 1e-11)
    scores = np.where(logs < -0.7, _probit(logs), -ndtri(np.maximum(complements, 1e-300)))
    return np.interp(_SCORES, scores[is_accurate], (levels[is_accurate] - centre) / scale)


def _probit(logs: np.ndarray) -> np.ndarray:
    """Compute Φ⁻¹(exp(logs)) by bisection."""
    low, high = np.full_like(logs, -20.0), np.full_like(logs, 10.0)
    for _ in range(60):
        middle = (low + high) / 2
        is_below = log_ndtr(middle) < logs
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return high


def _simulated(d: int, even: np.ndarray) -> np.ndarray:
    """Compute (scores,) the quantiles for the same noise on all entries, normalised by `_limit`, from those of `even`.

    The difference of mean, deviation and skewness is simulated with the same random numbers for both kinds of noise, so
    that most of the sampling error cancels.
    """
    generator, draws, eigenvalues = np.random.default_rng(d), int(_DRAWS / d**2.5) + 2000, []
    for start in range(0, draws, at_once := max(1, 4_000_000 // d**2)):
        normal = generator.standard_normal((min(at_once, draws - start), d, d))
        matrices = (normal + normal.transpose(0, 2, 1)) / math.sqrt(2)
        of_even = np.linalg.eigvalsh(matrices)[:, -1]
        matrices[:, np.arange(d), np.arange(d)] /= math.sqrt(2)
        eigenvalues.append([of_even, np.linalg.eigvalsh(matrices)[:, -1]])
    values = (np.concatenate(eigenvalues, axis=1) - 2 * math.sqrt(d)) * d ** (1 / 6)
    (even_mean, mean), (even_deviation, deviation) = values.mean(axis=1), values.std(axis=1)
    skews = (((values - values.mean(axis=1, keepdims=True)) / values.std(axis=1, keepdims=True)) ** 3).mean(axis=1)
    correction = (skews[1] - skews[0]) / 6 * (_SCORES**2 - 1)  # Cornish, Fisher 1938
    shift = np.where(np.abs(_SCORES) < 4, correction, correction[np.argmin(np.abs(_SCORES - 4))])
    return np.asarray(mean + deviation * ((even - even_mean) / even_deviation + shift))


def write() -> None:
    """Compute the quantiles of all sizes and write the file."""
    even = [_exact(d) for d in _SIZES.tolist()]
    upper = [_exact_one() if d == 1 else _simulated(d, row) for d, row in zip(_SIZES.tolist(), even, strict=True)]
    np.save(_FILE, np.array([even, upper]))


def _exact_one() -> np.ndarray:
    """Return (scores,) the quantiles for a single entry, which is normal, less the centre and over the scale of their
    `_limit`."""
    centre, scale = _limit(1, "upper")
    return (_SCORES - centre) / scale


if __name__ == "__main__":
    write()
