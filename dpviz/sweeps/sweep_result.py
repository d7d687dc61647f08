"""Results of a sweep: the last numbers of every arm at every point, fitted laws and crossings."""

import math
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from dpviz.arguments import checked, one_of
from dpviz.displays import Displayed
from dpviz.errors import UserError
from dpviz.experiments.experiment import Arm
from dpviz.experiments.plan import Privacy
from dpviz.experiments.results import Endings, endings
from dpviz.experiments.trace import Trace, last_numbers
from dpviz.later import pd
from dpviz.numbers import short
from dpviz.problems.base import Metric

# --------------------------------------------------- laws: growth with a setting, and the crossings of two methods

_NORMAL = 1.959964  # standard errors on either side of a 95 % interval
_MIN_WEIGHT = 1e-6  # runs that diverged must not make a sum of squares zero

Samples = Sequence[np.ndarray]  # on one data set, the (R,) numbers of the runs at each of k values of the setting


@dataclass(frozen=True)
class Fit:
    """A least-squares slope, its error, and the distance of the law from the medians.

    slope : mean of the slopes of the data sets.
    error : its standard error. margin : half the width of its 95 % interval. Both None where they cannot be estimated
        (one run at each of two points).
    misfits : for every data set the typical relative distance of a median from the law, √(Σ (law/median - 1)²/(k - 2));
        empty where there is none (two points, or medians that are not positive).
    """

    slope: float
    error: float | None
    margin: float | None = None
    misfits: tuple[float, ...] = ()

    @property
    def misfit(self) -> float | None:
        """Root mean square of the misfits over the data sets; None without misfits."""
        return math.sqrt(sum(value**2 for value in self.misfits) / len(self.misfits)) if self.misfits else None


def power_law(values: np.ndarray, *data_sets: Samples) -> Fit | None:
    """Fit the exponent p of median ≈ c value^p: slope of log median against log value, on every data set.

    values (k,), the same for all data sets. The error is the largest of three: that of the replicates, from
    distribution-free 68 % intervals of the medians (order statistics around the middle), taken as independent; that of
    the regression of the mean curve, from its residuals, which also grows if the curve is bent; and, from two data sets
    on, the spread of their slopes over √S. The 95 % margin takes Student's factor for that spread, 1.96 for the others.
    Points without a logarithm in some data set are left out; None if fewer than two remain.
    """
    values, intervals = np.asarray(values, float), _around_medians(data_sets)
    is_kept = (values > 0) & (intervals[..., 0] > 0).all(axis=0)
    line = _Line.through(np.log(values[is_kept]), np.log(intervals[:, is_kept]), np.ones(int(is_kept.sum())))
    return None if line is None else line.fit(_several(data_sets), intervals[:, is_kept, 1], logarithmic=True)


def log_law(values: np.ndarray, *data_sets: Samples) -> Fit | None:
    """Fit the slope b of median ≈ a + b ln(value): growth of the metric, in its unit, per factor e of the value.

    Where all medians are positive the fit weights relative errors equally, as a power law does, so that the two
    compare; else absolute errors. Errors as of `power_law`; values that are not positive are left out; None if fewer
    than two remain.
    """
    values, intervals = np.asarray(values, float), _around_medians(data_sets)
    intervals, values = intervals[:, values > 0], values[values > 0]
    medians = intervals[..., 1]
    weights = np.ones(len(values))
    if medians.size and (medians > 0).all():
        means = medians.mean(axis=0)
        weights = np.maximum(means.min() / means, _MIN_WEIGHT) ** 2
    line = _Line.through(np.log(values), intervals, weights)
    return None if line is None else line.fit(_several(data_sets), medians, logarithmic=False)


def _several(data_sets: Sequence[Samples]) -> bool:
    """Return whether there is more than one replicate everywhere."""
    return all(len(numbers) > 1 for samples in data_sets for numbers in samples)


