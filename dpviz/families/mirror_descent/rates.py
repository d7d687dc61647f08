"""The paper's privacy accounting, error bound, parameter settings and rates, to compare with.

Source: González, Guzmán, Paquette (arXiv 2403.02912), Table 1, Theorems 4.1-5.1 and G.1, Propositions 4.1, E.1 and F.1,
with constants restored where the paper leaves them open (THEORY.md, sections 4.2 and 5; E4, E12: its errata).

Symbols: n records, d_x and d_y vertices, T rounds, K draws per player and round, B records per batch, τ step size;
ℓ = ln d_x + ln d_y, Λ = ln(1/δ), a = ℓ^1.5 √Λ/(n ε). L0, L1 and L2 bound the partial derivatives of one record's
objective, their change per unit of l1 distance, and that of the second derivatives.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dpviz.families.mirror_descent.theory import (
    Floats,
    anytime_draws,
    largest_level,
    maurey_gradient_bias,
    mean_batches,
)
from dpviz.privacy.accounting.closed_forms import advanced_step_epsilon

Result = Literal[
    "bilinear",
    "second_order",
    "first_order",
    "bias_reduced",
    "anytime_second_order",
    "anytime_first_order",
    "synthetic",
    "lower_bound",
]

# ----------------------------------------------------------------------------------------------- the paper's accounting


def tau_paper(
    rounds: ArrayLike, batch: ArrayLike, epsilon: float, delta: float, lipschitz: float, draws: float = 1
) -> Floats:
    """Return the largest step size of vertex sampling by the paper, B ε/(16 L0 √(T K ln(1/δ))) (Proposition 4.1).

    It follows from advanced composition of 2TK draws, each of them 4 L0 τ/B-DP. draws : K; if the players have
    different numbers of draws, their mean.
    """
    total_draws = 2 * draws * np.asarray(rounds, float)
    epsilon_of_draw = advanced_step_epsilon(epsilon, total_draws, delta)  # ε/√(8 · 2TK ln(1/δ))
    return np.asarray(epsilon_of_draw * np.asarray(batch, float) / (4 * lipschitz))


def tau_paper_anytime(batch: int, epsilon: float, delta: float, lipschitz: float, draws: ArrayLike) -> Floats:
    """Return the largest step size of the lazy anytime method by the paper (Proposition F.1). draws : in the whole run.

    Each draw is counted as 8 L0 τ/B-DP, which is twice its cost (E4).
    """
    epsilon_of_draw = advanced_step_epsilon(epsilon, draws, delta)
    return np.asarray(epsilon_of_draw * batch / (8 * lipschitz))


def tau_paper_bias_reduced(stop: ArrayLike, batch: int, epsilon: float, delta: float, lipschitz: float) -> Floats:
    """Return the largest step size with the bias-reduced oracle by the paper, B ε/(20 L0 √(8 · 6U ln(1/δ)))
    (Proposition E.1).

    stop : U, which bounds the random stop. There are at most 6U draws of both players, each of them 20 L0 τ/B-DP, under
    a filter that stops where the squares of their ε add up to ε²/(8 ln(1/δ)). Valid for ε <= 8 ln(1/δ).
    """
    draws = 6 * np.asarray(stop, float)
    return np.asarray(batch * epsilon / (20 * lipschitz * np.sqrt(8 * draws * math.log(1 / delta))))


def tau_paper_synthetic(rounds: ArrayLike, n: int, epsilon: float, delta: float, draws: int = 1) -> Floats:
    """Return the largest step size of y for synthetic data by the paper, n ε/(4√2 T^1.5 √(K ln(1/δ))).

    Every draw is counted as 2 τ T/n-DP, the range in the last round, though ranges grow from 0 (E12). draws : K.
    """
    rounds = np.asarray(rounds, float)
    epsilon_of_draw = advanced_step_epsilon(epsilon, rounds * draws, delta)
    return np.asarray(epsilon_of_draw * n / (2 * rounds))


def paper_bound(
    log_vertices: tuple[float, float],
    step_size: ArrayLike,
    rounds: ArrayLike,
    draws: ArrayLike,
    constants: tuple[float, float, float],
) -> Floats:
    """Return the bound on the expected gap by the paper's analysis (THEORY.md, section 5, item 7):

    2 ℓ/(τT) + 5 τ L0² + 4 b + 2√2 L1 (√ln d_x + √ln d_y)/√(TK) + 4 L1/(TK), with b the gradient bias of two simplices.

    It is for equal step sizes τ of both players, and an output that is drawn afresh. log_vertices : ln d_x, ln d_y.
    draws : K. constants : L0, L1, L2; L2 = inf if only first derivatives are smooth.
    """
    lipschitz, smoothness, curvature = constants
    step_size, rounds, draws = (np.asarray(value, float) for value in (step_size, rounds, draws))
    bias = 4 * maurey_gradient_bias(smoothness, curvature, draws, simplices=2)
    with np.errstate(divide="ignore"):  # the step size is 0 if no record is left for a batch
        regret = 2 * sum(log_vertices) / (step_size * rounds) + 5 * step_size * lipschitz**2
    return np.asarray(regret + bias + fresh_output_term(log_vertices, smoothness, rounds * draws))


def fresh_output_term(log_vertices: tuple[float, float], smoothness: float, draws: ArrayLike) -> Floats:
    """Return 2√2 L1 (√ln d_x + √ln d_y)/√N + 4 L1/N, which bounds how much larger the expected gap is at averages of N
    vertices drawn afresh than at the strategies x̄, ȳ that they are drawn from (Lemma 4.2, by entropic smoothing of the
    best answers). draws : N, of each player."""
    sum_of_roots, draws = math.fsum(math.sqrt(value) for value in log_vertices), np.asarray(draws, float)
    return np.asarray(2 * math.sqrt(2) * smoothness * sum_of_roots / np.sqrt(draws) + 4 * smoothness / draws)


# ------------------------------------------------------------------------------------------------- settings and rates


@dataclass(frozen=True)
class PreviousRate:
    """The best error rate that was known before the paper, with unit constants and without logarithms of n, and its
    source."""

    rate: float
    source: str


@dataclass(frozen=True)
class TheoremParameters:
    """A row of the paper's table, evaluated with unit constants: a method's parameters and the error that they reach.

    statistical_rate, private_rate : the term of the error that remains without privacy, and the term that privacy adds.
    rounds : T; its rounded mean where it is random. draws : K. batch : B. step_size : τ. stop, level : U and M of the
    bias-reduced method. refresh, output_draws : U and K_out of the anytime method. A parameter is None if the method
    does not have it; the lower bound has none.
    """

    result: Result
    theorem: str
    statistical_rate: float
    private_rate: float
    rounds: int | None = None
    draws: int | None = None
    batch: int | None = None
    step_size: float | None = None
    stop: int | None = None
    level: int | None = None
    refresh: int | None = None
    output_draws: int | None = None

    @property
    def rate(self) -> float:
        """Sum of both terms of the error."""
        return self.statistical_rate + self.private_rate


@dataclass(frozen=True)
class Sizes:
    """Numbers on which the table depends.

    d_x, d_y : vertices of the players; d_y = 1 for minimisation over one simplex. lipschitz, smoothness, curvature :
    L0, L1, L2; L2 = inf if second derivatives are not smooth. bilinear : True if the objective is linear in each
    player.
    """

    n: int
    d_x: int
    d_y: int
    epsilon: float
    delta: float
    lipschitz: float = 1.0
    smoothness: float = 1.0
    curvature: float = 0.0
    bilinear: bool = False

    @property
    def log_vertices(self) -> float:
        """ℓ = ln d_x + ln d_y."""
        return math.log(self.d_x) + math.log(self.d_y)

    @property
    def log_odds(self) -> float:
        """Λ = ln(1/δ)."""
        return math.log(1 / self.delta)

    @property
    def a(self) -> float:
        """ℓ^1.5 √Λ/(n ε), whose powers are the private terms of the error."""
        return self.log_vertices**1.5 * math.sqrt(self.log_odds) / (self.n * self.epsilon)


def table_rows(sizes: Sizes) -> tuple[TheoremParameters, ...]:
    """Return all rows of the paper's Table 1, in its order, whose smoothness assumption holds, and the lower bound."""
    second_order = sizes.curvature < math.inf
    # What Theorem 4.1 asks of L2 for its row "quadratic".
    nearly_quadratic = sizes.curvature <= (sizes.lipschitz + sizes.smoothness) * math.sqrt(sizes.a)
    rows = [sampling_setting(sizes, "bilinear")] if nearly_quadratic else []
    rows += [sampling_setting(sizes, "second_order")] if second_order else []
    rows += [sampling_setting(sizes, "first_order")]
    rows += [bias_reduced_setting(sizes), anytime_setting(sizes, "anytime_second_order")] if second_order else []
    rows += [anytime_setting(sizes, "anytime_first_order"), lower_bound(sizes)]
    return tuple(rows)


