"""Bounds, budget splits and numbers of steps against the verified values of the family (THEORY.md)."""

from typing import Any

import numpy as np
import pytest

from dpviz.errors import UserError
from dpviz.families.accelerated import theory
from dpviz.families.accelerated.quadratic import expected_gap
from tests.pairs import all_pairs

# The default problem: n = 10 000, d = 10, ridge 0.01, S1 = 20, epsilon = 2, started at zero.
MU, L, INITIAL = 0.02, 2.52, np.log(2)
# The paper's figure 3: n = 100 000, d = 20, S1 = 40, epsilon = 1, guessed initial gap 10.
PAPER_L, PAPER_UNIT = 5.1001, 20 * (40 / 1e5) ** 2


def default_factors(iterations: int = 1000) -> theory.BoundFactors:
    return theory.nesterov_factors(theory.nesterov(iterations, 1 / L, MU), MU, L, INITIAL)


def paper_factors(relative_step: float = 1.0) -> theory.BoundFactors:
    return theory.nesterov_factors(theory.nesterov(1000, relative_step / PAPER_L, MU), MU, PAPER_L, 20.0)


def base_budget(epsilon: np.ndarray, ratio: float) -> np.ndarray:
    return np.log1p(np.expm1(epsilon) * ratio)


def test_stage_lengths_can_be_given_but_must_suffice() -> None:
    assert theory.multistage(5, 1.0, 0.1, 1.0, (2, 1, 9)).stage.tolist() == [1, 1, 2, 3, 3]
    with pytest.raises(ValueError, match="the stages have 3 steps"):
        theory.multistage(5, 1.0, 0.1, 1.0, (2, 1))


def test_momentum_choices() -> None:
    assert float(theory.nesterov_momentum(1 / L, MU)) == pytest.approx(0.8364, abs=5e-5)
    assert float(theory.heavy_ball_momentum(0.5, 0.5)) == pytest.approx(0.25)
    assert theory.polyak_pair(1.0, 9.0) == pytest.approx((0.25, 0.25))


def test_schedule_of_five_steps() -> None:
    factors = theory.nesterov_factors(theory.nesterov(5, 1.0, 0.1), 0.1, 1.0, lyapunov=2.0)
    weights = theory.shares_by_bound(factors, "laplace")
    coefficients = np.exp(factors.log_contraction[-1] + factors.log_weight)
    assert weights / weights.sum() == pytest.approx([0.1527644, 0.1734011, 0.1968255, 0.2234142, 0.2535948], abs=1e-7)
    assert coefficients == pytest.approx([0.4371957, 0.6393879, 0.9350889, 1.3675445, 2.0], abs=1e-7)
    assert 2 * np.exp(factors.log_contraction[-1]) == pytest.approx(0.2989423, abs=1e-7)
    unit = 2 * (2 / 100) ** 2
    optimal = theory.bound_by_iterations(factors, unit, "optimal", "laplace")[-1]
    uniform = theory.bound_by_iterations(factors, unit, "uniform", "laplace")[-1]
    assert (optimal, uniform) == pytest.approx((0.3970490, 0.4065266), abs=1e-7)


def test_bound_equals_its_recursion() -> None:
    steps = theory.multistage(150, 0.7, 0.05, 2.0)
    variance = np.random.default_rng(1).lognormal(0, 2, 150)
    value, expected = 3.0, [3.0]
    for t, (step, restart) in enumerate(zip(steps.step_size, steps.restart, strict=True)):
        value *= (2 if restart else 1) * (1 - np.sqrt(0.05 * step))
        value += step * (1 + 2.0 * step) * variance[t]
        expected.append(value)
    factors = theory.nesterov_factors(steps, 0.05, 2.0, 3.0)
    assert theory.bound(factors, variance) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("family", ["nesterov", "multistage", "gradient_descent"])
def test_bound_is_above_the_exact_gap_on_random_quadratics(family: str) -> None:
    random = np.random.default_rng(2)
    smallest = np.inf
    for _ in range(40):
        smoothness = 10 ** random.uniform(-1, 1)
        mu = smoothness * 10 ** random.uniform(-3, -0.05)
        spectrum = np.exp(random.uniform(np.log(mu), np.log(smoothness), 6))
        spectrum[:2] = mu, smoothness
        start, variance = random.normal(size=6) * random.integers(0, 2, 6), random.lognormal(-4, 2, 150)
        gap, c = spectrum @ start**2 / 2, random.uniform(0.05, 1)
        if family == "gradient_descent":
            steps = theory.gradient_descent(150, 1.9 * c / smoothness)
            factors = theory.gradient_descent_factors(steps, mu, smoothness, gap)
        else:
            lengths = random.integers(1, 40, 150).tolist()
            single = theory.nesterov(150, c / smoothness, mu)
            steps = theory.multistage(150, c, mu, smoothness, lengths) if family == "multistage" else single
            factors = theory.nesterov_factors(steps, mu, smoothness, gap + mu / 2 * start @ start)
        kind = "gradient_descent" if family == "gradient_descent" else "nesterov"
        exact = expected_gap(steps, kind, spectrum, start, variance).total
        smallest = min(smallest, (theory.bound(factors, 6 * variance / 2) - exact * (1 - 1e-12)).min())
    assert smallest >= 0


