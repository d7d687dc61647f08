"""An executor on a Dask cluster, used if its scheduler's address is given. The only module that imports Dask, and only
then.

It sends text: a cell's settings in JSON, the name of `work`, and this server's versions. It receives bytes, in the
format of `increments`. Dask itself pickles its tasks and results: the machine at an address can make this process run
anything, so an address is the operator's choice, and a visitor's only where the operator allows it. No visitor's table
is ever sent.
"""

import asyncio
import logging
import os
import queue
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpviz.errors import UserError
from dpviz.execution.increments import outcome_from_bytes, outcome_to_bytes
from dpviz.execution.store import versions
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.task import OURS, Cell, Keep, OnProgress, Outcome, Stopping, execute

if TYPE_CHECKING:
    from distributed import Client, Future

VARIABLE, ASK = "DPVIZ_DASK_SCHEDULER", "ask"
PATIENCE = 5.0  # seconds that a cluster may take to answer, and that it may be without a worker
POLL_INTERVAL, ANSWER = 0.5, 2.0  # seconds between two checks of its workers, and that a check may take
UPLOADS = "Your own file is never sent to a cluster. Run this without one."
KILLED = (
    "Every worker of the cluster that ran this has ended, perhaps for want of memory. Choose fewer repeats, fewer "
    "methods, or smaller data."
)
_ADDRESS = re.compile(r"(tcp|tls)://(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.-]+):\d{1,5}")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cluster:
    """An executor: the workers of a Dask cluster run the cells, each as a whole.

    address : of the scheduler, "tcp://host:8786", or "tls://" as Dask's configuration has it.

    Numbers are the same as on this machine where the workers' processors are of the same kind, else equal up to
    rounding. If a worker dies, another one runs its cells. Of a cell that is stopped nothing is kept. Raises UserError
    for a malformed address.
    """

    address: str

    def __post_init__(self) -> None:
        if not _ADDRESS.fullmatch(self.address):
            raise UserError(f"'{self.address}' is no address of a Dask scheduler. Use the form tcp://host:8786.")

    def run(
        self, cells: Sequence[Cell], stopping: Stopping, on_progress: OnProgress | None = None
    ) -> Iterator[tuple[int, Outcome]]:
        """Run the cells as `Executor.run` describes. `on_progress` is called for finished cells only. Without a
        cluster or a worker, cells fail."""
        missing = dict(enumerate(cells))
        for number, cell in enumerate(cells):
            if not cell.repeatable:
                del missing[number]
                yield number, Outcome("failed", UPLOADS)
        session = _Session(self.address, dict(missing), stopping)
        try:
            if missing and not stopping.is_set():
                for number, outcome in session.outcomes():
                    del missing[number]
                    if on_progress is not None:
                        on_progress(number, outcome.trace, 1.0)
                    yield number, outcome
        finally:
            session.given_up.set()
        reason = session.reason
        for number in missing:
            yield number, Outcome("failed", reason) if reason else Outcome("stopped")


def work(text: str, keep: Keep, server_versions: str) -> bytes:
    """Run one cell in a worker of the cluster and return the outcome as bytes. Never raises.

    server_versions : `versions()` of the server, which must be those of the worker.
    """
    if versions() != server_versions:
        sentence = (
            f"A worker of the cluster has {versions()}, but this was asked for by {server_versions}. "
            "Install the same versions there."
        )
        return outcome_to_bytes(Outcome("failed", sentence))
    given_up, stopping = _given_up(), threading.Event()

    def on_step(*_: object) -> None:
        if given_up():
            stopping.set()

    return outcome_to_bytes(execute(Cell(Experiment.from_json(text), keep=keep), stopping, on_step))


def _given_up() -> Callable[[], bool]:
    """Return a function that tells whether the task of this thread was cancelled.

    Dask cannot end a thread, so the task asks.
    """
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def given_up() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state == "cancelled"

    return given_up


