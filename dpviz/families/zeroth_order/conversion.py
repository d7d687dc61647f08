"""Online-to-nonconvex conversion with gradients that are estimated from values (Zhang, Tran, Cutkosky 2024).

A learner chooses moves of length at most D; gradients are asked for at random points of the moves; each epoch of T
steps gives the average of its points. How gradients are estimated, the methods in `algorithms` say. Every row is used
once.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal

import numpy as np

from dpviz.checkpoints import Parts, between
from dpviz.errors import UserError
from dpviz.experiments.algorithm import Algorithm, Snapshot
from dpviz.experiments.plan import MOST_RECORDED, Plan
from dpviz.families.zeroth_order import planning, theory
from dpviz.families.zeroth_order.path import EVALUATIONS, NOISY_NORM, ROWS_USED, Path
from dpviz.families.zeroth_order.planning import Layout
from dpviz.numbers import short
from dpviz.privacy.budgets import Budget
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.base import Cost, Metric, check_facts
from dpviz.problems.values.directions import Directions, Kind
from dpviz.problems.values.value_problem import ValueFacts, ValueProblem
from dpviz.specification import choice, number, switch

MOST_STEPS = 20_000  # that may be set
Oracle = Callable[[int, np.ndarray, Path], Parts[np.ndarray]]  # step, replicates (R',) and where they are; (R', d)


def directions_field(default: int | None) -> Any:
    """The setting that says how many directions each row gets."""
    return number(
        default,
        1,
        100,
        label="Directions per row",
        symbol="m",
        scale="log",
        help="Each takes two values or more. At most, and empty, as many as there are parameters.",
    )


class Conversion(Algorithm[ValueProblem, ValueFacts]):
    """What both methods share: epochs, the learner, and directions."""

    metrics: ClassVar[tuple[Metric, ...]] = (ROWS_USED, EVALUATIONS, NOISY_NORM)
    if_diverged: ClassVar[str] = "The noise is beyond all bounds. Use a larger budget or more rows."
    iterations: int = number(
        640,
        2,
        MOST_STEPS,
        label="Steps",
        symbol="K T",
        scale="log",
        help="Of all epochs; in whole epochs, one at least.",
    )
    epoch_length: int = number(
        16, 2, 1024, label="Steps per epoch", symbol="T", scale="log", help="An epoch gives one average of its points."
    )
    travel: float = number(
        1.0,
        0.25,
        2.0,
        label="Travel per epoch",
        symbol="D T/r",
        scale="log",
        help="Longest move D times T, in smoothing radii. Longer moves get farther and need more noise.",
    )
    expected_norm: float = number(
        0.4,
        0.01,
        10.0,
        label="Expected gradient norm",
        symbol="g₀",
        unit="L",
        scale="log",
        help="Sets the learner's step size, D/(g₀ √T). Theory: 1 plus the oracle's error.",
    )
    directions: Kind = choice(
        "iid",
        {"iid": "Independent, as published", "orthonormal": "Orthonormal: √m times less noise"},
        label="Directions",
        help="Of one row. Orthonormal ones cannot all be the same, so a row moves the estimate by √m less.",
    )
    directions_per_row: int | None = directions_field(None)
    clipping: Literal["lipschitz", "range"] = choice(
        "lipschitz",
        {"lipschitz": "By the Lipschitz constant", "range": "By the range of values"},
        label="Clip differences",
        help="At L times the distance, or at the largest difference that any two values can have.",
    )
    fresh_start: bool = switch(True, label="Epochs begin at rest", help="The learner forgets its last move.")
    one_epoch: bool = switch(
        False,
        label="Stop at the epoch that is returned",
        help="It is drawn in advance: the rows after it are never touched.",
    )

    # -------------------------------------------------------------------------------------------------- what is planned

    @property
    @abstractmethod
    def _first_share(self) -> float | None:
        """Share of an epoch's rows for its first step; None: all steps have the same."""

    @property
    def _follows(self) -> bool:
        """Whether batches are larger where points are farther apart."""
        return False

    @abstractmethod
    def _clips(self, facts: ValueFacts, layout: Layout) -> tuple[float, float]:
        """Largest difference of values that counts, in the first step of an epoch and in the later ones."""

    @abstractmethod
    def changes(self, facts: ValueFacts, layout: Layout) -> np.ndarray:
        """(K T,) sensitivity of every step's estimate."""

    @abstractmethod
    def evaluations(self, layout: Layout) -> np.ndarray:
        """(K T,) values of one row in every step."""

    @abstractmethod
    def epoch_noise(self, facts: ValueFacts, layout: Layout) -> tuple[float, float]:
        """Standard deviation of the noise at μ = 1, per coordinate: root mean square over the steps of an epoch, and of
        the mean of these steps. Exact."""

    @abstractmethod
    def _priced(self, facts: ValueFacts, budget: Budget, layout: Layout, mu: float) -> dict[str, Any]:
        """The plan's event and its noise."""

    @abstractmethod
    def _oracle(
        self, problem: ValueProblem, plan: Plan, layout: Layout, sizes: np.ndarray, mechanisms: Mechanisms
    ) -> Oracle:
        """Who estimates gradients, and has paid for it. sizes : (K T,) rows of every step."""

    def layout(self, facts: ValueFacts) -> Layout:
        """Epochs, batches, moves and directions on a problem with these facts. UserError if there are too few rows."""
        length = min(self.epoch_length, self.iterations)
        epochs = self.iterations // length
        first, batch = planning.shared_out(facts.n, length, epochs, self._first_share, self._follows)
        move = self.travel * facts.radius / length
        step = move / (self.expected_norm * facts.lipschitz * math.sqrt(length))
        directions = min(self.directions_per_row or facts.d, facts.d)
        return Layout(length, epochs, first, batch, move, step, directions, self._follows)

    def stationarity_radius(self, facts: ValueFacts, layout: Layout) -> float:
        """r + R_w: within so far of the average of an epoch the bounds find a combination of short gradients."""
        return facts.radius + theory.path_radius(layout.length, layout.move, self.fresh_start)

    def plan(self, facts: ValueFacts, budget: Budget) -> Plan:
        layout = self.layout(facts)
        if self.clipping == "range" and not math.isfinite(facts.value_range):
            raise UserError(
                "The values of this problem have no bounded range. Clip by the Lipschitz constant.",
                title="Algorithm and problem do not fit",
            )
        ends = np.arange(1, layout.epochs + 1) * layout.length
        return Plan.fixed(
            facts,
            budget,
            iterations=layout.steps,
            charged_at=np.ones(1, dtype=int),
            stops=self.one_epoch,
            batch_size=layout.sizes,
            sizes_vary=layout.follows,
            record_at=ends if len(ends) <= MOST_RECORDED else None,
            resolved={
                "epoch_length": layout.length,
                "epochs": layout.epochs,
                "first_batch": layout.first,
                "batch_size": layout.batch,
                "rows_used": round(float(layout.sizes.sum())),
                "longest_move": layout.move,
                "directions": layout.directions,
                "stationarity_radius": self.stationarity_radius(facts, layout),
                "reach": theory.reach(layout.length, layout.epochs, layout.move, self.fresh_start),
            },
            notes=self._notes(facts, layout, budget.private),
            **self._priced(facts, budget, layout, planning.total_mu(budget, facts)),
            step_size=np.full(layout.steps, layout.step_size),
        )

    def _notes(self, facts: ValueFacts, layout: Layout, private: bool) -> tuple[str, ...]:
        if layout.steps == self.iterations:
            return ()
        return (f"{short(layout.steps)} of {short(self.iterations)} steps: epochs are whole.",)

    def estimated_seconds(self, plan: Plan, replicates: int, cost: Cost) -> float:
        assert isinstance(plan.facts, ValueFacts)
        layout = self.layout(plan.facts)
        values = planning.run_seconds(plan, replicates, cost, self.evaluations(layout), layout.directions)
        return super().estimated_seconds(plan, replicates, cost) + values

    def estimated_bytes(self, plan: Plan, replicates: int, cost: Cost) -> float:
        assert isinstance(plan.facts, ValueFacts)
        return planning.run_bytes(plan, replicates, cost, self.layout(plan.facts).directions)

    # ------------------------------------------------------------------------------------------------------ what is run

    def run(self, problem: ValueProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        check_facts(problem, plan.facts)
        layout, every = self.layout(problem.facts), mechanisms.public
        if layout.follows:  # batches are of one size for all replicates
            mix = np.tile(mechanisms.shared.random(layout.steps), (len(every), 1))
        else:
            mix = np.array([generator.random(layout.steps) for generator in every])
        sizes = layout.drawn_sizes(mix[0])
        last = None
        if self.one_epoch:
            last = layout.length * np.array([each.integers(1, layout.epochs + 1) for each in mechanisms.common])
        path = Path(problem.facts.starting_point(mechanisms.replicates), layout, self.fresh_start, mix, last)
        latest = path.snapshot(0)
        yield latest
        estimate = self._oracle(problem, plan, layout, sizes, mechanisms)
        values = self.evaluations(layout)
        for t in range(1, layout.steps + 1):
            rows = path.begin(t)
            gradient = yield from between(estimate(t, rows, path), latest)
            path.learn(t, rows, gradient, int(sizes[t - 1]), float(values[t - 1]))
            latest = path.snapshot(t)
            yield latest
            if not path.active.any():
                return

    def _turned(self, layout: Layout, facts: ValueFacts, mechanisms: Mechanisms) -> Callable[..., Directions]:
        """The directions of step t for the replicates (R',): public, whatever the data."""
        starts = mechanisms.shared.random(layout.steps)

        def of(t: int, rows: np.ndarray) -> Directions:
            generators = [mechanisms.public[r] for r in rows]
            return Directions(self.directions, layout.directions, facts.d, generators, float(starts[t - 1]))

        return of

    def _slope_clip(self, facts: ValueFacts) -> float:
        """Of f(x + ru) - f(x - ru)."""
        most = math.inf if self.clipping == "range" else 2 * facts.radius * facts.lipschitz
        return min(most, facts.value_range)
