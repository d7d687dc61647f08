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

from dpviz.errors import UserError
from dpviz.numbers import short, short_down, short_up

Floats = NDArray[np.float64]
Noise = Literal["laplace", "gaussian"]
Schedule = Literal["uniform", "optimal"]

# The noise variance of a step falls with this power of its share of the budget: it goes with 1/eps_t^2 for Laplace
# noise, where the budget is a sum of eps_t, and with 1/rho_t for Gaussian noise, where it is a sum of rho_t.
_POWER: dict[Noise, int] = {"laplace": 2, "gaussian": 1}
# ln of the smallest share of ε, relative to the largest: no step gets less than e^-138 = 1e-60 of the largest share, so
# that its noise stays a finite number.
_SMALLEST_LOG_SHARE = -138.0
# A method may contract by exactly zero, which has no logarithm. A larger factor keeps the bound an upper bound.
_SMALLEST_CONTRACTION = 1e-12
# A noise schedule drawn by hand: six numbers, the knots, give log10 of the noise scale at equally spaced steps, up to a
# common summand; the budget gives that summand.
LIMIT = 1.6  # largest size of a knot, in powers of ten
EVEN = (0.0,) * 6
Knots = tuple[Annotated[float, Field(ge=-LIMIT, le=LIMIT)], ...]
SHAPES: dict[str, tuple[float, ...]] = {
    "Even": EVEN,
    "Falling": (0.75, 0.45, 0.15, -0.15, -0.45, -0.75),
    "Rising": (-0.75, -0.45, -0.15, 0.15, 0.45, 0.75),
    "Steps": (0.8, 0.8, 0.0, 0.0, -0.8, -0.8),
}


class Steps(NamedTuple):
    """A method without its noise, described by its T steps.

    step_size, momentum : (T,) of each step. stage : (T,) number, from 1, of the stage that the step belongs to.
    restart : (T,) True for a step before which the previous iterate is replaced by the current one; that resets the
        momentum.
    """

    step_size: Floats
    momentum: Floats
    stage: NDArray[np.int64]
    restart: NDArray[np.bool_]


class BoundFactors(NamedTuple):
    """Error bound for every number of iterations T at once, factorised in logarithms.

    E F(x_T) - F* <= initial exp(log_contraction[T-1])
                     + sum_{t<T} exp(log_contraction[T-1] + log_weight[t]) half_variance[t],

    where half_variance[t] is half the expected squared norm of the gradient noise in step t.

    initial : the error at the starting point, in the measure that contracts: F(x_0) - F* or the Lyapunov value V_0.
    log_contraction : (T,) ln of the factor by which the first 1..T steps contract it together.
    log_weight : (T,) ln of the weight of each step's noise, divided by the contraction up to that step. It does not
        depend on T, so the optimal schedule of a shorter run is the beginning of that of a longer one.
    """

    initial: float
    log_contraction: Floats
    log_weight: Floats

    def first(self, iterations: int) -> "BoundFactors":
        """Return the same bound for the first `iterations` steps only."""
        return BoundFactors(self.initial, self.log_contraction[:iterations], self.log_weight[:iterations])


# -------------------------------------------------------------------------------------------------- noise-free methods


def nesterov_momentum(step_size: ArrayLike, strong_convexity: float) -> Floats:
    """Return (1-q)/(1+q), q = sqrt(mu step_size): the best momentum of Nesterov's method, with which it contracts the
    error by the factor 1-q in every step."""
    root = np.sqrt(strong_convexity * np.asarray(step_size, float))
    return np.asarray((1 - root) / (1 + root))


def heavy_ball_momentum(step_size: ArrayLike, strong_convexity: float) -> Floats:
    """Return (1-q)^2, q = sqrt(mu step_size): the best momentum of heavy ball on quadratics for step_size <= 1/L, with
    which it contracts distances by the factor 1-q in every step."""
    return np.asarray((1 - np.sqrt(strong_convexity * np.asarray(step_size, float))) ** 2)


def polyak_pair(strong_convexity: float, smoothness: float) -> tuple[float, float]:
    """Return the step size and the momentum that together give heavy ball its best rate on quadratics (Polyak 1964)."""
    root_mu, root_l = np.sqrt(strong_convexity), np.sqrt(smoothness)
    return float(4 / (root_mu + root_l) ** 2), float(((root_l - root_mu) / (root_l + root_mu)) ** 2)


