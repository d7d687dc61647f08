"""The ledger: what a run has been charged, refusing what its plan does not allow."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dpviz.privacy.events import Event


class LedgerError(Exception):
    """A release that the plan does not contain: a bug of an algorithm, never a user's mistake."""


class BudgetExceeded(LedgerError):
    """A release after the last one that the plan allows."""


@dataclass(frozen=True)
class Sequence:
    """Terms of a fixed plan: these events, in this order, and nothing else."""

    events: tuple[Event, ...]


class Ledger:
    """The accounts of R replicates of one arm; each replicate has the whole budget to itself.

    A replicate that skips an event has left for good: what it was charged is the prefix up to there.
    """

    def __init__(self, terms: Sequence, replicates: int) -> None:
        self._events = terms.events
        self._next = 0
        self._left_at = np.full(replicates, -1)  # index of the first event that was skipped; -1 = still in
        self._complete = True  # nobody has left

    @property
    def replicates(self) -> int:
        return len(self._left_at)

    def charge(self, event: Event, times: np.ndarray | None = None) -> None:
        """Book `event`; `times` (R,) int is 0 for the replicates that do not take part, 1 for the others.

        Raises LedgerError, before anything is booked or drawn, unless `event` is the next one of the plan.
        """
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

    def _leave(self, times: np.ndarray) -> None:
        if times.shape != self._left_at.shape or not np.isin(times, (0, 1)).all():
            raise LedgerError("under a fixed plan, times must be 0 or 1 for each replicate")
        if ((self._left_at >= 0) & (times > 0)).any():
            raise LedgerError("a replicate that left the plan cannot come back")
        self._left_at[(self._left_at < 0) & (times == 0)] = self._next
        self._complete = not (self._left_at >= 0).any()

    def booked(self, replicate: int) -> tuple[Event, ...]:
        """The events charged to one replicate so far, in order."""
        left = self._left_at[replicate]
        return self._events[: self._next if left < 0 else left]


def times_of(rows: Iterable[int] | None, replicates: int) -> np.ndarray | None:
    """The `times` argument of `Ledger.charge` for a call that addresses `rows` (None = all replicates).

    Raises LedgerError unless rows are different replicates: one that is named twice would get two releases for one.
    """
    if rows is None:
        return None
    chosen = np.asarray(rows)
    if chosen.size and not (
        np.issubdtype(chosen.dtype, np.integer)
        and len(np.unique(chosen)) == len(chosen)
        and 0 <= chosen.min() <= chosen.max() < replicates
    ):
        raise LedgerError(f"rows must name different replicates below {replicates}, not {rows}")
    times = np.zeros(replicates, dtype=int)
    times[chosen.astype(int)] = 1
    return times
