"""What would make an experiment fit that takes too long or too much memory: searched by its own estimates."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, islice
from typing import Any

from pydantic import ValidationError

from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.numbers import short, short_down
from dpviz.specification import Control
from dpviz.sweeps.settings import numbers

OPTIONS = 3  # ways that are offered
_TRIES = 150  # changes that are looked at: each makes plans, and a page waits for them
_FINE = 0.02  # relative: a number that is not whole is searched so closely
_MANY = 1000  # from which a whole number is rounded to two digits


@dataclass(frozen=True)
class Limits:
    """What a run may take: CPU seconds, and bytes of memory."""

    seconds: float
    bytes: float

    def allow(self, experiment: Experiment, plans: Mapping[str, Plan] | None = None) -> bool:
        """Whether the experiment keeps to them, by its estimates. Raises UserError if it has no plans."""
        plans = experiment.plans() if plans is None else plans
        return experiment.estimated_seconds(plans) <= self.seconds and experiment.estimated_bytes(plans) <= self.bytes


@dataclass(frozen=True)
class Way:
    """A way to make an experiment fit.

    words : the settings to change and the largest values that fit, or the method to leave out. experiment : with that.
    """

    words: str
    experiment: Experiment


def ways(experiment: Experiment, fits: Callable[[Experiment], bool]) -> list[Way]:
    """The few least changes that make it fit: one setting lowered, or a method left out; two settings, if one is not
    enough; none, if these are not enough.

    fits : whether an experiment does; it may raise UserError for one that has no plan.
    """
    tries = count()

    def allowed(tried: Experiment) -> bool:
        try:
            return next(tries) < _TRIES and fits(tried)
        except UserError:
            return False

    found = list(islice(_single(experiment, allowed), OPTIONS))
    if not found:
        once = islice(_single(experiment.replaced(replicates=1), allowed), OPTIONS)
        found = [replace(way, words=f"one repeat and {way.words}") for way in once]
    return found


def advice(found: Sequence[Way], then: str = "it would fit") -> str:
    """The ways in a sentence, and what they lead to."""
    if not found:
        return "Choose fewer repeats, fewer methods, or smaller data."
    return f"With {', or with '.join(way.words for way in found)}, {then}."


_REPEATS = next(control for control in Experiment.controls() if control.name == "replicates")


def _single(experiment: Experiment, allowed: Callable[[Experiment], bool]) -> Iterator[Way]:
    """With one change; the data are the last to become smaller."""
    return chain(
        _lowered(_settings(experiment), allowed), _shortened(experiment, allowed), _lowered(_sizes(experiment), allowed)
    )


def _lowered(settings: Iterator["_Setting"], allowed: Callable[[Experiment], bool]) -> Iterator[Way]:
    """The largest value of each setting that makes it fit, where one does."""
    for setting in settings:
        value = _largest(setting, allowed)
        changed = None if value is None else setting.changed(value)
        if value is not None and changed is not None:
            yield Way(setting.words(value), changed)


def _shortened(experiment: Experiment, allowed: Callable[[Experiment], bool]) -> Iterator[Way]:
    """Without one of the methods; one that is private stays, and so do the references, which go all together."""
    for arm in experiment.arms:
        if arm.reference:
            continue
        kept = tuple(other for other in experiment.arms if other != arm)
        if any(not other.reference for other in kept) and allowed(changed := experiment.replaced(arms=kept)):
            yield Way(f"“{arm.label}” left out", changed)


@dataclass(frozen=True)
class _Setting:
    """A numeric setting of an experiment: its control, its value, None if theory chooses it, and how to change it."""

    control: Control
    value: float | None
    change: Callable[[float], Experiment]

    def words(self, value: float) -> str:
        """That the value is at most so much."""
        if self.control is _REPEATS:
            return "one repeat" if value == 1 else f"at most {short(value)} repeats"
        return f"“{self.control.title}” at most {short_down(value, 6)}"

    def changed(self, value: float) -> Experiment | None:
        """The experiment with this value; None if the other settings do not allow it."""
        try:
            return self.change(value)
        except (UserError, ValidationError):
            return None


def _settings(experiment: Experiment) -> Iterator[_Setting]:
    """Repeats, and what the methods share."""
    yield _Setting(_REPEATS, experiment.replicates, lambda value: experiment.replaced(replicates=int(value)))
    shared: dict[str, Control] = {}
    for arm in experiment.arms:
        for control in numbers(arm.algorithm) if not arm.reference else ():
            shared.setdefault(control.name, control)
    for name, control in shared.items():
        values = [getattr(arm.algorithm, name) for arm in experiment.arms if name in type(arm.algorithm).model_fields]
        largest = None if None in values else max(values)
        yield _Setting(control, largest, partial(_with_all, experiment, name))


def _sizes(experiment: Experiment) -> Iterator[_Setting]:
    """Whole numbers of the data and of the problem: another constant would make it another problem."""
    problem, data = experiment.problem, experiment.problem.dataset
    for owner, change in ((data, _with_data), (problem, _with_problem)):
        for control in numbers(owner) if owner is not None else ():
            if control.type is int:
                yield _Setting(control, getattr(owner, control.name), partial(change, experiment, control.name))


def _with_data(experiment: Experiment, name: str, value: float) -> Experiment:
    data = experiment.problem.dataset
    assert data is not None
    return _with_problem(experiment, "data", data.replaced(**{name: value}))


def _with_problem(experiment: Experiment, name: str, value: Any) -> Experiment:
    return experiment.replaced(problem=experiment.problem.replaced(**{name: value}))


def _with_all(experiment: Experiment, name: str, value: float) -> Experiment:
    """Every method that has the setting gets the value, unless its own is lower."""
    arms = []
    for arm in experiment.arms:
        own = getattr(arm.algorithm, name, None)
        if name in type(arm.algorithm).model_fields and (own is None or own > value):
            arm = arm.replaced(algorithm=arm.algorithm.replaced(**{name: value}))
        arms.append(arm)
    return experiment.replaced(arms=tuple(arms))


def _largest(setting: _Setting, allowed: Callable[[Experiment], bool]) -> float | None:
    """The largest value below the present one with which it fits; None if not even the lowest makes it fit."""
    control = setting.control
    assert control.low is not None and control.high is not None
    whole = control.type is int
    low, high = control.low, control.high if setting.value is None else setting.value

    def fits(value: float) -> bool:
        changed = setting.changed(value)
        return changed is not None and allowed(changed)

    if high <= low or not fits(low):
        return None
    while high - low > (1 if whole else _FINE * abs(high)):
        middle = math.sqrt(low * high) if low > 0 else (low + high) / 2
        middle = min(max(math.floor(middle), low + 1), high - 1) if whole else middle
        low, high = (middle, high) if fits(middle) else (low, middle)
    rounded = math.floor(low / (unit := 10.0 ** (math.floor(math.log10(abs(low) or 1)) - 1))) * unit
    return rounded if rounded >= max(control.low, _MANY * whole) and fits(rounded) else low
