"""Base classes of games: min over x of max over y of F(x, y), both on probability simplices, where F is a mean over
rows.

x and y are mixed strategies: weights on the pure strategies of a player, which are the vertices of its simplex.
Minimisation over a simplex is the game whose second player has a single strategy. Algorithms use a game through its
gradients at released points, which `GradientSums` adds up; it also bounds the change of these sums by one row. In the
shapes, R is the number of replicates (simulated runs), or of functions, and R' the number of some of them.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple, Protocol

import numpy as np

from dpviz.checkpoints import checkpoint, checkpointed_slices
from dpviz.errors import UserError
from dpviz.numbers import short_up
from dpviz.privacy.batches import Batch
from dpviz.privacy.releases import Norm, Query
from dpviz.problems.base import Facts, Memory, Metric, Plane, Problem, ProblemSpecification, evaluate_in_slices

# ---------------------------------------------------------------------------------------------- the probability simplex

# From points (R', d), and indices (R',) that tell which function to evaluate at each, to values (R',) and gradients
# (R', d).
ValueAndGradient = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]

_CHECK_EVERY = 10  # iterations between two computations of the lower bound
_FLAT = 1e-9  # curvature that is used in place of 0 for a linear function: its first step should reach a vertex


class Certified(NamedTuple):
    """Nearly minimal points of R functions on the simplex, with intervals [lower, value] that contain the minima.

    x : (R, d) points of the simplex. value : (R,) values of the functions there. lower : (R,) proven lower bounds.
    """

    x: np.ndarray
    value: np.ndarray
    lower: np.ndarray


class Polytope:
    """The convex hull of vertices v_j as the image of a simplex: weights λ on the vertices give the point x = Σ λ_j
    v_j.

    vertices : (m, d), one vertex per row. Raises ValueError unless they are finite and two-dimensional.

    A function f of x becomes a function of λ with the gradient (⟨∇f, v_j⟩)_j. So bounds on its size scale with the
    norms of vertices; its oscillation, the largest minus the smallest coordinate, depends on differences of vertices
    only.
    """

    def __init__(self, vertices: np.ndarray) -> None:
        self.vertices = np.array(vertices, dtype=np.float64)
        if self.vertices.ndim != 2 or not self.vertices.size or not np.isfinite(self.vertices).all():
            raise ValueError(f"vertices must be a finite (m, d) array, got shape {self.vertices.shape}")
        self.vertices.flags.writeable = False

    def point(self, weights: np.ndarray) -> np.ndarray:
        """Return the points x (R, d) of the weights λ (R, m)."""
        return weights @ self.vertices

    def pull_back(self, gradient: np.ndarray) -> np.ndarray:
        """Return the gradient (R, m) with respect to λ of a function whose gradient at x is `gradient` (R, d)."""
        return gradient @ self.vertices.T

    @cached_property
    def stretch(self) -> float:
        """Largest squared Euclidean length of Σ λ_j v_j for ‖λ‖₂ = 1."""
        return float(np.linalg.norm(self.vertices, ord=2)) ** 2  # the largest singular value, squared

    @cached_property
    def radius(self) -> float:
        """Largest ℓ1 norm of a vertex."""
        return float(np.abs(self.vertices).sum(axis=1).max())

    @cached_property
    def diameter(self) -> float:
        """Largest ℓ1 distance of two vertices."""
        return max(float(np.abs(self.vertices - vertex).sum(axis=1).max()) for vertex in self.vertices)

    def lipschitz(self, bound: float) -> float:
        """Return a bound on the size of all coordinates of the gradient in λ, from a bound on all |∂f/∂x_i|."""
        return self.radius * bound

    def oscillation(self, bound: float) -> float:
        """Return a bound on the largest minus the smallest coordinate of the gradient in λ, from a bound on all
        |∂f/∂x_i|."""
        return self.diameter * bound

    def smoothness(self, bound: float) -> float:
        """Return the smoothness L₁ of f as a function of λ, from its L₁ as a function of x, both in the ℓ1 norm."""
        return self.radius**2 * bound


class Body(Protocol):
    """A convex body as the image of a simplex of m weights, as `Polytope` is."""

    def point(self, weights: np.ndarray) -> np.ndarray:
        """Return the points (R, d) of the weights (R, m)."""

    def pull_back(self, gradient: np.ndarray) -> np.ndarray:
        """Return the gradient (R, m) with respect to the weights, of a function whose gradient with respect to the
        points is `gradient` (R, d)."""

    @property
    def stretch(self) -> float:
        """Largest squared Euclidean length of the image of a unit vector of weights: curvature in the weights is at
        most this times curvature in the points."""


@dataclass(frozen=True)
class Ball(Body):
    """The ℓ1 ball of a radius: weights u = (u₊, u₋) on its 2d vertices give the point w = radius (u₊ - u₋). It needs no
    matrix of vertices, as a `Polytope` does."""

    radius: float

    def point(self, weights: np.ndarray) -> np.ndarray:
        return to_ball(weights, self.radius)

    def pull_back(self, gradient: np.ndarray) -> np.ndarray:
        return ball_gradient(gradient, self.radius)

    @property
    def stretch(self) -> float:
        return 2 * self.radius**2  # ‖u₊ - u₋‖₂² ≤ 2 ‖u‖₂²


class Simplex(Body):
    """The simplex itself."""

    stretch = 1.0

    def point(self, weights: np.ndarray) -> np.ndarray:
        return weights

    def pull_back(self, gradient: np.ndarray) -> np.ndarray:
        return gradient


def to_ball(weights: np.ndarray, radius: float) -> np.ndarray:
    """Return w = radius (u₊ - u₋) (..., d), the point of the ℓ1 ball with the vertex weights u = (u₊, u₋) (..., 2d)."""
    d = weights.shape[-1] // 2
    return radius * (weights[..., :d] - weights[..., d:])


def ball_vertex(names: Sequence[str], index: int) -> str:
    """Return the name of a vertex of the ℓ1 ball, given by its index among the weights u = (u₊, u₋) of `to_ball`: the
    sign of the feature's weight, and the feature's name."""
    sign, feature = divmod(index, len(names))
    return f"{'+-'[sign]}{names[feature]}"


def ball_gradient(gradient: np.ndarray, radius: float) -> np.ndarray:
    """Return the gradient (..., 2d) with respect to the weights u of `to_ball`, from the gradient (..., d) with respect
    to w."""
    scaled = radius * gradient
    return np.concatenate([scaled, -scaled], axis=-1)


def project_to_simplex(points: np.ndarray) -> np.ndarray:
    """Return the nearest point of the probability simplex, in the Euclidean norm, for each of the points p (..., d).

    It is max(p_j - θ, 0) with the threshold θ for which these numbers add up to 1, which follows from the sorted
    coordinates (Held, Wolfe and Crowder 1974).
    """
    shifted = points - points.max(axis=-1, keepdims=True)  # has the same nearest point; large entries lose fewer digits
    descending = -np.sort(-shifted, axis=-1)
    # The k-th of these is θ if exactly the k largest coordinates are above it.
    thresholds = (np.cumsum(descending, axis=-1) - 1) / np.arange(1, points.shape[-1] + 1)
    n_positive = (descending > thresholds).sum(axis=-1, keepdims=True)
    return np.maximum(shifted - np.take_along_axis(thresholds, n_positive - 1, axis=-1), 0.0)


def minimise_on_simplex(
    value_and_gradient: ValueAndGradient,
    start: np.ndarray,
    curvature: float | np.ndarray,
    tolerance: float = 1e-4,
    max_iterations: int = 2000,
    seconds: float = 0.0,
) -> Certified:
    """Minimise R convex functions h on the simplex until each minimum is known up to `tolerance`, or `max_iterations`
    are done.

    Parameters
    ----------
    value_and_gradient : callable
        Maps points (R', d), and indices (R',) that tell which of the R functions to evaluate at each, to values (R',)
        and gradients (R', d). Points may lie slightly outside the simplex, with coordinates that sum to 1.
    start : (R, d)
        Points of the simplex, such as the minimisers of similar functions.
    curvature : float or (R,)
        Upper bound on the largest eigenvalue of each Hessian; 0 if a function is linear.
    seconds : float
        Declared cost of one value and gradient of one function; slices follow from it.

    This is the accelerated projected gradient method, which drops its momentum when that points uphill (Beck and
    Teboulle 2009; O'Donoghue and Candes 2015). Every 10 steps it computes the Frank-Wolfe bound
    h(u) + min_j ∂_j h(u) - ⟨∇h(u), u⟩ ≤ min h at the current point u. The best point and the best bound of each
    function are kept, and a function whose interval between them is short enough is no longer iterated.
    """
    count = len(start)
    best_x, best, lower = start.copy(), np.full(count, np.inf), np.full(count, -np.inf)
    steps = 1 / np.maximum(np.broadcast_to(curvature, (count,)), _FLAT)
    active = np.arange(count)  # indices of the functions that are iterated; x, ahead and momentum are of these
    x, ahead, momentum = start.copy(), start.copy(), np.ones(count)  # ahead : x moved on by the momentum
    for iteration in range(max_iterations + 1):
        checkpoint()
        if iteration % _CHECK_EVERY == 0 or iteration == max_iterations:
            value, gradient = _values_and_gradients(value_and_gradient, x, active, seconds)
            lower[active] = np.maximum(lower[active], value + gradient.min(axis=1) - (gradient * x).sum(axis=1))
            is_better = value < best[active]
            best[active[is_better]], best_x[active[is_better]] = value[is_better], x[is_better]
            # Rounding may lift the bound above a minimum that has been reached.
            lower[active] = np.minimum(lower[active], best[active])
            is_open = best[active] - lower[active] > tolerance
            if not is_open.any() or iteration == max_iterations:
                break
            active, x, ahead, momentum = active[is_open], x[is_open], ahead[is_open], momentum[is_open]
        _, gradient = _values_and_gradients(value_and_gradient, ahead, active, seconds)
        new_x = project_to_simplex(ahead - steps[active, None] * gradient)
        # ahead - new_x is a step size times the projected gradient: a move new_x - x along it goes uphill.
        is_uphill = ((ahead - new_x) * (new_x - x)).sum(axis=1) > 0
        momentum[is_uphill] = 1.0  # its value at the start, with which `ahead` is `new_x`
        new_momentum = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = new_x + ((momentum - 1) / new_momentum)[:, None] * (new_x - x)
        x, momentum = new_x, new_momentum
    return Certified(best_x, best, lower)


def _values_and_gradients(
    value_and_gradient: ValueAndGradient, points: np.ndarray, indices: np.ndarray, seconds: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return values (R',) and gradients (R', d) of the functions with these indices (R',) at points (R', d), computed
    in slices, where one function takes `seconds`."""
    results = [value_and_gradient(points[part], indices[part]) for part in checkpointed_slices(len(indices), seconds)]
    if len(results) == 1:
        return results[0]
    values, gradients = zip(*results, strict=True)
    return np.concatenate(values), np.concatenate(gradients)


# ------------------------------------------------------------------------------------------------------------- the game

Pair = tuple[np.ndarray, np.ndarray]  # one array for each player: x first, then y
Player = Literal["x", "y"]

# The gap of mixed strategies (x, y) is max_v F(x, v) - min_u F(u, y): 0 at an equilibrium, else positive.
DUALITY_GAP = Metric("duality_gap", "Duality gap", scale="log", headline=2)
DEAR_GAP = replace(DUALITY_GAP, cost="expensive")  # a gap that takes a minimisation


SECONDS_PER_PRODUCT = 0.1e-9  # per multiplication of a matrix with the strategies of several replicates at once
_ARRAYS = 8  # arrays with a number per vertex that a method holds at the same time, for each replicate
_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(3) / 2]])  # of an equilateral triangle with sides 1
_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class GameFacts(Facts):
    """Facts of a game F(x, y), the mean of one function f per row, with d_x and d_y pure strategies ("vertices").

    d is d_x + d_y. The oscillation of a gradient g is max_j g_j - min_j g_j.

    For privacy, all enforced by clipping:
    oscillation_x, oscillation_y : largest oscillation of one row's gradient with respect to x, and to y; 0 if that
        player's gradient needs no data. It determines the cost of drawing vertices.
    change_x, change_y : largest change of one coordinate of one row's gradient when the row is replaced: 2 L₀, or L₀
        where gradients have one sign. It determines the cost of Gaussian noise. NaN: as the oscillation.
    payoff_bound : bound on the entries of one row's payoff matrix, where that matrix can be released; else 0.
    gap_change : n times the largest change of the duality gap at given strategies by a replaced row, where that gap is
        computed exactly, so that it can be released; else 0.

    For bounds on the error:
    lipschitz : L₀, bound on every coordinate of one row's gradient.
    range_x, range_y : largest oscillation of the gradient of F itself, data-independent parts included. NaN: as the
        oscillation of one row's gradient.
    smoothness : L₁ with ‖∇f(u) - ∇f(u')‖_∞ ≤ L₁ ‖u - u'‖₁ for strategies u = (x, y) of both players.
    smoothness_x, smoothness_y : the same constant if only x, or only y, moves, and only its gradient counts.
    second_smoothness : L₂, the same constant for the gradient of every partial derivative.
    largest_gap : upper limit of any duality gap, for any rows and strategies; a bound above it says nothing.
    right_shares : True if this limit holds only if the groups' shares, declared or bought, are right.

    For time and memory:
    products : multiplications for one gradient at a mixed strategy, on all rows. table_bytes : memory of the game,
        including while it is built. counted : True if a vertex's payoffs against all others are counted from the
        records when they are first needed, and then kept; False if all payoffs are computed before the run.
    tables : number of marginal tables of the problem, where they can be released; else 0.
    """

    d_x: int = 1
    d_y: int = 1
    lipschitz: float = 1.0
    oscillation_x: float = 2.0
    oscillation_y: float = 2.0
    change_x: float = math.nan
    change_y: float = math.nan
    range_x: float = math.nan
    range_y: float = math.nan
    smoothness: float = 1.0
    smoothness_x: float = 0.0
    smoothness_y: float = 0.0
    second_smoothness: float = 0.0
    payoff_bound: float = 0.0
    tables: int = 0
    largest_gap: float = math.inf
    right_shares: bool = False
    gap_change: float = 0.0
    products: float = 0.0
    table_bytes: float = 0.0
    counted: bool = False

    def __post_init__(self) -> None:
        """Replace a change or range that is not given (NaN) by the oscillation of its player."""
        for name in ("change_x", "change_y", "range_x", "range_y"):
            if math.isnan(getattr(self, name)):
                player = name[-1]
                object.__setattr__(self, name, getattr(self, f"oscillation_{player}"))

    @property
    def seconds(self) -> float:
        """Declared seconds of one replicate's gradient at a mixed strategy, on all rows; slices follow from it."""
        return self.products * SECONDS_PER_PRODUCT

    @property
    def log_vertices(self) -> float:
        """ℓ = ln d_x + ln d_y, which appears in the bounds on errors."""
        return math.log(self.d_x) + math.log(self.d_y)

    @property
    def cannot_exceed(self) -> str:
        """A clause that states the limit `largest_gap`, for captions."""
        name = "excess loss" if self.d_y == 1 else "gap"
        condition = " if the shares are right" if self.right_shares else ""
        return f"the {name} cannot exceed {short_up(self.largest_gap)}{condition}"

    def uniform(self, replicates: int) -> Pair:
        """Return the centres of both simplices, (R, d_x) and (R, d_y), where every method starts."""
        return np.full((replicates, self.d_x), 1 / self.d_x), np.full((replicates, self.d_y), 1 / self.d_y)


