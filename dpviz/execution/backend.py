"""The executor and the store for the cells of a run or a sweep: this process, further ones, or a cluster."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dpviz.errors import UserError
from dpviz.execution.cluster import Cluster
from dpviz.execution.executors import Slots
from dpviz.execution.store import Store, StoringExecutor, configured_store
from dpviz.experiments.task import Cell, Executor, SerialExecutor


@dataclass(frozen=True)
class Backend:
    """The executor that runs cells, and the store that it reads and writes; None for no store."""

    executor: Executor
    store: Store | None

    def keeps(self, cell: Cell) -> bool:
        """Return true if a cell like this one stays in the store when it is finished."""
        return self.store is not None and self.store.keeps(cell)


@contextmanager
def open_backend(store: str, max_seconds: float, workers: int = 1, cluster: str = "") -> Iterator[Backend]:
    """Yield the executor and the store for the cells of a run or a sweep.

    store : a folder, "" for the usual one, "off" for none. max_seconds : limit of computing time; infinity for none.
    workers : number of processes that compute; with 1, this process does. cluster : address of a Dask scheduler; "" for
    none.

    Raises UserError for an address that is malformed, and for a time limit on a cluster.
    """
    if cluster and max_seconds < math.inf:
        raise UserError("A cluster knows no limit of time. Leave --max-seconds out.")
    finished_cells = configured_store(store)
    slots = Slots(workers, processes=True, max_bytes=math.inf) if workers > 1 and not cluster else None
    executor: Executor
    if cluster:
        executor = Cluster(cluster)
    elif slots is not None:
        executor = slots.executor(max_seconds=max_seconds)
    else:
        executor = SerialExecutor(max_seconds)
    if finished_cells is not None:
        executor = StoringExecutor(executor, finished_cells)
    try:
        yield Backend(executor, finished_cells)
    finally:
        if slots is not None:
            slots.close()
