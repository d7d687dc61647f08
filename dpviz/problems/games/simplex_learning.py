"""Learning a model on a simplex, an ℓ1 ball or a polytope, as a game without an opponent: the second player has a
single strategy. The data are drawn from a seed. In the shapes, R is the number of replicates (simulated runs)."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from dpviz.checkpoints import checkpointed_slices
from dpviz.datasets.base import NO_TABLES, rows_field, seed_field
from dpviz.numbers import short
from dpviz.problems import base
from dpviz.problems.base import Metric, Plane
from dpviz.problems.games import games
from dpviz.problems.games.games import Ball, Body, Certified, Polytope, Simplex, ball_vertex, minimise_on_simplex
from dpviz.specification import choice, number

MAX_CELLS = 20_000_000  # numbers of a table
_OPTIMUM_TOLERANCE = 1e-6
_SMALLEST_POLYTOPE = 0.001  # largest extent over a coordinate, at least
_TRUE_WEIGHTS = (0.5, -0.3, 0.2)  # of the first three features, in `SparseRegression`
_LABEL_NOISE = 0.2  # labels get noise that is uniform between minus this and this
_GOOD_ASSETS, _GOOD_RETURN = 3, 0.1  # number of assets with a positive mean return, and that mean
_VOLATILITY, _MARKET_SHARE = 0.3, 0.3  # of a return: standard deviation, and the market's part of the variance


class _Learning(games.GameSpecification):
    """Settings of a model that is learned from a table of `rows` × `dimension` drawn numbers."""

    rows: int
    dimension: int

    @model_validator(mode="after")
    def _fits_into_memory(self) -> Self:
        if self.rows * self.dimension > MAX_CELLS:
            raise ValueError(f"rows × columns may be at most {MAX_CELLS:,}; choose fewer of one")
        return self


class SparseRegression(_Learning):
    """The settings of F(w) = (1/n) Σ ½ (⟨aᵢ, w⟩ - bᵢ)² over ‖w‖₁ ≤ r, with features a in {±1}^d of which three matter.

    The labels are b = 0.5 a₁ - 0.3 a₂ + 0.2 a₃ + noise, clipped to [-1, 1]. The features are drawn from
    `default_rng(seed)`, and then the noise, uniform on [-0.2, 0.2].

    >>> import dpviz
    >>> problem = dpviz.SparseRegression(rows=1000, radius=2)
    >>> dpviz.Experiment(problem, dpviz.VertexSampling(iterations=4), epsilon=1).run()
    <Trace of Vertex sampling: 20 runs, 4 iterations>
    """

    kind: ClassVar[str] = "problems.simplex_learning.sparse_regression"
    title: ClassVar[str] = "Sparse regression"
    rows: int = rows_field(10_000, 200, 100_000)
    dimension: int = number(
        500, 3, 2000, label="Features", symbol="d", scale="log", help="Three of them matter; the others are noise."
    )
    radius: float = number(
        1.0,
        0.5,
        5.0,
        label="Radius",
        symbol="r",
        help="The model's weights have ‖w‖₁ ≤ r; the true ones have norm 1.",
        limits=(1e-6, 1e6),
    )
    seed: int = seed_field()

    def _plane(self) -> Plane | None:
        return base.ball_plane(self.radius, self.dimension, ("Weight of feature 1", "Weight of feature 2"))

    def facts(self) -> games.GameFacts:
        """Return the public facts, for any data with features and labels in [-1, 1]."""
        # One row's ∂f/∂w_j = (⟨a, w⟩ - b) a_j is at most r + 1 in size; as w = r (u₊ - u₋), it is multiplied by ±r for
        # the derivatives with respect to the weights u = (u₊, u₋) of the 2d vertices.
        largest_value = (self.radius + 1) ** 2 / 2
        sizes = _sizes(self.rows, self.dimension, vertices=2 * self.dimension, bytes_per_number=10)
        lipschitz, smoothness = self.radius * (self.radius + 1), self.radius**2
        return _facts(2 * self.dimension, lipschitz, smoothness, largest_gap=largest_value, sizes=sizes)

    def vertex(self, player: games.Player, index: int) -> str:
        """Return the name of a vertex of the ball: a feature with the sign of its weight."""
        return ball_vertex([f"feature {j}" for j in range(1, self.dimension + 1)], index)

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "LearningGame":
        return _regression(self, self.dimension, np.array(_TRUE_WEIGHTS), Ball(self.radius))


class Portfolio(_Learning):
    """The settings of F(x) = (1/n) Σ -⟨ρᵢ, x⟩ + (γ/2) ⟨ρᵢ, x⟩² over portfolios x on the simplex, with returns ρ clipped
    to [-1, 1]^d.

    Three assets return 0.1 on average, the others 0. All returns have standard deviation 0.3 before clipping, and 30 %
    of their variance is from a move of the market, which all assets have in common. The market's moves are drawn from
    `default_rng(seed)`, and then the assets' own.
    """

    kind: ClassVar[str] = "problems.simplex_learning.portfolio"
    title: ClassVar[str] = "Portfolio choice"
    rows: int = number(
        10_000,
        200,
        100_000,
        label="Periods",
        symbol="n",
        scale="log",
        help="One row is one period's returns.",
        limits=(2, 10**9),
    )
    dimension: int = number(
        100, 3, 2000, label="Assets", symbol="d", scale="log", help="Three of them have a positive mean return."
    )
    risk_aversion: float = number(
        1.0, 0.0, 5.0, label="Risk aversion", symbol="γ", help="Weight of the squared return; 0 = mean return only."
    )
    seed: int = seed_field()

    @property
    def best_strategies(self) -> tuple[slice | None, str]:
        """Indices and name of the assets with a positive mean return."""
        return slice(0, _GOOD_ASSETS), f"assets 1 to {_GOOD_ASSETS}, whose mean return is positive"

    def facts(self) -> games.GameFacts:
        """Return the public facts, for any returns in [-1, 1]."""
        # One row's ∂f/∂x_j = (γ ⟨ρ, x⟩ - 1) ρ_j is at most 1 + γ in size. Its value -s + (γ/2) s² of s = ⟨ρ, x⟩ in [-1,
        # 1] is largest at s = -1, and smallest at s = 1/γ, or at s = 1 if γ ≤ 1.
        gamma = self.risk_aversion
        smallest_value = -1 / (2 * gamma) if gamma > 1 else gamma / 2 - 1
        sizes = _sizes(self.rows, self.dimension, vertices=self.dimension, bytes_per_number=9)
        largest_gap = 1 + gamma / 2 - smallest_value
        return _facts(self.dimension, lipschitz=1 + gamma, smoothness=gamma, largest_gap=largest_gap, sizes=sizes)

    def vertex(self, player: games.Player, index: int) -> str:
        """Return the name of an asset."""
        return f"asset {index + 1:,}"

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "LearningGame":
        """Draw the returns (n, d), and return the problem."""
        generator = np.random.default_rng(self.seed)
        market = generator.standard_normal((self.rows, 1))
        returns = generator.standard_normal((self.rows, self.dimension))
        returns *= _VOLATILITY * np.sqrt(1 - _MARKET_SHARE)
        returns += _VOLATILITY * np.sqrt(_MARKET_SHARE) * market
        returns[:, :_GOOD_ASSETS] += _GOOD_RETURN
        np.clip(returns, -1.0, 1.0, out=returns)
        labels = np.ones(self.rows)  # so that ⟨mean b a, w⟩ is the mean return
        return LearningGame(self.facts(), returns, labels, curvature=self.risk_aversion, constant=0.0, body=Simplex())


class PolytopeRegression(games.GameSpecification):
    """The settings of a regression as in `SparseRegression`, but over a polytope, the convex hull of vertices v_j.

    F(w) = (1/n) Σ ½ (⟨aᵢ, w⟩ - bᵢ)² with w = Σ_j λ_j v_j becomes a function of weights λ on the vertices (vertex
    reduction: González, Guzmán and Paquette, arXiv 2403.02912, Appendix C; families/mirror_descent/THEORY.md, E7). The
    labels follow a model inside the polytope. The features are drawn from `default_rng(seed)`, and then the labels'
    noise.
    """

    kind: ClassVar[str] = "problems.simplex_learning.polytope_regression"
    title: ClassVar[str] = "Regression over a polytope"
    shape: Literal["box", "monotone", "own"] = choice(
        "monotone",
        label="Polytope",
        help="A box has 2^d vertices and is wide in every direction; rising weights have d + 1 vertices.",
        options={"box": "Box, |w_j| ≤ r", "monotone": "Rising weights, 0 ≤ w_1 ≤ … ≤ r", "own": "My own vertices"},
    )
    dimension: int = number(5, 1, 10, label="Features", symbol="d", help="Of a box or of rising weights.")
    radius: float = number(
        0.2,
        0.01,
        5.0,
        label="Radius",
        symbol="r",
        scale="log",
        help="Size of the box or of the largest weight.",
        limits=(1e-6, 1e6),
    )
    vertices: tuple[tuple[float, ...], ...] = ()
    rows: int = rows_field(10_000, 200, 100_000)
    seed: int = seed_field()

    @model_validator(mode="after")
    def _own_vertices(self) -> Self:
        """Raise ValueError unless the user's own vertices describe a polytope that is not too small or too large."""
        if self.shape == "own":
            dimensions = {len(vertex) for vertex in self.vertices}
            largest_coordinate = max((abs(value) for vertex in self.vertices for value in vertex), default=0.0)
            if (
                not 2 <= len(self.vertices) <= 1000
                or len(dimensions) != 1
                or not 1 <= max(dimensions) <= 100
                or largest_coordinate > 100
            ):
                raise ValueError(
                    "a polytope needs 2 to 1,000 vertices with equally many coordinates, 1 to 100, each between -100 "
                    "and 100"
                )
            # What one row can change in the gradient shrinks with the polytope's diameter; it must stay above rounding.
            if np.ptp(np.array(self.vertices), axis=0).max() < _SMALLEST_POLYTOPE:
                raise ValueError(f"a polytope must extend over at least {_SMALLEST_POLYTOPE} in some coordinate")
        return self

    def _plane(self) -> Plane | None:
        """Return the plane of the model's first two weights, with the vertices as corners if there are three."""
        body = self.polytope()
        if body.vertices.shape[1] < 2:
            return super()._plane()
        corners: tuple[tuple[str, float, float], ...] = ()
        titles = "Weight of feature 1", "Weight of feature 2"
        if len(body.vertices) == 3:
            corners = tuple((self.vertex("x", j), *point[:2]) for j, point in enumerate(body.vertices.tolist()))
            titles = "Across is the weight of feature 1", "Up is the weight of feature 2"
        return Plane(titles, lambda output: body.point(output["x"])[:, :2], corners)

    def polytope(self) -> Polytope:
        """Return the polytope that the settings describe."""
        return _polytope(self.shape, self.dimension, self.radius, self.vertices)

    def facts(self) -> games.GameFacts:
        """Return the public facts, for any data with features and labels in [-1, 1]."""
        body = self.polytope()
        bound = body.radius + 1  # on |⟨a, w⟩ - b|, the size of one row's derivatives with respect to w
        m = len(body.vertices)
        oscillation = body.oscillation(bound)
        lipschitz, smoothness = body.lipschitz(bound), body.smoothness(1.0)
        return games.GameFacts(
            d=m + 1,
            d_x=m,
            lipschitz=lipschitz,
            oscillation_x=oscillation,
            oscillation_y=0.0,
            change_x=2 * lipschitz,  # the oscillation is less where vertices are near each other, but far from 0
            smoothness=smoothness,
            smoothness_x=smoothness,
            # F is within 0 and bound²/2; and as F is convex, its values differ by at most the gradient's oscillation.
            largest_gap=min(bound**2 / 2, oscillation),
            **_sizes(self.rows, body.vertices.shape[1], vertices=m, bytes_per_number=10),
        )

    def vertex(self, player: games.Player, index: int) -> str:
        """Return the coordinates of the vertex as its name if they are few, else its number."""
        point = self.polytope().vertices[index]
        return f"({', '.join(short(value, 6) for value in point)})" if len(point) <= 5 else f"vertex {index + 1:,}"

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "LearningGame":
        body = self.polytope()
        weights = np.linspace(2.0, 0.0, len(body.vertices))  # of the model that labels follow, on the vertices
        return _regression(self, body.vertices.shape[1], body.point(weights / weights.sum()), body)


