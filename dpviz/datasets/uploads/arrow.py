"""The cells of a user's file as Arrow keeps them: numbers, texts and points in time, with no Python object per cell.

A column of any type becomes one of a few types, which pandas takes over without unpacking:
float64; int64 or uint64, where a whole number would lose digits as float64; timestamps; and texts in a dictionary,
which holds each text once. A column of a text file in which numbers and texts are mixed is a float64 and a dictionary.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dpviz.datasets.uploads.limits import quote_name
from dpviz.errors import UserError
from dpviz.later import pd, pyarrow, types

_EXACT = 2**53  # whole numbers up to here are exact in float64
_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # ticks of a duration in one second
_PART = 50_000  # values of an array that are Python objects at a time
_ROWS = ""  # names the column of row numbers that `take_rows` adds; no column of a file has an empty name
_MERGED_FROM = 4_000_000  # bytes of a column's new dictionaries before they are merged for the first time


def as_texts(array: "pyarrow.Array") -> "pyarrow.DictionaryArray":
    """Encode an array of text or bytes as a dictionary of distinct texts. Raises ArrowInvalid unless it is UTF-8."""
    # First to bytes: only the cast from bytes to text checks that they are UTF-8.
    return array.cast(pyarrow.large_binary()).cast(pyarrow.large_string()).dictionary_encode()


def to_plain_array(array: "pyarrow.Array", name: str) -> "pyarrow.Array":
    """Convert an array of any type to float64, int64, uint64, timestamps or a dictionary of texts.

    Bytes that are no UTF-8 become "�", and durations seconds.

    name : of the column, for errors. Raises UserError for a type whose cells are not single numbers or texts, and for
    times that cannot be written as texts.
    """
    kind = array.type
    if isinstance(kind, pyarrow.BaseExtensionType):  # a type made from a usual one, which stores the cells
        return to_plain_array(array.storage, name)
    if types.is_dictionary(kind):  # convert each distinct value that a cell has once
        indices, values = _without_unused(array)
        return to_plain_array(values, name).take(indices)
    if types.is_boolean(kind):
        truths = pyarrow.array(["False", "True"], pyarrow.large_string())
        return pyarrow.DictionaryArray.from_arrays(array.cast(pyarrow.int32()), truths)
    if is_text(kind):
        try:
            return as_texts(array)
        except pyarrow.ArrowInvalid:  # perhaps due to one cell, which must not make the file unreadable
            return _decode_leniently(array)
    if types.is_date(kind) or types.is_time(kind) or types.is_timestamp(kind):
        _check_times(array, name)
    if types.is_date(kind) or types.is_time(kind):
        encoded = array.dictionary_encode()
        # As texts, without a fraction of a second that is 0.
        texts = pyarrow.compute.replace_substring_regex(encoded.dictionary.cast(pyarrow.large_string()), r"\.0+$", "")
        return as_texts(texts).take(encoded.indices)
    if types.is_timestamp(kind):
        return array if _zone_is_known(kind) else array.cast(pyarrow.timestamp(kind.unit, "UTC"))
    if types.is_int64(kind) or types.is_uint64(kind):  # `ColumnBuilder.whole` decides if float64 can hold them
        return array
    if types.is_null(kind) or types.is_integer(kind) or types.is_float32(kind) or types.is_float64(kind):
        return array.cast(pyarrow.float64())  # exact: whole numbers of 64 bits have been returned
    if types.is_float16(kind):
        return pyarrow.array(array.to_numpy(zero_copy_only=False).astype(np.float64), mask=np.asarray(array.is_null()))
    if types.is_decimal(kind):
        # First to text, which is read to the last digit: Arrow's direct conversion misses it in half of all numbers.
        return array.cast(pyarrow.string()).cast(pyarrow.float64())
    if types.is_duration(kind):
        ticks = array.cast(pyarrow.int64()).cast(pyarrow.float64(), safe=False)  # beyond _EXACT they are rounded
        return pyarrow.compute.divide(ticks, _PER_SECOND[kind.unit])
    content = "lists or records" if types.is_nested(kind) else f"values of the type {quote_name(str(kind))}"
    raise UserError(
        "Leave it out of the file, or save one number or text per cell.",
        title=f"Column {quote_name(name)} holds {content}",
    )


def _check_times(array: "pyarrow.Array", name: str) -> None:
    """Raise UserError for dates outside the years 0 to 9999, and times of day beyond 24 hours: they have no text."""
    kind = array.type
    # The array holds ticks, whole numbers of a unit: of dates since 1970, of a time of day since midnight. Each must be
    # at least the tick of the first valid day, and below the tick of the day after the last. NumPy counts from 1970,
    # too, so that a time of day is one on the first day of 1970.
    unit = "D" if types.is_date32(kind) else "ms" if types.is_date64(kind) else kind.unit
    first, end = ("1970-01-01", "1970-01-02") if types.is_time(kind) else ("0000-01-01", "10000-01-01")
    if unit == "ns" and not types.is_time(kind):  # such timestamps lie between the years 1677 and 2262
        return
    low, high = np.array([first, end], f"datetime64[{unit}]").astype(np.int64).tolist()
    ticks = array.view(pyarrow.int32() if kind.bit_width == 32 else pyarrow.int64())
    extremes = pyarrow.compute.min_max(ticks).as_py()  # None where all cells are missing
    if extremes["min"] is not None and not low <= extremes["min"] <= extremes["max"] < high:
        raise UserError(
            "Correct them, or leave the column out of the file.",
            title=f"Column {quote_name(name)} holds times before year 0, after year 9999, or beyond a day",
        )


def _decode_leniently(array: "pyarrow.Array") -> "pyarrow.Array":
    """Decode an array of bytes to a dictionary of texts, with "�" in place of bytes that are no UTF-8."""
    encoded = array.cast(pyarrow.large_binary()).dictionary_encode()
    parts = [
        pyarrow.array([value.decode(errors="replace") for value in part.to_pylist()], pyarrow.large_string())
        for part in array_slices(encoded.dictionary)
    ]
    return as_texts(pyarrow.concat_arrays(parts)).take(encoded.indices)


def is_text(kind: "pyarrow.DataType") -> bool:
    """Return true for an Arrow type of texts, or of bytes, which may be texts."""
    checks = (
        *(types.is_string, types.is_large_string, types.is_string_view),
        *(types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary),
    )
    return any(check(kind) for check in checks)


def _zone_is_known(kind: "pyarrow.DataType") -> bool:
    """Return true if a type of timestamps has no time zone, or one that pandas knows."""
    if kind.tz is None:
        return True
    try:
        pd.DatetimeTZDtype(kind.unit, kind.tz)
    except (TypeError, ValueError, LookupError, OSError):  # which of them depends on what is wrong with the name
        return False
    return True


def _without_unused(array: "pyarrow.DictionaryArray") -> "tuple[pyarrow.Array, pyarrow.Array]":
    """Return the indices and the values of a dictionary array, after dropping values that no cell has."""
    encoded = array.indices.dictionary_encode()  # `encoded.dictionary` has the indices that occur
    return encoded.indices, array.dictionary.take(encoded.dictionary)


def select_texts(texts: "pyarrow.DictionaryArray", is_selected: np.ndarray) -> "pyarrow.DictionaryArray":
    """Return the column with null in place of all texts that are not selected.

    is_selected : one truth for each text of the column's dictionary.
    """
    is_cell_selected = pyarrow.compute.take(pyarrow.array(is_selected), texts.indices)  # null for a missing cell
    indices = pyarrow.compute.if_else(pyarrow.compute.fill_null(is_cell_selected, False), texts.indices, None)
    selected = pyarrow.DictionaryArray.from_arrays(indices, texts.dictionary)
    return pyarrow.DictionaryArray.from_arrays(*_without_unused(selected))


def array_slices(array: "pyarrow.Array") -> "Iterator[pyarrow.Array]":
    """Yield an array in slices: a caller that converts one at a time holds few Python objects."""
    return (array.slice(start, _PART) for start in range(0, len(array), _PART))


def in_one_piece(column: "pyarrow.ChunkedArray") -> "pyarrow.Array":
    """Return a column as one array; a column of one piece is not copied, as `combine_chunks` would do."""
    return column.chunk(0) if column.num_chunks == 1 else column.unify_dictionaries().combine_chunks()


class ColumnBuilder:
    """A column that is put together from parts, each a result of `to_plain_array`.

    first : the first part, which may be empty; its type is that of the column.
    """

    def __init__(self, first: "pyarrow.Array") -> None:
        self._parts = [first]
        self._merged_bytes = 0  # of the dictionary of all merged parts
        self._new_bytes = 0  # of the dictionaries of parts that were added since then

    @property
    def text_bytes(self) -> int:
        """Size of the column's texts in bytes; a text that occurs in several parts may count several times."""
        return self._merged_bytes + self._new_bytes

    def add(self, part: "pyarrow.Array") -> None:
        """Append a part; merge the dictionaries of all parts when they have grown enough."""
        self._parts.append(part)
        if types.is_dictionary(part.type):
            self._new_bytes += part.dictionary.nbytes
            # Each part has a dictionary of its own, so that equal texts are stored twice until a merge. A merge takes
            # time in proportion to all dictionaries, so that it waits until the new ones are more than half of these.
            if self._new_bytes > max(self._merged_bytes, _MERGED_FROM):
                self._parts = [self.whole()]
                self._merged_bytes, self._new_bytes = self._parts[0].dictionary.nbytes, 0

    def whole(self) -> "pyarrow.Array":
        """Return all parts as one array.

        Whole numbers become float64 where that loses no digit; a missing float64 becomes NaN.
        """
        array = in_one_piece(pyarrow.chunked_array(self._parts))
        if types.is_int64(array.type) or types.is_uint64(array.type):
            extremes = pyarrow.compute.min_max(array).as_py()
            all_missing = extremes["max"] is None
            if all_missing or -_EXACT <= extremes["min"] <= extremes["max"] <= _EXACT:
                array = array.cast(pyarrow.float64())
        if types.is_float64(array.type) and array.null_count:
            return array.fill_null(math.nan)
        return array


