"""What is kept of a run when its trace is not: medians and bands of every series, without the replicates' own."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from dpviz.experiments import results
from dpviz.experiments.plan import Privacy
from dpviz.experiments.trace import Trace
from dpviz.problems.base import Metric


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
    names = dict.fromkeys([*results.headlined(trace), *recorded])
    series: dict[str, dict[str, Series]] = {label: {} for label in trace.lanes}
    for label, found in series.items():
        for name in names:
            iterations, values = trace.series(label, name)
            if len(iterations):
                found[name] = Series(iterations, results.quantiles(values), results.median_interval(values))
    return Summary(
        {name: recorded[name] for name in names},
        series,
        frozenset(label for label, lane in trace.lanes.items() if lane.private),
        {
            label: {metric.name: lane.status_of(metric) for metric in lane.metrics}
            for label, lane in trace.lanes.items()
        },
    )
