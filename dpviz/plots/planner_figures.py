"""Figures of settings only, never of data: the budget planner's what-ifs, what an attacker can do under a guarantee,
and the start page's story.
"""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.numbers import short, short_up
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.lines import Limit, Line, Mark, line_figure, staircases
from dpviz.plots.elements.style import ArmStyle
from dpviz.plots.plan_figures import accountant_lines
from dpviz.privacy.accounting.accountants import Method

MAX_NAME = 28  # letters next to a bar
_NOISE = ArmStyle(style.PALETTE["private"], "solid")
_THEORY = ArmStyle(style.PALETTE["theory"], "solid")


def noise_by_steps(steps: np.ndarray, scales: np.ndarray, present: tuple[int, float], symbol: str) -> go.Figure:
    """Return a figure of the noise scale in every mean against the number of steps that share the budget.

    steps, scales : (k,) numbers of steps, and the scale for each; where it is nan, no plan exists, and the line has a
        gap.
    present : the present number of steps and its scale, which are marked.
    """
    indices = np.flatnonzero(np.isfinite(scales))
    before_gaps = np.flatnonzero(np.diff(indices) > 1)
    parts = np.split(indices, before_gaps + 1)  # the pieces of the line between gaps
    pieces = [(steps[part], scales[part]) for part in parts]
    lines = [Line(*piece, "noise in every mean", _NOISE, legend=False, value_in_label=False) for piece in pieces]
    lines[-1] = replace(lines[-1], legend=True)  # with a label at the last piece only
    count, scale = present
    mark = Mark(float(count), scale, f"T = {count:,}: {symbol} = {short(scale)}", style.PALETTE["spent"])
    return line_figure(lines, Axes("Steps T", f"Noise scale {symbol}", log_x=True, log_y=True), marks=[mark])


def noise_by_rows(rows: np.ndarray, scales: np.ndarray, target: float, needed: int, symbol: str) -> go.Figure:
    """Return a figure of the noise scale in every mean against the number of rows n, of which a batch is a fixed share.

    target, needed : the wanted scale, and the number of rows that it needs, which are marked.
    """
    mark = Mark(float(needed), target, f"n = {needed:,}", style.PALETTE["spent"])
    return line_figure(
        [Line(rows, scales, "noise in every mean", _NOISE, value_in_label=False)],
        Axes("Rows n", f"Noise scale {symbol}", log_x=True, log_y=True),
        limits=[Limit(target, f"wanted: {short(target)}")],
        marks=[mark],
    )


def dropped_rows(per_person: np.ndarray, shares: np.ndarray, present: tuple[int, float]) -> go.Figure:
    """Return a figure of the share of rows that are dropped [%] against the number that is kept of each person.

    per_person, shares : (k,) numbers of rows, and the share for each. present : the present ones, which are marked.
    """
    k, share = present
    mark = Mark(float(k), share, f"k = {k:,}: {short(share)} %", style.PALETTE["spent"])
    line = Line(per_person, shares, "rows that are dropped", _THEORY, value_in_label=False)
    return line_figure([line], Axes("Rows kept of a person, k", "Rows dropped [%]", log_x=True), marks=[mark])


def spent_by_steps(
    steps: np.ndarray,
    curves: Mapping[Method, np.ndarray],
    delta: float,
    limit: float | None = None,
    affordable: int | None = None,
) -> go.Figure:
    """Return a figure of the ε at δ that t steps with a given noise spend, by every accountant; the tightest is bold.

    curves : by accountant, (k,) ε after each of the steps (k,).
    limit : the budget, if it is an ε at this δ. affordable : the number of steps that the budget pays for.
    """
    empty_text = "No accountant gives a finite ε for this noise."
    lines = accountant_lines(steps, curves)
    return _against_budget(lines, f"ε at δ = {short_up(delta, 4)}", "ε", limit, affordable, empty_text)


def budget_by_steps(
    steps: np.ndarray, spent: np.ndarray, title: str, symbol: str, limit: float, affordable: int
) -> go.Figure:
    """Return a figure of the privacy that t steps with a given noise spend, in the currency of the budget.

    spent : (k,) the privacy spent after each of the steps (k,).
    title, symbol : title of the vertical axis, and symbol of the currency.
    limit, affordable : the budget, and the number of steps that it pays for, which are marked.
    """
    # A staircase, which is never below the amount at the steps between those that were computed.
    lines = staircases([Line(steps, spent, "spent by this noise", _NOISE)]) if np.isfinite(spent).all() else []
    empty_text = "This noise has no guarantee in the currency of the budget."
    return _against_budget(lines, title, symbol, limit, affordable, empty_text)


