"""The best of many trainings: what is claimed of it against the law of the best, computed exactly."""

import math

import numpy as np
import pytest
from scipy import stats

from dpviz.errors import UserError
from dpviz.privacy.accounting import closed_forms
from dpviz.privacy.budgets import ApproximateDP, GaussianDP, PureDP, RenyiDP
from dpviz.privacy.statistics import search

RANDOM = {way: shape for way, shape in search.SHAPES.items() if shape is not None}


def generating(x: np.ndarray, rate: float, shape: float) -> np.ndarray:
    """E x^K: P(K = k) is proportional to (1 - γ)^k/k for η = 0, to (1 - γ)^k for η = 1."""
    if shape == 0:
        return np.log1p(-(1 - rate) * x) / math.log(rate)
    return rate * x / (1 - (1 - rate) * x)


@pytest.mark.parametrize("shape", RANDOM.values(), ids=list(RANDOM))
@pytest.mark.parametrize("mean", [2.0, 40.0, 1e5])
def test_the_number_of_trainings_has_the_wanted_mean(mean: float, shape: float) -> None:
    rate = search.stopping_rate(mean, shape)
    x = 1 - 1e-9 * np.array([1.0, 2.0]) * min(1.0, rate / 1e-3)
    ends = generating(x, rate, shape)
    assert (ends[0] - ends[1]) / (x[0] - x[1]) == pytest.approx(mean, rel=2e-2)


@pytest.mark.parametrize("shape", RANDOM.values(), ids=list(RANDOM))
def test_the_best_of_pure_trainings_costs_what_is_claimed_and_nearly_all_of_it(shape: float) -> None:
    """A training is good with probability p, on the neighbour with e^ε p: how likely is a good one to be published?"""
    epsilon, largest = 0.5, 0.0
    for mean in (3.0, 40.0, 1e6):
        rate = search.stopping_rate(mean, shape)
        for chance in np.geomspace(1e-7, 1 / (1 + math.exp(epsilon)), 200):
            pairs = (chance, chance * math.exp(epsilon)), (1 - chance, 1 - chance * math.exp(-epsilon))
            for one, other in pairs:
                best = [1 - generating(np.array(1 - p), rate, shape) for p in (one, min(other, 1.0))]
                rest = [1 - p for p in best]
                ratios = [abs(math.log(p[0] / p[1])) for p in (best, rest) if min(p) > 1e-8]
                largest = max(largest, *ratios)
    assert epsilon < largest <= (2 + shape) * epsilon + 1e-6


@pytest.mark.parametrize("shape", RANDOM.values(), ids=list(RANDOM))
@pytest.mark.parametrize(("rho", "mean"), [(0.03, 40.0), (0.3, 5.0), (0.01, 1000.0)])
def test_the_best_of_gaussian_trainings_keeps_within_its_epsilon(shape: float, rho: float, mean: float) -> None:
    """Trainings are their own noisy scores, N(0, 1) and N(μ, 1): of the largest of K, δ(ε) by integration."""
    delta, rate, x = 1e-4, search.stopping_rate(mean, shape), np.linspace(-12, 14, 400_001)
    laws = [stats.norm(loc=shift) for shift in (0.0, math.sqrt(2 * rho))]
    below = [np.diff(generating(law.cdf(x), rate, shape)) for law in laws]
    epsilon = search.searched_epsilon(rho, mean, shape, delta)
    spent = max(np.maximum(p - math.exp(epsilon) * q, 0).sum() for p, q in (below, below[::-1]))
    assert spent <= delta
    assert epsilon > closed_forms.gdp_epsilon(math.sqrt(2 * rho), delta), "it is not free"


def test_what_a_training_may_cost() -> None:
    pure = search.search_budgets(PureDP(epsilon=2.0), 40.0)
    assert [b.limit for b in pure.values() if b] == pytest.approx([1.0, 2 / 3, 0.05])
    mu = search.search_budgets(GaussianDP(mu=1.0), 40.0)
    assert mu["logarithmic"] is mu["geometric"] is None and mu["all"] and mu["all"].limit == pytest.approx(40**-0.5)
    total = ApproximateDP(epsilon=2.0, delta=1e-6)
    for way, each in search.search_budgets(total, 40.0).items():
        shape, rho = search.SHAPES[way], each.limit if each else math.nan
        spent = (
            closed_forms.zcdp_epsilon(40 * rho, 1e-6)
            if shape is None
            else search.searched_epsilon(rho, 40.0, shape, 1e-6)
        )
        assert spent == pytest.approx(2.0, rel=1e-6) and spent <= 2.0
    with pytest.raises(UserError, match="at least 2"):
        search.search_budgets(PureDP(), 1.0)
    with pytest.raises(UserError, match="State the total"):
        search.search_budgets(RenyiDP(), 40.0)
