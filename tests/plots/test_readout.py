"""Hovering names only what has a value at that step."""

import re

import numpy as np
import plotly.graph_objects as go

from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.lines import Line, line_figure
from dpviz.plots.elements.readout import READOUT
from dpviz.plots.elements.style import HUES, ArmStyle

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
