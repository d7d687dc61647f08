"""Privacy loss distributions: exact composition of many different events, by FFT, never optimistic.

The privacy loss of one event is put on a grid of step h by connecting the dots of its privacy profile (Doroshenko,
Ghazi, Kamath, Kumar, Manurangsi 2022): the result dominates the event, so what is composed from it is a guarantee
(Zhu, Dong, Wang 2022). Composition adds losses, hence multiplies spectra (Koskela, Jälkö, Honkela 2020); mass that the
finite window drops or wraps around is paid for as mass at +∞.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import irfft, next_fast_len, rfft
from scipy.linalg.blas import dtbsv
from scipy.optimize import brentq
from scipy.special import ndtri

from dpviz.privacy import closed_forms
from dpviz.privacy.closed_forms import Floats, Profile
from dpviz.privacy.events import Event, Gaussian, Laplace, Sub

Counts = Mapping[Event, int] | Sequence[tuple[Event, int]]

TAIL = 1e-3  # the share of δ that may be lost outside the window, and again outside the range of single losses
CELLS_PER_DEVIATION = 12  # overestimates ε by 0.12 %; the error falls with the square
FEW = 20  # below so many events nothing averages out, and the grid is finer
CELLS_PER_DEVIATION_FEW = 32
LARGEST_LOSS = 600.0  # of one event: e^ε must be finite with room to spare
MOST_CELLS = 2**17  # of one event: a rare large loss beside tiny ones makes the grid coarser, not the answer late
LARGEST_WINDOW = 2**21  # cells of the composition
MOST_GROUPS = 120  # distinct events that a long schedule is rounded to


class AccountingLimit(ValueError):
    """Outside the range where the FFT is accurate or affordable; another accountant has to answer."""


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

    @property
    def variance(self) -> float:
        """Variance of the finite losses."""
        losses = self.losses
        return float(self.p @ (losses - self.p @ losses) ** 2)

    def delta(self, epsilon: ArrayLike) -> Floats:
        """δ(ε) = inf + Σ_{L > ε} p (1 - e^{ε - L}), for real ε of any shape."""
        epsilon = np.asarray(epsilon, dtype=float)
        mass, discounted = _sums_from_above(self.p, self.h)
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


def from_profile(profile: Profile, high: float, h: float) -> PLD:
    """The pessimistic PLD of one event with losses in [-high, high], by connecting the dots of its profile.

    With a_i = e^{hi} and δ linear in a between grid points, p_i = a_i (s_i - s_{i-1}), s_i the slopes (Doroshenko et
    al. 2022, Algorithm 1). Written in differences of δ, so that no e^ε appears. The pair must be symmetric, as all are
    under replace-one: then p_{-i} = e^{-hi} p_i, whereas δ at negative losses, near 1, drowns small p in round-off.
    """
    cells = max(1, math.ceil(high / h - 1e-9))
    delta = profile(h * np.arange(cells + 1))
    falls = -np.diff(delta)
    above = falls / -math.expm1(-h)
    above[:-1] -= falls[1:] / math.expm1(h)
    middle = 1.0 - (math.exp(h) * delta[0] + delta[0] - 2 * delta[1]) / math.expm1(h)
    below = above * np.exp(-h * np.arange(1, cells + 1))
    p = np.concatenate([below[::-1], [middle], above])
    return PLD(h, -cells, np.maximum(p, 0.0), float(delta[-1]))


def largest_loss(event: Event, tail: float) -> float:
    """What the privacy loss of one event exceeds with a probability of at most `tail`; its negative bounds it below.

    Raises TypeError for a `Seq` that is not all Gaussian.
    """
    event = _simplified(event)
    if isinstance(event, Laplace):
        return event.eps
    if isinstance(event, Gaussian):
        return event.mu**2 / 2 - event.mu * float(ndtri(tail))
    assert isinstance(event, Sub)
    return float(closed_forms.amplify(largest_loss(event.inner, tail), event.m, event.n))


# --------------------------------------------------------------------------------------------------------- composition


def compose(counts: Counts, delta: float) -> PLD:
    """The PLD of all events together, `count` times each, accurate for δ(ε) of the order of `delta` and above.

    Raises AccountingLimit if delta is below what the FFT resolves, max(1e-11, 1e-14 · number of events), or a loss is
    too large; TypeError for a `Seq` that is not all Gaussian.
    """
    merged = _merged(counts)
    if not merged:
        raise ValueError("there is nothing to compose")
    return next(_compositions(list(merged), np.array([list(merged.values())]), delta))


def epsilon_at(counts: Counts, delta: float) -> float:
    """ε at δ = delta of all events together; infinite if one of them has no noise. Raises as `compose`."""
    merged = _merged(counts)
    if any(_parameter(event) == math.inf for event in merged):
        return math.inf
    if sum(merged.values()) <= 1:
        return _closed_epsilon(next(iter(merged)), delta) if merged else 0.0
    basic = sum(count * closed_forms.pure(event) for event, count in merged.items())
    return min(basic, compose(merged, delta).epsilon(delta))  # rounded to the grid, few losses may add up to more


def curve(groups: Sequence[tuple[Event, int]], checkpoints: ArrayLike, delta: float) -> Floats:
    """ε at δ = delta after the first t events, for each t in `checkpoints` (any order, 0 allowed).

    `groups` are (event, count) in time order. Checkpoints of similar size share one grid and one window. Raises as
    `compose`; ValueError for a checkpoint beyond the last event.
    """
    checkpoints = np.asarray(checkpoints, dtype=int)
    groups = [(_simplified(event), count) for event, count in groups if count]
    events = list(dict.fromkeys(event for event, _ in groups))
    row = {event: i for i, event in enumerate(events)}
    ends = np.cumsum([0, *(count for _, count in groups)])
    if checkpoints.size and not 0 <= checkpoints.min() <= checkpoints.max() <= ends[-1]:
        raise ValueError(f"checkpoints must lie between 0 and {ends[-1]}")
    noiseless = [i for i, (event, _) in enumerate(groups) if _parameter(event) == math.inf]
    finite_until = ends[noiseless[0]] if noiseless else ends[-1]
    result = np.where(checkpoints > finite_until, math.inf, 0.0)
    chosen = (checkpoints > 0) & (checkpoints <= finite_until)
    if chosen.any():
        times, back = np.unique(checkpoints[chosen], return_inverse=True)
        counts = np.zeros((len(events), len(times)), dtype=int)
        owner = np.array([row[event] for event, _ in groups])
        np.add.at(counts, owner, np.clip(times - ends[:-1, None], 0, np.diff(ends)[:, None]))
        result[chosen] = _epsilons(events, counts.T, delta)[back]
    return result


def _epsilons(events: Sequence[Event], counts: np.ndarray, delta: float) -> Floats:
    """ε at δ = delta of each row of `counts` (rows, events), where rows grow. Every row has its events on a grid that
    suits its size: from the last row down, those within a factor of 8 in deviation share one."""
    used = np.flatnonzero(counts[-1])
    events, counts = [events[int(i)] for i in used], counts[:, used]
    steps = counts.sum(axis=1)
    variance = counts @ np.exp(np.minimum([2 * _log_strength(event) for event in events], 600.0))  # roughly
    found = np.empty(len(counts))
    end = len(counts)
    while end:
        last = steps[end - 1]
        start = int(np.searchsorted(steps, FEW if last >= FEW else min(2, last)))
        if last >= FEW:
            start = max(start, int(np.searchsorted(variance[:end], variance[end - 1] / 64)))
        now = np.flatnonzero(counts[end - 1])
        if last == 1:
            found[start:end] = _closed_epsilon(events[now[0]], delta)
        else:
            rows = _compositions([events[i] for i in now], counts[start:end][:, now], delta)
            found[start:end] = [composed.epsilon(delta) for composed in rows]
        end = start
    pure = np.minimum([closed_forms.pure(event) for event in events], 1e300)  # finite, so that 0 times it is 0
    return np.minimum(found, counts @ pure)


def _compositions(events: Sequence[Event], counts: np.ndarray, delta: float) -> Iterator[PLD]:
    """The PLD of each row of `counts` (rows, events); the last row must contain the others, it fixes the window."""
    most = counts[-1]
    steps = int(most.sum())
    if not max(1e-11, 1e-14 * steps) <= delta < 1:
        raise AccountingLimit(f"delta = {delta} is outside the range that {steps} events allow")
    parts = _discretised(events, most, TAIL * delta / steps)
    tail = TAIL * delta
    half = _half_window(parts, most, tail)
    size = max(2 * half + 1, *(len(part.p) for part in parts))
    if size > LARGEST_WINDOW:
        raise AccountingLimit(f"{size} cells are too many")
    size = next_fast_len(size, real=True)
    lowest = np.array([part.lo for part in parts])
    log_finite = np.log1p(-np.array([part.inf for part in parts]))
    for row, spectrum in zip(counts, _powers(parts, counts, size), strict=True):
        masses = np.maximum(np.roll(irfft(spectrum, size), int(row @ lowest) + half), 0.0)
        # The last term covers the round-off of the FFT, which grows with the number of factors.
        inf = -math.expm1(float(row @ log_finite)) + tail + 2e-16 * int(row.sum())
        yield PLD(parts[0].h, -half, masses, inf)


def _powers(parts: Sequence[PLD], counts: np.ndarray, size: int) -> np.ndarray:
    """The product of the spectra of `parts`, each to the power of its count; (rows, size // 2 + 1) complex."""
    spectra = np.empty((len(parts), size // 2 + 1), dtype=complex)
    for spectrum, part in zip(spectra, parts, strict=True):
        spectrum[:] = rfft(part.p, size)
    angles = counts @ np.angle(spectra)
    sizes = np.exp(counts @ np.log(np.maximum(np.abs(spectra), 1e-300)))
    powers = np.empty_like(spectra, shape=sizes.shape)
    powers.real, powers.imag = sizes * np.cos(angles), sizes * np.sin(angles)
    return powers


def _discretised(events: Sequence[Event], counts: np.ndarray, tail: float) -> list[PLD]:
    """Each event on the same grid, fine enough for their composition. `tail`: see `largest_loss`."""
    for event in events:
        inner = largest_loss(event.inner if isinstance(event, Sub) else event, tail)
        if inner > LARGEST_LOSS:
            raise AccountingLimit(f"{event} has losses up to {inner:.3g}")
    bounded = [(closed_forms.profile(event), largest_loss(event, tail)) for event in events]
    deviations = np.sqrt([from_profile(profile, high, high / 200).variance for profile, high in bounded])
    h = max(_step(deviations, counts), 2 * max(high for _, high in bounded) / MOST_CELLS)
    if len(events) == 1 and closed_forms.pure(events[0]) < math.inf:
        high = bounded[0][1]
        h = high / math.ceil(high / h)  # otherwise the largest loss would be rounded up at every step
    return [from_profile(profile, high, h) for profile, high in bounded]


def _step(deviations: Floats, counts: np.ndarray) -> float:
    """The grid step for events with these deviations of their losses: a fraction of the root mean square of all.

    Rounding to the grid adds to the variance of a loss of deviation s about h²/6, or h s if h is larger than s. The
    largest losses may all take one value together, as Laplace noise has atoms; if they are few enough for that to be
    likelier than δ, the rest is the only spread there, and may be widened by a small multiple of the same fraction.
    """
    cells = CELLS_PER_DEVIATION if counts.sum() >= FEW else CELLS_PER_DEVIATION_FEW
    order = np.argsort(deviations)
    s, k = deviations[order], counts[order].astype(float)
    number, deviation, variance = np.cumsum(k), np.cumsum(k * s), np.cumsum(k * s**2)
    widening = math.sqrt(variance[-1]) / (3 * cells**2)
    added = 2 * widening * np.sqrt(variance) + widening**2  # (√v + widening)² - v
    allowed = np.maximum(np.sqrt(6 * added / number), added / deviation)
    relevant = allowed[number[-1] - number <= 40]  # 2^-40 is below every δ here
    return min(math.sqrt(variance[-1] / number[-1]) / cells, float(relevant.min()))


def _half_window(parts: Sequence[PLD], counts: np.ndarray, tail: float) -> int:
    """Cells u such that the total loss of the events, or of any first part of them, is outside [-u h, u h] with
    probability at most `tail`: Chernoff's bound, over 24 exponents from one that suits a single large loss (as of rare
    sampling) to four times the one for a normal distribution."""
    variance = float(counts @ np.array([part.variance for part in parts]))
    normal = math.sqrt(2 * math.log(2 / tail) / variance)
    exponents = np.geomspace(min(normal / 16, 2 / -(parts[0].h * min(part.lo for part in parts))), 4 * normal, 24)
    cumulant = np.zeros(24)
    for count, part in zip(counts, parts, strict=True):
        held = part.p > 0
        terms = exponents[:, None] * part.losses[held] + np.log(part.p[held])
        top = terms.max(axis=1)
        cumulant += count * np.maximum(top + np.log(np.exp(terms - top[:, None]).sum(axis=1)), 0.0)
    bound = float(((cumulant + math.log(2 / tail)) / exponents).min()) / parts[0].h
    largest = -(counts @ np.array([part.lo for part in parts]))
    return min(math.ceil(bound), int(largest))


def _closed_epsilon(event: Event, delta: float) -> float:
    """ε at δ of a single event with noise, from its closed profile."""
    profile = closed_forms.profile(event)

    def excess(epsilon: float) -> float:
        return math.log(max(float(profile(epsilon)), 1e-300) / delta)

    if excess(0.0) <= 0:
        return 0.0
    high = largest_loss(event, delta) * (1 + 1e-9)  # rounding must not hide the root at the largest loss
    return float(brentq(excess, 0.0, high, xtol=1e-300, rtol=1e-14, maxiter=500))


# -------------------------------------------------------------------------------------------------------------- events


def grouped(events: Sequence[Event], ratio: float = 1.02) -> list[tuple[Event, int]]:
    """Runs (event, count) in time order, nearly equal events rounded up to a common one, so that few are distinct.

    Events of one kind, with the same (m, n), whose loss differs by less than the factor `ratio` become the largest of
    them; `ratio` grows until at most MOST_GROUPS events are distinct. Equal events stay as they are.
    """
    distinct = list(dict.fromkeys(events))
    simplified = [_simplified(event) for event in distinct]
    families: dict[tuple[object, ...], list[int]] = {}
    for i, event in enumerate(simplified):
        inner = event.inner if isinstance(event, Sub) else event
        family = (type(inner), event.m, event.n) if isinstance(event, Sub) else (type(inner),)
        families.setdefault(family, []).append(i)
    strengths = [np.array([_log_strength(simplified[i]) for i in members]) for members in families.values()]
    heads = np.arange(len(distinct))
    for attempt in itertools.count():
        step = math.log(ratio) * 1.1 ** max(0, attempt - 1)
        for members, strength in zip(families.values(), strengths, strict=True):
            heads[members] = np.array(members)[_heads(strength, _flattened(strength) if attempt else strength, step)]
        if len(np.unique(heads)) <= max(MOST_GROUPS, len(families)):
            break
    rounded = {event: simplified[head] for event, head in zip(distinct, heads, strict=True)}
    runs: list[tuple[Event, int]] = []
    for event in events:
        event = rounded[event]
        if runs and runs[-1][0] is event:
            runs[-1] = (event, runs[-1][1] + 1)
        else:
            runs.append((event, 1))
    return runs


def _heads(strengths: Floats, distances: Floats, step: float) -> np.ndarray:
    """For each entry, the index of one at least as strong and at most `step` away in `distances`, such that few are
    used. `distances` are in the same order as strengths, but may tie where rounding hides the difference."""
    order = np.argsort(strengths, kind="stable")
    ascending = distances[order]
    heads = np.empty(len(order), dtype=int)
    last = len(order) - 1
    while last >= 0:
        first = min(int(np.searchsorted(ascending, ascending[last] - step)), last)
        heads[order[first : last + 1]] = order[last]
        last = first - 1
    return heads


def _flattened(strengths: Floats) -> Floats:
    """In the same order, but closer together far below the typical one, where losses matter little."""
    finite = strengths[np.isfinite(strengths)]
    if not len(finite):
        return strengths
    typical = finite.max() + math.log(np.mean(np.exp(2 * (finite - finite.max())))) / 2
    return np.logaddexp(strengths, math.log(0.1) + typical)


def _log_strength(event: Event) -> float:
    """Logarithm of the rough size of an event's loss; increases with its parameter."""
    parameter = _parameter(event)
    if not isinstance(event, Sub) or parameter == math.inf:
        return math.log(parameter)
    if isinstance(event.inner, Laplace):
        return math.log(math.log1p(event.m / event.n * math.expm1(min(parameter, 700.0))))
    chi_square = parameter**2 + math.log(-math.expm1(-(parameter**2)))  # in logarithms, e^{μ²} - 1
    size = math.log(event.m / event.n) + chi_square / 2
    return math.log(math.log1p(math.exp(size))) if -30 < size < 30 else (size if size < 0 else math.log(size))


def _parameter(event: Event) -> float:
    """The ε or μ of a simplified event, of the inner one under sampling."""
    if isinstance(event, Sub):
        return _parameter(event.inner)
    assert isinstance(event, Laplace | Gaussian)
    return event.eps if isinstance(event, Laplace) else event.mu


def _simplified(event: Event) -> Event:
    """The same event without `Seq`, its parameter a Python float."""
    if isinstance(event, Laplace):
        return event if type(event.eps) is float else Laplace(float(event.eps))
    if isinstance(event, Gaussian):
        return event if type(event.mu) is float else Gaussian(float(event.mu))
    if isinstance(event, Sub):
        inner = _simplified(event.inner)
        return event if inner is event.inner else Sub(event.kind, event.m, event.n, inner)
    parts = [_simplified(part) for part in event.events]
    if not all(isinstance(part, Gaussian) for part in parts):
        raise TypeError(f"{event} has no closed profile: only Gaussian releases may share a batch here")
    return Gaussian(math.hypot(*(_parameter(part) for part in parts)))


def _merged(counts: Counts) -> dict[Event, int]:
    """Total count of each distinct event."""
    merged: dict[Event, int] = {}
    for event, count in counts.items() if isinstance(counts, Mapping) else counts:
        if count:
            event = _simplified(event)
            merged[event] = merged.get(event, 0) + int(count)
    return merged
