"""Losses of which methods use values only: they have kinks, are not convex, and one of them is a step function.

A loss of one row z at x is φ(A_z x, y_z), with k numbers A_z x, its *arguments*, that are linear in x.
"""

from abc import ABC, abstractmethod

import numpy as np


class ValueLoss(ABC):
    """φ and A_z. count : k, the arguments of one row. continuous : whether φ is. `targets` (..., t) is y_z."""

    count: int = 1
    continuous: bool = True

    @abstractmethod
    def values(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return φ (...) of arguments (..., k) and targets (..., t), which broadcast."""

    @abstractmethod
    def slopes(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return derivatives of φ (..., k) by its arguments, one-sided at a kink: for methods that may use them."""

    def arguments(self, rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Compute A_z v (R, b, k, e) for rows (R, b, p) and vectors v (R, d, e); the first axis of rows may be 1."""
        return np.asarray(np.matmul(rows, vectors)[:, :, None])

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        """Return (R, b) the length of A_zᵀ w for any w of length 1: A_z A_zᵀ is its square times the identity."""
        return np.asarray(np.linalg.norm(rows, axis=2))

    def pulled(self, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Compute Σ A_zᵀ w (R, d) over rows (R, b, p) with weights w (R, b, k)."""
        return np.matmul(weights.transpose(0, 2, 1), rows).reshape(len(rows), -1)


class Phase(ValueLoss):
    """||⟨a, x⟩| - y|: Lipschitz with constant ‖a‖."""

    def values(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        errors = np.abs(arguments[..., 0])
        errors -= targets[..., 0]
        return np.abs(errors, out=errors)

    def slopes(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.sign(np.abs(arguments) - targets[..., :1]) * np.sign(arguments)


class SquaredPhase(ValueLoss):
    """|⟨a, x⟩² - y|: no Lipschitz constant holds everywhere."""

    def values(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        errors = arguments[..., 0] ** 2
        errors -= targets[..., 0]
        return np.abs(errors, out=errors)

    def slopes(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.sign(arguments**2 - targets[..., :1]) * 2 * arguments


class Capped(ValueLoss):
    """min(|y - ⟨a, x⟩|, τ): Lipschitz with constant ‖a‖."""

    def __init__(self, cap: float) -> None:
        self.cap = cap

    def values(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        errors = arguments[..., 0] - targets[..., 0]
        np.abs(errors, out=errors)
        return np.minimum(errors, self.cap, out=errors)

    def slopes(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        errors = arguments - targets[..., :1]
        return np.where(np.abs(errors) < self.cap, np.sign(errors), 0.0)


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
        errors = np.maximum(arguments, 0.0) @ self._weights
        errors -= targets[..., 0]
        return np.abs(errors, out=errors)

    def slopes(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        errors = np.maximum(arguments, 0.0) @ self._weights - targets[..., 0]
        return np.sign(errors)[..., None] * self._weights * (arguments > 0)


class Vote(ValueLoss):
    """1 where |⟨θ, x⟩ - b| > τ, a user's down-vote, else 0; y = (b, τ). A step function of x."""

    continuous = False

    def values(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return (np.abs(arguments[..., 0] - targets[..., 0]) > targets[..., 1]).astype(float)

    def slopes(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.zeros_like(arguments)


class Valley(ValueLoss):
    """|1 - x₁ + z₁|/4 + |x₂ - 2|x₁| + 1 + z₂|, y = z: a bent valley, along which the way down is slow."""

    count = 2

    def arguments(self, rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        shape = (len(vectors), rows.shape[1], *vectors.shape[1:])
        return np.broadcast_to(vectors[:, None], shape)

    def values(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        across, along = arguments[..., 0], arguments[..., 1]
        valley = np.abs(along - 2 * np.abs(across) + 1 + targets[..., 1])
        return np.asarray(valley + np.abs(1 - across + targets[..., 0]) / 4)

    def slopes(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        across, along = arguments[..., 0], arguments[..., 1]
        side = np.sign(along - 2 * np.abs(across) + 1 + targets[..., 1])
        return np.stack([-np.sign(1 - across + targets[..., 0]) / 4 - 2 * side * np.sign(across), side], axis=-1)

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        return np.ones(rows.shape[:2])

    def pulled(self, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return np.asarray(weights.sum(axis=1))
