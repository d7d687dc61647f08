"""Figures for choosing settings: the split of the budget, rows for a target gap, the paper's bound and ours; and the
effect of few drawn vertices on gradients of a game and on values: bias, spread, rare deviations.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from dpviz.families.mirror_descent import advice, bounds, planning, presets, sampling_bias, theory
from dpviz.families.mirror_descent.figures import bounded
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

OURS = ArmStyle(style.PALETTE["private"], "solid")
LOWER = ArmStyle(style.PALETTE["private"], "dash")
PAPER = ArmStyle(style.PALETTE["spent"], "solid")
LEMMA = ArmStyle(style.PALETTE["spent"], "dot")
DIRECT, PAPERS = "direct, all rows (gap on the data)", "the paper's, single pass"
SPLIT_HEIGHT = 340  # pixels
SHARES = np.linspace(0.05, 0.95, 37)
CERTIFICATE_SHARES = np.geomspace(0.01, 0.5, 40)
SHARES_COSTS = np.geomspace(0.01, 5.0, 60)


def split(
    facts: GameFacts, budget: Budget, rounds: int, *, sampling: planning.Sampling = planning.USUAL, chosen: float
) -> Chart:
    """Draw `bounds.bound_over_shares` against the share of x; mark the best split in closed form, and `chosen`."""
    bound, regret = bounds.bound_over_shares(facts, budget, SHARES.tolist(), rounds, sampling)
    best = theory.optimal_shares(planning.players(facts, sampling.draws), budget.pure)[0]
    marks = [
        Mark(share, float(np.interp(share, SHARES, regret)), f"{name}: φ = {share:.2f}", color)
        for name, share, color in (("best", best, style.PALETTE["theory"]), ("chosen", chosen, style.PALETTE["second"]))
        if SHARES[0] <= share <= SHARES[-1]
    ]
    figure = line_figure(
        [
            Line(SHARES, regret, "what the split decides, Σ ln d/(τ T)", OURS),
            Line(SHARES, bounds.told(bound, facts), "whole bound, best step sizes", LOWER),
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
    """Draw the width of a certificate with 95 % confidence against its share of the budget, with the shortening of the
    game's steps.

    The width is the mean amount that is added to the gap of the output. chosen : a share to mark.
    """
    widths, shortening = [], []
    for share in CERTIFICATE_SHARES.tolist():
        event = algorithms.certifying_event(budget.share(share, facts.released))
        widths.append(algorithms.upper_quantile(event, noise_scale(event, facts.gap_change / facts.n)))
        shortening.append(1 - (1 - share if budget.pure else math.sqrt(1 - share)))
    marks = []
    if chosen is not None:
        width = float(np.interp(chosen, CERTIFICATE_SHARES, widths))
        marks = [Mark(chosen, width, f"chosen: {short(100 * chosen)} %, + {short(width)}", style.PALETTE["second"])]
    figure = line_figure(
        [
            Line(CERTIFICATE_SHARES, np.array(widths), "added to the gap", OURS),
            Line(CERTIFICATE_SHARES, np.array(shortening), "steps shorter by, about", PAPER),
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


def group_shares(n: int, smallest: float, budget: Budget, *, costs_paid: Sequence[float] = ()) -> Chart:
    """Draw gain and loss of releasing the groups' shares against its ε: the mean error of the smallest share, relative
    to it, and the growth of the noise of the run, which gets the rest of the budget.

    n : rows. smallest : the smallest share. Laplace noise of scale 2/ε on the counts has mean size 2/ε. Under pure ε
    steps shrink with the rest of ε, else with the root of the rest of ρ. costs_paid : ε of earlier releases of shares.
    """
    costs = SHARES_COSTS[0.95 * (budget.total_epsilon or math.inf) > SHARES_COSTS]
    total_rho = budget.about_rho(budget.amount)
    error, growth = 2 / (costs * n * smallest), []
    for cost in costs.tolist():
        rest = budget.about_rho(budget.amount - cost) if budget.total_epsilon else total_rho - cost**2 / 2
        growth.append(math.sqrt(total_rho / rest) - 1 if rest > 0 else math.nan)
    figure = line_figure(
        [
            Line(costs, error, "error of the smallest share", OURS),
            Line(costs, np.array(growth), "more noise in the run", PAPER),
        ],
        Axes("ε that buys the shares", "Relative to the share; to the noise", log_x=True, log_y=True),
        height=style.ALONE,
    )
    paid = f"Spent on them: ε = {' + '.join(map(short, costs_paid))}. " if costs_paid else ""
    return chart(
        figure,
        "For the groups' shares",
        "Error of the smallest share, and how much noisier the run gets, against the ε that buys the shares",
        "Shares are declared here, or bought for an ε that comes off the run's budget (Laplace noise of scale "
        f"2/ε on the numbers of rows). {paid}Worth it where both curves are low: a wrong share re-weights its "
        "group by as much.",
    )


def rows_for_gap(
    problem: ProblemSpecification,
    facts: GameFacts,
    budget: Budget,
    target: float,
    rounds: int,
    labels: Mapping[str, ArmStyle],
    *,
    draws: planning.Draws = 1,
) -> tuple[Chart, dict[str, float | None]]:
    """Draw the expected gap against the number of rows, by the bound and by medians measured on generated data; return
    also the smallest number of rows for a target, by name of the curve (None: not in reach).

    labels : methods whose medians are drawn, with their styles.
    """
    by_bound = bounds.rows_for_gap(facts, budget, target, draws)
    rows = np.geomspace(min(100, facts.n), max(10 * facts.n, 2 * (by_bound or 0)), 60)
    bound = bounds.bound_over_rows(facts, budget, rows.tolist(), draws)
    lines = [Line(rows, bounds.told(bound, facts), "bound, best T", ArmStyle(style.PALETTE["theory"], "dash"))]
    needed: dict[str, float | None] = {"bound, best T": by_bound}
    for label, medians in advice.over_rows(problem, budget, rounds, rows.tolist()).items():
        if label in labels and np.isfinite(medians).any():
            lines.append(Line(rows, medians, label, labels[label]))
            needed[label] = advice.rows_for(medians, rows, target)
    figure = line_figure(
        lines,
        Axes("Rows n", "Expected gap", log_x=True, log_y=True, bound="upper"),
        limits=[Limit(target, f"target {short(target)}")],
        marks=[
            Mark(count, target, f"{name}: n = {math.ceil(count):,}", style.PALETTE["second"])
            for name, count in needed.items()
            if count is not None
        ],
        if_empty=f"Nothing is known of this game: {facts.cannot_exceed}.",
        height=style.ALONE,
    )
    bias = theory.sampling_bias(planning.players(facts, draws))
    why = f" Sampling alone can cost {short(bias)} in the bound: draw more vertices." if bias >= target else ""
    counts = [f"{name}: {f'{math.ceil(count):,}' if count else 'not in reach'}" for name, count in needed.items()]
    made = chart(
        figure,
        f"Rows for a gap of {short(target)}",
        "Expected gap against the number of rows, by the bound and by measured medians, with the target",
        f"Rows needed: {'; '.join(counts)}. You have {facts.n:,}.{why} Bound: all rows in every round, the best T up "
        "to 100,000, the best split.",
    )
    return made, needed


def paper_beside(
    facts: GameFacts, budget: ApproximateDP, *, draws: int = 1, share_x: float | None = 0.5, longest: int = 2048
) -> Chart:
    """Draw bounds on the expected gap against T: the direct one with all rows and in a single pass, the paper's with
    its step sizes, and the part of the latter by Lemma 4.2. longest : largest T."""
    grid = np.unique(np.geomspace(2, min(longest, facts.n), 40).round())
    samplings = (planning.Sampling(draws, share_x, "full"), planning.Sampling(draws, share_x, "single"))
    full, single = (bounds.bound_over_rounds(facts, budget, grid.astype(int).tolist(), each)[1] for each in samplings)
    paper, lemma = bounds.paper_over_rounds(facts, budget, grid, draws)
    figure = line_figure(
        [
            Line(grid, full, DIRECT, OURS),
            Line(grid, single, "direct, single pass", LOWER),
            Line(grid, paper, PAPERS, PAPER),
            Line(grid, lemma, "of which Lemma 4.2", LEMMA),
        ],
        Axes("Steps T", bounded(facts.d_y == 1), log_x=True, log_y=True, bound="upper"),
        limits=[Limit(facts.largest_gap, facts.cannot_exceed)] if facts.largest_gap < math.inf else [],
        height=style.ALONE,
    )
    lowest = smallest(figure, (DIRECT, PAPERS))
    told = "; ".join(f"{name} {short_up(y)} at T = {x:,.0f}" for name, (x, y) in lowest.items())
    return chart(
        figure,
        "The paper's bound and ours",
        "Bound on the gap against the rounds: direct with all rows, direct in a single pass, the paper's, Lemma 4.2",
        f"Lowest: {told}. K = {draws}. The paper's step is min(√(ℓ/T)/L₀, its privacy cap); its other terms are "
        "regret and the bias of gradients.",
    )


def smallest(figure: go.Figure, names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return (x, y) of the lowest point of each line in `names`, by name, for captions."""
    points = {}
    for trace in figure.data:
        if trace.name in names and len(trace.y):
            index = int(np.argmin(trace.y))
            points[trace.name] = (float(trace.x[index]), float(trace.y[index]))
    return points


