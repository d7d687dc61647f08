"""Methods by name, and experiments (Zhang, Tran, Cutkosky 2024; numbers: THEORY.md, section 7)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpviz.experiments import preset
from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.experiments.experiment import Arm
from dpviz.families.zeroth_order import advice
from dpviz.numbers import short

# Labels of methods.
PUBLISHED, PAPER, IMPROVED, NAIVE, FRESH = "Published", "Published noise", "Improved", "Naive", "Naive, orthonormal"
METHODS: Mapping[str, AnyAlgorithm] = preset.methods(__package__)
DEFAULT_METHODS = (PUBLISHED, IMPROVED, NAIVE, FRESH)
# Settings that follow from the name of a method.
BY_NAME = ("directions", "directions_per_row", "sums", "descent_steps", "relative_step_size")
REFERENCE = "Published, no privacy"
REPLICATES = 5  # at first: a run takes half a million values in each


def arms(labels: Sequence[str], *, references: bool = False, **settings: Any) -> tuple[Arm, ...]:
    """Return an arm for each method named by `labels`; `settings` apply to all methods that have such a field.

    references : adds the published method without privacy.
    """
    private = {label: METHODS[label].adopting(settings) for label in labels}
    return preset.arms(private, {REFERENCE: METHODS[PUBLISHED].adopting(settings)} if references else {})


def label_of(way: advice.GradientEstimator) -> str:
    """Return the label of the method of this page for a way to estimate gradients that the advice recommends."""
    if way.sums is None:  # the naive oracle
        return FRESH if way.kind == "orthonormal" else NAIVE
    return IMPROVED if way.kind == "orthonormal" else PUBLISHED


def _results_text(name: str) -> str:
    """Return sentences on the results of a preset's runs, from the table of measured runs; "" if it has none."""
    # By the label of each method, and that of the start.
    medians = dict(advice.measured_runs()["presets"].get(name, {}))
    if not medians:
        return ""
    start = medians.pop("start")
    results = ", ".join(f"{label} {short(value, 2)}" for label, value in medians.items())
    return (
        f"Not in the paper, which has no experiments. Median objective of the last epoch, {advice.PRESET_RUNS} "
        f"runs: {results}. All start at {short(start, 2)}."
    )


PRESETS: tuple[preset.Preset, ...] = tuple(
    replace(loaded, reported=_results_text(loaded.name)) for loaded in preset.load(__package__)
)