def gradient_descent(iterations: int, step_size: float) -> Steps:
    """Return the steps of x_t = x_{t-1} - step_size g(x_{t-1}), where g is the gradient."""
    return heavy_ball(iterations, step_size, momentum=0.0)


def heavy_ball(iterations: int, step_size: float, momentum: float) -> Steps:
    """Return the steps of x_t = x_{t-1} - step_size g(x_{t-1}) + momentum (x_{t-1} - x_{t-2}), where g is the gradient
    (Polyak 1964): one stage, no restart."""
    return Steps(
        step_size=np.full(iterations, float(step_size)),
        momentum=np.full(iterations, float(momentum)),
        stage=np.ones(iterations, np.int64),
        restart=np.zeros(iterations, bool),
    )


def nesterov(iterations: int, step_size: float, strong_convexity: float) -> Steps:
    """Return the steps of x_t = w_t - step_size g(w_t), w_t = x_{t-1} + momentum (x_{t-1} - x_{t-2}), where g is the
    gradient and the momentum is the best one for this step size (Nesterov 2004).

    They are those of heavy ball with this momentum: `Steps` does not say where a method takes the gradient.
    """
    return heavy_ball(iterations, step_size, float(nesterov_momentum(step_size, strong_convexity)))


def multistage(
    iterations: int,
    relative_step: float,
    strong_convexity: float,
    smoothness: float,
    lengths: Literal["corrected", "paper"] | Sequence[int] = "corrected",
) -> Steps:
    """Return the steps of Nesterov's method in stages of shrinking step size, with a restart at the start of each stage
    k >= 2 (Aybat et al. 2019; Kuru et al., section 4.2).

    With c = relative_step the step size is c/L in stage 1 and c 4^-k / L in stage k >= 2. Stage 1 lasts ceil(2 sqrt(K)
    ln sqrt(K)) steps, stage k >= 2 lasts 2^k ceil(sqrt(K) ln 8); the last stage is cut off at `iterations`.

    lengths : "corrected" takes K = L / (mu c), as one step of stage 1 contracts by 1 - 1/sqrt(K); "paper" takes K = L /
        mu, which is too short for c < 1. Or the lengths of the stages themselves; ValueError if they have fewer than
        `iterations` steps in total.
    """
    if isinstance(lengths, str):
        c = relative_step if lengths == "corrected" else 1.0
        root = np.sqrt(smoothness / strong_convexity / c)  # sqrt(K)
        lengths = [max(1, int(np.ceil(2 * root * np.log(root))))]
        while sum(lengths) < iterations:
            k = len(lengths) + 1
            lengths.append(2**k * int(np.ceil(root * np.log(8))))
    if sum(lengths) < iterations:
        raise ValueError(f"the stages have {sum(lengths)} steps, {iterations} are needed")
    stage = np.repeat(np.arange(1, len(lengths) + 1), lengths)[:iterations]
    step_size = relative_step / smoothness * np.where(stage == 1, 1.0, 4.0**-stage)
    restart = np.diff(stage, prepend=1) != 0  # none before the first step
    return Steps(step_size, nesterov_momentum(step_size, strong_convexity), stage, restart)


# -------------------------------------------------------------------------------------------------------- error bounds


def nesterov_factors(steps: Steps, strong_convexity: float, smoothness: float, lyapunov: float) -> BoundFactors:
    """Return the error bound of the steps of `nesterov` or `multistage` (THEORY.md, section 5.1; Theorem 4.1).

    It is a bound on E F(x_t) - F* because it is one on the Lyapunov value V_t = F(x_t) - F* + (mu/2) ||v_t - x*||^2,
    v_t = x_t + (1/q - 1) (x_t - x_{t-1}), q = sqrt(mu step). A step gives E V_t <= (1-q) E V_{t-1} + step (1 + step L)
    E||w_t||^2 / 2 for its gradient noise w_t; F(x_t) - F* alone need not contract. A restart costs a factor 2.

    lyapunov : V_0 at the starting point; at most ln 2 for a logistic objective with ridge term, started at zero.
    Errors: UserError for a step size above 1/L or impossible constants.
    """
    _check(steps, strong_convexity, smoothness, max_relative_step=1.0)
    step = steps.step_size
    contraction = np.maximum(1 - np.sqrt(strong_convexity * step), _SMALLEST_CONTRACTION)
    log_contraction = np.cumsum(np.log(contraction)) + (steps.stage - 1) * np.log(2)
    return BoundFactors(lyapunov, log_contraction, np.log(step * (1 + step * smoothness)) - log_contraction)


