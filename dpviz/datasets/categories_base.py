"""What a categorical table is: every column takes one of a declared list of categories.

The lists are declared, never read from the rows: which categories exist must not reveal who is in the table.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from dpviz.datasets.base import DataSpecification

Columns = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class CategoricalFacts:
    """What may be known of a categorical table without its rows.

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

    def decode(self, indices: np.ndarray) -> pd.DataFrame:
        """The rows that domain points (m,) stand for, as one column of categories each."""
        codes = np.unravel_index(np.asarray(indices), self.sizes)
        return pd.DataFrame(
            {
                name: pd.Categorical.from_codes(code, categories=list(categories))
                for code, (name, categories) in zip(codes, self.columns, strict=True)
            }
        )


@dataclass(frozen=True, eq=False)
class CategoricalTable:
    """A loaded table. codes : (n, columns) int16, read-only; codes[i, c] is the place of a category in list c."""

    codes: np.ndarray
    facts: CategoricalFacts

    @cached_property
    def indices(self) -> np.ndarray:
        """The domain point of every row; (n,) int64, read-only."""
        indices = np.ravel_multi_index(tuple(self.codes.T.astype(np.int64)), self.facts.sizes)
        indices.flags.writeable = False
        return indices

    @cached_property
    def histogram(self) -> np.ndarray:
        """p_S, the share of rows at every point of the domain; (|Z|,) float64, read-only, sums to 1."""
        histogram = np.bincount(self.indices, minlength=self.facts.domain_size) / self.facts.n
        histogram.flags.writeable = False
        return histogram


class CategoricalData(DataSpecification[CategoricalFacts, CategoricalTable]):
    """Where a table of categories comes from: places (n, columns) in the lists, integers."""

    def enforced(self, facts: CategoricalFacts, *rows: np.ndarray) -> CategoricalTable:
        """A code outside its list becomes the list's last category."""
        (codes,) = rows
        last = np.array(facts.sizes) - 1
        codes = np.where((codes < 0) | (codes > last), last, codes).astype(np.int16)
        codes.flags.writeable = False
        return CategoricalTable(codes, facts)
