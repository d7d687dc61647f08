"""Short results of a run: the outcome in one number, and the median and the band of every series over the replicates.

They are small, so that they can be kept when the trace is not.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from dpviz.experiments.plan import Privacy
from dpviz.experiments.results import headline_metrics, median_interval, quantiles
from dpviz.experiments.trace import Trace
from dpviz.problems.base import Metric

MAX_PRIVATE, MAX_REFERENCES = 6, 1  # largest number of curves in the first picture: of methods with and without privacy
CHANCE = 0.05  # level of the test that two methods differ


@dataclass(frozen=True, eq=False)
class Series:
    """A metric of one arm over the recorded iterations, summarised over the replicates.

    iterations : (k,) recorded iterations.
    quantiles : (k, 3) 10 % quantile, median and 90 % quantile.
    interval : 95 % confidence interval for the median at the last record, from `results.median_interval`.
    """

    iterations: np.ndarray
    quantiles: np.ndarray
    interval: tuple[float, float]

    @property
    def end(self) -> np.ndarray:
        """(3,) 10 % quantile, median and 90 % quantile at the last record where they are numbers; nan without one."""
        finite_rows = self.quantiles[~np.isnan(self.quantiles[:, 1])]
        return finite_rows[-1] if len(finite_rows) else np.full(3, np.nan)

    @property
    def relative(self) -> "Series | None":
        """The series divided by its first median, so that it starts at 1; None where that median is not positive."""
        start = float(self.quantiles[0, 1])
        if not start > 0:
            return None
        low, high = self.interval
        return replace(self, quantiles=self.quantiles / start, interval=(low / start, high / start))


@dataclass(frozen=True, eq=False)
class Summary:
    """All series of a run, summarised over the replicates.

    metrics : the recorded metrics by name, the most telling first.
    series : by label of an arm, and then by name of a metric.
    private : labels of the arms with a budget.
    privacy : of the values, by label of an arm, and then by name of a metric.
    """

    metrics: Mapping[str, Metric]
    series: Mapping[str, Mapping[str, Series]]
    private: Collection[str]
    privacy: Mapping[str, Mapping[str, Privacy]]

    def visible(self, diagnostics: bool) -> "Summary":
        """Return the whole summary if `diagnostics` may be seen, else only the series that private methods release."""
        if diagnostics:
            return self
        released: dict[str, dict[str, Series]] = {}
        for label, by_metric in self.series.items():
            if label in self.private:
                privacy = self.privacy[label]
                released[label] = {name: series for name, series in by_metric.items() if privacy[name] != "not private"}
        names = {name for by_metric in released.values() for name in by_metric}
        metrics = {name: metric for name, metric in self.metrics.items() if name in names}
        return replace(self, series=released, metrics=metrics)

    @property
    def headline(self) -> Metric | None:
        """The first metric of which lower is better and that is no axis, or else the first; None without metrics."""
        metrics = list(self.metrics.values())
        lower_is_better = [metric for metric in metrics if metric.better == "lower" and not metric.axis]
        candidates = lower_is_better or metrics
        return candidates[0] if candidates else None

    def guess(self, name: str) -> tuple[Metric, float] | None:
        """Return the metric that records which value of the metric `name` the best constant guess reaches, and that
        value; None if there is no such metric."""
        for guess_name, metric in self.metrics.items():
            if metric.guess_for != name:
                continue
            for by_metric in self.series.values():
                if guess_name in by_metric:  # the same number in every arm
                    _, median, _ = by_metric[guess_name].end
                    return metric, float(median)
        return None

    def best(self, name: str) -> str | None:
        """Return the label of the private method whose last median of the metric is the best; None if none has one."""
        sign = -1.0 if self.metrics[name].better == "higher" else 1.0
        ends = {
            label: sign * float(by_metric[name].end[1])  # the last median
            for label, by_metric in self.series.items()
            if label in self.private and name in by_metric
        }
        finite = {label: end for label, end in ends.items() if not np.isnan(end)}
        return min(finite, key=finite.__getitem__, default=None)


def summary(trace: Trace) -> Summary:
    """Summarise every series of a trace over the replicates."""
    recorded = trace.metrics
    names = dict.fromkeys([*headline_metrics(trace), *recorded])  # the most telling first, each once
    series: dict[str, dict[str, Series]] = {label: {} for label in trace.arm_traces}
    for label, by_metric in series.items():
        for name in names:
            iterations, values = trace.series(label, name)
            if len(iterations):
                by_metric[name] = Series(iterations, quantiles(values), median_interval(values))
    return Summary(
        metrics={name: recorded[name] for name in names},
        series=series,
        private=frozenset(label for label, arm_trace in trace.arm_traces.items() if arm_trace.private),
        privacy={
            label: {metric.name: arm_trace.privacy_of_metric(metric) for metric in arm_trace.metrics}
            for label, arm_trace in trace.arm_traces.items()
        },
    )


@dataclass(frozen=True)
class HeadlineResult:
    """The outcome of a run in the most telling metric, as medians over the replicates.

    best : label of the private method whose last median is the best.
    end, start : last and first median of that method.
    others : labels and last medians of the other private methods, the best first.
    floor, reference : last median and label of the best method without privacy; None and "" without one.
    runs : by label of an arm, (R,) the last values of its replicates.
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
        """The last median as a share of the first one; nan where the first is not positive."""
        return self.end / self.start if self.start > 0 else math.nan

    def may_be_chance(self, one: str, other: str) -> bool:
        """Return whether the difference between the last values of two arms, given by label, may be due to chance.

        It is the two-sided test of Mann and Whitney, which compares the ranks of the replicates, at the level CHANCE.
        With three replicates or fewer it never shows a difference.
        """
        # Imported here because it takes half a second, which only the first visitor whose run has ended should wait.
        from scipy.stats import mannwhitneyu

        worst = -np.inf if self.metric.better == "higher" else np.inf  # for a run without a number
        ends = [np.nan_to_num(self.runs[label], nan=worst) for label in (one, other)]
        with np.errstate(invalid="ignore", divide="ignore"):
            p_value = mannwhitneyu(*ends).pvalue
        return not p_value < CHANCE  # also where it is nan, because all values are equal


