"""The ledger: the record of all releases that a run has paid for.

It refuses every charge that the plan or the cap of the run does not allow.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import Lock

import numpy as np

from dpviz.privacy.accounting.currencies import UNITS, Currency, price
from dpviz.privacy.events import Event, Relation, relation

SLACK = 1e-9  # a filter's sum may exceed its ceiling by this share, as the added costs are rounded


class LedgerError(Exception):
    """A release that the plan does not contain: a bug of an algorithm, never a user's mistake."""


class BudgetExceeded(LedgerError):
    """A release after the last one of a fixed plan, or one that would lead beyond the cap of a filter."""


@dataclass(frozen=True)
class FixedEvents:
    """Terms of a fixed plan: these events, in this order, and nothing else."""

    events: tuple[Event, ...]


@dataclass(frozen=True)
class Filter:
    """Terms of an adaptive plan: any of the allowed events, at any time, while their costs add up to at most the cap.

    The next event, and the time to stop, may depend on earlier releases: ε of pure DP, ρ of zCDP and μ² of
    Gaussian DP then still add up (Rogers, Roth, Ullman, Vadhan 2016; Feldman and Zrnic 2021; Whitehouse et al. 2023).
    Privacy loss distributions need not compose if releases are chosen in this way, so they are no currency of a filter.

    cap : the whole budget as an ε, ρ, or μ, by the currency.
    allowed : the events that may be charged, by name; they and the cap are public and fixed in advance.
    """

    currency: Currency
    cap: float
    allowed: Mapping[str, Event]

    def cost(self, event: Event) -> float:
        """Return the amount that one charge of `event` adds to the sum: its ε, ρ, or μ²."""
        return price(event, self.currency)

    @property
    def ceiling(self) -> float:
        """The largest sum of costs that the cap allows: ε, ρ, or μ² (costs in μ add up as squares)."""
        return self.cap ** UNITS[self.currency].power


class Ledger:
    """The charges of R replicates: R simulated runs of one method, each of which has the whole budget to itself.

    Under `FixedEvents`, a replicate that skips an event has stopped for good: it pays for the events before that one.
    Under a `Filter`, every replicate has its own sum of costs. Threads may share a ledger: the charge of one thread is
    booked before that of the next is checked.

    relation : the neighbouring relation under which the events hold: that of their batches, and `otherwise` if they
        draw none. The constructor raises UserError if the batches have different ones.
    """

    def __init__(self, terms: FixedEvents | Filter, replicates: int, otherwise: Relation = "replace-one") -> None:
        self.replicates = replicates
        self._lock = Lock()  # a sum that two threads read before either adds to it would pay for one of them only
        self._accounts: _FixedAccounts | _FilterAccounts
        if isinstance(terms, FixedEvents):
            self._accounts = _FixedAccounts(terms, replicates)
            batch_relation = relation(terms.events)  # None without batches
        else:
            self._accounts = _FilterAccounts(terms, replicates)
            batch_relation = relation(terms.allowed.values())
        self.relation: Relation = batch_relation or otherwise

    def charge(self, event: Event, times: np.ndarray | None = None) -> None:
        """Book `event` for each replicate, or raise LedgerError before anything is booked or drawn.

        times : (R,) int, how often each replicate pays for the event; 0 if it does not take part. None means once for
            every replicate.

        Under a fixed plan, `event` must be the next one of the plan, and `times` are 0 or 1. Under a filter, it must be
        one of the allowed events, and every replicate's sum must stay within the cap.
        """
        with self._lock:
            self._accounts.charge(event, times)

    def affordable(self, event: Event, times: int | np.ndarray = 1) -> np.ndarray:
        """Return (R,) bool: True for the replicates that `charge` would now let pay for `event`, `times` times.

        times : one number for all replicates, or (R,).
        """
        with self._lock:
            return self._accounts.affordable(event, times)

    def spent(self, currency: Currency) -> np.ndarray:
        """Return (R,) the amount that each replicate has been charged so far: an ε, ρ, or μ, by the currency."""
        with self._lock:
            total = self._accounts.sums(currency)
        return np.sqrt(total) if UNITS[currency].power == 2 else total

    def charges(self) -> list[tuple[Event, np.ndarray]]:
        """Return one pair for each call of `charge`, in order: the event, and (R,) how often each replicate paid."""
        with self._lock:
            return self._accounts.charges()

    def booked(self, replicate: int) -> tuple[Event, ...]:
        """Return the events charged to one replicate so far, in order; an event paid twice is listed twice."""
        with self._lock:
            return self._accounts.booked(replicate)


