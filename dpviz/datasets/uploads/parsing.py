"""Reading of a single cell as a number, as a class, or as missing.

Every cell is read by itself. pandas decides on a type for a whole column, so that one odd cell turns numbers into text;
here it changes no other row, and "1", " 1.0" and 1 are the same class in any column.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Annotated, Any, TypeVar

import numpy as np
from pydantic import Field

from dpviz.datasets.uploads.arrow import array_slices, text_codes
from dpviz.datasets.uploads.limits import MAX_NAME, quote_name
from dpviz.errors import MissingInput, UserError
from dpviz.later import pd, pyarrow

# Texts with a whole number of 16 digits or more, and texts that begin like a number.
_WHOLE = re.compile(r"[+-]?\d{16,}", re.ASCII)
_PLAIN = re.compile(r"[+-]?(\d|\.\d|inf)", re.ASCII | re.IGNORECASE)
_BLANKS = r"[\s\pZ\x0b\x1c-\x1f\x{85}]*"
# For Arrow: a text that may be a number or a truth, and a text without any character.
_UNCLEAR = rf"(?i)^{_BLANKS}([+-]?([0-9]*\.?[0-9]*(e[+-]?[0-9]+)?|inf(inity)?)|true|false){_BLANKS}$"
_BLANK = rf"^{_BLANKS}$"
# For Arrow, plain numbers: one that is a float64, and a whole number that may need more digits. Their length is checked
# separately, since a pattern that counts far takes long to prepare.
_FLOAT = r"^[+-]?((\d{1,15}\.?|\d*\.\d+)([eE][+-]?\d{1,2})?|\d+[eE][+-]?\d{1,2})$"
_LONG = r"^[+-]?\d{16}\d*$"
_LONGEST = 100  # characters of a number that Arrow reads
_TRUTHS = {"true": 1.0, "false": 0.0}
_IN_FULL = 1e22  # below it, a whole number that is a float is written with all its digits
# Digits up to which a whole number that is text or an integer is written with all of them: about as many as float64
# reaches, and far below the 4,300 from which on `int` and `str` refuse it.
_MAX_DIGITS = 300
Read = TypeVar("Read")  # the result of reading one cell


def as_number(value: Any) -> float:
    """Return a cell as a number: 1 for true, the seconds of a duration, ±inf beyond float64, NaN if the cell is missing
    or no number."""
    if isinstance(value, str):
        text = value.strip()
        # float() reads more than numbers: "1_000", "nan", digits of other scripts.
        if not _PLAIN.match(text) or "_" in text or not text.isascii():
            return _TRUTHS.get(text.lower(), math.nan)
        value = text
    if isinstance(value, timedelta):
        return value.total_seconds()
    try:
        return float(value)
    except OverflowError:  # a whole number beyond float64
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        return math.nan


def class_label(value: Any) -> str:
    """Return a cell as a class: "1" for 1, 1.0 and " 1.0", "True" for true, other text without surrounding blanks.

    Whole numbers of 16 to about _MAX_DIGITS digits keep all of them, where they are text or integers; longer ones are
    written as floats.
    """
    if isinstance(value, (bool, np.bool_)):  # before integers, of which `bool` is a kind
        return str(bool(value))
    if isinstance(value, (int, np.integer)) and abs(int(value)) < 10**_MAX_DIGITS:
        return str(int(value))
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        value = value.strip()
        if value.lower() in _TRUTHS:
            return str(value.capitalize())
        if _WHOLE.fullmatch(value) and len(value) < _MAX_DIGITS:
            return str(int(value))
    number = as_number(value)
    if math.isnan(number):
        return str(value).strip()
    return str(int(number)) if number.is_integer() and abs(number) < _IN_FULL else repr(number)


def parse_plain_numbers(texts: "pyarrow.Array") -> "tuple[pyarrow.Array, np.ndarray]":
    """Read the texts (n,) that are plain numbers: return true for each of these, and the numbers (n,), NaN elsewhere.

    A plain number is one that Arrow reads to the last digit, as Python does, and much faster. Whole numbers of 16
    digits and more are left to `parse_long_integers`.
    """
    is_plain = _short_match(texts, _FLOAT)
    plain_texts = pyarrow.compute.if_else(is_plain, texts, None)
    return is_plain, _floats(pyarrow.compute.utf8_ltrim(plain_texts, "+"))  # Arrow reads no plus sign


def parse_long_integers(texts: "pyarrow.Array") -> "tuple[pyarrow.Array, pyarrow.Array, np.ndarray]":
    """Read the texts (n,) that are whole numbers of 16 to about 100 digits, which float64 may not hold.

    Returns true for each of these; the numbers as texts, as `class_label` writes them, null elsewhere; and the numbers
    as floats (n,), NaN elsewhere.
    """
    is_long = _short_match(texts, _LONG)
    labels = pyarrow.compute.if_else(is_long, texts, None)
    # Drop a plus sign and leading zeros; then write -0 as 0.
    for pattern, replacement in ((r"^\+?(-?)0*(\d+)$", r"\1\2"), ("^-0$", "0")):
        labels = pyarrow.compute.replace_substring_regex(labels, pattern, replacement)
    return is_long, labels, _floats(labels)


def integer_texts(values: np.ndarray) -> "pyarrow.Array":
    """Return whole numbers (n,), given as floats, as texts with all digits; null for NaN and from _IN_FULL on."""
    whole = pyarrow.array(values, mask=~(np.abs(values) < _IN_FULL))  # null also for NaN, which is not below
    # Below _IN_FULL there are 22 digits at most.
    return whole.cast(pyarrow.decimal128(22, 0)).cast(pyarrow.string()).cast(pyarrow.large_string())


def _short_match(texts: "pyarrow.Array", pattern: str) -> "pyarrow.Array":
    """Return true, as an array (n,), for the texts that match a pattern and have at most _LONGEST bytes."""
    is_short = pyarrow.compute.less_equal(pyarrow.compute.binary_length(texts), _LONGEST)
    return pyarrow.compute.fill_null(
        pyarrow.compute.and_(is_short, pyarrow.compute.match_substring_regex(texts, pattern)), False
    )


def _floats(texts: "pyarrow.Array") -> np.ndarray:
    """Return texts of numbers as floats (n,), NaN for null."""
    return texts.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)


def column_numbers(series: "pd.Series") -> np.ndarray:
    """Return the cells of a column as numbers, (n,) float64: NaN where a cell is no number; ±inf stays."""
    dictionary = text_codes(series)
    if dictionary is not None:
        codes, texts = dictionary
        return np.append(text_numbers(texts), np.nan)[codes]  # code -1, missing, takes the last entry, here and below
    if isinstance(series.dtype, pd.CategoricalDtype):
        # Per category and not per row: a long text that is stored once must not be written out for every row.
        categories = series.dtype.categories
        if all(isinstance(value, float | str) for value in categories):  # a column that `arrow.mixed_column` has made
            texts = pyarrow.array([value if isinstance(value, str) else None for value in categories], "large_string")
            plain_numbers = [value if isinstance(value, float) else np.nan for value in categories]
            values = np.where(texts.is_null().to_numpy(zero_copy_only=False), plain_numbers, text_numbers(texts))
        else:
            values = column_numbers(pd.Series(categories))
        return np.append(values, np.nan)[series.cat.codes]
    if pd.api.types.is_datetime64_any_dtype(series.dtype):  # they are classes, not numbers
        return np.full(len(series), np.nan)
    if pd.api.types.is_timedelta64_dtype(series.dtype):
        return series.dt.total_seconds().to_numpy()
    if pd.api.types.is_numeric_dtype(series.dtype) and not pd.api.types.is_complex_dtype(series.dtype):
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    codes, cell_numbers = _read_distinct(series, read=as_number, read_text=lambda _: math.nan)
    return np.append(np.array(cell_numbers, dtype=np.float64), np.nan)[codes]


def encode_classes(series: "pd.Series") -> tuple[np.ndarray, list[str]]:
    """Return the index (n,) of each cell's class in a list, -1 where it is missing or blank, and this list.

    The list has the distinct classes of the column, as `class_label` writes them.
    """
    codes, cell_labels = _read_distinct(series, read=class_label, read_text=str.strip)
    # Several distinct cells, such as 1 and "1", may be one class.
    labels = list(dict.fromkeys(label for label in cell_labels if label))
    indices = {label: index for index, label in enumerate(labels)}
    by_code = [indices.get(label, -1) for label in cell_labels]
    return np.array([*by_code, -1], dtype=np.int64)[codes], labels  # code -1, missing, takes the last entry


def is_empty(series: "pd.Series") -> np.ndarray:
    """Return true, as an array (n,), for the cells of a column that are missing or blank."""
    dictionary = text_codes(series)
    if dictionary is not None:
        codes, texts = dictionary
        are_blank = pyarrow.compute.match_substring_regex(texts, _BLANK)
        return np.append(are_blank.to_numpy(zero_copy_only=False), True)[codes]  # code -1: missing
    if pd.api.types.is_numeric_dtype(series.dtype) or pd.api.types.is_datetime64_any_dtype(series.dtype):
        return series.isna().to_numpy()
    codes, are_values_blank = _read_distinct(series, read=_is_blank, read_text=_is_blank)
    return np.array([*are_values_blank, True], dtype=bool)[codes]


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


def _read_distinct(
    series: "pd.Series", read: Callable[[Any], Read], read_text: Callable[[str], Read]
) -> tuple[np.ndarray, list[Read]]:
    """Apply `read` to each distinct value of a column; return each cell's index (n,) in the results, and the results.

    The index is -1 where a cell is missing. read_text : a faster function with the same results, for texts that are
    neither numbers nor truths.
    """
    dictionary = text_codes(series)
    if dictionary is not None:
        codes, texts = dictionary
        results: list[Read] = []
        for part in array_slices(texts):
            are_unclear = pyarrow.compute.match_substring_regex(part, _UNCLEAR).to_pylist()
            for text, is_unclear in zip(part.to_pylist(), are_unclear, strict=True):
                results.append(read(text) if is_unclear else read_text(text))
        return codes, results
    if series.dtype != object:
        codes, values = pd.factorize(series)
        if pd.api.types.is_datetime64_any_dtype(series.dtype):
            # As texts without a fraction of a second that is 0, which the zone (+, - or Z) or the end follows. Arrow
            # writes them, since pandas cannot for years beyond its range.
            times = pyarrow.array(values).cast(pyarrow.large_string())
            values = pyarrow.compute.replace_substring_regex(times, r"\.0+($|[+Z-])", r"\1").to_pylist()
        return codes, [read(value) for value in values]
    # `pd.factorize` would take true, 1 and 1.0 for the same value, so that the first of them decided about the others.
    indices: dict[Any, int] = {}
    codes = np.empty(len(series), dtype=np.int64)
    distinct: list[Any] = []
    for row, (value, missing) in enumerate(zip(series, series.isna(), strict=True)):
        if missing:
            codes[row] = -1
            continue
        # Other objects are compared as texts, since they may have no hash.
        key = (type(value), value if isinstance(value, (str, int, float)) else str(value))
        index = indices.setdefault(key, len(indices))
        if index == len(distinct):  # a new value
            distinct.append(value)
        codes[row] = index
    return codes, [read(value) for value in distinct]


def text_numbers(texts: "pyarrow.Array") -> np.ndarray:
    """Return texts as numbers (k,), NaN where a text is no number.

    Python reads only the texts that could be numbers and that Arrow does not read.
    """
    is_plain, values = parse_plain_numbers(texts)
    is_long, _, long_values = parse_long_integers(texts)
    values = np.where(np.isnan(values), long_values, values)
    may_be_number = pyarrow.compute.match_substring_regex(texts, _UNCLEAR)
    is_unclear = pyarrow.compute.and_not(may_be_number, pyarrow.compute.or_(is_plain, is_long)).fill_null(False)
    values[is_unclear.to_numpy(zero_copy_only=False)] = [
        as_number(text) for part in array_slices(texts.filter(is_unclear)) for text in part.to_pylist()
    ]
    return values


# --------------------------------------------------------------------------------------- columns as declared categories
# The lists are declared, never read from the rows. What is not listed, and what is missing, becomes "other".

MAX_CATEGORIES = 1_000  # of one column; more could hardly be told apart through the noise
OTHER = "other"
Text = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Categories = Annotated[tuple[Text, ...], Field(min_length=2, max_length=MAX_CATEGORIES + 1)]  # with "other"
Lists = tuple[tuple[Text, Categories], ...]  # (column, its categories) of every column
Edges = tuple[tuple[Text, tuple[float, ...]], ...]  # (column, edges between its ranges) of every column cut into ranges


@dataclass(frozen=True)
class Bins:
    """Categories of a numeric column by edges e₁ < e₂ < …: below e₁, from e₁ to below e₂, …, from the last edge on."""

    edges: tuple[float, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the len(edges) + 1 categories, such as "below 5", "5 to below 10" and "10 or more"."""
        texts = [class_label(float(edge)) for edge in self.edges]
        middle_labels = (f"{low} to below {high}" for low, high in pairwise(texts))
        return (f"below {texts[0]}", *middle_labels, f"{texts[-1]} or more")


