"""What the presets come to is what they say."""

import numpy as np
import pytest

from dpviz.experiments.preset import Preset
from dpviz.families.bayesian_optimization import presets
from dpviz.ui.bayesian_optimization import live


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
