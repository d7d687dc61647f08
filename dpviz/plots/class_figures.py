"""Figures of what a class has done: the curves that it drew, its own runs, its estimates, its scores in a game."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.experiments.results import quantiles
from dpviz.numbers import short
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.lines import VerticalLine, vertical_line_parts
from dpviz.plots.elements.sheets import Sheet
from dpviz.plots.elements.style import PALETTE, with_opacity

FAINT = 0.35  # opacity of the curve of a single phone
ROW = 70  # pixels of a row of a strip, or of an estimate
_EDGES = 90  # pixels of margins and axis


def with_drawings(figure: go.Figure, drawings: Sequence[Sequence[float]], sheet: Sheet) -> go.Figure:
    """Return a lesson's figure with the class's curves, faint, behind its lines.

    drawings : of each phone, the heights of the handles of the sheet.
    """
    x: list[float | None] = []
    y: list[float | None] = []
    for heights in drawings:
        across, up = sheet.curve(heights)
        x += [*across.tolist(), None]  # None: a gap before the next curve
        y += [*up.tolist(), None]
    color = with_opacity(PALETTE["second"], FAINT)
    lines: dict[str, Any] = {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": {"color": color, "width": 1.5}}
    lines |= {"showlegend": False, "hoverinfo": "skip", "connectgaps": False}
    traces = [lines, *(trace.to_plotly_json() for trace in figure.data)]
    return go.Figure({"data": traces, "layout": figure.layout.to_plotly_json()}, _validate=False)


def ends(
    by_method: Mapping[str, np.ndarray], title: str, log: bool, marked: Mapping[str, float] = MappingProxyType({})
) -> go.Figure:
    """Return a strip for each method with the value at which each run of the class ends, and the 10 to 90 % range.

    by_method : by the label of up to four methods, the values (k,), k > 0. title : of the values.
    log : true for a log axis. marked : values to mark, by name.
    """
    traces: list[dict[str, Any]] = []
    for row, ((name, values), color) in enumerate(zip(by_method.items(), style.HUES, strict=False)):
        low, _, high = quantiles(values[None])[0]  # 10, 50 and 90 %
        band: dict[str, Any] = {
            "type": "scatter",
            "mode": "lines",
            "x": np.array([low, high]),
            "y": np.array([row, row]),
        }
        band |= {"line": {"color": with_opacity(color, FAINT), "width": 22}, "showlegend": False}
        traces.append(band | {"hovertemplate": f"10 to 90 %: {short(low)} to {short(high)}<extra></extra>"})
        dots: dict[str, Any] = {
            "type": "scatter",
            "mode": "markers",
            "x": values,
            "y": np.full(len(values), row),
            "name": name,
        }
        traces.append(dots | {"marker": {"color": color, "size": 9, "opacity": 0.75}, "showlegend": False})
    figure = _rows(traces, list(by_method), Axes(title, "", log_x=log))
    texts, shapes = vertical_line_parts([VerticalLine(value, name) for name, value in marked.items()], log)
    figure.layout.update(annotations=[*figure.layout.annotations, *texts], shapes=shapes)
    return figure


def estimates(groups: Mapping[str, Mapping[str, tuple[float, float, float]]]) -> go.Figure:
    """Return the estimated shares of answers in per cent, with their intervals, one below the other.

    groups : by the name of a group of the same colour, up to two, and by the name of a row, (estimate, low, high) in
    per cent.
    """
    names = [name for rows in groups.values() for name in rows]
    colors = (PALETTE["private"], PALETTE["theory"])
    traces = []
    for (group, rows), color in zip(groups.items(), colors, strict=False):
        middle, low, high = np.array(list(rows.values())).T
        bar: dict[str, Any] = {"type": "scatter", "mode": "markers", "name": group, "x": middle}
        bar |= {"y": np.array([names.index(name) for name in rows]), "marker": {"color": color, "size": 12}}
        bar["error_x"] = {"type": "data", "array": high - middle, "arrayminus": middle - low, "symmetric": False}
        bar["error_x"] |= {"color": color, "thickness": 4, "width": 10}
        bar["hovertemplate"] = "%{x:.1f} %<extra></extra>"
        traces.append(bar)
    figure = _rows(traces, names, Axes("Share [%]", ""))
    figure.layout.xaxis.range = [-2, 102]
    return figure


def scores(counts: np.ndarray, marked: Mapping[str, float]) -> go.Figure:
    """Return how many phones have each number of right guesses.

    counts : (rounds + 1,) phones with 0, 1, … right guesses. marked : two numbers to mark, by name, the lower first.
    """
    layout = style.layout(Axes("Right guesses of a phone", "Phones", from_zero=True), height=style.ALONE)
    layout["xaxis"] |= {"range": [-0.5, len(counts) - 0.5], "dtick": 1}
    layout["yaxis"] |= {"range": [0, 1.3 * counts.max()], "tickformat": "d"}  # with room for the texts above the bars
    if counts.max() < 8:
        layout["yaxis"]["dtick"] = 1  # phones are whole
    texts, shapes = vertical_line_parts([VerticalLine(value, name) for name, value in marked.items()])
    texts[0] |= {"xanchor": "right", "xshift": -4}  # to the left of both lines, which may be close
    layout["annotations"] += texts
    layout["shapes"] += shapes
    bars: dict[str, Any] = {
        "type": "bar",
        "x": np.arange(len(counts)),
        "y": counts,
        "marker": {"color": PALETTE["private"]},
    }
    bars |= {"name": "phones", "showlegend": False, "hovertemplate": "%{y} phones<extra></extra>"}
    return go.Figure({"data": [bars], "layout": layout}, _validate=False)


def _rows(traces: Sequence[Mapping[str, Any]], names: Sequence[str], axes: Axes) -> go.Figure:
    """Return a figure with a named row for each integer height, the first at the top."""
    # At most as high as five rows, so that a projector shows all twelve options that a question may have.
    layout = style.layout(axes, height=ROW * min(len(names), 5) + _EDGES)
    layout["yaxis"] = {"range": [len(names) - 0.5, -0.5], "tickmode": "array", "tickvals": list(range(len(names)))}
    layout["yaxis"] |= {"ticktext": list(names), "automargin": True, "zeroline": False, "showgrid": False}
    layout["hovermode"] = "closest"
    return go.Figure({"data": list(traces), "layout": layout}, _validate=False)
