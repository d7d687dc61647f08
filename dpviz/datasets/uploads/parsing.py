"""What a single cell says: a number, a class, or nothing.

Every cell is read by itself. pandas decides on a type for a whole column, so that one odd cell turns numbers into text;
here it changes no other row, and "1", " 1.0" and 1 are the same class in whatever column they stand.
"""

import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.compute

from dpviz.datasets.uploads.arrow import in_parts, texts_of

_WHOLE = re.compile(r"[+-]?\d{16,}", re.ASCII)
_PLAIN = re.compile(r"[+-]?(\d|\.\d|inf)", re.ASCII | re.IGNORECASE)
_BLANKS = r"[\s\pZ\x0b\x1c-\x1f\x{85}]*"
_UNCLEAR = rf"(?i)^{_BLANKS}([+-]?([0-9.]+(e[+-]?[0-9]+)?|inf(inity)?)|true|false){_BLANKS}$"  # may be more than a text
_BLANK = rf"^{_BLANKS}$"
_REGULAR = r"^[+-]?(\d{1,15}(\.\d{0,25})?|\.\d{1,25})([eE][+-]?\d{1,2})?$"
_TRUTHS = {"true": 1.0, "false": 0.0}
_IN_FULL = 1e22  # below it, a whole number is written with all its digits
Read = TypeVar("Read")


def as_number(value: Any) -> float:
    """A cell as a number; true is 1, ±inf where it is beyond float64, NaN if it is missing or no number."""
    if isinstance(value, str):
        text = value.strip()
        # float() reads more than numbers: "1_000", "nan", digits of other scripts.
        if not _PLAIN.match(text) or "_" in text or not text.isascii():
            return _TRUTHS.get(text.lower(), math.nan)
        value = text
    try:
        return float(value)
    except OverflowError:  # a whole number beyond float64
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        return math.nan


def class_label(value: Any) -> str:
    """A cell as a class: "1" for 1, 1.0 and " 1.0", "True" for true, other text without surrounding blanks.

    Whole numbers of 16 digits and more keep all their digits, where they are text or integers.
    """
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)) and abs(int(value)) < 10**300:
        return str(int(value))
    if isinstance(value, str):
        value = value.strip()
        if value.lower() in _TRUTHS:
            return str(value.capitalize())
        if _WHOLE.fullmatch(value) and len(value) < 300:
            return str(int(value))
    found = as_number(value)
    if math.isnan(found):
        return str(value).strip()
    return str(int(found)) if found.is_integer() and abs(found) < _IN_FULL else repr(found)


def regular(texts: pyarrow.Array) -> tuple[pyarrow.Array, np.ndarray]:
    """Which texts are plain numbers, and these numbers (n,), NaN elsewhere: Arrow reads them fast and to the last
    digit, as Python does."""
    which = pyarrow.compute.fill_null(pyarrow.compute.match_substring_regex(texts, _REGULAR), False)
    digits = pyarrow.compute.utf8_ltrim(pyarrow.compute.if_else(which, texts, None), "+")
    return which, pyarrow.compute.cast(digits, pyarrow.float64()).to_numpy(zero_copy_only=False)


def numbers(series: pd.Series) -> np.ndarray:
    """The cells of a column as numbers; (n,) float64, NaN where there is none, ±inf kept."""
    found = texts_of(series)
    if found is not None:
        return np.append(numbers_in(found[1]), np.nan)[found[0]]
    if isinstance(series.dtype, pd.CategoricalDtype):
        # Per category, not per row: a long text that is kept once must not be written out for every row.
        return np.append(numbers(pd.Series(series.dtype.categories)), np.nan)[series.cat.codes]  # code -1: missing
    if _are_times(series):
        return np.full(len(series), np.nan)
    if pd.api.types.is_numeric_dtype(series.dtype) and not pd.api.types.is_complex_dtype(series.dtype):
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    codes, values = _each(series, as_number, lambda _: math.nan)
    return np.append(np.array(values, dtype=np.float64), np.nan)[codes]


def classes(series: pd.Series) -> tuple[np.ndarray, list[str]]:
    """The class of every cell: positions (n,) in a list of different labels; -1 where a cell is missing or blank."""
    codes, found = _each(series, class_label, str.strip)
    places = {label: place for place, label in enumerate(dict.fromkeys(label for label in found if label))}
    return np.array([*(places.get(label, -1) for label in found), -1], dtype=np.int64)[codes], list(places)


def is_empty(series: pd.Series) -> np.ndarray:
    """Where (n,) a cell is missing or blank."""
    found = texts_of(series)
    if found is not None:
        blank = pyarrow.compute.match_substring_regex(found[1], _BLANK)
        return np.append(blank.to_numpy(zero_copy_only=False), True)[found[0]]
    if pd.api.types.is_numeric_dtype(series.dtype) or _are_times(series):
        return series.isna().to_numpy()
    codes, blanks = _each(series, _is_blank, _is_blank)
    return np.array([*blanks, True], dtype=bool)[codes]


def _are_times(series: pd.Series) -> bool:
    return bool(pd.api.types.is_datetime64_any_dtype(series.dtype) or pd.api.types.is_timedelta64_dtype(series.dtype))


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


def _each(
    series: pd.Series, read: Callable[[Any], Read], of_text: Callable[[str], Read]
) -> tuple[np.ndarray, list[Read]]:
    """What `read` says of every different value, and the place of each cell's value among them; -1 where missing.

    of_text : the same of a text that is no number, fast.
    """
    found = texts_of(series)
    if found is not None:
        return found[0], _read_texts(found[1], read, of_text)
    if series.dtype != object:
        codes, values = pd.factorize(series)
        return codes, [read(value) for value in (_times(values) if _are_times(series) else values)]
    # Not `factorize`: it takes true for 1 and 1.0 for 1, whichever comes first.
    places: dict[Any, int] = {}
    codes = np.empty(len(series), dtype=np.int64)
    cells: list[Any] = []
    for row, (value, missing) in enumerate(zip(series, series.isna(), strict=True)):
        if missing:
            codes[row] = -1
            continue
        key = (type(value), value if isinstance(value, (str, int, float)) else str(value))
        place = places.setdefault(key, len(places))
        if place == len(cells):
            cells.append(value)
        codes[row] = place
    return codes, [read(value) for value in cells]


def _read_texts(texts: pyarrow.Array, read: Callable[[Any], Read], of_text: Callable[[str], Read]) -> list[Read]:
    found: list[Read] = []
    for some in in_parts(texts):
        unclear = pyarrow.compute.match_substring_regex(some, _UNCLEAR).to_pylist()
        found += [(read if odd else of_text)(text) for text, odd in zip(some.to_pylist(), unclear, strict=True)]
    return found


def numbers_in(texts: pyarrow.Array) -> np.ndarray:
    """(k,) different texts as numbers, NaN where there is none; in Python only those that could be one and are not
    plain."""
    plain, values = regular(texts)
    unclear = pyarrow.compute.and_not(pyarrow.compute.match_substring_regex(texts, _UNCLEAR), plain)
    read = [as_number(text) for some in in_parts(texts.filter(unclear)) for text in some.to_pylist()]
    values = values.copy()
    values[unclear.to_numpy(zero_copy_only=False)] = read
    return values


def _times(values: Any) -> list[str]:
    """Points in time as text; pandas has none for years that it does not know."""
    texts = pyarrow.array(values).cast(pyarrow.large_string())
    found: list[str] = pyarrow.compute.replace_substring_regex(texts, r"\.0+($|[+Z-])", r"\1").to_pylist()
    return found
