"""The objective in a plane of two public directions, as contours, and on it where the runs of every method are."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.experiments.trace import Trace
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes, axis
from dpviz.plots.elements.chart import Chart
from dpviz.plots.elements.multiples import AGAIN
from dpviz.plots.elements.style import ArmStyle
from dpviz.problems.base import Problem

GREYS = [[0.0, "#7C8594"], [0.5, "#B9C0CA"], [1.0, "#F1F3F6"]]  # low is dark; grey, so that every hue stands out
_CLOUD = ("circle", "x", "diamond", "square", "triangle-up", "cross")  # a marker for each method


@dataclass(frozen=True, eq=False)
class Background:
    """The objective on a grid of two public directions, all other coordinates fixed: x (k,), y (m,), values (m, k).

    raw : whether it is computed from the data.
    """

    x: np.ndarray
    y: np.ndarray
    values: np.ndarray
    raw: bool = True


def evaluated(problem: Problem, x: np.ndarray, y: np.ndarray) -> Background:
    """The objective of a problem over its first two coordinates, where the others are 0."""
    places = np.zeros((len(x) * len(y), problem.facts.d))
    places[:, 0], places[:, 1] = np.tile(x, len(y)), np.repeat(y, len(x))
    values = problem.evaluate({"x": places}, expensive=False)["objective"]
    return Background(x, y, values.reshape(len(y), len(x)))


@dataclass(frozen=True, eq=False)
class Cloud:
    """Where the runs of one method are, (R, 2), and the way of the first of them, (k, 2)."""

    places: np.ndarray
    way: np.ndarray


def landscape(
    trace: Trace,
    background: Callable[[], Background],
    styles: Mapping[str, ArmStyle],
    directions: tuple[str, str],
    *,
    what: str,
    heading: str,
    caption: str,
) -> Chart | None:
    """Contours of what is minimised, called `what`, over the first two coordinates, and where the runs of every method
    are; None before the first step. Reads the raw data."""
    clouds = {
        label: Cloud(lane.output["x"][:, :2], np.array(lane.path["x"])[:, :2])
        for label, lane in trace.lanes.items()
        if "x" in lane.output and lane.path.get("x")
    }
    if not clouds:
        return None
    figure = contours(background(), clouds, styles, directions)
    return Chart(figure, heading, f"Contours of the {what}, with a dot for every run", caption, "not private")


def contours(
    ground: Background,
    clouds: Mapping[str, Cloud],
    styles: Mapping[str, ArmStyle],
    directions: tuple[str, str],
    *,
    height: int = style.HEIGHT,
) -> go.Figure:
    """Contours of the objective, and on them a dot for every run of every method. Reads the raw data.

    The objective is lowest where it is dark; the start is marked.
    """
    ends = np.array([ground.x[[0, -1]], ground.y[[0, -1]]])
    traces: list[dict[str, Any]] = [
        {
            "type": "contour",
            "x": ground.x.astype(np.float32),
            "y": ground.y.astype(np.float32),
            "z": ground.values.astype(np.float32),
            "colorscale": GREYS,
            "showscale": False,
            "showlegend": False,
            "ncontours": 24,
            "line": {"width": 0.5},
            "opacity": 0.75,
            "hovertemplate": "f = %{z:.4~r}<extra></extra>",
        }
    ]
    drawn = [
        _cloud(label, cloud, styles[label].color, _CLOUD[number % len(_CLOUD)], ends)
        for number, (label, cloud) in enumerate(clouds.items())
    ]
    traces += [trace for parts in drawn for trace in parts[:-1]] + [parts[-1] for parts in drawn]  # dots above all ways
    layout = style.layout(Axes(*directions), not_private=True, legend_entries=max(2, len(clouds)), height=height)
    above = {"x": 0, "y": 1, "yanchor": "bottom"}  # the frame: inside it, words would stand on the contours
    layout["annotations"] = [note | above for note in layout["annotations"]]
    layout["margin"] |= {"t": style.top_margin([""], directions[1])}
    layout["xaxis"] = axis(directions[0], False) | {"range": ends[0].tolist(), "zeroline": False}
    layout["yaxis"] = axis(directions[1], False) | {"range": ends[1].tolist(), "zeroline": False}
    return go.Figure({"data": traces, "layout": layout | {"hovermode": "closest"}})


def _cloud(label: str, cloud: Cloud, color: str, symbol: str, ends: np.ndarray) -> list[dict[str, Any]]:
    """A line for the way of the first run and a dot for every run; what has left the picture is drawn at its edge."""
    way, places = (np.clip(points, ends[:, 0], ends[:, 1]).astype(np.float32) for points in (cloud.way, cloud.places))
    common = {"type": "scatter", "legendgroup": label}
    line = common | {"mode": "lines", "x": way[:, 0], "y": way[:, 1], "showlegend": False, "hoverinfo": "skip"}
    edge = {"color": "#FFFFFF", "width": 1}
    return [
        line | {"line": {"color": "#FFFFFF", "width": 4}, "meta": AGAIN},
        line | {"line": {"color": color, "width": 1.5}, "name": f"{label}, way of the first run"},
        common
        | {"mode": "markers", "x": places[:, 0], "y": places[:, 1], "name": label, "showlegend": True}
        | {"marker": {"color": color, "symbol": symbol, "size": 10, "opacity": 0.9, "line": edge}}
        | {"hovertemplate": f"{label}: (%{{x:.3~r}}, %{{y:.3~r}})<extra></extra>"},
    ]
