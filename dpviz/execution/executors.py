"""The slots of a server: where its runs and sweeps are computed, and the line before them."""

import logging
import threading
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from dpviz.execution.increments import extend
from dpviz.experiments.task import OURS, TOO_LARGE, Cell, OnProgress, Outcome, Stopping, execute, numbered
from dpviz.experiments.trace import Trace
from dpviz.processes import Child, Ended, Why, pack, unpack

# ---------------------------------- the line: one visitor after the other, and of each visitor one task after the other

T = TypeVar("T")
_Tasks = OrderedDict[str, deque[T]]


class FairQueue(Generic[T]):
    """Who comes next. A visitor with a hundred things to do waits as long for each as one with a single thing; one who
    takes something back keeps the place for what comes instead, until it is that visitor's turn. What is put there for
    later stands in a line of its own, whose turn it is when nothing else is there."""

    def __init__(self) -> None:
        self._visitors: OrderedDict[str, _Tasks[T]] = OrderedDict()
        self._later: OrderedDict[str, _Tasks[T]] = OrderedDict()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, visitor: str, task: str, items: list[T], later: bool = False) -> None:
        """The visitor has items to do that belong to one task; they keep their order."""
        with self._changed:
            if items:
                line = self._later if later else self._visitors
                line.setdefault(visitor, OrderedDict()).setdefault(task, deque()).extend(items)
                self._changed.notify_all()  # not each of those who wait takes any item

    def take(self, fits: Callable[[T], bool] | None = None, later: bool = False) -> T | None:
        """The next item, or the next that fits, which leaves the line; waits for one. None when the line has been
        closed. later : whether it may be one that was put there for later."""
        with self._changed:
            while not self._closed:
                if (item := _next(self._visitors, fits)) is not None:
                    return item
                if later and (item := _next(self._later)) is not None:
                    return item
                self._changed.wait()
            return None

    def withdraw(self, visitor: str, task: str) -> list[T]:
        """The items of a task that have not been taken; they leave the line."""
        with self._changed:
            for line in (self._visitors, self._later):
                if items := line.get(visitor, OrderedDict()).pop(task, None):
                    return list(items)
            return []

    def ahead(self, visitor: str, task: str) -> list[T] | None:
        """The items that will be taken before the first one of a task; None if none of it is in line."""
        with self._changed:
            lines = (self._visitors, self._later)
            of = next((line for line in lines if task in line.get(visitor, {})), None)
            if of is None:
                return None
            first = of[visitor][task][0]
            copies = [
                OrderedDict(
                    (name, OrderedDict((key, deque(items)) for key, items in tasks.items()))
                    for name, tasks in line.items()
                )
                for line in (lines if of is self._later else lines[:1])
            ]
        found: list[T] = []
        for copy in copies:
            while (item := _next(copy)) is not first and item is not None:
                found.append(item)
        return found

    def close(self) -> None:
        """Let everybody go who waits for an item."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def _next(visitors: OrderedDict[str, _Tasks[T]], fits: Callable[[T], bool] | None = None) -> T | None:
    """Take the first item, or the first that fits, of the first task of the first who has one; task and visitor go to
    the end, or leave."""
    every = ((visitor, task, items) for visitor, tasks in visitors.items() for task, items in tasks.items())
    found = next((one for one in every if fits is None or fits(one[2][0])), None)
    if found is None:
        return None
    visitor, task, items = found
    while fits is None and next(iter(visitors)) != visitor:  # who has taken something back: that turn has passed
        visitors.popitem(last=False)
    tasks, item = visitors[visitor], items.popleft()
    if items:
        tasks.move_to_end(task)
    else:
        del tasks[task]
    if tasks:
        visitors.move_to_end(visitor)
    else:
        del visitors[visitor]
    return item


# ---------------------------------------------------------------------------------------------------------------- slots

WORKER = "dpviz.execution.worker"
PATIENCE = 1.0  # seconds that a worker has to stop by itself
LOOK = 0.05  # seconds between two looks at whether somebody wants a run to stop
MEANWHILE = 1.0  # seconds that a run is computed here while the worker is still starting
GROWN = 800e6  # bytes of memory from which a worker is replaced by a fresh one after its run
CRASHED = (
    "The process that computed this run has ended, perhaps because the machine ran out of memory. "
    "What it had sent is kept. Run again, with fewer repeats or smaller data if that happens again."
)
CUT_OFF = "It was inside a long step; what had been sent until then is kept."
_log = logging.getLogger(__name__)


@dataclass
class _Allowance:
    """Computing time that the cells of one task share, in seconds."""

    seconds: float


@dataclass
class _Turn:
    """A cell in line or in a slot. short : whether it may have the slot for short ones."""

    number: int
    cell: Cell
    stopping: Stopping
    on_progress: Callable[[Trace | None, float], None]
    allowance: _Allowance
    ended: SimpleQueue[tuple[int, Outcome]]
    short: bool


class Slots:
    """A number of cells at the same time, for all visitors of a server; the others wait in a fair line.

    count : slots. processes : whether each is a worker process, started at once, or a thread of this one.
    max_bytes : of memory that a cell may take in a worker process; threads know no such limit. short : whether there
    is one more slot, for short cells alone, which wait for no long one there. What can wait has one slot at most, while
    nothing else is in line.
    """

    def __init__(self, count: int, processes: bool = False, max_bytes: float = 3e9, short: bool = False) -> None:
        self.count, self.max_bytes = count, max_bytes
        self._line: FairQueue[_Turn] = FairQueue()
        every = count + short
        self._workers = [_Worker(max_bytes) for _ in range(every)] if processes else []
        for slot in range(every):
            worker = self._workers[slot] if processes else None
            threading.Thread(target=self._serve, args=(slot, worker), daemon=True, name="dpviz-slot").start()

    def place(
        self, visitor: str = "", max_seconds: float = float("inf"), short: bool = False, later: bool = False
    ) -> "Place":
        """Who runs the cells of one task of a visitor, which may take so much computing time together, and may be known
        to be short, or to come after all that others have in line."""
        return Place(self, visitor, _Allowance(max_seconds), short, later)

    @property
    def pids(self) -> list[int]:
        """The numbers of the worker processes."""
        return [worker.pid for worker in self._workers]

    def close(self) -> None:
        """End the workers; nothing can be run afterwards."""
        self._line.close()
        for worker in self._workers:
            worker.close()

    def _serve(self, slot: int, worker: "_Worker | None") -> None:
        while (turn := self._line.take(_is_short if slot == self.count else None, later=slot == 0)) is not None:
            run = execute if worker is None else partial(worker.execute, short=turn.short)
            try:
                outcome = run(turn.cell, turn.stopping, turn.on_progress, turn.allowance.seconds)
            except Exception:  # whatever it is: a slot that ends is missing for ever
                _log.exception("run failed")
                outcome = Outcome("failed", OURS)
            turn.allowance.seconds -= outcome.seconds
            turn.ended.put((turn.number, outcome))
            del turn, outcome  # a slot that waits keeps nobody's table


def _is_short(turn: _Turn) -> bool:
    return turn.short


class Place:
    """An `Executor`: one task of a visitor, in the line of a server's slots."""

    def __init__(self, slots: Slots, visitor: str, allowance: _Allowance, short: bool, later: bool) -> None:
        self._slots, self._visitor, self._allowance, self._short, self._later = slots, visitor, allowance, short, later
        self._task = uuid.uuid4().hex
        self._stopping: Stopping | None = None

    def leave(self) -> None:
        """Take what waits out of the line at once, if it is to stop."""
        if self._stopping is not None and self._stopping.is_set():
            for turn in self._line.withdraw(self._visitor, self._task):
                turn.ended.put((turn.number, Outcome("stopped")))

    def run(
        self, cells: Sequence[Cell], stopping: Stopping, on_progress: OnProgress | None = None
    ) -> Iterator[tuple[int, Outcome]]:
        """As `Executor.run`. Closed before its end, it leaves the line; who closes it has set `stopping`."""
        ended: SimpleQueue[tuple[int, Outcome]] = SimpleQueue()
        turns = [
            _Turn(number, cell, stopping, numbered(on_progress, number), self._allowance, ended, self._short)
            for number, cell in enumerate(cells)
        ]
        missing, self._stopping = len(turns), stopping
        self._line.put(self._visitor, self._task, turns, self._later)
        del turns
        try:
            while missing:
                self.leave()
                try:
                    found = ended.get(timeout=LOOK)
                except Empty:
                    continue
                missing -= 1
                yield found
        finally:
            self._line.withdraw(self._visitor, self._task)

    @property
    def _line(self) -> FairQueue[_Turn]:
        return self._slots._line

    @property
    def position(self) -> int | None:
        """How many cells come before the first of these that waits, of short ones how many short ones; None if none
        waits."""
        ahead = self._line.ahead(self._visitor, self._task)
        return None if ahead is None else sum(turn.short for turn in ahead) if self._short else len(ahead)