Declared = Sequence[str] | Bins  # of the categories of one column


def category_lists(columns: Mapping[str, Declared]) -> tuple[Lists, Edges]:
    """Return the categories of every column, the last of them "other", and the edges of columns cut into ranges.

    Raises UserError for a list or edges that cannot be used, such as a list of both 1 and 1.0.
    """
    lists = tuple((name, (*_checked_categories(name, declared), OTHER)) for name, declared in columns.items())
    edges = tuple((name, declared.edges) for name, declared in columns.items() if isinstance(declared, Bins))
    return lists, edges


def check_lists(columns: Lists, edges: Edges) -> None:
    """Raise ValueError unless every column occurs once and its categories differ.

    A column with edges must have one category for each range, and one for the rest.
    """
    lists = dict(columns)
    if len(lists) < len(columns):
        raise ValueError("every column must have its own name")
    for name, categories in columns:
        if len(set(categories)) < len(categories):
            raise ValueError(f"column {quote_name(name)} lists a category twice")
    # k edges make k + 1 ranges, and "other" is one more category.
    if any(len(lists.get(name, ())) != len(column_edges) + 2 for name, column_edges in edges):
        raise ValueError("edges need a column with a category for each range, and one for the rest")


def encode_categories(frame: "pd.DataFrame", columns: Lists, edges: Edges) -> np.ndarray:
    """Return the index of every cell's category in its column's list, (n, columns) int16, read-only.

    The index depends on the cell and the declarations alone.
    """
    edges_by_name = dict(edges)
    codes = np.empty((len(frame), len(columns)), dtype=np.int16)
    for position, (name, categories) in enumerate(columns):
        other_index = len(categories) - 1  # for a cell that is missing, no number, or not listed
        if name in edges_by_name:
            values = column_numbers(frame[name])
            codes[:, position] = np.where(np.isnan(values), other_index, np.digitize(values, edges_by_name[name]))
        else:
            class_of_cell, labels = encode_classes(frame[name])
            indices = {class_label(text): index for index, text in enumerate(categories)}
            index_of_class = [indices.get(label, other_index) for label in labels]
            # Class -1, missing, takes the last entry.
            codes[:, position] = np.array([*index_of_class, other_index])[class_of_cell]
    codes.flags.writeable = False
    return codes


