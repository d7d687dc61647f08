"""Matrix games played on records: xᵀAy, where A is the mean of one rank-one matrix of signs per row."""

import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.optimize import linprog

from dpviz.checkpoints import checkpoint
from dpviz.datasets.base import NO_TABLES
from dpviz.datasets.synthetic import LatentGame, Signs
from dpviz.errors import UserError
from dpviz.privacy.releases import Query
from dpviz.problems.base import Metric
from dpviz.problems.games.games import DUALITY_GAP, Game, GameFacts, GameSpecification, Pair

POPULATION_GAP = Metric("population_gap", "Duality gap, population", scale="log", headline=3)

MAX_ENTRIES = 10**7  # entries of a matrix that is held in memory: 80 MB
MAX_PRODUCTS = 3 * 10**11  # multiplications for a matrix that is computed before the run: a few seconds
_MAX_LINEAR_PROGRAM = 500
_AT_ONCE = 16  # columns that are counted between two checkpoints
_ENTRIES, _UNPACKED = 1 << 20, 1 << 24  # signs that are drawn, or unpacked for a product of matrices, at once
_FEW = 128  # up to so many columns, counting bits is faster than a pass over the unpacked table
_CACHE_BYTES = 150 << 20  # per player


class RecordsGame(GameSpecification):
    """A game on records of signs, which are drawn from a generator."""

    data: LatentGame = LatentGame()

    def _facts(self, oscillation: float = 2.0, **constants: Any) -> GameFacts:
        """Return the facts of this table. oscillation : of both players. constants : the other facts."""
        n, d_x, d_y = self.data.rows, self.data.strategies_x, self.data.strategies_y
        signs, entries, is_counted = n * (d_x + d_y), d_x * d_y, not affordable(n, d_x, d_y)
        table_bytes = signs / 8 + 8 * min(_ENTRIES, signs)
        table_bytes += 8 * _ENTRIES if is_counted else 20 * entries + 4 * min(_UNPACKED, signs)
        return GameFacts(
            n=n,
            d=d_x + d_y,
            d_x=d_x,
            d_y=d_y,
            products=20 * signs if is_counted else 2 * entries,
            table_bytes=table_bytes,
            counted=is_counted,
            oscillation_x=oscillation,
            oscillation_y=oscillation,
            **constants,
        )

    @property
    def good(self) -> tuple[slice | None, str]:
        return self.data.good


class MatrixGame(RecordsGame):
    """min over x of max over y of xᵀAy, A = (1/n) Σᵢ uᵢ vᵢᵀ, for records (uᵢ, vᵢ) of signs.

    The records are stored as bits, so |u|, |v| ≤ 1, and with it every bound below holds by construction, for any
    content of a row.
    """

    kind: ClassVar[str] = "problems.matrix_games.matrix"
    title: ClassVar[str] = "Matrix game"

    def facts(self) -> GameFacts:
        # One row's gradients are u⟨v, y⟩ and v⟨u, x⟩, entries in [-1, 1]: a replaced row may turn each -1 into +1 and
        # each +1 into -1.
        # gap_change: payoffs are within ±1, so each player's best answer moves by 2/n.
        return self._facts(lipschitz=1.0, smoothness=1.0, payoff_bound=1.0, largest_gap=2.0, gap_change=4.0)

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "MatrixGameProblem":
        payoffs = Payoffs.of(self.data.load(), self.data.population())
        return MatrixGameProblem(self.facts(), payoffs)


