"""Symmetric matrices as mechanisms release them, and computations of second-order methods with them."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.special import betaincinv

from dpviz.checkpoints import checkpoint

# Distribution of noise on a symmetric matrix: isotropic ("goe", half the variance off the diagonal), or with
# the same variance on all entries on and above the diagonal ("upper").
Shape = Literal["goe", "upper"]
_HALVINGS, _SMALLEST_DIVISOR, _ROUNDING = 120, 1e-290, 1e-11


def eigenvalue_seconds(d: int) -> float:
    """Estimate the seconds on one core for the eigenvalues of a symmetric matrix; with eigenvectors it is twice
    that."""
    return 2e-5 + 3e-6 * d + 0.25e-9 * d**3


@lru_cache(maxsize=64)
def _triangle(d: int, shape: Shape) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, columns and weights (d(d+1)/2,) of the entries on and above the diagonal."""
    rows, columns = np.triu_indices(d)
    weights = np.where(rows == columns, 1.0, math.sqrt(2) if shape == "goe" else 1.0)
    for array in (rows, columns, weights):
        array.flags.writeable = False
    return rows, columns, weights


def packed(matrices: np.ndarray, shape: Shape) -> np.ndarray:
    """Return symmetric matrices (R, d, d) as vectors (R, d(d+1)/2): the upper triangle, row by row.

    goe : entries off the diagonal times √2. An isometry from the Frobenius to the Euclidean norm (`svec`), so isotropic
        noise on the vector has variance σ² on the diagonal and σ²/2 off it. upper : the plain entries, whose Euclidean
        norm is at most the Frobenius norm of the matrix.
    """
    rows, columns, weights = _triangle(matrices.shape[-1], shape)
    return matrices[:, rows, columns] * weights


def unpacked(vectors: np.ndarray, shape: Shape) -> np.ndarray:
    """Return the matrices (R, d, d) of vectors that `packed` returned; exactly symmetric."""
    d = (math.isqrt(8 * vectors.shape[-1] + 1) - 1) // 2
    rows, columns, weights = _triangle(d, shape)
    matrices = np.empty((len(vectors), d, d))
    entries = vectors / weights
    matrices[:, rows, columns] = entries
    matrices[:, columns, rows] = entries
    return matrices


