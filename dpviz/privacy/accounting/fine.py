"""A finer grid for privacy loss distributions, used on request: by the library, and for numbers that users export.

The distributions are pessimistic as in `pld`, on cells up to 32 times smaller; the overestimate of ε falls with the
square of the cell. The round-off of the FFT would hide masses as small as δ. So the losses are tilted first: instead of
the masses p(L) of each event, p(L) e^(θL) / M(θ) are composed, M(θ) = E e^(θL). That puts losses near ε in the middle
of the window; afterwards the masses are weighed back by M(θ) e^(-θL), M of all events. The mass outside the window is
bounded by Chernoff's inequality; the part above is counted as mass at +∞, and mass that is wrapped around the window
can only add to δ.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpviz.later import lazy_functions
from dpviz.privacy.accounting import pld
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.accounting.pld import PLD, AccountingLimit
from dpviz.privacy.events import Event

irfft, next_fast_len, rfft = lazy_functions("scipy.fft", "irfft next_fast_len rfft")

FINENESS = (32, 8, 5)  # numbers of cells for each cell of the normal grid; the first one that is affordable is used
TAIL = 1e-7  # the share of δ that may be lost outside the window, and again outside the range of single losses
LARGEST_WINDOW = 2**20  # cells of a window; a dozen arrays of this size are held in memory at once
MAX_CELLS = 2**21  # cells of all different events together; three arrays of that size are held
# The weighing back multiplies the round-off of the FFT, by about δ at the best tilt; other tilts may exceed that by
# this factor, given as its logarithm.
MAX_LIFTED = 12.0
MAX_WORK = 2**26  # cells of the window times the number of different events


def epsilon(counts: Mapping[Event, int], delta: float, guess: float) -> float | None:
    """Return an ε for which all events together are (ε, delta)-DP, at least 20 times closer to the smallest one that
    loss distributions prove than on the normal grid.

    The result is None if that takes too much memory or time, or if a loss is too large.

    counts : how often each release occurs; releases are simplified as by `rounding.simplified`.
    guess : an ε from which the search goes down, such as another accountant's. If it is below the smallest one that
        loss distributions prove, the result may be None.
    """
    steps = sum(counts.values())
    if guess == 0:
        return 0.0
    if steps <= 1:  # a single event has a closed form
        return pld.epsilon_at(counts, delta)
    events, times = list(counts), np.array(list(counts.values()))
    for fineness in FINENESS:
        try:
            smallest = _epsilon_on_grid(events, times, delta, guess, fineness)
            return smallest if smallest < math.inf else None
        except AccountingLimit:
            continue
    return None


def _epsilon_on_grid(events: Sequence[Event], times: np.ndarray, delta: float, guess: float, fineness: int) -> float:
    """Return the smallest ε on one grid, with `fineness` cells for each one of the normal grid.

    A composition is accurate only near the loss `guess`. So if its ε is much smaller, it becomes the next guess.
    """
    directions = pld.plds_of_events(
        events, times, tail=TAIL * delta / int(times.sum()), coarser=1 / fineness, max_total_cells=MAX_CELLS
    )
    for _ in range(30):  # each guess is below the one before by 3 % at least; a limit, for time
        compositions = [_composed(parts, times, delta, guess) for parts in directions]
        # Nothing is known below the lowest loss of the window, h · lo.
        smallest = max(max(composed.epsilon(delta), composed.h * composed.lo) for composed in compositions)
        if smallest > 0.97 * guess or smallest <= 0:  # so near the guess, the composition is accurate
            return max(smallest, 0.0)
        guess = smallest
    return guess  # valid, too, only not the smallest


def _composed(parts: Sequence[PLD], times: np.ndarray, delta: float, guess: float) -> PLD:
    """Return the composition of the parts, each `times` times, in one direction; it is accurate from a little below the
    loss `guess` upwards."""
    h = parts[0].h
    losses_of_parts = [_Losses(part) for part in parts]

    def cumulant(exponent: float) -> float:
        """Return ln M(θ) of the total loss."""
        cumulants = [losses.cumulant(exponent) for losses in losses_of_parts]
        return math.fsum(count * value for count, value in zip(times, cumulants, strict=True))

    spread = math.sqrt(max(float(times @ np.array([part.variance for part in parts])), 1e-300))
    best_tilt = _best_tilt(cumulant, guess, spread)
    # A smaller tilt may need a smaller window: it suits a rare large loss, which a large tilt would make common. Of
    # three, all valid, the smallest window is taken that keeps round-off within MAX_LIFTED; if none does, the first.
    windows = [_window(cumulant, best_tilt * share, guess, delta) for share in (1.0, 0.7, 0.5)]
    precise = [w for w in windows if w.log_moment - w.tilt * guess < math.log(delta) + MAX_LIFTED]
    tilt, log_moment, low, high = min(precise or windows[:1], key=lambda window: window.high - window.low)
    first = math.floor(low / h)
    size = next_fast_len(math.ceil(high / h) - first + 2, real=True)
    if size > LARGEST_WINDOW or size * len(parts) > MAX_WORK:
        raise AccountingLimit(f"{size} cells are too many")
    log_spectrum, angle = np.zeros(size // 2 + 1), np.zeros(size // 2 + 1)  # ln of the absolute value, and the phase
    for count, losses in zip(times, losses_of_parts, strict=True):
        spectrum = rfft(losses.tilted_masses(tilt, size))
        log_spectrum += count * np.log(np.maximum(np.abs(spectrum), 1e-300))
        angle += count * np.angle(spectrum)
    lowest = sum(int(count) * losses.first for count, losses in zip(times, losses_of_parts, strict=True))
    # Cell 0 of the inverse transform is the sum of the lowest losses; it is moved to its place in the window.
    masses = np.roll(irfft(np.exp(log_spectrum + 1j * angle), size), (lowest - first) % size)
    total_losses = h * np.arange(first, first + size)
    # Far below the guess, masses may be weighed back to more than 1; no ε is computed from these.
    masses = np.maximum(masses, 0.0) * np.exp(np.minimum(log_moment - tilt * total_losses, 300.0))
    # The probability that any of the losses is +∞, for which each part has `inf`.
    failure = -math.expm1(math.fsum(count * math.log1p(-part.inf) for count, part in zip(times, parts, strict=True)))
    # The round-off of the FFT, which grows with the number of factors, weighed back at the guess.
    rounding = 1e-15 * int(times.sum()) * math.exp(log_moment - tilt * guess)
    return PLD(h, lo=first, p=masses, inf=failure + TAIL * delta + rounding)


class _Window(NamedTuple):
    """A tilt θ with the losses that a window must hold.

    log_moment : ln M(θ) of the total loss of all events.
    low, high : the losses below and above which only a negligible tilted mass lies.
    """

    tilt: float
    log_moment: float
    low: float
    high: float


def _window(cumulant: Callable[[float], float], tilt: float, guess: float, delta: float) -> _Window:
    """Return the window for a tilt, by Chernoff's bound; `cumulant` is ln M of the total loss."""
    log_moment = cumulant(tilt)
    # A tilted mass above the guess is weighed back by at most e^(log_moment - θ guess). So a tilted mass of e^log_mass
    # may be wrapped around without adding more than TAIL · δ.
    log_mass = min(math.log(TAIL * delta) + tilt * guess - log_moment, math.log(TAIL))
    # For every x > 0, the tilted mass above u is at most e^(cumulant(θ + θx) - log_moment - θx u), and that below u at
    # most e^(cumulant(θ - θx) - log_moment + θx u). They are set to e^log_mass; of five x the tightest u is used.
    high = min((cumulant(tilt * (1 + x)) - log_moment - log_mass) / (tilt * x) for x in (0.05, 0.15, 0.3, 0.6, 1.5))
    low = max((log_moment + log_mass - cumulant(tilt * (1 - x))) / (tilt * x) for x in (0.05, 0.15, 0.3, 0.6, 1.0))
    return _Window(tilt, log_moment, min(low, guess * 0.9), max(high, guess))  # with the guess, and a little below it


