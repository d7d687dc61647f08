"""Accountants: functions that compute from events how much privacy the releases spend together.

Each currency (ε, ρ, μ) has its sum. Besides, several methods prove an ε at a given δ, and the smallest of these is the
reading that is displayed. The functions know nothing but the events. A release without noise costs infinity in every
currency and method.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

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
    distinct_objects,
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
# Largest numbers of different events that are composed as they are; with more, nearly equal ones are rounded up to
# common ones.
MAX_EXACT = 50  # for loss distributions, and for Rényi divergences that are integrals
MAX_FINE = 200  # for loss distributions on the fine grid, which may take seconds
MAX_ADDED = 4000  # for methods that only add up costs
# With more different Gaussian releases on batches than this, only the orders of the grid are tried, for speed.
MAX_REFINED = 4


@dataclass(frozen=True)
class Reading:
    """An ε for which all events together are (ε, δ)-DP, at one δ.

    epsilon : the smallest one that any method proves; infinite if no method applies.
    method : the method that proves it.
    by_method : the ε of every method that applies.
    precision : "normal" if losses were rounded to a grid that is fast enough for a slider, which makes ε up to 0.2 %
        too large; "fine" if the error is at least 20 times smaller, or no grid was needed.
    """

    epsilon: float
    method: Method
    by_method: MappingProxyType[Method, float]
    precision: Precision = "normal"


def spent(events: Sequence[Event], currency: Currency) -> Floats:
    """Return the amount spent in a currency before the first event and after each one, (len(events) + 1,).

    The currency is "epsilon" (pure ε, by basic composition), "rho" (zCDP) or "mu" (Gaussian DP). The amount is infinite
    from the first event on that has no cost in the currency. Raises UserError, like all functions here, if the random
    batches of the events hold under different neighbouring relations.
    """
    unit = UNITS[currency]
    _require_one_relation(distinct_objects(events))
    return unit.running_totals(np.array(of_each(events, unit.cost)))  # `of_each` computes the cost once per object


def _require_one_relation(events: Collection[Event]) -> None:
    """Raise UserError if the batches of the events hold under different neighbouring relations; see `events.relation`.

    To save time, that function is given only one event of each kind of batch, and the composite events.
    """
    batch_of_kind = {event.kind: event for event in events if isinstance(event, Sub)}
    composites = [event for event in events if isinstance(event, (Seq, Repeat))]
    relation([*batch_of_kind.values(), *composites])


def total(events: Sequence[Event], currency: Currency) -> float:
    """Return the amount that all events together spend in a currency: an ε, ρ or μ."""
    return float(spent(events, currency)[-1])


def epsilon(events: Sequence[Event], delta: float, method: Method) -> float:
    """Return an ε for which all events together are (ε, delta)-DP by one method; infinite if it does not apply."""
    return epsilon_curve(tuple(events), delta, method, (len(events),)).item() if events else 0.0


@checked
def tightest(
    events: Sequence[Event], delta: Delta, prior: Sequence[Event] = (), precision: Precision = "normal"
) -> Reading:
    """Return the smallest ε that any method proves for all events together, at a given δ, and the ε of every method.

    Parameters
    ----------
    events : sequence of Event
        Releases, in their order.
    delta : float
        The δ of (ε, δ)-DP, in (0, 1).
    prior : sequence of Event
        Releases on whose outcome the choice of `events` depends. Of the methods, only basic composition allows such a
        choice, so the pure ε of `prior` is added to the result.
    precision : "normal" or "fine"
        "fine" uses a finer grid of losses, which may take seconds; the reading says which precision was reached.

    Returns
    -------
    Reading
        `epsilon`, infinite if no method applies; `method`; `by_method`; `precision`.

    Raises
    ------
    UserError
        If the events hold under different neighbouring relations.

    Source
    ------
    `dpviz/privacy/THEORY.md`, sections 8 to 10; Rogers, Roth, Ullman, Vadhan (2016) for adaptive choices.

    >>> from dpviz.privacy.events import Laplace, Sub
    >>> import dpviz
    >>> reading = dpviz.tightest([Sub("wor", 100, 1000, Laplace(1.0))] * 100, delta=1e-6)
    >>> reading.method, round(reading.epsilon, 2), round(reading.by_method["basic"], 2)
    ('pld', 5.24, 15.86)
    """
    _require_one_relation((*prior, *events))
    prior_epsilon = total(prior, "epsilon")
    bounds = {method: prior_epsilon + epsilon(events, delta, method) for method in METHODS}
    finite: dict[Method, float] = {method: value for method, value in bounds.items() if value < math.inf}
    best: Method = min(finite, key=finite.__getitem__, default="basic")
    reached_precision: Precision = "normal"
    if precision == "fine" and best in finite:  # otherwise no method proves an ε
        guess = finite.get("pld", bounds[best]) - prior_epsilon  # of `events` alone
        fine_epsilon = _fine_epsilon(tuple(events), delta, guess)
        if fine_epsilon is not None:
            finite["pld"] = min(prior_epsilon + fine_epsilon, bounds["pld"])
            reached_precision = "fine"
            best = min(finite, key=finite.__getitem__)
    return Reading(finite.get(best, math.inf), best, MappingProxyType(finite), reached_precision)


def when_stopped(events: Sequence[Event], whole: Sequence[Event], delta: float, prior: Sequence[Event] = ()) -> Reading:
    """Return the ε at a given δ of the first releases of a fixed plan, if the decision to stop there depends on them.

    It is the smaller one of two: the tightest ε of the whole plan, because the releases so far are a function of those
    of the whole plan; and the sum of the pure ε of the releases so far. No other method is valid for these alone, ρ and
    μ included: such a bound fails with probability δ at any given step, and an observer could stop at a step where it
    does.

    Parameters
    ----------
    events : sequence of Event
        The releases so far: the first ones of `whole`.
    whole : sequence of Event
        All releases of the plan.
    delta, prior
        As in `tightest`.

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
    of_plan = tightest(whole, delta, prior)
    basic = total(prior, "epsilon") + epsilon(events, delta, "basic")
    return of_plan if of_plan.epsilon <= basic else Reading(basic, "basic", MappingProxyType({"basic": basic}))


