"""Closed forms against reference values, 40-digit arithmetic, quadrature, brute force, and each other.

Reference values (first column of the table of test vectors) were found twice, by independent implementations.
"""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import laplace, norm

from dpviz.privacy.accounting import closed_forms as forms
from dpviz.privacy.accounting import per_event
from dpviz.privacy.events import Event, Gaussian, Laplace, Seq, Sub
from tests.oracles import zcdp

steady = settings(derandomize=True, deadline=None, max_examples=60)
epsilons = st.floats(-4, 1.3).map(lambda x: 10**x)  # 1e-4 to 20
deltas = st.floats(-10, -3).map(lambda x: 10**x)
rhos = st.floats(-5, 2).map(lambda x: 10**x)
mus = st.floats(-3, 1.3).map(lambda x: 10**x)

EVENTS: list[Event] = [
    Laplace(0.1),
    Laplace(3.0),
    Gaussian(0.01),
    Gaussian(1.0),
    Gaussian(6.0),
    Seq((Gaussian(0.3), Gaussian(0.4))),
    Sub("wor", 1, 100, Laplace(1.0)),
    Sub("wor", 3, 10, Gaussian(2.0)),
    Sub("wor", 99, 100, Seq((Gaussian(0.6), Gaussian(0.8)))),
]


# ------------------------------------------------------------------------------------------------------- test vectors


