"""The one number that a run comes to: who ends lowest, how low, and how far the others are from it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dpviz.experiments.results import headlined, quantiles
from dpviz.experiments.trace import Trace
from dpviz.problems.base import Metric

PRIVATE, FLOOR = 3, 1  # curves of the picture: methods with privacy, and without
CHANCE = 0.05  # how often two methods that are alike are told apart


@dataclass(frozen=True)
class Outcome:
    """Medians over the replicates of the most telling metric, of which less is better.

    best : the private method that ends lowest. end, start : its median in the end and at the start.
    others : where the other private methods end, the lowest first. floor : where the best method without privacy ends,
        whose label is `reference`.
    runs : (R,) where the replicates of every arm ended.
    """

    metric: Metric
    best: str
    end: float
    start: float
    others: tuple[tuple[str, float], ...]
    floor: float | None
    reference: str = ""
    runs: Mapping[str, np.ndarray] = field(default_factory=dict, compare=False)

    @property
    def share(self) -> float:
        """What is left of the start."""
        return self.end / self.start if self.start > 0 else math.nan

    def chance(self, one: str, other: str) -> bool:
        """Whether the difference between two arms may be chance between the replicates, by their ranks (the two-sided
        test of Mann and Whitney). So it is for three replicates and fewer, whatever they are."""
        from scipy.stats import mannwhitneyu  # half a second to import, for the first visitor whose run has ended

        ends = [np.nan_to_num(self.runs[label], nan=np.inf) for label in (one, other)]
        with np.errstate(invalid="ignore", divide="ignore"):
            return not mannwhitneyu(*ends).pvalue < CHANCE  # nan where all are equal


def outcome(trace: Trace) -> Outcome | None:
    """What may be shown of a run in one number; None if it has recorded no such metric."""
    name = next(iter(headlined(trace)), None)
    if name is None:
        return None
    runs = _ends(trace, name)
    ends = _ranked(runs)
    private = [item for item in ends if trace.lanes[item[0]].private]
    if not private:
        return None
    (best, end), *others = private
    reference, floor = next((item for item in ends if not trace.lanes[item[0]].private), ("", None))
    start = float(quantiles(trace.series(best, name)[1])[0, 1])
    return Outcome(trace.metrics[name], best, end, start, tuple(others), floor, reference, runs)


def pictured(trace: Trace, name: str, most: int = PRIVATE) -> tuple[str, ...]:
    """The arms of the first picture, in their order: at most so many private ones, those that end lowest, and a
    floor."""
    ranked = [label for label, _ in _ranked(_ends(trace, name))]
    private = [label for label in ranked if trace.lanes[label].private][:most]
    floor = [label for label in ranked if not trace.lanes[label].private][:FLOOR]
    return tuple(label for label in trace.lanes if label in (*private, *floor))


def _ends(trace: Trace, name: str) -> dict[str, np.ndarray]:
    """(R,) the latest values of every arm whose median is a number."""
    found = {}
    for label in trace.lanes:
        _, values = trace.series(label, name)
        known = np.flatnonzero(np.isfinite(quantiles(values)[:, 1]))
        if len(known):
            found[label] = values[known[-1]]
    return found


def _ranked(runs: Mapping[str, np.ndarray]) -> list[tuple[str, float]]:
    """The arms and their medians, the lowest first."""
    medians = {label: float(quantiles(values[None])[0, 1]) for label, values in runs.items()}
    return sorted(medians.items(), key=lambda item: item[1])
