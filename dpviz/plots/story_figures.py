"""Figures of the start page's story."""

import math

import numpy as np
import plotly.graph_objects as go

from dpviz.numbers import short
from dpviz.plots.elements import style
from dpviz.plots.elements.lines import Limit, Line, Mark, line_figure
from dpviz.plots.elements.style import ArmStyle

HEIGHT = 300  # pixels
TWO = (ArmStyle(style.PALETTE["private"], "solid"), ArmStyle(style.PALETTE["spent"], "dash"))


def two_densities(
    x: np.ndarray, densities: tuple[np.ndarray, np.ndarray], names: tuple[str, str], x_title: str
) -> go.Figure:
    """The densities (k,) of a release on two neighbouring data sets, at x (k,), filled: where they overlap, it cannot
    tell one data set from the other."""
    lines = [
        Line(x, density, name, look, low=np.zeros_like(density), high=density, value=False)
        for density, name, look in zip(densities, names, TWO, strict=True)
    ]
    return line_figure(
        lines, x_title=x_title, y_title="Density", log_y=False, from_zero=True, labels=False, height=HEIGHT
    )


def price(epsilons: np.ndarray, bounds: np.ndarray, start: float, here: tuple[float, float], title: str) -> go.Figure:
    """The proven error (k,) against ε (k,), both on log axes; the present ε, and its error, are marked.

    start : the error without a step, at most.
    """
    figure = line_figure(
        [Line(epsilons, bounds, "bound at the best number of steps", TWO[0], value=False)],
        x_title="Privacy budget ε",
        y_title=title,
        log_x=True,
        log_y=True,
        limits=[Limit(start, f"without a step: {short(start)}")],  # it stands beside two other pictures
        marks=[Mark(*here, f"You are here: ε = {short(here[0])}, {short(here[1])}", style.PALETTE["spent"])],
        labels=False,
        height=HEIGHT,
    )
    beyond = here[0] ** 2 > epsilons[0] * epsilons[-1]  # the middle: words stand where there is room, below the curve
    figure.add_annotation(
        x=math.log10(here[0]),
        y=math.log10(here[1]),
        text="you are here",
        showarrow=False,
        xanchor="right" if beyond else "left",
        xshift=-8 if beyond else 0,
        yshift=-16,
    )
    return figure
