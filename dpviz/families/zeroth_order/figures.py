"""Figures that only this family has: noise along an epoch, what was seen of it, the parts of the bound, readings of
the budget, and of a run how long its gradients were and how stationary it became."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.experiments.plan import Plan
from dpviz.experiments.trace import Trace
from dpviz.families.zeroth_order.theory import Bound
from dpviz.numbers import short
from dpviz.plots.elements import style
from dpviz.plots.elements.lines import Limit, Line, Turn, line_figure
from dpviz.plots.elements.style import ArmStyle
from dpviz.privacy.accounting.closed_forms import gdp_epsilon, zcdp_epsilon

# The parts of the bound: word, colour, pattern. Colour is never alone.
PARTS = (
    ("way to go", style.PALETTE["private"], ""),
    ("learner's regret", style.PALETTE["theory"], "/"),
    ("oracle's error", style.PALETTE["second"], "x"),
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
        y_title="Noise of g_t, σ",
        log_y=True,
        if_empty="No method with epochs.",
        height=height,
    )


def watched(
    curves: Mapping[str, np.ndarray], styles: Mapping[str, ArmStyle], mu: float, *, height: int = style.HEIGHT
) -> go.Figure:
    """μ of what the first t steps of an epoch release, (T,) per method: less than the whole where sums are
    correlated."""
    lines = [Line(np.arange(1, len(seen) + 1), seen, label, styles[label]) for label, seen in curves.items()]
    return line_figure(
        lines,
        x_title="Steps t of an epoch that were watched",
        y_title="μ of what was released",
        log_y=False,
        from_zero=True,
        limits=[Limit(mu, f"whole run μ = {short(mu, 4)}")],
        if_empty="No method with epochs.",
        height=height,
    )


READINGS: Mapping[str, Callable[[float, float], float]] = {
    "exact": gdp_epsilon,
    "through zCDP": lambda mu, delta: zcdp_epsilon(mu**2 / 2, delta),
    "by the paper's formula": lambda mu, delta: mu**2 / 2 + mu * math.sqrt(2 * math.log(1 / delta)),
}
_DELTAS = np.geomspace(1e-10, 1e-2, 33)


def readings(mu: float, delta: float, *, height: int = style.HEIGHT) -> go.Figure:
    """ε of μ-GDP against δ: exactly (Dong, Roth, Su 2019), through zCDP (Canonne, Kamath, Steinke 2020), and by the
    formula that the paper takes, ε = μ²/2 + μ√(2 ln 1/δ) (Mironov 2017). The present δ is marked."""
    looks = (
        ArmStyle(style.PALETTE["private"], "solid"),
        ArmStyle(style.PALETTE["theory"], "dash"),
        ArmStyle(style.PALETTE["spent"], "dashdot"),
    )
    lines = [
        Line(_DELTAS, np.array([read(mu, one) for one in _DELTAS.tolist()]), name, look, value=False)
        for (name, read), look in zip(READINGS.items(), looks, strict=True)
    ]
    figure = line_figure(
        lines,
        x_title="δ",
        y_title="ε",
        log_y=False,
        log_x=True,
        from_zero=True,
        turns=[Turn(delta, f"δ = {short(delta)}")],
        height=height,
    )
    return figure.update_xaxes(tickvals=_DELTAS[::8], ticktext=[short(one) for one in _DELTAS[::8].tolist()], minor={})


def norms(
    trace: Trace, plans: Mapping[str, Plan], styles: Mapping[str, ArmStyle], *, height: int = style.HEIGHT
) -> go.Figure:
    """How long the noisy gradients of a run were, median over the runs, and thin how long their noise alone is by the
    plan, √d σ_t; both at the recorded steps. Methods without privacy are left out."""
    lines = []
    for label in (label for label, lane in trace.lanes.items() if lane.private):
        steps, values = trace.series(label, "noisy_gradient_norm")
        known = np.isfinite(values).all(axis=1) if len(values) else np.empty(0, dtype=bool)
        if known.any():
            steps, look = steps[known], styles[label]
            lines.append(Line(steps, np.median(values[known], axis=1), label, look))
            noise = math.sqrt(plans[label].facts.d) * next(iter(plans[label].noise.values()))[steps - 1]
            lines.append(Line(steps, noise, f"{label}, noise alone", look, width=1.0, group=label, legend=False))
    return line_figure(
        lines,
        x_title="Step t",
        y_title="Length of g_t; thin: of its noise",
        log_y=True,
        if_empty="No method with epochs.",
        height=height,
    )


def bound_parts(
    bounds: Mapping[str, Bound], lipschitz: float, condition: str = "", *, height: int = style.HEIGHT
) -> go.Figure:
    """The three parts of each method's bound, stacked; from the line at L on a bound says nothing. condition : what
    bounds rest on, to be said behind their name."""
    if not bounds:
        empty = "No bound is known for these methods and this function."
        return line_figure([], x_title=BOUND, y_title="", log_y=False, if_empty=empty, height=height)
    names = list(bounds)[::-1]  # the first on top
    each = [(one.travel, one.regret, one.oracle) for one in (bounds[name] for name in names)]
    traces = [_bars(names, np.array([parts[i] for parts in each]), *look) for i, look in enumerate(PARTS)]
    totals = [f"{name} {short(bounds[name].total)}" for name in bounds]
    pairs = [", ".join(totals[at : at + 2]) for at in range(0, len(totals), 2)]  # one line each, on a phone, too
    notes = [f"in all: {pairs[0]}", *pairs[1:], f"beyond the line at L = {short(lipschitz)} a bound says nothing"]
    frame = style.layout(f"{BOUND}{condition}", "", notes=notes, legend_entries=len(PARTS), height=height)
    frame["xaxis"] |= {"rangemode": "tozero"}
    frame["yaxis"] = {"type": "category", "categoryorder": "array", "categoryarray": names, "automargin": True}
    across = {"xref": "x", "yref": "paper"}
    line = {"color": style.PALETTE["spent"], "dash": "dashdot", "width": 1.5}
    frame["shapes"] = [across | {"type": "line", "x0": lipschitz, "x1": lipschitz, "y0": 0, "y1": 1, "line": line}]
    return go.Figure({"data": traces, "layout": frame | {"barmode": "stack", "hovermode": "closest"}})


def nothing(why: str) -> go.Figure:
    """A figure that says why there is none."""
    return line_figure([], x_title="", y_title="", log_y=False, if_empty=why)


def _bars(names: list[str], values: np.ndarray, word: str, color: str, pattern: str) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "x": values.astype(np.float32),
        "y": names,
        "name": word,
        "marker": {"color": color, "pattern": {"shape": pattern, "size": 6, "solidity": 0.3, "fillmode": "overlay"}},
        "hovertemplate": f"%{{y}}, {word}: %{{x:,.3~r}}<extra></extra>",
    }


def stationarity(
    trace: Trace, name: str, error: str, styles: Mapping[str, ArmStyle], *, height: int = style.HEIGHT
) -> go.Figure:
    """How stationary the averages of epochs are, where that was looked at: a metric, median over the runs, with a band
    of two of its standard errors, which another metric holds; median over the runs, too. Reads the raw data."""
    lines = []
    for label in trace.lanes:
        steps, values = trace.series(label, name)
        if len(values):
            middle = np.median(values, axis=1)
            beside = ERRORS * np.median(trace.series(label, error)[1], axis=1)
            lines.append(Line(steps, middle, label, styles[label], middle - beside, middle + beside))
    title = trace.metrics[name].label if name in trace.metrics else name
    return line_figure(
        lines,
        x_title="Step t",
        y_title=title,
        log_y=False,
        notes=["bands: two standard errors of the sample"] if lines else [],
        if_empty="Nothing has been looked at so far.",
        not_private=True,
        height=height,
    )
