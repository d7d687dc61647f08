"""Trade-off curves from Rényi divergences, and so of a guarantee in ρ of which nothing else is known.

A test between two neighbouring data sets has a false positive rate α and a false negative rate β. Divergences can only
shrink when a release is replaced by the test's answer, so at every order a (Mironov 2017)

    (1 - β)^a α^(1-a) + β^a (1 - α)^(1-a) ≤ e^((a-1) D_a),

and the same with the two data sets exchanged. Orders are combined by excluding all that one of them excludes (Zhu,
Dong, Wang 2022, appendix F.1). Every order gives a valid bound, so a grid of them is never above the exact curve.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from dpviz.privacy.accounting.closed_forms import Floats

# A large ρ needs orders very near 1; for any ρ, this grid costs 1e-5 of β at most.
ORDERS = 1 + np.geomspace(1e-5, 999, 800)
ORDERS.setflags(write=False)

# The search tries every 16th order twice, then some around the best so far: (stride, number of orders).
_PASSES = ((16, None), (16, None), (8, 3), (4, 3), (2, 3), (1, 5), (1, 3))
_EDGE = 1e-15
_SMALLEST = 1e-300  # smaller rates count as 0


def zcdp_tradeoff(rho: float, false_positive_rates: ArrayLike) -> Floats:
    """Return the smallest false negative rate that any ρ-zCDP algorithm leaves a test at each false positive rate α.

    Within 1e-5 of the best that the definition of zCDP implies, and not above it; below Gaussian noise of the same ρ.
    """
    return rdp_tradeoff(ORDERS * rho, ORDERS, false_positive_rates)


def zcdp_advantage(rho: float) -> float:
    """Return the largest TPR - FPR of a test on any ρ-zCDP algorithm: tanh(ε/2), where ε tanh(ε/2) = ρ. Attained.

    The trade-off curve is its own inverse, so it leaves the largest advantage where both rates are equal. There the
    test's answer is randomised response, and the tight ρ of that is ε tanh(ε/2) (`closed_forms.pure_to_rho`).
    """
    if rho == 0 or rho == math.inf:
        return min(rho, 1.0)
    low = math.sqrt(2 * rho)  # tanh(ε/2) is at most ε/2, and ε (1 - tanh(ε/2)) at most 1
    epsilon = brentq(lambda e: e * math.tanh(e / 2) - rho, low * (1 - 1e-12), low + rho + 1, xtol=1e-300, rtol=1e-14)
    return math.tanh(epsilon / 2)


def rdp_tradeoff(divergences: ArrayLike, orders: ArrayLike, false_positive_rates: ArrayLike) -> Floats:
    """Return a lower bound on the false negative rate of any test at each false positive rate, from Rényi divergences.

    divergences : (k,) upper bounds D_a on both directions at each order; infinite where none is known.
    orders : (k,) a > 1, increasing. Few or badly chosen ones make the bound smaller, never wrong.
    """
    rates = np.asarray(false_positive_rates, dtype=float)
    a, d = np.asarray(orders, dtype=float), np.asarray(divergences, dtype=float)
    is_finite = np.isfinite(d)
    if not is_finite.any():
        return np.zeros_like(rates)
    a, d = a[is_finite], d[is_finite]
    d = d + 1e-14 * a / (a - 1)  # more than rounding takes away, which counts where D is tiny and a near 1
    # The curve falls, so what holds at the edge holds to its left.
    rates_missed = _search(a, d, np.clip(rates.ravel(), _EDGE, 1 - _EDGE)).reshape(rates.shape)
    return np.where(rates <= 0, 1.0, np.where(rates > 1 - _EDGE, 0.0, np.minimum(rates_missed, 1 - rates)))


def _search(a: Floats, d: Floats, alpha: Floats) -> Floats:
    """Return β at each α, by Newton's method on functions of β that are convex and fall, one per order.

    A step from below the root of such a function stays below it, and so does one from above. Hence the largest step of
    any order is excluded, always, and the search may end at any time.
    """
    # Up to this β, either term alone exceeds the bound.
    first = -np.expm1(np.minimum((1 - 1 / a) * (d + np.log(alpha)[:, None]), 0.0))
    second = np.exp(np.maximum(a / (a - 1) * np.log1p(-alpha)[:, None] - d, -700.0))
    beta = np.minimum(np.maximum(first.max(axis=1), second.max(axis=1)), 1 - alpha)
    rows, best = np.arange(len(alpha))[:, None], np.zeros((2, len(alpha), 1), dtype=int)
    for stride, count in _PASSES:
        for step, kind in ((_step_first, 0), (_step_second, 1)):
            if count is None:
                near = np.broadcast_to(np.arange(0, len(a), stride), (len(alpha), -(-len(a) // stride)))
            else:
                near = np.clip(best[kind] + stride * (np.arange(count) - count // 2), 0, len(a) - 1)
            candidates = step(a[near], d[near], alpha[:, None], beta[:, None])
            winner = candidates.argmax(axis=1)[:, None]
            best[kind] = near[rows, winner]
            beta = np.clip(candidates[rows, winner][:, 0], beta, 1 - alpha)
    return np.where(beta > _SMALLEST, beta, 0.0)


def _step_first(a: Floats, d: Floats, alpha: Floats, beta: Floats) -> Floats:
    """Return β after one step on ((1-β)^a + β^a κ^(a-1))^(1/a) = (α e^D)^(1-1/a), κ = α/(1-α): a norm, so convex, and
    nearly straight."""
    log_true, log_false = np.log1p(-beta), np.log(beta)
    log_sum = np.logaddexp(a * log_true, a * log_false + (a - 1) * np.log(alpha / (1 - alpha)))
    weight = np.exp(a * log_true - log_sum)
    slope = (1 - weight) / beta - weight / (1 - beta)
    missing = np.expm1(np.minimum((1 - 1 / a) * (d + np.log(alpha)) - log_sum / a, 700.0))
    return beta + np.where(slope < 0, missing / np.minimum(slope, -1e-300), 0.0)


def _step_second(a: Floats, d: Floats, alpha: Floats, beta: Floats) -> Floats:
    """Return β after one step on ln(α^a (1-β)^(1-a) + (1-α)^a β^(1-a)) = (a-1) D, the other direction's; convex in
    ln β."""
    log_true, log_false = np.log1p(-beta), np.log(beta)
    first_term = a * np.log(alpha) - (a - 1) * log_true
    log_sum = np.logaddexp(first_term, a * np.log1p(-alpha) - (a - 1) * log_false)
    weight = np.exp(first_term - log_sum)
    slope = weight * beta / (1 - beta) - (1 - weight)  # of the logarithm, divided by a - 1
    gain = np.where(slope < 0, (d - log_sum / (a - 1)) / np.minimum(slope, -1e-300), 0.0)
    return beta * np.exp(np.minimum(gain, 700.0))