class _FixedAccounts:
    """Accounts of a fixed plan: the number of events charged so far, and where each replicate stopped.

    `Ledger` documents the methods, which it calls under its lock.
    """

    def __init__(self, terms: FixedEvents, replicates: int) -> None:
        self._events = terms.events
        self._next = 0  # index of the event that must be charged next
        self._stopped_at = np.full(replicates, -1)  # index of the first event that a replicate skipped; -1: none yet

    def charge(self, event: Event, times: np.ndarray | None) -> None:
        if self._next >= len(self._events):
            raise BudgetExceeded(f"the plan ends after {len(self._events)} releases; {event} is one more")
        expected = self._events[self._next]
        if event is not expected and event != expected:  # `is` first: to compare takes longer
            raise LedgerError(f"release {self._next + 1} of the plan is {expected}, not {event}")
        has_stopped = self._stopped_at >= 0
        if times is not None:
            times = np.asarray(times)
            if times.shape != has_stopped.shape or not np.isin(times, (0, 1)).all():
                raise LedgerError("under a fixed plan, times must be 0 or 1 for each replicate")
            if (has_stopped & (times > 0)).any():
                raise LedgerError("a replicate that left the plan cannot come back")
            self._stopped_at[~has_stopped & (times == 0)] = self._next  # those that skip this event stop
        elif has_stopped.any():
            raise LedgerError("a replicate that left the plan cannot come back; say which replicates are charged")
        self._next += 1

    def affordable(self, event: Event, times: int | np.ndarray) -> np.ndarray:
        is_next = self._next < len(self._events) and event == self._events[self._next]
        return is_next & (self._stopped_at < 0) & (np.asarray(times) <= 1)

    def _paid_events(self) -> np.ndarray:
        """Return (R,) the number of events, from the first of the plan, that each replicate has paid for."""
        return np.where(self._stopped_at < 0, self._next, self._stopped_at)

    def sums(self, currency: Currency) -> np.ndarray:
        """Return (R,) the sum of the costs charged so far: ε, ρ, or μ²."""
        charged = self._events[: self._next]
        prices = {event: price(event, currency) for event in set(charged)}
        sum_of_first = np.cumsum([0.0, *(prices[event] for event in charged)])  # entry k: the sum of the first k costs
        return sum_of_first[self._paid_events()]

    def charges(self) -> list[tuple[Event, np.ndarray]]:
        paid_events = self._paid_events()
        return [(event, (index < paid_events).astype(int)) for index, event in enumerate(self._events[: self._next])]

    def booked(self, replicate: int) -> tuple[Event, ...]:
        return self._events[: self._paid_events()[replicate]]


class _FilterAccounts:
    """Accounts of an adaptive plan: the sum of the costs, and the number of charges of each event, per replicate.

    `Ledger` documents the methods, which it calls under its lock.
    """

    def __init__(self, terms: Filter, replicates: int) -> None:
        self._price = {event: terms.cost(event) for event in terms.allowed.values()}  # in the filter's own currency
        self._limit = terms.ceiling * (1 + SLACK)
        self._sum = np.zeros(replicates)
        self._log: list[tuple[Event, np.ndarray]] = []
        self._counts = {event: np.zeros(replicates, dtype=int) for event in self._price}

    def charge(self, event: Event, times: np.ndarray | None) -> None:
        counts = np.ones(len(self._sum), dtype=int) if times is None else np.array(times)
        if counts.shape != self._sum.shape or not np.issubdtype(counts.dtype, np.integer) or (counts < 0).any():
            raise LedgerError("times must be a whole number, at least 0, for each replicate")
        new_sum = self._new_sum(event, counts)
        if not (new_sum <= self._limit).all():
            raise BudgetExceeded(f"{event} would lead to {new_sum.max():.6g}; the filter ends at {self._limit:.6g}")
        self._sum = new_sum
        self._log.append((event, counts))
        self._counts[event] += counts

    def affordable(self, event: Event, times: int | np.ndarray) -> np.ndarray:
        return self._new_sum(event, np.broadcast_to(times, self._sum.shape)) <= self._limit

    def sums(self, currency: Currency) -> np.ndarray:
        """Return (R,) the sum of the costs charged so far: ε, ρ, or μ², in any currency, not only the filter's own."""
        total = np.zeros(len(self._sum))
        for event, counts in self._counts.items():
            has_paid = counts > 0  # the cost may be infinite, and 0 · ∞ is not a number
            total[has_paid] += counts[has_paid] * price(event, currency)
        return total

    def _new_sum(self, event: Event, times: np.ndarray) -> np.ndarray:
        """Return (R,) the sum of each replicate's costs once it has paid for `event`, `times` (R,) times."""
        if event not in self._price:
            raise LedgerError(f"the filter does not allow {event}")
        # The maximum avoids 0 · ∞, which is not a number, where a replicate does not pay.
        return np.where(times > 0, self._sum + np.maximum(times, 1) * self._price[event], self._sum)

    def charges(self) -> list[tuple[Event, np.ndarray]]:
        return list(self._log)

    def booked(self, replicate: int) -> tuple[Event, ...]:
        return tuple(event for event, times in self._log for _ in range(times[replicate]))


def charge_counts(replicates: Iterable[int] | None, count: int, draws: int | np.ndarray = 1) -> np.ndarray | None:
    """Return the argument `times` of `Ledger.charge`, (R,) or None, with which only these `replicates` pay.

    replicates : numbers from 0 to `count` - 1, out of `count` = R replicates; None for all of them.
    draws : how often each of them pays; one number, or one for each entry of `replicates`.

    Raises LedgerError if a replicate is named twice, as it would get two releases and pay for one.
    """
    if replicates is None and np.isscalar(draws) and draws == 1:
        return None  # every replicate pays once
    indices = np.arange(count) if replicates is None else np.asarray(replicates)
    if indices.size and not (
        np.issubdtype(indices.dtype, np.integer)
        and len(np.unique(indices)) == len(indices)
        and 0 <= indices.min() <= indices.max() < count
    ):
        raise LedgerError(f"a charge must name different replicates below {count}, not {replicates}")
    if not np.issubdtype(np.asarray(draws).dtype, np.integer) or np.shape(draws) not in ((), indices.shape):
        raise LedgerError(f"draws must be a whole number, or one for each of {len(indices)} replicates, not {draws}")
    times = np.zeros(count, dtype=int)
    times[indices.astype(int)] = draws  # NumPy makes an array of floats out of an empty list
    return times
