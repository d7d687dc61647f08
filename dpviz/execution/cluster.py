"""An executor on a Dask cluster, used if the address of its scheduler is given. This is the only module that imports
Dask, and it does so only then.

The server sends text: a cell's settings in JSON, the name of the function `work`, and the server's versions. It
receives bytes, in the format of `increments`. Dask itself pickles its tasks and results: the machine at an address can
make this process run anything, so an address is the operator's choice, and a visitor's only where the operator allows
it. No visitor's table is ever sent.
"""

import asyncio
import logging
import os
import queue
import re
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpviz.errors import UserError
from dpviz.execution.increments import outcome_from_bytes, outcome_to_bytes
from dpviz.execution.store import versions
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.task import OURS, Cell, Keep, OnProgress, Outcome, StopSignal, execute
from dpviz.later import require_package
from dpviz.specification import MODULES

if TYPE_CHECKING:
    from distributed import Client, Future

VARIABLE, ASK = "DPVIZ_DASK_SCHEDULER", "ask"  # the operator's variable; its value that lets visitors enter an address
PATIENCE = 5.0  # seconds that a cluster may take to answer, and that it may be without a worker
POLL_INTERVAL, ANSWER = 0.5, 2.0  # seconds between two checks of a cluster's workers, and that a check may take
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
    rounding. If a worker dies, another one runs its cells again. A cell that is stopped has no results. Raises
    UserError for a malformed address.
    """

    address: str

    def __post_init__(self) -> None:
        if not _ADDRESS.fullmatch(self.address):
            raise UserError(f"'{self.address}' is no address of a Dask scheduler. Use the form tcp://host:8786.")

    def run(
        self, cells: Sequence[Cell], stopping: StopSignal, on_progress: OnProgress | None = None
    ) -> Iterator[tuple[int, Outcome]]:
        """Run the cells as `Executor.run` describes: yield the number and the outcome of each cell when it ends.

        `on_progress` is called for finished cells only. Cells on a visitor's file fail, as all do without a cluster or
        a worker.
        """
        missing = dict(enumerate(cells))  # the cells without an outcome so far
        for number, cell in enumerate(cells):
            if not cell.repeatable:
                del missing[number]
                yield number, Outcome("failed", UPLOADS)
        session = _Session(self.address, dict(missing), stopping)  # a copy, since outcomes are removed from `missing`
        try:
            if missing and not stopping.is_set():
                for number, outcome in session.outcomes():
                    del missing[number]
                    if on_progress is not None:
                        on_progress(number, outcome.trace, 1.0)
                    yield number, outcome
        finally:
            session.given_up.set()  # ends the session's thread, and cancels what still runs
        not_run = Outcome("failed", session.reason) if session.reason else Outcome("stopped")
        for number in missing:
            yield number, not_run


def work(text: str, keep: Keep, server_versions: str) -> bytes:
    """Run one cell in a worker of the cluster and return the outcome as bytes.

    text : the cell's experiment in JSON. keep : which results it keeps. server_versions : `versions()` of the server,
    which must equal those of the worker.
    """
    if versions() != server_versions:
        sentence = (
            f"A worker of the cluster has {versions()}, but this was asked for by {server_versions}. "
            "Install the same versions there."
        )
        return outcome_to_bytes(Outcome("failed", sentence))
    try:
        experiment = Experiment.from_json(text)
    except UserError as error:  # it holds a kind of the user's own code
        hint = f"A worker imports the modules that its variable {MODULES} names."
        return outcome_to_bytes(Outcome("failed", f"{error} {hint}"))
    from distributed import get_worker

    worker, stopping = get_worker(), threading.Event()
    key = worker.get_current_task()

    def on_step(*_: object) -> None:
        """Stop the run once its task was cancelled: Dask cannot end a thread."""
        task = worker.state.tasks.get(key)
        if task is None or task.state == "cancelled":
            stopping.set()

    return outcome_to_bytes(execute(Cell(experiment, keep=keep), stopping, on_step))


class _Session:
    """One run of cells on a cluster, which a thread of its own controls. Tasks that still run at its end are cancelled.

    given_up : an event that ends the session. reason : the sentence of an error that ended it before all cells had
    ended; empty after a stop.
    """

    def __init__(self, address: str, cells: Mapping[int, Cell], stopping: StopSignal) -> None:
        self._address, self._cells, self._stopping = address, cells, stopping
        self.given_up = threading.Event()
        self.reason = ""
        self._outcomes: queue.SimpleQueue[tuple[int, Outcome] | None] = queue.SimpleQueue()  # None: there are no more

    def outcomes(self) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcomes as cells end, until all have, the run is stopped, or the cluster is lost."""
        threading.Thread(target=self._lead, daemon=True, name="dpviz-cluster").start()
        while True:
            item = self._outcomes.get()
            if item is None:
                return
            yield item

    def _lead(self) -> None:
        """Run all cells in this thread, set `reason` if that fails, and end the iterator of `outcomes`."""
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
        """Connect to the cluster, run the cells there, and close the connection."""
        client = await self._connect()
        try:
            await self._run_cells(client)
        finally:
            await _close(client)

    async def _connect(self) -> "Client":
        """Connect to the scheduler; return the client. Raises UserError without Dask, or if no scheduler answers."""
        require_package("distributed")
        from distributed import Client

        client = Client(self._address, asynchronous=True, timeout=PATIENCE, set_as_default=False)
        try:
            # Dask's own time limit does not cover a host that listens and never answers.
            async with asyncio.timeout(PATIENCE):
                return await client
        except Exception as error:  # of many kinds: no such host, refused, too late, another protocol
            _log.warning("no cluster at %s: %r", self._address, error)
            await _close(client)
            raise UserError(
                f"No Dask scheduler answers at {self._address}. Check the address, or run without it."
            ) from error

    async def _run_cells(self, client: "Client") -> None:
        """Submit all cells and queue their outcomes, until all have ended, a stop, or the end of the session."""
        run_id, server_versions = uuid.uuid4().hex[:12], versions()  # the identifier makes the tasks' names unique
        waiting: dict[asyncio.Task[Outcome], int] = {}
        for number, cell in self._cells.items():
            name = f"dpviz-{run_id}-{number}"
            future = client.submit(work, cell.text, cell.keep, server_versions, key=name, pure=False)
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
        """Wait for the outcome of a task; if its worker dies, Dask lets another one repeat it."""
        from distributed import KilledWorker

        try:
            return outcome_from_bytes(await future.result())  # type: ignore[misc]  # of an asynchronous client
        except CancelledError as error:  # not cancelled by this session: the scheduler has gone, or lost the task
            raise UserError(self._loss_message()) from error
        except KilledWorker:
            return Outcome("failed", KILLED)
        except ModuleNotFoundError as error:
            return Outcome("failed", f"A worker of the cluster lacks {error.name}. Install dpviz there, as here.")
        except Exception:
            _log.exception("a cell failed on the cluster")
            return Outcome("failed", OURS)

    async def _check(self, client: "Client", last_seen: float) -> float:
        """Check for workers; return the time at which the cluster last had one: now, or else `last_seen`.

        Raises UserError if that is more than PATIENCE seconds ago.
        """
        reason = f"The cluster at {self._address} has no worker. Start one, or run without the cluster."
        try:
            async with asyncio.timeout(ANSWER):
                if await client.nthreads():
                    return time.monotonic()
        except Exception:  # of many kinds: the connection has closed, no answer comes
            reason = self._loss_message()
        if time.monotonic() - last_seen > PATIENCE:
            raise UserError(reason)
        return last_seen

    def _loss_message(self) -> str:
        return f"The connection to the cluster at {self._address} was lost. What was finished is kept; run it again."


async def _close(client: "Client") -> None:
    """Close a client within a second, without errors."""
    with suppress(Exception):  # the other side may be gone
        async with asyncio.timeout(1.0):
            await client.close()


def configured_address() -> str:
    """Return the value of the variable DPVIZ_DASK_SCHEDULER, by which the operator chooses a cluster.

    It is the address of a scheduler, "ask" to let visitors enter one, or "" for none.
    """
    return os.environ.get(VARIABLE, "").strip()
