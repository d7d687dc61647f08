"""Cells: experiments or audits to be run, their outcomes, and the executors that run many of them."""

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Literal, Protocol

import numpy as np

from dpviz.errors import UserError
from dpviz.experiments.experiment import Arm, Experiment, Heartbeat, Step
from dpviz.experiments.trace import Trace

Keep = Literal["all", "last"]
Ending = Literal["done", "stopped", "timeout", "failed"]
OURS = "Something went wrong on our side. The settings are kept; please report this."
TOO_LARGE = "This run needed more memory than a run may use. Choose fewer repeats, fewer methods, or smaller data."
_log = logging.getLogger(__name__)


class Task(Protocol):
    """An experiment or an audit, whose settings are text."""

    @property
    def public(self) -> bool:
        """True if its data are public."""

    def to_json(self) -> str:
        """Return the settings."""

    def stream(self, tables: Mapping[str, np.ndarray], heartbeat: Heartbeat) -> Iterator[Step]:
        """Run it, yielding a step after each record; see `Experiment.stream`."""


@dataclass(frozen=True)
class Cell:
    """One experiment or audit to be run: the unit of work, of storing and of scaling out.

    tables : the visitor's tables, by identity; empty for public data.
    keep : "all" of the trace, or of every arm the "last" record without outputs, which is enough for a sweep.
    """

    experiment: Task
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)
    keep: Keep = "all"

    @cached_property
    def text(self) -> str:
        """The settings of the task, as JSON."""
        return self.experiment.to_json()

    @property
    def key(self) -> str:
        """Name of the result, 64 hexadecimal digits: a hash of the settings and of `keep`."""
        return sha256(f"{self.keep}\n{self.text}".encode()).hexdigest()

    @property
    def repeatable(self) -> bool:
        """True if another run gives the same numbers: an experiment on public data, without a visitor's table."""
        return self.experiment.public and not self.tables


@dataclass(frozen=True)
class Outcome:
    """The end of a cell, and its results until then.

    message : a sentence, if it failed. seconds : of computing time. left_out : the arms that met a mistake during the
        run, with the reason, where only the last record is kept. restored : read from a store instead of computed.
    """

    state: Ending
    message: str = ""
    trace: Trace | None = None
    seconds: float = 0.0
    left_out: Mapping[str, str] = field(default_factory=dict)
    restored: bool = False


# Arguments: the number of a cell, its trace so far, its progress in [0, 1].
OnProgress = Callable[[int, Trace | None, float], None]


class Stopping(Protocol):
    """A signal that a run shall stop: a `threading.Event`, mostly."""

    def is_set(self) -> bool:
        """Return whether the run shall stop."""


class Executor(Protocol):
    """A means to run cells: the caller's thread, the worker processes of a server, a cluster."""

    def run(
        self, cells: Sequence[Cell], stopping: Stopping, on_progress: OnProgress | None = None
    ) -> Iterator[tuple[int, Outcome]]:
        """Run the cells; yield each one's index in the sequence and its outcome as it ends, in any order, but all of
        them.

        A stop ends the cells that run, which keep their results so far; the others are "stopped" without a trace.
        `on_progress` is called when a cell begins and while it runs, by any thread. The numbers do not depend on the
        executor.
        """


@dataclass(frozen=True)
class InThread:
    """Executor that runs one cell after the other in the caller's thread.

    max_seconds : of computing time that all of them may take together.
    """

    max_seconds: float = math.inf

    def run(
        self, cells: Sequence[Cell], stopping: Stopping, on_progress: OnProgress | None = None
    ) -> Iterator[tuple[int, Outcome]]:
        """Run the cells as `Executor.run` describes, in their order."""
        remaining = self.max_seconds
        for number, cell in enumerate(cells):
            outcome = execute(cell, stopping, numbered(on_progress, number), remaining)
            remaining -= outcome.seconds
            yield number, outcome


def numbered(on_progress: OnProgress | None, number: int) -> Callable[[Trace | None, float], None]:
    """Bind `on_progress` to the number of one cell."""
    return lambda trace, progress: None if on_progress is None else on_progress(number, trace, progress)


