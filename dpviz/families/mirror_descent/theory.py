"""Plan-time mathematics of mirror descent by vertex sampling: cost of a draw, step-size caps, error bounds, rounds.

Everything here is a function of public numbers; n records, replace-one neighbours, T = rounds, K = draws per player and
round, B = records per batch. Source: González, Guzmán, Paquette, "Mirror descent algorithms with nearly
dimension-independent rates for differentially-private stochastic saddle-point problems" (arXiv 2403.02912), with the
corrections E1-E13 and the direct analysis (section 10.1) of THEORY.md, whose sections are cited. L0, L1,
L2 bound a record's partial derivatives, their change per unit of l1 distance, and that of the second derivatives.
rounds may be an array in every function whose result depends on it through a formula only.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpviz.privacy.accounting.closed_forms import exponential_rho

Floats = NDArray[np.float64]
Batching = Literal["full_batch", "single_pass"]
Geometry = Literal["entropic", "euclidean"]


class Player(NamedTuple):
    """Constants on which one player's privacy and its part of the error depend.

    log_vertices : ln d. oscillation : bound on max_j g_j - min_j g_j of one record's gradient, which privacy is about;
    spread : the same of the objective's gradient, data-independent parts included, which regret is about.
    smoothness : L1 of the player's own block of the Hessian, 0 if linear. draws : K.
    """

    log_vertices: float
    oscillation: float
    spread: float
    smoothness: float = 0.0
    draws: int = 1


# ------------------------------------------------------------------------------------------- one draw, and their sum


def sum_of_squares(rounds: ArrayLike) -> Floats:
    """Return 0² + 1² + … + (T-1)²."""
    rounds = np.asarray(rounds, float)
    return np.asarray((rounds - 1) * rounds * (2 * rounds - 1) / 6)


def weights_full_batch(rounds: int, n: int) -> Floats:
    """Return (T-1,) a record's weight (t-1)/n in the scores of rounds t = 2..T; round 1 draws from the uniform
    distribution."""
    return np.arange(1, rounds) / n


def weights_single_pass(rounds: int, batch: int) -> Floats:
    """Return (T-1,) the weight 1/B, in the scores of t = 2..T, of a record of the first batch, which pays most."""
    return np.full(max(rounds - 1, 0), 1 / batch)


def squared_weights(rounds: ArrayLike, n: int, batching: Batching) -> Floats:
    """Return the sum of the squared weights over t = 2..T: `sum_of_squares`/n² with full batches; in a single pass
    (T-1)/B² with B = floor(n/T), infinite if T > n."""
    rounds = np.asarray(rounds, float)
    if batching == "full_batch":
        return np.asarray(sum_of_squares(rounds) / n**2)
    with np.errstate(divide="ignore", invalid="ignore"):  # no record left for a batch, or a single round: handled
        return np.where(rounds > 1, (rounds - 1) / np.floor(n / rounds) ** 2, 0.0)


def rho_of_draws(ranges: ArrayLike, draws: ArrayLike = 1, tight: bool = False) -> Floats:
    """Return the zCDP cost of `draws` draws of each range η: η²/8 each, or with tight=True the smaller Kullback-Leibler
    form. A draw with step size τ and weight w has the range 2 osc τ w, and is η-DP (section 4.1)."""
    ranges = np.asarray(ranges, float)
    return np.asarray(np.asarray(draws) * (exponential_rho(ranges) if tight else ranges**2 / 8))


def step_size_cap(rho: ArrayLike, oscillation: float, squares: ArrayLike) -> Floats:
    """Return the largest τ that ρ pays for: Σ (2 osc τ w)²/8 = ρ. Infinite if no draw depends on the data (T = 1).

    rho : this player's part of the budget. squares : sum of w² over all its draws, hence K `squared_weights`.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(np.sqrt(2 * np.asarray(rho, float) / np.asarray(squares, float)) / oscillation)


# ------------------------------------------------------------------------- bias-reduced oracle, lazy anytime averaging


