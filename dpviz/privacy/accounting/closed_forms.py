"""Closed forms: how a number in one currency reads in another, and what single mechanisms cost.

Notation: ε, δ of (ε, δ)-DP; ρ of zCDP; μ of Gaussian DP; δ(ε) is the privacy profile. A conversion that does not exist
gives infinity, never a guess. Sources: Dong, Roth, Su 2019 (GDP); Balle and Wang 2018 (Gaussian); Canonne, Kamath,
Steinke 2020 (zCDP and RDP to (ε, δ)); Balle, Barthe, Gaboardi 2018 (sampling without replacement); Dong, Durfee,
Rogers 2020 (bounded range).
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dtbtrs
from scipy.optimize import brentq
from scipy.special import erfcx, erfinv, expit, log_ndtr, ndtr, ndtri, ndtri_exp, zeta

from dpviz.errors import UserError
from dpviz.numbers import short

Floats = NDArray[np.float64]

_ROUNDING = 1e-15  # error of rounding in a sum, relative to its terms

# Orders at which Rényi divergences are computed first; the best one is then refined between its neighbours.
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
    """Return ln δ(ε) of a μ-GDP guarantee, for any real ε and μ > 0; δ is accurate to 1e-9 down to 1e-25 and beyond."""
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
    """Return ln δ(ε) for small μ. The two terms of δ differ by a factor 1 - O(μ²/ε) only, so their difference is
    integrated: with x = ε/μ - μ/2 and Mills' ratio M it is φ(x) ∫ (1 - t M(t)) dt over [x, x + μ].
    x = ε/μ - μ/2 and Mills' ratio M it is φ(x) ∫ (1 - t M(t)) dt over [x, x + μ]."""
    x = epsilon / mu - mu / 2
    t = x[..., None] + mu * NODES
    near = np.minimum(t, 1e4)  # further out the difference cancels, and 1/(t² + 1) bounds it from above
    slope = np.where(t < 1e4, 1 - near * math.sqrt(math.pi / 2) * erfcx(near / math.sqrt(2)), 1 / (t**2 + 1))
    return np.asarray(np.log(mu * (slope @ WEIGHTS)) - x**2 / 2 - math.log(2 * math.pi) / 2)


def gdp_delta(mu: float, epsilon: ArrayLike) -> Floats:
    """Return δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) of a μ-GDP guarantee."""
    return np.exp(gdp_logdelta(mu, epsilon))


def gdp_tradeoff(mu: float, false_positive_rates: ArrayLike) -> Floats:
    """Return the smallest false negative rate of any test, Φ(Φ⁻¹(1 - α) - μ), at each false positive rate α (GDP)."""
    alpha = np.asarray(false_positive_rates, dtype=float)
    return ndtr(-ndtri(alpha) - mu) if mu < math.inf else np.zeros_like(alpha)


def _log_delta(mu: float, delta: float) -> float:
    """Return ln delta less the rounding error of `gdp_logdelta` there."""
    return math.log(delta) * (1 + 2e-12 * max(1.0, mu / 1000))


