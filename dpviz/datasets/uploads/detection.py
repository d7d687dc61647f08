"""Detection of how a text file is written: a proposal of how to read it, for the user to confirm.

It looks at the data: for the uploader's eyes, not private. No part of it is used before it is confirmed.
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
_PREVIEW_CELLS = 3  # of a column
_START = 65_536  # bytes
_MAX_CELLS = 100_000  # that are looked at, in fewer rows of a wide table


@dataclass(frozen=True)
class Detected:
    """A proposal of a reading. It looks at the data: for the uploader's eyes.

    questions : sentences about what the file leaves open.
    names : of the columns, used or not. cells : the first cells of each, as they would be read.
    ids : names of the columns that seem to do nothing but identify rows.
    """

    reading: Reading
    questions: tuple[str, ...]
    names: tuple[str, ...] = field(default=(), compare=False)
    cells: tuple[tuple[str, ...], ...] = field(default=(), compare=False)
    ids: tuple[str, ...] = field(default=(), compare=False)


def detect(data: bytes, given: Reading | None = None) -> Detected:
    """Propose a reading of a text from its first rows.

    A single row among many decides nothing, unless it opens a quote: then a question says so.

    given : the reading that the user has chosen; then only the columns and the end of the file are looked at again.
    """
    if given is None:
        _check_text(data)
    reading, questions = _detect_ends(data, given or _detect_lines(data), is_given=given is not None)
    if given is None:
        reading, more_questions = _detect_marks(data, reading)
        questions += more_questions
    header, rows = layout(data, reading)
    first_rows = _first_rows(rows, reading.separator)
    width = min(len(header) or usual_width(rows, reading.separator), MAX_COLUMNS + 1)
    table = [(row + [""] * width)[:width] if fits(row, width) else [""] * width for row in first_rows]
    columns = [[row[index].strip() for row in table] for index in range(width)]
    if wide := sum(not fits(row, width) for row in first_rows):
        questions.append(
            f"{wide:,} of the first {len(first_rows):,} rows have more cells than there are columns, so that all of "
            "such a row is missing. Is the separator right, and does the header name every column?"
        )
    if any("\ufffd" in cell for column in columns for cell in column):
        questions.append("Some characters are no UTF-8: they become “\ufffd”. Save the file as UTF-8 to keep them.")
    names = tuple(name.strip() or f"Column {number}" for number, name in enumerate(header[:width] or [""] * width, 1))
    are_numeric = (
        any(cells) and _is_numeric(cells, reading.decimal, reading.missing) for cells in columns[:MAX_COLUMNS]
    )
    reading = reading.replaced(kinds=tuple("number" if is_numeric else "text" for is_numeric in are_numeric))
    ids = tuple(
        name
        for name, cells, kind in zip(names, columns, reading.kinds, strict=False)
        if is_id(name) or _are_distinct(cells, reading.missing, kind)
    )
    return Detected(
        reading,
        tuple(questions),
        names,
        tuple(tuple(_preview(cell, reading) for cell in column[:_PREVIEW_CELLS]) for column in columns),
        ids if len(ids) + MIN_COLUMNS <= len(names) else (),
    )


def _check_text(data: bytes) -> None:
    """Raise UserError for a file that is no text: more than a tenth of the characters at its start are none."""
    start = data[:_START].decode("utf-8", "replace")
    odd = sum(character == "\ufffd" or (character < " " and character not in "\t\r\n") for character in start)
    if 10 * odd > len(start):
        raise unreadable()


def _detect_lines(data: bytes) -> Reading:
    """Detect where lines end, how many at the top are no rows, and the separator of cells."""
    returns = 10 * data.count(b"\n") < data.count(b"\r")
    lines = lines_of(data, returns)
    above = blank_lines(lines)
    declared = next((mark for mark in map(named_separator, above) if mark in SEPARATORS), None)
    first_lines = lines[len(above) : len(above) + LOOKED_AT]
    texts = [first_lines.text(row) for row in range(min(100, len(first_lines)))]
    rows: Literal["returns", "lines"] = "returns" if returns else "lines"
    return Reading(separator=declared or _detect_separator(texts), rows=rows, above=len(above))


def _detect_ends(data: bytes, reading: Reading, is_given: bool) -> tuple[Reading, list[str]]:
    """Count the blank lines at the end of the file, and choose records as rows where a record has several lines.

    Returns the reading and questions. is_given : the user has chosen what a row is; lines replace records only where
    the quotes do not show which lines belong to a record.
    """
    lines = lines_of(data, reading.rows == "returns")
    below = next((count for count in range(LOOKED_AT) if count >= len(lines) or lines.text(-1 - count).strip()), 0)
    reading = reading.replaced(below=below)
    if reading.rows == "returns" or (is_given and reading.rows == "lines"):
        layout(data, reading)
        return reading, []
    by_line, by_record = (reading.replaced(rows=rows) for rows in ("lines", "records"))
    count = len(layout(data, by_line)[1])
    with suppress(UserError):
        if len(layout(data, by_record)[1]) < count or is_given:
            return by_record, []
    has_open_quote = is_open(lines, reading.separator)
    question = 'A " is opened in some line and not closed: every line is read as a row.'
    return by_line, [question] * has_open_quote


def _detect_separator(texts: Sequence[str]) -> str:
    """Return the separator that cuts most of the first rows, most evenly; the comma only if no other one does so."""
    scores: dict[str, tuple[int, int, bool, int]] = {}
    for separator in SEPARATORS:
        tidy = (text.replace("\r", " ") + "\n" for text in texts)
        try:
            table = [*islice(csv.reader(tidy, delimiter=separator, skipinitialspace=True), 20)]
        except csv.Error:
            table = []
        widths = [len(row) for row in table if row]
        cut_widths = [width for width in widths if width > 1]
        even_rows = max(map(cut_widths.count, cut_widths), default=0)  # rows of the most frequent width
        scores[separator] = (
            len(cut_widths),
            even_rows,
            separator != ",",
            sum(widths[:1]),
        )  # a comma may be a decimal mark
    return max(scores, key=scores.__getitem__)


def _first_rows(rows: Rows, separator: str) -> list[list[str]]:
    """Cut the first rows into cells; fewer rows where they are wide."""
    table, cell_count = [], 0
    for row in range(min(len(rows), LOOKED_AT)):
        if cell_count > _MAX_CELLS:
            break
        table.append(cells_of(rows.text(row), separator))
        cell_count += len(table[-1])
    return table


def _detect_marks(data: bytes, reading: Reading) -> tuple[Reading, list[str]]:
    """Detect decimal mark, header and missing values; return the reading with them, and questions about them."""
    _, all_rows = layout(data, reading.replaced(header=False))
    rows = [row for row in _first_rows(all_rows, reading.separator) if any(row)]
    first = [cell.strip() for cell in rows[0]] if rows else []
    columns = [[row[index].strip() for row in rows[1:] if index < len(row)] for index in range(len(first))]
    decimal, question = _detect_decimal([cell for column in columns for cell in column], reading.separator)
    questions = [question] if question else []
    numeric = [index for index, column in enumerate(columns) if _is_numeric(column, decimal)]
    header, is_sure = _detect_header(first, columns, numeric, decimal)
    if not is_sure:
        questions.append("Does the first row name the columns, or is it data?")
    dashes = tuple(mark for mark in _DASHES if _count_rows(mark, [columns[index] for index in numeric]) > 1)
    return reading.replaced(decimal=decimal, header=header, missing=(*MISSING, *dashes)), questions


def _preview(cell: str, reading: Reading) -> str:
    """Return a cell as it would be read, for the user to look at."""
    if not cell or cell in reading.missing:
        return "missing"
    return plain_number(cell[:40], reading.decimal)


def _detect_decimal(cells: Sequence[str], separator: str) -> tuple[Literal[".", ","], str]:
    """Return the decimal mark of most numbers, and a question where all but one could be read in two ways, else ""."""
    votes, ambiguous = {".": 0, ",": 0}, []
    for cell in cells:
        if "," not in cell and "." not in cell:
            continue
        by_mark = {mark: plain_number(cell, mark) for mark in votes}
        if as_number(by_mark["."]) != as_number(by_mark["."]):  # NaN: no number
            continue
        if by_mark["."] != by_mark[","]:
            ambiguous.append(cell)
        else:
            votes["," if PATTERNS[","].fullmatch(cell) else "."] += 1
    decimal: Literal[".", ","] = "," if votes[","] > max(votes["."], 1) else "."
    doubtful = [cell for cell in ambiguous if "," in cell or separator == ";"]
    if max(votes.values()) < 2 and doubtful:
        return decimal, "Is the comma or the point the decimal mark? All numbers but one could be read in two ways."
    return decimal, ""


def _count_rows(mark: str, columns: Sequence[Sequence[str]]) -> int:
    """Count the rows with a mark: the reading is exported, so a single row must not put the mark into it."""
    return len({row for column in columns for row, cell in enumerate(column) if cell == mark})


def _is_numeric(cells: Sequence[str], decimal: str, missing: Sequence[str] = (*MISSING, *_DASHES)) -> bool:
    """Return true if most cells that are not missing are numbers."""
    present = [cell for cell in cells if cell and cell not in missing]
    return 2 * sum(_is_number(cell, decimal) for cell in present) > len(present)


def is_id(name: str) -> bool:
    """Return true for the name of a column of identifiers, such as "ID" or "uuid"."""
    return name.strip(" _.#").casefold() in ("id", "uuid", "guid")


def _are_distinct(cells: Sequence[str], missing: Sequence[str], kind: Kind) -> bool:
    """Return true if all values, or all but one, differ: texts, or numbers that are all written as whole ones."""
    present = [cell for cell in cells if cell and cell not in missing]
    are_labels = kind == "text" or all(cell.removeprefix("-").isdigit() for cell in present)
    return len(present) >= MIN_ROWS and len(set(present)) >= len(present) - 1 and are_labels


def _is_number(cell: str, decimal: str) -> bool:
    value = as_number(plain_number(cell, decimal))
    return value == value  # not NaN


def _detect_header(
    first: Sequence[str], columns: Sequence[Sequence[str]], numeric: Sequence[int], decimal: str
) -> tuple[bool, bool]:
    """Return two truths: the first row is a header; that is sure.

    numeric : indices of the columns of numbers. Each cell of the first row votes: like the data of its column, or not.
    """
    names = data = 0
    for index, (cell, column) in enumerate(zip(first, columns, strict=True)):
        if not cell or cell in MISSING:
            continue
        if index in numeric:
            is_like_data = _is_number(cell, decimal)
        elif 10 * len(set(column)) <= len(column) or column.count(cell) > 1:  # a class of a column of few classes?
            is_like_data = column.count(cell) > 1  # one row may repeat the header
        else:
            continue
        data, names = data + is_like_data, names + (not is_like_data)
    numeric_cells = [first[index] for index in numeric]
    indices = [[str(index + base) for index in numeric] for base in (0, 1)]
    if len(numeric_cells) > 1 and numeric_cells in indices:  # 0, 1, 2, … name columns more often than they are a row
        return True, False
    return not data or 4 * names >= data, not data or not names
