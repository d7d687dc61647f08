"""Methods by name, and the paper's figures as experiments (Kuru et al. 2022; numbers: THEORY.md, section 7)."""

from collections.abc import Mapping, Sequence
from typing import Any

from dpviz.experiments import preset
from dpviz.experiments.experiment import Arm
from dpviz.families.accelerated import algorithms, theory

METHODS: Mapping[str, algorithms.GradientMethod] = preset.methods(__package__)
DEFAULT_METHODS = ("DP-GD", "DP-NAG", "DP-NAG-opt")
SIX_METHODS = ("DP-GD", "DP-HB", "DP-NAG", "DP-NAG-opt", "DP-MASG", "DP-MASG-opt")


def arms(labels: Sequence[str], *, references: bool = False, **settings: Any) -> tuple[Arm, ...]:
    """Return an arm for each method named by `labels`; `settings` apply to all methods that have such a field.

    references : adds each update rule once more, without privacy and with exactly T steps.
    """
    private = {label: METHODS[label].adopting(settings) for label in labels}
    defaults: dict[str, Any] = {"schedule": "uniform", "knots": theory.EVEN, "horizon": "fixed"}
    rules = {type(method): method.replaced(**defaults) for method in private.values() if references}
    without_privacy = {f"{method.title.removeprefix('DP-')}, no privacy": method for method in rules.values()}
    return preset.arms(private, without_privacy)


PRESETS: tuple[preset.Preset, ...] = preset.load(__package__)
