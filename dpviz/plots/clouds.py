"""Runs as dots in a plane: contours of the objective with the positions of all runs, and animations of these positions,
packed into bytes for the browser."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.experiments.trace import Trace
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes, axis
from dpviz.plots.elements.chart import Chart
from dpviz.plots.elements.multiples import AGAIN
from dpviz.plots.elements.sheets import FixedAxis
from dpviz.plots.elements.style import ArmStyle
from dpviz.problems.base import Problem

# -------------------------------------------------------------------------------------------- the ground below the runs

GREYS = [[0.0, "#7C8594"], [0.5, "#B9C0CA"], [1.0, "#F1F3F6"]]  # low is dark; grey, so that every hue stands out
_SYMBOLS = ("circle", "x", "diamond", "square", "triangle-up", "cross")  # a marker for each method


@dataclass(frozen=True, eq=False)
class Ground:
    """The objective over two public directions, all other coordinates fixed, drawn below the runs.

    x, y : (k,) and (m,) coordinates of the grid. values : (m, k) the objective there.
    raw : True if it is computed from the data.
    """

    x: np.ndarray
    y: np.ndarray
    values: np.ndarray
    raw: bool = True


def objective_ground(problem: Problem, x: np.ndarray, y: np.ndarray) -> Ground:
    """Return the objective of a problem over its first two coordinates, where the others are 0."""
    points = np.zeros((len(x) * len(y), problem.facts.d))
    points[:, 0], points[:, 1] = np.tile(x, len(y)), np.repeat(y, len(x))
    values = problem.evaluate({"x": points}, expensive=False)["objective"]  # no costly metrics
    return Ground(x, y, values.reshape(len(y), len(x)))


@dataclass(frozen=True, eq=False)
class Cloud:
    """One method in the plane: the positions of all R runs now, (R, 2), and the path of the first run, (k, 2)."""

    points: np.ndarray
    path: np.ndarray


def landscape(
    trace: Trace,
    make_ground: Callable[[], Ground],
    styles: Mapping[str, ArmStyle],
    directions: tuple[str, str],
    *,
    objective_name: str,
    heading: str,
    caption: str,
) -> Chart | None:
    """Return a chart of the objective's contours over the first two coordinates, with the positions of every method's
    runs; None before the first step. It reads the raw data.

    make_ground : computes the objective; it is called only if there is something to draw.
    directions : titles of the two axes. objective_name : for the text alternative.
    """
    clouds = {
        label: Cloud(points=arm_trace.output["x"][:, :2], path=np.array(arm_trace.path["x"])[:, :2])
        for label, arm_trace in trace.arm_traces.items()
        if "x" in arm_trace.output and arm_trace.path.get("x")
    }
    if not clouds:
        return None
    ground = make_ground()
    ends = np.array([ground.x[[0, -1]], ground.y[[0, -1]]])
    positions = np.concatenate([xy for cloud in clouds.values() for xy in (cloud.path, cloud.points)])
    if ((positions < ends[:, 0]) | (positions > ends[:, 1])).any():
        caption = f"{caption} What is off the map is drawn at its edge."
    figure = contours(ground, clouds, styles, directions)
    return Chart(figure, heading, f"Contours of the {objective_name}, with a dot for every run", caption, "not private")


def contours(
    ground: Ground, clouds: Mapping[str, Cloud], styles: Mapping[str, ArmStyle], directions: tuple[str, str]
) -> go.Figure:
    """Return a figure of the objective's contours, with a dot for every run of every method, and the path of each
    method's first run. It reads the raw data.

    The objective is lowest where the ground is dark.
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
    all_paths, all_dots = [], []
    for number, (label, cloud) in enumerate(clouds.items()):
        *paths, dots = _cloud(label, cloud, styles[label].color, _SYMBOLS[number % len(_SYMBOLS)], ends)
        all_paths += paths
        all_dots.append(dots)
    traces += [*all_paths, *all_dots]  # dots are above all paths
    entries = max(2, len(clouds))  # `style.layout` has a legend from two entries on; one method needs it, too
    layout = style.layout(Axes(*directions), not_private=True, legend_entries=entries)
    above_frame = {"x": 0, "y": 1, "yanchor": "bottom"}  # inside it the text would be on the contours
    layout["annotations"] = [note | above_frame for note in layout["annotations"]]
    layout["margin"] |= {"t": style.top_margin([""], directions[1])}  # with one row, for the mark "not private"
    layout["xaxis"] = axis(directions[0], log=False) | {"range": ends[0].tolist(), "zeroline": False}
    layout["yaxis"] = axis(directions[1], log=False) | {"range": ends[1].tolist(), "zeroline": False}
    return go.Figure({"data": traces, "layout": layout | {"hovermode": "closest"}})


