"""Learning on a simplex, an ℓ1 ball or a polytope without an opponent: the second player has a single strategy."""

from collections.abc import Mapping
from functools import lru_cache
from itertools import product
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import model_validator

from dpviz.checkpoints import slices
from dpviz.datasets.base import NO_TABLES
from dpviz.numbers import short
from dpviz.problems import base
from dpviz.problems.base import Metric, Plane
from dpviz.problems.games import games
from dpviz.problems.games.games import Ball, Body, Certified, Polytope, Simplex, ball_vertex, minimise
from dpviz.specification import choice, number

MAX_CELLS = 20_000_000
_OPTIMUM_TOLERANCE = 1e-6
_SMALLEST_POLYTOPE = 0.001
_TRUE_WEIGHTS = (0.5, -0.3, 0.2)
_LABEL_NOISE = 0.2
_GOOD_ASSETS, _GOOD_RETURN = 3, 0.1
_VOLATILITY, _MARKET_SHARE = 0.3, 0.3  # of a return: standard deviation, and the market's part of the variance


class Optimum(NamedTuple):
    """The minimiser without privacy: weights (d,) of the model or portfolio, and F there, up to 1e-6 above the
    minimum."""

    weights: np.ndarray
    value: float


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
    """F(w) = (1/n) Σ ½ (⟨aᵢ, w⟩ - bᵢ)² over ‖w‖₁ ≤ r, features a ∈ {±1}^d of which three matter.

    Drawn from `default_rng(seed)`: the features, then the noise, uniform on [-0.2, 0.2]; b = 0.5 a₀ - 0.3 a₁ + 0.2 a₂ +
    noise, clipped to [-1, 1].
    """

    kind: ClassVar[str] = "problems.simplex_learning.sparse_regression"
    title: ClassVar[str] = "Sparse regression"
    rows: int = number(
        10_000, 200, 100_000, label="Rows", symbol="n", scale="log", help="More rows need less noise each."
    )
    dimension: int = number(
        500, 3, 2000, label="Features", symbol="d", scale="log", help="Three of them matter; the others are noise."
    )
    radius: float = number(
        1.0, 0.5, 5.0, label="Radius", symbol="r", help="The model's weights have ‖w‖₁ ≤ r; the true ones have norm 1."
    )
    seed: int = number(0, 0, 2**31 - 1, label="Data seed", help="Another seed draws another data set.")

    def _plane(self) -> Plane | None:
        return base.ball(self.radius, self.dimension, ("Weight of feature 1", "Weight of feature 2"))

    def facts(self) -> games.GameFacts:
        """Return the facts: ∂f/∂w_j = (⟨a, w⟩ - b) a_j is at most r + 1 in size; u ↦ w = r (u₊ - u₋) multiplies it
        by ±r."""
        largest = (self.radius + 1) ** 2 / 2
        sizes = _sizes(self.rows, self.dimension, 2 * self.dimension, 10)
        return _facts(2 * self.dimension, self.radius * (self.radius + 1), self.radius**2, largest, sizes)

    def vertex(self, player: games.Player, index: int) -> str:
        return ball_vertex([f"feature {j}" for j in range(1, self.dimension + 1)], index)

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "LearningGame":
        return _regression(self, self.dimension, np.array(_TRUE_WEIGHTS), Ball(self.radius))


class Portfolio(_Learning):
    """F(x) = (1/n) Σ -⟨ρᵢ, x⟩ + (γ/2) ⟨ρᵢ, x⟩² over portfolios x on the simplex, returns ρ clipped to [-1, 1]^d.

    Drawn from `default_rng(seed)`: per period the market's move, then every asset's own. Three assets return 0.1 on
    average, the others nothing; all have standard deviation 0.3 before clipping, 30 % of the variance in common.
    """

    kind: ClassVar[str] = "problems.simplex_learning.portfolio"
    title: ClassVar[str] = "Portfolio choice"
    rows: int = number(
        10_000, 200, 100_000, label="Periods", symbol="n", scale="log", help="One row is one period's returns."
    )
    dimension: int = number(
        100, 3, 2000, label="Assets", symbol="d", scale="log", help="Three of them have a positive mean return."
    )
    risk_aversion: float = number(
        1.0, 0.0, 5.0, label="Risk aversion", symbol="γ", help="Weight of the squared return; 0 = mean return only."
    )
    seed: int = number(0, 0, 2**31 - 1, label="Data seed", help="Another seed draws another data set.")

    @property
    def good(self) -> tuple[slice | None, str]:
        return slice(0, _GOOD_ASSETS), f"assets 1 to {_GOOD_ASSETS}, whose mean return is positive"

    def facts(self) -> games.GameFacts:
        """Return the facts: ∂f/∂x_j = (γ ⟨ρ, x⟩ - 1) ρ_j is at most 1 + γ in size."""
        gamma = self.risk_aversion
        lowest = -1 / (2 * gamma) if gamma > 1 else gamma / 2 - 1
        sizes = _sizes(self.rows, self.dimension, self.dimension, 9)
        return _facts(self.dimension, 1 + gamma, gamma, 1 + gamma / 2 - lowest, sizes)

    def vertex(self, player: games.Player, index: int) -> str:
        return f"asset {index + 1:,}"

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "LearningGame":
        generator = np.random.default_rng(self.seed)
        market = generator.standard_normal((self.rows, 1))
        returns = generator.standard_normal((self.rows, self.dimension))
        returns *= _VOLATILITY * np.sqrt(1 - _MARKET_SHARE)
        returns += _VOLATILITY * np.sqrt(_MARKET_SHARE) * market
        returns[:, :_GOOD_ASSETS] += _GOOD_RETURN
        np.clip(returns, -1.0, 1.0, out=returns)
        return LearningGame(self.facts(), returns, np.ones(self.rows), self.risk_aversion, 0.0, Simplex())


