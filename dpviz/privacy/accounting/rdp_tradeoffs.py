"""Trade-off curves from Rényi divergences, and hence of a ρ-zCDP guarantee of which nothing else is known.

A test between two neighbouring data sets has a false positive rate α and a false negative rate β. Divergences can only
shrink when a release is replaced by the test's answer, so at every order a > 1 (Mironov 2017)

    (1 - β)^a α^(1-a) + β^a (1 - α)^(1-a) ≤ e^((a-1) D_a),

with D_a the Rényi divergence, and the same with the two data sets exchanged. A β is impossible if it violates the
inequality at any order, in either direction (Zhu, Dong, Wang 2022, appendix F.1); the trade-off curve is the smallest
possible β at each α. Every order gives a valid bound, so with a grid of orders the result is never above the exact one.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from dpviz.later import lazy_functions
from dpviz.privacy.accounting.closed_forms import Floats

(brentq,) = lazy_functions("scipy.optimize", "brentq")

# A large ρ needs orders very near 1. For any ρ, the β from this grid is at most 1e-5 below that from all orders.
ORDERS = 1 + np.geomspace(1e-5, 999, 800)
ORDERS.setflags(write=False)

# Passes of the search for the best order, as (stride, number of orders tried around the best one so far); None: all
# orders at this stride. They are a heuristic: any passes give a valid bound.
_PASSES = ((16, None), (16, None), (8, 3), (4, 3), (2, 3), (1, 5), (1, 3))
_EDGE = 1e-15  # α is computed between this and 1 minus this
_SMALLEST = 1e-300  # smaller rates count as 0


def zcdp_tradeoff(rho: float, false_positive_rates: ArrayLike) -> Floats:
    """Return a lower bound on the false negative rate of tests against ρ-zCDP algorithms, at each false positive rate.

    It is at most 1e-5 below the best bound that the definition of zCDP implies, and never above. It is below the curve
    of Gaussian noise with the same ρ.
    """
    return rdp_tradeoff(ORDERS * rho, ORDERS, false_positive_rates)


def zcdp_advantage(rho: float) -> float:
    """Return the largest TPR - FPR of any test against any ρ-zCDP algorithm: tanh(ε/2), where ε tanh(ε/2) = ρ.

    The trade-off curve of zCDP is its own inverse, so the advantage is largest where both error rates are equal. There
    the test's answer is randomised response of some ε, whose smallest ρ is ε tanh(ε/2) (`closed_forms.pure_to_rho`);
    this algorithm attains the bound.
    """
    if rho == 0:
        return 0.0
    if rho == math.inf:
        return 1.0
    # The root ε is at least `low`, because tanh(ε/2) is at most ε/2, and at most ρ + 1, because ε (1 - tanh(ε/2)) is at
    # most 1; with `low` added, the ends differ by 1 at least.
    low = math.sqrt(2 * rho)
    epsilon = brentq(lambda e: e * math.tanh(e / 2) - rho, low * (1 - 1e-12), low + rho + 1, xtol=1e-300, rtol=1e-14)
    return math.tanh(epsilon / 2)


def rdp_tradeoff(divergences: ArrayLike, orders: ArrayLike, false_positive_rates: ArrayLike) -> Floats:
    """Return a lower bound on the false negative rate of any test at each false positive rate, from Rényi divergences.

    divergences : (k,) upper bounds D_a of the divergence in both directions, at each order; infinite if none is known.
    orders : (k,) orders a > 1, ascending. Few or badly chosen ones make the bound smaller, but never wrong.
    """
    rates = np.asarray(false_positive_rates, dtype=float)
    a, d = np.asarray(orders, dtype=float), np.asarray(divergences, dtype=float)
    is_finite = np.isfinite(d)
    if not is_finite.any():
        return np.zeros_like(rates)
    a, d = a[is_finite], d[is_finite]
    d = d + 1e-14 * a / (a - 1)  # more than errors of rounding, which matter if D is tiny and a near 1
    # The curve falls, so its value at the lower edge is a lower bound for smaller α, too.
    beta = _search(a, d, np.clip(rates.ravel(), _EDGE, 1 - _EDGE)).reshape(rates.shape)
    return np.where(rates <= 0, 1.0, np.where(rates > 1 - _EDGE, 0.0, np.minimum(beta, 1 - rates)))


def _search(a: Floats, d: Floats, alpha: Floats) -> Floats:
    """Return a lower bound of β at each α, (len(alpha),), from orders a and divergences d, (k,) each.

    Each order and direction gives a convex, falling function of β whose root is the smallest β that it allows. A step
    of Newton's method from any point ends at or below the root, so the β it arrives at is a valid lower bound. The
    largest of these bounds over many orders is where the next steps begin, and the search may stop at any time.
    """
    # The first bounds follow from one term alone that may not exceed the right side: (1 - β)^a α^(1-a), and
    # (1 - α)^a β^(1-a) with the data sets exchanged.
    by_first_term = -np.expm1(np.minimum((1 - 1 / a) * (d + np.log(alpha)[:, None]), 0.0))
    by_second_term = np.exp(np.maximum(a / (a - 1) * np.log1p(-alpha)[:, None] - d, -700.0))
    # No β is above 1 - α: guessing reaches that.
    beta = np.minimum(np.maximum(by_first_term.max(axis=1), by_second_term.max(axis=1)), 1 - alpha)
    rows = np.arange(len(alpha))[:, None]
    best = np.zeros((2, len(alpha), 1), dtype=int)  # index of the best order so far, for each direction and each α
    for stride, count in _PASSES:
        for direction, newton_step in enumerate((_newton_step, _newton_step_exchanged)):
            if count is None:  # orders over the whole range; later, `count` orders around the best so far
                tried = np.broadcast_to(np.arange(0, len(a), stride), (len(alpha), -(-len(a) // stride)))
            else:
                tried = np.clip(best[direction] + stride * (np.arange(count) - count // 2), 0, len(a) - 1)
            bounds = newton_step(a[tried], d[tried], alpha[:, None], beta[:, None])
            winner = bounds.argmax(axis=1)[:, None]
            best[direction] = tried[rows, winner]
            beta = np.clip(bounds[rows, winner][:, 0], beta, 1 - alpha)
    return np.where(beta > _SMALLEST, beta, 0.0)


def _newton_step(a: Floats, d: Floats, alpha: Floats, beta: Floats) -> Floats:
    """Return β after one Newton step from `beta` for the module's inequality; arguments broadcast.

    The inequality is written as ((1-β)^a + β^a κ^(a-1))^(1/a) ≤ (α e^D)^(1-1/a), κ = α/(1-α). The left side is a norm,
    hence convex, and nearly linear in β, so that few steps are enough.
    """
    log_true, log_false = np.log1p(-beta), np.log(beta)
    log_sum = np.logaddexp(a * log_true, a * log_false + (a - 1) * np.log(alpha / (1 - alpha)))
    weight = np.exp(a * log_true - log_sum)  # share of the first term in the sum
    slope = (1 - weight) / beta - weight / (1 - beta)  # of the logarithm of the left side
    excess = np.expm1(np.minimum((1 - 1 / a) * (d + np.log(alpha)) - log_sum / a, 700.0))  # right / left side - 1
    # Where the left side does not fall, this order says nothing.
    return beta + np.where(slope < 0, excess / np.minimum(slope, -1e-300), 0.0)


def _newton_step_exchanged(a: Floats, d: Floats, alpha: Floats, beta: Floats) -> Floats:
    """Return β after one Newton step, in ln β, for the inequality with the data sets exchanged; arguments broadcast.

    The inequality is ln(α^a (1-β)^(1-a) + (1-α)^a β^(1-a)) ≤ (a-1) D, whose left side is convex in ln β.
    """
    log_true, log_false = np.log1p(-beta), np.log(beta)
    first_term = a * np.log(alpha) - (a - 1) * log_true
    log_sum = np.logaddexp(first_term, a * np.log1p(-alpha) - (a - 1) * log_false)
    weight = np.exp(first_term - log_sum)  # share of the first term in the sum
    slope = weight * beta / (1 - beta) - (1 - weight)  # of the logarithm, divided by a - 1
    step = np.where(slope < 0, (d - log_sum / (a - 1)) / np.minimum(slope, -1e-300), 0.0)  # of ln β
    return beta * np.exp(np.minimum(step, 700.0))
