"""Traces: the recorded series of a run, written by one thread and read by another."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np

from dpviz.arguments import Between, ByName, check_one_of, checked  # UserError for wrong types and unknown names
from dpviz.datasets.base import DatasetSpecification
from dpviz.datasets.groups import GroupedSpecification
from dpviz.displays import Displayed
from dpviz.errors import UserError
from dpviz.experiments.algorithm import Snapshot, Status
from dpviz.experiments.plan import Privacy, privacy_of
from dpviz.later import pd
from dpviz.privacy.accounting.currencies import Currency
from dpviz.problems.base import Condition, Metric, ProblemSpecification
from dpviz.problems.model import Model

CAPACITY = 2_000  # largest number of records of an arm
PATH = 40_000  # number of entries of the largest output whose path is kept
CLOUD = 100_000  # largest number of coordinates in the cloud of an arm: 250 records × 200 replicates × 2
RECORDS, LEAST_RECORDS = 60, 20  # largest and (approximately) smallest number of recorded iterations of a run
FARTHEST = 3e38  # largest coordinate of a point, just below the largest float32
RUNNING: Status = "running"


def recording_grid(iterations: int, points: int = RECORDS) -> np.ndarray:
    """Return at most `points` of the iterations 0..`iterations`, ascending, both ends included.

    One half of them are equally spaced, the other half on a logarithmic scale, as runs change fastest at the start.
    """
    if iterations < points:
        return np.arange(iterations + 1)
    linear = np.linspace(0, iterations, points // 2)
    logarithmic = np.geomspace(1, iterations, points - points // 2 + 1)  # the end is a point of both halves
    return np.unique(np.concatenate([linear, logarithmic]).round().astype(int))


@dataclass
class ArmTrace:
    """The records of one arm: k recorded iterations of R replicates. Records are only ever appended.

    metrics : the metrics that are recorded.
    private : True if the arm has a budget. Nothing of an arm without one is released, in any metric.
    keeps_path : False to keep no `path`.
    currency, condition : of the arm's plan: the currency of `spent`, and the condition that its privacy rests on.
    iterations : the k recorded iterations.
    values : by name of a metric, k arrays (R,).
    output : by name, the outputs of all replicates at the latest record, (R, ...).
    path : by name, the output of the first replicate at each record, k float32 arrays. It is released if the arm is
        private. Empty where outputs are too large to keep, and where `keeps_path` is False.
    cloud : positions of the replicates in the plane of the problem at each record, k arrays (R, 2) float32, finite;
        empty without a plane, and where they are too many to keep.
    statuses : k tuples with the status of each replicate.
    spent : k arrays (R,), the privacy that each replicate has spent in `currency`, including before the run; empty
        without a currency.
    stopped_at : (R,) iteration after which a replicate stopped by itself; -1 for one that has not stopped, or that
        went on to the end of the plan. Empty if the method's replicates never stop.
    seconds : computing time of the arm up to the latest record.
    """

    metrics: tuple[Metric, ...]
    private: bool = True
    keeps_path: bool = True
    currency: Currency | None = None
    iterations: list[int] = field(default_factory=list)
    values: dict[str, list[np.ndarray]] = field(default_factory=dict)
    output: Mapping[str, np.ndarray] = field(default_factory=dict)
    path: dict[str, list[np.ndarray]] = field(default_factory=dict)
    cloud: list[np.ndarray] = field(default_factory=list)
    statuses: list[tuple[Status, ...]] = field(default_factory=list)
    spent: list[np.ndarray] = field(default_factory=list)
    stopped_at: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=int))
    seconds: float = 0.0
    condition: Condition = field(default_factory=Condition)

    @property
    def status(self) -> tuple[Status, ...]:
        """The last status of each replicate; empty before the first record."""
        return self.statuses[-1] if self.statuses else ()

    def series(self, metric: str, gaps: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return iterations (k,) and values (k, R) of a metric; empty for one that the arm does not record.

        An expensive metric has only the iterations at which it was computed; with `gaps` also the others, as nan.
        """
        # Another thread may be appending a record, whose values come first: both lists are cut to the shorter one.
        values = np.array(self.values.get(metric, [])[: len(self.iterations)])
        iterations = np.array(self.iterations[: len(values)], dtype=int)
        is_expensive = any(other.name == metric and other.cost == "expensive" for other in self.metrics)
        if is_expensive and not gaps and len(values):
            is_computed = ~np.isnan(values).all(axis=1)
            return iterations[is_computed], values[is_computed]
        return iterations, values

    def last(self, metric: str) -> np.ndarray:
        """Return (R,) the latest recorded values of a metric; empty if there are none."""
        _, values = self.series(metric)
        return values[-1] if len(values) else np.empty(0)

    def finish(self) -> None:
        """Mark the replicates that are still running as "exhausted": the plan has come to its end."""
        if self.statuses:
            self.statuses[-1] = tuple("exhausted" if word == "running" else word for word in self.status)

    @property
    def bytes(self) -> int:
        """Size of all recorded arrays of the arm, in bytes."""
        lists = (*self.values.values(), *self.path.values(), self.cloud, self.spent, list(self.output.values()))
        return sum(array.nbytes for arrays in lists for array in arrays)

    @property
    def privacy(self) -> Privacy:
        """Privacy of the arm's releases."""
        return privacy_of(self.private, self.condition)

    def privacy_of_metric(self, metric: Metric) -> Privacy:
        """Return the privacy of the recorded values of a metric."""
        return self.privacy if metric.released else "not private"

    def released(self, metric: Metric) -> bool:
        """Return whether a metric's values are releases, or functions of them, whose privacy has no condition."""
        return self.privacy_of_metric(metric) == "private"

    def without_diagnostics(self) -> "ArmTrace":
        """Return the part of a private arm that may be shown or downloaded: its released metrics and its outputs.

        The computing time is left out, as it depends on the arm's data. The result does not grow with the run.
        """
        iterations = self.iterations[:]  # copied first, as `append` adds to it last: the other lists are not shorter
        metrics = tuple(metric for metric in self.metrics if self.privacy_of_metric(metric) != "not private")
        values = {metric.name: self.values[metric.name][:] for metric in metrics if metric.name in self.values}
        return replace(
            self,
            metrics=metrics,
            iterations=iterations,
            values=values,
            path={name: points[:] for name, points in dict(self.path).items()},  # `append` may add a name meanwhile
            cloud=self.cloud[:],
            statuses=self.statuses[:],
            spent=self.spent[:],
            seconds=math.nan,
        )

    def last_record(self) -> "ArmTrace":
        """Return the last record alone, without outputs, which is enough for a sweep.

        The value of a metric is the last one of each replicate that is a number, which may be from an earlier record.
        """
        values = {name: [last_numbers(np.array(series))] for name, series in self.values.items() if series}
        return replace(
            self,
            iterations=self.iterations[-1:],
            values=values,
            output={},
            path={},
            cloud=[],
            statuses=self.statuses[-1:],
            spent=self.spent[-1:],
        )

    def update_stops(self, snapshot: Snapshot) -> None:
        """Update `stopped_at` from a snapshot, whether or not that is recorded."""
        if snapshot.active is None:
            return
        stopped_at = self.stopped_at if len(self.stopped_at) else np.full(len(snapshot.active), -1)
        self.stopped_at = np.where((stopped_at < 0) & ~snapshot.active, snapshot.iteration, stopped_at)

    def append(
        self,
        snapshot: Snapshot,
        diagnostics: Mapping[str, np.ndarray],
        seconds: float,
        spent: np.ndarray | None = None,
        points: np.ndarray | None = None,
    ) -> None:
        """Record one iteration; do nothing beyond `CAPACITY` records, or for an iteration before the last one.

        The iteration number is appended last, so that a reader in another thread, who reads as many records as there
        are iteration numbers, finds all of them complete.

        diagnostics : by name of a metric, (R,) values. Those that are missing, as expensive ones may be, are recorded
            as nan; a second call for the same iteration fills them in.
        seconds : computing time of the arm so far.
        spent : (R,) privacy spent by each replicate so far, in the arm's currency, if it has one.
        points : (R, 2) positions of the replicates in the plane of the problem, if it has one; those of replicates that
            diverged may have any value.
        """
        last_iteration = self.iterations[-1] if self.iterations else -1
        if snapshot.iteration == last_iteration:  # the second call, for diagnostics that were missing
            for name, value in diagnostics.items():
                self.values[name][-1] = np.array(value, dtype=float)
            return
        if len(self.iterations) >= CAPACITY or snapshot.iteration < last_iteration:
            return
        not_computed = {metric.name: np.full(snapshot.replicates, np.nan) for metric in self.metrics}
        for name, value in {**not_computed, **snapshot.released, **diagnostics}.items():
            self.values.setdefault(name, []).append(np.array(value, dtype=float))
        self.output = {name: np.array(value) for name, value in snapshot.output.items()}
        for name, value in self.output.items():
            path = self.path.setdefault(name, [])
            if self.keeps_path and value[0].size <= PATH:
                path.append(value[0].astype(np.float32))
        if spent is not None:
            self.spent.append(np.array(spent, dtype=float))
        if points is not None:
            self.cloud.append(drawable(points))
        all_running = (RUNNING,) * snapshot.replicates
        self.statuses.append(all_running if snapshot.status is None else snapshot.status)
        self.seconds = seconds
        self.iterations.append(snapshot.iteration)