def take_rows(table: "pyarrow.Table", rows: np.ndarray) -> "pyarrow.Table":
    """Return the rows of a table at the indices `rows`, and these indices as a last column "".

    Texts that no selected row holds are removed from the dictionaries.
    """
    columns = []
    for column in table.columns:
        array = in_one_piece(column).take(pyarrow.array(rows))
        is_dictionary = types.is_dictionary(array.type)
        columns.append(pyarrow.DictionaryArray.from_arrays(*_without_unused(array)) if is_dictionary else array)
    return pyarrow.Table.from_arrays([*columns, pyarrow.array(rows)], names=[*table.column_names, _ROWS])


def frame_of(table: "pyarrow.Table") -> "pd.DataFrame":
    """Return a table whose columns come from `to_plain_array` or `ColumnBuilder` as a DataFrame; numbers and texts are
    not copied.

    Two columns with the same name, one of numbers and one of texts, become one column of both. The numbers of the rows,
    if `take_rows` added them, become the index.
    """
    arrays_by_name: dict[str, list[pyarrow.Array]] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        arrays_by_name.setdefault(name, []).append(in_one_piece(column))
    rows = arrays_by_name.pop(_ROWS, None)
    index = pd.RangeIndex(len(table)) if rows is None else pd.Index(rows[0].to_numpy())
    columns = {name: pd.Series(_cells(*arrays), copy=False) for name, arrays in arrays_by_name.items()}
    # The index comes last: given to `DataFrame`, it would select rows of these series, whose indices count from 0.
    return pd.DataFrame(columns, copy=False).set_axis(index, axis=0)


