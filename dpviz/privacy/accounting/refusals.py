"""Why releases have no cost in a currency: which of them has none, and the reason in words."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import assert_never

from dpviz.privacy.accounting.currencies import UNITS, Currency
from dpviz.privacy.events import (
    Event,
    ExpMech,
    Gaussian,
    Laplace,
    Parallel,
    Repeat,
    Seq,
    StatedApproximateDP,
    StatedPureDP,
    StatedZCDP,
    Sub,
    described,
)

# Where all rows have a cost and a batch has none.
_ON_BATCHES: Mapping[Currency, str] = MappingProxyType(
    {
        "epsilon": "no amplified ε is known for batches",
        "rho": "no amplified ρ is known for batches",
        "mu": "no finite μ is known for batches",
    }
)


@dataclass(frozen=True)
class Refusal:
    """A release without a cost in a currency, and why it has none, without a full stop."""

    event: Event
    why: str

    def __str__(self) -> str:
        return f"{self.why[0].upper()}{self.why[1:]} ({described(self.event)})."


def refusals(events: Iterable[Event], currency: Currency) -> tuple[Refusal, ...]:
    """The releases that have no cost in a currency, the first for each reason; empty where all have one."""
    found: dict[str, Refusal] = {}
    for event in dict.fromkeys(events):
        if UNITS[currency].cost(event) == math.inf:
            refusal = _refusal(event, currency)
            found.setdefault(refusal.why, refusal)
    return tuple(found.values())


def reason(events: Iterable[Event], currency: Currency) -> str:
    """Why a currency does not exist for releases, "Gaussian noise has no pure ε"; empty where it does."""
    return "; ".join(refusal.why for refusal in refusals(events, currency))


def _refusal(event: Event, currency: Currency) -> Refusal:
    """Of an event whose cost is infinite, the innermost release that is to blame."""
    match event:
        case Seq(events) | Parallel(events):
            return refusals(events, currency)[0]
        case Repeat(part):
            return _refusal(part, currency)
        case Sub(inner=inner):
            if within := refusals((inner,), currency):
                return within[0]
            return Refusal(event, _ON_BATCHES[currency])
        case StatedZCDP(rho) if rho < math.inf:
            return Refusal(event, f"what is known in ρ only has no {UNITS[currency].name}")
        case StatedApproximateDP():
            return Refusal(event, f"what is known in (ε, δ) only has no {UNITS[currency].name}")
        case Gaussian(mu) if mu < math.inf:
            return Refusal(event, "Gaussian noise has no pure ε")
        case Laplace() | Gaussian() | ExpMech() | StatedPureDP() | StatedZCDP():
            return Refusal(event, "without noise nothing is promised")
        case _:
            assert_never(event)
