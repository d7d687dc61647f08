"""Parts that some figures add to lines: marks on a curve, areas, limits of bars, error bars."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.numbers import short
from dpviz.plots.elements import style
from dpviz.plots.elements.lines import FLOOR, LIMIT, Mark


def on_curve(x: np.ndarray, y: np.ndarray, values: Mapping[str, float], color: str) -> list[Mark]:
    """Return labelled marks on a curve of positive numbers (k,), x ascending, at x = `values` by name, where it has
    any."""
    names_at: dict[float, list[str]] = {}
    for name, value in values.items():
        if x[0] <= value <= x[-1]:
            names_at.setdefault(float(value), []).append(name)
    marks: list[Mark] = []
    for value, names in sorted(names_at.items()):
        height = float(np.exp(np.interp(math.log(value), np.log(x), np.log(np.maximum(y, FLOOR)))))
        text = f"{' = '.join(names)} {short(value)}"
        is_falling = np.interp(1.05 * value, x, y) <= np.interp(value, x, y)  # the text is on the side with room
        side = "top right" if is_falling else "bottom right" if marks else "top left"
        marks.append(Mark(value, height, text, color, text, side))
    return marks


def area(
    x: np.ndarray, y: np.ndarray, name: str, color: str, pattern: str, *, group: str, digits: int = 4
) -> dict[str, Any]:
    """Return the trace of one area of a stacked group; a pattern marks it, too, not only colour. digits : of the
    hover text."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y.astype(np.float32),
        "name": name,
        "stackgroup": group,
        "line": {"color": color, "width": 1},
        "fillcolor": style.with_opacity(color, 0.5),
        "fillpattern": {"shape": pattern, "fillmode": "overlay", "fgcolor": color, "size": 6, "solidity": 0.2},
        "hovertemplate": f"%{{y:,.{digits}~r}}",
    }


def limit_across(x: float) -> dict[str, Any]:
    """Return the shape of a limit of horizontal bars or other horizontal lengths."""
    line = {"type": "line", "xref": "x", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1}
    return line | {"line": LIMIT}


def show_errors(figure: go.Figure, name: str, mean: np.ndarray, error: np.ndarray) -> None:
    """Draw the measured values (k,) of the line `name` as markers with bars of two standard errors; in place.

    Bars are cut where they would reach 0, which a log axis does not have.
    """
    below = np.minimum(2 * error, 0.99 * mean).astype(np.float32)
    bars = {"type": "data", "symmetric": False, "array": (2 * error).astype(np.float32), "arrayminus": below}
    figure.update_traces({"mode": "markers", "error_y": bars}, selector={"name": name})
