"""Figures of the accelerated methods alone: effect of momentum on quadratics, parts of an error bound, planes.

They need settings only, never data; except `section`, which evaluates the objective of public data.
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
REACH = math.sqrt(-2 * math.log(1 - SHARE))  # 2.146 standard deviations: in a plane, a Gaussian has SHARE within them
_PARTS = (
    ("optimisation", style.PALETTE["theory"], ""),
    ("privacy noise", style.PALETTE["spent"], "/"),
    ("batch noise", style.PALETTE["second"], "."),
)


def momentum_rates(strong_convexity: float, smoothness: float, *, published: bool = False) -> Chart:
    """Draw the contraction rate of heavy ball and Nesterov's method on quadratics against momentum β, best β marked.

    Heavy ball has its optimum at (1-q)², Nesterov's method at (1-q)/(1+q), q = √(μα); both then contract by 1-q. There
    is a pair of curves for each of three step sizes α.
    published : adds the paper's formula (26) for heavy ball, which is Nesterov's rate (erratum E2).
    """
    momentum = np.linspace(0.0, 0.99, 199)
    lines, marks = [], []
    for relative, color in zip(RELATIVE_STEPS, style.HUES, strict=False):
        step = relative / smoothness
        heavy_ball, nesterov = (
            quadratic.rate(kind, step, momentum, strong_convexity, smoothness) for kind in ("heavy_ball", "nesterov")
        )
        if published:
            paper = ArmStyle(style.GREY, "dot")
            name = "heavy ball by the paper's (26)"
            first = relative == RELATIVE_STEPS[0]
            lines.append(Line(momentum, nesterov, name, paper, width=6.0, group=name, legend=first, value=False))
        lowest = 1 - float(np.sqrt(strong_convexity * step))
        for name, rates, rule, dash in (
            ("heavy ball", heavy_ball, theory.heavy_ball_momentum, "solid"),
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
    """Return the momentum values of the paper's figure 1, and heavy ball's optimum, by name."""
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
    """Draw the exact error of heavy ball after T steps on diag(μ, 1) against T, for each of `momenta`; best T marked.

    The noise variance per coordinate is (T noise_per_step)²: the budget is shared by T steps (paper, figure 1).
    published : adds the paper's curve, which is not a bound on this error (errata E2, E10).
    """
    lines, marks = [], []
    styles = [ArmStyle(hue, dash) for hue, dash in zip((*style.HUES, style.GREY), (*style.DASHES, "dash"), strict=True)]
    horizons = np.arange(iterations + 1)
    for (name, momentum), arm_style in zip(momenta(step_size, strong_convexity).items(), styles, strict=True):
        steps = theory.heavy_ball(iterations, step_size, momentum)
        gap = quadratic.expected_gap_by_iterations(
            steps, "heavy_ball", [strong_convexity, 1.0], START, noise_per_step**2, "laplace"
        ).total
        best = int(np.argmin(gap))
        text = f"{name}: T* = {best}"
        lines.append(Line(horizons, gap, text, arm_style, group=name, value=False))
        marks.append(Mark(best, float(gap[best]), text, arm_style.color))
        if published:
            log_bound = quadratic.published_log_bound(iterations, step_size, momentum, noise_per_step, strong_convexity)
            curve = np.exp(np.minimum(log_bound, 100.0))
            label = f"{name}, paper"
            lines.append(Line(horizons[1:], curve, label, arm_style, width=1.0, group=name, legend=False))
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
    """Draw the parts of a plan's error after each step as stacked areas: optimisation, privacy noise, batch noise.

    A line marks the step from which on noise is the larger part, if there is one. The parts are those of the error
    bound, which counts the batch noise at its worst.
    exact : True for the parts of the exact error on a quadratic instead: the problem itself if it is one, else one with
        a log-uniform spectrum in [μ, L] that starts, all coordinates equal, at the bound on the initial gap.
    condition : the assumptions of the bound, which its title ends with.
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
    """Draw the parts (3, T+1) of an error as stacked areas, with a line at the step from which on noise is larger.

    None draws axes alone, with the sentence `if_unknown`.
    """
    if parts is None:
        return line_figure([], Axes("Step t", title), if_empty=if_unknown)
    total = np.minimum(parts.sum(axis=0), 1e12)
    steps = downsample(np.arange(len(total)), total)
    traces = [
        area(steps.astype(np.int16), np.minimum(part[steps], 1e12), *appearance, group="error")
        for part, appearance in zip(parts, _PARTS, strict=True)
        if part.any()
    ]
    frame = style.layout(Axes("Step t", title, from_zero=True), legend_entries=len(traces), height=style.ALONE)
    step = noise_takes_over(parts)
    if step is not None:
        labels, shapes = turned([Turn(step, f"noise takes over: step {step:,}")])
        frame |= {"annotations": [*frame["annotations"], *labels], "shapes": shapes}
    return go.Figure({"data": traces, "layout": frame})


def noise_takes_over(parts: np.ndarray) -> int | None:
    """Return the first step from which on noise is more than half of the error, or None if it is not at the end.

    parts : (3, T+1) optimisation, privacy noise, batch noise.
    """
    is_noise_larger = parts[1:].sum(axis=0) > parts[0]
    smaller = np.flatnonzero(~is_noise_larger)
    step = int(smaller[-1]) + 1 if len(smaller) else 0
    return step if step < len(is_noise_larger) else None


