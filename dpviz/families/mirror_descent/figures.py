"""Figures that only the methods for games have: noise of a draw, bounds on the gap, accounting, sampling bias; the
players' strategies, marginals of synthetic data, and losses of groups."""

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

STEP = "Step t"
LONGEST = 4096  # the largest number of rounds in the figure of bounds against T


def noise_of_rounds(plans: Mapping[str, Plan], styles: Mapping[str, ArmStyle]) -> Chart:
    """Draw the noise of every round: the noise that a method adds, or, for methods that draw vertices, the noise that
    their draws amount to (`planning.draw_noise`)."""
    draw_noise = {label: planning.draw_noise(plan) for label, plan in plans.items() if plan.private}
    noise = {label: {**by_player, **plans[label].noise} for label, by_player in draw_noise.items()}
    title = "Noise (draws: Gumbel)" if any(draw_noise.values()) else ""
    caption = (
        "Noise on each entry of a gradient, of the payoffs or of the tables. To draw a vertex is to take the best one "
        "after Gumbel noise, whose standard deviation is drawn: on the mean of the gradients so far, or of best "
        "responses on the present one. Thin: of y, where it differs."
    )
    if any("refreshed" in plan.schedule for plan in plans.values()):  # plans of the method Anytime
        caption += " Anytime draws from weights of earlier rounds, too, whose noise is larger."
    return plan_figures.noise_schedule(plans, styles, caption, noise=noise, title=title)


