"""Formulas that are known before a run: noise, bias, bounds, how many steps and users (THEORY.md, sections 5 to 8)."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammainccinv

from dpviz.privacy.accounting import closed_forms

# --------------------------------------------------------------------------------------------------------------- noise


def noise_radius(noise: float, d: int, steps: int, failure: float) -> float:
    """r, which the noise of none of T steps exceeds with probability 1 - ζ: from quantiles of χ² (section 5)."""
    return noise * math.sqrt(2 * float(gammainccinv(d / 2, failure / steps)))


def published_radius(noise: float, d: int, steps: int, failure: float) -> float:
    """The same as published: σ(4√d + 2√(2 ln(T/ζ))), Lemma A.5."""
    return noise * (4 * math.sqrt(d) + 2 * math.sqrt(2 * math.log(steps / failure)))


def value_release_factor(loss_cap: float, clip: float, distance: float, d: int) -> float:
    """How many times more noise a gradient has in each coordinate if it is the difference of losses that are released
    each by itself, 2d of them at that distance: M√d/(2Bh)."""
    return loss_cap * math.sqrt(d) / (2 * clip * distance)


# ---------------------------------------------------------------------------------------------------------------- bias


def bias_bound(norm: float, uncertainty: float) -> float:
    """M √λ_max(Σ): how far the estimated mean gradient can be from the true one, if the mean loss has norm M in the
    kernel's space and observations have no noise. uncertainty : √λ_max(Σ) for unit amplitude."""
    return norm * uncertainty


def planned_uncertainty(level: float, d: int, prior: float) -> float:
    """√λ_max(Σ) where a share `level` of the prior trace P is left, evenly over the directions: √(ωP/d)."""
    return math.sqrt(level * prior / d)


# -------------------------------------------------------------------------------------------------------- error bounds


@dataclass(frozen=True)
class Landscape:
    """What is assumed of the mean loss near the minimum that is approached; privacy needs none of it.

    smoothness : L. convexity : m, of strong convexity. gap : Δ₀, the loss at the start above the minimum.
    radius : R, of the ball around the minimum in which this holds.
    """

    smoothness: float = 2.0
    convexity: float = 0.2
    gap: float = 1.0
    radius: float = 1.0


@dataclass(frozen=True)
class Bounds:
    """(T+1,) bounds on the loss above the minimum after each step. expected : of its mean. likely : with probability
    1 - ζ. published : Theorem 3.7, whose constants are not known (taken as 1)."""

    expected: np.ndarray
    likely: np.ndarray
    published: np.ndarray


def bounds(
    landscape: Landscape, step: float, noise: float, bias: float, clip: float, d: int, steps: int, failure: float = 0.05
) -> Bounds:
    """Bounds for plain steps η ≤ 1/L with noise σ in each coordinate and bias β (section 6)."""
    m, shrinking = landscape.convexity, 1 - step * landscape.convexity
    left = landscape.gap * shrinking ** np.arange(steps + 1.0)
    radius, theirs = noise_radius(noise, d, steps, failure), published_radius(noise, d, steps, failure)
    floor = bias**2 / (2 * m) + landscape.smoothness * step * d * noise**2 / (2 * m)
    return Bounds(left + floor, left + (bias + radius) ** 2 / (2 * m), left + clip / m * (bias + theirs))


def noise_floor(step: float, curvature: float, noise: float) -> float:
    """Variance of each coordinate in which plain steps end up on a quadratic: ησ²/(λ(2 - ηλ))."""
    return step * noise**2 / (curvature * (2 - step * curvature))


def best_steps(landscape: Landscape, step: float, clip: float, n: int, mu: float, d: int) -> float:
    """T*, where the bound in expectation is smallest: more steps get nearer, and noise grows with √T (section 6)."""
    m, rate = landscape.convexity, -math.log1p(-step * landscape.convexity)
    each = landscape.smoothness * step * d / (2 * m) * (2 * clip / (n * mu)) ** 2
    return max(1.0, math.log(landscape.gap * rate / each) / rate) if each else math.inf


def fewest_users(
    landscape: Landscape, clip: float, steps: int, mu: float, d: int, bias: float, failure: float = 0.05
) -> tuple[float, float]:
    """How many users keep all iterates in the ball with probability 1 - ζ: with the quantile of χ², and as published.
    Infinite where the bias alone leads out (section 6)."""
    room = landscape.convexity * landscape.radius - bias
    if room <= 0:
        return math.inf, math.inf
    each = 2 * clip * math.sqrt(steps) / (mu * room)
    return each * noise_radius(1.0, d, steps, failure), each * published_radius(1.0, d, steps, failure)


def global_trainings(gap: float, d: int) -> float:
    """An illustration, not a theorem: N with gap = exp(-N/(ln N)^(d/4)), the rate of noiseless global search (de
    Freitas, Smola, Zoghi 2012) with constants 1."""

    def excess(log_n: float) -> float:
        return log_n - d / 4 * math.log(log_n) - math.log(-math.log(gap))

    low = max(d / 4, 1.0)  # the left side falls before, and grows after
    if excess(low) >= 0:
        return math.exp(low)
    return math.exp(float(brentq(excess, low, 100.0 + 50 * d, xtol=1e-12)))


# ----------------------------------------------------------------------------------------------------- random stopping

Stopping = Literal["geometric", "logarithmic"]


def expected_tries(stopping: Stopping, gamma: float) -> float:
    """E K of the truncated negative binomial law with η = 1 (geometric) or 0 (logarithmic)."""
    return 1 / gamma if stopping == "geometric" else (1 / gamma - 1) / math.log(1 / gamma)


@lru_cache(256)
def stopping_gamma(stopping: Stopping, tries: float) -> float:
    """γ for which K has this mean, above 1."""
    if stopping == "geometric":
        return 1 / tries
    return math.exp(
        float(brentq(lambda log_gamma: expected_tries(stopping, math.exp(log_gamma)) - tries, -50, -1e-12, xtol=1e-14))
    )


def stopped_epsilon(stopping: Stopping, tries: float, mu: float, delta: float) -> float:
    """ε at δ of the best of K tries of a μ-GDP release, K drawn and kept secret (Papernot and Steinke 2022, Theorem 2;
    section 7)."""
    eta, log_gamma = float(stopping == "geometric"), -math.log(stopping_gamma(stopping, tries))
    # Its infimum over the second order: that of (λ - 1)μ²/2 + ln(1/γ)/λ.
    order = math.sqrt(2 * log_gamma) / mu
    price = mu * math.sqrt(2 * log_gamma) - mu**2 / 2 if order > 1 else log_gamma

    def at(log_excess: float) -> float:
        order = 1 + math.exp(log_excess)
        divergence = order * mu**2 / 2 + (1 + eta) * price + math.log(tries) / (order - 1)
        return divergence + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)

    return float(minimize_scalar(at, bounds=(-7.0, 14.0), method="bounded", options={"xatol": 1e-9}).fun)


def stopped_mu(stopping: Stopping, tries: float, mu: float, delta: float) -> float:
    """μ₀ of each try, if the best of K is to have the (ε, δ) of a μ-GDP release at that δ."""
    target = closed_forms.gdp_epsilon(mu, delta)
    return float(brentq(lambda m: stopped_epsilon(stopping, tries, m, delta) - target, mu * 1e-4, mu, xtol=1e-10))
