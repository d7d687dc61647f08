"""The chart of a lesson: what was, and what came of it, on axes that are there before the reader predicts."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from dpviz.experiments.lesson import Axes, Curve
from dpviz.plots.axes import axis, y_range
from dpviz.plots.lines import Line, line_figure
from dpviz.plots.style import DASHES, GREY, HUES, ArmStyle

ROOM = 30.0  # times above and below the known curves that a guess has on a log axis
HEIGHT = 400  # pixels


def told(before: Sequence[Curve], after: Sequence[Curve], names: tuple[str, str], axes: Axes) -> go.Figure:
    """The curves of both sides; those before in grey as soon as there is something to compare them with.

    after : none before they are shown. names : of the two sides.
    """
    lines = _lines(before, names[0], ghosts=bool(after)) + _lines(after, names[1], ghosts=False)
    return _figure(lines, axes)


def asked(before: Sequence[Curve], name: str, axes: Axes, reach: tuple[float, float]) -> go.Figure:
    """The curves before, on axes that have room for what comes after wherever it lies: they shall not say it.

    name : of the side. reach : both ends of the horizontal axis after.
    """
    lines = _lines(before, name, ghosts=False)
    figure = _figure(lines, axes, labels=False)
    ends = np.log10(reach) if axes.log_x else np.array(reach)
    figure.update_xaxes(range=ends.tolist(), uirevision=str(reach))
    values = np.concatenate([line.y[np.isfinite(line.y)] for line in lines] or [np.ones(1)])
    if axes.log_y:
        values = values[values > 0] if (values > 0).any() else np.ones(1)
        room = np.array([values.min() / ROOM, values.max() * ROOM])
    else:
        room = np.array([values.min(), values.max()]) + np.array([-1, 1]) * (np.ptp(values) or 1.0)
    figure.update_yaxes(axis(axes.y, axes.log_y, y_range(room, axes.log_y, False)))
    return figure


def _figure(lines: Sequence[Line], axes: Axes, labels: bool = True) -> go.Figure:
    return line_figure(
        lines,
        x_title=axes.x,
        y_title=axes.y,
        log_x=axes.log_x,
        log_y=axes.log_y,
        not_private=axes.diagnostic,
        labels=labels,
        height=HEIGHT,
    )


def _lines(curves: Sequence[Curve], name: str, ghosts: bool) -> list[Line]:
    found = []
    for place, curve in enumerate(curves):
        style = ArmStyle(GREY, DASHES[1]) if ghosts else ArmStyle(HUES[place % len(HUES)], DASHES[0])
        label = f"{curve.name}, {name}" if curve.name else name
        found.append(Line(curve.x, curve.y, label, style, low=curve.low, high=curve.high, band=not ghosts))
    return found
