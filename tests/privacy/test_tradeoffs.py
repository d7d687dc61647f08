"""Trade-off curves and advantages against closed forms, actual attacks, and their own consistency."""

import math

import numpy as np
import pytest
from hypothesis import given

from dpviz.privacy import tradeoffs
from dpviz.privacy.accounting import accountants, closed_forms, per_event
from dpviz.privacy.accounting.rdp_tradeoffs import zcdp_advantage
from dpviz.privacy.budgets import ApproximateDP
from dpviz.privacy.events import (
    ExpMech,
    Gaussian,
    Laplace,
    Parallel,
    Seq,
    StatedApproximateDP,
    StatedPureDP,
    StatedZCDP,
    Sub,
    relation,
)
from tests.oracles.zcdp import zcdp_delta
from tests.strategies import events_of_all_kinds, steady

DELTA = 1e-6
ALPHA = np.array([0.0, 1e-6, 0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 1.0])


@pytest.mark.parametrize("mu", [0.01, 1.0, 6.0, 40.0])
def test_gaussian_tradeoff_is_exact(mu):
    """TV48 and TV46 among them; whatever the number of releases."""
    expected = closed_forms.gdp_tradeoff(mu, ALPHA)
    np.testing.assert_allclose(tradeoffs.tradeoff([Gaussian(mu)], ALPHA), expected, rtol=1e-12)
    np.testing.assert_allclose(tradeoffs.tradeoff([Gaussian(mu / 2)] * 4, ALPHA), expected, rtol=1e-12)
    assert tradeoffs.advantage([Gaussian(mu / 2)] * 4) == pytest.approx(math.erf(mu / math.sqrt(8)), rel=1e-9)


@pytest.mark.parametrize("event", [Laplace(0.1), Laplace(2.0), Gaussian(0.3), Gaussian(4.0)], ids=str)
def test_tradeoff_from_a_profile_is_exact(event):
    """The general way, on events whose curve is known."""
    found = tradeoffs._tradeoff_of_profiles(per_event.directions(event), ALPHA)
    closed = closed_forms.laplace_tradeoff(event.eps, ALPHA) if isinstance(event, Laplace) else None
    expected = closed_forms.gdp_tradeoff(event.mu, ALPHA) if closed is None else closed
    assert ((expected - 1e-7 <= found) & (found <= expected + 1e-12)).all()


@pytest.mark.parametrize(
    ("events", "truth"),
    [
        ([Laplace(0.05)] * 400, closed_forms.gdp_tradeoff(1.0, ALPHA)),
        ([Sub("wor", 10**6 - 1, 10**6, Gaussian(0.1))] * 100, closed_forms.gdp_tradeoff(1.0, ALPHA)),
        ([Sub("wor", 10**8 - 1, 10**8, Laplace(2.0))], closed_forms.laplace_tradeoff(2.0, ALPHA)),
    ],
    ids=["many Laplace", "Gaussian batches", "Laplace batch"],
)
def test_composed_tradeoff_near_known_curves(events, truth):
    np.testing.assert_allclose(tradeoffs.tradeoff(events, ALPHA), truth, rtol=0, atol=8e-3)


@steady
@given(events=events_of_all_kinds)
def test_tradeoff_is_never_above_the_truth(events):
    """It is a trade-off curve (convex, decreasing, below 1 - α), in line with the advantage and every proven (ε, δ)."""
    alpha = np.linspace(0, 1, 101)
    f = tradeoffs.tradeoff(events, alpha)
    assert (np.diff(f) <= 1e-12).all() and (f <= 1 - alpha + 1e-12).all() and (f >= 0).all()
    if relation(events) != "add/remove-one":  # the smaller of two convex curves, one for each data set as the null
        assert np.diff(f, 2).min() >= -1e-6
    assert (1 - alpha - f).max() <= tradeoffs.advantage(events) + 1e-9  # the largest TPR - FPR
    for delta in (1e-9, 1e-6, 1e-3):
        epsilon = min(accountants.epsilon(events, delta, method) for method in ("basic", "pld", "gdp"))
        assert (f >= 1 - delta - np.exp(epsilon * 1.01) * alpha - 1e-6).all()


