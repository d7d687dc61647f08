"""Exact curves on quadratics against loops, simulations and the verified values of the family (THEORY.md)."""

from typing import get_args

import numpy as np
import pytest

from dpviz.families.accelerated import quadratic, theory
from tests.oracles.accelerated import matrix_norm_bound, stationary_gap

KINDS: tuple[quadratic.Kind, ...] = get_args(quadratic.Kind)


def random_steps(random: np.random.Generator, iterations: int) -> theory.Steps:
    """Anything goes: constant, stages with restarts, or different steps without restarts."""
    choice = random.integers(3)
    if choice == 0:
        return theory.heavy_ball(iterations, random.uniform(0.1, 1), random.uniform(0, 0.99))
    if choice == 1:
        lengths = random.integers(1, 40, iterations).tolist()
        return theory.multistage(iterations, random.uniform(0.1, 1), 0.01, 1.0, lengths)
    step_size, momentum = random.uniform(0.1, 1, iterations), random.uniform(0, 0.9, iterations)
    return theory.Steps(step_size, momentum, np.ones(iterations, int), random.random(iterations) < 0.1)


def moments_by_loop(
    steps: theory.Steps, kind: quadratic.Kind, spectrum: np.ndarray, start: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The recursions of section 5.4, one step at a time, all coordinates at once."""
    mean = before = start
    now = covariance = older = np.zeros_like(spectrum)
    means, variances = [mean], [now]
    for step, beta, restart, noise in zip(steps.step_size, steps.momentum, steps.restart, variance, strict=True):
        if restart:
            before, covariance, older = mean, now, now
        left = 1 - step * spectrum
        phi1, phi2 = {
            "nesterov": ((1 + beta) * left, -beta * left),
            "heavy_ball": (left + beta, -beta),
            "gradient_descent": (left, 0.0),
        }[kind]
        mean, before = phi1 * mean + phi2 * before, mean
        fresh = phi1**2 * now + 2 * phi1 * phi2 * covariance + phi2**2 * older + step**2 * noise
        now, covariance, older = fresh, phi1 * now + phi2 * covariance, now
        means.append(mean)
        variances.append(now)
    return np.array(means).T, np.array(variances).T


@pytest.mark.parametrize("kind", KINDS)
def test_filters_equal_the_loop(kind: quadratic.Kind) -> None:
    random = np.random.default_rng(3)
    for _ in range(12):
        iterations, d = int(random.integers(1, 200)), int(random.integers(1, 8))
        steps, spectrum = random_steps(random, iterations), 10 ** random.uniform(-3, 0, d)
        start, variance = random.normal(size=d), random.lognormal(0, 2, iterations)
        found = quadratic.moments(steps, kind, spectrum, start, variance)
        for ours, loop in zip(found, moments_by_loop(steps, kind, spectrum, start, variance), strict=True):
            assert np.abs(ours - loop).max() <= 1e-11 * np.abs(loop).max()


@pytest.mark.parametrize(
    ("kind", "total", "bias", "stationary"),
    [
        ("heavy_ball", 0.004385382048, 8.8379e-6, 0.004376657825),
        ("nesterov", 0.003769430091, 8.5898e-6, 0.003760942761),
    ],
)
def test_two_eigenvalues(kind: quadratic.Kind, total: float, bias: float, stationary: float) -> None:
    gap = quadratic.expected_gap(theory.heavy_ball(10, 0.5, 1 / 3), kind, [0.5, 1.0], 1.0, 0.01)
    assert gap.total[-1] == pytest.approx(total, abs=1e-12)
    assert gap.bias[-1] == pytest.approx(bias, abs=5e-11)
    assert gap.total[0] == gap.bias[0] == 0.75
    assert stationary_gap(kind, 0.5, 1 / 3, [0.5, 1.0], 0.01) == pytest.approx(stationary, abs=1e-12)


def test_unstable_methods_end_at_infinity() -> None:
    gap = quadratic.expected_gap(theory.heavy_ball(10_000, 5.0, 0.5), "heavy_ball", [0.1, 1.0], 1.0, 0.1)
    assert gap.total[-1] == gap.bias[-1] == np.inf
    assert not np.isnan(gap.total).any()


# The paper's figure 1 with mu = 0.5 as in its text: step size, noise per step, then (momentum, T*, E*).
FIGURE_1 = [
    (1.0, 1e-2, [(0.0, 5, 2.69e-3), (0.3, 6, 3.81e-3), (0.7, 9, 3.44e-2), (0.1716, 3, 2.28e-3), (0.0858, 4, 1.93e-3)]),
    (0.5, 1e-2, [(0.0, 11, 4.86e-3), (0.3, 7, 2.18e-3), (0.7, 10, 1.26e-2), (1 / 3, 6, 1.88e-3), (0.25, 7, 2.70e-3)]),
    (
        0.1,
        1e-2,
        [(0.0, 48, 1.65e-2), (0.3, 35, 1.21e-2), (0.7, 16, 5.40e-3), (0.6345, 18, 5.00e-3), (0.6028, 19, 5.83e-3)],
    ),
    (
        1.0,
        1e-4,
        [(0.0, 11, 1.16e-6), (0.3, 11, 1.58e-6), (0.7, 26, 2.29e-5), (0.1716, 8, 6.56e-7), (0.0858, 8, 6.34e-7)],
    ),
]


@pytest.mark.parametrize(("step_size", "noise_per_step", "optima"), FIGURE_1)
def test_best_number_of_steps_of_figure_1(
    step_size: float, noise_per_step: float, optima: list[tuple[float, int, float]]
) -> None:
    nesterov, heavy_ball = (
        float(rule(step_size, 0.5)) for rule in (theory.nesterov_momentum, theory.heavy_ball_momentum)
    )
    for momentum, (rounded, best, value) in zip((0.0, 0.3, 0.7, nesterov, heavy_ball), optima, strict=True):
        assert momentum == pytest.approx(rounded, abs=5e-5)
        steps = theory.heavy_ball(250, step_size, momentum)
        gap = quadratic.expected_gap_by_iterations(steps, "heavy_ball", [0.5, 1.0], np.sqrt(2.5), noise_per_step**2)
        assert np.argmin(gap.total) == best
        assert gap.total.min() == pytest.approx(value, rel=3e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_adjoint_weights_reproduce_the_noise(kind: quadratic.Kind) -> None:
    random = np.random.default_rng(5)
    for _ in range(12):
        iterations, d = int(random.integers(1, 200)), int(random.integers(1, 8))
        steps, spectrum = random_steps(random, iterations), 10 ** random.uniform(-3, 0, d)
        start, variance = random.normal(size=d), random.lognormal(0, 2, iterations)
        gap = quadratic.expected_gap(steps, kind, spectrum, start, variance)
        noise = quadratic.adjoint_weights(steps, kind, spectrum) @ variance
        assert noise == pytest.approx(gap.total[-1] - gap.bias[-1], rel=1e-10, abs=1e-12 * gap.total[-1])


def test_envelope_grows_and_beats_the_uniform_split() -> None:
    steps = theory.nesterov(60, 1 / 2.52, 0.02)
    weights = quadratic.envelope_weights(steps, "nesterov", 0.02, 2.52)
    assert (np.diff(weights) >= 0).all() and weights[0] > 0
    raw = quadratic.adjoint_weights(steps, "nesterov", np.geomspace(0.02, 2.52, 64)) / 64
    assert (weights >= raw).all()
    shares = np.cbrt(weights) / np.cbrt(weights).sum()
    assert raw @ shares**-2.0 < raw.sum() * 60**2 / 2


def test_envelope_of_a_long_run_leaves_every_step_some_budget() -> None:
    weights = quadratic.envelope_weights(theory.nesterov(5_000, 1.0, 0.3), "nesterov", 0.3, 1.0)
    assert np.isfinite(np.cbrt(weights) ** -2.0).all()


def test_best_momentum_on_quadratics() -> None:
    grid = np.linspace(0, 0.999, 1000)
    for step_size, best in ((0.1, 0.603), (0.5, 0.250), (1.0, 0.086)):
        rates = quadratic.rate("heavy_ball", step_size, grid, 0.5, 1.0)
        assert grid[np.argmin(rates)] == pytest.approx(best, abs=1e-3)
        contraction = 1 - np.sqrt(0.5 * step_size)
        own = theory.heavy_ball_momentum(step_size, 0.5)
        assert quadratic.rate("heavy_ball", step_size, own, 0.5, 1.0) == pytest.approx(contraction, abs=1e-7)
        nesterov = theory.nesterov_momentum(step_size, 0.5)
        assert quadratic.rate("nesterov", step_size, nesterov, 0.5, 1.0) == pytest.approx(contraction, abs=1e-7)


def test_published_rates_are_those_of_nesterov() -> None:
    """Erratum E2, at mu = 0.1."""
    published = quadratic.rate("nesterov", [0.1, 0.1, 1, 1, 1], [0, 0.5, 0, 0.5, 0.99], 0.1, 1.0)
    assert published == pytest.approx([0.99, 0.98, 0.90, 0.75, 0.944], abs=5e-4)
    right = quadratic.rate("heavy_ball", 1.0, [0, 0.5, 0.99], 0.1, 1.0)
    assert right == pytest.approx([0.90, 0.7071, 0.995], abs=5e-5)


def test_polyak_pair_has_the_best_rate_of_heavy_ball() -> None:
    step_size, momentum = theory.polyak_pair(0.1, 1.0)
    best = float(quadratic.rate("heavy_ball", step_size, momentum, 0.1, 1.0))
    assert best == pytest.approx((1 - np.sqrt(0.1)) / (1 + np.sqrt(0.1)), abs=1e-6)
    steps, momenta = np.meshgrid(np.linspace(0.1, 3, 60), np.linspace(0, 0.95, 60))
    assert quadratic.rate("heavy_ball", steps, momenta, 0.1, 1.0).min() > best - 1e-9


def test_corrected_theorem_3_5_is_a_bound_and_the_published_first_term_is_not() -> None:
    steps = theory.heavy_ball(3, 0.001, 0.3)
    exact = quadratic.expected_gap(steps, "heavy_ball", [50, 100], [0, 1], 0.0).total
    bound = matrix_norm_bound(steps, "heavy_ball", [50, 100], [0, 1], 0.0)
    assert exact[1] == pytest.approx(40.5)
    assert (bound >= exact).all()
    assert bound[1] / (100 / 2) == pytest.approx(5.24, abs=5e-3)  # published without L/2, and exceeded


def test_published_curve_by_hand() -> None:
    variance, contraction = (10 * 1e-2) ** 2, 0.9
    floor = variance * (1 / (0.1 * 1.9) + 1 / (1 * 1.0))
    expected = np.log((10 + variance / (1 - contraction**2)) * 100 * contraction**20 + floor)
    assert quadratic.published_log_bound(10, 1.0, 0.0, 1e-2)[-1] == pytest.approx(expected)
