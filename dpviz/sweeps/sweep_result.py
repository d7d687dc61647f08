"""Results of a sweep: the last numbers of every arm's runs at every point, laws fitted to them, and the values at which
the curves of two arms cross."""

import math
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from scipy.special import stdtrit

from dpviz.arguments import check_one_of, checked  # UserError for wrong types and unknown names
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

_NORMAL = 1.959964  # number of standard errors on either side of a 95 % interval
# Smallest root of a weight, so that runs that diverged do not make a weighted sum of squares zero.
_MIN_ROOT_WEIGHT = 1e-6

# On one data set, the last numbers (R,) of the R runs at each of k values of the setting.
Samples = Sequence[np.ndarray]


@dataclass(frozen=True)
class Fit:
    """A law fitted to the medians over the runs by least squares: its slope, the error, and how well it fits.

    slope : mean over the data sets of the slopes on each.
    error, margin : standard error of `slope`, and half the width of its 95 % interval; None where they cannot be
        estimated, from one run at each of two points.
    misfits : for every data set the typical relative distance of a median from the law, √(Σ (law/median - 1)²/(k - 2)),
        where k is the number of points; empty for two points, and where medians are not positive.
    """

    slope: float
    error: float | None
    margin: float | None = None
    misfits: tuple[float, ...] = ()

    @property
    def misfit(self) -> float | None:
        """Root mean square of the misfits over the data sets; None without misfits."""
        if not self.misfits:
            return None
        return math.sqrt(sum(value**2 for value in self.misfits) / len(self.misfits))


def power_law(values: np.ndarray, *data_sets: Samples) -> Fit | None:
    """Fit the exponent p of the law median ≈ c value^p: the slope of log median against log value on every data set.

    values : (k,) values of the setting, the same for all S data sets.

    The standard error is the largest of three: that of the replicates, from distribution-free 68 % intervals of the
    medians (order statistics around the middle), taken as independent; that of the regression of the mean curve, from
    its residuals, which also grows if the curve is bent; and, from two data sets on, the sample standard deviation
    of the data sets' slopes over √S. The 95 % margin uses Student's factor for the last, 1.96 for the others. Points
    without a logarithm in some data set are left out; None if fewer than two remain.
    """
    values, intervals = np.asarray(values, float), _median_intervals(data_sets)
    # A median and its interval have logarithms if the lower end has one.
    has_logarithm = (values > 0) & (intervals[..., 0] > 0).all(axis=0)
    values, intervals = values[has_logarithm], intervals[:, has_logarithm]
    line = _Line.through(np.log(values), np.log(intervals), weights=np.ones(len(values)))
    if line is None:
        return None
    return line.fit(have_errors=_have_errors(data_sets), medians=intervals[..., 1], logarithmic=True)


def log_law(values: np.ndarray, *data_sets: Samples) -> Fit | None:
    """Fit the slope b of the law median ≈ a + b ln(value): the growth of the metric, in its unit, per factor e of the
    value.

    Where all medians are positive the fit weights relative errors equally, as `power_law` does, so that the two can be
    compared; else absolute errors. The errors of the slope are those of `power_law`. Values that are not positive are
    left out; None if fewer than two remain.
    """
    values, intervals = np.asarray(values, float), _median_intervals(data_sets)
    intervals, values = intervals[:, values > 0], values[values > 0]
    medians = intervals[..., 1]
    weights = np.ones(len(values))
    if medians.size and (medians > 0).all():
        means = medians.mean(axis=0)  # (k,) over the data sets
        # 1/mean², for relative errors; the common factor min² makes 1 the largest weight.
        weights = np.maximum(means.min() / means, _MIN_ROOT_WEIGHT) ** 2
    line = _Line.through(np.log(values), intervals, weights)
    if line is None:
        return None
    return line.fit(have_errors=_have_errors(data_sets), medians=medians, logarithmic=False)


def _have_errors(data_sets: Sequence[Samples]) -> bool:
    """Return whether medians have an error: there is more than one run at every value on every data set."""
    return all(len(numbers) > 1 for samples in data_sets for numbers in samples)


