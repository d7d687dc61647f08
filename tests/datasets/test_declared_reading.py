"""With one declared reading no replaced row changes another row, the number of rows, or a name."""

import csv
import io
import itertools
from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpviz.datasets import Reading, detect_reading, read_table
from dpviz.datasets.uploads.parsing import column_numbers, is_empty
from dpviz.datasets.uploads.reading import SEPARATORS
from dpviz.errors import UserError

N = 24
HEADER = ["dose", "age", "ill"]


def record(cells: Sequence[str], separator: str) -> str:
    """A row as CSV writes it, without a line break at its end."""
    sink = io.StringIO()
    csv.writer(sink, delimiter=separator, lineterminator="\n").writerow(cells)
    return sink.getvalue()[:-1]


def told(table: pd.DataFrame) -> list[tuple[object, ...]]:
    """Every cell as it is used: its number and whether there is none, or its text."""
    columns = []
    for name in table:
        found, texts = column_numbers(table[name]), table[name].astype(object)
        nothing = is_empty(table[name])
        columns.append(
            [
                ("missing",) if gap else (value if np.isfinite(value) or np.isinf(value) else str(text))
                for value, gap, text in zip(found.tolist(), nothing, texts, strict=True)
            ]
        )
    return list(zip(*columns, strict=True))


@cache
def as_read(data: bytes, reading: Reading) -> tuple[list[str], list[tuple[object, ...]]]:
    """The names of the columns, and the cells of every row."""
    table = read_table(data, "t.csv", reading=reading)
    return list(table.columns), told(table)


def same_but(rows: Sequence[str], place: int, other: str, end: str, head: str, reading: Reading) -> bool:
    """Whether a table whose row at `place` is replaced is the same in all other rows; whether that row is another."""
    (names, one), (other_names, two) = (
        as_read((head + "\n".join(found) + end).encode(errors="surrogateescape"), reading)
        for found in (rows, [*rows[:place], other, *rows[place + 1 :]])
    )
    assert names == other_names and len(one) == len(two) == len(rows)
    assert one[:place] == two[:place] and one[place + 1 :] == two[place + 1 :]
    return one != two


def tables(separator: str) -> dict[str, list[str]]:
    """Tables as in the wild: numbers of three decimals or none, of decimal commas, classes, texts with what hurts."""
    three = [[f"{1 + i}.{100 + i}", str(20 + i), "yes" if i % 3 else "no"] for i in range(N)]
    commas = [[f"{i},{i % 9}", f"{i}.{100 + i}", "no"] for i in range(N)]
    classes = [["north", "old", "yes" if i % 3 else "no"] for i in range(N)]
    wild = [[f'say "{i}"', "a\nb" if i % 7 == 0 else "", f"x{separator}y"] for i in range(N)]
    return {
        "three decimals": [record(row, separator) for row in three],
        "commas": [record(row, separator) for row in commas],
        "classes": [record(row, separator) for row in classes],
        "quotes": [record(row, separator) for row in wild],
        "in quotes throughout": [separator.join(f'"{cell}"' for cell in row) for row in three],
    }


def hostile(separator: str) -> list[str]:
    """Rows that re-read a file, or took others along, where the reading followed from the rows."""
    of = lambda *cells: record(cells, separator)  # noqa: E731
    return [
        of("0,5", "40", "no"),
        of("1.234,50", "1.234,50", "1.234,50"),
        of(*HEADER),
        of("-", "-", "-"),
        of("NA", ".", "*"),
        "",
        " ",
        separator * 2,
        separator * 9,
        separator.join("123456789"),
        "alone",
        "sep=;",
        of("a\nb", 'c"d', "e\r\nf"),
        of("a\n\n\nb", "\n", "1"),
        of("99999999999999999999", "1e400", "inf"),
        of("True", "2020-01-01", "x" * 200_000),
        of("\ufeff", "\u2028", "\x85"),
        of("\x00", "\x1c", "\x0b"),
        *(mark.join(("1,5", "1.234.567", "x")) for mark in SEPARATORS),
    ]


