"""Closed forms: conversions of a number in one currency to another, and the costs of single mechanisms.

Notation: ε, δ of (ε, δ)-DP; ρ of zCDP; μ of Gaussian DP (GDP); η of a selection of bounded range (the exponential
mechanism); α the order of a Rényi divergence (RDP), or the false positive rate of a test. δ(ε) is the privacy profile,
the smallest δ for which an algorithm is (ε, δ)-DP. Φ is the standard normal distribution function and φ its density.

A conversion that does not exist gives infinity, never a guess. Sources: Dong, Roth, Su 2019 (GDP); Balle and Wang 2018
(Gaussian); Canonne, Kamath, Steinke 2020 (zCDP and RDP to (ε, δ)); Balle, Barthe, Gaboardi 2018 (sampling without
replacement); Dong, Durfee, Rogers 2020 (bounded range).
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpviz.errors import UserError
from dpviz.later import lazy_functions
from dpviz.numbers import short

(dtbtrs,) = lazy_functions("scipy.linalg.lapack", "dtbtrs")
(brentq,) = lazy_functions("scipy.optimize", "brentq")
erfcx, erfinv, expit, log_ndtr, ndtr, ndtri, ndtri_exp = lazy_functions(
    "scipy.special", "erfcx erfinv expit log_ndtr ndtr ndtri ndtri_exp"
)

Floats = NDArray[np.float64]

_ROUNDING = 1e-15  # error of rounding in a sum, relative to its terms
_NARROW_MU = 0.05  # below this μ, the two terms of the δ of Gaussian noise cancel too many digits

# Orders at which Rényi divergences are computed first; the best one is then refined between its neighbours.
ORDERS = 1 + np.logspace(-2, 4, 400)
_LARGEST_LOG_ORDER = 353.0  # the square of an order must not overflow
_EXP_REST = np.array([1 / math.factorial(k + 2) for k in range(15)])  # power series of (e^x - 1 - x) / x²
# Power series in x² of ln(sinh(x)/x) = Σ_k B_2k 2^(2k-1) / (k (2k)!) x^2k, k = 1, 2, …, with Bernoulli numbers B_2k.
_BERNOULLI = [1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330]
_BERNOULLI += [854513 / 138, -236364091 / 2730]
_LOG_SINHC = np.array([0.0, *(b * 2 ** (2 * k - 1) / (k * math.factorial(2 * k)) for k, b in enumerate(_BERNOULLI, 1))])
MAX_RANGES = 512  # different ranges of selections for which divergences are computed one by one
# Nodes and weights of the Gauss-Legendre rule with five nodes, on [0, 1] in place of [-1, 1].
NODES, WEIGHTS = (rule / 2 + shift for rule, shift in zip(np.polynomial.legendre.leggauss(5), (0.5, 0.0), strict=True))

# --------------------------------------------------------------------------------------------------------- Gaussian DP


def gdp_logdelta(mu: float, epsilon: ArrayLike) -> Floats:
    """Return ln δ(ε) of a μ-GDP guarantee, for any real ε and μ > 0.

    δ has a relative error of at most 1e-9, even where it is 1e-25 or less.
    """
    epsilon = np.asarray(epsilon, dtype=float)
    size = np.minimum(np.abs(epsilon), 1e300)  # at ∞ the terms would be ∞ - ∞
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # where δ underflows to 0, ln δ is -inf
        log_delta = _narrow_gdp_logdelta(mu, size) if mu < _NARROW_MU else _wide_gdp_logdelta(mu, size)
        if not (epsilon < 0).any():
            return log_delta
        mirrored = np.log(-np.expm1(-size) + np.exp(log_delta - size))  # δ(-ε) = 1 - e^-ε + e^-ε δ(ε)
    return np.where(epsilon >= 0, log_delta, mirrored)


def _wide_gdp_logdelta(mu: float, epsilon: Floats) -> Floats:
    """Return ln δ(ε) for ε ≥ 0 and μ that is not small: the logarithm of the difference of the two terms of δ(ε), see
    `gdp_delta`, computed from their logarithms."""
    log_first = log_ndtr(mu / 2 - epsilon / mu)
    log_second = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    # `fmin` makes 0 of the nan where both logarithms are -∞.
    return np.asarray(log_first + np.log1p(-np.exp(np.fmin(log_second - log_first, 0.0))))


def _narrow_gdp_logdelta(mu: float, epsilon: Floats) -> Floats:
    """Return ln δ(ε) for ε ≥ 0 and small μ.

    The two terms of δ(ε) = Φ(-x) - e^ε Φ(-x - μ), with x = ε/μ - μ/2, then are equal up to a factor 1 - O(μ²/ε), so
    their difference is computed as an integral: with Mills' ratio M(t) = Φ(-t)/φ(t) = √(π/2) erfcx(t/√2) it is
    φ(x) (M(x) - M(x + μ)), as e^ε φ(x + μ) = φ(x), and so φ(x) ∫ (1 - t M(t)) dt over [x, x + μ].
    """
    x = epsilon / mu - mu / 2
    t = x[..., None] + mu * NODES
    near = np.minimum(t, 1e4)  # for larger t, 1 - t M(t) cancels, and its upper bound 1/(t² + 1) is used
    integrand = np.where(t < 1e4, 1 - near * math.sqrt(math.pi / 2) * erfcx(near / math.sqrt(2)), 1 / (t**2 + 1))
    return np.asarray(np.log(mu * (integrand @ WEIGHTS)) - x**2 / 2 - math.log(2 * math.pi) / 2)


def gdp_delta(mu: float, epsilon: ArrayLike) -> Floats:
    """Return δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) of a μ-GDP guarantee."""
    return np.exp(gdp_logdelta(mu, epsilon))


def gdp_tradeoff(mu: float, false_positive_rates: ArrayLike) -> Floats:
    """Return the smallest false negative rate of any test against a μ-GDP algorithm, Φ(Φ⁻¹(1 - α) - μ), at each false
    positive rate α."""
    alpha = np.asarray(false_positive_rates, dtype=float)
    return ndtr(-ndtri(alpha) - mu) if mu < math.inf else np.zeros_like(alpha)


def _log_target(mu: float, delta: float) -> float:
    """Return ln delta, lowered by the rounding error of `gdp_logdelta`, so that roots err on the safe side.

    For large μ the error grows with μ, because μ/2 - ε/μ cancels.
    """
    return math.log(delta) * (1 + 2e-12 * max(1.0, mu / 1000))


@lru_cache(4096)
def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the smallest ε ≥ 0 with δ(ε) ≤ delta of a μ-GDP guarantee, rounded up in the twelfth digit."""
    if mu == 0 or delta >= 1:
        return 0.0
    if delta <= 0 or mu > 1e150:  # Gaussian noise has no pure ε; and μ² would overflow
        return math.inf
    target = _log_target(mu, delta)

    def excess(ratio: float) -> float:
        """Return ln δ(ε) - ln delta at ε = ratio · μ."""
        if mu < _NARROW_MU:
            return float(gdp_logdelta(mu, ratio * mu)) - target
        # The same as `_wide_gdp_logdelta` computes, without the cost of arrays.
        log_first = float(log_ndtr(mu / 2 - ratio))
        second_to_first = math.exp(min(ratio * mu + float(log_ndtr(-mu / 2 - ratio)) - log_first, 0.0))
        if second_to_first >= 1:  # δ(ε) is 0 up to rounding
            return -math.inf
        return log_first + math.log1p(-second_to_first) - target

    if excess(0.0) <= 0:
        return 0.0
    # The root is sought in ε/μ, whose size does not depend on μ: the tolerance would exceed a very small ε. It is below
    # `high`, as δ(ε) ≤ Φ(-x) ≤ e^(-x²/2) for x = ε/μ - μ/2 ≥ 0, and that is the target at x = √(-2 target).
    high = mu / 2 + math.sqrt(-2 * target)
    return mu * float(brentq(excess, 0.0, high * (1 + 1e-12), xtol=1e-300, rtol=1e-14, maxiter=500))


