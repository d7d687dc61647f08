"""Heat maps of sweeps over two settings: a panel for each method. Works on a sweep that is under way."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.numbers import short
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.lines import CEILING, FLOOR
from dpviz.sweeps.sweep_result import SweepResult

BEST = "★"
_COLORS = "Cividis"  # even for colour-blind readers, and distinct from both pages' backgrounds
_CELL, _PANEL = 32, 96  # pixels: height of a cell, smallest height of a panel
_TOP, _ABOVE, _BELOW = 26, 28, 52  # pixels: small print; the name of a panel; its axis
_LEFT, _BAR = 80, 100  # pixels: the vertical axis; the colour bar
_GAP = 0.06  # share of the width, between two panels
_CHARACTER, _ROOM = 7.2, 10  # pixels: width of a character in a cell, and free space next to the text


@dataclass(frozen=True)
class _Grid:
    """Positions of panels: numbers of columns and rows, and the height of a panel in pixels."""

    columns: int
    rows: int
    panel: int

    @property
    def height(self) -> int:
        """Height of the figure in pixels."""
        return _TOP + self.rows * (_ABOVE + self.panel + _BELOW)

    def across(self, number: int) -> tuple[float, float]:
        """Return left and right end of a panel, as shares of the width."""
        width = 1 / (self.columns + (self.columns - 1) * _GAP)
        left = (number % self.columns) * width * (1 + _GAP)
        return left, min(1.0, left + width)

    def up(self, number: int) -> tuple[float, float]:
        """Return lower and upper end of a panel, as shares of the height."""
        top = _TOP + _ABOVE + number // self.columns * (_ABOVE + self.panel + _BELOW)
        return 1 - (top + self.panel) / self.height, 1 - top / self.height


def heat_maps(result: SweepResult, x_title: str, y_title: str, *, columns: int = 2, width: int = 1000) -> go.Figure:
    """Return a figure of the metric's median at both settings for every arm that has a result, all in one colour scale.

    Colours are logarithmic where the metric is, and span the values of methods with privacy. A star marks where a
    method is the best of those, as the metric declares; every cell has its number where there is room. Cells are of
    equal size, in the order of the values. Medians are over all runs on all data sets.

    columns : panels side by side. width : approximate width of the figure in pixels.
    """
    metric = result.metric
    if metric is None or not any(curve.ends for curve in result.curves.values()):
        empty = "No point is finished yet." if result.curves else "Nothing here is released."
        return go.Figure({"layout": style.layout(Axes(x_title, y_title), notes=[empty])})
    log = metric.scale == "log"
    grids = {label: result.grid(label) for label, curve in result.curves.items() if curve.ends}
    heights = {label: np.clip(grid[2], FLOOR if log else -CEILING, CEILING) for label, grid in grids.items()}
    best = _best(result, heights)
    panels = _Grid(min(columns, len(grids)), -(-len(grids) // columns), max(_PANEL, _CELL * len(result.second)))
    first, second, _ = next(iter(grids.values()))  # the values of both settings
    longest = max(len(_number(cell)) for medians in heights.values() for cell in medians.ravel().tolist())
    has_room = (width - _LEFT - _BAR) / panels.columns / len(first) > _CHARACTER * (longest + len(f" {BEST}")) + _ROOM
    data, names = [], []
    axes: dict[str, Any] = {}
    across, up = ({"tickvals": ends, "ticktext": [short(float(end)) for end in ends]} for ends in (first, second))
    for number, (label, (values, seconds, _)) in enumerate(grids.items()):
        axis = str(number + 1) if number else ""
        panel_axes = {"xaxis": f"x{axis}", "yaxis": f"y{axis}"}
        data.append(_panel(label, values, seconds, heights[label], best == label, log, has_room) | panel_axes)
        x_axis, y_axis = _axes(panels, number, len(grids), axis, x_title, y_title)
        axes |= {f"xaxis{axis}": x_axis | across, f"yaxis{axis}": y_axis | up}
        names.append(style.panel_name(f"<b>{label}</b>", panels.across(number)[0], panels.up(number)[1]))
    not_private = style.marked({label: result.curves[label].status for label in grids})
    layout = style.layout(Axes(x_title, y_title), not_private=not_private, height=panels.height)
    layout |= axes | {"coloraxis": _colors(heights, result, log), "hovermode": "closest"}
    layout["annotations"] += names
    return go.Figure({"data": data, "layout": layout | {"margin": {"l": _LEFT, "r": 8, "t": 0, "b": 0}}})


def _best(result: SweepResult, heights: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return (m, k) the label of the best private arm; "" where fewer than two have a result, or values are no
    merit."""
    private = _private(result, heights)
    shape = next(iter(heights.values())).shape
    better = result.metric.better if result.metric else ""
    if len(private) < 2 or not better:
        return np.full(shape, "", dtype=object)
    stacked = np.stack([heights[label] if better == "lower" else -heights[label] for label in private])
    is_known = ~np.isnan(stacked)
    first = np.argmin(np.where(is_known, stacked, np.inf), axis=0)
    return np.where(is_known.sum(axis=0) > 1, np.array(private, dtype=object)[first], "")


