"""The method by name, and an experiment with it."""

from collections.abc import Sequence
from typing import Any

from dpviz.families.momentum.algorithms import MomentumDescent

from dpviz.experiments.experiment import Arm
from dpviz.experiments.preset import load

METHODS = {"Momentum": MomentumDescent()}


def arms(labels: Sequence[str], *, references: bool = False, **settings: Any) -> tuple[Arm, ...]:
    """Arms for the methods named; `settings` apply to all. There is no method without privacy to compare with."""
    assert not references
    return tuple(Arm(label=label, algorithm=METHODS[label].adopting(settings)) for label in labels)


PRESETS = load(__package__)
