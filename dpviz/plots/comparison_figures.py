"""The chart of a comparison: runs of any kind, every method as on its page."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import plotly.graph_objects as go

from dpviz.compare.comparison import Curve
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.lines import Line, line_figure
from dpviz.plots.elements.style import DASHES, DOTS, GREY, HUES, ArmStyle, arm_styles, marked

HEIGHT = 390  # pixels
BANDS = 2  # largest number of lines with bands


def compared(curves: Sequence[Curve], x_title: str, y_title: str, log_y: bool) -> go.Figure:
    """Return a figure of medians, with bands from 10 to 90 % if there are few; marked if some of it reads raw data."""
    sides = list(dict.fromkeys(curve.side for curve in curves))
    lines: list[Line] = []
    for curve in curves:
        low, median, high = curve.quantiles.T if len(curves) <= BANDS else (None, curve.quantiles[:, 1], None)
        style = _style(curve, sides.index(curve.side), {line.style for line in lines})
        lines.append(Line(curve.x, median, f"{curve.side}: {curve.method}", style, low, high))
    return line_figure(
        lines,
        Axes(x_title, y_title, log_y=log_y),
        not_private=marked({f"{curve.side}: {curve.method}": curve.status for curve in curves}),
        if_empty="None of these runs has both of these axes.",
        height=HEIGHT,
    )


def _style(curve: Curve, run: int, used: Collection[ArmStyle]) -> ArmStyle:
    """Return the method's style on its page; if that is used, another dash, by the number of the run, or another
    hue."""
    usual = ArmStyle(GREY, DOTS[0], True) if curve.arm is None else arm_styles([curve.arm])[curve.arm.label]
    dashes = DASHES if curve.private else DOTS
    dashed = [replace(usual, dash=dashes[(run + i) % len(dashes)]) for i in range(len(dashes))]
    others = [replace(style, color=hue) for hue in HUES for style in dashed]
    return next((style for style in [usual, *dashed, *others] if style not in used), usual)
