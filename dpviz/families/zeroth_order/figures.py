"""Figures that only this family has: noise along an epoch, what was seen of it, the parts of the bound, readings of
the budget, and of a run how long its gradients were and how stationary it became."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.experiments.experiment import Arm
from dpviz.experiments.plan import Plan, worst
from dpviz.experiments.trace import Trace
from dpviz.families.zeroth_order import texts
from dpviz.families.zeroth_order.theory import Bound
from dpviz.numbers import short, short_up
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.chart import SETTINGS_ONLY, Chart, chart
from dpviz.plots.elements.lines import Limit, Line, Mark, Turn, limit_across, line_drawing, line_figure
from dpviz.plots.elements.style import ArmStyle
from dpviz.privacy.accounting.closed_forms import gdp_epsilon, zcdp_epsilon
from dpviz.problems.values.value_problem import ValueFacts

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
