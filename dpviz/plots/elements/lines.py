"""Line charts: the only builder of all line figures of this package.

It takes care of details that are easy to forget: finite numbers, few points, small types, no logarithm of zero,
labelled limits.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Literal, ParamSpec

import numpy as np
import plotly.graph_objects as go

from dpviz.numbers import short
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes, Bound, Range, bounding, hover_format, log_ticks, y_range
from dpviz.plots.elements.labels import End, draw, fits, least, margin, numbers
from dpviz.plots.elements.readout import Values, needed, readout
from dpviz.plots.elements.style import ArmStyle

P = ParamSpec("P")
MAX_POINTS = 1000  # largest number of points in a trace
FLAT, FEW = 100, 40  # a constant with more points than the first is drawn with the second
HELD = 101  # steps of a staircase for hovering, in addition to those at which it climbs
# Values beyond these are drawn there, and the figure says so. A diverged run reaches 1e200.
FLOOR, CEILING = 1e-12, 1e12
_ROOM_ABOVE = 0.07  # share of the height above the highest value, for text in the frame
CLEAR = 0.1  # share of the height that separates a line from the text at another line's end
LIMIT = {"color": style.GREY, "dash": "dashdot", "width": 1}
_USUAL_WIDTH = 420  # pixels of the frame of one of two charts side by side


@dataclass(frozen=True, eq=False)
class Line:
    """One line, with its band where `low` and `high` are given; all arrays (k,), x ascending.

    unit : after the value in the hover text. width : pixels.
    group : of lines that the legend switches together; by default the name.
    legend : whether the line has a label or legend entry of its own. value : whether its label has the final value.
    band : whether the band is drawn. names : of all lines that it represents, if it represents several.
    held : whether each value holds up to the next point, so that the line is a staircase; see `held_lines`.
    until : x where the thin level line ends that continues from a dot at the end of this line; 0 without.
    """

    x: np.ndarray
    y: np.ndarray
    name: str
    style: ArmStyle
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    unit: str = ""
    width: float = 2.0
    group: str = ""
    legend: bool = True
    value: bool = True
    band: bool = True
    names: tuple[str, ...] = ()
    held: bool = False
    until: float = 0.0


@dataclass(frozen=True)
class Limit:
    """A horizontal line across the figure, labelled in place, such as a budget."""

    value: float
    label: str


@dataclass(frozen=True)
class Turn:
    """A value along the horizontal axis where something changes: a thin vertical line with a text next to it.

    side : of the text on which the line is.
    """

    x: float
    label: str
    side: Literal["left", "right"] = "left"


@dataclass(frozen=True)
class Mark:
    """A point that stands out, such as the best number of steps, with a hover text and, if given, a label.

    side : plotly's position of the label, by default above and below in turn. symbol : plotly's name of the point's
        shape.
    """

    x: float
    y: float
    text: str
    color: str
    label: str = ""
    side: str = ""
    symbol: str = "diamond"


Drawing = dict[str, Any]  # a figure as plain values and arrays, because plotly's checks would take most of the time


def line_drawing(
    lines: Sequence[Line],
    axes: Axes,
    *,
    limits: Sequence[Limit] = (),
    marks: Sequence[Mark] = (),
    turns: Sequence[Turn] = (),
    notes: Sequence[str] = (),
    if_empty: str = "Nothing to show yet.",
    not_private: bool | str = False,
    labels: bool = True,
    height: int = style.HEIGHT,
) -> Drawing:
    """Return a figure of lines with bands, limits, marks and notes in small print, as plain values.

    Points that are not numbers are left out, and those at x <= 0 on a log axis. Values below 1e-12 on a log axis, or
    beyond 1e12, are drawn there, and a note says so. Lines that coincide are one, with the names of all. At most 1000
    points per trace; about 0.5 ms per trace.

    not_private : whether the lines read the raw data, or the names of those that do; the figure says so.
    labels : whether names are at the ends of the lines, where there is room; else in a legend.
    """
    lines = [replace(line, y=bounding(line.y, axes.bound)) for line in lines]
    visible = merged([line for line in (drawable(line, axes.log_x) for line in lines) if len(line.x)])
    if not visible:
        return {"data": [], "layout": style.layout(replace(axes, from_zero=False), notes=[if_empty])}
    notes = [*notes, *_clipped(visible, axes.log_y)]
    scale = Scale(axes.log_x, axes.log_y)
    span = (min(line.x[0] for line in visible), max(line.x[-1] for line in visible))
    frame_height = height - style.top_margin(notes, axes.y) - style.BOTTOM
    width = 0.0 if limits else least(height)  # with limits no room inside: their labels are at the ends of short lines
    view = first_view(visible) if axes.log_y else {}
    opening = opening_range(
        visible, [*(limit.value for limit in limits), *(mark.y for mark in marks)], scale, view, axes.from_zero
    )
    ends = tips([line for line in visible if line.legend], span, opening, scale, width, axes.bound) if labels else []
    is_labelled = fits(ends, frame_height)
    if ends and not is_labelled and height <= style.SMALL:
        ends = [replace(end, number="") for end in ends]
        is_labelled = fits(ends, frame_height)
    frame = style.layout(
        axes,
        notes=notes,
        opening=opening,
        not_private=not_private,
        legend_entries=0 if is_labelled or height <= style.SMALL else sum(line.legend for line in visible),
        height=height,
    )
    frame["yaxis"] |= view
    if axes.log_x:
        frame["xaxis"] |= log_ticks(Range(math.log10(span[0]), math.log10(span[1]), True), across=True)
    if is_labelled:
        frame["margin"] |= {"r": margin(ends)}
    label_parts = draw(ends if is_labelled else [], frame_height, axes.log_x, axes.log_y)
    levels = [_level(line) for line in visible if line.until]
    for texts, shapes in (label_parts, turned(turns, axes.log_x), ([], levels)):
        frame["annotations"] += texts
        frame["shapes"] += shapes
    traces = [trace for line in visible for trace in band(line, scale)]  # before all lines, so that none is covered
    curves, has_readout = _curves(visible, scale, opening, axes.bound)
    if not has_readout and not axes.log_x:
        frame["hoverdistance"] = _hover_distance(visible)
    lowest = min(limits, key=lambda limit: limit.value) if len(limits) > 1 else None
    traces += [*curves, *(limit_line(limit, span, scale, limit is lowest) for limit in limits), *_marks(marks, scale)]
    return {"data": traces, "layout": frame}


def _as_figure(drawing: Callable[P, Drawing]) -> Callable[P, go.Figure]:
    @wraps(drawing)
    def figure(*arguments: P.args, **options: P.kwargs) -> go.Figure:
        return go.Figure(drawing(*arguments, **options), _validate=False)

    return figure


line_figure = _as_figure(line_drawing)


def _curves(lines: Sequence["Line"], scale: "Scale", opening: Range, bound: Bound) -> tuple[list[dict[str, Any]], bool]:
    """Return the traces of lines, and whether one trace, the readout, has the hover texts of all."""
    names = [" = ".join(line.names) if line.until else line.name for line in lines]  # not where each of them stops
    values = [
        Values(line.x, line.y, scale.clip(line.y), name, line.unit, line.style.color)
        for line, name in zip(lines, names, strict=True)
    ]
    if not needed(values):
        return [curve(line, scale, hover_format(opening, bound)) for line in lines], False
    no_hover = {"hoverinfo": "skip", "hovertemplate": None}
    return [*(curve(line, scale, "") | no_hover for line in lines), readout(values, bound)], True


def opening_range(
    lines: Sequence["Line"], others: Sequence[float], scale: "Scale", view: Mapping[str, Any], from_zero: bool
) -> Range:
    """Return the part of the y axis that the figure opens with: all lines, visible bands, limits and marks
    (`others`)."""
    edges = [edge for line in lines if line.band for edge in (line.low, line.high) if edge is not None]
    values = scale.clip(np.concatenate([*(line.y for line in lines), *edges, np.array(others, dtype=float)]))
    values = np.maximum(values, view.get("autorangeoptions", {}).get("clipmin", -np.inf))
    return y_range(values[np.isfinite(values)], scale.log_y, from_zero, above=_ROOM_ABOVE)


def tips(
    lines: Sequence["Line"], span: tuple[float, float], opening: Range, scale: "Scale", frame: float, bound: Bound = ""
) -> list[End]:
    """Return the ends of lines with their texts.

    span : of the horizontal axis. opening : of the vertical axis. frame : width in pixels.
    """
    texts = numbers([float(line.y[-1]) for line in lines], opening, bound)
    left, right = (math.log10(edge) if scale.log_x else edge for edge in span)
    along = Range(left, right, scale.log_x)
    ends = []
    for line, number in zip(lines, texts, strict=True):
        x, y = max(float(line.x[-1]), line.until), float(scale.clip(line.y[-1:])[0])
        across = float(along.place(x)) if along.high > along.low else 0.0
        number = f"{number} {line.unit}".rstrip() if line.value else ""
        up = float(np.clip(opening.place(y), 0.0, 1.0))
        end = End(x, y, across, up, line.name, number, line.style, frame)
        is_crossed = not end.outside and any(_passes(other, end, along, opening, scale) for other in lines)
        ends.append(replace(end, crossed=is_crossed))
    return ends


def _passes(line: "Line", end: End, along: Range, opening: Range, scale: "Scale") -> bool:
    """Return whether a line goes on behind the text at an end."""
    first = int(np.searchsorted(line.x, end.x, side="right"))
    below_text = along.place(line.x[first:]) * end.frame < end.reach
    return bool((np.abs(opening.place(scale.clip(line.y[first:][below_text])) - end.up) < CLEAR).any())


def _hover_distance(lines: Sequence["Line"]) -> int:
    """Return the largest distance of the cursor to a point in pixels: most of a step in a chart of usual width.

    So the cursor always finds a step, and does not find a line beyond its end.
    """
    steps = max(len(line.x) for line in lines) - 1
    return round(min(20.0, max(1.0, 0.7 * _USUAL_WIDTH / max(steps, 1) - 2)))


@dataclass(frozen=True)
class Scale:
    """Types of both axes; converts arrays for the figure."""

    log_x: bool
    log_y: bool

    def points(self, x: np.ndarray, y: np.ndarray, held: bool = False) -> dict[str, np.ndarray]:
        """Return both coordinates (k,), clipped, at most `MAX_POINTS` of them, in small types.

        held : whether they are of a staircase that climbs: a point gets the value before the next one, so that it is
            not below any that is left out.
        """
        clipped = self.clip(y)
        if held and len(y) > MAX_POINTS:
            indices = np.unique(np.linspace(0, len(y) - 1, MAX_POINTS).round().astype(int))
            clipped[indices[:-1]] = clipped[indices[1:] - 1]
        else:
            indices = downsample(np.log(x) if self.log_x else x, clipped)
        return {"x": _small(x[indices]), "y": clipped[indices].astype(np.float32)}

    def clip(self, y: np.ndarray) -> np.ndarray:
        """Return values within the range that a figure can draw."""
        return np.clip(y, FLOOR if self.log_y else -CEILING, CEILING)


def held_lines(lines: Sequence[Line]) -> list[Line]:
    """Return staircases above curves that climb and were read at some of the steps.

    Each step has the value of the next reading, so that no step is below its curve. A curve that was read at every
    step, and has at most MAX_POINTS, stays a line.

    lines : x (k,) the steps of the readings, as integers. All staircases have points at the same steps, for hovering.
    """
    ends = max((int(line.x[-1]) for line in lines), default=0)
    edges = [edge for line in lines for edge in (line.x[:1], line.x[:-1] + 1, line.x[-1:])]
    steps = np.unique(np.concatenate([np.linspace(0, ends, HELD).astype(int), *edges]))
    staircases = []
    for line in lines:
        x = steps[(steps >= line.x[0]) & (steps <= line.x[-1])]
        is_complete = len(line.x) == line.x[-1] - line.x[0] + 1 <= MAX_POINTS
        staircases.append(line if is_complete else replace(line, x=x, y=line.y[np.searchsorted(line.x, x)], held=True))
    return staircases


def downsample(position: np.ndarray, y: np.ndarray, points: int = MAX_POINTS) -> np.ndarray:
    """Return indices, ascending and at most `points`, of the first, the last, and the extremes within bins of equal
    width.

    Of a long constant, forty. position (k,) : of the points along the axis, ascending (the logarithm of x on a log
    axis).
    """
    if len(y) > FLAT and y.min() == y.max():
        return np.unique(np.linspace(0, len(y) - 1, FEW).round().astype(int))
    if len(y) <= points:
        return np.arange(len(y))
    bins = points // 2 - 1
    width = (position[-1] - position[0]) / bins or 1.0
    bin_of = np.minimum((position - position[0]) / width, bins - 1).astype(int)
    order = np.lexsort((y, bin_of))  # within each bin from the lowest to the highest
    edges = np.flatnonzero(np.diff(bin_of[order], prepend=-1))
    lowest, highest = order[edges], order[np.append(edges[1:], len(y)) - 1]
    return np.unique(np.concatenate(([0], lowest, highest, [len(y) - 1])))


def _small(x: np.ndarray) -> np.ndarray:
    """Return step numbers as short integers, everything else in single precision: half the bytes."""
    if np.issubdtype(x.dtype, np.integer):
        return x.astype(np.int16 if np.abs(x).max() < 2**15 else np.int32)
    return x.astype(np.float32)


def drawable(line: Line, log_x: bool) -> Line:
    """Return the line without the points that cannot be drawn."""
    edges = [edge for edge in (line.low, line.high) if edge is not None]
    is_drawable = np.isfinite(line.x) & ~np.isnan([line.y, *edges]).any(axis=0)
    if log_x:
        is_drawable &= line.x > 0
    if is_drawable.all():
        return line
    low, high = (edge if edge is None else edge[is_drawable] for edge in (line.low, line.high))
    return replace(line, x=line.x[is_drawable], y=line.y[is_drawable], low=low, high=high)


def merged(lines: Sequence[Line]) -> list[Line]:
    """Return the lines, those that coincide as one: "A = B", "A + 3 equal". Thin overlays stay separate."""
    groups: list[list[Line]] = []
    for line in lines:
        equal = next((group for group in groups if _coincide(group[0], line)), None)
        if equal is None:
            groups.append([line])
        else:
            equal.append(line)
    return [_as_one(group) if len(group) > 1 else group[0] for group in groups]


def one_band(lines: Sequence[Line], best: str) -> tuple[list[Line], list[str]]:
    """Return the lines, with only the band of `best` if there were more than two, and a note that says whose it is."""
    banded = [line for line in lines if line.low is not None]
    if len(banded) < 3 or not any((line.group or line.name) == best for line in banded):
        return list(lines), []
    return [replace(line, band=(line.group or line.name) == best) for line in lines], [f"band: {best}"]


def _coincide(one: Line, other: Line) -> bool:
    if not (one.legend and other.legend) or (one.style.reference, one.width) != (other.style.reference, other.width):
        return False
    if not 1 < len(one.x) == len(other.x) or (one.low is None) != (other.low is None):
        return False
    pairs = ((one.x, other.x), (one.y, other.y), (one.low, other.low), (one.high, other.high))
    return all(a is None or b is None or np.allclose(a, b, rtol=1e-9, atol=0.0) for a, b in pairs)


def _as_one(lines: Sequence[Line]) -> Line:
    """Return the first of the lines, with the names of all; what follows its own name stays."""
    first = lines[0]
    labels = [line.group or line.name for line in lines]
    remark = first.name.removeprefix(labels[0])
    name = " = ".join(labels) if len(lines) == 2 else f"{labels[0]} + {len(lines) - 1} equal"
    return replace(
        first,
        name=name + remark,
        group=first.group or first.name,
        names=tuple(name for line in lines for name in line.names or (line.name,)),
        band=any(line.band for line in lines),
    )


def first_view(lines: Sequence[Line]) -> dict[str, Any]:
    """Return a log axis that opens at most two decades below the private lines.

    References, and lines that reach zero, continue below it. Empty where neither occurs.
    """
    private = np.concatenate([line.y for line in lines if not line.style.reference] or [np.empty(0)])
    above = private[private > FLOOR]
    reach_zero = len(above) < len(private)
    if not len(above) or not (reach_zero or any(line.style.reference for line in lines)):
        return {}
    return {"autorangeoptions": {"clipmin": float(max(FLOOR, 0.01 * above.min()))}}


def _clipped(lines: Sequence[Line], log_y: bool) -> list[str]:
    lines = [line for line in lines if not line.style.reference] or lines  # references that leave the view need no note
    floor = FLOOR if log_y else -CEILING
    beyond = {("below", floor): any(line.y.min() < floor for line in lines)}
    beyond |= {("above", CEILING): any(line.y.max() > CEILING for line in lines)}
    return [
        f"values {side} {short(edge, 6)} shown at {short(edge, 6)}"
        for (side, edge), is_beyond in beyond.items()
        if is_beyond
    ]


def curve(line: Line, scale: Scale, value: str) -> dict[str, Any]:
    """Return the trace of a line. value : plotly's template of the value for hovering."""
    width = min(line.width, 1.5) if line.style.reference else line.width  # references are quiet
    return scale.points(line.x, line.y, line.held) | {
        "type": "scatter",
        **({"mode": "lines"} if len(line.x) > 1 else {"mode": "markers", "marker": {"color": line.style.color}}),
        "name": line.name,
        "line": {"color": line.style.color, "dash": line.style.dash, "width": width}
        | ({"shape": "hv"} if line.held else {}),
        "legendgroup": line.group or line.name,
        "showlegend": line.legend,
        "hovertemplate": f"{value} {line.unit}".rstrip(),
        **({"meta": list(line.names)} if line.names else {}),
    }