class GameSpecification(ProblemSpecification):
    """The settings of a game, with the names of its vertices."""

    def memory(self, facts: Facts) -> Memory:
        return Memory(GameFacts.of(facts).table_bytes, _ARRAYS * 8.0 * facts.d)

    @property
    def best_strategies(self) -> tuple[slice | None, str]:
        """Indices of player x's best strategies, and a phrase that names them, for titles of figures.

        They are known if the data are generated. Otherwise, as here, the indices are None: figures take the strategy
        with the largest weight in place of them.
        """
        return None, "the strategy that has most"

    def _plane(self) -> Plane | None:
        """Return the plane of player x's mixed strategies, or of both players' if each has two strategies; None if only
        x has two, as its mixed strategies are on a line."""
        facts = GameFacts.of(self.facts())
        if facts.d_x == 2:
            if facts.d_y != 2:
                return None
            titles = f"Player x: weight on {self.vertex('x', 0)}", f"Player y: weight on {self.vertex('y', 0)}"
            return Plane(titles, lambda output: np.column_stack([output["x"][:, 0], output["y"][:, 0]]))
        owner = "player x's" if facts.d_y > 1 else "the"
        if facts.d_x == 3:  # a triangle whose corners are the strategies; the weights are barycentric coordinates
            titles = f"At a corner, one has all of {owner} weight", "In the middle, all three have the same"
            corners = tuple((self.vertex("x", index), x, y) for index, (x, y) in enumerate(_CORNERS.tolist()))
            return Plane(titles, lambda output: output["x"] @ _CORNERS, corners)
        return _entropy_plane(*self.best_strategies, owner)

    def vertex(self, player: Player, index: int) -> str:
        """Return the name of the player's pure strategy with this index, from public declarations of the data."""
        return f"strategy {index + 1:,}"


