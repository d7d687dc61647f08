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

    references : adds each update rule (gradient descent, heavy ball, …) once more, without privacy and with exactly T
        steps. Without noise a schedule has no meaning, so DP-NAG and DP-NAG-opt share one reference.
    """
    private = {label: METHODS[label].adopting(settings) for label in labels}
    without_privacy: dict[str, algorithms.GradientMethod] = {}
    if references:
        for method in private.values():
            name = f"{method.title.removeprefix('DP-')}, no privacy"
            without_privacy[name] = method.replaced(schedule="uniform", knots=theory.EVEN, horizon="fixed")
    return preset.arms(private, without_privacy)


PRESETS: tuple[preset.Preset, ...] = preset.load(__package__)
