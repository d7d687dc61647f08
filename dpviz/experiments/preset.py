"""Presets: named experiments, with what to look for and the numbers that were published for them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from dpviz import resources
from dpviz.experiments.algorithm import Algorithm, AnyAlgorithm
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.privacy.budgets import NoPrivacy
from dpviz.specification import sentences

WORDS = 5  # of a name in a link: the presets of a page differ in them


@dataclass(frozen=True)
class Expected:
    """A published or verified number: the statistic of a metric at an arm's last iteration lies in [low, high]."""

    arm: str
    metric: str
    statistic: Literal["mean", "median"]
    low: float
    high: float
    source: str


@dataclass(frozen=True)
class Preset:
    """An experiment worth a click.

    name : what the menu shows; source : paper and figure, or who made it.
    look_for : two to four sentences on what its first screen shows, true at these settings; reported : what the paper
    reports, and where this tool differs.
    tab : of the plan, which it opens; empty: the one that is open stays.
    beside : what its picture compares it with, by the name that the faint lines have there: other presets of the file.
    """

    name: str
    source: str
    look_for: str
    reported: str
    experiment: Experiment
    expected: tuple[Expected, ...] = ()
    tab: str = ""
    beside: Mapping[str, Experiment] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        """Its name in a link: the first words of its name, "figure-3-logistic-regression-all"."""
        words = re.findall(r"[a-z0-9]+", self.name.lower().replace("'", ""))
        return "-".join(words[:WORDS])


def load(package: str) -> tuple[Preset, ...]:
    """The presets of a family, from the file `presets.toml` in its package.

    An experiment stands there as in a settings file, without the fields that have their default; the text "null" is
    None. A family that computes what was `reported` leaves it out. Raises UserError where an experiment has a value out
    of its range.
    """
    entries = resources.data(package, "presets.toml")["preset"]
    with sentences(Experiment):
        experiments = {entry["name"]: Experiment.model_validate(_values(entry["experiment"])) for entry in entries}
    return tuple(_preset(entry, experiments) for entry in entries)


def methods(package: str) -> Mapping[str, Any]:
    """The methods of a family by name, from the table `methods` of the same file. Raises UserError as `load` does."""
    found = resources.data(package, "presets.toml")["methods"]
    with sentences(Algorithm):
        return MappingProxyType({name: Algorithm.model_validate(_values(method)) for name, method in found.items()})


def arms(private: Mapping[str, AnyAlgorithm], plain: Mapping[str, AnyAlgorithm]) -> tuple[Arm, ...]:
    """Arms for methods by label: those with the budget of their experiment, and behind them those without privacy."""
    return (
        *(Arm(label=label, algorithm=method) for label, method in private.items()),
        *(Arm(label=label, algorithm=method, budget=NoPrivacy()) for label, method in plain.items()),
    )


def _preset(entry: Mapping[str, Any], experiments: Mapping[str, Experiment]) -> Preset:
    experiment, expected = experiments[entry["name"]], tuple(Expected(**one) for one in entry.get("expected", ()))
    beside = {label: experiments[name] for label, name in entry.get("beside", {}).items()}
    return Preset(**{"reported": "", **entry, "experiment": experiment, "expected": expected, "beside": beside})


def _values(value: Any) -> Any:
    """A value of a TOML file, which has no null."""
    if isinstance(value, Mapping):
        return {name: _values(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_values(part) for part in value]
    return None if value == "null" else value
