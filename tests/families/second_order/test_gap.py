"""The gap of a random start: a private release that is paid for before the run, and shortens the plan."""

import numpy as np
import pytest

from dpviz.datasets import CovertypeLike, Saddle
from dpviz.errors import UserError
from dpviz.families.second_order import LineSearch, MiniBatch, ShortStep, TrustRegion, shares
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import Laplace
from dpviz.problems.nonconvex.nonconvex import LogisticTukey, RobustComponent

RANDOM = LogisticTukey(data=CovertypeLike(rows=5000), start="random")
COST = 0.02


def true_gap(problem: LogisticTukey) -> float:
    """f(x₀) - 0: the released gap rests on inf f ≥ 0."""
    risk = problem.build()
    return float(risk.evaluate({"x": risk.starting_point(1)}, expensive=False)["objective"][0])


def test_the_released_gap_is_above_the_true_one_by_its_margin_and_its_noise() -> None:
    true, scale = true_gap(RANDOM), RANDOM.facts().value_range / 5000 / COST
    found = np.array([shares.released(RANDOM, COST, seed) for seed in range(40)])
    noise = (found - true) / scale - np.log(500)
    assert abs(noise.mean()) < 4 * np.sqrt(2 / 40)
    assert np.abs(noise).mean() == pytest.approx(1.0, abs=4 / np.sqrt(40))  # exponential: its deviation is its mean
    assert (found > true).all() and len(set(found)) == 40
    assert shares.released(RANDOM, COST, 7) == found[7], "the same release again is no second one"
    assert shares.released(RANDOM, 2 * COST, 7) != found[7]
    assert shares.released(RANDOM, 1e-12, 0) == RANDOM.facts().gap, "never more than what always holds"
    assert shares.released(RANDOM, 1e-12, 3) >= 1e-3


def test_a_plan_pays_for_the_release_first_and_is_shorter_for_it() -> None:
    found = shares.released(RANDOM, COST, 0)
    told = RANDOM.replaced(gap=found, gap_cost=COST)
    assert told.facts().released == (Laplace(COST),) and told.facts().gap == found
    for method in (ShortStep(), LineSearch(), MiniBatch(), TrustRegion()):
        usual = ApproximateDP(epsilon=1.0, delta=1e-5)
        before, after = (method.plan(problem.facts(), usual) for problem in (RANDOM, told))
        assert after.iterations < before.iterations / 3
        assert COST + usual.spent(after.events) == pytest.approx(1.0, abs=2e-5) or isinstance(method, LineSearch)
        assert COST + usual.spent(after.events) <= 1.0 + 1e-9
    for budget in (ZeroConcentratedDP(rho=0.01), GaussianDP(mu=np.sqrt(0.02))):
        before, after = (ShortStep().plan(problem.facts(), budget) for problem in (RANDOM, told))
        assert after.resolved["iterations_by_theory"] < before.resolved["iterations_by_theory"] / 3
        assert after.noise["gradient"][0] < before.noise["gradient"][0]
        whole = 0.01 if budget.currency == "rho" else np.sqrt(0.02)
        assert after.spent(budget.currency)[-1] == pytest.approx(whole, rel=1e-6)
        assert after.spent(budget.currency)[0] > 0, "spent before the first iteration"
    with pytest.raises(ValueError, match="needs its value"):
        RANDOM.replaced(gap_cost=COST)


def test_where_nothing_can_be_learned_or_paid_it_is_refused() -> None:
    with pytest.raises(UserError, match="same for every data set"):
        shares.released(RobustComponent(data=Saddle(rows=1000)), COST, 0)
    with pytest.raises(UserError, match="positive part"):
        shares.released(RANDOM, 0.0, 0)
    budgets: tuple[Budget, ...] = (PureDP(), NoPrivacy())
    for budget in budgets:
        with pytest.raises(UserError):
            shares.suggested_cost(budget)
    assert shares.suggested_cost(ZeroConcentratedDP(rho=0.5)) == pytest.approx(np.sqrt(0.02))
    assert shares.suggested_cost(ApproximateDP(epsilon=1.0, delta=1e-5)) == pytest.approx(0.02)
