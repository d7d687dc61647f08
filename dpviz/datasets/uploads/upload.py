"""From a user's table to a data set: what the user declares, and the rows that follow from it.

What is known of an upload follows from declarations alone. A cell decides about its own row and about nothing else: not
about a fact, not about a plan, not about whether a run is possible. What the cells look like is counted for the
uploader's eyes, in `notes`.
"""

import math
import secrets
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from dpviz.datasets.base import MAX_BOUND, DatasetFacts, DatasetSpecification, is_range
from dpviz.datasets.uploads.columns import encode_target
from dpviz.datasets.uploads.from_data import ROWS, Mark, in_words
from dpviz.datasets.uploads.limits import MAX_COLUMNS, MAX_NAME, MAX_ROWS, MIN_ROWS, shown, too_few_rows
from dpviz.datasets.uploads.lists import (
    OTHER,
    Declared,
    Edges,
    Lists,
    check_lists,
    declared_lists,
    list_codes,
    unlisted,
)
from dpviz.datasets.uploads.parsing import is_empty, numbers
from dpviz.datasets.uploads.reading import Reading
from dpviz.errors import NotYet, UserError
from dpviz.numbers import short
from dpviz.specification import Specification, sentences

MAX_FEATURES = 500  # with one for each category
MAX_CELLS = 50_000_000  # rows × features, where categories make features: 400 MB
IDENTITY = r"^[0-9a-f]{32}$"
UNDECLARED = (math.nan, math.nan)
CONSTANT, CONSTANT_RANGE = "constant", (-1.0, 1.0)
NO_CATEGORIES: Mapping[str, Declared] = MappingProxyType({})
Missing = Literal["fill", "drop"]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]


def new_identity() -> str:
    """What an uploaded table is called in settings and downloads: random, because a hash would tell its rows."""
    return secrets.token_hex(16)


class Upload(Specification):
    """A table that the user uploaded: all that was declared of it. The array travels beside it.

    identity : random, drawn for each upload and choice of columns. n : rows; public.
        reading : how the file is read, as declared; None is `Reading()`.
    from_data : which of the declarations were read from the rows.
    """

    title: ClassVar[str] = "Uploaded table"
    public: ClassVar[bool] = False
    identity: str = Field(pattern=IDENTITY)
    n: int = Field(ge=MIN_ROWS, le=MAX_ROWS)
    reading: Reading | None = None
    from_data: tuple[Mark, ...] = Field((), max_length=3 * MAX_COLUMNS)

    @property
    def read_from_rows(self) -> tuple[str, ...]:
        """As of a `DataSpecification`. How many rows are left, where some were left out for what is in them, too."""
        return (*in_words(self.from_data), *[ROWS] * (getattr(self, "missing", "fill") == "drop"))

    @abstractmethod
    def rows(self, frame: pd.DataFrame) -> np.ndarray:
        """The array of a table from `read_table`, made by these declarations alone; (n, columns), read-only.

        Raises UserError for a column that is not there, and for another number of rows.
        """

    def table(self, tables: Mapping[str, np.ndarray], columns: int, dtype: Any = np.float64) -> np.ndarray:
        """Its array (n, columns) among `tables`. Raises UserError if it is not there, or not the one that was made."""
        table = tables.get(self.identity)
        if table is None or table.shape != (self.n, columns) or table.dtype != dtype:
            raise table_is_gone()
        return table


