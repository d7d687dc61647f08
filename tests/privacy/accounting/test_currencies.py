"""The currencies that add up: costs, prices, and the releases that have a given one."""

import numpy as np
import pytest

from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.currencies import KINDS, UNITS, Currency, Noise, price, release, stated_pure
from dpviz.privacy.events import Event, ExpMech, Laplace, Repeat, StatedPureDP, Sub

EVENTS: tuple[Event, ...] = (Laplace(0.3), Sub("wor", 3, 30, Laplace(0.7)), Repeat(ExpMech(0.2), 4), Laplace(0.3))


@pytest.mark.parametrize("currency", UNITS)
def test_prices_add_up_to_the_power_of_the_cost(currency: Currency) -> None:
    unit = UNITS[currency]
    total = accountants.total(EVENTS, currency)
    assert sum(price(event, currency) for event in EVENTS) == pytest.approx(total**unit.power, rel=1e-12)
    assert unit.root(total**unit.power) == pytest.approx(total, rel=1e-12)
    costs = np.array([unit.cost(event) for event in EVENTS])
    np.testing.assert_array_equal(unit.running_totals(costs), accountants.spent(EVENTS, currency))


@pytest.mark.parametrize("currency", UNITS)
@pytest.mark.parametrize("amount", [1e-4, 0.5, 3.0, 40.0])
def test_a_release_of_every_kind_costs_what_it_should(currency: Currency, amount: float) -> None:
    kinds: list[Noise] = [*KINDS, "any"]
    for noise in kinds:
        if noise == "gaussian" and currency == "epsilon":
            with pytest.raises(ValueError, match="Gaussian"):
                release(noise, currency, amount)
            continue
        event = release(noise, currency, amount)
        assert price(event, currency) == pytest.approx(amount, rel=1e-9)
        assert type(event) is KINDS.get(noise, type(UNITS[currency].event_of_cost(1.0)))
    stated = stated_pure(currency, amount)
    assert isinstance(stated, StatedPureDP) and price(stated, currency) == pytest.approx(amount, rel=1e-9)
    assert stated_pure(currency, np.inf) == StatedPureDP(np.inf)
