"""Figures of sweeps: the outcome of an experiment against one of its settings, or two. They can be drawn while a sweep
is running."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.compare.comparison import Curve
from dpviz.experiments.results import quantiles
from dpviz.numbers import short
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes, Range, log_ticks
from dpviz.plots.elements.lines import (
    CEILING,
    FLOOR,
    Drawing,
    Line,
    Mark,
    VerticalLine,
    line_drawing,
    line_figure,
    one_band,
)
from dpviz.plots.elements.style import DASHES, DOTS, GREY, HUES, ArmStyle, arm_styles, privacy_mark
from dpviz.sweeps.sweep_result import Fit, Order, SweepResult

# ---------------------------------------------------------------------------------------------- two settings: heat maps

BEST = "★"  # marks the cells at which a method is the best
_COLORS = "Cividis"  # even for colour-blind readers, and distinct from both pages' backgrounds
_CELL, _PANEL = 32, 96  # pixels: height of a cell, smallest height of a panel
_TOP, _ABOVE, _BELOW = 26, 28, 52  # pixels: small print; the name of a panel; its axis
_LEFT, _BAR = 80, 100  # pixels: the vertical axis; the colour bar
_GAP = 0.06  # gap between two panels, as a share of a panel's width
_CHARACTER, _ROOM = 7.2, 10  # pixels: width of a character in a cell, and free space next to the text


@dataclass(frozen=True)
class _Grid:
    """Positions of the panels of heat maps, which are numbered from 0, row by row. panel_height : in pixels."""

    columns: int
    rows: int
    panel_height: int

    @property
    def height(self) -> int:
        """Height of the figure in pixels."""
        return _TOP + self.rows * (_ABOVE + self.panel_height + _BELOW)

    def x_ends(self, number: int) -> tuple[float, float]:
        """Return left and right end of a panel, as shares of the width."""
        width = 1 / (self.columns + (self.columns - 1) * _GAP)
        left = (number % self.columns) * width * (1 + _GAP)
        return left, min(1.0, left + width)

    def y_ends(self, number: int) -> tuple[float, float]:
        """Return lower and upper end of a panel, as shares of the height."""
        top = _TOP + _ABOVE + number // self.columns * (_ABOVE + self.panel_height + _BELOW)  # pixels from the top
        return 1 - (top + self.panel_height) / self.height, 1 - top / self.height


def heat_maps(result: SweepResult, x_title: str, y_title: str, *, columns: int = 2, width: int = 1000) -> go.Figure:
    """Return a figure of a sweep over two settings: a heat map of the metric's median for every arm, in one scale.

    Medians are over all runs on all data sets. Colours are logarithmic where the metric's scale is, and span the values
    of the methods with privacy. A star marks the cells at which a method is the best of these. Every cell has its
    number where there is room. Cells are of equal size, in the order of the values.

    x_title, y_title : the first and the second setting. columns : largest number of panels side by side.
    width : approximate width of the figure in pixels.
    """
    metric = result.metric
    if metric is None or not any(curve.point_runs for curve in result.curves.values()):
        empty_note = "No point is finished yet." if result.curves else "Nothing here is released."
        return go.Figure({"layout": style.layout(Axes(x_title, y_title), notes=[empty_note])})
    log = metric.scale == "log"
    grids = {label: result.grid(label) for label, curve in result.curves.items() if curve.point_runs}  # with results
    floor = FLOOR if log else -CEILING  # values beyond are drawn there
    medians = {label: np.clip(panel, floor, CEILING) for label, (_, _, panel) in grids.items()}
    best_labels = _best(result, medians)
    rows = math.ceil(len(grids) / columns)
    panels = _Grid(min(columns, len(grids)), rows, panel_height=max(_PANEL, _CELL * len(result.second)))
    values, second_values, _ = next(iter(grids.values()))  # of both settings, the same for all arms
    longest = max(len(_number(cell)) for panel in medians.values() for cell in panel.ravel().tolist())
    cell_width = (width - _LEFT - _BAR) / panels.columns / len(values)
    has_room = cell_width > _CHARACTER * (longest + len(f" {BEST}")) + _ROOM
    data, names = [], []
    axes: dict[str, Any] = {}
    x_ticks, y_ticks = (
        {"tickvals": ticks, "ticktext": [short(float(tick)) for tick in ticks]} for ticks in (values, second_values)
    )
    for number, label in enumerate(grids):
        axis_number = str(number + 1) if number else ""  # in plotly, whose first axes have none
        panel_axes = {"xaxis": f"x{axis_number}", "yaxis": f"y{axis_number}"}
        panel = _panel(label, values, second_values, medians[label], best_labels == label, log, has_room)
        data.append(panel | panel_axes)
        x_axis, y_axis = _axes(panels, number, len(grids), axis_number, x_title, y_title)
        axes |= {f"xaxis{axis_number}": x_axis | x_ticks, f"yaxis{axis_number}": y_axis | y_ticks}
        (left, _right), (_bottom, top) = panels.x_ends(number), panels.y_ends(number)
        names.append(style.panel_name(f"<b>{label}</b>", left, top))
    not_private = style.privacy_mark({label: result.curves[label].privacy for label in grids})
    layout = style.layout(Axes(x_title, y_title), not_private=not_private, height=panels.height)
    layout |= axes | {"coloraxis": _colors(medians, result, log), "hovermode": "closest"}
    layout["annotations"] += names
    layout["margin"] = {"l": _LEFT, "r": 8, "t": 0, "b": 0}  # room above and below is a part of `panels`
    return go.Figure({"data": data, "layout": layout})


def _best(result: SweepResult, medians: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return (m, k) the label of the best private arm in each cell.

    It is "" where fewer than two have a result, and everywhere for a metric that declares no better direction.

    medians : by label, (m, k), nan where there is no result.
    """
    labels = _private_labels(result, medians)
    better = result.metric.better if result.metric else ""
    if len(labels) < 2 or not better:
        any_panel = next(iter(medians.values()))
        return np.full(any_panel.shape, "", dtype=object)
    stacked = np.stack([medians[label] if better == "lower" else -medians[label] for label in labels])  # (arms, m, k)
    is_known = ~np.isnan(stacked)
    lowest = np.argmin(np.where(is_known, stacked, np.inf), axis=0)  # (m, k) index of the arm
    return np.where(is_known.sum(axis=0) > 1, np.array(labels, dtype=object)[lowest], "")