def previous_euclidean_rate(sizes: Sizes) -> PreviousRate:
    """Return the rate of noisy extragradient on simplices, √(d/n) + d √Λ/(n ε) with d = d_x + d_y.

    It is the optimal rate in the Euclidean norm, 1/√n + √(d Λ)/(n ε) (Boob and Guzmán 2024, Mathematical Programming
    204), times √d, because gradients on simplices have Euclidean lengths up to L₀ √d.
    """
    d = sizes.d_x + sizes.d_y
    rate = math.sqrt(d / sizes.n) + d * math.sqrt(sizes.log_odds) / (sizes.n * sizes.epsilon)
    return PreviousRate(rate, "Boob, Guzmán 2024, in ℓ₂")


def previous_minimisation_rate(sizes: Sizes) -> PreviousRate:
    """Return the rate for minimisation over one simplex by Asi, Feldman, Koren and Talwar 2021, up to logarithms:
    √(ln d/n) plus the smaller of two private terms.

    They are (ln d √Λ/(n ε))^⅔ of one pass of private Frank-Wolfe on smooth losses, and √(d Λ)/(n ε) of private
    regularised mirror descent on any loss.
    """
    ell, root_odds, signal = sizes.log_vertices, math.sqrt(sizes.log_odds), sizes.n * sizes.epsilon
    frank_wolfe = (ell * root_odds / signal) ** (2 / 3)
    mirror_descent = math.sqrt(sizes.d_x) * root_odds / signal
    return PreviousRate(_statistical_rate(sizes) + min(frank_wolfe, mirror_descent), "Asi et al. 2021")


