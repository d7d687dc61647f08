"""Figures for choosing settings: the split of the budget, rows for a target gap, the paper's bound and ours.

Also figures of the error from playing the average of few drawn vertices in place of a mixed strategy: bias and spread
of a game's gradients, and rare deviations of values.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from dpviz.families.mirror_descent import advice, bounds, planning, presets, sampling_bias, theory
from dpviz.families.mirror_descent.figures import bound_title
from dpviz.families.mirror_descent.methods import algorithms
from dpviz.families.mirror_descent.sampling_bias import SamplingBias
from dpviz.numbers import short, short_up
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.chart import Chart, chart
from dpviz.plots.elements.lines import Limit, Line, Mark, line_figure, show_errors
from dpviz.plots.elements.style import ArmStyle
from dpviz.privacy.budgets import ApproximateDP, Budget
from dpviz.privacy.mechanisms import noise_scale
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.games import GameFacts

# Styles of lines, by the colour's name in the palette.
PRIVATE = ArmStyle(style.PALETTE["private"], "solid")
PRIVATE_DASHED = ArmStyle(style.PALETTE["private"], "dash")
SPENT = ArmStyle(style.PALETTE["spent"], "solid")
SPENT_DOTTED = ArmStyle(style.PALETTE["spent"], "dot")
DIRECT, PAPERS = "direct, all rows (gap on the data)", "the paper's, single pass"
SPLIT_HEIGHT = 340  # pixels
SHARES = np.linspace(0.05, 0.95, 37)  # of player x in the budget
CERTIFICATE_SHARES = np.geomspace(0.01, 0.5, 40)  # of a certificate in the budget
SHARES_COSTS = np.geomspace(0.01, 5.0, 60)  # ε of releasing the groups' shares


def split(
    facts: GameFacts, budget: Budget, rounds: int, *, sampling: planning.Sampling = planning.USUAL, chosen: float
) -> Chart:
    """Draw the bound on the gap, and the part of it that depends on the split of the budget between the players,
    against the share of player x.

    Marked are the best split, in closed form, and `chosen`, the share of x that is set.
    """
    bound, regret = bounds.bound_over_shares(facts, budget, SHARES.tolist(), rounds, sampling)
    best = theory.optimal_shares(planning.players(facts, sampling.draws), pure=budget.pure)[0]  # of player x
    marked_shares = (("best", best, style.PALETTE["theory"]), ("chosen", chosen, style.PALETTE["second"]))
    marks = [
        Mark(share, float(np.interp(share, SHARES, regret)), f"{name}: φ = {share:.2f}", color)
        for name, share, color in marked_shares
        if SHARES[0] <= share <= SHARES[-1]
    ]
    figure = line_figure(
        [
            Line(SHARES, regret, "what the split decides, Σ ln d/(τ T)", PRIVATE),
            Line(SHARES, bounds.without_vacuous(bound, facts), "whole bound, best step sizes", PRIVATE_DASHED),
        ],
        Axes("Share of x in the budget, φ", "Part of the bound on the gap", log_y=True),
        marks=marks,
        notes=[f"best split φ = {best:.2f}, chosen {chosen:.2f}"],
        height=SPLIT_HEIGHT,
    )
    formula = "ln d osc" if budget.pure else "(ln d)^(2/3) (K osc²)^(1/3)"
    return chart(
        figure,
        "Between the players",
        "Part of the bound on the gap that the split decides, and the whole bound, against x's share of the budget",
        f"Vertex sampling, {rounds:,} rounds. Best split: φ = {best:.2f} for x. Its share grows with its number "
        f"of strategies and of draws and with the range of its gradients, as {formula}.",
    )


def certificate(facts: GameFacts, budget: Budget, *, chosen: float | None = None) -> Chart:
    """Draw the price of a certificate of the gap against its share of the budget: its width, and by which share the
    game's steps get shorter because they have the rest of the budget.

    The width is what a certificate with 95 % confidence adds to the gap of the output, on average over its noise.
    chosen : a share to mark; None = no mark.
    """
    widths, shortening = [], []  # for each of `CERTIFICATE_SHARES`
    for share in CERTIFICATE_SHARES.tolist():
        event = algorithms.certifying_event(budget.share(share, facts.released))
        widths.append(algorithms.upper_quantile(event, noise_scale(event, facts.gap_change / facts.n)))
        # Step sizes are in proportion to ε under pure ε, else to the square root of ρ.
        remaining_step = 1 - share if budget.pure else math.sqrt(1 - share)
        shortening.append(1 - remaining_step)
    marks = []
    if chosen is not None:
        width = float(np.interp(chosen, CERTIFICATE_SHARES, widths))
        marks = [Mark(chosen, width, f"chosen: {short(100 * chosen)} %, + {short(width)}", style.PALETTE["second"])]
    figure = line_figure(
        [
            Line(CERTIFICATE_SHARES, np.array(widths), "added to the gap", PRIVATE),
            Line(CERTIFICATE_SHARES, np.array(shortening), "steps shorter by, about", SPENT),
        ],
        Axes("Share of the budget for the certificate", "Width; share of the steps", log_x=True, log_y=True),
        marks=marks,
        height=style.ALONE,
    )
    noise = "Laplace" if budget.pure else "Gaussian"
    return chart(
        figure,
        "For a certificate of the gap",
        "Width that a certificate adds to the gap, and how much shorter steps get, against its share of the budget",
        "The gap of the output is a diagnostic, unless a part of the budget pays for it: one row moves it by at "
        f"most {short_up(facts.gap_change)}/n. The method “{presets.CERTIFIED}” releases it once, at the end, "
        f"with {noise} noise, plus so much that the sum is an upper bound with 95 % confidence.",
    )


def group_shares(
    n: int, smallest: float, budget: Budget, *, costs_paid: Sequence[float] = (), rows_per_person: int = 1
) -> Chart:
    """Draw the gain and the loss of buying the groups' shares of the rows for a part of the budget, against its ε.

    The gain is a small error: the mean error of the smallest share, as a part of that share. The loss is the relative
    growth of the noise in the run, which gets the rest of the budget.

    n : rows. smallest : the smallest share. costs_paid : ε of earlier releases of shares, for the caption.
    rows_per_person : k; budget and costs are those of a person with up to k rows.
    """
    sensitivity = 2 * rows_per_person  # a person may change the groups' numbers of rows by this, in ℓ1
    is_in_epsilon = budget.total_epsilon is not None  # pure ε or (ε, δ), whose amount is ε
    total_rho = budget.about_rho(budget.amount)
    # A budget in ε loses the ε of the release, any other one the release's ρ: ε-DP is ε²/2-zCDP. The run keeps at least
    # a twentieth of a budget in ε.
    largest_cost = 0.95 * budget.amount if is_in_epsilon else math.sqrt(2 * total_rho)
    costs = SHARES_COSTS[largest_cost > SHARES_COSTS]
    relative_error = sensitivity / (costs * n * smallest)  # the mean size of Laplace noise is its scale, sensitivity/ε
    growth = []  # of the noise, which is in proportion to 1/√ρ
    for cost in costs.tolist():
        remaining_rho = budget.about_rho(budget.amount - cost) if is_in_epsilon else total_rho - cost**2 / 2
        growth.append(math.sqrt(total_rho / remaining_rho) - 1)
    figure = line_figure(
        [
            Line(costs, relative_error, "error of the smallest share", PRIVATE),
            Line(costs, np.array(growth), "more noise in the run", SPENT),
        ],
        Axes("ε that buys the shares", "Relative to the share; to the noise", log_x=True, log_y=True),
        if_empty=f"From ε = {short(SHARES_COSTS[0])} on shares would cost the whole budget, or nearly.",
        height=style.ALONE,
    )
    paid = f"Spent on them: ε = {' + '.join(map(short, costs_paid))}. " if costs_paid else ""
    return chart(
        figure,
        "For the groups' shares",
        "Error of the smallest share, and how much noisier the run gets, against the ε that buys the shares",
        "Shares are declared here, or bought for an ε that comes off the run's budget (Laplace noise of scale "
        f"{sensitivity}/ε on the numbers of rows). {paid}Worth it where both curves are low: a wrong share re-weights "
        "its group by as much.",
    )


def gap_by_rows(
    problem: ProblemSpecification,
    facts: GameFacts,
    budget: Budget,
    target: float,
    rounds: int,
    labels: Mapping[str, ArmStyle],
    *,
    draws: planning.Draws = 1,
) -> tuple[Chart, dict[str, float | None]]:
    """Draw the expected gap against the number of rows, by the bound and by medians measured on generated data.

    Return also, by name of the curve, the smallest number of rows for the `target` gap; None if it is not in reach.

    rounds : of the measured methods. labels : measured methods whose medians are drawn, with their styles.
    """
    rows_by_bound = bounds.rows_for_gap(facts, budget, target, draws)
    max_rows = max(10 * facts.n, 2 * (rows_by_bound or 0))  # the axis shows the number that the bound needs, if any
    rows = np.geomspace(min(100, facts.n), max_rows, 60)
    bound = bounds.bound_over_rows(facts, budget, rows.tolist(), draws)
    lines = [
        Line(rows, bounds.without_vacuous(bound, facts), "bound, best T", ArmStyle(style.PALETTE["theory"], "dash"))
    ]
    needed_rows: dict[str, float | None] = {"bound, best T": rows_by_bound}
    first_rows: dict[str, float] = {}  # by measured method, the smallest number of rows that was measured
    for label, medians in advice.medians_by_rows(problem, budget, rounds, rows.tolist()).items():
        if label in labels and np.isfinite(medians).any():
            lines.append(Line(rows, medians, label, labels[label]))
            needed_rows[label] = advice.rows_for(medians, rows, target)
            first_rows[label] = float(rows[np.isfinite(medians)][0])
    figure = line_figure(
        lines,
        Axes("Rows n", "Expected gap", log_x=True, log_y=True, bound="upper"),
        limits=[Limit(target, f"target {short(target)}")],
        marks=[
            Mark(count, target, f"{name}: n = {math.ceil(count):,}", style.PALETTE["second"])
            for name, count in needed_rows.items()
            # At the smallest measured number of rows the curve is below the target already: no crossing to mark.
            if count is not None and count != first_rows.get(name)
        ],
        if_empty=f"Nothing is known of this game: {facts.cannot_exceed}.",
        height=style.ALONE,
    )
    bias = theory.sampling_bias(planning.players(facts, draws))
    obstacle = f" Sampling alone can cost {short(bias)} in the bound: draw more vertices." if bias >= target else ""
    counts = []
    for name, count in needed_rows.items():
        if count is None:
            counts.append(f"{name}: {'more than are drawn' if name in first_rows else 'not in reach'}")
        elif count == first_rows.get(name):  # the target is met with the fewest rows that were measured
            counts.append(f"{name}: {math.ceil(count):,} or fewer")
        else:
            counts.append(f"{name}: {math.ceil(count):,}")
    rows_chart = chart(
        figure,
        f"Rows for a gap of {short(target)}",
        "Expected gap against the number of rows, by the bound and by measured medians, with the target",
        f"Rows needed: {'; '.join(counts)}. You have {facts.n:,}.{obstacle} Bound: all rows in every round, the best T "
        "up to 100,000, the best split.",
    )
    return rows_chart, needed_rows


def paper_and_direct_bounds(facts: GameFacts, budget: ApproximateDP, *, draws: int, share_x: float | None) -> Chart:
    """Draw four bounds on the expected gap against the number of rounds T, up to 2,048.

    The direct bound (THEORY.md, section 10.1) with all rows in every round and in a single pass; the paper's bound with
    its step sizes, and the part of it that comes from Lemma 4.2. draws : K. share_x : share of player x in the budget
    for the direct bounds, None = the best.
    """
    grid = np.unique(np.geomspace(2, min(2048, facts.n), 40).round())  # a single pass has at most n rounds
    counts = grid.astype(int).tolist()
    # Of two bounds, the second: with the best step sizes that the budget allows.
    _, full = bounds.bound_over_rounds(facts, budget, counts, planning.Sampling(draws, share_x, batching="full"))
    _, single = bounds.bound_over_rounds(facts, budget, counts, planning.Sampling(draws, share_x, batching="single"))
    paper, lemma = bounds.paper_over_rounds(facts, budget, grid, draws)
    figure = line_figure(
        [
            Line(grid, full, DIRECT, PRIVATE),
            Line(grid, single, "direct, single pass", PRIVATE_DASHED),
            Line(grid, paper, PAPERS, SPENT),
            Line(grid, lemma, "of which Lemma 4.2", SPENT_DOTTED),
        ],
        Axes("Steps T", bound_title(one_player=facts.d_y == 1), log_x=True, log_y=True, bound="upper"),
        limits=[Limit(facts.largest_gap, facts.cannot_exceed)] if facts.largest_gap < math.inf else [],
        height=style.ALONE,
    )
    minima = []
    for trace in figure.data:
        if trace.name in (DIRECT, PAPERS) and len(trace.y):
            index = int(np.argmin(trace.y))
            minima.append(f"{trace.name} {short_up(float(trace.y[index]))} at T = {float(trace.x[index]):,.0f}")
    return chart(
        figure,
        "The paper's bound and ours",
        "Bound on the gap against the rounds: direct with all rows, direct in a single pass, the paper's, Lemma 4.2",
        f"Lowest up to T = {counts[-1]:,}: {'; '.join(minima)}. K = {draws}. The paper's step is min(√(ℓ/T)/L₀, its "
        "privacy cap); its other terms are regret and the bias of gradients.",
    )


MEASURED = "measured ± 2 standard errors"
ROUNDING = 1e-15  # smaller values count as 0
RARE = 1e-9  # smaller probabilities are not drawn
NOT_PRIVATE = "<br>(not private)"  # in the title of the axis, which every export of the figure has


def gradient_bias(measured: SamplingBias, facts: GameFacts, about_draws: str = "") -> Chart:
    """Draw the bias of a game's gradients at averages of K drawn vertices against K: measured, and two bounds.

    A further line shows the bias-reduced oracle (Algorithm 2): it has the bias of 2^(M+1) draws, at 2 E 2^N draws on
    average, where N <= M is its random level. about_draws : a sentence for the end of the caption.
    """
    simplices = (facts.d_x > 1) + (facts.d_y > 1)  # players with a choice
    draws = measured.draws.astype(float)
    lines = []
    if 0 < facts.second_smoothness < math.inf:
        bound_by_l2 = 2 * simplices * facts.second_smoothness / draws
        lines.append(Line(draws, bound_by_l2, "bound by L₂", ArmStyle(style.PALETTE["theory"], "dash")))
    if facts.smoothness > 0 and facts.second_smoothness > 0:  # with L₂ = 0 there is no bias to bound
        bound_by_l1 = 4 * math.sqrt(simplices) * facts.smoothness / np.sqrt(draws)
        lines.append(Line(draws, bound_by_l1, "bound by L₁", ArmStyle(style.PALETTE["theory"], "dot")))
    lines += _measured_line(measured)
    is_power_of_two = (measured.draws >= 2) & (measured.draws & (measured.draws - 1) == 0)
    is_drawn = is_power_of_two & (measured.mean > ROUNDING)
    if is_drawn.any():
        levels = [size.bit_length() - 2 for size in measured.draws[is_drawn].tolist()]  # M, as K = 2^(M+1)
        mean_draws = np.array([2 * theory.mean_batches(level) for level in levels])  # 2 E 2^N
        reduced = ArmStyle(style.PALETTE["second"], "solid")
        lines.append(Line(mean_draws, measured.mean[is_drawn], "bias-reduced oracle, draws on average", reduced))
    figure = _with_errors(lines, measured, f"Bias of the gradients{NOT_PRIVATE}")
    if not measured.bound.any():
        caption = "Gradients are linear here, so the bias is 0: what is drawn is the error of the simulation."
    else:
        caption = (
            "Largest coordinate of E ∇F(x̂, ŷ) - ∇F(x, y). Bounds: 2 L₂/K per player with second derivatives, 4 L₁/√K "
            "without (Appendix D; by E2 neither is needed for the gap). The bias-reduced oracle has the bias of many "
            "draws at the cost of few."
        )
    return chart(
        figure,
        "Bias of this game's gradients",
        "Measured bias of the gradients against draws, two bounds, and the bias-reduced oracle",
        f"{caption} {about_draws}",
        provenance="not private",
    )


def gradient_spread(measured: SamplingBias, about_draws: str = "") -> Chart:
    """Draw the mean squared error of x's gradient at the average of K drawn vertices against K: measured, and its
    bound. about_draws : a sentence for the end of the caption."""
    lines = []
    if (measured.bound > 0).all():
        bound_style = ArmStyle(style.PALETTE["theory"], "dash")
        lines.append(Line(measured.draws.astype(float), measured.bound, "bound", bound_style))
    lines += _measured_line(measured)
    figure = _with_errors(lines, measured, f"Mean squared error of x's gradient{NOT_PRIVATE}")
    return chart(
        figure,
        "Spread of x's gradient",
        "Mean squared largest error of x's gradient against draws, and its bound",
        "Mean of ‖∇ₓF(x̂, y) - ∇ₓF(x, y)‖²_∞, and its bound 2 (2 L₂/K)² + 4 L₁² (1 + ln 2d)/K. It falls like "
        f"1/K, the squared bias like 1/K². {about_draws}",
        provenance="not private",
    )


def tails(draws: Sequence[int]) -> Chart:
    """Draw, against α, the probability that a function's value at the average of K drawn vertices exceeds the value at
    the mixed strategy by α: exact for a linear function, and by the bound of Lemma 3.2.

    draws : up to four values of K, a color for each.
    """
    excess = np.linspace(0.01, 1.0, 200)
    colors = (style.PALETTE["private"], style.PALETTE["second"], style.PALETTE["spent"], style.PALETTE["theory"])
    lines = []
    for color, size in zip(colors, draws, strict=False):  # there may be fewer draws than colors
        exact, bound = sampling_bias.tail(size, excess)
        for values, name, dash in ((exact, f"K = {size}", "solid"), (bound, f"bound, K = {size}", "dash")):
            is_visible = values > RARE  # smaller probabilities would stretch the log axis
            lines.append(Line(excess[is_visible], values[is_visible], name, ArmStyle(color, dash)))
    return chart(
        line_figure(lines, Axes("Excess α", "Probability", log_y=True), height=style.ALONE),
        "How rarely drawn vertices overshoot",
        "Probability that drawn vertices exceed a value by so much, exact and by the lemma, for four numbers of draws",
        "Lemma 3.2: h(x̂) exceeds h(x) + 2 L₁/K by α with probability at most exp(-K α²/(2 L₀²)); for the "
        "absolute value twice that (erratum E9). Solid: exact, for h = ⟨c, x⟩ with c = ±1 and uniform x.",
    )


def _measured_line(measured: SamplingBias) -> list[Line]:
    """Return a list with the line of the measured values above 0, which a log axis can show; an empty list if there
    are none."""
    is_positive = measured.mean > ROUNDING
    if not is_positive.any():
        return []
    return [Line(measured.draws[is_positive].astype(float), measured.mean[is_positive], MEASURED, PRIVATE)]


def _with_errors(lines: list[Line], measured: SamplingBias, title: str) -> go.Figure:
    """Draw lines, among them that of `_measured_line`, on log axes against K; the measured values get markers with bars
    of two standard errors. title : of the vertical axis."""
    is_positive = measured.mean > ROUNDING
    notes = [] if is_positive.all() else [f"{(~is_positive).sum()} measured at 0 or below, not shown"]
    figure = line_figure(
        lines,
        Axes("Draws K", title, log_x=True, log_y=True),
        notes=notes,
        if_empty="Gradients are linear in what is drawn: nothing is biased.",
        height=style.ALONE,
    )
    show_errors(figure, MEASURED, measured.mean[is_positive], measured.standard_error[is_positive])
    return figure
