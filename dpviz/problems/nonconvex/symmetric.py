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
_HALVINGS = 120  # of an interval with an end at 0, so that a number in it is known to a small relative error
_SMALLEST_DIVISOR = 1e-290  # in place of 0: 0 stays 0, and all but the tiniest components become too long a step
_ROUNDING = 1e-11  # a relative length below this is rounding


def eigenvalue_seconds(d: int) -> float:
    """Estimate the seconds on one core for the eigenvalues of a symmetric (d, d) matrix, from measurements; with
    eigenvectors they are twice as many."""
    return 2e-5 + 3e-6 * d + 0.25e-9 * d**3


@lru_cache(maxsize=64)
def _triangle(d: int, shape: Shape) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the row, the column and the weight of each entry on and above the diagonal of a (d, d) matrix, three
    arrays (d(d+1)/2,).

    The weights are the factors of `packed`: √2 off the diagonal for "goe", otherwise 1.
    """
    rows, columns = np.triu_indices(d)
    weights = np.where(rows == columns, 1.0, math.sqrt(2) if shape == "goe" else 1.0)
    for array in (rows, columns, weights):
        array.flags.writeable = False  # they are cached
    return rows, columns, weights


def packed(matrices: np.ndarray, shape: Shape) -> np.ndarray:
    """Return symmetric matrices (R, d, d) as vectors (R, d(d+1)/2) of their upper triangles, row by row.

    With the shape "goe", entries off the diagonal are multiplied by √2 (`svec`). The Euclidean norm of the vector is
    then the Frobenius norm of the matrix, and noise of variance σ² on the vector has variance σ²/2 on these entries.
    With "upper" the entries are unchanged, and the Euclidean norm of the vector is at most the Frobenius norm of the
    matrix.
    """
    rows, columns, weights = _triangle(matrices.shape[-1], shape)
    return matrices[:, rows, columns] * weights


def unpacked(vectors: np.ndarray, shape: Shape) -> np.ndarray:
    """Return the symmetric matrices (R, d, d) of vectors (R, d(d+1)/2) that `packed` returned."""
    d = (math.isqrt(8 * vectors.shape[-1] + 1) - 1) // 2  # as d(d+1)/2 is the length
    rows, columns, weights = _triangle(d, shape)
    matrices = np.empty((len(vectors), d, d))
    entries = vectors / weights
    matrices[:, rows, columns] = entries
    matrices[:, columns, rows] = entries
    return matrices


def smallest_eigenpair(matrices: np.ndarray, gradients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the smallest eigenvalues (R,) of symmetric matrices (R, d, d), and their unit eigenvectors p (R, d).

    The sign of each p is such that pᵀg ≤ 0 for the gradient g (R, d), so that a function with this gradient and Hessian
    does not rise along p to first order. Where pᵀg = 0 the sign is arbitrary.
    """
    values, vectors = np.linalg.eigh(matrices)
    direction = np.ascontiguousarray(vectors[:, :, 0])  # a copy, as a view would keep all the eigenvectors
    is_uphill = np.einsum("rd,rd->r", direction, gradients) > 0
    direction[is_uphill] *= -1
    return values[:, 0].copy(), direction


