"""What a sweep has found: the last numbers of every arm at every point, and what follows from them."""

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

# ----------------------------------------------------- laws: growth with a setting, and where two methods change places

_NORMAL = 1.959964  # standard errors on either side of a 95 % interval
_LEAST_WEIGHT = 1e-6  # runs that diverged must not make a sum of squares zero

Samples = Sequence[np.ndarray]  # of one data set: at each of k values of the setting the (R,) numbers of its runs


@dataclass(frozen=True)
class Fit:
    """A least-squares slope, what is known of its error, and how far the law is from the medians.

    slope : mean of the slopes of the data sets. error : its standard error; margin : half the width of its 95 %
    interval; both None where nothing tells them (one run at each of two points). misfits : for every data set the
    typical relative distance of a median from the law, √(Σ (law/median - 1)²/(k - 2)); empty where there is none (two
    points, or medians that are not positive).
    """

    slope: float
    error: float | None
    margin: float | None = None
    misfits: tuple[float, ...] = ()

    @property
    def misfit(self) -> float | None:
        """The root mean square over the data sets."""
        return math.sqrt(sum(value**2 for value in self.misfits) / len(self.misfits)) if self.misfits else None


def power_law(values: np.ndarray, *data_sets: Samples) -> Fit | None:
    """The exponent p of median ≈ c value^p: slope of log median against log value, fitted on every data set.

    values (k,), the same for all data sets. The error is the largest of three: that of the replicates, from
    distribution-free 68 % intervals of the medians (order statistics around the middle), taken as independent; that of
    the regression of the mean curve, from its residuals, which also sees a bent curve; and, from two data sets on, the
    spread of their slopes over √S. The 95 % margin takes Student's factor for that spread, 1.96 for the others. Points
    without a logarithm in some data set are left out; None if fewer than two remain.
    """
    values, intervals = np.asarray(values, float), _around_medians(data_sets)
    kept = (values > 0) & (intervals[..., 0] > 0).all(axis=0)
    fitted = _Line.through(np.log(values[kept]), np.log(intervals[:, kept]), np.ones(int(kept.sum())))
    return None if fitted is None else fitted.fit(_several(data_sets), intervals[:, kept, 1], logarithmic=True)


def log_law(values: np.ndarray, *data_sets: Samples) -> Fit | None:
    """The slope b of median ≈ a + b ln(value): growth of the metric, in its own unit, per factor e of the value.

    Where all medians are positive their relative errors are made small, as by a power law, so that the two compare;
    else their errors. Errors as of `power_law`; values that are not positive are left out; None if fewer than two
    remain.
    """
    values, intervals = np.asarray(values, float), _around_medians(data_sets)
    intervals, values = intervals[:, values > 0], values[values > 0]
    medians = intervals[..., 1]
    weights = np.ones(len(values))
    if medians.size and (medians > 0).all():
        means = medians.mean(axis=0)
        weights = np.maximum(means.min() / means, _LEAST_WEIGHT) ** 2
    fitted = _Line.through(np.log(values), intervals, weights)
    return None if fitted is None else fitted.fit(_several(data_sets), medians, logarithmic=False)


def _several(data_sets: Sequence[Samples]) -> bool:
    """Whether there is more than one replicate everywhere."""
    return all(len(found) > 1 for samples in data_sets for found in samples)


