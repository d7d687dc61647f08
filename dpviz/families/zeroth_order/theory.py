"""Formulas that are known before a run: variances of estimates, noise of running sums, bounds on stationarity, rates.

Notation: d parameters, L Lipschitz constant, r smoothing radius, K epochs of T steps, D the longest move, m directions
per row, μ the budget, B₁ and B₂ rows of the first and of every later step of an epoch.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.special import gammaln

from dpviz.privacy.matrix_factorisation import (
    Factorisation,
    binary_tree,
    honaker_tree,
    independent,
    normalised_square_root,
    square_root,
)
from dpviz.privacy.optimal_sums import optimal_mean
from dpviz.problems.directions import Kind, spread

Sums = Literal["tree", "square_root", "normalised", "optimal", "honaker", "independent"]
OPTIMAL_LIVE = 512  # steps, 20 ms; above, the normalised square root is within 3 % of the optimum and takes no time
_PER_OCTAVE = 32  # sensitivities of the first leaf for which optimal sums are computed
# Of c = 1 - s + s', s and s' uniform: ‖w_t - w_{t-1}‖ is at most D c. Largest c and E c²; where batches have B₂ c rows,
# what counts is c/B₂ and c²/(B₂ c), hence 1 and E c = 1.
_APART, _APART_FOLLOWED = (2.0, 7 / 6), (1.0, 1.0)

# ------------------------------------------------------------------------------------------------------------ smoothing


def smoothness_factor(d: int) -> float:
    """κ_d: the smoothed function has a gradient with Lipschitz constant κ_d L/r. At most √d, about √(2d/π); exact."""
    return float(2 / math.sqrt(math.pi) * math.exp(gammaln(d / 2 + 1) - gammaln((d + 1) / 2)))


def smoothing_bias(d: int, lipschitz: float, radius: float) -> float:
    """rL d/(d+1): how far the smoothed function is from the function, at most."""
    return radius * lipschitz * d / (d + 1)


# ------------------------------------------------------------------------------------------------ variance of estimates


def single_moment(d: int, lipschitz: float) -> float:
    """E_a: largest second moment of (d/2r)(f(x + ru) - f(x - ru)); by Poincaré's inequality on the sphere."""
    return lipschitz**2 * (d**2 / (d - 1) if d > 1 else 1.0)


def slope_variance(kind: Kind, count: int, d: int, lipschitz: float) -> float:
    """Variance of one row's estimate of a gradient from m directions (Lemma 3.1), at most."""
    cross = lipschitz**2 * (1 - 1 / count) if kind == "iid" else 0.0
    return single_moment(d, lipschitz) / count + cross


def change_variance(kind: Kind, count: int, d: int, lipschitz: float, radius: float) -> float:
    """The same of a change of the gradient (Lemma 3.2), per squared distance of the two points."""
    cross = smoothness_factor(d) ** 2 * (1 - 1 / count) if kind == "iid" else 0.0
    return (lipschitz / radius) ** 2 * (d**2 / count + cross)


def slope_sensitivity(kind: Kind, count: int, d: int, clip: float, radius: float) -> float:
    """B times the most that replacing one row moves the estimate of a gradient whose differences are clipped."""
    return d / radius * clip * spread(kind, count)


def change_sensitivity(kind: Kind, count: int, d: int, clip: float, radius: float) -> float:
    """The same of an estimated change of the gradient."""
    return 2 * d / radius * clip * spread(kind, count)


# -------------------------------------------------------------------------------------------------------- the way taken


def path_radius(length: int, move: float, fresh_start: bool = True) -> float:
    """R_w = D (T-1)(T+2)/2T: how far a point of an epoch may be from the epoch's average; D/T less if the epoch begins
    at rest. Attained."""
    return move * ((length - 1) * (length + 2) / (2 * length) - fresh_start / length)


def reach(length: int, epochs: int, move: float, fresh_start: bool = True) -> float:
    """How far a run may get from its start; with a fresh start the first step of every epoch stays."""
    return epochs * (length - 1 if fresh_start else length) * move


# -------------------------------------------------------------------------------------------- noise of the running sums


def factorisation(sums: Sums, length: int, first: float = 1.0) -> Factorisation:
    """The running sums of an epoch. first : sensitivity of the first leaf relative to the others', which steers the
    optimal one. So that few have to be computed it is rounded, by 2 % at most, and up: sums that allow for a larger
    first leaf cost no more than that, while a leaf that is larger than they allow for costs noise in every step."""
    if sums == "optimal" and length <= OPTIMAL_LIVE:
        known = 0 < first < math.inf
        return optimal_mean(length, 2 ** (math.ceil(_PER_OCTAVE * math.log2(first)) / _PER_OCTAVE) if known else 1.0)
    makers = {
        "tree": binary_tree,
        "square_root": square_root,
        "normalised": normalised_square_root,
        "honaker": honaker_tree,
        "independent": independent,
        "optimal": normalised_square_root,  # of so many steps; within 3 %
    }
    return makers[sums](length)


