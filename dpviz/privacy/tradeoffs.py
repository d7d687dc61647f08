"""Attacks on releases: the trade-off curve of the best tests, and their largest advantage.

An attacker sees all releases and tests which one of two neighbouring data sets they come from. The functions here
compute from the events of the releases; if only a guarantee is known, use the methods of its `Budget`.
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


def tradeoff(events: Sequence[Event], false_positive_rates: ArrayLike, max_cells: int = pld.MAX_CELLS) -> Floats:
    """Return f(α), the smallest false negative rate of any test with false positive rate α, for each given α.

    f(α) = max(0, sup_ε 1 - δ(ε) - e^ε α), where δ(ε) is the privacy profile of all releases together and ε any real
    number (Dong, Roth, Su 2019). If the profiles of the two directions differ, it is the smaller value, as the attacker
    may choose either data set as the null hypothesis. The result is exact for Gaussian noise on all rows, and for one
    release of Laplace noise or of the exponential mechanism; otherwise it is never above the true f, so an attack is
    never stronger than the result says.

    false_positive_rates : α, an array of any shape, which is that of the result.
    max_cells : limit of the grid on which losses are composed, see `pld.compose`.
    """
    alpha = np.asarray(false_positive_rates, dtype=float)
    if not events:
        return 1 - alpha
    pure, mu = accountants.total(events, "epsilon"), accountants.total(events, "mu")
    # Lower bounds of f(α), of which the largest is returned; an infinite total gives the bound 0.
    bounds = [closed_forms.pure_tradeoff(pure, alpha), closed_forms.gdp_tradeoff(mu, alpha)]
    if len(events) == 1 and isinstance(events[0], Laplace):
        bounds.append(closed_forms.laplace_tradeoff(pure, alpha))
    elif len(events) == 1 and isinstance(events[0], ExpMech):
        bounds.append(closed_forms.exponential_tradeoff(pure, alpha))
    else:
        profiles = _composed_profiles(tuple(events), max_cells)
        if profiles:
            bounds.append(_tradeoff_of_profiles(profiles, alpha.ravel()).reshape(alpha.shape))
        if mu == math.inf:  # then ε is infinite, too, as any ε implies a μ, and both bounds are 0
            rest, certain = _without_failures(events)
            if certain > 0:
                # A failure makes no errors; without one, the rates are larger by 1/certain. 0 if ρ is infinite.
                bounds.append(certain * zcdp_tradeoff(accountants.total(rest, "rho"), np.minimum(alpha / certain, 1.0)))
    return np.max(bounds, axis=0)


def _tradeoff_of_profiles(profiles: Sequence[per_event.Profile], alpha: Floats) -> Floats:
    """Return f(α) for each α, (k,): the largest 1 - δ(ε) - e^ε α over ε; of several profiles, the smallest f(α).

    The function of ε is concave in e^ε, so its maximum lies next to the best point of a grid: five times, the grid is
    replaced by a finer one between the neighbours of that point.
    """
    max_epsilon = 1.0  # δ hardly falls beyond; at most 512, where e^ε is still finite
    while max_epsilon < 512 and any(delta(max_epsilon) > delta(2 * max_epsilon) + 1e-12 for delta in profiles):
        max_epsilon *= 2
    rows = np.arange(len(alpha))
    curves = []
    for delta in profiles:
        low, high = np.full(len(alpha), -max_epsilon), np.full(len(alpha), max_epsilon)
        for _ in range(5):
            epsilon = np.linspace(low, high, 65, axis=-1)  # (k, 65), a grid for each α
            values = 1 - delta(epsilon) - np.exp(epsilon) * alpha[:, None]
            best = values.argmax(axis=1)
            low, high = epsilon[rows, np.maximum(best - 1, 0)], epsilon[rows, np.minimum(best + 1, 64)]
        curves.append(values.max(axis=1))
    return np.clip(np.min(curves, axis=0) - 1e-15, 0.0, 1.0)  # the subtraction keeps rounding from making f larger


def profile(events: Sequence[Event], epsilon: ArrayLike) -> Floats:
    """Return the smallest δ with which all events together are (ε, δ)-DP, at each given real ε.

    It is the larger one of the two directions. Raises ValueError if no privacy profile of the events is known.
    """
    profiles = _composed_profiles(tuple(events))
    if not profiles:
        raise ValueError(f"no privacy profile of {events} is known")
    return np.max([direction(epsilon) for direction in profiles], axis=0)


def advantage(events: Sequence[Event]) -> float:
    """Return an upper bound of the advantage of any test between two neighbouring data sets, its TPR - FPR.

    The largest advantage is δ(0), which is the same in both directions. Of several valid bounds of it, the result is
    the smallest.
    """
    if not events:
        return 0.0
    pure, mu = accountants.total(events, "epsilon"), accountants.total(events, "mu")
    bounds = [closed_forms.pure_delta(pure, 0.0), closed_forms.gdp_delta(mu, 0.0)]
    bounds += [delta(0.0) for delta in _composed_profiles(tuple(events))]
    if mu == math.inf:  # a ρ of which nothing else is known has no other bound
        rest, certain = _without_failures(events)
        of_rest = zcdp_advantage(accountants.total(rest, "rho"))
        bounds.append(np.asarray(of_rest + (1 - certain) * (1 - of_rest)))
    return float(np.min(bounds))


def _without_failures(events: Sequence[Event]) -> tuple[tuple[Event, ...], float]:
    """Return the events without their open failures, which reveal everything, and the probability that none fails."""
    rest, log_certain = accountants.without_failures(tuple(events))
    return rest, math.exp(log_certain[-1])


@lru_cache(6)
def _composed_profiles(events: tuple[Event, ...], max_cells: int = pld.MAX_CELLS) -> tuple[per_event.Profile, ...]:
    """Return the privacy profiles δ(ε) of all events together, functions of any real ε, accurate to about 1e-8.

    There is one profile if both directions (which one of the data sets is the null hypothesis) have the same, else two.
    The result is empty if no profile is known, and for Gaussian noise on all rows, of which closed forms are used.
    """
    runs, _ = accountants.runs_of(events)  # (release, count), nearly equal ones rounded up to one if they are many
    if all(isinstance(release, Gaussian) for release, _ in runs):
        return ()
    try:
        if len(runs) == 1 and runs[0][1] == 1:
            return per_event.directions(runs[0][0])
        composed = pld.compose(runs, delta=1e-6, max_cells=max_cells)  # error: pld.TAIL · 1e-6 and a little more
    except (pld.AccountingLimit, TypeError):  # `directions` raises TypeError for a bare ρ, which has no profile
        return ()
    if len(composed) == 1:
        return (per_event.mirrored(composed[0].delta),)
    remove, add = composed  # the directions of Poisson batches: a row is removed, or added
    return per_event.mirrored(remove.delta, add.delta), per_event.mirrored(add.delta, remove.delta)
