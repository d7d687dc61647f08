"""The chart of a comparison: runs of any kind, one hue for each run, one dash for each of its methods."""

from collections.abc import Sequence

import plotly.graph_objects as go

from dpviz.compare.comparison import Curve
from dpviz.plots.elements.lines import Line, line_figure
from dpviz.plots.elements.style import DASHES, DOTS, HUES, ArmStyle, marked

HEIGHT = 420  # pixels
BANDS = 2  # lines up to which all have their bands


def compared(curves: Sequence[Curve], x_title: str, y_title: str, log_y: bool) -> go.Figure:
    """Medians, with bands from 10 to 90 % where there are few; it says so if some of it reads raw data."""
    sides = list(dict.fromkeys(curve.side for curve in curves))
    lines = []
    for place, side in enumerate(sides):
        for number, curve in enumerate(curve for curve in curves if curve.side == side):
            low, median, high = curve.quantiles.T
            several = bool((high > low).any()) and len(curves) <= BANDS
            name = f"{side}: {curve.method}"
            lines.append(
                Line(
                    curve.x,
                    median,
                    name,
                    _look(place, number, curve.private),
                    low if several else None,
                    high if several else None,
                )
            )
    return line_figure(
        lines,
        x_title=x_title,
        y_title=y_title,
        log_y=log_y,
        not_private=marked({f"{curve.side}: {curve.method}": curve.status for curve in curves}),
        if_empty="None of these runs has both of these axes.",
        height=HEIGHT,
    )


def _look(place: int, number: int, private: bool) -> ArmStyle:
    """Of the `number`th method of a run: no two runs look alike, up to as many as there are hues and dashes."""
    dashes = DASHES if private else DOTS
    return ArmStyle(HUES[place % len(HUES)], dashes[(number + place // len(HUES)) % len(dashes)], not private)
