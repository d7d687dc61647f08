"""Other ways to read zCDP, which share no code with ours: ε by Newton's method, δ at an ε, the textbook's bounds."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from dpviz.privacy.accounting.closed_forms import Floats


def epsilon_curve(rho: ArrayLike, delta: float) -> Floats:
    """ε at δ of ρ-zCDP for an array of ρ.

    Every order α gives a valid ε, so an inexact best order errs on the safe side. With u = ln α it solves
    (e^u - 1)² ρ + u = ln(1/δ), convex in u: Newton's method from above.
    """
    rho = np.asarray(rho, float)
    safe, log_odds = np.clip(rho, 1e-300, 1e300), math.log(1 / delta)
    u = np.minimum(log_odds, np.log1p(np.sqrt(log_odds / safe)))
    for _ in range(12):
        a = np.expm1(u)
        u -= (a**2 * safe + u - log_odds) / (2 * a * (1 + a) * safe + 1)
    a = np.expm1(u)
    epsilon = (1 + a) * safe - np.log1p(1 / a) + (log_odds - u) / a
    return np.where(rho == 0, 0.0, np.where(rho < 1e300, np.maximum(epsilon, 0.0), np.inf))


def zcdp_delta(rho: float, epsilon: float) -> float:
    """δ at ε of any ρ-zCDP algorithm (Canonne, Kamath, Steinke 2020); an upper bound, not that of a Gaussian."""
    if rho == 0 or rho == math.inf:
        return 1.0 if rho else max(0.0, -math.expm1(epsilon))
    if math.isinf(epsilon):
        return 0.0 if epsilon > 0 else 1.0

    def slope(log_a: float) -> float:  # increasing; its root minimises ln δ over the order 1 + a
        a = math.exp(log_a)
        return (2 * a + 1) * rho - epsilon - math.log1p(1 / a)

    low = -min(rho + abs(epsilon) + 60.0, 600.0)
    high = min(max(0.0, math.log1p(abs(epsilon)) - math.log(2) - math.log(rho)), 353.0)
    if slope(low) >= 0 or slope(high) <= 0:  # any order is valid
        log_a = low if slope(low) >= 0 else high
    else:
        log_a = float(brentq(slope, low, high, xtol=1e-13))
    a = math.exp(log_a)
    terms = (a * ((1 + a) * rho), -a * epsilon, -a * math.log1p(1 / a), -math.log1p(a))
    log_delta = math.fsum(terms) + 1e-15 * sum(abs(term) for term in terms)
    return math.exp(min(log_delta, 0.0))


def filter_epsilon(epsilons: Sequence[float], slack: float) -> float:
    """ε at δ = slack of pure releases whose ε_i may depend on earlier answers (Whitehouse et al. 2023, Theorem 1).

    Go on only while the value, the next release included, stays within a budget that was fixed in advance. It is zCDP
    with ρ_i = ε_i²/2 in its classic conversion.
    """
    return float(classic_zcdp_epsilon(math.fsum(epsilon**2 for epsilon in epsilons) / 2, slack))


def classic_zcdp_epsilon(rho: ArrayLike, delta: float) -> Floats:
    """ρ + 2 √(ρ ln(1/δ)): the textbook's ε at δ of ρ-zCDP, above the optimal one."""
    rho = np.asarray(rho, dtype=float)
    return np.asarray(rho + 2 * np.sqrt(rho * math.log(1 / delta)))
