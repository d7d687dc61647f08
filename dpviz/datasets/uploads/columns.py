"""Descriptions of the columns of a user's file, and the declarations that a panel offers for them.

All of it looks at the data: for the uploader's eyes, not private. The exceptions are the offered target, its positive
class and the offered groups, which follow from the declared kinds of the columns.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dpviz.datasets.base import MAX_BOUND
from dpviz.datasets.uploads.arrow import text_codes
from dpviz.datasets.uploads.limits import MAX_NAME
from dpviz.datasets.uploads.parsing import as_number, class_label, column_numbers, encode_classes, is_empty
from dpviz.datasets.uploads.reading import Kind
from dpviz.later import pd

DISTINCT_CAP = 100  # different values of a column that are counted
MAX_CLASSES_SHOWN = 20
_SAME_CLASS = {"1": "True", "True": "1", "0": "False", "False": "0"}
_FIRST_ROWS, _MORE_ROWS = 10_000, 100_000  # rows in the first block in which values are counted, and in each later one


@dataclass(frozen=True)
class ColumnInfo:
    """A description of a column without its values. It looks at the data: for the uploader's eyes, not private."""

    name: str
    numeric: bool  # as declared; without a declaration: at least half of the cells that are not missing are numbers
    missing: int  # cells
    distinct: int  # different values that are not missing; DISTINCT_CAP means "this many or more"
    repeated: int = field(default=0, compare=False)  # different values that occur in more than one row

    @property
    def constant(self) -> bool:
        """True if all rows, or all but one, have the same value, so that a single row does not decide."""
        return self.distinct <= 1 or (self.distinct == 2 and self.repeated == 1)


def describe_columns(frame: "pd.DataFrame", kinds: Sequence[Kind] = ()) -> tuple[ColumnInfo, ...]:
    """Describe each column, for the choice of target and features. Looks at the data: not private.

    kinds : the kind of each column of the file, as declared in a `Reading`; the frame has no unused ones. Without
        kinds, the cells decide which columns are numeric.
    """
    columns = []
    for name in frame.columns:
        series = frame[name]
        missing = int(is_empty(series).sum())
        number_count = int((~np.isnan(column_numbers(series))).sum())
        present = len(series) - missing
        numeric = present > 0 and 2 * number_count >= present  # at least half of the cells that are not missing
        counts = _counts(series)
        distinct = min(int((counts > 0).sum()), DISTINCT_CAP)
        repeated = min(int((counts > 1).sum()), DISTINCT_CAP)
        columns.append(ColumnInfo(str(name), numeric, missing, distinct, repeated))
    if not kinds:
        return tuple(columns)
    used_kinds = (kind for kind in kinds if kind != "unused")
    return tuple(replace(column, numeric=kind == "number") for column, kind in zip(columns, used_kinds, strict=True))


def target_candidates(columns: Sequence[ColumnInfo]) -> tuple[str, ...]:
    """Return the columns that can be a target: those with two classes, then those with at most MAX_CLASSES_SHOWN.

    A class that occurs in only one row does not count, so that no single row changes the proposal.
    """
    # A column in which two or more values occur only once is left out: its values are no classes.
    counts = {column.name: column.repeated for column in columns if column.distinct <= column.repeated + 1}
    two = [name for name, count in counts.items() if count == 2]
    return (*two, *(name for name, count in counts.items() if 2 < count <= MAX_CLASSES_SHOWN))


def likely_target(columns: Sequence[ColumnInfo]) -> str:
    """Return the name of the column to offer as the target; the declared kinds alone decide.

    It is the last column of texts, since tables usually end with the target, or else the last of numbers.
    """
    texts = [column for column in columns if not column.numeric]
    return (texts or columns)[-1].name


def likely_group(columns: Sequence[ColumnInfo], target: str | None) -> str | None:
    """Return the name of the column to offer for the groups; the declared kinds alone decide.

    It is the first column of texts that is not the target; None if there is no such column.
    """
    return next((column.name for column in columns if not column.numeric and column.name != target), None)


def target_classes(series: "pd.Series", limit: int = MAX_CLASSES_SHOWN) -> tuple[str, ...]:
    """Return the classes of a target as sorted texts; if there are more than `limit`, the most frequent. Not private.

    A class of more than MAX_NAME characters is left out, since no declaration can name it.
    """
    codes, labels = encode_classes(series)
    counts = np.bincount(codes[codes >= 0], minlength=len(labels))
    by_frequency = sorted(zip(labels, counts, strict=True), key=lambda pair: (-pair[1], class_sort_key(pair[0])))
    declarable = [label for label, _ in by_frequency if len(label) <= MAX_NAME]
    return tuple(sorted(declarable[:limit], key=class_sort_key))


def class_sort_key(label: str) -> tuple[bool, float, str]:
    """Return the key that sorts numbers before texts: numbers by size, texts by the alphabet."""
    value = as_number(label)
    return (True, 0.0, label) if math.isnan(value) else (False, value, label)


def usual_positive(column: ColumnInfo) -> str:
    """Return the class to offer as the positive one, by the declared kind of the column alone."""
    return "1" if column.numeric else "yes"


def encode_target(series: "pd.Series", positive: str) -> np.ndarray:
    """Return labels (n,): +1 where the series has the class `positive`, -1 elsewhere; 1 and true are the same here."""
    codes, labels = encode_classes(series)
    label = class_label(positive)
    positives = {label, _SAME_CLASS.get(label, label)}
    is_positive = np.array([*(name in positives for name in labels), False])
    return np.where(is_positive[codes], 1.0, -1.0)  # code -1, missing, takes the last entry


def suggested_bounds(frame: "pd.DataFrame", columns: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return minimum and maximum of numeric columns, rounded outwards: a hint for display, NOT private.

    They look at the data, so a range that is taken from here reveals something that no budget accounts for. Declare
    a range that is known beforehand. Columns without a finite number are left out.
    """
    suggestions: dict[str, tuple[float, float]] = {}
    for name in columns:
        values = column_numbers(frame[name])
        finite = values[np.isfinite(values)]
        if not len(finite):
            continue
        low, high = (min(max(float(end), -MAX_BOUND), MAX_BOUND) for end in (finite.min(), finite.max()))
        # Rounded to one digit of the width, which counts as at least a millionth of the largest magnitude, and at least
        # as that of the narrowest range (for a column of zeros).
        width = max(high - low, 1e-6 * max(abs(low), abs(high)), 1 / MAX_BOUND)
        digits = -math.floor(math.log10(width))
        step = 10.0**-digits
        bottom, top = math.floor(low / step) * step, math.ceil(high / step) * step
        if bottom == top:  # a column of one round number
            bottom, top = bottom - step, top + step
        suggestions[name] = max(round(bottom, digits), -MAX_BOUND), min(round(top, digits), MAX_BOUND)
    return suggestions


def _counts(series: "pd.Series") -> np.ndarray:
    """Return the number of rows of each distinct value; only the first rows count if they have DISTINCT_CAP values."""
    dictionary = text_codes(series)  # None unless it is a column of texts
    if dictionary is not None:
        codes, _ = dictionary
        return np.bincount(codes[codes >= 0])  # without -1, which stands for missing cells
    counts = series.iloc[:_FIRST_ROWS].value_counts()
    for start in range(_FIRST_ROWS, len(series), _MORE_ROWS):
        if len(counts) >= DISTINCT_CAP:
            break
        counts = counts.add(series.iloc[start : start + _MORE_ROWS].value_counts(), fill_value=0)
    return counts.to_numpy()
