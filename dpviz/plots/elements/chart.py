"""A chart: a figure with its texts, built where the figure is built."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import plotly.graph_objects as go

from dpviz import resources
from dpviz.experiments.plan import Privacy, worst
from dpviz.plots.elements.lines import Drawing
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
    sent : the figure in the form for browsers, by the style of the page: built once and drawn many times.
    """

    drawn: go.Figure | Drawing
    heading: str
    alt: str
    caption: str
    provenance: Provenance = "settings"
    to_download: Callable[[], go.Figure] | None = None
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


def worded(package: str) -> Callable[..., Chart]:
    """Return a function that joins a figure to its texts, `[CHARTS.<name>]` of the package's `texts.toml`.

    They are heading, alt and caption, with the given values in place of names in braces. The caption says so if the
    chart depends on settings alone.
    """

    def chart(
        name: str,
        drawn: go.Figure | Drawing,
        provenance: Provenance = "settings",
        to_download: Callable[[], go.Figure] | None = None,
        **values: object,
    ) -> Chart:
        texts = resources.data(package, "texts.toml")["CHARTS"][name]
        heading, alt, caption = (texts[part].format(**values).strip() for part in ("heading", "alt", "caption"))
        full_caption = f"{caption} {SETTINGS_ONLY}" if provenance == "settings" else caption
        return Chart(drawn, heading, alt, full_caption, provenance, to_download)

    return chart


def provenance(curves: Iterable[Privacy]) -> Provenance:
    """Return the provenance of a chart with these curves; "partly private" only without conditions."""
    statuses = set(curves)
    return "partly private" if statuses == {"private", "not private"} else worst(statuses)
