"""Figures of what a setting buys: the split of the budget, rows for a target gap, the paper's bound beside ours."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from dpviz.families.mirror_descent import advice, bounds, planning, theory
from dpviz.families.mirror_descent.methods import certified
from dpviz.numbers import short
from dpviz.plots.elements import style
from dpviz.plots.elements.lines import Limit, Line, Mark, line_figure
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
SHARES = np.linspace(0.05, 0.95, 37)
CERTIFICATE_SHARES = np.geomspace(0.01, 0.5, 40)
SHARES_COSTS = np.geomspace(0.01, 5.0, 60)


def split(
    facts: GameFacts,
    budget: Budget,
    rounds: int,
    *,
    draws: planning.Draws = 1,
    batching: planning.Batching = "full",
    chosen: float,
    height: int = style.HEIGHT,
) -> go.Figure:
    """`bounds.bound_over_shares` against the share of x; marked: the best split in closed form, and the chosen one."""
    bound, regret = bounds.bound_over_shares(facts, budget, SHARES.tolist(), rounds, draws=draws, batching=batching)
    best = theory.optimal_shares(planning.players(facts, draws), budget.pure)[0]
    marks = [
        Mark(share, float(np.interp(share, SHARES, regret)), f"{name}: φ = {share:.2f}", color)
        for name, share, color in (
            ("best", best, style.PALETTE["theory"]),
            ("chosen", chosen, style.PALETTE["second"]),
        )
        if SHARES[0] <= share <= SHARES[-1]
    ]
    return line_figure(
        [
            Line(SHARES, regret, "what the split decides, Σ ln d/(τ T)", OURS),
            Line(SHARES, bounds.told(bound, facts), "whole bound, best step sizes", LOWER),
        ],
        x_title="Share of x in the budget, φ",
        y_title="Part of the bound on the gap",
        log_y=True,
        marks=marks,
        notes=[f"best split φ = {best:.2f}, chosen {chosen:.2f}"],
        height=height,
    )


def certificate(
    facts: GameFacts, budget: Budget, *, chosen: float | None = None, height: int = style.HEIGHT
) -> go.Figure:
    """What is added to the gap of the output, on average, to certify it with 95 % confidence, against the share of the
    budget that pays for it; and how much shorter the steps of the game get."""
    widths, shorter = [], []
    for share in CERTIFICATE_SHARES.tolist():
        event = certified.certifying_event(budget.share(share, facts.released))
        widths.append(certified.upper_quantile(event, noise_scale(event, facts.gap_change / facts.n)))
        shorter.append(1 - (1 - share if budget.pure else math.sqrt(1 - share)))
    marks = []
    if chosen is not None:
        at = float(np.interp(chosen, CERTIFICATE_SHARES, widths))
        marks = [Mark(chosen, at, f"chosen: {short(100 * chosen)} %, + {short(at)}", style.PALETTE["second"])]
    return line_figure(
        [
            Line(CERTIFICATE_SHARES, np.array(widths), "added to the gap", OURS),
            Line(CERTIFICATE_SHARES, np.array(shorter), "steps shorter by, about", PAPER),
        ],
        x_title="Share of the budget for the certificate",
        y_title="Width; share of the steps",
        log_y=True,
        log_x=True,
        marks=marks,
        height=height,
    )


def group_shares(n: int, smallest: float, budget: Budget, *, height: int = style.HEIGHT) -> go.Figure:
    """What buying the groups' shares gives and takes, against its ε: the mean error of the smallest share, relative to
    it, and by how much the noise of the run grows because it gets the rest.

    Laplace noise of scale 2/ε on the counts has mean size 2/ε. Under pure ε steps shrink with what is left of ε, else
    with the root of what is left of ρ.
    """
    costs = SHARES_COSTS[0.95 * (budget.total_epsilon or math.inf) > SHARES_COSTS]
    whole = budget.about_rho(budget.amount)
    error, growth = 2 / (costs * n * smallest), []
    for cost in costs.tolist():
        rest = budget.about_rho(budget.amount - cost) if budget.total_epsilon else whole - cost**2 / 2
        growth.append(math.sqrt(whole / rest) - 1 if rest > 0 else math.nan)
    return line_figure(
        [
            Line(costs, error, "error of the smallest share", OURS),
            Line(costs, np.array(growth), "more noise in the run", PAPER),
        ],
        x_title="ε that buys the shares",
        y_title="Relative to the share; to the noise",
        log_y=True,
        log_x=True,
        height=height,
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
    height: int = style.HEIGHT,
) -> tuple[go.Figure, dict[str, float | None]]:
    """The gap that each number of rows promises: by the bound, and by the medians that were measured on generated data;
    and the fewest rows for a target, by name of the curve (None: not in reach).

    labels : methods whose medians are drawn, with their styles.
    """
    promised = bounds.rows_for_gap(facts, budget, target, draws)
    highest = max(10 * facts.n, 2 * (promised or 0))
    rows = np.geomspace(min(100, facts.n), highest, 60)
    bound = bounds.bound_over_rows(facts, budget, rows.tolist(), draws)
    lines = [Line(rows, bounds.told(bound, facts), "bound, best T", ArmStyle(style.PALETTE["theory"], "dash"))]
    needed: dict[str, float | None] = {"bound, best T": promised}
    for label, medians in advice.over_rows(problem, budget, rounds, rows.tolist()).items():
        if label in labels and np.isfinite(medians).any():
            lines.append(Line(rows, medians, label, labels[label]))
            needed[label] = advice.rows_for(medians, rows, target)
    figure = line_figure(
        lines,
        x_title="Rows n",
        y_title="Expected gap",
        log_y=True,
        log_x=True,
        limits=[Limit(target, f"target {short(target)}")],
        marks=[
            Mark(count, target, f"{name}: n = {count:,.0f}", style.PALETTE["second"])
            for name, count in needed.items()
            if count is not None
        ],
        if_empty=f"Nothing is known of this game: {facts.cannot_exceed}.",
        height=height,
    )
    return figure, needed


def paper_beside(
    facts: GameFacts,
    budget: ApproximateDP,
    *,
    draws: int = 1,
    share_x: float | None = 0.5,
    longest: int = 2048,
    height: int = style.HEIGHT,
) -> go.Figure:
    """Bounds on the expected gap against T: the direct one with all rows and in a single pass, the paper's own with its
    step sizes, and the part of that which is Lemma 4.2."""
    grid = np.unique(np.geomspace(2, min(longest, facts.n), 40).round())
    full, single = (
        bounds.bound_over_rounds(facts, budget, grid.astype(int).tolist(), draws=draws, share_x=share_x, batching=way)[
            1
        ]
        for way in ("full", "single")
    )
    whole, lemma = bounds.paper_over_rounds(facts, budget, grid, draws)
    return line_figure(
        [
            Line(grid, full, DIRECT, OURS),
            Line(grid, single, "direct, single pass", LOWER),
            Line(grid, whole, PAPERS, PAPER),
            Line(grid, lemma, "of which Lemma 4.2", LEMMA),
        ],
        x_title="Rounds T",
        y_title="Bound on the excess loss" if facts.d_y == 1 else "Bound on the duality gap",
        log_y=True,
        log_x=True,
        limits=[Limit(facts.largest_gap, facts.cannot_exceed)] if facts.largest_gap < math.inf else [],
        height=height,
    )


def smallest(figure: go.Figure, names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """(x, y) of the lowest point of each line, by name: what a caption says in numbers."""
    found = {}
    for trace in figure.data:
        if trace.name in names and len(trace.y):
            place = int(np.argmin(trace.y))
            found[trace.name] = (float(trace.x[place]), float(trace.y[place]))
    return found
