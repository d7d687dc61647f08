"""The slots of a server, which run the cells of all visitors, and the fair queue before them.

A cell is one experiment or audit to run; a task is a job of a visitor, with one cell or, for a sweep, many.
"""

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
from typing import Generic, TypeVar

from dpviz.datasets.uploads.files import TableFile
from dpviz.execution.increments import add_increment
from dpviz.experiments.task import OURS, TOO_LARGE, Cell, OnProgress, Outcome, StopSignal, execute, progress_of_cell
from dpviz.experiments.trace import Trace
from dpviz.processes import Child, ProcessEnded, pack, unpack

# -------------------------------------- the queue: visitors take turns, and so do the tasks of each visitor

T = TypeVar("T")  # an item of the queue
_Tasks = OrderedDict[str, deque[T]]  # the waiting items of one visitor by task, in the order of their turns


class FairQueue(Generic[T]):
    """A queue in which visitors take turns.

    A visitor with a hundred items waits as long for each as one with a single item, and the tasks of a visitor take
    turns, too. A visitor who withdraws all items keeps the turn for new ones, until that turn comes. Items that can
    wait have a queue of their own, whose turn comes when the other queue is empty.
    """

    def __init__(self) -> None:
        self._urgent: OrderedDict[str, _Tasks[T]] = OrderedDict()
        self._later: OrderedDict[str, _Tasks[T]] = OrderedDict()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, visitor: str, task: str, items: list[T], later: bool = False) -> None:
        """Add the items of one task of a visitor; they keep their order. later : true if they can wait."""
        with self._changed:
            if items:
                queue = self._later if later else self._urgent
                queue.setdefault(visitor, OrderedDict()).setdefault(task, deque()).extend(items)
                self._changed.notify_all()  # a waiting thread may accept only some items

    def take(self, fits: Callable[[T], bool] | None = None, later: bool = False) -> T | None:
        """Wait for the next item, remove it and return it; None when the queue has been closed.

        fits : a test for items that cannot wait; those that fail it are passed over. later : true if an item that can
        wait may be taken, too, where there is no other.
        """
        with self._changed:
            while not self._closed:
                item = _pop_next(self._urgent, fits)  # of the items that cannot wait
                if item is None and later:
                    item = _pop_next(self._later)
                if item is not None:
                    return item
                self._changed.wait()
            return None

    def withdraw(self, visitor: str, task: str) -> list[T]:
        """Remove the items of a task that have not been taken, and return them.

        The visitor stays in the queue, perhaps without items, and so keeps the turn.
        """
        with self._changed:
            for queue in (self._urgent, self._later):  # a task is in one of them
                items = queue.get(visitor, OrderedDict()).pop(task, None)
                if items:
                    return list(items)
            return []

    def ahead(self, visitor: str, task: str) -> list[T] | None:
        """Return the items that will be taken before the first item of a task; None if no item of it is in the queue.

        The turns are played on copies of the queues.
        """
        with self._changed:
            if task in self._urgent.get(visitor, {}):
                queue, earlier_queues = self._urgent, [self._urgent]
            elif task in self._later.get(visitor, {}):
                queue, earlier_queues = self._later, [self._urgent, self._later]
            else:
                return None
            first = queue[visitor][task][0]
            copies = [_copy(earlier) for earlier in earlier_queues]
        result: list[T] = []
        for copy in copies:
            item = _pop_next(copy)
            while item is not None and item is not first:
                result.append(item)
                item = _pop_next(copy)
        return result

    def close(self) -> None:
        """Close the queue: every thread that waits for an item returns with None."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def _copy(visitors: OrderedDict[str, _Tasks[T]]) -> OrderedDict[str, _Tasks[T]]:
    """Return a copy of a queue, from which items can be taken."""
    copy: OrderedDict[str, _Tasks[T]] = OrderedDict()
    for visitor, tasks in visitors.items():
        copy[visitor] = OrderedDict((task, deque(items)) for task, items in tasks.items())
    return copy


def _pop_next(visitors: OrderedDict[str, _Tasks[T]], fits: Callable[[T], bool] | None = None) -> T | None:
    """Remove the next item from a queue and return it; None if there is none.

    The first item of the first task whose first item fits is taken. Its task goes behind the visitor's other tasks, and
    the visitor behind all others; a task or a visitor without further items leaves the queue.
    """
    entries = (
        (visitor, task, items)
        for visitor, tasks in visitors.items()
        for task, items in tasks.items()
        if fits is None or fits(items[0])
    )
    entry = next(entries, None)
    if entry is None:
        return None
    visitor, task, items = entry
    if fits is None:
        # Visitors before this one have withdrawn all their items, and their turn has passed: they leave. (With `fits`,
        # they may have items that failed it.)
        for earlier in list(visitors):
            if earlier == visitor:
                break
            del visitors[earlier]
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
PATIENCE = 1.0  # seconds that a worker has for stopping its cell, before it is killed
POLL_INTERVAL = 0.05  # seconds between two checks for a request to stop
MEANWHILE = 1.0  # seconds that a run may compute in this process while the worker is still starting
GROWN = 800e6  # bytes of memory; a worker that holds more after a run is replaced by a fresh one
CRASHED = (
    "The process that computed this run has ended, perhaps because the machine ran out of memory. "
    "Run again, with fewer repeats or smaller data if that happens again."
)
CUT_OFF = "It was inside a long step; what had been sent until then is kept."
_log = logging.getLogger(__name__)


@dataclass
class _Allowance:
    """Computing time that remains for all cells of one task together, in seconds."""

    seconds: float


@dataclass
class _Turn:
    """A cell in the queue or in a slot.

    number : of the cell among those of its task. outcomes : the queue that gets the number and the outcome. short :
    true if the cell is known to be short, so that the slot for short cells may take it.
    """

    number: int
    cell: Cell
    stopping: StopSignal
    on_progress: Callable[[Trace | None, float], None]
    allowance: _Allowance
    outcomes: SimpleQueue[tuple[int, Outcome]]
    short: bool


class Slots:
    """The slots of a server: each runs one cell at a time, for any visitor; other cells wait in a fair queue.

    count : number of slots.
    processes : true if each slot runs cells in a worker process, which is started at once, else in a thread.
    max_bytes : memory that a cell may take in a worker process; threads have no such limit.
    short : true for one more slot, which takes only short cells, so that they do not wait for long ones.

    Cells that can wait are taken only by the first slot, while no others are in the queue.
    """

    def __init__(self, count: int, processes: bool = False, max_bytes: float = 3e9, short: bool = False) -> None:
        self.count, self.max_bytes = count, max_bytes
        self._queue: FairQueue[_Turn] = FairQueue()
        total = count + 1 if short else count  # the last slot is that for short cells
        self._workers = [_Worker(max_bytes) for _ in range(total)] if processes else []
        for slot in range(total):
            worker = self._workers[slot] if processes else None
            threading.Thread(target=self._serve, args=(slot, worker), daemon=True, name="dpviz-slot").start()

    def executor(
        self, visitor: str = "", max_seconds: float = float("inf"), short: bool = False, later: bool = False
    ) -> "SlotExecutor":
        """Return the executor for one task of a visitor.

        max_seconds : computing time of all its cells together. short : true if its cells are known to be short. later :
        true if they can wait until no others are in the queue.
        """
        return SlotExecutor(self, visitor, _Allowance(max_seconds), short, later)

    @property
    def pids(self) -> list[int]:
        """Process numbers of the workers, by which a test can watch or kill one."""
        return [worker.pid for worker in self._workers]

    def close(self) -> None:
        """End the workers; nothing can be run afterwards."""
        self._queue.close()
        for worker in self._workers:
            worker.close()

    def _serve(self, slot: int, worker: "_Worker | None") -> None:
        """Take and run cells from the queue until it is closed: the loop of one slot's thread."""

        def is_short(turn: _Turn) -> bool:
            return turn.short

        fits = is_short if slot == self.count else None  # the slot after the first `count` is that for short cells
        while True:
            turn = self._queue.take(fits, later=slot == 0)
            if turn is None:
                return
            run = execute if worker is None else partial(worker.execute, short=turn.short)
            try:
                outcome = run(turn.cell, turn.stopping, turn.on_progress, turn.allowance.seconds)
            except Exception:  # of any kind, since a slot whose thread has ended would be missing for ever
                _log.exception("run failed")
                outcome = Outcome("failed", OURS)
            turn.allowance.seconds -= outcome.seconds
            turn.outcomes.put((turn.number, outcome))
            del turn, outcome  # a waiting slot must not hold a visitor's table in memory


