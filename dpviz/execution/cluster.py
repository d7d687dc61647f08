"""Cells on a Dask cluster, if its scheduler's address is given. The only module that imports Dask, and only then.

What goes there is text: a cell's settings in JSON, the name of `work`, and the versions of here. What comes back is
bytes, in the format of `increments`. Dask itself pickles its tasks and results: who is at the other end of an address
can make this process run anything, so an address is the operator's choice, and a visitor's only where the operator says
so. Nobody's own table is ever sent.
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
PATIENCE = 5.0  # seconds that a cluster may take to answer, and be without a worker
LOOK, ANSWER = 0.5, 2.0  # seconds between two looks at its workers, and that a look may take
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

    address : of the scheduler, "tcp://host:8786", or "tls://" as Dask's own configuration has it.

    Numbers are the same as here where the workers' processors are of the same kind, and else to rounding. A worker that
    dies loses nothing: another one runs its cells. Of a cell that is stopped nothing is kept. Raises UserError for an
    address that is none.
    """

    address: str

    def __post_init__(self) -> None:
        if not _ADDRESS.fullmatch(self.address):
            raise UserError(f"'{self.address}' is no address of a Dask scheduler. Use the form tcp://host:8786.")

    def run(
        self, cells: Sequence[Cell], stopping: Stopping, on_progress: OnProgress | None = None
    ) -> Iterator[tuple[int, Outcome]]:
        """As `Executor.run`; `on_progress` is told of ended cells only. Without a cluster or a worker, cells fail."""
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


def work(text: str, keep: Keep, versions_asked: str) -> bytes:
    """Run one cell: what a worker of the cluster executes. Returns the outcome as bytes; never raises."""
    if versions() != versions_asked:
        sentence = (
            f"A worker of the cluster has {versions()}, but this was asked for by {versions_asked}. "
            "Install the same versions there."
        )
        return outcome_to_bytes(Outcome("failed", sentence))
    given_up, stopping = _given_up(), threading.Event()

    def look(*_: object) -> None:
        if given_up():
            stopping.set()

    return outcome_to_bytes(execute(Cell(Experiment.from_json(text), keep=keep), stopping, look))


def _given_up() -> Callable[[], bool]:
    """Tells whether nobody waits for the task of this thread any more: Dask cannot end a thread, so the task asks."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def given_up() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state == "cancelled"

    return given_up


class _Session:
    """One run on a cluster, led by a thread of its own. Whatever is under way when it ends is given up.

    reason : why it has ended before its cells, if that is not a stop.
    """

    def __init__(self, address: str, cells: Mapping[int, Cell], stopping: Stopping) -> None:
        self._address, self._cells, self._stopping = address, cells, stopping
        self.given_up = threading.Event()
        self.reason = ""
        self._news: queue.SimpleQueue[tuple[int, Outcome] | None] = queue.SimpleQueue()

    def outcomes(self) -> Iterator[tuple[int, Outcome]]:
        """The outcomes as cells end, until all have, somebody stops, or nobody is there."""
        threading.Thread(target=self._lead, daemon=True, name="dpviz-cluster").start()
        while (news := self._news.get()) is not None:
            yield news

    def _lead(self) -> None:
        try:
            asyncio.run(self._talk())
        except UserError as error:
            self.reason = str(error)
        except Exception:
            _log.exception("the cluster failed")
            self.reason = OURS
        finally:
            self._news.put(None)

    async def _talk(self) -> None:
        client = await self._connected()
        try:
            await self._all(client)
        finally:
            await _close(client)

    async def _connected(self) -> "Client":
        try:
            from distributed import Client
        except ImportError as error:
            raise UserError("To use a cluster, install dpviz[cluster] where this server runs.") from error
        client = Client(self._address, asynchronous=True, timeout=PATIENCE, set_as_default=False)
        try:
            async with asyncio.timeout(PATIENCE):  # Dask's own limit does not hold for who listens and says nothing
                return await client
        except Exception as error:  # of many kinds: no such host, refused, too late, another protocol
            _log.warning("no cluster at %s: %r", self._address, error)
            await _close(client)
            raise UserError(
                f"No Dask scheduler answers at {self._address}. Check the address, or run without it."
            ) from error

    async def _all(self, client: "Client") -> None:
        run, here = uuid.uuid4().hex[:12], versions()
        waiting: dict[asyncio.Task[Outcome], int] = {}
        for number, cell in self._cells.items():
            future = client.submit(work, cell.text, cell.keep, here, key=f"dpviz-{run}-{number}", pure=False)
            waiting[asyncio.create_task(self._outcome(future))] = number
        seen = time.monotonic()
        try:
            while waiting and not (self._stopping.is_set() or self.given_up.is_set()):
                ended, _ = await asyncio.wait(waiting, timeout=LOOK, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    self._news.put((waiting.pop(task), task.result()))
                seen = await self._check(client, seen)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _outcome(self, future: "Future[bytes]") -> Outcome:
        """What has become of a task; of one whose worker has died, what another worker makes of it."""
        from distributed import KilledWorker

        try:
            return outcome_from_bytes(await future.result())  # type: ignore[misc]  # of an asynchronous client
        except CancelledError as error:  # by nobody here: the scheduler has gone, or forgotten it
            raise UserError(self._gone()) from error
        except KilledWorker:
            return Outcome("failed", KILLED)
        except ModuleNotFoundError as error:
            return Outcome("failed", f"A worker of the cluster lacks {error.name}. Install dpviz there, as here.")
        except Exception:
            _log.exception("a cell failed on the cluster")
            return Outcome("failed", OURS)

    async def _check(self, client: "Client", seen: float) -> float:
        """When somebody was there for the last time. Raises UserError if nobody has been for a while."""
        reason = f"The cluster at {self._address} has no worker. Start one, or run without the cluster."
        try:
            async with asyncio.timeout(ANSWER):
                if await client.nthreads():
                    return time.monotonic()
        except Exception:  # of many kinds: the connection has closed, nobody answers
            reason = self._gone()
        if time.monotonic() - seen > PATIENCE:
            raise UserError(reason)
        return seen

    def _gone(self) -> str:
        return f"The connection to the cluster at {self._address} was lost. What was finished is kept; run it again."


async def _close(client: "Client") -> None:
    with suppress(Exception):  # who has gone need not be told
        async with asyncio.timeout(1.0):
            await client.close()


def asked() -> str:
    """What the operator has set in the variable DPVIZ_DASK_SCHEDULER: an address, "ask" for a field, or nothing."""
    return os.environ.get(VARIABLE, "").strip()
