"""Budgets: a guarantee is stated in one currency, within its range, and never mistaken for another."""

import math

import pytest
from pydantic import ValidationError

from dpviz.errors import UserError
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP, ZeroConcentratedDP, require
from dpviz.specification import registered

STATED = [PureDP(), ApproximateDP(), ZeroConcentratedDP(), GaussianDP(), NoPrivacy()]


def test_every_currency_is_covered_here() -> None:
    assert {type(budget) for budget in STATED} == set(registered(Budget))


@pytest.mark.parametrize("budget", STATED, ids=lambda budget: budget.kind)
def test_a_budget_survives_its_text_and_describes_itself(budget: Budget) -> None:
    assert Budget.from_json(budget.to_json()) == budget
    for control in budget.controls():
        assert control.symbol in budget.describe()
        assert f"{getattr(budget, control.name):.4g}" in budget.describe()
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
    ],
)
def test_no_guarantee_is_free_or_infinite(kind: type[Budget], field: str, value: float | None) -> None:
    with pytest.raises(ValidationError):
        kind(**{field: value})


@pytest.mark.parametrize("delta", [0.0, 1.0, 0.5, 1e-2, 1e-13])
def test_delta_is_small_but_within_what_the_accountants_resolve(delta: float) -> None:
    with pytest.raises(ValidationError):
        ApproximateDP(epsilon=1.0, delta=delta)


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
