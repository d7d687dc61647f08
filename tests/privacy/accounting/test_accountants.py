"""Accounting against reference values, exact formulas, an independent library, and its own monotonicity."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import fftconvolve
from scipy.special import ndtr

from dpviz.privacy import tradeoffs
from dpviz.privacy.accounting import accountants, closed_forms, per_event, pld
from dpviz.privacy.events import Event, Gaussian, Laplace, Parallel, Repeat, Seq, StatedPureDP, Sub, inner_events
from tests.strategies import events_of_all_kinds, gaussians, laplaces, steady

DELTA = 1e-6
PESSIMISM = 2e-3  # a loss distribution on its grid may overestimate ε by so much
ALPHA = np.array([0.0, 1e-6, 0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 1.0])


MIXED: tuple[Event, ...] = (
    *[Gaussian(0.3)] * 10,
    *[Laplace(0.2)] * 20,
    Seq((Laplace(0.1), Gaussian(0.2))),
    *[Sub("wor", 10, 100, Gaussian(0.5))] * 30,
)


# ----------------------------------------------------------------------------------------------------- what was spent


def test_spent_adds_up():
    events = [Laplace(0.5), Laplace(0.5), Laplace(1.0), Sub("wor", 1, 10, Laplace(1.0))]
    amplified = math.log1p(math.expm1(1.0) / 10)
    np.testing.assert_allclose(accountants.spent(events, "epsilon"), [0, 0.5, 1.0, 2.0, 2.0 + amplified], rtol=1e-14)
    rho = [per_event.rho(event) for event in events]
    np.testing.assert_allclose(accountants.spent(events, "rho"), [0, *np.cumsum(rho)], rtol=1e-14)
    mu = [per_event.mu(event) for event in events]
    np.testing.assert_allclose(accountants.spent(events, "mu") ** 2, [0, *np.cumsum(np.square(mu))], rtol=1e-14)


def test_spent_where_the_currency_does_not_exist():
    events = [Laplace(0.5), Gaussian(1.0), Laplace(0.5)]
    assert accountants.spent(events, "epsilon").tolist() == [0, 0.5, math.inf, math.inf]
    assert math.isfinite(accountants.total(events, "rho")) and math.isfinite(accountants.total(events, "mu"))
    on_batch = [Sub("wor", 1, 10, Gaussian(1.0))]
    assert {accountants.total(on_batch, currency) for currency in ("epsilon", "rho", "mu")} == {math.inf}
    assert accountants.total([], "mu") == accountants.total([], "epsilon") == 0.0


def excess(event: Event, epsilons: np.ndarray) -> float:
    """The most that E[(1 - e^(ε_t - L_t))₊] can be, L_t the loss of the first t of T equal releases, for whoever sees
    them and stops when he likes; epsilons : (T+1,) ε_t. By dynamic programming, losses rounded down: not above it."""
    size = per_event.pure(event)
    cell = (size if size < math.inf else per_event.mu(event)) / 40
    reach = size if size < math.inf else per_event.mu(event) * (9 + per_event.mu(event) / 2)
    width = math.ceil(reach / cell) + 1
    edges = cell * np.arange(-width, width + 2) - 1e-12
    if isinstance(event, Laplace):
        below = np.where(edges < -size, 0.0, np.where(edges < size, np.exp(np.minimum(edges - size, 0) / 2) / 2, 1.0))
    else:
        below = ndtr(edges / per_event.mu(event) - per_event.mu(event) / 2)
    step = np.diff(below)[::-1]
    losses = np.arange(-round(20 / cell), round((epsilons.max() + 40) / cell) + 1) * cell
    best = np.zeros(len(losses))
    for t in range(len(epsilons) - 1, -1, -1):
        best = np.maximum(best, -np.expm1(np.minimum(epsilons[t] - losses, 0.0)))
        if t:
            best = fftconvolve(np.concatenate([np.zeros(width), best, np.full(width, best[-1])]), step, "valid")
    return float(best[np.argmin(np.abs(losses))])


@pytest.mark.parametrize("event", [Laplace(0.5), Gaussian(0.3)], ids=str)
def test_who_stops_for_what_was_released_gains_no_more_than_delta(event: Event) -> None:
    """Theory, section 8. The readings of fixed plans are exceeded at the step of such a stop, that of μ too."""
    plan = (event,) * 60
    told = [accountants.when_stopped(plan[:t], plan, DELTA).epsilon for t in range(61)]
    assert excess(event, np.array(told)) <= DELTA
    fixed = [accountants.tightest(plan[:t], DELTA).epsilon for t in range(61)]
    assert excess(event, np.array(fixed)) > 5 * DELTA
    if isinstance(event, Gaussian):
        mu = accountants.epsilon_curve(plan, DELTA, "gdp", tuple(range(61)))
        rho = accountants.epsilon_curve(plan, DELTA, "zcdp", tuple(range(61)))
        assert excess(event, mu) > 5 * DELTA and excess(event, rho) > 2 * DELTA


def test_gaussian_schedule_costs_exactly_its_mu():
    """Noise σ_t on a query of sensitivity Δ costs μ² = Σ Δ²/σ_t² = 2ρ, whatever the schedule."""
    sigma = np.geomspace(0.5, 40, 50)
    events = [Gaussian(0.3 / s) for s in sigma.tolist()]
    assert accountants.total(events, "mu") ** 2 == pytest.approx(float((0.09 / sigma**2).sum()), rel=1e-12)
    assert accountants.total(events, "rho") == pytest.approx(float((0.045 / sigma**2).sum()), rel=1e-12)
    exact = closed_forms.gdp_epsilon(accountants.total(events, "mu"), DELTA)
    reading = accountants.tightest(events, DELTA)
    assert (reading.epsilon, reading.method) == (exact, "gdp")
    assert 1 <= reading.by_method["pld"] / exact <= 1 + PESSIMISM


# ------------------------------------------------------------------------------------------------------- ε at a given δ


@pytest.mark.parametrize(
    ("epsilon", "steps", "at_1e5", "at_1e6"),
    [(1.0, 100, 0.3367, 0.3913), (1.0, 1000, 0.0969, 0.1158), (2.0, 100, 0.7146, 0.8194), (4.0, 100, 1.5226, 1.7237)],
)
def test_what_a_nominal_pure_budget_really_costs(epsilon, steps, at_1e5, at_1e6):
    events = (Laplace(epsilon / steps),) * steps
    for delta, expected in ((1e-5, at_1e5), (1e-6, at_1e6)):
        reading = accountants.tightest(events, delta)
        assert reading.method == "pld"
        assert -5e-4 <= reading.epsilon / expected - 1 <= PESSIMISM  # the table has four decimals


def test_what_an_optimised_schedule_really_costs():
    """136 steps of the accelerated method, κ = 255, whose shares grow by (1 - κ^-1/2)^(-1/3) a step. The reference
    values have nearly equal shares rounded up by up to 2 %; so have ours, which costs 1 %."""
    log_shares = -np.arange(136) / 3 * math.log1p(-(255.0**-0.5))
    shares = np.exp(log_shares - log_shares.max())
    events = tuple(Laplace(value) for value in (shares / shares.sum()).tolist())
    assert len(set(events)) > accountants.MAX_EXACT
    for delta, reference in ((1e-5, 0.3670), (1e-6, 0.4235)):
        exact = pld.epsilon_at([(event, 1) for event in events], delta)
        assert 0.99 * reference <= exact <= 1.001 * reference
        assert exact <= accountants.epsilon(events, delta, "pld") <= 1.012 * exact


def _accountant(kind, events: tuple[Event, ...], **options):
    """The independent library's. It wants Python floats: an int or float32 makes it count an event once only."""
    accountant = kind(neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE, **options)
    for event in events:
        laplace = isinstance(event, Laplace)
        one = dp_event.LaplaceDpEvent(1 / event.eps) if laplace else dp_event.GaussianDpEvent(1 / event.mu)
        accountant.compose(one)
    return accountant


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "events",
    [
        (Laplace(0.1),) * 60,
        (Gaussian(0.2),) * 30,
        (Laplace(1.0), Laplace(0.3), Laplace(0.7)),
        (*[Laplace(0.2)] * 20, *[Gaussian(0.3)] * 10, Laplace(0.8)),
    ],
    ids=["Laplace", "Gaussian", "few", "mixed"],
)
def test_agrees_with_an_independent_library(events):
    theirs = _accountant(PLDAccountant, events, value_discretization_interval=1e-3)
    assert -1e-4 <= accountants.epsilon(events, DELTA, "pld") / theirs.get_epsilon(DELTA) - 1 <= PESSIMISM
    assert -1e-4 <= tradeoffs.advantage(events) / theirs.get_delta(0.0) - 1 <= PESSIMISM
    theirs = _accountant(RdpAccountant, events, orders=closed_forms.ORDERS).get_epsilon(DELTA)
    assert -1e-4 <= accountants.epsilon(events, DELTA, "rdp") / theirs - 1 <= 1e-9  # our best order is refined


