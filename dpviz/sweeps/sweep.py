"""Sweeps: one experiment at several values of one setting or two, on one or several data sets."""

import math
import threading
import warnings
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from dpviz import later
from dpviz.arguments import Between, check_one_of, checked  # UserError for wrong types and unknown names
from dpviz.datasets.base import NO_TABLES
from dpviz.displays import show_progress_bar
from dpviz.errors import UserError, value_in_words
from dpviz.experiments.experiment import Experiment, check_tables
from dpviz.experiments.plan import Plan
from dpviz.experiments.results import describe_releases
from dpviz.experiments.task import Cell, Executor, Outcome, SerialExecutor
from dpviz.experiments.trace import Trace
from dpviz.numbers import short
from dpviz.problems.base import Condition
from dpviz.specification import Control, Specification, is_ours
from dpviz.sweeps.sweep_result import LeftOut, PointKey, SweepResult

# ----------------------------------------------------- the numbers among an experiment's settings, with their addresses

SEED = "seed"
_DIGITS = 3  # significant digits of the values that a sweep chooses between both ends of a range


@dataclass(frozen=True)
class Setting:
    """A number among the settings of an experiment that a sweep can vary.

    control : its declaration, with label and range.
    fields : its addresses in the JSON, "budget.epsilon"; several if methods share it.
    """

    control: Control
    fields: tuple[str, ...]

    @property
    def title(self) -> str:
        """Title of the setting, with symbol and unit."""
        return self.control.title

    @property
    def proposed_range(self) -> tuple[float, float]:
        """The range that a page proposes: a factor of ten on either side of the default for a setting on a log scale,
        else the whole declared range."""
        low, high, default = self.control.low, self.control.high, self.control.default
        assert low is not None and high is not None  # `numbers` leaves the other controls out
        if self.control.scale == "linear" or not default:  # 0, or None for "by theory", has no multiples
            return low, high
        return max(low, self._rounded(default / 10)), min(high, self._rounded(default * 10))

    def grid(self, low: float, high: float, count: int) -> tuple[float, ...]:
        """Return at most `count` different values from low to high, ascending, evenly spaced on the declared scale.

        Both ends are among them; for a count of 1 only `low`. Values between the ends are rounded to three digits, or
        to whole numbers, so that some may coincide. Raises UserError if the range is empty.
        """
        if not low < high:
            raise UserError(f"{self.control.label}: “From” must be below “To”.", title="This range is empty")
        if count == 1:
            return (float(low),)
        spacing = np.geomspace if self.logarithmic and low > 0 else np.linspace
        between = {self._rounded(value) for value in spacing(low, high, count)[1:-1].tolist()}
        inside = {value for value in between if low < value < high}  # in a narrow range rounding may lead out of it
        return tuple(sorted({float(low), *inside, float(high)}))

    @property
    def logarithmic(self) -> bool:
        """True if the setting is declared on a log scale, so that its values are spaced by factors."""
        return self.control.scale == "log"

    def _rounded(self, value: float) -> float:
        """Return a value with three significant digits, or as a whole number if the setting is one."""
        rounded = float(f"{value:.{_DIGITS}g}")
        return float(round(rounded)) if self.control.type is int else rounded


def settings(experiment: Experiment) -> dict[str, Setting]:
    """Return the settings of an experiment that can be varied, by name: those of the budget, of the methods, of the
    problem and of its data.

    The names of the last two begin with "problem_" and "data_", which `setting_name` adds. A setting of the methods is
    varied in all that have it, those without privacy included. Numbers of repeats and seeds are not among the settings.
    """
    of_methods: dict[str, Setting] = {}
    for position, arm in enumerate(experiment.arms):
        for name, setting in _settings_of(arm.algorithm, f"arms.{position}.algorithm").items():
            earlier = of_methods.get(name)
            of_methods[name] = replace(earlier, fields=earlier.fields + setting.fields) if earlier else setting
    result = {**_settings_of(experiment.budget, "budget"), **of_methods}
    problem = experiment.problem
    for prefix, owner, address in (("problem", problem, "problem"), ("data", problem.dataset, "problem.data")):
        if owner is not None:
            result |= {f"{prefix}_{name}": setting for name, setting in _settings_of(owner, address).items()}
    return result


def setting_name(name: str, names: Collection[str]) -> str:
    """Return the one of `names` that `name` means (it may lack "data_" or "problem_"); `name` if none or both fit."""
    full_names = [full_name for full_name in (f"data_{name}", f"problem_{name}") if full_name in names]
    return full_names[0] if name not in names and len(full_names) == 1 else name


