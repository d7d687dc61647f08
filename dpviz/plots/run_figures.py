"""Figures of runs: what happened on the data. Works on a trace that is still growing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import numpy as np
import plotly.graph_objects as go

from dpviz.experiments.results import endings, headlined, quantiles
from dpviz.experiments.trace import ArmTrace, Trace
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.lines import Limit, Line, Mark, line_figure, one_band
from dpviz.plots.elements.multiples import small_multiples
from dpviz.plots.elements.style import ArmStyle

Axis = Literal["iteration", "spent"]
PANELS = 2  # panels side by side, in one of two charts
NONE: Mapping[str, np.ndarray] = MappingProxyType({})
NO_CEILINGS: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class _Curves:
    """Lines, marks and options of a figure of a run: arguments of `line_figure` and `small_multiples`."""

    lines: list[Line]
    marks: list[Mark]
    notes: list[str]
    axes: Axes
    not_private: bool | str


def convergence(
    trace: Trace,
    metric_name: str,
    styles: Mapping[str, ArmStyle],
    *,
    x: Axis = "iteration",
    spent: Mapping[str, np.ndarray] = NONE,
    spent_title: str = "Privacy spent",
    ceilings: Mapping[str, float] = NO_CEILINGS,
    log_y: bool | None = None,
    overlays: Mapping[str, np.ndarray] = NONE,
    overlay_name: str = "bound",
    bands: Literal["best", "all", "panels"] = "best",
    limits: Sequence[Limit] = (),
    height: int = style.HEIGHT,
) -> go.Figure:
    """Return a figure of a metric's median over the replicates for every arm that records it, with a band from 10 to 90
    %.

    With one replicate there is no band, and a note says so. Diverged replicates count with their last value.

    bands : where there are more than two, that of the best private arm, by the trace's first headline; or all; or one
        panel for each arm with its own, without overlays.
    x, spent : draw against the privacy spent, (T+1,) per arm, instead of the step; arms without a finite one are left
        out.
    ceilings : upper limits of the charge of methods that stop by themselves: against the privacy spent, a thin level
        line leads from the charge to its limit.
    log_y : as the metric declares, if None.
    overlays (T+1,) per arm: thin lines, such as a bound or an exact curve, called overlay_name. limits : values to
    point out.
    """
    curves = _curves(trace, metric_name, styles, x, spent, spent_title, log_y)
    lines, notes = curves.lines, curves.notes
    if bands == "panels":
        return small_multiples(lines, curves.axes, PANELS, notes=notes, not_private=curves.not_private)
    if bands == "best":
        lines, band_notes = one_band(lines, _best(trace, metric_name))
        notes = [*notes, *band_notes]
    thin = [
        _overlay(curve, spent.get(label) if x == "spent" else None, label, overlay_name, styles[label])
        for label, curve in overlays.items()
        if label in trace.lanes and (x == "iteration" or label in {line.name for line in curves.lines})
    ]
    level = [_up_to(ceilings[line.name], line) for line in lines if x == "spent" and line.name in ceilings]
    notes = [*([f"thin lines: {overlay_name}"] if thin else []), *notes]
    notes += ["thin level lines: up to the ceiling, which is the guarantee"] if level else []
    if x == "iteration":
        lines = _extend(trace, lines)
        curves.marks.extend(_dots(lines))
    guess = trace.guess(metric_name) if metric_name in trace.metrics else None
    limits = [*limits, *([] if guess is None else [Limit(guess[1], guess[0].label.lower())])]
    return line_figure(
        [*lines, *thin, *level],
        curves.axes,
        marks=curves.marks,
        notes=notes,
        limits=limits,
        not_private=curves.not_private,
        height=height,
    )


def _curves(
    trace: Trace,
    metric_name: str,
    styles: Mapping[str, ArmStyle],
    x: Axis,
    spent: Mapping[str, np.ndarray],
    spent_title: str,
    log_y: bool | None,
) -> _Curves:
    metric = trace.metrics.get(metric_name)
    lines: list[Line] = []
    marks: list[Mark] = []
    has_single_run = False
    for label, arm_trace in trace.lanes.items():
        axis = spent.get(label) if x == "spent" else None
        iterations, values = arm_trace.series(metric_name)
        if not len(iterations) or (x == "spent" and (axis is None or not np.isfinite(axis[-1]))):
            continue
        lines.append(_median(iterations, values, axis, label, styles[label]))
        marks += _stops(arm_trace, lines[-1], iterations)
        has_single_run |= values.shape[1] == 1
    log_y = (metric is not None and metric.scale == "log") if log_y is None else log_y
    title = metric_name if metric is None else metric.label
    axes = Axes("Step t" if x == "iteration" else spent_title, title, log_y=log_y)
    not_private = metric is not None and style.marked(trace.statuses(metric))
    return _Curves(lines, marks, ["one run; results vary"] if has_single_run else [], axes, not_private)


def _best(trace: Trace, metric_name: str) -> str:
    """Return the private arm with the lowest final median: of the trace's first headline, else of this metric."""
    name = next(iter(headlined(trace)), metric_name)
    private = {label: arm_trace for label, arm_trace in trace.lanes.items() if arm_trace.private}
    series = {label: arm_trace.series(name)[1] for label, arm_trace in private.items()}
    finals = {label: _final_median(values) for label, values in series.items() if len(values)}
    return min(finals, key=lambda label: np.nan_to_num(finals[label], nan=np.inf), default="")


