"""Formulas that need no run: variances of estimates, noise of running sums, bounds on stationarity, rates.

Notation: d parameters, L Lipschitz constant, r smoothing radius, K epochs of T steps, D the longest move, m directions
per row, μ the budget, B₁ and B₂ rows of the first and of every later step of an epoch. F is the mean of a row's
function f. Its smoothed version at x is the mean of F over the ball of radius r around x; estimates are of its
gradient.

The naive oracle estimates a gradient afresh in each step. The variance-reduced one estimates it in the first step of an
epoch and then its changes, and releases their running sums with correlated noise: the sums of the estimates y are A y =
B C y, with A, B, C lower-triangular; noise of scale σ is added to C y, so that sum t has the noise variance σ² times
the squared norm of row t of B. The estimate of a step, a leaf of these sums, enters through a column of C.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from scipy.special import gammaln

from dpviz.privacy import matrix_factorisation
from dpviz.privacy.optimal_sums import optimal_mean
from dpviz.problems.values.value_problem import Kind, max_mean_length

Sums = Literal["published", "tree", "square_root", "normalised", "optimal", "honaker", "independent"]
# Largest number of steps for which the optimal sums are computed, which takes 20 ms; for more steps the normalised
# square root, which takes no time, is within 3 % of the optimum.
OPTIMAL_LIVE = 512
_PER_OCTAVE = 32  # number of sensitivities of the first leaf, per factor of two, for which optimal sums are computed
# Two points w of successive steps are at most D c apart, c = 1 - s + s', with s and s' uniform in [0, 1]. Here are the
# largest c and E c². Where batches follow the moves they have B₂ c rows, so c/(B₂ c) and c²/(B₂ c) count: 1 and E c =
# 1.
_DISTANCES, _DISTANCES_FOLLOWED = (2.0, 7 / 6), (1.0, 1.0)

# ------------------------------------------------------------------------------------------------------------ smoothing


def smoothness_factor(d: int) -> float:
    """Return κ_d, exactly (THEORY.md, 2): the gradient of the smoothed function has the Lipschitz constant κ_d L/r. It
    is at most √d, and about √(2d/π)."""
    return float(2 / math.sqrt(math.pi) * math.exp(gammaln(d / 2 + 1) - gammaln((d + 1) / 2)))


def smoothing_bias(d: int, lipschitz: float, radius: float) -> float:
    """Return r L d/(d+1), the largest difference between the smoothed function and the function itself."""
    return radius * lipschitz * d / (d + 1)


# ------------------------------------------------------------------------------------------------ variance of estimates


def single_moment(d: int, lipschitz: float) -> float:
    """Return an upper bound E_a on the mean square of (d/2r)(f(x + ru) - f(x - ru)), the slope estimate along one
    random direction u, by Poincaré's inequality on the sphere."""
    return lipschitz**2 * (d**2 / (d - 1) if d > 1 else 1.0)


def gradient_variance(kind: Kind, count: int, d: int, lipschitz: float) -> float:
    """Return an upper bound on the variance of one row's estimate of a gradient from m = `count` directions (Lemma
    3.1).

    Products of different directions contribute only if these are independent ("iid"); orthonormal ones have none.
    """
    cross_terms = lipschitz**2 * (1 - 1 / count) if kind == "iid" else 0.0
    return single_moment(d, lipschitz) / count + cross_terms


def gradient_change_variance(kind: Kind, count: int, d: int, lipschitz: float, radius: float) -> float:
    """Return an upper bound on the variance of one row's estimate of a change of the gradient between two points from m
    = `count` directions (Lemma 3.2), divided by the squared distance of the points."""
    cross_terms = smoothness_factor(d) ** 2 * (1 - 1 / count) if kind == "iid" else 0.0
    return (lipschitz / radius) ** 2 * (d**2 / count + cross_terms)


