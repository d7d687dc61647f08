"""Attacks on releases: the trade-off curve of the best tests, and their largest advantage.

Those of a bare guarantee are methods of its Budget.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from dpviz.privacy.accounting import accountants, closed_forms, per_event, pld
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.accounting.rdp_tradeoffs import zcdp_advantage, zcdp_tradeoff
from dpviz.privacy.events import Event, ExpMech, Gaussian, Laplace


def tradeoff(events: Sequence[Event], false_positive_rates: ArrayLike, max_cells: int = pld.MOST_CELLS) -> Floats:
    """Return the smallest false negative rate of a test between two neighbouring data sets at each false positive rate.

    f(α) = max(0, sup_ε 1 - δ(ε) - e^ε α) over the composed privacy profile (Dong, Roth, Su 2019), the smaller one of
    the two directions: the attacker may take either data set as the null. Exact for Gaussian noise on all rows and for
    one release of Laplace noise or of the exponential mechanism; otherwise never above the true f, so an attack looks
    stronger.

    max_cells : see `pld.compose`.
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
    elif profiles := _composed_profiles(tuple(events), max_cells):
        bounds.append(_tradeoff_of_profiles(profiles, alpha.ravel()).reshape(alpha.shape))
    elif (rho := accountants.total(events, "rho")) < math.inf and mu == math.inf:
        bounds.append(zcdp_tradeoff(rho, alpha))
    return np.max(bounds, axis=0)


def _tradeoff_of_profiles(profiles: Sequence[per_event.Profile], alpha: Floats) -> Floats:
    """Return f at each α, (k,): the largest 1 - δ(ε) - e^ε α over ε, and the smallest of these over the profiles.

    The maximised function is concave in e^ε: the best interval of a grid is refined.
    """
    largest = 1.0  # an ε beyond which δ hardly falls; up to 512, where e^ε is finite
    while largest < 512 and any(profile(largest) > profile(2 * largest) + 1e-12 for profile in profiles):
        largest *= 2
    rows = np.arange(len(alpha))
    curves = []
    for profile in profiles:
        low, high = np.full(len(alpha), -largest), np.full(len(alpha), largest)
        for _ in range(5):
            grid = np.linspace(low, high, 65, axis=-1)
            heights = 1 - profile(grid) - np.exp(grid) * alpha[:, None]
            best = heights.argmax(axis=1)
            low, high = grid[rows, np.maximum(best - 1, 0)], grid[rows, np.minimum(best + 1, 64)]
        curves.append(heights.max(axis=1))
    return np.clip(np.min(curves, axis=0) - 1e-15, 0.0, 1.0)  # rounding never makes f larger


def profile(events: Sequence[Event], epsilon: ArrayLike) -> Floats:
    """Return δ of all events together at each real ε, the larger one of both directions; ValueError if unknown."""
    profiles = _composed_profiles(tuple(events))
    if not profiles:
        raise ValueError(f"no privacy profile of {events} is known")
    return np.max([each(epsilon) for each in profiles], axis=0)


def advantage(events: Sequence[Event]) -> float:
    """Return the largest TPR - FPR of any test between two neighbouring data sets: δ(0), in either direction."""
    if not events:
        return 0.0
    pure, mu = accountants.total(events, "epsilon"), accountants.total(events, "mu")
    bounds = [closed_forms.pure_delta(pure, 0.0), closed_forms.gdp_delta(mu, 0.0)]
    bounds += [profile(0.0) for profile in _composed_profiles(tuple(events))]
    if mu == math.inf:
        bounds.append(np.asarray(zcdp_advantage(accountants.total(events, "rho"))))
    return float(np.min(bounds))


@lru_cache(6)
def _composed_profiles(events: tuple[Event, ...], max_cells: int = pld.MOST_CELLS) -> tuple[per_event.Profile, ...]:
    """Return δ(ε) of all events together in each direction, for all real ε, accurate to about 1e-8; empty where none is
    known or GDP is exact."""
    runs, _ = accountants.runs_of(events)
    if all(isinstance(release, Gaussian) for release, _ in runs):
        return ()
    try:
        if len(runs) == 1 and runs[0][1] == 1:
            return per_event.directions(runs[0][0])
        composed = pld.compose(runs, 1e-6, max_cells)
    except (pld.AccountingLimit, TypeError):  # a bare ρ has no profile
        return ()
    if len(composed) == 1:
        return (per_event.mirrored(composed[0].delta),)
    remove, add = composed
    return per_event.mirrored(remove.delta, add.delta), per_event.mirrored(add.delta, remove.delta)
