"""A finer grid for privacy loss distributions, on request: for the library, and for numbers that are taken away.

The same pessimistic distributions as in `pld`, on cells up to 32 times smaller: the overestimate of ε falls with the
square. So that neither δ nor the round-off of the FFT sets a limit, losses are tilted first: masses p(L) are composed
as p(L) e^(θL) / M(θ), which puts the losses near ε in the middle of the window, and weighed back afterwards. What the
window cuts off is bounded by Chernoff, and the part of it above is paid for as mass at +∞; wrapped around, it can only
add to δ.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from dpviz.privacy.accounting import pld
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.accounting.pld import PLD, AccountingLimit
from dpviz.privacy.events import Event

FINENESS = (32, 8, 5)  # cells for each one of the normal grid, as many as are affordable
TAIL = 1e-7  # the share of δ that may be lost outside the window, and again outside the range of single losses
LARGEST_WINDOW = 2**20  # cells; a dozen arrays of this size are held at once
MOST_CELLS = 2**21  # of all different events together; three arrays of them are held
MOST_LIFTED = 12.0  # ln of the factor by which a tilt may raise the FFT's round-off, of the order of δ at the best tilt
MOST_WORK = 2**26  # cells of the window times different events


def epsilon(counts: Mapping[Event, int], delta: float, guess: float) -> float | None:
    """Return ε at δ of all events together, 20 times closer to the smallest provable one than on the normal grid, or
    more; None where that takes too much memory or time, or a loss is too large.

    counts : releases, simplified as in `rounding`. guess : an ε near which to begin, such as another accountant's; if
        it is below what losses prove, None may be the answer.
    """
    steps = sum(counts.values())
    if steps <= 1 or guess == 0:
        return pld.epsilon_at(counts, delta) if guess else 0.0
    events, times = list(counts), np.array(list(counts.values()))
    for fineness in FINENESS:
        try:
            smallest = _descended(events, times, delta, guess, fineness)
            return smallest if smallest < math.inf else None
        except AccountingLimit:
            continue
    return None


def _descended(events: Sequence[Event], times: np.ndarray, delta: float, guess: float, fineness: int) -> float:
    """Return ε on one grid: from a guess that is far too large the window goes down until the smallest ε lies in it."""
    directions = pld.discretised(
        events, times, TAIL * delta / int(times.sum()), 1 / fineness, max_total_cells=MOST_CELLS
    )
    for _ in range(30):
        compositions = [_composed(parts, times, delta, guess) for parts in directions]
        # Nothing is known below the lowest loss of the window.
        smallest = max(max(one.epsilon(delta), one.h * one.lo) for one in compositions)
        if smallest > 0.97 * guess or smallest <= 0:
            return max(smallest, 0.0)
        guess = smallest
    return guess


def _composed(parts: Sequence[PLD], times: np.ndarray, delta: float, guess: float) -> PLD:
    """Return the composition in one direction, accurate from a little below the loss `guess` upwards."""
    h = parts[0].h
    losses_of_parts = [_Losses(part) for part in parts]

    def cumulant(exponent: float) -> float:
        return math.fsum(count * one.cumulant(exponent) for count, one in zip(times, losses_of_parts, strict=True))

    spread = math.sqrt(max(float(times @ np.array([part.variance for part in parts])), 1e-300))
    best = _best_tilt(cumulant, guess, spread)
    windows = [_window(cumulant, best * share, guess, delta) for share in (1.0, 0.7, 0.5)]
    affordable = [window for window in windows if window[1] - window[0] * guess < math.log(delta) + MOST_LIFTED]
    # A smaller tilt suits a rare large loss, which a large one would make common.
    tilt, level, low, high = min(affordable or windows[:1], key=lambda window: window[3] - window[2])
    first = math.floor(low / h)
    size = next_fast_len(math.ceil(high / h) - first + 2, real=True)
    if size > LARGEST_WINDOW or size * len(parts) > MOST_WORK:
        raise AccountingLimit(f"{size} cells are too many")
    log_size, angle = np.zeros(size // 2 + 1), np.zeros(size // 2 + 1)
    for count, one in zip(times, losses_of_parts, strict=True):
        spectrum = rfft(one.tilted(tilt, size))
        log_size += count * np.log(np.maximum(np.abs(spectrum), 1e-300))
        angle += count * np.angle(spectrum)
    lowest = sum(int(count) * one.first for count, one in zip(times, losses_of_parts, strict=True))
    masses = np.roll(irfft(np.exp(log_size + 1j * angle), size), (lowest - first) % size)
    losses = h * np.arange(first, first + size)
    # Far below ε masses weigh back to more than 1; no ε there is computed.
    masses = np.maximum(masses, 0.0) * np.exp(np.minimum(level - tilt * losses, 300.0))
    failure = -math.expm1(math.fsum(count * math.log1p(-part.inf) for count, part in zip(times, parts, strict=True)))
    rounding = 1e-15 * int(times.sum()) * math.exp(level - tilt * guess)
    return PLD(h, first, masses, failure + TAIL * delta + rounding)


def _window(
    cumulant: Callable[[float], float], tilt: float, guess: float, delta: float
) -> tuple[float, float, float, float]:
    """Return the tilt, ln M(θ) of all events, and the losses below and above which only a negligible mass lies."""
    level = cumulant(tilt)
    # A tilted mass above ε is weighed by e^(level - θε) at most, so e^wrapped of it may be wrapped around; Chernoff.
    wrapped = min(math.log(TAIL * delta) + tilt * guess - level, math.log(TAIL))
    high = min((cumulant(tilt * (1 + x)) - level - wrapped) / (tilt * x) for x in (0.05, 0.15, 0.3, 0.6, 1.5))
    low = max((level + wrapped - cumulant(tilt * (1 - x))) / (tilt * x) for x in (0.05, 0.15, 0.3, 0.6, 1.0))
    return tilt, level, min(low, guess * 0.9), max(high, guess)


class _Losses:
    """The finite losses of one event that have a mass.

    first : index of the lowest loss, whose value is h times it.
    """

    def __init__(self, part: PLD) -> None:
        occupied = np.flatnonzero(part.p > 0)
        if not len(occupied):
            raise AccountingLimit("an event fails almost surely")
        self.first = part.lo + int(occupied[0])
        span = slice(int(occupied[0]), int(occupied[-1]) + 1)
        self._losses = part.losses[span]
        with np.errstate(divide="ignore"):
            self._log_masses = np.log(part.p[span])

    def cumulant(self, exponent: float) -> float:
        """Return ln E e^(exponent · loss)."""
        terms = exponent * self._losses + self._log_masses
        top = float(terms.max())
        return top + math.log(float(np.exp(terms - top).sum()))

    def tilted(self, exponent: float, size: int) -> Floats:
        """Return masses ∝ p e^(exponent · loss), from the lowest loss on, wrapped around a window of `size` cells."""
        masses = np.exp(exponent * self._losses + self._log_masses - self.cumulant(exponent))
        result = np.zeros(size)
        for start in range(0, len(masses), size):
            piece = masses[start : start + size]
            result[: len(piece)] += piece
        return result


def _best_tilt(cumulant: Callable[[float], float], guess: float, spread: float) -> float:
    """Return about the exponent that makes `guess` the typical total loss: the minimum of the convex K(θ) - θ · guess.

    spread : standard deviation of the total loss.
    """

    def height(log_exponent: float) -> float:
        exponent = math.exp(log_exponent)
        return cumulant(exponent) - exponent * guess

    # θ · guess is of the order of ln 1/δ where δ is small, and θ · spread below 1 where ε is next to nothing.
    grid = np.linspace(math.log(0.1 / max(guess, spread)), math.log(3000.0 / guess), 14)
    heights = [height(x) for x in grid.tolist()]
    best = int(np.argmin(heights))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    for _ in range(8):  # golden section: any exponent is valid, a good one keeps the window small
        left, right = high - 0.618 * (high - low), low + 0.618 * (high - low)
        low, high = (low, right) if height(left) < height(right) else (left, high)
    return math.exp((low + high) / 2)