def count_unlisted(codes: np.ndarray, columns: Lists) -> dict[str, int]:
    """Count the rows with the last category, "other", in each column; return the counts by column. Not private.

    codes : (n, columns), as `encode_categories` returns them.
    """
    names = [name for name, _ in columns]
    last_codes = [len(categories) - 1 for _, categories in columns]
    counts = (codes == last_codes).sum(axis=0).tolist()
    return dict(zip(names, counts, strict=True))


def _checked_categories(name: str, declared: Declared) -> tuple[str, ...]:
    """Return the declared categories of the column `name` without "other". Raises UserError if they cannot be used."""
    if isinstance(declared, Bins):
        edges = declared.edges
        increasing = all(low < high for low, high in pairwise(edges))
        if not edges or not all(math.isfinite(edge) for edge in edges) or not increasing:
            raise UserError(
                "Give at least one number, each larger than the one before.",
                title=f"The edges of column {quote_name(name)} do not increase",
            )
        categories = declared.labels
    else:
        categories = tuple(text.strip() for text in declared if text.strip() != OTHER)  # which `category_lists` adds
    title = f"The categories of column {quote_name(name)} cannot be used"
    if not categories or "" in categories:
        error = UserError if categories else MissingInput  # without categories the declaration is unfinished
        raise error("List at least one category, and none that is empty.", title=title)
    if len(categories) > MAX_CATEGORIES:
        raise UserError(
            f"They are {len(categories):,}, at most {MAX_CATEGORIES:,} are possible. List the frequent ones; the rest "
            'becomes "other". Of a numeric column, use ranges.',
            title=title,
        )
    if any(len(text) > MAX_NAME for text in categories):
        raise UserError(f"A category may have at most {MAX_NAME} characters. Leave out longer texts.", title=title)
    labels = [class_label(text) for text in categories]  # 1 and 1.0 are the same
    repeated = next((text for index, text in enumerate(categories) if labels[index] in labels[:index]), None)
    if repeated is not None:
        raise UserError(f"{quote_name(repeated)} is listed twice. List every category once.", title=title)
    return categories
