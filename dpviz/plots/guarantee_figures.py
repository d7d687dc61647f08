"""Figures about guarantees alone: what an attacker can do, and what each accountant says of the same noise."""

import numpy as np
import plotly.graph_objects as go

from dpviz.plots import style
from dpviz.plots.lines import Line, line_figure
from dpviz.plots.style import ArmStyle

RATES = np.concatenate([np.linspace(0.0, 0.05, 51), np.linspace(0.06, 1.0, 95)])  # false positive rates


def tradeoff(guarantee: np.ndarray, plan: np.ndarray | None = None, name: str = "the noise below") -> go.Figure:
    """False negative against false positive rate of the best attacker, at RATES: under the guarantee, and for a plan
    of that name.

    Below its curve no attack exists. The diagonal is guessing.
    """
    lines = [
        Line(RATES, 1 - RATES, "guessing", ArmStyle(style.GREY, "dot"), width=1.5),
        Line(RATES, guarantee, "any algorithm with this guarantee", ArmStyle(style.PALETTE["spent"], "solid")),
    ]
    if plan is not None:
        lines.append(Line(RATES, plan, name, ArmStyle(style.PALETTE["private"], "dash")))
    return line_figure(
        lines,
        x_title="False positive rate",
        y_title="False negative rate",
        log_y=False,
        from_zero=True,
        labels=False,  # all end in the same corner
    )
