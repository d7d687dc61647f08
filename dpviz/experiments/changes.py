"""How two specifications differ: setting by setting, in the words of their declared controls."""

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

LONGEST = 40  # characters of a value that are written out
NONE = "–"
_DIGITS = 6  # of a number in a table
_PARTS = {"data": "Data", "problem": "Problem", "budget": "Privacy budget", "algorithm": "Algorithm"}


@dataclass(frozen=True)
class Change:
    """A setting with two values.

    path : its address in the JSON, "arms.0.algorithm.iterations". control : as it is declared; None
    for what is no single setting, such as another kind of problem.
    """

    path: str
    control: Control | None
    before: Any
    after: Any

    @property
    def title(self) -> str:
        """The setting in words, with its symbol."""
        name = self.path.rpartition(".")[2]
        plain = name.replace("_", " ").capitalize() if self.control is None else self.control.title
        return _PARTS.get(name, plain)

    @property
    def texts(self) -> tuple[str, str]:
        """Both values in texts that differ: numbers with as many digits as that takes."""
        for digits in (4, 9, 17):
            before, after = (_text(value, self.control, digits) for value in (self.before, self.after))
            if before != after and max(len(before), len(after)) <= LONGEST:
                return before, after
        return "other", "changed"

    @property
    def names(self) -> tuple[str, str]:
        """What a line of a chart is called on either side: "T = 20", or the chosen words."""
        symbol = "" if self.control is None or self.control.options else self.control.symbol
        before, after = (f"{symbol} = {text}" if symbol else text for text in self.texts)
        return before, after


def changes(before: Specification, after: Specification, path: str = "") -> Iterator[Change]:
    """What differs between two specifications, in the order of their fields; paths begin with `path`."""
    if type(before) is not type(after):
        yield Change(path, None, before, after)
        return
    declared = {control.name: control for control in type(before).controls()}
    for name in type(before).model_fields:
        address = f"{path}.{name}".removeprefix(".")
        yield from _differing(getattr(before, name), getattr(after, name), address, declared.get(name))


def _differing(before: Any, after: Any, path: str, control: Control | None) -> Iterator[Change]:
    if isinstance(before, Specification) and isinstance(after, Specification):
        yield from changes(before, after, path)
    elif _are_parts(before) and _are_parts(after) and len(before) == len(after):
        for place, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from changes(one, other, f"{path}.{place}")
    elif before != after:
        yield Change(path, control, before, after)


def _are_parts(value: Any) -> bool:
    """Several specifications; several numbers or names are one setting."""
    return isinstance(value, tuple) and all(isinstance(item, Specification) for item in value)


@dataclass(frozen=True)
class Difference:
    """One setting, by its label, with what it was and what it is: "Steps T", "100", "20"."""

    label: str
    before: str
    after: str

    def describe(self) -> str:
        """In words: "Steps T: 100 → 20"."""
        return f"{self.label}: {self.before} → {self.after}"


def differences(before: Experiment, after: Experiment) -> tuple[Difference, ...]:
    """What has changed from one experiment to the other; what changed in the same way in several methods is one.

    Methods are compared by their labels, and those that only one of the two has are named together.
    """
    arms = [{arm.label: arm for arm in experiment.arms} for experiment in (before, after)]
    common = [label for label in arms[0] if label in arms[1]]
    found = [_difference(change) for change in _sorted(before, after) if change.path.partition(".")[0] != "arms"]
    if any(len(common) < len(side) for side in arms):
        names = (", ".join(label for label in side if label not in common) or "none" for side in arms)
        found.append(Difference("Methods", *names))
    found += (_difference(change) for label in common for change in _sorted(arms[0][label], arms[1][label]))
    return tuple(dict.fromkeys(found))


def _sorted(before: Specification, after: Specification) -> list[Change]:
    """In the order of the settings' names."""
    return sorted(changes(before, after), key=lambda change: change.path.split("."))


def _difference(change: Change) -> Difference:
    return Difference(change.title, *change.texts)


def table(experiments: Sequence[Experiment]) -> dict[str, tuple[str, ...]]:
    """The settings that several experiments have, and not all alike: a value of each, by label; "–" for those without.

    What methods of one experiment set differently is written side by side.
    """
    found = [_settings(experiment) for experiment in experiments]
    labels = dict.fromkeys(label for settings in found for label in settings)
    rows = {label: tuple(" / ".join(settings.get(label, (NONE,))) for settings in found) for label in labels}
    return {label: row for label, row in rows.items() if len({value for value in row if value != NONE}) > 1}


def _settings(experiment: Experiment) -> dict[str, dict[str, None]]:
    """All settings of an experiment: by label, the values in their order."""
    names = ", ".join(arm.label for arm in experiment.arms)
    found: dict[str, dict[str, None]] = {"Methods": {names: None}}
    for name, part, control in _fields(experiment):
        parts = [arm.algorithm for arm in experiment.arms] if name == "arms" else [part]
        for label, value in (pair for one in parts for pair in _listed(one, name, control)):
            found.setdefault(label, {})[value] = None
    return found


def _listed(part: Any, name: str, control: Control | None) -> Iterator[tuple[str, str]]:
    if isinstance(part, Specification):
        if name in _PARTS:
            yield _PARTS[name], _described(part)
        if name == "budget":  # which says it all
            return
        for key, value, its in _fields(part):
            yield from _listed(value, key, its)
    elif control is not None:
        text = _text(part, control, _DIGITS)
        yield control.title, text if len(text) <= LONGEST else "set"


def _fields(part: Specification) -> Iterator[tuple[str, Any, Control | None]]:
    """The settings of a specification by their names: value, and control if there is one."""
    controls = {control.name: control for control in type(part).controls()}
    return ((name, getattr(part, name), controls.get(name)) for name in sorted(type(part).model_fields))


def _text(value: Any, control: Control | None, digits: int) -> str:
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
    """A part of another kind: a budget by what it guarantees, everything else by its title."""
    if isinstance(part, Budget):
        return part.describe()
    if isinstance(part, Algorithm | ProblemSpecification | DatasetSpecification):
        return part.title or type(part).__name__
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(part).__name__).capitalize()
