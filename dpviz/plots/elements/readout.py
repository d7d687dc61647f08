"""What hovering reads off, where lines have values at different steps: at each step, those that have one there."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dpviz.plots.elements.axes import WRITE, Bound

READOUT = "readout"  # `meta` of the trace that holds the words; it draws nothing
MOST_PLACES = 300


class Values(NamedTuple):
    """What a line has to say: x (k,) ascending, y (k,) and the same as drawn, its name and unit, and its colour."""

    x: np.ndarray
    y: np.ndarray
    drawn: np.ndarray
    name: str
    unit: str
    color: str


def needed(lines: Sequence[Values]) -> bool:
    """Whether some line has no value at a step, between its ends, at which another one has.

    Plotly would name its nearest value there, which is of another step.
    """
    places = _places(lines)
    inside = ((places >= line.x[0]) & (places <= line.x[-1]) for line in lines)
    return any(inner.sum() > len(line.x) for inner, line in zip(inside, lines, strict=True))


def readout(lines: Sequence[Values], bound: Bound = "") -> dict[str, Any]:
    """A silent trace with the words for every step; at most 300 steps."""
    places = _places(lines)
    places = places[np.unique(np.linspace(0, len(places) - 1, min(len(places), MOST_PLACES)).round().astype(int))]
    words: list[list[str]] = [[] for _ in places]
    heights = np.empty(len(places), dtype=np.float32)
    for line in lines:
        _, here, own = np.intersect1d(places, line.x, return_indices=True)
        heights[here] = line.drawn[own]
        stroke = f"<b style='color:{line.color}'>━</b> {line.name}"
        for i, value in zip(here.tolist(), line.y[own].tolist(), strict=True):
            words[i].append(f"{stroke}: {WRITE[bound](value)} {line.unit}".rstrip())
    return {
        "type": "scatter",
        "mode": "markers",
        "x": places.astype(np.float32),
        "y": heights,
        "marker": {"opacity": 0},
        "text": ["<br>".join(entries) for entries in words],
        "hovertemplate": "%{text}<extra></extra>",
        "showlegend": False,
        "meta": READOUT,
    }


def _places(lines: Sequence[Values]) -> np.ndarray:
    return np.unique(np.concatenate([line.x for line in lines]))