def _private(result: SweepResult, heights: Mapping[str, np.ndarray]) -> list[str]:
    references = {arm.label for arm in result.arms if arm.reference}
    return [label for label in heights if label not in references]


def _panel(
    label: str,
    values: np.ndarray,
    seconds: np.ndarray,
    medians: np.ndarray,
    best: np.ndarray,
    log: bool,
    has_room: bool,
) -> dict[str, Any]:
    """Return the trace of one arm; the cells show colours, and their numbers as text, for hovering and for the CSV."""
    numbers = [[_number(cell) for cell in row] for row in medians.tolist()]
    texts = [
        [" ".join(filter(None, (number * has_room, BEST * star))) for number, star in zip(*row, strict=True)]
        for row in zip(numbers, best.tolist(), strict=True)
    ]
    return {
        "type": "heatmap",
        "name": label,
        "x": values,
        "y": seconds,
        "z": np.log10(medians) if log else medians,
        "customdata": medians,
        "text": texts,
        "texttemplate": "%{text}",
        "textfont": {"size": style.TEXT},
        "coloraxis": "coloraxis",
        "hoverongaps": False,
        "hovertemplate": "%{x}, %{y}: %{customdata:.4~r}",
        "xgap": 1,
        "ygap": 1,
    }


def _number(cell: float) -> str:
    return "" if math.isnan(cell) else short(cell, 2)


def _axes(
    grid: _Grid, number: int, count: int, axis: str, x_title: str, y_title: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the axes of a panel; titles are below the lowest of each column, and left of the first column."""
    is_lowest, is_first = number + grid.columns >= count, number % grid.columns == 0
    common = {"type": "category", "ticks": "", "showgrid": False, "zeroline": False}
    x_axis: dict[str, Any] = {"domain": grid.across(number), "anchor": f"y{axis}"}
    x_axis |= {"title": {"text": x_title * is_lowest, "standoff": 8}}
    y_axis: dict[str, Any] = {"domain": grid.up(number), "anchor": f"x{axis}"}
    y_axis |= {"title": {"text": y_title * is_first, "standoff": 8}}
    return common | x_axis, common | y_axis | {"showticklabels": is_first}


def _colors(heights: Mapping[str, np.ndarray], result: SweepResult, log: bool) -> dict[str, Any]:
    """Return the colour scale of all panels, over the values of methods with privacy; low values are dark."""
    medians = [heights[label] for label in _private(result, heights) or heights]
    cells = np.concatenate([panel[~np.isnan(panel)] for panel in medians])
    cells = np.log10(cells) if log else cells
    low, high = float(cells.min()), float(cells.max())
    title = result.metric.label if result.metric else ""
    bar: dict[str, Any] = {"title": {"text": title, "side": "right"}, "thickness": 14, "len": 0.9}
    if log:
        step = max(1, math.ceil((high - low) / 6))
        ticks: list[float] = list(range(math.ceil(low), math.floor(high) + 1, step)) or [low, high]
        bar |= {"tickvals": ticks, "ticktext": [short(10.0**tick, 2) for tick in ticks]}
    return {"colorscale": _COLORS, "cmin": low, "cmax": high, "colorbar": bar}
