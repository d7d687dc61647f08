"""Comparison of a budget split between gradients and Hessians with the even and the best ones, without a run; and a
private release of the gap f(x₀) - inf f at a random start.

At x₀ = 0 the objective is the same for every data set, and so is the bound on f(x₀) - inf f. Elsewhere the bound that
holds for every data set may be several times the gap, and so may the number of iterations, over which the budget is
split.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from dpviz.datasets.base import NO_TABLES
from dpviz.errors import UserError
from dpviz.experiments.plan import Plan
from dpviz.families.second_order import advice, planning, theory
from dpviz.families.second_order.advice import UNDERESTIMATE
from dpviz.families.second_order.methods.algorithms import EVEN, HESSIAN_LIMITS, Descent, NonconvexMethod
from dpviz.families.second_order.methods.trust_region import TrustRegion
from dpviz.privacy import events, ledger
from dpviz.privacy.budgets import Budget
from dpviz.privacy.mechanisms import Mechanisms, Purpose, drawn_seed, noise_scale
from dpviz.problems.nonconvex import nonconvex, nonconvex_risk

YOURS, EVENLY, SOONEST, PROVEN = "Yours", "Even", "Soonest W ≤ 2", "Soonest proven"
CURVE = np.linspace(*HESSIAN_LIMITS, 46)


class Split(NamedTuple):
    """Effect of a share of the Hessians, in the phase in which a run is most likely to stop.

    stopping : of that phase. needed : n_min/n, the factor of rows that the theorem needs; None where it promises
    nothing.
    """

    share: float
    stopping: theory.Stopping
    needed: float | None


class Compared(NamedTuple):
    """Splits by name, the present one first, and curves over the share of the Hessians.

    phase : the name of the phase they refer to. rows : n, if noise falls with 1/n, else None. assumed : constants that
    do not follow from the loss. curve : (k,) shares. green : (k,) the factor by which noise must fall until a run stops
    at once. proven : (k,) n_min/n, None where the theorem promises nothing.
    """

    splits: Mapping[str, Split]
    phase: str
    rows: int | None
    assumed: tuple[nonconvex_risk.Assumed, ...]
    curve: np.ndarray
    green: np.ndarray
    proven: np.ndarray | None


def compare(label: str, method: NonconvexMethod, plan: Plan) -> Compared | None:
    """Compare the plan's split of the budget with others; None where no Hessian is released, or without privacy."""
    facts = nonconvex_risk.NonconvexFacts.of(plan.facts)
    if not (plan.private and isinstance(method, Descent | TrustRegion) and "hessian" in plan.noise):
        return None
    forecast, analysis = advice.best(advice.phases(label, method, plan)), method.analysis(facts)
    current, stopping = share_of(plan), forecast.stopping

    def needed(share: float) -> float | None:
        if forecast.needed is None:
            return None
        return advice.guarantee(analysis, with_share(stopping, current, share), method, plan).factor

    shares = {YOURS: current, EVENLY: EVEN, SOONEST: soonest_green(stopping, current)}
    if forecast.needed is not None:
        shares[PROVEN] = soonest_proven(advice.guarantee(analysis, stopping, method, plan), current)
    return Compared(
        {name: Split(share, with_share(stopping, current, share), needed(share)) for name, share in shares.items()},
        forecast.name,
        facts.n if forecast.all_rows else None,
        facts.assumed,
        CURVE,
        np.array([with_share(stopping, current, share).recognised_at for share in CURVE.tolist()]),
        None if forecast.needed is None else np.array([needed(share) for share in CURVE.tolist()], dtype=float),
    )


def share_of(plan: Plan) -> float:
    """Return φ, the part of an iteration's budget for gradient and curvature test that goes to the test, in μ²."""
    facts = nonconvex_risk.NonconvexFacts.of(plan.facts)
    changes = planning.changes(facts)
    squares = {name: (changes[name] / plan.noise[name][0]) ** 2 for name in changes if name in plan.noise}
    return float(1 - squares["gradient"] / sum(squares.values()))