class UploadedTable(Upload, DatasetSpecification):
    """An uploaded table to predict a target from features.

    identity, n, reading : as in `Upload`.
    bounds, names : declared range and column of each numeric feature.
    categories, edges : the columns of declared categories, as in `CategoricalUpload`; each makes a feature of every
        category.
    target : the column to predict. positive : its class that counts as +1; every other class, and none, is -1.
    target_range : the declared range of a target that is a number; None for one of two classes.
    missing : "fill" puts the middle of the declared range where a feature, or a target that is a number, has no finite
        one. "drop" leaves out rows without such a number or without a target; then n depends on the data, although it
        counts as public.
    constant : whether there is a further feature, the last numeric one, that is 1 in every row: at the upper end of its
        range, it stays 1 however features are scaled to [0, 1] or [-1, 1], and is clipped with the others.
    """

    kind: ClassVar[str] = "datasets.upload.table"
    bounds: tuple[tuple[float, float], ...] = Field(max_length=MAX_COLUMNS)
    names: tuple[Name, ...]
    categories: Lists = Field((), max_length=MAX_COLUMNS)
    edges: Edges = ()
    target: Name = "target"
    positive: Name = "1"
    target_range: tuple[float, float] | None = None
    missing: Missing = "fill"
    constant: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_ranges(self.names, self.bounds)
        check_lists(self.categories, self.edges)
        if self.target_range is not None and not is_range(*self.target_range):
            raise ValueError("the range of the target must run from a smaller to a larger number")
        numeric = len(self.names) + self.constant
        check_features(self.n, numeric, [(name, len(categories)) for name, categories in self.categories])
        return self

    def facts(self) -> DatasetFacts:
        features = [f"{name}: {category}" for name, categories in self.categories for category in categories]
        return DatasetFacts(
            self.n,
            (*self.bounds, *[CONSTANT_RANGE] * self.constant, *[(0.0, 1.0)] * len(features)),
            (*self.names, *[CONSTANT] * self.constant, *features),
            tuple(len(categories) for _, categories in self.categories),
            self.target_range,
        )

    def rows(self, frame: pd.DataFrame) -> np.ndarray:
        """Numeric features, the place of every category in its list, and the target: -1 or +1, or a number."""
        return of_size(self.read(frame).table, self.n)

    def read(self, frame: pd.DataFrame) -> "RowsRead":
        """The rows of a table, however many they are, and what looks odd in them."""
        read = read_rows(frame, self.names, self.bounds, self.target, self.positive, self.missing, self.target_range)
        check_columns(frame, [name for name, _ in self.categories])
        if not self.categories:
            return read
        codes = list_codes(frame, self.categories, self.edges)[read.kept]
        table = np.column_stack([read.table[:, :-1], codes, read.table[:, -1]])
        table.flags.writeable = False
        return RowsRead(table, read.kept, (*read.notes, *_other_notes(unlisted(codes, self.categories))))

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        numeric = len(self.bounds)
        table = self.table(tables, numeric + len(self.categories) + 1)
        features = np.zeros((self.n, self.facts().d))
        features[:, :numeric] = table[:, :numeric]
        start = numeric + self.constant
        features[:, numeric:start] = 1.0
        for (_, categories), place in zip(self.categories, table[:, numeric:-1].T, strict=True):
            last = len(categories) - 1
            listed = np.isin(place, np.arange(last))
            features[np.arange(self.n), start + np.where(listed, place, last).astype(np.int64)] = 1.0
            start += len(categories)
        return features, table[:, -1].copy()


U = TypeVar("U", bound=Upload)


@dataclass(frozen=True, eq=False)
class Prepared(Generic[U]):
    """An upload that is ready to use.

    Parameters
    ----------
    table : ndarray (n, columns), read-only
        `specification.rows` of the file; numbers are not yet clipped.
    specification : Upload
        Load it with `{specification.identity: table}`.
    dropped : int
        Rows left out because of missing values.
    notes : tuple of str
        What looks odd in the file. It looks at the data: for the uploader's eyes, not private.
    """

    table: np.ndarray
    specification: U
    dropped: int = 0
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
    target_range: tuple[float, float] | None = None,
) -> RowsRead:
    """Features and labels of a table by declarations alone; a target None stands for labels that are all 0, a target
    with a range for one that is a number.

    A cell without a finite number becomes the middle of its range, so that replacing one row changes one row of the
    result, whatever is in it; "drop" leaves such rows out, and rows without a target.
    """
    check_columns(frame, names if target is None else (*names, target))
    table = np.zeros((len(frame), len(names) + 1))
    gaps = np.zeros(len(frame), dtype=bool)
    columns = list(zip(names, bounds, strict=True))
    if target is not None and target_range is not None:
        columns.append((target, target_range))
    holes, constant = {}, []
    for position, (name, (low, high)) in enumerate(columns):
        values = numbers(frame[name])
        unusable = ~np.isfinite(values)
        table[:, position] = np.where(unusable, (low + high) / 2, values)
        gaps |= unusable
        holes[name] = int(unusable.sum())
        if name != target and values.size and (values == values[0]).all():
            constant.append(shown(name))
    notes = [f"a column with one value only explains nothing and costs noise: {', '.join(constant)}"] * bool(constant)
    if target is not None and target_range is None:
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


def _other_notes(counts: Mapping[str, int]) -> list[str]:
    most = [f"{count:,} in {shown(name)}" for name, count in counts.items() if count]
    return [f"rows in the category “{OTHER}”: {_some(most)}"] * bool(most)


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


