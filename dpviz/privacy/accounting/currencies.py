"""The currencies whose costs add up over releases, even if each release is chosen after seeing the earlier ones.

They are the ε of pure DP (Dwork, McSherry, Nissim, Smith 2006), the ρ of zCDP (Bun and Steinke 2016) and the square of
the μ of Gaussian DP (Dong, Roth, Su 2019). That they add up under adaptive choices is shown by Rogers, Roth, Ullman,
Vadhan 2016 (ε), Whitehouse et al. 2023 (ρ) and Feldman and Zrnic 2021 (μ²). In code they are called "epsilon", "rho"
and "mu". Everything else about a currency is in its class of budgets (`privacy.budgets`).

A release may have no cost in a currency, as Gaussian noise has no pure ε; a `Refusal` then says why.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeVar

import numpy as np

from dpviz.later import lazy_functions
from dpviz.privacy import events as kinds
from dpviz.privacy.accounting import per_event
from dpviz.privacy.accounting.closed_forms import Floats

(brentq,) = lazy_functions("scipy.optimize", "brentq")

Currency = Literal["epsilon", "rho", "mu"]
Noise = Literal["laplace", "gaussian", "selection", "any"]

KINDS: Mapping[Noise, type[kinds.Laplace] | type[kinds.Gaussian] | type[kinds.ExpMech]] = MappingProxyType(
    {"laplace": kinds.Laplace, "gaussian": kinds.Gaussian, "selection": kinds.ExpMech}
)
# A release with a small ε or η costs this factor times its square; no release costs more than that.
_PRICE_OF_SMALL: Mapping[Currency, Mapping[Noise, float]] = MappingProxyType(
    {"rho": {"laplace": 1 / 2, "selection": 1 / 8}, "mu": {"laplace": math.pi / 2, "selection": math.pi / 8}}
)


@dataclass(frozen=True)
class Unit:
    """The arithmetic of a currency.

    symbol, name, label : texts for the screen, for instance "ε", "pure ε", "ε".
    power : the power of the costs that adds up: 2 for μ, else 1.
    cost : function that returns the cost of one event; infinite if it has none.
    event_of_cost : function that returns the event of a release of which only the cost is known, from that cost.
    """

    symbol: str
    name: str
    label: str
    power: int
    cost: Callable[[kinds.Event], float]
    event_of_cost: Callable[[float], kinds.Event]

    def root(self, amount: float) -> float:
        """Return the cost whose power is `amount`, for instance μ from μ²."""
        return math.sqrt(amount) if self.power == 2 else amount

    def running_totals(self, costs: Floats) -> Floats:
        """Return the cost of the first 0, 1, …, k releases together, (k + 1,), from the cost of each, (k,)."""
        sums = np.cumsum(np.concatenate([[0.0], costs**self.power]))
        return np.sqrt(sums) if self.power == 2 else sums


UNITS: Mapping[Currency, Unit] = MappingProxyType(
    {
        "epsilon": Unit("ε", "pure ε", "ε", 1, per_event.pure, kinds.StatedPureDP),
        "rho": Unit("ρ", "ρ", "ρ (zCDP)", 1, per_event.rho, kinds.StatedZCDP),
        "mu": Unit("μ", "μ", "μ (Gaussian DP)", 2, per_event.mu, kinds.Gaussian),
    }
)


def price(event: kinds.Event, currency: Currency) -> float:
    """Return the price of an event, the amount that it adds to the sum of a currency: its ε, ρ, or μ²."""
    unit = UNITS[currency]
    return unit.cost(event) ** unit.power


def release(noise: Noise, currency: Currency, amount: float) -> kinds.Event:
    """Return the release with a kind of noise whose price is `amount` (ε, ρ or μ²), up to rounding errors.

    For the noise "any" it is a release of which only the cost is known. Raises ValueError for Gaussian noise and the
    currency "epsilon", as it has no pure ε.
    """
    if noise == "any":
        return UNITS[currency].event_of_cost(UNITS[currency].root(amount))
    kind = KINDS[noise]
    if currency == "epsilon":
        if kind is kinds.Gaussian:
            raise ValueError("Gaussian noise has no pure ε")
        return kind(amount)
    if kind is kinds.Gaussian:
        return kinds.Gaussian(math.sqrt(2 * amount if currency == "rho" else amount))
    assert kind is kinds.Laplace or kind is kinds.ExpMech  # for the type checker; ρ and μ² are inverted numerically
    return _event_of_price(kind, currency, amount, _PRICE_OF_SMALL[currency][noise])


def stated_pure(currency: Currency, amount: float) -> kinds.StatedPureDP:
    """Return the release of which only its ε is known, such as the sparse vector technique, whose price in a currency
    is `amount`, up to rounding errors."""
    if currency == "epsilon" or amount == math.inf:  # the price is the ε, or both are infinite
        return kinds.StatedPureDP(amount)
    # A small ε costs as much as Laplace noise of this ε.
    return _event_of_price(kinds.StatedPureDP, currency, amount, _PRICE_OF_SMALL[currency]["laplace"])


K = TypeVar("K", bound=kinds.Laplace | kinds.ExpMech | kinds.StatedPureDP)


def _event_of_price(kind: type[K], currency: Currency, amount: float, small_factor: float) -> K:
    """Return the event of class `kind` whose price is `amount`, by root finding in the logarithm of its parameter.

    small_factor : the price of an event with a small parameter divided by the square of the parameter. For larger
        parameters the ratio is smaller, so it gives a lower bound of the parameter.
    """

    def excess(log_parameter: float) -> float:
        """Return ln(price / amount), which increases with the parameter."""
        return math.log(price(kind(math.exp(log_parameter)), currency) / amount)

    low = high = math.log(amount / small_factor) / 2
    while excess(high) < 0:
        high += 1.0
    # 1e-9: rounding must not put the root below the interval.
    return kind(math.exp(brentq(excess, low - 1e-9, high, xtol=1e-13)))


# -------------------------------------------------------------------------------------------- why releases have no cost


@dataclass(frozen=True)
class Refusal:
    """A release that has no cost in a currency, and a sentence for the screen that says why, without its full stop."""

    event: kinds.Event
    why: str

    def __str__(self) -> str:
        return f"{self.why[0].upper()}{self.why[1:]} ({kinds.described(self.event)})."


def refusals(events: Iterable[kinds.Event], currency: Currency) -> tuple[Refusal, ...]:
    """Return the first release without a cost in the currency for each different reason; empty if all have a cost."""
    by_reason: dict[str, Refusal] = {}
    for event in dict.fromkeys(events):
        if UNITS[currency].cost(event) == math.inf:
            refusal = _refusal(event, currency)
            by_reason.setdefault(refusal.why, refusal)
    return tuple(by_reason.values())


def reason(events: Iterable[kinds.Event], currency: Currency) -> str:
    """Return the reasons why releases have no cost, as "Gaussian noise has no pure ε"; empty if all have one."""
    return "; ".join(refusal.why for refusal in refusals(events, currency))


def _refusal(event: kinds.Event, currency: Currency) -> Refusal:
    """Return the refusal of an event whose cost is infinite.

    If the event contains others, it names the first of the releases inside that has no cost itself.
    """
    refusals_inside = refusals(kinds.parts(event), currency)
    if refusals_inside:
        return refusals_inside[0]
    match event:
        # The releases inside have costs, and yet the batch has none: so one of them has Gaussian noise or a stated ρ,
        # whose costs sampling does not amplify.
        case kinds.Sub():
            kind = "finite" if currency == "mu" else "amplified"
            return Refusal(event, f"no {kind} {UNITS[currency].symbol} is known for batches")
        case kinds.StatedZCDP(rho) if rho < math.inf:
            return Refusal(event, f"no {UNITS[currency].name} is known of what has only a ρ")
        case kinds.StatedApproximateDP():
            return Refusal(event, f"what is known in (ε, δ) only has no {UNITS[currency].name}")
        case kinds.Gaussian(mu) if mu < math.inf:
            return Refusal(event, "Gaussian noise has no pure ε")
        case _:
            return Refusal(event, "without noise nothing is promised")
