"""Line charts: the only builder of all line figures of this package.

It takes care of details that are easy to forget: finite numbers, few points, small types, no logarithm of zero,
labelled limits.
"""

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Literal, ParamSpec

import numpy as np
import plotly.graph_objects as go

from dpviz.numbers import near_zero_or, short
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import WRITE, Axes, Bound, Range, axis, bounding, hover_format, log_ticks, y_range
from dpviz.plots.elements.labels import End, fits, label_annotations, margin, min_frame_width
from dpviz.plots.elements.readout import Values, needs_readout, readout
from dpviz.plots.elements.style import ArmStyle

P = ParamSpec("P")
MAX_POINTS = 1000  # largest number of points in a trace
LONG, FEW = 100, 40  # a constant of more than LONG points is drawn with FEW
HOVER_POINTS = 101  # number of points of a staircase for hovering, in addition to those at which it climbs
# Values beyond these are drawn there, and the figure says so. A diverged run reaches 1e200.
FLOOR, CEILING = 1e-12, 1e12
_ROOM_ABOVE = 0.07  # share of the height above the highest value, for text in the frame
CLEAR = 0.1  # share of the height that separates a line from the text at another line's end
LIMIT = {"color": style.GREY, "dash": "dashdot", "width": 1}
_USUAL_WIDTH = 420  # pixels of the frame of one of two charts side by side


