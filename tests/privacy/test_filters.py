"""Filters: adaptive plans, whose sum per replicate never goes beyond the cap, whatever is bought and in which order."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpviz.privacy.accounting import per_event
from dpviz.privacy.accounting.currencies import Currency, price
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
from dpviz.privacy.ledger import SLACK, BudgetExceeded, Filter, Ledger, LedgerError
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.releases import Query

CURRENCIES: tuple[Currency, ...] = ("epsilon", "rho", "mu")
E, G, L = ExpMech(0.3), Gaussian(0.2), Laplace(0.25)


def terms(currency: Currency, cap: float, *events: Event) -> Filter:
    return Filter(currency, cap, {str(event): event for event in events})


def ledger(currency: Currency, cap: float, *events: Event, replicates: int = 3) -> Ledger:
    return Ledger(terms(currency, cap, *events), replicates)


def mechanisms(currency: Currency, cap: float, *events: Event, replicates: int = 3) -> Mechanisms:
    return Mechanisms(ledger(currency, cap, *events, replicates=replicates), seed=3)


def states(of: Mechanisms) -> list:
    return [generator.bit_generator.state for group in (of._noise, of._batches, of.public) for generator in group]


# --------------------------------------------------------------------------------------------------------------- prices


@pytest.mark.parametrize(
    "event",
    [
        E,
        G,
        L,
        StatedPureDP(0.4),
        StatedZCDP(0.1),
        StatedApproximateDP(0.1, 1e-9),
        Repeat(E, 4),
        Seq((L, E)),
        Parallel((L, E)),
        Sub("wor", 1, 9, L),
    ],
    ids=str,
)
def test_an_event_is_priced_in_the_currency_of_the_filter(event: Event) -> None:
    found = [terms(currency, 1.0, event).cost(event) for currency in CURRENCIES]
    assert found == [price(event, currency) for currency in CURRENCIES]
    assert found == [per_event.pure(event), per_event.rho(event), per_event.mu(event) ** 2]


def test_the_ceiling_of_a_gaussian_filter_is_the_square_of_its_cap() -> None:
    assert [terms(currency, 3.0, E).ceiling for currency in CURRENCIES] == [3.0, 3.0, 9.0]


# ---------------------------------------------------------------------------------------------------- how much there is


@pytest.mark.parametrize(
    ("currency", "cap", "event", "count"),
    [
        ("epsilon", 1.0, Laplace(0.1), 10),  # ten times 0.1 is a little less than 1 in floating point
        ("epsilon", 0.3, StatedPureDP(0.1), 3),  # and three times 0.1 is a little more than 0.3
        ("epsilon", 0.95, Laplace(0.1), 9),
        ("rho", 0.2, Gaussian(0.2), 10),
        ("rho", 0.7, StatedZCDP(0.1), 7),
        ("mu", 1.0, Gaussian(0.1), 100),
        ("mu", 0.5, Gaussian(0.05), 100),
        ("mu", 0.499, Gaussian(0.05), 99),
        ("epsilon", 3.0, Repeat(ExpMech(0.5), 2), 3),
        ("epsilon", 1.0, Parallel((Laplace(0.25), StatedPureDP(0.1))), 4),
    ],
    ids=str,
)
def test_a_cap_buys_as_many_events_as_fit(currency: Currency, cap: float, event: Event, count: int) -> None:
    one_by_one, at_once = (ledger(currency, cap, event) for _ in range(2))
    for _ in range(count):
        assert one_by_one.affordable(event).all()
        one_by_one.charge(event)
    assert not one_by_one.affordable(event).any()
    with pytest.raises(BudgetExceeded):
        one_by_one.charge(event)
    assert at_once.affordable(event, np.array([0, count, count + 1])).tolist() == [True, True, False]
    at_once.charge(event, np.full(3, count))
    for book in (one_by_one, at_once):
        assert [book.booked(r) for r in range(3)] == [(event,) * count] * 3
        assert book.spent(currency) == pytest.approx(np.full(3, cap), rel=0.06)
        assert (book.spent(currency) <= cap * (1 + SLACK)).all()


def test_rounding_is_forgiven_and_nothing_else() -> None:
    for cap in (1e-6, 1.0, 1e6):
        for excess, fits in ((0.5 * SLACK, True), (2 * SLACK, False)):
            event = StatedPureDP(cap * (1 + excess))
            assert (ledger("epsilon", cap, event).affordable(event) == fits).all()


def test_every_replicate_has_its_own_sum() -> None:
    book = ledger("epsilon", 1.0, L, E)
    book.charge(L, np.array([4, 0, 1]))
    book.charge(E, np.array([0, 1, 2]))
    assert book.spent("epsilon") == pytest.approx([1.0, 0.3, 0.85])
    assert [book.booked(r) for r in range(3)] == [(L,) * 4, (E,), (L, E, E)]
    assert book.affordable(L).tolist() == [False, True, False]
    assert book.affordable(E, 2).tolist() == [False, True, False]
    assert book.affordable(E, np.array([0, 3, 0])).tolist() == [True, False, True]


def test_a_replicate_may_stop_and_come_back() -> None:
    """Unlike under a fixed plan: what comes next, and when to stop, may depend on what was released."""
    book = ledger("rho", 1.0, G)
    book.charge(G, np.array([1, 0, 0]))
    book.charge(G, np.array([0, 1, 0]))
    book.charge(G)
    assert [len(book.booked(r)) for r in range(3)] == [2, 2, 1]


def test_an_event_that_exceeds_the_cap_of_one_replicate_is_booked_for_none() -> None:
    book = ledger("epsilon", 1.0, L)
    book.charge(L, np.array([4, 3, 0]))
    before = [book.booked(r) for r in range(3)]
    for times in (None, np.array([1, 1, 1]), np.array([0, 2, 0]), np.array([0, 0, 5])):
        with pytest.raises(BudgetExceeded):
            book.charge(L, times)
        assert [book.booked(r) for r in range(3)] == before
    book.charge(L, np.array([0, 1, 4]))
    assert book.spent("epsilon") == pytest.approx(np.ones(3)) and not book.affordable(L).any()
    book.charge(L, np.zeros(3, dtype=int))  # nobody takes part: free even at the end
    assert book.affordable(L, 0).all()


def test_an_event_that_was_not_declared_is_refused_however_cheap() -> None:
    book = ledger("epsilon", 1.0, L)
    for event in (Laplace(np.nextafter(0.25, 0)), StatedPureDP(0.25), Gaussian(1e-9), Repeat(L, 1)):
        with pytest.raises(LedgerError, match="does not allow"):
            book.charge(event)
        with pytest.raises(LedgerError, match="does not allow"):
            book.affordable(event)
    assert book.booked(0) == ()
    book.charge(Laplace(0.25))  # an equal event is the same event


@pytest.mark.parametrize(
    "times",
    [
        [1, 1],
        [1, 1, 1, 1],
        [-1, 1, 1],
        [0.5, 1, 1],
        [1.0, 1.0, 1.0],
        [[1, 1, 1]],
        [math.nan, 1, 1],
        1,
        [True, False, True],
    ],
    ids=repr,
)
def test_times_are_a_whole_number_for_each_replicate(times: object) -> None:
    book = ledger("epsilon", 1.0, L)
    with pytest.raises(LedgerError):
        book.charge(L, np.asarray(times))
    assert [book.booked(r) for r in range(3)] == [()] * 3


def test_the_callers_array_is_not_kept() -> None:
    book, times = ledger("epsilon", 1.0, L), np.array([1, 2, 0])
    book.charge(L, times)
    times[:] = 9
    assert [len(book.booked(r)) for r in range(3)] == [1, 2, 0]


# ---------------------------------------------------------------------------------------------------------- any history

PURE = [Laplace(0.31), StatedPureDP(0.07), ExpMech(0.5), Repeat(ExpMech(0.11), 3), Sub("wor", 1, 3, Laplace(0.4))]
histories = st.lists(st.sampled_from(PURE), max_size=12)


@pytest.mark.parametrize("currency", CURRENCIES)
@given(history=histories, data=st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_the_order_of_events_does_not_matter(currency: Currency, history: list[Event], data: st.DataObject) -> None:
    """What is spent in total is the same, and an order is accepted if and only if every other one is."""
    again = data.draw(st.permutations(history))
    total = math.fsum(price(event, currency) for event in history)
    cap = data.draw(st.floats(0.5, 1.5)) * (math.sqrt(total) if currency == "mu" else total) + 1e-3
    sold = terms(currency, cap, *PURE)
    books = [Ledger(sold, 1) for _ in range(2)]
    accepted = []
    for book, order in zip(books, (history, again), strict=True):
        try:
            for event in order:
                book.charge(event)
        except BudgetExceeded:
            pass
        accepted.append(len(book.booked(0)) == len(order))
        assert book.booked(0) == tuple(order[: len(book.booked(0))])
    assert accepted[0] == accepted[1] == (total <= sold.ceiling * (1 + SLACK))
    if accepted[0]:
        assert books[0].spent(currency) == books[1].spent(currency)


@pytest.mark.slow
@pytest.mark.parametrize("currency", CURRENCIES)
def test_ten_thousand_random_histories_stay_within_the_cap_and_use_it_up(currency: Currency) -> None:
    """Greedy buyers in random order: sums that are found again from the books, replicate by replicate."""
    replicates, generator = 10_000, np.random.default_rng(5)
    cap, sold = (
        {"epsilon": 2.0, "rho": 0.1, "mu": 0.7}[currency],
        PURE if currency == "epsilon" else [*PURE, Gaussian(0.1)],
    )
    book = ledger(currency, cap, *sold, replicates=replicates)
    for _ in range(8):
        choice = generator.integers(len(sold), size=replicates)
        for index, event in enumerate(sold):  # every replicate buys what it has chosen, once or twice
            wanted = np.where(choice == index, generator.integers(1, 3, replicates), 0)
            fits = book.affordable(event, wanted)
            if not fits.all():
                with pytest.raises(BudgetExceeded):
                    book.charge(event, wanted)
            book.charge(event, np.where(fits, wanted, 0))
    for event in sold:  # the rest of the budget, one by one
        while (fits := book.affordable(event)).any():
            book.charge(event, fits.astype(int))
    prices = {event: price(event, currency) for event in sold}
    sums = np.array([math.fsum(prices[event] for event in book.booked(r)) for r in range(replicates)])
    ceiling = cap**2 if currency == "mu" else cap
    assert (sums <= ceiling * (1 + 1.01 * SLACK)).all()
    assert (sums + min(prices.values()) > ceiling).all()
    assert np.allclose(book.spent(currency), np.sqrt(sums) if currency == "mu" else sums, rtol=1e-14)
    assert len({book.booked(r) for r in range(replicates)}) > 5_000, "otherwise these were not many histories"


# ----------------------------------------------------------------------------------------------------- other currencies


def test_what_was_spent_can_be_read_in_every_currency() -> None:
    book = ledger("rho", 5.0, G, L, replicates=2)
    assert [book.spent(currency).tolist() for currency in CURRENCIES] == [[0.0, 0.0]] * 3
    book.charge(L, np.array([2, 1]))
    assert book.spent("epsilon") == pytest.approx([0.5, 0.25])
    book.charge(G, np.array([0, 3]))
    assert book.spent("epsilon").tolist() == [0.5, math.inf]
    assert book.spent("mu")[1] == pytest.approx(math.sqrt(per_event.mu(L) ** 2 + 3 * 0.04))
    assert book.spent("rho") == pytest.approx([2 * per_event.rho(L), per_event.rho(L) + 3 * 0.02])


def test_what_has_no_price_in_the_currency_is_never_affordable() -> None:
    for currency, event in (
        ("epsilon", G),
        ("epsilon", StatedZCDP(1e-9)),
        ("mu", StatedZCDP(1e-9)),
        ("rho", StatedApproximateDP(0.0, 1e-9)),
    ):
        book = ledger(currency, 1e9, event, L)  # type: ignore[arg-type]
        assert not book.affordable(event).any() and book.affordable(event, 0).all()
        with pytest.raises(BudgetExceeded):
            book.charge(event)
        book.charge(event, np.zeros(3, dtype=int))
        book.charge(L)
        assert np.isfinite(book.spent("epsilon")).all()


@pytest.mark.parametrize("currency", CURRENCIES)
def test_without_a_cap_releases_without_noise_go_on_for_ever(currency: Currency) -> None:
    free = [Laplace(math.inf), Gaussian(math.inf), ExpMech(math.inf), Repeat(ExpMech(math.inf), 3)]
    book = ledger(currency, math.inf, *free, L)
    for _, event in itertools.product(range(10), free):
        assert book.affordable(event, 1000).all()
        book.charge(event, np.array([1, 0, 2]))
    book.charge(L)
    assert book.spent(currency)[[0, 2]].tolist() == [math.inf] * 2 and 0 < book.spent(currency)[1] < 1
    capped = ledger(currency, 1e100, *free)
    assert not any(capped.affordable(event).any() for event in free)


# ----------------------------------------------------------------------------------------------- mechanisms on a filter


def noisy(source: Mechanisms, kind: str, replicates: np.ndarray) -> np.ndarray:
    zeros = np.zeros((len(replicates), 2))
    if kind == "laplace":
        return source.laplace(Query(zeros, 1.0, "l1"), L, replicates)
    if kind == "gaussian":
        return source.gaussian(Query(zeros, 1.0, "l2"), G, replicates)
    return source.exponential(Query(zeros, 1.0, "range"), E, replicates=replicates)


@pytest.mark.parametrize("kind", ["laplace", "gaussian", "exponential"])
def test_every_replicate_goes_on_until_its_own_budget_is_used_up(kind: str) -> None:
    event: Event = {"laplace": L, "gaussian": G, "exponential": E}[kind]  # type: ignore[assignment]
    currency: Currency = "rho" if kind == "gaussian" else "epsilon"
    source = mechanisms(currency, 2.0, event, replicates=6)
    generator, rounds = np.random.default_rng(0), 0
    while (left := np.flatnonzero(source.affordable(event))).size:
        chosen = left[generator.random(left.size) < 0.7]
        assert len(noisy(source, kind, chosen)) == len(chosen)
        rounds += 1
    most = math.floor(2.0 / price(event, currency) * (1 + SLACK))
    assert [len(source._ledger.booked(r)) for r in range(6)] == [most] * 6 and rounds > most
    before = states(source)
    for r in range(6):
        with pytest.raises(BudgetExceeded):
            noisy(source, kind, np.array([r]))
    assert states(source) == before


def test_a_purchase_that_one_replicate_cannot_pay_draws_for_none() -> None:
    source = mechanisms("epsilon", 1.0, E, L)
    query = Query(np.zeros((3, 4)), 1.0, "range")
    source.exponential(query, E, draws=np.array([3, 1, 0]))
    before = states(source)
    for draws in (1, np.array([1, 0, 0]), np.array([0, 3, 4])):
        with pytest.raises(BudgetExceeded):
            source.exponential(query, E, draws=draws)
        assert states(source) == before
    found = source.exponential(query, E, draws=np.array([0, 2, 3]))
    assert (found[0] == -1).all() and (found[1] >= 0).sum() == 2 and (found[2] >= 0).all()
    assert source.spent("epsilon") == pytest.approx([0.9, 0.9, 0.9])


def test_a_replicate_buys_the_same_whatever_the_others_buy() -> None:
    def bought(replicates: int, seed: int) -> list[list[int]]:
        source, generator = mechanisms("epsilon", 50.0, E, replicates=replicates), np.random.default_rng(seed)
        found: list[list[int]] = [[] for _ in range(replicates)]
        for step in range(12):
            draws = generator.integers(0, 4, replicates)
            draws[0] = step % 3
            indices = source.exponential(Query(np.zeros((replicates, 9)), 1.0, "range"), E, draws=draws)
            for r in range(replicates):
                found[r] += [index for index in indices[r].tolist() if index >= 0]
        return found

    assert bought(1, 0)[0] == bought(5, 1)[0] == bought(9, 2)[0]
    assert len(bought(1, 0)[0]) == 12


def test_batches_and_running_sums_can_be_bought_too() -> None:
    batch = Sub("wor", 2, 6, L)
    source = mechanisms("epsilon", 0.3, batch, L)
    opened = source.batch(batch, replicates=np.array([1]))
    assert opened.indices is not None and opened.indices.shape == (1, 2)
    assert source.spent("epsilon") == pytest.approx([0.0, math.log1p(math.expm1(0.25) / 3), 0.0])
    assert source.affordable(L).tolist() == [True, False, True]