def _around_medians(data_sets: Sequence[Samples]) -> np.ndarray:
    """(S, k, 3): lower end of a 68 % interval of the median, the median, and the upper end.

    The number of samples below the median is binomial, with standard deviation √R/2; so the interval ends at the
    quantiles 1/2 ± 1/(2√R).
    """
    found = [samples for data_set in data_sets for samples in data_set]
    rows, sizes = np.empty((len(found), 3)), np.array([len(samples) for samples in found])
    for size in set(sizes.tolist()):  # one, unless the number of runs is what varies
        half, chosen = 0.5 / math.sqrt(size), np.flatnonzero(sizes == size)
        together = np.array([found[place] for place in chosen])
        rows[chosen] = np.quantile(together, (0.5 - half, 0.5, 0.5 + half), axis=1, method="hazen").T
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
        """(S,) linear in the heights."""
        return self.intervals[..., 1] @ self._lever

    @property
    def law(self) -> np.ndarray:
        """(S, k) heights of the lines."""
        means = np.average(self.intervals[..., 1], axis=1, weights=self.weights)
        return means[:, None] + self.slopes[:, None] * self.centred

    def fit(self, several: bool, medians: np.ndarray, logarithmic: bool) -> Fit:
        """The slope with its errors. several : whether intervals have a width. medians (S, k), which the heights are,
        or logarithmic : whose logarithms they are."""
        with np.errstate(over="ignore", invalid="ignore"):  # runs that diverged
            errors, spread = self._errors(several), float(np.std(self.slopes)) if len(self.slopes) > 1 else None
            margins = [_NORMAL * error for error in errors]
            if spread is not None:
                free = len(self.slopes) - 1
                errors.append(spread / math.sqrt(free))
                margins.append(float(stdtrit(free, 0.975)) * errors[-1])
            misfits = self._misfits(medians, np.exp(self.law) if logarithmic else self.law)
        return Fit(float(self.slopes.mean()), max(errors, default=None), max(margins, default=None), misfits)

    def _errors(self, several: bool) -> list[float]:
        """Standard errors of the mean slope on these data sets: of the replicates, of the mean curve's residuals."""
        free, errors = len(self.centred) - 2, []
        if several:
            widths = (self.intervals[..., 2] - self.intervals[..., 0]) / 2
            errors.append(float(np.linalg.norm(widths * self._lever)) / len(widths))
        if free > 0:
            residuals = (self.intervals[..., 1] - self.law).mean(axis=0)
            variance = self.weights @ residuals**2 / free
            errors.append(math.sqrt(variance / (self.weights @ self.centred**2)))
        return errors

    def _misfits(self, medians: np.ndarray, law: np.ndarray) -> tuple[float, ...]:
        free = len(self.centred) - 2
        if free < 1 or not (medians > 0).all():
            return ()
        found = np.sqrt(((law / medians - 1) ** 2).sum(axis=1) / free)
        return tuple(found.tolist()) if np.isfinite(found).all() else ()

    @property
    def _lever(self) -> np.ndarray:
        """(k,) what a height adds to the slope."""
        return self.weights * self.centred / (self.weights @ self.centred**2)


def better_law(power: Fit | None, log: Fit | None) -> str:
    """Which of two laws of the same medians has the smaller misfit, in how many data sets; empty where none tells.

    A law is called better if it is so in four of five data sets or more.
    """
    if power is None or log is None or not power.misfits or len(power.misfits) != len(log.misfits):
        return ""
    sets = len(power.misfits)
    for_power = sum(one < other for one, other in zip(power.misfits, log.misfits, strict=True))
    most, name = max((for_power, "Power law"), (sets - for_power, "Log law"))
    if 5 * most < 4 * sets:
        return f"Neither clearly (power law in {for_power} of {sets})"
    return name if sets == 1 else f"{name} ({most} of {sets} data sets)"


# ------------------------------------------------------------------------------------------------------------ crossing


def crossovers(values: np.ndarray, medians_a: np.ndarray, medians_b: np.ndarray) -> tuple[float, ...]:
    """Where two curves cross, ascending; all arrays (k,), values ascending.

    Between two points both curves are straight in the logarithms of value and median; in the numbers themselves where
    some are not positive. Curves that touch without changing places do not cross.
    """
    x = _logarithmic(values)
    both = _logarithmic(np.stack([medians_a, medians_b])) if len(values) else np.empty((2, 0))
    difference = both[0] - both[1]
    found = []
    for i, j in _turns(difference):
        before, after = difference[i], difference[j]
        # Equal at points in between: they change places there.
        place = x[i] + (x[j] - x[i]) * before / (before - after) if j == i + 1 else (x[i + 1] + x[j - 1]) / 2
        found.append(float(place if x is values else np.exp(place)))
    return tuple(found)