class PolytopeRegression(games.GameSpecification):
    """Regression as in `SparseRegression`, but over a polytope: the convex hull of finitely many vertices.

    F(w) = (1/n) Σ ½ (⟨aᵢ, w⟩ - bᵢ)², w = Σ_j λ_j v_j (vertex reduction, Appendix C of the paper with erratum E7). The
    labels follow a model inside the polytope. Drawn from `default_rng(seed)`: features, then noise as there.
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
        0.2, 0.01, 5.0, label="Radius", symbol="r", scale="log", help="Size of the box or of the largest weight."
    )
    vertices: tuple[tuple[float, ...], ...] = ()
    rows: int = number(
        10_000, 200, 100_000, label="Rows", symbol="n", scale="log", help="More rows need less noise each."
    )
    seed: int = number(0, 0, 2**31 - 1, label="Data seed", help="Another seed draws another data set.")

    @model_validator(mode="after")
    def _own_vertices(self) -> Self:
        if self.shape == "own":
            lengths = {len(vertex) for vertex in self.vertices}
            largest = max((abs(value) for vertex in self.vertices for value in vertex), default=0.0)
            if (
                not 2 <= len(self.vertices) <= 1000
                or len(lengths) != 1
                or not 1 <= max(lengths) <= 100
                or largest > 100
            ):
                raise ValueError(
                    "a polytope needs 2 to 1,000 vertices with equally many coordinates, 1 to 100, each between -100 "
                    "and 100"
                )
            # On a smaller polytope, rounding moves the gradient by more than a row can, by its diameter.
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
        """Return the polytope of the settings."""
        return _polytope(self.shape, self.dimension, self.radius, self.vertices)

    def facts(self) -> games.GameFacts:
        """Return the facts: |⟨a, w⟩ - b| is at most max ‖v‖₁ + 1; the oscillation in λ depends on the diameter."""
        body = self.polytope()
        bound = body.radius + 1
        m = len(body.vertices)
        oscillation = body.oscillation(bound)
        lipschitz, smoothness = body.lipschitz(bound), body.smoothness(1.0)
        return games.GameFacts(
            d=m + 1,
            d_x=m,
            lipschitz=lipschitz,
            oscillation_x=oscillation,
            oscillation_y=0.0,
            change_x=2 * lipschitz,
            smoothness=smoothness,
            smoothness_x=smoothness,
            largest_gap=min(bound**2 / 2, oscillation),  # the range of F; a convex F over the diameter
            **_sizes(self.rows, body.vertices.shape[1], m, 10),
        )

    def vertex(self, player: games.Player, index: int) -> str:
        """Return the vertex's coordinates, if they are few, else its number."""
        point = self.polytope().vertices[index]
        return f"({', '.join(short(value, 6) for value in point)})" if len(point) <= 5 else f"vertex {index + 1:,}"

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "LearningGame":
        body = self.polytope()
        weights = np.linspace(2.0, 0.0, len(body.vertices))
        return _regression(self, body.vertices.shape[1], body.point(weights / weights.sum()), body)


