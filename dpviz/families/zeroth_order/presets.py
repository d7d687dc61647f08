"""The methods by name, and experiments worth a click (Zhang, Tran, Cutkosky 2024; numbers: THEORY.md, section 7)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpviz.experiments import preset
from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.experiments.experiment import Arm
from dpviz.families.zeroth_order import advice, measured
from dpviz.numbers import short

PUBLISHED, PAPER, IMPROVED, NAIVE, FRESH = "Published", "Published noise", "Improved", "Naive", "Naive, orthonormal"
DIRECTIONAL, DERIVATIVES = "DP-ZO", "DP-SGD"
METHODS: Mapping[str, AnyAlgorithm] = preset.methods(__package__)
DEFAULT_METHODS = (PUBLISHED, IMPROVED, NAIVE, FRESH)
BY_NAME = ("directions", "directions_per_row", "sums", "descent_steps", "relative_step_size")  # what a label stands for
REFERENCE = "Published, no privacy"
REPLICATES = 5  # at first: a run asks for half a million values in each


def arms(labels: Sequence[str], *, references: bool = False, **settings: Any) -> tuple[Arm, ...]:
    """Arms for the methods named; `settings` apply to all that have such a field.

    references : adds the published method without privacy.
    """
    private = {label: METHODS[label].adopting(settings) for label in labels}
    return preset.arms(private, {REFERENCE: METHODS[PUBLISHED].adopting(settings)} if references else {})


def label_of(option: advice.Way) -> str:
    """The method that an option of the advice stands for."""
    if option.sums is None:
        return FRESH if option.kind == "orthonormal" else NAIVE
    return IMPROVED if option.kind == "orthonormal" else PUBLISHED


def _numbers(name: str) -> str:
    """What runs of a preset came to, in a sentence; empty while it has not been measured."""
    found = dict(measured.table()["presets"].get(name, {}))
    if not found:
        return ""
    start = found.pop("start")
    told = ", ".join(f"{label} {short(value, 2)}" for label, value in found.items())
    return (
        f"Not in the paper, which has no experiments. Median objective of the last epoch, {measured.PRESET_RUNS} "
        f"runs: {told}. All start at {short(start, 2)}."
    )


PRESETS: tuple[preset.Preset, ...] = tuple(
    replace(one, reported=_numbers(one.name)) for one in preset.load(__package__)
)
