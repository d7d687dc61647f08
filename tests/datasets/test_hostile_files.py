"""Files that are made to hurt: of whatever Arrow types, sizes and shapes, they are a table or a sentence, and they take
less than five times the memory of the table.

The table is what is returned, at least eight bytes for each cell, and the file itself.
"""

import gzip
import io
import tracemalloc
from collections.abc import Callable
from contextlib import nullcontext
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest

from dpviz.datasets import describe_columns, read_table, suggested_bounds, target_classes
from dpviz.datasets.uploads import arrow
from dpviz.datasets.uploads.arrow import ColumnBuilder, frame_of
from dpviz.datasets.uploads.files import read_columns
from dpviz.datasets.uploads.parsing import as_number, column_numbers, encode_classes, is_empty
from dpviz.errors import UserError
from tests.refusals import is_refusal

ROWS, COLUMNS, TIMES = 50_000, 4, 5
SLACK = 5_000_000  # bytes that reading takes whatever the table
TITLES = ("This file ", "Only ", "Column '", "Two columns ", "A column name ", "The header ", "More than ")
POOLS: list[pyarrow.MemoryPool] = []
Make = Callable[[np.random.Generator, int], pyarrow.Array]


def integers(kind: pyarrow.DataType, low: int = 0, high: int = 100) -> Make:
    return lambda generator, n: pyarrow.array(generator.integers(low, high, n)).cast(kind, safe=False)


def viewed(kind: pyarrow.DataType, low: int = -(2**62), high: int = 2**62) -> Make:
    """Any bits, as points in time and the like keep them."""
    size = pyarrow.int32() if kind.bit_width == 32 else pyarrow.int64()
    low, high = (low, high) if kind.bit_width == 64 else (max(low, -(2**31)), min(high, 2**31))
    return lambda generator, n: pyarrow.array(generator.integers(low, high, n)).cast(size).view(kind)


def decimals(kind: pyarrow.DataType) -> Make:
    def make(generator: np.random.Generator, n: int) -> pyarrow.Array:
        return pyarrow.array([Decimal(int(v)).scaleb(-2) for v in generator.integers(-9999, 9999, 500)], kind).take(
            pyarrow.array(generator.integers(0, 500, n))
        )

    return make


def texts(different: int, length: int, kind: pyarrow.DataType) -> Make:
    def make(generator: np.random.Generator, n: int) -> pyarrow.Array:
        found = pyarrow.array([f"{place:x}".ljust(length, "·") for place in range(min(different, n))])
        places = pyarrow.array(generator.integers(0, len(found), n), pyarrow.int32())
        array = pyarrow.DictionaryArray.from_arrays(places, found)
        return array if pyarrow.types.is_dictionary(kind) else array.cast(kind)

    return make


def floats(kind: pyarrow.DataType) -> Make:
    def make(generator: np.random.Generator, n: int) -> pyarrow.Array:
        values = generator.standard_cauchy(n)
        values[::7], values[1::7], values[2::7] = np.nan, np.inf, -np.inf
        with np.errstate(over="ignore"):
            return pyarrow.array(values.astype(kind.to_pandas_dtype()))

    return make


def nested(kind: pyarrow.DataType, value: object) -> Make:
    return lambda _, n: pyarrow.array([value] * n, kind)


