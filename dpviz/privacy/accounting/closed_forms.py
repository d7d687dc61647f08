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
from scipy.optimize import brentq
from scipy.special import erfcx, erfinv, log_ndtr, ndtr, ndtri, ndtri_exp, zeta

Floats = NDArray[np.float64]

_ROUNDING = 1e-15  # what rounding may take from a sum, relative to its terms

# Orders at which Rényi divergences are first looked at; the best one is then refined between its neighbours.
ORDERS = 1 + np.logspace(-2, 4, 400)
_LARGEST_LOG_ORDER = 353.0  # the square of an order must not overflow
_EXP_REST = np.array([1 / math.factorial(k + 2) for k in range(15)])  # (e^x - 1 - x) / x²
# ln(sinh(x)/x) = Σ_k (-1)^(k+1) ζ(2k)/k (x/π)^(2k)
_LOG_SINHC = np.array([0.0, *((-1) ** (k + 1) * zeta(2 * k) / k / math.pi ** (2 * k) for k in range(1, 13))])
MOST_RANGES = 512  # of selections, each with a divergence of its own
# Gauss-Legendre rule on [0, 1].
NODES, WEIGHTS = (rule / 2 + shift for rule, shift in zip(np.polynomial.legendre.leggauss(5), (0.5, 0.0), strict=True))

# --------------------------------------------------------------------------------------------------------- Gaussian DP


def gdp_logdelta(mu: float, epsilon: ArrayLike) -> Floats:
    """ln δ(ε) of a μ-GDP guarantee, for any real ε; δ is accurate to 1e-9 down to 1e-25 and beyond, for any μ > 0."""
    epsilon = np.asarray(epsilon, dtype=float)
    size = np.minimum(np.abs(epsilon), 1e300)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # δ = 0 far out: ln 0 = -inf is meant
        log_delta = _narrow_gdp_logdelta(mu, size) if mu < 0.05 else _wide_gdp_logdelta(mu, size)
        if not (epsilon < 0).any():
            return log_delta
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


def _log_delta(mu: float, delta: float) -> float:
    """ln delta, less what rounding may take from `gdp_logdelta` there."""
    return math.log(delta) * (1 + 2e-12 * max(1.0, mu / 1000))


@lru_cache(4096)
def gdp_epsilon(mu: float, delta: float) -> float:
    """The smallest ε ≥ 0 with δ(ε) ≤ delta of a μ-GDP guarantee, rounded up in the twelfth digit."""
    if mu == math.inf or mu == 0 or delta >= 1:
        return mu if delta < 1 else 0.0
    if delta <= 0 or mu > 1e150:  # μ² overflows
        return math.inf
    target = _log_delta(mu, delta)

    def excess(size: float) -> float:
        if mu < 0.05:
            return float(gdp_logdelta(mu, size * mu)) - target
        first = float(log_ndtr(mu / 2 - size))  # as `_wide_gdp_logdelta`, without what an array costs
        ratio = math.exp(min(size * mu + float(log_ndtr(-mu / 2 - size)) - first, 0.0))
        return first + math.log1p(-ratio) - target if ratio < 1 else -math.inf

    if excess(0.0) <= 0:
        return 0.0
    high = mu / 2 + math.sqrt(-2 * target)  # in units of μ, or a small ε would drown in the tolerance
    return mu * float(brentq(excess, 0.0, high * (1 + 1e-12), xtol=1e-300, rtol=1e-14, maxiter=500))


@lru_cache(4096)
def gdp_mu(epsilon: float, delta: float) -> float:
    """The largest μ whose Gaussian mechanism is (ε, δ)-DP, rounded down in the twelfth digit: analytic
    calibration, σ = Δ₂/μ (Balle and Wang 2018)."""
    if delta <= 0:
        return 0.0
    if delta >= 1 or epsilon == math.inf:
        return math.inf

    def excess(log_mu: float) -> float:
        mu = math.exp(log_mu)
        return max(float(gdp_logdelta(mu, epsilon)), -1e6) - _log_delta(mu, delta)

    # Here even δ(0) = 2 Φ(μ/2) - 1 < μ/√(2π) is small enough.
    low = math.log(delta) * (1 + 1e-11) + math.log(2 * math.pi) / 2 - 1e-9
    high = max(low, math.log(max(2 * epsilon, 1e-300)) / 2)
    while excess(high) < 0:
        high += 1.0
    return math.exp(float(brentq(excess, low, high, xtol=1e-14, rtol=1e-14)) - 1e-13)


# -------------------------------------------------------------------------------------------------------- zCDP and RDP


