"""From a user's table to a data set: what its columns hold, what the user declares, and the rows that follow from it.

What is known of an upload follows from declarations alone. A cell decides about its own row and about nothing else: not
about a fact, not about a plan, not about whether a run is possible. What the cells look like is counted for the
uploader's eyes, in `notes`.
"""

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from dpviz.datasets.base import MAX_BOUND, DatasetFacts, DatasetSpecification, is_range
from dpviz.datasets.cells import as_number, class_label, classes, is_empty, numbers
from dpviz.datasets.files import MAX_COLUMNS, MAX_NAME, MAX_ROWS, MIN_ROWS, shown, too_few_rows
from dpviz.datasets.reading import Reading
from dpviz.errors import NotYet, UserError
from dpviz.specification import sentences

DISTINCT_CAP = 100
MAX_CLASSES_SHOWN = 20
IDENTITY = r"^[0-9a-f]{32}$"
Missing = Literal["fill", "drop"]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]


def new_identity() -> str:
    """What an uploaded table is called in settings and downloads: random, because a hash would tell its rows."""
    return secrets.token_hex(16)


@dataclass(frozen=True)
class ColumnInfo:
    """What a column holds, without any of its values. It looks at the data: for the uploader's eyes, not private."""

    name: str
    numeric: bool  # at least half of the cells that are not missing are numbers
    missing: int
    infinite: int
    distinct: int  # different values, missing ones aside; DISTINCT_CAP means "this many or more"
    repeated: int = field(default=0, compare=False)  # those that stand in more than one row

    @property
    def constant(self) -> bool:
        """Whether the column has at most one value, apart from one row."""
        return self.distinct <= 1 + (self.repeated == 1)


class UploadedTable(DatasetSpecification):
    """A table that the user uploaded: all that was declared of it. The array travels beside it.

    identity : random, drawn for each upload and choice of columns. n : rows; public.
    bounds, names : declared range and column of each feature.
    target, positive : the column to predict, and its class that counts as +1; every other class, and none, is -1.
    missing : "fill" puts the middle of the declared range where a feature has no finite number. "drop" leaves out rows
        without such a number or without a target; then n depends on the data, although it counts as public.
    reading : how the file was read; None as `read_table` reads it by itself.
    """

    kind: ClassVar[str] = "datasets.upload.table"
    title: ClassVar[str] = "Uploaded table"
    public: ClassVar[bool] = False
    identity: str = Field(pattern=IDENTITY)
    n: int = Field(ge=MIN_ROWS, le=MAX_ROWS)
    bounds: tuple[tuple[float, float], ...] = Field(min_length=1, max_length=MAX_COLUMNS)
    names: tuple[Name, ...]
    target: Name = "target"
    positive: Name = "1"
    missing: Missing = "fill"
    reading: Reading | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_ranges(self.names, self.bounds)
        return self

    def facts(self) -> DatasetFacts:
        return DatasetFacts(self.n, self.bounds, self.names)

    def rows(self, frame: pd.DataFrame) -> np.ndarray:
        """The array of a table, made by these declarations alone: (n, d + 1) float64, features and then labels -1, +1.

        Raises UserError for a column that is not there, and for another number of rows.
        """
        read = read_rows(frame, self.names, self.bounds, self.target, self.positive, self.missing)
        return of_size(read.table, self.n)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        table = tables.get(self.identity)
        if table is None or table.shape != (self.n, len(self.bounds) + 1) or table.dtype != np.float64:
            raise table_is_gone()
        return np.array(table[:, :-1], order="C"), table[:, -1].copy()


