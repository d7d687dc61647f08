"""Test vectors of the privacy core that need no loss distribution, against both of their sources; and quoted numbers.

Each vector was found twice, by independent implementations: the second value is 40-digit arithmetic, brute force, or
another library. Those not listed here are in the tests of their modules.
"""

import math

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

from dpviz.privacy import audit
from dpviz.privacy.accounting import closed_forms as forms
from dpviz.privacy.accounting import per_event
from dpviz.privacy.events import ExpMech, Gaussian, Laplace, StatedApproximateDP, StatedPureDP, StatedZCDP, Sub, grouped
from tests.oracles import areas, zcdp

ORDER = np.array([2.0, 5.0])


def selections_epsilon(eta: float, count: int, delta: float) -> float:
    return float(forms.rdp_epsilon(lambda orders: count * forms.exponential_rdp(eta, orders), delta))


@pytest.mark.parametrize(
    ("value", "first", "second", "tolerance"),
    [
        pytest.param(lambda: forms.exponential_rdp(1.0, ORDER)[0], 0.240229013917, 0.240229013917, 1e-8, id="TV27"),
        pytest.param(lambda: forms.exponential_rdp(3.0, ORDER)[1], 2.38727002767, 2.38727002767, 1e-8, id="TV28"),
        pytest.param(lambda: forms.exponential_rho(0.5), 0.0311420922612, 0.0311420922612, 1e-9, id="TV29"),
        pytest.param(lambda: forms.exponential_rho(2.0), 0.474474647071, 0.474474647071, 1e-9, id="TV30"),
        pytest.param(lambda: forms.exponential_delta(2.0, 0.4), 0.35070077902, 0.35070077902, 1e-9, id="TV31"),
        pytest.param(lambda: forms.exponential_delta(1.0, 0.0), 0.244918662404, 0.244918662404, 1e-9, id="TV32"),
        pytest.param(lambda: forms.optimal_epsilon(0.1, 100, 1e-6), 4.77456758811, 4.77456758837, 1e-6, id="TV35"),
        pytest.param(lambda: forms.optimal_epsilon(0.5, 10, 1e-6), 4.99988547111, 4.99988547111, 1e-6, id="TV36"),
        pytest.param(lambda: forms.advanced_epsilon(0.1, 100, 1e-6), 6.30823095051, 6.30823095051, 1e-9, id="TV37"),
        pytest.param(lambda: zcdp.filter_epsilon([0.1] * 50, 1e-6), 3.96692218885, 3.96692218885, 1e-9, id="TV38"),
        pytest.param(
            lambda: zcdp.filter_epsilon([0.05] * 40 + [0.2] * 10, 1e-6), 3.96692218885, 3.96692218885, 1e-9, id="TV39"
        ),
        pytest.param(lambda: areas.laplace_auc(1.0), 0.724090419121, 0.724090419121, 1e-9, id="TV49"),
        pytest.param(lambda: areas.exponential_auc(1.0), 0.661303112662, 0.661303112662, 1e-8, id="TV50"),
        pytest.param(lambda: selections_epsilon(0.1, 100, 1e-6), 2.40020068035, 2.40020068035, 1e-5, id="TV59"),
        pytest.param(lambda: selections_epsilon(0.5, 10, 1e-6), 3.63234464161, 3.63234464161, 1e-5, id="TV60"),
        pytest.param(
            lambda: audit.epsilon_lower_bound(500, 1000, 122, 1000), 1.18049311908, 1.18049311908, 1e-8, id="TV65"
        ),
        pytest.param(
            lambda: audit.epsilon_lower_bound(1000, 2000, 243, 2000, 1e-5),
            1.25203399222,
            1.25203399222,
            1e-8,
            id="TV66",
        ),
        pytest.param(
            lambda: float(audit.least_mu(*audit.rate_bounds(691, 1000, 309, 1000))),
            0.832184093679,
            0.832184093679,
            1e-8,
            id="TV67",
        ),
        pytest.param(
            lambda: audit.one_run_epsilon_lower_bound(1000, 100, 90, 1e-5), 1.6261434807, 1.6261436787, 1e-5, id="TV68"
        ),
        pytest.param(
            lambda: audit.one_run_epsilon_lower_bound(1000, 200, 170), 1.39940408184, 1.39940405923, 1e-5, id="TV69"
        ),
    ],
)
def test_vectors(value, first, second, tolerance):
    assert float(value()) == pytest.approx(first, rel=tolerance)
    assert float(value()) == pytest.approx(second, rel=tolerance)