@lru_cache(128)
def _fine_epsilon(events: tuple[Event, ...], delta: float, guess: float) -> float | None:
    """Return ε at δ of all events by loss distributions on the fine grid, or exactly for Gaussian noise on all rows.

    guess : an ε near the result, such as that of the normal grid.

    The result is None if it takes too much memory or time.
    """
    if not events or guess == 0:
        return 0.0
    distinct = {release for event in distinct_objects(events) for release, _ in releases_of(event)}
    if all(isinstance(release, Gaussian) for release in distinct) and total(events, "mu") < math.inf:  # ∞ without noise
        return epsilon(events, delta, "gdp")
    if len(distinct) > MAX_FINE:
        return None  # nearly equal events would be rounded to equal ones, at a larger error than that of the grid
    try:
        runs, _ = runs_of(events, MAX_FINE)
        return fine.epsilon(pld.count_releases(runs), delta, guess)
    except pld.AccountingLimit:
        return None


@lru_cache(128)
def epsilon_curve(events: tuple[Event, ...], delta: float, method: Method, checkpoints: tuple[int, ...]) -> Floats:
    """Return, for each t in `checkpoints`, the ε at δ that one method proves for the first t events together.

    The result has shape (len(checkpoints),), is read-only and cached. Under a fixed plan the value at t is the
    guarantee if one had planned in advance to stop after t events.
    """
    counts = np.array(checkpoints, dtype=int)
    if method == "pld":
        result = _pld_curve(events, delta, counts)
    else:
        # Releases that fail openly with a probability δ_i use up a part of δ; the method may use what remains. (To a
        # loss distribution, a failure is an infinite loss like others.)
        without_failure, log_certain = without_failures(events)
        remaining_deltas = -np.expm1(math.log1p(-delta) - log_certain[counts])  # 1 - (1 - δ) / Π (1 - δ_i)
        # Basic composition needs no δ itself, so what remains may be 0, up to rounding.
        is_feasible = remaining_deltas > (-1e-12 if method == "basic" else 1e-12) * delta
        result = np.full(len(counts), math.inf)
        if is_feasible.any():
            result[is_feasible] = _CURVES[method](without_failure, remaining_deltas[is_feasible], counts[is_feasible])
    result.setflags(write=False)
    return result


