"""Matrix games played on records: xᵀAy, where the payoffs A are the mean of one rank-one matrix of signs per record."""

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

# The duality gap of the same strategies in the game whose payoffs are the mean of the law that records are drawn from.
POPULATION_GAP = Metric("population_gap", "Duality gap, population", scale="log", headline=3)

MAX_ENTRIES = 10**7  # entries of a matrix that is held in memory: 80 MB
MAX_PRODUCTS = 3 * 10**11  # multiplications for a matrix that is computed before the run: a few seconds
_MAX_LINEAR_PROGRAM = 500  # strategies of a player, at most, for an exact equilibrium
_AT_ONCE = 16  # columns that are counted between two checkpoints
_ENTRIES, _UNPACKED = 1 << 20, 1 << 24  # signs that are drawn at once, and that are unpacked at once for a product
_FEW = 128  # for as many columns or fewer, counting bits is faster than a pass over the unpacked table
_CACHE_BYTES = 150 << 20  # of counted columns, per player


class RecordsGame(GameSpecification):
    """The settings of a game whose records are vectors of signs ±1, drawn from a seed: one vector for each player."""

    data: LatentGame = LatentGame()

    def _facts(self, oscillation: float = 2.0, **constants: Any) -> GameFacts:
        """Return the facts of a game on these records, with sizes and costs that follow from the settings.

        oscillation : of both players' gradients. constants : the facts that depend on the game.
        """
        n, d_x, d_y = self.data.rows, self.data.strategies_x, self.data.strategies_y
        signs, entries, is_counted = n * (d_x + d_y), d_x * d_y, not can_precompute(n, d_x, d_y)
        # One bit for each sign, and arrays of those that are drawn at once. Then either arrays of signs, unpacked for a
        # pass over the table, or the payoff matrix (8 bytes per entry), its transpose (8) and the float32 sums
        # that it is computed from (4), and signs that are unpacked for these.
        table_bytes = signs / 8 + 8 * min(_ENTRIES, signs)
        table_bytes += 8 * _ENTRIES if is_counted else 20 * entries + 4 * min(_UNPACKED, signs)
        return GameFacts(
            n=n,
            d=d_x + d_y,
            d_x=d_x,
            d_y=d_y,
            products=20 * signs if is_counted else 2 * entries,  # unpacking a sign takes as long as about 20 products
            table_bytes=table_bytes,
            counted=is_counted,
            oscillation_x=oscillation,
            oscillation_y=oscillation,
            **constants,
        )

    @property
    def best_strategies(self) -> tuple[slice | None, str]:
        return self.data.best_strategies


class MatrixGame(RecordsGame):
    """The settings of the game min over x of max over y of xᵀAy with A = (1/n) Σᵢ uᵢ vᵢᵀ, for records (uᵢ, vᵢ) of
    signs.

    The records are stored as bits. So no entry of u and v exceeds 1, and all bounds hold for any content of a row.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.MatrixGame(), dpviz.VertexSampling(iterations=4, draws=2), epsilon=1).run()
    <Trace of Vertex sampling: 20 runs, 4 iterations>
    """

    kind: ClassVar[str] = "problems.matrix_games.matrix"
    title: ClassVar[str] = "Matrix game"

    def facts(self) -> GameFacts:
        # One row's gradients are u⟨v, y⟩ and v⟨u, x⟩ with entries in [-1, 1], of which a replaced row may change every
        # one from one end to the other.
        # gap_change: payoffs are within ±1, so a replaced row moves the payoff of each player's best answer by 2/n.
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
        """Return ∇ₓF = Ay (R, d_x) and ∇ᵧF = Aᵀx (R, d_y), with A of a block of rows, or of all for None."""
        return self._payoffs(x, y, rows)

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        """Compute the duality gaps (R,) on the data and in the population."""
        x, y = output["x"], output["y"]
        return {
            DUALITY_GAP.name: bilinear_gap(self._payoffs(x, y)),
            POPULATION_GAP.name: bilinear_gap(self._payoffs.population(x, y)),
        }

    def payoffs(self, replicates: int) -> Query:
        """Return the query of the matrix A (R, d_x, d_y), the same for all R replicates, in ℓ2.

        Its value is a read-only view of one matrix. Raises UserError if that has too many entries to be held in memory.
        """
        facts = self.facts
        if facts.d_x * facts.d_y > MAX_ENTRIES:
            raise UserError(
                f"A payoff matrix of {facts.d_x:,} × {facts.d_y:,} entries does not fit into memory. Choose fewer "
                "strategies, or leave out the noisy matrix.",
                title="The payoff matrix is too large",
            )
        # A replaced row changes each of d_x d_y entries by at most twice its bound, divided by n.
        sensitivity = 2 * facts.payoff_bound * math.sqrt(facts.d_x * facts.d_y) / facts.n
        matrix = self._payoffs.matrix()
        return Query(np.broadcast_to(matrix, (replicates, *matrix.shape)), sensitivity, "l2")

    def equilibrium(self) -> "Equilibrium":
        """Compute the game's value and optimal strategies on the data. Raises UserError if a player has more than 500
        strategies."""
        if max(self.facts.d_x, self.facts.d_y) > _MAX_LINEAR_PROGRAM:
            raise UserError(
                f"The exact equilibrium is computed for up to {_MAX_LINEAR_PROGRAM} strategies. Choose fewer.",
                title="Too many strategies for a linear program",
            )
        return equilibrium(self._payoffs.matrix())

    def value(self) -> float:
        """Compute the game's value min_x max_y xᵀAy on the data. Raises UserError as `equilibrium` does."""
        return self.equilibrium().value


