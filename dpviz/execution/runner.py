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
from dpviz.execution.store import Store, StoringExecutor
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.task import OURS, Cell, Ending, Executor, SerialExecutor, seconds_left
from dpviz.experiments.trace import Trace
from dpviz.sweeps.sweep import Sweep, SweepStep
from dpviz.sweeps.sweep_result import SweepResult

State = Literal["queued", "running", "done", "stopped", "timeout", "failed"]
KEPT, KEPT_BYTES = 32, 256e6  # of the finished runs on public data that are kept: largest number and largest total size
_POLL_INTERVAL = 0.05  # seconds between two checks of the state of a job that computes the same
_log = logging.getLogger(__name__)


class Job:
    """One experiment, sweep or audit, which waits in the queue, runs, or has finished.

    Its results only grow, so that other threads may read them while it runs.

    task : the experiment, sweep or audit.
    experiment : the task itself; of a sweep, the experiment that it varies.
    trace : the records of an experiment or audit.
    result : the results of a sweep.
    message : a sentence about its end, empty if there is nothing to say.
    progress : the finished part, in [0, 1].
    seconds : wall-clock time since it began.
    computing : computing time of a finished experiment or audit, in seconds.
    key : a text that is equal for jobs whose results are the same, number by number, so that one of them can be
        computed for all; empty for a job that others may not share.
    later : true if it can wait until no others are in the queue.
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
        # A sweep for which a visitor waits is shared point by point, by the store; other jobs are shared as a whole.
        is_shared_by_point = isinstance(task, Sweep) and not later
        is_shared_whole = not is_shared_by_point and Cell(self.experiment, tables).repeatable
        self.key = task.to_json() if is_shared_whole else ""
        self.slot_executor: SlotExecutor | None = None
        self._tables = tables
        self._begun: float | None = None  # time on the monotonic clock
        self._restored = 0.0  # part of the progress that came from the store, which took no time
        self._stopping, self._finished, self._lock = threading.Event(), threading.Event(), threading.Lock()
        self._has_curves = threading.Event()  # also set when the job finishes without curves

    @property
    def active(self) -> bool:
        """True if the job is still queued or running."""
        return self.state in ("queued", "running")

    @property
    def position(self) -> int | None:
        """Number of runs in the queue that come before it; None unless it waits."""
        if self.slot_executor is None or self.state != "queued":
            return None
        return self.slot_executor.position

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds to the end, from the progress so far; None while that is too little."""
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
        """Ask the job to stop; its results so far are kept.

        If the job waits, its visitor keeps the turn in the queue for the next job.
        """
        self._stopping.set()
        # While this job follows another one, it has the executor of that job, which goes on unless that job stops, too.
        if self.slot_executor is not None:
            self.slot_executor.withdraw_if_stopped()

    def stop_if_using(self, tables: Collection[str]) -> None:
        """Stop if the job computes on one of the tables with these identities, which its visitor has removed."""
        if not self._tables.keys().isdisjoint(tables):
            self.stop()

    def work(self, executor: Executor) -> None:
        """Compute the job on an executor, until its end, a stop, or a limit. Never raises."""
        try:
            if isinstance(self.task, Sweep):
                for step in self.task.stream(self._tables, executor, self._stopping, self._on_step):
                    self._on_step(step)
                self._end(step.result.cut or "done")  # `cut`: what left points without a result, a stop or a limit
            else:  # an experiment or audit is a single cell
                ((number, outcome),) = executor.run((Cell(self.task, self._tables),), self._stopping, self._on_progress)
                self._on_progress(number, outcome.trace, 1.0 if outcome.state == "done" else self.progress)
                self.message, self.computing = outcome.message, outcome.seconds
                self._end(outcome.state)
        except UserError as error:
            self._end("failed", str(error))
        except Exception:
            _log.exception("run failed")
            self._end("failed", OURS)

    def follow(self, leader: "Job") -> bool:
        """Copy the results of `leader`, which computes the same, until it ends or this job is stopped.

        Returns true if this job has then ended, too; false if the leader was stopped by its visitor, so that this job
        must be computed.
        """
        self.slot_executor = leader.slot_executor
        while not self._stopping.is_set():
            state = leader.state  # once, since it may change in between
            if state not in ("queued", "running"):
                break
            self._copy(leader)
            self.state = state
            leader.wait(_POLL_INTERVAL)
        if self._stopping.is_set():
            self._end("stopped")
        elif leader.state in ("done", "timeout", "failed"):
            self._copy(leader)
            self._end(leader.state, leader.message)
        else:  # the leader was stopped
            self.state = "queued"
        return not self.active

    def _copy(self, leader: "Job") -> None:
        """Take over the results and the progress of another job."""
        self._set_trace(leader.trace)
        self.result = leader.result
        self.progress, self.seconds, self.computing = leader.progress, leader.seconds, leader.computing

    def _set_trace(self, trace: Trace | None) -> None:
        """Store the trace so far, if there is one, and wake the threads that wait for curves if it has them."""
        if trace is not None:
            self.trace = trace
            if trace.has_curves:
                self._has_curves.set()

    def _on_step(self, step: SweepStep) -> None:
        """Store the results of a sweep so far, and its progress."""
        with self._lock:  # a point may run on for a moment after its sweep has failed
            if self.active:
                self.result, self._restored = step.result, step.restored
                self._on_progress(0, trace=None, progress=step.progress)

    def _on_progress(self, _: int, trace: Trace | None, progress: float) -> None:
        """Store the trace so far and the progress; the first call is the beginning of the run.

        It is called as an `OnProgress`; the number of the cell is not used.
        """
        now = time.monotonic()
        if self._begun is None:
            self._begun = now
        self._set_trace(trace)
        self.progress, self.seconds = progress, now - self._begun
        if self.state == "queued":
            self.state = "running"

    def _end(self, state: Ending, message: str = "") -> None:
        """Set the final state and message, and wake the threads that wait for the end."""
        self._tables = {}  # an upload must not outlive its run
        with self._lock:
            if state == "failed" and self.result is not None and not self.result.finished:
                self.result = None  # without a finished point there is nothing to show
            self.message, self.state = message or self.message, state
        self._finished.set()
        self._has_curves.set()


