"""The method by name, and an experiment with it."""

from collections.abc import Sequence
from typing import Any

from dpviz.families.momentum.algorithms import MomentumDescent

from dpviz.experiments.experiment import Arm
from dpviz.experiments.preset import load
from dpviz.privacy.budgets import NoPrivacy

METHODS = {"Momentum": MomentumDescent()}


def arms(labels: Sequence[str], *, references: bool = False, **settings: Any) -> tuple[Arm, ...]:
    """Arms for the methods named; `settings` apply to all. references : adds each once more, without privacy."""
    chosen = {label: METHODS[label].adopting(settings) for label in labels}
    private = [Arm(label=label, algorithm=method) for label, method in chosen.items()]
    plain = [
        Arm(label=f"{label}, no privacy", algorithm=method, budget=NoPrivacy()) for label, method in chosen.items()
    ]
    return (*private, *plain[: len(plain) * references])


PRESETS = load(__package__)