def _level(line: Line) -> dict[str, Any]:
    """Return the shape of the level line that continues from the end of a line."""
    stroke = {"color": style.with_opacity(line.style.color, 0.5), "width": 1}
    ends = {"x0": float(line.x[-1]), "x1": line.until, "y0": float(line.y[-1]), "y1": float(line.y[-1])}
    return {"type": "line", "xref": "x", "yref": "y", "line": stroke, **ends}


def turned(turns: Sequence[Turn], log_x: bool = False) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return annotations and shapes of vertical lines; the texts are near the top, where falling lines leave room."""
    texts, shapes = [], []
    for turn in turns:
        x = math.log10(turn.x) if log_x else turn.x
        anchor = {"name": "turn", "x": x, "xref": "x", "xanchor": turn.side, "y": 1, "yref": "paper", "yanchor": "top"}
        anchor |= {"xshift": 3 if turn.side == "left" else -3, "yshift": -18}  # below the mark "not private"
        texts.append(anchor | {"text": turn.label, "showarrow": False, "font": {"size": style.TEXT}})
        ends = {"x0": turn.x, "x1": turn.x, "xref": "x", "y0": 0, "y1": 1, "yref": "paper"}
        shapes.append({"name": "turn", "type": "line", **ends, "line": {"color": style.GREY, "width": 1}})
    return texts, shapes


def band(line: Line, scale: Scale) -> list[dict[str, Any]]:
    """Return the two traces of a line's band, none if it has none."""
    if line.low is None or line.high is None or not line.band:
        return []
    common = {
        "type": "scatter",
        "mode": "lines",
        "line": {"width": 0},
        "legendgroup": line.group or line.name,
        "showlegend": False,
        "hoverinfo": "skip",
    }
    fill = {"fill": "tonexty", "fillcolor": style.with_opacity(line.style.color, 0.18)}
    return [scale.points(line.x, line.low) | common, scale.points(line.x, line.high) | common | fill]