def with_share(stopping: theory.Stopping, current: float, share: float) -> theory.Stopping:
    """Return the stopping test with the noise that follows if the share of the Hessians changes from `current`."""
    return replace(
        stopping,
        gradient_noise=stopping.gradient_noise * math.sqrt((1 - current) / (1 - share)),
        hessian_noise=stopping.hessian_noise * math.sqrt(current / share),
    )


def soonest_green(stopping: theory.Stopping, current: float) -> float:
    """Return the share of the Hessians with which the most noise still lets a run stop at once."""

    def noise(share: float) -> float:
        return with_share(stopping, current, share).recognised_at

    return float(minimize_scalar(noise, bounds=HESSIAN_LIMITS, method="bounded", options={"xatol": 1e-3}).x)


def soonest_proven(guarantee: theory.Guarantee, current: float) -> float:
    """Return the share of the Hessians with which the theorem needs fewest rows, in closed form (THEORY.md, 5.6).

    guarantee : the theorem's conditions at the share `current`. Those on a line search do not depend on the share.
    """
    gradient = (guarantee.gradient_error / guarantee.allowed_gradient_error) ** 2 * (1 - current)
    hessian = (guarantee.hessian_error / guarantee.allowed_hessian_error) ** 2 * current
    low, high = HESSIAN_LIMITS
    return min(high, max(low, hessian / (gradient + hessian)))


SHARE = 0.02  # of the budget, for the release: one number, so its noise is small
_MIN_GAP = 1e-3


def released(
    problem: nonconvex.NonconvexModel, epsilon: float, seed: int | None, tables: Mapping[str, np.ndarray] = NO_TABLES
) -> float:
    """Release the gap Γ = f̃ + b ln(1/(2ζ)) - inf f, from f̃ = f(x₀) + Lap(b), at the price `epsilon`; private.

    Replacing a row changes the mean loss at x₀ by at most Δ = `Facts.value_range`/n, so b = Δ/epsilon. The margin makes
    the result an under-estimate with probability at most ζ = 0.001; the published algorithm has no margin, and its
    result is an under-estimate half of the time (Gao and Wright 2023, eq. 3). The result is at most the bound that
    holds for every data set. The noise is Laplace noise, because its ε can be deducted from every budget that Gaussian
    runs can have, (ε, δ) included.

    seed : the same data, model and epsilon with the same seed repeat the release; any other combination draws other
        noise. None: drawn afresh from the operating system's randomness.

    Raises UserError if an uploaded table is missing, epsilon is not positive, or the start is 0, where it says nothing.
    """
    if not 0 < epsilon < math.inf:
        raise UserError("Releasing the gap needs a positive part of the budget.", title="No budget for the gap")
    if problem.start == "zero":
        raise UserError(
            "There the objective is the same for every data set. Leave the gap empty.", title="The start is 0"
        )
    without_gap = problem.replaced(gap=None, gap_cost=None)  # the rows do not depend on it
    event, facts, risk = events.Laplace(epsilon), without_gap.facts(), without_gap.build(tables)
    x = facts.starting_point(1)
    query = risk.mean_value(x)._replace(norm="l1")  # one number: all norms are alike
    release = f"gap\n{epsilon!r}\n{without_gap.to_json()}"
    mechanisms = Mechanisms(ledger.Ledger(ledger.FixedEvents((event,)), 1), drawn_seed(seed), Purpose.FACTS, release)
    ((noisy,),) = mechanisms.laplace(query, event)
    margin = noise_scale(event, float(np.max(query.sensitivity))) * math.log(1 / (2 * UNDERESTIMATE))
    (penalty,) = risk.penalty.value(x)
    return min(max(float(noisy + penalty) + margin - facts.lowest, _MIN_GAP), facts.gap)


def suggested_cost(budget: Budget) -> float:
    """Return the ε of a release of the gap that uses about a fiftieth of the budget.

    Raises UserError under pure ε, which the Gaussian noise of the run cannot meet, and without a budget.
    """
    if not budget.private:
        raise UserError("Without a budget there is nothing to spend on the gap.", title="No budget for the gap")
    rho = budget.gaussian_rho(budget.amount)
    return SHARE * budget.total_epsilon if budget.total_epsilon is not None else math.sqrt(2 * SHARE * rho)
