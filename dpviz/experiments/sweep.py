"""Sweeps: one experiment at several values of a setting, and how its outcome grows with that value."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from pydantic import Field, field_validator

from dpviz.datasets.base import NO_TABLES
from dpviz.errors import UserError
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.plan import Plan
from dpviz.experiments.trace import Trace
from dpviz.problems.base import Metric
from dpviz.specification import Specification, sentences

_LARGEST = 1e300  # sums and logarithms of numbers up to here are still finite


@dataclass(frozen=True)
class Point:
    """One value of a sweep, planned.

    experiment : with the arms that have a plan; None if none has. left_out : why the others have none, by label.
    seconds : about how long it will take.
    """

    value: float
    experiment: Experiment | None
    plans: Mapping[str, Plan]
    left_out: Mapping[str, str]
    seconds: float


class Sweep(Specification):
    """An experiment at each of several values of one setting. All points share the seed, and so their random numbers.

    fields : addresses of the numbers that take the value, all of them at once: "budget.epsilon",
        "problem.data.strategies_x", "arms.0.algorithm.iterations". values : kept in ascending order.
    metric : what is kept of every run, at its last iteration.
    """

    kind: ClassVar[str] = "experiments.sweep.sweep"
    experiment: Experiment
    fields: tuple[str, ...] = Field(min_length=1, max_length=32)
    values: tuple[float, ...] = Field(min_length=1, max_length=24)
    metric: str = Field(min_length=1, max_length=100)

    @field_validator("values")
    @classmethod
    def _ascending(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        if len(set(values)) < len(values):
            raise ValueError("every value of a sweep must be another one")
        return tuple(sorted(values))

    def points(self) -> tuple[Experiment, ...]:
        """The experiment at each value. Raises UserError, naming the value, where settings do not go together."""
        return tuple(self._at(value) for value in self.values)

    def planned(self) -> tuple[Point, ...]:
        """The points with the plans of their arms, from public facts alone.

        An arm without a plan at some value is left out there, with the reason. Raises UserError if no arm has a plan at
        any value, or as `points` does.
        """
        points = tuple(_planned(value, point) for value, point in zip(self.values, self.points(), strict=True))
        if all(point.experiment is None for point in points):
            raise UserError(next(iter(points[0].left_out.values())), title="No method has a plan")
        return points

    def stream(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> Iterator["SweepStep"]:
        """Run point after point, yielding after every iteration of any arm and after every point.

        A stop in the middle keeps the points that are finished. An arm that meets a user's mistake while it runs is
        left out at that point. Raises UserError as `planned` does, and if the first point can tell nothing.
        """
        points = self.planned()
        result = SweepResult(self.experiment.arms, self.metric, len(points))
        result.left_out += [
            LeftOut(point.value, label, reason) for point in points for label, reason in point.left_out.items()
        ]
        total, done, progress = sum(point.seconds for point in points), 0.0, 0.0
        for number, point in enumerate(points, 1):
            if point.experiment is not None:
                for share in _run(point.value, point.experiment, tables, result):
                    progress = min(1.0, max(progress, (done + point.seconds * share) / total))
                    yield SweepStep(point.value, result, progress)
            done += point.seconds
            result.finished = number
            progress = max(progress, done / total) if number < len(points) else 1.0
            yield SweepStep(point.value, result, progress)

    def run(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "SweepResult":
        """Run all points to their end."""
        for step in self.stream(tables):  # noqa: B007 (a sweep has at least one point, and a point one step)
            pass
        return step.result

    def _at(self, value: float) -> Experiment:
        try:
            return _replaced(self.experiment, [address.split(".") for address in self.fields], value)
        except UserError as error:
            raise UserError(f"At the value {value:.10g}: {error}", title="This sweep is not possible") from None


@dataclass(frozen=True)
class LeftOut:
    """An arm that has no result at a value, and why."""

    value: float
    label: str
    reason: str


@dataclass
class Curve:
    """What is known of one arm: k values, at each the (R,) last values of the metric, and how many runs diverged."""

    values: list[float] = field(default_factory=list)
    samples: list[np.ndarray] = field(default_factory=list)
    diverged: list[int] = field(default_factory=list)

    def append(self, value: float, samples: np.ndarray, diverged: int) -> None:
        """Add a point. The value comes last: readers take the length of that list once."""
        self.samples.append(samples)
        self.diverged.append(diverged)
        self.values.append(value)


class SweepResult:
    """The outcome of a sweep, arm by arm. Written by one thread and read by others; append-only.

    arms, curves : what is compared, and by label what is known of it. metric_name : what is kept; metric : its words,
    from the first iteration on. points, finished : how many there are, and how many are done. left_out : which arms
    have no result at which values.
    """

    def __init__(self, arms: Sequence[Arm], metric_name: str, points: int) -> None:
        self.arms = tuple(arms)
        self.curves: dict[str, Curve] = {arm.label: Curve() for arm in arms}
        self.metric_name, self.points = metric_name, points
        self.metric: Metric | None = None
        self.finished = 0
        self.left_out: list[LeftOut] = []

    def series(self, arm: str) -> tuple[np.ndarray, list[np.ndarray]]:
        """Values (k,), ascending, and at each the last values (R,) of the metric."""
        curve = self.curves[arm]
        values = np.array(curve.values)
        return values, curve.samples[: len(values)]

    def medians(self, arm: str) -> tuple[np.ndarray, np.ndarray]:
        """Values (k,) and the medians (k,) over the replicates."""
        values, samples = self.series(arm)
        return values, np.array([np.median(found) for found in samples])

    def shared(self, one: str, other: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The values at which both arms have results, and their medians there."""
        (x, first), (y, second) = self.medians(one), self.medians(other)
        common, of_first, of_second = np.intersect1d(x, y, return_indices=True)
        return common, first[of_first], second[of_second]

    def to_frame(self) -> pd.DataFrame:
        """Tidy table: algorithm, replicate, setting (the value of the sweep), metric, value, released."""
        columns = ["algorithm", "replicate", "setting", "metric", "value", "released"]
        released = self.metric is not None and self.metric.released
        rows = [
            (label, replicate, setting, self.metric_name, value, released)
            for label in self.curves
            for setting, found in zip(*self.series(label), strict=True)
            for replicate, value in enumerate(found.tolist())
        ]
        return pd.DataFrame(rows, columns=columns)

    def record(self, value: float, trace: Trace) -> None:
        """Add the last state of every arm of a run that is finished.

        A replicate that diverged keeps the last number that it delivered, as in a trace, at most ±1e300.
        """
        for label, lane in trace.lanes.items():
            found = _last_numbers(trace.series(label, self.metric_name)[1])
            if not len(found):
                self.left_out.append(LeftOut(value, label, "This method does not record the quantity."))
            elif np.isnan(found).any():
                self.left_out.append(LeftOut(value, label, "Some runs of this method delivered no numbers."))
            else:
                self.curves[label].append(value, np.clip(found, -_LARGEST, _LARGEST), lane.status.count("diverged"))


