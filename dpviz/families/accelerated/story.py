"""Numbers of the start page's three pictures: noise on one answer, noise on every step, and the error against ε."""

import math
from typing import NamedTuple

import numpy as np

from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.trace import Trace
from dpviz.families.accelerated import algorithms, planning, presets
from dpviz.privacy import events, mechanisms, releases
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.budgets import NoPrivacy, PureDP
from dpviz.privacy.statistics.analyses import Count
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic

PEOPLE, OTHERS = 100, 40  # people in the survey; others that answered yes
REACH = 8  # counts drawn to the left and to the right of the two true counts
PRIVATE, REFERENCE = "with privacy", "without privacy"
# A long valley: steep across, so that steps go down quickly, and flat along it, where noise shows.
VALLEY = Quadratic(rows=500, dimension=2, strong_convexity=0.2, smoothness=1.0, spacing="ends", clip=5.0, start=1.6)
WALK = algorithms.GradientDescent(iterations=30, relative_step=0.4)
EXTENT, POINTS = 2.4, 41  # of the picture of the valley: half its width, and its points along each direction
EXAMPLE, METHOD = LogisticRegression(), "DP-NAG-opt"
FARTHEST = 1000  # steps


class Answers(NamedTuple):
    """Published counts, values (k,), and their densities (k,): `without` your yes, and `with_you`.

    scale : b of the Laplace noise. factor : e^ε, by which the densities differ at most.
    """

    values: Floats
    without: Floats
    with_you: Floats
    scale: float
    factor: float


class Price(NamedTuple):
    """Proven error at the best number of steps, bounds (k,), for each of epsilons (k,).

    start : upper bound on the error at the starting point.
    """

    epsilons: Floats
    bounds: Floats
    start: float


def answers(epsilon: float) -> Answers:
    """Return the densities of the published count under pure ε-DP if you say no and if you say yes."""
    scale = mechanisms.noise_scale(events.Laplace(epsilon), Count().sensitivity("l1", PEOPLE))
    true_counts = np.array([OTHERS, OTHERS + 1.0])
    near = np.concatenate([count + scale * np.linspace(-6, 6, 97) for count in true_counts])
    low, high = true_counts[0] - REACH, true_counts[1] + REACH
    values = np.unique(np.concatenate([near[(near > low) & (near < high)], np.linspace(low, high, 65), true_counts]))
    without, with_you = (_density(values, count, scale) for count in true_counts)
    return Answers(values, without, with_you, scale, math.exp(epsilon))


def _density(values: Floats, centre: float, scale: float) -> Floats:
    """Return (k,) the density of `centre` plus Laplace noise of scale `scale` at `values`."""
    # A release states its density up to a constant, here the factor 2.
    noised = releases.Noised(np.full(len(values), centre), values, np.arange(len(values)), None, "laplace", scale)
    return np.exp(noised.log_density()) / 2


def walk(epsilon: float) -> Trace:
    """Run gradient descent on a public valley, with the noise of pure ε-DP on every step, and without noise."""
    arms = (Arm(label=PRIVATE, algorithm=WALK), Arm(label=REFERENCE, algorithm=WALK, budget=NoPrivacy()))
    return Experiment(problem=VALLEY, arms=arms, budget=PureDP(epsilon=epsilon)).run()


def ground() -> tuple[Floats, Floats]:
    """Return coordinates (k,) along both directions of the valley, and its height (k, k)."""
    coordinates = np.linspace(-EXTENT, EXTENT, POINTS)
    grid = np.stack(np.meshgrid(coordinates, coordinates), axis=-1).reshape(-1, 2)
    return coordinates, VALLEY.build().evaluate({"x": grid})["objective_gap"].reshape(POINTS, POINTS)


def price() -> Price:
    """Return the error bound of logistic regression against ε, over the range of its control; needs no run."""
    (control,) = PureDP.controls()
    assert control.low is not None and control.high is not None
    epsilons = np.geomspace(control.low, control.high, 33)
    bounds = [planned(float(epsilon))[1] for epsilon in np.clip(epsilons, control.low, control.high)]
    return Price(epsilons, np.array(bounds), EXAMPLE.facts().initial_gap)


def planned(epsilon: float) -> tuple[int, float]:
    """Return the best number of steps at this budget, 0 if no step is proven to help, and the error bound after it."""
    facts, method = EXAMPLE.facts(), presets.METHODS[METHOD].replaced(iterations=FARTHEST)
    _, bounds, best = planning.bound_by_horizon(method, facts, PureDP(epsilon=epsilon))
    bound = float(np.min(bounds))
    return (best, bound) if bound < facts.initial_gap else (0, facts.initial_gap)
