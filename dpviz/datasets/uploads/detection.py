"""Detection of how a text file is written: a proposal of how to read it, for the user to confirm.

It looks at the data: for the uploader's eyes, not private. No part of it is used before it is confirmed.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from dpviz.datasets.uploads.limits import MAX_COLUMNS, MIN_COLUMNS, MIN_ROWS, unreadable
from dpviz.datasets.uploads.parsing import as_number
from dpviz.datasets.uploads.reading import MISSING, PATTERNS, SEPARATORS, Kind, Reading, plain_number
from dpviz.datasets.uploads.texts import (
    LOOKED_AT,  # largest number of rows
    TextRows,
    blank_lines,
    cells_of,
    fits,
    has_unclosed_quote,
    lines_of,
    named_separator,
    split_header,
    usual_width,
)
from dpviz.errors import UserError

_DASHES = ("-", "--", ".", "..", "*")  # missing in a column of numbers, but perhaps a class in a column of texts
_PREVIEW_CELLS, _PREVIEW_LENGTH = 3, 40  # cells of a column that are shown to the user, and characters of a cell
_START = 65_536  # bytes of a file that show if it is a text
_MAX_CELLS = 100_000  # cells that are looked at; of a wide table they make fewer than LOOKED_AT rows
_SEPARATOR_LINES, _SEPARATOR_ROWS = 100, 20  # first lines, and rows that these make, by which a separator is detected


@dataclass(frozen=True)
class Detected:
    """A proposal of a reading. It looks at the data: for the uploader's eyes, not private.

    reading : the proposal.
    questions : sentences about what the file leaves open, for the user to decide.
    names : names of all columns, also of unused ones.
    cells : the first cells of each column, as they would be read.
    ids : names of the columns that seem only to identify rows.
    """

    reading: Reading
    questions: tuple[str, ...]
    names: tuple[str, ...] = field(default=(), compare=False)
    cells: tuple[tuple[str, ...], ...] = field(default=(), compare=False)
    ids: tuple[str, ...] = field(default=(), compare=False)


def detect(data: bytes, given: Reading | None = None) -> Detected:
    """Propose a reading of a text from its first rows.

    A single row among many decides nothing, unless it opens a quote: then a question says so.

    given : the reading that the user has chosen, if any. Then only its kinds of columns and the number of lines left
        out at the end are detected again, and whether rows are lines or records.
    """
    if given is None:
        start = data[:_START].decode("utf-8", "replace")
        odd_count = sum(character == "\ufffd" or (character < " " and character not in "\t\r\n") for character in start)
        if 10 * odd_count > len(start):  # over a tenth is control characters or no UTF-8: it is no text
            raise unreadable()
    reading, questions = (given, []) if given is not None else _detect_lines(data)
    reading, more_questions = _detect_ends(data, reading, is_given=given is not None)
    questions += more_questions
    if given is None:
        reading, more_questions = _detect_marks(data, reading)
        questions += more_questions
    header, rows = split_header(data, reading)
    first_rows = _first_rows(rows, reading.separator)
    # One more than can be read, so that a file with too many columns is not taken for one with MAX_COLUMNS.
    width = min(len(header) or usual_width(rows, reading.separator), MAX_COLUMNS + 1)
    # A row with more cells counts as empty, since it is not known which cell belongs to which column.
    wide_count = sum(not fits(row, width) for row in first_rows)
    table = [row if fits(row, width) else [] for row in first_rows]
    table = [(row + [""] * width)[:width] for row in table]  # `width` cells in every row
    columns = [[row[index].strip() for row in table] for index in range(width)]
    if wide_count:
        questions.append(
            f"{wide_count:,} of the first {len(first_rows):,} rows have more cells than there are columns, so that all "
            "of such a row is missing. Is the separator right, and does the header name every column?"
        )
    if any("\ufffd" in cell for column in columns for cell in column):
        questions.append("Some characters are no UTF-8: they become “\ufffd”. Save the file as UTF-8 to keep them.")
    header = header[:width] or [""] * width
    names = tuple(name.strip() or f"Column {number}" for number, name in enumerate(header, 1))
    kinds = []
    for cells in columns[:MAX_COLUMNS]:
        is_numeric = any(cells) and _is_numeric(cells, reading.decimal, reading.missing)
        kinds.append("number" if is_numeric else "text")
    reading = reading.replaced(kinds=tuple(kinds))
    ids = tuple(
        name
        for name, cells, kind in zip(names, columns, reading.kinds, strict=False)  # at most MAX_COLUMNS kinds
        if is_id(name) or _are_distinct(cells, reading.missing, kind)
    )
    if len(ids) + MIN_COLUMNS > len(names):  # without them, too few columns would remain
        ids = ()
    previews = tuple(tuple(_preview(cell, reading) for cell in column[:_PREVIEW_CELLS]) for column in columns)
    return Detected(reading, tuple(questions), names, previews, ids)


def _detect_lines(data: bytes) -> tuple[Reading, list[str]]:
    """Detect the end of lines, the number of lines at the top that are no rows, and the separator of cells.

    Returns the reading with them, and questions to the user. Where line feeds are rare compared to carriage returns,
    lines end in the latter, as on old Macs.
    """
    end_in_returns = 10 * data.count(b"\n") < data.count(b"\r")
    lines = lines_of(data, end_in_returns=end_in_returns)
    lines_above = blank_lines(lines)  # blank, or "sep=;"
    declared_separator = next((mark for mark in map(named_separator, lines_above) if mark in SEPARATORS), None)
    first_lines = lines[len(lines_above) : len(lines_above) + _SEPARATOR_LINES]
    texts = [first_lines.text(row) for row in range(len(first_lines))]
    row_unit: Literal["returns", "lines"] = "returns" if end_in_returns else "lines"
    separator, question = (declared_separator, "") if declared_separator else _detect_separator(texts)
    return Reading(separator=separator, rows=row_unit, above=len(lines_above)), [question] if question else []


def _detect_ends(data: bytes, reading: Reading, is_given: bool) -> tuple[Reading, list[str]]:
    """Count the blank lines at the end of the file, and detect whether a row is a line or a CSV record.

    LOOKED_AT blank lines or more count as none: then they are rows. Records are chosen where some record has several
    lines. Returns the reading with both, and questions to the user.

    is_given : true if the user has chosen the unit of a row. Records are then replaced by lines only where the quotes
    do not show which lines belong to a record.
    """
    lines = lines_of(data, end_in_returns=reading.rows == "returns")  # such lines cannot be records
    lines_below = 0
    while lines_below < min(LOOKED_AT, len(lines)) and not lines.text(-1 - lines_below).strip():
        lines_below += 1
    reading = reading.replaced(below=lines_below if lines_below < LOOKED_AT else 0)
    if reading.rows == "returns" or (is_given and reading.rows == "lines"):
        split_header(data, reading)  # raises UserError for a file that cannot be read so
        return reading, []
    # Either the user has chosen records, or the unit of a row is to be detected.
    by_line, by_record = reading.replaced(rows="lines"), reading.replaced(rows="records")
    _, lines_as_rows = split_header(data, by_line)
    try:
        _, records_as_rows = split_header(data, by_record)
    except UserError:  # a quote is not closed: then a row is a line
        is_by_record = False
    else:
        is_by_record = is_given or len(records_as_rows) < len(lines_as_rows)
    if is_by_record:
        return by_record, []
    if has_unclosed_quote(lines, reading.separator):
        return by_line, ['A " is opened in some line and not closed: every line is read as a row.']
    return by_line, []


def _detect_separator(texts: Sequence[str]) -> tuple[str, str]:
    """Return the separator that cuts most of the first rows, given as texts, and cuts them most evenly.

    With it comes a question to the user, if it is a comma that a single row may have put before another mark; else "".

    Of equals, the comma comes last, since it may be a decimal mark; of the rest, the one that makes more columns wins.
    """
    scores: dict[str, tuple[int, int, bool, int]] = {}
    for separator in SEPARATORS:
        tidy_texts = (text.replace("\r", " ") + "\n" for text in texts)
        try:
            table = [*islice(csv.reader(tidy_texts, delimiter=separator, skipinitialspace=True), _SEPARATOR_ROWS)]
        except csv.Error:  # a cell in quotes is too long: this separator cuts no row
            table = []
        widths = [len(row) for row in table if row]
        cut_widths = [width for width in widths if width > 1]
        even_rows = max(map(cut_widths.count, cut_widths), default=0)  # rows of the most frequent width
        first_width = widths[0] if widths else 0
        scores[separator] = (len(cut_widths), even_rows, separator != ",", first_width)
    best = max(scores, key=scores.__getitem__)
    least_cut = max(scores[best][0] - 1, 3)  # all rows but one, so that one row decides; fewer than 3 may be chance
    is_near_tie = best == "," and any(
        even_rows >= least_cut and first_width > 1
        for separator, (_, even_rows, _, first_width) in scores.items()
        if separator != ","
    )
    return best, "Is the comma the separator? Another mark cuts nearly all rows, too." if is_near_tie else ""


def _first_rows(rows: TextRows, separator: str) -> list[list[str]]:
    """Cut the first rows into cells: LOOKED_AT rows, or fewer where they have more than _MAX_CELLS cells."""
    table, cell_count = [], 0
    for row in range(min(len(rows), LOOKED_AT)):
        if cell_count > _MAX_CELLS:
            break
        table.append(cells_of(rows.text(row), separator))
        cell_count += len(table[-1])
    return table


def _detect_marks(data: bytes, reading: Reading) -> tuple[Reading, list[str]]:
    """Detect the decimal mark, the header, and the texts for missing values.

    Returns the reading with them, and questions to the user about those that are not sure.
    """
    _, all_rows = split_header(data, reading.replaced(header=False))
    rows = [row for row in _first_rows(all_rows, reading.separator) if any(row)]
    first_row = [cell.strip() for cell in rows[0]] if rows else []
    columns = [[row[index].strip() for row in rows[1:] if index < len(row)] for index in range(len(first_row))]
    decimal, question = _detect_decimal([cell for column in columns for cell in column], reading.separator)
    questions = [question] if question else []
    numeric = [index for index, column in enumerate(columns) if _is_numeric(column, decimal)]
    header, is_sure = _detect_header(first_row, columns, numeric, decimal)
    if not is_sure:
        questions.append("Does the first row name the columns, or is it data?")
    dashes = []
    for mark in _DASHES:
        rows_with_mark = {row for index in numeric for row, cell in enumerate(columns[index]) if cell == mark}
        if len(rows_with_mark) > 1:  # the reading is exported: the mark of a single row must not be a part of it
            dashes.append(mark)
    return reading.replaced(decimal=decimal, header=header, missing=(*MISSING, *dashes)), questions


def _preview(cell: str, reading: Reading) -> str:
    """Return a cell as it would be read, for the user to look at."""
    if not cell or cell in reading.missing:
        return "missing"
    # A column of texts may hold numbers, too, and other texts stay as they are.
    return plain_number(cell[:_PREVIEW_LENGTH], reading.decimal)


def _detect_decimal(cells: Sequence[str], separator: str) -> tuple[Literal[".", ","], str]:
    """Return the decimal mark of most numbers, and a question to the user, "" if the mark is sure.

    A number that can be read in one way only, such as 1,5, votes for its mark; 1,234 could be read in two ways.
    """
    votes = {".": 0, ",": 0}
    ambiguous = []
    for cell in cells:
        if "," not in cell and "." not in cell:
            continue
        by_mark = {mark: plain_number(cell, decimal=mark) for mark in votes}  # for 1,5 "1.5" by both
        number = as_number(by_mark["."])
        if number != number:  # NaN: the cell is no number
            continue
        if by_mark["."] != by_mark[","]:
            ambiguous.append(cell)
        else:
            votes["," if PATTERNS[","].fullmatch(cell) else "."] += 1
    decimal: Literal[".", ","] = "," if votes[","] > max(votes["."], 1) else "."  # a single row decides nothing
    # A point alone is doubtful only in files of which semicolons suggest decimal commas.
    doubtful = [cell for cell in ambiguous if "," in cell or separator == ";"]
    if max(votes.values()) < 2 and doubtful:  # no mark has the votes of two rows
        return decimal, "Is the comma or the point the decimal mark? All numbers but one could be read in two ways."
    return decimal, ""


def _is_numeric(cells: Sequence[str], decimal: str, missing: Sequence[str] = (*MISSING, *_DASHES)) -> bool:
    """Return true if more than half of the cells that are not missing are numbers."""
    present_cells = [cell for cell in cells if cell and cell not in missing]
    return 2 * sum(_is_number(cell, decimal) for cell in present_cells) > len(present_cells)


def is_id(name: str) -> bool:
    """Return true for the name of a column of identifiers, such as "ID" or "uuid"."""
    return name.strip(" _.#").casefold() in ("id", "uuid", "guid")


def _are_distinct(cells: Sequence[str], missing: Sequence[str], kind: Kind) -> bool:
    """Return true for a column whose cells, or all but one, differ, so that it may only identify rows.

    Texts count, and numbers if all are whole: others differ by nature.
    """
    present_cells = [cell for cell in cells if cell and cell not in missing]
    are_labels = kind == "text" or all(cell.removeprefix("-").isdigit() for cell in present_cells)
    return len(present_cells) >= MIN_ROWS and len(set(present_cells)) >= len(present_cells) - 1 and are_labels


def _is_number(cell: str, decimal: str) -> bool:
    value = as_number(plain_number(cell, decimal))
    return value == value  # not NaN


def _detect_header(
    first: Sequence[str], columns: Sequence[Sequence[str]], numeric: Sequence[int], decimal: str
) -> tuple[bool, bool]:
    """Return true if the first row is a header, and true if that answer is sure.

    Each cell of the first row votes: it is either like the data below it, or a name. It is like the data if it is a
    number above numbers, or a class that occurs at least twice below. Any other cell above many different texts has no
    vote.

    first : the cells of the first row. columns : the cells below each of them. numeric : indices of the columns of
    numbers.
    """
    votes_for_name = votes_for_data = 0
    for index, (cell, column) in enumerate(zip(first, columns, strict=True)):
        if not cell or cell in MISSING:
            continue
        if index in numeric:
            is_like_data = _is_number(cell, decimal)
        elif 10 * len(set(column)) <= len(column) or column.count(cell) > 1:  # few classes, or this cell again
            is_like_data = column.count(cell) > 1  # more than once, since one row may repeat the header
        else:
            continue
        if is_like_data:
            votes_for_data += 1
        else:
            votes_for_name += 1
    numeric_cells = [first[index] for index in numeric]
    counted_from_0 = [str(index) for index in numeric]
    counted_from_1 = [str(index + 1) for index in numeric]
    # The numbers 0, 1, 2, … are more often names of columns than a row.
    if len(numeric_cells) > 1 and numeric_cells in (counted_from_0, counted_from_1):
        return True, False
    # A rule of thumb: a name weighs four cells like data, since nearly all files have a header.
    is_header = not votes_for_data or 4 * votes_for_name >= votes_for_data
    is_unanimous = not votes_for_data or not votes_for_name
    return is_header, is_unanimous