def _median_intervals(data_sets: Sequence[Samples]) -> np.ndarray:
    """Compute, for each of k values on each of S data sets, the lower end of a 68 % interval of the median, the median,
    and the upper end: (S, k, 3).

    The number of R samples below the true median is binomial with standard deviation √R/2; so the interval, which is
    one standard deviation wide on either side, ends at the quantiles 1/2 ± 1/(2√R) of the samples.
    """
    samples = [numbers for data_set in data_sets for numbers in data_set]
    rows, sizes = np.empty((len(samples), 3)), np.array([len(numbers) for numbers in samples])
    for size in set(sizes.tolist()):  # one size, unless the sweep varies the number of runs
        indices = np.flatnonzero(sizes == size)
        group = np.array([samples[index] for index in indices])  # all with equal sizes, for one call
        offset = 0.5 / math.sqrt(size)  # 1/(2√R)
        # By Hazen, the i-th of R samples is the quantile (i - 1/2)/R, symmetric around the median.
        rows[indices] = np.quantile(group, (0.5 - offset, 0.5, 0.5 + offset), axis=1, method="hazen").T
    return rows.reshape(len(data_sets), -1, 3)


@dataclass(frozen=True)
class _Line:
    """Straight lines through the k heights of each of S data sets, by weighted least squares.

    centred : (k,) the x of the points minus their weighted mean, the same for all data sets.
    weights : (k,) weights of the squared distances, the same for all data sets.
    intervals : (S, k, 3) heights with 68 % intervals: lower end, height, upper end.
    """

    centred: np.ndarray
    weights: np.ndarray
    intervals: np.ndarray

    @classmethod
    def through(cls, x: np.ndarray, intervals: np.ndarray, weights: np.ndarray) -> "_Line | None":
        """Return the lines through points with these x (k,); None for fewer than two points."""
        return cls(x - np.average(x, weights=weights), weights, intervals) if len(x) > 1 else None

    @property
    def slopes(self) -> np.ndarray:
        """(S,) slope of each data set's line, which is a linear function of the heights."""
        return self.intervals[..., 1] @ self._lever

    @property
    def line_heights(self) -> np.ndarray:
        """(S, k) heights of the lines at the k points."""
        means = np.average(self.intervals[..., 1], axis=1, weights=self.weights)
        return means[:, None] + self.slopes[:, None] * self.centred

    def fit(self, *, have_errors: bool, medians: np.ndarray, logarithmic: bool) -> Fit:
        """Return the mean slope with its errors, as `power_law` describes them.

        have_errors : True if the intervals come from several runs, and so have a width.
        medians : (S, k) the heights, or with `logarithmic` the numbers whose logarithms are the heights.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # runs that diverged have huge numbers
            errors = self._errors(have_errors)
            margins = [_NORMAL * error for error in errors]
            if len(self.slopes) > 1:  # the spread of the slopes of several data sets
                degrees = len(self.slopes) - 1
                # `np.std` divides by S: over √(S-1) it is the sample standard deviation over √S.
                errors.append(float(np.std(self.slopes)) / math.sqrt(degrees))
                margins.append(float(stdtrit(degrees, 0.975)) * errors[-1])
            misfits = self._misfits(medians, np.exp(self.line_heights) if logarithmic else self.line_heights)
        return Fit(float(self.slopes.mean()), max(errors, default=None), max(margins, default=None), misfits)

    def _errors(self, have_errors: bool) -> list[float]:
        """Return standard errors of the mean slope on these data sets: the one that follows from the errors of the
        medians, if they have some, and the one that follows from the residuals of the mean curve, if there are more
        than two points."""
        degrees, errors = len(self.centred) - 2, []
        if have_errors:
            median_errors = (self.intervals[..., 2] - self.intervals[..., 0]) / 2  # (S, k)
            # The mean of S independent slopes, each linear in its heights: √(Σ of the squares) / S.
            errors.append(float(np.linalg.norm(median_errors * self._lever)) / len(median_errors))
        if degrees > 0:
            residuals = (self.intervals[..., 1] - self.line_heights).mean(axis=0)
            variance = self.weights @ residuals**2 / degrees
            errors.append(math.sqrt(variance / (self.weights @ self.centred**2)))
        return errors

    def _misfits(self, medians: np.ndarray, law: np.ndarray) -> tuple[float, ...]:
        """Return the misfits of `Fit` from medians and law, (S, k) each."""
        degrees = len(self.centred) - 2
        if degrees < 1 or not (medians > 0).all():
            return ()
        misfits = np.sqrt(((law / medians - 1) ** 2).sum(axis=1) / degrees)
        return tuple(misfits.tolist()) if np.isfinite(misfits).all() else ()

    @property
    def _lever(self) -> np.ndarray:
        """(k,) derivative of a data set's slope with respect to each of its heights."""
        return self.weights * self.centred / (self.weights @ self.centred**2)


