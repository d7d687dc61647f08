"""Presets: named experiments, with hints on their pictures and the numbers that were published for them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from dpviz import resources
from dpviz.experiments.algorithm import Algorithm, AnyAlgorithm
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.privacy.budgets import NoPrivacy
from dpviz.specification import kind_named

WORDS = 5  # number of words of a preset's name in its link: enough for the presets of a page to differ


@dataclass(frozen=True)
class Expected:
    """A published or verified number of a preset's run, which tests compare with ours.

    The mean or median over the replicates of `metric` at the last iteration of the arm labelled `arm` lies in
    [low, high]; `source` says where the number is from.
    """

    arm: str
    metric: str
    statistic: Literal["mean", "median"]
    low: float
    high: float
    source: str


@dataclass(frozen=True)
class Preset:
    """A named experiment that a page offers in a menu, with texts about its results.

    name : title in the menu.
    source : paper and figure, or the author of the preset.
    look_for : two to four sentences about the first picture of the run, true at these settings.
    reported : the results of the paper, and the differences of this tool from them.
    expected : numbers that a run must reproduce.
    tab : name of the plan's tab that choosing the preset opens; empty to leave the open tab as it is.
    comparisons : experiments of other presets that the picture shows for comparison, by the name of their faint lines.
    """

    name: str
    source: str
    look_for: str
    reported: str
    experiment: Experiment
    expected: tuple[Expected, ...] = ()
    tab: str = ""
    comparisons: Mapping[str, Experiment] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        """Name of the preset in a link: the first words of its title, "figure-3-logistic-regression-all"."""
        words = re.findall(r"[a-z0-9]+", self.name.lower().replace("'", ""))
        return "-".join(words[:WORDS])


def load(package: str) -> tuple[Preset, ...]:
    """Read the presets of a family from the file `presets.toml` in its package.

    The file writes an experiment with the field names of its JSON, without the fields that have their default; the text
    "null" means None. An arm is a label, or a table with a label. Its algorithm has the settings of the table `methods`
    under this label, unless the arm states a "kind". Values of the experiment's table `settings` take precedence over
    these, for the fields that the algorithm has; what the arm states takes precedence over both. A family whose code
    computes `reported` leaves it out of the file. Raises UserError where an experiment has a value out of its range.
    """
    file = resources.data(package, "presets.toml")
    experiments = {}
    for entry in file["preset"]:
        fields, arms = dict(entry["experiment"]), []
        settings = fields.pop("settings", {})
        for item in fields.pop("arms"):
            arm: Mapping[str, Any] = {"label": item} if isinstance(item, str) else item
            stated = arm.get("algorithm", {})
            method = stated if "kind" in stated else file["methods"][arm["label"]]
            fields_of_method = kind_named(method["kind"]).model_fields
            common = {name: value for name, value in settings.items() if name in fields_of_method}
            arms.append({**arm, "algorithm": {**method, **common, **stated}})
        experiments[entry["name"]] = Experiment.model_validate(_null_to_none({**fields, "arms": arms}))
    presets = []
    for entry in file["preset"]:
        expected = tuple(Expected(**fields) for fields in entry.get("expected", ()))
        comparisons = {label: experiments[name] for label, name in entry.get("comparisons", {}).items()}
        objects = {"experiment": experiments[entry["name"]], "expected": expected, "comparisons": comparisons}
        presets.append(Preset(**{"reported": "", **entry, **objects}))  # objects in place of the entry's tables
    return tuple(presets)


def methods(package: str) -> Mapping[str, Any]:
    """Read the methods that a family names in the table `methods` of its `presets.toml`, by these names.

    The "kind" of an entry says of which class of algorithms it is.

    Raises UserError where a method has a value out of its range.
    """
    entries = resources.data(package, "presets.toml")["methods"]
    return MappingProxyType({name: Algorithm.model_validate(_null_to_none(method)) for name, method in entries.items()})


def arms(private: Mapping[str, AnyAlgorithm], plain: Mapping[str, AnyAlgorithm]) -> tuple[Arm, ...]:
    """Return arms for methods that are given by label: the `private` ones under the budget of their experiment, then
    the `plain` ones without privacy."""
    return (
        *(Arm(label=label, algorithm=method) for label, method in private.items()),
        *(Arm(label=label, algorithm=method, budget=NoPrivacy()) for label, method in plain.items()),
    )


def _null_to_none(value: Any) -> Any:
    """Return a value of a TOML file with None in place of every text "null" inside, as TOML has no null."""
    if isinstance(value, Mapping):
        return {name: _null_to_none(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_null_to_none(part) for part in value]
    return None if value == "null" else value
