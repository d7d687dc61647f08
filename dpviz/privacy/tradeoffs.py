"""What a guarantee means to an attacker: trade-off curves of tests, and their largest advantage."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from dpviz.privacy.accounting import accountants, closed_forms, per_event, pld
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.accounting.rdp_tradeoffs import rdp_tradeoff, zcdp_advantage, zcdp_tradeoff
from dpviz.privacy.budgets import (
    ApproximateDP,
    Budget,
    GaussianDP,
    PureDP,
    RenyiDP,
    TradeOff,
    ZeroConcentratedDP,
)
from dpviz.privacy.events import Event, ExpMech, Gaussian, Laplace


def tradeoff(events: Sequence[Event], false_positive_rates: ArrayLike) -> Floats:
    """Smallest false negative rate that a test between two neighbouring data sets can have at each false positive rate.

    f(α) = max(0, sup_ε 1 - δ(ε) - e^ε α) over the composed privacy profile (Dong, Roth, Su 2019), the smaller one of
    the two directions: the attacker may take either data set as the null. Exact for Gaussian noise on all rows and for
    one release of Laplace noise or of the exponential mechanism; otherwise never above the true f, so an attack looks
    stronger.
    """
    alpha = np.asarray(false_positive_rates, dtype=float)
    if not events:
        return 1 - alpha
    pure, mu = accountants.total(events, "epsilon"), accountants.total(events, "mu")
    bounds = [closed_forms.pure_tradeoff(pure, alpha), closed_forms.gdp_tradeoff(mu, alpha)]
    if len(events) == 1 and isinstance(events[0], Laplace):
        bounds.append(closed_forms.laplace_tradeoff(pure, alpha))
    elif len(events) == 1 and isinstance(events[0], ExpMech):
        bounds.append(closed_forms.exponential_tradeoff(pure, alpha))
    elif profiles := _composed_profiles(tuple(events)):
        bounds.append(_tradeoff_of_profiles(profiles, alpha.ravel()).reshape(alpha.shape))
    elif (rho := accountants.total(events, "rho")) < math.inf and mu == math.inf:
        bounds.append(zcdp_tradeoff(rho, alpha))
    return np.max(bounds, axis=0)


def _tradeoff_of_profiles(profiles: Sequence[per_event.Profile], alpha: Floats) -> Floats:
    """f at each α, (k,). What is maximised is concave in e^ε, so the best interval of a coarse grid is refined."""
    reach = 1.0
    while reach < 512 and any(profile(reach) > profile(2 * reach) + 1e-12 for profile in profiles):
        reach *= 2
    rows = np.arange(len(alpha))
    found = []
    for profile in profiles:
        low, high = np.full(len(alpha), -reach), np.full(len(alpha), reach)
        for _ in range(5):
            grid = np.linspace(low, high, 65, axis=-1)
            heights = 1 - profile(grid) - np.exp(grid) * alpha[:, None]
            best = heights.argmax(axis=1)
            low, high = grid[rows, np.maximum(best - 1, 0)], grid[rows, np.minimum(best + 1, 64)]
        found.append(heights.max(axis=1))
    return np.clip(np.min(found, axis=0) - 1e-15, 0.0, 1.0)  # rounding adds nothing


def advantage(events: Sequence[Event]) -> float:
    """The largest TPR - FPR of any such test: δ(0), the same in both directions."""
    if not events:
        return 0.0
    pure, mu = accountants.total(events, "epsilon"), accountants.total(events, "mu")
    bounds = [closed_forms.pure_delta(pure, 0.0), closed_forms.gdp_delta(mu, 0.0)]
    bounds += [profile(0.0) for profile in _composed_profiles(tuple(events))]
    if mu == math.inf:
        bounds.append(np.asarray(zcdp_advantage(accountants.total(events, "rho"))))
    return float(np.min(bounds))


@lru_cache(6)
def _composed_profiles(events: tuple[Event, ...]) -> tuple[per_event.Profile, ...]:
    """δ(ε) of all events together in each direction, for all real ε, accurate to about 1e-8; none where nothing tells
    or GDP is exact."""
    runs, _ = accountants.runs_of(events)
    if all(isinstance(release, Gaussian) for release, _ in runs):
        return ()
    try:
        if len(runs) == 1 and runs[0][1] == 1:
            return per_event.directions(runs[0][0])
        composed = pld.compose(runs, 1e-6)
    except (pld.AccountingLimit, TypeError):  # a bare ρ has no profile
        return ()
    if len(composed) == 1:
        return (per_event.mirrored(composed[0].delta),)
    remove, add = composed
    return per_event.mirrored(remove.delta, add.delta), per_event.mirrored(add.delta, remove.delta)


def budget_tradeoff(budget: Budget, false_positive_rates: ArrayLike) -> Floats:
    """Smallest false negative rate that a guarantee leaves an attacker at each false positive rate, for any algorithm.

    Exact worst case for pure ε, (ε, δ) and μ; for ρ a lower bound. Without a guarantee it is 0.
    """
    alpha = np.asarray(false_positive_rates, dtype=float)
    if isinstance(budget, PureDP):
        return closed_forms.pure_tradeoff(budget.epsilon, alpha)
    if isinstance(budget, GaussianDP):
        return closed_forms.gdp_tradeoff(budget.mu, alpha)
    if isinstance(budget, ApproximateDP):
        grows, falls = math.exp(budget.epsilon), math.exp(-budget.epsilon)
        left = 1 - budget.delta
        return np.maximum(0.0, np.maximum(left - grows * alpha, falls * (left - alpha)))
    if isinstance(budget, ZeroConcentratedDP):
        return zcdp_tradeoff(budget.rho, alpha)
    if isinstance(budget, RenyiDP):
        return rdp_tradeoff(np.array([budget.epsilon]), np.array([budget.order]), alpha)
    return _through_point(budget, alpha) if isinstance(budget, TradeOff) else np.zeros_like(alpha)


def _through_point(budget: TradeOff, alpha: Floats) -> Floats:
    """The lowest that a trade-off function can be that is at least β₀ at α₀: it is convex, so it lies above the lines
    from (1, 0) and from (0, 1) through that point where they are extended, and it is its own inverse."""
    a, b = budget.false_positive_rate, 1 - budget.true_positive_rate

    def one_way(a: float, b: float) -> Floats:
        return np.maximum(0.0, np.where(alpha <= a, b * (1 - alpha) / (1 - a), 1 - alpha * (1 - b) / a))

    return np.maximum(one_way(a, b), one_way(b, a))


@lru_cache(64)
def budget_advantage(budget: Budget) -> float:
    """The largest TPR - FPR that a guarantee leaves any test between two neighbouring data sets: the worst δ(0)."""
    if isinstance(budget, PureDP):
        return float(closed_forms.pure_delta(budget.epsilon, 0.0))
    if isinstance(budget, GaussianDP):
        return float(closed_forms.gdp_delta(budget.mu, 0.0))
    if isinstance(budget, ApproximateDP):
        return budget.delta + (1 - budget.delta) * float(closed_forms.pure_delta(budget.epsilon, 0.0))
    if isinstance(budget, ZeroConcentratedDP):
        return zcdp_advantage(budget.rho)
    if isinstance(budget, RenyiDP | TradeOff):
        # f falls, so between two grid points a < b the advantage is at most that at b plus b - a.
        alpha = np.concatenate([[0.0], np.geomspace(1e-9, 1e-3, 400), np.linspace(1e-3, 1.0, 4000)[1:]])
        heights = 1 - alpha - budget_tradeoff(budget, alpha)
        return float(np.clip((heights[1:] + np.diff(alpha)).max(), 0.0, 1.0))
    return 1.0
