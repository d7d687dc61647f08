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
from scipy.special import erfcx, erfinv, log_ndtr, ndtr, ndtri, ndtri_exp

from dpviz.privacy.events import Event, Gaussian, Laplace, Seq, Sub

Floats = NDArray[np.float64]
Profile = Callable[[ArrayLike], Floats]

# Orders at which Rényi divergences are first looked at; the best one is then refined between its neighbours.
ORDERS = 1 + np.logspace(-2, 4, 400)
# Gauss-Legendre rule on [0, 1].
NODES, WEIGHTS = (rule / 2 + shift for rule, shift in zip(np.polynomial.legendre.leggauss(5), (0.5, 0.0), strict=True))

# --------------------------------------------------------------------------------------------------------- Gaussian DP


def gdp_logdelta(mu: float, epsilon: ArrayLike) -> Floats:
    """ln δ(ε) of a μ-GDP guarantee, for any real ε; δ is accurate to 1e-9 down to 1e-25 and beyond, for any μ > 0."""
    epsilon = np.asarray(epsilon, dtype=float)
    size = np.minimum(np.abs(epsilon), 1e300)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # δ = 0 far out: ln 0 = -inf is meant
        log_delta = _narrow_gdp_logdelta(mu, size) if mu < 0.05 else _wide_gdp_logdelta(mu, size)
        mirrored = np.log(-np.expm1(-size) + np.exp(log_delta - size))  # δ(-ε) = 1 - e^-ε + e^-ε δ(ε)
    return np.where(epsilon >= 0, log_delta, mirrored)


def _wide_gdp_logdelta(mu: float, epsilon: Floats) -> Floats:
    first = log_ndtr(mu / 2 - epsilon / mu)
    second = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return np.asarray(first + np.log1p(-np.exp(np.fmin(second - first, 0.0))))


def _narrow_gdp_logdelta(mu: float, epsilon: Floats) -> Floats:
    """The two terms of δ differ by a factor 1 - O(μ²/ε) only, so their difference is integrated instead: with
    x = ε/μ - μ/2 and Mills' ratio M it is φ(x) ∫ (1 - t M(t)) dt over [x, x + μ]."""
    x = epsilon / mu - mu / 2
    t = x[..., None] + mu * NODES
    near = np.minimum(t, 1e4)  # further out the difference cancels, and 1/(t² + 1) bounds it from above
    slope = np.where(t < 1e4, 1 - near * math.sqrt(math.pi / 2) * erfcx(near / math.sqrt(2)), 1 / (t**2 + 1))
    return np.asarray(np.log(mu * (slope @ WEIGHTS)) - x**2 / 2 - math.log(2 * math.pi) / 2)


def gdp_delta(mu: float, epsilon: ArrayLike) -> Floats:
    """δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ)."""
    return np.exp(gdp_logdelta(mu, epsilon))


def gdp_tradeoff(mu: float, false_positive_rates: ArrayLike) -> Floats:
    """The smallest false negative rate of any test, Φ(Φ⁻¹(1 - α) - μ), at each false positive rate α (GDP)."""
    alpha = np.asarray(false_positive_rates, dtype=float)
    return ndtr(-ndtri(alpha) - mu) if mu < math.inf else np.zeros_like(alpha)


@lru_cache(4096)
def gdp_epsilon(mu: float, delta: float) -> float:
    """The smallest ε ≥ 0 with δ(ε) ≤ delta of a μ-GDP guarantee. Exact."""
    if mu == math.inf:
        return math.inf
    if delta >= math.erf(mu / math.sqrt(8)):
        return 0.0
    high = mu**2 / 2 + mu * math.sqrt(2 * math.log(1 / delta))
    return float(brentq(lambda e: float(gdp_logdelta(mu, e)) - math.log(delta), 0.0, high, xtol=1e-14, rtol=1e-14))


@lru_cache(4096)
def gdp_mu(epsilon: float, delta: float) -> float:
    """The largest μ whose Gaussian mechanism is (ε, δ)-DP: analytic calibration, σ = Δ₂/μ (Balle and Wang 2018)."""

    def excess(log_mu: float) -> float:
        return max(float(gdp_logdelta(math.exp(log_mu), epsilon)), -1e6) - math.log(delta)

    low = math.log(delta * math.sqrt(2 * math.pi))  # here even δ(0) = 2 Φ(μ/2) - 1 < μ/√(2π) is small enough
    high = max(low, math.log(max(2 * epsilon, 1e-300)) / 2)
    while excess(high) < 0:
        high += 1.0
    return math.exp(float(brentq(excess, low, high, xtol=1e-14, rtol=1e-14)))


