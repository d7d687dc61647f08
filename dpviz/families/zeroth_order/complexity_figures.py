"""Figures of what a stationary point takes: rows, when privacy is free, and running sums beside fresh
estimates: their noise, what the bound makes of it, and what runs came to. No data is read."""

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
_FINER = 10  # how much smaller than yours the smallest stationarity is
LENGTHS: tuple[int, ...] = tuple(2**j for j in range(1, 16))
LONGEST = 1024  # epochs that may be set


def rows_needed(setting: Setting, accuracy: float) -> tuple[Chart, dict[str, float]]:
    """M, the rows for (2r, ε)-stationarity at the setting's μ, against ε: by the planner for each of
    `complexity.WAYS`, and the published rates, of the paper's oracle and of the naive one, without constants and
    logarithms. And M for `accuracy`, by name: inf
    where 10¹¹ rows are too few.

    setting : its n is drawn; its directions do not matter. accuracy : ε, marked. From ε = L on a bound says nothing:
    the curves end there, and begin at a tenth of `accuracy`.
    """
    lines, marks, needed = [], [], {}
    finest = min(accuracy, setting.lipschitz) / _FINER
    for way, look in zip(WAYS, STYLES, strict=True):
        rows, bound = complexity.bounds(setting, way)
        kept = (bound < setting.lipschitz) & (bound > finest)
        kept &= np.append(bound[:-1] > bound[1:], True)  # more rows for nothing are none that are needed
        lines.append(Line(bound[kept][::-1], rows[kept][::-1], way.name, look))
        needed[way.name] = complexity.rows_needed(setting, way, accuracy)
        if needed[way.name] < math.inf:
            text = f"{way.name}: M = {short_up(needed[way.name], 2)} at ε = {short(accuracy)}"
            marks.append(Mark(accuracy, needed[way.name], text, look.color))
    grid = np.geomspace(finest, setting.lipschitz, 40)
    s = setting
    for name, rate, look in RATES:
        known = s.d, s.lipschitz, s.gap, 2 * s.radius
        lines.append(Line(grid, np.array([rate(*known, one, s.mu) for one in grid.tolist()]), name, look))
        needed[name] = rate(*known, accuracy, s.mu)
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
    """From which budget μ on privacy is free, against ε: there, the private term of the rate of the variance-reduced
    oracle is the smaller one. The regions are above √d ε/L as published, and above ε/L with orthonormal directions;
    your point is marked.

    mu : inf without privacy; then there is no point.
    """
    known = 0 < mu < math.inf
    grid = np.geomspace(min(0.01 * lipschitz, accuracy / 2), max(lipschitz, 2 * accuracy), 40)
    own = [theory.free_privacy(d, lipschitz, accuracy, kind) for kind in ("iid", "orthonormal")]
    top = max(3 * own[0] * grid[-1] / accuracy, 2 * mu if known else 0.0)
    lines = []
    for at, name, look in zip(own, ("free as published", "free with orthonormal directions"), FREE, strict=True):
        edge = at * grid / accuracy
        lines.append(Line(grid, edge, name, look, low=edge, high=np.full(len(grid), top), value=False))
    marks = [Mark(accuracy, mu, f"you, μ = {short(mu)}: {_verdict(mu, own)}", style.PALETTE["second"])] if known else []
    figure = line_figure(
        lines,
        Axes("Stationarity ε", "Budget μ", log_x=True, log_y=True),
        marks=marks,
        notes=[f"here: free from μ = {short(own[0])} on, orthonormal {short(own[1])}"],
    )
    return chart(
        figure,
        "When is privacy free?",
        "The region of budgets in which privacy costs no rows",
        "Above a line, the private term of the rate is the smaller one: privacy then costs no more than a "
        "constant factor of rows. As published from μ = √d ε/L on, with orthonormal directions from ε/L on.",
    )


def _verdict(mu: float, thresholds: list[float]) -> str:
    published, orthonormal = (mu >= least for least in thresholds)
    return "free" if published else "free with orthonormal directions" if orthonormal else "privacy takes more rows"


def crossover(length: int, sums: theory.Sums | None = None, follows: bool = False) -> Chart:
    """Private term of the bound with running sums over that with fresh estimates, on the same rows, in the same
    directions, against the steps T of an epoch; below 1 the bound favours running sums. No ratio of noise.

    length : your T, at most 1,024; marked for your own sums, or for each curve if there are none. follows : whether
    your batches follow the moves.
    """
    grid = sorted({*LENGTHS, length})
    lines, marks = [], []
    for kind, name, following, look in CURVES:
        ratios = _terms(kind, following, grid)
        lines.append(Line(np.array(grid), ratios, name, look, value=False))
        if sums is None:
            at = float(ratios[grid.index(length)])
            marks.append(Mark(length, at, f"{name}, T = {length}: {short(at)}", look.color))
    if sums is not None:
        at = theory.crossover(sums, length, follows)
        marks.append(Mark(length, at, f"yours, T = {length}: {short(at)}", style.PALETTE["second"]))
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
    """`theory.crossover` of epochs of many lengths."""
    return (4 if follows else 8) * np.sqrt(complexity.mean_variances(kind, lengths) / np.array(lengths))


@cache
def favoured_from(kind: complexity.Growing, follows: bool) -> int:
    """The shortest epochs from which on the bound always favours these running sums."""
    lengths = range(2, LENGTHS[-1])
    return lengths[int(np.flatnonzero(_terms(kind, follows, lengths) >= 1)[-1]) + 1]


def noise_ratio(length: int, sums: theory.Sums | None = None, follows: bool = False) -> Chart:
    """Standard deviation of the noise of running sums over that of fresh estimates, on the same rows, in the same
    directions, against the steps T of an epoch: of the mean of an epoch, and thin of a step. Exact.

    length, sums, follows : as in `crossover`; your own are marked.
    """
    grid = [T for T in sorted({*LENGTHS, length}) if T <= LONGEST]
    lines, marks = [], []
    for kind, name, following, look in CURVES:
        ratios = np.array([theory.noise_ratios(kind, T, following) for T in grid])
        lines.append(Line(np.array(grid), ratios[:, 1], name, look, value=False))
        lines.append(Line(np.array(grid), ratios[:, 0], f"{name}, a step", look, width=1.0, group=name, legend=False))
    own = () if sums is None else theory.noise_ratios(sums, length, follows)
    for which, at in zip(("a step", "an epoch's mean"), own, strict=False):
        marks.append(Mark(length, at, f"yours, {which}, T = {length}: {short(at)}", style.PALETTE["second"]))
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
    """Medians of the objective at the end of runs, against the steps T of an epoch: of every option with the number of
    epochs that suits it."""
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
