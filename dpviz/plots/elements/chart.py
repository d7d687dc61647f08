"""A chart: a figure with all that is said of it, made where the figure is made."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import plotly.graph_objects as go

from dpviz import resources
from dpviz.experiments.plan import Privacy, worst
from dpviz.plots.elements.lines import Drawing
from dpviz.plots.elements.words import in_words

Provenance = Literal["settings", "partly private"] | Privacy
SETTINGS_ONLY = "Depends only on your settings."  # of which some may be from the data: the guarantee line says so


@dataclass(frozen=True, eq=False)
class Chart:
    """A figure and its words.

    drawn : the figure, or what it is made of, which can be drawn as well and takes less time to make.
    alt : what the chart is about, for those who cannot see it; what it shows now is added where it is drawn.
    provenance : what the curves depend on: settings alone; else what may be published of them, all or some.
    to_download : the same figure with more exact numbers, made when its numbers are asked for; None for these.
    handles : what a page needs whose visitors move its lines by handles.
    sent : the figure as a browser is sent it, by the look of the page: made once, it is drawn many times.
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


def worded(package: str) -> Callable[..., Chart]:
    """A function that joins a figure to its words, which `[CHARTS.<name>]` of the package's `texts.toml` has: heading,
    alt and caption, with the given values where braces name them. What depends on settings alone says so."""

    def chart(
        name: str,
        drawn: go.Figure | Drawing,
        provenance: Provenance = "settings",
        to_download: Callable[[], go.Figure] | None = None,
        **values: object,
    ) -> Chart:
        words = resources.data(package, "texts.toml")["CHARTS"][name]
        heading, alt, caption = (words[part].format(**values).strip() for part in ("heading", "alt", "caption"))
        said = f"{caption} {SETTINGS_ONLY}" if provenance == "settings" else caption
        return Chart(drawn, heading, alt, said, provenance, to_download)

    return chart


def provenance(curves: Iterable[Privacy]) -> Provenance:
    """Of a chart with these curves; what is private on a condition is not called so beside what is not private."""
    found = set(curves)
    return "partly private" if found == {"private", "not private"} else worst(found)
