"""Convex-concave quadratic games: matrix games with an additional curvature, which is public or itself a mean over the
records. In the shapes, R is the number of replicates (simulated runs)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import model_validator

from dpviz.checkpoints import checkpoint, checkpointed_slices
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
    minimise_on_simplex,
    project_to_simplex,
)
from dpviz.problems.games.matrix_games import POPULATION_GAP, MeanProducts, Payoffs, RecordsGame, can_precompute
from dpviz.specification import number

_LINEAR = 1e-9  # a curvature below this changes no digit of a gap, and dividing by it would overflow
_GAP_TOLERANCE = 1e-4  # to which the gap of `CurvedGame` is computed


def _curvature_field(player: str, symbol: str) -> Any:
    """Declare the field of a player's curvature λ."""
    return number(
        1.0,
        0.0,
        4.0,
        label=f"Curvature of {player}",
        symbol=symbol,
        help="Weight of the squared norm, which rewards mixing. It needs no data, hence no privacy. 0 = matrix game.",
        limits=(0.0, 1e6),
    )


class QuadraticGame(RecordsGame):
    """The settings of the game with F(x, y) = (λ_x/2) ‖x‖² + xᵀAy - (λ_y/2) ‖y‖², with the payoffs A = (1/n) Σᵢ uᵢ vᵢᵀ
    of a `MatrixGame`. The squared norms do not depend on data, so they cost no privacy.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.QuadraticGame(curvature_x=2), dpviz.VertexSampling(iterations=4), epsilon=1).run()
    <Trace of Vertex sampling: 20 runs, 4 iterations>
    """

    kind: ClassVar[str] = "problems.quadratic_games.quadratic"
    title: ClassVar[str] = "Quadratic game"
    curvature_x: float = _curvature_field("x", "λₓ")
    curvature_y: float = _curvature_field("y", "λᵧ")

    def facts(self) -> GameFacts:
        largest = max(self.curvature_x, self.curvature_y)
        # ∇ₓF = λ_x x + Ay, and the entries of x are in [0, 1], those of Ay within ±1; ∇ᵧF has the same form.
        return self._facts(
            lipschitz=1 + largest,
            range_x=2 + self.curvature_x,
            range_y=2 + self.curvature_y,
            smoothness=max(1.0, largest),
            smoothness_x=self.curvature_x,
            smoothness_y=self.curvature_y,
            # xᵀAy is within ±1, and each (λ/2) ‖·‖² is between 0 and λ/2.
            largest_gap=2 + (self.curvature_x + self.curvature_y) / 2,
            gap_change=4.0,  # the norms are public: as in a matrix game
        )

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "QuadraticGameProblem":
        payoffs = Payoffs.of(self.data.load(), self.data.population())
        return QuadraticGameProblem(self.facts(), payoffs, (self.curvature_x, self.curvature_y))


class QuadraticGameProblem(Game):
    """A quadratic game with its records; see `QuadraticGame`.

    curvatures : (λ_x, λ_y).
    """

    metrics: ClassVar[tuple[Metric, ...]] = (DUALITY_GAP, POPULATION_GAP)

    def __init__(self, facts: GameFacts, payoffs: Payoffs, curvatures: tuple[float, float]) -> None:
        self.facts, self._payoffs, self._curvatures = facts, payoffs, curvatures

    def gradients(self, x: np.ndarray, y: np.ndarray, rows: slice | None = None) -> Pair:
        """Return ∇ₓF = λ_x x + Ay (R, d_x) and ∇ᵧF = Aᵀx - λ_y y (R, d_y), with A of a block of rows, or of all."""
        against_y, against_x = self._payoffs(x, y, rows)
        return self._curvatures[0] * x + against_y, against_x - self._curvatures[1] * y

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        """Compute the duality gaps (R,) on the data and in the population."""
        x, y = output["x"], output["y"]
        return {
            DUALITY_GAP.name: quadratic_gap(x, y, self._payoffs(x, y), self._curvatures),
            POPULATION_GAP.name: quadratic_gap(x, y, self._payoffs.population(x, y), self._curvatures),
        }


