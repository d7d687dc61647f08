"""Symmetric matrices as a mechanism releases them, and what a method of second order reads from them."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.special import betaincinv

from dpviz.checkpoints import checkpoint

# How noise falls on a symmetric matrix: evenly in every direction ("goe", half the variance off the diagonal), or with
# the same variance on all entries on and above the diagonal ("upper").
Shape = Literal["goe", "upper"]
_HALVINGS, _LEAST, _ROUNDING = 120, 1e-290, 1e-11


def eigenvalue_seconds(d: int) -> float:
    """What the eigenvalues of one symmetric matrix take on one core, about; with eigenvectors twice that."""
    return 2e-5 + 3e-6 * d + 0.25e-9 * d**3


@lru_cache(maxsize=64)
def _triangle(d: int, shape: Shape) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and weights (d(d+1)/2,) of the entries on and above the diagonal."""
    above, right = np.triu_indices(d)
    weights = np.where(above == right, 1.0, math.sqrt(2) if shape == "goe" else 1.0)
    for array in (above, right, weights):
        array.flags.writeable = False
    return above, right, weights


def packed(matrices: np.ndarray, shape: Shape) -> np.ndarray:
    """Symmetric matrices (R, d, d) as vectors (R, d(d+1)/2): the upper triangle, row by row.

    goe : entries off the diagonal times √2. An isometry from the Frobenius to the Euclidean norm (`svec`), so isotropic
        noise on the vector has variance σ² on the diagonal and σ²/2 off it. upper : the plain entries, whose Euclidean
        norm is at most the Frobenius norm of the matrix.
    """
    above, right, weights = _triangle(matrices.shape[-1], shape)
    return matrices[:, above, right] * weights


def unpacked(vectors: np.ndarray, shape: Shape) -> np.ndarray:
    """The inverse of `packed`; (R, d, d), exactly symmetric."""
    d = (math.isqrt(8 * vectors.shape[-1] + 1) - 1) // 2
    above, right, weights = _triangle(d, shape)
    matrices = np.empty((len(vectors), d, d))
    entries = vectors / weights
    matrices[:, above, right] = entries
    matrices[:, right, above] = entries
    return matrices