class MatrixGameProblem(Game):
    """A matrix game with its records; see `MatrixGame`."""

    metrics: ClassVar[tuple[Metric, ...]] = (DUALITY_GAP, POPULATION_GAP)

    def __init__(self, facts: GameFacts, payoffs: "Payoffs") -> None:
        self.facts, self._payoffs = facts, payoffs

    def gradients(self, x: np.ndarray, y: np.ndarray, rows: slice | None = None) -> Pair:
        return self._payoffs(x, y, rows)

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        x, y = output["x"], output["y"]
        products = self._payoffs(x, y)
        gaps = (bilinear_gap(pair) for pair in (products, self._payoffs.population(x, y)))
        return dict(zip((metric.name for metric in self.metrics), gaps, strict=True))

    def payoffs(self, replicates: int) -> Query:
        """Return the matrix A for R replicates; (R, d_x, d_y), a read-only view of one matrix.

        Raises UserError if it has too many entries to be held.
        """
        facts = self.facts
        if facts.d_x * facts.d_y > MAX_ENTRIES:
            raise UserError(
                f"A payoff matrix of {facts.d_x:,} × {facts.d_y:,} entries does not fit into memory. Choose fewer "
                "strategies, or leave out the noisy matrix.",
                title="The payoff matrix is too large",
            )
        # Replacing a row changes every entry by at most twice its bound, divided by n.
        sensitivity = 2 * facts.payoff_bound * math.sqrt(facts.d_x * facts.d_y) / facts.n
        matrix = self._payoffs.matrix()
        return Query(np.broadcast_to(matrix, (replicates, *matrix.shape)), sensitivity, "l2")

    def equilibrium(self) -> "Equilibrium":
        """Compute value and optimal strategies on the data. Raises UserError for more than 500 strategies of a
        player."""
        if max(self.facts.d_x, self.facts.d_y) > _MAX_LINEAR_PROGRAM:
            raise UserError(
                f"The exact equilibrium is computed for up to {_MAX_LINEAR_PROGRAM} strategies. Choose fewer.",
                title="Too many strategies for a linear program",
            )
        return equilibrium(self._payoffs.matrix())

    def value(self) -> float:
        """Compute the game's value on the data, min over x of max over y; raises as `equilibrium` does."""
        return self.equilibrium().value


class Equilibrium(NamedTuple):
    """A game's value and optimal strategies x (d_x,) and y (d_y,)."""

    value: float
    x: np.ndarray
    y: np.ndarray


