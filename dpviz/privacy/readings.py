"""What a guarantee means: how well an attacker can do, and what a bare budget implies in other currencies."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from dpviz.privacy import accounting, closed_forms, costs, pld
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.privacy.closed_forms import Floats
from dpviz.privacy.events import Event, ExpMech, Gaussian, Laplace
from dpviz.privacy.tradeoffs import zcdp_advantage, zcdp_tradeoff


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
    pure, mu = accounting.total(events, "epsilon"), accounting.total(events, "mu")
    bounds = [closed_forms.pure_tradeoff(pure, alpha), closed_forms.gdp_tradeoff(mu, alpha)]
    if len(events) == 1 and isinstance(events[0], Laplace):
        bounds.append(closed_forms.laplace_tradeoff(pure, alpha))
    elif len(events) == 1 and isinstance(events[0], ExpMech):
        bounds.append(closed_forms.exponential_tradeoff(pure, alpha))
    elif profiles := _composed_profiles(tuple(events)):
        bounds.append(_tradeoff_of_profiles(profiles, alpha.ravel()).reshape(alpha.shape))
    elif (rho := accounting.total(events, "rho")) < math.inf and mu == math.inf:
        bounds.append(zcdp_tradeoff(rho, alpha))
    return np.max(bounds, axis=0)


def _tradeoff_of_profiles(profiles: Sequence[costs.Profile], alpha: Floats) -> Floats:
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
    pure, mu = accounting.total(events, "epsilon"), accounting.total(events, "mu")
    bounds = [closed_forms.pure_delta(pure, 0.0), closed_forms.gdp_delta(mu, 0.0)]
    bounds += [profile(0.0) for profile in _composed_profiles(tuple(events))]
    if mu == math.inf:
        bounds.append(np.asarray(zcdp_advantage(accounting.total(events, "rho"))))
    return float(np.min(bounds))


@lru_cache(16)
def _composed_profiles(events: tuple[Event, ...]) -> tuple[costs.Profile, ...]:
    """δ(ε) of all events together in each direction, for all real ε, accurate to about 1e-8; none where nothing tells
    or GDP is exact."""
    runs, _ = accounting.runs_of(events)
    if all(isinstance(release, Gaussian) for release, _ in runs):
        return ()
    try:
        if len(runs) == 1 and runs[0][1] == 1:
            return costs.directions(runs[0][0])
        composed = pld.compose(runs, 1e-6)
    except (pld.AccountingLimit, TypeError):  # a bare ρ has no profile
        return ()
    if len(composed) == 1:
        return (costs.mirrored(composed[0].delta),)
    remove, add = composed
    return costs.mirrored(remove.delta, add.delta), costs.mirrored(add.delta, remove.delta)


# --------------------------------------------------------------------------------------------------------- conversions


def convert(budget: Budget, delta: float) -> dict[str, float | None]:
    """What a bare budget implies in the other currencies, for any algorithm that meets it; None where nothing follows.

    Keys: epsilon (pure), epsilon_at_delta, rho, mu. Upper bounds; a plan's own events usually read tighter.
    """
    if isinstance(budget, PureDP):
        return {
            "epsilon": budget.epsilon,
            "epsilon_at_delta": closed_forms.pure_epsilon(budget.epsilon, delta),
            "rho": closed_forms.pure_to_rho(budget.epsilon),
            "mu": closed_forms.pure_to_mu(budget.epsilon),
        }
    if isinstance(budget, ZeroConcentratedDP):
        at_delta = closed_forms.zcdp_epsilon(budget.rho, delta)
        return {"epsilon": None, "epsilon_at_delta": at_delta, "rho": budget.rho, "mu": None}
    if isinstance(budget, GaussianDP):
        at_delta = closed_forms.gdp_epsilon(budget.mu, delta)
        return {"epsilon": None, "epsilon_at_delta": at_delta, "rho": budget.mu**2 / 2, "mu": budget.mu}
    if isinstance(budget, ApproximateDP):
        if delta < budget.delta:
            return {"epsilon": None, "epsilon_at_delta": None, "rho": None, "mu": None}
        # The worst case fails openly with probability budget.delta and is ε-DP otherwise (Kairouz, Oh, Viswanath 2015).
        at_delta = closed_forms.pure_epsilon(budget.epsilon, (delta - budget.delta) / (1 - budget.delta))
        return {"epsilon": None, "epsilon_at_delta": at_delta, "rho": None, "mu": None}
    assert isinstance(budget, NoPrivacy)
    return {"epsilon": None, "epsilon_at_delta": None, "rho": None, "mu": None}


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
    return zcdp_tradeoff(budget.rho, alpha) if isinstance(budget, ZeroConcentratedDP) else np.zeros_like(alpha)


def budget_advantage(budget: Budget) -> float:
    """The largest TPR - FPR that a guarantee leaves any test between two neighbouring data sets: the worst δ(0)."""
    if isinstance(budget, PureDP):
        return float(closed_forms.pure_delta(budget.epsilon, 0.0))
    if isinstance(budget, GaussianDP):
        return float(closed_forms.gdp_delta(budget.mu, 0.0))
    if isinstance(budget, ApproximateDP):
        return budget.delta + (1 - budget.delta) * float(closed_forms.pure_delta(budget.epsilon, 0.0))
    return zcdp_advantage(budget.rho) if isinstance(budget, ZeroConcentratedDP) else 1.0
