"""Figures that only the page of the second-order methods has: both stopping tests, what the budget went to, and waiting
times at flat points.

Symbols: g̃ is a noisy gradient, λ̃_min the smallest eigenvalue of a noisy Hessian; α and ε_H are the targets of the
gradient's norm and of the curvature; W is the waiting time, the mean number of steps at a flat point until both
stopping tests pass.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.experiments.experiment import Arm
from dpviz.experiments.plan import Plan
from dpviz.experiments.trace import Trace
from dpviz.families.second_order import texts
from dpviz.families.second_order.advice import PROVEN, SOONEST, YOURS, SplitComparison
from dpviz.families.second_order.methods.algorithms import NonconvexMethod
from dpviz.families.second_order.methods.releases import CURVATURE, GRADIENT, KIND, PERTURBATION, STOP, TRUST_REGION
from dpviz.families.second_order.theory import GREEN, spectral_factor
from dpviz.numbers import short, short_up
from dpviz.plots import plan_figures
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.chart import Chart, chart
from dpviz.plots.elements.lines import MAX_POINTS, Limit, Line, Mark, Scale, area, limit_across, limit_line, line_figure
from dpviz.plots.elements.style import ArmStyle
from dpviz.problems.nonconvex.nonconvex_risk import NonconvexFacts

# By the kind of a step: word, colour and marker, which differs, too, so that colour is not needed.
KINDS: Mapping[int, tuple[str, str, str]] = {
    GRADIENT: ("gradient step", style.PALETTE["private"], "circle"),
    CURVATURE: ("curvature step", style.PALETTE["second"], "triangle-down"),
    PERTURBATION: ("step aside", style.PALETTE["second"], "cross"),
    TRUST_REGION: ("trust-region step", style.GREY, "diamond"),
    STOP: ("stop", style.PALETTE["theory"], "square"),
}
# Colour and pattern of the areas of `spent_by_purpose`: the function value, then up to three purposes.
_PARTS = (
    (style.PALETTE["second"], "."),
    (style.PALETTE["private"], ""),
    (style.PALETTE["theory"], "/"),
    (style.PALETTE["spent"], "x"),
)
FEW_STEPS = 15  # largest number of steps of which each has a tick
# Share of the ceiling that must be spent for the ceiling to be drawn; else the axis ends near what was spent.
_MIN_SPENT = 0.2
RATIO, FARTHEST = "Noise over tolerance", 4.0  # title of the axis, and the value at which bars are cut off
BY_SHARE_HEIGHT, SPENT_HEIGHT = 340, 280  # pixels


def noise_and_targets(arms: Sequence[Arm], plans: Mapping[str, Plan], styles: Mapping[str, ArmStyle]) -> Chart:
    """Draw the size of the noise of every step against the targets, for all private methods.

    The size is √d σ for a gradient of d entries with the noise scale σ, to be compared with the target α; for a Hessian
    it is the spectral norm κ_d σ, and for a released smallest eigenvalue σ, to be compared with the target ε_H. A
    target is drawn as a line if it is the same for all methods. plans, styles : by label of the arms.
    """
    noise, alphas, curvatures = {}, set(), set()  # the sets: targets of all methods
    for arm in arms:
        method, plan = arm.algorithm, plans[arm.label]
        if not plan.private:
            continue
        assert isinstance(method, NonconvexMethod)
        d, analysis = plan.facts.d, method.analysis(NonconvexFacts.of(plan.facts))
        size_factors = {"gradient": math.sqrt(d), "hessian": spectral_factor(d, method.hessian_noise)}
        # Other releases are single numbers, whose noise has the size of its scale.
        noise[arm.label] = {purpose: size_factors.get(purpose, 1.0) * scale for purpose, scale in plan.noise.items()}
        alphas.add(analysis.gradient_target)
        if len(plan.noise) > 1:  # it tests the curvature, too
            curvatures.add(analysis.curvature)
    limits: list[Limit] = []
    for symbol, targets in (("α", alphas), ("ε_H", curvatures)):
        if len(targets) == 1:
            (target,) = targets
            limits.append(Limit(target, f"{symbol} = {short(target)}"))
    varying = ", ".join(label for label, plan in plans.items() if plan.noise_varies)  # `plan.noise` is its upper limit
    caption = (
        "Compare the noise of a gradient, √d σ, with α; that of a Hessian (thin), its spectral norm κ_d σ, with ε_H. "
        "Above its target it hides what is tested."
    )
    if varying:
        caption += f" {texts.AT_MOST.format(varying)}"
    title = "Length of the noise"
    return plan_figures.noise_schedule(plans, styles, caption, noise=noise, title=title, limits=limits)


def by_share(compared: SplitComparison) -> Chart:
    """Draw the factor by which noise must fall against the share of the Hessians in the budget: until a method waits at
    most two steps (W ≤ 2) at a flat point, and, if the theorem applies, until that promises a solution.

    At a factor of 1 or below the present noise suffices. The plan's own share and the best ones are marked.
    """
    shares, row_factors = compared.curve_shares, compared.row_factors
    waiting_factors = compared.factors_until_recognised
    lines = [Line(shares, waiting_factors, "W ≤ 2", ArmStyle(style.PALETTE["theory"], "solid"))]
    curve_of_split = {YOURS: waiting_factors, SOONEST: waiting_factors}  # the curve on which a split is marked
    if row_factors is not None:
        lines.append(Line(shares, row_factors, "proven", ArmStyle(style.PALETTE["spent"], "dash")))
        curve_of_split[PROVEN] = row_factors
    colors = {YOURS: style.PALETTE["second"], SOONEST: style.PALETTE["theory"], PROVEN: style.PALETTE["spent"]}
    marks = []
    for name, curve in curve_of_split.items():
        share = compared.splits[name].share
        factor = float(np.exp(np.interp(share, shares, np.log(curve))))  # in logarithms, as the axis is
        marks.append(Mark(share, factor, f"{name.lower()}: φ = {short(share, 2)}", colors[name]))
    figure = line_figure(
        lines,
        Axes("Share of Hessians, φ_H", "Times less noise until", log_y=True),
        limits=[Limit(1.0, "enough now")],
        marks=marks,
        height=BY_SHARE_HEIGHT,
    )
    return chart(
        figure,
        "Between gradients and Hessians",
        "Times less noise until a method waits two steps and until it is proven, against the share of Hessians",
        f"{compared.phase}. Below the line there is less noise than it takes.",
    )


def stopping_test(
    trace: Trace, label: str, metric: str, tolerance: float, *, log_y: bool, heading: str = "", caption: str = ""
) -> Chart:
    """Draw the released values of one stopping test in every step of one method's runs, with its tolerance; markers
    show the kind of step that followed.

    label : of the method. metric : name of the released values, nan where the test was not made.
    heading, caption : of the chart, the caption without the label.
    """
    title = trace.metrics[metric].label if metric in trace.metrics else metric
    return chart(
        _stopping_figure(trace, label, metric, tolerance, title, log_y),
        heading,
        f"{heading} {title} in every step of every run, with its tolerance and the kind of step",
        f"{label}: {caption}",
        provenance=trace.arm_traces[label].privacy,
    )


def _stopping_figure(trace: Trace, label: str, metric: str, tolerance: float, title: str, log_y: bool) -> go.Figure:
    """Draw the figure of `stopping_test`. title : of the vertical axis."""
    axes = Axes("Step t", title, log_y=log_y)
    steps, values, kinds = _values_by_step(trace, label, metric)
    if not len(values):
        return line_figure([], axes, if_empty="This test was never asked for: no step came so far.")
    traces: list[dict[str, Any]] = []
    for kind, (word, color, symbol) in KINDS.items():
        is_kind = kinds == kind
        if is_kind.any():
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "x": steps[is_kind].astype(np.int32),
                    "y": values[is_kind].astype(np.float32),
                    "name": word,
                    "marker": {"color": color, "symbol": symbol, "size": 7, "opacity": 0.7},
                    "hovertemplate": f"step %{{x:,}}, {word}: %{{y:,.3~r}}<extra></extra>",
                }
            )
    limit = Limit(tolerance, f"tolerance {short(tolerance)}")
    ends = 0.5, float(steps.max()) + 0.5  # half a step beyond the markers
    traces.append(limit_line(limit, ends, Scale(log_x=False, log_y=log_y)))
    layout = style.layout(axes, legend_entries=len(traces))
    if steps.max() <= FEW_STEPS:
        layout["xaxis"] |= {"dtick": 1}  # a tick at each step
    return go.Figure({"data": traces, "layout": layout | {"hovermode": "closest"}})


def _values_by_step(trace: Trace, label: str, metric: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the steps (m,), the values of a metric (m,) and the kinds of step (m,) of all runs of a method together.

    Each value is taken once, and only values up to the end of its run. If there are more than a figure can show
    quickly, only those of the first runs are taken.
    """
    iterations, values = trace.arm_traces[label].series(metric, gaps=True)
    _, kinds = trace.arm_traces[label].series(KIND.name)
    if not len(values):
        return np.empty(0), np.empty(0), np.empty(0)
    stopped_at = trace.arm_traces[label].stopped_at
    if not len(stopped_at):
        stopped_at = np.full(values.shape[1], -1)  # -1: it goes on
    last_steps = np.where(stopped_at < 0, iterations[-1], stopped_at)  # (R,)
    previous = np.concatenate([[-1], iterations[:-1]])
    # (k, R) the step of each value: the record's iteration, or the last step of a run that ended since the record
    # before. A run that had ended by the record before only repeats its value: 0, which is not drawn.
    steps = np.where(previous[:, None] < last_steps, np.minimum(iterations[:, None], last_steps), 0)
    runs = max(1, MAX_POINTS // len(values))
    steps, values = steps[:, :runs], values[:, :runs]
    kinds = kinds[: len(values), :runs]  # a record may have been added since `values`
    is_drawn = np.isfinite(values) & (steps >= 1)
    return steps[is_drawn], values[is_drawn], kinds[is_drawn]


def spent_by_purpose(
    trace: Trace,
    label: str,
    purposes: Mapping[str, str],
    ceiling: float,
    *,
    charged_before: float,
    title: str = "Privacy spent, ρ",
    caption: str = "",
) -> Chart:
    """Draw what one method's runs had been charged after each step, mean over the runs, as stacked areas by purpose,
    below the ceiling.

    purposes : words for the legend, by the name of the released series that counts the charges. ceiling : largest
    amount that a run may be charged, in the same unit. charged_before : amount charged before the run, for the value of
    the objective.
    title : of the axis. caption : without the label of the method.
    """
    parts: list[tuple[str, np.ndarray]] = []  # word for the legend, and mean charge after each record
    iterations = np.array(trace.arm_traces[label].iterations, dtype=int)  # a record may be added from now on
    for name, word in purposes.items():
        _, values = trace.arm_traces[label].series(name)
        if len(values):
            parts.append((word, values[: len(iterations)].mean(axis=1)))
    if charged_before and parts:
        parts.insert(0, ("function value", np.full(len(iterations), charged_before)))
    parts = [(word, part) for word, part in parts if part[-1] > 0]
    axes = Axes("Step t", title, from_zero=True)
    if parts:
        total = float(sum(part[-1] for _, part in parts))
        # By the order of `purposes`, charged or not; there may be fewer than the three that have a colour.
        appearances = dict(zip(("function value", *purposes.values()), _PARTS, strict=False))
        records = iterations.astype(np.int32)
        traces = [area(records, part, word, *appearances[word], group="spent") for word, part in parts]
        share = f"used {short(100 * total / ceiling, 2)} % of the ceiling {short_up(ceiling)}"
        layout = style.layout(axes, notes=[share], legend_entries=len(traces) + 1, height=SPENT_HEIGHT)
        if total >= _MIN_SPENT * ceiling:
            ends = np.array([0, iterations[-1]], dtype=np.int32)
            traces.append(
                {"type": "scatter", "mode": "lines", "x": ends, "y": np.full(2, ceiling, dtype=np.float32)}
                | {"name": "ceiling", "hoverinfo": "skip"}
                | {"line": {"color": style.PALETTE["spent"], "dash": "dashdot", "width": 1.5}}
            )
        figure = go.Figure({"data": traces, "layout": layout})
    else:
        figure = line_figure([], axes, if_empty="Nothing has been charged so far.")
    return chart(
        figure,
        "What the budget went to",
        "Privacy spent after each step, stacked by purpose, and the ceiling",
        f"{label}: {caption}",
        provenance=trace.arm_traces[label].privacy,
    )


@dataclass(frozen=True, eq=False)
class Waiting:
    """Waiting time of a method at a flat point, against the number of rows.

    rows : (k,) numbers of rows n. steps : (k,) the waiting time W with each. here : the present n and its W.
    patience : longest waiting time at which the method may be expected to stop at all, T/2.
    """

    rows: np.ndarray
    steps: np.ndarray
    here: tuple[int, float]
    patience: float


def waiting_times(curves: Mapping[str, Waiting], styles: Mapping[str, ArmStyle]) -> Chart:
    """Draw the waiting time at a flat point against the number of rows, at the same budget, a line per method; the
    present number of rows is marked.

    A line begins where a run may be expected to stop at all. curves, styles : by label.
    """
    lines, marks = [], []
    for label, waiting in curves.items():
        longest = max(waiting.patience, GREEN)
        is_drawn = waiting.steps <= longest
        lines.append(Line(waiting.rows[is_drawn], waiting.steps[is_drawn], label, styles[label], value_in_label=False))
        n, waiting_time = waiting.here
        if waiting_time <= longest:
            text = f"{label}, n = {n:,}: W = {short(waiting_time)}"
            marks.append(Mark(float(n), waiting_time, text, styles[label].color))
    figure = line_figure(
        lines,
        Axes("Rows n", "Waiting time W, steps", log_x=True, log_y=True),
        limits=[Limit(GREEN, "stops soon below")],
        marks=marks,
        notes=["a line begins where a run may stop at all"] if lines else [],
        if_empty="No method with a waiting time.",
        labels=len(lines) > 1,
    )
    return chart(
        figure,
        "Waiting time and rows",
        "Waiting time against the number of rows, one line per method",
        "How long a run waits at a flat place, if you had more or fewer rows at the same budget: noise falls "
        "with 1/n. Methods on batches are left out.",
    )


def noise_against_tolerances(ratios: Mapping[str, tuple[float, float]]) -> Chart:
    """Draw the noise of both stopping tests as multiples of their tolerances, a pair of bars per method, with a line at
    1.

    ratios : by label, that of the gradient test and that of the curvature test; 0 for a test that is not made.
    """
    names = list(ratios)[::-1]  # plotly draws from the bottom up: so the first is on top
    parts = (("gradient test", style.PALETTE["private"], ""), ("curvature test", style.PALETTE["second"], "/"))
    traces = []
    for test, (word, color, pattern) in enumerate(parts):
        names_with_test = [name for name in names if ratios[name][test] > 0]
        if names_with_test:
            values = np.array([ratios[name][test] for name in names_with_test])
            traces.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "x": np.minimum(values, FARTHEST).astype(np.float32),
                    "y": names_with_test,
                    "name": word,
                    "text": [short(value, 2) for value in values.tolist()],
                    "textposition": "outside",  # a number in a thin or short bar would be too small to read
                    "cliponaxis": False,
                    "marker": {"color": color, "pattern": {"shape": pattern, "size": 6, "solidity": 0.2}},
                    "hovertemplate": f"%{{y}}, {word}: %{{text}}<extra></extra>",
                }
            )
    is_cut_off = any((trace["x"] >= FARTHEST).any() for trace in traces)
    notes = [f"bars end at {FARTHEST:g}"] if is_cut_off else []
    height = max(style.HEIGHT, 110 + 36 * len(names))  # room for two numbers, one below the other, in each pair of bars
    layout = style.layout(Axes(RATIO, ""), notes=notes, legend_entries=2, height=height)
    layout["xaxis"] |= {"rangemode": "tozero"}
    layout["yaxis"] = {"type": "category", "categoryorder": "array", "categoryarray": names, "automargin": True}
    layout["shapes"] = [limit_across(1)]
    figure = go.Figure({"data": traces, "layout": layout | {"hovermode": "closest", "barmode": "group"}})
    return chart(
        figure if traces else line_figure([], Axes(RATIO, ""), if_empty="No method adds noise."),
        "Noise against the tolerances",
        "Noise over tolerance of both tests, for every method",
        "A run stops where a noisy number is within its tolerance. Left of the line the noise allows that; far "
        "right of it no place looks flat, however good it is.",
    )
