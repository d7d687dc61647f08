"""Figures as one self-contained page: opens offline, and asks the network for nothing."""

import html
import math
import re
from collections.abc import Sequence

import plotly.graph_objects as go
import plotly.io as pio

from dpviz import templates
from dpviz.plots.elements.chart import Chart
from dpviz.plots.elements.style import PLOT_CONFIG, printed, values

WIDER = 1.3  # width of type on other pages, relative to ours
_EMPTY_MARGIN = 16  # pixels of a margin without text


def to_html(charts: Sequence[Chart], settings: str, *, title: str = "dpviz") -> str:
    """Return a page with every chart, then the settings; plotly.js is included once, about 5 MB.

    Captions may mark words as **bold**; all other text is literal.
    """
    figures = [
        pio.to_html(
            on_white(chart.figure),
            config=PLOT_CONFIG,
            full_html=False,
            include_plotlyjs=number == 0,
            include_mathjax=False,
            div_id=f"figure-{number}",
        )
        for number, chart in enumerate(charts)
    ]
    sections = [(chart.heading, figure, bold(chart.caption)) for chart, figure in zip(charts, figures, strict=True)]
    return templates.document(
        "plots/elements/figures.html.j2", literal=html.escape, title=title, sections=sections, settings=settings
    )


def bold(caption: str) -> str:
    """Return the caption as HTML, literal except **bold** words."""
    literal = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", caption)  # without the backslashes of Markdown
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", html.escape(literal))


def on_white(figure: go.Figure) -> go.Figure:
    """Return the figure in a template of its own: on screen, the page's theme, which a file lacks, sets the colours."""
    specification = printed(values(figure))
    layout = specification["layout"]
    layout["template"] = pio.templates["plotly_white"]
    if (right := layout.get("margin", {}).get("r", 0)) > _EMPTY_MARGIN:  # it has text, in a wider type than the page's
        layout["margin"]["r"] = math.ceil(WIDER * right)
    return go.Figure(specification)
