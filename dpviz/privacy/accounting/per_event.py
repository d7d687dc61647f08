"""What one event costs in every currency. A cost that does not exist is infinite, never a guess.

Sources as in `closed_forms`, which has the formulas of the single mechanisms; Zhu, Dong, Wang 2022 (dominating pairs).
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import assert_never

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfinv, ndtri_exp

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

Profile = Callable[[ArrayLike], Floats]
# Divergences at (ε, orders) of events with a pure ε; those of all others with one are bounded by `pure_rdp`.
RDP_OF_PURE: dict[type[Event], Callable[[ArrayLike, Floats], Floats]] = {
    Laplace: closed_forms.laplace_rdp,
    ExpMech: closed_forms.exponential_rdp,
}


def pure(event: Event) -> float:
    """Return ε of pure DP; infinite where noise is Gaussian or only ρ or (ε, δ) is known."""
    match event:
        case Laplace(eps) | StatedPureDP(eps):
            return float(eps)
        case ExpMech(eta):
            return float(eta)
        case Sub(m=m, n=n, inner=inner):  # `amplify` without the price of an array: plans ask this thousands of times
            size = pure(inner)
            return math.log1p(math.expm1(min(size, 700.0)) * (m / n)) + max(size - 700.0, 0.0)
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
    """Return the tight ρ of zCDP; infinite for Gaussian noise on a batch, whose ρ sampling does not amplify."""
    match event:
        case Laplace(eps):
            return float(closed_forms.exp_rest(-float(eps)))
        case Gaussian(mu):
            return float(mu) ** 2 / 2
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
    """Return the smallest μ of Gaussian DP; infinite where no finite formula is known (Gaussian noise on a batch)."""
    match event:
        case Gaussian(stated):
            return float(stated)
        case Laplace(eps):
            size = float(eps)
            if size < 1:  # ½ - ½ e^(-ε/2) would cancel
                return math.sqrt(8) * float(erfinv(-math.expm1(-size / 2)))
            return float(-2 * ndtri_exp(-size / 2 - math.log(2)))
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
    """Return the Rényi divergence at each order > 1, (k,); infinite where no bound is known."""
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
            if isinstance(event, Sub) and isinstance(inner := dominating(event.inner), Gaussian):
                each = np.array([inner.mu])
                return np.minimum(bound, subsampled_rdp.gaussian(event.kind, event.m / event.n, each, orders)[0])
            return bound
        case _:
            assert_never(event)


def dominating(event: Event) -> Event:
    """Return a single release, blocks of such, or a `Sub` of these, whose privacy profile is nowhere below the event's.

    It is the event itself unless that is composite. Gaussian releases make one Gaussian release, exactly. Laplace
    releases are dominated by one with the sum of their ε: a shift in one coordinate tells more than the same shift
    spread over several. A mixture is dominated by the Gaussian release with its μ (Dong, Roth, Su 2019), one that may
    fail openly by (Σε, 1 - Π(1 - δ))-DP. Of what contains a bare ρ only ρ is left: its Rényi divergences are nowhere
    below the event's.
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
        alike = len(set(singles)) == 1 or (len(kinds) == 1 and not kinds & {StatedApproximateDP, Parallel})
        return max(singles, key=rho) if alike else Parallel(tuple(singles))
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
    """Return the event without its open failure, and ln of the chance that it does not fail; see `accountants`."""
    match event:
        case StatedApproximateDP(eps, delta):
            return StatedPureDP(max(eps, 1e-300)), math.log1p(-delta)
        case Seq(events) | Parallel(events):
            singles, logs = zip(*(without_failure(part) for part in events), strict=True)
            return type(event)(singles), sum(logs) if isinstance(event, Seq) else min(logs)
        case Repeat(inner, times):
            part, log = without_failure(inner)
            return Repeat(part, times), times * log
        case OneNumber() | Sub():
            return event, 0.0
        case _:
            assert_never(event)


# ---------------------------------------------------------------------------------------------------- privacy profiles


def profile(event: Event) -> Profile:
    """Return the privacy profile ε ↦ δ(ε) of one event, for all real ε, the worse of its two directions.

    An upper bound if several kinds of releases are combined. Raises TypeError for a bare ρ, which bounds divergences
    only.
    """
    sides = directions(event)
    if len(sides) == 1:
        return sides[0]
    return lambda epsilon: np.maximum(*(direction(epsilon) for direction in sides))


def directions(event: Event) -> tuple[Profile, ...]:
    """Return the profiles of D against D' and of D' against D, for all real ε; only one where they are the same.

    Poisson sampling treats the data set that has the row and the one that lacks it differently: (remove, add). The two
    have to be composed separately. All events under replace-one have one. Raises TypeError for a bare ρ.
    """
    event = dominating(event)
    if not isinstance(event, Sub) or event.kind == "wor":
        return (mirrored(_profile_from_zero(event)),)
    q, m, n, inner = event.m / event.n, event.m, event.n, _profile_from_zero(event.inner)

    # Both from ε = 0 on, as each is the other's mirror image, and written so that nothing cancels for small q; a = e^ε.
    def remove(epsilon: ArrayLike) -> Floats:  # H(q P + (1-q) Q ‖ Q) = q δ(ln(1 + (a-1)/q))
        return q * inner(closed_forms.amplified_inverse(epsilon, m, n))

    def add(epsilon: ArrayLike) -> Floats:  # H(Q ‖ q P + (1-q) Q) = (1 - a(1-q)) δ(ln(aq/(1 - a(1-q)))) while positive
        epsilon = np.asarray(epsilon, dtype=float)
        lost = np.maximum(np.expm1(-epsilon) / q, -1.0)
        with np.errstate(divide="ignore"):
            return q * np.exp(np.minimum(epsilon, 700.0)) * (1 + lost) * inner(-np.log1p(lost))

    return mirrored(remove, add), mirrored(add, remove)


def mirrored(positive: Profile, reverse: Profile | None = None) -> Profile:
    """Return the profile of a pair for all real ε, from that for ε ≥ 0 and that of the reverse pair for ε ≥ 0, by
    default the same: δ(-ε) = 1 - e^-ε + e^-ε δ'(ε)."""

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
    """Return the profile on ε ≥ 0 of an event that is not composite, of a symmetric pair."""
    match event:
        case Laplace(eps):
            scale = float(eps)
            return lambda epsilon: -np.expm1(np.minimum((np.asarray(epsilon) - scale) / 2, 0.0))
        case Gaussian(mu):
            return partial(closed_forms.gdp_delta, float(mu))
        case ExpMech(eta):
            return partial(closed_forms.exponential_delta, float(eta))
        case StatedPureDP(eps):
            return partial(closed_forms.pure_delta, float(eps))
        case StatedApproximateDP(eps, delta):
            size, failure = float(eps), float(delta)
            return lambda epsilon: failure + (1 - failure) * closed_forms.pure_delta(size, epsilon)
        case Parallel(events):
            blocks = [_profile_from_zero(block) for block in events]
            return lambda epsilon: np.max([block(epsilon) for block in blocks], axis=0)
        case Sub(m=m, n=n, inner=inner):
            q, inside = m / n, _profile_from_zero(inner)
            return lambda epsilon: q * inside(closed_forms.amplified_inverse(epsilon, m, n))
        case StatedZCDP() | Seq() | Repeat():
            raise TypeError(f"{described(event)} has no privacy profile")
        case _:
            assert_never(event)