def gap_bounds(arms: Sequence[Arm], plans: Mapping[str, Plan], styles: Mapping[str, ArmStyle]) -> Chart:
    """Draw the bound on the expected gap (`bounds.gap_bound`) against the round, for every arm that has one.

    A note names the arms whose bound after the last round is above every possible gap, and says nothing.
    """
    lines, useless, limit_clause = [], [], ""
    any_single_pass = any_one_player = False
    for arm in arms:
        if not isinstance(arm.algorithm, VertexSampling) or arm.label not in plans:
            continue
        plan = plans[arm.label]
        bound, facts = bounds.gap_bound(arm.algorithm, plan), GameFacts.of(plan.facts)
        if bound is None:
            continue
        # The clause, which states the limit of any gap, is the same for all arms.
        useful, limit_clause = bounds.without_vacuous(bound, facts), facts.cannot_exceed
        any_one_player |= facts.d_y == 1
        if np.isnan(useful[-1]):
            useless.append(arm.label)
        else:
            lines.append(Line(np.arange(len(bound)), useful, arm.label, styles[arm.label]))
            any_single_pass |= plan.rows[0] < facts.n
    notes, if_empty = [], "No bound is known for these methods."
    if any_single_pass:
        notes.append("single pass: bound for the population")
    if useless:
        if_empty = f"{', '.join(useless)}: the bound says nothing, {limit_clause}"
        notes.append(if_empty)
    figure = line_figure(
        lines,
        Axes(STEP, bound_title(one_player=any_one_player), log_y=True, bound="upper"),
        notes=notes,
        if_empty=if_empty,
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
    """Draw the bound on the gap if T rounds share the budget (`bounds.bound_over_rounds`) against T.

    Three numbers of rounds are marked on the curve of the largest step sizes: T*, where its two error terms are equal;
    √3 T*, near its minimum; T*/4, which does better in matrix games, because the bound is loose there.
    """
    figure = _bound_by_rounds(facts, budget, sampling)
    remark = " In matrix games a quarter of T* did better, because the bound is loose there." if figure.data else ""
    return chart(
        figure,
        "How many rounds?",
        f"{bound_title(one_player=facts.d_y == 1)} against the number of rounds",
        f"The bound if the whole budget is spread over T rounds.{remark}",
    )


def _bound_by_rounds(facts: GameFacts, budget: Budget, sampling: planning.Sampling) -> go.Figure:
    """Draw the figure of `bound_by_rounds`; without lines if there is no budget, or if the bound says nothing."""
    draws, share_x, batching = sampling
    title = bound_title(one_player=facts.d_y == 1)
    if not budget.private:
        without = "Without privacy, more rounds are always better."
        return line_figure([], Axes("Steps T", title, log_y=True), if_empty=without)

    paying = tuple(player for player in planning.players(facts, draws) if player.oscillation > 0)
    split = tuple(share for share in planning.shares(facts, share_x, draws, pure=budget.pure) if share)  # of `paying`
    theory_batching: theory.Batching = "full_batch" if batching == "full" else "single_pass"
    rho = budget.about_rho(budget.amount)  # of the whole budget, an estimate
    optimum = theory.closed_form_optimum(paying, split, rho, facts.n, theory_batching)
    longest = min(facts.n, LONGEST, max(1024, round(4 * optimum.rounds)))  # also shows the rise after the minimum
    special_rounds = {
        "T*": (max(2, round(optimum.balanced_rounds)), style.PALETTE["spent"]),
        "√3 T*": (max(2, round(optimum.rounds)), style.PALETTE["theory"]),
        "T*/4": (optimum.practical_rounds, style.PALETTE["second"]),
    }
    on_axis = [count for count, _ in special_rounds.values() if count <= longest]
    grid = np.unique(np.append(np.geomspace(2, longest, 24).round(), on_axis)).astype(int)
    at_caps, at_best = (
        bounds.without_vacuous(curve, facts)
        for curve in bounds.bound_over_rounds(facts, budget, grid.tolist(), sampling)
    )
    solid, dashed = ArmStyle(style.PALETTE["private"], "solid"), ArmStyle(style.PALETTE["private"], "dash")
    bound_at = dict(zip(grid.tolist(), at_caps.tolist(), strict=True))
    marked = {
        name: (count, color)
        for name, (count, color) in special_rounds.items()
        if bound_at.get(count, math.nan) > 0  # not where the bound says nothing (NaN), nor beyond the axis
    }
    says_nothing = f"the bound says nothing: {facts.cannot_exceed}"
    notes = []
    if marked:
        notes.append(", ".join(f"{name} = {count:,}" for name, (count, _) in marked.items()))
    if np.isnan(at_caps).any() or np.isnan(at_best).any():
        notes.append(f"where no line is drawn, {says_nothing}")
    return line_figure(
        [
            Line(grid, at_caps, "step size at its cap", solid, value_in_label=False),
            Line(grid, at_best, "best step size below it", dashed, value_in_label=False),
        ],
        Axes("Steps T", title, log_x=True, log_y=True),
        marks=[Mark(count, bound_at[count], f"{name} = {count}", color) for name, (count, color) in marked.items()],
        notes=notes,
        if_empty=f"Whatever T, {says_nothing}.",
    )


def bound_title(one_player: bool) -> str:
    """Return the title of an axis with a bound, which names the bounded error."""
    return "Bound on the excess loss" if one_player else "Bound on the duality gap"


def accounting_gain(epsilons: Mapping[str, float], about_draws: str) -> Chart:
    """Draw one bar for each way to account for the same draws, the first on top.

    epsilons : ε by the name of the accounting (`bounds.paper_costs`); the first one is that of the paper, and stands
    out. about_draws : a sentence at the beginning of the caption.
    """
    values = np.array(list(epsilons.values()), dtype=np.float32)
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": values,
        "y": list(epsilons),
        "text": [short_up(value) for value in epsilons.values()],
        "textposition": "outside",
        "cliponaxis": False,
        "marker": {
            "color": [style.PALETTE["spent"], *[style.PALETTE["private"]] * (len(epsilons) - 1)],
            "pattern": {"shape": ["/", *[""] * (len(epsilons) - 1)]},
        },
        "hovertemplate": "%{y}: ε = %{text}<extra></extra>",
    }
    layout = style.layout(Axes("ε of the same draws", ""), height=style.ALONE) | {"hovermode": "closest"}
    layout["yaxis"] |= {"type": "category", "autorange": "reversed", "automargin": True}
    # 12 % more: room for the text at the end of the longest bar; 1e-9, as a range must not be empty if all are 0.
    layout["xaxis"] |= {"range": [0.0, 1.12 * float(values.max(initial=1e-9))]}
    return chart(
        go.Figure({"data": [bars], "layout": layout}),
        "What the paper's step really costs",
        "ε of the paper's step size by four accountings",
        f"{about_draws} What is left over could have bought larger steps.",
    )


