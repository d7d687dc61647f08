"""Reading a Parquet file: measured by what it says of itself before it is unpacked, and counted while it is."""

from itertools import islice

import pyarrow
import pyarrow.parquet
from pyarrow import types

from dpviz.datasets.uploads.arrow import Column, is_text, plain
from dpviz.datasets.uploads.limits import (
    MAX_CELLS,
    MAX_UNPACKED_BYTES,
    checked_names,
    too_big,
    too_many_rows,
    unreadable,
)
from dpviz.datasets.uploads.reading import Kind

MAX_FOOTER_BYTES = 16 * 1024 * 1024
MAX_LISTED = 20_000  # columns, or row groups, that a footer may list: a million columns took 24 s to refuse
MAX_PIECES = 200_000  # row groups × columns
_BATCH_ROWS, _TEXT_ROWS = 65_536, 1024
_ERRORS = (pyarrow.ArrowException, OSError, ValueError, OverflowError, LookupError)


def read_parquet(data: bytes, max_rows: int | None, min_columns: int, max_columns: int) -> pyarrow.Table:
    """The columns of a file as `arrow.plain` makes them. Raises UserError for whatever cannot be read.

    max_rows : a longer table is refused; None reads as many as MAX_CELLS allows.
    """
    try:
        return _read(data, max_rows, min_columns, max_columns)
    except MemoryError:
        raise too_big("Unpacked, it needs more memory than there is.") from None
    except _ERRORS:
        raise unreadable() from None


def parquet_kinds(data: bytes) -> dict[str, Kind]:
    """The columns of a file, and what its schema says that each holds; truths are numbers. Raises UserError."""
    try:
        schema = _opened(data).schema_arrow
    except _ERRORS:
        raise unreadable() from None
    return {field.name: "number" if _is_number(field.type) else "text" for field in schema}


def _is_number(kind: pyarrow.DataType) -> bool:
    checks = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_duration)
    return _is_number(kind.value_type) if types.is_dictionary(kind) else any(check(kind) for check in checks)


def _opened(data: bytes) -> pyarrow.parquet.ParquetFile:
    if data[-4:] == b"PAR1" and int.from_bytes(data[-8:-4], "little") > MAX_FOOTER_BYTES:
        raise too_big("What it says of itself alone takes more than 16 MB: it has too many columns or pieces.")
    return pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data), thrift_container_size_limit=MAX_LISTED)


def _read(data: bytes, max_rows: int | None, min_columns: int, max_columns: int) -> pyarrow.Table:
    file = _opened(data)
    schema, metadata = file.schema_arrow, file.metadata
    names = checked_names(schema.names, min_columns, max_columns)
    if metadata.num_row_groups * len(names) > MAX_PIECES:
        raise too_big(f"It is cut into {metadata.num_row_groups:,} row groups. Save it with 100,000 rows in each.")
    # Not `row_group(i).column(j)`: on a damaged file it ends the process instead of raising.
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    rows, unpacked = sum(group.num_rows for group in groups), sum(group.total_byte_size for group in groups)
    first = [plain(pyarrow.nulls(0, field.type), name) for field, name in zip(schema, names, strict=True)]
    if max_rows is not None and rows > max_rows:
        raise too_many_rows(max_rows)
    # Before anything is unpacked: the file's size says nothing about the table's.
    if rows * len(names) > MAX_CELLS or unpacked > MAX_UNPACKED_BYTES:
        raise too_big(f"Unpacked, it has {rows * len(names):,} cells; at most {MAX_CELLS:,} can be read.")
    # Text stays in dictionaries: a text repeated in every row is kept once. Metadata of pandas are not trusted.
    texts = [field.name for field in schema if is_text(field.type)]
    compact = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data), read_dictionary=texts)
    found, left = [], MAX_UNPACKED_BYTES
    # One column at a time: texts take several times their size meanwhile.
    for field, name, start in zip(schema, names, first, strict=True):
        try:
            column = _column(compact, field.name, name, Column(start), left, _BATCH_ROWS)
        except OSError:  # Arrow makes no dictionary of texts that are written as differences
            column = _column(file, field.name, name, Column(start), left, _TEXT_ROWS)
        found.append(column.whole())
        left -= column.kept
    table = pyarrow.Table.from_arrays(found, names=names)
    if len(table) != rows:
        raise unreadable()
    return table


def _column(file: pyarrow.parquet.ParquetFile, named: str, name: str, column: Column, left: int, rows: int) -> Column:
    """The column `named` of a file, called `name`, in batches of so many rows; with at most `left` bytes of text."""
    most = file.metadata.num_rows // rows + 1 + file.metadata.num_row_groups
    for batch in islice(file.iter_batches(rows, columns=[named]), most):
        # Arrow takes a name for a path, and so may deliver "a.b" along with "a".
        column.add(plain(batch.column(batch.schema.get_field_index(named)), name))
        if column.kept > left:
            raise too_big(f"Unpacked, its texts take more than {MAX_UNPACKED_BYTES // 1_000_000} MB.")
    return column