@lru_cache(4096)
def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest μ for which the Gaussian mechanism with σ = Δ₂/μ is (ε, δ)-DP.

    This is the analytic calibration of Balle and Wang 2018; the result is rounded down in the twelfth digit.
    """
    if delta <= 0:
        return 0.0
    if delta >= 1 or epsilon == math.inf:
        return math.inf

    def excess(log_mu: float) -> float:
        """Return ln δ(ε) of the Gaussian mechanism with μ = e^log_mu less ln delta."""
        mu = math.exp(log_mu)
        return max(float(gdp_logdelta(mu, epsilon)), -1e6) - _log_target(mu, delta)  # finite for the root finder

    # At the lower end even δ(0) = 2 Φ(μ/2) - 1 < μ/√(2π) is at most delta, with room for the errors of rounding that
    # `_log_target` subtracts. The search for the upper end begins at μ = √(2ε), where the first term of δ(ε) is ½.
    low = math.log(delta) * (1 + 1e-11) + math.log(2 * math.pi) / 2 - 1e-9
    high = max(low, math.log(max(2 * epsilon, 1e-300)) / 2)
    while excess(high) < 0:
        high += 1.0
    return math.exp(float(brentq(excess, low, high, xtol=1e-14, rtol=1e-14)) - 1e-13)  # more than the tolerance


# -------------------------------------------------------------------------------------------------------- zCDP and RDP


@lru_cache(4096)
def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an ε for which any ρ-zCDP algorithm is (ε, δ)-DP, at most ρ + 2√(ρ ln(1/δ)).

    It is the minimum over a > 0 of (1 + a) ρ + ln(a/(1 + a)) + (ln(1/δ) - ln(1 + a))/a, with 1 + a the order of a Rényi
    divergence (Canonne, Kamath, Steinke 2020).
    """
    if rho == 0 or delta >= 1:
        return 0.0
    if rho == math.inf or delta <= 0:
        return math.inf
    log_inverse_delta = -math.log(delta)

    def slope(log_a: float) -> float:
        """Return a² times the derivative of that ε by a; it increases in a, and its root is the minimiser."""
        a = math.exp(log_a)
        return a * (a * rho) + math.log1p(a) - log_inverse_delta

    # The root of a² ρ + ln(1 + a) = ln(1/δ) is enclosed: `low` solves it with a in place of the smaller ln(1 + a), and
    # `high` makes one of the two terms alone ln(1/δ).
    low = math.log(2 * log_inverse_delta / (1 + math.sqrt(1 + 4 * rho * log_inverse_delta))) - 1e-9
    high = min((math.log(log_inverse_delta) - math.log(rho)) / 2, math.log(math.expm1(min(log_inverse_delta, 700.0))))
    high += 1e-9
    low, high = min(low, _LARGEST_LOG_ORDER), min(high, _LARGEST_LOG_ORDER)
    if slope(low) >= 0:  # rounding, or the limit of orders; any a gives a valid ε
        a = math.exp(low)
    elif slope(high) <= 0:
        a = math.exp(high)
    else:
        a = math.exp(brentq(slope, low, high, xtol=1e-12))
    terms = ((1 + a) * rho, -math.log1p(1 / a), log_inverse_delta / a, -math.log1p(a) / a)
    return max(0.0, math.fsum(terms) + _ROUNDING * sum(abs(term) for term in terms))