@lru_cache(4096)
def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the smallest ε ≥ 0 with δ(ε) ≤ delta of a μ-GDP guarantee, rounded up in the twelfth digit."""
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
    """Return the largest μ whose Gaussian mechanism is (ε, δ)-DP, rounded down in the twelfth digit: analytic
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
    """Return ε at δ of any ρ-zCDP algorithm (Canonne, Kamath, Steinke 2020); at most ρ + 2√(ρ ln(1/δ))."""
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
    """Return the largest ρ for which every ρ-zCDP algorithm is (ε, δ)-DP."""
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
    """Return ε at δ, a number or (m,), from Rényi divergences (Canonne, Kamath, Steinke 2020, Proposition 12).

    divergence : function of orders (m, k), a row for each δ, or (1, k) for all δ; returns divergences (m, k).
    orders : (k,) tried first; the best one is then refined, unless `refine` is False.
    at_orders : the divergences at `orders`, if known already.
    """
    delta = np.asarray(delta, dtype=float)
    log_delta = np.log(np.where(delta > 0, delta, 0.5)).reshape(-1, 1)

    def bound(at: Floats, divergences: Floats) -> Floats:
        fall, gain = np.log1p(-1 / at), (log_delta + np.log(at)) / (at - 1)
        return np.asarray(divergences + fall - gain + _ROUNDING * (divergences - fall + np.abs(gain)))

    values = bound(orders, divergence(orders[None]) if at_orders is None else at_orders)
    smallest = values.min(axis=1)
    if refine and np.isfinite(smallest).any():
        # Every order gives a valid ε, and the best ones differ little, so the search may stop early: eight parts
        # between the neighbours, and the point where a parabola through three of these is lowest.
        positions, row = np.log10(orders - 1), np.arange(len(values))
        best = values.argmin(axis=1)
        low, high = positions[np.maximum(best - 1, 0)], positions[np.minimum(best + 1, len(orders) - 1)]
        fine = np.linspace(low, high, 9, axis=1)
        at = 1 + 10**fine
        values = bound(at, divergence(at))
        mid = np.clip(values.argmin(axis=1), 1, 7)
        with np.errstate(invalid="ignore", divide="ignore"):
            left, centre, right = (values[row, mid + side] for side in (-1, 0, 1))
            shift = (left - right) / (left - 2 * centre + right) / 2
        position = fine[row, mid] + np.clip(np.nan_to_num(shift), -1, 1) * (high - low) / 8
        at = 1 + 10 ** position[:, None]
        smallest = np.minimum(smallest, np.minimum(values.min(axis=1), bound(at, divergence(at))[:, 0]))
    return np.where(delta > 0, np.maximum(0.0, smallest).reshape(delta.shape), math.inf)


# ------------------------------------------------------------------------------------------------------------- pure DP


def pure_to_rho(epsilon: float) -> float:
    """Return the smallest ρ that every ε-DP algorithm has: ε tanh(ε/2), below the textbook's ε²/2."""
    return epsilon * math.tanh(epsilon / 2)


def pure_to_mu(epsilon: float) -> float:
    """Return the smallest μ that every ε-DP algorithm has: -2 Φ⁻¹(1/(1 + e^ε))."""
    if epsilon < 1:  # ½ - 1/(1 + e^ε) would cancel
        return math.sqrt(8) * float(erfinv(math.tanh(epsilon / 2)))
    return float(-2 * ndtri_exp(-np.logaddexp(0.0, epsilon)))


def pure_delta(epsilon_0: float, epsilon: ArrayLike) -> Floats:
    """Return δ at ε ≥ 0 of any ε₀-DP algorithm, attained by randomised response."""
    return -np.expm1(np.minimum(np.asarray(epsilon, dtype=float) - epsilon_0, 0.0)) / (1 + math.exp(-epsilon_0))


def pure_epsilon(epsilon_0: float, delta: float) -> float:
    """Return ε at δ of any ε₀-DP algorithm; inverse of `pure_delta`."""
    excess = delta * (1 + math.exp(-epsilon_0))
    return max(0.0, epsilon_0 + math.log1p(-excess)) if excess < 1 else 0.0


def pure_tradeoff(epsilon: float, false_positive_rates: ArrayLike) -> Floats:
    """Return the smallest false negative rate of any test at each false positive rate, for any ε-DP algorithm."""
    alpha = np.asarray(false_positive_rates, dtype=float)
    if epsilon == math.inf:
        return np.zeros_like(alpha)
    return np.maximum(0.0, np.maximum(1 - math.exp(min(epsilon, 700.0)) * alpha, math.exp(-epsilon) * (1 - alpha)))