def test_rdp_of_a_gaussian_is_its_zcdp_bound():
    """Same formula, best order: so the search over orders finds it. TV13."""
    assert accountants.epsilon([Gaussian(1.0)], DELTA, "rdp") == pytest.approx(5.22153444453, rel=1e-9)
    assert accountants.epsilon([Gaussian(0.1)] * 100, DELTA, "zcdp") == pytest.approx(5.22153444453, rel=1e-9)


@pytest.mark.slow
@steady
@given(events=events_of_all_kinds, delta=st.floats(-9, -3).map(lambda x: 10**x))
def test_the_tightest_method_wins_and_all_are_consistent(events, delta):
    reading = accountants.tightest(events, delta)
    assert reading.epsilon == min(reading.by_method.values()) == reading.by_method[reading.method]
    assert reading.epsilon <= accountants.total(events, "epsilon")
    # Few losses of different sizes do not all fit the grid. Blocks and mixtures on a batch have no loss of their own,
    # and the worst selection differs from order to order.
    simple = {Laplace, Gaussian, StatedPureDP, Sub, Seq, Repeat} >= {type(event) for event in events}
    if simple and {Laplace, Gaussian, StatedPureDP} >= {type(part) for event in events for part in inner_events(event)}:
        mixed = any(isinstance(event, Sub) and isinstance(event.inner, (Seq, Repeat, Parallel)) for event in events)
        assert mixed or reading.by_method["pld"] <= reading.by_method.get("rdp", math.inf) * 1.01 + 1e-9
    assert reading.by_method.get("rdp", math.inf) <= reading.by_method.get("zcdp", math.inf) * (1 + 1e-7)