def broken(separator: str) -> list[str]:
    """Rows that are no CSV: quotes that do not close, or bytes that are no text."""
    return [
        '"',
        f'"a{separator}2{separator}no',
        f'1{separator}"a',
        f'5" pipe{separator}2{separator}no',
        f'"a"b"{separator}2{separator}"',
        '"""',
        "a\rb",
        f"\udcff{separator}\udce2\udc82{separator}\udcc3",
    ]


def readings(separator: str, head: str) -> list[Reading]:
    """Declared in several ways, the proposal among them."""
    header = bool(head)
    plain = Reading(separator=separator, header=header, kinds=("text",) * 3)
    return [
        plain.replaced(kinds=() if header else plain.kinds),
        plain.replaced(decimal=",", kinds=("number", "number", "text")),
        plain.replaced(kinds=("number", "unused", "text"), missing=("-", "no")),
    ]


PLACES = (0, 17, N - 1)


@pytest.mark.slow
@pytest.mark.parametrize("separator", SEPARATORS)
@pytest.mark.parametrize("headed", [True, False])
def test_a_replaced_record_changes_itself_alone(separator: str, headed: bool) -> None:
    head = record(HEADER, separator) + "\n" if headed else ""
    changed, places = 0, itertools.cycle(PLACES)
    for (_, rows), other in itertools.product(tables(separator).items(), hostile(separator)):
        for place, reading in zip(places, readings(separator, head), strict=False):
            changed += same_but(rows, place, other, "\n", head, reading)
    assert changed > 300


@pytest.mark.slow
@pytest.mark.parametrize("separator", SEPARATORS)
def test_what_is_proposed_for_a_table_reads_all_its_neighbours_alike(separator: str) -> None:
    """With and without a line break at the end, which is part of what is declared."""
    places = itertools.cycle(PLACES)
    for (_, rows), (end, headed) in itertools.product(tables(separator).items(), (("", True), ("\n\n", False))):
        head = record(HEADER, separator) + "\n" if headed else ""
        reading = detect_reading((head + "\n".join(rows) + end).encode(), "t.csv").reading
        for place, other in zip(places, hostile(separator), strict=False):
            if reading.rows == "records" or "\n" not in other:  # else it is several rows
                same_but(rows, place, other, end, head, reading.replaced(header=headed))
        same_but(rows, N - 1, "", end, head, reading.replaced(header=headed))


@pytest.mark.slow
@pytest.mark.parametrize("separator", SEPARATORS)
def test_a_row_that_is_no_csv_is_a_row_by_itself_or_the_file_is_refused(separator: str) -> None:
    head, refused, places = record(HEADER, separator) + "\n", set[str](), itertools.cycle(PLACES)
    for (name, rows), other in itertools.product(tables(separator).items(), broken(separator)):
        for place, reading in zip(places, readings(separator, head), strict=False):
            try:
                same_but(rows, place, other, "\n", head, reading)
            except UserError as error:
                assert "it is not clear where rows end" in str(error)
                refused.add(name)
            if name != "quotes":  # in it, rows have several lines
                same_but(rows, place, other, "\n", head, reading.replaced(rows="lines"))
    assert refused == set(tables(separator))


CELLS = st.text(st.sampled_from('",;\t|\n .0123456789x-\r\ufeff\0'), max_size=6)
ROWS = st.lists(st.lists(CELLS, min_size=1, max_size=5), min_size=20, max_size=24)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@example([["1", '",', "\n"]] * 20, 3, '1,"a', ",", "records")
@given(
    ROWS,
    st.integers(0, 19),
    st.one_of(
        CELLS, st.text(st.sampled_from('",;\t|x \r\ufeff\0'), max_size=12), st.lists(CELLS, min_size=1, max_size=5)
    ),
    st.sampled_from(SEPARATORS),
    st.sampled_from(["records", "lines"]),
)
def test_any_table_and_any_row(
    table: list[list[str]], place: int, other: str | list[str], separator: str, what: str
) -> None:
    """A row is replaced by any line, or by any record: then all others stay, or, of records, the file is refused."""
    rows = [record(cells, separator) for cells in table]
    other = other.replace("\n", " ") if isinstance(other, str) else record(other, separator)
    if what == "lines":
        *rows, other = (row.replace("\n", " ") for row in (*rows, other))
    reading = Reading(separator=separator, rows=what, below=1, kinds=("text", "number", "text"))  # type: ignore[arg-type]
    try:
        same_but(rows, place, other, "\n", separator.join("abc") + "\n", reading)
    except UserError as error:
        assert (what == "records" and "it is not clear where rows end" in str(error)) or "Every row has" in str(error)