def prepare(
    frame: pd.DataFrame,
    target: str,
    positive: str | None,
    features: Sequence[str],
    bounds: Mapping[str, tuple[float, float]],
    drop_missing: bool = False,
    identity: str | None = None,
    reading: Reading | None = None,
    *,
    categories: Mapping[str, Declared] = NO_CATEGORIES,
    target_range: tuple[float, float] | None = None,
    constant: bool = False,
) -> Prepared[UploadedTable]:
    """The chosen columns of a table from `read_table` as one array, and the specification that made it.

    Parameters
    ----------
    target, positive
        The target column, and the class of it that counts as +1; None with a target that is a number, only.
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
        How the file was read, as declared, so that it is read in the same way again; None is `Reading()`.
    categories : mapping of column name to declared categories
        Further columns, as in `prepare_categories`: each category becomes a feature that is 0 or 1.
    target_range : (low, high), optional
        The declared range of a target that is a number; then there is no positive class.
    constant : bool
        Add a feature that is 1 in every row; see `UploadedTable`.

    Raises UserError that names the column, for choices that cannot be used whatever the rows contain.
    """
    check_choice(frame, target, [*features, *categories], features, bounds)
    if target_range is None:
        check_positive(positive)
    if target_range is not None and not is_range(*target_range):
        raise _no_range(target, target_range)
    declared = tuple((float(bounds[name][0]), float(bounds[name][1])) for name in features)
    lists, edges = declared_lists(categories)
    check_features(len(frame), len(declared), [(name, len(found)) for name, found in lists])
    check_rows(len(frame), len(frame))
    with sentences(UploadedTable):
        whole = UploadedTable(
            identity=new_identity() if identity is None else identity,
            n=len(frame),
            bounds=declared,
            names=tuple(features),
            categories=lists,
            edges=edges,
            target=target,
            positive=positive or "1",
            target_range=target_range,
            missing="drop" if drop_missing else "fill",
            reading=reading,
            constant=constant,
        )
    read = whole.read(frame)
    check_rows(len(frame), len(read.table))
    return Prepared(read.table, whole.replaced(n=len(read.table)), len(frame) - len(read.table), read.notes)


def check_positive(positive: str | None) -> None:
    """Raise UserError unless a class is named: a guess from the file would not be private."""
    if positive is None or not positive.strip():
        raise NotYet("Choose the class of the target that counts as yes.", title="No positive class is chosen")


def check_rows(total: int, left: int) -> None:
    """Raise UserError if fewer than MIN_ROWS rows are left of the total."""
    if left < MIN_ROWS:
        raise too_few_rows(left, " are left" if left < total else "")


def check_features(n: int, numeric: int, categories: Sequence[tuple[str, int]]) -> None:
    """Raise UserError if n rows cannot have so many features: numeric ones, and one per category of (name, number)."""
    d = numeric + sum(size for _, size in categories)
    if d == 0:
        raise NotYet("Choose at least one column.", title="No feature is chosen")
    if categories and (d > MAX_FEATURES or n * d > MAX_CELLS):
        name, size = max(categories, key=lambda column: column[1])
        most = min(MAX_FEATURES, MAX_CELLS // n)
        raise UserError(
            f"Every category makes a feature, and {n:,} rows can have {most:,} of them. Column {shown(name)} alone has "
            f"{size:,} categories: merge some, or leave the column out.",
            title=f"The columns make {d:,} features",
        )


def check_choice(
    frame: pd.DataFrame,
    target: str | None,
    columns: Sequence[str],
    numeric: Sequence[str],
    bounds: Mapping[str, tuple[float, float]],
) -> None:
    """Raise UserError for a target, columns of features, and ranges of the numeric ones that cannot be used, whatever
    the rows contain."""
    if not columns:
        raise NotYet("Choose at least one numeric column.", title="No feature is chosen")
    check_columns(frame, columns if target is None else (target, *columns))
    if len(set(columns)) < len(columns):
        raise UserError("Choose every column once.", title="A feature is chosen twice")
    if target in columns:
        raise UserError(
            "A feature that is the target itself makes the task trivial. Take it out of the features.",
            title=f"Column {shown(str(target))} is both target and feature",
        )
    for name in numeric:
        if not is_range(*bounds.get(name, UNDECLARED)):
            raise _no_range(name, bounds.get(name, UNDECLARED))


def _no_range(name: str, found: tuple[float, float]) -> UserError:
    """The error for a column without a range that can be used."""
    return (NotYet if any(map(math.isnan, found)) else UserError)(
        f"The lowest value must be below the highest, and both between {short(-MAX_BOUND)} and {short(MAX_BOUND)}. "
        "Declare what is known of this column without looking at the file.",
        title=f"Column {shown(name)} needs a range",
    )
