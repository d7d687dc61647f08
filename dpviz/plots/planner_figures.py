"""Figures of the budget planner's what-ifs. They need settings only, never data."""

import html
from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from dpviz.numbers import short
from dpviz.plots.elements import style
from dpviz.plots.elements.lines import Limit, Line, Mark, line_figure
from dpviz.plots.elements.style import ArmStyle
from dpviz.plots.plan_figures import METHOD_STYLES
from dpviz.privacy.accounting.accountants import METHOD_NAMES, Method

LONGEST_NAME = 28  # letters beside a bar
_OWN = ArmStyle(style.PALETTE["private"], "solid")
_THEORY = ArmStyle(style.PALETTE["theory"], "solid")


def noise_by_steps(steps: np.ndarray, scales: np.ndarray, chosen: tuple[int, float], symbol: str) -> go.Figure:
    """Noise scale in every mean against the number of steps that share the budget; the chosen number is marked. Where
    no plan exists, scales are NaN, and the line has a gap."""
    known = np.flatnonzero(np.isfinite(scales))
    parts = np.split(known, np.flatnonzero(np.diff(known) > 1) + 1)
    mark = Mark(
        float(chosen[0]), chosen[1], f"T = {chosen[0]:,}: {symbol} = {short(chosen[1])}", style.PALETTE["spent"]
    )
    return line_figure(
        [
            Line(steps[part], scales[part], "noise in every mean", _OWN, legend=i + 1 == len(parts), value=False)
            for i, part in enumerate(parts)
        ],
        x_title="Number of steps T",
        y_title=f"Noise scale {symbol}",
        log_y=True,
        log_x=True,
        marks=[mark],
    )


def noise_by_rows(rows: np.ndarray, scales: np.ndarray, target: float, needed: int, symbol: str) -> go.Figure:
    """Noise scale against the number of rows, at the same share per batch; where it meets the target is marked."""
    mark = Mark(float(needed), target, f"n = {needed:,}", style.PALETTE["spent"])
    return line_figure(
        [Line(rows, scales, "noise in every mean", _OWN, value=False)],
        x_title="Rows n",
        y_title=f"Noise scale {symbol}",
        log_y=True,
        log_x=True,
        limits=[Limit(target, f"wanted: {short(target)}")],
        marks=[mark],
    )


def spent_by_steps(
    steps: np.ndarray,
    curves: Mapping[Method, np.ndarray],
    delta: float,
    limit: float | None = None,
    affordable: int | None = None,
) -> go.Figure:
    """ε at δ of a given noise after t steps, by every accountant; the tightest at the end is bold.

    limit : the budget, where it is an ε at this δ; affordable : the steps that it lasts.
    """
    tightest = min(curves, key=lambda method: curves[method][-1], default=None)
    lines = [
        Line(
            steps,
            curve,
            METHOD_NAMES[method] + (" (tightest)" if method == tightest else ""),
            METHOD_STYLES[method],
            width=4.0 if method == tightest else 1.5,
        )
        for method, curve in curves.items()
    ]
    empty = "No accountant gives a finite ε for this noise."
    return _against_budget(lines, f"ε at δ = {short(delta, 4)}", "ε", limit, affordable, empty)


def budget_by_steps(
    steps: np.ndarray, spent: np.ndarray, title: str, symbol: str, limit: float, affordable: int
) -> go.Figure:
    """What a given noise has spent after t steps, in the number that the budget limits, and the steps that it lasts."""
    lines = [Line(steps, spent, "spent by this noise", _OWN)] if np.isfinite(spent).all() else []
    empty = "This noise has no guarantee in the currency of the budget."
    return _against_budget(lines, title, symbol, limit, affordable, empty)


def _against_budget(
    lines: list[Line], title: str, symbol: str, limit: float | None, affordable: int | None, empty: str
) -> go.Figure:
    marks = []
    if limit is not None and affordable:
        marks.append(Mark(float(affordable), limit, f"the budget lasts {affordable:,} steps", style.PALETTE["spent"]))
    return line_figure(
        lines,
        x_title="Steps t",
        y_title=title,
        log_y=False,
        from_zero=True,
        limits=[] if limit is None else [Limit(limit, f"budget {symbol} = {short(limit, 4)}")],
        marks=marks,
        if_empty=empty,
    )


def bars(values: Mapping[str, float], title: str, best: str = "", unit: str = "") -> go.Figure:
    """Horizontal bars with their values, the first on top; the `best` one stands out. No logarithm, so that lengths
    compare."""
    names = list(values)
    colors = [style.PALETTE["private"] if name == best else style.GREY for name in names]
    frame = style.layout(title, "", legend_entries=0, height=max(220, 34 * len(names) + 90))
    # A name may come from a link or a file: it is text, and no link.
    literal = [html.escape(name, quote=False) for name in names]
    cut = [name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…" for name in names]
    shown = [html.escape(name, quote=False) for name in cut]
    frame["yaxis"] = {"type": "category", "autorange": "reversed", "automargin": True}
    frame["yaxis"] |= {"tickmode": "array", "tickvals": list(range(len(names))), "ticktext": shown}
    frame["xaxis"] = frame.get("xaxis", {}) | {"rangemode": "tozero"}
    frame["hovermode"] = "closest"
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": np.array(list(values.values()), dtype=np.float32),
        "y": np.array(names),
        "marker": {"color": colors},
        "text": [f"{short(value)}{unit}" for value in values.values()],
        "textposition": "auto",
        "hovertext": literal,
        "hovertemplate": "%{hovertext}: %{text}<extra></extra>",
        "showlegend": False,
    }
    return go.Figure({"data": [trace], "layout": frame})


def error_by_budget(
    amounts: np.ndarray, bounds: np.ndarray, symbol: str, title: str, target: float, needed: float | None
) -> go.Figure:
    """The smallest proven error against the size of the budget; the smallest budget that meets the target is marked."""
    marks = []
    if needed is not None:
        marks.append(Mark(needed, target, f"{symbol} = {short(needed)}", style.PALETTE["spent"]))
    return line_figure(
        [
            Line(
                amounts,
                bounds,
                "bound at the best number of steps",
                ArmStyle(style.PALETTE["theory"], "solid"),
                value=False,
            )
        ],
        x_title=f"Budget {symbol}",
        y_title=f"Bound on the {title}",
        log_y=True,
        log_x=True,
        limits=[Limit(target, f"wanted: {short(target)}")],
        marks=marks,
    )
