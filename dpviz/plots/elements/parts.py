"""Parts that some figures add to lines: marks on a curve, areas, limits to bars, bars of errors."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.numbers import short
from dpviz.plots.elements import style
from dpviz.plots.elements.lines import FLOOR, LIMIT, Mark


def on_curve(x: np.ndarray, y: np.ndarray, places: Mapping[str, float], color: str) -> list[Mark]:
    """Marks with labels on a curve of positive numbers (k,), x ascending, at places by name: those that it reaches."""
    named: dict[float, list[str]] = {}
    for name, place in places.items():
        if x[0] <= place <= x[-1]:
            named.setdefault(float(place), []).append(name)
    found: list[Mark] = []
    for place, names in sorted(named.items()):
        height = float(np.exp(np.interp(math.log(place), np.log(x), np.log(np.maximum(y, FLOOR)))))
        text = f"{' = '.join(names)} {short(place)}"
        falling = np.interp(1.05 * place, x, y) <= np.interp(place, x, y)  # where the curve leaves room for words
        side = "top right" if falling else "bottom right" if found else "top left"
        found.append(Mark(place, height, text, color, text, side))
    return found


def area(
    x: np.ndarray, y: np.ndarray, name: str, color: str, pattern: str, *, group: str, digits: int = 4
) -> dict[str, Any]:
    """The trace of one of the areas of a group that are stacked; colour is never alone. digits : of the hover text."""
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
    """The shape of a limit to what runs along the horizontal axis, such as bars."""
    place = {"type": "line", "xref": "x", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1}
    return place | {"line": LIMIT}


def show_errors(figure: go.Figure, name: str, mean: np.ndarray, error: np.ndarray) -> None:
    """Draw the measured values (k,) of the line of this name as markers with bars of two standard errors, cut where
    they would reach 0, which has no place on a log axis; in place."""
    below = np.minimum(2 * error, 0.99 * mean).astype(np.float32)
    bars = {"type": "data", "symmetric": False, "array": (2 * error).astype(np.float32), "arrayminus": below}
    figure.update_traces({"mode": "markers", "error_y": bars}, selector={"name": name})
