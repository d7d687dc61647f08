"""Reading a user's file, CSV or Parquet, into a table: in memory, with limits, and a sentence for every bad file."""

import csv
import io
import math
from collections.abc import Iterator
from itertools import islice
from typing import TextIO

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet

from dpviz.datasets.cells import as_number, class_label
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
# What pandas and common statistics programs write where a value is missing.
_MISSING = frozenset(["", "?", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null"])
_SEPARATORS = ",;\t"
_KEEP_LESS = "Keep the columns and rows that you need."
_HOW_TO_SAVE = "Save it as UTF-8 CSV (or Parquet) with a header row, at most 50 MB."


def read_table(
    data: bytes,
    name: str,
    max_rows: int = MAX_ROWS,
    max_columns: int = MAX_COLUMNS,
    *,
    sample_rows: int | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """The table in an uploaded file; nothing is written to disk, nothing in the file is executed.

    Parameters
    ----------
    data : bytes
        A Parquet file, or text in UTF-8 with a header row and comma, semicolon or tab between cells.
    name : str
        The file name; only its ending is used, to recognise Parquet.
    sample_rows, seed : int
        Keep a uniformly random sample of so many rows, if there are more; without it a longer table is refused.

    Returns
    -------
    DataFrame
        Unique non-empty column names; the index counts the rows of the file from 0, also in a sample.

    Raises UserError, which never quotes a cell, for whatever cannot be read or breaks a limit.
    """
    if len(data) > MAX_BYTES:
        raise UserError("At most 50 MB can be read. " + _KEEP_LESS, title="This file is too big")
    if not data.strip():
        raise UserError("It holds no data. " + _HOW_TO_SAVE, title="This file is empty")
    stop_after = None if sample_rows else max_rows + 1
    if data[:4] == b"PAR1" or name.lower().endswith((".parquet", ".pq")):
        frame = _read_parquet(data, max_rows if stop_after else None, max_columns)
    else:
        frame = _read_csv(data, stop_after, max_columns)
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


def _read_csv(data: bytes, stop_after: int | None, max_columns: int) -> pd.DataFrame:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _unreadable() from None
    if "\0" in text:
        raise _unreadable()
    lines = io.StringIO(text.lstrip("\r\n"), newline=None)
    try:
        separator = _separator(lines)
        names = _checked_names(next(_cells(lines, separator), []), max_columns)
        start = lines.tell()
        rows = (row for row in _cells(lines, separator) if len(row) > 1 or "".join(row).strip())
        width = len(next(rows, []))
        if width > len(names):
            # pandas would take the surplus cells for an index, or drop them, without a word.
            raise UserError(
                f"The first row has {width} cells, the header {len(names)}. Give every column a name.",
                title="The header does not fit the rows",
            )
        lines.seek(start)
        # As text: pandas would read a column as text as soon as one of its cells is none of the numbers it knows.
        table = pd.read_csv(
            lines,
            sep=separator,
            header=None,
            names=names,
            index_col=False,
            nrows=stop_after,
            skipinitialspace=True,
            dtype=str,
            keep_default_na=False,
            low_memory=False,
        )
        return pd.DataFrame({name: _interpreted(table.pop(name)) for name in names})
    except (ValueError, OverflowError, csv.Error):
        raise _unreadable() from None


def _interpreted(texts: pd.Series) -> pd.Series:
    """A column of texts, each cell read by itself: numbers where all are numbers, otherwise texts; None if missing."""
    codes, found = pd.factorize(texts)
    cells = [None if text.strip() in _MISSING else class_label(text) for text in found]
    values = [math.nan if cell is None else as_number(cell) for cell in cells]
    # Whole numbers of 16 digits and more would lose some: they stay text, whatever else is in the column.
    exact = all(cell is None or class_label(value) == cell for cell, value in zip(cells, values, strict=True))
    kept: np.ndarray = np.array([*values, math.nan]) if exact else np.array([*cells, None], dtype=object)
    return pd.Series(kept[codes])


def _cells(lines: TextIO, separator: str) -> Iterator[list[str]]:
    # Line by line through `readline`, because iterating over a file disables `tell`.
    return csv.reader(iter(lines.readline, ""), delimiter=separator, skipinitialspace=True)


def _separator(lines: TextIO) -> str:
    """The separator that cuts most of the first rows, then the one that cuts the header finest; rewinds `lines`."""
    scores = {}
    for separator in _SEPARATORS:
        widths = [len(row) for row in islice(_cells(lines, separator), MIN_ROWS) if row]
        scores[separator] = (sum(width > 1 for width in widths), widths[:1])
        lines.seek(0)
    return max(scores, key=scores.__getitem__)


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