def smallest_eigenpair(matrices: np.ndarray, gradients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the smallest eigenvalues (R,) of symmetric matrices (R, d, d), and unit eigenvectors p (R, d).

    They have pᵀg ≤ 0 for the gradients g (R, d): along them neither slope nor curvature goes up. Where pᵀg = 0 the sign
    is arbitrary.
    """
    values, vectors = np.linalg.eigh(matrices)
    direction = np.ascontiguousarray(vectors[:, :, 0])
    is_uphill = np.einsum("rd,rd->r", direction, gradients) > 0
    direction[is_uphill] *= -1
    return values[:, 0].copy(), direction


def lanczos(
    times: Callable[[np.ndarray], np.ndarray], starts: np.ndarray, steps: int, failure: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Approximate the smallest eigenvalues (R,) of symmetric matrices that are given by their products.

    Return the approximations; lower bounds (R,) on the eigenvalues; and unit vectors (R, d) with the approximations as
    curvatures: the best ones in the Krylov spaces of `steps` products.
    times : from directions (R, d) to products (R, d). starts : (R, d) the first directions, not 0.
    failure : probability that a bound is above its eigenvalue, for a start that is uniform in direction, and was drawn
        independently of the matrix (`_bound_below`).
    The approximations are never below the eigenvalues, apart from rounding. Full orthogonalisation keeps the directions
    orthogonal.
    """
    replicates, d = starts.shape
    basis, images = np.zeros((2, replicates, min(steps, d), d))
    direction, last = starts / _lengths(starts), np.zeros((replicates, basis.shape[1]))
    for k in range(basis.shape[1]):
        checkpoint()
        basis[:, k], images[:, k] = direction, times(direction)
        remainder = images[:, k]
        for _ in range(2):  # the second pass restores the digits that the first one lost
            remainder = remainder - np.einsum("rk,rkd->rd", np.einsum("rkd,rd->rk", basis, remainder), basis)
        lengths = _lengths(remainder)
        is_nonzero = lengths > _ROUNDING * _lengths(
            images[:, k]
        )  # else the space is complete, and all further directions are 0
        direction = np.where(is_nonzero, remainder / np.where(is_nonzero, lengths, 1.0), 0.0)
        last[:, k] = np.where(is_nonzero, lengths, 0.0)[:, 0]
    projected = np.einsum("rkd,rld->rkl", basis, images)
    projected = (projected + projected.transpose(0, 2, 1)) / 2
    unused = (basis == 0).all(axis=2) * (1 + np.abs(projected).max(axis=(1, 2)))[:, None]
    values, vectors = np.linalg.eigh(projected + unused[:, :, None] * np.eye(basis.shape[1]))
    ritz_vectors = np.einsum("rk,rkd->rd", vectors[:, :, 0], basis)
    part = math.sqrt(betaincinv(0.5, (d - 1) / 2, failure)) if d > 1 else 1.0
    return values[:, 0].copy(), _bound_below(values, last, part), ritz_vectors / _lengths(ritz_vectors)


def _bound_below(values: np.ndarray, lengths: np.ndarray, part: float) -> np.ndarray:
    """Return (R,) lower bounds on all eigenvalues, if the start has at least `part` along the eigenvector of the
    smallest one.

    values : (R, k) ascending, of the k × k matrices that Lanczos' method computes. lengths : (R, k) β₁ to β_k, the
        lengths of the remainders of the products. After k products the next direction is p(A) v₁, p(t) = Π (t -
        θᵢ)/β_i, of norm 1; so |p(λ)| ≤ 1/part at the smallest eigenvalue λ, and below all θ |p| falls as t grows: by
        halving (Van Dorsselaer, Hochstenbach, Van der Vorst 2000). Where a remainder was 0, the values are exact.
    """
    is_exact = (lengths == 0).any(axis=1)
    with np.errstate(divide="ignore"):
        log_limit = np.where(is_exact, 0.0, np.log(lengths).sum(axis=1)) - math.log(part)
    width = np.maximum(values[:, -1] - values[:, 0], np.exp(log_limit / values.shape[1]))  # with it p is above 1/part
    low, high = np.zeros_like(width), width
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        with np.errstate(divide="ignore"):
            is_beyond = np.log(values - values[:, :1] + middle[:, None]).sum(axis=1) > log_limit
        low, high = np.where(is_beyond, low, middle), np.where(is_beyond, middle, high)
    return values[:, 0] - np.where(is_exact, 0.0, high)


def trust_region_step(
    values: np.ndarray, vectors: np.ndarray, gradients: np.ndarray, radius: float
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the steps h (R, d) that minimise gᵀh + ½ hᵀHh over ‖h‖ ≤ radius, and their multipliers λ (R,) ≥ 0.

    values (R, d), vectors (R, d, d) : of H, as `np.linalg.eigh` returns them. gradients : g (R, d).
    (H + λI)h = -g, H + λI is positive semidefinite, and λ = 0 unless ‖h‖ = radius (Moré and Sorensen 1983). The length
    of -(H + λI)⁻¹g falls as λ grows beyond the lower end of the range in which H + λI is positive definite, so λ is
    computed by halving. Where g has no part along the lowest eigenvector, the length may be too short even at that end:
    the step then goes on along that eigenvector, up to the radius (the hard case).
    """
    along = np.einsum("rji,rj->ri", vectors, gradients)  # g in the basis of eigenvectors
    lower = np.maximum(0.0, -values[:, :1])
    shifted = values + lower  # the eigenvalues of H + λI at the lower end; a negative smallest one becomes exactly 0

    def steps(shift: np.ndarray) -> np.ndarray:
        return -along / np.maximum(shifted + shift, _SMALLEST_DIVISOR)

    with np.errstate(over="ignore"):
        low, high = np.zeros_like(lower), np.linalg.norm(along, axis=1, keepdims=True) / radius
        is_inside = (values[:, :1] > 0) & (_lengths(steps(low)) <= radius)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            is_long = _lengths(steps(middle)) > radius
            low, high = np.where(is_long, middle, low), np.where(is_long, high, middle)
        shift = np.where(is_inside, 0.0, high)
        coordinates = steps(shift)
    is_short = (values[:, 0] < 0) & (_lengths(coordinates)[:, 0] < radius * (1 - _ROUNDING))
    rest = np.sqrt(np.maximum(0.0, radius**2 - (coordinates[is_short, 1:] ** 2).sum(axis=1)))
    coordinates[is_short, 0] = np.where(along[is_short, 0] > 0, -rest, rest)
    return np.einsum("rij,rj->ri", vectors, coordinates), (lower + shift)[:, 0]


def _lengths(vectors: np.ndarray) -> np.ndarray:
    return np.linalg.norm(vectors, axis=1, keepdims=True)
