"""Figures that only this family has: noise along an epoch, what was seen of it, the parts of the bound, readings of
the budget, and of a run how long its gradients were and how stationary it became."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.errors import UserError
from dpviz.experiments.experiment import Arm
from dpviz.experiments.plan import Plan, worst
from dpviz.experiments.trace import Trace
from dpviz.families.zeroth_order import advice, algorithms, complexity, planning, texts, theory
from dpviz.families.zeroth_order.advice import Expectation
from dpviz.families.zeroth_order.complexity import WAYS
from dpviz.families.zeroth_order.planning import Layout
from dpviz.families.zeroth_order.theory import Bound, Setting
from dpviz.numbers import short, short_up
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.chart import SETTINGS_ONLY, Chart, chart
from dpviz.plots.elements.lines import Limit, Line, Mark, Turn, limit_across, line_drawing, line_figure, turned
from dpviz.plots.elements.style import ArmStyle
from dpviz.privacy.accounting.closed_forms import gdp_epsilon, zcdp_epsilon
from dpviz.privacy.budgets import Budget
from dpviz.privacy.matrix_factorisation import tree_nodes
from dpviz.problems.values.value_problem import ValueFacts

STYLES = (  # of `complexity.WAYS`
    ArmStyle(style.PALETTE["private"], "solid"),
    ArmStyle(style.PALETTE["private"], "dash"),
    ArmStyle(style.PALETTE["spent"], "solid"),
    ArmStyle(style.PALETTE["spent"], "dash"),
)
RATES = (  # published, without constants and logarithms
    ("published rate alone", theory.published_rows, ArmStyle(style.GREY, "dot")),
    ("naive rate alone", theory.naive_rows, ArmStyle(style.GREY, "dash")),
)
OPTIONS = dict(  # of `advice.WAYS`
    zip(
        (way.name for way in advice.WAYS),
        (
            STYLES[0],
            ArmStyle(style.PALETTE["private"], "dashdot"),
            STYLES[1],
            ArmStyle(style.PALETTE["theory"], "solid"),
            STYLES[2],
            STYLES[3],
        ),
        strict=True,
    )
)
CURVES: tuple[tuple[complexity.Growing, str, bool, ArmStyle], ...] = (
    ("published", "Tree, as published", False, STYLES[0]),
    ("square_root", "Square root", False, STYLES[1]),
    ("square_root", "Square root, batches follow moves", True, ArmStyle(style.PALETTE["theory"], "solid")),
)
FREE = (STYLES[0], STYLES[3])
_FINER = 10  # ratio of the stationarity that is marked and the smallest that is drawn
LENGTHS: tuple[int, ...] = tuple(2**j for j in range(1, 16))
LONGEST = 1024  # steps of an epoch, in the settings


def rows_needed(setting: Setting, accuracy: float) -> tuple[Chart, dict[str, float]]:
    """Draw M, the rows for (2r, ε)-stationarity at the setting's μ, against ε; return also M for `accuracy`, by name.

    There is a curve by the planner for each of `complexity.WAYS`, and the published rates of the paper's oracle and of
    the naive one, without constants and logarithms. M is inf where 10¹¹ rows are too few. setting : its n is drawn; its
    directions do not matter. accuracy : ε, marked. From ε = L on a bound says nothing: the curves end there, and begin
    at a tenth of `accuracy`.
    """
    lines, marks, needed = [], [], {}
    finest = min(accuracy, setting.lipschitz) / _FINER
    for way, arm_style in zip(WAYS, STYLES, strict=True):
        rows, bound = complexity.bounds(setting, way)
        is_drawn = (bound < setting.lipschitz) & (bound > finest)
        is_drawn &= np.append(bound[:-1] > bound[1:], True)  # rows without effect on the bound are not needed
        lines.append(Line(bound[is_drawn][::-1], rows[is_drawn][::-1], way.name, arm_style))
        needed[way.name] = complexity.rows_needed(setting, way, accuracy)
        if needed[way.name] < math.inf:
            text = f"{way.name}: M = {short_up(needed[way.name], 2)} at ε = {short(accuracy)}"
            marks.append(Mark(accuracy, needed[way.name], text, arm_style.color))
    grid = np.geomspace(finest, setting.lipschitz, 40)
    constants = setting.d, setting.lipschitz, setting.gap, 2 * setting.radius
    for name, rate, arm_style in RATES:
        rates = np.array([rate(*constants, stationarity, setting.mu) for stationarity in grid.tolist()])
        lines.append(Line(grid, rates, name, arm_style))
        needed[name] = rate(*constants, accuracy, setting.mu)
    figure = line_figure(
        lines,
        Axes("Stationarity ε", "Rows needed, M", log_x=True, log_y=True, bound="upper"),
        limits=[Limit(setting.n, f"your n = {setting.n:,}")],
        marks=marks,
        turns=[Turn(accuracy, f"ε = {short(accuracy)}")],
        notes=["rates have no constants and no logarithms"],
        labels=False,
    )
    counts = {name: short_up(count, 2) if count < math.inf else "beyond 10¹¹" for name, count in needed.items()}
    rows_by_name = "; ".join(f"{name} {count}" for name, count in counts.items())
    return chart(
        figure,
        "How many rows does it take?",
        "Rows needed against the stationarity, for four methods",
        f"Rows at ε = {short(accuracy)}: {rows_by_name}.",
    ), needed


def free_privacy(d: int, lipschitz: float, accuracy: float, mu: float) -> Chart:
    """Draw the budgets μ from which on privacy is free against ε: there, the private term of the rate of the
    variance-reduced oracle is the smaller one.

    The regions are above √d ε/L as published, and above ε/L with orthonormal directions; the point (accuracy, mu) is
    marked. mu : inf without privacy; then there is no point.
    """
    is_finite = 0 < mu < math.inf
    grid = np.geomspace(min(0.01 * lipschitz, accuracy / 2), max(lipschitz, 2 * accuracy), 40)
    thresholds = [theory.free_privacy(d, lipschitz, accuracy, kind) for kind in ("iid", "orthonormal")]
    top = max(3 * thresholds[0] * grid[-1] / accuracy, 2 * mu if is_finite else 0.0)
    lines, names = [], ("free as published", "free with orthonormal directions")
    for threshold, name, arm_style in zip(thresholds, names, FREE, strict=True):
        edge = threshold * grid / accuracy
        lines.append(Line(grid, edge, name, arm_style, low=edge, high=np.full(len(grid), top), value=False))
    text = f"you, μ = {short(mu)}: {_verdict(mu, thresholds)}"
    marks = [Mark(accuracy, mu, text, style.PALETTE["second"])] if is_finite else []
    figure = line_figure(
        lines,
        Axes("Stationarity ε", "Budget μ", log_x=True, log_y=True),
        marks=marks,
        notes=[f"here: free from μ = {short(thresholds[0])} on, orthonormal {short(thresholds[1])}"],
    )
    return chart(
        figure,
        "When is privacy free?",
        "The region of budgets in which privacy costs no rows",
        "Above a line, the private term of the rate is the smaller one: privacy then costs no more than a "
        "constant factor of rows. As published from μ = √d ε/L on, with orthonormal directions from ε/L on.",
    )


def _verdict(mu: float, thresholds: list[float]) -> str:
    is_free, is_free_orthonormal = (mu >= threshold for threshold in thresholds)
    if is_free:
        return "free"
    return "free with orthonormal directions" if is_free_orthonormal else "privacy takes more rows"


def crossover(length: int, sums: theory.Sums | None = None, follows: bool = False) -> Chart:
    """Draw the private term of the bound with running sums over that with fresh estimates, on the same rows, in the
    same directions, against the steps T of an epoch; below 1 the bound favours running sums. It is no ratio of noise.

    length : T of the settings, at most 1,024; marked for `sums`, those of the settings, or for each curve if there are
    none. follows : True if batches follow the moves in the settings.
    """
    grid = sorted({*LENGTHS, length})
    lines, marks = [], []
    for kind, name, following, arm_style in CURVES:
        ratios = _terms(kind, following, grid)
        lines.append(Line(np.array(grid), ratios, name, arm_style, value=False))
        if sums is None:
            ratio = float(ratios[grid.index(length)])
            marks.append(Mark(length, ratio, f"{name}, T = {length}: {short(ratio)}", arm_style.color))
    if sums is not None:
        ratio = theory.crossover(sums, length, follows)
        marks.append(Mark(length, ratio, f"yours, T = {length}: {short(ratio)}", style.PALETTE["second"]))
    figure = line_figure(
        lines,
        Axes("Steps per epoch T", "Bound's private term, sums over naive", log_x=True, log_y=True),
        limits=[Limit(1.0, "the bound favours running sums below")],
        marks=marks,
        turns=[Turn(length, f"T = {length:,}")],
    )
    published, root, with_moves = (f"{favoured_from(kind, moves):,}" for kind, _, moves, _ in CURVES)
    return chart(
        figure,
        "What does the bound make of it?",
        "Private term of the bound with running sums over that with fresh estimates, against the steps",
        "What the bound makes of the same noise: it counts the error of running sums twice in every step, and "
        f"lets that of fresh estimates average out. So it favours running sums only from T = {published} on as "
        f"published, {root} with the square root, {with_moves} if batches follow the moves. It is no statement "
        "about noise, nor about runs.",
    )


def _terms(kind: complexity.Growing, follows: bool, lengths: Sequence[int]) -> np.ndarray:
    """Return (k,) `theory.crossover` for epochs of each length."""
    return (4 if follows else 8) * np.sqrt(complexity.mean_variances(kind, lengths) / np.array(lengths))


@cache
def favoured_from(kind: complexity.Growing, follows: bool) -> int:
    """Return the shortest length of epochs from which on the bound always favours these running sums."""
    lengths = range(2, LENGTHS[-1])
    return lengths[int(np.flatnonzero(_terms(kind, follows, lengths) >= 1)[-1]) + 1]


def noise_ratio(length: int, sums: theory.Sums | None = None, follows: bool = False) -> Chart:
    """Draw the standard deviation of the noise of running sums over that of fresh estimates, on the same rows, in the
    same directions, against the steps T of an epoch: of the mean of an epoch, and thin of a step. Exact.

    length, sums, follows : those of the settings, which are marked; as in `crossover`.
    """
    grid = [T for T in sorted({*LENGTHS, length}) if T <= LONGEST]
    lines, marks = [], []
    for kind, name, following, arm_style in CURVES:
        step, mean = np.array([theory.noise_ratios(kind, T, following) for T in grid]).T
        lines.append(Line(np.array(grid), mean, name, arm_style, value=False))
        lines.append(Line(np.array(grid), step, f"{name}, a step", arm_style, width=1.0, group=name, legend=False))
    ratios = () if sums is None else theory.noise_ratios(sums, length, follows)
    for which, ratio in zip(("a step", "an epoch's mean"), ratios, strict=False):
        marks.append(Mark(length, ratio, f"yours, {which}, T = {length}: {short(ratio)}", style.PALETTE["second"]))
    figure = line_figure(
        lines,
        Axes("Steps per epoch T", "Noise, running sums over naive", log_x=True, log_y=True),
        limits=[Limit(1.0, "less noise with running sums below")],
        marks=marks,
        turns=[Turn(length, f"T = {length:,}")],
        notes=["thick: mean of an epoch; thin: a step"],
        labels=False,
    )
    return chart(
        figure,
        "How much noise do running sums save?",
        "Noise of running sums over that of fresh estimates, against the steps of an epoch",
        "Exact, at equal rows and directions, for moves of r/T: noise in the estimate of a step, and in the mean "
        "of an epoch's estimates. Below 1 running sums have less of it.",
    )


def measured_ends(expected: Expectation) -> Chart:
    """Draw the median objective at the end of runs against the steps T of an epoch, for each option with its best
    number of epochs."""
    lengths = np.array(expected.lengths)
    lines = [
        Line(lengths, medians.min(axis=1), name, OPTIONS[name], value=False)
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
        f"{texts.MEASURED if expected.inside else texts.MEASURED_ELSEWHERE}",
    )


# The parts of the bound: word, colour, pattern. Colour is never alone.
PARTS = (
    ("way to go", style.PALETTE["private"], ""),
    ("learner's regret", style.PALETTE["theory"], "/"),
    ("oracle's error", style.PALETTE["second"], "x"),
)
BOUND = "Bound on ‖∇F(w̄)‖ within r + R_w"
ERRORS = 2.0  # standard errors on both sides
FACTORS = (1 / 16, 1, 64)  # of the present dimension: between them, the noise is a power of it


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
STATIONARITY = {  # what is looked at, and the metric of its standard error
    "stationarity_bound": "stationarity_error",
    "smoothed_gradient_norm": "smoothed_gradient_error",
}


def noise_of_an_epoch(plans: Mapping[str, Plan], styles: Mapping[str, ArmStyle]) -> Chart:
    """Standard deviation of the noise on each coordinate of g_t, for the steps t of one epoch; all epochs are alike.

    Methods without epochs, and without privacy, are left out.
    """
    lines = []
    for label, plan in plans.items():
        if plan.private and "epoch_length" in plan.resolved:
            noise = next(iter(plan.noise.values()))[: int(plan.resolved["epoch_length"])]
            lines.append(Line(np.arange(1, len(noise) + 1), noise, label, styles[label], value=False))
    drawn = line_drawing(
        lines,
        Axes("Step t of an epoch", "Noise of g_t, σ", log_y=True),
        if_empty="No method with epochs.",
        height=style.SMALL,
    )
    return chart(
        drawn,
        "Noise along an epoch",
        "Noise on each coordinate in the steps of an epoch, one line per method",
        "Standard deviation of what is added to each coordinate of g_t. With a tree it follows the binary digits "
        "of t; fresh estimates have the same noise in every step.",
    )


def noise_by_dimension(arms: Sequence[Arm], plans: Mapping[str, Plan], styles: Mapping[str, ArmStyle]) -> Chart:
    """The noise of a step, root mean square over the steps, against the number of parameters, all else as it is: of a
    plan for each. A dot marks the present number."""
    lines, marks = [], []
    for arm in arms:
        plan = plans[arm.label]
        if not plan.private:
            continue
        facts, sizes = ValueFacts.of(plan.facts), {max(1, round(plan.facts.d * factor)) for factor in FACTORS}
        noise = {d: _noise(arm.algorithm.plan(replace(facts, d=d, start=()), plan.budget)) for d in sorted(sizes)}
        lines.append(Line(np.array([*noise]), np.array([*noise.values()]), arm.label, styles[arm.label], value=False))
        now = f"{arm.label}, d = {facts.d:,}: {short(noise[facts.d])}"
        marks.append(Mark(facts.d, noise[facts.d], now, styles[arm.label].color, symbol="circle"))
    drawn = line_drawing(
        lines,
        Axes("Parameters d", "Noise of a step, σ", log_x=True, log_y=True),
        marks=marks,
        notes=["all privacy is charged at step 1"],
        if_empty="No method adds noise.",
        height=style.SMALL,
    )
    words = (
        "Noise on each coordinate of the gradient estimate (of DP-ZO: on the one slope), root mean square over the "
        "steps, if there were so many parameters and all else stayed. All privacy is charged at the first step, as "
        "every row is in one step only."
    )
    alt = "Noise of a step against the number of parameters, one line per method; a dot at the present number"
    return Chart(drawn, "Noise and dimension", alt, f"{words} {SETTINGS_ONLY}")


def _noise(plan: Plan) -> float:
    return float(np.sqrt((next(iter(plan.noise.values())) ** 2).mean()))


def watched(curves: Mapping[str, np.ndarray], styles: Mapping[str, ArmStyle], mu: float) -> Chart:
    """μ of what the first t steps of an epoch release, (T,) per method: less than the whole where sums are
    correlated."""
    lines = [Line(np.arange(1, len(seen) + 1), seen, label, styles[label]) for label, seen in curves.items()]
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


READINGS: Mapping[str, Callable[[float, float], float]] = {
    "exact": gdp_epsilon,
    "through zCDP": lambda mu, delta: zcdp_epsilon(mu**2 / 2, delta),
    "by the paper's formula": lambda mu, delta: mu**2 / 2 + mu * math.sqrt(2 * math.log(1 / delta)),
}
_DELTAS = np.geomspace(1e-10, 1e-2, 33)


def readings(mu: float, delta: float) -> Chart:
    """ε of μ-GDP against δ: exactly (Dong, Roth, Su 2019), through zCDP (Canonne, Kamath, Steinke 2020), and by the
    formula that the paper takes, ε = μ²/2 + μ√(2 ln 1/δ) (Mironov 2017). The present δ is marked."""
    looks = (
        ArmStyle(style.PALETTE["private"], "solid"),
        ArmStyle(style.PALETTE["theory"], "dash"),
        ArmStyle(style.PALETTE["spent"], "dashdot"),
    )
    lines = [
        Line(_DELTAS, np.array([read(mu, one) for one in _DELTAS.tolist()]), name, look, value=False)
        for (name, read), look in zip(READINGS.items(), looks, strict=True)
    ]
    figure = line_figure(
        lines, Axes("δ", "ε", log_x=True, from_zero=True, bound="upper"), turns=[Turn(delta, f"δ = {short(delta)}")]
    )
    figure.update_xaxes(tickvals=_DELTAS[::8], ticktext=[short(one) for one in _DELTAS[::8].tolist()])
    return chart(
        figure,
        "ε of the whole run, read in three ways",
        "ε against δ: exactly, through zCDP, and by the paper's formula",
        "The same noise, read as (ε, δ). The exact curve is what holds; the formula that the paper uses is an "
        "upper bound on it (E13).",
    )


def norms(trace: Trace, plans: Mapping[str, Plan], styles: Mapping[str, ArmStyle], privacy: str) -> Chart:
    """How long the noisy gradients of a run were, median over the runs, and thin how long their noise alone is by the
    plan, √d σ_t; both at the recorded steps. Methods without privacy are left out.

    privacy : what may be published, for the caption.
    """
    lines = []
    for label in (label for label, lane in trace.lanes.items() if lane.private):
        steps, values = trace.lanes[label].series("noisy_gradient_norm")
        known = np.isfinite(values).all(axis=1) if len(values) else np.empty(0, dtype=bool)
        if known.any():
            steps, look = steps[known], styles[label]
            lines.append(Line(steps, np.median(values[known], axis=1), label, look))
            noise = math.sqrt(plans[label].facts.d) * next(iter(plans[label].noise.values()))[steps - 1]
            lines.append(Line(steps, noise, f"{label}, noise alone", look, width=1.0, group=label, legend=False))
    figure = line_figure(
        lines, Axes("Step t", "Length of g_t; thin: of its noise", log_y=True), if_empty="No method with epochs."
    )
    status = worst(plan.privacy for plan in plans.values() if plan.private)
    return chart(
        figure,
        "How much of it was noise?",
        "Length of the noisy gradients of every method, and of their noise alone",
        "Where both lines run together, what was released is mostly noise: only the sum of many of them can say "
        f"where to go. {privacy}",
        provenance=status,
    )


def bound_parts(bounds: Mapping[str, Bound], facts: ValueFacts, without: Sequence[str] = ()) -> Chart:
    """The three parts of each method's bound, stacked; from the line at L on a bound says nothing. without : the
    methods that have none."""
    guess = f" {texts.GUESS}" * (bool(bounds) and facts.guessed)
    left_out = f" Without a bound: {', '.join(without)}." if without else ""
    figure = _stacked(bounds, facts.lipschitz, texts.rests_on(facts.guessed))
    return chart(
        figure,
        "What the bound promises",
        "The three parts of each method's bound, and the line beyond which it says nothing",
        "Promised of a random epoch's average, for the mean over all rows that might be drawn, if these are "
        "independent and the learner takes the steps that theory asks for (g₀ = 1 plus the oracle's error). That "
        "error counts twice in running sums; in fresh estimates it averages out over an epoch. Constants of ours "
        f"(Derivations, 5).{guess}{left_out}",
    )


def _stacked(bounds: Mapping[str, Bound], lipschitz: float, condition: str) -> go.Figure:
    """condition : what bounds rest on, to be said behind their name."""
    if not bounds:
        empty = "No bound is known for these methods and this function."
        return line_figure([], Axes(BOUND, ""), if_empty=empty)
    names = list(bounds)[::-1]  # the first on top
    each = [(one.travel, one.regret, one.oracle) for one in (bounds[name] for name in names)]
    traces = [_bars(names, np.array([parts[i] for parts in each]), *look) for i, look in enumerate(PARTS)]
    totals = [f"{name} {short_up(bounds[name].total)}" for name in bounds]
    pairs = [", ".join(totals[at : at + 2]) for at in range(0, len(totals), 2)]  # one line each, on a phone, too
    notes = [f"in all: {pairs[0]}", *pairs[1:], f"beyond the line at L = {short(lipschitz)} a bound says nothing"]
    frame = style.layout(Axes(f"{BOUND}{condition}", ""), notes=notes, legend_entries=len(PARTS))
    frame["xaxis"] |= {"rangemode": "tozero"}
    frame["yaxis"] = {"type": "category", "categoryorder": "array", "categoryarray": names, "automargin": True}
    frame["shapes"] = [limit_across(lipschitz)]
    return go.Figure({"data": traces, "layout": frame | {"barmode": "stack", "hovermode": "closest"}})


def nothing(why: str) -> go.Figure:
    """A figure that says why there is none."""
    return line_figure([], Axes("", ""), if_empty=why)


def _bars(names: list[str], values: np.ndarray, word: str, color: str, pattern: str) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "x": values.astype(np.float32),
        "y": names,
        "name": word,
        "marker": {"color": color, "pattern": {"shape": pattern, "size": 6, "solidity": 0.3, "fillmode": "overlay"}},
        "hovertemplate": f"%{{y}}, {word}: %{{x:,.3~r}}<extra></extra>",
    }


def stationarity(trace: Trace, metric: str, styles: Mapping[str, ArmStyle], privacy: str) -> Chart:
    """How stationary the averages of epochs are, where that was looked at: a metric, median over the runs, with a band
    of two of its standard errors, which another metric holds; median over the runs, too. Reads the raw data.
    privacy : that it does, for the caption."""
    lines = []
    for label in trace.lanes:
        steps, values = trace.lanes[label].series(metric)
        if len(values):
            middle = np.median(values, axis=1)
            beside = ERRORS * np.median(trace.lanes[label].series(STATIONARITY[metric])[1], axis=1)
            lines.append(Line(steps, middle, label, styles[label], middle - beside, middle + beside))
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
_LONG = 32  # steps; from here on t is on a log axis
_OWN = 4.0  # pixels, width of the plan's own line


def running_sums(method: algorithms.VarianceReduced, facts: ValueFacts, budget: Budget) -> Chart:
    """The noise in the running sums of an epoch, for every way to add up; or why the method has no plan."""
    try:
        figure = _noise_of_sums(method, facts, budget)
    except UserError as error:
        figure = nothing(str(error))
    return chart(
        figure,
        "Noise of every running sum",
        "Noise in the running sums of an epoch, one line for every way to add up",
        "Noise in the running sums of an epoch, for every way to add them up, at your settings; and what "
        "estimating afresh in every step would have. Its square grows with t if noise is independent, and with a "
        "tree as log² t.",
    )


def _noise_of_sums(method: algorithms.VarianceReduced, facts: ValueFacts, budget: Budget) -> go.Figure:
    """Standard deviation of the noise in the estimate of step t of an epoch, per coordinate, for every way to add up
    changes, all with the rows, directions and clips of this method; its own is drawn wide. And what estimating afresh
    at every step costs with the same rows.

    UserError where the method has no plan. About 3 ms for T = 16; the dense factorisations are kept.
    """
    layout, mu = method.layout(facts), planning.total_mu(budget, facts)
    steps = np.arange(1, layout.length + 1)
    changes = method.changes(facts, layout)[: layout.length]
    lines = []
    for sums, (name, look) in SUMS.items():
        added = method.epoch_sums(facts, layout, sums)
        deviations = theory.charged(sums, added, changes) * added.row_norms / mu
        own = sums == method.sums
        lines.append(Line(steps, deviations, name, look, width=_OWN if own else 1.5))
    fresh = method.afresh().epoch_noise(facts, method.afresh().layout(facts))[0] / mu
    lines.append(Line(steps, np.full(layout.length, fresh), NAIVE[0], NAIVE[1], width=1.5))
    return line_figure(
        lines if mu < math.inf else [],
        Axes("Step t of an epoch", "Noise in the estimate, std", log_x=layout.length >= _LONG, log_y=True),
        notes=["wide: yours"],
        if_empty="Without privacy there is no noise.",
    )


@dataclass(frozen=True)
class _Look:
    """Of a kind of nodes: name, colour, marker. Colour is never alone."""

    name: str
    color: str
    symbol: str
    size: int


_OTHER = _Look("other nodes", style.GREY, "triangle-up", 1)
_ENTERED = _Look("the row enters", style.PALETTE["private"], "circle", 8)
_SUMMED = _Look("summed for step t", style.PALETTE["spent"], "diamond", 9)
_BOTH = _Look("both", style.PALETTE["second"], "square", 10)


def nodes_of(leaf: int, length: int) -> tuple[tuple[int, int], ...]:
    """The nodes (first, last) of an epoch's tree that a row in this leaf (step, from 1) enters, the shortest first: at
    most ⌊log₂ T⌋ + 1. Right children are never released and do not count."""
    found, size = [], 1
    while size <= length:
        first = (leaf - 1) // size * size + 1
        if (first - 1) // size % 2 == 0 and first + size - 1 <= length:
            found.append((first, first + size - 1))
        size *= 2
    return tuple(found)


def tree(layout: Layout, row: int, step: int) -> Chart:
    """The binary tree of one epoch of T steps: a bar for each released node, over the steps whose changes it sums. What
    one row enters lights up, and what is summed for the estimate of step t; if the row counts there, one node is both.

    row : its place in the public order of a run, from 1; epochs and batches take rows in that order. step : t, to T.
    """
    length, found = layout.length, layout.found(row)
    epoch, leaf = found or (0, 0)
    entered, summed = set(nodes_of(leaf, length) if found else ()), set(tree_nodes(step))
    every = {(last - (last & -last) + 1, last) for last in range(1, length + 1)}
    kinds = (
        (_OTHER, every - entered - summed),
        (_ENTERED, entered - summed),
        (_SUMMED, summed - entered),
        (_BOTH, entered & summed),
    )
    traces = [_nodes(look, sorted(nodes)) for look, nodes in kinds if nodes]
    notes = [f"row {row:,} is not used", f"step {step:,} sums {_nodes_in_words(len(summed))}"]
    if found:
        entries = f"{len(entered)} of {_nodes_in_words(len(every))}, at most {length.bit_length()}"
        notes[:1] = [f"row {row:,} is in step {leaf:,} of epoch {epoch:,}", f"it enters {entries}"]
        if layout.follows:
            notes.insert(1, "where batches have their mean size; a run draws theirs")
    frame = style.layout(
        Axes("Step of the epoch", "Steps in a node", log_y=True),
        notes=notes,
        legend_entries=len(traces),
        height=style.ALONE,
    )
    sizes = [2**j for j in range(length.bit_length())]
    labelled = sizes[:: 1 + len(sizes) // 8]
    frame["yaxis"] |= {"tickvals": labelled, "ticktext": [f"{size:,}" for size in labelled]}
    frame["yaxis"] |= {"range": [-0.2, 1.15 * math.log10(sizes[-1]) + 0.3]}
    frame["xaxis"] |= {"range": [0.4, length + 0.6]}
    frame["legend"] = frame["legend"] | {"itemsizing": "constant"}
    labels, shapes = turned([*([Turn(leaf, "row")] if found else []), Turn(step + 0.5, f"t = {step:,}")])
    for text in labels:  # that of a line far to the right stands on its left
        text |= {"xanchor": "right", "xshift": -3} if text["x"] > 0.8 * length else {}
    frame["annotations"] += labels
    frame["shapes"] += shapes
    return chart(
        go.Figure({"data": traces, "layout": frame | {"hovermode": "closest"}}),
        "Where does a row land in the tree?",
        "The nodes of the tree of one epoch; those that the row enters and those that the step sums stand out",
        "Every bar is a released node, over the steps whose changes it sums; all epochs are alike. Right "
        "children are never needed and never released (E6).",
    )


def _nodes_in_words(count: int) -> str:
    return f"{count:,} node{'s' if count != 1 else ''}"


def _nodes(look: _Look, nodes: list[tuple[int, int]]) -> dict[str, Any]:
    """Markers in the middle of nodes, and bars over their steps."""
    ends = np.array(nodes, dtype=float)
    sizes = ends[:, 1] - ends[:, 0] + 1
    bar = {"type": "data", "array": (sizes / 2).astype(np.float32), "color": look.color, "thickness": 7, "width": 0}
    return {
        "type": "scatter",
        "mode": "markers",
        "name": look.name,
        "x": ends.mean(axis=1).astype(np.float32),
        "y": sizes.astype(np.int32),
        "error_x": bar,
        "marker": {"color": look.color, "symbol": look.symbol, "size": look.size},
        "opacity": 0.35 if look is _OTHER else 1.0,
        "text": [f"steps {first:,} to {last:,}" if last > first else f"step {first:,}" for first, last in nodes],
        "hovertemplate": f"%{{text}}: {look.name}<extra></extra>",
    }