def pld_epsilon(events: Sequence[Event], delta: float) -> float:
    """Return ε at δ of all events from their loss distributions; infinite if these do not apply. Not cached."""
    return _pld_curve(tuple(events), delta, counts=np.array([len(events)])).item()


def rough_pld_epsilon(events: Sequence[Event], delta: float) -> float:
    """Return an upper bound on ε at δ of all events from loss distributions; infinite if these do not apply.

    The grid has at most `pld.ROUGH_CELLS` per event, so it is coarser and faster than that of `pld_epsilon`.
    """
    try:
        runs, _ = runs_of(tuple(events))
        directions = pld.compose(runs, delta, max_cells=pld.ROUGH_CELLS)
        return max(direction.epsilon(delta) for direction in directions)
    except pld.AccountingLimit:
        return math.inf


# The curves of the methods have the same arguments and result:
#   events : without open failures, see `without_failures`.
#   deltas, counts : (m,) the δ and the number of events t at each checkpoint.
#   result : (m,) the ε of the first t events together at each checkpoint.


def _basic_curve(events: tuple[Event, ...], _deltas: Floats, counts: np.ndarray) -> Floats:
    """Return the sum of the events' pure ε."""
    return spent(events, "epsilon")[counts]


def _advanced_curve(events: tuple[Event, ...], deltas: Floats, counts: np.ndarray) -> Floats:
    """Return √(2 ln(1/δ) Σ ε_i²) + Σ ε_i (e^{ε_i} - 1), advanced composition (Dwork and Roth 2014, Theorem 3.20)."""
    _require_one_relation(events)
    squares, linear = np.zeros(len(events) + 1), np.zeros(len(events) + 1)
    for i, terms in enumerate(of_each(events, _advanced_terms), 1):
        squares[i], linear[i] = terms
    squares, linear = np.cumsum(squares)[counts], np.cumsum(linear)[counts]
    return np.where(counts > 0, closed_forms.advanced_sum(squares, linear, deltas), 0.0)


def _advanced_terms(event: Event) -> tuple[float, float]:
    """Return Σ ε_i² and Σ ε_i (e^{ε_i} - 1) of the releases of an event, the two sums of `_advanced_curve`."""
    epsilons = [(per_event.pure(release), times) for release, times in releases_of(event)]
    if any(e > 700 for e, _ in epsilons):  # e^ε overflows, and other methods are better there
        return math.inf, math.inf
    return sum(k * e * e for e, k in epsilons), sum(k * e * math.expm1(e) for e, k in epsilons)


def _optimal_curve(events: tuple[Event, ...], deltas: Floats, counts: np.ndarray) -> Floats:
    """Return the smallest ε that holds for any releases with the same pure ε as the events (Kairouz, Oh, Viswanath
    2015); infinite at checkpoints after releases that differ."""
    runs, ends = runs_of(events, MAX_ADDED)  # ends[t] releases are in the first t events
    release, n_equal = runs[0]  # the first release, and the number of equal ones before one that differs
    step_epsilon = per_event.pure(release)

    def epsilon_at(count: int, delta: float) -> float:
        if count == 0:
            return 0.0
        if count > n_equal or step_epsilon > 700:  # e^ε would overflow
            return math.inf
        return closed_forms.optimal_epsilon(step_epsilon, count, delta)

    return np.array(list(map(epsilon_at, ends[counts].tolist(), deltas.tolist())))


