"""Methods by name, and experiments (Sopa et al. 2025; measured results: THEORY.md)."""

from collections.abc import Mapping, Sequence
from typing import Any

from dpviz.experiments import preset
from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.experiments.experiment import Arm

GIBO, EXACT, RANDOM, GLOBAL = "DP-GIBO", "DP-GD", "Random search", "Global search"
FIFTH, OVER = "DP-GIBO, a fifth of μ", "DP-GIBO, noise × 3"
UNDER, FAR_UNDER = "DP-GIBO, noise × 0.1", "DP-GIBO, noise × 0.01"
METHODS: Mapping[str, AnyAlgorithm] = preset.methods(__package__)
DEFAULT_METHODS = (GIBO, RANDOM)
REFERENCE, EXACT_REFERENCE = "GIBO, no privacy", "GD, no privacy"
REPLICATES = 4  # at first: each is several hundred trainings


def arms(labels: Sequence[str], *, references: bool = False, **settings: Any) -> tuple[Arm, ...]:
    """Return an arm for each method named by `labels`; `settings` apply to all methods that have such a field.

    references : adds GIBO, which is DP-GIBO without noise; and if DP-GD is there, the same steps without noise.
    """
    without_privacy = {REFERENCE: GIBO} | ({EXACT_REFERENCE: EXACT} if EXACT in labels else {})
    return preset.arms(
        {label: METHODS[label].adopting(settings) for label in labels},
        {label: METHODS[name].adopting(settings) for label, name in without_privacy.items() if references},
    )


PRESETS: tuple[preset.Preset, ...] = preset.load(__package__)
