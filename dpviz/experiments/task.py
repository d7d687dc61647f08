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
from dpviz.experiments.experiment import Experiment, Heartbeat, Step
from dpviz.experiments.trace import Trace
from dpviz.specification import classes_in, is_ours

Keep = Literal["all", "last"]
Ending = Literal["done", "stopped", "timeout", "failed"]
# Sentences to the user for a run that ended by a mistake of the program, or for want of memory.
OURS = "Something went wrong on our side. The settings are kept; please report this."
TOO_LARGE = "This run needed more memory than a run may use. Choose fewer repeats, fewer methods, or smaller data."
_log = logging.getLogger(__name__)


class Task(Protocol):
    """The interface that an experiment and an audit share: settings that can be written as text, and a run in steps."""

    @property
    def public(self) -> bool:
        """True if its data are public."""

    def to_json(self) -> str:
        """Return all settings as text, from which another process can build the same task."""

    def stream(self, tables: Mapping[str, np.ndarray], heartbeat: Heartbeat) -> Iterator[Step]:
        """Run the task, yielding a step after each iteration or block of runs.

        heartbeat : called from time to time within a step that takes long; it may raise an exception to stop the run.
        """


@dataclass(frozen=True)
class Cell:
    """One experiment or audit to be run: the unit of work, of storing and of scaling out.

    tables : the visitor's tables, by identity; empty for public data.
    keep : "all" to keep the whole trace; "last" to keep only the last record of every arm, without outputs, which is
        enough for a sweep.
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
        """Name under which the result is cached or stored: a hash of settings and `keep`, 64 hexadecimal digits."""
        return sha256(f"{self.keep}\n{self.text}".encode()).hexdigest()

    @property
    def repeatable(self) -> bool:
        """True if the cell may be run again and gives the same numbers: its data are public, and no visitor's table."""
        return self.experiment.public and not self.tables

    @property
    def storable(self) -> bool:
        """True if it is repeatable, and only dpviz computes its numbers: code of the user's may change from run to run,
        and a store cannot tell."""
        return self.repeatable and all(map(is_ours, classes_in(self.experiment)))


@dataclass(frozen=True)
class Outcome:
    """The way in which the run of a cell ended, and its results until then.

    state : "done", "stopped" by the caller, "timeout" at a time limit, or "failed".
    message : a sentence to the user if it failed, else "".
    trace : None if the run did not get as far as a record.
    seconds : of computing time, including that of other processes that worked for the run.
    left_out : labels of the arms that met an error during the run, and its text. Only for cells that keep the "last"
        record; in others such an error fails the whole cell.
    restored : True if the result was read from a store instead of computed.
    """

    state: Ending
    message: str = ""
    trace: Trace | None = None
    seconds: float = 0.0
    left_out: Mapping[str, str] = field(default_factory=dict)
    restored: bool = False


# Called with the index of a cell, its trace so far (None while the data are loaded), and its progress in [0, 1].
OnProgress = Callable[[int, Trace | None, float], None]


class StopSignal(Protocol):
    """A signal by which a caller stops a run, such as a `threading.Event`."""

    def is_set(self) -> bool:
        """Return whether the run shall stop."""


class Executor(Protocol):
    """A means to run cells: the caller's thread, the worker processes of a server, a cluster."""

    def run(
        self, cells: Sequence[Cell], stopping: StopSignal, on_progress: OnProgress | None = None
    ) -> Iterator[tuple[int, Outcome]]:
        """Run all cells; yield the index of each cell in the sequence, and its outcome, when it ends, in any order.

        A stop ends the cells that run, which keep their results so far; those that have not begun get the outcome
        "stopped" without a trace. `on_progress` is called when a cell begins and while it runs, by any thread. The
        numbers in the results do not depend on the executor.
        """


@dataclass(frozen=True)
class SerialExecutor:
    """Executor that runs one cell after the other in the caller's thread.

    max_seconds : computing time that all cells together may take.
    """

    max_seconds: float = math.inf

    def run(
        self, cells: Sequence[Cell], stopping: StopSignal, on_progress: OnProgress | None = None
    ) -> Iterator[tuple[int, Outcome]]:
        """Run the cells as `Executor.run` describes, in their order."""
        remaining = self.max_seconds
        for number, cell in enumerate(cells):
            outcome = execute(cell, stopping, progress_of_cell(on_progress, number), remaining)
            remaining -= outcome.seconds
            yield number, outcome


def progress_of_cell(on_progress: OnProgress | None, number: int) -> Callable[[Trace | None, float], None]:
    """Return a callback (trace, progress) of the cell `number`, which calls `on_progress`, if any, with this number."""
    return lambda trace, progress: None if on_progress is None else on_progress(number, trace, progress)


