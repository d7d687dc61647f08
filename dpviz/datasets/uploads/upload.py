"""Data sets from a user's table: the declarations of the user, and the rows that follow from them.

The facts of an upload follow from declarations alone. A cell decides about its own row and about nothing else: not
about a fact, not about a plan, not about the possibility of a run. Oddities of the cells are counted in `notes`, for
the uploader's eyes.
"""

import secrets
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from pydantic import Field, model_validator

from dpviz.datasets.base import Dataset, DatasetFacts, DatasetSpecification, is_range
from dpviz.datasets.uploads import limits, parsing
from dpviz.datasets.uploads.columns import encode_target
from dpviz.datasets.uploads.files import TableFile
from dpviz.datasets.uploads.limits import quote_name
from dpviz.datasets.uploads.parsing import column_numbers, is_empty
from dpviz.datasets.uploads.reading import Reading
from dpviz.errors import UserError
from dpviz.later import pd
from dpviz.numbers import short_up
from dpviz.people import rows_kept
from dpviz.specification import Specification

IDENTITY = r"^[0-9a-f]{32}$"
CONSTANT, CONSTANT_RANGE = "constant", (-1.0, 1.0)  # name and declared range of a feature that is 1 in every row
NO_CATEGORIES: Mapping[str, parsing.Declared] = MappingProxyType({})
MAX_ROWS_OF_A_PERSON = 1000
_LISTED = 8  # columns that a sentence lists
Missing = Literal["fill", "drop"]
MISSING: dict[str, str] = {  # what pages say of each
    "fill": "A missing value counts as the middle of its range.",
    "drop": "Rows with missing values were dropped: n depends on the data, **not private**.",
}
Name = Annotated[str, Field(min_length=1, max_length=limits.MAX_NAME)]
Cost = Annotated[float, Field(gt=0, le=50)]  # the ε of one release
# A mark says that a declaration, such as a range, was not known beforehand, but read from the rows of the upload: no
# budget pays for that. It stays with the declaration, in settings, links and files, until the user declares another
# value, or declares that this one was known beforehand. It is the kind of declaration, and its column.
MarkKind = Literal["bounds", "categories", "groups", "shares"]
Mark = tuple[MarkKind, Name]
ROWS = "the number of rows"
_PHRASES: dict[MarkKind, tuple[str, str]] = {  # for one column, and for several
    "bounds": ("the range of", "the ranges of"),
    "categories": ("the categories of", "the categories of"),
    "groups": ("the groups in", "the groups in"),
    "shares": ("the shares of the groups in", "the shares of the groups in"),
}
_NAMED, _LONGEST = 3, 30  # columns of a phrase that are named, and characters of a name, at most
_SIGNS = frozenset('"\\*<>$[]#`|~{}')  # characters with a meaning in Markdown, programs or HTML


def new_identity() -> str:
    """Draw the name of an uploaded table in settings and downloads: random, because a hash would depend on its rows."""
    return secrets.token_hex(16)


