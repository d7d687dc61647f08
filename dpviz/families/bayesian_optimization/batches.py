"""Choice of the next points to evaluate in DP-GIBO: as few as explain enough of the gradient's variance.

Nothing here depends on a loss, so the points may be released. Symbols: d settings; θ the current iterate; α the trace
of the posterior covariance of the gradient at θ, P that of its prior covariance, so that α/P is the share of the
variance that is still unexplained; ω the share that may be; b points in a batch; ℓ the length scale of the kernel.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from scipy.optimize import minimize

from dpviz.families.bayesian_optimization import designs
from dpviz.families.bayesian_optimization.posterior import EvaluatedPoints, LocalPosterior, Surrogate, TrialPosterior
from dpviz.specification import Specification, choice, number

STEPS = 60  # the most iterations of L-BFGS-B, to limit the time; points may be used after any of them
DESIGNS = {
    "adaptive": "Where least is known",
    "joint": "Where least is known, then moved together",
    "central": "Central differences, every step",
}


class Placing(Specification):
    """Settings for the points of a batch."""

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
        limits=(1e-6, 1e6),
    )
    min_points: int = number(
        0,
        0,
        50,
        label="Fewest per step",
        symbol="b_min",
        help="Also where nothing seems to be missing.",
        limits=(0, 10_000),
    )
    repeats: int = number(
        1,
        1,
        20,
        label="Repeats",
        symbol="m",
        scale="log",
        help="Of central differences, where noise asks for more.",
        limits=(1, 10_000),
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
class BatchRule:
    """The rule that chooses batches of points.

    low, high : (d,) the box. level : ω, the share of the gradient's variance that may stay unexplained. size : b, if
    the number of points is fixed instead; else None.
    """

    surrogate: Surrogate
    placing: Placing
    low: np.ndarray
    high: np.ndarray
    level: float
    size: int | None

    @property
    def max_size(self) -> int:
        """Number of points of the largest batch that may be chosen."""
        d = len(self.low)
        if self.placing.design == "central":
            return 2 * d
        return self.size if self.size is not None else max(2 * d * self.placing.repeats, self.placing.min_points)

    @property
    def window(self) -> int:
        """Number of the most recent evaluations that are stored: at least one batch; for central differences, which use
        no history, exactly one batch."""
        if self.placing.design == "central":
            return self.max_size
        return max(round(self.placing.window * len(self.low)), self.max_size)

    def first_size(self) -> int:
        """Return b₁, the number of points of a first step in the middle of the box, where there is no history. The
        design "joint" may then take points away, which is not counted."""
        d, placing = len(self.low), self.placing
        if placing.design == "central":
            return 2 * d
        if self.size is not None:
            return self.size
        if self.surrogate.kernel == "rbf":
            size = self.first_size_by_formula() or 2 * d * placing.repeats  # the largest, if none is enough
            return max(placing.min_points, size)
        return _first_size(self.surrogate, placing, tuple(self.low.tolist()), tuple(self.high.tolist()), self.level)

    def first_size_by_formula(self) -> int | None:
        """Return the number of points of a first step that reaches the level with the squared exponential kernel, by
        a formula (THEORY.md, section 4); None if no batch reaches it."""
        placing = self.placing
        return designs.smallest_batch(self.level, len(self.low), self.surrogate.noise, placing.nearest, placing.repeats)

    def next_batch(self, evaluated: EvaluatedPoints, theta: np.ndarray) -> TrialPosterior:
        """Return the points to evaluate in a step from theta (d,), with the posterior after their evaluation.

        evaluated : the evaluations so far. There may be no new points, where enough is explained already.
        """
        local, d = evaluated.at(theta), len(theta)
        if self.placing.design == "central":
            return self._design_trial(local, 2 * d, np.eye(d))
        _, eigenvectors = np.linalg.eigh(local.covariance)  # of the gradient's posterior covariance, ascending
        axes = eigenvectors[:, ::-1]  # (d, d) orthonormal directions, in columns, the least known first
        if self.size is not None:
            return self._move_together(local, self._design_trial(local, self.size, axes))
        if local.unexplained <= self.level:
            return self._design_trial(local, self.placing.min_points, axes)
        batch = self._smallest_batch(local, axes)
        # "joint": take points away, one by one, while the others, moved together, still reach the level.
        while self.placing.design == "joint" and len(batch.points) > max(1, self.placing.min_points):
            fewer = self._move_together(local, self._design_trial(local, len(batch.points) - 1, axes))
            if fewer.unexplained > self.level:
                break
            batch = fewer
        return batch

    def _smallest_batch(self, local: LocalPosterior, axes: np.ndarray) -> TrialPosterior:
        """Return the smallest batch after which at most ω is unexplained, and at least `placing.min_points` points; the
        largest batch if none reaches ω. axes : directions (d, d), in columns."""
        d = len(axes)
        # Central differences, 2d points, repeated until they reach the level. There is one round at least, as repeats
        # are at least 1, so that `high` and `best` are set.
        for high in range(2 * d, 2 * d * self.placing.repeats + 1, 2 * d):
            best = self._design_trial(local, high, axes)
            if best.unexplained <= self.level:
                break
        # Bisection over fewer points than 2d; repeated central differences have no sizes in between, so none for them.
        low = 0 if high == 2 * d else high - 1
        while high - low > 1:
            middle = (low + high) // 2
            trial = self._design_trial(local, middle, axes)
            if trial.unexplained <= self.level:
                high, best = middle, trial
            else:
                low = middle
        return best if high >= self.placing.min_points else self._design_trial(local, self.placing.min_points, axes)

    def _move_together(self, local: LocalPosterior, trial: TrialPosterior) -> TrialPosterior:
        """Return the trial with its points moved together, by L-BFGS-B on all their coordinates in the box, so that
        they explain more; the given trial for designs other than "joint", and if that does not succeed.

        Such points take longer to choose, and rely on the process more (THEORY.md, erratum E7).
        """
        if self.placing.design != "joint" or not len(trial.points):
            return trial
        shape = trial.points.shape
        result = minimize(
            lambda flat: unexplained_with_gradient(local, flat.reshape(shape)),
            trial.points.ravel(),
            jac=True,
            method="L-BFGS-B",
            bounds=np.tile(np.array([self.low, self.high]).T, (shape[0], 1)),  # the box, once for each point
            options={"maxiter": STEPS},
        )
        moved = local.trial(result.x.reshape(shape))
        return moved if moved.unexplained < trial.unexplained else trial

    def _design_trial(self, local: LocalPosterior, count: int, axes: np.ndarray) -> TrialPosterior:
        """Return a trial with the closed-form design of `count` points around theta, along the directions `axes` (d,
        d), in columns, and in the box."""
        if not count:
            return local.trial(np.empty((0, len(axes))))
        noise, length = self.surrogate.noise, self.surrogate.length_scale
        # The offsets are along `axes`; the product with `axes.T` gives the moves in the coordinates of theta.
        moves = length * designs.offsets(count, len(axes), noise, nearest=self.placing.nearest) @ axes.T
        return local.trial(designs.moved_into_box(local.theta, moves, self.low, self.high))


@lru_cache(64)
def _first_size(
    surrogate: Surrogate, placing: Placing, low: tuple[float, ...], high: tuple[float, ...], level: float
) -> int:
    """Return `BatchRule.first_size` for a kernel without a closed form, and without a given size: that of the smallest
    batch in the middle of the box. The arguments are those of `BatchRule`, in a form that the cache can hash."""
    rule = BatchRule(surrogate, placing, np.array(low), np.array(high), level, size=None)
    no_history = EvaluatedPoints(surrogate, np.empty((0, len(low))))
    middle = no_history.at((rule.low + rule.high) / 2)
    return len(rule._smallest_batch(middle, np.eye(len(low))).points)


def unexplained_with_gradient(local: LocalPosterior, points: np.ndarray) -> tuple[float, np.ndarray]:
    """Return α/P after evaluations at points (b, d), and the gradient (b d,) of α/P in their coordinates.

    K is the covariance of the losses at all points, old and new, D (N, d) that of these losses with the gradient at
    theta, and W (N, d) the weights of the losses in the estimate of the gradient. α = tr(prior) - 2 tr(WᵀD) + tr(WᵀK W)
    is smallest at these weights, over all weights whose columns sum to 0 (over all weights if the process has mean
    zero). So a change of W does not matter, and dα = -2 tr(Wᵀ dD) + tr(Wᵀ dK W) (THEORY.md, section 4). A new point is
    in one row and one column of K, so that the second term is twice that of its row.
    """
    trial, n_old = local.trial(points), len(local.evaluated.points)
    kernel, weights = local.evaluated.kernel, trial.weights
    all_points = np.concatenate([local.evaluated.points, trial.points])
    products = weights @ weights[n_old:].T  # W Wᵀ, the columns of the new points
    slope = np.zeros_like(points)  # remains 0 for a point that adds no information, and is left out of the trial
    for i, index in enumerate(trial.indices.tolist()):
        slope[index] = products[:, i] @ kernel.slopes(points[index], all_points)  # of its row of K
        slope[index] -= kernel.mixed(local.theta, points[index]).T @ weights[n_old + i]  # of its row of D
    return trial.unexplained, 2 * slope.ravel() / local.prior_trace
