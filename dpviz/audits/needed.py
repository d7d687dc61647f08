"""How many runs an audit needs to flag noise that is smaller than declared: the attack, and the tests of the noise."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpviz.audits.audit import TUNING, Audit
from dpviz.privacy import audit as bounds
from dpviz.privacy import tradeoffs
from dpviz.privacy.events import ExpMech, Gaussian, Laplace, inner_events, quieter
from dpviz.privacy.ledger import Filter
from dpviz.privacy.releases import Standard
from dpviz.privacy.verification import implementation, known_choices

FACTORS = (0.5, 1 / math.sqrt(2), 0.9)  # times the declared noise
LEAST, MOST = 200, 1_000_000  # runs on each data set that are tried
_STEPS = 64  # between them, on a logarithmic scale
_RATES = np.concatenate([np.geomspace(1e-4, 0.1, 30), np.linspace(0.11, 0.9, 40)])


@dataclass(frozen=True)
class Needed:
    """Runs on each data set at which about half of all audits flag noise of `factor` times the declared one; None where
    that takes more than MOST, or is not known before the runs, as of a method that decides while it runs."""

    factor: float
    attack: int | None
    tests: int | None


def runs_needed(audit: Audit) -> tuple[Needed, ...]:
    """By smaller noise, and by who flags it. The attack is that on a pair for which the claim is as tight as its noise;
    the tests have one number of one release in each run."""
    return tuple(
        Needed(factor, _first(partial(_attacked, audit, factor)), _first(partial(_tested, audit, factor)))
        for factor in FACTORS
    )


def _first(flags: Callable[[int], bool]) -> int | None:
    """The fewest runs that flag it, two significant digits."""
    grid = [round(LEAST * (MOST / LEAST) ** (step / _STEPS)) for step in range(_STEPS + 1)]
    if not flags(grid[-1]):
        return None
    low, high = -1, _STEPS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if flags(grid[middle]) else (middle, high)
    found = grid[high]
    return round(found, 1 - math.floor(math.log10(found)))


def _attacked(audit: Audit, factor: float, runs: int) -> bool:
    """Whether the rates that are expected refute the claim."""
    if isinstance(audit.plan.terms, Filter):
        return False
    events = tuple(quieter(event, factor) for event in audit.plan.events)
    rates = 1 - tradeoffs.tradeoff(events, _RATES)
    counted, level = runs - math.ceil(TUNING * runs), 1 - (1 - audit.confidence) / audit.looks
    hits, false_hits = np.floor(rates * counted), np.ceil(_RATES * counted)
    found = audit.claim.least(*bounds.separated(hits, counted, false_hits, counted, level))
    return bool((found > audit.claim.value).any())


def _tested(audit: Audit, factor: float, runs: int) -> bool:
    """Whether noise, or choices, of the size that is expected are a fault."""
    terms = audit.plan.terms
    events = set(terms.allowed.values()) if isinstance(terms, Filter) else set(audit.plan.events)
    kinds = {type(single) for event in events for single in inner_events(event)}
    found = []
    for kind in kinds:
        if kind in (Laplace, Gaussian):
            law: Standard = "laplace" if kind is Laplace else "standard_normal"
            total = 2 * runs * factor if kind is Laplace else runs * factor**2
            found.append(implementation.scale_p_value(law, 2 * runs, total) * 2 / implementation.SHARES["scale"])
        if kind is ExpMech:
            found.append(known_choices.expected_p_value(factor, runs) * 20 / implementation.SHARES["choices"])
    return any(p <= implementation.ERROR for p in found)
