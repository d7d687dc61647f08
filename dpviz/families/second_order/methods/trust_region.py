"""Line-search variants of OPT; and the baseline of the paper, a private trust-region method (Wang and Xu) that releases
a Hessian in every iteration."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from dpviz.checkpoints import sliced
from dpviz.experiments.plan import Plan
from dpviz.families.second_order import planning, theory
from dpviz.families.second_order.methods.algorithms import (
    BATCH,
    GRADIENT_CHARGED,
    HESSIAN_CHARGED,
    HESSIAN_SHARE,
    ITERATIONS_CHARGED,
    SERIES,
    NonconvexMethod,
    WholeTable,
)
from dpviz.families.second_order.methods.releases import (
    GRADIENT_NOISE,
    NOISY_CURVATURE,
    NOISY_GRADIENT,
    TRUST_REGION,
    Releases,
    Separate,
    State,
    Together,
)
from dpviz.families.second_order.methods.steps import Backtracking, Measured, StepRule
from dpviz.families.second_order.planning import BudgetSplit, Purpose
from dpviz.numbers import short
from dpviz.privacy.accounting.currencies import stated_pure
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import Metric
from dpviz.problems.nonconvex.nonconvex_risk import NonconvexFacts, NonconvexRisk
from dpviz.problems.nonconvex.symmetric import eigenvalue_seconds, trust_region_step
from dpviz.specification import choice, number, switch

SEARCH_CHARGED = Metric("search_charged", "ρ charged for line searches", released=True, better="")


class LineSearch(WholeTable):
    """OPT-LS, and 2OPT-LS in two phases: the longest steps with enough decrease, by the sparse vector technique."""

    kind: ClassVar[str] = "families.second_order.line_search"
    title: ClassVar[str] = "OPT-LS"
    hue: ClassVar[int] = 1
    metrics: ClassVar[tuple[Metric, ...]] = (*SERIES, GRADIENT_NOISE, GRADIENT_CHARGED, HESSIAN_CHARGED, SEARCH_CHARGED)
    search_share: float | None = number(
        None,
        0.05,
        0.9,
        label="Share of the line search",
        symbol="φ_f",
        help="Of what an iteration may spend (in ρ). Empty: as much as for a gradient and a Hessian each, if these "
        "are shared evenly.",
    )
    ladder: theory.Ladder = theory.Ladder()

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if message := self.ladder.refused_with(self.constants):
            raise ValueError(message)
        return self

    def search(self, facts: NonconvexFacts) -> theory.Search:
        """Return the steps of the line search and their guaranteed decreases."""
        return theory.Search(self.analysis(facts), self.ladder)

    def decreases(self, facts: NonconvexFacts) -> tuple[float, float]:
        search = self.search(facts)
        return search.gradient_decrease, search.curvature_decrease

    def searching(self, asks: bool) -> float:
        """Return φ_f, the share of the line search in the budget of an iteration. asks : True if Hessians are
        released."""
        return 1 / (2 + asks) if self.search_share is None else self.search_share

    def plan(self, facts: NonconvexFacts, budget: Budget) -> Plan:
        budget_split = BudgetSplit.mixed(budget, facts)
        asks = self.asks(facts)
        weights: dict[Purpose, float] = {"gradient": 2 * (1 - self.hessian_share) if asks else 1.0, "search": 1.0}
        if asks:
            weights["hessian"] = 2 * self.hessian_share
        if self.search_share is not None:
            weights["search"] = (1 + asks) * self.search_share / (1 - self.search_share)
        lengths, shares = self.lengths(facts), self.shares(facts)
        phases = planning.split_into_phases(budget_split, lengths, shares, weights, self.carry_over)
        epsilons = [stated_pure(budget_split.currency, phase.costs["search"]).eps for phase in phases]
        blindness = self.search(facts).blindness(epsilons[0], facts.gradient_sensitivity / facts.n)
        notes = self._notes(facts)
        if blindness > 1:
            notes += (
                (
                    f"Where the gradient is nearly small, the noise of the line search is {short(blindness)} times "
                    "what it tests: it accepts steps that are too long. More rows, more budget or fewer iterations "
                    "make it see."
                ),
            )
        resolved = {**self._resolved(facts), "search_blindness": blindness}
        schedule = {"search_epsilon": planning.in_each(phases, epsilons)}
        return planning.filtered(budget_split, phases, facts, budget, resolved, notes, **schedule)

    def searching_noise(self, plan: Plan) -> theory.Searching:
        """Return the noise of the line searches of a plan, in the phase that has most of it."""
        facts = NonconvexFacts.of(plan.facts)
        epsilon = float(plan.schedule["search_epsilon"].min())
        search, asks = self.search(facts), self.asks(facts)
        steps = max(len(search.gradient_steps), len(search.curvature_steps) * asks)
        return theory.Searching(epsilon, facts.gradient_sensitivity / facts.n, steps, search.admissible_noise(asks))

    def _step_rule(self, problem: NonconvexRisk, releases: Releases) -> StepRule:
        assert isinstance(releases, Separate)
        return Backtracking(self.search(problem.facts), problem, releases)


class TrustRegion(NonconvexMethod):
    """DP-TR: every step minimises the noisy quadratic model of f within a radius r, x ← x + h.

    It stops where the model is convex enough that the radius hardly matters: multiplier λ ≤ √(Mα_TR). Its one tolerance
    is α_TR = min(α, ε_H²/M), without which a strict saddle point may be a stop; r = √(α_TR/M).
    """

    kind: ClassVar[str] = "families.second_order.trust_region"
    title: ClassVar[str] = "DP-TR"
    payment: ClassVar[type[Separate | Together]] = Together
    hue: ClassVar[int] = 3
    metrics: ClassVar[tuple[Metric, ...]] = (*SERIES, ITERATIONS_CHARGED)
    hessian_share: float = HESSIAN_SHARE
    test_before: bool = switch(
        True,
        label="Test before the step",
        help="Stop where noisy gradient and curvature meet the targets, as OPT does; and not only after a step, by a "
        "rule of the trust region that certifies the curvature up to a factor 13/6.",
    )
    trust_radius: Literal["derived", "published"] = choice(
        "derived",
        label="Trust radius",
        help="The number of iterations follows from √(α_TR/M). The published program takes α_TR/M, steps several "
        "times too short; and its test before the step leaves nothing of the targets to noise.",
        options={"derived": "√(α_TR/M)", "published": "α_TR/M, as published"},
    )

    def analysis(self, facts: NonconvexFacts) -> theory.Analysis:
        return replace(super().analysis(facts), bare=self.trust_radius == "published")

    def target(self, facts: NonconvexFacts) -> float:
        """Return α_TR."""
        return theory.trust_region_target(self.analysis(facts))

    def plan(self, facts: NonconvexFacts, budget: Budget) -> Plan:
        target = self.target(facts)
        by_theory = theory.trust_region_iterations(facts.gap, target, facts.hessian_lipschitz)
        iterations, radius = min(by_theory, self.iterations), target / facts.hessian_lipschitz
        resolved = {
            "iterations": iterations,
            "iterations_by_theory": by_theory,
            "target": target,
            "radius": math.sqrt(radius) if self.trust_radius == "derived" else radius,
        }
        weights, notes = np.ones(iterations), planning.cut_short(by_theory, iterations)
        return planning.fixed(self._batch(), weights, self.hessian_share, facts, budget, resolved, notes)

    def _batch(self) -> float:
        """Return m/n."""
        return 1.0

    def _iteration(self, problem: NonconvexRisk, plan: Plan, releases: Releases) -> Callable[[State, np.ndarray], None]:
        analysis, radius = self.analysis(problem.facts), plan.resolved["radius"]
        measured = Measured(problem, releases, self.hessian_noise, at_state=False)
        stopping_multiplier = math.sqrt(problem.facts.hessian_lipschitz * plan.resolved["target"])

        def solve(matrices: np.ndarray, gradients: np.ndarray) -> np.ndarray:
            """Return (R, 2 + d): the smallest eigenvalue, the multiplier, and the step."""
            values, vectors = np.linalg.eigh(matrices)
            steps, multipliers = trust_region_step(values, vectors, gradients, radius)
            return np.column_stack([values[:, 0], multipliers, steps])

        def move(state: State, rows: np.ndarray) -> None:
            rows, gradients = measured.gradient(state, rows)
            rows, is_released, matrices = measured.hessian(state, rows)
            solution = sliced(solve, 3 * eigenvalue_seconds(problem.facts.d), matrices, gradients[is_released])
            state.released[NOISY_CURVATURE.name][rows] = solution[:, 0]
            if self.test_before:
                is_short = state.released[NOISY_GRADIENT.name][rows] <= analysis.gradient_tolerance
                meets_targets = is_short & (solution[:, 0] >= -analysis.curvature_tolerance)
                state.stop(rows[meets_targets])
                rows, solution = rows[~meets_targets], solution[~meets_targets]
            state.move(rows, solution[:, 2:], TRUST_REGION)
            meets_rule = (solution[:, 1] <= stopping_multiplier) & (state.status[rows] == "running")
            state.stop(rows[meets_rule])

        return move


class MiniBatchTrustRegion(TrustRegion):
    """DP-TR-B: DP-TR on a batch of rows, drawn afresh for every iteration."""

    kind: ClassVar[str] = "families.second_order.mini_batch_trust_region"
    title: ClassVar[str] = "DP-TR-B"
    dash: ClassVar[int] = 1
    batch_fraction: float = BATCH

    def _batch(self) -> float:
        return self.batch_fraction