class _Losses:
    """The finite losses of one event, from the lowest to the highest that has a mass.

    first : index of the lowest one on the grid, so that the loss is h · first.
    """

    def __init__(self, part: PLD) -> None:
        occupied = np.flatnonzero(part.p > 0)
        if not len(occupied):
            raise AccountingLimit("an event fails almost surely")
        self.first = part.lo + int(occupied[0])
        span = slice(int(occupied[0]), int(occupied[-1]) + 1)
        self._losses = part.losses[span]
        with np.errstate(divide="ignore"):  # cells without mass
            self._log_masses = np.log(part.p[span])

    def cumulant(self, exponent: float) -> float:
        """Return ln E e^(exponent · loss) of the finite losses."""
        terms = exponent * self._losses + self._log_masses
        top = float(terms.max())
        return top + math.log(float(np.exp(terms - top).sum()))

    def tilted_masses(self, exponent: float, size: int) -> Floats:
        """Return the tilted masses ∝ p e^(exponent · loss), which sum to 1, on a window of `size` cells.

        Cell 0 has the lowest loss; masses beyond the end are added from the beginning on.
        """
        masses = np.exp(exponent * self._losses + self._log_masses - self.cumulant(exponent))
        result = np.zeros(size)
        for start in range(0, len(masses), size):
            piece = masses[start : start + size]
            result[: len(piece)] += piece
        return result


def _best_tilt(cumulant: Callable[[float], float], guess: float, spread: float) -> float:
    """Return roughly the exponent θ with which `guess` is the mean of the tilted total loss.

    It minimises the convex function K(θ) - θ · guess, K the cumulant. Any exponent is valid, but a good one keeps the
    window small.

    spread : standard deviation of the total loss.
    """

    def objective(log_exponent: float) -> float:
        exponent = math.exp(log_exponent)
        return cumulant(exponent) - exponent * guess

    # If δ is small, θ · guess is of the order of ln(1/δ); if ε is next to nothing, θ · spread is below 1. The grid
    # covers both by far.
    grid = np.linspace(math.log(0.1 / max(guess, spread)), math.log(3000.0 / guess), 14)
    values = [objective(x) for x in grid.tolist()]
    best = int(np.argmin(values))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    for _ in range(8):  # golden-section search
        left, right = high - 0.618 * (high - low), low + 0.618 * (high - low)
        low, high = (low, right) if objective(left) < objective(right) else (left, high)
    return math.exp((low + high) / 2)
