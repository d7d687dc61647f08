"""A sheet on which a reader draws a curve by moving handles: axes, a known curve, and the handles.

Positions are shares of the frame, from 0 at its left or lower edge to 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpviz.numbers import short
from dpviz.plots.elements.axes import Range


@dataclass(frozen=True)
class FixedAxis:
    """One axis: its title, and the numbers at both ends, which are powers of ten (exponents) if `log` is True."""

    title: str
    low: float
    high: float
    log: bool

    @classmethod
    def of(cls, title: str, opening: Range) -> "FixedAxis":
        """Return the axis with this title that shows the range `opening`."""
        return cls(title, opening.low, opening.high, opening.log)

    def place(self, values: np.ndarray) -> np.ndarray:
        """Return the positions of values as shares of the axis; those of values beyond its ends are 0 or 1."""
        scaled = np.log10(np.maximum(values, 1e-300)) if self.log else values  # 0 has no logarithm
        return np.clip((scaled - self.low) / (self.high - self.low), 0.0, 1.0)

    def value(self, shares: np.ndarray) -> np.ndarray:
        """Return the values at positions that are given as shares of the axis: the inverse of `place`."""
        scaled = self.low + np.asarray(shares) * (self.high - self.low)
        return 10.0**scaled if self.log else scaled

    @cached_property
    def ticks(self) -> list[tuple[float, str]]:
        """Pairs (position, text) of round numbers on the axis, ends within a rounding error included; positions are
        shares of the axis."""
        if self.log:
            values = 10.0 ** np.arange(np.ceil(self.low - 1e-9), np.floor(self.high + 1e-9) + 1)
        else:
            span = self.high - self.low
            power = 10.0 ** np.floor(np.log10(span))
            # The smallest of these steps that fits the span at most six times, as the last always does: span < 10 power
            step = power * next(share for share in (0.2, 0.5, 1.0, 2.0) if span / (share * power) <= 6)
            values = np.arange(np.ceil(self.low / step - 1e-9), np.floor(self.high / step + 1e-9) + 1)
            values = values * step + 0.0  # no -0
        return [(float(share), short(value)) for share, value in zip(self.place(values), values, strict=True)]


@dataclass(frozen=True)
class Sheet:
    """A sheet to draw on; all positions are shares of the frame.

    known : points of the known curve.
    start : first point of the drawn curve; None if that begins at the first handle.
    handles : horizontal positions of the handles, which the reader moves up and down.
    height : height of the figure in pixels. margin : pixels to the right of the frame, where the screen is wide.
    """

    x: FixedAxis
    y: FixedAxis
    known: list[tuple[float, float]]
    start: tuple[float, float] | None
    handles: tuple[float, ...]
    height: int
    margin: int

    @property
    def handle_texts(self) -> list[str]:
        """Values of the horizontal axis at the handles, as texts."""
        return [short(value, 2) for value in self.x.value(np.array(self.handles))]

    def curve(self, heights: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
        """Return x and y of the drawn curve, in the units of the axes: its start, if it has one, and the k handles.

        heights : (k,) heights of the handles, as shares of the frame.
        """
        across, up = np.array(self.handles), np.array(heights)
        if self.start is not None:
            across, up = np.array([self.start[0], *across]), np.array([self.start[1], *up])
        return self.x.value(across), self.y.value(up)
