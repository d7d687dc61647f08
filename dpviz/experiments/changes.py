"""Differences of two specifications, setting by setting, labelled as their declared controls."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dpviz.datasets.base import DatasetSpecification
from dpviz.experiments.algorithm import Algorithm
from dpviz.experiments.experiment import Experiment
from dpviz.numbers import short
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import ProblemSpecification
from dpviz.specification import Control, Specification

LONGEST = 40  # characters of a value that is written out; longer ones are only said to differ
NONE = "–"
_DIGITS = 6  # of a number in a table
_PARTS = {"data": "Data", "problem": "Problem", "budget": "Privacy budget", "algorithm": "Algorithm"}


@dataclass(frozen=True)
class Change:
    """A setting with two values.

    path : its address in the JSON, "arms.0.algorithm.iterations".
    control : its declaration; None for a difference that is no single setting, such as another kind of problem.
    """

    path: str
    control: Control | None
    old: Any
    new: Any

    @property
    def title(self) -> str:
        """Title of the setting, with its symbol."""
        name = self.path.rpartition(".")[2]
        plain = name.replace("_", " ").capitalize() if self.control is None else self.control.title
        return _PARTS.get(name, plain)

    @property
    def texts(self) -> tuple[str, str]:
        """Both values as texts that differ; numbers have as many digits as that takes."""
        for digits in (4, 9, 17):
            old, new = (_text(value, self.control, digits) for value in (self.old, self.new))
            if old != new and max(len(old), len(new)) <= LONGEST:
                return old, new
        return "other", "changed"

    @property
    def names(self) -> tuple[str, str]:
        """Names of the two lines of a chart that compares the values: "T = 20", or the text of a menu's option."""
        symbol = "" if self.control is None or self.control.options else self.control.symbol
        old, new = (f"{symbol} = {text}" if symbol else text for text in self.texts)
        return old, new


def changes(old: Specification, new: Specification, path: str = "") -> Iterator[Change]:
    """Yield the differences of two specifications, in the order of their fields; their paths begin with `path`."""
    if type(old) is not type(new):
        yield Change(path, None, old, new)
        return
    declared = {control.name: control for control in type(old).controls()}
    for name in type(old).model_fields:
        address = f"{path}.{name}".removeprefix(".")
        yield from _differing(getattr(old, name), getattr(new, name), address, declared.get(name))


def _differing(old: Any, new: Any, path: str, control: Control | None) -> Iterator[Change]:
    if isinstance(old, Specification) and isinstance(new, Specification):
        yield from changes(old, new, path)
    elif _are_parts(old) and _are_parts(new) and len(old) == len(new):
        for index, (old_part, new_part) in enumerate(zip(old, new, strict=True)):
            yield from changes(old_part, new_part, f"{path}.{index}")
    elif old != new:
        yield Change(path, control, old, new)


def _are_parts(value: Any) -> bool:
    """Return whether a value is several specifications; several numbers or names are one setting."""
    return isinstance(value, tuple) and all(isinstance(item, Specification) for item in value)


@dataclass(frozen=True)
class Difference:
    """One setting, by its label, with its old and its new value as texts: "Steps T", "100", "20"."""

    label: str
    old: str
    new: str

    def describe(self) -> str:
        """Return a text like "Steps T: 100 → 20"."""
        return f"{self.label}: {self.old} → {self.new}"


def differences(old: Experiment, new: Experiment) -> tuple[Difference, ...]:
    """Return the settings that differ between two experiments; the same difference in several methods counts once.

    Methods are compared by their labels, and those that only one of the two has are named together.
    """
    arms = [{arm.label: arm for arm in experiment.arms} for experiment in (old, new)]
    common = [label for label in arms[0] if label in arms[1]]
    other_parts = (change for change in _sorted(old, new) if change.path.partition(".")[0] != "arms")
    result = [Difference(change.title, *change.texts) for change in other_parts]
    if any(len(common) < len(side) for side in arms):
        names = (", ".join(label for label in side if label not in common) or "none" for side in arms)
        result.append(Difference("Methods", *names))
    for label in common:
        result += (Difference(change.title, *change.texts) for change in _sorted(arms[0][label], arms[1][label]))
    return tuple(dict.fromkeys(result))


def _sorted(old: Specification, new: Specification) -> list[Change]:
    """Return the changes in the order of the settings' names."""
    return sorted(changes(old, new), key=lambda change: change.path.split("."))


def table(experiments: Sequence[Experiment]) -> dict[str, tuple[str, ...]]:
    """Return the settings in which several experiments differ: by label, the text of each one's value; "–" for those
    without the setting.

    Values that differ between the methods of one experiment are joined by " / ".
    """
    by_experiment = [_settings(experiment) for experiment in experiments]
    labels = dict.fromkeys(label for settings in by_experiment for label in settings)
    rows = {label: tuple(" / ".join(settings.get(label, (NONE,))) for settings in by_experiment) for label in labels}
    return {label: row for label, row in rows.items() if len({value for value in row if value != NONE}) > 1}


def _settings(experiment: Experiment) -> dict[str, dict[str, None]]:
    """Return all settings of an experiment: by label, its values in their order, as keys."""
    names = ", ".join(arm.label for arm in experiment.arms)
    values: dict[str, dict[str, None]] = {"Methods": {names: None}}
    for name, part, control in _fields(experiment):
        parts = [arm.algorithm for arm in experiment.arms] if name == "arms" else [part]
        for label, value in (pair for part in parts for pair in _listed(part, name, control)):
            values.setdefault(label, {})[value] = None
    return values


def _listed(part: Any, name: str, control: Control | None) -> Iterator[tuple[str, str]]:
    """Yield the label and the text of every setting in a part of an experiment."""
    if isinstance(part, Specification):
        if name in _PARTS:
            yield _PARTS[name], _described(part)
        if name == "budget":  # which says it all
            return
        for key, value, its_control in _fields(part):
            yield from _listed(value, key, its_control)
    elif control is not None:
        text = _text(part, control, _DIGITS)
        yield control.title, text if len(text) <= LONGEST else "set"


def _fields(part: Specification) -> Iterator[tuple[str, Any, Control | None]]:
    """Return name, value and control, if there is one, of every setting of a specification, by name."""
    controls = {control.name: control for control in type(part).controls()}
    return ((name, getattr(part, name), controls.get(name)) for name in sorted(type(part).model_fields))


def _text(value: Any, control: Control | None, digits: int) -> str:
    """Return a setting's value as text, in the words of its control."""
    if isinstance(value, Specification):
        return _described(value)
    if control is not None and control.options:
        return control.options.get(value, str(value))
    if value is None:
        return "by theory" if control is not None and control.optional else "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (int, float)):
        return short(value, digits)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_text(item, None, digits) for item in value)
    return str(value)


def _described(part: Specification) -> str:
    """Return the text of a part of another kind: a budget by its guarantee, other parts by their title."""
    if isinstance(part, Budget):
        return part.describe()
    if isinstance(part, Algorithm | ProblemSpecification | DatasetSpecification):
        return part.title or type(part).__name__
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(part).__name__).capitalize()
