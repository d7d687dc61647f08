"""Convex-concave quadratic games: a matrix game with curvature, which is public or itself a mean over the records."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import model_validator

from dpviz.checkpoints import checkpoint, slices
from dpviz.datasets.base import NO_TABLES
from dpviz.datasets.synthetic import Signs
from dpviz.problems.base import Metric
from dpviz.problems.games.games import (
    DEAR_GAP,
    DUALITY_GAP,
    SECONDS_PER_PRODUCT,
    Game,
    GameFacts,
    Pair,
    SlicedGame,
    minimise,
    project,
)
from dpviz.problems.games.matrix_games import POPULATION_GAP, MeanProducts, Payoffs, RecordsGame, affordable
from dpviz.specification import number

_LINEAR = 1e-9  # a curvature below this changes no digit of a gap, and dividing by it would overflow
_GAP_TOLERANCE = 1e-4


def _weight(player: str, symbol: str) -> Any:
    """Declare the field of a player's curvature."""
    return number(
        1.0,
        0.0,
        4.0,
        label=f"Curvature of {player}",
        symbol=symbol,
        help="Weight of the squared norm, which rewards mixing. It needs no data, hence no privacy. 0 = matrix game.",
    )


class QuadraticGame(RecordsGame):
    """λ_x/2 ‖x‖² + xᵀAy - λ_y/2 ‖y‖², with A as in `MatrixGame`; the squared norms need no data.

    The records are stored as bits, so the bounds of their part hold by construction; the norms cancel between
    neighbouring data sets, so they cost no privacy.
    """

    kind: ClassVar[str] = "problems.quadratic_games.quadratic"
    title: ClassVar[str] = "Quadratic game"
    curvature_x: float = _weight("x", "λₓ")
    curvature_y: float = _weight("y", "λᵧ")

    def facts(self) -> GameFacts:
        largest = max(self.curvature_x, self.curvature_y)
        return self._facts(
            lipschitz=1 + largest,
            range_x=2 + self.curvature_x,
            range_y=2 + self.curvature_y,
            smoothness=max(1.0, largest),
            smoothness_x=self.curvature_x,
            smoothness_y=self.curvature_y,
            largest_gap=2 + (self.curvature_x + self.curvature_y) / 2,  # xᵀAy within ±1, ½ λ ‖·‖² within 0 and ½ λ
            gap_change=4.0,  # the norms are public: as in a matrix game
        )

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "QuadraticGameProblem":
        payoffs = Payoffs.of(self.data.load(), self.data.population())
        return QuadraticGameProblem(self.facts(), payoffs, (self.curvature_x, self.curvature_y))


class QuadraticGameProblem(Game):
    """A quadratic game with its records; see `QuadraticGame`. curvatures : (λ_x, λ_y)."""

    metrics: ClassVar[tuple[Metric, ...]] = (DUALITY_GAP, POPULATION_GAP)

    def __init__(self, facts: GameFacts, payoffs: Payoffs, curvatures: tuple[float, float]) -> None:
        self.facts, self._payoffs, self._curvatures = facts, payoffs, curvatures

    def gradients(self, x: np.ndarray, y: np.ndarray, rows: slice | None = None) -> Pair:
        against_y, against_x = self._payoffs(x, y, rows)
        return self._curvatures[0] * x + against_y, against_x - self._curvatures[1] * y

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        x, y = output["x"], output["y"]
        on_data = self._payoffs(x, y)
        gaps = (
            quadratic_gap(x, y, product_pair, self._curvatures)
            for product_pair in (on_data, self._payoffs.population(x, y))
        )
        return dict(zip((metric.name for metric in self.metrics), gaps, strict=True))


def quadratic_gap(x: np.ndarray, y: np.ndarray, products: Pair, curvatures: tuple[float, float]) -> np.ndarray:
    """Compute the duality gap of λ_x/2 ‖x‖² + xᵀAy - λ_y/2 ‖y‖² at x (R, d_x), y (R, d_y), from (Ay, Aᵀx); (R,).

    The best answers are projections: max over v of ⟨c, v⟩ - λ/2 ‖v‖² is attained at the point of the simplex that is
    nearest to c/λ, and for λ = 0 at a vertex.
    """
    against_y, against_x = products
    best_y = 0.5 * curvatures[0] * (x * x).sum(axis=1) + _largest(against_x, curvatures[1])
    best_x = -_largest(-against_y, curvatures[0]) - 0.5 * curvatures[1] * (y * y).sum(axis=1)
    return best_y - best_x


def _largest(slopes: np.ndarray, curvature: float) -> np.ndarray:
    """Return max over v in the simplex of ⟨slopes, v⟩ - curvature/2 ‖v‖², slopes (R, d); (R,)."""
    if curvature < _LINEAR:
        return slopes.max(axis=1)
    v = project(slopes / curvature)
    return (slopes * v).sum(axis=1) - 0.5 * curvature * (v * v).sum(axis=1)


