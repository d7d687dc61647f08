"""Plan-time mathematics of the second-order methods: steps, decreases, iterations, and when noise lets a run stop.

Everything here is a function of public numbers. G = smoothness (upper curvature), M = Lipschitz constant of the
Hessian, α and ε_H = targets, d = dimension, s_g and s_H = standard deviations of the noise on gradient and Hessian.
Source: Gao and Wright, "Differentially private optimization for smooth nonconvex ERM" (2023), with the derivations and
corrections of THEORY.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from pydantic import model_validator
from scipy.optimize import brentq
from scipy.special import gammainc

from dpviz.families.second_order.noise_spectrum import log_chance
from dpviz.specification import Specification, number


class Constants(Specification):
    """Shares of the tolerances that noise may use up.

    The stopping test uses ε_g = α/(1 + c₁) and ε_H/(1 + c), so that a point that passes it has ‖∇f‖ ≤ α and
    λ_min ≥ -ε_H as long as the noise stays within its shares (THEORY.md, "Decrease").
    """

    kind: ClassVar[str] = "families.second_order.constants"
    c_1: float = number(
        0.1,
        0.02,
        0.45,
        label="Gradient noise",
        symbol="c₁",
        help="Share of ε_g that the gradient's noise may take. Smaller = stops sooner; 0.268 needs the fewest rows to "
        "guarantee it.",
    )
    c: float = number(
        0.1, 0.01, 0.3, label="Hessian noise", symbol="c", help="Share of ε_H that the Hessian's noise may take."
    )
    c_2: float = number(
        1 / 12,
        0.005,
        0.3,
        label="Gradient noise in curvature steps",
        symbol="c₂",
        help="Gradient noise along a curvature step, as a share of ε_H²/M. Needs c + c₂ < 1/3.",
    )

    @model_validator(mode="after")
    def _steps_decrease(self) -> "Constants":
        if self.c + self.c_2 >= 1 / 3:
            raise ValueError("c + c₂ must be below 1/3, or a curvature step need not decrease the objective")
        return self


class Ladder(Specification):
    """Step sizes that a line search tries, and its conditions to accept one (THEORY.md, "Line search")."""

    kind: ClassVar[str] = "families.second_order.ladder"
    c_g: float = number(
        0.6,
        0.05,
        0.9,
        label="Decrease of a gradient step",
        symbol="c_g",
        help="A step γ is accepted where f falls by c_g γ ‖g̃‖². Needs c₁ + c_g < 1.",
    )
    c_h: float = number(
        0.25,
        0.01,
        0.7,
        label="Decrease of a curvature step",
        symbol="c_H",
        help="A step γ is accepted where f falls by c_H γ² |λ̃|/2. Needs (1 - c - c_H)²/4 > 2c₂/3.",
    )
    beta_g: float = number(
        0.6, 0.1, 0.95, label="Shrinking, gradient", symbol="β_g", help="Ratio of a candidate to the one before."
    )
    beta_h: float = number(
        0.5, 0.1, 0.95, label="Shrinking, curvature", symbol="β_H", help="Ratio of a candidate to the one before."
    )
    b_g: float | None = number(
        None,
        1.0,
        50.0,
        label="First candidate, gradient",
        symbol="b_g",
        scale="log",
        help="Times the step that is sure to be accepted. By theory: so that no step is longer than 12, at most 20.",
    )
    b_h: float = number(
        20.0,
        1.0,
        50.0,
        label="First candidate, curvature",
        symbol="b_H",
        scale="log",
        help="Times the step that is sure to be accepted.",
    )

    def refused_with(self, constants: Constants) -> str:
        """Return the condition that these settings and `constants` violate, as a sentence; empty if there is none."""
        if constants.c_1 + self.c_g >= 1:
            return "c₁ + c_g must be below 1, or the line search has no gradient step that it is sure to accept"
        if (1 - constants.c - self.c_h) ** 2 / 4 <= 2 * constants.c_2 / 3:
            return "(1 - c - c_H)²/4 must be above 2c₂/3, or it has no curvature step that it is sure to accept"
        return ""


@dataclass(frozen=True)
class Searching:
    """Noise of the sparse vectors of a run.

    epsilon : of each. sensitivity : 2B/n, of a query per length of the direction. candidates : largest number of steps
    of one search. allowed : largest error of a query that the theorem allows, per length of the direction.
    """

    epsilon: float
    sensitivity: float
    candidates: int
    allowed: float

    def error(self, failure: float) -> float:
        """Return q_f: with probability at least 1 - failure, no candidate of one search exceeds the threshold by more
        than it should plus q_f times the length of the direction."""
        return self.sensitivity / self.epsilon * search_quantile(self.candidates, failure)


def search_quantile(candidates: int, failure: float) -> float:
    """Return z, in units of Δ/ε, such that the noise of some of `candidates` values of a sparse vector exceeds that of
    its threshold by more than z with probability at most `failure`: a union bound over the values.

    Laplace noise of scales a = 2/ε₂ on a value and b = 1/ε₁ on the threshold, ε₁ : ε₂ = 1 : 2^{2/3}: the difference
    exceeds z > 0 with probability (a² e^{-z/a} - b² e^{-z/b})/(2(a² - b²)).
    """
    b = 1 + 2 ** (2 / 3)
    a = 2 * b / 2 ** (2 / 3)
    each = min(failure / candidates, 0.5)

    def excess(z: float) -> float:
        return (a**2 * math.exp(-z / a) - b**2 * math.exp(-z / b)) / (2 * (a**2 - b**2)) - each

    upper = a * math.log(a**2 / (a**2 - b**2) / (2 * each)) + 1  # where the first term alone is below
    return float(brentq(excess, 0.0, upper))


Shape = Literal["goe", "upper"]
Light = Literal["green", "amber", "red"]

PAPER, USUAL = Constants(), Ladder()
LONGEST_STEP = 12.0  # of a line search along the gradient, unless b_g is set
LARGEST_B = 20.0
GREEN = 2.0  # iterations near a flat stationary point until both tests pass


# -------------------------------------------------------------------------------------------------- steps and decreases


@dataclass(frozen=True)
class Analysis:
    """Guaranteed decrease of one step while the noise stays within its shares (THEORY.md, "Decrease").

    curvature_target : ε_H, or None for its usual pairing √(Mα). bare : True if the test uses the targets themselves, so
        that no part of them is left for noise.
    """

    smoothness: float
    hessian_lipschitz: float
    gradient_target: float
    curvature_target: float | None = None
    constants: Constants = PAPER
    bare: bool = False

    @cached_property
    def curvature(self) -> float:
        """ε_H: the curvature target, by default √(Mα)."""
        if self.curvature_target is None:
            return math.sqrt(self.hessian_lipschitz * self.gradient_target)
        return self.curvature_target

    @cached_property
    def gradient_tolerance(self) -> float:
        """ε_g = α/(1 + c₁), the limit of the stopping test on the norm of a noisy gradient."""
        return self.gradient_target / (1 if self.bare else 1 + self.constants.c_1)

    @cached_property
    def curvature_tolerance(self) -> float:
        """ε_H/(1 + c): the stopping test takes a noisy smallest eigenvalue of at least minus this for flat."""
        return self.curvature / (1 if self.bare else 1 + self.constants.c)

    @cached_property
    def gradient_decrease(self) -> float:
        """D_g, the guaranteed decrease of the objective in a short gradient step."""
        return (1 - 2 * self.constants.c_1) / (2 * self.smoothness) * self.gradient_tolerance**2

    @cached_property
    def curvature_decrease(self) -> float:
        """D_H, the guaranteed decrease of the objective in a short curvature step."""
        rest = 1 / 3 - self.constants.c - self.constants.c_2
        return 2 * rest / self.hessian_lipschitz**2 * self.curvature_tolerance**3

    @cached_property
    def admissible_gradient_noise(self) -> float:
        """Largest norm of a gradient's error for which the decreases are guaranteed."""
        c = self.constants
        return min(c.c_1 * self.gradient_tolerance, c.c_2 * self.curvature_tolerance**2 / self.hessian_lipschitz)

    @cached_property
    def admissible_hessian_noise(self) -> float:
        """Largest spectral norm of a Hessian's error for which the decreases are guaranteed."""
        return self.constants.c * self.curvature_tolerance


