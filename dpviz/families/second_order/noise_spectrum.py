"""How likely the largest eigenvalue of a matrix of noise is to be small, for any number of columns.

Even noise (GOE): exact, the Pfaffian of a matrix of integrals (de Bruijn 1955; Mehta, "Random matrices"), by
Gauss-Legendre quadrature. The same noise on all entries has no formula: its quantiles are those of even noise, with
mean, deviation and skewness as simulated. `noise_spectrum.npy` has quantiles of both for a few d; in between, and
beyond 400, they are interpolated. Errors of a probability: 0.0005 at most (even), 0.006 (the same on all entries).
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
_PLACES = np.arange(-8.0, 6.25, 0.25)  # Φ⁻¹ of the probabilities
_NODES, _PANELS_PER_COLUMN, _FEWEST_PANELS = 16, 0.5, 40
_DRAWS = 4e7  # numbers that are drawn for one size


def log_chance(d: int, shape: Shape, level: float) -> float:
    """ln P(λ_max ≤ level) for noise of scale 1 on d × d matrices: normal numbers of variance 1 on the diagonal, and
    off it of ½ (goe) or 1 (upper)."""
    quantiles = _quantiles(d, shape)
    where = int(np.clip(np.searchsorted(quantiles, level), 1, len(quantiles) - 1))  # beyond the ends the line goes on
    low, high = quantiles[where - 1 : where + 1].tolist()
    return float(log_ndtr(_PLACES[where - 1] + (level - low) / (high - low) * (_PLACES[where] - _PLACES[where - 1])))


@lru_cache(maxsize=1)
def _table() -> np.ndarray:
    """(shapes, sizes, places) quantiles, with centre and scale of their limit taken off (`_limit`)."""
    return np.asarray(np.load(_FILE))


@lru_cache(maxsize=256)
def _quantiles(d: int, shape: Shape) -> np.ndarray:
    """(places,) of the largest eigenvalue; linear in d^(-1/3) between the sizes of the file and beyond them."""
    rows, at = _table()[_SHAPES.index(shape)], _SIZES ** (-1 / 3)
    after = int(np.clip(np.searchsorted(_SIZES, d), 1, len(_SIZES) - 1))
    part = (d ** (-1 / 3) - at[after - 1]) / (at[after] - at[after - 1])
    return _limit(d, shape)[0] + _limit(d, shape)[1] * (rows[after - 1] + part * (rows[after] - rows[after - 1]))


def _limit(d: int, shape: Shape) -> tuple[float, float]:
    """Centre and scale of λ_max for large d (Tracy, Widom 1996)."""
    factor = math.sqrt(0.5) if shape == "goe" else 1.0
    return factor * 2 * math.sqrt(d), factor * d ** (-1 / 6)


# ------------------------------------------------------------------------------------------------------- the file


def _integrals(d: int, top: float) -> np.ndarray:
    """∬ (φᵢ(u)φⱼ(v) - φⱼ(u)φᵢ(v)) over u < v ≤ top, of the Hermite functions φ₀ to φ_{d-1}; for odd d with ∫ φᵢ as a
    last row and column. Its Pfaffian is P(λ_max ≤ top) times a constant."""
    nodes, weights = legendre.leggauss(_NODES)
    panels = max(_FEWEST_PANELS, int(_PANELS_PER_COLUMN * d))
    edges = np.linspace(-math.sqrt(2 * d) - 9, top, panels + 1)
    half = (edges[1] - edges[0]) / 2
    x = ((edges[:-1] + half)[:, None] + half * nodes).ravel()
    values = np.empty((d, len(x)))
    values[0] = math.pi**-0.25 * np.exp(-x * x / 2)
    for j in range(1, d):
        before = math.sqrt((j - 1) / j) * values[j - 2] if j > 1 else 0.0
        values[j] = math.sqrt(2 / j) * x * values[j - 1] - before
    up_to = legendre.legint(np.eye(_NODES), lbnd=-1)  # antiderivatives of P₀, P₁, ...: one in each column
    within = legendre.legvander(nodes, _NODES) @ up_to @ np.linalg.inv(legendre.legvander(nodes, _NODES - 1))
    split = values.reshape(d, panels, _NODES)
    whole = half * (split @ weights)
    below = (np.cumsum(whole, axis=1) - whole)[:, :, None] + half * (split @ within.T)
    half_of = below.reshape(d, -1) @ (values * np.tile(half * weights, panels)).T
    found = half_of - half_of.T
    if d % 2:
        ends = whole.sum(axis=1)[:, None]
        found = np.block([[found, ends], [-ends.T, np.zeros((1, 1))]])
    return found


def exact_log_chance(d: int, level: float) -> float:
    """ln P(λ_max ≤ level) for even noise of scale 1; up to about d = 500."""
    log_pfaffians = [float(np.linalg.slogdet(_integrals(d, top))[1]) / 2 for top in (level, math.sqrt(2 * d) + 9)]
    return min(0.0, log_pfaffians[0] - log_pfaffians[1])


def _exact(d: int) -> np.ndarray:
    """(places,) quantiles for even noise, with its limit taken off."""
    centre, scale = _limit(d, "goe")
    levels = centre + scale * np.linspace(-14, 12, 261)
    logs = np.array([exact_log_chance(d, level) for level in levels.tolist()])
    rest = np.array([1 - math.exp(log) for log in logs.tolist()])
    kept = (logs > -60) & (rest > 1e-11)
    places = np.where(logs < -0.7, _probit(logs), -ndtri(np.maximum(rest, 1e-300)))
    return np.interp(_PLACES, places[kept], (levels[kept] - centre) / scale)


def _probit(logs: np.ndarray) -> np.ndarray:
    """Φ⁻¹(exp(logs)), by halving."""
    low, high = np.full_like(logs, -20.0), np.full_like(logs, 10.0)
    for _ in range(60):
        middle = (low + high) / 2
        below = log_ndtr(middle) < logs
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high


def _simulated(d: int, even: np.ndarray) -> np.ndarray:
    """(places,) quantiles for noise that is the same on all entries, with its limit taken off, from those for even
    noise: what differs is simulated with the same numbers for both, so that most of the sampling error drops out."""
    generator, draws, found = np.random.default_rng(d), int(_DRAWS / d**2.5) + 2000, []
    for start in range(0, draws, at_once := max(1, 4_000_000 // d**2)):
        drawn = generator.standard_normal((min(at_once, draws - start), d, d))
        matrices = (drawn + drawn.transpose(0, 2, 1)) / math.sqrt(2)
        both = [np.linalg.eigvalsh(matrices)[:, -1]]
        matrices[:, np.arange(d), np.arange(d)] /= math.sqrt(2)
        found.append([*both, np.linalg.eigvalsh(matrices)[:, -1]])
    values = (np.concatenate(found, axis=1) - 2 * math.sqrt(d)) * d ** (1 / 6)
    (mean, other), (deviation, wide) = values.mean(axis=1), values.std(axis=1)
    skews = (((values - values.mean(axis=1, keepdims=True)) / values.std(axis=1, keepdims=True)) ** 3).mean(axis=1)
    turned = (skews[1] - skews[0]) / 6 * (_PLACES**2 - 1)  # Cornish, Fisher 1938
    shift = np.where(np.abs(_PLACES) < 4, turned, turned[np.argmin(np.abs(_PLACES - 4))])
    return np.asarray(other + wide * ((even - mean) / deviation + shift))


def write() -> None:
    """Compute the file anew."""
    even = [_exact(d) for d in _SIZES.tolist()]
    same = [_exact_one() if d == 1 else _simulated(d, row) for d, row in zip(_SIZES.tolist(), even, strict=True)]
    np.save(_FILE, np.array([even, same]))


def _exact_one() -> np.ndarray:
    """(places,) for one entry, which is normal."""
    centre, scale = _limit(1, "upper")
    return (_PLACES - centre) / scale


if __name__ == "__main__":
    write()
