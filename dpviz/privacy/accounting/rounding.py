"""Events in their simplest form, and long schedules rounded up to few different events, for speed.

`per_event.dominating` replaces a composite event by a simple one. Here its numbers become Python floats, so that events
of equal numbers compare equal, and in long schedules nearly equal events are replaced by the largest of them. Every
step is to the pessimistic side: what an event is replaced by protects no more than the event.
"""

import itertools
import math
from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

import numpy as np

from dpviz.privacy.accounting import per_event
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.events import Event, Gaussian, OneNumber, Parallel, Repeat, Seq, StatedApproximateDP, StatedZCDP, Sub

MAX_GROUPS = 120  # largest number of different events to which a long schedule is rounded
_MIN_PARAMETER = 1e-60  # a smaller ε, η, μ or ρ is raised to this, as its square would underflow
_MIN_WITH_DELTA = 1e-9  # a smaller ε of an (ε, δ) is raised to this, as the rounding errors of δ would exceed it


def releases_of(event: Event) -> list[tuple[Event, int]]:
    """Return the releases that an event consists of, as runs (release, count) of equal ones.

    They are the releases inside a `Seq` or a `Repeat`; any other event is one release.
    """
    if isinstance(event, Seq):
        return [run for part in event.events for run in releases_of(part)]
    if isinstance(event, Repeat):
        return [(release, count * event.times) for release, count in releases_of(event.event)]
    return [(event, 1)]


def simplified(event: Event) -> Event:
    """Return the simple event that dominates this one (`per_event.dominating`), with Python floats as parameters."""
    return _with_float(per_event.dominating(event))


def _with_float(event: Event) -> Event:
    """Return a simple event with Python floats as parameters, raised to the smallest allowed ones."""
    match event:
        case Sub(inner=inner):
            converted = _with_float(inner)
            return event if converted is inner else replace(event, inner=converted)
        case Parallel(events):
            return Parallel(tuple(_with_float(block) for block in events))
        case StatedApproximateDP(delta=delta):
            return StatedApproximateDP(max(parameter(event), _MIN_WITH_DELTA), float(delta))
        case OneNumber(parameter=number):
            if type(number) is float and number >= _MIN_PARAMETER:
                return event
            return type(event)(max(float(number), _MIN_PARAMETER))
        case Seq() | Repeat():
            raise TypeError(f"{event} is not simplified")
        case _:
            assert_never(event)


def parameter(event: Event) -> float:
    """Return the ε, η, μ or ρ of a simplified event.

    For a random batch it is that of the inner event; for blocks, the largest of theirs.
    """
    match event:
        case OneNumber(parameter=number) | StatedApproximateDP(eps=number):
            return float(number)
        case Parallel(events):
            return max(map(parameter, events))
        case Sub(inner=inner):
            return parameter(inner)
        case Seq() | Repeat():
            raise TypeError(f"{event} is not simplified")
        case _:
            assert_never(event)


def blocks_of(event: Event) -> tuple[Event, ...]:
    """Return the events on disjoint blocks of a simplified event, or the event as the only one if it has no blocks.

    For a random batch, they are those of the inner event.
    """
    inner = event.inner if isinstance(event, Sub) else event
    return inner.events if isinstance(inner, Parallel) else (inner,)


def log_strength(event: Event) -> float:
    """Return roughly the logarithm of the typical privacy loss of a simplified event.

    Of two events that differ in their parameter only, the one with the larger parameter has the larger result.
    """
    value = parameter(event)
    if value == math.inf:
        return math.inf
    inner = event.inner if isinstance(event, Sub) else event
    if isinstance(inner, Parallel):
        blocks = [replace(event, inner=block) if isinstance(event, Sub) else block for block in inner.events]
        return max(map(log_strength, blocks))
    if isinstance(inner, StatedZCDP):  # as Gaussian noise of μ = √(2ρ); sampling does not amplify a ρ
        return math.log(2 * value) / 2
    if not isinstance(event, Sub):
        return math.log(value)
    if not isinstance(inner, Gaussian):
        # The amplified ε; above 700 it is continued linearly, because events of different size must not count as equal.
        beyond = max(value - 700.0, 0.0)
        return math.log(math.log1p(event.m / event.n * math.expm1(min(value, 700.0))) + beyond)
    if value > 1e8:  # ln(μ²/2), as below without q, which makes no difference; μ² may overflow
        return 2 * math.log(value) - math.log(2)
    # Sampling shrinks √χ² = √(e^{μ²} - 1) of the noise by q = m/n, as it shrinks e^ε - 1 above. So the result is
    # ln ln(1 + e^size), where e^size = q √(e^{μ²} - 1).
    log_chi_square = value**2 + math.log(-math.expm1(-(value**2)))  # of e^{μ²} - 1
    size = math.log(event.m / event.n) + log_chi_square / 2
    if size <= -30:  # ln(1 + e^size) is e^size up to rounding
        return size
    return math.log(math.log1p(math.exp(size))) if size < 30 else math.log(size)  # ln(1 + e^size) is then `size`


