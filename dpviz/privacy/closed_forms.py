"""Closed forms: what one event costs in every currency, and how a number in one currency reads in another.

Notation: ε, δ of (ε, δ)-DP; ρ of zCDP; μ of Gaussian DP; δ(ε) is the privacy profile. A conversion that does not exist
gives infinity, never a guess. Sources: Dong, Roth, Su 2019 (GDP); Balle and Wang 2018 (Gaussian); Canonne, Kamath,
Steinke 2020 (zCDP and RDP to (ε, δ)); Balle, Barthe, Gaboardi 2018 (sampling without replacement).
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, ndtr, ndtri_exp

from dpviz.privacy.events import Event, Gaussian, Laplace, Seq, Sub

Floats = NDArray[np.float64]
Profile = Callable[[ArrayLike], Floats]

# Orders at which Rényi divergences are first looked at; the best one is then refined between its neighbours.
ORDERS = 1 + np.logspace(-2, 4, 400)

# --------------------------------------------------------------------------------------------------------- Gaussian DP


def gdp_logdelta(mu: float, epsilon: ArrayLike) -> Floats:
    """ln δ(ε) of a μ-GDP guarantee, for any real ε; accurate down to δ of about 1e-25."""
    epsilon = np.asarray(epsilon, dtype=float)
    with np.errstate(divide="ignore"):
        first = log_ndtr(mu / 2 - epsilon / mu)
        second = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
        return np.asarray(first + np.log1p(-np.exp(np.minimum(second - first, 0.0))))


def gdp_delta(mu: float, epsilon: ArrayLike) -> Floats:
    """δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ)."""
    return np.exp(gdp_logdelta(mu, epsilon))


@lru_cache(4096)
def gdp_epsilon(mu: float, delta: float) -> float:
    """The smallest ε ≥ 0 with δ(ε) ≤ delta of a μ-GDP guarantee. Exact."""
    if mu == math.inf:
        return math.inf
    if delta >= 2 * ndtr(mu / 2) - 1:
        return 0.0
    high = mu**2 / 2 + mu * math.sqrt(2 * math.log(1 / delta))
    return float(brentq(lambda e: float(gdp_logdelta(mu, e)) - math.log(delta), 0.0, high, xtol=1e-14, rtol=1e-14))


@lru_cache(4096)
def gdp_mu(epsilon: float, delta: float) -> float:
    """The largest μ whose Gaussian mechanism is (ε, δ)-DP: analytic calibration, σ = Δ₂/μ (Balle and Wang 2018)."""

    def excess(log_mu: float) -> float:
        return max(float(gdp_logdelta(math.exp(log_mu), epsilon)), -1e6) - math.log(delta)

    return math.exp(float(brentq(excess, math.log(1e-8), math.log(1e4), xtol=1e-14, rtol=1e-14)))


# -------------------------------------------------------------------------------------------------------- zCDP and RDP


@lru_cache(4096)
def zcdp_delta(rho: float, epsilon: float) -> float:
    """δ at ε of any ρ-zCDP algorithm (Canonne, Kamath, Steinke 2020); an upper bound, not that of a Gaussian."""
    if rho == math.inf:
        return 1.0

    def slope(log_a: float) -> float:  # increasing; its root minimises ln δ over the order 1 + a
        a = math.exp(log_a)
        return (2 * a + 1) * rho - epsilon + math.log(a / (1 + a))

    low, high = -(rho + abs(epsilon) + 60.0), 5.0
    while slope(high) < 0:
        high += 5.0
    a = math.exp(float(brentq(slope, low, high, xtol=1e-13)))
    log_delta = a * ((1 + a) * rho - epsilon) + a * math.log(a / (1 + a)) - math.log1p(a)
    return min(1.0, math.exp(min(log_delta, 0.0)))


@lru_cache(4096)
def zcdp_epsilon(rho: float, delta: float) -> float:
    """ε at δ of any ρ-zCDP algorithm (Canonne, Kamath, Steinke 2020); at most ρ + 2√(ρ ln(1/δ))."""
    if rho == 0 or rho == math.inf:
        return rho

    def bound(log_a: float) -> float:
        a = math.exp(log_a)
        return (1 + a) * rho + math.log(a / (1 + a)) + (math.log(1 / delta) - math.log1p(a)) / a

    found = minimize_scalar(bound, bounds=(-8.0, 16.0), method="bounded", options={"xatol": 1e-10})
    return max(0.0, float(found.fun))


@lru_cache(4096)
def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest ρ for which every ρ-zCDP algorithm is (ε, δ)-DP."""
    root = math.sqrt(math.log(1 / delta))
    low = high = (math.sqrt(root**2 + epsilon) - root) ** 2
    while zcdp_epsilon(high, delta) < epsilon:
        high *= 1.5
    if high == low:
        return low
    return float(brentq(lambda rho: zcdp_epsilon(rho, delta) - epsilon, low, high, xtol=1e-300, rtol=1e-13))


def rdp_epsilon(divergence: Callable[[Floats], Floats], delta: float) -> float:
    """ε at δ from Rényi divergences D(order), order > 1 (Canonne, Kamath, Steinke 2020, Proposition 12)."""

    def bound(x: ArrayLike) -> Floats:
        order = 1 + 10 ** np.asarray(x, dtype=float)
        value = divergence(order) + np.log1p(-1 / order) - (math.log(delta) + np.log(order)) / (order - 1)
        return np.asarray(value)

    grid = np.log10(ORDERS - 1)
    values = bound(grid)
    best = int(np.argmin(values))
    if not np.isfinite(values[best]):
        return math.inf
    neighbours = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(lambda x: float(bound(x)), bounds=neighbours, method="bounded", options={"xatol": 1e-9})
    return max(0.0, min(float(found.fun), float(values[best])))


