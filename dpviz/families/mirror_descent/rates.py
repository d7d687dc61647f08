"""The paper's privacy accounting, error bound, parameter settings and rates, for comparison.

Source: González, Guzmán, Paquette (arXiv 2403.02912), Table 1, Theorems 4.1-5.1 and G.1, Propositions 4.1, E.1 and F.1,
with constants restored where the paper leaves them open (THEORY.md, sections 4.2 and 5). n records, T rounds,
K draws per player and round, B records per batch; ℓ = ln d_x + ln d_y, Λ = ln(1/δ), a = ℓ^1.5 √Λ/(n ε).
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
from dpviz.privacy.accounting.closed_forms import advanced_draw

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
    """Return the paper's step-size cap B ε/(16 L0 √(T K ln(1/δ))), Prop. 4.1: 2TK draws, each 4 L0 τ/B-DP.

    draws : K; where the players' differ, their mean."""
    k = 2 * draws * np.asarray(rounds, float)
    return np.asarray(advanced_draw(epsilon, k, delta) * np.asarray(batch, float) / (4 * lipschitz))


def tau_paper_anytime(batch: int, epsilon: float, delta: float, lipschitz: float, draws: ArrayLike) -> Floats:
    """Return the paper's cap of the lazy anytime method, Prop. F.1, for `draws` draws in all; a draw is counted as 8 L0
    τ/B-DP, twice its cost (E4)."""
    return np.asarray(advanced_draw(epsilon, draws, delta) * batch / (8 * lipschitz))


def tau_paper_bias_reduced(stop: ArrayLike, batch: int, epsilon: float, delta: float, lipschitz: float) -> Floats:
    """Return the paper's cap with the bias-reduced oracle, Prop. E.1: at most 6U draws, U = stop, each 20 L0 τ/B-DP,
    under a filter for pure ε; valid for ε <= 8 ln(1/δ)."""
    draws = 6 * np.asarray(stop, float)
    return np.asarray(batch * epsilon / (20 * lipschitz * np.sqrt(8 * draws * math.log(1 / delta))))


def tau_paper_synthetic(rounds: ArrayLike, n: int, epsilon: float, delta: float, draws: int = 1) -> Floats:
    """Return the paper's cap for synthetic data, n ε/(4√2 T^1.5 √(K ln(1/δ))): every round at the last one's range
    (E12)."""
    rounds = np.asarray(rounds, float)
    return np.asarray(advanced_draw(epsilon, rounds * draws, delta) * n / (2 * rounds))


def paper_bound(
    log_vertices: tuple[float, float],
    step_size: ArrayLike,
    rounds: ArrayLike,
    draws: ArrayLike,
    constants: tuple[float, float, float],
) -> Floats:
    """Return the gap bound by the paper's analysis, section 5: equal steps, fresh output draws.

    2 ℓ/(τT) + 5 τ L0² + 4 b + 2√2 L1 (√ln d_x + √ln d_y)/√(TK) + 4 L1/(TK), b the gradient bias of two simplices.
    constants : L0, L1, L2; L2 = inf for a first-order smooth objective.
    """
    (first, second), (lipschitz, smoothness, curvature) = log_vertices, constants
    step_size, rounds, draws = (np.asarray(value, float) for value in (step_size, rounds, draws))
    bias = 4 * maurey_gradient_bias(smoothness, curvature, draws, simplices=2)
    with np.errstate(divide="ignore"):  # no record left for a batch: no step
        regret = 2 * (first + second) / (step_size * rounds) + 5 * step_size * lipschitz**2
    return np.asarray(regret + bias + fresh_output_term(log_vertices, smoothness, rounds * draws))


def fresh_output_term(log_vertices: tuple[float, float], smoothness: float, draws: ArrayLike) -> Floats:
    """Return 2√2 L1 (√ln d_x + √ln d_y)/√N + 4 L1/N, a bound on what averages of N vertices drawn afresh add to the gap
    of the averages x̄, ȳ that they are drawn from (Lemma 4.2, by entropic smoothing of the best answers)."""
    roots, draws = math.fsum(math.sqrt(value) for value in log_vertices), np.asarray(draws, float)
    return np.asarray(2 * math.sqrt(2) * smoothness * roots / np.sqrt(draws) + 4 * smoothness / draws)


# ------------------------------------------------------------------------------------------------- settings and rates


@dataclass(frozen=True)
class Previous:
    """Best rate before the paper, with unit constants and without logarithms of n; and its source."""

    rate: float
    source: str


