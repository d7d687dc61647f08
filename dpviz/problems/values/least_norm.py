"""The shortest vector in the convex hull of a few, for many replicates at once."""

import numpy as np

STEPS, ROUNDING = 300, 1e-9


def least_norm(vectors: np.ndarray) -> np.ndarray:
    """(R,) norm of about the shortest convex combination of vectors (R, q, d): never below the least norm, and 0 where
    nothing but rounding is left."""
    return np.linalg.norm(mixed(vectors, shortest(vectors)), axis=1)


def mixed(vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(R, d) convex combinations of vectors (R, q, d); 0 where nothing but rounding is left."""
    found = np.matmul(weights[:, None], vectors)[:, 0]
    left = np.linalg.norm(found, axis=1) > ROUNDING * np.linalg.norm(vectors, axis=2).max(axis=1)
    return np.where(left[:, None], found, 0.0)


def shortest(vectors: np.ndarray) -> np.ndarray:
    """(R, q) weights of about the shortest convex combination of vectors (R, q, d).

    Frank-Wolfe with pairwise steps: weight goes from the worst vector that has any to the best one, as far as helps
    (Lacoste-Julien and Jaggi 2015).
    """
    gram, every = np.matmul(vectors, vectors.transpose(0, 2, 1)), np.arange(len(vectors))
    weights = np.zeros(vectors.shape[:2])
    weights[every, np.diagonal(gram, axis1=1, axis2=2).argmin(axis=1)] = 1.0
    for _ in range(STEPS):
        slopes = np.matmul(gram, weights[:, :, None])[:, :, 0]
        best, worst = slopes.argmin(axis=1), np.where(weights > 0, slopes, -np.inf).argmax(axis=1)
        gain = slopes[every, worst] - slopes[every, best]
        bend = gram[every, best, best] + gram[every, worst, worst] - 2 * gram[every, best, worst]
        step = np.minimum(weights[every, worst], np.divide(gain, bend, out=np.zeros_like(gain), where=bend > 0))
        weights[every, best] += step
        weights[every, worst] -= step
        if not (gain > 1e-12 * (1 + np.abs(slopes).max(axis=1))).any():
            break
    return weights