def lanczos(
    times: Callable[[np.ndarray], np.ndarray], starts: np.ndarray, steps: int, failure: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Approximate the smallest eigenvalues (R,) of symmetric matrices A (R, d, d), of which only products are given.

    This is Lanczos' method: from one direction per matrix, each product with the latest direction, made orthogonal to
    all earlier ones, is the next direction. Return three things: the smallest eigenvalues (R,) of A on the space of
    these directions, which are never below those of A, apart from rounding; lower bounds (R,) on the eigenvalues of A;
    and unit vectors p (R, d) in that space for which pᵀAp are the approximations.
    times : maps directions (R, d) to the products with A (R, d). starts : (R, d) the first directions, not 0.
    steps : number of products at most.
    failure : probability that a lower bound is above the smallest eigenvalue, for a start whose direction is uniform
        and was drawn independently of A.
    """
    replicates, d = starts.shape
    max_steps = min(steps, d)
    basis, images = np.zeros((2, replicates, max_steps, d))  # directions, and their products with A
    direction, remainder_lengths = starts / _lengths(starts), np.zeros((replicates, max_steps))
    for k in range(max_steps):
        checkpoint()
        basis[:, k], images[:, k] = direction, times(direction)
        remainder = images[:, k]
        for _ in range(2):  # the second pass restores the digits that the first one lost
            components = np.einsum("rkd,rd->rk", basis, remainder)
            remainder = remainder - np.einsum("rk,rkd->rd", components, basis)
        lengths = _lengths(remainder)
        # Where nothing but rounding remains, A maps the space into itself; all further directions are then set to 0.
        is_nonzero = lengths > _ROUNDING * _lengths(images[:, k])
        direction = np.where(is_nonzero, remainder / np.where(is_nonzero, lengths, 1.0), 0.0)
        remainder_lengths[:, k] = np.where(is_nonzero, lengths, 0.0)[:, 0]
    projected = np.einsum("rkd,rld->rkl", basis, images)
    projected = (projected + projected.transpose(0, 2, 1)) / 2
    # A direction that is 0 gets a diagonal entry above all others, lest its eigenvalue 0 be taken for the smallest.
    above_all = 1 + np.abs(projected).max(axis=(1, 2))
    extra_diagonal = np.where((basis == 0).all(axis=2), above_all[:, None], 0.0)
    values, vectors = np.linalg.eigh(projected + extra_diagonal[:, :, None] * np.eye(max_steps))
    ritz_vectors = np.einsum("rk,rkd->rd", vectors[:, :, 0], basis)
    # The squared component of a uniform direction along a fixed one has the law Beta(1/2, (d-1)/2).
    component = math.sqrt(betaincinv(0.5, (d - 1) / 2, failure)) if d > 1 else 1.0
    lower_bounds = _bound_below(values, remainder_lengths, component)
    return values[:, 0].copy(), lower_bounds, ritz_vectors / _lengths(ritz_vectors)


def _bound_below(values: np.ndarray, lengths: np.ndarray, component: float) -> np.ndarray:
    """Return lower bounds (R,) on the eigenvalues of matrices A, from k products of Lanczos' method.

    values : (R, k) θ₁ to θ_k ascending, the eigenvalues of A on the space of the directions.
    lengths : (R, k) β₁ to β_k, of the products after they were made orthogonal to earlier directions.
    component : lower bound on |⟨v₁, q⟩|, of the first direction v₁ along the unit eigenvector q of the smallest
        eigenvalue λ of A.
    After k products the next direction is p(A) v₁ with the polynomial p(t) = Π (t - θᵢ)/βᵢ. Its norm is 1, and its
    component along q is p(λ)⟨v₁, q⟩, so |p(λ)| ≤ 1/component. Below all θᵢ, |p(t)| falls as t grows; so the t below θ₁
    with |p(t)| = 1/component is a lower bound on λ (Van Dorsselaer, Hochstenbach, Van der Vorst 2000). It is computed
    by halving the interval of its distances from θ₁. Where a β is 0, θ₁ is an eigenvalue of A, and is returned.
    """
    is_exact = (lengths == 0).any(axis=1)
    with np.errstate(divide="ignore"):
        log_limit = np.where(is_exact, 0.0, np.log(lengths).sum(axis=1)) - math.log(component)  # of Π |t - θᵢ|
    # At this distance from θ₁, |p| is at least 1/component, because each of the k factors |t - θᵢ| is at least the k-th
    # root of the limit.
    width = np.exp(log_limit / values.shape[1])
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

    values (R, d), vectors (R, d, d) : eigenvalues and eigenvectors of H, as `np.linalg.eigh` returns them.
    gradients : g (R, d).
    A minimiser has (H + λI)h = -g with H + λI positive semidefinite, and λ = 0 unless ‖h‖ = radius (Moré and Sorensen
    1983). The length of h = -(H + λI)⁻¹g falls as λ grows from the smallest λ ≥ 0 for which H + λI is positive
    semidefinite, so λ is computed by halving. If g has no component along the eigenvector of the smallest eigenvalue,
    or one too tiny for the halving to find its λ, h may be too short even at that λ: the step then goes on along this
    eigenvector, up to the radius (the hard case).
    """
    components = np.einsum("rji,rj->ri", vectors, gradients)  # g in the basis of eigenvectors
    smallest_multiplier = np.maximum(0.0, -values[:, :1])
    shifted = values + smallest_multiplier  # eigenvalues of H + λI for this λ; a negative smallest one becomes 0

    def steps(shift: np.ndarray) -> np.ndarray:
        """Return h (R, d) in the basis of eigenvectors, for λ = smallest_multiplier + shift (R, 1)."""
        return -components / np.maximum(shifted + shift, _SMALLEST_DIVISOR)

    with np.errstate(over="ignore"):
        # ‖h‖ ≤ ‖g‖/shift, so that ‖h‖ ≤ radius at the upper end.
        low, high = np.zeros_like(smallest_multiplier), np.linalg.norm(components, axis=1, keepdims=True) / radius
        # Only if H is positive definite: else `steps(low)` has _SMALLEST_DIVISOR in place of an eigenvalue 0.
        is_inside = (values[:, :1] > 0) & (_lengths(steps(low)) <= radius)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            is_long = _lengths(steps(middle)) > radius
            low, high = np.where(is_long, middle, low), np.where(is_long, high, middle)
        shift = np.where(is_inside, 0.0, high)
        coordinates = steps(shift)
    # The hard case. Without a negative eigenvalue, a short h is a minimiser as it is.
    is_short = (values[:, 0] < 0) & (_lengths(coordinates)[:, 0] < radius * (1 - _ROUNDING))
    rest = np.sqrt(np.maximum(0.0, radius**2 - (coordinates[is_short, 1:] ** 2).sum(axis=1)))
    coordinates[is_short, 0] = np.where(components[is_short, 0] > 0, -rest, rest)  # towards lower values
    return np.einsum("rij,rj->ri", vectors, coordinates), (smallest_multiplier + shift)[:, 0]


def _lengths(vectors: np.ndarray) -> np.ndarray:
    """Return the Euclidean norms (R, 1) of vectors (R, d)."""
    return np.linalg.norm(vectors, axis=1, keepdims=True)
