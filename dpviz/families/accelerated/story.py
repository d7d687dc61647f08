"""Numbers of the start page's three pictures.

First, a survey publishes how many people answered yes, with noise (`answers`). Second, gradient descent walks down a
valley with noise on every step (`walk`, `ground`). Third, the proven error of a private model against ε
(`price`).
"""

import math
from typing import NamedTuple

import numpy as np

from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.trace import Trace
from dpviz.families.accelerated import algorithms, planning, presets
from dpviz.privacy import events, mechanisms
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
FARTHEST = 1000  # steps: the best number is sought up to this one


class Answers(NamedTuple):
    """Densities (k,) with which the survey publishes each of the counts `values` (k,).

    without : if you answer no. with_you : if you answer yes, so that the true count is larger by one.
    scale : scale b of the Laplace noise on the count. factor : e^ε, the largest ratio of the two densities.
    """

    values: Floats
    without: Floats
    with_you: Floats
    scale: float
    factor: float


class Price(NamedTuple):
    """Proven upper bounds (k,) on the excess loss F(x) - F* at the best number of steps, for each of `epsilons` (k,).

    start : upper bound on the excess loss at the starting point, which no bound here exceeds.
    """

    epsilons: Floats
    bounds: Floats
    start: float


def answers(epsilon: float) -> Answers:
    """Return the densities of the published count under pure ε-DP if you say no and if you say yes."""
    scale = mechanisms.noise_scale(events.Laplace(epsilon), Count().sensitivity("l1", PEOPLE))
    true_counts = np.array([OTHERS, OTHERS + 1.0])
    low, high = true_counts[0] - REACH, true_counts[1] + REACH
    # Points close to the peaks in units of the noise scale, for narrow peaks; evenly spaced ones; and the peaks.
    near_peaks = np.concatenate([count + scale * np.linspace(-6, 6, 97) for count in true_counts])
    near_peaks = near_peaks[(near_peaks > low) & (near_peaks < high)]
    values = np.unique(np.concatenate([near_peaks, np.linspace(low, high, 65), true_counts]))
    # The densities of the counts plus Laplace noise.
    without, with_you = (np.exp(-np.abs(values - count) / scale) / (2 * scale) for count in true_counts)
    return Answers(values, without, with_you, scale, math.exp(epsilon))


def walk(epsilon: float) -> Trace:
    """Run gradient descent on the public function VALLEY twice: with the noise of pure ε-DP on every step, as the arm
    PRIVATE, and without noise, as the arm REFERENCE."""
    arms = (Arm(label=PRIVATE, algorithm=WALK), Arm(label=REFERENCE, algorithm=WALK, budget=NoPrivacy()))
    return Experiment(problem=VALLEY, arms=arms, budget=PureDP(epsilon=epsilon)).run()


def ground() -> tuple[Floats, Floats]:
    """Return k coordinates (k,), the same for both axes of the valley's picture, and its height (k, k) at their
    grid."""
    coordinates = np.linspace(-EXTENT, EXTENT, POINTS)
    points = np.stack(np.meshgrid(coordinates, coordinates), axis=-1).reshape(-1, 2)
    heights = VALLEY.build().evaluate({"x": points})["objective_gap"].reshape(POINTS, POINTS)
    return coordinates, heights


def price() -> Price:
    """Return the error bound of private logistic regression for 33 values of ε over the range of the page's control.

    It is computed from public numbers; nothing runs.
    """
    (control,) = PureDP.controls()
    assert control.low is not None and control.high is not None
    epsilons = np.geomspace(control.low, control.high, 33)
    # Rounding can put the ends of the grid just outside the range that PureDP accepts.
    allowed = np.clip(epsilons, control.low, control.high).tolist()
    bounds = [bound for _steps, bound in map(best_steps_and_bound, allowed)]
    return Price(epsilons, np.array(bounds), EXAMPLE.facts().initial_gap)


def best_steps_and_bound(epsilon: float) -> tuple[int, float]:
    """Return the number of steps of METHOD on EXAMPLE with the smallest error bound under pure ε-DP, and that bound on
    the excess loss.

    The number is 0, and the bound that of the starting point, if no number of steps is proven to end below the start.
    """
    facts, method = EXAMPLE.facts(), presets.METHODS[METHOD].replaced(iterations=FARTHEST)
    _horizons, bounds, best = planning.bound_by_horizon(method, facts, PureDP(epsilon=epsilon))
    bound = float(np.min(bounds))
    return (best, bound) if bound < facts.initial_gap else (0, facts.initial_gap)
