"""Line charts: the one builder that all figures of this package go through.

It sees to what is easy to forget: finite numbers, few points, small types, no logarithm of zero, labelled limits.
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
MAX_POINTS = 1000  # per trace
FLAT, FEW = 100, 40  # of more points of a constant, so few are drawn
HELD = 101  # steps of a staircase that can be hovered over, beside those at which it climbs
# Values beyond these are drawn there, and the figure says so. A diverged run reaches 1e200.
FLOOR, CEILING = 1e-12, 1e12
_ROOM_ABOVE = 0.07  # of the height, above the highest value: for words in the frame
CLEAR = 0.1  # of the height, that a line keeps from a text beside the end of another one
LIMIT = {"color": style.GREY, "dash": "dashdot", "width": 1}
_USUAL_WIDTH = 420  # pixels, of the frame of one of two charts side by side


@dataclass(frozen=True, eq=False)
class Line:
    """One line, with its band where `low` and `high` are given; all arrays (k,), x ascending.

    unit : shown after the value in the hover text. width : pixels. group : lines that the legend switches together;
    the name, if empty. legend : whether the line has a label or legend entry of its own. value : whether its label says
    the final value. band : whether the band is drawn. names : of all lines that this one stands for, if it does.
    held : whether each value holds up to the next point, so that the line is a staircase; see `held_lines`.
    until : where the thin level line ends that leads on from a dot at the end of this one; 0 without.
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
    """A place along the horizontal axis where something changes: a thin vertical line with words beside it.

    side : of the words, on which the line is.
    """

    x: float
    label: str
    side: Literal["left", "right"] = "left"


@dataclass(frozen=True)
class Mark:
    """A point that stands out, such as the best number of steps, with a text that appears on hovering, and a label that
    stands on that side of it, if it has one; else above and below in turn. symbol : plotly's name of its shape."""

    x: float
    y: float
    text: str
    color: str
    label: str = ""
    side: str = ""
    symbol: str = "diamond"


Drawing = dict[str, Any]  # a figure as plain values, with its arrays; plotly's own checks would take most of the time


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
    """A figure of lines with bands, limits, marks and notes in small print, as plain values.

    Points that are not numbers are left out, and those at x <= 0 on a log axis. Values below 1e-12 on a log axis, or
    beyond 1e12, are drawn there, and a note says so. Lines that coincide are one, with the names of all. At most 1000
    points per trace; about 0.5 ms per trace.

    not_private : the lines read the raw data, or those named, and the figure says so. labels : names at the ends of the
    lines, where there is room; else a legend.
    """
    lines = [replace(line, y=bounding(line.y, axes.bound)) for line in lines]
    drawn = merged([line for line in (drawable(line, axes.log_x) for line in lines) if len(line.x)])
    if not drawn:
        return {"data": [], "layout": style.layout(replace(axes, from_zero=False), notes=[if_empty])}
    notes = [*notes, *_clipped(drawn, axes.log_y)]
    scale = Scale(axes.log_x, axes.log_y)
    span = (min(line.x[0] for line in drawn), max(line.x[-1] for line in drawn))
    frame_height = height - style.top_margin(notes, axes.y) - style.BOTTOM
    wide = 0.0 if limits else least(height)  # words of limits stand where short lines end
    view = first_view(drawn) if axes.log_y else {}
    shown = shown_range(
        drawn, [*(limit.value for limit in limits), *(mark.y for mark in marks)], scale, view, axes.from_zero
    )
    ends = tips([line for line in drawn if line.legend], span, shown, scale, wide, axes.bound) if labels else []
    labelled = fits(ends, frame_height)
    if ends and not labelled and height <= style.SMALL:
        ends = [replace(end, number="") for end in ends]
        labelled = fits(ends, frame_height)
    frame = style.layout(
        axes,
        notes=notes,
        shown=shown,
        not_private=not_private,
        legend_entries=0 if labelled or height <= style.SMALL else sum(line.legend for line in drawn),
        height=height,
    )
    frame["yaxis"] |= view
    if axes.log_x:
        frame["xaxis"] |= log_ticks(Range(math.log10(span[0]), math.log10(span[1]), True), across=True)
    if labelled:
        frame["margin"] |= {"r": margin(ends)}
    written = draw(ends if labelled else [], frame_height, axes.log_x, axes.log_y)
    levels = [_level(line) for line in drawn if line.until]
    for texts, shapes in (written, turned(turns, axes.log_x), ([], levels)):
        frame["annotations"] += texts
        frame["shapes"] += shapes
    traces = [trace for line in drawn for trace in band(line, scale)]  # before all lines, so that none is covered
    curves, silent = _curves(drawn, scale, shown, axes.bound)
    if not silent and not axes.log_x:
        frame["hoverdistance"] = _reach(drawn)
    traces += [*curves, *(limit_line(limit, span, scale) for limit in limits), *_marks(marks, scale)]
    return {"data": traces, "layout": frame}


