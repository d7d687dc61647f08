"""The cells of a user's file as Arrow keeps them: numbers, texts and points in time, with no Python object per cell.

Whatever type a column comes in, it leaves as one of few, which pandas takes over without unpacking it:
float64; int64 or uint64, where a whole number would lose digits as float64; timestamps; and texts in a dictionary, in
which each text stands once. A column of a text file in which numbers and texts are mixed is a float64 and a dictionary.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dpviz.datasets.uploads.limits import shown
from dpviz.errors import UserError
from dpviz.later import pd, pyarrow, types

_EXACT = 2**53  # whole numbers up to here are exact in float64
_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_PART = 50_000  # values
_ROWS = ""  # the name of no column
_MERGED_FROM = 4_000_000  # bytes of dictionaries of one column that may wait


def as_texts(array: "pyarrow.Array") -> "pyarrow.DictionaryArray":
    """An array of text or bytes as a dictionary of its different texts. Raises ArrowInvalid if it is not UTF-8."""
    # By way of bytes: only so is it checked.
    checked = array.cast(pyarrow.large_binary()).cast(pyarrow.large_string())
    return checked.dictionary_encode().cast(pyarrow.dictionary(pyarrow.int32(), pyarrow.large_string()))


def plain(array: "pyarrow.Array", name: str) -> "pyarrow.Array":
    """An array of any type as one of those above. Raises UserError, naming the column, for a type that has no cells."""
    kind = array.type
    if isinstance(kind, pyarrow.BaseExtensionType):
        return plain(array.storage, name)
    if types.is_dictionary(kind):
        places, values = _used(array)
        return looked_up(plain(values, name), places)
    if types.is_boolean(kind):
        truths = pyarrow.array(["False", "True"], pyarrow.large_string())
        return pyarrow.DictionaryArray.from_arrays(array.cast(pyarrow.int32()), truths)
    if is_text(kind):
        try:
            return as_texts(array)
        except pyarrow.ArrowInvalid:  # in one cell, perhaps: it must not decide about the file
            return _repaired(array)
    if types.is_date(kind) or types.is_time(kind) or types.is_timestamp(kind):
        _check_times(array, name)
    if types.is_date(kind) or types.is_time(kind):
        encoded = array.dictionary_encode()
        texts = pyarrow.compute.replace_substring_regex(encoded.dictionary.cast(pyarrow.large_string()), r"\.0+$", "")
        return looked_up(as_texts(texts), encoded.indices)
    if types.is_timestamp(kind):
        return array if _zone_is_known(kind) else array.cast(pyarrow.timestamp(kind.unit, "UTC"))
    if types.is_int64(kind) or types.is_uint64(kind):
        return array
    return _as_float(array, name)


def _check_times(array: "pyarrow.Array", name: str) -> None:
    """Raise UserError for dates and times of day for which there is no text."""
    kind = array.type
    unit = "D" if types.is_date32(kind) else "ms" if types.is_date64(kind) else kind.unit
    first, last = ("1970-01-01", "1970-01-02") if types.is_time(kind) else ("0000-01-01", "10000-01-01")
    if unit == "ns" and not types.is_time(kind):  # 1677 to 2262
        return
    low, high = (int(np.array(day, f"datetime64[{unit}]").astype(np.int64)) for day in (first, last))
    ticks = array.view(pyarrow.int32() if kind.bit_width == 32 else pyarrow.int64())
    ends = pyarrow.compute.min_max(ticks).as_py()
    if ends["min"] is not None and not low <= ends["min"] <= ends["max"] < high:
        raise UserError(
            "Correct them, or leave the column out of the file.",
            title=f"Column {shown(name)} holds times before year 0, after year 9999, or beyond a day",
        )


def _repaired(array: "pyarrow.Array") -> "pyarrow.Array":
    """Texts of bytes, with "�" where they are no UTF-8."""
    encoded = array.cast(pyarrow.large_binary()).dictionary_encode()
    parts = [
        pyarrow.array([value.decode(errors="replace") for value in some.to_pylist()], pyarrow.large_string())
        for some in in_parts(encoded.dictionary)
    ]
    return looked_up(as_texts(pyarrow.concat_arrays(parts)), encoded.indices)


def _as_float(array: "pyarrow.Array", name: str) -> "pyarrow.Array":
    kind = array.type
    if types.is_null(kind) or types.is_integer(kind) or types.is_float32(kind) or types.is_float64(kind):
        return array.cast(pyarrow.float64())
    if types.is_float16(kind):
        return pyarrow.array(array.to_numpy(zero_copy_only=False).astype(np.float64), mask=np.asarray(array.is_null()))
    if types.is_decimal(kind):
        # By way of text, which is read to the last digit: Arrow's own conversion misses it in half of all numbers.
        return array.cast(pyarrow.string()).cast(pyarrow.float64())
    if types.is_duration(kind):
        return pyarrow.compute.divide(
            array.cast(pyarrow.int64()).cast(pyarrow.float64(), safe=False), _PER_SECOND[kind.unit]
        )
    raise _unusable(name, "lists or records" if types.is_nested(kind) else f"values of the type {shown(str(kind))}")


def is_text(kind: "pyarrow.DataType") -> bool:
    """Whether values of an Arrow type are texts, or bytes that may be such."""
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    return any(check(kind) for check in (*texts, types.is_binary, types.is_large_binary, types.is_binary_view)) or bool(
        types.is_fixed_size_binary(kind)
    )


def _unusable(name: str, holding: str) -> UserError:
    title = f"Column {shown(name)} holds {holding}"
    return UserError("Leave it out of the file, or save one number or text per cell.", title=title)


def _zone_is_known(kind: "pyarrow.DataType") -> bool:
    try:
        return kind.tz is None or bool(pd.DatetimeTZDtype(kind.unit, kind.tz))
    except (TypeError, ValueError, LookupError, OSError):
        return False


def _used(array: "pyarrow.DictionaryArray") -> "tuple[pyarrow.Array, pyarrow.Array]":
    """Places and values of a dictionary without the values that no cell has."""
    places = array.indices.dictionary_encode()
    return places.indices, array.dictionary.take(places.dictionary)


def looked_up(values: "pyarrow.Array", places: "pyarrow.Array") -> "pyarrow.Array":
    """values[places], null where a place is."""
    if not types.is_dictionary(values.type):
        return values.take(places)
    return pyarrow.DictionaryArray.from_arrays(values.indices.take(places), values.dictionary)


def only(texts: "pyarrow.DictionaryArray", which: np.ndarray) -> "pyarrow.DictionaryArray":
    """Texts without those of which `which`, one truth for each of the dictionary, is false: null in their place."""
    kept = pyarrow.compute.take(pyarrow.array(which), texts.indices)
    places = pyarrow.compute.if_else(pyarrow.compute.fill_null(kept, False), texts.indices, None)
    return pyarrow.DictionaryArray.from_arrays(*_used(pyarrow.DictionaryArray.from_arrays(places, texts.dictionary)))


def in_parts(array: "pyarrow.Array") -> "Iterator[pyarrow.Array]":
    """An array piece by piece, so that few of its values are Python objects at a time."""
    return (array.slice(start, _PART) for start in range(0, len(array), _PART))


def _one(column: "pyarrow.ChunkedArray") -> "pyarrow.Array":
    """A column in one piece."""
    # `combine_chunks` copies a single piece, too.
    return column.chunk(0) if column.num_chunks == 1 else column.unify_dictionaries().combine_chunks()


class Column:
    """A column that arrives in parts, each as from `plain`; the first of them, which may be empty, tells its type."""

    def __init__(self, first: "pyarrow.Array") -> None:
        self._parts = [first]
        self._merged = self._waiting = 0  # bytes of the dictionaries

    @property
    def kept(self) -> int:
        """Bytes of its texts, each counted once or a few times."""
        return self._merged + self._waiting

    def add(self, part: "pyarrow.Array") -> None:
        """Take over a part."""
        self._parts.append(part)
        if types.is_dictionary(part.type):
            self._waiting += part.dictionary.nbytes
            # Each part brings all its texts along: they are merged each time that they have doubled.
            if self._waiting > max(self._merged, _MERGED_FROM):
                self._parts = [self.whole()]
                self._merged, self._waiting = self._parts[0].dictionary.nbytes, 0

    def whole(self) -> "pyarrow.Array":
        """All parts as one array; whole numbers as float64 where that loses no digit,
        and NaN where such a number is missing."""
        array = _one(pyarrow.chunked_array(self._parts))
        if types.is_int64(array.type) or types.is_uint64(array.type):
            ends = pyarrow.compute.min_max(array).as_py()
            if ends["max"] is None or -_EXACT <= ends["min"] <= ends["max"] <= _EXACT:
                array = array.cast(pyarrow.float64())
        return array.fill_null(math.nan) if types.is_float64(array.type) and array.null_count else array


def sampled(table: "pyarrow.Table", rows: np.ndarray) -> "pyarrow.Table":
    """Some rows of a table, with a last column "" that says which; texts that none of them holds are left behind."""
    kept = [_taken(_one(column), rows) for column in table.columns]
    return pyarrow.Table.from_arrays([*kept, pyarrow.array(rows)], names=[*table.column_names, _ROWS])


def _taken(array: "pyarrow.Array", rows: np.ndarray) -> "pyarrow.Array":
    array = array.take(pyarrow.array(rows))
    return pyarrow.DictionaryArray.from_arrays(*_used(array)) if types.is_dictionary(array.type) else array


def frame_of(table: "pyarrow.Table") -> "pd.DataFrame":
    """A table of columns from here as pandas has it; numbers and texts are not copied.

    Two columns of one name are one in which numbers and texts are mixed.
    """
    parts: dict[str, list[pyarrow.Array]] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        parts.setdefault(name, []).append(_one(column))
    rows = parts.pop(_ROWS, None)
    index = pd.RangeIndex(len(table)) if rows is None else pd.Index(rows[0].to_numpy())
    frame = pd.DataFrame({name: pd.Series(_cells(*arrays), copy=False) for name, arrays in parts.items()}, copy=False)
    return frame.set_axis(index, axis=0)


def texts_of(series: "pd.Series") -> "tuple[np.ndarray, pyarrow.Array] | None":
    """The different texts of a column of texts, and the place (n,) of each cell's among them, -1 where it is missing;
    None of any other column."""
    if not isinstance(series.dtype, pd.ArrowDtype) or not types.is_dictionary(series.dtype.pyarrow_dtype):
        return None
    places, texts = _used(_one(pyarrow.chunked_array(pyarrow.array(series.array))))
    return places.fill_null(-1).to_numpy(zero_copy_only=False), texts


def mixed(numbers: np.ndarray, texts: "pyarrow.DictionaryArray") -> "pd.Categorical":
    """Numbers (n,), NaN where there is none, and texts, null where there is none, as one column of both."""
    places, different = pd.factorize(numbers)  # -1 where NaN
    codes = texts.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    categories = pd.Index([*different.tolist(), *texts.dictionary.to_pylist()], dtype=object)
    return pd.Categorical.from_codes(np.where(codes >= 0, codes + len(different), places), categories)


def _cells(array: "pyarrow.Array", texts: "pyarrow.DictionaryArray | None" = None) -> Any:
    if texts is not None:
        return mixed(array.to_numpy(zero_copy_only=False), texts)
    if types.is_dictionary(array.type):
        # Not a Categorical: that keeps a table of hashes of all its texts as Python objects.
        return pd.array(array, dtype=pd.ArrowDtype(array.type))
    if not array.null_count and not types.is_timestamp(array.type):
        return array.to_numpy()
    if types.is_timestamp(array.type):
        return array.to_pandas()
    return array.to_pandas(types_mapper={pyarrow.int64(): pd.Int64Dtype(), pyarrow.uint64(): pd.UInt64Dtype()}.get)
