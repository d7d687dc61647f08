"""Where the smoothness L of a linear model comes from: an estimate from the data, or a private release.

Both use λ_max(UᵀU/n), the largest eigenvalue of the rows' second moment: L = c λ_max + 2λ, because the loss has a
second derivative of at most c: 1/4 for the logistic, 1 for the squared and the Huber loss. Too small an L costs
accuracy, never privacy.
"""

import math
from collections.abc import Mapping

import numpy as np

from dpviz.datasets.base import NO_TABLES
from dpviz.errors import UserError
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Laplace
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms, Purpose, drawn_seed, noise_scale
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.linear.linear_base import LinearModel

SHARE = 0.05  # of the budget, for the release
UNDERESTIMATE = 1e-3  # probability that the released L is below the true one


def estimated(problem: LinearModel, tables: Mapping[str, np.ndarray] = NO_TABLES) -> float:
    """L computed from the data: NOT private. Raises UserError if an uploaded table is missing."""
    (largest,) = _before(problem).build(tables).curvature().value
    return problem.smoothness_of(float(largest))


def released(
    problem: LinearModel, epsilon: float, seed: int | None, tables: Mapping[str, np.ndarray] = NO_TABLES
) -> float:
    """L from a Laplace release that costs `epsilon`, with a margin upwards; private.

    Replacing a row changes λ_max by at most R²/n. The noise has scale b = R²/(n ε); the margin b ln(1/(2 β)) makes the
    result an under-estimate with probability at most β = 0.001. Clipped to [0, R²], which holds for any data
    (THEORY.md, section 10, item 4).

    seed : the same data, model and epsilon with the same seed repeat the release; with anything else, the noise is
        another one. None: drawn afresh from the operating system's randomness.

    Raises UserError if an uploaded table is missing or epsilon is not positive.
    """
    if not epsilon > 0:
        raise UserError("Releasing L needs a positive part of the budget.", title="No budget for L")
    event = Laplace(epsilon)
    before = _before(problem)
    query = before.build(tables).curvature()
    scale = noise_scale(event, float(query.sensitivity))
    release = f"smoothness\n{epsilon!r}\n{before.to_json()}"
    mechanisms = Mechanisms(Ledger(FixedEvents((event,)), 1), drawn_seed(seed), Purpose.FACTS, release)
    (noisy,) = mechanisms.laplace(query, event)
    margin = scale * math.log(1 / (2 * UNDERESTIMATE))
    return problem.smoothness_of(min(max(float(noisy) + margin, 0.0), problem.feature_radius("l2") ** 2))


def suggested_cost(budget: Budget, share: float = SHARE) -> float:
    """The ε of a release of L that uses about `share` of the budget, in the budget's own currency."""
    if budget.total_epsilon is not None:
        return share * budget.total_epsilon
    if budget.total_rho is not None:
        return math.sqrt(2 * share * budget.total_rho)
    raise UserError("Without a budget there is nothing to spend on L.", title="No budget for L")


def _before(problem: LinearModel) -> LinearModel:
    """The problem as it is before any L is known: the rows and their declared radius do not depend on it."""
    return problem.replaced(smoothness=None, smoothness_source="bounds", smoothness_cost=None)


def assumed(problem: ProblemSpecification) -> tuple[str, ...]:
    """Of L and E₀, those that are less than what follows from the ranges: error bounds rest on them."""
    if not isinstance(problem, LinearModel):
        return ()
    own = {"initial_gap": None, "smoothness": None, "smoothness_cost": None, "smoothness_source": "bounds"}
    facts, follows = problem.facts(), problem.replaced(**own).facts()
    short_start = facts.initial_gap < follows.initial_gap or facts.lyapunov < follows.lyapunov
    read = problem.smoothness_source != "released" and facts.smoothness < follows.smoothness
    return ("L",) * read + ("E₀",) * short_start
