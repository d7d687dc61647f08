"""Choice of the next points to evaluate: as few as explain enough of the gradient. Nothing here depends on a loss."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from scipy.optimize import minimize

from dpviz.families.bayesian_optimization import designs
from dpviz.families.bayesian_optimization.posterior import Evaluated, Local, Surrogate, Trial
from dpviz.specification import Specification, choice, number

STEPS = 60  # of L-BFGS-B, at most
DESIGNS = {
    "adaptive": "Where least is known",
    "joint": "Where least is known, then moved together",
    "central": "Central differences, every step",
}


class Placing(Specification):
    """Rules for the points of a batch."""

    kind: ClassVar[str] = "families.bayesian_optimization.placing"
    design: Literal["adaptive", "joint", "central"] = choice(
        "adaptive",
        DESIGNS,
        label="Points",
        help="Along the directions in which the gradient is known least; moved together, somewhat fewer are enough, "
        "but they rely on the process more; ± every coordinate needs no history and most trainings.",
    )
    nearest: float = number(
        0.2,
        0.02,
        1.0,
        label="Smallest distance",
        symbol="h",
        unit="ℓ",
        scale="log",
        help="From the iterate. Nearer points know the slope better, until noise and rounding decide.",
    )
    least: int = number(
        0, 0, 50, label="Fewest per step", symbol="b_min", help="Also where nothing seems to be missing."
    )
    repeats: int = number(
        1, 1, 20, label="Repeats", symbol="m", scale="log", help="Of central differences, where noise asks for more."
    )
    window: float = number(
        10.0,
        2.0,
        200.0,
        label="Evaluations kept",
        symbol="N/d",
        unit="d",
        scale="log",
        help="The most recent ones, and one batch at least.",
    )


@dataclass(frozen=True)
class Batches:
    """Rule that chooses batches.

    low, high : (d,) the box. level : ω, the share of the gradient's variance that may stay unexplained. size : b, if it
    is fixed instead.
    """

    surrogate: Surrogate
    placing: Placing
    low: np.ndarray
    high: np.ndarray
    level: float
    size: int | None

    @property
    def most(self) -> int:
        """Number of points of the largest batch."""
        d = len(self.low)
        if self.placing.design == "central":
            return 2 * d
        return self.size if self.size is not None else max(2 * d * self.placing.repeats, self.placing.least)

    @property
    def window(self) -> int:
        """Number of stored evaluations: at least one batch; for central differences, exactly one batch."""
        if self.placing.design == "central":
            return self.most
        return max(round(self.placing.window * len(self.low)), self.most)

    def first(self) -> int:
        """Return b₁, the number of points of a first step in the middle of the box, before they are moved together."""
        d, placing = len(self.low), self.placing
        if placing.design == "central":
            return 2 * d
        if self.size is not None:
            return self.size
        if self.surrogate.kernel == "rbf":
            return max(placing.least, self.closed_form() or 2 * d * placing.repeats)
        return _first(self.surrogate, placing, tuple(self.low.tolist()), tuple(self.high.tolist()), self.level)

    def closed_form(self) -> int | None:
        """Return the number of points of a first step that reaches the level with the squared exponential; None if no
        batch does."""
        placing = self.placing
        return designs.smallest_batch(self.level, len(self.low), self.surrogate.noise, placing.nearest, placing.repeats)

    def chosen(self, known: Evaluated, theta: np.ndarray) -> Trial:
        """Return the next batch at theta (d,), with the posterior after it; it may be empty."""
        local, d = known.at(theta), len(theta)
        if self.placing.design == "central":
            return self._placed(local, 2 * d, np.eye(d))
        axes = _axes(local)
        if self.size is not None:
            return self._moved(local, self._placed(local, self.size, axes))
        if local.unexplained <= self.level:
            return self._placed(local, self.placing.least, axes)
        batch = self._smallest(local, axes)
        while self.placing.design == "joint" and len(batch.points) > max(1, self.placing.least):
            fewer = self._moved(local, self._placed(local, len(batch.points) - 1, axes))
            if fewer.unexplained > self.level:
                break
            batch = fewer
        return batch

    def _smallest(self, local: Local, axes: np.ndarray) -> Trial:
        """Return the smallest batch that reaches the level, by bisection; the largest if none does."""
        d = len(axes)
        for high in range(2 * d, 2 * d * self.placing.repeats + 1, 2 * d):
            best = self._placed(local, high, axes)
            if best.unexplained <= self.level:
                break
        low = 0 if high == 2 * d else high - 1
        while high - low > 1:
            middle = (low + high) // 2
            trial = self._placed(local, middle, axes)
            if trial.unexplained <= self.level:
                high, best = middle, trial
            else:
                low = middle
        return best if high >= self.placing.least else self._placed(local, self.placing.least, axes)

    def _moved(self, local: Local, trial: Trial) -> Trial:
        """Return the trial with its points moved together, if that is the design."""
        is_joint = self.placing.design == "joint" and len(trial.points) > 0
        return polished(local, trial, self.low, self.high) if is_joint else trial

    def _placed(self, local: Local, count: int, axes: np.ndarray) -> Trial:
        """Return the closed-form design of `count` points along the axes (d, d), in columns."""
        if not count:
            return local.trial(np.empty((0, len(axes))))
        noise, length = self.surrogate.noise, self.surrogate.length_scale
        moves = length * designs.offsets(count, len(axes), noise, self.placing.nearest) @ axes.T
        return local.trial(designs.inside(local.theta, moves, self.low, self.high))


@lru_cache(64)
def _first(
    surrogate: Surrogate, placing: Placing, low: tuple[float, ...], high: tuple[float, ...], level: float
) -> int:
    """Return `Batches.first` of a kernel without closed form, by the posterior."""
    batches = Batches(surrogate, placing, np.array(low), np.array(high), level, None)
    local = Evaluated(surrogate, np.empty((0, len(low)))).at((batches.low + batches.high) / 2)
    return len(batches._smallest(local, np.eye(len(low))).points)


def _axes(local: Local) -> np.ndarray:
    """Return (d, d) orthonormal directions, in columns, by the gradient's remaining variance, largest first."""
    return np.linalg.eigh(local.covariance)[1][:, ::-1]


