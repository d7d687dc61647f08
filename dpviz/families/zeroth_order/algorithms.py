"""The two methods of Zhang, Tran, Cutkosky (2024), which optimise a function from its values alone; and, to compare
with, descent with one pass over the rows: along random directions (DPZero, Zhang et al.; DP-ZO, Tang et al.), and with
subgradients, where they are available.

The two methods follow the path of `conversion.Conversion`, in K epochs of T steps, and differ in the oracle, which
estimates the gradient at each point of the path from differences of values along random directions: `Naive` estimates
it afresh at every point; `VarianceReduced` adds up changes of the gradient along the path, as a private running sum.

Notation: d parameters, L Lipschitz constant, r smoothing radius, m directions per row, D the longest move, μ the
budget.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from dpviz.experiments.algorithm import DIVERGED, Algorithm, Snapshot, divergence_status
from dpviz.experiments.plan import Plan
from dpviz.families.zeroth_order import planning, theory
from dpviz.families.zeroth_order.conversion import (
    EVALUATIONS,
    ROWS_USED,
    Conversion,
    ConversionState,
    Oracle,
    directions_field,
)
from dpviz.families.zeroth_order.planning import Layout
from dpviz.privacy import calibration
from dpviz.privacy.batches import Batch
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Gaussian, Laplace, Parallel
from dpviz.privacy.matrix_factorisation import Factorisation, restarted
from dpviz.privacy.mechanisms import Mechanisms, noise_scale
from dpviz.problems.base import Memory, Metric, check_facts
from dpviz.problems.values.value_problem import ValueFacts, ValueProblem, draw_directions
from dpviz.specification import choice, number, switch

# ----------------------------------------------------------------------------------------------- one pass over the rows


def _steps_field(default: int) -> Any:
    """Return the field for the number of steps S, with this default."""
    return number(
        default, 2, 20_000, label="Steps of a single pass", symbol="S", scale="log", help="Each has rows of its own."
    )


def _step_size_field(default: float) -> Any:
    """Return the field for the step size a of the first step, in units of 1/L, with this default."""
    return number(
        default,
        0.001,
        10.0,
        label="Step size of a single pass",
        symbol="a",
        unit="1/L",
        scale="log",
        help="Decays to 0 along the run.",
    )


class SinglePass(Algorithm[ValueProblem, ValueFacts]):
    """Descent x ← x - a_t g̃ with noisy estimates g̃ of a slope, and step sizes a_t that decay to 0.

    Each step uses rows that no other step uses, so every step may spend the whole budget. A subclass makes g̃, and says
    what it costs.
    """

    values: ClassVar[float] = 2.0  # function values that a step takes of each of its rows
    descent_steps: int = _steps_field(200)
    relative_step_size: float = _step_size_field(0.1)

    @abstractmethod
    def _event(self, facts: ValueFacts, budget: Budget) -> Gaussian | Laplace:
        """Return the event of the release on one batch, which spends the whole budget."""

    @abstractmethod
    def _sum_sensitivity(self, facts: ValueFacts) -> float:
        """Return B times the sensitivity of what a step releases, a mean over the B rows of its batch."""

    @abstractmethod
    def _estimate(self, problem: ValueProblem, x: np.ndarray, leaf: Batch, mechanisms: Mechanisms) -> np.ndarray:
        """Return g̃ (R, d), estimated at the points x (R, d) from the rows of one batch, whose release is paid for."""

    def plan(self, facts: ValueFacts, budget: Budget) -> Plan:
        """Return the plan for a problem with these facts: the steps, the rows of each, and the event that pays for
        all."""
        _, batch = planning.divide_rows(facts.n, self.descent_steps, epochs=1, share=None)  # equally to all steps
        event = self._event(facts, budget)
        decay = 1 - np.arange(self.descent_steps) / self.descent_steps
        return Plan.fixed(
            facts,
            budget,
            (Parallel((event,) * self.descent_steps),),  # on different rows: together they cost what one costs
            charged_at=np.ones(1, dtype=int),  # all at step 1
            iterations=self.descent_steps,
            batch_size=np.full(self.descent_steps, float(batch)),
            noise={"gradient": np.full(self.descent_steps, noise_scale(event, self._sum_sensitivity(facts) / batch))},
            resolved={"batch_size": batch, "rows_used": batch * self.descent_steps},
            step_size=self.relative_step_size / facts.lipschitz * decay,
        )

    def memory(self, plan: Plan, replicates: int, problem: Memory) -> float:
        """Estimate the bytes that a run takes, without the problem's table."""
        return planning.memory(plan, replicates, problem)

    def run(self, problem: ValueProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Run all R replicates of the plan; yield a snapshot of their points at the start and after every step."""
        check_facts(problem, plan.facts)
        count = mechanisms.replicates
        x, used, diverged = problem.facts.starting_point(count), np.zeros(count), np.zeros(count, dtype=bool)
        yield Snapshot(0, {"x": x}, {ROWS_USED.name: used, EVALUATIONS.name: self.values * used})
        (event,) = plan.events
        assert isinstance(event, Parallel)
        leaves = mechanisms.leaves(plan.rows.astype(int).tolist(), problem.facts.n)  # disjoint batches, one per step
        mechanisms.parallel(event, leaves)  # pays for the releases of all steps, which `_estimate` makes
        for t, step in enumerate(plan.schedule["step_size"].tolist(), 1):
            new = x - step * self._estimate(problem, x, leaves.next(), mechanisms)
            diverged = diverged | ~(np.abs(new).max(axis=1) < DIVERGED)  # true for nan, too
            x = np.where(diverged[:, None], x, new)  # a diverged replicate stays at its last finite point
            used = used + plan.rows[t - 1]
            released = {ROWS_USED.name: used, EVALUATIONS.name: self.values * used}
            yield Snapshot(t, {"x": x}, released, status=divergence_status(diverged))


class DirectionalDescent(SinglePass):
    """Single pass with g̃ = ṽ u, where u is a random direction and ṽ the noisy mean slope along u.

    A step releases one number ṽ, in any dimension, and moves the point along u only.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.PhaseRetrieval(rows=1000), dpviz.DirectionalDescent(descent_steps=10), mu=1).run()
    <Trace of DP-ZO: one direction per step: 20 runs, 10 iterations>
    """

    kind: ClassVar[str] = "families.zeroth_order.directional_descent"
    title: ClassVar[str] = "DP-ZO: one direction per step"
    hue: ClassVar[int] = 2
    metrics: ClassVar[tuple[Metric, ...]] = (ROWS_USED, EVALUATIONS)
    distance: float = number(
        0.05,
        0.001,
        1.0,
        label="Distance",
        symbol="λ",
        scale="log",
        help="Values are compared at x ± λu.",
        limits=(1e-6, 1e6),
    )
    clip: float = number(
        2.5,
        0.1,
        20.0,
        label="Clip slopes at",
        symbol="C",
        unit="L",
        scale="log",
        help="u is √d long, and slopes along it up to √d L; most are near L. Noise grows with C.",
    )
    noise: Literal["gaussian", "laplace"] = choice(
        "gaussian",
        label="Noise",
        help="Laplace also gives pure ε.",
        options={"gaussian": "Gaussian", "laplace": "Laplace"},
    )
    law: Literal["sphere", "normal"] = choice(
        "sphere",
        label="Law of u",
        help="The direction of a step.",
        options={"sphere": "On a sphere (DPZero)", "normal": "Normal (DP-ZO)"},
    )

    @property
    def line_style(self) -> tuple[int, int]:
        """Hue and dash of the method's lines in charts, as numbers; the noise changes the dash."""
        return self.hue, int(self.noise == "laplace")

    def _event(self, facts: ValueFacts, budget: Budget) -> Gaussian | Laplace:
        if self.noise == "gaussian":
            return Gaussian(planning.total_mu(budget, facts))
        # Of a single step on all n rows: nothing is sampled. `prior` are releases that the budget covers, too.
        (epsilon,) = calibration.calibrate_laplace(budget, np.ones(1), m=facts.n, n=facts.n, prior=facts.released)
        return Laplace(float(epsilon))

    def _sum_sensitivity(self, facts: ValueFacts) -> float:
        return 2 * self.clip * facts.lipschitz

    def _estimate(self, problem: ValueProblem, x: np.ndarray, leaf: Batch, mechanisms: Mechanisms) -> np.ndarray:
        facts = problem.facts
        u = draw_directions(self.law, facts.d, mechanisms.public)
        clip = self.clip * facts.lipschitz
        if self.noise == "gaussian":
            return leaf.gaussian(problem.directional_slope(x, u, leaf, clip, self.distance)) * u
        # The query is one number, whose norms are all the same; `laplace` takes queries in ℓ1 only.
        return leaf.laplace(problem.directional_slope(x, u, leaf, clip, self.distance, norm="l1")) * u