def _around_medians(data_sets: Sequence[Samples]) -> np.ndarray:
    """Compute (S, k, 3): lower end of a 68 % interval of the median, the median, and the upper end.

    The number of samples below the median is binomial, with standard deviation √R/2; so the interval ends at the
    quantiles 1/2 ± 1/(2√R).
    """
    samples = [cell for data_set in data_sets for cell in data_set]
    rows, sizes = np.empty((len(samples), 3)), np.array([len(cell) for cell in samples])
    for size in set(sizes.tolist()):  # one size, unless the sweep varies the number of runs
        half, indices = 0.5 / math.sqrt(size), np.flatnonzero(sizes == size)
        group = np.array([samples[index] for index in indices])
        rows[indices] = np.quantile(group, (0.5 - half, 0.5, 0.5 + half), axis=1, method="hazen").T
    return rows.reshape(len(data_sets), -1, 3)


@dataclass(frozen=True)
class _Line:
    """A straight line per data set through k heights, by least squares with the same weights (k,) for all.

    centred (k,) : x minus its weighted mean. intervals (S, k, 3) : as of `_around_medians`.
    """

    centred: np.ndarray
    weights: np.ndarray
    intervals: np.ndarray

    @classmethod
    def through(cls, x: np.ndarray, intervals: np.ndarray, weights: np.ndarray) -> "_Line | None":
        return cls(x - np.average(x, weights=weights), weights, intervals) if len(x) > 1 else None

    @property
    def slopes(self) -> np.ndarray:
        """(S,) slopes, linear in the heights."""
        return self.intervals[..., 1] @ self._lever

    @property
    def law(self) -> np.ndarray:
        """(S, k) heights of the lines."""
        means = np.average(self.intervals[..., 1], axis=1, weights=self.weights)
        return means[:, None] + self.slopes[:, None] * self.centred

    def fit(self, several: bool, medians: np.ndarray, logarithmic: bool) -> Fit:
        """Return the slope with its errors.

        several : whether intervals have a width. medians (S, k) : the heights, or with `logarithmic` the numbers whose
            logarithms are the heights.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # runs that diverged
            errors, spread = self._errors(several), float(np.std(self.slopes)) if len(self.slopes) > 1 else None
            margins = [_NORMAL * error for error in errors]
            if spread is not None:
                degrees = len(self.slopes) - 1
                errors.append(spread / math.sqrt(degrees))
                margins.append(float(stdtrit(degrees, 0.975)) * errors[-1])
            misfits = self._misfits(medians, np.exp(self.law) if logarithmic else self.law)
        return Fit(float(self.slopes.mean()), max(errors, default=None), max(margins, default=None), misfits)

    def _errors(self, several: bool) -> list[float]:
        """Return standard errors of the mean slope on these data sets: of the replicates, of the mean curve's
        residuals."""
        degrees, errors = len(self.centred) - 2, []
        if several:
            widths = (self.intervals[..., 2] - self.intervals[..., 0]) / 2
            errors.append(float(np.linalg.norm(widths * self._lever)) / len(widths))
        if degrees > 0:
            residuals = (self.intervals[..., 1] - self.law).mean(axis=0)
            variance = self.weights @ residuals**2 / degrees
            errors.append(math.sqrt(variance / (self.weights @ self.centred**2)))
        return errors

    def _misfits(self, medians: np.ndarray, law: np.ndarray) -> tuple[float, ...]:
        degrees = len(self.centred) - 2
        if degrees < 1 or not (medians > 0).all():
            return ()
        misfits = np.sqrt(((law / medians - 1) ** 2).sum(axis=1) / degrees)
        return tuple(misfits.tolist()) if np.isfinite(misfits).all() else ()

    @property
    def _lever(self) -> np.ndarray:
        """(k,) derivative of the slope by each height."""
        return self.weights * self.centred / (self.weights @ self.centred**2)


def better_law(power: Fit | None, log: Fit | None) -> str:
    """Name the law with the smaller misfit, and the number of data sets in which it is smaller; empty where there are
    no misfits.

    A law is called better if it is so in four of five data sets or more.
    """
    if power is None or log is None or not power.misfits or len(power.misfits) != len(log.misfits):
        return ""
    sets = len(power.misfits)
    for_power = sum(
        power_misfit < log_misfit for power_misfit, log_misfit in zip(power.misfits, log.misfits, strict=True)
    )
    wins, name = max((for_power, "Power law"), (sets - for_power, "Log law"))
    if 5 * wins < 4 * sets:
        return f"Neither clearly (power law in {for_power} of {sets})"
    return name if sets == 1 else f"{name} ({wins} of {sets} data sets)"


# ------------------------------------------------------------------------------------------------------------ crossing


def crossovers(values: np.ndarray, medians_a: np.ndarray, medians_b: np.ndarray) -> tuple[float, ...]:
    """Compute the values at which two curves cross, ascending; all arrays (k,), values ascending.

    Between two points both curves are straight in the logarithms of value and median; in the numbers themselves where
    some are not positive. Curves that touch without changing sides do not cross.
    """
    x = _logarithmic(values)
    heights = _logarithmic(np.stack([medians_a, medians_b])) if len(values) else np.empty((2, 0))
    difference = heights[0] - heights[1]
    crossings = []
    for i, j in _turns(difference):
        left, right = difference[i], difference[j]
        # If the curves are equal at points in between, they cross in the middle of these.
        crossing = x[i] + (x[j] - x[i]) * left / (left - right) if j == i + 1 else (x[i + 1] + x[j - 1]) / 2
        crossings.append(float(crossing if x is values else np.exp(crossing)))
    return tuple(crossings)


def crossing_intervals(values: np.ndarray, one: Samples, other: Samples) -> tuple[tuple[float, float], ...]:
    """Compute a 95 % interval over the runs for every crossing of the medians of two arms on one data set.

    In the order of `crossovers`, and no wider than the values. The errors of the medians on both sides of a crossing
    are those of `power_law`, independent; to first order in them, at x + h d/(d - d') between differences d and d', h
    apart.
    """
    x, intervals = _logarithmic(values), _around_medians([one, other])
    if (intervals[..., 1] > 0).all():
        with np.errstate(divide="ignore", invalid="ignore"):  # an interval that reaches zero has no end
            intervals = np.log(intervals)
    difference = intervals[0, :, 1] - intervals[1, :, 1]
    errors = np.nan_to_num(np.linalg.norm((intervals[..., 2] - intervals[..., 0]) / 2, axis=0), nan=math.inf)
    result = []
    for i, j in _turns(difference):
        low, high = x[min(i + 1, j - 1)], x[max(i + 1, j - 1)]  # where they are equal
        if j == i + 1:
            left, right, inverse_slope = difference[i], difference[j], (x[j] - x[i]) / (difference[i] - difference[j])
            crossing, share = x[i] + inverse_slope * left, inverse_slope / (left - right)
            half = _NORMAL * math.hypot(share * right * errors[i], share * left * errors[j])
            low, high = max(x[0], crossing - half), min(x[-1], crossing + half)
        result.append((float(low), float(high)) if x is values else (math.exp(low), math.exp(high)))
    return tuple(result)


def _turns(difference: np.ndarray) -> list[tuple[int, int]]:
    """Return pairs of points at which a difference has opposite signs, with only zeros between them."""
    nonzero = np.flatnonzero(difference).tolist()
    return [(i, j) for i, j in pairwise(nonzero) if (difference[i] > 0) != (difference[j] > 0)]


def _logarithmic(numbers: np.ndarray) -> np.ndarray:
    """Return the logarithms, or the same array where some numbers have none."""
    return np.log(numbers) if (numbers > 0).all() else numbers


@dataclass(frozen=True)
class Order:
    """The lower one of two curves along the values, in those data sets in which it is the same.

    leaders : the lower curve in every stretch, in turn; empty if the curves are equal. places (S, len(leaders) - 1) :
        the crossings in each of the S data sets.
    """

    leaders: tuple[str, ...]
    places: np.ndarray

    @property
    def data_sets(self) -> int:
        """Number of data sets with this order."""
        return len(self.places)


def orders(one: str, other: str, curves: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> tuple[Order, ...]:
    """Return the orders of two curves, by name; the order of most data sets comes first.

    curves : for every data set values and both medians, (k,) each, as `crossovers` takes them.
    """
    by_leaders: dict[tuple[str, ...], list[tuple[float, ...]]] = {}
    for values, first, second in curves:
        crossings, unequal = crossovers(values, first, second), np.flatnonzero(first != second)
        pair = (one, other) if len(unequal) and first[unequal[0]] < second[unequal[0]] else (other, one)
        leaders = tuple(pair[number % 2] for number in range(len(crossings) + 1)) if len(unequal) else ()
        by_leaders.setdefault(leaders, []).append(crossings)
    most_frequent_first = sorted(by_leaders.items(), key=lambda item: -len(item[1]))
    return tuple(
        Order(leaders, np.array(crossings).reshape(len(crossings), -1)) for leaders, crossings in most_frequent_first
    )


# -------------------------------------------------------------------------------------------------------------- results

_LARGEST = 1e300  # sums and logarithms of numbers up to here are still finite


@dataclass(frozen=True)
class Place:
    """The values of one point of a sweep, and its number in the order of the points.

    value : of the setting. second : of the second setting, if there is one. data_seed : of the data set; None for that
        of the experiment.
    """

    number: int
    value: float
    second: float | None = None
    data_seed: int | None = None

    @property
    def where(self) -> str:
        """Its values, in words."""
        return " and ".join(short(value, 10) for value in (self.value, self.second) if value is not None)


@dataclass(frozen=True)
class LeftOut:
    """An arm without a result at a point, and the reason; raw : whether the reason follows from the raw data."""

    place: Place
    label: str
    reason: str
    raw: bool = False


def by_reason(items: Sequence[LeftOut], points: int) -> dict[str, str]:
    """Return, for every reason, the arms without a result, and the points where they have none if those are not all.

    points : number of points on one data set.
    """
    points_by_arm: dict[str, dict[str, dict[str, None]]] = {}
    for item in items:  # a point on several data sets counts once
        points_by_arm.setdefault(item.reason, {}).setdefault(item.label, {})[item.place.where] = None
    return {
        reason: "; ".join(
            label if len(where) == points else f"{label} at {', '.join(where)}" for label, where in arms.items()
        )
        for reason, arms in points_by_arm.items()
    }


@dataclass(frozen=True)
class Ended:
    """The runs of one arm at one point.

    samples : their last numbers (R,). diverged : number of runs that diverged. endings : of a method that stops by
        itself. seconds : of computing time, of all runs together.
    """

    place: Place
    samples: np.ndarray
    diverged: int
    endings: Endings | None = None
    seconds: float = 0.0


class Curve:
    """Results of one arm at every finished point.

    status : privacy of the numbers, as the runs' traces say. ends : in the order of the points.
    """

    def __init__(self) -> None:
        self.status: Privacy = "not private"
        self.ends: tuple[Ended, ...] = ()

    @property
    def released(self) -> bool:
        """True if the numbers are functions of private releases, on no condition."""
        return self.status == "private"

    def add(self, ended: Ended) -> None:
        """Insert a point in the order of the points. In one assignment: other threads may read at the same time."""
        self.ends = tuple(sorted((*self.ends, ended), key=lambda end: end.place.number))

    @property
    def values(self) -> list[float]:
        """Value of the setting at every point."""
        return [end.place.value for end in self.ends]

    @property
    def data_seeds(self) -> list[int | None]:
        """Data set of every point."""
        return [end.place.data_seed for end in self.ends]

    @property
    def samples(self) -> list[np.ndarray]:
        """Last numbers (R,) at every point."""
        return [end.samples for end in self.ends]

    @property
    def diverged(self) -> list[int]:
        """Number of diverged runs at every point."""
        return [end.diverged for end in self.ends]

    def on(self, data_seed: int | None) -> dict[float, np.ndarray]:
        """Return the numbers (R,) by value on one data set, values ascending."""
        return {end.place.value: end.samples for end in self.ends if end.place.data_seed == data_seed}


class SweepResult(Displayed):
    """The outcome of a sweep, arm by arm. Written by one thread and read by others.

    It depends on the points that are finished, not on the order in which they were.

    arms, curves : the arms of the comparison, and the results of each by label.
    metric_name : of the metric that is kept. metric : its declaration, None before the first record.
    guess, guesses : the metric that records a constant guess's value of it, and that value at every point; None and
        empty without one.
    points, finished : numbers of points, and of points with a result. restored : how many of these came from a store.
    second : the values of a second setting, ascending; empty without one.
    left_out : the arms without a result, with the point and the reason.
    cut : the reason why points will stay without a result, "" if none will.
    public : whether the data are. price : cost of publishing all results if they are not, as of `Sweep.price`.
    axis : title and symbol of the setting, and whether its values are spaced by factors.
    """

    def __init__(self, arms: Sequence[Arm], metric_name: str, points: int, second: Sequence[float] = ()) -> None:
        self.arms, self.second = tuple(arms), tuple(second)
        self.curves: dict[str, Curve] = {arm.label: Curve() for arm in arms}
        self.metric_name, self.points = metric_name, points
        self.metric: Metric | None = None
        self.guess: Metric | None = None
        self.guesses = Curve()
        self.finished = self.restored = 0
        self.left_out: list[LeftOut] = []
        self.cut: Literal["", "stopped", "timeout"] = ""
        self.public, self.price = False, ""
        self.axis: tuple[str, str, bool] = ("value", "", False)

    def __repr__(self) -> str:
        return f"<SweepResult of {self.finished} of {self.points} points: {self.metric_name}>"

    @checked
    def visible(self, diagnostics: bool) -> "SweepResult":
        """Return everything with `diagnostics`, else the releases of private arms, which may be shown and downloaded.

        A view of the points so far, which does not grow with the sweep: it can be read while other threads add points.
        """
        curves = {label: copy(curve) for label, curve in self.curves.items()}
        if not diagnostics:
            curves = {label: curve for label, curve in curves.items() if curve.status != "not private"}
        view = self._view(curves)
        view.left_out = [item for item in self.left_out if diagnostics or not item.raw]
        if diagnostics:
            view.guess, view.guesses = self.guess, copy(self.guesses)
        return view

    @checked
    def at(self, second: float) -> "SweepResult":
        """Return a view of the points at one value of the second setting, like the result of a sweep over the first one
        alone.

        Raises UserError for any other value.
        """
        if second not in self.second:
            values = ", ".join(short(value, 10) for value in self.second) or "none: this sweep has one setting"
            raise UserError(f"{short(second, 10)} is no value of the second setting. There are: {values}.")
        curves = {}
        for label, curve in self.curves.items():
            curves[label] = part = Curve()
            part.status = curve.status
            part.ends = tuple(end for end in curve.ends if end.place.second == second)
        view = self._view(curves)
        view.second, view.guess = (), self.guess
        view.guesses.ends = tuple(end for end in self.guesses.ends if end.place.second == second)
        return view

    def _view(self, curves: dict[str, Curve]) -> "SweepResult":
        view = SweepResult(self.arms, self.metric_name, self.points, self.second)
        view.curves, view.metric, view.left_out, view.cut = curves, self.metric, self.left_out, self.cut
        view.finished, view.restored = self.finished, self.restored
        view.public, view.price, view.axis = self.public, self.price, self.axis
        return view

    @checked
    def series(self, arm: str) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return values (k,), ascending, and at each the last numbers of all runs on all data sets so far, (R × S,)."""
        by_value: dict[float, list[np.ndarray]] = {}
        one_of(arm, self.curves, "method")
        for end in self.curves[arm].ends:
            by_value.setdefault(end.place.value, []).append(end.samples)
        values = sorted(by_value)
        return np.array(values), [np.concatenate(by_value[value]) for value in values]

    @checked
    def medians(self, arm: str) -> tuple[np.ndarray, np.ndarray]:
        """Return values (k,) and the medians (k,) over all runs on all data sets."""
        values, samples = self.series(arm)
        return values, np.array([np.median(numbers) for numbers in samples])

    @checked
    def grid(self, arm: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return values (k,) of the first setting, (m,) of the second, and medians (m, k), nan where there is no
        result.

        The values ascend and are those of all points at which some arm has a result, so that the grid is the same for
        all arms.
        """
        one_of(arm, self.curves, "method")
        finished = [end.place.value for curve in self.curves.values() for end in curve.ends]
        values, medians = np.unique(finished), np.full((len(self.second), len(set(finished))), np.nan)
        for row, second in enumerate(self.second):
            columns, heights = self.at(second).medians(arm)
            medians[row, np.searchsorted(values, columns)] = heights
        return values, np.array(self.second), medians

    @checked
    def laws(self, arm: str) -> tuple[Fit | None, Fit | None]:
        """Fit power law and log law, on every data set on which the arm has a result at all values."""
        values, data_sets = self._complete(arm)
        return (power_law(values, *data_sets), log_law(values, *data_sets)) if data_sets else (None, None)

    @checked
    def orders(self, one: str, other: str) -> tuple[Order, ...]:
        """Return the orders of two arms on the data sets that are complete; the most frequent one first."""
        values = np.intersect1d(self._complete(one)[0], self._complete(other)[0])
        curves = []
        for seed in self._data_seeds():
            first, second = self.curves[one].on(seed), self.curves[other].on(seed)
            if len(values) and all(value in first and value in second for value in values):
                medians = [np.array([np.median(by_value[value]) for value in values]) for by_value in (first, second)]
                curves.append((values, medians[0], medians[1]))
        return orders(one, other, curves)

    @checked
    def crossing_intervals(self, one: str, other: str) -> tuple[tuple[float, float], ...]:
        """Compute 95 % intervals over the runs for the crossings of two arms; none on several data sets, whose
        spread tells more."""
        for arm in (one, other):
            one_of(arm, self.curves, "method")
        if len(self._data_seeds()) != 1:
            return ()
        (seed,) = self._data_seeds()
        first, second = self.curves[one].on(seed), self.curves[other].on(seed)
        values = sorted(set(first) & set(second))
        return crossing_intervals(np.array(values), [first[v] for v in values], [second[v] for v in values])

    def _complete(self, arm: str) -> tuple[np.ndarray, list[Samples]]:
        """Return the values at which the arm has a result on some data set, and its numbers on every data set that has
        them all.

        The first data set counts as complete at any time, with the values so far.
        """
        one_of(arm, self.curves, "method")
        by_seed = [self.curves[arm].on(seed) for seed in self._data_seeds()]
        values = sorted(set().union(*by_seed))
        return np.array(values), [
            [by_value[value] for value in values] for by_value in by_seed if len(by_value) == len(values)
        ]

    def _data_seeds(self) -> list[int | None]:
        """Return the data sets with a result, in the order of the points."""
        by_number = {end.place.number: end.place.data_seed for curve in self.curves.values() for end in curve.ends}
        return list(dict.fromkeys(by_number[number] for number in sorted(by_number)))

    def to_frame(self) -> "pd.DataFrame":
        """Return a tidy table: algorithm, data_seed, replicate, setting (the value of the sweep), metric, value,
        released.

        With two settings, the value of the second one follows as second_setting.
        """
        columns = ["algorithm", "data_seed", "replicate", "setting", "second_setting", "metric", "value", "released"]
        rows = [
            (label, place.data_seed, replicate, place.value, place.second, self.metric_name, value, curve.released)
            for label, curve in [*self.curves.items(), *([(self.guess.label, self.guesses)] if self.guess else [])]
            for place, samples in ((end.place, end.samples) for end in curve.ends)
            for replicate, value in enumerate(samples.tolist())
        ]
        frame = pd.DataFrame(rows, columns=columns)
        return frame if self.second else frame.drop(columns="second_setting")

    def leave_out(self, items: Iterable[LeftOut]) -> None:
        """Note arms without a result, in the order of the points."""
        self.left_out = sorted([*self.left_out, *items], key=lambda item: item.place.number)

    def record(self, place: Place, trace: Trace) -> None:
        """Add the last state of every arm of a finished run.

        A replicate that diverged keeps the last number that it delivered, as in a trace, at most ±1e300.
        """
        if self.metric_name in trace.metrics and (guess := trace.guess(self.metric_name)) is not None:
            self.guess = guess[0]
            self.guesses.add(Ended(place, np.array([guess[1]]), 0))
        for label, arm_trace in trace.lanes.items():
            numbers = last_numbers(arm_trace.series(self.metric_name)[1])
            status = arm_trace.status_of(trace.metrics[self.metric_name]) if len(numbers) else "not private"
            if not len(numbers):
                self.leave_out([LeftOut(place, label, "This method does not record the quantity.")])
            elif np.isnan(numbers).any():
                reason = "Some runs of this method delivered no numbers."
                self.leave_out([LeftOut(place, label, reason, raw=status == "not private")])
            else:
                self.curves[label].status = status
                samples, diverged = np.clip(numbers, -_LARGEST, _LARGEST), arm_trace.status.count("diverged")
                self.curves[label].add(Ended(place, samples, diverged, endings(arm_trace), arm_trace.seconds))
