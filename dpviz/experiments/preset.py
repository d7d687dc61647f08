"""Presets: named experiments, with what to look for and the numbers that were published for them."""

from dataclasses import dataclass
from typing import Literal

from dpviz.experiments.experiment import Experiment


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
    """

    name: str
    source: str
    look_for: str
    reported: str
    experiment: Experiment
    expected: tuple[Expected, ...] = ()
