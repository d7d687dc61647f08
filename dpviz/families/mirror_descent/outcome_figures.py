"""Figures of what a run of a game released: strategies over the rounds, marginals beside the true ones, and what each
group really loses, beside what the game plays for and what is possible without privacy.
"""

import html
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.experiments.trace import Trace
from dpviz.families.mirror_descent.figures import ROUND
from dpviz.numbers import short
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.chart import Chart, chart, provenance
from dpviz.plots.elements.lines import MAX_POINTS, Line, area, line_figure
from dpviz.plots.elements.style import ArmStyle

_PATTERNS = ("", "/", ".", "x", "-")
_LINE = 64  # characters of a name that fit on a line of a legend; what needs more than two lines is cut
_SHORT_NAME = 16  # characters of which three names fit side by side


def strategies(
    path: Sequence[np.ndarray] | np.ndarray,
    iterations: Sequence[int] | np.ndarray,
    name: Callable[[int], str] | None = None,
    top: int = 10,
) -> go.Figure:
    """Stacked areas of one player's strategy against the round: the `top` vertices by final weight, then the others.

    path : (k, d) weights that sum to 1 in each row, such as the first replicate's averages; may be shorter than
    `iterations` where it was not kept. name : of a vertex by its number from 0; "vertex 1" and so on if None.
    """
    kept = min(len(path), len(iterations))
    if not kept:
        return line_figure([], Axes(ROUND, "Weight"), if_empty="The strategies were too large to keep.")
    shown = np.unique(np.linspace(0, kept - 1, min(kept, MAX_POINTS)).round().astype(int))
    weights = np.stack([path[i] for i in shown])
    rounds = np.asarray(iterations)[shown].astype(np.int32)
    order = np.argsort(-weights[-1], kind="stable")[:top]
    layer = partial(area, rounds, group="strategy", digits=3)
    traces, longest, lines = [], 0, 0
    for i, j in enumerate(order.tolist()):
        called = f"vertex {j + 1:,}" if name is None else name(j)
        longest, lines = max(longest, len(called)), lines + len(_lines(called))
        color, pattern = style.HUES[i % len(style.HUES)], _PATTERNS[i // len(style.HUES) % len(_PATTERNS)]
        traces.append(layer(weights[:, j], plain(called), color, pattern))
    others = weights.shape[1] - len(order)
    if others:
        rest = np.maximum(weights.sum(axis=1) - weights[:, order].sum(axis=1), 0.0)
        traces.append(layer(rest, f"{others:,} other{'s' if others > 1 else ''}", style.GREY, ""))
    # Three short names share a line of the legend; long ones take one each, or two.
    entries = 3 * (lines + bool(others)) if longest > _SHORT_NAME else len(traces)
    frame = style.layout(Axes(ROUND, "Weight"), legend_entries=entries)
    frame["yaxis"] |= {"range": [0, 1]}
    return go.Figure({"data": traces, "layout": frame})


def mixtures(trace: Trace, styles: Mapping[str, ArmStyle], height: int, privacy: str) -> Chart:
    """Weights of the strategies in the mixture that each method would release now, heaviest first, on log axes, down
    to a tenth of an even share: medians over the runs; thin for y. privacy : what may be published, for the caption.
    """
    lines = []
    for label, lane in trace.lanes.items():
        for name, width in (("x", 2.0), ("y", 1.0)):
            if name in lane.output and lane.output[name].shape[1] > 1:
                weights = np.median(np.sort(lane.output[name], axis=1)[:, ::-1], axis=0)
                weights = weights[weights >= 0.1 / len(weights)]
                line = Line(np.arange(1, len(weights) + 1), weights, label, styles[label], width=width, value=False)
                lines.append(line if name == "x" else replace(line, name=f"{label}, y", group=label, legend=False))
    drawn = line_figure(
        lines,
        Axes("Strategies, the heaviest first", "Weight in the mixture", log_x=True, log_y=True),
        notes=["thin lines: player y"] if any(line.width < 2 for line in lines) else [],
        height=height,
    )
    return chart(
        drawn,
        "Mixed strategies",
        "Weight of each strategy in the mixture, the heaviest first, one line per method and player",
        f"What the players play on average: medians of the ordered weights. {privacy}",
        provenance=provenance(lane.privacy for lane in trace.lanes.values()),
    )


def plain(text: str) -> str:
    """A name from the data as plotly must be given it: in lines, and with nothing that reads as a tag ("<=50K, >")."""
    return "<br>".join(html.escape(line, quote=False) for line in _lines(text))


def _lines(text: str) -> list[str]:
    return textwrap.wrap(text, _LINE, max_lines=2, placeholder="…") or [text]


def marginals(cells: Sequence[str], truth: np.ndarray, answers: np.ndarray, limit: int = 40, words: str = "") -> Chart:
    """Synthetic against true answer of every cell, with the diagonal; the `limit` cells with the largest error stand
    out and are named. truth, answers (q,); at most 1000 points, the worst first. words : of the caption."""
    order = np.argsort(-np.abs(answers - truth), kind="stable")[:MAX_POINTS]
    parts = (
        (order[limit:], "other cells", style.GREY, "circle", 5),
        (order[:limit], f"{min(limit, len(order))} largest errors", style.PALETTE["spent"], "diamond", 8),
    )
    diagonal = np.array([0.0, float(max(truth.max(), answers.max()))], dtype=np.float32)
    traces: list[dict[str, Any]] = [
        {"type": "scatter", "mode": "lines", "x": diagonal, "y": diagonal, "name": "no error", "hoverinfo": "skip"}
        | {"line": {"color": style.GREY, "dash": "dash", "width": 1.5}}
    ]
    for chosen, name, color, symbol, size in parts:
        if len(chosen):
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "x": truth[chosen].astype(np.float32),
                    "y": answers[chosen].astype(np.float32),
                    "text": [plain(cells[j]) for j in chosen.tolist()],
                    "name": name,
                    "marker": {"color": color, "symbol": symbol, "size": size},
                    "hovertemplate": "%{text}<br>true %{x:.4f}, synthetic %{y:.4f}<extra></extra>",
                }
            )
    notes = [f"{len(order):,} of {len(truth):,} cells"] if len(order) < len(truth) else []
    frame = style.layout(
        Axes("True share of rows", "Synthetic share"), notes=notes, not_private=True, legend_entries=len(traces)
    )
    figure = go.Figure({"data": traces, "layout": frame | {"hovermode": "closest"}})
    return chart(
        figure,
        "Marginals, true and synthetic",
        "Synthetic against true share of every marginal cell, with the diagonal",
        f"{words}",
        provenance="not private",
    )


