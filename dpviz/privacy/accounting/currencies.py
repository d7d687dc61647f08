"""The currencies that add up over releases, even if each is chosen after seeing the last: ε, ρ, and the squares of μ.

ε of pure DP (Dwork, McSherry, Nissim, Smith 2006), ρ of zCDP (Bun and Steinke 2016), μ of Gaussian DP (Dong, Roth, Su
2019); adaptively by Rogers, Roth, Ullman, Vadhan 2016, Whitehouse et al. 2023, Feldman and Zrnic 2021. Their names are
those of the parameters: "epsilon", "rho", "mu". All else that is known of a currency is in its Budget
(`privacy.budgets`). A refusal names a release that has no cost in a currency, and the reason.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeVar

import numpy as np
from scipy.optimize import brentq

from dpviz.privacy import events as kinds
from dpviz.privacy.accounting import per_event
from dpviz.privacy.accounting.closed_forms import Floats

Currency = Literal["epsilon", "rho", "mu"]
Noise = Literal["laplace", "gaussian", "selection", "any"]

KINDS: Mapping[Noise, type[kinds.Laplace] | type[kinds.Gaussian] | type[kinds.ExpMech]] = MappingProxyType(
    {"laplace": kinds.Laplace, "gaussian": kinds.Gaussian, "selection": kinds.ExpMech}
)
# Small releases cost this factor times the square of their ε or η, and no release costs more than that.
_PRICE_OF_SMALL: Mapping[Currency, Mapping[Noise, float]] = MappingProxyType(
    {"rho": {"laplace": 1 / 2, "selection": 1 / 8}, "mu": {"laplace": math.pi / 2, "selection": math.pi / 8}}
)


@dataclass(frozen=True)
class Unit:
    """The arithmetic of a currency.

    symbol, name, label : for instance "ρ", "ρ", "ρ (zCDP)". power : costs to this power add up.
    cost : of one event; infinite where it has none. stated : the worst release of which only this cost is known.
    """

    symbol: str
    name: str
    label: str
    power: int
    cost: Callable[[kinds.Event], float]
    stated: Callable[[float], kinds.Event]

    def root(self, amount: float) -> float:
        """Return the cost whose power is `amount`."""
        return math.sqrt(amount) if self.power == 2 else amount

    def added(self, costs: Floats) -> Floats:
        """Return (k + 1,) the cost of the first 0, 1, … k releases, from the (k,) costs of each."""
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
    """Return the amount that an event adds to the sum: ε, ρ, or μ²."""
    unit = UNITS[currency]
    return unit.cost(event) ** unit.power


def release(noise: Noise, currency: Currency, amount: float) -> kinds.Event:
    """Return the release of a kind of noise whose price is `amount`, up to rounding errors; for "any", one of which
    only the cost is known.

    Raises ValueError for Gaussian noise in pure ε, which it never has.
    """
    if noise == "any":
        return UNITS[currency].stated(UNITS[currency].root(amount))
    kind = KINDS[noise]
    if currency == "epsilon":
        if kind is kinds.Gaussian:
            raise ValueError("Gaussian noise has no pure ε")
        return kind(amount)
    if kind is kinds.Gaussian:
        return kinds.Gaussian(math.sqrt(2 * amount if currency == "rho" else amount))
    assert kind is kinds.Laplace or kind is kinds.ExpMech
    return _priced(kind, currency, amount, _PRICE_OF_SMALL[currency][noise])


def stated_pure(currency: Currency, amount: float) -> kinds.StatedPureDP:
    """Return the release of which only ε is known, such as a sparse vector, whose price is `amount` up to rounding."""
    if currency == "epsilon" or amount == math.inf:
        return kinds.StatedPureDP(amount)
    return _priced(kinds.StatedPureDP, currency, amount, _PRICE_OF_SMALL[currency]["laplace"])


K = TypeVar("K", bound=kinds.Laplace | kinds.ExpMech | kinds.StatedPureDP)


def _priced(kind: type[K], currency: Currency, amount: float, small_factor: float) -> K:
    """Return the release of a kind whose price is `amount`, by root finding; small ones cost `small_factor` times the
    square of their parameter."""

    def excess(log_parameter: float) -> float:
        return math.log(price(kind(math.exp(log_parameter)), currency) / amount)

    low = high = math.log(amount / small_factor) / 2  # small ones are the dearest for their square
    while excess(high) < 0:
        high += 1.0
    return kind(math.exp(brentq(excess, low - 1e-9, high, xtol=1e-13)))


# -------------------------------------------------------------------------------------------- why releases have no cost


@dataclass(frozen=True)
class Refusal:
    """A release without a cost in a currency, and why it has none, without a full stop."""

    event: kinds.Event
    why: str

    def __str__(self) -> str:
        return f"{self.why[0].upper()}{self.why[1:]} ({kinds.described(self.event)})."


def refusals(events: Iterable[kinds.Event], currency: Currency) -> tuple[Refusal, ...]:
    """Return the releases that have no cost in a currency, the first for each reason; empty where all have one."""
    first_of_reason: dict[str, Refusal] = {}
    for event in dict.fromkeys(events):
        if UNITS[currency].cost(event) == math.inf:
            refusal = _refusal(event, currency)
            first_of_reason.setdefault(refusal.why, refusal)
    return tuple(first_of_reason.values())


def reason(events: Iterable[kinds.Event], currency: Currency) -> str:
    """Return the reasons why releases have no cost in a currency, "Gaussian noise has no pure ε"; empty if they do."""
    return "; ".join(refusal.why for refusal in refusals(events, currency))


def _refusal(event: kinds.Event, currency: Currency) -> Refusal:
    """Return the refusal of an event whose cost is infinite; it names the innermost release that is to blame."""
    if inside := refusals(kinds.parts(event), currency):
        return inside[0]
    match event:
        case kinds.Sub():
            kind = "finite" if currency == "mu" else "amplified"
            return Refusal(event, f"no {kind} {UNITS[currency].symbol} is known for batches")
        case kinds.StatedZCDP(rho) if rho < math.inf:
            return Refusal(event, f"what is known in ρ only has no {UNITS[currency].name}")
        case kinds.StatedApproximateDP():
            return Refusal(event, f"what is known in (ε, δ) only has no {UNITS[currency].name}")
        case kinds.Gaussian(mu) if mu < math.inf:
            return Refusal(event, "Gaussian noise has no pure ε")
        case _:
            return Refusal(event, "without noise nothing is promised")