def data_seed(experiment: Experiment) -> str:
    """Return the address of the seed that an experiment's data are generated from; "" for data without a seed."""
    data = experiment.problem.dataset
    return f"problem.data.{SEED}" if data is not None and SEED in type(data).model_fields else ""


def setting_at(experiment: Experiment, fields: Sequence[str]) -> Setting | None:
    """Return the setting of an experiment whose addresses are `fields`, or include them; None if there is none."""
    return next((setting for setting in settings(experiment).values() if set(fields) <= set(setting.fields)), None)


def numbers(owner: Specification) -> Iterator[Control]:
    """Return the controls of a specification that are numbers with a declared range.

    Seeds are left out: their values have no order, so that no curve over them makes sense. So are the privacy
    costs of released facts: they are spent, and a guarantee that counts less would be false.
    """
    return (
        control
        for control in type(owner).controls()
        if control.low is not None and not control.name.endswith((SEED, "_cost"))
    )


def _settings_of(owner: Specification, address: str) -> Mapping[str, Setting]:
    """Return the settings of a specification, by name. address : of `owner` in the experiment's JSON."""
    return {control.name: Setting(control, (f"{address}.{control.name}",)) for control in numbers(owner)}


# --------------------------------------------------------------------------------------------------------------- sweeps

Address = Sequence[str]  # the address of a number, split at its dots: ["budget", "epsilon"]
_HERE = SerialExecutor()  # the default executor: the caller's thread


@dataclass(frozen=True, kw_only=True)
class Point(PointKey):
    """A point of a sweep, with the experiment there and its plans.

    experiment : the experiment with the arms that have a plan; None if none has.
    plans : by label, the plans of these arms.
    left_out : by label of each of the other arms, the reason why it has no plan.
    bytes : estimated memory that the run will need.
    """

    experiment: Experiment | None
    plans: Mapping[str, Plan]
    left_out: Mapping[str, str]
    bytes: float

    @property
    def steps(self) -> int:
        """Number of steps of all methods and repeats together, as a measure of the point's computing time."""
        repeats = 0 if self.experiment is None else self.experiment.replicates
        # A plan without steps counts one, as it takes time, too.
        return repeats * sum(max(1, plan.iterations) for plan in self.plans.values())

    @property
    def key(self) -> PointKey:
        """The point without its experiment and plans, as results have it."""
        return PointKey(self.number, self.value, self.second, self.data_seed)


def _ascending(values: tuple[float, ...]) -> tuple[float, ...]:
    """Return the values in ascending order. Raises ValueError if some are equal."""
    if len(set(values)) < len(values):
        raise ValueError("every value of a sweep must be another one")
    return tuple(sorted(values))


Fields = Annotated[tuple[str, ...], Field(min_length=1, max_length=32)]
Values = Annotated[tuple[float, ...], Field(min_length=1), AfterValidator(_ascending)]


class Axis(Specification):
    """A setting that a sweep varies, and its values.

    fields : addresses of the numbers that all take the value at once: "budget.epsilon", "problem.data.strategies_x",
        "arms.0.algorithm.iterations".
    values : different values, which are brought into ascending order.
    """

    kind: ClassVar[str] = "experiments.sweep.axis"
    fields: Fields
    values: Values


