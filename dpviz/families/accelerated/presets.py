"""The methods by name, and the paper's figures as experiments (Kuru et al. 2022; numbers: THEORY.md, section 7)."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from dpviz.experiments.experiment import Arm
from dpviz.experiments.preset import Preset, load
from dpviz.families.accelerated import custom_schedule
from dpviz.families.accelerated.algorithms import (
    GradientDescent,
    GradientMethod,
    HeavyBall,
    MultistageNesterov,
    Nesterov,
)
from dpviz.privacy.budgets import NoPrivacy

METHODS: Mapping[str, GradientMethod] = MappingProxyType(
    {
        "DP-GD": GradientDescent(),
        "DP-GD-opt": GradientDescent(schedule="optimal", horizon="bound"),
        "DP-HB": HeavyBall(),
        "DP-NAG": Nesterov(),
        "DP-NAG-T*": Nesterov(horizon="bound"),
        "DP-NAG-opt": Nesterov(schedule="optimal", horizon="bound"),
        "DP-MASG": MultistageNesterov(),
        "DP-MASG-opt": MultistageNesterov(schedule="optimal", horizon="bound"),
    }
)
DEFAULT_METHODS = ("DP-GD", "DP-NAG", "DP-NAG-opt")
SIX_METHODS = ("DP-GD", "DP-HB", "DP-NAG", "DP-NAG-opt", "DP-MASG", "DP-MASG-opt")


def arms(labels: Sequence[str], *, references: bool = False, **settings: Any) -> tuple[Arm, ...]:
    """Arms for the methods named; `settings` apply to all that have such a field.

    references : adds each update rule once more, without privacy and with exactly T steps.
    """
    chosen = [(label, METHODS[label].adopting(settings)) for label in labels]
    private = [Arm(label=label, algorithm=method) for label, method in chosen]
    if not references:
        return tuple(private)
    plainly: dict[str, Any] = {"schedule": "uniform", "knots": custom_schedule.EVEN, "horizon": "fixed"}
    rules = {type(method): method.replaced(**plainly) for _, method in chosen}
    plain = [
        Arm(label=f"{method.title.removeprefix('DP-')}, no privacy", algorithm=method, budget=NoPrivacy())
        for method in rules.values()
    ]
    return (*private, *plain)


PRESETS: tuple[Preset, ...] = load(__package__)
