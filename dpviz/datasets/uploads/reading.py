"""The declared reading of a text file: the ends of its rows, its separator, decimal mark and header, the texts for
missing values, and the kind of each column.

A `Reading` is a declaration: every cell is read by it alone. `detection` proposes one to the user, who confirms it.
"""

import re
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from dpviz.datasets.uploads.arrow import array_slices, as_texts
from dpviz.datasets.uploads.limits import MAX_COLUMNS
from dpviz.datasets.uploads.parsing import (
    as_number,
    class_label,
    integer_texts,
    parse_long_integers,
    parse_plain_numbers,
)
from dpviz.later import pyarrow
from dpviz.specification import Specification

SEPARATORS = (",", ";", "\t", "|")
MISSING = ("?", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "NULL", "null")
MissingText = Annotated[str, Field(max_length=50)]
Kind = Literal["number", "text", "unused"]


class Reading(Specification):
    """A declaration of how the cells of a text file are cut out and read.

    separator : the character between two cells of a row.
    decimal : the decimal mark where a number could be read in two ways: with "," as the decimal mark 1.234 is 1234, and
        1,234 is 1.234. Where there is one way only, as for 1.234,50 or 1,5, it is read in that way.
    header : true if the first row names the columns; without a header they are called "Column 1", "Column 2", …
    missing : texts that stand for a missing value; empty cells always do.
    rows : the unit that makes a row. "records" are those of CSV, whose cells in quotes may hold line breaks; a file
        with a quote that is not closed is then refused. "lines" are lines with any content. "returns" are lines that
        end in carriage returns.
    above : lines left out at the top. Between them and a header, blank lines and one like "sep=;" are left out, too.
    below : lines left out at the end. Behind a last line break there is one more line, which is empty. None leaves out
        that one, and refuses a file that does not end in a line break: if its last row were blank, the file would have
        one row less. All other blank lines are rows in which everything is missing.
    kinds : the kind of each column. In a column of numbers, any other cell is missing; a column of texts may hold
        numbers, too; an unused column is left out. Without kinds, every column may hold numbers and texts. Kinds
        determine the number of columns, and must be given where there is no header.
    sample_rows, sample_seed : keep a uniformly random sample of `sample_rows` rows, if there are more.

    >>> import dpviz
    >>> dpviz.Reading(separator=";", decimal=",")
    Reading(separator=';', decimal=',')
    """

    kind: ClassVar[str] = "datasets.reading.reading"
    separator: Literal[",", ";", "\t", "|"] = ","
    decimal: Literal[".", ","] = "."
    header: bool = True
    missing: tuple[MissingText, ...] = Field(MISSING, max_length=50)
    rows: Literal["records", "lines", "returns"] = "records"
    above: int = Field(0, ge=0, le=1000)
    below: int | None = Field(None, ge=0, le=1000)
    kinds: tuple[Kind, ...] = Field((), max_length=MAX_COLUMNS)
    sample_rows: int | None = Field(None, ge=1, le=10**12)
    sample_seed: int = Field(0, ge=0, le=2**31 - 1)


# ---------------------------------------------------------------------------------------------------------------- cells

_BLANKS = " '’\u00a0\u202f"  # thousands may be grouped by these, or by the mark that is not the decimal one
# For each decimal mark, a number in parts: 1 the sign, 2 the digits before the mark, 3 the character that groups their
# thousands, 4 the digits behind the mark, 5 the exponent.
PATTERNS = {
    mark: re.compile(
        rf"([+-]?)(\d*|[1-9]\d{{0,2}}(?:([{group}{_BLANKS}])\d{{3}})(?:\3\d{{3}})*)(?:[{mark}](\d*))?([eE][+-]?\d{{1,3}})?",
        re.ASCII,
    )
    for mark, group in ((".", ","), (",", "."))
}
# A number whose thousands are grouped by the mark that is not the decimal one, with up to 15 digits before the latter:
# `parse_plain_numbers` reads no more.
_GROUPED = r"^[+-]?[1-9]\d{{0,2}}([{group}]\d{{3}}){{1,4}}([{decimal}]\d*)?$"
# A text that may be a number although `parse_plain_numbers` reads none, or that `class_label` writes otherwise; the
# last two alternatives are for signs at its ends that `class_label` strips.
_DIGITS = r"([0-9]*|[1-9][0-9]{0,2}([.,'’\x{a0}\x{202f} ][0-9]{3})+)([.,][0-9]*)?(e[+-]?[0-9]+)?"
_UNCLEAR = rf"(?i)^([+-]?({_DIGITS}|inf(inity)?)|true|false)$|^[\x1c-\x1f]|[\x1c-\x1f]$"