@dataclass(frozen=True)
class Search:
    """Guaranteed decrease of a line search, and the steps that it tries (THEORY.md, "Line search").

    The length γ of a step is in units of the gradient for a gradient step, of the unit eigenvector for a curvature
    step, which is in proportion to |λ̃|.
    """

    analysis: Analysis
    ladder: Ladder = USUAL

    @cached_property
    def gradient_fallback(self) -> float:
        """γ̄_g, the longest gradient step that is guaranteed to meet the condition."""
        return 2 * (1 - self.analysis.constants.c_1 - self.ladder.c_g) / self.analysis.smoothness

    @cached_property
    def accepted_curvature_steps(self) -> tuple[float, float]:
        """t₁ < t₂ between which steps t|λ̃|/M are guaranteed to meet the condition."""
        a = 1 - self.analysis.constants.c - self.ladder.c_h
        root = 3 * math.sqrt(a**2 / 4 - 2 * self.analysis.constants.c_2 / 3)
        return 1.5 * a - root, 1.5 * a + root

    @cached_property
    def curvature_fallback(self) -> float:
        """t₂/M, per |λ̃| the longest curvature step that is guaranteed to meet the condition."""
        return self.accepted_curvature_steps[1] / self.analysis.hessian_lipschitz

    @cached_property
    def gradient_decrease(self) -> float:
        """Guaranteed decrease of a gradient step; half of the condition is reserved for the noise of the search."""
        return self.ladder.c_g * self.gradient_fallback * self.analysis.gradient_tolerance**2 / 2

    @cached_property
    def curvature_decrease(self) -> float:
        """Guaranteed decrease of a curvature step."""
        longest = self.accepted_curvature_steps[1]
        unit = self.analysis.curvature_tolerance**3 / self.analysis.hessian_lipschitz**2
        return self.ladder.c_h * longest**2 * unit / 4

    @cached_property
    def gradient_steps(self) -> np.ndarray:
        """Candidates (k,) for a gradient step, longest first."""
        first = self.ladder.b_g
        if first is None:
            first = min(LARGEST_B, max(1.0, LONGEST_STEP / self.gradient_fallback))
        return self.gradient_fallback * candidates(first, self.ladder.beta_g)

    @cached_property
    def curvature_steps(self) -> np.ndarray:
        """Candidates (k,) for a curvature step, per |λ̃|, longest first."""
        return self.curvature_fallback * candidates(self.ladder.b_h, self.ladder.beta_h)

    def blindness(self, epsilon: float, gradient_sensitivity: float) -> float:
        """Return v, the standard deviation of the noise on the values over the decrease that is tested, at a gradient
        just above its tolerance; above 1 the search is blind.

        epsilon : of one sparse vector; 2^{2/3}/(1 + 2^{2/3}) of it is for the values, whose noise has scale 2Δ/ε₂ with
        Δ = gradient_sensitivity ‖g̃‖, the sensitivity being 2B_g/n.
        """
        for_values = epsilon * 2 ** (2 / 3) / (1 + 2 ** (2 / 3))
        deviation = math.sqrt(2) * 2 * gradient_sensitivity / for_values
        return deviation / (self.ladder.c_g * self.analysis.gradient_tolerance)

    def admissible_noise(self, asks: bool) -> float:
        """Return the largest error of a query of a search, per length of the step, that the theorem allows: half of the
        smallest decrease that is tested (THEORY.md, 5.4). asks : True if Hessians are released."""
        along_gradient = self.ladder.c_g * self.analysis.gradient_tolerance / 2
        if not asks:
            return along_gradient
        min_step = self.curvature_fallback * self.analysis.curvature_tolerance
        return min(along_gradient, self.ladder.c_h * min_step * self.analysis.curvature_tolerance / 4)


