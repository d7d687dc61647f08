"""Worst-case certificates for heavy ball on all mu-strongly convex, L-smooth objectives (Proposition 3.4, corrected).

A certificate is a contraction rate with a 2x2 matrix P and a number c0 that satisfy a linear matrix inequality (Hu and
Lessard 2017; Kuru et al., equation 18). It exists only for momentum up to about 1 - step_size L / 2: for the settings
of the paper's own experiments there is none (erratum E16). Computing one takes about a second: on demand and cached,
never on a slider.

Corrections used: B = [-step_size; 0] and the scalar 2 in X0 (E6), the trace of the noise covariance counted once (E7),
and a smaller first term of the bound (THEORY.md, section 5.5).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from dpviz.families.accelerated.quadratic import rate as quadratic_rate

Floats = NDArray[np.float64]

_ROUNDS = 60  # of cutting planes, per rate
_BISECTIONS = 16


@dataclass(frozen=True)
class Certificate:
    """Proof that heavy ball contracts V_P(x_t, x_{t-1}) + F(x_t) - F* by rate^2 in every step without noise.

    V_P(x, y) is the quadratic form of P = ((P11, P12), (P12, P22)) in (x - x*, y - x*), summed over coordinates;
    c0 >= 0 is the multiplier of the inequality for gradients of such objectives.
    """

    strong_convexity: float
    smoothness: float
    step_size: float
    momentum: float
    rate: float
    P: tuple[tuple[float, float], tuple[float, float]]
    c0: float

    @property
    def margin(self) -> float:
        """Smallest eigenvalue of the matrix inequality (left minus right side) and of P; proves if not negative."""
        scale = self.smoothness
        inequality = _inequality(self.strong_convexity / scale, self.step_size * scale, self.momentum, self.rate**2)
        matrix = inequality.at(np.array([self.P[0][0], self.P[0][1], self.P[1][1], self.c0 * scale**2]) / scale)
        units = np.sqrt(scale) * np.array([1, 1, 1 / scale])  # undoes the scaling to smoothness 1
        return float(min(np.linalg.eigvalsh(matrix * np.outer(units, units))[0], np.linalg.eigvalsh(self.P)[0]))

    @property
    def noise_factor(self) -> float:
        """Factor by which the two-step structure amplifies the noise, at least 1: 1 + 2 P12^2 / (L P22 + 2 det P)."""
        (_, p12), (_, p22) = self.P
        denominator = self.smoothness * p22 + 2 * self._determinant
        return 1 + 2 * p12**2 / denominator if denominator > 0 else 1.0

    @property
    def _determinant(self) -> float:
        (p11, p12), (_, p22) = self.P
        return max(p11 * p22 - p12**2, 0.0)

    def bound(self, squared_distance: float, gap: float, noise: float, iterations: int) -> Floats:
        """Return (T+1,) an upper bound on E F(x_t) - F* for t = 0..T = iterations, started with x_{-1} = x_0.

        squared_distance : ||x_0 - x*||^2; gap : F(x_0) - F*; noise : upper bound on E||w_t||^2 of the whole gradient
        noise, the same in every step (2 d b^2 for Laplace noise of scale b).
        """
        (p11, p12), (_, p22) = self.P
        start = (p11 + 2 * p12 + p22) * squared_distance + gap
        divisor = 1 + (2 * self._determinant / (self.smoothness * p22) if p22 > 0 else 0.0)
        contraction = self.rate ** (2 * np.arange(iterations + 1))
        per_step = self.smoothness * self.step_size**2 / 2 * noise * self.noise_factor
        return np.asarray(contraction * start / divisor + (1 - contraction) / (1 - self.rate**2) * per_step)


class _Inequality(NamedTuple):
    """Matrix inequality constant + sum_k y_k basis_k >= 0 (positive semidefinite) for smoothness 1, in the unknowns y =
    (P11, P12, P22, c0)."""

    constant: Floats  # (3, 3)
    basis: Floats  # (4, 3, 3)

    def at(self, unknowns: Floats) -> Floats:
        """Return (3, 3) the left side for these unknowns (4,)."""
        return np.asarray(self.constant + np.tensordot(unknowns, self.basis, axes=1))


def _inequality(mu: float, step: float, momentum: float, squared_rate: float) -> _Inequality:
    """Return the inequality c0 X0 + X1 + (1 - rate^2) X2 - Phi(P) >= 0 in (x_t, x_{t-1}, gradient), for L = 1."""
    advance = np.array([[1 + momentum, -momentum, -step], [1, 0, 0]])  # (A B): the next two iterates
    current = np.array([[1.0, 0, 0], [0, 1, 0]])  # the last two iterates
    p_basis = [np.array(h, float) for h in ([[1, 0], [0, 0]], [[0, 1], [1, 0]], [[0, 0], [0, 1]])]
    phi = [advance.T @ h @ advance - squared_rate * current.T @ h @ current for h in p_basis]
    gradients = np.array([[2 * mu, 0, -(mu + 1)], [0, 0, 0], [-(mu + 1), 0, 2]])
    square, mixed = momentum**2, (1 - step) * momentum
    descent = np.array([[-square, square, -mixed], [square, -square, mixed], [-mixed, mixed, step * (2 - step)]]) / 2
    convexity = np.array([[mu, 0, -1], [0, 0, 0], [-1, 0, 0]]) / 2
    return _Inequality(descent + (1 - squared_rate) * convexity, np.array([-phi[0], -phi[1], -phi[2], gradients]))


def _forms(vectors: Floats, matrices: Floats) -> Floats:
    """Return (v, k) the quadratic forms v' M v of every vector, a row of (v, m), and matrix of (k, m, m)."""
    return np.asarray(np.einsum("vi,kij,vj->vk", vectors, matrices, vectors))