@dataclass(frozen=True)
class SweepStep:
    """One advance of a sweep at one of its values: the result so far, and the progress over all points in [0, 1]."""

    value: float
    result: SweepResult
    progress: float


def _replaced(owner: Any, addresses: Sequence[Sequence[str]], value: float) -> Any:
    """A validated copy of a specification, or a tuple of them, with the numbers at the addresses replaced."""
    changes: dict[str, Any] = {}
    for name in dict.fromkeys(address[0] for address in addresses):
        below = [address[1:] for address in addresses if address[0] == name]
        if not all(below):
            changes[name] = _number(owner, name, value)
        elif isinstance(owner, tuple) and name.isdecimal() and int(name) < len(owner):
            changes[name] = _replaced(owner[int(name)], below, value)
        elif isinstance(owner, Specification) and name in type(owner).model_fields:
            changes[name] = _replaced(getattr(owner, name), below, value)
        else:
            raise _no_number(name)
    if isinstance(owner, tuple):
        return tuple(changes.get(str(position), item) for position, item in enumerate(owner))
    with sentences(type(owner)):
        return owner.replaced(**changes)


def _number(owner: Any, name: str, value: float) -> float | int:
    """The value as the field that it is for takes it."""
    controls = {control.name: control for control in owner.controls()} if isinstance(owner, Specification) else {}
    control = controls.get(name)
    if control is None or control.options or control.type not in (int, float):
        raise _no_number(name)
    if control.type is float:
        return value
    if not float(value).is_integer():
        raise UserError(f"{control.label} must be a whole number.")
    return int(value)


def _no_number(name: str) -> UserError:
    return UserError(f"'{name}' is not a number among these settings. Choose another quantity to vary.")


def _planned(value: float, experiment: Experiment) -> Point:
    plans: dict[str, Plan] = {}
    left_out: dict[str, str] = {}
    for arm in experiment.arms:
        try:
            plans[arm.label] = experiment.plan(arm)
        except UserError as error:
            left_out[arm.label] = str(error)
    kept = tuple(arm for arm in experiment.arms if arm.label in plans)
    reduced = experiment.replaced(arms=kept) if kept else None
    return Point(value, reduced, plans, left_out, 0.0 if reduced is None else reduced.estimated_seconds(plans))


def _run(
    value: float, experiment: Experiment, tables: Mapping[str, np.ndarray], result: SweepResult
) -> Iterator[float]:
    """Run one point, yielding its progress, and record it. If an arm meets a mistake, each arm runs by itself.

    That changes nothing for the others: results of an arm do not depend on those beside it.
    """
    steps = experiment.stream(tables)
    try:
        for step in steps:
            result.metric = result.metric or _recorded(step.trace, result.metric_name)
            yield step.progress
    except UserError as error:
        if result.metric is None:
            raise  # it is not this point: the data or the metric are missing everywhere
        if len(experiment.arms) == 1:
            result.left_out.append(LeftOut(value, experiment.arms[0].label, str(error)))
            return
        for arm in experiment.arms:
            yield from _run(value, experiment.replaced(arms=(arm,)), tables, result)
        return
    finally:
        steps.close()  # type: ignore[attr-defined]  # streams are generators
    result.record(value, step.trace)


