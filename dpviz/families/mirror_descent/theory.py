"""Mathematics of mirror descent by vertex sampling that is known before a run: the cost of a draw, the largest step
sizes that privacy allows, bounds on the error, and the best number of rounds.

Source: González, Guzmán, Paquette, "Mirror descent algorithms with nearly dimension-independent rates for
differentially-private stochastic saddle-point problems" (arXiv 2403.02912), with the corrections E1-E13 and the direct
analysis (section 10.1) of THEORY.md, whose sections are cited.

Everything here is a function of public numbers. Symbols: n records, of which one is replaced in a neighbouring data
set; T rounds, K draws per player and round, B records per batch, d vertices of a player, τ a player's step size. L0, L1
and L2 bound a record's partial derivatives, their change per unit of l1 distance, and that of the second derivatives.
The scores that a player draws by are sums of its gradients over the rounds, and a record's weight w in them is the sum
of its parts in the rounds' means. `rounds` may be an array in every function whose type for it is ArrayLike.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Batching = Literal["full_batch", "single_pass"]
Geometry = Literal["entropic", "euclidean"]


class Player(NamedTuple):
    """Constants of one player, on which the cost of its draws and its part of the error depend.

    log_vertices : ln d. oscillation : bound on max_j g_j - min_j g_j for the gradient g of one record; it decides the
    privacy cost of a draw. spread : the same bound for the gradient of the objective, data-independent parts included;
    it decides the regret. smoothness : L1 of the player's own block of the Hessian, 0 if the objective is linear in the
    player. draws : K.
    """

    log_vertices: float
    oscillation: float
    spread: float
    smoothness: float = 0.0
    draws: int = 1


# ------------------------------------------------------------------------------------------- one draw, and their sum


def squared_weights(rounds: ArrayLike, n: int, batching: Batching) -> Floats:
    """Return Σ w², the sum over the rounds of the squared weights of the record that pays most.

    It is (0² + 1² + … + (T-1)²)/n² with full batches, and (T-1)/B² in a single pass, with B = floor(n/T); infinite if
    T > n.
    """
    rounds = np.asarray(rounds, float)
    if batching == "full_batch":
        return np.asarray((rounds - 1) * rounds * (2 * rounds - 1) / 6 / n**2)
    with np.errstate(divide="ignore"):  # B = 0 if T > n
        return np.asarray((rounds - 1) / np.floor(n / rounds) ** 2)


def rho_of_draws(ranges: ArrayLike, draws: ArrayLike = 1) -> Floats:
    """Return the cost in ρ (zCDP) of K = `draws` draws of each bounded range η in `ranges`: K η²/8 (section 4.1).

    A draw with the step size τ and a record's weight w has the range η = 2 osc τ w.
    """
    return np.asarray(np.asarray(draws) * np.asarray(ranges, float) ** 2 / 8)


def step_size_cap(rho: ArrayLike, oscillation: float, squares: ArrayLike) -> Floats:
    """Return the largest step size τ that ρ pays for, at which Σ (2 osc τ w)²/8 over a player's draws is ρ.

    It is infinite if no draw depends on the data (T = 1). rho : this player's part of the budget. squares : Σ w² over
    all its draws, hence K times `squared_weights`.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(np.sqrt(2 * np.asarray(rho, float) / np.asarray(squares, float)) / oscillation)


# ------------------------------------------------------------------------- bias-reduced oracle, lazy anytime averaging