def _cloud(label: str, cloud: Cloud, color: str, symbol: str, ends: np.ndarray) -> list[dict[str, Any]]:
    """Return three traces: the path of the first run, as a coloured line on a wider white one, and a dot for every run.

    ends : (2, 2) ends of both axes; points outside the frame are drawn at its edge.
    """
    path, points = (np.clip(xy, ends[:, 0], ends[:, 1]).astype(np.float32) for xy in (cloud.path, cloud.points))
    common = {"type": "scatter", "legendgroup": label}
    line = common | {"mode": "lines", "x": path[:, 0], "y": path[:, 1], "showlegend": False, "hoverinfo": "skip"}
    edge = {"color": "#FFFFFF", "width": 1}
    return [
        line | {"line": {"color": "#FFFFFF", "width": 4}, "meta": AGAIN},  # tables of the curves leave it out
        line | {"line": {"color": color, "width": 1.5}, "name": f"{label}, way of the first run"},
        common
        | {"mode": "markers", "x": points[:, 0], "y": points[:, 1], "name": label, "showlegend": True}
        | {"marker": {"color": color, "symbol": symbol, "size": 10, "opacity": 0.9, "line": edge}}
        | {"hovertemplate": f"{label}: (%{{x:.3~r}}, %{{y:.3~r}})<extra></extra>"},
    ]


# ------------------------------------------------------------------------------------------------------- runs that move

MAX_STEPS, FIRST_STEPS = 60, 20  # largest number of steps in an animation; number of those that it begins with
SHAPE = 0.85  # height of a frame, as a share of its width
BANDS = 12  # number of colours of the ground, each of which covers an equal part of it
_VISIBLE = 0.99  # share of all positions inside the frame; the others are drawn at its edge
_ROOM = 0.08  # free space on either side, as a share of the range
_FULL = 32767  # the 16-bit number that is sent for a position at the edge of the frame
_FAR = 1e4  # largest number for an ellipse, in half frames; one that large is invisible anyway


@dataclass(frozen=True, eq=False)
class Walk:
    """The positions of all runs of one method at the k steps of an animation.

    points : (k, R, 2), finite positions of the R runs.
    last : last step that was recorded.
    reference_points, reference_label : (k, R', 2) positions of the runs of a method without privacy to compare with,
        and its label; R' = 0 and "" if there is none.
    region : centres and half axes, both (k, 2), of the ellipses that should hold about 90 % of the positions by theory.
    median, spent : (k,) texts for each step, the median of the animation's metric and the privacy spent so far; or
        empty.
    """

    label: str
    color: str
    points: np.ndarray
    last: int
    reference_points: np.ndarray
    reference_label: str
    region: tuple[np.ndarray, np.ndarray] | None = None
    median: Sequence[str] = ()
    spent: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Animation:
    """The runs of all methods at the same steps (k,), in the same frame.

    x, y : the axes. ground : the objective below the runs, if it is drawn.
    metric : name of the quantity in `Walk.median`; empty if there is none.
    corners : name and coordinates of the corners of a polygon whose sides are drawn; empty without one.
    """

    steps: np.ndarray
    walks: Sequence[Walk]
    x: FixedAxis
    y: FixedAxis
    metric: str = ""
    ground: Ground | None = None
    corners: Sequence[tuple[str, float, float]] = ()

    @property
    def raw(self) -> bool:
        """True if the ground is computed from the data."""
        return self.ground is not None and self.ground.raw


def timeline(recorded: Iterable[np.ndarray]) -> np.ndarray:
    """Return at most MAX_STEPS of the recorded steps for an animation, (k,): the first FIRST_STEPS, where most happens,
    then evenly spaced ones.

    recorded : the recorded steps of each method.
    """
    steps = np.unique(np.concatenate([np.zeros(0, dtype=int), *recorded]))
    if len(steps) <= MAX_STEPS:
        return steps
    first = steps[:FIRST_STEPS]
    even_positions = np.linspace(first[-1], steps[-1], MAX_STEPS - FIRST_STEPS + 1)  # from `first[-1]` itself on
    next_recorded = steps[np.searchsorted(steps, even_positions)]
    return np.unique([*first, *next_recorded])