@dataclass(frozen=True, eq=False)
class Line:
    """One line of a figure; all arrays are (k,), x ascending.

    low, high : lower and upper edge of the line's band; None without one. band : False to hide the band.
    unit : text after the value in the hover text. width : pixels.
    group : name of a group of lines that the legend switches on and off together; by default the line's name.
    legend : False for a line without a label or legend entry of its own. value_in_label : False for a label without the
        last y.
    names : names of all lines that it represents, if several lines coincide and are drawn as one.
    held : True if each value holds up to the next point, so that the line is a staircase; see `staircases`.
    until : x at which a level row of dots ends that continues this line from its last point; 0 without one.
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
    value_in_label: bool = True
    band: bool = True
    names: tuple[str, ...] = ()
    held: bool = False
    until: float = 0.0

    @property
    def full_name(self) -> str:
        """The name and, of a line with `until`, the last step."""
        return f"{self.name}, until T = {int(self.x[-1]):,}" if self.until else self.name


@dataclass(frozen=True)
class Limit:
    """A horizontal line across the figure, labelled in place, such as a budget."""

    value: float
    label: str


@dataclass(frozen=True)
class VerticalLine:
    """A value along the horizontal axis where something changes: a thin vertical line with a text next to it.

    side : "left" if the line is on the left side of the text, "right" if it is on the right.
    """

    x: float
    label: str
    side: Literal["left", "right"] = "left"


@dataclass(frozen=True)
class Mark:
    """A point that stands out, such as the best number of steps.

    text : its hover text. label : text next to it; "" for none.
    side : plotly's name for the position of the label; by default above and below in turn.
    symbol : plotly's name for the shape of the point.
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
    verticals: Sequence[VerticalLine] = (),
    notes: Sequence[str] = (),
    if_empty: str = "Nothing to show yet.",
    not_private: bool | str = False,
    labels: bool = True,
    height: int = style.HEIGHT,
    ranges: tuple[Range, Range] | None = None,
) -> Drawing:
    """Return a figure of lines with bands, limits, marks and notes in small print, as plain values.

    Points that are not numbers are left out, and those at x <= 0 on a log axis. Values below 1e-12 on a log axis, or
    beyond ±1e12, are drawn at these limits, and a note says so. Lines that coincide are drawn as one, with the names of
    all. A trace has at most 1000 points and takes about 0.5 ms.

    if_empty : text of a figure without lines.
    not_private : True if the lines read the raw data, or a text that names those which do; the figure says so.
    labels : True to write the names at the ends of the lines, if there is room; else they are in a legend.
    ranges : of the horizontal and of the vertical axis; None to open with all lines; on a log
        axis, with the part near the private ones.
    """
    # `bounding` rounds bounds so that they stay bounds.
    lines = [drop_undrawable(replace(line, y=bounding(line.y, axes.bound)), axes.log_x) for line in lines]
    visible = merged([line for line in lines if len(line.x)])
    if not visible:
        is_small = height <= style.SMALL
        empty_notes = textwrap.wrap(if_empty, style.FRAME_LETTERS) if is_small else [if_empty]
        empty_height = height if is_small else style.HEIGHT
        # Without points an axis has no range: it neither starts at zero nor has the numbers that plotly would invent.
        layout = style.layout(replace(axes, from_zero=False), notes=empty_notes, height=empty_height)
        for name in ("xaxis", "yaxis"):
            layout[name]["showticklabels"] = False
        return {"data": [], "layout": layout}
    scale = Scale(axes.log_x, axes.log_y)
    if ranges is None:
        x_span = (min(line.x[0] for line in visible), max(line.x[-1] for line in visible))
        # The part of a log axis near the private lines, if references or zeros would squeeze them.
        y_view = first_view(visible) if axes.log_y else {}
        other_heights = [*(limit.value for limit in limits), *(mark.y for mark in marks)]
        y_opening = opening_range(visible, other_heights, scale, y_view, axes.from_zero)
    else:
        x_range, y_opening = ranges
        x_span = (10.0**x_range.low, 10.0**x_range.high) if x_range.log else (x_range.low, x_range.high)
        y_view = {}
    notes = [*notes, *_clip_notes(visible, axes.log_y, y_opening)]
    frame_height = height - style.top_margin(notes, axes.y) - style.BOTTOM
    # Labels of lines that end early may be inside the frame, whose width is at least this. Labels of limits are always
    # inside; so if there are limits, a width of 0 puts all labels of lines to the right of the frame.
    frame_width = 0.0 if limits else min_frame_width(height)
    labelled_lines = [line for line in visible if line.legend] if labels else []
    ends = line_ends(labelled_lines, x_span, y_opening, scale, frame_width, axes.bound)
    is_labelled = fits(ends, frame_height)
    if not is_labelled:  # try shorter texts in the same places; a small figure has no legend
        is_small = height <= style.SMALL
        ends = [
            replace(end, crossed=end.outside, name=line.name, number="" if is_small else end.number)
            for end, line in zip(ends, labelled_lines, strict=True)
        ]
        is_labelled = fits(ends, frame_height)
    layout = style.layout(
        axes,
        notes=notes,
        opening=y_opening,
        not_private=not_private,
        legend_entries=0 if is_labelled or height <= style.SMALL else sum(line.legend for line in visible),
        height=height,
    )
    layout["yaxis"] |= y_view
    if ranges is not None:  # else plotly opens it with all that is drawn
        layout["xaxis"] |= axis(axes.x, axes.log_x, opening=ranges[0])
    if axes.log_x:
        layout["xaxis"] |= log_ticks(Range(math.log10(x_span[0]), math.log10(x_span[1]), log=True), across=True)
    if is_labelled:
        layout["margin"] |= {"r": margin(ends)}
    label_parts = label_annotations(ends if is_labelled else [], frame_height, axes.log_x, axes.log_y)
    levels = [_level(line) for line in visible if line.until]
    for texts, shapes in (label_parts, vertical_line_parts(verticals, axes.log_x), ([], levels)):
        layout["annotations"] += texts
        layout["shapes"] += shapes
    traces = [trace for line in visible for trace in band(line, scale)]  # before all lines, so that none is covered
    curves, has_readout = _curves(visible, scale, y_opening, axes.bound)
    if not has_readout and not axes.log_x:  # on a log axis the distance between two steps varies
        layout["hoverdistance"] = _hover_distance(visible)
    # Of several limits the lowest has its label below it, so that two labels do not overlap.
    lowest = min(limits, key=lambda limit: limit.value) if len(limits) > 1 else None
    limit_lines = [limit_line(limit, x_span, scale, below=limit is lowest) for limit in limits]
    traces += [*curves, *limit_lines, *_marks(marks, scale)]
    return {"data": traces, "layout": layout}


