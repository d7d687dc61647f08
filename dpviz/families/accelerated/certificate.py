"""Worst-case certificates for heavy ball on all mu-strongly convex, L-smooth objectives (Proposition 3.4, corrected).

Heavy ball is x_{t+1} = x_t - step_size g_t + momentum (x_t - x_{t-1}) with the gradient g_t at x_t. A certificate is a
contraction rate with a 2x2 matrix P and a number c0 that satisfy a linear matrix inequality (Hu and
Lessard 2017; Kuru et al., equation 18). It exists only for momentum up to about 1 - step_size L / 2: for the settings
of the paper's own experiments there is none (erratum E16). Computing one takes about a second: on demand and cached,
never on a slider.

Corrections of the paper's equation (18) and of its bound: B = [-step_size; 0], the factor of the gradient in heavy
ball, and the scalar 2 in the matrix X0 of gradient inequalities (erratum E6); the trace of the noise covariance counted
once (E7); and a smaller first term of the bound (THEORY.md, section 5.5).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from dpviz.families.accelerated.quadratic import rate as quadratic_rate

Floats = NDArray[np.float64]

_ROUNDS = 60  # of cutting planes, per rate; by trial. A rate that is undecided then counts as not proved
_BISECTIONS = 16  # of the squared rate, to within 2^-16


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
        """Smallest eigenvalue of the matrix inequality (left minus right side) and of P: the certificate is a proof if
        it is not negative."""
        (p11, p12), (_, p22) = self.P
        L = self.smoothness
        # `_inequality` is that of F/L: mu and P are divided by L, the step size and c0 multiplied.
        mu, step = self.strong_convexity / L, self.step_size * L
        inequality = _inequality(mu, step, self.momentum, squared_rate=self.rate**2)
        matrix = inequality.at(np.array([p11, p12, p22, self.c0 * L**2]) / L)
        # Back to F: the form of F is L times that of F/L, in which the gradient of F is divided by L.
        units = np.sqrt(L) * np.array([1, 1, 1 / L])
        return float(min(np.linalg.eigvalsh(matrix * np.outer(units, units))[0], np.linalg.eigvalsh(self.P)[0]))

    @property
    def noise_factor(self) -> float:
        """Factor, at least 1, by which momentum amplifies the noise in the bound: 1 + 2 P12^2 / (L P22 + 2 det P)."""
        (_, p12), (_, p22) = self.P
        denominator = self.smoothness * p22 + 2 * self._determinant
        return 1 + 2 * p12**2 / denominator if denominator > 0 else 1.0  # P22 = 0 makes P12 = 0, as P >= 0

    @property
    def _determinant(self) -> float:
        """Determinant of P, at least 0 as for every positive semidefinite matrix: rounding may give less."""
        (p11, p12), (_, p22) = self.P
        return max(p11 * p22 - p12**2, 0.0)

    def bound(self, squared_distance: float, gap: float, noise: float, iterations: int) -> Floats:
        """Return (T+1,) an upper bound on E F(x_t) - F* for t = 0..T = iterations, started with x_{-1} = x_0.

        It is rate^(2t) (V_P(x_0, x_0) + gap) / (1 + 2 det P / (L P22)) for the start, plus what the noise of a step
        contributes, (L/2) step_size^2 * noise * noise_factor, times 1 + rate^2 + ... + rate^(2t-2).

        squared_distance : ||x_0 - x*||^2. gap : F(x_0) - F*. noise : upper bound on the expected squared norm
            E||w_t||^2 of the gradient noise, the same for every step (2 d b^2 for Laplace noise of scale b in d
            dimensions).
        """
        (p11, p12), (_, p22) = self.P
        start = (p11 + 2 * p12 + p22) * squared_distance + gap
        # Without the divisor the bound holds, too: for P22 = 0, where it is 0/0, it is left out.
        divisor = 1 + (2 * self._determinant / (self.smoothness * p22) if p22 > 0 else 0.0)
        contraction = self.rate ** (2 * np.arange(iterations + 1))
        sum_of_powers = (1 - contraction) / (1 - self.rate**2)
        noise_per_step = self.smoothness * self.step_size**2 / 2 * noise * self.noise_factor
        return np.asarray(contraction * start / divisor + sum_of_powers * noise_per_step)


class _Inequality(NamedTuple):
    """Matrix inequality constant + sum_k y_k basis_k >= 0 (positive semidefinite) in the unknowns y = (P11, P12, P22,
    c0), for an objective whose smoothness is scaled to 1."""

    constant: Floats  # (3, 3)
    basis: Floats  # (4, 3, 3)

    def at(self, unknowns: Floats) -> Floats:
        """Return (3, 3) the left side for the unknowns (P11, P12, P22, c0), (4,)."""
        return np.asarray(self.constant + np.tensordot(unknowns, self.basis, axes=1))


def _inequality(mu: float, step: float, momentum: float, squared_rate: float) -> _Inequality:
    """Return the matrix inequality c0 X0 + X1 + (1 - rate^2) X2 - Phi(P) >= 0 for L = 1 (equation 18, corrected).

    Every matrix is a quadratic form in (x_t - x*, x_{t-1} - x*, gradient at x_t). Phi is V_P after the step less rate^2
    times V_P before it. For all mu-strongly convex, 1-smooth objectives X0 is never positive, X1 is at most the
    decrease F(x_t) - F(x_{t+1}), and X2 is at most F* - F(x_t). So the inequality proves the contraction of a
    certificate.
    """
    next_pair = np.array([[1 + momentum, -momentum, -step], [1, 0, 0]])  # x_{t+1} - x* and x_t - x* after the step
    pair = np.array([[1.0, 0, 0], [0, 1, 0]])  # x_t - x* and x_{t-1} - x* before it
    # Phi is linear in P = P11 H_0 + P12 H_1 + P22 H_2, with these three matrices H.
    p_basis = [np.array(H, float) for H in ([[1, 0], [0, 0]], [[0, 1], [1, 0]], [[0, 0], [0, 1]])]
    phi = [next_pair.T @ H @ next_pair - squared_rate * pair.T @ H @ pair for H in p_basis]
    # With x = x_t - x*, the gradient g, and the step h = x_{t+1} - x_t: X0 is 2 (g - mu x)(g - x), X1 -g h - h^2 / 2,
    # and X2 (mu/2) x^2 - g x.
    x0 = np.array([[2 * mu, 0, -(mu + 1)], [0, 0, 0], [-(mu + 1), 0, 2]])
    square, mixed = momentum**2, (1 - step) * momentum
    x1 = np.array([[-square, square, -mixed], [square, -square, mixed], [-mixed, mixed, step * (2 - step)]]) / 2
    x2 = np.array([[mu, 0, -1], [0, 0, 0], [-1, 0, 0]]) / 2
    return _Inequality(constant=x1 + (1 - squared_rate) * x2, basis=np.array([-phi[0], -phi[1], -phi[2], x0]))


def _quadratic_forms(vectors: Floats, matrices: Floats) -> Floats:
    """Return (n, k) the values v' M v for each of n vectors v, the rows of `vectors` (n, m), and each of k matrices M,
    `matrices` (k, m, m)."""
    return np.asarray(np.einsum("vi,kij,vj->vk", vectors, matrices, vectors))


def _solve(inequality: _Inequality) -> Floats | None:
    """Return unknowns y = (P11, P12, P22, c0), (4,), that satisfy the matrix inequality M(y) >= 0 and P >= 0, by
    cutting planes; None if none are found.

    M(y) >= 0 means v' M(y) v >= 0 for all unit vectors v, and each single v gives a condition that is linear in y. A
    linear programme finds the y with the largest margin, the smallest value of v' M(y) v and w' P w over the vectors v
    and w tried so far. Over all vectors these are smaller: the smallest eigenvalues of M and P. As soon as they are not
    negative y is a solution; else the eigenvectors that violate the margin join the vectors of the next round.
    """
    # P = sum_k y_k p_basis_k; the last unknown, c0, is not part of it.
    p_basis = np.array([[[1, 0], [0, 0]], [[0, 1], [1, 0]], [[0, 0], [0, 1]], [[0, 0], [0, 0]]], float)
    angles = np.arange(8) * np.pi / 8  # of unit vectors in the plane; v and -v give the same condition
    m_vectors, p_vectors = np.eye(3), np.stack([np.cos(angles), np.sin(angles)], axis=1)  # the first v and w
    # Of P11, P12, P22, c0 and the margin: without limits the margin has no maximum while there are few vectors. Their
    # size is by trial; a narrower box can only miss certificates, never accept a wrong one.
    limits = [(-100, 100)] * 3 + [(0, 100), (-10, 10)]
    for _ in range(_ROUNDS):
        # Rows of A z <= b for z = (y, margin): margin - v' M(y) v <= 0, with the constant part of M on the right.
        m_rows = np.column_stack([-_quadratic_forms(m_vectors, inequality.basis), np.ones(len(m_vectors))])
        p_rows = np.column_stack([-_quadratic_forms(p_vectors, p_basis), np.ones(len(p_vectors))])
        m_upper = _quadratic_forms(m_vectors, inequality.constant[None])[:, 0]
        upper = np.concatenate([m_upper, np.zeros(len(p_vectors))])
        rows = np.vstack([m_rows, p_rows])
        result = linprog([0, 0, 0, 0, -1], A_ub=rows, b_ub=upper, bounds=limits, method="highs")  # the largest margin
        if result.x is None or result.x[4] <= 0:
            return None  # already these few vectors leave no room, and more of them leave less
        unknowns, margin = result.x[:4], result.x[4]
        m_values, m_eigenvectors = np.linalg.eigh(inequality.at(unknowns))
        p_values, p_eigenvectors = np.linalg.eigh(np.tensordot(unknowns, p_basis, axes=1))
        if min(m_values[0], p_values[0]) >= 0:
            return np.asarray(unknowns)
        # At least one vector is new, as the smallest eigenvalue of M or P is below 0, and the margin is not.
        m_vectors = np.vstack([m_vectors, m_eigenvectors.T[m_values < margin]])
        p_vectors = np.vstack([p_vectors, p_eigenvectors.T[p_values < margin]])
    return None


def certify(strong_convexity: float, smoothness: float, step_size: float, momentum: float) -> Certificate | None:
    """Return the certificate with the smallest contraction rate for heavy ball, or None if no rate below 1 is proved.

    Bisects on the squared rate, from that on quadratics (no certificate can be faster) up to 0.99999, as 1 would prove
    nothing. The inequality is solved for the objective divided by its smoothness L, which is then 1; P and c0 are
    scaled back at the end.
    """
    mu, step = strong_convexity / smoothness, step_size * smoothness
    low, high = float(quadratic_rate("heavy_ball", step, momentum, mu, smoothness=1.0)) ** 2, 0.99999
    best = _solve(_inequality(mu, step, momentum, high)) if low < high else None  # else unstable on a quadratic
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
    c0 = float(best[3] / smoothness)
    return Certificate(strong_convexity, smoothness, step_size, momentum, rate=float(np.sqrt(high)), P=matrix, c0=c0)