def smallest_eigenpair(matrices: np.ndarray, gradients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The smallest eigenvalues (R,) of symmetric matrices (R, d, d), and unit eigenvectors p (R, d), with pᵀg ≤ 0 for
    the gradients g (R, d): along them neither slope nor curvature goes up. Where pᵀg = 0 either sign is as good."""
    values, vectors = np.linalg.eigh(matrices)
    direction = np.ascontiguousarray(vectors[:, :, 0])
    uphill = np.einsum("rd,rd->r", direction, gradients) > 0
    direction[uphill] *= -1
    return values[:, 0].copy(), direction


def lanczos(
    times: Callable[[np.ndarray], np.ndarray], starts: np.ndarray, steps: int, failure: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """About the smallest eigenvalues (R,) of symmetric matrices that are known by their products; bounds (R,) on them
    from below; and unit vectors (R, d) with those curvatures: the best ones in the spaces of so many products.

    times : from directions (R, d) to products (R, d). starts : (R, d) the first directions, not 0.
    failure : probability that a bound is above its eigenvalue, for a start that is uniform in direction, and was drawn
        without a look at the matrix (`_bound_below`).
    The first ones are never below the true eigenvalue, apart from rounding. With full orthogonalisation, so that the
    directions stay so.
    """
    replicates, d = starts.shape
    basis, images = np.zeros((2, replicates, min(steps, d), d))
    direction, last = starts / _lengths(starts), np.zeros((replicates, basis.shape[1]))
    for k in range(basis.shape[1]):
        checkpoint()
        basis[:, k], images[:, k] = direction, times(direction)
        rest = images[:, k]
        for _ in range(2):  # the second time for the digits that the first one lost
            rest = rest - np.einsum("rk,rkd->rd", np.einsum("rkd,rd->rk", basis, rest), basis)
        lengths = _lengths(rest)
        left = lengths > _ROUNDING * _lengths(images[:, k])  # else the space is complete: 0 from here on
        direction = np.where(left, rest / np.where(left, lengths, 1.0), 0.0)
        last[:, k] = np.where(left, lengths, 0.0)[:, 0]
    small = np.einsum("rkd,rld->rkl", basis, images)
    small = (small + small.transpose(0, 2, 1)) / 2
    unused = (basis == 0).all(axis=2) * (1 + np.abs(small).max(axis=(1, 2)))[:, None]
    values, vectors = np.linalg.eigh(small + unused[:, :, None] * np.eye(basis.shape[1]))
    found = np.einsum("rk,rkd->rd", vectors[:, :, 0], basis)
    part = math.sqrt(betaincinv(0.5, (d - 1) / 2, failure)) if d > 1 else 1.0
    return values[:, 0].copy(), _bound_below(values, last, part), found / _lengths(found)


def _bound_below(values: np.ndarray, lengths: np.ndarray, part: float) -> np.ndarray:
    """(R,) no eigenvalue is smaller, if the start has at least `part` along the eigenvector of the smallest one.

    values : (R, k) ascending, of the k × k matrices that Lanczos' method finds. lengths : (R, k) β₁ to β_k, what was
    left of each product. After k products the next direction is p(A) v₁, p(t) = Π (t - θᵢ)/β_i, of norm 1; so |p(λ)| ≤
    1/part at the smallest eigenvalue λ, and below all θ |p| falls as t grows: by halving (Van Dorsselaer, Hochstenbach,
    Van der Vorst 2000). Where nothing was left, the values are exact.
    """
    exact = (lengths == 0).any(axis=1)
    with np.errstate(divide="ignore"):
        most = np.where(exact, 0.0, np.log(lengths).sum(axis=1)) - math.log(part)
    width = np.maximum(values[:, -1] - values[:, 0], np.exp(most / values.shape[1]))  # with it p is above 1/part
    low, high = np.zeros_like(width), width
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        with np.errstate(divide="ignore"):
            beyond = np.log(values - values[:, :1] + middle[:, None]).sum(axis=1) > most
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return values[:, 0] - np.where(exact, 0.0, high)


def trust_region_step(
    values: np.ndarray, vectors: np.ndarray, gradients: np.ndarray, radius: float
) -> tuple[np.ndarray, np.ndarray]:
    """The steps h (R, d) that minimise gᵀh + ½ hᵀHh over ‖h‖ ≤ radius, and their multipliers λ (R,) ≥ 0.

    values (R, d), vectors (R, d, d) : of H, as `np.linalg.eigh` finds them. gradients : g (R, d).
    (H + λI)h = -g, H + λI is positive semidefinite, and λ = 0 unless ‖h‖ = radius (Moré and Sorensen 1983). The length
    of -(H + λI)⁻¹g falls as λ grows beyond the lower end of what makes H + λI positive definite, so λ is found by
    halving. Where g has no part along the lowest eigenvector, the length may be too short even there: the step then
    goes on along it, up to the radius (the hard case).
    """
    along = np.einsum("rji,rj->ri", vectors, gradients)  # g in the basis of eigenvectors
    lower = np.maximum(0.0, -values[:, :1])
    above = values + lower  # the eigenvalues of H + λI at the lower end: of a negative one exactly 0

    def steps(shift: np.ndarray) -> np.ndarray:
        return -along / np.maximum(above + shift, _LEAST)

    with np.errstate(over="ignore"):
        low, high = np.zeros_like(lower), np.linalg.norm(along, axis=1, keepdims=True) / radius
        inside = (values[:, :1] > 0) & (_lengths(steps(low)) <= radius)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            long = _lengths(steps(middle)) > radius
            low, high = np.where(long, middle, low), np.where(long, high, middle)
        shift = np.where(inside, 0.0, high)
        found = steps(shift)
    short = (values[:, 0] < 0) & (_lengths(found)[:, 0] < radius * (1 - _ROUNDING))
    rest = np.sqrt(np.maximum(0.0, radius**2 - (found[short, 1:] ** 2).sum(axis=1)))
    found[short, 0] = np.where(along[short, 0] > 0, -rest, rest)
    return np.einsum("rij,rj->ri", vectors, found), (lower + shift)[:, 0]


def _lengths(vectors: np.ndarray) -> np.ndarray:
    return np.linalg.norm(vectors, axis=1, keepdims=True)