def text_codes(series: "pd.Series") -> "tuple[np.ndarray, pyarrow.Array] | None":
    """Return the index (n,) of each cell's text among the distinct texts of a column, and these texts.

    The index is -1 where a cell is missing. Returns None if the column is not one of texts, as `frame_of` makes it.
    """
    if not isinstance(series.dtype, pd.ArrowDtype) or not types.is_dictionary(series.dtype.pyarrow_dtype):
        return None
    column = pyarrow.chunked_array(pyarrow.array(series.array))  # of one piece or several
    indices, texts = _without_unused(in_one_piece(column))
    return indices.fill_null(-1).to_numpy(zero_copy_only=False), texts


def mixed_column(numbers: np.ndarray, texts: "pyarrow.DictionaryArray") -> "pd.Categorical":
    """Merge numbers and texts of the same n cells into one column.

    A number is NaN and a text is null where the cell holds none; a cell that holds neither is missing.
    """
    number_codes, distinct_numbers = pd.factorize(numbers)  # -1 where NaN
    codes = texts.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    categories = pd.Index([*distinct_numbers.tolist(), *texts.dictionary.to_pylist()], dtype=object)
    return pd.Categorical.from_codes(np.where(codes >= 0, codes + len(distinct_numbers), number_codes), categories)


def _cells(array: "pyarrow.Array", texts: "pyarrow.DictionaryArray | None" = None) -> Any:
    """Return the values of a pandas column for an array; `texts` are those of the same cells, if it has both."""
    if texts is not None:
        return mixed_column(array.to_numpy(zero_copy_only=False), texts)
    if types.is_dictionary(array.type):
        # A Categorical would take more memory: it keeps all its texts as Python objects in a table of hashes.
        return pd.array(array, dtype=pd.ArrowDtype(array.type))
    if types.is_timestamp(array.type):
        return array.to_pandas()
    if not array.null_count:
        return array.to_numpy()
    # Whole numbers that float64 cannot hold have types of pandas in which a cell may be missing.
    return array.to_pandas(types_mapper={pyarrow.int64(): pd.Int64Dtype(), pyarrow.uint64(): pd.UInt64Dtype()}.get)
