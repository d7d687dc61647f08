"""Presets: named experiments, with what to look for and the numbers that were published for them."""

import re
from dataclasses import dataclass
from typing import Literal

from dpviz.experiments.experiment import Experiment

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
    look_for : one sentence on what to look for; reported : what the paper reports, and where this tool differs.
    tab : of the plan, which it opens; empty: the one that is open stays.
    """

    name: str
    source: str
    look_for: str
    reported: str
    experiment: Experiment
    expected: tuple[Expected, ...] = ()
    tab: str = ""

    @property
    def slug(self) -> str:
        """Its name in a link: the first words of its name, "figure-3-logistic-regression-all"."""
        words = re.findall(r"[a-z0-9]+", self.name.lower().replace("'", ""))
        return "-".join(words[:WORDS])
