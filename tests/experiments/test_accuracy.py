"""From an accuracy to a budget, and what reduces an error, on bounds whose answers are known in closed form."""

import math
from typing import ClassVar

import pytest

from dpviz import specification
from dpviz.errors import UserError
from dpviz.experiments.accuracy import MAX_GROWTH, BestBound, ErrorBound, levers, required_budget
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.specification import number
from tests.pairs import all_pairs

START = 100.0


class PowerLaw(ErrorBound):
    """floor + d (n x)^-power, x = ε, ρ or μ²; at most START, without any step. Not registered: it has no kind."""

    error_title: ClassVar[str] = "test error"
    advice: ClassVar[str] = "Allow more steps."
    levers: ClassVar = {"rows": "more", "dimension": "less"}
    rows: int = number(100, 20, 10_000, label="Rows", help="Rows of the data set.")
    dimension: int = number(8, 2, 100, label="Parameters", help="Parameters of the model.")
    power: float = number(1.0, 0.1, 3.0, label="Power", help="How fast the error falls.")
    floor: float = number(0.0, 0.0, 1.0, label="Floor", help="What remains.")

    def best(self, budget: Budget) -> BestBound:
        if isinstance(budget, NoPrivacy):
            return BestBound(self.floor, 7)
        bound = self.floor + self.dimension * (self.rows * budget.remaining(())) ** -self.power
        return BestBound(bound, 7) if bound < START else BestBound(START, 0)

    def without_privacy(self) -> float:
        return self.floor


BUDGETS = [PureDP, ApproximateDP, ZeroConcentratedDP, GaussianDP]
UNITS = {PureDP: "epsilon", ApproximateDP: "epsilon", ZeroConcentratedDP: "rho", GaussianDP: "mu"}


@all_pairs
@pytest.mark.parametrize("currency", BUDGETS, ids=lambda currency: currency.name)
@pytest.mark.parametrize("power", [0.25, 1.0, 2.0])
@pytest.mark.parametrize("floor", [0.0, 0.05])
def test_the_required_budget_is_the_smallest_in_three_digits(
    currency: type[Budget], power: float, floor: float
) -> None:
    bound = PowerLaw(power=power, floor=floor, rows=10_000, dimension=2)
    budget = currency()
    target = bound.best(budget).bound
    found = required_budget(bound, target, currency, 1e-7)
    value, name = getattr(found.budget, UNITS[currency]), UNITS[currency]
    assert not found.at_least and found.best == bound.best(found.budget)
    assert found.best.bound <= target
    # It is `budget` itself, or one more in the third digit, because a root may be found a hair too large.
    assert getattr(budget, name) * (1 - 1e-12) <= value <= getattr(budget, name) * 1.0101
    assert float(f"{value:.3g}") == value
    assert bound.best(budget.replaced(**{name: 0.985 * value})).bound > target
    if currency is ApproximateDP:
        assert found.budget.query("b")["b_delta"] == "1e-07"


def test_a_target_that_the_smallest_budget_reaches_says_so() -> None:
    for target in (START, 3 * START):  # no step at all is needed
        found = required_budget(PowerLaw(power=3.0, dimension=100), target, PureDP)
        assert found.at_least and found.budget == PureDP(epsilon=0.01) and found.best.iterations == 0
    generous = PowerLaw(rows=10_000, dimension=2)
    assert required_budget(generous, 0.5, PureDP).at_least


def test_a_target_out_of_reach_names_its_limit() -> None:
    with pytest.raises(UserError, match=r"Even without privacy only an error of 0\.2 .* Allow more steps\.") as error:
        required_budget(PowerLaw(floor=0.2), 0.1, PureDP)
    assert error.value.title == "Target out of reach"
    with pytest.raises(UserError, match=r"ε = 50, guarantees an error of 0\.0016 only\. .* 0: the noise is the limit"):
        required_budget(PowerLaw(), 0.001, PureDP)
    with pytest.raises(UserError, match="the noise is the limit"):
        required_budget(PowerLaw(), 0.0, PureDP)


@pytest.mark.parametrize("power", [0.25, 1.0, 2.0])
@pytest.mark.parametrize("factor", [0.5, 0.8])
def test_levers_of_a_power_law(power: float, factor: float) -> None:
    """d (n ε)^-p: the factor takes factor^(-1/p) times the rows or the budget, or factor times the dimension."""
    bound = PowerLaw(power=power, rows=1000, dimension=80)
    budget = PureDP(epsilon=0.2)
    found = levers(bound, budget, factor)
    wanted = factor ** (-1 / power)
    assert found.target == pytest.approx(factor * bound.best(budget).bound)
    assert found.controls["rows"] == pytest.approx(wanted, rel=2e-3) and (found.controls["rows"] or 0) >= wanted - 1e-9
    assert found.budget == pytest.approx(wanted, rel=5e-4) and (found.budget or 0) >= wanted - 1e-9
    assert found.controls["dimension"] == pytest.approx(factor, rel=1e-9)


def test_levers_that_do_not_reach_are_none() -> None:
    budget = PureDP(epsilon=2.0)
    flat = levers(PowerLaw(floor=0.5, dimension=2), budget)
    assert flat.budget is None and set(flat.controls.values()) == {None}
    # Four times the rows or the budget would do; the budget's range ends at 50, the dimension's at 2.
    steep = PowerLaw(power=0.5, dimension=2, rows=10_000)
    found = levers(steep, PureDP(epsilon=20.0))
    assert found.budget is None and found.controls["dimension"] is None
    assert found.controls["rows"] == pytest.approx(4.0, rel=1e-3)
    assert levers(steep, NoPrivacy()).budget is None
    slow = levers(PowerLaw(power=0.1, dimension=2), PureDP(epsilon=50.0), 0.3)
    assert MAX_GROWTH < 0.3**-10 and slow.controls["rows"] is None


def test_levers_of_mu_count_in_mu() -> None:
    found = levers(PowerLaw(power=0.5, rows=10_000), GaussianDP(mu=0.5))
    assert found.budget == pytest.approx(2.0, rel=1e-3)
    assert found.controls["rows"] == pytest.approx(4.0, rel=1e-3)


@pytest.mark.parametrize("factor", [0.0, 1.0, -1.0, math.nan])
def test_a_factor_must_reduce_the_error(factor: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        levers(PowerLaw(), PureDP(), factor)


def test_the_base_class_is_no_kind() -> None:
    assert ErrorBound not in specification.registered(ErrorBound)
