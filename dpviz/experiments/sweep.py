"""Sweeps: one experiment at several values of a setting, on one or several data sets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from pydantic import Field, field_validator, model_validator

from dpviz.datasets.base import NO_TABLES
from dpviz.errors import UserError
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.laws import Fit, Order, Samples, log_law, orders, power_law
from dpviz.experiments.plan import Plan
from dpviz.experiments.trace import Trace, last_numbers
from dpviz.numbers import short
from dpviz.problems.base import Metric
from dpviz.specification import Specification, sentences

_LARGEST = 1e300  # sums and logarithms of numbers up to here are still finite


@dataclass(frozen=True)
class Point:
    """One value of a sweep on one data set, planned.

    data_seed : of the data set; None for that of the experiment. experiment : with the arms that have a plan; None if
    none has. left_out : why the others have none, by label. seconds : about how long it will take.
    """

    value: float
    data_seed: int | None
    experiment: Experiment | None
    plans: Mapping[str, Plan]
    left_out: Mapping[str, str]
    seconds: float


class Sweep(Specification):
    """An experiment at each of several values of one setting, on each of several data sets.

    Every point has random numbers of its own, drawn from the experiment's seed and from what is released there; so
    both the data and the noise differ between data sets.

    fields : addresses of the numbers that take the value, all of them at once: "budget.epsilon",
        "problem.data.strategies_x", "arms.0.algorithm.iterations". values : kept in ascending order.
    metric : what is kept of every run, at its last iteration. data_seed : address of the seed that the data are
        generated from, "problem.data.seed". data_seeds : its values, one for each data set; without any, the
        experiment's own data are the only ones.

    >>> from dpviz.families.accelerated import Nesterov
    >>> from dpviz.problems.quadratic import Quadratic
    >>> arm = Arm(label="NAG", algorithm=Nesterov(iterations=5))
    >>> experiment = Experiment(problem=Quadratic(), arms=(arm,), replicates=2)
    >>> sweep = Sweep(experiment=experiment, fields=("budget.epsilon",), values=(5.0, 0.05), metric="objective_gap")
    >>> values, medians = sweep.run().medians("NAG")
    >>> values.tolist(), bool(medians[0] > medians[1])  # with less budget it is worse
    ([0.05, 5.0], True)
    """

    kind: ClassVar[str] = "experiments.sweep.sweep"
    experiment: Experiment
    fields: tuple[str, ...] = Field(min_length=1, max_length=32)
    values: tuple[float, ...] = Field(min_length=1, max_length=24)
    metric: str = Field(min_length=1, max_length=100)
    data_seed: str = Field("", max_length=100)
    data_seeds: tuple[int, ...] = Field((), max_length=32)

    @field_validator("values")
    @classmethod
    def _ascending(cls, values: tuple[float, ...]) -> tuple[float, ...]:
        if len(set(values)) < len(values):
            raise ValueError("every value of a sweep must be another one")
        return tuple(sorted(values))

    @model_validator(mode="after")
    def _data_sets_differ(self) -> "Sweep":
        if len(set(self.data_seeds)) < len(self.data_seeds) or bool(self.data_seeds) != bool(self.data_seed):
            raise ValueError("several data sets need the address of their seed, and a seed each")
        return self

    @property
    def data_sets(self) -> int:
        """How many data sets there are."""
        return len(self.data_seeds) or 1

    def points(self) -> tuple[Experiment, ...]:
        """The experiment at each value on the first data set, then on the next ones.

        Raises UserError, naming the value or the seed, where settings do not go together.
        """
        first = [self._at(value) for value in self.values]
        return tuple(self._on(seed, point) for seed in self.data_seeds or (None,) for point in first)

    def planned(self) -> tuple[Point, ...]:
        """The points with the plans of their arms, from public facts alone.

        An arm without a plan at some value is left out there, with the reason. Raises UserError if no arm has a plan at
        any value, or as `points` does.
        """
        first = [_planned(value, self._at(value)) for value in self.values]
        if all(point.experiment is None for point in first):
            raise UserError(next(iter(first[0].left_out.values())), title="No method has a plan")
        # Plans know nothing of the data, so they are the same for all data sets.
        return tuple(
            replace(point, data_seed=seed, experiment=point.experiment and self._on(seed, point.experiment))
            for seed in self.data_seeds or (None,)
            for point in first
        )

    def stream(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> Iterator["SweepStep"]:
        """Run point after point, yielding after every iteration of any arm and after every point.

        All values on one data set come before the next one, so the whole curve is there early and then gains its
        intervals. A stop in the middle keeps the points that are finished. An arm that meets a user's mistake while it
        runs is left out at that point. Raises UserError as `planned` does, and if the first point can tell nothing.
        """
        points = self.planned()
        result = SweepResult(self.experiment.arms, self.metric, len(points))
        result.left_out += [
            LeftOut(point.value, label, reason)
            for point in points[: len(self.values)]
            for label, reason in point.left_out.items()
        ]
        total, done, progress = sum(point.seconds for point in points), 0.0, 0.0
        for number, point in enumerate(points, 1):
            if point.experiment is not None:
                for share in _run(point, point.experiment, tables, result):
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
            raise UserError(f"At the value {short(value, 10)}: {error}", title="This sweep is not possible") from None

    def _on(self, data_seed: int | None, experiment: Experiment) -> Experiment:
        if data_seed is None:
            return experiment
        try:
            return _replaced(experiment, [self.data_seed.split(".")], data_seed)
        except UserError as error:
            raise UserError(f"On the data set {data_seed}: {error}", title="This sweep is not possible") from None


@dataclass(frozen=True)
class LeftOut:
    """An arm that has no result at a value, and why."""

    value: float
    label: str
    reason: str


@dataclass
class Curve:
    """What is known of one arm: at k points value, data seed, the (R,) last numbers, and how many runs diverged.

    released : whether the numbers are functions of private releases, as the runs' lanes say.
    """

    released: bool = False
    values: list[float] = field(default_factory=list)
    data_seeds: list[int | None] = field(default_factory=list)
    samples: list[np.ndarray] = field(default_factory=list)
    diverged: list[int] = field(default_factory=list)

    def append(self, value: float, samples: np.ndarray, diverged: int, data_seed: int | None = None) -> None:
        """Add a point. The value comes last: readers take the length of that list once."""
        self.samples.append(samples)
        self.diverged.append(diverged)
        self.data_seeds.append(data_seed)
        self.values.append(value)

    def on(self, data_seed: int | None) -> dict[float, np.ndarray]:
        """The numbers (R,) by value on one data set, values ascending."""
        rows = range(len(self.values))
        return {self.values[row]: self.samples[row] for row in rows if self.data_seeds[row] == data_seed}


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

    def visible(self, diagnostics: bool) -> "SweepResult":
        """What may be shown and taken away: everything with `diagnostics`, else what private arms release.

        A view of what was found so far: of a sweep that is under way, ask again.
        """
        if diagnostics:
            return self
        view = SweepResult(self.arms, self.metric_name, self.points)
        view.curves = {label: curve for label, curve in self.curves.items() if curve.released}
        view.metric, view.finished, view.left_out = self.metric, self.finished, self.left_out
        return view

    def series(self, arm: str) -> tuple[np.ndarray, list[np.ndarray]]:
        """Values (k,), ascending, and at each the last numbers of all runs on all data sets so far, (R × S,)."""
        curve = self.curves[arm]
        found: dict[float, list[np.ndarray]] = {}
        for value, samples in zip(curve.values[:], curve.samples, strict=False):
            found.setdefault(value, []).append(samples)
        values = sorted(found)
        return np.array(values), [np.concatenate(found[value]) for value in values]

    def medians(self, arm: str) -> tuple[np.ndarray, np.ndarray]:
        """Values (k,) and the medians (k,) over all runs on all data sets."""
        values, samples = self.series(arm)
        return values, np.array([np.median(found) for found in samples])

    def laws(self, arm: str) -> tuple[Fit | None, Fit | None]:
        """Power law and log law, fitted on every data set on which the arm has been at all values."""
        values, data_sets = self._complete(arm)
        return (power_law(values, *data_sets), log_law(values, *data_sets)) if data_sets else (None, None)

    def orders(self, one: str, other: str) -> tuple[Order, ...]:
        """How two arms lie to each other on the data sets that are complete; the most frequent order first."""
        values = np.intersect1d(self._complete(one)[0], self._complete(other)[0])
        curves = []
        for seed in self._data_seeds():
            first, second = self.curves[one].on(seed), self.curves[other].on(seed)
            if len(values) and all(value in first and value in second for value in values):
                medians = [np.array([np.median(found[value]) for value in values]) for found in (first, second)]
                curves.append((values, medians[0], medians[1]))
        return orders(one, other, curves)

    def _complete(self, arm: str) -> tuple[np.ndarray, list[Samples]]:
        """Values at which the arm has a result on some data set, and its numbers on every one that has them all.

        While the first data set is under way it counts as it is.
        """
        by_seed = [self.curves[arm].on(seed) for seed in self._data_seeds()]
        values = sorted(set().union(*by_seed))
        return np.array(values), [[found[value] for value in values] for found in by_seed if len(found) == len(values)]

    def _data_seeds(self) -> list[int | None]:
        return list(dict.fromkeys(seed for curve in self.curves.values() for seed in curve.data_seeds[:]))

    def to_frame(self) -> pd.DataFrame:
        """Tidy table: algorithm, data_seed, replicate, setting (the value of the sweep), metric, value, released."""
        columns = ["algorithm", "data_seed", "replicate", "setting", "metric", "value", "released"]
        rows = [
            (label, seed, replicate, setting, self.metric_name, value, curve.released)
            for label, curve in self.curves.items()
            for setting, seed, found in zip(curve.values[:], curve.data_seeds, curve.samples, strict=False)
            for replicate, value in enumerate(found.tolist())
        ]
        return pd.DataFrame(rows, columns=columns)

    def record(self, value: float, trace: Trace, data_seed: int | None = None) -> None:
        """Add the last state of every arm of a run that is finished, at a value and on a data set.

        A replicate that diverged keeps the last number that it delivered, as in a trace, at most ±1e300.
        """
        for label, lane in trace.lanes.items():
            found = last_numbers(trace.series(label, self.metric_name)[1])
            if not len(found):
                self.left_out.append(LeftOut(value, label, "This method does not record the quantity."))
            elif np.isnan(found).any():
                self.left_out.append(LeftOut(value, label, "Some runs of this method delivered no numbers."))
            else:
                self.curves[label].released = lane.released(trace.metrics[self.metric_name])
                self.curves[label].append(
                    value, np.clip(found, -_LARGEST, _LARGEST), lane.status.count("diverged"), data_seed
                )


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
    found = experiment.planned()
    left_out = {label: str(error) for label, error in found.refused.items()}
    seconds = 0.0 if found.experiment is None else found.experiment.estimated_seconds(found.plans)
    return Point(value, None, found.experiment, found.plans, left_out, seconds)


def _run(
    point: Point, experiment: Experiment, tables: Mapping[str, np.ndarray], result: SweepResult
) -> Iterator[float]:
    """Run one point, yielding its progress, and record it. If an arm meets a mistake, each arm runs by itself.

    That changes nothing for the others: results of an arm do not depend on those beside it.
    """
    steps = experiment.stream(tables)
    try:
        for step in steps:
            if step.trace.lanes:  # data are loaded
                result.metric = result.metric or _recorded(step.trace, result.metric_name)
            yield step.progress
    except UserError as error:
        if result.metric is None:
            raise  # it is not this point: the data or the metric are missing everywhere
        if len(experiment.arms) == 1:
            result.left_out.append(LeftOut(point.value, experiment.arms[0].label, str(error)))
            return
        for arm in experiment.arms:
            yield from _run(point, experiment.replaced(arms=(arm,)), tables, result)
        return
    finally:
        steps.close()  # type: ignore[attr-defined]  # streams are generators
    result.record(point.value, step.trace, point.data_seed)


def _recorded(trace: Trace, name: str) -> Metric:
    if name not in trace.metrics:
        raise UserError(f"No method records '{name}'. Recorded are: {', '.join(trace.metrics)}.")
    return trace.metrics[name]
