"""Sweeps: one experiment at several values of one setting or two, on one or several data sets."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from dpviz.arguments import checked
from dpviz.datasets.base import NO_TABLES
from dpviz.displays import bar
from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment, check_tables
from dpviz.experiments.plan import Plan
from dpviz.experiments.results import releases
from dpviz.experiments.task import Cell, Executor, InThread, Outcome
from dpviz.experiments.trace import Trace
from dpviz.numbers import short
from dpviz.specification import Control, Specification, sentences
from dpviz.sweeps.sweep_result import LeftOut, Place, SweepResult

# ----------------------------------------------------- the numbers among an experiment's settings, with their addresses

SEED = "seed"
_DIGITS = 3  # significant digits of the values between both ends


@dataclass(frozen=True)
class Setting:
    """A number that can be varied: its declared range, and its addresses, several if methods share it."""

    control: Control
    fields: tuple[str, ...]

    @property
    def title(self) -> str:
        """Title of the setting, with symbol and unit."""
        return self.control.title

    @property
    def usual(self) -> tuple[float, float]:
        """A range to begin with: a factor of ten on either side of the default on a log scale, else the whole range."""
        low, high, default = self.control.low or 0.0, self.control.high or 1.0, self.control.default
        if self.control.scale == "linear" or not default:
            return low, high
        return max(low, self._rounded(default / 10)), min(high, self._rounded(default * 10))

    def grid(self, low: float, high: float, count: int) -> tuple[float, ...]:
        """Return at most `count` values from low to high, evenly spaced on the declared scale; whole numbers once each.

        Values between the ends are rounded to three digits. Raises UserError if the range is empty.
        """
        if not low < high:
            raise UserError(f"{self.control.label}: “From” must be below “To”.", title="This range is empty")
        spacing = np.geomspace if self.logarithmic and low > 0 else np.linspace
        between = {self._rounded(value) for value in spacing(low, high, count)[1:-1].tolist()}
        return tuple(sorted({float(low), *between, float(high)}))

    @property
    def logarithmic(self) -> bool:
        """True if its values are spaced by factors."""
        return self.control.scale == "log"

    def _rounded(self, value: float) -> float:
        rounded = float(f"{value:.{_DIGITS}g}")
        return float(round(rounded)) if self.control.type is int else rounded


def settings(experiment: Experiment) -> dict[str, Setting]:
    """Return the settings that can be varied, by name: the budget's, those of the methods, the problem's, and its
    data's.

    A setting of the methods is varied in all that have it, references included. Repeats and seeds are not among them.
    """
    shared: dict[str, Setting] = {}
    for position, arm in enumerate(experiment.arms):
        for name, setting in _addressed(arm.algorithm, f"arms.{position}.algorithm").items():
            earlier = shared.get(name)
            shared[name] = replace(earlier, fields=earlier.fields + setting.fields) if earlier else setting
    result = {**_addressed(experiment.budget, "budget"), **shared}
    for owner, address in ((experiment.problem, "problem"), (experiment.problem.dataset, "problem.data")):
        if owner is not None:
            result |= {
                f"{address.rpartition('.')[2]}_{name}": part for name, part in _addressed(owner, address).items()
            }
    return result


def data_seed(experiment: Experiment) -> str:
    """Return the address of the seed that the data are generated from; empty where there is none."""
    data = experiment.problem.dataset
    return f"problem.data.{SEED}" if data is not None and SEED in type(data).model_fields else ""


def named(experiment: Experiment, fields: Sequence[str]) -> Setting | None:
    """Return the setting with these addresses, or the one of which they are a part; None without one."""
    return next((setting for setting in settings(experiment).values() if set(fields) <= set(setting.fields)), None)


def numbers(owner: Specification) -> Iterator[Control]:
    """Return the controls of numbers with a range; without seeds, whose values have no order."""
    return (
        control for control in type(owner).controls() if control.low is not None and not control.name.endswith(SEED)
    )


def _addressed(owner: Specification, address: str) -> Mapping[str, Setting]:
    return {control.name: Setting(control, (f"{address}.{control.name}",)) for control in numbers(owner)}


# --------------------------------------------------------------------------------------------------------------- sweeps

MOST_VALUES, MOST_POINTS = 24, 200
Address = Sequence[str]  # "budget.epsilon", split at the dot
_HERE = InThread()


@dataclass(frozen=True, kw_only=True)
class Point(Place):
    """A point of a sweep with its plans.

    experiment : with the arms that have a plan; None if none has. left_out : the reasons why the other arms have none,
        by label.
    bytes : estimated memory that the run will need.
    """

    experiment: Experiment | None
    plans: Mapping[str, Plan]
    left_out: Mapping[str, str]
    bytes: float

    @property
    def steps(self) -> int:
        """Number of steps of all its methods and repeats."""
        repeats = 0 if self.experiment is None else self.experiment.replicates
        return repeats * sum(max(1, plan.iterations) for plan in self.plans.values())

    @property
    def place(self) -> Place:
        """The point's values, without its experiment and plans."""
        return Place(self.number, self.value, self.second, self.data_seed)


