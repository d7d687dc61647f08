"""The method by name, and an experiment with it."""

from collections.abc import Sequence
from typing import Any

from dpviz.families.momentum.algorithms import MomentumDescent

from dpviz.experiments import preset
from dpviz.experiments.experiment import Arm

METHODS = {"Momentum": MomentumDescent()}


def arms(labels: Sequence[str], *, references: bool = False, **settings: Any) -> tuple[Arm, ...]:
    """Arms for the methods named; `settings` apply to all. references : adds each once more, without privacy."""
    chosen = {label: METHODS[label].adopting(settings) for label in labels}
    return preset.arms(chosen, {f"{label}, no privacy": chosen[label] for label in labels if references})


PRESETS = preset.load(__package__)
