"""Estimates before a run: batches, trainings, and warnings."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammainccinv

from dpviz import resources
from dpviz.families.bayesian_optimization.batches import Batches
from dpviz.families.bayesian_optimization.posterior import NOTHING_NEW
from dpviz.numbers import short
from dpviz.privacy.accounting import closed_forms
from dpviz.problems.tuning.tuning import TuningFacts

# --------------------------------------------------------------------------------------------------------------- noise


def noise_radius(noise: float, d: int, steps: int, failure: float) -> float:
    """Return r, which the norm of the noise exceeds in none of T steps with probability 1 - ζ: from quantiles of χ²
    (section 5)."""
    return noise * math.sqrt(2 * float(gammainccinv(d / 2, failure / steps)))


def published_radius(noise: float, d: int, steps: int, failure: float) -> float:
    """Return the published radius of the noise, σ(4√d + 2√(2 ln(T/ζ))), Lemma A.5; see `noise_radius`."""
    return noise * (4 * math.sqrt(d) + 2 * math.sqrt(2 * math.log(steps / failure)))


def value_release_factor(loss_cap: float, clip: float, distance: float, d: int) -> float:
    """Return M√d/(2Bh), the factor of noise in each coordinate if a gradient is made of the differences of losses that
    are released one by one, 2d of them at the distance h."""
    return loss_cap * math.sqrt(d) / (2 * clip * distance)


# ---------------------------------------------------------------------------------------------------------------- bias


def bias_bound(norm: float, uncertainty: float) -> float:
    """Return M √λ_max(Σ), a bound on the error of the estimated mean gradient, if the mean loss has norm M in the
    kernel's space and observations have no noise. uncertainty : √λ_max(Σ) for unit amplitude."""
    return norm * uncertainty


def planned_uncertainty(level: float, d: int, prior: float) -> float:
    """Return √(ωP/d), which is √λ_max(Σ) if a share ω = level of the prior trace P remains, evenly over the
    directions."""
    return math.sqrt(level * prior / d)


# -------------------------------------------------------------------------------------------------------- error bounds


@dataclass(frozen=True)
class Landscape:
    """Assumptions on the mean loss near the minimum that is approached; privacy needs none of them.

    smoothness : L. convexity : m, of strong convexity. gap : Δ₀, the loss at the start above the minimum.
    radius : R, of the ball around the minimum in which this holds.
    """

    smoothness: float = 2.0
    convexity: float = 0.2
    gap: float = 1.0
    radius: float = 1.0


@dataclass(frozen=True)
class Bounds:
    """Bounds (T+1,) on the loss above the minimum after each step. expected : on its mean. likely : with probability
    1 - ζ. published : by Theorem 3.7, whose constants are not known (set to 1)."""

    expected: np.ndarray
    likely: np.ndarray
    published: np.ndarray


def bounds(
    landscape: Landscape, step: float, noise: float, bias: float, clip: float, d: int, steps: int, failure: float = 0.05
) -> Bounds:
    """Return bounds for plain steps η ≤ 1/L with noise σ in each coordinate and bias β (section 6).

    step : η. noise : σ. bias : β. failure : ζ.
    """
    m, contraction = landscape.convexity, 1 - step * landscape.convexity
    gap = landscape.gap * contraction ** np.arange(steps + 1.0)
    radius, published = noise_radius(noise, d, steps, failure), published_radius(noise, d, steps, failure)
    floor = bias**2 / (2 * m) + landscape.smoothness * step * d * noise**2 / (2 * m)
    return Bounds(gap + floor, gap + (bias + radius) ** 2 / (2 * m), gap + clip / m * (bias + published))


def noise_floor(step: float, curvature: float, noise: float) -> float:
    """Return ησ²/(λ(2 - ηλ)), the limiting variance of each coordinate of plain steps on a quadratic of curvature λ."""
    return step * noise**2 / (curvature * (2 - step * curvature))


def best_steps(landscape: Landscape, step: float, clip: float, n: int, mu: float, d: int) -> float:
    """Return T*, the number of steps with the smallest bound in expectation: more steps get nearer, and noise grows
    with √T (section 6)."""
    m, rate = landscape.convexity, -math.log1p(-step * landscape.convexity)
    noise_per_step = landscape.smoothness * step * d / (2 * m) * (2 * clip / (n * mu)) ** 2
    return max(1.0, math.log(landscape.gap * rate / noise_per_step) / rate) if noise_per_step else math.inf


def fewest_users(
    landscape: Landscape, clip: float, steps: int, mu: float, d: int, bias: float, failure: float = 0.05
) -> tuple[float, float]:
    """Return the smallest number of users with which all iterates stay in the ball with probability 1 - ζ: with the
    quantile of χ², and as published. Infinite where the bias alone leads out of it (section 6)."""
    allowed_noise = landscape.convexity * landscape.radius - bias
    if allowed_noise <= 0:
        return math.inf, math.inf
    factor = 2 * clip * math.sqrt(steps) / (mu * allowed_noise)
    return factor * noise_radius(1.0, d, steps, failure), factor * published_radius(1.0, d, steps, failure)