def anytime_refreshes(rounds: int, period: int) -> int:
    """Return the number of times that the lazy anytime method refreshes its vertices: in rounds t <= U, the period,
    then whenever U divides t."""
    return min(period, rounds) + max(0, rounds // period - 1)


def anytime_draws(rounds: int, draws: int, period: int, output_draws: int) -> int:
    """Return the number of data-dependent draws of the lazy anytime method; the first refresh is from the uniform
    distribution."""
    return draws * (anytime_refreshes(rounds, period) - 1) + output_draws


def largest_level(stop: int) -> int:
    """Return M = floor(log2 √U), the truncation of the bias-reduced oracle."""
    return (stop.bit_length() - 1) // 2


def level_constant(largest: int) -> float:
    """Return C_M = Σ 2^-k over k = 0..M."""
    return 2.0 - 2.0**-largest


def level_probabilities(largest: int) -> Floats:
    """Return (M+1,) P(N = k) = 2^-k/C_M of the truncated geometric level of the bias-reduced oracle (Algorithm 2)."""
    return np.asarray(0.5 ** np.arange(largest + 1) / level_constant(largest))


def mean_batches(largest: int) -> float:
    """Return E 2^N = (M+1)/C_M, the mean number of batches of a bias-reduced gradient; it takes twice as many draws."""
    return (largest + 1) / level_constant(largest)


def oracle_weight(largest: int, level: ArrayLike = 0) -> Floats:
    """Return 2 C_M + 2^-N, B times a record's weight in a bias-reduced gradient of level N; largest at N = 0."""
    return np.asarray(2 * level_constant(largest) + 0.5 ** np.asarray(level, float))


def bias_reduced_draws_bound(stop: int) -> int:
    """Return 3U, which the draws per player never exceed, because Σ 2^N_t <= U."""
    return 3 * stop


# ------------------------------------------------------------------------------------------ averages of drawn vertices


def maurey_value(smoothness: float, draws: ArrayLike, simplices: int = 1) -> Floats:
    """Return the bound 2 L1/K per simplex on |E h(x̂) - h(x)|, for x̂ the average of K vertices drawn from x."""
    return np.asarray(2 * simplices * smoothness / np.asarray(draws, float))


def maurey_cross_term(smoothness: float, draws: ArrayLike, squared_norm: ArrayLike = 0.0) -> Floats:
    """Return the bound 2 L1 (1 - ‖x‖₂²)/K on E <∇h(x̂), x̂ - x>, the price of sampling in `direct_bound` (section
    10.1)."""
    return np.asarray(2 * smoothness * (1 - np.asarray(squared_norm, float)) / np.asarray(draws, float))


def maurey_gradient_bias(smoothness: float, curvature: float, draws: ArrayLike, simplices: int = 1) -> Floats:
    """Return the smaller of the bounds 2 s L2/K and 4 √s L1/√K on ‖E ∇h(x̂) - ∇h(x)‖_∞, s simplices. curvature : L2,
    may be inf."""
    draws = np.asarray(draws, float)
    return np.minimum(2 * simplices * curvature / draws, 4 * math.sqrt(simplices) * smoothness / np.sqrt(draws))


def maurey_second_moment(smoothness: float, curvature: float, draws: ArrayLike, dimension: int) -> Floats:
    """Return the bound 2 (2 L2/K)² + 4 L1² (1 + ln 2d)/K on E ‖∇h(x̂) - ∇h(x)‖²_∞."""
    draws = np.asarray(draws, float)
    return np.asarray(2 * (2 * curvature / draws) ** 2 + 4 * smoothness**2 * (1 + math.log(2 * dimension)) / draws)


def maurey_tail(lipschitz: float, draws: ArrayLike, excess: ArrayLike) -> Floats:
    """Return the bound exp(-K excess²/(2 L0²)) on P(h(x̂) - h(x) >= 2 L1/K + excess) (bounded differences)."""
    return np.exp(-np.asarray(draws, float) * np.asarray(excess, float) ** 2 / (2 * lipschitz**2))


# ------------------------------------------------------------------------------------------------------- error bounds


def direct_bound(players: Sequence[Player], step_sizes: Sequence[ArrayLike], rounds: ArrayLike) -> Floats:
    """Return a bound on the expected duality gap on the data (excess risk if there is one player), section 10.1:
    Σ over players of ln d/(τ T) + τ spread²/8 + 2 L1/K."""
    rounds = np.asarray(rounds, float)
    total = np.full(rounds.shape, sampling_bias(players))
    for player, step in zip(players, step_sizes, strict=True):
        step = np.asarray(step, float)
        with np.errstate(divide="ignore"):  # no budget, or no record left for a batch: no step
            total = total + player.log_vertices / (step * rounds) + step * player.spread**2 / 8
    return total


def sampling_bias(players: Sequence[Player]) -> float:
    """Return Σ 2 L1/K, the part of `direct_bound` that neither rounds nor records reduce."""
    return sum(float(maurey_cross_term(player.smoothness, player.draws)) for player in players)


def population_term(players: Sequence[Player], lipschitz: float, rounds: ArrayLike, batch: ArrayLike) -> Floats:
    """Return the term that a single pass adds to `direct_bound` for the gap on the population: Σ over players of
    σ √(2 ln d/T).

    σ² = min(4 L0², 2 L0² (1 + ln 2d)/B) bounds the squared largest error of a batch gradient. At most the
    2 σ √(ℓ/T) of section 5, and equal to it for two players of one size.
    """
    rounds, batch = np.asarray(rounds, float), np.asarray(batch, float)
    total = np.zeros(np.broadcast_shapes(rounds.shape, batch.shape))
    for player in players:
        with np.errstate(divide="ignore"):  # more rounds than records
            variance = 2 * lipschitz**2 * (1 + math.log(2) + player.log_vertices) / batch
        total = total + np.sqrt(2 * np.minimum(variance, 4 * lipschitz**2) * player.log_vertices / rounds)
    return total


def noise_part(player: Player, noise: float, rounds: int, geometry: Geometry) -> float:
    """Return the part that noise on a player's gradients adds to the bound on the expected gap of the averages of T
    rounds, at the best step size (section 10.7).

    noise : σ, the deviation on each coordinate. geometry : of the steps. Entropic steps lose σ √(2 ln d/T), Euclidean
    steps σ (d - 1)/√(dT); and the best reply to noisy averages gains σ √(2 ln d/T) with either.
    """
    d, reply = math.exp(player.log_vertices), math.sqrt(2 * player.log_vertices)
    return noise * (reply + (reply if geometry == "entropic" else (d - 1) / math.sqrt(d))) / math.sqrt(rounds)


# ------------------------------------------------------------------------------------------- rounds, shares, records


def optimal_shares(players: Sequence[Player], pure: bool = False) -> tuple[float, ...]:
    """Return the shares of ρ that minimise Σ ln d/(τ T): proportional to (K osc²)^⅓ (ln d)^⅔ (section 10.3, with
    draws); under pure ε, where ranges add up and not their squares, to ln d osc."""
    if pure:
        parts = [p.log_vertices * p.oscillation for p in players]
    else:
        parts = [(p.draws * p.oscillation**2) ** (1 / 3) * p.log_vertices ** (2 / 3) for p in players]
    return tuple(part / sum(parts) for part in parts)


def optimal_noisy_shares(players: Sequence[Player], whole: Sequence[float], geometry: Geometry) -> tuple[float, ...]:
    """Return the shares of ρ that minimise Σ `noise_part`: proportional to its ⅔ power with all of the budget (section
    10.7).

    whole : deviation of each player's noise with all of the budget; with a share φ of it 1/√φ times that.
    """
    parts = [noise_part(p, noise, 1, geometry) ** (2 / 3) for p, noise in zip(players, whole, strict=True)]
    return tuple(part / sum(parts) for part in parts)


def capped_steps(
    players: Sequence[Player], shares: Sequence[float], rho: float, rounds: ArrayLike, n: int, batching: Batching
) -> tuple[Floats, ...]:
    """Return each player's step-size cap, in the shape of `rounds`."""
    squares = squared_weights(rounds, n, batching)
    return tuple(
        step_size_cap(share * rho, p.oscillation, p.draws * squares) for p, share in zip(players, shares, strict=True)
    )


def best_bound(
    players: Sequence[Player], shares: Sequence[float], rho: float, rounds: ArrayLike, n: int, batching: Batching
) -> Floats:
    """Return `direct_bound` at the best step sizes below the caps, √(8 ln d/T)/spread where the cap allows it."""
    caps = capped_steps(players, shares, rho, rounds, n, batching)
    free = [np.sqrt(8 * p.log_vertices / np.asarray(rounds, float)) / p.spread for p in players]
    return direct_bound(players, [np.minimum(*pair) for pair in zip(caps, free, strict=True)], rounds)


def optimal_rounds(curve: Callable[[Floats], Floats], longest: int) -> tuple[int, float]:
    """Return (T, bound) with the smallest bound among 2..longest: a log grid first, then every T next to its best
    point.

    curve : bounds for an array of rounds.
    """
    grid = np.unique(np.rint(np.geomspace(2, max(longest, 2), 400)))
    best = int(np.argmin(curve(grid)))
    near = np.arange(grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)] + 1)
    bounds = curve(near)
    best = int(np.argmin(bounds))
    return int(near[best]), float(bounds[best])