def gradient_sensitivity(kind: Kind, count: int, d: int, clip: float, radius: float) -> float:
    """Return B times the sensitivity of the estimate of a gradient on B rows, where differences f(x + ru) - f(x - ru)
    are clipped at the size `clip`.

    A row contributes (1/m) Σ_j (d/2r) h_j u_j with |h_j| ≤ clip, whose length is at most (d/2r) clip ς with ς =
    `max_mean_length`; replacing it can change that by twice as much.
    """
    return d / radius * clip * max_mean_length(kind, count)


def gradient_change_sensitivity(kind: Kind, count: int, d: int, clip: Any, radius: float) -> Any:
    """Return B times the sensitivity of the estimate of a change of the gradient on B rows, where differences f(x + ru)
    - f(y + ru) of values at the two points are clipped at the size `clip`, a number or an array.

    A row contributes (1/m) Σ_j (d/r) h_j u_j with |h_j| ≤ clip; otherwise as for `gradient_sensitivity`.
    """
    return 2 * d / radius * clip * max_mean_length(kind, count)


# ------------------------------------------------------------------------------------------------------------- the path


def path_radius(length: int, move: float, fresh_start: bool = True) -> float:
    """Return R_w, the largest distance of a point of an epoch from the average of the epoch's points, which is
    attained: D (T-1)(T+2)/2T, or D/T less if the epoch begins at rest.

    length : T. move : D. fresh_start : True if the epoch begins at rest.
    """
    moves = (length - 1) * (length + 2) / (2 * length)
    return move * (moves - 1 / length if fresh_start else moves)


def reach(length: int, epochs: int, move: float, fresh_start: bool = True) -> float:
    """Return the largest distance that a run of K = `epochs` epochs of T = `length` steps can get from its start, with
    moves of at most D = `move`. With a fresh start the first step of every epoch does not move."""
    return epochs * (length - 1 if fresh_start else length) * move


# -------------------------------------------------------------------------------------------- noise of the running sums


def factorisation(sums: Sums, length: int, first_ratio: float = 1.0) -> matrix_factorisation.Factorisation:
    """Return the factorisation A = B C of the running sums of an epoch of T = `length` steps, for a kind of sums.

    first_ratio : sensitivity of the first leaf divided by that of a later one, on which the optimal sums depend. It is
        rounded, by 2 % at most, so that few have to be computed. It is rounded up, because sums made for a larger first
        leaf cost at most 2 %, while a leaf larger than they are made for costs noise in every step.
    """
    if sums == "optimal" and length <= OPTIMAL_LIVE:
        rounded_ratio = 1.0
        if 0 < first_ratio < math.inf:  # not so if one of the sensitivities is 0
            rounded_ratio = 2 ** (math.ceil(_PER_OCTAVE * math.log2(first_ratio)) / _PER_OCTAVE)
        return optimal_mean(length, rounded_ratio)
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


def noise_sensitivity(
    sums: Sums, factors: matrix_factorisation.Factorisation, sensitivities: np.ndarray | float = 1.0
) -> float:
    """Return the sensitivity that the noise of running sums is made for: its scale is σ = sensitivity/μ.

    It is the exact sensitivity of all released sums. For the published sums it is √(⌈log₂ T⌉ + 1) times the largest
    sensitivity of a leaf, which is more than the exact one unless T is a power of two.

    factors : of these sums. sensitivities : of the leaves, (T,) or the same for all.
    """
    if sums == "published":
        return math.sqrt(math.ceil(math.log2(factors.length)) + 1) * float(np.max(sensitivities))
    return float(factors.sensitivity(sensitivities))


def mean_variance(sums: Sums, length: int) -> float:
    """Return ν_T, the noise variance of a running sum per coordinate, mean over the T = `length` steps of an epoch, if
    every leaf has the sensitivity 1 and μ = 1."""
    first_norm, later_norm, mean_square = leaf_norms(sums, length)
    return max(first_norm, later_norm) ** 2 * mean_square


