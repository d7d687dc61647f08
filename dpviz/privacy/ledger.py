"""The ledger: the charges of a run. It refuses any that the plan or the cap of the run does not allow."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import Lock

import numpy as np

from dpviz.privacy.accounting.currencies import UNITS, Currency, price
from dpviz.privacy.events import Event, Relation, relation

SLACK = 1e-9  # relative, for sums of rounded costs


class LedgerError(Exception):
    """A release that the plan does not contain: a bug of an algorithm, never a user's mistake."""


class BudgetExceeded(LedgerError):
    """A release after the last one that the plan allows, or beyond the cap."""


@dataclass(frozen=True)
class FixedEvents:
    """Terms of a fixed plan: these events, in this order, and nothing else."""

    events: tuple[Event, ...]


@dataclass(frozen=True)
class Filter:
    """Terms of an adaptive plan: any of the allowed events, at any time, while their sum stays within the cap.

    The next event, and the time to stop, may depend on earlier releases: ε of pure DP, ρ of zCDP and μ² of
    Gaussian DP then still add up (Rogers, Roth, Ullman, Vadhan 2016; Feldman and Zrnic 2021; Whitehouse et al. 2023).
    A privacy loss distribution would not, so it is no currency of a filter.

    cap : in the unit of the currency: ε, ρ, or μ.
    allowed : the events, by name; they and the cap are public and fixed in advance.
    """

    currency: Currency
    cap: float
    allowed: Mapping[str, Event]

    def cost(self, event: Event) -> float:
        """Return the amount that one such event adds to the sum: ε, ρ, or μ²."""
        return price(event, self.currency)

    @property
    def ceiling(self) -> float:
        """The largest sum: ε, ρ, or μ²."""
        return self.cap ** UNITS[self.currency].power


class Ledger:
    """The accounts of R replicates of one arm; each replicate has the whole budget to itself.

    Under `FixedEvents`, a replicate that skips an event has left for good: it is charged the events up to there. Under
    a `Filter`, every replicate has its own sum. Threads may share a ledger: the charge of one of them is booked before
    that of the next is checked.

    relation : the neighbouring relation of the run: that of its batches, else replace-one. Raises UserError if they
        have different ones.
    """

    def __init__(self, terms: FixedEvents | Filter, replicates: int) -> None:
        self._accounts = (_Fixed if isinstance(terms, FixedEvents) else _Filtered)(terms, replicates)  # type: ignore[arg-type]
        self._lock = Lock()  # a sum that two threads read before either adds to it would pay for one of them only
        self.replicates = replicates
        events = terms.events if isinstance(terms, FixedEvents) else tuple(terms.allowed.values())
        different = {id(event): event for event in events}  # a uniform plan repeats one object
        self.relation: Relation = relation(different.values()) or "replace-one"

    def charge(self, event: Event, times: np.ndarray | None = None) -> None:
        """Book `event`, `times` (R,) int times for each replicate, 0 for those that do not take part; None = once.

        Raises LedgerError, before anything is booked or drawn, unless `event` is the next one of the plan (then times
        are 0 or 1), or allowed by the filter and within its cap for every replicate.
        """
        with self._lock:
            self._accounts.charge(event, times)

    def affordable(self, event: Event, times: int | np.ndarray = 1) -> np.ndarray:
        """Return (R,) bool: True for the replicates that may be charged `event` now, `times` times."""
        with self._lock:
            return self._accounts.affordable(event, times)

    def spent(self, currency: Currency) -> np.ndarray:
        """Return (R,) the amount that each replicate has been charged so far: ε, ρ, or μ."""
        with self._lock:
            total = self._accounts.sums(currency)
        return np.sqrt(total) if UNITS[currency].power == 2 else total

    def charges(self) -> list[tuple[Event, np.ndarray]]:
        """Return the events charged so far, in order, and their number for each replicate, (R,)."""
        with self._lock:
            return self._accounts.charges()

    def booked(self, replicate: int) -> tuple[Event, ...]:
        """Return the events charged to one replicate so far, in order."""
        with self._lock:
            return self._accounts.booked(replicate)