# -------------------------------------------------------------------------------------------------------- zCDP and RDP


@lru_cache(4096)
def zcdp_delta(rho: float, epsilon: float) -> float:
    """δ at ε of any ρ-zCDP algorithm (Canonne, Kamath, Steinke 2020); an upper bound, not that of a Gaussian."""
    if rho == 0 or rho == math.inf:
        return 1.0 if rho else max(0.0, -math.expm1(epsilon))

    def slope(log_a: float) -> float:  # increasing; its root minimises ln δ over the order 1 + a
        a = math.exp(log_a)
        return (2 * a + 1) * rho - epsilon + log_a - math.log1p(a)

    low, high = -(rho + abs(epsilon) + 60.0), max(0.0, math.log1p(abs(epsilon)) - math.log(2 * rho))
    log_a = float(brentq(slope, low, high, xtol=1e-13))
    a = math.exp(log_a)
    log_delta = a * ((1 + a) * rho - epsilon) + a * (log_a - math.log1p(a)) - math.log1p(a)
    return math.exp(min(log_delta, 0.0))


def zcdp_profile(rho: float, epsilon: ArrayLike) -> Floats:
    """δ at every ε of any ρ-zCDP algorithm, (k,) in: `zcdp_delta` with the order chosen from a grid, so never below."""
    a = np.geomspace(1e-3, 1e7, 400)
    orders = a * (1 + a) * rho + a * np.log(a / (1 + a)) - np.log1p(a)
    log_delta = (orders - a * np.asarray(epsilon, dtype=float)[..., None]).min(axis=-1)
    return np.exp(np.minimum(log_delta, 0.0))


@lru_cache(4096)
def zcdp_epsilon(rho: float, delta: float) -> float:
    """ε at δ of any ρ-zCDP algorithm (Canonne, Kamath, Steinke 2020); at most ρ + 2√(ρ ln(1/δ))."""
    if rho == 0 or rho == math.inf:
        return rho
    if delta >= 1:
        return 0.0
    log_odds = math.log(1 / delta)

    def slope(log_a: float) -> float:  # increasing; its root minimises ε over the order 1 + a
        a = math.exp(log_a)
        return a**2 * rho + math.log1p(a) - log_odds

    # ln(1 + a) lies between 0 and a, which brackets the root.
    low = 2 * log_odds / (1 + math.sqrt(1 + 4 * rho * log_odds))
    high = min(math.sqrt(log_odds / rho), math.expm1(log_odds))
    a = math.exp(brentq(slope, math.log(low) - 1e-9, math.log(high) + 1e-9, xtol=1e-12))
    return max(0.0, (1 + a) * rho - math.log1p(1 / a) + (log_odds - math.log1p(a)) / a)


@lru_cache(4096)
def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest ρ for which every ρ-zCDP algorithm is (ε, δ)-DP."""
    root = math.sqrt(math.log(1 / delta))
    low = high = max((epsilon / (math.sqrt(root**2 + epsilon) + root)) ** 2, 1e-300)
    while zcdp_epsilon(high, delta) < epsilon:
        high *= 1.5
    if high == low:
        return low
    return float(brentq(lambda rho: zcdp_epsilon(rho, delta) - epsilon, low, high, xtol=1e-300, rtol=1e-13))


def rdp_epsilon(divergence: Callable[[Floats], Floats], delta: float, at_orders: Floats | None = None) -> float:
    """ε at δ from Rényi divergences D(order), order > 1 (Canonne, Kamath, Steinke 2020, Proposition 12).

    at_orders : the divergences at ORDERS, if they are known already.
    """
    log_delta = math.log(delta)

    def bound(orders: Floats, divergences: Floats) -> Floats:
        return np.asarray(divergences + np.log1p(-1 / orders) - (log_delta + np.log(orders)) / (orders - 1))

    def refined(x: float) -> float:
        order = np.array([1 + 10**x])
        return float(bound(order, divergence(order))[0])

    values = bound(ORDERS, divergence(ORDERS) if at_orders is None else at_orders)
    best = int(np.argmin(values))
    if not np.isfinite(values[best]):
        return math.inf
    neighbours = np.log10(ORDERS[[max(best - 1, 0), min(best + 1, len(ORDERS) - 1)]] - 1)
    # Every order gives a valid ε, and the best ones differ little, so the search may stop early.
    found = minimize_scalar(refined, bounds=neighbours, method="bounded", options={"xatol": 1e-5})
    return max(0.0, min(float(found.fun), float(values[best])))


# ------------------------------------------------------------------------------------------------------------- pure DP


def pure_to_rho(epsilon: float) -> float:
    """The smallest ρ that every ε-DP algorithm has: ε tanh(ε/2), below the textbook's ε²/2."""
    return epsilon * math.tanh(epsilon / 2)


