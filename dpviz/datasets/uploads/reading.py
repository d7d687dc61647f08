"""How a text file is read: where its rows end, its separator, its decimal mark, its header, what stands where a value
is missing, and what each column holds.

A `Reading` is a declaration: every cell is read by it alone. `detection` proposes one to the user, who confirms it.
"""

import re
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from dpviz.datasets.uploads.arrow import as_texts, in_parts, looked_up
from dpviz.datasets.uploads.limits import MAX_COLUMNS
from dpviz.datasets.uploads.parsing import as_number, class_label, in_full, long_whole, regular
from dpviz.later import pyarrow
from dpviz.specification import Specification

SEPARATORS = (",", ";", "\t", "|")
MISSING = ("?", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null")
Mark = Annotated[str, Field(max_length=50)]
Kind = Literal["number", "text", "unused"]


class Reading(Specification):
    """How the cells of a text file are cut out and read.

    decimal : the decimal mark where a number could be read in two ways: with "," as the decimal mark 1.234 is 1234, and
        1,234 is 1.234. Where there is one way only, as for 1.234,50 or 1,5, it is read in that way.
    header : whether the first row names the columns; without one they are called "Column 1", "Column 2", …
    missing : texts that stand for a missing value; empty cells always do.
    rows : what a row is: "records" of CSV, whose cells in quotes may hold line breaks, and of which a file with a quote
        that is not closed is refused; "lines", whatever is in them; or "returns", lines that end in carriage returns.
    above : lines left out at the top. Between them and a header, blank lines and one like "sep=;" are left out, too.
    below : lines left out at the end, where one ends without a line break, too: a file whose last row ends in one has
        an empty line there. None leaves out that one, and refuses a file that does not end so: if its last row were
        blank, it would have one row less. All other blank lines are rows in which everything is missing.
    kinds : of every column: in one of numbers, any other cell is missing; one of texts may hold numbers, too; an unused
        one is left out. None at all reads both numbers and texts in each. They say how many columns there are, and
        must be given where no header says it.
    sample_rows, sample_seed : keep a uniformly random sample of so many rows, if there are more.
    """

    kind: ClassVar[str] = "datasets.reading.reading"
    separator: Literal[",", ";", "\t", "|"] = ","
    decimal: Literal[".", ","] = "."
    header: bool = True
    missing: tuple[Mark, ...] = Field(MISSING, max_length=50)
    rows: Literal["records", "lines", "returns"] = "records"
    above: int = Field(0, ge=0, le=1000)
    below: int | None = Field(None, ge=0, le=1000)
    kinds: tuple[Kind, ...] = Field((), max_length=MAX_COLUMNS)
    sample_rows: int | None = Field(None, ge=1)
    sample_seed: int = Field(0, ge=0, le=2**31 - 1)


# ---------------------------------------------------------------------------------------------------------------- cells

_BLANKS = " '’\u00a0\u202f"  # thousands may be grouped by these, or by the mark that is not the decimal one
PATTERNS = {
    mark: re.compile(
        rf"([+-]?)(\d*|[1-9]\d{{0,2}}(?:([{group}{_BLANKS}])\d{{3}})(?:\3\d{{3}})*)(?:[{mark}](\d*))?([eE][+-]?\d{{1,3}})?",
        re.ASCII,
    )
    for mark, group in ((".", ","), (",", "."))
}
_GROUPED = r"^[+-]?[1-9]\d{{0,2}}([{group}]\d{{3}}){{1,4}}([{decimal}]\d*)?$"  # usual thousands
# A number that is not regular, perhaps, or a text that `class_label` writes otherwise.
_DIGITS = r"([0-9]*|[1-9][0-9]{0,2}([.,'’\x{a0}\x{202f} ][0-9]{3})+)([.,][0-9]*)?(e[+-]?[0-9]+)?"
_UNCLEAR = rf"(?i)^([+-]?({_DIGITS}|inf(inity)?)|true|false)$|^[\x1c-\x1f]|[\x1c-\x1f]$"


def plain_number(text: str, decimal: str) -> str:
    """A number as Python writes it: "1234.50" for "1.234,50" and "1,234.50"; any other text as it is."""
    for mark in (decimal, "," if decimal == "." else "."):
        match = PATTERNS[mark].fullmatch(text)
        if match and (match[2] or match[4]):
            digits = re.sub(r"\D", "", match[2]) if match[3] else match[2]
            return f"{match[1]}{digits}{'.' + match[4] if match[4] else ''}{match[5] or ''}"
    return text


def read_cells(texts: "pyarrow.Array", reading: Reading) -> "tuple[np.ndarray, pyarrow.DictionaryArray]":
    """A column of texts (large_string), each cell read by itself: numbers (n,), NaN where there is none, and texts as
    `class_label` writes them, null where there is none.

    Whole numbers of 16 digits and more stay texts.
    """
    cells = pyarrow.compute.utf8_trim_whitespace(texts)
    marks = pyarrow.array(["", *reading.missing], type=pyarrow.large_string())
    cells = pyarrow.compute.if_else(pyarrow.compute.is_in(cells, marks), None, cells)
    group = "," if reading.decimal == "." else "."
    plain = cells  # most of them
    if pyarrow.compute.any(pyarrow.compute.match_substring(cells, group)).as_py():
        grouped = pyarrow.compute.match_substring_regex(cells, _GROUPED.format(group=group, decimal=reading.decimal))
        plain = pyarrow.compute.if_else(grouped, pyarrow.compute.replace_substring(cells, group, ""), cells)
    if reading.decimal == ",":
        dotted = pyarrow.compute.match_substring(plain, ".")
        plain = pyarrow.compute.replace_substring(pyarrow.compute.if_else(dotted, None, plain), ",", ".")
    found_plain, values = regular(plain)
    odd = pyarrow.compute.if_else(found_plain, None, cells).dictionary_encode()
    # Of the others, each different text is looked at once, and in Python only where it could be a number after all.
    long, long_labels, long_values = long_whole(odd.dictionary)
    exact = pyarrow.compute.fill_null(pyarrow.compute.equal(in_full(long_values), long_labels), False)
    long_labels = pyarrow.compute.if_else(exact, None, long_labels)
    unclear = pyarrow.compute.and_not(pyarrow.compute.match_substring_regex(odd.dictionary, _UNCLEAR), long)
    # The last for those that are no odd text.
    odd_values = np.append(np.where(exact.to_numpy(zero_copy_only=False), long_values, np.nan), np.nan)
    numbers, labels = [np.empty(0)], [pyarrow.array([], pyarrow.large_string())]
    for some in in_parts(odd.dictionary.filter(unclear)):
        read = [_read(text, reading.decimal) for text in some.to_pylist()]
        numbers.append(np.array([cell if isinstance(cell, float) else np.nan for cell in read]))
        labels.append(pyarrow.array([None if isinstance(cell, float) else cell for cell in read], labels[0].type))
    odd_values[:-1][unclear.to_numpy(zero_copy_only=False)] = np.concatenate(numbers)
    places = odd.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    written = pyarrow.compute.if_else(long, long_labels, odd.dictionary)
    written = as_texts(pyarrow.compute.replace_with_mask(written, unclear, pyarrow.concat_arrays(labels)))
    return np.where(places >= 0, odd_values[places], values), looked_up(written, odd.indices)


def _read(text: str, decimal: str) -> float | str:
    label = class_label(plain_number(text, decimal))
    value = as_number(label)
    return value if class_label(value) == label else label