def laplace_tradeoff(epsilon: float, false_positive_rates: ArrayLike) -> Floats:
    """Return the smallest false negative rate of any test at each false positive rate, for one Laplace release."""
    alpha, floor = np.asarray(false_positive_rates, dtype=float), math.exp(-epsilon)
    middle = floor / (4 * np.maximum(alpha, 1e-300))
    low = 1 - alpha / floor if floor > 0 else np.zeros_like(alpha)
    return np.where(alpha < floor / 2, low, np.where(alpha <= 0.5, middle, floor * (1 - alpha)))


def pure_rdp(epsilon: ArrayLike, orders: Floats) -> Floats:
    """Return the Rényi divergence at each order > 1 of randomised response, the largest of any ε-DP algorithm;
    arguments broadcast.

    With a = α - 1: ln(cosh(aε) + tanh(ε/2) sinh(aε)) / a, written so that nothing cancels.
    """
    epsilon, a = np.asarray(epsilon, dtype=float), orders - 1
    size = np.minimum(a * epsilon, 700.0)
    small = np.log1p(2 * np.sinh(size / 2) ** 2 + np.tanh(epsilon / 2) * np.sinh(size))
    large = a * epsilon + np.log(np.tanh(epsilon / 2) / 2 + 0.5)  # e^(-aε) is nothing
    return _at_most(np.where(size < 700, small, large) / a, epsilon)


def laplace_rdp(epsilon: ArrayLike, orders: Floats) -> Floats:
    """Return the Rényi divergence at each order > 1 of Laplace noise; arguments broadcast (Mironov 2017, Proposition
    6).

    With a = α - 1 and g(x) = e^x - 1 - x ≥ 0: ln(1 + (α g(aε) + a g(-αε)) / (2α - 1)) / a, in which nothing cancels.
    """
    epsilon, a = np.asarray(epsilon, dtype=float), orders - 1
    size = np.minimum(a * epsilon, 700.0)
    share = orders / (2 * orders - 1)
    small = np.log1p(share * exp_rest(size) + a / (2 * orders - 1) * exp_rest(-orders * epsilon))
    return _at_most(np.where(size < 700, small, a * epsilon + np.log(share)) / a, epsilon)


def _at_most(divergence: Floats, epsilon: Floats) -> Floats:
    """Return the divergence rounded up, and at most ε, the divergence of infinite order."""
    return np.minimum(divergence * (1 + 8 * _ROUNDING), epsilon)


def exp_rest(x: ArrayLike) -> Floats:
    """Return e^x - 1 - x, without cancellation."""
    x = np.asarray(x, dtype=float)
    near = np.clip(x, -0.5, 0.5)
    series = np.polynomial.polynomial.polyval(near, _EXP_REST) * near**2
    return np.where(np.abs(x) < 0.5, series, np.expm1(np.minimum(x, 700.0)) - x)


def amplify(epsilon: ArrayLike, m: int, n: int) -> Floats:
    """Return ε of an ε-DP release on m of n rows drawn without replacement, replace-one: ln(1 + (m/n)(e^ε - 1))."""
    epsilon = np.asarray(epsilon, dtype=float)
    return np.log1p(np.expm1(np.minimum(epsilon, 700.0)) * (m / n)) + np.maximum(epsilon - 700.0, 0.0)


def amplified_inverse(epsilon: ArrayLike, m: int, n: int) -> Floats:
    """Return the ε of a release on a batch that sampling amplifies to `epsilon`; inverse of `amplify`."""
    epsilon = np.asarray(epsilon, dtype=float)
    return np.log1p(np.expm1(np.minimum(epsilon, 600.0)) * (n / m)) + np.maximum(epsilon - 600.0, 0.0)


# ------------------------------------------------------------------------------- the exponential mechanism, range η


def exponential_delta(eta: float, epsilon: ArrayLike) -> Floats:
    """Return δ at ε ≥ 0 of a selection of bounded range η: (1 - e^{(ε-η)/2})² / (1 - e^-η), 0 above η."""
    shortfall = np.expm1(np.minimum((np.asarray(epsilon, dtype=float) - eta) / 2, 0.0))
    return shortfall**2 / -math.expm1(-eta)


