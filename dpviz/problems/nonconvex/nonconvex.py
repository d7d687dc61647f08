"""Three non-convex risks and their settings: logistic and sigmoid loss with Tukey's penalty, and robust principal
components."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from dpviz.checkpoints import checkpointed_slices
from dpviz.datasets.base import NO_TABLES, SECONDS_PER_LOADED, Dataset, DatasetSpecification
from dpviz.datasets.synthetic import Saddle
from dpviz.errors import UserError
from dpviz.privacy.events import Event, Laplace
from dpviz.problems import base
from dpviz.problems.base import Metric
from dpviz.problems.model import LinearScore, unscaled
from dpviz.problems.nonconvex.nonconvex_risk import (
    COORDINATES,
    MAX_COLUMNS,
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

# Constants are named as in `NonconvexRisk` and `Penalty`: for a loss φ, `max_slope` is the largest |φ'|,
# `curvature_range` the smallest and largest φ'' (0 included), `max_third_derivative` the largest |φ'''|, and `floor` is
# inf φ; for a penalty `curvature_range` and `max_third_derivative` are of the function of one coordinate. σ(t) =
# 1/(1 + e⁻ᵗ). Arrays (R, b): R replicates, b rows.

# The largest third derivative of t²/(2(1 + t²)), 2.334280, is at t² = v with 1 - 10v + 5v² = 0.
_V = 1 - 2 / math.sqrt(5)
_THIRD = 12 * math.sqrt(_V) * (1 - _V) / (1 + _V) ** 4


@dataclass(frozen=True)
class Tukey(Penalty):
    """λ Σ xⱼ²/(1 + xⱼ²) with the weight λ: it grows like a square near 0 and levels off, so it bends down where
    |xⱼ| > 1/√3."""

    weight: float

    @property
    def curvature_range(self) -> tuple[float, float]:
        return -self.weight / 2, 2 * self.weight  # where |xⱼ| = 1, and at 0

    @property
    def max_third_derivative(self) -> float:
        return 2 * _THIRD * self.weight  # the function is 2λ times that of _THIRD

    def value(self, x: np.ndarray) -> np.ndarray:
        return self.weight * (1 - 1 / (1 + x * x)).sum(axis=-1)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        inverse = 1 / (1 + x * x)
        return 2 * self.weight * x * inverse * inverse

    def hessian(self, x: np.ndarray) -> np.ndarray:
        inverse = 1 / (1 + x * x)
        return self.weight * (8 * inverse - 6) * inverse * inverse  # λ(2 - 6x²)/(1 + x²)³; 2 - 6x² = 8 - 6(1 + x²)


@dataclass(frozen=True)
class Ridge(Penalty):
    """(μ/2) ‖x‖² with the weight μ."""

    weight: float

    @property
    def curvature_range(self) -> tuple[float, float]:
        return self.weight, self.weight

    @property
    def max_third_derivative(self) -> float:
        return 0.0

    def value(self, x: np.ndarray) -> np.ndarray:
        return self.weight / 2 * (x * x).sum(axis=-1)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        return self.weight * x

    def hessian(self, x: np.ndarray) -> np.ndarray:
        return np.full(x.shape, self.weight)


class LogisticRisk(NonconvexRisk):
    """The risk of the logistic loss φ(t) = ln(1 + e⁻ᵗ) of margins t with Tukey's penalty; see `LogisticTukey`."""

    loss: ClassVar[Loss] = "logistic"
    max_slope: ClassVar[float] = 1.0
    curvature_range: ClassVar[tuple[float, float]] = (0.0, 1 / 4)  # far out, and at 0
    max_third_derivative: ClassVar[float] = 1 / (6 * math.sqrt(3))

    @staticmethod
    def extremes(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the smallest and largest φ(t) (R,) of margins |t| ≤ ‖x‖, for norms ‖x‖ = `lengths` (R,)."""
        return np.logaddexp(0.0, -lengths), np.logaddexp(0.0, lengths)

    @staticmethod
    def losses(arguments: np.ndarray) -> np.ndarray:
        """Return φ(t) (R, b) at margins t (R, b)."""
        result = np.abs(arguments)  # ln(1 + e⁻ᵗ) = ln(1 + e^-|t|) - min(t, 0), which cannot overflow
        np.negative(result, out=result)
        np.exp(result, out=result)
        np.log1p(result, out=result)
        result -= np.minimum(arguments, 0.0)
        return result

    @staticmethod
    def negative_slopes(arguments: np.ndarray, caps: np.ndarray | None) -> np.ndarray:
        """Return σ(-t) = -φ'(t); `caps` is None, as no slope is clipped."""
        np.exp(arguments, out=arguments)  # overflow to inf is correct: that slope is 0
        arguments += 1.0
        return np.reciprocal(arguments, out=arguments)

    @staticmethod
    def curvatures(arguments: np.ndarray) -> np.ndarray:
        """Return φ''(t) = σ(t)(1 - σ(t))."""
        bell, _ = _bell(arguments)
        return bell


class SigmoidRisk(NonconvexRisk):
    """The risk of the sigmoid loss φ(t) = σ(-t) of margins t with Tukey's penalty; see `SigmoidTukey`."""

    loss: ClassVar[Loss] = "sigmoid"
    max_slope: ClassVar[float] = 1 / 4
    curvature_range: ClassVar[tuple[float, float]] = (-1 / (6 * math.sqrt(3)), 1 / (6 * math.sqrt(3)))
    max_third_derivative: ClassVar[float] = 1 / 8

    @staticmethod
    def extremes(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the smallest and largest φ(t) (R,) of margins |t| ≤ ‖x‖, for norms ‖x‖ = `lengths` (R,)."""
        half = np.tanh(lengths / 2) / 2
        return 0.5 - half, 0.5 + half

    @staticmethod
    def losses(arguments: np.ndarray) -> np.ndarray:
        """Return φ(t) = σ(-t) (R, b) at margins t (R, b)."""
        return 0.5 - 0.5 * np.tanh(arguments / 2)

    @staticmethod
    def negative_slopes(arguments: np.ndarray, caps: np.ndarray | None) -> np.ndarray:
        """Return σ(t)(1 - σ(t)) = -φ'(t); `caps` is None, as no slope is clipped."""
        bell, _ = _bell(arguments)
        return bell

    @staticmethod
    def curvatures(arguments: np.ndarray) -> np.ndarray:
        """Return φ''(t) = σ(1 - σ)(2σ - 1) with σ = σ(t), where 2σ - 1 = sign(t)(1 - e)/(1 + e) with e = exp(-|t|)."""
        signs = np.sign(arguments)
        bell, exponential = _bell(arguments)
        return bell * signs * (1 - exponential) / (1 + exponential)


class RobustRisk(NonconvexRisk):
    """The risk of a robust principal component, φ(u) = -u²/(2(1 + u²)) of projections u; see `RobustComponent`."""

    metrics: ClassVar[tuple[Metric, ...]] = (*NonconvexRisk.metrics, *COORDINATES)
    loss: ClassVar[Loss] = "robust"
    max_slope: ClassVar[float] = 3 * math.sqrt(3) / 16  # at |u| = 1/√3
    curvature_range: ClassVar[tuple[float, float]] = (-1.0, 1 / 4)  # at 0, and at |u| = 1
    max_third_derivative: ClassVar[float] = _THIRD
    floor: ClassVar[float] = -1 / 2
    labelled: ClassVar[bool] = False

    @staticmethod
    def extremes(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the smallest and largest φ(u) (R,) of projections |u| ≤ ‖x‖, for norms ‖x‖ = `lengths` (R,)."""
        return RobustRisk.losses(lengths), np.zeros_like(lengths)  # φ falls as |u| ≤ ‖x‖ grows

    @staticmethod
    def losses(arguments: np.ndarray) -> np.ndarray:
        """Return φ(u) = -u²/(2(1 + u²)) (R, b) at projections u (R, b)."""
        return 0.5 / (1 + arguments * arguments) - 0.5  # = -u²/(2(1 + u²))

    @staticmethod
    def negative_slopes(arguments: np.ndarray, caps: np.ndarray | None) -> np.ndarray:
        """Return u/(1 + u²)² = -φ'(u); `caps` is None, as no slope is clipped."""
        inverse = 1 / (1 + arguments * arguments)
        return arguments * inverse * inverse

    @staticmethod
    def curvatures(arguments: np.ndarray) -> np.ndarray:
        """Return φ''(u) = (3u² - 1)/(1 + u²)³ = (3 - 4/(1 + u²))/(1 + u²)²."""
        inverse = 1 / (1 + arguments * arguments)
        return (3 - 4 * inverse) * inverse * inverse


def _bell(arguments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return σ(t)(1 - σ(t)) = e/(1 + e)² in a new array, and e = exp(-|t|), which overwrites the arguments t."""
    np.abs(arguments, out=arguments)
    np.negative(arguments, out=arguments)
    np.exp(arguments, out=arguments)
    result = 1.0 + arguments
    result *= result
    return np.divide(arguments, result, out=result), arguments


# ------------------------------------------------------------------------------------------------------------ the risks

DIRECTIONS = ("Hidden direction w₁", "Another direction w₂")  # titles of the first coordinates on `Saddle` data


class NonconvexModel(base.ProblemSpecification):
    """The settings of a risk f(x) = (1/n) Σ φ(⟨vᵢ, x⟩) + r(x) with ‖vᵢ‖ ≤ 1, where neither φ nor r need be convex.

    vᵢ is a row of features: scaled, divided by a declared number, shortened to norm 1 if it is longer, and multiplied
    by its label ±1 if the loss uses labels.

    risk : class of the problem to build, which defines φ.
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
        """Raise ValueError if the cost of a released gap is given, but not the gap."""
        if self.gap is None and self.gap_cost is not None:
            raise ValueError("a privately released gap needs its value beside its cost ε_Γ")
        return self

    @property
    @abstractmethod
    def penalty(self) -> Penalty:
        """The term r of f, which does not depend on data."""

    @property
    def releases_of_settings(self) -> tuple[Event, ...]:
        """The release of Γ, if it was released: at the cost ε_Γ for a person's k rows, a k-th of it for a row."""
        return () if self.gap_cost is None else (Laplace(self.gap_cost / self.rows_per_person),)

    @classmethod
    def problem_type(cls) -> type[NonconvexRisk]:
        """Return the class of the risk, of which the annotation of `build` names only the base."""
        return cls.risk

    def _plane(self) -> base.Plane | None:
        """Return the plane of the first two coordinates; of `Saddle` data one is a hidden direction."""
        if isinstance(self.data, Saddle):
            return base.first_two_plane(DIRECTIONS[: self.data.dimension])
        return base.first_two_plane([f"Weight of {name}" for name in self.data.facts().names[:2]])

    def starting_point(self) -> np.ndarray:
        """Return the starting point x₀ (1, d), which does not depend on the data."""
        d = self.data.facts().d
        return np.zeros((1, d)) if self.start == "zero" else random_start(d, self.start_seed)

    def facts(self) -> NonconvexFacts:
        """Return the public facts: constants that hold for every data set, unless the user declares others."""
        data, start, risk, penalty = self.data.facts(), self.starting_point(), self.risk, self.penalty
        # Bounds on φ'' and on the second derivatives of the penalty, for any row and at any point.
        (low, high), (penalty_low, penalty_high) = risk.curvature_range, penalty.curvature_range
        # A replaced row changes n times the mean Hessian by a xxᵀ - b zzᵀ with a, b in [low, high] and ‖x‖, ‖z‖ ≤ 1.
        # ‖a xxᵀ - b zzᵀ‖² = a² + b² - 2ab ⟨x, z⟩² is largest for x ⊥ z if a and b have one sign, else for x = z.
        hessian_sensitivity = max(math.sqrt(2) * max(-low, high), high - low)
        (smallest_loss,), (largest_loss,) = risk.extremes(np.linalg.norm(start, axis=1))
        # Constants that hold for every data set: G, M and Γ. The last is f(x₀) - inf f, as φ ≥ floor and r ≥ 0.
        smoothness, hessian_lipschitz = high + penalty_high, risk.max_third_derivative + penalty.max_third_derivative
        largest_gap = float(largest_loss + penalty.value(start)[0]) - risk.floor
        unpaid_gap = self.gap if self.gap_cost is None else None  # a gap that was released is no assumption
        constants = (  # symbol, declared value if there is one, and the value that holds for every data set
            ("G", self.smoothness, smoothness),
            ("M", self.hessian_lipschitz, hessian_lipschitz),
            ("Γ", unpaid_gap, largest_gap),
        )
        return NonconvexFacts(
            n=data.n,
            d=data.d,
            released=self.released,
            from_data=self.from_data,
            loss=risk.loss,
            gradient_sensitivity=2 * risk.max_slope,
            hessian_sensitivity=2 * math.sqrt(data.d) if self.hessian_bound == "spectral" else hessian_sensitivity,
            # The change a xxᵀ - b zzᵀ of n times the Hessian has eigenvalues within ±(high - low), so that no
            # eigenvalue of n times the Hessian moves further (Weyl's inequality).
            curvature_sensitivity=high - low,
            value_range=float(largest_loss - smallest_loss),
            smoothness=smoothness if self.smoothness is None else self.smoothness,
            hessian_lipschitz=hessian_lipschitz if self.hessian_lipschitz is None else self.hessian_lipschitz,
            curvature_floor=low + penalty_low,
            gap=largest_gap if self.gap is None else self.gap,
            lowest=risk.floor,
            start=() if self.start == "zero" else tuple(start[0].tolist()),
            assumed=tuple(
                Assumed(symbol, declared, implied)
                for symbol, declared, implied in constants
                if declared is not None and declared < implied * (1 - 1e-9)  # smaller by more than rounding
            ),
        )

    def memory(self, facts: base.Facts) -> base.Memory:
        """Estimate the memory: a table with its copies, and for each replicate some vectors, and its Hessians, packed
        and not, or the vectors of the products with which diagnostics replace large Hessians."""
        n, d = facts.n, facts.d
        hessians = 40.0 * d**2 if d <= MAX_COLUMNS else 100.0 * PRODUCTS * d  # measured
        return base.Memory(table=24.0 * n * d, replicate=64.0 * d + hessians)

    def rows(self, data: Dataset) -> tuple[np.ndarray, float]:
        """Return the rows vᵢ (n, d) of the risk, of norm at most 1 for any data, and the share of the rows that had to
        be shortened."""
        rows = np.empty(data.features.shape)
        ranges = np.array(data.facts.bounds[: data.facts.numeric]).reshape(-1, 2)  # there may be no numeric feature
        low, high, n_shortened = ranges[:, 0], ranges[:, 1], 0
        row_seconds = data.facts.d * SECONDS_PER_LOADED / 3  # a third of what loading them takes
        for part in checkpointed_slices(data.facts.n, row_seconds):
            block = rows[part]
            block[:] = data.features[part]
            if self.scaling == "ranges" and not self.data.scaled:  # scaled ones come with other factors
                numbers = block[:, : data.facts.numeric]  # features of categories stay 0 and 1
                numbers -= (low + high) / 2
                numbers /= (high - low) / 2
            block /= self.divisor
            n_shortened += clip_row_norms(block)
            if self.risk.labelled:
                block *= data.labels[part][:, None]
        return rows, n_shortened / len(rows)

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> NonconvexRisk:
        rows, shortened_share = self.rows(self.data.load(tables))
        return self.risk(self.facts(), self.penalty, rows, shortened=shortened_share)


@lru_cache(maxsize=16)
def random_start(d: int, seed: int) -> np.ndarray:
    """Draw a starting point (1, d) of standard normal numbers. The array is read-only, as it is cached."""
    start = np.random.default_rng(seed).standard_normal((1, d))
    start.flags.writeable = False
    return start


def clip_row_norms(rows: np.ndarray) -> int:
    """Scale the rows (n, d) that are longer than 1 down to norm 1, in place, and return the number of these rows.

    A row with an entry that is not finite becomes 0, because no scaling would give it a finite norm.
    """
    rows[~np.isfinite(rows).all(axis=1)] = 0.0
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(rows, axis=1)  # inf where squares overflow: such a row becomes 0, too
    rows /= np.maximum(1.0, lengths)[:, None]
    return int((lengths > UNIT).sum())  # longer than 1 by more than rounding


class MarginModel(NonconvexModel):
    """The settings of a risk with a loss of the margins zᵢ⟨uᵢ, x⟩, for rows uᵢ with labels zᵢ = ±1, plus Tukey's
    penalty λ Σ xⱼ²/(1 + xⱼ²)."""

    regularisation: float = number(
        1e-3,
        1e-6,
        1.0,
        label="Regularisation",
        symbol="λ",
        scale="log",
        help="Weight of λ Σ xⱼ²/(1 + xⱼ²).",
        limits=(1e-12, 1e6),
    )

    @model_validator(mode="after")
    def _two_classes(self) -> Self:
        if self.data.facts().target_range is not None:
            raise UserError(
                "The loss needs two classes. Choose the robust principal component, or another target.",
                title="The target is a number",
            )
        return self

    @property
    def penalty(self) -> Penalty:
        return Tukey(self.regularisation)

    def linear_score(self, x: np.ndarray) -> LinearScore:
        """Return the score of a row as a function of its unscaled features, if the row is not shortened; shortening it
        would not change the sign of the score."""
        facts = self.data.facts()
        centres, widths = np.zeros(facts.d), np.ones(facts.d)
        if self.scaling == "ranges" and not self.data.scaled:  # features of categories stay 0 and 1
            low, high = np.array(facts.bounds).T[:, : facts.numeric]
            centres[: facts.numeric], widths[: facts.numeric] = (low + high) / 2, (high - low) / 2
        coefficients, constant = unscaled(x / self.divisor, centres, widths)
        return LinearScore(coefficients, constant, proba=self.risk.loss == "logistic")


class LogisticTukey(MarginModel):
    """f(x) = (1/n) Σ ln(1 + exp(-zᵢ⟨uᵢ, x⟩)) + λ Σ xⱼ²/(1 + xⱼ²), ‖uᵢ‖ ≤ 1: the risk of the experiments of Gao and
    Wright (2023).

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.LogisticTukey(), dpviz.LineSearch(iterations=4), rho=0.1).run()
    <Trace of OPT-LS: 20 runs, 3 iterations>
    """

    kind: ClassVar[str] = "problems.nonconvex.logistic_tukey"
    title: ClassVar[str] = "Logistic loss, non-convex penalty"
    risk: ClassVar[type[NonconvexRisk]] = LogisticRisk


class SigmoidTukey(MarginModel):
    """f(x) = (1/n) Σ σ(-zᵢ⟨uᵢ, x⟩) + λ Σ xⱼ²/(1 + xⱼ²), ‖uᵢ‖ ≤ 1: a smooth count of mistakes. The loss is not convex
    even without the penalty."""

    kind: ClassVar[str] = "problems.nonconvex.sigmoid_tukey"
    title: ClassVar[str] = "Sigmoid loss, non-convex penalty"
    risk: ClassVar[type[NonconvexRisk]] = SigmoidRisk


class RobustComponent(NonconvexModel):
    """f(x) = -(1/n) Σ uᵢ²/(2(1 + uᵢ²)) + (μ/2) ‖x‖² with uᵢ = ⟨xᵢ, x⟩ for rows xᵢ, ‖xᵢ‖ ≤ 1.

    The minimiser is a principal component of the rows that outliers hardly move. x = 0 is stationary for every data
    set; it is a saddle point if the rows have a main direction.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.RobustComponent(divisor=2), dpviz.TrustRegion(iterations=4), rho=0.1).run()
    <Trace of DP-TR: 20 runs, 1 iterations>
    """

    kind: ClassVar[str] = "problems.nonconvex.robust_component"
    title: ClassVar[str] = "Robust principal component"
    risk: ClassVar[type[NonconvexRisk]] = RobustRisk
    regularisation: float = number(
        0.05,
        1e-4,
        1.0,
        label="Regularisation",
        symbol="μ",
        scale="log",
        help="Weight of μ/2 ‖x‖².",
        limits=(1e-12, 1e6),
    )

    @property
    def penalty(self) -> Penalty:
        return Ridge(self.regularisation)
