"""Formulas of plans, designs and the posterior: values of THEORY.md, 4 to 8, finite differences, simulations."""

from typing import Any

import numpy as np
import pytest

from dpviz.families.bayesian_optimization import Placing, Surrogate, designs, planning
from dpviz.families.bayesian_optimization.batches import BatchRule, unexplained_with_gradient
from dpviz.families.bayesian_optimization.planning import Landscape
from dpviz.families.bayesian_optimization.posterior import (
    EvaluatedPoints,
    Kernel,
    Matern,
    QuadraticKernel,
    SquaredExponential,
)
from dpviz.privacy import calibration
from dpviz.privacy.accounting import closed_forms
from dpviz.privacy.budgets import GaussianDP
from dpviz.problems.tuning.model_tuning import NormalLocation

NOISE = 2 * np.sqrt(50) / 500  # B = 1, T = 50, n = 500, μ = 1
HILL = Landscape(smoothness=2.0, convexity=0.2, gap=5.5, radius=1.0)


def test_the_length_of_the_noise() -> None:
    assert planning.noise_radius(NOISE, 10, 50, 0.05) == pytest.approx(0.154, abs=5e-4)
    assert planning.published_radius(NOISE, 10, 50, 0.05) == pytest.approx(0.568, abs=5e-4)
    draws = np.random.default_rng(0).standard_normal((20_000, 10))
    lengths = np.linalg.norm(draws, axis=1)
    share = (lengths > planning.noise_radius(1.0, 10, 1, 0.05)).mean()
    assert share == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 20_000))


def test_error_bounds_hold_on_a_quadratic_and_the_best_number_of_steps_is_that_of_a_grid() -> None:
    """d = 10 curvatures from m to L, start at ones: Δ₀ = 5.5. The exact gap with a bias along the flattest axis."""
    curvature, step, steps, bias = np.linspace(0.2, 2.0, 10), 0.5, 50, 0.02
    found = planning.bounds(HILL, step, NOISE, bias, 1.0, 10, steps)
    assert (found.expected[-1], found.likely[-1], found.published[-1]) == pytest.approx((0.0493, 0.104, 2.97), rel=5e-3)
    mean, variance, push = np.ones(10), np.zeros(10), np.eye(10)[0] * bias
    for t in range(steps + 1):
        gap = float((curvature * (mean**2 + variance)).sum() / 2)
        assert gap <= found.expected[t] <= found.published[t] and found.likely[t] >= found.expected[t] * 0.99
        mean, variance = mean - step * (curvature * mean + push), (1 - step * curvature) ** 2 * variance
        variance += step**2 * NOISE**2
    assert gap < 0.1 * found.expected[-1]
    for mu, expected in ((0.1, 25.4), (0.5, 55.9), (1.0, 69.1), (5.0, 99.6)):
        best = planning.best_steps(HILL, step, 1.0, 500, mu, 10)
        assert best == pytest.approx(expected, abs=0.06)
        ends = [
            planning.bounds(HILL, step, 2 * np.sqrt(t) / (500 * mu), 0.0, 1.0, 10, t).expected[-1]
            for t in range(1, 200)
        ]
        assert abs(best - (1 + int(np.argmin(ends)))) <= 1
    assert planning.noise_floor(0.2, 1.0, 0.0707) * 2 == pytest.approx(0.0333**2, rel=5e-3)


def test_the_fewest_users() -> None:
    hill = Landscape(2.0, 0.5, 1.0, 1.0)
    assert planning.fewest_users(hill, 0.5, 30, 1.0, 10, 0.05) == pytest.approx((64.65, 241.03), abs=0.01)
    many = [
        planning.fewest_users(hill, 0.5, *other, 0.05)[0] for other in ((30, 1.0, 20), (60, 1.0, 10), (30, 0.5, 10))
    ]
    assert min(many) > 64.66
    assert planning.fewest_users(hill, 0.5, 30, 1.0, 10, 0.5) == (np.inf, np.inf)


def test_bias_bounds_hold_for_functions_of_the_kernels_space() -> None:
    generator, theta, worst = np.random.default_rng(1), np.zeros(3), 0.0
    surrogate = Surrogate(relative_noise=1e-10, mean="zero")
    kernel = surrogate.kernel_function
    local = EvaluatedPoints(surrogate, generator.normal(size=(5, 3))).at(theta)
    for _ in range(200):
        centres, weights = generator.normal(size=(6, 3)), generator.normal(size=6)
        norm = np.sqrt(weights @ kernel.gram(centres, centres) @ weights)
        exact = kernel.slopes(theta, centres).T @ weights
        estimate = local.weights.T @ (kernel.gram(local.evaluated.points, centres) @ weights)
        worst = max(worst, float(np.linalg.norm(exact - estimate)) / planning.bias_bound(norm, local.largest_deviation))
    assert 0.5 < worst <= 1
    assert planning.planned_uncertainty(0.02, 10, 10.0) == pytest.approx(np.sqrt(0.02))