def plain_number(text: str, decimal: str) -> str:
    """Return a number as Python writes it: "1234.50" for "1.234,50" and "1,234.50"; any other text unchanged.

    decimal : the mark that decides where both "." and "," could be the decimal mark.
    """
    for mark in (decimal, "," if decimal == "." else "."):
        match = PATTERNS[mark].fullmatch(text)
        if match and (match[2] or match[4]):  # there is a digit before or behind the mark
            sign, whole, group, fraction, exponent = match.groups()
            digits = re.sub(r"\D", "", whole) if group else whole
            return f"{sign}{digits}{'.' + fraction if fraction else ''}{exponent or ''}"
    return text


def read_cells(texts: "pyarrow.Array", reading: Reading) -> "tuple[np.ndarray, pyarrow.DictionaryArray]":
    """Read a column of texts (large_string), each cell by itself.

    Returns the numbers (n,), NaN where a cell is no number, and the texts as `class_label` writes them, null where a
    cell is a number or missing. Whole numbers of 16 digits and more stay texts, unless float64 holds all their digits.

    Nearly all cells are plain numbers, which Arrow reads in bulk. Of the other cells, called odd, each distinct text is
    read once: in bulk if it is a long whole number, by Python if it could be a number in another way.
    """
    compute = pyarrow.compute
    cells = compute.utf8_trim_whitespace(texts)
    missing_texts = pyarrow.array(["", *reading.missing], type=pyarrow.large_string())
    cells = compute.if_else(compute.is_in(cells, missing_texts), None, cells)  # null where missing
    # The same cells with decimal points and without grouped thousands.
    group = "," if reading.decimal == "." else "."
    number_texts = cells
    if compute.any(compute.match_substring(cells, group)).as_py():
        is_grouped = compute.match_substring_regex(cells, _GROUPED.format(group=group, decimal=reading.decimal))
        number_texts = compute.if_else(is_grouped, compute.replace_substring(cells, group, ""), cells)
    if reading.decimal == ",":
        has_point = compute.match_substring(number_texts, ".")  # a point that groups no thousands: an odd cell
        number_texts = compute.replace_substring(compute.if_else(has_point, None, number_texts), ",", ".")
    is_plain, values = parse_plain_numbers(number_texts)
    # `odd.dictionary` has the distinct odd texts, `odd.indices` the index of each cell's text, null for other cells.
    odd = compute.if_else(is_plain, None, cells).dictionary_encode()
    # A long whole number becomes a float only if the float has all its digits.
    is_long, long_labels, long_values = parse_long_integers(odd.dictionary)
    is_exact = compute.fill_null(compute.equal(integer_texts(long_values), long_labels), False)
    long_labels = compute.if_else(is_exact, None, long_labels)
    # The number of each distinct odd text; the last entry is for the cells that are not odd, whose index is -1.
    odd_values = np.append(np.where(is_exact.to_numpy(zero_copy_only=False), long_values, np.nan), np.nan)
    # Python reads the odd texts that could be numbers.
    is_unclear = compute.and_not(compute.match_substring_regex(odd.dictionary, _UNCLEAR), is_long)
    unclear_values = [np.empty(0)]  # an empty part comes first, here and below, so that there is always one to join
    unclear_labels = [pyarrow.array([], pyarrow.large_string())]
    for part in array_slices(odd.dictionary.filter(is_unclear)):
        results = [_read_cell(text, reading.decimal) for text in part.to_pylist()]
        unclear_values.append(np.array([result if isinstance(result, float) else np.nan for result in results]))
        part_labels = [None if isinstance(result, float) else result for result in results]
        unclear_labels.append(pyarrow.array(part_labels, unclear_labels[0].type))
    odd_values[:-1][is_unclear.to_numpy(zero_copy_only=False)] = np.concatenate(unclear_values)  # through a view
    codes = odd.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    odd_texts = compute.if_else(is_long, long_labels, odd.dictionary)
    odd_texts = as_texts(compute.replace_with_mask(odd_texts, is_unclear, pyarrow.concat_arrays(unclear_labels)))
    return np.where(codes >= 0, odd_values[codes], values), odd_texts.take(odd.indices)


def _read_cell(text: str, decimal: str) -> float | str:
    """Return a text as a float if it is a number and the float has the same class label, so that nothing is lost; else
    return the label."""
    label = class_label(plain_number(text, decimal))
    value = as_number(label)
    return value if class_label(value) == label else label
