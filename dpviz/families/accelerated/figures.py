"""Figures of the accelerated methods alone: what momentum does on quadratics, and what an error bound is made of.

They need settings only, never data; but for `section`, which evaluates the objective of public data.
"""

import math

import numpy as np
import plotly.graph_objects as go
from numpy.polynomial import chebyshev

from dpviz.experiments.plan import Plan
from dpviz.families.accelerated import planning, quadratic, theory
from dpviz.families.accelerated.algorithms import GradientMethod, HeavyBall
from dpviz.families.accelerated.certificate import Certificate
from dpviz.numbers import short
from dpviz.plots.clouds import Background
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.chart import Chart, chart
from dpviz.plots.elements.lines import Line, Mark, Turn, area, downsample, line_figure, turned
from dpviz.plots.elements.style import ArmStyle
from dpviz.problems.base import SmoothFacts
from dpviz.problems.linear.linear_base import LinearProblem

RELATIVE_STEPS = (0.1, 0.5, 1.0)  # of the paper's figure 1
START = float(np.sqrt(2.5))  # both coordinates, so that ‖(x_0, x_0)‖² = 10 as in the paper's figure 1
_SPECTRUM = 20  # eigenvalues, log-uniform in [μ, L], where a problem does not state its own
SHARE = 0.9  # of the runs
KNOTS = 15  # of the objective of a model along each axis
REACH = math.sqrt(-2 * math.log(1 - SHARE))  # 2.146 standard deviations: of a Gaussian in a plane they hold that share
_PARTS = (
    ("optimisation", style.PALETTE["theory"], ""),
    ("privacy noise", style.PALETTE["spent"], "/"),
    ("batch noise", style.PALETTE["second"], "."),
)


def momentum_rates(strong_convexity: float, smoothness: float, *, published: bool = False) -> Chart:
    """Contraction rate on quadratics against momentum β, for three step sizes: heavy ball and Nesterov, best β marked.

    Heavy ball has its optimum at (1-q)², Nesterov's method at (1-q)/(1+q), q = √(μα); both then contract by 1-q.
    published : adds the paper's formula (26) for heavy ball, which is Nesterov's rate (erratum E2).
    """
    momentum = np.linspace(0.0, 0.99, 199)
    lines, marks = [], []
    for relative, color in zip(RELATIVE_STEPS, style.HUES, strict=False):
        step = relative / smoothness
        own, nesterov = (
            quadratic.rate(kind, step, momentum, strong_convexity, smoothness) for kind in ("heavy_ball", "nesterov")
        )
        if published:
            paper = ArmStyle(style.GREY, "dot")
            name = "heavy ball by the paper's (26)"
            first = relative == RELATIVE_STEPS[0]
            lines.append(Line(momentum, nesterov, name, paper, width=6.0, group=name, legend=first, value=False))
        lowest = 1 - float(np.sqrt(strong_convexity * step))
        for name, rates, rule, dash in (
            ("heavy ball", own, theory.heavy_ball_momentum, "solid"),
            ("Nesterov", nesterov, theory.nesterov_momentum, "dash"),
        ):
            best = float(rule(step, strong_convexity))
            text = f"{name}, {short(relative)}/L: best β = {short(best)}"
            lines.append(Line(momentum, rates, text, ArmStyle(color, dash), value=False))
            marks.append(Mark(best, lowest, text, color))
    figure = line_figure(lines, Axes("Momentum β", "Rate ρ per step"), marks=marks, height=style.ALONE)
    return chart(
        figure,
        "Rate against momentum",
        "Contraction rate of heavy ball and Nesterov against momentum, for three step sizes; the best is marked",
        "Without noise, distances shrink by ρ in every step. Heavy ball wants less momentum than Nesterov.",
    )


