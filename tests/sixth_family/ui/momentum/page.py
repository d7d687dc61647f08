"""The page of the family, described: the quadratic is all that it minimises."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from dpviz.families.momentum import presets, texts
from streamlit.delta_generator import DeltaGenerator

from dpviz.families import momentum
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.ui.controls import Panel, Settings
from dpviz.ui.experiment.controls import Catalogue, Group, fields_of
from dpviz.ui.experiment.page import FamilyPage


@dataclass(frozen=True)
class Bowl:
    """The settings of the quadratic."""

    settings: Settings[Quadratic]
    uploaded: bool = False
    leads: bool = False
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)


def choose(panel: Panel, _main: DeltaGenerator, _lead: DeltaGenerator) -> Bowl:
    names = [control.name for control in Quadratic.controls()]
    return Bowl(Settings(Quadratic, panel.specification(Quadratic, names)))


def build(panel: Panel, bowl: Bowl, _budget: Settings[Budget], _seed: int | None) -> ProblemSpecification:
    panel.check()
    return bowl.settings.build()


def settings_of(problem: ProblemSpecification) -> dict[str, Any]:
    return fields_of(problem)


PAGE = FamilyPage(
    prefix="momentum",
    package=momentum,
    texts=texts,
    catalogue=Catalogue(presets.METHODS, presets.arms, ("Momentum",)),
    presets=presets.PRESETS,
    groups=(Group("", ("iterations", "relative_step", "momentum", "batch_fraction")),),
    references="",
    choose=choose,
    build=build,
    settings_of=settings_of,
)