class FirstOrder(SinglePass):
    """DP-SGD: single pass with noisy means of clipped subgradients.

    It needs more than values; on a step function, whose derivative is 0, it is useless.
    """

    kind: ClassVar[str] = "families.zeroth_order.first_order"
    title: ClassVar[str] = "DP-SGD: with derivatives"
    hue: ClassVar[int] = 3
    metrics: ClassVar[tuple[Metric, ...]] = (ROWS_USED, EVALUATIONS)
    values: ClassVar[float] = 1.0  # a subgradient counts as one value
    descent_steps: int = _steps_field(640)
    relative_step_size: float = _step_size_field(0.05)

    def _event(self, facts: ValueFacts, budget: Budget) -> Gaussian:
        return Gaussian(planning.total_mu(budget, facts))

    def _sum_sensitivity(self, facts: ValueFacts) -> float:
        return 2 * facts.lipschitz

    def _estimate(self, problem: ValueProblem, x: np.ndarray, leaf: Batch, mechanisms: Mechanisms) -> np.ndarray:
        return leaf.gaussian(problem.subgradient(x, leaf, problem.facts.lipschitz))


# --------------------------------------------------------------------------------------------- the methods of the paper


class Naive(Conversion):
    """Naive oracle (Algorithm 6): every step estimates the gradient afresh, from rows that no other step uses.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.PhaseRetrieval(rows=1000), dpviz.Naive(iterations=16), mu=1).run()
    <Trace of Naive oracle: 20 runs, 16 iterations>
    """

    kind: ClassVar[str] = "families.zeroth_order.naive"
    title: ClassVar[str] = "Naive oracle"
    hue: ClassVar[int] = 1
    directions_per_row: int | None = directions_field(1)

    @property
    def line_style(self) -> tuple[int, int]:
        """Hue and dash of the method's lines in charts, as numbers; the directions change the dash."""
        return self.hue, int(self.directions == "orthonormal")

    @property
    def _first_share(self) -> float | None:
        """Share of an epoch's rows that its first step gets: None, as all steps get the same number."""
        return None

    def _clips(self, facts: ValueFacts, layout: Layout) -> tuple[float, float]:
        """Return the sizes at which differences f(x + ru) - f(x - ru) are clipped, in the first step of an epoch and,
        the same, in later ones."""
        clip = self._gradient_clip(facts)
        return clip, clip

    def sensitivities(self, facts: ValueFacts, layout: Layout) -> np.ndarray:
        """Return (K T,) the sensitivity of every step's estimate of the gradient."""
        clip, _ = self._clips(facts, layout)
        sum_sensitivity = theory.gradient_sensitivity(self.directions, layout.directions, facts.d, clip, facts.radius)
        return np.full(layout.steps, sum_sensitivity / layout.batch)

    def evaluations(self, layout: Layout) -> np.ndarray:
        """Return (K T,) the number of function values that every step takes of each of its rows: two per direction."""
        return np.full(layout.steps, 2.0 * layout.directions)

    def epoch_noise(self, facts: ValueFacts, layout: Layout) -> tuple[float, float]:
        """Return two standard deviations of the noise per coordinate at μ = 1: of the gradient of a step, and of the
        mean of the T gradients of an epoch, whose noise is independent."""
        noise_of_step = float(self.sensitivities(facts, layout)[0])  # at μ = 1; the same in all steps
        return noise_of_step, noise_of_step / math.sqrt(layout.length)

    def _events_and_noise(self, facts: ValueFacts, layout: Layout, mu: float) -> dict[str, Any]:
        """Return the events that spend the budget μ, and the noise scale of every step, as arguments of
        `Plan.fixed`."""
        event = Parallel((Gaussian(mu),) * layout.steps)  # on different rows: together they cost what one costs
        return {"events": (event,), "noise": {"gradient": self.sensitivities(facts, layout) / mu}}

    def _oracle(
        self, problem: ValueProblem, plan: Plan, layout: Layout, sizes: np.ndarray, mechanisms: Mechanisms
    ) -> Oracle:
        """Charge the plan's event, and return the oracle: a function from a step and its replicates to noisy
        gradients."""
        (event,) = plan.events
        assert isinstance(event, Parallel)
        clip, _ = self._clips(problem.facts, layout)
        leaves = mechanisms.leaves(sizes.tolist(), problem.facts.n)  # disjoint batches, one per step
        mechanisms.parallel(event, leaves)  # pays for one release on each leaf, the batch of a step
        directions = self._directions(layout, problem.facts, mechanisms)

        def estimate(t: int, replicates: np.ndarray, path: ConversionState) -> np.ndarray:
            leaf = leaves.next(replicates)
            query = problem.smoothed_gradient(path.point[replicates], leaf, directions(t, replicates), clip)
            return leaf.gaussian(query)  # with the noise of the event that has paid for it

        return estimate


