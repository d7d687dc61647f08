"""Figures of vertex sampling alone: ranges, bounds, accounting, sampling bias."""

import html
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.experiments.experiment import Arm
from dpviz.experiments.plan import Plan
from dpviz.experiments.trace import Trace
from dpviz.families.mirror_descent import bounds, planning, theory
from dpviz.families.mirror_descent.methods.algorithms import VertexSampling
from dpviz.families.mirror_descent.sampling_bias import SamplingBias
from dpviz.numbers import short, short_up
from dpviz.plots import plan_figures
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.chart import Chart, chart, provenance
from dpviz.plots.elements.lines import MAX_POINTS, Line, Mark, area, line_figure, show_errors
from dpviz.plots.elements.style import ArmStyle
from dpviz.privacy.budgets import Budget
from dpviz.problems.games.games import GameFacts

ROUND = "Round t"
LONGEST = 4096  # rounds, in the figure of bounds against T


def noise_of_rounds(plans: Mapping[str, Plan], styles: Mapping[str, ArmStyle]) -> Chart:
    """Noise of every round, of methods that add it and of those that draw vertices, for which it is `draw_noise`."""
    drawn = {label: planning.draw_noise(plan) for label, plan in plans.items() if plan.private}
    noise = {label: {**found, **plans[label].noise} for label, found in drawn.items()}
    title = "Noise (draws: on means)" * any(drawn.values())
    words = (
        "Noise on each entry of a gradient, of the payoffs or of the tables. To draw a vertex is to take the best one "
        "after Gumbel noise, whose standard deviation is drawn: on the mean of the gradients so far, or of best "
        "responses on the present one. Thin: of y, where it differs."
    )
    if any("refreshed" in plan.schedule for plan in plans.values()):
        words += " Anytime draws from weights of earlier rounds, too, whose noise is larger."
    return plan_figures.noise_schedule(plans, styles, words, noise=noise, title=title)


def gap_bounds(arms: Sequence[Arm], plans: Mapping[str, Plan], styles: Mapping[str, ArmStyle]) -> Chart:
    """`bounds.gap_bound` of every arm that has one, against the round, on a log axis, where it says something."""
    lines, single, one_player, vacuous, limit = [], False, False, [], ""
    for arm in arms:
        if not isinstance(arm.algorithm, VertexSampling) or arm.label not in plans:
            continue
        plan = plans[arm.label]
        bound = bounds.gap_bound(arm.algorithm, plan)
        if bound is not None and isinstance(plan.facts, GameFacts):
            useful, limit = bounds.told(bound, plan.facts), plan.facts.cannot_exceed
            one_player |= plan.facts.d_y == 1
            if np.isnan(useful[-1]):
                vacuous.append(arm.label)
                continue
            lines.append(Line(np.arange(len(bound)), useful, arm.label, styles[arm.label]))
            single |= plan.rows[0] < plan.facts.n
    nothing = f"{', '.join(vacuous)}: the bound says nothing, {limit}"
    figure = line_figure(
        lines,
        Axes(ROUND, bounded(one_player), log_y=True, bound="upper"),
        notes=[*(["single pass: bound for the population"] if single else []), *([nothing] if vacuous else [])],
        if_empty=nothing if vacuous else "No bound is known for these methods.",
    )
    return chart(
        figure,
        "Predicted gap",
        "Upper bound on the expected duality gap after each round, one line per method",
        "Upper bound on the expected gap on the data (in a single pass, on the population), for every data set; "
        "real runs are usually far better. Direct analysis; methods without a line have no such bound, or one "
        "that says nothing.",
    )


def bound_by_rounds(facts: GameFacts, budget: Budget, sampling: planning.Sampling = planning.USUAL) -> Chart:
    """`bounds.bound_over_rounds` on log axes, where it says something. Marked on the curve at the caps: T*, where its
    two error terms are equal; √3 T*, near its minimum; T*/4, which does better in matrix games, because the bound is
    loose."""
    figure = _bound_by_rounds(facts, budget, sampling)
    loose = " In practice a quarter of T* does better, because the bound is loose there." * bool(figure.data)
    return chart(
        figure,
        "How many rounds?",
        "Bound on the duality gap against the number of rounds, or the noise of the other methods",
        f"The bound if the whole budget is spread over T rounds.{loose}",
    )


