"""Designs of evaluation points in closed form, with the share of the gradient's variance that each explains (THEORY.md,
section 4).

A design places b points around the current settings θ, which have d coordinates, so that a Gaussian process learns the
gradient at θ. It consists of regular simplices in orthogonal subspaces: a simplex in D dimensions has D + 1 corners,
all at the same distance from θ, and two points on both sides of θ are a simplex in one dimension. Formulas are for the
squared exponential kernel with length scale ℓ, without earlier evaluations. Symbols: u = (distance from θ / ℓ)²; s the
variance of an evaluation's noise over that of a user's loss; α/P the share of the variance that stays unexplained.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.linalg import helmert
from scipy.optimize import minimize_scalar

# Ends of the search over ln u. The best u is at most 1, its limit for much noise; for little noise it is about √(2s) or
# more, and s is at least 1e-10.
_LOWEST, _HIGHEST = -12.0, 1.0


def explained(dimensions: int, u: float, noise: float) -> float:
    """Return e_D(u, s), the variance of the gradient that a regular simplex in D dimensions explains.

    The gradient's variance along these dimensions is D, in units of 1/ℓ². noise : s.
    """
    corners = dimensions + 1
    return u * corners * math.exp(-u) / (-math.expm1(-u * corners / dimensions) + noise)


@lru_cache(4096)
def best_spread(dimensions: int, noise: float) -> float:
    """Return u*, at which a regular simplex in D dimensions explains most: the maximum of `explained` over u, found by
    a bounded search over ln u. noise : s."""
    result = minimize_scalar(
        lambda log_u: -explained(dimensions, math.exp(log_u), noise),
        bounds=(_LOWEST, _HIGHEST),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return math.exp(float(result.x))


def simplex_dimensions(count: int, d: int) -> tuple[int, ...]:
    """Return the dimensions D of each simplex of a design of 2 to 2d points.

    Up to d points are one simplex in count - 1 dimensions. More points cover all d dimensions, in count - d simplices
    of sizes as equal as possible.
    """
    if count <= d:
        return (count - 1,)
    simplices = count - d
    size, larger_ones = divmod(d, simplices)  # `larger_ones` of the simplices have one dimension more
    return (size + 1,) * larger_ones + (size,) * (simplices - larger_ones)


def spread(dimensions: int, noise: float, nearest: float) -> float:
    """Return the u of a simplex in D dimensions: the best one, or that of the distance `nearest` ℓ if it is larger."""
    return max(best_spread(dimensions, noise), nearest**2)


def unexplained(count: int, d: int, noise: float, nearest: float = 0.0) -> float:
    """Return α/P, the share of the gradient's variance that a design of `count` points leaves unexplained.

    noise : s. nearest : smallest distance from θ, in units of ℓ. More than 2d points are central differences, which are
    2d points, m times: then means of m evaluations have the noise s/m.
    """
    if count == 1:  # a single point explains u e^-u/(1 + s) of one direction, most at u = 1, the distance ℓ
        u = max(1.0, nearest**2)
        return 1 - u * math.exp(-u) / (1 + noise) / d
    noise_of_mean = noise / max(1, count // (2 * d))
    dimensions = simplex_dimensions(min(count, 2 * d), d)
    explained_by = {D: explained(D, spread(D, noise_of_mean, nearest), noise_of_mean) for D in set(dimensions)}
    return 1 - sum(explained_by[D] for D in dimensions) / d


def smallest_batch(level: float, d: int, noise: float, nearest: float = 0.0, repeats: int = 1) -> int | None:
    """Return the smallest number of points of a first step that leaves at most the share `level` of the gradient's
    variance unexplained; None if even central differences, `repeats` times, leave more."""
    repeated = (2 * d * m for m in range(2, repeats + 1))
    for count in (*range(1, 2 * d + 1), *repeated):
        if unexplained(count, d, noise, nearest) <= level:
            return count
    return None


def simplex(dimensions: int) -> np.ndarray:
    """Return (D + 1, D) the corners of a regular simplex around 0: unit vectors of which any two have the inner product
    -1/D."""
    # The columns of Helmert's matrix are the corners of a regular simplex around 0, of the squared length D/(D + 1).
    return math.sqrt((dimensions + 1) / dimensions) * helmert(dimensions + 1).T


@lru_cache(1024)
def offsets(count: int, d: int, noise: float, nearest: float) -> np.ndarray:
    """Return (b, d) the design of `count` points around 0, in units of ℓ; its simplices lie along consecutive axes.

    b is `count` up to 2d; more points are central differences, 2d points, m times, and b = 2dm <= `count`. nearest :
    smallest distance from 0.
    """
    if count == 1:
        points = max(1.0, nearest) * np.eye(1, d)  # along the first axis
    else:
        repeats = max(1, count // (2 * d))
        dimensions = simplex_dimensions(min(count, 2 * d), d)
        points = np.zeros((sum(dimensions) + len(dimensions), d))  # a simplex in D dimensions has D + 1 points
        row, column = 0, 0
        for D in dimensions:
            distance = math.sqrt(spread(D, noise / repeats, nearest))
            points[row : row + D + 1, column : column + D] = distance * simplex(D)
            row, column = row + D + 1, column + D
        points = np.tile(points, (repeats, 1))
    points.setflags(write=False)  # all callers get the same array, from the cache
    return points


def moved_into_box(theta: np.ndarray, moves: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the points θ + `moves` (b, d), changed so that they are in the box: a coordinate that would leave it moves
    the other way instead, and stops at the edge."""
    points = theta + moves
    return np.clip(np.where((points < low) | (points > high), theta - moves, points), low, high)