def candidates(first: float, ratio: float) -> np.ndarray:
    """Return (k,) first · ratio^i, i = 0, 1, ..., as long as it is above 1; the first in any case."""
    return np.asarray(first * ratio ** np.arange(max(1, math.ceil(math.log(first) / -math.log(ratio)))))


# ----------------------------------------------------------------------------------------------------------- iterations


def iterations(gap: float, decrease: float) -> int:
    """Return T, the number of steps after which nothing of the gap remains if each step takes `decrease` off it."""
    return max(1, math.ceil(gap / decrease))


def trust_region_target(analysis: Analysis) -> float:
    """Return α_TR = min(α, ε_H²/M), the tolerance of DP-TR with which its stop implies the curvature ε_H, too."""
    return min(analysis.gradient_target, analysis.curvature**2 / analysis.hessian_lipschitz)


def trust_region_iterations(gap: float, target: float, hessian_lipschitz: float) -> int:
    """Return T of DP-TR: 6 √M Γ/α_TR^{3/2}."""
    return max(1, math.ceil(6 * math.sqrt(hessian_lipschitz) * gap / target**1.5))


def phase_lengths(rule: Literal["one", "two", "doubling"], iterations: int, cap: int) -> tuple[int, ...]:
    """Return the number of iterations of each phase; all together at most `cap`.

    two : ⌊√T⌋, then T. doubling : ⌊√T⌋ · 2^j until that reaches T, and T.
    """
    whole = min(iterations, cap)
    lengths = [math.isqrt(whole)] if rule != "one" else []
    while rule == "doubling" and lengths[-1] * 2 < whole:
        lengths.append(lengths[-1] * 2)
    lengths.append(whole)
    ends = np.minimum(np.cumsum(lengths), cap)
    return tuple(int(length) for length in np.diff(ends, prepend=0) if length > 0)


