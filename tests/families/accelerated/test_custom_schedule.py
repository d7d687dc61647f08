"""A noise schedule of one's own: any shape keeps the budget, and its error is told without a run."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpviz.errors import UserError
from dpviz.families.accelerated import GradientDescent, HeavyBall, MultistageNesterov, Nesterov, theory
from dpviz.families.accelerated.algorithms import GradientMethod
from dpviz.families.accelerated.comparison import compare
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from tests.strategies import steady

BENCH, LOGISTIC = Quadratic(strong_convexity=0.1, dimension=4).facts(), LogisticRegression().facts()
BUDGETS: tuple[tuple[Budget, tuple[str, ...]], ...] = (
    (PureDP(epsilon=2.0), ("laplace",)),
    (ApproximateDP(epsilon=2.0, delta=1e-6), ("laplace", "gaussian")),
    (ZeroConcentratedDP(rho=0.1), ("laplace", "gaussian")),
    (GaussianDP(mu=0.5), ("laplace", "gaussian")),
)
EACH = [(budget, noise) for budget, noises in BUDGETS for noise in noises]
some_knots = st.lists(st.floats(-theory.LIMIT, theory.LIMIT), min_size=6, max_size=6).map(tuple)


@steady
@given(some_knots, st.sampled_from(EACH), st.sampled_from([1, 5, 40]))
def test_whatever_is_drawn_keeps_the_budget_and_its_shape(
    knots: theory.Knots, settings: tuple[Budget, str], iterations: int
) -> None:
    budget, noise = settings
    plan = Nesterov(iterations=iterations, noise=noise, schedule="own", knots=knots).plan(LOGISTIC, budget)
    spent = budget.cost(plan.events)
    assert 0.97 * budget.left(()) <= spent <= budget.left(()) * (1 + 1e-9)
    asked = theory.log_scales(knots, iterations)
    got = np.log10(plan.noise["gradient"])
    # Where the accountant is expensive, long schedules are rounded to few levels.
    allowed = 1e-9 if iterations < 40 or budget.pure else 0.3
    assert np.abs((got - got[0]) - (asked - asked[0])).max() <= allowed


@pytest.mark.parametrize(("budget", "noise"), EACH)
@pytest.mark.parametrize("height", [0.0, -1.3, 1.6])
def test_equal_numbers_are_the_even_schedule(budget: Budget, noise: str, height: float) -> None:
    method = GradientDescent(noise=noise, schedule="own", knots=(height,) * 6)
    assert method.plan(BENCH, budget).events == method.replaced(schedule="uniform").plan(BENCH, budget).events


def test_the_numbers_are_powers_of_ten_of_the_noise_with_straight_lines_between() -> None:
    method = HeavyBall(iterations=11, schedule="own", knots=(1.0, 0.0, 0.5, 0.5, 0.0, -1.0))
    noise = method.plan(BENCH, PureDP(epsilon=1.0)).noise["gradient"]
    expected = 10.0 ** np.array([1, 0.5, 0, 0.25, 0.5, 0.5, 0.5, 0.25, 0, -0.5, -1])
    assert noise / noise[2] == pytest.approx(expected)


@pytest.mark.parametrize("facts", [BENCH, LOGISTIC], ids=["quadratic", "logistic"])
@pytest.mark.parametrize(("budget", "noise"), [EACH[0], EACH[2], EACH[4], EACH[6]])
@pytest.mark.parametrize("cls", [GradientDescent, Nesterov, MultistageNesterov])
def test_no_shape_beats_the_optimal_one(cls: type[GradientMethod], budget: Budget, noise: str, facts: object) -> None:
    for knots in theory.SHAPES.values():
        method = cls(iterations=30, noise=noise, schedule="own", knots=knots)
        found = compare(method, method.plan(facts, budget))  # type: ignore[arg-type]
        assert found is not None and found.proven and found.exact == (facts is BENCH)
        assert found.optimal <= min(found.yours, found.even) * (1 + 1e-9)
        if knots == theory.EVEN:
            assert found.yours == pytest.approx(found.even, rel=1e-12)


def test_on_batches_the_optimum_is_proven_for_pure_epsilon_only() -> None:
    method = Nesterov(iterations=30, schedule="own", batch_fraction=0.1)
    for budget, proven in ((PureDP(epsilon=2.0), True), (ApproximateDP(epsilon=2.0), False)):
        found = compare(method, method.plan(BENCH, budget))
        assert found is not None and found.proven == proven and found.optimal < found.even


@pytest.mark.parametrize("said", ["[0,0,0,0,0,1.7]", "[0,0,0,0,0]", "[0,0,0,0,0,0,0]", '["x",0,0,0,0,0]', "7", "null"])
def test_anything_else_gets_a_sentence(said: str) -> None:
    text = Nesterov(schedule="own").to_json().replace("[0.0,0.0,0.0,0.0,0.0,0.0]", said)
    with pytest.raises(UserError) as caught:
        Nesterov.from_json(text)
    assert str(caught.value).startswith("Your own schedule needs 6 numbers between -1.6 and 1.6.")


def test_only_a_schedule_that_is_used_makes_another_release() -> None:
    knots = theory.SHAPES["Falling"]
    for schedule, same in (("uniform", True), ("own", False)):
        one, other = Nesterov(schedule=schedule), Nesterov(schedule=schedule, knots=knots)
        assert (one.released_settings() == other.released_settings()) == same