def _as_figure(drawing: Callable[P, Drawing]) -> Callable[P, go.Figure]:
    @wraps(drawing)
    def figure(*arguments: P.args, **options: P.kwargs) -> go.Figure:
        return go.Figure(drawing(*arguments, **options), _validate=False)

    return figure


line_figure = _as_figure(line_drawing)


def _curves(lines: Sequence["Line"], scale: "Scale", shown: Range, bound: Bound) -> tuple[list[dict[str, Any]], bool]:
    """The traces of lines; and whether they are silent, with a readout beside them that speaks for all."""
    names = [" = ".join(line.names) if line.until else line.name for line in lines]  # not where each of them stops
    values = [
        Values(line.x, line.y, scale.clip(line.y), name, line.unit, line.style.color)
        for line, name in zip(lines, names, strict=True)
    ]
    if not needed(values):
        return [curve(line, scale, hover_format(shown, bound)) for line in lines], False
    silent = {"hoverinfo": "skip", "hovertemplate": None}
    return [*(curve(line, scale, "") | silent for line in lines), readout(values, bound)], True


def shown_range(
    lines: Sequence["Line"], others: Sequence[float], scale: "Scale", view: Mapping[str, Any], from_zero: bool
) -> Range:
    """The part of the y axis that the figure opens with: all lines, the bands that are drawn, limits and marks."""
    edges = [edge for line in lines if line.band for edge in (line.low, line.high) if edge is not None]
    values = scale.clip(np.concatenate([*(line.y for line in lines), *edges, np.array(others, dtype=float)]))
    values = np.maximum(values, view.get("autorangeoptions", {}).get("clipmin", -np.inf))
    return y_range(values[np.isfinite(values)], scale.log_y, from_zero, above=_ROOM_ABOVE)


def tips(
    lines: Sequence["Line"], span: tuple[float, float], shown: Range, scale: "Scale", frame: float, bound: Bound = ""
) -> list[End]:
    """The ends of lines with what is written there; span : of the horizontal axis; frame : pixels that it has."""
    told = numbers([float(line.y[-1]) for line in lines], shown, bound)
    left, right = (math.log10(edge) if scale.log_x else edge for edge in span)
    along = Range(left, right, scale.log_x)
    found = []
    for line, number in zip(lines, told, strict=True):
        x, y = max(float(line.x[-1]), line.until), float(scale.clip(line.y[-1:])[0])
        across = float(along.place(x)) if along.high > along.low else 0.0
        number = f"{number} {line.unit}".rstrip() if line.value else ""
        up = float(np.clip(shown.place(y), 0.0, 1.0))
        end = End(x, y, across, up, line.name, number, line.style, frame)
        crossed = not end.outside and any(_passes(other, end, along, shown, scale) for other in lines)
        found.append(replace(end, crossed=crossed))
    return found


def _passes(line: "Line", end: End, along: Range, shown: Range, scale: "Scale") -> bool:
    """Whether a line goes on where the text beside an end would stand."""
    first = int(np.searchsorted(line.x, end.x, side="right"))
    beside = along.place(line.x[first:]) * end.frame < end.reach
    return bool((np.abs(shown.place(scale.clip(line.y[first:][beside])) - end.up) < CLEAR).any())


def _reach(lines: Sequence["Line"]) -> int:
    """How far from a point, in pixels, the cursor still finds it: most of a step, in a chart of usual width. So there
    is always a step to be found, and a line that has ended is not found beyond its end."""
    steps = max(len(line.x) for line in lines) - 1
    return round(min(20.0, max(1.0, 0.7 * _USUAL_WIDTH / max(steps, 1) - 2)))


