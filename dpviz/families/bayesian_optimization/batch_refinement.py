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
    """α/P after evaluations at points (b, d), and its gradient (b d,). W minimises α over weights whose columns sum to
    0 (or over all, with mean zero), so only D and K move: dα = -2 tr(Wᵀ dD) + tr(Wᵀ dK W)."""
    trial, old = local.trial(points), len(local.known.points)
    kernel, weights = local.known.kernel, trial.weights
    everywhere, pairs = np.concatenate([local.known.points, trial.points]), weights @ weights[old:].T
    slope = np.zeros_like(points)  # of a point that tells nothing new, and is left out, 0
    for i, place in enumerate(trial.kept.tolist()):
        slope[place] = pairs[:, i] @ kernel.slopes(points[place], everywhere)
        slope[place] -= kernel.mixed(local.theta, points[place]).T @ weights[old + i]
    return trial.unexplained, 2 * slope.ravel() / local.prior
