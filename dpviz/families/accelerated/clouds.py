"""Where the runs of a method should be in the plane of a quadratic, from the plan alone; and the objective there."""

import math

import numpy as np
from numpy.polynomial import chebyshev

from dpviz.experiments.plan import Plan
from dpviz.families.accelerated import quadratic
from dpviz.families.accelerated.algorithms import GradientMethod
from dpviz.plots.landscape import Background
from dpviz.problems.base import SmoothFacts
from dpviz.problems.linear.linear_base import LinearProblem

SHARE = 0.9  # of the runs
KNOTS = 15  # of the objective of a model along each axis
REACH = math.sqrt(-2 * math.log(1 - SHARE))  # 2.146 standard deviations: of a Gaussian in a plane they hold that share


def ellipse(method: GradientMethod, plan: Plan) -> tuple[np.ndarray, np.ndarray] | None:
    """Centres (T+1, 2) and half axes (T+1, 2) of the ellipses that hold about 90 % of the runs after each step, in the
    plane of the smallest and the largest eigenvalue. None where the spectrum is not known; inf where a method is
    unstable.

    Mean and variance of both coordinates are exact (`quadratic.moments`), and they are independent. That they are
    Gaussian is exact for Gaussian noise; sums of Laplace noise are so roughly.
    """
    facts = plan.facts
    assert isinstance(facts, SmoothFacts)
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