def anytime_refreshes(rounds: int, period: int) -> int:
    """Return the number of rounds in which the lazy anytime method (Algorithm 4) draws new vertices: rounds t <= U, and
    later ones that U divides. period : U."""
    return min(period, rounds) + max(0, rounds // period - 1)


def anytime_draws(rounds: int, draws: int, period: int, output_draws: int) -> int:
    """Return the number of draws of the lazy anytime method (Algorithm 4) that depend on data.

    draws : K at each refresh, of which the first needs no data, as it is from the uniform distribution. period : U.
    output_draws : K_out.
    """
    return draws * (anytime_refreshes(rounds, period) - 1) + output_draws


def largest_level(stop: int) -> int:
    """Return M = floor(log2 √U), the largest level N of the bias-reduced oracle (Algorithms 2 and 3). stop : U, the
    stop level of a run."""
    return (stop.bit_length() - 1) // 2


def level_constant(top_level: int) -> float:
    """Return C_M = Σ 2^-k over k = 0..M, for the largest level M."""
    return 2.0 - 2.0**-top_level


def level_probabilities(top_level: int) -> Floats:
    """Return (M+1,) the probabilities P(N = k) = 2^-k/C_M of the level N = 0..M of the bias-reduced oracle."""
    return np.asarray(0.5 ** np.arange(top_level + 1) / level_constant(top_level))


def mean_batches(top_level: int) -> float:
    """Return E 2^N = (M+1)/C_M, the mean number of batches of B records that a gradient of the bias-reduced oracle
    reads. It takes twice as many draws of each player. top_level : M."""
    return (top_level + 1) / level_constant(top_level)


def oracle_weight(top_level: int, level: ArrayLike = 0) -> Floats:
    """Return 2 C_M + 2^-N, which is B times a record's weight in a gradient of the bias-reduced oracle.

    Its four gradients, with the coefficients C_M 2^N (1 + ½ + ½) + 1, are means over 2^N B records. top_level : M.
    level : N; the weight is largest at N = 0.
    """
    return np.asarray(2 * level_constant(top_level) + 0.5 ** np.asarray(level, float))


# ------------------------------------------------------------------------------------------ averages of drawn vertices

# x̂ is the average of K vertices drawn from the mixed strategy x; h is a function on the simplex with constants L0, L1
# and L2. The bounds are those of section 5, item 6.


def maurey_gradient_bias(smoothness: float, curvature: float, draws: ArrayLike, simplices: int = 1) -> Floats:
    """Return the smaller of the bounds 2 s L2/K and 4 √s L1/√K on the bias of the gradient, ‖E ∇h(x̂) - ∇h(x)‖_∞, if x
    is in a product of s simplices. curvature : L2, may be inf."""
    draws = np.asarray(draws, float)
    return np.minimum(2 * simplices * curvature / draws, 4 * math.sqrt(simplices) * smoothness / np.sqrt(draws))


def maurey_second_moment(smoothness: float, curvature: float, draws: ArrayLike, dimension: int) -> Floats:
    """Return the bound 2 (2 L2/K)² + 4 L1² (1 + ln 2d)/K on the mean squared error of the gradient,
    E ‖∇h(x̂) - ∇h(x)‖²_∞, for one simplex with d = `dimension` vertices. curvature : L2."""
    draws = np.asarray(draws, float)
    return np.asarray(2 * (2 * curvature / draws) ** 2 + 4 * smoothness**2 * (1 + math.log(2 * dimension)) / draws)


# ------------------------------------------------------------------------------------------------------- error bounds


def direct_bound(players: Sequence[Player], step_sizes: Sequence[ArrayLike], rounds: ArrayLike) -> Floats:
    """Return the direct bound on the expected duality gap on the data, or on the excess risk if there is one player
    (section 10.1): the sum over the players of ln d/(τ T) + τ spread²/8 + 2 L1/K.

    step_sizes : τ of each player; a number, or an array in the shape of `rounds`, the numbers of rounds T.
    """
    rounds = np.asarray(rounds, float)
    total = np.full(rounds.shape, sampling_bias(players))
    for player, step in zip(players, step_sizes, strict=True):
        step = np.asarray(step, float)
        with np.errstate(divide="ignore"):  # a step size is 0 without budget, or if no record is left for a batch
            total = total + player.log_vertices / (step * rounds) + step * player.spread**2 / 8
    return total


def sampling_bias(players: Sequence[Player]) -> float:
    """Return the sum of 2 L1/K over the players, the price of sampling in `direct_bound`, which neither rounds nor
    records reduce. 2 L1/K bounds E <∇h(x̂), x̂ - x> for the average x̂ of K draws from the strategy x."""
    return sum(2 * player.smoothness / player.draws for player in players)


def population_term(players: Sequence[Player], lipschitz: float, rounds: ArrayLike, batch: ArrayLike) -> Floats:
    """Return the term that a single pass adds to `direct_bound` to bound the gap on the population: the sum over the
    players of σ √(2 ln d/T).

    σ² = min(4 L0², 2 L0² (1 + ln 2d)/B) bounds the mean square of the largest error of a coordinate of a batch's
    gradient. The term is at most the 2 σ √(ℓ/T) of section 5, ℓ = ln d_x + ln d_y, and equal to it for two players of
    one size. batch : B.
    """
    rounds, batch = np.asarray(rounds, float), np.asarray(batch, float)
    total = np.zeros(np.broadcast_shapes(rounds.shape, batch.shape))
    for player in players:
        with np.errstate(divide="ignore"):  # B = 0 if there are more rounds than records
            batch_variance = 2 * lipschitz**2 * (1 + math.log(2) + player.log_vertices) / batch
        variance = np.minimum(batch_variance, 4 * lipschitz**2)
        total = total + np.sqrt(2 * variance * player.log_vertices / rounds)
    return total


def noise_part(player: Player, noise: float, rounds: int, geometry: Geometry) -> float:
    """Return the part that Gaussian noise on a player's gradients adds to the bound on the expected gap of the averages
    of T rounds, at the best step size (section 10.7).

    It has two terms. The regret of the player's steps grows by σ √(2 ln d/T) with entropic steps (exponential weights),
    by σ (d - 1)/√(dT) with Euclidean ones; and the best reply to the noisy gradients gains σ √(2 ln d/T). noise : σ,
    the standard deviation on each coordinate.
    """
    d, reply = math.exp(player.log_vertices), math.sqrt(2 * player.log_vertices)
    regret = reply if geometry == "entropic" else (d - 1) / math.sqrt(d)
    return noise * (reply + regret) / math.sqrt(rounds)


# ------------------------------------------------------------------------------------------- rounds, shares, records


def optimal_shares(players: Sequence[Player], pure: bool = False) -> tuple[float, ...]:
    """Return the players' shares of the budget that minimise Σ ln d/(τ T) with the largest step sizes τ that privacy
    allows (section 10.3).

    With a share φ of ρ, to which the squared ranges of draws add up, τ is proportional to √(φ/K)/osc, so the shares are
    proportional to (K osc²)^⅓ (ln d)^⅔. Under pure ε the ranges themselves add up.
    pure : true for the shares of ε, which are proportional to ln d osc.
    """
    if pure:
        proportions = [p.log_vertices * p.oscillation for p in players]
    else:
        proportions = [(p.draws * p.oscillation**2) ** (1 / 3) * p.log_vertices ** (2 / 3) for p in players]
    return tuple(proportion / sum(proportions) for proportion in proportions)


def optimal_noisy_shares(players: Sequence[Player], noises: Sequence[float], geometry: Geometry) -> tuple[float, ...]:
    """Return the players' shares of ρ that minimise the sum of their `noise_part` (section 10.7).

    noises : standard deviation of each player's noise if it had all of ρ; with a share φ it is 1/√φ times that. So the
    sum is Σ w/√φ, with w a player's `noise_part` if it had all of ρ, and it is smallest for φ proportional to w^⅔.
    """
    proportions = [noise_part(p, noise, 1, geometry) ** (2 / 3) for p, noise in zip(players, noises, strict=True)]
    return tuple(proportion / sum(proportions) for proportion in proportions)


def capped_steps(
    players: Sequence[Player], shares: Sequence[float], rho: float, rounds: ArrayLike, n: int, batching: Batching
) -> tuple[Floats, ...]:
    """Return the largest step size of each player for which its share of ρ pays, in the shape of `rounds`."""
    squares = squared_weights(rounds, n, batching)
    return tuple(
        step_size_cap(share * rho, p.oscillation, p.draws * squares) for p, share in zip(players, shares, strict=True)
    )


def optimal_rounds(curve: Callable[[Floats], Floats], longest: int) -> tuple[int, float]:
    """Return (T, bound): the number of rounds among 2..longest with the smallest bound, and that bound.

    It searches a logarithmic grid first, then every T between the neighbours of the grid's best point. That finds the
    minimum of a curve that falls and then rises. curve : function from an array of numbers of rounds to their bounds.
    """
    grid = np.unique(np.rint(np.geomspace(2, max(longest, 2), 400)))
    best = int(np.argmin(curve(grid)))
    candidates = np.arange(grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)] + 1)
    bounds = curve(candidates)
    best = int(np.argmin(bounds))
    return int(candidates[best]), float(bounds[best])


