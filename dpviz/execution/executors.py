"""The slots of a server: where its runs and sweeps are computed, and the line before them."""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from dpviz.execution.fair_queue import Line
from dpviz.execution.increments import extend
from dpviz.experiments.task import OURS, TOO_LARGE, Cell, OnProgress, Outcome, Stopping, execute, numbered, seconds_left
from dpviz.experiments.trace import Trace
from dpviz.messages import pack, unpack
from dpviz.processes import Child, Ended, Why

WORKER = "dpviz.execution.worker"
PATIENCE = 1.0  # seconds that a worker has to stop by itself
LOOK = 0.05  # seconds between two looks at whether somebody wants a run to stop
SHORT = 1.0  # seconds of a run that is computed here while the worker is still starting
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
    """A cell in line or in a slot."""

    number: int
    cell: Cell
    stopping: Stopping
    on_progress: Callable[[Trace | None, float], None]
    allowance: _Allowance
    ended: SimpleQueue[tuple[int, Outcome]]
    begun: float = 0.0
    progress: float = 0.0

    def hear(self, trace: Trace | None, progress: float) -> None:
        """Pass on what has been recorded so far."""
        self.progress = progress
        self.on_progress(trace, progress)

    @property
    def seconds_left(self) -> float:
        """About how long it will go on, for those who wait; of somebody's own file as declared, not by how it goes,
        which is a function of the data."""
        gone = time.monotonic() - self.begun
        left = seconds_left(gone, self.progress) if self.cell.experiment.public else None
        return max(0.0, self.cell.seconds - gone) if left is None else left


class Slots:
    """A number of cells at the same time, for all visitors of a server; the others wait in a fair line.

    count : slots. processes : whether each is a worker process, started at once, or a thread of this one.
    max_bytes : of memory that a cell may take in a worker process; threads know no such limit. quick : seconds of a
    cell up to which there is one more slot for it, where it waits for no long one; 0 if there is none.
    """

    def __init__(self, count: int, processes: bool = False, max_bytes: float = 3e9, quick: float = 0.0) -> None:
        self.count, self.max_bytes, self._quick = count, max_bytes, quick
        self._line: Line[_Turn] = Line()
        self._running: dict[int, _Turn] = {}
        every = count + (quick > 0)
        self._workers = [_Worker(max_bytes) for _ in range(every)] if processes else []
        for slot in range(every):
            worker = self._workers[slot] if processes else None
            threading.Thread(target=self._serve, args=(slot, worker), daemon=True, name="dpviz-slot").start()

    def place(self, visitor: str = "", max_seconds: float = float("inf")) -> "Place":
        """Who runs the cells of one task of a visitor, which may take so much computing time together."""
        return Place(self, visitor, _Allowance(max_seconds))

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
        while (turn := self._line.take(self.is_quick if slot == self.count else None)) is not None:
            turn.begun = time.monotonic()
            self._running[slot] = turn
            run = execute if worker is None else worker.execute
            try:
                outcome = run(turn.cell, turn.stopping, turn.hear, turn.allowance.seconds)
            except Exception:  # whatever it is: a slot that ends is missing for ever
                _log.exception("run failed")
                outcome = Outcome("failed", OURS)
            turn.allowance.seconds -= outcome.seconds
            del self._running[slot]
            turn.ended.put((turn.number, outcome))
            del turn, outcome  # a slot that waits keeps nobody's table

    def is_quick(self, turn: _Turn) -> bool:
        """Whether there is one more slot for it."""
        return 0 < turn.cell.seconds <= self._quick

    def wait(self, ahead: Sequence[_Turn], quick: bool) -> float:
        """About how many seconds it takes until the slots that a turn may have, which is quick or not, have dealt with
        those ahead of it and can take another one."""
        running = self._running.copy()
        free = [running[slot].seconds_left if slot in running else 0.0 for slot in range(self.count + quick)]
        for turn in ahead:
            allowed = free if self.is_quick(turn) else free[: self.count]
            free[allowed.index(min(allowed))] += turn.cell.seconds
        return min(free)


class Place:
    """An `Executor`: one task of a visitor, in the line of a server's slots."""

    def __init__(self, slots: Slots, visitor: str, allowance: _Allowance) -> None:
        self._slots, self._visitor, self._allowance = slots, visitor, allowance
        self._task = uuid.uuid4().hex
        self._stopping: Stopping | None = None
        self._quick = False  # whether what waits is

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
            _Turn(number, cell, stopping, numbered(on_progress, number), self._allowance, ended)
            for number, cell in enumerate(cells)
        ]
        missing, self._stopping, self._quick = len(turns), stopping, any(map(self._slots.is_quick, turns))
        self._line.put(self._visitor, self._task, turns)
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
    def _line(self) -> Line[_Turn]:
        return self._slots._line

    @property
    def position(self) -> int | None:
        """How many cells come before the first of these that waits; None if none waits."""
        return None if (ahead := self._ahead) is None else len(ahead)

    @property
    def expected_wait(self) -> float | None:
        """About how many seconds the first of these that waits has to; None if none waits."""
        return None if (ahead := self._ahead) is None else self._slots.wait(ahead, self._quick)

    @property
    def _ahead(self) -> list[_Turn] | None:
        """What comes before the first of these that waits: for what is quick, other quick ones."""
        ahead = self._line.ahead(self._visitor, self._task)
        return ahead if ahead is None or not self._quick else list(filter(self._slots.is_quick, ahead))


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
        self, cell: Cell, stopping: Stopping, on_progress: Callable[[Trace | None, float], None], max_seconds: float
    ) -> Outcome:
        """Run a cell in the process. Never raises; a process that has ended is replaced.

        The first visitor does not wait for the process to start: meanwhile, what is short is run here.
        """
        if stopping.is_set() or max_seconds < 0:
            return Outcome("stopped" if stopping.is_set() else "timeout")
        if not self._child.alive:  # it has ended since the last run: no fault of this one
            self._replace()
        self._number += 1
        trace, began = Trace({}), time.monotonic()
        try:
            if 0 < cell.seconds < SHORT and not self._has_started():
                return execute(cell, stopping, on_progress, max_seconds)
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
