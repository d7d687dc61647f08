"""Where all replicates of a run are, and what they would show."""

from collections.abc import Mapping, Sequence

import numpy as np

from dpviz.experiments.algorithm import DIVERGED, Snapshot
from dpviz.problems.base import Metric

GRADIENT, CURVATURE, STOP, TRUST_REGION, PERTURBATION = range(5)  # kinds of steps

NOISY_GRADIENT = Metric("noisy_gradient_norm", "Noisy gradient norm ‖g̃_t‖", released=True, scale="log")
GRADIENT_NOISE = Metric("gradient_noise", "Noise of the gradient s_g, as drawn", released=True, scale="log", better="")
NOISY_CURVATURE = Metric("noisy_curvature", "Noisy smallest eigenvalue λ̃_min", released=True, better="higher")
KIND = Metric(
    "step_kind", "Step (0 gradient, 1 curvature, 2 stop, 3 trust region, 4 perturbation)", released=True, better=""
)


class State:
    """Points x (R, d), status, and what the last releases said; `noisy_curvature` is NaN where none was asked for."""

    def __init__(self, x: np.ndarray) -> None:
        self.x = x
        self.iteration = 0
        self.status = np.full(len(x), "running", dtype=object)
        self.shown = {metric.name: np.full(len(x), np.nan) for metric in (NOISY_GRADIENT, NOISY_CURVATURE, KIND)}

    @property
    def going(self) -> np.ndarray:
        """(R',) the replicates that go on."""
        return np.flatnonzero(self.status == "running")

    def begin(self) -> np.ndarray:
        """The replicates of the next iteration; whatever was shown of the last one stays as it is."""
        self.iteration += 1
        self.x, self.shown = self.x.copy(), {name: values.copy() for name, values in self.shown.items()}
        rows = self.going
        self.shown[NOISY_CURVATURE.name][rows] = np.nan
        return rows

    def end(self, rows: np.ndarray, word: str) -> None:
        """These replicates have ended."""
        self.status[rows] = word

    def kept(self, rows: np.ndarray, kept: np.ndarray, otherwise: str) -> np.ndarray:
        """Those of `rows` (R',) that are `kept` (R',) bool; the others end with this word."""
        self.end(rows[~kept], otherwise)
        return rows[kept]

    def move(self, rows: np.ndarray, by: np.ndarray, kind: int) -> None:
        """x ← x + by (R', d); who would get lost stays where it was, and has diverged."""
        after = self.x[rows] + by
        sound = within_bounds(after)
        self.x[rows[sound]] = after[sound]
        self.shown[KIND.name][rows] = kind
        self.end(rows[~sound], "diverged")

    def stop(self, rows: np.ndarray) -> None:
        """These have met their goal, and stay."""
        self.shown[KIND.name][rows] = STOP
        self.end(rows, "converged")

    def snapshot(self, iteration: int, metrics: Sequence[Metric], charged: Mapping[str, np.ndarray]) -> Snapshot:
        """What all replicates would show now: these metrics, of what was released and charged."""
        known, running = {**self.shown, **charged}, self.status == "running"
        released = {metric.name: known[metric.name] for metric in metrics}
        return Snapshot(iteration, {"x": self.x}, released, active=running, status=tuple(self.status.tolist()))


def within_bounds(values: np.ndarray) -> np.ndarray:
    """(R,) bool: whose values (R, ...) are numbers to go on with."""
    return np.asarray((np.abs(values) < DIVERGED).all(axis=tuple(range(1, values.ndim))))