class Optimum(NamedTuple):
    """The best number of rounds by a formula, not rounded to integers, and the bound there; see `closed_form_optimum`.

    balanced_rounds, balanced_bound : T*, where the bound's two terms that depend on T are equal, and the bound there.
    rounds, bound : √3 T*, where the bound is smallest, and the bound there; the two terms are 12 % less than at T*.
    """

    balanced_rounds: float
    balanced_bound: float
    rounds: float
    bound: float

    @property
    def practical_rounds(self) -> int:
        """T*/4. With the largest step sizes it is about twice as good as T* in practice: the bound is loose there."""
        return max(2, round(self.balanced_rounds / 4))


def closed_form_optimum(
    players: Sequence[Player], shares: Sequence[float], rho: float, n: int, batching: Batching
) -> Optimum:
    """Return the optimal number of rounds with the largest step sizes that privacy allows, in closed form.

    A player's largest step size is about s T^-1.5. With full batches s = n √(6 φ ρ/K)/osc, because Σ (t - 1)² ≈ T³/3;
    in a single pass s = n √(2 φ ρ/K)/osc; φ is the player's share. Then `direct_bound` is A √T + C T^-1.5 + sampling
    bias, with A = Σ ln d/s and C = Σ s spread²/8 over the players. The first two terms are equal at T* = √(C/A), where
    each is A^¾ C^¼, and their sum is smallest at √3 T*.
    """
    factor = 6 if batching == "full_batch" else 2
    scales = [
        n * math.sqrt(factor * share * rho / player.draws) / player.oscillation
        for player, share in zip(players, shares, strict=True)
    ]
    a = sum(player.log_vertices / scale for player, scale in zip(players, scales, strict=True))
    c = sum(scale * player.spread**2 / 8 for player, scale in zip(players, scales, strict=True))
    balanced_term, bias = a**0.75 * c**0.25, sampling_bias(players)
    smallest_sum = (3**0.25 + 3**-0.75) * balanced_term  # A √T and C T^-1.5 at √3 T*
    return Optimum(
        balanced_rounds=math.sqrt(c / a),
        balanced_bound=2 * balanced_term + bias,
        rounds=math.sqrt(3 * c / a),
        bound=smallest_sum + bias,
    )
