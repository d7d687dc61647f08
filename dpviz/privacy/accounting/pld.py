"""Privacy loss distributions: exact composition of many different events, by FFT, never optimistic.

The privacy loss of one event is put on a grid of step h (`quantise`). Composition adds losses, hence multiplies spectra
(Koskela, Jälkö, Honkela 2020); mass that the finite window drops or wraps around is paid for as mass at +∞.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import irfft, next_fast_len, rfft
from scipy.linalg.blas import dtbsv
from scipy.optimize import brentq
from scipy.special import ndtri

from dpviz.privacy.accounting import closed_forms, per_event
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.accounting.per_event import Profile
from dpviz.privacy.accounting.rounding import blocks_of, log_strength, parameter, releases_of, simplified
from dpviz.privacy.events import Event, Gaussian, StatedApproximateDP, StatedZCDP, Sub, relation


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
        """Return δ(ε) = inf + Σ_{L > ε} p (1 - e^{ε - L}), for real ε of any shape."""
        epsilon = np.asarray(epsilon, dtype=float)
        mass, discounted = self._sums
        first = np.clip(np.floor(epsilon / self.h) + 1 - self.lo, 0, len(self.p)).astype(int)  # first loss above ε
        ahead = np.maximum(self.h * (self.lo + first) - epsilon, 0.0)
        return np.clip(self.inf + mass[first] - np.exp(-ahead) * discounted[first], 0.0, 1.0)

    def epsilon(self, delta: float) -> float:
        """Return the smallest ε ≥ 0 with δ(ε) ≤ delta; infinite if the mass at +∞ alone exceeds delta."""
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
    """Return Σ_{j≥i} p_j and Σ_{j≥i} p_j e^{-(L_j - L_i)} for each i, and 0 after the last; the latter by solving
    v_i - e^{-h} v_{i+1} = p_i, which overflows nowhere."""
    mass = np.append(np.cumsum(p[::-1])[::-1], 0.0)
    bands = np.ones((2, len(p) + 1), order="F")
    bands[0] = -math.exp(-h)
    return mass, dtbsv(1, bands, np.append(p, 0.0), diag=1)


def from_profiles(profiles: Sequence[Profile], highest: Sequence[float], h: float) -> tuple[PLD, ...]:
    """Return the pessimistic PLDs of one event in its directions, by connecting the dots of the profiles.

    profiles : one, if the pair is symmetric as all are under replace-one; or two, each that of the other's reverse
        pair. Called for ε ≥ 0 only. highest : the largest loss in each direction; minus the other's bounds it below.
    """
    halves = [_positive_losses(profile, high, h) for profile, high in zip(profiles, highest, strict=True)]
    return tuple(_both_signs(*half, *reverse, h) for half, reverse in zip(halves, reversed(halves), strict=True))


def _positive_losses(profile: Profile, high: float, h: float) -> tuple[Floats, Floats]:
    """Return δ at 0, h, 2h, … up to `high`, and the masses at the losses h, 2h, …

    With a_i = e^{hi} and δ linear in a between grid points, p_i = a_i (s_i - s_{i-1}), s_i the slopes (Doroshenko et
    al. 2022, Algorithm 1). Written in differences of δ, so that no e^ε appears.
    """
    delta = profile(h * np.arange(max(1, math.ceil(high / h - 1e-9)) + 1))
    falls = -np.diff(delta)
    above = falls / -math.expm1(-h)
    above[:-1] -= falls[1:] / math.expm1(h)
    return delta, above


def _both_signs(delta: Floats, above: Floats, delta_reverse: Floats, above_reverse: Floats, h: float) -> PLD:
    """Return the PLD of a pair from its positive losses and those of the reverse pair, as p(-L) = e^-L p_reverse(L):
    its own δ at negative losses, near 1, drowns small masses in round-off."""
    middle = 1.0 - (math.exp(h) * delta[0] + delta[0] - delta[1] - delta_reverse[1]) / math.expm1(h)
    below = above_reverse * np.exp(-h * np.arange(1, len(above_reverse) + 1))
    p = np.concatenate([below[::-1], [middle], above])
    return PLD(h, -len(below), np.maximum(p, 0.0), float(delta[-1]))


# ---------------------------------------------------------------------------------------------------- limits and losses

Counts = Mapping[Event, int] | Sequence[tuple[Event, int]]

TAIL = 1e-3  # the share of δ that may be lost outside the window, and again outside the range of single losses
CELLS_PER_DEVIATION = 12  # overestimates ε by 0.12 %; the error falls with the square
FEW = 20  # of fewer events nothing averages out, and the grid is finer
CELLS_PER_DEVIATION_FEW = 32
LARGEST_LOSS = 600.0  # of one event: e^ε must be finite with room to spare
MOST_CELLS = 2**17  # of one event: a rare large loss next to tiny ones makes the grid coarser, not the answer late
ROUGH_CELLS = 2**14  # for a first estimate, as while noise is calibrated: most often within 1e-3 of the final one
LARGEST_WINDOW = 2**18  # cells of the composition, and
MOST_MEMORY = 2**23  # cells of all events together (64 MiB of spectra); beyond, the grid is coarser,
COARSEST = 8.0  # by up to this factor, which overestimates ε by a few percent
AT_ONCE = 4  # transforms, which together take little more than half of their time
BLOCKS = 300  # into which the cells of an event are summed where rough losses are enough
NEGLIGIBLE = -50.0  # logarithm of a frequency that is lost to rounding next to the largest one


class AccountingLimit(ValueError):
    """A composition outside the range where the FFT is accurate or affordable; another accountant has to be used."""


def largest_losses(event: Event, tail: float) -> tuple[float, ...]:
    """Return the value that the privacy loss of one event exceeds with a probability of at most `tail`, for each of its
    directions as `per_event.directions` has them; minus that of the reverse direction bounds the loss below.

    Raises AccountingLimit for a bare ρ, which has no distribution.
    """
    event = simplified(event)
    blocks = blocks_of(event)
    if any(isinstance(block, StatedZCDP) for block in blocks):
        raise AccountingLimit(f"{event} has no privacy loss distribution")
    high = max(
        block.mu**2 / 2 - block.mu * float(ndtri(tail)) if isinstance(block, Gaussian) else parameter(block)
        for block in blocks
    )
    if not isinstance(event, Sub):
        return (high,)
    sampled = float(closed_forms.amplify(high, event.m, event.n))
    if event.kind == "wor":
        return (sampled,)
    q = event.m / event.n
    # Where the inner release fails openly, a row in the batch shows for certain; its absence by chance 1 - q only.
    fails = any(isinstance(block, StatedApproximateDP) for block in blocks)
    added = -math.log1p(-q if fails else q * math.expm1(-high))
    return sampled, added


# --------------------------------------------------------------------------------------------------------- composition


def compose(counts: Counts, delta: float, max_cells: int = MOST_CELLS) -> tuple[PLD, ...]:
    """Return the PLDs of all events together, each as often as in `counts`, accurate for δ(ε) of the order of `delta`
    and above: one, or with Poisson batches two, for removing a row and for adding one, of which the worse counts. They
    are guarantees for any `max_cells`, the cells of one event at most; more of them make the guarantee tighter.

    Raises AccountingLimit if delta is below what the FFT resolves, max(1e-11, 1e-14 · number of events), a loss is too
    large, or an event is a bare ρ; UserError for two kinds of batches, that hold for different notions of a neighbour.
    """
    merged = counted(counts)
    if not merged:
        raise ValueError("there is nothing to compose")
    relation(merged)
    return next(_compositions(list(merged), np.array([list(merged.values())]), delta, max_cells))


def epsilon_at(counts: Counts, delta: float) -> float:
    """Return ε at δ = delta of all events together; infinite if one of them has no noise. Raises as `compose`."""
    merged = counted(counts)
    if any(parameter(event) == math.inf for event in merged):
        return math.inf
    if sum(merged.values()) <= 1:
        return _closed_epsilon(next(iter(merged)), delta) if merged else 0.0
    basic = sum(count * per_event.pure(event) for event, count in merged.items())
    return min(basic, _worst(compose(merged, delta), delta))  # rounded to the grid, few losses may add up to more


def _worst(directions: Sequence[PLD], delta: float) -> float:
    return max(direction.epsilon(delta) for direction in directions)


def curve(groups: Sequence[tuple[Event, int]], checkpoints: ArrayLike, delta: float) -> Floats:
    """Return ε at δ = delta after the first t events, for each t in `checkpoints` (any order, 0 allowed).

    `groups` are (event, count) in time order; a composite event counts as the one that dominates it. Checkpoints of
    similar size share one grid and one window. Raises as `compose`; ValueError for a checkpoint beyond the last event.
    """
    checkpoints = np.asarray(checkpoints, dtype=int)
    groups = [(simplified(event), count) for event, count in groups if count]
    events = list(dict.fromkeys(event for event, _ in groups))
    relation(events)
    row = {event: i for i, event in enumerate(events)}
    ends = np.cumsum([0, *(count for _, count in groups)])
    if checkpoints.size and not 0 <= checkpoints.min() <= checkpoints.max() <= ends[-1]:
        raise ValueError(f"checkpoints must lie between 0 and {ends[-1]}")
    noiseless = [i for i, (event, _) in enumerate(groups) if parameter(event) == math.inf]
    finite_until = ends[noiseless[0]] if noiseless else ends[-1]
    result = np.where(checkpoints > finite_until, math.inf, 0.0)
    is_composed = (checkpoints > 0) & (checkpoints <= finite_until)
    if is_composed.any():
        times, back = np.unique(checkpoints[is_composed], return_inverse=True)
        counts = np.zeros((len(events), len(times)), dtype=int)
        owner = np.array([row[event] for event, _ in groups])
        np.add.at(counts, owner, np.clip(times - ends[:-1, None], 0, np.diff(ends)[:, None]))
        result[is_composed] = _epsilons(events, counts.T, delta)[back]
    return result


def _epsilons(events: Sequence[Event], counts: np.ndarray, delta: float) -> Floats:
    """Return ε at δ = delta of each row of `counts` (rows, events), where rows grow. Every row has its events on a grid
    that suits its size: from the last row down, those within a factor of 8 in deviation share one."""
    used = np.flatnonzero(counts[-1])
    events, counts = [events[int(i)] for i in used], counts[:, used]
    steps = counts.sum(axis=1)
    variance = counts @ np.exp(np.minimum([2 * log_strength(event) for event in events], 600.0))  # roughly
    epsilons = np.empty(len(counts))
    end = len(counts)
    while end:
        last = steps[end - 1]
        start = int(np.searchsorted(steps, FEW if last >= FEW else min(2, last)))
        if last >= FEW:
            start = max(start, int(np.searchsorted(variance[:end], variance[end - 1] / 64)))
        occurring = np.flatnonzero(counts[end - 1])
        if last == 1:
            epsilons[start:end] = _closed_epsilon(events[occurring[0]], delta)
        else:
            rows = _compositions([events[i] for i in occurring], counts[start:end][:, occurring], delta)
            epsilons[start:end] = [_worst(composed, delta) for composed in rows]
        end = start
    pure = np.array([per_event.pure(event) for event in events])
    bounded = np.isfinite(pure)
    basic = counts @ np.where(bounded, pure, 0.0)
    return np.where(counts @ ~bounded > 0, epsilons, np.minimum(epsilons, basic))


def _compositions(
    events: Sequence[Event], counts: np.ndarray, delta: float, max_cells: int = MOST_CELLS
) -> Iterator[tuple[PLD, ...]]:
    """Yield `compose` of each row of `counts` (rows, events). The last row contains the others: it fixes the window."""
    last_counts = counts[-1]
    steps = int(last_counts.sum())
    if not max(1e-11, 1e-14 * steps) <= delta < 1:
        raise AccountingLimit(f"delta = {delta} is outside the range that {steps} events allow")
    tail, coarser = TAIL * delta, 1.0
    while coarser <= COARSEST:
        directions = discretised(events, last_counts, tail / steps, coarser, max_cells=max_cells)
        parts = _with_few_parts(directions, last_counts, tail) if len(counts) == 1 else _Parts(directions, counts, tail)
        half, size = parts.window()
        excess = max(size / LARGEST_WINDOW, size * sum(map(len, parts.directions)) / MOST_MEMORY)
        if excess <= 1:
            yield from parts.composed(half, size)
            return
        coarser *= 1.1 * excess
    raise AccountingLimit(f"{size} cells are too many")


class _Parts(NamedTuple):
    """Discretised events in each direction, how often each occurs in each composition, (rows, parts), and the
    probability that may be lost outside the window."""

    directions: list[tuple[PLD, ...]]
    counts: np.ndarray
    tail: float

    def window(self) -> tuple[int, int]:
        """Return the cells on either side of 0, and in all, that hold all losses of the compositions but the tail."""
        half = max(_upper_end(parts, self.counts[-1], self.tail) for parts in self.directions)
        return half, 2 * half + 1

    def composed(self, half: int, size: int) -> Iterator[tuple[PLD, ...]]:
        """Return an iterator over the rows of counts: the composition of each in each direction, in the window."""
        size = next_fast_len(size, real=True)
        directions = (_composed(parts, self.counts, half, size, self.tail) for parts in self.directions)
        return zip(*directions, strict=True)


def _with_few_parts(directions: list[tuple[PLD, ...]], counts: np.ndarray, tail: float) -> _Parts:
    """Return one composition of fewer parts: those with small losses are composed into one on a window of their own, so
    that a window that a few large losses make wide is not filled for each of the many small ones."""
    lengths = np.max([[len(part.p) for part in parts] for parts in directions], axis=0)
    small = lengths <= lengths.max() / 16
    if small.sum() >= 4:
        minor = _Parts([tuple(compress(parts, small)) for parts in directions], counts[None, small], tail / 2)
        half, size = minor.window()
        if 2 * size <= lengths.max():
            (combined,) = minor.composed(half, size)
            major = [(*compress(parts, ~small), one) for parts, one in zip(directions, combined, strict=True)]
            return _Parts(major, np.append(counts[~small], 1)[None], tail / 2)
    return _Parts(directions, counts[None], tail)


def _composed(parts: Sequence[PLD], counts: np.ndarray, half: int, size: int, tail: float) -> Iterator[PLD]:
    """Yield the composition of each row of `counts` in one direction, on `size` cells from -`half` on, whose losses
    outside have a probability of at most `tail`."""
    lowest = np.array([part.lo for part in parts])
    log_finite = np.log1p(-np.array([part.inf for part in parts]))
    for row, spectrum in zip(counts, _powers(parts, counts, size), strict=True):
        masses = np.maximum(np.roll(irfft(spectrum, size), int(row @ lowest) + half), 0.0)
        # The last term covers the round-off of the FFT, which grows with the number of factors.
        inf = -math.expm1(float(row @ log_finite)) + tail + 2e-16 * int(row.sum())
        yield PLD(parts[0].h, -half, masses, inf)


def _powers(parts: Sequence[PLD], counts: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Yield, for each row of `counts`, which grow, the product of the spectra of `parts` to the power of their counts.

    (k,) complex, the first of the size // 2 + 1 frequencies. Beyond, all are below e^NEGLIGIBLE, less than round-off.
    """
    spread = counts[0] * np.array([part.variance for part in parts])
    logs, angles = np.empty((2, len(parts), size // 2 + 1))
    first_row_logs, relevant = np.zeros(size // 2 + 1), size // 2 + 1
    order = np.argsort(-spread)  # first those after which the fewest frequencies remain
    for start in range(0, len(parts), AT_ONCE):
        group = order[start : start + AT_ONCE]
        for i, frequencies in zip(group, rfft([_wrapped(parts[i].p, size) for i in group]), strict=True):
            spectrum = frequencies[:relevant]
            logs[i, :relevant] = np.log(np.maximum(spectrum.real**2 + spectrum.imag**2, 1e-300)) / 2
            angles[i, :relevant] = np.arctan2(spectrum.imag, spectrum.real)
            first_row_logs[:relevant] += counts[0, i] * logs[i, :relevant]
            relevant = 1 + int(np.flatnonzero(first_row_logs[:relevant] > NEGLIGIBLE).max(initial=0))
    for row in counts:
        power = np.empty(relevant, dtype=complex)
        sizes, angle = np.exp(row @ logs[:, :relevant]), row @ angles[:, :relevant]
        power.real, power.imag = sizes * np.cos(angle), sizes * np.sin(angle)
        yield power


def _wrapped(masses: Floats, size: int) -> Floats:
    """Return the masses on a window of `size` cells, those beyond its end from its beginning on."""
    rounds = -(-len(masses) // size)
    window = np.zeros(rounds * size)
    window[: len(masses)] = masses
    return window.reshape(rounds, size).sum(axis=0) if rounds > 1 else window


def discretised(
    events: Sequence[Event],
    counts: np.ndarray,
    tail: float,
    coarser: float = 1.0,
    *,
    max_cells: int = MOST_CELLS,
    max_total_cells: float = math.inf,
) -> list[tuple[PLD, ...]]:
    """Return each event on the same grid, in one direction or both; the grid is fine enough for their composition, or
    coarser by the factor `coarser`. `tail`: see `largest_losses`. `max_cells`: of one event; the grid is coarser for
    it, too.

    Raises AccountingLimit for more cells of all events than `most_together`."""
    for event in events:
        inner = largest_losses(event.inner if isinstance(event, Sub) else event, tail)[0]
        if inner > LARGEST_LOSS:
            raise AccountingLimit(f"{event} has losses up to {inner:.3g}")
    pairs = [(per_event.directions(event), largest_losses(event, tail)) for event in events]
    sides = max(len(profiles) for profiles, _ in pairs)
    coarse_cells = 200 if sides == 1 else 600  # one direction of a rare batch is more skewed than the worse of both
    coarse = [_in_directions(from_profiles(*pair, max(pair[1]) / coarse_cells), sides) for pair in pairs]
    top = max(max(highest) for _, highest in pairs)
    deviations = [np.sqrt([max(part.variance, 1e-300) for part in parts]) for parts in zip(*coarse, strict=True)]
    h = coarser * max(2 * top / max_cells, min(_step(spread, counts) for spread in deviations))
    cells = sum(2 * max(highest) for _, highest in pairs) / h
    if cells > max_total_cells:
        raise AccountingLimit(f"{cells:.3g} cells for {len(events)} different events are too many")
    if len(events) == 1 and not any(isinstance(block, Gaussian) for block in blocks_of(events[0])):
        high = pairs[0][1][0]
        # Otherwise the largest loss would be rounded up at every step. Smaller than a cell, as it may be in one of two
        # directions, it would make cells too many for the other one.
        h = high / math.ceil(high / h) if high >= h else h
    return list(zip(*(_in_directions(from_profiles(*pair, h), sides) for pair in pairs), strict=True))


def _in_directions(distributions: tuple[PLD, ...], sides: int) -> tuple[PLD, ...]:
    """Return one PLD for each of `sides` directions; that of a symmetric pair is its own reverse."""
    return distributions if len(distributions) == sides else distributions * sides


def _step(deviations: Floats, counts: np.ndarray) -> float:
    """Return the grid step for events with these deviations of their losses: a fraction of the root mean square of all.

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


def _upper_end(parts: Sequence[PLD], counts: np.ndarray, tail: float) -> int:
    """Return the cells u such that the total loss of the events, or of any first part of them, is above u h with
    probability at most `tail`/2: Chernoff's bound. Below -u h it is even less likely than the reverse pair's is above.

    Of 24 exponents, from one that suits a single large loss (as of rare sampling) to four times the one for a normal
    distribution, the best is chosen on coarse sums, and the bound computed for that one alone: every exponent has one.
    """
    variance = max(float(counts @ np.array([part.variance for part in parts])), 1e-300)
    normal = math.sqrt(2 * math.log(2 / tail) / variance)
    ends = np.array([(part.lo, part.lo + len(part.p) - 1) for part in parts])
    exponents = np.geomspace(min(normal / 16, 2 / (parts[0].h * np.abs(ends).max())), 4 * normal, 24)
    rough = sum(count * _cumulant(*_in_blocks(part), exponents) for count, part in zip(counts, parts, strict=True))
    best = exponents[[int(np.argmin((rough + math.log(2 / tail)) / exponents))]]
    exact = sum(count * _cumulant(part.losses, part.p, best) for count, part in zip(counts, parts, strict=True))
    bound = float((exact[0] + math.log(2 / tail)) / best[0]) / parts[0].h
    return min(math.ceil(bound), int(np.abs(counts @ ends).max()))


def _cumulant(losses: Floats, masses: Floats, exponents: Floats) -> Floats:
    """Return (k,) max(0, ln E e^(θ L)) of the finite losses at each θ; no first part of equal losses has more."""
    has_mass = masses > 0
    if not has_mass.any():  # it fails almost surely, and all its mass is at +∞
        return np.zeros(len(exponents))
    terms = exponents[:, None] * losses[has_mass] + np.log(masses[has_mass])
    top = terms.max(axis=1)
    return np.asarray(np.maximum(top + np.log(np.exp(terms - top[:, None]).sum(axis=1)), 0.0))


def _in_blocks(part: PLD) -> tuple[Floats, Floats]:
    """Return the losses of a PLD and their masses, neighbours taken together, in about BLOCKS blocks."""
    width = -(-len(part.p) // BLOCKS)
    starts = np.arange(0, len(part.p), width)
    masses = np.add.reduceat(part.p, starts)
    return np.add.reduceat(part.p * part.losses, starts) / np.maximum(masses, 1e-300), masses


def _closed_epsilon(event: Event, delta: float) -> float:
    """Return ε at δ of a single event with noise, from its closed profiles."""
    highest = largest_losses(event, delta)
    return max(_inverse(*side, delta) for side in zip(per_event.directions(event), highest, strict=True))


def _inverse(profile: Profile, high: float, delta: float) -> float:
    """Return the smallest ε ≥ 0 with δ(ε) ≤ delta, at most `high`; infinite if there is none."""

    def excess(epsilon: float) -> float:
        return math.log(max(float(profile(epsilon)), 1e-300) / delta)

    if excess(0.0) <= 0:
        return 0.0
    high *= 1 + 1e-9  # rounding must not hide the root at the largest loss
    return float(brentq(excess, 0.0, high, xtol=1e-300, rtol=1e-14, maxiter=500)) if excess(high) <= 0 else math.inf


def counted(counts: Counts) -> dict[Event, int]:
    """Return the total count of each distinct release, simplified."""
    merged: dict[Event, int] = {}
    for event, count in counts.items() if isinstance(counts, Mapping) else counts:
        for release, times in releases_of(event) if count else ():
            release = simplified(release)
            merged[release] = merged.get(release, 0) + times * int(count)
    return merged
