"""Settings of the problems of which only values are used: robust regression, a small network, phase retrieval, votes
and a bent valley."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from dpviz.checkpoints import checkpointed_slices
from dpviz.datasets.base import NO_TABLES, SECONDS_PER_LOADED, DatasetSpecification, rows_field, seed_field
from dpviz.datasets.synthetic import UniformLinear
from dpviz.problems import base
from dpviz.problems.base import Facts, Memory, Plane, ProblemSpecification
from dpviz.problems.model import LinearScore, to_target, unscaled
from dpviz.problems.nonconvex.nonconvex import clip_row_norms, random_start
from dpviz.problems.values.value_losses import (
    CappedLoss,
    NetworkLoss,
    PhaseLoss,
    SquaredPhaseLoss,
    ValleyLoss,
    ValueLoss,
    VoteLoss,
)
from dpviz.problems.values.value_problem import (
    BLOCK,
    GROUPS,
    HALF,
    MAX_SEEN,
    POINTS,
    TEMPORARIES,
    ValueFacts,
    ValueProblem,
)
from dpviz.specification import choice, number, switch


class Function(NamedTuple):
    """Properties of a problem's function f(x, z) that hold for every possible row z.

    loss : the function. n : number of rows of the data. start : (d,) the starting point x₀.
    largest : upper bound on f(x₀, z), and so on F(x₀) - inf F, because no value is negative.
    slope : a Lipschitz constant of f(·, z), by default that of losses of ⟨a, x⟩ with slope 1, as ‖a‖ ≤ 1; inf if there
        is none.
    value_range : largest difference of two values of f(·, z); inf if there is none.
    """

    loss: ValueLoss
    n: int
    start: np.ndarray
    largest: float
    slope: float = 1.0
    value_range: float = math.inf


class BlackBox(ProblemSpecification):
    """The settings of a function F(x) = (1/n) Σ f(x, zᵢ) of which algorithms use values only.

    They work on the smoothed function F̂_r(x) = E F(x + rv), with v uniform in the unit ball.
    """

    radius: float = number(
        0.1,
        0.01,
        1.0,
        label="Smoothing radius",
        symbol="r",
        scale="log",
        help="Values are compared at distance r. Larger: less noise, but kinks are looked at from farther away.",
        limits=(1e-6, 1e6),
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
        """Return the plane in which pictures show runs, that of the first two parameters; None if there is only one."""
        return base.first_two_plane(("Parameter x₁", "Parameter x₂")[: self.facts().d])

    @abstractmethod
    def function(self) -> Function:
        """Return the properties of f that hold for every possible row, from settings alone."""

    def loss(self) -> ValueLoss:
        """Return f as a function of a row's arguments and targets."""
        return self.function().loss

    @abstractmethod
    def rows_and_targets(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows (n, p), of norm at most 1, and their targets (n, t): drawn, or loaded from the tables."""

    def facts(self) -> ValueFacts:
        """Return the public facts. L is the declared constant, or else that of f, or 1 if f has none."""
        function, lipschitz = self.function(), self.lipschitz
        if lipschitz is None:
            lipschitz = function.slope if math.isfinite(function.slope) else 1.0
        return ValueFacts(
            n=function.n,
            d=len(function.start),
            released=self.released,
            from_data=self.from_data,
            lipschitz=lipschitz,
            exact=function.slope <= lipschitz,
            radius=self.radius,
            value_range=function.value_range,
            gap=function.largest if self.gap is None else self.gap,
            guessed=self.gap is not None and self.gap < function.largest,
            start=tuple(function.start.tolist()),
        )

    def memory(self, facts: Facts) -> Memory:
        """Estimate the memory. The blocks of values and the directions of diagnostics are counted once, as all arms of
        an experiment share them."""
        n, d, k = facts.n, facts.d, self.loss().count
        sample = min(2 * HALF, n)  # rows that diagnostics use
        rows = 24.0 * n * (d + 2)  # with up to two targets, and two copies while they are scaled
        directions = 8.0 * sample * min(d, MAX_SEEN) * k
        # Of a replicate, roughly: 16 vectors; gradients at POINTS points, for each group and twice more; and k numbers
        # for each row of the sample, three times.
        replicate = 8.0 * ((16 + (GROUPS + 2) * POINTS) * d + 3 * sample * k)
        return Memory(rows + 8.0 * TEMPORARIES * BLOCK + directions, replicate)

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> ValueProblem:
        rows, targets = self.rows_and_targets(tables)
        return ValueProblem(self.facts(), self.loss(), rows, targets)


# --------------------------------------------------------------------------------------------------- models of a table


class TableModel(BlackBox):
    """The settings of a problem that fits a model to a table.

    Features are scaled by their declared ranges to [-1, 1], an intercept may be added, and rows are divided by a number
    and shortened to norm 1 if they are longer. The target's declared range becomes [-1, 1] or [0, 1]; two classes are
    its ends.
    """

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
        label="Target's range becomes",
        help="Runs begin at 0, or near it: choose the range in which most targets are near 0, too.",
        options={"symmetric": "[-1, 1]", "unit": "[0, 1]"},
    )

    def _plane(self) -> Plane | None:
        names = list(self.data.facts().names)
        if self.intercept:
            names.append("the intercept")
        return base.first_two_plane([f"Weight of {name}" for name in names[:2]])

    @property
    def features(self) -> int:
        """p, the number of features, including the intercept."""
        return self.data.facts().d + self.intercept

    def linear_score(self, x: np.ndarray) -> LinearScore | None:
        """Return the linear function of rows that are not shortened, as all are unless the user sets `divisor`."""
        facts = self.data.facts()
        low, high = np.array(facts.bounds).T
        divisor = math.sqrt(self.features) if self.divisor is None else self.divisor
        # From weights of features scaled to [-1, 1] to those of the table's own values.
        coefficients, constant = unscaled(x[: facts.d] / divisor, (low + high) / 2, (high - low) / 2)
        constant += float(x[-1]) / divisor if self.intercept else 0.0  # the last weight is that of the intercept
        score = LinearScore(coefficients, constant)
        if self.targets == "unit":  # from [0, 1] to [-1, 1], which `to_target` expects
            score = LinearScore(2 * coefficients, 2 * constant - 1)
        return to_target(score, facts.target_range)

    def rows_and_targets(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        data = self.data.load(tables)
        divisor = math.sqrt(self.features) if self.divisor is None else self.divisor
        low, high = np.array(data.facts.bounds).T
        rows = np.ones((data.facts.n, self.features))  # the last column stays 1 if it is the intercept
        for part in checkpointed_slices(data.facts.n, self.features * SECONDS_PER_LOADED):
            rows[part, : data.facts.d] = (data.features[part] - (low + high) / 2) / ((high - low) / 2)
            rows[part] /= divisor
            clip_row_norms(rows[part])  # in place, those that are longer than 1
        # The targets (n, 1) are mapped from their declared range to [0, 1] or [-1, 1]; two classes have the labels ±1.
        lowest, highest = data.facts.target_range or (-1.0, 1.0)
        positions = np.clip((data.labels - lowest) / (highest - lowest), 0.0, 1.0)[:, None]
        return rows, np.asarray(positions if self.targets == "unit" else 2 * positions - 1)


class CappedRegression(TableModel):
    """f(x, (a, y)) = min(|y - ⟨a, x⟩|, τ) for a row with features a and target y: if its error is above τ, it has no
    influence on the slope.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.CappedRegression(), dpviz.Naive(iterations=2), budget=dpviz.GaussianDP(mu=1)).run()
    <Trace of Naive oracle: 20 runs, 2 iterations>
    """

    kind: ClassVar[str] = "problems.black_box.capped_regression"
    title: ClassVar[str] = "Robust regression (capped error)"
    cap: float = number(1.0, 0.05, 2.0, label="Cap", symbol="τ", scale="log", help="Largest error that counts.")

    def function(self) -> Function:
        start = np.zeros(self.features)
        largest = min(self.cap, 1.0)  # at x = 0 the error is |y| ≤ 1
        return Function(CappedLoss(self.cap), self.data.facts().n, start, largest, value_range=self.cap)


class ReluNetwork(TableModel):
    """f(x, (a, y)) = |y - h^(-1/2) Σ_k ±_k max(0, ⟨a, w_k⟩)|, the error of a network with one layer of h units and
    fixed signs of their outputs, for a row with features a and target y. The parameters are x = (w_1, …, w_h)."""

    kind: ClassVar[str] = "problems.black_box.relu_network"
    title: ClassVar[str] = "Small neural network"
    units: int = number(
        4, 1, 20, label="Units", symbol="h", help="Hidden units; each has one weight per feature.", limits=(1, 10_000)
    )
    start_scale: float = number(0.3, 0.01, 3.0, label="Start", scale="log", help="Runs begin at normal weights.")
    start_seed: int = number(0, 0, 2**31 - 1, label="Seed of the start", help="Another seed, another start.")

    def linear_score(self, _x: np.ndarray) -> None:
        return None

    def _plane(self) -> Plane | None:
        return base.first_two_plane(("First weight of unit 1", "Second weight of unit 1")[: self.features])

    def function(self) -> Function:
        (normals,) = random_start(self.units * self.features, self.start_seed)
        start = self.start_scale * normals
        largest = 1.0 + float(np.linalg.norm(start))  # |y| ≤ 1, and the output, 0 at x = 0, has slope at most 1
        return Function(NetworkLoss(self.units), self.data.facts().n, start, largest)


# ------------------------------------------------------------------------------------------------------- simulated data


class PhaseRetrieval(BlackBox):
    """f(x, (a, y)) = ||⟨a, x⟩| - y| with y = |⟨a, x*⟩|: x* is to be found although the signs of ⟨a, x*⟩ were lost.

    The global minima are x* and -x*. The rows a are uniform on the sphere, drawn from `default_rng(seed)`; x* is 1/√d
    in every coordinate, and runs begin at x₀ = (1, -0.6, 0, …).

    >>> import dpviz
    >>> dpviz.PhaseRetrieval(dimension=3).facts().start
    (1.0, -0.6, 0.0)
    """

    kind: ClassVar[str] = "problems.black_box.phase_retrieval"
    title: ClassVar[str] = "Phase retrieval"
    rows: int = rows_field(50_000, 1000, 200_000)
    dimension: int = number(
        6, 2, 100, label="Parameters", symbol="d", scale="log", help="Each gets noise.", limits=(1, 100_000)
    )
    form: Literal["absolute", "squared"] = choice(
        "absolute",
        label="Loss",
        help="The squared one is steeper the farther away x is: no Lipschitz constant holds.",
        options={"absolute": "||⟨a, x⟩| - y|", "squared": "|⟨a, x⟩² - y²|: not Lipschitz, shows clipping"},
    )
    seed: int = seed_field()

    def function(self) -> Function:
        start = np.append((1.0, -0.6), np.zeros(self.dimension))[: self.dimension]  # ‖x₀‖² = 1.36, or 1 if d = 1
        # Both |⟨a, x₀⟩| and y are in [0, ‖x₀‖], so their difference is at most ‖x₀‖, and that of their squares ‖x₀‖².
        if self.form == "squared":
            return Function(SquaredPhaseLoss(), self.rows, start, largest=1.36, slope=math.inf)
        return Function(PhaseLoss(), self.rows, start, largest=math.sqrt(1.36))

    def rows_and_targets(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        rows = _unit_rows(np.random.default_rng(self.seed), self.rows, self.dimension)
        magnitudes = np.abs(rows.sum(axis=1, keepdims=True)) / math.sqrt(self.dimension)
        return rows, magnitudes if self.form == "absolute" else magnitudes**2  # of `PhaseLoss`, of `SquaredPhaseLoss`


class Votes(BlackBox):
    """Users z = (θ, b, τ) rate a setting x by min(1, |⟨θ, x⟩ - b|), where 0 is best, or vote it down, f = 1, if
    |⟨θ, x⟩ - b| > τ.

    ‖θ‖ = 1, b = ⟨θ, x*⟩ + 0.1 N(0, 1) with x* = (0.8, -0.5, 0.3, 0, 0.2), and τ is uniform on [0, 1]: on average over τ
    a vote is the rating. But a vote is a step function of x, so that only clipping bounds its change by a small move.
    """

    kind: ClassVar[str] = "problems.black_box.votes"
    title: ClassVar[str] = "Up-votes and down-votes"
    rows: int = rows_field(60_000, 1000, 200_000)
    answer: Literal["rating", "vote"] = choice(
        "vote",
        label="Users give",
        help="What is asked.",
        options={"rating": "A rating in [0, 1]", "vote": "A vote, 0 or 1"},
    )
    seed: int = seed_field()

    def function(self) -> Function:
        start = np.zeros(len(WANTED))
        if self.answer == "vote":
            return Function(VoteLoss(), self.rows, start, largest=1.0, slope=math.inf, value_range=1.0)
        return Function(CappedLoss(1.0), self.rows, start, largest=1.0, value_range=1.0)  # which ignores the target τ

    def rows_and_targets(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng(self.seed)
        rows = _unit_rows(generator, self.rows, len(WANTED))
        centres = rows @ np.array(WANTED) + 0.1 * generator.standard_normal(self.rows)
        return rows, np.column_stack([centres, generator.random(self.rows)])


class BentValley(BlackBox):
    """f(x, z) = |1 - x₁ + z₁|/4 + |x₂ - 2|x₁| + 1 + z₂|, z uniform on [-0.2, 0.2]²: a valley with a kink at its bottom.

    The minimum is at (1, 1), where F = 0.125. The valley bends at (0, -1), where F = 0.35.
    """

    kind: ClassVar[str] = "problems.black_box.bent_valley"
    title: ClassVar[str] = "Bent valley (two parameters)"
    rows: int = rows_field(40_000, 1000, 200_000)
    seed: int = seed_field()

    def function(self) -> Function:
        # At x₀ f is at most (1.8 + 0.2)/4 + (1.2 - 1.6 + 1 + 0.2) = 1.3. |∂f/∂x₁| ≤ 1/4 + 2, and |∂f/∂x₂| ≤ 1.
        return Function(ValleyLoss(), self.rows, np.array([-0.8, 1.2]), largest=1.3, slope=math.hypot(2.25, 1.0))

    def rows_and_targets(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        shifts = np.random.default_rng(self.seed).uniform(-0.2, 0.2, (self.rows, 2))
        return np.zeros((self.rows, 1)), shifts  # this f uses no features


WANTED = (0.8, -0.5, 0.3, 0.0, 0.2)  # x* of `Votes`


def _unit_rows(generator: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Draw n independent unit vectors (n, d), uniform on the sphere."""
    rows = generator.standard_normal((n, d))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
