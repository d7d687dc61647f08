"""Categorical tables, whose columns each take one of a declared list of categories: generated, bundled, and chosen
columns of an upload.

The lists are declared, never read from the rows: the existence of a category must not reveal a row of the table.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from dpviz import resources
from dpviz.datasets.base import MAX_BOUND, RowsSpecification, rows_field, seed_field
from dpviz.datasets.bundled import DECLARED
from dpviz.datasets.uploads import parsing
from dpviz.datasets.uploads.columns import class_sort_key
from dpviz.datasets.uploads.limits import MAX_COLUMNS, MAX_NAME, check_columns, check_id_column, check_rows, quote_name
from dpviz.datasets.uploads.parsing import as_number, encode_classes
from dpviz.datasets.uploads.reading import Reading
from dpviz.datasets.uploads.upload import Prepared, RowsRead, Upload, prepare_upload
from dpviz.errors import MissingInput, UserError
from dpviz.later import pd, pyarrow

Columns = tuple[tuple[str, tuple[str, ...]], ...]  # (name, categories) of every column


@dataclass(frozen=True)
class CategoricalFacts:
    """Public facts of a categorical table, known without its rows.

    n : number of rows; public.
    columns : (name, categories) of every column. The domain Z is the product of the lists; its points are counted in
        C order: the last column changes fastest.
    """

    n: int
    columns: Columns

    @property
    def d(self) -> int:
        """Number of columns."""
        return len(self.columns)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of categories of each column."""
        return tuple(len(categories) for _, categories in self.columns)

    @property
    def domain_size(self) -> int:
        """|Z|, the number of combinations of categories."""
        return math.prod(self.sizes)

    def decode(self, indices: np.ndarray) -> "pd.DataFrame":
        """Return the rows at the domain points `indices` (m,): a column of categories for each column of the table."""
        codes = np.unravel_index(np.asarray(indices), self.sizes)
        return pd.DataFrame(
            {
                name: pd.Categorical.from_codes(code, categories=list(categories))
                for code, (name, categories) in zip(codes, self.columns, strict=True)
            }
        )


@dataclass(frozen=True, eq=False)
class CategoricalTable:
    """A loaded table.

    codes : (n, columns) int16, read-only; codes[i, c] is the position of row i's category in the list of column c.
    """

    codes: np.ndarray
    facts: CategoricalFacts

    @cached_property
    def indices(self) -> np.ndarray:
        """The number of every row's combination of categories in the domain Z; (n,) int64, read-only."""
        indices = np.ravel_multi_index(tuple(self.codes.T.astype(np.int64)), self.facts.sizes)
        indices.flags.writeable = False
        return indices

    @cached_property
    def histogram(self) -> np.ndarray:
        """p_S, the share of rows at every point of the domain; (|Z|,) float64, read-only, sums to 1."""
        histogram = np.bincount(self.indices, minlength=self.facts.domain_size) / self.facts.n
        histogram.flags.writeable = False
        return histogram


class CategoricalSpecification(RowsSpecification[CategoricalFacts, CategoricalTable]):
    """A source of a table of categories. Its raw rows are integer codes (n, columns): positions in the lists."""

    declared_by: ClassVar[str] = "dpviz.table(…, categories=…)"

    def enforced(self, facts: CategoricalFacts, *rows: np.ndarray) -> CategoricalTable:
        """Return the table; a code outside its list becomes the list's last category."""
        (codes,) = rows
        last = np.array(facts.sizes) - 1
        codes = np.where((codes < 0) | (codes > last), last, codes).astype(np.int16)
        codes.flags.writeable = False
        return CategoricalTable(codes, facts)


MAX_DOMAIN = 50_000  # combinations of categories: a strategy is a probability for each of them
_SUGGESTED = 12  # categories in a suggested list, at most


class CategoricalGenerator(CategoricalSpecification):
    """A made-up survey, |Z| = 480: people of three kinds give five answers, independent given the kind.

    Drawn from `default_rng(seed)`: for each column and kind the probabilities of the answers (Dirichlet(0.6)), then
    the kind of every person (shares 0.5, 0.3, 0.2), then one uniform number per answer.
    """

    kind: ClassVar[str] = "datasets.categories.generator"
    title: ClassVar[str] = "Made-up survey (480 combinations)"
    public: ClassVar[bool] = True
    rows: int = rows_field(10_000, 200, 1_000_000)
    seed: int = seed_field()

    def facts(self) -> CategoricalFacts:
        return CategoricalFacts(self.rows, _SURVEY)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray]:
        """Draw the codes (n, columns) of all answers."""
        generator = np.random.default_rng(self.seed)
        # One array (kinds, answers) per column: the cumulative probabilities of its answers for each kind of person.
        distributions = [
            generator.dirichlet(np.full(len(answers), 0.6), len(_KINDS)).cumsum(axis=1) for _, answers in _SURVEY
        ]
        kinds = generator.choice(len(_KINDS), self.rows, p=_KINDS)
        codes = np.empty((self.rows, len(_SURVEY)), dtype=np.int16)
        for column, cumulative in enumerate(distributions):
            uniforms = generator.random((self.rows, 1))
            upper_ends = cumulative[kinds, :-1]  # (n, answers - 1): of the intervals of all answers but the last
            codes[:, column] = (uniforms >= upper_ends).sum(axis=1)  # the answer in whose interval the number lies
        return (codes,)


