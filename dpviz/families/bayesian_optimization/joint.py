"""A batch whose points are moved together until they explain most: dearer to choose, and it relies on the process more
(THEORY.md, erratum E7)."""

import numpy as np
from scipy.optimize import minimize

from dpviz.families.bayesian_optimization.posterior import Local, Trial

STEPS = 60  # of L-BFGS-B, at most


def polished(local: Local, trial: Trial, low: np.ndarray, high: np.ndarray) -> Trial:
    """The batch (b, d) of a trial after L-BFGS-B on all its coordinates in the box; the same if that is no better."""
    shape = trial.points.shape
    found = minimize(
        lambda flat: unexplained(local, flat.reshape(shape)),
        trial.points.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=np.tile(np.array([low, high]).T, (shape[0], 1)),
        options={"maxiter": STEPS},
    )
    moved = local.trial(found.x.reshape(shape))
    return moved if moved.unexplained < trial.unexplained else trial


def unexplained(local: Local, points: np.ndarray) -> tuple[float, np.ndarray]:
    """α/P after evaluations at points (b, d), and its gradient (b d,). W minimises α over weights whose columns sum to 0
    (or over all, with mean zero), so only D and K move: dα = -2 tr(Wᵀ dD) + tr(Wᵀ dK W)."""
    trial = local.trial(points)
    if len(trial.points) < len(points):  # some of them tell nothing new
        return local.unexplained, np.zeros(points.size)
    kernel, weights = local.known.kernel, trial.weights
    everywhere = np.concatenate([local.known.points, points])
    old, pairs = len(local.known.points), weights @ weights[len(local.known.points) :].T
    slope = np.empty_like(points)
    for i, point in enumerate(points):
        slope[i] = pairs[:, i] @ kernel.slopes(point, everywhere)
        slope[i] -= kernel.mixed(local.theta, point).T @ weights[old + i]
    return trial.unexplained, 2 * slope.ravel() / local.prior
