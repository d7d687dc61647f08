"""A text file as a table, by a declared reading alone: no cell, and no row, decides about another one."""

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpviz.datasets.uploads.arrow import ColumnBuilder, as_texts, select_texts
from dpviz.datasets.uploads.limits import checked_names, quote_name, too_many_rows, unreadable
from dpviz.datasets.uploads.parsing import text_numbers
from dpviz.datasets.uploads.reading import Reading, read_cells
from dpviz.errors import UserError
from dpviz.later import pyarrow

# ------------------------------------------------------------------------------ rows, separated before any cell is read
# A row is a line, where a quote that is not closed ends with the line; or, where that is declared, a CSV record, whose
# cells in quotes may hold line breaks. The content of one row must change neither the number of rows nor the place
# where another row begins or ends: else one person's row would decide about others. A file of records for which that is
# not sure is refused.

MAX_LINE_BYTES = 1_000_000  # a longer row counts as one without any cell
_BLOCK_BYTES = 16_000_000  # of rows that are cut into cells at a time
_HEADER_LINES = 20  # at most, of a header whose cells hold line breaks
_BLOCK = 1 << 18  # bytes that are decoded at a time
_PART = 2000  # rows that are Python objects at a time


@dataclass(frozen=True, eq=False)
class TextRows:
    """Consecutive rows of a text, which stays as it is: only their limits are stored.

    data : the text in UTF-8.
    offsets : (rows + 1,) int64, the byte at which each row begins, and the byte after the last row.
    """

    data: bytes
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, part: slice) -> "TextRows":
        first, last, _ = part.indices(len(self))
        return TextRows(self.data, self.offsets[first : max(first, last) + 1])

    def texts(self) -> "pyarrow.Array":
        """Return the rows as an array of texts, with the line breaks that end them; nothing is copied."""
        offsets = pyarrow.py_buffer(np.ascontiguousarray(self.offsets))
        return pyarrow.LargeStringArray.from_buffers(len(self), offsets, pyarrow.py_buffer(self.data))

    def text(self, row: int) -> str:
        """Return one row without the line break that ends it; negative `row` counts from the end."""
        row %= len(self)
        return self.data[self.offsets[row] : self.offsets[row + 1]].decode().strip("\r\n")

    def blocks(self, rows: int) -> Iterator["TextRows"]:
        """Yield all rows in blocks of `rows` rows; where rows are long, of fewer, with _BLOCK_BYTES bytes at most."""
        start = 0
        while start < len(self):
            # The last row limit that is at most _BLOCK_BYTES away.
            stop_by_bytes = int(np.searchsorted(self.offsets, self.offsets[start] + _BLOCK_BYTES, side="right")) - 1
            stop = min(max(start + 1, stop_by_bytes), start + rows, len(self))
            yield self[start:stop]
            start = stop


def lines_of(data: bytes, end_in_returns: bool = False) -> TextRows:
    """Return the lines of a text, the last one empty if the text ends in a line break.

    Bytes that are no UTF-8 become "�".

    end_in_returns : true if lines end in carriage returns, as on old Macs; a line feed then becomes a blank.
    """
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        TextRows(data, np.array([0, len(data)], dtype=np.int64)).texts().validate(full=True)
    except pyarrow.ArrowInvalid:  # some bytes are no UTF-8
        # Decode piece by piece: as one `str` the text would take up to four times the memory.
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        pieces = (data[start : start + _BLOCK] for start in range(0, len(data), _BLOCK))
        decoded_pieces = [decoder.decode(piece).encode() for piece in pieces]
        data = b"".join([*decoded_pieces, decoder.decode(b"", final=True).encode()])
    if end_in_returns:
        data = data.replace(b"\n", b" ").replace(b"\r", b"\n")
    is_break = np.frombuffer(data, dtype=np.uint8) == ord("\n")
    offsets = np.zeros(int(is_break.sum()) + 2, dtype=np.int64)
    offsets[1:-1] = np.flatnonzero(is_break)
    offsets[1:-1] += 1  # a line begins behind a break
    offsets[-1] = len(data)
    return TextRows(data, offsets)


def named_separator(line: str) -> str | None:
    """Return the separator that a line like "sep=;" names, None for any other line."""
    match = re.fullmatch(r'"?sep=(.)"?', line, re.IGNORECASE)
    return match[1] if match else None


# --------------------------------------------------------------------------------------------------------------- quotes


