"""Reading a user's file, CSV or Parquet, into a table: in memory, with limits, and a sentence for every bad file."""

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet

from dpviz.datasets.reading import Detected, Reading, detected, interpreted, opened, rows_of
from dpviz.errors import UserError

MIN_ROWS = 20
MAX_ROWS = 1_000_000
MAX_COLUMNS = 200
MAX_BYTES = 50 * 1024 * 1024
MAX_CELLS = 50_000_000  # of a Parquet file: a few compressed kilobytes can hold any number of equal values
MAX_UNPACKED_BYTES = 500_000_000
MAX_NAME = 200  # characters of a column name
_BATCH_ROWS = 65_536
_PARQUET_ERRORS = (pyarrow.ArrowException, OSError, ValueError, OverflowError, LookupError)
_KEEP_LESS = "Keep the columns and rows that you need."
_HOW_TO_SAVE = "Save it as UTF-8 CSV (or Parquet) with a header row, at most 50 MB."


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
        A Parquet file, or text in UTF-8.
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
        Unique non-empty column names; the index counts the rows of the file from 0, also in a sample.

    Raises UserError, which never quotes a cell, for whatever cannot be read or breaks a limit.
    """
    if reading is not None and reading.sample_rows is not None:
        sample_rows, seed = reading.sample_rows, reading.sample_seed
    stop_after = None if sample_rows else max_rows + 1
    if is_parquet(data, name):
        frame = _read_parquet(data, max_rows if stop_after else None, max_columns)
    else:
        text = _decoded(data)
        with _as_sentence():
            frame = _read_csv(text, detected(text).reading if reading is None else reading, stop_after, max_columns)
    if sample_rows and len(frame) > sample_rows:
        chosen = np.random.default_rng(seed).choice(len(frame), sample_rows, replace=False, shuffle=False)
        frame = frame.iloc[np.sort(chosen)]
    if len(frame) > max_rows:
        raise _too_many_rows(max_rows)
    if frame.empty:
        raise UserError("There is nothing below the header. " + _HOW_TO_SAVE, title="This file has no rows")
    if len(frame) < MIN_ROWS:
        raise too_few_rows(len(frame))
    return frame


def detect_reading(data: bytes, name: str) -> Detected:
    """How a file seems to be written, and what it leaves open. Raises UserError if it is not text."""
    if is_parquet(data, name):
        return Detected(Reading(), ())
    with _as_sentence():
        return detected(_decoded(data))


def is_parquet(data: bytes, name: str) -> bool:
    """Whether a file is or claims to be Parquet. Raises UserError for a file that is empty or too big."""
    if len(data) > MAX_BYTES:
        raise UserError("At most 50 MB can be read. " + _KEEP_LESS, title="This file is too big")
    if not data.strip():
        raise UserError("It holds no data. " + _HOW_TO_SAVE, title="This file is empty")
    return data[:4] == b"PAR1" or name.lower().endswith((".parquet", ".pq"))


def too_few_rows(count: int, left: str = "") -> UserError:
    """The error for a table with fewer than MIN_ROWS rows; `left` ends its title where rows were dropped."""
    return UserError(
        f"At least {MIN_ROWS} are needed. At ε = 1 the noise hides everything in a table this small; "
        "try 1,000 rows or more.",
        title=f"Only {count} row{'s' if count != 1 else ''}{left}",
    )


def shown(name: str) -> str:
    """A column name as an error quotes it: in quotes, shortened to 40 characters."""
    return f"'{name}'" if len(name) <= 40 else f"'{name[:39]}…'"


def _too_many_rows(limit: int) -> UserError:
    return UserError(
        f"At most {limit:,} rows can be used. Use a random sample of {limit:,} rows, or shorten the file.",
        title=f"More than {limit:,} rows",
    )


def _unreadable() -> UserError:
    return UserError(_HOW_TO_SAVE, title="This file could not be read")


def _not_a_table() -> UserError:
    return UserError(
        "Only one column was found; a target and at least one feature are needed. Put the column names into the first "
        "row and separate the cells by commas, semicolons or tabs.",
        title="This file is not a table",
    )


def _checked_names(names: list[str], max_columns: int) -> list[str]:
    """The column names, or the UserError that they deserve. A column without a name gets one."""
    names = [name.strip() or f"Column {position}" for position, name in enumerate(names, 1)]
    if len(names) < 2:
        raise _not_a_table()
    if len(names) > max_columns:
        raise UserError(
            f"At most {max_columns} can be read. Keep the target and the columns that you need.",
            title=f"This file has {len(names):,} columns",
        )
    if any(len(name) > MAX_NAME for name in names):
        raise UserError(
            f"Column names may have at most {MAX_NAME} characters. Is the first row a header?",
            title="A column name is too long",
        )
    repeated = next((name for position, name in enumerate(names) if name in names[:position]), None)
    if repeated is not None:
        title = f"Two columns are called {shown(repeated)}"
        raise UserError("Give every column its own name in the header.", title=title)
    return names


@contextmanager
def _as_sentence() -> Iterator[None]:
    try:
        yield
    except (ValueError, OverflowError, csv.Error):
        raise _unreadable() from None


def _decoded(data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _unreadable() from None
    if "\0" in text:
        raise _unreadable()
    return text


def _read_csv(text: str, reading: Reading, stop_after: int | None, max_columns: int) -> pd.DataFrame:
    lines, _ = opened(text)
    start = lines.tell()
    first = next(rows_of(lines, reading.separator), [])
    if reading.header:
        start = lines.tell()
    else:
        first = [""] * len(first)
    names = _checked_names(first, max_columns)
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
    table = _texts(lines, names, reading, stop_after)
    return pd.DataFrame({name: interpreted(table.pop(name), reading) for name in names})


def _texts(lines: io.StringIO, names: list[str], reading: Reading, stop_after: int | None) -> pd.DataFrame:
    """The cells below, as text: pandas would read a column of numbers as text as soon as one cell of it is none."""
    start = lines.tell()
    try:
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
        )
    except pd.errors.ParserError:
        lines.seek(start)
        wide = ((row, len(cells)) for row, cells in enumerate(rows_of(lines, reading.separator), 1))
        row, width = next((found for found in wide if found[1] > len(names)), (0, 0))
        if not row:
            raise
        raise UserError(
            f"Row {row}{' below the header' if reading.header else ''} has {width} cells; there are {len(names)} "
            "columns. Put cells that hold the separator in quotes. " + _HOW_TO_SAVE,
            title="This file could not be read",
        ) from None


def _read_parquet(data: bytes, max_rows: int | None, max_columns: int) -> pd.DataFrame:
    try:
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data))
        schema, metadata = file.schema_arrow, file.metadata
        # Not `row_group(i).column(j)`: on a damaged file it ends the process instead of raising.
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        rows, unpacked = sum(group.num_rows for group in groups), sum(group.total_byte_size for group in groups)
    except _PARQUET_ERRORS:
        raise _unreadable() from None
    names = _checked_names(schema.names, max_columns)
    nested = next((field.name for field in schema if pyarrow.types.is_nested(field.type)), None)
    if nested is not None:
        title = f"Column {shown(nested)} holds lists or records"
        raise UserError("Leave it out of the file, or save one value per cell.", title=title)
    if max_rows is not None and rows > max_rows:
        raise _too_many_rows(max_rows)
    # Before anything is unpacked: the file's size says nothing about the table's.
    if rows * len(names) > MAX_CELLS or unpacked > MAX_UNPACKED_BYTES:
        raise UserError(
            f"Unpacked, it has {rows * len(names):,} cells; at most {MAX_CELLS:,} can be read. " + _KEEP_LESS,
            title="This file is too big",
        )
    try:
        # Text stays in dictionaries: a text repeated in every row is kept once. Metadata of pandas are not trusted.
        text = [field.name for field in schema if _is_text(field.type)]
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data), read_dictionary=text)
        batches = list(islice(file.iter_batches(_BATCH_ROWS), rows // _BATCH_ROWS + 1 + len(groups)))
        table = pyarrow.Table.from_batches(batches, file.schema_arrow)
        return table.rename_columns(names).to_pandas(ignore_metadata=True)
    except _PARQUET_ERRORS:
        raise _unreadable() from None


def _is_text(kind: pyarrow.DataType) -> bool:
    return bool(
        pyarrow.types.is_string(kind)
        or pyarrow.types.is_large_string(kind)
        or pyarrow.types.is_binary(kind)
        or pyarrow.types.is_large_binary(kind)
    )
