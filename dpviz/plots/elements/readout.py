"""Hover texts of a figure whose lines have values at different steps: at each step, all lines that have a value there.

Plotly by itself would show, for the other lines, the nearest value, which belongs to another step.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dpviz.plots.elements.axes import WRITE, Bound

READOUT = "readout"  # `meta` of the trace that holds the hover texts; it draws nothing
MAX_STEPS = 300  # largest number of steps with a hover text


class Values(NamedTuple):
    """Values of a line: x (k,) ascending, y (k,), `heights` (k,) the heights at which they are drawn, and its texts."""

    x: np.ndarray
    y: np.ndarray
    heights: np.ndarray
    name: str
    unit: str
    color: str


def needs_readout(lines: Sequence[Values]) -> bool:
    """Return whether, between the ends of some line, another line has a value at a step where that line has none."""
    steps = _all_steps(lines)
    for line in lines:
        is_between_ends = (steps >= line.x[0]) & (steps <= line.x[-1])
        if is_between_ends.sum() > len(line.x):
            return True
    return False


def readout(lines: Sequence[Values], bound: Bound = "") -> dict[str, Any]:
    """Return an invisible trace with the hover texts of all lines, for at most MAX_STEPS steps."""
    steps = _all_steps(lines)
    evenly_spaced = np.linspace(0, len(steps) - 1, min(len(steps), MAX_STEPS)).round().astype(int)  # indices
    steps = steps[np.unique(evenly_spaced)]
    texts: list[list[str]] = [[] for _ in steps]
    heights = np.empty(len(steps), dtype=np.float32)
    for line in lines:
        _, indices, line_indices = np.intersect1d(steps, line.x, return_indices=True)
        heights[indices] = line.heights[line_indices]  # the last of several lines at a step counts
        stroke = f"<b style='color:{line.color}'>━</b> {line.name}"
        for i, value in zip(indices.tolist(), line.y[line_indices].tolist(), strict=True):
            texts[i].append(f"{stroke}: {WRITE[bound](value)} {line.unit}".rstrip())
    return {
        "type": "scatter",
        "mode": "markers",
        "x": steps.astype(np.float32),
        "y": heights,
        "marker": {"opacity": 0},
        "text": ["<br>".join(entries) for entries in texts],
        "hovertemplate": "%{text}<extra></extra>",
        "showlegend": False,
        "meta": READOUT,
    }


def _all_steps(lines: Sequence[Values]) -> np.ndarray:
    """Return the x at which any of the lines has a value, ascending, each once."""
    return np.unique(np.concatenate([line.x for line in lines]))