def _as_figure(drawing: Callable[P, Drawing]) -> Callable[P, go.Figure]:
    """Return a function with the arguments of `drawing` that returns a plotly figure instead of plain values."""

    @wraps(drawing)
    def figure(*arguments: P.args, **options: P.kwargs) -> go.Figure:
        return go.Figure(drawing(*arguments, **options), _validate=False)

    return figure


line_figure = _as_figure(line_drawing)


def empty_figure(reason: str) -> go.Figure:
    """Return an empty figure with a sentence that says why there is nothing to draw."""
    return line_figure([], Axes("", ""), if_empty=reason)


def _curves(lines: Sequence["Line"], scale: "Scale", opening: Range, bound: Bound) -> tuple[list[dict[str, Any]], bool]:
    """Return the traces of lines, and True if a further one, the readout, has the hover texts of all of them.

    Lines with values at different steps have a readout.
    """
    values = [Values(line.x, line.y, scale.clip(line.y), line.name, line.unit, line.style.color) for line in lines]
    if not needs_readout(values):
        return [curve(line, scale, hover_format(opening, bound)) for line in lines], False
    no_hover = {"hoverinfo": "skip", "hovertemplate": None}
    return [*(curve(line, scale, "") | no_hover for line in lines), readout(values, bound)], True


def opening_range(
    lines: Sequence["Line"], others: Sequence[float], scale: "Scale", view: Mapping[str, Any], from_zero: bool
) -> Range:
    """Return the part of the y axis that the figure opens with: it holds all lines, their visible bands, and the
    heights `others` of limits and marks.

    view : the part of a log axis that `first_view` returns, or {}; lower values do not extend the range.
    """
    all_edges = [edge for line in lines if line.band for edge in (line.low, line.high)]
    edges = [edge for edge in all_edges if edge is not None]
    values = scale.clip(np.concatenate([*(line.y for line in lines), *edges, np.array(others, dtype=float)]))
    lowest = view.get("autorangeoptions", {}).get("clipmin", -np.inf)
    values = np.maximum(values, lowest)
    return y_range(values[np.isfinite(values)], scale.log_y, from_zero, above=_ROOM_ABOVE)


def line_ends(
    lines: Sequence["Line"],
    span: tuple[float, float],
    y_opening: Range,
    scale: "Scale",
    frame_width: float,
    bound: Bound = "",
) -> list[End]:
    """Return the ends of lines with the texts to be written there.

    span : ends of the horizontal axis. frame_width : smallest width of the frame in pixels; 0 to have all texts right
    of the frame.
    """
    # `near_zero_or` writes "≈ 0" for a value below 1e-4 of this size; on a log axis, for one below the range.
    axis_size = 1e4 * 10.0**y_opening.low if y_opening.log else max(abs(y_opening.low), abs(y_opening.high))
    left, right = (math.log10(edge) if scale.log_x else edge for edge in span)
    x_opening = Range(left, right, scale.log_x)
    ends = []
    for line in lines:
        x, y = max(float(line.x[-1]), line.until), float(scale.clip(line.y[-1:])[0])
        across = float(x_opening.place(x)) if right > left else 0.5  # single points are in the middle
        text = near_zero_or(float(line.y[-1]), axis_size, WRITE[bound])
        number = f"{text} {line.unit}".rstrip() if line.value_in_label else ""
        up = float(np.clip(y_opening.place(y), 0.0, 1.0))
        end = End(x, y, across, up, line.full_name, number, line.style, frame_width)
        is_crossed = not end.outside and any(_crosses(other, end, x_opening, y_opening, scale) for other in lines)
        ends.append(replace(end, crossed=is_crossed))
    return ends