def polished(local: Local, trial: Trial, low: np.ndarray, high: np.ndarray) -> Trial:
    """Return the batch (b, d) of a trial after L-BFGS-B on all its coordinates in the box; the trial itself if that is
    no better.

    It takes longer to choose, and relies on the process more (THEORY.md, erratum E7).
    """
    shape = trial.points.shape
    result = minimize(
        lambda flat: unexplained(local, flat.reshape(shape)),
        trial.points.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=np.tile(np.array([low, high]).T, (shape[0], 1)),
        options={"maxiter": STEPS},
    )
    moved = local.trial(result.x.reshape(shape))
    return moved if moved.unexplained < trial.unexplained else trial


def unexplained(local: Local, points: np.ndarray) -> tuple[float, np.ndarray]:
    """Return α/P after evaluations at points (b, d), and its gradient (b d,).

    W minimises α over weights whose columns sum to 0 (or over all, with mean zero), so only D and K contribute: dα = -2
    tr(Wᵀ dD) + tr(Wᵀ dK W).
    """
    trial, old = local.trial(points), len(local.known.points)
    kernel, weights = local.known.kernel, trial.weights
    everywhere, pairs = np.concatenate([local.known.points, trial.points]), weights @ weights[old:].T
    slope = np.zeros_like(points)  # 0 for a point that adds no information, and is left out
    for i, index in enumerate(trial.kept.tolist()):
        slope[index] = pairs[:, i] @ kernel.slopes(points[index], everywhere)
        slope[index] -= kernel.mixed(local.theta, points[index]).T @ weights[old + i]
    return trial.unexplained, 2 * slope.ravel() / local.prior