@pytest.mark.parametrize(
    ("value", "expected", "tolerance"),
    [
        pytest.param(lambda: forms.gdp_delta(0.5, 1.0), 0.00682959498311, 1e-9, id="TV01"),
        pytest.param(lambda: forms.gdp_delta(1.0, 1.0), 0.126936737507, 1e-9, id="TV02"),
        pytest.param(lambda: forms.gdp_delta(1.0, 8.0), 3.65082168742e-15, 1e-9, id="TV03"),
        pytest.param(lambda: forms.gdp_delta(0.05, 0.5), 4.79729136266e-26, 1e-9, id="TV04"),
        pytest.param(lambda: forms.gdp_epsilon(0.5, 1e-5), 1.99309140442, 1e-9, id="TV05"),
        pytest.param(lambda: forms.gdp_epsilon(1.0, 1e-6), 4.88655411746, 1e-9, id="TV06"),
        pytest.param(lambda: forms.gdp_epsilon(3.0, 1e-9), 21.945589991, 1e-9, id="TV07"),
        pytest.param(lambda: forms.gdp_mu(1.0, 1e-5), 0.268051123211, 1e-8, id="TV08"),
        pytest.param(lambda: forms.gdp_mu(8.0, 1e-5), 1.66603059785, 1e-8, id="TV09"),
        pytest.param(lambda: forms.gdp_mu(0.1, 1e-6), 0.0275446502438, 1e-8, id="TV10"),
        pytest.param(lambda: forms.zcdp_epsilon(0.01, 1e-6), 0.62169265456, 1e-8, id="TV11"),
        pytest.param(lambda: forms.zcdp_epsilon(0.1, 1e-5), 1.914238832, 1e-8, id="TV12"),
        pytest.param(lambda: forms.zcdp_epsilon(0.5, 1e-6), 5.22153444453, 1e-8, id="TV13"),
        pytest.param(lambda: forms.zcdp_epsilon(2.0, 1e-6), 11.6885962494, 1e-8, id="TV14"),
        pytest.param(lambda: forms.zcdp_rho(1.0, 1e-6), 0.0243559703595, 1e-8, id="TV15"),
        pytest.param(lambda: forms.zcdp_rho(5.0, 1e-5), 0.550973474939, 1e-8, id="TV16"),
        pytest.param(lambda: forms.pure_to_mu(0.1), 0.125309012212, 1e-9, id="TV17"),
        pytest.param(lambda: forms.pure_to_mu(1.0), 1.23203538534, 1e-9, id="TV18"),
        pytest.param(lambda: forms.pure_to_mu(5.0), 4.9466784456, 1e-9, id="TV19"),
        pytest.param(lambda: forms.pure_to_rho(0.1), 0.00499583749579, 1e-9, id="TV20"),
        pytest.param(lambda: forms.pure_to_rho(1.0), 0.46211715726, 1e-9, id="TV21"),
        pytest.param(lambda: forms.pure_to_rho(3.0), 2.71544476093, 1e-9, id="TV22"),
        pytest.param(lambda: forms.laplace_rdp(1.0, np.array(2.0)), 0.619123629999, 1e-9, id="TV23"),
        pytest.param(lambda: forms.laplace_rdp(0.1, np.array(10.0)), 0.0427151824657, 1e-9, id="TV24"),
        pytest.param(lambda: forms.pure_rdp(1.0, np.array(2.0)), 0.735325664056, 1e-9, id="TV25"),
        pytest.param(lambda: forms.pure_rdp(0.5, np.array(8.0)), 0.432353706756, 1e-9, id="TV26"),
        pytest.param(lambda: per_event.profile(Laplace(1.0))(0.25), 0.312710721209, 1e-9, id="TV33"),
        pytest.param(lambda: per_event.profile(Laplace(2.0))(-0.5), 0.71349520314, 1e-9, id="TV34"),
        pytest.param(lambda: forms.amplify(1.0, 1, 100), 0.0170368632362, 1e-9, id="TV40"),
        pytest.param(lambda: forms.amplify(0.5, 10, 100), 0.0628547234737, 1e-9, id="TV41"),
        pytest.param(lambda: forms.amplify(5.0, 2, 10), 3.41715707291, 1e-9, id="TV42"),
        pytest.param(lambda: forms.gdp_delta(1.0, 0.0), 0.382924922548, 1e-9, id="TV46"),
        # (1, 1e-5)-DP: with probability δ it fails openly, otherwise it is 1-DP.
        pytest.param(lambda: 1e-5 + (1 - 1e-5) * forms.pure_delta(1.0, 0.0), 0.462122536088, 1e-9, id="TV47"),
        pytest.param(lambda: forms.gdp_tradeoff(1.0, 0.05), 0.740488977159, 1e-9, id="TV48"),
        pytest.param(lambda: forms.zcdp_epsilon(0.1, 1e-6), 2.141939, 1e-6, id="zCDP as exact as its formula"),
        pytest.param(lambda: forms.zcdp_epsilon(0.5, 1e-6), 5.2215, 1e-5, id="bare rho 0.5"),
        pytest.param(lambda: per_event.rho(Laplace(1.0)), 0.367879, 2e-6, id="rho of Laplace 1"),
        pytest.param(lambda: forms.pure_to_mu(700.0), 74.5902, 1e-6, id="mu of pure 700"),
        pytest.param(lambda: forms.pure_to_mu(2000.0), 126.331, 2e-6, id="mu of pure 2000"),
    ],
)
def test_reference_values(value, expected, tolerance):
    assert float(value()) == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("mu", [1e-30, 1e-12, 1e-8, 1e-4, 0.049, 0.051, 1.0, 5.0, 30.0, 1000.0])
def test_gaussian_profile_in_40_digits(mu):
    with mpmath.workdps(60):
        for z in (-5, -1, 0, 1, 3, 5, 7, 9):  # ε that far out in the loss distribution; δ down to 1e-19
            epsilon = mu**2 / 2 * (z >= 0) + mu * z
            m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
            exact = mpmath.log(mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m))
            assert float(forms.gdp_logdelta(mu, epsilon)) == pytest.approx(float(exact), abs=1e-9)


