"""The losses and penalties of non-convex risks, with the constants that privacy and step sizes rest on."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpviz.problems.base import Metric
from dpviz.problems.nonconvex.nonconvex_risk import PLACE, Loss, NonconvexRisk, Penalty

_V = 1 - 2 / math.sqrt(5)  # where t²/(1 + t²) has its largest third derivative: t² = v, 1 - 10v + 5v² = 0
_THIRD = 12 * math.sqrt(_V) * (1 - _V) / (1 + _V) ** 4  # 2.334280, of t²/(2(1 + t²))


@dataclass(frozen=True)
class Tukey(Penalty):
    """λ Σ xⱼ²/(1 + xⱼ²): grows like a square near 0 and levels off, so it bends down where |xⱼ| > 1/√3."""

    weight: float

    @property
    def bends(self) -> tuple[float, float]:
        return -self.weight / 2, 2 * self.weight

    @property
    def third(self) -> float:
        return 2 * _THIRD * self.weight

    def value(self, x: np.ndarray) -> np.ndarray:
        return self.weight * (1 - 1 / (1 + x * x)).sum(axis=-1)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        inverse = 1 / (1 + x * x)
        return 2 * self.weight * x * inverse * inverse

    def hessian(self, x: np.ndarray) -> np.ndarray:
        inverse = 1 / (1 + x * x)
        return self.weight * (8 * inverse - 6) * inverse * inverse  # 2 - 6x² = 8 - 6(1 + x²)


@dataclass(frozen=True)
class Ridge(Penalty):
    """μ/2 ‖x‖²."""

    weight: float

    @property
    def bends(self) -> tuple[float, float]:
        return self.weight, self.weight

    @property
    def third(self) -> float:
        return 0.0

    def value(self, x: np.ndarray) -> np.ndarray:
        return self.weight / 2 * (x * x).sum(axis=-1)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        return self.weight * x

    def hessian(self, x: np.ndarray) -> np.ndarray:
        return np.full(x.shape, self.weight)


class LogisticRisk(NonconvexRisk):
    """See `LogisticTukey`."""

    loss: ClassVar[Loss] = "logistic"
    steepest: ClassVar[float] = 1.0
    bends: ClassVar[tuple[float, float]] = (0.0, 1 / 4)
    third: ClassVar[float] = 1 / (6 * math.sqrt(3))

    @staticmethod
    def extremes(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.logaddexp(0.0, -lengths), np.logaddexp(0.0, lengths)

    @staticmethod
    def losses(arguments: np.ndarray) -> np.ndarray:
        found = np.abs(arguments)
        np.negative(found, out=found)
        np.exp(found, out=found)
        np.log1p(found, out=found)
        found -= np.minimum(arguments, 0.0)
        return found

    @staticmethod
    def slopes(arguments: np.ndarray, caps: np.ndarray | None) -> np.ndarray:
        """σ(-t)."""
        np.exp(arguments, out=arguments)  # overflow to inf is right: that slope is 0
        arguments += 1.0
        return np.reciprocal(arguments, out=arguments)

    @staticmethod
    def curvatures(arguments: np.ndarray) -> np.ndarray:
        """σ(t)(1 - σ(t)) = e/(1 + e)² with e = exp(-|t|)."""
        return _bell(arguments)[0]


class SigmoidRisk(NonconvexRisk):
    """See `SigmoidTukey`."""

    loss: ClassVar[Loss] = "sigmoid"
    steepest: ClassVar[float] = 1 / 4
    bends: ClassVar[tuple[float, float]] = (-1 / (6 * math.sqrt(3)), 1 / (6 * math.sqrt(3)))
    third: ClassVar[float] = 1 / 8

    @staticmethod
    def extremes(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        half = np.tanh(lengths / 2) / 2
        return 0.5 - half, 0.5 + half

    @staticmethod
    def losses(arguments: np.ndarray) -> np.ndarray:
        return 0.5 - 0.5 * np.tanh(arguments / 2)

    @staticmethod
    def slopes(arguments: np.ndarray, caps: np.ndarray | None) -> np.ndarray:
        """σ(t)(1 - σ(t))."""
        return _bell(arguments)[0]

    @staticmethod
    def curvatures(arguments: np.ndarray) -> np.ndarray:
        """σ(1 - σ)(2σ - 1), and 2σ - 1 = sign(t)(1 - e)/(1 + e)."""
        signs = np.sign(arguments)
        bell, exponential = _bell(arguments)
        return bell * signs * (1 - exponential) / (1 + exponential)


class RobustRisk(NonconvexRisk):
    """See `RobustComponent`."""

    metrics: ClassVar[tuple[Metric, ...]] = (*NonconvexRisk.metrics, *PLACE)
    loss: ClassVar[Loss] = "robust"
    steepest: ClassVar[float] = 3 * math.sqrt(3) / 16
    bends: ClassVar[tuple[float, float]] = (-1.0, 1 / 4)
    third: ClassVar[float] = _THIRD
    floor: ClassVar[float] = -1 / 2
    labelled: ClassVar[bool] = False

    @staticmethod
    def extremes(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return RobustRisk.losses(lengths), np.zeros_like(lengths)

    @staticmethod
    def losses(arguments: np.ndarray) -> np.ndarray:
        return 0.5 / (1 + arguments * arguments) - 0.5

    @staticmethod
    def slopes(arguments: np.ndarray, caps: np.ndarray | None) -> np.ndarray:
        """u/(1 + u²)²."""
        inverse = 1 / (1 + arguments * arguments)
        arguments *= inverse
        arguments *= inverse
        return arguments

    @staticmethod
    def curvatures(arguments: np.ndarray) -> np.ndarray:
        """(3u² - 1)/(1 + u²)³ = (3 - 4/(1 + u²))/(1 + u²)²."""
        np.multiply(arguments, arguments, out=arguments)
        arguments += 1.0
        np.reciprocal(arguments, out=arguments)
        found = 3.0 - 4.0 * arguments
        found *= arguments
        found *= arguments
        return found


def _bell(arguments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """σ(t)(1 - σ(t)) = e/(1 + e)² and e = exp(-|t|), which is in place of the arguments."""
    np.abs(arguments, out=arguments)
    np.negative(arguments, out=arguments)
    np.exp(arguments, out=arguments)
    below = 1.0 + arguments
    below *= below
    return np.divide(arguments, below, out=below), arguments