def pure_to_mu(epsilon: float) -> float:
    """The smallest μ that every ε-DP algorithm has: -2 Φ⁻¹(1/(1 + e^ε))."""
    if epsilon < 1:  # ½ - 1/(1 + e^ε) would cancel
        return math.sqrt(8) * float(erfinv(math.tanh(epsilon / 2)))
    return float(-2 * ndtri_exp(-np.logaddexp(0.0, epsilon)))


def pure_delta(epsilon_0: float, epsilon: ArrayLike) -> Floats:
    """δ at ε ≥ 0 of any ε₀-DP algorithm, attained by randomised response."""
    return -np.expm1(np.minimum(np.asarray(epsilon, dtype=float) - epsilon_0, 0.0)) / (1 + math.exp(-epsilon_0))


def pure_epsilon(epsilon_0: float, delta: float) -> float:
    """ε at δ of any ε₀-DP algorithm; inverse of `pure_delta`."""
    excess = delta * (1 + math.exp(-epsilon_0))
    return max(0.0, epsilon_0 + math.log1p(-excess)) if excess < 1 else 0.0


def pure_tradeoff(epsilon: float, false_positive_rates: ArrayLike) -> Floats:
    """The smallest false negative rate of any test at each false positive rate, for any ε-DP algorithm."""
    alpha = np.asarray(false_positive_rates, dtype=float)
    if epsilon == math.inf:
        return np.zeros_like(alpha)
    return np.maximum(0.0, np.maximum(1 - math.exp(min(epsilon, 700.0)) * alpha, math.exp(-epsilon) * (1 - alpha)))


def laplace_tradeoff(epsilon: float, false_positive_rates: ArrayLike) -> Floats:
    """The smallest false negative rate of any test at each false positive rate, for one release with Laplace noise."""
    alpha, floor = np.asarray(false_positive_rates, dtype=float), math.exp(-epsilon)
    middle = floor / (4 * np.maximum(alpha, 1e-300))
    low = 1 - alpha / floor if floor > 0 else np.zeros_like(alpha)
    return np.where(alpha < floor / 2, low, np.where(alpha <= 0.5, middle, floor * (1 - alpha)))


def pure_rdp(epsilon: ArrayLike, orders: Floats) -> Floats:
    """Rényi divergence at each order > 1 of any ε-DP algorithm, that of randomised response; arguments broadcast."""
    epsilon = np.asarray(epsilon, dtype=float)
    exact = (np.logaddexp(orders * epsilon, (1 - orders) * epsilon) - np.logaddexp(0.0, epsilon)) / (orders - 1)
    # Where the logarithms would cancel, the bound by zCDP is exact to 1e-8; likewise for Laplace noise.
    return np.where(orders * epsilon < 1e-4, orders * np.minimum(epsilon, 1.0) ** 2 / 2, exact)


def laplace_rdp(epsilon: ArrayLike, orders: Floats) -> Floats:
    """Rényi divergence at each order > 1 of Laplace noise (Mironov 2017, Proposition 6); arguments broadcast."""
    epsilon = np.asarray(epsilon, dtype=float)
    grows = np.log(orders / (2 * orders - 1)) + (orders - 1) * epsilon
    decays = np.log((orders - 1) / (2 * orders - 1)) - orders * epsilon
    small = np.minimum(epsilon, 1.0)
    rho = small**2 * (1 / 2 - small / 6 + small**2 / 24)
    return np.where(orders * epsilon < 1e-4, orders * rho, np.logaddexp(grows, decays) / (orders - 1))


