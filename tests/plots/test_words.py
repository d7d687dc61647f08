"""The text alternative of a figure says what it shows now."""

import numpy as np
import plotly.graph_objects as go
import pytest

from dpviz.families.accelerated import Nesterov
from dpviz.families.accelerated.figures import decomposition
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.lines import Limit, Line, Mark, line_figure
from dpviz.plots.elements.style import GREY, HUES, ArmStyle, arm_styles
from dpviz.plots.elements.words import in_words
from dpviz.plots.planner_figures import bars
from dpviz.plots.run_figures import convergence
from dpviz.privacy.budgets import PureDP
from dpviz.problems.linear.quadratic import Quadratic

X = np.arange(11)


def drawn(*lines: tuple[str, object], **settings: object) -> go.Figure:
    made = [
        Line(X[: len(np.asarray(y))], np.asarray(y, dtype=float), name, ArmStyle(HUES[0], "solid")) for name, y in lines
    ]
    return line_figure(made, Axes("Step t", "Loss"), **settings)


def test_who_ends_lowest_and_where_lines_cross() -> None:
    figure = drawn(("DP-GD", 1 - 0.05 * X), ("DP-NAG", 1.2 - 0.1 * X), ("DP-HB", np.full(11, 2.0)))
    assert in_words(figure) == (
        "Loss: DP-NAG ends lowest, at 0.2; DP-GD at 0.5; highest DP-HB, 2. DP-NAG and DP-GD cross at Step t = 4."
    )
    turned = drawn(("DP-GD", 1.2 - 0.1 * X), ("DP-NAG", 1 - 0.05 * X))
    assert in_words(turned).startswith("Loss: DP-GD ends lowest, at 0.2; highest DP-NAG, 0.5."), "what it shows now"


def test_lines_that_end_together_or_never_cross_or_stand_alone() -> None:
    assert in_words(drawn(("a", 2 - 0.1 * X), ("b", np.full(11, 1.0)))) == "Loss: all end at 1."
    assert "cross" not in in_words(drawn(("a", np.full(5, 1.0)), ("b", np.full(11, 2.0))))
    assert in_words(drawn(("a", (X - 4.0) ** 2))) == "Loss: a goes from 16 to 36, lowest at Step t = 4, 0."
    wavy = drawn(("a", np.cos(np.pi * X) * (X < 9)), ("b", np.full(11, 0.1)))
    assert "a and b cross 9 times, last at" in in_words(wavy)


def test_marks_are_read_out_and_limits_are_not_lines() -> None:
    figure = drawn(("a", 1.0 + X), ("b", 2.0 + X), limits=[Limit(5.0, "budget")], marks=[Mark(3, 4.0, "T* = 3", GREY)])
    assert in_words(figure) == "Loss: a ends lowest, at 11; highest b, 12. Marked: T* = 3."


def test_nothing_to_show_areas_and_bars() -> None:
    assert in_words(drawn(if_empty="No method adds noise.")) == "No method adds noise."
    method = Nesterov(iterations=50)
    plan = method.plan(Quadratic().facts(), PureDP(epsilon=2.0))
    assert in_words(decomposition(method, plan).figure).startswith("Bound on the excess loss, at the end: ")
    assert in_words(bars({"one": 1.5, "two": 0.25}, "ε")) == "ε: highest one 1.5; lowest two 0.25."


@pytest.mark.parametrize("bands", ["best", "panels"])
def test_a_run_names_its_best_method(experiment, trace, bands: str) -> None:
    figure = convergence(trace, "objective_gap", arm_styles(experiment.arms), bands=bands)
    ends = {label: float(np.median(trace.series(label, "objective_gap")[1][-1])) for label in trace.lanes}
    assert f": {min(ends, key=ends.__getitem__)} ends lowest" in in_words(figure)