def rho_by_position(plan: Plan, label: str = "") -> Chart:
    """Draw the ρ that a row really pays in a single pass over the rows, against the number of the block that it is in.

    Round t reads block t after its draws, so a row only pays for the draws of later rounds. label : of the method.
    """
    spent = plan.spent("rho")  # (T+1,) by releases before the run, and by the draws of the first 0, 1, …, T rounds
    # A row in block t pays for the releases before the run, spent[0], and for the draws after round t.
    paid, rounds = spent[0] + spent[-1] - spent[1:], plan.iterations
    line = Line(np.arange(1, rounds + 1), paid, "ρ paid", ArmStyle(style.PALETTE["spent"], "solid"))
    figure = line_figure(
        [line],
        Axes("Block that holds the row", "ρ paid by the row", from_zero=True),
        notes=["a row's guarantee is that of block 1; no draw reads the last block"],
        height=style.ALONE,
    )
    return chart(
        figure,
        f"Who pays how much: {label}",
        "ρ of a row against its position in the single pass",
        "A row only pays in the draws after its own block; its guarantee is that of the first block. An "
        "individual reading, not the guarantee of the run.",
    )


def value_bias(measured: SamplingBias) -> Chart:
    """Draw, against K, the bias of a value from playing the average x̂ of K vertices drawn from x in place of x.

    It is measured, with bars of two standard errors, exact where a formula is known, and bounded. Measured values of 0
    or less have no place on a log axis; a note counts them.
    """
    green, grey = ArmStyle(style.PALETTE["theory"], "dash"), ArmStyle(style.GREY, "solid")
    lines = [] if measured.exact is None else [Line(measured.draws, measured.exact, "exact", grey)]
    notes = []
    if (measured.bound > 0).all():
        lines.append(Line(measured.draws, measured.bound, "bound 2 L₁/K", green))
    else:
        notes.append("the bound is 0: gradients are linear")
    is_positive = measured.mean > 0
    if not is_positive.all():
        notes.append(f"{(~is_positive).sum()} measured at 0 or below, not shown")
    means = Line(
        measured.draws[is_positive],
        measured.mean[is_positive],
        "measured ± 2 standard errors",
        ArmStyle(style.PALETTE["private"], "solid"),
    )
    figure = line_figure(
        [*lines, means], Axes("Draws K", "Bias E h(x̂) - h(x)", log_x=True, log_y=True), notes=notes, height=style.ALONE
    )
    if is_positive.any():
        show_errors(figure, means.name, measured.mean[is_positive], measured.standard_error[is_positive])
    return chart(
        figure,
        "Bias against the number of draws",
        "Measured sampling bias against draws K, with the exact line and the bound",
        "Mean of ½‖x̂‖² - ½‖x‖² over 2,000 simulated draws at uniform x, two standard errors.",
    )


_PATTERNS = ("", "/", ".", "x", "-")  # of areas: the next one when all colours are used
_LINE = 64  # characters of a name that fit on a line of a legend; names that need more than two lines are cut
_SHORT_NAME = 16  # three names of at most this number of characters fit side by side in a legend