def values_at_steps(iterations: np.ndarray, values: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return for each of the `steps` (k,) the latest recorded value up to it, (k, ...).

    So a run that has stopped stays where it is. Before the first record it is the first value.

    iterations, values : the records, (j,) ascending and (j, ...).
    """
    last_record = np.searchsorted(iterations, steps, side="right") - 1
    return np.asarray(values[np.maximum(last_record, 0)])


def axes_around(
    titles: tuple[str, str], clouds: Sequence[np.ndarray], corners: Sequence[tuple[str, float, float]] = ()
) -> tuple[FixedAxis, FixedAxis]:
    """Return both axes of an animation, which show nearly all positions in `clouds`, each (..., 2).

    corners : of a polygon, which the axes then show instead, without distortion.
    """
    if corners:  # a unit has the same length on the screen along both axes
        points = np.array([point for _, *point in corners])
        low, high = points.min(axis=0), points.max(axis=0)
        (x, y), half = (low + high) / 2, (high - low) / 2  # the middle, and half the size
        half_width = (1 + 2 * _ROOM) * max(half[0], half[1] / SHAPE)
        half_height = SHAPE * half_width
        return (
            FixedAxis(titles[0], float(x - half_width), float(x + half_width), log=False),
            FixedAxis(titles[1], float(y - half_height), float(y + half_height), log=False),
        )
    points = np.concatenate([cloud.reshape(-1, 2) for cloud in clouds])
    axes = []
    for title, values in zip(titles, points.T, strict=True):
        low, high = np.quantile(values.astype(float), [(1 - _VISIBLE) / 2, (1 + _VISIBLE) / 2])
        width = (high - low) or abs(high) or 1.0  # where all are equal: their size, or 1 if that is 0
        axes.append(FixedAxis(title, float(low - _ROOM * width), float(high + _ROOM * width), log=False))
    return axes[0], axes[1]


def axes_of_ground(titles: tuple[str, str], ground: Ground) -> tuple[FixedAxis, FixedAxis]:
    """Return both axes of an animation over a ground, all of which they show."""
    x_title, y_title = titles
    x = FixedAxis(x_title, float(ground.x[0]), float(ground.x[-1]), log=False)
    y = FixedAxis(y_title, float(ground.y[0]), float(ground.y[-1]), log=False)
    return x, y


def animation_bytes(animation: Animation, mark: str, scale: float = 1.0) -> bytes:
    """Return an animation as bytes for the browser: the length of the head in 4 bytes, the head as JSON, then arrays of
    16-bit integers, all little-endian.

    The arrays are, for each method in the order of the head, the positions of its runs and those of the runs without
    privacy, from -32767 at one edge of the frame to 32767 at the other; positions beyond are at the edge. The last
    array is the ground: the band of each point, from 0 to 32767 for band 0 to BANDS.

    mark : colour of the mark "not private". scale : factor by which type and dots are enlarged.
    """
    arrays, walks = [], []
    for walk in animation.walks:
        arrays += [_integers(animation, walk.points), _integers(animation, walk.reference_points)]
        walks.append(
            {
                "label": walk.label,
                "color": walk.color,
                "last": walk.last,
                "runs": walk.points.shape[1],
                "plain": walk.reference_points.shape[1],  # runs of the reference
                "without": walk.reference_label,
                "region": None if walk.region is None else _region(animation, *walk.region),
                "median": list(walk.median),
                "spent": list(walk.spent),
            }
        )
    if animation.ground is not None:
        values = animation.ground.values
        # The edges of bands are quantiles of the values, so that every band covers an equal part of the ground.
        edges = np.quantile(values, np.linspace(0, 1, BANDS + 1))
        edges = np.maximum.accumulate(edges)  # equal edges may descend by a rounding error
        levels = np.interp(values, edges, np.arange(BANDS + 1))  # with fractions between the bands
        arrays.append(np.rint(levels / BANDS * _FULL).astype("<i2"))
    head = {
        "steps": animation.steps.tolist(),
        "walks": walks,
        "metric": animation.metric,
        "x": _axis(animation.x),
        "y": _axis(animation.y),
        "ground": None if animation.ground is None else {"shape": list(animation.ground.values.shape), "bands": BANDS},
        "corners": [[name, *_relative(animation, np.array(xy)).round(4).tolist()] for name, *xy in animation.corners],
        "raw": animation.raw,
        "mark": mark,
        "shape": SHAPE,
        "scale": scale,
    }
    packed_head = json.dumps(head, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    # So that the arrays begin at an even byte, as the browser's views of them must; 4 is a choice.
    packed_head += b" " * (-len(packed_head) % 4)
    return b"".join([len(packed_head).to_bytes(4, "little"), packed_head, *(part.tobytes() for part in arrays)])


def _axis(axis: FixedAxis) -> dict[str, object]:
    """Return an axis as the browser draws it: its title, and texts of ticks with their positions."""
    return {"title": axis.title, "ticks": axis.ticks}


def _relative(animation: Animation, points: np.ndarray) -> np.ndarray:
    """Return positions (..., 2) in half frames: from -1 to 1 along both axes, and farther outside the frame."""
    low, high = np.array([animation.x.low, animation.y.low]), np.array([animation.x.high, animation.y.high])
    return np.asarray((2 * points.astype(float) - low - high) / (high - low))


def _integers(animation: Animation, points: np.ndarray) -> np.ndarray:
    """Return positions (..., 2) as 16-bit integers, from -_FULL to _FULL from edge to edge of the frame."""
    return np.rint(np.clip(_relative(animation, points), -1.0, 1.0) * _FULL).astype("<i2")


def _region(animation: Animation, centres: np.ndarray, half_axes: np.ndarray) -> list[list[float]]:
    """Return for each ellipse [centre x, centre y, half axis x, half axis y], in half frames, as `_relative`."""
    half = np.array([animation.x.high - animation.x.low, animation.y.high - animation.y.low]) / 2
    ellipses = np.concatenate([_relative(animation, centres), half_axes / half], axis=1)
    return [[round(number, 4) for number in row] for row in np.clip(ellipses, -_FAR, _FAR).tolist()]
