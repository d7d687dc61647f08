"""Visitors' files, read in processes of their own: with little priority, in limited memory and time.

A file is the only thing of a stranger that reaches libraries in C. If reading it takes all memory, never ends or
crashes, that process is lost, its visitor sees an error, and no other visitor notices.

`Reader` is the server's side; `python -m dpviz.execution.reader` is the process, called a child here. A table comes
back as an Arrow stream, never on disk and without a second copy.
"""

import gc
import os
import queue
import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from dpviz import later
from dpviz.datasets import ColumnInfo, Detected, Reading, describe_columns, detect_reading
from dpviz.datasets.uploads.arrow import frame_of
from dpviz.datasets.uploads.files import read_columns
from dpviz.datasets.uploads.limits import MIN_COLUMNS, too_big, unreadable
from dpviz.errors import UserError
from dpviz.later import pd, pyarrow
from dpviz.processes import (
    MEMORY,
    Child,
    ParentConnection,
    Pieces,
    ProcessEnded,
    Why,
    pack,
    process_limits,
    resident,
    unpack,
)

MODULE = "dpviz.execution.reader"
GROWN = 500e6  # bytes of memory; a process that holds more after a file is replaced
SLOWDOWN = 20  # wall-clock seconds per allowed second of computing time, for a busy machine


class Reader:
    """Reads the files of all visitors of a server, in the order in which they come.

    processes : number of files that are read at the same time, each in a process of its own. The first process is
        started at once, others when there is a file for them. If 0, files are read one by one in the caller's process.
    max_bytes, max_seconds : memory and computing time that a file may take in its process.
    max_files : number of files that may be read or wait at the same time; a further one is refused.
    """

    def __init__(
        self, processes: int = 2, max_bytes: float = 1e9, max_seconds: float = 20.0, max_files: int = 10
    ) -> None:
        self._limits = {"max_bytes": max_bytes, "max_seconds": max_seconds}
        self._admitted = threading.BoundedSemaphore(max_files)
        self._children = [Child(MODULE) if index == 0 else None for index in range(processes)]
        # Indices of free children; last in, first out, because the child that was used last is running. If there are no
        # children, there is one index, so that files are read one by one.
        self._free: queue.LifoQueue[int] = queue.LifoQueue()
        for index in reversed(range(max(1, processes))):
            self._free.put(index)

    @property
    def pids(self) -> list[int]:
        """Process numbers of the children that have been started, by which a test can watch or kill one."""
        return [child.pid for child in self._children if child is not None]

    def detect(self, data: bytes, name: str, given: Reading | None = None) -> Detected:
        """Detect the reading of a file in a child, as `datasets.detect_reading` does.

        Raises UserError as that function does, and if a limit of memory or time is exceeded.
        """
        request = {"ask": "detect", "name": name, "given": None if given is None else given.to_json()}
        header, _ = self._ask(request, data)
        cells = tuple(tuple(column) for column in header["cells"])
        questions, names, ids = (tuple(header[key]) for key in ("questions", "names", "ids"))
        return Detected(Reading.from_json(header["reading"]), questions, names, cells, ids)

    def read(
        self, data: bytes, name: str, reading: Reading, min_columns: int = MIN_COLUMNS
    ) -> "tuple[pd.DataFrame, tuple[ColumnInfo, ...]]":
        """Read a table in a child, as `datasets.read_table` does; return it with the descriptions of its columns.

        Raises UserError as `read_table` does, and if a limit of memory or time is exceeded.
        """
        request = {"ask": "read", "name": name, "reading": reading.to_json(), "min_columns": min_columns}
        header, table = self._ask(request, data)
        return frame_of(table), tuple(ColumnInfo(**column) for column in header["columns"])

    def close(self) -> None:
        """End the processes."""
        for child in self._children:
            if child is not None:
                child.kill()

    def _ask(self, header: dict[str, Any], data: bytes) -> "tuple[dict[str, Any], pyarrow.Table | None]":
        """Return the answer of a free child to a request about a file, and the table if there is one.

        header : the request. data : the file. Raises UserError for a file that cannot be read, or if too many wait.
        """
        if not self._admitted.acquire(blocking=False):
            raise UserError("Choose yours again in a minute.", title="Other files are being read")
        try:
            index = self._free.get()  # waits for a free child
            try:
                answer, table = self._ask_child(index, header, data) if self._children else _answer(header, data)
            finally:
                self._free.put(index)
        finally:
            self._admitted.release()
        if "error" in answer:
            raise UserError(answer["error"], title=answer["title"])
        return answer, table

    def _ask_child(
        self, index: int, header: dict[str, Any], data: bytes
    ) -> "tuple[dict[str, Any], pyarrow.Table | None]":
        """Send a request to the child of this index and receive the answer. Raises UserError if it exceeds a limit."""
        child = self._children[index]
        # It may not have been started, or have ended since the last file, which is no fault of this one.
        if child is None or not child.alive:
            child = self._replace(index)
        try:
            child.send(pack(header | self._limits, {"file": np.frombuffer(data, dtype=np.uint8)}))
            message = child.receive(SLOWDOWN * self._limits["max_seconds"])
        except ProcessEnded as ended:
            self._replace(index)
            raise self._error(ended.why) from None
        if message is None:
            self._replace(index)
            raise self._error("time")
        answer, _ = unpack(message)
        if answer["resident"] > GROWN:  # bytes of memory that the child has in use
            self._replace(index)
        table_bytes = answer["stream"]  # the table is at the end of the message
        if not table_bytes:
            return answer, None
        with pyarrow.ipc.open_stream(pyarrow.py_buffer(message)[-table_bytes:]) as stream:
            return answer, stream.read_all()

    def _replace(self, index: int) -> Child:
        """Kill the child of this index, if there is one; start another one and return it."""
        old = self._children[index]
        if old is not None:
            old.kill()
        child = self._children[index] = Child(MODULE)
        return child

    def _error(self, why: Why) -> UserError:
        """Return the error for a file whose child has ended, by the cause."""
        match why:
            case "time":
                return too_big(f"Reading it takes more than {self._limits['max_seconds']:g} s.")
            case "memory":
                return too_big(f"Unpacked, it takes more than {self._limits['max_bytes'] / 1e6:,.0f} MB of memory.")
            case "crash":
                return unreadable("The process that read it has ended: it is damaged, or too big.")


