"""Figures of an audit: results of an attack, and the limits that the claimed guarantee sets to every attack."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from dpviz.numbers import short, short_up
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.lines import Limit, Line, Mark, VerticalLine, line_figure, vertical_line_parts
from dpviz.plots.elements.style import ArmStyle, with_opacity
from dpviz.plots.planner_figures import RATES

_CLAIM = ArmStyle(style.PALETTE["spent"], "dash")
_ATTACK = ArmStyle(style.PALETTE["private"], "solid")
_PLANNED = ArmStyle(style.PALETTE["theory"], "longdash")
_GUESSING = ArmStyle(style.GREY, "dot")
_MEASURED = ArmStyle(style.PALETTE["private"], "dot")
_DATA_SET_COLORS = (style.PALETTE["private"], style.PALETTE["spent"])  # of the scores on each data set
_MARK_COLORS = (style.PALETTE["private"], style.PALETTE["theory"])  # of the attacker's threshold, and the visitor's


def roc(
    true_rates: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    claim: np.ndarray,
    planned: np.ndarray,
    thresholds: Mapping[str, tuple[float, float]],
) -> go.Figure:
    """Return a figure of an attack's true positive rate against its false positive rate, with a band.

    All arrays are true positive rates at the false positive rates RATES.

    true_rates, low, high : measured rates, and the ends of their confidence band, for each threshold by itself.
    claim : largest rates that the claimed guarantee allows any attack; the rates above, which would refute it, are
        shaded.
    planned : largest rates that the noise of the plan allows, which may be less than the claim does.
    thresholds : points (false positive rate, true positive rate) to mark, by the name of who chose the threshold.
    """
    lines = [
        Line(RATES, RATES, "guessing", _GUESSING, width=1.5),
        Line(RATES, claim, "most that the claim allows", _CLAIM, low=claim, high=np.ones(len(RATES))),
        Line(RATES, true_rates, "this attack", _ATTACK, low=low, high=high),
    ]
    if not np.allclose(planned, claim):
        lines.insert(2, Line(RATES, planned, "most that the planned noise allows", _PLANNED))  # below the attack
    marks = [
        Mark(x, y, f"{name}: {short(100 * y)} % caught, {short(100 * x)} % false alarms", color)
        for (name, (x, y)), color in zip(thresholds.items(), _MARK_COLORS, strict=False)  # up to two thresholds
    ]
    return line_figure(
        lines,
        Axes("False positive rate", "True positive rate", from_zero=True),
        marks=marks,
        notes=["shaded: would refute the claim"],
        labels=False,  # all end in the same corner
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

    runs : (k,) ascending numbers of runs after which the audit computed a bound.
    bounds, estimates, upper : (k,) the proven lower bound on ε or μ, the estimate without a margin of error, and the
        estimate plus the margin; the last two are infinite where the attack's event was never seen on one of the data
        sets.
    claim, symbol : the claimed number, and "ε" or "μ".
    refuted_at : number of runs after which the claim was refuted; None if it was not.
    """
    finite = np.isfinite(estimates)
    cap = 2 * max([claim, *bounds.tolist(), *estimates[finite].tolist()])  # a higher band would squeeze the lines
    notes = []
    if (upper[finite] > cap).any():
        notes.append("band cut at the top")
    if not finite.all():
        notes.append("measured: infinite where no false alarm was seen")
    middle = np.where(finite, estimates, np.nan)
    lines = [
        Line(runs, middle, "measured", _MEASURED, low=bounds, high=np.minimum(upper, cap), width=1.5),
        Line(
            runs, np.maximum.accumulate(bounds), "proven", _ATTACK, width=3.0
        ),  # all hold together, and so does their maximum
    ]
    return line_figure(
        lines,
        Axes("Runs on each data set", f"Lower bound on {symbol}", log_x=True, from_zero=True, bound="lower"),
        limits=[Limit(claim, f"claimed {symbol} = {short_up(claim)}")],
        verticals=[] if refuted_at is None else [VerticalLine(float(refuted_at), f"refuted after {refuted_at:,} runs")],
        notes=notes,
        height=style.ALONE,
    )


def scores(edges: np.ndarray, shares: Mapping[str, np.ndarray], thresholds: Mapping[str, float]) -> go.Figure:
    """Return a histogram of the attacker's scores on each of the two data sets, with thresholds as vertical lines.

    edges : (k+1,) edges of the bins.
    shares : by the name of the data set, (k,) the shares of the runs whose score is in each bin.
    thresholds : scores, by the name of who chose them.
    """
    centres = ((edges[1:] + edges[:-1]) / 2).round(6)
    layout = style.layout(Axes("Score of a run", "Share of runs", from_zero=True), legend_entries=len(shares))
    layout |= {"barmode": "overlay", "bargap": 0.0}
    texts, shapes = vertical_line_parts([VerticalLine(threshold, name) for name, threshold in thresholds.items()])
    for index, text in enumerate(texts):
        text["yshift"] -= 16 * index  # one below the other, as thresholds may be close to each other
        if text["x"] > (edges[0] + edges[-1]) / 2:  # there is room to the left of the line
            text |= {"xanchor": "right", "xshift": -3}
    layout["annotations"] += texts
    layout["shapes"] += shapes
    bars = [
        {
            "type": "bar",
            "x": centres,
            "y": np.asarray(share, dtype=np.float32),
            "name": name,
            "marker": {"color": with_opacity(color, 0.55), "line": {"width": 0}},
            "hovertemplate": "%{y:.2%}",
        }
        for (name, share), color in zip(shares.items(), _DATA_SET_COLORS, strict=True)
    ]
    return go.Figure({"data": bars, "layout": layout})
