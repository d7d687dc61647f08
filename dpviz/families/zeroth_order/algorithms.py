"""Online-to-nonconvex conversion with gradients that are estimated from values (Zhang, Tran, Cutkosky 2024).

A learner chooses moves of length at most D; gradients are asked for at random points of the moves; each epoch of T
steps gives the average of its points. Two oracles estimate the gradients: `VarianceReduced` adds up changes of the
gradient along the way, as a private running sum, and `Naive` starts afresh at every point. Every row is used once.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal

import numpy as np

from dpviz.errors import UserError
from dpviz.experiments.algorithm import Algorithm, Snapshot
from dpviz.experiments.plan import MOST_RECORDED, Plan
from dpviz.families.zeroth_order import planning, theory
from dpviz.families.zeroth_order.path import EVALUATIONS, NOISY_NORM, ROWS_USED, Path
from dpviz.families.zeroth_order.planning import Layout
from dpviz.numbers import short
from dpviz.pauses import Parts, between
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Gaussian, Parallel
from dpviz.privacy.matrix_factorisation import Factorisation, restarted
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.base import Cost, Metric, check_facts
from dpviz.problems.directions import Directions, Kind
from dpviz.problems.value_problem import ValueFacts, ValueProblem
from dpviz.specification import choice, number, switch

Oracle = Callable[[int, np.ndarray, Path], Parts[np.ndarray]]  # step, replicates (R',) and where they are; (R', d)


def _directions_per_row(default: int | None) -> Any:
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
        640, 2, 20_000, label="Steps", symbol="K T", scale="log", help="Of all epochs; in whole epochs, one at least."
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
    directions_per_row: int | None = _directions_per_row(None)
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
    def _priced(self, facts: ValueFacts, budget: Budget, layout: Layout, mu: float) -> dict[str, Any]:
        """The plan's event and its noise."""

    @abstractmethod
    def _oracle(self, problem: ValueProblem, plan: Plan, layout: Layout, mechanisms: Mechanisms) -> Oracle:
        """Who estimates gradients, and has paid for it."""

    def layout(self, facts: ValueFacts) -> Layout:
        """Epochs, batches, moves and directions on a problem with these facts. UserError if there are too few rows."""
        length = min(self.epoch_length, self.iterations)
        epochs = self.iterations // length
        first, batch = planning.shared_out(facts.n, length, epochs, self._first_share)
        move = self.travel * facts.radius / length
        step = move / (self.expected_norm * facts.lipschitz * math.sqrt(length))
        return Layout(length, epochs, first, batch, move, step, min(self.directions_per_row or facts.d, facts.d))

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
            batch_size=layout.sizes.astype(float),
            record_at=ends if len(ends) <= MOST_RECORDED else None,
            resolved={
                "epoch_length": layout.length,
                "epochs": layout.epochs,
                "first_batch": layout.first,
                "batch_size": layout.batch,
                "rows_used": layout.rows,
                "longest_move": layout.move,
                "directions": layout.directions,
                "stationarity_radius": self.stationarity_radius(facts, layout),
                "reach": theory.reach(layout.length, layout.epochs, layout.move, self.fresh_start),
            },
            notes=self._notes(facts, layout),
            **self._priced(facts, budget, layout, planning.total_mu(budget, facts)),
            step_size=np.full(layout.steps, layout.step_size),
        )

    def _notes(self, facts: ValueFacts, layout: Layout) -> tuple[str, ...]:
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
        mix = np.array([generator.random(layout.steps) for generator in every])
        last = None
        if self.one_epoch:
            last = layout.length * np.array([generator.integers(1, layout.epochs + 1) for generator in every])
        path = Path(problem.facts.starting_point(mechanisms.replicates), layout, self.fresh_start, mix, last)
        latest = path.snapshot(0)
        yield latest
        estimate = self._oracle(problem, plan, layout, mechanisms)
        values = self.evaluations(layout)
        for t in range(1, layout.steps + 1):
            rows = path.begin(t)
            gradient = yield from between(estimate(t, rows, path), latest)
            path.learn(t, rows, gradient, int(plan.rows[t - 1]), float(values[t - 1]))
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


class Naive(Conversion):
    """Algorithm 6: every step estimates the gradient afresh, from rows of its own."""

    kind: ClassVar[str] = "families.zeroth_order.naive"
    title: ClassVar[str] = "Naive oracle"
    hue: ClassVar[int] = 1
    directions_per_row: int | None = _directions_per_row(1)

    @property
    def look(self) -> tuple[int, int]:
        return self.hue, int(self.directions == "orthonormal")

    @property
    def _first_share(self) -> float | None:
        return None

    def _clips(self, facts: ValueFacts, layout: Layout) -> tuple[float, float]:
        clip = self._slope_clip(facts)
        return clip, clip

    def changes(self, facts: ValueFacts, layout: Layout) -> np.ndarray:
        clip, _ = self._clips(facts, layout)
        change = theory.slope_sensitivity(self.directions, layout.directions, facts.d, clip, facts.radius)
        return np.full(layout.steps, change / layout.batch)

    def evaluations(self, layout: Layout) -> np.ndarray:
        return np.full(layout.steps, 2.0 * layout.directions)

    def _priced(self, facts: ValueFacts, budget: Budget, layout: Layout, mu: float) -> dict[str, Any]:
        event = Parallel((Gaussian(mu),) * layout.steps)
        return {"events": (event,), "noise": {"gradient": self.changes(facts, layout) / mu}}

    def _oracle(self, problem: ValueProblem, plan: Plan, layout: Layout, mechanisms: Mechanisms) -> Oracle:
        (event,) = plan.events
        assert isinstance(event, Parallel)
        clip, _ = self._clips(problem.facts, layout)
        leaves = mechanisms.leaves(layout.sizes.tolist(), problem.facts.n)
        mechanisms.parallel(event, leaves)
        directions = self._turned(layout, problem.facts, mechanisms)

        def estimate(t: int, rows: np.ndarray, path: Path) -> Parts[np.ndarray]:
            leaf = leaves.next(rows)
            query = yield from problem.slope_in_parts(path.point[rows], leaf, directions(t, rows), clip)
            return leaf.gaussian(query)

        return estimate


