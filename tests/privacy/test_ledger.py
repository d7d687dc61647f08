"""The ledger: the plan's events, in order, each once, or nothing is booked."""

import numpy as np
import pytest

from dpviz.privacy.events import Gaussian, Laplace, Sub
from dpviz.privacy.ledger import BudgetExceeded, FixedEvents, Ledger, LedgerError, charge_counts

A, B, C = Laplace(0.5), Gaussian(0.25), Sub("wor", 3, 9, Laplace(0.5))


def ledger(*events: object, replicates: int = 3) -> Ledger:
    return Ledger(FixedEvents(tuple(events)), replicates)  # type: ignore[arg-type]


def books(of: Ledger) -> list[tuple]:
    return [of.booked(r) for r in range(of.replicates)]


def test_a_run_books_its_plan_in_order() -> None:
    book = ledger(A, A, B, C)
    for count, event in enumerate((A, A, B, C), 1):
        assert books(book) == [(A, A, B, C)[: count - 1]] * 3
        book.charge(event)
    assert books(book) == [(A, A, B, C)] * 3


def test_an_equal_event_is_the_same_event() -> None:
    book = ledger(A, C)
    book.charge(Laplace(0.5))
    book.charge(Sub("wor", 3, 9, Laplace(0.5)))
    assert books(book) == [(A, C)] * 3


@pytest.mark.parametrize(
    "wrong",
    [
        B,  # out of turn
        C,  # sampled where the plan has all rows
        Laplace(np.nextafter(0.5, 0)),  # the last digit
        Laplace(0.4),  # cheaper than planned: shown and drawn noise would differ
        Gaussian(0.5),
    ],
    ids=repr,
)
def test_anything_but_the_next_event_is_refused_and_nothing_is_booked(wrong: object) -> None:
    book = ledger(A, B, C)
    with pytest.raises(LedgerError):
        book.charge(wrong)  # type: ignore[arg-type]
    assert books(book) == [()] * 3
    book.charge(A)
    assert books(book) == [(A,)] * 3


def test_the_release_after_the_last_one_exceeds_the_budget() -> None:
    book = ledger(*[A] * 100)
    for _ in range(100):
        book.charge(A)
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            book.charge(A)
    with pytest.raises(BudgetExceeded):
        book.charge(A, np.array([1, 0, 0]))
    assert books(book) == [(A,) * 100] * 3
    with pytest.raises(BudgetExceeded):
        ledger().charge(A)


def test_a_replicate_that_skips_an_event_has_left_for_good() -> None:
    book = ledger(A, B, C, A)
    book.charge(A)
    book.charge(B, np.array([1, 0, 1]))
    with pytest.raises(LedgerError, match="come back"):
        book.charge(C, np.array([1, 1, 1]))
    with pytest.raises(LedgerError):
        book.charge(C)  # would silently charge the one that left
    assert books(book) == [(A, B), (A,), (A, B)]
    book.charge(C, np.array([0, 0, 1]))
    book.charge(A, np.array([0, 0, 1]))
    assert books(book) == [(A, B), (A,), (A, B, C, A)]


def test_all_replicates_may_leave_but_none_returns() -> None:
    book = ledger(A, B)
    book.charge(A, np.array([0, 0, 0]))
    assert books(book) == [()] * 3
    with pytest.raises(LedgerError):
        book.charge(B)
    with pytest.raises(LedgerError):
        book.charge(B, np.array([1, 0, 0]))


@pytest.mark.parametrize(
    "times", [[1, 1], [1, 1, 1, 1], [2, 0, 0], [-1, 1, 1], [0.5, 1, 1], [[1, 1, 1]], [np.nan, 1, 1], 1], ids=repr
)
def test_times_must_say_for_each_replicate_whether_it_is_charged(times: object) -> None:
    book = ledger(A)
    with pytest.raises(LedgerError):
        book.charge(A, times)  # type: ignore[arg-type]
    assert books(book) == [()] * 3
    book.charge(A)


def test_the_callers_array_is_not_kept() -> None:
    book, times = ledger(A, B), np.array([1, 1, 0])
    book.charge(A, times)
    times[:] = 1
    assert books(book) == [(A,), (A,), ()]


def test_rows_become_times() -> None:
    assert charge_counts(None, 3) is None
    assert np.array_equal(charge_counts([2, 0], 3), [1, 0, 1])
    assert np.array_equal(charge_counts(np.array([], dtype=int), 3), [0, 0, 0])
    assert np.array_equal(charge_counts(range(3), 3), [1, 1, 1])


@pytest.mark.parametrize(
    "rows",
    [
        [0, 0],  # two releases for the price of one
        [2, -1],  # -1 and 2 are the same replicate of three
        [3],
        np.array([True, False, True]),  # a mask is not a list of replicates: True would draw for replicate 1
    ],
    ids=repr,
)
def test_rows_that_do_not_name_each_replicate_at_most_once_are_refused(rows: object) -> None:
    book = ledger(A)
    with pytest.raises((LedgerError, IndexError, ValueError)):
        book.charge(A, charge_counts(rows, 3))  # type: ignore[arg-type]
    assert books(book) == [()] * 3
