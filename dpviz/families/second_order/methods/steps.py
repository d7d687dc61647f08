"""The parts of an iteration: the gradient that is released, the test of the curvature, and how long a step is."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from scipy.special import ndtri

from dpviz.checkpoints import Parts, sliced
from dpviz.families.second_order.methods.releases import Releases, Separate
from dpviz.families.second_order.methods.states import (
    CURVATURE,
    GRADIENT,
    NOISY_CURVATURE,
    NOISY_GRADIENT,
    State,
    within_bounds,
)
from dpviz.families.second_order.theory import Analysis, Search
from dpviz.problems.nonconvex.nonconvex_risk import NonconvexRisk
from dpviz.problems.nonconvex.symmetric import Shape, eigenvalue_seconds, smallest_eigenpair, unpacked


@dataclass(frozen=True)
class Measured:
    """Released gradients and Hessians of a problem, the parts that need no noise included.

    at_state : whether the gradient's noise follows the sensitivity at the point, which is public.
    """

    problem: NonconvexRisk
    releases: Releases
    shape: Shape
    at_state: bool

    def gradient(self, state: State, rows: np.ndarray) -> Parts[tuple[np.ndarray, np.ndarray]]:
        """In parts: those of `rows` that got one, and their noisy gradients (R', d)."""
        rows = state.kept(rows, self.releases.payable("gradient", rows), "budget")
        x = state.x[rows]
        query = yield from self.problem.mean_gradient_in_parts(x, self.releases.sample(rows), self.at_state)
        noisy = self.releases.gaussian(query, "gradient", rows) + self.problem.regulariser_gradient(x)
        sound = within_bounds(noisy)
        with np.errstate(over="ignore"):
            state.shown[NOISY_GRADIENT.name][rows] = np.linalg.norm(noisy, axis=1)
        return state.kept(rows, sound, "diverged"), noisy[sound]

    def hessian(self, state: State, rows: np.ndarray) -> Parts[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """In parts: those of `rows` that got one, bool over `rows` (R',) which that are, and their noisy Hessians
        (R'', d, d)."""
        able = self.releases.payable("hessian", rows)
        asked = state.kept(rows, able, "budget")
        x = state.x[asked]
        if not len(asked):
            return asked, able, np.empty((0, *2 * x.shape[1:]))
        query = yield from self.problem.hessian_in_parts(x, self.releases.sample(asked), self.shape)
        noisy = self.releases.gaussian(query, "hessian", asked)
        sound = within_bounds(noisy)
        able[able] = sound
        matrices = unpacked(noisy[sound], self.shape)
        diagonal = np.arange(x.shape[1])
        matrices[:, diagonal, diagonal] += self.problem.regulariser_hessian(x[sound])
        return state.kept(asked, sound, "diverged"), able, matrices


@dataclass(frozen=True)
class Certificate:
    """From which noisy λ_min on that number alone says that λ_min is at least -target, of one run.

    noise : (T,) its scale. failure : probability that a replicate is told so wrongly, whenever and however often it
        asks: α/(k(k + 1)) of it when it asks for the k-th time, α in all.
    """

    noise: np.ndarray
    target: float
    failure: float
    asked: Counter[int] = field(default_factory=Counter)

    def levels(self, iteration: int, rows: np.ndarray) -> np.ndarray:
        """(R',) for replicates that ask now, once more."""
        self.asked.update(rows.tolist())
        times = np.array([self.asked[r] for r in rows.tolist()], dtype=float)
        return self.noise[iteration - 1] * -ndtri(self.failure / (times * (times + 1))) - self.target


@dataclass(frozen=True)
class CurvatureTest:
    """Stops replicates at which a released Hessian shows no curvature below -tolerance.

    certificate : asks for λ_min alone first, which may settle it without a matrix; None: not asked for.
    """

    measured: Measured
    tolerance: float
    certificate: Certificate | None = None

    def failing(
        self, state: State, rows: np.ndarray, gradients: np.ndarray
    ) -> Parts[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """In parts: those of `rows` at which f falls along a direction of curvature, |λ̃| (R',), and that direction
        (R', d), in which the noisy gradients (R', d) do not point uphill. The others have stopped."""
        if self.certificate is not None:
            rows, gradients = yield from self._uncertified(state, rows, gradients, self.certificate)
        rows, values, directions = yield from self._lowest(state, rows, gradients)
        if not len(rows):
            return rows, np.empty(0), gradients[:0]
        state.shown[NOISY_CURVATURE.name][rows] = values
        flat = values >= -self.tolerance
        state.stop(rows[flat])
        return rows[~flat], -values[~flat], directions[~flat]

    def _lowest(
        self, state: State, rows: np.ndarray, gradients: np.ndarray
    ) -> Parts[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """In parts: those of `rows` that got a release, the smallest eigenvalue of their noisy Hessian (R',), and its
        unit vector (R', d)."""
        rows, able, matrices = yield from self.measured.hessian(state, rows)
        seconds = 2 * eigenvalue_seconds(matrices.shape[-1])
        pairs = yield from sliced(eigenpairs, seconds, matrices, gradients[able])
        return rows, pairs[:, 0], pairs[:, 1:]

    def _uncertified(
        self, state: State, rows: np.ndarray, gradients: np.ndarray, certificate: Certificate
    ) -> Parts[tuple[np.ndarray, np.ndarray]]:
        releases, problem = self.measured.releases, self.measured.problem
        able = releases.payable("certificate", rows)
        rows, gradients = state.kept(rows, able, "budget"), gradients[able]
        if not len(rows):
            return rows, gradients
        query = yield from problem.smallest_eigenvalue_in_parts(state.x[rows])
        noisy = releases.gaussian(query, "certificate", rows)[:, 0]
        state.shown[NOISY_CURVATURE.name][rows] = noisy
        certified = noisy >= certificate.levels(state.iteration, rows)
        state.stop(rows[certified])
        return rows[~certified], gradients[~certified]


class Anywhere:
    """Stops all of them: first order only."""

    def failing(
        self, state: State, rows: np.ndarray, gradients: np.ndarray
    ) -> Parts[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Of nobody."""
        state.stop(rows)
        yield from ()
        return rows[:0], np.empty(0), gradients[:0]


def eigenpairs(matrices: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """`smallest_eigenpair` as (R, 1 + d): the eigenvalues, and their vectors."""
    values, directions = smallest_eigenpair(matrices, gradients)
    return np.column_stack([values, directions])


class StepRule(Protocol):
    """How far to go. `rows` (R',) are the replicates that step, and may be none."""

    def gradient(self, state: State, rows: np.ndarray, noisy: np.ndarray) -> Parts[None]:
        """Against the noisy gradients (R', d)."""

    def curvature(self, state: State, rows: np.ndarray, size: np.ndarray, direction: np.ndarray) -> Parts[None]:
        """Along unit vectors (R', d) of curvature -size (R',)."""


@dataclass(frozen=True)
class ShortSteps(StepRule):
    """1/G and 2|λ̃|/M: what the constants promise, without another look at the data."""

    analysis: Analysis

    def gradient(self, state: State, rows: np.ndarray, noisy: np.ndarray) -> Parts[None]:
        state.move(rows, -noisy / self.analysis.smoothness, GRADIENT)
        yield from ()

    def curvature(self, state: State, rows: np.ndarray, size: np.ndarray, direction: np.ndarray) -> Parts[None]:
        state.move(rows, (2 * size / self.analysis.hessian_lipschitz)[:, None] * direction, CURVATURE)
        yield from ()


@dataclass(frozen=True)
class Backtracking(StepRule):
    """The longest of some steps along which f seems to fall enough, by the sparse vector technique; else a sure one."""

    search: Search
    problem: NonconvexRisk
    releases: Separate

    def gradient(self, state: State, rows: np.ndarray, noisy: np.ndarray) -> Parts[None]:
        steps = np.tile(self.search.gradient_steps, (len(rows), 1))
        wanted = self.search.ladder.c_g * (noisy * noisy).sum(axis=1, keepdims=True)
        fallback = np.full(len(rows), self.search.gradient_fallback)
        yield from self._step(state, rows, -noisy, steps, np.tile(wanted, steps.shape[1]), fallback, GRADIENT)

    def curvature(self, state: State, rows: np.ndarray, size: np.ndarray, direction: np.ndarray) -> Parts[None]:
        steps = size[:, None] * self.search.curvature_steps
        wanted = self.search.ladder.c_h / 2 * steps * size[:, None]
        yield from self._step(state, rows, direction, steps, wanted, size * self.search.curvature_fallback, CURVATURE)

    def _step(
        self,
        state: State,
        rows: np.ndarray,
        direction: np.ndarray,
        steps: np.ndarray,
        wanted: np.ndarray,
        fallback: np.ndarray,
        kind: int,
    ) -> Parts[None]:
        """Go the first of the steps (R', k) of which (f(x) - f(x + step · direction))/step - wanted passes."""
        able = self.releases.payable("search", rows)
        rows = state.kept(rows, able, "budget")
        if not len(rows):
            return
        direction, steps, wanted, fallback = direction[able], steps[able], wanted[able], fallback[able]
        query = yield from self.problem.decrease_in_parts(state.x[rows], direction, steps)
        first = self.releases.above_threshold(query._replace(value=query.value - wanted), rows)
        step = np.where(first >= 0, steps[np.arange(len(rows)), first], fallback)
        state.move(rows, step[:, None] * direction, kind)
