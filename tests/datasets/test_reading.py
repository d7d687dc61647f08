"""How text files are written: what can be read is read, what is open is asked about, and no cell decides for others."""

import math

import numpy as np
import pandas as pd
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpviz.datasets import Reading, describe_columns, detect_reading, prepare, read_table
from dpviz.datasets.uploads.arrow import mixed_column
from dpviz.datasets.uploads.parsing import class_label, column_numbers
from dpviz.datasets.uploads.reading import plain_number, read_cells
from dpviz.errors import UserError
from dpviz.specification import Specification

N = 40
VALUES = np.arange(N) * 1234.5 - 9876.25
GERMAN = [f"{value:,.2f}".replace(",", "_").replace(".", ",").replace("_", ".") for value in VALUES]
ENGLISH = [f"{value:,.2f}" for value in VALUES]
PLAIN = [f"{value:.2f}" for value in VALUES]
COMMAS = [text.replace(".", ",") for text in PLAIN]


def csv(
    separator: str, *columns: list[str], header: str | None = "a{0}b", first: str = "", quoted: bool = False
) -> bytes:
    columns = (*columns, ["no", "yes"] * (N // 2)) if len(columns) == 1 else columns
    rows = [separator.join(f'"{cell}"' if quoted else cell for cell in row) for row in zip(*columns, strict=True)]
    names = [] if header is None else [header.format(separator)]
    return "\n".join([*([first] if first else []), *names, *rows, ""]).encode()


def proposed(data: bytes, name: str = "t.csv") -> pd.DataFrame:
    """The table as it is read when what is proposed is confirmed."""
    return read_table(data, name, reading=detect_reading(data, name).reading)


WRITTEN = {
    "decimal commas, semicolons": csv(";", COMMAS),
    "decimal commas in quotes": csv(",", COMMAS, quoted=True),
    "decimal commas, tabs": csv("\t", COMMAS),
    "thousands with points": csv(";", GERMAN),
    "thousands with points in quotes": csv(",", GERMAN, quoted=True),
    "thousands with commas": csv(";", ENGLISH),
    "thousands with commas in quotes": csv(",", ENGLISH, quoted=True),
    "thousands with blanks": csv(";", [text.replace(".", " ") for text in GERMAN]),
    "thousands with narrow blanks": csv(";", [text.replace(".", "\u202f") for text in GERMAN]),
    "thousands with apostrophes": csv(",", [text.replace(",", "'") for text in ENGLISH]),
    "plain": csv(",", PLAIN),
    "first line names the separator": csv(";", COMMAS, first="sep=;"),
    "first line names a comma": csv(",", PLAIN, first='"sep=,"'),
    "no separator but the named one": csv("|", COMMAS, first="SEP=|"),
    "byte order mark and first line": b"\xef\xbb\xbf" + csv(";", COMMAS, first="sep=;"),
    "signs": csv(";", ["+" + text if text[0] != "-" else text for text in COMMAS]),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_numbers_are_numbers_however_they_are_written(name: str) -> None:
    frame = proposed(WRITTEN[name])
    assert list(frame.columns) == ["a", "b"] and len(frame) == N
    assert frame["a"].dtype == np.float64 and np.array_equal(frame["a"], VALUES.round(2))
    assert not detect_reading(WRITTEN[name], "t.csv").questions


@pytest.mark.parametrize("mark", ["?", "NA", "", "-", ".", "n/a", "NULL", "NaN"])
def test_marks_of_missing_values_are_missing(mark: str) -> None:
    cells = [mark if place % 5 == 0 else text for place, text in enumerate(PLAIN)]
    frame = proposed(csv(",", cells))
    assert frame["a"].dtype == np.float64 and frame["a"].isna().sum() == N // 5
    assert describe_columns(frame)[0].missing == N // 5


@pytest.mark.parametrize("mark", ["-", "--", ".", "..", "*"])
def test_one_row_puts_no_mark_into_the_reading(mark: str) -> None:
    """The reading stands in settings, file names and downloads: it must not tell what one row holds."""
    before, after = csv(",", PLAIN, PLAIN), csv(",", [mark, *PLAIN[1:]], [mark, *PLAIN[1:]])
    assert detect_reading(after, "t.csv") == detect_reading(before, "t.csv")
    assert np.isnan(column_numbers(read_table(after, "t.csv")["a"])[0])  # it is no number all the same


def test_a_dash_is_a_class_where_no_number_is_missing() -> None:
    data = csv(",", PLAIN, ["+", "-"] * (N // 2))
    assert sorted(set(read_table(data, "t.csv")["b"])) == ["+", "-"]
    as_said = read_table(data, "t.csv", reading=Reading(missing=("-",)))
    assert as_said["b"].isna().sum() == N // 2


HEADERS = {
    "names": (csv(",", PLAIN, header="a,b"), True, True),
    "no header": (csv(",", PLAIN, header=None), False, True),
    "no header, classes only": (csv(",", ["x", "y"] * 20, ["no", "yes"] * 20, header=None), False, True),
    "names of classes": (csv(",", ["x", "y"] * 20, ["no", "yes"] * 20, header="area,ill"), True, True),
    "a gap in the first row": (csv(",", ["?", *PLAIN[1:]], PLAIN, header=None), False, True),
    "years": (csv(",", PLAIN, PLAIN, header="2019,2020"), False, True),
    "counted": (csv(",", PLAIN, PLAIN, header="0,1"), True, False),
    "a number among the names": (csv(",", PLAIN, PLAIN, header="year,2020"), True, False),
    "text only": (csv(",", [f"x{i}" for i in range(N)], [f"y{i}" for i in range(N)], header="a,b"), True, True),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_is_found_or_asked_about(name: str) -> None:
    data, header, sure = HEADERS[name]
    found = detect_reading(data, "t.csv")
    assert found.reading.header is header and bool(found.questions) is not sure
    frame = proposed(data)
    rows = data.count(b"\n")
    assert len(frame) == (rows - 1 if header else rows)
    assert header or list(frame.columns) == ["Column 1", "Column 2"]
    other = read_table(data, "t.csv", reading=found.reading.replaced(header=not header))
    assert len(other) == (rows if header else rows - 1)


def test_no_row_is_lost_below_a_first_line_that_names_the_separator_and_without_a_header() -> None:
    frame = proposed(csv(";", COMMAS, header=None, first="sep=;"))
    assert len(frame) == N and np.array_equal(frame["Column 1"], VALUES.round(2))


@pytest.mark.parametrize(("separator", "mark"), [(";", ","), (";", "."), (",", ",")])
def test_numbers_that_can_be_read_in_two_ways_are_asked_about(separator: str, mark: str) -> None:
    data = csv(separator, [f"{1 + place}{mark}{100 + place}" for place in range(N)], quoted=True)
    found = detect_reading(data, "t.csv")
    assert "decimal mark" in found.questions[0]
    point, comma = (
        read_table(data, "t.csv", reading=found.reading.replaced(decimal=decimal))["a"] for decimal in (".", ",")
    )
    small, large = (point, comma) if mark == "." else (comma, point)
    assert large[0] == 1100 and small[0] == 1.1 and np.allclose(large, 1000 * small)


def test_a_row_that_makes_the_comma_the_separator_is_asked_about() -> None:
    rows = ["0,5;1,5;yes"] * N
    assert detect_reading("\n".join(rows).encode(), "t.csv").reading.separator == ";"
    rows[7] = "a, b"
    assert "separator" in detect_reading("\n".join(rows).encode(), "t.csv").questions[0]


def test_one_number_that_can_be_read_in_one_way_decides_for_those_that_cannot() -> None:
    cells = ["1,234"] * (N - 2) + ["12,5", "0,25"]
    assert proposed(csv(";", cells))["a"][0] == 1.234
    assert not detect_reading(csv(";", cells), "t.csv").questions
    assert proposed(csv(",", ["1.234"] * N))["a"][0] == 1.234


@pytest.mark.parametrize(
    ("text", "decimal", "expected"),
    [
        *[("1.234,50", mark, 1234.5) for mark in ".,"],
        *[("1,234.50", mark, 1234.5) for mark in ".,"],
        *[("1.234.567", mark, 1234567) for mark in ".,"],
        *[("12 345,5", mark, 12345.5) for mark in ".,"],
        *[("0,125", mark, 0.125) for mark in ".,"],
        *[("1234,567", mark, 1234.567) for mark in ".,"],
        *[("-,5e3", mark, -500) for mark in ".,"],
        *[("1e5", mark, 1e5) for mark in ".,"],
        ("1,234", ".", 1234),
        ("1,234", ",", 1.234),
        ("1.234", ".", 1.234),
        ("1.234", ",", 1234),
    ],
)
def test_a_number_is_read_in_the_one_way_that_it_can(text: str, decimal: str, expected: float) -> None:
    assert float(plain_number(text, decimal)) == expected


@pytest.mark.parametrize(
    "text", ["", ".", ",", "-", "1,23,4", "1.2.3", "01.02.2020", "1,2345,6", "12:30", "x1", "1 2", "e5"]
)
def test_what_is_no_number_stays_as_it_is(text: str) -> None:
    assert plain_number(text, ".") == plain_number(text, ",") == text


def test_whole_numbers_keep_all_their_digits() -> None:
    digits = [str(10**17 + place) for place in range(N)]
    assert [class_label(cell) for cell in read_table(csv(",", digits), "t.csv")["a"]] == digits
    assert np.isfinite(read_table(csv(",", ["9" * 15] * N), "t.csv")["a"].astype(float)).all()


CELLS = st.one_of(
    st.floats().map(repr),
    st.integers().map(str),
    st.text("0123456789.,'eE+- ", max_size=12),
    st.sampled_from(["?", "", "True", "nan", "inf", "-inf", "1e400", "1_0", "٣", "0x1"]),
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(CELLS, min_size=1, max_size=12), st.sampled_from(".,"), CELLS)
def test_every_cell_is_read_by_itself_whatever_stands_beside_it(cells: list[str], decimal: str, beside: str) -> None:
    def read(*cells: str) -> list[object]:
        return mixed_column(
            *read_cells(pyarrow.array(cells, pyarrow.large_string()), Reading(decimal=decimal))
        ).tolist()

    together = read(beside, *cells)[1:]
    alone = [read(cell)[0] for cell in cells]

    def same(one: object, other: object) -> bool:
        return one == other or (pd.isna(one) and pd.isna(other))

    assert all(same(*pair) for pair in zip(together, alone, strict=True))
    for cell, value in zip(cells, alone, strict=True):
        if isinstance(value, float) and math.isfinite(value):
            assert value == float(plain_number(cell.strip(), decimal)), "to the last digit"


def test_a_reading_is_a_declaration_that_reads_the_same_again() -> None:
    data = csv(";", [*GERMAN[:-1], "k. A."], header=None)
    reading = detect_reading(data, "t.csv").reading.replaced(missing=("k. A.",), sample_rows=30, sample_seed=4)
    frame = read_table(data, "t.csv", reading=reading)
    assert len(frame) == 30
    specification = prepare(
        frame, "Column 2", "yes", ["Column 1"], {"Column 1": (-1e4, 4e4)}, reading=reading
    ).specification
    again = Specification.from_json(specification.to_json())
    assert again == specification
    assert read_table(data, "t.csv", reading=again.reading).equals(frame)
    with pytest.raises(UserError):
        Specification.from_json(specification.to_json().replace('"decimal":","', '"decimal":"x"'))


def test_commas_that_cut_numbers_apart_are_said() -> None:
    with pytest.raises(UserError, match="decimal commas, put them in quotes or separate"):
        read_table(csv(",", COMMAS), "t.csv")


@pytest.mark.parametrize(
    ("name", "cells", "is_id"),
    [
        ("id", ["7"] * N, True),
        (" ID#", ["a", "b"] * (N // 2), True),
        ("person", [str(9000 - row) for row in range(N)], True),
        ("person", [f"p{row}" for row in range(N)], True),
        ("person", [str(max(row, 1)) for row in range(N)], True),  # one row decides nothing
        ("person", [str(max(row, 2)) for row in range(N)], False),
        ("idle", ["7"] * N, False),
        ("weight", [f"{row}.5" for row in range(N)], False),
        ("income", [f"{row},000" for row in range(N)], False),
    ],
)
def test_a_column_that_tells_rows_apart_is_told_from_others(name: str, cells: list[str], is_id: bool) -> None:
    data = csv(";", PLAIN, ["no", "yes"] * (N // 2), cells, header=f"a{{0}}b{{0}}{name}")
    found = detect_reading(data, "t.csv")
    assert found.ids == (name.strip(),) * is_id
    assert found.reading.kinds[0] == "number", "how a file is read is the same: it is a proposal to the visitor"


def test_two_columns_are_left_when_all_others_look_like_ids() -> None:
    data = csv(";", [str(row) for row in range(N)], [f"p{row}" for row in range(N)], header="id{0}name")
    assert detect_reading(data, "t.csv").ids == ()
