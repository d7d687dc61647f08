"""Axes: what range they open with, how their ticks are written, when a kept zoom no longer fits the data."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpviz.numbers import LARGEST, SMALLEST

_PADDING = 0.05  # of the range, on either side


@dataclass(frozen=True)
class Range:
    """The part of an axis that a figure opens with; on a log axis in powers of ten."""

    low: float
    high: float
    log: bool

    def place(self, value: float) -> float:
        """Where a value lies: 0 at the lower end, 1 at the upper one."""
        at = math.log10(max(value, 1e-300)) if self.log else value
        return (at - self.low) / (self.high - self.low)

    @property
    def plain(self) -> bool:
        """Whether all its numbers are written without an exponent; on a log axis, all powers of ten on it."""
        if self.log:
            return math.ceil(self.low) >= SMALLEST and math.floor(self.high) <= LARGEST
        return max(abs(self.low), abs(self.high)) < 10.0**LARGEST


def y_range(values: np.ndarray, log: bool, from_zero: bool, above: float = 0.0) -> Range:
    """The range that shows all values, a little room beside them, and `above` of the height above the highest."""
    if log:
        values = np.log10(values[values > 0]) if (values > 0).any() else np.zeros(1)
    low, high = float(values.min()), float(values.max())
    if from_zero and not log:
        low = min(low, 0.0)
    width = (high - low) or (0.2 if log else abs(high) or 1.0)
    start = low if from_zero and low == 0.0 else low - _PADDING * width
    return Range(start, high + (_PADDING + above / (1 - above)) * width, log)


def axis(title: str, log: bool, shown: Range | None = None) -> dict[str, Any]:
    """An axis. With a range, a zoom is kept until the data are others; numbers are written as in `numbers.short`."""
    found: dict[str, Any] = {
        "title": {"text": title},
        "type": "log" if log else "linear",
        "separatethousands": True,
        "exponentformat": "power",
        "minexponent": LARGEST - 1,
    }
    if log:
        # At first and after zooming: powers of ten from three decades on, 1-2-5 from one on, even steps below.
        decades = math.inf if shown is None else shown.high - shown.low
        found |= {"nticks": 3 if decades < 1.3 else 4, "minor": {"dtick": "D1", "ticks": "outside", "ticklen": 3}}
        if shown is None or shown.plain:
            found["tickformat"] = ",~r"
    if shown is not None:
        ends = [shown.low, shown.high]
        found |= {"range": ends, "uirevision": f"{shown.low:.4g} {shown.high:.4g}"}
    return found


def hover_format(shown: Range) -> str:
    """How the value under the cursor is written."""
    return "%{y:,.4~r}" if shown.plain else "%{y}"
