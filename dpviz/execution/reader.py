"""Visitors' files, read in a process of its own: with little priority, in limited memory and time, one at a time.

A file is the one thing that a stranger gives to libraries in C: if reading it takes all memory, never ends or crashes,
that process is gone, its visitor reads a sentence, and nobody else notices. `python -m dpviz.execution.reader` is the
process; `Reader` is who asks it. What is read travels as an Arrow stream, never on disk.
"""

import gc
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import pyarrow

from dpviz.datasets import ColumnInfo, Detected, Reading, describe_columns, detect_reading
from dpviz.datasets.uploads.arrow import frame_of
from dpviz.datasets.uploads.files import read_columns
from dpviz.datasets.uploads.limits import MIN_COLUMNS, too_big, unreadable
from dpviz.errors import UserError
from dpviz.messages import pack, unpack
from dpviz.processes import MEMORY, Child, Ended, Parent, Why, limited, resident

MODULE = "dpviz.execution.reader"
GROWN = 500e6  # bytes of memory from which the process is replaced after a file
SLOWED = 20  # times its computing time that a file may take while others compute, too
Arrays = Mapping[str, np.ndarray]


class Reader:
    """Reads the files of all visitors of a server, in the order in which they come.

    process : whether in a process of its own, started at once, or in the caller's.
    max_bytes, max_seconds : of memory and computing time that a file may take in that process.
    most : files that may be read or wait at the same time; another one is refused.
    """

    def __init__(self, process: bool = True, max_bytes: float = 2e9, max_seconds: float = 30.0, most: int = 10) -> None:
        self._limits = {"max_bytes": max_bytes, "max_seconds": max_seconds}
        self._places, self._turn = threading.BoundedSemaphore(most), threading.Lock()
        self._child = Child(MODULE) if process else None

    @property
    def pid(self) -> int | None:
        """The number of the process."""
        return None if self._child is None else self._child.pid

    def detect(self, data: bytes, name: str, given: Reading | None = None) -> Detected:
        """As `datasets.detect_reading`. Raises UserError as that does, and for a file that breaks a limit."""
        asked = {"ask": "detect", "name": name, "given": None if given is None else given.to_json()}
        header, _ = self._ask(asked, data)
        cells = tuple(tuple(column) for column in header["cells"])
        return Detected(Reading.from_json(header["reading"]), tuple(header["questions"]), tuple(header["names"]), cells)

    def read(
        self, data: bytes, name: str, reading: Reading, min_columns: int = MIN_COLUMNS
    ) -> tuple[pd.DataFrame, tuple[ColumnInfo, ...]]:
        """As `datasets.read_table` and `describe_columns`. Raises UserError as `read_table` does, and for a file that
        breaks a limit."""
        asked = {"ask": "read", "name": name, "reading": reading.to_json(), "min_columns": min_columns}
        header, arrays = self._ask(asked, data)
        with pyarrow.ipc.open_stream(pyarrow.py_buffer(arrays["table"])) as stream:
            frame = frame_of(stream.read_all())
        return frame, tuple(ColumnInfo(**column) for column in header["columns"])

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.kill()

    def _ask(self, header: dict[str, Any], data: bytes) -> tuple[dict[str, Any], Arrays]:
        with self._in_line():
            answer, arrays = _answer(header, data) if self._child is None else self._asked(self._child, header, data)
        if "error" in answer:
            raise UserError(answer["error"], title=answer["title"])
        return answer, arrays

    @contextmanager
    def _in_line(self) -> Iterator[None]:
        if not self._places.acquire(blocking=False):
            raise UserError("Choose yours again in a minute.", title="Other files are being read")
        try:
            with self._turn:
                yield
        finally:
            self._places.release()

    def _asked(self, child: Child, header: dict[str, Any], data: bytes) -> tuple[dict[str, Any], Arrays]:
        if not child.alive:  # since the last file: no fault of this one
            child = self._replaced()
        try:
            child.send(pack(header | self._limits, {"file": np.frombuffer(data, dtype=np.uint8)}))
            message = child.receive(SLOWED * self._limits["max_seconds"])
        except Ended as ended:
            self._replaced()
            raise self._sentence(ended.why) from None
        if message is None:
            self._replaced()
            raise self._sentence("time")
        answer, arrays = unpack(message)
        if answer["resident"] > GROWN:
            self._replaced()
        return answer, arrays

    def _replaced(self) -> Child:
        """A fresh process in place of this one."""
        self.close()
        self._child = Child(MODULE)
        return self._child

    def _sentence(self, why: Why) -> UserError:
        match why:
            case "time":
                return too_big(f"Reading it takes more than {self._limits['max_seconds']:g} s.")
            case "memory":
                return too_big(f"Unpacked, it takes more than {self._limits['max_bytes'] / 1e6:,.0f} MB of memory.")
            case "crash":
                return unreadable("The process that read it has ended: it is damaged, or too big.")


def _answer(header: Mapping[str, Any], data: bytes) -> tuple[dict[str, Any], Arrays]:
    """What is asked about a file, or the sentence that it deserves."""
    try:
        if header["ask"] == "detect":
            given = None if header["given"] is None else Reading.from_json(header["given"])
            found = detect_reading(data, header["name"], given)
            return asdict(found) | {"reading": found.reading.to_json()}, {}
        reading, least = Reading.from_json(header["reading"]), header["min_columns"]
        table = read_columns(data, header["name"], reading=reading, min_columns=least)
    except UserError as error:
        return {"error": str(error), "title": error.title}, {}
    columns = [asdict(column) for column in describe_columns(frame_of(table), reading.kinds)]
    return {"columns": columns}, {"table": _stream(table)}


def _stream(table: pyarrow.Table) -> np.ndarray:
    """A table as the bytes of an Arrow stream."""
    size = pyarrow.MockOutputStream()
    with pyarrow.ipc.new_stream(size, table.schema) as stream:
        stream.write_table(table)
    buffer = pyarrow.allocate_buffer(size.size())  # at once: what grows takes twice as much meanwhile
    with pyarrow.ipc.new_stream(pyarrow.FixedSizeBufferWriter(buffer), table.schema) as stream:
        stream.write_table(table)
    return np.frombuffer(buffer, dtype=np.uint8)


def main() -> None:
    """Read what the server sends, until it is gone."""
    parent = Parent(lambda _: False)
    for message in parent.messages():
        header, arrays = unpack(message)
        try:
            with limited(header["max_bytes"], header["max_seconds"]):
                answer, found = _answer(header, arrays["file"].tobytes())
                pieces = pack(answer | {"resident": resident()}, found)
        except MemoryError:
            os._exit(MEMORY)
        parent.send(pieces)
        del message, arrays, found, pieces
        gc.collect()


if __name__ == "__main__":
    main()