def crossing_intervals(values: np.ndarray, one: Samples, other: Samples) -> tuple[tuple[float, float], ...]:
    """A 95 % interval over the runs for every place where the medians of two arms cross on one data set.

    In the order of `crossovers`, and no wider than the values. The errors of the medians beside a crossing are those of
    `power_law`, independent; to first order in them, at a place x + h d/(d - d') between differences d and d', h apart.
    """
    x, intervals = _logarithmic(values), _around_medians([one, other])
    if (intervals[..., 1] > 0).all():
        with np.errstate(divide="ignore", invalid="ignore"):  # an interval that reaches zero has no end
            intervals = np.log(intervals)
    difference = intervals[0, :, 1] - intervals[1, :, 1]
    errors = np.nan_to_num(np.linalg.norm((intervals[..., 2] - intervals[..., 0]) / 2, axis=0), nan=math.inf)
    found = []
    for i, j in _turns(difference):
        low, high = x[min(i + 1, j - 1)], x[max(i + 1, j - 1)]  # where they are equal
        if j == i + 1:
            before, after, apart = difference[i], difference[j], (x[j] - x[i]) / (difference[i] - difference[j])
            place, share = x[i] + apart * before, apart / (before - after)
            half = _NORMAL * math.hypot(share * after * errors[i], share * before * errors[j])
            low, high = max(x[0], place - half), min(x[-1], place + half)
        found.append((float(low), float(high)) if x is values else (math.exp(low), math.exp(high)))
    return tuple(found)


def _turns(difference: np.ndarray) -> list[tuple[int, int]]:
    """Neighbouring points at which a difference has opposite signs; those between them, where it is zero, left out."""
    apart = np.flatnonzero(difference).tolist()
    return [(i, j) for i, j in pairwise(apart) if (difference[i] > 0) != (difference[j] > 0)]


def _logarithmic(numbers: np.ndarray) -> np.ndarray:
    """The logarithms, or the same array where some have none."""
    return np.log(numbers) if (numbers > 0).all() else numbers


@dataclass(frozen=True)
class Order:
    """Which of two curves is lower along the values, in those data sets in which it is the same.

    leaders : the lower one in every stretch, in turn; empty if the curves are equal. places (S, len(leaders) - 1) : in
    every one of the S data sets, where they change places.
    """

    leaders: tuple[str, ...]
    places: np.ndarray

    @property
    def data_sets(self) -> int:
        """How many data sets were asked."""
        return len(self.places)


