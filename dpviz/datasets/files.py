"""Reading a user's file, CSV or Parquet, into a table: in memory, with limits, and a sentence for every bad file."""

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import numpy as np
import pandas as pd
import pyarrow

from dpviz.datasets.arrow import Column, as_texts, frame_of, sampled
from dpviz.datasets.limits import (
    HOW_TO_SAVE,
    MAX_BYTES,
    MAX_COLUMNS,
    MAX_ROWS,
    MAX_TEXT_BYTES,
    MIN_COLUMNS,
    MIN_ROWS,
    checked_names,
    too_big,
    too_few_rows,
    too_many_rows,
    unreadable,
)
from dpviz.datasets.parquet import read_parquet
from dpviz.datasets.reading import Detected, Reading, detected, opened, read_cells, rows_of
from dpviz.errors import UserError

MAX_LINE_BYTES = 1_000_000
_CHUNK_CELLS = 2_000_000  # of a text, as Python objects before they are read
_BLOCK = 1 << 18  # bytes
_GZIP = b"\x1f\x8b"


def read_table(
    data: bytes,
    name: str,
    max_rows: int = MAX_ROWS,
    max_columns: int = MAX_COLUMNS,
    *,
    reading: Reading | None = None,
    sample_rows: int | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """The table in an uploaded file; nothing is written to disk, nothing in the file is executed.

    Parameters
    ----------
    data : bytes
        A Parquet file, or text in UTF-8; either may be packed by gzip.
    name : str
        The file name; only its ending is used, to recognise Parquet.
    reading : Reading, optional
        How a text file is read; `detect_reading` if None.
    sample_rows, seed : int
        Keep a uniformly random sample of so many rows, if there are more; without it a longer table is refused.
        Those of the reading, if it has any.

    Returns
    -------
    DataFrame
        Unique non-empty column names; the index counts the rows of the file from 0, also in a sample. No column has a
        Python object per cell: see `arrow`.

    Raises UserError, which never quotes a cell, for whatever cannot be read or breaks a limit.
    """
    return frame_of(read_columns(data, name, max_rows, max_columns, reading, sample_rows, seed))


def read_columns(
    data: bytes,
    name: str,
    max_rows: int = MAX_ROWS,
    max_columns: int = MAX_COLUMNS,
    reading: Reading | None = None,
    sample_rows: int | None = None,
    seed: int = 0,
    min_columns: int = MIN_COLUMNS,
) -> pyarrow.Table:
    """What `arrow.frame_of` makes the table of `read_table` from."""
    data = _unpacked(data)
    if reading is not None and reading.sample_rows is not None:
        sample_rows, seed = reading.sample_rows, reading.sample_seed
    if is_parquet(data, name):
        table = read_parquet(data, None if sample_rows else max_rows, min_columns, max_columns)
    else:
        _check_text(data)
        with _as_sentence():
            found = detected(data).reading if reading is None else reading
            table = _read_csv(data, found, None if sample_rows else max_rows + 1, min_columns, max_columns)
    if sample_rows and len(table) > sample_rows:
        chosen = np.random.default_rng(seed).choice(len(table), sample_rows, replace=False, shuffle=False)
        table = sampled(table, np.sort(chosen))
    if len(table) > max_rows:
        raise too_many_rows(max_rows)
    if not len(table):
        raise UserError("There is nothing below the header. " + HOW_TO_SAVE, title="This file has no rows")
    if len(table) < MIN_ROWS:
        raise too_few_rows(len(table))
    return table


def detect_reading(data: bytes, name: str) -> Detected:
    """How a file seems to be written, and what it leaves open. Raises UserError if it is not text."""
    data = _unpacked(data)
    if is_parquet(data, name):
        return Detected(Reading(), ())
    _check_text(data)
    with _as_sentence():
        return detected(data)


def is_parquet(data: bytes, name: str) -> bool:
    """Whether a file is or claims to be Parquet. Raises UserError for one that is empty."""
    if not data or data.isspace():
        raise UserError("It holds no data. " + HOW_TO_SAVE, title="This file is empty")
    return data[:4] == b"PAR1" or name.lower().endswith((".parquet", ".pq"))


def _unpacked(data: bytes) -> bytes:
    """The file, or what it holds if gzip has packed it. Raises UserError if that is too much, or damaged."""
    if len(data) > MAX_BYTES:
        raise too_big("At most 50 MB can be read. A text takes less when it is packed as .gz.")
    if not data.startswith(_GZIP):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            found = packed.read(MAX_TEXT_BYTES + 1)
    except (OSError, EOFError, zlib.error):
        raise unreadable() from None
    if len(found) > MAX_TEXT_BYTES:
        raise too_big(f"Unpacked, it has more than {MAX_TEXT_BYTES // 1_000_000} MB.")
    return found


@contextmanager
def _as_sentence() -> Iterator[None]:
    try:
        yield
    except (ValueError, OverflowError, csv.Error):
        raise unreadable() from None


def _check_text(data: bytes) -> None:
    """Raise UserError unless the file is text in UTF-8, in lines that can be looked at one by one."""
    if b"\0" in data:
        raise unreadable()
    decoder = codecs.getincrementaldecoder("utf-8")()
    before = longest = 0  # where the present line begins
    for start in range(0, len(data), _BLOCK):
        block = data[start : start + _BLOCK]
        try:
            decoder.decode(block, final=start + _BLOCK >= len(data))
        except UnicodeDecodeError:
            raise unreadable() from None
        characters = np.frombuffer(block, dtype=np.uint8)
        ends = start + np.flatnonzero((characters == ord("\n")) | (characters == ord("\r")))
        longest = max(longest, int(np.diff(ends, prepend=before, append=start + len(block)).max()))
        before = int(ends[-1]) if len(ends) else before
    if longest > MAX_LINE_BYTES:
        raise unreadable(f"A line of it is longer than {MAX_LINE_BYTES:,} bytes.")


def _read_csv(
    data: bytes, reading: Reading, stop_after: int | None, min_columns: int, max_columns: int
) -> pyarrow.Table:
    lines, _ = opened(data)
    start = lines.tell()
    first = next(rows_of(lines, reading.separator), [])
    if reading.header:
        start = lines.tell()
    else:
        first = [""] * len(first)
    names = checked_names(first, min_columns, max_columns)
    lines.seek(start)
    rows = (row for row in rows_of(lines, reading.separator) if len(row) > 1 or "".join(row).strip())
    width = len(next(rows, []))
    if width > len(names):
        # pandas would take the surplus cells for an index, or drop them, without a word.
        raise UserError(
            f"The first row has {width} cells, the header {len(names)}. Give every column a name. Where numbers have "
            "decimal commas, put them in quotes or separate the cells by semicolons.",
            title="The header does not fit the rows",
        )
    lines.seek(start)
    try:
        return _interpreted(_texts(lines, names, reading, stop_after), names, reading)
    except pd.errors.ParserError as error:
        if "out of memory" in str(error):
            raise MemoryError from None
        lines.seek(start)
        wide = ((row, len(cells)) for row, cells in enumerate(rows_of(lines, reading.separator), 1))
        row, width = next((found for found in wide if found[1] > len(names)), (0, 0))
        if not row:
            raise
        below = " below the header" if reading.header else ""
        raise unreadable(
            f"Row {row}{below} has {width} cells; there are {len(names)} columns. Put cells that hold the separator in "
            "quotes."
        ) from None


def _texts(lines: TextIO, names: list[str], reading: Reading, stop_after: int | None) -> Iterator[pd.DataFrame]:
    """The cells below, as text: pandas would read a column of numbers as text as soon as one cell of it is none."""
    return pd.read_csv(
        lines,
        sep=reading.separator,
        header=None,
        names=names,
        index_col=False,
        nrows=stop_after,
        skipinitialspace=True,
        dtype=str,
        keep_default_na=False,
        low_memory=False,
        chunksize=_CHUNK_CELLS // len(names),
    )


def _interpreted(chunks: Iterator[pd.DataFrame], names: list[str], reading: Reading) -> pyarrow.Table:
    """The chunks of texts with their cells read: a column of numbers, of texts, or of both for each name."""
    numbers = {name: [np.empty(0)] for name in names}
    texts = {name: Column(as_texts(pyarrow.array([], pyarrow.large_string()))) for name in names}
    for chunk in chunks:
        for name in names:
            cells = pyarrow.array(chunk[name], type=pyarrow.large_string(), from_pandas=True)
            found, written = read_cells(cells, reading)
            numbers[name].append(found)
            texts[name].add(written)
    columns: list[tuple[str, pyarrow.Array]] = []
    for name in names:
        found, written = np.concatenate(numbers.pop(name)), texts.pop(name).whole()
        if not len(written.dictionary) or not np.isnan(found).all():
            columns.append((name, pyarrow.array(found)))
        if len(written.dictionary):
            columns.append((name, written))
    return pyarrow.Table.from_arrays([column for _, column in columns], names=[name for name, _ in columns])