def _final_median(values: np.ndarray) -> float:
    """Return the final median as `quantiles` does, but quicker where all replicates have a last value."""
    return float(np.median(values[-1]) if np.isfinite(values[-1]).all() else quantiles(values)[-1, 1])


def _stops(arm_trace: ArmTrace, line: Line, iterations: np.ndarray) -> list[Mark]:
    """Return a mark on the line where the median replicate of a method that stops by itself stopped, none for
    others."""
    stops = endings(arm_trace)
    if stops is None or not stops.finished or not np.isfinite(line.y).any():
        return []
    index = min(int(np.searchsorted(iterations, stops.median_stop)), len(iterations) - 1)
    text = f"{line.name}: {stops.describe()}"
    return [Mark(float(line.x[index]), float(line.y[index]), text, line.style.color)]


def _extend(trace: Trace, lines: Sequence[Line]) -> list[Line]:
    """Return the lines; one of a method that used all its steps, and has fewer than others, extends to the longest's
    end."""
    last = max((float(line.x[-1]) for line in lines), default=0.0)

    def extend(line: Line) -> Line:
        name = f"{line.name}, stops at T = {int(line.x[-1]):,}"
        return replace(line, name=name, names=(line.name,), group=line.name, until=last)

    used_all = {label for label, arm_trace in trace.lanes.items() if set(arm_trace.status) == {"exhausted"}}
    return [extend(line) if line.x[-1] < last and line.name in used_all else line for line in lines]


def _dots(lines: Sequence[Line]) -> list[Mark]:
    """Return marks at the ends of lines that are extended."""
    ends = [line for line in lines if line.until]
    return [Mark(float(line.x[-1]), float(line.y[-1]), line.name, line.style.color, symbol="circle") for line in ends]


def _up_to(ceiling: float, line: Line) -> Line:
    """Return a level line from the last point of a line to the ceiling of the method's charge."""
    ends, name = np.array([line.x[-1], max(ceiling, line.x[-1])]), f"{line.name}, ceiling"
    return Line(ends, np.full(2, line.y[-1]), name, line.style, width=1.0, group=line.name, legend=False)


def _median(
    iterations: np.ndarray, values: np.ndarray, axis: np.ndarray | None, label: str, arm_style: ArmStyle
) -> Line:
    low, median, high = quantiles(values).T
    has_band = bool((high > low).any())  # replicates without noise agree: their band would show nothing
    return Line(
        iterations if axis is None else axis[iterations],
        median,
        label,
        arm_style,
        low=low if has_band else None,
        high=high if has_band else None,
    )


def _overlay(curve: np.ndarray, axis: np.ndarray | None, label: str, name: str, arm_style: ArmStyle) -> Line:
    x = np.arange(len(curve)) if axis is None else axis[: len(curve)]
    return Line(x, curve, f"{label}, {name}", arm_style, width=1.0, group=label, legend=False)