def _half_variances(method: GradientMethod, plan: Plan) -> tuple[SmoothFacts, np.ndarray, np.ndarray]:
    """Return the facts, and half the expected squared norm of each step's privacy noise and batch noise, (T,) each."""
    facts = SmoothFacts.of(plan.facts)
    total = planning.half_variance(method, facts, plan)
    batch = theory.sampling_variance(facts.gradient_bound("l2"), method.batch_size(facts), facts.n) / 2
    return facts, np.maximum(total - batch, 0.0), np.full(plan.iterations, batch)


def _bound_parts(method: GradientMethod, plan: Plan) -> np.ndarray | None:
    """Return (3, T+1) the parts of the bound, which is linear in the noise; None without a bound."""
    facts, privacy, batch = _half_variances(method, plan)
    recursion = method.recursion(facts, method.steps(facts, plan.iterations))
    if recursion is None:
        return None
    noise_only = recursion._replace(initial=0.0)
    return np.array([theory.bound(recursion, 0.0), theory.bound(noise_only, privacy), theory.bound(noise_only, batch)])


def _quadratic_parts(method: GradientMethod, plan: Plan) -> np.ndarray:
    """Return (3, T+1) the parts of the exact error on a quadratic, which is linear in the noise."""
    facts, privacy, batch = _half_variances(method, plan)
    spectrum, start = _quadratic(facts)
    steps = method.steps(facts, plan.iterations)

    def error(x_0: float, half_variance: np.ndarray) -> np.ndarray:
        return quadratic.expected_gap(steps, method.dynamics, spectrum, x_0, 2 * half_variance / facts.d).total

    return np.array([error(start, 0 * batch), error(0.0, privacy), error(0.0, batch)])


def _quadratic(facts: SmoothFacts) -> tuple[np.ndarray, float]:
    """Return spectrum (k,) and start, the same in every coordinate, of the quadratic that represents a problem.

    It is the problem's own if the facts state one, else log-uniform in [μ, L], started at the bound on the initial gap.
    """
    if facts.eigenvalues:
        return np.array(facts.eigenvalues), facts.start
    spectrum = np.geomspace(facts.strong_convexity, facts.smoothness, _SPECTRUM)
    return spectrum, float(np.sqrt(2 * facts.initial_gap / spectrum.sum()))


def worst_case(method: HeavyBall, plan: Plan, certificate: Certificate | None) -> Chart:
    """Draw heavy ball's certified bound after each step (Proposition 3.4, corrected) and its exact quadratic error.

    The certificate counts the largest noise of the plan in every step. Without one the quadratic is drawn alone, with a
    note: then nothing is known of other objectives.
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
        farthest_start = certificate.bound(2 * facts.lyapunov / facts.strong_convexity, 0.0, noise, plan.iterations)
        highest_start = certificate.bound(0.0, facts.lyapunov, noise, plan.iterations)
        bound, green = np.maximum(farthest_start, highest_start), ArmStyle(style.PALETTE["theory"], "dash")
        lines.append(Line(np.arange(plan.iterations + 1), bound, "certified, worst case", green))
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


# ---------------------------------------------------------------------------------------- expected positions in a plane


def ellipse(method: GradientMethod, plan: Plan) -> tuple[np.ndarray, np.ndarray] | None:
    """Return centres (T+1, 2) and half axes (T+1, 2) of the ellipses that contain about 90 % of the runs at each step.

    They lie in the plane of the smallest and the largest eigenvalue; inf where a method is unstable. None if the facts
    state no spectrum. Mean and variance of both coordinates are exact (`quadratic.moments`), and the coordinates are
    independent. They are Gaussian for Gaussian noise; sums of Laplace noise are so roughly.
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
    """Return F on a grid, x (k,) and y (m,), of the plane of the smallest and the largest eigenvalue; exact and public.

    All other coordinates are at the minimum.
    """
    across, up = facts.eigenvalues[0] * x**2, facts.eigenvalues[-1] * y**2
    return Background(x, y, 0.5 * (across + up[:, None]), raw=False)


def section(problem: LinearProblem, x: np.ndarray, y: np.ndarray) -> Background:
    """Return F on a grid, x (k,) and y (m,), of the plane of the first two weights; all others are at the minimum.

    F is evaluated at KNOTS × KNOTS points, elsewhere by the polynomial through them: near the minimum it is off by less
    than 10⁻⁴ of the range drawn, and by 1 % where Huber's loss has its corners and the picture is wide.
    """
    (x_knots, x_weights), (y_knots, y_weights) = (_interpolation(axis) for axis in (x, y))
    points = np.tile(problem.minimiser, (KNOTS * KNOTS, 1))
    points[:, 0], points[:, 1] = np.tile(x_knots, KNOTS), np.repeat(y_knots, KNOTS)
    values = problem.evaluate({"x": points})["objective"].reshape(KNOTS, KNOTS)
    return Background(x, y, y_weights @ values @ x_weights.T)


def _interpolation(axis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Chebyshev points (KNOTS,) between the ends of an axis (k,), and weights (k, KNOTS) that turn values at
    these points into values on the axis."""
    knots, middle, half = chebyshev.chebpts1(KNOTS), (axis[0] + axis[-1]) / 2, (axis[-1] - axis[0]) / 2
    at_knots, on_axis = (chebyshev.chebvander(points, KNOTS - 1) for points in (knots, (axis - middle) / half))
    return middle + half * knots, np.linalg.solve(at_knots.T, on_axis.T).T
