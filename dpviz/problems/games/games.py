"""The contract of a game: min over x of max over y of F(x, y), both on probability simplices, F a mean over rows.

Minimisation over a simplex is the game whose second player has a single strategy. Algorithms see a game through its
gradients at released points, summed up by `Scores`, which also bounds the change of the sums by one row.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple, Protocol

import numpy as np

from dpviz.checkpoints import checkpoint, slices
from dpviz.errors import UserError
from dpviz.numbers import short_up
from dpviz.privacy.batches import Batch
from dpviz.privacy.releases import Norm, Query
from dpviz.problems import base
from dpviz.problems.base import Facts, Memory, Metric, Plane, Problem, ProblemSpecification, evaluated_in_slices

# ---------------------------------------------------------------------------------------------- the probability simplex

ValueAndGradient = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]

_CHECK_EVERY = 10
_FLAT = 1e-9  # curvature that stands for that of a linear function: its first step should reach a vertex


class Certified(NamedTuple):
    """Minima of R functions on the simplex, each known to lie in [lower, value].

    x : (R, d) points of the simplex, value : (R,) the functions there, lower : (R,) certified lower bounds.
    """

    x: np.ndarray
    value: np.ndarray
    lower: np.ndarray


class Polytope:
    """The convex hull of given vertices as the image of a simplex: x = Σ λ_j v_j.

    vertices : (m, d), one vertex per row. Raises ValueError unless they are finite and two-dimensional.
    Lipschitz and smoothness constants scale with the vertices' norms, because f(Σ λ_j v_j) is differentiated in λ; the
    oscillation of its gradient depends on differences of vertices only, hence on the diameter.
    """

    def __init__(self, vertices: np.ndarray) -> None:
        self.vertices = np.array(vertices, dtype=np.float64)
        if self.vertices.ndim != 2 or not self.vertices.size or not np.isfinite(self.vertices).all():
            raise ValueError(f"vertices must be a finite (m, d) array, got shape {self.vertices.shape}")
        self.vertices.flags.writeable = False

    def point(self, weights: np.ndarray) -> np.ndarray:
        """Return the points x (R, d) of the convex combinations λ (R, m)."""
        return weights @ self.vertices

    def pull_back(self, gradient: np.ndarray) -> np.ndarray:
        """Return the gradient (R, m) with respect to λ of a function with gradient (R, d) at x."""
        return gradient @ self.vertices.T

    @cached_property
    def stretch(self) -> float:
        """Largest squared Euclidean length of Σ λ_j v_j for ‖λ‖₂ = 1."""
        return float(np.linalg.norm(self.vertices, 2)) ** 2

    @cached_property
    def radius(self) -> float:
        """max_j ‖v_j‖₁."""
        return float(np.abs(self.vertices).sum(axis=1).max())

    @cached_property
    def diameter(self) -> float:
        """max_{j,k} ‖v_j - v_k‖₁."""
        return max(float(np.abs(self.vertices - vertex).sum(axis=1).max()) for vertex in self.vertices)

    def lipschitz(self, bound: float) -> float:
        """Return a bound on every coordinate of the gradient in λ, from the same bound on the gradient in x."""
        return self.radius * bound

    def oscillation(self, bound: float) -> float:
        """Return a bound on the largest minus the smallest coordinate of the gradient in λ, from a bound on
        |∂f/∂x_i|."""
        return self.diameter * bound

    def smoothness(self, bound: float) -> float:
        """Return L₁ in λ from L₁ in x, both with respect to the ℓ1 norm."""
        return self.radius**2 * bound

    def second_smoothness(self, bound: float) -> float:
        """Return L₂ in λ from L₂ in x."""
        return self.radius**3 * bound


class Body(Protocol):
    """A convex body as the image of a simplex: its points, the gradients at its weights, and its stretch."""

    def point(self, weights: np.ndarray) -> np.ndarray:
        """Return the points (R, d) of the weights (R, m)."""

    def pull_back(self, gradient: np.ndarray) -> np.ndarray:
        """Return the gradient (R, m) with respect to the weights, of a function with gradient (R, d) at the points."""

    @property
    def stretch(self) -> float:
        """Largest squared Euclidean length of the image of a unit vector of weights."""


@dataclass(frozen=True)
class Ball(Body):
    """The ℓ1 ball of a radius, w = radius (u₊ - u₋); `Polytope` without the matrix of its 2d vertices."""

    radius: float

    def point(self, weights: np.ndarray) -> np.ndarray:
        return to_ball(weights, self.radius)

    def pull_back(self, gradient: np.ndarray) -> np.ndarray:
        return ball_gradient(gradient, self.radius)

    @property
    def stretch(self) -> float:
        return 2 * self.radius**2


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
    """Return the name of a vertex of the ℓ1 ball of `to_ball`: a feature with the sign of its weight."""
    sign, feature = divmod(index, len(names))
    return f"{'+-'[sign]}{names[feature]}"


def ball_gradient(gradient: np.ndarray, radius: float) -> np.ndarray:
    """Return the gradient (..., 2d) with respect to the weights u of `to_ball`, from the gradient (..., d) at w."""
    scaled = radius * gradient
    return np.concatenate([scaled, -scaled], axis=-1)


def project(points: np.ndarray) -> np.ndarray:
    """Project every row of (..., d) onto the probability simplex, in the Euclidean norm.

    Sorting finds the threshold θ with Σ max(p_j - θ, 0) = 1 (Held, Wolfe and Crowder 1974).
    """
    shifted = points - points.max(axis=-1, keepdims=True)  # changes only the rounding of large entries
    descending = -np.sort(-shifted, axis=-1)
    thresholds = (np.cumsum(descending, axis=-1) - 1) / np.arange(1, points.shape[-1] + 1)
    support = (descending > thresholds).sum(axis=-1, keepdims=True)
    return np.maximum(shifted - np.take_along_axis(thresholds, support - 1, axis=-1), 0.0)


def minimise(
    value_and_gradient: ValueAndGradient,
    start: np.ndarray,
    curvature: float | np.ndarray,
    tolerance: float = 1e-4,
    max_iterations: int = 2000,
    seconds: float = 0.0,
) -> Certified:
    """Minimise R convex functions on the simplex until each minimum is known up to `tolerance`.

    Parameters
    ----------
    value_and_gradient : callable
        Maps points (R', d) and indices (R',), which of the R functions to evaluate there, to values (R',) and gradients
        (R', d). Points may lie slightly outside the simplex, with coordinates that sum to 1.
    start : (R, d)
        Points of the simplex, such as the minimisers of similar functions.
    curvature : float or (R,)
        Upper bound on the largest eigenvalue of each Hessian; 0 if a function is linear.
    seconds : float
        Declared, of one value and gradient of one function; the size of slices follows from it.

    Accelerated projected gradient with restarts when momentum points uphill (Beck and Teboulle 2009; O'Donoghue and
    Candes 2015). Every 10 steps the Frank-Wolfe bound h(u) + min_j ∂_j h(u) - ⟨∇h(u), u⟩ ≤ min h is computed. Best
    point and best bound are kept, and functions whose interval is short enough are no longer iterated.
    """
    count = len(start)
    best_x, best, lower = start.copy(), np.full(count, np.inf), np.full(count, -np.inf)
    steps = 1 / np.maximum(np.broadcast_to(curvature, (count,)), _FLAT)
    active = np.arange(count)
    x, ahead, momentum = start.copy(), start.copy(), np.ones(count)
    for iteration in range(max_iterations + 1):
        checkpoint()
        if iteration % _CHECK_EVERY == 0 or iteration == max_iterations:
            value, gradient = _evaluated(value_and_gradient, x, active, seconds)
            lower[active] = np.maximum(lower[active], value + gradient.min(axis=1) - (gradient * x).sum(axis=1))
            is_better = value < best[active]
            best[active[is_better]], best_x[active[is_better]] = value[is_better], x[is_better]
            # Rounding may lift the bound above a minimum that has been reached.
            lower[active] = np.minimum(lower[active], best[active])
            is_open = best[active] - lower[active] > tolerance
            if not is_open.any() or iteration == max_iterations:
                break
            active, x, ahead, momentum = active[is_open], x[is_open], ahead[is_open], momentum[is_open]
        _, gradient = _evaluated(value_and_gradient, ahead, active, seconds)
        new_x = project(ahead - steps[active, None] * gradient)
        is_uphill = ((ahead - new_x) * (new_x - x)).sum(axis=1) > 0
        momentum[is_uphill] = 1.0
        new_momentum = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = new_x + ((momentum - 1) / new_momentum)[:, None] * (new_x - x)
        x, momentum = new_x, new_momentum
    return Certified(best_x, best, lower)


def _evaluated(
    value_and_gradient: ValueAndGradient, points: np.ndarray, indices: np.ndarray, seconds: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return values and gradients of the functions of these indices, in slices, if one function takes `seconds`."""
    parts = [value_and_gradient(points[part], indices[part]) for part in slices(len(indices), seconds)]
    if len(parts) == 1:
        return parts[0]
    values, gradients = zip(*parts, strict=True)
    return np.concatenate(values), np.concatenate(gradients)


# ------------------------------------------------------------------------------------------------------------- the game

Pair = tuple[np.ndarray, np.ndarray]
Player = Literal["x", "y"]

DUALITY_GAP = Metric("duality_gap", "Duality gap", scale="log", headline=2)
DEAR_GAP = replace(DUALITY_GAP, cost="expensive")  # a gap that takes a minimisation


SECONDS_PER_PRODUCT = 0.1e-9  # per multiplication of a matrix with the strategies of several replicates at once
_ARRAYS = 8  # arrays of all vertices that a method holds at the same time


@dataclass(frozen=True)
class GameFacts(Facts):
    """Facts of a game with d_x and d_y pure strategies ("vertices"); d = d_x + d_y.

    lipschitz : L₀, bound on every coordinate of one row's gradient.
    oscillation_x, oscillation_y : largest max_j g_j - min_j g_j of one row's gradient g; 0 if that player's gradient
        needs no data. Enforced by clipping; it determines the cost of vertex sampling.
    change_x, change_y : largest change of one coordinate of one row's gradient when the row is replaced: 2 L₀, or L₀
        where gradients have one sign. It determines the cost of Gaussian noise.
    range_x, range_y : largest oscillation of the gradient of F itself, data-independent parts included; for bounds.
    smoothness : L₁, ‖∇f(u) - ∇f(u')‖_∞ ≤ L₁ ‖u - u'‖₁; smoothness_x, smoothness_y : of the two diagonal blocks.
    second_smoothness : L₂ of every partial derivative.
    products : multiplications of one gradient at a mixed strategy, on all rows. table_bytes : memory of the game,
        including while it is built. counted : whether a vertex's payoffs against all others are counted from the
        records when they are first needed, and then kept.
    payoff_bound : bound on the entries of one row's payoff matrix, where that matrix can be released; else 0.
    tables : number of marginal tables of the problem, where they can be released; else 0.
    largest_gap : upper limit of any duality gap, for any rows and strategies; a bound above it says nothing.
    right_shares : whether that limit requires that the groups' shares, declared or bought, are right.
    gap_change : n times the largest change of the duality gap at given strategies by a replaced row, where that gap is
        computed exactly, so that it can be released; else 0.
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
                object.__setattr__(self, name, getattr(self, f"oscillation_{name[-1]}"))

    @property
    def seconds(self) -> float:
        """Declared seconds of one replicate's gradient at a mixed strategy, on all rows; slices follow from it."""
        return self.products * SECONDS_PER_PRODUCT

    @property
    def log_vertices(self) -> float:
        """ℓ = ln d_x + ln d_y."""
        return math.log(self.d_x) + math.log(self.d_y)

    @property
    def cannot_exceed(self) -> str:
        """The limit `largest_gap` in words."""
        condition = " if the shares are right" if self.right_shares else ""
        return f"the {'excess loss' if self.d_y == 1 else 'gap'} cannot exceed {short_up(self.largest_gap)}{condition}"

    def uniform(self, replicates: int) -> Pair:
        """Return the centres of both simplices, where every method starts; (R, d_x), (R, d_y)."""
        return np.full((replicates, self.d_x), 1 / self.d_x), np.full((replicates, self.d_y), 1 / self.d_y)


class GameSpecification(ProblemSpecification):
    """The settings of a game, with the names of its vertices."""

    @property
    def public(self) -> bool:
        """True if its data are public, as rows are that the problem generates itself."""
        return bool(getattr(self.dataset, "public", True))

    def memory(self, facts: Facts) -> Memory:
        return Memory(GameFacts.of(facts).table_bytes, _ARRAYS * 8.0 * facts.d)

    @property
    def good(self) -> tuple[slice | None, str]:
        """The good vertices of x, and their name, if these follow from the way the data are generated.

        Else None, and the name of the vertex with most weight.
        """
        return None, "the strategy that has most"

    def _plane(self) -> Plane | None:
        """Return the plane of player x's mixed strategies, or of both players' if each has two strategies."""
        facts = GameFacts.of(self.facts())
        if facts.d_x == 2:
            return base.both((self.vertex("x", 0), self.vertex("y", 0))) if facts.d_y == 2 else None
        whose = "player x's" if facts.d_y > 1 else "the"
        if facts.d_x == 3:
            first, second, third = (self.vertex("x", index) for index in range(3))
            return base.triangle((first, second, third), whose)
        return base.concentration(*self.good, whose)

    def vertex(self, player: Player, index: int) -> str:
        """Return the name of the vertex with this index, from the data's declarations; public."""
        return f"strategy {index + 1:,}"


class Game(Problem):
    """A convex-concave F(x, y) on two simplices. The output of a method is {"x": (R, d_x), "y": (R, d_y)}.

    `evaluate` records at least the metric "duality_gap", max_v F(x, v) - min_u F(u, y): exact, or the upper end of a
    certified interval.
    """

    facts: GameFacts
    metrics: ClassVar[tuple[Metric, ...]] = (DUALITY_GAP,)

    @abstractmethod
    def gradients(self, x: np.ndarray, y: np.ndarray, rows: slice | None = None) -> Pair:
        """Return ∇ₓF and ∇ᵧF at (R, d_x), (R, d_y): means over the given rows (None = all) of clipped gradients,
        plus parts that need no data. Not private."""

    def noisy_gradients(self, x: np.ndarray, y: np.ndarray, batch: Batch) -> tuple[Query, Query]:
        """Return both gradients on a block of rows or on all, as Queries for Gaussian noise.

        Replacing one of the m rows moves every coordinate by at most `change` / m.
        """
        facts = self.facts
        m = facts.n if batch.rows is None else batch.rows.stop - batch.rows.start
        g_x, g_y = self.gradients(x, y, batch.rows)
        return (
            Query(g_x, facts.change_x * math.sqrt(facts.d_x) / m, "l2", batch),
            Query(g_y, facts.change_y * math.sqrt(facts.d_y) / m, "l2", batch),
        )

    def gap(self, x: np.ndarray, y: np.ndarray, norm: Norm) -> Query:
        """Return the duality gap at released strategies, (R,), as a Query for noise of a norm's kind.

        max over v of F(x, v) and min over u of F(u, y) are best answers of linear functions, plus public parts: a row
        moves each by no more than it moves F anywhere. Raises UserError where the gap is not exact.
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
    """A game that computes in slices of replicates."""

    def gradients(self, x: np.ndarray, y: np.ndarray, rows: slice | None = None) -> Pair:
        parts = [self._gradients(x[part], y[part], rows) for part in slices(len(x), self.facts.seconds)]
        of_x, of_y = zip(*parts, strict=True)
        return np.concatenate(of_x), np.concatenate(of_y)

    @abstractmethod
    def _gradients(self, x: np.ndarray, y: np.ndarray, rows: slice | None) -> Pair:
        """Return `gradients` of one slice."""

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        return evaluated_in_slices(self._evaluate, output, 2 * self.facts.seconds)

    @abstractmethod
    def _evaluate(self, output: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the diagnostics of one slice that are not declared expensive."""


class Scores:
    """Running sums of a game's gradients at released points, for R replicates, with their sensitivity.

    One row's gradient enters a sum with a weight: 1/n per step where all rows are used, 1/B once where each step has a
    block of B rows of its own. Replacing the row changes the sum by weight × (g - g'), whose largest coordinate exceeds
    its smallest by at most 2 × oscillation × weight: the range that the exponential mechanism needs
    (families/mirror_descent/THEORY.md, section 4.1). The points must have been released, or be data-independent.
    """

    def __init__(self, game: Game, replicates: int) -> None:
        facts = game.facts
        self._game, self._used = game, 0
        self._x, self._y = np.zeros((replicates, facts.d_x)), np.zeros((replicates, facts.d_y))
        self._shared = 0.0  # weight of every row in steps that use the whole table
        self._block = 0.0  # largest weight of a row in its block

    @property
    def weight(self) -> float:
        """The largest total weight of one row in the sums so far."""
        return self._shared + self._block

    def add(self, points: Sequence[tuple[float, np.ndarray, np.ndarray]], rows: slice | None = None) -> Pair:
        """Add Σ c ∇F(x, y) over (c, x, y) in `points`, computed on the whole table or on the block `rows`; return it.

        Blocks must be disjoint: each begins at or after the end of the one before. Raises ValueError otherwise.
        """
        size = sum(abs(c) for c, _, _ in points)
        if rows is None:
            self._shared += size / self._game.facts.n
        else:
            start, stop, step = rows.indices(self._game.facts.n)
            if start < self._used or stop <= start or step != 1:
                raise ValueError(f"rows {start} to {stop} were used before, or are none")
            self._used, self._block = stop, max(self._block, size / (stop - start))
        total_x, total_y = np.zeros_like(self._x), np.zeros_like(self._y)
        for c, x, y in points:
            g_x, g_y = self._game.gradients(x, y, rows)
            total_x += c * g_x
            total_y += c * g_y
        self._x += total_x
        self._y += total_y
        return total_x, total_y

    def x(self, weight: float) -> Query:
        """Return -Σ ∇ₓF: utilities of the minimising player's vertices, for rows of at most `weight`; (R, d_x).

        Raises ValueError if a row may weigh more.
        """
        return Query(-self._x, 2 * self._game.facts.oscillation_x * self._declared(weight), "range")

    def y(self, weight: float) -> Query:
        """Return +Σ ∇ᵧF: utilities of the maximising player's vertices; (R, d_y)."""
        return Query(self._y.copy(), 2 * self._game.facts.oscillation_y * self._declared(weight), "range")

    def _declared(self, weight: float) -> float:
        """Return `weight`. Raises ValueError if a row may weigh more."""
        if not self.weight <= weight * (1 + 1e-12):  # the caller may compute it in another order
            raise ValueError(f"a row weighs up to {self.weight}, declared was {weight}")
        return weight
