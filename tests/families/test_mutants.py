"""Algorithms that are wrong on purpose: the suite over the registry must see each of them."""

from collections.abc import Callable, Iterator
from typing import ClassVar, Literal

import numpy as np
import pytest

from dpviz.experiments.algorithm import Algorithm, Snapshot
from dpviz.experiments.plan import Plan
from dpviz.privacy import calibration
from dpviz.privacy.budgets import Budget, PureDP
from dpviz.privacy.mechanisms import Mechanisms, noise_scale
from dpviz.problems.base import SmoothFacts, SmoothProblem
from dpviz.specification import number
from tests.families import test_every_algorithm as suite

Mistake = Literal["none", "no noise", "unpaid value", "sensitivity", "raw stop", "raw status"]


class Descent(Algorithm[SmoothProblem, SmoothFacts]):
    """Gradient descent with Laplace noise under pure epsilon, and one mistake."""

    title = "Descent"
    mistake: ClassVar[Mistake] = "none"
    iterations: int = number(6, 1, 1000, label="Steps", help="Noisy gradients released.")

    def plan(self, facts: SmoothFacts, budget: Budget) -> Plan:
        if not isinstance(budget, PureDP):
            raise calibration.UserError("This method exists for pure epsilon only; state the budget so.")
        each = np.full(self.iterations, budget.left(facts.released) / self.iterations)
        events = calibration.laplace_events(each, facts.n, facts.n)
        scales = [noise_scale(event, facts.gradient_sensitivity("l1", facts.n)) for event in events]
        return Plan.fixed(
            facts,
            budget,
            events,
            step_size=np.full(self.iterations, 1 / facts.smoothness),
            batch_size=np.full(self.iterations, float(facts.n)),
            noise={"gradient": np.array(scales)},
        )

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        x = problem.facts.starting_point(mechanisms.replicates)
        active, status = np.ones(len(x), dtype=bool), ("running",) * len(x)
        yield Snapshot(0, {"x": x}, active=active, status=status)
        for t, (event, step) in enumerate(zip(plan.events, plan.schedule["step_size"], strict=True), 1):
            batch = mechanisms.batch(event)
            query = problem.mean_gradient(x, batch, "l1")
            if self.mistake == "sensitivity":
                query = query._replace(sensitivity=np.asarray(query.sensitivity) / 100)
            noisy = query.value if self.mistake == "no noise" else batch.laplace(query)
            if self.mistake == "unpaid value":
                noisy = noisy + 0.1 * query.value.std(axis=1, keepdims=True)
            x = x - step * (noisy + problem.regulariser_gradient(x))
            steep = np.abs(query.value).sum(axis=1) > 1e-3
            if self.mistake == "raw stop":
                active = steep
            if self.mistake == "raw status":
                status = tuple("running" if on else "converged" for on in steep)
            yield Snapshot(t, {"x": x}, active=active, status=status)


def with_mistake(mistake: Mistake) -> type[Descent]:
    return type("Mutant", (Descent,), {"mistake": mistake, "__module__": __name__})


Check = Callable[[type[Algorithm], pytest.MonkeyPatch], None]
CHECKS: tuple[Check, ...] = (
    suite.test_the_noise_drawn_is_the_noise_shown,
    suite.test_everything_in_a_snapshot_is_a_function_of_the_releases,
    suite.test_no_query_moves_by_more_than_its_sensitivity,
)


def failing(cls: type[Algorithm]) -> list[str]:
    """The checks that a class does not pass."""
    found = []
    for check in CHECKS:
        with pytest.MonkeyPatch.context() as patch:
            try:
                check(cls, patch)
            except AssertionError:
                found.append(check.__name__)
    return found


def test_the_method_without_a_mistake_passes() -> None:
    assert failing(with_mistake("none")) == []


@pytest.mark.parametrize(
    ("mistake", "check"),
    [
        ("no noise", "test_the_noise_drawn_is_the_noise_shown"),
        ("no noise", "test_everything_in_a_snapshot_is_a_function_of_the_releases"),
        ("unpaid value", "test_everything_in_a_snapshot_is_a_function_of_the_releases"),
        ("sensitivity", "test_no_query_moves_by_more_than_its_sensitivity"),
        ("raw stop", "test_everything_in_a_snapshot_is_a_function_of_the_releases"),
        ("raw status", "test_everything_in_a_snapshot_is_a_function_of_the_releases"),
    ],
)
def test_a_mutant_is_caught(mistake: Mistake, check: str) -> None:
    assert check in failing(with_mistake(mistake))