def _crosses(line: "Line", end: End, x_opening: Range, y_opening: Range, scale: "Scale") -> bool:
    """Return whether a line would cross the text that is written to the right of an end."""
    right_of_end = int(np.searchsorted(line.x, end.x, side="right"))
    x, y = line.x[right_of_end:], line.y[right_of_end:]
    is_along_text = x_opening.place(x) * end.frame_width < end.reach  # both in pixels from the left of the frame
    distances = np.abs(y_opening.place(scale.clip(y[is_along_text])) - end.up)  # as shares of the height
    return bool((distances < CLEAR).any())


def _hover_distance(lines: Sequence["Line"]) -> int:
    """Return the largest distance between cursor and point, in pixels, at which a hover text appears.

    It is most of the distance between two steps in a chart of usual width, so that the cursor always finds a step, but
    finds no line beyond its end; never above 20, which is plotly's own distance.
    """
    steps = max(len(line.x) for line in lines) - 1
    return round(min(20.0, max(1.0, 0.7 * _USUAL_WIDTH / max(steps, 1) - 2)))  # 0.7 and 2 pixels are a choice


@dataclass(frozen=True)
class Scale:
    """The types of both axes, linear or logarithmic, and the conversion of arrays for a figure with these axes."""

    log_x: bool
    log_y: bool

    def points(self, x: np.ndarray, y: np.ndarray, held: bool = False) -> dict[str, np.ndarray]:
        """Return both coordinates of a line's points as {"x": …, "y": …}: clipped to the range that can be drawn, at
        most `MAX_POINTS` of them, in small types.

        held : True for a staircase that climbs. If points are left out, each of the others gets the largest value up to
            the next one, so that the staircase is never too low.
        """
        clipped = self.clip(y)
        if held and len(y) > MAX_POINTS:
            indices = np.unique(np.linspace(0, len(y) - 1, MAX_POINTS).round().astype(int))
            clipped[indices[:-1]] = clipped[indices[1:] - 1]  # the last value before the next point is the largest
        else:
            indices = downsample(np.log(x) if self.log_x else x, clipped)
        return {"x": _small(x[indices]), "y": clipped[indices].astype(np.float32)}

    def clip(self, y: np.ndarray) -> np.ndarray:
        """Return values within the range that a figure can draw."""
        return np.clip(y, FLOOR if self.log_y else -CEILING, CEILING)


def staircases(lines: Sequence[Line]) -> list[Line]:
    """Return staircases in place of curves that climb, but were computed at some of the steps only.

    Between two computed steps the staircase has the value of the later one, so that it is never below the curve: these
    are upper bounds. A curve that was computed at every step, and has at most MAX_POINTS points, stays a line.

    lines : x (k,) the computed steps, as integers. All staircases have points at the same steps, for hovering.
    """
    last_step = max((int(line.x[-1]) for line in lines), default=0)
    # A staircase climbs at the first step and right after each computed one.
    edges = [edge for line in lines for edge in (line.x[:1], line.x[:-1] + 1, line.x[-1:])]
    steps = np.unique(np.concatenate([np.linspace(0, last_step, HOVER_POINTS).astype(int), *edges]))
    result = []
    for line in lines:
        has_every_step = len(line.x) == line.x[-1] - line.x[0] + 1
        if has_every_step and len(line.x) <= MAX_POINTS:
            result.append(line)
            continue
        x = steps[(steps >= line.x[0]) & (steps <= line.x[-1])]
        next_computed = np.searchsorted(line.x, x)
        result.append(replace(line, x=x, y=line.y[next_computed], held=True))
    return result


