"""The charts of a lesson: the curves before and after a change of settings.

The axes are the same in all steps: a lesson declares them, with room for more than what comes, so that they do not give
the answer away.
"""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from dpviz.lessons.lesson import Curve, Frame, LessonAxes
from dpviz.plots.elements.axes import Axes, Range
from dpviz.plots.elements.labels import label_lines, margin_width
from dpviz.plots.elements.lines import Line, line_figure
from dpviz.plots.elements.sheets import FixedAxis, Sheet
from dpviz.plots.elements.style import DASHES, GREY, HUES, PALETTE, ArmStyle

HANDLES = 6  # handles of the curve that the reader draws


def before_and_after(
    before: Sequence[Curve],
    after: Sequence[Curve],
    names: tuple[str, str],
    axes: LessonAxes,
    frame: Frame,
    guess: Curve | None = None,
) -> go.Figure:
    """Return the figure of the curves before the change and, once they may be seen, after it.

    after : empty while the answer is hidden; then the curves before the change are in colour, else in grey.
    names : names of the two sides. frame : ends of the horizontal and of the vertical axis.
    guess : the curve that the reader has drawn, if there is one.
    """
    lines = _lines(before, names[0], is_faint=bool(after)) + _lines(after, names[1], is_faint=False)
    if guess is not None:
        lines.append(Line(guess.x, guess.y, guess.name, ArmStyle(PALETTE["second"], DASHES[2])))
    figure = line_figure(
        lines,
        Axes(axes.x, axes.y, log_x=axes.log_x, log_y=axes.log_y),
        not_private=axes.diagnostic,  # true if the curves read the raw data
        height=axes.height,
        ranges=_ranges(axes, frame),
    )
    figure.layout.margin.r = max(figure.layout.margin.r, _margin(before, names))
    return figure


def noise(
    before: Sequence[Curve], after: Sequence[Curve], names: tuple[str, str], x_ends: tuple[float, float], reveal: bool
) -> go.Figure:
    """Return the figure of the noise scale in each step, to be drawn below the figure of `before_and_after`, with the
    same horizontal axis.

    x_ends : of the horizontal axis. reveal : false to draw the curves before the change only.
    """
    scales = np.concatenate([curve.y for curve in (*before, *after)])
    frame = x_ends, (float(scales.min()) / 4, float(scales.max()) * 4)  # 4: free space on the log axis
    axes = LessonAxes("Step t", "Noise scale in step t", height=160)
    return before_and_after(before, after if reveal else (), names, axes, frame)


def sheet(before: Sequence[Curve], names: tuple[str, str], axes: LessonAxes, frame: Frame) -> Sheet:
    """Return the sheet on which the reader draws the predicted curve: the axes of `before_and_after`, the first known
    curve, and equally spaced handles. The drawn curve starts where the known one does."""
    x_range, y_range = _ranges(axes, frame)
    x, y = FixedAxis.of(axes.x, x_range), FixedAxis.of(axes.y, y_range)
    known_curve = before[0]
    points = list(zip(x.place(known_curve.x).tolist(), y.place(known_curve.y).tolist(), strict=True))
    handles = tuple((np.arange(1, HANDLES + 1) / HANDLES).tolist())
    margin = _margin(before, names)
    return Sheet(x, y, known=points, start=points[0], handles=handles, height=axes.height, margin=margin)


def _margin(before: Sequence[Curve], names: tuple[str, str]) -> int:
    """Return the pixels for labels to the right of the frame, as many in all steps so that the axes do not move."""
    number = "0.0123"  # as wide as most numbers
    labels = [_label(curve, name) for curve in before for name in names]
    return margin_width([line for label in labels for line in label_lines(label, number)])


def _ranges(axes: LessonAxes, frame: Frame) -> tuple[Range, Range]:
    """Return the ranges of the horizontal and of the vertical axis, whose ends are exponents of ten on a log axis."""
    x_ends, y_ends = frame
    left, right = np.log10(x_ends).tolist() if axes.log_x else x_ends
    low, high = np.log10(y_ends).tolist() if axes.log_y else y_ends
    return Range(left, right, axes.log_x), Range(low, high, axes.log_y)


def _lines(curves: Sequence[Curve], name: str, is_faint: bool) -> list[Line]:
    """Return the lines of one side of the lesson, called `name`: grey, dashed and without bands if `is_faint`."""
    lines = []
    for index, curve in enumerate(curves):
        style = ArmStyle(HUES[index % len(HUES)], DASHES[0])
        if is_faint:
            style = ArmStyle(GREY, DASHES[1 + index % (len(DASHES) - 1)])  # the first of DASHES is a solid line
        label = _label(curve, name)
        lines.append(Line(curve.x, curve.y, label, style, low=curve.low, high=curve.high, band=not is_faint))
    return lines


def _label(curve: Curve, name: str) -> str:
    """Return the label of a line of the side with this name."""
    return f"{curve.name}, {name}" if curve.name else name
