"""Threads that share a ledger, a batch or running sums: what is paid for once is released once.

NumPy lets other threads run while it works on a long array, so the arrays here are long: without the locks, threads
meet between looking and booking in every run of these tests.
"""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier

import numpy as np
import pytest

from dpviz.privacy.batches import Batch
from dpviz.privacy.events import Gaussian, Laplace, Seq
from dpviz.privacy.ledger import BudgetExceeded, Filter, FixedEvents, Ledger, LedgerError
from dpviz.privacy.matrix_factorisation import binary_tree
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.releases import Query

pytestmark = pytest.mark.slow  # real processes and clocks

THREADS, LONG = 4, 5_000
NOISE = Gaussian(0.1)


class Slow(Laplace):
    """An event that takes a while to recognise."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return sum(range(2_000)) > 0 and isinstance(other, Slow)

    __hash__ = Laplace.__hash__


@pytest.fixture(autouse=True)
def _threads_take_turns_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def by_threads(act: Callable[[], object]) -> int:
    """How often `act` went through until it was refused, in THREADS threads that begin together."""
    start = Barrier(THREADS)

    def worker(_: int) -> int:
        start.wait()
        done = 0
        while done < 10_000:
            try:
                act()
            except LedgerError:
                return done
            done += 1
        return done

    with ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(worker, range(THREADS)))


def test_threads_together_stay_within_the_cap_of_a_filter() -> None:
    event = Laplace(0.002)
    book = Ledger(Filter("epsilon", 1.0, {"noise": event}), LONG)
    assert by_threads(lambda: book.charge(event)) == 500
    assert book.spent("epsilon") == pytest.approx(np.ones(LONG))
    assert len(book.booked(LONG - 1)) == 500


def test_threads_together_get_each_event_of_a_fixed_plan_once() -> None:
    book = Ledger(FixedEvents((Slow(0.1),) * 500), 1)
    assert by_threads(lambda: book.charge(Slow(0.1))) == 500
    with pytest.raises(BudgetExceeded):
        book.charge(Slow(0.1))


def test_threads_together_get_each_release_of_a_batch_once() -> None:
    event = Seq(tuple(Laplace(0.1 + i) for i in range(500)))
    batch = Mechanisms(Ledger(FixedEvents((event,)), 1), 0).batch(event)
    query = Query(np.zeros((1, LONG)), 1.0, "l1", batch)
    taken: list[Laplace] = []
    assert by_threads(lambda: taken.append(batch._next(query, Laplace, "l1"))) == 500
    assert sorted(release.eps for release in taken) == [0.1 + i for i in range(500)]


def test_threads_together_are_dealt_each_leaf_once() -> None:
    source = Mechanisms(Ledger(FixedEvents((NOISE,)), 1), 0)
    leaves = source.leaves([1] * 500, LONG)
    source.prefix_sums(NOISE, binary_tree(500), leaves, 1.0)
    dealt: list[Batch] = []
    assert by_threads(lambda: dealt.append(leaves.next())) == 500
    assert len({int(leaf.indices[0, 0]) for leaf in dealt}) == 500  # type: ignore[index]


def test_threads_together_add_each_leaf_once() -> None:
    source = Mechanisms(Ledger(FixedEvents((NOISE,)), 1), 0)
    leaves = source.leaves([1] * 500, 500)
    sums = source.prefix_sums(NOISE, binary_tree(500), leaves, 1.0, (LONG,))
    queries = [Query(np.zeros((1, LONG)), 1.0, "l2", leaves.next()) for _ in range(500)]
    start = Barrier(THREADS)

    def worker(_: int) -> int:
        start.wait()
        done = 0
        for query in queries:  # when a thread comes to a leaf, the one before was added, by whomever
            with suppress(LedgerError):
                sums.add(query)
                done += 1
        return done

    with ThreadPoolExecutor(THREADS) as pool:
        assert sum(pool.map(worker, range(THREADS))) == 500