class CurvedGame(RecordsGame):
    """Mean over the records (p, u, v, q) of ½⟨p, x⟩² + ⟨u, x⟩⟨v, y⟩ - ½⟨q, y⟩², all signs: curvature is private, too.

    p and q are fair signs, independent of u and v, so that in the population this is `QuadraticGame` with weights 1.
    One row's gradient p⟨p, x⟩ + u⟨v, y⟩ has entries in [-2, 2], by construction.
    """

    kind: ClassVar[str] = "problems.quadratic_games.curved"
    title: ClassVar[str] = "Quadratic game, private curvature"

    @model_validator(mode="after")
    def _curvature_fits(self) -> Self:
        largest = max(self.data.strategies_x, self.data.strategies_y)
        if not affordable(3 * self.data.rows, largest, largest):  # payoffs and both players' second moments
            raise ValueError(
                f"the second moments of {largest:,} strategies over {self.data.rows:,} rows take too long to compute; "
                f"choose fewer strategies or rows"
            )
        return self

    def facts(self) -> GameFacts:
        # largest_gap: one product within ±1, two halves of squares within 0 and ½.
        smoothness = {name: 1.0 for name in ("smoothness", "smoothness_x", "smoothness_y")}
        facts = self._facts(oscillation=4.0, lipschitz=2.0, largest_gap=3.0, **smoothness)
        n, d_x, d_y = facts.n, facts.d_x, facts.d_y
        squares = d_x**2 + d_y**2  # entries of both players' second moments, in addition to the payoffs
        more_bytes = n * (d_x + d_y) / 8 + 8 * squares + 16 * max(d_x, d_y) ** 2
        return replace(facts, products=facts.products + squares, table_bytes=facts.table_bytes + more_bytes)

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "CurvedGameProblem":
        records = self.data.load()
        curved = self.data.fair_signs()
        payoffs = Payoffs.of(records, self.data.population())
        p, q = curved
        return CurvedGameProblem(self.facts(), payoffs, curved, (p.mean_products(p), q.mean_products(q)))


class CurvedGameProblem(SlicedGame):
    """A game with private curvature and its records; see `CurvedGame`.

    curved : the signs p (n, d_x) and q (n, d_y). moments : their mean products.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (DEAR_GAP, POPULATION_GAP)

    def __init__(self, facts: GameFacts, payoffs: Payoffs, curved: tuple[Signs, Signs], moments: Pair) -> None:
        self.facts, self._payoffs, self._moments = facts, payoffs, moments
        self._curved = tuple(
            MeanProducts(signs, signs, moments) for signs, moments in zip(curved, self._moments, strict=True)
        )
        self._eigenvalue_bounds: tuple[float, ...] | None = None

    def prepare(self) -> None:
        if self._eigenvalue_bounds is None:
            self._eigenvalue_bounds = tuple(eigenvalue_bound(moments) for moments in self._moments)

    def _gradients(self, x: np.ndarray, y: np.ndarray, rows: slice | None) -> Pair:
        against_y, against_x = self._payoffs(x, y, rows)
        return self._curved[0](x, rows) + against_y, against_x - self._curved[1](y, rows)

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        x, y = output["x"], output["y"]
        are_alike = len(x) > 1 and (x == x[0]).all() and (y == y[0]).all()  # as at the start of every method
        if expensive and are_alike:  # one minimisation is enough
            of_one = self.evaluate({"x": x[:1], "y": y[:1]})
            return {name: np.repeat(value, len(x)) for name, value in of_one.items()}
        if not expensive:
            return self._evaluate(output)
        against_y, against_x = self._payoffs(x, y)
        largest = self._lower_bounds(1, -against_x)
        smallest = self._lower_bounds(0, against_y)
        best_y = 0.5 * (x * (x @ self._moments[0])).sum(axis=1) - largest
        best_x = smallest - 0.5 * (y * (y @ self._moments[1])).sum(axis=1)
        return {DEAR_GAP.name: best_y - best_x} | self._evaluate(output)

    def _evaluate(self, output: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        x, y = output["x"], output["y"]
        return {POPULATION_GAP.name: quadratic_gap(x, y, self._payoffs.population(x, y), (1.0, 1.0))}

    def _lower_bounds(self, player: int, slopes: np.ndarray) -> np.ndarray:
        """Return certified lower bounds on the minima over u of ½ uᵀMu + ⟨slopes, u⟩, M the player's moments; (R,).

        Bounding both players' best answers from outside makes the gap the upper end of its interval.
        """
        moments = self._moments[player]

        def value_and_gradient(u: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            product = u @ moments
            return ((0.5 * product + slopes[indices]) * u).sum(axis=1), product + slopes[indices]

        # In the population M is the identity, where the projection of -slopes is the minimum.
        self.prepare()
        assert self._eigenvalue_bounds is not None
        start, seconds = project(-slopes), self.facts.seconds
        certified = minimise(
            value_and_gradient, start, self._eigenvalue_bounds[player], _GAP_TOLERANCE, seconds=seconds
        )
        return certified.lower


def eigenvalue_bound(matrix: np.ndarray) -> float:
    """Compute (Σ λ⁸)^(1/8) of a symmetric matrix (d, d), a bound on its largest eigenvalue.

    It is at most d^(1/8) times that eigenvalue, and much cheaper.
    """
    seconds = matrix.size * SECONDS_PER_PRODUCT
    square, total = np.empty_like(matrix), 0.0
    for rows in slices(len(matrix), seconds):
        np.matmul(matrix[rows], matrix, out=square[rows])
    checkpoint()
    for rows in slices(len(matrix), seconds):
        fourth = square[rows] @ square
        total += float((fourth * fourth).sum())
    return total**0.125