STRING = pyarrow.string()
DICTIONARY = pyarrow.dictionary(pyarrow.int32(), STRING)
KINDS: dict[str, Make] = {
    **{str(kind): integers(kind) for kind in map(pyarrow.type_for_alias, ("int8", "int16", "int32", "int64"))},
    **{str(kind): integers(kind) for kind in map(pyarrow.type_for_alias, ("uint8", "uint16", "uint32", "uint64"))},
    "huge integers": integers(pyarrow.int64(), -(2**62), 2**62),
    "huge without a sign": lambda generator, n: integers(pyarrow.int64(), 2**61, 2**62)(generator, n).view("uint64"),
    **{str(kind): floats(kind) for kind in (pyarrow.float16(), pyarrow.float32(), pyarrow.float64())},
    "decimal128": decimals(pyarrow.decimal128(38, 2)),
    "decimal256": decimals(pyarrow.decimal256(60, 2)),
    "date32": viewed(pyarrow.date32(), 0, 40_000),
    "any date32": viewed(pyarrow.date32()),
    "any date64": viewed(pyarrow.date64()),
    "time32": viewed(pyarrow.time32("s"), 0, 86_400),
    "time64": viewed(pyarrow.time64("us"), 0, 86_400 * 10**6),
    "any time64": viewed(pyarrow.time64("ns")),
    "timestamp": viewed(pyarrow.timestamp("us"), 0, 2**50),
    "any timestamp": viewed(pyarrow.timestamp("ms")),
    "timestamp with a zone": viewed(pyarrow.timestamp("us", "Europe/Berlin"), 0, 2**50),
    "timestamp with no such zone": viewed(pyarrow.timestamp("us", "Nowhere/At_All"), 0, 2**50),
    "duration": viewed(pyarrow.duration("ns")),
    "truths": lambda generator, n: pyarrow.array(generator.random(n) < 0.5),
    "nothing": lambda _, n: pyarrow.nulls(n),
    "few texts": texts(10, 8, STRING),
    "different texts": texts(ROWS, 8, STRING),
    "long texts": texts(50, 10_000, DICTIONARY),
    "views": texts(ROWS, 30, pyarrow.string_view()),
    "dictionary": texts(300, 8, DICTIONARY),
    "bytes that are text": texts(ROWS, 8, pyarrow.binary()),
    "bytes": lambda generator, n: pyarrow.array([bytes([place, 255]) for place in generator.integers(0, 255, n)]),
    "fixed bytes": lambda _, n: pyarrow.array([b"\xfe" * 16] * n, pyarrow.binary(16)),
    "identifiers": lambda _, n: pyarrow.ExtensionArray.from_storage(
        pyarrow.uuid(), pyarrow.array([b"\xfe" * 16] * n, pyarrow.binary(16))
    ),
    "list": nested(pyarrow.list_(pyarrow.int8()), [1, 2]),
    "record": nested(pyarrow.struct([("a", pyarrow.int8())]), {"a": 1}),
    "map": nested(pyarrow.map_(pyarrow.string(), pyarrow.int8()), [("a", 1)]),
    "interval": nested(pyarrow.month_day_nano_interval(), (1, 2, 3)),
}


