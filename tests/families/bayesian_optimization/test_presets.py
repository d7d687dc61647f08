"""What the presets come to is what they say."""

import math
from functools import cache

import numpy as np
import pytest

from dpviz.experiments.preset import Preset
from dpviz.experiments.trace import Trace
from dpviz.families.bayesian_optimization import presets
from dpviz.privacy.accounting import accountants
from dpviz.ui.bayesian_optimization import live


@cache
def outcome(name: str) -> Trace:
    """The run of a preset, for all that is told of it: of Figure 5 in 20 runs. Nothing is told of methods without
    privacy, so one run is enough to see that they come to an end."""
    of = next(preset.experiment for preset in presets.PRESETS if preset.name == name)
    plain = tuple(arm for arm in of.arms if arm.reference)
    ends = of.replaced(arms=plain, replicates=1).run()
    assert all(np.isfinite(ends.last(arm.label, "objective")).all() for arm in plain)
    private = tuple(arm for arm in of.arms if not arm.reference)
    return of.replaced(arms=private, replicates=20 if name.startswith("Figure 5") else of.replicates).run()


def test_figures_of_the_paper_stand_in_one_chart_each() -> None:
    """Figure 3: two levels of privacy; 4: descent without privacy, too; 5: three settings of the noise, and more."""
    by_figure = {preset.name[:8]: preset.experiment for preset in presets.PRESETS if preset.name.startswith("Figure")}
    spent = [accountants.total(plan.events, "mu") for plan in by_figure["Figure 3"].plans().values()]
    assert spent == pytest.approx([1.0, 1.0, 0.2, np.inf, np.inf])
    known = by_figure["Figure 4"]
    assert [arm.label for arm in known.arms if arm.reference] == [presets.REFERENCE, presets.EXACT_REFERENCE]
    assert {"internal_gradient_norm", "internal_exact_gradient_norm"} <= known.metrics().keys()
    plans = by_figure["Figure 5"].plans().values()
    assumed = [plan.resolved["relative_noise"] for plan in plans if "relative_noise" in plan.resolved]
    assert assumed == pytest.approx([1.0, 9.0, 0.01, 0.0001, 1.0])


@pytest.mark.slow
@pytest.mark.parametrize("preset", presets.PRESETS, ids=lambda preset: preset.name)
def test_expected_numbers_hold(preset: Preset) -> None:
    trace = outcome(preset.name)
    for expected in preset.expected:
        found = float(np.median(trace.last(expected.arm, expected.metric)))
        assert expected.low <= found <= expected.high, (expected.arm, found)
    ends = {label: np.median(trace.last(label, "objective")) for label in trace.lanes}
    if "Random search wins" in preset.look_for:  # and the page says so beside the picture
        assert ends[presets.RANDOM] < live.ALIKE * ends[presets.GIBO]
    elif preset.experiment.arms[0].label == presets.GIBO:
        assert ends[presets.GIBO] < 1.1 * ends.get(presets.RANDOM, np.inf)


@pytest.mark.slow
def test_too_little_assumed_noise_is_worst_and_far_too_little_is_worse_than_random_search() -> None:
    """Figure 5, 20 runs each within 4 standard errors of both: THEORY.md, section 9."""
    preset = next(preset for preset in presets.PRESETS if preset.name.startswith("Figure 5"))
    trace = outcome(preset.name)
    ends = {label: trace.last(label, "objective") for label in trace.lanes}
    told = {
        presets.GIBO: (0.112, 0.003),
        presets.OVER: (0.109, 0.003),
        presets.UNDER: (0.175, 0.009),
        presets.FAR_UNDER: (0.263, 0.019),
        presets.RANDOM: (0.186, 0.007),
    }
    for label, (mean, error) in told.items():
        own = ends[label].std(ddof=1) / math.sqrt(20)
        assert ends[label].mean() == pytest.approx(mean, abs=4 * math.hypot(error, own)), label
        assert f"{mean} ({error})" in preset.reported
    means = {label: values.mean() for label, values in ends.items()}
    assert max(means[presets.GIBO], means[presets.OVER]) < means[presets.UNDER] < 1.1 * means[presets.RANDOM]
    assert means[presets.RANDOM] < means[presets.FAR_UNDER]