def _ascending(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(values) > MOST_VALUES:
        raise ValueError(f"at most {MOST_VALUES} of a setting, and there are {len(values):,}")
    if len(set(values)) < len(values):
        raise ValueError("every value of a sweep must be another one")
    return tuple(sorted(values))


Fields = Annotated[tuple[str, ...], Field(min_length=1, max_length=32)]
Values = Annotated[tuple[float, ...], Field(min_length=1), AfterValidator(_ascending)]


class Axis(Specification):
    """A setting that a sweep varies.

    fields : addresses of the numbers that take the value, all of them at once: "budget.epsilon",
        "problem.data.strategies_x", "arms.0.algorithm.iterations". values : kept in ascending order.
    """

    kind: ClassVar[str] = "experiments.sweep.axis"
    fields: Fields
    values: Values

    def taking(self, value: float) -> list[tuple[Address, float]]:
        """Return each address with that value."""
        return [(address.split("."), value) for address in self.fields]


class Sweep(Specification):
    """An experiment at each of several values of one setting, or of two, on each of several data sets.

    Every point has noise and batches of its own, drawn from the experiment's seed and from the point's releases; so
    both the data and the noise differ between data sets. Points on one problem share the starting points of their runs.

    experiment : also as the first positional argument.
    fields, values : of the setting, as of an `Axis`; or its values by its name alone, such as `epsilon=(0.5, 1, 2)`.
    second : another setting, whose values are combined with each of these.
    metric : the metric that is kept of every run, at its last iteration; by default the most telling one.
    data_seed : address of the seed that the data are generated from, "problem.data.seed". data_seeds : its values, one
        for each data set; without any, the experiment's data are the only ones.

    >>> from dpviz.experiments.experiment import Arm
    >>> from dpviz.families.accelerated import Nesterov
    >>> from dpviz.problems.linear.quadratic import Quadratic
    >>> arm = Arm(label="NAG", algorithm=Nesterov(iterations=5))
    >>> experiment = Experiment(problem=Quadratic(), arms=(arm,), replicates=2)
    >>> sweep = Sweep(experiment, epsilon=(5.0, 0.05))
    >>> values, medians = sweep.run().medians("NAG")
    >>> values.tolist(), bool(medians[0] > medians[1])  # with less budget it is worse
    ([0.05, 5.0], True)
    """

    kind: ClassVar[str] = "experiments.sweep.sweep"
    experiment: Experiment
    fields: Fields
    values: Values
    second: Axis | None = None
    metric: str = Field("", max_length=100)
    data_seed: str = Field("", max_length=100)
    data_seeds: tuple[int, ...] = Field((), max_length=32)

    def __init__(self, experiment: Experiment | None = None, **values: Any) -> None:
        super().__init__(**({} if experiment is None else {"experiment": experiment}), **values)

    @model_validator(mode="before")
    @classmethod
    def _from_short_forms(cls, values: Any) -> Any:
        experiment = values.get("experiment") if isinstance(values, dict) else None
        if not isinstance(experiment, Experiment):
            return values
        names = [name for name in values if name not in cls.model_fields and name != "kind"]
        if len(names) == 1 and "fields" not in values and (setting := settings(experiment).get(names[0])):
            values = {name: value for name, value in values.items() if name != names[0]} | {
                "fields": setting.fields,
                "values": values[names[0]],
            }
        return values

    @model_validator(mode="after")
    def _most_telling_metric(self) -> "Sweep":
        if not self.metric:
            metrics = self.experiment.metrics().values()
            visible = [metric for metric in metrics if metric.released or self.experiment.public]
            if not visible:
                raise ValueError("name a metric: these methods release no series")
            object.__setattr__(self, "metric", visible[0].name)  # frozen, but not finished before its validators
        return self

    @model_validator(mode="after")
    def _data_sets_differ(self) -> "Sweep":
        if bool(self.data_seeds) != bool(self.data_seed):
            raise ValueError("several data sets need the address of their seed, and a seed each")
        if len(set(self.data_seeds)) < len(self.data_seeds):
            raise ValueError("every data set needs a seed of its own")
        return self

    @model_validator(mode="after")
    def _varied_once(self) -> "Sweep":
        all_fields = self.fields, self.second.fields if self.second else (), (self.data_seed,) if self.data_seed else ()
        numbers = [number for fields in all_fields for number in set(fields)]
        if len(set(numbers)) < len(numbers):
            raise ValueError("a number can take one value at a time; vary another setting beside it")
        return self

    @model_validator(mode="after")
    def _not_too_many(self) -> "Sweep":
        if (points := self.data_sets * self.places) > MOST_POINTS:
            raise ValueError(f"at most {MOST_POINTS} points, and this has {points}; choose fewer values or data sets")
        return self

    @property
    def data_sets(self) -> int:
        """Number of data sets."""
        return len(self.data_seeds) or 1

    @property
    def places(self) -> int:
        """Number of points on every data set."""
        return len(self.values) * (len(self.second.values) if self.second else 1)

    def points(self) -> tuple[Experiment, ...]:
        """Return the experiment of every point: on the first data set, value by value of the second setting, then on
        the next.

        Raises UserError, naming the value or the seed, where settings do not go together.
        """
        first = [experiment for _, experiment in self._first()]
        return tuple(self._on(seed, point) for seed in self.data_seeds or (None,) for point in first)

    def planned(self) -> tuple[Point, ...]:
        """Compute the plans of all points, from public facts alone.

        An arm without a plan at some value is left out there, with the reason. Raises UserError if no arm has a plan at
        any value, or as `points` does.
        """
        first = [_planned(place, experiment) for place, experiment in self._first()]
        if all(point.experiment is None for point in first):
            raise UserError(next(iter(first[0].left_out.values())), title="No method has a plan")
        # Plans depend on public facts alone, so they are the same for all data sets.
        points = [
            replace(point, data_seed=seed, experiment=point.experiment and self._on(seed, point.experiment))
            for seed in self.data_seeds or (None,)
            for point in first
        ]
        return tuple(replace(point, number=number) for number, point in enumerate(points))

    def price(self, points: Sequence[Point] | None = None) -> str:
        """Return the number of releases that its runs make of data that are not public, with their total cost, in
        words.

        "6 releases, ε = 9 by adding up"; empty for public data. points : of `planned`, if they were computed before.
        """
        if self.experiment.public:
            return ""
        runs = [
            (plan, point.experiment.replicates)
            for point in points or self.planned()
            if point.experiment is not None
            for plan in point.plans.values()
        ]
        return releases(runs, self.experiment.budget)

    def cells(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> tuple[Cell, ...]:
        """Return the cells to run, in the order of the points; without points at which no arm has a plan."""
        return _cells(self.planned(), tables)

    def stream(
        self,
        tables: Mapping[str, np.ndarray] = NO_TABLES,
        executor: Executor = _HERE,
        stopping: threading.Event | None = None,
        on_progress: "Callable[[SweepStep], None] | None" = None,
    ) -> Iterator["SweepStep"]:
        """Let an executor run the points, yielding a step as each ends, in any order.

        All values on one data set come before the next one, so the whole curve is there early and then gains its
        intervals. A stop, by setting `stopping` or closing the stream, keeps the points that are finished. An arm that
        meets a user's mistake during its run, and a point that fails, are left out. Raises UserError as `planned` does,
        if no arm records the metric, and at the end if no point could be run.

        on_progress : called with every advance, also inside a point; by any thread.
        """
        points, stopping = self.planned(), stopping or threading.Event()
        under_way = _UnderWay(self, points, stopping, on_progress)
        outcomes = executor.run(_cells(points, tables), stopping, under_way.on_progress)
        try:
            for number, outcome in outcomes:
                yield under_way.end(number, outcome)
            under_way.check()
        except BaseException:  # the caller no longer waits for the other points
            stopping.set()
            raise
        finally:
            outcomes.close()  # type: ignore[attr-defined]  # executors are generators

    @checked
    def run(
        self, tables: Mapping[str, Any] = NO_TABLES, executor: Executor = _HERE, *, progress: bool = False
    ) -> SweepResult:
        """Run all points to their end. progress : as of `Experiment.run`."""
        check_tables(self.experiment.problem, tables)
        with bar("dpviz sweep", progress) as set_progress:
            tables = {**self.experiment.problem.carried, **tables}
            for step in self.stream(tables, executor):  # a sweep has at least one point
                set_progress(step.progress)
        return step.result

    def _first(self) -> list[tuple[Place, Experiment]]:
        """Return the places on the first data set, and the experiment at each."""
        second_values = self.second.values if self.second else (None,)
        pairs = enumerate(product(second_values, self.values))
        return [(Place(number, value, second), self._at(value, second)) for number, (second, value) in pairs]

    def _at(self, value: float, second: float | None) -> Experiment:
        """Return the experiment at these values. Raises UserError, naming the values."""
        changes, text = Axis(fields=self.fields, values=(value,)).taking(value), f"value {short(value, 10)}"
        if self.second is not None and second is not None:
            changes += self.second.taking(second)
            text = f"values {short(value, 10)} and {short(second, 10)}"
        return _changed(self.experiment, changes, f"At the {text}")

    def _on(self, data_seed: int | None, experiment: Experiment) -> Experiment:
        """Return the experiment on this data set. Raises UserError, naming the seed."""
        if data_seed is None:
            return experiment
        return _changed(experiment, [(self.data_seed.split("."), data_seed)], f"On the data set {data_seed}")


@dataclass(frozen=True)
class SweepStep:
    """One advance of a sweep at one of its values.

    result : the results so far. progress : over all points, in [0, 1]; restored : the part of it that was read from a
        store and took no time.
    """

    value: float
    result: SweepResult
    progress: float
    restored: float = 0.0


class _UnderWay:
    """A sweep during its run: the progress of each point, and the results so far."""

    def __init__(
        self,
        sweep: Sweep,
        points: Sequence[Point],
        stopping: threading.Event,
        on_progress: Callable[[SweepStep], None] | None,
    ) -> None:
        self._run = [point for point in points if point.experiment is not None]
        self._stopping, self._on_progress, self._lock = stopping, on_progress, threading.Lock()
        self._weights = [point.steps / sum(point.steps for point in self._run) for point in self._run]
        self._shares, self._progress, self._restored = [0.0] * len(self._run), 0.0, 0.0
        self._failed: dict[int, str] = {}
        self._succeeded = 0
        second = sweep.second.values if sweep.second else ()
        self.result = SweepResult(sweep.experiment.arms, sweep.metric, len(points), second)
        self.result.finished = len(points) - len(self._run)
        self.result.public, self.result.price = sweep.experiment.public, sweep.price(points)
        if setting := named(sweep.experiment, sweep.fields):
            self.result.axis = setting.title, setting.control.symbol, setting.logarithmic
        self.result.leave_out(
            LeftOut(point.place, label, reason)
            for point in points[: sweep.places]
            for label, reason in point.left_out.items()
        )

    def on_progress(self, number: int, trace: Trace | None, progress: float) -> None:
        """Note the progress of a point; stop the sweep if no arm records the metric."""
        if trace is not None and not self._may_record(trace):
            self._stopping.set()  # `end` will raise the error
        elif progress > 0:
            self._advance(number, progress)

    def end(self, number: int, outcome: Outcome) -> SweepStep:
        """Record the outcome of a point. Raises UserError if no arm records the metric."""
        point, result = self._run[number], self.result
        if outcome.trace is not None and not self._may_record(outcome.trace):
            recorded = ", ".join(outcome.trace.metrics)
            raise UserError(f"No method records '{result.metric_name}'. Recorded are: {recorded}.")
        if outcome.state == "done":
            self._succeeded += 1
            result.finished += 1
            result.restored += outcome.restored
            self._restored += self._weights[number] * outcome.restored
            if outcome.trace is not None:
                result.record(point.place, outcome.trace)
            result.leave_out(LeftOut(point.place, *item) for item in outcome.left_out.items())
        elif outcome.state == "failed":
            self._failed[number] = outcome.message
            result.leave_out(LeftOut(point.place, label, outcome.message) for label in point.plans)
        else:
            result.cut = outcome.state
        return self._advance(number, 1.0 if outcome.state in ("done", "failed") else 0.0)

    def check(self) -> None:
        """Raise UserError if all points that were run have failed."""
        if self._failed and not self._succeeded:
            raise UserError(self._failed[min(self._failed)])

    def _may_record(self, trace: Trace) -> bool:
        """Look up the metric in a trace; return False if all arms are there and none records it."""
        result = self.result
        result.metric = result.metric or trace.metrics.get(result.metric_name)
        return result.metric is not None or len(trace.lanes) < len(result.arms)

    def _advance(self, number: int, share: float) -> SweepStep:
        """Note the progress of a point, report the sweep's, and return the step."""
        with self._lock:
            self._shares[number] = max(share, self._shares[number])
            done = sum(weight * share for weight, share in zip(self._weights, self._shares, strict=True))
            is_complete = min(self._shares) == 1.0
            self._progress = 1.0 if is_complete else min(1.0, max(self._progress, done))
            step = SweepStep(self._run[number].value, self.result, self._progress, self._restored)
        if self._on_progress is not None:
            self._on_progress(step)
        return step


def _cells(points: Sequence[Point], tables: Mapping[str, np.ndarray]) -> tuple[Cell, ...]:
    return tuple(Cell(point.experiment, tables, "last") for point in points if point.experiment is not None)


def _changed(experiment: Experiment, changes: Sequence[tuple[Address, float]], where: str) -> Experiment:
    """Return `with_numbers`; its errors name the point, as `where` does."""
    try:
        return with_numbers(experiment, changes)
    except UserError as error:
        raise UserError(f"{where}: {error}", title="This sweep is not possible") from None


def with_numbers(owner: Any, changes: Sequence[tuple[Address, float]]) -> Any:
    """Return a validated copy of a specification, or of a tuple of them, with the numbers at the addresses replaced."""
    fields: dict[str, Any] = {}
    for name in dict.fromkeys(address[0] for address, _ in changes):
        below = [(address[1:], value) for address, value in changes if address[0] == name]
        if not all(address for address, _ in below):
            fields[name] = _number(owner, name, below[0][1])
        elif isinstance(owner, tuple) and name in map(str, range(len(owner))):
            fields[name] = with_numbers(owner[int(name)], below)
        elif isinstance(owner, Specification) and name in type(owner).model_fields:
            fields[name] = with_numbers(getattr(owner, name), below)
        else:
            raise _no_number(name)
    if isinstance(owner, tuple):
        return tuple(fields.get(str(position), item) for position, item in enumerate(owner))
    with sentences(type(owner)):
        return owner.replaced(**fields)


def _number(owner: Any, name: str, value: float) -> float | int:
    """Return the value as the type of its field. Raises UserError if the name is no number."""
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


def _planned(place: Place, experiment: Experiment) -> Point:
    """Compute the plans of an experiment; return them as the point at `place`."""
    planned = experiment.planned()
    ready, left_out = planned.experiment, {label: str(error) for label, error in planned.refused.items()}
    return Point(
        place.number,
        place.value,
        place.second,
        experiment=ready,
        plans=planned.plans,
        left_out=left_out,
        bytes=0.0 if ready is None else ready.estimated_bytes(planned.plans),
    )