class LearningGame(games.SlicedGame):
    """A function F(w) = (γ/2) mean ⟨a, w⟩² - ⟨mean b a, w⟩ + constant with its data, for w in a body that is the image
    of a simplex of weights x. The means are over the rows (a, b).

    features : (n, d) the a, and labels : (n,) the b, both within [-1, 1]. curvature : γ.
    body : the simplex itself, an ℓ1 ball, or a polytope; x are weights on its vertices.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (
        replace(games.DUALITY_GAP, label="Excess loss F(x) - F*"),
        Metric("objective", "Loss F(x)", headline=6),
    )

    def __init__(
        self,
        facts: games.GameFacts,
        features: np.ndarray,
        labels: np.ndarray,
        curvature: float,
        constant: float,
        body: Body,
    ) -> None:
        self.facts = facts
        self._features, self._labels = features, labels
        self._curvature, self._constant, self._body = curvature, constant, body
        self._computed_moments: tuple[np.ndarray, np.ndarray] | None = None
        self._certified: Certified | None = None

    def weights(self, x: np.ndarray) -> np.ndarray:
        """Return the models or portfolios w (R, d) for weights x (R, d_x) on the vertices."""
        return self._body.point(x)

    def _gradients(self, x: np.ndarray, y: np.ndarray, rows: slice | None) -> games.Pair:
        """Compute ∇ₓF (R, d_x) over a block of rows, or all for None; the gradient of the second player is 0."""
        w = self.weights(x)
        if rows is None:
            slopes = self._slopes(w)
        else:
            features, labels = self._features[rows], self._labels[rows]
            slopes = (self._curvature * (w @ features.T) - labels) @ features / len(labels)
        return self._body.pull_back(slopes), np.zeros_like(y)

    def _evaluate(self, output: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Compute the excess loss (R,), as the upper end of its interval, and the loss (R,)."""
        objective, _ = self._objective(output["x"], np.arange(len(output["x"])))
        return {"duality_gap": np.maximum(objective - self._minimum.lower[0], 0.0), "objective": objective}

    def prepare(self) -> None:
        """Compute the minimum of F without privacy."""
        if self._certified is None:
            square, _ = self._moments
            largest_eigenvalue = float(np.linalg.eigvalsh(square)[-1])  # in ascending order
            start, _ = self.facts.uniform(1)
            curvature = self._body.stretch * self._curvature * largest_eigenvalue
            seconds = self.facts.seconds
            self._certified = minimise_on_simplex(
                self._objective, start, curvature, tolerance=_OPTIMUM_TOLERANCE, max_iterations=20_000, seconds=seconds
            )

    @property
    def _minimum(self) -> Certified:
        """The minimum of F without privacy, computed when it is first needed."""
        self.prepare()
        assert self._certified is not None
        return self._certified

    @property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Means of a aᵀ (d, d) and of b a (d,) over all rows, computed in slices of rows when they are first needed."""
        if self._computed_moments is None:
            n, d = self._features.shape
            square, linear = np.zeros((d, d)), np.zeros(d)
            for part in checkpointed_slices(n, d * d * games.SECONDS_PER_PRODUCT):
                square += self._features[part].T @ self._features[part]
                linear += self._labels[part] @ self._features[part]
            self._computed_moments = square / n, linear / n
        return self._computed_moments

    def _slopes(self, w: np.ndarray) -> np.ndarray:
        """Return the gradient ∇F (R, d) with respect to w, at w (R, d)."""
        square, linear = self._moments
        return self._curvature * (w @ square) - linear

    def _objective(self, x: np.ndarray, _: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return F (R,), and its gradient (R, d_x) with respect to x, at x (R, d_x).

        The second argument is for `minimise_on_simplex`: indices of functions, of which there is only one.
        """
        w = self.weights(x)
        slopes = self._slopes(w)
        _, linear = self._moments
        # ⟨slopes, w⟩ is γ mean ⟨a, w⟩² - ⟨mean b a, w⟩, so half of ⟨slopes - mean b a, w⟩ is F without the constant.
        value = 0.5 * ((slopes - linear) * w).sum(axis=1) + self._constant
        return value, self._body.pull_back(slopes)


