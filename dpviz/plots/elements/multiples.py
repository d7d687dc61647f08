"""Small multiples: one panel for each line, with its band; shared axes, the other lines in light grey."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.numbers import short
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes, Range, hover_format
from dpviz.plots.elements.labels import broken
from dpviz.plots.elements.lines import Line, Scale, band, curve, drawable, first_view, merged, opening_range
from dpviz.plots.elements.style import ArmStyle


@dataclass(frozen=True)
class Ruler:
    """One axis: its title, and both ends, in powers of ten if it is logarithmic."""

    title: str
    low: float
    high: float
    log: bool

    @classmethod
    def of(cls, title: str, opening: Range) -> "Ruler":
        """Return the axis that opens with this range."""
        return cls(title, opening.low, opening.high, opening.log)

    def place(self, values: np.ndarray) -> np.ndarray:
        """Return the positions of values, as shares of the axis from 0 to 1."""
        scaled = np.log10(np.maximum(values, 1e-300)) if self.log else values
        return np.clip((scaled - self.low) / (self.high - self.low), 0.0, 1.0)

    def value(self, shares: np.ndarray) -> np.ndarray:
        """Return the values at positions, given as shares of the axis."""
        scaled = self.low + np.asarray(shares) * (self.high - self.low)
        return 10.0**scaled if self.log else scaled

    @cached_property
    def ticks(self) -> list[tuple[float, str]]:
        """Round numbers as texts, with their positions as shares of the axis."""
        if self.log:
            values = 10.0 ** np.arange(np.ceil(self.low - 1e-9), np.floor(self.high + 1e-9) + 1)
        else:
            span = self.high - self.low
            step = 10.0 ** np.floor(np.log10(span))
            step *= next(share for share in (0.2, 0.5, 1.0, 2.0) if span / (share * step) <= 6)
            values = np.arange(np.ceil(self.low / step), np.floor(self.high / step + 1e-9) + 1) * step + 0.0  # no -0
        return [(float(share), short(value)) for share, value in zip(self.place(values), values, strict=True)]


@dataclass(frozen=True)
class Sheet:
    """A sheet to draw on; all positions are shares of the frame.

    known : points of a known curve. start : first point of the drawn curve, None if that is at its first handle.
    handles : horizontal positions of the handles. height : pixels.
    """

    x: Ruler
    y: Ruler
    known: list[tuple[float, float]]
    start: tuple[float, float] | None
    handles: tuple[float, ...]
    height: int

    @property
    def handle_texts(self) -> list[str]:
        """Values of the horizontal axis at the handles, as texts."""
        return [short(value, 2) for value in self.x.value(np.array(self.handles))]

    def drawn(self, heights: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
        """Return the drawn curve, from its start to the last handle: x and y (k + 1,).

        heights : (k,) of the handles, as shares of the frame.
        """
        across, up = np.array(self.handles), np.array(heights)
        if self.start is not None:
            across, up = np.array([self.start[0], *across]), np.array([self.start[1], *up])
        return self.x.value(across), self.y.value(up)


AGAIN = "again"  # `meta` of a line that is also in another panel
_PANEL, _ABOVE = 150, 28  # pixels: height of a panel, and of what is above it
_BETWEEN = 0.08  # share of the width, between two panels
_OTHERS = ArmStyle(style.GREY, "solid")
_SILENT = {"hoverinfo": "skip", "hovertemplate": None, "showlegend": False, "opacity": 0.35, "meta": AGAIN}


def small_multiples(
    lines: Sequence[Line], axes: Axes, columns: int = 3, *, notes: Sequence[str] = (), not_private: bool | str = False
) -> go.Figure:
    """Return a figure with a panel for every line except references, which are grey in all panels. All panels zoom
    together."""
    visible = merged([line for line in (drawable(line, False) for line in lines) if len(line.x)])
    if not visible:
        return go.Figure({"layout": style.layout(axes, notes=["Nothing to show yet."])})
    panels = [line for line in visible if not line.style.reference] or visible
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    scale, view = Scale(False, axes.log_y), first_view(visible) if axes.log_y else {}
    opening = opening_range([replace(line, band=True) for line in visible], (), scale, view, from_zero=False)
    all_notes = [*notes, *([style.in_frame(not_private)] if not_private else [])]
    frame = style.layout(axes, notes=all_notes, opening=opening)
    height = rows * _PANEL + (rows - 1) * _ABOVE
    frame["margin"] |= {"t": frame["margin"]["t"] + _ABOVE}
    frame |= {"height": height + frame["margin"]["t"] + style.BOTTOM, "showlegend": False}
    for note in frame["annotations"]:
        note["yshift"] = _ABOVE - 6
    x_axis, y_axis = frame.pop("xaxis"), frame.pop("yaxis") | view
    traces: list[dict[str, Any]] = []
    for i, line in enumerate(panels):
        number = str(i + 1) if i else ""
        panel_axes = {"xaxis": f"x{number}", "yaxis": f"y{number}"}
        greys = [replace(other, style=_OTHERS, width=1.0) for other in visible if other is not line]
        traces += [curve(grey, scale, "") | _SILENT | panel_axes for grey in greys]
        traces += [part | panel_axes for part in band(replace(line, band=True), scale)]
        traces.append(curve(line, scale, hover_format(opening)) | panel_axes)
        row, column = divmod(i, columns)
        left = column * (1 + _BETWEEN) / (columns + (columns - 1) * _BETWEEN)
        right = left + 1 / (columns + (columns - 1) * _BETWEEN)
        top = 1 - row * (_PANEL + _ABOVE) / height
        is_lowest = i + columns >= len(panels)  # of its column
        across = x_axis | {"domain": [left, min(1.0, right)], "anchor": panel_axes["yaxis"]}
        across |= {"showticklabels": is_lowest}
        up = y_axis | {"domain": [max(0.0, top - _PANEL / height), top], "anchor": panel_axes["xaxis"]}
        up |= {"showticklabels": column == 0}
        across["nticks"] = 4
        across["title"] = {"text": axes.x if is_lowest else ""}
        up["title"] = {"text": axes.y if column == 0 and row == rows // 2 else ""}
        shared = {"x": {"matches": "x"}, "y": {"matches": "y"}} if i else {"x": {}, "y": {}}
        frame |= {f"xaxis{number}": across | shared["x"], f"yaxis{number}": up | shared["y"]}
        name = broken(line.name, short(float(line.y[-1])), 99)[0]
        frame["annotations"].append(style.panel_name(name, left, top))
    return go.Figure({"data": traces, "layout": frame})
