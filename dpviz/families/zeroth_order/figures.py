"""Figures that only this family has: noise along an epoch, the parts of the bound, and how stationary a run became."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.experiments.plan import Plan
from dpviz.experiments.trace import Trace
from dpviz.families.zeroth_order.theory import Bound
from dpviz.numbers import short
from dpviz.plots import style
from dpviz.plots.lines import Line, line_figure
from dpviz.plots.style import ArmStyle

# The parts of the bound: word, colour, pattern. Colour is never alone.
PARTS = (
    ("way to go", style.PALETTE["private"], ""),
    ("learner's regret", style.PALETTE["theory"], "/"),
    ("oracle's error, twice", style.PALETTE["second"], "x"),
)
BOUND = "Bound on ‖∇F(w̄)‖ within r + R_w"
ERRORS = 2.0  # standard errors on both sides


def noise_of_an_epoch(
    plans: Mapping[str, Plan], styles: Mapping[str, ArmStyle], *, height: int = style.HEIGHT
) -> go.Figure:
    """Standard deviation of the noise on each coordinate of g_t, for the steps t of one epoch; all epochs are alike.

    Methods without epochs, and without privacy, are left out.
    """
    lines = []
    for label, plan in plans.items():
        if plan.private and "epoch_length" in plan.resolved:
            noise = next(iter(plan.noise.values()))[: int(plan.resolved["epoch_length"])]
            lines.append(Line(np.arange(1, len(noise) + 1), noise, label, styles[label], value=False))
    return line_figure(
        lines,
        x_title="Step t of an epoch",
        y_title="Noise on each coordinate of g_t, σ",
        log_y=True,
        if_empty="No method with epochs.",
        height=height,
    )


def bound_parts(bounds: Mapping[str, Bound], lipschitz: float, *, height: int = style.HEIGHT) -> go.Figure:
    """The three parts of each method's bound, stacked; from the line at L on a bound says nothing."""
    if not bounds:
        empty = "No bound is known for these methods and this function."
        return line_figure([], x_title=BOUND, y_title="", log_y=False, if_empty=empty, height=height)
    names = list(bounds)[::-1]  # the first on top
    each = [(one.travel, one.regret, one.oracle) for one in (bounds[name] for name in names)]
    traces = [_bars(names, np.array([parts[i] for parts in each]), *look) for i, look in enumerate(PARTS)]
    totals = [f"{name} {short(bounds[name].total)}" for name in bounds]
    frame = style.layout(BOUND, "", notes=[f"in all: {', '.join(totals)}"], legend_entries=len(PARTS), height=height)
    frame["xaxis"] |= {"rangemode": "tozero"}
    frame["yaxis"] = {"type": "category", "categoryorder": "array", "categoryarray": names, "automargin": True}
    across = {"xref": "x", "yref": "paper"}
    line = {"color": style.PALETTE["spent"], "dash": "dashdot", "width": 1.5}
    frame["shapes"] = [across | {"type": "line", "x0": lipschitz, "x1": lipschitz, "y0": 0, "y1": 1, "line": line}]
    words = {"text": f"L = {short(lipschitz)}: says nothing beyond", "font": {"size": style.SMALL}}
    place = {"x": lipschitz, "y": 0, "xanchor": "left", "yanchor": "bottom", "xshift": 3, "showarrow": False}
    frame["annotations"] += [across | words | place]
    return go.Figure({"data": traces, "layout": frame | {"barmode": "stack", "hovermode": "closest"}})


def _bars(names: list[str], values: np.ndarray, word: str, color: str, pattern: str) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "x": values.astype(np.float32),
        "y": names,
        "name": word,
        "marker": {"color": color, "pattern": {"shape": pattern, "size": 6, "solidity": 0.2}},
        "hovertemplate": f"%{{y}}, {word}: %{{x:,.3~r}}<extra></extra>",
    }


def stationarity(
    trace: Trace, styles: Mapping[str, ArmStyle], *, smoothed: bool, height: int = style.HEIGHT
) -> go.Figure:
    """How stationary the average of an epoch is, against steps, where it was looked at. Reads the raw data.

    smoothed : the estimate of ‖∇F̂_r‖, median over the runs, with a band of two standard errors of the sample of rows
    that it is computed from, median over the runs; else the bound on the Goldstein stationarity.
    """
    name = "smoothed_gradient_norm" if smoothed else "stationarity_bound"
    lines = []
    for label in trace.lanes:
        steps, values = trace.series(label, name)
        if not len(values):
            continue
        middle, low, high = np.median(values, axis=1), None, None
        if smoothed:
            error = ERRORS * np.median(trace.series(label, "smoothed_gradient_error")[1], axis=1)
            low, high = middle - error, middle + error
        lines.append(Line(steps, middle, label, styles[label], low, high))
    title = trace.metrics[name].label if name in trace.metrics else name
    return line_figure(
        lines,
        x_title="Step t",
        y_title=title,
        log_y=False,
        from_zero=not smoothed,
        notes=["bands: two standard errors of the sample"] if smoothed and lines else [],
        if_empty="Nothing has been looked at so far.",
        not_private=True,
        height=height,
    )
