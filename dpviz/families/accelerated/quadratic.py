"""Exact error curves of noisy momentum methods on quadratics F(x) = sum_i lambda_i x_i^2 / 2, whose minimum is 0 at 0.

In the eigenbasis every coordinate is an autoregression of order two, driven by the noise (THEORY.md, section 5.4):
x_t = phi1 x_{t-1} + phi2 x_{t-2} - step_size w_t, and its mean and variance follow linear recursions that `recursion`
solves without a loop over the iterations: it takes coefficients c_k, a force f_t and `past_terms`, and returns
y_t = sum_k c_k y_{t-k} + f_t for t >= 1, where `past_terms`, added to f_1, f_2, .., are what earlier y contribute. The
noise w_t is independent, with zero mean and a given variance in every coordinate: 2 b_t^2 for Laplace noise of scale
b_t, sigma_t^2 for Gaussian noise. Methods start with x_{-1} = x_0.

Shapes: T iterations, d eigenvalues. Indices: entry t of an array (T+1,) belongs to the iterate x_t, entry t of an array
(T,) to the step from x_t to x_{t+1}.
"""

from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpviz.families.accelerated.theory import Steps
from dpviz.privacy.accounting.closed_forms import recursion

Floats = NDArray[np.float64]
Kind = Literal["gradient_descent", "heavy_ball", "nesterov"]

# Envelope weights below this share of the largest are raised to it: a step without budget would have infinite noise.
# Its cube root, a share of ε, is 1e-60, the smallest one in `theory`, too.
_SMALLEST_ENVELOPE = 1e-180


class Gap(NamedTuple):
    """Expected gap E F(x_t) - F* after t = 0..T steps.

    total : (T+1,) the gap. bias : (T+1,) the part of it that remains without noise.
    """

    total: Floats
    bias: Floats


def _autoregression(
    kind: Kind, step_size: ArrayLike, momentum: ArrayLike, eigenvalues: ArrayLike
) -> tuple[Floats, Floats]:
    """Return the coefficients phi1 and phi2 with which x_t = phi1 x_{t-1} + phi2 x_{t-2} - step_size w_t in a
    coordinate with this eigenvalue; all arguments broadcast."""
    contraction = 1 - np.asarray(step_size, float) * np.asarray(eigenvalues, float)
    beta = np.asarray(momentum, float)
    if kind == "nesterov":
        return (1 + beta) * contraction, -beta * contraction
    zeros = 0 * contraction  # gives the result the shape of all arguments
    if kind == "heavy_ball":
        return contraction + beta, -beta + zeros
    return contraction, zeros


def _coefficients(steps: Steps, kind: Kind, step: int, eigenvalue: float) -> tuple[float, float]:
    """Return the coefficients phi1 and phi2 of `_autoregression` for the step with the index `step` and one
    eigenvalue."""
    phi1, phi2 = _autoregression(kind, steps.step_size[step], steps.momentum[step], eigenvalue)
    return float(phi1), float(phi2)


def _segments(steps: Steps) -> list[slice]:
    """Return the ranges of steps, as long as possible, in which the recursion has constant coefficients: step size and
    momentum are equal, and only the first step may restart."""
    starts_segment = (np.diff(steps.step_size) != 0) | (np.diff(steps.momentum) != 0) | steps.restart[1:]
    edges = [0, *(np.flatnonzero(starts_segment) + 1).tolist(), steps.step_size.size]
    return [slice(start, stop) for start, stop in pairwise(edges)]


# -------------------------------------------------------------------------------------------------------- exact curves


def moments(
    steps: Steps, kind: Kind, eigenvalues: ArrayLike, start: ArrayLike, noise_variance: ArrayLike
) -> tuple[Floats, Floats]:
    """Return mean and variance, (d, T+1) each, of every coordinate of the iterates x_t, t = 0..T.

    eigenvalues : (d,) of the Hessian. start : x_0, (d,) or scalar. noise_variance : of the gradient noise in each
        coordinate, (T,) for each step or one scalar for all.

    Entries that overflow, of an unstable method, are inf or nan. Each segment of steps with constant coefficients is
    solved at once, started from the two latest iterates.
    """
    spectrum = np.asarray(eigenvalues, float)
    count = steps.step_size.size
    mean, variance = np.empty((spectrum.size, count + 1)), np.zeros((spectrum.size, count + 1))
    mean[:, 0] = start
    innovation = steps.step_size**2 * np.asarray(noise_variance, float)  # variance that each step adds
    with np.errstate(over="ignore", invalid="ignore"):
        for means, variances, eigenvalue in zip(mean, variance, spectrum, strict=True):  # rows, filled in place
            covariance = 0.0  # of the two latest iterates
            for segment in _segments(steps):
                # The segment steps from the iterate with the index `current` to those with the indices `new`.
                current, new = segment.start, slice(segment.start + 1, segment.stop + 1)
                phi1, phi2 = _coefficients(steps, kind, current, eigenvalue)
                is_reset = current == 0 or steps.restart[current]  # then the previous iterate is set to the current one
                previous = current if is_reset else current - 1
                if is_reset:
                    covariance = variances[current]
                # The mean follows the recursion without noise, from the two iterates before the segment.
                past_terms = [phi1 * means[current] + phi2 * means[previous], phi2 * means[current]]
                means[new] = recursion([phi1, phi2], force=np.zeros(segment.stop - current), past_terms=past_terms)
                state = (variances[current], covariance, variances[previous])
                variances[new] = _segment_variances(phi1, phi2, innovation[segment], state)
                # Cov(x_{t+1}, x_t) = phi1 Var(x_t) + phi2 Cov(x_t, x_{t-1}), up to the end of the segment.
                covariance = recursion([phi2], force=phi1 * variances[segment], past_terms=[phi2 * covariance])[-1]
    return mean, variance


