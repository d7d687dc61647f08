"""Designs of evaluation points in closed form, with the share of the gradient's variance that each explains (THEORY.md,
section 4)."""

import math
from functools import lru_cache

import numpy as np
from scipy.linalg import helmert
from scipy.optimize import minimize_scalar

_LOWEST, _HIGHEST = -12.0, 1.0  # of ln u


def explained(dimensions: int, u: float, noise: float) -> float:
    """Return e_D(u, s), the part of the gradient's variance along D dimensions, which is D, that a regular simplex in
    them explains, for the squared exponential. u : (distance from θ / ℓ)². noise : s, of one evaluation."""
    corners = dimensions + 1
    return u * corners * math.exp(-u) / (-math.expm1(-u * corners / dimensions) + noise)


@lru_cache(4096)
def best_spread(dimensions: int, noise: float) -> float:
    """Return u* = argmax e_D(u, s)."""
    result = minimize_scalar(
        lambda log_u: -explained(dimensions, math.exp(log_u), noise),
        bounds=(_LOWEST, _HIGHEST),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return math.exp(float(result.x))


def groups(count: int, d: int) -> tuple[int, ...]:
    """Return the dimensions of the simplices of a design of 2 to 2d points: one simplex up to d points, then all d
    dimensions in parts as equal as possible."""
    if count <= d:
        return (count - 1,)
    parts = count - d
    return tuple(d // parts + (i < d % parts) for i in range(parts))


def spread(dimensions: int, noise: float, least: float) -> float:
    """Return the u of a design: u*, but for a distance of at least `least` (distance / ℓ)."""
    return max(best_spread(dimensions, noise), least**2)


def unexplained(count: int, d: int, noise: float, least: float = 0.0) -> float:
    """Return α/P after the closed-form design of `count` points, without history, for the squared exponential.

    noise : s. least : smallest distance / ℓ. Beyond 2d points, central differences are repeated.
    """
    if count == 1:
        return 1 - math.exp(-1) / (1 + noise) / d
    repeats = max(1, count // (2 * d))
    sizes = groups(min(count, 2 * d), d)
    each = {size: explained(size, spread(size, noise / repeats, least), noise / repeats) for size in set(sizes)}
    return 1 - sum(each[size] for size in sizes) / d


def smallest_batch(level: float, d: int, noise: float, least: float = 0.0, repeats: int = 1) -> int | None:
    """Return the smallest number of points of a first step that leaves at most `level` unexplained; None if `repeats`
    central designs leave more."""
    for count in (*range(1, 2 * d + 1), *(2 * d * m for m in range(2, repeats + 1))):
        if unexplained(count, d, noise, least) <= level:
            return count
    return None


@lru_cache(256)
def simplex(dimensions: int) -> np.ndarray:
    """Return (D + 1, D) unit vectors of which any two have the product -1/D."""
    corners = math.sqrt((dimensions + 1) / dimensions) * helmert(dimensions + 1).T
    corners.setflags(write=False)
    return corners


@lru_cache(1024)
def offsets(count: int, d: int, noise: float, least: float) -> np.ndarray:
    """Return (b, d) the design of `count` points around 0, in units of ℓ: its groups lie along consecutive axes. Beyond
    2d points b = 2dm, the central design m times."""
    if count == 1:
        points = np.eye(1, d)
    else:
        repeats = max(1, count // (2 * d))
        sizes = groups(min(count, 2 * d), d)
        points = np.zeros((sum(sizes) + len(sizes), d))
        row, column = 0, 0
        for size in sizes:
            distance = math.sqrt(spread(size, noise / repeats, least))
            points[row : row + size + 1, column : column + size] = distance * simplex(size)
            row, column = row + size + 1, column + size
        points = np.tile(points, (repeats, 1))
    points.setflags(write=False)
    return points


def inside(theta: np.ndarray, moves: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return points θ + moves (b, d) in the box: a coordinate that would leave it goes the other way, and ends at the
    edge."""
    points = theta + moves
    return np.clip(np.where((points < low) | (points > high), theta - moves, points), low, high)