def test_published_theorem_is_false_without_the_lyapunov_function() -> None:
    """Erratum E3: (1-q)^t times the initial gap is exceeded, twice that (V_0 <= 2 E_0) is not."""
    steps = theory.nesterov(60, 1.0, 0.02)
    exact = expected_gap(steps, "nesterov", [0.02], 1.0, 0.0).total
    ratio = exact / ((1 - np.sqrt(0.02)) ** np.arange(61) * exact[0])
    assert ratio.max() == pytest.approx(1.369, abs=5e-4)


def test_impossible_constants_are_refused() -> None:
    steps = theory.nesterov(10, 1.5, 0.1)
    with pytest.raises(UserError, match="step sizes up to 1/L"):
        theory.nesterov_factors(steps, 0.1, 1.0, 1.0)
    with pytest.raises(UserError, match="Increase the regularisation"):
        theory.gradient_descent_factors(steps, 0.0, 1.0, 1.0)


def test_sampling_variance() -> None:
    assert theory.sampling_variance(10.0, 1000, 10_000) == pytest.approx(100 * 9000 / (1000 * 9999))
    assert theory.sampling_variance(10.0, 1, 1) == 0


@pytest.mark.parametrize(
    ("iterations", "laplace", "gaussian"), [(50, 1.30, 1.21), (100, 2.24, 1.75), (200, 6.45, 3.24), (500, 38.7, 8.08)]
)
def test_gain_over_the_uniform_schedule(iterations: int, laplace: float, gaussian: float) -> None:
    mu = (1 - 0.9374) ** 2
    factors = theory.nesterov_factors(theory.nesterov(iterations, 1.0, mu), mu, 1.0, lyapunov=0.0)
    for noise, gain in (("laplace", laplace), ("gaussian", gaussian)):
        uniform, optimal = (theory.bound_by_iterations(factors, 1.0, s, noise)[-1] for s in ("uniform", "optimal"))
        assert uniform / optimal == pytest.approx(gain, rel=4e-3)


def test_gaussian_objective() -> None:
    factors = theory.BoundFactors(0.0, np.zeros(50), np.linspace(-6, 0, 50))
    unit = 1 / (2 * 0.05)  # the weights multiply sigma^2 here
    assert theory.bound_by_iterations(factors, unit, "optimal", "gaussian")[-1] == pytest.approx(2575.98834, abs=1e-5)
    assert theory.bound_by_iterations(factors, unit, "uniform", "gaussian")[-1] == pytest.approx(4328.91957, abs=1e-5)
    weights = theory.shares_by_bound(factors, "gaussian")
    rho = 0.05 * weights / weights.sum()
    assert (np.exp(factors.log_weight) / (2 * rho)).sum() == pytest.approx(2575.98834, abs=1e-5)


def test_sampled_split_of_four_steps() -> None:
    split = theory.sampled_split(np.log([1, 2, 4, 8]), 1.0, 10.0)
    base = base_budget(split, 10.0)
    assert split == pytest.approx([0.15670969, 0.20582779, 0.27266336, 0.36479916], abs=1e-8)
    assert base == pytest.approx([0.99197688, 1.18949335, 1.41938578, 1.68681501], abs=1e-8)
    assert (np.array([1, 2, 4, 8]) / base**2).sum() == pytest.approx(7.22683503, abs=1e-7)
    assert split.sum() == pytest.approx(1.0, abs=1e-10)


@all_pairs
@pytest.mark.parametrize("ratio", [1.0, 100.0, 1e4, 1e6])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("iterations", [1, 2, 60, 1000])
def test_sampled_split_satisfies_the_optimality_condition(ratio: float, epsilon: float, iterations: int) -> None:
    log_weight = default_factors(iterations).log_weight
    split = theory.sampled_split(log_weight, epsilon, ratio)
    base = base_budget(split, ratio)
    multiplier = log_weight + np.log1p((ratio - 1) * np.exp(-base)) - 3 * np.log(base)
    assert split.sum() == pytest.approx(epsilon, rel=1e-12)
    assert np.ptp(multiplier) < 1e-10