def limit_line(limit: Limit, span: tuple[float, float], scale: Scale, below: bool = False) -> dict[str, Any]:
    """Return the trace of a limit, across the figure; its label is above the line, or below."""
    return {
        "type": "scatter",
        "mode": "lines+text",
        "x": np.array(span, dtype=np.float32),
        "y": scale.clip(np.full(2, limit.value)).astype(np.float32),
        "text": [limit.label, ""],
        "textposition": f"{'bottom' if below else 'top'} right",
        "cliponaxis": False,
        "line": LIMIT,
        "showlegend": False,
        "hoverinfo": "skip",
    }


def _marks(marks: Sequence[Mark], scale: Scale) -> list[dict[str, Any]]:
    if not marks:
        return []
    texts, labels = [mark.text for mark in marks], [mark.label for mark in marks]
    text_options: dict[str, Any] = {"mode": "markers", "text": texts, "hovertemplate": "%{text}<extra></extra>"}
    if any(labels):
        text_options = {"mode": "markers+text", "text": labels, "hovertext": texts, "cliponaxis": False}
        text_options |= {"hovertemplate": "%{hovertext}<extra></extra>"}
        centred = ("top center", "bottom center")
        text_options |= {"textposition": [mark.side or centred[i % 2] for i, mark in enumerate(marks)]}
    return [
        {
            "type": "scatter",
            "x": np.array([mark.x for mark in marks], dtype=np.float32),
            "y": scale.clip(np.array([mark.y for mark in marks])).astype(np.float32),
            "marker": {"color": [mark.color for mark in marks], "size": 10, "symbol": [mark.symbol for mark in marks]},
            "showlegend": False,
        }
        | text_options
    ]


