"""Parts of an iteration: the release of a gradient, the curvature test, and the rule for the length of a step.

With many columns the test takes a few products with a noisy Hessian instead of all its entries.

A run has R replicates. Arguments `replicates` (R',) are the numbers of those concerned, ascending; other arguments with
the leading axis R' belong to them in this order. A replicate that cannot pay for a release, or diverges, ends.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from scipy.special import ndtri

from dpviz.checkpoints import compute_in_slices
from dpviz.families.second_order.methods.releases import (
    CURVATURE,
    GRADIENT,
    NOISY_CURVATURE,
    NOISY_GRADIENT,
    Releases,
    SeparateReleases,
    State,
    within_bounds,
)
from dpviz.families.second_order.theory import Analysis, Search
from dpviz.problems.nonconvex.nonconvex_risk import NonconvexRisk
from dpviz.problems.nonconvex.symmetric import Shape, eigenvalue_seconds, lanczos, smallest_eigenpair, unpacked
from dpviz.specification import number


@dataclass(frozen=True)
class NoisyDerivatives:
    """Releases of the gradients and Hessians of a problem; the regulariser, which reads no data, is added without
    noise.

    releases : pays for them. shape : of the noise on Hessians. at_state : True if the gradient's noise follows the
    sensitivity at the present point, which is public; else it is that of the largest sensitivity at any point.
    """

    problem: NonconvexRisk
    releases: Releases
    shape: Shape
    at_state: bool

    def gradient(self, state: State, replicates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Release the gradients at the points of these replicates.

        Return those that go on, and their noisy gradients (R', d).
        """
        replicates = state.keep(replicates, self.releases.payable("gradient", replicates), otherwise="budget")
        x = state.x[replicates]
        query = self.problem.mean_gradient(x, batch=self.releases.sample(replicates), at_state=self.at_state)
        noisy = self.releases.gaussian(query, "gradient", replicates) + self.problem.regulariser_gradient(x)
        is_finite = within_bounds(noisy)
        with np.errstate(over="ignore"):  # a diverging gradient's norm may be infinite
            state.released[NOISY_GRADIENT.name][replicates] = np.linalg.norm(noisy, axis=1)
        return state.keep(replicates, is_finite, otherwise="diverged"), noisy[is_finite]

    def hessian(self, state: State, replicates: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Release the Hessians at the points of these replicates.

        Return the R'' of them that go on; (R',) bool, True at those; and their noisy Hessians (R'', d, d).
        """
        goes_on = self.releases.payable("hessian", replicates)
        paying = state.keep(replicates, goes_on, otherwise="budget")
        x, d = state.x[paying], state.x.shape[1]
        if not len(paying):  # a query needs a replicate at least
            return paying, goes_on, np.empty((0, d, d))
        query = self.problem.hessian(x, batch=self.releases.sample(paying), shape=self.shape)
        noisy = self.releases.gaussian(query, "hessian", paying)  # the packed triangle of each paying replicate
        is_finite = within_bounds(noisy)
        goes_on[goes_on] = is_finite  # of those that pay, the ones that diverge do not go on, either
        matrices = unpacked(noisy[is_finite], self.shape)
        diagonal = np.arange(d)
        matrices[:, diagonal, diagonal] += self.problem.regulariser_hessian(x[is_finite])
        return state.keep(paying, is_finite, otherwise="diverged"), goes_on, matrices


@dataclass(frozen=True)
class Certificate:
    """Test of the released smallest eigenvalue λ_min of the Hessian: if its noisy value is high enough, λ_min is at
    least -target.

    noise : (T,) standard deviation of the noise on λ_min in each iteration. target : ε_H. counts : tests so far in this
        run, by replicate.
    failure : probability with which a replicate may ever pass wrongly, over any number of tests; the k-th test may use
        failure/(k(k + 1)) of it, which adds up to at most `failure`.
    """

    noise: np.ndarray
    target: float
    failure: float
    counts: Counter[int] = field(default_factory=Counter)

    def levels(self, iteration: int, replicates: np.ndarray) -> np.ndarray:
        """Count one more test of these replicates, and return (R',) the levels that their noisy λ_min must reach.

        If λ_min is below -target, the noise reaches such a level with the probability that this test may use at most.
        """
        self.counts.update(replicates.tolist())
        k = np.array([self.counts[r] for r in replicates.tolist()], dtype=float)
        # A standard normal number exceeds its quantile with the probability in ndtri(…).
        quantiles = -ndtri(self.failure / (k * (k + 1)))
        return self.noise[iteration - 1] * quantiles - self.target


@dataclass(frozen=True)
class CurvatureTest:
    """Test that stops replicates whose released Hessian has no eigenvalue below -tolerance.

    certificate : test of the smallest eigenvalue alone, which is released before the matrix and may stop a replicate
        without it; None for no such test.
    """

    derivatives: NoisyDerivatives
    tolerance: float
    certificate: Certificate | None = None

    def stop_passing(
        self, state: State, replicates: np.ndarray, gradients: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Stop those of `replicates` that pass the test; return the others with their negative curvature.

        Return (R'',) the others; (R'',) the size |λ̃| of their smallest eigenvalue λ̃ < 0; and (R'', d) a unit vector
        of this curvature, along which f does not rise to first order by the noisy gradients.

        gradients : (R', d) the noisy gradients of `replicates`.
        """
        if self.certificate is not None:
            releases, problem = self.derivatives.releases, self.derivatives.problem
            can_pay = releases.payable("certificate", replicates)
            replicates, gradients = state.keep(replicates, can_pay, otherwise="budget"), gradients[can_pay]
            if len(replicates):  # a query needs a replicate at least
                query = problem.smallest_eigenvalue(state.x[replicates])
                noisy = releases.gaussian(query, "certificate", replicates)[:, 0]  # from (R', 1)
                state.released[NOISY_CURVATURE.name][replicates] = noisy
                is_certified = noisy >= self.certificate.levels(state.iteration, replicates)
                state.stop(replicates[is_certified])
                replicates, gradients = replicates[~is_certified], gradients[~is_certified]
        replicates, values, directions = self._lowest(state, replicates, gradients)
        state.released[NOISY_CURVATURE.name][replicates] = values
        is_flat = values >= -self.tolerance
        state.stop(replicates[is_flat])
        return replicates[~is_flat], -values[~is_flat], directions[~is_flat]

    def _lowest(
        self, state: State, replicates: np.ndarray, gradients: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Release the Hessians of these replicates; return the R'' of them that go on, the smallest eigenvalue of each
        noisy Hessian (R'',), and its unit eigenvector (R'', d), which does not point uphill."""
        replicates, goes_on, matrices = self.derivatives.hessian(state, replicates)
        seconds = 2 * eigenvalue_seconds(matrices.shape[-1])  # for a replicate; with eigenvectors twice as long
        pairs = compute_in_slices(eigenpairs, seconds, matrices, gradients[goes_on])
        return replicates, pairs[:, 0], pairs[:, 1:]


class NoCurvatureTest:
    """Curvature test that every replicate passes: for methods that look at gradients only."""

    def stop_passing(
        self, state: State, replicates: np.ndarray, gradients: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Stop all of `replicates`; return those that fail, their curvatures and directions: three empty arrays."""
        state.stop(replicates)
        return replicates[:0], np.empty(0), gradients[:0]


def eigenpairs(matrices: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """Return (R, 1 + d): in the first column the smallest eigenvalues of matrices (R, d, d), then their unit
    eigenvectors, which do not point uphill by the gradients (R, d)."""
    values, directions = smallest_eigenpair(matrices, gradients)
    return np.column_stack([values, directions])


class StepRule(Protocol):
    """Rule for the length of a step. `replicates` are those that step; there may be none."""

    def gradient_step(self, state: State, replicates: np.ndarray, noisy: np.ndarray) -> None:
        """Step against the noisy gradients `noisy` (R', d)."""

    def curvature_step(self, state: State, replicates: np.ndarray, size: np.ndarray, direction: np.ndarray) -> None:
        """Step along the unit vectors `direction` (R', d), along which the curvature is -size, size (R',) positive."""


@dataclass(frozen=True)
class ShortSteps(StepRule):
    """Steps -g̃/G against a noisy gradient g̃ and of length 2|λ̃|/M along a curvature λ̃ < 0; G is an upper bound
    on the curvature of f, M the Lipschitz constant of its Hessian. That they decrease f follows from these, without
    another release."""

    analysis: Analysis

    def gradient_step(self, state: State, replicates: np.ndarray, noisy: np.ndarray) -> None:
        state.move(replicates, -noisy / self.analysis.smoothness, GRADIENT)

    def curvature_step(self, state: State, replicates: np.ndarray, size: np.ndarray, direction: np.ndarray) -> None:
        state.move(replicates, (2 * size / self.analysis.hessian_lipschitz)[:, None] * direction, CURVATURE)


@dataclass(frozen=True)
class Backtracking(StepRule):
    """Private line search: it takes the longest candidate step along which f seems to fall enough, by the sparse vector
    technique, or, if there is none, the step that is guaranteed to decrease f.

    search : the candidates, the decreases that are asked for (its `ladder`), and the guaranteed steps (`…_fallback`).
    """

    search: Search
    problem: NonconvexRisk
    releases: SeparateReleases

    def gradient_step(self, state: State, replicates: np.ndarray, noisy: np.ndarray) -> None:
        steps = np.tile(self.search.gradient_steps, (len(replicates), 1))
        decrease_per_step = self.search.ladder.c_g * (noisy * noisy).sum(axis=1, keepdims=True)  # c_g ‖g̃‖²
        decreases = np.tile(decrease_per_step, steps.shape[1])
        fallback = np.full(len(replicates), self.search.gradient_fallback)
        self._step(state, replicates, -noisy, steps, decreases, fallback, GRADIENT)

    def curvature_step(self, state: State, replicates: np.ndarray, size: np.ndarray, direction: np.ndarray) -> None:
        steps = size[:, None] * self.search.curvature_steps
        decreases = self.search.ladder.c_h / 2 * steps * size[:, None]  # c_H step |λ̃|/2
        fallback = size * self.search.curvature_fallback
        self._step(state, replicates, direction, steps, decreases, fallback, CURVATURE)

    def _step(
        self,
        state: State,
        replicates: np.ndarray,
        direction: np.ndarray,
        steps: np.ndarray,
        decreases: np.ndarray,
        fallback: np.ndarray,
        kind: int,
    ) -> None:
        """Take the first candidate step along which f seems to fall enough; if there is none, the step `fallback`.

        direction : (R', d). steps : (R', k) candidates, the longest first. decreases : (R', k) decrease of f per length
        of step that is asked of each, (f(x) - f(x + step · direction))/step. fallback : (R',). kind : of the step.
        """
        can_pay = self.releases.payable("search", replicates)
        replicates = state.keep(replicates, can_pay, otherwise="budget")
        if not len(replicates):  # a query needs a replicate at least
            return
        direction, steps, decreases, fallback = (part[can_pay] for part in (direction, steps, decreases, fallback))
        query = self.problem.decrease(state.x[replicates], direction, steps)  # per length of step
        query = query._replace(value=query.value - decreases)
        index = self.releases.above_threshold(query, replicates)  # -1: no step does
        step = np.where(index >= 0, steps[np.arange(len(replicates)), index], fallback)
        state.move(replicates, step[:, None] * direction, kind)


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


@dataclass(frozen=True)
class KrylovTest(CurvatureTest):
    """Curvature test from a few products with the noisy Hessian by Lanczos' method: no matrix is formed, and its noise
    is drawn only along the directions of the products (THEORY.md, 3.6).

    The products give a value that is never below the smallest eigenvalue of the noisy Hessian, and a lower bound on
    that eigenvalue. A value below -tolerance shows a direction of negative curvature; a lower bound above it stops the
    run.

    products : number of products at first; while these decide nothing for some replicate, the number is doubled, for
        the same noisy matrices. failure : probability that the lower bound of a test does not hold.
    """

    products: int = USUAL_PRODUCTS
    failure: float = 1e-6

    def _lowest(
        self, state: State, replicates: np.ndarray, gradients: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pay for the noisy Hessians of these replicates; return the R'' of them that go on, a value (R'',) that is
        below -tolerance only where the products show such a curvature, and a unit vector (R'', d) of it that does not
        point uphill."""
        releases, problem = self.derivatives.releases, self.derivatives.problem
        assert isinstance(releases, SeparateReleases)
        can_pay = releases.payable("hessian", replicates)
        paying, gradients = state.keep(replicates, can_pay, otherwise="budget"), gradients[can_pay]
        x = state.x[paying]
        if not len(paying):  # a query needs a replicate at least
            return paying, np.empty(0), x  # all empty
        count, d = self.products, x.shape[1]
        times_hessian = releases.products(problem.hessian_products, x, paying)  # the noisy one, from v to the product
        diagonal = problem.regulariser_hessian(x)
        starts = releases.directions(d, paying)  # random; Lanczos' method begins with them each time
        while True:
            values, lower_bounds, directions = lanczos(
                lambda v: times_hessian(v) + diagonal * v, starts, steps=count, failure=self.failure
            )
            is_undecided = (values >= -self.tolerance) & (lower_bounds < -self.tolerance)
            if not is_undecided.any() or count >= d:  # after d products the bound is the eigenvalue itself
                break
            count = min(2 * count, d)
        values = np.where(values < -self.tolerance, values, lower_bounds)  # a direction down, or a bound to stop by
        is_finite = within_bounds(values) & within_bounds(directions)
        values, directions, gradients = values[is_finite], directions[is_finite], gradients[is_finite]
        is_uphill = (directions * gradients).sum(axis=1, keepdims=True) > 0
        return state.keep(paying, is_finite, otherwise="diverged"), values, np.where(is_uphill, -directions, directions)