class SlotExecutor:
    """An `Executor` for one task of a visitor: its cells wait in the queue of a server's slots, which run them."""

    def __init__(self, slots: Slots, visitor: str, allowance: _Allowance, short: bool, later: bool) -> None:
        self._slots, self._visitor, self._allowance, self._short, self._later = slots, visitor, allowance, short, later
        self._task = uuid.uuid4().hex
        self._stopping: StopSignal | None = None

    def withdraw_if_stopped(self) -> None:
        """If the task is to stop, remove its waiting cells from the queue; their outcome is "stopped"."""
        if self._stopping is not None and self._stopping.is_set():
            for turn in self._queue.withdraw(self._visitor, self._task):
                turn.outcomes.put((turn.number, Outcome("stopped")))

    def run(
        self, cells: Sequence[Cell], stopping: StopSignal, on_progress: OnProgress | None = None
    ) -> Iterator[tuple[int, Outcome]]:
        """Run the cells as `Executor.run` describes: yield the number and the outcome of each cell when it ends.

        A caller that closes this iterator early sets `stopping` first; the waiting cells then leave the queue.
        """
        outcomes: SimpleQueue[tuple[int, Outcome]] = SimpleQueue()
        turns = [
            _Turn(number, cell, stopping, progress_of_cell(on_progress, number), self._allowance, outcomes, self._short)
            for number, cell in enumerate(cells)
        ]
        n_missing, self._stopping = len(turns), stopping
        self._queue.put(self._visitor, self._task, turns, self._later)
        try:
            while n_missing:
                self.withdraw_if_stopped()
                try:
                    number, outcome = outcomes.get(timeout=POLL_INTERVAL)
                except Empty:
                    continue
                n_missing -= 1
                yield number, outcome
        finally:
            self._queue.withdraw(self._visitor, self._task)

    @property
    def _queue(self) -> FairQueue[_Turn]:
        return self._slots._queue

    @property
    def position(self) -> int | None:
        """Number of cells that come before the first waiting cell of this task; None if none of its cells waits.

        For a short task only short cells count, since these have a slot of their own.
        """
        ahead = self._queue.ahead(self._visitor, self._task)
        if ahead is None:
            return None
        return sum(turn.short for turn in ahead) if self._short else len(ahead)


