"""Figures of vertex sampling alone: ranges, bounds, accounting, sampling bias."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from dpviz.experiments.experiment import Arm
from dpviz.experiments.plan import Plan
from dpviz.families.mirror_descent import bounds, planning, theory
from dpviz.families.mirror_descent.methods.algorithms import VertexSampling
from dpviz.families.mirror_descent.sampling_bias import SamplingBias
from dpviz.numbers import short_up
from dpviz.plots import plan_figures
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.chart import Chart, chart
from dpviz.plots.elements.lines import Line, Mark, line_figure, show_errors
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