def _converted_curve(
    currency: Currency,
    epsilon_at: Callable[[float, float], float],
    events: tuple[Event, ...],
    deltas: Floats,
    counts: np.ndarray,
) -> Floats:
    """Return the ε that follows from the amount spent in a currency; epsilon_at(amount, δ) converts one amount."""
    return np.array(list(map(epsilon_at, spent(events, currency)[counts].tolist(), deltas.tolist())))


def _rdp_curve(events: tuple[Event, ...], deltas: Floats, counts: np.ndarray) -> Floats:
    """Return the ε that follows from the sum of the events' Rényi divergences, at the best order of each checkpoint."""
    runs, ends = runs_of(events, MAX_ADDED)  # ends[t] releases are in the first t events
    n_integrals = sum(map(_is_integrated, {event for event, _ in runs}))  # events whose divergences are integrals
    if n_integrals:  # these take long, so fewer different events are allowed
        runs, ends = runs_of(events, MAX_EXACT)
    index_of_event = {event: i for i, event in enumerate(dict.fromkeys(event for event, _ in runs))}
    event_of_run = np.array([index_of_event[event] for event, _ in runs])
    divergences = _divergences(list(index_of_event))
    orders = closed_forms.ORDERS
    if len(index_of_event) > MAX_EXACT or n_integrals:
        # Fewer orders, for speed: about every seventh. Where `refine` is true below, little is lost.
        orders = orders[np.linspace(0, len(orders) - 1, 58).astype(int)]
    lengths = np.array([length for _, length in runs])
    starts = np.cumsum(lengths) - lengths
    done_of_run = np.clip(ends[counts][:, None] - starts, 0, lengths)  # (m, runs) releases of each run so far
    times = np.array(  # (m, events)
        [np.bincount(event_of_run, weights=done, minlength=len(index_of_event)) for done in done_of_run]
    )

    def composed(alpha: Floats) -> Floats:
        """Return the divergences (m, k) at the m checkpoints: each at k orders of its own (m, k), or all at (1, k)."""
        of_event = divergences(alpha.ravel()).reshape(len(index_of_event), *alpha.shape)

        def summed(values: Floats) -> Floats:
            """Return the sums (m, k) over the events of values (events, m or 1, k), weighted by `times` (m, events)."""
            return times @ values[:, 0] if len(alpha) == 1 else np.einsum("me,emk->mk", times, values)

        is_finite = np.isfinite(of_event)
        if is_finite.all():
            return summed(of_event)
        # An infinite divergence counts only where the event occurs; 0 · ∞ is not a number.
        infinite_count = summed(~is_finite)
        return np.where(infinite_count > 0, math.inf, summed(np.where(is_finite, of_event, 0.0)))

    epsilons = closed_forms.rdp_epsilon(composed, deltas, orders=orders, refine=n_integrals <= MAX_REFINED)
    return np.where(counts > 0, epsilons, 0.0)


def _divergences(events: Sequence[Event]) -> Callable[[Floats], Floats]:
    """Return the function that maps k orders to the (len(events), k) Rényi divergences of the events.

    It computes all events that share a formula in one call. No event may be a `Seq` or a `Repeat`.
    """
    pure = np.array([[per_event.pure(event)] for event in events])
    # The divergences of Gaussian noise and of a stated ρ are ρ times the order.
    slope = np.array(
        [[per_event.rho(event)] if isinstance(event, (Gaussian, StatedZCDP)) else [math.inf] for event in events]
    )
    # Events with a pure ε have a formula in it.
    indices_of_formula: dict[Callable[[ArrayLike, Floats], Floats], list[int]] = {}
    for i, event in enumerate(events):
        if pure[i, 0] < math.inf:
            formula = per_event.RDP_OF_PURE.get(type(event), closed_forms.pure_rdp)
            indices_of_formula.setdefault(formula, []).append(i)
    others = [i for i, event in enumerate(events) if isinstance(event, Parallel) or _is_integrated(event)]

    def divergences_at(orders: Floats) -> Floats:
        result = orders * slope  # (events, k); infinite for those of a formula and of `others`
        for formula, indices in indices_of_formula.items():
            result[indices] = formula(pure[indices], orders)
        for i in others:  # a `Parallel` may have a pure ε, too; its own divergences are smaller
            result[i] = per_event.rdp(events[i], orders)
        return result

    return divergences_at