@pytest.mark.parametrize("epsilon", [1e-60, 1e-12, 1e-6, 9e-4, 2e-3, 0.3, 0.99, 1.01, 20.0])
def test_currencies_of_pure_events_in_40_digits(epsilon):
    """Shares of a steep schedule can be as small as 1e-60; differences of nearly equal numbers would lose them."""
    with mpmath.workdps(150):
        e = mpmath.mpf(epsilon)
        assert per_event.rho(Laplace(epsilon)) == pytest.approx(float(e + mpmath.expm1(-e)), rel=1e-9)
        to_mu = float(mpmath.sqrt(8) * mpmath.erfinv(mpmath.tanh(e / 2)))
        assert forms.pure_to_mu(epsilon) == pytest.approx(to_mu, rel=1e-12)
        laplace_mu = float(mpmath.sqrt(8) * mpmath.erfinv(-mpmath.expm1(-e / 2)))
        assert per_event.mu(Laplace(epsilon)) == pytest.approx(laplace_mu, rel=1e-12)
        for order in (1.01, 2.0, 50.0, 1e4):
            a = mpmath.mpf(order)
            inside = (a * mpmath.exp((a - 1) * e) + (a - 1) * mpmath.exp(-a * e)) / (2 * a - 1)
            expected = float(mpmath.log(inside) / (a - 1))
            assert float(forms.laplace_rdp(epsilon, np.array(order))) == pytest.approx(expected, rel=2e-6)
            inside = (mpmath.exp(a * e) + mpmath.exp((1 - a) * e)) / (1 + mpmath.exp(e))
            expected = float(mpmath.log(inside) / (a - 1))
            assert float(forms.pure_rdp(epsilon, np.array(order))) == pytest.approx(expected, rel=2e-6)


# -------------------------------------------------------------------------------------------------------- conversions


