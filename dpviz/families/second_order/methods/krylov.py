"""The curvature test for many columns: a few products with a noisy Hessian instead of all its entries."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpviz.checkpoints import Parts
from dpviz.families.second_order.methods.releases import Separate
from dpviz.families.second_order.methods.states import State, within_bounds
from dpviz.families.second_order.methods.steps import CurvatureTest
from dpviz.problems.nonconvex.nonconvex_risk import MOST_COLUMNS, NonconvexFacts
from dpviz.problems.nonconvex.symmetric import Shape, lanczos
from dpviz.specification import number

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
        self, state: State, rows: np.ndarray, gradients: np.ndarray
    ) -> Parts[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        releases, problem = self.measured.releases, self.measured.problem
        assert isinstance(releases, Separate)
        able = releases.payable("hessian", rows)
        asked, gradients = state.kept(rows, able, "budget"), gradients[able]
        x = state.x[asked]
        if not len(asked):
            return asked, np.empty(0), x
        times, diagonal = releases.products(problem.hessian_products, x, asked), problem.regulariser_hessian(x)
        seconds = problem.product_seconds(len(asked))
        starts, steps = releases.directions(x.shape[1], asked), self.products
        while True:
            values, lowest, directions = yield from lanczos(
                lambda v: times(v) + diagonal * v, starts, steps, seconds, self.failure
            )
            if not ((values >= -self.tolerance) & (lowest < -self.tolerance)).any() or steps >= x.shape[1]:
                break
            steps = min(2 * steps, x.shape[1])
        values = np.where(values < -self.tolerance, values, lowest)  # a direction down, or a bound to stop by
        sound = within_bounds(values) & within_bounds(directions)
        values, directions, gradients = values[sound], directions[sound], gradients[sound]
        uphill = (directions * gradients).sum(axis=1, keepdims=True) > 0
        return state.kept(asked, sound, "diverged"), values, np.where(uphill, -directions, directions)