def global_trainings(gap: float, d: int) -> float:
    """Return N with gap = exp(-N/(ln N)^(d/4)), the rate of noiseless global search (de Freitas, Smola, Zoghi 2012)
    with constants 1: an illustration, not a theorem.

    gap : in (0, 1), the remaining error as a share of the first one. N is the largest solution; where there is none
    above exp(max(d/4, 1)), where the rate begins to fall with N, it is that number.
    """

    def excess(log_n: float) -> float:
        return log_n - d / 4 * math.log(log_n) - math.log(-math.log(gap))

    low = max(d / 4, 1.0)  # `excess` increases above
    if excess(low) >= 0:
        return math.exp(low)
    return math.exp(float(brentq(excess, low, 100.0 + 50 * d, xtol=1e-12)))


# ----------------------------------------------------------------------------------------------------- random stopping

Stopping = Literal["geometric", "logarithmic"]


def expected_tries(stopping: Stopping, gamma: float) -> float:
    """Return E K of the truncated negative binomial law with η = 1 (geometric) or 0 (logarithmic)."""
    return 1 / gamma if stopping == "geometric" else (1 / gamma - 1) / math.log(1 / gamma)


@lru_cache(256)
def stopping_gamma(stopping: Stopping, tries: float) -> float:
    """Return γ for which K has the mean `tries`, above 1."""
    if stopping == "geometric":
        return 1 / tries
    return math.exp(
        float(brentq(lambda log_gamma: expected_tries(stopping, math.exp(log_gamma)) - tries, -50, -1e-12, xtol=1e-14))
    )


def stopped_epsilon(stopping: Stopping, tries: float, mu: float, delta: float) -> float:
    """Return ε at δ of the best of K tries of a μ-GDP release, with a random K that is kept secret (Papernot and
    Steinke 2022, Theorem 2; section 7)."""
    eta, log_gamma = float(stopping == "geometric"), -math.log(stopping_gamma(stopping, tries))
    # Its infimum over the second order: that of (λ - 1)μ²/2 + ln(1/γ)/λ.
    order = math.sqrt(2 * log_gamma) / mu
    price = mu * math.sqrt(2 * log_gamma) - mu**2 / 2 if order > 1 else log_gamma

    def epsilon(log_excess: float) -> float:
        order = 1 + math.exp(log_excess)
        divergence = order * mu**2 / 2 + (1 + eta) * price + math.log(tries) / (order - 1)
        return divergence + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)

    return float(minimize_scalar(epsilon, bounds=(-7.0, 14.0), method="bounded", options={"xatol": 1e-9}).fun)


def stopped_mu(stopping: Stopping, tries: float, mu: float, delta: float) -> float:
    """Return μ₀ of each try such that the best of K tries has the (ε, δ) of a μ-GDP release at this δ."""
    target = closed_forms.gdp_epsilon(mu, delta)
    return float(brentq(lambda m: stopped_epsilon(stopping, tries, m, delta) - target, mu * 1e-4, mu, xtol=1e-10))


phrase = resources.phrases(__package__)
# Later steps need on average this share of the first batch at a bias level of 0.02 or less, and less at a higher one
# (THEORY.md, section 9).
LATER_SHARE, LATER_LEVEL, LATER_POWER = 0.6, 0.02, 0.45


def expected_trainings(batches: Batches, steps: int) -> float:
    """Return about the number of trainings of a replicate; later steps reuse the history."""
    return float(expected_batches(batches, steps).sum())


def expected_batches(batches: Batches, steps: int) -> np.ndarray:
    """Return (T,) about the number of points that each step adds."""
    first, is_fixed = batches.first(), batches.size is not None or batches.placing.design == "central"
    is_fixed = is_fixed or batches.closed_form() is None  # a level that the first batch misses, later ones miss, too
    share = LATER_SHARE * min(1.0, (LATER_LEVEL / batches.level) ** LATER_POWER)
    sizes = np.full(steps, float(first) if is_fixed else max(share * first, batches.placing.least))
    sizes[0] = first
    surrogate, d = batches.surrogate, len(batches.low)
    coefficients = (d + 1) * (d + 2) / 2  # of a quadratic function, which is exact after this number of evaluations
    if surrogate.kernel == "quadratic" and surrogate.noise <= NOTHING_NEW and batches.window >= coefficients:
        sizes = np.diff(np.minimum(np.cumsum(sizes), coefficients), prepend=0.0)
    return sizes


def warnings(facts: TuningFacts, clip: float, noise: float) -> tuple[str, ...]:
    """Return a warning if the noise is long compared with the clip, from public numbers. noise : standard deviation per
    coordinate."""
    total = noise * math.sqrt(facts.d)
    if total <= clip / 2:
        return ()
    return (
        (
            f"The noise is about {short(total)} long in every step, and no gradient is longer than the clip, "
            f"{short(clip)}: most steps go nowhere. Take fewer steps, more users or a larger budget."
        ),
    )


def surrogate_warnings(facts: TuningFacts, batches: Batches) -> tuple[str, ...]:
    """Return warnings about the surrogate's settings."""
    warnings, surrogate = [], batches.surrogate
    if surrogate.noise < facts.observation_sd**2:
        warnings.append(
            f"The process assumes noise of variance {short(surrogate.noise)} and observations have "
            f"{short(facts.observation_sd**2)}, if a user's loss has variance 1. Assuming too little costs most: "
            "points come too near, and noise is taken for slopes."
        )
    is_by_level = batches.size is None and batches.placing.design != "central" and surrogate.kernel != "quadratic"
    if is_by_level and batches.closed_form() is None:
        warnings.append(
            f"No batch of {short(batches.most)} points leaves so little unexplained: every step will take that "
            "many. Raise the bias level, or allow repeats."
        )
    return tuple(warnings)