def _entropy_plane(best: slice | None, best_name: str, owner: str) -> Plane:
    """Return a plane for weights x (R, d) on many strategies: one axis is their sum over the best strategies, the other
    their entropy -Σ x_j ln x_j, which is small if few strategies have all the weight.

    best, best_name : as in `GameSpecification.best_strategies`. owner : the player with the weights, in the possessive,
        for the title, such as "player x's".
    """

    def project(output: Mapping[str, np.ndarray]) -> np.ndarray:
        x = output["x"]
        weight = x.max(axis=1) if best is None else x[:, best].sum(axis=1)
        entropy = -np.einsum("rj,rj->r", x, np.log(np.maximum(x, _TINY)))  # where x is 0, so is the product
        return np.column_stack([weight, entropy])

    return Plane((f"Weight on {best_name}", f"Entropy of {owner} weights (0: all on one)"), project)


class Game(Problem):
    """A function F(x, y) on two simplices with its data, convex in x and concave in y.

    The output of a method is {"x": (R, d_x), "y": (R, d_y)}. `evaluate` computes at least the metric "duality_gap",
    max_v F(x, v) - min_u F(u, y): exactly, or as the upper end of an interval that is proven to contain it.
    """

    facts: GameFacts
    metrics: ClassVar[tuple[Metric, ...]] = (DUALITY_GAP,)

    @abstractmethod
    def gradients(self, x: np.ndarray, y: np.ndarray, rows: slice | None = None) -> Pair:
        """Return ∇ₓF (R, d_x) and ∇ᵧF (R, d_y) at x (R, d_x), y (R, d_y): the means of clipped gradients over a block
        of rows, or over all for None, plus the parts that need no data. They are not private."""

    def gradient_queries(self, x: np.ndarray, y: np.ndarray, batch: Batch) -> tuple[Query, Query]:
        """Return the queries of ∇ₓF (R, d_x) and ∇ᵧF (R, d_y) at x (R, d_x), y (R, d_y), on the block of m rows of the
        batch, or on all n rows, for Gaussian noise.

        A replaced row moves each of d coordinates by at most change/m, so the vector by at most √d times that in ℓ2.
        """
        facts = self.facts
        m = facts.n if batch.rows is None else batch.rows.stop - batch.rows.start
        gradient_x, gradient_y = self.gradients(x, y, batch.rows)
        return (
            Query(gradient_x, facts.change_x * math.sqrt(facts.d_x) / m, "l2", batch),
            Query(gradient_y, facts.change_y * math.sqrt(facts.d_y) / m, "l2", batch),
        )

    def gap(self, x: np.ndarray, y: np.ndarray, norm: Norm) -> Query:
        """Return the query of the duality gap (R,) at released strategies x (R, d_x), y (R, d_y), in the given norm.

        The gap is a maximum of F over v, minus a minimum over u. A replaced row moves each by no more than it moves F
        at any point; `gap_change` is the sum of both. Raises UserError if the gap is not computed exactly, because then
        its sensitivity is not known.
        """
        if not self.facts.gap_change:
            raise UserError(
                "The gap of this game is bracketed by an iteration, not computed exactly, so it is not known how far "
                "one row moves it. Choose the matrix game, the quadratic game or “Strategies against groups”.",
                title="Algorithm and problem do not fit",
            )
        diagnostics = self.evaluate({"x": x, "y": y}, expensive=True)
        return Query(diagnostics[DUALITY_GAP.name], self.facts.gap_change / self.facts.n, norm)


