"""The runner: experiments, sweeps and audits in the background, with progress and stop, in a line before its slots."""

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
from dpviz.execution.executors import Place, Slots
from dpviz.execution.store import Store, Stored
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.task import OURS, Cell, Ending, Executor, InThread, seconds_left
from dpviz.experiments.trace import Trace
from dpviz.sweeps.sweep import Sweep, SweepStep
from dpviz.sweeps.sweep_result import SweepResult

State = Literal["queued", "running", "done", "stopped", "timeout", "failed"]
KEPT, KEPT_BYTES = 32, 256e6  # finished runs on public data that are kept for all visitors, and what they may weigh
_LOOK = 0.05  # seconds between two looks at a job that computes the same
_log = logging.getLogger(__name__)


class Job:
    """One experiment, sweep or audit on its way. What it has found is append-only: it may be read while the job runs.

    task : what is run; experiment : the same, or the one that a sweep varies. trace : what an experiment or audit has
    recorded; result : what a sweep has found. message : a sentence on how it ended, where there is something to say.
    seconds : since it began, by the clock; computing : of computing time, of an experiment or audit that has ended.
    key : equal for jobs that would repeat each other, number by number; empty for one that nothing repeats.
    later : whether it comes after all that others have in line.
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
        own = isinstance(task, Sweep) and not later  # its points are found in the store; one may be resumed
        repeats = not own and Cell(self.experiment, tables).repeatable
        self.key = task.to_json() if repeats else ""
        self.place: Place | None = None
        self._tables = tables
        self._begun: float | None = None
        self._restored = 0.0
        self._stopping, self._ended, self._lock = threading.Event(), threading.Event(), threading.Lock()
        self._pictured = threading.Event()  # it has curves, or will have none

    @property
    def active(self) -> bool:
        """Whether the job is still queued or running."""
        return self.state in ("queued", "running")

    @property
    def position(self) -> int | None:
        """How many runs come before it; None unless it waits."""
        return self.place.position if self.place is not None and self.state == "queued" else None

    @property
    def seconds_left(self) -> float | None:
        """Estimated time to the end, from the progress so far; None before there is any."""
        return seconds_left(self.seconds, self.progress, self._restored)

    @property
    def bytes(self) -> int:
        """What the recorded numbers weigh, in bytes."""
        return 0 if self.trace is None else self.trace.bytes

    def wait(self, seconds: float) -> None:
        """Return when the job has ended, or after that time."""
        self._ended.wait(seconds)

    def wait_for_curves(self, seconds: float) -> None:
        """Return when there is something to draw of every method, when the job has ended, or after that time."""
        self._pictured.wait(seconds)

    def stop(self) -> None:
        """Ask the job to stop; what was computed is kept. In line, its visitor keeps the place for the next job."""
        self._stopping.set()
        if self.place is not None:  # of a job that follows another one, that one's, which goes on
            self.place.leave()

    def let_go(self, tables: Collection[str]) -> None:
        """Stop if it computes on one of these tables, by name, which its visitor has removed."""
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
        """Show what a job finds that computes the same, to its end; False if somebody stopped it, and this one must."""
        self.place = leader.place
        while (state := leader.state) in ("queued", "running") and not self._stopping.is_set():
            self._show(leader)
            self.state = state
            leader.wait(_LOOK)
        if self._stopping.is_set():
            self._end("stopped")
        elif leader.state in ("done", "timeout", "failed"):
            self._show(leader)
            self._end(leader.state, leader.message)
        else:
            self.state = "queued"
        return not self.active

    def _show(self, leader: "Job") -> None:
        self._seen(leader.trace)
        self.result = leader.result
        self.progress, self.seconds, self.computing = leader.progress, leader.seconds, leader.computing

    def _seen(self, trace: Trace | None) -> None:
        if trace is not None:
            self.trace = trace
            if trace.has_curves:
                self._pictured.set()

    def _run(self, executor: Executor) -> Ending:
        assert not isinstance(self.task, Sweep)
        ((_, outcome),) = executor.run((Cell(self.task, self._tables),), self._stopping, self._on_progress)
        self._on_progress(0, outcome.trace, 1.0 if outcome.state == "done" else self.progress)
        self.message, self.computing = outcome.message, outcome.seconds
        return outcome.state

    def _sweep(self, executor: Executor) -> Ending:
        assert isinstance(self.task, Sweep)
        for step in self.task.stream(self._tables, executor, self._stopping, self._advanced):
            self._advanced(step)
        return step.result.cut or "done"

    def _advanced(self, step: SweepStep) -> None:
        with self._lock:  # a point may go on for a moment when its sweep has failed
            if self.active:
                self.result, self._restored = step.result, step.restored
                self._on_progress(0, None, step.progress)

    def _on_progress(self, _: int, trace: Trace | None, progress: float) -> None:
        """What the run has recorded so far."""
        now = time.monotonic()
        self._begun = now if self._begun is None else self._begun
        self._seen(trace)
        self.progress, self.seconds = progress, now - self._begun
        if self.state == "queued":
            self.state = "running"

    def _end(self, state: Ending, message: str = "") -> None:
        self._tables = {}  # an upload must not outlive its run
        with self._lock:
            if state == "failed" and self.result is not None and not self.result.finished:
                self.result = None  # there is nothing to show
            self.message, self.state = message or self.message, state
        self._ended.set()
        self._pictured.set()


class Runner:
    """Runs the experiments, sweeps and audits of all users of a server; jobs wait in a fair line before its slots.

    A run on public data that has been to its end is kept, and one that is under way is shared: a class that opens the
    same preset computes it once.

    slots : runs at the same time; processes : in worker processes, which a stop or a limit can always end, or in
    threads. short : whether short runs have a slot of their own, as in `Slots`. max_seconds : of computing time, after
    which a run ends with what it has; max_sweep_seconds : the same for all points of a sweep together, which lets
    others in between. max_bytes : of memory that a run may need, kept_bytes of the runs that are kept together.
    store : where sweeps look for finished cells, and leave theirs.
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
        self._leaders: dict[str, Job] = {}  # of the runs under way that others may want, too
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
        """Put an experiment, a sweep or an audit in line; with `wait`, run it in the caller's thread instead.

        visitor : whose it is: one of each visitor in turn. short : whether it is known to be. later : whether it comes
        after all that others have in line; a sweep then has the time of one run.
        elsewhere : who runs it instead of the slots of this server: a cluster, where nobody waits in this line.
        """
        job = Job(task, tables, later)
        kept = self._known(job)
        if kept is not None:
            return kept
        if wait:
            job.work(InThread(self.max_seconds))
            return job
        with self._lock:
            self._active.add(job)
        executor = elsewhere
        if executor is None:
            allowed = self.max_sweep_seconds if isinstance(task, Sweep) and not later else self.max_seconds
            executor = job.place = self.slots.place(visitor, allowed, short, later)
        threading.Thread(target=self._see_to, args=(job, executor), daemon=True, name="dpviz-job").start()
        return job

    @property
    def waiting(self) -> int:
        """Jobs in line that have not started, but for those that come after all others."""
        with self._lock:
            return sum(job.state == "queued" and not job.later for job in self._active)

    def close(self) -> None:
        """End the worker processes; nothing can be run afterwards."""
        self.slots.close()

    def _see_to(self, job: Job, executor: Executor) -> None:
        """Bring a job to its end, unless another one computes the same."""
        place = job.place
        if self.store is not None and isinstance(job.task, Sweep):
            executor = Stored(executor, self.store)
        try:
            while (leader := self._leader(job)) is not job:
                if job.follow(leader):
                    return
            job.place = place
            job.work(executor)
            self._keep(job)
        finally:
            with self._lock:
                self._active.discard(job)

    def _leader(self, job: Job) -> Job:
        """Who computes what this job would: itself if nobody does, or if nothing else may serve it."""
        if not job.key:
            return job
        with self._lock:
            if job.key in self._kept:
                return self._kept[job.key]
            leader = self._leaders.get(job.key)
            if leader is None or not leader.active:
                leader = self._leaders[job.key] = job
            return leader

    def _known(self, job: Job) -> Job | None:
        """A finished run of the same experiment, if it would only be repeated."""
        with self._lock:
            if job.key in self._kept:
                self._kept.move_to_end(job.key)
            return self._kept.get(job.key)

    def _keep(self, job: Job) -> None:
        """Remember a finished run for the next visitor who asks for it; the oldest make room, one too large is not."""
        with self._lock:
            if self._leaders.get(job.key) is job:
                del self._leaders[job.key]
            if job.key and job.state == "done" and job.bytes <= self._kept_bytes:
                self._kept[job.key] = job
            while len(self._kept) > KEPT or sum(kept.bytes for kept in self._kept.values()) > self._kept_bytes:
                self._kept.popitem(last=False)
