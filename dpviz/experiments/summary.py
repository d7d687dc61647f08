"""A run in short: the one number that it comes to, and what is kept of it when its trace is not, which are medians and
bands of every series, without the replicates' own."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from dpviz.experiments.plan import Privacy
from dpviz.experiments.results import headlined, median_interval, quantiles
from dpviz.experiments.trace import Trace
from dpviz.problems.base import Metric

PRIVATE, FLOOR = 6, 1  # curves of the picture: methods with privacy, and without
CHANCE = 0.05  # how often two methods that are alike are told apart


@dataclass(frozen=True, eq=False)
class Series:
    """Recorded iterations (k,), and 10 % quantile, median and 90 % quantile over the replicates, (k, 3).

    interval : of the median in the end, as `results.median_interval` gives it.
    """

    iterations: np.ndarray
    quantiles: np.ndarray
    interval: tuple[float, float]

    @property
    def end(self) -> np.ndarray:
        """(3,) the last quantiles that are numbers; nan if there are none."""
        known = self.quantiles[~np.isnan(self.quantiles[:, 1])]
        return known[-1] if len(known) else np.full(3, np.nan)

    @property
    def relative(self) -> "Series | None":
        """All of it as shares of the first median; None where that is not positive."""
        start = self.quantiles[0, 1]
        return replace(self, quantiles=self.quantiles / start) if start > 0 else None


@dataclass(frozen=True, eq=False)
class Summary:
    """The series of a run.

    metrics : what was recorded, the most telling first. series : by method and metric. private : methods with a budget.
    status : what may be said of each of them, as the method's lane says.
    """

    metrics: Mapping[str, Metric]
    series: Mapping[str, Mapping[str, Series]]
    private: Collection[str]
    status: Mapping[str, Mapping[str, Privacy]]

    def visible(self, diagnostics: bool) -> "Summary":
        """What may be shown: everything with `diagnostics`, else what methods release."""
        if diagnostics:
            return self
        kept = {
            label: {name: series for name, series in found.items() if self.status[label][name] != "not private"}
            for label, found in self.series.items()
            if label in self.private
        }
        names = {name for found in kept.values() for name in found}
        return replace(self, series=kept, metrics={name: self.metrics[name] for name in self.metrics if name in names})

    @property
    def headline(self) -> Metric | None:
        """The most telling metric of which less is better, or any, if there is none."""
        lower = (metric for metric in self.metrics.values() if metric.better == "lower" and not metric.axis)
        return next(lower, next(iter(self.metrics.values()), None))

    def guess(self, name: str) -> tuple[Metric, float] | None:
        """What a constant guess reaches in a metric, and what that is called; None where nothing like it is known."""
        for other, metric in self.metrics.items():
            if metric.beside == name:
                return metric, float(next(found[other] for found in self.series.values() if other in found).end[1])
        return None

    def best(self, name: str) -> str | None:
        """The private method that ends lowest in a metric, or highest where that is better."""
        sign = -1.0 if self.metrics[name].better == "higher" else 1.0
        ends = {label: sign * float(found[name].end[1]) for label, found in self.series.items() if name in found}
        private = {label: end for label, end in ends.items() if label in self.private and not np.isnan(end)}
        return min(private, key=private.__getitem__, default=None)


def summary(trace: Trace) -> Summary:
    """What is kept of a trace."""
    recorded = trace.metrics
    names = dict.fromkeys([*headlined(trace), *recorded])
    series: dict[str, dict[str, Series]] = {label: {} for label in trace.lanes}
    for label, found in series.items():
        for name in names:
            iterations, values = trace.series(label, name)
            if len(iterations):
                found[name] = Series(iterations, quantiles(values), median_interval(values))
    return Summary(
        {name: recorded[name] for name in names},
        series,
        frozenset(label for label, lane in trace.lanes.items() if lane.private),
        {
            label: {metric.name: lane.status_of(metric) for metric in lane.metrics}
            for label, lane in trace.lanes.items()
        },
    )


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
    for label, lane in trace.lanes.items():
        _, values = lane.series(name)
        known = np.flatnonzero(np.isfinite(quantiles(values)[:, 1]))
        if len(known):
            found[label] = values[known[-1]]
    return found


def _ranked(runs: Mapping[str, np.ndarray]) -> list[tuple[str, float]]:
    """The arms and their medians, the lowest first."""
    medians = {label: float(quantiles(values[None])[0, 1]) for label, values in runs.items()}
    return sorted(medians.items(), key=lambda item: item[1])
