"""Accountants: events in, privacy spent out, in every currency and by every method; the tightest one wins.

All functions consume events and know nothing else. A release without noise costs infinity everywhere.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from dpviz.privacy import closed_forms, pld
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.privacy.closed_forms import Floats
from dpviz.privacy.events import Event, Gaussian, inner_events

Currency = Literal["epsilon", "rho", "mu"]
Method = Literal["basic", "zcdp", "rdp", "gdp", "pld"]
METHODS: tuple[Method, ...] = get_args(Method)
METHOD_NAMES = MappingProxyType(
    {
        "basic": "basic composition",
        "zcdp": "zCDP",
        "rdp": "Rényi DP",
        "gdp": "Gaussian DP",
        "pld": "privacy loss distribution",
    }
)


@dataclass(frozen=True)
class Reading:
    """ε at a δ: the smallest that any accountant proves, the method that proves it, and what the others say."""

    epsilon: float
    method: Method
    by_method: MappingProxyType[Method, float]


def spent(events: Sequence[Event], currency: Currency) -> Floats:
    """(len(events) + 1,) spent after each event, 0 first; infinite where the currency does not exist.

    epsilon : basic composition of pure DP; rho : zCDP; both add up. mu : Gaussian DP, whose squares add up.
    """
    cost: dict[Event, float] = {}
    price: Callable[[Event], float] = {"epsilon": closed_forms.pure, "rho": closed_forms.rho, "mu": closed_forms.mu}[
        currency
    ]
    each = np.empty(len(events) + 1)
    each[0] = 0.0
    last: Event | None = None
    value = 0.0
    for i, event in enumerate(events, 1):
        if event is not last:  # a uniform schedule repeats one object
            last = event
            if event not in cost:
                cost[event] = price(event)
            value = cost[event]
        each[i] = value
    return np.sqrt(np.cumsum(each**2)) if currency == "mu" else np.cumsum(each)


def total(events: Sequence[Event], currency: Currency) -> float:
    """Spent after all events."""
    return float(spent(events, currency)[-1])


def epsilon(events: Sequence[Event], delta: float, method: Method) -> float:
    """ε at δ of all events by one method; infinite where the method does not apply. Every value is an upper bound."""
    return float(epsilon_curve(tuple(events), delta, method, (len(events),))[0]) if events else 0.0


def tightest(events: Sequence[Event], delta: float) -> Reading:
    """The smallest proven ε at δ, and what every method that applies says."""
    found = {method: epsilon(events, delta, method) for method in METHODS}
    applies: dict[Method, float] = {method: value for method, value in found.items() if value < math.inf}
    best = min(applies, key=lambda method: applies[method], default="basic")
    return Reading(found[best], best, MappingProxyType(applies))


@lru_cache(512)
def epsilon_curve(events: tuple[Event, ...], delta: float, method: Method, checkpoints: tuple[int, ...]) -> Floats:
    """(len(checkpoints),) ε at δ after the first t events, for each t. Read-only, cached.

    Under a fixed plan the value at t is the guarantee if one had planned to stop there.
    """
    result = np.array(_CURVES[method](events, delta, np.array(checkpoints, dtype=int)), dtype=float)
    result.setflags(write=False)
    return result


def _basic_curve(events: tuple[Event, ...], delta: float, checkpoints: np.ndarray) -> Floats:
    return spent(events, "epsilon")[checkpoints]


def _zcdp_curve(events: tuple[Event, ...], delta: float, checkpoints: np.ndarray) -> Floats:
    return np.array([closed_forms.zcdp_epsilon(float(rho), delta) for rho in spent(events, "rho")[checkpoints]])


def _gdp_curve(events: tuple[Event, ...], delta: float, checkpoints: np.ndarray) -> Floats:
    reached = spent(events, "mu")[checkpoints]
    return np.array([closed_forms.gdp_epsilon(float(mu), delta) if mu > 0 else 0.0 for mu in reached])


def _rdp_curve(events: tuple[Event, ...], delta: float, checkpoints: np.ndarray) -> Floats:
    def at(count: int) -> float:
        counts = Counter(events[:count])
        return closed_forms.rdp_epsilon(
            lambda orders: sum(
                (times * closed_forms.rdp(event, orders) for event, times in counts.items()), np.zeros_like(orders)
            ),
            delta,
        )

    return np.array([at(int(count)) if count else 0.0 for count in checkpoints])


def _pld_curve(events: tuple[Event, ...], delta: float, checkpoints: np.ndarray) -> Floats:
    if not checkpoints.any():
        return np.zeros(len(checkpoints))
    try:
        return pld.curve(pld.grouped(events), checkpoints, delta)
    except pld.AccountingLimit:
        return np.full(len(checkpoints), math.inf)


_CURVES: dict[Method, Callable[[tuple[Event, ...], float, np.ndarray], Floats]] = {
    "basic": _basic_curve,
    "zcdp": _zcdp_curve,
    "rdp": _rdp_curve,
    "gdp": _gdp_curve,
    "pld": _pld_curve,
}

# ----------------------------------------------------------------------------------------------------- attack readings


def tradeoff(events: Sequence[Event], false_positive_rates: ArrayLike) -> Floats:
    """Smallest false negative rate that a test between two neighbouring data sets can have at each false positive rate.

    f(α) = max(0, sup_ε 1 - δ(ε) - e^ε α) over the composed privacy profile (Dong, Roth, Su 2019); exact for Gaussian
    noise on all rows, a lower bound on f (pessimistic) otherwise.
    """
    alpha = np.asarray(false_positive_rates, dtype=float)
    profile = _composed_profile(tuple(events))
    grid = np.concatenate([-np.geomspace(60, 1e-4, 400), [0.0], np.geomspace(1e-4, 60, 400)])
    heights = 1 - profile(grid)[:, None] - np.exp(grid)[:, None] * alpha.ravel()
    return np.clip(heights.max(axis=0), 0.0, 1.0).reshape(alpha.shape)


def advantage(events: Sequence[Event]) -> float:
    """The largest TPR - FPR of any such test: δ(0)."""
    return float(_composed_profile(tuple(events))(np.zeros(1))[0])


@lru_cache(64)
def _composed_profile(events: tuple[Event, ...]) -> closed_forms.Profile:
    """δ(ε) of all events together, for all real ε."""
    releases = [release for event in events for release in inner_events(event)]
    if all(isinstance(release, Gaussian) for release in releases) and total(events, "mu") < math.inf:
        return closed_forms.profile(Gaussian(total(events, "mu")))
    if len(events) == 1:
        return closed_forms.profile(events[0])
    try:
        composed = pld.compose(Counter(events) if len(set(events)) < 50 else pld.grouped(events), 1e-6)
    except pld.AccountingLimit:
        pure = total(events, "epsilon")
        return lambda values: np.array([_pure_profile(pure, float(value)) for value in np.ravel(values)])
    return _symmetric(composed.delta)


def _pure_profile(pure: float, value: float) -> float:
    """The profile of any ε-DP algorithm at one real ε."""
    if pure == math.inf:
        return 1.0
    size = closed_forms.pure_delta(pure, abs(value))
    return size if value >= 0 else -math.expm1(value) + math.exp(value) * size


def _symmetric(positive: Callable[[Floats], Floats]) -> closed_forms.Profile:
    def delta(values: ArrayLike) -> Floats:
        values = np.asarray(values, dtype=float)
        size = np.minimum(positive(np.abs(values)), 1.0)
        return np.where(values >= 0, size, -np.expm1(-np.abs(values)) + np.exp(-np.abs(values)) * size)

    return delta


# --------------------------------------------------------------------------------------------------------- conversions


def convert(budget: Budget, delta: float) -> dict[str, float | None]:
    """What a bare budget implies in the other currencies, for any algorithm that meets it; None where nothing follows.

    Keys: epsilon (pure), epsilon_at_delta, rho, mu. Upper bounds; a plan's own events usually read tighter.
    """
    if isinstance(budget, PureDP):
        pure = budget.epsilon
        at_delta = 0.0 if closed_forms.pure_delta(pure, 0.0) <= delta else _pure_epsilon(pure, delta)
        return {
            "epsilon": pure,
            "epsilon_at_delta": at_delta,
            "rho": closed_forms.pure_to_rho(pure),
            "mu": closed_forms.pure_to_mu(pure),
        }
    if isinstance(budget, ZeroConcentratedDP):
        at_delta = closed_forms.zcdp_epsilon(budget.rho, delta)
        return {"epsilon": None, "epsilon_at_delta": at_delta, "rho": budget.rho, "mu": None}
    if isinstance(budget, GaussianDP):
        at_delta = closed_forms.gdp_epsilon(budget.mu, delta)
        return {"epsilon": None, "epsilon_at_delta": at_delta, "rho": budget.mu**2 / 2, "mu": budget.mu}
    if isinstance(budget, ApproximateDP):
        at_delta_or_none = budget.epsilon if delta >= budget.delta else None
        return {"epsilon": None, "epsilon_at_delta": at_delta_or_none, "rho": None, "mu": None}
    assert isinstance(budget, NoPrivacy)
    return {"epsilon": None, "epsilon_at_delta": None, "rho": None, "mu": None}


def _pure_epsilon(pure: float, delta: float) -> float:
    """The ε at δ of any ε₀-DP algorithm: inverse of `closed_forms.pure_delta`."""
    return pure + math.log1p(-delta * (1 + math.exp(-pure)))