def test_second_source_of_pure_rho():
    """TV20 to TV22: randomised response at the order 1 + 1e-7, by another library."""
    for epsilon, theirs in ((0.1, 0.00499583712997), (1.0, 0.46211715136), (3.0, 2.71544456919)):
        assert forms.pure_to_rho(epsilon) == pytest.approx(theirs, rel=1e-6)


# -------------------------------------------------------------------------------------------- the risk panel and groups


def test_what_a_pure_guarantee_means():
    assert float(forms.pure_delta(1.0, 0.0)) == pytest.approx(0.462117, abs=1e-6)
    assert float(1 - forms.pure_tradeoff(1.0, 0.01)) == pytest.approx(0.0271828, abs=1e-7)
    for prior, posterior in ((0.5, 0.731059), (0.1, 0.231969)):
        assert prior * math.e / (1 - prior + prior * math.e) == pytest.approx(posterior, abs=1e-6)
    assert areas.pure_auc(1.0) == pytest.approx(0.731059, abs=1e-6)


@pytest.mark.parametrize(
    ("mu", "advantage", "area", "true_positives", "posterior"),
    [(1.0, 0.382925, 0.760250, 0.0923622, 0.506477), (2.0, 0.682689, 0.921350, 0.372081, 0.805229)],
)
def test_what_a_gaussian_guarantee_means(mu, advantage, area, true_positives, posterior):
    assert float(forms.gdp_delta(mu, 0.0)) == pytest.approx(advantage, abs=1e-6)
    assert areas.gdp_auc(mu) == pytest.approx(area, abs=1e-6)
    found = 1 - float(forms.gdp_tradeoff(mu, 0.01))
    assert found == pytest.approx(true_positives, abs=1e-6)
    assert 0.1 * found / (0.1 * found + 0.9 * 0.01) == pytest.approx(posterior, abs=1e-6)


def test_groups():
    """μ = ½ under add/remove-one is μ = 1 under replace-one: far more than twice the ε at a given δ."""
    assert grouped(Gaussian(0.5), 2) == Gaussian(1.0)
    assert forms.gdp_epsilon(0.5, 1e-6) == pytest.approx(2.25408, abs=1e-5)
    assert forms.gdp_epsilon(1.0, 1e-6) == pytest.approx(4.88655, abs=1e-5)
    assert grouped(StatedZCDP(0.5), 3) == StatedZCDP(4.5)
    assert [grouped(event, 2) for event in (StatedPureDP(0.1), Laplace(0.1), ExpMech(0.1))] == [
        StatedPureDP(0.2),
        Laplace(0.2),
        ExpMech(0.2),
    ]
    group = grouped(StatedApproximateDP(0.5, 1e-6), 3)
    # Step by step: (ε, δ) of two neighbours in a row costs (2ε, (1 + e^ε) δ), and so on.
    assert group.delta == pytest.approx(1e-6 * (1 + math.exp(0.5) + math.exp(1.0)), rel=1e-12)
    assert group.eps == pytest.approx(1.5)
    with pytest.raises(ValueError, match="no simple rule"):
        grouped(Sub("wor", 1, 2, Gaussian(1.0)), 2)


# --------------------------------------------------------------------------------- the classic Gaussian mechanism, zCDP