MEASURED = "measured ± 2 standard errors"
ROUNDING = 1e-15  # smaller values count as 0
NOT_PRIVATE = "<br>(not private)"  # in the title of the axis, which every export of the figure has


def gradient_bias(measured: SamplingBias, facts: GameFacts, words: str = "") -> Chart:
    """Draw the bias of gradients against the draws: measured, its two bounds, and that of the bias-reduced oracle,
    which at 2 E 2^N draws on average has the bias of 2^{M+1}. words : on the draws, in the caption."""
    simplices, draws = (facts.d_x > 1) + (facts.d_y > 1), measured.draws.astype(float)
    lines = []
    if 0 < facts.second_smoothness < math.inf:
        second = 2 * simplices * facts.second_smoothness / draws
        lines.append(Line(draws, second, "bound by L₂", ArmStyle(style.PALETTE["theory"], "dash")))
    if facts.smoothness > 0 and facts.second_smoothness > 0:
        first = 4 * math.sqrt(simplices) * facts.smoothness / np.sqrt(draws)
        lines.append(Line(draws, first, "bound by L₁", ArmStyle(style.PALETTE["theory"], "dot")))
    lines += _points(measured)
    levels = [(k, int(size)) for k, size in enumerate(measured.draws) if size >= 2 and size & (size - 1) == 0]
    if levels and (measured.mean > ROUNDING).any():
        cost = np.array([2 * theory.mean_batches(int(size).bit_length() - 2) for _, size in levels])
        bias = measured.mean[[k for k, _ in levels]]
        reduced = ArmStyle(style.PALETTE["second"], "solid")
        lines.append(
            Line(cost[bias > ROUNDING], bias[bias > ROUNDING], "bias-reduced oracle, draws on average", reduced)
        )
    figure = _marked(lines, measured, f"Bias of the gradients{NOT_PRIVATE}")
    caption = "Gradients are linear here, so the bias is 0: what is drawn is the error of the simulation."
    if measured.bound.any():
        caption = (
            "Largest coordinate of E ∇F(x̂, ŷ) - ∇F(x, y). Bounds: 2 L₂/K per player with second derivatives, 4 L₁/√K "
            "without (Appendix D; by E2 neither is needed for the gap). The bias-reduced oracle has the bias of many "
            "draws at the cost of few."
        )
    return chart(
        figure,
        "Bias of this game's gradients",
        "Measured bias of the gradients against draws, two bounds, and the bias-reduced oracle",
        f"{caption} {words}",
        provenance="not private",
    )


