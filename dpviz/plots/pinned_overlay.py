"""Pinned pictures: a visitor pins a picture, and its lines are drawn, faint and dotted, beneath those of later ones."""

import html
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes, Range, axis
from dpviz.plots.elements.labels import HIDDEN_LEGEND, NAME, fits, label_annotations, margin
from dpviz.plots.elements.lines import Line, Scale, line_ends
from dpviz.plots.elements.style import ArmStyle

OPACITY = 0.38  # of pinned lines, by which they are recognised, too
DECADES = 2.0  # largest number of decades by which pinned lines extend a log axis downwards
MAX_LABELS = 10  # largest number of labels next to a figure with pinned lines
_ROOM = 0.03  # share of the height between pinned lines and the edge
_DASH, _HOLLOW = "dot", "circle-open"  # plotly's names for the stroke of pinned lines and the shape of pinned dots


@dataclass(frozen=True, eq=False)
class PinnedLine:
    """A line of an earlier picture; or a set of dots, if `dots` is True.

    x, y : (k,) coordinates. names : the methods that the line represents, several if their lines coincided.
    """

    x: np.ndarray
    y: np.ndarray
    names: tuple[str, ...]
    color: str
    dots: bool


@dataclass(frozen=True, eq=False)
class PinnedPicture:
    """The parts of an earlier picture that a pin keeps.

    axes : titles of the horizontal and the vertical axis.
    pinned_lines : the lines of the methods with privacy.
    not_private : True if the lines read the raw data.
    """

    axes: tuple[str, str]
    pinned_lines: tuple[PinnedLine, ...]
    not_private: bool


def pinned_parts(figure: go.Figure, references: Collection[str]) -> PinnedPicture:
    """Return the parts of a picture that a pin keeps.

    references : labels of the methods without privacy. Their lines are left out, as they are the same for any budget.
    """
    pinned_lines = []
    for trace in _named_traces(figure):
        names = _names(trace)
        if not set(names) <= set(references):
            color = trace.line.color or trace.marker.color
            # A line that goes on thin, after some runs have ended, has its first part in a trace without legend entry.
            others = (other for other in figure.data if other.name == trace.name and other is not trace)
            first_parts = [other for other in others if len(other.x) and other.x[-1] == trace.x[0]]
            x = np.concatenate([part.x for part in (*first_parts, trace)])
            y = np.concatenate([part.y for part in (*first_parts, trace)])
            pinned_lines.append(PinnedLine(x, y, names, color, trace.mode == "markers"))
    reads_data = any(note.text == style.mark_text(not_private=True) for note in figure.layout.annotations)
    return PinnedPicture(_axis_titles(figure), tuple(pinned_lines), reads_data)


def same_axes(figure: go.Figure, picture: PinnedPicture) -> bool:
    """Return whether an earlier picture has the axes of a figure, so that its lines fit there."""
    return picture.axes == _axis_titles(figure)


def with_pinned(figure: go.Figure, pinned: Sequence[tuple[str, PinnedPicture]]) -> go.Figure:
    """Return a figure with the lines of those pinned pictures that have its axes.

    The vertical range grows to hold them, and their labels are at their ends, as far as there is room. A legend names
    only those of methods that the figure does not show.

    pinned : pictures with their names. Of each picture only the lines of methods that the figure shows are drawn, or
        all if the figure shows none of its methods.
    """
    matches = [(name, picture) for name, picture in pinned if same_axes(figure, picture)]
    figure_methods = {name for trace in _named_traces(figure) for name in _names(trace)}
    pinned_lines: list[tuple[str, PinnedLine]] = []
    for name, picture in matches:
        lines = [line for line in picture.pinned_lines if figure_methods.intersection(line.names)]
        pinned_lines += [(name, line) for line in lines or picture.pinned_lines]
    if not pinned_lines or figure.layout.yaxis.range is None:  # without a range, the figure is still empty
        return figure
    result = go.Figure(figure)
    has_labels = any(shape.name == NAME for shape in figure.layout.shapes)  # at the ends of its lines
    figure_count = len(result.data)
    in_legend = [not figure_methods.intersection(line.names) for _, line in pinned_lines]
    result.add_traces([_trace(*named_line, legend) for named_line, legend in zip(pinned_lines, in_legend, strict=True)])
    result.update_layout({HIDDEN_LEGEND: {"visible": False}})
    # Pinned lines are beneath the figure's lines, and above its contours, which are the first traces.
    contour_count = sum(trace.type == "contour" for trace in result.data)
    contours, others = result.data[:contour_count], result.data[contour_count:figure_count]
    result.data = (*contours, *result.data[figure_count:], *others)
    if not all(line.dots for _, line in pinned_lines):  # else it is a map of dots, which keeps its range
        y_range = _grow(result, [line.y for _, line in pinned_lines])
        if has_labels:
            _label(result, pinned_lines, y_range)
        elif result.layout.showlegend:  # higher by their names, two in a row of 20 pixels
            result.layout.height += 20 * math.ceil(sum(in_legend) / 2)
    if any(picture.not_private for _, picture in matches):  # a mark that names curves would be incomplete now
        other_notes = (note for note in result.layout.annotations if note.name != "not private")
        marks = style.layout(Axes("", ""), not_private=True)["annotations"]  # the mark alone
        result.layout.annotations = (*other_notes, *map(go.layout.Annotation, marks))
    return result


