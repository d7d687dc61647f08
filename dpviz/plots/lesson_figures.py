"""The charts of a lesson: the curves before and after a change of settings.

The reader first predicts the curves after the change by drawing one, on axes that must not give the answer away.
"""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from dpviz.lessons.lesson import Axes, Curve
from dpviz.plots.elements.axes import Axes as FigureAxes
from dpviz.plots.elements.axes import Range, axis, y_range
from dpviz.plots.elements.lines import Line, line_figure
from dpviz.plots.elements.sheets import Ruler, Sheet
from dpviz.plots.elements.style import DASHES, GREY, HUES, PALETTE, ArmStyle

ROOM = 120.0  # factor above and below the known curves on a log axis: more than any answer needs
HANDLES = 6  # handles of the curve that the reader draws
HEIGHT = 400  # pixels


def told(
    before: Sequence[Curve], after: Sequence[Curve], names: tuple[str, str], axes: Axes, guess: Curve | None = None
) -> go.Figure:
    """Return the figure of the answer: the curves before the change, in grey, and after it, in colour.

    after : empty while the answer is hidden; then the curves before the change are in colour.
    names : names of the two sides.
    guess : the curve that the reader has drawn, if there is one.
    """
    lines = _lines(before, names[0], is_faint=bool(after)) + _lines(after, names[1], is_faint=False)
    if guess is not None:
        lines.append(Line(guess.x, guess.y, guess.name, ArmStyle(PALETTE["second"], DASHES[2])))
    return _figure(lines, axes)


def asked(before: Sequence[Curve], name: str, axes: Axes, reach: tuple[float, float]) -> go.Figure:
    """Return the figure of the question: the curves before the change, with so much room on all sides that the axes do
    not reveal the curves after it.

    name : name of the side. reach : both ends of the horizontal axis, which fits the curves after the change, too.
    """
    figure = _figure(_lines(before, name, is_faint=False), axes, labels=False)
    figure.update_xaxes(range=_ends(axes, reach), uirevision=str(reach))
    figure.update_yaxes(axis(axes.y, axes.log_y, _room(before, axes)))
    return figure


def sheet(before: Sequence[Curve], axes: Axes, reach: tuple[float, float]) -> Sheet:
    """Return the sheet on which the reader draws the predicted curve: the axes of `asked`, the first known curve, and
    equally spaced handles. The drawn curve starts where the known one does."""
    x, y = Ruler(axes.x, *_ends(axes, reach), axes.log_x), Ruler.of(axes.y, _room(before, axes))
    known = before[0]
    points = list(zip(x.place(known.x).tolist(), y.place(known.y).tolist(), strict=True))
    handles = tuple((np.arange(1, HANDLES + 1) / HANDLES).tolist())
    return Sheet(x, y, points, points[0], handles, HEIGHT)


def _ends(axes: Axes, reach: tuple[float, float]) -> tuple[float, float]:
    """Return the ends of the horizontal axis, as powers of ten if it is logarithmic."""
    low, high = np.log10(reach).tolist() if axes.log_x else reach
    return low, high


def _room(curves: Sequence[Curve], axes: Axes) -> Range:
    """Return a range of the vertical axis with room above and below the curves.

    A log axis has the factor ROOM on both sides. A linear axis has the height of the curves on both sides, and contains
    zero, as a curve may fall to it.
    """
    values = np.concatenate([curve.y[np.isfinite(curve.y)] for curve in curves] or [np.ones(1)])
    if axes.log_y:
        values = values[values > 0] if (values > 0).any() else np.ones(1)
        return y_range(np.array([values.min() / ROOM, values.max() * ROOM]), True, False)
    room = np.ptp(values) or 1.0
    return y_range(np.array([min(0.0, values.min() - room), max(0.0, values.max() + room)]), False, False)


def _figure(lines: Sequence[Line], axes: Axes, labels: bool = True) -> go.Figure:
    """Return a figure of lines on the axes of a lesson."""
    return line_figure(
        lines,
        FigureAxes(axes.x, axes.y, log_x=axes.log_x, log_y=axes.log_y),
        not_private=axes.diagnostic,
        labels=labels,
        height=HEIGHT,
    )


def _lines(curves: Sequence[Curve], name: str, is_faint: bool) -> list[Line]:
    """Return the lines of one side of the lesson, called `name`: grey, dashed and without bands if `is_faint`."""
    lines = []
    for index, curve in enumerate(curves):
        style = (
            ArmStyle(GREY, DASHES[1 + index % (len(DASHES) - 1)])
            if is_faint
            else ArmStyle(HUES[index % len(HUES)], DASHES[0])
        )
        label = f"{curve.name}, {name}" if curve.name else name
        lines.append(Line(curve.x, curve.y, label, style, low=curve.low, high=curve.high, band=not is_faint))
    return lines