@steady
@given(epsilon=st.floats(-2, 1.3).map(lambda x: 10**x), delta=deltas)
def test_round_trips(epsilon, delta):
    assert forms.gdp_epsilon(forms.gdp_mu(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-9)
    rho = forms.zcdp_rho(epsilon, delta)
    assert forms.zcdp_epsilon(rho, delta) == pytest.approx(epsilon, rel=1e-9)
    assert zcdp.zcdp_delta(rho, epsilon) == pytest.approx(delta, rel=1e-8)
    at_delta = forms.pure_epsilon(epsilon, delta)
    if at_delta > 0:
        assert float(forms.pure_delta(epsilon, at_delta)) == pytest.approx(delta, rel=1e-6)


@steady
@given(epsilon=epsilons, m=st.integers(1, 10**6), extra=st.integers(0, 10**9))
def test_amplification_and_its_inverse(epsilon, m, extra):
    n = m + extra
    amplified = float(forms.amplify(epsilon, m, n))
    assert float(forms.amplified_inverse(amplified, m, n)) == pytest.approx(epsilon, rel=1e-12)
    assert amplified <= epsilon * (1 + 1e-15)
    event: Event = Sub("wor", m, n, Laplace(epsilon)) if m < n else Laplace(epsilon)
    assert per_event.pure(event) == pytest.approx(amplified, rel=1e-14)


@pytest.mark.parametrize("epsilon", [600.0, 699.99, 700.01, 5000.0, 1e150, math.inf])
def test_amplification_of_huge_epsilons(epsilon):
    """Far out, a batch gains ln(n/m) and no more; nothing overflows."""
    for value in (float(forms.amplify(epsilon, 1, 1000)), per_event.pure(Sub("wor", 1, 1000, Laplace(epsilon)))):
        assert value == pytest.approx(epsilon - math.log(1000), rel=1e-15)
    assert float(forms.amplified_inverse(epsilon, 1, 1000)) == pytest.approx(epsilon + math.log(1000), rel=1e-15)


@steady
@given(rho=rhos, delta=deltas)
def test_zcdp_conversion_is_the_best_order(rho, delta):
    """Every order gives a valid ε, and none of ten thousand a smaller one: so the search is neither optimistic nor
    cut short. The textbook formula is always above."""
    a = np.geomspace(1e-9, 1e12, 10_000)
    every = (1 + a) * rho - np.log1p(1 / a) + (math.log(1 / delta) - np.log1p(a)) / a
    found = forms.zcdp_epsilon(rho, delta)
    assert max(0.0, every.min()) * (1 - 1e-5) <= found <= max(0.0, every.min()) * (1 + 1e-12)
    assert found <= rho + 2 * math.sqrt(rho * math.log(1 / delta))


@pytest.mark.parametrize("rho", [1e-300, 1e-20, 1e-12, 1e3, 1e9])
def test_zcdp_conversion_at_extreme_rho(rho):
    epsilon = forms.zcdp_epsilon(rho, 1e-10)
    assert 0 <= epsilon <= rho + 2 * math.sqrt(rho * math.log(1e10))
    if epsilon:
        assert zcdp.zcdp_delta(rho, epsilon) == pytest.approx(1e-10, rel=1e-6)
        assert forms.zcdp_rho(epsilon, 1e-10) == pytest.approx(rho, rel=1e-9)


def test_tiny_and_huge_budgets_calibrate():
    for epsilon in (0.0, 1e-300, 1e-20, 1e-8, 1e3, 1e6):
        mu, rho = forms.gdp_mu(epsilon, 1e-6), forms.zcdp_rho(epsilon, 1e-6)
        assert 0 < mu < math.inf and 0 < rho < math.inf
        assert float(forms.gdp_delta(mu, epsilon)) == pytest.approx(1e-6, rel=1e-6)
        assert forms.zcdp_epsilon(rho, 1e-6) == pytest.approx(epsilon, rel=1e-9, abs=1e-12)
    assert 0 < forms.gdp_mu(1e-12, 1e-10) < 1e-8  # hardly any budget is left
    assert zcdp.zcdp_delta(100.0, 2000.0) == 0.0
    assert zcdp.zcdp_delta(0.0, -1.0) == pytest.approx(1 - math.exp(-1))  # nothing was released


@steady
@given(mu=mus, rho=rhos, epsilon=epsilons, delta=deltas)
def test_guarantees_are_implied_in_the_valid_direction(mu, rho, epsilon, delta):
    """What is given implies what is shown: a Gaussian is a zCDP algorithm, a pure one is both, and not conversely."""
    assert forms.gdp_epsilon(mu, delta) <= forms.zcdp_epsilon(mu**2 / 2, delta) * (1 + 1e-9)
    assert forms.zcdp_epsilon(rho, delta) >= forms.gdp_epsilon(math.sqrt(2 * rho), delta) * (1 - 1e-9)
    assert forms.pure_epsilon(epsilon, delta) <= epsilon
    assert forms.pure_epsilon(epsilon, delta) <= forms.zcdp_epsilon(forms.pure_to_rho(epsilon), delta) + 1e-12
    assert forms.pure_epsilon(epsilon, delta) <= forms.gdp_epsilon(forms.pure_to_mu(epsilon), delta) + 1e-12
    assert forms.pure_to_rho(epsilon) <= epsilon**2 / 2
    assert per_event.rho(Laplace(epsilon)) <= forms.pure_to_rho(epsilon) * (1 + 1e-12)
    assert per_event.mu(Laplace(epsilon)) <= forms.pure_to_mu(epsilon) * (1 + 1e-12)


@steady
@given(mu=mus, rho=rhos, delta=deltas, more=st.floats(1.001, 10))
def test_conversions_are_monotone(mu, rho, delta, more):
    for convert, value in ((forms.gdp_epsilon, mu), (forms.zcdp_epsilon, rho), (forms.pure_epsilon, rho)):
        assert convert(value, delta) <= convert(value * more, delta)
        assert convert(value, delta) >= convert(value, delta * more)
    for calibrate in (forms.gdp_mu, forms.zcdp_rho):
        assert calibrate(mu, delta) < calibrate(mu * more, delta)
        assert calibrate(mu, delta) < calibrate(mu, delta * more)
    assert float(forms.gdp_delta(mu, rho)) <= float(forms.gdp_delta(mu * more, rho))


def test_no_noise_is_no_privacy():
    inf = math.inf
    for event in (Laplace(inf), Gaussian(inf), Seq((Laplace(1.0), Gaussian(inf))), Sub("wor", 1, 2, Laplace(inf))):
        assert per_event.pure(event) == per_event.rho(event) == per_event.mu(event) == inf
        assert (per_event.rdp(event, forms.ORDERS) == inf).all()
    assert forms.gdp_epsilon(inf, 1e-6) == forms.zcdp_epsilon(inf, 1e-6) == inf
    assert zcdp.zcdp_delta(inf, 5.0) == 1.0
    np.testing.assert_array_equal(per_event.profile(Laplace(inf))([-2.0, 0.0, 50.0]), 1.0)
    np.testing.assert_array_equal(per_event.profile(Gaussian(inf))([-2.0, 0.0, 50.0]), 1.0)
    # Without noise, a batch gives a record away whenever it is in it.
    np.testing.assert_allclose(per_event.profile(Sub("wor", 1, 4, Gaussian(inf)))([0.0, 50.0]), 0.25)
    np.testing.assert_array_equal(forms.gdp_tradeoff(inf, [0.0, 0.5, 1.0]), 0.0)
    np.testing.assert_array_equal(forms.laplace_tradeoff(inf, [0.0, 0.5, 1.0]), 0.0)


# ------------------------------------------------------------------------------------------------- profiles of events


@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_profiles_are_profiles(event):
    delta = per_event.profile(event)
    assert float(delta(-math.inf)) == 1.0
    a = np.linspace(1e-6, 30, 20_001)  # e^ε, at equal distances: convexity can be read off
    values = delta(np.log(a))
    assert np.diff(values, 2).min() >= -1e-12
    assert (np.diff(values) <= 1e-15).all()
    assert (values >= np.maximum(0, 1 - a) - 1e-15).all()
    epsilon = np.geomspace(1e-6, 20, 20)
    mirrored = 1 - np.exp(-epsilon) + np.exp(-epsilon) * delta(epsilon)
    np.testing.assert_allclose(delta(-epsilon), mirrored, rtol=0, atol=1e-12)
    assert (delta(epsilon) <= np.where(epsilon > per_event.pure(event) * (1 + 1e-12), 0.0, 1.0)).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("event", "density"),
    [(Laplace(0.7), laplace), (Laplace(4.0), laplace), (Gaussian(0.5), norm), (Gaussian(2.0), norm)],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_profiles_by_quadrature(event, density):
    shift = event.eps if isinstance(event, Laplace) else event.mu
    for epsilon in (-1.5, -0.2, 0.0, 0.3, 1.0, 3.0):

        def excess(x, epsilon=epsilon):
            return max(0.0, density.pdf(x, loc=shift) - math.exp(epsilon) * density.pdf(x))

        value, _ = quad(excess, -40, 40, points=np.linspace(-8, 8, 33), limit=500, epsabs=1e-12)
        assert float(per_event.profile(event)(epsilon)) == pytest.approx(value, abs=1e-8)


@pytest.mark.parametrize("event", [event for event in EVENTS if event not in (Gaussian(0.01), Gaussian(6.0))], ids=str)
def test_rdp_and_rho_bound_the_divergence_of_the_profile(event):
    """D_α of the pair behind a profile is what rdp says for exact events, below it for sampled ones, never above αρ."""
    epsilon = np.linspace(-40, 40, 400_001)
    delta = per_event.profile(event)(epsilon)
    for order in (1.5, 3.0, 8.0):
        # H_a for all a gives every Rényi divergence: E_Q[(p/q)^α] = 1 + α(α-1) ∫ a^(α-2) (H_a - (1-a)_+) da.
        a_part = np.exp((order - 1) * epsilon) * (delta - np.maximum(0.0, -np.expm1(epsilon)))
        moment = 1 + order * (order - 1) * np.trapezoid(a_part, epsilon)
        exact = math.log(moment) / (order - 1)
        claimed = float(per_event.rdp(event, np.array([order]))[0])
        assert exact <= claimed * (1 + 1e-6)
        assert claimed <= order * per_event.rho(event) * (1 + 1e-9)
        if not isinstance(event, Sub):
            assert exact == pytest.approx(claimed, rel=1e-5)


@steady
@given(epsilon=st.floats(-2, 1.7).map(lambda x: 10**x))
def test_mu_of_pure_events_is_a_valid_and_smallest_one(epsilon):
    alpha = np.concatenate([np.geomspace(1e-12, 0.5, 400), 1 - np.geomspace(1e-12, 0.5, 400)])
    f = forms.laplace_tradeoff(epsilon, alpha)
    mu = per_event.mu(Laplace(epsilon))
    assert (forms.gdp_tradeoff(mu, alpha) <= f * (1 + 1e-9) + 1e-15).all()
    at_fixed_point = math.exp(-epsilon / 2) / 2
    assert float(forms.gdp_tradeoff(mu * 0.999, at_fixed_point)) > at_fixed_point
    response = np.maximum(0, np.maximum(1 - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - alpha)))
    mu = forms.pure_to_mu(epsilon)
    assert (forms.gdp_tradeoff(mu, alpha) <= response * (1 + 1e-9) + 1e-15).all()
    at_fixed_point = 1 / (1 + math.exp(epsilon))
    assert float(forms.gdp_tradeoff(mu * 0.999, at_fixed_point)) > at_fixed_point


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 700.0])
def test_laplace_tradeoff_is_the_conjugate_of_its_profile(epsilon):
    alpha = np.array([0.0, 1e-6, 0.01, 0.05, 0.3, 0.5, 0.7, 0.99, 1.0])
    grid = np.linspace(-epsilon, epsilon, 200_001)
    heights = 1 - per_event.profile(Laplace(epsilon))(grid) - np.exp(grid) * alpha[:, None]
    expected = np.maximum(0, heights.max(axis=1))
    np.testing.assert_allclose(forms.laplace_tradeoff(epsilon, alpha)[1:], expected[1:], atol=1e-9)
    assert float(forms.laplace_tradeoff(epsilon, 0.0)) == 1.0


