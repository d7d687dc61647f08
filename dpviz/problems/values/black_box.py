"""Objectives asked for values only: robust regression, a small network, phase retrieval, votes, a bent valley."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from dpviz.checkpoints import Parts, finished, slices
from dpviz.datasets.base import NO_TABLES, SECONDS_PER_LOADED, Dataset, DatasetSpecification
from dpviz.datasets.synthetic import UniformLinear
from dpviz.problems import planes
from dpviz.problems.base import SECONDS_PER_DRAWN_ROW, SECONDS_PER_GATHERED, Cost, Facts, Plane, ProblemSpecification
from dpviz.problems.nonconvex.nonconvex import random_start, shorten
from dpviz.problems.values.directions import bank_bytes
from dpviz.problems.values.value_losses import Capped, Network, Phase, SquaredPhase, Valley, ValueLoss, Vote
from dpviz.problems.values.value_problem import BLOCK, HALF, POINTS, TEMPORARIES, ValueFacts, ValueProblem
from dpviz.specification import choice, number, switch

# Measured as those in `base`, at d = 2 to 100 and 2 to 32 replicates: of a value at a point of its own, of a row's
# gradient in diagnostics, of a value's products, and of a value of all rows at one point.
SECONDS_PER_VALUE, SECONDS_PER_DIAGNOSED, SECONDS_PER_PRODUCT, SECONDS_PER_ROW = 5e-9, 25e-9, 0.15e-9, 10e-9
NO_BOUND = math.inf  # on the difference of two values of a row


def _rows(default: int) -> Any:
    return number(default, 1000, 200_000, label="Rows", symbol="n", scale="log", help="More rows need less noise each.")


def _seed() -> Any:
    return number(0, 0, 2**31 - 1, label="Data seed", help="Another seed draws another data set.")


class BlackBox(ProblemSpecification):
    """F(x) = (1/n) Σ f(x, zᵢ), smoothed over a ball of radius r: F̂_r(x) = E F(x + rv), v uniform in the unit ball."""

    radius: float = number(
        0.1,
        0.01,
        1.0,
        label="Smoothing radius",
        symbol="r",
        scale="log",
        help="Values are compared at distance r. Larger: less noise, but kinks are looked at from farther away.",
    )
    lipschitz: float | None = number(
        None,
        0.1,
        10.0,
        label="Lipschitz constant",
        symbol="L",
        scale="log",
        help="Declared: values that differ by more than L times the distance are clipped. Empty: what holds for every "
        "row. Too small costs accuracy, never privacy.",
    )
    gap: float | None = number(
        None,
        1e-3,
        100.0,
        label="Initial gap",
        symbol="F*",
        scale="log",
        help="A guess of F(x₀) - inf F, for bounds only, which rest on it. Empty: what holds for every data set.",
    )

    def _plane(self) -> Plane | None:
        return planes.first_two(("Parameter x₁", "Parameter x₂"))

    @property
    @abstractmethod
    def size(self) -> tuple[int, int]:
        """(n, d)."""

    @property
    @abstractmethod
    def slope(self) -> float:
        """A Lipschitz constant of every row's f; inf if there is none."""

    @property
    def value_range(self) -> float:
        """The largest difference of two values of one row's f."""
        return NO_BOUND

    @property
    @abstractmethod
    def largest(self) -> float:
        """The largest value at the start; no value is negative."""

    @abstractmethod
    def starting_point(self) -> np.ndarray:
        """(d,) x₀."""

    @abstractmethod
    def loss(self) -> ValueLoss:
        """What is computed of a row."""

    @abstractmethod
    def drawn(self, tables: Mapping[str, np.ndarray]) -> Parts[tuple[np.ndarray, np.ndarray]]:
        """In parts: rows (n, p) of norm at most 1, and targets (n, t)."""

    @property
    def declared(self) -> float:
        """L."""
        return self.lipschitz or (self.slope if math.isfinite(self.slope) else 1.0)

    def facts(self) -> ValueFacts:
        n, d = self.size
        return ValueFacts(
            n=n,
            d=d,
            from_data=self.from_data,
            lipschitz=self.declared,
            exact=self.slope <= self.declared,
            radius=self.radius,
            value_range=self.value_range,
            gap=self.largest if self.gap is None else self.gap,
            guessed=self.gap is not None and self.gap < self.largest,
            start=tuple(self.starting_point().tolist()),
        )

    def cost(self, facts: Facts) -> Cost:
        """A value of one row, at a point of its own, takes a product with d numbers for each of its k arguments; these
        are looked at together. Blocks of values and the diagnostics' directions are there once for all arms."""
        n, d, weight = facts.n, facts.d, (1 + self.loss().count) / 2
        row, each = SECONDS_PER_ROW + SECONDS_PER_PRODUCT * d, weight * (SECONDS_PER_VALUE + SECONDS_PER_PRODUCT * d)
        sample = min(2 * HALF, n)
        return Cost(
            evaluation=n * weight * row,
            batch_row=SECONDS_PER_DRAWN_ROW + SECONDS_PER_GATHERED * d,
            value=each,
            diagnostic=n * weight * row,
            expensive=sample * (2 * d * each + POINTS * weight * SECONDS_PER_DIAGNOSED),
            preparation=n * d * SECONDS_PER_LOADED,
            table=24.0 * n * (d + 2) + 8.0 * TEMPORARIES * BLOCK + bank_bytes(d, d),
            replicate=8.0 * (16 * d + 2 * sample * d),
        )

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> ValueProblem:
        return finished(self.build_in_parts(tables))

    def build_in_parts(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> Parts[ValueProblem]:
        rows, targets = yield from self.drawn(tables)
        facts = self.facts()
        return ValueProblem(facts, self.cost(facts), self.loss(), rows, targets)


# --------------------------------------------------------------------------------------------------- models of a table


class TableModel(BlackBox):
    """A model of a table: features scaled by their declared ranges, rows divided by a number and shortened to norm 1;
    the target's declared range becomes [-1, 1] or [0, 1], and two classes are its ends."""

    data: DatasetSpecification = UniformLinear()
    intercept: bool = switch(True, label="Intercept", help="A further feature that is the same in all rows.")
    divisor: float | None = number(
        None,
        0.1,
        100.0,
        label="Divide rows by",
        scale="log",
        help="Rows longer than 1 are shortened. Empty: by the root of the number of features, so that no row is.",
    )

    targets: Literal["symmetric", "unit"] = choice(
        "symmetric",
        {"symmetric": "[-1, 1]", "unit": "[0, 1]"},
        label="Target's range becomes",
        help="Runs begin at 0, or near it: choose the range in which most targets are near 0, too.",
    )

    @property
    def public(self) -> bool:
        return self.data.public

    def _plane(self) -> Plane | None:
        names = (*self.data.facts().names, *["the intercept"] * self.intercept)
        return planes.first_two([f"Weight of {name}" for name in names[:2]])

    @property
    def features(self) -> int:
        """p, with the intercept."""
        return self.data.facts().d + self.intercept

    @property
    def slope(self) -> float:
        return 1.0

    def drawn(self, tables: Mapping[str, np.ndarray]) -> Parts[tuple[np.ndarray, np.ndarray]]:
        data = yield from self.data.load_in_parts(tables)
        p, divisor = data.facts.d, math.sqrt(self.features) if self.divisor is None else self.divisor
        low, high = np.array(data.facts.bounds).T
        rows = np.ones((data.facts.n, self.features))
        for part in slices(data.facts.n, self.features * SECONDS_PER_LOADED):
            if part.start:
                yield
            rows[part, :p] = (data.features[part] - (low + high) / 2) / ((high - low) / 2)
            rows[part] /= divisor
            shorten(rows[part])
        return rows, self._targets(data)

    def _targets(self, data: Dataset) -> np.ndarray:
        low, high = data.facts.target or (-1.0, 1.0)
        places = np.clip((data.labels - low) / (high - low), 0.0, 1.0)[:, None]
        return np.asarray(places if self.targets == "unit" else 2 * places - 1)


class CappedRegression(TableModel):
    """f(x, (a, y)) = min(|y - ⟨a, x⟩|, τ): a row that the model misses by more than τ pulls no more."""

    kind: ClassVar[str] = "problems.black_box.capped_regression"
    title: ClassVar[str] = "Robust regression (capped error)"
    cap: float = number(1.0, 0.05, 2.0, label="Cap", symbol="τ", scale="log", help="Largest error that counts.")

    @property
    def size(self) -> tuple[int, int]:
        return self.data.facts().n, self.features

    @property
    def value_range(self) -> float:
        return self.cap

    @property
    def largest(self) -> float:
        return min(self.cap, 1.0)

    def starting_point(self) -> np.ndarray:
        return np.zeros(self.features)

    def loss(self) -> ValueLoss:
        return Capped(self.cap)


class ReluNetwork(TableModel):
    """f(x, (a, y)) = |y - h^(-1/2) Σ_k ±_k max(0, ⟨a, w_k⟩)|: a layer of h units with fixed output signs."""

    kind: ClassVar[str] = "problems.black_box.relu_network"
    title: ClassVar[str] = "Small neural network"
    units: int = number(4, 1, 20, label="Units", symbol="h", help="Hidden units; each has one weight per feature.")
    start_scale: float = number(0.3, 0.01, 3.0, label="Start", scale="log", help="Runs begin at normal weights.")
    start_seed: int = number(0, 0, 2**31 - 1, label="Seed of the start", help="Another seed, another start.")

    def _plane(self) -> Plane | None:
        return planes.first_two(("First weight of unit 1", "Second weight of unit 1"))

    @property
    def size(self) -> tuple[int, int]:
        return self.data.facts().n, self.units * self.features

    @property
    def largest(self) -> float:
        return 1.0 + float(np.linalg.norm(self.starting_point()))

    def starting_point(self) -> np.ndarray:
        return self.start_scale * random_start(self.size[1], self.start_seed)[0]

    def loss(self) -> ValueLoss:
        return Network(self.units)


# ------------------------------------------------------------------------------------------------------- simulated data


class PhaseRetrieval(BlackBox):
    """f(x, (a, y)) = ||⟨a, x⟩| - y| with y = |⟨a, x*⟩|: signs were lost. Two global minima ±x*.

    The rows a are normalised Gaussian, x* = 1/√d in every coordinate; x₀ = (1, -0.6, 0, …). Drawn from
    `default_rng(seed)`.
    """

    kind: ClassVar[str] = "problems.black_box.phase_retrieval"
    title: ClassVar[str] = "Phase retrieval"
    rows: int = _rows(50_000)
    dimension: int = number(6, 2, 100, label="Parameters", symbol="d", scale="log", help="Each gets noise.")
    form: Literal["absolute", "squared"] = choice(
        "absolute",
        {"absolute": "||⟨a, x⟩| - y|", "squared": "|⟨a, x⟩² - y²|: not Lipschitz, shows clipping"},
        label="Loss",
        help="The squared one is steeper the farther away x is: no Lipschitz constant holds.",
    )
    seed: int = _seed()

    @property
    def size(self) -> tuple[int, int]:
        return self.rows, self.dimension

    @property
    def slope(self) -> float:
        return 1.0 if self.form == "absolute" else math.inf

    @property
    def largest(self) -> float:
        return 1.36 if self.form == "squared" else math.sqrt(1.36)

    def starting_point(self) -> np.ndarray:
        x = np.zeros(self.dimension)
        x[:2] = 1.0, -0.6
        return x

    def loss(self) -> ValueLoss:
        return Phase() if self.form == "absolute" else SquaredPhase()

    def drawn(self, tables: Mapping[str, np.ndarray]) -> Parts[tuple[np.ndarray, np.ndarray]]:
        rows = _unit_rows(np.random.default_rng(self.seed), self.rows, self.dimension)
        seen = np.abs(rows.sum(axis=1, keepdims=True)) / math.sqrt(self.dimension)
        return rows, seen if self.form == "absolute" else seen**2
        yield


class Votes(BlackBox):
    """Users z = (θ, b, τ) rate a setting x by min(1, |⟨θ, x⟩ - b|), or vote it down where |⟨θ, x⟩ - b| > τ.

    ‖θ‖ = 1, b = ⟨θ, x*⟩ + 0.1 N(0, 1), τ uniform on [0, 1]: on average over τ a vote is the rating. But a vote is a
    step function: nothing but clipping bounds what it says about a small move. x* = (0.8, -0.5, 0.3, 0, 0.2).
    """

    kind: ClassVar[str] = "problems.black_box.votes"
    title: ClassVar[str] = "Up-votes and down-votes"
    rows: int = _rows(60_000)
    answer: Literal["rating", "vote"] = choice(
        "vote", {"rating": "A rating in [0, 1]", "vote": "A vote, 0 or 1"}, label="Users give", help="What is asked."
    )
    seed: int = _seed()

    @property
    def size(self) -> tuple[int, int]:
        return self.rows, len(WANTED)

    @property
    def slope(self) -> float:
        return 1.0 if self.answer == "rating" else math.inf

    @property
    def value_range(self) -> float:
        return 1.0

    @property
    def largest(self) -> float:
        return 1.0

    def starting_point(self) -> np.ndarray:
        return np.zeros(len(WANTED))

    def loss(self) -> ValueLoss:
        return Capped(1.0) if self.answer == "rating" else Vote()

    def drawn(self, tables: Mapping[str, np.ndarray]) -> Parts[tuple[np.ndarray, np.ndarray]]:
        generator = np.random.default_rng(self.seed)
        rows = _unit_rows(generator, self.rows, len(WANTED))
        wanted = rows @ np.array(WANTED) + 0.1 * generator.standard_normal(self.rows)
        return rows, np.column_stack([wanted, generator.random(self.rows)])
        yield


class BentValley(BlackBox):
    """f(x, z) = |1 - x₁ + z₁|/4 + |x₂ - 2|x₁| + 1 + z₂|, z uniform on [-0.2, 0.2]²: a valley with a kink at its bottom.

    Minimum (1, 1) with F = 0.125; at (0, -1) the valley bends, F = 0.35.
    """

    kind: ClassVar[str] = "problems.black_box.bent_valley"
    title: ClassVar[str] = "Bent valley (two parameters)"
    rows: int = _rows(40_000)
    seed: int = _seed()

    @property
    def size(self) -> tuple[int, int]:
        return self.rows, 2

    @property
    def slope(self) -> float:
        return math.hypot(2.25, 1.0)

    @property
    def largest(self) -> float:
        return 1.3

    def starting_point(self) -> np.ndarray:
        return np.array([-0.8, 1.2])

    def loss(self) -> ValueLoss:
        return Valley()

    def drawn(self, tables: Mapping[str, np.ndarray]) -> Parts[tuple[np.ndarray, np.ndarray]]:
        shifts = np.random.default_rng(self.seed).uniform(-0.2, 0.2, (self.rows, 2))
        return np.zeros((self.rows, 1)), shifts
        yield


WANTED = (0.8, -0.5, 0.3, 0.0, 0.2)


def _unit_rows(generator: np.random.Generator, n: int, d: int) -> np.ndarray:
    """(n, d) independent directions, uniform over the sphere."""
    rows = generator.standard_normal((n, d))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