def error_histogram(
    truth: np.ndarray, answers: Mapping[str, np.ndarray], styles: Mapping[str, ArmStyle], privacy: str = ""
) -> Chart:
    """Outlined histograms of the cells' errors |answer - truth|, one per arm, on common bins.

    truth (q,); answers (q,) or (R, q) per arm. Shares of the cells, so that arms with different R compare.
    privacy : that it reads the raw data, for the caption.
    """
    errors = {label: np.abs(values - truth).ravel() for label, values in answers.items()}
    largest = max((float(values.max()) for values in errors.values()), default=0.0) or 1.0
    edges = np.linspace(0.0, largest, 31)
    lines = []
    for label, values in errors.items():
        share = np.histogram(values, edges)[0] / len(values)
        lines.append(Line(edges, np.append(share, share[-1]), f"{label}: worst {short(values.max())}", styles[label]))
    figure = line_figure(
        lines,
        Axes("Error of a cell", "Share of the cells", from_zero=True),
        not_private=True,
        labels=False,  # all end at the axis
    )
    figure.update_traces(line_shape="hv")
    return chart(
        figure,
        "Errors of all cells",
        "Histogram of the errors of all marginal cells",
        f"Differences between synthetic and true shares, over all runs; the worst counts. {privacy}",
        provenance="not private",
    )


_BARS = (
    ("mean loss", style.PALETTE["private"], ""),
    ("as the game weighs it", style.PALETTE["private"], "."),
    ("fairest, without privacy", style.GREY, "/"),
    ("best on average, without privacy", style.PALETTE["second"], "x"),
)


def group_losses(
    groups: Sequence[str],
    means: np.ndarray,
    weighed: np.ndarray,
    fairest: np.ndarray,
    average: np.ndarray,
    *,
    caption: str = "",
) -> Chart:
    """Loss of every group: mean losses of a method's models (R, G), median with a 10-90 % bar; the same as the game
    weighs them (R, G), median; mean losses of two models without privacy (G,). Groups without rows are left out."""
    present = ~np.isnan(fairest)
    low, median, high = np.quantile(means[:, present], (0.1, 0.5, 0.9), axis=0)
    bars = (median, np.median(weighed[:, present], axis=0), fairest[present], average[present])
    names = [name for name, there in zip(groups, present, strict=True) if there]
    traces: list[dict[str, Any]] = [
        {
            "type": "bar",
            "x": names,
            "y": np.asarray(losses, dtype=np.float32),
            "name": name,
            "marker": {"color": color, "pattern": {"shape": pattern}},
            "hovertemplate": "%{y:,.4~r}",
        }
        for (name, color, pattern), losses in zip(_BARS, bars, strict=True)
    ]
    several = len(means) > 1
    if several:
        sides = {"array": (high - median).astype(np.float32), "arrayminus": (median - low).astype(np.float32)}
        traces[0]["error_y"] = {"type": "data", "symmetric": False, **sides}
    notes = ["thin bars: 10-90 % of the runs"] if several else ["one run; results vary"]
    frame = style.layout(
        Axes("Group", "Loss", from_zero=True), notes=notes, not_private=True, legend_entries=len(traces)
    )
    frame["xaxis"] |= {"type": "category", "unifiedhovertitle": {"text": "%{x}"}}
    figure = go.Figure({"data": traces, "layout": frame | {"barmode": "group"}})
    return chart(
        figure,
        "Loss per group",
        "Loss of every group: mean, as the game weighs it, and of two models without privacy",
        f"{caption}",
        provenance="not private",
    )