def _strict_pattern(separator: str) -> str:
    """Return a pattern for rows whose quotes are unambiguous.

    Every cell is either free of quotes, or in quotes, with each quote inside it doubled.
    """
    cell = rf'(?: *"(?:[^"]|"")*" *|[^"{separator}\r\n]*)'
    return rf"^{cell}(?:[{separator}]{cell})*[\r\n]*$"


def _closed_pattern(separator: str) -> str:
    """Return a pattern for rows at whose end no quote is open.

    As for the module `csv`, a quote inside a cell that does not begin with one is an ordinary character.
    """
    cell = rf'(?: *"(?:[^"]|"")*"(?:[^"{separator}][^{separator}]*)?| *[^" {separator}][^{separator}]*| *)'
    return rf"^{cell}(?:[{separator}]{cell})*[\r\n]*$"


def _all_match(rows: TextRows, indices: np.ndarray, pattern: str) -> bool:
    """Return true if all rows at `indices` match a pattern, or if there are none."""
    matches = pyarrow.compute.match_substring_regex(rows.texts().take(pyarrow.array(indices)), pattern)
    return bool(pyarrow.compute.all(matches, min_count=0).as_py())


def records(lines: TextRows, separator: str) -> TextRows:
    """Merge lines to CSV records. Raises UserError where it is not clear which quotes belong together.

    A line break belongs to a cell if the number of quotes before it is odd. Each record has an even number of quotes,
    so that the number of quotes before a record is even, too. This keeps rows independent: if one record is replaced by
    a text with an odd number of quotes, the file has an odd number and is refused; if by a text with an even number,
    all other records begin and end at the same characters.
    """
    quotes = np.flatnonzero(np.frombuffer(lines.data, dtype=np.uint8) == ord('"'))
    quote_counts = np.searchsorted(quotes, lines.offsets)  # quotes before each line, and before the end
    quote_counts -= quote_counts[0]  # those above the first of these lines, as in a header
    quote_counts &= 1  # 1 for an odd number; in place, as there may be millions
    is_inside = quote_counts.astype(bool)  # true for lines that begin inside a cell in quotes; the last is for the end
    if not is_inside.any():
        return lines
    first_lines = np.flatnonzero(~is_inside)  # the index of each record's first line, and of the end
    merged_rows = TextRows(lines.data, lines.offsets[first_lines])
    # Records of several lines. However the quotes of any other are read, it begins and ends with its line.
    multiline = np.flatnonzero(np.diff(first_lines) > 1)
    is_open_at_end = is_inside[-1]
    if is_open_at_end or not _all_match(merged_rows, multiline, _strict_pattern(separator)):
        raise _not_closed()
    return merged_rows


def _not_closed() -> UserError:
    """Return the error for a text with a quote that is opened and not closed."""
    return unreadable(
        'A " is opened that is not closed, so that it is not clear where rows end. Say that every line is a row, or '
        'write "" for a quote inside of a cell in quotes.'
    )


def count_header_lines(lines: TextRows, separator: str) -> int:
    """Count the lines of the header, which is the first row: several where its cells in quotes hold line breaks.

    Raises UserError if the header opens a quote that is not closed, so that no row below can become a part of it.
    """
    for count in range(1, min(_HEADER_LINES, len(lines)) + 1):
        header = TextRows(lines.data, lines.offsets[[0, count]])
        if _all_match(header, np.array([0]), _strict_pattern(separator)):
            return count
    if len(lines) and has_unclosed_quote(lines[:1], separator):
        raise _not_closed()
    return 1


def has_unclosed_quote(lines: TextRows, separator: str) -> bool:
    """Return true if there is a line at whose end a quote is open."""
    with_quotes = np.flatnonzero(pyarrow.compute.match_substring(lines.texts(), '"').to_numpy(zero_copy_only=False))
    return not _all_match(lines, with_quotes, _closed_pattern(separator))


# ---------------------------------------------------------------------------------------------------------------- cells


def cells_of(text: str, separator: str) -> list[str]:
    """Cut one row into cells; a quote that is open ends with the row. A row that `csv` cannot read has no cells."""
    tidy_text = text.strip("\r\n").replace("\r\n", "\n").replace("\r", " ")
    try:
        return next(csv.reader([tidy_text], delimiter=separator, skipinitialspace=True), [])
    except csv.Error:  # a cell in quotes of more than 131,072 characters
        return []


def fits(cells: list[str], width: int) -> bool:
    """Return true if a row has at most `width` cells, apart from blank cells at its end."""
    return not any(cell.strip() for cell in cells[width:])


