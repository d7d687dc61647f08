"""The methods by name, and experiments worth a click (Sopa et al. 2025; what they come to: measured, THEORY.md)."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.experiments.experiment import Arm
from dpviz.experiments.preset import Preset, load
from dpviz.families.bayesian_optimization.algorithms import Gibo, GradientDescent
from dpviz.families.bayesian_optimization.baselines import GlobalSearch, RandomSearch
from dpviz.privacy.budgets import NoPrivacy

GIBO, EXACT, RANDOM, GLOBAL = "DP-GIBO", "DP-GD", "Random search", "Global search"
FIFTH, OVER = "DP-GIBO, a fifth of μ", "DP-GIBO, noise × 3"
UNDER, FAR_UNDER = "DP-GIBO, noise × 0.1", "DP-GIBO, noise × 0.01"
METHODS: Mapping[str, AnyAlgorithm] = MappingProxyType(
    {
        GIBO: Gibo(),
        EXACT: GradientDescent(),
        RANDOM: RandomSearch(),
        GLOBAL: GlobalSearch(),
        FIFTH: Gibo(share=0.2),
        OVER: Gibo(noise_factor=3.0),
        UNDER: Gibo(noise_factor=0.1),
        FAR_UNDER: Gibo(noise_factor=0.01),
    }
)
DEFAULT_METHODS = (GIBO, RANDOM)
REFERENCE, EXACT_REFERENCE = "GIBO, no privacy", "GD, no privacy"
REPLICATES = 4  # at first: each is several hundred trainings


def arms(labels: Sequence[str], *, references: bool = False, **settings: Any) -> tuple[Arm, ...]:
    """Arms for the methods named; `settings` apply to all that have such a field.

    references : adds GIBO, which is DP-GIBO without noise; and beside DP-GD, the same steps without noise.
    """
    private = [Arm(label=label, algorithm=METHODS[label].adopting(settings)) for label in labels]
    if not references:
        return tuple(private)
    plain = {REFERENCE: GIBO} | ({EXACT_REFERENCE: EXACT} if EXACT in labels else {})
    return (
        *private,
        *(
            Arm(label=label, algorithm=METHODS[name].adopting(settings), budget=NoPrivacy())
            for label, name in plain.items()
        ),
    )


PRESETS: tuple[Preset, ...] = load(__package__)