@dataclass(frozen=True)
class Scale:
    """Arrays as the figure takes them."""

    log_x: bool
    log_y: bool

    def points(self, x: np.ndarray, y: np.ndarray, held: bool = False) -> dict[str, np.ndarray]:
        """Both coordinates (k,), clipped, at most `MAX_POINTS` of them, in small types.

        held : of a staircase that climbs: a point takes the value before the next one, below none that is left out.
        """
        clipped = self.clip(y)
        if held and len(y) > MAX_POINTS:
            kept = np.unique(np.linspace(0, len(y) - 1, MAX_POINTS).round().astype(int))
            clipped[kept[:-1]] = clipped[kept[1:] - 1]
        else:
            kept = downsample(np.log(x) if self.log_x else x, clipped)
        return {"x": _small(x[kept]), "y": clipped[kept].astype(np.float32)}

    def clip(self, y: np.ndarray) -> np.ndarray:
        """Values within what a figure can draw."""
        return np.clip(y, FLOOR if self.log_y else -CEILING, CEILING)


def held_lines(lines: Sequence[Line]) -> list[Line]:
    """Staircases above curves that climb and were read at some of the steps: each step has the value of the next
    reading, so none is below its curve. What was read at every step, and can be drawn so, stays a line.

    lines : x (k,) the steps that were read, as integers. All staircases have points at the same steps, for hovering.
    """
    ends = max((int(line.x[-1]) for line in lines), default=0)
    edges = [edge for line in lines for edge in (line.x[:1], line.x[:-1] + 1, line.x[-1:])]
    steps = np.unique(np.concatenate([np.linspace(0, ends, HELD).astype(int), *edges]))
    found = []
    for line in lines:
        x = steps[(steps >= line.x[0]) & (steps <= line.x[-1])]
        exact = len(line.x) == line.x[-1] - line.x[0] + 1 <= MAX_POINTS
        found.append(line if exact else replace(line, x=x, y=line.y[np.searchsorted(line.x, x)], held=True))
    return found


def downsample(position: np.ndarray, y: np.ndarray, points: int = MAX_POINTS) -> np.ndarray:
    """Indices, ascending and at most `points`, of the first, the last, and the extremes within bins of equal width.

    Of a long constant, forty. position (k,) : where the points are drawn along the axis, ascending (the logarithm of x,
    on a log axis).
    """
    if len(y) > FLAT and y.min() == y.max():
        return np.unique(np.linspace(0, len(y) - 1, FEW).round().astype(int))
    if len(y) <= points:
        return np.arange(len(y))
    bins = points // 2 - 1
    width = (position[-1] - position[0]) / bins or 1.0
    of = np.minimum((position - position[0]) / width, bins - 1).astype(int)
    order = np.lexsort((y, of))  # within each bin from the lowest to the highest
    edges = np.flatnonzero(np.diff(of[order], prepend=-1))
    lowest, highest = order[edges], order[np.append(edges[1:], len(y)) - 1]
    return np.unique(np.concatenate(([0], lowest, highest, [len(y) - 1])))


def _small(x: np.ndarray) -> np.ndarray:
    """Step numbers as short integers, everything else in single precision: half the bytes."""
    if np.issubdtype(x.dtype, np.integer):
        return x.astype(np.int16 if np.abs(x).max() < 2**15 else np.int32)
    return x.astype(np.float32)


def drawable(line: Line, log_x: bool) -> Line:
    """The line without the points that have no place in the figure."""
    edges = [edge for edge in (line.low, line.high) if edge is not None]
    kept = np.isfinite(line.x) & ~np.isnan([line.y, *edges]).any(axis=0)
    if log_x:
        kept &= line.x > 0
    if kept.all():
        return line
    low, high = (edge if edge is None else edge[kept] for edge in (line.low, line.high))
    return replace(line, x=line.x[kept], y=line.y[kept], low=low, high=high)


def merged(lines: Sequence[Line]) -> list[Line]:
    """The lines, those that coincide as one: "A = B", "A + 3 equal". Thin overlays stay by themselves."""
    groups: list[list[Line]] = []
    for line in lines:
        same = next((group for group in groups if _coincide(group[0], line)), None)
        if same is None:
            groups.append([line])
        else:
            same.append(line)
    return [_as_one(group) if len(group) > 1 else group[0] for group in groups]


def one_band(lines: Sequence[Line], best: str) -> tuple[list[Line], list[str]]:
    """The lines with one band, that of the best, where there would be more than two; and a note that says whose."""
    banded = [line for line in lines if line.low is not None]
    if len(banded) < 3 or not any((line.group or line.name) == best for line in banded):
        return list(lines), []
    shown = [replace(line, band=(line.group or line.name) == best) for line in lines]
    return shown, [f"band: {best}"]