def seconds_left(elapsed: float, progress: float, restored: float = 0.0) -> float | None:
    """Estimate the seconds to the end of a run at its speed so far; None while too little is done to know the speed.

    elapsed : seconds since the start.
    progress : share of the work that is done, in [0, 1].
    restored : part of that share which was read from a store at the start and took no time.
    """
    share = progress - restored  # that was computed in the elapsed time
    # 2 % is a choice: after less work the estimate would jump.
    return elapsed * (1 - progress) / share if share > 0.02 else None


def execute(
    cell: Cell, stopping: StopSignal, on_progress: Callable[[Trace | None, float], None], max_seconds: float = math.inf
) -> Outcome:
    """Run a cell in this thread to its end, a stop, or the time limit; an error of the run is an outcome, too.

    on_progress : called at the start and during the run with the trace so far (None while the data are loaded) and the
        progress in [0, 1].
    max_seconds : limit of the computing time of this thread and of processes that work for the run; below 0 the cell
        is not begun.
    """
    if stopping.is_set():
        return Outcome("stopped")
    if max_seconds < 0:
        return Outcome("timeout")
    on_progress(None, 0.0)
    start, running = time.thread_time(), _Running(cell, stopping, on_progress, max_seconds)
    try:
        state, message = running.run_all_arms(), ""
    except UserError as error:
        state, message = "failed", error.sentence
    except MemoryError:
        state, message = "failed", TOO_LARGE
    except Exception:
        _log.exception("run failed")
        state, message = "failed", OURS
    trace = running.trace
    if trace is not None and cell.keep == "last":
        trace = trace.last_records()
    return Outcome(state, message, trace, time.thread_time() - start + running.seconds_elsewhere, running.left_out)


class _Interrupted(BaseException):
    """Raised at a checkpoint to end a run in the middle of a step, at a stop or a time limit.

    It is no `Exception`, so that no handler of errors inside the step catches it.
    """

    def __init__(self, state: Ending) -> None:
        super().__init__(state)
        self.state: Ending = state


class _Running:
    """The run of a cell: its trace so far, the arms that met an error, and the seconds of other processes."""

    def __init__(
        self, cell: Cell, stopping: StopSignal, on_progress: Callable[[Trace | None, float], None], max_seconds: float
    ) -> None:
        self._cell, self._stopping, self._on_progress = cell, stopping, on_progress
        self._deadline = time.thread_time() + max_seconds
        self.trace: Trace | None = None
        self.left_out: dict[str, str] = {}
        self.seconds_elsewhere = 0.0  # seconds of computing time of other processes

    def run_all_arms(self) -> Ending:
        """Run the cell; return how it ended.

        If an arm raises UserError during the run and only the last records are kept, every arm is run again by itself,
        so that one arm of a sweep does not cost the results of the others. These are the same as before: results of an
        arm do not depend on the other arms.
        """
        experiment = self._cell.experiment
        try:
            return self._stream(experiment)
        except UserError as error:
            if self.trace is None or self._cell.keep == "all" or not isinstance(experiment, Experiment):
                raise  # no data were loaded, the whole trace is wanted, or it is an audit, whose only arm is all of it
            if len(experiment.arms) == 1:  # there is no other arm to save
                self.left_out[experiment.arms[0].label] = error.sentence
                self.trace = None  # an arm that is left out has no records
                return "done"
        complete = Trace({})  # for its records alone: a sweep reads nothing else of it
        for arm in experiment.arms:
            try:
                state = self._stream(experiment.replaced(arms=(arm,)))
            except UserError as error:
                self.left_out[arm.label], state = error.sentence, "done"
            else:
                if self.trace is not None:
                    complete.arm_traces |= self.trace.arm_traces
            self.trace = complete  # in place of that of this arm alone
            if state != "done":
                return state
        return "done"

    def _stream(self, experiment: Task) -> Ending:
        """Run an experiment until it ends, a stop or the time limit, and keep its trace after every step."""
        earlier_seconds = self.seconds_elsewhere  # of runs before this one, where every arm runs by itself

        def on_step(step: Step) -> None:
            self.seconds_elsewhere = earlier_seconds + step.seconds_elsewhere
            if step.trace.arm_traces:  # the data are loaded
                self.trace = step.trace
            self._on_progress(self.trace, step.progress)
            if self._stopping.is_set():
                raise _Interrupted("stopped")
            if time.thread_time() + self.seconds_elsewhere > self._deadline:
                raise _Interrupted("timeout")

        steps = experiment.stream(self._cell.tables, on_step)
        try:
            for step in steps:
                on_step(step)
        except _Interrupted as interrupted:
            steps.close()  # type: ignore[attr-defined]  # streams are generators: this records the last state
            return interrupted.state
        return "done"
