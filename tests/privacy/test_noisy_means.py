"""What-ifs about noisy means, against the numbers of dpviz/privacy/THEORY.md and against each other."""

import numpy as np
import pytest

from dpviz.errors import UserError
from dpviz.privacy import tradeoffs
from dpviz.privacy.accounting import closed_forms
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.privacy.statistics.noisy_means import STEPS_LIMIT, NoisyMeans

BUDGETS = [PureDP(epsilon=1.0), ApproximateDP(epsilon=1.0), ZeroConcentratedDP(), GaussianDP()]


def test_specification_vectors() -> None:
    """TV43, TV44 (noise) and TV45 (affordable steps)."""
    small = NoisyMeans(rows=1000, batch_fraction=0.1)
    large = NoisyMeans(rows=100_000, batch_fraction=0.01, iterations=1000)
    assert small.noise_scale(PureDP(epsilon=1.0)) == pytest.approx(0.208842080822, rel=1e-9)
    assert large.noise_scale(PureDP(epsilon=1.0)) == pytest.approx(0.0209741114665, rel=1e-9)
    assert small.affordable_steps(PureDP(epsilon=1.0), 0.1) == 45


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.name)
@pytest.mark.parametrize("fraction", [1.0, 0.1])
def test_noise_steps_and_rows_agree(budget: Budget, fraction: float) -> None:
    means = NoisyMeans(batch_fraction=fraction, iterations=60)
    scale = means.noise_scale(budget)
    assert means.affordable_steps(budget, scale * (1 + 1e-4)) in (60, 61)
    assert means.affordable_steps(budget, scale * 0.99) < 60
    needed = means.rows_needed(budget, scale / 3)
    assert means.replaced(rows=needed).noise_scale(budget) <= scale / 3 * (1 + 1e-4)
    assert needed == pytest.approx(3 * means.rows, rel=1e-3)


@pytest.mark.parametrize("sampling", ["wor", "poisson", "blocks"])
def test_where_a_batch_is_one_row_whatever_its_share_the_rows_needed_are_enough(sampling: str) -> None:
    means = NoisyMeans(sampling=sampling, rows=50, batch_fraction=0.01, iterations=7)
    scale = means.noise_scale(GaussianDP()) / 2
    needed = means.rows_needed(GaussianDP(), scale)
    assert means.replaced(rows=needed).noise_scale(GaussianDP()) <= scale * (1 + 1e-4)


@pytest.mark.parametrize(("rows", "factor"), [(10_000, 10.0), (1000, 20.0)])
def test_the_rows_needed_for_people_with_several_rows_are_enough(rows: int, factor: float) -> None:
    """In a smaller table with the same m/n a batch meets one of their rows more often; and no table has fewer rows than
    one of them."""
    means, budget = NoisyMeans(rows=rows, rows_per_person=100, batch_fraction=0.01, iterations=10), PureDP(epsilon=1.0)
    scale = factor * means.noise_scale(budget)
    needed = means.rows_needed(budget, scale)
    assert needed >= 100 and means.replaced(rows=needed).noise_scale(budget) <= scale * (1 + 1e-4)


def test_ends() -> None:
    means = NoisyMeans()
    assert means.affordable_steps(PureDP(epsilon=1.0), 1e6) == STEPS_LIMIT
    assert means.affordable_steps(PureDP(epsilon=1.0), 1e-9) == 0
    with pytest.raises(UserError, match="never gives pure"):
        NoisyMeans(noise="gaussian").noise_scale(PureDP(epsilon=1.0))


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.name)
def test_tradeoff_of_a_guarantee_is_below_that_of_noise_that_meets_it(budget: Budget) -> None:
    rates = np.linspace(0.001, 0.999, 41)
    bound = budget.tradeoff(rates)
    means = NoisyMeans(noise="laplace" if isinstance(budget, PureDP) else "gaussian", iterations=40)
    assert (bound <= tradeoffs.tradeoff(means.events(budget), rates) + 1e-9).all()
    assert ((bound >= 0) & (bound <= 1 - rates + 1e-12)).all() and (np.diff(bound) <= 1e-12).all()


def test_tradeoff_of_zcdp_is_a_valid_and_useful_bound() -> None:
    """THEORY.md, section 5: f(0.05) = 0.66442 at ρ = 0.5; the Gaussian with this ρ has 0.740489."""
    found = float(ZeroConcentratedDP(rho=0.5).tradeoff([0.05])[0])
    assert found == pytest.approx(0.66442, abs=1e-5) and found < float(closed_forms.gdp_tradeoff(1.0, [0.05])[0])


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.name)
def test_advantage_is_the_largest_gap_of_the_tradeoff(budget: Budget) -> None:
    """TV47: (1, 1e-5) gives 0.462122536088; a fine grid reaches the largest 1 - α - f(α) from below."""
    assert ApproximateDP(epsilon=1.0, delta=1e-5).advantage() == pytest.approx(0.462122536088)
    rates = np.linspace(0, 1, 20_001)
    gap = float((1 - rates - budget.tradeoff(rates)).max())
    assert gap <= budget.advantage() + 1e-9
    if not isinstance(budget, ZeroConcentratedDP):  # whose bounds at different ε do not belong to one algorithm
        assert gap == pytest.approx(budget.advantage(), rel=1e-3)