class Runner:
    """Runs the experiments, sweeps and audits of all users of a server; jobs wait in a fair queue before its slots.

    A finished run on public data is kept, and one that is under way is shared: when all students of a class open the
    same preset, it is computed once.

    slots : number of runs at the same time.
    processes : true to run in worker processes, which a stop or a limit can always end; false for threads.
    short : true if there is one more slot, which takes only short runs.
    max_seconds : computing time after which a run ends with the results so far.
    max_sweep_seconds : the same for all points of a sweep together; runs of other visitors come between its points.
    max_bytes : memory that a run may take.
    kept_bytes : size of all finished runs that are kept, together.
    store : the store in which sweeps read and write finished cells; None for none.
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
        self._kept: OrderedDict[str, Job] = OrderedDict()  # finished runs by their key, the last used at the end

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
        """Put an experiment, a sweep or an audit in the queue, and return its job at once.

        If the same run is kept, its finished job is returned instead.

        tables : arrays of uploaded tables by identity.
        wait : true to run it in the caller's thread, before the job is returned.
        visitor : the owner of the job; visitors take turns.
        short : true if the run is known to be short.
        later : true if it can wait until no others are in the queue; a sweep then has the time limit of one run.
        elsewhere : an executor to use instead of the slots of this server, such as a cluster; the job does not wait in
            the queue.
        """
        job = Job(task, tables, later)
        with self._lock:
            if job.key in self._kept:
                self._kept.move_to_end(job.key)  # it was used now
                return self._kept[job.key]
        if wait:
            job.work(SerialExecutor(self.max_seconds))
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
        """Number of jobs that wait for a slot, apart from those that can wait until no others are in the queue."""
        with self._lock:
            in_queue = [job for job in self._active if job.state == "queued" and job.slot_executor is not None]
            return sum(not job.later for job in in_queue)

    def close(self) -> None:
        """End the worker processes; nothing can be run afterwards."""
        self.slots.close()

    def _complete(self, job: Job, executor: Executor) -> None:
        """Bring a job to its end: compute it, or follow another one that computes the same."""
        slot_executor = job.slot_executor  # of this job, since `follow` puts the leader's in its place
        if self.store is not None and isinstance(job.task, Sweep):
            executor = StoringExecutor(executor, self.store)
        try:
            leader = self._leader(job)
            while leader is not job:
                if job.follow(leader):
                    return
                leader = self._leader(job)  # the previous one was stopped
            job.slot_executor = slot_executor
            job.work(executor)
            self._keep(job)
        finally:
            with self._lock:
                self._active.discard(job)

    def _leader(self, job: Job) -> Job:
        """Return the running or kept job with the same key; if there is none, this job, which others then follow."""
        if not job.key:
            return job
        with self._lock:
            if job.key in self._kept:
                return self._kept[job.key]
            leader = self._leaders.get(job.key)
            if leader is None or not leader.active:
                leader = self._leaders[job.key] = job
            return leader

    def _keep(self, job: Job) -> None:
        """Keep a finished run for the next visitor who opens it, unless it is too large.

        Runs whose last use is longest ago make room for it.
        """
        with self._lock:
            if self._leaders.get(job.key) is job:  # it has ended, so that no other job may follow it any more
                del self._leaders[job.key]
            is_complete = job.result is None or job.result.finished == job.result.points  # else points have failed
            if job.key and job.state == "done" and is_complete and job.bytes <= self._kept_bytes:
                self._kept[job.key] = job
            while len(self._kept) > KEPT or sum(other.bytes for other in self._kept.values()) > self._kept_bytes:
                self._kept.popitem(last=False)
