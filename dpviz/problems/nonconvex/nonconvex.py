"""Three non-convex risks: logistic and sigmoid loss with Tukey's penalty, and robust principal components."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from dpviz.checkpoints import slices
from dpviz.datasets.base import NO_TABLES, SECONDS_PER_LOADED, Dataset, DatasetSpecification
from dpviz.datasets.synthetic import Saddle
from dpviz.errors import UserError
from dpviz.privacy.events import Laplace
from dpviz.problems import base
from dpviz.problems.base import Metric
from dpviz.problems.nonconvex.nonconvex_risk import (
    MOST_COLUMNS,
    PLACE,
    PRODUCTS,
    UNIT,
    Assumed,
    Loss,
    NonconvexFacts,
    NonconvexRisk,
    Penalty,
)
from dpviz.specification import choice, number

# --------------------------------------------------------------------------- losses and penalties, with their constants

_V = 1 - 2 / math.sqrt(5)  # t²/(1 + t²) has its largest third derivative at t² = v, where 1 - 10v + 5v² = 0
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
    """The risk of the logistic loss with Tukey's penalty; see `LogisticTukey`."""

    loss: ClassVar[Loss] = "logistic"
    steepest: ClassVar[float] = 1.0
    bends: ClassVar[tuple[float, float]] = (0.0, 1 / 4)
    third: ClassVar[float] = 1 / (6 * math.sqrt(3))

    @staticmethod
    def extremes(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.logaddexp(0.0, -lengths), np.logaddexp(0.0, lengths)

    @staticmethod
    def losses(arguments: np.ndarray) -> np.ndarray:
        result = np.abs(arguments)
        np.negative(result, out=result)
        np.exp(result, out=result)
        np.log1p(result, out=result)
        result -= np.minimum(arguments, 0.0)
        return result

    @staticmethod
    def slopes(arguments: np.ndarray, caps: np.ndarray | None) -> np.ndarray:
        """Return σ(-t)."""
        np.exp(arguments, out=arguments)  # overflow to inf is correct: that slope is 0
        arguments += 1.0
        return np.reciprocal(arguments, out=arguments)

    @staticmethod
    def curvatures(arguments: np.ndarray) -> np.ndarray:
        """Return σ(t)(1 - σ(t)) = e/(1 + e)² with e = exp(-|t|)."""
        return _bell(arguments)[0]


class SigmoidRisk(NonconvexRisk):
    """The risk of the sigmoid loss with Tukey's penalty; see `SigmoidTukey`."""

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
        """Return σ(t)(1 - σ(t))."""
        return _bell(arguments)[0]

    @staticmethod
    def curvatures(arguments: np.ndarray) -> np.ndarray:
        """Return σ(1 - σ)(2σ - 1), where 2σ - 1 = sign(t)(1 - e)/(1 + e)."""
        signs = np.sign(arguments)
        bell, exponential = _bell(arguments)
        return bell * signs * (1 - exponential) / (1 + exponential)


class RobustRisk(NonconvexRisk):
    """The risk of a robust principal component; see `RobustComponent`."""

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
        """Return u/(1 + u²)²."""
        inverse = 1 / (1 + arguments * arguments)
        arguments *= inverse
        arguments *= inverse
        return arguments

    @staticmethod
    def curvatures(arguments: np.ndarray) -> np.ndarray:
        """Return (3u² - 1)/(1 + u²)³ = (3 - 4/(1 + u²))/(1 + u²)²."""
        np.multiply(arguments, arguments, out=arguments)
        arguments += 1.0
        np.reciprocal(arguments, out=arguments)
        result = 3.0 - 4.0 * arguments
        result *= arguments
        result *= arguments
        return result


def _bell(arguments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return σ(t)(1 - σ(t)) = e/(1 + e)² and e = exp(-|t|), which replaces the arguments."""
    np.abs(arguments, out=arguments)
    np.negative(arguments, out=arguments)
    np.exp(arguments, out=arguments)
    result = 1.0 + arguments
    result *= result
    return np.divide(arguments, result, out=result), arguments


# ------------------------------------------------------------------------------------------------------------ the risks

DIRECTIONS = ("Hidden direction w₁", "Another direction w₂")  # titles of the first coordinates on `Saddle` data


class NonconvexModel(base.ProblemSpecification):
    """f(x) = (1/n) Σ φ(⟨vᵢ, x⟩) + r(x), ‖vᵢ‖ ≤ 1: neither φ nor r need be convex.

    vᵢ is the row of features, scaled, divided by a declared number, and shortened to norm 1 if it is longer; times its
    label ±1 where the loss uses labels.

    risk : class of the problem that it builds, which defines φ.
    """

    risk: ClassVar[type[NonconvexRisk]]
    data: DatasetSpecification = Saddle()
    scaling: Literal["ranges", "none"] = choice(
        "ranges",
        label="Feature scaling",
        help="Scaled rows that are longer than 1 are shortened to length 1: that bounds what one row can change.",
        options={"ranges": "Declared ranges to [-1, 1]", "none": "None: the numbers as they are"},
    )
    divisor: float = number(
        1.0, 0.1, 100.0, label="Divide rows by", scale="log", help="Larger: fewer rows are shortened, all weigh less."
    )
    smoothness: float | None = number(
        None,
        1e-3,
        1000.0,
        label="Smoothness",
        symbol="G",
        scale="log",
        help="Upper bound on curvature, for step sizes. Empty: what holds for every data set; less is an assumption.",
    )
    hessian_lipschitz: float | None = number(
        None,
        1e-3,
        1000.0,
        label="Hessian's Lipschitz constant",
        symbol="M",
        scale="log",
        help="How fast curvature can change. Empty: what holds for every data set; less is an assumption.",
    )
    hessian_bound: Literal["tight", "spectral"] = choice(
        "tight",
        label="Sensitivity of the Hessian",
        help="One row's Hessian has rank one, so its Frobenius norm needs no factor √d.",
        options={"tight": "Tight", "spectral": "√d times the spectral norm, as published"},
    )
    start: Literal["zero", "random"] = choice(
        "zero",
        label="Start",
        help="Where runs begin.",
        options={"zero": "Zero", "random": "Random, the same in all repeats"},
    )
    start_seed: int = number(0, 0, 2**31 - 1, label="Seed of the start", help="Another seed draws another N(0, I).")
    gap: float | None = number(
        None,
        1e-3,
        1e6,
        label="Initial gap",
        symbol="Γ",
        scale="log",
        help="Bound on f(x₀) - inf f. Empty: what holds for every data set; less is an assumption, unless released.",
    )
    gap_cost: float | None = number(
        None,
        1e-9,
        50.0,
        label="Cost of Γ",
        symbol="ε_Γ",
        scale="log",
        help="What a private release of f(x₀) spent to find the gap. Empty: it was not released.",
    )

    @model_validator(mode="after")
    def _what_was_paid_for_is_stated(self) -> Self:
        if self.gap is None and self.gap_cost is not None:
            raise ValueError("a privately released gap needs its value beside its cost ε_Γ")
        return self

    @property
    @abstractmethod
    def penalty(self) -> Penalty:
        """The term without data."""

    @property
    def public(self) -> bool:
        return self.data.public

    @classmethod
    def problem_type(cls) -> type[NonconvexRisk]:
        return cls.risk

    def _plane(self) -> base.Plane | None:
        if isinstance(self.data, Saddle):
            return base.first_two(DIRECTIONS)
        return base.first_two([f"Weight of {name}" for name in self.data.facts().names[:2]])

    def starting_point(self) -> np.ndarray:
        """Return (1, d) the start x₀, which does not depend on the data."""
        d = self.data.facts().d
        return np.zeros((1, d)) if self.start == "zero" else random_start(d, self.start_seed)

    def facts(self) -> NonconvexFacts:
        data, x, risk = self.data.facts(), self.starting_point(), self.risk
        (low, high), (down, up), third = risk.bends, self.penalty.bends, risk.third + self.penalty.third
        # ‖a xxᵀ - b zzᵀ‖² = a² + b² - 2ab ⟨x, z⟩² is largest for x ⊥ z if a and b have one sign, else for x = z.
        tight = max(math.sqrt(2) * max(-low, high), high - low)
        (lowest,), (highest,) = risk.extremes(np.linalg.norm(x, axis=1))
        reachable = float(highest + self.penalty.value(x)[0]) - risk.floor  # φ ≥ floor, and no penalty is negative
        gap = self.gap if self.gap_cost is None else None  # a released gap is no assumption
        declared = (("G", self.smoothness, high + up), ("M", self.hessian_lipschitz, third), ("Γ", gap, reachable))
        return NonconvexFacts(
            n=data.n,
            d=data.d,
            released=() if self.gap_cost is None else (Laplace(self.gap_cost),),
            from_data=self.from_data,
            loss=risk.loss,
            gradient_sensitivity=2 * risk.steepest,
            hessian_sensitivity=2 * math.sqrt(data.d) if self.hessian_bound == "spectral" else tight,
            curvature_sensitivity=high - low,
            value_range=float(highest - lowest),
            smoothness=high + up if self.smoothness is None else self.smoothness,
            hessian_lipschitz=third if self.hessian_lipschitz is None else self.hessian_lipschitz,
            curvature_floor=low + down,
            gap=reachable if self.gap is None else self.gap,
            lowest=risk.floor,
            start=() if self.start == "zero" else tuple(x[0].tolist()),
            assumed=tuple(
                Assumed(name, value, follows)
                for name, value, follows in declared
                if value is not None and value < follows * (1 - 1e-9)
            ),
        )

    def memory(self, facts: base.Facts) -> base.Memory:
        """Return the memory, with a replicate's Hessians, packed and not, or the products that diagnostics use
        instead."""
        n, d = facts.n, facts.d
        hessians = 40.0 * d**2 if d <= MOST_COLUMNS else 100.0 * PRODUCTS * d
        return base.Memory(table=24.0 * n * d, replicate=64.0 * d + hessians)

    def rows(self, data: Dataset) -> tuple[np.ndarray, float]:
        """Return the rows (n, d) of the risk, of norm at most 1 for any data, and the share of those that were
        longer."""
        rows = np.empty(data.features.shape)
        ranges = np.array(data.facts.bounds[: data.facts.numeric]).reshape(-1, 2)
        low, high, n_longer = ranges[:, 0], ranges[:, 1], 0
        for part in slices(data.facts.n, data.facts.d * SECONDS_PER_LOADED / 3):
            block = rows[part]
            block[:] = data.features[part]
            if self.scaling == "ranges" and not self.data.scaled:  # features of categories stay 0 and 1
                numbers = block[:, : data.facts.numeric]
                numbers -= (low + high) / 2
                numbers /= (high - low) / 2
            block /= self.divisor
            n_longer += shorten(block)
            if self.risk.labelled:
                block *= data.labels[part][:, None]
        return rows, n_longer / len(rows)

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> NonconvexRisk:
        rows, longer = self.rows(self.data.load(tables))
        return self.risk(self.facts(), self.penalty, rows, longer)


@lru_cache(maxsize=16)
def random_start(d: int, seed: int) -> np.ndarray:
    """Draw (1, d) standard normal numbers, read-only."""
    start = np.random.default_rng(seed).standard_normal((1, d))
    start.flags.writeable = False
    return start


def shorten(rows: np.ndarray) -> int:
    """Scale rows (n, d) that are longer than 1 down to norm 1, in place, and return their number.

    A row with an entry that is not finite becomes 0, as scaling would leave it unchanged.
    """
    rows[~np.isfinite(rows).all(axis=1)] = 0.0
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(rows, axis=1)
    rows /= np.maximum(1.0, lengths)[:, None]
    return int((lengths > UNIT).sum())


class MarginModel(NonconvexModel):
    """A loss of margins zᵢ⟨uᵢ, x⟩, labels zᵢ = ±1, plus Tukey's penalty λ Σ xⱼ²/(1 + xⱼ²)."""

    regularisation: float = number(
        1e-3, 1e-6, 1.0, label="Regularisation", symbol="λ", scale="log", help="Weight of λ Σ xⱼ²/(1 + xⱼ²)."
    )

    @model_validator(mode="after")
    def _two_classes(self) -> Self:
        if self.data.facts().target is not None:
            raise UserError(
                "The loss needs two classes. Choose the robust principal component, or another target.",
                title="The target is a number",
            )
        return self

    @property
    def penalty(self) -> Penalty:
        return Tukey(self.regularisation)


class LogisticTukey(MarginModel):
    """f(x) = (1/n) Σ ln(1 + exp(-zᵢ⟨uᵢ, x⟩)) + λ Σ xⱼ²/(1 + xⱼ²), ‖uᵢ‖ ≤ 1: the risk of the paper's experiments."""

    kind: ClassVar[str] = "problems.nonconvex.logistic_tukey"
    title: ClassVar[str] = "Logistic loss, non-convex penalty"
    risk: ClassVar[type[NonconvexRisk]] = LogisticRisk


class SigmoidTukey(MarginModel):
    """f(x) = (1/n) Σ σ(-zᵢ⟨uᵢ, x⟩) + λ Σ xⱼ²/(1 + xⱼ²), ‖uᵢ‖ ≤ 1: a smooth count of mistakes, not convex by itself."""

    kind: ClassVar[str] = "problems.nonconvex.sigmoid_tukey"
    title: ClassVar[str] = "Sigmoid loss, non-convex penalty"
    risk: ClassVar[type[NonconvexRisk]] = SigmoidRisk


class RobustComponent(NonconvexModel):
    """f(x) = -(1/n) Σ uᵢ²/(2(1 + uᵢ²)) + μ/2 ‖x‖², uᵢ = ⟨xᵢ, x⟩, ‖xᵢ‖ ≤ 1: a principal component that outliers hardly
    move.

    x = 0 is stationary for every data set, and a saddle point where the rows have a main direction.
    """

    kind: ClassVar[str] = "problems.nonconvex.robust_component"
    title: ClassVar[str] = "Robust principal component"
    risk: ClassVar[type[NonconvexRisk]] = RobustRisk
    regularisation: float = number(
        0.05, 1e-4, 1.0, label="Regularisation", symbol="μ", scale="log", help="Weight of μ/2 ‖x‖²."
    )

    @property
    def penalty(self) -> Penalty:
        return Ridge(self.regularisation)