class Optimum(NamedTuple):
    """Optimal rounds in closed form, up to rounding, and the bound there.

    At `balanced_rounds`, T*, the two error terms are equal; the bound keeps falling until `rounds` = √3 T*, by 12 %.
    """

    balanced_rounds: float
    balanced_bound: float
    rounds: float
    bound: float

    @property
    def practical_rounds(self) -> int:
        """T*/4, with steps at the cap about twice as good as T* in practice, because the bound is loose there."""
        return max(2, round(self.balanced_rounds / 4))


def closed_form_optimum(
    players: Sequence[Player], shares: Sequence[float], rho: float, n: int, batching: Batching
) -> Optimum:
    """Return the optimal number of rounds with steps at the caps τ = c T^-1.5: bound A √T + C T^-1.5 + sampling bias.

    c = n √(6 φρ/K)/osc (full batch, Σ₂ ≈ T³/3) or n √(2 φρ/K)/osc (single pass); A = Σ ln d/c, C = Σ c spread²/8.
    """
    factor = 6 if batching == "full_batch" else 2
    scales = [n * math.sqrt(factor * s * rho / p.draws) / p.oscillation for p, s in zip(players, shares, strict=True)]
    a = sum(p.log_vertices / scale for p, scale in zip(players, scales, strict=True))
    c = sum(scale * p.spread**2 / 8 for p, scale in zip(players, scales, strict=True))
    level, bias = a**0.75 * c**0.25, sampling_bias(players)
    return Optimum(math.sqrt(c / a), 2 * level + bias, math.sqrt(3 * c / a), (3**0.25 + 3**-0.75) * level + bias)