# ------------------------------------------------------------------------------------------------- several on one batch


def composed(first: Laplace, second: Laplace | Gaussian, epsilon: float) -> float:
    """δ(ε) of two releases, by quadrature over the loss of the first, which is Laplace noise shifted by its ε."""
    shift, delta = first.eps, per_event.profile(second)

    def part(x):
        loss = min(max(2 * x - shift, -shift), shift)
        return math.exp(-abs(x - shift)) / 2 * float(delta(epsilon - loss))

    points = [0.0, shift]
    return quad(part, -40, 40 + shift, points=points, limit=400, epsabs=1e-11)[0]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Laplace(0.3), Laplace(0.9)),
        (Laplace(1.0), Laplace(1.0)),
        (Laplace(2.0), Laplace(0.1)),
        (Laplace(0.3), Gaussian(0.5)),
        (Laplace(2.0), Gaussian(0.3)),
        (Laplace(0.1), Gaussian(3.0)),
    ],
    ids=str,
)
def test_one_event_dominates_several(first, second):
    event = Seq((first, second))
    bound = per_event.profile(event)
    for epsilon in (-1.0, 0.0, 0.2, 0.8, 1.5, 3.0):
        assert composed(first, second, epsilon) <= float(bound(epsilon)) + 1e-8
    assert per_event.profile(Sub("wor", 1, 10, event))(0.5) == pytest.approx(
        float(bound(forms.amplified_inverse(0.5, 1, 10))) / 10, rel=1e-12
    )