def _named_traces(figure: go.Figure) -> Iterator[go.Scatter]:
    """Yield the traces of a figure that are lines or dots with a name in the legend or at their ends."""
    return (
        trace
        for trace in figure.data
        if trace.type == "scatter" and trace.name and trace.showlegend is not False and len(trace.x)
    )


def _names(trace: go.Scatter) -> tuple[str, ...]:
    """Return the methods that a trace represents: those in its `meta`, where lines coincided, else its own name."""
    return tuple(trace.meta) if isinstance(trace.meta, (list, tuple)) else (str(trace.name),)


def _axis_titles(figure: go.Figure) -> tuple[str, str]:
    return str(figure.layout.xaxis.title.text), str(figure.layout.yaxis.title.text)


def _title(name: str, line: PinnedLine) -> str:
    """Return the name of a pinned line: the name of its picture, then its methods."""
    methods = line.names[0] if len(line.names) == 1 else f"{line.names[0]} + {len(line.names) - 1} equal"
    return f"{name}: {methods}"


def _trace(name: str, line: PinnedLine, in_legend: bool) -> dict[str, Any]:
    return {
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
        **({"marker": {"color": line.color, "symbol": _HOLLOW, "size": 9}} if line.dots else {}),
        **({} if in_legend else {"legend": HIDDEN_LEGEND}),
    }


def _grow(figure: go.Figure, heights_by_line: Sequence[np.ndarray]) -> Range:
    """Extend the vertical axis of the figure, in place, so that it holds the pinned lines; return its new range.

    A log axis grows downwards by at most DECADES.

    heights_by_line : (k,) each, of the pinned lines.
    """
    log = figure.layout.yaxis.type == "log"
    heights = np.concatenate(heights_by_line)
    is_drawable = np.isfinite(heights) & (heights > 0) if log else np.isfinite(heights)
    heights = heights[is_drawable]
    low, high = (float(end) for end in figure.layout.yaxis.range)
    if len(heights):
        ends = np.array([heights.min(), heights.max()], dtype=float)
        lowest, highest = (np.log10(ends) if log else ends).tolist()
        room = _ROOM * (high - low)
        if log:
            lowest = max(lowest, low - DECADES)
        low, high = min(low, lowest - room), max(high, highest + room)
    y_range = Range(low, high, log)
    figure.update_yaxes(axis(figure.layout.yaxis.title.text, log, y_range))
    return y_range


def _label(figure: go.Figure, pinned_lines: Sequence[tuple[str, PinnedLine]], y_range: Range) -> None:
    """Replace the labels of a figure, in place, by labels in the margin of its lines and, as far as there is room, of
    pinned lines, the lowest end first."""
    layout = figure.layout
    scale = Scale(log_x=layout.xaxis.type == "log", log_y=y_range.log)
    height = layout.height - layout.margin.t - layout.margin.b
    traces = [trace for trace in _named_traces(figure) if trace.opacity != OPACITY]  # the lines that are not pinned
    lines = [Line(trace.x, trace.y, trace.name, ArmStyle(trace.line.color, trace.line.dash)) for trace in traces]
    for name, line in pinned_lines:
        faint_style = ArmStyle(style.with_opacity(line.color, OPACITY), _DASH)
        lines.append(Line(line.x, line.y, html.escape(_title(name, line), quote=False), faint_style))
    # No figure of a run sets a range, so the horizontal axis ends with all lines, also those that `with_pinned` added.
    ends_of_lines = np.array([[trace.x[0], trace.x[-1]] for trace in _named_traces(figure)], dtype=float)
    span = float(ends_of_lines[:, 0].min()), float(ends_of_lines[:, 1].max())
    all_ends = line_ends(lines, span, y_range, scale, frame_width=0.0)
    ends = all_ends[: len(traces)]
    for end in sorted(all_ends[len(traces) :], key=lambda end: end.y):
        if fits([*ends, end], height, max_labels=MAX_LABELS):
            ends.append(end)
    texts, shapes = label_annotations(ends, height, scale.log_x, scale.log_y)
    notes = (note for note in layout.annotations if note.name != NAME)
    layout.annotations = (*notes, *map(go.layout.Annotation, texts))
    layout.shapes = (*(part for part in layout.shapes if part.name != NAME), *map(go.layout.Shape, shapes))
    figure.update_layout(margin={"r": margin(ends)})
