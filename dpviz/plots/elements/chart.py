"""A chart: a figure with its texts, built where the figure is built."""

import html
import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import plotly.graph_objects as go
import plotly.io as pio

from dpviz import templates
from dpviz.experiments.plan import Privacy, weakest_privacy
from dpviz.plots.elements.lines import Drawing
from dpviz.plots.elements.style import PLOT_CONFIG, browser_figure, figure_values
from dpviz.plots.elements.words import alt_text

Provenance = Literal["settings", "partly private"] | Privacy
SETTINGS_ONLY = "Depends only on your settings."  # some settings may be from the data: the guarantee line says so


@dataclass(frozen=True, eq=False)
class Chart:
    """A figure and its texts.

    drawing : the figure, or its plain values, which can be drawn as well and are built faster.
    alt : subject of the chart, for its text alternative, to which a page adds the `description`.
    provenance : "settings" if the curves depend on settings alone; else the privacy of the curves.
    to_download : builds the figure whose numbers a visitor downloads, with more exact numbers; None if they are those
        of `drawing`.
    handles : data for the handles by which a visitor moves the lines; empty in a chart without handles.
    sent : a cache of the figure in the form that browsers get, by the style of the page.
    """

    drawing: go.Figure | Drawing
    heading: str
    alt: str
    caption: str
    provenance: Provenance = "settings"
    to_download: Callable[[], go.Figure] | None = None
    handles: Mapping[str, Any] = field(default_factory=dict)
    sent: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def figure(self) -> go.Figure:
        """The figure as a plotly figure."""
        return self.drawing if isinstance(self.drawing, go.Figure) else go.Figure(self.drawing, _validate=False)

    @cached_property
    def description(self) -> str:
        """A description of the curves that the figure shows now: which ends lowest, where they cross."""
        return alt_text(self.drawing)


def chart(
    drawing: go.Figure | Drawing,
    heading: str,
    alt: str,
    caption: str,
    *,
    provenance: Provenance = "settings",
    to_download: Callable[[], go.Figure] | None = None,
) -> Chart:
    """Return a chart; if its curves depend on settings alone, its caption says so."""
    if provenance == "settings":
        caption = f"{caption} {SETTINGS_ONLY}"
    return Chart(drawing, heading, alt, caption, provenance, to_download)


def provenance(curves: Iterable[Privacy]) -> Provenance:
    """Return the provenance of a chart from the privacy of each curve.

    It is "partly private" if some curves are private on no condition, and the others not private; else the weakest
    privacy of a curve.
    """
    privacies = set(curves)
    return "partly private" if privacies == {"private", "not private"} else weakest_privacy(privacies)


# -------------------------------------------------------------------------------- charts as one page that opens offline

WIDER = 1.3  # width of a text in the type of other pages, relative to the type of ours
_EMPTY_MARGIN = 16  # pixels of a margin without text


def to_html(charts: Sequence[Chart], settings: str) -> str:
    """Return an HTML page with every chart, then the settings. It opens offline: it contains plotly.js, about 5 MB.

    Captions may mark words as **bold**; all other text is shown as it is.
    """
    figures = [
        pio.to_html(
            on_white(chart.figure),
            config=PLOT_CONFIG,
            full_html=False,
            include_plotlyjs=number == 0,  # once for all figures
            include_mathjax=False,
            div_id=f"figure-{number}",
        )
        for number, chart in enumerate(charts)
    ]
    # In place of the badge that a page draws next to a heading.
    marks = ["" if chart.provenance == "settings" else f" ({chart.provenance})" for chart in charts]
    sections = [
        (chart.heading + mark, figure, bold(chart.caption))
        for chart, mark, figure in zip(charts, marks, figures, strict=True)
    ]
    return templates.render("plots/elements/figures.html.j2", literal=html.escape, sections=sections, settings=settings)


def bold(caption: str) -> str:
    """Return a caption as HTML, in which **words** are bold, *words* in italics, and everything else is as it is."""
    literal = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", caption)  # without the backslashes of Markdown
    with_bold = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", html.escape(literal))
    return re.sub(r"(?<!\w)\*([^*]+)\*", r"<em>\1</em>", with_bold)  # not the star of "F*"


def on_white(figure: go.Figure) -> go.Figure:
    """Return the figure with plotly's white template, for files and notebooks.

    On our pages the theme sets the colours of background and text, which a figure by itself lacks.
    """
    specification = browser_figure(figure_values(figure))
    layout = specification["layout"]
    layout["template"] = pio.templates["plotly_white"]
    right_margin = layout.get("margin", {}).get("r", 0)
    if right_margin > _EMPTY_MARGIN:  # it has text, in a wider type than the page's
        layout["margin"]["r"] = math.ceil(WIDER * right_margin)
    return go.Figure(specification)
