"""Budgets: a guarantee is stated in one currency, within its range, and never mistaken for another."""

import math
import re

import numpy as np
import pytest

from dpviz.errors import UserError
from dpviz.numbers import short
from dpviz.privacy import calibration
from dpviz.privacy.accounting.currencies import UNITS, Noise
from dpviz.privacy.budgets import (
    ApproximateDP,
    Budget,
    GaussianDP,
    NoPrivacy,
    PureDP,
    RenyiDP,
    TradeOff,
    ZeroConcentratedDP,
    require,
)
from dpviz.privacy.events import ExpMech, Laplace
from dpviz.specification import registered

STATED = [PureDP(), ApproximateDP(), ZeroConcentratedDP(), GaussianDP(), RenyiDP(), TradeOff(), NoPrivacy()]


def test_every_currency_is_covered_here() -> None:
    assert {type(budget) for budget in STATED} == set(registered(Budget))


@pytest.mark.parametrize("budget", STATED, ids=lambda budget: budget.kind)
def test_a_budget_survives_its_text_and_describes_itself(budget: Budget) -> None:
    assert Budget.from_json(budget.to_json()) == budget
    for control in budget.controls():
        assert control.symbol in budget.describe()
        assert short(getattr(budget, control.name), 4) in budget.describe()
        assert control.scale == "log", "budgets span decades"
    assert budget.name and budget.describe()
    assert RenyiDP(order=1.0001).describe().endswith("α = 1.0001")
    assert len({stated.name for stated in STATED}) == len(STATED)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, 1e9, None])
@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (PureDP, "epsilon"),
        (ApproximateDP, "epsilon"),
        (ApproximateDP, "delta"),
        (ZeroConcentratedDP, "rho"),
        (GaussianDP, "mu"),
        (RenyiDP, "epsilon"),
        (RenyiDP, "order"),
        (TradeOff, "true_positive_rate"),
        (TradeOff, "false_positive_rate"),
    ],
)
def test_no_guarantee_is_free_or_infinite(kind: type[Budget], field: str, value: float | None) -> None:
    with pytest.raises(UserError):
        kind(**{field: value})


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-6, 1.5, 1e-101])
def test_delta_is_a_probability_between_nothing_and_certainty(delta: float) -> None:
    with pytest.raises(UserError):
        ApproximateDP(epsilon=1.0, delta=delta)


@pytest.mark.parametrize(("detected", "alarms"), [(0.01, 0.01), (0.05, 0.2), (0.0002, 0.5)])
def test_an_attack_bound_below_guessing_is_refused_with_the_reason(detected: float, alarms: float) -> None:
    said = "detection rate must be larger than the rate of false alarms, which guessing reaches"
    with pytest.raises(UserError, match=said):
        TradeOff(true_positive_rate=detected, false_positive_rate=alarms)


def test_the_gaussian_of_an_attack_bound_goes_through_its_point() -> None:
    """THEORY.md, section 5: at 1 % of false alarms 9.23622 % are detected with μ = 1, 37.2081 % with μ = 2."""
    assert TradeOff(true_positive_rate=0.0923622, false_positive_rate=0.01).gaussian_mu == pytest.approx(1, rel=1e-5)
    assert TradeOff(true_positive_rate=0.372081, false_positive_rate=0.01).gaussian_mu == pytest.approx(2, rel=1e-5)
    largest = TradeOff(true_positive_rate=0.999, false_positive_rate=0.001)
    assert largest.gaussian_mu == pytest.approx(6.1804646, rel=1e-6)


def test_require_returns_the_budget_or_names_both_currencies() -> None:
    budget = PureDP(epsilon=1.0)
    assert require(budget, PureDP) is budget
    with pytest.raises(UserError, match=r"Pure ε.*μ-GDP") as caught:
        require(GaussianDP(), PureDP)
    assert caught.value.title != UserError("").title


def test_one_currency_is_not_taken_for_another() -> None:
    kinds = [type(budget) for budget in STATED]
    for budget in STATED:
        for kind in kinds:
            if kind is not type(budget):
                with pytest.raises(UserError):
                    require(budget, kind)
    assert PureDP(epsilon=1.0) != ApproximateDP(epsilon=1.0)


# ------------------------------------------------------------------------------------- what a currency knows of itself

ADDITIVE = [budget for budget in STATED if budget.currency is not None]


