"""The runner: experiments and sweeps in the background, with progress and stop, a bounded number at a time."""

import logging
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Literal

import numpy as np

from dpviz.datasets.base import NO_TABLES
from dpviz.errors import UserError
from dpviz.experiments.cells import InThread
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.sweep import Sweep, SweepStep
from dpviz.experiments.sweep_result import SweepResult
from dpviz.experiments.trace import Trace

State = Literal["queued", "running", "done", "stopped", "timeout", "failed"]
KEPT, KEPT_BYTES = 32, 256e6  # finished runs on public data that are kept for all visitors, and what they may weigh
_log = logging.getLogger(__name__)


class Job:
    """One experiment or sweep on its way. What it has found is append-only, so it may be read while the job runs.

    task : what is run; experiment : the same, or the one that a sweep varies. trace : what an experiment has recorded;
    result : what a sweep has found. repeatable : whether another run would repeat it, number by number: an experiment
    on public data, without a table of anybody's.
    """

    def __init__(self, task: Experiment | Sweep, tables: Mapping[str, np.ndarray]) -> None:
        self.task = task
        self.experiment = task.experiment if isinstance(task, Sweep) else task
        self.state: State = "queued"
        self.message = ""
        self.trace: Trace | None = None
        self.result: SweepResult | None = None
        self.progress = 0.0
        self.seconds = 0.0
        self.repeatable = isinstance(task, Experiment) and task.problem.public and not tables
        self._tables = tables
        self._stopping, self._ended = threading.Event(), threading.Event()

    @property
    def active(self) -> bool:
        """Whether the job is still queued or running."""
        return self.state in ("queued", "running")

    @property
    def seconds_left(self) -> float | None:
        """Estimated time to the end, from the progress so far; None before there is any."""
        return self.seconds * (1 / self.progress - 1) if self.progress > 0.02 else None

    @property
    def bytes(self) -> int:
        """What the recorded numbers weigh, in bytes."""
        return 0 if self.trace is None else self.trace.bytes

    def wait(self, seconds: float) -> None:
        """Return when the job has ended, or after that time."""
        self._ended.wait(seconds)

    def stop(self) -> None:
        """Ask the job to stop; what was computed is kept."""
        self._stopping.set()

    def work(self, max_seconds: float) -> None:
        """Run to the end, to a stop, or to the time limit. Never raises."""
        try:
            self.state = self._stream(max_seconds)
        except UserError as error:
            self.message, self.state = str(error), "failed"
        except Exception:
            _log.exception("run failed")
            self.message = "Something went wrong on our side. The settings are kept; please report this."
            self.state = "failed"
        finally:
            self._tables = {}  # an upload must not outlive its run
            self._ended.set()

    def _stream(self, max_seconds: float) -> State:
        if self._stopping.is_set():
            return "stopped"
        self.state, began = "running", time.monotonic()
        if isinstance(self.task, Sweep):
            return self._sweep(self.task, began, max_seconds)
        steps = self.task.stream(self._tables)
        for step in steps:
            if step.trace.lanes:  # data are loaded
                self.trace = step.trace
            self.progress, self.seconds = step.progress, time.monotonic() - began
            if self._stopping.is_set() or self.seconds > max_seconds:
                steps.close()  # type: ignore[attr-defined]  # records the last state of every arm
                return "stopped" if self._stopping.is_set() else "timeout"
        return "done"

    def _sweep(self, sweep: Sweep, began: float, max_seconds: float) -> State:
        def hear(step: SweepStep) -> None:
            self.result, self.progress, self.seconds = step.result, step.progress, time.monotonic() - began

        for step in sweep.stream(self._tables, InThread(max_seconds), self._stopping, hear):  # noqa: B007
            pass
        return step.result.cut or "done"


class Runner:
    """A fixed number of worker threads for all users of a server; jobs wait in line.

    A run on public data that has been to its end is kept: a class that opens the same preset computes it once.

    slots : jobs that run at the same time; max_seconds : after which a job ends with what it has; max_bytes : what a
    page should not let a run need; kept_bytes : what the runs that are kept may weigh together.
    """

    def __init__(
        self, slots: int = 2, max_seconds: float = 120.0, max_bytes: float = 3e9, kept_bytes: float = KEPT_BYTES
    ) -> None:
        self.max_seconds, self.max_bytes, self._kept_bytes = max_seconds, max_bytes, kept_bytes
        self._line: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Job] = OrderedDict()
        for _ in range(slots):
            threading.Thread(target=self._serve, daemon=True, name="dpviz-runner").start()

    def submit(
        self,
        task: Experiment | Sweep,
        tables: Mapping[str, np.ndarray] = NO_TABLES,
        wait: bool = False,
    ) -> Job:
        """Put an experiment or a sweep in line; with `wait`, run it in the caller's thread instead."""
        job = Job(task, tables)
        kept = self._known(job)
        if kept is not None:
            return kept
        if wait:
            job.work(self.max_seconds)
        else:
            self._line.put(job)
        return job

    def _known(self, job: Job) -> Job | None:
        """A finished run of the same experiment, if it would only be repeated."""
        if not job.repeatable:
            return None
        key = job.task.to_json()
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def _keep(self, job: Job) -> None:
        """Remember a finished run for the next visitor who asks for it; the oldest make room, one too large is not."""
        if job.state != "done" or not job.repeatable or job.bytes > self._kept_bytes:
            return
        with self._lock:
            self._kept[job.task.to_json()] = job
            while len(self._kept) > KEPT or sum(kept.bytes for kept in self._kept.values()) > self._kept_bytes:
                self._kept.popitem(last=False)

    @property
    def waiting(self) -> int:
        """Jobs in line that have not started."""
        return self._line.qsize()

    def _serve(self) -> None:
        while True:
            job = self._line.get()
            job.work(self.max_seconds)
            self._keep(job)
