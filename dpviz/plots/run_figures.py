"""Figures of runs: what happened on the data. Works on a trace that is still growing."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import numpy as np
import plotly.graph_objects as go

from dpviz.experiments.results import endings, quantiles
from dpviz.experiments.trace import Lane, Trace
from dpviz.plots import style
from dpviz.plots.lines import Line, Mark, line_figure
from dpviz.plots.style import ArmStyle

NONE: Mapping[str, np.ndarray] = MappingProxyType({})
NO_CEILINGS: Mapping[str, float] = MappingProxyType({})


def convergence(
    trace: Trace,
    metric_name: str,
    styles: Mapping[str, ArmStyle],
    *,
    x: Literal["iteration", "spent"] = "iteration",
    spent: Mapping[str, np.ndarray] = NONE,
    spent_title: str = "Privacy spent",
    ceilings: Mapping[str, float] = NO_CEILINGS,
    log_y: bool | None = None,
    overlays: Mapping[str, np.ndarray] = NONE,
    overlay_name: str = "bound",
    height: int = style.HEIGHT,
) -> go.Figure:
    """Median of a metric over the replicates, with a band from 10 to 90 %, for every arm that records it.

    With one replicate there is no band, and a note says so. Diverged replicates count with their last value.

    x, spent : draw against the privacy spent, (T+1,) per arm, instead of the step; arms without a finite one are left
    out. ceilings : the most that methods that stop by themselves may be charged: against the privacy spent, a thin
    level line leads there from what was charged. log_y : as the metric declares, if None. overlays (T+1,) per arm: thin
    lines, such as a bound or an exact curve, called overlay_name.
    """
    metric = trace.metrics.get(metric_name)
    lines: list[Line] = []
    reserves: list[Line] = []
    marks: list[Mark] = []
    alone = False
    for label in trace.lanes:
        axis = spent.get(label) if x == "spent" else None
        if x == "spent" and (axis is None or not np.isfinite(axis[-1])):
            continue
        iterations, values = trace.series(label, metric_name)
        if len(iterations):
            lines.append(_median(iterations, values, axis, label, styles[label]))
            marks += _stops(trace.lanes[label], lines[-1], iterations)
            if axis is not None and label in ceilings:
                reserves.append(_up_to(ceilings[label], lines[-1]))
        if label in overlays:
            lines.append(_overlay(overlays[label], axis, label, overlay_name, styles[label]))
        alone |= len(iterations) > 0 and values.shape[1] == 1
    notes = [f"thin lines: {overlay_name}"] if any(not line.legend for line in lines) else []
    notes += ["one run; results vary"] if alone else []
    notes += ["thin level lines: up to the ceiling, which is the guarantee"] if reserves else []
    return line_figure(
        [*lines, *reserves],
        x_title="Step t" if x == "iteration" else spent_title,
        y_title=_title(metric_name if metric is None else metric.label, metric is None or trace.released(metric)),
        log_y=(metric is not None and metric.scale == "log") if log_y is None else log_y,
        marks=marks,
        notes=notes,
        height=height,
    )


def _stops(lane: Lane, line: Line, iterations: np.ndarray) -> list[Mark]:
    """Where the median replicate of a method that stops by itself stopped, on its line."""
    found = endings(lane)
    if found is None or not found.finished or not np.isfinite(line.y).any():
        return []
    place = min(int(np.searchsorted(iterations, found.median_stop)), len(iterations) - 1)
    text = f"{line.name}: {found.describe()}"
    return [Mark(float(line.x[place]), float(line.y[place]), text, line.style.color)]


def _up_to(ceiling: float, line: Line) -> Line:
    """From the last point of a line, level, to the most that the method may be charged."""
    ends, name = np.array([line.x[-1], max(ceiling, line.x[-1])]), f"{line.name}, ceiling"
    return Line(ends, np.full(2, line.y[-1]), name, line.style, width=1.0, group=line.name, legend=False)


def _title(label: str, released: bool) -> str:
    """The axis title, which stays with the figure wherever it is exported to."""
    return label if released else f"{label}<br>(not private)"


def _median(iterations: np.ndarray, values: np.ndarray, axis: np.ndarray | None, label: str, look: ArmStyle) -> Line:
    low, median, high = quantiles(values).T
    several = bool((high > low).any())  # of noise-free replicates, which agree, a band would show nothing
    return Line(
        iterations if axis is None else axis[iterations],
        median,
        label,
        look,
        low=low if several else None,
        high=high if several else None,
    )


def _overlay(curve: np.ndarray, axis: np.ndarray | None, label: str, name: str, look: ArmStyle) -> Line:
    x = np.arange(len(curve)) if axis is None else axis[: len(curve)]
    return Line(x, curve, f"{label}, {name}", look, width=1.0, group=label, legend=False)
