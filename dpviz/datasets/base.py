"""Base classes of data sets: sources of rows, their declared facts, and tables with a target to predict."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from dpviz.checkpoints import checkpoint
from dpviz.errors import UserError
from dpviz.specification import Specification, number

MAX_BOUND = 1e100  # squares and sums of features this large still fit into float64
NO_TABLES: Mapping[str, np.ndarray] = MappingProxyType({})
SECONDS_PER_LOADED = 30e-9  # to draw or read, scale and clip one number of a table
_BLOCK = 1 << 18  # elements per row block when enforcing bounds: temporaries stay near 2 MB


def rows_field(
    default: int,
    low: int,
    high: int,
    help: str = "More rows need less noise each.",
    limits: tuple[int, int] = (2, 10**9),
) -> Any:
    """Declare the field for the number of rows of a drawn data set: `low` to `high` by slider, `limits` elsewhere."""
    return number(default, low, high, label="Rows", symbol="n", scale="log", help=help, limits=limits)


def seed_field(default: int = 0) -> Any:
    """Declare the field for the seed that a data set is drawn from."""
    return number(default, 0, 2**31 - 1, label="Data seed", help="Another seed draws another data set.")


class RowsFacts(Protocol):
    """The part of the public facts that every kind of data set has: its array has n rows and d columns."""

    @property
    def n(self) -> int:
        """Number of rows."""

    @property
    def d(self) -> int:
        """Number of columns, or of strategies."""


F = TypeVar("F", bound=RowsFacts)  # the facts of one kind of data set
Loaded = TypeVar("Loaded")  # the rows of one kind of data set, as `load` returns them


class RowsSpecification(Specification, Generic[F, Loaded]):
    """A source of rows. `facts` costs nothing and looks at no row; `load` delivers the rows.

    A subclass for one kind of rows defines `enforced`; its subclasses are the sources, with `facts` and `raw_rows`.
    """

    title: ClassVar[str] = ""
    public: ClassVar[bool] = False  # True for synthetic or published rows: curves computed from them may be shown
    declared_by: ClassVar[str] = "dpviz.table(…, target=…)"  # the call that declares a user's rows of this kind

    @abstractmethod
    def facts(self) -> F:
        """Return the public facts, without loading any data."""

    @property
    def read_from_rows(self) -> tuple[str, ...]:
        """Phrases that name the facts which were read from the rows: a loss of privacy that no budget accounts for."""
        return ()

    @property
    def costs(self) -> tuple[float, ...]:
        """The ε of every private release of these rows that gave a fact; they come off the budget of a run."""
        return ()

    @property
    def carried(self) -> Mapping[str, Any]:
        """Tables that the source brings along, by identity, as `load` needs them; empty for one that draws its rows."""
        return NO_TABLES

    @abstractmethod
    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...]:
        """Return the rows as the source has them: an array (n, d), and an array (n,) for each further column.

        The arrays are fresh, since `enforced` may overwrite them. tables : as in `load`.
        """

    @abstractmethod
    def enforced(self, facts: F, *rows: np.ndarray) -> Loaded:
        """Force the `rows` of `raw_rows` into the ranges that `facts` declares, and return them as one object.

        Every guarantee rests on these ranges, so this must hold for any content. It may write into the arrays.
        """

    def load(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> Loaded:
        """Return the rows as read-only arrays, with all declared facts enforced for any content.

        `tables` maps the identity of an uploaded table to its array. Raises UserError for a missing table.
        """
        facts, rows = self.facts(), self.raw_rows(tables)
        checkpoint()  # where a user may have stopped the computation
        try:
            shapes = [np.shape(array) for array in rows]  # may be empty, hence the slices below
            if shapes[:1] == [(facts.n, facts.d)] and set(shapes[1:]) <= {(facts.n,)}:
                return self.enforced(facts, *rows)
            mistake = f"Its first arrays have the shapes {shapes[:4]}"
        except UserError:
            raise
        except (TypeError, ValueError) as error:  # for ragged lists, texts, and another number of arrays
            mistake = f"They are not read: {error}"
        raise UserError(  # a user's mistake
            f"{mistake}. By its facts they are {facts.n:,} of {facts.d:,} columns.",
            title=f"{self.title or self.kind} has other rows than its facts say",
        )


@dataclass(frozen=True)
class DatasetFacts:
    """Public facts of a data set, known without its rows.

    Parameters
    ----------
    n : int
        Number of rows; public, because neighbouring data sets differ by one replaced row.
    bounds : tuple of (low, high)
        The declared range of each feature, in the feature's own unit.
    names : tuple of str
        The feature names, in the order of `bounds`.
    blocks : tuple of int
        The number of categories of each categorical column. Such a column makes a block of features, one per category,
        of which one is 1 and the others are 0 in every row. The blocks are the last features.
    target_range : (low, high), optional
        The declared range of the target, in its own unit; None where it is one of two classes.
    """

    n: int
    bounds: tuple[tuple[float, float], ...]
    names: tuple[str, ...]
    blocks: tuple[int, ...] = ()
    target_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        check_features(self.n, self.bounds, self.names)
        if self.target_range is not None and not is_range(*self.target_range):
            raise ValueError("the declared range of the target needs low < high, both finite")
        other_ranges = set(self.bounds[self.numeric :]) - {(0.0, 1.0)}  # of features of categories
        if self.numeric < 0 or any(size < 1 for size in self.blocks) or other_ranges:
            raise ValueError("the features of categories are the last ones, and between 0 and 1")

    @property
    def d(self) -> int:
        """Number of features."""
        return len(self.bounds)

    @property
    def numeric(self) -> int:
        """Number of features that do not belong to a category; they come first."""
        return len(self.bounds) - sum(self.blocks)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A loaded table: read-only arrays that keep to the declared bounds.

    Parameters
    ----------
    features : ndarray (n, d), float64, C-contiguous
        Finite, column j within `facts.bounds[j]`.
    labels : ndarray (n,), float64
        Exactly -1 or +1 where there are two classes, else within `facts.target_range`.
    facts : DatasetFacts
        The public facts that the arrays agree with.
    """

    features: np.ndarray
    labels: np.ndarray
    facts: DatasetFacts