def orders(one: str, other: str, curves: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> tuple[Order, ...]:
    """How two curves lie to each other; the order that most data sets have comes first.

    curves : for every data set values and both medians, (k,) each, as `crossovers` takes them.
    """
    found: dict[tuple[str, ...], list[tuple[float, ...]]] = {}
    for values, first, second in curves:
        places, apart = crossovers(values, first, second), np.flatnonzero(first != second)
        pair = (one, other) if len(apart) and first[apart[0]] < second[apart[0]] else (other, one)
        leaders = tuple(pair[number % 2] for number in range(len(places) + 1)) if len(apart) else ()
        found.setdefault(leaders, []).append(places)
    by_number = sorted(found.items(), key=lambda item: -len(item[1]))
    return tuple(Order(leaders, np.array(places).reshape(len(places), -1)) for leaders, places in by_number)


# -------------------------------------------------------------------------------------------------------------- results

_LARGEST = 1e300  # sums and logarithms of numbers up to here are still finite


@dataclass(frozen=True)
class Place:
    """Where a point of a sweep is: its number in the order of the points, and what is set there.

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
    """An arm that has no result at a place, and why; raw : whether the reason follows from the raw data."""

    place: Place
    label: str
    reason: str
    raw: bool = False


def by_reason(items: Sequence[LeftOut], points: int) -> dict[str, str]:
    """For every reason the arms that have no result, and at which of so many points if not at all of them."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for item in items:  # once, on however many data sets
        found.setdefault(item.reason, {}).setdefault(item.label, {})[item.place.where] = None
    return {
        reason: "; ".join(
            label if len(places) == points else f"{label} at {', '.join(places)}" for label, places in arms.items()
        )
        for reason, arms in found.items()
    }


@dataclass(frozen=True)
class Ended:
    """The runs of one arm at one place: their last numbers (R,), how many of them diverged, how they ended, if the
    method stops by itself, and how long they took together."""

    place: Place
    samples: np.ndarray
    diverged: int
    endings: Endings | None = None
    seconds: float = 0.0


class Curve:
    """What is known of one arm.

    status : what may be said of the numbers, as the runs' lanes say. ends : at every point that is known, in the order
    of the points.
    """

    def __init__(self) -> None:
        self.status: Privacy = "not private"
        self.ends: tuple[Ended, ...] = ()

    @property
    def released(self) -> bool:
        """Whether they are functions of private releases, on no condition."""
        return self.status == "private"

    def add(self, ended: Ended) -> None:
        """Add a point, at its place in the order. All at once: others may be reading."""
        self.ends = tuple(sorted((*self.ends, ended), key=lambda end: end.place.number))

    @property
    def values(self) -> list[float]:
        """The value of the setting at every point."""
        return [end.place.value for end in self.ends]

    @property
    def data_seeds(self) -> list[int | None]:
        """The data set of every point."""
        return [end.place.data_seed for end in self.ends]

    @property
    def samples(self) -> list[np.ndarray]:
        """The last numbers (R,) at every point."""
        return [end.samples for end in self.ends]

    @property
    def diverged(self) -> list[int]:
        """How many runs diverged at every point."""
        return [end.diverged for end in self.ends]

    def on(self, data_seed: int | None) -> dict[float, np.ndarray]:
        """The numbers (R,) by value on one data set, values ascending."""
        return {end.place.value: end.samples for end in self.ends if end.place.data_seed == data_seed}


class SweepResult(Displayed):
    """The outcome of a sweep, arm by arm. Written by one thread and read by others.

    It depends on the points that are finished, not on the order in which they were.

    arms, curves : what is compared, and by label what is known of it. metric_name : what is kept; metric : its words,
    from the first iteration on. guess, guesses : what a constant guess reaches in it is called, and is at every point;
    None and empty without one. points, finished : how many there are, and how many have a result; restored : how many
    of these were known before. second : the values of a second setting, ascending; empty without one. left_out : which
    arms have no result where. cut : why points are missing that nobody will add, "" if none are. public : whether the
    data are; price : what publishing all of it costs if they are not, as `Sweep.price` says. axis : title and symbol of
    the setting, and whether its values are spaced by factors.
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
        """What may be shown and taken away: everything with `diagnostics`, else what private arms release.

        A view of the points so far, which does not grow with the sweep: it can be read while others add to that.
        """
        curves = {label: copy(curve) for label, curve in self.curves.items()}
        view = self._view({label: one for label, one in curves.items() if diagnostics or one.status != "not private"})
        view.left_out = [item for item in self.left_out if diagnostics or not item.raw]
        if diagnostics:
            view.guess, view.guesses = self.guess, copy(self.guesses)
        return view

    @checked
    def at(self, second: float) -> "SweepResult":
        """A view of the points at one value of the second setting, as of a sweep over the first one alone. Raises
        UserError for any other value."""
        if second not in self.second:
            values = ", ".join(short(value, 10) for value in self.second) or "none: this sweep has one setting"
            raise UserError(f"{short(second, 10)} is no value of the second setting. There are: {values}.")
        curves = {}
        for label, curve in self.curves.items():
            curves[label] = slice = Curve()
            slice.status = curve.status
            slice.ends = tuple(end for end in curve.ends if end.place.second == second)
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
        """Values (k,), ascending, and at each the last numbers of all runs on all data sets so far, (R × S,)."""
        found: dict[float, list[np.ndarray]] = {}
        one_of(arm, self.curves, "method")
        for end in self.curves[arm].ends:
            found.setdefault(end.place.value, []).append(end.samples)
        values = sorted(found)
        return np.array(values), [np.concatenate(found[value]) for value in values]

    @checked
    def medians(self, arm: str) -> tuple[np.ndarray, np.ndarray]:
        """Values (k,) and the medians (k,) over all runs on all data sets."""
        values, samples = self.series(arm)
        return values, np.array([np.median(found) for found in samples])

    @checked
    def grid(self, arm: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of two settings: values (k,) of the first, (m,) of the second, and medians (m, k), nan where none is known.

        Ascending; over all points at which some arm has a result, so that it is the same grid for all.
        """
        one_of(arm, self.curves, "method")
        known = [end.place.value for curve in self.curves.values() for end in curve.ends]
        values, medians = np.unique(known), np.full((len(self.second), len(set(known))), np.nan)
        for row, second in enumerate(self.second):
            found, heights = self.at(second).medians(arm)
            medians[row, np.searchsorted(values, found)] = heights
        return values, np.array(self.second), medians

    @checked
    def laws(self, arm: str) -> tuple[Fit | None, Fit | None]:
        """Power law and log law, fitted on every data set on which the arm has been at all values."""
        values, data_sets = self._complete(arm)
        return (power_law(values, *data_sets), log_law(values, *data_sets)) if data_sets else (None, None)

    @checked
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

    @checked
    def crossing_intervals(self, one: str, other: str) -> tuple[tuple[float, float], ...]:
        """95 % intervals over the runs for where two arms cross; none on several data sets, whose spread tells more."""
        for arm in (one, other):
            one_of(arm, self.curves, "method")
        if len(self._data_seeds()) != 1:
            return ()
        (seed,) = self._data_seeds()
        first, second = self.curves[one].on(seed), self.curves[other].on(seed)
        values = sorted(set(first) & set(second))
        return crossing_intervals(np.array(values), [first[v] for v in values], [second[v] for v in values])

    def _complete(self, arm: str) -> tuple[np.ndarray, list[Samples]]:
        """Values at which the arm has a result on some data set, and its numbers on every one that has them all.

        While the first data set is under way it counts as it is.
        """
        one_of(arm, self.curves, "method")
        by_seed = [self.curves[arm].on(seed) for seed in self._data_seeds()]
        values = sorted(set().union(*by_seed))
        return np.array(values), [[found[value] for value in values] for found in by_seed if len(found) == len(values)]

    def _data_seeds(self) -> list[int | None]:
        """In the order of the points."""
        found = {end.place.number: end.place.data_seed for curve in self.curves.values() for end in curve.ends}
        return list(dict.fromkeys(found[number] for number in sorted(found)))

    def to_frame(self) -> "pd.DataFrame":
        """Tidy table: algorithm, data_seed, replicate, setting (the value of the sweep), metric, value, released.

        Of two settings the value of the second one follows that of the first, as second_setting.
        """
        columns = ["algorithm", "data_seed", "replicate", "setting", "second_setting", "metric", "value", "released"]
        rows = [
            (label, at.data_seed, replicate, at.value, at.second, self.metric_name, value, curve.released)
            for label, curve in [*self.curves.items(), *([(self.guess.label, self.guesses)] if self.guess else [])]
            for at, found in ((end.place, end.samples) for end in curve.ends)
            for replicate, value in enumerate(found.tolist())
        ]
        frame = pd.DataFrame(rows, columns=columns)
        return frame if self.second else frame.drop(columns="second_setting")

    def leave_out(self, items: Iterable[LeftOut]) -> None:
        """Note who has no result where, in the order of the points."""
        self.left_out = sorted([*self.left_out, *items], key=lambda item: item.place.number)

    def record(self, place: Place, trace: Trace) -> None:
        """Add the last state of every arm of a run that is finished.

        A replicate that diverged keeps the last number that it delivered, as in a trace, at most ±1e300.
        """
        if self.metric_name in trace.metrics and (guess := trace.guess(self.metric_name)) is not None:
            self.guess = guess[0]
            self.guesses.add(Ended(place, np.array([guess[1]]), 0))
        for label, lane in trace.lanes.items():
            found = last_numbers(lane.series(self.metric_name)[1])
            status = lane.status_of(trace.metrics[self.metric_name]) if len(found) else "not private"
            if not len(found):
                self.leave_out([LeftOut(place, label, "This method does not record the quantity.")])
            elif np.isnan(found).any():
                reason = "Some runs of this method delivered no numbers."
                self.leave_out([LeftOut(place, label, reason, raw=status == "not private")])
            else:
                self.curves[label].status = status
                samples, diverged = np.clip(found, -_LARGEST, _LARGEST), lane.status.count("diverged")
                self.curves[label].add(Ended(place, samples, diverged, endings(lane), lane.seconds))
