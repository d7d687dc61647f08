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

LONGEST = 40  # characters of a value that is written out whole
NONE = "–"  # in the table, for an experiment without the setting
IDENTITY = "identity"  # field with the name of a visitor's table
_DIGITS, _ALL_DIGITS = 6, 17  # significant digits of a number in the table; with 17, any two floats differ
# Titles of the fields that hold a specification of their own.
_PARTS = {"data": "Data", "problem": "Problem", "budget": "Privacy budget", "algorithm": "Algorithm"}


@dataclass(frozen=True)
class Change:
    """A setting in which two specifications differ, with the value of each.

    path : address of the setting in the JSON, "arms.0.algorithm.iterations".
    control : the setting's declaration, with title and symbol; None if the difference is that of a whole part, such
        as another kind of problem.
    """

    path: str
    control: Control | None
    old: Any
    new: Any

    @property
    def title(self) -> str:
        """Title of the setting, with its symbol."""
        _, _, name = self.path.rpartition(".")
        if name in _PARTS:
            return _PARTS[name]
        if name == IDENTITY:
            return _PARTS["data"]
        return name.replace("_", " ").capitalize() if self.control is None else self.control.title

    @property
    def texts(self) -> tuple[str, str]:
        """Old and new value as texts that differ: numbers get more digits until they do.

        They are "other" and "changed" where the values are too long to be written out, or the name of a table, which is
        random.
        """
        if self.path.endswith(f".{IDENTITY}"):
            return "other", "changed"
        for digits in (4, 9, _ALL_DIGITS):
            old, new = (_text(value, self.control, digits) for value in (self.old, self.new))
            if old != new and max(len(old), len(new)) <= LONGEST:
                return old, new
        return "other", "changed"

    @property
    def names(self) -> tuple[str, str]:
        """Names for the old and the new value in a chart that compares both: "T = 20", or the text of an option."""
        symbol = "" if self.control is None or self.control.options else self.control.symbol
        old, new = (f"{symbol} = {text}" if symbol else text for text in self.texts)
        return old, new


def changes(old: Specification, new: Specification, path: str = "") -> Iterator[Change]:
    """Yield the differences of two specifications, in the order of their fields; their paths begin with `path`."""
    if type(old) is not type(new):
        yield Change(path, control=None, old=old, new=new)
        return
    controls = {control.name: control for control in type(old).controls()}
    for name in type(old).model_fields:
        address = f"{path}.{name}".removeprefix(".")
        old_value, new_value = getattr(old, name), getattr(new, name)
        if isinstance(old_value, Specification) and isinstance(new_value, Specification):
            yield from changes(old_value, new_value, address)
        elif _are_parts(old_value) and _are_parts(new_value) and len(old_value) == len(new_value):
            for index, (old_part, new_part) in enumerate(zip(old_value, new_value, strict=True)):
                yield from changes(old_part, new_part, f"{address}.{index}")
        elif old_value != new_value:
            yield Change(address, controls.get(name), old_value, new_value)


def _are_parts(value: Any) -> bool:
    """Return whether a value is a tuple of specifications, such as arms; a tuple of numbers is a single setting."""
    return isinstance(value, tuple) and all(isinstance(item, Specification) for item in value)


@dataclass(frozen=True)
class Difference:
    """One setting in which two experiments differ, as texts: label "Steps T", old value "100", new value "20"."""

    label: str
    old: str
    new: str

    def describe(self) -> str:
        """Return a text like "Steps T: 100 → 20"."""
        return f"{self.label}: {self.old} → {self.new}"


def differences(old: Experiment, new: Experiment) -> tuple[Difference, ...]:
    """Return the settings that differ between two experiments, without repetition.

    Methods are compared by their labels: the old with the new method of the same label. The methods that only one
    of the experiments has are one difference, "Methods". A difference that several methods share is listed once.
    """
    old_arms = {arm.label: arm for arm in old.arms}
    new_arms = {arm.label: arm for arm in new.arms}
    # The first part of a path names a field of the experiment. Arms are compared below, by label.
    changed = [change for change in _sorted_changes(old, new) if change.path.partition(".")[0] != "arms"]
    result = [Difference(change.title, *change.texts) for change in changed]
    only_old = [label for label in old_arms if label not in new_arms]
    only_new = [label for label in new_arms if label not in old_arms]
    if only_old or only_new:
        result.append(Difference("Methods", ", ".join(only_old) or "none", ", ".join(only_new) or "none"))
    for label, old_arm in old_arms.items():
        if label in new_arms:
            changes_of_arm = _sorted_changes(old_arm, new_arms[label])
            result += [Difference(change.title, *change.texts) for change in changes_of_arm]
    return tuple(dict.fromkeys(result))


