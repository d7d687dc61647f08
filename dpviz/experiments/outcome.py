"""The one number that a run comes to: who ends lowest, how low, and how far the others are from it."""

import math
from dataclasses import dataclass

import numpy as np

from dpviz.experiments.results import headlined, quantiles
from dpviz.experiments.trace import Trace
from dpviz.problems.base import Metric

PRIVATE, FLOOR = 3, 1  # curves of the picture: methods with privacy, and without


@dataclass(frozen=True)
class Outcome:
    """Medians over the replicates of the most telling metric, of which less is better.

    best : the private method that ends lowest. end, start : its median in the end and at the start.
    others : where the other private methods end, the lowest first. floor : where the best method without privacy ends.
    """

    metric: Metric
    best: str
    end: float
    start: float
    others: tuple[tuple[str, float], ...]
    floor: float | None

    @property
    def share(self) -> float:
        """What is left of the start."""
        return self.end / self.start if self.start > 0 else math.nan


def outcome(trace: Trace) -> Outcome | None:
    """What may be shown of a run in one number; None if it has recorded no such metric."""
    name = next(iter(headlined(trace)), None)
    if name is None:
        return None
    ends = _ends(trace, name)
    private = {label: end for label, end in ends.items() if trace.lanes[label].private}
    if not private:
        return None
    (best, end), *others = sorted(private.items(), key=lambda item: item[1])
    floors = [end for label, end in ends.items() if not trace.lanes[label].private]
    start = float(quantiles(trace.series(best, name)[1])[0, 1])
    return Outcome(trace.metrics[name], best, end, start, tuple(others), min(floors, default=None))


def pictured(trace: Trace, name: str, most: int = PRIVATE) -> tuple[str, ...]:
    """The arms of the first picture, in their order: at most so many private ones, those that end lowest, and a
    floor."""
    ends = _ends(trace, name)
    ranked = sorted(ends, key=lambda label: ends[label])
    private = [label for label in ranked if trace.lanes[label].private][:most]
    floor = [label for label in ranked if not trace.lanes[label].private][:FLOOR]
    return tuple(label for label in trace.lanes if label in (*private, *floor))


def _ends(trace: Trace, name: str) -> dict[str, float]:
    """The latest median of every arm that has one."""
    found = {}
    for label in trace.lanes:
        medians = quantiles(trace.series(label, name)[1])[:, 1]
        known = medians[np.isfinite(medians)]
        if len(known):
            found[label] = float(known[-1])
    return found
