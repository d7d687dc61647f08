"""What a file seems to be: a proposal of how to read it, for the user to confirm.

It looks at the data: for the uploader's eyes, not private. Nothing of it is used before it is confirmed.
"""

import csv
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from dpviz.datasets.uploads.limits import MAX_COLUMNS, MIN_COLUMNS, MIN_ROWS, unreadable
from dpviz.datasets.uploads.parsing import as_number
from dpviz.datasets.uploads.reading import MISSING, PATTERNS, SEPARATORS, Kind, Reading, plain_number
from dpviz.datasets.uploads.texts import (
    LOOKED_AT,
    Rows,
    blank_lines,
    cells_of,
    fits,
    is_open,
    layout,
    lines_of,
    named_separator,
    usual_width,
)
from dpviz.errors import UserError

_DASHES = ("-", "--", ".", "..", "*")  # missing in a column of numbers, but perhaps a class in a column of texts
_SHOWN = 3  # cells of a column
_START = 65_536  # bytes
_MOST_CELLS = 100_000  # that are looked at, in fewer rows of a wide table


@dataclass(frozen=True)
class Detected:
    """A proposal, and what the file leaves open, in sentences. It looks at the data: for the uploader's eyes.

    names : of the columns, used or not. cells : the first cells of each, as they would be read. ids : the columns that
        look as if they told rows apart and nothing else.
    """

    reading: Reading
    questions: tuple[str, ...]
    names: tuple[str, ...] = field(default=(), compare=False)
    cells: tuple[tuple[str, ...], ...] = field(default=(), compare=False)
    ids: tuple[str, ...] = field(default=(), compare=False)


def detected(data: bytes, given: Reading | None = None) -> Detected:
    """What the first rows of a text suggest. One row among many decides about nothing, unless it opens a quote:
    then a question says so.

    given : what the user has said already; then only the columns and the end of the file are looked at again.
    """
    if given is None:
        _check_text(data)
    reading, questions = _ends(data, given or _layout(data), fixed=given is not None)
    if given is None:
        reading, more_questions = _marks(data, reading)
        questions += more_questions
    header, rows = layout(data, reading)
    first = _cells(rows, reading.separator)
    width = min(len(header) or usual_width(rows, reading.separator), MAX_COLUMNS + 1)
    table = [(row + [""] * width)[:width] if fits(row, width) else [""] * width for row in first]
    columns = [[row[place].strip() for row in table] for place in range(width)]
    if wide := sum(not fits(row, width) for row in first):
        questions.append(
            f"{wide:,} of the first {len(first):,} rows have more cells than there are columns, so that all of such a "
            "row is missing. Is the separator right, and does the header name every column?"
        )
    if any("\ufffd" in cell for column in columns for cell in column):
        questions.append("Some characters are no UTF-8: they become “\ufffd”. Save the file as UTF-8 to keep them.")
    names = tuple(name.strip() or f"Column {place}" for place, name in enumerate(header[:width] or [""] * width, 1))
    numbers = (any(cells) and _numeric(cells, reading.decimal, reading.missing) for cells in columns[:MAX_COLUMNS])
    reading = reading.replaced(kinds=tuple("number" if found else "text" for found in numbers))
    ids = tuple(
        name
        for name, cells, kind in zip(names, columns, reading.kinds, strict=False)
        if is_id(name) or _all_differ(cells, reading.missing, kind)
    )
    return Detected(
        reading,
        tuple(questions),
        names,
        tuple(tuple(_shown(cell, reading) for cell in column[:_SHOWN]) for column in columns),
        ids if len(ids) + MIN_COLUMNS <= len(names) else (),
    )


def _check_text(data: bytes) -> None:
    """Raise UserError for a file that is no text: one character of ten at its start is none."""
    start = data[:_START].decode("utf-8", "replace")
    odd = sum(character == "\ufffd" or (character < " " and character not in "\t\r\n") for character in start)
    if 10 * odd > len(start):
        raise unreadable()


def _layout(data: bytes) -> Reading:
    """Where lines end, which of them are none at the top, and what cuts them into cells."""
    returns = 10 * data.count(b"\n") < data.count(b"\r")
    lines = lines_of(data, returns)
    above = blank_lines(lines)
    named = next((mark for mark in map(named_separator, above) if mark in SEPARATORS), None)
    below = lines[len(above) : len(above) + LOOKED_AT]
    texts = [below.text(row) for row in range(min(100, len(below)))]
    rows: Literal["returns", "lines"] = "returns" if returns else "lines"
    return Reading(separator=named or _separator(texts), rows=rows, above=len(above))


def _ends(data: bytes, reading: Reading, fixed: bool) -> tuple[Reading, list[str]]:
    """The reading with the blank lines at the end of the file left out, and with records as rows where one has several
    lines. fixed : the user has said what a row is; lines take the place of records that are not told apart."""
    lines = lines_of(data, reading.rows == "returns")
    below = next((count for count in range(LOOKED_AT) if count >= len(lines) or lines.text(-1 - count).strip()), 0)
    reading = reading.replaced(below=below)
    if reading.rows == "returns" or (fixed and reading.rows == "lines"):
        layout(data, reading)
        return reading, []
    by_line, by_record = (reading.replaced(rows=rows) for rows in ("lines", "records"))
    count = len(layout(data, by_line)[1])
    with suppress(UserError):
        if len(layout(data, by_record)[1]) < count or fixed:
            return by_record, []
    opened = is_open(lines, reading.separator)
    return by_line, ['A " is opened in some line and not closed: every line is read as a row.'] if opened else []


