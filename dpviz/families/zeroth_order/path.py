"""Where all replicates of a run are: the online learner of the conversion, its points, and the averages of epochs."""

import numpy as np

from dpviz.experiments.algorithm import DIVERGED, Snapshot, Status, divergence_status
from dpviz.families.zeroth_order.planning import Layout
from dpviz.problems.base import Metric

ROWS_USED = Metric("rows_used", "Rows used", released=True, axis=True, better="")
EVALUATIONS = Metric("evaluations", "Function evaluations", released=True, axis=True, better="")
NOISY_NORM = Metric("noisy_gradient_norm", "Norm of the noisy gradient ‖g_t‖", released=True, scale="log", better="")


class Path:
    """Algorithm 3: x moves by Δ, which a learner updates with the gradient at a random point of the move.

    start : (R, d) x₀. mix : (R, K T) uniform numbers s. last : (R,) the last step of each replicate, if they stop.
    """

    def __init__(
        self, start: np.ndarray, layout: Layout, fresh_start: bool, mix: np.ndarray, last: np.ndarray | None
    ) -> None:
        self.layout, self.fresh_start, self.mix, self.last = layout, fresh_start, mix, last
        self.x, self.move = start.copy(), np.zeros_like(start)
        self.point, self.before = start.copy(), start.copy()
        self.total, self.output = np.zeros_like(start), start.copy()
        self.lost, self.active = np.zeros(len(start), dtype=bool), np.ones(len(start), dtype=bool)
        self.used, self.evaluations = np.zeros(len(start)), np.zeros(len(start))
        self.norm = np.full(len(start), np.nan)

    def begin(self, t: int) -> np.ndarray:
        """Go to the points of step t, from 1; (R',) the replicates that take part."""
        rows = np.flatnonzero(self.active)
        if self.layout.begins(t):
            self.total = np.zeros_like(self.x)
            if self.fresh_start:
                self.move = np.zeros_like(self.x)
        self.before = self.point
        self.point = self.x + self.mix[:, t - 1, None] * self.move
        self.x = self.x + self.move
        self.total = self.total + self.point
        return rows

    def learn(self, t: int, rows: np.ndarray, gradient: np.ndarray, size: int, evaluations: float) -> None:
        """Update the learner with noisy gradients (R', d) from `size` rows; who is lost stays where it is."""
        self.norm, self.used, self.evaluations = self.norm.copy(), self.used.copy(), self.evaluations.copy()
        broken = ~(np.abs(gradient).max(axis=1) < DIVERGED)
        self.lost[rows[broken]] = True
        gradient = np.where(broken[:, None], 0.0, gradient)
        self.norm[rows] = np.linalg.norm(gradient, axis=1)
        self.used[rows] += size
        self.evaluations[rows] += size * evaluations
        move = np.zeros_like(self.move)
        move[rows] = shortened(self.move[rows] - self.layout.step_size * gradient, self.layout.move)
        self.move = np.where(self.lost[:, None], 0.0, move)
        if self.layout.ends(t):
            ended = self.active & ~self.lost
            self.output = np.where(ended[:, None], self.total / self.layout.length, self.output)
        if self.last is not None:
            self.active = self.active & (t < self.last) & ~self.lost

    def snapshot(self, t: int) -> Snapshot:
        """What all replicates would show after step t."""
        released = {ROWS_USED.name: self.used, EVALUATIONS.name: self.evaluations, NOISY_NORM.name: self.norm}
        if self.last is None:
            return Snapshot(t, {"x": self.output}, released, status=divergence_status(self.lost))
        words: list[Status] = []
        for lost, going in zip(self.lost.tolist(), self.active.tolist(), strict=True):
            words.append("diverged" if lost else "running" if going else "exhausted")
        return Snapshot(t, {"x": self.output}, released, active=self.active, status=tuple(words))


def shortened(moves: np.ndarray, longest: float) -> np.ndarray:
    """Moves (R, d), none longer than `longest`."""
    return np.asarray(moves / np.maximum(1.0, np.linalg.norm(moves, axis=1, keepdims=True) / longest))