def exponential_rdp(eta: ArrayLike, orders: Floats) -> Floats:
    """Return the Rényi divergence at each order > 1 of a selection of bounded range η, attained by a two-point pair;
    arguments broadcast. With b = e^-η, a = α - 1 and u = a (1-b^α) / (α b (1-b^a)): ln u + ln((1-b^α) / (α(1-b))) / a.

    In terms of s(x) = ln(sinh(x)/x) it is s(αη/2) - s(aη/2) + (s(αη/2) - s(η/2)) / a, both differences positive.
    """
    half, a = np.asarray(eta, dtype=float) / 2, orders - 1
    return _at_most(_log_sinhc_rise(a * half, half) + _log_sinhc_rise(half, a * half) / a, 2 * half)


def few_ranges(eta: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Return a few bounded ranges and how often each counts, (k,) and (k,), that together have Rényi divergences
    nowhere below those of counts[i] selections of range eta[i]. Up to MOST_RANGES ranges stay as they are.

    The divergence D is convex in η, so between two ranges it lies below the chord, and a selection may be split between
    them. With k(x) = 1 - x²/sinh²x, which grows: η² D'' = (k(αη/2) - k(aη/2)) + (k(αη/2) - k(η/2)) / a ≥ 0.
    """
    if len(eta) <= MOST_RANGES:
        return eta, counts
    top = float(eta.max())
    nodes = np.append(min(float(eta.min()), 5e-4 * top), np.geomspace(1e-3 * top, top, MOST_RANGES // 2))
    upper = np.clip(np.searchsorted(nodes, eta), 1, len(nodes) - 1)
    fraction = np.clip((eta - nodes[upper - 1]) / (nodes[upper] - nodes[upper - 1]), 0.0, 1.0)
    weights = np.zeros(len(nodes))
    np.add.at(weights, upper, counts * fraction)
    np.add.at(weights, upper - 1, counts * (1 - fraction))
    return nodes, weights


def _log_sinhc_rise(x: Floats, h: Floats) -> Floats:
    """Return s(x + h) - s(x) of s(x) = ln(sinh(x)/x) for x, h ≥ 0, relative error 1e-14: by its power series up to x =
    ½, by s(x) = x - ln 2x + ln(1 - e^-2x) beyond."""
    near, far = np.minimum(x, 0.5), np.maximum(x, 0.5)
    step = np.where(x + h <= 0.5, h, 0.5 - near)
    # The divided difference of the polynomial in x², by Horner's rule.
    u, v = near**2, (near + step) ** 2
    slope, value = np.zeros_like(v), np.full_like(v, _LOG_SINHC[-1])
    for coefficient in _LOG_SINHC[-2::-1]:
        slope, value = slope * u + value, value * v + coefficient
    below = step * (2 * near + step) * slope
    beyond = np.where(x >= 0.5, h, np.maximum(x + h - 0.5, 0.0))
    above = beyond - np.log1p(beyond / far) + np.log1p(-np.expm1(-2 * beyond) / np.expm1(np.minimum(2 * far, 700.0)))
    return np.asarray(below + above)


def exponential_rho(eta: ArrayLike) -> Floats:
    """Return the tight ρ of a selection of bounded range η: r - 1 - ln r with r = η/(e^η - 1); at most η²/8."""
    eta = np.asarray(eta, dtype=float)
    large = np.maximum(eta, 0.03)
    log_r = np.log(large) - large - np.log(-np.expm1(-large))
    # Near 0 the terms cancel; the series η²/8 - η⁴/576 + η⁶/25920 - … alternates, so it may end after a positive term.
    return np.where(eta < 0.03, eta**2 / 8 - eta**4 / 576 + eta**6 / 25920, np.expm1(log_r) - log_r)


def exponential_mu(eta: float) -> float:
    """Return the smallest μ of Gaussian DP of a selection of bounded range η: that of pure DP at η/2."""
    return pure_to_mu(eta / 2)


def exponential_tradeoff(eta: float, false_positive_rates: ArrayLike) -> Floats:
    """Return the smallest false negative rate at each false positive rate of a selection of bounded range η: that of
    logistic noise shifted by η, (1-α)/(1+α(e^η-1))."""
    alpha = np.asarray(false_positive_rates, dtype=float)
    if eta > 700:
        return np.where(alpha > 0, 0.0, 1.0)
    return (1 - alpha) / (1 + alpha * math.expm1(eta))


# ------------------------------------------------------------------------------------------------ theorems of textbooks


class OutsideTheorem(UserError, ValueError):
    """The numbers are outside the range for which a theorem is proved."""


def advanced(epsilon: float, steps: int, slack: float, delta: float = 0.0) -> tuple[float, float]:
    """Return (ε, δ) of `steps` (epsilon, delta)-DP releases: advanced composition (Dwork and Roth 2014, Theorem 3.20).

    slack : δ' > 0, added to the δ of the releases. For comparison: `optimal` is the best that such releases allow.
    """
    return float(advanced_epsilon(epsilon, steps, slack)), steps * delta + slack


def advanced_epsilon(epsilon: ArrayLike, steps: ArrayLike, slack: float) -> Floats:
    """Return the ε of `advanced`: √(2k ln(1/δ')) ε + k ε (e^ε - 1); arguments broadcast."""
    each, count = np.asarray(epsilon, dtype=float), np.asarray(steps, dtype=float)
    return advanced_sum(count * each**2, count * each * np.expm1(each), slack)


def advanced_sum(squares: ArrayLike, linear: ArrayLike, slack: ArrayLike) -> Floats:
    """Return ε by advanced composition of pure releases that may differ, from Σ ε_i² (`squares`), Σ ε_i (e^ε_i - 1)
    (`linear`) and δ' (`slack`); arguments broadcast."""
    return np.asarray(np.sqrt(2 * np.log(1 / np.asarray(slack)) * squares) + linear)


def advanced_draw(epsilon: float, steps: ArrayLike, slack: float) -> Floats:
    """Return ε of each of k pure releases that are (epsilon, slack)-DP together, ε/(2 √(2k ln(1/δ'))) (Dwork and Roth
    2014, Corollary 3.21), as papers quote it. Stated for ε < 1, it holds by advanced composition up to about 4
    ln(1/δ')."""
    return np.asarray(epsilon / (2 * np.sqrt(2 * np.asarray(steps, dtype=float) * math.log(1 / slack))))


def classic_gaussian_mu(epsilon: float, delta: float) -> float:
    """Return μ of the textbook's (epsilon, delta)-DP Gaussian mechanism, σ = Δ₂ √(2 ln(1.25/δ))/ε (Dwork and Roth 2014,
    Appendix A).

    A teaching comparison: `closed_forms.gdp_mu` is exact, never smaller where the theorem holds, and holds everywhere.
    Raises OutsideTheorem, which is a UserError and a ValueError, unless 0 < epsilon < 1.
    """
    if not 0 < epsilon < 1:
        raise OutsideTheorem(
            f"The textbook's noise is proved for ε between 0 and 1 only, not for ε = {short(epsilon, 4)}. Ask for a "
            "smaller ε, or use the exact calibration.",
            title="The classic Gaussian mechanism does not apply",
        )
    return epsilon / math.sqrt(2 * math.log(1.25 / delta))


# ----------------------------------------------------------------------------------- the best for equal (ε, δ) releases


def optimal(epsilon: float, steps: int, delta: float, step_delta: float = 0.0) -> float:
    """Return the smallest ε at δ = delta that holds for all releases, `steps` of them, each (epsilon, step_delta)-DP.

    Kairouz, Oh, Viswanath 2015, Theorem 3.3, at every real ε and not only on the theorem's grid. Infinite where the
    releases' own δ exceed delta.
    """
    # δ' = 1 - (1 - δ)/(1 - δ_i)^k remains of δ once each release may fail openly; negative if δ is too small for that.
    reduced = -math.expm1(math.log1p(-delta) - steps * math.log1p(-step_delta))
    if reduced <= 0:
        return steps * epsilon if reduced == 0 else math.inf
    losses, excess, scaled = _losses(epsilon, steps)
    # δ falls as the loss grows, and the largest loss comes first: the last that is small enough ends the interval.
    last = int(np.searchsorted(excess, reduced, side="right")) - 1
    # On the interval below that loss L, δ(ε) = δ(L) + V (1 - e^(ε - L)).
    inside = (excess[last] - reduced) / scaled[last]
    return max(0.0, float(losses[last] + math.log1p(inside))) if inside > -1 else 0.0


def _losses(epsilon: float, steps: int) -> tuple[Floats, Floats, Floats]:
    """Return losses L ≥ 0 of `steps` randomised responses, falling; δ(L) of each; and V = Σ p e^(L - L_j) over L_j ≥ L.
    Those that are out of reach (`_binomial`) are left out, so that there are of the order of √steps.

    The number of false answers is F ~ Bin(k, 1/(1 + e^ε)) and the loss L = (k - 2F) ε. With r = e^(-2ε) and the mass S
    up to F, δ_F = r δ_(F-1) + (1 - r) S_(F-1) and V_F = r V_(F-1) + p_F have positive terms only: nothing cancels.
    """
    false, mass = _binomial(steps, epsilon)
    false, mass = false[false <= steps // 2], mass[false <= steps // 2]
    ratio = math.exp(-2 * epsilon)
    below = np.append(0.0, np.cumsum(mass)[:-1])
    excess = recursion([ratio], -math.expm1(-2 * epsilon) * below)
    losses = (steps - 2 * false.astype(float)) * epsilon
    return losses, excess, recursion([ratio], mass)


def _binomial(steps: int, log_odds: float) -> tuple[np.ndarray, Floats]:
    """Return the counts F that Bin(steps, 1/(1 + e^log_odds)) reaches with a probability above 1e-200, ascending, and
    the probability of each, accurate far below the spacing of floats for any `steps`: a running sum of the logarithms
    of the ratios of neighbours, which are near 0 where it matters.

    Counts farther from the mean than 45 standard deviations and 1500 are left out (Bernstein's inequality).
    """
    chance = float(expit(-log_odds))
    mean, width = steps * chance, 45 * math.sqrt(steps * chance * (1 - chance)) + 1500
    counts = np.arange(max(0, math.floor(mean - width)), min(steps, math.ceil(mean + width)) + 1)
    ratios = np.log((steps - counts[:-1]) / (counts[1:])) - log_odds  # of Pr[F = count + 1] to Pr[F = count]
    logs = np.append(0.0, np.cumsum(ratios))
    mass = np.exp(logs - logs.max())
    return counts, mass / mass.sum()


def recursion(coefficients: Sequence[float], force: ArrayLike, memory: Sequence[float] = ()) -> Floats:
    """Return the solution y (T,) of the linear recursion y_t = f_t + Σ_k c_k y_{t-k} for force f (T,), coefficients
    c_1, c_2, … and y = 0 before.

    memory : added to the first entries of the force, for values y ≠ 0 before. Values that overflow become inf or nan.

    It is a triangular system with few diagonals, solved forwards. `scipy.signal.lfilter` solves it, too, but its
    package takes 0.7 s to import; `scipy.linalg` is there anyway.
    """
    right = np.array(force, dtype=np.float64)
    added = memory[: len(right)]
    right[: len(added)] += added
    band = np.empty((len(coefficients) + 1, len(right)), order="F")
    band[0] = 1.0
    band[1:] = -np.asarray(coefficients, dtype=np.float64)[:, None]
    solution, _ = dtbtrs(band, right, uplo="L", diag="U")
    return np.asarray(solution)