def quadratic_gap(x: np.ndarray, y: np.ndarray, products: Pair, curvatures: tuple[float, float]) -> np.ndarray:
    """Compute the duality gap (R,) of F(x, y) = (λ_x/2) ‖x‖² + xᵀAy - (λ_y/2) ‖y‖² at x (R, d_x), y (R, d_y).

    products : Ay (R, d_x) and Aᵀx (R, d_y). curvatures : (λ_x, λ_y).
    """
    (against_y, against_x), (curvature_x, curvature_y) = products, curvatures
    value_of_best_y = 0.5 * curvature_x * (x * x).sum(axis=1) + _largest(against_x, curvature_y)
    # The minimum over u of (λ_x/2) ‖u‖² + ⟨Ay, u⟩ is minus the maximum of ⟨-Ay, u⟩ - (λ_x/2) ‖u‖².
    value_of_best_x = -_largest(-against_y, curvature_x) - 0.5 * curvature_y * (y * y).sum(axis=1)
    return value_of_best_y - value_of_best_x


def _largest(slopes: np.ndarray, curvature: float) -> np.ndarray:
    """Return the maximum (R,) over v in the simplex of ⟨c, v⟩ - (λ/2) ‖v‖², with c = `slopes` (R, d), λ = `curvature`.

    It is attained at the point of the simplex that is nearest to c/λ, and for λ = 0 at a vertex.
    """
    if curvature < _LINEAR:
        return slopes.max(axis=1)
    v = project_to_simplex(slopes / curvature)
    return (slopes * v).sum(axis=1) - 0.5 * curvature * (v * v).sum(axis=1)


class CurvedGame(RecordsGame):
    """The settings of the game whose F(x, y) is the mean of ½⟨p, x⟩² + ⟨u, x⟩⟨v, y⟩ - ½⟨q, y⟩² over records (p, u, v,
    q) of vectors of signs. Here the curvature depends on the records, too, and must be protected.

    The entries of p and q are fair signs, independent of u and v, so that in the population this is `QuadraticGame`
    with curvatures 1. One row's gradient with respect to x, p⟨p, x⟩ + u⟨v, y⟩, has entries in [-2, 2], for any signs.
    """

    kind: ClassVar[str] = "problems.quadratic_games.curved"
    title: ClassVar[str] = "Quadratic game, private curvature"

    @model_validator(mode="after")
    def _curvature_fits(self) -> Self:
        """Raise ValueError if the second moments of p and q would take too long to compute."""
        largest = max(self.data.strategies_x, self.data.strategies_y)
        if not can_precompute(3 * self.data.rows, largest, largest):  # payoffs and both players' second moments
            raise ValueError(
                f"the second moments of {largest:,} strategies over {self.data.rows:,} rows take too long to compute; "
                f"choose fewer strategies or rows"
            )
        return self

    def facts(self) -> GameFacts:
        facts = self._facts(
            oscillation=4.0,
            lipschitz=2.0,
            largest_gap=3.0,  # the product is within ±1, and each of the two halves of squares is between 0 and ½
            smoothness=1.0,
            smoothness_x=1.0,
            smoothness_y=1.0,
        )
        n, d_x, d_y = facts.n, facts.d_x, facts.d_y
        squares = d_x**2 + d_y**2  # entries of both players' second moments, in addition to the payoffs
        # The bits of p and q, the moments, and two more matrices of the larger player while they are computed.
        more_bytes = n * (d_x + d_y) / 8 + 8 * squares + 16 * max(d_x, d_y) ** 2
        return replace(facts, products=facts.products + squares, table_bytes=facts.table_bytes + more_bytes)

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "CurvedGameProblem":
        payoffs = Payoffs.of(self.data.load(), self.data.population())
        p, q = self.data.fair_signs()
        moments = p.mean_products(p), q.mean_products(q)
        return CurvedGameProblem(self.facts(), payoffs, curved=(p, q), moments=moments)