@lru_cache(4096)
def zcdp_epsilon(rho: float, delta: float) -> float:
    """ε at δ of any ρ-zCDP algorithm (Canonne, Kamath, Steinke 2020); at most ρ + 2√(ρ ln(1/δ))."""
    if rho == 0 or delta >= 1:
        return 0.0
    if rho == math.inf or delta <= 0:
        return math.inf
    log_odds = -math.log(delta)

    def slope(log_a: float) -> float:  # increasing; its root minimises ε over the order 1 + a
        a = math.exp(log_a)
        return a * (a * rho) + math.log1p(a) - log_odds

    # ln(1 + a) lies between 0 and a, which brackets the root.
    low = math.log(2 * log_odds / (1 + math.sqrt(1 + 4 * rho * log_odds))) - 1e-9
    high = min((math.log(log_odds) - math.log(rho)) / 2, math.log(math.expm1(min(log_odds, 700.0)))) + 1e-9
    low, high = min(low, _LARGEST_LOG_ORDER), min(high, _LARGEST_LOG_ORDER)
    if slope(low) >= 0 or slope(high) <= 0:  # any order is valid
        a = math.exp(low if slope(low) >= 0 else high)
    else:
        a = math.exp(brentq(slope, low, high, xtol=1e-12))
    terms = ((1 + a) * rho, -math.log1p(1 / a), log_odds / a, -math.log1p(a) / a)
    return max(0.0, math.fsum(terms) + _ROUNDING * sum(abs(term) for term in terms))


@lru_cache(4096)
def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest ρ for which every ρ-zCDP algorithm is (ε, δ)-DP."""
    if delta <= 0 or delta >= 1 or epsilon == math.inf:
        return 0.0 if delta <= 0 else math.inf
    root = math.sqrt(-math.log(delta))
    low = high = max((epsilon / (math.sqrt(root**2 + epsilon) + root)) ** 2, 1e-300)
    while zcdp_epsilon(low, delta) > epsilon:  # rounded up
        low *= 0.999 if low > 1e-300 else 0.0
    while zcdp_epsilon(high, delta) < epsilon:
        high *= 1.5
    if high <= low:
        return low
    largest = float(brentq(lambda rho: zcdp_epsilon(rho, delta) - epsilon, low, high, xtol=1e-300, rtol=1e-13))
    while zcdp_epsilon(largest, delta) > epsilon and largest > low:
        largest = max(largest * (1 - 1e-12), low)
    return largest


def rdp_epsilon(
    divergence: Callable[[Floats], Floats],
    delta: ArrayLike,
    at_orders: Floats | None = None,
    orders: Floats = ORDERS,
    refine: bool = True,
) -> Floats:
    """ε at δ, a number or (m,), from Rényi divergences D(order), order > 1 (Canonne, Kamath, Steinke 2020, Prop. 12).

    divergence : at orders of shape (m, k); where there is one for each δ, its row. orders : (k,), where to look at
        first; the best one is then refined, if asked to. at_orders : the divergences there, if known already.
    """
    delta = np.asarray(delta, dtype=float)
    log_delta = np.log(np.where(delta > 0, delta, 0.5)).reshape(-1, 1)

    def bound(at: Floats, divergences: Floats) -> Floats:
        fall, gain = np.log1p(-1 / at), (log_delta + np.log(at)) / (at - 1)
        return np.asarray(divergences + fall - gain + _ROUNDING * (divergences - fall + np.abs(gain)))

    values = bound(orders, divergence(orders[None]) if at_orders is None else at_orders)
    least = values.min(axis=1)
    if refine and np.isfinite(least).any():
        # Every order gives a valid ε, and the best ones differ little, so the search may stop early: eight parts
        # between the neighbours, and where a parabola through three of these is lowest.
        places, row = np.log10(orders - 1), np.arange(len(values))
        best = values.argmin(axis=1)
        low, high = places[np.maximum(best - 1, 0)], places[np.minimum(best + 1, len(orders) - 1)]
        fine = np.linspace(low, high, 9, axis=1)
        at = 1 + 10**fine
        values = bound(at, divergence(at))
        mid = np.clip(values.argmin(axis=1), 1, 7)
        with np.errstate(invalid="ignore", divide="ignore"):
            left, centre, right = (values[row, mid + side] for side in (-1, 0, 1))
            shift = (left - right) / (left - 2 * centre + right) / 2
        place = fine[row, mid] + np.clip(np.nan_to_num(shift), -1, 1) * (high - low) / 8
        at = 1 + 10 ** place[:, None]
        least = np.minimum(least, np.minimum(values.min(axis=1), bound(at, divergence(at))[:, 0]))
    return np.where(delta > 0, np.maximum(0.0, least).reshape(delta.shape), math.inf)


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
    """Rényi divergence at each order > 1 of any ε-DP algorithm, that of randomised response; arguments broadcast.

    With a = α - 1: ln(cosh(aε) + tanh(ε/2) sinh(aε)) / a, written so that nothing cancels.
    """
    epsilon, a = np.asarray(epsilon, dtype=float), orders - 1
    size = np.minimum(a * epsilon, 700.0)
    small = np.log1p(2 * np.sinh(size / 2) ** 2 + np.tanh(epsilon / 2) * np.sinh(size))
    large = a * epsilon + np.log(np.tanh(epsilon / 2) / 2 + 0.5)  # e^(-aε) is nothing
    return _at_most(np.where(size < 700, small, large) / a, epsilon)


def laplace_rdp(epsilon: ArrayLike, orders: Floats) -> Floats:
    """Rényi divergence at each order > 1 of Laplace noise (Mironov 2017, Proposition 6); arguments broadcast.

    With a = α - 1 and g(x) = e^x - 1 - x ≥ 0: ln(1 + (α g(aε) + a g(-αε)) / (2α - 1)) / a, in which nothing cancels.
    """
    epsilon, a = np.asarray(epsilon, dtype=float), orders - 1
    size = np.minimum(a * epsilon, 700.0)
    share = orders / (2 * orders - 1)
    small = np.log1p(share * exp_rest(size) + a / (2 * orders - 1) * exp_rest(-orders * epsilon))
    return _at_most(np.where(size < 700, small, a * epsilon + np.log(share)) / a, epsilon)


def _at_most(divergence: Floats, epsilon: Floats) -> Floats:
    """Rounded up, and no larger than the divergence of infinite order."""
    return np.minimum(divergence * (1 + 8 * _ROUNDING), epsilon)


def exp_rest(x: ArrayLike) -> Floats:
    """e^x - 1 - x, without cancellation."""
    x = np.asarray(x, dtype=float)
    near = np.clip(x, -0.5, 0.5)
    series = np.polynomial.polynomial.polyval(near, _EXP_REST) * near**2
    return np.where(np.abs(x) < 0.5, series, np.expm1(np.minimum(x, 700.0)) - x)


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
    broadcast. With b = e^-η, a = α - 1 and u = a (1-b^α) / (α b (1-b^a)): ln u + ln((1-b^α) / (α(1-b))) / a.

    In terms of s(x) = ln(sinh(x)/x) it is s(αη/2) - s(aη/2) + (s(αη/2) - s(η/2)) / a, both differences positive.
    """
    half, a = np.asarray(eta, dtype=float) / 2, orders - 1
    return _at_most(_log_sinhc_rise(a * half, half) + _log_sinhc_rise(half, a * half) / a, 2 * half)