def _answer(header: Mapping[str, Any], data: bytes) -> "tuple[dict[str, Any], pyarrow.Table | None]":
    """Return the answer to a request about a file, with its table, or the error that the visitor sees."""
    try:
        if header["ask"] == "detect":
            given = None if header["given"] is None else Reading.from_json(header["given"])
            detected = detect_reading(data, header["name"], given)
            return asdict(detected) | {"reading": detected.reading.to_json()}, None
        reading, min_columns = Reading.from_json(header["reading"]), header["min_columns"]
        table = read_columns(data, header["name"], reading=reading, min_columns=min_columns)
    except UserError as error:
        return {"error": str(error), "title": error.title}, None
    columns = [asdict(column) for column in describe_columns(frame_of(table), reading.kinds)]
    return {"columns": columns}, table


class _Collector:
    """A file object that collects the pieces written to it without copying them.

    So the columns of a table are sent straight from their memory.
    """

    closed = False  # Arrow reads it

    def __init__(self) -> None:
        self.written: list[memoryview] = []

    def write(self, piece: Any) -> int:
        """Add a piece; return its length, as Arrow expects of a file."""
        self.written.append(memoryview(piece).cast("B"))
        return len(piece)

    def flush(self) -> None:
        """Do nothing: there is no buffer."""


def _message(header: Mapping[str, Any], data: bytes) -> Pieces:
    """Return the message that answers a request: the header, followed by the table, if any, as an Arrow stream."""
    answer, table = _answer(header, data)
    collector = _Collector()
    if table is not None:
        with pyarrow.ipc.new_stream(pyarrow.PythonFile(collector, "w"), table.schema) as stream:
            stream.write_table(table)
    pieces = collector.written
    del table  # before `resident` counts the memory
    return [*pack(answer | {"resident": resident(), "stream": sum(map(len, pieces))}, {}), *pieces]


def main() -> None:
    """Read the files that the server sends, until the server is gone."""
    later.import_tables()  # imports the libraries, so that no file has to wait for them
    parent = ParentConnection(intercept=lambda _: False)  # no message is dealt with on arrival: all wait in `messages`
    for message in parent.messages():
        header, arrays = unpack(message)
        try:
            with process_limits(header["max_bytes"], header["max_seconds"]):
                pieces = _message(header, arrays["file"].tobytes())
        except MemoryError:
            os._exit(MEMORY)  # the exit code by which the server learns the cause
        parent.send(pieces)
        del message, arrays, pieces
        gc.collect()


if __name__ == "__main__":
    main()
