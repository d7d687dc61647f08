"""The declared reading of a text file: the ends of its rows, its separator, decimal mark and header, the texts for
missing values, and the kind of each column.

A `Reading` is a declaration: every cell is read by it alone. `detection` proposes one to the user, who confirms it.
"""

import re
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from dpviz.datasets.uploads.arrow import as_texts, in_parts, take_values
from dpviz.datasets.uploads.limits import MAX_COLUMNS
from dpviz.datasets.uploads.parsing import as_number, class_label, in_full, long_whole, regular
from dpviz.later import pyarrow
from dpviz.specification import Specification

SEPARATORS = (",", ";", "\t", "|")
MISSING = ("?", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null")
Mark = Annotated[str, Field(max_length=50)]
Kind = Literal["number", "text", "unused"]


class Reading(Specification):
    """A declaration of how the cells of a text file are cut out and read.

    decimal : the decimal mark where a number could be read in two ways: with "," as the decimal mark 1.234 is 1234, and
        1,234 is 1.234. Where there is one way only, as for 1.234,50 or 1,5, it is read in that way.
    header : true if the first row names the columns; without a header they are called "Column 1", "Column 2", …
    missing : texts that stand for a missing value; empty cells always do.
    rows : the unit of a row: "records" of CSV, whose cells in quotes may hold line breaks, where a file with a quote
        that is not closed is refused; "lines", with any content; or "returns", lines that end in carriage returns.
    above : lines left out at the top. Between them and a header, blank lines and one like "sep=;" are left out, too.
    below : lines left out at the end, where one ends without a line break, too: a file whose last row ends in one has
        an empty line there. None leaves out that one, and refuses a file that does not end so: if its last row were
        blank, it would have one row less. All other blank lines are rows in which everything is missing.
    kinds : one per column: in one of numbers, any other cell is missing; one of texts may hold numbers, too; an unused
        one is left out. Without kinds, every column may hold numbers and texts. They determine the number of columns,
        and must be given where there is no header.
    sample_rows, sample_seed : keep a uniformly random sample of `sample_rows` rows, if there are more.
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
# A text that may be a number although `regular` reads none, or that `class_label` writes otherwise.
_DIGITS = r"([0-9]*|[1-9][0-9]{0,2}([.,'’\x{a0}\x{202f} ][0-9]{3})+)([.,][0-9]*)?(e[+-]?[0-9]+)?"
_UNCLEAR = rf"(?i)^([+-]?({_DIGITS}|inf(inity)?)|true|false)$|^[\x1c-\x1f]|[\x1c-\x1f]$"


def plain_number(text: str, decimal: str) -> str:
    """Return a number as Python writes it: "1234.50" for "1.234,50" and "1,234.50"; any other text unchanged."""
    for mark in (decimal, "," if decimal == "." else "."):
        match = PATTERNS[mark].fullmatch(text)
        if match and (match[2] or match[4]):
            digits = re.sub(r"\D", "", match[2]) if match[3] else match[2]
            return f"{match[1]}{digits}{'.' + match[4] if match[4] else ''}{match[5] or ''}"
    return text


def read_cells(texts: "pyarrow.Array", reading: Reading) -> "tuple[np.ndarray, pyarrow.DictionaryArray]":
    """Read a column of texts (large_string), each cell by itself.

    Returns numbers (n,), NaN where a cell is none, and texts as `class_label` writes them, null where a cell is none.

    Whole numbers of 16 digits and more stay texts.
    """
    cells = pyarrow.compute.utf8_trim_whitespace(texts)
    marks = pyarrow.array(["", *reading.missing], type=pyarrow.large_string())
    cells = pyarrow.compute.if_else(pyarrow.compute.is_in(cells, marks), None, cells)
    group = "," if reading.decimal == "." else "."
    plain = cells  # with decimal points and without grouped thousands
    if pyarrow.compute.any(pyarrow.compute.match_substring(cells, group)).as_py():
        grouped = pyarrow.compute.match_substring_regex(cells, _GROUPED.format(group=group, decimal=reading.decimal))
        plain = pyarrow.compute.if_else(grouped, pyarrow.compute.replace_substring(cells, group, ""), cells)
    if reading.decimal == ",":
        dotted = pyarrow.compute.match_substring(plain, ".")
        plain = pyarrow.compute.replace_substring(pyarrow.compute.if_else(dotted, None, plain), ",", ".")
    is_regular, values = regular(plain)
    odd = pyarrow.compute.if_else(is_regular, None, cells).dictionary_encode()
    # Of the others, each different text is looked at once, and in Python only where it could be a number after all.
    long, long_labels, long_values = long_whole(odd.dictionary)
    exact = pyarrow.compute.fill_null(pyarrow.compute.equal(in_full(long_values), long_labels), False)
    long_labels = pyarrow.compute.if_else(exact, None, long_labels)
    unclear = pyarrow.compute.and_not(pyarrow.compute.match_substring_regex(odd.dictionary, _UNCLEAR), long)
    # One NaN more, at index -1, for the cells that are no odd text.
    odd_values = np.append(np.where(exact.to_numpy(zero_copy_only=False), long_values, np.nan), np.nan)
    numbers, labels = [np.empty(0)], [pyarrow.array([], pyarrow.large_string())]
    for part in in_parts(odd.dictionary.filter(unclear)):
        readings = [_read_cell(text, reading.decimal) for text in part.to_pylist()]
        numbers.append(np.array([cell if isinstance(cell, float) else np.nan for cell in readings]))
        labels.append(pyarrow.array([None if isinstance(cell, float) else cell for cell in readings], labels[0].type))
    odd_values[:-1][unclear.to_numpy(zero_copy_only=False)] = np.concatenate(numbers)
    codes = odd.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    odd_texts = pyarrow.compute.if_else(long, long_labels, odd.dictionary)
    odd_texts = as_texts(pyarrow.compute.replace_with_mask(odd_texts, unclear, pyarrow.concat_arrays(labels)))
    return np.where(codes >= 0, odd_values[codes], values), take_values(odd_texts, odd.indices)


def _read_cell(text: str, decimal: str) -> float | str:
    """Return a number where its float has the same class as the text, else that class."""
    label = class_label(plain_number(text, decimal))
    value = as_number(label)
    return value if class_label(value) == label else label