def strategies(
    path: Sequence[np.ndarray] | np.ndarray,
    iterations: Sequence[int] | np.ndarray,
    name: Callable[[int], str] | None = None,
    top: int = 10,
) -> go.Figure:
    """Draw one player's strategy against the round as stacked areas: one for each of the `top` vertices with the
    largest final weights, and one for all other vertices together.

    path : (k, d) weights that sum to 1 in each row, such as the averages of the first replicate; it may be shorter than
    `iterations`, because large strategies are not stored. name : function from a vertex's index to its name; None =
    "vertex 1" and so on.
    """
    stored = min(len(path), len(iterations))
    if not stored:
        return line_figure([], Axes(STEP, "Weight"), if_empty="The strategies were too large to keep.")
    indices = np.unique(np.linspace(0, stored - 1, min(stored, MAX_POINTS)).round().astype(int))
    weights = np.stack([path[i] for i in indices])
    rounds = np.asarray(iterations)[indices].astype(np.int32)
    heaviest = np.argsort(-weights[-1], kind="stable")[:top]
    layer = partial(area, rounds, group="strategy", digits=3)
    traces, longest_name, legend_lines = [], 0, 0
    for i, vertex in enumerate(heaviest.tolist()):
        vertex_name = f"vertex {vertex + 1:,}" if name is None else name(vertex)
        longest_name = max(longest_name, len(vertex_name))
        legend_lines += len(_lines(vertex_name))
        color, pattern = style.HUES[i % len(style.HUES)], _PATTERNS[i // len(style.HUES) % len(_PATTERNS)]
        traces.append(layer(weights[:, vertex], plain(vertex_name), color, pattern))
    others = weights.shape[1] - len(heaviest)
    if others:
        other_weight = np.maximum(weights.sum(axis=1) - weights[:, heaviest].sum(axis=1), 0.0)  # in spite of rounding
        traces.append(layer(other_weight, f"{others:,} other{'s' if others > 1 else ''}", style.GREY, ""))
    # The layout counts three entries to a line of the legend. That is right for short names; long ones take one line
    # each, or two.
    entries = 3 * (legend_lines + bool(others)) if longest_name > _SHORT_NAME else len(traces)
    layout = style.layout(Axes(STEP, "Weight"), legend_entries=entries)
    layout["yaxis"] |= {"range": [0, 1]}
    return go.Figure({"data": traces, "layout": layout})


def mixtures(trace: Trace, styles: Mapping[str, ArmStyle], height: int, privacy: str) -> Chart:
    """Draw the weights of the strategies in the mixture that each method would release now, the heaviest first.

    Lines are medians over the runs of the ordered weights, thin for player y; they end at a tenth of the weight 1/d of
    uniform play. height : in pixels. privacy : a sentence on what may be published, for the caption.
    """
    lines = []
    for label, arm_trace in trace.arm_traces.items():
        for player, width in (("x", 2.0), ("y", 1.0)):
            if player in arm_trace.output and arm_trace.output[player].shape[1] > 1:
                descending = np.sort(arm_trace.output[player], axis=1)[:, ::-1]  # (R, d)
                weights = np.median(descending, axis=0)
                weights = weights[weights >= 0.1 / len(weights)]
                line = Line(
                    np.arange(1, len(weights) + 1), weights, label, styles[label], width=width, value_in_label=False
                )
                lines.append(line if player == "x" else replace(line, name=f"{label}, y", group=label, legend=False))
    privacies = {label: arm_trace.privacy for label, arm_trace in trace.arm_traces.items()}
    figure = line_figure(
        lines,
        Axes("Strategies, the heaviest first", "Weight in the mixture", log_x=True, log_y=True),
        notes=["thin lines: player y"] if any(line.width < 2 for line in lines) else [],
        not_private=style.privacy_mark(privacies),
        height=height,
    )
    return chart(
        figure,
        "Mixed strategies",
        "Weight of each strategy in the mixture, the heaviest first, one line per method and player",
        f"What the players play on average: medians of the ordered weights. {privacy}",
        provenance=provenance(privacies.values()),
    )


def plain(text: str) -> str:
    """Return a name from the data as plotly needs it: broken into lines, and escaped, because plotly reads names such
    as "<=50K" as the beginning of a tag."""
    return "<br>".join(html.escape(line, quote=False) for line in _lines(text))


def _lines(text: str) -> list[str]:
    """Return a name in at most two lines of `_LINE` characters; a longer one is cut and ends with "…"."""
    return textwrap.wrap(text, _LINE, max_lines=2, placeholder="…") or [text]


_OUTSTANDING = 40  # cells with the largest errors that stand out in `marginals`


def marginals(cells: Sequence[str], truth: np.ndarray, answers: np.ndarray, caption: str = "") -> Chart:
    """Draw the synthetic against the true share of rows in every cell of the marginal tables, with the diagonal.

    Of many cells, the MAX_POINTS with the largest errors are drawn. cells : names, for the hover texts.
    truth, answers : (q,) true and synthetic shares.
    """
    worst_first = np.argsort(-np.abs(answers - truth), kind="stable")[:MAX_POINTS]
    outstanding, others = worst_first[:_OUTSTANDING], worst_first[_OUTSTANDING:]
    series = (
        (others, "other cells", style.GREY, "circle", 5),
        (outstanding, f"{len(outstanding)} largest errors", style.PALETTE["spent"], "diamond", 8),
    )
    diagonal = np.array([0.0, float(max(truth.max(), answers.max()))], dtype=np.float32)
    traces: list[dict[str, Any]] = [
        {"type": "scatter", "mode": "lines", "x": diagonal, "y": diagonal, "name": "no error", "hoverinfo": "skip"}
        | {"line": {"color": style.GREY, "dash": "dash", "width": 1.5}}
    ]
    for indices, name, color, symbol, size in series:
        if len(indices):
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "x": truth[indices].astype(np.float32),
                    "y": answers[indices].astype(np.float32),
                    "text": [plain(cells[index]) for index in indices.tolist()],
                    "name": name,
                    "marker": {"color": color, "symbol": symbol, "size": size},
                    "hovertemplate": "%{text}<br>true %{x:.4f}, synthetic %{y:.4f}<extra></extra>",
                }
            )
    notes = [f"{len(worst_first):,} of {len(truth):,} cells"] if len(worst_first) < len(truth) else []
    layout = style.layout(
        Axes("True share of rows", "Synthetic share"), notes=notes, not_private=True, legend_entries=len(traces)
    )
    figure = go.Figure({"data": traces, "layout": layout | {"hovermode": "closest"}})
    return chart(
        figure,
        "Marginals, true and synthetic",
        "Synthetic against true share of every marginal cell, with the diagonal",
        caption,
        provenance="not private",
    )


