"""Rényi divergences of Gaussian noise on batches: against integrals, sums, a library and real data sets."""

import itertools
import math

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from scipy.special import gammaln, logsumexp

from dpviz.errors import UserError
from dpviz.privacy import calibration
from dpviz.privacy.accounting import accountants, per_event, subsampled_rdp
from dpviz.privacy.budgets import ApproximateDP, GaussianDP, RenyiDP, ZeroConcentratedDP
from dpviz.privacy.events import Gaussian, Laplace, Seq, Sub

KINDS = ("wor", "poisson")


def ours(kind: str, q: float, mu: float, *orders: float) -> np.ndarray:
    return subsampled_rdp.gaussian(kind, q, mu, orders)  # type: ignore[arg-type]


def by_sum(q: float, mu: float, order: int) -> float:
    """Whole orders, Poisson: Σ C(α, k) q^k (1-q)^(α-k) e^((k²-k)μ²/2) (Mironov, Talwar, Zhang 2019, section 3.3)."""
    k = np.arange(order + 1)
    ways = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    terms = ways + k * math.log(q) + (order - k) * math.log1p(-q) + (k**2 - k) * mu**2 / 2
    return float(logsumexp(terms)) / (order - 1)


@pytest.mark.parametrize(("q", "mu"), list(itertools.product((0.003, 0.1, 0.7), (0.3, 1.0, 3.0))))
def test_whole_orders_of_poisson_batches_are_the_binomial_sum(q: float, mu: float) -> None:
    orders = (2, 3, 5, 17, 64)
    exact = np.array([by_sum(q, mu, order) for order in orders])
    # The sum itself loses digits where it is near 1.
    assert (ours("poisson", q, mu, *orders) >= exact * (1 - 1e-13) - 1e-15).all()
    assert ours("poisson", q, mu, *orders) == pytest.approx(exact, rel=1e-10, abs=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "q", "mu", "order"),
    [
        ("poisson", 0.01, 0.5, 1.05),
        ("poisson", 0.3, 1.5, 4.7),
        ("poisson", 1e-6, 1e-3, 1.5),
        ("wor", 0.01, 0.5, 1.05),
        ("wor", 0.3, 1.5, 4.7),
        ("wor", 1e-6, 1e-3, 1.5),
    ],
)
def test_any_order_is_the_integral_to_twelve_digits_and_never_less(
    kind: str, q: float, mu: float, order: float
) -> None:
    with mpmath.workdps(40):
        b, m, a = mpmath.mpf(q), mpmath.mpf(mu), mpmath.mpf(order)

        def integrand(z: mpmath.mpf) -> mpmath.mpf:
            r = 1 + b * mpmath.expm1(m * z - m**2 / 2)
            rest = r**a - 1 - a * (r - 1) if kind == "poisson" else r**a + r ** (1 - a) - 1 - r
            return mpmath.npdf(z) * rest

        low = m / 2 if kind == "wor" else mpmath.mpf(-13)
        points = mpmath.linspace(low, a * m + 13, 17)
        exact = mpmath.log1p(mpmath.quad(integrand, points, maxdegree=5)) / (a - 1)
        excess = float(mpmath.mpf(float(ours(kind, q, mu, order)[0])) / exact - 1)
    assert 0 <= excess < 4e-12


@pytest.mark.parametrize("kind", KINDS)
def test_against_an_independent_library(kind: str) -> None:
    """Equal for Poisson batches; below Wang, Balle and Kasiviswanathan's bound for those without replacement, most of
    all where sampling helps. Whole orders only: the library's series for others stops too early. Its events under
    replace-one count a change of one standard deviation, as ours do."""
    orders, n = [2, 3, 4, 8, 16, 32, 64], 10_000
    ratios = []
    for q, mu in itertools.product((0.001, 0.01, 0.1, 0.4), (0.2, 0.5, 1.0, 2.0)):
        if kind == "poisson":
            theirs = RdpAccountant(orders, dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
            theirs.compose(dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(1 / mu)))
        else:
            theirs = RdpAccountant(orders, dp_accounting.NeighboringRelation.REPLACE_ONE)
            single = dp_accounting.GaussianDpEvent(1 / mu)
            theirs.compose(dp_accounting.SampledWithoutReplacementDpEvent(n, round(q * n), single))
        ratios.append(ours(kind, q, mu, *orders) / theirs._rdp)
    found = np.array(ratios)
    if kind == "poisson":
        assert np.abs(found - 1).max() < 1e-9
    else:
        assert found.max() < 1 + 1e-9 and found.min() < 0.3 and np.median(found) < 0.7


