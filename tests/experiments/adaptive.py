"""A method that decides while it runs, for tests of what plans, runs and shows it: nothing elsewhere knows its name."""

import math
from collections.abc import Iterator

import numpy as np

from dpviz.experiments.algorithm import Algorithm, Snapshot, Status
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.plan import Plan
from dpviz.privacy.budgets import Budget, ZeroConcentratedDP
from dpviz.privacy.events import Gaussian
from dpviz.privacy.ledger import Filter
from dpviz.privacy.mechanisms import Mechanisms, noise_scale
from dpviz.problems.base import Metric, SmoothFacts, SmoothProblem
from dpviz.problems.linear.quadratic import Quadratic

ROUNDS, RHO = 40, 0.02


class Careful(Algorithm[SmoothProblem, SmoothFacts]):
    """Looks at a cheap noisy gradient in every round, and at an expensive one after it where the cheap one was small.

    A replicate ends when its iterate, which is released, is close to 0, or when it cannot pay for another look.
    """

    title = "Careful"
    metrics = (Metric("looks", "Dear looks so far", released=True),)

    def plan(self, facts: SmoothFacts, budget: Budget) -> Plan:
        assert isinstance(budget, ZeroConcentratedDP)
        cheap, expensive = (Gaussian(math.sqrt(2 * budget.rho * share)) for share in (1 / 20, 1 / 8))
        sensitivity = facts.gradient_sensitivity("l2", facts.n)
        rounds = np.arange(ROUNDS + 1)
        return Plan.filtered(
            facts,
            budget,
            Filter("rho", budget.rho, {"cheap": cheap, "expensive": expensive}),
            ROUNDS,
            worst_case=np.minimum(budget.rho, rounds * budget.rho * (1 / 20 + 1 / 8)),
            batch_size=np.full(ROUNDS, facts.n),
            noise={
                name: np.full(ROUNDS, noise_scale(e, sensitivity))
                for name, e in (("cheap", cheap), ("expensive", expensive))
            },
            record_at=np.array([7, 33]),
        )

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        assert isinstance(plan.terms, Filter)
        cheap, expensive = plan.terms.allowed["cheap"], plan.terms.allowed["expensive"]
        x = problem.facts.starting_point(mechanisms.replicates)
        looks, close = np.zeros(len(x)), np.zeros(len(x), dtype=bool)
        active = np.ones(len(x), dtype=bool)
        yield Snapshot(0, {"x": x}, {"looks": looks}, active=active, status=("running",) * len(x))  # type: ignore[arg-type]
        for t in range(1, plan.iterations + 1):
            rows = np.flatnonzero(active)
            batch = mechanisms.batch(cheap, rows)
            noisy = batch.gaussian(problem.mean_gradient(x[rows], batch, "l2")) + problem.regulariser_gradient(x[rows])
            small = np.zeros(len(x), dtype=bool)
            small[rows] = np.linalg.norm(noisy, axis=1) < 0.4
            again = np.flatnonzero(small & mechanisms.affordable(expensive))
            x = x.copy()
            x[rows] -= 0.3 * noisy
            if len(again):
                batch = mechanisms.batch(expensive, again)
                noisy = batch.gaussian(problem.mean_gradient(x[again], batch, "l2"))
                x[again] -= 0.3 * (noisy + problem.regulariser_gradient(x[again]))
            looks = looks + np.isin(np.arange(len(x)), again)
            close |= active & (np.linalg.norm(x, axis=1) < 0.2)
            active = active & ~close & mechanisms.affordable(cheap) & (t < plan.iterations)
            yield Snapshot(t, {"x": x}, {"looks": looks}, active=active, status=_words(active, close))
            if not active.any():
                return


def _words(active: np.ndarray, close: np.ndarray) -> tuple[Status, ...]:
    pairs = zip(active.tolist(), close.tolist(), strict=True)
    return tuple("running" if on else "converged" if near else "budget" for on, near in pairs)


def careful(replicates: int = 8) -> Experiment:
    """The method beside itself with a quarter of the budget, on a small quadratic."""
    arms = (
        Arm(label="A", algorithm=Careful()),
        Arm(label="B", algorithm=Careful(), budget=ZeroConcentratedDP(rho=RHO / 4)),
    )
    problem = Quadratic(rows=1500, dimension=2, strong_convexity=0.5)
    return Experiment(problem=problem, arms=arms, budget=ZeroConcentratedDP(rho=RHO), replicates=replicates)