def gradient_spread(measured: SamplingBias, words: str = "") -> Chart:
    """Draw the second moment of the error of x's gradient against the draws: measured, and its bound. words : on the
    draws, in the caption."""
    lines = []
    if (measured.bound > 0).all():
        bound = ArmStyle(style.PALETTE["theory"], "dash")
        lines.append(Line(measured.draws.astype(float), measured.bound, "bound", bound))
    lines += _points(measured)
    figure = _marked(lines, measured, f"Mean squared error of x's gradient{NOT_PRIVATE}")
    return chart(
        figure,
        "Spread of x's gradient",
        "Mean squared largest error of x's gradient against draws, and its bound",
        "Mean of ‖∇ₓF(x̂, y) - ∇ₓF(x, y)‖²_∞, and its bound 2 (2 L₂/K)² + 4 L₁² (1 + ln 2d)/K. It falls like "
        f"1/K, the squared bias like 1/K². {words}",
        provenance="not private",
    )


def tails(draws: Sequence[int]) -> Chart:
    """Draw the probability that the value at drawn vertices exceeds the true one by α, against α: exact for a linear
    function, and by the bound of Lemma 3.2; for each number of `draws`."""
    excess = np.linspace(0.01, 1.0, 200)
    colors = (style.PALETTE["private"], style.PALETTE["second"], style.PALETTE["spent"], style.PALETTE["theory"])
    lines = []
    for color, size in zip(colors, draws, strict=False):
        exact, bound = sampling_bias.tail(size, excess)
        is_visible = exact > 1e-9
        lines.append(Line(excess[is_visible], exact[is_visible], f"K = {size}", ArmStyle(color, "solid")))
        lines.append(Line(excess[bound > 1e-9], bound[bound > 1e-9], f"bound, K = {size}", ArmStyle(color, "dash")))
    return chart(
        line_figure(lines, Axes("Excess α", "Probability", log_y=True), height=style.ALONE),
        "How rarely drawn vertices overshoot",
        "Probability that drawn vertices exceed a value by so much, exact and by the lemma, for four numbers of draws",
        "Lemma 3.2: h(x̂) exceeds h(x) + 2 L₁/K by α with probability at most exp(-K α²/(2 L₀²)); for the "
        "absolute value twice that (erratum E9). Solid: exact, for h = ⟨c, x⟩ with c = ±1 and uniform x.",
    )


def _points(measured: SamplingBias) -> list[Line]:
    """Return the line of the measured values above 0; no line if there are none."""
    positive = measured.mean > ROUNDING
    if not positive.any():
        return []
    return [Line(measured.draws[positive].astype(float), measured.mean[positive], MEASURED, OURS)]


def _marked(lines: list[Line], measured: SamplingBias, title: str) -> go.Figure:
    """Draw the lines on log axes, with markers and bars of two standard errors on the measured values above 0."""
    positive = measured.mean > ROUNDING
    notes = [] if positive.all() else [f"{(~positive).sum()} measured at 0 or below, not shown"]
    figure = line_figure(
        lines,
        Axes("Draws K", title, log_x=True, log_y=True),
        notes=notes,
        if_empty="Gradients are linear in what is drawn: nothing is biased.",
        height=style.ALONE,
    )
    show_errors(figure, MEASURED, measured.mean[positive], measured.standard_error[positive])
    return figure
