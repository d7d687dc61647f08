"""A sheet on which a reader draws a curve: axes, what is known, and where the handles are, as shares of the frame."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpviz.numbers import short
from dpviz.plots.elements.axes import Range


@dataclass(frozen=True)
class Ruler:
    """One axis: its title, and both ends, in powers of ten if it is logarithmic."""

    title: str
    low: float
    high: float
    log: bool

    @classmethod
    def of(cls, title: str, shown: Range) -> "Ruler":
        """The axis that opens with this range."""
        return cls(title, shown.low, shown.high, shown.log)

    def place(self, values: np.ndarray) -> np.ndarray:
        """Where values lie, from 0 to 1."""
        at = np.log10(np.maximum(values, 1e-300)) if self.log else values
        return np.clip((at - self.low) / (self.high - self.low), 0.0, 1.0)

    def value(self, places: np.ndarray) -> np.ndarray:
        """What places stand for."""
        at = self.low + np.asarray(places) * (self.high - self.low)
        return 10.0**at if self.log else at

    @cached_property
    def ticks(self) -> list[tuple[float, str]]:
        """Round numbers with their places."""
        if self.log:
            values = 10.0 ** np.arange(np.ceil(self.low - 1e-9), np.floor(self.high + 1e-9) + 1)
        else:
            span = self.high - self.low
            step = 10.0 ** np.floor(np.log10(span))
            step *= next(share for share in (0.2, 0.5, 1.0, 2.0) if span / (share * step) <= 6)
            values = np.arange(np.ceil(self.low / step), np.floor(self.high / step + 1e-9) + 1) * step + 0.0  # no -0
        return [(float(place), short(value)) for place, value in zip(self.place(values), values, strict=True)]


@dataclass(frozen=True)
class Sheet:
    """What is drawn on. known : points of the curve that is known; start : where the drawn one begins, if that is not
    at its first handle.

    handles : where the handles stand along the horizontal axis. height : pixels.
    """

    x: Ruler
    y: Ruler
    known: list[tuple[float, float]]
    start: tuple[float, float] | None
    handles: tuple[float, ...]
    height: int

    @property
    def handle_texts(self) -> list[str]:
        """What the places of the handles stand for."""
        return [short(value, 2) for value in self.x.value(np.array(self.handles))]

    def drawn(self, places: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
        """The drawn curve, from its start to the last handle: x and y (k + 1,)."""
        across, up = np.array(self.handles), np.array(places)
        if self.start is not None:
            across, up = np.array([self.start[0], *across]), np.array([self.start[1], *up])
        return self.x.value(across), self.y.value(up)
