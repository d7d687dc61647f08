"""Schedules of few different noises: nearly as good as the optimum, and exactly what is run."""

import numpy as np
import pytest

from dpviz.families.accelerated import GradientDescent, MultistageNesterov, Nesterov, planning
from dpviz.privacy import calibration
from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import ApproximateDP, GaussianDP, PureDP, TradeOff, ZeroConcentratedDP
from dpviz.privacy.calibration import LEVELS, MANY_LEVELS, levelled
from dpviz.privacy.events import Gaussian, Laplace, inner_events
from dpviz.problems.linear.linear_models import LogisticRegression
from tests.pairs import all_pairs

FACTS = LogisticRegression().facts()


def test_few_weights_stay_as_they_are() -> None:
    weights = np.random.default_rng(0).permutation(np.repeat(np.geomspace(1e-9, 1, LEVELS), 40))
    assert (levelled(weights, LEVELS) == weights).all()


def test_order_and_ties_are_kept() -> None:
    weights = np.repeat(np.exp(np.random.default_rng(1).normal(0, 3, 2000)), 2)
    found = levelled(weights, LEVELS)
    order = np.argsort(weights, kind="stable")
    assert (np.diff(found[order]) >= 0).all() and (found[::2] == found[1::2]).all()
    assert len(set(found.tolist())) <= LEVELS and found.min() >= weights.min() and found.max() <= weights.max()


@all_pairs
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("method", [GradientDescent, Nesterov, MultistageNesterov])
@pytest.mark.parametrize("steps", [100, 1000, 10_000])
@pytest.mark.parametrize(("levels", "loss"), [(LEVELS, 0.01), (MANY_LEVELS, 1e-4)])
def test_levels_lose_little_of_an_optimal_schedule(method, noise: str, steps: int, levels: int, loss: float) -> None:
    """Σ weight × variance at an equal sum of ε² or ρ, which is what small steps cost; weights from the optimum."""
    chosen = method(iterations=steps, schedule="optimal", noise=noise)
    shares = planning.shares(chosen, FACTS, ApproximateDP(), steps)
    power = 2 if noise == "laplace" else 1

    def variance(weights: np.ndarray) -> float:
        scaled = weights / (np.sum(weights**power) ** (1 / power))
        return float(np.sum(shares ** (power + 1) / scaled**power))

    assert variance(levelled(shares, levels)) <= (1 + loss) * variance(shares)


@pytest.mark.parametrize("budget", [ApproximateDP(), TradeOff(), ZeroConcentratedDP(), GaussianDP()], ids=str)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_a_plan_has_few_events_and_uses_up_its_budget(noise: str, budget) -> None:
    """The levels are the plan: what is drawn, booked and counted; nothing is rounded up behind it."""
    fraction = 0.05 if noise == "laplace" or isinstance(budget, ApproximateDP | TradeOff) else 1.0
    chosen = Nesterov(iterations=800, schedule="optimal", noise=noise, batch_fraction=fraction, horizon="fixed")
    plan = chosen.plan(FACTS, budget)
    composed = isinstance(budget, ApproximateDP | TradeOff)
    if fraction < 1:
        assert len(set(plan.events)) <= (LEVELS if composed else MANY_LEVELS)
    spent = budget.cost(plan.events) / budget.remaining(())
    assert 1 - 2e-5 <= spent <= 1 + 1e-12


def test_levels_need_less_noise_than_rounding_up_in_the_accountant() -> None:
    """With 1000 different events the accountant rounds them up to fewer, and the plan pays for that."""
    budget, m, n = ApproximateDP(epsilon=1.0), 100, 1000
    chosen = GradientDescent(iterations=1000, schedule="optimal", noise="gaussian", batch_fraction=0.1)
    shares = planning.shares(chosen, FACTS, budget, 1000)

    def variance(events) -> float:
        scales = np.array([1 / inner.mu for event in events for inner in inner_events(event)])
        return float(shares**2 @ scales**2)

    exact = calibration.gaussian_events(calibration.calibrate_gaussian(budget, shares, m, n), m, n)
    assert len(set(exact)) > accountants.MAX_EXACT
    assert variance(calibration.calibrated_events("gaussian", budget, shares, m, n)) <= variance(exact)


def test_short_schedules_pure_budgets_and_gaussian_noise_on_all_rows_are_exact() -> None:
    weights = np.exp(np.linspace(-3, 0, 700))
    short = calibration.calibrated_events("laplace", ApproximateDP(), weights[::14], 50, 1000)
    assert len(set(short)) == accountants.MAX_EXACT
    laplace = calibration.calibrated_events("laplace", PureDP(epsilon=1.0), weights, 50, 1000)
    gaussian = calibration.calibrated_events("gaussian", ApproximateDP(), weights, 1000, 1000)
    assert len(set(laplace)) == len(set(gaussian)) == 700
    assert {type(inner_events(event)[0]) for event in (*laplace, *gaussian)} == {Laplace, Gaussian}
