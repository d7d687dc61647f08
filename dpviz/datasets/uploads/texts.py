"""A text file as a table, by a declared reading alone: no cell, and no row, decides about another one."""

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpviz.datasets.uploads.arrow import Column, as_texts, only
from dpviz.datasets.uploads.limits import checked_names, shown, too_many_rows, unreadable
from dpviz.datasets.uploads.parsing import numbers_in
from dpviz.datasets.uploads.reading import Reading, read_cells
from dpviz.errors import UserError
from dpviz.later import pyarrow

# ---------------------------------------------------------------------------------- rows, found before any cell is read
# A row is a line, and a quote that is not closed ends with it; or, where that is declared, a CSV record, whose cells in
# quotes may hold line breaks. Whatever is in one row, there are as many rows as there were, and the others begin and
# end where they did; or a file of records is refused.

MAX_LINE_BYTES = 1_000_000  # a longer row is one without any cell
_BLOCK_BYTES = 16_000_000
_HEADER_LINES = 20
_BLOCK = 1 << 18  # bytes
_PART = 2000  # rows


@dataclass(frozen=True, eq=False)
class Rows:
    """Pieces of a text that follow one another.

    data : the text in UTF-8. offsets : (rows + 1,) where each begins, and the last one ends.
    """

    data: bytes
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, part: slice) -> "Rows":
        first, last, _ = part.indices(len(self))
        return Rows(self.data, self.offsets[first : max(first, last) + 1])

    def texts(self) -> "pyarrow.Array":
        """The rows as an array of texts, with the line breaks that end them; nothing is copied."""
        offsets = pyarrow.py_buffer(np.ascontiguousarray(self.offsets))
        return pyarrow.LargeStringArray.from_buffers(len(self), offsets, pyarrow.py_buffer(self.data))

    def text(self, row: int) -> str:
        """One row without the line break that ends it; of negative places, from the last one."""
        row %= len(self)
        return self.data[self.offsets[row] : self.offsets[row + 1]].decode().strip("\r\n")

    def blocks(self, rows: int) -> Iterator["Rows"]:
        """All rows in blocks of so many, fewer where they are long."""
        start = 0
        while start < len(self):
            far = int(np.searchsorted(self.offsets, self.offsets[start] + _BLOCK_BYTES, side="right")) - 1
            stop = min(max(start + 1, far), start + rows, len(self))
            yield self[start:stop]
            start = stop


def lines_of(data: bytes, returns: bool = False) -> Rows:
    """The lines of a text, the last one empty if a line break ends the one before. Bytes that are no UTF-8 become "�".

    returns : lines end in carriage returns, as on old Macs; a line feed is a blank then.
    """
    data = _as_utf8(data.removeprefix(codecs.BOM_UTF8))
    if returns:
        data = data.replace(b"\n", b" ").replace(b"\r", b"\n")
    breaks = np.frombuffer(data, dtype=np.uint8) == ord("\n")
    offsets = np.zeros(int(breaks.sum()) + 2, dtype=np.int64)
    offsets[1:-1] = np.flatnonzero(breaks)
    offsets[1:-1] += 1
    offsets[-1] = len(data)
    return Rows(data, offsets)


def _as_utf8(data: bytes) -> bytes:
    text = Rows(data, np.array([0, len(data)], dtype=np.int64))
    try:
        text.texts().validate(full=True)
    except pyarrow.ArrowInvalid:
        # Piece by piece: as one `str` it would take up to four times the memory.
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        pieces = (data[start : start + _BLOCK] for start in range(0, len(data), _BLOCK))
        return b"".join([*(decoder.decode(piece).encode() for piece in pieces), decoder.decode(b"", True).encode()])
    return data


def is_no_row(line: str) -> bool:
    """Whether a line above a header is none: it is blank, or names the separator."""
    return not line.strip() or named_separator(line) is not None


def named_separator(line: str) -> str | None:
    """The separator that a line like "sep=;" names."""
    match = re.fullmatch(r'"?sep=(.)"?', line, re.IGNORECASE)
    return match[1] if match else None


# --------------------------------------------------------------------------------------------------------------- quotes


def _strict(separator: str) -> str:
    """A pattern: every cell is free of quotes, or in quotes of which those inside are doubled."""
    cell = rf'(?: *"(?:[^"]|"")*" *|[^"{separator}\r\n]*)'
    return rf"^{cell}(?:[{separator}]{cell})*[\r\n]*$"


def _closed(separator: str) -> str:
    """A pattern: no quote is open at the end. As `csv` reads: within a cell that does not begin with it, a quote is a
    character like others."""
    cell = rf'(?: *"(?:[^"]|"")*"(?:[^"{separator}][^{separator}]*)?| *[^" {separator}][^{separator}]*| *)'
    return rf"^{cell}(?:[{separator}]{cell})*[\r\n]*$"


def _matches(rows: Rows, which: np.ndarray, pattern: str) -> bool:
    """Whether all rows at these places do."""
    matching = _match(rows.texts().take(pyarrow.array(which)), pattern)
    return bool(pyarrow.compute.all(matching, min_count=0).as_py())


def _match(texts: "pyarrow.Array", pattern: str) -> "pyarrow.Array":
    return pyarrow.compute.match_substring_regex(texts, pattern)