@pytest.mark.slow
def test_no_pair_of_data_sets_on_batches_without_replacement_has_more() -> None:
    """n = 5, m = 2, the sum of a batch with noise: mixtures over all ten batches, rows at the ends of [-½, ½]."""
    n, m, z = 5, 2, np.linspace(-25, 25, 40_001)
    batches = list(itertools.combinations(range(n), m))
    for mu, order in itertools.product((0.5, 1.5, 3.0), (1.1, 2.0, 7.5)):
        bound = float(ours("wor", m / n, mu, order)[0])
        worst = 0.0
        for others in itertools.product((-0.5, 0.5), repeat=n - 1):
            densities = []
            for first in (-0.5, 0.5):
                rows = mu * np.array([first, *others])
                centres = [rows[list(batch)].sum() for batch in batches]
                densities.append(
                    np.mean([np.exp(-((z - c) ** 2) / 2) for c in centres], axis=0) / math.sqrt(2 * math.pi)
                )
            for p, q in (densities, densities[::-1]):
                moment = np.exp(order * np.log(p) + (1 - order) * np.log(q)).sum() * (z[1] - z[0])
                worst = max(worst, math.log(moment) / (order - 1))
        assert worst <= bound * (1 + 1e-9)
        assert worst > 0.5 * bound  # and it is no idle bound


@pytest.mark.parametrize("kind", KINDS)
def test_limits_and_monotony(kind: str) -> None:
    orders = np.array([1.01, 1.5, 2.0, 8.0, 100.0, 1e3, 1e4, 1e6])
    for mu in (1e-60, 1e-3, 0.3, 3.0, 30.0):
        whole = orders * mu**2 / 2
        previous = np.zeros(len(orders))
        for q in (1e-7, 1e-3, 0.1, 0.9, 1 - 1e-9):
            found = ours(kind, q, mu, *orders)
            assert np.isfinite(found).all() and (found <= whole).all()
            assert (found >= previous * (1 - 1e-9)).all() and (np.diff(found) >= -1e-9 * found[1:]).all()
            previous = found
        assert previous == pytest.approx(whole, rel=1e-6) or mu < 1e-3  # of nearly all rows
    assert (ours(kind, 0.1, math.inf, 2.0, 3.0) == math.inf).all()


def test_very_small_deltas_have_an_epsilon_and_a_plan() -> None:
    """The privacy loss distribution ends near δ = 1e-11."""
    for kind in KINDS:
        events = (Sub(kind, 100, 10_000, Gaussian(1.0)),) * 1000  # type: ignore[arg-type]
        reading = accountants.tightest(events, 1e-20)
        assert reading.method == "rdp" and set(reading.by_method) == {"rdp"}
        budget = ApproximateDP(epsilon=1.0, delta=1e-10)
        plan = calibration.calibrated_events("gaussian", budget, np.ones(20_000), 100, 10_000, sampling=kind)  # type: ignore[arg-type]
        assert 1 - 1e-3 <= accountants.tightest(plan, 1e-10).epsilon <= 1
    # dpviz/privacy/THEORY.md, section 9, item 3; the loss distribution proves less: TV55, TV56.
    for q, mu, steps, expected in ((0.01, 1.0, 1000, 2.798), (0.1, 0.5, 100, 3.122)):
        events = (Sub("wor", round(q * 1000), 1000, Gaussian(mu)),) * steps  # type: ignore[assignment]
        assert accountants.epsilon(events, 1e-6, "rdp") == pytest.approx(expected, abs=1e-3)


def test_a_batch_of_several_releases_costs_what_their_sum_costs() -> None:
    orders = np.array([1.5, 2.0, 20.0])
    for kind in KINDS:
        single = per_event.rdp(Sub(kind, 1, 10, Gaussian(0.5)), orders)  # type: ignore[arg-type]
        double = per_event.rdp(Sub(kind, 1, 10, Seq((Gaussian(0.3), Gaussian(0.4)))), orders)  # type: ignore[arg-type]
        assert double == pytest.approx(single, rel=1e-12)
        mixed = per_event.rdp(Sub(kind, 1, 10, Seq((Gaussian(0.3), Laplace(0.2)))), orders)  # type: ignore[arg-type]
        assert (mixed > per_event.rdp(Sub(kind, 1, 10, Gaussian(0.3)), orders)).all() and np.isfinite(mixed).all()  # type: ignore[arg-type]


@pytest.mark.parametrize("sampling", KINDS)
@pytest.mark.parametrize("budget", [ZeroConcentratedDP(rho=0.1), GaussianDP(mu=0.5)], ids=["rho", "mu"])
def test_rho_and_mu_are_refused_for_batches_with_the_reason(budget: object, sampling: str) -> None:
    with pytest.raises(UserError, match="Rényi divergence of one order") as refused:
        calibration.calibrated_events("gaussian", budget, np.ones(10), 10, 100, sampling=sampling)  # type: ignore[arg-type]
    assert "as if all rows were used" in str(refused.value)


@pytest.mark.parametrize("sampling", KINDS)
def test_a_renyi_budget_is_calibrated_to_different_steps(sampling: str) -> None:
    budget, weights = RenyiDP(epsilon=0.7, order=12.0), np.geomspace(1.0, 9.0, 30)
    events = calibration.calibrated_events("gaussian", budget, weights, 50, 1000, sampling=sampling)  # type: ignore[arg-type]
    assert len(set(events)) == 30
    total = sum(float(per_event.rdp(event, np.array([12.0]))[0]) for event in events)
    assert 0.7 * (1 - 1e-5) <= total <= 0.7 * (1 + 1e-12)