def _bound_by_rounds(facts: GameFacts, budget: Budget, sampling: planning.Sampling) -> go.Figure:
    draws, share_x, batching = sampling
    title = bounded(facts.d_y == 1)
    if not budget.private:
        without = "Without privacy, more rounds are always better."
        return line_figure([], Axes("Steps T", title, log_y=True), if_empty=without)
    paying = tuple(player for player in planning.players(facts, draws) if player.oscillation > 0)
    split = tuple(share for share in planning.shares(facts, share_x, draws, budget.pure) if share)
    full: theory.Batching = "full_batch" if batching == "full" else "single_pass"
    best = theory.closed_form_optimum(paying, split, budget.about_rho(budget.amount), facts.n, full)
    longest = min(facts.n, LONGEST, max(1024, round(4 * best.rounds)))
    chosen = {
        "T*": (max(2, round(best.balanced_rounds)), style.PALETTE["spent"]),
        "√3 T*": (max(2, round(best.rounds)), style.PALETTE["theory"]),
        "T*/4": (best.practical_rounds, style.PALETTE["second"]),
    }
    counts = [count for count, _ in chosen.values() if count <= longest]
    grid = np.unique(np.append(np.geomspace(2, longest, 24).round(), counts)).astype(int)
    curves = bounds.bound_over_rounds(facts, budget, grid.tolist(), sampling)
    looks = (ArmStyle(style.PALETTE["private"], "solid"), ArmStyle(style.PALETTE["private"], "dash"))
    names = ("step size at its cap", "best step size below it")
    useful = [bounds.told(curve, facts) for curve in curves]
    at = {count: float(bound) for count, bound in zip(grid.tolist(), useful[0], strict=True)}
    marked = {name: (count, color) for name, (count, color) in chosen.items() if at.get(count, math.nan) > 0}
    nothing = f"the bound says nothing: {facts.cannot_exceed}"
    return line_figure(
        [Line(grid, curve, name, look, value=False) for curve, name, look in zip(useful, names, looks, strict=True)],
        Axes("Steps T", title, log_x=True, log_y=True),
        marks=[Mark(count, at[count], f"{name} = {count}", color) for name, (count, color) in marked.items()],
        notes=[
            *[", ".join(f"{name} = {count:,}" for name, (count, _) in marked.items())] * bool(marked),
            *[f"where no line is drawn, {nothing}"] * bool(np.isnan(useful).any()),
        ],
        if_empty=f"Whatever T, {nothing}.",
    )


def bounded(one_player: bool) -> str:
    """What a bound is on, as the title of an axis."""
    return "Bound on the excess loss" if one_player else "Bound on the duality gap"


def accounting_gain(rows: Mapping[str, float], words: str = "") -> Chart:
    """One bar per way of counting the same draws, the first on top; rows : ε by name. words : on the draws, in the
    caption."""
    values = np.array(list(rows.values()), dtype=np.float32)
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": values,
        "y": list(rows),
        "text": [short_up(value) for value in rows.values()],
        "textposition": "outside",
        "cliponaxis": False,
        "marker": {
            "color": [style.PALETTE["spent"], *[style.PALETTE["private"]] * (len(rows) - 1)],
            "pattern": {"shape": ["/", *[""] * (len(rows) - 1)]},
        },
        "hovertemplate": "%{y}: ε = %{text}<extra></extra>",
    }
    frame = style.layout(Axes("ε of the same draws", ""), height=style.ALONE) | {"hovermode": "closest"}
    frame["yaxis"] |= {"type": "category", "autorange": "reversed", "automargin": True}
    frame["xaxis"] |= {"range": [0.0, 1.12 * float(values.max(initial=1e-9))]}
    return chart(
        go.Figure({"data": [bars], "layout": frame}),
        "What the paper's step really costs",
        "ε of the paper's step size by four accountings",
        f"{words} What is left over could have bought larger steps.",
    )


def rho_by_position(plan: Plan, label: str = "") -> Chart:
    """ρ that a row really pays in the draws of a single pass, against the block it is in: those after its own block."""
    spent = plan.spent("rho")
    paid, rounds = spent[-1] - spent[1:], plan.iterations
    line = Line(np.arange(1, rounds + 1), paid, "ρ paid", ArmStyle(style.PALETTE["spent"], "solid"))
    figure = line_figure(
        [line],
        Axes("Block that holds the row", "ρ paid by the row", from_zero=True),
        notes=["the guarantee is that of block 1; no draw reads the last block"],
        height=style.ALONE,
    )
    return chart(
        figure,
        f"Who pays how much: {label}",
        "ρ of a row against its position in the single pass",
        "A row only pays in the draws after its own block; the guarantee is that of the first block. An "
        "individual reading, not the guarantee of the run.",
    )


def maurey(measured: SamplingBias) -> Chart:
    """Bias of seeing a strategy through K drawn vertices, on log axes: measured with bars of two standard errors, exact
    where known, and its bound. Measured values of 0 or less have no place on a log axis; a note counts them."""
    green, grey = ArmStyle(style.PALETTE["theory"], "dash"), ArmStyle(style.GREY, "solid")
    lines = [] if measured.exact is None else [Line(measured.draws, measured.exact, "exact", grey)]
    notes = ["the bound is 0: gradients are linear"]
    if (measured.bound > 0).all():
        lines.append(Line(measured.draws, measured.bound, "bound 2 L₁/K", green))
        notes = []
    shown = measured.mean > 0
    if not shown.all():
        notes.append(f"{(~shown).sum()} measured at 0 or below, not shown")
    points = Line(
        measured.draws[shown],
        measured.mean[shown],
        "measured ± 2 standard errors",
        ArmStyle(style.PALETTE["private"], "solid"),
    )
    figure = line_figure(
        [*lines, points], Axes("Draws K", "Bias E h(x̂) - h(x)", log_x=True, log_y=True), notes=notes, height=style.ALONE
    )
    if shown.any():
        show_errors(figure, points.name, measured.mean[shown], measured.standard_error[shown])
    return chart(
        figure,
        "Bias against the number of draws",
        "Measured sampling bias against draws K, with the exact line and the bound",
        "Mean of ½‖x̂‖² - ½‖x‖² over 2,000 simulated draws at uniform x, two standard errors.",
    )


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