def momenta(step_size: float, strong_convexity: float) -> dict[str, float]:
    """The momentum values of the paper's figure 1, and heavy ball's optimum, by name."""
    return {
        "β = 0": 0.0,
        "β = 0.3": 0.3,
        "β = 0.7": 0.7,
        "β = (1-q)/(1+q)": float(theory.nesterov_momentum(step_size, strong_convexity)),
        "β = (1-q)²": float(theory.heavy_ball_momentum(step_size, strong_convexity)),
    }


def heavy_ball_on_quadratic(
    strong_convexity: float, step_size: float, noise_per_step: float, *, iterations: int = 250, published: bool = False
) -> Chart:
    """Exact error of heavy ball after T steps on diag(μ, 1), against T, for the momenta of `momenta`; best T marked.

    The noise variance per coordinate is (T noise_per_step)²: the budget is shared by T steps (paper, figure 1).
    published : adds the paper's curve, which is not a bound on this error (errata E2, E10).
    """
    lines, marks = [], []
    looks = [ArmStyle(hue, dash) for hue, dash in zip((*style.HUES, style.GREY), (*style.DASHES, "dash"), strict=True)]
    horizons = np.arange(iterations + 1)
    for (name, momentum), look in zip(momenta(step_size, strong_convexity).items(), looks, strict=True):
        steps = theory.heavy_ball(iterations, step_size, momentum)
        gap = quadratic.expected_gap_by_iterations(
            steps, "heavy_ball", [strong_convexity, 1.0], START, noise_per_step**2, "laplace"
        ).total
        best = int(np.argmin(gap))
        text = f"{name}: T* = {best}"
        lines.append(Line(horizons, gap, text, look, group=name, value=False))
        marks.append(Mark(best, float(gap[best]), text, look.color))
        if published:
            log_bound = quadratic.published_log_bound(iterations, step_size, momentum, noise_per_step, strong_convexity)
            curve = np.exp(np.minimum(log_bound, 100.0))
            lines.append(Line(horizons[1:], curve, f"{name}, paper", look, width=1.0, group=name, legend=False))
    figure = line_figure(
        lines,
        Axes("Steps T", "Expected error E F(x_T) - F*", log_x=True, log_y=True),
        marks=marks,
        notes=["thin lines: the paper's curve, not a bound on this error"] if published else [],
        height=style.ALONE,
    )
    return chart(
        figure,
        "Error against the number of steps",
        "Exact error of heavy ball on a quadratic against T, for five momenta; the best T is marked",
        "Exact expectation (replaces Theorem 3.5) on diag(μ, 1); T steps share the budget.",
    )


def decomposition(method: GradientMethod, plan: Plan, *, exact: bool = False, condition: str = "") -> Chart:
    """What the error of a plan is made of after each step: optimisation, privacy noise, batch noise; stacked areas.

    A line marks the step from which on noise is the larger part, if there is one.

    The parts are those of the error bound, which counts the batch noise at its worst. exact : those of the exact error
    on a quadratic instead: the problem's own, or one with a log-uniform spectrum in [μ, L] that starts, all coordinates
    equal, at the bound on the initial gap. condition : what the bound rests on, to be said behind it.
    """
    title = "Error on a quadratic" if exact else f"Bound on the excess loss{condition}"
    parts = _quadratic_parts(method, plan) if exact else _bound_parts(method, plan)
    return chart(
        _stacked(parts, title, f"No error bound is known for {method.title}."),
        "What limits accuracy",
        "Error after each step, split into optimisation, privacy noise and batch noise",
        "The error bound after all steps, split into what it consists of. What remains of the start shrinks with "
        "more steps, privacy noise grows with them, and batch noise comes from looking at m rows only.",
    )


