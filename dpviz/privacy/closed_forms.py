"""Closed forms: how a number in one currency reads in another, and what single mechanisms cost.

Notation: ε, δ of (ε, δ)-DP; ρ of zCDP; μ of Gaussian DP; δ(ε) is the privacy profile. A conversion that does not exist
gives infinity, never a guess. Sources: Dong, Roth, Su 2019 (GDP); Balle and Wang 2018 (Gaussian); Canonne, Kamath,
Steinke 2020 (zCDP and RDP to (ε, δ)); Balle, Barthe, Gaboardi 2018 (sampling without replacement); Dong, Durfee,
Rogers 2020 (bounded range).
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.special import erfcx, erfinv, log_ndtr, ndtr, ndtri, ndtri_exp

Floats = NDArray[np.float64]

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


def rdp_epsilon(
    divergence: Callable[[Floats], Floats], delta: float, at_orders: Floats | None = None, orders: Floats = ORDERS
) -> float:
    """ε at δ from Rényi divergences D(order), order > 1 (Canonne, Kamath, Steinke 2020, Proposition 12).

    orders : where to look at first; the best one is then refined. at_orders : the divergences there, if known already.
    """
    log_delta = math.log(delta)

    def bound(at: Floats, divergences: Floats) -> Floats:
        return np.asarray(divergences + np.log1p(-1 / at) - (log_delta + np.log(at)) / (at - 1))

    def refined(x: float) -> float:
        order = np.array([1 + 10**x])
        return float(bound(order, divergence(order))[0])

    values = bound(orders, divergence(orders) if at_orders is None else at_orders)
    best = int(np.argmin(values))
    if not np.isfinite(values[best]):
        return math.inf
    neighbours = np.log10(orders[[max(best - 1, 0), min(best + 1, len(orders) - 1)]] - 1)
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


# ------------------------------------------------------------------------------- the exponential mechanism, range η


def exponential_delta(eta: float, epsilon: ArrayLike) -> Floats:
    """δ at ε ≥ 0 of a selection of bounded range η: (1 - e^{(ε-η)/2})² / (1 - e^-η), 0 above η."""
    shortfall = np.expm1(np.minimum((np.asarray(epsilon, dtype=float) - eta) / 2, 0.0))
    return shortfall**2 / -math.expm1(-eta)


def exponential_rdp(eta: ArrayLike, orders: Floats) -> Floats:
    """Rényi divergence at each order > 1 of a selection of bounded range η, attained by a two-point pair; arguments
    broadcast. With b = e^-η and u = (α-1)(1-b^α) / (α b (1-b^{α-1})): ln u + ln((1-b^α) / (α(1-b))) / (α-1)."""
    eta = np.asarray(eta, dtype=float)
    safe = np.maximum(eta, 1e-3)  # below, the logarithms cancel, and the bounds by zCDP and by η are exact to 1e-3

    def log_one_minus_power(k: Floats | float) -> Floats:
        return np.asarray(np.log(-np.expm1(-k * safe)))

    log_u = np.log((orders - 1) / orders) + log_one_minus_power(orders) + safe - log_one_minus_power(orders - 1)
    ratio = log_one_minus_power(orders) - np.log(orders) - log_one_minus_power(1.0)
    return np.where(eta < 1e-3, np.minimum(eta, orders * eta**2 / 8), log_u + ratio / (orders - 1))


def exponential_rho(eta: ArrayLike) -> Floats:
    """Tight ρ of a selection of bounded range η: r - 1 - ln r with r = η/(e^η - 1); at most η²/8."""
    eta = np.asarray(eta, dtype=float)
    large = np.maximum(eta, 0.03)
    log_r = np.log(large) - large - np.log(-np.expm1(-large))
    # Near 0 the terms cancel; the series η²/8 - η⁴/576 + η⁶/25920 - … alternates, so it may end after a positive term.
    return np.where(eta < 0.03, eta**2 / 8 - eta**4 / 576 + eta**6 / 25920, np.expm1(log_r) - log_r)


def exponential_mu(eta: float) -> float:
    """The smallest μ of Gaussian DP of a selection of bounded range η: that of pure DP at η/2."""
    return pure_to_mu(eta / 2)


def exponential_tradeoff(eta: float, false_positive_rates: ArrayLike) -> Floats:
    """The smallest false negative rate at each false positive rate: logistic noise shifted by η, (1-α)/(1+α(e^η-1))."""
    alpha = np.asarray(false_positive_rates, dtype=float)
    if eta > 700:
        return np.where(alpha > 0, 0.0, 1.0)
    return (1 - alpha) / (1 + alpha * math.expm1(eta))


# ------------------------------------------------------------------------------------------------ area under the curve


def pure_auc(epsilon: float) -> float:
    """Largest area under the ROC curve of any attack on an ε-DP algorithm: e^ε/(1 + e^ε)."""
    return 1 / (1 + math.exp(-epsilon))


def laplace_auc(epsilon: float) -> float:
    """The same for one release with Laplace noise: 1 - ½ e^-ε (1 + ε/2)."""
    return 1 - math.exp(-epsilon) * (1 + epsilon / 2) / 2


def exponential_auc(eta: float) -> float:
    """The same for one selection of bounded range η: A (A - 1 - ln A)/(A - 1)², A = e^η."""
    if eta < 1e-3:  # the terms cancel; the series breaks off after a negative cubic one
        return 0.5 + eta / 6
    inverse = math.exp(-eta)  # divided through by A², so that nothing overflows
    return (1 - inverse - eta * inverse) / (1 - inverse) ** 2


def gdp_auc(mu: float) -> float:
    """The same for μ-GDP: Φ(μ/√2)."""
    return float(ndtr(mu / math.sqrt(2)))
