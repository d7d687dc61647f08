"""Symmetric matrices as a mechanism releases them, and what a method of second order reads from them."""

import math
from functools import lru_cache
from typing import Literal

import numpy as np

# How noise falls on a symmetric matrix: evenly in every direction ("goe", half the variance off the diagonal), or with
# the same variance on all entries on and above the diagonal ("upper").
Shape = Literal["goe", "upper"]


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