@pytest.mark.slow
@steady
@given(events=events_of_all_kinds, more=st.floats(1.05, 4))
def test_more_noise_and_larger_delta_never_cost_more(events, more):
    def quieter(event: Event) -> Event:
        """Less noise in every release."""
        if isinstance(event, Seq | Parallel):
            return type(event)(tuple(quieter(part) for part in event.events))
        if isinstance(event, Repeat):
            return Repeat(quieter(event.event), event.times)
        if isinstance(event, Sub):
            return Sub(event.kind, event.m, event.n, quieter(event.inner))
        return type(event)(more * getattr(event, event.__match_args__[0]))  # type: ignore[call-arg]

    louder = tuple(quieter(event) for event in events)
    slack = 1 + PESSIMISM
    for method in accountants.METHODS:
        value = accountants.epsilon(events, DELTA, method)
        assert value <= accountants.epsilon(louder, DELTA, method) * slack + 1e-9
        assert value >= accountants.epsilon(events, DELTA * more, method) / slack
        assert value <= accountants.epsilon([*events, Laplace(0.1)], DELTA, method) * slack + 1e-9
    for currency in ("epsilon", "rho", "mu"):
        assert accountants.total(events, currency) <= accountants.total(louder, currency)
    assert tradeoffs.advantage(events) <= tradeoffs.advantage(louder) * slack + 1e-9
    assert (tradeoffs.tradeoff(events, ALPHA) >= tradeoffs.tradeoff(louder, ALPHA) - 1e-4).all()


@steady
@given(inner=laplaces | gaussians, m=st.integers(1, 900), n=st.integers(1000, 2000))
def test_larger_batches_cost_more_and_more_rows_less(inner, m, n):
    def cost(m: int, n: int, method: accountants.Method) -> float:
        return accountants.epsilon((Sub("wor", m, n, inner),) * 40, DELTA, method)

    for method in ("pld", "rdp", "basic"):
        assert cost(m, n, method) <= cost(m + 50, n, method) * (1 + PESSIMISM) + 1e-9
        assert cost(m, n + 100, method) <= cost(m, n, method) * (1 + PESSIMISM) + 1e-9


@pytest.mark.parametrize("inner", [Laplace(0.2), Gaussian(0.2)], ids=str)
def test_a_batch_of_almost_everything_is_everything(inner):
    whole = accountants.epsilon((inner,) * 50, DELTA, "pld")
    assert accountants.epsilon((Sub("wor", 10**8 - 1, 10**8, inner),) * 50, DELTA, "pld") == pytest.approx(
        whole, rel=1e-3
    )


