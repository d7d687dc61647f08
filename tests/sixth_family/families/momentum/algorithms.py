"""Gradient descent with momentum: the example of CONTRIBUTING.md."""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from dpviz.experiments.algorithm import DIVERGED, Algorithm, Snapshot, divergence_status
from dpviz.experiments.plan import Plan
from dpviz.privacy import calibration
from dpviz.privacy.budgets import Budget, PureDP, require
from dpviz.privacy.mechanisms import Mechanisms, noise_scale
from dpviz.problems.base import SmoothFacts, SmoothProblem, check_facts
from dpviz.specification import number


class MomentumDescent(Algorithm[SmoothProblem, SmoothFacts]):
    """Gradient descent with momentum (Polyak 1964), Laplace noise: x_t = x_{t-1} - α g̃_t + β (x_{t-1} - x_{t-2})."""

    kind: ClassVar[str] = "families.momentum.momentum_descent"
    title: ClassVar[str] = "Momentum"
    iterations: int = number(100, 1, 10_000, label="Steps", symbol="T", scale="log", help="Noisy gradients released.")
    relative_step: float = number(1.0, 0.05, 2.0, label="Step size", symbol="c", unit="1/L", help="Step size times L.")
    momentum: float = number(0.8, 0.0, 0.99, label="Momentum", symbol="β", help="Share of the last step that is kept.")
    batch_fraction: float = number(1.0, 0.001, 1.0, label="Batch", symbol="m/n", scale="log", help="Rows per step.")

    def plan(self, facts: SmoothFacts, budget: Budget) -> Plan:
        remaining = require(budget, PureDP).remaining(facts.released)  # some facts may have been bought
        epsilon = np.full(self.iterations, remaining / self.iterations)
        m = max(1, round(self.batch_fraction * facts.n))
        events = calibration.laplace_events(epsilon, m, facts.n)
        scales = [noise_scale(event, facts.gradient_sensitivity("l1", m)) for event in events]
        return Plan.fixed(
            facts,
            budget,
            events,
            batch_size=np.full(self.iterations, m),
            noise={"gradient": np.array(scales)},  # drawn on the page, and exported
            step_size=np.full(self.iterations, self.relative_step / facts.smoothness),  # read by `run` alone
        )

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        check_facts(problem, plan.facts)
        x = before = problem.facts.starting_point(mechanisms.replicates)
        lost = np.zeros(len(x), dtype=bool)  # the replicates that diverged
        yield Snapshot(0, {"x": x})
        for t, (event, step) in enumerate(zip(plan.events, plan.schedule["step_size"], strict=True), 1):
            batch = mechanisms.batch(event)  # charged here, in full
            noisy = batch.laplace(problem.mean_gradient(x, batch, "l1"))  # Query in, (R, d) out
            after = x - step * (noisy + problem.regulariser_gradient(x)) + self.momentum * (x - before)
            lost |= ~(np.abs(after).max(axis=1) < DIVERGED)
            x, before = np.where(lost[:, None], x, after), x  # frozen where it was, and marked
            yield Snapshot(t, {"x": x}, status=divergence_status(lost))
