"""Traces: the recorded series of a run, written by one thread and read by another."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np

from dpviz.arguments import Between, checked, one_of
from dpviz.datasets.base import DatasetSpecification
from dpviz.displays import Displayed
from dpviz.errors import UserError
from dpviz.experiments.algorithm import Snapshot, Status
from dpviz.experiments.plan import Privacy, privacy_of
from dpviz.later import pd
from dpviz.privacy.accounting.currencies import Currency
from dpviz.problems.base import Condition, Metric, ProblemSpecification
from dpviz.problems.model import Model

ROWS = 2_000  # largest number of records of an arm
PATH = 40_000  # entries of the largest output whose path is kept
CLOUD = 100_000  # largest count of numbers in the cloud of an arm: 250 records of 200 replicates
RECORDS, LEAST_RECORDS = 60, 20  # iterations of a run that are recorded, at most and at least, about
FARTHEST = 3e38  # largest coordinate, as a float32
RUNNING: Status = "running"


def recording_grid(iterations: int, points: int = RECORDS) -> np.ndarray:
    """Return at most `points` iterations of 0..`iterations`, half linear and half logarithmic, both ends included."""
    if iterations < points:
        return np.arange(iterations + 1)
    linear = np.linspace(0, iterations, points // 2)
    logarithmic = np.geomspace(1, iterations, points - points // 2 + 1)  # the end is a point of both halves
    return np.unique(np.concatenate([linear, logarithmic]).round().astype(int))


@dataclass
class ArmTrace:
    """One arm's part of a trace: iterations (k,) and, per metric, k arrays (R,). Append-only.

    private : whether the arm has a budget. Nothing of an arm without one is released, in any metric.
    condition : the condition that the privacy of its releases rests on, from its plan.
    spent : k arrays (R,), charges of each replicate in `currency`, including before the run; empty without one.
    stopped_at : (R,) the iteration after which a replicate did not go on; -1 while it does, and where the end of the
        plan ends it. statuses : k tuples of a status per replicate; status : the last one.
    path : the outputs of the first replicate at each recorded iteration, k arrays (d,) float32 per name; released, if
        the arm is private. Empty where they are too large to keep, and where `keeps_path` is False.
    cloud : positions of the replicates in the plane of the problem at each recorded iteration, k arrays (R, 2) float32,
        finite; empty without a plane, and where they are too many to keep.
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

        Of an expensive metric, only iterations at which it was computed; with `gaps` the others too, as nan.
        """
        values = np.array(self.values.get(metric, [])[: len(self.iterations)])
        iterations = np.array(self.iterations[: len(values)], dtype=int)
        expensive = any(other.name == metric and other.cost == "expensive" for other in self.metrics)
        if expensive and not gaps and len(values):
            computed = ~np.isnan(values).all(axis=1)
            return iterations[computed], values[computed]
        return iterations, values

    def last(self, metric: str) -> np.ndarray:
        """Return (R,) the latest recorded values; empty if there are none."""
        _, values = self.series(metric)
        return values[-1] if len(values) else np.empty(0)

    def finish(self) -> None:
        """Note that the run has come to the end of its plan: replicates still running have used all iterations."""
        if self.statuses:
            self.statuses[-1] = tuple("exhausted" if word == "running" else word for word in self.status)

    @property
    def bytes(self) -> int:
        """Size of its arrays, in bytes."""
        series = (*self.values.values(), *self.path.values(), self.cloud, self.spent, list(self.output.values()))
        return sum(array.nbytes for arrays in series for array in arrays)

    @property
    def privacy(self) -> Privacy:
        """Privacy of the arm's releases."""
        return privacy_of(self.private, self.condition)

    def status_of(self, metric: Metric) -> Privacy:
        """Return the privacy of the recorded values of a metric."""
        return self.privacy if metric.released else "not private"

    def released(self, metric: Metric) -> bool:
        """Return whether a metric's values are private releases, or functions of such, on no condition."""
        return self.status_of(metric) == "private"

    def without_diagnostics(self) -> "ArmTrace":
        """Return the part of a private arm that may leave: its released metrics and outputs. A view that does not grow.

        The time is left out: it is a function of the arm's data.
        """
        metrics = tuple(metric for metric in self.metrics if self.status_of(metric) != "not private")
        values = {metric.name: self.values[metric.name] for metric in metrics if metric.name in self.values}
        return replace(self, metrics=metrics, values=values, seconds=math.nan)

    def end(self) -> "ArmTrace":
        """Return its last record alone, without outputs: of every metric the last numbers of its replicates."""
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

    def follow(self, snapshot: Snapshot) -> None:
        """Note the replicates that stop with this snapshot, recorded or not."""
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
        """Record one iteration. The iteration number is appended last: readers in other threads take the length of that
        list once.

        diagnostics : expensive ones may be missing; a second call for the same iteration fills them in.
        points : (R, 2) in the plane of the problem; those of replicates that diverged may be anything.
        """
        if self.iterations and self.iterations[-1] == snapshot.iteration:
            for name, value in diagnostics.items():
                self.values[name][-1] = np.array(value, dtype=float)
        if len(self.iterations) >= ROWS or (self.iterations and self.iterations[-1] >= snapshot.iteration):
            return
        left_out = {
            metric.name: np.full(snapshot.replicates, np.nan) for metric in self.metrics if metric.cost == "expensive"
        }
        for name, value in {**left_out, **snapshot.released, **diagnostics}.items():
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
        replicates = len(next(iter(self.output.values())))
        self.statuses.append((RUNNING,) * replicates if snapshot.status is None else snapshot.status)
        self.seconds = seconds
        self.iterations.append(snapshot.iteration)


