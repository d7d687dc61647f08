"""What one event costs in every currency. A cost that does not exist is infinite, never a guess.

Sources as in `closed_forms`, which has the formulas of the single mechanisms; Zhu, Dong, Wang 2022 (dominating pairs).
"""

import math
from collections.abc import Callable
from dataclasses import replace

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
    Parallel,
    Repeat,
    Seq,
    StatedApproximateDP,
    StatedPureDP,
    StatedZCDP,
    Sub,
    parts,
)

Profile = Callable[[ArrayLike], Floats]


def pure(event: Event) -> float:
    """ε of pure DP; infinite where noise is Gaussian or only ρ or (ε, δ) is known."""
    if isinstance(event, Laplace | StatedPureDP):
        return float(event.eps)
    if isinstance(event, ExpMech):
        return float(event.eta)
    if isinstance(event, Seq):
        return sum(pure(part) for part in event.events)
    if isinstance(event, Repeat):
        return event.times * pure(event.event)
    if isinstance(event, Parallel):
        return max(pure(part) for part in event.events)
    if isinstance(event, Sub):  # `amplify` without the price of an array: plans ask this thousands of times
        inner = pure(event.inner)
        return math.log1p(math.expm1(min(inner, 700.0)) * (event.m / event.n)) + max(inner - 700.0, 0.0)
    return math.inf


def rho(event: Event) -> float:
    """Tight ρ of zCDP. Gaussian noise on a batch has none that is amplified, so infinity is returned for it."""
    if isinstance(event, Laplace):
        return float(closed_forms.exp_rest(-float(event.eps)))
    if isinstance(event, Gaussian):
        return float(event.mu) ** 2 / 2
    if isinstance(event, ExpMech):
        return float(closed_forms.exponential_rho(event.eta)) if event.eta < math.inf else math.inf
    if isinstance(event, StatedZCDP):
        return float(event.rho)
    if isinstance(event, Seq):
        return sum(rho(part) for part in event.events)
    if isinstance(event, Repeat):
        return event.times * rho(event.event)
    if isinstance(event, Parallel):
        return max(rho(part) for part in event.events)
    epsilon = pure(event)
    return closed_forms.pure_to_rho(epsilon) if epsilon < math.inf else math.inf


def mu(event: Event) -> float:
    """The smallest μ of Gaussian DP; infinite where no finite formula is known, as for Gaussian noise on a batch."""
    if isinstance(event, Gaussian):
        return float(event.mu)
    if isinstance(event, Laplace):
        size = float(event.eps)
        if size < 1:  # ½ - ½ e^(-ε/2) would cancel
            return math.sqrt(8) * float(erfinv(-math.expm1(-size / 2)))
        return float(-2 * ndtri_exp(-size / 2 - math.log(2)))
    if isinstance(event, ExpMech):
        return closed_forms.exponential_mu(float(event.eta))
    if isinstance(event, Seq):
        return math.hypot(*(mu(part) for part in event.events))
    if isinstance(event, Repeat):
        return math.sqrt(event.times) * mu(event.event)
    if isinstance(event, Parallel):
        return max(mu(part) for part in event.events)
    epsilon = pure(event)
    return closed_forms.pure_to_mu(epsilon) if epsilon < math.inf else math.inf


def rdp(event: Event, orders: Floats) -> Floats:
    """Rényi divergence at each order > 1, (k,); infinite where no bound is known."""
    orders = np.asarray(orders, dtype=float)
    if isinstance(event, Gaussian | StatedZCDP):
        return orders * rho(event)
    if isinstance(event, Seq):
        return sum((rdp(part, orders) for part in event.events), np.zeros_like(orders))
    if isinstance(event, Repeat):
        return event.times * rdp(event.event, orders)
    if isinstance(event, Parallel):
        return np.max([rdp(part, orders) for part in event.events], axis=0)
    epsilon = pure(event)
    found = np.full_like(orders, math.inf) if epsilon == math.inf else closed_forms.pure_rdp(epsilon, orders)
    if isinstance(event, Sub) and isinstance(inner := dominating(event.inner), Gaussian):
        mu = np.array([inner.mu])
        return np.minimum(found, subsampled_rdp.gaussian(event.kind, event.m / event.n, mu, orders)[0])
    if isinstance(event, Laplace):
        return closed_forms.laplace_rdp(epsilon, orders)
    if isinstance(event, ExpMech):
        return closed_forms.exponential_rdp(epsilon, orders)
    return found