@lru_cache(maxsize=1024)
def leaf_norms(sums: Sums, length: int) -> tuple[float, float, float]:
    """Return three numbers that give the noise of the running sums of an epoch of T = `length` steps.

    They are the sensitivity of all sums per unit of change in the first leaf, the largest one per unit of change in a
    later leaf, and the noise variance of a sum for σ = 1, mean over the steps. With leaves of the sensitivities s₁ and
    s₂ the mean noise variance is (max(first s₁, later s₂)/μ)² times the third.
    """
    factors = factorisation(sums, length)
    norms = factors.column_norms if sums != "published" else np.full(length, noise_sensitivity(sums, factors))
    return float(norms[0]), float(norms[1:].max()), float((factors.row_norms**2).mean())


@lru_cache(maxsize=1024)
def epoch_norm(factors: matrix_factorisation.Factorisation) -> float:
    """Return ‖1ᵀB‖/T: the exact standard deviation, per coordinate for σ = 1, of the mean over an epoch of the noise on
    its T running sums."""
    return float(np.linalg.norm(factors.decoder().sum(axis=0)) / factors.length)


def noise_ratios(sums: Sums, length: int, follows: bool = False) -> tuple[float, float]:
    """Return two ratios of the noise of running sums to that of the naive oracle: in the gradient of a step, root mean
    square over the steps, and in the mean of the gradients of an epoch.

    Both oracles have the same rows and directions, D = r/T, and all leaves have the same sensitivity. The ratios are
    exact: 4 √ν_T/T and 4 ω_T/√T, with ν_T = `mean_variance` and ω_T = ‖C‖ ‖1ᵀB‖/T, where ‖C‖ is the largest norm of a
    column. The sensitivity of a change is 4/T of that of a fresh estimate: differences over 2D are clipped at D/r = 1/T
    of those over 2r, weigh twice as much, and a batch has half the rows, as the first step takes the other half of an
    epoch's. If batches follow the moves it is half of that.
    """
    factors = factorisation(sums, length)
    leaf_ratio = 2 if follows else 4  # sensitivity of a change over that of a fresh estimate, times T
    step = leaf_ratio * math.sqrt(mean_variance(sums, length)) / length
    epoch = leaf_ratio * noise_sensitivity(sums, factors) * epoch_norm(factors) / math.sqrt(length)
    return step, epoch


# --------------------------------------------------------------------------------------------------------------- bounds