class SlicedGame(Game):
    """A game whose gradients and diagnostics are computed in slices of the replicates, so that there are checkpoints in
    between. A subclass computes one slice."""

    def gradients(self, x: np.ndarray, y: np.ndarray, rows: slice | None = None) -> Pair:
        pairs = [self._gradients(x[part], y[part], rows) for part in checkpointed_slices(len(x), self.facts.seconds)]
        gradients_x, gradients_y = zip(*pairs, strict=True)
        return np.concatenate(gradients_x), np.concatenate(gradients_y)

    @abstractmethod
    def _gradients(self, x: np.ndarray, y: np.ndarray, rows: slice | None) -> Pair:
        """Return the same as `gradients`, for one slice of the replicates."""

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        """Return the diagnostics, none of which is declared expensive."""
        return evaluate_in_slices(self._evaluate, output, 2 * self.facts.seconds)  # about as long as two gradients

    @abstractmethod
    def _evaluate(self, output: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the same as `evaluate`, for one slice of the replicates."""


class GradientSums:
    """Running sums of a game's gradients at released points, for R replicates, with their sensitivity.

    A row's gradient enters the sums with a weight: 1/n in each step that uses all rows, or 1/B once if each step has a
    block of B rows for itself. Replacing the row changes a sum by weight × (g - g'), where g and g' are gradients of
    the old and the new row. The largest coordinate of this change exceeds its smallest by at most 2 × oscillation ×
    weight, which is the sensitivity that the exponential mechanism needs (families/mirror_descent/THEORY.md, section
    4.1). The points must have been released, or be data-independent.
    """

    def __init__(self, game: Game, replicates: int) -> None:
        facts = game.facts
        self._game = game
        self._first_unused_row = 0  # by blocks, which must come in the order of their rows
        self._x, self._y = np.zeros((replicates, facts.d_x)), np.zeros((replicates, facts.d_y))  # Σ ∇ₓF, Σ ∇ᵧF
        self._table_weight = 0.0  # of every row, in steps that use the whole table
        self._block_weight = 0.0  # the largest of a row in its block

    @property
    def weight(self) -> float:
        """The largest total weight of one row in the sums so far."""
        return self._table_weight + self._block_weight

    def add(self, points: Sequence[tuple[float, np.ndarray, np.ndarray]], rows: slice | None = None) -> None:
        """Add Σ c ∇F(x, y) over the (c, x, y) in `points` to the sums.

        points : factors c, and strategies x (R, d_x), y (R, d_y).
        rows : the block on which the gradients are computed; None for the whole table. Blocks must be disjoint: each
            begins at or after the end of the one before. Raises ValueError otherwise.
        """
        total_factor = sum(abs(c) for c, _, _ in points)
        if rows is None:
            self._table_weight += total_factor / self._game.facts.n
        else:
            start, stop, step = rows.indices(self._game.facts.n)
            if start < self._first_unused_row or stop <= start or step != 1:
                raise ValueError(f"rows {start} to {stop} were used before, or are none")
            self._first_unused_row = stop
            self._block_weight = max(self._block_weight, total_factor / (stop - start))
        total_x, total_y = np.zeros_like(self._x), np.zeros_like(self._y)
        for c, x, y in points:
            gradient_x, gradient_y = self._game.gradients(x, y, rows)
            total_x += c * gradient_x
            total_y += c * gradient_y
        self._x += total_x
        self._y += total_y

    def utilities_x(self, weight: float) -> Query:
        """Return the query of -Σ ∇ₓF (R, d_x), the utilities of the minimising player's vertices.

        weight : the declared total weight of a row, from which the sensitivity follows. Raises ValueError if a row
            weighs more.
        """
        self._check_weight(weight)
        return Query(-self._x, 2 * self._game.facts.oscillation_x * weight, "range")

    def utilities_y(self, weight: float) -> Query:
        """Return the query of +Σ ∇ᵧF (R, d_y), the utilities of the maximising player's vertices.

        weight : as in `utilities_x`.
        """
        self._check_weight(weight)
        return Query(self._y.copy(), 2 * self._game.facts.oscillation_y * weight, "range")

    def _check_weight(self, declared: float) -> None:
        """Raise ValueError if a row weighs more than declared in the sums so far."""
        if not self.weight <= declared * (1 + 1e-12):  # rounding: the caller may compute it in another order
            raise ValueError(f"a row weighs up to {self.weight}, declared was {declared}")
