"""What must hold of every guarantee: conversions never gain privacy, composition has no order, noise never costs."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpviz.privacy import conversions, tradeoffs
from dpviz.privacy.accounting import accountants, closed_forms, per_event
from dpviz.privacy.accounting.currencies import Currency
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import (
    Event,
    ExpMech,
    Gaussian,
    Laplace,
    Parallel,
    Repeat,
    Seq,
    StatedApproximateDP,
    StatedPureDP,
    StatedZCDP,
    Sub,
)
from tests.oracles.composition import optimal_delta

steady = settings(derandomize=True, deadline=None, max_examples=40)
PESSIMISM = 2e-3  # a loss distribution on its grid may overestimate ε by so much, more for few unequal losses
CURRENCIES: tuple[Currency, ...] = ("epsilon", "rho", "mu")

sizes = st.floats(-1.5, 0.3).map(lambda x: 10**x)
deltas = st.floats(-9, -3).map(lambda x: 10**x)
singles = st.builds(lambda kind, size: kind(size), st.sampled_from([Laplace, Gaussian, ExpMech, StatedPureDP]), sizes)
batches = st.builds(lambda m, inner: Sub("wor", m, 100, inner), st.integers(1, 99), singles)
composites = st.builds(lambda kind, *parts: kind(parts), st.sampled_from([Seq, Parallel]), singles, singles)
repeats = st.builds(Repeat, singles, st.integers(1, 4))
bare = st.builds(StatedZCDP, sizes)
lists = st.lists(singles | batches | composites | repeats, min_size=1, max_size=5)


def louder(event: Event, factor: float) -> Event:
    """The same release with its noise divided by the factor."""
    if isinstance(event, Laplace | StatedPureDP):
        return type(event)(event.eps * factor)
    if isinstance(event, Gaussian):
        return Gaussian(event.mu * factor)
    if isinstance(event, ExpMech):
        return ExpMech(event.eta * factor)
    if isinstance(event, StatedZCDP):
        return StatedZCDP(event.rho * factor)
    if isinstance(event, StatedApproximateDP):
        return StatedApproximateDP(event.eps * factor, event.delta)
    if isinstance(event, Seq | Parallel):
        return type(event)(tuple(louder(part, factor) for part in event.events))
    if isinstance(event, Repeat):
        return Repeat(louder(event.event, factor), event.times)
    return Sub(event.kind, event.m, event.n, louder(event.inner, factor))


def never_above(first: float, second: float, slack: float = 1e-9) -> bool:
    return first <= second * (1 + slack) + 1e-12 or first == second


# ---------------------------------------------------------------------------------------------------------- conversions

BUDGETS: dict[str, type[Budget]] = {"epsilon": PureDP, "rho": ZeroConcentratedDP, "mu": GaussianDP}


def bare_budget(currency: str, size: float) -> Budget:
    return BUDGETS[currency](**{currency: size})


def at_least(value: float | None, other: float | None) -> bool:
    """Whether a converted value claims no more privacy than another; None claims nothing."""
    return value is None or (other is not None and other <= value * (1 + 1e-9) + 1e-12)


@steady
@given(currency=st.sampled_from(CURRENCIES), size=sizes, more=st.floats(1.0, 3.0), delta=deltas, wider=st.floats(1, 99))
def test_conversions_are_monotone(currency: str, size: float, more: float, delta: float, wider: float) -> None:
    low, high = (conversions.convert(bare_budget(currency, value), delta) for value in (size, size * more))
    other_delta = conversions.convert(bare_budget(currency, size), delta * wider)
    for key, value in high.items():
        assert at_least(value, low[key])
    assert at_least(low["epsilon_at_delta"], other_delta["epsilon_at_delta"])


@steady
@given(currency=st.sampled_from(CURRENCIES), size=sizes, delta=deltas)
def test_ways_through_another_currency_never_gain_privacy(currency: str, size: float, delta: float) -> None:
    """a → b → c claims no more than a → c; with c = a, coming home claims no more than one left with."""
    direct = conversions.convert(bare_budget(currency, size), delta)
    for between in CURRENCIES:
        value = direct[between]
        if value is not None:
            detour = conversions.convert(bare_budget(between, value), delta)
            for key in direct:
                assert at_least(detour[key], direct[key]), (currency, between, key)
    at_delta = direct["epsilon_at_delta"]
    assert at_delta is not None
    if at_delta >= 0.01:
        approximate = conversions.convert(ApproximateDP(epsilon=at_delta, delta=delta), delta)
        assert approximate["rho"] is approximate["mu"] is approximate["epsilon"] is None  # there is no way back
        assert approximate["epsilon_at_delta"] == pytest.approx(at_delta, rel=1e-12)


@steady
@given(size=sizes, delta=deltas)
def test_ways_there_and_back_are_lossless_where_they_exist(size: float, delta: float) -> None:
    """Knowing that noise is Gaussian, or that only ρ is known, a point of its curve gives the number back."""
    epsilon = closed_forms.gdp_epsilon(size, delta)
    if epsilon > 1e-6:
        assert closed_forms.gdp_mu(epsilon, delta) == pytest.approx(size, rel=1e-7)
    epsilon = closed_forms.zcdp_epsilon(size, delta)
    if epsilon > 1e-6:
        assert closed_forms.zcdp_rho(epsilon, delta) == pytest.approx(size, rel=1e-7)
    epsilon = closed_forms.pure_epsilon(size, delta)
    if epsilon > 1e-6:
        assert float(closed_forms.pure_delta(size, epsilon)) == pytest.approx(delta, rel=1e-6)
    steps = 50
    epsilon = closed_forms.optimal_epsilon(size, steps, delta)
    assert optimal_delta(size, steps, epsilon) == pytest.approx(delta, rel=1e-6)


@steady
@given(event=singles | bare, delta=deltas)
def test_costs_of_an_event_convert_to_no_less_than_its_own(event: Event, delta: float) -> None:
    """ρ, μ and ε of an event are bounds: what follows from the number is never below what its profile says."""
    rho, mu, pure = per_event.rho(event), per_event.mu(event), per_event.pure(event)
    readings_at_delta = [closed_forms.zcdp_epsilon(rho, delta)]
    readings_at_delta += [closed_forms.gdp_epsilon(mu, delta)] if mu < math.inf else []
    readings_at_delta += [closed_forms.pure_epsilon(pure, delta)] if pure < math.inf else []
    if not isinstance(event, StatedZCDP):
        for epsilon in readings_at_delta:
            assert float(per_event.profile(event)(epsilon)) <= delta * (1 + 1e-6) + 1e-15
    orders = np.array([1.01, 1.5, 4.0, 60.0])
    assert (per_event.rdp(event, orders) <= orders * rho * (1 + 2e-6)).all()
    assert (per_event.rdp(event, orders) <= pure * (1 + 1e-9)).all()
    assert rho <= mu**2 / 2 * (1 + 1e-9)


# ---------------------------------------------------------------------------------------------------------- composition


@steady
@given(events=lists, order=st.randoms(use_true_random=False), delta=deltas)
def test_composition_does_not_depend_on_the_order(events: Sequence[Event], order, delta: float) -> None:
    shuffled = list(events)
    order.shuffle(shuffled)
    for currency in CURRENCIES:
        assert accountants.total(events, currency) == pytest.approx(accountants.total(shuffled, currency), rel=1e-12)
    for method in accountants.METHODS:
        first, second = (accountants.epsilon(some, delta, method) for some in (events, shuffled))
        assert first == pytest.approx(second, rel=1e-6, abs=1e-9)


@steady
@given(events=lists, delta=deltas)
def test_a_further_release_never_makes_the_others_cheaper(events: Sequence[Event], delta: float) -> None:
    for method in accountants.METHODS:
        some, all_ = (accountants.epsilon(part, delta, method) for part in (events[:-1], events))
        assert never_above(some, all_, 0.01)
    for currency in CURRENCIES:
        assert accountants.total(events[:-1], currency) <= accountants.total(events, currency)
    assert accountants.tightest(events, delta).epsilon <= accountants.total(events, "epsilon")


@steady
@given(event=singles, times=st.integers(1, 60), delta=deltas)
def test_repeats_cost_what_a_list_costs(event: Event, times: int, delta: float) -> None:
    for method in accountants.METHODS:
        once = accountants.epsilon([Repeat(event, times)], delta, method)
        assert once == pytest.approx(accountants.epsilon([event] * times, delta, method), rel=1e-6)
    if isinstance(event, StatedPureDP):
        best = closed_forms.optimal_epsilon(event.eps, times, delta)
        found = accountants.tightest([event] * times, delta).epsilon
        assert (
            best * (1 - 1e-6) <= found <= best * (1 + PESSIMISM) + 1e-9
        )  # every accountant is valid, and one is exact


# ---------------------------------------------------------------------------------------------------------------- noise


@steady
@given(events=lists, factor=st.floats(1.0, 5.0), delta=deltas)
def test_more_noise_never_costs_more(events: Sequence[Event], factor: float, delta: float) -> None:
    noisier, less = events, [louder(event, factor) for event in events]
    for currency in CURRENCIES:
        assert never_above(accountants.total(noisier, currency), accountants.total(less, currency))
    for method in accountants.METHODS:
        slack = 0.02 if method == "pld" else 1e-6  # few unequal losses do not all fit the grid
        assert never_above(accountants.epsilon(noisier, delta, method), accountants.epsilon(less, delta, method), slack)


@steady
@given(event=singles | bare, factor=st.floats(1.0, 5.0))
def test_more_noise_never_helps_an_attacker(event: Event, factor: float) -> None:
    alpha = np.array([1e-4, 0.01, 0.1, 0.5, 0.9])
    less = louder(event, factor)
    assert (tradeoffs.tradeoff([event], alpha) >= tradeoffs.tradeoff([less], alpha) - 1e-9).all()
    assert never_above(tradeoffs.advantage([event]), tradeoffs.advantage([less]))
    orders = closed_forms.ORDERS[::40]
    assert (per_event.rdp(event, orders) <= per_event.rdp(less, orders) * (1 + 2e-3) + 1e-12).all()
    if not isinstance(event, StatedZCDP):
        epsilon = np.linspace(-3, 3, 25)
        assert (per_event.profile(event)(epsilon) <= per_event.profile(less)(epsilon) + 1e-12).all()


# --------------------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize("size", [0.05, 1.0, 4.0])
def test_small_delta_leaves_pure_epsilon_or_nothing(size: float) -> None:
    for delta in (1e-30, 1e-100, 1e-300):
        assert closed_forms.pure_epsilon(size, delta) == pytest.approx(size, rel=1e-12)
        assert closed_forms.optimal_epsilon(size, 7, delta) == pytest.approx(7 * size, rel=1e-9)
        for event in (Laplace(size), ExpMech(size), StatedPureDP(size), Sub("wor", 1, 9, Laplace(size))):
            tightest = accountants.tightest([event], delta).epsilon
            assert 0.98 * per_event.pure(event) <= tightest <= per_event.pure(event)
    grows = [accountants.tightest([Gaussian(size)], 10.0**-power).epsilon for power in (10, 50, 100, 200, 300)]
    assert (np.diff(grows) > size).all()  # without end
    grows = [closed_forms.zcdp_epsilon(size, 10.0**-power) for power in (10, 50, 100, 200, 300)]
    assert (np.diff(grows) > size).all()


@pytest.mark.parametrize(
    "event", [Laplace(1.0), Gaussian(1.0), ExpMech(2.0), StatedPureDP(0.5), StatedZCDP(0.2)], ids=str
)
def test_large_delta_leaves_nothing_to_pay(event: Event) -> None:
    assert accountants.tightest([event], 1 - 1e-9).epsilon == 0.0
    if not isinstance(event, StatedZCDP):  # from the advantage on, δ alone covers all
        enough = float(per_event.profile(event)(0.0))
        assert accountants.tightest([event], enough * (1 + 1e-9)).epsilon == pytest.approx(0.0, abs=1e-8)
        assert accountants.tightest([event], enough * 0.9).epsilon > 0
    assert closed_forms.optimal_epsilon(1.0, 3, 0.95) == closed_forms.optimal_epsilon(0.5, 10, 1 - 1e-9) == 0.0


@pytest.mark.parametrize("kind", [Laplace, Gaussian, ExpMech, StatedPureDP, StatedZCDP], ids=lambda kind: kind.__name__)
def test_noise_without_end_costs_nothing_and_none_costs_all(kind: type[Event]) -> None:
    costly, cheap = kind(1e4), kind(1e-9)  # type: ignore[call-arg]
    assert accountants.tightest([cheap], 1e-6).epsilon <= 1e-3
    assert accountants.tightest([cheap] * 3, 1e-6).epsilon <= 1e-3
    assert 1e3 <= accountants.tightest([costly], 1e-6).epsilon < math.inf
    assert tradeoffs.advantage([cheap]) <= 1e-4 and tradeoffs.advantage([costly]) >= 1 - 1e-9
    nothing = kind(math.inf)  # type: ignore[call-arg]
    assert accountants.tightest([nothing], 1e-6).epsilon == math.inf