def _regression(
    game: SparseRegression | PolytopeRegression, dimension: int, weights: np.ndarray, body: Body
) -> LearningGame:
    """Draw the data of a regression, and return the game with the squared loss.

    dimension : d, the number of features, which are signs. weights : (k,) of the first k features in the model that
    labels follow, up to noise; the other features have weight 0. body : the set of possible models.
    """
    generator = np.random.default_rng(game.seed)
    features = generator.integers(0, 2, (game.rows, dimension), dtype=np.int8) * 2.0 - 1.0
    labels = features[:, : len(weights)] @ weights + generator.uniform(-_LABEL_NOISE, _LABEL_NOISE, game.rows)
    np.clip(labels, -1.0, 1.0, out=labels)
    constant = 0.5 * float(labels @ labels) / game.rows  # ½ mean b²
    return LearningGame(game.facts(), features, labels, curvature=1.0, constant=constant, body=body)


@lru_cache(16)  # every plan needs its facts, and the diameter compares every pair of vertices
def _polytope(shape: str, dimension: int, radius: float, vertices: tuple[tuple[float, ...], ...]) -> Polytope:
    """Return the polytope of this shape, as in `PolytopeRegression`: with the user's vertices; a box [-radius,
    radius]^d; or rising weights, whose vertices are 0 in the first coordinates and `radius` in the others."""
    if shape == "own":
        return Polytope(np.array(vertices))
    if shape == "box":
        return Polytope(radius * np.array(list(product((-1.0, 1.0), repeat=dimension))))
    return Polytope(radius * np.tri(dimension + 1, dimension, k=-1)[:, ::-1])  # vertex j is `radius` in the last j


