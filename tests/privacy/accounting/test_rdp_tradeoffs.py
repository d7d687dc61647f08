"""Trade-off curves from Rényi divergences, against bisection, exact curves, and attacks that attain them."""

import math

import numpy as np
import pytest

from dpviz.privacy.accounting import closed_forms, per_event, rdp_tradeoffs
from dpviz.privacy.events import Event, ExpMech, Gaussian, Laplace, StatedApproximateDP, StatedPureDP
from tests.oracles.zcdp import zcdp_delta

ALPHA = np.array([1e-8, 1e-4, 0.01, 0.05, 0.1, 0.3, 0.5, 0.8, 0.99])
RHOS = [1e-5, 1e-3, 0.1, 0.5, 2.0, 10.0]


def bisected(divergences: np.ndarray, orders: np.ndarray, alpha: float) -> float:
    """The largest β up to which each order excludes all, from the definition."""
    best = 0.0
    for exchanged in (False, True):
        low, high = np.zeros_like(orders), np.full_like(orders, 1 - alpha)
        for _ in range(60):
            beta = (low + high) / 2
            p, p_not, q, q_not = np.log1p(-beta), np.log(beta), math.log(alpha), math.log1p(-alpha)
            if exchanged:
                p, p_not, q, q_not = q, q_not, p, p_not
            moment = np.logaddexp(orders * p + (1 - orders) * q, orders * p_not + (1 - orders) * q_not)
            excluded = moment > (orders - 1) * divergences
            low, high = np.where(excluded, beta, low), np.where(excluded, high, beta)
        best = max(best, float(low.max()))
    return best


@pytest.mark.parametrize("rho", RHOS)
def test_the_search_finds_the_best_order_of_the_grid(rho: float) -> None:
    found = rdp_tradeoffs.zcdp_tradeoff(rho, ALPHA)
    expected = [bisected(rho * rdp_tradeoffs.ORDERS, rdp_tradeoffs.ORDERS, alpha) for alpha in ALPHA.tolist()]
    assert (found <= np.array(expected) + 1e-14).all() and (found >= np.array(expected) - 5e-9).all()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("rho", RHOS)
def test_the_grid_of_orders_costs_little(rho: float) -> None:
    fine = 1 + np.geomspace(1e-7, 1e4, 5000)
    for alpha in ALPHA.tolist():
        exact = bisected(rho * fine, fine, alpha)
        assert -1e-6 <= exact - float(rdp_tradeoffs.zcdp_tradeoff(rho, alpha)) <= 1.5e-5


def test_reference_values() -> None:
    assert float(rdp_tradeoffs.zcdp_tradeoff(0.5, 0.05)) == pytest.approx(0.66442, abs=1e-5)
    assert float(rdp_tradeoffs.zcdp_tradeoff(0.1, 0.1)) == pytest.approx(0.76917, abs=1e-5)
    assert float(closed_forms.gdp_tradeoff(1.0, 0.05)) == pytest.approx(0.740489, abs=1e-6)  # Gaussian, the same ρ


@pytest.mark.parametrize("rho", [0.0, 1e-12, *RHOS, 100.0, 1e6])
def test_it_is_a_tradeoff_curve(rho: float) -> None:
    """Convex, falling, from 1 to 0, below 1 - α, its own inverse, below Gaussian noise with the same ρ."""
    alpha = np.linspace(0, 1, 301)
    f = rdp_tradeoffs.zcdp_tradeoff(rho, alpha)
    assert f[0] == 1.0 and f[-1] == 0.0 and (np.diff(f) <= 1e-12).all() and (f <= 1 - alpha).all()
    assert np.diff(f, 2).min() >= -1e-7
    inside = alpha[1:-1][f[1:-1] > 1e-6]
    there = rdp_tradeoffs.zcdp_tradeoff(rho, inside)
    np.testing.assert_allclose(rdp_tradeoffs.zcdp_tradeoff(rho, there), inside, atol=1e-4)
    if rho > 0:
        assert (f <= closed_forms.gdp_tradeoff(math.sqrt(2 * rho), alpha) + 1e-12).all()


@pytest.mark.parametrize("rho", [1e-4, 0.5, 5.0])
def test_algorithms_with_this_rho_are_above(rho: float) -> None:
    """Randomised response, Laplace noise and the exponential mechanism with exactly this ρ."""
    for tight, curve in (
        (closed_forms.pure_to_rho, closed_forms.pure_tradeoff),
        (lambda size: per_event.rho(Laplace(size)), closed_forms.laplace_tradeoff),
        (lambda size: per_event.rho(ExpMech(size)), closed_forms.exponential_tradeoff),
    ):
        low, high = 1e-9, 100.0
        for _ in range(60):
            size = math.sqrt(low * high)
            low, high = (size, high) if tight(size) < rho else (low, size)
        assert (rdp_tradeoffs.zcdp_tradeoff(rho, ALPHA) <= curve(low, ALPHA) + 1e-9).all()


