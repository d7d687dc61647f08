"""Figures of sweeps: the outcome of an experiment against one of its settings. Works on a sweep that is under way."""

import math

import numpy as np
import plotly.graph_objects as go

from dpviz.experiments import sweep
from dpviz.experiments.results import quantiles
from dpviz.experiments.sweep import Fit, SweepResult
from dpviz.plots import style
from dpviz.plots.lines import Line, Mark, line_figure
from dpviz.plots.style import ArmStyle

MOST_CROSSOVERS = 2  # of two arms; more are noise
_ROUNDING = 1e-9  # an error below is that of the arithmetic: without noise the law is exact
_NOTE_HEIGHT, _LEGEND_HEIGHT = 14, 20  # pixels of a line of small print, and of a row of the legend


def against(
    result: SweepResult,
    x_title: str,
    y_title: str = "",
    *,
    symbol: str = "",
    compared: str = "",
    log_x: bool = True,
    log_y: bool | None = None,
    height: int = style.HEIGHT,
) -> go.Figure:
    """Median of the metric at every value of the sweep, with a band from 10 to 90 %, for every arm.

    On a log x axis the legend gives each arm's growth, from three points on: the exponent of a power law where y is
    logarithmic too, else the growth per factor e. Where the curve of the arm `compared` crosses another one, a mark
    shows the value, and small print says who is better on which side.

    x_title, symbol : the setting in words and as a symbol; y_title : as the metric says, if empty. compared : the first
    arm, if empty. log_y : as the metric declares, if None.
    """
    log_y = (result.metric is not None and result.metric.scale == "log") if log_y is None else log_y
    styles = style.arm_styles(result.arms)
    lines = [_line(result, label, styles[label], log_x, log_y) for label in result.curves]
    compared = compared or next(iter(result.curves))
    found = [
        _crossings(result, compared, other, symbol, styles[other].color) for other in result.curves if other != compared
    ]
    marks = sorted((mark for crossing, _ in found for mark in crossing), key=lambda mark: mark.x)
    notes = [sentence for _, sentences in found for sentence in sentences]
    alone = any(len(samples) == 1 for label in result.curves for samples in result.series(label)[1])
    notes += ["one run; results vary"] if alone else []
    long_names = sum(line.name != line.group for line in lines)
    figure = line_figure(
        lines,
        x_title=x_title,
        y_title=y_title or _metric_title(result),
        log_x=log_x,
        log_y=log_y,
        marks=marks,
        notes=notes,
        if_empty="No point is finished yet.",
        height=height + _NOTE_HEIGHT * max(0, len(notes) - 1) + _LEGEND_HEIGHT * max(0, long_names - 2),
    )
    for trace in figure.data:
        if trace.name and trace.mode == "lines":
            trace.mode = "lines+markers"
    if marks:  # drawn last; what hovering shows is also written beside them and above the axes
        figure.data[-1].update(
            mode="markers+text",
            hovertext=figure.data[-1].text,
            hovertemplate="%{hovertext}<extra></extra>",
            text=[_about(symbol, mark.x) for mark in marks],
            textposition=[("top center", "bottom center")[i % 2] for i in range(len(marks))],
        )
    return figure


def _crossings(result: SweepResult, one: str, other: str, symbol: str, color: str) -> tuple[list[Mark], list[str]]:
    values, first, second = result.shared(one, other)
    places = sweep.crossovers(values, first, second)
    if len(places) > MOST_CROSSOVERS:
        return [], [f"{one} and {other}: {len(places)} crossings, no clear order"]
    marks: list[Mark] = []
    for number, place in enumerate(places):
        start = np.flatnonzero((values < place) & (first != second))[-1]
        left, right = (one, other) if first[start] < second[start] else (other, one)
        if len(places) == 1:
            sentence = f"{left} is better than {right} below {_about(symbol, place)}"
        else:
            until = f" to {_round(places[number + 1])}" if number + 1 < len(places) else " on"
            sentence = f"{right} is better than {left} from {_about(symbol, place)}{until}"
        marks.append(Mark(place, _height(values, first, place), sentence, color))
    return marks, [mark.text for mark in marks]


def _height(values: np.ndarray, medians: np.ndarray, place: float) -> float:
    """The curve's height at a place between its points, straight in logarithms if they exist."""
    x, at = (np.log(values), math.log(place)) if values[0] > 0 else (values, place)
    if medians.min() > 0:
        return float(np.exp(np.interp(at, x, np.log(medians))))
    return float(np.interp(at, x, medians))


def _line(result: SweepResult, label: str, look: ArmStyle, log_x: bool, log_y: bool) -> Line:
    values, samples = result.series(label)
    bands = np.array([quantiles(found[None])[0] for found in samples]).reshape(-1, 3)
    low, median, high = bands.T
    growth = _growth(values, samples, log_y) if log_x else ""
    several = bool((high > low).any())  # of noise-free replicates, which agree, a band would show nothing
    return Line(
        values,
        median,
        f"{label}, {growth}" if growth else label,
        look,
        low=low if several else None,
        high=high if several else None,
        group=label,
    )


def _growth(values: np.ndarray, samples: list[np.ndarray], log_y: bool) -> str:
    """The law that is a straight line on these axes, with its error; empty for fewer than three points."""
    if len(values) < 3:
        return ""
    if log_y:
        return f"slope {_with_error(found)}" if (found := sweep.power_law(values, samples)) else ""
    return f"{_with_error(found)} per factor e" if (found := sweep.log_law(values, samples)) else ""


def _with_error(fit: Fit) -> str:
    """The slope as many digits as its error allows: two after the point, or as many as show the error's first."""
    if fit.error is None or fit.error < _ROUNDING:
        return f"{fit.slope:.2f}"
    digits = max(2, -math.floor(math.log10(fit.error)))
    return f"{fit.slope:.{digits}f} ± {fit.error:.{digits}f}"


def _metric_title(result: SweepResult) -> str:
    """The axis title, which stays with the figure wherever it is exported to."""
    if result.metric is None:
        return ""
    return result.metric.label if result.metric.released else f"{result.metric.label}<br>(not private)"


def _about(symbol: str, number: float) -> str:
    return f"{symbol} ≈ {_round(number)}".lstrip()


def _round(number: float) -> str:
    """Two significant digits, without an exponent where that is readable."""
    return f"{float(f'{number:.2g}'):,.12g}"