@lru_cache(4096)
def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest ρ for which `zcdp_epsilon` proves that every ρ-zCDP algorithm is (ε, δ)-DP."""
    if delta <= 0:
        return 0.0
    if delta >= 1 or epsilon == math.inf:
        return math.inf
    # The search begins at the ρ of the classic formula ε = ρ + 2√(ρ ln(1/δ)), which is never too large. With the root
    # r = √ln(1/δ), √ρ = √(r² + ε) - r = ε/(√(r² + ε) + r).
    root = math.sqrt(-math.log(delta))
    low = high = max((epsilon / (math.sqrt(root**2 + epsilon) + root)) ** 2, 1e-300)
    while zcdp_epsilon(low, delta) > epsilon:  # by rounding, which `zcdp_epsilon` does upwards
        low *= 0.999 if low > 1e-300 else 0.0  # at ρ = 0 the loop ends
    while zcdp_epsilon(high, delta) < epsilon:
        high *= 1.5
    if high <= low:
        return low
    largest = float(brentq(lambda rho: zcdp_epsilon(rho, delta) - epsilon, low, high, xtol=1e-300, rtol=1e-13))
    while zcdp_epsilon(largest, delta) > epsilon and largest > low:  # beyond the root by the accuracy of the search
        largest = max(largest * (1 - 1e-12), low)
    return largest


def rdp_epsilon(
    divergence: Callable[[Floats], Floats], delta: ArrayLike, orders: Floats = ORDERS, refine: bool = True
) -> Floats:
    """Return an ε for which releases with these Rényi divergences are (ε, δ)-DP, for each δ: a number or (m,).

    It is the minimum over orders α of D_α + ln(1 - 1/α) - (ln δ + ln α)/(α - 1), D_α the divergence of order α
    (Canonne, Kamath, Steinke 2020, Proposition 12).

    divergence : function that maps orders (m, k), one row for each δ, or (1, k) for all δ, to divergences (m, k).
    delta : a number or (m,).
    orders : (k,) ascending orders that are tried first.
    refine : whether orders between the neighbours of the best one are tried then.
    """
    delta = np.asarray(delta, dtype=float)
    log_delta = np.log(np.where(delta > 0, delta, 0.5)).reshape(-1, 1)  # 0.5: for a δ of 0, any number will do

    def bound(alpha: Floats, divergences: Floats) -> Floats:
        """Return the ε that each order proves, rounded up."""
        second, third = np.log1p(-1 / alpha), -(log_delta + np.log(alpha)) / (alpha - 1)  # terms beside D_α
        return np.asarray(divergences + second + third + _ROUNDING * (divergences + np.abs(second) + np.abs(third)))

    values = bound(orders, divergence(orders[None]))
    smallest = values.min(axis=1)
    if refine and np.isfinite(smallest).any():
        # Every order gives a valid ε, and the best ones differ little, so a short search is enough: at nine points of
        # log₁₀(α - 1) between the neighbours, then where the parabola through the best point and its neighbours among
        # them is lowest.
        positions, row = np.log10(orders - 1), np.arange(len(values))
        best = values.argmin(axis=1)
        low, high = positions[np.maximum(best - 1, 0)], positions[np.minimum(best + 1, len(orders) - 1)]
        fine_positions = np.linspace(low, high, 9, axis=1)
        alpha = 1 + 10**fine_positions
        values = bound(alpha, divergence(alpha))
        middle = np.clip(values.argmin(axis=1), 1, 7)
        with np.errstate(invalid="ignore", divide="ignore"):
            left, centre, right = (values[row, middle + side] for side in (-1, 0, 1))
            shift = (left - right) / (left - 2 * centre + right) / 2  # of the lowest point, in steps from the middle
        position = fine_positions[row, middle] + np.clip(np.nan_to_num(shift), -1, 1) * (high - low) / 8
        alpha = 1 + 10 ** position[:, None]
        smallest = np.minimum(smallest, np.minimum(values.min(axis=1), bound(alpha, divergence(alpha))[:, 0]))
    return np.where(delta > 0, np.maximum(0.0, smallest).reshape(delta.shape), math.inf)


# ------------------------------------------------------------------------------------------------------------- pure DP


def pure_to_rho(epsilon: float) -> float:
    """Return the smallest ρ that all ε-DP algorithms have: ε tanh(ε/2), at most ε²/2 (THEORY.md, section 2)."""
    return epsilon * math.tanh(epsilon / 2)


def pure_to_mu(epsilon: float) -> float:
    """Return the smallest μ that all ε-DP algorithms have: -2 Φ⁻¹(1/(1 + e^ε))."""
    if epsilon < 1:  # ½ - 1/(1 + e^ε) would cancel; it is tanh(ε/2)/2, and Φ⁻¹((1 - x)/2) = -√2 erf⁻¹(x)
        return math.sqrt(8) * float(erfinv(math.tanh(epsilon / 2)))
    return float(-2 * ndtri_exp(-np.logaddexp(0.0, epsilon)))  # `ndtri_exp` is Φ⁻¹(e^x)


def pure_delta(epsilon_0: float, epsilon: ArrayLike) -> Floats:
    """Return the largest δ(ε), ε ≥ 0, of ε₀-DP algorithms, (e^ε₀ - e^ε)₊ / (1 + e^ε₀): that of randomised response."""
    return -np.expm1(np.minimum(np.asarray(epsilon, dtype=float) - epsilon_0, 0.0)) / (1 + math.exp(-epsilon_0))


def pure_epsilon(epsilon_0: float, delta: float) -> float:
    """Return the smallest ε for which every ε₀-DP algorithm is (ε, delta)-DP; the inverse of `pure_delta`."""
    reduction = delta * (1 + math.exp(-epsilon_0))  # e^ε = e^ε₀ (1 - reduction)
    return max(0.0, epsilon_0 + math.log1p(-reduction)) if reduction < 1 else 0.0


def pure_tradeoff(epsilon: float, false_positive_rates: ArrayLike) -> Floats:
    """Return the smallest false negative rate of any test against an ε-DP algorithm at each false positive rate α:
    max(0, 1 - e^ε α, e^-ε (1 - α))."""
    alpha = np.asarray(false_positive_rates, dtype=float)
    if epsilon == math.inf:
        return np.zeros_like(alpha)
    return np.maximum(0.0, np.maximum(1 - math.exp(min(epsilon, 700.0)) * alpha, math.exp(-epsilon) * (1 - alpha)))


def laplace_tradeoff(epsilon: float, false_positive_rates: ArrayLike) -> Floats:
    """Return the smallest false negative rate of any test against one Laplace release at each false positive rate α.

    It is 1 - e^ε α for α < e^-ε/2, then e^-ε/(4α) up to α = ½, then e^-ε (1 - α).
    """
    alpha, factor = np.asarray(false_positive_rates, dtype=float), math.exp(-epsilon)
    at_low_alpha = 1 - alpha / factor if factor > 0 else np.zeros_like(alpha)
    at_middle_alpha = factor / (4 * np.maximum(alpha, 1e-300))
    at_high_alpha = factor * (1 - alpha)
    return np.where(alpha < factor / 2, at_low_alpha, np.where(alpha <= 0.5, at_middle_alpha, at_high_alpha))


def pure_rdp(epsilon: ArrayLike, orders: Floats) -> Floats:
    """Return the largest Rényi divergence of any ε-DP algorithm, that of randomised response, at each order α > 1.

    The arguments broadcast. With a = α - 1 it is ln(cosh(aε) + tanh(ε/2) sinh(aε)) / a, written so that nothing
    cancels: cosh(x) = 1 + 2 sinh²(x/2).
    """
    epsilon, a = np.asarray(epsilon, dtype=float), orders - 1
    size = np.minimum(a * epsilon, 700.0)  # beyond, sinh would overflow
    small = np.log1p(2 * np.sinh(size / 2) ** 2 + np.tanh(epsilon / 2) * np.sinh(size))
    large = a * epsilon + np.log(np.tanh(epsilon / 2) / 2 + 0.5)  # without e^(-aε), which is below rounding
    return _rounded_up(np.where(size < 700, small, large) / a, epsilon)


def laplace_rdp(epsilon: ArrayLike, orders: Floats) -> Floats:
    """Return the Rényi divergence of one Laplace release at each order α > 1 (Mironov 2017, Proposition 6).

    The arguments broadcast. With a = α - 1 and g(x) = e^x - 1 - x ≥ 0 it is ln(1 + (α g(aε) + a g(-αε)) / (2α - 1)) /
    a, in which nothing cancels.
    """
    epsilon, a = np.asarray(epsilon, dtype=float), orders - 1
    size = np.minimum(a * epsilon, 700.0)
    share = orders / (2 * orders - 1)
    small = np.log1p(share * exp_rest(size) + a / (2 * orders - 1) * exp_rest(-orders * epsilon))
    large = a * epsilon + np.log(share)  # the other terms are below rounding
    return _rounded_up(np.where(size < 700, small, large) / a, epsilon)


def _rounded_up(divergence: Floats, epsilon: Floats) -> Floats:
    """Return the divergence raised by its rounding error, but at most to ε, the divergence of infinite order."""
    return np.minimum(divergence * (1 + 8 * _ROUNDING), epsilon)


def exp_rest(x: ArrayLike) -> Floats:
    """Return e^x - 1 - x without cancellation near 0."""
    x = np.asarray(x, dtype=float)
    near = np.clip(x, -0.5, 0.5)
    series = np.polynomial.polynomial.polyval(near, _EXP_REST) * near**2
    return np.where(np.abs(x) < 0.5, series, np.expm1(np.minimum(x, 700.0)) - x)


def amplify(epsilon: ArrayLike, m: int, n: int) -> Floats:
    """Return the pure ε, after amplification, of an ε-DP release on a random batch: ln(1 + (m/n)(e^ε - 1)).

    The batch has m of the n rows, drawn without replacement; the relation is replace-one.
    """
    # Above 700, where e^ε nearly overflows, the result grows by as much as ε: a little more than it should.
    epsilon = np.asarray(epsilon, dtype=float)
    return np.log1p(np.expm1(np.minimum(epsilon, 700.0)) * (m / n)) + np.maximum(epsilon - 700.0, 0.0)


def amplified_inverse(epsilon: ArrayLike, m: int, n: int) -> Floats:
    """Return the pure ε that a release on a batch may have so that it is `epsilon` after amplification; the inverse of
    `amplify`."""
    # Above 600 the result grows by as much as ε: a little less than it may. 600 leaves room for the factor n/m.
    epsilon = np.asarray(epsilon, dtype=float)
    return np.log1p(np.expm1(np.minimum(epsilon, 600.0)) * (n / m)) + np.maximum(epsilon - 600.0, 0.0)


# ------------------------------------------------------------------------------- the exponential mechanism, range η


def exponential_delta(eta: float, epsilon: ArrayLike) -> Floats:
    """Return δ(ε), for ε ≥ 0, of a selection of bounded range η: (1 - e^{(ε-η)/2})² / (1 - e^-η); 0 for ε above η."""
    root = np.expm1(np.minimum((np.asarray(epsilon, dtype=float) - eta) / 2, 0.0))
    return root**2 / -math.expm1(-eta)


def exponential_rdp(eta: ArrayLike, orders: Floats) -> Floats:
    """Return the largest Rényi divergence of a selection of bounded range η at each order α > 1.

    The arguments broadcast. With b = e^-η, a = α - 1 and u = a (1-b^α) / (α b (1-b^a)) it is ln u + ln((1-b^α) /
    (α(1-b))) / a, which a pair of distributions on two points attains. In terms of s(x) = ln(sinh(x)/x) it is s(αη/2) -
    s(aη/2) + (s(αη/2) - s(η/2)) / a, which is computed here, as both differences are positive.
    """
    half, a = np.asarray(eta, dtype=float) / 2, orders - 1
    return _rounded_up(_log_sinhc_rise(a * half, half) + _log_sinhc_rise(half, a * half) / a, 2 * half)


def few_ranges(eta: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Return a few ranges and the (fractional) number of selections with each, (k,) and (k,), in place of many ranges.

    Their Rényi divergences together are nowhere below those of counts[i] selections of range eta[i], so they may be
    used as an upper bound. Up to MAX_RANGES ranges are returned as they are.

    A selection whose range lies between two of the few is divided between these. That is an upper bound because the
    divergence D of order α is convex in η: with a = α - 1 and k(x) = 1 - x²/sinh²x, which increases in x, η² D'' =
    (k(αη/2) - k(aη/2)) + (k(αη/2) - k(η/2)) / a ≥ 0.
    """
    if len(eta) <= MAX_RANGES:
        return eta, counts
    # Ranges below a thousandth of the largest hardly matter, so they share two nodes.
    largest = float(eta.max())
    nodes = np.append(min(float(eta.min()), 5e-4 * largest), np.geomspace(1e-3 * largest, largest, MAX_RANGES // 2))
    upper = np.clip(np.searchsorted(nodes, eta), 1, len(nodes) - 1)
    fraction = np.clip((eta - nodes[upper - 1]) / (nodes[upper] - nodes[upper - 1]), 0.0, 1.0)
    weights = np.zeros(len(nodes))
    np.add.at(weights, upper, counts * fraction)
    np.add.at(weights, upper - 1, counts * (1 - fraction))
    return nodes, weights


def _log_sinhc_rise(x: Floats, h: Floats) -> Floats:
    """Return s(x + h) - s(x) for s(x) = ln(sinh(x)/x) and x, h ≥ 0, with a relative error of 1e-14.

    The interval from x to x + h is divided at ½. Below, the difference follows from the power series of s; above, from
    s(x) = x - ln 2x + ln(1 - e^-2x).
    """
    # The part below ½: from `near` on, of length `near_step`. The series is a polynomial P in x²; Horner's rule
    # computes its divided difference (P(v) - P(u))/(v - u) without subtraction.
    near = np.minimum(x, 0.5)
    near_step = np.where(x + h <= 0.5, h, 0.5 - near)
    u, v = near**2, (near + near_step) ** 2
    divided_difference, value = np.zeros_like(v), np.full_like(v, _LOG_SINHC[-1])
    for coefficient in _LOG_SINHC[-2::-1]:
        divided_difference, value = divided_difference * u + value, value * v + coefficient
    rise_below = near_step * (2 * near + near_step) * divided_difference  # the first two factors are v - u
    # The part above ½: from `far` on, of length `far_step`. (1 - e^-2(x+h))/(1 - e^-2x) = 1 + (1 - e^-2h)/(e^2x - 1).
    far = np.maximum(x, 0.5)
    far_step = np.where(x >= 0.5, h, np.maximum(x + h - 0.5, 0.0))
    growth = -np.expm1(-2 * far_step) / np.expm1(np.minimum(2 * far, 700.0))
    return np.asarray(rise_below + (far_step - np.log1p(far_step / far) + np.log1p(growth)))


def exponential_rho(eta: ArrayLike) -> Floats:
    """Return the smallest ρ that all selections of bounded range η have: r - 1 - ln r with r = η/(e^η - 1).

    It is at most η²/8 (THEORY.md, section 2).
    """
    eta = np.asarray(eta, dtype=float)
    large = np.maximum(eta, 0.03)
    log_r = np.log(large) - large - np.log(-np.expm1(-large))
    # Near 0 the terms cancel; the series η²/8 - η⁴/576 + η⁶/25920 - … alternates, so it may end after a positive term.
    return np.where(eta < 0.03, eta**2 / 8 - eta**4 / 576 + eta**6 / 25920, np.expm1(log_r) - log_r)


def exponential_mu(eta: float) -> float:
    """Return the smallest μ that all selections of bounded range η have: that of (η/2)-DP (THEORY.md, section 2)."""
    return pure_to_mu(eta / 2)


def exponential_tradeoff(eta: float, false_positive_rates: ArrayLike) -> Floats:
    """Return the smallest false negative rate of any test against a selection of bounded range η at each false positive
    rate α.

    It is (1 - α)/(1 + α (e^η - 1)), that of a test between logistic noise and the same noise shifted by η.
    """
    alpha = np.asarray(false_positive_rates, dtype=float)
    if eta > 700:  # e^η overflows
        return np.where(alpha > 0, 0.0, 1.0)
    return (1 - alpha) / (1 + alpha * math.expm1(eta))


# ------------------------------------------------------------------------------------------------ theorems of textbooks


class OutsideTheorem(UserError):
    """Error for numbers outside the range for which a textbook theorem is proved."""


def advanced_epsilon(epsilon: ArrayLike, steps: ArrayLike, slack: float) -> Floats:
    """Return the ε of k = `steps` releases together, each (epsilon, δ)-DP, by advanced composition: √(2k ln(1/δ')) ε +
    k ε (e^ε - 1), at kδ plus δ' = `slack` > 0; arguments broadcast.

    Dwork and Roth 2014, Theorem 3.20. Offered for comparison; `optimal_epsilon` is the best that such releases allow.
    """
    step_epsilon, count = np.asarray(epsilon, dtype=float), np.asarray(steps, dtype=float)
    return advanced_sum(count * step_epsilon**2, count * step_epsilon * np.expm1(step_epsilon), slack)


def advanced_sum(squares: ArrayLike, linear: ArrayLike, slack: ArrayLike) -> Floats:
    """Return the ε of different ε_i-DP releases by advanced composition: √(2 ln(1/δ') Σ ε_i²) + Σ ε_i (e^ε_i - 1).

    squares, linear : the sums Σ ε_i² and Σ ε_i (e^ε_i - 1). slack : δ', the δ of the result. All of them broadcast.
    """
    return np.asarray(np.sqrt(2 * np.log(1 / np.asarray(slack)) * squares) + linear)


def advanced_step_epsilon(epsilon: float, steps: ArrayLike, slack: float) -> Floats:
    """Return the pure ε of each of k = `steps` releases that are (epsilon, slack)-DP together: ε/(2 √(2k ln(1/δ'))).

    This is Corollary 3.21 of Dwork and Roth 2014 with δ' = `slack`, by which papers set the noise of each draw; it is
    offered for comparison. It is stated for ε < 1, and by advanced composition holds up to about ε = 4 ln(1/δ').
    """
    return np.asarray(epsilon / (2 * np.sqrt(2 * np.asarray(steps, dtype=float) * math.log(1 / slack))))


def classic_gaussian_mu(epsilon: float, delta: float) -> float:
    """Return μ = Δ₂/σ of the textbook's (ε, δ)-DP Gaussian mechanism, whose noise has σ = Δ₂ √(2 ln(1.25/δ))/ε.

    Dwork and Roth 2014, Appendix A. It is offered for comparison: `gdp_mu` is exact for every ε, and where the theorem
    holds it is never smaller, so it needs no more noise. Raises OutsideTheorem, which is a UserError and a ValueError,
    unless 0 < epsilon < 1.
    """
    if not 0 < epsilon < 1:
        raise OutsideTheorem(
            f"The textbook's noise is proved for ε between 0 and 1 only, not for ε = {short(epsilon, 4)}. Ask for a "
            "smaller ε, or use the exact calibration.",
            title="The classic Gaussian mechanism does not apply",
        )
    return epsilon / math.sqrt(2 * math.log(1.25 / delta))


# ----------------------------------------------------------------------------------- the best for equal (ε, δ) releases


def optimal_epsilon(epsilon: float, steps: int, delta: float, step_delta: float = 0.0) -> float:
    """Return the smallest ε for which `steps` releases that are (epsilon, step_delta)-DP are (ε, delta)-DP together.

    Kairouz, Oh, Viswanath 2015, Theorem 3.3, evaluated at every real ε and not only on the theorem's grid. The worst
    releases are randomised responses, each of which reveals everything with probability step_delta. The result is
    infinite if delta is too small even for the chance that any of them does.
    """
    # δ' = 1 - (1 - delta)/(1 - step_delta)^k is the part of delta that remains for the randomised responses.
    remaining_delta = -math.expm1(math.log1p(-delta) - steps * math.log1p(-step_delta))
    if remaining_delta < 0:
        return math.inf
    if remaining_delta == 0:  # the randomised responses must be pure
        return steps * epsilon
    losses, deltas, tails = _randomised_responses(epsilon, steps)
    # δ(L) increases along the arrays, as the losses L fall; the last L with δ(L) ≤ δ' is the upper end of the interval
    # between two losses that has the ε.
    last = int(np.searchsorted(deltas, remaining_delta, side="right")) - 1
    # On that interval, δ(ε) = δ(L) + V (1 - e^(ε - L)), which is solved for ε.
    growth = (deltas[last] - remaining_delta) / tails[last]
    if growth <= -1:  # δ(0) ≤ δ(L) + V ≤ δ'
        return 0.0
    return max(0.0, float(losses[last] + math.log1p(growth)))


def _randomised_responses(epsilon: float, steps: int) -> tuple[Floats, Floats, Floats]:
    """Return the possible privacy losses L ≥ 0 of `steps` ε-DP randomised responses together, in falling order, with
    δ(L) and V(L) = Σ_j p_j e^(L - L_j) over all losses L_j ≥ L, whose probabilities are p_j.

    Losses of negligible probability are left out (`_binomial`), so there are of the order of √steps.

    The number of false answers is F ~ Bin(k, 1/(1 + e^ε)), k = `steps`, and the loss is L = (k - 2F) ε. With r =
    e^(-2ε), and S_F the probability of at most F false answers, δ_F = r δ_(F-1) + (1 - r) S_(F-1) and V_F = r V_(F-1) +
    p_F. All terms are positive, so nothing cancels.
    """
    false_answers, mass = _binomial(steps, epsilon)
    is_loss_positive = false_answers <= steps // 2
    false_answers, mass = false_answers[is_loss_positive], mass[is_loss_positive]
    ratio = math.exp(-2 * epsilon)
    fewer = np.append(0.0, np.cumsum(mass)[:-1])  # S_(F-1), the probability of fewer false answers
    deltas = recursion([ratio], -math.expm1(-2 * epsilon) * fewer)
    losses = (steps - 2 * false_answers.astype(float)) * epsilon
    return losses, deltas, recursion([ratio], mass)


def _binomial(steps: int, log_odds: float) -> tuple[np.ndarray, Floats]:
    """Return the counts that the binomial distribution Bin(steps, 1/(1 + e^log_odds)) can practically reach, ascending,
    and the probability of each.

    Counts farther from the mean than 45 standard deviations plus 1500 are left out; by Bernstein's inequality their
    probability is below 1e-200. The probabilities are accurate for any `steps`: they follow from a running sum of the
    logarithms of the ratios of neighbouring ones, which are near 0 where most of the probability lies.
    """
    chance = float(expit(-log_odds))
    mean, width = steps * chance, 45 * math.sqrt(steps * chance * (1 - chance)) + 1500
    counts = np.arange(max(0, math.floor(mean - width)), min(steps, math.ceil(mean + width)) + 1)
    log_ratios = np.log((steps - counts[:-1]) / (counts[1:])) - log_odds  # of Pr[F = count + 1] to Pr[F = count]
    log_mass = np.append(0.0, np.cumsum(log_ratios))  # up to a constant
    mass = np.exp(log_mass - log_mass.max())
    return counts, mass / mass.sum()


def recursion(coefficients: Sequence[float], force: ArrayLike, past_terms: Sequence[float] = ()) -> Floats:
    """Solve the linear recursion y_t = f_t + Σ_k c_k y_{t-k}, t = 1, …, T, and return y, (T,).

    coefficients : c_1, c_2, …
    force : f, (T,).
    past_terms : what values y_t at t ≤ 0 add to f_1, f_2, …; without them these values are 0.

    Values that overflow become inf or nan. The recursion is a triangular system with few diagonals, solved forwards by
    LAPACK. `scipy.signal.lfilter` solves it, too, but its package takes 0.7 s to import, while `scipy.linalg` is
    imported anyway.
    """
    right_side = np.array(force, dtype=np.float64)
    past_terms = past_terms[: len(right_side)]
    right_side[: len(past_terms)] += past_terms
    # LAPACK stores the diagonal in row 0 of `band`, and the k-th one below it in row k.
    band = np.empty((len(coefficients) + 1, len(right_side)), order="F")
    band[0] = 1.0
    band[1:] = -np.asarray(coefficients, dtype=np.float64)[:, None]
    solution, _ = dtbtrs(band, right_side, uplo="L", diag="U")
    return np.asarray(solution)