def _segment_variances(phi1: float, phi2: float, innovation: Floats, state: tuple[float, float, float]) -> Floats:
    """Return (k,) Var x_1 .. Var x_k of x_t = phi1 x_{t-1} + phi2 x_{t-2} + noise of the variances `innovation` (k,).

    state : Var x_0, Cov(x_0, x_{-1}), Var x_{-1}, from which the recursion starts.

    Var x_t = phi1^2 Var x_{t-1} + 2 phi1 phi2 Cov(x_{t-1}, x_{t-2}) + phi2^2 Var x_{t-2} + innovation_t, and
    Cov(x_{t-1}, x_{t-2}) = phi1 Var x_{t-2} + phi2 Cov(x_{t-2}, x_{t-3}). Eliminating the covariance leaves a recursion
    for the variance alone, which is solved at once: with s = phi1^2 + phi2, Var x_t = s Var x_{t-1} + phi2 s
    Var x_{t-2} - phi2^3 Var x_{t-3} + innovation_t - phi2 innovation_{t-1}.
    """
    current, covariance, previous = state
    # The first three variances that follow from the state alone, without innovations.
    first = phi1**2 * current + 2 * phi1 * phi2 * covariance + phi2**2 * previous
    covariance = phi1 * current + phi2 * covariance  # of x_1 and x_0
    second = phi1**2 * first + 2 * phi1 * phi2 * covariance + phi2**2 * current
    covariance = phi1 * first + phi2 * covariance  # of x_2 and x_1
    third = phi1**2 * second + 2 * phi1 * phi2 * covariance + phi2**2 * first
    # `past_terms` is what must be added to the first three terms so that they continue from the state.
    square = phi1**2 + phi2
    past_terms = [first, second - square * first, third - square * second - phi2 * square * first]
    force = innovation - phi2 * np.append(0.0, innovation[:-1])
    return recursion([square, phi2 * square, -(phi2**3)], force, past_terms)


def _gap(eigenvalues: ArrayLike, mean: Floats, variance: Floats) -> Gap:
    """Return the expected gap, sum_i lambda_i (mean_i^2 + variance_i) / 2, from mean and variance (d, T+1) of the d
    coordinates of each iterate; values that overflowed count as inf."""
    spectrum = np.asarray(eigenvalues, float)
    with np.errstate(over="ignore", invalid="ignore"):
        bias, noise = (np.nan_to_num(spectrum @ part / 2, nan=np.inf, posinf=np.inf) for part in (mean**2, variance))
    return Gap(bias + noise, bias)


def expected_gap(steps: Steps, kind: Kind, eigenvalues: ArrayLike, start: ArrayLike, noise_variance: ArrayLike) -> Gap:
    """Return the exact E F(x_t) - F* after t = 0..T steps of one run; arguments as for `moments`."""
    return _gap(eigenvalues, *moments(steps, kind, eigenvalues, start, noise_variance))


