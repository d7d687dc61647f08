"""Tiny and huge arguments: against 60 to 400 digits, and never too small."""

import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest

from dpviz.privacy.accounting import accountants, closed_forms, per_event, pld
from dpviz.privacy.events import Event, ExpMech, Laplace, Repeat, StatedApproximateDP, StatedPureDP, Sub
from tests.oracles.zcdp import zcdp_delta

SIZES = [float(f"1e{k}") for k in (-16, -12, -9, -6, -4, -3)] + [0.03, 0.3, 0.99, 1.01, 3.0, 30.0, 500.0]
ORDERS = [1 + 1e-8, 1 + 1e-4, 1.01, 1.5, 2.0, 30.0, 1e4]


def gaussian_delta(mu: float, epsilon: float) -> Any:
    """δ(ε) of Gaussian noise, in the working precision."""
    m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
    return (
        mpmath.erfc((e / m - m / 2) / mpmath.sqrt(2)) / 2
        - mpmath.exp(e) * mpmath.erfc((e / m + m / 2) / mpmath.sqrt(2)) / 2
    )


def divergence(kind: str, size: float, order: float) -> Any:
    e, a = mpmath.mpf(size), mpmath.mpf(order)
    if kind == "pure":
        return mpmath.log((mpmath.exp(a * e) + mpmath.exp((1 - a) * e)) / (1 + mpmath.exp(e))) / (a - 1)
    if kind == "laplace":
        return mpmath.log((a * mpmath.exp((a - 1) * e) + (a - 1) * mpmath.exp(-a * e)) / (2 * a - 1)) / (a - 1)
    b = mpmath.exp(-e)
    u = (a - 1) * (1 - b**a) / (a * b * (1 - b ** (a - 1)))
    return mpmath.log(u) + mpmath.log((1 - b**a) / (a * (1 - b))) / (a - 1)


@pytest.mark.parametrize(
    ("kind", "formula"),
    [
        ("pure", closed_forms.pure_rdp),
        ("laplace", closed_forms.laplace_rdp),
        ("exponential", closed_forms.exponential_rdp),
    ],
)
def test_renyi_divergences_are_rounded_up_in_the_last_digits(kind: str, formula: Any) -> None:
    """ε near 1e-4 at orders near 1.01 came out 3e-7 too small, and far more at orders nearer 1."""
    with mpmath.workdps(120):
        for size, order in itertools.product(SIZES, ORDERS):
            excess = float(mpmath.mpf(float(formula(size, np.array([order]))[0])) / divergence(kind, size, order) - 1)
            assert -1e-300 <= excess < 5e-14, (kind, size, order, excess)


def test_the_rho_of_laplace_noise_has_no_seam() -> None:
    with mpmath.workdps(60):
        for size in SIZES:
            exact = mpmath.mpf(size) - 1 + mpmath.exp(-mpmath.mpf(size))
            assert abs(float(mpmath.mpf(per_event.rho(Laplace(size))) / exact - 1)) < 5e-16


@pytest.mark.parametrize("mu", [10.0**k for k in range(-14, 4)])
def test_epsilon_of_gaussian_noise_is_rounded_up_and_exact_at_any_size(mu: float) -> None:
    """An absolute tolerance of 1e-14 once made it 4e-4 wrong at μ = 1e-10, and 0 below."""
    with mpmath.workdps(80):
        at_zero = float(gaussian_delta(mu, 0.0))
        for delta in (0.999, 0.5, 1e-3, 1e-6, 1e-10, 1e-30, 1e-100, 1e-300, 0.9 * at_zero):
            found = closed_forms.gdp_epsilon(mu, delta)
            at_found = gaussian_delta(mu, found) / mpmath.mpf(delta)
            assert at_found <= 1  # a guarantee
            assert found == 0 or gaussian_delta(mu, found * (1 - 1e-8)) > delta  # and not more than that


@pytest.mark.one_in(3)
@pytest.mark.parametrize("epsilon", [0.0, 1e-16, 1e-12, 1e-6, 1e-2, 1.0, 50.0, 1e4])
def test_calibrated_gaussian_noise_keeps_its_promise_at_any_size(epsilon: float) -> None:
    with mpmath.workdps(340):
        for delta in (0.9, 1e-3, 1e-10, 1e-100, 1e-300):
            mu = closed_forms.gdp_mu(epsilon, delta)
            assert gaussian_delta(mu, epsilon) <= delta < gaussian_delta(mu * (1 + 1e-8), epsilon)


def zcdp_exponent(rho: float, log_a: Any) -> tuple[Any, Any, Any]:
    a = mpmath.exp(log_a)
    return a, mpmath.mpf(rho), a * mpmath.log(a / (1 + a)) - mpmath.log(1 + a)


