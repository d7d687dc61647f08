"""Reading a user's file, CSV or Parquet, into a table: in memory, with limits, and a sentence for every bad file.

The size of a Parquet file is checked twice: as its footer declares it, before the file is unpacked, and by a count
during unpacking.
"""

import gzip
import io
import math
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated

import numpy as np

from dpviz.arguments import Between, checked  # UserError for arguments of a wrong type
from dpviz.datasets.uploads import limits
from dpviz.datasets.uploads.arrow import ColumnBuilder, frame_of, in_one_piece, is_text, take_rows, to_plain_array
from dpviz.datasets.uploads.detection import Detected, detect
from dpviz.datasets.uploads.limits import too_big, unreadable
from dpviz.datasets.uploads.reading import Kind, Reading
from dpviz.datasets.uploads.texts import read_text
from dpviz.errors import UserError
from dpviz.later import pd, pyarrow, types

# --------------------------------------------------------------- a file too large for memory: Parquet in blocks of rows
# A row has the same numbers and classes in a block as in the whole file, because every cell is read by itself: see
# `parsing`.

ROWS = 65_536  # rows of a block, at most
_PARQUET = b"PAR1"  # the beginning and the end of a Parquet file


@contextmanager
def refused_if_damaged() -> Iterator[None]:
    """Raise UserError in place of the errors by which Arrow stops at a damaged file, or for want of memory."""
    try:
        yield
    except UserError:  # a ValueError, too, which says more than that the file is damaged
        raise
    except MemoryError:
        raise too_big("Unpacked, it needs more memory than there is.") from None
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError, LookupError):
        raise unreadable() from None


@dataclass(frozen=True)
class TableFile:
    """A Parquet file that takes the place of an upload's array among the `tables` of `RowsSpecification.load`."""

    path: Path

    @property
    def rows(self) -> int:
        """Number of its rows, as its footer declares it. Raises UserError for a file that is damaged, or no Parquet."""
        with refused_if_damaged():
            return int(pyarrow.parquet.read_metadata(self.path).num_rows)

    def blocks(self) -> "Iterator[pd.DataFrame]":
        """Yield the rows of the file in their order, in blocks: tables with columns as `read_table` makes them.

        The index of each block counts from 0. Raises UserError for a file that is damaged, gone, or no Parquet.
        """
        if not self.path.is_file():
            gone = f"{limits.quote_name(str(self.path))} is gone, and a file of this size is read at every run."
            raise UserError(gone, title="This file cannot be read")
        # Without `pre_buffer`, which keeps all bytes of the file in memory until its end.
        with refused_if_damaged(), pyarrow.parquet.ParquetFile(self.path, pre_buffer=False) as file:
            names = limits.checked_names(file.schema_arrow.names, limits.MIN_COLUMNS, limits.MAX_COLUMNS)
            for batch in file.iter_batches(ROWS):
                arrays = [to_plain_array(array, name) for array, name in zip(batch.columns, names, strict=True)]
                # `whole` makes floats of whole numbers where that loses no digit, and NaN of missing numbers.
                columns = [ColumnBuilder(array).whole() for array in arrays]
                yield frame_of(pyarrow.Table.from_arrays(columns, names=names))


def large_file(path: Path) -> TableFile | None:
    """Return a file that is too large to be read as a whole, to be read in blocks; None for any other path.

    A file is too large above MAX_BYTES, and a Parquet file also above MAX_ROWS. Raises UserError for a large file of
    another format, as only Parquet can be read in blocks.
    """
    if not os.path.isfile(path):  # `Path.is_file` raises an error for a name that is too long
        return None
    try:
        with path.open("rb") as start:
            begins_as_parquet = start.read(4) == _PARQUET
    except OSError:  # who reads it will say why that fails
        return None
    is_large = path.stat().st_size > limits.MAX_BYTES
    if begins_as_parquet and (is_large or TableFile(path).rows > limits.MAX_ROWS):
        return TableFile(path)
    if is_large:
        raise UserError("A file as large as this is read in blocks: save it as Parquet.", title="This file is too big")
    return None


