"""Line charts: the one builder that all figures of this package go through.

It sees to what is easy to forget: finite numbers, few points, small types, no logarithm of zero, labelled limits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.numbers import short
from dpviz.plots import style
from dpviz.plots.style import ArmStyle

MAX_POINTS = 1000  # per trace
# Values beyond these are drawn there, and the figure says so. A diverged run reaches 1e200.
FLOOR, CEILING = 1e-12, 1e12
_VALUE = "%{y:.4~g}"


@dataclass(frozen=True, eq=False)
class Line:
    """One line, with its band where `low` and `high` are given; all arrays (k,), x ascending.

    unit : shown after the value in the hover text. width : pixels. group : lines that the legend switches together;
    the name, if empty. legend : whether the line has an entry of its own.
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


@dataclass(frozen=True)
class Limit:
    """A horizontal line across the figure, labelled in place, such as a budget."""

    value: float
    label: str


@dataclass(frozen=True)
class Mark:
    """A point that stands out, such as the best number of steps, with a text that appears on hovering."""

    x: float
    y: float
    text: str
    color: str


def line_figure(
    lines: Sequence[Line],
    *,
    x_title: str,
    y_title: str,
    log_y: bool,
    log_x: bool = False,
    from_zero: bool = False,
    limits: Sequence[Limit] = (),
    marks: Sequence[Mark] = (),
    notes: Sequence[str] = (),
    if_empty: str = "Nothing to show yet.",
    height: int = style.HEIGHT,
) -> go.Figure:
    """A figure of lines with bands, limits, marks and notes in small print.

    Points that are not numbers are left out, and those at x <= 0 on a log axis. Values below 1e-12 on a log axis, or
    beyond 1e12, are drawn there, and a note says so. Of lines that coincide, the ones below are wider, so that all can
    be seen. At most 1000 points per trace; about 0.5 ms per trace.
    """
    drawn = _nested([line for line in (_drawable(line, log_x) for line in lines) if len(line.x)])
    frame = style.layout(
        x_title,
        y_title,
        log_x=log_x,
        log_y=log_y,
        from_zero=from_zero,
        notes=[*notes, *_clipped(drawn, log_y)] if drawn else [if_empty],
        legend_entries=sum(line.legend for line in drawn),
        height=height,
    )
    if log_y:
        frame["yaxis"] |= _first_view(drawn)
    scale = _Scale(log_x, log_y)
    traces = [trace for line in drawn for trace in _band(line, scale)]  # before all lines, so that none is covered
    traces += [_line(line, scale) for line in drawn]
    if drawn:
        span = (min(line.x[0] for line in drawn), max(line.x[-1] for line in drawn))
        traces += [_limit(limit, span, scale) for limit in limits]
        traces += _marks(marks, scale)
    return go.Figure({"data": traces, "layout": frame})


@dataclass(frozen=True)
class _Scale:
    """Arrays as the figure takes them."""

    log_x: bool
    log_y: bool

    def points(self, x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
        clipped = self.clip(y)
        kept = downsample(np.log(x) if self.log_x else x, clipped)
        return {"x": _small(x[kept]), "y": clipped[kept].astype(np.float32)}

    def clip(self, y: np.ndarray) -> np.ndarray:
        return np.clip(y, FLOOR if self.log_y else -CEILING, CEILING)


def downsample(position: np.ndarray, y: np.ndarray, points: int = MAX_POINTS) -> np.ndarray:
    """Indices, ascending and at most `points`, of the first, the last, and the extremes within bins of equal width.

    position (k,) : where the points are drawn along the axis, ascending (the logarithm of x, on a log axis).
    """
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


def _drawable(line: Line, log_x: bool) -> Line:
    """The line without the points that have no place in the figure."""
    edges = [edge for edge in (line.low, line.high) if edge is not None]
    kept = np.isfinite(line.x) & ~np.isnan([line.y, *edges]).any(axis=0)
    if log_x:
        kept &= line.x > 0
    if kept.all():
        return line
    low, high = (edge if edge is None else edge[kept] for edge in (line.low, line.high))
    return replace(line, x=line.x[kept], y=line.y[kept], low=low, high=high)


def _nested(lines: Sequence[Line]) -> list[Line]:
    """The lines, each 2 pixels wider for every later one that has the same points; thin overlays stay thin."""
    points = [(line.x.tobytes(), line.y.tobytes()) if line.legend else None for line in lines]
    below = [points[i + 1 :].count(own) if own else 0 for i, own in enumerate(points)]
    return [replace(line, width=line.width + 2 * count) for line, count in zip(lines, below, strict=True)]


def _first_view(lines: Sequence[Line]) -> dict[str, Any]:
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
    notes = []
    if log_y and any(line.y.min() < FLOOR for line in lines):
        notes.append(f"values below {short(FLOOR, 6)} shown at {short(FLOOR, 6)}")
    if any(line.y.max() > CEILING for line in lines):
        notes.append(f"values above {short(CEILING, 6)} shown at {short(CEILING, 6)}")
    if not log_y and any(line.y.min() < -CEILING for line in lines):
        notes.append(f"values below {short(-CEILING, 6)} shown at {short(-CEILING, 6)}")
    return notes


def _line(line: Line, scale: _Scale) -> dict[str, Any]:
    return scale.points(line.x, line.y) | {
        "type": "scatter",
        "mode": "lines" if len(line.x) > 1 else "markers",
        "name": line.name,
        "line": {"color": line.style.color, "dash": line.style.dash, "width": line.width},
        "marker": {"color": line.style.color},
        "legendgroup": line.group or line.name,
        "showlegend": line.legend,
        "hovertemplate": f"{_VALUE} {line.unit}".rstrip(),
    }


def _band(line: Line, scale: _Scale) -> list[dict[str, Any]]:
    if line.low is None or line.high is None:
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


def _limit(limit: Limit, span: tuple[float, float], scale: _Scale) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+text",
        "x": np.array(span, dtype=np.float32),
        "y": scale.clip(np.full(2, limit.value)).astype(np.float32),
        "text": [limit.label, ""],
        "textposition": "top right",
        "cliponaxis": False,
        "line": {"color": style.PALETTE["spent"], "dash": "dashdot", "width": 1.5},
        "showlegend": False,
        "hoverinfo": "skip",
    }


def _marks(marks: Sequence[Mark], scale: _Scale) -> list[dict[str, Any]]:
    if not marks:
        return []
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "x": np.array([mark.x for mark in marks], dtype=np.float32),
            "y": scale.clip(np.array([mark.y for mark in marks])).astype(np.float32),
            "text": [mark.text for mark in marks],
            "marker": {"color": [mark.color for mark in marks], "size": 10, "symbol": "diamond"},
            "showlegend": False,
            "hovertemplate": "%{text}<extra></extra>",
        }
    ]
