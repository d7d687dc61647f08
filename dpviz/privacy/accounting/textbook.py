"""Composition theorems for guarantees of which only ε and δ are known.

They need no event, only numbers. A run's own events usually compose to less: `accountants` looks at the mechanisms. All
hold for queries that are chosen after seeing earlier answers, with ε and δ fixed in advance.

Shuffling the rows into disjoint batches is not sampling: an epoch is parallel composition (`events.Parallel`), E epochs
are E releases in a row, and nothing is amplified.

Sources: Dwork and Roth 2014; Kairouz, Oh, Viswanath 2015.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.lapack import dtbtrs
from scipy.special import expit

from dpviz.errors import UserError
from dpviz.numbers import short
from dpviz.privacy.accounting.closed_forms import Floats

# ------------------------------------------------------------------------------------------------ theorems of textbooks


class OutsideTheorem(UserError, ValueError):
    """The numbers are outside the range for which a theorem is proved."""


def advanced(epsilon: float, steps: int, slack: float, delta: float = 0.0) -> tuple[float, float]:
    """(ε, δ) of `steps` releases, each (epsilon, delta)-DP: advanced composition (Dwork and Roth 2014, Theorem 3.20).

    slack : δ' > 0, added to the δ of the releases. For comparison: `optimal` is the best that such releases allow.
    """
    return float(advanced_epsilon(epsilon, steps, slack)), steps * delta + slack


def advanced_epsilon(epsilon: ArrayLike, steps: ArrayLike, slack: float) -> Floats:
    """The ε of `advanced`: √(2k ln(1/δ')) ε + k ε (e^ε - 1); arguments broadcast."""
    each, count = np.asarray(epsilon, dtype=float), np.asarray(steps, dtype=float)
    return advanced_sum(count * each**2, count * each * np.expm1(each), slack)


def advanced_sum(squares: ArrayLike, linear: ArrayLike, slack: ArrayLike) -> Floats:
    """ε of pure releases that may differ, from Σ ε_i² and Σ ε_i (e^ε_i - 1), in the same way."""
    return np.asarray(np.sqrt(2 * np.log(1 / np.asarray(slack)) * squares) + linear)


def advanced_draw(epsilon: float, steps: ArrayLike, slack: float) -> Floats:
    """ε of each of k pure releases that are (epsilon, slack)-DP together, ε/(2 √(2k ln(1/δ'))) (Dwork and Roth 2014,
    Corollary 3.21): what papers quote. Stated for ε < 1, it holds by advanced composition up to about 4 ln(1/δ')."""
    return np.asarray(epsilon / (2 * np.sqrt(2 * np.asarray(steps, dtype=float) * math.log(1 / slack))))


def classic_gaussian_mu(epsilon: float, delta: float) -> float:
    """μ of the textbook's (epsilon, delta)-DP Gaussian mechanism, σ = Δ₂ √(2 ln(1.25/δ))/ε (Dwork and Roth 2014, A.1).

    A teaching comparison: `closed_forms.gdp_mu` is exact, never smaller where the theorem holds, and holds everywhere.
    Raises OutsideTheorem, which is a UserError and a ValueError, unless 0 < epsilon < 1.
    """
    if not 0 < epsilon < 1:
        raise OutsideTheorem(
            f"The textbook's noise is proved for ε between 0 and 1 only, not for ε = {short(epsilon, 4)}. Ask for a "
            "smaller ε, or use the exact calibration.",
            title="The classic Gaussian mechanism does not apply",
        )
    return epsilon / math.sqrt(2 * math.log(1.25 / delta))


# ----------------------------------------------------------------------------------- the best for equal (ε, δ) releases


def optimal(epsilon: float, steps: int, delta: float, step_delta: float = 0.0) -> float:
    """ε at δ = delta of any `steps` releases that are (epsilon, step_delta)-DP. No smaller one holds for all of them.

    Kairouz, Oh, Viswanath 2015, Theorem 3.3, at every real ε and not only on the theorem's grid. Infinite where the
    releases' own δ exceed delta.
    """
    # δ' = 1 - (1 - δ)/(1 - δ_i)^k: what is left of δ once each release may fail openly; negative if not even that.
    reduced = -math.expm1(math.log1p(-delta) - steps * math.log1p(-step_delta))
    if reduced <= 0:
        return steps * epsilon if reduced == 0 else math.inf
    losses, excess, scaled = _losses(epsilon, steps)
    # δ falls as the loss grows, and the largest loss comes first: the last that is small enough ends the interval.
    last = int(np.searchsorted(excess, reduced, side="right")) - 1
    # On the interval below that loss L, δ(ε) = δ(L) + V (1 - e^(ε - L)).
    inside = (excess[last] - reduced) / scaled[last]
    return max(0.0, float(losses[last] + math.log1p(inside))) if inside > -1 else 0.0


def _losses(epsilon: float, steps: int) -> tuple[Floats, Floats, Floats]:
    """Losses L ≥ 0 of `steps` randomised responses, falling; δ(L) of each; and V = Σ p e^(L - L_j) over L_j ≥ L. Those
    that are out of reach (`_binomial`) are left out, so that there are of the order of √steps.

    The number of false answers is F ~ Bin(k, 1/(1 + e^ε)) and the loss L = (k - 2F) ε. With r = e^(-2ε) and the mass S
    up to F, δ_F = r δ_(F-1) + (1 - r) S_(F-1) and V_F = r V_(F-1) + p_F have positive terms only: nothing cancels.
    """
    false, mass = _binomial(steps, epsilon)
    false, mass = false[false <= steps // 2], mass[false <= steps // 2]
    ratio = math.exp(-2 * epsilon)
    below = np.append(0.0, np.cumsum(mass)[:-1])
    excess = recursion([ratio], -math.expm1(-2 * epsilon) * below)
    losses = (steps - 2 * false.astype(float)) * epsilon
    return losses, excess, recursion([ratio], mass)


def _binomial(steps: int, log_odds: float) -> tuple[np.ndarray, Floats]:
    """Counts F that Bin(steps, 1/(1 + e^log_odds)) reaches with a probability above 1e-200, ascending, and the
    probability of each, accurate far below the spacing of floats: a running sum of the logarithms of the ratios of
    neighbours, which are near 0 where it matters, whatever `steps` is.

    Left out is what is farther from the mean than 45 standard deviations and 1500 (Bernstein's inequality).
    """
    chance = float(expit(-log_odds))
    mean, width = steps * chance, 45 * math.sqrt(steps * chance * (1 - chance)) + 1500
    counts = np.arange(max(0, math.floor(mean - width)), min(steps, math.ceil(mean + width)) + 1)
    ratios = np.log((steps - counts[:-1]) / (counts[1:])) - log_odds  # of Pr[F = count + 1] to Pr[F = count]
    logs = np.append(0.0, np.cumsum(ratios))
    mass = np.exp(logs - logs.max())
    return counts, mass / mass.sum()


def recursion(coefficients: Sequence[float], force: ArrayLike, memory: Sequence[float] = ()) -> Floats:
    """Linear recursion: (T,) y_t = f_t + Σ_k c_k y_{t-k} for force f (T,), coefficients c_1, c_2, … and y = 0 before.

    memory : what earlier values add to the first entries of the force. Values that overflow become inf or nan.

    It is a triangular system with few diagonals, solved forwards. `scipy.signal.lfilter` solves it, too, but its
    package takes 0.7 s to import; `scipy.linalg` is there anyway.
    """
    right = np.array(force, dtype=np.float64)
    added = memory[: len(right)]
    right[: len(added)] += added
    band = np.empty((len(coefficients) + 1, len(right)), order="F")
    band[0] = 1.0
    band[1:] = -np.asarray(coefficients, dtype=np.float64)[:, None]
    solution, _ = dtbtrs(band, right, uplo="L", diag="U")
    return np.asarray(solution)