def _against_budget(
    lines: list[Line], title: str, symbol: str, limit: float | None, affordable: int | None, empty: str
) -> go.Figure:
    """Return the figure of `spent_by_steps` and `budget_by_steps`: lines, the budget, and the step that uses it up."""
    marks = []
    if limit is not None and affordable:
        marks.append(Mark(float(affordable), limit, f"the budget lasts {affordable:,} steps", style.PALETTE["spent"]))
    return line_figure(
        lines,
        Axes("Steps t", title, from_zero=True, bound="upper"),
        limits=[] if limit is None else [Limit(limit, f"budget {symbol} = {short_up(limit, 4)}")],
        marks=marks,
        if_empty=empty,
    )


def bars(values: Mapping[str, float], title: str, best: str = "", unit: str = "") -> go.Figure:
    """Return a figure of horizontal bars with their values, the first on top.

    The axis is linear from zero, so that lengths can be compared. best : name of the bar to highlight.
    """
    colors = [style.PALETTE["private"] if name == best else style.GREY for name in values]
    bar = _bar(values, unit) | {"marker": {"color": colors}, "showlegend": False}
    return go.Figure({"data": [bar], "layout": _bar_layout([values], title, height_per_name=34)})


def grouped_bars(kinds: Mapping[str, Mapping[str, float]], title: str, unit: str = "") -> go.Figure:
    """Return a figure of horizontal bars in groups: for each name one bar of every kind. The axis is linear from zero.

    kinds : by kind, the values by name; all kinds have the same names.
    """
    colors = (style.GREY, style.PALETTE["theory"], style.PALETTE["spent"])
    data = [
        _bar(values, unit) | {"name": kind, "marker": {"color": color}}
        for (kind, values), color in zip(kinds.items(), colors, strict=False)  # there are up to three
    ]
    layout = _bar_layout(list(kinds.values()), title, height_per_name=17 * len(kinds) + 8, legend_entries=len(kinds))
    return go.Figure({"data": data, "layout": layout | {"barmode": "group"}})


