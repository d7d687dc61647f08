"""Exact error curves of noisy momentum methods on quadratics F(x) = sum_i lambda_i x_i^2 / 2, whose minimum is 0 at 0.

In the eigenbasis every coordinate is an autoregression of order two, driven by the noise (THEORY.md, section 5.4):
x_t = phi1 x_{t-1} + phi2 x_{t-2} - step_size w_t, and its mean and variance follow linear recursions that are solved
without a loop over the iterations. The noise w_t is independent, with zero mean and a given variance in every
coordinate: 2 b_t^2 for Laplace noise of scale b_t, sigma_t^2 for Gaussian noise. Methods start with x_{-1} = x_0.

Shapes: T iterations, d eigenvalues.
"""

from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpviz.families.accelerated.theory import Noise, Steps
from dpviz.privacy.accounting.closed_forms import recursion

Floats = NDArray[np.float64]
Kind = Literal["gradient_descent", "heavy_ball", "nesterov"]

# Envelope weights below this share of the largest are raised to it: every step needs some budget (see theory.py).
_SMALLEST_ENVELOPE = 1e-180


class Gap(NamedTuple):
    """Expected F(x_t) - F*, (T+1,), and `bias`, the part of it that remains without noise."""

    total: Floats
    bias: Floats


def _autoregression(
    kind: Kind, step_size: ArrayLike, momentum: ArrayLike, eigenvalues: ArrayLike
) -> tuple[Floats, Floats]:
    """Return phi1 and phi2 of the module's recursion, broadcast over the arguments."""
    contraction = 1 - np.asarray(step_size, float) * np.asarray(eigenvalues, float)
    beta = np.asarray(momentum, float)
    if kind == "nesterov":
        return (1 + beta) * contraction, -beta * contraction
    if kind == "heavy_ball":
        return contraction + beta, -beta + 0 * contraction
    return contraction, 0 * contraction


def _coefficients(steps: Steps, kind: Kind, step: int, eigenvalue: float) -> tuple[float, float]:
    """Return phi1 and phi2 at the index `step` for one eigenvalue."""
    phi1, phi2 = _autoregression(kind, steps.step_size[step], steps.momentum[step], eigenvalue)
    return float(phi1), float(phi2)


def _segments(steps: Steps) -> list[slice]:
    """Return the longest ranges of steps with equal step size and momentum and no restart except at their start."""
    changed = (np.diff(steps.step_size) != 0) | (np.diff(steps.momentum) != 0) | steps.restart[1:]
    edges = [0, *(np.flatnonzero(changed) + 1).tolist(), steps.step_size.size]
    return [slice(start, stop) for start, stop in pairwise(edges)]


# -------------------------------------------------------------------------------------------------------- exact curves


def moments(
    steps: Steps, kind: Kind, eigenvalues: ArrayLike, start: ArrayLike, noise_variance: ArrayLike
) -> tuple[Floats, Floats]:
    """Return mean and variance of every coordinate of x_t, t = 0..T.

    eigenvalues (d,); start (d,) or scalar: x_0; noise_variance (T,) or scalar, per coordinate.
    Returns (d, T+1) arrays; entries that overflow, of an unstable method, are inf or nan.
    """
    spectrum = np.asarray(eigenvalues, float)
    count = steps.step_size.size
    mean, variance = np.empty((spectrum.size, count + 1)), np.zeros((spectrum.size, count + 1))
    mean[:, 0] = start
    force = steps.step_size**2 * np.asarray(noise_variance, float)
    with np.errstate(over="ignore", invalid="ignore"):
        for x, var, eigenvalue in zip(mean, variance, spectrum, strict=True):
            covariance = 0.0  # of the two latest iterates
            for part in _segments(steps):
                first, new = part.start, slice(part.start + 1, part.stop + 1)
                phi1, phi2 = _coefficients(steps, kind, first, eigenvalue)
                previous = first if first == 0 or steps.restart[first] else first - 1
                if previous == first:
                    covariance = var[first]
                memory = [phi1 * x[first] + phi2 * x[previous], phi2 * x[first]]
                x[new] = recursion([phi1, phi2], np.zeros(part.stop - first), memory)
                var[new] = _variance_filter(phi1, phi2, force[part], (var[first], covariance, var[previous]))
                covariance = recursion([phi2], phi1 * var[part], [phi2 * covariance])[-1]
    return mean, variance


def _variance_filter(phi1: float, phi2: float, force: Floats, state: tuple[float, float, float]) -> Floats:
    """Return (k,) Var x_1 .. Var x_k of the autoregression with innovation variances `force` (k,).

    state : Var x_0, Cov(x_0, x_{-1}), Var x_{-1}. Eliminating the covariance from the three linear recursions leaves
    one of order three; its memory is set so that it continues from the state.
    """
    square = phi1**2 + phi2
    current, covariance, previous = state
    first = phi1**2 * current + 2 * phi1 * phi2 * covariance + phi2**2 * previous
    covariance = phi1 * current + phi2 * covariance
    second = phi1**2 * first + 2 * phi1 * phi2 * covariance + phi2**2 * current
    covariance = phi1 * first + phi2 * covariance
    third = phi1**2 * second + 2 * phi1 * phi2 * covariance + phi2**2 * first
    memory = [first, second - square * first, third - square * second - phi2 * square * first]
    return recursion([square, phi2 * square, -(phi2**3)], force - phi2 * np.append(0.0, force[:-1]), memory)


def _gap(eigenvalues: ArrayLike, mean: Floats, variance: Floats) -> Gap:
    """Return the expected gap from mean and variance (d, T+1) of the coordinates; overflow counts as inf."""
    spectrum = np.asarray(eigenvalues, float)
    with np.errstate(over="ignore", invalid="ignore"):
        bias, noise = (np.nan_to_num(spectrum @ part / 2, nan=np.inf, posinf=np.inf) for part in (mean**2, variance))
    return Gap(bias + noise, bias)


