"""What first order can do at a saddle point: step aside, and see whether gradients grow."""

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from dpviz.experiments.plan import Plan
from dpviz.families.second_order import planning, theory
from dpviz.families.second_order.methods.algorithms import GRADIENT_CHARGED, NonconvexMethod
from dpviz.families.second_order.methods.releases import Releases, Separate, Together
from dpviz.families.second_order.methods.states import GRADIENT, KIND, NOISY_GRADIENT, PERTURBATION, State
from dpviz.families.second_order.methods.steps import Measured
from dpviz.families.second_order.planning import BudgetSplit
from dpviz.families.second_order.theory import CONTROLS
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import Metric
from dpviz.problems.nonconvex.nonconvex_risk import NonconvexFacts, NonconvexRisk
from dpviz.specification import number

UNLUCKY = 10.0  # times closer to the ridge than on average: so unlucky is 1 perturbation in 12


class PerturbedDescent(NonconvexMethod):
    """DP-GD with perturbations (after Jin, Ge, Netrapalli, Kakade, Jordan 2017): x ← x - g̃/G; where g̃ is short, one
    step aside, uniform in a ball.

    Along a curvature below -ε_H what is aside grows by 1 + ε_H/G per step. Where gradients are short for as many steps
    as that takes to make them long, it stops: there is no such curvature, unless luck or noise hid it. No Hessian is
    released, and nothing is certified.
    """

    kind: ClassVar[str] = "families.second_order.perturbed_descent"
    title: ClassVar[str] = "DP-GD, perturbed"
    payment: ClassVar[type[Separate | Together]] = Separate
    hue: ClassVar[int] = 1
    dash: ClassVar[int] = 3
    metrics: ClassVar[tuple[Metric, ...]] = (NOISY_GRADIENT, KIND, GRADIENT_CHARGED)
    radius: float = number(0.25, 0.01, 1.0, **CONTROLS["radius"])

    def patience(self, facts: NonconvexFacts) -> int:
        """Short gradients in a row after which it stops: with UNLUCKY a perturbation, a curvature of -ε_H has made them
        as long as ε_g by then."""
        grows = self.analysis(facts).curvature_tolerance / facts.smoothness
        return max(1, math.ceil(math.log(UNLUCKY * math.sqrt(facts.d) / (self.radius * grows)) / math.log1p(grows)))

    def plan(self, facts: NonconvexFacts, budget: Budget) -> Plan:
        purse, patience = BudgetSplit.gaussian(budget, facts), self.patience(facts)
        decrease = self.analysis(facts).gradient_decrease
        by_theory = (1 + patience) * theory.iterations(facts.gap, decrease)
        lengths = (min(by_theory, self.iterations),)
        resolved = {
            "iterations": lengths[0],
            "iterations_by_theory": by_theory,
            "gradient_decrease": decrease,
            "patience": patience,
        }
        stretches = planning.phases(purse, lengths, np.ones(1), {"gradient": 1.0}, False)
        notes = planning.cut_short(by_theory, lengths[0])
        return planning.filtered(purse, stretches, facts, budget, resolved, notes)

    def _iteration(self, problem: NonconvexRisk, plan: Plan, releases: Releases) -> Callable[[State, np.ndarray], None]:
        facts, analysis = problem.facts, self.analysis(problem.facts)
        patience, radius = int(plan.resolved["patience"]), self.radius * analysis.gradient_tolerance / facts.smoothness
        measured = Measured(problem, releases, self.hessian_noise, at_state=False)
        assert isinstance(releases, Separate)
        waited: dict[int, int] = {}  # short gradients since a replicate stepped aside

        def moved(state: State, rows: np.ndarray) -> None:
            rows, gradients = measured.gradient(state, rows)
            long = state.shown[NOISY_GRADIENT.name][rows] > analysis.gradient_tolerance
            for r in rows[long]:
                waited.pop(r, None)
            for r in rows[~long]:
                waited[r] = waited.get(r, -1) + 1
            since = np.array([waited.get(r, -1) for r in rows])
            done, aside = since >= patience, since == 0
            step = ~done & ~aside
            state.stop(rows[done])
            state.move(rows[step], -gradients[step] / facts.smoothness, GRADIENT)
            state.move(rows[aside], in_ball(releases, facts.d, rows[aside], radius), PERTURBATION)

        return moved


def in_ball(releases: Separate, d: int, rows: np.ndarray, radius: float) -> np.ndarray:
    """(R', d) points that are uniform in a ball, whatever the data: of d + 2 normal numbers, scaled to norm 1, the
    first d are."""
    drawn = releases.directions(d + 2, rows)
    return np.asarray(radius * drawn[:, :d] / np.linalg.norm(drawn, axis=1, keepdims=True))
