"""Privacy losses on a grid: what a privacy profile is rounded to, never to the optimistic side.

The profile's dots are connected (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022): the result dominates the event, so
what is composed from it is a guarantee (Zhu, Dong, Wang 2022).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.blas import dtbsv

from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.accounting.per_event import Profile


@dataclass(frozen=True, eq=False)
class PLD:
    """A pessimistic privacy loss distribution: mass p[i] at the loss h (lo + i), and mass `inf` at +∞."""

    h: float
    lo: int
    p: Floats
    inf: float

    @property
    def losses(self) -> Floats:
        """The loss of each mass, in nats; same shape as p."""
        return self.h * np.arange(self.lo, self.lo + len(self.p), dtype=np.float64)

    @cached_property
    def variance(self) -> float:
        """Variance of the finite losses."""
        losses = self.losses
        return float(self.p @ (losses - self.p @ losses) ** 2)

    @cached_property
    def _sums(self) -> tuple[Floats, Floats]:
        return _sums_from_above(self.p, self.h)

    def delta(self, epsilon: ArrayLike) -> Floats:
        """δ(ε) = inf + Σ_{L > ε} p (1 - e^{ε - L}), for real ε of any shape."""
        epsilon = np.asarray(epsilon, dtype=float)
        mass, discounted = self._sums
        first = np.clip(np.floor(epsilon / self.h) + 1 - self.lo, 0, len(self.p)).astype(int)  # first loss above ε
        ahead = np.maximum(self.h * (self.lo + first) - epsilon, 0.0)
        return np.clip(self.inf + mass[first] - np.exp(-ahead) * discounted[first], 0.0, 1.0)

    def epsilon(self, delta: float) -> float:
        """The smallest ε ≥ 0 with δ(ε) ≤ delta; infinite if the mass at +∞ alone exceeds delta."""
        if self.inf > delta:
            return math.inf
        start = min(max(0, -self.lo), len(self.p))
        mass, discounted = _sums_from_above(self.p[start:], self.h)
        above = self.inf + mass - delta
        first = int(np.argmax(above <= discounted))  # δ(ε) ≤ delta at this loss, not yet at the one before
        if above[first] <= 0:
            return max(0.0, self.h * (self.lo + start + first - 1)) if first else 0.0
        return max(0.0, self.h * (self.lo + start + first) + math.log(above[first] / discounted[first]))


def _sums_from_above(p: Floats, h: float) -> tuple[Floats, Floats]:
    """Σ_{j≥i} p_j and Σ_{j≥i} p_j e^{-(L_j - L_i)} for each i, and 0 after the last; the latter by solving
    v_i - e^{-h} v_{i+1} = p_i, which overflows nowhere."""
    mass = np.append(np.cumsum(p[::-1])[::-1], 0.0)
    bands = np.ones((2, len(p) + 1), order="F")
    bands[0] = -math.exp(-h)
    return mass, dtbsv(1, bands, np.append(p, 0.0), diag=1)


def from_profiles(profiles: Sequence[Profile], highest: Sequence[float], h: float) -> tuple[PLD, ...]:
    """The pessimistic PLDs of one event in its directions, by connecting the dots of the profiles.

    profiles : one, if the pair is symmetric as all are under replace-one; or two, each that of the other's reverse
        pair. Asked for ε ≥ 0 only. highest : the largest loss in each direction; minus the other's bounds it below.
    """
    halves = [_positive_losses(profile, high, h) for profile, high in zip(profiles, highest, strict=True)]
    return tuple(_both_signs(*half, *reverse, h) for half, reverse in zip(halves, reversed(halves), strict=True))


def _positive_losses(profile: Profile, high: float, h: float) -> tuple[Floats, Floats]:
    """δ at 0, h, 2h, … from `high` on, and the masses at the losses h, 2h, …

    With a_i = e^{hi} and δ linear in a between grid points, p_i = a_i (s_i - s_{i-1}), s_i the slopes (Doroshenko et
    al. 2022, Algorithm 1). Written in differences of δ, so that no e^ε appears.
    """
    delta = profile(h * np.arange(max(1, math.ceil(high / h - 1e-9)) + 1))
    falls = -np.diff(delta)
    above = falls / -math.expm1(-h)
    above[:-1] -= falls[1:] / math.expm1(h)
    return delta, above


def _both_signs(delta: Floats, above: Floats, delta_reverse: Floats, above_reverse: Floats, h: float) -> PLD:
    """The PLD of a pair from its positive losses and those of the reverse pair, as p(-L) = e^-L p_reverse(L): its own
    δ at negative losses, near 1, drowns small masses in round-off."""
    middle = 1.0 - (math.exp(h) * delta[0] + delta[0] - delta[1] - delta_reverse[1]) / math.expm1(h)
    below = above_reverse * np.exp(-h * np.arange(1, len(above_reverse) + 1))
    p = np.concatenate([below[::-1], [middle], above])
    return PLD(h, -len(below), np.maximum(p, 0.0), float(delta[-1]))