def columns_of(rows: TextRows, separator: str, width: int) -> "tuple[list[pyarrow.Array], int]":
    """Cut rows into cells; return them by column, as texts, and the number of rows with more than `width` cells.

    A row with fewer cells gets empty ones in the last columns. A row with more gets only empty cells, since it is not
    known which cell belongs to which column. Arrow cuts the plain rows, without quotes and with `width` cells, in bulk;
    `csv` reads the others.
    """
    texts, compute = rows.texts(), pyarrow.compute
    has_quotes = compute.match_substring(texts, '"').to_numpy(zero_copy_only=False)
    separators = compute.count_substring(texts, separator).to_numpy(zero_copy_only=False)
    is_plain = ~has_quotes & (separators == width - 1) & (np.diff(rows.offsets) <= MAX_LINE_BYTES)
    plain_cells = compute.split_pattern(texts.filter(pyarrow.array(is_plain)), separator).flatten()  # row after row
    # For each row its index among the plain ones, null if it is none.
    plain_indices = pyarrow.array(np.cumsum(is_plain) - 1, mask=~is_plain)
    other_columns, wide_count = _read_by_column(rows, np.flatnonzero(~is_plain), separator, width)
    columns = []
    for column, other_cells in enumerate(other_columns):
        cells = plain_cells.take(pyarrow.array(np.arange(column, len(plain_cells), width)))
        # Each plain row takes its cell; each other row, where `take` gives null, takes the next of `other_cells`.
        columns.append(compute.replace_with_mask(cells.take(plain_indices), pyarrow.array(~is_plain), other_cells))
    return columns, wide_count


def _read_by_column(
    rows: TextRows, indices: np.ndarray, separator: str, width: int
) -> "tuple[list[pyarrow.Array], int]":
    """Read the rows at `indices` with `csv`; return cells by column and the number of wide rows, as `columns_of`."""
    # For each column its arrays of cells; an empty array comes first, so that there is one to join without any row.
    arrays_of_columns: list[list[pyarrow.Array]] = [[pyarrow.array([], pyarrow.large_string())] for _ in range(width)]
    wide_count, empty_row = 0, [""] * width
    for start in range(0, len(indices), _PART):
        table = []
        for cells in _read_rows(rows, indices[start : start + _PART], separator):
            if len(cells) != width:
                is_wide = not fits(cells, width)
                wide_count += is_wide
                cells = empty_row if is_wide else (cells + empty_row)[:width]  # filled up with empty cells
            table.append(cells)
        columns = zip(*table, strict=True)
        for arrays, column in zip(arrays_of_columns, columns, strict=True):
            arrays.append(pyarrow.array(column, pyarrow.large_string()))
    return [pyarrow.concat_arrays(arrays) for arrays in arrays_of_columns], wide_count


def _read_rows(rows: TextRows, indices: np.ndarray, separator: str) -> list[list[str]]:
    """Read the cells of the rows at `indices`.

    They are read together, which is fast, unless a row is long, has a quote that is not closed, or a carriage return:
    `csv` could then mix it with the next row, so that each is read alone.
    """
    lengths, compute = rows.offsets[indices + 1] - rows.offsets[indices], pyarrow.compute
    if lengths.max() < csv.field_size_limit():
        texts = compute.utf8_rtrim(rows.texts().take(pyarrow.array(indices)), "\r\n")
        is_open_row = compute.invert(compute.match_substring_regex(texts, _closed_pattern(separator)))
        has_return = compute.match_substring(texts, "\r")
        if not compute.any(compute.or_(has_return, is_open_row)).as_py():
            return [*csv.reader(texts.to_pylist(), delimiter=separator, skipinitialspace=True)]
    return [
        [] if length > MAX_LINE_BYTES else cells_of(rows.text(row), separator)
        for row, length in zip(indices.tolist(), lengths.tolist(), strict=True)
    ]


# ------------------------------------------------------------------------------------------------------------ the table

LOOKED_AT = 1000  # first rows that are looked at to detect a reading
_CHUNK_CELLS = 2_000_000  # that are read at a time
_NO_KINDS = "Say of every column what it holds"


