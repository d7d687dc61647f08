"""Losses of which methods use values only: they have kinks, are not convex, and one of them is a step function.

The loss of a row z = (a, y) at x is φ(A_z x, y), a function of k numbers A_z x, its *arguments*, and of the row's
targets y. The (k, d) matrix A_z follows from the row's features a; often k = 1 and A_z x = ⟨a, x⟩.
"""

from abc import ABC, abstractmethod

import numpy as np


class ValueLoss(ABC):
    """A loss, defined by φ and by the matrix A_z of a row; this default has k = 1 and A_z x = ⟨a, x⟩.

    count : k, the number of arguments of one row. continuous : False if φ jumps.
    """

    count: int = 1
    continuous: bool = True

    @abstractmethod
    def values(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return φ (...) of arguments (..., k) and targets y (..., t), whose shapes are broadcast."""

    @abstractmethod
    def slopes(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return the derivatives of φ by its k arguments, (..., k), one-sided or 0 at a kink.

        They are for diagnostics, and for methods that may use more than values.
        """

    def arguments(self, rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Compute A_z v (R, b, k, e) for b rows a (R, b, p) and e vectors v (R, d, e) of each replicate.

        The first axis of `rows` may have length 1 if all replicates have the same rows.
        """
        return np.asarray(np.matmul(rows, vectors)[:, :, None])

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        """Return for each row a (R, b, p) the length l (R, b) of A_zᵀ w, the same for all w of length 1: for all losses
        A_z A_zᵀ is l² times the identity."""
        return np.asarray(np.linalg.norm(rows, axis=2))

    def pull_back(self, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Compute the sum Σ A_zᵀ w (R, d) over b rows a (R, b, p) with weights w (R, b, k).

        With the derivatives of φ as weights this is the gradient of the sum of the rows' losses.
        """
        return np.matmul(weights.transpose(0, 2, 1), rows).reshape(len(rows), -1)


class PhaseLoss(ValueLoss):
    """||⟨a, x⟩| - y|, as in `PhaseRetrieval`: Lipschitz in x with constant ‖a‖."""

    def values(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        errors = np.abs(arguments[..., 0])
        errors -= targets[..., 0]
        return np.abs(errors, out=errors)

    def slopes(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.sign(np.abs(arguments) - targets[..., :1]) * np.sign(arguments)


class SquaredPhaseLoss(ValueLoss):
    """|⟨a, x⟩² - y|: no Lipschitz constant holds everywhere."""

    def values(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        errors = arguments[..., 0] ** 2
        errors -= targets[..., 0]
        return np.abs(errors, out=errors)

    def slopes(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.sign(arguments**2 - targets[..., :1]) * 2 * arguments


class CappedLoss(ValueLoss):
    """min(|y - ⟨a, x⟩|, τ) with the cap τ: Lipschitz in x with constant ‖a‖."""

    def __init__(self, cap: float) -> None:
        self.cap = cap

    def values(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        errors = arguments[..., 0] - targets[..., 0]
        np.abs(errors, out=errors)
        return np.minimum(errors, self.cap, out=errors)

    def slopes(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        errors = arguments - targets[..., :1]
        return np.where(np.abs(errors) < self.cap, np.sign(errors), 0.0)


class NetworkLoss(ValueLoss):
    """|y - h^(-1/2) Σ_k ±_k max(0, ⟨a, w_k⟩)|, the error of a network with h units; x = (w_1, …, w_h).

    The signs ± of the output weights are fixed: the first half, rounded up, are positive. The arguments are the ⟨a,
    w_k⟩. The gradient in each w_k is at most ‖a‖/√h long, so all of it is at most ‖a‖ long.
    """

    def __init__(self, units: int) -> None:
        self.count = units
        n_positive = -(-units // 2)
        self._output_weights = np.where(np.arange(units) < n_positive, 1.0, -1.0) / np.sqrt(units)

    def arguments(self, rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Compute the inner products (R, b, h, e) of b rows a (R, b, p) with the w_k of e vectors (R, h p, e)."""
        replicates, n_vectors = vectors.shape[0], vectors.shape[2]
        by_unit = vectors.reshape(replicates, self.count, -1, n_vectors)  # (R, h, p, e)
        return np.moveaxis(np.matmul(rows[:, None], by_unit), 1, 2)

    def values(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        errors = np.maximum(arguments, 0.0) @ self._output_weights
        errors -= targets[..., 0]
        return np.abs(errors, out=errors)

    def slopes(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        errors = np.maximum(arguments, 0.0) @ self._output_weights - targets[..., 0]
        return np.sign(errors)[..., None] * self._output_weights * (arguments > 0)


class VoteLoss(ValueLoss):
    """1 where |⟨θ, x⟩ - b| > τ, which is a user's down-vote, else 0. A step function of x.

    A user has the features a = θ and the targets y = (b, τ).
    """

    continuous = False

    def values(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return (np.abs(arguments[..., 0] - targets[..., 0]) > targets[..., 1]).astype(float)

    def slopes(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.zeros_like(arguments)


class ValleyLoss(ValueLoss):
    """|1 - x₁ + z₁|/4 + |x₂ - 2|x₁| + 1 + z₂|: a bent valley, along which the way down is slow.

    The targets are y = z = (z₁, z₂). The arguments are x itself, so A_z is the identity and features are not used.
    """

    count = 2

    def arguments(self, rows: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        shape = (len(vectors), rows.shape[1], *vectors.shape[1:])  # (R, b, 2, e): the same vectors for every row
        return np.broadcast_to(vectors[:, None], shape)

    def values(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        x1, x2 = arguments[..., 0], arguments[..., 1]
        valley = np.abs(x2 - 2 * np.abs(x1) + 1 + targets[..., 1])
        return np.asarray(valley + np.abs(1 - x1 + targets[..., 0]) / 4)

    def slopes(self, arguments: np.ndarray, targets: np.ndarray) -> np.ndarray:
        x1, x2 = arguments[..., 0], arguments[..., 1]
        side = np.sign(x2 - 2 * np.abs(x1) + 1 + targets[..., 1])  # of the valley's bottom
        return np.stack([-np.sign(1 - x1 + targets[..., 0]) / 4 - 2 * side * np.sign(x1), side], axis=-1)

    def lengths(self, rows: np.ndarray) -> np.ndarray:
        return np.ones(rows.shape[:2])

    def pull_back(self, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return np.asarray(weights.sum(axis=1))
