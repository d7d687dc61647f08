"""What is set differently in two experiments, in the words of their controls."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpviz.datasets.base import DatasetSpecification
from dpviz.experiments.algorithm import Algorithm
from dpviz.experiments.experiment import Experiment
from dpviz.numbers import short
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import ProblemSpecification
from dpviz.specification import Control, Specification, kind_named

LONGEST = 40  # characters of a value that are written out
NONE = "–"
_DIGITS = 6  # of a number in a table
_PARTS = {"data": "Data", "problem": "Problem", "budget": "Privacy budget", "algorithm": "Algorithm"}


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
    first, second = (json.loads(experiment.to_json()) for experiment in (before, after))
    arms = [{arm["label"]: arm for arm in found.pop("arms")} for found in (first, second)]
    common = [label for label in arms[0] if label in arms[1]]
    found = list(_walked(first, second, ""))
    if any(len(common) < len(side) for side in arms):
        names = (", ".join(label for label in side if label not in common) or "none" for side in arms)
        found.append(Difference("Methods", *names))
    for label in common:
        found += _walked(arms[0][label], arms[1][label], "")
    return tuple(dict.fromkeys(found))


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
    tree = json.loads(experiment.to_json())
    names = ", ".join(arm["label"] for arm in tree["arms"])
    found: dict[str, dict[str, None]] = {"Methods": {names: None}}
    controls = _controls(tree)
    for name, part in tree.items():
        parts = [arm["algorithm"] for arm in part] if name == "arms" else [part]
        for label, value in (pair for one in parts for pair in _listed(one, name, controls.get(name))):
            found.setdefault(label, {})[value] = None
    return found


def _listed(part: Any, name: str, control: Control | None) -> Iterator[tuple[str, str]]:
    if isinstance(part, Mapping) and "kind" in part:
        if name in _PARTS:
            yield _PARTS[name], _described(part)
        if name == "budget":  # which says it all
            return
        controls = _controls(part)
        for key, value in part.items():
            yield from _listed(value, key, controls.get(key))
    elif control is not None:
        text = _text(part, control, _DIGITS)
        yield control.title, text if len(text) <= LONGEST else "set"


def _walked(before: Any, after: Any, name: str, control: Control | None = None) -> Iterator[Difference]:
    """The differences of two parts of the JSON trees; `name` is the last word of their path."""
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping) and before.get("kind") == after.get("kind"):
        controls = _controls(before)
        for key in before:
            yield from _walked(before[key], after[key], key, controls.get(key))
        return
    label = control.title if control is not None else _PARTS.get(name, name.replace("_", " ").capitalize())
    yield Difference(label, *_texts(before, after, control))


def _controls(part: Mapping[str, Any]) -> Mapping[str, Control]:
    return {control.name: control for control in _class(part).controls()}


def _class(part: Mapping[str, Any]) -> type[Specification]:
    return kind_named(part["kind"])


def _texts(before: Any, after: Any, control: Control | None) -> tuple[str, str]:
    """Two values that differ, in texts that differ: numbers with as many digits as that takes."""
    for digits in (4, 9, 17):
        texts = _text(before, control, digits), _text(after, control, digits)
        if texts[0] != texts[1] and max(map(len, texts)) <= LONGEST:
            return texts
    return "other", "changed"


def _text(value: Any, control: Control | None, digits: int) -> str:
    if isinstance(value, Mapping):
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


def _described(part: Mapping[str, Any]) -> str:
    """A part of another kind: a budget by what it guarantees, everything else by its title."""
    cls = _class(part)
    if issubclass(cls, Budget):
        return cls.from_json(json.dumps(part)).describe()
    if issubclass(cls, Algorithm) or issubclass(cls, ProblemSpecification) or issubclass(cls, DatasetSpecification):
        return cls.title or cls.__name__
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", cls.__name__).capitalize()