def test_dominating_events_have_closed_profiles():
    assert per_event.dominating(Laplace(2.0)) == Laplace(2.0)
    sampled = Sub("wor", 1, 9, Gaussian(2.0))
    assert per_event.dominating(sampled) is sampled
    assert per_event.dominating(Seq((Gaussian(3.0), Seq((Gaussian(4.0),))))) == Gaussian(5.0)
    assert per_event.dominating(Sub("wor", 1, 9, Seq((Laplace(1.0), Laplace(0.5))))) == Sub("wor", 1, 9, Laplace(1.5))
    mixed = per_event.dominating(Seq((sampled, Gaussian(1.0))))
    assert mixed == Gaussian(math.inf)  # nothing finite is known of Gaussian noise on a batch


# ------------------------------------------------------------------------------------------- sampling, by brute force


def mixture_excess(density, centres: np.ndarray, other: np.ndarray, epsilon: float) -> float:
    """H_{e^ε} of two equal-weight mixtures of unit noise, by the trapezoidal rule."""
    x = np.linspace(min(centres.min(), other.min()) - 25, max(centres.max(), other.max()) + 25, 20_001)
    p = density.pdf(x[:, None] - centres).mean(axis=1)
    q = density.pdf(x[:, None] - other).mean(axis=1)
    return float(np.trapezoid(np.maximum(0, p - math.exp(epsilon) * q), x))


