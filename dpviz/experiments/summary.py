"""Short results of a run: its one number, and medians and bands of every series, which are kept when the trace is
not."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from dpviz.experiments.plan import Privacy
from dpviz.experiments.results import headlined, median_interval, quantiles
from dpviz.experiments.trace import Trace
from dpviz.problems.base import Metric

PRIVATE, FLOOR = 6, 1  # largest numbers of curves in the picture: methods with privacy, and without
CHANCE = 0.05  # level of the test that two methods differ


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
        numbers = self.quantiles[~np.isnan(self.quantiles[:, 1])]
        return numbers[-1] if len(numbers) else np.full(3, np.nan)

    @property
    def relative(self) -> "Series | None":
        """All quantiles as shares of the first median; None where that is not positive."""
        start = self.quantiles[0, 1]
        return replace(self, quantiles=self.quantiles / start) if start > 0 else None


@dataclass(frozen=True, eq=False)
class Summary:
    """The series of a run.

    metrics : the recorded metrics, the most telling first. series : by method and metric. private : methods with a
        budget.
    status : privacy of every metric by method, as in `ArmTrace.status_of`.
    """

    metrics: Mapping[str, Metric]
    series: Mapping[str, Mapping[str, Series]]
    private: Collection[str]
    status: Mapping[str, Mapping[str, Privacy]]

    def visible(self, diagnostics: bool) -> "Summary":
        """Return all series with `diagnostics`, else those that methods release."""
        if diagnostics:
            return self
        released = {
            label: {name: series for name, series in part.items() if self.status[label][name] != "not private"}
            for label, part in self.series.items()
            if label in self.private
        }
        names = {name for part in released.values() for name in part}
        return replace(
            self, series=released, metrics={name: self.metrics[name] for name in self.metrics if name in names}
        )

    @property
    def headline(self) -> Metric | None:
        """The most telling metric of which less is better, else the first metric, if there is one."""
        lower = (metric for metric in self.metrics.values() if metric.better == "lower" and not metric.axis)
        return next(lower, next(iter(self.metrics.values()), None))

    def guess(self, name: str) -> tuple[Metric, float] | None:
        """Return the metric that records a constant guess's value of the metric `name`, and that value; None without
        one."""
        for other, metric in self.metrics.items():
            if metric.beside == name:
                return metric, float(next(part[other] for part in self.series.values() if other in part).end[1])
        return None

    def best(self, name: str) -> str | None:
        """Return the private method that ends lowest in a metric, or highest where that is better."""
        sign = -1.0 if self.metrics[name].better == "higher" else 1.0
        ends = {label: sign * float(part[name].end[1]) for label, part in self.series.items() if name in part}
        private = {label: end for label, end in ends.items() if label in self.private and not np.isnan(end)}
        return min(private, key=private.__getitem__, default=None)


def summary(trace: Trace) -> Summary:
    """Compute the summary of a trace."""
    recorded = trace.metrics
    names = dict.fromkeys([*headlined(trace), *recorded])
    series: dict[str, dict[str, Series]] = {label: {} for label in trace.lanes}
    for label, by_metric in series.items():
        for name in names:
            iterations, values = trace.series(label, name)
            if len(iterations):
                by_metric[name] = Series(iterations, quantiles(values), median_interval(values))
    return Summary(
        {name: recorded[name] for name in names},
        series,
        frozenset(label for label, arm_trace in trace.lanes.items() if arm_trace.private),
        {
            label: {metric.name: arm_trace.status_of(metric) for metric in arm_trace.metrics}
            for label, arm_trace in trace.lanes.items()
        },
    )


@dataclass(frozen=True)
class Outcome:
    """Medians over the replicates of the most telling metric, of which less is better.

    best : the private method that ends lowest. end, start : its median in the end and at the start.
    others : the other private methods and their medians in the end, the lowest first. floor : the median in the end of
        the best method without privacy, whose label is `reference`.
    runs : (R,) last values of the replicates of every arm.
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
        """Share of the start that remains in the end."""
        return self.end / self.start if self.start > 0 else math.nan

    def chance(self, one: str, other: str) -> bool:
        """Return whether the difference between two arms may be chance between the replicates.

        It tests their ranks (the two-sided test of Mann and Whitney). Three replicates and fewer never show a
        difference.
        """
        from scipy.stats import mannwhitneyu  # half a second to import, for the first visitor whose run has ended

        ends = [np.nan_to_num(self.runs[label], nan=np.inf) for label in (one, other)]
        with np.errstate(invalid="ignore", divide="ignore"):
            return not mannwhitneyu(*ends).pvalue < CHANCE  # nan where all are equal


def outcome(trace: Trace) -> Outcome | None:
    """Return the one number of a run that may be shown; None if it has recorded no such metric."""
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


def pictured(trace: Trace, name: str, max_private: int = PRIVATE) -> tuple[str, ...]:
    """Return the arms of the first picture, in the order of the trace: the `max_private` private ones that end
    lowest, and the lowest reference."""
    ranked = [label for label, _ in _ranked(_ends(trace, name))]
    private = [label for label in ranked if trace.lanes[label].private][:max_private]
    floor = [label for label in ranked if not trace.lanes[label].private][:FLOOR]
    return tuple(label for label in trace.lanes if label in (*private, *floor))


def _ends(trace: Trace, name: str) -> dict[str, np.ndarray]:
    """Return (R,) the latest values of every arm whose median is a number."""
    values_by_arm = {}
    for label, arm_trace in trace.lanes.items():
        _, values = arm_trace.series(name)
        rows = np.flatnonzero(np.isfinite(quantiles(values)[:, 1]))
        if len(rows):
            values_by_arm[label] = values[rows[-1]]
    return values_by_arm


def _ranked(runs: Mapping[str, np.ndarray]) -> list[tuple[str, float]]:
    """Return the arms and their medians, the lowest first."""
    medians = {label: float(quantiles(values[None])[0, 1]) for label, values in runs.items()}
    return sorted(medians.items(), key=lambda item: item[1])