def _solve(inequality: _Inequality) -> Floats | None:
    """Return a solution y (4,) of the matrix inequality with P >= 0, by cutting planes; None if there is none.

    A linear programme maximises the smallest value of v' M v and w' P w over the unit vectors v and w tried so far;
    eigenvectors with smaller values are tried next. It stops strictly inside, so that rounding invalidates nothing.
    """
    p_basis = np.array([[[1, 0], [0, 0]], [[0, 1], [1, 0]], [[0, 0], [0, 1]], [[0, 0], [0, 0]]], float)
    angles = np.arange(8) * np.pi / 8
    cuts, directions = np.eye(3), np.stack([np.cos(angles), np.sin(angles)], axis=1)
    limits = [(-100, 100)] * 3 + [(0, 100), (-10, 10)]
    for _ in range(_ROUNDS):
        of_inequality = np.column_stack([-_forms(cuts, inequality.basis), np.ones(len(cuts))])
        of_p = np.column_stack([-_forms(directions, p_basis), np.ones(len(directions))])
        upper = np.concatenate([_forms(cuts, inequality.constant[None])[:, 0], np.zeros(len(directions))])
        rows = np.vstack([of_inequality, of_p])
        result = linprog([0, 0, 0, 0, -1], A_ub=rows, b_ub=upper, bounds=limits, method="highs")
        if result.x is None or result.x[4] <= 0:
            return None
        unknowns, target = result.x[:4], result.x[4]
        values, vectors = np.linalg.eigh(inequality.at(unknowns))
        p_values, p_vectors = np.linalg.eigh(np.tensordot(unknowns, p_basis, axes=1))
        if min(values[0], p_values[0]) >= 0:
            return np.asarray(unknowns)
        violated = values < target
        violated[0] = True
        cuts = np.vstack([cuts, vectors.T[violated]])
        if p_values[0] < target:
            directions = np.vstack([directions, p_vectors.T[:1]])
    return None


def certify(strong_convexity: float, smoothness: float, step_size: float, momentum: float) -> Certificate | None:
    """Return the certificate with the smallest rate for heavy ball, or None if no rate below 1 can be proved.

    Bisects on the squared rate, from that on quadratics (no certificate can be faster) up to 0.99999.
    """
    mu, step = strong_convexity / smoothness, step_size * smoothness
    low, high = float(quadratic_rate("heavy_ball", step, momentum, mu, 1.0)) ** 2, 0.99999
    best = _solve(_inequality(mu, step, momentum, high)) if low < high else None
    if best is None:
        return None
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        solution = _solve(_inequality(mu, step, momentum, middle))
        if solution is None:
            low = middle
        else:
            high, best = middle, solution
    p11, p12, p22 = (float(value) for value in smoothness * best[:3])
    matrix = ((p11, p12), (p12, p22))
    return Certificate(
        strong_convexity, smoothness, step_size, momentum, float(np.sqrt(high)), matrix, float(best[3] / smoothness)
    )
