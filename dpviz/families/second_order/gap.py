"""How far a random start is from the minimum: a private release of the objective there.

At x₀ = 0 the objective is the same for every data set, and so is the bound on f(x₀) - inf f. Elsewhere the bound that
holds for every data set may be several times what it is, and the number of iterations, over which the budget is split,
with it.
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
from dpviz.problems.nonconvex.nonconvex import NonconvexModel

SHARE = 0.02  # of the budget, for the release: one number, so its noise is small
UNDERESTIMATE = 1e-3  # probability that the released gap is below the true one
_LEAST = 1e-3  # of a gap


def released(
    problem: NonconvexModel, epsilon: float, seed: int | None, tables: Mapping[str, np.ndarray] = NO_TABLES
) -> float:
    """The gap Γ = f̃ + b ln(1/(2ζ)) - inf, from a Laplace release f̃ = f(x₀) + Lap(b) that costs `epsilon`; private.

    Replacing a row changes the mean loss at x₀ by at most Δ = `Facts.value_range`/n, so b = Δ/epsilon. The margin makes
    the result an under-estimate with probability at most ζ = 0.001; the published algorithm has none, and is one half
    of the time (Gao and Wright 2023, eq. 3). At most the bound that holds for every data set. Laplace noise, because
    its ε comes off every budget that Gaussian runs can have, (ε, δ) included.

    seed : the same data, model and epsilon with the same seed repeat the release; with anything else, the noise is
        another one. None: drawn afresh from the operating system's randomness.

    Raises UserError if an uploaded table is missing, epsilon is not positive, or the start is 0, where it says nothing.
    """
    if not 0 < epsilon < math.inf:
        raise UserError("Releasing the gap needs a positive part of the budget.", title="No budget for the gap")
    if problem.start == "zero":
        raise UserError(
            "There the objective is the same for every data set. Leave the gap empty.", title="The start is 0"
        )
    before = problem.replaced(gap=None, gap_cost=None)  # the rows do not depend on it
    event, facts, risk = Laplace(epsilon), before.facts(), before.build(tables)
    x = facts.starting_point(1)
    query = risk.mean_value(x)._replace(norm="l1")  # one number: all norms are alike
    release = f"gap\n{epsilon!r}\n{before.to_json()}"
    mechanisms = Mechanisms(Ledger(FixedEvents((event,)), 1), drawn_seed(seed), Purpose.FACTS, release)
    ((noisy,),) = mechanisms.laplace(query, event)
    margin = noise_scale(event, float(np.max(query.sensitivity))) * math.log(1 / (2 * UNDERESTIMATE))
    (penalty,) = risk.penalty.value(x)
    return min(max(float(noisy + penalty) + margin - facts.lowest, _LEAST), facts.gap)


def suggested_cost(budget: Budget) -> float:
    """The ε of a release that uses about a fiftieth of the budget. Raises UserError under pure ε, which the Gaussian
    noise of the run cannot meet, and without a budget."""
    if not budget.private:
        raise UserError("Without a budget there is nothing to spend on the gap.", title="No budget for the gap")
    rho = budget.gaussian_rho(budget.amount)
    return SHARE * budget.total_epsilon if budget.total_epsilon is not None else math.sqrt(2 * SHARE * rho)