def batch_sums(rows: np.ndarray, m: int) -> np.ndarray:
    return np.array([sum(batch) for batch in itertools.combinations(rows, m)])


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("inner", "density"), [(Laplace(1.2), laplace), (Gaussian(1.2), norm)], ids=["laplace", "normal"]
)
def test_sampling_without_replacement_against_all_batches(inner, density):
    """n = 5, m = 2, all ten batches. Rows lie in [-1, 1], so the sum has sensitivity 2, scaled to the inner event's."""
    random = np.random.default_rng(3)
    delta = per_event.profile(Sub("wor", 2, 5, inner))
    epsilons_tried = (-0.7, -0.1, 0.0, 0.1, 0.4, 0.9)
    for trial in range(10):
        rows = random.choice([-1.0, 1.0], 5) if trial % 2 else random.uniform(-1, 1, 5)
        neighbour = rows.copy()
        neighbour[0] = -rows[0] if trial % 2 else random.uniform(-1, 1)
        here, there = (0.6 * batch_sums(data, 2) for data in (rows, neighbour))
        for epsilon in epsilons_tried:
            assert mixture_excess(density, here, there, epsilon) <= float(delta(epsilon)) + 1e-6
    # The bound is attained where all others are -1: by "was +1" for ε > 0, by "is now +1" for ε < 0.
    others = np.full(4, -1.0)
    here, there = (0.6 * batch_sums(np.append(others, last), 2) for last in (1.0, -1.0))
    for epsilon in epsilons_tried:
        pair = (here, there) if epsilon >= 0 else (there, here)
        assert mixture_excess(density, *pair, epsilon) == pytest.approx(float(delta(epsilon)), abs=1e-5)


def test_poisson_profile_is_not_valid_for_fixed_size_batches():
    """The negative control: accounting m of n rows as Poisson sampling, "add" direction, is far too small."""
    q, epsilon = 0.1, 0.1
    a = math.exp(epsilon)
    add = (1 - a * (1 - q)) * float(forms.gdp_delta(1.0, math.log(a * q / (1 - a * (1 - q)))))
    others = np.full(9, -0.5)
    here, there = (batch_sums(np.append(others, last), 1) for last in (0.5, -0.5))
    truth = mixture_excess(norm, here, there, epsilon)
    assert add == pytest.approx(7.5e-6, rel=0.01)
    assert truth == pytest.approx(0.01847, rel=1e-3)
    assert float(per_event.profile(Sub("wor", 1, 10, Gaussian(1.0)))(epsilon)) == pytest.approx(truth, abs=1e-6)


@pytest.mark.parametrize("delta", [0.1, 1e-4, 1e-9])
def test_zcdp_epsilon_against_another_method_and_the_textbook(delta: float) -> None:
    rho = np.geomspace(1e-12, 1e5, 300)
    exact = np.array([forms.zcdp_epsilon(value, delta) for value in rho])
    curve = zcdp.epsilon_curve(rho, delta)
    assert curve == pytest.approx(exact, rel=1e-11, abs=1e-12)
    assert (np.diff(curve) >= 0).all() and (curve <= zcdp.classic_zcdp_epsilon(rho, delta)).all()
    assert zcdp.epsilon_curve([0.0, math.inf], delta).tolist() == [0.0, math.inf]
