"""Figures of runs: metrics of all arms over the steps or the privacy spent. They can be drawn while a run goes on."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Literal

import numpy as np
import plotly.graph_objects as go

from dpviz.experiments.results import endings, headline_metrics, quantiles
from dpviz.experiments.trace import Trace
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.lines import Limit, Line, Mark, line_figure, one_band
from dpviz.plots.elements.multiples import small_multiples
from dpviz.plots.elements.style import ArmStyle

PANELS = 2  # number of panels side by side, in a chart of half the page's width
NO_OVERLAYS: Mapping[str, np.ndarray] = MappingProxyType({})
NO_CEILINGS: Mapping[str, float] = MappingProxyType({})


def convergence(
    trace: Trace,
    metric_name: str,
    styles: Mapping[str, ArmStyle],
    *,
    positions: Mapping[str, np.ndarray] | None = None,
    x_title: str = "",
    ceilings: Mapping[str, float] = NO_CEILINGS,
    overlays: Mapping[str, np.ndarray] = NO_OVERLAYS,
    overlay_name: str = "bound",
    bands: Literal["best", "all", "panels"] = "best",
    limits: Sequence[Limit] = (),
    height: int = style.HEIGHT,
) -> go.Figure:
    """Return a figure of a metric's median over the replicates, with a band from 10 to 90 %, for every arm with it.

    With one replicate there is no band, and a note says so. Diverged replicates count with their last value.

    positions, x_title : by label, (T+1,) the position along the horizontal axis after each step, such as the privacy
        spent, and the title of this axis; None to draw against the step. Arms whose last position is missing or
        infinite are left out.
    ceilings : by label of a method that stops by itself, the most privacy that it can spend. In a figure against the
        privacy spent, a thin level line leads from the line's end to it.
    overlays, overlay_name : by label, (T+1,) a thin line such as a bound or an exact curve, and what it is.
    bands : "best" draws, where there are more than two bands, only that of the best private arm; "all" draws all;
        "panels" draws one panel for each arm, with its band, and no overlays.
    limits : horizontal lines at values to point out.
    """
    if metric_name not in trace.metrics:  # no arm has a value yet
        return line_figure([], Axes("Step t", metric_name), height=height)
    metric = trace.metrics[metric_name]
    lines, marks, has_single_run = _medians(trace, metric_name, styles, positions)
    notes = ["one run; results vary"] if has_single_run else []
    axes = Axes("Step t" if positions is None else x_title, metric.label, log_y=metric.scale == "log")
    not_private = style.privacy_mark(trace.privacy_by_arm(metric))
    if bands == "panels":
        return small_multiples(lines, axes, columns=PANELS, notes=notes, not_private=not_private)
    drawn_labels = {line.name for line in lines}  # not of arms without a position
    if bands == "best":
        lines, band_notes = one_band(lines, _best(trace, metric_name))
        notes += band_notes
    thin_lines = []
    overlay_labels = trace.arm_traces.keys() if positions is None else drawn_labels
    for label, curve in overlays.items():
        if label in overlay_labels:
            x = np.arange(len(curve)) if positions is None else positions[label][: len(curve)]
            y, name = curve[: len(x)], f"{label}, {overlay_name}"  # a method may have stopped before its theory does
            thin_lines.append(Line(x, y, name, styles[label], width=1.0, group=label, legend=False))
    if thin_lines:
        notes = [f"thin lines: {overlay_name}", *notes]
    if positions is None:
        lines = _extend(trace, lines)
        for line in lines:
            if line.until:  # extended: a dot where its own points end
                end = float(line.x[-1]), float(line.y[-1])
                marks.append(Mark(*end, line.full_name, line.style.color, symbol="circle"))
    else:
        level_lines = [_up_to(ceilings[line.name], line) for line in lines if line.name in ceilings]
        if level_lines:
            thin_lines += level_lines
            notes.append("thin level lines: up to the ceiling, which is the guarantee")
    guess = trace.guess(metric_name)  # of the best constant
    if guess is not None:
        guess_metric, guess_value = guess
        limits = [*limits, Limit(guess_value, guess_metric.label.lower())]
    return line_figure(
        [*lines, *thin_lines], axes, marks=marks, notes=notes, limits=limits, not_private=not_private, height=height
    )


def _medians(
    trace: Trace, metric_name: str, styles: Mapping[str, ArmStyle], positions: Mapping[str, np.ndarray] | None
) -> tuple[list[Line], list[Mark], bool]:
    """Return a metric's medians as lines, with bands from 10 to 90 %; marks at the median step at which the replicates
    of an arm stopped by themselves; and true if one of the medians is that of a single run."""
    lines: list[Line] = []
    marks: list[Mark] = []
    has_single_run = False
    for label, arm_trace in trace.arm_traces.items():
        iterations, values = arm_trace.series(metric_name)
        if not len(iterations):
            continue
        x = iterations
        if positions is not None:
            if label not in positions or not np.isfinite(positions[label][-1]):
                continue  # such as privacy spent that is unknown or infinite
            x = positions[label][iterations]
        low, median, high = quantiles(values).T
        has_band = bool((high > low).any())  # replicates without noise agree: their band would show nothing
        line = Line(x, median, label, styles[label], low=low if has_band else None, high=high if has_band else None)
        lines.append(line)
        has_single_run |= values.shape[1] == 1  # one column per replicate
        stops = endings(arm_trace)
        if stops is not None and stops.finished and np.isfinite(median).any():
            # The first record at the median stop or after it; the last one if the records do not reach it.
            index = min(int(np.searchsorted(iterations, stops.median_stop)), len(iterations) - 1)
            text = f"{label}: {stops.describe()}"
            marks.append(Mark(float(line.x[index]), float(median[index]), text, line.style.color))
    return lines, marks, has_single_run


def _best(trace: Trace, metric_name: str) -> str:
    """Return the label of the private arm with the best final median; "" without one, or without a better direction.

    It is the median of the most telling metric of the trace, so that the same arm is the best in every figure of a run;
    or of `metric_name` if the trace declares no such metric.
    """
    name = [*headline_metrics(trace), metric_name][0]
    better = trace.metrics[name].better
    if not better:
        return ""
    finals: dict[str, float] = {}
    for label, arm_trace in trace.arm_traces.items():
        _, values = arm_trace.series(name)
        if arm_trace.private and len(values):
            # Where all last values are finite, their median is the same number as by `quantiles`, but quicker.
            is_finite = np.isfinite(values[-1]).all()
            median = float(np.median(values[-1]) if is_finite else quantiles(values)[-1, 1])  # column 1: 50 %
            finals[label] = -median if better == "higher" else median
    return min(finals, key=lambda label: (math.isnan(finals[label]), finals[label]), default="")


def _extend(trace: Trace, lines: Sequence[Line]) -> list[Line]:
    """Return the lines, where a method that has used all of its steps, but fewer than others, is extended by a level
    line to the end of the longest, so that the ends can be compared."""
    last_step = max((float(line.x[-1]) for line in lines), default=0.0)
    used_all = {label for label, arm_trace in trace.arm_traces.items() if set(arm_trace.status) == {"exhausted"}}
    return [
        replace(line, until=last_step) if line.x[-1] < last_step and line.name in used_all else line for line in lines
    ]


def _up_to(ceiling: float, line: Line) -> Line:
    """Return a thin level line from the end of a line to `ceiling`, the most privacy that its method can spend."""
    ends, name = np.array([line.x[-1], max(ceiling, line.x[-1])]), f"{line.name}, ceiling"
    return Line(ends, np.full(2, line.y[-1]), name, line.style, width=1.0, group=line.name, legend=False)