def headline_result(trace: Trace) -> HeadlineResult | None:
    """Return the outcome of a run in its most telling metric; None if it has none, or no private arm with a number."""
    names = headline_metrics(trace)
    if not names:
        return None
    name = names[0]
    runs = _last_values(trace, name)
    ranked = _ranked(runs, trace.metrics[name].better)
    private = [(label, median) for label, median in ranked if trace.arm_traces[label].private]
    references = [(label, median) for label, median in ranked if not trace.arm_traces[label].private]
    if not private:
        return None
    (best, end), *others = private
    reference, floor = references[0] if references else ("", None)
    _, values = trace.series(best, name)  # (k, R)
    start = float(quantiles(values)[0, 1])  # the median of the first record
    return HeadlineResult(trace.metrics[name], best, end, start, tuple(others), floor, reference, runs)


def arms_to_draw(trace: Trace, name: str, max_private: int = MAX_PRIVATE) -> tuple[str, ...]:
    """Return the labels of the arms to draw in the first picture of the metric `name`, in the order of the trace.

    These are the `max_private` private arms whose last medians are the best, and the best arm without privacy.
    """
    ranked = [label for label, _ in _ranked(_last_values(trace, name), trace.metrics[name].better)]
    private = [label for label in ranked if trace.arm_traces[label].private][:max_private]
    references = [label for label in ranked if not trace.arm_traces[label].private][:MAX_REFERENCES]
    return tuple(label for label in trace.arm_traces if label in (*private, *references))


def _last_values(trace: Trace, name: str) -> dict[str, np.ndarray]:
    """Return, by label, the latest values (R,) of the metric `name` whose median over the replicates is a number.

    Arms without such values are left out.
    """
    values_by_arm = {}
    for label, arm_trace in trace.arm_traces.items():
        _, values = arm_trace.series(name)
        medians = quantiles(values)[:, 1]
        rows = np.flatnonzero(np.isfinite(medians))
        if len(rows):
            values_by_arm[label] = values[rows[-1]]
    return values_by_arm


def _ranked(runs: Mapping[str, np.ndarray], better: str) -> list[tuple[str, float]]:
    """Return the labels of the arms with the medians of their values `runs` (R,), the best first.

    better : of the metric; where it is "higher" the highest median is the best, else the lowest.
    """
    # As a series of one record, `values[None]`, whose row of quantiles has the median in the middle.
    medians = {label: float(quantiles(values[None])[0, 1]) for label, values in runs.items()}
    return sorted(medians.items(), key=lambda item: item[1], reverse=better == "higher")
