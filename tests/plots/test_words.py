"""The text alternative of a figure says what it shows now."""

import numpy as np
import plotly.graph_objects as go
import pytest

from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.lines import Line, line_figure
from dpviz.plots.elements.style import HUES, ArmStyle, arm_styles
from dpviz.plots.elements.words import alt_text
from dpviz.plots.run_figures import convergence

X = np.arange(11)


def drawn(*lines: tuple[str, object], **settings: object) -> go.Figure:
    made = [
        Line(X[: len(np.asarray(y))], np.asarray(y, dtype=float), name, ArmStyle(HUES[0], "solid")) for name, y in lines
    ]
    return line_figure(made, Axes("Step t", "Loss"), **settings)


def test_who_ends_lowest_and_where_lines_cross() -> None:
    figure = drawn(("DP-GD", 1 - 0.05 * X), ("DP-NAG", 1.2 - 0.1 * X), ("DP-HB", np.full(11, 2.0)))
    assert alt_text(figure) == (
        "Loss: DP-NAG ends lowest, at 0.2; DP-GD at 0.5; highest DP-HB, 2. DP-NAG and DP-GD cross at Step t = 4."
    )
    turned = drawn(("DP-GD", 1.2 - 0.1 * X), ("DP-NAG", 1 - 0.05 * X))
    assert alt_text(turned).startswith("Loss: DP-GD ends lowest, at 0.2; highest DP-NAG, 0.5."), "what it shows now"
    same_curve = [Line(x, np.exp(x), name, ArmStyle(HUES[0], "solid")) for x, name in ((X / 10, "1"), (X / 3, "2"))]
    assert "cross" not in alt_text(line_figure(same_curve, Axes("x", "y"))), "two parts of one curve"
    near = drawn(("DP-GD", 0.693 - 0.0001 * X), ("DP-NAG", np.full(11, 0.6926)))
    assert alt_text(near).endswith("cross at Step t = 4."), "by 0.1 % of the values, and half of the height"
    far_apart = drawn(("DP-GD", np.full(11, 1e6)), ("DP-NAG", np.full(11, 0.03)), ("DP-HB", np.full(11, 5.0)))
    assert "lowest, at 0.03; DP-HB at 5;" in alt_text(far_apart), "also where they are small next to the highest"


@pytest.mark.parametrize("bands", ["best", "panels"])
def test_a_run_names_its_best_method(experiment, trace, bands: str) -> None:
    figure = convergence(trace, "objective_gap", arm_styles(experiment.arms), bands=bands)
    ends = {label: float(np.median(trace.series(label, "objective_gap")[1][-1])) for label in trace.arm_traces}
    assert f": {min(ends, key=ends.__getitem__)} ends lowest" in alt_text(figure)
