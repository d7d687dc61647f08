"""Accountants: events in, privacy spent out, in every currency and by every method; the tightest one wins.

All functions consume events and know nothing else. A release without noise costs infinity everywhere.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np

from dpviz.arguments import Delta, checked
from dpviz.privacy.accounting import closed_forms, fine, per_event, pld
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.accounting.currencies import UNITS, Currency
from dpviz.privacy.accounting.rounding import merged_runs, releases_of, rounded_up
from dpviz.privacy.events import (
    Event,
    Gaussian,
    Parallel,
    Repeat,
    Seq,
    StatedApproximateDP,
    StatedZCDP,
    Sub,
    objects,
    of_each,
    relation,
)

Method = Literal["basic", "advanced", "optimal", "zcdp", "rdp", "gdp", "pld"]
METHODS: tuple[Method, ...] = get_args(Method)
METHOD_NAMES = MappingProxyType(
    {
        "basic": "basic composition",
        "advanced": "advanced composition",
        "optimal": "optimal composition",
        "zcdp": "zCDP",
        "rdp": "Rényi DP",
        "gdp": "Gaussian DP",
        "pld": "privacy loss distribution",
    }
)

Precision = Literal["normal", "fine"]
MOST_EXACT = 50  # so many different events are composed as they are; more are rounded up to fewer
MOST_FINE = 200  # where it may take seconds
MOST_REFINED = 4  # of different Gaussian releases on batches: the best order of more is one of the orders looked at
MOST_ADDED = 4000  # where costs are only added up, so many may differ


@dataclass(frozen=True)
class Reading:
    """ε at a δ: the smallest that any accountant proves, the method that proves it, and what the others say.

    precision : "normal" where losses were rounded to the grid that a slider needs, up to 0.2 % too large; "fine" where
        the grid was at least 20 times closer to the limit, or none was needed.
    """

    epsilon: float
    method: Method
    by_method: MappingProxyType[Method, float]
    precision: Precision = "normal"


def spent(events: Sequence[Event], currency: Currency) -> Floats:
    """(len(events) + 1,) spent after each event, 0 first; infinite where the currency does not exist.

    epsilon : basic composition of pure DP; rho : zCDP; mu : Gaussian DP. Raises UserError, as everything here, for
    batches that hold under different neighbouring relations.
    """
    unit = UNITS[currency]
    _one_relation(objects(events))
    return unit.added(np.array(of_each(events, unit.cost)))


def _one_relation(events: Collection[Event]) -> None:
    """Raises UserError where `events.relation` does; one batch of each kind tells as much as all of them."""
    batches = {event.kind: event for event in events if isinstance(event, Sub)}
    relation([*batches.values(), *(event for event in events if isinstance(event, (Seq, Repeat)))])


def total(events: Sequence[Event], currency: Currency) -> float:
    """Spent after all events."""
    return float(spent(events, currency)[-1])


def epsilon(events: Sequence[Event], delta: float, method: Method) -> float:
    """ε at δ of all events by one method; infinite where the method does not apply. Every value is an upper bound."""
    return float(epsilon_curve(tuple(events), delta, method, (len(events),))[0]) if events else 0.0


@checked
def tightest(
    events: Sequence[Event], delta: Delta, before: Sequence[Event] = (), precision: Precision = "normal"
) -> Reading:
    """The smallest proven ε at δ, and what every method that applies says.

    Parameters
    ----------
    events : sequence of Event
        Releases, in their order.
    delta : float
        In (0, 1).
    before : sequence of Event
        Releases on whose outcome the choice of `events` depends. Of the methods, only basic composition allows that, so
        their pure ε is added.
    precision : "normal" or "fine"
        "fine" asks for a finer grid of losses, which may take seconds; the reading says whether it was one.

    Returns
    -------
    Reading
        `epsilon`, infinite where no method applies; `method`; `by_method`.

    Raises
    ------
    UserError
        If the events hold under different neighbouring relations.

    Source
    ------
    `dpviz/privacy/THEORY.md`, sections 8 to 10; Rogers, Roth, Ullman, Vadhan (2016) for adaptive choices.

    >>> from dpviz.privacy.events import Laplace, Sub
    >>> reading = tightest([Sub("wor", 100, 1000, Laplace(1.0))] * 100, delta=1e-6)
    >>> reading.method, round(reading.epsilon, 2), round(reading.by_method["basic"], 2)
    ('pld', 5.24, 15.86)
    """
    _one_relation((*before, *events))
    paid = total(before, "epsilon")
    bounds = {method: paid + epsilon(events, delta, method) for method in METHODS}
    applies: dict[Method, float] = {method: value for method, value in bounds.items() if value < math.inf}
    best: Method = min(applies, key=applies.__getitem__, default="basic")
    reached: Precision = "normal"
    if precision == "fine" and best in applies:
        value = _fine_epsilon(tuple(events), delta, applies.get("pld", bounds[best]) - paid)
        if value is not None:
            applies["pld"], reached = min(paid + value, bounds["pld"]), "fine"
            best = min(applies, key=applies.__getitem__)
    return Reading(applies.get(best, math.inf), best, MappingProxyType(applies), reached)


def when_stopped(
    events: Sequence[Event], whole: Sequence[Event], delta: float, before: Sequence[Event] = ()
) -> Reading:
    """ε at δ of a fixed plan that was stopped, or may be, by whoever has seen its releases so far.

    It is the tightest reading of the whole plan, of which what was released is a function; or the ε of these releases
    added up, if that is less. Nothing else may read them, ρ and μ included: these bounds fail with probability δ at any
    one step, and whoever looks can stop at a step where they do.

    Parameters
    ----------
    events : sequence of Event
        What was released, the first of `whole`.
    whole, delta, before
        The plan, and as of `tightest`.

    Source
    ------
    `dpviz/privacy/THEORY.md`, section 8.

    >>> from dpviz.privacy.events import Laplace
    >>> plan = [Laplace(0.5)] * 60
    >>> [round(when_stopped(plan[:t], plan, delta=1e-6).epsilon, 2) for t in (20, 50, 60)]
    [10.0, 21.31, 21.31]
    >>> round(tightest(plan[:20], delta=1e-6).epsilon, 2)  # had one planned to stop there
    9.67
    """
    planned = tightest(whole, delta, before)
    added = total(before, "epsilon") + epsilon(events, delta, "basic")
    return planned if planned.epsilon <= added else Reading(added, "basic", MappingProxyType({"basic": added}))


@lru_cache(128)
def _fine_epsilon(events: tuple[Event, ...], delta: float, guess: float) -> float | None:
    """ε at δ by loss distributions on the fine grid, or exactly; None where that is too much.

    guess : an ε near it, such as that of the normal grid.
    """
    if not events or guess == 0:
        return 0.0
    if total(events, "mu") < math.inf and all(map(_is_gaussian, objects(events))):
        return epsilon(events, delta, "gdp")
    if len({release for event in objects(events) for release, _ in releases_of(event)}) > MOST_FINE:
        return None  # nearly equal events would be made equal, which costs more than the grid
    try:
        return fine.epsilon(pld.counted(runs_of(events, MOST_FINE)[0]), delta, guess)
    except pld.AccountingLimit:
        return None


def _is_gaussian(event: Event) -> bool:
    """Whether the releases inside are Gaussian noise on all rows, whose μ is exact."""
    return all(isinstance(release, Gaussian) for release, _ in releases_of(event))


@lru_cache(128)
def epsilon_curve(events: tuple[Event, ...], delta: float, method: Method, checkpoints: tuple[int, ...]) -> Floats:
    """(len(checkpoints),) ε at δ after the first t events, for each t. Read-only, cached.

    Under a fixed plan the value at t is the guarantee if one had planned to stop there.
    """
    counts = np.array(checkpoints, dtype=int)
    if method == "pld":
        result = _pld_curve(events, delta, counts)
    else:
        certain, log_certain = _without_failures(events)
        targets = -np.expm1(math.log1p(-delta) - log_certain[counts])  # 1 - (1 - δ) / Π (1 - δ_i)
        covered = targets > (-1e-12 if method == "basic" else 1e-12) * delta
        result = np.full(len(counts), math.inf)
        if covered.any():
            result[covered] = _CURVES[method](certain, targets[covered], counts[covered])
    result.setflags(write=False)
    return result


def pld_epsilon(events: Sequence[Event], delta: float) -> float:
    """ε at δ of all events from their privacy loss distributions; infinite where these do not apply. Not cached."""
    return float(_pld_curve(tuple(events), delta, np.array([len(events)]))[0])


def rough_pld_epsilon(events: Sequence[Event], delta: float) -> float:
    """The same on `pld.ROUGH_CELLS`: never below the ε of smallest provable size, and found sooner."""
    try:
        return max(side.epsilon(delta) for side in pld.compose(runs_of(tuple(events))[0], delta, pld.ROUGH_CELLS))
    except pld.AccountingLimit:
        return math.inf


def _basic_curve(events: tuple[Event, ...], _deltas: Floats, counts: np.ndarray) -> Floats:
    return spent(events, "epsilon")[counts]


def _advanced_curve(events: tuple[Event, ...], deltas: Floats, counts: np.ndarray) -> Floats:
    """√(2 ln(1/δ) Σ ε_i²) + Σ ε_i (e^{ε_i} - 1): Theorem 3.20 of Dwork and Roth 2014, for different ε_i."""
    _one_relation(events)
    squares, linear = np.zeros(len(events) + 1), np.zeros(len(events) + 1)
    for i, terms in enumerate(of_each(events, lambda event: _advanced_terms(releases_of(event))), 1):
        squares[i], linear[i] = terms
    squares, linear = np.cumsum(squares)[counts], np.cumsum(linear)[counts]
    return np.where(counts > 0, closed_forms.advanced_sum(squares, linear, deltas), 0.0)


def _advanced_terms(releases: Sequence[tuple[Event, int]]) -> tuple[float, float]:
    pure = [(per_event.pure(release), times) for release, times in releases]
    if any(epsilon > 700 for epsilon, _ in pure):  # e^ε overflows; of no use there
        return math.inf, math.inf
    return sum(k * e * e for e, k in pure), sum(k * e * math.expm1(e) for e, k in pure)


def _optimal_curve(events: tuple[Event, ...], deltas: Floats, counts: np.ndarray) -> Floats:
    """The best that releases of one and the same ε allow (Kairouz, Oh, Viswanath 2015); infinite once they differ."""
    runs, ends = runs_of(events, MOST_ADDED)
    release, same = runs[0]
    epsilon = per_event.pure(release)

    def at(count: int, delta: float) -> float:
        if count == 0:
            return 0.0
        return closed_forms.optimal(epsilon, count, delta) if count <= same and epsilon <= 700 else math.inf

    return np.array([at(count, delta) for count, delta in zip(ends[counts].tolist(), deltas.tolist(), strict=True)])


def _converted_curve(
    currency: Currency,
    epsilon_at: Callable[[float, float], float],
    events: tuple[Event, ...],
    deltas: Floats,
    counts: np.ndarray,
) -> Floats:
    """What is spent in a currency, as the ε at each δ that it implies."""
    pairs = zip(spent(events, currency)[counts].tolist(), deltas.tolist(), strict=True)
    return np.array([epsilon_at(*pair) for pair in pairs])


def _rdp_curve(events: tuple[Event, ...], deltas: Floats, counts: np.ndarray) -> Floats:
    runs, ends = runs_of(events, MOST_ADDED)
    if sampled := sum(map(_integrated, {event for event, _ in runs})):  # a divergence of a batch is an integral
        runs, ends = runs_of(events)
    row: dict[Event, int] = {}
    owner = np.array([row.setdefault(event, len(row)) for event, _ in runs])
    divergences = _divergences(list(row))
    few = np.linspace(0, len(closed_forms.ORDERS) - 1, 58).astype(int)  # enough to look at, as the best is refined
    orders = closed_forms.ORDERS if len(row) <= MOST_EXACT and not sampled else closed_forms.ORDERS[few]
    lengths = np.array([length for _, length in runs])
    starts = np.cumsum(lengths) - lengths
    done = np.clip(ends[counts][:, None] - starts, 0, lengths)  # of each run, at each checkpoint
    times = np.array([np.bincount(owner, part, len(row)) for part in done])

    def composed(at: Floats) -> Floats:
        each = divergences(at.ravel()).reshape(len(row), *at.shape)

        def added(values: Floats) -> Floats:
            return times @ values[:, 0] if len(at) == 1 else np.einsum("mr,rmk->mk", times, values)

        if (known := np.isfinite(each)).all():
            return added(each)
        return np.where(added(~known) > 0, math.inf, added(np.where(known, each, 0.0)))  # 0 · ∞ is not a number

    found = closed_forms.rdp_epsilon(composed, deltas, None, orders, refine=sampled <= MOST_REFINED)
    return np.where(counts > 0, found, 0.0)


def _divergences(events: Sequence[Event]) -> Callable[[Floats], Floats]:
    """The function from k orders to the (len(events), k) Rényi divergences of events without `Seq` and `Repeat`."""
    pure = np.array([[per_event.pure(event)] for event in events])
    # Gaussian noise and a bare ρ: proportional to the order.
    linear = np.array(
        [[per_event.rho(event)] if isinstance(event, (Gaussian, StatedZCDP)) else [math.inf] for event in events]
    )
    kinds = np.array([per_event.RDP_OF_PURE.get(type(event), closed_forms.pure_rdp) for event in events])
    kinds[~np.isfinite(pure[:, 0])] = None
    groups = [(formula, kinds == formula) for formula in set(kinds) - {None}]
    others = [i for i, event in enumerate(events) if isinstance(event, Parallel) or _integrated(event)]

    def table(orders: Floats) -> Floats:
        result = orders * linear
        for formula, rows in groups:
            result[rows] = formula(pure[rows], orders)
        for i in others:
            result[i] = per_event.rdp(events[i], orders)
        return result

    return table


def _integrated(event: Event) -> bool:
    """Whether the Rényi divergence of a release is found by integration: Gaussian noise on a batch, alone or beside
    other noise."""
    return isinstance(event, Sub) and isinstance(per_event.dominating(event.inner), Gaussian)


def _pld_curve(events: tuple[Event, ...], delta: float, counts: np.ndarray) -> Floats:
    if not counts.any():
        return np.zeros(len(counts))
    runs, ends = runs_of(events)
    try:
        return pld.curve(runs, ends[counts], delta)
    except pld.AccountingLimit:
        return np.full(len(counts), math.inf)


# (events, δ at each checkpoint, checkpoints) to ε at each; events that may fail openly have been taken out.
_CURVES: dict[Method, Callable[[tuple[Event, ...], Floats, np.ndarray], Floats]] = {
    "basic": _basic_curve,
    "advanced": _advanced_curve,
    "optimal": _optimal_curve,
    "zcdp": partial(_converted_curve, "rho", closed_forms.zcdp_epsilon),
    "rdp": _rdp_curve,
    "gdp": partial(_converted_curve, "mu", closed_forms.gdp_epsilon),
}


@lru_cache(64)
def runs_of(events: tuple[Event, ...], most: int = MOST_EXACT) -> tuple[list[tuple[Event, int]], np.ndarray]:
    """Runs (release, count) in time order that dominate the events, and the number of releases after each event.

    Releases have no `Seq` and no `Repeat`. Where more than `most` differ, nearly equal ones are rounded up to a common
    one.
    Cached, because every accountant asks for the same events; not to be changed.
    """
    runs: list[tuple[Event, int]] = []
    lengths = [0]
    for event, same in groupby(events):
        releases, times = releases_of(event), len(list(same))
        # Only what was released after a whole event is ever asked for, so its own order is free.
        runs += [(releases[0][0], times * releases[0][1])] if len(releases) == 1 else releases * times
        lengths += [sum(count for _, count in releases)] * times
    runs = merged_runs(runs)
    different = {release for release, _ in runs}
    _one_relation(list(different))
    if len(different) <= most:
        return runs, np.cumsum(lengths)
    return (rounded_up(runs), np.cumsum(lengths)) if most == MOST_EXACT else runs_of(events)  # both to the same few


def _without_failures(events: tuple[Event, ...]) -> tuple[tuple[Event, ...], Floats]:
    """The events as they are unless one fails openly, and (len(events) + 1,) ln of the chance that none of the first t
    does: an (ε, δ)-DP release fails with probability δ at worst and is ε-DP otherwise (Kairouz, Oh, Viswanath 2015)."""
    if not any(isinstance(event, (StatedApproximateDP, Seq, Repeat, Parallel)) for event in objects(events)):
        return events, np.zeros(len(events) + 1)
    certain, logs = zip(*of_each(events, per_event.without_failure), strict=True)
    return certain, np.cumsum([0.0, *logs])