def _bar_layout(
    kinds: Sequence[Mapping[str, float]], title: str, height_per_name: int, legend_entries: int = 0
) -> dict[str, Any]:
    """Return the layout of horizontal bars of one kind or several, all with the same names.

    height_per_name : pixels of all bars of one name; 90 more are for margins and axis.
    """
    names = list(kinds[0])
    layout = style.layout(
        Axes(title, ""),
        legend_entries=legend_entries,
        height=max(220, height_per_name * len(names) + 90 + (30 if legend_entries else 0)),
    )
    short_names = [name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…" for name in names]
    tick_texts = [html.escape(name, quote=False) for name in short_names]
    layout["yaxis"] = {"type": "category", "autorange": "reversed", "automargin": True}
    layout["yaxis"] |= {"tickmode": "array", "tickvals": list(range(len(names))), "ticktext": tick_texts}
    highest = max((value for kind in kinds for value in kind.values() if math.isfinite(value)), default=0.0)
    layout["xaxis"] |= {"range": [0.0, 1.06 * highest or 1.0]}  # to 1 where no bar has a length
    layout["hovermode"] = "closest"
    return layout


def _bar(values: Mapping[str, float], unit: str) -> dict[str, Any]:
    """Return horizontal bars with their values. Markup in a name, which a stranger may have written, stays text."""
    return {
        "type": "bar",
        "orientation": "h",
        "x": np.array(list(values.values()), dtype=np.float32),
        "y": np.array(list(values)),
        "text": [f"{short_up(value)}{unit}" for value in values.values()],
        "textposition": "auto",
        "constraintext": "none",  # else it shrinks with thin bars
        "hovertext": [html.escape(name, quote=False) for name in values],
        "hovertemplate": "%{hovertext}: %{text}<extra></extra>",
    }


def proven_error(
    x: np.ndarray, bounds: np.ndarray, x_title: str, title: str, target: float, mark: tuple[float, float, str] | None
) -> go.Figure:
    """Return a figure of the smallest proven error against the budget, or against the number of rows.

    x, bounds : (k,) budgets or rows, and the error for each.
    target : the wanted error, drawn as a limit. mark : coordinates and text of a point to mark.
    """
    marks = [] if mark is None else [Mark(*mark, color=style.PALETTE["spent"])]
    return line_figure(
        [Line(x, bounds, "bound at the best number of steps", _THEORY, value_in_label=False)],
        Axes(x_title, f"Bound on the {title}", log_x=True, log_y=True, bound="upper"),
        limits=[Limit(target, f"wanted: {short(target)}")],
        marks=marks,
    )


# False positive rates at which curves are evaluated; denser near 0, where trade-off curves are steep.
RATES = np.concatenate([np.linspace(0.0, 0.05, 51), np.linspace(0.06, 1.0, 95)])


def tradeoff(guarantee: np.ndarray, plan: np.ndarray | None = None, name: str = "the noise below") -> go.Figure:
    """Return a figure of the best attacker's false negative rate against the false positive rate: the trade-off curve.

    No attack lies below the curve, and guessing is on the diagonal.

    guarantee : lowest false negative rates at RATES that the guarantee allows.
    plan, name : lowest rates that the noise of a plan allows, None without a plan, and the name of this curve.
    """
    curves = {"any algorithm with this guarantee": (guarantee, ArmStyle(style.PALETTE["spent"], "solid"))}
    if plan is not None:
        curves[name] = plan, ArmStyle(style.PALETTE["private"], "dash")
    return attackers(curves)


LOW_HEIGHT = 250  # pixels: the chart is next to bars, with a legend below it


def attackers(curves: Mapping[str, tuple[np.ndarray, ArmStyle]]) -> go.Figure:
    """Return a figure of trade-off curves, by name: lowest false negative rates at the false positive rates RATES, and
    the style of each. The diagonal is guessing."""
    guessing = Line(RATES, 1 - RATES, "guessing", ArmStyle(style.GREY, "dot"), width=1.5)
    return line_figure(
        [guessing, *(Line(RATES, missed, name, arm_style) for name, (missed, arm_style) in curves.items())],
        Axes("False positive rate", "False negative rate", from_zero=True),
        labels=False,  # all lines end in the same corner
        height=LOW_HEIGHT,
    )


def hundred_cases(right: Mapping[str, float]) -> go.Figure:
    """Return a figure of 100 marks, one for each case, in colours that say who is right about it.

    right : two or three numbers of cases, from 50 to 100, by who is right about them, in ascending order; the first is
        guessing. Fractions are rounded up. A case has the colour of the first who is right about it.
    """
    attacker_count = len(right) - 1  # one or two
    attacker_colors = [style.PALETTE["private"], style.PALETTE["spent"]][-attacker_count:]  # one has the last
    colors = [style.GREY, *attacker_colors, "rgba(0,0,0,0)"]  # of guessing, the attackers, and nobody
    ends = [*(min(100, math.ceil(count - 1e-9)) for count in right.values()), 100]  # 1e-9: up to rounding errors
    starts = [0, *ends[:-1]]
    kinds = list(zip([*right, "never"], starts, ends, colors, strict=True))
    layout = style.layout(Axes("", "People"), legend_entries=len(kinds), height=LOW_HEIGHT)
    hidden = {"visible": False, "fixedrange": True}
    layout["xaxis"] |= hidden | {"range": [-0.6, 19.6]}  # five rows of 20 marks
    layout["yaxis"] |= hidden | {"range": [4.6, -0.6]}
    layout["hovermode"] = "closest"
    data = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": np.arange(start, end, dtype=np.int16) % 20,
            "y": np.arange(start, end, dtype=np.int16) // 20,
            "name": f"{name}: {end - start}",
            "marker": {"symbol": "circle", "color": color, "size": 13, "line": {"color": style.GREY, "width": 1}},
            "hovertemplate": f"{name}<extra></extra>",
        }
        for name, start, end, color in kinds
        if end > start
    ]
    return go.Figure({"data": data, "layout": layout})


