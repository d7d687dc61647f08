"""How a text file is read: where its rows end, its separator, its decimal mark, its header, what stands where a value
is missing, and what each column holds.

A `Reading` is a declaration: every cell is read by it alone. `detection` proposes one to the user, who confirms it.
"""

import re
from typing import Annotated, ClassVar, Literal

import numpy as np
import pyarrow
import pyarrow.compute
from pydantic import Field

from dpviz.datasets.uploads.arrow import as_texts, in_parts, looked_up
from dpviz.datasets.uploads.limits import MAX_COLUMNS
from dpviz.datasets.uploads.parsing import as_number, class_label, regular
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
    rows : what a row is: "records" of CSV, whose cells in quotes may hold line breaks; "lines", whatever is in them; or
        "returns", lines that end in carriage returns.
    above : lines left out at the top. Between them and a header, blank lines and one like "sep=;" are left out, too.
    below : lines left out at the end, where one ends without a line break, too: a file whose last row ends in one has
        an empty line there. None leaves out that one. All other blank lines are rows in which everything is missing.
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
# A number that is not regular, perhaps, or a text that `class_label` writes otherwise.
_UNCLEAR = r"(?i)^([+-]?([0-9.,'’\x{a0}\x{202f} ]*(e[+-]?[0-9]+)?|inf(inity)?)|true|false)$|^[\x1c-\x1f]|[\x1c-\x1f]$"


def plain_number(text: str, decimal: str) -> str:
    """A number as Python writes it: "1234.50" for "1.234,50" and "1,234.50"; any other text as it is."""
    for mark in (decimal, "," if decimal == "." else "."):
        found = PATTERNS[mark].fullmatch(text)
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
