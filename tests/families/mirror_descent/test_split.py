"""The budget between the two players: any split keeps it, and none has a smaller bound than the best one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpviz.families.mirror_descent import bounds, presets
from dpviz.families.mirror_descent.methods.noisy_gradients import EuclideanGradient, GaussianMirrorDescent
from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.problems.games.group_loss import GroupLoss
from dpviz.problems.games.matrix_games import MatrixGame
from tests.strategies import steady

GROUPS, GAME = GroupLoss().facts(), MatrixGame().facts()
RHO = ZeroConcentratedDP(rho=0.05)
BUDGETS: tuple[Budget, ...] = (ApproximateDP(epsilon=1.0, delta=1e-6), RHO, GaussianDP(mu=0.3), PureDP(epsilon=1.0))
NOISY = ("DP-SGDA", "Gaussian mirror descent")
METHODS = ("Vertex sampling", "Single pass", "Fresh draws", "Bias-reduced", *NOISY)
some = st.floats(0.05, 0.95)


@steady
@given(some, st.sampled_from(METHODS), st.sampled_from(BUDGETS))
def test_whatever_the_split_the_budget_is_kept_and_spent(share: float, label: str, budget: Budget) -> None:
    if budget.pure and label in NOISY:
        return
    plan = presets.METHODS[label].replaced(share_x=share).plan(GROUPS, budget)
    if isinstance(budget, ApproximateDP):
        spent = accountants.tightest(plan.events, budget.delta).epsilon
    else:
        spent = budget.cost(plan.events)
    assert 0.97 * budget.amount <= spent <= budget.amount * (1 + 1e-9)
    assert plan.resolved["share_x"] == share
    if label in NOISY:  # what a player pays goes with 1/σ², by the change that one row makes
        paid = [(change * d**0.5 / plan.noise[name][0]) ** 2 for name, change, d in _players()]
        assert paid[0] / sum(paid) == pytest.approx(share)


def _players() -> list[tuple[str, float, int]]:
    return [("x", GROUPS.change_x, GROUPS.d_x), ("y", GROUPS.change_y, GROUPS.d_y)]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("label", METHODS)
def test_no_split_has_a_smaller_bound_than_the_best_one(label: str, budget: Budget) -> None:
    if budget.pure and label in NOISY:
        return
    method = presets.METHODS[label]
    told = [bounds.compare(m, m.plan(GROUPS, budget)) for m in (method.replaced(share_x=s) for s in (0.05, 0.3, 0.5))]
    taken = bounds.compare(best := method.replaced(split="bound"), best.plan(GROUPS, budget))
    assert taken is not None and taken.yours == taken.best and 0.5 < taken.best_share < 0.95
    for one in told:
        # Under (ε, δ) the optimum is that of a budget in ρ, of which the tightest accountant makes a little more.
        assert one is not None and one.best <= min(one.yours, one.even) and one.best == taken.best
    assert told[2].yours == told[2].even  # type: ignore[union-attr]
    near = method.replaced(share_x=taken.best_share * 0.97)
    beside = bounds.compare(near, near.plan(GROUPS, budget))
    assert beside is not None and taken.best <= beside.yours * (1 + 1e-6) <= taken.best * 1.01


@pytest.mark.parametrize("method", [EuclideanGradient(), GaussianMirrorDescent()])
def test_an_even_split_is_what_it_was_before_there_was_a_choice(method: EuclideanGradient) -> None:
    """The same releases, from the same streams of noise, as of a method without these two settings."""
    before = json.loads(method.to_json())
    del before["share_x"], before["split"]
    assert json.loads(method.released_settings()) == before
    assert method.plan(GAME, RHO).events == method.replaced(split="bound").plan(GAME, RHO).events  # players are alike
    others = (method.replaced(share_x=0.6), method.replaced(split="bound"))
    assert len({one.released_settings() for one in (method, *others)}) == 3