def _sorted_changes(old: Specification, new: Specification) -> list[Change]:
    """Return the changes between two specifications, sorted by the names of the settings."""
    return sorted(changes(old, new), key=lambda change: change.path.split("."))


def table(experiments: Sequence[Experiment]) -> dict[str, tuple[str, ...]]:
    """Return the settings in which several experiments differ: for each label of a setting, one text per experiment.

    The text is "–" for an experiment without the setting. Where the methods of one experiment differ in a setting,
    their values are joined by " / ". A setting that only some experiments have is no difference by itself. Numbers
    are rounded unless they differ only further on; of a text longer than LONGEST only the beginning is given.
    """
    rounded = [_settings(experiment, _DIGITS) for experiment in experiments]
    exact = [_settings(experiment, _ALL_DIGITS) for experiment in experiments]
    labels = dict.fromkeys(label for settings in exact for label in settings)
    result = {}
    for label in labels:
        rounded_row = [tuple(settings.get(label, (NONE,))) for settings in rounded]
        exact_row = [tuple(settings.get(label, (NONE,))) for settings in exact]
        if len({*exact_row} - {(NONE,)}) > 1:  # the experiments that have the setting differ in it
            is_hidden_by_rounding = len({*rounded_row}) < len({*exact_row})
            row = exact_row if is_hidden_by_rounding else rounded_row
            result[label] = tuple(" / ".join(map(_beginning, texts)) for texts in row)
    return result


def _beginning(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _settings(experiment: Experiment, digits: int) -> dict[str, dict[str, None]]:
    """Return, for each label of a setting of an experiment, the texts of its values, several if the methods differ.

    Each text occurs once, in the order of the methods; the inner dictionary is an ordered set.
    """
    names = ", ".join(arm.label for arm in experiment.arms)
    values: dict[str, dict[str, None]] = {"Methods": {names: None}}
    for name, value, control in _fields(experiment):
        parts = [arm.algorithm for arm in experiment.arms] if name == "arms" else [value]
        for part in parts:
            for label, text in _labelled_texts(part, name, control, digits):
                values.setdefault(label, {})[text] = None
    return values


def _labelled_texts(value: Any, name: str, control: Control | None, digits: int) -> Iterator[tuple[str, str]]:
    """Yield label and text of the field `name` with this value, and of all settings inside if it is a specification.

    A value without a control, such as the identity of a table, is left out.
    """
    if isinstance(value, Specification):
        if name in _PARTS:
            yield _PARTS[name], _part_text(value)
        if name == "budget":  # its text states all of its numbers
            return
        for inner_name, inner_value, inner_control in _fields(value):
            yield from _labelled_texts(inner_value, inner_name, inner_control, digits)
    elif control is not None:
        yield control.title, _text(value, control, digits)


def _fields(part: Specification) -> Iterator[tuple[str, Any, Control | None]]:
    """Return (name, value, control or None) for every field of a specification, sorted by name."""
    controls = {control.name: control for control in type(part).controls()}
    return ((name, getattr(part, name), controls.get(name)) for name in sorted(type(part).model_fields))


def _text(value: Any, control: Control | None, digits: int) -> str:
    """Return a setting's value as text, in the words of its control; numbers with `digits` significant digits."""
    if isinstance(value, Specification):
        return _part_text(value)
    if control is not None and control.options:
        return control.options.get(value, str(value))
    if value is None:
        return "by theory" if control is not None and control.optional else "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (int, float)):
        return short(value, digits)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_text(item, control=None, digits=digits) for item in value)
    return str(value)


def _part_text(part: Specification) -> str:
    """Return the text of a specification: a budget's guarantee, else its title, else the words of its class's name."""
    if isinstance(part, Budget):
        return part.describe()
    if isinstance(part, Algorithm | ProblemSpecification | DatasetSpecification):
        return part.title or type(part).__name__
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(part).__name__).capitalize()
