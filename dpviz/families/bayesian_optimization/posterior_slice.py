"""What the process has learned of the mean loss along one setting: the points of a run follow from where it was."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpviz.families.bayesian_optimization.algorithms import Gibo
from dpviz.families.bayesian_optimization.posterior import Evaluated, solved
from dpviz.problems.tuning.tuning import TuningFacts, TuningProblem

POINTS = 41  # of the curve


@dataclass(frozen=True, eq=False)
class Curve:
    """The mean loss along one coordinate, and what is known of it.

    places (k,) of the coordinate, truth, mean, deviation (k,): the loss there, and what the process expects, with its
    standard deviation for unit amplitude. queries, losses (N,): coordinate and loss of the points that are kept, which
    lie beside the curve; newest (N,) bool: of the last step. here : the coordinate of the iterate.
    """

    places: np.ndarray
    truth: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    queries: np.ndarray
    losses: np.ndarray
    newest: np.ndarray
    here: float


def known_after(method: Gibo, facts: TuningFacts, way: np.ndarray) -> Iterator[tuple[Evaluated, int]]:
    """For each of the iterates way (k, d), from the first on: what is known when the step from there is taken, and how
    many of the points are new. Points need no losses: they follow from the iterates."""
    batches = method.batches(facts)
    known = Evaluated(batches.surrogate, np.empty((0, facts.d)))
    for theta in way:
        trial = batches.chosen(known, theta)
        known = trial.known.latest(batches.window)
        yield known, len(trial.points)


def along(problem: TuningProblem, method: Gibo, way: np.ndarray, coordinate: int) -> Curve:
    """The curve through the last of the iterates way (k, d), as the process sees it when the step from there is taken.

    A diagnostic: it reads the users' losses, of N + 41 trainings, without observation noise.
    """
    theta = way[-1]
    *_, (known, new) = known_after(method, problem.facts, way)
    low, high = problem.facts.box
    places = np.linspace(low[coordinate], high[coordinate], POINTS)
    line = np.tile(theta, (POINTS, 1))
    line[:, coordinate] = places
    found = problem.evaluate({"x": np.concatenate([line, known.points])}, expensive=False)["objective"]
    truth, losses = found[:POINTS], found[POINTS:]
    mean, deviation = expected(known, losses, line)
    newest = np.arange(len(losses)) >= len(losses) - new
    return Curve(places, truth, mean, deviation, known.points[:, coordinate], losses, newest, float(theta[coordinate]))


def expected(known: Evaluated, losses: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean and standard deviation (k,) of a loss at places (k, d), from its values (N,) at the known points;
    of one with unit amplitude."""
    across = solved(known.factor, known.kernel.gram(known.points, places))
    values = solved(known.factor, losses[:, None])[:, 0]
    variance = known.kernel.diagonal(places) - (across**2).sum(axis=0)
    if known.surrogate.mean != "constant" or len(losses) < 2:
        return across.T @ values, np.sqrt(np.maximum(variance, 0.0))
    ones = solved(known.factor, np.ones((len(losses), 1)))[:, 0]
    size = float(ones @ ones)
    middle, left = float(ones @ values) / size, 1 - ones @ across
    return middle + across.T @ (values - middle * ones), np.sqrt(np.maximum(variance + left**2 / size, 0.0))
