"""Two oracles of the conversion: `VarianceReduced` adds up changes of the gradient along the path, as a private running
sum, and `Naive` estimates it afresh at every point (Zhang, Tran, Cutkosky 2024)."""

import math
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from dpviz.experiments.plan import Plan
from dpviz.families.zeroth_order import theory
from dpviz.families.zeroth_order.conversion import Conversion, Oracle, Path, directions_field
from dpviz.families.zeroth_order.planning import Layout
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Gaussian, Parallel
from dpviz.privacy.matrix_factorisation import Factorisation, restarted
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.values.value_problem import ValueFacts, ValueProblem
from dpviz.specification import choice, number, switch


class Naive(Conversion):
    """Algorithm 6: every step estimates the gradient afresh, from different rows."""

    kind: ClassVar[str] = "families.zeroth_order.naive"
    title: ClassVar[str] = "Naive oracle"
    hue: ClassVar[int] = 1
    directions_per_row: int | None = directions_field(1)

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

    def epoch_noise(self, facts: ValueFacts, layout: Layout) -> tuple[float, float]:
        step = float(self.changes(facts, layout)[0])
        return step, step / math.sqrt(layout.length)

    def _priced(self, facts: ValueFacts, budget: Budget, layout: Layout, mu: float) -> dict[str, Any]:
        event = Parallel((Gaussian(mu),) * layout.steps)
        return {"events": (event,), "noise": {"gradient": self.changes(facts, layout) / mu}}

    def _oracle(
        self, problem: ValueProblem, plan: Plan, layout: Layout, sizes: np.ndarray, mechanisms: Mechanisms
    ) -> Oracle:
        (event,) = plan.events
        assert isinstance(event, Parallel)
        clip, _ = self._clips(problem.facts, layout)
        leaves = mechanisms.leaves(sizes.tolist(), problem.facts.n)
        mechanisms.parallel(event, leaves)
        directions = self._directions(layout, problem.facts, mechanisms)

        def estimate(t: int, rows: np.ndarray, path: Path) -> np.ndarray:
            leaf = leaves.next(rows)
            query = problem.slope(path.point[rows], leaf, directions(t, rows), clip)
            return leaf.gaussian(query)

        return estimate