class LearningGame(games.SlicedGame):
    """F(w) = (γ/2) mean ⟨a, w⟩² - ⟨mean b a, w⟩ + constant, on a body that is the image of a simplex.

    features : (n, d) rows a, labels : (n,) b, both within [-1, 1]; curvature : γ;
    body : the simplex, an ℓ1 ball, or a polytope, whose vertices have the weights x.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(games.DUALITY_GAP.name, "Excess loss F(x) - F*", scale="log"),
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
        self._summed: tuple[np.ndarray, np.ndarray] | None = None
        self._certified: Certified | None = None

    def weights(self, x: np.ndarray) -> np.ndarray:
        """Return the models or portfolios w (R, d) of the vertex weights x (R, d_x)."""
        return self._body.point(x)

    def _gradients(self, x: np.ndarray, y: np.ndarray, rows: slice | None) -> games.Pair:
        w = self.weights(x)
        if rows is None:
            slopes = self._slopes(w)
        else:
            features, labels = self._features[rows], self._labels[rows]
            slopes = (self._curvature * (w @ features.T) - labels) @ features / len(labels)
        return self._body.pull_back(slopes), np.zeros_like(y)

    def _evaluate(self, output: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        objective = self._objective(output["x"], np.arange(len(output["x"])))[0]
        return {"duality_gap": np.maximum(objective - self._minimum.lower[0], 0.0), "objective": objective}

    def nonprivate_optimum(self) -> Optimum:
        """Return the minimiser, for comparison on the page; not private."""
        return Optimum(self.weights(self._minimum.x)[0], float(self._minimum.value[0]))

    def prepare(self) -> None:
        if self._certified is None:
            self._sums()
            largest = float(np.linalg.eigvalsh(self._moments[0])[-1])
            start, _ = self.facts.uniform(1)
            curvature = self._body.stretch * self._curvature * largest
            seconds = self.facts.seconds
            self._certified = minimise(self._objective, start, curvature, _OPTIMUM_TOLERANCE, 20_000, seconds)

    @property
    def _minimum(self) -> Certified:
        self.prepare()
        assert self._certified is not None
        return self._certified

    @property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Means a aᵀ (d, d) and b a (d,)."""
        self._sums()
        assert self._summed is not None
        return self._summed

    def _sums(self) -> None:
        """Compute the moments, in slices of rows."""
        if self._summed is None:
            n, d = self._features.shape
            square, linear = np.zeros((d, d)), np.zeros(d)
            for part in slices(n, d * d * games.SECONDS_PER_PRODUCT):
                square += self._features[part].T @ self._features[part]
                linear += self._labels[part] @ self._features[part]
            self._summed = square / n, linear / n

    def _slopes(self, w: np.ndarray) -> np.ndarray:
        hessian, linear = self._moments
        return self._curvature * (w @ hessian) - linear

    def _objective(self, x: np.ndarray, _: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return F (R,) and its gradient (R, d_x)."""
        w = self.weights(x)
        slopes = self._slopes(w)
        value = 0.5 * ((slopes - self._moments[1]) * w).sum(axis=1) + self._constant
        return value, self._body.pull_back(slopes)


def _regression(
    game: SparseRegression | PolytopeRegression, dimension: int, weights: np.ndarray, body: Body
) -> LearningGame:
    """Draw signs, and labels from the first weights (k,) of a model plus noise; return the game with the squared
    loss."""
    generator = np.random.default_rng(game.seed)
    features = generator.integers(0, 2, (game.rows, dimension), dtype=np.int8) * 2.0 - 1.0
    labels = features[:, : len(weights)] @ weights + generator.uniform(-_LABEL_NOISE, _LABEL_NOISE, game.rows)
    np.clip(labels, -1.0, 1.0, out=labels)
    return LearningGame(game.facts(), features, labels, 1.0, 0.5 * float(labels @ labels) / game.rows, body)


@lru_cache(16)  # every plan needs its facts, and the diameter compares every pair of vertices
def _polytope(shape: str, dimension: int, radius: float, vertices: tuple[tuple[float, ...], ...]) -> Polytope:
    if shape == "own":
        return Polytope(np.array(vertices))
    if shape == "box":
        return Polytope(radius * np.array(list(product((-1.0, 1.0), repeat=dimension))))
    return Polytope(radius * np.tri(dimension + 1, dimension, -1)[:, ::-1])


def _facts(d_x: int, lipschitz: float, smoothness: float, largest: float, sizes: Mapping[str, Any]) -> games.GameFacts:
    """Return the facts of a game without an opponent, with gradients' coordinates within ±lipschitz, and values of F
    that differ by at most `largest`."""
    return games.GameFacts(
        d=d_x + 1,
        d_x=d_x,
        lipschitz=lipschitz,
        oscillation_x=2 * lipschitz,
        oscillation_y=0.0,
        smoothness=smoothness,
        smoothness_x=smoothness,
        largest_gap=largest,
        **sizes,
    )


def _sizes(n: int, d: int, vertices: int, copies: int) -> dict[str, Any]:
    """Return the facts on size of a model with d weights, whose n rows are summed up before the run.

    copies : bytes per number of the table, while it is drawn.
    """
    transforms = d * vertices if vertices > 2 * d else vertices  # onto a polytope and back
    return {"n": n, "products": d * d + 2 * transforms, "table_bytes": copies * n * d + 32 * d * d}