def phase_shares(rule: Literal["one", "two", "doubling"], phases: int, first_share: float) -> np.ndarray:
    """Return (phases,) the share of ρ of each: the first one's and the rest, or each half of the previous one."""
    if phases == 1:
        return np.ones(1)
    if rule == "two":
        return np.array([first_share, 1 - first_share])
    shares = 0.5 ** np.arange(phases)
    return np.asarray(shares / shares.sum())


# --------------------------------------------------------------------------------------------------- noise and its size


def spectral_factor(d: int, shape: Shape) -> float:
    """Return κ_d: the spectral norm of a d × d matrix of noise is about κ_d s_H; 2√d, or √(2d) for goe."""
    return math.sqrt(2 * d) if shape == "goe" else 2 * math.sqrt(d)


def gradient_quantile(d: int, failure: float) -> float:
    """Return q such that the error of a noisy gradient is longer than q s_g with probability at most `failure`."""
    return math.sqrt(d) + math.sqrt(2 * math.log(1 / failure))


def hessian_quantile(d: int, failure: float, shape: Shape) -> float:
    """Return q such that the error of a noisy Hessian exceeds q s_H in spectral norm with probability at most
    `failure`."""
    spread = math.sqrt(2) if shape == "goe" else 2.0
    return spectral_factor(d, shape) + spread * math.sqrt(math.log(2 / failure))


# ----------------------------------------------------------------------------------------------- can a run stop at all?


@dataclass(frozen=True)
class Stopping:
    """Stopping test at a flat stationary point in one phase of a run: does it pass under this noise, and how soon?

    iterations : of the phase. gradient_noise, hessian_noise : s_g, s_H; hessian_noise is 0 if no Hessian is released.
    gradient_tolerance, curvature_tolerance : of the test. in_a_row : number of successive times that it must pass.
    approach : iterations reserved for the way to such a point; 0 where the analysis guarantees that there are enough.
    """

    iterations: int
    d: int
    shape: Shape
    gradient_noise: float
    hessian_noise: float
    gradient_tolerance: float
    curvature_tolerance: float
    in_a_row: int = 1
    approach: float = 0.0

    @property
    def gradient_ratio(self) -> float:
        """r_g = √d s_g/ε_g: above 1, even a zero gradient usually looks long."""
        return math.sqrt(self.d) * self.gradient_noise / self.gradient_tolerance

    @property
    def hessian_ratio(self) -> float:
        """r_H = κ_d s_H/ε_H: above 1, noise alone usually looks like negative curvature."""
        return spectral_factor(self.d, self.shape) * self.hessian_noise / self.curvature_tolerance

    @property
    def gradient_chance(self) -> float:
        """P(‖g̃‖ ≤ ε_g) where the gradient is zero."""
        if not self.gradient_noise:
            return 1.0
        return float(gammainc(self.d / 2, (self.gradient_tolerance / self.gradient_noise) ** 2 / 2))

    @property
    def hessian_chance(self) -> float:
        """P(λ̃_min ≥ -ε_H) where the Hessian is zero."""
        return math.exp(self._log_hessian_chance)

    @property
    def _log_hessian_chance(self) -> float:
        if not self.hessian_noise:
            return 0.0
        return log_chance(self.d, self.shape, self.curvature_tolerance / self.hessian_noise)

    @property
    def waiting_time(self) -> float:
        """W, the mean number of iterations that a run spends near the point until both tests pass; may be infinite."""
        chance = self.gradient_chance * self.hessian_chance
        if chance < 1e-300 or -self.in_a_row * math.log(chance) > 600:
            return math.inf
        return float((1 / chance) ** np.arange(1, self.in_a_row + 1) @ np.ones(self.in_a_row))

    @property
    def too_short(self) -> bool:
        """True if the phase has fewer iterations than the times that the test must pass, so that no noise is small
        enough."""
        return self.iterations < self.in_a_row

    @property
    def hurried(self) -> bool:
        """True if the phase may end on the way to such a point, however small the noise is."""
        return self.iterations < self.approach + self.in_a_row

    @property
    def recognised(self) -> bool:
        """True if a run stops at once when it is at such a point."""
        return self.waiting_time <= GREEN * self.in_a_row

    @property
    def light(self) -> Light:
        """Forecast. green: a run reaches such a point and stops at once; amber: it stops late, by luck of the noise, or
        only if it is there in time; red: it is not expected to stop in these iterations."""
        if self.too_short:
            return "red"
        if self.recognised and self.iterations >= self.approach + self.waiting_time:
            return "green"
        return "amber" if self.waiting_time <= max(self.iterations / 2, GREEN) else "red"

    def quieter(self, factor: float) -> "Stopping":
        """Return the same test with the noise divided by `factor`."""
        return replace(self, gradient_noise=self.gradient_noise / factor, hessian_noise=self.hessian_noise / factor)

    @property
    def green_at(self) -> float:
        """Factor by which noise must fall until the forecast is green: at most 1 if it is; infinite if none does."""
        return math.inf if self.hurried or self.too_short else self._min_factor(lambda other: other.light == "green")

    @property
    def recognised_at(self) -> float:
        """Factor by which noise must fall until a run stops at once when it is at such a point, no matter when."""
        return self._min_factor(lambda other: other.recognised)

    def _min_factor(self, holds: Callable[["Stopping"], bool]) -> float:
        """Return the smallest factor of `quieter` at which `holds` is true, if it stays true for less noise: by
        bisection in the logarithm; rounded up to 1e-9."""
        low, high = -60.0, 60.0
        if not (self.gradient_noise or self.hessian_noise):
            return 0.0
        while high - low > 1e-9:
            middle = (low + high) / 2
            if holds(self.quieter(math.exp(middle))):
                high = middle
            else:
                low = middle
        return math.exp(high)