def expected_gap(steps: Steps, kind: Kind, eigenvalues: ArrayLike, start: ArrayLike, noise_variance: ArrayLike) -> Gap:
    """Return the exact E F(x_t) - F*, t = 0..T, for one run; arguments as for `moments`."""
    return _gap(eigenvalues, *moments(steps, kind, eigenvalues, start, noise_variance))


def expected_gap_by_iterations(
    steps: Steps,
    kind: Kind,
    eigenvalues: ArrayLike,
    start: ArrayLike,
    unit: float,
    noise: Noise,
    weights: ArrayLike = 1.0,
) -> Gap:
    """Return (T+1,) the exact gap at the end of a run of T' steps that spends the whole budget, for every T' = 0..T.

    unit : noise variance per coordinate of a step that gets the whole budget: 2 (S1/(n eps))^2 for Laplace noise,
    Delta^2 / (2 rho) for Gaussian noise. weights (T,) or scalar: relative budget shares of a nested schedule
    (`theory.optimal_weights`); equal by default. The first entry is the gap at the start.
    """
    shares = np.broadcast_to(np.asarray(weights, float), steps.step_size.shape)
    power = 2 if noise == "laplace" else 1
    mean, variance = moments(steps, kind, eigenvalues, start, shares**-power)
    total = np.concatenate(([0.0], np.cumsum(shares)))
    with np.errstate(over="ignore", invalid="ignore"):
        return _gap(eigenvalues, mean, unit * total**power * variance)


# ------------------------------------------------------------------------------------------------ weights of the noise


def adjoint_weights(steps: Steps, kind: Kind, eigenvalues: ArrayLike) -> Floats:
    """Return (T,) coefficients A_t of the noise variances in the gap after T steps: gap = bias + sum_t A_t var_t."""
    spectrum = np.asarray(eigenvalues, float)
    result = np.zeros(steps.step_size.size)
    for eigenvalue in spectrum:
        # The response of x_T to (x_t, x_{t-1}), followed backwards; between changes it is an autoregression, too.
        response = np.array([1.0, 0.0])
        for part in reversed(_segments(steps)):
            first = part.start
            phi1, phi2 = _coefficients(steps, kind, first, eigenvalue)
            values = recursion([phi1, phi2], np.zeros(part.stop - first), response.tolist())
            second = phi2 * values[-2] if len(values) > 1 else response[1]
            response = np.array([phi1 * values[-1] + second, phi2 * values[-1]])
            result[part] += eigenvalue / 2 * values[::-1] ** 2
            if steps.restart[first]:
                response = np.array([response.sum(), 0.0])
    return np.asarray(result * steps.step_size**2)


def envelope_weights(steps: Steps, kind: Kind, strong_convexity: float, smoothness: float) -> Floats:
    """Return (T,) the running maximum of `adjoint_weights`, averaged over 64 log-uniform eigenvalues in [mu, L].

    For a budget split that suits every quadratic with these constants.

    Its cube root (Laplace) or square root (Gaussian) gives the shares of the T steps; with batches, its logarithm goes
    to `theory.sampled_split`. The weights of one spectrum may vanish at some step, whose noise would then be huge; the
    running maximum over a spread spectrum cannot. Not nested: compute it for the T that is run.
    """
    spectrum = np.geomspace(strong_convexity, smoothness, 64)
    weights = np.maximum.accumulate(adjoint_weights(steps, kind, spectrum) / spectrum.size)
    return np.asarray(np.maximum(weights, _SMALLEST_ENVELOPE * weights[-1]))


# ----------------------------------------------------------------------------------------- stationary values and rates


def rate(kind: Kind, step_size: ArrayLike, momentum: ArrayLike, strong_convexity: float, smoothness: float) -> Floats:
    """Return the spectral radius, the largest over eigenvalues in [mu, L]: without noise distances shrink like rate^t.

    step_size and momentum broadcast; at least 1 means unstable. It is quasi-convex in the eigenvalue, so both ends
    suffice.
    """
    worst = np.zeros(np.broadcast_shapes(np.shape(step_size), np.shape(momentum)))
    for eigenvalue in (strong_convexity, smoothness):
        phi1, phi2 = _autoregression(kind, step_size, momentum, eigenvalue)
        root = np.sqrt((phi1**2 + 4 * phi2).astype(complex))
        worst = np.maximum(worst, np.maximum(np.abs(phi1 + root), np.abs(phi1 - root)) / 2)
    return worst


# --------------------------------------------------------------------------------- the published bounds for quadratics


def published_log_bound(
    iterations: int, step_size: float, momentum: float, noise_per_step: float, strong_convexity: float = 0.1
) -> Floats:
    """Return (T,) the curve of the paper's figure 1, for comparison only: it is not a bound (errata E2, E10).

    ln(V T^2 rho^(2T) + L m) for T = 1..iterations with Q = diag(mu, 1), noise variance (T noise_per_step)^2 and the
    rate rho of Nesterov's method, although the figure is about heavy ball; mu = 0.1, where the text says 0.5.
    """
    count = np.arange(1, iterations + 1)
    variance = (count * noise_per_step) ** 2
    contraction = rate("nesterov", step_size, momentum, strong_convexity, 1.0)
    scale = 10 + variance * step_size**2 / (1 - contraction**2)
    eigenvalues = np.array([strong_convexity, 1.0])
    floor = step_size * (1 + momentum) / ((1 - momentum) * eigenvalues * (2 + 2 * momentum - step_size * eigenvalues))
    return np.asarray(np.log(scale * count**2 * contraction ** (2 * count) + variance * floor.sum()))