def records(lines: Rows, separator: str) -> Rows:
    """The lines as CSV records. Raises UserError where it is not clear which quotes belong together.

    Each record has an even number of quotes, so that the number before a record is even, too. If one record is replaced
    by whatever has an odd number, so has the file, which is refused; if by an even number, all others begin and end
    where they did.
    """
    quotes = np.flatnonzero(np.frombuffer(lines.data, dtype=np.uint8) == ord('"'))
    before = np.searchsorted(quotes, lines.offsets)
    before -= before[0]
    before &= 1  # in place: there may be millions
    inside = before.astype(bool)
    if not inside.any():
        return lines
    merged = Rows(lines.data, lines.offsets[~inside])
    several = np.flatnonzero(np.diff(np.flatnonzero(~inside)) > 1)
    if inside[-1] or not _matches(merged, several, _strict(separator)):
        raise _not_closed()
    return merged


def _not_closed() -> UserError:
    return unreadable(
        'A " is opened that is not closed, so that it is not clear where rows end. Say that every line is a row, or '
        'write "" for a quote inside of a cell in quotes.'
    )


def header_lines(lines: Rows, separator: str) -> int:
    """How many lines the header takes, which is the first row: several where its cells in quotes hold line breaks.

    Raises UserError if it opens a quote that is closed nowhere, so that no row below can become a part of it.
    """
    for count in range(1, min(_HEADER_LINES, len(lines)) + 1):
        header = Rows(lines.data, lines.offsets[[0, count]])
        if _matches(header, np.array([0]), _strict(separator)):
            return count
    if len(lines) and is_open(lines[:1], separator):
        raise _not_closed()
    return 1


def is_open(lines: Rows, separator: str) -> bool:
    """Whether a quote is open at the end of some line."""
    quoted = np.flatnonzero(pyarrow.compute.match_substring(lines.texts(), '"').to_numpy(zero_copy_only=False))
    return not _matches(lines, quoted, _closed(separator))


# ---------------------------------------------------------------------------------------------------------------- cells


def cells_of(text: str, separator: str) -> list[str]:
    """The cells of a row, which is a row by itself: an open quote ends with it. None where it is no text for `csv`."""
    tidy = text.strip("\r\n").replace("\r\n", "\n").replace("\r", " ")
    try:
        return next(csv.reader([tidy], delimiter=separator, skipinitialspace=True), [])
    except csv.Error:  # a cell in quotes of more than 131,072 characters
        return []


def fits(cells: list[str], width: int) -> bool:
    """Whether a row has no more cells than there are columns; surplus ones without anything in them do not count."""
    return not any(cell.strip() for cell in cells[width:])


def columns_of(rows: Rows, separator: str, width: int) -> "tuple[list[pyarrow.Array], int]":
    """The cells of rows by column, as texts, and how many rows have more cells than there are columns.

    A row with fewer has nothing in the last ones; one with more has nothing at all: nobody can tell which are where.
    """
    texts, compute = rows.texts(), pyarrow.compute
    quoted = compute.match_substring(texts, '"').to_numpy(zero_copy_only=False)
    marks = compute.count_substring(texts, separator).to_numpy(zero_copy_only=False)
    is_plain = ~quoted & (marks == width - 1) & (np.diff(rows.offsets) <= MAX_LINE_BYTES)
    cut = compute.split_pattern(texts.filter(pyarrow.array(is_plain)), separator).flatten()
    places = pyarrow.array(np.cumsum(is_plain) - 1, mask=~is_plain)
    others, wide = _by_column(rows, np.flatnonzero(~is_plain), separator, width)
    columns = []
    for column, cells in enumerate(others):
        plain = cut.take(pyarrow.array(np.arange(column, len(cut), width))).take(places)
        columns.append(compute.replace_with_mask(plain, pyarrow.array(~is_plain), cells))
    return columns, wide


def _by_column(rows: Rows, which: np.ndarray, separator: str, width: int) -> "tuple[list[pyarrow.Array], int]":
    """The cells of some rows, read one by one, by column; and how many of these rows have too many."""
    parts: list[list[pyarrow.Array]] = [[pyarrow.array([], pyarrow.large_string())] for _ in range(width)]
    wide, nothing = 0, [""] * width
    for start in range(0, len(which), _PART):  # few of them are Python objects at a time
        table = []
        for cells in _read(rows, which[start : start + _PART], separator):
            if len(cells) != width:
                surplus = not fits(cells, width)
                wide += surplus
                cells = nothing if surplus else (cells + nothing)[:width]
            table.append(cells)
        for part, column in zip(parts, zip(*table, strict=True), strict=True):
            part.append(pyarrow.array(column, pyarrow.large_string()))
    return [pyarrow.concat_arrays(part) for part in parts], wide


def _read(rows: Rows, which: np.ndarray, separator: str) -> list[list[str]]:
    """The cells of some rows; all at once, if none needs a closer look."""
    lengths, compute = rows.offsets[which + 1] - rows.offsets[which], pyarrow.compute
    if lengths.max() < csv.field_size_limit():
        texts = compute.utf8_rtrim(rows.texts().take(pyarrow.array(which)), "\r\n")
        odd = compute.or_(compute.match_substring(texts, "\r"), compute.invert(_match(texts, _closed(separator))))
        if not compute.any(odd).as_py():
            return [*csv.reader(texts.to_pylist(), delimiter=separator, skipinitialspace=True)]
    return [
        [] if length > MAX_LINE_BYTES else cells_of(rows.text(row), separator)
        for row, length in zip(which.tolist(), lengths.tolist(), strict=True)
    ]


# ------------------------------------------------------------------------------------------------------------ the table

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
