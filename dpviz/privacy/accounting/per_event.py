"""The cost of one event in every currency, and its privacy profile. A cost that does not exist is infinite.

`closed_forms` has the formulas of the single mechanisms and their sources; for dominating pairs the source is Zhu,
Dong, Wang 2022.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import assert_never

import numpy as np
from numpy.typing import ArrayLike

from dpviz.later import lazy_functions
from dpviz.privacy.accounting import closed_forms, subsampled_rdp
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.events import (
    Event,
    ExpMech,
    Gaussian,
    Laplace,
    OneNumber,
    Parallel,
    Repeat,
    Seq,
    StatedApproximateDP,
    StatedPureDP,
    StatedZCDP,
    Sub,
    described,
    parts,
)

erfinv, ndtri_exp = lazy_functions("scipy.special", "erfinv ndtri_exp")

Profile = Callable[[ArrayLike], Floats]
# Rényi divergences, functions of (ε, orders), of events whose parameter is a pure ε. For other events with a pure ε,
# `closed_forms.pure_rdp` is an upper bound.
RDP_OF_PURE: dict[type[Event], Callable[[ArrayLike, Floats], Floats]] = {
    Laplace: closed_forms.laplace_rdp,
    ExpMech: closed_forms.exponential_rdp,
}


def pure(event: Event) -> float:
    """Return the pure ε of an event; infinite if it has Gaussian noise, or if only a ρ or (ε, δ) is known of it."""
    match event:
        case Laplace(eps) | StatedPureDP(eps):
            return float(eps)
        case ExpMech(eta):
            return float(eta)
        case Sub(m=m, n=n, inner=inner):
            # As `closed_forms.amplify`, linear above 700 against overflow, but without arrays, for speed.
            inner_epsilon = pure(inner)
            return math.log1p(math.expm1(min(inner_epsilon, 700.0)) * (m / n)) + max(inner_epsilon - 700.0, 0.0)
        case Seq(events):
            return sum(pure(part) for part in events)
        case Repeat(part, times):
            return times * pure(part)
        case Parallel(events):
            return max(pure(part) for part in events)
        case Gaussian() | StatedZCDP() | StatedApproximateDP():
            return math.inf
        case _:
            assert_never(event)


def rho(event: Event) -> float:
    """Return the smallest known ρ of an event; infinite for Gaussian noise on a batch, as sampling does not amplify
    ρ."""
    match event:
        case Laplace(eps):
            return float(closed_forms.exp_rest(-float(eps)))  # ε - 1 + e^-ε (THEORY.md, section 2)
        case Gaussian():
            return float(event.mu) ** 2 / 2
        case ExpMech(eta):
            return float(closed_forms.exponential_rho(eta)) if eta < math.inf else math.inf
        case StatedZCDP(stated):
            return float(stated)
        case Seq(events):
            return sum(rho(part) for part in events)
        case Repeat(part, times):
            return times * rho(part)
        case Parallel(events):
            return max(rho(part) for part in events)
        case StatedPureDP() | StatedApproximateDP() | Sub():
            epsilon = pure(event)
            return closed_forms.pure_to_rho(epsilon) if epsilon < math.inf else math.inf
        case _:
            assert_never(event)


def mu(event: Event) -> float:
    """Return the smallest known μ of an event; infinite if no formula is known, as for Gaussian noise on a batch."""
    match event:
        case Gaussian(stated):
            return float(stated)
        case Laplace(eps):
            epsilon = float(eps)  # μ is -2 Φ⁻¹(e^(-ε/2)/2), and Φ⁻¹((1 - x)/2) = -√2 erf⁻¹(x)
            if epsilon < 1:  # ½ - ½ e^(-ε/2) would cancel
                return math.sqrt(8) * float(erfinv(-math.expm1(-epsilon / 2)))
            return float(-2 * ndtri_exp(-epsilon / 2 - math.log(2)))
        case ExpMech(eta):
            return closed_forms.exponential_mu(float(eta))
        case Seq(events):
            return math.hypot(*(mu(part) for part in events))
        case Repeat(part, times):
            return math.sqrt(times) * mu(part)
        case Parallel(events):
            return max(mu(part) for part in events)
        case StatedPureDP() | StatedZCDP() | StatedApproximateDP() | Sub():
            epsilon = pure(event)
            return closed_forms.pure_to_mu(epsilon) if epsilon < math.inf else math.inf
        case _:
            assert_never(event)


def rdp(event: Event, orders: Floats) -> Floats:
    """Return an upper bound on the Rényi divergence of an event at each order > 1, (k,); infinite if none is known."""
    orders = np.asarray(orders, dtype=float)
    match event:
        case Gaussian() | StatedZCDP():
            return orders * rho(event)
        case Laplace(eps):
            return closed_forms.laplace_rdp(float(eps), orders)
        case ExpMech(eta):
            return closed_forms.exponential_rdp(float(eta), orders)
        case Seq(events):
            return sum((rdp(part, orders) for part in events), np.zeros_like(orders))
        case Repeat(part, times):
            return times * rdp(part, orders)
        case Parallel(events):
            return np.asarray(np.max([rdp(part, orders) for part in events], axis=0))
        case StatedPureDP() | StatedApproximateDP() | Sub():
            epsilon = pure(event)
            bound = np.full_like(orders, math.inf) if epsilon == math.inf else closed_forms.pure_rdp(epsilon, orders)
            inner = dominating(event.inner) if isinstance(event, Sub) else None
            if isinstance(event, Sub) and isinstance(inner, Gaussian):
                q = event.m / event.n
                return np.minimum(bound, subsampled_rdp.gaussian(event.kind, q, inner.mu, tuple(orders.tolist())))
            return bound
        case _:
            assert_never(event)


def dominating(event: Event) -> Event:
    """Return a simple event that dominates this one: its privacy profile is nowhere below the event's.

    Simple events are single releases, a `Parallel` of these, and a `Sub` of one of both. A simple event is returned as
    it is. For several releases:

    - Gaussian ones make one Gaussian release, exactly.
    - Laplace ones are dominated by one with the sum of their ε, because a shift in one coordinate reveals more than the
      same shift spread over several.
    - A mixture is dominated by the Gaussian release with the μ of the mixture (Dong, Roth, Su 2019).
    - If some may fail openly, all are dominated by (Σε, 1 - Π(1 - δ))-DP.
    - If of some only ρ is known, there is no privacy profile; the result is the ρ of all, whose Rényi divergences are
      nowhere below the event's.
    """
    if isinstance(event, Sub):
        inner = dominating(event.inner)
        return event if inner is event.inner else replace(event, inner=inner)
    if not isinstance(event, Seq | Repeat | Parallel):
        return event
    singles = [dominating(part) for part in parts(event)]
    kinds = {type(part) for part in singles}
    if isinstance(event, Parallel):
        if StatedZCDP in kinds:
            return StatedZCDP(rho(event))
        # Of blocks of one kind, with one number each, the one with the largest number, and so the largest ρ, dominates
        # the others.
        are_of_one_number = len(kinds) == 1 and not kinds & {StatedApproximateDP, Parallel}
        if are_of_one_number or len(set(singles)) == 1:
            return max(singles, key=rho)
        return Parallel(tuple(singles))
    times = event.times if isinstance(event, Repeat) else 1
    if times * len(singles) == 1:
        return singles[0]
    if StatedZCDP in kinds:
        return StatedZCDP(times * sum(rho(part) for part in singles))
    if StatedApproximateDP in kinds:
        log_certain = sum(math.log1p(-part.delta) for part in singles if isinstance(part, StatedApproximateDP))
        epsilon = sum(part.eps if isinstance(part, StatedApproximateDP) else pure(part) for part in singles)
        failure = -math.expm1(times * log_certain)
        return StatedApproximateDP(times * epsilon, failure) if failure < 1 else StatedPureDP(math.inf)
    if kinds == {Laplace}:
        return Laplace(times * sum(pure(part) for part in singles))
    return Gaussian(math.sqrt(times) * math.hypot(*(mu(part) for part in singles)))


def without_failure(event: Event) -> tuple[Event, float]:
    """Return the event without its open failures, and the logarithm of the probability that it does not fail.

    At worst, an (ε, δ)-DP release reveals everything with probability δ, and is ε-DP otherwise.
    """
    match event:
        case StatedApproximateDP(eps, delta):
            return StatedPureDP(max(eps, 1e-300)), math.log1p(-delta)  # the ε of a StatedPureDP is positive
        case Seq(events) | Parallel(events):
            singles, log_probabilities = zip(*(without_failure(part) for part in events), strict=True)
            # A row is in one of disjoint blocks, so only the failure of that block matters; the likeliest is assumed.
            log_probability = sum(log_probabilities) if isinstance(event, Seq) else min(log_probabilities)
            return type(event)(singles), log_probability
        case Repeat(inner, times):
            part, log_probability = without_failure(inner)
            return Repeat(part, times), times * log_probability
        case OneNumber() | Sub():
            return event, 0.0
        case _:
            assert_never(event)


# ---------------------------------------------------------------------------------------------------- privacy profiles


def profile(event: Event) -> Profile:
    """Return the privacy profile of one event, the function δ(ε) for all real ε; the larger one of its two directions.

    It is an upper bound if the event combines several kinds of releases. Raises TypeError if only a ρ is known of the
    event, which bounds divergences only.
    """
    profiles = directions(event)
    if len(profiles) == 1:
        return profiles[0]
    return lambda epsilon: np.maximum(*(direction(epsilon) for direction in profiles))


def directions(event: Event) -> tuple[Profile, ...]:
    """Return the privacy profiles of an event in both directions, for all real ε; only one if they are the same.

    The directions are data set D against its neighbour D', and D' against D. All events under replace-one have one
    profile. A Poisson batch has two, (remove, add): in the first, D has the row and D' lacks it. The two have to be
    composed separately. Raises TypeError if only a ρ is known of the event.
    """
    event = dominating(event)
    if not isinstance(event, Sub) or event.kind == "wor":
        return (mirrored(_profile_from_zero(event)),)
    q, m, n, inner = event.m / event.n, event.m, event.n, _profile_from_zero(event.inner)

    # P and Q are the laws of the output with the row in the batch and without it, δ is their profile, and a = e^ε. Each
    # direction is needed for ε ≥ 0 only, as its values at negative ε follow from the other one. Both formulas are
    # written so that nothing cancels for small q.
    def remove(epsilon: ArrayLike) -> Floats:
        """Return the profile of q P + (1-q) Q against Q, q δ(ln(1 + (a-1)/q))."""
        return q * inner(closed_forms.amplified_inverse(epsilon, m, n))

    def add(epsilon: ArrayLike) -> Floats:
        """Return the profile of Q against q P + (1-q) Q, (1 - a(1-q)) δ(ln(aq/(1 - a(1-q)))) while 1 - a(1-q) > 0, then
        0."""
        epsilon = np.asarray(epsilon, dtype=float)
        reduction = np.maximum(np.expm1(-epsilon) / q, -1.0)  # 1 - a(1-q) = a q (1 + reduction), unless negative
        with np.errstate(divide="ignore"):
            return q * np.exp(np.minimum(epsilon, 700.0)) * (1 + reduction) * inner(-np.log1p(reduction))

    return mirrored(remove, add), mirrored(add, remove)


def mirrored(positive: Profile, reverse: Profile | None = None) -> Profile:
    """Return the profile of a pair of distributions for all real ε from values at ε ≥ 0.

    Negative ε follow from δ(-ε) = 1 - e^-ε + e^-ε δ'(ε), with δ' the profile of the reversed pair.

    positive : the profile of the pair for ε ≥ 0.
    reverse : that of the reversed pair for ε ≥ 0; None if it is the same.
    """

    def delta(epsilon: ArrayLike) -> Floats:
        epsilon = np.asarray(epsilon, dtype=float)
        size = np.abs(epsilon)
        value = np.clip(positive(size), 0.0, 1.0)
        if not (epsilon < 0).any():
            return value
        mirror = value if reverse is None else np.clip(reverse(size), 0.0, 1.0)
        return np.where(epsilon >= 0, value, -np.expm1(-size) + np.exp(-size) * mirror)

    return delta


def _profile_from_zero(event: Event) -> Profile:
    """Return the profile for ε ≥ 0 of an event as `dominating` returns it, other than a Poisson batch.

    Raises TypeError for other events, and if only a ρ is known.
    """
    match event:
        case Laplace(eps):
            epsilon_0 = float(eps)  # the profile is (1 - e^((ε - ε₀)/2))₊ (THEORY.md, section 2)
            return lambda epsilon: -np.expm1(np.minimum((np.asarray(epsilon) - epsilon_0) / 2, 0.0))
        case Gaussian():
            return partial(closed_forms.gdp_delta, float(event.mu))
        case ExpMech(eta):
            return partial(closed_forms.exponential_delta, float(eta))
        case StatedPureDP(eps):
            return partial(closed_forms.pure_delta, float(eps))
        case StatedApproximateDP(eps, delta):
            epsilon_0, failure = float(eps), float(delta)
            return lambda epsilon: failure + (1 - failure) * closed_forms.pure_delta(epsilon_0, epsilon)
        case Parallel(events):
            blocks = [_profile_from_zero(block) for block in events]
            return lambda epsilon: np.max([block(epsilon) for block in blocks], axis=0)
        case Sub(m=m, n=n, inner=inner):
            q, profile_of_inner = m / n, _profile_from_zero(inner)
            return lambda epsilon: q * profile_of_inner(closed_forms.amplified_inverse(epsilon, m, n))
        case StatedZCDP() | Seq() | Repeat():
            raise TypeError(f"{described(event)} has no privacy profile")
        case _:
            assert_never(event)