def parquet(table: pyarrow.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    pyarrow.parquet.write_table(table, sink, **options)
    return sink.getvalue()


def with_gaps(array: pyarrow.Array, generator: np.random.Generator) -> pyarrow.Array:
    places = pyarrow.array(np.arange(len(array)), mask=generator.random(len(array)) < 0.3)
    return array.take(places)


def most_memory(data: bytes, name: str) -> tuple[pyarrow.Table | None, int]:
    """What is read, and the most bytes that it took: of Arrow, and of Python and NumPy."""
    pool, before = pyarrow.proxy_memory_pool(pyarrow.default_memory_pool()), pyarrow.default_memory_pool()
    POOLS.append(pool)  # what was allocated in it must not outlive it
    pyarrow.set_memory_pool(pool)
    tracemalloc.start()
    try:
        table = None
        try:
            table = read_columns(data, name)
            describe_columns(frame_of(table))
        except UserError as error:
            assert is_refusal(error, *TITLES)
        return table, pool.max_memory() + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pyarrow.set_memory_pool(before)


def allowed(table: pyarrow.Table | None, rows: int, columns: int, data: bytes) -> int:
    returned = 0 if table is None else table.nbytes
    return TIMES * (max(returned, rows * columns * 8) + len(data)) + SLACK


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_type_a_column_has_it_takes_little_memory_and_can_be_described(kind: str) -> None:
    generator = np.random.default_rng(0)
    try:
        arrays = [KINDS[kind](generator, ROWS) for _ in range(COLUMNS // 2)]
        arrays += [with_gaps(array, generator) for array in arrays]
        data = parquet(pyarrow.table(arrays, names=[f"c{place}" for place in range(COLUMNS)]))
    except pyarrow.ArrowNotImplementedError:
        return  # nobody can write such a file with Arrow
    table, most = most_memory(data, "t.parquet")
    assert most < allowed(table, ROWS, COLUMNS, data)
    if table is None:
        assert kind in {"list", "record", "map", "interval"} or kind.startswith("any ")  # most of those are no times
        return
    frame = frame_of(table)
    suggested_bounds(frame, list(frame))
    for name in frame:
        assert frame[name].dtype != object, "a Python object for every cell"
        values, gaps, (codes, labels) = (
            column_numbers(frame[name]),
            is_empty(frame[name]),
            encode_classes(frame[name][:1000]),
        )
        assert values.shape == gaps.shape == (ROWS,) and codes.max(initial=-1) < max(1, len(labels))
        target_classes(frame[name][:1000])
    gone = is_empty(frame["c3"]).mean()
    assert gone > 0.25 or kind == "nothing"


@pytest.mark.slow
def test_values_arrive_as_they_were_written() -> None:
    cells = {
        "decimal": pyarrow.array([Decimal("0.30"), Decimal("2.675"), None] * 10, pyarrow.decimal128(20, 3)),
        "large": pyarrow.array([2**60 + 1, None, 7] * 10),
        "truth": pyarrow.array([True, None, False] * 10),
        "day": pyarrow.array([0, 19_000, None] * 10, pyarrow.date32()),
        "time": pyarrow.array([61, None, 3600] * 10, pyarrow.time32("s")),
        "moment": pyarrow.array([0, 1500, None] * 10, pyarrow.timestamp("ms")),
        "took": pyarrow.array([1500, None, -1000] * 10, pyarrow.duration("ms")),
        "bytes": pyarrow.array([b"x", None, b"y"] * 10),
    }
    frame = read_table(parquet(pyarrow.table(cells)), "t.parquet")
    assert frame["decimal"][:2].tolist() == [0.3, 2.675], "to the last digit"
    assert encode_classes(frame["large"])[1] == [str(2**60 + 1), "7"]
    assert target_classes(frame["truth"]) == ("False", "True") and column_numbers(frame["truth"])[[0, 2]].tolist() == [
        1,
        0,
    ]
    assert encode_classes(frame["day"])[1] == ["1970-01-01", "2022-01-08"] and encode_classes(frame["bytes"])[1] == [
        "x",
        "y",
    ]
    assert encode_classes(frame["time"])[1] == ["00:01:01", "01:00:00"]
    assert encode_classes(frame["moment"])[1] == ["1970-01-01 00:00:00", "1970-01-01 00:00:01.500"]
    assert frame["took"][[0, 2]].tolist() == [1.5, -1.0]
    assert [column.missing for column in describe_columns(frame)] == [10] * len(cells)


def repeated(rows: int, columns: int) -> bytes:
    return parquet(
        pyarrow.table([pyarrow.array(np.zeros(rows, np.int8))] * columns, names=list(map(str, range(columns))))
    )


SHAPES: dict[str, Callable[[], tuple[bytes, str]]] = {
    "no columns": lambda: (parquet(pyarrow.table({})), "This file is not a table"),
    "no rows": lambda: (parquet(pyarrow.table({"a": pyarrow.nulls(0), "b": pyarrow.nulls(0)})), "This file has no"),
    "two of a name": lambda: (parquet(pyarrow.table([pyarrow.nulls(30)] * 2, names=["a", "a"])), "Two columns"),
    "names that are paths": lambda: (parquet(pyarrow.table([pyarrow.nulls(30)] * 3, names=["a", "a.b", ""])), ""),
    "1,000 columns": lambda: (repeated(30, 1000), "This file has 1,000 columns"),
    "a billion cells": lambda: (repeated(1_000_000, 51), "This file is too big"),
    "half a file": lambda: (repeated(1000, 4)[:-100], "This file could not be read"),
    "a footer larger than the file": lambda: (b"PAR1" + b"\xff" * 100 + b"\xff\xff\xff\x7fPAR1", "This file is too"),
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_whatever_shape_a_parquet_file_has_it_is_a_table_or_a_sentence(shape: str) -> None:
    data, title = SHAPES[shape]()
    if not title:
        assert list(read_table(data, "t.parquet").columns) == ["a", "a.b", "Column 3"]
        return
    with pytest.raises(UserError) as caught:
        read_table(data, "t.parquet")
    assert caught.value.title.startswith(title), f"{caught.value.title}: {caught.value}"


def differences(*columns: list[str]) -> bytes:
    """Each text as its difference from the one before: the file's size says nothing of the table's."""
    table = pyarrow.table(list(columns), names=[f"c{place}" for place in range(len(columns))])
    return parquet(table, column_encoding="DELTA_BYTE_ARRAY", use_dictionary=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "ticks"),
    [
        (pyarrow.timestamp("s"), -(10**12)),
        (pyarrow.timestamp("us", "UTC"), -9 * 10**18),
        (pyarrow.date32(), 30_000_000),
        (pyarrow.date64(), -(10**17)),
        (pyarrow.time32("s"), 86_400),
        (pyarrow.time64("ns"), -1),
    ],
)
def test_times_for_which_there_is_no_text_get_a_sentence(kind: pyarrow.DataType, ticks: int) -> None:
    """They became classes like "<value out of range: …>"."""
    whole = pyarrow.int32() if kind.bit_width == 32 else pyarrow.int64()
    for values, bad in (([0, None, 5] * 10, False), ([0, None, ticks] * 10, True)):
        sink = io.BytesIO()
        table = {"when": pyarrow.array(values, whole).view(kind), "x": np.arange(30)}
        pyarrow.parquet.write_table(pyarrow.table(table), sink)
        with pytest.raises(UserError) if bad else nullcontext() as caught:
            found = read_table(sink.getvalue(), "t.parquet")
        assert "when" in caught.value.title if bad else encode_classes(found["when"])[1]


def test_texts_are_counted_while_they_are_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "x" * 100_000
    once = differences([long] * 300, [long] * 300)
    assert len(once) < 20_000
    assert read_columns(once, "t.parquet").nbytes < 1_000_000, "kept once, although Arrow makes no dictionary of it"
    monkeypatch.setattr("dpviz.datasets.uploads.limits.MAX_TEXT_BYTES", 5_000_000)
    assert len(read_table(differences([long + str(row) for row in range(20)], ["y"] * 20), "t.parquet")) == 20
    bomb = differences([long + str(row) for row in range(40)], [long + str(row) for row in range(40)])
    assert len(bomb) < 20_000
    with pytest.raises(UserError, match="its texts take more than 5 MB"):
        read_table(bomb, "t.parquet")


def test_more_texts_written_as_differences_than_can_be_read_are_refused_before_one_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """16 million of two letters, 69 kB, held a reader for 20 s."""
    monkeypatch.setattr("dpviz.datasets.uploads.files.MAX_DIFFERENCES", 100)
    assert len(read_table(differences(["ab"] * 50, ["cd"] * 50), "t.parquet")) == 50
    monkeypatch.setattr(ColumnBuilder, "add", None)
    for encoding in ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"):
        table = pyarrow.table({name: ["ab"] * 51 for name in "abc"})
        data = parquet(table, column_encoding=encoding, use_dictionary=False)
        with pytest.raises(UserError, match=r"At most 100 .* 102 are\. Save it without that"):
            read_table(data, "t.parquet")


@pytest.mark.parametrize("options", [{}, {"column_encoding": "DELTA_BYTE_ARRAY", "use_dictionary": False}])
def test_small_pieces_are_taken_over_together(options: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[int] = []

    def plain(array: pyarrow.Array, name: str) -> pyarrow.Array:
        pieces.append(len(array))
        return arrow.to_plain_array(array, name)

    monkeypatch.setattr("dpviz.datasets.uploads.files.to_plain_array", plain)
    cells = [None if row % 7 == 0 else f"{row % 90}" for row in range(20_000)]
    table = read_columns(parquet(pyarrow.table([cells] * 2, names="ab"), row_group_size=50, **options), "t.parquet")
    assert table["a"].to_pylist() == table["b"].to_pylist() == cells
    assert sorted(pieces) == [0, 0, 20_000, 20_000], "not each of 400 by itself"


def test_a_packed_file_is_measured_while_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"a,b\n" + b"1,2\n" * 50
    packed = gzip.compress(text)
    assert read_table(packed, "t.csv.gz").equals(read_table(text, "t.csv"))
    assert len(read_table(packed + gzip.compress(b"3,4\n" * 5), "t.csv.gz")) == 55, "in two pieces, as gzip allows"
    broken = packed[:-4] + b"\0\0\0\0"
    for damaged in (packed[:-3], packed[:15], broken, packed[:20] + b"\xff" * 9 + packed[29:]):
        with pytest.raises(UserError) as caught:
            read_table(damaged, "t.csv.gz")
        assert caught.value.title == "This file could not be read"
    monkeypatch.setattr("dpviz.datasets.uploads.limits.MAX_TEXT_BYTES", 100_000)
    with pytest.raises(UserError, match="Unpacked, it has more than"):
        read_table(gzip.compress(b"1,2\n" * 30_000), "t.csv.gz")


@pytest.mark.slow
def test_a_file_in_very_many_pieces_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpviz.datasets.uploads.files.MAX_PIECES", 400)
    table = pyarrow.table({f"c{place}": np.arange(100) for place in range(5)})
    assert len(read_table(parquet(table, row_group_size=2), "t.parquet")) == 100
    with pytest.raises(UserError, match="cut into 100 row groups"):
        read_table(parquet(table, row_group_size=1), "t.parquet")


def lines(*cells: Callable[[int], str], rows: int = 20_000) -> bytes:
    header = ",".join(f"c{place}" for place in range(len(cells)))
    return "\n".join([header, *(",".join(cell(row) for cell in cells) for row in range(rows)), ""]).encode()


CSV: dict[str, Callable[[], bytes]] = {  # made where they are read
    "digits": lambda: lines(*[lambda row: str(row % 10)] * 10),
    "numbers and texts": lambda: lines(*[lambda row: f"{row / 7}" if row % 9 else "none of it"] * 4),
    "different texts": lambda: lines(*[lambda row: f"x{row:07d}"] * 4),
    "odd numbers": lambda: lines(*[lambda row: f"{row}.{row}.{row}"] * 2, rows=10_000),
    "one huge cell": lambda: lines(str, lambda row: "y" * 900_000 if row == 15_000 else str(row)),
    "quotes": lambda: lines(str, lambda row: '"' + "z\n" * 20 + '"', rows=20_000),
    "an endless line": lambda: b"a,b\n" + b"1,2\n" * 30 + b"1," * 1_500_000 + b"\n",
    "a line without an end": lambda: b"a,b\n" + b"1,2\n" * 30 + b"1," * 1_500_000,
    "a million columns": lambda: b"c," * 400_000 + b"\n" + b"1," * 400_000,
    "wide rows below a narrow header": lambda: b"a,b\n" + (b"1," * 300_000 + b"\n") * 5,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CSV)
def test_whatever_a_text_file_holds_it_takes_little_memory(kind: str) -> None:
    data = CSV[kind]()
    table, most = most_memory(data, "t.csv")
    rows, columns = (0, 0) if table is None else (len(table), len(set(table.column_names)))
    # What is refused was looked at all the same: its cells in the first rows, as lists of texts. Of every line it is
    # kept where it begins: 8 bytes.
    assert most < allowed(table, rows, columns, data) + 8 * data.count(b"\n") + (0 if table else 40_000_000)
    assert (table is None) == (
        kind in {"a line without an end", "a million columns", "wide rows below a narrow header"}
    )


def test_a_million_texts_are_read_as_each_would_be_and_plain_numbers_not_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    odd = ["1_000", "nan", "Inf", " -inf ", "TRUE", "٣", "1e400", "9" * 400, "\x1c7\x85", "", " \u2003\x0b", "x", "+.5"]
    plain = ["+7", "-0.1", "1e5", "3.", "12345678901234.5678"]
    cells = pyarrow.array([*odd, *plain] * 2).dictionary_encode()
    series = pd.Series(pd.array(cells, dtype=pd.ArrowDtype(cells.type)))
    expected = [as_number(text) for text in (*odd, *plain)] * 2
    asked: list[str] = []

    def read(text: str) -> float:
        asked.append(text)
        return as_number(text)

    monkeypatch.setattr("dpviz.datasets.uploads.parsing.as_number", read)
    np.testing.assert_array_equal(column_numbers(series), expected)
    assert not {*plain, "x"} & set(asked)
    assert is_empty(series).tolist() == [not text.strip() for text in (*odd, *plain)] * 2


def test_a_mixed_column_keeps_its_numbers_and_texts() -> None:
    frame = read_table(b"a,b\n" + b"1.50,x\nold,2\n,\n" * 20, "t.csv")
    assert frame["a"][:3].tolist()[:2] == [1.5, "old"] and pd.isna(frame["a"][2])
    assert encode_classes(frame["b"])[1] == ["2", "x"] or encode_classes(frame["b"])[1] == ["x", "2"]
