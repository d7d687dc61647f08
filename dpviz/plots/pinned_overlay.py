"""Ghosts: the lines of earlier pictures, faint and dotted, beneath the lines of the present one."""

import html
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes, Range, axis
from dpviz.plots.elements.labels import NAME, draw, fits, least, margin
from dpviz.plots.elements.lines import Line, Scale, tips
from dpviz.plots.elements.style import ArmStyle

OPACITY = 0.38
DECADES = 2.0  # that a log axis grows downwards, at most
MOST = 10  # labels beside a figure with pinned lines, if there is room
_ROOM = 0.03  # of the height, beside pinned lines at its edge
_DASH, _EMPTY = "dot", "circle-open"


@dataclass(frozen=True, eq=False)
class PinnedLine:
    """A line of an earlier picture, or its dots: x and y (k,), the methods that it stands for, its colour."""

    x: np.ndarray
    y: np.ndarray
    names: tuple[str, ...]
    color: str
    dots: bool


@dataclass(frozen=True, eq=False)
class Drawn:
    """What is kept of an earlier picture.

    axes : the titles of both. pinned_lines : of its methods with privacy. not_private : whether they read the raw data.
    """

    axes: tuple[str, str]
    pinned_lines: tuple[PinnedLine, ...]
    not_private: bool


def taken(figure: go.Figure, references: Collection[str]) -> Drawn:
    """What is kept of a picture; `references` are methods without privacy, which do not depend on the budget."""
    pinned_lines = []
    for trace in _named(figure):
        names = _names(trace)
        if not set(names) <= set(references):
            color = trace.line.color or trace.marker.color
            pinned_lines.append(PinnedLine(np.array(trace.x), np.array(trace.y), names, color, trace.mode == "markers"))
    marked = any(note.text == style.in_frame(True) for note in figure.layout.annotations)
    return Drawn(_axes(figure), tuple(pinned_lines), marked)


def same_axes(figure: go.Figure, drawn: Drawn) -> bool:
    """Whether an earlier picture has the axes of a figure, so that its lines may stand there."""
    return drawn.axes == _axes(figure)


def over(figure: go.Figure, pinned: Sequence[tuple[str, Drawn]]) -> go.Figure:
    """The figure with the pinned lines of pictures that have its axes, by the name of each picture.

    Of each picture those of the methods that the figure shows, or all if it shows none of them. The figure's own ranges
    grow to hold them; their labels stand at their own ends, as far as there is room.
    """
    fitting = [(name, drawn) for name, drawn in pinned if same_axes(figure, drawn)]
    shown = [(name, line) for name, drawn in fitting for line in _alike(drawn, figure)]
    if not shown or figure.layout.yaxis.range is None:  # nothing is drawn there yet
        return figure
    found = go.Figure(figure)
    labelled = any(shape.name == NAME for shape in figure.layout.shapes)
    before = len(found.data)
    found.add_traces([_trace(name, line) for name, line in shown])
    ground = sum(trace.type == "contour" for trace in found.data)  # beneath the lines, and above the ground
    found.data = (*found.data[:ground], *found.data[before:], *found.data[ground:before])
    if not shown[0][1].dots:
        shown_range = _grown(found, [line.y for _, line in shown])
        if labelled:
            _label(found, shown, shown_range)
    if any(drawn.not_private for _, drawn in fitting):  # where some curves were named, it is true of others now
        others = (note for note in found.layout.annotations if note.name != "not private")
        marks = style.layout(Axes("", ""), not_private=True)["annotations"]
        found.layout.annotations = (*others, *map(go.layout.Annotation, marks))
    return found


def _named(figure: go.Figure) -> Iterator[go.Scatter]:
    """The lines and dots that have names of their own."""
    return (
        trace
        for trace in figure.data
        if trace.type == "scatter" and trace.name and trace.showlegend is not False and len(trace.x)
    )


def _names(trace: go.Scatter) -> tuple[str, ...]:
    return tuple(trace.meta) if isinstance(trace.meta, (list, tuple)) else (str(trace.name),)