@pytest.mark.parametrize("budget", STATED, ids=lambda budget: budget.kind)
def test_a_budget_is_used_up_by_the_noise_that_it_buys_in_its_own_number(budget: Budget) -> None:
    """Cost and amount are in one unit, and what was spent is the number that is stated."""
    if not budget.private:
        assert budget.amount == budget.limit == budget.remaining(()) == budget.spent((Laplace(1.0),)) == math.inf
        assert budget.symbol == budget.describe() == "no privacy" and budget.advantage() == 1.0
        return
    events = calibration.calibrated_events("laplace", budget, np.ones(5), 10, 10)
    assert budget.cost(events) == pytest.approx(budget.amount, rel=1e-4)
    assert budget.spent(events) == pytest.approx(budget.limit, rel=2e-3)
    assert budget.in_unit_of_limit(budget.amount) == budget.limit == pytest.approx(next(iter(budget))[1])
    assert budget.symbol.startswith(budget.controls()[0].symbol)


@pytest.mark.parametrize("budget", ADDITIVE, ids=lambda budget: budget.kind)
def test_a_currency_that_adds_up_agrees_with_its_unit(budget: Budget) -> None:
    assert budget.currency is not None
    unit = UNITS[budget.currency]
    assert budget.symbol == unit.symbol and budget.limit**unit.power == pytest.approx(budget.amount)
    assert budget.of_amount(budget.amount).amount == pytest.approx(budget.amount, rel=1e-12)
    assert budget.additive() is budget and budget.adds_up
    assert budget.cost((budget.release("any"),)) == pytest.approx(budget.amount, rel=1e-12)
    assert budget.share(0.25).amount == pytest.approx(budget.amount / 4)
    prior = (Laplace(0.1),)
    assert budget.share(1.0, prior).amount == pytest.approx(budget.remaining(prior))


@pytest.mark.parametrize("budget", STATED, ids=lambda budget: budget.kind)
def test_a_share_in_a_currency_that_adds_up_implies_the_share_of_the_budget(budget: Budget) -> None:
    if not budget.private:
        assert budget.additive() is budget
        return
    whole = budget.additive()
    assert whole.currency is not None
    noise: Noise = "laplace" if budget.pure else "gaussian"
    assert budget.cost((whole.release(noise),)) <= budget.amount * (1 + 1e-6)


def test_only_currencies_with_a_number_for_one_release_give_one() -> None:
    for budget in (RenyiDP(), TradeOff(), NoPrivacy()):
        with pytest.raises(TypeError, match=re.escape(budget.name)):
            budget.release("any")
        with pytest.raises(TypeError, match=re.escape(budget.name)):
            budget.of_amount(1.0)
    with pytest.raises(UserError, match="never gives pure"):
        PureDP().gaussian_rho(1.0)


@pytest.mark.parametrize("budget", [b for b in STATED if b.total_rho is not None], ids=lambda budget: budget.kind)
@pytest.mark.parametrize("steps", [1, 20])
def test_the_rho_that_small_releases_may_have_is_surely_paid_for(budget: Budget, steps: int) -> None:
    assert budget.total_rho is not None
    each = budget.total_rho / steps
    for event in (Laplace(math.sqrt(2 * each)), ExpMech(math.sqrt(8 * each))):
        assert budget.spent((event,) * steps) <= budget.limit * (1 + 1e-9)


def test_doubt_is_what_the_advantage_leaves() -> None:
    for budget in (b for b in STATED if b.private):
        assert budget.doubt() == pytest.approx(1 - budget.advantage(), abs=1e-12)
    assert PureDP(epsilon=50.0).doubt() > 0 and GaussianDP(mu=20.0).doubt() > 0  # where 1 - advantage is rounded to 0
    assert ZeroConcentratedDP(rho=100.0).doubt() > 0


def test_the_delta_at_which_a_budget_is_read_and_the_epsilon_that_curves_stay_below() -> None:
    stated = ApproximateDP(epsilon=1.0, delta=1e-5)
    assert stated.own_delta(1e-6) == 1e-5 and PureDP().own_delta(1e-6) == 1e-6
    assert stated.limit_at(1e-5) == 1.0 and stated.limit_at(1e-6) is None and GaussianDP().limit_at(1e-6) is None
    assert PureDP(epsilon=3.0).limit_at(1e-6) == 3.0