def expected_gap_by_iterations(steps: Steps, kind: Kind, eigenvalues: ArrayLike, start: ArrayLike, unit: float) -> Gap:
    """Return (T+1,) the exact expected gap at the end of a run of T' steps that share the whole budget equally, for
    every T' = 0..T, with Laplace noise.

    unit : noise variance per coordinate of a step that gets the whole budget, 2 (S1/(n eps))^2 with the L1 sensitivity
        S1/n. With T' steps it is T'^2 times as large, a common factor of all variances, so one recursion serves every
        T'.
    """
    mean, variance = moments(steps, kind, eigenvalues, start, noise_variance=1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        return _gap(eigenvalues, mean, unit * np.arange(steps.step_size.size + 1) ** 2 * variance)


# ------------------------------------------------------------------------------------------------ weights of the noise


def adjoint_weights(steps: Steps, kind: Kind, eigenvalues: ArrayLike) -> Floats:
    """Return (T,) the coefficients A_t with which the noise variances v_t of the steps enter the expected gap after T
    steps: gap = bias + sum_t A_t v_t.

    A_t = step_size_t^2 / 2 sum_i lambda_i h_i(t)^2, where h_i(t) is the derivative of x_T with respect to the iterate
    that step t computes, in coordinate i. The derivatives are followed backwards from the last step, where h = 1.
    """
    spectrum = np.asarray(eigenvalues, float)
    weights = np.zeros(steps.step_size.size)
    for eigenvalue in spectrum:
        # Derivatives of x_T with respect to the last two iterates of a segment, the latest first, each with the other
        # held fixed: what the steps after the segment make of them.
        response = np.array([1.0, 0.0])
        for segment in reversed(_segments(steps)):
            start = segment.start
            phi1, phi2 = _coefficients(steps, kind, start, eigenvalue)
            # Backwards the derivatives h follow the autoregression of the iterates; h[0] belongs to the last step.
            h = recursion([phi1, phi2], force=np.zeros(segment.stop - start), past_terms=response.tolist())
            weights[segment] += eigenvalue / 2 * h[::-1] ** 2
            # The iterate before the segment enters its first step by phi1, and its second step by phi2; after a segment
            # of a single step, the second one is the first of the next segment, and `response` has its influence.
            by_second_step = phi2 * h[-2] if len(h) > 1 else response[1]
            response = np.array([phi1 * h[-1] + by_second_step, phi2 * h[-1]])
            if steps.restart[start]:  # then both of the latest two iterates are the current one
                response = np.array([response.sum(), 0.0])
    return np.asarray(weights * steps.step_size**2)


def envelope_weights(steps: Steps, kind: Kind, strong_convexity: float, smoothness: float) -> Floats:
    """Return (T,) weights of the steps for a budget split that suits every quadratic with Hessian between mu and L.

    They are the running maximum over the steps of `adjoint_weights`, the influence of each step's noise variance on the
    last gap, averaged over 64 log-uniform eigenvalues in [mu, L]. Their cube root (Laplace noise) or square root
    (Gaussian noise) gives the shares of the T steps. The influence on a single quadratic may vanish at some step, whose
    noise would then be huge; the running maximum cannot. The weights depend on T: compute them for the T that is run.
    """
    spectrum = np.geomspace(strong_convexity, smoothness, 64)
    weights = np.maximum.accumulate(adjoint_weights(steps, kind, spectrum) / spectrum.size)
    return np.asarray(np.maximum(weights, _SMALLEST_ENVELOPE * weights[-1]))  # they ascend: the last is the largest


# ----------------------------------------------------------------------------------------- stationary values and rates


def rate(kind: Kind, step_size: ArrayLike, momentum: ArrayLike, strong_convexity: float, smoothness: float) -> Floats:
    """Return the rate at which the method contracts on quadratics with eigenvalues in [mu, L]: without noise distances
    from the minimum shrink like rate^t. A rate of at least 1 means that the method is unstable.

    It is the largest modulus of the roots of z^2 = phi1 z + phi2, the autoregression's characteristic equation, over
    the eigenvalues. The modulus is quasi-convex in the eigenvalue, so mu and L suffice. step_size and momentum
    broadcast.
    """
    largest_modulus = np.zeros(np.broadcast_shapes(np.shape(step_size), np.shape(momentum)))
    for eigenvalue in (strong_convexity, smoothness):
        phi1, phi2 = _autoregression(kind, step_size, momentum, eigenvalue)
        difference = np.sqrt((phi1**2 + 4 * phi2).astype(complex))  # the difference of both roots, real or imaginary
        modulus = np.maximum(np.abs(phi1 + difference), np.abs(phi1 - difference)) / 2
        largest_modulus = np.maximum(largest_modulus, modulus)
    return largest_modulus


# --------------------------------------------------------------------------------- the published bounds for quadratics


def published_log_bound(
    iterations: int, step_size: float, momentum: float, noise_per_step: float, strong_convexity: float = 0.1
) -> Floats:
    """Return (T,) the curve of the paper's figure 1, for comparison only: it is not a bound (errata E2, E10).

    It is ln(V T^2 rho^(2T) + L m) for T = 1..iterations on the quadratic with the Hessian diag(mu, 1), so L = 1, with
    the noise variance s^2 = (T noise_per_step)^2 per coordinate, where noise_per_step is the standard deviation of a
    step that gets the whole budget, and T steps share it equally. V = 10 + s^2 step_size^2 / (1 - rho^2), where 10 is
    the squared norm of (x_0, x_{-1}); m is the stationary variance of both coordinates of heavy ball together. rho is
    the rate of Nesterov's method, although the figure is about heavy ball, and mu = 0.1, where the text says 0.5.
    """
    T = np.arange(1, iterations + 1)
    variance = (T * noise_per_step) ** 2  # s^2
    rho = rate("nesterov", step_size, momentum=momentum, strong_convexity=strong_convexity, smoothness=1.0)
    V = 10 + variance * step_size**2 / (1 - rho**2)
    eigenvalues = np.array([strong_convexity, 1.0])
    # Stationary variance of heavy ball in each coordinate, for noise of variance 1.
    floor = step_size * (1 + momentum) / ((1 - momentum) * eigenvalues * (2 + 2 * momentum - step_size * eigenvalues))
    return np.asarray(np.log(V * T**2 * rho ** (2 * T) + variance * floor.sum()))  # m = variance * floor.sum()
