"""The parts of an iteration: the gradient that is released, the test of the curvature, and how long a step is.

For many columns the test takes a few products with a noisy Hessian instead of all its entries.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from scipy.special import ndtri

from dpviz.checkpoints import sliced
from dpviz.families.second_order.methods import releases as states
from dpviz.families.second_order.methods.releases import Releases, Separate
from dpviz.families.second_order.theory import Analysis, Search
from dpviz.problems.nonconvex.nonconvex_risk import MOST_COLUMNS, NonconvexFacts, NonconvexRisk
from dpviz.problems.nonconvex.symmetric import Shape, eigenvalue_seconds, lanczos, smallest_eigenpair, unpacked
from dpviz.specification import number


@dataclass(frozen=True)
class Measured:
    """Released gradients and Hessians of a problem, the parts that need no noise included.

    at_state : whether the gradient's noise follows the sensitivity at the point, which is public.
    """

    problem: NonconvexRisk
    releases: Releases
    shape: Shape
    at_state: bool

    def gradient(self, state: states.State, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Those of `rows` that got one, and their noisy gradients (R', d)."""
        rows = state.kept(rows, self.releases.payable("gradient", rows), "budget")
        x = state.x[rows]
        query = self.problem.mean_gradient(x, self.releases.sample(rows), self.at_state)
        noisy = self.releases.gaussian(query, "gradient", rows) + self.problem.regulariser_gradient(x)
        sound = states.within_bounds(noisy)
        with np.errstate(over="ignore"):
            state.shown[states.NOISY_GRADIENT.name][rows] = np.linalg.norm(noisy, axis=1)
        return state.kept(rows, sound, "diverged"), noisy[sound]

    def hessian(self, state: states.State, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Those of `rows` that got one, bool over `rows` (R',) which that are, and their noisy Hessians
        (R'', d, d)."""
        able = self.releases.payable("hessian", rows)
        asked = state.kept(rows, able, "budget")
        x = state.x[asked]
        if not len(asked):
            return asked, able, np.empty((0, *2 * x.shape[1:]))
        query = self.problem.hessian(x, self.releases.sample(asked), self.shape)
        noisy = self.releases.gaussian(query, "hessian", asked)
        sound = states.within_bounds(noisy)
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
        self, state: states.State, rows: np.ndarray, gradients: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Those of `rows` at which f falls along a direction of curvature, |λ̃| (R',), and that direction
        (R', d), in which the noisy gradients (R', d) do not point uphill. The others have stopped."""
        if self.certificate is not None:
            rows, gradients = self._uncertified(state, rows, gradients, self.certificate)
        rows, values, directions = self._lowest(state, rows, gradients)
        if not len(rows):
            return rows, np.empty(0), gradients[:0]
        state.shown[states.NOISY_CURVATURE.name][rows] = values
        flat = values >= -self.tolerance
        state.stop(rows[flat])
        return rows[~flat], -values[~flat], directions[~flat]

    def _lowest(
        self, state: states.State, rows: np.ndarray, gradients: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Those of `rows` that got a release, the smallest eigenvalue of their noisy Hessian (R',), and its
        unit vector (R', d)."""
        rows, able, matrices = self.measured.hessian(state, rows)
        pairs = sliced(eigenpairs, 2 * eigenvalue_seconds(matrices.shape[-1]), matrices, gradients[able])
        return rows, pairs[:, 0], pairs[:, 1:]

    def _uncertified(
        self, state: states.State, rows: np.ndarray, gradients: np.ndarray, certificate: Certificate
    ) -> tuple[np.ndarray, np.ndarray]:
        releases, problem = self.measured.releases, self.measured.problem
        able = releases.payable("certificate", rows)
        rows, gradients = state.kept(rows, able, "budget"), gradients[able]
        if not len(rows):
            return rows, gradients
        noisy = releases.gaussian(problem.smallest_eigenvalue(state.x[rows]), "certificate", rows)[:, 0]
        state.shown[states.NOISY_CURVATURE.name][rows] = noisy
        certified = noisy >= certificate.levels(state.iteration, rows)
        state.stop(rows[certified])
        return rows[~certified], gradients[~certified]


class Anywhere:
    """Stops all of them: first order only."""

    def failing(
        self, state: states.State, rows: np.ndarray, gradients: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of nobody."""
        state.stop(rows)
        return rows[:0], np.empty(0), gradients[:0]


def eigenpairs(matrices: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """`smallest_eigenpair` as (R, 1 + d): the eigenvalues, and their vectors."""
    values, directions = smallest_eigenpair(matrices, gradients)
    return np.column_stack([values, directions])


class StepRule(Protocol):
    """How far to go. `rows` (R',) are the replicates that step, and may be none."""

    def gradient(self, state: states.State, rows: np.ndarray, noisy: np.ndarray) -> None:
        """Against the noisy gradients (R', d)."""

    def curvature(self, state: states.State, rows: np.ndarray, size: np.ndarray, direction: np.ndarray) -> None:
        """Along unit vectors (R', d) of curvature -size (R',)."""


@dataclass(frozen=True)
class ShortSteps(StepRule):
    """1/G and 2|λ̃|/M: what the constants promise, without another look at the data."""

    analysis: Analysis

    def gradient(self, state: states.State, rows: np.ndarray, noisy: np.ndarray) -> None:
        state.move(rows, -noisy / self.analysis.smoothness, states.GRADIENT)

    def curvature(self, state: states.State, rows: np.ndarray, size: np.ndarray, direction: np.ndarray) -> None:
        state.move(rows, (2 * size / self.analysis.hessian_lipschitz)[:, None] * direction, states.CURVATURE)


@dataclass(frozen=True)
class Backtracking(StepRule):
    """The longest of some steps along which f seems to fall enough, by the sparse vector technique; else a sure one."""

    search: Search
    problem: NonconvexRisk
    releases: Separate

    def gradient(self, state: states.State, rows: np.ndarray, noisy: np.ndarray) -> None:
        steps = np.tile(self.search.gradient_steps, (len(rows), 1))
        wanted = self.search.ladder.c_g * (noisy * noisy).sum(axis=1, keepdims=True)
        fallback = np.full(len(rows), self.search.gradient_fallback)
        self._step(state, rows, -noisy, steps, np.tile(wanted, steps.shape[1]), fallback, states.GRADIENT)

    def curvature(self, state: states.State, rows: np.ndarray, size: np.ndarray, direction: np.ndarray) -> None:
        steps = size[:, None] * self.search.curvature_steps
        wanted = self.search.ladder.c_h / 2 * steps * size[:, None]
        self._step(state, rows, direction, steps, wanted, size * self.search.curvature_fallback, states.CURVATURE)

    def _step(
        self,
        state: states.State,
        rows: np.ndarray,
        direction: np.ndarray,
        steps: np.ndarray,
        wanted: np.ndarray,
        fallback: np.ndarray,
        kind: int,
    ) -> None:
        """Go the first of the steps (R', k) of which (f(x) - f(x + step · direction))/step - wanted passes."""
        able = self.releases.payable("search", rows)
        rows = state.kept(rows, able, "budget")
        if not len(rows):
            return
        direction, steps, wanted, fallback = direction[able], steps[able], wanted[able], fallback[able]
        query = self.problem.decrease(state.x[rows], direction, steps)
        first = self.releases.above_threshold(query._replace(value=query.value - wanted), rows)
        step = np.where(first >= 0, steps[np.arange(len(rows)), first], fallback)
        state.move(rows, step[:, None] * direction, kind)


USUAL_PRODUCTS = 40
PRODUCTS: Any = number(
    None,
    4,
    200,
    label="Products with the Hessian",
    symbol="k",
    scale="log",
    help="Lanczos' method looks at a noisy Hessian through k products, never at its entries; more where k settle "
    "nothing. Needs GOE noise. By theory: all entries; with more than 300 columns, 40 products.",
)


def products_by_theory(stated: int | None, shape: Shape, facts: NonconvexFacts) -> int | None:
    """Products with a noisy Hessian for a curvature test; None: all of its entries are released."""
    if stated is None and (shape != "goe" or facts.d <= MOST_COLUMNS):
        return None
    return min(stated or USUAL_PRODUCTS, facts.d)


def check_noise(stated: int | None, shape: Shape) -> None:
    """Raise ValueError for products with noise that is not the same in all directions."""
    if stated is not None and shape != "goe":
        raise ValueError("products with a Hessian need noise that is even in all directions (GOE)")


@dataclass(frozen=True)
class KrylovTest(CurvatureTest):
    """The same from a few products with the noisy Hessian, whose noise is drawn as far as they look at it: no matrix is
    formed. The eigenvalue that they find is never below the true one; a run is stopped by a bound that is never above
    it, but with probability `failure` (THEORY.md, 3.6).

    products : of each test; where they settle nothing, twice as many of the same matrix, until they do.
    """

    products: int = 40
    failure: float = 1e-6

    def _lowest(
        self, state: states.State, rows: np.ndarray, gradients: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        releases, problem = self.measured.releases, self.measured.problem
        assert isinstance(releases, Separate)
        able = releases.payable("hessian", rows)
        asked, gradients = state.kept(rows, able, "budget"), gradients[able]
        x = state.x[asked]
        if not len(asked):
            return asked, np.empty(0), x
        times, diagonal = releases.products(problem.hessian_products, x, asked), problem.regulariser_hessian(x)
        starts, steps = releases.directions(x.shape[1], asked), self.products
        while True:
            values, lowest, directions = lanczos(lambda v: times(v) + diagonal * v, starts, steps, self.failure)
            if not ((values >= -self.tolerance) & (lowest < -self.tolerance)).any() or steps >= x.shape[1]:
                break
            steps = min(2 * steps, x.shape[1])
        values = np.where(values < -self.tolerance, values, lowest)  # a direction down, or a bound to stop by
        sound = states.within_bounds(values) & states.within_bounds(directions)
        values, directions, gradients = values[sound], directions[sound], gradients[sound]
        uphill = (directions * gradients).sum(axis=1, keepdims=True) > 0
        return state.kept(asked, sound, "diverged"), values, np.where(uphill, -directions, directions)
