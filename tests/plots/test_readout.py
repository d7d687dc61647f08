"""Hovering names only what has a value at that step."""

import re

import numpy as np
import plotly.graph_objects as go

from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.lines import Line, line_figure
from dpviz.plots.elements.readout import MOST_PLACES, READOUT
from dpviz.plots.elements.style import HUES, ArmStyle
from dpviz.plots.elements.words import in_words
from dpviz.ui.charts import numbers

LOOK = ArmStyle(HUES[0], "solid")


def drawn(*lines: tuple[str, np.ndarray]) -> go.Figure:
    made = [Line(x, 1.0 + x, name, LOOK) for name, x in lines]
    return line_figure(made, Axes("Step t", "Loss"))


def words(figure: go.Figure) -> dict[float, list[str]]:
    (trace,) = (trace for trace in figure.data if trace.meta == READOUT)
    plain = (re.sub("<span[^>]*>━</span> ", "", text).split("<br>") for text in trace.text)
    return dict(zip(trace.x.tolist(), plain, strict=True))


def test_at_each_step_those_that_have_a_value_there() -> None:
    figure = drawn(("coarse", np.array([0, 5, 10])), ("fine", np.arange(11)), ("short", np.arange(4)))
    said = words(figure)
    assert said[0] == ["coarse: 1", "fine: 1", "short: 1"] and said[3] == ["fine: 4", "short: 4"]
    assert said[4] == ["fine: 5"] and said[5] == ["coarse: 6", "fine: 6"]
    assert all(line.hoverinfo == "skip" for line in figure.data if line.name)


def test_lines_on_the_same_steps_need_none_and_one_that_ended_is_out_of_reach() -> None:
    figure = drawn(("long", np.arange(101)), ("short", np.arange(31)))
    assert all(line.meta != READOUT and line.hoverinfo != "skip" for line in figure.data)
    step = 420 / 100  # pixels
    assert 1 <= figure.layout.hoverdistance <= step


def test_the_words_are_neither_curves_nor_marks() -> None:
    figure = drawn(("coarse", np.array([0, 5, 10])), ("fine", np.arange(11)))
    assert set(numbers(figure)["curve"]) == {"coarse", "fine"} and "Marked" not in in_words(figure)
    long = drawn(("coarse", np.arange(0, 3000, 7)), ("fine", np.arange(3000)))
    assert len(words(long)) <= MOST_PLACES and len(long.to_json()) < 80_000