def test_selections_cost_exactly_what_their_closed_form_says() -> None:
    for mu, epsilon in ((0.1, 0.159595), (0.5, 0.800155), (1.0, 1.613931), (2.0, 3.336536)):
        assert calibration.calibrate_selections(GaussianDP(mu=mu), np.ones(1)) == pytest.approx(epsilon, abs=4e-6)
        assert closed_forms.exponential_mu(epsilon) == pytest.approx(mu, abs=1e-6)
    small = calibration.calibrate_selections(GaussianDP(mu=0.01), np.ones(1))
    assert small / 0.01 == pytest.approx(np.sqrt(8 / np.pi), rel=1e-4)


def test_random_stopping() -> None:
    expected = {"logarithmic": (0.5986, 0.5472, 0.5061, 0.4501), "geometric": (0.5072, 0.4474, 0.4024, 0.3455)}
    for stopping, values in expected.items():
        found = [planning.mu_per_try(stopping, tries, 1.0, 1e-5) for tries in (10, 30, 100, 1000)]  # type: ignore[arg-type]
        assert found == pytest.approx(values, abs=1e-4)
        gamma = planning.stopping_gamma(stopping, 30.0)  # type: ignore[arg-type]
        k = np.arange(1.0, 20_000)
        weights = (1 - gamma) ** k / (k if stopping == "logarithmic" else 1.0)
        assert (k * weights).sum() / weights.sum() == pytest.approx(30.0, rel=1e-6)
    assert np.isnan(planning.mu_per_try("geometric", 1000, 0.002, 1e-3)), "one release has ε = 0 at this δ"


def test_what_is_shown_of_global_search() -> None:
    assert planning.global_trainings(0.1, 10) == pytest.approx(1.1e2, rel=0.01)
    assert np.log10(planning.global_trainings(0.1, 103)) == pytest.approx(54.3, abs=0.1)
    assert planning.value_release_factor(4.0, 0.5, 0.5, 10) == pytest.approx(25.3, abs=0.01)


TABLE = {
    1e-6: (0.9540, 0.8750, 0.6254, 0.1261, 0.0012, 0.0011, 0.0008, 0.0004, 0.0001),
    1e-2: (0.9545, 0.8794, 0.6624, 0.2289, 0.1207, 0.1079, 0.0843, 0.0596, 0.0348),
    1e-1: (0.9582, 0.8964, 0.7388, 0.4254, 0.3472, 0.3206, 0.2703, 0.2209, 0.1715),
}
COUNTS = (1, 2, 4, 8, 9, 10, 12, 14, 16)


def left(points: np.ndarray, noise: float, length: float = 1.0, mean: str = "constant") -> float:
    """α/P at 0 after evaluations at these points alone."""
    surrogate = Surrogate(length_scale=length, relative_noise=noise, mean=mean)  # type: ignore[arg-type]
    d = points.shape[1]
    return EvaluatedPoints(surrogate, np.empty((0, d))).at(np.zeros(d)).trial(points).unexplained


@pytest.mark.parametrize("noise", TABLE)
def test_closed_forms_are_what_the_posterior_finds(noise: float) -> None:
    for count, expected in zip(COUNTS, TABLE[noise], strict=True):
        closed = designs.unexplained(count, 8, noise)
        assert closed == pytest.approx(expected, abs=6e-5)
        points = designs.offsets(count, 8, noise, 0.0)
        assert points.shape == (count, 8)
        assert left(points, noise) == pytest.approx(closed, abs=2e-6)
        if 2 <= count <= 8:
            assert designs.unexplained(count, 8, 1e-10) >= (8 - count + 1) / 8 - 1e-9
    found = [designs.unexplained(count, 8, noise) for count in range(1, 17)]
    assert (np.diff(found) < 0).all()


