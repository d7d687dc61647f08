"""Formulas that need no run: variances of estimates, noise of running sums, bounds on stationarity, rates.

Notation: d parameters, L Lipschitz constant, r smoothing radius, K epochs of T steps, D the longest move, m directions
per row, μ the budget, B₁ and B₂ rows of the first and of every later step of an epoch.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from scipy.special import gammaln

from dpviz.privacy import matrix_factorisation
from dpviz.privacy.optimal_sums import optimal_mean
from dpviz.problems.values.value_problem import Kind, spread

Sums = Literal["published", "tree", "square_root", "normalised", "optimal", "honaker", "independent"]
OPTIMAL_LIVE = 512  # steps, 20 ms; above, the normalised square root is within 3 % of the optimum and takes no time
_PER_OCTAVE = 32  # sensitivities of the first leaf for which optimal sums are computed
# ‖w_t - w_{t-1}‖ is at most D c, c = 1 - s + s', s and s' uniform. Here are the largest c and E c²; where batches have
# B₂ c rows, c/(B₂ c) and c²/(B₂ c) count instead, hence 1 and E c = 1.
_APART, _APART_FOLLOWED = (2.0, 7 / 6), (1.0, 1.0)

# ------------------------------------------------------------------------------------------------------------ smoothing


def smoothness_factor(d: int) -> float:
    """Return κ_d: the smoothed function has a gradient with Lipschitz constant κ_d L/r. At most √d, about √(2d/π);
    exact."""
    return float(2 / math.sqrt(math.pi) * math.exp(gammaln(d / 2 + 1) - gammaln((d + 1) / 2)))


def smoothing_bias(d: int, lipschitz: float, radius: float) -> float:
    """Return rL d/(d+1), the largest difference between the smoothed function and the function."""
    return radius * lipschitz * d / (d + 1)


# ------------------------------------------------------------------------------------------------ variance of estimates


def single_moment(d: int, lipschitz: float) -> float:
    """Return E_a, the largest second moment of (d/2r)(f(x + ru) - f(x - ru)); by Poincaré's inequality on the
    sphere."""
    return lipschitz**2 * (d**2 / (d - 1) if d > 1 else 1.0)


def slope_variance(kind: Kind, count: int, d: int, lipschitz: float) -> float:
    """Return an upper bound on the variance of one row's estimate of a gradient from m directions (Lemma 3.1).

    count : m.
    """
    cross = lipschitz**2 * (1 - 1 / count) if kind == "iid" else 0.0
    return single_moment(d, lipschitz) / count + cross


def change_variance(kind: Kind, count: int, d: int, lipschitz: float, radius: float) -> float:
    """Return an upper bound on the variance of one row's estimate of a change of the gradient (Lemma 3.2), per squared
    distance of the two points."""
    cross = smoothness_factor(d) ** 2 * (1 - 1 / count) if kind == "iid" else 0.0
    return (lipschitz / radius) ** 2 * (d**2 / count + cross)


def slope_sensitivity(kind: Kind, count: int, d: int, clip: float, radius: float) -> float:
    """Return B times the sensitivity of the estimate of a gradient on B rows, with differences clipped at `clip`."""
    return d / radius * clip * spread(kind, count)


def change_sensitivity(kind: Kind, count: int, d: int, clip: Any, radius: float) -> Any:
    """Return B times the sensitivity of the estimate of a change of the gradient on B rows, with differences clipped at
    `clip`."""
    return 2 * d / radius * clip * spread(kind, count)


# ------------------------------------------------------------------------------------------------------------- the path


def path_radius(length: int, move: float, fresh_start: bool = True) -> float:
    """Return R_w = D (T-1)(T+2)/2T, the largest distance of a point of an epoch from the epoch's average; D/T less if
    the epoch begins at rest. Attained."""
    return move * ((length - 1) * (length + 2) / (2 * length) - fresh_start / length)


def reach(length: int, epochs: int, move: float, fresh_start: bool = True) -> float:
    """Return the largest distance of a run from its start; with a fresh start the first step of every epoch stays."""
    return epochs * (length - 1 if fresh_start else length) * move


# -------------------------------------------------------------------------------------------- noise of the running sums


def factorisation(sums: Sums, length: int, first: float = 1.0) -> matrix_factorisation.Factorisation:
    """Return the running sums of an epoch.

    first : sensitivity of the first leaf relative to the others', on which the optimal sums depend. It is rounded, by
    2 % at most, so that few have to be computed; and up, because sums made for a larger first leaf cost at most 2 %,
    while a leaf larger than they are made for costs noise in every step.
    """
    if sums == "optimal" and length <= OPTIMAL_LIVE:
        is_positive = 0 < first < math.inf
        ratio = 2 ** (math.ceil(_PER_OCTAVE * math.log2(first)) / _PER_OCTAVE) if is_positive else 1.0
        return optimal_mean(length, ratio)
    constructors = {
        "published": matrix_factorisation.binary_tree,
        "tree": matrix_factorisation.binary_tree,
        "square_root": matrix_factorisation.square_root,
        "normalised": matrix_factorisation.normalised_square_root,
        "honaker": matrix_factorisation.honaker_tree,
        "independent": matrix_factorisation.independent,
        "optimal": matrix_factorisation.normalised_square_root,  # for more steps than OPTIMAL_LIVE; within 3 %
    }
    return constructors[sums](length)


def charged(sums: Sums, factors: matrix_factorisation.Factorisation, changes: np.ndarray | float = 1.0) -> float:
    """Return μ σ, the sensitivity that the noise of running sums is made for.

    It is the exact one; as published √(⌈log₂ T⌉ + 1) times the largest change of a leaf, which is larger than the exact
    one unless T is a power of two. changes : (T,) of the leaves.
    """
    if sums == "published":
        return math.sqrt(math.ceil(math.log2(factors.length)) + 1) * float(np.max(changes))
    return float(factors.sensitivity(changes))


@lru_cache(maxsize=1024)
def mean_variance(sums: Sums, length: int) -> float:
    """Return ν_T, the variance of the noise on a prefix, mean over the T steps, per coordinate, for sensitivity 1 and
    μ = 1."""
    first, later, rows = leaf_norms(sums, length)
    return max(first, later) ** 2 * rows


@lru_cache(maxsize=1024)
def leaf_norms(sums: Sums, length: int) -> tuple[float, float, float]:
    """Return the sensitivity of the sums per unit change of the first leaf, the largest one per unit change of a later
    leaf, and the mean square of the noise on a prefix for σ = 1."""
    factors = factorisation(sums, length)
    norms = factors.column_norms if sums != "published" else np.full(length, charged(sums, factors))
    return float(norms[0]), float(norms[1:].max()), float((factors.row_norms**2).mean())


@lru_cache(maxsize=1024)
def epoch_norm(factors: matrix_factorisation.Factorisation) -> float:
    """Return ‖1ᵀB‖/T, the exact standard deviation of the mean over an epoch of the noise on its prefixes, for
    σ = 1."""
    return float(np.linalg.norm(factors.decoder().sum(axis=0)) / factors.length)


def noise_ratios(sums: Sums, length: int, follows: bool = False) -> tuple[float, float]:
    """Return the noise of the running sums over that of the naive oracle at equal rows and directions, D = r/T, equal
    leaves: in a step (root mean square), and in the mean over an epoch.

    Exact: 4 √ν_T/T and 4 ω_T/√T, ω_T = ‖C‖ ‖1ᵀB‖/T; half of that if batches follow the moves.
    """
    factor, factors = (2 if follows else 4), factorisation(sums, length)
    epoch = factor * charged(sums, factors) * epoch_norm(factors) / math.sqrt(length)
    return factor * math.sqrt(mean_variance(sums, length)) / length, epoch


# --------------------------------------------------------------------------------------------------------------- bounds


@dataclass(frozen=True)
class Setting:
    """Constants on which a bound depends.

    gap : bound on F(x₀) - inf F. kind, count : the directions of a row. follows : True if batches of the variance-
    reduced oracle follow the moves. value_range : largest difference of two values of a row.
    """

    n: int
    d: int
    lipschitz: float
    radius: float
    gap: float
    mu: float
    kind: Kind
    count: int
    follows: bool = False
    value_range: float = math.inf

    def changes(self, first: Any, batch: Any, move: Any) -> tuple[Any, Any]:
        """Return s₁ and s, the sensitivities of the first estimate of an epoch and of a later one.

        first, batch : rows of these estimates. move : D, the longest move. Numbers or arrays.
        """
        L, reach = self.lipschitz, self.apart[0] * self.lipschitz * move
        later = reach if self.follows else np.minimum(reach, self.value_range)
        directions = (self.kind, self.count, self.d)
        return (
            slope_sensitivity(*directions, min(2 * self.radius * L, self.value_range), self.radius) / first,
            change_sensitivity(*directions, later, self.radius) / batch,
        )

    @property
    def apart(self) -> tuple[float, float]:
        """Distance of two points in D: the largest, and the mean of the square, per row of a batch of B₂."""
        return _APART_FOLLOWED if self.follows else _APART


@dataclass(frozen=True)
class Bound:
    """Bound on E ‖∇F(w̄)‖ within a radius of r + R_w, the sum of three terms (THEORY.md, 5).

    error : e, the root mean square error of the oracle's gradients.
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
    """Return the first term of the bound: the decrease that is possible, over the length of the path."""
    bias = smoothing_bias(setting.d, setting.lipschitz, setting.radius)
    return (setting.gap + bias) / (move * epochs * length)