def _stacked(parts: np.ndarray | None, title: str, if_unknown: str) -> go.Figure:
    """The parts (3, T+1) of an error as stacked areas, with the step from which on noise is the larger one."""
    if parts is None:
        return line_figure([], Axes("Step t", title), if_empty=if_unknown)
    total = np.minimum(parts.sum(axis=0), 1e12)
    steps = downsample(np.arange(len(total)), total)
    traces = [
        area(steps.astype(np.int16), np.minimum(part[steps], 1e12), *looks, group="error")
        for part, looks in zip(parts, _PARTS, strict=True)
        if part.any()
    ]
    frame = style.layout(Axes("Step t", title, from_zero=True), legend_entries=len(traces), height=style.ALONE)
    at = noise_takes_over(parts)
    if at is not None:
        labels, shapes = turned([Turn(at, f"noise takes over: step {at:,}")])
        frame |= {"annotations": [*frame["annotations"], *labels], "shapes": shapes}
    return go.Figure({"data": traces, "layout": frame})


def noise_takes_over(parts: np.ndarray) -> int | None:
    """The first step from which on noise is more than half of the error; parts (3, T+1): optimisation, and noises.

    None if there is none: the end is limited by optimisation.
    """
    mostly = parts[1:].sum(axis=0) > parts[0]
    before = np.flatnonzero(~mostly)
    at = int(before[-1]) + 1 if len(before) else 0
    return at if at < len(mostly) else None


def _half_variances(method: GradientMethod, plan: Plan) -> tuple[SmoothFacts, np.ndarray, np.ndarray]:
    """Facts, and half the expected squared norm of each step's privacy noise and batch noise, (T,) each."""
    facts = SmoothFacts.of(plan.facts)
    total = planning.half_variance(method, facts, plan)
    batch = theory.sampling_variance(facts.gradient_bound("l2"), method.batch_size(facts), facts.n) / 2
    return facts, np.maximum(total - batch, 0.0), np.full(plan.iterations, batch)


def _bound_parts(method: GradientMethod, plan: Plan) -> np.ndarray | None:
    """(3, T+1) the bound's parts, which add up to it because it is linear in the noise; None without a bound."""
    facts, privacy, batch = _half_variances(method, plan)
    recursion = method.recursion(facts, method.steps(facts, plan.iterations))
    if recursion is None:
        return None
    noise_only = recursion._replace(initial=0.0)
    return np.array([theory.bound(recursion, 0.0), theory.bound(noise_only, privacy), theory.bound(noise_only, batch)])


def _quadratic_parts(method: GradientMethod, plan: Plan) -> np.ndarray:
    """(3, T+1) the parts of the exact error, which is linear in the noise, too."""
    facts, privacy, batch = _half_variances(method, plan)
    spectrum, start = _quadratic(facts)
    steps = method.steps(facts, plan.iterations)

    def error(x_0: float, half_variance: np.ndarray) -> np.ndarray:
        return quadratic.expected_gap(steps, method.dynamics, spectrum, x_0, 2 * half_variance / facts.d).total

    return np.array([error(start, 0 * batch), error(0.0, privacy), error(0.0, batch)])


def _quadratic(facts: SmoothFacts) -> tuple[np.ndarray, float]:
    """Spectrum (k,) and start, the same in every coordinate, of the quadratic that stands for a problem."""
    if facts.eigenvalues:
        return np.array(facts.eigenvalues), facts.start
    spectrum = np.geomspace(facts.strong_convexity, facts.smoothness, _SPECTRUM)
    return spectrum, float(np.sqrt(2 * facts.initial_gap / spectrum.sum()))


