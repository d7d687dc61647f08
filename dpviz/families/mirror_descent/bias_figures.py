"""Figures of what drawing few vertices does to gradients of a game and to values: bias, spread, rare deviations."""

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from dpviz.families.mirror_descent import sampling_bias, theory
from dpviz.families.mirror_descent.sampling_bias import SamplingBias
from dpviz.plots.elements import style
from dpviz.plots.elements.lines import Line, line_figure
from dpviz.plots.elements.style import ArmStyle
from dpviz.problems.games.games import GameFacts

MEASURED = "measured ± 2 standard errors"
ROUNDING = 1e-15  # what is not above is 0
NOT_PRIVATE = "<br>(not private)"  # stays with the axis wherever the figure is exported to


def gradient_bias(measured: SamplingBias, facts: GameFacts, *, height: int = style.HEIGHT) -> go.Figure:
    """Bias of gradients against the draws that they take: measured, its two bounds, and that of the bias-reduced
    oracle, which at 2 E 2^N draws on average has the bias of 2^{M+1}."""
    simplices, draws = (facts.d_x > 1) + (facts.d_y > 1), measured.draws.astype(float)
    lines = []
    if 0 < facts.second_smoothness < math.inf:
        second = 2 * simplices * facts.second_smoothness / draws
        lines.append(Line(draws, second, "bound by L₂", ArmStyle(style.PALETTE["theory"], "dash")))
    if facts.smoothness > 0 and facts.second_smoothness > 0:
        first = 4 * math.sqrt(simplices) * facts.smoothness / np.sqrt(draws)
        lines.append(Line(draws, first, "bound by L₁", ArmStyle(style.PALETTE["theory"], "dot")))
    lines += _points(measured, "private", MEASURED)
    levels = [(k, int(size)) for k, size in enumerate(measured.draws) if size >= 2 and size & (size - 1) == 0]
    if levels and (measured.mean > ROUNDING).any():
        cost = np.array([2 * theory.mean_batches(int(size).bit_length() - 2) for _, size in levels])
        bias = measured.mean[[k for k, _ in levels]]
        reduced = ArmStyle(style.PALETTE["second"], "solid")
        lines.append(
            Line(cost[bias > ROUNDING], bias[bias > ROUNDING], "bias-reduced oracle, draws on average", reduced)
        )
    return _marked(lines, measured, f"Bias of the gradients{NOT_PRIVATE}", height)


def gradient_spread(measured: SamplingBias, *, height: int = style.HEIGHT) -> go.Figure:
    """Second moment of the error of x's gradient against the draws: measured, and its bound."""
    lines = []
    if (measured.bound > 0).all():
        bound = ArmStyle(style.PALETTE["theory"], "dash")
        lines.append(Line(measured.draws.astype(float), measured.bound, "bound", bound))
    lines += _points(measured, "private", MEASURED)
    return _marked(lines, measured, f"Mean squared error of x's gradient{NOT_PRIVATE}", height)


def tails(draws: Sequence[int], *, height: int = style.HEIGHT) -> go.Figure:
    """Probability that drawn vertices overshoot a value by so much: exact for a linear function, and Lemma 3.2."""
    excess = np.linspace(0.01, 1.0, 200)
    colors = (style.PALETTE["private"], style.PALETTE["second"], style.PALETTE["spent"], style.PALETTE["theory"])
    lines = []
    for color, size in zip(colors, draws, strict=False):
        exact, bound = sampling_bias.tail(size, excess)
        shown = exact > 1e-9
        lines.append(Line(excess[shown], exact[shown], f"K = {size}", ArmStyle(color, "solid")))
        lines.append(Line(excess[bound > 1e-9], bound[bound > 1e-9], f"bound, K = {size}", ArmStyle(color, "dash")))
    return line_figure(lines, x_title="Excess α", y_title="Probability", log_y=True, height=height)


def _points(measured: SamplingBias, color: str, name: str) -> list[Line]:
    shown = measured.mean > ROUNDING
    if not shown.any():
        return []
    look = ArmStyle(style.PALETTE[color], "solid")
    return [Line(measured.draws[shown].astype(float), measured.mean[shown], name, look)]


def _marked(lines: list[Line], measured: SamplingBias, title: str, height: int) -> go.Figure:
    """With markers and bars of two standard errors on the measured values; what is 0 or below has no place here."""
    shown = measured.mean > ROUNDING
    notes = [] if shown.all() else [f"{(~shown).sum()} measured at 0 or below, not shown"]
    figure = line_figure(
        lines,
        x_title="Draws K",
        y_title=title,
        log_y=True,
        log_x=True,
        notes=notes,
        if_empty="Gradients are linear in what is drawn: nothing is biased.",
        height=height,
    )
    mean, spread = measured.mean[shown], 2 * measured.standard_error[shown]
    below = np.minimum(spread, 0.99 * mean).astype(np.float32)
    bars = {"type": "data", "symmetric": False, "array": spread.astype(np.float32), "arrayminus": below}
    figure.update_traces({"mode": "markers", "error_y": bars}, selector={"name": MEASURED})
    return figure