@dataclass(frozen=True)
class Setting:
    """Row of the paper's table with unit constants.

    rounds T (rounded mean where it is random), draws K, batch B, step_size; stop and level: U and M of the bias-reduced
    method; refresh and output_draws: U and K_out of the anytime method; None where the method has no such parameter,
    everywhere for the lower bound. statistical_rate, private_rate : the two terms of the error.
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
    """Numbers that the table depends on.

    d_y = 1 for minimisation over one simplex. lipschitz, smoothness, curvature : L0, L1, L2; L2 = inf if there is none.
    bilinear : True if the objective is linear in each player.
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
        """ℓ^1.5 √Λ/(n ε), whose powers are the private rates."""
        return self.log_vertices**1.5 * math.sqrt(self.log_odds) / (self.n * self.epsilon)


def settings(sizes: Sizes) -> tuple[Setting, ...]:
    """Return all rows whose smoothness assumption holds, in the order of the paper's Table 1, and the lower bound."""
    second_order = sizes.curvature < math.inf
    nearly_quadratic = sizes.curvature <= (sizes.lipschitz + sizes.smoothness) * math.sqrt(sizes.a)
    rows = [sampling_setting(sizes, "bilinear")] if nearly_quadratic else []
    rows += [sampling_setting(sizes, "second_order")] if second_order else []
    rows += [sampling_setting(sizes, "first_order")]
    rows += [bias_reduced_setting(sizes), anytime_setting(sizes, "anytime_second_order")] if second_order else []
    rows += [anytime_setting(sizes, "anytime_first_order"), lower_bound(sizes)]
    return tuple(rows)


def euclidean_before(sizes: Sizes) -> Previous:
    """Return the rate of noisy extragradient on simplices: its optimal rate in ℓ₂, 1/√n + √(d Λ)/(n ε) (Boob and Guzmán
    2024, Mathematical Programming 204), times √d, as gradients there have length L₀ √d, for d = d_x + d_y."""
    d = sizes.d_x + sizes.d_y
    rate = math.sqrt(d / sizes.n) + d * math.sqrt(sizes.log_odds) / (sizes.n * sizes.epsilon)
    return Previous(rate, "Boob, Guzmán 2024, in ℓ₂")


def minimisation_before(sizes: Sizes) -> Previous:
    """Return √(ln d/n) + the smaller of (ln d √Λ/(n ε))^⅔, one pass of private Frank-Wolfe on smooth losses, and √(d
    Λ)/(n ε), private regularised mirror descent on any loss (Asi, Feldman, Koren, Talwar 2021, up to logarithms)."""
    ell, root_odds, signal = sizes.log_vertices, math.sqrt(sizes.log_odds), sizes.n * sizes.epsilon
    frank_wolfe, descent = (ell * root_odds / signal) ** (2 / 3), math.sqrt(sizes.d_x) * root_odds / signal
    return Previous(_statistical_rate(sizes) + min(frank_wolfe, descent), "Asi et al. 2021")


def queries_before(n: int, cells: int, queries: int, epsilon: float, delta: float) -> Previous:
    """Return √(ln q/n) + (ln |Z| Λ)^¼ √(ln q)/√(n ε), the rate of private multiplicative weights for q linear queries
    (Hardt, Rothblum 2010). It is that of Theorem G.1, and of the paper in matrix games, which are such queries."""
    root = (math.log(cells) * math.log(1 / delta)) ** 0.25
    rate = math.sqrt(math.log(queries) / n) + root * math.sqrt(math.log(queries) / (n * epsilon))
    return Previous(rate, "Hardt, Rothblum 2010")


def previous(sizes: Sizes, result: Result) -> Previous | None:
    """Return the best rate before the paper for a row of the table; None for the lower bound.

    Of games, only bilinear ones had a rate that grows with ln d alone.
    """
    if result == "lower_bound":
        return None
    if sizes.d_y == 1 or result in ("anytime_second_order", "anytime_first_order"):
        return minimisation_before(sizes)
    if sizes.bilinear:
        return queries_before(sizes.n, sizes.d_x, sizes.d_y, sizes.epsilon, sizes.delta)
    return euclidean_before(sizes)


def _count(value: float, minimum: int = 1) -> int:
    return max(minimum, round(value))


def _statistical_rate(sizes: Sizes) -> float:
    return math.sqrt(sizes.log_vertices / sizes.n)