class VarianceReduced(Conversion):
    """Algorithms 1 to 5: a gradient at the first point of an epoch, then its changes from point to point, on rows of
    their own, added up as a private running sum that begins anew in every epoch."""

    kind: ClassVar[str] = "families.zeroth_order.variance_reduced"
    title: ClassVar[str] = "Variance-reduced oracle"
    sums: theory.Sums = choice(
        "tree",
        {
            "tree": "Binary tree, as published",
            "honaker": "Honaker's tree",
            "square_root": "Square root",
            "normalised": "Normalised square root",
            "optimal": "Optimal",
            "independent": "Independent noise",
        },
        label="Running sums",
        help="How the noise of the steps of an epoch is correlated.",
    )
    first_share: float = number(
        0.5, 0.05, 0.95, label="Rows for the first step", symbol="φ", help="Of an epoch's rows; the rest is shared."
    )
    symmetric: bool = switch(
        False, label="Symmetric changes", help="Twice the values per direction, never more variance, the same noise."
    )
    concentration: float | None = number(
        None,
        1.0,
        10.0,
        label="Concentration clip",
        symbol="τ",
        help="Clip the first step's differences at τ/√d of their bound: few are that large. Empty: at the bound.",
    )

    @property
    def look(self) -> tuple[int, int]:
        return self.hue, int(self.directions == "orthonormal") + 2 * int(self.sums not in ("tree", "independent"))

    @property
    def _first_share(self) -> float | None:
        return self.first_share

    def _clips(self, facts: ValueFacts, layout: Layout) -> tuple[float, float]:
        narrow = 1.0 if self.concentration is None else min(1.0, self.concentration / math.sqrt(facts.d))
        most = math.inf if self.clipping == "range" else 2 * layout.move * facts.lipschitz
        return self._slope_clip(facts) * narrow, min(most, facts.value_range)

    def changes(self, facts: ValueFacts, layout: Layout) -> np.ndarray:
        first, later = self._clips(facts, layout)
        of = (self.directions, layout.directions, facts.d)
        return layout.each(
            theory.slope_sensitivity(*of, first, facts.radius) / layout.first,
            theory.change_sensitivity(*of, later, facts.radius) / layout.batch,
        )

    def evaluations(self, layout: Layout) -> np.ndarray:
        return layout.each(2.0, 4.0 if self.symmetric else 2.0) * layout.directions

    def factorisation(self, facts: ValueFacts, layout: Layout) -> Factorisation:
        """All epochs' running sums, as one."""
        first, later = self.changes(facts, layout)[:2]
        return restarted(theory.factorisation(self.sums, layout.length, float(first / later)), layout.epochs)

    def _notes(self, facts: ValueFacts, layout: Layout) -> tuple[str, ...]:
        notes = [*super()._notes(facts, layout)]
        if not facts.exact:
            notes.append(
                "Values may move faster than L times the distance here. Clipping bounds what a row can change, but "
                "changes of the gradient are then underestimated: the naive oracle suffers less."
            )
        if self.sums in ("tree", "honaker") and layout.length <= 16:
            notes.append("With so few steps per epoch a tree has no less noise than sums of independent noise.")
        if self.sums == "optimal" and layout.length > theory.OPTIMAL_LIVE:
            notes.append("The optimal sums are replaced by the normalised square root, which is within 3 % of them.")
        return tuple(notes)

    def _priced(self, facts: ValueFacts, budget: Budget, layout: Layout, mu: float) -> dict[str, Any]:
        sums = self.factorisation(facts, layout)
        scale = float(sums.sensitivity(self.changes(facts, layout))) / mu
        return {"events": (Gaussian(mu),), "noise": {"prefix": scale * sums.row_norms}}

    def _oracle(self, problem: ValueProblem, plan: Plan, layout: Layout, mechanisms: Mechanisms) -> Oracle:
        facts = problem.facts
        first, later = self._clips(facts, layout)
        leaves = mechanisms.leaves(layout.sizes.tolist(), facts.n)
        changes = self.changes(facts, layout)
        sums = mechanisms.prefix_sums(plan.events[0], self.factorisation(facts, layout), leaves, changes, (facts.d,))
        directions = self._turned(layout, facts, mechanisms)

        def estimate(t: int, rows: np.ndarray, path: Path) -> Parts[np.ndarray]:
            leaf, x, turned = leaves.next(rows), path.point[rows], directions(t, rows)
            if layout.begins(t):
                query = yield from problem.slope_in_parts(x, leaf, turned, first)
            else:
                before = path.before[rows]
                clips = np.full(len(rows), later)
                if self.clipping == "lipschitz":
                    clips = np.minimum(later, facts.lipschitz * np.linalg.norm(x - before, axis=1))
                query = yield from problem.change_in_parts(x, before, leaf, turned, clips, self.symmetric)
            return sums.add(query)

        return estimate
