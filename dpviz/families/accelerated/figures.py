"""Figures that only the page of the accelerated methods has: momentum on quadratics, parts of an error bound, planes.

They need settings only, never data; except `model_ground`, which evaluates the objective of public data.

In a figure a `Mark` is a point with a hover text, a `VerticalLine` a labelled vertical line; a `Line` is in the legend
unless `legend=False`.
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
from dpviz.plots.clouds import Ground
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.chart import Chart, chart
from dpviz.plots.elements.lines import Line, Mark, VerticalLine, area, downsample, line_drawing, vertical_line_parts
from dpviz.plots.elements.style import ArmStyle
from dpviz.problems.base import SmoothFacts
from dpviz.problems.linear.linear_base import LinearProblem

RELATIVE_STEPS = (0.1, 0.5, 1.0)  # of the paper's figure 1
START = float(np.sqrt(2.5))  # both coordinates, so that ‖(x_0, x_0)‖² = 10 as in the paper's figure 1
_SPECTRUM = 20  # number of eigenvalues, log-uniform in [μ, L], where a problem does not state its own
SHARE = 0.9  # of the runs, inside an ellipse of `ellipse`
KNOTS = 15  # points along each axis at which `model_ground` evaluates the objective
REACH = math.sqrt(-2 * math.log(1 - SHARE))  # 2.146 standard deviations: in a plane, a Gaussian has SHARE within them
# Name, colour and pattern of the three parts of an error, in the order in which all functions here return them.
_PARTS = (
    ("optimisation", style.PALETTE["theory"], ""),
    ("privacy noise", style.PALETTE["spent"], "/"),
    ("batch noise", style.PALETTE["second"], "."),
)


def momentum_rates(strong_convexity: float, *, published: bool = False) -> Chart:
    """Draw the contraction rate per step of heavy ball and of Nesterov's method on quadratics against the momentum β.

    There is a pair of curves for each of three step sizes α. The best β is marked: (1-q)² for heavy ball, (1-q)/(1+q)
    for Nesterov's method, with q = √(μα); both then contract by 1-q.

    strong_convexity : μ; all eigenvalues of the quadratics lie between it and L = 1. published : adds the paper's
        formula (26) for heavy ball, which is in fact Nesterov's rate (erratum E2).
    """
    momentum = np.linspace(0.0, 0.99, 199)
    lines, marks = [], []
    for step, color in zip(RELATIVE_STEPS, style.HUES, strict=False):  # there are more hues
        heavy_ball, nesterov = (
            quadratic.rate(kind, step, momentum, strong_convexity, smoothness=1.0)
            for kind in ("heavy_ball", "nesterov")
        )
        if published:
            paper_style = ArmStyle(style.GREY, "dot")
            name = "heavy ball by the paper's (26)"
            has_entry = step == RELATIVE_STEPS[0]  # one legend entry for all three
            lines.append(  # wide, as Nesterov's own curve lies on it
                Line(
                    momentum, nesterov, name, paper_style, width=6.0, group=name, legend=has_entry, value_in_label=False
                )
            )
        best_rate = 1 - float(np.sqrt(strong_convexity * step))
        for name, rates, rule, dash in (
            ("heavy ball", heavy_ball, theory.heavy_ball_momentum, "solid"),
            ("Nesterov", nesterov, theory.nesterov_momentum, "dash"),
        ):
            best = float(rule(step, strong_convexity))
            label = f"{name}, {short(step)}/L: best β = {short(best)}"
            lines.append(Line(momentum, rates, label, ArmStyle(color, dash), value_in_label=False))
            marks.append(Mark(best, best_rate, label, color))
    figure = line_drawing(lines, Axes("Momentum β", "Rate ρ per step"), marks=marks, height=style.ALONE)
    return chart(
        figure,
        "Rate against momentum",
        "Contraction rate of heavy ball and Nesterov against momentum, for three step sizes; the best is marked",
        "Without noise, distances shrink by this rate in every step. Heavy ball wants less momentum than Nesterov.",
    )


def heavy_ball_on_quadratic(
    strong_convexity: float, step_size: float, noise_per_step: float, *, published: bool = False
) -> Chart:
    """Draw the exact error of heavy ball after T steps against T, for each of five momenta, with the best T marked.

    The objective is the quadratic with the Hessian diag(μ, 1), as in the paper's figure 1. T steps share one budget, so
    the standard deviation of the noise in each coordinate is T noise_per_step.

    published : adds the paper's curve, which is not a bound on this error (errata E2, E10).
    """
    iterations = 250  # the largest T
    momenta = {  # the four of the paper's figure 1, and heavy ball's best one
        "β = 0": 0.0,
        "β = 0.3": 0.3,
        "β = 0.7": 0.7,
        "β = (1-q)/(1+q)": float(theory.nesterov_momentum(step_size, strong_convexity)),
        "β = (1-q)²": float(theory.heavy_ball_momentum(step_size, strong_convexity)),
    }
    lines, marks = [], []
    styles = map(ArmStyle, (*style.HUES, style.GREY), (*style.DASHES, "dash"))  # one for each momentum
    horizons = np.arange(iterations + 1)
    for (name, momentum), arm_style in zip(momenta.items(), styles, strict=True):
        steps = theory.heavy_ball(iterations, step_size, momentum)
        gap = quadratic.expected_gap_by_iterations(
            steps, "heavy_ball", eigenvalues=[strong_convexity, 1.0], start=START, unit=noise_per_step**2
        ).total
        best = int(np.argmin(gap))
        label = f"{name}: T* = {best}"
        lines.append(Line(horizons, gap, label, arm_style, group=name, value_in_label=False))
        marks.append(Mark(best, float(gap[best]), label, arm_style.color))
        if published:
            log_bound = quadratic.published_log_bound(iterations, step_size, momentum, noise_per_step, strong_convexity)
            curve = np.exp(np.minimum(log_bound, 100.0))  # cut off at e^100: beyond e^709 exp overflows
            lines.append(Line(horizons[1:], curve, f"{name}, paper", arm_style, width=1.0, group=name, legend=False))
    figure = line_drawing(
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
        "Exact expectation (replaces Theorem 3.5) on diag(μ, 1); T steps share the budget. T*: the best up to "
        f"T = {iterations:,}.",
    )


def decomposition(method: GradientMethod, plan: Plan, *, exact: bool = False, condition: str = "") -> Chart:
    """Draw the parts of a plan's error after each step as stacked areas: optimisation, privacy noise, batch noise.

    Optimisation is what remains of the starting error. A vertical line marks the step from which on noise is the larger
    part, if there is one. By default the parts are those of the error bound, which counts the batch noise at its worst.

    exact : True for the parts of the exact error on a quadratic instead: the problem itself if it is one, else one with
        a log-uniform spectrum in [μ, L] that starts, all coordinates equal, at the bound on the initial gap.
    condition : the assumptions of the bound, which its title ends with.
    """
    axes = Axes("Step t", "Error on a quadratic" if exact else f"Bound on the excess loss{condition}", from_zero=True)
    parts = _quadratic_parts(method, plan) if exact else _bound_parts(method, plan)  # (3, T+1)
    if parts is None:
        figure = line_drawing([], axes, if_empty=f"No error bound is known for {method.title}.")
    else:
        drawable = np.minimum(parts, 1e12)  # errors of an unstable method are too large to draw
        total = np.minimum(parts.sum(axis=0), 1e12)
        steps = downsample(np.arange(len(total)), total)  # few indices that draw nearly the same line
        traces = [  # 16 bits suffice: T is at most 10,000
            area(steps.astype(np.int16), part[steps], *appearance, group="error")
            for part, appearance in zip(drawable, _PARTS, strict=True)
            if part.any()  # such as batch noise without batches
        ]
        layout = style.layout(axes, legend_entries=len(traces), height=style.ALONE)
        step = noise_takes_over(parts)
        if step is not None:
            labels, shapes = vertical_line_parts([VerticalLine(step, f"noise takes over: step {step:,}")])
            layout |= {"annotations": [*layout["annotations"], *labels], "shapes": shapes}
        figure = go.Figure({"data": traces, "layout": layout})
    return chart(
        figure,
        "What limits accuracy",
        "Error after each step, split into optimisation and noise",
        f"The {'exact error on a quadratic' if exact else 'error bound'} after all steps, split into its parts. What "
        "remains of the start shrinks with more steps, privacy noise grows with them. A step that reads m < n rows "
        "adds batch noise.",
    )


def noise_takes_over(parts: np.ndarray) -> int | None:
    """Return the first step from which on noise is more than half of the error up to the last step T; None if it is not
    more than half at T.

    parts : (3, T+1) optimisation, privacy noise and batch noise after t = 0..T steps.
    """
    is_noise_larger = parts[1:].sum(axis=0) > parts[0]
    steps_with_less = np.flatnonzero(~is_noise_larger)
    step = int(steps_with_less[-1]) + 1 if len(steps_with_less) else 0
    return step if step < len(is_noise_larger) else None


def _half_variances(method: GradientMethod, plan: Plan) -> tuple[SmoothFacts, np.ndarray, np.ndarray]:
    """Return the plan's facts, and half the expected squared norm of each step's privacy noise, (T,), and of its batch
    noise, (T,), at its worst."""
    facts = SmoothFacts.of(plan.facts)
    total = planning.half_variance(method, facts, plan)
    batch = theory.sampling_variance(facts.gradient_bound("l2"), method.batch_size(facts), facts.n) / 2
    privacy = np.maximum(total - batch, 0.0)  # without privacy rounding may give less than 0
    return facts, privacy, np.full(plan.iterations, batch)


def _bound_parts(method: GradientMethod, plan: Plan) -> np.ndarray | None:
    """Return (3, T+1) the parts of the error bound that come from the start, from privacy noise and from batch noise;
    None without a bound. The bound is linear in the three, so each part is the bound without the other two."""
    facts, privacy, batch = _half_variances(method, plan)
    factors = method.bound_factors(facts, method.steps(facts, plan.iterations))
    if factors is None:
        return None
    noise_only = factors._replace(initial=0.0)
    return np.array(
        [theory.bound(factors, half_variance=0.0), theory.bound(noise_only, privacy), theory.bound(noise_only, batch)]
    )


def _quadratic_parts(method: GradientMethod, plan: Plan) -> np.ndarray:
    """Return (3, T+1) the parts of the exact error on a quadratic that come from the start, from privacy noise and from
    batch noise. The error is their sum, so each part is the error without the other two.

    Where the facts state no eigenvalues, a quadratic whose eigenvalues are log-uniform in [μ, L] stands for the
    problem.
    """
    facts, privacy, batch = _half_variances(method, plan)
    if facts.eigenvalues:
        spectrum, start = np.array(facts.eigenvalues), facts.start
    else:  # a start whose gap on the quadratic, Σ λ_i start²/2, is the bound on the problem's initial gap
        spectrum = np.geomspace(facts.strong_convexity, facts.smoothness, _SPECTRUM)
        start = float(np.sqrt(2 * facts.initial_gap / spectrum.sum()))
    steps = method.steps(facts, plan.iterations)

    def error(x_0: float, half_variance: np.ndarray) -> np.ndarray:
        """Return (T+1,) the exact error from x_0, a coordinate of the start, with noise of this half variance (T,)."""
        # The noise is shared by the coordinates of the quadratic, which need not be as many as the problem has.
        variance_per_coordinate = 2 * half_variance / len(spectrum)
        return quadratic.expected_gap(
            steps, method.dynamics, eigenvalues=spectrum, start=x_0, noise_variance=variance_per_coordinate
        ).total

    return np.array([error(start, 0 * batch), error(0.0, privacy), error(0.0, batch)])


def worst_case(method: HeavyBall, plan: Plan, certificate: Certificate | None) -> Chart:
    """Draw heavy ball's certified error bound after each step (Proposition 3.4, corrected), and its exact error on a
    quadratic.

    The certified bound takes the largest noise of the plan for every step. Without a certificate the error on the
    quadratic is drawn alone, with a note: then nothing is known about other objectives.
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
        # All that is known of the start is E₀ + μ/2 ‖x₀ - x*‖² ≤ V₀. The bound is linear in both summands, so it is
        # largest if one of them is V₀ and the other 0.
        noise, T = float(2 * (privacy + batch).max()), plan.iterations
        far = 2 * facts.lyapunov / facts.strong_convexity
        bound_if_far = certificate.bound(squared_distance=far, gap=0.0, noise=noise, iterations=T)
        bound_if_high = certificate.bound(squared_distance=0.0, gap=facts.lyapunov, noise=noise, iterations=T)
        bound, line_style = np.maximum(bound_if_far, bound_if_high), ArmStyle(style.PALETTE["theory"], "dash")
        lines.append(Line(np.arange(plan.iterations + 1), bound, "certified, worst case", line_style))
    figure = line_drawing(
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
    """Return centres (T+1, 2) and half axes (T+1, 2) of the ellipses that contain about 90 % of a quadratic's runs
    after t = 0..T steps; None if the problem is no quadratic with public eigenvalues.

    They lie in the plane of the coordinates with the smallest and the largest eigenvalue; inf where a method is
    unstable. Mean and variance of both coordinates are exact (`quadratic.moments`), and the coordinates are
    independent. They are Gaussian for Gaussian noise, and roughly so for sums of Laplace noise.
    """
    facts = SmoothFacts.of(plan.facts)
    if not facts.eigenvalues:
        return None
    steps, extremes = method.steps(facts, plan.iterations), [facts.eigenvalues[0], facts.eigenvalues[-1]]
    mean, variance = quadratic.moments(
        steps, method.dynamics, eigenvalues=extremes, start=facts.start, noise_variance=method.noise_variance(plan)
    )
    deviation = np.sqrt(np.maximum(variance, 0.0))  # rounding may give a negative variance
    centres = np.nan_to_num(mean.T, nan=np.inf, neginf=-np.inf, posinf=np.inf)
    half_axes = REACH * deviation.T
    return centres, np.where(np.isnan(half_axes), np.inf, half_axes)


def quadratic_ground(facts: SmoothFacts, x: np.ndarray, y: np.ndarray) -> Ground:
    """Return a quadratic objective F on a grid, x (k,) and y (m,), of the plane of its coordinates with the smallest
    and the largest eigenvalue; all other coordinates are at the minimum.

    It is exact, and public, as the eigenvalues are.
    """
    along_x, along_y = facts.eigenvalues[0] * x**2, facts.eigenvalues[-1] * y**2
    return Ground(x, y, 0.5 * (along_x + along_y[:, None]), raw=False)


def model_ground(problem: LinearProblem, x: np.ndarray, y: np.ndarray) -> Ground:
    """Return the objective F of a linear model on a grid, x (k,) and y (m,), of the plane of its first two weights; all
    other weights are at the minimum. It reads the raw data: not private.

    Evaluating F on the whole grid would be slow. It is evaluated at KNOTS × KNOTS points; elsewhere the polynomial
    through them is used. Near the minimum that is off by less than 10⁻⁴ of the range drawn, and by 1 % where Huber's
    loss has its corners and the picture is wide.
    """
    (x_knots, x_weights), (y_knots, y_weights) = (_interpolation(axis) for axis in (x, y))
    points = np.tile(problem.minimiser, (KNOTS * KNOTS, 1))
    points[:, 0], points[:, 1] = np.tile(x_knots, KNOTS), np.repeat(y_knots, KNOTS)
    values = problem.evaluate({"x": points})["objective"].reshape(KNOTS, KNOTS)
    return Ground(x, y, y_weights @ values @ x_weights.T)


def _interpolation(axis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Chebyshev points (KNOTS,) between the ends of an axis (k,), and the matrix (k, KNOTS) that turns the
    values of a polynomial at these points into its values on the axis."""
    middle, half = (axis[0] + axis[-1]) / 2, (axis[-1] - axis[0]) / 2
    knots = chebyshev.chebpts1(KNOTS)  # in [-1, 1], to which the axis is scaled
    # Each matrix turns Chebyshev coefficients into values. The second times the inverse of the first goes from values
    # at the knots to coefficients, and from these to values on the axis.
    values_at_knots = chebyshev.chebvander(knots, KNOTS - 1)
    values_on_axis = chebyshev.chebvander((axis - middle) / half, KNOTS - 1)
    return middle + half * knots, np.linalg.solve(values_at_knots.T, values_on_axis.T).T
