"""Figures of an audit: results of an attack, and the limits that the claimed guarantee sets to every attack."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from dpviz.numbers import short, short_up
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.lines import Limit, Line, Mark, Turn, line_figure, turned
from dpviz.plots.elements.style import ArmStyle, with_opacity
from dpviz.plots.planner_figures import RATES

_CLAIM = ArmStyle(style.PALETTE["spent"], "dash")
_ATTACK = ArmStyle(style.PALETTE["private"], "solid")
_PLANNED = ArmStyle(style.PALETTE["theory"], "longdash")
_GUESSING = ArmStyle(style.GREY, "dot")
_MEASURED = ArmStyle(style.PALETTE["private"], "dot")
_WORLDS = (style.PALETTE["private"], style.PALETTE["spent"])
_MARKS = (style.PALETTE["private"], style.PALETTE["theory"])  # colours of the attacker's threshold, and the visitor's


def roc(
    true_rates: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    claim: np.ndarray,
    planned: np.ndarray,
    thresholds: Mapping[str, tuple[float, float]],
) -> go.Figure:
    """Return a figure of true against false positive rate of an attack at every threshold, with its band.

    All arrays at RATES. true_rates, low, high : measured rates, and the band at each threshold by itself.
    claim : largest rates that the claim allows any attack; rates above, which would refute it, are shaded.
    planned : largest rates that the noise of the plan allows, which may be less than the claim does.
    thresholds : points (false, true positive rate) by the name of who chose the threshold.
    """
    lines = [
        Line(RATES, RATES, "guessing", _GUESSING, width=1.5),
        Line(RATES, claim, "most that the claim allows", _CLAIM, low=claim, high=np.ones(len(RATES))),
        Line(RATES, true_rates, "this attack", _ATTACK, low=low, high=high),
    ]
    if not np.allclose(planned, claim):
        lines.insert(2, Line(RATES, planned, "most that the planned noise allows", _PLANNED))
    marks = [
        Mark(x, y, f"{name}: {short(100 * y)} % caught, {short(100 * x)} % false alarms", color)
        for (name, (x, y)), color in zip(thresholds.items(), _MARKS, strict=False)
    ]
    return line_figure(
        lines,
        Axes("False positive rate", "True positive rate", from_zero=True),
        marks=marks,
        notes=["shaded: would refute the claim"],
        labels=False,  # all end in the same corner
        height=style.HEIGHT,
    )


def rising_bound(
    runs: np.ndarray,
    bounds: np.ndarray,
    estimates: np.ndarray,
    upper: np.ndarray,
    claim: float,
    symbol: str,
    refuted_at: int | None = None,
) -> go.Figure:
    """Return a figure of the proven lower bound on ε or μ against the number of runs on each data set, with the claim.

    runs (k,), ascending : at each look. bounds : proven bound at each. estimates, upper : the same number without its
    margin of error, and with the margin upwards; infinite where the event was never seen on one side. symbol : "ε" or
    "μ".
    refuted_at : number of runs after which the claim was refuted.
    """
    finite = np.isfinite(estimates)
    cap = 2 * max([claim, *bounds.tolist(), *estimates[finite].tolist()])
    notes = ["band cut at the top"] if (upper[finite] > cap).any() else []
    notes += [] if finite.all() else ["measured: infinite where no false alarm was seen"]
    middle = np.where(finite, estimates, np.nan)
    lines = [
        Line(runs, middle, "measured", _MEASURED, low=bounds, high=np.minimum(upper, cap), width=1.5),
        Line(runs, bounds, "proven", _ATTACK, width=3.0),
    ]
    return line_figure(
        lines,
        Axes("Runs on each data set", f"Lower bound on {symbol}", log_x=True, from_zero=True, bound="lower"),
        limits=[Limit(claim, f"claimed {symbol} = {short_up(claim)}")],
        turns=[] if refuted_at is None else [Turn(float(refuted_at), f"refuted after {refuted_at:,} runs")],
        notes=notes,
        height=style.ALONE,
    )


def scores(edges: np.ndarray, shares: Mapping[str, np.ndarray], thresholds: Mapping[str, float]) -> go.Figure:
    """Return a figure of how often each score of the attacker was seen in both worlds, with thresholds as vertical
    lines.

    edges (k+1,) : of the bins. shares : (k,) of the runs in each bin, by the name of the world. thresholds : by the
    name of who chose them.
    """
    centres = ((edges[1:] + edges[:-1]) / 2).round(6)
    frame = style.layout(Axes("Score of a run", "Share of runs", from_zero=True), legend_entries=len(shares))
    frame |= {"barmode": "overlay", "bargap": 0.0}
    texts, shapes = turned([Turn(threshold, name) for name, threshold in thresholds.items()])
    for index, text in enumerate(texts):
        text["yshift"] -= 16 * index  # for thresholds close to each other
        if text["x"] > (edges[0] + edges[-1]) / 2:
            text |= {"xanchor": "right", "xshift": -3}
    frame["annotations"] += texts
    frame["shapes"] += shapes
    bars = [
        {
            "type": "bar",
            "x": centres,
            "y": np.asarray(share, dtype=np.float32),
            "name": name,
            "marker": {"color": with_opacity(color, 0.55), "line": {"width": 0}},
            "hovertemplate": "%{y:.2%}",
        }
        for (name, share), color in zip(shares.items(), _WORLDS, strict=True)
    ]
    return go.Figure({"data": bars, "layout": frame})