@pytest.mark.parametrize("rho", [1e-300, 1e-9, *RHOS, 300.0])
def test_the_largest_advantage_is_that_of_randomised_response(rho: float) -> None:
    advantage = rdp_tradeoffs.zcdp_advantage(rho)
    epsilon = 2 * math.atanh(advantage) if advantage < 1 else math.inf
    if epsilon < 30:
        assert closed_forms.pure_to_rho(epsilon) == pytest.approx(rho, rel=1e-4)
    equal = (1 - advantage) / 2  # both rates are the same
    if 1e-6 < equal < 0.499:
        assert float(rdp_tradeoffs.zcdp_tradeoff(rho, equal)) == pytest.approx(equal, abs=1e-4)
    alpha = np.append(np.linspace(0, 1, 1001), equal)
    gap = float((1 - alpha - rdp_tradeoffs.zcdp_tradeoff(rho, alpha)).max())
    assert advantage - (1e-12 if equal > 1e-6 else 1.1e-3) <= gap <= advantage + 2e-5
    assert advantage <= zcdp_delta(rho, 0.0) + 1e-12  # the general conversion at ε = 0
    assert advantage <= math.sqrt(rho / 2) * (1 + 1e-9)  # Pinsker's inequality
    assert advantage >= float(closed_forms.gdp_delta(math.sqrt(2 * rho), 0.0)) * (1 - 1e-9)


def test_the_ends() -> None:
    assert rdp_tradeoffs.zcdp_advantage(0.0) == 0.0 and rdp_tradeoffs.zcdp_advantage(math.inf) == 1.0
    rates = np.array([0.0, 1e-300, 1e-12, 0.5, 1 - 1e-16, 1.0])
    assert (rdp_tradeoffs.zcdp_tradeoff(math.inf, rates) == 0).all()
    for rho in (0.0, 1.0, 1e9):
        f = rdp_tradeoffs.zcdp_tradeoff(rho, rates)
        assert f[0] == 1.0 and f[-1] == 0.0 and np.isfinite(f).all()
    assert rdp_tradeoffs.zcdp_tradeoff(1.0, 0.5).shape == ()
    assert rdp_tradeoffs.zcdp_tradeoff(1.0, np.full((2, 3), 0.5)).shape == (2, 3)
    assert rdp_tradeoffs.zcdp_tradeoff(1e9, 0.5) == 0.0


@pytest.mark.parametrize(
    ("event", "curve", "lost"),
    [
        (StatedPureDP(1.0), closed_forms.pure_tradeoff, 5e-3),
        (Laplace(1.0), closed_forms.laplace_tradeoff, 0.03),
        (ExpMech(2.0), closed_forms.exponential_tradeoff, 2e-3),
        (Gaussian(1.0), closed_forms.gdp_tradeoff, 0.1),
    ],
    ids=["pure", "Laplace", "exponential", "Gaussian"],
)
def test_curves_from_the_divergences_of_an_event_are_below_its_own(event: Event, curve, lost: float) -> None:
    size = event.mu if isinstance(event, Gaussian) else per_event.pure(event)
    exact = curve(size, ALPHA)
    for orders in (rdp_tradeoffs.ORDERS, closed_forms.ORDERS, np.array([2.0]), np.array([1.5, 8.0])):
        found = rdp_tradeoffs.rdp_tradeoff(per_event.rdp(event, orders), orders, ALPHA)
        assert (found <= exact + 1e-12).all()
    found = rdp_tradeoffs.rdp_tradeoff(per_event.rdp(event, rdp_tradeoffs.ORDERS), rdp_tradeoffs.ORDERS, ALPHA)
    assert (found >= exact - lost).all()


def test_unknown_divergences_tell_nothing() -> None:
    assert (
        rdp_tradeoffs.rdp_tradeoff(per_event.rdp(StatedApproximateDP(1.0, 1e-5), ALPHA + 2), ALPHA + 2, ALPHA) == 0
    ).all()
    some = np.array([math.inf, 2.0, math.inf])
    alone = rdp_tradeoffs.rdp_tradeoff([2.0], [3.0], ALPHA)
    np.testing.assert_array_equal(rdp_tradeoffs.rdp_tradeoff(some, [2.0, 3.0, 4.0], ALPHA), alone)