def worst_case(method: HeavyBall, plan: Plan, certificate: Certificate | None) -> Chart:
    """Heavy ball's certified bound after each step (Proposition 3.4, corrected), above its exact error on a quadratic.

    The certificate counts the largest noise of the plan in every step. None draws the quadratic alone and says that
    there is no certificate: then nothing is known of other objectives.
    """
    facts, privacy, batch = _half_variances(method, plan)
    lines = [
        Line(
            np.arange(plan.iterations + 1),
            _quadratic_parts(method, plan).sum(axis=0),
            "exact, on a quadratic",
            ArmStyle(style.PALETTE["private"], "solid"),
        )
    ]
    if certificate is not None:
        # E₀ + μ/2 ‖x₀ - x*‖² ≤ V₀ is all that is known of the start; the bound is linear in both, so one end is worst.
        noise = float(2 * (privacy + batch).max())
        far = certificate.bound(2 * facts.lyapunov / facts.strong_convexity, 0.0, noise, plan.iterations)
        high = certificate.bound(0.0, facts.lyapunov, noise, plan.iterations)
        green = ArmStyle(style.PALETTE["theory"], "dash")
        lines.append(Line(np.arange(plan.iterations + 1), np.maximum(far, high), "certified, worst case", green))
    figure = line_figure(
        lines,
        Axes("Step t", "Expected error E F(x_t) - F*", log_y=True),
        notes=[] if certificate else ["no worst-case certificate; exact curve for quadratics only"],
        height=style.ALONE,
    )
    return chart(
        figure,
        "Heavy ball: certificate and exact curve",
        "Certified worst-case bound of heavy ball, if there is one, and its exact error on a quadratic",
        "The certificate holds for every objective with these constants and this starting error, the exact curve "
        "for a quadratic.",
    )


# ----------------------------------------------------------------------------------- where runs should be in a plane


def ellipse(method: GradientMethod, plan: Plan) -> tuple[np.ndarray, np.ndarray] | None:
    """Centres (T+1, 2) and half axes (T+1, 2) of the ellipses that hold about 90 % of the runs after each step, in the
    plane of the smallest and the largest eigenvalue. None where the spectrum is not known; inf where a method is
    unstable.

    Mean and variance of both coordinates are exact (`quadratic.moments`), and they are independent. That they are
    Gaussian is exact for Gaussian noise; sums of Laplace noise are so roughly.
    """
    facts = SmoothFacts.of(plan.facts)
    if not facts.eigenvalues:
        return None
    steps, ends = method.steps(facts, plan.iterations), [facts.eigenvalues[0], facts.eigenvalues[-1]]
    centres, variance = quadratic.moments(steps, method.dynamics, ends, facts.start, method.noise_variance(plan))
    half_axes = REACH * np.sqrt(np.maximum(variance, 0.0))  # rounding
    return np.nan_to_num(centres.T, nan=np.inf, neginf=-np.inf, posinf=np.inf), np.where(
        np.isnan(half_axes.T), np.inf, half_axes.T
    )


def ground(facts: SmoothFacts, x: np.ndarray, y: np.ndarray) -> Background:
    """F on a grid of the same plane, x (k,) and y (m,), all other coordinates at the minimum; exact, and public."""
    across, up = facts.eigenvalues[0] * x**2, facts.eigenvalues[-1] * y**2
    return Background(x, y, 0.5 * (across + up[:, None]), raw=False)


def section(problem: LinearProblem, x: np.ndarray, y: np.ndarray) -> Background:
    """F on a grid of the plane of the first two weights, x (k,) and y (m,), all others as they are at the minimum.

    It is evaluated at KNOTS × KNOTS places, and in between the polynomial through them: near the minimum it is off by
    less than 10⁻⁴ of what is drawn, and by 1 % where Huber's loss has its corners and the picture is wide.
    """
    (few, across), (many, up) = (_knots(along) for along in (x, y))
    places = np.tile(problem.minimiser, (KNOTS * KNOTS, 1))
    places[:, 0], places[:, 1] = np.tile(few, KNOTS), np.repeat(many, KNOTS)
    values = problem.evaluate({"x": places})["objective"].reshape(KNOTS, KNOTS)
    return Background(x, y, up @ values @ across.T)


def _knots(along: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places (KNOTS,) between the ends of an axis (k,), and weights (k, KNOTS) of values there in those on the axis."""
    knots, middle, half = chebyshev.chebpts1(KNOTS), (along[0] + along[-1]) / 2, (along[-1] - along[0]) / 2
    there, here = (chebyshev.chebvander(places, KNOTS - 1) for places in (knots, (along - middle) / half))
    return middle + half * knots, np.linalg.solve(there.T, here.T).T