_KINDS = (0.5, 0.3, 0.2)  # shares of the three kinds of people
_SURVEY: Columns = tuple((name, tuple(categories)) for name, categories in DECLARED["survey"].items())


class CategoricalBundled(CategoricalSpecification):
    """The health insurance table in categories, |Z| = 2000. A row is one person's year, and a year is protected.

    The lists follow from the meaning of the columns (data/README.md), not from the rows.
    """

    kind: ClassVar[str] = "datasets.categories.bundled"
    title: ClassVar[str] = "Health insurance (20,190 rows, 2,000 combinations)"
    public: ClassVar[bool] = True

    def facts(self) -> CategoricalFacts:
        columns = [(name, categories) for name, _, _, categories in _INSURANCE]
        return CategoricalFacts(DECLARED["health_insurance"]["rows"], (*columns, _HEALTH))

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray]:
        """Return the codes (n, columns): each source column is cut into categories at its edges."""
        frame = pyarrow.parquet.read_table(resources.data_file("health_insurance.parquet")).to_pandas()
        codes = [np.digitize(frame[source], edges) for _, source, edges, _ in _INSURANCE]
        # Health is good, fair or poor where one of these columns is 1, and excellent where all are 0.
        codes.append(frame[["hlthg", "hlthf", "hlthp"]].to_numpy(dtype=np.int64) @ np.array([1, 2, 3]))
        return (np.stack(codes, axis=1),)


# For each column: its name, its source in the file, the smallest value of every category but the first, and the
# categories. Where the file holds ln(value + 1), the edges are transformed likewise.
_INSURANCE: tuple[tuple[str, str, tuple[float, ...], tuple[str, ...]], ...] = tuple(
    (
        column["name"],
        column["source"],
        tuple(map(math.log1p, column["edges"])) if "in_logarithms" in column else tuple(column["edges"]),
        tuple(column["categories"]),
    )
    for column in DECLARED["insurance"]
)
_HEALTH = ("health", ("excellent", "good", "fair", "poor"))


class CategoricalUpload(Upload, CategoricalSpecification):
    """Some columns of an uploaded table, in declared categories. The array of codes is passed to `load` separately.

    identity, n, reading : name of the array of rows, number of used rows, declared way to read the file.
    columns : (name, categories) of every column; the last category, "other" if `prepare_categories` made the upload,
        takes missing values and all that are not listed.
    edges : (name, edges) of the numeric columns whose categories are ranges between edges; see `Bins`.
    """

    kind: ClassVar[str] = "datasets.categories.upload"
    columns: parsing.Lists = Field(min_length=1, max_length=MAX_COLUMNS)
    edges: parsing.Edges = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        parsing.check_lists(self.columns, self.edges)
        check_domain({name: len(categories) for name, categories in self.columns})
        return self

    @property
    def _columns(self) -> str:
        return ", ".join(f"{name} with {len(texts)} categories" for name, texts in self.columns)

    def facts(self) -> CategoricalFacts:
        return CategoricalFacts(self.n, self.columns)

    def read(self, frame: "pd.DataFrame") -> RowsRead:
        """Return the codes (n, columns), int16, of all rows of a table; no row is left out."""
        check_columns(frame, [name for name, _ in self.columns])
        codes = parsing.encode_categories(frame, self.columns, self.edges)
        return RowsRead(codes, is_used=np.ones(len(frame), dtype=bool))

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray]:
        return (self.table(tables, columns=len(self.columns), dtype=np.int16),)


@dataclass(frozen=True, eq=False)
class PreparedCategories(Prepared[CategoricalUpload]):
    """An upload that is ready to use.

    unlisted : for each column, the number of rows whose cell is missing or not listed, which became "other". It looks
        at the data: for the uploader's eyes, not private.
    """

    unlisted: Mapping[str, int] = field(default_factory=dict)


