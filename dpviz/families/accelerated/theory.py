"""Plan-time mathematics of the accelerated methods: stages, error bounds, budget splits, the number of iterations.

Everything here is a function of public numbers: T = iterations, mu = strong convexity, L = smoothness of the objective,
its initial error, and what one release costs. Source: Kuru, Birbil, Gürbüzbalaban, Yıldırım, "Differentially private
accelerated optimization algorithms" (2022), with the corrections E2-E19 of THEORY.md. All bounds are
for objectives that are mu-strongly convex and L-smooth, and for independent zero-mean noise.

Noise enters through its *half variance*, E||w_t||^2 / 2 of the whole gradient noise w_t of step t: d b_t^2 for Laplace
noise of scale b_t in d dimensions, d sigma_t^2 / 2 for Gaussian noise; batch sampling adds half its own variance.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field
from scipy.optimize import brentq

from dpviz.errors import UserError
from dpviz.numbers import short, short_down, short_up

Floats = NDArray[np.float64]
Noise = Literal["laplace", "gaussian"]
Schedule = Literal["uniform", "optimal"]

# The noise variance of a step falls with this power of its share of the budget: 1/eps_t^2, or 1/rho_t.
_POWER: dict[Noise, int] = {"laplace": 2, "gaussian": 1}
# No step gets less than e^-138 = 1e-60 of the largest share, so that its noise stays a finite number.
_SMALLEST_LOG_SHARE = -138.0
# A contraction of exactly zero has no logarithm. A larger one keeps the bound an upper bound.
_SMALLEST_CONTRACTION = 1e-12
# A noise schedule drawn by hand: six numbers give its shape, the budget its size.
LIMIT = 1.6  # powers of ten, up and down
EVEN = (0.0,) * 6
Knots = tuple[Annotated[float, Field(ge=-LIMIT, le=LIMIT)], ...]
SHAPES: dict[str, tuple[float, ...]] = {
    "Even": EVEN,
    "Falling": (0.75, 0.45, 0.15, -0.15, -0.45, -0.75),
    "Rising": (-0.75, -0.45, -0.15, 0.15, 0.45, 0.75),
    "Steps": (0.8, 0.8, 0.0, 0.0, -0.8, -0.8),
}


class Steps(NamedTuple):
    """Noise-free method, step by step.

    step_size, momentum (T,) floats; stage (T,) ints from 1; restart (T,) bool: before this step, the previous iterate
    is replaced by the current one, which resets the momentum.
    """

    step_size: Floats
    momentum: Floats
    stage: NDArray[np.int64]
    restart: NDArray[np.bool_]


class Recursion(NamedTuple):
    """Error bound for every number of iterations T at once, factorised in logarithms.

    E F(x_T) - F* <= initial exp(log_contraction[T-1]) + sum_{t<T} exp(log_contraction[T-1] + log_weight[t])
    half_variance[t]. The weights do not depend on T, hence optimal schedules are nested.

    initial : error measure at the starting point (that of the objective). log_contraction, log_weight : (T,).
    """

    initial: float
    log_contraction: Floats
    log_weight: Floats

    def first(self, iterations: int) -> "Recursion":
        """Return the same bound for the first `iterations` steps only."""
        return Recursion(self.initial, self.log_contraction[:iterations], self.log_weight[:iterations])


# -------------------------------------------------------------------------------------------------- noise-free methods


def nesterov_momentum(step_size: ArrayLike, strong_convexity: float) -> Floats:
    """Return (1-q)/(1+q), q = sqrt(mu step_size), the momentum with which Nesterov's method contracts by 1-q, its best
    rate."""
    root = np.sqrt(strong_convexity * np.asarray(step_size, float))
    return np.asarray((1 - root) / (1 + root))


def heavy_ball_momentum(step_size: ArrayLike, strong_convexity: float) -> Floats:
    """Return (1-q)^2, q = sqrt(mu step_size), the momentum with which heavy ball contracts by 1-q on quadratics, its
    best rate for step_size <= 1/L."""
    return np.asarray((1 - np.sqrt(strong_convexity * np.asarray(step_size, float))) ** 2)


def polyak_pair(strong_convexity: float, smoothness: float) -> tuple[float, float]:
    """Return (step_size, momentum) with the best rate of heavy ball on quadratics (Polyak 1964)."""
    low, high = np.sqrt(strong_convexity), np.sqrt(smoothness)
    return float(4 / (low + high) ** 2), float(((high - low) / (high + low)) ** 2)


def gradient_descent(iterations: int, step_size: float) -> Steps:
    """Return the steps of x_t = x_{t-1} - step_size g(x_{t-1})."""
    return heavy_ball(iterations, step_size, 0.0)


def heavy_ball(iterations: int, step_size: float, momentum: float) -> Steps:
    """Return the steps of x_t = x_{t-1} - step_size g(x_{t-1}) + momentum (x_{t-1} - x_{t-2}) (Polyak 1964)."""
    return Steps(
        np.full(iterations, float(step_size)),
        np.full(iterations, float(momentum)),
        np.ones(iterations, np.int64),
        np.zeros(iterations, bool),
    )


def nesterov(iterations: int, step_size: float, strong_convexity: float) -> Steps:
    """Return the steps of x_t = w_t - step_size g(w_t), w_t = x_{t-1} + momentum (x_{t-1} - x_{t-2}), with the optimal
    momentum (Nesterov 2004)."""
    return heavy_ball(iterations, step_size, float(nesterov_momentum(step_size, strong_convexity)))


def multistage(
    iterations: int,
    relative_step: float,
    strong_convexity: float,
    smoothness: float,
    lengths: Literal["corrected", "paper"] | Sequence[int] = "corrected",
) -> Steps:
    """Return Nesterov's method in stages of shrinking steps with a restart at each (Aybat et al. 2019; Kuru et al.,
    section 4.2).

    Step c/L in stage 1, c 4^-k / L in stage k >= 2, with c = relative_step. Stage 1 lasts 2 sqrt(K) ln sqrt(K) steps,
    stage k lasts 2^k sqrt(K) ln 8, rounded up. lengths: "corrected" takes K = L / (mu c), long enough also for
    c < 1, where one step contracts by 1 - 1/sqrt(K); "paper" takes K = L / mu; or the lengths themselves, at least
    `iterations` in total.
    """
    if isinstance(lengths, str):
        condition = smoothness / strong_convexity / (relative_step if lengths == "corrected" else 1.0)
        lengths = _stage_lengths(iterations, condition)
    if sum(lengths) < iterations:
        raise ValueError(f"the stages have {sum(lengths)} steps, {iterations} are needed")
    stage = np.repeat(np.arange(1, len(lengths) + 1), lengths)[:iterations]
    step_size = relative_step / smoothness * np.where(stage == 1, 1.0, 4.0**-stage)
    restart = np.diff(stage, prepend=1) != 0
    return Steps(step_size, nesterov_momentum(step_size, strong_convexity), stage, restart)


def _stage_lengths(iterations: int, condition: float) -> list[int]:
    """Return lengths of stages, at least `iterations` steps together, for the condition number K of `multistage`."""
    root = np.sqrt(condition)
    lengths = [max(1, int(np.ceil(2 * root * np.log(root))))]
    while sum(lengths) < iterations:
        lengths.append(2 ** (len(lengths) + 1) * int(np.ceil(root * np.log(8))))
    return lengths


# -------------------------------------------------------------------------------------------------------- error bounds


def nesterov_recursion(steps: Steps, strong_convexity: float, smoothness: float, lyapunov: float) -> Recursion:
    """Return the error bound of `nesterov` and `multistage`.

    With V_t = F(x_t) - F* + (mu/2) ||v_t - x*||^2 each step gives V_t <= (1-q) V_{t-1} + step (1 + step L) E||w_t||^2/2
    (section 5.1; Theorem 4.1 holds for V_t, not for F(x_t) - F*); a restart costs a factor 2.

    lyapunov : V_0 at the starting point; ln 2 for a logistic objective with ridge term, started at zero.
    Errors: UserError for a step size above 1/L or impossible constants.
    """
    _check(steps, strong_convexity, smoothness, largest=1.0)
    step = steps.step_size
    contraction = np.maximum(1 - np.sqrt(strong_convexity * step), _SMALLEST_CONTRACTION)
    log_contraction = np.cumsum(np.log(contraction)) + (steps.stage - 1) * np.log(2)
    return Recursion(lyapunov, log_contraction, np.log(step * (1 + step * smoothness)) - log_contraction)


def gradient_descent_recursion(steps: Steps, strong_convexity: float, smoothness: float, gap: float) -> Recursion:
    """Return the error bound of `gradient_descent`: E_t <= (1 - 2 mu step (1 - step L / 2)) E_{t-1} + L step^2
    E||w_t||^2 / 2.

    gap : F(x_0) - F*, or an upper bound (ln 2 as for `nesterov_recursion`).
    Errors: UserError for a step size of 2/L or more, or impossible constants.
    """
    _check(steps, strong_convexity, smoothness, largest=2.0)
    step = steps.step_size
    contraction = np.maximum(1 - 2 * strong_convexity * step * (1 - step * smoothness / 2), _SMALLEST_CONTRACTION)
    log_contraction = np.cumsum(np.log(contraction))
    return Recursion(gap, log_contraction, np.log(smoothness * step**2) - log_contraction)


def _check(steps: Steps, strong_convexity: float, smoothness: float, largest: float) -> None:
    """Raise UserError unless 0 < mu <= L and all step sizes are at most `largest`/L."""
    if not 0 < strong_convexity <= smoothness:
        raise UserError(
            f"Strong convexity must lie between 0 and the smoothness {short(smoothness, 4)}, but it is "
            f"{short(strong_convexity, 4)}. Increase the regularisation.",
            title="No error bound",
        )
    if steps.step_size.max() * smoothness > largest * (1 + 1e-12):
        raise UserError(
            f"The error bound holds for step sizes up to {short(largest, 6)}/L = {short_down(largest / smoothness)} "
            f"only, but the largest step is {short_up(steps.step_size.max(), 4)}. Choose a smaller step.",
            title="No error bound",
        )


def bound(recursion: Recursion, half_variance: ArrayLike) -> Floats:
    """Return (T+1,) an upper bound on E F(x_t) - F*, t = 0..T, for noise of the half variance given, scalar or (T,)."""
    _, log_contraction, log_weight = recursion
    with np.errstate(divide="ignore"):  # no noise: log 0 = -inf is correct
        log_noise = log_weight + np.log(np.broadcast_to(np.asarray(half_variance, float), log_weight.shape))
    noise = np.exp(log_contraction + np.logaddexp.accumulate(log_noise))
    return np.concatenate(([recursion.initial], recursion.initial * np.exp(log_contraction) + noise))


def sampling_variance(gradient_bound: float, m: int, n: int) -> float:
    """Return an upper bound on E||.||^2 of the error of a batch mean: m of n rows without replacement, each gradient of
    L2 norm at most `gradient_bound`."""
    return 0.0 if m >= n else gradient_bound**2 * (n - m) / (m * (n - 1))


# ------------------------------------------------------------------------------------------------------- budget splits


def optimal_weights(recursion: Recursion, noise: Noise) -> Floats:
    """Return (T,) the shares of the budget, up to a common factor, that minimise the bound after T steps (Proposition
    4.2).

    They are g^(1/3) for eps_t of Laplace noise, g^(1/2) for rho_t of Gaussian noise, where g = exp(log_weight). The
    largest is 1. Shares for fewer steps T' are those of `recursion.first(T')`; cut out of a longer schedule they can be
    lost in the rounding, because early weights are tiny.
    """
    return np.asarray(np.exp(_log_shares(recursion.log_weight) / (_POWER[noise] + 1)))


def _log_shares(log_weight: Floats) -> Floats:
    """Return the log weights less their largest, raised to a lower limit so that every step gets a usable share."""
    return np.asarray(np.maximum(log_weight - log_weight.max(), 3 * _SMALLEST_LOG_SHARE))


def log_scales(knots: Knots, iterations: int) -> np.ndarray:
    """Return (T,) log10 of the noise scale of each step, up to a common summand: straight between the knots."""
    steps = np.arange(iterations)
    return np.asarray(np.interp(steps, np.linspace(0, max(iterations - 1, 1), len(knots)), knots))


def own_shares(knots: Knots, iterations: int, noise: Noise) -> np.ndarray:
    """Return (T,) the share of the budget of each step in a schedule drawn by hand, up to a common factor: of ε, in
    proportion to 1/b, for Laplace noise; of ρ, in proportion to 1/σ², for Gaussian noise."""
    logs = log_scales(knots, iterations)
    return np.asarray(10.0 ** ((2 if noise == "gaussian" else 1) * (logs.min() - logs)))


def even_level(knots: Knots, noise: np.ndarray, power: int) -> float:
    """log10 of the noise scale that all steps would have, at a budget at which they have these (T,) by these knots.

    A step of log scale s has the noise 10^(level + s) (mean of 10^(-power s))^(1/power): the steps share ε, which goes
    with 1/b (power 1: Laplace noise, pure ε, all rows), or ρ, with 1/σ² (power 2: Gaussian noise, all rows). Elsewhere
    the cost of a step is no power of its noise, and the level is about that.
    """
    logs = log_scales(knots, len(noise))
    return float(np.mean(np.log10(noise) - logs) - np.log10(np.mean(10.0 ** (-power * logs))) / power)


def sampled_split(log_weight: Floats, epsilon: float, ratio: float) -> Floats:
    """Return (T,) eps_t that minimise sum_t g_t / u(eps_t)^2 with sum_t eps_t = epsilon: Laplace noise on batches.

    u(e) = ln(1 + ratio (exp(e) - 1)) is the budget of the noise on the batch, of which amplification leaves e;
    ratio = n/m >= 1, log_weight = ln g. The problem is convex; its optimality condition
    2 g_t (1 + (ratio-1) exp(-u_t)) / u_t^3 = multiplier is solved for u_t by Newton's method, then for the multiplier.
    """
    logs = _log_shares(np.asarray(log_weight, float))
    whole, equal = (np.log1p(np.expm1(e) * ratio) for e in (epsilon, epsilon / logs.size))
    # The largest weight gets at least the equal share and at most everything: that brackets the multiplier.
    low, high = (float(_log_marginal(u, ratio)) for u in (whole, equal))

    def shares(log_multiplier: float) -> Floats:
        return np.log1p(np.expm1(_solve_marginal(log_multiplier - logs, ratio)) / ratio)

    split = shares(brentq(lambda x: np.log(shares(x).sum() / epsilon), low - 1e-9, high + 1e-9, xtol=1e-13))
    return np.asarray(split * (epsilon / split.sum()))


def _log_marginal(u: ArrayLike, ratio: float) -> Floats:
    """Return ln of (1 + (ratio-1) exp(-u)) / u^3, the marginal gain of more budget up to a factor; decreasing in u."""
    return np.asarray(np.log1p((ratio - 1) * np.exp(-np.asarray(u))) - 3 * np.log(u))


def _solve_marginal(value: Floats, ratio: float) -> Floats:
    """Return (T,) the u at which `_log_marginal` has these values, by Newton's method in ln u."""
    low, high = -value / 3, (np.log(ratio) - value) / 3
    log_u = low
    for _ in range(60):
        u = np.exp(log_u)
        decaying = (ratio - 1) * np.exp(-u)
        change = (np.log1p(decaying) - 3 * log_u - value) / (3 + u * decaying / (1 + decaying))
        log_u = np.clip(log_u + change, low, high)
        if np.abs(change).max() < 1e-13:
            break
    return np.exp(log_u)


# ------------------------------------------------------------------------------------------------ number of iterations


def bound_by_iterations(recursion: Recursion, unit: float, schedule: Schedule, noise: Noise) -> Floats:
    """Return (T,) the bound after T' steps that spend the whole budget, for every T' = 1..T; no batches.

    unit : half variance of a single step that gets the whole budget: d (S1/(n eps))^2 for Laplace noise with
    sensitivity S1/n, d Delta^2 / (4 rho) for Gaussian noise with L2 sensitivity Delta.
    """
    return recursion.initial * np.exp(recursion.log_contraction) + unit * _noise_factor(recursion, schedule, noise)


def _noise_factor(recursion: Recursion, schedule: Schedule, noise: Noise) -> Floats:
    """Return (T,) the noise part of `bound_by_iterations` for unit = 1."""
    _, log_contraction, log_weight = recursion
    power = _POWER[noise]
    if schedule == "uniform":
        log_sum = np.logaddexp.accumulate(log_weight) + power * np.log(np.arange(1, log_weight.size + 1))
    else:
        log_sum = (power + 1) * np.logaddexp.accumulate(log_weight / (power + 1))
    return np.asarray(np.exp(log_contraction + log_sum))


def best_iterations(bounds: ArrayLike) -> int:
    """Return the number of steps, from 1, with the smallest bound; ties go to fewer steps."""
    return int(np.argmin(np.asarray(bounds))) + 1


def sampled_bound(
    recursion: Recursion, epsilon: float, ratio: float, unit: float, batch_variance: float, schedule: Schedule
) -> float:
    """Return the bound after all T steps with Laplace noise on batches, epsilon spent in total.

    ratio = n/m; unit = d (S1/m)^2: half variance of the noise if the budget of the noise on the batch is 1;
    batch_variance : `sampling_variance`.
    """
    _, log_contraction, log_weight = recursion
    size = log_weight.size
    split = np.full(size, epsilon / size) if schedule == "uniform" else sampled_split(log_weight, epsilon, ratio)
    half_variance = unit / np.log1p(np.expm1(split) * ratio) ** 2 + batch_variance / 2
    noise = np.exp(log_contraction[-1] + log_weight) @ half_variance
    return float(recursion.initial * np.exp(log_contraction[-1]) + noise)


def bounds_by_search(recursion: Recursion, bound_at: Callable[[int], float]) -> tuple[NDArray[np.int64], Floats]:
    """Return numbers of steps (k,), ascending, and their bounds (k,), for bounds that are costly to evaluate.

    Tries 25 log-spaced numbers up to the recursion's T and every end of a stage, then bisects between the neighbours of
    the best one, so that the smallest of the returned bounds is the minimum if there is only one between them.
    bound_at(T') may return inf.
    """
    bounds: dict[int, float] = {}

    def value(iterations: int) -> float:
        if iterations not in bounds:
            bounds[iterations] = bound_at(iterations)
        return bounds[iterations]

    limit = recursion.log_weight.size
    # Bounds of multi-stage methods have a local minimum at the end of every stage: a restart raises them.
    stage_ends = np.flatnonzero(np.diff(recursion.log_contraction) > 0) + 1
    points = (
        np.unique(np.concatenate(([1, limit], stage_ends, np.rint(np.geomspace(1, limit, 25))))).astype(int).tolist()
    )
    best = min(range(len(points)), key=lambda i: value(points[i]))
    low, high = points[max(best - 1, 0)], points[min(best + 1, len(points) - 1)]
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if value(middle) <= value(middle + 1) else (middle + 1, high)
    value(low)
    horizons = np.array(sorted(bounds))
    return horizons, np.array([bounds[int(horizon)] for horizon in horizons])
