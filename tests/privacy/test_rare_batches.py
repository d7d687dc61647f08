"""Budgets that only rare batches with too little noise would use up are refused; all others are planned as before."""

import math

import numpy as np
import pytest

from dpviz.errors import UserError
from dpviz.families.accelerated import GradientDescent, Nesterov
from dpviz.privacy import calibration
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, PureDP, RenyiDP, TradeOff, ZeroConcentratedDP
from dpviz.privacy.events import Event, Gaussian, Laplace, inner_events
from dpviz.privacy.statistics.noisy_means import NoisyMeans
from dpviz.problems.linear.linear_models import LogisticRegression
from tests.pairs import all_pairs
from tests.refusals import NO_AMPLIFICATION, NO_GAUSSIAN, UNPROTECTED, is_refusal

RARE = "only because the batch is rare.*larger m/n or a smaller budget"


def told(event: Event) -> float:
    """What one release leaves to doubt of a row that is in the batch: 1 - TPR + FPR of the best test."""
    (inner,) = inner_events(event)
    if isinstance(inner, Laplace):
        return math.exp(-inner.eps / 2)
    assert isinstance(inner, Gaussian)
    return math.erfc(inner.mu / math.sqrt(8))


@all_pairs
@pytest.mark.parametrize("iterations", [1, 2, 3, 10, 50, 100])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("sampling", ["wor", "poisson"])
def test_whole_batches_without_noise_are_refused_at_every_number_of_steps(
    iterations: int, noise: str, sampling: str
) -> None:
    """The chance to be in one of the batches at all is below what the attack bound allows."""
    means = NoisyMeans(
        rows=10_000, batch_fraction=4e-4, iterations=iterations, noise=noise, sampling=sampling
    )  # was Laplace(eps = 600) and Gaussian(mu = 28.6) on the batch
    with pytest.raises(UserError, match=RARE):
        means.events(TradeOff())


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("iterations", [1, 2, 5, 9])
def test_a_delta_above_the_chance_of_ever_being_drawn_is_refused(noise: str, iterations: int) -> None:
    """10 steps on 1 of 10,000 rows: 1e-3 is the chance to be drawn at all."""
    means = NoisyMeans(rows=10_000, batch_fraction=1e-4, iterations=iterations, noise=noise)
    with pytest.raises(UserError, match=RARE):
        means.events(ApproximateDP(epsilon=1.0, delta=1e-3))


BUDGETS: tuple[Budget, ...] = (
    PureDP(epsilon=0.5),
    PureDP(epsilon=9.5),
    PureDP(epsilon=50.0),
    ApproximateDP(epsilon=1.0, delta=1e-6),
    ApproximateDP(epsilon=1.0, delta=1e-3),
    ApproximateDP(epsilon=50.0, delta=1e-3),
    ZeroConcentratedDP(rho=0.1),
    ZeroConcentratedDP(rho=100.0),
    GaussianDP(mu=0.5),
    GaussianDP(mu=20.0),
    RenyiDP(),
    RenyiDP(epsilon=100.0),
    TradeOff(),
    TradeOff(true_positive_rate=0.9),
    TradeOff(true_positive_rate=0.999, false_positive_rate=1e-4),
)


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.describe())
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_a_plan_hides_a_row_of_the_batch_or_is_refused(budget: Budget, noise: str) -> None:
    """In every currency, under both kinds of sampling, for few and many steps: no other answer."""
    planned = 0
    for sampling in ("wor", "poisson"):
        for fraction in (1e-4, 1e-3, 0.2):
            for iterations in (1, 30, 1000):
                means = NoisyMeans(
                    rows=10_000, batch_fraction=fraction, iterations=iterations, noise=noise, sampling=sampling
                )
                try:
                    (event,) = set(means.events(budget))
                except UserError as error:
                    assert is_refusal(error, NO_AMPLIFICATION, NO_GAUSSIAN, UNPROTECTED)
                    continue
                planned += 1
                least = min(1 - calibration.ALMOST_SURELY, budget.doubt())
                assert told(event) >= max(least, 1e-80) * (1 - 1e-6), (means, event)
    exists = noise == "laplace" or isinstance(budget, ApproximateDP | TradeOff)
    assert planned > 0 if exists else True


@pytest.mark.parametrize(
    ("budget", "fraction", "iterations", "inner"),
    [
        (PureDP(epsilon=1.0), 1e-4, 1, 9.750),
        (ApproximateDP(epsilon=1.0, delta=1e-6), 1e-4, 1, 9.772),
        (ApproximateDP(epsilon=1.0, delta=1e-3), 1e-4, 100, 9.955),
        (TradeOff(), 1e-3, 100, 8.175),
        (TradeOff(), 0.1, 100, 0.6536),
    ],
    ids=str,
)
def test_ordinary_plans_are_as_before(budget: Budget, fraction: float, iterations: int, inner: float) -> None:
    means = NoisyMeans(rows=100_000, batch_fraction=fraction, iterations=iterations)
    (found,) = inner_events(means.events(budget)[0])
    assert isinstance(found, Laplace) and found.eps == pytest.approx(inner, rel=2e-3)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("schedule", ["uniform", "optimal"])
@pytest.mark.parametrize("method", [GradientDescent, Nesterov])
def test_every_plan_of_an_algorithm_is_guarded(method: type, schedule: str, noise: str) -> None:
    algorithm = method(iterations=20, noise=noise, schedule=schedule, batch_fraction=1e-3, horizon="fixed")
    facts = LogisticRegression().facts()
    with pytest.raises(UserError, match=RARE):
        algorithm.plan(facts, TradeOff())
    with pytest.raises(UserError, match=RARE):  # a single step of rare pure DP
        calibration.calibrate_laplace(PureDP(epsilon=9.9), np.ones(1), 1, 10_000)