def equilibrium(payoffs: np.ndarray) -> Equilibrium:
    """Compute the equilibrium of xᵀAy for payoffs A (d_x, d_y), by linear programming: min t with Aᵀx ≤ t; y is the
    dual."""
    d_x, d_y = payoffs.shape
    result = linprog(
        np.append(np.zeros(d_x), 1.0),
        A_ub=np.column_stack([payoffs.T, -np.ones(d_y)]),
        b_ub=np.zeros(d_y),
        A_eq=np.append(np.ones(d_x), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * d_x + [(None, None)],
        method="highs",
    )
    x, y = np.maximum(result.x[:-1], 0.0), np.maximum(-result.ineqlin.marginals, 0.0)
    return Equilibrium(float(result.fun), x / x.sum(), y / y.sum())


def bilinear_gap(products: Pair) -> np.ndarray:
    """Return max over v of xᵀAv - min over u of uᵀAy from (Ay, Aᵀx): linear functions are extreme at vertices; (R,)."""
    against_y, against_x = products
    return against_x.max(axis=1) - against_y.min(axis=1)


class Payoffs:
    """The mean payoffs A = UᵀV/n of two players' records, and those of the population, as products with strategies.

    records : the signs of both players, (n, d_x) and (n, d_y). matrix : A, if it has been computed.
    population : factors (d_x, r), (d_y, r) of the mean payoff matrix that the records were drawn from.
    """

    @classmethod
    def of(cls, records: tuple[Signs, Signs], population: Pair) -> "Payoffs":
        """Construct the payoffs, with the matrix if that is affordable."""
        u, v = records
        matrix = u.mean_products(v) if affordable(u.n, u.d, v.d) else None
        return cls(records, population, matrix)

    def __init__(self, records: tuple[Signs, Signs], population: Pair, matrix: np.ndarray | None) -> None:
        u, v = self._records = records
        self._population = population
        self._of_y = MeanProducts(u, v, None if matrix is None else np.ascontiguousarray(matrix.T))
        self._of_x = MeanProducts(v, u, matrix)

    def __call__(self, x: np.ndarray, y: np.ndarray, rows: slice | None = None) -> Pair:
        """Return (Ay, Aᵀx), the means over the given rows (None = all); (R, d_x), (R, d_y)."""
        return self._of_y(y, rows), self._of_x(x, rows)

    def population(self, x: np.ndarray, y: np.ndarray) -> Pair:
        """Return (A*y, A*ᵀx) for the population's mean payoffs A* = P_x P_yᵀ."""
        of_x, of_y = self._population
        return (y @ of_y) @ of_x.T, (x @ of_x) @ of_y.T

    def matrix(self) -> np.ndarray:
        """Return A, (d_x, d_y)."""
        u, v = self._records
        return u.mean_products(v) if self._of_x.columns is None else self._of_x.columns


def affordable(n: int, d: int, d_other: int) -> bool:
    """Return whether the (d, d_other) matrix of mean products over n rows is computed before the run."""
    return d * d_other <= MAX_ENTRIES and n * d * d_other <= MAX_PRODUCTS


def counted_bytes(facts: GameFacts, vertices: float) -> float:
    """Return the memory of the columns that are counted and kept, for `vertices` drawn vertices of each player."""
    columns = ((facts.d_x, facts.d_y), (facts.d_y, facts.d_x))
    return sum(min(4 * min(vertices, d_other) * d, _CACHE_BYTES) for d, d_other in columns) if facts.counted else 0.0


class MeanProducts:
    """w -> M w for the matrix M = (1/m) Σᵢ uᵢ vᵢᵀ over rows u of `own` (n, d) and v of `other` (n, d').

    The payoffs of few vertices need only their columns of M: they are read from M, or counted from the bits and kept,
    the oldest being dropped. Other weights w take a pass over the unpacked table.

    columns : (d', d) the columns of M over all rows, if they have been computed.
    """

    def __init__(self, own: Signs, other: Signs, columns: np.ndarray | None) -> None:
        self._own, self._other, self.columns = own, other, columns
        self._cached: OrderedDict[int, np.ndarray] = OrderedDict()
        self._lock = threading.Lock()
        self._common = (
            np.empty(0),
            np.empty((0, own.d)),
        )  # the latest weights that all replicates had in common, and their product

    def __call__(self, weights: np.ndarray, rows: slice | None = None) -> np.ndarray:
        """Return M w over the given rows (None = all) for weights w (R, d'); (R, d).

        Where all replicates have the same weights, as at the start of every method, one product is computed, and kept.
        """
        if rows is None and (weights == weights[0]).all():
            common_weights, product = self._common
            if not np.array_equal(common_weights, weights[0]):
                product = self._product(weights[:1], None)
                self._common = (weights[0].copy(), product)
            return np.repeat(product, len(weights), axis=0)
        return self._product(weights, rows)

    def _product(self, weights: np.ndarray, rows: slice | None) -> np.ndarray:
        """Return M w over the given rows, in the fastest way for the number of vertices with weight."""
        used = np.flatnonzero((weights != 0).any(axis=0))
        if rows is None and self.columns is not None:
            has_few = 2 * len(used) < len(self.columns)
            return weights[:, used] @ self.columns[used] if has_few else weights @ self.columns
        start, stop = self._own.span(rows)
        if len(used) <= _FEW and rows is not None:
            return weights[:, used] @ self._own.cross(self._other, used, rows) / (stop - start)
        if rows is None and sum(vertex not in self._cached for vertex in used.tolist()) <= _FEW:
            return self._from_columns(weights, used) / self._own.n
        return self._own.inner(self._other.mix(weights, rows), rows) / (stop - start)

    def _from_columns(self, weights: np.ndarray, used: np.ndarray) -> np.ndarray:
        """Return n M w from single columns of n M, which are fetched in blocks."""
        total = np.zeros((len(weights), self._own.d))
        for start in range(0, len(used), _AT_ONCE):
            checkpoint()
            block = used[start : start + _AT_ONCE]
            total += weights[:, block] @ self._fetch(block)
        return total

    def _fetch(self, vertices: np.ndarray) -> np.ndarray:
        """Return the vertices' columns of n M; (k, d) int32."""
        with self._lock:
            missing = np.array([vertex for vertex in vertices.tolist() if vertex not in self._cached], dtype=np.intp)
            if len(missing):
                self._cached |= zip(missing.tolist(), self._own.cross(self._other, missing), strict=True)
            for vertex in vertices.tolist():
                self._cached.move_to_end(vertex)
            columns = np.stack([self._cached[vertex] for vertex in vertices.tolist()])
            while len(self._cached) > max(_FEW, _CACHE_BYTES // (4 * self._own.d)):
                self._cached.popitem(last=False)
            return columns