def few_ranges(eta: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Few bounded ranges, and how often each counts, that together have Rényi divergences nowhere below those of
    counts[i] selections of range eta[i]; (k,) and (k,). At most MOST_RANGES are as they are.

    The divergence D is convex in η, so between two ranges it lies below the chord, and a selection may be split between
    them. With k(x) = 1 - x²/sinh²x, which grows: η² D'' = (k(αη/2) - k(aη/2)) + (k(αη/2) - k(η/2)) / a ≥ 0.
    """
    if len(eta) <= MOST_RANGES:
        return eta, counts
    top = float(eta.max())
    nodes = np.append(min(float(eta.min()), 5e-4 * top), np.geomspace(1e-3 * top, top, MOST_RANGES // 2))
    after = np.clip(np.searchsorted(nodes, eta), 1, len(nodes) - 1)
    upper = np.clip((eta - nodes[after - 1]) / (nodes[after] - nodes[after - 1]), 0.0, 1.0)
    weights = np.zeros(len(nodes))
    np.add.at(weights, after, counts * upper)
    np.add.at(weights, after - 1, counts * (1 - upper))
    return nodes, weights


def _log_sinhc_rise(x: Floats, h: Floats) -> Floats:
    """s(x + h) - s(x) of s(x) = ln(sinh(x)/x) for x, h ≥ 0, relative error 1e-14: by its power series up to x = ½, by
    s(x) = x - ln 2x + ln(1 - e^-2x) beyond."""
    near, far = np.minimum(x, 0.5), np.maximum(x, 0.5)
    step = np.where(x + h <= 0.5, h, 0.5 - near)
    # The divided difference of the polynomial in x², by Horner's rule.
    u, v = near**2, (near + step) ** 2
    slope, value = np.zeros_like(v), np.full_like(v, _LOG_SINHC[-1])
    for coefficient in _LOG_SINHC[-2::-1]:
        slope, value = slope * u + value, value * v + coefficient
    below = step * (2 * near + step) * slope
    rest = np.where(x >= 0.5, h, np.maximum(x + h - 0.5, 0.0))
    above = rest - np.log1p(rest / far) + np.log1p(-np.expm1(-2 * rest) / np.expm1(np.minimum(2 * far, 700.0)))
    return np.asarray(below + above)


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
