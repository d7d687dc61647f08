"""Privacy loss distributions: exact composition of many different events, by FFT, never optimistic.

The privacy loss of an output is ln(p/q), p and q its densities under two neighbouring data sets. Its distribution under
p determines the privacy profile δ(ε). Here it is given as probability masses on a grid of losses of step h, in cells,
and chosen such that δ(ε) is nowhere too small (`from_profiles`). The losses of composed events add up, so their
distributions are convolved and the spectra multiplied (Koskela, Jälkö, Honkela 2020). The FFT works on a finite window
of losses; the mass that the window drops or wraps around is counted as mass at the loss +∞, where δ pays for all of it.

Under replace-one the pair of data sets is symmetric, and there is one distribution. Poisson batches have two
directions, a row removed or added, which are composed separately.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpviz.later import lazy_functions
from dpviz.privacy.accounting import closed_forms, per_event
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.accounting.per_event import Profile
from dpviz.privacy.accounting.rounding import blocks_of, log_strength, parameter, releases_of, simplified
from dpviz.privacy.events import Event, Gaussian, StatedApproximateDP, StatedZCDP, Sub, relation

irfft, next_fast_len, rfft = lazy_functions("scipy.fft", "irfft next_fast_len rfft")
(dtbsv,) = lazy_functions("scipy.linalg.blas", "dtbsv")
(brentq,) = lazy_functions("scipy.optimize", "brentq")
(ndtri,) = lazy_functions("scipy.special", "ndtri")


@dataclass(frozen=True, eq=False)
class PLD:
    """A pessimistic privacy loss distribution: probability p[i] of the loss h (lo + i), and probability `inf` of +∞."""

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
        """Mass, and discounted mass, from each loss on; see `_sums_from_above`."""
        return _sums_from_above(self.p, self.h)

    def delta(self, epsilon: ArrayLike) -> Floats:
        """Return δ(ε) = inf + Σ_{L > ε} p(L) (1 - e^{ε - L}), for an array of real ε of any shape."""
        epsilon = np.asarray(epsilon, dtype=float)
        mass, discounted = self._sums
        first = np.clip(np.floor(epsilon / self.h) + 1 - self.lo, 0, len(self.p)).astype(int)  # first loss above ε
        distance = np.maximum(self.h * (self.lo + first) - epsilon, 0.0)  # from ε to the first loss above
        # Σ p(L) e^{ε - L} is e^-distance times the sum that is discounted from the first loss on.
        return np.clip(self.inf + mass[first] - np.exp(-distance) * discounted[first], 0.0, 1.0)

    def epsilon(self, delta: float) -> float:
        """Return the smallest ε ≥ 0 with δ(ε) ≤ delta; infinite if the mass at +∞ alone exceeds delta."""
        if self.inf > delta:
            return math.inf
        start = min(max(0, -self.lo), len(self.p))  # index of the loss 0
        mass, discounted = _sums_from_above(self.p[start:], self.h)
        # From ε to the next loss L, δ(ε) = inf + mass - e^(ε - L) discounted. That is delta where e^(ε - L) is excess /
        # discounted: at an ε up to L if excess ≤ discounted. The first such L has the smallest ε. One exists, as after
        # the last loss excess = inf - delta ≤ 0 = discounted.
        excess = self.inf + mass - delta
        first = int(np.argmax(excess <= discounted))
        if first == 0 and excess[0] <= 0:  # δ(ε) ≤ inf + mass ≤ delta for every ε ≥ 0
            return 0.0
        if excess[first] <= 0:  # possible by rounding only: then ε is the loss before
            return max(0.0, self.h * (self.lo + start + first - 1))
        return max(0.0, self.h * (self.lo + start + first) + math.log(excess[first] / discounted[first]))


def _sums_from_above(p: Floats, h: float) -> tuple[Floats, Floats]:
    """Return Σ_{j≥i} p_j and v_i = Σ_{j≥i} p_j e^{-(L_j - L_i)} for each index i of p, and 0 after the last one.

    L_j are the losses on a grid of step h. The second sum is the solution of v_i - e^{-h} v_{i+1} = p_i, a triangular
    system, in which nothing overflows.
    """
    mass = np.append(np.cumsum(p[::-1])[::-1], 0.0)
    bands = np.ones((2, len(p) + 1), order="F")  # BLAS stores the band above the diagonal in row 0
    bands[0] = -math.exp(-h)
    return mass, dtbsv(1, bands, np.append(p, 0.0), diag=1)  # one band, and a diagonal of ones


def from_profiles(profiles: Sequence[Profile], highest: Sequence[float], h: float) -> tuple[PLD, ...]:
    """Return the pessimistic PLD of one event in each direction, on a grid of step h, from its privacy profiles.

    The PLD has the profile's δ at the grid points, and between them the chord in e^ε, which is above the convex profile
    ("connecting the dots", Doroshenko et al. 2022).

    profiles : one if the pair of distributions is symmetric, as all are under replace-one; else two, each of which is
        the profile of the other's pair in reversed order. They are called for ε ≥ 0 only.
    highest : the largest loss in each direction. The smallest loss is minus the largest one of the reversed pair.
    """
    halves = [_positive_losses(profile, high, h) for profile, high in zip(profiles, highest, strict=True)]
    return tuple(_both_signs(*half, *reverse, h) for half, reverse in zip(halves, reversed(halves), strict=True))


def _positive_losses(profile: Profile, high: float, h: float) -> tuple[Floats, Floats]:
    """Return δ at the grid points 0, h, 2h, … up to `high`, and the masses at the losses h, 2h, …

    With a_i = e^{hi} and δ linear in a between grid points, the masses are p_i = a_i (s_i - s_{i-1}), s_i the slope of
    δ from a_i to a_{i+1}, 0 after the last point (Doroshenko et al. 2022, Algorithm 1). They are computed from
    differences of δ, so that no large e^ε appears.
    """
    # Without the subtraction, rounding would add a point if `high` is a multiple of h.
    delta = profile(h * np.arange(max(1, math.ceil(high / h - 1e-9)) + 1))
    falls = -np.diff(delta)
    # -a_i s_(i-1) is a fall times a_i/(a_i - a_(i-1)) = 1/(1 - e^-h), and -a_i s_i the next fall times
    # a_i/(a_(i+1) - a_i) = 1/(e^h - 1).
    masses = falls / -math.expm1(-h)
    masses[:-1] -= falls[1:] / math.expm1(h)
    return delta, masses


def _both_signs(delta: Floats, positive: Floats, delta_reverse: Floats, positive_reverse: Floats, h: float) -> PLD:
    """Return the PLD of a pair from the results of `_positive_losses` for it and for the reversed pair.

    The masses of negative losses are those of the reversed pair times e^-L: p(-L) = e^-L p_reverse(L). They are not
    computed from δ at negative ε, as this is near 1, and rounding would hide small masses.
    """
    # The formula of `_positive_losses` at a_0 = 1, with δ(-h) = 1 - e^-h + e^-h δ_reverse(h).
    at_zero = 1.0 - (math.exp(h) * delta[0] + delta[0] - delta[1] - delta_reverse[1]) / math.expm1(h)
    negative = positive_reverse * np.exp(-h * np.arange(1, len(positive_reverse) + 1))
    p = np.concatenate([negative[::-1], [at_zero], positive])
    return PLD(h, -len(negative), np.maximum(p, 0.0), float(delta[-1]))  # δ after all losses is the mass at +∞


# ---------------------------------------------------------------------------------------------------- limits and losses

Counts = Mapping[Event, int] | Sequence[tuple[Event, int]]

TAIL = 1e-3  # the share of δ that may be lost outside the window, and again outside the range of single losses
CELLS_PER_DEVIATION = 12  # cells per standard deviation of a loss: ε is at most 0.12 % too large; error ∝ 1/cells²
FEW = 20  # below this number of events the errors do not average out, and the grid is finer:
CELLS_PER_DEVIATION_FEW = 32
LARGEST_LOSS = 600.0  # largest loss of one event; e^600 is finite with room to spare
MAX_CELLS = 2**17  # cells of one event; if a rare large loss next to tiny ones needs more, the grid is coarser
ROUGH_CELLS = 2**14  # the same for first estimates, as while noise is calibrated; most often within 1e-3 of the final ε
# Limits of the cells of a composition, and of the cells of its window times the number of different events (64 MiB of
# spectra). Beyond them the grid is coarser by up to the factor COARSEST, which makes ε a few percent too large.
LARGEST_WINDOW = 2**18
MAX_MEMORY = 2**23
COARSEST = 8.0
AT_ONCE = 4  # number of Fourier transforms in one call, which takes little more than half the time of four calls
BLOCKS = 300  # number of blocks into which the cells of an event are summed where rough losses are enough
NEGLIGIBLE = -50.0  # logarithm of a frequency's size, relative to the largest one, below which rounding hides it


class AccountingLimit(ValueError):
    """A composition outside the range where the FFT is accurate or affordable; another accountant has to be used."""


def largest_losses(event: Event, tail: float) -> tuple[float, ...]:
    """Return a bound of one event's privacy loss in each direction, exceeded with probability `tail` at most.

    The directions are those of `per_event.directions`. Minus the bound of one direction is a lower bound of the loss in
    the other. Raises AccountingLimit if of the event or a part of it only ρ is known: then it has no loss distribution.
    """
    event = simplified(event)
    blocks = blocks_of(event)
    if any(isinstance(block, StatedZCDP) for block in blocks):
        raise AccountingLimit(f"{event} has no privacy loss distribution")
    # The loss of Gaussian noise is N(μ²/2, μ²); that of other releases is at most their parameter.
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
    # The loss of an added row is at most -ln of the smallest ratio of q P + (1 - q) Q to Q, which is 1 - q + q e^-high.
    # A release with a δ may fail openly. It then shows a row in the batch for certain, but an absent row only by a
    # ratio of probabilities of 1 to 1 - q, as the row might be outside the batch.
    may_fail = any(isinstance(block, StatedApproximateDP) for block in blocks)
    added = -math.log1p(-q if may_fail else q * math.expm1(-high))
    return sampled, added


# --------------------------------------------------------------------------------------------------------- composition


def compose(counts: Counts, delta: float, max_cells: int = MAX_CELLS) -> tuple[PLD, ...]:
    """Return the PLDs of all events together, each as often as in `counts`.

    There is one PLD, or with Poisson batches two, for a row that is removed and for one that is added; the worse one is
    the guarantee. They are accurate where δ(ε) is of the order of `delta` or larger.

    max_cells : largest number of cells of one event. The PLDs are guarantees for any value; larger values make them
        tighter.

    Raises AccountingLimit if delta is below what the FFT resolves, max(1e-11, 1e-14 · number of events), if a loss is
    too large, or if of an event only ρ is known; UserError if batches are drawn in two ways that hold under different
    neighbouring relations.
    """
    merged = count_releases(counts)
    if not merged:
        raise ValueError("there is nothing to compose")
    relation(merged)  # raises UserError if batches hold under two of them
    return next(_compositions(list(merged), np.array([list(merged.values())]), delta, max_cells))


def epsilon_at(counts: Counts, delta: float) -> float:
    """Return an ε for which all events together are (ε, delta)-DP; infinite if one of them has no noise.

    Raises the same errors as `compose`.
    """
    merged = count_releases(counts)
    if any(parameter(event) == math.inf for event in merged):
        return math.inf
    if not merged:
        return 0.0
    if sum(merged.values()) == 1:
        (event,) = merged
        return _closed_epsilon(event, delta)
    # Losses are rounded up to the grid, so a few of them may add up to more than basic composition gives.
    basic = sum(count * per_event.pure(event) for event, count in merged.items())
    return min(basic, _worst(compose(merged, delta), delta))


def _worst(directions: Sequence[PLD], delta: float) -> float:
    return max(direction.epsilon(delta) for direction in directions)


def curve(groups: Sequence[tuple[Event, int]], checkpoints: ArrayLike, delta: float) -> Floats:
    """Return, for each t in `checkpoints`, an ε for which the first t events together are (ε, delta)-DP.

    groups : runs of equal events in time order, as (event, count). A composite event counts as one event, the single
        one that dominates it.
    checkpoints : numbers of events, in any order; 0 is allowed.

    Checkpoints of similar size share one grid and one window. Raises the same errors as `compose`, and ValueError for a
    checkpoint beyond the last event.
    """
    checkpoints = np.asarray(checkpoints, dtype=int)
    groups = [(simplified(event), count) for event, count in groups if count]
    events = list(dict.fromkeys(event for event, _ in groups))
    relation(events)  # raises UserError if batches hold under two of them
    index_of_event = {event: i for i, event in enumerate(events)}
    ends = np.cumsum([0, *(count for _, count in groups)])  # number of events before each group, and in all
    if checkpoints.size and not 0 <= checkpoints.min() <= checkpoints.max() <= ends[-1]:
        raise ValueError(f"checkpoints must lie between 0 and {ends[-1]}")
    noiseless = [i for i, (event, _) in enumerate(groups) if parameter(event) == math.inf]
    finite_until = ends[noiseless[0]] if noiseless else ends[-1]
    result = np.where(checkpoints > finite_until, math.inf, 0.0)
    is_composed = (checkpoints > 0) & (checkpoints <= finite_until)
    if is_composed.any():
        times, index_of_time = np.unique(checkpoints[is_composed], return_inverse=True)
        done_of_group = np.clip(times - ends[:-1, None], 0, np.diff(ends)[:, None])  # (groups, times)
        event_of_group = np.array([index_of_event[event] for event, _ in groups])
        counts = np.zeros((len(events), len(times)), dtype=int)
        np.add.at(counts, event_of_group, done_of_group)
        result[is_composed] = _epsilons(events, counts.T, delta)[index_of_time]
    return result


def _epsilons(events: Sequence[Event], counts: np.ndarray, delta: float) -> Floats:
    """Return ε at δ = delta of the composition of each row of counts, (rows,).

    counts : (rows, events) how often each event occurs; no count decreases from one row to the next.

    Rows of similar size are composed as a group on one grid, whose step suits their losses. Groups are formed from the
    last row down: of rows with FEW events or more, groups whose losses have standard deviations within a factor of 8;
    then one group of the rows with 2 to FEW - 1 events, and one of those with a single event.
    """
    indices = np.flatnonzero(counts[-1])  # of the events that occur
    events, counts = [events[int(i)] for i in indices], counts[:, indices]
    steps = counts.sum(axis=1)
    # The square of the typical loss is e^(2 log_strength); 600, against overflow.
    rough_variance = counts @ np.exp(np.minimum([2 * log_strength(event) for event in events], 600.0))
    epsilons = np.empty(len(counts))
    end = len(counts)
    while end:  # the rows from `end` on are done; those from `start` on are next
        last_steps = steps[end - 1]
        if last_steps >= FEW:
            start = int(np.searchsorted(steps, FEW))
            start = max(start, int(np.searchsorted(rough_variance[:end], rough_variance[end - 1] / 8**2)))
        else:
            start = int(np.searchsorted(steps, min(2, last_steps)))  # the first row with 2 events or more, or with one
        occurring = np.flatnonzero(counts[end - 1])
        if last_steps == 1:  # all these rows have the same event, as no count decreases
            epsilons[start:end] = _closed_epsilon(events[occurring[0]], delta)
        else:
            rows = _compositions([events[i] for i in occurring], counts[start:end][:, occurring], delta)
            epsilons[start:end] = [_worst(composed, delta) for composed in rows]
        end = start
    # Basic composition is a bound, too, for the rows whose events all have a pure ε.
    pure = np.array([per_event.pure(event) for event in events])
    has_pure = np.isfinite(pure)
    basic = counts @ np.where(has_pure, pure, 0.0)
    return np.where(counts @ ~has_pure > 0, epsilons, np.minimum(epsilons, basic))


def _compositions(
    events: Sequence[Event], counts: np.ndarray, delta: float, max_cells: int = MAX_CELLS
) -> Iterator[tuple[PLD, ...]]:
    """Yield the PLDs, one or two, of the composition of each row of `counts` (rows, events); see `compose`.

    No count decreases from one row to the next, so a window for the last row, which holds the losses of any selection
    of its events, too (see `_upper_end`), holds those of all rows. If it has too many cells, everything is repeated on
    a coarser grid.
    """
    last_counts = counts[-1]
    steps = int(last_counts.sum())
    if not max(1e-11, 1e-14 * steps) <= delta < 1:
        raise AccountingLimit(f"delta = {delta} is outside the range that {steps} events allow")
    tail, coarser = TAIL * delta, 1.0
    while coarser <= COARSEST:
        # By direction, then by event.
        plds = plds_of_events(events, last_counts, tail=tail / steps, coarser=coarser, max_cells=max_cells)
        # From row to row small parts occur in different numbers, so that only those of a single row can be one part.
        is_single = len(counts) == 1
        composition = _with_few_parts(plds, last_counts, tail) if is_single else _Composition(plds, counts, tail)
        half, size = composition.window()
        excess = max(size / LARGEST_WINDOW, size * sum(map(len, composition.directions)) / MAX_MEMORY)
        if excess <= 1:
            yield from composition.composed(half, size)
            return
        coarser *= 1.1 * excess  # cells are in proportion to 1/coarser, but for rounding up
    raise AccountingLimit(f"{size} cells are too many")


class _Composition(NamedTuple):
    """One or more compositions of the same parts, the PLDs of events on one grid.

    directions : the parts in each direction.
    counts : (rows, parts) how often each part occurs in each composition; no count decreases from row to row.
    tail : the probability of losses outside the window that is allowed.
    """

    directions: list[tuple[PLD, ...]]
    counts: np.ndarray
    tail: float

    def window(self) -> tuple[int, int]:
        """Return the number of cells on either side of the loss 0, and in all, outside which losses have at most the
        probability `tail`."""
        half = max(_upper_end(parts, self.counts[-1], self.tail) for parts in self.directions)
        return half, 2 * half + 1

    def composed(self, half: int, size: int) -> Iterator[tuple[PLD, ...]]:
        """Return an iterator over the rows of counts, with the PLD of each composition in each direction.

        half, size : the window, from -half on, as `window` gives it.
        """
        size = next_fast_len(size, real=True)
        directions = (_composed(parts, self.counts, half, size, self.tail) for parts in self.directions)
        return zip(*directions, strict=True)


def _with_few_parts(directions: list[tuple[PLD, ...]], counts: np.ndarray, tail: float) -> _Composition:
    """Return the composition of the parts, (parts,) counts of each, in a form that is cheaper to compute.

    If there are many parts with small losses, these are composed first, on a narrow window, and make one part. The wide
    window that a few large losses need then has to be filled for a few parts only.
    """
    # The limits 16, 4 and 2 are heuristics for when this saves time. Each of the two compositions has half the tail.
    lengths = np.max([[len(part.p) for part in parts] for parts in directions], axis=0)
    is_small = lengths <= lengths.max() / 16
    if is_small.sum() >= 4:
        small_parts = [tuple(compress(parts, is_small)) for parts in directions]
        small_composition = _Composition(small_parts, counts[None, is_small], tail / 2)
        half, size = small_composition.window()
        if 2 * size <= lengths.max():
            (combined,) = small_composition.composed(half, size)
            few_parts = [
                (*compress(parts, ~is_small), combined_part)
                for parts, combined_part in zip(directions, combined, strict=True)
            ]
            return _Composition(few_parts, np.append(counts[~is_small], 1)[None], tail / 2)
    return _Composition(directions, counts[None], tail)


def _composed(parts: Sequence[PLD], counts: np.ndarray, half: int, size: int, tail: float) -> Iterator[PLD]:
    """Yield the PLD of each row of `counts` (rows, parts) in one direction, on a window of `size` cells from -half on.

    tail : a bound on the probability of losses outside the window, which is added to the mass at +∞.
    """
    lowest = np.array([part.lo for part in parts])
    log_finite = np.log1p(-np.array([part.inf for part in parts]))  # of the probability of a finite loss
    for row, spectrum in zip(counts, _spectra(parts, counts, size), strict=True):
        # Cell 0 of the inverse transform is the sum of the lowest losses; it is moved to its place in the window.
        masses = np.maximum(np.roll(irfft(spectrum, size), int(row @ lowest) + half), 0.0)
        # The last term covers the round-off of the FFT, which grows with the number of factors.
        inf = -math.expm1(float(row @ log_finite)) + tail + 2e-16 * int(row.sum())
        yield PLD(parts[0].h, -half, masses, inf)


def _spectra(parts: Sequence[PLD], counts: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Yield, for each row of `counts`, the spectrum of the composition: the product of the spectra of the parts, each
    to the power of its count.

    A spectrum is complex and has the first (k,) of the size // 2 + 1 frequencies; all others are below e^NEGLIGIBLE, so
    that rounding hides them. As no count decreases from row to row, what is negligible in the first row is so in all.
    """
    spread = counts[0] * np.array([part.variance for part in parts])
    logs, angles = np.empty((2, len(parts), size // 2 + 1))  # of each part's spectrum: ln of the size, and the phase
    first_row_logs = np.zeros(size // 2 + 1)
    relevant = size // 2 + 1  # number of frequencies that are not negligible so far
    order = np.argsort(-spread)  # the widest losses first: their narrow spectra leave few frequencies to the others
    for start in range(0, len(parts), AT_ONCE):
        group = order[start : start + AT_ONCE]
        for i, frequencies in zip(group, rfft([_wrapped(parts[i].p, size) for i in group]), strict=True):
            spectrum = frequencies[:relevant]
            logs[i, :relevant] = np.log(np.maximum(spectrum.real**2 + spectrum.imag**2, 1e-300)) / 2
            angles[i, :relevant] = np.arctan2(spectrum.imag, spectrum.real)
            first_row_logs[:relevant] += counts[0, i] * logs[i, :relevant]
            relevant = 1 + int(np.flatnonzero(first_row_logs[:relevant] > NEGLIGIBLE).max(initial=0))
    for row in counts:
        product = np.empty(relevant, dtype=complex)
        sizes, angle = np.exp(row @ logs[:, :relevant]), row @ angles[:, :relevant]
        product.real, product.imag = sizes * np.cos(angle), sizes * np.sin(angle)
        yield product


def _wrapped(masses: Floats, size: int) -> Floats:
    """Return the masses on a window of `size` cells, (size,): those beyond its end are added from its beginning on.

    A convolution by FFT does the same, as it is modulo `size`; `rfft(masses, size)` would cut them off.
    """
    rounds = -(-len(masses) // size)
    window = np.zeros(rounds * size)
    window[: len(masses)] = masses
    return window.reshape(rounds, size).sum(axis=0) if rounds > 1 else window


def plds_of_events(
    events: Sequence[Event],
    counts: np.ndarray,
    tail: float,
    coarser: float = 1.0,
    *,
    max_cells: int = MAX_CELLS,
    max_total_cells: float = math.inf,
) -> list[tuple[PLD, ...]]:
    """Return the PLD of each event, all on one grid that is fine enough for their composition, for each direction.

    counts : (events,) how often each event occurs.
    tail : the probability that may be cut off one event's losses, see `largest_losses`.
    coarser : factor by which the step of the grid is larger than is fine enough.
    max_cells : largest number of cells of one event; the grid is coarser if it has more.
    max_total_cells : largest number of cells of all events together.

    Raises AccountingLimit if a loss exceeds LARGEST_LOSS, or if there are more cells than `max_total_cells`.
    """
    for event in events:
        (inner,) = largest_losses(event.inner if isinstance(event, Sub) else event, tail)  # of the noise on the batch
        if inner > LARGEST_LOSS:
            raise AccountingLimit(f"{event} has losses up to {inner:.3g}")
    highest = [largest_losses(event, tail) for event in events]  # of each event, in each of its directions
    profiles = [per_event.directions(event) for event in events]
    direction_count = max(map(len, profiles))

    def on_grids(steps: Sequence[float]) -> list[tuple[PLD, ...]]:
        """Return the PLD of each event on a grid of its step, by direction; that of a symmetric pair is in both."""
        distributions = map(from_profiles, profiles, highest, steps)
        in_all_directions = (plds * (direction_count // len(plds)) for plds in distributions)
        return list(zip(*in_all_directions, strict=True))  # (directions, events) from (events, directions)

    # The standard deviations of the losses, from which the step follows, are computed on a coarse grid; two directions
    # need more cells, as one direction of a rare batch is more skewed than a symmetric pair.
    coarse_cells = 200 if direction_count == 1 else 600
    coarse = on_grids([max(losses) / coarse_cells for losses in highest])
    # For each direction, (events,).
    deviations = [np.sqrt([max(part.variance, 1e-300) for part in parts]) for parts in coarse]
    finest = 2 * max(map(max, highest)) / max_cells  # 2: losses lie on both sides of 0
    h = coarser * max(finest, min(_step(of_events, counts) for of_events in deviations))
    cells = sum(2 * max(losses) for losses in highest) / h
    if cells > max_total_cells:
        raise AccountingLimit(f"{cells:.3g} cells for {len(events)} different events are too many")
    if len(events) == 1 and not any(isinstance(block, Gaussian) for block in blocks_of(events[0])):
        # Let the largest loss of a bounded event be a grid point: otherwise it would be rounded up at every step. Not
        # if it is smaller than a cell, as it may be in one of two directions: the other one would need many more cells.
        high, *_ = highest[0]
        if high >= h:
            h = high / math.ceil(high / h)
    return on_grids([h] * len(events))


def _step(deviations: Floats, counts: np.ndarray) -> float:
    """Return the step h of the grid for the composition of events, with standard deviations of their losses (events,)
    and counts (events,).

    It is the root mean square of all deviations divided by the cells per deviation, or less, because losses of Laplace
    noise have atoms: with a probability above δ, the few largest losses may all take one and the same value. Then the
    spread of the smaller losses is all there is. So h must not widen the spread (the standard deviation of the sum) of
    the smaller losses by more than `widening`, wherever the line between smaller and largest losses is drawn.
    """
    cells = CELLS_PER_DEVIATION if counts.sum() >= FEW else CELLS_PER_DEVIATION_FEW
    order = np.argsort(deviations)
    s, k = deviations[order], counts[order].astype(float)
    # Sums over the losses up to each one in this order: their number, Σ s and Σ s².
    number, deviation_sum, variance_sum = np.cumsum(k), np.cumsum(k * s), np.cumsum(k * s**2)
    # With h = √(V/N)/cells, rounding widens the spread √V of all N losses by about (N h²/6)/(2 √V) = √V/(12 cells²).
    # Four times that is allowed, a heuristic.
    widening = math.sqrt(variance_sum[-1]) / (3 * cells**2)
    added_variance = 2 * widening * np.sqrt(variance_sum) + widening**2  # (√v + widening)² - v
    # Rounding to the grid adds to the variance of one loss about h²/6, or h s if s is far below h. So number · h²/6 and
    # deviation_sum · h both bound what rounding adds in all, and the larger h of the two that they allow will do.
    by_cells, by_deviations = np.sqrt(6 * added_variance / number), added_variance / deviation_sum
    allowed_steps = np.maximum(by_cells, by_deviations)
    # Lines above which there are at most 40 losses: that more of them take the same of two values has a probability
    # below 2^-40, which is below every δ here.
    relevant_steps = allowed_steps[number[-1] - number <= 40]
    return min(math.sqrt(variance_sum[-1] / number[-1]) / cells, float(relevant_steps.min()))


def _upper_end(parts: Sequence[PLD], counts: np.ndarray, tail: float) -> int:
    """Return a number u of cells such that the total loss of the parts, or of any selection of them, is above u h with
    a probability of at most `tail`/2, by Chernoff's bound.

    A total loss below -u h is even less likely than one of the reversed pair above u h.

    Every exponent θ gives a bound, (ln E e^(θ L) + ln(2/tail))/θ with L the total loss. Of 24 exponents, from one that
    suits a single large loss (as of rare sampling) to four times the one for a normal distribution, the best is chosen
    with rough sums; the bound is then computed exactly for that one. The range of exponents is a heuristic.
    """
    variance = max(float(counts @ np.array([part.variance for part in parts])), 1e-300)
    normal_exponent = math.sqrt(2 * math.log(2 / tail) / variance)
    ends = np.array([(part.lo, part.lo + len(part.p) - 1) for part in parts])  # lowest and highest cell of each part
    single_exponent = 2 / (parts[0].h * np.abs(ends).max())
    exponents = np.geomspace(min(normal_exponent / 16, single_exponent), 4 * normal_exponent, 24)
    rough = sum(count * _cumulant(*_in_blocks(part), exponents) for count, part in zip(counts, parts, strict=True))
    best = exponents[[int(np.argmin((rough + math.log(2 / tail)) / exponents))]]  # (1,)
    exact = sum(count * _cumulant(part.losses, part.p, best) for count, part in zip(counts, parts, strict=True))
    bound = float((exact[0] + math.log(2 / tail)) / best[0]) / parts[0].h
    return min(math.ceil(bound), int(np.abs(counts @ ends).max()))  # or the total of all extreme losses


def _cumulant(losses: Floats, masses: Floats, exponents: Floats) -> Floats:
    """Return max(0, ln E e^(θ L)) of the finite losses L for each exponent θ, (k,).

    Because of the maximum with 0, n times the result is an upper bound of ln E e^(θ S), S the sum of any j ≤ n such
    losses.
    """
    has_mass = masses > 0
    if not has_mass.any():  # all mass is at +∞: an event that fails almost surely
        return np.zeros(len(exponents))
    terms = exponents[:, None] * losses[has_mass] + np.log(masses[has_mass])
    top = terms.max(axis=1)  # taken out of the sum, so that nothing overflows
    return np.asarray(np.maximum(top + np.log(np.exp(terms - top[:, None]).sum(axis=1)), 0.0))


def _in_blocks(part: PLD) -> tuple[Floats, Floats]:
    """Return losses and masses of a PLD, with neighbouring cells put together to about BLOCKS mean losses."""
    width = -(-len(part.p) // BLOCKS)
    starts = np.arange(0, len(part.p), width)
    masses = np.add.reduceat(part.p, starts)
    return np.add.reduceat(part.p * part.losses, starts) / np.maximum(masses, 1e-300), masses


def _closed_epsilon(event: Event, delta: float) -> float:
    """Return the smallest ε for which a single event with noise is (ε, delta)-DP, from its privacy profiles."""
    # Beyond a loss that is exceeded with probability delta, the profile is below delta. The call comes first, as it
    # raises AccountingLimit if there are no profiles.
    highest = largest_losses(event, delta)
    profiles = per_event.directions(event)
    return max(_inverse(profile, high, delta) for profile, high in zip(profiles, highest, strict=True))


def _inverse(profile: Profile, high: float, delta: float) -> float:
    """Return the smallest ε ≥ 0, up to `high`, at which the profile is at most delta; infinite if there is none."""

    def excess(epsilon: float) -> float:
        return math.log(max(float(profile(epsilon)), 1e-300) / delta)

    if excess(0.0) <= 0:
        return 0.0
    high *= 1 + 1e-9  # the root may be at the largest loss, and rounding must not hide it
    if excess(high) > 0:
        return math.inf
    root = float(brentq(excess, 0.0, high, xtol=1e-300, rtol=1e-14, maxiter=500))  # xtol: no absolute tolerance
    return root * (1 + 2e-14)  # rounded up by more than the root's tolerance


def count_releases(counts: Counts) -> dict[Event, int]:
    """Return how often each distinct release occurs in all, each in the simplified form of `rounding.simplified`.

    counts : events with their numbers; a `Seq` or `Repeat` counts as the releases inside it, a number of 0 not at all.
    """
    merged: dict[Event, int] = {}
    pairs = counts.items() if isinstance(counts, Mapping) else counts
    for event, count in pairs:
        releases = releases_of(event) if count else []
        for release, times in releases:
            release = simplified(release)
            merged[release] = merged.get(release, 0) + times * int(count)
    return merged