class CurvedGameProblem(SlicedGame):
    """A game with private curvature and its records; see `CurvedGame`.

    curved : the signs p (n, d_x) and q (n, d_y). moments : the means of ppᵀ (d_x, d_x) and of qqᵀ (d_y, d_y).
    """

    metrics: ClassVar[tuple[Metric, ...]] = (DEAR_GAP, POPULATION_GAP)

    def __init__(self, facts: GameFacts, payoffs: Payoffs, curved: tuple[Signs, Signs], moments: Pair) -> None:
        self.facts, self._payoffs, self._moments = facts, payoffs, moments
        (p, q), (moments_x, moments_y) = curved, moments
        self._products_p, self._products_q = MeanProducts(p, p, moments_x), MeanProducts(q, q, moments_y)
        self._eigenvalue_bounds: tuple[float, ...] | None = None  # of both players' moments

    def prepare(self) -> None:
        if self._eigenvalue_bounds is None:
            self._eigenvalue_bounds = tuple(eigenvalue_bound(moments) for moments in self._moments)

    def _gradients(self, x: np.ndarray, y: np.ndarray, rows: slice | None) -> Pair:
        """Compute ∇ₓF (R, d_x) and ∇ᵧF (R, d_y) over a block of rows, or all for None."""
        against_y, against_x = self._payoffs(x, y, rows)
        return self._products_p(x, rows) + against_y, against_x - self._products_q(y, rows)

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        """Compute the gap in the population (R,), and on the data if `expensive`, as that takes two minimisations."""
        x, y = output["x"], output["y"]
        if not expensive:
            return self._evaluate(output)
        are_alike = len(x) > 1 and (x == x[0]).all() and (y == y[0]).all()  # as at the start of every method
        if are_alike:  # one of them is enough
            diagnostics = self.evaluate({"x": x[:1], "y": y[:1]})
            return {name: np.repeat(value, len(x)) for name, value in diagnostics.items()}
        # max over v of F(x, v) is ½ xᵀM_x x minus the minimum over v of ½ vᵀM_y v - ⟨Aᵀx, v⟩, and min over u of F(u, y)
        # is the minimum of ½ uᵀM_x u + ⟨Ay, u⟩ minus ½ yᵀM_y y.
        (against_y, against_x), (moments_x, moments_y) = self._payoffs(x, y), self._moments
        value_of_best_y = 0.5 * (x * (x @ moments_x)).sum(axis=1) - self._lower_bounds(player=1, slopes=-against_x)
        value_of_best_x = self._lower_bounds(player=0, slopes=against_y) - 0.5 * (y * (y @ moments_y)).sum(axis=1)
        return {DEAR_GAP.name: value_of_best_y - value_of_best_x} | self._evaluate(output)

    def _evaluate(self, output: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Compute the gap (R,) in the population, a quadratic game with curvatures 1."""
        x, y = output["x"], output["y"]
        return {POPULATION_GAP.name: quadratic_gap(x, y, self._payoffs.population(x, y), curvatures=(1.0, 1.0))}

    def _lower_bounds(self, player: int, slopes: np.ndarray) -> np.ndarray:
        """Return proven lower bounds (R,) on the minima over u in the simplex of ½ uᵀMu + ⟨slopes, u⟩, where M are the
        moments of the player (0 for x, 1 for y).

        slopes : (R, d). As both terms of the gap are computed from lower bounds of this kind, the gap is the upper end
        of its interval.
        """
        moments = self._moments[player]

        def value_and_gradient(u: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            """Return values (R',) and gradients (R', d) at u (R', d), of the functions with these indices (R',)."""
            product = u @ moments
            return ((0.5 * product + slopes[indices]) * u).sum(axis=1), product + slopes[indices]

        self.prepare()
        assert self._eigenvalue_bounds is not None
        start = project_to_simplex(-slopes)  # the minimiser for M = I, which M is in the population
        certified = minimise_on_simplex(
            value_and_gradient,
            start,
            curvature=self._eigenvalue_bounds[player],
            tolerance=_GAP_TOLERANCE,
            seconds=self.facts.seconds,
        )
        return certified.lower


def eigenvalue_bound(matrix: np.ndarray) -> float:
    """Compute an upper bound on the largest eigenvalue of a positive semidefinite matrix (d, d), much faster than that
    eigenvalue: (Σ λ⁸)^(1/8) over all eigenvalues λ. It is at most d^(1/8) times the largest one.

    Σ λ⁸ is the sum of the squared entries of the fourth power of the matrix.
    """
    seconds = matrix.size * SECONDS_PER_PRODUCT
    square, total = np.empty_like(matrix), 0.0
    for rows in checkpointed_slices(len(matrix), seconds):
        np.matmul(matrix[rows], matrix, out=square[rows])
    checkpoint()
    for rows in checkpointed_slices(len(matrix), seconds):
        fourth = square[rows] @ square
        total += float((fourth * fourth).sum())
    return total**0.125  # 1/8