def seconds_left(elapsed: float, progress: float, restored: float = 0.0) -> float | None:
    """Estimate the time to the end, in seconds; None before there is progress to estimate it from.

    elapsed : seconds since the begin. progress : in [0, 1]. restored : the part of the progress that was there at the
        begin and took no time.
    """
    computed = progress - restored
    return elapsed * (1 - progress) / computed if computed > 0.02 else None


def execute(
    cell: Cell, stopping: Stopping, on_progress: Callable[[Trace | None, float], None], max_seconds: float = math.inf
) -> Outcome:
    """Run a cell in this thread, to its end, a stop or the time limit. Never raises.

    on_progress : called at first and after every step with the trace so far, None while the data are loaded, and the
        progress.
    max_seconds : of computing time of this thread and of processes that work for the run; below 0, it is not begun.
    """
    if stopping.is_set() or max_seconds < 0:
        return Outcome("stopped" if stopping.is_set() else "timeout")
    on_progress(None, 0.0)
    start, running = time.thread_time(), _Running(cell, stopping, on_progress, max_seconds)
    try:
        state, message = running.all_arms(), ""
    except UserError as error:
        state, message = "failed", str(error)
    except MemoryError:
        state, message = "failed", TOO_LARGE
    except Exception:
        _log.exception("run failed")
        state, message = "failed", OURS
    trace = running.trace
    if trace is not None and cell.keep == "last":
        trace = trace.ends()
    return Outcome(state, message, trace, time.thread_time() - start + running.elsewhere, running.left_out)


class _Interrupted(BaseException):
    """Ends a run inside a step. It is no `Exception`, so that no handler of errors inside the step catches it."""

    def __init__(self, state: Ending) -> None:
        super().__init__(state)
        self.state: Ending = state


class _Running:
    """A cell under way: its trace so far, and the arms that met a mistake."""

    def __init__(
        self, cell: Cell, stopping: Stopping, on_progress: Callable[[Trace | None, float], None], max_seconds: float
    ) -> None:
        self._cell, self._stopping, self._on_progress = cell, stopping, on_progress
        self._ends = time.thread_time() + max_seconds
        self.trace: Trace | None = None
        self.left_out: dict[str, str] = {}
        self.elsewhere = 0.0  # seconds of computing time of other processes

    def all_arms(self) -> Ending:
        """Run the cell. Where an arm meets a mistake and only the last records are kept, each arm then runs alone.

        That changes nothing for the others: results of an arm do not depend on the other arms.
        """
        experiment = self._cell.experiment
        try:
            return self._stream(experiment)
        except UserError as error:
            if self.trace is None or self._cell.keep == "all" or not isinstance(experiment, Experiment):
                raise  # the data are missing, or the whole trace is wanted: the user sees the error at once
            if len(experiment.arms) == 1:
                self.left_out[experiment.arms[0].label], self.trace = str(error), None
                return "done"
        complete = Trace({})
        for arm in experiment.arms:
            state = self._one_arm(experiment, arm, complete)
            if state != "done":
                return state
        return "done"

    def _one_arm(self, experiment: Experiment, arm: Arm, complete: Trace) -> Ending:
        """Run one arm and add its part to the trace `complete`, or its mistake to `left_out`."""
        try:
            state = self._stream(experiment.replaced(arms=(arm,)))
        except UserError as error:
            self.left_out[arm.label], state = str(error), "done"
        else:
            if self.trace is not None:
                complete.lanes |= self.trace.lanes
        self.trace = complete
        return state

    def _stream(self, experiment: Task) -> Ending:
        """Run an experiment, noting its trace at every step, to its end, a stop or the time limit."""
        earlier = self.elsewhere

        def on_step(step: Step) -> None:
            self.elsewhere = earlier + step.elsewhere
            if step.trace.lanes:  # data are loaded
                self.trace = step.trace
            self._on_progress(self.trace, step.progress)
            if self._stopping.is_set():
                raise _Interrupted("stopped")
            if time.thread_time() + self.elsewhere > self._ends:
                raise _Interrupted("timeout")

        steps = experiment.stream(self._cell.tables, on_step)
        try:
            for step in steps:
                on_step(step)
        except _Interrupted as interrupted:
            steps.close()  # type: ignore[attr-defined]  # streams are generators: this records the last state
            return interrupted.state
        return "done"
