"""Posterior of the mean loss along one setting. The evaluated points of a run follow from its iterates."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpviz.families.bayesian_optimization.algorithms import Gibo
from dpviz.families.bayesian_optimization.posterior import Evaluated, solved
from dpviz.problems.tuning.tuning import TuningFacts, TuningProblem

POINTS = 41  # of the curve


@dataclass(frozen=True, eq=False)
class Curve:
    """Mean loss along one coordinate, and its posterior.

    places : (k,) values of the coordinate. truth : (k,) the loss there. mean, deviation : (k,) of the posterior, for
    unit amplitude. queries, losses : (N,) coordinate and loss of the stored points, which are not on the line of the
    curve. newest : (N,) bool, those of the last step. here : the coordinate of the iterate.
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
    """Yield, for each iterate of `way` (k, d), the evaluations at the step from there, and how many of them are new.

    The points need no losses: they follow from the iterates.
    """
    batches = method.batches(facts)
    known = Evaluated(batches.surrogate, np.empty((0, facts.d)))
    for theta in way:
        trial = batches.chosen(known, theta)
        known = trial.known.latest(batches.window)
        yield known, len(trial.points)


def along(problem: TuningProblem, method: Gibo, way: np.ndarray, coordinate: int) -> Curve:
    """Compute the curve along a coordinate through the last of the iterates `way` (k, d), with the posterior at the
    step from there.

    A diagnostic: it reads the users' losses, of N + 41 trainings, without observation noise.
    """
    theta = way[-1]
    *_, (known, new) = known_after(method, problem.facts, way)
    low, high = problem.facts.box
    places = np.linspace(low[coordinate], high[coordinate], POINTS)
    line = np.tile(theta, (POINTS, 1))
    line[:, coordinate] = places
    objective = problem.evaluate({"x": np.concatenate([line, known.points])}, expensive=False)["objective"]
    truth, losses = objective[:POINTS], objective[POINTS:]
    mean, deviation = expected(known, losses, line)
    newest = np.arange(len(losses)) >= len(losses) - new
    return Curve(places, truth, mean, deviation, known.points[:, coordinate], losses, newest, float(theta[coordinate]))


def expected(known: Evaluated, losses: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return posterior mean and standard deviation (k,) of a loss with unit amplitude at points (k, d), from its values
    (N,) at the known points."""
    cross = solved(known.factor, known.kernel.gram(known.points, points))
    values = solved(known.factor, losses[:, None])[:, 0]
    variance = known.kernel.diagonal(points) - (cross**2).sum(axis=0)
    if known.surrogate.mean != "constant" or len(losses) < 2:
        return cross.T @ values, np.sqrt(np.maximum(variance, 0.0))
    ones = solved(known.factor, np.ones((len(losses), 1)))[:, 0]
    square = float(ones @ ones)
    constant, weight = float(ones @ values) / square, 1 - ones @ cross
    return constant + cross.T @ (values - constant * ones), np.sqrt(np.maximum(variance + weight**2 / square, 0.0))
