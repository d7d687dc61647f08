"""Axes: the range with which they open, their ticks, and when a visitor's zoom is given up because the data changed."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dpviz.numbers import PLAIN_BELOW, PLAIN_FROM, short, short_down, short_up

Bound = Literal["", "upper", "lower"]  # upper or lower bounds on a quantity, or "": values of it
WRITE = {"": short, "upper": short_up, "lower": short_down}  # rounds so that a bound stays a bound
BOUND_DIGITS = 4  # digits of bounds in a figure: more could not be seen, and hover texts show what is drawn
_PADDING = 0.05  # free space on either side, as a share of the range


@dataclass(frozen=True)
class Axes:
    """The pair of axes of a figure.

    x, y : titles. log_x, log_y : True for a logarithmic axis. from_zero : True if a linear y axis starts at 0.
    bound : "upper" or "lower" if all heights are such bounds. They are rounded so that they stay bounds: upper ones up,
        lower ones down.
    """

    x: str
    y: str
    log_x: bool = False
    log_y: bool = False
    from_zero: bool = False
    bound: Bound = ""


@dataclass(frozen=True)
class Range:
    """The part of an axis that a figure shows when it opens; on a log axis `low` and `high` are exponents of ten."""

    low: float
    high: float
    log: bool

    def place(self, values: ArrayLike) -> np.ndarray:
        """Return the positions of values (any shape) along the axis: 0 at its lower end, 1 at its upper end."""
        scaled = np.log10(np.maximum(values, 1e-300)) if self.log else np.asarray(values)  # 0 has no logarithm
        return np.asarray((scaled - self.low) / (self.high - self.low))

    @property
    def plain(self) -> bool:
        """True if all numbers of the range (on a log axis, its powers of ten) are written without an exponent."""
        if self.log:
            return math.ceil(self.low) >= PLAIN_FROM and math.floor(self.high) <= PLAIN_BELOW
        return max(abs(self.low), abs(self.high)) < 10.0**PLAIN_BELOW


def y_range(values: np.ndarray, log: bool, from_zero: bool, above: float = 0.0) -> Range:
    """Return the range that shows all values, with a little room on both sides.

    It ends at round numbers, half powers of ten on a log axis, so that the axis holds still while a slider moves the
    lines.

    above : free space above the highest value, for text, as a share of the height.
    """
    if log:
        values = np.log10(values[values > 0]) if (values > 0).any() else np.zeros(1)
    low, high = float(values.min()), float(values.max())
    if from_zero and not log:
        low = min(low, 0.0)
    step = 0.5 if log else _round_part((high - low) or abs(high) or 1.0)  # of a constant: its size, or 1 if that is 0
    extra_steps = float(low == high)  # a constant has a step of room on both sides
    # Rounded to nine decimals first, so that a rounding error at a round number does not add a step.
    low = (math.floor(round(low / step, 9)) - extra_steps) * step
    high = (math.ceil(round(high / step, 9)) + extra_steps) * step
    width = high - low
    start = low if from_zero and low == 0.0 else low - _PADDING * width
    # The room above/(1 - above) of the width is the share `above` of both together.
    return Range(start, high + (_PADDING + above / (1 - above)) * width, log)


def _round_part(width: float) -> float:
    """Return a round number (1, 2 or 5 times a power of ten) between about a tenth and a quarter of a width."""
    power = 10.0 ** math.floor(math.log10(width))
    return power * next(part for part in (0.2, 0.5, 1.0) if width < 10 * part * power)


def axis(title: str, log: bool, opening: Range | None = None) -> dict[str, Any]:
    """Return plotly's specification of an axis, whose numbers are written as by `numbers.short`.

    opening : the range that it opens with. The visitor's zoom is kept until this range changes, as `uirevision` says.
    """
    result: dict[str, Any] = {
        "title": {"text": title},
        "type": "log" if log else "linear",
        "separatethousands": True,
        "exponentformat": "power",
        "minexponent": PLAIN_BELOW - 1,  # from 10⁷ on plotly writes powers of ten
    }
    if log:
        result |= {"tickformat": ",~r", "nticks": 4} if opening is None else log_ticks(opening)
    if opening is not None:
        ends = [opening.low, opening.high]
        result |= {"range": ends, "uirevision": f"{opening.low:.4g} {opening.high:.4g}"}
    return result


def log_ticks(opening: Range, across: bool = False) -> dict[str, Any]:
    """Return the part of plotly's specification of a log axis that sets its labels.

    From two decades on there are labels at powers of ten, every second or third of many. Between one decade and two
    they are at 1-2-5 times a power of ten; or at 1-3, which are set here, where less room is left because the axis is
    horizontal or the numbers have exponents. Below one decade they are at even steps.

    across : True if the axis is horizontal, and so has room for fewer.
    """
    decades = opening.high - opening.low
    # For r = decades / nticks plotly labels every ⌈r⌉-th power of ten; also numbers in between if r is at most 0.7.
    ticks: dict[str, Any] = {"nticks": max(3, min(math.ceil(decades), 4 if across else 6))}
    if 1 <= decades <= 2.1 and (across or not opening.plain):  # 2.1: two decades, and a little tolerance
        powers = range(math.floor(opening.low) - 1, math.ceil(opening.high) + 2)
        values = [factor * 10.0**power for power in powers for factor in (1, 3)]
        return ticks | {"tickvals": values, "ticktext": [short(value) for value in values]}
    return ticks | ({"tickformat": ",~r"} if opening.plain else {})


def hover_format(opening: Range, bound: Bound = "") -> str:
    """Return plotly's template that writes the y value under the cursor in a hover text."""
    digits = BOUND_DIGITS if bound else 3
    return f"%{{y:,.{digits}~r}}" if opening.plain else "%{y}"


def bounding(values: np.ndarray, bound: Bound) -> np.ndarray:
    """Return bounds rounded to BOUND_DIGITS digits, upper bounds up and lower bounds down; other values unchanged.

    A bound that exceeds a round number by no more than a rounding error becomes that number.
    """
    if not bound:
        return values
    size = np.where(np.isfinite(values) & (values != 0), np.abs(values), 1.0)
    unit = 10.0 ** (np.floor(np.log10(size)) - BOUND_DIGITS + 1)  # of the last digit
    counts, rounding_error = values / unit, 1e-9 * size / unit
    if bound == "upper":
        return np.asarray(unit * np.ceil(counts - rounding_error))
    return np.asarray(unit * np.floor(counts + rounding_error))