class _Session:
    """One run on a cluster, led by a thread of its own. Tasks under way at its end are cancelled.

    reason : an error that ended it before its cells; empty after a stop.
    """

    def __init__(self, address: str, cells: Mapping[int, Cell], stopping: Stopping) -> None:
        self._address, self._cells, self._stopping = address, cells, stopping
        self.given_up = threading.Event()
        self.reason = ""
        self._outcomes: queue.SimpleQueue[tuple[int, Outcome] | None] = queue.SimpleQueue()  # None: the last

    def outcomes(self) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcomes as cells end, until all have, the run is stopped, or the cluster is lost."""
        threading.Thread(target=self._lead, daemon=True, name="dpviz-cluster").start()
        while (item := self._outcomes.get()) is not None:
            yield item

    def _lead(self) -> None:
        """Run the cells in this thread; note the reason if that fails, and end `outcomes`."""
        try:
            asyncio.run(self._run_all())
        except UserError as error:
            self.reason = str(error)
        except Exception:
            _log.exception("the cluster failed")
            self.reason = OURS
        finally:
            self._outcomes.put(None)

    async def _run_all(self) -> None:
        client = await self._connected()
        try:
            await self._run_cells(client)
        finally:
            await _close(client)

    async def _connected(self) -> "Client":
        """Connect to the scheduler. Raises UserError if Dask is missing, or no scheduler answers."""
        try:
            from distributed import Client
        except ImportError as error:
            raise UserError("To use a cluster, install dpviz[cluster] where this server runs.") from error
        client = Client(self._address, asynchronous=True, timeout=PATIENCE, set_as_default=False)
        try:
            async with asyncio.timeout(
                PATIENCE
            ):  # Dask's time limit does not cover a host that listens and never answers
                return await client
        except Exception as error:  # of many kinds: no such host, refused, too late, another protocol
            _log.warning("no cluster at %s: %r", self._address, error)
            await _close(client)
            raise UserError(
                f"No Dask scheduler answers at {self._address}. Check the address, or run without it."
            ) from error

    async def _run_cells(self, client: "Client") -> None:
        """Submit all cells and pass on their outcomes, until a stop or until they are given up."""
        run, server_versions = uuid.uuid4().hex[:12], versions()
        waiting: dict[asyncio.Task[Outcome], int] = {}
        for number, cell in self._cells.items():
            future = client.submit(work, cell.text, cell.keep, server_versions, key=f"dpviz-{run}-{number}", pure=False)
            waiting[asyncio.create_task(self._outcome(future))] = number
        last_seen = time.monotonic()
        try:
            while waiting and not (self._stopping.is_set() or self.given_up.is_set()):
                finished, _ = await asyncio.wait(waiting, timeout=POLL_INTERVAL, return_when=asyncio.FIRST_COMPLETED)
                for task in finished:
                    self._outcomes.put((waiting.pop(task), task.result()))
                last_seen = await self._check(client, last_seen)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _outcome(self, future: "Future[bytes]") -> Outcome:
        """Return the outcome of a task; if its worker has died, that of the worker that repeats it."""
        from distributed import KilledWorker

        try:
            return outcome_from_bytes(await future.result())  # type: ignore[misc]  # of an asynchronous client
        except CancelledError as error:  # not cancelled by this session: the scheduler has gone, or lost the task
            raise UserError(self._gone()) from error
        except KilledWorker:
            return Outcome("failed", KILLED)
        except ModuleNotFoundError as error:
            return Outcome("failed", f"A worker of the cluster lacks {error.name}. Install dpviz there, as here.")
        except Exception:
            _log.exception("a cell failed on the cluster")
            return Outcome("failed", OURS)

    async def _check(self, client: "Client", last_seen: float) -> float:
        """Return the time at which the cluster last had a worker. Raises UserError if that is longer than PATIENCE
        ago."""
        reason = f"The cluster at {self._address} has no worker. Start one, or run without the cluster."
        try:
            async with asyncio.timeout(ANSWER):
                if await client.nthreads():
                    return time.monotonic()
        except Exception:  # of many kinds: the connection has closed, no answer comes
            reason = self._gone()
        if time.monotonic() - last_seen > PATIENCE:
            raise UserError(reason)
        return last_seen

    def _gone(self) -> str:
        return f"The connection to the cluster at {self._address} was lost. What was finished is kept; run it again."


async def _close(client: "Client") -> None:
    with suppress(Exception):  # the other side may be gone
        async with asyncio.timeout(1.0):
            await client.close()


def asked() -> str:
    """Return the operator's choice, from the variable DPVIZ_DASK_SCHEDULER: an address, "ask" for a field, or ""."""
    return os.environ.get(VARIABLE, "").strip()
