"""L from the data, estimated or released: the numbers of THEORY.md, and what the release costs."""

import math

import numpy as np
import pytest

from dpviz.datasets import UniformLogistic, UploadedTable
from dpviz.errors import UserError
from dpviz.families.accelerated import smoothness
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.currencies import Currency
from dpviz.privacy.budgets import Budget, GaussianDP, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import Laplace
from dpviz.privacy.mechanisms import Purpose, streams
from dpviz.problems.linear.linear_models import LogisticRegression

CENTRED = LogisticRegression(scaling="centred")


def test_the_estimate_is_that_of_the_theory() -> None:
    """Section 10, item 4: λ_max of the centred default data is 0.0863; L = λ_max/4 + 2λ."""
    assert smoothness.estimated(CENTRED) == pytest.approx(0.0863 / 4 + 0.02, abs=2e-5)


@pytest.mark.slow
def test_the_release_adds_noise_and_the_margin_of_the_theory() -> None:
    """Section 10, item 4 gives 0.1026 for one seed: noise of scale b = R²/(n ε), and b ln 500 upwards."""
    scale = 2.5 / (10_000 * 0.1)
    margin = scale * math.log(500)
    released = [(smoothness.released(CENTRED, 0.1, seed) - 0.02) * 4 for seed in range(200)]
    exact = (smoothness.estimated(CENTRED) - 0.02) * 4
    noise = np.array(released) - exact - margin
    # Standard error of a mean of 200 Laplace draws is √2 b/√200; that of the mean size |noise| = b is b/√200.
    assert abs(noise.mean()) < 4 * math.sqrt(2) * scale / math.sqrt(200)
    assert abs(np.abs(noise).mean() - scale) < 4 * scale / math.sqrt(200)
    assert abs(exact + margin - 0.1026) < 1e-3
    assert released[0] == (smoothness.released(CENTRED, 0.1, 0) - 0.02) * 4


@pytest.mark.parametrize("epsilon", [1e-5, 50.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_release_stays_within_what_any_data_can_have(epsilon: float, seed: int) -> None:
    assert 0.02 <= smoothness.released(CENTRED, epsilon, seed) <= 2.5 / 4 + 0.02 + 1e-12


def test_an_earlier_smoothness_does_not_matter() -> None:
    declared = CENTRED.replaced(smoothness=3.0, smoothness_source="declared")
    assert smoothness.released(declared, 0.1, 3) == smoothness.released(CENTRED, 0.1, 3)


@pytest.mark.parametrize(
    ("budget", "currency", "whole"),
    [
        (PureDP(epsilon=2.0), "epsilon", 2.0),
        (ZeroConcentratedDP(rho=0.1), "rho", 0.1),
        (GaussianDP(mu=0.5), "mu", 0.5**2),
    ],
    ids=lambda value: str(value),
)
def test_the_suggested_cost_is_five_percent_at_most(budget: Budget, currency: Currency, whole: float) -> None:
    spent = accountants.total((Laplace(smoothness.suggested_cost(budget)),), currency)
    share = (spent**2 if currency == "mu" else spent) / whole
    assert 0.04 < share <= 0.05 + 1e-12


def test_what_cannot_be_is_said_in_a_sentence() -> None:
    with pytest.raises(UserError):
        smoothness.released(CENTRED, 0.0, 0)
    with pytest.raises(UserError):
        smoothness.suggested_cost(NoPrivacy())
    missing = LogisticRegression(data=UploadedTable(identity="0" * 32, n=100, bounds=((0.0, 1.0),), names=("a",)))
    with pytest.raises(UserError, match="Upload the file again"):
        smoothness.estimated(missing)


def test_the_release_of_the_smoothness_shares_no_noise_with_the_run() -> None:
    """If both drew the same standard number, their difference would be a noise-free function of the data."""
    problem = LogisticRegression(data=UniformLogistic(rows=1000, dimension=3))
    exact = problem.build().curvature()
    scale = float(exact.sensitivity) / 1.0
    margin = scale * math.log(1 / (2 * smoothness.UNDERESTIMATE))
    for seed in range(5):
        released_smoothness = smoothness.released(problem, 1.0, seed)
        drawn = (4 * (released_smoothness - 2 * problem.regularisation) - margin - exact.value[0]) / scale
        for purpose in (Purpose.NOISE, Purpose.BATCHES, Purpose.PUBLIC):
            for generator in streams(seed, purpose, 200):
                assert np.abs(generator.laplace(size=50) - drawn).min() > 1e-9
