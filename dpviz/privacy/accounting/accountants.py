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
MOST_EXACT = 50  # different events that are composed as they are; more are rounded up to fewer
MOST_FINE = 200  # the same on the fine grid, which may take seconds
MOST_REFINED = 4  # different Gaussian releases on batches for which the best order is refined beyond the grid of orders
MOST_ADDED = 4000  # different events where costs are only added up


@dataclass(frozen=True)
class Reading:
    """ε at a δ: the smallest that any accountant proves, the method that proves it, and the ε of every method.

    precision : "normal" where losses were rounded to the grid that a slider needs, up to 0.2 % too large; "fine" where
        the grid was at least 20 times closer to the limit, or none was needed.
    """

    epsilon: float
    method: Method
    by_method: MappingProxyType[Method, float]
    precision: Precision = "normal"


def spent(events: Sequence[Event], currency: Currency) -> Floats:
    """Return (len(events) + 1,) the amount spent after each event, 0 first; infinite where the currency does not exist.

    epsilon : basic composition of pure DP; rho : zCDP; mu : Gaussian DP. Raises UserError, as everything here, for
    batches that hold under different neighbouring relations.
    """
    unit = UNITS[currency]
    _require_one_relation(objects(events))
    return unit.added(np.array(of_each(events, unit.cost)))


def _require_one_relation(events: Collection[Event]) -> None:
    """Raise UserError where `events.relation` does; one batch of each kind tells as much as all of them."""
    batches = {event.kind: event for event in events if isinstance(event, Sub)}
    relation([*batches.values(), *(event for event in events if isinstance(event, (Seq, Repeat)))])


def total(events: Sequence[Event], currency: Currency) -> float:
    """Return the amount spent after all events, in the unit of the currency: ε, ρ or μ."""
    return float(spent(events, currency)[-1])


def epsilon(events: Sequence[Event], delta: float, method: Method) -> float:
    """Return ε at δ of all events by one method, an upper bound; infinite where the method does not apply."""
    return float(epsilon_curve(tuple(events), delta, method, (len(events),))[0]) if events else 0.0


@checked
def tightest(
    events: Sequence[Event], delta: Delta, prior: Sequence[Event] = (), precision: Precision = "normal"
) -> Reading:
    """Return the smallest proven ε at δ, and the ε of every method that applies.

    Parameters
    ----------
    events : sequence of Event
        Releases, in their order.
    delta : float
        In (0, 1).
    prior : sequence of Event
        Releases on whose outcome the choice of `events` depends. Of the methods, only basic composition allows that, so
        their pure ε is added.
    precision : "normal" or "fine"
        "fine" asks for a finer grid of losses, which may take seconds; the reading has the precision that was reached.

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
    _require_one_relation((*prior, *events))
    paid = total(prior, "epsilon")
    bounds = {method: paid + epsilon(events, delta, method) for method in METHODS}
    finite: dict[Method, float] = {method: value for method, value in bounds.items() if value < math.inf}
    best: Method = min(finite, key=finite.__getitem__, default="basic")
    result_precision: Precision = "normal"
    if precision == "fine" and best in finite:
        value = _fine_epsilon(tuple(events), delta, finite.get("pld", bounds[best]) - paid)
        if value is not None:
            finite["pld"], result_precision = min(paid + value, bounds["pld"]), "fine"
            best = min(finite, key=finite.__getitem__)
    return Reading(finite.get(best, math.inf), best, MappingProxyType(finite), result_precision)


def when_stopped(events: Sequence[Event], whole: Sequence[Event], delta: float, prior: Sequence[Event] = ()) -> Reading:
    """Return ε at δ of a fixed plan that was stopped, or may be, by an observer of its releases so far.

    It is the smaller of the tightest ε of the whole plan, of which the releases so far are a function, and the ε of
    these releases added up. No other method is valid for them, ρ and μ included: such a bound fails with probability δ
    at any one step, and an observer can stop at a step where it does.

    Parameters
    ----------
    events : sequence of Event
        The releases so far, the first of `whole`.
    whole : sequence of Event
        The plan.
    delta, prior
        As of `tightest`.

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
    planned = tightest(whole, delta, prior)
    added = total(prior, "epsilon") + epsilon(events, delta, "basic")
    return planned if planned.epsilon <= added else Reading(added, "basic", MappingProxyType({"basic": added}))