def gradient_descent_factors(steps: Steps, strong_convexity: float, smoothness: float, gap: float) -> BoundFactors:
    """Return the error bound of the steps of `gradient_descent`.

    A step gives E_t <= (1 - 2 mu step (1 - step L / 2)) E_{t-1} + L step^2 E||w_t||^2 / 2 for the expected gap
    E_t = E F(x_t) - F* and the gradient noise w_t.

    gap : F(x_0) - F*, or an upper bound on it; ln 2 for a logistic objective with ridge term, started at zero.
    Errors: UserError for a step size of more than 2/L, or impossible constants.
    """
    _check(steps, strong_convexity, smoothness, max_relative_step=2.0)
    step = steps.step_size
    contraction = np.maximum(1 - 2 * strong_convexity * step * (1 - step * smoothness / 2), _SMALLEST_CONTRACTION)
    log_contraction = np.cumsum(np.log(contraction))
    return BoundFactors(gap, log_contraction, np.log(smoothness * step**2) - log_contraction)


def _check(steps: Steps, strong_convexity: float, smoothness: float, max_relative_step: float) -> None:
    """Raise UserError unless 0 < mu <= L and all step sizes are at most `max_relative_step`/L, up to rounding."""
    if not 0 < strong_convexity <= smoothness:
        raise UserError(
            f"Strong convexity must lie between 0 and the smoothness {short(smoothness, 4)}, but it is "
            f"{short(strong_convexity, 4)}. Increase the regularisation.",
            title="No error bound",
        )
    if steps.step_size.max() * smoothness > max_relative_step * (1 + 1e-12):
        raise UserError(
            f"The error bound holds for step sizes up to {short(max_relative_step, 6)}/L = "
            f"{short_down(max_relative_step / smoothness)} only, but the largest step is "
            f"{short_up(steps.step_size.max(), 4)}. Choose a smaller step.",
            title="No error bound",
        )


def bound(factors: BoundFactors, half_variance: ArrayLike) -> Floats:
    """Return (T+1,) an upper bound on E F(x_t) - F* after t = 0..T steps.

    half_variance : half the expected squared norm of the gradient noise, (T,) for each step or one scalar for all.
    """
    _, log_contraction, log_weight = factors
    with np.errstate(divide="ignore"):  # no noise: log 0 = -inf is correct
        log_noise = log_weight + np.log(np.broadcast_to(np.asarray(half_variance, float), log_weight.shape))
    noise = np.exp(log_contraction + np.logaddexp.accumulate(log_noise))
    return np.concatenate(([factors.initial], factors.initial * np.exp(log_contraction) + noise))


def sampling_variance(gradient_bound: float, m: int, n: int) -> float:
    """Return an upper bound on the expected squared L2 error of the mean gradient of a batch, m of n rows drawn without
    replacement, against the mean of all n; each row's gradient has an L2 norm of at most `gradient_bound`."""
    return 0.0 if m >= n else gradient_bound**2 * (n - m) / (m * (n - 1))


# ------------------------------------------------------------------------------------------------------- budget splits


def shares_by_bound(factors: BoundFactors, noise: Noise) -> Floats:
    """Return (T,) the shares of the budget, up to a common factor, that minimise the bound after T steps (Proposition
    4.2).

    They are g_t^(1/3) for eps_t of Laplace noise and g_t^(1/2) for rho_t of Gaussian noise, where g = exp(log_weight);
    scaled so that the largest is 1. For fewer steps T' call this with `factors.first(T')`: the first T' shares of a
    longer schedule are the same up to a factor, unless they were so small that they have been raised to the limit.
    """
    return np.asarray(np.exp(_limited_log_weight(factors.log_weight) / (_POWER[noise] + 1)))