class _Worker:
    """A worker process, which is replaced by another one where it has ended. Only one thread uses it at a time."""

    def __init__(self, max_bytes: float) -> None:
        self._max_bytes = max_bytes
        self._child, self._ready = Child(WORKER), False  # ready: it has said that it has started
        self._number = 0  # of the latest cell; requests to stop name the cell by it
        self._closed = False

    @property
    def pid(self) -> int:
        return self._child.pid

    def close(self) -> None:
        """End the process for good."""
        self._closed = True
        self._child.kill()

    def execute(
        self,
        cell: Cell,
        stopping: StopSignal,
        on_progress: Callable[[Trace | None, float], None],
        max_seconds: float,
        short: bool = False,
    ) -> Outcome:
        """Run a cell in the worker process; a process that has ended is replaced.

        The first visitor does not wait for the process to start: meanwhile a short run begins in this process. If it
        does not end within MEANWHILE, it begins again in the worker, where its numbers are the same. A run that
        cannot be repeated exactly, as on a visitor's file, never does so: that would be two releases.
        """
        if stopping.is_set():
            return Outcome("stopped")
        if max_seconds < 0:  # earlier cells of the task have used up its time
            return Outcome("timeout")
        if not self._child.alive:  # it has ended since the last run, which is no failure of this one
            self._replace()
        self._number += 1
        trace, start = Trace({}), time.monotonic()  # the trace is filled as records arrive
        try:
            if short and cell.repeatable and not self._has_started():
                outcome = execute(cell, stopping, on_progress, min(MEANWHILE, max_seconds))
                is_only_meanwhile_over = outcome.state == "timeout" and outcome.seconds <= max_seconds
                if not is_only_meanwhile_over:
                    return outcome
            return self._converse(cell, stopping, on_progress, max_seconds, trace)
        except ProcessEnded as ended:
            self._replace()
            received = trace if trace.arm_traces else None
            if stopping.is_set():
                return Outcome("stopped", CUT_OFF, received, time.monotonic() - start)
            # The task is charged for no more than the cell was allowed, also if its process was slow to end.
            seconds = min(max_seconds, time.monotonic() - start)
            if ended.why == "time":
                return Outcome("timeout", CUT_OFF, received, seconds)
            return Outcome("failed", TOO_LARGE if ended.why == "memory" else CRASHED, received, seconds)
        except BaseException:
            self._replace()  # its next messages belong to this run, and must not be taken for those of the next run
            raise

    def _converse(
        self,
        cell: Cell,
        stopping: StopSignal,
        on_progress: Callable[[Trace | None, float], None],
        max_seconds: float,
        trace: Trace,
    ) -> Outcome:
        """Send the cell to the process, and receive its records into `trace` until it has ended; return the outcome.

        Raises ProcessEnded if the process ends before the cell has, or must be killed.
        """
        files = {name: str(table.path) for name, table in cell.tables.items() if isinstance(table, TableFile)}
        tables = {name: table for name, table in cell.tables.items() if name not in files}
        request = {"number": self._number, "text": cell.text, "keep": cell.keep, "files": files}
        limits = {"max_bytes": self._max_bytes, "max_seconds": max_seconds}
        while not self._has_started(POLL_INTERVAL):  # sending would block until then, and not notice a stop
            if stopping.is_set():
                return Outcome("stopped")
        self._child.send(pack(request | limits, tables))
        stop_sent: float | None = None
        while True:
            message = self._child.receive(POLL_INTERVAL)
            if message is not None:
                header, arrays = unpack(message)
                if header["trace"]:
                    add_increment(trace, header["trace"], arrays)
                if "end" in header:
                    end = header["end"]
                    if end.pop("resident") > GROWN:  # bytes of memory that the process has in use
                        self._replace()
                    return Outcome(**end, trace=trace if trace.arm_traces else None)
                on_progress(trace if trace.arm_traces else None, header["progress"])
            if stopping.is_set():
                if stop_sent is None:
                    stop_sent = time.monotonic()
                    self._child.send(pack({"stop": self._number}, {}))
                elif time.monotonic() - stop_sent > PATIENCE:
                    raise ProcessEnded("crash")  # `execute` kills the process

    def _has_started(self, seconds: float = 0.0) -> bool:
        """Wait up to `seconds` for the process to start; return true if it has."""
        self._ready = self._ready or self._child.receive(seconds) is not None  # its first message says that it is ready
        return self._ready

    def _replace(self) -> None:
        """Kill the process and start another one, unless the worker is closed."""
        self._child.kill()
        if not self._closed:
            with suppress(OSError, RuntimeError):  # if no process can be started now, the next run tries again
                self._child, self._ready = Child(WORKER), False