class VarianceReduced(Conversion):
    """Variance-reduced oracle (Algorithms 1 to 5): it estimates the gradient at the first point of an epoch, then its
    changes from point to point, each from rows that no other step uses. The gradient at a point is the sum of these
    estimates so far, released as a private running sum that begins anew in every epoch.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.PhaseRetrieval(rows=1000), dpviz.VarianceReduced(iterations=16), mu=1).run()
    <Trace of Variance-reduced oracle: 20 runs, 16 iterations>
    """

    kind: ClassVar[str] = "families.zeroth_order.variance_reduced"
    title: ClassVar[str] = "Variance-reduced oracle"
    sums: theory.Sums = choice(
        "tree",
        label="Running sums",
        help="How the noise of the steps of an epoch is correlated. The published noise counts ⌈log₂ T⌉ + 1 levels of "
        "the tree for every row; most enter fewer.",
        options={
            "published": "Binary tree, published noise",
            "tree": "Binary tree",
            "honaker": "Honaker's tree",
            "square_root": "Square root",
            "normalised": "Normalised square root",
            "optimal": "Optimal",
            "independent": "Independent noise",
        },
    )
    first_share: float = number(
        0.5, 0.05, 0.95, label="Rows for the first step", symbol="φ", help="Of an epoch's rows; the rest is shared."
    )
    symmetric: bool = switch(
        False, label="Symmetric changes", help="Twice the values per direction, never more variance, the same noise."
    )
    follow_moves: bool = switch(
        False,
        label="Batches follow the moves",
        help="More rows where two points are farther apart, fewer where they are close: half the noise in a change.",
    )
    concentration: float | None = number(
        None,
        1.0,
        10.0,
        label="Concentration clip",
        symbol="τ",
        help="Clip the first step's differences at τ/√d of their bound: few are that large. Empty: at the bound.",
    )

    @model_validator(mode="after")
    def _batches_follow_bounded_moves(self) -> Self:
        if self.follow_moves and self.clipping == "range":
            raise ValueError(
                "batches follow the moves only where differences are clipped at L. Clip by the Lipschitz constant, or "
                "let batches be alike"
            )
        return self

    @property
    def line_style(self) -> tuple[int, int]:
        """Hue and dash of the method's lines in charts, as numbers; directions and running sums change the dash."""
        return self.hue, int(self.directions == "orthonormal") + 2 * int(self.sums not in ("tree", "independent"))

    @property
    def _first_share(self) -> float | None:
        """Share of an epoch's rows that its first step gets, which estimates a whole gradient."""
        return self.first_share

    @property
    def _follows(self) -> bool:
        """True if batches are larger where two points are farther apart."""
        return self.follow_moves

    def _clips(self, facts: ValueFacts, layout: Layout) -> tuple[float, float]:
        """Return the sizes at which differences of two values are clipped: in the first step of an epoch those of f(x +
        ru) - f(x - ru), in later ones those of f(x + ru) - f(y + ru) for the point y before x."""
        share = 1.0 if self.concentration is None else min(1.0, self.concentration / math.sqrt(facts.d))
        first = self._gradient_clip(facts) * share
        if layout.follows:
            # The clip of points that are D apart, whose batch has `layout.batch` rows. In `_oracle` clip and batch grow
            # in proportion to the distance, and the clip is limited to the range of values.
            return first, layout.move * facts.lipschitz
        # Points of successive steps are up to 2 D apart.
        later = math.inf if self.clipping == "range" else 2 * layout.move * facts.lipschitz
        return first, min(later, facts.value_range)

    def sensitivities(self, facts: ValueFacts, layout: Layout) -> np.ndarray:
        """Return (K T,) the sensitivity of every step's estimate: of the gradient in the first step of an epoch, of its
        change in later ones."""
        first_clip, later_clip = self._clips(facts, layout)
        directions = (self.directions, layout.directions, facts.d)
        return layout.per_step(
            theory.gradient_sensitivity(*directions, first_clip, facts.radius) / layout.first,
            theory.gradient_change_sensitivity(*directions, later_clip, facts.radius) / layout.batch,
        )

    def evaluations(self, layout: Layout) -> np.ndarray:
        """Return (K T,) the number of function values that every step takes of each of its rows."""
        return layout.per_step(2.0, 4.0 if self.symmetric else 2.0) * layout.directions

    def epoch_noise(self, facts: ValueFacts, layout: Layout) -> tuple[float, float]:
        """Return two standard deviations of the noise per coordinate at μ = 1: of a running sum, as the root mean
        square over the steps of an epoch, and of the mean of the T sums of an epoch."""
        sums = self.epoch_sums(facts, layout)
        sensitivity = theory.noise_sensitivity(self.sums, sums, self.sensitivities(facts, layout)[: layout.length])
        noise_of_step = sensitivity * math.sqrt(float((sums.row_norms**2).mean()))
        return noise_of_step, sensitivity * theory.epoch_norm(sums)

    def as_naive(self) -> Naive:
        """Return the naive oracle with the same settings, which estimates the gradient afresh in every step."""
        return Naive(**{name: getattr(self, name) for name in Naive.model_fields})

    def factorisation(self, facts: ValueFacts, layout: Layout) -> Factorisation:
        """Return the factorisation of the running sums of a run: those of one epoch, begun anew in each."""
        return restarted(self.epoch_sums(facts, layout), layout.epochs)

    def epoch_sums(self, facts: ValueFacts, layout: Layout, sums: theory.Sums | None = None) -> Factorisation:
        """Return the factorisation of the running sums of one epoch, which says how their noise is correlated.

        sums : another kind of sums than this method's, for the same steps.
        """
        first_sensitivity, later_sensitivity = self.sensitivities(facts, layout)[:2]
        return theory.factorisation(sums or self.sums, layout.length, float(first_sensitivity / later_sensitivity))

    def _notes(self, facts: ValueFacts, layout: Layout, private: bool) -> tuple[str, ...]:
        """Return warnings for the plan, in sentences. private : True if there is noise, which is then compared."""
        notes = [*super()._notes(facts, layout, private)]
        if not facts.exact:
            notes.append(
                "Values may move faster than L times the distance here. Clipping bounds what a row can change, "
                "but changes of the gradient are then underestimated. That adds up over an epoch; with the naive "
                "oracle it does not."
            )
        if not private:  # then there is no noise to compare
            return tuple(notes)
        sensitivities = self.sensitivities(facts, layout)[: layout.length]
        if self.sums in ("published", "tree", "honaker"):
            mean_noise = {}  # standard deviation at μ = 1, mean over the steps, by kind of sums
            for sums in (self.sums, "independent"):
                factors = theory.factorisation(sums, layout.length)
                scale = theory.noise_sensitivity(sums, factors, sensitivities)  # σ at μ = 1
                mean_noise[sums] = scale * float(factors.row_norms.mean())
            if mean_noise[self.sums] >= mean_noise["independent"]:
                notes.append("With so few steps per epoch a tree has no less noise than sums of independent noise.")
        if self.sums == "optimal" and layout.length > theory.OPTIMAL_LIVE:
            replaced = "The optimal sums are replaced by the normalised square root, which is"
            if sensitivities[0] > sensitivities[1]:
                notes.append(
                    f"{replaced} far from them here: a row of the first step counts most. Give that step more rows, or "
                    "take fewer steps."
                )
            else:
                notes.append(f"{replaced} within 3 % of them.")
        return tuple(notes)

    def _events_and_noise(self, facts: ValueFacts, layout: Layout, mu: float) -> dict[str, Any]:
        """Return the event that pays for the running sums of all epochs, and the noise scale of every sum, as arguments
        of `Plan.fixed`. mu : μ of the budget."""
        sums, sensitivities = self.epoch_sums(facts, layout), self.sensitivities(facts, layout)[: layout.length]
        sensitivity = float(sums.sensitivity(sensitivities))
        # The published noise is for a sensitivity that may be too large; then the event costs less than μ.
        event = Gaussian(mu * sensitivity / theory.noise_sensitivity(self.sums, sums, sensitivities))
        scale = sensitivity / event.mu
        return {"events": (event,), "noise": {"prefix": np.tile(scale * sums.row_norms, layout.epochs)}}

    def _oracle(
        self, problem: ValueProblem, plan: Plan, layout: Layout, sizes: np.ndarray, mechanisms: Mechanisms
    ) -> Oracle:
        """Charge the plan's event, and return the oracle: a function from a step and its replicates to noisy gradients,
        the running sums of this epoch."""
        facts = problem.facts
        first_clip, later_clip = self._clips(facts, layout)
        (event,) = plan.events
        leaves = mechanisms.leaves(sizes.tolist(), facts.n)  # disjoint batches, one per step
        sensitivities = self.sensitivities(facts, layout)
        sums = mechanisms.prefix_sums(event, self.factorisation(facts, layout), leaves, sensitivities, shape=(facts.d,))
        directions = self._directions(layout, facts, mechanisms)

        def estimate(t: int, replicates: np.ndarray, path: ConversionState) -> np.ndarray:
            leaf = leaves.next(replicates)  # the batch of step t
            x, step_directions = path.point[replicates], directions(t, replicates)
            if layout.begins(t):
                query = problem.smoothed_gradient(x, leaf, step_directions, first_clip)
            else:
                previous = path.previous[replicates]
                # A batch that follows the moves is larger where the points may be farther apart, and so is its clip.
                # Other batches have `layout.batch` rows, and the clip `later_clip`.
                clip = min(later_clip * float(sizes[t - 1]) / layout.batch, facts.value_range)
                clips = np.full(len(replicates), clip)
                if self.clipping == "lipschitz":  # L times the distance of the points, which is public
                    clips = np.minimum(clips, facts.lipschitz * np.linalg.norm(x - previous, axis=1))
                query = problem.gradient_change(x, previous, leaf, step_directions, clips, symmetric=self.symmetric)
            return sums.add(query)  # the noisy sum of all queries of this epoch so far

        return estimate