class VarianceReduced(Conversion):
    """Algorithms 1 to 5: a gradient at the first point of an epoch, then its changes from point to point, on different
    rows, added up as a private running sum that begins anew in every epoch."""

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
    def look(self) -> tuple[int, int]:
        return self.hue, int(self.directions == "orthonormal") + 2 * int(self.sums not in ("tree", "independent"))

    @property
    def accounting(self) -> Literal["tight", "paper"]:
        """Noise that is drawn, tight or the paper's, which may cost less than the budget and is booked at its cost."""
        return "paper" if self.sums == "published" else "tight"

    @property
    def _first_share(self) -> float | None:
        return self.first_share

    @property
    def _follows(self) -> bool:
        return self.follow_moves

    def _clips(self, facts: ValueFacts, layout: Layout) -> tuple[float, float]:
        narrow = 1.0 if self.concentration is None else min(1.0, self.concentration / math.sqrt(facts.d))
        first = self._slope_clip(facts) * narrow
        if layout.follows:  # of a batch of B₂ rows; that of others is larger or smaller with them
            return first, layout.move * facts.lipschitz
        later = math.inf if self.clipping == "range" else 2 * layout.move * facts.lipschitz
        return first, min(later, facts.value_range)

    def changes(self, facts: ValueFacts, layout: Layout) -> np.ndarray:
        first, later = self._clips(facts, layout)
        directions = (self.directions, layout.directions, facts.d)
        return layout.each(
            theory.slope_sensitivity(*directions, first, facts.radius) / layout.first,
            theory.change_sensitivity(*directions, later, facts.radius) / layout.batch,
        )

    def evaluations(self, layout: Layout) -> np.ndarray:
        return layout.each(2.0, 4.0 if self.symmetric else 2.0) * layout.directions

    def epoch_noise(self, facts: ValueFacts, layout: Layout) -> tuple[float, float]:
        sums = self.epoch_sums(facts, layout)
        scale = theory.charged(self.sums, sums, self.changes(facts, layout)[: layout.length])
        return scale * math.sqrt(float((sums.row_norms**2).mean())), scale * theory.epoch_norm(sums)

    def afresh(self) -> Naive:
        """Return the naive oracle with the same epochs, directions and clips."""
        return Naive(**{name: getattr(self, name) for name in Naive.model_fields})

    def factorisation(self, facts: ValueFacts, layout: Layout) -> Factorisation:
        """Return the running sums of all epochs, as one factorisation."""
        return restarted(self.epoch_sums(facts, layout), layout.epochs)

    def epoch_sums(self, facts: ValueFacts, layout: Layout, sums: theory.Sums | None = None) -> Factorisation:
        """Return the running sums of one epoch. sums : a kind in place of this method's, on the same leaves."""
        first, later = self.changes(facts, layout)[:2]
        return theory.factorisation(sums or self.sums, layout.length, float(first / later))

    def _notes(self, facts: ValueFacts, layout: Layout, private: bool) -> tuple[str, ...]:
        notes = [*super()._notes(facts, layout, private)]
        if not facts.exact:
            notes.append(
                "Values may move faster than L times the distance here. Clipping bounds what a row can change, "
                "but changes of the gradient are then underestimated. That adds up over an epoch; with the naive "
                "oracle it does not."
            )
        if not private:  # then there is no noise to compare
            return tuple(notes)
        changes = self.changes(facts, layout)[: layout.length]
        if self.sums in ("published", "tree", "honaker"):
            noise, independent_noise = (
                theory.charged(sums, factors, changes) * float(factors.row_norms.mean())
                for sums in (self.sums, "independent")
                for factors in [theory.factorisation(sums, layout.length)]
            )
            if noise >= independent_noise:
                notes.append("With so few steps per epoch a tree has no less noise than sums of independent noise.")
        if self.sums == "optimal" and layout.length > theory.OPTIMAL_LIVE:
            far = (
                "far from them here: a row of the first step counts most. Give that step more rows, or take fewer steps"
            )
            near = far if changes[0] > changes[1] else "within 3 % of them"
            notes.append(f"The optimal sums are replaced by the normalised square root, which is {near}.")
        return tuple(notes)

    def _priced(self, facts: ValueFacts, budget: Budget, layout: Layout, mu: float) -> dict[str, Any]:
        sums, changes = self.epoch_sums(facts, layout), self.changes(facts, layout)[: layout.length]
        sensitivity = float(sums.sensitivity(changes))
        event = Gaussian(mu * sensitivity / theory.charged(self.sums, sums, changes))
        scale = sensitivity / event.mu
        return {"events": (event,), "noise": {"prefix": np.tile(scale * sums.row_norms, layout.epochs)}}

    def _oracle(
        self, problem: ValueProblem, plan: Plan, layout: Layout, sizes: np.ndarray, mechanisms: Mechanisms
    ) -> Oracle:
        facts = problem.facts
        first, later = self._clips(facts, layout)
        leaves = mechanisms.leaves(sizes.tolist(), facts.n)
        changes = self.changes(facts, layout)
        sums = mechanisms.prefix_sums(plan.events[0], self.factorisation(facts, layout), leaves, changes, (facts.d,))
        directions = self._directions(layout, facts, mechanisms)

        def estimate(t: int, rows: np.ndarray, path: Path) -> np.ndarray:
            leaf, x, of_step = leaves.next(rows), path.point[rows], directions(t, rows)
            if layout.begins(t):
                query = problem.slope(x, leaf, of_step, first)
            else:
                previous = path.previous[rows]
                clips = np.full(len(rows), min(later * float(sizes[t - 1]) / layout.batch, facts.value_range))
                if self.clipping == "lipschitz":
                    clips = np.minimum(clips, facts.lipschitz * np.linalg.norm(x - previous, axis=1))
                query = problem.change(x, previous, leaf, of_step, clips, self.symmetric)
            return sums.add(query)

        return estimate