def test_ignoring_the_sampling_costs_little() -> None:
    """Remark 4.2's shares are 0.02 %, 0.5-1.1 % and 2-6 % above the optimum at m/n = 10, 1 and 0.1 %."""
    for ratio, low, high in ((10.0, 1.0001, 1.0003), (100.0, 1.005, 1.012), (1000.0, 1.015, 1.06)):
        for iterations in (50, 1000):
            log_weight = paper_factors().first(iterations).log_weight
            scaled = np.exp(log_weight - log_weight[-1])
            shares = np.cbrt(scaled) / np.cbrt(scaled).sum()
            exact = scaled @ base_budget(theory.sampled_split(log_weight, 1.0, ratio), ratio) ** -2
            assert low < scaled @ base_budget(shares, ratio) ** -2 / exact < high


def test_extreme_horizons_leave_every_step_some_budget() -> None:
    factors = theory.nesterov_factors(theory.nesterov(10_000, 1.0, 0.5), 0.5, 1.0, 1.0)
    for weights in (
        theory.shares_by_bound(factors, "laplace"),
        theory.shares_by_bound(factors, "gaussian"),
        theory.sampled_split(factors.log_weight, 1.0, 100.0),
    ):
        assert np.isfinite(1 / weights**2).all()
    assert np.isfinite(theory.bound_by_iterations(factors, 1e-3, "optimal", "laplace")).all()


PUBLISHED = {
    2: (53, [65.29, 23.72, 91.23, 43.19]),
    3: (133, [154.7, 56.22, 216.2, 97.57]),
    4: (293, [343.4, 124.8, 479.9, 205.3]),
    5: (613, [741.8, 269.5, 1036.4, 420.1]),
}


@pytest.mark.parametrize("stages", PUBLISHED)
def test_noise_of_the_multistage_schedule(stages: int) -> None:
    """The paper's figure 2 with the stage factor at the right step (erratum E15): a sawtooth."""
    iterations, expected = PUBLISHED[stages]
    steps = theory.multistage(iterations, 1.0, 1.0, 20.0, lengths=(13, 40, 80, 160, 320))
    weights = theory.shares_by_bound(theory.nesterov_factors(steps, 1.0, 20.0, 2.0), "laplace")
    scale = weights.sum() / weights
    assert scale[[0, 12, 13, -1]] == pytest.approx(expected, rel=3e-4)
    assert ((np.diff(scale) > 0) == steps.restart[1:]).all()


def test_published_horizons_follow_from_the_wrong_noise_variance() -> None:
    """Erratum E4: half the variance gives the ends of the published curves; E14: multi-stage stops in stage 1."""
    for relative_step, published in ((1.0, 136), (0.1, 396)):
        bounds = theory.bound_by_iterations(paper_factors(relative_step), PAPER_UNIT / 2, "optimal", "laplace")
        assert theory.best_iterations(bounds) == published
    steps = theory.multistage(1000, 1.0, MU, PAPER_L)
    for initial_gap, best in ((10.0, 89), (29.1, 225)):
        factors = theory.nesterov_factors(steps, MU, PAPER_L, 2 * initial_gap)
        bounds = theory.bound_by_iterations(factors, PAPER_UNIT, "optimal", "laplace")
        assert theory.best_iterations(bounds) == best


def best_of_search(factors: theory.BoundFactors, *arguments: Any) -> int:
    horizons, bounds = theory.bounds_by_search(
        factors, lambda iterations: theory.sampled_bound(factors.first(iterations), *arguments)
    )
    return int(horizons[np.argmin(bounds)])


def test_batch_noise_of_the_paper_exceeds_the_privacy_noise_of_the_bound() -> None:
    arguments = (1.0, 100.0, 20 * (40 / 1_000) ** 2)
    batch = theory.sampling_variance(20.0, 1_000, 100_000)
    best = best_of_search(paper_factors(), *arguments, batch, "optimal")
    part = paper_factors().first(best)
    with_batch, without = (theory.sampled_bound(part, *arguments, extra, "optimal") for extra in (batch, 0.0))
    assert best == 111
    assert with_batch - without == pytest.approx(1.24, abs=0.005)
    assert without - 20 * np.exp(part.log_contraction[-1]) == pytest.approx(0.235, abs=0.02)


@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
@pytest.mark.parametrize("best", [1, 2, 37, 700, 1000])
def test_search_finds_the_minimum_of_unimodal_bounds(limit: int, best: int) -> None:
    calls = []

    def bound_at(iterations: int) -> float:
        calls.append(iterations)
        return abs(np.log(iterations / best))

    horizons, bounds = theory.bounds_by_search(default_factors(limit), bound_at)
    assert horizons[np.argmin(bounds)] == min(best, limit)
    assert horizons.tolist() == sorted(calls)
    assert len(calls) == len(set(calls)) <= 50
    assert min(calls) >= 1 and max(calls) <= limit
