"""Attack readings against riskcal, an independent library for exactly these."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from riskcal import analysis

from dpviz.privacy import tradeoffs
from dpviz.privacy.accounting import closed_forms, rdp_tradeoffs
from dpviz.privacy.budgets import ApproximateDP, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import Event, Gaussian, Laplace

ALPHA = np.array([1e-4, 0.01, 0.05, 0.1, 0.3, 0.5, 0.9])


@pytest.mark.parametrize("mu", [0.01, 0.5, 1.0, 5.0])
def test_gaussian_dp(mu: float) -> None:
    """TV46 and TV48 at μ = 1."""
    theirs = analysis.get_beta_from_gdp(mu, ALPHA)
    for ours in (
        closed_forms.gdp_tradeoff(mu, ALPHA),
        tradeoffs.tradeoff([Gaussian(mu / 2)] * 4, ALPHA),
        GaussianDP(mu=mu).tradeoff(ALPHA),
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
        np.testing.assert_allclose(1 - ours, 1 - theirs, rtol=1e-9)  # the true positive rates
    advantage = float(analysis.get_advantage_from_gdp(mu))
    assert float(closed_forms.gdp_delta(mu, 0.0)) == pytest.approx(advantage, rel=1e-9)
    assert tradeoffs.advantage([Gaussian(mu)]) == pytest.approx(advantage, rel=1e-9)
    assert GaussianDP(mu=mu).advantage() == pytest.approx(advantage, rel=1e-9)


@pytest.mark.parametrize("delta", [1e-10, 1e-5, 1e-3])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 6.0])
def test_approximate_dp(epsilon: float, delta: float) -> None:
    """TV47 at (1, 1e-5)."""
    budget = ApproximateDP(epsilon=epsilon, delta=delta)
    np.testing.assert_allclose(budget.tradeoff(ALPHA), analysis.get_beta_from_adp(epsilon, delta, ALPHA), rtol=1e-9)
    theirs = analysis.get_advantage_from_adp(epsilon, delta)
    assert budget.advantage() == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 6.0])
def test_pure_dp(epsilon: float) -> None:
    theirs = analysis.get_beta_from_adp(epsilon, 0.0, ALPHA)
    np.testing.assert_allclose(closed_forms.pure_tradeoff(epsilon, ALPHA), theirs, rtol=1e-9)
    theirs = analysis.get_advantage_from_adp(epsilon, 0.0)
    assert PureDP(epsilon=epsilon).advantage() == pytest.approx(theirs, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.1, 0.5, 2.0])
def test_zcdp(rho: float) -> None:
    """Both take the best of a grid of orders, theirs evenly spaced near 1, where it counts if ρ is large.

    For ρ ≤ 0.01 theirs (1.5.1) says 1 - α at some rates, more privacy than even Gaussian noise of that ρ has.
    """
    theirs, ours = analysis.get_beta_from_zcdp(rho, ALPHA), rdp_tradeoffs.zcdp_tradeoff(rho, ALPHA)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5 if rho < 1 else 1e-4)
    np.testing.assert_array_equal(ours, ZeroConcentratedDP(rho=rho).tradeoff(ALPHA))
    assert rdp_tradeoffs.zcdp_advantage(rho) == pytest.approx(analysis.get_advantage_from_zcdp(rho), abs=1e-4)


@pytest.mark.parametrize("order", [1.2, 2.0, 10.0, 50.0])
@pytest.mark.parametrize("divergence", [0.01, 0.5, 3.0])
def test_one_renyi_divergence(order: float, divergence: float) -> None:
    theirs = analysis.get_beta_from_rdp(divergence, ALPHA, order, tol=1e-10)
    np.testing.assert_allclose(rdp_tradeoffs.rdp_tradeoff([divergence], [order], ALPHA), theirs, rtol=0, atol=1e-8)


@pytest.mark.parametrize("event", [Laplace(0.1), Gaussian(0.1), Laplace(0.8)], ids=str)
@pytest.mark.parametrize("count", [1, 40])
def test_composed_releases(event: Event, count: int) -> None:
    """Theirs from the loss distribution of another library, which is an upper bound on the attack, too."""
    interval = 1e-4 if count == 1 else 1e-3
    if isinstance(event, Laplace):
        one = privacy_loss_distribution.from_laplace_mechanism(1 / event.eps, value_discretization_interval=interval)
    else:
        assert isinstance(event, Gaussian)
        one = privacy_loss_distribution.from_gaussian_mechanism(1 / event.mu, value_discretization_interval=interval)
    pld = one.self_compose(count)
    events = [event] * count
    ours, theirs = tradeoffs.tradeoff(events, ALPHA), analysis.get_beta_from_pld(pld, ALPHA)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-4)
    assert tradeoffs.advantage(events) == pytest.approx(analysis.get_advantage_from_pld(pld), rel=2e-3)


def test_what_the_order_of_conversions_costs() -> None:
    """At ρ = ½ and a false positive rate of 5 % an attacker misses 66 % if only ρ is known, 74 % of Gaussian noise."""
    bare, gaussian = analysis.get_beta_from_zcdp(0.5, 0.05), analysis.get_beta_from_gdp(1.0, 0.05)
    assert (
        float(rdp_tradeoffs.zcdp_tradeoff(0.5, 0.05))
        == pytest.approx(bare, abs=1e-5)
        == pytest.approx(0.66442, abs=1e-5)
    )
    assert float(closed_forms.gdp_tradeoff(math.sqrt(2 * 0.5), 0.05)) == pytest.approx(float(gaussian), rel=1e-9)
