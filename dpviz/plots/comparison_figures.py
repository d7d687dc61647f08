"""The chart of a comparison: runs of any kind, every method as on its page."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import plotly.graph_objects as go

from dpviz.compare.comparison import Curve
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.lines import Line, line_figure
from dpviz.plots.elements.style import DASHES, DOTS, GREY, HUES, ArmStyle, arm_styles, marked

HEIGHT = 390  # pixels
BANDS = 2  # lines up to which all have their bands


def compared(curves: Sequence[Curve], x_title: str, y_title: str, log_y: bool) -> go.Figure:
    """Medians, with bands from 10 to 90 % where there are few; it says so if some of it reads raw data."""
    sides = list(dict.fromkeys(curve.side for curve in curves))
    lines: list[Line] = []
    for curve in curves:
        low, median, high = curve.quantiles.T if len(curves) <= BANDS else (None, curve.quantiles[:, 1], None)
        look = _look(curve, sides.index(curve.side), {line.style for line in lines})
        lines.append(Line(curve.x, median, f"{curve.side}: {curve.method}", look, low, high))
    return line_figure(
        lines,
        Axes(x_title, y_title, log_y=log_y),
        not_private=marked({f"{curve.side}: {curve.method}": curve.status for curve in curves}),
        if_empty="None of these runs has both of these axes.",
        height=HEIGHT,
    )


def _look(curve: Curve, place: int, taken: Collection[ArmStyle]) -> ArmStyle:
    """The look of the method on its page; if that is taken, another dash for the run, the `place`th; or another hue."""
    own = ArmStyle(GREY, DOTS[0], True) if curve.arm is None else arm_styles([curve.arm])[curve.arm.label]
    dashes = DASHES if curve.private else DOTS
    wanted = [replace(own, dash=dashes[(place + i) % len(dashes)]) for i in range(len(dashes))]
    others = [replace(look, color=other) for other in HUES for look in wanted]
    return next((look for look in [own, *wanted, *others] if look not in taken), own)