def dominating(event: Event) -> Event:
    """A single release, blocks of such, or a `Sub` of these, whose privacy profile is nowhere below the event's.

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
    found = [dominating(part) for part in parts(event)]
    kinds = {type(part) for part in found}
    if isinstance(event, Parallel):
        if StatedZCDP in kinds:
            return StatedZCDP(rho(event))
        alike = len(set(found)) == 1 or (len(kinds) == 1 and not kinds & {StatedApproximateDP, Parallel})
        return max(found, key=rho) if alike else Parallel(tuple(found))
    times = event.times if isinstance(event, Repeat) else 1
    if times * len(found) == 1:
        return found[0]
    if StatedZCDP in kinds:
        return StatedZCDP(times * sum(rho(part) for part in found))
    if StatedApproximateDP in kinds:
        log_left = sum(math.log1p(-part.delta) for part in found if isinstance(part, StatedApproximateDP))
        epsilon = sum(part.eps if isinstance(part, StatedApproximateDP) else pure(part) for part in found)
        failure = -math.expm1(times * log_left)
        return StatedApproximateDP(times * epsilon, failure) if failure < 1 else StatedPureDP(math.inf)
    if kinds == {Laplace}:
        return Laplace(times * sum(pure(part) for part in found))
    return Gaussian(math.sqrt(times) * math.hypot(*(mu(part) for part in found)))


# ---------------------------------------------------------------------------------------------------- privacy profiles


def profile(event: Event) -> Profile:
    """The privacy profile ε ↦ δ(ε) of one event, for all real ε, the worse of its two directions.

    An upper bound if several kinds of releases are combined. Raises TypeError for a bare ρ, which bounds divergences
    only.
    """
    found = directions(event)
    if len(found) == 1:
        return found[0]
    return lambda epsilon: np.maximum(*(direction(epsilon) for direction in found))


def directions(event: Event) -> tuple[Profile, ...]:
    """The profiles of D against D' and of D' against D, for all real ε; only one where they are the same.

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
    """The profile of a pair for all real ε, from that for ε ≥ 0 and that of the reverse pair for ε ≥ 0, by default the
    same: δ(-ε) = 1 - e^-ε + e^-ε δ'(ε)."""

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
    """The profile on ε ≥ 0 of an event that is not composite, of a symmetric pair."""
    if isinstance(event, Laplace):
        scale = float(event.eps)
        return lambda epsilon: -np.expm1(np.minimum((np.asarray(epsilon) - scale) / 2, 0.0))
    if isinstance(event, Gaussian):
        parameter = float(event.mu)
        return lambda epsilon: closed_forms.gdp_delta(parameter, epsilon)
    if isinstance(event, ExpMech):
        eta = float(event.eta)
        return lambda epsilon: closed_forms.exponential_delta(eta, epsilon)
    if isinstance(event, StatedPureDP):
        eps = float(event.eps)
        return lambda epsilon: closed_forms.pure_delta(eps, epsilon)
    if isinstance(event, StatedApproximateDP):
        eps, delta = float(event.eps), float(event.delta)
        return lambda epsilon: delta + (1 - delta) * closed_forms.pure_delta(eps, epsilon)
    if isinstance(event, Parallel):
        blocks = [_profile_from_zero(block) for block in event.events]
        return lambda epsilon: np.max([block(epsilon) for block in blocks], axis=0)
    if not isinstance(event, Sub):
        raise TypeError(f"{event} has no privacy profile")
    q, m, n, inner = event.m / event.n, event.m, event.n, _profile_from_zero(event.inner)
    return lambda epsilon: q * inner(closed_forms.amplified_inverse(epsilon, m, n))
