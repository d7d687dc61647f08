"""From a user's table to a data set: what its columns hold, what the user chose, and what keeps it from being used."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from dpviz.datasets.base import MAX_BOUND, DatasetFacts, DatasetSpecification, is_range
from dpviz.datasets.files import MAX_COLUMNS, MAX_NAME, MAX_ROWS, MIN_ROWS, shown, too_few_rows
from dpviz.errors import UserError
from dpviz.specification import sentences

DISTINCT_CAP = 100
MAX_CLASSES_SHOWN = 20
_NUMBERS_IN_OBJECTS = ("boolean", "integer", "floating", "mixed-integer-float", "decimal")


@dataclass(frozen=True)
class ColumnInfo:
    """What a column holds, without any of its values. It looks at the data: for the uploader's eyes, not private."""

    name: str
    numeric: bool
    missing: int
    infinite: int
    distinct: int  # different values, missing ones aside; DISTINCT_CAP means "this many or more"

    @property
    def constant(self) -> bool:
        """Whether the column has at most one value."""
        return self.distinct <= 1


class UploadedTable(DatasetSpecification):
    """A table that the user uploaded: its hash, size and declared ranges. The array travels beside it."""

    kind: ClassVar[str] = "datasets.upload.table"
    title: ClassVar[str] = "Uploaded table"
    public: ClassVar[bool] = False
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    n: int = Field(ge=MIN_ROWS, le=MAX_ROWS)
    bounds: tuple[tuple[float, float], ...] = Field(min_length=1, max_length=MAX_COLUMNS)
    names: tuple[Annotated[str, Field(min_length=1, max_length=MAX_NAME)], ...]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.names) != len(self.bounds) or len(set(self.names)) < len(self.names):
            raise ValueError("every range needs the name of its own column")
        for name, (low, high) in zip(self.names, self.bounds, strict=True):
            if not is_range(low, high):
                raise ValueError(f"the range of column {shown(name)} must run from a smaller to a larger number")
        return self

    def facts(self) -> DatasetFacts:
        return DatasetFacts(self.n, self.bounds, self.names)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        table = tables.get(self.sha256)
        if table is None or table.shape != (self.n, len(self.bounds) + 1) or table.dtype != np.float64:
            raise UserError(
                "Upload the file again. Uploaded rows are kept in memory only and never become part of the settings.",
                title="The uploaded table is no longer here",
            )
        return np.array(table[:, :-1], order="C"), table[:, -1].copy()


@dataclass(frozen=True, eq=False)
class Prepared:
    """An upload that is ready to use.

    Parameters
    ----------
    table : ndarray (n, d + 1), float64, read-only
        The chosen features as found, not yet clipped; the last column holds the labels, -1 or +1.
    specification : UploadedTable
        Load it with `{specification.sha256: table}`.
    dropped : int
        Rows left out because of missing values.
    """

    table: np.ndarray
    specification: UploadedTable
    dropped: int


def describe_columns(frame: pd.DataFrame) -> tuple[ColumnInfo, ...]:
    """What each column holds, for the choice of target and features. Looks at the data: not private."""
    return tuple(_described(str(name), frame[name]) for name in frame.columns)


def target_candidates(columns: Sequence[ColumnInfo]) -> tuple[str, ...]:
    """The columns that can be a target: those with two classes, then those with at most MAX_CLASSES_SHOWN."""
    two = [column.name for column in columns if column.distinct == 2]
    return (*two, *(column.name for column in columns if 2 < column.distinct <= MAX_CLASSES_SHOWN))


def target_classes(series: pd.Series) -> tuple[str, ...]:
    """The classes of a target as text, sorted; of more than MAX_CLASSES_SHOWN, the most frequent. Not private."""
    counts = series.value_counts()
    return tuple(class_label(value) for value in sorted(counts[counts > 0].index[:MAX_CLASSES_SHOWN]))


