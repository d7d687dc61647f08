"""Accountants: events in, privacy spent out, in every currency and by every method; the tightest one wins.

All functions consume events and know nothing else. A release without noise costs infinity everywhere.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from dpviz.privacy import closed_forms, pld
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.privacy.closed_forms import Floats
from dpviz.privacy.events import Event, Gaussian, Laplace, Seq

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

MOST_EXACT = 50  # so many different events are composed as they are; more are rounded up to fewer


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
    price: Callable[[Event], float] = {"epsilon": closed_forms.pure, "rho": closed_forms.rho, "mu": closed_forms.mu}[
        currency
    ]
    each = np.zeros(len(events) + 1)
    last: Event | None = None
    value = 0.0
    for i, event in enumerate(events, 1):
        if event is not last:  # a uniform schedule repeats one object
            last, value = event, price(event)
        each[i] = value
    return np.sqrt(np.cumsum(each**2)) if currency == "mu" else np.cumsum(each)


def total(events: Sequence[Event], currency: Currency) -> float:
    """Spent after all events."""
    return float(spent(events, currency)[-1])


def epsilon(events: Sequence[Event], delta: float, method: Method) -> float:
    """ε at δ of all events by one method; infinite where the method does not apply. Every value is an upper bound."""
    return float(epsilon_curve(tuple(events), delta, method, (len(events),))[0]) if events else 0.0


def tightest(events: Sequence[Event], delta: float, before: Sequence[Event] = ()) -> Reading:
    """The smallest proven ε at δ, and what every method that applies says.

    before : releases on whose outcome the choice of `events` depends. Of the methods, only basic composition allows
    that (Rogers, Roth, Ullman, Vadhan 2016), so their pure ε is added.
    """
    paid = total(before, "epsilon")
    found = {method: paid + epsilon(events, delta, method) for method in METHODS}
    applies: dict[Method, float] = {method: value for method, value in found.items() if value < math.inf}
    best: Method = min(applies, key=applies.__getitem__, default="basic")
    return Reading(found[best], best, MappingProxyType(applies))


@lru_cache(128)
def epsilon_curve(events: tuple[Event, ...], delta: float, method: Method, checkpoints: tuple[int, ...]) -> Floats:
    """(len(checkpoints),) ε at δ after the first t events, for each t. Read-only, cached.

    Under a fixed plan the value at t is the guarantee if one had planned to stop there.
    """
    result = np.array(_CURVES[method](events, delta, np.array(checkpoints, dtype=int)), dtype=float)
    result.setflags(write=False)
    return result


def pld_epsilon(events: Sequence[Event], delta: float) -> float:
    """ε at δ of all events from their privacy loss distributions; infinite where these do not apply. Not cached."""
    return float(_pld_curve(tuple(events), delta, np.array([len(events)]))[0])


def _basic_curve(events: tuple[Event, ...], delta: float, checkpoints: np.ndarray) -> Floats:
    return spent(events, "epsilon")[checkpoints]


def _zcdp_curve(events: tuple[Event, ...], delta: float, checkpoints: np.ndarray) -> Floats:
    return np.array([closed_forms.zcdp_epsilon(float(rho), delta) for rho in spent(events, "rho")[checkpoints]])


def _gdp_curve(events: tuple[Event, ...], delta: float, checkpoints: np.ndarray) -> Floats:
    reached = spent(events, "mu")[checkpoints]
    return np.array([closed_forms.gdp_epsilon(float(mu), delta) if mu > 0 else 0.0 for mu in reached])


def _rdp_curve(events: tuple[Event, ...], delta: float, checkpoints: np.ndarray) -> Floats:
    runs, ends = _runs(events)
    row: dict[Event, int] = {}
    owner = np.array([row.setdefault(event, len(row)) for event, _ in runs])
    divergences = _divergences(list(row))
    at_orders = divergences(closed_forms.ORDERS)
    lengths = np.array([length for _, length in runs])
    starts = np.cumsum(lengths) - lengths

    def at(count: int) -> float:
        times = np.bincount(owner, np.clip(ends[count] - starts, 0, lengths), len(row))
        used = times > 0  # 0 · ∞ is not a number
        return closed_forms.rdp_epsilon(
            lambda orders: times[used] @ divergences(orders)[used], delta, times[used] @ at_orders[used]
        )

    return np.array([at(int(count)) if count else 0.0 for count in checkpoints])


def _divergences(events: Sequence[Event]) -> Callable[[Floats], Floats]:
    """The function from k orders to the (len(events), k) Rényi divergences of events without `Seq`."""
    pure = np.array([[closed_forms.pure(event)] for event in events])
    mu = np.array([[event.mu if isinstance(event, Gaussian) else math.nan] for event in events])
    is_laplace = np.array([isinstance(event, Laplace) for event in events])
    finite = pure[:, 0] < math.inf
    laplace, other = is_laplace & finite, ~is_laplace & finite

    def table(orders: Floats) -> Floats:
        result = np.where(np.isnan(mu), math.inf, orders * mu**2 / 2)
        result[laplace] = closed_forms.laplace_rdp(pure[laplace], orders)
        result[other] = closed_forms.pure_rdp(pure[other], orders)
        return result

    return table


def _pld_curve(events: tuple[Event, ...], delta: float, checkpoints: np.ndarray) -> Floats:
    if not checkpoints.any():
        return np.zeros(len(checkpoints))
    runs, ends = _runs(events)
    try:
        return pld.curve(runs, ends[checkpoints], delta)
    except pld.AccountingLimit:
        return np.full(len(checkpoints), math.inf)


_CURVES: dict[Method, Callable[[tuple[Event, ...], float, np.ndarray], Floats]] = {
    "basic": _basic_curve,
    "zcdp": _zcdp_curve,
    "rdp": _rdp_curve,
    "gdp": _gdp_curve,
    "pld": _pld_curve,
}


@lru_cache(64)
def _runs(events: tuple[Event, ...]) -> tuple[list[tuple[Event, int]], np.ndarray]:
    """Runs (release, count) in time order that dominate the events, and the number of releases after each event.

    Releases have no `Seq`. Where very many differ, nearly equal ones are rounded up to a common one. Cached, because
    every accountant asks for the same events; not to be changed.
    """
    releases: list[Event] = []
    ends = [0]
    for event in events:
        if isinstance(event, Laplace | Gaussian):
            releases.append(event)
        else:
            releases.extend(_releases(event))
        ends.append(len(releases))
    runs = [(release, len(list(same))) for release, same in groupby(releases)]
    if len({release for release, _ in runs}) > MOST_EXACT:
        runs = pld.grouped(releases)
    return runs, np.array(ends)


def _releases(event: Event) -> list[Event]:
    """One event as releases that are composed: those of a `Seq`, one by one; else itself."""
    if isinstance(event, Seq):
        return [release for part in event.events for release in _releases(part)]
    return [closed_forms.dominating(event)]


# ----------------------------------------------------------------------------------------------------- attack readings


def tradeoff(events: Sequence[Event], false_positive_rates: ArrayLike) -> Floats:
    """Smallest false negative rate that a test between two neighbouring data sets can have at each false positive rate.

    f(α) = max(0, sup_ε 1 - δ(ε) - e^ε α) over the composed privacy profile (Dong, Roth, Su 2019). Exact for Gaussian
    noise on all rows and for one Laplace release; otherwise never above the true f, so an attack looks stronger.
    """
    alpha = np.asarray(false_positive_rates, dtype=float)
    if not events:
        return 1 - alpha
    pure, mu = total(events, "epsilon"), total(events, "mu")
    bounds = [closed_forms.pure_tradeoff(pure, alpha), closed_forms.gdp_tradeoff(mu, alpha)]
    if len(events) == 1 and isinstance(events[0], Laplace):
        bounds.append(closed_forms.laplace_tradeoff(pure, alpha))
    elif profile := _composed_profile(tuple(events)):
        bounds.append(_tradeoff_of_profile(profile, alpha.ravel()).reshape(alpha.shape))
    return np.max(bounds, axis=0)


def _tradeoff_of_profile(profile: closed_forms.Profile, alpha: Floats) -> Floats:
    """f at each α, (k,). What is maximised is concave in e^ε, so the best interval of a coarse grid is refined."""
    reach = 1.0
    while reach < 512 and profile(reach) > profile(2 * reach) + 1e-12:
        reach *= 2
    low, high = np.full(len(alpha), -reach), np.full(len(alpha), reach)
    rows = np.arange(len(alpha))
    for _ in range(5):
        grid = np.linspace(low, high, 65, axis=-1)
        heights = 1 - profile(grid) - np.exp(grid) * alpha[:, None]
        best = heights.argmax(axis=1)
        low, high = grid[rows, np.maximum(best - 1, 0)], grid[rows, np.minimum(best + 1, 64)]
    return np.clip(heights.max(axis=1) - 1e-15, 0.0, 1.0)  # rounding adds nothing


def advantage(events: Sequence[Event]) -> float:
    """The largest TPR - FPR of any such test: δ(0)."""
    if not events:
        return 0.0
    bounds = [closed_forms.pure_delta(total(events, "epsilon"), 0.0), closed_forms.gdp_delta(total(events, "mu"), 0.0)]
    if profile := _composed_profile(tuple(events)):
        bounds.append(profile(0.0))
    return float(min(bounds))


@lru_cache(16)
def _composed_profile(events: tuple[Event, ...]) -> closed_forms.Profile | None:
    """δ(ε) of all events together, for all real ε, accurate to about 1e-8; None where nothing tells or GDP is exact."""
    runs, _ = _runs(events)
    if all(isinstance(release, Gaussian) for release, _ in runs):
        return None
    if len(runs) == 1 and runs[0][1] == 1:
        return closed_forms.profile(runs[0][0])
    try:
        return closed_forms.mirrored(pld.compose(runs, 1e-6).delta)
    except pld.AccountingLimit:
        return None


# --------------------------------------------------------------------------------------------------------- conversions


def convert(budget: Budget, delta: float) -> dict[str, float | None]:
    """What a bare budget implies in the other currencies, for any algorithm that meets it; None where nothing follows.

    Keys: epsilon (pure), epsilon_at_delta, rho, mu. Upper bounds; a plan's own events usually read tighter.
    """
    if isinstance(budget, PureDP):
        return {
            "epsilon": budget.epsilon,
            "epsilon_at_delta": closed_forms.pure_epsilon(budget.epsilon, delta),
            "rho": closed_forms.pure_to_rho(budget.epsilon),
            "mu": closed_forms.pure_to_mu(budget.epsilon),
        }
    if isinstance(budget, ZeroConcentratedDP):
        at_delta = closed_forms.zcdp_epsilon(budget.rho, delta)
        return {"epsilon": None, "epsilon_at_delta": at_delta, "rho": budget.rho, "mu": None}
    if isinstance(budget, GaussianDP):
        at_delta = closed_forms.gdp_epsilon(budget.mu, delta)
        return {"epsilon": None, "epsilon_at_delta": at_delta, "rho": budget.mu**2 / 2, "mu": budget.mu}
    if isinstance(budget, ApproximateDP):
        if delta < budget.delta:
            return {"epsilon": None, "epsilon_at_delta": None, "rho": None, "mu": None}
        # The worst case fails openly with probability budget.delta and is ε-DP otherwise (Kairouz, Oh, Viswanath 2015).
        at_delta = closed_forms.pure_epsilon(budget.epsilon, (delta - budget.delta) / (1 - budget.delta))
        return {"epsilon": None, "epsilon_at_delta": at_delta, "rho": None, "mu": None}
    assert isinstance(budget, NoPrivacy)
    return {"epsilon": None, "epsilon_at_delta": None, "rho": None, "mu": None}


def budget_tradeoff(budget: Budget, false_positive_rates: ArrayLike) -> Floats:
    """Smallest false negative rate that a guarantee leaves an attacker at each false positive rate, for any algorithm.

    Exact worst case for pure ε, (ε, δ) and μ; for ρ a lower bound, from the worst δ(ε) of any ρ-zCDP algorithm. Without
    a guarantee it is 0.
    """
    alpha = np.asarray(false_positive_rates, dtype=float)
    if isinstance(budget, PureDP):
        return closed_forms.pure_tradeoff(budget.epsilon, alpha)
    if isinstance(budget, GaussianDP):
        return closed_forms.gdp_tradeoff(budget.mu, alpha)
    if isinstance(budget, ApproximateDP):
        grows, falls = math.exp(budget.epsilon), math.exp(-budget.epsilon)
        left = 1 - budget.delta
        return np.maximum(0.0, np.maximum(left - grows * alpha, falls * (left - alpha)))
    if isinstance(budget, ZeroConcentratedDP):
        # Every ε gives a valid bound on f, so a grid of them does; the last has a δ that no longer matters.
        top = min(700.0, closed_forms.zcdp_epsilon(budget.rho, 1e-12))
        size = np.append(0.0, np.geomspace(top / 1e4, top, 400))
        grid = np.concatenate([-size[:0:-1], size])
        profile = closed_forms.mirrored(lambda epsilon: closed_forms.zcdp_profile(budget.rho, epsilon))
        heights = 1 - profile(grid) - np.exp(grid) * alpha[..., None]
        return np.clip(heights.max(axis=-1), 0.0, 1.0)
    return np.zeros_like(alpha)


def budget_advantage(budget: Budget) -> float:
    """The largest TPR - FPR that a guarantee leaves any test between two neighbouring data sets: the worst δ(0)."""
    if isinstance(budget, PureDP):
        return float(closed_forms.pure_delta(budget.epsilon, 0.0))
    if isinstance(budget, GaussianDP):
        return float(closed_forms.gdp_delta(budget.mu, 0.0))
    if isinstance(budget, ApproximateDP):
        return budget.delta + (1 - budget.delta) * float(closed_forms.pure_delta(budget.epsilon, 0.0))
    return closed_forms.zcdp_delta(budget.rho, 0.0) if isinstance(budget, ZeroConcentratedDP) else 1.0