@dataclass(frozen=True)
class Setting:
    """Constants on which a bound depends.

    n : rows. d : parameters. lipschitz : L. radius : r. gap : bound on F(x₀) - inf F. mu : μ of the budget.
    kind, count : the directions of a row, "iid" or "orthonormal", and their number m.
    follows : True if batches of the variance-reduced oracle follow the moves.
    value_range : largest difference of two values of a row's function.
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

    def sensitivities(self, first: Any, batch: Any, move: Any) -> tuple[Any, Any]:
        """Return s₁ and s₂, the sensitivities of the estimate of a gradient in the first step of an epoch, and of its
        change in a later step, with differences of values clipped at what L allows.

        first, batch : rows of these steps, B₁ and B₂. move : D. All three are numbers or arrays.
        """
        first_clip = min(2 * self.radius * self.lipschitz, self.value_range)
        largest_distance, _ = self.distances
        later_clip = largest_distance * self.lipschitz * move
        # Batches that follow the moves grow with the distance of the points, as the clip does: so the sensitivity is
        # the same at all distances, but for far points whose clip the range of values limits.
        if not self.follows:
            later_clip = np.minimum(later_clip, self.value_range)
        directions = (self.kind, self.count, self.d)
        return (
            gradient_sensitivity(*directions, first_clip, self.radius) / first,
            gradient_change_sensitivity(*directions, later_clip, self.radius) / batch,
        )

    @property
    def distances(self) -> tuple[float, float]:
        """Distance of the points of two successive steps, in units of D: the largest one, and the mean of its square.

        If batches follow the moves, both are divided by the size of the batch in units of B₂, which is that distance,
        too.
        """
        return _DISTANCES_FOLLOWED if self.follows else _DISTANCES


@dataclass(frozen=True)
class Bound:
    """Bound on the stationarity of a random epoch's average w̄, the sum of three terms (THEORY.md, 5).

    It bounds the expected length of the shortest convex combination of gradients of F within r + R_w of w̄.

    travel : the decrease of F that is possible, divided by the length of the path. regret : that of the learner.
    oracle : contribution of errors in the oracle's gradients. error : e, their root mean square.
    """

    travel: float
    regret: float
    oracle: float
    error: float

    @property
    def total(self) -> float:
        """The bound, the sum of its terms. A bound of L or more says nothing: no gradient is longer than L."""
        return self.travel + self.regret + self.oracle


def _travel_term(setting: Setting, length: int, epochs: int, move: float) -> float:
    """Return the first term of the bound: the decrease that is possible, divided by the length of the path, D K T."""
    bias = smoothing_bias(setting.d, setting.lipschitz, setting.radius)
    return (setting.gap + bias) / (move * epochs * length)


def reduced_bound(
    setting: Setting, length: int, epochs: int, first: int, batch: int, move: float, variance: float
) -> Bound:
    """Return the bound of the variance-reduced oracle with running sums (Lemma 4.6, Theorem 4.9).

    length, epochs : T and K. first, batch : B₁ and B₂. move : D.
    variance : noise variance of a running sum, mean over the steps, in units of (max(s₁, s₂)/μ)², for the sensitivities
        s₁ of the first leaf and s₂ of later ones: `mean_variance`, or less where these differ.

    Errors of running sums depend on the past, so that they do not average out; by the Cauchy-Schwarz inequality in each
    step they count twice, in full.
    """
    s, d, L = setting, setting.d, setting.lipschitz
    _, mean_squared_distance = setting.distances
    first_variance = gradient_variance(s.kind, s.count, d, L) / first  # sampling error of the first step's estimate
    change_variance = gradient_change_variance(s.kind, s.count, d, L, s.radius)
    change_variance *= mean_squared_distance * move**2 / batch
    noise = d * (max(s.sensitivities(first, batch, move)) / s.mu) ** 2 * variance
    # Step t adds up t - 1 changes: (T - 1)/2 in the mean over the steps.
    error = math.sqrt(first_variance + (length - 1) / 2 * change_variance + noise)
    return Bound(
        travel=_travel_term(s, length, epochs, move),
        regret=(L + error) / math.sqrt(length),
        oracle=2 * error,
        error=error,
    )


def naive_bound(setting: Setting, length: int, epochs: int, batch: int, move: float) -> Bound:
    """Return the bound of the naive oracle (Algorithm 6), whose gradients have the right mean given the past, so that
    their errors average out over an epoch.

    length, epochs : T and K. batch : rows of every step. move : D.
    """
    s, d, L = setting, setting.d, setting.lipschitz
    sensitivity, _ = s.sensitivities(batch, batch, move)
    squared_error = gradient_variance(s.kind, s.count, d, L) / batch + d * (sensitivity / s.mu) ** 2
    return Bound(
        travel=_travel_term(s, length, epochs, move),
        regret=math.sqrt(L**2 + squared_error) / math.sqrt(length),
        oracle=math.sqrt(squared_error) / math.sqrt(length),
        error=math.sqrt(squared_error),
    )


# -------------------------------------------------------------------------------------------------------------- planner

# The grid over which the planner minimises bounds: steps T of an epoch, powers of two, numbers half way between, and
# 2^j - 1, up to which a binary tree has one level fewer; and how many numbers of epochs K it tries.
_SHORTER = (2, 3, 4, 6, 7, 8, 12, 15, 16, 24, 31, 32, 48, 63, 64, 96, 127, 128, 192, 255, 256, 384, 511, 512, 768)
LENGTHS: tuple[int, ...] = (*_SHORTER, 1023, 1024)
_EPOCHS = 40


@dataclass(frozen=True)
class Best:
    """Division into epochs with the smallest bound: K = `epochs` epochs of T = `length` steps, with `first` rows for
    the first step of an epoch and `batch` rows for every later one."""

    bound: float
    length: int
    epochs: int
    first: int
    batch: int


def best_reduced(setting: Setting, sums: Sums, max_steps: int | None = None) -> Best:
    """Return the division into epochs with the smallest bound of the variance-reduced oracle, over a grid of T and K.

    Moves are at most D = r/T, and the first step of an epoch gets half of its rows. For optimal sums T and K are those
    of the normalised square root, which is as good to 3 % and needs no search; the bound is that of the optimal sums.

    max_steps : largest number of steps K T, but one epoch is always allowed; None for any.
    """
    T, K = _grid(max(1, setting.n / 2), max_steps)  # an epoch has two rows at least, one for each half
    sums_of_grid: Sums = "normalised" if sums == "optimal" else sums
    norms = np.array([leaf_norms(sums_of_grid, length) for length in LENGTHS]).T
    first_norms, later_norms, mean_squares = norms[:, :, None]  # (t, 1) each, as T
    bound, first, batch = reduced_grid(setting, setting.n // K, K, T, (first_norms, later_norms, mean_squares))
    best = _best_of_grid(bound, T, K, first, batch)
    if sums != "optimal" or math.isinf(best.bound):
        return best
    move = setting.radius / best.length
    s1, s2 = setting.sensitivities(best.first, best.batch, move)
    sensitivities = np.append(s1, np.full(best.length - 1, s2))
    # Standard deviation of each sum at μ = 1 over the larger of the two sensitivities, the unit of `reduced_bound`.
    deviations = factorisation(sums, best.length, float(s1 / s2)).rms_error(sensitivities) / sensitivities.max()
    variance = float((deviations**2).mean())
    bound_of_optimal_sums = reduced_bound(setting, best.length, best.epochs, best.first, best.batch, move, variance)
    return replace(best, bound=bound_of_optimal_sums.total)


def best_naive(setting: Setting, max_steps: int | None = None) -> Best:
    """Return the division into epochs with the smallest bound of the naive oracle, whose batches have equal sizes;
    `max_steps` as for `best_reduced`."""
    T, K = _grid(setting.n, max_steps)
    bound, batch = naive_grid(setting, setting.n // K, K, T)
    return _best_of_grid(bound, T, K, batch, batch)


def _grid(epochs: float, max_steps: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return a grid of steps per epoch T (t, 1) and numbers of epochs K (t, k) from 1 to `epochs`.

    max_steps : largest number of steps K T, to which K is cut, but not below one epoch; None for any.
    """
    T = np.array(LENGTHS)[:, None]
    K = np.unique(np.rint(np.geomspace(1, epochs, _EPOCHS)).astype(int))[None]
    if max_steps is None:
        return T, np.broadcast_to(K, (len(T), K.size))
    return T, np.minimum(K, np.maximum(1, max_steps // T))


def reduced_grid(
    setting: Setting,
    epoch_rows: np.ndarray,
    K: np.ndarray,
    T: np.ndarray,
    norms: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the bounds of `reduced_bound` for arrays that broadcast, with moves of at most D = r/T, inf where there
    are too few rows; and the rows of the first and of every later step of an epoch.

    epoch_rows, K, T : rows of an epoch, of which half go to the first step, numbers of epochs, and steps of an epoch.
    norms : the three numbers of `leaf_norms` for epochs of T steps.
    """
    s, d, L = setting, setting.d, setting.lipschitz
    _, mean_squared_distance = setting.distances
    first_norm, later_norm, mean_square = norms
    # Half of the rows are for the later steps; batches that follow the moves take up to T (batch + 1) - 1 together.
    batch = (epoch_rows // 2 + 1) // T - 1 if s.follows else epoch_rows // (2 * T)
    first = epoch_rows - (T * (batch + 1) - 1 if s.follows else (T - 1) * batch)
    move = s.radius / T
    with np.errstate(divide="ignore", invalid="ignore"):
        first_variance = gradient_variance(s.kind, s.count, d, L) / first
        change_variance = (
            gradient_change_variance(s.kind, s.count, d, L, s.radius) * mean_squared_distance * move**2 / batch
        )
        s1, s2 = s.sensitivities(first, batch, move)
        # A row enters one leaf only, so the larger of the two sensitivities counts.
        noise = (np.maximum(s1 * first_norm, s2 * later_norm) / s.mu) ** 2 * mean_square
        error = np.sqrt(first_variance + (T - 1) / 2 * change_variance + d * noise)
        travel = (s.gap + smoothing_bias(d, L, s.radius)) / (s.radius * K)  # the path D K T is r K long
        bound = np.where(batch >= 1, travel + (L + error) / np.sqrt(T) + 2 * error, np.inf)
    return bound, first, batch


def naive_grid(setting: Setting, epoch_rows: np.ndarray, K: np.ndarray, T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of `naive_bound` for arrays that broadcast, with moves of at most D = r/T, inf where there are
    too few rows; and the rows of every step.

    epoch_rows, K, T : rows of an epoch, numbers of epochs, and steps of an epoch.
    """
    s, d, L = setting, setting.d, setting.lipschitz
    batch = epoch_rows // T
    with np.errstate(divide="ignore", invalid="ignore"):
        sensitivity, _ = s.sensitivities(batch, batch, s.radius / T)
        sampling_error = gradient_variance(s.kind, s.count, d, L) / batch  # of a gradient
        squared_error = sampling_error + d * (sensitivity / s.mu) ** 2
        travel = (s.gap + smoothing_bias(d, L, s.radius)) / (s.radius * K)  # the path D K T is r K long
        bound = travel + (np.sqrt(L**2 + squared_error) + np.sqrt(squared_error)) / np.sqrt(T)
    return np.where(batch >= 1, bound, np.inf), batch


def _best_of_grid(bound: np.ndarray, T: np.ndarray, K: np.ndarray, first: np.ndarray, batch: np.ndarray) -> Best:
    """Return the division into epochs at the smallest entry of `bound` (t, k), of a grid with steps T (t, 1), numbers
    of epochs K (t, k), and rows of the first and of later steps."""
    i, j = np.unravel_index(int(bound.argmin()), bound.shape)
    return Best(
        bound=float(bound[i, j]),
        length=int(T[i, 0]),
        epochs=int(K[i, j]),
        first=int(np.broadcast_to(first, bound.shape)[i, j]),
        batch=int(np.broadcast_to(batch, bound.shape)[i, j]),
    )


# ------------------------------------------------------------------------------------------------------ data complexity


def published_rows(d: int, lipschitz: float, gap: float, radius: float, accuracy: float, mu: float) -> float:
    """Return M, the number of rows by the paper's rate, without constants and logarithms:
    d L² F*/(δ ε³) + d^1.5 L F*/(μ δ ε²), for stationarity ε = accuracy within δ = radius, and the gap F*."""
    rows_without_privacy = d * lipschitz**2 * gap / (radius * accuracy**3)
    return rows_without_privacy + d**1.5 * lipschitz * gap / (mu * radius * accuracy**2)


def naive_rows(d: int, lipschitz: float, gap: float, radius: float, accuracy: float, mu: float) -> float:
    """Return M, the number of rows by the paper's rate for the naive oracle with one direction (Appendix E):
    d L² F*/(δ ε³) + d^1.5 L² F*/(μ δ ε³), for stationarity ε = accuracy within δ = radius, and the gap F*."""
    return lipschitz**2 * gap * (d + d**1.5 / mu) / (radius * accuracy**3)


def free_privacy(d: int, lipschitz: float, accuracy: float, kind: Kind = "iid") -> float:
    """Return the μ from which on privacy costs no more rows than a constant factor, as the term with μ is the smaller
    one in the rate of the rows: √d ε/L, or ε/L with orthonormal directions, for stationarity ε = accuracy."""
    return (math.sqrt(d) if kind == "iid" else 1.0) * accuracy / lipschitz