def test_values_with_a_smallest_distance_and_best_distances() -> None:
    expected = {
        1e-6: (0.017941, 0.010116, 0.000280),
        1e-2: (0.123332, 0.084282, 0.034848),
        1e-1: (0.352732, 0.270310, 0.171532),
    }
    for noise, values in expected.items():
        found = [designs.unexplained(count, 10, noise, 0.2) for count in (11, 15, 20)]
        assert found == pytest.approx(values, abs=1e-5)
    for noise, spread, rest in ((0.01, 0.24324, 0.034848), (0.1, 0.49498, 0.171532), (1.0, 0.82467, 0.600051)):
        assert designs.best_spread(1, noise) == pytest.approx(spread, abs=1e-4)
        assert 1 - designs.explained(1, spread, noise) == pytest.approx(rest, abs=1e-4)
    (point,) = designs.offsets(1, 8, 0.1, 2.0)
    assert np.linalg.norm(point) == 2.0
    assert left(point[None], 0.1) == pytest.approx(designs.unexplained(1, 8, 0.1, 2.0), abs=2e-6)
    axes = 0.3 * np.concatenate([np.eye(5), -np.eye(5)])
    for points, noise, value in (
        (axes, 1e-10, 0.00139798),
        (np.tile(axes / 0.3 * 0.5, (1, 1)), 0.01, 0.12153859),
        (np.tile(axes / 0.3 * 0.7, (4, 1)), 0.01, 0.05753143),
        (0.3 * designs.simplex(5), 1e-10, 0.06284926),
        (0.5 * designs.simplex(5), 0.01, 0.33494721),
        (np.tile(0.7 * designs.simplex(5), (4, 1)), 0.01, 0.35933113),
    ):
        assert left(points, noise, 1.3, "zero") * 5 / 1.3**2 == pytest.approx(value, abs=2e-7)


