"""What may be said of a synthetic table without looking at the data."""

import math

import numpy as np
import pytest

from dpviz.datasets.categories import CategoricalGenerator
from dpviz.experiments.experiment import Experiment
from dpviz.families.mirror_descent import GaussianMarginals, MultiplicativeWeights, SyntheticData, bounds, presets
from dpviz.privacy.budgets import ApproximateDP
from dpviz.problems.games.marginals import MarginalQueries

SURVEY = MarginalQueries(data=CategoricalGenerator(rows=20_000))
BUDGET = ApproximateDP(epsilon=1.0, delta=1e-6)


@pytest.mark.slow
def test_the_bound_on_a_histograms_error_holds_and_is_near_for_noisy_tables() -> None:
    """Over 8 runs of every method, the mean of the largest error is below the bound, where there is one; of the noisy
    tables it is at least a fifth of it."""
    experiment = Experiment(
        problem=SURVEY, arms=presets.arms(presets.SYNTHETIC, iterations=1000), budget=BUDGET, replicates=8
    )
    trace, plans, marginals = experiment.run(), experiment.plans(), SURVEY.marginals()
    found = {}
    for arm in experiment.arms:
        fit = trace.last(arm.label, "fit_error")
        distance, rounds = float(np.append(fit, 0.0)[0]), trace.lanes[arm.label].iterations[-1]
        bound = bounds.histogram_error(arm.algorithm, plans[arm.label], marginals, rounds, distance)
        error = trace.last(arm.label, "worst_query_error").mean()
        found[arm.label] = error / bound
        assert error < bound, arm.label
    assert found["Gaussian marginals"] > 0.2 and found["MWEM"] == 0 < found["Synthetic histogram"]


def test_a_bound_that_no_error_can_exceed_is_none() -> None:
    few = MarginalQueries(data=CategoricalGenerator(rows=200))
    method = SyntheticData(iterations=4)
    plan = method.plan(few.facts(), BUDGET)
    assert bounds.gap_bound(method, plan)[-1] > 1  # type: ignore[index]
    assert bounds.histogram_error(method, plan, few.marginals(), 4, math.nan) == math.inf
    assert bounds.histogram_error(method, plan, few.marginals(), 0, math.nan) == math.inf
    mwem = MultiplicativeWeights()
    assert bounds.histogram_error(mwem, mwem.plan(few.facts(), BUDGET), few.marginals(), 64, math.nan) == math.inf


def test_noise_of_tables_by_hand() -> None:
    """σ = √(2m)/(n μ), the largest of q cells' noise is at most σ √(2 ln 2q) on average."""
    method, marginals = GaussianMarginals(), SURVEY.marginals()
    plan = method.plan(SURVEY.facts(), BUDGET)
    sigma = math.sqrt(2 * len(marginals.tables)) / (20_000 * plan.events[0].mu)  # type: ignore[union-attr]
    expected = sigma * math.sqrt(2 * math.log(2 * marginals.queries))
    assert bounds.histogram_error(method, plan, marginals, 5, 0.25) == pytest.approx(expected + 0.25)
    noise = sigma * np.abs(np.random.default_rng(0).standard_normal((4000, marginals.queries))).max(axis=1)
    assert 0.7 * expected < noise.mean() < expected
