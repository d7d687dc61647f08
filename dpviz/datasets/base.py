"""What a data set is: a table for binary classification, with declared bounds that loading enforces."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from dpviz.errors import UserError
from dpviz.specification import Specification

MAX_BOUND = 1e100  # squares and sums of features this large still fit into float64
NO_TABLES: Mapping[str, np.ndarray] = MappingProxyType({})
_BLOCK = 1 << 18  # elements per row block when enforcing bounds: temporaries stay near 2 MB


@dataclass(frozen=True)
class DatasetFacts:
    """What may be known of a data set without its rows.

    Parameters
    ----------
    n : int
        Number of rows; public, because neighbouring data sets differ by one replaced row.
    bounds : tuple of (low, high)
        The declared range of each feature, in the feature's own unit.
    names : tuple of str
        The feature names, in the order of `bounds`.
    """

    n: int
    bounds: tuple[tuple[float, float], ...]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.n < 1 or not self.bounds or len(self.names) != len(self.bounds):
            raise ValueError(f"facts need rows and a name for every bound, got n={self.n}, d={len(self.bounds)}")
        if not all(is_range(low, high) for low, high in self.bounds):
            raise ValueError("every declared range needs low < high, both finite")

    @property
    def d(self) -> int:
        """Number of features."""
        return len(self.bounds)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A loaded table: read-only arrays that keep to the declared bounds.

    Parameters
    ----------
    features : ndarray (n, d), float64, C-contiguous
        Finite, column j within `facts.bounds[j]`.
    labels : ndarray (n,), float64
        Exactly -1 or +1.
    facts : DatasetFacts
        The public facts that the arrays agree with.
    """

    features: np.ndarray
    labels: np.ndarray
    facts: DatasetFacts


class DatasetSpecification(Specification):
    """Where a table comes from. `facts` costs nothing and looks at no row; `load` delivers the rows."""

    title: ClassVar[str] = ""
    public: ClassVar[bool] = True  # synthetic or published: curves computed from the raw rows may be shown

    @abstractmethod
    def facts(self) -> DatasetFacts:
        """The public facts, without loading any data."""

    @abstractmethod
    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Features (n, d) and labels (n,) as found, in fresh float64 arrays; `load` makes them keep to the facts."""

    def load(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> Dataset:
        """The table, with its declared bounds enforced whatever the rows contain.

        Non-finite features become 0, then every feature is clipped into its declared range. `tables` maps the
        identity of an uploaded table to its array. Raises UserError for a missing table and for labels other than -1
        and +1.
        """
        facts = self.facts()
        features, labels = self.raw_rows(tables)
        if features.shape != (facts.n, facts.d) or labels.shape != (facts.n,):
            raise ValueError(f"{self.kind} delivered {features.shape} and {labels.shape}, its facts say otherwise")
        enforce_bounds(features, facts.bounds)
        if not np.array_equal(np.abs(labels), np.ones(facts.n)):
            raise UserError(
                "Every label must be exactly -1 or +1. Choose the target column again.",
                title="The target is not a choice between two classes",
            )
        features.flags.writeable = labels.flags.writeable = False
        return Dataset(features, labels, facts)


def is_range(low: float, high: float) -> bool:
    """Whether [low, high] can be a declared range: low < high, both finite and within ±MAX_BOUND."""
    return math.isfinite(low) and math.isfinite(high) and -MAX_BOUND <= low < high <= MAX_BOUND


def enforce_bounds(features: np.ndarray, bounds: tuple[tuple[float, float], ...]) -> None:
    """Replace non-finite entries of features (n, d) by 0, then clip column j into bounds[j]; in place, by row blocks.

    Clipping alone would leave NaN as it is, and every sensitivity that follows from the bounds would be wrong.
    """
    low, high = np.asarray(bounds, dtype=np.float64).T
    step = max(1, _BLOCK // len(bounds))
    for start in range(0, len(features), step):
        block = features[start : start + step]
        block[~np.isfinite(block)] = 0.0
        np.clip(block, low, high, out=block)