def _limited_log_weight(log_weight: Floats) -> Floats:
    """Return (T,) the log weights less their largest, raised to a lower limit so that no step gets a share of 0, which
    would be infinite noise.

    A share of ε is the third root of a weight, so the limit is three times `_SMALLEST_LOG_SHARE`. Shares of ρ, the
    square roots, are then at least e^-207 of the largest.
    """
    return np.asarray(np.maximum(log_weight - log_weight.max(), 3 * _SMALLEST_LOG_SHARE))


def log_scales(knots: Knots, iterations: int) -> np.ndarray:
    """Return (T,) log10 of the noise scale of each step, up to a common summand, in a schedule drawn by hand: the knots
    belong to equally spaced steps from the first to the last, with straight lines in between."""
    last = max(iterations - 1, 1)  # a single step gets the first knot, wherever the last one is
    return np.asarray(np.interp(np.arange(iterations), np.linspace(0, last, len(knots)), knots))


def own_shares(knots: Knots, iterations: int, noise: Noise) -> np.ndarray:
    """Return (T,) the share of the budget of each step in a schedule drawn by hand, up to a common factor.

    It is the share of ε for Laplace noise, in proportion to 1/b for the noise scale b, and the share of ρ for Gaussian
    noise, in proportion to 1/σ². The largest share is 1.
    """
    power = 2 if noise == "gaussian" else 1
    logs = log_scales(knots, iterations)
    return np.asarray(10.0 ** (power * (logs.min() - logs)))


def even_level(knots: Knots, noise: np.ndarray, power: int) -> float:
    """Return log10 of the noise scale that every step would have if the steps shared the same budget evenly.

    noise : (T,) the noise scales of a schedule drawn by hand with these knots. power : the cost of a step goes with
        1/noise^power: 1 where the steps share ε (Laplace noise, pure ε, all rows), 2 where they share ρ (Gaussian
        noise, all rows). Elsewhere the cost of a step is no power of its noise, and the result is approximate.

    The knots give log10(noise_t) = c + s_t up to the summand c. An even scale E costs the same as the schedule if
    E^(-power) is the mean of noise_t^(-power).
    """
    logs = log_scales(knots, len(noise))
    summand = np.mean(np.log10(noise) - logs)  # c, the same at all steps but for rounding
    return float(summand - np.log10(np.mean(10.0 ** (-power * logs))) / power)


def sampled_split(log_weight: Floats, epsilon: float, ratio: float) -> Floats:
    """Return (T,) the budgets eps_t of T steps with Laplace noise on random batches that minimise the noise part of the
    error bound and sum to epsilon (THEORY.md, section 5.2).

    The noise of step t on its batch of m rows costs u_t if the batch is known; amplification by sampling makes that
    eps_t, so u_t = ln(1 + ratio (exp(eps_t) - 1)) with ratio = n/m >= 1. The noise part is sum_t g_t / u_t^2 with g =
    exp(log_weight), up to a common factor. The problem is convex. Its minimum satisfies
    g_t (1 + (ratio-1) exp(-u_t)) / u_t^3 = multiplier for all t, with one multiplier that makes the sum right.
    """
    log_g = _limited_log_weight(np.asarray(log_weight, float))
    shares = np.exp(log_g / 3)  # the optimum where all rows are used
    log_u = np.log(np.log1p(np.expm1(epsilon / shares.sum() * shares) * ratio))
    for _ in range(60):  # an upper limit: Newton's method doubles the number of right digits in every round
        u = np.exp(log_u)
        decaying = (ratio - 1) * np.exp(-u)
        log_marginal = log_g + np.log1p(decaying) - 3 * log_u
        slope = 3 + u * decaying / (1 + decaying)  # minus the derivative of `log_marginal` in ln u
        split = np.log1p(np.expm1(u) / ratio)
        growth = u / (1 + decaying) / slope  # of `split`, as `log_marginal` falls
        log_multiplier = (growth @ log_marginal + split.sum() * np.log(split.sum() / epsilon)) / growth.sum()
        change = (log_marginal - log_multiplier) / slope
        log_u = log_u + change
        if np.abs(change).max() < 1e-13:
            break
    return np.asarray(split * (epsilon / split.sum()))  # exactly epsilon in total


# ------------------------------------------------------------------------------------------------ number of iterations


