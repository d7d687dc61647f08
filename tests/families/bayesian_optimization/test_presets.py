"""What the presets come to is what they say."""

import numpy as np
import pytest

from dpviz.experiments.preset import Preset
from dpviz.families.bayesian_optimization import presets
from dpviz.privacy.accounting import accountants
from dpviz.ui.bayesian_optimization import live


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
    *_, last = preset.experiment.stream()
    for expected in preset.expected:
        found = float(np.median(last.trace.last(expected.arm, expected.metric)))
        assert expected.low <= found <= expected.high, (expected.arm, found)
    ends = {label: np.median(last.trace.last(label, "objective")) for label in last.trace.lanes}
    if "Random search wins" in preset.look_for:  # and the page says so beside the picture
        assert ends[presets.RANDOM] < live.ALIKE * ends[presets.GIBO]
    elif preset.experiment.arms[0].label == presets.GIBO:
        assert ends[presets.GIBO] < 1.1 * ends.get(presets.RANDOM, np.inf)