@dataclass(frozen=True)
class Guarantee:
    """Conditions of the theorem on the noise, with probability at least 1 - failure over a whole run of T iterations.

    gradient_error, hessian_error, search_error : q_g, q_H and q_f, which are not exceeded with that probability;
    allowed_… : what the theorem allows.
    """

    gradient_error: float
    hessian_error: float
    allowed_gradient_error: float
    allowed_hessian_error: float
    search_error: float = 0.0
    allowed_search_error: float = math.inf

    @property
    def factor(self) -> float:
        """n_min/n, the factor of rows that the theorem needs, as noise falls with 1/n; it holds at 1 or below."""
        return max(
            self.gradient_error / self.allowed_gradient_error,
            self.hessian_error / self.allowed_hessian_error,
            self.search_error / self.allowed_search_error,
        )


def guarantee(
    analysis: Analysis,
    stopping: Stopping,
    failure: float,
    iterations: int | None = None,
    searching: Searching | None = None,
) -> Guarantee:
    """Return the theorem's conditions by a union bound over all releases, with equal parts of the failure probability
    for gradients, Hessians and, if any, searches.

    stopping : of the phase with the most noise. iterations : of all phases together; None if there is only one phase.
    """
    each = failure / ((2 if searching is None else 3) * (iterations or stopping.iterations))
    result = Guarantee(
        stopping.gradient_noise * gradient_quantile(stopping.d, each),
        stopping.hessian_noise * hessian_quantile(stopping.d, each, stopping.shape),
        analysis.admissible_gradient_noise,
        analysis.admissible_hessian_noise,
    )
    if searching is None:
        return result
    return replace(result, search_error=searching.error(each), allowed_search_error=searching.allowed)


def published_rows(d: int, rho: float, gradient_tolerance: float, curvature_tolerance: float) -> float:
    """Return n_min by formula (4) of the poster, √(d/ρ) · Õ(max(1/ε_g², 1/(ε_g ε_H²), ε_H^(-7/2))), with 1 for the
    factors that Õ hides.

    These are constants and logarithms, and a further √d where the Hessian's noise is as published (THEORY.md, E10).
    """
    worst = max(gradient_tolerance**-2, 1 / (gradient_tolerance * curvature_tolerance**2), curvature_tolerance**-3.5)
    return math.sqrt(d / rho) * worst