def _separator(texts: Sequence[str]) -> str:
    """The separator that cuts most of the first rows, most evenly; not the comma, if another one does so, too."""
    scores: dict[str, tuple[int, int, bool, int]] = {}
    for separator in SEPARATORS:
        tidy = (text.replace("\r", " ") + "\n" for text in texts)
        try:
            table = [*islice(csv.reader(tidy, delimiter=separator, skipinitialspace=True), 20)]
        except csv.Error:
            table = []
        widths = [len(row) for row in table if row]
        cut = [width for width in widths if width > 1]
        even = max(map(cut.count, cut), default=0)
        scores[separator] = (len(cut), even, separator != ",", sum(widths[:1]))  # a comma may be a decimal mark
    return max(scores, key=scores.__getitem__)


def _cells(rows: Rows, separator: str) -> list[list[str]]:
    """The first rows as cells, fewer of them where they are wider than a table may be."""
    table, cells = [], 0
    for row in range(min(len(rows), LOOKED_AT)):
        if cells > _MOST_CELLS:
            break
        table.append(cells_of(rows.text(row), separator))
        cells += len(table[-1])
    return table


def _marks(data: bytes, reading: Reading) -> tuple[Reading, list[str]]:
    """The reading with decimal mark, header and missing values, and what is open about them."""
    rows = [row for row in _cells(layout(data, reading.replaced(header=False))[1], reading.separator) if any(row)]
    first = [cell.strip() for cell in rows[0]] if rows else []
    columns = [[row[place].strip() for row in rows[1:] if place < len(row)] for place in range(len(first))]
    decimal, question = _decimal([cell for column in columns for cell in column], reading.separator)
    questions = [question] if question else []
    numeric = [position for position, column in enumerate(columns) if _numeric(column, decimal)]
    header, sure = _header(first, columns, numeric, decimal)
    if not sure:
        questions.append("Does the first row name the columns, or is it data?")
    dashes = tuple(mark for mark in _DASHES if _rows_with(mark, [columns[position] for position in numeric]) > 1)
    return reading.replaced(decimal=decimal, header=header, missing=(*MISSING, *dashes)), questions


def _shown(cell: str, reading: Reading) -> str:
    """A cell as it would be read, for a person to look at."""
    if not cell or cell in reading.missing:
        return "missing"
    return plain_number(cell[:40], reading.decimal)


def _decimal(cells: Sequence[str], separator: str) -> tuple[Literal[".", ","], str]:
    """The decimal mark of most numbers, and a question where all could be read in two ways."""
    votes, open_ones = {".": 0, ",": 0}, []
    for cell in cells:
        if "," not in cell and "." not in cell:
            continue
        ways = {mark: plain_number(cell, mark) for mark in votes}
        if as_number(ways["."]) != as_number(ways["."]):
            continue
        if ways["."] != ways[","]:
            open_ones.append(cell)
        else:
            votes["," if PATTERNS[","].fullmatch(cell) else "."] += 1
    decimal: Literal[".", ","] = "," if votes[","] > max(votes["."], 1) else "."
    doubtful = [cell for cell in open_ones if "," in cell or separator == ";"]
    if max(votes.values()) < 2 and doubtful:
        return decimal, "Is the comma or the point the decimal mark? All numbers but one could be read in two ways."
    return decimal, ""


def _rows_with(mark: str, columns: Sequence[Sequence[str]]) -> int:
    """In how many rows a mark stands: the reading is exported, so that one row must not put it there."""
    return len({row for column in columns for row, cell in enumerate(column) if cell == mark})


def _numeric(cells: Sequence[str], decimal: str, missing: Sequence[str] = (*MISSING, *_DASHES)) -> bool:
    """Whether most cells that are not missing are numbers."""
    told = [cell for cell in cells if cell and cell not in missing]
    return 2 * sum(_is_number(cell, decimal) for cell in told) > len(told)


def is_id(name: str) -> bool:
    """Whether a column is called id."""
    return name.strip(" _.#").casefold() in ("id", "uuid", "guid")


def _all_differ(cells: Sequence[str], missing: Sequence[str], kind: Kind) -> bool:
    """Whether all values but one differ: of texts, and of numbers that are written as whole ones."""
    told = [cell for cell in cells if cell and cell not in missing]
    whole = kind == "text" or all(cell.removeprefix("-").isdigit() for cell in told)
    return len(told) >= MIN_ROWS and len(set(told)) >= len(told) - 1 and whole


def _is_number(cell: str, decimal: str) -> bool:
    value = as_number(plain_number(cell, decimal))
    return value == value  # not NaN


def _header(
    first: Sequence[str], columns: Sequence[Sequence[str]], numeric: Sequence[int], decimal: str
) -> tuple[bool, bool]:
    """Whether the first row is a header, and whether that is sure."""
    names = data = 0
    for place, (cell, column) in enumerate(zip(first, columns, strict=True)):
        if not cell or cell in MISSING:
            continue
        if place in numeric:
            like_data = _is_number(cell, decimal)
        elif 10 * len(set(column)) <= len(column) or column.count(cell) > 1:  # a class of a column of few classes?
            like_data = column.count(cell) > 1  # one row may repeat the header
        else:
            continue
        data, names = data + like_data, names + (not like_data)
    counting = [first[place] for place in numeric]
    counted = len(counting) > 1 and counting in [[str(place + base) for place in numeric] for base in (0, 1)]
    if counted:  # 0, 1, 2, … name columns more often than they are a row
        return True, False
    return not data or 4 * names >= data, not data or not names