def test_tradeoff_of_batches_is_below_that_of_an_actual_attack():
    """One record +1 among others at -1, one release on batches of 1 in 10: the best tests are known in closed form."""
    q, mu = 0.1, 1.5
    threshold = np.linspace(-4, 6, 400)
    above, below = closed_forms.ndtr(-threshold), closed_forms.ndtr(threshold)  # type: ignore[attr-defined]
    false_positive, false_negative = above, (1 - q) * below + q * closed_forms.ndtr(threshold - mu)  # type: ignore[attr-defined]
    events = [Sub("wor", 1, 10, Gaussian(mu))]
    assert (tradeoffs.tradeoff(events, false_positive) <= false_negative + 1e-12).all()
    assert (tradeoffs.tradeoff(events, false_negative) <= false_positive + 1e-12).all()


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (Laplace(1.0), -math.expm1(-0.5)),
        (Gaussian(1.0), 0.382924922548),
        (Gaussian(2.0), 0.682689492137),
        (Sub("wor", 1, 4, Laplace(1.0)), -math.expm1(-0.5) / 4),
        (Sub("wor", 1, 4, Gaussian(1.0)), 0.382924922548 / 4),
    ],
    ids=str,
)
def test_advantage(event, expected):
    assert tradeoffs.advantage([event]) == pytest.approx(expected, rel=1e-9)
    assert expected <= tradeoffs.advantage([event] * 3) * (1 + 1e-9) <= 3 * expected * (1 + 1e-4)


@pytest.mark.parametrize("q", [0.1, 0.6])
def test_tradeoff_of_poisson_batches_is_the_worse_of_two_exact_ones(q):
    """One release: the row is there (noise around μ, if drawn) or not (around 0), and the attacker picks the null."""
    mu, threshold = 1.5, np.linspace(-4, 6, 400)
    false_positive, false_negative = closed_forms.ndtr(-threshold), (1 - q) * closed_forms.ndtr(threshold)  # type: ignore[attr-defined]
    false_negative += q * closed_forms.ndtr(threshold - mu)  # type: ignore[attr-defined]
    found = tradeoffs.tradeoff([Sub("poisson", round(10 * q), 10, Gaussian(mu))], false_positive)
    other = np.interp(false_positive, false_negative, false_positive)  # the same tests with the hypotheses exchanged
    np.testing.assert_allclose(found, np.minimum(false_negative, other), rtol=0, atol=2e-4)
    exact = q * math.erf(mu / math.sqrt(8))
    assert tradeoffs.advantage([Sub("poisson", round(10 * q), 10, Gaussian(mu))]) == pytest.approx(exact, rel=1e-9)


def test_tradeoff_of_selections_and_black_boxes():
    eta = closed_forms.exponential_tradeoff(1.5, ALPHA)
    np.testing.assert_array_equal(tradeoffs.tradeoff([ExpMech(1.5)], ALPHA), eta)
    np.testing.assert_allclose(
        tradeoffs._tradeoff_of_profiles(per_event.directions(ExpMech(1.5)), ALPHA), eta, atol=1e-9
    )
    assert tradeoffs.advantage([ExpMech(1.5)]) == pytest.approx(math.tanh(1.5 / 4), rel=1e-12)
    assert tradeoffs.advantage([StatedPureDP(1.5)]) == pytest.approx(math.tanh(1.5 / 2), rel=1e-12)
    failing = tradeoffs.tradeoff([StatedApproximateDP(1.0, 1e-3)], ALPHA)
    expected = ApproximateDP(epsilon=1.0, delta=1e-3).tradeoff(ALPHA)
    np.testing.assert_allclose(failing, expected, rtol=0, atol=1e-9)
    assert tradeoffs.advantage([StatedApproximateDP(1.0, 1e-3)]) == pytest.approx(
        0.462117157 + 1e-3 * (1 - 0.462117157), rel=1e-8
    )


def test_tradeoff_of_a_bare_rho():
    """0.66442 at ρ = 0.5 and α = 0.05, and 0.76917 at ρ = 0.1 and α = 0.1."""
    assert tradeoffs.tradeoff([StatedZCDP(0.25), Gaussian(math.sqrt(0.5))], [0.05]) == pytest.approx(0.66442, abs=1e-5)
    assert tradeoffs.tradeoff([StatedZCDP(0.1)], [0.1]) == pytest.approx(0.76917, abs=1e-5)
    assert tradeoffs.advantage([StatedZCDP(0.5)]) == zcdp_advantage(0.5) < zcdp_delta(0.5, 0.0)
    failure = StatedApproximateDP(1e-12, 0.1)  # all is revealed in a tenth of the cases
    for failing in ([StatedZCDP(0.5), failure], [Parallel((Seq((failure, Gaussian(1.0))),))]):
        assert tradeoffs.tradeoff(failing, [0.045]) == pytest.approx(0.9 * 0.66442, abs=1e-5)
        assert tradeoffs.advantage(failing) == pytest.approx(0.1 + 0.9 * zcdp_advantage(0.5), rel=1e-9)


def test_attacks_where_losses_are_too_large_for_the_grid():
    """Then the better of the pure bound and the Gaussian one is left."""
    assert accountants.epsilon([Laplace(700.0)] * 2, DELTA, "pld") == math.inf
    assert tradeoffs.advantage([Laplace(700.0)] * 2) == 1.0
    np.testing.assert_array_equal(tradeoffs.tradeoff([Laplace(700.0)] * 2, [0.0, 0.5]), [1.0, 0.0])
