"""The best of many trainings: what is claimed of it against the law of the best, computed exactly."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dpviz.errors import UserError
from dpviz.privacy.accounting import closed_forms
from dpviz.privacy.budgets import ApproximateDP, GaussianDP, PureDP, RenyiDP
from dpviz.privacy.events import Relation
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


@pytest.mark.parametrize(
    ("relation", "rows_per_person"), [("replace-one", 1), ("replace-one", 2), ("add/remove-one", 1)]
)
def test_the_choice_on_held_out_rows_costs_the_budget_and_falls_short_by_as_much_as_is_said(
    relation: Relation, rows_per_person: int
) -> None:
    """Three trainings, five held-out rows that any of them gets right or wrong, k of a person: the law of the choice,
    exactly, on all tables and their neighbours."""
    epsilon, rows, k = 1.5, 5, rows_per_person
    cells = np.array([*itertools.product((0, 1), repeat=3)])

    def chances(table: np.ndarray) -> np.ndarray:
        """Of each training: e^(η u/Δ), u the number of right rows, Δ the range of its change."""
        weights = np.exp(epsilon * table.sum(0) / ((2 if relation == "replace-one" else 1) * k))
        return weights / weights.sum()

    largest = 0.0
    for others in itertools.combinations_with_replacement(cells, rows - k):
        laws = [chances(np.array([*others, *rest])) for rest in itertools.product(cells, repeat=k)]
        pairs = itertools.product(laws, laws)
        if relation == "add/remove-one":
            pairs = itertools.product(laws, [chances(np.array(others).reshape(-1, 3))])
        largest = max(largest, *(float(np.abs(np.log(one / other)).max()) for one, other in pairs))
    assert 0.6 * epsilon < largest <= epsilon + 1e-9
    # All trainings but one get as many rows fewer right as is said: 5 % of the choices are such a one.
    below = search.shortfall(PureDP(epsilon=epsilon), 40, 200, k, relation)
    scores = np.array([[1.0]] + [[1 - below]] * 39).T
    weights = np.exp(epsilon * 200 * (scores - 1) / ((2 if relation == "replace-one" else 1) * k))
    assert weights[0, 1:].sum() / weights.sum() == pytest.approx(0.05)
    assert search.shortfall(PureDP(epsilon=epsilon), 40, 1) == 1.0


def test_what_a_training_may_cost() -> None:
    pure = search.search_budgets(PureDP(epsilon=2.0), 40.0)
    assert [b.limit for b in pure.values() if b] == pytest.approx([1.0, 2 / 3, 0.05, 0.05])
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
    assert pure["selection"] == pure["all"]
    # A single training has Gaussian noise of μ, which is less noise than that of the ρ that zCDP proves.
    single_rho = closed_forms.gdp_mu(2.0, 1e-6) ** 2 / 2
    expected = math.sqrt(40 * single_rho / closed_forms.zcdp_rho(2.0, 1e-6))
    assert search.noise_factors(total, 40.0)["all"] == pytest.approx(expected) and expected > 1.01 * math.sqrt(40)
    with pytest.raises(UserError, match="at least 2"):
        search.search_budgets(PureDP(), 1.0)
    for wrong in ((1, 9), (9, 0)):
        with pytest.raises(UserError, match="at least 2"):
            search.shortfall(PureDP(), *wrong)
    with pytest.raises(UserError, match="State the total"):
        search.search_budgets(RenyiDP(), 40.0)
    with pytest.raises(UserError, match="so small an ε"):
        search.search_budgets(ApproximateDP(epsilon=1e-3, delta=1e-100), 40.0)
