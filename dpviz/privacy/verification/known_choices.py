"""Choices at values that an auditor made up: how often each index leaves a mechanism, and how often it should.

The data sets of an audit are such that one row decides, which is not where the noise of choices shows best. So the
mechanisms of the audit, in the state in which they are audited, are asked for choices of their own.
"""

import math
from collections.abc import Iterable, Iterator

import numpy as np

from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.events import Event, ExpMech, StatedPureDP, draws_batch, has_blocks, inner_events
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.queries import Query
from dpviz.privacy.releases import Accepted
from dpviz.privacy.verification.transcripts import Transcript

_EACH = 8  # choices of each run, at least
_MOST = 4  # different events
_NODES = 20_000
_LOGITS = np.array([0.0, 1.2, 2.4])  # where a tenth more or less noise shows best
_HEIGHTS = np.array([-1.0, -1.0, 0.5])  # in scales of the noise


def known_choices(
    source: type[Transcript], events: Iterable[Event], seed: int, release: str, runs: int
) -> Iterator[tuple[list[int], list[float]]]:
    """For every different event that pays for choices: counts of the indices, and their chances; and of the indices of
    two choices, one after the other."""
    for number, event in enumerate(_choosing(events)):
        repeats = math.ceil(_EACH / len(tuple(inner_events(event))))
        mechanisms = source(Ledger(FixedEvents((event,) * repeats), runs), seed, f"choices {number}, {release}")
        if isinstance(event, StatedPureDP):
            values, chances = _heights(event)
            query = Query(np.tile(values, (runs, 1)), 1.0, "linf")
            indices = np.array([mechanisms.above_threshold(query, event) for _ in range(repeats)]) % len(chances)
        else:
            chances = np.exp(_LOGITS) / np.exp(_LOGITS).sum()
            (eta, *_) = {inner.eta for inner in inner_events(event) if isinstance(inner, ExpMech)}
            query = Query(np.tile(_LOGITS / eta, (runs, 1)), 1.0, "range")
            indices = np.array([mechanisms.exponential(query, event) for _ in range(repeats)])
        yield np.bincount(indices.reshape(-1), minlength=len(chances)).tolist(), chances.tolist()
        if repeats > 1:
            both = indices.reshape(repeats, -1)[0 : 2 * (repeats // 2)].reshape(repeats // 2, 2, -1)
            joint = np.bincount((len(chances) * both[:, 0] + both[:, 1]).reshape(-1), minlength=len(chances) ** 2)
            yield joint.tolist(), np.outer(chances, chances).reshape(-1).tolist()


def _choosing(events: Iterable[Event]) -> list[Event]:
    """Some of the events that pay for choices on the whole table, or what is inside of those that do not."""
    choosing: set[Event] = set()
    for event in events:
        singles = set(inner_events(event))
        if any(isinstance(one, ExpMech) and one.eta < np.inf for one in singles):
            apart = len(singles) > 1 or draws_batch(event) or has_blocks(event)
            choosing |= {one for one in singles if isinstance(one, ExpMech)} if apart else {event}
        choosing |= {one for one in singles if isinstance(one, StatedPureDP) and one.eps < np.inf}
    return sorted(choosing, key=repr)[:_MOST]


def _heights(event: StatedPureDP) -> tuple[Floats, Floats]:
    """Values, and the chances that the first, the second, … is the first above the threshold, or none, by the formulas
    of Lyu, Su, Li 2017."""
    first = event.eps / (1 + 2 ** (2 / 3))
    threshold, noise = 1 / first, 2 / (event.eps - first)
    values, outcomes = _HEIGHTS * noise, np.array([*range(len(_HEIGHTS)), -1])
    rows = np.arange(len(outcomes))
    scales = (np.full((len(rows), 1), scale) for scale in (threshold, noise))
    every = Accepted(np.tile(values, (len(rows), 1)), outcomes, rows, None, *scales)
    return values, np.exp(every.log_density(_NODES))
