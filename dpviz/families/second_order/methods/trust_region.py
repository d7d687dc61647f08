"""Line-search variants of OPT; and the baseline of the paper, a private trust-region method (Wang and Xu) that releases
a Hessian in every iteration."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from dpviz.checkpoints import compute_in_slices
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
    BatchReleases,
    Releases,
    SeparateReleases,
    State,
)
from dpviz.families.second_order.methods.steps import Backtracking, NoisyDerivatives, StepRule
from dpviz.families.second_order.planning import Purpose, RunBudget
from dpviz.numbers import short
from dpviz.privacy.accounting.currencies import stated_pure
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import Metric
from dpviz.problems.nonconvex.nonconvex_risk import NonconvexFacts, NonconvexRisk
from dpviz.problems.nonconvex.symmetric import eigenvalue_seconds, trust_region_step
from dpviz.specification import choice, number, switch

SEARCH_CHARGED = Metric("search_charged", "ρ of a row, charged for line searches", released=True, better="")


class LineSearch(WholeTable):
    """OPT-LS, called 2OPT-LS in two phases: descent whose steps are the longest ones that decrease f enough, found by a
    private line search with the sparse vector technique.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.RobustComponent(), dpviz.LineSearch(iterations=4), rho=0.1).run()
    <Trace of OPT-LS: 20 runs, 2 iterations>
    """

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
        message = self.ladder.conflict_with(self.constants)
        if message:
            raise ValueError(message)
        return self

    def search(self, facts: NonconvexFacts) -> theory.Search:
        """Return the step sizes that the line search tries on a problem with these facts, and the decreases that they
        guarantee."""
        return theory.Search(self.analysis(facts), self.ladder)

    def decreases(self, facts: NonconvexFacts) -> tuple[float, float]:
        """Return the guaranteed decreases of f in a gradient step and in a curvature step of the line search."""
        search = self.search(facts)
        return search.gradient_decrease, search.curvature_decrease

    def plan(self, facts: NonconvexFacts, budget: Budget) -> Plan:
        """Return the plan for a problem with these facts, in which every gradient, Hessian and line search is paid for
        by itself."""
        run_budget = RunBudget.mixed(budget, facts)
        with_hessian = self.releases_hessians(facts)
        # Parts of an iteration's budget by purpose, up to a common factor.
        weights: dict[Purpose, float] = {"gradient": 1.0, "search": 1.0}
        if with_hessian:
            weights |= {"gradient": 2 * (1 - self.hessian_share), "hessian": 2 * self.hessian_share}
        if self.search_share is not None:  # of the whole: the other weights sum to 2 with Hessians, else to 1
            weights["search"] = (2 if with_hessian else 1) * self.search_share / (1 - self.search_share)
        lengths, shares = self.phase_lengths(facts), self.phase_shares(facts)
        phases = planning.split_into_phases(run_budget, lengths, shares, weights, self.carry_over)
        # The ε of a search in each phase, if nothing is carried over. Blindness is that of the first, where runs begin.
        epsilons = [stated_pure(run_budget.currency, phase.costs["search"]).eps for phase in phases]
        blindness = self.search(facts).blindness(epsilons[0], gradient_sensitivity=facts.gradient_sensitivity / facts.n)
        notes = self._notes(facts, budget)
        if blindness > 1:
            note = (
                f"Where the gradient is nearly small, the noise of the line search is {short(blindness)} times what it "
                "tests: it accepts steps that are too long. More rows, more budget or fewer iterations make it see."
            )
            notes = (*notes, note)
        resolved = {**self._resolved(facts), "search_blindness": blindness}
        schedule = {"search_epsilon": planning.in_each(phases, epsilons)}
        return planning.filtered_plan(run_budget, phases, facts, budget, resolved, notes, **schedule)

    def search_noise(self, plan: Plan) -> theory.SearchNoise:
        """Return the noise of the line searches of a plan, in the phase that has the most of it."""
        facts = NonconvexFacts.of(plan.facts)
        epsilon = float(plan.schedule["search_epsilon"].min())
        search, with_hessian = self.search(facts), self.releases_hessians(facts)
        candidates = max(len(search.gradient_steps), len(search.curvature_steps) if with_hessian else 0)
        return theory.SearchNoise(
            epsilon,
            sensitivity=facts.gradient_sensitivity / facts.n,  # of a change of f, per unit of length of the step
            candidates=candidates,
            allowed_error=search.admissible_noise(with_hessian),
        )

    def _step_rule(self, problem: NonconvexRisk, releases: Releases) -> StepRule:
        assert isinstance(releases, SeparateReleases)
        return Backtracking(self.search(problem.facts), problem, releases)


class TrustRegion(NonconvexMethod):
    """DP-TR: every step x ← x + h minimises the quadratic model of f from its noisy gradient and Hessian at x, over
    steps h of length at most r.

    The multiplier λ ≥ 0 of that constraint says how much the radius matters: (H̃ + λI) h = -g̃ with the noisy Hessian
    H̃ and gradient g̃. A run stops after a step where it hardly does, λ ≤ √(M α_TR). The method has one tolerance, α_TR
    = min(α, ε_H²/M) for the targets α and ε_H; with α itself a strict saddle point might be a stop. r = √(α_TR/M).

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.RobustComponent(), dpviz.TrustRegion(iterations=4), rho=0.1).run()
    <Trace of DP-TR: 20 runs, 4 iterations>
    """

    kind: ClassVar[str] = "families.second_order.trust_region"
    title: ClassVar[str] = "DP-TR"
    payment: ClassVar[type[SeparateReleases | BatchReleases]] = BatchReleases
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
        """Return the tolerances of the test before the step.

        Those of the published program, which the setting `trust_radius` stands for, leave nothing of the targets to
        noise.
        """
        return replace(super().analysis(facts), bare=self.trust_radius == "published")

    def plan(self, facts: NonconvexFacts, budget: Budget) -> Plan:
        """Return the plan for a problem with these facts: a gradient and a Hessian in every iteration, paid for
        together."""
        target = theory.trust_region_target(self.analysis(facts))  # α_TR
        by_theory = theory.trust_region_iterations(facts.gap, target, facts.hessian_lipschitz)
        iterations = min(by_theory, self.iterations)
        published_radius = target / facts.hessian_lipschitz
        resolved = {
            "iterations": iterations,
            "iterations_by_theory": by_theory,
            "target": target,
            "radius": math.sqrt(published_radius) if self.trust_radius == "derived" else published_radius,
        }
        weights, notes = np.ones(iterations), planning.limit_note(by_theory, iterations, budget)
        return planning.fixed_plan(
            self._batch_fraction(),
            weights,
            hessian_share=self.hessian_share,
            facts=facts,
            budget=budget,
            resolved=resolved,
            notes=notes,
        )

    def _batch_fraction(self) -> float:
        """Return m/n, the share of the rows that every iteration reads."""
        return 1.0

    def _iteration(self, problem: NonconvexRisk, plan: Plan, releases: Releases) -> Callable[[State, np.ndarray], None]:
        analysis, radius = self.analysis(problem.facts), plan.resolved["radius"]
        derivatives = NoisyDerivatives(problem, releases, self.hessian_noise, at_state=False)
        stopping_multiplier = math.sqrt(problem.facts.hessian_lipschitz * plan.resolved["target"])

        def solve(matrices: np.ndarray, gradients: np.ndarray) -> np.ndarray:
            """Return (R', 2 + d) for noisy Hessians and gradients: the smallest eigenvalue, the multiplier, and the
            step."""
            values, vectors = np.linalg.eigh(matrices)
            steps, multipliers = trust_region_step(values, vectors, gradients, radius)
            return np.column_stack([values[:, 0], multipliers, steps])

        def move(state: State, replicates: np.ndarray) -> None:
            """Move these replicates (R',) by one iteration, and stop those that meet a stopping rule."""
            replicates, gradients = derivatives.gradient(state, replicates)
            replicates, goes_on, matrices = derivatives.hessian(state, replicates)  # goes_on: which of the old ones
            seconds = 3 * eigenvalue_seconds(problem.facts.d)  # with eigenvectors twice as long, and the step
            solution = compute_in_slices(solve, seconds, matrices, gradients[goes_on])
            eigenvalues, multipliers, steps = solution[:, 0], solution[:, 1], solution[:, 2:]
            state.released[NOISY_CURVATURE.name][replicates] = eigenvalues
            if self.test_before:
                is_short = state.released[NOISY_GRADIENT.name][replicates] <= analysis.gradient_tolerance
                meets_targets = is_short & (eigenvalues >= -analysis.curvature_tolerance)
                state.stop(replicates[meets_targets])
                replicates, multipliers, steps = (part[~meets_targets] for part in (replicates, multipliers, steps))
            state.move(replicates, steps, TRUST_REGION)
            has_moved = state.status[replicates] == "running"  # else it was ended: the step would have diverged
            meets_rule = (multipliers <= stopping_multiplier) & has_moved
            state.stop(replicates[meets_rule])

        return move


class MiniBatchTrustRegion(TrustRegion):
    """DP-TR-B: DP-TR on a batch of rows, drawn afresh for every iteration."""

    kind: ClassVar[str] = "families.second_order.mini_batch_trust_region"
    title: ClassVar[str] = "DP-TR-B"
    dash: ClassVar[int] = 1
    batch_fraction: float = BATCH

    def _batch_fraction(self) -> float:
        return self.batch_fraction
