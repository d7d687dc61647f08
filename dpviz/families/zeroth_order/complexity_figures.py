"""Figures of the rows that a stationary point needs, of budgets at which privacy is free, and of running sums compared
with fresh estimates: noise, bound, and results of runs. No data is read."""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from dpviz.families.zeroth_order import advice, complexity, texts, theory
from dpviz.families.zeroth_order.complexity import WAYS
from dpviz.families.zeroth_order.measured import Expectation
from dpviz.families.zeroth_order.theory import Setting
from dpviz.numbers import short, short_up
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.chart import Chart, chart
from dpviz.plots.elements.lines import Limit, Line, Mark, Turn, line_figure
from dpviz.plots.elements.style import ArmStyle

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