# --------------------------------------------------------------------------------------------------- files of all kinds

Count = Annotated[int, Between(1, math.inf, ends=True)]
MAX_FOOTER_BYTES = 16 * 1024 * 1024  # the footer of a Parquet file lists its columns and row groups
MAX_LISTED = 20_000  # columns, or row groups, that a footer may list: a million columns took 24 s to refuse
MAX_PIECES = 25_000  # row groups × columns: each takes about 0.1 ms
MAX_DIFFERENCES = 5_000_000  # texts in delta encoding, i.e. written as differences: they take 2 to 3 s
_BATCH_ROWS = 65_536  # rows of a column that are unpacked at a time
_TEXT_ROWS = 64  # the same of texts in delta encoding, which are in no dictionary: a batch has each of them in full
_GATHERED = 1_000_000  # bytes of batches that are added together: one by one took five times as long
_GZIP = b"\x1f\x8b"  # the beginning of a packed file


@checked
def read_table(
    data: bytes,
    name: str,
    max_rows: Count = limits.MAX_ROWS,
    max_columns: Count = limits.MAX_COLUMNS,
    *,
    reading: Reading | None = None,
    sample_rows: Count | None = None,
    seed: Annotated[int, Between(0, math.inf, ends=True)] = 0,
) -> "pd.DataFrame":
    """Read the table in an uploaded file; nothing is written to disk, nothing in the file is executed.

    Parameters
    ----------
    data : bytes
        A Parquet file, or text in UTF-8; either may be packed by gzip.
    name : str
        The file name; only its ending is used, to recognise Parquet.
    max_rows, max_columns : int
        A larger table is refused.
    reading : Reading, optional
        How a text file is read: a declaration, by which alone every cell is read. None is `Reading()`: commas between
        cells, decimal points, a header. `detect_reading` proposes one.
    sample_rows, seed : int
        Keep a uniformly random sample of `sample_rows` rows, if there are more; without it a table of more than
        `max_rows` rows is refused. A sample that the reading declares takes precedence.

    Returns
    -------
    DataFrame
        Unique non-empty column names; the index counts the rows of the file from 0, also in a sample. No column has a
        Python object per cell: see `arrow`.

    Raises UserError, which never quotes a cell, for a file that cannot be read or breaks a limit.

    Examples
    --------
    >>> from pathlib import Path
    >>> import dpviz
    >>> len(dpviz.read_table(Path("data/breast_cancer.parquet").read_bytes(), "table.parquet"))
    569
    """
    return frame_of(
        read_columns(
            data, name, max_rows=max_rows, max_columns=max_columns, reading=reading, sample_rows=sample_rows, seed=seed
        )
    )


def read_columns(
    data: bytes,
    name: str,
    *,
    max_rows: int = limits.MAX_ROWS,
    max_columns: int = limits.MAX_COLUMNS,
    reading: Reading | None = None,
    sample_rows: int | None = None,
    seed: int = 0,
    min_columns: int = limits.MIN_COLUMNS,
) -> "pyarrow.Table":
    """Read a file as `read_table` does, into an Arrow table, from which `arrow.frame_of` makes the DataFrame.

    min_columns : a table of fewer is refused. The other parameters and errors are those of `read_table`.
    """
    data = _unpacked(data)
    if reading is not None and reading.sample_rows is not None:
        sample_rows, seed = reading.sample_rows, reading.sample_seed
    if is_parquet(data, name):
        table = read_parquet(data, None if sample_rows else max_rows, min_columns, max_columns)
    else:
        table = read_text(data, reading or Reading(), None if sample_rows else max_rows, min_columns, max_columns)
    if sample_rows and len(table) > sample_rows:
        rows = np.random.default_rng(seed).choice(len(table), sample_rows, replace=False, shuffle=False)
        table = take_rows(table, np.sort(rows))
    if len(table) > max_rows:  # a sample may be too large, too
        raise limits.too_many_rows(max_rows)
    if not len(table):
        raise UserError("There is nothing below the header. " + limits.HOW_TO_SAVE, title="This file has no rows")
    if len(table) < limits.MIN_ROWS:
        raise limits.too_few_rows(len(table))
    return table


