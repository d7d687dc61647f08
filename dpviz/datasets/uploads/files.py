"""Reading a user's file, CSV or Parquet, into a table: in memory, with limits, and a sentence for every bad file."""

import gzip
import io
import zlib

import numpy as np
import pandas as pd
import pyarrow

from dpviz.datasets.uploads.arrow import frame_of, sampled
from dpviz.datasets.uploads.detection import Detected, detected
from dpviz.datasets.uploads.limits import (
    HOW_TO_SAVE,
    MAX_BYTES,
    MAX_COLUMNS,
    MAX_ROWS,
    MAX_TEXT_BYTES,
    MIN_COLUMNS,
    MIN_ROWS,
    too_big,
    too_few_rows,
    too_many_rows,
    unreadable,
)
from dpviz.datasets.uploads.parquet import parquet_kinds, read_parquet
from dpviz.datasets.uploads.reading import Reading
from dpviz.datasets.uploads.texts import read_text
from dpviz.errors import UserError

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
        How a text file is read: a declaration, by which alone every cell is read. None is `Reading()`: commas between
        cells, decimal points, a header. `detect_reading` proposes one.
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
        table = read_text(data, reading or Reading(), None if sample_rows else max_rows, min_columns, max_columns)
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


def detect_reading(data: bytes, name: str, given: Reading | None = None) -> Detected:
    """How a file seems to be written, and what it leaves open: a proposal, not private, for a person to confirm.

    given : what was said of a text already; the rest is looked at again. The kinds of a Parquet file's columns are
    those of its schema, which declares them. Raises UserError if it is neither.
    """
    data = _unpacked(data)
    if is_parquet(data, name):
        kinds = parquet_kinds(data)
        return Detected(Reading(kinds=tuple(kinds.values())[:MAX_COLUMNS]), (), tuple(kinds))
    return detected(data, given)


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