def better_law(power: Fit | None, log: Fit | None) -> str:
    """Return which law fits better, in words: "Power law", "Log law (4 of 5 data sets)", or "Neither clearly (power law
    in 2 of 5)"; "" without misfits.

    A law is called better if its misfit is the smaller one in at least four of five data sets.
    """
    if power is None or log is None or not power.misfits or len(power.misfits) != len(log.misfits):
        return ""
    sets = len(power.misfits)
    power_wins = sum(
        power_misfit < log_misfit for power_misfit, log_misfit in zip(power.misfits, log.misfits, strict=True)
    )
    wins, name = max((power_wins, "Power law"), (sets - power_wins, "Log law"))  # the law with more wins
    if 5 * wins < 4 * sets:
        return f"Neither clearly (power law in {power_wins} of {sets})"
    return name if sets == 1 else f"{name} ({wins} of {sets} data sets)"


# ------------------------------------------------------------------------------------------------------------ crossing


def crossovers(values: np.ndarray, medians_a: np.ndarray, medians_b: np.ndarray) -> tuple[float, ...]:
    """Compute the values at which two curves of medians cross, ascending.

    Between two points both curves are taken as straight lines in the logarithms of value and median, or in the numbers
    themselves where some are not positive. Curves that touch without changing sides do not cross.

    values, medians_a, medians_b : (k,) points of the curves, values ascending.
    """
    x = _logarithmic(values)
    is_logarithmic = x is not values  # `values` itself is returned if some are not positive
    heights = _logarithmic(np.stack([medians_a, medians_b]))
    difference = heights[0] - heights[1]
    crossings = []
    for i, j in _sign_changes(difference):
        if j > i + 1:  # the curves are equal at all points in between: they cross in the middle of these
            crossing = (x[i + 1] + x[j - 1]) / 2
        else:  # the zero of the straight line from `left` to `right`
            left, right = difference[i], difference[j]
            crossing = x[i] + (x[j] - x[i]) * left / (left - right)
        crossings.append(float(np.exp(crossing) if is_logarithmic else crossing))
    return tuple(crossings)


def crossing_intervals(values: np.ndarray, one: Samples, other: Samples) -> tuple[tuple[float, float], ...]:
    """Compute a 95 % interval over the runs for every crossing of the medians of two arms on one data set.

    The intervals are in the order of `crossovers`, and within the range of the values (k,). Where the difference of the
    medians is d at x and d' of the opposite sign at the next point x + h, the curves cross at x + h d/(d - d'). The
    error of that is computed to first order in the errors of d and d', which are independent and come from the 68 %
    intervals of the medians.
    """
    x, intervals = _logarithmic(values), _median_intervals([one, other])  # (k,); (2, k, 3): lower end, median, upper
    is_logarithmic = x is not values
    if (intervals[..., 1] > 0).all():
        with np.errstate(divide="ignore", invalid="ignore"):  # an interval that reaches zero has no end
            intervals = np.log(intervals)
    difference = intervals[0, :, 1] - intervals[1, :, 1]
    # (k,) errors of the difference: the root of the sum of both squares; infinite where an interval has no end.
    half_widths = (intervals[..., 2] - intervals[..., 0]) / 2
    errors = np.hypot(half_widths[0], half_widths[1])
    errors[np.isnan(errors)] = math.inf
    result = []
    for i, j in _sign_changes(difference):
        if j > i + 1:  # the curves are equal at all points in between
            low, high = x[i + 1], x[j - 1]
        else:
            left, right = difference[i], difference[j]
            inverse_slope = float((x[j] - x[i]) / (left - right))
            crossing = x[i] + inverse_slope * left
            # The crossing's derivatives by `left` and `right` are -right and left times inverse_slope / (left - right).
            error = math.hypot(right / (left - right) * errors[i], left / (left - right) * errors[j])
            margin = _NORMAL * abs(inverse_slope) * error
            low, high = max(x[0], crossing - margin), min(x[-1], crossing + margin)
        result.append((math.exp(low), math.exp(high)) if is_logarithmic else (float(low), float(high)))
    return tuple(result)


