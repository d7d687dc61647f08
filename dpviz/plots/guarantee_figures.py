"""Figures about guarantees alone: what an attacker can do, and what each accountant says of the same noise."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from dpviz.plots.elements import style
from dpviz.plots.elements.lines import Line, line_figure
from dpviz.plots.elements.style import ArmStyle

RATES = np.concatenate([np.linspace(0.0, 0.05, 51), np.linspace(0.06, 1.0, 95)])  # false positive rates


def tradeoff(guarantee: np.ndarray, plan: np.ndarray | None = None, name: str = "the noise below") -> go.Figure:
    """False negative against false positive rate of the best attacker, at RATES: under the guarantee, and for a plan
    of that name.

    Below its curve no attack exists. The diagonal is guessing.
    """
    curves = {"any algorithm with this guarantee": (guarantee, ArmStyle(style.PALETTE["spent"], "solid"))}
    if plan is not None:
        curves[name] = plan, ArmStyle(style.PALETTE["private"], "dash")
    return attackers(curves)


def attackers(curves: Mapping[str, tuple[np.ndarray, ArmStyle]], height: int = style.HEIGHT) -> go.Figure:
    """The same of several best attackers, by name; the diagonal is guessing."""
    guessing = Line(RATES, 1 - RATES, "guessing", ArmStyle(style.GREY, "dot"), width=1.5)
    return line_figure(
        [guessing, *(Line(RATES, missed, name, look) for name, (missed, look) in curves.items())],
        x_title="False positive rate",
        y_title="False negative rate",
        log_y=False,
        from_zero=True,
        labels=False,  # all end in the same corner
        height=height,
    )