# ------------------------------------------------------------------------------------------------------------- pure DP


def pure_to_rho(epsilon: float) -> float:
    """The smallest ρ that every ε-DP algorithm has: ε tanh(ε/2), below the textbook's ε²/2."""
    return epsilon * math.tanh(epsilon / 2)


def pure_to_mu(epsilon: float) -> float:
    """The smallest μ that every ε-DP algorithm has: -2 Φ⁻¹(1/(1 + e^ε))."""
    return float(-2 * ndtri_exp(-np.logaddexp(0.0, epsilon)))


def pure_delta(epsilon_0: float, epsilon: float) -> float:
    """δ at ε ≥ 0 of any ε₀-DP algorithm, attained by randomised response."""
    return max(0.0, -math.expm1(epsilon - epsilon_0)) / (1 + math.exp(-epsilon_0))


def amplify(epsilon: ArrayLike, m: int, n: int) -> Floats:
    """ε of an ε-DP release on m of n rows drawn without replacement, replace-one: ln(1 + (m/n)(e^ε - 1))."""
    epsilon = np.asarray(epsilon, dtype=float)
    with np.errstate(over="ignore"):
        small = np.log1p(np.expm1(epsilon) * (m / n))
    return np.where(epsilon > 700, epsilon + math.log(m / n), small)


def amplified_inverse(epsilon: ArrayLike, m: int, n: int) -> Floats:
    """The ε that a release on a batch may have so that ε is left after amplification; inverse of `amplify`."""
    epsilon = np.asarray(epsilon, dtype=float)
    with np.errstate(over="ignore"):
        small = np.log1p(np.expm1(epsilon) * (n / m))
    return np.where(epsilon > 600, epsilon + math.log(n / m), small)


# ------------------------------------------------------------------------------------------------------ event by event


def pure(event: Event) -> float:
    """ε of pure DP; infinite for Gaussian noise."""
    if isinstance(event, Laplace):
        return event.eps
    if isinstance(event, Seq):
        return sum(pure(part) for part in event.events)
    if isinstance(event, Sub):
        return float(amplify(pure(event.inner), event.m, event.n))
    return math.inf


def rho(event: Event) -> float:
    """Tight ρ of zCDP. Gaussian noise on a batch has none that is amplified, so infinity is returned for it."""
    if isinstance(event, Laplace):
        return event.eps + math.expm1(-event.eps)
    if isinstance(event, Gaussian):
        return event.mu**2 / 2
    if isinstance(event, Seq):
        return sum(rho(part) for part in event.events)
    epsilon = pure(event)
    return pure_to_rho(epsilon) if epsilon < math.inf else math.inf


def mu(event: Event) -> float:
    """The smallest μ of Gaussian DP; infinite for Gaussian noise on a batch, for which no finite formula is known."""
    if isinstance(event, Gaussian):
        return event.mu
    if isinstance(event, Laplace):
        return float(-2 * ndtri_exp(-event.eps / 2 - math.log(2)))
    if isinstance(event, Seq):
        return math.sqrt(sum(mu(part) ** 2 for part in event.events))
    epsilon = pure(event)
    return pure_to_mu(epsilon) if epsilon < math.inf else math.inf


def rdp(event: Event, orders: Floats) -> Floats:
    """Rényi divergence at each order > 1; infinite where no bound is known."""
    if isinstance(event, Gaussian):
        return orders * event.mu**2 / 2
    if isinstance(event, Seq):
        return sum((rdp(part, orders) for part in event.events), np.zeros_like(orders))
    epsilon = pure(event)
    if epsilon == math.inf:
        return np.full_like(orders, math.inf)
    if isinstance(event, Laplace):
        grows = np.log(orders / (2 * orders - 1)) + (orders - 1) * epsilon
        decays = np.log((orders - 1) / (2 * orders - 1)) - orders * epsilon
        return np.logaddexp(grows, decays) / (orders - 1)
    # Any pure-DP event is dominated by randomised response.
    return (np.logaddexp(orders * epsilon, (1 - orders) * epsilon) - np.logaddexp(0.0, epsilon)) / (orders - 1)


def profile(event: Event) -> Profile:
    """The privacy profile ε ↦ δ(ε) of one event, for all real ε.

    Raises TypeError for a `Seq` that is not all Gaussian: its profile is found by composing loss distributions.
    """
    positive = _profile_from_zero(event)

    def delta(epsilon: ArrayLike) -> Floats:
        epsilon = np.asarray(epsilon, dtype=float)
        size = np.abs(epsilon)
        value = np.clip(positive(size), 0.0, 1.0)
        # All pairs here are symmetric: δ(-ε) = 1 - e^-ε + e^-ε δ(ε).
        return np.where(epsilon >= 0, value, -np.expm1(-size) + np.exp(-size) * value)

    return delta


def _profile_from_zero(event: Event) -> Profile:
    """The profile on ε ≥ 0."""
    if isinstance(event, Laplace):
        scale = event.eps
        return lambda epsilon: -np.expm1(np.minimum((np.asarray(epsilon) - scale) / 2, 0.0))
    if isinstance(event, Gaussian):
        parameter = event.mu
        return lambda epsilon: gdp_delta(parameter, epsilon)
    if isinstance(event, Sub):
        q, inner = event.m / event.n, _profile_from_zero(event.inner)
        return lambda epsilon: q * inner(amplified_inverse(epsilon, event.m, event.n))
    if all(isinstance(part, Gaussian) for part in event.events):
        return _profile_from_zero(Gaussian(mu(event)))
    raise TypeError(f"{event} has no closed profile")
