"""Online-to-nonconvex conversion with gradients that are estimated from values (Zhang, Tran, Cutkosky 2024).

A point x moves in steps. An online learner chooses each move Δ, of length at most D, and learns from a noisy gradient
at a random point w = x + s Δ of the move, s uniform in [0, 1] (Algorithm 3). A run has K epochs of T steps; the output
of an epoch is the average of its points w. This module has the path and the base class; its subclasses in `algorithms`
estimate the gradients, with an oracle. Every row is used in one step at most.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal

import numpy as np

from dpviz.errors import UserError
from dpviz.experiments.algorithm import DIVERGED, Algorithm, Snapshot, Status, divergence_status
from dpviz.experiments.plan import MAX_RECORDED, Plan
from dpviz.families.zeroth_order import planning, theory
from dpviz.families.zeroth_order.planning import Layout
from dpviz.numbers import short
from dpviz.privacy.budgets import Budget
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.base import Memory, Metric, check_facts
from dpviz.problems.values.value_problem import Directions, Kind, ValueFacts, ValueProblem
from dpviz.specification import choice, number, switch

ROWS_USED = Metric("rows_used", "Rows used", released=True, axis=True, better="")
EVALUATIONS = Metric("evaluations", "Function evaluations", released=True, axis=True, better="")
NOISY_NORM = Metric("noisy_gradient_norm", "Norm of the noisy gradient ‖g_t‖", released=True, scale="log", better="")


class ConversionState:
    """State of the paths of R replicates in Algorithm 3: x moves by Δ, which a learner updates with the noisy gradient
    at a random point of the move.

    layout : epochs, batches, longest move and the learner's step size. start : (R, d) x₀.
    fresh_start : True if the learner forgets its last move between epochs.
    positions : (R, K T) uniform numbers s, the position of each step's point in its move.
    last_step : (R,) the step after which each replicate stops; None if all take part to the end.

    Attributes, all over R replicates: x, move : (R, d) x and Δ. point, previous : (R, d) the points w of this step and
    of the step before. total : (R, d) sum of the points of this epoch so far. output : (R, d) average of the points of
    the last whole epoch; x₀ before. diverged : True for those that did. active : True for those that take part in
    further steps. used, evaluations : rows and function values used so far. norm : ‖g_t‖ of the last noisy gradient.
    """

    def __init__(
        self, start: np.ndarray, layout: Layout, fresh_start: bool, positions: np.ndarray, last_step: np.ndarray | None
    ) -> None:
        self.layout, self.fresh_start, self.positions, self.last_step = layout, fresh_start, positions, last_step
        self.x, self.move = start.copy(), np.zeros_like(start)
        self.point, self.previous = start.copy(), start.copy()
        self.total, self.output = np.zeros_like(start), start.copy()
        self.diverged, self.active = np.zeros(len(start), dtype=bool), np.ones(len(start), dtype=bool)
        self.used, self.evaluations = np.zeros(len(start)), np.zeros(len(start))
        self.norm = np.full(len(start), np.nan)

    def begin(self, t: int) -> np.ndarray:
        """Move on to the points of step t, from 1; return (R',) the numbers of the replicates that take part in it."""
        replicates = np.flatnonzero(self.active)
        # All R move; the output of those that take no part stays.
        if self.layout.begins(t):
            self.total = np.zeros_like(self.x)
            if self.fresh_start:
                self.move = np.zeros_like(self.x)
        self.previous = self.point
        self.point = self.x + self.positions[:, t - 1, None] * self.move
        self.x = self.x + self.move
        self.total = self.total + self.point
        return replicates

    def learn(self, t: int, replicates: np.ndarray, gradient: np.ndarray, size: int, evaluations: float) -> None:
        """Update the learner's moves with the noisy gradients of step t; replicates that diverge stay where they are.

        replicates : (R',) numbers of those that take part. gradient : (R', d) at their points. size : rows that the
        step used. evaluations : function values that it took of each row.
        """
        # Snapshots hold the old arrays of these three, so copies are changed.
        self.norm, self.used, self.evaluations = self.norm.copy(), self.used.copy(), self.evaluations.copy()
        diverges = ~(np.abs(gradient).max(axis=1) < DIVERGED)  # true for nan, too
        self.diverged[replicates[diverges]] = True
        gradient = np.where(diverges[:, None], 0.0, gradient)
        self.norm[replicates] = np.linalg.norm(gradient, axis=1)
        self.used[replicates] += size
        self.evaluations[replicates] += size * evaluations
        new_move = self.move[replicates] - self.layout.step_size * gradient
        excess = np.linalg.norm(new_move, axis=1, keepdims=True) / self.layout.move  # above 1: it is too long
        move = np.zeros_like(self.move)  # replicates that take no part any more stay where they are
        move[replicates] = new_move / np.maximum(1.0, excess)
        self.move = np.where(self.diverged[:, None], 0.0, move)
        if self.layout.ends(t):
            is_valid = self.active & ~self.diverged
            self.output = np.where(is_valid[:, None], self.total / self.layout.length, self.output)
        if self.last_step is not None:
            self.active = self.active & (t < self.last_step) & ~self.diverged

    def snapshot(self, t: int) -> Snapshot:
        """Return the snapshot of all replicates after step t; t = 0 is the start."""
        released = {ROWS_USED.name: self.used, EVALUATIONS.name: self.evaluations, NOISY_NORM.name: self.norm}
        if self.last_step is None:
            return Snapshot(t, {"x": self.output}, released, status=divergence_status(self.diverged))
        status: list[Status] = []
        for has_diverged, is_active in zip(self.diverged.tolist(), self.active.tolist(), strict=True):
            # A replicate is exhausted after the epoch that it returns.
            status.append("diverged" if has_diverged else "running" if is_active else "exhausted")
        return Snapshot(t, {"x": self.output}, released, active=self.active, status=tuple(status))


MAX_STEPS = 20_000  # the upper limit of the setting
# Function from a step t, from 1, the numbers of the replicates that take part (R',), and the path, to the noisy
# gradients (R', d) at their points.
Oracle = Callable[[int, np.ndarray, ConversionState], np.ndarray]


def directions_field(default: int | None) -> Any:
    """Return the field for the number of directions per row; None, and any number above d, stands for d."""
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
    """Base of the methods in `algorithms`: settings of epochs, learner and directions, the plan, and the run.

    A subclass says how many rows the steps get, at which size differences of values are clipped, and what the estimates
    cost; and it makes the oracle.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (ROWS_USED, EVALUATIONS, NOISY_NORM)
    if_diverged: ClassVar[str] = "The noise is beyond all bounds. Use a larger budget or more rows."
    iterations: int = number(
        640,
        2,
        MAX_STEPS,
        label="Steps",
        symbol="K·T",
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
        symbol="D·T/r",
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
        label="Directions",
        help="Of one row. Orthonormal ones cannot all be the same, so a row moves the estimate by √m less.",
        options={"iid": "Independent, as published", "orthonormal": "Orthonormal: √m times less noise"},
    )
    directions_per_row: int | None = directions_field(None)
    clipping: Literal["lipschitz", "range"] = choice(
        "lipschitz",
        label="Clip differences",
        help="At L times the distance, or at the largest difference that any two values can have.",
        options={"lipschitz": "By the Lipschitz constant", "range": "By the range of values"},
    )
    fresh_start: bool = switch(True, label="Epochs begin at rest", help="The learner forgets its last move.")
    one_epoch: bool = switch(
        False,
        label="Stop at the epoch that is returned",
        help="It is drawn in advance: the rows after it are never touched.",
    )

    # ------------------------------------------------------------------------------------------------------------- plan

    @property
    @abstractmethod
    def _first_share(self) -> float | None:
        """Share of an epoch's rows that its first step gets, which estimates the gradient where others may estimate its
        change; None if all steps get the same number."""

    @property
    def _follows(self) -> bool:
        """True if batches are larger where points are farther apart."""
        return False

    @abstractmethod
    def _clips(self, facts: ValueFacts, layout: Layout) -> tuple[float, float]:
        """Return the sizes at which differences of two values are clipped, in the first step of an epoch and in later
        ones."""

    @abstractmethod
    def sensitivities(self, facts: ValueFacts, layout: Layout) -> np.ndarray:
        """Return (K T,) the L2 sensitivity of every step's estimate: its largest change if one row is replaced."""

    @abstractmethod
    def evaluations(self, layout: Layout) -> np.ndarray:
        """Return (K T,) the number of function values that every step takes of each of its rows."""

    @abstractmethod
    def epoch_noise(self, facts: ValueFacts, layout: Layout) -> tuple[float, float]:
        """Return two standard deviations of the noise per coordinate at μ = 1, both exact: of the gradient of a step,
        as the root mean square over the steps of an epoch; and of the mean of the gradients of an epoch."""

    @abstractmethod
    def _events_and_noise(self, facts: ValueFacts, layout: Layout, mu: float) -> dict[str, Any]:
        """Return the events that spend the budget, μ = `mu`, and the noise scales of all steps, as arguments of
        `Plan.fixed`."""

    @abstractmethod
    def _oracle(
        self, problem: ValueProblem, plan: Plan, layout: Layout, sizes: np.ndarray, mechanisms: Mechanisms
    ) -> Oracle:
        """Charge the plan's events, and return the oracle, the function that makes the noisy estimates they pay for.

        sizes : (K T,) numbers of rows of the steps.
        """

    def layout(self, facts: ValueFacts) -> Layout:
        """Return the sizes of epochs, batches, moves and directions on a problem with these facts.

        The learner's step size is D/(g₀ L √T), where g₀ L is the expected norm of a gradient. Raises UserError if there
        are too few rows.
        """
        length = min(self.epoch_length, self.iterations)
        epochs = self.iterations // length
        first, batch = planning.divide_rows(facts.n, length, epochs, self._first_share, self._follows)
        move = self.travel * facts.radius / length
        step = move / (self.expected_norm * facts.lipschitz * math.sqrt(length))
        directions = min(self.directions_per_row or facts.d, facts.d)
        return Layout(length, epochs, first, batch, move, step, directions, self._follows)

    def plan(self, facts: ValueFacts, budget: Budget) -> Plan:
        """Return the plan for a problem with these facts: epochs, batches, and the events that spend the budget."""
        layout = self.layout(facts)
        if self.clipping == "range" and not math.isfinite(facts.value_range):
            raise UserError(
                "The values of this problem have no bounded range. Clip by the Lipschitz constant.",
                title="Algorithm and problem do not fit",
            )
        # r + R_w, to which bounds on the stationarity of an epoch's average refer: within it some convex combination of
        # gradients is as short as the bound says. r is the smoothing radius.
        radius = facts.radius + theory.path_radius(layout.length, layout.move, self.fresh_start)
        ends = np.arange(1, layout.epochs + 1) * layout.length
        return Plan.fixed(
            facts,
            budget,
            iterations=layout.steps,
            charged_at=np.ones(1, dtype=int),  # all at step 1, as every row is in one step only
            stops=self.one_epoch,  # each replicate after the epoch that it returns
            batch_size=layout.sizes,
            sizes_vary=layout.follows,
            record_at=ends if len(ends) <= MAX_RECORDED else None,  # more than `MAX_RECORDED` steps are refused
            resolved={
                "epoch_length": layout.length,
                "epochs": layout.epochs,
                "first_batch": layout.first,
                "batch_size": layout.batch,
                "rows_used": round(float(layout.sizes.sum())),
                "longest_move": layout.move,
                "directions": layout.directions,
                "stationarity_radius": radius,
                "reach": theory.reach(layout.length, layout.epochs, layout.move, self.fresh_start),
            },
            notes=self._notes(facts, layout, budget.private),
            **self._events_and_noise(facts, layout, planning.total_mu(budget, facts)),
            step_size=np.full(layout.steps, layout.step_size),
        )

    def _notes(self, facts: ValueFacts, layout: Layout, private: bool) -> tuple[str, ...]:
        """Return warnings for the plan, in sentences: here, one if fewer steps are taken than set."""
        if layout.steps == self.iterations:
            return ()
        return (f"{short(layout.steps)} of {short(self.iterations)} steps: epochs are whole.",)

    def memory(self, plan: Plan, replicates: int, problem: Memory) -> float:
        """Estimate the bytes that a run takes, without the problem's table."""
        return planning.memory(plan, replicates, problem, self.layout(ValueFacts.of(plan.facts)).directions)

    # -------------------------------------------------------------------------------------------------------------- run

    def run(self, problem: ValueProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Run all R replicates of the plan; yield a snapshot at the start and after every step. Random numbers that the
        data do not enter, such as the positions of points in their moves, are drawn first."""
        check_facts(problem, plan.facts)
        layout, generators = self.layout(problem.facts), mechanisms.public
        if layout.follows:  # positions set the sizes of batches, which must be the same for all replicates
            positions = np.tile(mechanisms.shared.random(layout.steps), (len(generators), 1))
        else:
            positions = np.array([generator.random(layout.steps) for generator in generators])
        sizes = layout.drawn_sizes(positions[0])  # those of all replicates
        last_step = None
        if self.one_epoch:  # `common` generators draw the same for all methods that are compared
            epoch_returned = np.array([generator.integers(1, layout.epochs + 1) for generator in mechanisms.common])
            last_step = layout.length * epoch_returned  # (R,) the step after which each replicate stops
        path = ConversionState(
            problem.facts.starting_point(mechanisms.replicates), layout, self.fresh_start, positions, last_step
        )
        yield path.snapshot(0)
        estimate = self._oracle(problem, plan, layout, sizes, mechanisms)
        evaluations = self.evaluations(layout)
        for t in range(1, layout.steps + 1):
            replicates = path.begin(t)
            gradient = estimate(t, replicates, path)
            path.learn(t, replicates, gradient, size=int(sizes[t - 1]), evaluations=float(evaluations[t - 1]))
            yield path.snapshot(t)
            if not path.active.any():
                return

    def _directions(self, layout: Layout, facts: ValueFacts, mechanisms: Mechanisms) -> Callable[..., Directions]:
        """Return a function from a step t and the numbers of the replicates that take part (R',) to the directions
        along which their step compares values. They do not depend on the data."""
        # Where in the bank, a fixed store of sets of directions, those of each step begin: as a share of its length.
        starts = mechanisms.shared.random(layout.steps)

        def of_step(t: int, replicates: np.ndarray) -> Directions:
            generators = [mechanisms.public[r] for r in replicates]
            return Directions(self.directions, layout.directions, facts.d, generators, float(starts[t - 1]))

        return of_step

    def _gradient_clip(self, facts: ValueFacts) -> float:
        """Return the size at which differences f(x + ru) - f(x - ru) are clipped: 2 r L by the Lipschitz constant, and
        never above the range of values."""
        clip = math.inf if self.clipping == "range" else 2 * facts.radius * facts.lipschitz
        return min(clip, facts.value_range)
