"""Plan-time mathematics of the second-order methods: steps, decreases, iterations, and when noise lets a run stop.

Everything here is a function of public numbers. f is the objective, G its smoothness (largest curvature), M the
Lipschitz constant of its Hessian, Γ the gap, a bound on how far f can fall from the start. α and ε_H are the targets: a
solution has ‖∇f‖ ≤ α and λ_min(∇²f) ≥ -ε_H. d is the dimension, s_g and s_H are standard deviations of the noise on
gradient and Hessian; g̃ and λ̃ are the noisy gradient and the smallest eigenvalue of the noisy Hessian, or λ̃_min.
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
    """Candidate step sizes of a line search, and its conditions to accept one (THEORY.md, "Line search").

    Candidates begin at a multiple b of the step that is sure to be accepted, and shrink by a factor β from each to the
    next; c is the decrease that is asked for. The letters g and H stand for steps along gradients and along curvature.
    """

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
        limits=(1.0, 1e6),
    )
    b_h: float = number(
        20.0,
        1.0,
        50.0,
        label="First candidate, curvature",
        symbol="b_H",
        scale="log",
        help="Times the step that is sure to be accepted.",
        limits=(1.0, 1e6),
    )

    def conflict_with(self, constants: Constants) -> str:
        """Return a sentence that names the condition that these settings and `constants` violate; "" if there is
        none."""
        # So that `Search.gradient_fallback` is positive, and the root in `Search.accepted_curvature_steps` is real.
        if constants.c_1 + self.c_g >= 1:
            return "c₁ + c_g must be below 1, or the line search has no gradient step that it is sure to accept"
        if (1 - constants.c - self.c_h) ** 2 / 4 <= 2 * constants.c_2 / 3:
            return "(1 - c - c_H)²/4 must be above 2c₂/3, or the line search has no such curvature step"
        return ""


@dataclass(frozen=True)
class SearchNoise:
    """Noise of the line searches of a run, each of which is a sparse vector with a query for every candidate step.

    epsilon : ε of each search. sensitivity : 2B/n, the sensitivity of a query divided by the length of the direction,
        where B bounds the norm of a row's gradient. candidates : largest number of candidate steps of a search.
    allowed_error : largest error of a query that the theorem allows, divided by the length of the direction.
    """

    epsilon: float
    sensitivity: float
    candidates: int
    allowed_error: float

    def error(self, failure: float) -> float:
        """Return q_f: with probability at least 1 - failure, noise raises no query of one search against its threshold
        by more than q_f times the length of the direction."""
        return self.sensitivity / self.epsilon * search_quantile(self.candidates, failure)


def search_quantile(candidates: int, failure: float) -> float:
    """Return z such that, with probability at least 1 - failure, no noise on the `candidates` values of a sparse vector
    exceeds the noise on its threshold by more than z Δ/ε, for values of the sensitivity Δ and the price ε.

    The sparse vector splits ε into ε₁ for the threshold and ε₂ for the values, ε₁ : ε₂ = 1 : 2^{2/3}. In units of Δ/ε
    its Laplace noise has the scale b = ε/ε₁ on the threshold and a = 2 ε/ε₂ on a value. The difference of the two
    exceeds z > 0 with probability (a² e^{-z/a} - b² e^{-z/b})/(2(a² - b²)); a union bound adds this up over the values
    (THEORY.md, 5.4).
    """
    b = 1 + 2 ** (2 / 3)  # ε/ε₁, as ε = ε₁ + ε₂
    a = 2 * b / 2 ** (2 / 3)  # 2 ε/ε₂, as ε₂ = 2^{2/3} ε₁
    failure_of_value = min(failure / candidates, 0.5)  # at most that of z = 0

    def excess(z: float) -> float:
        return (a**2 * math.exp(-z / a) - b**2 * math.exp(-z / b)) / (2 * (a**2 - b**2)) - failure_of_value

    # The probability falls from ½ at z = 0. Its first term alone is `failure_of_value` 1 before `upper`; the whole is
    # less there, but by how much may be lost in rounding.
    upper = a * math.log(a**2 / (a**2 - b**2) / (2 * failure_of_value)) + 1
    return float(brentq(excess, 0.0, upper))


Shape = Literal["goe", "upper"]
Light = Literal["green", "amber", "red"]

PAPER, USUAL = Constants(), Ladder()
# Unless b_g is set, the first candidate of a search along the gradient has at most this length, in units of the
# gradient, and is at most LARGEST_B times the step that is sure to be accepted.
LONGEST_STEP = 12.0
LARGEST_B = 20.0
GREEN = 2.0  # largest mean number of iterations at a flat point until both tests pass that counts as stopping at once


# -------------------------------------------------------------------------------------------------- steps and decreases


@dataclass(frozen=True)
class Analysis:
    """Tolerances of the stopping test, and the decrease of f that one step guarantees while the noise stays within its
    shares (THEORY.md, "Decrease").

    smoothness : G. hessian_lipschitz : M. gradient_target : α. curvature_target : ε_H, or None for its usual pairing
    √(Mα). constants : shares of the tolerances that noise may use up. bare : True if the test uses the targets
    themselves, so that no part of them is left for noise.
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
        """ε_H/(1 + c), the limit of the stopping test on minus the smallest eigenvalue of a noisy Hessian."""
        return self.curvature / (1 if self.bare else 1 + self.constants.c)

    @cached_property
    def gradient_decrease(self) -> float:
        """D_g, the guaranteed decrease of the objective in a short gradient step."""
        return (1 - 2 * self.constants.c_1) / (2 * self.smoothness) * self.gradient_tolerance**2

    @cached_property
    def curvature_decrease(self) -> float:
        """D_H, the guaranteed decrease of the objective in a short curvature step."""
        remaining_share = 1 / 3 - self.constants.c - self.constants.c_2
        return 2 * remaining_share / self.hessian_lipschitz**2 * self.curvature_tolerance**3

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
    """Steps that a line search tries, and the decrease of f that it guarantees (THEORY.md, "Line search").

    A gradient step is x ← x - γ g̃. A curvature step is x ← x + γ p along the unit eigenvector p of λ̃ < 0; its γ is
    stated divided by |λ̃|, with which all its candidates grow. The condition to accept a step is that of `Ladder`.
    """

    analysis: Analysis
    ladder: Ladder = USUAL

    @cached_property
    def gradient_fallback(self) -> float:
        """Longest gradient step γ that is guaranteed to meet the condition."""
        return 2 * (1 - self.analysis.constants.c_1 - self.ladder.c_g) / self.analysis.smoothness

    @cached_property
    def accepted_curvature_steps(self) -> tuple[float, float]:
        """Numbers t₁ < t₂ such that curvature steps γ = t|λ̃|/M with t between them are guaranteed to meet the
        condition."""
        # The condition holds where t² - 3at + 6c₂ ≤ 0, between the roots of this polynomial.
        a = 1 - self.analysis.constants.c - self.ladder.c_h
        root = 3 * math.sqrt(a**2 / 4 - 2 * self.analysis.constants.c_2 / 3)
        return 1.5 * a - root, 1.5 * a + root

    @cached_property
    def curvature_fallback(self) -> float:
        """Longest curvature step γ/|λ̃| that is guaranteed to meet the condition, t₂/M."""
        return self.accepted_curvature_steps[1] / self.analysis.hessian_lipschitz

    @cached_property
    def gradient_decrease(self) -> float:
        """Guaranteed decrease of f in a gradient step: half of what the condition asks for; the other half is reserved
        for the noise of the search."""
        return self.ladder.c_g * self.gradient_fallback * self.analysis.gradient_tolerance**2 / 2

    @cached_property
    def curvature_decrease(self) -> float:
        """Guaranteed decrease of f in a curvature step: half of what the condition asks for; the other half is reserved
        for the noise of the search."""
        _, t_2 = self.accepted_curvature_steps
        unit = self.analysis.curvature_tolerance**3 / self.analysis.hessian_lipschitz**2
        return self.ladder.c_h * t_2**2 * unit / 4

    @cached_property
    def gradient_steps(self) -> np.ndarray:
        """Candidates (k,) for a gradient step, γ, longest first."""
        first = self.ladder.b_g
        if first is None:
            first = min(LARGEST_B, max(1.0, LONGEST_STEP / self.gradient_fallback))
        return self.gradient_fallback * candidate_multiples(first, self.ladder.beta_g)

    @cached_property
    def curvature_steps(self) -> np.ndarray:
        """Candidates (k,) for a curvature step, γ/|λ̃|, longest first."""
        return self.curvature_fallback * candidate_multiples(self.ladder.b_h, self.ladder.beta_h)

    def blindness(self, epsilon: float, gradient_sensitivity: float) -> float:
        """Return v: at a gradient just above its tolerance, the standard deviation of the noise on a query of the
        search divided by the decrease that it tests. Above 1 the search is blind.

        epsilon : ε of one search, a sparse vector. The part ε₂ = 2^{2/3}/(1 + 2^{2/3}) of it is for the queries, whose
            Laplace noise has the scale 2Δ/ε₂ for their sensitivity Δ.
        gradient_sensitivity : 2B/n, the sensitivity of a query divided by ‖g̃‖.
        """
        epsilon_2 = epsilon * 2 ** (2 / 3) / (1 + 2 ** (2 / 3))
        deviation = math.sqrt(2) * 2 * gradient_sensitivity / epsilon_2  # of Laplace noise: √2 times its scale
        return deviation / (self.ladder.c_g * self.analysis.gradient_tolerance)

    def admissible_noise(self, with_hessian: bool) -> float:
        """Return the largest error of a query of a search, divided by the length of the direction, that the theorem
        allows: half of the smallest decrease per γ that is tested (THEORY.md, 5.4).

        with_hessian : True if Hessians are released, so that there are curvature steps.
        """
        # Divided by γ, the decrease is to be c_g ‖g̃‖² along g̃, and c_H γ |λ̃|/2 along a unit vector (`Ladder`).
        along_gradient = self.ladder.c_g * self.analysis.gradient_tolerance / 2
        if not with_hessian:
            return along_gradient
        # γ is at least `curvature_fallback` times |λ̃|, and |λ̃| at least the tolerance.
        min_step = self.curvature_fallback * self.analysis.curvature_tolerance
        return min(along_gradient, self.ladder.c_h * min_step * self.analysis.curvature_tolerance / 4)