class Trace(Displayed):
    """Everything that was recorded of an experiment, arm by arm.

    metrics : by label of each arm, the metrics that it records.
    references : labels of the arms without privacy.
    public : True if the data are public. On other data the exact iterates of a reference are not kept.
    arms, problem, promises : the `Arm`s of the experiment, for the styles of their lines; its problem, and the
        guarantee of each arm in words, by label, for models. Empty where the experiment is not known.

    `arm_traces` are the records of each arm, by label.

    >>> import dpviz
    >>> trace = dpviz.Experiment(dpviz.Quadratic(), dpviz.Nesterov(iterations=5), epsilon=1).run()
    >>> trace.last("DP-NAG", "objective_gap").shape
    (20,)
    """

    def __init__(
        self,
        metrics: Mapping[str, Iterable[Metric]],
        references: Collection[str] = (),
        public: bool = True,
        arms: Sequence[Any] = (),
        problem: ProblemSpecification | None = None,
        promises: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.public, self.arms, self.problem, self.promises = public, tuple(arms), problem, dict(promises)
        arm_traces = {
            label: ArmTrace(
                tuple(arm_metrics), private=label not in references, keeps_path=public or label not in references
            )
            for label, arm_metrics in metrics.items()
        }
        self.arm_traces: dict[str, ArmTrace] = ByName(arm_traces, "method")

    def __repr__(self) -> str:
        recorded = (
            f"{label}: {len(part.status)} run{'s' * (len(part.status) != 1)}, "
            f"{part.iterations[-1] if part.iterations else 0} iterations"
            for label, part in self.arm_traces.items()
        )
        return f"<Trace of {'; '.join(recorded)}>"

    @property
    def metrics(self) -> dict[str, Metric]:
        """All metrics that any arm records, by name."""
        by_name = {metric.name: metric for arm_trace in self.arm_traces.values() for metric in arm_trace.metrics}
        return ByName(by_name, "metric")

    @property
    def bytes(self) -> int:
        """Size of all recorded arrays, in bytes."""
        return sum(arm_trace.bytes for arm_trace in self.arm_traces.values())

    @property
    def time_note(self) -> str:
        """A warning if the data are not public and an arm is not at its end; empty otherwise."""
        statuses = [arm_trace.status for arm_trace in self.arm_traces.values()]
        is_running = any(RUNNING in status or not status for status in statuses)  # empty before the first record
        if self.public or not is_running:
            return ""
        return "It is not at its end: how far it came in its time depends on the data, and no guarantee covers that."

    @property
    def has_curves(self) -> bool:
        """True if every arm has more records than its starting point, so that its metrics can be drawn as lines."""
        return bool(self.arm_traces) and all(len(arm_trace.iterations) > 1 for arm_trace in self.arm_traces.values())

    @checked
    def visible(self, diagnostics: bool) -> "Trace":
        """Return the whole trace if `diagnostics` may be seen, else only the releases of the private arms.

        The releases may be shown and downloaded. `privacy_by_arm` says whether their privacy rests on a condition,
        which must then be shown with them. They are the records so far and do not grow with the trace.
        """
        if diagnostics:
            return self
        private = {label: arm_trace for label, arm_trace in self.arm_traces.items() if arm_trace.private}
        return self._with_records({label: arm_trace.without_diagnostics() for label, arm_trace in private.items()})

    def _with_records(self, arm_traces: dict[str, ArmTrace]) -> "Trace":
        """Return a trace of the same experiment with these records."""
        trace = Trace({}, public=self.public, arms=self.arms, problem=self.problem, promises=self.promises)
        trace.arm_traces = ByName(arm_traces, "method")
        return trace

    def last_records(self) -> "Trace":
        """Return a trace with the `last_record` of every arm."""
        return self._with_records({label: arm_trace.last_record() for label, arm_trace in self.arm_traces.items()})

    @checked
    def only(self, labels: Collection[str]) -> "Trace":
        """Return a trace of the arms with these labels alone. Raises UserError for a label that no arm has."""
        for label in labels:
            check_one_of(label, self.arm_traces, "method")
        return self._with_records({label: arm_trace for label, arm_trace in self.arm_traces.items() if label in labels})

    @checked
    def privacy_by_arm(self, metric: Metric) -> dict[str, Privacy]:
        """Return the privacy of a metric's values, for every arm that records it."""
        return {
            label: arm_trace.privacy_of_metric(metric)
            for label, arm_trace in self.arm_traces.items()
            if metric in arm_trace.metrics
        }

    @checked
    def arm_trace(self, arm: str) -> ArmTrace:
        """Return the records of the arm with this label. Raises UserError for a label that no arm has."""
        return self.arm_traces[arm]

    @checked
    def series(self, arm: str, metric: str, gaps: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return the recorded iterations (k,) and values (k, R) of an arm's metric; empty if only other arms record it.

        An expensive metric has only the iterations at which it was computed; with `gaps` also the others, as nan.
        Raises UserError for an arm or a metric that the trace does not have.
        """
        arm_trace = self.arm_trace(arm)
        check_one_of(metric, self.metrics, "metric")
        return arm_trace.series(metric, gaps)

    @checked
    def spent(self, arm: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the recorded iterations (k,) and the privacy that each replicate had spent by then, (k, R).

        It is in the arm's currency; both arrays are empty for an arm without one.
        """
        arm_trace = self.arm_trace(arm)
        values = arm_trace.spent[: len(arm_trace.iterations)]
        return np.array(arm_trace.iterations[: len(values)], dtype=int), np.array(values)

    @checked
    def cloud(self, arm: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the recorded iterations (k,) and the replicates' positions in the problem's plane, (k, R, 2).

        Both are empty if the positions were not kept.
        """
        arm_trace = self.arm_trace(arm)
        points = arm_trace.cloud[: len(arm_trace.iterations)]
        return np.array(arm_trace.iterations[: len(points)], dtype=int), np.array(points)

    @checked
    def last(self, arm: str, metric: str) -> np.ndarray:
        """Return (R,) the latest recorded values of an arm's metric; empty if there are none.

        Raises UserError for an arm or a metric that the trace does not have.
        """
        check_one_of(metric, self.metrics, "metric")
        return self.arm_trace(arm).last(metric)

    @checked
    def guess(self, metric: str) -> tuple[Metric, float] | None:
        """Return the metric that records which value of `metric` the best constant guess reaches, and that value.

        It is drawn next to `metric` for comparison; None if no such metric was recorded. Raises UserError for a metric
        that the trace does not have.
        """
        check_one_of(metric, self.metrics, "metric")
        for name, guess in self.metrics.items():
            if guess.guess_for != metric:
                continue
            for arm_trace in self.arm_traces.values():
                values = arm_trace.last(name)
                if len(values):
                    return guess, float(values[0])  # the same for all replicates
        return None

    @checked
    def model(self, arm: str, replicate: Annotated[int, Between(0, math.inf, ends=True)] = 0) -> Model:
        """Return the linear model that a run released, in the units of the table.

        Parameters
        ----------
        arm : str
            Label of the method.
        replicate : int
            Number of the run. Every run that is used is a release of its own: their guarantees add up.

        Raises
        ------
        UserError
            For a label that no method has or a run that was not made, and if no linear model of a table was released.

        Examples
        --------
        >>> import dpviz
        >>> from dpviz.datasets import BundledTable
        >>> problem = dpviz.LogisticRegression(data=BundledTable(table="breast_cancer"))
        >>> trace = dpviz.Experiment(problem, dpviz.Nesterov(iterations=5), epsilon=1, replicates=1).run()
        >>> trace.model("DP-NAG").coef_.shape
        (30,)
        """
        arm_trace = self.arm_trace(arm)
        released = arm_trace.output.get("x", np.empty((0, 0)))
        if len(released) and replicate >= len(released):
            raise UserError(f"Runs are numbered from 0 to {len(released) - 1}.", title=f"There is no run {replicate}")
        problem = self.problem
        # The linear function by which the released parameters predict; None if the problem has no such function.
        score = None if problem is None or not len(released) else problem.linear_score(released[replicate])
        data = None if problem is None else problem.dataset
        if score is None or not isinstance(data, DatasetSpecification | GroupedSpecification):
            name = "the run" if problem is None else repr(problem.title)
            raise UserError(
                f"`trace.arm_trace(label).output` has what {name} released.",
                title="No linear model of a table was released",
            )
        guarantee = self.promises.get(arm, "") if arm_trace.private else "none: it was trained without privacy"
        guarantee += f". {self.time_note}" if self.time_note else ""
        return Model(score, data, guarantee)

    def to_frame(self) -> "pd.DataFrame":
        """Return all recorded values as a tidy table with one value a row.

        Its columns are algorithm, replicate, iteration, metric, value, and released: whether the value is private.
        """
        frames = []
        for label, arm_trace in self.arm_traces.items():
            for metric in arm_trace.metrics:
                iterations, values = arm_trace.series(metric.name)
                if not len(iterations):
                    continue
                rows, replicates = values.shape
                frames.append(
                    pd.DataFrame(
                        {
                            "algorithm": label,
                            "replicate": np.tile(np.arange(replicates), rows),
                            "iteration": np.repeat(iterations, replicates),
                            "metric": metric.name,
                            "value": values.ravel(),
                            "released": arm_trace.released(metric),
                        }
                    )
                )
        columns = ["algorithm", "replicate", "iteration", "metric", "value", "released"]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)


def drawable(points: np.ndarray) -> np.ndarray:
    """Return points as finite float32, which can be drawn.

    A coordinate that is infinite, or too large for float32, becomes ±FARTHEST; nan becomes FARTHEST.
    """
    with np.errstate(over="ignore"):
        converted = points.astype(np.float32)
    if np.isfinite(converted).all():
        return converted
    return np.nan_to_num(converted, nan=FARTHEST, posinf=FARTHEST, neginf=-FARTHEST)


def last_numbers(values: np.ndarray) -> np.ndarray:
    """Return (R,) the last entry of each column of a series (k, R) that is a number; nan for a column without one,
    and nothing for a series without entries."""
    if not len(values):
        return np.empty(0)
    # In reversed order the first entry that is not nan is the last number. `argmin` finds the first False; if there is
    # none it is 0, so that the last entry is taken, which is nan.
    rows = len(values) - 1 - np.argmin(np.isnan(values[::-1]), axis=0)
    return values[rows, np.arange(values.shape[1])]