def previous_query_rate(n: int, cells: int, queries: int, epsilon: float, delta: float) -> PreviousRate:
    """Return the rate of private multiplicative weights for q linear queries on a histogram with |Z| cells (Hardt,
    Rothblum 2010): √(ln q/n) + (ln |Z| Λ)^¼ √(ln q)/√(n ε), Λ = ln(1/δ).

    It is also that of the paper's Theorem G.1, and of the paper in matrix games, where y's strategies are such queries
    about x.
    """
    fourth_root = (math.log(cells) * math.log(1 / delta)) ** 0.25
    rate = math.sqrt(math.log(queries) / n) + fourth_root * math.sqrt(math.log(queries) / (n * epsilon))
    return PreviousRate(rate, "Hardt, Rothblum 2010")


def previous_rate(sizes: Sizes, result: Result) -> PreviousRate | None:
    """Return the best rate before the paper for a row of the table, named by `result`; None for the lower bound.

    Among games, only bilinear ones had a rate that depends on d through ln d alone.
    """
    if result == "lower_bound":
        return None
    if sizes.d_y == 1 or result in ("anytime_second_order", "anytime_first_order"):
        return previous_minimisation_rate(sizes)
    if sizes.bilinear:
        return previous_query_rate(sizes.n, sizes.d_x, sizes.d_y, sizes.epsilon, sizes.delta)
    return previous_euclidean_rate(sizes)


def _count(value: float, minimum: int = 1) -> int:
    """Return a formula's value as a number of rounds or draws: rounded, and at least `minimum`."""
    return max(minimum, round(value))


def _statistical_rate(sizes: Sizes) -> float:
    """Return √(ℓ/n), the error without privacy."""
    return math.sqrt(sizes.log_vertices / sizes.n)


def sampling_setting(sizes: Sizes, result: Literal["bilinear", "second_order", "first_order"]) -> TheoremParameters:
    """Return the setting of Theorems 4.1 and 4.2, mirror descent with vertex sampling in a single pass.

    The theorems choose T, and K = 1, √(T/ℓ) or T/ℓ, so that regret, sampling bias and the privacy cap of τ balance; the
    private term of the error is a^½, a^⅖ or a^⅓. "bilinear" needs L2 of at most about (L0 + L1) √a.
    """
    ell, odds, signal = sizes.log_vertices, sizes.log_odds, sizes.n * sizes.epsilon
    theorem, rate_power, best_rounds, draws_power = {
        "bilinear": ("Theorem 4.1, quadratic", 1 / 2, signal / math.sqrt(ell * odds), 0.0),
        "second_order": ("Theorem 4.1", 2 / 5, signal**0.8 / (ell**0.2 * odds**0.4), 0.5),
        "first_order": ("Theorem 4.2", 1 / 3, signal ** (2 / 3) / odds ** (1 / 3), 1.0),
    }[result]
    rounds = min(sizes.n, _count(best_rounds, minimum=2))
    draws, batch = _count((rounds / ell) ** draws_power), sizes.n // rounds
    cap = float(tau_paper(rounds, batch, sizes.epsilon, sizes.delta, sizes.lipschitz, draws))
    step = min(math.sqrt(ell / rounds) / sizes.lipschitz, cap)
    private_rate = sizes.a**rate_power
    return TheoremParameters(
        result, theorem, _statistical_rate(sizes), private_rate, rounds=rounds, draws=draws, batch=batch, step_size=step
    )


