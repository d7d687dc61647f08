"""Estimates before a run: the length of noise and bias, bounds on the error, random stopping, and the numbers of
points and trainings.

Source: Sopa, Marusic, Avella-Medina, Cunningham 2025, and THEORY.md, whose sections are cited. Symbols: n users of the
validation data, d settings, T steps of size η, B clip of a user's gradient, μ budget (Gaussian differential privacy),
σ standard deviation of the noise on each coordinate of a step's gradient, ζ probability with which a bound may fail;
Σ posterior covariance of a user's gradient, P trace of its prior covariance, λ_max largest eigenvalue.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammainccinv

from dpviz.families.bayesian_optimization.batches import BatchRule
from dpviz.families.bayesian_optimization.posterior import NOTHING_NEW
from dpviz.privacy.accounting import closed_forms

# --------------------------------------------------------------------------------------------------------------- noise


def noise_radius(noise: float, d: int, steps: int, failure: float) -> float:
    """Return r such that, with probability 1 - ζ or more, the noise is longer than r in none of T steps (section 5).

    It is σ times the square root of the quantile of χ² with d degrees of freedom at 1 - ζ/T. noise : σ. failure : ζ.
    """
    half_quantile = float(gammainccinv(d / 2, failure / steps))  # half of χ² has the gamma law with shape d/2
    return noise * math.sqrt(2 * half_quantile)


def published_radius(noise: float, d: int, steps: int, failure: float) -> float:
    """Return the radius of `noise_radius` as published, σ(4√d + 2√(2 ln(T/ζ))) (Lemma A.5), which is larger."""
    return noise * (4 * math.sqrt(d) + 2 * math.sqrt(2 * math.log(steps / failure)))


def value_release_factor(loss_cap: float, clip: float, distance: float, d: int) -> float:
    """Return M√d/(2Bh), the factor by which the noise in each coordinate of a gradient grows if losses are released,
    and slopes computed from their differences, in place of gradients (section 8).

    A user moves the losses at 2d points at the distance h by √(2d) M/n together, with M = `loss_cap`. A slope is the
    difference of two losses over 2h, with √2/(2h) times the noise of a loss; a gradient moves by 2B/n.
    """
    return loss_cap * math.sqrt(d) / (2 * clip * distance)


# ---------------------------------------------------------------------------------------------------------------- bias


def bias_bound(norm: float, uncertainty: float) -> float:
    """Return M √λ_max(Σ), which bounds the error of the estimated mean gradient if observations have no noise (section
    5).

    norm : M, of the mean loss in the kernel's space. uncertainty : √λ_max(Σ), for losses of variance 1.
    """
    return norm * uncertainty


def planned_uncertainty(level: float, d: int, prior: float) -> float:
    """Return √(ωP/d), which is √λ_max(Σ) if a share ω of the gradient's variance remains, equally in all directions.

    level : ω. prior : P.
    """
    return math.sqrt(level * prior / d)


# -------------------------------------------------------------------------------------------------------- error bounds


@dataclass(frozen=True)
class Landscape:
    """Assumptions on the mean loss near the minimum that a run approaches; privacy needs none of them.

    smoothness : L. convexity : m, of strong convexity. gap : Δ₀, the loss at the start above the minimum.
    radius : R, of the ball around the minimum in which this holds.
    """

    smoothness: float = 2.0
    convexity: float = 0.2
    gap: float = 1.0
    radius: float = 1.0


@dataclass(frozen=True)
class Bounds:
    """Three bounds on how far the loss is above the minimum after each of T steps; (T+1,) each.

    expected : on the mean over the noise. likely : with probability 1 - ζ. published : by Theorem 3.7, with its unknown
    constants set to 1.
    """

    expected: np.ndarray
    likely: np.ndarray
    published: np.ndarray


def bounds(
    landscape: Landscape, step: float, noise: float, bias: float, clip: float, d: int, steps: int, failure: float = 0.05
) -> Bounds:
    """Return bounds on the loss above the minimum after plain steps θ ← θ - η g̃ with η ≤ 1/L (section 6).

    A step turns the loss Δ above the minimum into at most (1 - ηm) Δ + η ‖e‖²/2 with the error e of g̃, in the mean
    over the noise (1 - ηm) Δ + η (β² + Lηdσ²)/2; all steps together add at most 1/(ηm) times what a step adds.

    step : η. noise : σ. bias : β, the length of the bias of g̃. clip : B. failure : ζ.
    """
    m, contraction = landscape.convexity, 1 - step * landscape.convexity
    gap = landscape.gap * contraction ** np.arange(steps + 1.0)  # without noise and bias
    radius, looser_radius = noise_radius(noise, d, steps, failure), published_radius(noise, d, steps, failure)
    floor = bias**2 / (2 * m) + landscape.smoothness * step * d * noise**2 / (2 * m)
    return Bounds(gap + floor, gap + (bias + radius) ** 2 / (2 * m), gap + clip / m * (bias + looser_radius))


def noise_floor(step: float, curvature: float, noise: float) -> float:
    """Return ησ²/(λ(2 - ηλ)), the variance v in which each coordinate of plain steps ends on a quadratic of curvature
    λ: v = (1 - ηλ)² v + η²σ². step : η. noise : σ."""
    return step * noise**2 / (curvature * (2 - step * curvature))


def best_steps(landscape: Landscape, step: float, clip: float, n: int, mu: float, d: int) -> float:
    """Return T*, the number of plain steps with the smallest bound in expectation (section 6), not rounded.

    More steps get nearer to the minimum, and σ grows with √T. With q = 1 - ηm the bound without bias is Δ₀ q^T + D T,
    which is smallest at T* = ln(Δ₀ ln(1/q)/D)/ln(1/q). step : η. Infinite without noise.
    """
    m, log_inverse_q = landscape.convexity, -math.log1p(-step * landscape.convexity)
    # D: the part Lηdσ²/(2m) of `bounds`, for each of T steps, as σ² = T (2B/(nμ))².
    noise_per_step = landscape.smoothness * step * d / (2 * m) * (2 * clip / (n * mu)) ** 2
    if not noise_per_step:
        return math.inf
    return max(1.0, math.log(landscape.gap * log_inverse_q / noise_per_step) / log_inverse_q)


def fewest_users(
    landscape: Landscape, clip: float, steps: int, mu: float, d: int, bias: float, failure: float = 0.05
) -> tuple[float, float]:
    """Return the smallest number of users with which, with probability 1 - ζ, all iterates stay in the ball around the
    minimum where the assumptions hold; and the same number with the published radius of the noise.

    They stay if bias + radius ≤ mR, where m is the convexity and R the ball's radius (section 6). Both numbers are
    infinite if the bias alone is larger than that.
    """
    allowed_radius = landscape.convexity * landscape.radius - bias
    if allowed_radius <= 0:
        return math.inf, math.inf
    factor = 2 * clip * math.sqrt(steps) / (mu * allowed_radius)  # σ = 2B√T/(nμ), so n = factor × radius at σ = 1
    return factor * noise_radius(1.0, d, steps, failure), factor * published_radius(1.0, d, steps, failure)


def global_trainings(gap: float, d: int) -> float:
    """Return the number of trainings N that global search needs without noise, by the rate gap = exp(-N/(ln N)^(d/4))
    of de Freitas, Smola and Zoghi 2012 with constants 1: an illustration, not a theorem.

    gap : in (0, 1), the remaining error as a share of the first one. N is the largest solution. The rate falls with N
    only above exp(max(d/4, 1)); if there is no solution above this number, N is the number itself.
    """

    def excess(log_n: float) -> float:
        """Return ln of N/(ln N)^(d/4) over ln(1/gap); 0 at the solution."""
        return log_n - d / 4 * math.log(log_n) - math.log(-math.log(gap))

    low = max(d / 4, 1.0)  # `excess` increases above
    if excess(low) >= 0:
        return math.exp(low)
    # Above the solution: there d/4 ln ln N is far smaller than ln N, and ln ln(1/gap) below 7 for any gap over e^-1000.
    high = 100.0 + 50 * d
    return math.exp(float(brentq(excess, low, high, xtol=1e-12)))


# ----------------------------------------------------------------------------------------------------- random stopping

# A release is tried K times and only the best try is published; K is random and secret (Papernot and Steinke 2022;
# section 7). K has a truncated negative binomial law with the parameters γ in (0, 1) and η = 1 (geometric) or η = 0
# (logarithmic).
Stopping = Literal["geometric", "logarithmic"]


def expected_tries(stopping: Stopping, gamma: float) -> float:
    """Return the mean number of tries, E K, for the parameter γ."""
    return 1 / gamma if stopping == "geometric" else (1 / gamma - 1) / math.log(1 / gamma)


@lru_cache(256)
def stopping_gamma(stopping: Stopping, tries: float) -> float:
    """Return the parameter γ at which the mean number of tries is `tries`, above 1."""
    if stopping == "geometric":
        return 1 / tries

    def excess(log_gamma: float) -> float:
        return expected_tries(stopping, math.exp(log_gamma)) - tries

    return math.exp(float(brentq(excess, -50, -1e-12, xtol=1e-14)))  # ln γ, with means from 1e20 down to nearly 1


def stopped_epsilon(stopping: Stopping, tries: float, mu: float, delta: float) -> float:
    """Return ε at δ of the best of K tries of a μ-GDP release, if K is secret (Papernot and Steinke 2022, Theorem 2).

    A μ-GDP release has the Rényi divergences ε(λ) = λμ²/2. Those of the best try are, for any order λ' > 1,
    ε(λ) + (1 + η)((1 - 1/λ')ε(λ') + ln(1/γ)/λ') + ln(E K)/(λ - 1) (section 7). tries : E K.
    """
    eta = 1 if stopping == "geometric" else 0
    log_inverse_gamma = -math.log(stopping_gamma(stopping, tries))
    # The smallest value of (λ' - 1)μ²/2 + ln(1/γ)/λ' over λ', at λ' = √(2 ln(1/γ))/μ, or at λ' = 1 if that is smaller.
    best_order = math.sqrt(2 * log_inverse_gamma) / mu
    price = mu * math.sqrt(2 * log_inverse_gamma) - mu**2 / 2 if best_order > 1 else log_inverse_gamma

    def epsilon(log_excess: float) -> float:
        """Return ε at δ from the divergence of order λ = 1 + e^log_excess (Canonne, Kamath, Steinke 2020)."""
        order = 1 + math.exp(log_excess)
        divergence = order * mu**2 / 2 + (1 + eta) * price + math.log(tries) / (order - 1)
        return divergence + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)

    # Orders λ from 1.001 to 10⁶; any order gives a valid ε.
    return float(minimize_scalar(epsilon, bounds=(-7.0, 14.0), method="bounded", options={"xatol": 1e-9}).fun)


def mu_per_try(stopping: Stopping, tries: float, mu: float, delta: float) -> float:
    """Return μ₀, the budget of each try with which the best of K tries has the same ε at δ as one μ-GDP release; nan
    where that is below μ/10,000, or proven for no budget, as where the ε of the one release is 0."""
    target = closed_forms.gdp_epsilon(mu, delta)

    def excess(mu_of_try: float) -> float:
        return stopped_epsilon(stopping, tries, mu_of_try, delta) - target

    lower = mu * 1e-4
    # Several tries at μ cost more than one release, so that μ₀ is below μ.
    return math.nan if excess(lower) > 0 else float(brentq(excess, lower, mu, xtol=1e-10))


# ------------------------------------------------------------------------------------------------ points and trainings

# After the first step, batches are on average this share of the first one at a bias level of 0.02 or less; at a higher
# level ω a smaller share, in proportion to (0.02/ω)^0.45 (measured; THEORY.md, section 9).
LATER_SHARE, LATER_LEVEL, LATER_POWER = 0.6, 0.02, 0.45


def expected_trainings(batches: BatchRule, steps: int) -> float:
    """Estimate the number of trainings of one replicate in T = `steps` steps, one for each evaluated point."""
    return float(expected_batches(batches, steps).sum())


def expected_batches(batches: BatchRule, steps: int) -> np.ndarray:
    """Estimate (T,) the number of points that each step evaluates. The first batch is known exactly; later ones are
    smaller, as they reuse earlier points, unless all have the same size."""
    first_size = batches.first_size()
    has_level = batches.size is None and batches.placing.design != "central"
    if has_level and batches.first_size_by_formula() is not None:
        later_share = LATER_SHARE * min(1.0, (LATER_LEVEL / batches.level) ** LATER_POWER)
        later_size = max(later_share * first_size, batches.placing.min_points)
    else:  # the size is set; or no first batch reaches the level, then later ones are as large as possible, too
        later_size = float(first_size)
    sizes = np.array([first_size, *[later_size] * (steps - 1)], dtype=float)
    surrogate, d = batches.surrogate, len(batches.low)
    coefficients = (d + 1) * (d + 2) / 2  # of a quadratic function, which is known after as many evaluations
    if surrogate.kernel == "quadratic" and surrogate.noise <= NOTHING_NEW and batches.window >= coefficients:
        # Nothing is evaluated after the function is known, as all evaluations of it are kept.
        sizes = np.diff(np.minimum(np.cumsum(sizes), coefficients), prepend=0.0)
    return sizes
