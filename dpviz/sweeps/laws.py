"""Laws fitted to a sweep: growth with a setting, and where two methods change places; over several data sets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import stdtrit

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