class _Fixed:
    """Accounts of a fixed plan."""

    def __init__(self, terms: FixedEvents, replicates: int) -> None:
        self._events = terms.events
        self._next = 0
        self._left_at = np.full(replicates, -1)  # index of the first event that was skipped; -1 = still in
        self._complete = True  # no replicate has left

    def charge(self, event: Event, times: np.ndarray | None) -> None:
        if self._next >= len(self._events):
            raise BudgetExceeded(f"the plan ends after {len(self._events)} releases; {event} is one more")
        expected = self._events[self._next]
        if event is not expected and event != expected:
            raise LedgerError(f"release {self._next + 1} of the plan is {expected}, not {event}")
        if times is not None:
            self._leave(np.asarray(times))
        elif not self._complete:
            raise LedgerError("a replicate that left the plan cannot come back; say which replicates are charged")
        self._next += 1

    def affordable(self, event: Event, times: int | np.ndarray) -> np.ndarray:
        due = self._next < len(self._events) and event == self._events[self._next]
        return due & (self._left_at < 0) & (np.asarray(times) <= 1)

    def _leave(self, times: np.ndarray) -> None:
        """Note the replicates that skip the next event; raise LedgerError if one that left is charged."""
        if times.shape != self._left_at.shape or not np.isin(times, (0, 1)).all():
            raise LedgerError("under a fixed plan, times must be 0 or 1 for each replicate")
        if ((self._left_at >= 0) & (times > 0)).any():
            raise LedgerError("a replicate that left the plan cannot come back")
        self._left_at[(self._left_at < 0) & (times == 0)] = self._next
        self._complete = not (self._left_at >= 0).any()

    def sums(self, currency: Currency) -> np.ndarray:
        """Return (R,) the costs charged so far, added up."""
        prices = {event: price(event, currency) for event in set(self._events[: self._next])}
        spent = np.cumsum([0.0, *(prices[event] for event in self._events[: self._next])])
        return spent[np.where(self._left_at < 0, self._next, self._left_at)]

    def charges(self) -> list[tuple[Event, np.ndarray]]:
        until = np.where(self._left_at < 0, self._next, self._left_at)
        return [(event, (index < until).astype(int)) for index, event in enumerate(self._events[: self._next])]

    def booked(self, replicate: int) -> tuple[Event, ...]:
        end = self._left_at[replicate]
        return self._events[: self._next if end < 0 else end]


class _Filtered:
    """Accounts of an adaptive plan: one sum per replicate."""

    def __init__(self, terms: Filter, replicates: int) -> None:
        self._price = {event: terms.cost(event) for event in terms.allowed.values()}
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
        """Return (R,) the costs charged so far, added up."""
        total = np.zeros(len(self._sum))
        for event, counts in self._counts.items():
            charged = counts > 0  # 0 · ∞ is not a number
            total[charged] += counts[charged] * price(event, currency)
        return total

    def _new_sum(self, event: Event, times: np.ndarray) -> np.ndarray:
        if event not in self._price:
            raise LedgerError(f"the filter does not allow {event}")
        return np.where(times > 0, self._sum + np.maximum(times, 1) * self._price[event], self._sum)

    def charges(self) -> list[tuple[Event, np.ndarray]]:
        return list(self._log)

    def booked(self, replicate: int) -> tuple[Event, ...]:
        return tuple(event for event, times in self._log for _ in range(times[replicate]))


def times_of(rows: Iterable[int] | None, replicates: int, draws: int | np.ndarray = 1) -> np.ndarray | None:
    """Return the `times` argument of `Ledger.charge` for a call that addresses `rows` (None = all replicates).

    draws : number of charges of each of the rows; a scalar or one number per row.
    Raises LedgerError unless rows are different replicates: one that is named twice would get two releases for one.
    """
    if rows is None and np.isscalar(draws) and draws == 1:
        return None
    indices = np.arange(replicates) if rows is None else np.asarray(rows)
    if indices.size and not (
        np.issubdtype(indices.dtype, np.integer)
        and len(np.unique(indices)) == len(indices)
        and 0 <= indices.min() <= indices.max() < replicates
    ):
        raise LedgerError(f"rows must name different replicates below {replicates}, not {rows}")
    if not np.issubdtype(np.asarray(draws).dtype, np.integer) or np.shape(draws) not in ((), indices.shape):
        raise LedgerError(f"draws must be a whole number, or one for each of {len(indices)} rows, not {draws}")
    times = np.zeros(replicates, dtype=int)
    times[indices.astype(int)] = draws
    return times