@lru_cache(128)
def _fine_epsilon(events: tuple[Event, ...], delta: float, guess: float) -> float | None:
    """Return ε at δ by loss distributions on the fine grid, or exactly; None where that takes too much memory or time.

    guess : an ε near the result, such as that of the normal grid.
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
    """Return whether all releases inside the event are Gaussian noise on all rows, whose μ is exact."""
    return all(isinstance(release, Gaussian) for release, _ in releases_of(event))


@lru_cache(128)
def epsilon_curve(events: tuple[Event, ...], delta: float, method: Method, checkpoints: tuple[int, ...]) -> Floats:
    """Return (len(checkpoints),) ε at δ after the first t events, for each t in `checkpoints`; read-only and cached.

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
    """Return ε at δ of all events from their privacy loss distributions; infinite where these fail. Not cached."""
    return float(_pld_curve(tuple(events), delta, np.array([len(events)]))[0])


def rough_pld_epsilon(events: Sequence[Event], delta: float) -> float:
    """Return an upper bound on ε at δ of all events by loss distributions on `pld.ROUGH_CELLS`: coarser and sooner than
    `pld_epsilon`; infinite where these do not apply."""
    try:
        return max(side.epsilon(delta) for side in pld.compose(runs_of(tuple(events))[0], delta, pld.ROUGH_CELLS))
    except pld.AccountingLimit:
        return math.inf


def _basic_curve(events: tuple[Event, ...], _deltas: Floats, counts: np.ndarray) -> Floats:
    return spent(events, "epsilon")[counts]


def _advanced_curve(events: tuple[Event, ...], deltas: Floats, counts: np.ndarray) -> Floats:
    """Return √(2 ln(1/δ) Σ ε_i²) + Σ ε_i (e^{ε_i} - 1) at each checkpoint (Dwork and Roth 2014, Theorem 3.20)."""
    _require_one_relation(events)
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
    """Return the smallest ε at each checkpoint that holds for all releases of one and the same ε (Kairouz, Oh,
    Viswanath 2015); infinite once they differ."""
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
    """Return the ε at each checkpoint and its δ that the amount spent in a currency implies."""
    pairs = zip(spent(events, currency)[counts].tolist(), deltas.tolist(), strict=True)
    return np.array([epsilon_at(*pair) for pair in pairs])


def _rdp_curve(events: tuple[Event, ...], deltas: Floats, counts: np.ndarray) -> Floats:
    """Return ε at each checkpoint by Rényi divergences, each with its best order."""
    runs, ends = runs_of(events, MOST_ADDED)
    if sampled := sum(map(_is_integrated, {event for event, _ in runs})):  # a divergence of a batch is an integral
        runs, ends = runs_of(events)
    row: dict[Event, int] = {}
    owner = np.array([row.setdefault(event, len(row)) for event, _ in runs])
    divergences = _divergences(list(row))
    coarse = np.linspace(0, len(closed_forms.ORDERS) - 1, 58).astype(int)  # enough, as the best is refined
    orders = closed_forms.ORDERS if len(row) <= MOST_EXACT and not sampled else closed_forms.ORDERS[coarse]
    lengths = np.array([length for _, length in runs])
    starts = np.cumsum(lengths) - lengths
    done = np.clip(ends[counts][:, None] - starts, 0, lengths)  # of each run, at each checkpoint
    times = np.array([np.bincount(owner, part, len(row)) for part in done])

    def composed(at: Floats) -> Floats:
        each = divergences(at.ravel()).reshape(len(row), *at.shape)

        def added(values: Floats) -> Floats:
            return times @ values[:, 0] if len(at) == 1 else np.einsum("mr,rmk->mk", times, values)

        if (is_finite := np.isfinite(each)).all():
            return added(each)
        return np.where(added(~is_finite) > 0, math.inf, added(np.where(is_finite, each, 0.0)))  # 0 · ∞ is not a number

    epsilons = closed_forms.rdp_epsilon(composed, deltas, None, orders, refine=sampled <= MOST_REFINED)
    return np.where(counts > 0, epsilons, 0.0)


