"""How a text file is read: its separator, its decimal mark, its header, and what stands where a value is missing.

`detected` looks at the first rows of the file and proposes a `Reading`; from then on it is a setting, shown beside the
file and part of what is declared, and every cell is read by it alone.
"""

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, ClassVar, Literal, TextIO

import numpy as np
import pyarrow
import pyarrow.compute
from pydantic import Field

from dpviz.datasets.arrow import as_texts, in_parts, looked_up
from dpviz.datasets.cells import as_number, class_label, regular
from dpviz.datasets.limits import MAX_COLUMNS
from dpviz.specification import Specification

SEPARATORS = (",", ";", "\t", "|")
MISSING = ("?", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null")
_DASHES = ("-", "--", ".", "..", "*")  # missing in a column of numbers, but perhaps a class in a column of texts
_LOOKED_AT = 1000  # rows
Mark = Annotated[str, Field(max_length=50)]


class Reading(Specification):
    """How the cells of a text file are cut out and read.

    decimal : the decimal mark where a number could be read in two ways: with "," as the decimal mark 1.234 is 1234, and
        1,234 is 1.234. Where there is one way only, as for 1.234,50 or 1,5, it is read in that way.
    header : whether the first row names the columns; without one they are called "Column 1", "Column 2", …
    missing : texts that stand for a missing value; empty cells always do.
    sample_rows, sample_seed : keep a uniformly random sample of so many rows, if there are more.
    """

    kind: ClassVar[str] = "datasets.reading.reading"
    separator: Literal[",", ";", "\t", "|"] = ","
    decimal: Literal[".", ","] = "."
    header: bool = True
    missing: tuple[Mark, ...] = Field(MISSING, max_length=50)
    sample_rows: int | None = Field(None, ge=1)
    sample_seed: int = Field(0, ge=0, le=2**31 - 1)


@dataclass(frozen=True)
class Detected:
    """A proposal, and what the file leaves open, in sentences. It looks at the data: for the uploader's eyes."""

    reading: Reading
    questions: tuple[str, ...]


# ---------------------------------------------------------------------------------------------------------------- cells

_BLANKS = " '’\u00a0\u202f"  # thousands may be grouped by these, or by the mark that is not the decimal one
_PATTERNS = {
    mark: re.compile(
        rf"([+-]?)(\d*|[1-9]\d{{0,2}}(?:([{group}{_BLANKS}])\d{{3}})(?:\3\d{{3}})*)(?:[{mark}](\d*))?([eE][+-]?\d{{1,3}})?",
        re.ASCII,
    )
    for mark, group in ((".", ","), (",", "."))
}
# A number that is not regular, perhaps, or a text that `class_label` writes otherwise.
_UNCLEAR = r"(?i)^([+-]?([0-9.,'’\x{a0}\x{202f} ]*(e[+-]?[0-9]+)?|inf(inity)?)|true|false)$|^[\x1c-\x1f]|[\x1c-\x1f]$"


def plain_number(text: str, decimal: str) -> str:
    """A number as Python writes it: "1234.50" for "1.234,50" and "1,234.50"; any other text as it is."""
    for mark in (decimal, "," if decimal == "." else "."):
        found = _PATTERNS[mark].fullmatch(text)
        if found and (found[2] or found[4]):
            whole = re.sub(r"\D", "", found[2])
            return f"{found[1]}{whole}{'.' + found[4] if found[4] else ''}{found[5] or ''}"
    return text


def read_cells(texts: pyarrow.Array, reading: Reading) -> tuple[np.ndarray, pyarrow.DictionaryArray]:
    """A column of texts (large_string), each cell read by itself: numbers (n,), NaN where there is none, and texts as
    `class_label` writes them, null where there is none.

    Whole numbers of 16 digits and more stay texts.
    """
    cells = pyarrow.compute.utf8_trim_whitespace(texts)
    marks = pyarrow.array(["", *reading.missing], type=pyarrow.large_string())
    cells = pyarrow.compute.if_else(pyarrow.compute.is_in(cells, marks), None, cells)
    plain = cells  # most of them
    if reading.decimal == ",":
        dotted = pyarrow.compute.match_substring(cells, ".")
        plain = pyarrow.compute.replace_substring(pyarrow.compute.if_else(dotted, None, cells), ",", ".")
    found_plain, values = regular(plain)
    odd = pyarrow.compute.if_else(found_plain, None, cells).dictionary_encode()
    # Of the others, each different text is looked at once, and in Python only where it could be a number after all.
    unclear = pyarrow.compute.match_substring_regex(odd.dictionary, _UNCLEAR)
    found = np.full(len(odd.dictionary) + 1, np.nan)  # the last for those that are no odd text
    numbers, labels = [np.empty(0)], [pyarrow.array([], pyarrow.large_string())]
    for some in in_parts(odd.dictionary.filter(unclear)):
        read = [_read(text, reading.decimal) for text in some.to_pylist()]
        numbers.append(np.array([cell if isinstance(cell, float) else np.nan for cell in read]))
        labels.append(pyarrow.array([None if isinstance(cell, float) else cell for cell in read], labels[0].type))
    found[:-1][unclear.to_numpy(zero_copy_only=False)] = np.concatenate(numbers)
    places = odd.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    written = as_texts(pyarrow.compute.replace_with_mask(odd.dictionary, unclear, pyarrow.concat_arrays(labels)))
    return np.where(places >= 0, found[places], values), looked_up(written, odd.indices)


def _read(text: str, decimal: str) -> float | str:
    label = class_label(plain_number(text, decimal))
    value = as_number(label)
    return value if class_label(value) == label else label


# ------------------------------------------------------------------------------------------------------------ detection


def rows_of(lines: TextIO, separator: str) -> Iterator[list[str]]:
    """The rows of cells from here on; `lines.tell()` is then where the next row begins."""
    # Line by line through `readline`, because iterating over a file disables `tell`.
    return csv.reader(iter(lines.readline, ""), delimiter=separator, skipinitialspace=True)


def opened(data: bytes) -> tuple[TextIO, str | None]:
    """The lines of a text below empty ones and below a first line "sep=;", and the separator that this line names."""
    # Decoded as it is read: as one `str` or in a StringIO it would take up to five times the memory.
    below = data.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")
    lines = io.TextIOWrapper(io.BytesIO(below), encoding="utf-8", newline=None)
    start = lines.tell()
    named = re.fullmatch(r'"?sep=(.)"?', lines.readline().rstrip("\n"), re.IGNORECASE)
    if named is None:
        lines.seek(start)
    return lines, named[1] if named else None


def detected(data: bytes) -> Detected:
    """What the first rows of a text suggest. One row among many decides about nothing."""
    lines, named = opened(data)
    start = lines.tell()
    separator = named if named in SEPARATORS else _separator(lines, start)
    lines.seek(start)
    rows = _first_rows(lines, separator)
    reading = Reading(separator=separator)
    first, columns = _columns(rows)
    decimal, question = _decimal([cell for column in columns for cell in column], separator)
    questions = [question] if question else []
    numeric = [position for position, column in enumerate(columns) if _numeric(column, decimal)]
    header, sure = _header(first, columns, numeric, decimal)
    if not sure:
        questions.append("Does the first row name the columns, or is it data?")
    dashes = tuple(mark for mark in _DASHES if _rows_with(mark, [columns[position] for position in numeric]) > 1)
    return Detected(
        reading.replaced(decimal=decimal, header=header, missing=(*MISSING, *dashes)),
        tuple(questions),
    )


def _first_rows(lines: TextIO, separator: str) -> list[list[str]]:
    """The first rows with something in them, fewer of them where they are wider than a table may be."""
    rows, cells = [], 0
    for row in islice(rows_of(lines, separator), _LOOKED_AT):
        if cells > _LOOKED_AT * MAX_COLUMNS:
            break
        if len(row) > 1 or "".join(row).strip():
            rows.append(row)
            cells += len(row)
    return rows


def _separator(lines: TextIO, start: int) -> str:
    """The separator that cuts most of the first rows, most evenly; not the comma, if another one does so, too."""
    scores: dict[str, tuple[int, int, bool, int]] = {}
    for separator in SEPARATORS:
        lines.seek(start)
        widths = [len(row) for row in islice(rows_of(lines, separator), 20) if row]
        cut = [width for width in widths if width > 1]
        even = max(map(cut.count, cut), default=0)
        scores[separator] = (len(cut), even, separator != ",", sum(widths[:1]))  # a comma may be a decimal mark
    return max(scores, key=scores.__getitem__)


def _columns(rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """The first row, and the cells below it by column."""
    first = [cell.strip() for cell in rows[0]] if rows else []
    below = [[row[place].strip() for row in rows[1:] if place < len(row)] for place in range(len(first))]
    return first, below


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
            votes["," if _PATTERNS[","].fullmatch(cell) else "."] += 1
    decimal: Literal[".", ","] = "," if votes[","] > votes["."] else "."
    doubtful = [cell for cell in open_ones if "," in cell or separator == ";"]
    if not any(votes.values()) and doubtful:
        return decimal, "Is the comma or the point the decimal mark? All numbers with one could be read in two ways."
    return decimal, ""


def _rows_with(mark: str, columns: Sequence[Sequence[str]]) -> int:
    """In how many rows a mark stands: the reading is exported, so that one row must not put it there."""
    return len({row for column in columns for row, cell in enumerate(column) if cell == mark})


def _numeric(cells: Sequence[str], decimal: str) -> bool:
    """Whether most cells that are not missing are numbers."""
    told = [cell for cell in cells if cell and cell not in MISSING and cell not in _DASHES]
    return 2 * sum(_is_number(cell, decimal) for cell in told) > len(told)


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
        elif 10 * len(set(column)) <= len(column) or cell in column:  # a class of a column of few classes?
            like_data = cell in column
        else:
            continue
        data, names = data + like_data, names + (not like_data)
    counting = [first[place] for place in numeric]
    counted = len(counting) > 1 and counting in [[str(place + base) for place in numeric] for base in (0, 1)]
    if counted:  # 0, 1, 2, … name columns more often than they are a row
        return True, False
    return not data or 4 * names >= data, not data or not names
