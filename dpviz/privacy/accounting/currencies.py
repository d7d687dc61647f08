"""The currencies that add up over releases, even if each is chosen after seeing the last: ε, ρ, and the squares of μ.

ε of pure DP (Dwork, McSherry, Nissim, Smith 2006), ρ of zCDP (Bun and Steinke 2016), μ of Gaussian DP (Dong, Roth, Su
2019); adaptively by Rogers, Roth, Ullman, Vadhan 2016, Whitehouse et al. 2023, Feldman and Zrnic 2021. Their names are
those of the parameters: "epsilon", "rho", "mu". What else a currency can do, its Budget knows (`privacy.budgets`).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeVar

import numpy as np
from scipy.optimize import brentq

from dpviz.privacy.accounting import per_event
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.events import Event, ExpMech, Gaussian, Laplace, StatedPureDP, StatedZCDP

Currency = Literal["epsilon", "rho", "mu"]
Noise = Literal["laplace", "gaussian", "selection", "any"]

KINDS: Mapping[Noise, type[Laplace] | type[Gaussian] | type[ExpMech]] = MappingProxyType(
    {"laplace": Laplace, "gaussian": Gaussian, "selection": ExpMech}
)
# Small releases cost so much times the square of their ε or η, and no release costs more.
_PRICE_OF_SMALL: Mapping[Currency, Mapping[Noise, float]] = MappingProxyType(
    {"rho": {"laplace": 1 / 2, "selection": 1 / 8}, "mu": {"laplace": math.pi / 2, "selection": math.pi / 8}}
)


@dataclass(frozen=True)
class Unit:
    """How a currency counts.

    symbol, name, label : "ρ", "ρ", "ρ (zCDP)". power : costs to this power add up.
    cost : of one event; infinite where it has none. stated : the worst release of which only this number is known.
    """

    symbol: str
    name: str
    label: str
    power: int
    cost: Callable[[Event], float]
    stated: Callable[[float], Event]

    def root(self, amount: float) -> float:
        """The cost whose power is `amount`."""
        return math.sqrt(amount) if self.power == 2 else amount

    def added(self, costs: Floats) -> Floats:
        """(k + 1,) the cost of the first 0, 1, … k releases, from the (k,) costs of each."""
        sums = np.cumsum(np.concatenate([[0.0], costs**self.power]))
        return np.sqrt(sums) if self.power == 2 else sums


UNITS: Mapping[Currency, Unit] = MappingProxyType(
    {
        "epsilon": Unit("ε", "pure ε", "ε", 1, per_event.pure, StatedPureDP),
        "rho": Unit("ρ", "ρ", "ρ (zCDP)", 1, per_event.rho, StatedZCDP),
        "mu": Unit("μ", "μ", "μ (Gaussian DP)", 2, per_event.mu, Gaussian),
    }
)


def price(event: Event, currency: Currency) -> float:
    """What an event adds to the sum: ε, ρ, or μ²."""
    unit = UNITS[currency]
    return unit.cost(event) ** unit.power


def release(noise: Noise, currency: Currency, amount: float) -> Event:
    """The release of that kind whose price is `amount`, to rounding errors; "any": of which only the cost is known.

    Raises ValueError for Gaussian noise in pure ε, which it never has.
    """
    if noise == "any":
        return UNITS[currency].stated(UNITS[currency].root(amount))
    kind = KINDS[noise]
    if currency == "epsilon":
        if kind is Gaussian:
            raise ValueError("Gaussian noise has no pure ε")
        return kind(amount)
    if kind is Gaussian:
        return Gaussian(math.sqrt(2 * amount if currency == "rho" else amount))
    assert kind is Laplace or kind is ExpMech

    return _priced(kind, currency, amount, _PRICE_OF_SMALL[currency][noise])


def stated_pure(currency: Currency, amount: float) -> StatedPureDP:
    """The ε-DP release of which only ε is known, such as a sparse vector, that has a price; to rounding errors."""
    if currency == "epsilon" or amount == math.inf:
        return StatedPureDP(amount)
    return _priced(StatedPureDP, currency, amount, _PRICE_OF_SMALL[currency]["laplace"])


K = TypeVar("K", bound=Laplace | ExpMech | StatedPureDP)


def _priced(kind: type[K], currency: Currency, amount: float, of_small: float) -> K:
    """The release of that kind whose price is `amount`, by root finding; small ones cost `of_small` times a square."""

    def excess(log_parameter: float) -> float:
        return math.log(price(kind(math.exp(log_parameter)), currency) / amount)

    low = high = math.log(amount / of_small) / 2  # small ones are the dearest for their square
    while excess(high) < 0:
        high += 1.0
    return kind(math.exp(brentq(excess, low - 1e-9, high, xtol=1e-13)))