def bias_reduced_setting(sizes: Sizes) -> TheoremParameters:
    """Return the setting of Theorem 4.3, the bias-reduced oracle with random stopping: B = √Λ/ε and U = n/B.

    The theorem holds with constant probability; its logarithmic factors are left out.
    """
    signal, root_odds = sizes.n * sizes.epsilon, math.sqrt(sizes.log_odds)
    batch = min(sizes.n, math.ceil(max(1.0, root_odds / sizes.epsilon)))
    stop = sizes.n // batch
    level = largest_level(stop)
    cap = float(tau_paper_bias_reduced(stop, batch, sizes.epsilon, sizes.delta, sizes.lipschitz))
    return TheoremParameters(
        "bias_reduced",
        "Theorem 4.3",
        statistical_rate=sizes.log_vertices / math.sqrt(sizes.n),
        private_rate=sizes.log_vertices * math.sqrt(root_odds / signal),
        rounds=_count(stop / mean_batches(level)),
        batch=batch,
        step_size=min(1 / (sizes.lipschitz * math.sqrt(stop)), cap),
        stop=stop,
        level=level,
    )


def anytime_setting(sizes: Sizes, result: Literal["anytime_second_order", "anytime_first_order"]) -> TheoremParameters:
    """Return the setting of Theorem 5.1, minimisation over one simplex by anytime averages and lazy refreshes.

    K, U and K_out are one of several choices that balance the terms of the error.
    """
    ell, odds, signal = sizes.log_vertices, sizes.log_odds, sizes.n * sizes.epsilon
    if result == "anytime_second_order":
        theorem, private_rate = "Theorem 5.1", ell * odds**0.25 / math.sqrt(signal)
        rounds = min(sizes.n, _count(signal / (ell * math.sqrt(odds)), minimum=2))
        draws, refresh = _count(math.sqrt(ell * rounds)), _count(math.sqrt(rounds / ell) / 4)
    else:
        theorem, private_rate = "Theorem 5.1, first order", ell**0.7 * odds**0.2 / signal**0.4
        rounds = min(sizes.n, _count((signal**2 / (ell * odds)) ** 0.4, minimum=2))
        draws, refresh = _count(rounds / ell), _count(math.sqrt(rounds) / ell)
    batch, output_draws = sizes.n // rounds, _count(math.sqrt(rounds / ell))
    total_draws = anytime_draws(rounds, draws, refresh, output_draws)
    cap = float(tau_paper_anytime(batch, sizes.epsilon, sizes.delta, sizes.lipschitz, draws=total_draws))
    return TheoremParameters(
        result,
        theorem,
        _statistical_rate(sizes),
        private_rate,
        rounds=rounds,
        draws=draws,
        batch=batch,
        step_size=min(math.sqrt(ell / rounds) / sizes.lipschitz, cap),
        refresh=refresh,
        output_draws=output_draws,
    )


def synthetic_setting(n: int, cells: int, queries: int, epsilon: float, delta: float) -> TheoremParameters:
    """Return the setting of Theorem G.1: synthetic data over a domain of |Z| = `cells` cells that answers q = `queries`
    queries. `step_size` is that of the player that draws queries; it has each with both signs, hence 2q vertices."""
    log_cells, log_queries, odds = math.log(cells), math.log(queries), math.log(1 / delta)
    rounds = _count(n * epsilon * math.sqrt(log_cells) / (log_queries * math.sqrt(odds)), minimum=2)
    cap = float(tau_paper_synthetic(rounds, n, epsilon, delta))
    return TheoremParameters(
        "synthetic",
        "Theorem G.1",
        statistical_rate=math.sqrt(log_queries / n),
        private_rate=(log_cells * odds) ** 0.25 * math.sqrt(log_queries / (n * epsilon)),
        rounds=rounds,
        draws=1,
        batch=n,
        step_size=min(math.sqrt(math.log(2 * queries) / rounds), cap),
    )


def lower_bound(sizes: Sizes) -> TheoremParameters:
    """Return the lower bound on the error of every private algorithm, up to constants: √(ℓ/n) + ℓ^¾/√(n ε).

    Its second term is multiplied by Λ^¼ here, which makes it √a, so that it can be compared with the upper bounds.
    """
    return TheoremParameters("lower_bound", "Lower bound", _statistical_rate(sizes), math.sqrt(sizes.a))