def detect_reading(data: bytes, name: str, given: Reading | None = None) -> Detected:
    """Propose a reading of a file, with questions about what it leaves open: not private, for the user to confirm.

    given : the reading of a text that the user has chosen, if any; then only its columns and the end of the file are
    looked at again. A Parquet file needs no detection: its schema declares the kinds of its columns.

    Raises UserError for a file that is neither text nor Parquet, or that is damaged.
    """
    data = _unpacked(data)
    if not is_parquet(data, name):
        return detect(data, given)
    with refused_if_damaged():
        schema = _opened(data).schema_arrow
    # As the schema declares them; truths are numbers.
    kinds: dict[str, Kind] = {field.name: "number" if _is_number(field.type) else "text" for field in schema}
    # A reading holds no more kinds; that there are too many columns is said when the file is read.
    reading = Reading(kinds=tuple(kinds.values())[: limits.MAX_COLUMNS])
    return Detected(reading, questions=(), names=tuple(kinds))


def is_parquet(data: bytes, name: str) -> bool:
    """Return true if a file is or claims to be Parquet. Raises UserError for one that is empty."""
    if not data or data.isspace():
        raise UserError("It holds no data. " + limits.HOW_TO_SAVE, title="This file is empty")
    return data[:4] == _PARQUET or name.lower().endswith((".parquet", ".pq"))


def _unpacked(data: bytes) -> bytes:
    """Return the bytes of a file, unpacked if they are gzip. Raises UserError if they are too many or damaged."""
    if len(data) > limits.MAX_BYTES:
        raise too_big("At most 50 MB can be read. A text takes less when it is packed as .gz.")
    if not data.startswith(_GZIP):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            content = file.read(limits.MAX_TEXT_BYTES + 1)  # the last byte shows that there is too much
    except (OSError, EOFError, zlib.error):
        raise unreadable() from None
    if len(content) > limits.MAX_TEXT_BYTES:
        raise too_big(f"Unpacked, it has more than {limits.MAX_TEXT_BYTES // 1_000_000} MB.")
    return content


# -------------------------------------------------------------------------------------------------------------- Parquet


@refused_if_damaged()
def read_parquet(data: bytes, max_rows: int | None, min_columns: int, max_columns: int) -> "pyarrow.Table":
    """Read a Parquet file into a table whose columns have the few types of `arrow.to_plain_array`.

    max_rows : a longer table is refused; None reads as many rows as MAX_CELLS allows. min_columns, max_columns : a
        table with fewer or more columns is refused. Raises UserError for a file that is refused or cannot be read.
    """
    file = _opened(data)
    schema, metadata = file.schema_arrow, file.metadata
    names = limits.checked_names(schema.names, min_columns, max_columns)
    if metadata.num_row_groups * len(names) > MAX_PIECES:
        raise too_big(f"It is cut into {metadata.num_row_groups:,} row groups. Save it with 100,000 rows in each.")
    # Sizes of whole row groups, since `row_group(i).column(j)` of a damaged file ends the process instead of raising.
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    rows, unpacked_bytes = sum(group.num_rows for group in groups), sum(group.total_byte_size for group in groups)
    # Empty arrays of the types that `to_plain_array` gives: they refuse unusable columns before anything is read.
    columns = [to_plain_array(pyarrow.nulls(0, field.type), name) for field, name in zip(schema, names, strict=True)]
    if max_rows is not None and rows > max_rows:
        raise limits.too_many_rows(max_rows)
    # Before anything is unpacked: the file's size says nothing about the table's.
    if rows * len(names) > limits.MAX_CELLS or unpacked_bytes > limits.MAX_UNPACKED_BYTES:
        raise too_big(f"Unpacked, it has {rows * len(names):,} cells; at most {limits.MAX_CELLS:,} can be read.")
    # Opened again, with texts that stay in dictionaries, so that a text that every row repeats is stored once.
    texts = [field.name for field in schema if is_text(field.type)]
    compact = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data), read_dictionary=texts)
    remaining_bytes = limits.MAX_TEXT_BYTES
    delta_encoded = []  # indices of columns that are read in a second pass
    # One column at a time: texts take several times their size meanwhile.
    for index, (field, name) in enumerate(zip(schema, names, strict=True)):
        column = ColumnBuilder(columns[index])  # empty so far
        try:
            _read_column(compact, field.name, name, column, max_text_bytes=remaining_bytes, rows=_BATCH_ROWS)
        except OSError:  # Arrow makes no dictionary of texts that are written as differences
            if field.name not in texts:
                raise
            delta_encoded.append(index)
            count = rows * len(delta_encoded)
            if count > MAX_DIFFERENCES:
                message = f"At most {MAX_DIFFERENCES:,} of its texts can be in delta encoding, and {count:,} are."
                raise too_big(f"{message} Save it without that, as is usual.") from None
            continue
        columns[index] = column.whole()
        remaining_bytes -= column.text_bytes
    for index in delta_encoded:  # from `file`, which makes no dictionaries
        column = ColumnBuilder(columns[index])
        _read_column(file, schema[index].name, names[index], column, max_text_bytes=remaining_bytes, rows=_TEXT_ROWS)
        columns[index] = column.whole()
        remaining_bytes -= column.text_bytes
    table = pyarrow.Table.from_arrays(columns, names=names)  # without metadata of pandas, which are not trusted
    if len(table) != rows:  # the footer is wrong
        raise unreadable()
    return table