def _divergences(events: Sequence[Event]) -> Callable[[Floats], Floats]:
    """Return the function from k orders to (len(events), k) Rényi divergences; no event is a `Seq` or a `Repeat`."""
    pure = np.array([[per_event.pure(event)] for event in events])
    # Gaussian noise and a bare ρ: proportional to the order.
    linear = np.array(
        [[per_event.rho(event)] if isinstance(event, (Gaussian, StatedZCDP)) else [math.inf] for event in events]
    )
    kinds = np.array([per_event.RDP_OF_PURE.get(type(event), closed_forms.pure_rdp) for event in events])
    kinds[~np.isfinite(pure[:, 0])] = None
    groups = [(formula, kinds == formula) for formula in set(kinds) - {None}]
    others = [i for i, event in enumerate(events) if isinstance(event, Parallel) or _is_integrated(event)]

    def table(orders: Floats) -> Floats:
        result = orders * linear
        for formula, rows in groups:
            result[rows] = formula(pure[rows], orders)
        for i in others:
            result[i] = per_event.rdp(events[i], orders)
        return result

    return table


def _is_integrated(event: Event) -> bool:
    """Return whether the Rényi divergence of a release is an integral: a batch with Gaussian or mixed noise."""
    return isinstance(event, Sub) and isinstance(per_event.dominating(event.inner), Gaussian)


def _pld_curve(events: tuple[Event, ...], delta: float, counts: np.ndarray) -> Floats:
    """Return ε at each checkpoint by loss distributions; infinite where these are not affordable."""
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
def runs_of(events: tuple[Event, ...], max_distinct: int = MOST_EXACT) -> tuple[list[tuple[Event, int]], np.ndarray]:
    """Return runs (release, count) in time order that dominate the events, and the number of releases after each event.

    Releases have no `Seq` and no `Repeat`. Where more than `max_distinct` differ, nearly equal ones are rounded up to a
    common one. Cached, because every accountant needs the runs of the same events; not to be changed.
    """
    runs: list[tuple[Event, int]] = []
    lengths = [0]
    for event, same in groupby(events):
        releases, times = releases_of(event), len(list(same))
        # Checkpoints are at the ends of events, so the order of the releases inside of one is free.
        runs += [(releases[0][0], times * releases[0][1])] if len(releases) == 1 else releases * times
        lengths += [sum(count for _, count in releases)] * times
    runs = merged_runs(runs)
    different = {release for release, _ in runs}
    _require_one_relation(list(different))
    if len(different) <= max_distinct:
        return runs, np.cumsum(lengths)
    if max_distinct == MOST_EXACT:
        return rounded_up(runs), np.cumsum(lengths)
    return runs_of(events)  # rounded to the same few events for every limit


def _without_failures(events: tuple[Event, ...]) -> tuple[tuple[Event, ...], Floats]:
    """Return the events without their open failures, and (len(events) + 1,) ln of the chance that none of the first t
    events fails: an (ε, δ)-DP release fails with probability δ at worst, else it is ε-DP (Kairouz, Oh, Viswanath
    2015)."""
    if not any(isinstance(event, (StatedApproximateDP, Seq, Repeat, Parallel)) for event in objects(events)):
        return events, np.zeros(len(events) + 1)
    certain, logs = zip(*of_each(events, per_event.without_failure), strict=True)
    return certain, np.cumsum([0.0, *logs])