@lru_cache(maxsize=1024)
def mean_variance(sums: Sums | Literal["published"], length: int) -> float:
    """ν_T: variance of the noise on a prefix, mean over the T steps, per coordinate, for sensitivity 1 and μ = 1.

    "published" : the binary tree with ⌈log₂ T⌉ + 1 levels, as the paper counts them.
    """
    if sums == "published":
        levels = math.ceil(math.log2(length)) + 1
        return levels * float(np.bitwise_count(np.arange(1, length + 1)).mean())
    return float((factorisation(sums, length).rms_error() ** 2).mean())


# --------------------------------------------------------------------------------------------------------------- bounds


@dataclass(frozen=True)
class Setting:
    """What a bound depends on. gap : bound on F(x₀) - inf F. kind, count : the directions of a row. follows : whether
    batches of the variance-reduced oracle follow the moves."""

    n: int
    d: int
    lipschitz: float
    radius: float
    gap: float
    mu: float
    kind: Kind
    count: int
    follows: bool = False

    @property
    def apart(self) -> tuple[float, float]:
        """How far two points are apart, in D: at most, and squared on average, per row of a batch of B₂."""
        return _APART_FOLLOWED if self.follows else _APART


@dataclass(frozen=True)
class Bound:
    """E ‖∇F(w̄)‖ within a radius of r + R_w is at most the sum of these three (THEORY.md, 5).

    error : e, the root mean square error of what the oracle returns.
    """

    travel: float
    regret: float
    oracle: float
    error: float

    @property
    def total(self) -> float:
        """The bound; from L on it says nothing."""
        return self.travel + self.regret + self.oracle


def _travel(setting: Setting, length: int, epochs: int, move: float) -> float:
    bias = smoothing_bias(setting.d, setting.lipschitz, setting.radius)
    return (setting.gap + bias) / (move * epochs * length)


def reduced_bound(
    setting: Setting, length: int, epochs: int, first: int, batch: int, move: float, variance: float
) -> Bound:
    """Of the variance-reduced oracle with running sums (Lemma 4.6, Theorem 4.9). variance : `mean_variance` of them.

    Errors depend on the past, so they count twice in full: Cauchy-Schwarz per step.
    """
    s, d, L, (farthest, squared) = setting, setting.d, setting.lipschitz, setting.apart
    sampling = slope_variance(s.kind, s.count, d, L) / first
    steps = change_variance(s.kind, s.count, d, L, s.radius) * squared * move**2 / batch
    largest = max(
        slope_sensitivity(s.kind, s.count, d, 2 * s.radius * L, s.radius) / first,
        change_sensitivity(s.kind, s.count, d, farthest * L * move, s.radius) / batch,
    )
    error = math.sqrt(sampling + (length - 1) / 2 * steps + d * (largest / s.mu) ** 2 * variance)
    return Bound(_travel(s, length, epochs, move), (L + error) / math.sqrt(length), 2 * error, error)


def naive_bound(setting: Setting, length: int, epochs: int, batch: int, move: float) -> Bound:
    """Of the naive oracle (Algorithm 6): what it returns has the right mean, whatever happened, so errors average."""
    s, d, L = setting, setting.d, setting.lipschitz
    change = slope_sensitivity(s.kind, s.count, d, 2 * s.radius * L, s.radius) / batch
    squared = slope_variance(s.kind, s.count, d, L) / batch + d * (change / s.mu) ** 2
    root = math.sqrt(length)
    return Bound(
        _travel(s, length, epochs, move),
        math.sqrt(L**2 + squared) / root,
        math.sqrt(squared) / root,
        math.sqrt(squared),
    )


# -------------------------------------------------------------------------------------------------------------- planner

_SHORTER = (2, 3, 4, 6, 7, 8, 12, 15, 16, 24, 31, 32, 48, 63, 64, 96, 127, 128, 192, 255, 256, 384, 511, 512, 768)
LENGTHS: tuple[int, ...] = (*_SHORTER, 1023, 1024)
_EPOCHS = 40  # of the grid


@dataclass(frozen=True)
class Best:
    """The epochs with the smallest bound: K of T steps, with batches of `first` and then `batch` rows."""

    bound: float
    length: int
    epochs: int
    first: int
    batch: int