def root(increasing: Any) -> Any:
    low, high = mpmath.mpf(-3000), mpmath.mpf(3000)
    for _ in range(90):
        low, high = (low, (low + high) / 2) if increasing((low + high) / 2) > 0 else ((low + high) / 2, high)
    return low


@pytest.mark.slow
@pytest.mark.parametrize("rho", [1e-300, 1e-100, 1e-30, 1e-12, 1e-6, 0.01, 1.0, 1e3, 1e10])
def test_zcdp_is_converted_with_the_best_order_at_any_size(rho: float) -> None:
    with mpmath.workdps(400):
        for epsilon in (0.0, rho, 1e-9, 0.1, 10.0, -1e-9, -1.0):
            log_a = root(lambda x, e=epsilon: (2 * mpmath.exp(x) + 1) * rho - e - mpmath.log1p(mpmath.exp(-x)))
            a, r, rest = zcdp_exponent(rho, log_a)
            exact = min(mpmath.mpf(1), mpmath.exp(a * ((1 + a) * r - epsilon) + rest))
            if exact > 1e-290:
                assert -1e-16 <= float(zcdp_delta(rho, epsilon) / exact - 1) < 1e-9, epsilon
        for delta in (0.9, 1e-3, 1e-6, 1e-100, 1e-300, 5e-324):
            log_odds = -mpmath.log(mpmath.mpf(delta))
            log_a = root(lambda x, t=log_odds: mpmath.exp(2 * x) * rho + mpmath.log1p(mpmath.exp(x)) - t)
            a, r, rest = zcdp_exponent(rho, log_a)
            exact = max(mpmath.mpf(0), (1 + a) * r + (log_odds + rest) / a)
            found = closed_forms.zcdp_epsilon(rho, delta)
            assert found == 0 if exact == 0 else -1e-16 <= float(found / exact - 1) < 1e-9, delta


def test_conversions_end_where_they_should() -> None:
    inf = math.inf
    assert [zcdp_delta(rho, e) for rho, e in ((1.0, inf), (0.0, inf), (inf, inf), (1.0, -inf))] == [0.0, 0.0, 1.0, 1.0]
    for convert in (closed_forms.zcdp_epsilon, closed_forms.gdp_epsilon):
        assert [convert(1.0, 1.0), convert(0.0, 0.5), convert(inf, 0.5), convert(1.0, 0.0)] == [0.0, 0.0, inf, inf]
    for calibrate in (closed_forms.zcdp_rho, closed_forms.gdp_mu):
        assert [calibrate(inf, 0.5), calibrate(1.0, 1.0), calibrate(1.0, 0.0)] == [inf, inf, 0.0]
    for epsilon, delta in itertools.product((0.0, 1e-16, 1e-9, 1e-4, 1.0, 1e4), (0.9, 1e-6, 1e-100)):
        assert closed_forms.zcdp_epsilon(closed_forms.zcdp_rho(epsilon, delta), delta) <= epsilon


@pytest.mark.one_in(20)
@pytest.mark.parametrize("delta", [1e-300, 0.5, 1 - 1e-9, 1 - 2e-16])
@pytest.mark.parametrize("epsilon", [0.0, 1e-300, 9e-10, 1.0])
def test_a_release_that_fails_almost_surely_is_read_like_any_other(epsilon: float, delta: float) -> None:
    single = StatedApproximateDP(epsilon, delta)
    events: list[Event] = [single, Sub("wor", 1, 100, single), Sub("poisson", 1, 100, single), Repeat(single, 2)]
    for event, count, at in itertools.product(events, (1, 3), (1e-6, 0.95)):
        reading = accountants.tightest((event,) * count, at).epsilon
        assert reading >= 0 and (reading == math.inf or isinstance(event, Sub) or delta <= at)
        assert pld.epsilon_at([(event, count)], at) >= 0
    profile = per_event.profile(Repeat(single, 2))(np.array([-1.0, 0.0, 1.0]))
    assert (profile >= delta).all() and (profile <= 1).all()


@pytest.mark.parametrize("event", [Laplace(1.0), ExpMech(2.0), StatedPureDP(0.1), Sub("wor", 1, 100, Laplace(1.0))])
def test_epsilon_of_one_release_is_rounded_up_where_delta_is_next_to_nothing(event: Event) -> None:
    """Of Laplace(1) it was 0.9999999999999973, where δ is 1e-15."""
    for delta in (1e-300, 1e-100):
        assert accountants.tightest([event], delta).epsilon == per_event.pure(event)