def on_curve(x: np.ndarray, y: np.ndarray, values: Mapping[str, float], color: str) -> list[Mark]:
    """Return labelled marks on a curve of positive numbers (k,), x ascending, at x = `values` by name, where it has
    any."""
    names_at: dict[float, list[str]] = {}
    for name, value in values.items():
        if x[0] <= value <= x[-1]:
            names_at.setdefault(float(value), []).append(name)
    marks: list[Mark] = []
    for value, names in sorted(names_at.items()):
        height = float(np.exp(np.interp(math.log(value), np.log(x), np.log(np.maximum(y, FLOOR)))))
        text = f"{' = '.join(names)} {short(value)}"
        is_falling = np.interp(1.05 * value, x, y) <= np.interp(value, x, y)  # the text is on the side with room
        side = "top right" if is_falling else "bottom right" if marks else "top left"
        marks.append(Mark(value, height, text, color, text, side))
    return marks


def area(
    x: np.ndarray, y: np.ndarray, name: str, color: str, pattern: str, *, group: str, digits: int = 4
) -> dict[str, Any]:
    """Return the trace of one area of a stacked group; a pattern marks it, too, not only colour. digits : of the
    hover text."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y.astype(np.float32),
        "name": name,
        "stackgroup": group,
        "line": {"color": color, "width": 1},
        "fillcolor": style.with_opacity(color, 0.5),
        "fillpattern": {"shape": pattern, "fillmode": "overlay", "fgcolor": color, "size": 6, "solidity": 0.2},
        "hovertemplate": f"%{{y:,.{digits}~r}}",
    }


def limit_across(x: float) -> dict[str, Any]:
    """Return the shape of a limit of horizontal bars or other horizontal lengths."""
    line = {"type": "line", "xref": "x", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1}
    return line | {"line": LIMIT}


def show_errors(figure: go.Figure, name: str, mean: np.ndarray, error: np.ndarray) -> None:
    """Draw the measured values (k,) of the line `name` as markers with bars of two standard errors; in place.

    Bars are cut where they would reach 0, which a log axis does not have.
    """
    below = np.minimum(2 * error, 0.99 * mean).astype(np.float32)
    bars = {"type": "data", "symmetric": False, "array": (2 * error).astype(np.float32), "arrayminus": below}
    figure.update_traces({"mode": "markers", "error_y": bars}, selector={"name": name})
