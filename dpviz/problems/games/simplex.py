"""The probability simplex: projection, certified minimisation, and polytopes as images of a simplex."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from dpviz.checkpoints import checkpoint, slices

ValueAndGradient = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]

_CHECK_EVERY = 10
_FLAT = 1e-9  # curvature of a linear function, whose first step should reach a vertex


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
        """x (R, d) of the convex combinations λ (R, m)."""
        return weights @ self.vertices

    def pull_back(self, gradient: np.ndarray) -> np.ndarray:
        """The gradient (R, m) with respect to λ of a function with gradient (R, d) at x."""
        return gradient @ self.vertices.T

    @cached_property
    def stretch(self) -> float:
        """The largest squared Euclidean length of Σ λ_j v_j for ‖λ‖₂ = 1."""
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
        """Bound on every coordinate of the gradient in λ, from the same bound on the gradient in x."""
        return self.radius * bound

    def oscillation(self, bound: float) -> float:
        """Bound on the largest minus the smallest coordinate of the gradient in λ, from a bound on |∂f/∂x_i|."""
        return self.diameter * bound

    def smoothness(self, bound: float) -> float:
        """L₁ in λ from L₁ in x, both with respect to the ℓ1 norm."""
        return self.radius**2 * bound

    def second_smoothness(self, bound: float) -> float:
        """L₂ in λ from L₂ in x."""
        return self.radius**3 * bound


class Body(Protocol):
    """A convex body as the image of a simplex: its points, gradients pulled back, and how far it stretches."""

    def point(self, weights: np.ndarray) -> np.ndarray:
        """The points (R, d) of the weights (R, m)."""

    def pull_back(self, gradient: np.ndarray) -> np.ndarray:
        """The gradient (R, m) with respect to the weights, of a function with gradient (R, d) at the points."""

    @property
    def stretch(self) -> float:
        """The largest squared Euclidean length of the image of a unit vector of weights."""


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
    """w = radius (u₊ - u₋) (..., d), the point of the ℓ1 ball with the vertex weights u = (u₊, u₋) (..., 2d)."""
    d = weights.shape[-1] // 2
    return radius * (weights[..., :d] - weights[..., d:])


def ball_vertex(names: Sequence[str], index: int) -> str:
    """What a vertex of the ℓ1 ball of `to_ball` stands for: a feature with the sign of its weight."""
    sign, feature = divmod(index, len(names))
    return f"{'+-'[sign]}{names[feature]}"


def ball_gradient(gradient: np.ndarray, radius: float) -> np.ndarray:
    """The gradient (..., 2d) with respect to the weights u of `to_ball`, from the gradient (..., d) at w."""
    scaled = radius * gradient
    return np.concatenate([scaled, -scaled], axis=-1)


def project(points: np.ndarray) -> np.ndarray:
    """The Euclidean projection of every row of (..., d) onto the probability simplex.

    Sorting finds the threshold θ with Σ max(p_j - θ, 0) = 1 (Held, Wolfe and Crowder 1974).
    """
    shifted = points - points.max(axis=-1, keepdims=True)  # changes nothing but the rounding of large entries
    descending = -np.sort(-shifted, axis=-1)
    thresholds = (np.cumsum(descending, axis=-1) - 1) / np.arange(1, points.shape[-1] + 1)
    kept = (descending > thresholds).sum(axis=-1, keepdims=True)
    return np.maximum(shifted - np.take_along_axis(thresholds, kept - 1, axis=-1), 0.0)


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
        Maps points (R', d) and the numbers (R',) of the functions to evaluate there, out of 0 to R - 1, to values (R',)
        and gradients (R', d). Points may lie slightly outside the simplex, with coordinates that sum to 1.
    start : (R, d) points of the simplex, such as the minimisers of similar functions.
    curvature : float or (R,)
        Upper bound on the largest eigenvalue of each Hessian; 0 if a function is linear.
    seconds : declared, of one value and gradient of one function: from this follows the size of slices.

    Accelerated projected gradient with restarts when momentum points uphill (Beck and Teboulle 2009; O'Donoghue and
    Candes 2015). Every 10 steps the Frank-Wolfe bound h(u) + min_j ∂_j h(u) - ⟨∇h(u), u⟩ ≤ min h is computed; best
    point and best bound are kept, and functions whose interval is short enough are left out of the work.
    """
    count = len(start)
    best_x, best, lower = start.copy(), np.full(count, np.inf), np.full(count, -np.inf)
    steps = 1 / np.maximum(np.broadcast_to(curvature, (count,)), _FLAT)
    active = np.arange(count)
    x, ahead, momentum = start.copy(), start.copy(), np.ones(count)
    for iteration in range(max_iterations + 1):
        checkpoint()
        if iteration % _CHECK_EVERY == 0 or iteration == max_iterations:
            value, gradient = _asked(value_and_gradient, x, active, seconds)
            lower[active] = np.maximum(lower[active], value + gradient.min(axis=1) - (gradient * x).sum(axis=1))
            better = value < best[active]
            best[active[better]], best_x[active[better]] = value[better], x[better]
            # Rounding may lift the bound above a minimum that has been reached.
            lower[active] = np.minimum(lower[active], best[active])
            left = best[active] - lower[active] > tolerance
            if not left.any() or iteration == max_iterations:
                break
            active, x, ahead, momentum = active[left], x[left], ahead[left], momentum[left]
        _, gradient = _asked(value_and_gradient, ahead, active, seconds)
        moved = project(ahead - steps[active, None] * gradient)
        uphill = ((ahead - moved) * (moved - x)).sum(axis=1) > 0
        momentum[uphill] = 1.0
        grown = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = moved + ((momentum - 1) / grown)[:, None] * (moved - x)
        x, momentum = moved, grown
    return Certified(best_x, best, lower)


def _asked(
    value_and_gradient: ValueAndGradient, points: np.ndarray, numbers: np.ndarray, seconds: float
) -> tuple[np.ndarray, np.ndarray]:
    """Values and gradients of some functions after the others, if one takes `seconds`."""
    found = [value_and_gradient(points[part], numbers[part]) for part in slices(len(numbers), seconds)]
    if len(found) == 1:
        return found[0]
    values, gradients = zip(*found, strict=True)
    return np.concatenate(values), np.concatenate(gradients)