def test_the_classic_gaussian_mechanism_wastes_noise_and_fails_for_large_epsilon():
    """In units of the exact calibration: 58 % more noise at ε = 0.1, 30 % at 1, and too little above 8.4198."""

    def classic(epsilon: float) -> float:
        return epsilon / math.sqrt(2 * math.log(1.25e5))

    assert forms.classic_gaussian_mu(0.1, 1e-5) == pytest.approx(classic(0.1), rel=1e-14)
    assert forms.gdp_mu(0.1, 1e-5) / classic(0.1) - 1 == pytest.approx(0.58, abs=0.005)
    assert forms.gdp_mu(1.0, 1e-5) / classic(1.0) - 1 == pytest.approx(0.30, abs=0.005)
    crossing = brentq(lambda epsilon: forms.gdp_mu(epsilon, 1e-5) - classic(epsilon), 5, 12)
    assert crossing == pytest.approx(8.4198, abs=1e-4)
    assert float(forms.gdp_delta(classic(9.0), 9.0)) == pytest.approx(1.36e-5, rel=0.005)
    assert float(forms.gdp_delta(classic(20.0), 20.0)) == pytest.approx(1.53e-3, rel=0.005)


@pytest.mark.parametrize(
    ("rho", "delta", "excess"), [(0.01, 1e-6, 0.21), (2.0, 1e-6, 0.07), (0.01, 1e-3, 0.51), (2.0, 1e-3, 0.12)]
)
def test_the_textbook_conversion_of_zcdp_is_larger(rho, delta, excess):
    textbook = rho + 2 * math.sqrt(rho * math.log(1 / delta))
    assert textbook / forms.zcdp_epsilon(rho, delta) - 1 == pytest.approx(excess, abs=0.006)


# --------------------------------------------------------------------- the exponential mechanism, by brute force over t