def _axes(figure: go.Figure) -> tuple[str, str]:
    return str(figure.layout.xaxis.title.text), str(figure.layout.yaxis.title.text)


def _alike(drawn: Drawn, figure: go.Figure) -> Sequence[PinnedLine]:
    """The pinned lines of the methods that a figure shows; all, if it shows none of them."""
    live = {name for trace in _named(figure) for name in _names(trace)}
    return [line for line in drawn.pinned_lines if live.intersection(line.names)] or drawn.pinned_lines


def _title(name: str, line: PinnedLine) -> str:
    methods = line.names[0] if len(line.names) == 1 else f"{line.names[0]} + {len(line.names) - 1} equal"
    return f"{name}: {methods}"


def _trace(name: str, line: PinnedLine) -> dict[str, Any]:
    look = {"marker": {"color": line.color, "symbol": _EMPTY, "size": 9}} if line.dots else {}
    return look | {
        "type": "scatter",
        "mode": "markers" if line.dots else "lines",
        "x": line.x,
        "y": line.y,
        "name": html.escape(_title(name, line), quote=False),
        "line": {"color": line.color, "dash": _DASH, "width": 2},
        "opacity": OPACITY,
        "showlegend": True,
        "legendrank": 1001,  # after the figure's own lines
        "hoverinfo": "skip",
    }


def _grown(figure: go.Figure, pinned_lines: Sequence[np.ndarray]) -> Range:
    """Make the vertical axis hold the pinned lines; a log axis goes at most two decades below its own lines."""
    log = figure.layout.yaxis.type == "log"
    values = np.concatenate([values[np.isfinite(values) & ((values > 0) | (not log))] for values in pinned_lines])
    low, high = (float(end) for end in figure.layout.yaxis.range)
    if len(values):
        ends = np.array([values.min(), values.max()], dtype=float)
        lowest, highest = (np.log10(ends) if log else ends).tolist()
        room, least = _ROOM * (high - low), low - DECADES if log else -np.inf
        low, high = min(low, max(lowest, least) - room), max(high, highest + room)
    grown = Range(low, high, log)
    figure.update_yaxes(axis(figure.layout.yaxis.title.text, log, grown))
    return grown


def _label(figure: go.Figure, shown: Sequence[tuple[str, PinnedLine]], shown_range: Range) -> None:
    """Labels at the ends of all lines, those of pins as far as there is room."""
    layout = figure.layout
    scale = Scale(layout.xaxis.type == "log", shown_range.log)
    height = layout.height - layout.margin.t - layout.margin.b
    own = [trace for trace in _named(figure) if trace.opacity != OPACITY]
    lines = [Line(trace.x, trace.y, trace.name, ArmStyle(trace.line.color, trace.line.dash)) for trace in own]
    for name, line in shown:
        look = ArmStyle(style.with_opacity(line.color, OPACITY), _DASH)
        lines.append(Line(line.x, line.y, html.escape(_title(name, line), quote=False), look))
    found = tips(lines, _span(figure), shown_range, scale, least(layout.height))
    ends = found[: len(own)]
    for more in found[len(own) :]:
        if fits([*ends, more], height, MOST):
            ends.append(more)
    texts, shapes = draw(ends, height, scale.log_x, scale.log_y)
    notes = (note for note in layout.annotations if note.name != NAME)
    layout.annotations = (*notes, *map(go.layout.Annotation, texts))
    layout.shapes = (*(part for part in layout.shapes if part.name != NAME), *map(go.layout.Shape, shapes))
    figure.update_layout(margin={"r": margin(ends)})


def _span(figure: go.Figure) -> tuple[float, float]:
    """The ends of the horizontal axis, which no figure of a run sets: those of its lines."""
    ends = np.array([[trace.x[0], trace.x[-1]] for trace in _named(figure)], dtype=float)
    return float(ends[:, 0].min()), float(ends[:, 1].max())