def check_domain(sizes: Mapping[str, int]) -> None:
    """Raise UserError if columns of these sizes have more than MAX_DOMAIN combinations of categories.

    The error names the largest columns, without which the others fit. sizes : the number of categories of each column,
    with "other".
    """
    combinations = remaining = math.prod(sizes.values())
    drop = []
    for name in sorted(sizes, key=sizes.__getitem__, reverse=True):
        if remaining <= MAX_DOMAIN:
            break
        drop.append(f"{quote_name(name)} ({sizes[name]:,} categories)")
        remaining //= sizes[name]
    if drop:
        raise UserError(
            f"At most {MAX_DOMAIN:,} can be used. Leave out {' and '.join(drop)}, or merge categories.",
            title=f"The columns have {combinations:,} combinations",
        )


def prepare_categories(
    frame: "pd.DataFrame",
    columns: Mapping[str, parsing.Declared],
    identity: str | None = None,
    reading: Reading | None = None,
    person: str | None = None,
    rows_per_person: int = 1,
) -> PreparedCategories:
    """Prepare some columns of a table from `read_table`: the array of codes, and the specification that made it.

    columns : the declared categories of every column to keep, as texts or as `Bins` of a numeric column. They must come
        from knowledge about the column, not from the file. Numbers are compared as such: 1.0 is "1". Every list
        gets a last category "other", which takes missing values and all that are not listed.
    identity : the name of the array, random if None. reading : the declared way to read the file.
    person, rows_per_person : the column that names the person of each row, and how many rows of each are kept at most.

    Raises UserError for a column that does not exist, a list or edges that cannot be used, and too many combinations.
    """
    if not columns:
        raise MissingInput("Choose at least one column.", title="No column is chosen")
    check_rows(len(frame), len(frame))  # no row is left out
    lists, edges = parsing.category_lists(columns)
    check_columns(frame, list(columns))
    check_id_column(frame, what="person", column=person, target=None, features=list(columns))
    check_domain({name: len(categories) for name, categories in lists})
    people: dict[str, Any] = {"person": person, "rows_per_person": rows_per_person}
    upload = prepare_upload(CategoricalUpload, frame, identity, columns=lists, edges=edges, reading=reading, **people)
    unlisted = parsing.count_unlisted(upload.table, lists)
    return PreparedCategories(upload.table, upload.specification, notes=upload.notes, unlisted=unlisted)


def suggest_categories(frame: "pd.DataFrame") -> dict[str, parsing.Declared]:
    """Suggest categories for the columns of a table: a hint for display, NOT private.

    A column of many different numbers gets edges at its rounded quintiles, any other the list of its most frequent
    values. Constant columns, and texts that mostly differ from row to row, are left out.

    The suggestions look at the data, so their use reveals something that no budget accounts for. Declare a list from
    earlier knowledge.
    """
    suggestions: dict[str, parsing.Declared] = {}
    for name in frame.columns:
        codes, labels = encode_classes(frame[name])
        # The number of rows of each class, by its label.
        counts = pd.Series(np.bincount(codes[codes >= 0], minlength=len(labels)), index=labels, dtype=np.int64)
        counts = counts.sort_index().sort_values(ascending=False, kind="stable")  # by frequency, then by label
        # No declaration can name a longer text, and each list gets "other" anyway.
        counts = counts[[len(text) <= MAX_NAME and text != parsing.OTHER for text in counts.index]]
        values = np.array([as_number(text) for text in counts.index])  # NaN for a text that is no number
        are_numbers = bool((np.abs(values) <= MAX_BOUND).all())
        # Long whole numbers may differ and yet be one float64, so that no edge lies between them.
        if len(counts) > _SUGGESTED and are_numbers and values.min() < values.max():
            suggestions[str(name)] = _quintiles(np.repeat(values, counts))  # each value once per row
        elif 1 < len(counts) <= max(_SUGGESTED, len(frame) // 2):
            suggestions[str(name)] = tuple(sorted(counts.index[:_SUGGESTED], key=class_sort_key))
    return suggestions


def _quintiles(values: np.ndarray) -> parsing.Bins:
    """Return ranges with edges at the quintiles of the values, rounded to two digits of the values' range.

    Where no quintile separates values, since most are equal, the second smallest value is the only edge. Not all of the
    values may be equal.
    """
    low, high = float(values.min()), float(values.max())
    width = max(high - low, 1e-9 * max(abs(low), abs(high)))  # edges of nearly equal values keep at most eleven digits
    digits = 1 - math.floor(math.log10(width))
    quintiles = {round(float(edge), digits) for edge in np.quantile(values, (0.2, 0.4, 0.6, 0.8))}
    edges = tuple(sorted(edge for edge in quintiles if low < edge <= high))  # rows on both sides of each
    if not edges:
        edges = (float(values[values > low].min()),)
    return parsing.Bins(edges)