@dataclass(frozen=True, eq=False)
class Prepared:
    """An upload that is ready to use.

    Parameters
    ----------
    table : ndarray (n, d + 1), float64, read-only
        `specification.rows` of the file: the features, not yet clipped; the last column holds the labels, -1 or +1.
    specification : UploadedTable
        Load it with `{specification.identity: table}`.
    dropped : int
        Rows left out because of missing values.
    notes : tuple of str
        What looks odd in the file. It looks at the data: for the uploader's eyes, not private.
    """

    table: np.ndarray
    specification: UploadedTable
    dropped: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class RowsRead:
    """The rows of a file that are used.

    table : (kept, d + 1) float64, read-only. kept : (rows of the file,) bool. notes : as in `Prepared`.
    """

    table: np.ndarray
    kept: np.ndarray
    notes: tuple[str, ...]


def read_rows(
    frame: pd.DataFrame,
    names: Sequence[str],
    bounds: Sequence[tuple[float, float]],
    target: str | None,
    positive: str,
    missing: Missing,
) -> RowsRead:
    """Features and labels of a table by declarations alone; a target None stands for labels that are all 0.

    A cell without a finite number becomes the middle of its range, so that replacing one row changes one row of the
    result, whatever is in it; "drop" leaves such rows out, and rows without a target.
    """
    check_columns(frame, names if target is None else (*names, target))
    table = np.zeros((len(frame), len(names) + 1))
    gaps = np.zeros(len(frame), dtype=bool)
    holes, constant = {}, []
    for position, (name, (low, high)) in enumerate(zip(names, bounds, strict=True)):
        values = numbers(frame[name])
        unusable = ~np.isfinite(values)
        table[:, position] = np.where(unusable, (low + high) / 2, values)
        gaps |= unusable
        holes[name] = int(unusable.sum())
        if values.size and (values == values[0]).all():
            constant.append(shown(name))
    notes = [f"a column with one value only explains nothing and costs noise: {', '.join(constant)}"] * bool(constant)
    if target is not None:
        table[:, -1] = encode_target(frame[target], positive)
        untold = is_empty(frame[target])
        gaps |= untold
        notes += _target_notes(table[:, -1], int(untold.sum()) if missing == "fill" else 0, target, positive)
    filled = [f"{count:,} in {shown(name)}" for name, count in holes.items() if count]
    if missing == "fill" and filled:
        notes.append(f"cells without a finite number, which take the middle of the declared range: {_some(filled)}")
    kept = ~gaps if missing == "drop" else np.ones(len(frame), dtype=bool)
    table = table[kept]
    table.flags.writeable = False
    return RowsRead(table, kept, tuple(notes))


def _target_notes(labels: np.ndarray, untold: int, target: str, positive: str) -> list[str]:
    notes = [f"rows without a target, which count as the negative class: {untold:,}"] * bool(untold)
    if labels.size and abs(labels.sum()) == labels.size:
        count = "every row" if labels[0] > 0 else "no row"
        notes.append(
            f"{count} has the class {shown(positive)} in column {shown(target)}: there is nothing to tell apart"
        )
    return notes


def _some(parts: Sequence[str]) -> str:
    return ", ".join(parts[:8]) + (" and more" if len(parts) > 8 else "")


def of_size(table: np.ndarray, n: int) -> np.ndarray:
    """The table, if it has n rows. Raises UserError if it has not."""
    if len(table) != n:
        raise UserError(
            f"It has {len(table):,} rows that can be used, and these settings are for {n:,}. Choose the file that they "
            "were made for.",
            title="This is another table",
        )
    return table


def table_is_gone() -> UserError:
    """The error for an uploaded table that is not among the tables, or has another shape."""
    return UserError(
        "Upload the file again. Uploaded rows are kept in memory only and never become part of the settings.",
        title="The uploaded table is no longer here",
    )


def check_ranges(names: Sequence[str], bounds: Sequence[tuple[float, float]]) -> None:
    """Raise ValueError unless every name is there once and has a range."""
    if len(names) != len(bounds) or len(set(names)) < len(names):
        raise ValueError("every range needs the name of its own column")
    for name, (low, high) in zip(names, bounds, strict=True):
        if not is_range(low, high):
            raise ValueError(f"the range of column {shown(name)} must run from a smaller to a larger number")