class Trace(Displayed):
    """Everything that was recorded of an experiment, arm by arm.

    metrics : the metrics of each arm. references : labels of the arms without privacy. public : whether the data are;
        the exact iterates of a reference on other data are not kept. arms, problem, promise : those of the experiment,
        where it is known: for the styles of lines, and for models.
    """

    def __init__(
        self,
        metrics: Mapping[str, Iterable[Metric]],
        references: Collection[str] = (),
        public: bool = True,
        arms: Sequence[Any] = (),
        problem: ProblemSpecification | None = None,
        promise: str = "",
    ) -> None:
        self.public, self.arms, self.problem, self.promise = public, tuple(arms), problem, promise
        self.lanes: dict[str, ArmTrace] = {
            label: ArmTrace(tuple(of_arm), label not in references, public or label not in references)
            for label, of_arm in metrics.items()
        }

    def __repr__(self) -> str:
        recorded = (
            f"{label}: {len(part.status)} run{'s' * (len(part.status) != 1)}, "
            f"{part.iterations[-1] if part.iterations else 0} iterations"
            for label, part in self.lanes.items()
        )
        return f"<Trace of {'; '.join(recorded)}>"

    @property
    def metrics(self) -> dict[str, Metric]:
        """All metrics that any arm records, by name."""
        return {metric.name: metric for part in self.lanes.values() for metric in part.metrics}

    @property
    def bytes(self) -> int:
        """Size of all recorded arrays, in bytes."""
        return sum(part.bytes for part in self.lanes.values())

    @property
    def has_curves(self) -> bool:
        """True if every arm has more records than its starting point, so that its metrics can be drawn as lines."""
        return bool(self.lanes) and all(len(part.iterations) > 1 for part in self.lanes.values())

    @checked
    def visible(self, diagnostics: bool) -> "Trace":
        """Return everything with `diagnostics`, else the releases of private arms, which may be shown and downloaded.

        `status_of` says whether those rest on a condition, which must then be shown with them. A view of the records so
        far: of a trace that grows, ask again.
        """
        if diagnostics:
            return self
        view = Trace({}, public=self.public, arms=self.arms, problem=self.problem, promise=self.promise)
        view.lanes = {label: part.without_diagnostics() for label, part in self.lanes.items() if part.private}
        return view

    def ends(self) -> "Trace":
        """Return the last record of every arm, without outputs."""
        ends = Trace({}, public=self.public, arms=self.arms, problem=self.problem, promise=self.promise)
        ends.lanes = {label: part.end() for label, part in self.lanes.items()}
        return ends

    @checked
    def only(self, labels: Collection[str]) -> "Trace":
        """Return a view of these arms. Raises UserError for a label that no arm has."""
        for label in labels:
            one_of(label, self.lanes, "method")
        view = Trace({}, public=self.public, arms=self.arms, problem=self.problem, promise=self.promise)
        view.lanes = {label: part for label, part in self.lanes.items() if label in labels}
        return view

    @checked
    def statuses(self, metric: Metric) -> dict[str, Privacy]:
        """Return the privacy of a metric's values, for every arm that records it."""
        return {label: part.status_of(metric) for label, part in self.lanes.items() if metric in part.metrics}

    @checked
    def lane(self, arm: str) -> ArmTrace:
        """Return the part of an arm. Raises UserError for a label that no arm has."""
        one_of(arm, self.lanes, "method")
        return self.lanes[arm]

    @checked
    def series(self, arm: str, metric: str, gaps: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return iterations (k,) and values (k, R) recorded so far; empty if only other arms record the metric.

        Of an expensive metric, only iterations at which it was computed; with `gaps` the others too, as nan. Raises
        UserError for an arm or a metric that the trace does not have.
        """
        arm_trace = self.lane(arm)
        one_of(metric, self.metrics, "metric")
        return arm_trace.series(metric, gaps)

    @checked
    def spent(self, arm: str) -> tuple[np.ndarray, np.ndarray]:
        """Return iterations (k,) and the charges of each replicate so far (k, R), in the arm's currency; empty
        without one."""
        arm_trace = self.lane(arm)
        values = arm_trace.spent[: len(arm_trace.iterations)]
        return np.array(arm_trace.iterations[: len(values)], dtype=int), np.array(values)

    @checked
    def cloud(self, arm: str) -> tuple[np.ndarray, np.ndarray]:
        """Return iterations (k,) and the replicates' positions in the problem's plane (k, R, 2); empty if none is
        kept."""
        arm_trace = self.lane(arm)
        points = arm_trace.cloud[: len(arm_trace.iterations)]
        return np.array(arm_trace.iterations[: len(points)], dtype=int), np.array(points)

    @checked
    def last(self, arm: str, metric: str) -> np.ndarray:
        """Return (R,) the latest recorded values; empty if there are none. Raises UserError as `series`."""
        one_of(metric, self.metrics, "metric")
        return self.lane(arm).last(metric)

    @checked
    def guess(self, metric: str) -> tuple[Metric, float] | None:
        """Return the metric that records a constant guess's value of `metric`, and that value; None without one.

        Raises UserError for a metric that the trace does not have.
        """
        one_of(metric, self.metrics, "metric")
        for name, guess in self.metrics.items():
            if guess.beside != metric:
                continue
            for arm_trace in self.lanes.values():
                values = arm_trace.last(name)
                if len(values):
                    return guess, float(values[0])
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
        arm_trace = self.lane(arm)
        released = arm_trace.output.get("x", np.empty((0, 0)))
        if len(released) and replicate >= len(released):
            raise UserError(f"Runs are numbered from 0 to {len(released) - 1}.", title=f"There is no run {replicate}")
        problem = self.problem
        score = None if problem is None or not len(released) else problem.linear_score(released[replicate])
        data = None if problem is None else problem.dataset
        if score is None or not isinstance(data, DatasetSpecification):
            raise UserError(
                "The releases of a run are in `trace.lane(label).output`.",
                title="No linear model of a table was released",
            )
        guarantee = self.promise if arm_trace.private else "none: it was trained without privacy"
        return Model(score, data, guarantee)

    def to_frame(self) -> "pd.DataFrame":
        """Return a tidy table: algorithm, replicate, iteration, metric, value, released."""
        parts = []
        for label, arm_trace in self.lanes.items():
            for metric in arm_trace.metrics:
                iterations, values = arm_trace.series(metric.name)
                if not len(iterations):
                    continue
                rows, replicates = values.shape
                parts.append(
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
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)


def drawable(points: np.ndarray) -> np.ndarray:
    """Return points as float32; a coordinate that is not finite, or too large, becomes ±FARTHEST."""
    with np.errstate(over="ignore"):
        converted = points.astype(np.float32)
    if np.isfinite(converted).all():
        return converted
    return np.nan_to_num(converted, nan=FARTHEST, posinf=FARTHEST, neginf=-FARTHEST)


def last_numbers(values: np.ndarray) -> np.ndarray:
    """Return (R,) the last entries of a series (k, R) that are numbers; nan for a replicate that has none."""
    if not len(values):
        return np.empty(0)
    rows = len(values) - 1 - np.argmin(np.isnan(values[::-1]), axis=0)
    return values[rows, np.arange(values.shape[1])]