def _facts(
    d_x: int, lipschitz: float, smoothness: float, largest_gap: float, sizes: Mapping[str, Any]
) -> games.GameFacts:
    """Return the facts of a game without an opponent: y has a single vertex.

    d_x : number of vertices. lipschitz : L₀, bound on the size of each coordinate of one row's gradient.
    smoothness : L₁ of one row's function. largest_gap : largest difference of two values of F.
    sizes : the facts from `_sizes`.
    """
    return games.GameFacts(
        d=d_x + 1,
        d_x=d_x,
        lipschitz=lipschitz,
        oscillation_x=2 * lipschitz,  # also for `change_x`, which is the oscillation where it is not given
        oscillation_y=0.0,
        smoothness=smoothness,
        smoothness_x=smoothness,
        largest_gap=largest_gap,
        **sizes,
    )


def _sizes(n: int, d: int, vertices: int, bytes_per_number: int) -> dict[str, Any]:
    """Return the facts on size and cost of a model with d weights in a body with this number of vertices, whose n rows
    are summed up to (d, d) moments before the run.

    bytes_per_number : bytes for each number of the table, while it is drawn: 8, and some for temporary arrays.
    """
    # Multiplications from weights on vertices to points, or back. A ball of 2d vertices and the simplex itself need no
    # matrix of vertices; that of a polytope with as few vertices is not counted.
    transform = d * vertices if vertices > 2 * d else vertices
    return {"n": n, "products": d * d + 2 * transform, "table_bytes": bytes_per_number * n * d + 32 * d * d}