def check_columns(frame: pd.DataFrame, names: Sequence[str]) -> None:
    """Raise UserError if the table lacks one of the columns."""
    unknown = next((name for name in names if name not in frame.columns), None)
    if unknown is not None:
        raise UserError("Choose the columns again.", title=f"The file has no column {shown(unknown)}")


def describe_columns(frame: pd.DataFrame) -> tuple[ColumnInfo, ...]:
    """What each column holds, for the choice of target and features. Looks at the data: not private."""
    return tuple(_described(str(name), frame[name]) for name in frame.columns)


def target_candidates(columns: Sequence[ColumnInfo]) -> tuple[str, ...]:
    """The columns that can be a target: those with two classes, then those with at most MAX_CLASSES_SHOWN.

    A class that stands in one row only does not count, so that this row alone proposes nothing else.
    """
    counts = _class_counts(columns)
    two = [name for name, count in counts.items() if count == 2]
    return (*two, *(name for name, count in counts.items() if 2 < count <= MAX_CLASSES_SHOWN))


def likely_target(columns: Sequence[ColumnInfo]) -> str | None:
    """The column to offer as the target: the last text with two classes, since tables end with it; then numbers."""
    counts = _class_counts(columns)
    two = sorted((column for column in columns if counts.get(column.name) == 2), key=lambda column: not column.numeric)
    return two[-1].name if two else next(iter(target_candidates(columns)), None)


def likely_group(columns: Sequence[ColumnInfo], target: str | None) -> str | None:
    """The column to offer for the groups: the text with the fewest classes that is not the target; then numbers."""
    counts = _class_counts(columns)
    usable = [c for c in columns if c.name != target and 2 <= counts.get(c.name, 0) <= MAX_CLASSES_SHOWN]
    ordered = sorted(usable, key=lambda column: (column.numeric, counts[column.name]))
    return ordered[0].name if ordered else None


def _class_counts(columns: Sequence[ColumnInfo]) -> dict[str, int]:
    """The number of classes, by column, without one that stands in a single row; no column with more of those."""
    return {column.name: column.repeated for column in columns if column.distinct <= column.repeated + 1}


def target_classes(series: pd.Series, most: int = MAX_CLASSES_SHOWN) -> tuple[str, ...]:
    """The classes of a target as text, in order; of more than `most`, the most frequent. Not private."""
    codes, labels = classes(series)
    counts = np.bincount(codes[codes >= 0], minlength=len(labels))
    frequent = sorted(zip(-counts, map(in_order, labels), labels, strict=True))
    usable = [label for _, _, label in frequent if len(label) <= MAX_NAME][:most]
    return tuple(sorted(usable, key=in_order))


def in_order(label: str) -> tuple[bool, float, str]:
    """A key that sorts classes: numbers by size, then texts."""
    value = as_number(label)
    return (True, 0.0, label) if math.isnan(value) else (False, value, label)


def likely_positive(series: pd.Series) -> str | None:
    """The last, in order, of the two most frequent classes: 1 of 0 and 1, "yes" of "no" and "yes". Not private.

    None if no cell names a class. It is the same whatever stands in one row, unless classes are about equally rare.
    """
    return next(reversed(target_classes(series, most=2)), None)


def encode_target(series: pd.Series, positive: str | None = None) -> np.ndarray:
    """Labels (n,): +1 where the series has the class `positive`, -1 elsewhere; None takes `likely_positive`."""
    codes, labels = classes(series)
    label = class_label(likely_positive(series) if positive is None else positive)
    return np.where(codes == labels.index(label), 1.0, -1.0) if label in labels else np.full(len(series), -1.0)


