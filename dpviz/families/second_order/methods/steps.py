"""Parts of an iteration: the release of a gradient, the curvature test, and the rule for the length of a step.

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
    """Released gradients and Hessians of a problem, with the parts of the objective that need no noise.

    at_state : True if the gradient's noise follows the sensitivity at the present point, which is public.
    """

    problem: NonconvexRisk
    releases: Releases
    shape: Shape
    at_state: bool

    def gradient(self, state: states.State, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Release gradients; return those of `rows` that could pay and did not diverge, and their noisy gradients (R',
        d)."""
        rows = state.keep(rows, self.releases.payable("gradient", rows), "budget")
        x = state.x[rows]
        query = self.problem.mean_gradient(x, self.releases.sample(rows), self.at_state)
        noisy = self.releases.gaussian(query, "gradient", rows) + self.problem.regulariser_gradient(x)
        is_finite = states.within_bounds(noisy)
        with np.errstate(over="ignore"):
            state.released[states.NOISY_GRADIENT.name][rows] = np.linalg.norm(noisy, axis=1)
        return state.keep(rows, is_finite, "diverged"), noisy[is_finite]

    def hessian(self, state: states.State, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Release Hessians; return those of `rows` that could pay and did not diverge, (R',) bool over `rows` that
        marks them, and their noisy Hessians (R'', d, d)."""
        is_released = self.releases.payable("hessian", rows)
        paying = state.keep(rows, is_released, "budget")
        x = state.x[paying]
        if not len(paying):
            return paying, is_released, np.empty((0, *2 * x.shape[1:]))
        query = self.problem.hessian(x, self.releases.sample(paying), self.shape)
        noisy = self.releases.gaussian(query, "hessian", paying)
        is_finite = states.within_bounds(noisy)
        is_released[is_released] = is_finite
        matrices = unpacked(noisy[is_finite], self.shape)
        diagonal = np.arange(x.shape[1])
        matrices[:, diagonal, diagonal] += self.problem.regulariser_hessian(x[is_finite])
        return state.keep(paying, is_finite, "diverged"), is_released, matrices


@dataclass(frozen=True)
class Certificate:
    """Test of a released λ_min in one run: from a certain level on it shows that λ_min is at least -target.

    noise : (T,) its scale. failure : probability α that a replicate ever passes wrongly, over any number of tests:
        α/(k(k + 1)) of it at the k-th test. counts : tests so far, by replicate.
    """

    noise: np.ndarray
    target: float
    failure: float
    counts: Counter[int] = field(default_factory=Counter)

    def levels(self, iteration: int, rows: np.ndarray) -> np.ndarray:
        """Count one more test of these replicates and return (R',) the levels that their noisy λ_min must reach."""
        self.counts.update(rows.tolist())
        times = np.array([self.counts[r] for r in rows.tolist()], dtype=float)
        return self.noise[iteration - 1] * -ndtri(self.failure / (times * (times + 1))) - self.target


@dataclass(frozen=True)
class CurvatureTest:
    """Test that stops replicates at which a released Hessian shows no curvature below -tolerance.

    certificate : test of λ_min alone, which is released first and may stop a replicate without a matrix; None: none.
    """

    measured: Measured
    tolerance: float
    certificate: Certificate | None = None

    def failing(
        self, state: states.State, rows: np.ndarray, gradients: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Stop those of `rows` that pass the test; return the others, their |λ̃| (R',) and a direction (R', d) of this
        negative curvature, along which the noisy gradients (R', d) do not point uphill."""
        if self.certificate is not None:
            rows, gradients = self._uncertified(state, rows, gradients, self.certificate)
        rows, values, directions = self._lowest(state, rows, gradients)
        if not len(rows):
            return rows, np.empty(0), gradients[:0]
        state.released[states.NOISY_CURVATURE.name][rows] = values
        is_flat = values >= -self.tolerance
        state.stop(rows[is_flat])
        return rows[~is_flat], -values[~is_flat], directions[~is_flat]

    def _lowest(
        self, state: states.State, rows: np.ndarray, gradients: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return those of `rows` with a release, the smallest eigenvalue of their noisy Hessian (R',), and its unit
        vector (R', d)."""
        rows, is_released, matrices = self.measured.hessian(state, rows)
        pairs = sliced(eigenpairs, 2 * eigenvalue_seconds(matrices.shape[-1]), matrices, gradients[is_released])
        return rows, pairs[:, 0], pairs[:, 1:]

    def _uncertified(
        self, state: states.State, rows: np.ndarray, gradients: np.ndarray, certificate: Certificate
    ) -> tuple[np.ndarray, np.ndarray]:
        """Release λ_min, stop those of `rows` that pass the certificate, and return the others with their gradients."""
        releases, problem = self.measured.releases, self.measured.problem
        can_pay = releases.payable("certificate", rows)
        rows, gradients = state.keep(rows, can_pay, "budget"), gradients[can_pay]
        if not len(rows):
            return rows, gradients
        noisy = releases.gaussian(problem.smallest_eigenvalue(state.x[rows]), "certificate", rows)[:, 0]
        state.released[states.NOISY_CURVATURE.name][rows] = noisy
        is_certified = noisy >= certificate.levels(state.iteration, rows)
        state.stop(rows[is_certified])
        return rows[~is_certified], gradients[~is_certified]


class Anywhere:
    """Curvature test that stops every replicate: first order only."""

    def failing(
        self, state: states.State, rows: np.ndarray, gradients: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Stop every replicate in `rows`; return no rows."""
        state.stop(rows)
        return rows[:0], np.empty(0), gradients[:0]


def eigenpairs(matrices: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """Return `smallest_eigenpair` as (R, 1 + d): the eigenvalues, and their vectors."""
    values, directions = smallest_eigenpair(matrices, gradients)
    return np.column_stack([values, directions])


class StepRule(Protocol):
    """Rule for the length of a step. `rows` (R',) are the replicates that step, and may be empty."""

    def gradient(self, state: states.State, rows: np.ndarray, noisy: np.ndarray) -> None:
        """Step against the noisy gradients (R', d)."""

    def curvature(self, state: states.State, rows: np.ndarray, size: np.ndarray, direction: np.ndarray) -> None:
        """Step along unit vectors (R', d) of curvature -size (R',)."""


@dataclass(frozen=True)
class ShortSteps(StepRule):
    """Steps 1/G and 2|λ̃|/M, whose decrease follows from the constants without another release."""

    analysis: Analysis

    def gradient(self, state: states.State, rows: np.ndarray, noisy: np.ndarray) -> None:
        state.move(rows, -noisy / self.analysis.smoothness, states.GRADIENT)

    def curvature(self, state: states.State, rows: np.ndarray, size: np.ndarray, direction: np.ndarray) -> None:
        state.move(rows, (2 * size / self.analysis.hessian_lipschitz)[:, None] * direction, states.CURVATURE)


@dataclass(frozen=True)
class Backtracking(StepRule):
    """Line search: the longest candidate along which f seems to fall enough, by the sparse vector technique; if there
    is none, the step that is guaranteed to decrease f."""

    search: Search
    problem: NonconvexRisk
    releases: Separate

    def gradient(self, state: states.State, rows: np.ndarray, noisy: np.ndarray) -> None:
        steps = np.tile(self.search.gradient_steps, (len(rows), 1))
        decrease = self.search.ladder.c_g * (noisy * noisy).sum(axis=1, keepdims=True)
        fallback = np.full(len(rows), self.search.gradient_fallback)
        self._step(state, rows, -noisy, steps, np.tile(decrease, steps.shape[1]), fallback, states.GRADIENT)

    def curvature(self, state: states.State, rows: np.ndarray, size: np.ndarray, direction: np.ndarray) -> None:
        steps = size[:, None] * self.search.curvature_steps
        decrease = self.search.ladder.c_h / 2 * steps * size[:, None]
        self._step(state, rows, direction, steps, decrease, size * self.search.curvature_fallback, states.CURVATURE)

    def _step(
        self,
        state: states.State,
        rows: np.ndarray,
        direction: np.ndarray,
        steps: np.ndarray,
        decrease: np.ndarray,
        fallback: np.ndarray,
        kind: int,
    ) -> None:
        """Take the first of the steps (R', k) for which (f(x) - f(x + step · direction))/step - decrease seems to be at
        least 0; if there is none, the step `fallback` (R',)."""
        can_pay = self.releases.payable("search", rows)
        rows = state.keep(rows, can_pay, "budget")
        if not len(rows):
            return
        direction, steps, decrease, fallback = (part[can_pay] for part in (direction, steps, decrease, fallback))
        query = self.problem.decrease(state.x[rows], direction, steps)
        first = self.releases.above_threshold(query._replace(value=query.value - decrease), rows)
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
    """Return the number of products with a noisy Hessian for a curvature test; None: all its entries are released.

    stated : the setting, None for the choice by theory.
    """
    if stated is None and (shape != "goe" or facts.d <= MOST_COLUMNS):
        return None
    return min(stated or USUAL_PRODUCTS, facts.d)


def check_noise(stated: int | None, shape: Shape) -> None:
    """Raise ValueError for products with noise that is not the same in all directions."""
    if stated is not None and shape != "goe":
        raise ValueError("products with a Hessian need noise that is even in all directions (GOE)")


@dataclass(frozen=True)
class KrylovTest(CurvatureTest):
    """Curvature test from a few products with the noisy Hessian, whose noise is drawn only along them: no matrix is
    formed. The eigenvalue by the products is never below that of the noisy Hessian; a run is stopped by a lower bound
    on it, which holds but for probability `failure` (THEORY.md, 3.6).

    products : number in each test; if they do not decide it, it is doubled for the same matrix, until they do.
    """

    products: int = 40
    failure: float = 1e-6

    def _lowest(
        self, state: states.State, rows: np.ndarray, gradients: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        releases, problem = self.measured.releases, self.measured.problem
        assert isinstance(releases, Separate)
        can_pay = releases.payable("hessian", rows)
        paying, gradients = state.keep(rows, can_pay, "budget"), gradients[can_pay]
        x = state.x[paying]
        if not len(paying):
            return paying, np.empty(0), x
        times, diagonal = releases.products(problem.hessian_products, x, paying), problem.regulariser_hessian(x)
        starts, steps = releases.directions(x.shape[1], paying), self.products
        while True:
            values, lowest, directions = lanczos(lambda v: times(v) + diagonal * v, starts, steps, self.failure)
            if not ((values >= -self.tolerance) & (lowest < -self.tolerance)).any() or steps >= x.shape[1]:
                break
            steps = min(2 * steps, x.shape[1])
        values = np.where(values < -self.tolerance, values, lowest)  # a direction down, or a bound to stop by
        is_finite = states.within_bounds(values) & states.within_bounds(directions)
        values, directions, gradients = values[is_finite], directions[is_finite], gradients[is_finite]
        is_uphill = (directions * gradients).sum(axis=1, keepdims=True) > 0
        return state.keep(paying, is_finite, "diverged"), values, np.where(is_uphill, -directions, directions)
