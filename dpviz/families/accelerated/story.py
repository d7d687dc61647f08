"""What the start page tells in three pictures: noise on one answer, noise on every step, and what less noise costs."""

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

PEOPLE, OTHERS = 100, 40  # who was asked; how many others have said yes
REACH = 8  # answers to the left and to the right of the two true counts that the picture shows
PRIVATE, REFERENCE = "with privacy", "without privacy"
# A long valley: steep across, so that steps go down quickly, and flat along it, where noise shows.
VALLEY = Quadratic(rows=500, dimension=2, strong_convexity=0.2, smoothness=1.0, spacing="ends", clip=5.0, start=1.6)
WALK = algorithms.GradientDescent(iterations=30, relative_step=0.4)
EXTENT, POINTS = 2.4, 41  # of the picture of the valley: half its width, and its points along each direction
EXAMPLE, METHOD = LogisticRegression(), "DP-NAG-opt"
FARTHEST = 1000  # steps


class Answers(NamedTuple):
    """A published count: values (k,), and their densities (k,) if you say no and if you say yes.

    scale : b of the Laplace noise. factor : e^ε, by which the densities differ at most.
    """

    values: Floats
    without: Floats
    with_you: Floats
    scale: float
    factor: float


class Price(NamedTuple):
    """The error that is proven at the best number of steps: epsilons (k,) and bounds (k,).

    start : the error without a step, at most.
    """

    epsilons: Floats
    bounds: Floats
    start: float


def answers(epsilon: float) -> Answers:
    """How likely each published count is, with the noise that pure ε-DP asks for, if you say no and if you say yes."""
    scale = mechanisms.noise_scale(events.Laplace(epsilon), Count().sensitivity("l1", PEOPLE))
    middle = np.array([OTHERS, OTHERS + 1.0])
    near = np.concatenate([centre + scale * np.linspace(-6, 6, 97) for centre in middle])
    low, high = middle[0] - REACH, middle[1] + REACH
    values = np.unique(np.concatenate([near[(near > low) & (near < high)], np.linspace(low, high, 65), middle]))
    without, with_you = (_density(values, centre, scale) for centre in middle)
    return Answers(values, without, with_you, scale, math.exp(epsilon))


def _density(values: Floats, centre: float, scale: float) -> Floats:
    """(k,) of the centre plus Laplace noise; half, because a release knows its density but for a constant."""
    noised = releases.Noised(np.full(len(values), centre), values, np.arange(len(values)), None, "laplace", scale)
    return np.exp(noised.log_density()) / 2


def walk(epsilon: float) -> Trace:
    """Gradient descent on a public valley, with the noise of pure ε-DP on every step, and without."""
    arms = (Arm(label=PRIVATE, algorithm=WALK), Arm(label=REFERENCE, algorithm=WALK, budget=NoPrivacy()))
    return Experiment(problem=VALLEY, arms=arms, budget=PureDP(epsilon=epsilon)).run()


def ground() -> tuple[Floats, Floats]:
    """The valley: places (k,) along both directions, and its height (k, k)."""
    places = np.linspace(-EXTENT, EXTENT, POINTS)
    grid = np.stack(np.meshgrid(places, places), axis=-1).reshape(-1, 2)
    return places, VALLEY.build().evaluate({"x": grid})["objective_gap"].reshape(POINTS, POINTS)


def price() -> Price:
    """The error bound of logistic regression against ε, over the range of ε: what the settings say, before any run."""
    (control,) = PureDP.controls()
    assert control.low is not None and control.high is not None
    epsilons = np.geomspace(control.low, control.high, 33)
    found = [planned(float(epsilon))[1] for epsilon in np.clip(epsilons, control.low, control.high)]
    return Price(epsilons, np.array(found), EXAMPLE.facts().initial_gap)


def planned(epsilon: float) -> tuple[int, float]:
    """The best number of steps at this budget, and the error bound after them; 0 where no step is proven to help."""
    facts, method = EXAMPLE.facts(), presets.METHODS[METHOD].replaced(iterations=FARTHEST)
    _, bounds, best = planning.bound_by_horizon(method, facts, PureDP(epsilon=epsilon))
    bound = float(np.min(bounds))
    return (best, bound) if bound < facts.initial_gap else (0, facts.initial_gap)
