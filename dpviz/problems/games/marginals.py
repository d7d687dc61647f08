"""Private synthetic data as a game: one player proposes a histogram, the other finds the marginal with the largest
error.

families/mirror_descent/THEORY.md, section 2, item 4; González, Guzmán and Paquette (arXiv 2403.02912), Section 5.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import ClassVar, NamedTuple

import numpy as np
from pydantic import model_validator

from dpviz.checkpoints import sliced
from dpviz.datasets.base import NO_TABLES
from dpviz.datasets.categories import CategoricalData, CategoricalFacts, CategoricalGenerator, CategoricalTable
from dpviz.datasets.uploads.parsing import OTHER
from dpviz.errors import UserError
from dpviz.later import pd
from dpviz.privacy.releases import Norm, Query
from dpviz.problems import base
from dpviz.problems.base import Metric, Plane
from dpviz.problems.games.games import DUALITY_GAP, GameFacts, GameSpecification, Pair, Player, SlicedGame, project
from dpviz.specification import number

_PRODUCTS_PER_CELL = 10  # multiplications that take as long as one number of a sum


class Marginals:
    """The 0/1 matrix A (q, |Z|) of all k-way marginal cells of a domain, without ever building it.

    tables : the columns' indices of every marginal table; slices : the indices of its cells among the q answers, in C
        order. One pass over the columns answers all tables: each column is either kept or summed out, and tables share
        the sums.
    """

    def __init__(self, domain: CategoricalFacts, ways: int) -> None:
        self._sizes = domain.sizes
        self._ways, self.domain = ways, domain
        self.tables = tuple(combinations(range(len(self._sizes)), ways))
        ends = np.cumsum([math.prod(self._sizes[c] for c in table) for table in self.tables]).tolist()
        self.slices = tuple(slice(start, end) for start, end in zip([0, *ends], ends, strict=False))
        self.queries = int(ends[-1])

    @property
    def cells_touched(self) -> int:
        """Count of numbers that `answers` and `transposed` process for one histogram: the sizes of all partial sums."""

        def count(kept: int, column: int, missing: int) -> int:
            rest = math.prod(self._sizes[column:])
            if missing == 0 or missing == len(self._sizes) - column:
                return kept * rest
            present, size = kept * rest, self._sizes[column]
            return present + count(kept * size, column + 1, missing - 1) + count(kept, column + 1, missing)

        return 2 * count(1, 0, self._ways)

    @property
    def cells(self) -> tuple[str, ...]:
        """(q,) the cell that every query counts, such as "visits=0, plan=1"."""
        values = [[f"{name}={category}" for category in categories] for name, categories in self.domain.columns]
        return tuple(", ".join(cell) for table in self.tables for cell in product(*(values[c] for c in table)))

    def cell(self, query: int) -> str:
        """Return one of `cells`, without building the others."""
        table, part = next(entry for entry in zip(self.tables, self.slices, strict=True) if query < entry[1].stop)
        indices = np.unravel_index(query - part.start, [self._sizes[column] for column in table])
        columns = ((self.domain.columns[column], index) for column, index in zip(table, indices, strict=True))
        return ", ".join(f"{name}={categories[index]}" for (name, categories), index in columns)

    def change(self, norm: Norm) -> float:
        """Return the largest change of n A p if one of the n rows of p is replaced.

        It changes by 1 in two cells of each of the m tables: 2m in ℓ1 and √(2m) in ℓ2.
        """
        cells = 2 * len(self.tables)
        return {"l1": cells, "l2": math.sqrt(cells)}[norm]

    def answers(self, x: np.ndarray) -> np.ndarray:
        """Compute A x for histograms x (R, |Z|); (R, q)."""
        parts: list[np.ndarray] = []
        self._collect(x.reshape(len(x), 1, -1), 0, self._ways, parts)
        return np.concatenate(parts, axis=1)

    def transposed(self, weights: np.ndarray) -> np.ndarray:
        """Compute Aᵀw for weights w (R, q), the total weight of the cells that contain each domain point; (R, |Z|)."""
        parts = iter([weights[:, cells] for cells in self.slices])
        return self._spread(parts, len(weights), 0, 1, self._ways).reshape(len(weights), -1)

    def _collect(self, tensor: np.ndarray, column: int, missing: int, parts: list[np.ndarray]) -> None:
        """Append the marginals of `tensor` (R, kept, rest), whose rest are the columns from `column` on, that keep
        `missing` more columns.

        Those that keep this column come first, which is the order of `combinations`.
        """
        replicates, kept, rest = tensor.shape
        if missing == 0:
            parts.append(tensor.sum(axis=2))
        elif missing == len(self._sizes) - column:
            parts.append(tensor.reshape(replicates, -1))
        else:
            size = self._sizes[column]
            self._collect(tensor.reshape(replicates, kept * size, rest // size), column + 1, missing - 1, parts)
            summed = tensor.reshape(replicates, kept, size, rest // size).sum(axis=2)
            self._collect(summed, column + 1, missing, parts)

    def _spread(self, parts: Iterator[np.ndarray], replicates: int, column: int, kept: int, missing: int) -> np.ndarray:
        """Return the adjoint of `_collect`: (R, kept, rest), or (R, kept, 1) if it is the same for all of the rest."""
        if missing == 0 or missing == len(self._sizes) - column:
            return next(parts).reshape(replicates, kept, -1)
        size = self._sizes[column]
        with_column = self._spread(parts, replicates, column + 1, kept * size, missing - 1)
        without_column = self._spread(parts, replicates, column + 1, kept, missing)
        total = with_column.reshape(replicates, kept, size, -1) + without_column[:, :, None, :]
        return total.reshape(replicates, kept, -1)


class MarginalQueries(GameSpecification):
    """A histogram x over all combinations of categories that answers every k-way marginal as the data do.

    F(x, y) = Σ_j (y⁺_j - y⁻_j) (A(p_S - x))_j: the second player picks a cell and the sign of its error, so max_y F(x,
    y) = max_j |A(p_S - x)|_j.
    """

    kind: ClassVar[str] = "problems.marginals.synthetic_data"
    title: ClassVar[str] = "Synthetic data"
    data: CategoricalData = CategoricalGenerator()
    ways: int = number(
        2, 1, 3, label="Columns per table", symbol="k", help="All tables that count k columns together are queries."
    )

    @model_validator(mode="after")
    def _enough_columns(self) -> "MarginalQueries":
        columns = len(self.data.facts().columns)
        if self.ways > columns:
            raise ValueError(f"tables of {self.ways} columns need as many columns, the data have {columns}")
        return self

    def _plane(self) -> Plane | None:
        """Return the plane of the shares of the first category, in the first two columns."""
        data = self.data.facts()
        if len(data.columns) < 2:
            return super()._plane()
        indices = np.unravel_index(np.arange(data.domain_size), data.sizes)
        one, other = (f"Share of rows with {name}={categories[0]}" for name, categories in data.columns[:2])
        return base.shares(indices[0] == 0, indices[1] == 0, (one, other))

    def marginals(self) -> Marginals:
        """Return the queries; they need no data."""
        return Marginals(self.data.facts(), self.ways)

    def facts(self) -> GameFacts:
        """Return the facts. One row with domain point z has ∇ₓ = -Aᵀw with w = y⁺ - y⁻, and ∇ᵧ = ±(a - Ax) with a = A
        e_z in {0, 1}^q.

        ∇ₓ reads no data: oscillation and change 0. Its range is 1, because each term of Σ_j w_j [z in cell j] moves
        within an interval of length |w_j|, and ‖w‖₁ ≤ 1.
        ∇ᵧ depends on the row through ±a only, which is ±(a - ½) plus a constant that cancels between neighbours: its
        oscillation is 1, and replacing the row changes scores by ±(a - a'), a range of 2. The range of ∇ᵧF is 2 max_j
        |A(p_S - x)|_j ≤ 2. Every number here is attained.
        """
        data, marginals = self.data.facts(), self.marginals()
        d_x, d_y = data.domain_size, 2 * marginals.queries
        return GameFacts(
            n=data.n,
            from_data=self.from_data,
            d=d_x + d_y,
            d_x=d_x,
            d_y=d_y,
            lipschitz=1.0,
            oscillation_x=0.0,
            oscillation_y=1.0,
            range_x=1.0,
            range_y=2.0,
            smoothness=1.0,
            tables=len(marginals.tables),
            largest_gap=2.0,  # F is within ±1
            products=_PRODUCTS_PER_CELL * marginals.cells_touched,
            table_bytes=(8.0 * data.d + 24.0) * data.n,
        )

    def vertex(self, player: Player, index: int) -> str:
        """Return a row, by its categories; or a marginal cell, with the sign of its error."""
        if player == "y":
            marginals = self.marginals()
            sign, cell = divmod(index, marginals.queries)
            return f"too {('few', 'many')[sign]}: {marginals.cell(cell)}"
        data = self.data.facts()
        indices = np.unravel_index(index, data.sizes)
        return ", ".join(
            f"{name}={categories[category]}" for (name, categories), category in zip(data.columns, indices, strict=True)
        )

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "MarginalGame":
        return MarginalGame(self.facts(), self.marginals(), self.data.load(tables))


class MarginalGame(SlicedGame):
    """A game of synthetic data with the rows; see `MarginalQueries`. x : (R, |Z|) a histogram; y : (R, 2q) weights of
    the queries, first + then -.

    Replacing one row takes 1/n from one cell of every table and adds 1/n to one cell, or changes nothing there; the
    sensitivity of every Query follows from that.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (
        DUALITY_GAP,
        Metric("worst_query_error", "Worst query error", scale="log", headline=1),
        Metric("mean_query_error", "Mean query error", scale="log", headline=5),
    )

    def __init__(self, facts: GameFacts, marginals: Marginals, table: CategoricalTable) -> None:
        self.facts, self.marginals = facts, marginals
        self._indices = table.indices
        self._truth = marginals.answers(table.histogram[None])
        self._truth.flags.writeable = False

    def answers(self, x: np.ndarray) -> np.ndarray:
        """Compute the queries' answers on histograms x (R, |Z|); (R, q). Reads no data."""
        return sliced(self.marginals.answers, self.facts.seconds, x)

    def transposed(self, weights: np.ndarray) -> np.ndarray:
        """Compute Aᵀw (R, |Z|) for weights w (R, q) of the queries. Reads no data."""
        return sliced(self.marginals.transposed, self.facts.seconds, weights)

    def true_answers(self) -> np.ndarray:
        """Return A p_S; (q,). Not private."""
        return self._truth[0]

    def _gradients(self, x: np.ndarray, y: np.ndarray, rows: slice | None) -> Pair:
        errors = self._answers_of(rows) - self.marginals.answers(x)
        return -self.marginals.transposed(self._signed(y)), np.concatenate([errors, -errors], axis=1)

    def _evaluate(self, output: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the diagnostics. Without "y" in the output, y has equal weights, for which min_u F(u, y) = 0 is
        largest.

        A method that releases answers and no histogram has "answers" (R, q) instead of "x".
        """
        answers = output["answers"] if "answers" in output else self.marginals.answers(output["x"])
        errors = np.abs(self._truth - answers)
        lower = np.zeros(len(errors))
        if "y" in output:
            weights = self._signed(output["y"])
            lower = weights @ self._truth[0] - self.marginals.transposed(weights).max(axis=1)
        worst = errors.max(axis=1)
        return {"duality_gap": worst - lower, "worst_query_error": worst, "mean_query_error": errors.mean(axis=1)}

    def selection_scores(self, answers: np.ndarray) -> Query:
        """Return |A(p_S - x)| (R, q), to choose a badly answered query (MWEM), from the answers A x (R, q) of a
        released x.

        Replacing one row moves every score by at most 1/n, up or down: the change's range is at most 2/n.
        """
        return Query(np.abs(self._truth - answers), 2 / self.facts.n, "range")

    def answer(self, chosen: np.ndarray, norm: Norm = "l2") -> Query:
        """Return the true answer (R,) of one query per replicate, by its released index (R,); norm "l1" or "l2"."""
        return Query(self._truth[0][chosen], 1 / self.facts.n, norm)

    def marginal_tables(self, replicates: int, norm: Norm = "l2") -> Query:
        """Return all m marginal tables' cells, concatenated: A p_S (R, q), for noise on every cell; norm "l1" or
        "l2"."""
        sensitivity = self.marginals.change(norm) / self.facts.n
        return Query(np.broadcast_to(self._truth, (replicates, self.marginals.queries)), sensitivity, norm)

    def from_marginals(self, noisy: np.ndarray) -> np.ndarray:
        """Compute answers (R, q) from noisy tables (R, q): each table's nearest distribution, at no cost in privacy.

        In ℓ2 it is never further from the true table than the noisy one, because the true table is a distribution
        itself.
        """

        def nearest(tables: np.ndarray) -> np.ndarray:
            return np.concatenate([project(tables[:, cells]) for cells in self.marginals.slices], axis=1)

        return sliced(nearest, self.facts.seconds, noisy)

    def _answers_of(self, rows: slice | None) -> np.ndarray:
        """Return (1, q) the queries' answers on some of the rows."""
        if rows is None:
            return self._truth
        indices = self._indices[rows]
        return self.answers(np.bincount(indices, minlength=self.facts.d_x)[None] / len(indices))

    def _signed(self, y: np.ndarray) -> np.ndarray:
        """Return (R, q) the weight y⁺ - y⁻ of every query's error."""
        return y[:, : self.marginals.queries] - y[:, self.marginals.queries :]


# --------------------------------------------------------------------------------------- rows from a released histogram
# Post-processing: any number of drawn rows costs no privacy beyond that of the histogram.

SEED = 4_090_317_221  # of a public generator; the streams of a run are derived from hashes, never from this
MOST_ROWS = 1_000_000
_RESERVES = 4  # further draws, whose rows may be exchanged for those of the first
_EXCHANGES = 60  # largest number of exchanges: 0.25 s at 50,000 combinations and 455 tables


@dataclass(frozen=True, eq=False)
class SyntheticTable:
    """A table of `rows` rows. counts : (|Z|,) number of rows with each combination of categories.

    added : largest difference of a marginal cell's share between the table and the released histogram.
    """

    counts: np.ndarray
    added: float

    @property
    def rows(self) -> int:
        """Number of rows of the table."""
        return int(self.counts.sum())

    def frame(self, domain: CategoricalFacts) -> "pd.DataFrame":
        """Return the rows, one column of categories each, in a random order."""
        points = np.repeat(np.arange(len(self.counts)), self.counts)
        return domain.decode(np.random.default_rng(SEED).permutation(points))


def others(domain: CategoricalFacts) -> np.ndarray:
    """Return (|Z|,) bool, the combinations in which some column is "other"."""
    has_other = np.zeros(domain.sizes, dtype=bool)
    for column, (_, categories) in enumerate(domain.columns):
        if OTHER in categories:
            np.moveaxis(has_other, column, 0)[categories.index(OTHER)] = True
    return has_other.ravel()


def synthetic_table(marginals: Marginals, shares: np.ndarray, rows: int, without_other: bool = False) -> SyntheticTable:
    """Draw `rows` rows whose marginals are those of the released histogram `shares` (|Z|,), as nearly as rows allow.

    Systematic sampling: every combination occurs rows × its share times, rounded up or down at random. Then rows are
    exchanged for rows of a few further such draws, as long as all marginals together come closer to the release. On the
    census table (19,500 combinations, 583 cells, 1,000 or 32,561 rows) the largest difference that rows add is 2/rows
    to 3/rows; independent draws add 9 to 70 times as much.

    without_other : no row has "other" in any column; the histogram is conditioned on that. It must not follow from the
        data.

    Raises UserError if nothing of the histogram remains then.
    """
    conditioned = np.where(others(marginals.domain), 0.0, shares) if without_other else shares
    if not conditioned.sum() > 0:
        raise UserError(
            "Every released row has it in some column. Let rows have “other”, or choose another method.",
            title="Nothing is left without “other”",
        )
    generator = np.random.default_rng(SEED)
    draws = np.array([_systematic(conditioned, rows, generator) for _ in range(1 + _RESERVES)])
    counts = _exchanged(marginals, marginals.answers(conditioned[None] / conditioned.sum()), draws)
    return SyntheticTable(counts, float(np.abs(marginals.answers((counts / rows - shares)[None])).max()))


def _systematic(shares: np.ndarray, rows: int, generator: np.random.Generator) -> np.ndarray:
    """Draw counts (|Z|,) that sum to `rows`, each with mean rows × share and less than 1 from it.

    The combinations are in a random order: in the table's order, regular shares would always pick the same categories.
    """
    order = generator.permutation(len(shares))
    cumulated = np.cumsum(shares[order])
    ends = np.floor(rows * (cumulated / cumulated[-1]) + generator.random())
    counts = np.empty(len(shares), dtype=np.int64)
    counts[order] = np.diff(ends, prepend=0.0)
    return counts


def _exchanged(marginals: Marginals, target: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Return the first of the draws (k, |Z|), with rows exchanged for those of the others as long as that brings its
    marginals closer to `target` (1, q). Counts stay within those of the draws."""
    counts, lower, upper = draws[0], draws.min(axis=0), draws.max(axis=0)
    rows = counts.sum()
    errors = marginals.answers(counts[None] / rows) - target
    batch = max(1, int(rows) // 50)
    for _ in range(_EXCHANGES):
        excess = marginals.transposed(errors)[0]
        can_enter, can_leave = np.flatnonzero(counts < upper), np.flatnonzero(counts > lower)
        count = min(batch, len(can_enter), len(can_leave))
        if not count:
            break
        new_counts = counts.copy()
        new_counts[can_enter[np.argpartition(excess[can_enter], count - 1)[:count]]] += 1
        new_counts[can_leave[np.argpartition(-excess[can_leave], count - 1)[:count]]] -= 1
        new_errors = marginals.answers(new_counts[None] / rows) - target
        if (new_errors**2).sum() < (errors**2).sum():
            counts, errors = new_counts, new_errors
        elif batch == 1:
            break
        else:
            batch //= 2
    return counts


class TableError(NamedTuple):
    """Errors of one marginal table. columns : that it counts; cell : the worst one, in words, with the true share
    and that of the synthetic rows; worst, mean : absolute errors over its cells."""

    columns: str
    cell: str
    truth: float
    synthetic: float
    worst: float
    mean: float


def table_errors(marginals: Marginals, truth: np.ndarray, answers: np.ndarray) -> Sequence[TableError]:
    """Return every marginal table with its errors, the worst first; truth, answers (q,). A diagnostic: reads the raw
    data."""
    names, cells = [name for name, _ in marginals.domain.columns], marginals.cells
    errors = np.abs(answers - truth)
    result = []
    for columns, part in zip(marginals.tables, marginals.slices, strict=True):
        worst = part.start + int(errors[part].argmax())
        result.append(
            TableError(
                " × ".join(names[column] for column in columns),
                cells[worst],
                float(truth[worst]),
                float(answers[worst]),
                float(errors[worst]),
                float(errors[part].mean()),
            )
        )
    return sorted(result, key=lambda table: -table.worst)