def highest(function, low, high):
    """The largest value of a function with one peak, by golden section in the working precision."""
    ratio = (mpmath.sqrt(5) - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = function(a), function(b)
    for _ in range(90):
        if at_a > at_b:
            high, b, at_b = b, a, at_a
            a = high - ratio * (high - low)
            at_a = function(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + ratio * (high - low)
            at_b = function(b)
    return max(at_a, at_b)


def two_point_pair(eta, t):
    """Probabilities of the outcome with log-ratio t under D and D'; the other outcome has t - η."""
    q = (mpmath.exp(-t) - mpmath.exp(-eta)) / -mpmath.expm1(-eta)
    return mpmath.exp(t) * q, q


@pytest.mark.one_in(4)
@pytest.mark.parametrize("eta", [1e-6, 9.9e-4, 1.01e-3, 0.029, 0.031, 0.5, 3.0, 40.0, 700.0])
def test_the_exponential_mechanism_is_the_worst_two_point_pair(eta):
    with mpmath.workdps(60):
        e = mpmath.mpf(eta)

        def excess(t, epsilon):
            p, q = two_point_pair(e, t)
            return p - mpmath.exp(epsilon) * q

        for share in (0.0, 0.2, 0.9):
            worst = float(highest(lambda t, share=share: excess(t, share * e), share * e, e))
            assert float(forms.exponential_delta(eta, share * eta)) == pytest.approx(worst, rel=1e-9)
        assert float(forms.exponential_delta(eta, 1.01 * eta)) == 0.0

        def divergence(t, order):
            p, _ = two_point_pair(e, t)
            moment = p * mpmath.exp((order - 1) * t) + (1 - p) * mpmath.exp((order - 1) * (t - e))
            return mpmath.log(moment) / (order - 1)

        for order in (1.01, 2.0, 30.0, 1e4):
            worst = float(highest(lambda t, order=order: divergence(t, mpmath.mpf(order)), 0, e))
            found = float(forms.exponential_rdp(eta, np.array(order)))
            assert worst * (1 - 1e-12) <= found <= min(eta, order * eta**2 / 8)
            assert found == pytest.approx(worst, rel=1e-11)
            assert worst <= order * float(forms.exponential_rho(eta)) * (1 + 1e-9)

        def kullback_leibler(t):
            return t - (1 - two_point_pair(e, t)[0]) * e

        worst = float(highest(kullback_leibler, 0, e))
        assert float(forms.exponential_rho(eta)) == pytest.approx(worst, rel=1e-9)
    assert float(forms.exponential_rho(eta)) <= eta**2 / 8


@pytest.mark.parametrize("eta", [0.01, 0.5, 2.0, 40.0])
def test_the_exponential_mechanism_is_a_logistic_shift(eta):
    """Its curve is the conjugate of its profile, and the smallest μ touches it where both errors are equal."""
    alpha = np.array([1e-6, 0.01, 0.3, 0.7, 0.99])
    grid = np.linspace(-eta, eta, 100_001)
    heights = 1 - per_event.profile(ExpMech(eta))(grid) - np.exp(grid) * alpha[:, None]
    f = forms.exponential_tradeoff(eta, alpha)
    np.testing.assert_allclose(f, np.maximum(0.0, heights.max(axis=1)), atol=1e-8)
    np.testing.assert_allclose(np.log((1 - f) / f), np.log(alpha / (1 - alpha)) + eta, rtol=1e-6, atol=1e-9)
    alpha = np.concatenate([np.geomspace(1e-12, 0.5, 300), 1 - np.geomspace(1e-12, 0.5, 300)])
    mu, equal = forms.exponential_mu(eta), 1 / (1 + math.exp(eta / 2))
    assert (forms.gdp_tradeoff(mu, alpha) <= forms.exponential_tradeoff(eta, alpha) * (1 + 1e-9) + 1e-15).all()
    assert float(forms.gdp_tradeoff(mu * 0.999, equal)) > equal


def test_selections_cost_less_than_other_pure_releases():
    """η = 0.1, a hundred times: basic 10, optimal for any pure release 4.7746, η²/8 2.4191, exact 2.4002."""
    zcdp = forms.zcdp_epsilon(100 * 0.1 * math.tanh(0.05), 1e-6)
    assert zcdp == pytest.approx(5.2191, abs=5e-5)
    assert forms.zcdp_epsilon(100 * 0.01 / 8, 1e-6) == pytest.approx(2.4191, abs=5e-5)
    assert selections_epsilon(0.1, 100, 1e-6) == pytest.approx(2.4002, abs=5e-5)


# ------------------------------------------------------------------------------------------------ areas under the curve


@pytest.mark.parametrize("size", [1e-6, 9.9e-4, 1.01e-3, 0.01, 1.0, 5.0, 50.0, 699.0, 800.0])
@pytest.mark.parametrize(
    ("area", "tradeoff"),
    [
        (areas.pure_auc, forms.pure_tradeoff),
        (areas.laplace_auc, forms.laplace_tradeoff),
        (areas.exponential_auc, forms.exponential_tradeoff),
        (areas.gdp_auc, forms.gdp_tradeoff),
    ],
    ids=["pure", "Laplace", "exponential", "Gaussian"],
)
def test_areas_are_integrals_of_the_tradeoff(area, tradeoff, size):
    """In the false positive rate's logit, where the steep part of the curve is spread out."""

    def part(x: float) -> float:
        alpha = 1 / (1 + math.exp(-x))
        return float(tradeoff(size, alpha)) * alpha / (1 + math.exp(x))

    kink = -math.log(2 * math.exp(min(size, 700.0)) - 1)  # of Laplace noise; that of any pure release is at -size
    bends = sorted({max(kink, -39.0), -min(size, 39.0), 0.0, -min(size / 2, 39.0)})
    missed, _ = quad(part, -40, 40, points=bends, limit=400, epsabs=1e-13)
    assert area(size) == pytest.approx(1 - missed, abs=2e-9)
