"""The plan-time promise of the accelerated methods: kept by the plans themselves, monotone, and honest about limits."""

import math

import numpy as np
import pytest

from dpviz.errors import UserError
from dpviz.experiments.accuracy import ErrorBound, levers, required_budget
from dpviz.families.accelerated import theory
from dpviz.families.accelerated.accuracy import SmoothConvexBound
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP, RenyiDP, ZeroConcentratedDP
from dpviz.specification import registered
from tests.oracles.accelerated import required_scale

METHODS = ["gradient_descent", "nesterov", "multistage_nesterov"]
BUDGETS: list[Budget] = [PureDP(), ApproximateDP(), ZeroConcentratedDP(), GaussianDP()]
COMBINATIONS = [
    (noise, schedule, budget)
    for noise in ("laplace", "gaussian")
    for schedule in ("uniform", "optimal")
    for budget in BUDGETS
    if not (noise == "gaussian" and isinstance(budget, PureDP))
]
IDS = [f"{noise}-{schedule}-{budget.name}" for noise, schedule, budget in COMBINATIONS]


class Unknown(RenyiDP):
    """A currency that the bound has never on_progress of."""

    name = "Unknown"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("noise", "schedule", "budget"), COMBINATIONS, ids=IDS)
def test_the_plan_of_the_method_keeps_the_promise(method: str, noise: str, schedule: str, budget: Budget) -> None:
    """The same number of steps under the same budget has an error bound no larger than what was promised, and with an
    exact formula no smaller; otherwise by what losing track of ρ's third order costs."""
    bound = SmoothConvexBound(method=method, noise=noise, schedule=schedule, iterations=300)
    best = bound.best(budget)
    algorithm = bound.algorithm().replaced(iterations=best.iterations, horizon="fixed")
    plan = algorithm.plan(bound.facts(), budget)
    kept = algorithm.error_bound(plan)
    assert kept is not None and kept[-1] <= best.bound * (1 + 1e-4)
    exact = noise == "gaussian" or isinstance(budget, PureDP)
    assert kept[-1] >= best.bound * (1 - 1e-4 if exact else 0.6)


@pytest.mark.parametrize("method", METHODS)
def test_no_other_number_of_steps_promises_less(method: str) -> None:
    bound = SmoothConvexBound(method=method, iterations=200)
    best = bound.best(PureDP())
    for steps in range(1, 201, 7):
        algorithm = bound.algorithm().replaced(iterations=steps, horizon="fixed")
        kept = algorithm.error_bound(algorithm.plan(bound.facts(), PureDP()))
        assert kept is not None and kept[-1] >= best.bound * (1 - 1e-9)
    assert bound.replaced(iterations=best.iterations).best(PureDP()) == best


@pytest.mark.parametrize(("noise", "schedule", "budget"), COMBINATIONS, ids=IDS)
def test_the_promise_improves_with_budget_rows_and_steps(noise: str, schedule: str, budget: Budget) -> None:
    name = budget.controls()[0].name
    bound = SmoothConvexBound(noise=noise, schedule=schedule)
    amounts = np.geomspace(0.05, 20, 9)
    errors = [bound.best(budget.replaced(**{name: float(amount)})).bound for amount in amounts]
    assert (np.diff(errors) <= 0).all() and errors[-1] > bound.without_privacy()
    for field, values in {"rows": (10_000, 1000, 100), "dimension": (1, 10, 1000), "iterations": (500, 50, 5)}.items():
        errors = [bound.replaced(**{field: value}).best(budget).bound for value in values]
        assert (np.diff(errors) >= 0).all(), field


def test_required_budget_agrees_with_the_closed_form() -> None:
    """`required_scale`: the smallest n ε whose bound reaches a target."""
    bound = SmoothConvexBound()
    recursion = theory.nesterov_recursion(theory.nesterov(1000, 1.0, 0.02), 0.02, 1.0, 1.4)
    scale, steps = required_scale(recursion, 1e-3, 2.0, 10, "optimal", "laplace")
    found = required_budget(bound, 1e-3, PureDP)
    assert isinstance(found.budget, PureDP)
    assert scale / 10_000 <= found.budget.epsilon <= scale / 10_000 * 1.0101
    assert abs(found.best.iterations - steps) <= 1 and found.best.bound <= 1e-3


def test_noise_falls_with_rows_as_with_epsilon() -> None:
    """Only n ε enters under pure ε, so both levers are one; under μ likewise."""
    for budget, noise in ((PureDP(), "laplace"), (GaussianDP(), "gaussian")):
        found = levers(SmoothConvexBound(noise=noise), budget)
        assert found.budget == pytest.approx(found.controls["rows"], rel=1e-3)
        assert 1 < (found.budget or 0) < 2


def test_nothing_is_promised_that_standing_still_does_not_keep() -> None:
    bound = SmoothConvexBound(rows=20, dimension=100_000)
    best = bound.best(PureDP(epsilon=0.01))
    assert (best.bound, best.iterations) == (bound.initial_gap, 0)


def test_without_privacy_only_the_steps_limit() -> None:
    bound = SmoothConvexBound(method="gradient_descent", iterations=100)
    contraction = 1 - 0.02 * (2 - 1)  # step 1/L = 1: 1 - 2 μ α (1 - α L/2)
    assert bound.without_privacy() == pytest.approx(0.7 * contraction**100)
    assert bound.best(NoPrivacy()).iterations == 100
    with pytest.raises(UserError, match=r"Even without privacy .* Allow more steps"):
        required_budget(bound, 0.01, PureDP)
    with pytest.raises(UserError, match="the noise is the limit"):
        required_budget(SmoothConvexBound(rows=20), 1e-6, PureDP)


def test_what_does_not_exist_is_said() -> None:
    with pytest.raises(UserError, match="never gives pure"):
        required_budget(SmoothConvexBound(noise="gaussian"), 0.1, PureDP)
    with pytest.raises(UserError, match="Strong convexity"):
        SmoothConvexBound(strong_convexity=2.0, smoothness=1.0).best(PureDP())


def test_extreme_settings_give_numbers() -> None:
    for cls in METHODS:
        for values in (
            {"rows": 10_000_000, "dimension": 1, "strong_convexity": 1.0},
            {"rows": 20, "smoothness": 1000.0, "strong_convexity": 1e-5, "iterations": 10_000},
            {"iterations": 1},
        ):
            for budget in (PureDP(epsilon=50.0), ApproximateDP(epsilon=0.01, delta=1e-10)):
                best = SmoothConvexBound(method=cls, **values).best(budget)
                assert math.isfinite(best.bound) and 0 <= best.iterations <= 10_000


def test_a_currency_without_a_bound_is_refused() -> None:
    for bound in (SmoothConvexBound(), SmoothConvexBound(noise="gaussian")):
        with pytest.raises(UserError, match="State the guarantee in one of these"):
            bound.best(Unknown())


def test_it_is_among_the_registered_bounds() -> None:
    assert SmoothConvexBound in registered(ErrorBound)
