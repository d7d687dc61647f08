"""The mean loss along one setting, and what the Gaussian process of DP-GIBO expects there, as a diagnostic of a run.

A run does not store its evaluated points. They follow from its iterates, without the losses, and are chosen again here.
"""

from dataclasses import dataclass

import numpy as np

from dpviz.families.bayesian_optimization.algorithms import Gibo
from dpviz.families.bayesian_optimization.posterior import EvaluatedPoints, solve_triangular
from dpviz.problems.tuning.tuning import TuningProblem

POINTS = 41  # of the curve


@dataclass(frozen=True, eq=False)
class PosteriorSlice:
    """The mean loss along one coordinate through an iterate, and its posterior.

    coordinates : (k,) of the points of the curve. truth : (k,) mean losses there. mean, deviation : (k,) posterior mean
    and standard deviation, the latter for losses of variance 1. queries, losses : (N,) the coordinate of the evaluated
    points, and the mean losses there; the points differ from the iterate in other coordinates, too. newest : (N,) True
    for points of the last step. here : the coordinate of the iterate.
    """

    coordinates: np.ndarray
    truth: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    queries: np.ndarray
    losses: np.ndarray
    newest: np.ndarray
    here: float


def slice_along(problem: TuningProblem, method: Gibo, iterates: np.ndarray, coordinate: int) -> PosteriorSlice:
    """Compute the mean loss along a coordinate through the last of the iterates (k, d), with the posterior of the
    Gaussian process in the step that leads on from there.

    It is a diagnostic: it takes trainings at N evaluated points and `POINTS` points of the curve, and reads the users'
    losses without observation noise.
    """
    batches = method.batches(problem.facts)
    evaluated, n_new = EvaluatedPoints(batches.surrogate, np.empty((0, problem.facts.d))), 0  # none yet
    for theta in iterates:
        trial = batches.next_batch(evaluated, theta)
        evaluated = trial.evaluated.latest(batches.window)  # with the points of this step, which are the last ones
        n_new = len(trial.points)
    low, high = problem.facts.box
    coordinates = np.linspace(low[coordinate], high[coordinate], POINTS)
    line = np.tile(iterates[-1], (POINTS, 1))
    line[:, coordinate] = coordinates
    # The mean losses only, without metrics that take long.
    objective = problem.evaluate({"x": np.concatenate([line, evaluated.points])}, expensive=False)["objective"]
    truth, losses = objective[:POINTS], objective[POINTS:]
    mean, deviation = loss_posterior(evaluated, losses, line)
    newest = np.arange(len(losses)) >= len(losses) - n_new
    queries, here = evaluated.points[:, coordinate], float(iterates[-1, coordinate])
    return PosteriorSlice(coordinates, truth, mean, deviation, queries, losses, newest, here)


def loss_posterior(evaluated: EvaluatedPoints, losses: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior mean and standard deviation (k,) of a loss of variance 1 at points (k, d), from its values
    `losses` (N,) at the evaluated points.

    If the process has an unknown constant mean, the constant is estimated from the losses, and the uncertainty about it
    adds to the variance (ordinary kriging).
    """
    # `solve_triangular` multiplies by L⁻¹, with the Cholesky factor L of the evaluated points' covariance.
    cross = solve_triangular(evaluated.factor, evaluated.kernel.gram(evaluated.points, points))
    values = solve_triangular(evaluated.factor, losses[:, None])[:, 0]
    ones = solve_triangular(evaluated.factor, np.ones((len(losses), 1)))[:, 0]
    variance = evaluated.kernel.diagonal(points) - (cross**2).sum(axis=0)
    if evaluated.surrogate.mean != "constant" or len(losses) < 2:
        return cross.T @ values, np.sqrt(np.maximum(variance, 0.0))
    square = float(ones @ ones)
    constant = float(ones @ values) / square  # the estimate, by generalised least squares
    variance = variance + (1 - ones @ cross) ** 2 / square
    return constant + cross.T @ (values - constant * ones), np.sqrt(np.maximum(variance, 0.0))