def sampling_setting(sizes: Sizes, result: Literal["bilinear", "second_order", "first_order"]) -> Setting:
    """Return the setting of Theorems 4.1 and 4.2, mirror descent with vertex sampling in a single pass.

    K = 1, √(T/ℓ) or T/ℓ, chosen so that regret, bias and the privacy cap of τ balance. "bilinear" needs L2 of at most
    about (L0 + L1) √a.
    """
    ell, odds, signal = sizes.log_vertices, sizes.log_odds, sizes.n * sizes.epsilon
    theorem, power, rounds, draws_power = {
        "bilinear": ("Theorem 4.1, quadratic", 1 / 2, signal / math.sqrt(ell * odds), 0.0),
        "second_order": ("Theorem 4.1", 2 / 5, signal**0.8 / (ell**0.2 * odds**0.4), 0.5),
        "first_order": ("Theorem 4.2", 1 / 3, signal ** (2 / 3) / odds ** (1 / 3), 1.0),
    }[result]
    t = min(sizes.n, _count(rounds, minimum=2))
    draws, batch = _count((t / ell) ** draws_power), sizes.n // t
    cap = float(tau_paper(t, batch, sizes.epsilon, sizes.delta, sizes.lipschitz, draws))
    step = min(math.sqrt(ell / t) / sizes.lipschitz, cap)
    return Setting(result, theorem, _statistical_rate(sizes), sizes.a**power, t, draws, batch, step)


def bias_reduced_setting(sizes: Sizes) -> Setting:
    """Return the setting of Theorem 4.3, the bias-reduced oracle with random stopping, at constant probability, without
    the logarithmic factors."""
    signal, root_odds = sizes.n * sizes.epsilon, math.sqrt(sizes.log_odds)
    batch = min(sizes.n, math.ceil(max(1.0, root_odds / sizes.epsilon)))
    stop = sizes.n // batch
    level = largest_level(stop)
    cap = float(tau_paper_bias_reduced(stop, batch, sizes.epsilon, sizes.delta, sizes.lipschitz))
    return Setting(
        "bias_reduced",
        "Theorem 4.3",
        sizes.log_vertices / math.sqrt(sizes.n),
        sizes.log_vertices * math.sqrt(root_odds / signal),
        rounds=_count(stop / mean_batches(level)),
        batch=batch,
        step_size=min(1 / (sizes.lipschitz * math.sqrt(stop)), cap),
        stop=stop,
        level=level,
    )


def anytime_setting(sizes: Sizes, result: Literal["anytime_second_order", "anytime_first_order"]) -> Setting:
    """Return the setting of Theorem 5.1, minimisation over one simplex by anytime averages and lazy refreshes; one of
    several choices of K and of the refresh period that balance."""
    ell, odds, signal = sizes.log_vertices, sizes.log_odds, sizes.n * sizes.epsilon
    if result == "anytime_second_order":
        rounds, private_rate = signal / (ell * math.sqrt(odds)), ell * odds**0.25 / math.sqrt(signal)
    else:
        rounds, private_rate = (signal**2 / (ell * odds)) ** 0.4, ell**0.7 * odds**0.2 / signal**0.4
    t = min(sizes.n, _count(rounds, minimum=2))
    if result == "anytime_second_order":
        draws, refresh = _count(math.sqrt(ell * t)), _count(math.sqrt(t / ell) / 4)
    else:
        draws, refresh = _count(t / ell), _count(math.sqrt(t) / ell)
    batch, output_draws = sizes.n // t, _count(math.sqrt(t / ell))
    total_draws = anytime_draws(t, draws, refresh, output_draws)
    cap = float(tau_paper_anytime(batch, sizes.epsilon, sizes.delta, sizes.lipschitz, total_draws))
    return Setting(
        result,
        "Theorem 5.1" + (", first order" if result == "anytime_first_order" else ""),
        _statistical_rate(sizes),
        private_rate,
        t,
        draws,
        batch,
        min(math.sqrt(ell / t) / sizes.lipschitz, cap),
        refresh=refresh,
        output_draws=output_draws,
    )


def synthetic_setting(n: int, cells: int, queries: int, epsilon: float, delta: float) -> Setting:
    """Return the setting of Theorem G.1, synthetic data over a domain of `cells` that answers `queries`; `step_size` is
    that of the player on the queries."""
    log_cells, log_queries, odds = math.log(cells), math.log(queries), math.log(1 / delta)
    t = _count(n * epsilon * math.sqrt(log_cells) / (log_queries * math.sqrt(odds)), minimum=2)
    cap = float(tau_paper_synthetic(t, n, epsilon, delta))
    return Setting(
        "synthetic",
        "Theorem G.1",
        math.sqrt(log_queries / n),
        (log_cells * odds) ** 0.25 * math.sqrt(log_queries / (n * epsilon)),
        rounds=t,
        draws=1,
        batch=n,
        step_size=min(math.sqrt(math.log(2 * queries) / t), cap),
    )


def lower_bound(sizes: Sizes) -> Setting:
    """Return the lower bound on the error of every private algorithm, up to constants: √(ℓ/n) + ℓ^¾/√(n ε); here its
    second term is multiplied by Λ^¼, as in the upper bounds, so that the table compares like with like."""
    return Setting("lower_bound", "Lower bound", _statistical_rate(sizes), math.sqrt(sizes.a))