def downsample(position: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return at most MAX_POINTS indices, ascending, of points that draw nearly the same line as all of them.

    They are the first, the last, and the lowest and the highest point in each of many bins of equal width. Of a long
    constant they are FEW.

    position : (k,) positions of the points along the axis, ascending (the logarithm of x on a log axis). y : (k,).
    """
    if len(y) > LONG and y.min() == y.max():
        return np.unique(np.linspace(0, len(y) - 1, FEW).round().astype(int))
    if len(y) <= MAX_POINTS:
        return np.arange(len(y))
    bins = MAX_POINTS // 2 - 1  # with two points each, and the two ends
    width = (position[-1] - position[0]) / bins or 1.0  # 1 where all points have one position
    bin_of = np.minimum((position - position[0]) / width, bins - 1).astype(int)
    order = np.lexsort((y, bin_of))  # bin by bin, and within each bin from the lowest to the highest
    starts = np.flatnonzero(np.diff(bin_of[order], prepend=-1))  # where in this order each bin begins
    lowest, highest = order[starts], order[np.append(starts[1:], len(y)) - 1]
    return np.unique(np.concatenate(([0], lowest, highest, [len(y) - 1])))


def _small(x: np.ndarray) -> np.ndarray:
    """Return an array in a smaller type: whole numbers as short integers, others in single precision."""
    if np.issubdtype(x.dtype, np.integer):
        return x.astype(np.int16 if np.abs(x).max() < 2**15 else np.int32)
    return x.astype(np.float32)


def drop_undrawable(line: Line, log_x: bool) -> Line:
    """Return the line without the points that cannot be drawn: those that are not numbers, and x <= 0 on a log axis."""
    edges = [edge for edge in (line.low, line.high) if edge is not None]
    is_drawable = np.isfinite(line.x) & ~np.isnan([line.y, *edges]).any(axis=0)
    if log_x:
        is_drawable &= line.x > 0
    if is_drawable.all():
        return line
    low, high = (None if edge is None else edge[is_drawable] for edge in (line.low, line.high))
    return replace(line, x=line.x[is_drawable], y=line.y[is_drawable], low=low, high=high)


def merged(lines: Sequence[Line]) -> list[Line]:
    """Return the lines, where those that coincide are one line, called "A = B" or "A + 3 equal".

    Lines without a legend entry, such as thin overlays, stay separate.
    """
    groups: list[list[Line]] = []
    for line in lines:
        for group in groups:
            if _coincide(group[0], line):
                group.append(line)
                break
        else:
            groups.append([line])
    return [_as_one(group) if len(group) > 1 else group[0] for group in groups]


def one_band(lines: Sequence[Line], best: str) -> tuple[list[Line], list[str]]:
    """Return the lines, and notes on them. Of three bands and more only that of the line or group `best` is drawn, and
    a note says whose it is."""
    lines_with_band = [line for line in lines if line.low is not None]
    if len(lines_with_band) < 3 or not any((line.group or line.name) == best for line in lines_with_band):
        return list(lines), []
    return [replace(line, band=(line.group or line.name) == best) for line in lines], [f"band: {best}"]


def _coincide(one: Line, other: Line) -> bool:
    """Return whether two lines have legend entries, one width and kind, and, up to rounding, the same points, at least
    two, and the same band. Colours and dashes may differ."""
    if not (one.legend and other.legend) or (one.style.reference, one.width) != (other.style.reference, other.width):
        return False
    if len(one.x) != len(other.x) or len(one.x) < 2 or (one.low is None) != (other.low is None):
        return False
    pairs = ((one.x, other.x), (one.y, other.y), (one.low, other.low), (one.high, other.high))
    return all(a is None or b is None or np.allclose(a, b, rtol=1e-9, atol=0.0) for a, b in pairs)


def _as_one(lines: Sequence[Line]) -> Line:
    """Return the first of several lines that coincide, with the names of all.

    A line's name may be that of its group and a remark, as in "DP-GD, slope -1"; the remark of the first line stays.
    """
    first = lines[0]
    labels = [line.group or line.name for line in lines]
    remark = first.name.removeprefix(labels[0])
    name = " = ".join(labels) if len(lines) == 2 else f"{labels[0]} + {len(lines) - 1} equal"
    return replace(
        first,
        name=name + remark,
        group=first.group or first.name,
        names=tuple(method for line in lines for method in line.names or (line.name,)),
        band=any(line.band for line in lines),
    )


def first_view(lines: Sequence[Line]) -> dict[str, Any]:
    """Return the part of plotly's specification of a log axis that makes it open at most two decades below the lowest
    point of the private lines.

    References (lines of methods without privacy) and lines that reach zero would otherwise squeeze the private lines;
    they continue below the view. The result is empty if there are no such lines.
    """
    private_values = np.concatenate([line.y for line in lines if not line.style.reference] or [np.empty(0)])
    drawable_values = private_values[private_values > FLOOR]
    reaches_zero = len(drawable_values) < len(private_values)
    has_reference = any(line.style.reference for line in lines)
    if not len(drawable_values) or not (reaches_zero or has_reference):
        return {}
    return {"autorangeoptions": {"clipmin": float(max(FLOOR, 0.01 * drawable_values.min()))}}  # two decades below


def _clip_notes(lines: Sequence[Line], log_y: bool, opening: Range) -> list[str]:
    """Return notes that say which values are beyond FLOOR or CEILING and therefore drawn there, maybe out of view.

    opening : part of the y axis that is in view.
    """
    # A reference is there to compare with: no note says that a part of it is out of view.
    lines = [line for line in lines if not line.style.reference] or lines
    floor = FLOOR if log_y else -CEILING
    notes = []
    if any(line.y.min() < floor for line in lines):
        is_in_view = not log_y or opening.low <= math.log10(floor)
        where = f"shown at {short(floor, 6)}" if is_in_view else "are below the frame"
        notes.append(f"values below {short(floor, 6)} {where}")
    if any(line.y.max() > CEILING for line in lines):
        notes.append(f"values above {short(CEILING, 6)} shown at {short(CEILING, 6)}")
    return notes


def curve(line: Line, scale: Scale, value: str) -> dict[str, Any]:
    """Return plotly's trace of a line, whose `meta` has the names of the lines that it represents, if any are given.

    value : plotly's template that writes the value in the hover text.
    """
    width = min(line.width, 1.5) if line.style.reference else line.width  # references are thin
    stroke = {"color": line.style.color, "dash": line.style.dash, "width": width}
    if line.held:
        stroke["shape"] = "hv"  # level up to the next point
    trace = scale.points(line.x, line.y, held=line.held) | {
        "type": "scatter",
        "mode": "lines",
        "name": line.name,
        "line": stroke,
        "legendgroup": line.group or line.name,
        "showlegend": line.legend,
        "hovertemplate": f"{value} {line.unit}".rstrip(),
    }
    if len(line.x) < 2:
        trace |= {"mode": "markers", "marker": {"color": line.style.color}}
    return trace | ({"meta": list(line.names)} if line.names else {})


def _level(line: Line) -> dict[str, Any]:
    """Return the shape of a level row of dots from the last point of a line to x = `until`, where its label is."""
    stroke = {"color": line.style.color, "width": 2, "dash": "2px,8px"}  # no line has so few dots
    ends = {"x0": float(line.x[-1]), "x1": line.until, "y0": float(line.y[-1]), "y1": float(line.y[-1])}
    return {"name": "level", "type": "line", "xref": "x", "yref": "y", "line": stroke, **ends}


def vertical_line_parts(
    lines: Sequence[VerticalLine], log_x: bool = False
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return plotly's annotations and shapes of vertical lines; texts are near the top: falling lines leave room."""
    texts, shapes = [], []
    for line in lines:
        x = math.log10(line.x) if log_x else line.x  # plotly takes logarithms for texts, but plain numbers for shapes
        anchor = {"name": "vertical", "x": x, "xref": "x", "xanchor": line.side, "y": 1, "yref": "paper"}
        anchor |= {"yanchor": "top", "yshift": -18}  # below the mark "not private"
        anchor["xshift"] = 3 if line.side == "left" else -3
        texts.append(anchor | {"text": line.label, "showarrow": False, "font": {"size": style.TEXT}})
        ends = {"x0": line.x, "x1": line.x, "xref": "x", "y0": 0, "y1": 1, "yref": "paper"}
        shapes.append({"name": "vertical", "type": "line", **ends, "line": {"color": style.GREY, "width": 1}})
    return texts, shapes


def band(line: Line, scale: Scale) -> list[dict[str, Any]]:
    """Return the traces of the lower and the upper edge of a line's band, filled between; empty without a band."""
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
    """Return one trace with all marks; empty without marks."""
    if not marks:
        return []
    hover_texts, labels = [mark.text for mark in marks], [mark.label for mark in marks]
    if any(labels):  # then "text" is what is drawn next to the marks, so that the hover text needs a field of its own
        centred = ("top center", "bottom center")
        text_options: dict[str, Any] = {
            "mode": "markers+text",
            "text": labels,
            "textposition": [mark.side or centred[i % 2] for i, mark in enumerate(marks)],
            "cliponaxis": False,
            "hovertext": hover_texts,
            "hovertemplate": "%{hovertext}<extra></extra>",
        }
    else:
        text_options = {"mode": "markers", "text": hover_texts, "hovertemplate": "%{text}<extra></extra>"}
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
    """Return labelled marks on a curve of positive numbers at given x; those outside the curve's range are left out.

    x, y : (k,) the curve, x ascending. values : x of the marks, by their names; marks at the same x become one.
    """
    names_at: dict[float, list[str]] = {}
    for name, value in values.items():
        if x[0] <= value <= x[-1]:
            names_at.setdefault(float(value), []).append(name)
    marks: list[Mark] = []
    for value, names in sorted(names_at.items()):
        height = float(np.exp(np.interp(math.log(value), np.log(x), np.log(np.maximum(y, FLOOR)))))
        text = f"{' = '.join(names)} {short(value)}"
        is_falling = np.interp(1.05 * value, x, y) <= np.interp(value, x, y)  # from here to a little further right
        # Left of the first mark the text has room if it fits there on a phone, whose frame is 230 pixels wide, with 7
        # pixels for a letter.
        share_to_left = math.log(value / x[0]) / math.log(x[-1] / x[0])
        has_room_to_left = not marks and 230 * share_to_left > 7 * len(text)
        rising_side = "top left" if has_room_to_left else "bottom right"  # where a rising curve leaves room
        side = "top right" if is_falling else rising_side
        marks.append(Mark(value, height, text, color, label=text, side=side))
    return marks


def area(
    x: np.ndarray, y: np.ndarray, name: str, color: str, pattern: str, *, group: str, digits: int = 4
) -> dict[str, Any]:
    """Return the trace of one area of the stacked `group`.

    It is marked by a pattern as well as by a colour, for readers who see no difference of hue. digits : number of
    significant digits in the hover text.
    """
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
    """Return the shape of a vertical line at x, the limit of horizontal bars."""
    line = {"type": "line", "xref": "x", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1}
    return line | {"line": LIMIT}


def show_errors(figure: go.Figure, name: str, mean: np.ndarray, error: np.ndarray) -> None:
    """Turn the line `name` of a figure, in place, into markers with bars of two standard errors on either side.

    mean, error : (k,) the line's values and their standard errors. Bars are cut before they reach 0, which a log axis
        does not have.
    """
    below = np.minimum(2 * error, 0.99 * mean).astype(np.float32)
    bars = {"type": "data", "symmetric": False, "array": (2 * error).astype(np.float32), "arrayminus": below}
    figure.update_traces({"mode": "markers", "error_y": bars}, selector={"name": name})