def candidate_multiples(first: float, ratio: float) -> np.ndarray:
    """Return (k,) the candidates of a line search as multiples of the step that is sure to be accepted, which needs no
    test: first · ratio^i, i = 0, 1, …, as long as they are above 1. One at least: `first`."""
    count = max(1, math.ceil(math.log(first) / -math.log(ratio)))
    return np.asarray(first * ratio ** np.arange(count))


# ----------------------------------------------------------------------------------------------------------- iterations


def iterations(gap: float, decrease: float) -> int:
    """Return T, the number of steps after which nothing of the gap Γ remains if each step takes `decrease` off it."""
    return max(1, math.ceil(gap / decrease))


def trust_region_target(analysis: Analysis) -> float:
    """Return α_TR = min(α, ε_H²/M), the tolerance of DP-TR with which its stop implies the curvature ε_H, too."""
    return min(analysis.gradient_target, analysis.curvature**2 / analysis.hessian_lipschitz)


def trust_region_iterations(gap: float, target: float, hessian_lipschitz: float) -> int:
    """Return T of DP-TR, 6 √M Γ/α_TR^{3/2} rounded up, for gap Γ, tolerance α_TR = target and Lipschitz constant M
    (THEORY.md, 3.5)."""
    return max(1, math.ceil(6 * math.sqrt(hessian_lipschitz) * gap / target**1.5))


