"""Figures that only this family has: both stopping tests, what the budget went to, and waiting times."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.experiments.experiment import Arm
from dpviz.experiments.plan import Plan
from dpviz.experiments.trace import ArmTrace, Trace
from dpviz.families.second_order import texts
from dpviz.families.second_order.advice import PROVEN, SOONEST, YOURS, Compared
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

# Of a step's kind: word, colour, marker. Colour is never alone.
KINDS: Mapping[int, tuple[str, str, str]] = {
    GRADIENT: ("gradient step", style.PALETTE["private"], "circle"),
    CURVATURE: ("curvature step", style.PALETTE["second"], "triangle-down"),
    PERTURBATION: ("step aside", style.PALETTE["second"], "cross"),
    TRUST_REGION: ("trust-region step", style.GREY, "diamond"),
    STOP: ("stop", style.PALETTE["theory"], "square"),
}
_PARTS = (
    (style.PALETTE["second"], "."),
    (style.PALETTE["private"], ""),
    (style.PALETTE["theory"], "/"),
    (style.PALETTE["spent"], "x"),
)
FEW_STEPS = 15  # up to so many every one has a tick
_FEW = 0.2  # of the ceiling: of less, the axis ends near what was spent
RATIO, FARTHEST = "Noise over tolerance", 4.0  # and where bars end
BY_SHARE_HEIGHT, SPENT_HEIGHT = 340, 280  # pixels


def noise_and_targets(arms: Sequence[Arm], plans: Mapping[str, Plan], styles: Mapping[str, ArmStyle]) -> Chart:
    """How long the noise of every step is, with the targets of all methods, if these are the same: of a gradient √d σ,
    beside α; of a Hessian the spectral norm κ_d σ, and of a certificate σ, beside ε_H."""
    noise, alphas, curvatures = {}, set(), set()
    for arm in arms:
        method, plan = arm.algorithm, plans[arm.label]
        if not plan.private:
            continue
        assert isinstance(method, NonconvexMethod)
        d, analysis = plan.facts.d, method.analysis(NonconvexFacts.of(plan.facts))
        lengths = {"gradient": math.sqrt(d), "hessian": spectral_factor(d, method.hessian_noise)}
        noise[arm.label] = {name: lengths.get(name, 1.0) * scale for name, scale in plan.noise.items()}
        alphas.add(analysis.gradient_target)
        curvatures |= {analysis.curvature} if len(plan.noise) > 1 else set()
    limits = [Limit(max(alphas), f"α = {short(max(alphas))}")] if len(alphas) == 1 else []
    limits += [Limit(max(curvatures), f"ε_H = {short(max(curvatures))}")] if len(curvatures) == 1 else []
    bounded = ", ".join(label for label, plan in plans.items() if plan.noise_varies)
    words = (
        "Compare the noise of a gradient, √d σ, with α; that of a Hessian (thin), its spectral norm κ_d σ, with ε_H. "
        "Above its target it hides what is tested."
    )
    words += f" {texts.AT_MOST.format(bounded)}" if bounded else ""
    title = "Length of the noise"
    return plan_figures.noise_schedule(plans, styles, words, noise=noise, title=title, limits=limits)


def by_share(compared: Compared) -> Chart:
    """How many times less noise lets a method wait two steps at most, and how many times less the theorem needs,
    against the share of the Hessians; at 1 and below what there is suffices. Marked: the present share and the best."""
    green = Line(compared.curve, compared.green, "W ≤ 2", ArmStyle(style.PALETTE["theory"], "solid"))
    lines, curves = [green], {YOURS: compared.green, SOONEST: compared.green}
    if compared.proven is not None:
        lines.append(Line(compared.curve, compared.proven, "proven", ArmStyle(style.PALETTE["spent"], "dash")))
        curves[PROVEN] = compared.proven
    colors = {YOURS: style.PALETTE["second"], SOONEST: style.PALETTE["theory"], PROVEN: style.PALETTE["spent"]}
    marks = [
        Mark(
            (share := compared.splits[name].share),
            float(np.exp(np.interp(share, compared.curve, np.log(curve)))),
            f"{name.lower()}: φ = {short(share, 2)}",
            colors[name],
        )
        for name, curve in curves.items()
    ]
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
    trace: Trace, label: str, metric: str, tolerance: float, *, log_y: bool, heading: str = "", words: str = ""
) -> Chart:
    """What one of both tests read in every step of one method's runs, against its tolerance; a marker for each kind of
    step that followed. All of it was released.

    metric : the name of the released series, nan where it was not asked for.
    """
    title = trace.metrics[metric].label if metric in trace.metrics else metric
    figure = _steps(trace, label, metric, tolerance, title, log_y)
    return chart(
        figure,
        heading,
        f"{heading} {title} in every step of every run, with its tolerance and the kind of step",
        f"{label}: {words}",
        provenance=trace.lanes[label].privacy,
    )


def _steps(trace: Trace, label: str, metric: str, tolerance: float, title: str, log_y: bool) -> go.Figure:
    steps, values, taken = _asked(trace, label, metric)
    if not len(values):
        empty = "This test was never asked for: no step came so far."
        return line_figure([], Axes("Step t", title, log_y=log_y), if_empty=empty)
    traces = []
    for kind, (word, color, symbol) in KINDS.items():
        chosen = taken == kind
        if chosen.any():
            traces.append(_markers(steps[chosen], values[chosen], word, color, symbol))
    limit = Limit(tolerance, f"tolerance {short(tolerance)}")
    traces.append(limit_line(limit, (0.5, float(steps.max()) + 0.5), Scale(False, log_y)))
    frame = style.layout(Axes("Step t", title, log_y=log_y), legend_entries=len(traces))
    frame["xaxis"] |= {"dtick": 1} if steps.max() <= FEW_STEPS else {}
    return go.Figure({"data": traces, "layout": frame | {"hovermode": "closest"}})


def _asked(trace: Trace, label: str, metric: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps, values and kinds (m,) of all runs together, each once; of runs that have ended, up to their end.

    Of so many that a figure would be slow, those of the first runs.
    """
    iterations, values = trace.lanes[label].series(metric, gaps=True)
    _, taken = trace.lanes[label].series(KIND.name)
    if not len(values):
        return np.empty(0), np.empty(0), np.empty(0)
    runs = max(1, MAX_POINTS // len(values))
    steps = _own_steps(trace.lanes[label], iterations, values.shape[1])[:, :runs]
    values, taken = values[:, :runs], taken[: len(values), :runs]
    kept = np.isfinite(values) & (steps >= 1)
    return steps[kept], values[kept], taken[kept]


def _own_steps(lane: ArmTrace, iterations: np.ndarray, runs: int) -> np.ndarray:
    """(k, R) the step that a record tells of each run: no later than its end; 0 where it tells nothing new."""
    ended = lane.stopped_at if len(lane.stopped_at) else np.full(runs, -1)
    last = np.where(ended < 0, iterations[-1], ended)
    before = np.concatenate([[-1], iterations[:-1]])
    return np.where(before[:, None] < last, np.minimum(iterations[:, None], last), 0)


def _markers(x: np.ndarray, y: np.ndarray, name: str, color: str, symbol: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": x.astype(np.int32),
        "y": y.astype(np.float32),
        "name": name,
        "marker": {"color": color, "symbol": symbol, "size": 7, "opacity": 0.7},
        "hovertemplate": f"step %{{x:,}}, {name}: %{{y:,.3~r}}<extra></extra>",
    }


def spent_by_purpose(
    trace: Trace,
    label: str,
    purposes: Mapping[str, str],
    ceiling: float,
    *,
    before: float = 0.0,
    title: str = "Privacy spent, ρ",
    words: str = "",
) -> Chart:
    """What one method's runs had been charged after each step, on average, by purpose: stacked areas below the ceiling.

    purposes : words by the name of the released series that counts it. before : charged before the run, for the value
    of the objective. ceiling : the most that a run may be charged, in the same unit. words : of the caption.
    """
    figure = _spent(trace, label, purposes, ceiling, before=before, title=title)
    return chart(
        figure,
        "What the budget went to",
        "Privacy spent after each step, stacked by purpose, and the ceiling",
        f"{label}: {words}",
        provenance=trace.lanes[label].privacy,
    )


def _spent(
    trace: Trace, label: str, purposes: Mapping[str, str], ceiling: float, *, before: float, title: str
) -> go.Figure:
    parts: list[tuple[str, np.ndarray]] = []
    iterations = np.empty(0, dtype=int)
    for name, word in purposes.items():
        found, values = trace.lanes[label].series(name)
        if len(values):
            iterations = found
            parts.append((word, values.mean(axis=1)))
    if before and parts:
        parts.insert(0, ("function value", np.full(len(iterations), before)))
    parts = [(word, part) for word, part in parts if part[-1] > 0]
    if not parts:
        return line_figure([], Axes("Step t", title), if_empty="Nothing has been charged so far.")
    total = float(sum(part[-1] for _, part in parts))
    looks = dict(zip(("function value", *purposes.values()), _PARTS, strict=False))
    traces = [area(iterations.astype(np.int32), part, word, *looks[word], group="spent") for word, part in parts]
    share = f"used {short(100 * total / ceiling, 2)} % of the ceiling {short_up(ceiling)}"
    frame = style.layout(
        Axes("Step t", title, from_zero=True), notes=[share], legend_entries=len(traces) + 1, height=SPENT_HEIGHT
    )
    if total >= _FEW * ceiling:
        ends = np.array([0, iterations[-1]], dtype=np.int32)
        traces.append(
            {"type": "scatter", "mode": "lines", "x": ends, "y": np.full(2, ceiling, dtype=np.float32)}
            | {"name": "ceiling", "hoverinfo": "skip"}
            | {"line": {"color": style.PALETTE["spent"], "dash": "dashdot", "width": 1.5}}
        )
    return go.Figure({"data": traces, "layout": frame})


@dataclass(frozen=True, eq=False)
class Waiting:
    """How long a method waits at a flat place, against the rows: n (k,), W (k,); here: its own n and W.

    patience : the longest waiting time at which it may be expected to stop at all, T/2.
    """

    rows: np.ndarray
    steps: np.ndarray
    here: tuple[int, float]
    patience: float


def waiting_times(curves: Mapping[str, Waiting], styles: Mapping[str, ArmStyle]) -> Chart:
    """Waiting time against the number of rows, at the same budget; the present n is marked. A line begins where a run
    may be expected to stop at all."""
    lines, marks = [], []
    for label, found in curves.items():
        kept = found.steps <= max(found.patience, GREEN)
        lines.append(Line(found.rows[kept], found.steps[kept], label, styles[label], value=False))
        if found.here[1] <= found.patience:
            text = f"{label}, n = {found.here[0]:,}: W = {short(found.here[1])}"
            marks.append(Mark(float(found.here[0]), found.here[1], text, styles[label].color))
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
    """Noise of the released gradient and Hessian over what each test tolerates, r_g and r_H per method; a line at 1."""
    return chart(
        _ratios(ratios),
        "Noise against the tolerances",
        "Noise over tolerance of both tests, for every method",
        "A run stops where a noisy number is within its tolerance. Left of the line the noise allows that; far "
        "right of it no place looks flat, however good it is.",
    )


def _ratios(ratios: Mapping[str, tuple[float, float]]) -> go.Figure:
    names = list(ratios)[::-1]  # the first on top
    parts = (("gradient test", style.PALETTE["private"], ""), ("curvature test", style.PALETTE["second"], "/"))
    traces = []
    for place, (word, color, pattern) in enumerate(parts):
        known = [name for name in names if ratios[name][place] > 0]
        if known:
            values = np.array([ratios[name][place] for name in known])
            traces.append(_bars(known, values, word, color, pattern))
    if not traces:
        return line_figure([], Axes(RATIO, ""), if_empty="No method adds noise.")
    beyond = any((trace["x"] >= FARTHEST).any() for trace in traces)
    notes = [f"bars end at {FARTHEST:g}"] if beyond else []
    frame = style.layout(Axes(RATIO, ""), notes=notes, legend_entries=2)
    frame["xaxis"] |= {"rangemode": "tozero"}
    frame["yaxis"] = {"type": "category", "categoryorder": "array", "categoryarray": names, "automargin": True}
    frame["shapes"] = [limit_across(1)]
    return go.Figure({"data": traces, "layout": frame | {"hovermode": "closest", "barmode": "group"}})


def _bars(names: Sequence[str], values: np.ndarray, name: str, color: str, pattern: str) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "x": np.minimum(values, FARTHEST).astype(np.float32),
        "y": list(names),
        "name": name,
        "text": [short(value, 2) for value in values.tolist()],
        "marker": {"color": color, "pattern": {"shape": pattern, "size": 6, "solidity": 0.2}},
        "hovertemplate": f"%{{y}}, {name}: %{{text}}<extra></extra>",
    }