def encode_target(series: pd.Series, positive: str | None = None) -> np.ndarray:
    """Labels (n,): +1 where the series has the class `positive` (as `target_classes` names it), -1 elsewhere.

    Without `positive` there must be exactly two classes, and the last in sorted order is the positive one: 1 of 0 and
    1, "yes" of "no" and "yes". Raises UserError for missing values, one class, or a class that does not exist.
    """
    name = shown(str(series.name))
    codes, classes = pd.factorize(series)
    if (codes < 0).any():
        raise _missing_rows(int((codes < 0).sum()), int(series.index[int(np.argmax(codes < 0))]), str(series.name))
    if len(classes) < 2:
        raise UserError(
            "A target needs two classes. Choose another column, or check which rows were dropped.",
            title=f"Column {name} has one class only",
        )
    if positive is None and len(classes) > 2:
        raise UserError(
            "A target needs two classes. Choose the class to count as positive; all others become negative. "
            "Or choose another column.",
            title=f"Column {name} has {len(classes):,} classes",
        )
    labels = [class_label(value) for value in classes]
    chosen = class_label(max(classes)) if positive is None else positive
    if chosen not in labels:
        raise UserError(
            f"Column {name} has no such class in the rows that are used. Choose one of its classes.",
            title="The positive class does not occur",
        )
    return np.where(codes == labels.index(chosen), 1.0, -1.0)


def prepare(
    frame: pd.DataFrame,
    target: str,
    positive: str | None,
    features: Sequence[str],
    bounds: Mapping[str, tuple[float, float]],
    drop_missing: bool,
) -> Prepared:
    """The chosen columns of a table from `read_table` as one array, and the specification that names it.

    Parameters
    ----------
    target, positive
        The target column and its positive class; see `encode_target`.
    features : sequence of str
        Numeric columns (true/false counts as 1/0).
    bounds : mapping of column name to (low, high)
        The declared range of every feature. It must come from knowledge about the column, not from the file.
    drop_missing : bool
        Leave out the rows in which the target or a feature is missing; otherwise they are an error. The number of
        rows that remain counts as public.

    Raises UserError that names the column and the first bad row, counted from 1 below the header.
    """
    _check_choice(frame, target, features, bounds)
    columns = {name: _feature(frame[name]) for name in features}
    missing = np.array(frame[target].isna())
    for values in columns.values():
        missing |= np.isnan(values)
    if missing.any() and not drop_missing:
        row = int(np.argmax(missing))
        empty = next((name for name in features if np.isnan(columns[name][row])), target)
        raise _missing_rows(int(missing.sum()), int(frame.index[row]), empty)
    kept = ~missing
    n = int(kept.sum())
    if n < MIN_ROWS:
        raise too_few_rows(n, " are left" if n < len(frame) else "")
    table = np.empty((n, len(features) + 1))
    for position, name in enumerate(features):
        table[:, position] = columns.pop(name)[kept]
        if table[:, position].min() == table[:, position].max():
            raise UserError(
                "It has one value only, so it explains nothing and costs noise. Leave it out.",
                title=f"Column {shown(name)} is constant",
            )
    table[:, -1] = encode_target(frame[target][kept], positive)
    table.flags.writeable = False
    with sentences(UploadedTable):
        specification = UploadedTable(
            sha256=hashlib.sha256(table.data).hexdigest(),
            n=n,
            bounds=tuple((float(bounds[name][0]), float(bounds[name][1])) for name in features),
            names=tuple(features),
        )
    return Prepared(table, specification, len(frame) - n)


def suggested_bounds(frame: pd.DataFrame, columns: Sequence[str]) -> dict[str, tuple[float, float]]:
    """The minimum and maximum of numeric columns, rounded outwards: a hint for display, NOT private.

    They look at the data, so a range that is taken from here reveals something that no budget accounts for. Declare
    what is known of the column beforehand. Columns without a finite number are left out.
    """
    suggestions = {}
    for name in columns:
        values = _numbers(frame[name])
        finite = values[np.isfinite(values)] if values is not None else np.empty(0)
        if len(finite):
            suggestions[name] = _rounded_outwards(float(finite.min()), float(finite.max()))
    return suggestions


def _rounded_outwards(low: float, high: float) -> tuple[float, float]:
    low, high = (min(max(value, -MAX_BOUND), MAX_BOUND) for value in (low, high))
    # To one digit of the width; a column that hardly varies keeps six digits of its size.
    width = max(high - low, 1e-6 * max(abs(low), abs(high)), 1e-300)
    digits = -math.floor(math.log10(width))
    step = 10.0**-digits
    bottom, top = math.floor(low / step) * step, math.ceil(high / step) * step
    if bottom == top:
        bottom, top = bottom - step, top + step
    return max(round(bottom, digits), -MAX_BOUND), min(round(top, digits), MAX_BOUND)