def phase_lengths(rule: Literal["one", "two", "doubling"], iterations: int, cap: int) -> tuple[int, ...]:
    """Return the number of iterations of each phase; all together at most `cap`.

    rule : "one" is T. "two" is ⌊√T⌋, then T. "doubling" is ⌊√T⌋ · 2^j for j = 0, 1, … as long as that is below T, then
        T. Here T is `iterations`, or `cap` if that is less.
    """
    last_length = min(iterations, cap)
    lengths = [math.isqrt(last_length)] if rule != "one" else []
    while rule == "doubling" and lengths[-1] * 2 < last_length:
        lengths.append(lengths[-1] * 2)
    lengths.append(last_length)
    ends = np.minimum(np.cumsum(lengths), cap)
    return tuple(int(length) for length in np.diff(ends, prepend=0) if length > 0)


def phase_shares(rule: Literal["one", "two", "doubling"], phases: int, first_share: float) -> np.ndarray:
    """Return (phases,) the share of the budget, in ρ, that each phase gets.

    Of two phases the first gets `first_share`; with the rule "doubling" each gets half of what the previous one gets.
    """
    if phases == 1:
        return np.ones(1)
    if rule == "two":
        return np.array([first_share, 1 - first_share])
    shares = 0.5 ** np.arange(phases)
    return np.asarray(shares / shares.sum())


# --------------------------------------------------------------------------------------------------- noise and its size


