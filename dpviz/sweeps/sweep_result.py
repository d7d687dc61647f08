"""What a sweep has found: the last numbers of every arm at every point, and what follows from them."""

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Literal

import numpy as np

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
from dpviz.sweeps.laws import Fit, Order, Samples, crossing_intervals, log_law, orders, power_law

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