def _sign_changes(difference: np.ndarray) -> list[tuple[int, int]]:
    """Return the pairs (i, j) of indices at which a difference (k,) has opposite signs, with only zeros in between."""
    nonzero = np.flatnonzero(difference).tolist()
    return [(i, j) for i, j in pairwise(nonzero) if (difference[i] > 0) != (difference[j] > 0)]


def _logarithmic(numbers: np.ndarray) -> np.ndarray:
    """Return the logarithms of an array; if some numbers have none, the array itself, recognised by `is`."""
    return np.log(numbers) if (numbers > 0).all() else numbers


@dataclass(frozen=True)
class Order:
    """Which of two curves is the lower one along the values, for the S data sets on which the answer is the same.

    leaders : name of the lower curve in every stretch between crossings, from left to right; empty if the curves are
        equal.
    crossings : (S, len(leaders) - 1) the crossings on each of these data sets.
    """

    leaders: tuple[str, ...]
    crossings: np.ndarray

    @property
    def data_sets(self) -> int:
        """Number of data sets with this order."""
        return len(self.crossings)


def orders(one: str, other: str, curves: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> tuple[Order, ...]:
    """Return the orders of two curves that occur on the data sets, the most frequent one first.

    one, other : names of the curves.
    curves : for every data set the values, the medians of `one` and those of `other`, (k,) each.
    """
    by_leaders: dict[tuple[str, ...], list[tuple[float, ...]]] = {}
    for values, medians_one, medians_other in curves:
        crossings = crossovers(values, medians_one, medians_other)
        unequal = np.flatnonzero(medians_one != medians_other)
        leaders: tuple[str, ...] = ()
        if len(unequal):  # the curves lead in turn, first the lower one at the first point at which they differ
            is_one_lower = medians_one[unequal[0]] < medians_other[unequal[0]]
            pair = (one, other) if is_one_lower else (other, one)
            leaders = tuple(pair[number % 2] for number in range(len(crossings) + 1))
        by_leaders.setdefault(leaders, []).append(crossings)
    most_frequent_first = sorted(by_leaders.items(), key=lambda item: -len(item[1]))  # by number of data sets
    return tuple(Order(leaders, np.array(crossings)) for leaders, crossings in most_frequent_first)


# -------------------------------------------------------------------------------------------------------------- results

_LARGEST = 1e300  # numbers are limited to ±this, so that sums of them are still finite


@dataclass(frozen=True)
class PointKey:
    """The values of the settings at one point of a sweep, and its number in the order of the points.

    value, second : values of the setting and of the second one; `second` is None for a sweep over one setting.
    data_seed : seed of the data set; None for the experiment's own data.
    """

    number: int
    value: float
    second: float | None = None
    data_seed: int | None = None

    @property
    def where(self) -> str:
        """The values of the settings, in words."""
        return " and ".join(short(value, 10) for value in (self.value, self.second) if value is not None)


@dataclass(frozen=True)
class LeftOut:
    """An arm without a result at a point, and the reason as a sentence.

    raw : True if the reason follows from raw data, so that it is shown only where those may be.
    """

    key: PointKey
    label: str
    reason: str
    raw: bool = False


def by_reason(items: Sequence[LeftOut], points: int) -> dict[str, str]:
    """Return, for every reason, the arms without a result in words: "DP-GD at 0.1, 0.2; DP-NAG".

    An arm that has no result at any point is named alone. points : number of points on one data set.
    """
    # For each reason and each arm the points in words, as keys: a point on several data sets counts once.
    points_by_arm: dict[str, dict[str, dict[str, None]]] = {}
    for item in items:
        points_by_arm.setdefault(item.reason, {}).setdefault(item.label, {})[item.key.where] = None
    result = {}
    for reason, arms in points_by_arm.items():
        texts = [label if len(where) == points else f"{label} at {', '.join(where)}" for label, where in arms.items()]
        result[reason] = "; ".join(texts)
    return result


@dataclass(frozen=True)
class PointRuns:
    """The runs of one arm at one point after their end.

    samples : (R,) the last value of the metric in each run.
    endings : counts of how the runs ended, for a method that stops by itself; else None.
    seconds : computing time of all runs together.
    """

    key: PointKey
    samples: np.ndarray
    endings: Endings | None = None
    seconds: float = 0.0


class Curve:
    """Results of one arm at every finished point.

    privacy : of the numbers. point_runs : the runs at each of these points, in the order of the points.
    """

    def __init__(self) -> None:
        self.privacy: Privacy = "not private"
        self.point_runs: tuple[PointRuns, ...] = ()

    @property
    def released(self) -> bool:
        """True if the numbers are functions of private releases, on no condition."""
        return self.privacy == "private"

    def add(self, runs: PointRuns) -> None:
        """Insert the runs of a point, in the order of the points.

        The tuple is replaced in one assignment, as other threads may read it at the same time.
        """
        self.point_runs = tuple(sorted((*self.point_runs, runs), key=lambda item: item.key.number))

    @property
    def values(self) -> list[float]:
        """Value of the setting at every finished point."""
        return [runs.key.value for runs in self.point_runs]

    @property
    def data_seeds(self) -> list[int | None]:
        """Seed of the data set of every finished point; None for the experiment's own data."""
        return [runs.key.data_seed for runs in self.point_runs]

    @property
    def samples(self) -> list[np.ndarray]:
        """Last numbers (R,) of the runs at every finished point."""
        return [runs.samples for runs in self.point_runs]

    def samples_on(self, data_seed: int | None) -> dict[float, np.ndarray]:
        """Return the last numbers (R,) of the runs on one data set, by value of the setting, ascending."""
        return {runs.key.value: runs.samples for runs in self.point_runs if runs.key.data_seed == data_seed}


class SweepResult(Displayed):
    """The outcome of a sweep, arm by arm. It is written by one thread and may be read by others at the same time.

    It depends on which points are finished, not on the order in which they finished.

    arms, curves : the arms of the comparison, and the results of each by label.
    metric_name, metric : name of the metric that is kept, and its declaration, None before the first record.
    guess, guesses : declaration of the value that the best constant guess reaches in `metric`, and this value at every
        point; None and empty if it is not recorded.
    points : number of points. done : for each one that is finished, the value of the second setting (None without one),
        and True if its result came from a store. finished, restored : how many of them there are.
    second : values of the second setting, ascending; empty without one.
    left_out : the arms without a result, with the point and the reason.
    cut : reason why points remain without a result: "stopped", "timeout", or "" if none does.
    public : True if the data are public. price : cost of publishing all results if they are not, in words; prices :
        that of the results at each value of the second setting.
    axis : title and symbol of the setting, and True if its values are spaced by factors.
    """

    def __init__(self, arms: Sequence[Arm], metric_name: str, points: int, second: Sequence[float] = ()) -> None:
        self.arms, self.second = tuple(arms), tuple(second)
        self.curves: dict[str, Curve] = {arm.label: Curve() for arm in arms}
        self.metric_name, self.points = metric_name, points
        self.metric: Metric | None = None
        self.guess: Metric | None = None
        self.guesses = Curve()
        self.done: tuple[tuple[float | None, bool], ...] = ()
        self.left_out: list[LeftOut] = []
        self.cut: Literal["", "stopped", "timeout"] = ""
        self.public, self.price = False, ""
        self.prices: dict[float, str] = {}
        self.axis: tuple[str, str, bool] = ("value", "", False)

    @property
    def finished(self) -> int:
        """Number of points with a result, or at which no arm has a plan."""
        return len(self.done)

    @property
    def restored(self) -> int:
        """Number of points with a result that came from a store."""
        return sum(is_restored for _, is_restored in self.done)

    def __repr__(self) -> str:
        return f"<SweepResult of {self.finished} of {self.points} points: {self.metric_name}>"

    @checked
    def visible(self, diagnostics: bool) -> "SweepResult":
        """Return a result with the points so far, which does not grow with the sweep.

        diagnostics : True for all numbers; False to leave out what reads raw data, which are the diagnostics and the
            arms without privacy. What remains may also be downloaded.
        """
        curves = {label: copy(curve) for label, curve in self.curves.items()}
        if not diagnostics:
            # Released numbers stay, also those whose guarantee rests on a condition, which have a privacy of their own.
            curves = {label: curve for label, curve in curves.items() if curve.privacy != "not private"}
        view = self._view(curves)
        view.left_out = [item for item in self.left_out if diagnostics or not item.raw]
        if diagnostics:
            view.guess, view.guesses = self.guess, copy(self.guesses)
        return view

    @checked
    def at(self, second: float) -> "SweepResult":
        """Return the points at one value of the second setting, as the result of a sweep over the first one alone.

        Raises UserError for a number that is no value of the second setting.
        """
        if second not in self.second:
            values = ", ".join(short(value, 10) for value in self.second) or "none: this sweep has one setting"
            raise UserError(f"{short(second, 10)} is no value of the second setting. There are: {values}.")
        curves = {}
        for label, curve in self.curves.items():
            curves[label] = part = Curve()
            part.privacy = curve.privacy
            part.point_runs = tuple(runs for runs in curve.point_runs if runs.key.second == second)
        view = self._view(curves)
        view.second, view.guess = (), self.guess
        view.points, view.price = self.points // len(self.second), self.prices.get(second, "")
        view.done = tuple((value, is_restored) for value, is_restored in self.done if value == second)
        view.left_out = [item for item in self.left_out if item.key.second == second]
        view.cut = self.cut if view.finished < view.points else ""
        view.guesses.point_runs = tuple(runs for runs in self.guesses.point_runs if runs.key.second == second)
        return view

    def _view(self, curves: dict[str, Curve]) -> "SweepResult":
        """Return a copy of this result with other curves, and without guesses."""
        view = SweepResult(self.arms, self.metric_name, self.points, self.second)
        view.curves, view.metric, view.left_out, view.cut = curves, self.metric, self.left_out, self.cut
        view.done, view.public, view.price, view.prices = self.done, self.public, self.price, self.prices
        view.axis = self.axis
        return view

    @checked
    def series(self, arm: str) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the values of the setting (k,), ascending, at which an arm has results, and at each of them the last
        numbers of all its runs on all data sets so far, (R × S,)."""
        by_value: dict[float, list[np.ndarray]] = {}
        for runs in self._curve(arm).point_runs:
            by_value.setdefault(runs.key.value, []).append(runs.samples)
        values = sorted(by_value)
        return np.array(values), [np.concatenate(by_value[value]) for value in values]

    @checked
    def medians(self, arm: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the values of the setting (k,), ascending, and an arm's medians (k,) over all runs and data sets."""
        values, samples = self.series(arm)
        return values, np.array([np.median(numbers) for numbers in samples])

    @checked
    def grid(self, arm: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the values (k,) of the first setting, those (m,) of the second, and an arm's medians (m, k), nan where
        there is no result.

        The values ascend. Those of the first setting are all at which some arm has a result, so that the grid is the
        same for all arms.
        """
        check_one_of(arm, self.curves, "method")
        values = np.unique([runs.key.value for curve in self.curves.values() for runs in curve.point_runs])
        medians = np.full((len(self.second), len(values)), np.nan)
        for row, second in enumerate(self.second):
            row_values, row_medians = self.at(second).medians(arm)
            medians[row, np.searchsorted(values, row_values)] = row_medians
        return values, np.array(self.second), medians

    @checked
    def laws(self, arm: str) -> tuple[Fit | None, Fit | None]:
        """Fit a power law and a log law to the data sets with a result at all values; None for a law without a fit."""
        values, data_sets = self._complete(arm)
        return (power_law(values, *data_sets), log_law(values, *data_sets)) if data_sets else (None, None)

    @checked
    def orders(self, one: str, other: str) -> tuple[Order, ...]:
        """Return which of two arms has the lower median along the values, on the data sets that are complete: one
        `Order` for each answer, the most frequent one first."""
        values_one, _ = self._complete(one)
        values_other, _ = self._complete(other)
        values = np.intersect1d(values_one, values_other)
        curves = []
        for seed in self._data_seeds():
            samples_one, samples_other = self.curves[one].samples_on(seed), self.curves[other].samples_on(seed)
            if len(values) and all(value in samples_one and value in samples_other for value in values):
                medians_one = np.array([np.median(samples_one[value]) for value in values])
                medians_other = np.array([np.median(samples_other[value]) for value in values])
                curves.append((values, medians_one, medians_other))
        return orders(one, other, curves)

    @checked
    def crossing_intervals(self, one: str, other: str) -> tuple[tuple[float, float], ...]:
        """Compute a 95 % interval over the runs for each value at which the medians of two arms cross.

        It is empty for several data sets, as the spread of the crossings between these tells more.
        """
        curve_one, curve_other = self._curve(one), self._curve(other)
        if len(self._data_seeds()) != 1:
            return ()
        (seed,) = self._data_seeds()
        samples_one, samples_other = curve_one.samples_on(seed), curve_other.samples_on(seed)
        values = sorted(set(samples_one) & set(samples_other))
        return crossing_intervals(
            np.array(values), [samples_one[value] for value in values], [samples_other[value] for value in values]
        )

    def _curve(self, arm: str) -> Curve:
        """Return the results of an arm along one setting. Raises UserError for an unknown label, and two settings."""
        check_one_of(arm, self.curves, "method")
        if self.second:
            raise UserError(
                f"Choose a value of the second one, such as result.at({self.second[0]:g}), or take `grid`.",
                title="A curve is along one setting, and this sweep has two",
            )
        return self.curves[arm]

    def _complete(self, arm: str) -> tuple[np.ndarray, list[Samples]]:
        """Return the values (k,) at which the arm has a result on some data set, ascending, and its numbers on every
        data set that has a result at all of them.

        While the first data set is being run, it counts as complete with the values so far.
        """
        by_seed = [self._curve(arm).samples_on(seed) for seed in self._data_seeds()]
        values = sorted(set().union(*by_seed))
        complete = [by_value for by_value in by_seed if len(by_value) == len(values)]
        return np.array(values), [[by_value[value] for value in values] for by_value in complete]

    def _data_seeds(self) -> list[int | None]:
        """Return the seeds of the data sets with a result, in the order of the points."""
        points = [runs.key for curve in self.curves.values() for runs in curve.point_runs]
        return list(dict.fromkeys(point.data_seed for point in sorted(points, key=lambda point: point.number)))

    def to_frame(self) -> "pd.DataFrame":
        """Return all numbers as a tidy table with one number a row.

        Its columns are algorithm, data_seed, replicate, setting (the value of the setting), second_setting (with two
        settings only), metric, value, and released: whether the number is private. The values of a constant guess are
        rows with the guess's label as algorithm.
        """
        columns = ["algorithm", "data_seed", "replicate", "setting", "second_setting", "metric", "value", "released"]
        curves = list(self.curves.items())
        if self.guess:
            curves.append((self.guess.label, self.guesses))
        rows = []
        for label, curve in curves:
            for runs in curve.point_runs:
                seed, setting, second = runs.key.data_seed, runs.key.value, runs.key.second
                for replicate, value in enumerate(runs.samples.tolist()):
                    rows.append((label, seed, replicate, setting, second, self.metric_name, value, curve.released))
        frame = pd.DataFrame(rows, columns=columns)
        return frame if self.second else frame.drop(columns="second_setting")

    def leave_out(self, items: Iterable[LeftOut]) -> None:
        """Add arms without a result to `left_out`, which stays in the order of the points."""
        self.left_out = sorted([*self.left_out, *items], key=lambda item: item.key.number)

    def record(self, key: PointKey, trace: Trace) -> None:
        """Add the last numbers of every arm of a finished run at a point.

        A replicate that diverged counts with the last number that it delivered, limited to ±1e300. An arm of which a
        replicate delivered none is left out.
        """
        guess = trace.guess(self.metric_name) if self.metric_name in trace.metrics else None
        if guess is not None:
            self.guess, value = guess
            self.guesses.add(PointRuns(key, np.array([value])))
        for label, arm_trace in trace.arm_traces.items():
            _, series = arm_trace.series(self.metric_name)
            numbers = last_numbers(series)
            if not len(numbers):
                self.leave_out([LeftOut(key, label, "This method does not record the quantity.")])
                continue
            privacy = arm_trace.privacy_of_metric(trace.metrics[self.metric_name])
            if np.isnan(numbers).any():
                reason = "Some runs of this method delivered no numbers."
                self.leave_out([LeftOut(key, label, reason, raw=privacy == "not private")])
            else:
                self.curves[label].privacy = privacy
                samples = np.clip(numbers, -_LARGEST, _LARGEST)
                self.curves[label].add(PointRuns(key, samples, endings(arm_trace), arm_trace.seconds))
