"""Kernels of unit amplitude with their derivatives, and the Gaussian process assumed for one user's loss (THEORY.md,
section 2)."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from dpviz.specification import Specification, choice, number

KERNELS = {"rbf": "Squared exponential", "matern": "Matérn 5/2: rougher", "quadratic": "Quadratic functions"}
MEANS = {"constant": "Unknown constant", "zero": "Zero, as published"}
ROOT_5 = math.sqrt(5.0)
MIN_NOISE = 1e-6  # relative, assumed where observations have none


class Kernel(ABC):
    """Covariance k(x, z) of one user's losses at two points, in units of their variance."""

    @abstractmethod
    def gram(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return (N, M) k between points x (N, d) and z (M, d)."""

    def diagonal(self, x: np.ndarray) -> np.ndarray:
        """Return (N,) k(x, x) of points (N, d); 1 for stationary kernels."""
        return np.ones(len(x))

    @abstractmethod
    def slopes(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return (N, d) ∇ₓ k(x, z_j) at one point x (d,) for points z (N, d)."""

    @abstractmethod
    def mixed(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return (d, d) ∂²k(x, z)/∂x_a∂z_b at two points (d,)."""

    def prior(self, x: np.ndarray) -> np.ndarray:
        """Return the covariance (d, d) of the gradient at x (d,) before any evaluation."""
        return self.mixed(x, x)


@dataclass(frozen=True)
class SquaredExponential(Kernel):
    """Kernel exp(-r²/2), r = ‖x - z‖/ℓ."""

    length: float

    def gram(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.exp(-squares(x, z) / (2 * self.length**2))

    def slopes(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        away = (z - x) / self.length**2
        return away * self.gram(x[None], z)[0][:, None]

    def mixed(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        away = (x - z) / self.length**2
        k = math.exp(-float(away @ (x - z)) / 2)
        return k * (np.eye(len(x)) / self.length**2 - np.outer(away, away))


@dataclass(frozen=True)
class Matern(Kernel):
    """Matérn's kernel of smoothness 5/2, (1 + √5 r + 5r²/3) exp(-√5 r), r = ‖x - z‖/ℓ."""

    length: float

    def gram(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        r = ROOT_5 * np.sqrt(squares(x, z)) / self.length
        return (1 + r + r**2 / 3) * np.exp(-r)

    def slopes(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        r = ROOT_5 * np.sqrt(squares(x[None], z)[0]) / self.length
        return (z - x) * ((5 / 3) / self.length**2 * (1 + r) * np.exp(-r))[:, None]

    def mixed(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        away = x - z
        r = ROOT_5 * math.sqrt(float(away @ away)) / self.length
        inner = (1 + r) * np.eye(len(x)) - 5 * np.outer(away, away) / self.length**2
        return 5 / (3 * self.length**2) * math.exp(-r) * inner


@dataclass(frozen=True)
class Quadratic(Kernel):
    """Kernel (1 + xᵀz)² of quadratic functions, known exactly after (d + 1)(d + 2)/2 evaluations. Not stationary."""

    def gram(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return (1 + x @ z.T) ** 2

    def diagonal(self, x: np.ndarray) -> np.ndarray:
        return (1 + (x**2).sum(axis=1)) ** 2

    def slopes(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return 2 * (1 + z @ x)[:, None] * z

    def mixed(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return 2 * (1 + x @ z) * np.eye(len(x)) + 2 * np.outer(z, x)


def squares(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return (N, M) ‖x - z‖² between points (N, d) and (M, d), computed from their middle, so that less cancels for
    near points."""
    middle = z.mean(axis=0) if len(z) else 0.0
    x, z = x - middle, z - middle
    lengths = np.einsum("ij,ij->i", x, x)[:, None] + np.einsum("ij,ij->i", z, z)
    return np.maximum(lengths - 2 * (x @ z.T), 0.0)


class Surrogate(Specification):
    """Gaussian process for the loss of one user, chosen without its losses: privacy does not depend on it, but it must
    not be fitted to the users' losses (THEORY.md, E3)."""

    kind: ClassVar[str] = "families.bayesian_optimization.surrogate"
    kernel: Literal["rbf", "matern", "quadratic"] = choice(
        "rbf", KERNELS, label="Kernel", help="What is assumed of a user's loss: how smooth it is."
    )
    length_scale: float = number(
        1.0,
        0.1,
        10.0,
        label="Length scale",
        symbol="ℓ",
        scale="log",
        help="Over which distance losses change, in the unit of the settings. Points are placed in proportion to it.",
    )
    relative_noise: float | None = number(
        None,
        1e-10,
        100.0,
        label="Assumed noise",
        symbol="s",
        scale="log",
        help="Variance of an observation's noise over that of a user's loss. Empty: what the problem declares, for "
        "losses of variance 1. Too small a value costs most.",
    )
    mean: Literal["constant", "zero"] = choice(
        "constant",
        MEANS,
        label="Mean of the process",
        help="With an unknown constant, adding a number to all losses of a user changes nothing.",
    )

    @property
    def noise(self) -> float:
        """s, the relative noise; if it is not set, a small number against rounding errors."""
        return MIN_NOISE if self.relative_noise is None else self.relative_noise

    def observing(self, deviation: float, factor: float = 1.0) -> "Surrogate":
        """Return this process with the noise of observations with a declared standard deviation, times a factor.

        A noise that is set replaces the declared one.
        """
        declared = deviation**2 if self.relative_noise is None else self.relative_noise
        minimum = MIN_NOISE if self.relative_noise is None else 0.0
        return self.replaced(relative_noise=min(100.0, max(minimum, 1e-10, declared * factor**2)))

    @property
    def covariance(self) -> Kernel:
        """Kernel of the process."""
        if self.kernel == "quadratic":
            return Quadratic()
        return (SquaredExponential if self.kernel == "rbf" else Matern)(self.length_scale)
