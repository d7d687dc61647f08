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
from dpviz.experiments.plan import Privacy, worst
from dpviz.plots.elements.lines import Drawing
from dpviz.plots.elements.style import PLOT_CONFIG, printed, values
from dpviz.plots.elements.words import in_words

Provenance = Literal["settings", "partly private"] | Privacy
SETTINGS_ONLY = "Depends only on your settings."  # some settings may be from the data: the guarantee line says so


@dataclass(frozen=True, eq=False)
class Chart:
    """A figure and its texts.

    drawn : the figure, or its plain values, which can be drawn as well and are built faster.
    alt : subject of the chart, for its text alternative; what it shows now is added where it is drawn.
    provenance : "settings" if the curves depend on settings alone; else what may be published of them.
    to_download : returns the same figure with more exact numbers, built when its numbers are downloaded; None for
        these.
    handles : data for handles by which a visitor moves the lines; empty without.
    sent : the figure in the form for browsers, by the style of the page: built once and drawn many times.
    """

    drawn: go.Figure | Drawing
    heading: str
    alt: str
    caption: str
    provenance: Provenance = "settings"
    to_download: Callable[[], go.Figure] | None = None
    handles: Mapping[str, Any] = field(default_factory=dict)
    sent: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def figure(self) -> go.Figure:
        """The figure."""
        return self.drawn if isinstance(self.drawn, go.Figure) else go.Figure(self.drawn, _validate=False)

    @cached_property
    def words(self) -> str:
        """The curves that the figure shows now, in words."""
        return in_words(self.drawn)


def chart(
    drawn: go.Figure | Drawing,
    heading: str,
    alt: str,
    caption: str,
    *,
    provenance: Provenance = "settings",
    to_download: Callable[[], go.Figure] | None = None,
) -> Chart:
    """Return a figure with its words; the caption says so where the curves depend on settings alone."""
    if provenance == "settings":
        caption = f"{caption} {SETTINGS_ONLY}"
    return Chart(drawn, heading, alt, caption, provenance, to_download)


def provenance(curves: Iterable[Privacy]) -> Provenance:
    """Return the provenance of a chart with these curves; "partly private" only without conditions."""
    statuses = set(curves)
    return "partly private" if statuses == {"private", "not private"} else worst(statuses)


# -------------------------------------------------------------------------------- charts as one page that opens offline

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