def test_the_file_of_which_one_row_changed_all_others() -> None:
    """Issue: every number with three decimals or none, and one row with a decimal comma: 6.733 became 6733."""
    rows = [f"{i % 9}.{100 + i},{20 + i % 50},{'yes' if i % 3 else 'no'}" for i in range(300)]
    for other in ('"0,5",40,no', "dose,age,ill", ""):
        reading = detect_reading(("dose,age,ill\n" + "\n".join(rows)).encode(), "t.csv").reading
        assert same_but(rows, 150, other, "", "dose,age,ill\n", reading)


def test_a_repeated_header_is_a_row_like_others() -> None:
    rows = [f"{'north' if i % 2 else 'south'},{'yes' if i % 3 else 'no'}" for i in range(300)]
    data = ("\n".join(["area,ill", *rows[:150], "area,ill", *rows[151:]])).encode()
    found = detect_reading(data, "t.csv")
    assert found.reading.header and found.names == ("area", "ill")
    frame = read_table(data, "t.csv", reading=found.reading)
    assert frame.shape == (300, 2) and list(frame.columns) == ["area", "ill"]


def test_records_over_several_lines_and_an_open_quote_are_told_apart_or_refused() -> None:
    head, plain = "a,b\n", [f"{i},x" for i in range(30)]
    one = (head + "\n".join([*plain, '"1\n2",y', "3,z\n"])).encode()
    assert len(read_table(one, "t.csv")) == 32
    for rows in (['"1,y', "3,z"], ['"1\n2",y', '"3,z', "4,w"]):
        data = (head + "\n".join([*plain, *rows]) + "\n").encode()
        with pytest.raises(UserError, match="Say that every line is a row"):
            read_table(data, "t.csv")
        assert detect_reading(data, "t.csv").reading.rows == "lines"
        frame = read_table(data, "t.csv", reading=Reading(rows="lines"))
        assert len(frame) == 30 + len("".join(rows).split("\n")) + len(rows) - 1 and frame["b"].iloc[-1] in ("z", "w")


@pytest.mark.parametrize("end", ["", "\n"])
def test_two_rows_with_a_single_quote_take_no_row_between_them_along(end: str) -> None:
    """260 of 300 rows became one cell of the row before."""
    rows = [f"{i},{i % 2},pipe" for i in range(300)]
    rows[270] = '270,1,pipe 6"'
    reading = detect_reading(("price,yes,name\n" + "\n".join(rows) + end).encode(), "t.csv").reading
    assert reading.rows == "lines"
    for other in ('90,0,"pipe 4', '90,0,pipe 4"', '"', '90,"0,pipe'):
        assert same_but(rows, 10, other, end, "price,yes,name\n", reading)
        with pytest.raises(UserError, match="Say that every line is a row"):
            same_but(rows, 10, other, end, "price,yes,name\n", reading.replaced(rows="records"))


def test_a_cell_that_does_not_fit_the_declared_kind_is_missing() -> None:
    data = b"a,b,c\n" + b"1.5,x,u\nold,2,v\n12345678901234567,3,w\n" * 20
    frame = read_table(data, "t.csv", reading=Reading(kinds=("number", "text", "unused")))
    assert list(frame.columns) == ["a", "b"]
    assert is_empty(frame["a"])[:3].tolist() == [False, True, False]
    assert frame["b"].astype(object)[:3].tolist() == ["x", 2.0, 3.0]
    with pytest.raises(UserError, match="3 columns, and how it is read was declared for 2"):
        read_table(data, "t.csv", reading=Reading(kinds=("number", "text")))


def test_lines_above_the_table_are_left_out_as_declared() -> None:
    rows = "".join(f"{i};{i % 2}\n" for i in range(25))
    titled = ("A report\nof 2020\n\na;b\n" + rows).encode()
    assert read_table(titled, "t.csv", reading=Reading(separator=";", above=2)).shape == (25, 2)
    first_blank = ("\n\n" + rows).encode()
    bare = Reading(separator=";", header=False, kinds=("number", "number"))
    assert len(read_table(first_blank, "t.csv", reading=bare)) == 27
    assert len(read_table(first_blank, "t.csv", reading=bare.replaced(above=2))) == 25


