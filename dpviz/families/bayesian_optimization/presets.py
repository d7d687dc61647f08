"""The family's methods by label, and its presets: the experiments of Sopa et al. 2025 (THEORY.md, section 9, has what
they gave here)."""

from collections.abc import Mapping, Sequence
from typing import Any

from dpviz.experiments import preset
from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.experiments.experiment import Arm

# Labels of methods: of the usual ones; of DP-GIBO with a part of the budget; of DP-GIBO that assumes other noise of the
# evaluations than the right one.
GIBO, EXACT, RANDOM, GLOBAL = "DP-GIBO", "DP-GD", "Random search", "Global search"
FIFTH, OVER = "DP-GIBO, a fifth of μ", "DP-GIBO, noise × 3"
UNDER, FAR_UNDER = "DP-GIBO, noise × 0.1", "DP-GIBO, noise × 0.01"
METHODS: Mapping[str, AnyAlgorithm] = preset.methods(__package__)
DEFAULT_METHODS = (GIBO, RANDOM)
REFERENCE, EXACT_REFERENCE = "GIBO, no privacy", "GD, no privacy"
REPLICATES = 4  # the page's first value; few, because each takes several hundred trainings


def arms(labels: Sequence[str], *, references: bool = False, **settings: Any) -> tuple[Arm, ...]:
    """Return an arm of an experiment for each of the methods with these labels.

    settings : fields of methods, set in every method that has them. references : True adds GIBO, which is DP-GIBO
    without noise, and, if DP-GD is among the methods, gradient descent without noise.
    """
    private = {label: METHODS[label].adopting(settings) for label in labels}
    without_privacy: dict[str, AnyAlgorithm] = {}
    if references:
        without_privacy[REFERENCE] = METHODS[GIBO].adopting(settings)
        if EXACT in labels:
            without_privacy[EXACT_REFERENCE] = METHODS[EXACT].adopting(settings)
    return preset.arms(private, without_privacy)


PRESETS: tuple[preset.Preset, ...] = preset.load(__package__)
