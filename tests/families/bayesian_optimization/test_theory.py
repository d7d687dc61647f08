"""Formulas of the plan: values of THEORY.md, sections 5 to 8, and simulations."""

import numpy as np
import pytest

from dpviz.families.bayesian_optimization import Surrogate, theory
from dpviz.families.bayesian_optimization.posterior import Evaluated
from dpviz.families.bayesian_optimization.theory import Landscape
from dpviz.privacy import calibration
from dpviz.privacy.accounting import closed_forms
from dpviz.privacy.budgets import GaussianDP

NOISE = 2 * np.sqrt(50) / 500  # B = 1, T = 50, n = 500, μ = 1
HILL = Landscape(smoothness=2.0, convexity=0.2, gap=5.5, radius=1.0)


def test_the_length_of_the_noise() -> None:
    assert theory.noise_radius(NOISE, 10, 50, 0.05) == pytest.approx(0.154, abs=5e-4)
    assert theory.published_radius(NOISE, 10, 50, 0.05) == pytest.approx(0.568, abs=5e-4)
    draws = np.random.default_rng(0).standard_normal((20_000, 10))
    lengths = np.linalg.norm(draws, axis=1)
    share = (lengths > theory.noise_radius(1.0, 10, 1, 0.05)).mean()
    assert share == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 20_000))


def test_error_bounds_hold_on_a_quadratic_and_the_best_number_of_steps_is_that_of_a_grid() -> None:
    """d = 10 curvatures from m to L, start at ones: Δ₀ = 5.5. The exact gap with a bias along the flattest axis."""
    curvature, step, steps, bias = np.linspace(0.2, 2.0, 10), 0.5, 50, 0.02
    found = theory.bounds(HILL, step, NOISE, bias, 1.0, 10, steps)
    assert (found.expected[-1], found.likely[-1], found.published[-1]) == pytest.approx((0.0493, 0.104, 2.97), rel=5e-3)
    mean, variance, push = np.ones(10), np.zeros(10), np.eye(10)[0] * bias
    for t in range(steps + 1):
        gap = float((curvature * (mean**2 + variance)).sum() / 2)
        assert gap <= found.expected[t] <= found.published[t] and found.likely[t] >= found.expected[t] * 0.99
        mean, variance = mean - step * (curvature * mean + push), (1 - step * curvature) ** 2 * variance
        variance += step**2 * NOISE**2
    assert gap < 0.1 * found.expected[-1]
    for mu, expected in ((0.1, 25.4), (0.5, 55.9), (1.0, 69.1), (5.0, 99.6)):
        best = theory.best_steps(HILL, step, 1.0, 500, mu, 10)
        assert best == pytest.approx(expected, abs=0.06)
        ends = [
            theory.bounds(HILL, step, 2 * np.sqrt(t) / (500 * mu), 0.0, 1.0, 10, t).expected[-1] for t in range(1, 200)
        ]
        assert abs(best - (1 + int(np.argmin(ends)))) <= 1
    assert theory.noise_floor(0.2, 1.0, 0.0707) * 2 == pytest.approx(0.0333**2, rel=5e-3)


def test_the_fewest_users() -> None:
    hill = Landscape(2.0, 0.5, 1.0, 1.0)
    assert theory.fewest_users(hill, 0.5, 30, 1.0, 10, 0.05) == pytest.approx((64.65, 241.03), abs=0.01)
    many = [theory.fewest_users(hill, 0.5, *other, 0.05)[0] for other in ((30, 1.0, 20), (60, 1.0, 10), (30, 0.5, 10))]
    assert min(many) > 64.66
    assert theory.fewest_users(hill, 0.5, 30, 1.0, 10, 0.5) == (np.inf, np.inf)


def test_bias_bounds_hold_for_functions_of_the_kernels_space() -> None:
    generator, theta, worst = np.random.default_rng(1), np.zeros(3), 0.0
    surrogate = Surrogate(relative_noise=1e-10, mean="zero")
    kernel = surrogate.covariance
    local = Evaluated(surrogate, generator.normal(size=(5, 3))).at(theta)
    for _ in range(200):
        centres, weights = generator.normal(size=(6, 3)), generator.normal(size=6)
        norm = np.sqrt(weights @ kernel.gram(centres, centres) @ weights)
        exact = kernel.slopes(theta, centres).T @ weights
        estimate = local.weights.T @ (kernel.gram(local.known.points, centres) @ weights)
        worst = max(worst, float(np.linalg.norm(exact - estimate)) / theory.bias_bound(norm, local.largest))
    assert 0.5 < worst <= 1
    assert theory.planned_uncertainty(0.02, 10, 10.0) == pytest.approx(np.sqrt(0.02))


def test_selections_cost_exactly_what_their_closed_form_says() -> None:
    for mu, epsilon in ((0.1, 0.159595), (0.5, 0.800155), (1.0, 1.613931), (2.0, 3.336536)):
        assert calibration.calibrate_selections(GaussianDP(mu=mu), np.ones(1)) == pytest.approx(epsilon, abs=4e-6)
        assert closed_forms.exponential_mu(epsilon) == pytest.approx(mu, abs=1e-6)
    small = calibration.calibrate_selections(GaussianDP(mu=0.01), np.ones(1))
    assert small / 0.01 == pytest.approx(np.sqrt(8 / np.pi), rel=1e-4)


def test_random_stopping() -> None:
    expected = {"logarithmic": (0.5986, 0.5472, 0.5061, 0.4501), "geometric": (0.5072, 0.4474, 0.4024, 0.3455)}
    for stopping, values in expected.items():
        found = [theory.stopped_mu(stopping, tries, 1.0, 1e-5) for tries in (10, 30, 100, 1000)]  # type: ignore[arg-type]
        assert found == pytest.approx(values, abs=1e-4)
        gamma = theory.stopping_gamma(stopping, 30.0)  # type: ignore[arg-type]
        k = np.arange(1.0, 20_000)
        weights = (1 - gamma) ** k / (k if stopping == "logarithmic" else 1.0)
        assert (k * weights).sum() / weights.sum() == pytest.approx(30.0, rel=1e-6)


def test_what_is_shown_of_global_search() -> None:
    assert theory.global_trainings(0.1, 10) == pytest.approx(1.1e2, rel=0.01)
    assert np.log10(theory.global_trainings(0.1, 103)) == pytest.approx(54.3, abs=0.1)
    assert theory.value_release_factor(4.0, 0.5, 0.5, 10) == pytest.approx(25.3, abs=0.01)
