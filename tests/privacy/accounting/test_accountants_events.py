"""Accounting of selections, black boxes, repetitions and Poisson batches, by every method."""

import math

import numpy as np
import pytest

from dpviz.errors import UserError
from dpviz.privacy.accounting import accountants, closed_forms, per_event
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
    inner_events,
)

DELTA = 1e-6
PESSIMISM = 2e-3  # a loss distribution on its grid may overestimate ε by so much


@pytest.mark.parametrize(
    ("eta", "count", "expected"), [(0.1, 100, 2.40020068035), (0.5, 10, 3.63234464161)], ids=["TV59", "TV60"]
)
def test_selections_are_cheapest_by_their_exact_divergences(eta, count, expected):
    reading = accountants.tightest([ExpMech(eta)] * count, DELTA)
    assert reading.method == "rdp" and reading.epsilon == pytest.approx(expected, rel=1e-5)
    assert reading.by_method["pld"] > 1.04 * expected  # its pair is an envelope, not one that an attacker meets


def test_the_mixed_example():
    events = [*[Gaussian(0.3)] * 10, *[Laplace(0.2)] * 20, *[ExpMech(0.1)] * 50, StatedPureDP(0.5)]
    reading = accountants.tightest(events, DELTA)
    assert reading.by_method["zcdp"] == pytest.approx(7.8093, abs=5e-5)
    assert reading.by_method["rdp"] == pytest.approx(7.4543, rel=5e-5)
    assert reading.method == "pld" and -1e-4 <= reading.epsilon / 7.1318 - 1 <= PESSIMISM


@pytest.mark.parametrize(
    ("event", "count", "expected"),
    [(Sub("poisson", 1, 100, Gaussian(1.0)), 1000, 2.12452), (Sub("poisson", 1, 10, Gaussian(0.5)), 100, 2.67504)],
    ids=["TV51", "TV52"],
)
def test_poisson_batches(event, count, expected):
    reading = accountants.tightest([event] * count, DELTA)
    assert reading.method == "pld" and -1e-4 <= reading.epsilon / expected - 1 <= PESSIMISM
    assert (
        reading.epsilon
        < 0.95 * accountants.tightest([Sub("wor", event.m, event.n, event.inner)] * count, DELTA).epsilon
    )


def test_all_currencies_refuse_two_kinds_of_batches():
    fixed, random = Sub("wor", 1, 10, Laplace(1.0)), Sub("poisson", 1, 10, Laplace(1.0))
    for events in ([fixed, random], [fixed, Seq((Laplace(0.1), Repeat(random, 2)))]):
        for currency in ("epsilon", "rho", "mu"):
            with pytest.raises(UserError, match="Poisson"):
                accountants.spent(events, currency)
        for method in accountants.METHODS:
            with pytest.raises(UserError, match="Poisson"):
                accountants.epsilon(events, DELTA, method)
        for arguments in ((events, DELTA), (events[:1], DELTA, events[1:])):
            with pytest.raises(UserError, match="Poisson"):
                accountants.tightest(*arguments)
    assert accountants.tightest([random, Laplace(0.1)], DELTA).epsilon < math.inf


def test_divergences_of_many_events_are_those_of_each():
    kinds = [
        Laplace(0.3),
        Gaussian(0.3),
        ExpMech(0.3),
        StatedPureDP(0.3),
        StatedZCDP(0.3),
        Laplace(1.0),
        StatedApproximateDP(0.3, 1e-9),
    ]
    kinds += [Sub("wor", 1, 10, event) for event in kinds] + [Parallel((Laplace(0.3), Gaussian(0.2)))]
    orders = np.array([1.1, 2.0, 30.0])
    expected = [per_event.rdp(event, orders) for event in kinds]
    np.testing.assert_allclose(accountants._divergences(kinds)(orders), expected, rtol=1e-14)


def test_a_bare_rho_is_accounted_by_rho():
    events = [StatedZCDP(0.1), Repeat(StatedZCDP(0.1), 3), Gaussian(math.sqrt(0.2))]
    reading = accountants.tightest(events, DELTA)
    assert set(reading.by_method) == {"zcdp", "rdp"}
    assert reading.epsilon == pytest.approx(5.22153444453, rel=1e-9)  # as TV13: ρ = 0.5
    # A block without one may have the larger divergence at a given order.
    blocks = accountants.tightest([Parallel((StatedZCDP(0.1), Laplace(0.4)))] * 5, DELTA)
    assert blocks.epsilon == pytest.approx(closed_forms.zcdp_epsilon(0.5, DELTA), rel=1e-6)