class Upload(Specification):
    """The declarations of an uploaded table. Its array is passed separately, in `tables`, under `identity`.

    A subclass declares the columns that it uses, and makes the array of them by `read`.

    identity : the name of the array in `tables`, drawn at random for each upload and choice of columns.
    n : number of used rows, which counts as public.
    reading : the declared way to read the file; None is `Reading()`.
    from_data : marks of the declarations that were read from the rows.
    ranges_costs : ε of every private release by which ranges were bought (`BoughtRanges`).
    person : the column that names the person of each row; None where every row is a person. Of each person at most
        `rows_per_person` rows are used. The names, and how many rows each has, count as public, like n; what the rows
        say does not, and all rows of a person are protected together. Rows without a name are those of one further
        person.
    """

    title: ClassVar[str] = "Uploaded table"
    public: ClassVar[bool] = False
    identity: str = Field(pattern=IDENTITY)
    n: int = Field(ge=limits.MIN_ROWS, le=limits.MAX_ROWS_IN_BLOCKS)
    reading: Reading | None = None
    from_data: tuple[Mark, ...] = Field((), max_length=3 * limits.MAX_COLUMNS)  # no column has more than three marks
    ranges_costs: tuple[Cost, ...] = Field((), max_length=100)
    person: Name | None = None
    rows_per_person: int = Field(1, ge=1, le=MAX_ROWS_OF_A_PERSON)

    @model_validator(mode="after")
    def _people_are_named(self) -> Self:
        if self.person is None and self.rows_per_person > 1:
            raise ValueError("name the column of the persons who have several rows")
        return self

    def __repr__(self) -> str:
        bought = f"; ranges bought for ε = {' + '.join(map(short_up, self.ranges_costs))}" if self.ranges_costs else ""
        people = "" if self.person is None else f", up to {self.rows_per_person:,} of each person by {self.person}"
        columns = f": {self._columns}" if self._columns else ""
        return f"<{type(self).__name__} of {self.n:,} rows{people}{columns}{bought}>"

    __str__ = __repr__

    @property
    def _columns(self) -> str:
        """The declared columns, in words."""
        return ""

    @property
    def read_from_rows(self) -> tuple[str, ...]:
        """Phrases that name the declarations which were read from the rows; no budget accounts for that.

        The number of rows is one of them where rows are left out because of missing values.
        """
        phrases = mark_phrases(self.from_data)
        drops_rows = getattr(self, "missing", "fill") == "drop"  # some kinds of uploads have no such field
        return (*phrases, ROWS) if drops_rows else phrases

    @property
    def costs(self) -> tuple[float, ...]:
        """The ε of every private release of the rows by which declarations were bought."""
        return self.ranges_costs

    def replaced(self, **changes: Any) -> Self:
        """Return a validated copy with some fields changed.

        With other people declared, other rows are used: the copy gets a new identity, unless `changes` has one.

        Raises UserError if declarations were bought by releases that do not protect the new people.
        """
        people = {"person": self.person, "rows_per_person": self.rows_per_person}
        if any(changes.get(field, value) != value for field, value in people.items()):
            changes = {"identity": new_identity()} | changes
        copy = super().replaced(**changes)
        if copy.costs:
            check_same_people(self.person, copy.person)
        return copy

    def carrying(self, rows: "np.ndarray | TableFile") -> Self:
        """Keep the rows as long as this object lives, so that a run finds them in `carried`; return the object."""
        _CARRIED[self] = rows
        return self

    @property
    def carried(self) -> Mapping[str, Any]:
        """The rows that `carrying` keeps for this object, or for an equal one that lives, by identity; else empty.

        Neither settings nor copies that are sent to another process have them.
        """
        rows = _CARRIED.get(self)
        return {} if rows is None else {self.identity: rows}

    def used_rows(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """Return the used rows of a whole table from `read_table`: at most `rows_per_person` of each person."""
        return limit_person_rows(frame, self.person, self.rows_per_person)

    @abstractmethod
    def read(self, frame: "pd.DataFrame") -> "RowsRead":
        """Make the array of a table from `read_table`, by these declarations alone, with notes about odd cells.

        The frame may have any number of rows, so that it may be one block of a file.

        Raises UserError for a column that is missing.
        """

    def rows(self, frame: "pd.DataFrame") -> np.ndarray:
        """Return the array (n, columns), read-only, that `read` makes of the rows of a table that are used.

        Raises UserError as `read` does, for another number of rows than n, and for a column declared as numbers in
        which there is none. Other odd cells make warnings.
        """
        result = self.read(self.used_rows(frame))
        check_size(len(result.table), self.n)
        if result.without_number:
            raise UserError(
                f"{', '.join(result.without_number)}: declare categories for texts, write 1 and 0 for yes and no, or "
                "leave the column out. As it is, it would be a constant.",
                title="A column of numbers has none",
            )
        for note in result.notes:
            warnings.warn(f"Not private, read off your rows: {note}.", stacklevel=2)
        return result.table

    def blocks(self, file: TableFile) -> Iterator[np.ndarray]:
        """Yield the array that `read` makes of a file, in blocks of rows in their order.

        Raises UserError as `read` does, for a declared `person`, whose rows may be in any block, and at the end for
        another number of rows than n.
        """
        if self.person is not None:
            raise too_big_for("people")
        count = 0
        for frame in file.blocks():
            block = self.read(frame).table
            count += len(block)
            # Not a block without used rows; and the rest of a file that is too long is only counted.
            if len(block) and count <= self.n:
                yield block
        check_size(count, self.n)

    def table(self, tables: Mapping[str, np.ndarray], columns: int, dtype: Any = np.float64) -> np.ndarray:
        """Return the array (n, columns) of this upload from `tables`, where a file is read as a whole.

        Raises UserError if it is missing, or has another shape or type.
        """
        table: Any = tables.get(self.identity)
        if isinstance(table, TableFile):
            table = np.concatenate([*self.blocks(table)])
        if table is None:
            raise UserError(
                "Upload the file again; in the library, declare it again by dpviz.table. Rows are kept in memory only, "
                "and never become part of the settings.",
                title="The uploaded table is no longer here",
            )
        if not (isinstance(table, np.ndarray) and table.shape == (self.n, columns) and table.dtype == dtype):
            raise UserError(
                f"An array of {np.dtype(dtype)} with the shape ({self.n}, {columns}) is needed, as from `data.rows`.",
                title="These rows do not fit the settings",
            )
        return table


_CARRIED: WeakKeyDictionary[Upload, np.ndarray | TableFile] = WeakKeyDictionary()


class UploadedTable(Upload, DatasetSpecification):
    """An uploaded table to predict a target from features.

    identity, n, reading : name of the array of rows, number of used rows, declared way to read the file.
    bounds, names : declared range and column of each numeric feature.
    categories, edges : the columns of declared categories, as in `CategoricalUpload`; each of their categories becomes
        a feature that is 0 or 1.
    target : the column to predict. positive : its class that counts as +1; other classes and missing cells are -1.
    target_range : the declared range of a target that is a number; None for one of two classes.
    missing : "fill" puts the middle of the declared range where a feature, or a target that is a number, has no finite
        value. "drop" leaves out rows without such a number or without a target; then n depends on the data, although it
        counts as public.
    constant : true to add a feature, the last numeric one, that is 1 in every row. Since 1 is the upper end of its
        range, it stays 1 if features are scaled to [0, 1] or [-1, 1]; it is clipped with the others.
    """

    kind: ClassVar[str] = "datasets.upload.table"
    bounds: tuple[tuple[float, float], ...] = Field(max_length=limits.MAX_COLUMNS)
    names: tuple[Name, ...]
    categories: parsing.Lists = Field((), max_length=limits.MAX_COLUMNS)
    edges: parsing.Edges = ()
    target: Name = "target"
    positive: Name = "1"
    target_range: tuple[float, float] | None = None
    missing: Missing = "fill"
    constant: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        limits.check_ranges(self.names, self.bounds)
        parsing.check_lists(self.categories, self.edges)
        if self.target_range is not None and not is_range(*self.target_range):
            raise ValueError("the range of the target must run from a smaller to a larger number")
        numeric = len(self.names) + self.constant
        limits.check_features(self.n, numeric, [(name, len(categories)) for name, categories in self.categories])
        self.facts()  # raises ValueError where two features would have one name
        return self

    @property
    def _columns(self) -> str:
        of_categories = [f"{name} with {len(texts)} categories" for name, texts in self.categories]
        columns = _join_first([*range_phrases(self.names, self.bounds), *of_categories])
        if self.target_range is None:
            values = f'positive "{self.positive}"'
        else:
            values = "in [{:g}, {:g}]".format(*self.target_range)
        text = f"{columns}; target {self.target}, {values}"
        return f"{text}; rows with missing values are left out" if self.missing == "drop" else text

    def facts(self) -> DatasetFacts:
        """Return the facts: first the numeric features, then the constant one, then one for each category."""
        bounds, names = self.bounds, self.names
        if self.constant:
            bounds, names = (*bounds, CONSTANT_RANGE), (*names, CONSTANT)
        category_features = [f"{name}: {category}" for name, categories in self.categories for category in categories]
        return DatasetFacts(
            n=self.n,
            bounds=(*bounds, *[(0.0, 1.0)] * len(category_features)),
            names=(*names, *category_features),
            blocks=tuple(len(categories) for _, categories in self.categories),
            target_range=self.target_range,
        )

    def read(self, frame: "pd.DataFrame") -> "RowsRead":
        """Make an array of the numeric features, a column for each column of categories, and the target.

        A categorical cell becomes the position of its category in the list; the target is -1 or +1, or a number.
        """
        result = read_rows(
            frame,
            self.names,
            self.bounds,
            self.target,
            self.positive,
            missing=self.missing,
            target_range=self.target_range,
        )
        limits.check_columns(frame, [name for name, _ in self.categories])
        if not self.categories:
            return result
        codes = parsing.encode_categories(frame, self.categories, self.edges)[result.is_used]
        table = np.column_stack([result.table[:, :-1], codes, result.table[:, -1]])
        table.flags.writeable = False
        unlisted = parsing.count_unlisted(codes, self.categories)
        phrases = [f"{count:,} in {quote_name(name)}" for name, count in unlisted.items() if count]
        notes = [f"rows in the category “{parsing.OTHER}”: {_join_first(phrases)}"] if phrases else []
        return replace(result, table=table, notes=(*result.notes, *notes))

    def parts(self, tables: Mapping[str, np.ndarray]) -> Iterator[Dataset]:
        """Yield the data set in blocks of rows if its table is a file, else as a whole."""
        file: Any = tables.get(self.identity)
        if not isinstance(file, TableFile):
            yield self.load(tables)
            return
        for block in self.blocks(file):
            # A copy is not validated: a block may have fewer rows than a table must have.
            yield self.model_copy(update={"n": len(block)}).load({self.identity: block})

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return features (n, d) and targets (n,), from the columns that `read` makes.

        Each column of positions of categories becomes a block of features that are 0 or 1.
        """
        numeric = len(self.bounds)
        table = self.table(tables, columns=numeric + len(self.categories) + 1)  # 1: the target
        features = np.zeros((self.n, self.facts().d))
        features[:, :numeric] = table[:, :numeric]
        start = numeric + self.constant  # behind the constant feature, if there is one
        features[:, numeric:start] = 1.0
        for (_, categories), codes in zip(self.categories, table[:, numeric:-1].T, strict=True):
            last = len(categories) - 1
            is_before_last = np.isin(codes, np.arange(last))
            positions = np.where(is_before_last, codes, last).astype(np.int64)  # a code of no category becomes the last
            features[np.arange(self.n), start + positions] = 1.0
            start += len(categories)
        return features, table[:, -1].copy()  # copied, as `enforced` may write into it


def mark_phrases(marks: Sequence[Mark]) -> tuple[str, ...]:
    """Return one phrase for each kind of mark, such as "the ranges of “age” and “income”"; plain text on one line."""
    names_by_kind: dict[MarkKind, list[str]] = {}
    for kind, name in marks:
        letters = (letter if letter.isprintable() and letter not in _SIGNS else " " for letter in name)
        line = " ".join("".join(letters).split())
        quoted = f"“{line if len(line) <= _LONGEST else line[: _LONGEST - 1] + '…'}”"
        names_by_kind.setdefault(kind, []).append(quoted)
    phrases = []
    for kind, names in names_by_kind.items():
        singular, plural = _PHRASES[kind]
        # "a", "a and b", "a, b and c", and from the fourth on "a, b, c and 1 more".
        entries = names[:_NAMED]
        if len(names) > _NAMED:
            entries.append(f"{len(names) - _NAMED} more")
        *earlier, last = entries
        enumeration = f"{', '.join(earlier)} and {last}" if earlier else last
        phrases.append(f"{plural if len(names) > 1 else singular} {enumeration}")
    return tuple(phrases)


U = TypeVar("U", bound=Upload)


@dataclass(frozen=True, eq=False)
class Prepared(Generic[U]):
    """An upload that is ready to use.

    Parameters
    ----------
    table : ndarray (n, columns), read-only
        The array that `specification.rows` makes of the file; numbers are not clipped yet.
    specification : Upload
        The declarations; load its rows with `specification.load({specification.identity: table})`.
    dropped : int
        Number of rows left out because of missing values.
    notes : tuple of str
        Sentences about odd cells of the file. They look at the data: for the uploader's eyes, not private.
    """

    table: np.ndarray
    specification: U
    dropped: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class RowsRead:
    """The rows of a file that are used.

    table : (used rows, columns), read-only.
    is_used : (rows of the file,) bool, true for the rows that are used.
    notes : as in `Prepared`.
    without_number : quoted names of the columns that are declared as numbers and have none.
    """

    table: np.ndarray
    is_used: np.ndarray
    notes: tuple[str, ...] = ()
    without_number: tuple[str, ...] = ()


def read_rows(
    frame: "pd.DataFrame",
    names: Sequence[str],
    bounds: Sequence[tuple[float, float]],
    target: str | None,
    positive: str,
    *,
    missing: Missing,
    target_range: tuple[float, float] | None = None,
) -> RowsRead:
    """Make features and labels of a table by declarations alone: an array (used rows, features + 1), the label last.

    names, bounds : column and declared range of each feature.
    target, positive : the target's column, and its class that becomes +1; without a target, all labels are 0.
    target_range : the declared range of a target that is a number; None for one of two classes.
    missing : with "fill", a cell without a finite number becomes the middle of its range, so that replacing one row of
        the file by any other changes one row of the result. "drop" leaves out such rows, and rows without a target.
    """
    limits.check_columns(frame, names if target is None else (*names, target))
    table = np.zeros((len(frame), len(names) + 1))
    has_gap = np.zeros(len(frame), dtype=bool)
    columns = list(zip(names, bounds, strict=True))
    if target is not None and target_range is not None:
        columns.append((target, target_range))  # at the position of the label
    unusable_counts: dict[str, int] = {}
    constant_names: list[str] = []  # quoted, like the next ones
    empty_names: list[str] = []
    for position, (name, (low, high)) in enumerate(columns):
        values = column_numbers(frame[name])
        is_unusable = ~np.isfinite(values)
        table[:, position] = np.where(is_unusable, (low + high) / 2, values)
        has_gap |= is_unusable
        unusable_counts[name] = int(is_unusable.sum())
        if name != target and values.size and is_unusable.all():  # only features are named in these notes
            empty_names.append(quote_name(name))
        if name != target and values.size and (values == values[0]).all():
            constant_names.append(quote_name(name))
    notes = []
    if constant_names:
        notes.append(f"a column with one value only explains nothing and costs noise: {', '.join(constant_names)}")
    if empty_names:
        notes.append(
            "a column without any number becomes a constant; declare categories for texts, write 1 and 0 for yes and "
            f"no: {', '.join(empty_names)}"
        )
    if target is not None and target_range is None:
        table[:, -1] = encode_target(frame[target], positive)
        is_missing = is_empty(frame[target])
        has_gap |= is_missing
        negative_by_default = int(is_missing.sum()) if missing == "fill" else 0
        notes += _target_notes(table[:, -1], negative_by_default, target, positive)
    filled = [f"{count:,} in {quote_name(name)}" for name, count in unusable_counts.items() if count]
    if missing == "fill" and filled:
        notes.append(
            f"cells without a finite number, which take the middle of the declared range: {_join_first(filled)}"
        )
    is_kept = ~has_gap if missing == "drop" else np.ones(len(frame), dtype=bool)
    table = table[is_kept]
    table.flags.writeable = False
    return RowsRead(table, is_kept, tuple(notes), without_number=tuple(empty_names))


def _target_notes(labels: np.ndarray, negative_by_default: int, target: str, positive: str) -> list[str]:
    """Return notes about labels ±1: that `negative_by_default` of them were missing cells, and that all are equal."""
    notes = []
    if negative_by_default:
        notes.append(f"rows without a target, which count as the negative class: {negative_by_default:,}")
    if labels.size and abs(labels.sum()) == labels.size:  # all are +1, or all -1
        count = "every row" if labels[0] > 0 else "no row"
        notes.append(
            f"{count} has the class {quote_name(positive)} in column {quote_name(target)}: there is nothing to tell "
            "apart"
        )
    return notes


def _join_first(phrases: Sequence[str]) -> str:
    """Join phrases about columns, of which a sentence has at most _LISTED."""
    return ", ".join(phrases[:_LISTED]) + (" and more" if len(phrases) > _LISTED else "")


def range_phrases(names: Sequence[str], bounds: Sequence[tuple[float, float]]) -> list[str]:
    """Return each column with its range, as text; `class_label` writes 5.0 as "5"."""
    return [
        f"{name} in [{parsing.class_label(low)}, {parsing.class_label(high)}]"
        for name, (low, high) in zip(names, bounds, strict=True)
    ]


def limit_person_rows(frame: "pd.DataFrame", person: str | None, rows_per_person: int) -> "pd.DataFrame":
    """Return at most `rows_per_person` rows of each person of a table, in their order; all rows without a `person`.

    The choice for a person depends on the name and on the number of their rows alone (`rows_kept`). Raises UserError if
    there is no column `person`.
    """
    if person is None:
        return frame
    limits.check_columns(frame, (person,))
    codes, names = parsing.encode_classes(frame[person])
    people = np.array([*names, ""], dtype=object)[codes]  # code -1, a row without a name, takes the last entry
    return frame.iloc[rows_kept(people, rows_per_person)].reset_index(drop=True)


def check_size(count: int, n: int) -> None:
    """Raise UserError unless the `count` used rows of a file are the n rows that its settings were made for."""
    if count != n:
        raise UserError(
            f"It has {count:,} rows that can be used, and these settings are for {n:,}. Choose the file that they were "
            "made for.",
            title="This is another table",
        )


def check_same_people(old: str | None, new: str | None) -> None:
    """Raise UserError if facts bought for the people by column `old` do not protect those by `new`.

    None stands for single rows, which any bought facts protect.
    """
    if new not in (None, old):
        raise UserError(
            f"Facts of the rows were bought at a cost that is not that of the people by {quote_name(new)}. "
            "Buy them for these people, or declare them.",
            title="Somebody else was protected before",
        )


def too_big_for(what: str) -> UserError:
    """Return the error for a file that is read in blocks, although its declarations of `what` need the whole file."""
    return UserError(
        f"With {what} a file is read as a whole: at most 50 MB, and a million rows.", title="This file is too big"
    )


def prepare(
    frame: "pd.DataFrame",
    target: str,
    positive: str | None,
    features: Sequence[str],
    bounds: Mapping[str, tuple[float, float]],
    *,
    drop_missing: bool = False,
    identity: str | None = None,
    reading: Reading | None = None,
    categories: Mapping[str, parsing.Declared] = NO_CATEGORIES,
    target_range: tuple[float, float] | None = None,
    constant: bool = False,
    person: str | None = None,
    rows_per_person: int = 1,
) -> Prepared[UploadedTable]:
    """Prepare columns of a table from `read_table`: as one array, with the specification that made it.

    Parameters
    ----------
    target, positive
        The target column, and the class of it that counts as +1; None only for a target that is a number.
    features : sequence of str
        Numeric columns (true/false counts as 1/0).
    bounds : mapping of column name to (low, high)
        The declared range of every feature. It must come from knowledge of the column, not from the file.
    drop_missing : bool
        Leave out the rows in which the target is missing or a feature is no finite number. The number of rows that
        remain counts as public, and depends on the data. Otherwise such cells are filled; see `UploadedTable`.
    identity, reading : optional
        The name of the table, 32 hexadecimal digits, random if None. The declared reading of the file, stored so that
        the file can be read in the same way again; None is `Reading()`.
    categories : mapping of column name to declared categories
        Further columns, as in `prepare_categories`: each category becomes a feature that is 0 or 1.
    target_range, constant
        The declared range of a target that is a number, which has no positive class; true to add a feature that is 1 in
        every row. See `UploadedTable`.
    person, rows_per_person
        The column that names the person of each row, and how many rows of each are kept at most; see `Upload`.

    Raises UserError that names the column, for choices that cannot be used with any rows.
    """
    limits.check_choice(frame, target, columns=[*features, *categories], numeric=features, bounds=bounds)
    limits.check_id_column(frame, what="person", column=person, target=target, features=[*features, *categories])
    if target_range is None:
        limits.check_positive(positive)
    if target_range is not None and not is_range(*target_range):
        raise limits.no_range(target, target_range)
    lists, edges = parsing.category_lists(categories)
    limits.check_features(len(frame), len(features), [(name, len(texts)) for name, texts in lists])
    return prepare_upload(
        UploadedTable,
        frame,
        identity,
        bounds=ranges_of(features, bounds),
        names=tuple(features),
        categories=lists,
        edges=edges,
        target=target,
        positive=positive or "1",  # for a target that is a number any text will do
        target_range=target_range,
        missing="drop" if drop_missing else "fill",
        reading=reading,
        constant=constant,
        person=person,
        rows_per_person=rows_per_person,
    )


def ranges_of(names: Sequence[str], bounds: Mapping[str, tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Return the declared ranges of the columns `names`, in their order."""
    return tuple((float(bounds[name][0]), float(bounds[name][1])) for name in names)


def prepare_upload(cls: type[U], frame: "pd.DataFrame", identity: str | None, **declared: Any) -> Prepared[U]:
    """Make an upload of class `cls` with the declarations, and read the rows of a table from `read_table` by it.

    Raises UserError for declarations that do not go together, and for fewer than MIN_ROWS rows.
    """
    limits.check_rows(len(frame), remaining=len(frame))  # first, as `cls` accepts no smaller n
    upload = cls(identity=new_identity() if identity is None else identity, n=len(frame), **declared)
    used_rows = upload.used_rows(frame)
    result = upload.read(used_rows)
    n = len(result.table)  # fewer than the rows of the file where rows are left out
    limits.check_rows(len(frame), remaining=n)
    notes = []
    beyond_limit = len(frame) - len(used_rows)
    if beyond_limit:
        notes.append(f"rows left out, as a person has more than {upload.rows_per_person:,}: {beyond_limit:,}")
    nameless = 0 if upload.person is None else int(is_empty(frame[upload.person]).sum())
    if nameless:
        notes.append(f"rows without a person, which count as the rows of one: {nameless:,}")
    return Prepared(result.table, upload.replaced(n=n), dropped=len(used_rows) - n, notes=(*notes, *result.notes))
