"""Visitors' files, read in processes of their own: with little priority, in limited memory and time.

A file is the one thing that a stranger gives to libraries in C: if reading it takes all memory, never ends or crashes,
that process is gone, its visitor reads a sentence, and nobody else notices. `python -m dpviz.execution.reader` is the
process; `Reader` is who asks it. What is read travels as an Arrow stream, never on disk and without a second copy.
"""

import gc
import os
import queue
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
from dpviz.processes import MEMORY, Child, Ended, Parent, Pieces, Why, limited, pack, resident, unpack

MODULE = "dpviz.execution.reader"
GROWN = 500e6  # bytes of memory from which the process is replaced after a file
SLOWED = 20  # times its computing time that a file may take while others compute, too


class Reader:
    """Reads the files of all visitors of a server, in the order in which they come.

    processes : files that are read at the same time, each in a process of its own: the first is started at once, others
        when there is a file for them. 0: one after the other, in the caller's process.
    max_bytes, max_seconds : of memory and computing time that a file may take in that process.
    most : files that may be read or wait at the same time; another one is refused.
    """

    def __init__(self, processes: int = 2, max_bytes: float = 1e9, max_seconds: float = 20.0, most: int = 10) -> None:
        self._limits = {"max_bytes": max_bytes, "max_seconds": max_seconds}
        self._places = threading.BoundedSemaphore(most)
        self._children = [Child(MODULE) if not place else None for place in range(processes)]
        self._free: queue.LifoQueue[int] = queue.LifoQueue()  # the one that was used last is there already
        for place in reversed(range(max(1, processes))):
            self._free.put(place)

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes that have been started."""
        return [child.pid for child in self._children if child is not None]

    def detect(self, data: bytes, name: str, given: Reading | None = None) -> Detected:
        """As `datasets.detect_reading`. Raises UserError as that does, and for a file that breaks a limit."""
        asked = {"ask": "detect", "name": name, "given": None if given is None else given.to_json()}
        header, _ = self._ask(asked, data)
        cells = tuple(tuple(column) for column in header["cells"])
        questions, names, ids = (tuple(header[name]) for name in ("questions", "names", "ids"))
        return Detected(Reading.from_json(header["reading"]), questions, names, cells, ids)

    def read(
        self, data: bytes, name: str, reading: Reading, min_columns: int = MIN_COLUMNS
    ) -> "tuple[pd.DataFrame, tuple[ColumnInfo, ...]]":
        """As `datasets.read_table` and `describe_columns`. Raises UserError as `read_table` does, and for a file that
        breaks a limit."""
        asked = {"ask": "read", "name": name, "reading": reading.to_json(), "min_columns": min_columns}
        header, table = self._ask(asked, data)
        return frame_of(table), tuple(ColumnInfo(**column) for column in header["columns"])

    def close(self) -> None:
        """End the processes."""
        for child in self._children:
            if child is not None:
                child.kill()

    def _ask(self, header: dict[str, Any], data: bytes) -> "tuple[dict[str, Any], pyarrow.Table | None]":
        with self._in_line() as place:
            answer, table = self._asked(place, header, data) if self._children else _answer(header, data)
        if "error" in answer:
            raise UserError(answer["error"], title=answer["title"])
        return answer, table

    @contextmanager
    def _in_line(self) -> Iterator[int]:
        """The place of a process, as long as a file is read there."""
        if not self._places.acquire(blocking=False):
            raise UserError("Choose yours again in a minute.", title="Other files are being read")
        try:
            place = self._free.get()
            try:
                yield place
            finally:
                self._free.put(place)
        finally:
            self._places.release()

    def _asked(self, place: int, header: dict[str, Any], data: bytes) -> "tuple[dict[str, Any], pyarrow.Table | None]":
        child = self._children[place]
        if child is None or not child.alive:  # not begun, or gone since the last file: no fault of this one
            child = self._replaced(place)
        try:
            child.send(pack(header | self._limits, {"file": np.frombuffer(data, dtype=np.uint8)}))
            message = child.receive(SLOWED * self._limits["max_seconds"])
        except Ended as ended:
            self._replaced(place)
            raise self._sentence(ended.why) from None
        if message is None:
            self._replaced(place)
            raise self._sentence("time")
        answer, _ = unpack(message)
        if answer["resident"] > GROWN:
            self._replaced(place)
        if not answer["stream"]:
            return answer, None
        with pyarrow.ipc.open_stream(pyarrow.py_buffer(message)[-answer["stream"] :]) as stream:
            return answer, stream.read_all()

    def _replaced(self, place: int) -> Child:
        """A fresh process in the place of another one."""
        before = self._children[place]
        if before is not None:
            before.kill()
        child = self._children[place] = Child(MODULE)
        return child

    def _sentence(self, why: Why) -> UserError:
        match why:
            case "time":
                return too_big(f"Reading it takes more than {self._limits['max_seconds']:g} s.")
            case "memory":
                return too_big(f"Unpacked, it takes more than {self._limits['max_bytes'] / 1e6:,.0f} MB of memory.")
            case "crash":
                return unreadable("The process that read it has ended: it is damaged, or too big.")


def _answer(header: Mapping[str, Any], data: bytes) -> "tuple[dict[str, Any], pyarrow.Table | None]":
    """What is asked about a file, or the sentence that it deserves."""
    try:
        if header["ask"] == "detect":
            given = None if header["given"] is None else Reading.from_json(header["given"])
            found = detect_reading(data, header["name"], given)
            return asdict(found) | {"reading": found.reading.to_json()}, None
        reading, least = Reading.from_json(header["reading"]), header["min_columns"]
        table = read_columns(data, header["name"], reading=reading, min_columns=least)
    except UserError as error:
        return {"error": str(error), "title": error.title}, None
    columns = [asdict(column) for column in describe_columns(frame_of(table), reading.kinds)]
    return {"columns": columns}, table


class _Pieces:
    """A file that keeps what is written to it in pieces: of a table's columns these are the columns themselves."""

    closed = False

    def __init__(self) -> None:
        self.written: list[memoryview] = []

    def write(self, piece: Any) -> int:
        self.written.append(memoryview(piece).cast("B"))
        return len(piece)

    def flush(self) -> None:
        """All of it is kept already."""


def _stream(table: "pyarrow.Table | None") -> list[memoryview]:
    """A table as the pieces of an Arrow stream; without one, none."""
    pieces = _Pieces()
    if table is not None:
        with pyarrow.ipc.new_stream(pyarrow.PythonFile(pieces, "w"), table.schema) as stream:
            stream.write_table(table)
    return pieces.written


def _message(header: Mapping[str, Any], data: bytes) -> Pieces:
    """The answer as it travels: the header, and the stream of the table behind it."""
    answer, table = _answer(header, data)
    stream = _stream(table)
    del table
    return [*pack(answer | {"resident": resident(), "stream": sum(map(len, stream))}, {}), *stream]


def main() -> None:
    """Read what the server sends, until it is gone."""
    later.now()
    parent = Parent(lambda _: False)
    for message in parent.messages():
        header, arrays = unpack(message)
        try:
            with limited(header["max_bytes"], header["max_seconds"]):
                pieces = _message(header, arrays["file"].tobytes())
        except MemoryError:
            os._exit(MEMORY)
        parent.send(pieces)
        del message, arrays, pieces
        gc.collect()


if __name__ == "__main__":
    main()
