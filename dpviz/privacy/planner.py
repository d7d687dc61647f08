"""The planner: budgets to events. How much of a budget each step gets, and the noise that follows."""

import math
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.optimize import brentq

from dpviz.errors import UserError
from dpviz.privacy import accounting, closed_forms, pld
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.privacy.closed_forms import Floats
from dpviz.privacy.events import Event, Gaussian, Laplace, Sub


def laplace_events(epsilon: Floats, m: int, n: int) -> tuple[Event, ...]:
    """One Laplace release per step on m of n rows, step t costing ε_t after amplification by sampling; (T,) in.

    Kuru et al. 2022, equation (12); m = n draws no batch. Equal costs share one event.
    """
    inner = epsilon if m == n else closed_forms.amplified_inverse(epsilon, m, n)
    return _events(inner, Laplace, m, n)


def gaussian_events(rho: Floats, m: int, n: int) -> tuple[Event, ...]:
    """One Gaussian release per step on m of n rows, ρ_t = μ_t²/2 before any sampling; (T,) in."""
    return _events(np.sqrt(2 * rho), Gaussian, m, n)


def _events(parameters: Floats, kind: type[Laplace] | type[Gaussian], m: int, n: int) -> tuple[Event, ...]:
    made: dict[float, Event] = {}
    for value in parameters.tolist():
        if value not in made:
            made[value] = kind(value) if m == n else Sub("wor", m, n, kind(value))
    return tuple(made[value] for value in parameters.tolist())


def calibrate_laplace(budget: Budget, weights: Floats, m: int, n: int, prior: tuple[Event, ...] = ()) -> Floats:
    """(T,) costs ε_t, in proportion to `weights`, that use up the budget in its own currency.

    prior : events charged before; the budget covers them, too. Raises UserError if they leave nothing.
    """
    if isinstance(budget, NoPrivacy):
        return np.full(len(weights), math.inf)
    shares = np.asarray(weights, dtype=float) / np.sum(weights)
    if isinstance(budget, PureDP):
        return shares * left(budget, prior)

    delta = budget.delta if isinstance(budget, ApproximateDP) else None
    return shares * _largest_multiple("laplace", tuple(shares.tolist()), m, n, type(budget), delta, left(budget, prior))


def calibrate_gaussian(budget: Budget, weights: Floats, m: int, n: int, prior: tuple[Event, ...] = ()) -> Floats:
    """(T,) costs ρ_t, before any sampling and in proportion to `weights`, that use up the budget.

    Raises UserError under pure ε, which Gaussian noise never gives, and for batches under ρ or μ.
    """
    if isinstance(budget, NoPrivacy):
        return np.full(len(weights), math.inf)
    if isinstance(budget, PureDP):
        raise UserError(
            "Gaussian noise never gives pure ε-DP. State the budget as (ε, δ), ρ or μ, or choose Laplace noise.",
            title="This budget does not exist for Gaussian noise",
        )
    shares = np.asarray(weights, dtype=float) / np.sum(weights)
    remaining = left(budget, prior)
    if m == n:
        if isinstance(budget, ApproximateDP):
            return shares * closed_forms.gdp_mu(remaining, budget.delta) ** 2 / 2
        return shares * (remaining if isinstance(budget, ZeroConcentratedDP) else remaining / 2)
    if not isinstance(budget, ApproximateDP):
        raise UserError(
            "For Gaussian noise on batches, ρ and μ do not shrink with the batch. Use all rows (m = n), or state the "
            "budget as (ε, δ).",
            title="No amplification in this currency",
        )

    return shares * _largest_multiple("gaussian", tuple(shares.tolist()), m, n, ApproximateDP, budget.delta, remaining)


def left(budget: Budget, prior: tuple[Event, ...]) -> float:
    """What prior events leave of a budget, in a unit that adds up: ε, ρ, or μ². Raises UserError if nothing."""
    if isinstance(budget, (PureDP, ApproximateDP)):
        remaining = budget.epsilon - accounting.total(prior, "epsilon")
    elif isinstance(budget, ZeroConcentratedDP):
        remaining = budget.rho - accounting.total(prior, "rho")
    else:
        assert isinstance(budget, GaussianDP)
        remaining = budget.mu**2 - accounting.total(prior, "mu") ** 2
    if not remaining > 0:
        raise UserError(
            "What was released before the run has used up the whole budget. Raise the budget, or go back to constants "
            "that cost nothing.",
            title="Nothing is left for the run",
        )
    return remaining


@lru_cache(512)
def _largest_multiple(
    noise: Literal["laplace", "gaussian"],
    shares: tuple[float, ...],
    m: int,
    n: int,
    currency: type[Budget],
    delta: float | None,
    target: float,
) -> float:
    """The largest multiple of the shares (which sum to 1) whose events cost at most `target`, rounded down."""
    build = laplace_events if noise == "laplace" else gaussian_events
    weights = np.array(shares)

    def excess(log_multiple: float) -> float:
        return _cost(build(weights * math.exp(log_multiple), m, n), currency, delta) - target

    high = math.log(target)
    while excess(high) < 0:
        high += 1.0
    low = high - 1.0
    while excess(low) > 0:
        low -= 1.0
    found = float(brentq(excess, low, high, xtol=1e-7, rtol=1e-14))
    while excess(found) > 0:  # the root is known to 1e-7; the budget must not be exceeded
        found -= 1e-7
    return math.exp(found)


def _cost(events: tuple[Event, ...], currency: type[Budget], delta: float | None) -> float:
    """The cost of events in the unit of `left`."""
    if currency is ZeroConcentratedDP:
        return accounting.total(events, "rho")
    if currency is GaussianDP:
        return accounting.total(events, "mu") ** 2
    assert delta is not None
    groups = pld.grouped(events)
    bounds = [accounting.total(events, "epsilon")]
    try:
        bounds.append(pld.epsilon_at(groups, delta))
    except pld.AccountingLimit:
        bounds.append(closed_forms.zcdp_epsilon(accounting.total(events, "rho"), delta))
    return min(bounds)
