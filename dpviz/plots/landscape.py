"""The objective in a plane of two public directions, as contours, with the positions of every method's runs."""

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
    """Return the objective of a problem over its first two coordinates, where the others are 0."""
    points = np.zeros((len(x) * len(y), problem.facts.d))
    points[:, 0], points[:, 1] = np.tile(x, len(y)), np.repeat(y, len(x))
    values = problem.evaluate({"x": points}, expensive=False)["objective"]
    return Background(x, y, values.reshape(len(y), len(x)))


@dataclass(frozen=True, eq=False)
class Cloud:
    """Positions of the runs of one method, (R, 2), and the path of the first of them, (k, 2)."""

    points: np.ndarray
    path: np.ndarray


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
    """Return a chart of the objective's contours over the first two coordinates, with the positions of every method's
    runs.

    None before the first step. what : name of the objective. Reads the raw data.
    """
    clouds = {
        label: Cloud(arm_trace.output["x"][:, :2], np.array(arm_trace.path["x"])[:, :2])
        for label, arm_trace in trace.lanes.items()
        if "x" in arm_trace.output and arm_trace.path.get("x")
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
    """Return a figure of the objective's contours, with a dot for every run of every method. Reads the raw data.

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
    cloud_traces = [
        _cloud(label, cloud, styles[label].color, _CLOUD[number % len(_CLOUD)], ends)
        for number, (label, cloud) in enumerate(clouds.items())
    ]
    traces += [trace for parts in cloud_traces for trace in parts[:-1]]
    traces += [parts[-1] for parts in cloud_traces]  # dots above all paths
    layout = style.layout(Axes(*directions), not_private=True, legend_entries=max(2, len(clouds)), height=height)
    above = {"x": 0, "y": 1, "yanchor": "bottom"}  # the frame: inside it, the text would be on the contours
    layout["annotations"] = [note | above for note in layout["annotations"]]
    layout["margin"] |= {"t": style.top_margin([""], directions[1])}
    layout["xaxis"] = axis(directions[0], False) | {"range": ends[0].tolist(), "zeroline": False}
    layout["yaxis"] = axis(directions[1], False) | {"range": ends[1].tolist(), "zeroline": False}
    return go.Figure({"data": traces, "layout": layout | {"hovermode": "closest"}})


def _cloud(label: str, cloud: Cloud, color: str, symbol: str, ends: np.ndarray) -> list[dict[str, Any]]:
    """Return a line for the path of the first run and a dot for every run; points outside the frame are drawn at its
    edge."""
    path, points = (np.clip(part, ends[:, 0], ends[:, 1]).astype(np.float32) for part in (cloud.path, cloud.points))
    common = {"type": "scatter", "legendgroup": label}
    line = common | {"mode": "lines", "x": path[:, 0], "y": path[:, 1], "showlegend": False, "hoverinfo": "skip"}
    edge = {"color": "#FFFFFF", "width": 1}
    return [
        line | {"line": {"color": "#FFFFFF", "width": 4}, "meta": AGAIN},
        line | {"line": {"color": color, "width": 1.5}, "name": f"{label}, way of the first run"},
        common
        | {"mode": "markers", "x": points[:, 0], "y": points[:, 1], "name": label, "showlegend": True}
        | {"marker": {"color": color, "symbol": symbol, "size": 10, "opacity": 0.9, "line": edge}}
        | {"hovertemplate": f"{label}: (%{{x:.3~r}}, %{{y:.3~r}})<extra></extra>"},
    ]
