"""The baseline of the paper: a private trust-region method (Wang and Xu), which asks for every Hessian."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np

from dpviz.checkpoints import sliced
from dpviz.experiments.plan import Plan
from dpviz.families.second_order import planning, theory
from dpviz.families.second_order.methods.algorithms import (
    BATCH,
    HESSIAN_SHARE,
    ITERATIONS_CHARGED,
    SERIES,
    NonconvexMethod,
)
from dpviz.families.second_order.methods.releases import Releases, Separate, Together
from dpviz.families.second_order.methods.states import NOISY_CURVATURE, NOISY_GRADIENT, TRUST_REGION, State
from dpviz.families.second_order.methods.steps import Measured
from dpviz.families.second_order.theory import CONTROLS
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import Metric
from dpviz.problems.nonconvex.nonconvex_risk import NonconvexFacts, NonconvexRisk
from dpviz.problems.nonconvex.symmetric import eigenvalue_seconds, trust_region_step
from dpviz.specification import choice, switch


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
    test_before: bool = switch(True, **CONTROLS["test_before"])
    trust_radius: Literal["derived", "published"] = choice("derived", **CONTROLS["trust_radius"])

    def analysis(self, facts: NonconvexFacts) -> theory.Analysis:
        return replace(super().analysis(facts), bare=self.trust_radius == "published")

    def target(self, facts: NonconvexFacts) -> float:
        """α_TR."""
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
        """m/n."""
        return 1.0

    def _iteration(self, problem: NonconvexRisk, plan: Plan, releases: Releases) -> Callable[[State, np.ndarray], None]:
        analysis, radius = self.analysis(problem.facts), plan.resolved["radius"]
        measured = Measured(problem, releases, self.hessian_noise, at_state=False)
        least_multiplier = math.sqrt(problem.facts.hessian_lipschitz * plan.resolved["target"])

        def solved(matrices: np.ndarray, gradients: np.ndarray) -> np.ndarray:
            """(R, 2 + d): the smallest eigenvalue, the multiplier, and the step."""
            values, vectors = np.linalg.eigh(matrices)
            steps, multipliers = trust_region_step(values, vectors, gradients, radius)
            return np.column_stack([values[:, 0], multipliers, steps])

        def moved(state: State, rows: np.ndarray) -> None:
            rows, gradients = measured.gradient(state, rows)
            rows, able, matrices = measured.hessian(state, rows)
            found = sliced(solved, 3 * eigenvalue_seconds(problem.facts.d), matrices, gradients[able])
            state.shown[NOISY_CURVATURE.name][rows] = found[:, 0]
            if self.test_before:
                short_enough = state.shown[NOISY_GRADIENT.name][rows] <= analysis.gradient_tolerance
                met = short_enough & (found[:, 0] >= -analysis.curvature_tolerance)
                state.stop(rows[met])
                rows, found = rows[~met], found[~met]
            state.move(rows, found[:, 2:], TRUST_REGION)
            arrived = (found[:, 1] <= least_multiplier) & (state.status[rows] == "running")
            state.stop(rows[arrived])

        return moved


class MiniBatchTrustRegion(TrustRegion):
    """DP-TR-B: the same on a batch of rows, drawn afresh for every iteration."""

    kind: ClassVar[str] = "families.second_order.mini_batch_trust_region"
    title: ClassVar[str] = "DP-TR-B"
    dash: ClassVar[int] = 1
    batch_fraction: float = BATCH

    def _batch(self) -> float:
        return self.batch_fraction
