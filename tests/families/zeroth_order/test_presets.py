"""What the presets come to is what they say."""

import numpy as np
import pytest

from dpviz.experiments.preset import Preset
from dpviz.families.zeroth_order import advice, presets
from dpviz.families.zeroth_order.theory import Best


def test_an_option_of_the_advice_is_a_method_with_the_same_settings() -> None:
    best = Best(0.5, 16, 40, 665, 39)
    for kind, sums, _ in advice.REDUCED:
        method = presets.METHODS[presets.label_of(advice.Option(kind, 6, sums, best))]
        assert method.model_dump()["directions"] == kind
    fresh = presets.METHODS[presets.label_of(advice.Option("orthonormal", 6, None, best))]
    assert fresh.model_dump()["directions"] == "orthonormal" and "sums" not in fresh.model_dump()


@pytest.mark.slow
@pytest.mark.parametrize("preset", presets.PRESETS[1:], ids=lambda preset: preset.name)  # the first: test_algorithms
def test_expected_numbers_hold(preset: Preset) -> None:
    *_, last = preset.experiment.replaced(replicates=3).stream()
    for expected in preset.expected:
        found = float(np.median(last.trace.last(expected.arm, expected.metric)))
        assert expected.low <= found <= expected.high, (expected.arm, found)
