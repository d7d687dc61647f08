"""Losses that are only asked for values: with kinks, not convex, and one of them a step function.

A loss of one row z at x is φ(A_z x, y_z), with k numbers A_z x, its *arguments*, that are linear in x.
"""

from abc import ABC, abstractmethod

import numpy as np


class ValueLoss(ABC):
    """φ and A_z. count : k, the arguments of one row. `targets` (..., t) is y_z."""

    count: int = 1

    @abstractmethod
    def values(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """φ (...) of arguments (..., k) and targets (..., t), which broadcast."""

    def arguments(self, rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """A_z v (R, b, k, e) for rows (R, b, p) and vectors v (R, d, e); R of the rows may be 1."""
        return np.asarray(np.matmul(rows, vectors)[:, :, None])


class Phase(ValueLoss):
    """||⟨a, x⟩| - y|: Lipschitz with constant ‖a‖."""

    def values(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        found = np.abs(arguments[..., 0])
        found -= targets[..., 0]
        return np.abs(found, out=found)


class SquaredPhase(ValueLoss):
    """|⟨a, x⟩² - y|: no Lipschitz constant holds everywhere."""

    def values(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        found = arguments[..., 0] ** 2
        found -= targets[..., 0]
        return np.abs(found, out=found)


class Capped(ValueLoss):
    """min(|y - ⟨a, x⟩|, τ): Lipschitz with constant ‖a‖."""

    def __init__(self, cap: float) -> None:
        self.cap = cap

    def values(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        found = arguments[..., 0] - targets[..., 0]
        np.abs(found, out=found)
        return np.minimum(found, self.cap, out=found)


class Network(ValueLoss):
    """|y - h^(-1/2) Σ_k ±_k max(0, ⟨a, w_k⟩)| with fixed signs, the first half positive; x = (w_1, …, w_h).

    The gradient in each w_k is at most ‖a‖/√h long, so all of it is at most ‖a‖ long.
    """

    def __init__(self, units: int) -> None:
        self.count = units
        self._weights = np.where(np.arange(units) < -(-units // 2), 1.0, -1.0) / np.sqrt(units)

    def arguments(self, rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        count, columns = vectors.shape[0], vectors.shape[2]
        blocks = vectors.reshape(count, self.count, -1, columns)
        return np.moveaxis(np.matmul(rows[:, None], blocks), 1, 2)

    def values(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        found = np.maximum(arguments, 0.0) @ self._weights
        found -= targets[..., 0]
        return np.abs(found, out=found)


class Vote(ValueLoss):
    """1 where |⟨θ, x⟩ - b| > τ, a user's down-vote, else 0; y = (b, τ). A step function of x."""

    def values(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return (np.abs(arguments[..., 0] - targets[..., 0]) > targets[..., 1]).astype(float)


class Valley(ValueLoss):
    """|1 - x₁ + z₁|/4 + |x₂ - 2|x₁| + 1 + z₂|, y = z: a bent valley, along which the way down is slow."""

    count = 2

    def arguments(self, rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        shape = (len(vectors), rows.shape[1], *vectors.shape[1:])
        return np.broadcast_to(vectors[:, None], shape)

    def values(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        across, along = arguments[..., 0], arguments[..., 1]
        found = np.abs(along - 2 * np.abs(across) + 1 + targets[..., 1])
        return np.asarray(found + np.abs(1 - across + targets[..., 0]) / 4)