def _private_labels(result: SweepResult, medians: Mapping[str, np.ndarray]) -> list[str]:
    """Return the labels in `medians` of arms with privacy."""
    references = {arm.label for arm in result.arms if arm.reference}
    return [label for label in medians if label not in references]


def _panel(
    label: str,
    values: np.ndarray,
    second_values: np.ndarray,
    medians: np.ndarray,
    best: np.ndarray,
    log: bool,
    has_room: bool,
) -> dict[str, Any]:
    """Return the heat map of one arm as plotly's trace.

    values, second_values : (k,) and (m,) values of both settings. medians : (m, k), nan where there is no result.
    best : (m, k) bool, True in the cells that get a star. log : True for logarithmic colours.
    has_room : True if cells also show their numbers; hover texts and the CSV have them in any case.
    """
    texts = []
    for row, best_row in zip(medians.tolist(), best.tolist(), strict=True):
        numbers = [_number(median) if has_room else "" for median in row]
        stars = [BEST if is_best else "" for is_best in best_row]
        texts.append([f"{number} {star}".strip() for number, star in zip(numbers, stars, strict=True)])
    return {
        "type": "heatmap",
        "name": label,
        "x": values,
        "y": second_values,
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
    """Return the number in a cell as text; "" for nan, where there is no result."""
    return "" if math.isnan(cell) else short(cell, 2)


def _axes(
    grid: _Grid, number: int, count: int, axis_number: str, x_title: str, y_title: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both axes of panel `number` of `count`; titles are below the lowest panel of each column, and left of the
    first column.

    axis_number : plotly's number of the panel's axes: "" for the first panel, "2" for the second.
    """
    is_lowest = number + grid.columns >= count  # of its column
    is_first = number % grid.columns == 0  # of its row
    common = {"type": "category", "ticks": "", "showgrid": False, "zeroline": False}
    x_axis: dict[str, Any] = {"domain": grid.x_ends(number), "anchor": f"y{axis_number}"}
    x_axis |= {"title": {"text": x_title if is_lowest else "", "standoff": 8}}
    y_axis: dict[str, Any] = {"domain": grid.y_ends(number), "anchor": f"x{axis_number}"}
    y_axis |= {"title": {"text": y_title if is_first else "", "standoff": 8}}
    return common | x_axis, common | y_axis | {"showticklabels": is_first}


def _colors(medians: Mapping[str, np.ndarray], result: SweepResult, log: bool) -> dict[str, Any]:
    """Return the colour scale of all panels, with its bar: it spans the values of the methods with privacy, or of all
    methods if there are none; low values are dark."""
    panels = [medians[label] for label in _private_labels(result, medians) or medians]
    cells = np.concatenate([panel[~np.isnan(panel)] for panel in panels])
    cells = np.log10(cells) if log else cells
    low, high = float(cells.min()), float(cells.max())
    title = result.metric.label if result.metric else ""
    bar: dict[str, Any] = {"title": {"text": title, "side": "right"}, "thickness": 14, "len": 0.9}
    if log:
        step = max(1, math.ceil((high - low) / 6))  # at most seven ticks
        powers: list[float] = list(range(math.ceil(low), math.floor(high) + 1, step))
        ticks = powers or [low, high]  # no power of ten is in between
        bar |= {"tickvals": ticks, "ticktext": [short(10.0**tick, 2) for tick in ticks]}
    return {"colorscale": _COLORS, "cmin": low, "cmax": high, "colorbar": bar}


# ------------------------------------------------------------------------------------------ runs of the page to compare

BANDS = 2  # largest number of lines with bands


def compared(curves: Sequence[Curve], x_title: str, y_title: str, log_y: bool) -> go.Figure:
    """Return the figure of the page that compares runs: a line for each curve, with a band from 10 to 90 % if there are
    at most BANDS. The figure is marked if a curve reads raw data."""
    sides = list(dict.fromkeys(curve.side for curve in curves))  # names of the compared runs
    lines: list[Line] = []
    for curve in curves:
        low, median, high = curve.quantiles.T
        if len(curves) > BANDS:
            low = high = None  # no bands
        usual = ArmStyle(GREY, DOTS[0], reference=True)
        if curve.arm is not None:
            usual = arm_styles([curve.arm])[curve.arm.label]  # as on the method's page
        # If another line has that style: another dash of its hue, beginning with the run's number; else another hue.
        dashes = DASHES if curve.private else DOTS
        run = sides.index(curve.side)
        same_hue = [replace(usual, dash=dashes[(run + i) % len(dashes)]) for i in range(len(dashes))]
        other_hues = [replace(candidate, color=hue) for hue in HUES for candidate in same_hue]
        used = {line.style for line in lines}
        unused = (candidate for candidate in [usual, *same_hue, *other_hues] if candidate not in used)
        curve_style = next(unused, usual)
        lines.append(Line(curve.x, median, f"{curve.side}: {curve.method}", curve_style, low, high))
    return line_figure(
        lines,
        Axes(x_title, y_title, log_y=log_y),
        not_private=privacy_mark({f"{curve.side}: {curve.method}": curve.privacy for curve in curves}),
        if_empty="None of these runs has both of these axes.",
        height=style.HEIGHT,
    )


# ---------------------------------------------------------------------------------------------------------- one setting

MAX_CROSSINGS = 2  # of two arms; more are noise
_MARGIN = 0.06  # decades outside the first and the last budget, so that no dot is cut
_ROUNDING = 1e-6  # smaller margins are rounding errors: without noise the law is exact


def metric_by_setting(
    result: SweepResult,
    x_title: str,
    *,
    symbol: str = "",
    compared_arm: str = "",
    log_x: bool = True,
    height: int = style.HEIGHT,
) -> go.Figure:
    """Return a figure of the metric's median at every value of the sweep, with a band from 10 to 90 %, for every arm.

    Medians and bands are over all runs on all data sets. If there are more than two bands, only that of the best arm at
    the last value is drawn, the best of those with privacy if there are any. On a log x axis, the label of an arm with
    three points or more states its growth with a 95 % interval: the exponent of a power law if y is logarithmic too,
    else the growth per factor e.

    Where the curve of `compared_arm` crosses that of another arm with privacy, a mark shows the value, with a bar: a
    95 % interval over the runs, or the range over several data sets. Small print says which of the two is better on
    which side, and in how many data sets.

    x_title, symbol : the setting in words and as a symbol.
    compared_arm : its label; "" for the first arm with privacy.
    """
    log_y = result.metric is not None and result.metric.scale == "log"
    styles = style.arm_styles(result.arms)
    lines, best_label = _lines(result, styles, log_x, log_y)
    lines, notes = one_band(lines, best_label)
    # The arms with privacy, or all if there are none.
    labels = [label for label in result.curves if not styles[label].reference] or list(result.curves)
    if not compared_arm and labels:
        compared_arm = labels[0]
    better = "lower" if result.metric is None else result.metric.better
    crossings: list[_Crossing] = []
    for other in labels:
        if other != compared_arm:
            crossings_of_pair, sentences = _crossings(result, compared_arm, other, symbol, styles[other].color, better)
            crossings += crossings_of_pair
            notes += sentences
    crossings.sort(key=lambda crossing: crossing.mark.x)
    series = [result.series(label) for label in result.curves]  # values of the setting, and the sample of runs at each
    if any(len(sample) == 1 for _values, samples in series for sample in samples):
        notes.append("one run; results vary")
    figure = line_figure(
        [*lines, *_guesses(result)],
        Axes(x_title, result.metric.label if result.metric else "", log_x=log_x, log_y=log_y),
        not_private=style.privacy_mark({name: curve.privacy for name, curve in result.curves.items() if curve.values}),
        marks=[crossing.mark for crossing in crossings],
        notes=notes,
        if_empty="No point is finished yet." if result.curves else "Nothing here is released.",
        height=height + style.ROW * max(0, len(notes) - 1),
    )
    for trace in figure.data:
        if trace.name and trace.mode == "lines":  # bands and limits have no name
            trace.mode = "lines+markers"
    if any(crossing.low < crossing.high for crossing in crossings):  # the last trace has the marks
        to_right = [crossing.high - crossing.mark.x for crossing in crossings]
        to_left = [crossing.mark.x - crossing.low for crossing in crossings]
        bars = {"type": "data", "symmetric": False, "array": to_right, "arrayminus": to_left, "thickness": 1}
        figure.data[-1].error_x = bars
    return figure


def along_budget(
    result: SweepResult,
    styles: Mapping[str, ArmStyle],
    x_title: str,
    verticals: Sequence[VerticalLine],
    ends: tuple[float, float],
    *,
    level: tuple[str, float] | None = None,
    bound: tuple[str, np.ndarray, np.ndarray] | None = None,
    height: int = style.HEIGHT,
) -> Drawing:
    """Return a figure of the metric's median at every budget of a sweep that may still run.

    The axis has its range from the start. Results are dots while some points are missing, then lines with a band as in
    `metric_by_setting`.

    verticals : lines such as one at the present budget. ends : smallest and largest budget, the range of the axis.
    level : label and final value of an arm without privacy, drawn as a level line.
    bound : label of an arm, budgets (k,), and a bound on its metric at each (k,).
    """
    log_y = result.metric is not None and result.metric.scale == "log"
    lines, best_label = _lines(result, styles, log_x=False, log_y=log_y)  # log_x=False: names without the growth
    is_complete = result.finished == result.points
    lines = [replace(line, value_in_label=False, band=is_complete) for line in lines if len(line.x)]
    lines, notes = one_band(lines, best_label) if is_complete else (lines, [])
    dotted_names = {line.name for line in lines}
    if level is not None:
        level_label, final_value = level
        lines.append(Line(np.array(ends), np.full(2, final_value), level_label, styles[level_label]))
    if bound is not None:
        label, values, heights = bound
        bound_style = ArmStyle(styles[label].color, "dashdot")
        lines.append(Line(values, heights, f"bound, {label}", bound_style, width=1.0, value_in_label=False))
    drawing = line_drawing(
        lines,
        Axes(x_title, "" if result.metric is None else result.metric.label, log_x=True, log_y=log_y),
        not_private=style.privacy_mark({name: curve.privacy for name, curve in result.curves.items() if curve.values}),
        verticals=verticals,
        notes=notes,
        if_empty="No budget is finished yet.",
        height=height,
    )
    if drawing["data"]:
        low, high = math.log10(ends[0]) - _MARGIN, math.log10(ends[1]) + _MARGIN
        drawing["layout"]["xaxis"] |= {"range": [low, high]} | log_ticks(Range(low, high, log=True), across=True)
    for trace in drawing["data"]:
        names = trace.get("meta") or [trace.get("name")]  # several where lines coincide
        if dotted_names.intersection(names) and trace["mode"] == "lines":
            trace["mode"] = "lines+markers" if is_complete else "markers"
    return drawing


@dataclass(frozen=True)
class _Crossing:
    """A mark where two curves cross, at the median over the data sets, and the ends of an interval for it."""

    mark: Mark
    low: float
    high: float


def _crossings(
    result: SweepResult, one: str, other: str, symbol: str, color: str, better: str
) -> tuple[list[_Crossing], list[str]]:
    """Return the crossings of two arms' curves, and sentences that say which arm is better on which side.

    There are none if one arm is always better, which the curves show, and no marks if there are too many crossings or
    fewer than half of the data sets agree on the order.

    symbol : of the setting. color : of the marks. better : `better` of the metric: "lower", "higher", or "" if neither.
    """
    # `leaders` of an order : the better arms from left to right. `crossings` : (data sets, crossings) between them.
    orders = result.orders(one, other)  # whose leaders are the lower curves
    if better == "higher":
        swapped = {one: other, other: one}
        orders = tuple(replace(order, leaders=tuple(swapped[leader] for leader in order.leaders)) for order in orders)
    sets = sum(order.data_sets for order in orders)
    if not orders or (len(orders) == 1 and len(orders[0].leaders) < 2):
        return [], []  # one of them is always better, as the curves show
    usual_order, *rarer_orders = orders  # the order in most data sets comes first
    if len(usual_order.leaders) > MAX_CROSSINGS + 1:
        return [], [f"{one} and {other}: {len(usual_order.leaders) - 1} crossings, no clear order"]
    how_often = f" in {usual_order.data_sets} of {sets} data sets" if sets > 1 else ""
    word = "better" if better else "lower"
    sentences = [f"{sentence}{how_often}" for sentence in _sentences(usual_order, one, other, symbol, word)]
    sentences[-1] = "; ".join([sentences[-1], *(_in_short(order, symbol) for order in rarer_orders)])
    if len(usual_order.leaders) < 2 or 2 * usual_order.data_sets < sets:
        return [], sentences
    values, medians = result.medians(one)
    intervals = result.crossing_intervals(one, other)
    if len(intervals) != usual_order.crossings.shape[1]:  # several data sets have none: the range over these instead
        intervals = tuple((float(points.min()), float(points.max())) for points in usual_order.crossings.T)
    crossings = []
    for points, sentence, (low, high) in zip(usual_order.crossings.T, sentences, intervals, strict=True):
        point = float(np.median(points))
        mark = Mark(point, _height(values, medians, point), sentence, color, _about(symbol, points))
        crossings.append(_Crossing(mark, low, high))
    return crossings, sentences


def _sentences(order: Order, one: str, other: str, symbol: str, word: str) -> list[str]:
    """Return sentences on which of two arms is better on which side: one per crossing (two at most), one if none.

    word : "better", or "lower" for a metric that declares no better direction.
    """
    if not order.leaders:
        return [f"{one} is as good as {other} throughout"]
    best = order.leaders[0]
    worse = other if best == one else one
    if len(order.leaders) == 1:
        return [f"{best} is {word} than {worse} throughout"]
    if len(order.leaders) == 2:
        return [f"{best} is {word} than {worse} below {_about(symbol, order.crossings[:, 0])}"]
    # Over several data sets both ends may be ranges, "2 to 3".
    until = f"{'to' if order.data_sets == 1 else 'up to'} {_range_text(order.crossings[:, 1])}"
    return [
        f"{worse} is {word} than {best} from {_about(symbol, order.crossings[:, 0])} {until}",
        f"{best} is {word} than {worse} from {_about(symbol, order.crossings[:, 1])} on",
    ]


def _in_short(order: Order, symbol: str) -> str:
    """Return a few words on an order that holds on some of the data sets only."""
    if len(order.leaders) < 2:
        return f"{order.leaders[0] if order.leaders else 'no difference'} throughout in {order.data_sets}"
    if len(order.leaders) == 2:
        return f"{order.leaders[0]} below {_about(symbol, order.crossings[:, 0])} in {order.data_sets}"
    return f"several crossings in {order.data_sets}"


def _height(values: np.ndarray, medians: np.ndarray, point: float) -> float:
    """Return the height of a curve at `point`, interpolated between its points, in logarithms if these exist.

    values, medians : (k,) the curve, values ascending.
    """
    x, at = values, point
    if values[0] > 0:
        x, at = np.log(values), math.log(point)
    if medians.min() > 0:
        return float(np.exp(np.interp(at, x, np.log(medians))))
    return float(np.interp(at, x, medians))


def _lines(result: SweepResult, styles: Mapping[str, ArmStyle], log_x: bool, log_y: bool) -> tuple[list[Line], str]:
    """Return a line for each arm, and the label of the arm that is the best at its last value: one with privacy, if
    there is one with results; "" if no arm has results."""
    lines = [_line(result, label, styles[label], log_x, log_y) for label in result.curves]
    sign = -1 if result.metric is not None and result.metric.better == "higher" else 1
    candidates = [line for line in lines if len(line.y)]
    candidates = [line for line in candidates if not line.style.reference] or candidates
    ends = {line.group: sign * float(line.y[-1]) for line in candidates}
    return lines, min(ends, key=lambda label: ends[label], default="")


def _guesses(result: SweepResult) -> list[Line]:
    """Return a line with the value of the metric that the best constant guess reaches, the median over the data sets;
    empty if it is not recorded."""
    guesses_at: dict[float, list[float]] = {}
    for runs in result.guesses.point_runs:
        guesses_at.setdefault(runs.key.value, []).append(float(runs.samples[0]))  # one value per point
    if result.guess is None or not guesses_at:
        return []
    values = sorted(guesses_at)
    heights = np.array([np.median(guesses_at[value]) for value in values])
    return [Line(np.array(values), heights, result.guess.label, ArmStyle(style.GREY, "dot", reference=True), width=1.0)]


def _line(result: SweepResult, label: str, arm_style: ArmStyle, log_x: bool, log_y: bool) -> Line:
    """Return the line of one arm: medians over all runs, with the band from 10 to 90 %, named by label and growth."""
    values, samples = result.series(label)
    # With equal numbers of runs at all values one call computes all quantiles. No sample is nan: `quantiles` would
    # replace a nan by the sample at the value before.
    if len({len(sample) for sample in samples}) == 1:
        low, median, high = quantiles(np.array(samples)).T
    else:
        summaries = [quantiles(sample[None])[0] for sample in samples]
        low, median, high = np.array(summaries).reshape(-1, 3).T  # three empty arrays for no samples
    growth = _growth(result, label, log_y) if log_x else ""
    has_band = bool((high > low).any())  # replicates without noise agree: their band would show nothing
    return Line(
        values,
        median,
        f"{label}, {growth}" if growth else label,
        arm_style,
        low=low if has_band else None,
        high=high if has_band else None,
        group=label,
        value_in_label=not growth,
    )


def _growth(result: SweepResult, label: str, log_y: bool) -> str:
    """Return, for an arm's label, the slope of the law that is a straight line on these axes, with its 95 % interval.

    It is "" for fewer than three points. log_y : True on two log axes, where a power law is straight; False where only
    the x axis is logarithmic, and a log law is.
    """
    values, _ = result.medians(label)
    if len(values) < 3:
        return ""
    power, log = result.laws(label)  # None where a law cannot be fitted
    if log_y:
        return f"slope {slope_text(power)}" if power else ""
    return f"{slope_text(log)} per factor e" if log else ""


def slope_text(fit: Fit) -> str:
    """Return a slope with half the width of its 95 % interval as text: "-1.02 ± 0.03".

    It has two decimals, or as many as the first digit of the margin needs. Without a margin it is the slope alone.
    """
    if fit.margin is None or not _ROUNDING <= fit.margin < math.inf:
        return f"{fit.slope:z.2f}"  # z: no minus sign before a zero
    digits = max(2, -math.floor(math.log10(fit.margin)))
    return f"{fit.slope:z.{digits}f} ± {fit.margin:.{digits}f}"


def _about(symbol: str, numbers: np.ndarray) -> str:
    """Return "ε ≈ 2 to 3" for the numbers at which a crossing is in several data sets."""
    return f"{symbol} ≈ {_range_text(numbers)}".lstrip()


def _range_text(numbers: np.ndarray) -> str:
    """Return the lowest and the highest of the numbers with two significant digits, "2 to 3"; or "2" if they agree."""
    ends = [short(float(number), 2) for number in (numbers.min(), numbers.max())]
    return " to ".join(dict.fromkeys(ends))