def positions(groups: Mapping[str, Sequence[tuple[float, str]]], here: float | None, title: str) -> go.Figure:
    """Return a figure of the budgets of known deployments as marks on a logarithmic axis.

    groups : by unit of protection and model of trust, a row each, in no order: the budgets, each with a text on its
        deployment. here : the visitor's budget, as a line through all rows; no line for None, and for 0, which is not
        on the axis. title : of the axis.
    """
    layout = style.layout(Axes(title, "Protected, model", log_x=True), legend_entries=0, height=45 * len(groups) + 110)
    ticks = {"tickmode": "array", "tickvals": list(range(len(groups))), "ticktext": list(groups)}
    # The first group is on top.
    layout["yaxis"] |= {"range": [len(groups) - 0.5, -0.5], "automargin": True, "zeroline": False} | ticks
    layout["hovermode"] = "closest"
    if here:
        line = {"color": style.PALETTE["spent"], "width": 2, "dash": "dash"}
        layout["shapes"] = [{"type": "line", "x0": here, "x1": here, "y0": 0, "y1": 1, "yref": "paper", "line": line}]
        # Plotly takes logarithms for texts, but plain numbers for shapes.
        label = {"x": math.log10(here), "y": 1, "yref": "paper", "yanchor": "bottom", "showarrow": False}
        layout["margin"] = layout["margin"] | {"t": 32}
        layout["annotations"] = [*layout["annotations"], label | {"text": f"yours: {short_up(here)}"}]
    data = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": np.array([value for value, _ in marks], dtype=np.float32),
            "y": np.full(len(marks), row, dtype=np.int16),
            "name": group,
            "marker": {"color": style.PALETTE["theory"], "size": 9, "symbol": "circle-open", "line": {"width": 2}},
            "hovertext": [html.escape(text, quote=False) for _, text in marks],
            "hovertemplate": "%{hovertext}<extra></extra>",
        }
        for row, (group, marks) in enumerate(groups.items())
    ]
    return go.Figure({"data": data, "layout": layout})


HEIGHT = 300  # pixels
# Styles of the densities on two neighbouring data sets.
TWO_STYLES = (ArmStyle(style.PALETTE["private"], "solid"), ArmStyle(style.PALETTE["spent"], "dash"))


def two_densities(
    x: np.ndarray, densities: tuple[np.ndarray, np.ndarray], names: tuple[str, str], x_title: str
) -> go.Figure:
    """Return a figure of the probability densities of a release on two neighbouring data sets, as filled curves.

    Where they overlap, the release cannot tell one data set from the other.

    x : (k,) values of the release. densities : (k,) each; they are divided by their maximum, which holds the axis still
        while the noise changes.
    """
    highest = max(density.max() for density in densities)
    shares = [density / highest for density in densities]
    lines = [
        Line(x, share, name, arm_style, low=np.zeros_like(share), high=share, value_in_label=False)
        for share, name, arm_style in zip(shares, names, TWO_STYLES, strict=True)
    ]
    return line_figure(lines, Axes(x_title, "Likelihood, highest = 1", from_zero=True), labels=False, height=HEIGHT)


def price(epsilons: np.ndarray, bounds: np.ndarray, start: float, here: tuple[float, float], title: str) -> go.Figure:
    """Return a figure of the price of privacy: the proven error `bounds` (k,) against ε (k,), on log axes.

    start : largest error of the starting point. here : the present ε and its error, which are marked.
    """
    epsilon, error = here
    text = f"You are here: ε = {short_up(epsilon)}, {short_up(error)}"
    figure = line_figure(
        [Line(epsilons, bounds, "bound at the best number of steps", TWO_STYLES[0], value_in_label=False)],
        Axes("Privacy budget ε", title, log_x=True, log_y=True, bound="upper"),
        limits=[Limit(start, f"without a step: {short_up(start)}")],
        marks=[Mark(epsilon, error, text, style.PALETTE["spent"])],
        labels=False,  # the chart is narrow, next to two others
        height=HEIGHT,
    )
    # The text is below the point; left of it if the point is right of the middle of the log axis, √(first · last).
    is_right = epsilon**2 > epsilons[0] * epsilons[-1]
    figure.add_annotation(
        x=math.log10(epsilon),
        y=math.log10(error),
        text="you are here",
        showarrow=False,
        xanchor="right" if is_right else "left",
        xshift=-8 if is_right else 0,
        yshift=-16,
    )
    return figure
