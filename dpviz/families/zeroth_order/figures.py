"""Figures that only the page of the zeroth-order methods has.

Before a run: rows that a target needs, noise of running sums and along an epoch, the parts of the bound, the tree of
the running sums, readings of the budget. After it: how long the gradients were, and how stationary the results are.

In a figure a `Limit` is a labelled horizontal line, a `VerticalLine` a vertical one, a `Mark` a point with a hover
text; `labels=False` leaves all names to the legend. `bound="upper"` rounds the numbers of the y axis up. Arrays of
plotly's traces have small types, as pages load them.

Notation: d parameters, L Lipschitz constant, r smoothing radius, K epochs of T steps, D the longest move, μ the budget.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.errors import UserError
from dpviz.experiments.experiment import Arm
from dpviz.experiments.plan import Plan, weakest_privacy
from dpviz.experiments.trace import Trace
from dpviz.families.zeroth_order import advice, algorithms, complexity, planning, texts, theory
from dpviz.families.zeroth_order.advice import Expectation
from dpviz.families.zeroth_order.planning import Layout
from dpviz.families.zeroth_order.theory import Bound, Setting
from dpviz.numbers import short, short_up
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.chart import SETTINGS_ONLY, Chart, chart
from dpviz.plots.elements.lines import (
    Limit,
    Line,
    Mark,
    VerticalLine,
    empty_figure,
    limit_across,
    line_drawing,
    line_figure,
    vertical_line_parts,
)
from dpviz.plots.elements.style import ArmStyle
from dpviz.privacy.accounting.closed_forms import gdp_epsilon, zcdp_epsilon
from dpviz.privacy.budgets import Budget
from dpviz.privacy.matrix_factorisation import tree_nodes
from dpviz.problems.values.value_problem import ValueFacts

STYLES = (  # lines of the ways to estimate gradients in `complexity.WAYS`
    ArmStyle(style.PALETTE["private"], "solid"),
    ArmStyle(style.PALETTE["private"], "dash"),
    ArmStyle(style.PALETTE["spent"], "solid"),
    ArmStyle(style.PALETTE["spent"], "dash"),
)
RATES = (  # published rates, without constants and logarithms: name, function, line
    ("published rate alone", theory.published_rows, ArmStyle(style.GREY, "dot")),
    ("naive rate alone", theory.naive_rows, ArmStyle(style.GREY, "dash")),
)
_DASHDOT, _OTHER_SOLID = ArmStyle(style.PALETTE["private"], "dashdot"), ArmStyle(style.PALETTE["theory"], "solid")
_OPTION_STYLES = (STYLES[0], _DASHDOT, STYLES[1], _OTHER_SOLID, *STYLES[2:])
OPTIONS = {way.name: line for way, line in zip(advice.WAYS, _OPTION_STYLES, strict=True)}  # lines of the ways
# Curves against the length of an epoch: kind of running sums, name, True if batches follow the moves, line.
CURVES: tuple[tuple[complexity.Growing, str, bool, ArmStyle], ...] = (
    ("published", "Tree, as published", False, STYLES[0]),
    ("square_root", "Square root", False, STYLES[1]),
    ("square_root", "Square root, batches follow moves", True, ArmStyle(style.PALETTE["theory"], "solid")),
)
FREE = (STYLES[0], STYLES[3])  # lines of `free_privacy`: independent and orthonormal directions
_FINER = 10  # ratio of the stationarity that is marked and the smallest that is drawn
LENGTHS: tuple[int, ...] = tuple(2**j for j in range(1, 16))  # steps of an epoch, in curves
LONGEST = 1024  # largest number of steps of an epoch in the settings


def rows_needed(setting: Setting, accuracy: float) -> tuple[Chart, dict[str, float]]:
    """Draw the number of rows M that a target needs against the target ε; return also M at ε = `accuracy`, by the names
    of the curves.

    The target is a convex combination of gradients of length at most ε within 2r of the result. There is a curve for
    each way to estimate gradients in `complexity.WAYS`, by the bounds with all constants, and one for each published
    rate, without constants and logarithms. M is inf where 10¹¹ rows are too few. From ε = L on a bound says nothing:
    the curves end there, and begin at a tenth of `accuracy`.

    setting : its μ is the budget, its n is drawn as a line; its directions do not matter. accuracy : is marked.
    """
    lines, marks, needed = [], [], {}
    finest = min(accuracy, setting.lipschitz) / _FINER
    for way, arm_style in zip(complexity.WAYS, STYLES, strict=True):
        rows, bound = complexity.bounds(setting, way)
        is_drawn = (bound < setting.lipschitz) & (bound > finest)
        is_drawn &= np.append(True, bound[1:] < bound[:-1])  # rows without effect on the bound are not needed
        # The bound falls as rows grow, and a line's x, here the bound, must ascend.
        lines.append(Line(bound[is_drawn][::-1], rows[is_drawn][::-1], way.name, arm_style))
        count = complexity.rows_needed(setting, way, accuracy)
        needed[way.name] = count
        if count < math.inf:
            text = f"{way.name}: M = {short_up(count, 2)} at ε = {short(accuracy)}"
            marks.append(Mark(accuracy, count, text, arm_style.color))
    grid = np.geomspace(finest, setting.lipschitz, 40)
    constants = setting.d, setting.lipschitz, setting.gap, 2 * setting.radius  # the target is within 2r
    for name, rate, arm_style in RATES:
        rates = np.array([rate(*constants, epsilon, setting.mu) for epsilon in grid.tolist()])
        lines.append(Line(grid, rates, name, arm_style))
        needed[name] = rate(*constants, accuracy, setting.mu)
    figure = line_figure(
        lines,
        Axes("Stationarity ε", "Rows needed, M", log_x=True, log_y=True, bound="upper"),
        limits=[Limit(setting.n, f"your n = {setting.n:,}")],
        marks=marks,
        verticals=[VerticalLine(accuracy, f"ε = {short(accuracy)}")],
        notes=["rates have no constants and no logarithms"],
        labels=False,
    )
    counts = {name: short_up(count, 2) if count < math.inf else "beyond 10¹¹" for name, count in needed.items()}
    rows_by_name = "; ".join(f"{name} {count}" for name, count in counts.items())
    return chart(
        figure,
        "How many rows does it take?",
        "Rows needed against the stationarity, for four methods",
        f"Rows at stationarity {short(accuracy)}: {rows_by_name}.",
    ), needed


def free_privacy(d: int, lipschitz: float, accuracy: float, mu: float) -> Chart:
    """Draw the region of budgets μ for which privacy is free, against the target ε.

    Privacy is free where it costs no more than a constant factor of rows: the term with μ is the smaller one in the
    published rate of rows of the variance-reduced oracle. That holds above √d ε/L as published, and above ε/L with
    orthonormal directions.

    accuracy, mu : ε and μ of the settings, a point that is marked; none if mu is inf, without privacy.
    """
    is_finite = 0 < mu < math.inf
    # From 1 % of L to L, as no gradient is longer; and so far that the marked ε is inside.
    grid = np.geomspace(min(0.01 * lipschitz, accuracy / 2), max(lipschitz, 2 * accuracy), 40)
    # The smallest free μ at ε = `accuracy`; it is in proportion to ε.
    published, orthonormal = (theory.free_privacy(d, lipschitz, accuracy, kind) for kind in ("iid", "orthonormal"))
    # The areas end above both lines, of which the first is the higher one, and above the mark; 3 and 2 are by eye.
    top = max(3 * published * grid[-1] / accuracy, 2 * mu if is_finite else 0.0)
    lines, names = [], ("free as published", "free with orthonormal directions")
    for threshold, name, arm_style in zip((published, orthonormal), names, FREE, strict=True):
        edge = threshold * grid / accuracy
        lines.append(Line(grid, edge, name, arm_style, low=edge, high=np.full(len(grid), top), value_in_label=False))
    if mu >= published:
        verdict = "free"
    elif mu >= orthonormal:
        verdict = "free with orthonormal directions"
    else:
        verdict = "privacy takes more rows"
    text = f"you, μ = {short(mu)}: {verdict}"
    marks = [Mark(accuracy, mu, text, style.PALETTE["second"])] if is_finite else []
    figure = line_figure(
        lines,
        Axes("Stationarity ε", "Budget μ", log_x=True, log_y=True),
        marks=marks,
        notes=[f"here: free from μ = {short_up(published)} on, orthonormal {short_up(orthonormal)}"],
    )
    return chart(
        figure,
        "When is privacy free?",
        "The region of budgets in which privacy costs no rows",
        "Above a line, the private term of the rate is the smaller one: privacy then costs no more than a "
        "constant factor of rows. As published from μ = √d s on, with orthonormal directions from s on; s is the "
        "stationarity over L.",
    )


def crossover(length: int, step_ratio: float | None = None) -> Chart:
    """Draw a ratio against the steps T of an epoch: the term of the bound that comes from noise, with running sums over
    that with estimates made afresh, on the same rows, in the same directions.

    Below 1 the bound favours running sums. It is no ratio of noise: the bound counts the errors of running sums twice.

    length : T of the settings, at most 1,024, which is marked. step_ratio : of the settings' running sums, their noise
        in a step over that of fresh estimates, for which there is one mark; None without such sums: then each curve has
        a mark.
    """
    grid = sorted({*LENGTHS, length})
    lines, marks = [], []
    for kind, name, following, arm_style in CURVES:
        ratios = _ratios_in_bound(kind, following, grid)
        lines.append(Line(np.array(grid), ratios, name, arm_style, value_in_label=False))
        if step_ratio is None:
            ratio = float(ratios[grid.index(length)])
            marks.append(Mark(length, ratio, f"{name}, T = {length}: {short(ratio)}", arm_style.color))
    if step_ratio is not None:
        ratio = 2 * math.sqrt(length) * step_ratio  # 2e over e/√T, with e the oracle's error from noise alone
        marks.append(Mark(length, ratio, f"yours, T = {length}: {short(ratio)}", style.PALETTE["second"]))
    figure = line_figure(
        lines,
        Axes("Steps per epoch T", "Bound's private term, sums over naive", log_x=True, log_y=True),
        limits=[Limit(1.0, "the bound favours running sums below")],
        marks=marks,
        verticals=[VerticalLine(length, f"T = {length:,}")],
    )
    published, root, with_moves = (f"{favoured_from(kind, following):,}" for kind, _, following, _ in CURVES)
    return chart(
        figure,
        "What does the bound make of it?",
        "Private term of the bound with running sums over that with fresh estimates, against the steps",
        "What the bound makes of the same noise: it counts the error of running sums twice in every step, and "
        f"lets that of fresh estimates average out. So it favours running sums only from T = {published} on as "
        f"published, {root} with the square root, {with_moves} if batches follow the moves. It is no statement "
        "about noise, nor about runs.",
    )


def _ratios_in_bound(kind: complexity.Growing, follows: bool, lengths: Sequence[int]) -> np.ndarray:
    """Return (k,) for each of k lengths of an epoch the ratio of what noise contributes to the bound, with running sums
    over fresh estimates, 2e to e/√T with e the oracle's error from noise alone: 8 √(ν_T/T), or half of that if batches
    follow the moves."""
    return (4 if follows else 8) * np.sqrt(complexity.mean_variances(kind, lengths) / np.array(lengths))


@cache
def favoured_from(kind: complexity.Growing, follows: bool) -> int:
    """Return the length of epochs from which on, for all longer ones too, the bound favours these running sums over
    fresh estimates."""
    lengths = range(2, LENGTHS[-1])
    is_not_favoured = _ratios_in_bound(kind, follows, lengths) >= 1
    last_not_favoured = int(np.flatnonzero(is_not_favoured)[-1])
    return lengths[last_not_favoured + 1]


def noise_ratio(length: int, planned: tuple[float, float] | None = None) -> Chart:
    """Draw a ratio against the steps T of an epoch: the standard deviation of the noise of running sums over that of
    estimates made afresh, on the same rows, in the same directions.

    Each kind of sums has a line for the mean of the estimates of an epoch, and a thin one for the estimate of a step.

    length : T of the settings, which is marked. planned : both ratios of the settings' running sums, of a step and of
        an epoch's mean; None without such sums, then there is no mark.
    """
    grid = [T for T in sorted({*LENGTHS, length}) if T <= LONGEST]
    lines, marks = [], []
    for kind, name, following, arm_style in CURVES:
        step, mean = np.array([theory.noise_ratios(kind, T, following) for T in grid]).T
        lines.append(Line(np.array(grid), mean, name, arm_style, value_in_label=False))
        lines.append(Line(np.array(grid), step, f"{name}, a step", arm_style, width=1.0, group=name, legend=False))
    if planned is not None:
        for estimate, ratio in zip(("a step", "an epoch's mean"), planned, strict=True):
            text = f"yours, {estimate}, T = {length}: {short(ratio)}"
            marks.append(Mark(length, ratio, text, style.PALETTE["second"]))
    figure = line_figure(
        lines,
        Axes("Steps per epoch T", "Noise, running sums over naive", log_x=True, log_y=True),
        limits=[Limit(1.0, "less noise with running sums below")],
        marks=marks,
        verticals=[VerticalLine(length, f"T = {length:,}")],
        notes=["thick: mean of an epoch; thin: a step"],
        labels=False,
    )
    return chart(
        figure,
        "How much noise do running sums save?",
        "Noise of running sums over that of fresh estimates, against the steps of an epoch",
        "Noise in the estimate of a step, and in the mean of an epoch's estimates, at equal rows and directions. The "
        "lines are for moves of r/T and equal sensitivities, the marks “yours” for the plan. Below 1 running sums have "
        "less of it.",
    )


def measured_ends(expected: Expectation) -> Chart:
    """Draw the median objective at the end of measured runs against the steps T of an epoch, a line for each way to
    estimate gradients, with the number of epochs that was best for it."""
    lengths = np.array(expected.lengths)
    lines = [
        Line(lengths, medians.min(axis=1), name, OPTIONS[name], value_in_label=False)
        for name, medians in expected.medians.items()
    ]
    figure = line_figure(
        lines,
        Axes("Steps per epoch T", "Objective at the end of runs, median", log_x=True, log_y=True),
        limits=[Limit(expected.start, "the start")],
        labels=False,
    )
    return chart(
        figure,
        "What do runs show?",
        "Objective at the end of runs, median, against the steps of an epoch",
        texts.MEASURED if expected.inside else texts.MEASURED_ELSEWHERE,
    )


# The parts of the bound: word, colour, pattern. Colour is never alone.
PARTS = (
    ("way to go", style.PALETTE["private"], ""),
    ("learner's regret", style.PALETTE["theory"], "/"),
    ("oracle's error", style.PALETTE["second"], "x"),
)
BOUND = "Bound on ‖∇F(w̄)‖ within r + R_w"
ERRORS = 2.0  # half the width of a band, in standard errors
FACTORS = (1 / 16, 1, 64)  # multiples of the present dimension that are drawn: in between, the noise is a power of it
FINER_FACTORS = (*2.0 ** np.arange(-4, 6.01, 0.5),)  # with a concentration clip, which depends on it, too


AT_EPOCHS = {  # headings and captions of diagnostics at a few epochs
    "stationarity_bound": (
        "Is it a stationary place?",
        "Goldstein stationarity within r, from above: a mixture of gradients at 20 points, at a few epochs. Up to "
        "1,000 rows say which mixture is short, up to 3,000 others how long it is. The band is the sampling error of "
        "that length, not the spread of the runs; 0 would mean that the gradients of these rows cancel exactly.",
    ),
    "smoothed_gradient_norm": (
        "Is the smoothed gradient small?",
        "An estimate of ‖∇F̂_r‖ from 4,000 rows at most, at a few epochs: it bounds the Goldstein stationarity within "
        "r. The band is the estimate's own sampling error, not the spread of the runs; below 0 it cannot be told from "
        "0.",
    ),
}
STATIONARITY = {  # metric of how stationary a point is, and the metric that holds its standard error
    "stationarity_bound": "stationarity_error",
    "smoothed_gradient_norm": "smoothed_gradient_error",
}


def noise_of_an_epoch(plans: Mapping[str, Plan], styles: Mapping[str, ArmStyle]) -> Chart:
    """Draw the standard deviation of the noise on a coordinate of the gradient g_t against the steps t of an epoch, a
    line per method; all epochs are alike.

    Methods without epochs, and those without privacy, are left out.
    """
    lines = []
    for label, plan in plans.items():
        if plan.private and "epoch_length" in plan.resolved:
            noise = _noise_scales(plan)[: int(plan.resolved["epoch_length"])]
            lines.append(Line(np.arange(1, len(noise) + 1), noise, label, styles[label], value_in_label=False))
    figure = line_drawing(
        lines,
        Axes("Step t of an epoch", "Noise of g_t, σ", log_y=True),
        if_empty="No method with epochs.",
        height=style.SMALL,
    )
    return chart(
        figure,
        "Noise along an epoch",
        "Noise on each coordinate in the steps of an epoch, one line per method",
        "Standard deviation of what is added to each coordinate of g_t. With a tree it follows the binary digits "
        "of t; fresh estimates have the same noise in every step.",
    )


def noise_by_dimension(arms: Sequence[Arm], plans: Mapping[str, Plan], styles: Mapping[str, ArmStyle]) -> Chart:
    """Draw the noise scale of a step, root mean square over the steps, against the number of parameters d, a line per
    private method, with all other settings as they are. A dot marks the present d.

    Each point is that of the plan that the method would have with this d.
    """
    lines, marks = [], []
    for arm in arms:
        plan = plans[arm.label]
        if not plan.private:
            continue
        facts = ValueFacts.of(plan.facts)
        noise = {}  # by dimension
        factors = FACTORS if getattr(arm.algorithm, "concentration", None) is None else FINER_FACTORS
        for d in sorted({max(1, round(facts.d * factor)) for factor in factors}):
            # Without the starting point, which has the present number of entries: plans do not need it.
            scales = _noise_scales(arm.algorithm.plan(replace(facts, d=d, start=()), plan.budget))
            noise[d] = float(np.sqrt((scales**2).mean()))
        lines.append(
            Line(np.array([*noise]), np.array([*noise.values()]), arm.label, styles[arm.label], value_in_label=False)
        )
        text = f"{arm.label}, d = {facts.d:,}: {short(noise[facts.d])}"
        marks.append(Mark(facts.d, noise[facts.d], text, styles[arm.label].color, symbol="circle"))
    figure = line_drawing(
        lines,
        Axes("Parameters d", "Noise of a step, σ", log_x=True, log_y=True),
        marks=marks,
        notes=["no curve of privacy: step 1 is charged for all"],
        if_empty="No method adds noise.",
        height=style.SMALL,
    )
    caption = (
        "Noise on each coordinate of the gradient estimate (of DP-ZO: on the one slope), root mean square over the "
        "steps, if there were so many parameters and all else stayed. All privacy is charged at the first step, as "
        "every row is in one step only."
    )
    alt = "Noise of a step against the number of parameters, one line per method; a dot at the present number"
    return Chart(figure, "Noise and dimension", alt, f"{caption} {SETTINGS_ONLY}")


def _noise_scales(plan: Plan) -> np.ndarray:
    """Return (K T,) the noise scale of every step; plans of this family have one kind of noise."""
    (scales,) = plan.noise.values()
    return scales


def privacy_of_first_steps(curves: Mapping[str, np.ndarray], styles: Mapping[str, ArmStyle], mu: float) -> Chart:
    """Draw the μ of what the first t steps of an epoch release against t, a line per method with epochs.

    Where the noise of running sums is correlated, it is less than the μ of the whole run, `mu`.
    curves : by label, (T,) μ after t = 1..T steps.
    """
    lines = [Line(np.arange(1, len(curve) + 1), curve, label, styles[label]) for label, curve in curves.items()]
    figure = line_figure(
        lines,
        Axes("Steps t of an epoch that were watched", "μ of what was released", from_zero=True, bound="upper"),
        limits=[Limit(mu, f"whole run μ = {short_up(mu, 4)}")],
        if_empty="No method with epochs.",
    )
    return chart(
        figure,
        "What the first steps tell",
        "Privacy of what the first steps of an epoch release, one line per method",
        "What somebody has learned who watches the first t steps of an epoch only. Sums that are correlated give "
        "their secrets away little by little; the guarantee is for all of them.",
    )


# By name, a function from the μ and the δ of a guarantee to an ε for which (ε, δ)-DP follows.
READINGS: Mapping[str, Callable[[float, float], float]] = {
    "exact": gdp_epsilon,
    "through zCDP": lambda mu, delta: zcdp_epsilon(mu**2 / 2, delta),
    "by the paper's formula": lambda mu, delta: mu**2 / 2 + mu * math.sqrt(2 * math.log(1 / delta)),
}
_DELTAS = np.geomspace(1e-10, 1e-2, 33)


def readings(mu: float, delta: float) -> Chart:
    """Draw the ε of μ-Gaussian DP against δ, read in three ways; the present `delta` is marked.

    They are the exact ε (Dong, Roth, Su 2019), that through zCDP (Canonne, Kamath, Steinke 2020), and the paper's
    formula ε = μ²/2 + μ√(2 ln 1/δ) (Mironov 2017).
    """
    line_styles = (
        ArmStyle(style.PALETTE["private"], "solid"),
        ArmStyle(style.PALETTE["theory"], "dash"),
        ArmStyle(style.PALETTE["spent"], "dashdot"),
    )
    lines = []
    for (name, epsilon_of), line_style in zip(READINGS.items(), line_styles, strict=True):
        epsilons = np.array([epsilon_of(mu, delta_on_axis) for delta_on_axis in _DELTAS.tolist()])
        lines.append(Line(_DELTAS, epsilons, name, line_style, value_in_label=False))
    figure = line_figure(
        lines,
        Axes("δ", "ε", log_x=True, from_zero=True, bound="upper"),
        verticals=[VerticalLine(delta, f"δ = {short_up(delta)}")],
    )
    ticks = _DELTAS[::8]  # 1e-10, 1e-8, …, 1e-2
    figure.update_xaxes(tickvals=ticks, ticktext=[short(tick) for tick in ticks.tolist()])
    return chart(
        figure,
        "ε of the whole run, read in three ways",
        "ε against δ: exactly, through zCDP, and by the paper's formula",
        "The same noise, read as (ε, δ). The exact curve is what holds; the formula that the paper uses is an "
        "upper bound on it (E13).",
    )


def norms(trace: Trace, plans: Mapping[str, Plan], styles: Mapping[str, ArmStyle], privacy: str) -> Chart:
    """Draw the length of the noisy gradients g_t at the recorded steps t, median over the runs, a line per private
    method with epochs; and thin the length of their noise alone by the plan, √d σ_t with the noise scale σ_t.

    privacy : sentence for the caption that says what of it may be published.
    """
    lines = []
    for label, arm_trace in trace.arm_traces.items():
        if not arm_trace.private:
            continue
        steps, values = arm_trace.series("noisy_gradient_norm")
        if not len(values):  # a method without epochs
            continue
        has_gradient = np.isfinite(values).all(axis=1)  # the start has none
        if has_gradient.any():
            steps, line_style = steps[has_gradient], styles[label]
            lines.append(Line(steps, np.median(values[has_gradient], axis=1), label, line_style))
            noise = math.sqrt(plans[label].facts.d) * _noise_scales(plans[label])[steps - 1]
            lines.append(Line(steps, noise, f"{label}, noise alone", line_style, width=1.0, group=label, legend=False))
    figure = line_figure(
        lines, Axes("Step t", "Length of g_t; thin: of its noise", log_y=True), if_empty="No method with epochs."
    )
    return chart(
        figure,
        "How much of it was noise?",
        "Length of the noisy gradients of every method, and of their noise alone",
        "Where both lines run together, what was released is mostly noise: only the sum of many of them can say "
        f"where to go. {privacy}",
        provenance=weakest_privacy(plan.privacy for plan in plans.values() if plan.private),
    )


def bound_parts(bounds: Mapping[str, Bound], facts: ValueFacts, without: Sequence[str]) -> Chart:
    """Draw the three parts of each method's bound as stacked bars, and a line at L, from which on a bound says nothing.

    bounds : by label. without : labels of the methods that have none.
    """
    guess = f" {texts.GUESS}" if bounds and facts.guessed else ""
    left_out = f" Without a bound: {', '.join(without)}." if without else ""
    return chart(
        _stacked_bars(bounds, facts),
        "What the bound promises",
        "The three parts of each method's bound, and the line beyond which it says nothing",
        "Promised of a random epoch's average, for the mean over all rows that might be drawn, if these are "
        "independent and the learner takes the steps that theory asks for (g₀ = 1 plus the oracle's error). That "
        "error counts twice in running sums; in fresh estimates it averages out over an epoch. Constants of ours "
        f"(Derivations, 5).{guess}{left_out}",
    )


def _stacked_bars(bounds: Mapping[str, Bound], facts: ValueFacts) -> go.Figure:
    """Draw the three parts of each bound as stacked bars, a bar per method, with a line at L."""
    if not bounds:
        return line_figure([], Axes(BOUND, ""), if_empty="No bound is known for these methods and this function.")
    names = list(bounds)[::-1]  # the first on top
    traces = []
    for part, (word, color, pattern) in zip(("travel", "regret", "oracle"), PARTS, strict=True):
        fill = {"shape": pattern, "size": 6, "solidity": 0.3, "fillmode": "overlay"}
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "x": np.array([getattr(bounds[name], part) for name in names], dtype=np.float32),
                "y": names,
                "name": word,
                "marker": {"color": color, "pattern": fill},
                "hovertemplate": f"%{{y}}, {word}: %{{x:,.3~r}}<extra></extra>",
            }
        )
    totals = [f"{name} {short_up(bound.total)}" for name, bound in bounds.items()]
    pairs = [", ".join(totals[i : i + 2]) for i in range(0, len(totals), 2)]  # each fits on a line, on a phone, too
    beyond = f"beyond the line at L = {short(facts.lipschitz)} a bound says nothing"
    axes = Axes(f"{BOUND}{texts.condition(facts.guessed)}", "")
    layout = style.layout(axes, notes=[f"in all: {pairs[0]}", *pairs[1:], beyond], legend_entries=len(PARTS))
    layout["xaxis"] |= {"rangemode": "tozero"}
    layout["yaxis"] = {"type": "category", "categoryorder": "array", "categoryarray": names, "automargin": True}
    layout["shapes"] = [limit_across(facts.lipschitz)]
    return go.Figure({"data": traces, "layout": layout | {"barmode": "stack", "hovermode": "closest"}})


def stationarity(trace: Trace, metric: str, styles: Mapping[str, ArmStyle], privacy: str) -> Chart:
    """Draw how stationary the averages of epochs are at the few epochs where that was computed, a line per method; it
    reads the raw data.

    The line is the median of `metric` over the runs, with a band of two standard errors, the median over the runs of
    the metric that holds them.

    metric : a key of STATIONARITY. privacy : sentence for the caption that says that this is not private.
    """
    lines = []
    for label, arm_trace in trace.arm_traces.items():
        steps, values = arm_trace.series(metric)
        if len(values):
            middle = np.median(values, axis=1)
            _, standard_errors = arm_trace.series(STATIONARITY[metric])
            # A record may have been added since `values`.
            half_width = ERRORS * np.median(standard_errors[: len(values)], axis=1)
            lines.append(Line(steps, middle, label, styles[label], middle - half_width, middle + half_width))
    title = trace.metrics[metric].label if metric in trace.metrics else metric
    figure = line_figure(
        lines,
        Axes("Step t", title),
        notes=["bands: two standard errors of the sample"] if lines else [],
        if_empty="Nothing has been looked at so far.",
        not_private=True,
    )
    heading, caption = AT_EPOCHS[metric]
    return chart(
        figure,
        heading,
        f"{heading} One line per method, at a few epochs",
        f"{caption} {privacy}",
        provenance="not private",
    )


SUMS: dict[theory.Sums, tuple[str, ArmStyle]] = {
    "independent": ("Independent noise", ArmStyle(style.GREY, "dash")),
    "published": ("Binary tree, published noise", ArmStyle(style.PALETTE["spent"], "dot")),
    "tree": ("Binary tree", ArmStyle(style.PALETTE["spent"], "solid")),
    "honaker": ("Honaker's tree", ArmStyle(style.PALETTE["spent"], "dash")),
    "square_root": ("Square root", ArmStyle(style.PALETTE["private"], "dash")),
    "normalised": ("Normalised square root", ArmStyle(style.PALETTE["private"], "dashdot")),
    "optimal": ("Optimal", ArmStyle(style.PALETTE["private"], "solid")),
}
NAIVE = ("Naive, same rows", ArmStyle(style.PALETTE["second"], "longdash"))
_LONG = 32  # number of steps of an epoch from which on t is on a log axis
_OWN_WIDTH = 4.0  # width of the line of the method's own sums, in pixels


def running_sums(method: algorithms.VarianceReduced, facts: ValueFacts, budget: Budget, own: bool = True) -> Chart:
    """Draw the noise in the running sums of an epoch, for every kind of sums, or write the reason why the method has no
    plan for a problem with these facts and this budget. own : False if no method of the user has running sums."""
    try:
        figure = _noise_of_sums(method, facts, budget, own)
    except UserError as error:
        figure = empty_figure(str(error))
    return chart(
        figure,
        "Noise of every running sum",
        "Noise in the running sums of an epoch, one line for every way to add up",
        "Noise in the running sums of an epoch, for every way to add them up, at your settings; and what "
        "estimating afresh in every step would have. Its square grows with t if noise is independent, and with a "
        "tree as log² t.",
    )


def _noise_of_sums(method: algorithms.VarianceReduced, facts: ValueFacts, budget: Budget, own: bool) -> go.Figure:
    """Draw the standard deviation of the noise in the gradient of step t of an epoch, per coordinate, against t.

    There is a line for every kind of running sums, with the rows, directions and clips of this method; its own is drawn
    wide, if `own`. One more line is for estimating the gradient afresh in each step, from the same rows.

    Raises UserError where the method has no plan. It takes about 3 ms for T = 16; the factorisations are cached.
    """
    layout, mu = method.layout(facts), planning.total_mu(budget, facts)
    steps = np.arange(1, layout.length + 1)
    sensitivities = method.sensitivities(facts, layout)[: layout.length]
    lines = []
    for sums, (name, line_style) in SUMS.items():
        factors = method.epoch_sums(facts, layout, sums)
        sensitivity = theory.noise_sensitivity(sums, factors, sensitivities)
        deviations = sensitivity * factors.row_norms / mu
        lines.append(
            Line(steps, deviations, name, line_style, width=_OWN_WIDTH if own and sums == method.sums else 1.5)
        )
    naive = method.as_naive()
    naive_noise, _ = naive.epoch_noise(facts, naive.layout(facts))  # at μ = 1
    naive_name, naive_style = NAIVE
    lines.append(Line(steps, np.full(layout.length, naive_noise / mu), naive_name, naive_style, width=1.5))
    return line_figure(
        lines if mu < math.inf else [],
        Axes("Step t of an epoch", "Noise in the estimate, std", log_x=layout.length >= _LONG, log_y=True),
        notes=["wide: yours"] if own else [],
        if_empty="Without privacy there is no noise.",
    )


@dataclass(frozen=True)
class _NodeStyle:
    """Appearance of a kind of nodes in the tree: its name in the legend, and its marker, which differs not only in
    colour."""

    name: str
    color: str
    symbol: str
    size: int


_OTHER = _NodeStyle("other nodes", style.GREY, "triangle-up", 1)
_ENTERED = _NodeStyle("the row enters", style.PALETTE["private"], "circle", 8)
_SUMMED = _NodeStyle("summed for step t", style.PALETTE["spent"], "diamond", 9)
_BOTH = _NodeStyle("both", style.PALETTE["second"], "square", 10)


def nodes_of(leaf: int, length: int) -> tuple[tuple[int, int], ...]:
    """Return the nodes of the binary tree of an epoch that a row of one step enters, the shortest first.

    A node sums the estimates of the steps from `first` to `last`, both from 1, a block of 2^j steps; it is returned as
    (first, last). There are at most ⌊log₂ T⌋ + 1. Right children of other nodes are never released and do not count.

    leaf : the step, from 1, in whose batch the row is. length : T, the steps of the epoch.
    """
    nodes, size = [], 1
    while size <= length:
        first = (leaf - 1) // size * size + 1
        last = first + size - 1
        is_left_child = (first - 1) // size % 2 == 0
        if is_left_child and last <= length:
            nodes.append((first, last))
        size *= 2
    return tuple(nodes)


def tree(layout: Layout, row: int, step: int) -> Chart:
    """Draw the binary tree of the running sums of an epoch of T steps: a bar for each released node, over the steps
    whose estimates it sums.

    The nodes that one row enters stand out, and those that are summed for the gradient of step t. If the row counts in
    that gradient, exactly one node is both.

    row : its place, from 1, in the public order in which batches take rows. step : t, from 1 to T.
    """
    length, position = layout.length, layout.step_of_row(row)
    # Nodes (first step, last step): those that the row enters, that step t sums, and all that are released.
    entered: set[tuple[int, int]] = set()
    summed = set(tree_nodes(step))
    # One node ends at each step; its size, last & -last, is the largest power of two that divides the step's number.
    released = {(last - (last & -last) + 1, last) for last in range(1, length + 1)}
    verticals = [VerticalLine(step + 0.5, f"t = {step:,}")]
    if position is None:
        notes = [f"row {row:,} is not used"]
    else:
        epoch, leaf = position
        verticals.insert(0, VerticalLine(leaf, "row"))
        entered = set(nodes_of(leaf, length))
        notes = [f"row {row:,} is in step {leaf:,} of epoch {epoch:,}"]
        if layout.follows:
            notes.append("where batches have their mean size; a run draws theirs")
        entries = f"{len(entered)} of {_nodes_in_words(len(released))}, at most {length.bit_length()}"
        notes.append(f"it enters {entries}")
    notes.append(f"step {step:,} sums {_nodes_in_words(len(summed))}")
    kinds = (
        (_OTHER, released - entered - summed),
        (_ENTERED, entered - summed),
        (_SUMMED, summed - entered),
        (_BOTH, entered & summed),
    )
    traces = [_node_trace(node_style, sorted(nodes)) for node_style, nodes in kinds if nodes]
    figure_layout = style.layout(
        Axes("Step of the epoch", "Steps in a node", log_y=True),
        notes=notes,
        legend_entries=len(traces),
        height=style.ALONE,
    )
    sizes = [2**j for j in range(length.bit_length())]
    labelled = sizes[:: 1 + len(sizes) // 8]  # eight labels at most
    figure_layout["yaxis"] |= {"tickvals": labelled, "ticktext": [f"{size:,}" for size in labelled]}
    # On the log axis, with room for the labels above, by eye.
    figure_layout["yaxis"] |= {"range": [-0.2, 1.15 * math.log10(sizes[-1]) + 0.3]}
    figure_layout["xaxis"] |= {"range": [0.4, length + 0.6]}
    figure_layout["legend"] = figure_layout["legend"] | {"itemsizing": "constant"}
    labels, shapes = vertical_line_parts(verticals)
    for label in labels:  # the label of a line far to the right goes to its left
        if label["x"] > 0.8 * length:
            label |= {"xanchor": "right", "xshift": -3}
    figure_layout["annotations"] += labels
    figure_layout["shapes"] += shapes
    return chart(
        go.Figure({"data": traces, "layout": figure_layout | {"hovermode": "closest"}}),
        "Where does a row land in the tree?",
        "The nodes of the tree of one epoch; those that the row enters and those that the step sums stand out",
        "Every bar is a released node, over the steps whose changes it sums; all epochs are alike. Right "
        "children are never needed and never released (E6).",
    )


def _nodes_in_words(count: int) -> str:
    """Return "1 node", "2 nodes", …"""
    return f"{count:,} node{'s' if count != 1 else ''}"


def _node_trace(node_style: _NodeStyle, nodes: list[tuple[int, int]]) -> dict[str, Any]:
    """Return the trace of nodes (first, last) of one kind: a marker in the middle of each, and a bar over its steps, at
    the height of their number."""
    ends = np.array(nodes, dtype=float)
    sizes = ends[:, 1] - ends[:, 0] + 1
    half_sizes = (sizes / 2).astype(np.float32)
    bar = {"type": "data", "array": half_sizes, "color": node_style.color, "thickness": 7, "width": 0}
    return {
        "type": "scatter",
        "mode": "markers",
        "name": node_style.name,
        "x": ends.mean(axis=1).astype(np.float32),
        "y": sizes.astype(np.int32),
        "error_x": bar,
        "marker": {"color": node_style.color, "symbol": node_style.symbol, "size": node_style.size},
        "opacity": 0.35 if node_style is _OTHER else 1.0,
        "text": [f"steps {first:,} to {last:,}" if last > first else f"step {first:,}" for first, last in nodes],
        "hovertemplate": f"%{{text}}: {node_style.name}<extra></extra>",
    }