def error_histogram(
    truth: np.ndarray, answers: Mapping[str, np.ndarray], styles: Mapping[str, ArmStyle], privacy: str = ""
) -> Chart:
    """Draw the histograms of the cells' errors |answer - truth| as outlines, one per arm, on common bins.

    Heights are shares of all cells of all runs, so that arms with different numbers of runs R compare. truth : (q,)
    true shares of the cells. answers : by arm, (q,) or (R, q) synthetic shares. privacy : a sentence for the caption.
    """
    errors = {label: np.abs(values - truth).ravel() for label, values in answers.items()}
    largest = max((float(values.max()) for values in errors.values()), default=0.0)
    edges = np.linspace(0.0, largest or 1.0, 31)  # bins have a width even if all errors are 0
    lines = []
    for label, values in errors.items():
        share = np.histogram(values, edges)[0] / len(values)
        # 30 bins have 31 edges: the last bin's height is drawn up to its right edge.
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


_BARS = (  # of each group: name, colour and pattern
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
    """Draw four bars for the loss of every group; groups without rows (NaN) are left out.

    groups : names. means : (R, G) mean losses of a method's models, drawn as the median over the R runs with a thin bar
    from 10 to 90 %. weighed : (R, G) the same losses as the game weighs them, drawn as the median. fairest, average :
    (G,) mean losses of the two models without privacy that minimise the highest group's loss, and the loss of all rows.
    """
    has_rows = ~np.isnan(fairest)
    low, median, high = np.quantile(means[:, has_rows], (0.1, 0.5, 0.9), axis=0)
    bars = (median, np.median(weighed[:, has_rows], axis=0), fairest[has_rows], average[has_rows])
    names = [name for name, is_present in zip(groups, has_rows, strict=True) if is_present]
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
    has_several_runs = len(means) > 1
    if has_several_runs:
        sides = {"array": (high - median).astype(np.float32), "arrayminus": (median - low).astype(np.float32)}
        traces[0]["error_y"] = {"type": "data", "symmetric": False, **sides}
    notes = ["thin bars: 10-90 % of the runs"] if has_several_runs else ["one run; results vary"]
    layout = style.layout(
        Axes("Group", "Loss", from_zero=True), notes=notes, not_private=True, legend_entries=len(traces)
    )
    layout["xaxis"] |= {"type": "category", "unifiedhovertitle": {"text": "%{x}"}}
    figure = go.Figure({"data": traces, "layout": layout | {"barmode": "group"}})
    return chart(
        figure,
        "Loss per group",
        "Loss of every group: mean, as the game weighs it, and of two models without privacy",
        caption,
        provenance="not private",
    )
