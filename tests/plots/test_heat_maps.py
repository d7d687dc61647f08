"""Heat maps of sweeps over two settings: one panel for each method, one scale for all, who is best where."""

import json

import numpy as np
import plotly.graph_objects as go
import pytest

from dpviz.experiments.experiment import Arm
from dpviz.families.accelerated import GradientDescent, HeavyBall, Nesterov
from dpviz.plots.sweep_figures import BEST, heat_maps
from dpviz.privacy.budgets import NoPrivacy
from dpviz.problems.base import Metric
from dpviz.sweeps.sweep_result import PointKey, PointRuns, SweepResult

ARMS = (
    Arm(label="a", algorithm=GradientDescent()),
    Arm(label="b", algorithm=HeavyBall()),
    Arm(label="free", algorithm=Nesterov(), budget=NoPrivacy()),
)
FIRST, SECOND = (0.5, 2.0), (10.0, 1000.0)
HEIGHTS = {"a": [[1.0, 0.1], [0.4, 0.001]], "b": [[0.5, 0.2], [0.2, 0.01]], "free": [[1e-9, 1e-9], [1e-9, 1e-9]]}


def made(metric: Metric) -> SweepResult:
    result = SweepResult(ARMS, metric.name, 4, SECOND)
    result.metric = metric
    for label, rows in HEIGHTS.items():
        for number, (row, column) in enumerate(np.ndindex(2, 2)):
            place = PointKey(number, FIRST[column], SECOND[row])
            result.curves[label].add(PointRuns(place, rows[row][column] * np.array([0.5, 1.0, 2.0])))
    return result


def drawn(metric: Metric) -> go.Figure:
    return heat_maps(made(metric), "Budget ε", "Steps T")


GAP = Metric("gap", "Duality gap", scale="log")


def test_every_method_has_a_panel_with_its_medians_and_all_have_one_scale() -> None:
    figure = drawn(GAP)
    assert [panel.name for panel in figure.data] == ["a", "b", "free"]
    for panel in figure.data:
        np.testing.assert_allclose(panel.customdata, HEIGHTS[panel.name])
        np.testing.assert_allclose(panel.z, np.log10(HEIGHTS[panel.name]))
        assert panel.coloraxis == "coloraxis" and tuple(panel.x) == FIRST and tuple(panel.y) == SECOND
    scale = figure.layout.coloraxis
    assert (scale.cmin, scale.cmax) == (-3, 0), "what has no privacy does not stretch it"
    assert any(note.name == "not private" for note in figure.layout.annotations)
    json.loads(figure.to_json())
    assert not heat_maps(made(GAP).visible(False), "ε", "T").data, "nothing here is released"


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_a_star_marks_the_best_method_with_privacy(better) -> None:
    figure = drawn(Metric("m", "Merit", better=better))
    best = {panel.name: [[BEST in cell for cell in row] for row in panel.text] for panel in figure.data}
    assert best["free"] == [[False] * 2] * 2
    lower = [[False, True], [False, True]]  # where a is lower than b
    expected = lower if better == "lower" else [[not cell for cell in row] for row in lower]
    assert best["a"] == expected and best["b"] == [[not cell for cell in row] for row in expected]
    assert not any(
        BEST in cell for panel in drawn(Metric("m", "M", better="")).data for row in panel.text for cell in row
    )
