"""Second opinions on the theory of the accelerated methods: limits, and bounds that no page shows."""

import numpy as np
from numpy.typing import ArrayLike

from dpviz.families.accelerated.quadratic import Kind, _autoregression, _segments
from dpviz.families.accelerated.theory import BoundFactors, Floats, Noise, Schedule, Steps, bound_by_iterations
from dpviz.privacy.accounting.closed_forms import recursion


def stationary_gap(
    kind: Kind, step_size: float, momentum: float, eigenvalues: ArrayLike, noise_variance: ArrayLike
) -> Floats:
    """Limit of the expected gap under constant noise variance, scalar or of any shape; inf if unstable."""
    spectrum = np.asarray(eigenvalues, float)
    phi1, phi2 = _autoregression(kind, step_size, momentum, spectrum)
    stable = np.all((np.abs(phi2) < 1) & (np.abs(phi1) < 1 - phi2))
    # Var of an AR(2) with unit innovations (Box and Jenkins, eq. 3.2.28), phi1 + phi2 < 1 and phi2 - phi1 < 1.
    unit = (1 - phi2) / ((1 + phi2) * ((1 - phi2) ** 2 - phi1**2)) if stable else np.inf
    return np.asarray(np.sum(spectrum * unit) * step_size**2 / 2 * np.asarray(noise_variance, float))


def matrix_norm_bound(
    steps: Steps, kind: Kind, eigenvalues: ArrayLike, start: ArrayLike, noise_variance: ArrayLike
) -> Floats:
    """(T+1,) bound (L/2) max_i ||M_i^t||^2 ||(x_0, x_0)||^2 + stationary gap: Theorem 3.5, corrected.

    M_i is the companion matrix of eigenvalue i; L the largest eigenvalue. The published first term lacks L/2 (E10), its
    rate is that of Nesterov's method (E2), and its second term is loose. Steps must be constant.

    noise_variance : scalar or (T+1,): that of the run whose error after t steps is bounded.
    """
    if len(_segments(steps)) > 1:
        raise ValueError("the bound holds for constant steps only")
    spectrum = np.asarray(eigenvalues, float)
    step, momentum, count = float(steps.step_size[0]), float(steps.momentum[0]), steps.step_size.size
    largest = np.ones(count + 1)
    for phi1, phi2 in zip(*_autoregression(kind, step, momentum, spectrum), strict=True):
        impulse = np.concatenate(([0.0], recursion([phi1, phi2], np.eye(1, count + 1)[0])))  # h_{-1}, h_0, ...
        now, before, older = impulse[2:], impulse[1:-1], impulse[:-2]  # M^t = [[h_t, phi2 h_{t-1}], [h_{t-1}, ..]]
        frobenius = now**2 + (1 + phi2**2) * before**2 + (phi2 * older) ** 2
        determinant = phi2 * (now * older - before**2)
        squared = (frobenius + np.sqrt(np.maximum(frobenius**2 - 4 * determinant**2, 0))) / 2
        largest[1:] = np.maximum(largest[1:], squared)
    distance = 2 * np.sum(np.broadcast_to(np.asarray(start, float), spectrum.shape) ** 2)
    floor = stationary_gap(kind, step, momentum, spectrum, noise_variance)
    return np.asarray(spectrum.max() / 2 * largest * distance + floor)


def required_scale(
    factors: BoundFactors, target: float, sensitivity: float, dimension: int, schedule: Schedule, noise: Noise
) -> tuple[float, int]:
    """The smallest n eps (Laplace) or n sqrt(rho) (Gaussian) whose bound reaches a target gap, and its number of steps.

    sensitivity : that of the sum of the n gradients: S1 in L1 norm for Laplace, n Delta in L2 norm for Gaussian noise.
    """
    left = target - factors.initial * np.exp(factors.log_contraction)
    assert (left > 0).any(), "too few steps even without noise"
    noise_only = factors._replace(initial=0.0)
    unit = np.where(left > 0, left, 0) / bound_by_iterations(noise_only, 1.0, schedule, noise)
    best = int(np.argmax(unit))
    factor = 1 if noise == "laplace" else 4
    return float(sensitivity * np.sqrt(dimension / (factor * unit[best]))), best + 1
