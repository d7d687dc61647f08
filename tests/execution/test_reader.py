"""The processes that read files: the same table as here, and a sentence for whatever a file does to it."""

import io
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest

from dpviz.datasets import Reading, describe_columns, detect_reading, read_table
from dpviz.errors import UserError
from dpviz.execution.reader import Reader
from tests.waiting import until

SMALL = b"dose;ill;note\n" + b"".join(b"%d,5;%s;%d\n" % (i, b"yes" if i % 3 else b"k. A.", i) for i in range(60))


def slow() -> bytes:
    """Each of its cells is a number in an unusual way, and so is looked at by itself."""
    return b"a;b\n" + b"".join(b"1'%03d'%03d;1\n" % divmod(i, 1000) for i in range(1_000_000))


def parquet(table: pyarrow.Table) -> bytes:
    sink = io.BytesIO()
    pyarrow.parquet.write_table(table, sink)
    return sink.getvalue()


EVERY_KIND = parquet(
    pyarrow.table(
        {
            "number": pyarrow.array([None, *np.linspace(0, 1, 29)]),
            "whole": pyarrow.array([2**60, None] * 15),
            "truth": pyarrow.array([True, None, False] * 10),
            "text": pyarrow.array(["x", "y", None] * 10),
            "time": pyarrow.array(np.arange(30), pyarrow.timestamp("ms", "Europe/Berlin")),
            "day": pyarrow.array([None, *range(29)], pyarrow.date32()),
            "nothing": pyarrow.nulls(30),
        }
    )
)
MIXED = b"a,b\n" + b"1.5,x\nold,\n,2\n" * 20


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    found = Reader(1, max_bytes=400e6, max_seconds=1.0)
    yield found
    found.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "name"), [(SMALL, "a.csv"), (MIXED, "a.csv"), (EVERY_KIND, "a.parquet"), (SMALL * 2, "a.csv")]
)
@pytest.mark.parametrize("sample", [None, 25])
def test_the_process_reads_the_same_table(reader: Reader, data: bytes, name: str, sample: int | None) -> None:
    detected = reader.detect(data, name)
    assert detected == detect_reading(data, name)
    reading = detected.reading.replaced(sample_rows=sample)
    frame, columns = reader.read(data, name, reading)
    expected = read_table(data, name, reading=reading)
    pd.testing.assert_frame_equal(frame, expected)
    assert columns == describe_columns(expected, reading.kinds) == Reader(0).read(data, name, reading)[1]


def refusal(reader: Reader, data: bytes, name: str) -> str:
    with pytest.raises(UserError) as caught:
        reader.read(data, name, Reading(separator=";" if data.startswith(b"a;") else ","))
    return f"{caught.value.title}. {caught.value}"


def works(reader: Reader) -> bool:
    return reader.read(SMALL, "a.csv", Reading(separator=";"))[0].shape == (60, 3)


@pytest.mark.slow
def test_a_file_that_cannot_be_read_is_a_sentence_as_here(reader: Reader) -> None:
    process = reader.pids
    assert refusal(reader, b"a,b\n1,2\n", "a.csv").startswith("Only 1 row. At least 20")
    with pytest.raises(UserError, match="Save it as UTF-8"):
        reader.detect(b"\xff\xfe", "a.csv")
    assert works(reader) and reader.pids == process


@pytest.mark.slow
def test_memory_and_time_have_limits_and_the_next_file_is_read(reader: Reader) -> None:
    bomb = parquet(pyarrow.table({f"c{i}": pyarrow.nulls(500_000) for i in range(100)}))
    assert len(bomb) < 100_000
    assert refusal(reader, bomb, "a.parquet").startswith("This file is too big. Unpacked, it ")
    assert works(reader)
    assert "Reading it takes more than 1 s" in refusal(reader, slow(), "a.csv")
    assert works(reader)


@pytest.mark.slow
def test_a_process_that_is_killed_is_a_sentence_and_the_next_file_is_read(reader: Reader) -> None:
    assert works(reader)
    (process,) = reader.pids
    before, found = _computed(process), list[str]()
    asking = threading.Thread(target=lambda: found.append(refusal(reader, slow(), "a.csv")))
    asking.start()
    until(lambda: _computed(process) > before + 10)  # it reads: to tidy up after the last file takes less
    os.kill(process, signal.SIGKILL)
    asking.join(timeout=30)
    assert found[0].startswith("This file could not be read. The process that read it has ended")
    assert works(reader)
    # Killed while it waits, it is nobody's fault, and nobody learns of it.
    os.kill(reader.pids[0], signal.SIGKILL)
    until(lambda: not reader._children[0].alive)  # not "Z": its other threads may still be ending then
    assert works(reader)


@pytest.mark.slow
def test_a_process_that_has_grown_is_replaced(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    process = reader.pids
    monkeypatch.setattr("dpviz.execution.reader.GROWN", 0.0)
    assert works(reader) and reader.pids != process


def _computed(process: int) -> int:
    """Hundredths of a second."""
    return sum(map(int, _fields(process)[11:13]))


def _fields(process: int) -> list[str]:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def test_no_more_files_wait_than_it_is_said() -> None:
    full = Reader(0, max_files=0)
    assert refusal(full, SMALL, "a.csv") == "Other files are being read. Choose yours again in a minute."


@pytest.mark.slow
def test_a_slow_file_does_not_hold_another_visitor() -> None:
    both, ended = Reader(max_seconds=300.0), threading.Event()
    assert len(both.pids) == 1

    def read() -> None:
        refusal(both, slow(), "a.csv")
        ended.set()

    (process,) = both.pids
    before, asking = _computed(process), threading.Thread(target=read)
    asking.start()
    until(lambda: _computed(process) > before + 200)
    assert works(both) and not ended.is_set() and len(both.pids) == 2
    os.kill(process, signal.SIGKILL)
    asking.join(timeout=30)
    assert ended.is_set()
    both.close()