def amplify(epsilon: ArrayLike, m: int, n: int) -> Floats:
    """ε of an ε-DP release on m of n rows drawn without replacement, replace-one: ln(1 + (m/n)(e^ε - 1))."""
    epsilon = np.asarray(epsilon, dtype=float)
    return np.log1p(np.expm1(np.minimum(epsilon, 700.0)) * (m / n)) + np.maximum(epsilon - 700.0, 0.0)


def amplified_inverse(epsilon: ArrayLike, m: int, n: int) -> Floats:
    """The ε that a release on a batch may have so that ε is left after amplification; inverse of `amplify`."""
    epsilon = np.asarray(epsilon, dtype=float)
    return np.log1p(np.expm1(np.minimum(epsilon, 600.0)) * (n / m)) + np.maximum(epsilon - 600.0, 0.0)


# ------------------------------------------------------------------------------------------------------ event by event


def pure(event: Event) -> float:
    """ε of pure DP; infinite for Gaussian noise."""
    if isinstance(event, Laplace):
        return event.eps
    if isinstance(event, Seq):
        return sum(pure(part) for part in event.events)
    if isinstance(event, Sub):  # `amplify` without the price of an array: plans ask this thousands of times
        inner = pure(event.inner)
        return math.log1p(math.expm1(min(inner, 700.0)) * (event.m / event.n)) + max(inner - 700.0, 0.0)
    return math.inf


def rho(event: Event) -> float:
    """Tight ρ of zCDP. Gaussian noise on a batch has none that is amplified, so infinity is returned for it."""
    if isinstance(event, Laplace):
        if event.eps < 1e-3:  # ε - 1 + e^-ε would cancel; the series breaks off just above it
            return event.eps**2 * (1 / 2 - event.eps / 6 + event.eps**2 / 24)
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
        if event.eps < 1:  # ½ - ½ e^(-ε/2) would cancel
            return math.sqrt(8) * float(erfinv(-math.expm1(-event.eps / 2)))
        return float(-2 * ndtri_exp(-event.eps / 2 - math.log(2)))
    if isinstance(event, Seq):
        return math.hypot(*(mu(part) for part in event.events))
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
    return laplace_rdp(epsilon, orders) if isinstance(event, Laplace) else pure_rdp(epsilon, orders)


def dominating(event: Event) -> Event:
    """A Laplace or Gaussian event, or a `Sub` of one, whose privacy profile is nowhere below that of the event.

    It is the event itself unless that contains a `Seq`. Gaussian releases make one Gaussian release, exactly. Laplace
    releases are dominated by one with the sum of their ε: a shift in one coordinate tells more than the same shift
    spread over several. A mixture is dominated by the Gaussian release with its μ (Dong, Roth, Su 2019).
    """
    if isinstance(event, Sub):
        inner = dominating(event.inner)
        return event if inner is event.inner else Sub(event.kind, event.m, event.n, inner)
    if isinstance(event, Seq):
        parts = [dominating(part) for part in event.events]
        if len(parts) == 1:
            return parts[0]
        return Laplace(pure(event)) if all(isinstance(part, Laplace) for part in parts) else Gaussian(mu(event))
    return event


def profile(event: Event) -> Profile:
    """The privacy profile ε ↦ δ(ε) of one event, for all real ε; an upper bound if a `Seq` holds Laplace noise."""
    return mirrored(_profile_from_zero(dominating(event)))


def mirrored(positive: Profile) -> Profile:
    """The profile for all real ε, from that for ε ≥ 0, of a symmetric pair: δ(-ε) = 1 - e^-ε + e^-ε δ(ε)."""

    def delta(epsilon: ArrayLike) -> Floats:
        epsilon = np.asarray(epsilon, dtype=float)
        size = np.abs(epsilon)
        value = np.clip(positive(size), 0.0, 1.0)
        return np.where(epsilon >= 0, value, -np.expm1(-size) + np.exp(-size) * value)

    return delta


def _profile_from_zero(event: Event) -> Profile:
    """The profile on ε ≥ 0 of an event without `Seq`."""
    if isinstance(event, Laplace):
        scale = event.eps
        return lambda epsilon: -np.expm1(np.minimum((np.asarray(epsilon) - scale) / 2, 0.0))
    if isinstance(event, Gaussian):
        parameter = event.mu
        return lambda epsilon: gdp_delta(parameter, epsilon)
    assert isinstance(event, Sub)
    q, m, n, inner = event.m / event.n, event.m, event.n, _profile_from_zero(event.inner)
    return lambda epsilon: q * inner(amplified_inverse(epsilon, m, n))