def bound_by_iterations(factors: BoundFactors, unit: float, schedule: Schedule, noise: Noise) -> Floats:
    """Return (T,) the error bound after T' steps that spend the whole budget, for every T' = 1..T, where every step
    uses all rows.

    unit : half the expected squared norm of the noise of a single step that gets the whole budget: d (S1/(n eps))^2 for
        Laplace noise with the L1 sensitivity S1/n, d Delta^2 / (4 rho) for Gaussian noise with the L2 sensitivity
        Delta.

    A step with the share w of the total W has half variance unit (W/w)^power. With g = exp(log_weight) the noise part
    of the bound is unit exp(log_contraction) W^power sum g / w^power, which for the optimal shares
    w = g^(1/(power + 1)) is unit exp(log_contraction) W^(power + 1).
    """
    initial, log_contraction, log_weight = factors
    power = _POWER[noise]
    # Sums of logarithms, as the weights themselves would overflow.
    if schedule == "uniform":
        log_sum = np.logaddexp.accumulate(log_weight) + power * np.log(np.arange(1, log_weight.size + 1))
    else:
        log_sum = (power + 1) * np.logaddexp.accumulate(log_weight / (power + 1))
    return np.asarray(initial * np.exp(log_contraction) + unit * np.exp(log_contraction + log_sum))


def best_iterations(bounds: ArrayLike) -> int:
    """Return the number of steps with the smallest bound, given the bounds after 1, 2, … steps; ties go to fewer
    steps."""
    return int(np.argmin(np.asarray(bounds))) + 1


def sampled_bound(
    factors: BoundFactors, epsilon: float, ratio: float, unit: float, batch_variance: float, schedule: Schedule
) -> float:
    """Return the error bound after all T steps with Laplace noise on random batches of m of n rows, where the steps
    spend epsilon in total after amplification by sampling.

    ratio : n/m. unit : d (S1/m)^2 for gradients with the L1 sensitivity S1/m on a batch, half the expected squared norm
        of noise that costs ε = 1 on a known batch. batch_variance : that of `sampling_variance`.
    """
    _, log_contraction, log_weight = factors
    size = log_weight.size
    split = np.full(size, epsilon / size) if schedule == "uniform" else sampled_split(log_weight, epsilon, ratio)
    epsilon_on_batch = np.log1p(np.expm1(split) * ratio)  # before amplification
    half_variance = unit / epsilon_on_batch**2 + batch_variance / 2
    noise = np.exp(log_contraction[-1] + log_weight) @ half_variance
    return float(factors.initial * np.exp(log_contraction[-1]) + noise)


def bounds_by_search(factors: BoundFactors, bound_at: Callable[[int], float]) -> tuple[NDArray[np.int64], Floats]:
    """Search the number of steps T' with the smallest error bound, where a bound is costly to evaluate.

    Return the numbers of steps that were tried (k,), ascending, and their bounds (k,). These are 25 log-spaced numbers
    up to T, every end of a stage, and the steps of a bisection between the neighbours of the best of those. So the
    smallest bound returned is the minimum over 1..T if there is a single local minimum between those neighbours.

    bound_at : function from T' to its bound, which may be inf.
    """
    bounds: dict[int, float] = {}

    def bound_of(iterations: int) -> float:
        """Evaluate the bound at most once for each number of steps, and keep it in `bounds`."""
        if iterations not in bounds:
            bounds[iterations] = bound_at(iterations)
        return bounds[iterations]

    limit = factors.log_weight.size
    # Bounds of multi-stage methods have a local minimum at the end of every stage: the next step restarts, which raises
    # them. Entry t of `log_contraction` belongs to t + 1 steps.
    stage_ends = np.flatnonzero(np.diff(factors.log_contraction) > 0) + 1
    spaced = np.rint(np.geomspace(1, limit, 25))  # whole, but floats
    candidates = np.unique(np.concatenate(([1, limit], stage_ends, spaced))).astype(int).tolist()
    best = min(range(len(candidates)), key=lambda i: bound_of(candidates[i]))
    low, high = candidates[max(best - 1, 0)], candidates[min(best + 1, len(candidates) - 1)]
    while low < high:
        middle = (low + high) // 2
        if bound_of(middle) <= bound_of(middle + 1):
            high = middle
        else:
            low = middle + 1
    horizons = sorted(bounds)
    return np.array(horizons), np.array([bounds[horizon] for horizon in horizons])