class _Worker:
    """A worker process, and the next one where that has ended. Used by one thread at a time."""

    def __init__(self, max_bytes: float) -> None:
        self._max_bytes = max_bytes
        self._child, self._ready = Child(WORKER), False
        self._number = 0
        self._closed = False

    @property
    def pid(self) -> int:
        return self._child.pid

    def close(self) -> None:
        self._closed = True
        self._child.kill()

    def execute(
        self,
        cell: Cell,
        stopping: Stopping,
        on_progress: Callable[[Trace | None, float], None],
        max_seconds: float,
        short: bool = False,
    ) -> Outcome:
        """Run a cell in the process. Never raises; a process that has ended is replaced.

        The first visitor does not wait for the process to start: meanwhile, what is short is run here. If it takes
        longer, it begins again in the process, where its numbers are the same; on somebody's own file that would be two
        releases.
        """
        if stopping.is_set() or max_seconds < 0:
            return Outcome("stopped" if stopping.is_set() else "timeout")
        if not self._child.alive:  # it has ended since the last run: no fault of this one
            self._replace()
        self._number += 1
        trace, began = Trace({}), time.monotonic()
        try:
            if short and cell.repeatable and not self._has_started():
                outcome = execute(cell, stopping, on_progress, min(MEANWHILE, max_seconds))
                if outcome.state != "timeout" or outcome.seconds > max_seconds:
                    return outcome
            return self._converse(cell, stopping, on_progress, max_seconds, trace)
        except Ended as ended:
            self._replace()
            kept = trace if trace.lanes else None
            if stopping.is_set():
                return Outcome("stopped", CUT_OFF, kept, time.monotonic() - began)
            return _cut_off(ended.why, kept, min(max_seconds, time.monotonic() - began))
        except BaseException:
            self._replace()  # what it still says is of this run, and must not be taken for the next one's
            raise

    def _converse(
        self,
        cell: Cell,
        stopping: Stopping,
        on_progress: Callable[[Trace | None, float], None],
        max_seconds: float,
        trace: Trace,
    ) -> Outcome:
        order = {"number": self._number, "text": cell.text, "keep": cell.keep}
        limits = {"max_bytes": self._max_bytes, "max_seconds": max_seconds}
        while not self._has_started(LOOK):  # a stop meanwhile is no reason to start again, and to send may take as long
            if stopping.is_set():
                return Outcome("stopped")
        self._child.send(pack(order | limits, cell.tables))
        asked: float | None = None
        while True:
            message = self._child.receive(LOOK)
            if message is not None:
                header, arrays = unpack(message)
                if header["trace"]:
                    extend(trace, header["trace"], arrays)
                if "end" in header:
                    return self._ended(header["end"], trace)
                on_progress(trace if trace.lanes else None, header["progress"])
            if stopping.is_set():
                if asked is None:
                    asked = time.monotonic()
                    self._child.send(pack({"stop": self._number}, {}))
                elif time.monotonic() - asked > PATIENCE:
                    raise Ended("crash")  # as soon as it is killed, which `execute` does

    def _has_started(self, seconds: float = 0.0) -> bool:
        self._ready = self._ready or self._child.receive(seconds) is not None  # that it is ready is what it says first
        return self._ready

    def _ended(self, end: dict[str, Any], trace: Trace) -> Outcome:
        if end.pop("resident") > GROWN:
            self._replace()
        return Outcome(**end, trace=trace if trace.lanes else None)

    def _replace(self) -> None:
        self._child.kill()
        if not self._closed:
            with suppress(OSError, RuntimeError):  # no process or thread can be started now: the next run tries again
                self._child, self._ready = Child(WORKER), False


def _cut_off(why: Why, trace: Trace | None, seconds: float) -> Outcome:
    """The outcome of a cell whose worker has ended before it."""
    if why == "time":
        return Outcome("timeout", CUT_OFF, trace, seconds)
    return Outcome("failed", TOO_LARGE if why == "memory" else CRASHED, trace, seconds)