def _is_number(kind: "pyarrow.DataType") -> bool:
    if types.is_dictionary(kind):
        return _is_number(kind.value_type)
    checks = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_duration)
    return any(check(kind) for check in checks)


def _opened(data: bytes) -> "pyarrow.parquet.ParquetFile":
    """Open a Parquet file, after its last eight bytes have shown that the footer is not too large."""
    if data[-4:] == _PARQUET and int.from_bytes(data[-8:-4], "little") > MAX_FOOTER_BYTES:
        raise too_big("What it says of itself alone takes more than 16 MB: it has too many columns or pieces.")
    return pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data), thrift_container_size_limit=MAX_LISTED)


def _read_column(
    file: "pyarrow.parquet.ParquetFile",
    name_in_file: str,
    name: str,
    column: ColumnBuilder,
    *,
    max_text_bytes: int,
    rows: int,
) -> None:
    """Read the column that a file calls `name_in_file`, in batches of `rows` rows, and add them to `column`.

    name : of the column, for errors. Raises UserError for more than `max_text_bytes` bytes of text.
    """
    # Only a damaged file has more batches than these.
    max_batches = file.metadata.num_rows // rows + 1 + file.metadata.num_row_groups
    batches = islice(file.iter_batches(rows, columns=[name_in_file]), max_batches)
    # Arrow takes a name for a path, so that it may deliver "a.b" along with "a".
    for part in _gather(batch.column(batch.schema.get_field_index(name_in_file)) for batch in batches):
        column.add(to_plain_array(part, name))
        if column.text_bytes > max_text_bytes:
            raise too_big(f"Unpacked, its texts take more than {limits.MAX_TEXT_BYTES // 1_000_000} MB.")


def _gather(parts: "Iterable[pyarrow.Array]") -> "Iterator[pyarrow.Array]":
    """Yield the parts in their order, where small ones are joined until they have _GATHERED bytes."""
    parts_to_join: list[pyarrow.Array] = []
    size = 0
    for part in parts:
        parts_to_join.append(part)
        size += part.nbytes + len(part)  # an array of nulls has no bytes
        if size >= _GATHERED:
            yield in_one_piece(pyarrow.chunked_array(parts_to_join))
            parts_to_join, size = [], 0
    if parts_to_join:
        yield in_one_piece(pyarrow.chunked_array(parts_to_join))