def reduced_bound(
    setting: Setting, length: int, epochs: int, first: int, batch: int, move: float, variance: float
) -> Bound:
    """Return the bound of the variance-reduced oracle with running sums (Lemma 4.6, Theorem 4.9).

    variance : mean over the steps of the variance of their noise, in units of (max(s₁, s)/μ)²: `mean_variance`, or less
    where the leaves differ. Errors depend on the past, so they count twice in full: Cauchy-Schwarz per step.
    """
    s, d, L, squared = setting, setting.d, setting.lipschitz, setting.apart[1]
    sampling = slope_variance(s.kind, s.count, d, L) / first
    steps = change_variance(s.kind, s.count, d, L, s.radius) * squared * move**2 / batch
    largest = max(s.changes(first, batch, move))
    error = math.sqrt(sampling + (length - 1) / 2 * steps + d * (largest / s.mu) ** 2 * variance)
    return Bound(_travel(s, length, epochs, move), (L + error) / math.sqrt(length), 2 * error, error)


def naive_bound(setting: Setting, length: int, epochs: int, batch: int, move: float) -> Bound:
    """Return the bound of the naive oracle (Algorithm 6), whose gradients have the right mean given the past, so that
    errors average out."""
    s, d, L = setting, setting.d, setting.lipschitz
    change, _ = s.changes(batch, batch, move)
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
    """Epochs with the smallest bound: K of T steps, with batches of `first` and then `batch` rows."""

    bound: float
    length: int
    epochs: int
    first: int
    batch: int


