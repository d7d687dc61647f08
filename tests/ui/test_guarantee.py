"""The guarantee line of methods that stop by themselves, and of methods that add no noise."""

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.ui.experiment import guarantee
from tests.experiments.adaptive import RHO, careful


def _line() -> None:
    from dpviz.ui.experiment import guarantee
    from tests.experiments.adaptive import careful

    experiment = careful()
    guarantee.line(experiment, experiment.plans(), 1e-6)


def test_a_method_under_a_filter_has_a_guarantee_line() -> None:
    app = AppTest.from_function(_line, default_timeout=300).run()
    assert not app.exception
    names = {metric.label: metric.value for metric in app.metric}
    assert names["Budget of each method"] == "ρ = 0.02" and names["Noise, first → last step"]
    (caption,) = [item.value for item in app.caption]
    assert "Stops by itself, so at most this much is spent: A, B." in caption
    assert "zCDP ρ ≤ 0.02 (A)" in caption and "pure — (every method: its ceiling is stated in ρ)" in caption


def test_the_readings_are_those_of_the_ceiling() -> None:
    read = guarantee.readings(careful().plans()["A"], 1e-6)
    assert read.rho == pytest.approx(RHO) and read.pure == read.mu == np.inf and read.stated_in == "ρ"
