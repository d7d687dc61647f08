"""Private synthetic data as a game: one player proposes a histogram of all combinations of categories, the other points
to the marginal in which it differs most from the data.

A k-way marginal table counts k columns together; each of its cells is one *query*, whose answer is the share of rows in
that cell. See families/mirror_descent/THEORY.md, section 2, item 4, and González, Guzmán and Paquette (arXiv
2403.02912), Section 5.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from typing import ClassVar, NamedTuple

import numpy as np
from pydantic import model_validator

from dpviz.checkpoints import compute_in_slices
from dpviz.datasets.base import NO_TABLES
from dpviz.datasets.categories import CategoricalFacts, CategoricalGenerator, CategoricalSpecification, CategoricalTable
from dpviz.datasets.uploads.parsing import OTHER
from dpviz.errors import UserError
from dpviz.later import pd
from dpviz.privacy.releases import Norm, Query
from dpviz.problems.base import Metric, Plane
from dpviz.problems.games.games import (
    DUALITY_GAP,
    GameFacts,
    GameSpecification,
    Pair,
    Player,
    SlicedGame,
    project_to_simplex,
)
from dpviz.specification import number

_PRODUCTS_PER_CELL = 10  # multiplications that take as long as one number of a sum


class Marginals:
    """The 0/1 matrix A (q, |Z|) that maps a histogram x over the |Z| points of a domain to the q cells A x of all its
    k-way marginal tables. It is never built.

    ways : k. tables : for every marginal table, the indices of its k columns. slices : for every table, the indices of
        its cells among the q answers, in C order. queries : q.

    All tables are answered by going through the columns: each is either kept or summed out, and tables for which the
    first choices are the same share these partial sums.
    """

    def __init__(self, domain: CategoricalFacts, ways: int) -> None:
        self._sizes = domain.sizes
        self._ways, self.domain = ways, domain
        self.tables = tuple(combinations(range(len(self._sizes)), ways))
        ends = np.cumsum([math.prod(self._sizes[column] for column in table) for table in self.tables]).tolist()
        self.slices = tuple(slice(start, end) for start, end in pairwise([0, *ends]))
        self.queries = int(ends[-1])

    @property
    def summed_numbers(self) -> int:
        """Count of the numbers that `answers` and `transposed` together add up for one histogram: the sizes of all
        partial sums, twice."""

        def count(kept: int, column: int, missing: int) -> int:
            """Count the numbers in the partial sums from `column` on; the kept columns before it have `kept` cells.

            missing : number of columns of a table that are still to be chosen.
            """
            size, remaining_columns = kept * math.prod(self._sizes[column:]), len(self._sizes) - column
            if missing in {0, remaining_columns}:  # nothing is left to choose
                return size
            with_column = count(kept * self._sizes[column], column + 1, missing - 1)
            return size + with_column + count(kept, column + 1, missing)

        return 2 * count(kept=1, column=0, missing=self._ways)

    @property
    def cells(self) -> tuple[str, ...]:
        """The names of the cells that the q queries count, such as "visits=0, plan=1"."""
        values = [[f"{name}={category}" for category in categories] for name, categories in self.domain.columns]
        cells: list[str] = []
        for table in self.tables:
            cells += [", ".join(cell) for cell in product(*(values[column] for column in table))]
        return tuple(cells)

    def cell(self, query: int) -> str:
        """Return the name of the cell that a query counts, given its index, without building those of the others."""
        pairs = zip(self.tables, self.slices, strict=True)
        table, cells = next((table, cells) for table, cells in pairs if query < cells.stop)
        indices = np.unravel_index(query - cells.start, [self._sizes[column] for column in table])
        categories_of_cell = []
        for column, index in zip(table, indices, strict=True):
            name, categories = self.domain.columns[column]
            categories_of_cell.append(f"{name}={categories[index]}")
        return ", ".join(categories_of_cell)

    def answers(self, x: np.ndarray) -> np.ndarray:
        """Compute the answers A x (R, q) to all queries on histograms x (R, |Z|)."""
        tables: list[np.ndarray] = []
        self._collect(x.reshape(len(x), 1, -1), column=0, missing=self._ways, tables=tables)
        return np.concatenate(tables, axis=1)

    def transposed(self, weights: np.ndarray) -> np.ndarray:
        """Compute Aᵀw (R, |Z|) for weights w (R, q) of the queries: for each point of the domain, the total weight of
        the cells that contain it."""
        tables = iter([weights[:, cells] for cells in self.slices])
        return self._spread(tables, len(weights), column=0, kept=1, missing=self._ways).reshape(len(weights), -1)

    def _collect(self, tensor: np.ndarray, column: int, missing: int, tables: list[np.ndarray]) -> None:
        """Append to `tables` all marginal tables (R, cells) that arise from `tensor` by keeping `missing` of the
        columns from `column` on, and summing out the others of these.

        tensor : (R, kept, rest). Its middle axis has the cells of the columns before `column` that are kept; the others
            before it are summed out already. The last axis has the combinations of the columns from `column` on.

        Tables that keep this column come first, which is the order of `combinations`.
        """
        replicates, kept, rest = tensor.shape
        if missing == 0:
            tables.append(tensor.sum(axis=2))
        elif missing == len(self._sizes) - column:  # all remaining columns are kept
            tables.append(tensor.reshape(replicates, -1))
        else:
            size = self._sizes[column]
            self._collect(tensor.reshape(replicates, kept * size, rest // size), column + 1, missing - 1, tables)
            summed = tensor.reshape(replicates, kept, size, rest // size).sum(axis=2)
            self._collect(summed, column + 1, missing, tables)

    def _spread(
        self, tables: Iterator[np.ndarray], replicates: int, column: int, kept: int, missing: int
    ) -> np.ndarray:
        """Return the adjoint of `_collect`: the tensor (R, kept, rest) in which each point has the sum of the weights
        that the next ones of `tables` give to its cells.

        The last axis has length 1 if all points with the same kept columns have the same sum.
        """
        if missing == 0 or missing == len(self._sizes) - column:
            return next(tables).reshape(replicates, kept, -1)
        size = self._sizes[column]
        with_column = self._spread(tables, replicates, column + 1, kept * size, missing - 1)
        without_column = self._spread(tables, replicates, column + 1, kept, missing)
        total = with_column.reshape(replicates, kept, size, -1) + without_column[:, :, None, :]
        return total.reshape(replicates, kept, -1)


class MarginalQueries(GameSpecification):
    """The settings of a game whose first player looks for a histogram x over all combinations of categories that
    answers every k-way marginal as the data do.

    F(x, y) = Σ_j (y⁺_j - y⁻_j) (A(p_S - x))_j with the histogram p_S of the rows and the matrix A of `Marginals`. The
    second player picks a cell j and the sign of its error; y has the weights y⁺ and y⁻ (2q,) of these choices. So
    max_y F(x, y) = max_j |A(p_S - x)|_j, the largest error.

    >>> import dpviz
    >>> dpviz.MarginalQueries(ways=2).facts().d_x
    480
    """

    kind: ClassVar[str] = "problems.marginals.synthetic_data"
    title: ClassVar[str] = "Synthetic data"
    data: CategoricalSpecification = CategoricalGenerator()
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
        """Return the plane whose axes are the shares of the first category in the first and in the second column."""
        data = self.data.facts()
        if len(data.columns) < 2:
            return super()._plane()
        indices = np.unravel_index(np.arange(data.domain_size), data.sizes)
        is_first = np.column_stack([indices[0] == 0, indices[1] == 0]).astype(float)  # (|Z|, 2), 0 or 1
        horizontal, vertical = (f"Share of rows with {name}={categories[0]}" for name, categories in data.columns[:2])
        return Plane((horizontal, vertical), lambda output: output["x"] @ is_first)

    def marginals(self) -> Marginals:
        """Return the queries; they need no data."""
        return Marginals(self.data.facts(), self.ways)

    def facts(self) -> GameFacts:
        """Return the facts. A row with the domain point z has the gradients ∇ₓ = -Aᵀw with w = y⁺ - y⁻, and
        ∇ᵧ = ±(a - Ax), where a in {0, 1}^q is the column of A for z.

        Oscillation and range : as in `GameFacts`. ∇ₓ reads no data: its oscillation is 0. Its range is 1: between two
        points of the domain each term of Σ_j w_j [z in cell j] changes by at most |w_j|, and ‖w‖₁ ≤ 1.
        ∇ᵧ depends on the row through ±a only, which is ±(a - ½) plus a constant that cancels between neighbours, so its
        oscillation is 1. Replacing the row changes scores by ±(a - a'), whose coordinates differ by at most 2. The
        range of ∇ᵧF is 2 max_j |A(p_S - x)|_j ≤ 2. All these numbers are attained.
        """
        data, marginals = self.data.facts(), self.marginals()
        d_x, d_y = data.domain_size, 2 * marginals.queries
        return GameFacts(
            n=data.n,
            released=self.released,
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
            products=_PRODUCTS_PER_CELL * marginals.summed_numbers,
            table_bytes=(8.0 * data.d + 24.0) * data.n,  # of each row d codes, as they are loaded, and 3 numbers
        )

    def vertex(self, player: Player, index: int) -> str:
        """Return the name of a strategy: of x a combination of categories, of y a marginal cell with the sign of its
        error."""
        if player == "y":
            marginals = self.marginals()
            sign, query = divmod(index, marginals.queries)
            return f"too {('few', 'many')[sign]}: {marginals.cell(query)}"
        data = self.data.facts()
        indices = np.unravel_index(index, data.sizes)
        return ", ".join(
            f"{name}={categories[category]}" for (name, categories), category in zip(data.columns, indices, strict=True)
        )

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "MarginalGame":
        return MarginalGame(self.facts(), self.marginals(), self.data.load(tables))


class MarginalGame(SlicedGame):
    """A game of synthetic data with its rows; see `MarginalQueries`.

    Its strategies are histograms x (R, |Z|), and weights y (R, 2q) of the q queries, first y⁺, then y⁻.
    A replaced row takes 1/n from one cell of every table and adds 1/n to another one, or leaves the table unchanged;
    the sensitivities of all Queries follow from that.
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
        """Compute the answers A x (R, q) to all queries on histograms x (R, |Z|), without reading data."""
        return compute_in_slices(self.marginals.answers, self.facts.seconds, x)

    def transposed(self, weights: np.ndarray) -> np.ndarray:
        """Compute Aᵀw (R, |Z|) for weights w (R, q) of the queries, without reading data."""
        return compute_in_slices(self.marginals.transposed, self.facts.seconds, weights)

    def true_answers(self) -> np.ndarray:
        """Return the answers A p_S (q,) on the data; not private."""
        return self._truth[0]

    def _gradients(self, x: np.ndarray, y: np.ndarray, rows: slice | None) -> Pair:
        """Compute ∇ₓF = -Aᵀ(y⁺ - y⁻) (R, |Z|) and ∇ᵧF (R, 2q), the errors of all queries with signs + and then -."""
        truth = self._truth  # (1, q) the answers to all queries on all rows
        if rows is not None:
            indices = self._indices[rows]
            truth = self.marginals.answers(np.bincount(indices, minlength=self.facts.d_x)[None] / len(indices))
        errors = truth - self.marginals.answers(x)
        return -self.marginals.transposed(self._query_weights(y)), np.concatenate([errors, -errors], axis=1)

    def _evaluate(self, output: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Compute the diagnostics (R,) of an output.

        A method that releases answers and no histogram has "answers" (R, q) in place of "x". A method without "y" is
        given the y with equal weights, which is the best one: its min_u F(u, y) is 0, and none is larger.
        """
        answers = output["answers"] if "answers" in output else self.marginals.answers(output["x"])
        errors = np.abs(self._truth - answers)
        worst, mean = errors.max(axis=1), errors.mean(axis=1)  # the largest error is max_v F(x, v)
        value_of_best_x = np.zeros(len(errors))  # min_u F(u, y)
        if "y" in output:  # F(u, y) = ⟨w, A p_S⟩ - ⟨Aᵀw, u⟩ is smallest at a vertex u
            weights = self._query_weights(output["y"])
            value_of_best_x = weights @ self._truth[0] - self.marginals.transposed(weights).max(axis=1)
        return {"duality_gap": worst - value_of_best_x, "worst_query_error": worst, "mean_query_error": mean}

    def selection_scores(self, answers: np.ndarray) -> Query:
        """Return the query of the errors |A(p_S - x)| (R, q), by which a badly answered query is chosen (MWEM).

        answers : A x (R, q) of a released x. A replaced row moves every score by at most 1/n up or down, so the largest
            change exceeds the smallest by at most 2/n.
        """
        return Query(np.abs(self._truth - answers), 2 / self.facts.n, "range")

    def answer(self, indices: np.ndarray, norm: Norm) -> Query:
        """Return the query of the true answer (R,) to one query per replicate, in ℓ1 or ℓ2.

        indices : (R,) of these queries; they must have been released.
        """
        return Query(self._truth[0][indices], 1 / self.facts.n, norm)

    def marginal_tables(self, replicates: int) -> Query:
        """Return the query of the cells of all marginal tables, A p_S (R, q), the same for all R replicates, in ℓ2.

        If a row is replaced, the counts change by 1 in two cells of each of the m tables, which is √(2m) in ℓ2.
        """
        sensitivity = math.sqrt(2 * len(self.marginals.tables)) / self.facts.n
        return Query(np.broadcast_to(self._truth, (replicates, self.marginals.queries)), sensitivity, "l2")

    def nearest_distributions(self, noisy: np.ndarray) -> np.ndarray:
        """Return for the cells (R, q) of noisy tables those of the nearest distributions, in ℓ2; no cost in privacy.

        They are never further from the true tables than the noisy ones, because the true ones are distributions, too.
        """

        def nearest(tables: np.ndarray) -> np.ndarray:
            return np.concatenate([project_to_simplex(tables[:, cells]) for cells in self.marginals.slices], axis=1)

        return compute_in_slices(nearest, self.facts.seconds, noisy)

    def _query_weights(self, y: np.ndarray) -> np.ndarray:
        """Return the weights y⁺ - y⁻ (R, q) of the errors of all queries, from y (R, 2q)."""
        return y[:, : self.marginals.queries] - y[:, self.marginals.queries :]


# --------------------------------------------------------------------------------------- rows from a released histogram
# This is post-processing: any number of drawn rows costs no privacy beyond that of the histogram.

SEED = 4_090_317_221  # of a public generator; the streams of a run are derived from hashes, never from this
MAX_ROWS = 1_000_000
_RESERVES = 4  # further draws, whose rows may be exchanged for those of the first
_EXCHANGES = 60  # steps of exchanging rows, at most: 0.25 s at 50,000 combinations and 455 tables


@dataclass(frozen=True, eq=False)
class SyntheticTable:
    """A table of rows that were drawn from a released histogram.

    counts : (|Z|,) number of rows with each combination of categories.
    added : largest difference between the shares of a marginal cell in the table and in the released histogram.
    """

    counts: np.ndarray
    added: float

    @property
    def rows(self) -> int:
        """Number of rows of the table."""
        return int(self.counts.sum())

    def frame(self, domain: CategoricalFacts) -> "pd.DataFrame":
        """Return the rows in a random order, with one column of categories for each column of the domain."""
        points = np.repeat(np.arange(len(self.counts)), self.counts)
        return domain.decode(np.random.default_rng(SEED).permutation(points))


def other_mask(domain: CategoricalFacts) -> np.ndarray:
    """Return (|Z|,) bool, True for the combinations of categories in which some column is "other"."""
    has_other = np.zeros(domain.sizes, dtype=bool)
    for column, (_, categories) in enumerate(domain.columns):
        if OTHER in categories:
            np.moveaxis(has_other, column, 0)[categories.index(OTHER)] = True  # written into has_other, by a view
    return has_other.ravel()


def synthetic_table(marginals: Marginals, shares: np.ndarray, rows: int, without_other: bool = False) -> SyntheticTable:
    """Draw `rows` rows whose marginals are as near to those of the released histogram `shares` (|Z|,) as whole rows
    allow.

    By systematic sampling every combination occurs rows × share times, rounded up or down at random. Then rows are
    exchanged for rows of a few further such draws, as long as all marginals together come closer to the release. On the
    census table (19,500 combinations, 583 cells, 1,000 or 32,561 rows) the largest difference that rows add is 2/rows
    to 3/rows; independent draws add 9 to 70 times as much.

    without_other : True to draw only rows without "other" in any column. This choice must not follow from the data.

    Raises UserError if the histogram has no such rows.
    """
    allowed_shares = np.where(other_mask(marginals.domain), 0.0, shares) if without_other else shares
    if not allowed_shares.sum() > 0:
        raise UserError(
            "Every released row has it in some column. Let rows have “other”, or choose another method.",
            title="Nothing is left without “other”",
        )
    generator = np.random.default_rng(SEED)
    draws = np.array([_systematic_sample(allowed_shares, rows, generator) for _ in range(1 + _RESERVES)])
    counts = _exchange_rows(marginals, marginals.answers(allowed_shares[None] / allowed_shares.sum()), draws)
    differences = marginals.answers((counts / rows - shares)[None])
    return SyntheticTable(counts, float(np.abs(differences).max()))


def _systematic_sample(shares: np.ndarray, rows: int, generator: np.random.Generator) -> np.ndarray:
    """Draw counts (|Z|,) that sum to `rows`, each with mean rows × share and less than 1 away from it.

    The shares are intervals in a row, and a count is the number of points of a regular grid, shifted at random, in its
    interval. The intervals are in a random order: in that of the domain, combinations with regular shares would always
    have the same category in some column.
    """
    order = generator.permutation(len(shares))
    cumulated = np.cumsum(shares[order])
    ends = np.floor(rows * (cumulated / cumulated[-1]) + generator.random())  # the last one is `rows`
    counts = np.empty(len(shares), dtype=np.int64)
    counts[order] = np.diff(ends, prepend=0.0)
    return counts


def _exchange_rows(marginals: Marginals, target: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Return the first of the draws of counts (k, |Z|), with rows exchanged as long as that brings its marginals closer
    to `target` (1, q), in ℓ2. Every count stays between the smallest and the largest of the draws.

    The gradient of ½ ‖A counts/rows - target‖² by the counts is Aᵀ(errors)/rows: rows enter where it is smallest, and
    as many leave where it is largest. If an exchange of many rows does not help, fewer are tried.
    """
    counts, lower, upper = draws[0], draws.min(axis=0), draws.max(axis=0)
    rows = counts.sum()
    errors = marginals.answers(counts[None] / rows) - target
    exchange_size = max(1, int(rows) // 50)  # rows of the first exchange; a heuristic
    for _ in range(_EXCHANGES):
        excess = marginals.transposed(errors)[0]
        can_enter, can_leave = np.flatnonzero(counts < upper), np.flatnonzero(counts > lower)
        count = min(exchange_size, len(can_enter), len(can_leave))
        if not count:
            break
        entering = can_enter[np.argpartition(excess[can_enter], count - 1)[:count]]
        leaving = can_leave[np.argpartition(-excess[can_leave], count - 1)[:count]]
        new_counts = counts.copy()
        new_counts[entering] += 1
        new_counts[leaving] -= 1
        new_errors = marginals.answers(new_counts[None] / rows) - target
        if (new_errors**2).sum() < (errors**2).sum():
            counts, errors = new_counts, new_errors
        elif exchange_size == 1:
            break
        else:
            exchange_size //= 2
    return counts


class TableError(NamedTuple):
    """Errors of the answers to one marginal table.

    columns : names of the columns that it counts. cell : name of the cell with the largest error. truth, synthetic :
        the share of rows in that cell, in the data and in the answers.
    worst, mean : largest and mean absolute error of the table's cells.
    """

    columns: str
    cell: str
    truth: float
    synthetic: float
    worst: float
    mean: float


def table_errors(marginals: Marginals, truth: np.ndarray, answers: np.ndarray) -> Sequence[TableError]:
    """Return the errors of every marginal table, the worst table first, as diagnostics, which read raw data.

    truth, answers : (q,) true answers to all queries, and the ones to compare with them.
    """
    names, cells = [name for name, _ in marginals.domain.columns], marginals.cells
    errors = np.abs(answers - truth)
    result = []
    for columns, part in zip(marginals.tables, marginals.slices, strict=True):
        worst = part.start + int(errors[part].argmax())
        result.append(
            TableError(
                columns=" × ".join(names[column] for column in columns),
                cell=cells[worst],
                truth=float(truth[worst]),
                synthetic=float(answers[worst]),
                worst=float(errors[worst]),
                mean=float(errors[part].mean()),
            )
        )
    return sorted(result, key=lambda table: -table.worst)