def prepare(
    frame: pd.DataFrame,
    target: str,
    positive: str | None,
    features: Sequence[str],
    bounds: Mapping[str, tuple[float, float]],
    drop_missing: bool = False,
    identity: str | None = None,
    reading: Reading | None = None,
) -> Prepared:
    """The chosen columns of a table from `read_table` as one array, and the specification that made it.

    Parameters
    ----------
    target, positive
        The target column, and the class of it that counts as +1. None takes it from the data: `likely_positive`.
    features : sequence of str
        Numeric columns (true/false counts as 1/0).
    bounds : mapping of column name to (low, high)
        The declared range of every feature. It must come from knowledge about the column, not from the file.
    drop_missing : bool
        Leave out the rows in which the target is missing or a feature is no finite number. The number of rows that
        remain counts as public, and depends on the data. Otherwise such cells are filled; see `UploadedTable`.
    identity : str, optional
        32 hexadecimal digits; random if None.
    reading : Reading, optional
        How the file was read, so that it can be read in the same way again.

    Raises UserError that names the column, for choices that cannot be used whatever the rows contain.
    """
    check_choice(frame, target, features, bounds)
    positive = likely_positive(frame[target]) if positive is None else positive
    if positive is None:
        raise UserError("It is empty. Choose another column.", title=f"Column {shown(target)} has no class")
    declared = tuple((float(bounds[name][0]), float(bounds[name][1])) for name in features)
    read = read_rows(frame, features, declared, target, positive, "drop" if drop_missing else "fill")
    check_rows(len(frame), len(read.table))
    with sentences(UploadedTable):
        specification = UploadedTable(
            identity=new_identity() if identity is None else identity,
            n=len(read.table),
            bounds=declared,
            names=tuple(features),
            target=target,
            positive=positive,
            missing="drop" if drop_missing else "fill",
            reading=reading,
        )
    return Prepared(read.table, specification, len(frame) - len(read.table), read.notes)


def check_rows(total: int, left: int) -> None:
    """Raise UserError if fewer than MIN_ROWS rows are left of the total."""
    if left < MIN_ROWS:
        raise too_few_rows(left, " are left" if left < total else "")


def suggested_bounds(frame: pd.DataFrame, columns: Sequence[str]) -> dict[str, tuple[float, float]]:
    """The minimum and maximum of numeric columns, rounded outwards: a hint for display, NOT private.

    They look at the data, so a range that is taken from here reveals something that no budget accounts for. Declare
    what is known of the column beforehand. Columns without a finite number are left out.
    """
    suggestions = {}
    for name in columns:
        values = numbers(frame[name])
        finite = values[np.isfinite(values)]
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
    values = numbers(series)
    missing, infinite = int(is_empty(series).sum()), int(np.isinf(values).sum())
    counts = series.iloc[:10_000].value_counts()  # enough to see that a column has many values, at little cost
    if len(counts) < DISTINCT_CAP:
        counts = series.value_counts()
    numeric = 0 < len(series) - missing <= 2 * int((~np.isnan(values)).sum())
    distinct, repeated = (min(int(count), DISTINCT_CAP) for count in ((counts > 0).sum(), (counts > 1).sum()))
    return ColumnInfo(name, numeric, missing, infinite if numeric else 0, distinct, repeated)


def check_choice(
    frame: pd.DataFrame, target: str | None, features: Sequence[str], bounds: Mapping[str, tuple[float, float]]
) -> None:
    """Raise UserError for features, a target and ranges that cannot be used, whatever the rows contain."""
    if not features:
        raise NotYet("Choose at least one numeric column.", title="No feature is chosen")
    check_columns(frame, features if target is None else (target, *features))
    if len(set(features)) < len(features):
        raise UserError("Choose every column once.", title="A feature is chosen twice")
    if target in features:
        raise UserError(
            "A feature that is the target itself makes the task trivial. Take it out of the features.",
            title=f"Column {shown(str(target))} is both target and feature",
        )
    for name in features:
        low, high = bounds.get(name, (math.nan, math.nan))
        if not is_range(low, high):
            undeclared = math.isnan(low) or math.isnan(high)
            raise (NotYet if undeclared else UserError)(
                f"The lowest value must be below the highest, and both between -{MAX_BOUND:g} and {MAX_BOUND:g}. "
                "Declare what is known of this column without looking at the file.",
                title=f"Column {shown(name)} needs a range",
            )