def test_approximate_releases_add_up_and_so_do_their_deltas():
    events = [StatedApproximateDP(0.1, 4e-7), Laplace(0.2), Seq((StatedApproximateDP(0.1, 5e-7), StatedPureDP(0.3)))]
    reading = accountants.tightest(events, DELTA)
    assert reading.by_method["basic"] == pytest.approx(0.7, rel=1e-12)
    curve = accountants.epsilon_curve((*events, StatedApproximateDP(0.1, 2e-7)), DELTA, "basic", (0, 1, 2, 3, 4))
    assert curve == pytest.approx([0.0, 0.1, 0.3, 0.7, math.inf], rel=1e-12)
    assert accountants.total(events, "epsilon") == accountants.total(events, "mu") == math.inf
    whole = [StatedApproximateDP(0.5, DELTA)]  # nothing is left for anything but basic composition
    assert accountants.tightest(whole, DELTA).by_method == {"basic": 0.5, "pld": pytest.approx(0.5)}


def test_approximate_releases_leave_the_rest_of_delta_to_what_they_are_otherwise():
    events, certain = (
        [StatedApproximateDP(0.1, 2e-9)] * 100 + [Gaussian(0.3)] * 20,
        [StatedPureDP(0.1)] * 100 + [Gaussian(0.3)] * 20,
    )
    left = 1 - (1 - DELTA) / (1 - 2e-9) ** 100
    for method in ("zcdp", "rdp", "gdp"):
        assert accountants.epsilon(events, DELTA, method) == pytest.approx(
            accountants.epsilon(certain, left, method), rel=1e-9
        )
        assert accountants.epsilon([*events, *events[:100] * 5], DELTA, method) == math.inf
    both = accountants.epsilon(events, DELTA, "pld"), accountants.epsilon(certain, left, "pld")
    assert both[0] == pytest.approx(both[1], rel=1e-3)


def test_approximate_releases_on_batches():
    """The mass at infinity shrinks with the batch; the accountants that know only sums say nothing."""
    for kind in ("wor", "poisson"):
        event = Sub(kind, 1, 10, StatedApproximateDP(1.0, 1e-7))
        assert set(accountants.tightest([event] * 50, DELTA).by_method) == {"pld"}
        assert accountants.tightest([event] * 110, DELTA).epsilon == math.inf
    failing = Parallel((StatedApproximateDP(0.1, 1e-8), StatedApproximateDP(0.3, 1e-9), Laplace(0.2)))
    assert accountants.epsilon([failing] * 3, DELTA, "basic") == pytest.approx(0.9)
    assert accountants.epsilon([failing] * 3, 2e-8, "basic") == math.inf


def test_repeated_events_are_as_many_events_and_checkpoints_come_after_whole_ones():
    events = (
        Repeat(Laplace(0.1), 30),
        Gaussian(0.2),
        Repeat(Seq((Gaussian(0.1), Repeat(ExpMech(0.2), 2))), 10),
        *[Seq((StatedPureDP(0.1), Laplace(0.05)))] * 3,
    )
    flat: list[Event] = []
    ends = [0]
    for event in events:
        flat += inner_events(event)
        ends.append(len(flat))
    for method in accountants.METHODS:
        found = accountants.epsilon_curve(events, DELTA, method, tuple(range(len(events) + 1)))
        expected = accountants.epsilon_curve(tuple(flat), DELTA, method, tuple(ends))
        np.testing.assert_allclose(found, expected, rtol=1e-3 if method == "pld" else 1e-9)


def test_many_repetitions_cost_no_time():
    reading = accountants.tightest([Repeat(Laplace(1e-4), 10**7)], DELTA)
    normal = closed_forms.gdp_epsilon(math.sqrt(1e7) * 1e-4, DELTA)
    assert reading.method in ("pld", "optimal") and reading.epsilon == pytest.approx(normal, rel=0.01)