def _is_integrated(event: Event) -> bool:
    """Return whether the Rényi divergence of a release is computed as an integral: that of a batch whose inner event is
    Gaussian noise, or a mixture that a Gaussian release dominates."""
    return isinstance(event, Sub) and isinstance(per_event.dominating(event.inner), Gaussian)


def _pld_curve(events: tuple[Event, ...], delta: float, counts: np.ndarray) -> Floats:
    """Return ε at δ after the first t events, for each t in `counts`, by loss distributions; infinite if these do not
    apply or take too much time or memory."""
    runs, ends = runs_of(events)  # ends[t] releases are in the first t events
    try:
        return pld.curve(runs, ends[counts], delta)
    except pld.AccountingLimit:
        return np.full(len(counts), math.inf)


_CURVES: dict[Method, Callable[[tuple[Event, ...], Floats, np.ndarray], Floats]] = {
    "basic": _basic_curve,
    "advanced": _advanced_curve,
    "optimal": _optimal_curve,
    "zcdp": partial(_converted_curve, "rho", closed_forms.zcdp_epsilon),
    "rdp": _rdp_curve,
    "gdp": partial(_converted_curve, "mu", closed_forms.gdp_epsilon),
}


@lru_cache(64)
def runs_of(events: tuple[Event, ...], max_distinct: int = MAX_EXACT) -> tuple[list[tuple[Event, int]], np.ndarray]:
    """Return the events as runs (release, count) of equal releases in time order, and the number of releases before the
    first event and after each one, (len(events) + 1,).

    No release is a `Seq` or a `Repeat`; these are replaced by the releases inside. If more than `max_distinct` are
    different, nearly equal ones are rounded up to a common one, which protects less. The result is cached, because
    every accountant needs the runs of the same events; the caller must not change it.
    """
    runs: list[tuple[Event, int]] = []
    lengths = [0]
    for event, equal_events in groupby(events):
        releases, times = releases_of(event), len(list(equal_events))
        # The order of the releases inside an event is free, as checkpoints are at the ends of events.
        if len(releases) == 1:
            ((release, count),) = releases
            runs.append((release, times * count))
        else:
            runs += releases * times
        lengths += [sum(count for _, count in releases)] * times
    runs = merged_runs(runs)
    different = {release for release, _ in runs}
    _require_one_relation(list(different))
    if len(different) <= max_distinct:
        return runs, np.cumsum(lengths)
    if max_distinct == MAX_EXACT:
        return rounded_up(runs), np.cumsum(lengths)
    return runs_of(events)  # with the limit MAX_EXACT, so that events are always rounded to the same few


def without_failures(events: tuple[Event, ...]) -> tuple[tuple[Event, ...], Floats]:
    """Return the events without their open failures, and the logarithm of the probability that none of the first t
    events fails, for t = 0, 1, …, (len(events) + 1,).

    At worst, an (ε, δ)-DP release fails openly, which means that it reveals everything, with probability δ, and is ε-DP
    otherwise (Kairouz, Oh, Viswanath 2015).
    """
    if not any(isinstance(event, (StatedApproximateDP, Seq, Repeat, Parallel)) for event in distinct_objects(events)):
        return events, np.zeros(len(events) + 1)
    without_failure, log_probabilities = zip(*of_each(events, per_event.without_failure), strict=True)
    return without_failure, np.cumsum([0.0, *log_probabilities])
