"""Budgets: a guarantee is stated in one currency, within its range, and never mistaken for another."""

import math

import pytest
from pydantic import ValidationError

from dpviz.errors import UserError
from dpviz.numbers import short
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
from dpviz.specification import registered, sentences

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
    with pytest.raises(ValidationError):
        kind(**{field: value})


@pytest.mark.parametrize("delta", [0.0, 1.0, 0.5, 1e-2, 1e-13])
def test_delta_is_small_but_within_what_the_accountants_resolve(delta: float) -> None:
    with pytest.raises(ValidationError):
        ApproximateDP(epsilon=1.0, delta=delta)


@pytest.mark.parametrize(("detected", "alarms"), [(0.01, 0.01), (0.05, 0.2), (0.0002, 0.5)])
def test_an_attack_bound_below_guessing_is_refused_with_the_reason(detected: float, alarms: float) -> None:
    said = "detection rate must be larger than the rate of false alarms, which guessing reaches"
    with pytest.raises(UserError, match=said), sentences(TradeOff):
        TradeOff(true_positive_rate=detected, false_positive_rate=alarms)


def test_the_gaussian_of_an_attack_bound_goes_through_its_point() -> None:
    """THEORY.md, section 5: at 1 % of false alarms 9.23622 % are detected with μ = 1, 37.2081 % with μ = 2."""
    assert TradeOff(true_positive_rate=0.0923622, false_positive_rate=0.01).gaussian == pytest.approx(1, rel=1e-5)
    assert TradeOff(true_positive_rate=0.372081, false_positive_rate=0.01).gaussian == pytest.approx(2, rel=1e-5)
    assert TradeOff(true_positive_rate=0.999, false_positive_rate=0.001).gaussian == pytest.approx(6.1804646, rel=1e-6)


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