class Equilibrium(NamedTuple):
    """The value of a game, and optimal strategies x (d_x,) and y (d_y,)."""

    value: float
    x: np.ndarray
    y: np.ndarray


def equilibrium(payoffs: np.ndarray) -> Equilibrium:
    """Compute the equilibrium of xᵀAy for payoffs A (d_x, d_y), by linear programming.

    Player x minimises t such that Aᵀx ≤ t in all d_y coordinates; the dual variables of these constraints are y.
    """
    d_x, d_y = payoffs.shape  # the variables of the program are x, and then t
    result = linprog(
        np.append(np.zeros(d_x), 1.0),
        A_ub=np.column_stack([payoffs.T, -np.ones(d_y)]),
        b_ub=np.zeros(d_y),
        A_eq=np.append(np.ones(d_x), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * d_x + [(None, None)],
        method="highs",
    )
    # SciPy's marginals are minus the dual variables. Rounding may make either slightly negative.
    x, y = np.maximum(result.x[:-1], 0.0), np.maximum(-result.ineqlin.marginals, 0.0)
    return Equilibrium(float(result.fun), x / x.sum(), y / y.sum())


def bilinear_gap(products: Pair) -> np.ndarray:
    """Return the duality gap (R,) of xᵀAy, max_v xᵀAv - min_u uᵀAy, from the products Ay (R, d_x) and Aᵀx (R, d_y).

    These are extrema of linear functions, so they are at vertices.
    """
    against_y, against_x = products
    return against_x.max(axis=1) - against_y.min(axis=1)


class Payoffs:
    """The payoffs A = UᵀV/n of the records, and those of the population, of which products with strategies are
    computed.

    records : the signs U (n, d_x) and V (n, d_y) of both players. matrix : A (d_x, d_y), if it has been computed.
    population : factors P_x (d_x, r), P_y (d_y, r) of the mean payoffs A* = P_x P_yᵀ of the law that the records were
        drawn from.
    """

    @classmethod
    def of(cls, records: tuple[Signs, Signs], population: Pair) -> "Payoffs":
        """Return the payoffs of these records, with the matrix A if it is affordable to compute it."""
        u, v = records
        matrix = u.mean_products(v) if can_precompute(u.n, u.d, v.d) else None
        return cls(records, population, matrix)

    def __init__(self, records: tuple[Signs, Signs], population: Pair, matrix: np.ndarray | None) -> None:
        u, v = self._records = records
        self._population = population
        self._products_y = MeanProducts(u, v, None if matrix is None else np.ascontiguousarray(matrix.T))  # y -> Ay
        self._products_x = MeanProducts(v, u, matrix)  # x -> Aᵀx

    def __call__(self, x: np.ndarray, y: np.ndarray, rows: slice | None = None) -> Pair:
        """Return Ay (R, d_x) and Aᵀx (R, d_y), with A of a block of rows, or of all for None, for strategies x (R, d_x)
        and y (R, d_y)."""
        return self._products_y(y, rows), self._products_x(x, rows)

    def population(self, x: np.ndarray, y: np.ndarray) -> Pair:
        """Return A*y (R, d_x) and A*ᵀx (R, d_y) with the population's mean payoffs A* = P_x P_yᵀ."""
        factor_x, factor_y = self._population
        return (y @ factor_y) @ factor_x.T, (x @ factor_x) @ factor_y.T

    def matrix(self) -> np.ndarray:
        """Return A (d_x, d_y), computed now if it was not before."""
        u, v = self._records
        matrix = self._products_x.columns  # the rows are the columns of Aᵀ: this is A
        return u.mean_products(v) if matrix is None else matrix


def can_precompute(n: int, d: int, d_other: int) -> bool:
    """Return True if the (d, d_other) matrix of mean products over n rows is small and fast enough to be computed
    before the run."""
    return d * d_other <= MAX_ENTRIES and n * d * d_other <= MAX_PRODUCTS


def counted_bytes(facts: GameFacts, vertices: float) -> float:
    """Return the bytes of the columns that are counted and kept if `vertices` vertices of each player are drawn; 0 if
    all payoffs are computed before the run."""
    if not facts.counted:
        return 0.0
    sizes = ((facts.d_x, facts.d_y), (facts.d_y, facts.d_x))
    return sum(min(4 * min(vertices, d_other) * d, _CACHE_BYTES) for d, d_other in sizes)  # counts are int32


class MeanProducts:
    """The map from weights w to M w for the matrix M = (1/m) Σᵢ uᵢ vᵢᵀ over m rows of signs u and v.

    M is never needed as a whole. If few of the weights are not 0, M w needs few columns of M: these are read from M if
    it has been computed, or else counted from the bits of the signs, and kept; the columns that were not used for the
    longest time are dropped. For more weights, a pass over the table computes Σᵢ uᵢ⟨vᵢ, w⟩.

    own : the signs u (n, d). other : the signs v (n, d').
    columns : (d', d) the columns of M over all rows, if they have been computed.
    """

    def __init__(self, own: Signs, other: Signs, columns: np.ndarray | None) -> None:
        self._u, self._v, self.columns = own, other, columns
        self._cached: OrderedDict[int, np.ndarray] = OrderedDict()
        self._lock = threading.Lock()
        # The latest weights that all replicates had in common, and their product M w; of none at first.
        self._common = (np.empty(0), np.empty((0, own.d)))

    def __call__(self, weights: np.ndarray, rows: slice | None = None) -> np.ndarray:
        """Return M w (R, d), with M of a block of rows, or of all for None, for weights w (R, d').

        If all replicates have the same weights, as at the start of every method, one product is computed, and kept.
        """
        if rows is None and (weights == weights[0]).all():
            common_weights, product = self._common
            if not np.array_equal(common_weights, weights[0]):
                product = self._product(weights[:1], rows=None)
                self._common = (weights[0].copy(), product)
            return np.repeat(product, len(weights), axis=0)
        return self._product(weights, rows)

    def _product(self, weights: np.ndarray, rows: slice | None) -> np.ndarray:
        """Return M w (R, d) for weights w (R, d'), in the fastest way for the number of columns that have weight."""
        used = np.flatnonzero((weights != 0).any(axis=0))
        if rows is None and self.columns is not None:
            has_few = 2 * len(used) < len(self.columns)  # copying more columns takes longer than it saves
            return weights[:, used] @ self.columns[used] if has_few else weights @ self.columns
        start, stop = self._u.span(rows)
        m = stop - start
        if rows is not None and len(used) <= _FEW:  # nothing is cached: a block is used once
            columns = self._u.cross(self._v, used, rows)  # of m M
            return weights[:, used] @ columns / m
        if rows is None and sum(vertex not in self._cached for vertex in used.tolist()) <= _FEW:
            total = np.zeros((len(weights), self._u.d))  # n M w, from the columns of n M, a block of them at a time
            for first in range(0, len(used), _AT_ONCE):
                checkpoint()
                block = used[first : first + _AT_ONCE]
                total += weights[:, block] @ self._counted_columns(block)
            return total / m
        v_mixed = self._v.mix(weights, rows)  # ⟨vᵢ, w⟩ for every row
        return self._u.inner(v_mixed, rows) / m  # `inner`: Σᵢ uᵢ⟨vᵢ, w⟩

    def _counted_columns(self, vertices: np.ndarray) -> np.ndarray:
        """Return the columns of n M over all rows with these indices, (k, d) int32, from the cache or counted now."""
        with self._lock:
            missing = np.array([vertex for vertex in vertices.tolist() if vertex not in self._cached], dtype=np.intp)
            if len(missing):  # `cross` counts Σᵢ uᵢ vᵢⱼ for each index j
                self._cached.update(zip(missing.tolist(), self._u.cross(self._v, missing), strict=True))
            for vertex in vertices.tolist():
                self._cached.move_to_end(vertex)  # the first ones are dropped first
            columns = np.stack([self._cached[vertex] for vertex in vertices.tolist()])
            while len(self._cached) > max(_FEW, _CACHE_BYTES // (4 * self._u.d)):  # some always stay
                self._cached.popitem(last=False)
            return columns