def best_reduced(setting: Setting, sums: Sums, lengths: tuple[int, ...] = LENGTHS, most: int | None = None) -> Best:
    """Return the epochs with the smallest bound over T × K, with D = r/T and half of an epoch's rows for its first
    step.

    For optimal sums T and K are those of the normalised square root, which is as good to 3 % and needs no search; the
    bound is that of the optimal sums. most : largest number of steps, but at least one epoch.
    """
    T, K = _grid(max(1, setting.n / 2), lengths, most)
    table: Sums = "normalised" if sums == "optimal" else sums
    norms = np.array([leaf_norms(table, length) for length in lengths]).T[:, :, None]
    bound, *sizes = reduced_grid(setting, setting.n // K, K, T, (norms[0], norms[1], norms[2]))
    best = _best(bound, T, K, *sizes)
    if sums != "optimal" or math.isinf(best.bound):
        return best
    move = setting.radius / best.length
    s1, s = setting.changes(best.first, best.batch, move)
    changes = np.append(s1, np.full(best.length - 1, s))
    deviations = factorisation(sums, best.length, float(s1 / s)).rms_error(changes) / changes.max()
    epochs = best.length, best.epochs, best.first, best.batch, move
    return replace(best, bound=reduced_bound(setting, *epochs, float((deviations**2).mean())).total)


def best_naive(setting: Setting, lengths: tuple[int, ...] = LENGTHS, most: int | None = None) -> Best:
    """Return the epochs with the smallest bound of the naive oracle, whose batches have equal sizes."""
    T, K = _grid(setting.n, lengths, most)
    bound, batch = naive_grid(setting, setting.n // K, K, T)
    return _best(bound, T, K, batch, batch)


def _grid(epochs: float, lengths: tuple[int, ...], most: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return T (t, 1), and K (t, k) up to `epochs`; with at most `most` steps, but at least one epoch."""
    T = np.array(lengths)[:, None]
    K = np.unique(np.rint(np.geomspace(1, epochs, _EPOCHS)).astype(int))[None]
    return T, np.broadcast_to(K, (len(T), K.size)) if most is None else np.minimum(K, np.maximum(1, most // T))


def reduced_grid(
    setting: Setting,
    epoch_rows: np.ndarray,
    K: np.ndarray,
    T: np.ndarray,
    norms: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return `reduced_bound` for arrays that broadcast, inf where there are too few rows; and the rows of the first and
    of every later step.

    norms : `leaf_norms` of epochs of T steps; a row enters only one leaf.
    """
    s, d, L, squared = setting, setting.d, setting.lipschitz, setting.apart[1]
    batch = (epoch_rows // 2 + 1) // T - 1 if s.follows else epoch_rows // (2 * T)
    first, move = epoch_rows - (T * (batch + 1) - 1 if s.follows else (T - 1) * batch), s.radius / T
    with np.errstate(divide="ignore", invalid="ignore"):
        sampling = slope_variance(s.kind, s.count, d, L) / first
        steps = change_variance(s.kind, s.count, d, L, s.radius) * squared * move**2 / batch
        s1, later = s.changes(first, batch, move)
        noise = (np.maximum(s1 * norms[0], later * norms[1]) / s.mu) ** 2 * norms[2]
        error = np.sqrt(sampling + (T - 1) / 2 * steps + d * noise)
        travel = (s.gap + smoothing_bias(d, L, s.radius)) / (s.radius * K)
        bound = np.where(batch >= 1, travel + (L + error) / np.sqrt(T) + 2 * error, np.inf)
    return bound, first, batch


def naive_grid(setting: Setting, epoch_rows: np.ndarray, K: np.ndarray, T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return `naive_bound` for arrays that broadcast, inf where there are too few rows; and the rows of every step."""
    s, d, L = setting, setting.d, setting.lipschitz
    batch = epoch_rows // T
    with np.errstate(divide="ignore", invalid="ignore"):
        change, _ = s.changes(batch, batch, s.radius / T)
        squared = slope_variance(s.kind, s.count, d, L) / batch + d * (change / s.mu) ** 2
        travel = (s.gap + smoothing_bias(d, L, s.radius)) / (s.radius * K)
        bound = travel + (np.sqrt(L**2 + squared) + np.sqrt(squared)) / np.sqrt(T)
    return np.where(batch >= 1, bound, np.inf), batch


def _best(bound: np.ndarray, T: np.ndarray, K: np.ndarray, first: np.ndarray, batch: np.ndarray) -> Best:
    """Return the epochs at the smallest bound (t, k) of a grid."""
    i, j = np.unravel_index(int(bound.argmin()), bound.shape)
    rows = (int(np.broadcast_to(sizes, bound.shape)[i, j]) for sizes in (first, batch))
    return Best(float(bound[i, j]), int(T[i, 0]), int(K[i, j]), *rows)


def crossover(sums: Sums, length: int, follows: bool = False) -> float:
    """Return the private term of the bound with running sums, 2e, over that of the naive oracle, e/√T, at equal rows
    and directions, D = r/T: 8 √(ν_T/T), or 4 √(ν_T/T) if batches follow the moves.

    Below 1 the bound favours running sums. It is no ratio of noise: that is `noise_ratios`.
    """
    return (4 if follows else 8) * math.sqrt(mean_variance(sums, length) / length)


# ------------------------------------------------------------------------------------------------------ data complexity


def published_rows(d: int, lipschitz: float, gap: float, radius: float, accuracy: float, mu: float) -> float:
    """Return M, the rows by the paper's rate, without constants and logarithms: dL²F*/(δε³) + d^1.5 LF*/(μδε²)."""
    rate = d * lipschitz**2 * gap / (radius * accuracy**3)
    return rate + d**1.5 * lipschitz * gap / (mu * radius * accuracy**2)


def naive_rows(d: int, lipschitz: float, gap: float, radius: float, accuracy: float, mu: float) -> float:
    """Return M by the paper's rate for the naive oracle with one direction (Appendix E): dL²F*/(δε³) +
    d^1.5 L²F*/(μδε³)."""
    return lipschitz**2 * gap * (d + d**1.5 / mu) / (radius * accuracy**3)


def free_privacy(d: int, lipschitz: float, accuracy: float, kind: Kind = "iid") -> float:
    """Return the μ from which on the private term of the rate is the smaller one: √d ε/L; with orthonormal directions
    ε/L."""
    return (math.sqrt(d) if kind == "iid" else 1.0) * accuracy / lipschitz