class Sweep(Specification):
    """An experiment at each of several values of one setting, or of two, on each of several data sets.

    Every point has noise and batches of its own, drawn from the experiment's seed and from the point's releases; so
    both the data and the noise differ between data sets. Points on one problem share the starting points of their runs.

    experiment : the experiment that is varied, also as the first positional argument.
    fields, values : addresses and values of the setting, as in `Axis`; or in place of both its name with the values,
        such as `epsilon=(0.5, 1, 2)`; a second name makes the axis `second`.
    second : another setting; each of its values is combined with each of `values`.
    metric : name of the metric whose last value is kept of every run; by default the most telling one.
    data_seed, data_seeds : address of the seed that the data are generated from, "problem.data.seed", and its values,
        one for each data set. Without them the experiment's data are the only ones.

    >>> import dpviz
    >>> experiment = dpviz.Experiment(dpviz.Quadratic(), {"NAG": dpviz.Nesterov(iterations=5)}, replicates=2)
    >>> sweep = dpviz.Sweep(experiment, epsilon=(5.0, 0.05))
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
        """Replace the names of one or two settings with their values, `epsilon=(0.5, 1, 2)`, by fields and values."""
        experiment = values.get("experiment") if isinstance(values, dict) else None
        is_missing = experiment is None and "fields" not in values  # with `fields`, pydantic says what is missing
        if is_missing or not isinstance(experiment, Experiment | dict | None):
            given = value_in_words(experiment)
            raise UserError(f"Give the experiment first, not {given}: Sweep(experiment, epsilon=(0.5, 1, 2)).")
        if not isinstance(experiment, Experiment) or "fields" in values:  # JSON, or all fields by name: no short form
            return values
        names = [name for name in values if name not in cls.model_fields and name != "kind"]
        by_name = settings(experiment)
        full_names = {name: setting_name(name, by_name) for name in names}
        for name in names:
            check_one_of(full_names[name], by_name, "setting")
            if not isinstance(values[name], Iterable) or isinstance(values[name], str):
                raise UserError(f"Give {name} several values: {name}=(0.5, 1, 2), not {value_in_words(values[name])}.")
        if not names or len(names) > 2 or (len(names) == 2 and "second" in values):
            raise UserError("Name one setting with its values, or two: Sweep(experiment, epsilon=(0.5, 1, 2)).")
        result = {name: value for name, value in values.items() if name not in names}
        fields = [by_name[full_names[name]].fields for name in names]
        result |= {"fields": fields[0], "values": values[names[0]]}
        if len(names) == 2:
            result["second"] = Axis(fields=fields[1], values=values[names[1]])
        return result

    @model_validator(mode="after")
    def _most_telling_metric(self) -> "Sweep":
        """Set the default of `metric`: the first that may be shown, i.e. any on public data, else a released one."""
        if not self.metric:
            metrics = self.experiment.metrics().values()
            visible = [metric for metric in metrics if metric.released or self.experiment.public]
            if not visible:
                raise ValueError("name a metric: these methods release no series")
            object.__setattr__(self, "metric", visible[0].name)  # plain assignment raises: the class is frozen
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
        second_fields = self.second.fields if self.second else ()
        seed_fields = (self.data_seed,) if self.data_seed else ()
        addresses = [*set(self.fields), *set(second_fields), *seed_fields]  # twice within one axis does no harm
        if len(set(addresses)) < len(addresses):
            raise ValueError("a number can take one value at a time; vary another setting beside it")
        return self

    @property
    def data_sets(self) -> int:
        """Number of data sets."""
        return len(self.data_seeds) or 1

    @property
    def points_per_data_set(self) -> int:
        """Number of points on every data set."""
        return len(self.values) * (len(self.second.values) if self.second else 1)

    @property
    def condition(self) -> Condition:
        """Condition that the guarantees of all points rest on, such as that nobody learns the seeds of their noise."""
        seed = next(iter(self.data_seeds), None)  # the first, as the condition is the same on all data sets
        experiments = [self._with_data_seed(experiment, seed) for _, experiment in self._points_of_one_data_set()]
        return Condition.joined(experiment.condition for experiment in experiments)

    def points(self) -> tuple[Experiment, ...]:
        """Return the experiment of every point.

        They are ordered by data set, then by value of the second setting, then by value of the first. Raises UserError,
        naming the value or the seed, where settings do not go together.
        """
        experiments = [experiment for _, experiment in self._points_of_one_data_set()]
        seeds = self.data_seeds or (None,)
        return tuple(self._with_data_seed(experiment, seed) for seed in seeds for experiment in experiments)

    def planned(self) -> tuple[Point, ...]:
        """Compute the plans of all points, from public facts alone; return the points in the order of `points`.

        An arm without a plan at some value is left out there, with the reason. Raises UserError if no arm has a plan at
        any value, or, naming the value or the seed, where settings do not go together.
        """
        points_of_one_set = [_plan_point(key, experiment) for key, experiment in self._points_of_one_data_set()]
        if all(point.experiment is None for point in points_of_one_set):
            first_reason, *_ = points_of_one_set[0].left_out.values()
            raise UserError(first_reason, title="No method has a plan")
        # Plans depend on public facts alone, so they are the same for all data sets.
        points = []
        for seed in self.data_seeds or (None,):
            for point in points_of_one_set:
                experiment = None if point.experiment is None else self._with_data_seed(point.experiment, seed)
                points.append(replace(point, data_seed=seed, experiment=experiment))
        return tuple(replace(point, number=number) for number, point in enumerate(points))

    def price(self, points: Sequence[Point] | None = None) -> str:
        """Return the number of releases that all runs make of data that are not public, with their total cost, in
        words: "6 releases, ε = 9 by adding up"; "" for public data.

        points : the result of `planned`, if it was computed before.
        """
        if self.experiment.public:
            return ""
        runs = []
        for point in points or self.planned():
            if point.experiment is not None:
                runs += [(plan, point.experiment.replicates) for plan in point.plans.values()]
        return describe_releases(runs, self.experiment.budget)

    def cells(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> tuple[Cell, ...]:
        """Return the cells (units of work for an executor) of all points at which an arm has a plan, in their order."""
        return _cells(self.planned(), tables)

    def stream(
        self,
        tables: Mapping[str, np.ndarray] = NO_TABLES,
        executor: Executor = _HERE,
        stopping: threading.Event | None = None,
        on_progress: "Callable[[SweepStep], None] | None" = None,
    ) -> Iterator["SweepStep"]:
        """Let an executor run the points, yielding a step as each ends, in any order.

        All values on one data set are run before those on the next, so that the whole curve is there early and then
        gains its intervals. A stop, by setting `stopping` or closing the stream, keeps the points that are finished.
        An arm that raises UserError during its run, and a point that fails, are left out of the result.

        on_progress : called with every advance, also inside a point; by any thread.

        Raises UserError as `planned` does, if no arm records the metric, and at the end if no point could be run.
        """
        points, stopping = self.planned(), stopping or threading.Event()
        under_way = _UnderWay(self, points, stopping, on_progress)
        outcomes = executor.run(_cells(points, tables), stopping, under_way.record_progress)
        try:
            for number, outcome in outcomes:
                yield under_way.record_outcome(number, outcome)
            under_way.check_success()
        except BaseException:  # the caller no longer waits for the other points
            stopping.set()
            if under_way.result.finished < len(points):
                under_way.result.cut = under_way.result.cut or "stopped"
            raise
        finally:
            outcomes.close()  # type: ignore[attr-defined]  # executors are generators

    @checked
    def run(
        self,
        tables: Mapping[str, Any] = NO_TABLES,
        executor: Executor = _HERE,
        *,
        workers: Annotated[int, Between(1, 64, ends=True)] = 1,
        store: bool = False,
        client: Any = None,
        progress: bool = False,
    ) -> SweepResult:
        """Run all points to their end.

        Parameters
        ----------
        tables : mapping of str to (n, d) array
            The user's tables, by the identity that the problem's data declare.
        executor : Executor
            Runs the cells, in place of what the next three describe.
        workers : int
            Number of processes that compute; with 1 this process does.
        store : bool
            Keep every finished point of public data, in the folder of `dpviz sweep`. The same sweep then goes on where
            it stopped, and one that is repeated is there at once.
        client : dask.distributed.Client or str, optional
            A cluster whose workers compute, or its address. It gets no table of the user's.
        progress : bool
            Show a bar, by tqdm; Ctrl-C then ends the sweep and returns the points so far.

        Raises
        ------
        UserError
            If no point can be run, as `Experiment.run` does, and for a cluster that does not answer.
        """
        check_tables(self.experiment.problem, tables)
        tables = {**self.experiment.problem.carried, **tables}  # `carried`: those that the data bring along
        scheduler = getattr(client, "scheduler", None)  # None also of a client that was closed
        if not (client is None or isinstance(client, str) or hasattr(scheduler, "address")):
            raise UserError(f"Give an open dask.distributed.Client, or its address, not {value_in_words(client)}.")
        address = client if isinstance(client, str) else getattr(scheduler, "address", "")  # "": no cluster
        finished_cells = None  # the store, if there is one
        with ExitStack() as stack:
            if workers > 1 or store or address:
                setting = "" if store else "off"  # "": the usual folder
                opened = later.backend().open_backend(setting, max_seconds=math.inf, workers=workers, cluster=address)
                backend = stack.enter_context(opened)
                executor, finished_cells = backend.executor, backend.store
            with show_progress_bar("dpviz sweep", progress) as set_progress:
                for step in self.stream(tables, executor):  # a sweep has at least one point
                    set_progress(step.progress)
                    if finished_cells is not None and finished_cells.note:  # cells that cannot be read or written
                        warnings.warn(finished_cells.note, stacklevel=3)
        return step.result

    def _points_of_one_data_set(self) -> list[tuple[PointKey, Experiment]]:
        """Return the key and the experiment of the point for every pair of values, on the data of `self.experiment`.

        These points are numbered from 0; `planned` numbers the points on all data sets.
        """
        points = []
        second_values = self.second.values if self.second else (None,)
        for number, (second, value) in enumerate(product(second_values, self.values)):
            changes = [(address, value) for address in self.fields]
            text = f"value {short(value, 10)}"
            if self.second is not None and second is not None:
                changes += [(address, second) for address in self.second.fields]
                text = f"values {short(value, 10)} and {short(second, 10)}"
            points.append((PointKey(number, value, second), _changed(self.experiment, changes, f"At the {text}")))
        return points

    def _with_data_seed(self, experiment: Experiment, data_seed: int | None) -> Experiment:
        """Return the experiment with data of this seed; unchanged for None. Raises UserError that names the seed."""
        if data_seed is None:
            return experiment
        return _changed(experiment, [(self.data_seed, data_seed)], f"On the data set {data_seed}")


@dataclass(frozen=True)
class SweepStep:
    """State of a sweep after an advance at one of its points.

    value : of the setting at that point. result : the results so far, the same growing object in every step.
    progress : over all points, in [0, 1]. restored : the part of it that was read from a store and took no time.
    """

    value: float
    result: SweepResult
    progress: float
    restored: float = 0.0


class _UnderWay:
    """A sweep during its run: the progress of each point, and the results so far.

    Points are numbered as the executor numbers its cells: without those at which no arm has a plan.
    """

    def __init__(
        self,
        sweep: Sweep,
        points: Sequence[Point],
        stopping: threading.Event,
        on_progress: Callable[[SweepStep], None] | None,
    ) -> None:
        self._points = [point for point in points if point.experiment is not None]  # those that are run
        self._stopping, self._on_progress, self._lock = stopping, on_progress, threading.Lock()
        # Of each point its weight in the sweep's progress, and the finished share of it; both in [0, 1].
        total_steps = sum(point.steps for point in self._points)
        self._weights = [point.steps / total_steps for point in self._points]
        self._shares = [0.0] * len(self._points)
        self._progress = self._restored = 0.0  # of the sweep, and the part of it that was read from a store
        self._failure_messages: dict[int, str] = {}  # by number of the point
        self._success_count = 0
        second = sweep.second.values if sweep.second else ()
        # A user's problem may record metrics that it does not declare; `record_outcome` checks the name then.
        if is_ours(type(sweep.experiment.problem)):
            recorded = ChainMap(*(point.experiment.metrics() for point in points if point.experiment is not None))
            check_one_of(sweep.metric, recorded, "metric")
        self.result = SweepResult(sweep.experiment.arms, sweep.metric, len(points), second)
        # Where no arm has a plan, there is nothing to wait for. False: not read from a store.
        self.result.done = tuple((point.second, False) for point in points if point.experiment is None)
        self.result.public, self.result.price = sweep.experiment.public, sweep.price(points)
        self.result.prices = {
            value: sweep.price([point for point in points if point.second == value]) for value in second
        }
        setting = setting_at(sweep.experiment, sweep.fields)
        if setting is not None:
            self.result.axis = setting.title, setting.control.symbol, setting.logarithmic
        self.result.leave_out(
            LeftOut(point.key, label, reason)
            for point in points[: sweep.points_per_data_set]  # on the other data sets the same arms have no plan
            for label, reason in point.left_out.items()
        )

    def record_progress(self, number: int, trace: Trace | None, progress: float) -> None:
        """Record the progress of the point `number`; stop the sweep if no arm records the metric."""
        if trace is not None and not self._note_metric(trace):
            self._stopping.set()  # `record_outcome` will raise the error
        elif progress > 0:
            self._advance(number, progress)

    def record_outcome(self, number: int, outcome: Outcome) -> SweepStep:
        """Record the outcome of the point `number`; return the step. Raises UserError if no arm records the metric."""
        point, result = self._points[number], self.result
        if outcome.trace is not None and not self._note_metric(outcome.trace):
            check_one_of(result.metric_name, outcome.trace.metrics, "metric")  # raises the error
        if outcome.state == "done":
            self._success_count += 1
            result.done = (*result.done, (point.second, outcome.restored))
            if outcome.restored:
                self._restored += self._weights[number]
            if outcome.trace is not None:
                result.record(point.key, outcome.trace)
            result.leave_out(LeftOut(point.key, label, reason) for label, reason in outcome.left_out.items())
        elif outcome.state == "failed":
            self._failure_messages[number] = outcome.message
            result.leave_out(LeftOut(point.key, label, outcome.message) for label in point.plans)
        else:
            result.cut = outcome.state
        # A point that was stopped keeps the progress that it has: `_advance` takes no smaller one.
        return self._advance(number, share=1.0 if outcome.state in ("done", "failed") else 0.0)

    def check_success(self) -> None:
        """Raise UserError, with the message of the first point that failed, if no point has succeeded."""
        if self._failure_messages and not self._success_count:
            raise UserError(self._failure_messages[min(self._failure_messages)])

    def _note_metric(self, trace: Trace) -> bool:
        """Note the metric's declaration once an arm records it; return False if all arms have begun and none does."""
        result = self.result
        result.metric = result.metric or trace.metrics.get(result.metric_name)
        return result.metric is not None or len(trace.arm_traces) < len(result.arms)

    def _advance(self, number: int, share: float) -> SweepStep:
        """Set the progress of the point `number` to `share`, report the sweep's progress, and return the step."""
        with self._lock:
            self._shares[number] = max(share, self._shares[number])
            progress = sum(weight * part for weight, part in zip(self._weights, self._shares, strict=True))
            is_complete = min(self._shares) == 1.0  # then exactly 1, whatever the rounding errors of the sum are
            self._progress = 1.0 if is_complete else min(1.0, max(self._progress, progress))
            step = SweepStep(self._points[number].value, self.result, self._progress, self._restored)
        if self._on_progress is not None:
            self._on_progress(step)
        return step