def test_the_fewest_points_of_a_first_step() -> None:
    levels = (0.9, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
    assert [designs.smallest_batch(w, 10, 1e-6, 0.2) for w in levels] == [3, 7, 10, 11, 11, 11, 16]
    assert [designs.smallest_batch(w, 10, 1e-2, 0.2) for w in levels] == [3, 7, 11, 14, 19, None, None]
    assert [designs.smallest_batch(w, 10, 0.1, 0.2) for w in levels[:4]] == [3, 9, 19, None]
    assert [designs.smallest_batch(w, 103, 1e-6, 0.2) for w in (0.5, 0.2, 0.1, 0.05, 0.02)] == [54, 86, 96, 101, 104]
    assert designs.smallest_batch(0.1, 10, 0.1, 0.2, repeats=5) == 60  # 0.1715, 0.118, 0.093 with 1, 2, 3 repeats


def test_corners_of_a_simplex_are_evenly_spread() -> None:
    for d in (1, 2, 7):
        corners = designs.simplex(d)
        assert corners @ corners.T == pytest.approx((1 + 1 / d) * np.eye(d + 1) - 1 / d, abs=1e-12)


def test_points_that_would_leave_the_box_go_the_other_way() -> None:
    low, high = np.array([0.0, 0.0]), np.array([1.0, 1.0])
    found = designs.moved_into_box(np.array([0.9, 0.5]), np.array([[0.3, 0.1], [-0.3, 0.2], [-2.0, 0.0]]), low, high)
    assert found == pytest.approx(np.array([[0.6, 0.6], [0.6, 0.7], [1.0, 0.5]]))


def batches(size: int | None = None, level: float = 0.02, d: int = 10, **placing: object) -> BatchRule:
    low, high = np.full(d, -2.0), np.full(d, 2.0)
    return BatchRule(Surrogate(), Placing(**placing), low, high, level, size)  # type: ignore[arg-type]


def test_the_smallest_batch_that_explains_enough_is_taken() -> None:
    choose, theta = batches(), np.zeros(10)
    nothing = EvaluatedPoints(Surrogate(), np.empty((0, 10)))
    first = choose.next_batch(nothing, theta)
    assert len(first.points) == 11 and first.unexplained <= 0.02
    known = first.evaluated
    assert len(choose.next_batch(known, theta).points) == 0
    moved = theta.copy()
    moved[:3] += 0.15
    second, axes = choose.next_batch(known, moved), np.linalg.eigh(known.at(moved).covariance)[1][:, ::-1]
    assert 0 < len(second.points) < 11 and second.unexplained <= 0.02 < known.at(moved).unexplained
    assert choose._design_trial(known.at(moved), len(second.points) - 1, axes).unexplained > 0.02
    assert len(batches(min_points=4).next_batch(known, theta).points) == 4
    assert len(batches(size=7).next_batch(known, theta).points) == 7


def test_noise_asks_for_repeats_and_a_level_out_of_reach_gets_all_there_is() -> None:
    theta = np.zeros(5)
    for repeats, count in ((1, 10), (4, 30)):
        low, high = np.full(5, -9.0), np.full(5, 9.0)
        choose = BatchRule(Surrogate(relative_noise=0.1), Placing(repeats=repeats), low, high, 0.1, None)
        found = choose.next_batch(EvaluatedPoints(choose.surrogate, np.empty((0, 5))), theta)
        assert len(found.points) == count and (found.unexplained <= 0.1) == (repeats == 4)
    choose = batches(design="central")
    assert len(choose.next_batch(EvaluatedPoints(Surrogate(), np.zeros((1, 10))), np.zeros(10)).points) == 20
    assert (choose.window, batches().window, batches(size=150).window, batches(window=2.0).window) == (20, 100, 150, 20)


@pytest.mark.parametrize("kernel", ["rbf", "matern", "quadratic"])
@pytest.mark.parametrize("mean", ["constant", "zero"])
def test_what_a_batch_leaves_has_the_derivative_that_is_stated(kernel: str, mean: str) -> None:
    generator = np.random.default_rng(2)
    surrogate = Surrogate(kernel=kernel, mean=mean, relative_noise=0.01)  # type: ignore[arg-type]
    local = EvaluatedPoints(surrogate, generator.normal(size=(5, 3))).at(generator.normal(size=3))
    points, h = generator.normal(size=(4, 3)), 1e-6
    _, slope = unexplained_with_gradient(local, points)
    shifts = h * np.eye(12).reshape(12, 4, 3)
    rises = [
        unexplained_with_gradient(local, points + move)[0] - unexplained_with_gradient(local, points - move)[0]
        for move in shifts
    ]
    assert slope == pytest.approx(np.array(rises) / (2 * h), abs=1e-7)


def test_the_first_batch_is_known_before_a_run_for_every_kernel() -> None:
    for kernel, level, expected in (("rbf", 0.02, 6), ("matern", 0.1, 6), ("matern", 0.01, 10), ("quadratic", 0.02, 6)):
        surrogate = Surrogate(kernel=kernel)  # type: ignore[arg-type]
        choose = BatchRule(surrogate, Placing(), np.full(5, -2.0), np.full(5, 2.0), level, None)
        chosen = choose.next_batch(EvaluatedPoints(surrogate, np.empty((0, 5))), np.zeros(5))
        assert choose.first_size() == len(chosen.points) == expected
    nothing = BatchRule(Surrogate(), Placing(design="joint"), np.zeros(2), np.ones(2), 0.02, 3)
    everything = EvaluatedPoints(Surrogate(relative_noise=1e-10), np.empty((0, 2))).at(np.full(2, 0.5)).trial(np.eye(2))
    assert len(nothing._move_together(everything, everything.trial(np.empty((0, 2)))).points) == 0


KERNELS: tuple[Kernel, ...] = (SquaredExponential(1.3), Matern(1.3), QuadraticKernel())
NONE = np.empty((0, 4))


def between(kernel: Kernel, x: np.ndarray, z: np.ndarray) -> float:
    return float(kernel.gram(x[None], z[None])[0, 0])


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_derivatives_of_kernels_are_their_finite_differences(kernel: Kernel) -> None:
    generator = np.random.default_rng(0)
    x, points = generator.normal(size=4), generator.normal(size=(6, 4))
    h, axes = 1e-6, np.eye(4)
    rises = [kernel.gram((x + h * e)[None], points)[0] - kernel.gram((x - h * e)[None], points)[0] for e in axes]
    assert kernel.slopes(x, points) == pytest.approx(np.array(rises).T / (2 * h), abs=1e-6)
    h = 1e-4
    mixed = [
        [sum(p * q * between(kernel, x + p * h * a, x + q * h * b) for p in (1, -1) for q in (1, -1)) for a in axes]
        for b in axes
    ]
    assert kernel.prior(x) == pytest.approx(np.array(mixed) / (4 * h**2), abs=1e-5)
    assert kernel.diagonal(points) == pytest.approx(np.diag(kernel.gram(points, points)), rel=1e-12)


@pytest.mark.parametrize("kernel", ["rbf", "matern"])
@pytest.mark.parametrize("mean", ["constant", "zero"])
def test_weights_and_covariance_are_those_of_the_textbook(kernel: Any, mean: Any) -> None:
    """W = K⁻¹D and Σ = prior - DᵀW, with an unknown constant by ordinary kriging; written down without any factor."""
    surrogate = Surrogate(kernel=kernel, mean=mean, relative_noise=0.01)
    generator = np.random.default_rng(1)
    points, theta = generator.normal(size=(12, 4)), generator.normal(size=4)
    kernel = surrogate.kernel_function
    inverse = np.linalg.inv(kernel.gram(points, points) + (0.01 + 1e-12) * np.eye(12))
    slopes, ones = kernel.slopes(theta, points), np.ones((12, 1))
    weights = inverse @ slopes
    left = kernel.prior(theta) - slopes.T @ weights
    if mean == "constant":
        pulled, size = slopes.T @ inverse @ ones, float((ones.T @ inverse @ ones)[0, 0])
        weights = weights - inverse @ ones @ pulled.T / size
        left = left + pulled @ pulled.T / size
    local = EvaluatedPoints(surrogate, points).at(theta)
    assert local.weights == pytest.approx(weights, abs=1e-9)
    assert local.covariance == pytest.approx(left, abs=1e-9)
    assert local.unexplained * local.prior_trace == pytest.approx(np.trace(left), rel=1e-9)
    assert local.largest_deviation == pytest.approx(np.sqrt(np.linalg.eigvalsh(left)[-1]), rel=1e-6)


def test_a_constant_in_a_users_losses_changes_nothing() -> None:
    generator = np.random.default_rng(2)
    local = EvaluatedPoints(Surrogate(), generator.normal(size=(15, 4))).at(np.zeros(4))
    assert np.abs(local.weights.sum(axis=0)).max() < 1e-8
    assert (
        np.abs(
            EvaluatedPoints(Surrogate(relative_noise=0.1), local.evaluated.points).at(np.zeros(4)).weights.sum(axis=0)
        ).max()
        < 1e-12
    )
    losses = generator.normal(size=(15, 3))
    assert local.weights.T @ (losses + np.array([7.0, -3.0, 0.5])) == pytest.approx(local.weights.T @ losses, abs=1e-8)
    alone = EvaluatedPoints(Surrogate(), np.ones((1, 4))).at(np.zeros(4))
    assert np.abs(alone.weights).max() > 0.05  # one point: a constant could explain all of it


def test_a_factor_that_grew_is_the_one_computed_at_once() -> None:
    generator, surrogate = np.random.default_rng(3), Surrogate()
    known, theta = EvaluatedPoints(surrogate, NONE), np.full(4, 0.3)
    for size in (5, 0, 1, 9):
        trial = known.at(theta).trial(generator.normal(size=(size, 4)))
        known = trial.evaluated
        whole = EvaluatedPoints(surrogate, known.points)
        assert known.factor == pytest.approx(whole.factor, abs=1e-8)
        assert trial.unexplained == pytest.approx(whole.at(theta).unexplained, abs=1e-8)
        assert known.at(theta).weights == pytest.approx(whole.at(theta).weights, abs=1e-6)
    kept = known.latest(6)
    assert np.array_equal(kept.points, known.points[-6:]) and known.latest(99) is known


def test_quadratic_functions_are_known_after_as_many_evaluations_as_they_have_coefficients() -> None:
    """Whatever is asked for: the other points tell nothing new."""
    generator = np.random.default_rng(4)
    surrogate = Surrogate(kernel="quadratic", relative_noise=1e-10)
    trial = EvaluatedPoints(surrogate, NONE).at(np.zeros(4)).trial(generator.normal(size=(40, 4)))
    assert len(trial.points) == 15 == 5 * 6 // 2
    assert trial.evaluated.factor.shape == (15, 15)
    again = trial.evaluated.at(np.ones(4)).trial(generator.normal(size=(3, 4)))
    assert len(again.points) == 0 and again.unexplained < 1e-6
    twice = EvaluatedPoints(Surrogate(relative_noise=1e-10), NONE).at(np.zeros(4)).trial(np.ones((3, 4)))
    assert len(twice.points) == 1


def test_every_users_gradient_is_exact_where_losses_are_quadratic_and_reads_no_other_user() -> None:
    specification = NormalLocation()
    problem = specification.build()
    d, n = problem.facts.d, problem.facts.n
    theta = np.array([0.5, -2.0])
    points = theta + np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    surrogate = Surrogate(kernel="quadratic", relative_noise=1e-10)
    weights = EvaluatedPoints(surrogate, points).at(theta).weights
    losses = problem._losses(points)
    exact = problem._gradients(theta[None])[0]
    assert losses.T @ weights == pytest.approx(exact, abs=1e-5 * np.abs(exact).max())
    evaluations = problem.evaluations(1)
    evaluations.add([points])
    query = evaluations.gradient([weights], 1e6)
    assert query.value[0] == pytest.approx(exact.mean(axis=0), abs=1e-5) and query.value.shape == (1, d)
    evaluations._losses[0] = evaluations._losses[0][:, np.random.default_rng(5).permutation(n)]
    assert evaluations.gradient([weights], 1e6).value == pytest.approx(query.value, abs=1e-12)
