"""Reading a user's file: every bad file gets its sentence, and nothing else ever escapes."""

import io
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpviz.datasets import (
    Reading,
    describe_columns,
    detect_reading,
    read_table,
    suggested_bounds,
    target_candidates,
    target_classes,
)
from dpviz.datasets.uploads import limits
from dpviz.datasets.uploads.parsing import column_numbers
from dpviz.errors import UserError
from tests.refusals import is_refusal

ROWS = "".join(f"{i},{i % 3},{i % 2}\n" for i in range(30))


def parquet(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


def refused(data: bytes, name: str = "table.csv", **limits: int) -> tuple[str, str]:
    """(title, message) of the UserError that reading must raise."""
    with pytest.raises(UserError) as caught:
        read_table(data, name, **limits)
    return caught.value.title, str(caught.value)


BAD_FILES = {
    "nothing": (b"", "This file is empty", "UTF-8 CSV"),
    "white space": (b" \n\r\n\t ", "This file is empty", "UTF-8 CSV"),
    "byte order mark only": (b"\xef\xbb\xbf", "This file is not a table", "No column was found"),
    "prose": (b"Dear reader\nthis is a letter\n" * 20, "This file is not a table", "commas, semicolons or tabs"),
    "one column": (b"age\n" + b"3\n" * 30, "This file is not a table", "one column"),
    "Latin-1": ("name,größe\n".encode("latin-1") + b"1,2\n" * 30, "This file could not be read", "UTF-8"),
    "UTF-16": (("a,b\n" + "1,2\n" * 30).encode("utf-16"), "This file could not be read", "UTF-8"),
    "binary": (bytes(range(256)) * 10, "This file could not be read", "UTF-8"),
    "spreadsheet": (b"PK\x03\x04\x14\x00\x06\x00\x08\x00" * 30, "This file could not be read", "CSV"),
    "pickle": (pickle.dumps(np.arange(300)), "This file could not be read", "CSV"),
    "zero bytes in the header": (b"a,b\0\n" + b"1,2\n" * 30, "This file could not be read", "CSV"),
    "open quotes": (
        b"a,b\n" + b"1,2\n" * 30 + b'3,"4\n5,6\n7"8,9\n',
        "This file could not be read",
        "not clear where rows end",
    ),
    "endless header": (b"a," + b"x" * 2_000_000, "This file could not be read", "longer than 1,000,000 bytes"),
    "surplus cells": (b"a,b\n" + b"1,2,3\n" * 30, "The header does not fit the rows", "which has 2"),
    "header only": (b"a,b\n", "This file has no rows", "below the header"),
    "one row": (b"a,b\n1,2\n", "Only 1 row", "At least 20"),
    "19 rows": (b"a,b\n" + b"1,2\n" * 19, "Only 19 rows", "At least 20"),
    "same name twice": (b"a,b, a\n" + b"1,2,3\n" * 30, "Two columns are called 'a'", "its own name"),
    "401 columns": (
        ",".join(f"c{i}" for i in range(401)).encode() + (b"\n" + b",".join([b"1"] * 401)) * 30 + b"\n",
        "This file has 401 columns",
        "At most 400",
    ),
    "long name": (b"a," + b"b" * 300 + b"\n" + b"1,2\n" * 30, "A column name is too long", "200 characters"),
    "Parquet that is none": (b"PAR1" + bytes(100) + b"PAR1", "This file could not be read", "Parquet"),
    "Parquet in name only": (b"a,b\n" + b"1,2\n" * 30, "This file could not be read", "Parquet"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_every_bad_file_gets_its_sentence(case: str) -> None:
    data, title, fragment = BAD_FILES[case]
    found = refused(data, "table.PARQUET" if case == "Parquet in name only" else "table.csv")
    assert found[0] == title and fragment in found[1]


def test_one_row_that_cannot_be_read_is_a_row_in_which_something_is_missing() -> None:
    """Nothing in one row decides whether the others are read."""
    for row in (b"1,\0", b'3,"4', b"1," + b"x" * 2_000_000, b"1,2,3", b"\xff,1", b"", b'"' + b"x" * 200_000 + b'",1'):
        frame = read_table(
            b"a,b\n" + b"1,2\n" * 15 + row + b"\n" + b"1,2\n" * 15, "t.csv", reading=Reading(rows="lines")
        )
        assert frame.shape == (31, 2) and (column_numbers(frame["b"].drop(15)) == 2).all(), row[:20]
    assert detect_reading(b"a,b\n" + b"1,2,3\n" * 30, "t.csv").questions[0].startswith("30 of the first 30 rows")


def test_a_file_over_50_megabytes_is_refused_unread() -> None:
    title, message = refused(b"a,b\n" + b"1,2\n" * (13 * 1024 * 1024 + 100))
    assert title == "This file is too big" and "50 MB" in message


@pytest.mark.slow
def test_two_million_rows_are_refused_and_a_sample_is_offered() -> None:
    data = b"a,b\n" + b"1,2\n" * 2_000_000
    title, message = refused(data)
    assert title == "More than 1,000,000 rows" and "random sample of 1,000,000 rows" in message
    frame = read_table(data, "table.csv", sample_rows=1_000_000)
    assert len(frame) == 1_000_000


def test_a_sample_is_uniform_reproducible_and_keeps_the_row_numbers() -> None:
    data = b"a,b\n" + b"".join(b"%d,1\n" % i for i in range(5000))
    first, again, other = (read_table(data, "t.csv", 1000, sample_rows=1000, seed=seed) for seed in (1, 1, 2))
    assert first.equals(again) and not first.equals(other)
    assert (first.index == first["a"]).all() and first.index.is_monotonic_increasing and first.index.is_unique
    # Mean of 1000 of 0..4999 without replacement: standard error 1443 / √1000 · √0.8 = 41.
    assert abs(first["a"].mean() - 2499.5) < 5 * 41
    assert len(read_table(data, "t.csv", sample_rows=9000)) == 5000


@pytest.mark.slow
def test_a_parquet_file_is_measured_before_it_is_unpacked() -> None:
    data = parquet(pd.DataFrame({"a": np.zeros(1_100_000), "b": np.zeros(1_100_000)}))
    assert len(data) < 20_000
    assert refused(data, "t.parquet")[0] == "More than 1,000,000 rows"
    assert len(read_table(data, "t.parquet", sample_rows=1000)) == 1000
    wide = parquet(pd.DataFrame({f"c{i}": np.zeros(600_000, dtype=np.int8) for i in range(90)}))
    title, message = refused(wide, "t.parquet")
    assert title == "This file is too big" and "54,000,000 cells" in message


def test_texts_of_a_parquet_file_are_kept_once() -> None:
    # 100,000 rows of one 10 kB text: 1 GB if written out for every row.
    frame = pd.DataFrame(
        {"text": pd.Categorical.from_codes([0] * 100_000, ["x" * 10_000]), "value": np.arange(100_000.0)}
    )
    table = read_table(parquet(frame), "t.parquet")
    assert table["text"].memory_usage(deep=True) < 2_000_000
    assert [(c.numeric, c.distinct) for c in describe_columns(table)] == [(False, 1), (True, 100)]


def test_lists_in_a_parquet_file_are_refused() -> None:
    frame = pd.DataFrame({"a": range(30), "tags": [[1, 2]] * 30})
    title, _ = refused(parquet(frame), "t.parquet")
    assert title == "Column 'tags' holds lists or records"


@pytest.mark.parametrize("separator", [",", ";", "\t", ", "])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_separators_line_ends_and_byte_order_marks(separator: str, newline: str, encoding: str) -> None:
    lines = [separator.join(["größe", '"a ""b"""', "yes?"])]
    lines += [separator.join([str(i), str(i / 8), "no" if i % 2 else "yes"]) for i in range(25)]
    data = newline.join(lines).encode(encoding)
    frame = read_table(data, "t.csv", reading=detect_reading(data, "t.csv").reading)
    assert list(frame.columns) == ["größe", 'a "b"', "yes?"]
    assert np.array_equal(frame["größe"], np.arange(25)) and np.array_equal(frame['a "b"'], np.arange(25) / 8)
    assert target_classes(frame["yes?"]) == ("no", "yes")


def test_a_separator_inside_the_header_does_not_mislead() -> None:
    data = b'speed (m, s);"mass; net"\n' + b"1;2\n" * 30
    frame = read_table(data, "t.csv", reading=detect_reading(data, "t.csv").reading)
    assert list(frame.columns) == ["speed (m, s)", "mass; net"]


def test_columns_without_a_name_get_one() -> None:
    frame = read_table(("," + "x,\n" + ROWS).encode(), "t.csv")
    assert list(frame.columns) == ["Column 1", "x", "Column 3"]


def test_blank_lines_are_rows_without_values_but_above_the_header_and_as_declared_at_the_end() -> None:
    data = b"\n\na,b\n\n" + b"1,2\n" * 25 + b"3\n\n\n"
    frame = read_table(data, "t.csv", reading=detect_reading(data, "t.csv").reading)
    assert frame.shape == (27, 2) and frame["b"].isna().sum() == 2 and frame["a"].isna().sum() == 1
    assert len(read_table(data, "t.csv")) == 29


def test_csv_round_trip() -> None:
    values = np.random.default_rng(0).standard_cauchy((200, 3)) * 10.0 ** np.arange(-5, 10, 5)
    original = pd.DataFrame(values, columns=["a", "b", "c"]).assign(label=np.tile(["no", "yes"], 100))
    frame = read_table(original.to_csv(index=False).encode(), "t.csv")
    # pandas before 3 misses the last digits.
    np.testing.assert_allclose(frame[["a", "b", "c"]], values, rtol=1e-12, atol=0.0)
    assert list(frame["label"]) == list(original["label"])


def test_parquet_round_trip_of_every_type() -> None:
    original = pd.DataFrame(
        {
            "float": np.linspace(0, 1, 40),
            "half": np.linspace(0, 1, 40).astype(np.float16),
            "small": np.arange(40, dtype=np.uint8),
            "gaps": pd.array([None, *range(39)], dtype="Int64"),
            "flag": np.arange(40) % 2 == 0,
            "flag with gaps": pd.array([None, *([True, False, True] * 13)], dtype="boolean"),
            "text": ["x", "y"] * 20,
            "category": pd.Categorical(["b", "a", None, "b"] * 10),
            "number category": pd.Categorical([3, 1, None, 3] * 10),
            "day": pd.date_range("2020-01-01", periods=40),
            "empty": [None] * 40,
        },
        index=np.arange(40)[::-1],
    )
    frame = read_table(parquet(original), "t.parquet")
    found = {column.name: column for column in describe_columns(frame)}
    assert {name for name, column in found.items() if not column.numeric} == {"text", "category", "day", "empty"}
    assert [found[name].missing for name in ("gaps", "flag with gaps", "category", "empty")] == [1, 1, 10, 40]
    assert [found[name].distinct for name in ("gaps", "flag with gaps", "category", "empty")] == [39, 2, 2, 0]
    assert found["half"].distinct == 40 and found["empty"].constant
    expected = ("flag", "flag with gaps", "text", "category", "number category")
    assert target_candidates(tuple(found.values())) == expected
    assert target_classes(frame["number category"]) == ("1", "3")
    assert list(frame.index) == list(range(40))


def test_gaps_and_infinities_are_counted() -> None:
    frame = read_table(("flag,float\n" + "True,1e3\nFalse,-inf\n,nan\n" * 10).encode(), "t.csv")
    flag, number = describe_columns(frame)
    assert flag.numeric and flag.missing == 10 and flag.distinct == 2
    assert number.numeric and number.missing == 10


def survives(data: bytes, name: str) -> None:
    """Reading either refuses with a complete sentence or delivers a table that can be described."""
    try:
        frame = read_table(data, name, max_rows=500)
    except UserError as error:
        assert is_refusal(
            error, "This file ", "Only ", "Two columns are called ", "The header does not fit the rows", "Column "
        )
        return
    columns = describe_columns(frame)
    assert len(columns) == frame.shape[1] >= 2 and len(frame) >= limits.MIN_ROWS
    suggested_bounds(frame, [column.name for column in columns])
    for column in columns:
        target_classes(frame[column.name])


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400), st.sampled_from(["t.csv", "t.parquet", ""]))
def test_random_bytes_never_raise_anything_else(data: bytes, name: str) -> None:
    survives(data, name)


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(st.text(alphabet='0123456789.,;\t\n\r"eE+-naifNATrue xé\ufeff\u2028', max_size=300), st.booleans())
def test_random_text_never_raises_anything_else(text: str, repeat: bool) -> None:
    survives((text * 25 if repeat else text).encode(), "t.csv")


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(st.data())
def test_damaged_parquet_never_raises_anything_else(data: st.DataObject) -> None:
    damaged = bytearray(PARQUET)
    for _ in range(data.draw(st.integers(1, 6))):
        # Mostly in the footer, which describes everything else.
        position = data.draw(st.integers(0, len(damaged) - 1) | st.integers(len(damaged) * 2 // 3, len(damaged) - 1))
        damaged[position] = data.draw(st.integers(0, 255))
    survives(bytes(damaged[: data.draw(st.sampled_from([len(damaged), len(damaged) // 2]))]), "t.parquet")


PARQUET = parquet(pd.DataFrame({"a": np.arange(40.0), "b": ["x", "y"] * 20, "c": pd.date_range("2020", periods=40)}))