def split_header(data: bytes, reading: Reading) -> tuple[list[str], TextRows]:
    """Return the cells of the header, an empty list if the reading declares none, and the rows below it.

    Raises UserError for a header that is too long or no text, and where it is not clear where rows end.
    """
    lines = lines_of(data, end_in_returns=reading.rows == "returns")
    is_last_empty = lines.offsets[-2] == lines.offsets[-1]
    lines_below = int(is_last_empty) if reading.below is None else reading.below  # lines at the end that are no rows
    lines = lines[reading.above : max(len(lines) - lines_below, 0)]
    header: list[str] = []
    if reading.header:
        lines = lines[len(blank_lines(lines)) :]
        if len(lines):
            count = 1 if reading.rows != "records" else count_header_lines(lines, reading.separator)
            first_row = TextRows(lines.data, lines.offsets[[0, count]])
            if first_row.offsets[1] - first_row.offsets[0] > MAX_LINE_BYTES:
                raise unreadable(f"A line of it is longer than {MAX_LINE_BYTES:,} bytes.")
            text = first_row.text(0)
            if any(character == "\ufffd" or (character < " " and character not in "\t\r\n") for character in text):
                raise unreadable()
            header = cells_of(text, reading.separator)
            lines = lines[count:]
    if reading.rows == "records":
        return header, records(lines, reading.separator)
    return header, lines


def blank_lines(lines: TextRows) -> list[str]:
    """Return the lines at the top that are blank or name the separator ("sep=;"): above a header they are no rows."""
    blank = []
    for row in range(min(len(lines), LOOKED_AT)):
        line = lines.text(row)
        if line.strip() and named_separator(line) is None:
            break
        blank.append(line)
    return blank


def usual_width(rows: TextRows, separator: str) -> int:
    """Return the most frequent number of cells of the first rows, the largest of several; 0 without rows."""
    widths = Counter(len(cells_of(rows.text(row), separator)) for row in range(min(len(rows), LOOKED_AT)))
    return max(widths, key=lambda width: (widths[width], width), default=0)


def read_text(
    data: bytes, reading: Reading, max_rows: int | None, min_columns: int, max_columns: int
) -> "pyarrow.Table":
    """Read a text file into a table, by a declared reading alone.

    Each used column of the file becomes a column of numbers, one of texts, or both, under the same name.

    max_rows : a longer table is refused, unless it is None. min_columns, max_columns : a table with fewer used columns
        or more columns is refused. Raises UserError for a text that is refused or cannot be read.
    """
    header, rows = split_header(data, reading)
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
    # Without a last break, a blank last row would be left out, as the empty line behind a last break is.
    if reading.below is None and not data.endswith(b"\r" if reading.rows == "returns" else b"\n"):
        raise UserError(
            "So nothing tells a last row that is blank from none. Add a line break at its end, or declare that its "
            "last line is a row, by `reading=dpviz.Reading(below=0)` of `dpviz.read_table`.",
            title="This file does not end in a line break",
        )
    if max_rows is not None and len(rows) > max_rows:
        raise too_many_rows(max_rows)
    return _read_table(rows, names, kinds, reading)


def _read_table(rows: TextRows, names: list[str], kinds: tuple[str, ...], reading: Reading) -> "pyarrow.Table":
    """Read the cells of all rows, block by block; `names` and `kinds` are those of the file's columns."""
    used_columns = [index for index, kind in enumerate(kinds) if kind != "unused"]
    # By the index of a used column: the numbers of its cells, block by block, and its texts.
    numbers = {index: [np.empty(0)] for index in used_columns}
    texts = {index: ColumnBuilder(as_texts(pyarrow.array([], pyarrow.large_string()))) for index in used_columns}
    wide = 0
    for block in rows.blocks(max(1, _CHUNK_CELLS // len(names))):
        columns, wide_in_block = columns_of(block, reading.separator, len(names))
        wide += wide_in_block
        for index in used_columns:
            values, cell_texts = read_cells(columns[index], reading)
            if kinds[index] == "number":  # of its texts only whole numbers with too many digits for a float stay
                cell_texts = select_texts(cell_texts, ~np.isnan(text_numbers(cell_texts.dictionary)))
            numbers[index].append(values)
            texts[index].add(cell_texts)
    if wide and wide == len(rows) and not reading.kinds:  # with declared kinds, no content of rows refuses the file
        raise UserError(
            f"Every row has more cells than the header, which has {len(names)} and begins with {quote_name(names[0])}. "
            "Give every column a name. Where numbers have decimal commas, put them in quotes or separate the cells by "
            "semicolons.",
            title="The header does not fit the rows",
        )
    columns = []
    for index in used_columns:
        values, column_texts = np.concatenate(numbers.pop(index)), texts.pop(index).whole()  # `pop` frees memory
        has_texts = len(column_texts.dictionary) > 0
        if not has_texts or not np.isnan(values).all():  # a column in which all is missing is one of numbers
            columns.append((names[index], pyarrow.array(values)))
        if has_texts:
            columns.append((names[index], column_texts))
    return pyarrow.Table.from_arrays([column for _, column in columns], names=[name for name, _ in columns])