def _described(name: str, series: pd.Series) -> ColumnInfo:
    values = _numbers(series)
    distinct = series.iloc[:10_000].nunique()  # enough to see that a column has many values, at little cost
    if distinct < DISTINCT_CAP:
        distinct = series.nunique()
    return ColumnInfo(
        name=name,
        numeric=values is not None,
        missing=int(series.isna().sum()),
        infinite=0 if values is None else int(np.isinf(values).sum()),
        distinct=min(int(distinct), DISTINCT_CAP),
    )


def _numbers(series: pd.Series) -> np.ndarray | None:
    """The column as float64 (n,) with NaN for missing, or None if it does not hold numbers."""
    if isinstance(series.dtype, pd.CategoricalDtype):
        # Per category, not per row: a long text that is kept once must not be written out for every row.
        values = _numbers(pd.Series(series.dtype.categories))
        return None if values is None else np.append(values, np.nan)[series.cat.codes]  # code -1: missing
    if series.dtype == object:  # true/false with gaps, whole numbers beyond 64 bits, decimals
        if pd.api.types.infer_dtype(series, skipna=True) not in _NUMBERS_IN_OBJECTS:
            return None
        return np.array([_number(value) for value in series], dtype=np.float64)
    if not pd.api.types.is_numeric_dtype(series.dtype) or pd.api.types.is_complex_dtype(series.dtype):
        return None
    return series.to_numpy(dtype=np.float64, na_value=np.nan)


def _number(value: Any) -> float:
    if pd.isna(value):
        return math.nan
    try:
        return float(value)
    except OverflowError:  # a whole number beyond float64
        return math.inf if value > 0 else -math.inf


def class_label(value: Any) -> str:
    """A class as text: 1.0 is "1", because a column of whole numbers with gaps is read as floating-point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _feature(series: pd.Series) -> np.ndarray:
    """The feature column as float64 (n,) with NaN for missing; raises UserError if it is not numeric or not finite."""
    name, values = shown(str(series.name)), _numbers(series)
    if values is None:
        text = _text_rows(series)
        if not text.any():
            raise UserError("Choose another column, or turn it into numbers.", title=f"Column {name} has no numbers")
        row = int(series.index[int(np.argmax(text))]) + 1
        raise UserError(
            f"Row {row} below the header is the first. Choose another column or clean the file.",
            title=f"Column {name} has text in it",
        )
    infinite = np.isinf(values)
    if infinite.any():
        row = int(series.index[int(np.argmax(infinite))]) + 1
        raise UserError(
            f"Row {row} below the header is the first of {int(infinite.sum()):,}. Replace them or leave them empty.",
            title=f"Column {name} has infinite values",
        )
    return values


def _text_rows(series: pd.Series) -> np.ndarray:
    """Where (n,) a column that is not numeric holds text that is not a number; nowhere, if it holds dates or times."""
    if isinstance(series.dtype, pd.CategoricalDtype):
        return np.append(_text_rows(pd.Series(series.dtype.categories)), False)[series.cat.codes]
    if not pd.api.types.is_string_dtype(series.dropna()):
        return np.zeros(len(series), dtype=bool)
    return (pd.to_numeric(series, errors="coerce").isna() & series.notna()).to_numpy()


def _missing_rows(count: int, first: int, column: str) -> UserError:
    return UserError(
        f"Row {first + 1} below the header is the first, in column {shown(column)}. Choose to drop these rows, or fill "
        "the gaps in the file.",
        title="1 row has missing values" if count == 1 else f"{count:,} rows have missing values",
    )


def _check_choice(
    frame: pd.DataFrame, target: str, features: Sequence[str], bounds: Mapping[str, tuple[float, float]]
) -> None:
    if not features:
        raise UserError("Choose at least one numeric column.", title="No feature is chosen")
    unknown = next((name for name in (target, *features) if name not in frame.columns), None)
    if unknown is not None:
        raise UserError("Choose the columns again.", title=f"The file has no column {shown(unknown)}")
    if len(set(features)) < len(features):
        raise UserError("Choose every column once.", title="A feature is chosen twice")
    if target in features:
        raise UserError(
            "A feature that is the target itself makes the task trivial. Take it out of the features.",
            title=f"Column {shown(target)} is both target and feature",
        )
    for name in features:
        low, high = bounds.get(name, (math.nan, math.nan))
        if not is_range(low, high):
            raise UserError(
                f"The lowest value must be below the highest, and both between -{MAX_BOUND:g} and {MAX_BOUND:g}. "
                "Declare what is known of this column without looking at the file.",
                title=f"Column {shown(name)} needs a range",
            )