def spectral_factor(d: int, shape: Shape) -> float:
    """Return κ_d, √(2d) for the shape "goe" and 2√d for "upper": the spectral norm of a symmetric d × d matrix of noise
    of the scale s_H is about κ_d s_H."""
    return math.sqrt(2 * d) if shape == "goe" else 2 * math.sqrt(d)


def gradient_quantile(d: int, failure: float) -> float:
    """Return q such that the error of a noisy gradient is longer than q s_g with probability at most `failure`
    (THEORY.md, 5.4)."""
    return math.sqrt(d) + math.sqrt(2 * math.log(1 / failure))


def hessian_quantile(d: int, failure: float, shape: Shape) -> float:
    """Return q such that the error of a noisy Hessian exceeds q s_H in spectral norm with probability at most
    `failure` (THEORY.md, 5.4)."""
    spread = math.sqrt(2) if shape == "goe" else 2.0
    return spectral_factor(d, shape) + spread * math.sqrt(math.log(2 / failure))


# ----------------------------------------------------------------------------------------------- can a run stop at all?


@dataclass(frozen=True)
class Stopping:
    """Forecast of the stopping test in one phase of a run: does it pass under this noise at a flat point, where
    gradient and Hessian are zero, and how soon?

    iterations : of the phase. d, shape : dimension, and shape of the noise on Hessians.
    gradient_noise, hessian_noise : s_g and s_H; hessian_noise is 0 if no Hessian is released.
    gradient_tolerance, curvature_tolerance : the test passes if ‖g̃‖ and -λ̃_min are at most these.
    in_a_row : number of successive times that it must pass until a run stops.
    approach : iterations reserved for the way to a flat point; 0 where the analysis guarantees that there are enough.
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
        """Noise of the gradient over its tolerance, r_g = √d s_g/ε_g: above 1, even a zero gradient usually looks
        long."""
        return math.sqrt(self.d) * self.gradient_noise / self.gradient_tolerance

    @property
    def hessian_ratio(self) -> float:
        """Spectral norm of the noise of the Hessian over its tolerance, r_H = κ_d s_H/ε_H: above 1, noise alone usually
        looks like negative curvature."""
        return spectral_factor(self.d, self.shape) * self.hessian_noise / self.curvature_tolerance

    @property
    def gradient_chance(self) -> float:
        """Probability that the noisy gradient is within its tolerance where the gradient is zero."""
        if not self.gradient_noise:
            return 1.0
        # Of ‖g̃‖²/s_g², a chi-squared number with d degrees of freedom, whose distribution function `gammainc` gives.
        return float(gammainc(self.d / 2, (self.gradient_tolerance / self.gradient_noise) ** 2 / 2))

    @property
    def hessian_chance(self) -> float:
        """Probability that the noisy Hessian is within its tolerance where the Hessian is zero."""
        if not self.hessian_noise:
            return 1.0
        # The noise is symmetric, so minus its smallest eigenvalue has the law of its largest one, that of `log_chance`.
        return math.exp(log_chance(self.d, self.shape, level=self.curvature_tolerance / self.hessian_noise))

    @property
    def waiting_time(self) -> float:
        """Mean number W of iterations that a run spends at a flat point until it stops; may be infinite.

        If both tests pass together with probability p, it is 1/p + 1/p² + … + 1/p^k for k passes in a row.
        """
        chance = self.gradient_chance * self.hessian_chance
        # 1/p^k beyond e^600 counts as infinite; floats end at e^709. The first condition keeps 0 from the logarithm.
        if chance < 1e-300 or -self.in_a_row * math.log(chance) > 600:
            return math.inf
        return float(((1 / chance) ** np.arange(1, self.in_a_row + 1)).sum())

    @property
    def too_short(self) -> bool:
        """True if the phase has fewer iterations than the times that the test must pass, so that no noise is small
        enough."""
        return self.iterations < self.in_a_row

    @property
    def recognised(self) -> bool:
        """True if a run stops at once when it gets to a flat point: it waits at most GREEN times as long as it must."""
        return self.waiting_time <= GREEN * self.in_a_row

    @property
    def light(self) -> Light:
        """Forecast as a traffic light.

        Green: a run reaches a flat point and stops there at once. Amber: it stops late, by luck of the noise, or only
        if it gets there in time. Red: it is not expected to stop within the iterations of the phase.
        """
        if self.too_short:
            return "red"
        if self.recognised and self.iterations >= self.approach + self.waiting_time:
            return "green"
        # By Markov's inequality a run with W ≤ T/2 stops within T iterations with probability ½ at least; one with
        # W ≤ GREEN = 2 does so even in the fewest iterations.
        return "amber" if self.waiting_time <= max(self.iterations / 2, GREEN) else "red"

    def quieter(self, factor: float) -> "Stopping":
        """Return the same test with the noise divided by `factor`."""
        return replace(self, gradient_noise=self.gradient_noise / factor, hessian_noise=self.hessian_noise / factor)

    @property
    def factor_until_green(self) -> float:
        """Factor by which noise must fall until the forecast is green: at most 1 if it is green now; infinite if no
        factor suffices."""
        # The phase may end before the run gets to a flat point, however small the noise is.
        if self.iterations < self.approach + self.in_a_row:
            return math.inf
        return self._min_factor(lambda other: other.light == "green")

    @property
    def factor_until_recognised(self) -> float:
        """Factor by which noise must fall until a run stops at once when it gets to a flat point, whenever that is."""
        return self._min_factor(lambda other: other.recognised)

    def _min_factor(self, holds: Callable[["Stopping"], bool]) -> float:
        """Return the smallest factor by which noise must be divided for `holds` to be true of the test; 0 without
        noise.

        It is found by bisection in the logarithm, up to a relative error of 1e-9, and rounded up. `holds` must stay
        true for less noise.
        """
        if not (self.gradient_noise or self.hessian_noise):
            return 0.0
        low, high = -60.0, 60.0  # of the logarithm; noise is never as far from its tolerance as e^60
        while high - low > 1e-9:
            middle = (low + high) / 2
            if holds(self.quieter(math.exp(middle))):
                high = middle
            else:
                low = middle
        return math.exp(high)


@dataclass(frozen=True)
class Guarantee:
    """Errors of releases against those that the theorem allows; if none is larger, a run ends at a solution with
    probability at least 1 - failure.

    gradient_error, hessian_error, search_error : norms of the errors of gradients, Hessians (spectral) and queries of
        line searches that are not exceeded in a whole run with that probability.
    allowed_gradient_error, allowed_hessian_error, allowed_search_error : the largest ones that the theorem allows.
    """

    gradient_error: float
    hessian_error: float
    allowed_gradient_error: float
    allowed_hessian_error: float
    search_error: float = 0.0
    allowed_search_error: float = math.inf

    @property
    def row_factor(self) -> float:
        """Factor n_min/n by which the number of rows must grow until the theorem holds, as noise falls with 1/n; it
        holds now if the factor is 1 or below."""
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
    search_noise: SearchNoise | None = None,
) -> Guarantee:
    """Return the errors of a plan's releases against those that the theorem allows.

    The errors follow from a union bound over all releases: `failure`, the probability that any error is larger, is
    shared equally between gradients, Hessians and, if there are any, line searches, and between iterations.

    stopping : noise of the phase that has the most of it. iterations : of all phases together; None if there is one
        phase.
    search_noise : noise of line searches; None for a method without.
    """
    kinds_of_releases = 2 if search_noise is None else 3
    failure_of_release = failure / (kinds_of_releases * (iterations or stopping.iterations))
    result = Guarantee(
        gradient_error=stopping.gradient_noise * gradient_quantile(stopping.d, failure_of_release),
        hessian_error=stopping.hessian_noise * hessian_quantile(stopping.d, failure_of_release, stopping.shape),
        allowed_gradient_error=analysis.admissible_gradient_noise,
        allowed_hessian_error=analysis.admissible_hessian_noise,
    )
    if search_noise is None:
        return result
    search_error = search_noise.error(failure_of_release)
    return replace(result, search_error=search_error, allowed_search_error=search_noise.allowed_error)


def published_rows(d: int, rho: float, gradient_tolerance: float, curvature_tolerance: float) -> float:
    """Return n_min, the number of rows from which on the theorem holds, by formula (4) of the poster.

    It is √(d/ρ) max(1/ε_g², 1/(ε_g ε_H²), ε_H^(-7/2)) for the tolerances ε_g and ε_H, with 1 for the factors that the
    formula hides: constants and logarithms, and a further √d where the Hessian's noise is as published (THEORY.md,
    E10).
    """
    worst = max(gradient_tolerance**-2, 1 / (gradient_tolerance * curvature_tolerance**2), curvature_tolerance**-3.5)
    return math.sqrt(d / rho) * worst