def best_reduced(
    setting: Setting, sums: Sums | Literal["published"], lengths: tuple[int, ...] = LENGTHS, most: int | None = None
) -> Best:
    """Over T × K, D = r/T, half of an epoch's rows for its first step. Optimal sums are taken for the normalised
    square root, which is as good to 3 % and needs no search. most : steps of all epochs, one epoch at least."""
    table: Sums | Literal["published"] = "normalised" if sums in ("optimal", "normalised") else sums
    T, K = _grid(max(1, setting.n / 2), lengths, most)
    variance = np.array([mean_variance(table, length) for length in lengths])[:, None]
    bound, first, batch = reduced_grid(setting, setting.n // K, K, T, variance)
    return _best(bound, T, K, first, batch)


def best_naive(setting: Setting, lengths: tuple[int, ...] = LENGTHS, most: int | None = None) -> Best:
    """The same for the naive oracle, whose batches are all alike."""
    T, K = _grid(setting.n, lengths, most)
    bound, batch = naive_grid(setting, setting.n // K, K, T)
    return _best(bound, T, K, batch, batch)


def _grid(epochs: float, lengths: tuple[int, ...], most: int | None) -> tuple[np.ndarray, np.ndarray]:
    """T (t, 1), and K (t, k) up to that many epochs and steps."""
    T = np.array(lengths)[:, None]
    K = np.unique(np.rint(np.geomspace(1, epochs, _EPOCHS)).astype(int))[None]
    return T, np.broadcast_to(K, (len(T), K.size)) if most is None else np.minimum(K, np.maximum(1, most // T))


def reduced_grid(
    setting: Setting, per: np.ndarray, K: np.ndarray, T: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`reduced_bound` of arrays that broadcast, with inf where rows do not reach; and rows of the first and of every
    later step. per : rows of an epoch. variance : `mean_variance` of epochs of T steps."""
    s, d, L, (farthest, squared) = setting, setting.d, setting.lipschitz, setting.apart
    batch = (per // 2 + 1) // T - 1 if s.follows else per // (2 * T)
    first, move = per - (T * (batch + 1) - 1 if s.follows else (T - 1) * batch), s.radius / T
    with np.errstate(divide="ignore", invalid="ignore"):
        sampling = slope_variance(s.kind, s.count, d, L) / first
        steps = change_variance(s.kind, s.count, d, L, s.radius) * squared * move**2 / batch
        largest = np.maximum(
            slope_sensitivity(s.kind, s.count, d, 2 * s.radius * L, s.radius) / first,
            change_sensitivity(s.kind, s.count, d, farthest * L, s.radius) * move / batch,
        )
        error = np.sqrt(sampling + (T - 1) / 2 * steps + d * (largest / s.mu) ** 2 * variance)
        travel = (s.gap + smoothing_bias(d, L, s.radius)) / (s.radius * K)
        bound = np.where(batch >= 1, travel + (L + error) / np.sqrt(T) + 2 * error, np.inf)
    return bound, first, batch


def naive_grid(setting: Setting, per: np.ndarray, K: np.ndarray, T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`naive_bound` in the same way, and rows of every step."""
    s, d, L = setting, setting.d, setting.lipschitz
    batch = per // T
    with np.errstate(divide="ignore", invalid="ignore"):
        change = slope_sensitivity(s.kind, s.count, d, 2 * s.radius * L, s.radius) / batch
        squared = slope_variance(s.kind, s.count, d, L) / batch + d * (change / s.mu) ** 2
        travel = (s.gap + smoothing_bias(d, L, s.radius)) / (s.radius * K)
        bound = travel + (np.sqrt(L**2 + squared) + np.sqrt(squared)) / np.sqrt(T)
    return np.where(batch >= 1, bound, np.inf), batch


def _best(bound: np.ndarray, T: np.ndarray, K: np.ndarray, first: np.ndarray, batch: np.ndarray) -> Best:
    i, j = np.unravel_index(int(bound.argmin()), bound.shape)
    rows = (int(np.broadcast_to(sizes, bound.shape)[i, j]) for sizes in (first, batch))
    return Best(float(bound[i, j]), int(T[i, 0]), int(K[i, j]), *rows)


def crossover(sums: Sums | Literal["published"], length: int, follows: bool = False) -> float:
    """Private error of the running sums over that of the naive oracle, at equal rows and directions, D = r/T: below 1
    they pay. 8 √(ν_T / T), or 4 if batches follow the moves."""
    return (4 if follows else 8) * math.sqrt(mean_variance(sums, length) / length)


# ------------------------------------------------------------------------------------------------------ data complexity


def published_rows(d: int, lipschitz: float, gap: float, radius: float, accuracy: float, mu: float) -> float:
    """M, the rows that the paper's rate asks for, without constants and logarithms: dL²F*/(δε³) + d^1.5 LF*/(μδε²)."""
    rate = d * lipschitz**2 * gap / (radius * accuracy**3)
    return rate + d**1.5 * lipschitz * gap / (mu * radius * accuracy**2)


def free_privacy(d: int, lipschitz: float, accuracy: float, kind: Kind = "iid") -> float:
    """From this μ on the private term of the rate is the smaller one: √d ε/L; with orthonormal directions ε/L."""
    return (math.sqrt(d) if kind == "iid" else 1.0) * accuracy / lipschitz