def _recorded(trace: Trace, name: str) -> Metric:
    if name not in trace.metrics:
        raise UserError(f"No method records '{name}'. Recorded are: {', '.join(trace.metrics)}.")
    return trace.metrics[name]


def _last_numbers(values: np.ndarray) -> np.ndarray:
    """(R,) the last entries of a series (k, R) that are numbers; nan for a replicate that has none."""
    if not len(values):
        return np.empty(0)
    rows = len(values) - 1 - np.argmin(np.isnan(values[::-1]), axis=0)
    return values[rows, np.arange(values.shape[1])]


# ------------------------------------------------------------------------------------------------------------ laws


@dataclass(frozen=True)
class Fit:
    """A least-squares slope and its standard error, None where nothing tells it (one run at each of two points)."""

    slope: float
    error: float | None


def power_law(values: np.ndarray, samples: Sequence[np.ndarray]) -> Fit | None:
    """The exponent p of median ≈ c value^p: slope of log median against log value; values (k,), samples k × (R,).

    The error is the larger of two: that of the replicates, from distribution-free 68 % intervals of the medians (order
    statistics around the middle), taken as independent; and that of the regression, from its residuals, which also
    sees a bent curve. Points without a logarithm are left out; None if fewer than two remain.
    """
    intervals = _around_medians(samples)
    kept = (np.asarray(values) > 0) & (intervals[:, 0] > 0)
    return _fit(np.log(np.asarray(values)[kept]), np.log(intervals[kept]), _several(samples))


def log_law(values: np.ndarray, samples: Sequence[np.ndarray]) -> Fit | None:
    """The slope b of median ≈ a + b ln(value): growth of the metric, in its own unit, per factor e of the value.

    Errors as of `power_law`; values that are not positive are left out; None if fewer than two remain.
    """
    kept = np.asarray(values) > 0
    return _fit(np.log(np.asarray(values)[kept]), _around_medians(samples)[kept], _several(samples))


def _several(samples: Sequence[np.ndarray]) -> bool:
    """Whether there is more than one replicate everywhere."""
    return all(len(found) > 1 for found in samples)


def _around_medians(samples: Sequence[np.ndarray]) -> np.ndarray:
    """(k, 3): lower end of a 68 % interval of the median, the median, and the upper end.

    The number of samples below the median is binomial, with standard deviation √R/2; so the interval ends at the
    quantiles 1/2 ± 1/(2√R).
    """
    rows = []
    for found in samples:
        half = 0.5 / math.sqrt(len(found))
        rows.append(np.quantile(found, (0.5 - half, 0.5, 0.5 + half), method="hazen"))
    return np.array(rows).reshape(-1, 3)


def _fit(x: np.ndarray, intervals: np.ndarray, several: bool) -> Fit | None:
    """Least squares of the medians (k,) of `intervals` (k, 3) on x (k,); several: whether intervals have a width."""
    if len(x) < 2:
        return None
    low, middle, high = intervals.T
    centred = x - x.mean()
    weights = centred / (centred @ centred)
    slope = float(weights @ middle)
    errors = [float(np.linalg.norm(weights * (high - low) / 2))] if several else []
    if len(x) > 2:
        residuals = middle - middle.mean() - slope * centred
        errors.append(math.sqrt(residuals @ residuals / (len(x) - 2) / (centred @ centred)))
    return Fit(slope, max(errors, default=None))


def crossovers(values: np.ndarray, medians_a: np.ndarray, medians_b: np.ndarray) -> tuple[float, ...]:
    """Where two curves cross, ascending; all arrays (k,), values ascending.

    Between two points both curves are straight in the logarithms of value and median; in the numbers themselves where
    some are not positive. Curves that touch without changing places do not cross.
    """
    x = _logarithmic(values)
    both = _logarithmic(np.stack([medians_a, medians_b])) if len(values) else np.empty((2, 0))
    difference = both[0] - both[1]
    apart = np.flatnonzero(difference)
    found = []
    for i, j in pairwise(apart):
        before, after = difference[i], difference[j]
        if (before > 0) == (after > 0):
            continue
        # Equal at points in between: they change places there.
        place = x[i] + (x[j] - x[i]) * before / (before - after) if j == i + 1 else (x[i + 1] + x[j - 1]) / 2
        found.append(float(place if x is values else np.exp(place)))
    return tuple(found)


def _logarithmic(numbers: np.ndarray) -> np.ndarray:
    """The logarithms, or the same array where some have none."""
    return np.log(numbers) if (numbers > 0).all() else numbers
