"""Kernels and the posterior gradient: derivatives, offsets, growing factors, and what each user's estimate reads."""

from typing import Any

import numpy as np
import pytest

from dpviz.families.bayesian_optimization.kernels import Kernel, Matern, Quadratic, SquaredExponential, Surrogate
from dpviz.families.bayesian_optimization.posterior import Evaluated
from dpviz.problems.tuning.direct_tuning import NormalLocation

KERNELS: tuple[Kernel, ...] = (SquaredExponential(1.3), Matern(1.3), Quadratic())
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
    covariance = surrogate.covariance
    inverse = np.linalg.inv(covariance.gram(points, points) + (0.01 + 1e-12) * np.eye(12))
    slopes, ones = covariance.slopes(theta, points), np.ones((12, 1))
    weights = inverse @ slopes
    left = covariance.prior(theta) - slopes.T @ weights
    if mean == "constant":
        pulled, size = slopes.T @ inverse @ ones, float((ones.T @ inverse @ ones)[0, 0])
        weights = weights - inverse @ ones @ pulled.T / size
        left = left + pulled @ pulled.T / size
    local = Evaluated(surrogate, points).at(theta)
    assert local.weights == pytest.approx(weights, abs=1e-9)
    assert local.covariance == pytest.approx(left, abs=1e-9)
    assert local.unexplained * local.prior == pytest.approx(np.trace(left), rel=1e-9)
    assert local.largest == pytest.approx(np.sqrt(np.linalg.eigvalsh(left)[-1]), rel=1e-6)


def test_a_constant_in_a_users_losses_changes_nothing() -> None:
    generator = np.random.default_rng(2)
    local = Evaluated(Surrogate(), generator.normal(size=(15, 4))).at(np.zeros(4))
    assert np.abs(local.weights.sum(axis=0)).max() < 1e-8
    assert (
        np.abs(Evaluated(Surrogate(relative_noise=0.1), local.known.points).at(np.zeros(4)).weights.sum(axis=0)).max()
        < 1e-12
    )
    losses = generator.normal(size=(15, 3))
    assert local.weights.T @ (losses + np.array([7.0, -3.0, 0.5])) == pytest.approx(local.weights.T @ losses, abs=1e-8)
    alone = Evaluated(Surrogate(), np.ones((1, 4))).at(np.zeros(4))
    assert np.abs(alone.weights).max() > 0.05  # one point: a constant could explain all of it


def test_a_factor_that_grew_is_the_one_computed_at_once() -> None:
    generator, surrogate = np.random.default_rng(3), Surrogate()
    known, theta = Evaluated(surrogate, NONE), np.full(4, 0.3)
    for size in (5, 0, 1, 9):
        trial = known.at(theta).trial(generator.normal(size=(size, 4)))
        known = trial.known
        whole = Evaluated(surrogate, known.points)
        assert known.factor == pytest.approx(whole.factor, abs=1e-8)
        assert trial.unexplained == pytest.approx(whole.at(theta).unexplained, abs=1e-8)
        assert known.at(theta).weights == pytest.approx(whole.at(theta).weights, abs=1e-6)
    kept = known.latest(6)
    assert np.array_equal(kept.points, known.points[-6:]) and known.latest(99) is known


def test_quadratic_functions_are_known_after_as_many_evaluations_as_they_have_coefficients() -> None:
    """Whatever is asked for: the other points tell nothing new."""
    generator = np.random.default_rng(4)
    surrogate = Surrogate(kernel="quadratic", relative_noise=1e-10)
    trial = Evaluated(surrogate, NONE).at(np.zeros(4)).trial(generator.normal(size=(40, 4)))
    assert len(trial.points) == 15 == 5 * 6 // 2
    assert trial.known.factor.shape == (15, 15)
    again = trial.known.at(np.ones(4)).trial(generator.normal(size=(3, 4)))
    assert len(again.points) == 0 and again.unexplained < 1e-6
    twice = Evaluated(Surrogate(relative_noise=1e-10), NONE).at(np.zeros(4)).trial(np.ones((3, 4)))
    assert len(twice.points) == 1


def test_every_users_gradient_is_exact_where_losses_are_quadratic_and_reads_no_other_user() -> None:
    specification = NormalLocation()
    problem = specification.build()
    d, n = problem.facts.d, problem.facts.n
    theta = np.array([0.5, -2.0])
    points = theta + np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    surrogate = Surrogate(kernel="quadratic", relative_noise=1e-10)
    weights = Evaluated(surrogate, points).at(theta).weights
    losses = problem._losses(points)
    exact = problem._gradients(theta[None])[0]
    assert losses.T @ weights == pytest.approx(exact, abs=1e-5 * np.abs(exact).max())
    evaluations = problem.evaluations(1)
    evaluations.add([points])
    query = evaluations.gradient([weights], 1e6)
    assert query.value[0] == pytest.approx(exact.mean(axis=0), abs=1e-5) and query.value.shape == (1, d)
    evaluations._losses[0] = evaluations._losses[0][:, np.random.default_rng(5).permutation(n)]
    assert evaluations.gradient([weights], 1e6).value == pytest.approx(query.value, abs=1e-12)