def rounded_up(runs: Iterable[tuple[Event, int]], ratio: float = 1.02) -> list[tuple[Event, int]]:
    """Return runs (event, count) in time order with fewer different events: nearly equal ones are rounded up to one.

    Events of one kind, on batches drawn in the same way, whose typical losses differ by less than the factor `ratio`
    are replaced by the largest of them. The factor grows until at most MAX_GROUPS events are different.
    """
    runs = list(runs)
    distinct = list(dict.fromkeys(event for event, _ in runs))
    simple = [simplified(event) for event in distinct]
    families: dict[tuple[object, ...], list[int]] = {}  # indices into `simple`
    for i, event in enumerate(simple):
        families.setdefault(_family(event), []).append(i)
    strengths = [np.array([log_strength(simple[i]) for i in members]) for members in families.values()]
    replaced_by = np.arange(len(distinct))  # for each event, the index of the one that replaces it
    for attempt in itertools.count():
        step = math.log(ratio) * 1.1 ** max(0, attempt - 1)  # the second attempt changes the distances instead
        for members, strength in zip(families.values(), strengths, strict=True):
            # From the second attempt on, weak events are rounded more roughly than strong ones.
            distances = _flattened(strength) if attempt else strength
            replaced_by[members] = np.array(members)[_replacements(strength, distances, step)]
        if len(np.unique(replaced_by)) <= max(MAX_GROUPS, len(families)):  # each family keeps one event at least
            break
    replacement = {event: simple[index] for event, index in zip(distinct, replaced_by, strict=True)}
    return merged_runs((replacement[event], count) for event, count in runs)


def merged_runs(runs: Iterable[tuple[Event, int]]) -> list[tuple[Event, int]]:
    """Return the runs (event, count) in time order, with neighbouring runs of equal events put together."""
    merged: list[tuple[Event, int]] = []
    for event, count in runs:
        if merged and (merged[-1][0] is event or merged[-1][0] == event):  # `is` first: to compare takes longer
            merged[-1] = (merged[-1][0], merged[-1][1] + count)
        else:
            merged.append((event, count))
    return merged


def _family(event: Event) -> tuple[object, ...]:
    """Return a key of the family of a simplified event.

    Within a family, an event with a larger parameter dominates one with a smaller parameter.
    """
    inner = event.inner if isinstance(event, Sub) else event
    batch = (event.kind, event.m, event.n) if isinstance(event, Sub) else ()
    if isinstance(inner, Parallel):
        return inner, batch
    return type(inner), batch, inner.delta if isinstance(inner, StatedApproximateDP) else 0.0


def _replacements(strengths: Floats, distances: Floats, step: float) -> np.ndarray:
    """Return, for each entry, the index of the entry that replaces it, such that few are left.

    The replacement is at least as strong, and at most `step` away: from the strongest entry down, each group of entries
    within a step of its strongest one is replaced by that one.

    strengths : (k,). distances : (k,) the positions by which the step is measured, in the same order as the strengths,
        except that they may be equal where these are not.
    """
    order = np.argsort(strengths, kind="stable")
    ascending = distances[order]
    replaced_by = np.empty(len(order), dtype=int)
    last = len(order) - 1
    while last >= 0:
        # The minimum ends the loop even if rounding has disturbed the order of the distances.
        first = min(int(np.searchsorted(ascending, ascending[last] - step)), last)
        replaced_by[order[first : last + 1]] = order[last]
        last = first - 1
    return replaced_by


def _flattened(strengths: Floats) -> Floats:
    """Return positions in the order of the strengths, but closer together for strengths far below the typical one.

    Such weak events matter little for the total, so they may be rounded more roughly. The typical strength is the
    logarithm of the root mean square of the losses.
    """
    finite = strengths[np.isfinite(strengths)]
    if not len(finite):
        return strengths
    typical = finite.max() + math.log(np.mean(np.exp(2 * (finite - finite.max())))) / 2
    return np.logaddexp(strengths, math.log(0.1) + typical)  # below a tenth of the typical loss they flatten out