@pytest.mark.parametrize("method", accountants.METHODS)
@pytest.mark.parametrize(
    "events",
    [MIXED, (Laplace(0.02),) * 200, tuple(Laplace(v) for v in np.geomspace(1e-3, 1e-2, 200).tolist())],
    ids=["mixed", "uniform", "distinct"],
)
def test_curves_are_the_costs_of_their_prefixes(method, events):
    checkpoints = (0, 1, 2, 5, len(events) // 2, len(events))
    curve = accountants.epsilon_curve(events, DELTA, method, checkpoints)
    assert curve[0] == 0.0 and (np.diff(curve[np.isfinite(curve)]) >= 0).all() and not curve.flags.writeable
    rounded = 0.02 if len(set(events)) > accountants.MAX_EXACT else 0.0  # a prefix has few enough to be exact
    for at, value in zip(checkpoints[1:], curve[1:], strict=True):
        exact = accountants.epsilon(events[:at], DELTA, method)
        assert value == exact == math.inf or -PESSIMISM <= value / exact - 1 <= PESSIMISM + rounded
    assert curve[-1] == pytest.approx(accountants.epsilon(events, DELTA, method), rel=1e-9)


def test_releases_that_the_run_depends_on_are_added_in_pure_epsilon():
    """Their outcome chose the parameters of the run, so no loss distribution of both together may be quoted."""
    events, before = (Laplace(0.02),) * 200, (Laplace(0.3), Laplace(0.1))
    alone, both = accountants.tightest(events, DELTA), accountants.tightest(events, DELTA, before)
    assert both.method == alone.method and both.epsilon == pytest.approx(0.4 + alone.epsilon, rel=1e-12)
    assert both.epsilon > accountants.tightest(before + events, DELTA).epsilon
    assert accountants.tightest(events, DELTA, (Gaussian(0.1),)).epsilon == math.inf


def test_seq_costs_what_its_parts_cost():
    together, apart = [Seq((Laplace(0.3), Gaussian(0.5)))] * 5, [Laplace(0.3), Gaussian(0.5)] * 5
    for method in accountants.METHODS:
        assert accountants.epsilon(together, DELTA, method) == pytest.approx(
            accountants.epsilon(apart, DELTA, method), rel=1e-9
        )
    np.testing.assert_allclose(tradeoffs.tradeoff(together, ALPHA), tradeoffs.tradeoff(apart, ALPHA), atol=1e-9)


def test_a_mixed_batch_has_a_valid_cost():
    """No closed profile is known for it, so it is booked as a Gaussian batch of the same μ, never as less."""
    mixed = [Sub("wor", 10, 100, Seq((Laplace(0.5), Gaussian(0.5))))] * 20
    bound = accountants.tightest(mixed, DELTA)
    alone = accountants.epsilon([Sub("wor", 10, 100, Gaussian(0.5))] * 20, DELTA, "pld")
    assert alone < bound.epsilon < math.inf


@pytest.mark.parametrize("number", [np.float32, np.float64, int])
def test_kinds_of_numbers_make_no_difference(number):
    events, floats = [Gaussian(number(1))] * 4 + [Laplace(number(2))], [Gaussian(1.0)] * 4 + [Laplace(2.0)]
    for method in accountants.METHODS:
        assert accountants.epsilon(events, DELTA, method) == accountants.epsilon(floats, DELTA, method)


@pytest.mark.slow
def test_many_tiny_huge_and_distinct_events():
    assert 0 <= accountants.tightest([Laplace(1e-60)] * 10, DELTA).epsilon <= 1e-58
    assert accountants.tightest([Laplace(700.0)] * 3, DELTA).epsilon <= 2100.0
    assert accountants.tightest([Gaussian(1e4)] * 3, DELTA).epsilon == pytest.approx(1.5e8, rel=0.01)
    many = (Laplace(1e-3),) * 10_000
    exact_enough = closed_forms.gdp_epsilon(math.sqrt(10_000) * 1e-3, DELTA)  # 10 000 small losses are normal
    assert accountants.tightest(many, DELTA).epsilon == pytest.approx(exact_enough, rel=0.01)
    distinct = tuple(Laplace(v) for v in np.geomspace(1e-9, 1e-2, 10_000).tolist())
    reading = accountants.tightest(distinct, DELTA)
    assert reading.epsilon <= reading.by_method["rdp"] < reading.by_method["basic"]


@pytest.mark.parametrize(
    "events",
    [
        [Laplace(math.inf)],
        [Gaussian(math.inf)] * 3,
        [Sub("wor", 1, 10, Laplace(math.inf))] * 30,
        [Laplace(1.0), Gaussian(math.inf)],
        [Seq((Gaussian(1.0), Laplace(math.inf)))],
    ],
    ids=str,
)
def test_no_noise_costs_infinity(events):
    reading = accountants.tightest(events, DELTA)
    assert reading.epsilon == math.inf and not reading.by_method
    for method in accountants.METHODS:
        assert accountants.epsilon(events, DELTA, method) == math.inf
    assert (tradeoffs.tradeoff(events, ALPHA) == 0).all() and tradeoffs.advantage(events) == 1.0


def test_nothing_released_costs_nothing():
    assert accountants.epsilon([], DELTA, "pld") == tradeoffs.advantage([]) == 0.0
    assert accountants.tightest([], DELTA).epsilon == 0.0
    np.testing.assert_allclose(tradeoffs.tradeoff([], ALPHA), 1 - ALPHA)