def _cells(points: Sequence[Point], tables: Mapping[str, np.ndarray]) -> tuple[Cell, ...]:
    """Return a cell for every point at which an arm has a plan; of its run the last records are kept."""
    return tuple(Cell(point.experiment, tables, "last") for point in points if point.experiment is not None)


def _changed(experiment: Experiment, changes: Sequence[tuple[str, float]], where: str) -> Experiment:
    """Return the experiment with the numbers at these addresses replaced. Raises UserError that begins with `where`,
    the name of the point, if it is not possible."""
    try:
        return with_numbers(experiment, [(address.split("."), value) for address, value in changes])
    except UserError as error:
        raise UserError(f"{where}: {error}", title="This sweep is not possible") from None


def with_numbers(owner: Any, changes: Sequence[tuple[Address, float]]) -> Any:
    """Return a validated copy of a specification, or of a tuple of them, with the numbers at the addresses replaced.

    changes : pairs (address, value). The first part of an address names a field, or the index of an item; the rest is
        the address inside it. Raises UserError for an address that is no number's.
    """
    fields: dict[str, Any] = {}
    for name in dict.fromkeys(address[0] for address, _ in changes):
        inner_changes = [(address[1:], value) for address, value in changes if address[0] == name]
        if not all(address for address, _ in inner_changes):  # the address ends here: the field is the number
            _, value = inner_changes[0]
            fields[name] = _number(owner, name, value)
        elif isinstance(owner, tuple) and name in map(str, range(len(owner))):
            fields[name] = with_numbers(owner[int(name)], inner_changes)
        elif isinstance(owner, Specification) and name in type(owner).model_fields:
            fields[name] = with_numbers(getattr(owner, name), inner_changes)
        else:
            raise _no_number(name)
    if isinstance(owner, tuple):
        return tuple(fields.get(str(position), item) for position, item in enumerate(owner))
    return owner.replaced(**fields)


def _number(owner: Any, name: str, value: float) -> float | int:
    """Return `value` converted to the type of the field `name` of `owner`, int or float.

    Raises UserError if the field is no number, or a whole number and the value is not.
    """
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
    """Return the error to raise for an address with the part `name` that leads to no number."""
    return UserError(f"'{name}' is not a number among these settings. Choose another quantity to vary.")


def _plan_point(key: PointKey, experiment: Experiment) -> Point:
    """Compute the plans of an experiment; return them as the point with this key, on the experiment's own data."""
    planned = experiment.planned()
    return Point(
        key.number,
        key.value,
        key.second,
        experiment=planned.experiment,
        plans=planned.plans,
        left_out={label: error.sentence for label, error in planned.refused.items()},
        bytes=0.0 if planned.experiment is None else planned.experiment.estimated_bytes(planned.plans),
    )