PAIRS = [f"{i},{i % 2}" for i in range(40)]


def test_no_row_becomes_a_part_of_a_header_with_an_open_quote() -> None:
    """The row that closes it made 40 rows 29, and renamed a column."""
    head = 'a,"b\n'
    found = detect_reading((head + "\n".join(PAIRS)).encode(), "t.csv")
    assert found.reading.rows == "lines" and len(found.questions) == 1
    for other in ('x"', '",1'):
        assert same_but(PAIRS, 10, other, "", head, found.reading)
        with pytest.raises(UserError, match="Say that every line is a row"):
            same_but(PAIRS, 10, other, "", head, found.reading.replaced(rows="records"))


def test_of_a_file_with_an_open_quote_every_line_is_proposed_as_a_row() -> None:
    """Another one in another row made records of the lines between."""
    rows = [*PAIRS[:20], '",1', *PAIRS[21:]]
    found = detect_reading("\n".join(["a,b", *rows]).encode(), "t.csv")
    assert found.reading.rows == "lines" and "is opened in some line" in found.questions[0]
    assert same_but(rows, 10, '"a', "", "a,b\n", found.reading)
    for row, what in (('"two\nlines",1', "records"), ('5" pipe,1', "lines"), ('"one line",1', "lines")):
        found = detect_reading("\n".join(["a,b", *PAIRS, row]).encode(), "t.csv")
        assert found.reading.rows == what and not found.questions


def test_how_many_columns_there_are_is_declared() -> None:
    """Where half of the rows had two cells and half three, one row decided."""
    rows = ["1,2"] * 20 + ["1,2,3"] * 20
    with pytest.raises(UserError, match="nothing else says how many") as caught:
        read_table("\n".join([*rows, ""]).encode(), "t.csv", reading=Reading(header=False))
    assert caught.value.title == "Say of every column what it holds"
    assert same_but(rows, 30, "1,2", "\n", "", Reading(header=False, kinds=("text",) * 3))


def test_no_row_decides_whether_all_others_with_too_many_cells_are_refused() -> None:
    rows = ["1,2,3"] * 39 + ["1,2"]
    assert same_but(rows, 39, "1,2,3", "\n", "a,b\n", Reading(kinds=("number", "number")))


def test_nothing_is_detected_where_nothing_is_declared() -> None:
    """A program, or settings without a reading: commas, points and a header, whatever the rows are."""
    rows = [f"{1 + i}.{100 + i},x" for i in range(30)]
    for other in ('"0,5",x', "a,b", "1.5,a"):
        frame = read_table("\n".join(["a,b", *rows, other, ""]).encode(), "t.csv")
        assert frame.shape == (31, 2) and column_numbers(frame["a"])[0] == 1.1
    with pytest.raises(UserError, match="Only one column was found"):
        read_table("\n".join(["a;b", *(row.replace(",", ";") for row in rows)]).encode(), "t.csv")


def test_without_a_declaration_no_last_row_is_lost() -> None:
    """A blank one in a file that ends without a line break was: such a file is refused, until that is declared."""
    for end, reading in (("\n", None), ("", Reading(below=0))):
        assert [
            len(read_table(("a,b\n" + "\n".join([*PAIRS, last]) + end).encode(), "t.csv", reading=reading))
            for last in ("1,2", "")
        ] == [len(PAIRS) + 1] * 2
    with pytest.raises(UserError, match="Add a line break at its end"):
        read_table("\n".join(["a,b", *PAIRS]).encode(), "t.csv")


def test_bytes_that_are_no_text_in_one_row_of_a_parquet_file_are_its_own() -> None:
    frames, cells = [], [b"x", b"y"] * 15
    for column in (cells, [*cells[:-1], b"\xff"]):
        sink = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table({"a": pyarrow.array(column), "b": cells}), sink)
        frames.append(told(read_table(sink.getvalue(), "t.parquet")))
    assert frames[0][:-1] == frames[1][:-1] and frames[0][-1] != frames[1][-1]
