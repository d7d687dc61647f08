"""Rows from a released histogram over all combinations of categories: a synthetic table to take away.

Post-processing: however many rows are made, they cost no privacy beyond that of the histogram. The random numbers are
those of a fixed, public generator, which shares nothing with the noise of any run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpviz.datasets.categories import CategoricalFacts
from dpviz.datasets.uploads.lists import OTHER
from dpviz.later import pd
from dpviz.problems.games.games import refusal
from dpviz.problems.games.marginals import Marginals

SEED = 4_090_317_221  # of the public generator; the streams of a run are derived from hashes, never from this
MOST_ROWS = 1_000_000
_RESERVES = 4  # further draws, from which rows may be exchanged
_EXCHANGES = 60  # at most: a quarter of a second at 50,000 combinations and 455 tables


@dataclass(frozen=True, eq=False)
class SyntheticTable:
    """A table of `rows` rows. counts : (|Z|,) how often each combination of categories occurs in it.

    added : largest difference of a marginal cell's share between the table and the histogram that was released.
    """

    counts: np.ndarray
    added: float

    @property
    def rows(self) -> int:
        """Number of rows of the table."""
        return int(self.counts.sum())

    def frame(self, domain: CategoricalFacts) -> "pd.DataFrame":
        """The rows, one column of categories each, in a random order."""
        points = np.repeat(np.arange(len(self.counts)), self.counts)
        return domain.decode(np.random.default_rng(SEED).permutation(points))


def others(domain: CategoricalFacts) -> np.ndarray:
    """(|Z|,) bool, the combinations in which some column is "other"."""
    found = np.zeros(domain.sizes, dtype=bool)
    for column, (_, categories) in enumerate(domain.columns):
        if OTHER in categories:
            np.moveaxis(found, column, 0)[categories.index(OTHER)] = True
    return found.ravel()


def synthetic_table(marginals: Marginals, shares: np.ndarray, rows: int, without_other: bool = False) -> SyntheticTable:
    """`rows` rows whose marginals are those of the released histogram `shares` (|Z|,), as nearly as rows allow.

    Systematic sampling: every combination occurs rows × its share times, rounded up or down at random. Then rows are
    exchanged for rows of a few further such draws, as long as all marginals together come closer to the release. On
    the census table (19,500 combinations, 583 cells, 1,000 or 32,561 rows) the largest difference that rows add is
    2/rows to 3/rows; independent draws add 9 to 70 times as much.

    without_other : no row has "other" anywhere; the histogram is conditioned on that. It must not follow from the data.

    Raises UserError if nothing of the histogram is left then.
    """
    kept = np.where(others(marginals.domain), 0.0, shares) if without_other else shares
    if not kept.sum() > 0:
        raise refusal("only_other")
    generator = np.random.default_rng(SEED)
    drawn = np.array([_systematic(kept, rows, generator) for _ in range(1 + _RESERVES)])
    counts = _exchanged(marginals, marginals.answers(kept[None] / kept.sum()), drawn)
    return SyntheticTable(counts, float(np.abs(marginals.answers((counts / rows - shares)[None])).max()))


def _systematic(shares: np.ndarray, rows: int, generator: np.random.Generator) -> np.ndarray:
    """Counts (|Z|,) that sum to `rows`, each with mean rows × share and less than 1 from it. In a random order of the
    combinations: along the table's own order, regular shares would always pick the same categories."""
    order = generator.permutation(len(shares))
    reached = np.cumsum(shares[order])
    ends = np.floor(rows * (reached / reached[-1]) + generator.random())
    counts = np.empty(len(shares), dtype=np.int64)
    counts[order] = np.diff(ends, prepend=0.0)
    return counts


def _exchanged(marginals: Marginals, target: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """The first of the draws (k, |Z|), with rows exchanged for those of the others as long as that brings its marginals
    closer to `target` (1, q). Counts stay within those of the draws."""
    counts, fewest, most = drawn[0], drawn.min(axis=0), drawn.max(axis=0)
    rows = counts.sum()
    errors = marginals.answers(counts[None] / rows) - target
    several = max(1, int(rows) // 50)
    for _ in range(_EXCHANGES):
        excess = marginals.transposed(errors)[0]
        can_enter, can_leave = np.flatnonzero(counts < most), np.flatnonzero(counts > fewest)
        many = min(several, len(can_enter), len(can_leave))
        if not many:
            break
        changed = counts.copy()
        changed[can_enter[np.argpartition(excess[can_enter], many - 1)[:many]]] += 1
        changed[can_leave[np.argpartition(-excess[can_leave], many - 1)[:many]]] -= 1
        found = marginals.answers(changed[None] / rows) - target
        if (found**2).sum() < (errors**2).sum():
            counts, errors = changed, found
        elif several == 1:
            break
        else:
            several //= 2
    return counts


class TableError(NamedTuple):
    """How far one marginal table is off. columns : it counts; cell : the worst one, in words, with the true share and
    that of the synthetic rows; worst, mean : absolute errors over its cells."""

    columns: str
    cell: str
    truth: float
    synthetic: float
    worst: float
    mean: float


def table_errors(marginals: Marginals, truth: np.ndarray, answers: np.ndarray) -> Sequence[TableError]:
    """Every marginal table with its errors, the worst first; truth, answers (q,). A diagnostic: reads the raw data."""
    names, cells = [name for name, _ in marginals.domain.columns], marginals.cells
    errors = np.abs(answers - truth)
    found = []
    for columns, part in zip(marginals.tables, marginals.slices, strict=True):
        worst = part.start + int(errors[part].argmax())
        found.append(
            TableError(
                " × ".join(names[column] for column in columns),
                cells[worst],
                float(truth[worst]),
                float(answers[worst]),
                float(errors[worst]),
                float(errors[part].mean()),
            )
        )
    return sorted(found, key=lambda table: -table.worst)
