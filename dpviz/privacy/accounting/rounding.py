"""Events in their simplest form, and long schedules rounded up to few different events. Never to the optimistic side.

`per_event.dominating` replaces a composite event by a single one. Here its numbers become Python floats, so that equal
events are one, and nearly equal events become the largest of them.
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

MOST_GROUPS = 120  # distinct events that a long schedule is rounded to
_MIN_PARAMETER = 1e-60  # squares of smaller ones would vanish
_MIN_WITH_DELTA = 1e-9  # ε with a δ, in whose rounding errors a smaller one would drown


def releases_of(event: Event) -> list[tuple[Event, int]]:
    """Return one event as runs of releases that are composed: those of a `Seq` or a `Repeat`; else itself, once."""
    if isinstance(event, Seq):
        return [run for part in event.events for run in releases_of(part)]
    if isinstance(event, Repeat):
        return [(release, count * event.times) for release, count in releases_of(event.event)]
    return [(event, 1)]


def simplified(event: Event) -> Event:
    """Return the event that dominates this one as in `per_event.dominating`, its parameters Python floats."""
    return _with_float(per_event.dominating(event))


def _with_float(event: Event) -> Event:
    """Return a simplified event with Python floats, not below the smallest parameters."""
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
    """Return the ε, η, μ or ρ of a simplified event: of the inner one under sampling, the largest one of blocks."""
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
    """Return the blocks of a simplified event, or of its inner one under sampling; itself if there are none."""
    inner = event.inner if isinstance(event, Sub) else event
    return inner.events if isinstance(inner, Parallel) else (inner,)


def log_strength(event: Event) -> float:
    """Return the logarithm of the rough size of a simplified event's loss; increases with its parameter."""
    value = parameter(event)
    if value == math.inf:
        return math.inf
    inner = event.inner if isinstance(event, Sub) else event
    if isinstance(inner, Parallel):
        return max(
            log_strength(replace(event, inner=block) if isinstance(event, Sub) else block) for block in inner.events
        )
    if isinstance(inner, StatedZCDP):  # batches do not amplify it
        return math.log(2 * value) / 2
    if not isinstance(event, Sub):
        return math.log(value)
    if not isinstance(inner, Gaussian):
        beyond = max(value - 700.0, 0.0)  # else useless events of different size would count as equal, and round down
        return math.log(math.log1p(event.m / event.n * math.expm1(min(value, 700.0))) + beyond)
    if value > 1e8:  # the batch makes no difference, and μ² may overflow
        return 2 * math.log(value) - math.log(2)
    chi_square = value**2 + math.log(-math.expm1(-(value**2)))  # in logarithms, e^{μ²} - 1
    size = math.log(event.m / event.n) + chi_square / 2
    return math.log(math.log1p(math.exp(size))) if -30 < size < 30 else (size if size < 0 else math.log(size))


def rounded_up(runs: Iterable[tuple[Event, int]], ratio: float = 1.02) -> list[tuple[Event, int]]:
    """Return runs (event, count) in time order, nearly equal events rounded up to a common one, so that few differ.

    Events of one kind, on batches drawn alike, whose loss differs by less than the factor `ratio` become the largest of
    them; `ratio` grows until at most MOST_GROUPS events are distinct. Equal events stay as they are.
    """
    runs = list(runs)
    distinct = list(dict.fromkeys(event for event, _ in runs))
    simple = [simplified(event) for event in distinct]
    families: dict[tuple[object, ...], list[int]] = {}
    for i, event in enumerate(simple):
        families.setdefault(_family(event), []).append(i)
    strengths = [np.array([log_strength(simple[i]) for i in members]) for members in families.values()]
    heads = np.arange(len(distinct))
    for attempt in itertools.count():
        step = math.log(ratio) * 1.1 ** max(0, attempt - 1)
        for members, strength in zip(families.values(), strengths, strict=True):
            heads[members] = np.array(members)[_heads(strength, _flattened(strength) if attempt else strength, step)]
        if len(np.unique(heads)) <= max(MOST_GROUPS, len(families)):
            break
    head_of = {event: simple[head] for event, head in zip(distinct, heads, strict=True)}
    return merged_runs((head_of[event], count) for event, count in runs)


def merged_runs(runs: Iterable[tuple[Event, int]]) -> list[tuple[Event, int]]:
    """Return the same runs in time order, neighbours with equal events made one."""
    merged: list[tuple[Event, int]] = []
    for event, count in runs:
        if merged and (merged[-1][0] is event or merged[-1][0] == event):
            merged[-1] = (merged[-1][0], merged[-1][1] + count)
        else:
            merged.append((event, count))
    return merged


def _family(event: Event) -> tuple[object, ...]:
    """Return the family of an event; in one family, an event with a larger parameter dominates one with a smaller."""
    inner = event.inner if isinstance(event, Sub) else event
    batch = (event.kind, event.m, event.n) if isinstance(event, Sub) else ()
    if isinstance(inner, Parallel):
        return inner, batch
    return type(inner), batch, inner.delta if isinstance(inner, StatedApproximateDP) else 0.0


def _heads(strengths: Floats, distances: Floats, step: float) -> np.ndarray:
    """Return, for each entry, the index of one at least as strong and at most `step` away in `distances`, such that few
    different ones are used. `distances` are in the order of `strengths`, but may tie."""
    order = np.argsort(strengths, kind="stable")
    ascending = distances[order]
    heads = np.empty(len(order), dtype=int)
    last = len(order) - 1
    while last >= 0:
        first = min(int(np.searchsorted(ascending, ascending[last] - step)), last)
        heads[order[first : last + 1]] = order[last]
        last = first - 1
    return heads


def _flattened(strengths: Floats) -> Floats:
    """Return the strengths in the same order, but closer together far below the typical one: they matter little."""
    finite = strengths[np.isfinite(strengths)]
    if not len(finite):
        return strengths
    typical = finite.max() + math.log(np.mean(np.exp(2 * (finite - finite.max())))) / 2
    return np.logaddexp(strengths, math.log(0.1) + typical)
