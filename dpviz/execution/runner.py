"""The runner: experiments, sweeps and audits in the background, with progress and stop, in a fair queue before its
slots."""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import Literal

import numpy as np

from dpviz.datasets.base import NO_TABLES
from dpviz.errors import UserError
from dpviz.execution.auditing import Auditing
from dpviz.execution.executors import SlotExecutor, Slots
from dpviz.execution.store import Store, Stored
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.task import OURS, Cell, Ending, Executor, InThread, seconds_left
from dpviz.experiments.trace import Trace
from dpviz.sweeps.sweep import Sweep, SweepStep
from dpviz.sweeps.sweep_result import SweepResult

State = Literal["queued", "running", "done", "stopped", "timeout", "failed"]
KEPT, KEPT_BYTES = 32, 256e6  # limits of the finished runs on public data that are kept: their number and their size
_POLL_INTERVAL = 0.05  # seconds between two reads of the state of a job that computes the same
_log = logging.getLogger(__name__)


class Job:
    """One experiment, sweep or audit in line, under way or finished. Its results are append-only: they may be read
    while it runs.

    task : the experiment, sweep or audit; experiment : the same, or the one that a sweep varies.
    trace : the records of an experiment or audit; result : the results of a sweep. message : a sentence on its end, if
        there is something to say.
    seconds : wall-clock time since it began; computing : computing time of a finished experiment or audit.
    key : equal for jobs with the same result, number by number; empty for a job that no other may share.
    later : whether it can wait until no others are in the queue.
    slot_executor : its executor in the queue of the slots; None for a job that runs elsewhere.
    """

    def __init__(
        self, task: Experiment | Sweep | Auditing, tables: Mapping[str, np.ndarray], later: bool = False
    ) -> None:
        self.task, self.later = task, later
        self.experiment = task.experiment if isinstance(task, Sweep) else task
        self.state: State = "queued"
        self.message = ""
        self.trace: Trace | None = None
        self.result: SweepResult | None = None
        self.progress = 0.0
        self.seconds = self.computing = 0.0
        stored = isinstance(task, Sweep) and not later  # its points are in the store, and it may be resumed
        shared = not stored and Cell(self.experiment, tables).repeatable
        self.key = task.to_json() if shared else ""
        self.slot_executor: SlotExecutor | None = None
        self._tables = tables
        self._begun: float | None = None
        self._restored = 0.0
        self._stopping, self._finished, self._lock = threading.Event(), threading.Event(), threading.Lock()
        self._has_curves = threading.Event()  # also set when the job finishes without curves

    @property
    def active(self) -> bool:
        """True if the job is still queued or running."""
        return self.state in ("queued", "running")

    @property
    def position(self) -> int | None:
        """Number of runs that come before it; None unless it waits."""
        return self.slot_executor.position if self.slot_executor is not None and self.state == "queued" else None

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds to the end, from the progress so far; None before there is any."""
        return seconds_left(self.seconds, self.progress, self._restored)

    @property
    def bytes(self) -> int:
        """Size of the recorded numbers, in bytes."""
        return 0 if self.trace is None else self.trace.bytes

    def wait(self, seconds: float) -> None:
        """Return when the job has finished, or after `seconds`."""
        self._finished.wait(seconds)

    def wait_for_curves(self, seconds: float) -> None:
        """Return when every method has a curve to draw, when the job has finished, or after `seconds`."""
        self._has_curves.wait(seconds)

    def stop(self) -> None:
        """Ask the job to stop; what was computed is kept. If the job waits, its visitor keeps the turn for the next
        job."""
        self._stopping.set()
        if (
            self.slot_executor is not None
        ):  # that of the other job, if this one follows another; only stopped cells leave it
            self.slot_executor.leave()

    def let_go(self, tables: Collection[str]) -> None:
        """Stop if it computes on one of these tables, given by identity, which its visitor has removed."""
        if not self._tables.keys().isdisjoint(tables):
            self.stop()

    def work(self, executor: Executor) -> None:
        """Run to the end, to a stop, or to a limit. Never raises."""
        try:
            self._end(self._sweep(executor) if isinstance(self.task, Sweep) else self._run(executor))
        except UserError as error:
            self._end("failed", str(error))
        except Exception:
            _log.exception("run failed")
            self._end("failed", OURS)

    def follow(self, leader: "Job") -> bool:
        """Copy the results of `leader`, which computes the same, until it ends; return whether this job has ended, too.

        False if the leader was stopped by its visitor: then this job must compute.
        """
        self.slot_executor = leader.slot_executor
        while (state := leader.state) in ("queued", "running") and not self._stopping.is_set():
            self._copy(leader)
            self.state = state
            leader.wait(_POLL_INTERVAL)
        if self._stopping.is_set():
            self._end("stopped")
        elif leader.state in ("done", "timeout", "failed"):
            self._copy(leader)
            self._end(leader.state, leader.message)
        else:
            self.state = "queued"
        return not self.active

    def _copy(self, leader: "Job") -> None:
        self._set_trace(leader.trace)
        self.result = leader.result
        self.progress, self.seconds, self.computing = leader.progress, leader.seconds, leader.computing

    def _set_trace(self, trace: Trace | None) -> None:
        if trace is not None:
            self.trace = trace
            if trace.has_curves:
                self._has_curves.set()

    def _run(self, executor: Executor) -> Ending:
        assert not isinstance(self.task, Sweep)
        ((_, outcome),) = executor.run((Cell(self.task, self._tables),), self._stopping, self._on_progress)
        self._on_progress(0, outcome.trace, 1.0 if outcome.state == "done" else self.progress)
        self.message, self.computing = outcome.message, outcome.seconds
        return outcome.state

    def _sweep(self, executor: Executor) -> Ending:
        assert isinstance(self.task, Sweep)
        for step in self.task.stream(self._tables, executor, self._stopping, self._on_step):
            self._on_step(step)
        return step.result.cut or "done"

    def _on_step(self, step: SweepStep) -> None:
        with self._lock:  # a point may go on for a moment when its sweep has failed
            if self.active:
                self.result, self._restored = step.result, step.restored
                self._on_progress(0, None, step.progress)

    def _on_progress(self, _: int, trace: Trace | None, progress: float) -> None:
        """Note the trace so far and the progress."""
        now = time.monotonic()
        self._begun = now if self._begun is None else self._begun
        self._set_trace(trace)
        self.progress, self.seconds = progress, now - self._begun
        if self.state == "queued":
            self.state = "running"

    def _end(self, state: Ending, message: str = "") -> None:
        self._tables = {}  # an upload must not outlive its run
        with self._lock:
            if state == "failed" and self.result is not None and not self.result.finished:
                self.result = None  # without a finished point there is nothing to show
            self.message, self.state = message or self.message, state
        self._finished.set()
        self._has_curves.set()


class Runner:
    """Runs the experiments, sweeps and audits of all users of a server; jobs wait in a fair queue before its slots.

    A finished run on public data is kept, and one that is under way is shared: when a class opens the same preset, it
    is computed once.

    slots : runs at the same time. processes : run in worker processes, which a stop or a limit can always end, instead
        of threads. short : short runs have a slot of their own, as in `Slots`.
    max_seconds : of computing time, after which a run ends with the results so far. max_sweep_seconds : the same for
        all points of a sweep together; runs of others are computed between its points.
    max_bytes : of memory that a run may need. kept_bytes : of the finished runs that are kept, together.
    store : where sweeps read finished cells, and write theirs.
    """

    def __init__(
        self,
        slots: int = 2,
        max_seconds: float = 120.0,
        max_sweep_seconds: float = 600.0,
        max_bytes: float = 3e9,
        kept_bytes: float = KEPT_BYTES,
        processes: bool = False,
        store: Store | None = None,
        short: bool = False,
    ) -> None:
        self.max_seconds, self.max_sweep_seconds, self.max_bytes = max_seconds, max_sweep_seconds, max_bytes
        self._kept_bytes, self.store = kept_bytes, store
        self.slots = Slots(slots, processes, max_bytes, short)
        self._lock = threading.Lock()
        self._active: set[Job] = set()
        self._leaders: dict[str, Job] = {}  # runs under way that other jobs may follow, by their key
        self._kept: OrderedDict[str, Job] = OrderedDict()

    def submit(
        self,
        task: Experiment | Sweep | Auditing,
        tables: Mapping[str, np.ndarray] = NO_TABLES,
        wait: bool = False,
        visitor: str = "",
        short: bool = False,
        later: bool = False,
        elsewhere: Executor | None = None,
    ) -> Job:
        """Put an experiment, a sweep or an audit in the queue; with `wait`, run it in the caller's thread instead.

        visitor : its owner; visitors take turns. short : whether the run is known to be short. later : whether it can
            wait until no others are in the queue; a sweep then has the time of one run.
        elsewhere : an executor to use instead of the slots of this server, such as a cluster, without waiting in the
            queue.
        """
        job = Job(task, tables, later)
        finished = self._finished(job)
        if finished is not None:
            return finished
        if wait:
            job.work(InThread(self.max_seconds))
            return job
        with self._lock:
            self._active.add(job)
        executor = elsewhere
        if executor is None:
            max_seconds = self.max_sweep_seconds if isinstance(task, Sweep) and not later else self.max_seconds
            executor = job.slot_executor = self.slots.executor(visitor, max_seconds, short, later)
        threading.Thread(target=self._complete, args=(job, executor), daemon=True, name="dpviz-job").start()
        return job

    @property
    def waiting(self) -> int:
        """Number of jobs in the queue that have not started, without those that can wait."""
        with self._lock:
            return sum(job.state == "queued" and not job.later for job in self._active)

    def close(self) -> None:
        """End the worker processes; nothing can be run afterwards."""
        self.slots.close()

    def _complete(self, job: Job, executor: Executor) -> None:
        """Bring a job to its end: compute it, or follow another one that computes the same."""
        slot_executor = job.slot_executor
        if self.store is not None and isinstance(job.task, Sweep):
            executor = Stored(executor, self.store)
        try:
            while (leader := self._leader(job)) is not job:
                if job.follow(leader):
                    return
            job.slot_executor = slot_executor
            job.work(executor)
            self._keep(job)
        finally:
            with self._lock:
                self._active.discard(job)

    def _leader(self, job: Job) -> Job:
        """Return the running or kept job with the same key, else this one."""
        if not job.key:
            return job
        with self._lock:
            if job.key in self._kept:
                return self._kept[job.key]
            leader = self._leaders.get(job.key)
            if leader is None or not leader.active:
                leader = self._leaders[job.key] = job
            return leader

    def _finished(self, job: Job) -> Job | None:
        """Return the kept finished run with the same key; None without one."""
        with self._lock:
            if job.key in self._kept:
                self._kept.move_to_end(job.key)
            return self._kept.get(job.key)

    def _keep(self, job: Job) -> None:
        """Keep a finished run for the next visitor who opens it; the oldest make room, and one that is too large is
        not kept."""
        with self._lock:
            if self._leaders.get(job.key) is job:
                del self._leaders[job.key]
            if job.key and job.state == "done" and job.bytes <= self._kept_bytes:
                self._kept[job.key] = job
            while len(self._kept) > KEPT or sum(other.bytes for other in self._kept.values()) > self._kept_bytes:
                self._kept.popitem(last=False)