class DatasetSpecification(RowsSpecification[DatasetFacts, Dataset]):
    """A source of a table with a target: features, and one of two classes or a number to predict.

    scaled : True if features come scaled by declared numbers, so that scaling them by their bounds would undo that.
    """

    scaled: ClassVar[bool] = False

    def parts(self, tables: Mapping[str, np.ndarray]) -> Iterator[Dataset]:
        """Yield the data set of `load` in consecutive blocks of rows; each row is the same as in the whole.

        There is one block, unless a subclass reads a file that is too large for memory.
        """
        yield self.load(tables)

    def enforced(self, facts: DatasetFacts, *rows: np.ndarray) -> Dataset:
        """Return the data set after all declared facts were enforced on features (n, d) and labels (n,).

        A feature that is not finite becomes 0, then all features are clipped into their ranges. In each block of a
        categorical column the largest feature, or the first of several, becomes 1 and the others become 0. A target
        that is not finite becomes the middle of its range, then it is clipped, too.

        Raises UserError for classes other than -1 and +1.
        """
        # C-contiguous, writeable, and no subclass such as a masked array ("E"), so that every entry can be replaced.
        features, labels = (np.require(part, np.float64, ["C", "W", "E"]) for part in rows)
        enforce_bounds(features, facts.bounds)
        start = facts.numeric
        for size in facts.blocks:
            block = features[:, start : start + size]
            largest = block.argmax(axis=1)
            block[:] = 0.0
            block[np.arange(len(block)), largest] = 1.0
            start += size
        if facts.target_range is None:
            if not np.array_equal(np.abs(labels), np.ones(facts.n)):
                raise UserError(
                    "Every label must be exactly -1 or +1. Choose the target column again.",
                    title="The target is not a choice between two classes",
                )
        else:
            labels[~np.isfinite(labels)] = sum(facts.target_range) / 2
            np.clip(labels, *facts.target_range, out=labels)
        features.flags.writeable = labels.flags.writeable = False
        return Dataset(features, labels, facts)


def check_features(n: int, bounds: Sequence[tuple[float, float]], names: Sequence[str]) -> None:
    """Raise ValueError unless there is a row, and at least one feature, each with a name of its own and a range."""
    if n < 1 or not bounds or len(names) != len(bounds):
        raise ValueError(f"facts need rows and a name for every bound, got n={n}, d={len(bounds)}")
    if not all(is_range(low, high) for low, high in bounds):
        raise ValueError("every declared range needs low < high, both finite")
    if len(set(names)) < len(names):
        repeated = next(name for position, name in enumerate(names) if name in names[:position])
        raise ValueError(f"two features would be called {repeated!r}: rename a column")


def is_range(low: float, high: float) -> bool:
    """Return true if [low, high] can be a declared range: both finite and within ±MAX_BOUND, and 1/MAX_BOUND apart at
    least, so that no number overflows when it is divided by the width."""
    low, high = float(low), float(high)  # a float32 cannot be compared with MAX_BOUND
    return -MAX_BOUND <= low <= MAX_BOUND and -MAX_BOUND <= high <= MAX_BOUND and high - low >= 1 / MAX_BOUND


def enforce_bounds(features: np.ndarray, bounds: tuple[tuple[float, float], ...]) -> None:
    """Replace non-finite entries of features (n, d) by 0, then clip column j into bounds[j]; in place, by row blocks.

    Clipping alone would leave NaN as it is, and every sensitivity that follows from the bounds would be wrong.
    """
    low, high = np.asarray(bounds, dtype=np.float64).T
    block_rows = max(1, _BLOCK // len(bounds))
    for start in range(0, len(features), block_rows):
        block = features[start : start + block_rows]
        block[~np.isfinite(block)] = 0.0
        np.clip(block, low, high, out=block)