def _coincide(one: Line, other: Line) -> bool:
    if not (one.legend and other.legend) or (one.style.reference, one.width) != (other.style.reference, other.width):
        return False
    if not 1 < len(one.x) == len(other.x) or (one.low is None) != (other.low is None):
        return False
    pairs = ((one.x, other.x), (one.y, other.y), (one.low, other.low), (one.high, other.high))
    return all(a is None or b is None or np.allclose(a, b, rtol=1e-9, atol=0.0) for a, b in pairs)


def _as_one(lines: Sequence[Line]) -> Line:
    """The first of the lines, in the name of all; what is said after its own name stays."""
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
    """A log axis that opens at most two decades below the private lines; references, and lines that reach zero, go on
    below it."""
    private = np.concatenate([line.y for line in lines if not line.style.reference] or [np.empty(0)])
    above = private[private > FLOOR]
    reach_zero = len(above) < len(private)
    if not len(above) or not (reach_zero or any(line.style.reference for line in lines)):
        return {}
    return {"autorangeoptions": {"clipmin": float(max(FLOOR, 0.01 * above.min()))}}


def _clipped(lines: Sequence[Line], log_y: bool) -> list[str]:
    lines = [line for line in lines if not line.style.reference] or lines  # what leaves the view needs no note
    floor = FLOOR if log_y else -CEILING
    beyond = {("below", floor): any(line.y.min() < floor for line in lines)}
    beyond |= {("above", CEILING): any(line.y.max() > CEILING for line in lines)}
    return [
        f"values {side} {short(edge, 6)} shown at {short(edge, 6)}" for (side, edge), some in beyond.items() if some
    ]


def curve(line: Line, scale: Scale, value: str) -> dict[str, Any]:
    """The trace of a line; value : how hovering writes it."""
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
    """The shape of the level line that leads on from the end of a line."""
    look = {"color": style.with_opacity(line.style.color, 0.5), "width": 1}
    ends = {"x0": float(line.x[-1]), "x1": line.until, "y0": float(line.y[-1]), "y1": float(line.y[-1])}
    return {"type": "line", "xref": "x", "yref": "y", "line": look, **ends}


def turned(turns: Sequence[Turn], log_x: bool = False) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Annotations and shapes of vertical lines; the words are near the top, where lines that fall leave room."""
    texts, shapes = [], []
    for turn in turns:
        at = math.log10(turn.x) if log_x else turn.x
        place = {"name": "turn", "x": at, "xref": "x", "y": 1, "yref": "paper", "xanchor": turn.side, "yanchor": "top"}
        place |= {"xshift": 3 if turn.side == "left" else -3, "yshift": -18}  # below the words "not private"
        texts.append(place | {"text": turn.label, "showarrow": False, "font": {"size": style.TEXT}})
        ends = {"x0": turn.x, "x1": turn.x, "xref": "x", "y0": 0, "y1": 1, "yref": "paper"}
        shapes.append({"name": "turn", "type": "line", **ends, "line": {"color": style.GREY, "width": 1}})
    return texts, shapes


def band(line: Line, scale: Scale) -> list[dict[str, Any]]:
    """The two traces of a line's band, if it is to be drawn."""
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


def limit_line(limit: Limit, span: tuple[float, float], scale: Scale) -> dict[str, Any]:
    """The trace of a limit, across the figure."""
    return {
        "type": "scatter",
        "mode": "lines+text",
        "x": np.array(span, dtype=np.float32),
        "y": scale.clip(np.full(2, limit.value)).astype(np.float32),
        "text": [limit.label, ""],
        "textposition": "top right",
        "cliponaxis": False,
        "line": LIMIT,
        "showlegend": False,
        "hoverinfo": "skip",
    }


def _marks(marks: Sequence[Mark], scale: Scale) -> list[dict[str, Any]]:
    if not marks:
        return []
    texts, labels = [mark.text for mark in marks], [mark.label for mark in marks]
    said: dict[str, Any] = {"mode": "markers", "text": texts, "hovertemplate": "%{text}<extra></extra>"}
    if any(labels):
        said = {"mode": "markers+text", "text": labels, "hovertext": texts, "cliponaxis": False}
        said |= {"hovertemplate": "%{hovertext}<extra></extra>"}
        centred = ("top center", "bottom center")
        said |= {"textposition": [mark.side or centred[i % 2] for i, mark in enumerate(marks)]}
    return [
        {
            "type": "scatter",
            "x": np.array([mark.x for mark in marks], dtype=np.float32),
            "y": scale.clip(np.array([mark.y for mark in marks])).astype(np.float32),
            "marker": {"color": [mark.color for mark in marks], "size": 10, "symbol": [mark.symbol for mark in marks]},
            "showlegend": False,
        }
        | said
    ]
