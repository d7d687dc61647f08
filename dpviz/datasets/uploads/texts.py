"""A text file as a table, by a declared reading alone: no cell, and no row, decides about another one."""

from collections import Counter

import numpy as np

from dpviz.datasets.uploads.arrow import Column, as_texts, only
from dpviz.datasets.uploads.limits import checked_names, shown, too_many_rows, unreadable
from dpviz.datasets.uploads.lines import (
    MAX_LINE_BYTES,
    Rows,
    cells_of,
    columns_of,
    header_lines,
    is_no_row,
    lines_of,
    records,
)
from dpviz.datasets.uploads.parsing import numbers_in
from dpviz.datasets.uploads.reading import Reading, read_cells
from dpviz.errors import UserError
from dpviz.later import pyarrow

LOOKED_AT = 1000  # rows
_CHUNK_CELLS = 2_000_000
_NO_KINDS = "Say of every column what it holds"


def layout(data: bytes, reading: Reading) -> tuple[list[str], Rows]:
    """The cells of the header, none of a file without one, and the rows below. Raises UserError for a header that is no
    text, and where it is not clear where rows end."""
    lines = lines_of(data, reading.rows == "returns")
    ends_itself = lines.offsets[-2] == lines.offsets[-1]  # the last line is empty
    below = int(ends_itself) if reading.below is None else reading.below
    lines = lines[reading.above : max(len(lines) - below, 0)]
    header: list[str] = []
    if reading.header:
        lines = lines[sum(1 for _ in blank_lines(lines)) :]
        if len(lines):
            count = 1 if reading.rows != "records" else header_lines(lines, reading.separator)
            header, lines = _header(Rows(lines.data, lines.offsets[[0, count]]), reading.separator), lines[count:]
    return header, records(lines, reading.separator) if reading.rows == "records" else lines


def blank_lines(lines: Rows) -> list[str]:
    """The first lines that are no rows where a header follows."""
    blank = []
    for row in range(min(len(lines), LOOKED_AT)):
        if not is_no_row(line := lines.text(row)):
            break
        blank.append(line)
    return blank


def _header(line: Rows, separator: str) -> list[str]:
    if line.offsets[1] - line.offsets[0] > MAX_LINE_BYTES:
        raise unreadable(f"A line of it is longer than {MAX_LINE_BYTES:,} bytes.")
    text = line.text(0)
    if any(character == "\ufffd" or (character < " " and character not in "\t\r\n") for character in text):
        raise unreadable()
    return cells_of(text, separator)


def usual_width(rows: Rows, separator: str) -> int:
    """How many cells most of the first rows have."""
    first = rows[:LOOKED_AT]
    widths = Counter(len(cells_of(first.text(row), separator)) for row in range(len(first)))
    return max(widths, key=lambda width: (widths[width], width), default=0)


def read_text(
    data: bytes, reading: Reading, max_rows: int | None, min_columns: int, max_columns: int
) -> "pyarrow.Table":
    """The table that a text is by its reading: a column of numbers, of texts, or of both for each name.

    max_rows : a longer one is refused. Raises UserError for whatever cannot be read.
    """
    header, rows = layout(data, reading)
    if not reading.header:
        if not reading.kinds:
            raise UserError("Without a header, nothing else says how many there are.", title=_NO_KINDS)
        header = [""] * len(reading.kinds)
    names = checked_names(header, min_columns, max_columns)
    kinds = reading.kinds or ("text",) * len(names)
    if len(kinds) != len(names):
        raise UserError(
            f"It has {len(names)} columns, and how it is read was declared for {len(kinds)}.",
            title="This is another table",
        )
    if sum(kind != "unused" for kind in kinds) < min_columns:
        raise UserError(
            "Say of more columns what they hold: two at least are needed, such as a feature and a target.",
            title="Too few columns are used",
        )
    if reading.below is None and not data.endswith(b"\r" if reading.rows == "returns" else b"\n"):
        raise UserError(
            "So nothing tells a last row that is blank from none. Add a line break at its end, or declare that its "
            "last line is a row, by `reading=dpviz.datasets.Reading(below=0)` of `dpviz.read_table`.",
            title="This file does not end in a line break",
        )
    if max_rows is not None and len(rows) > max_rows:
        raise too_many_rows(max_rows)
    return _interpreted(rows, names, kinds, reading)


def _interpreted(rows: Rows, names: list[str], kinds: tuple[str, ...], reading: Reading) -> "pyarrow.Table":
    used = [place for place, kind in enumerate(kinds) if kind != "unused"]
    numbers = {place: [np.empty(0)] for place in used}
    texts = {place: Column(as_texts(pyarrow.array([], pyarrow.large_string()))) for place in used}
    wide = 0
    for block in rows.blocks(max(1, _CHUNK_CELLS // len(names))):
        columns, surplus = columns_of(block, reading.separator, len(names))
        wide += surplus
        for place in used:
            values, written = read_cells(columns[place], reading)
            if kinds[place] == "number":
                written = only(written, ~np.isnan(numbers_in(written.dictionary)))
            numbers[place].append(values)
            texts[place].add(written)
    if wide and wide == len(rows) and not reading.kinds:  # where they are declared, no row refuses the file
        raise _another_header(names)
    columns = []
    for place in used:
        values, written = np.concatenate(numbers.pop(place)), texts.pop(place).whole()
        if not len(written.dictionary) or not np.isnan(values).all():
            columns.append((names[place], pyarrow.array(values)))
        if len(written.dictionary):
            columns.append((names[place], written))
    return pyarrow.Table.from_arrays([column for _, column in columns], names=[name for name, _ in columns])


def _another_header(names: list[str]) -> UserError:
    return UserError(
        f"Every row has more cells than the header, which has {len(names)} and begins with {shown(names[0])}. Give "
        "every column a name. Where numbers have decimal commas, put them in quotes or separate the cells by "
        "semicolons.",
        title="The header does not fit the rows",
    )
