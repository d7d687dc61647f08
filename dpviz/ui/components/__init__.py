"""Parts of pages that are drawn in the browser by code of our own: charts that move in place, a button that copies,
terms that say what they mean.

`st.plotly_chart` takes a chart away and draws a new one, two or three times, whenever its data change: the live picture
must not blink, and a slider with five charts must not lag. The library is the one that the installed plotly package
ships, fetched once per tab, from this server.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import plotly
import plotly.graph_objects as go
import streamlit as st
from plotly.io.json import to_json_plotly
from streamlit.components.v1 import declare_component

from dpviz.plots.elements.style import PLOT_CONFIG
from dpviz.ui.terms import TERMS

_HERE = Path(__file__).parent
_LIBRARY = "plotly"
_ADDRESS = f"component/{__name__}.{_LIBRARY}/plotly.min.js"


@cache
def _plot() -> Any:
    """The component, declared once per process, and with it the address of the library."""
    declare_component(_LIBRARY, path=Path(plotly.__file__).parent / "package_data")  # never drawn: it serves the file
    return st.components.v2.component(
        "dpviz_plot",
        html='<div class="dpviz-plot" role="figure"></div>',
        css=(_HERE / "plot.css").read_text(encoding="utf-8"),
        js=(_HERE / "plot.js").read_text(encoding="utf-8"),
        isolate_styles=False,
    )


def plot(figure: go.Figure, key: str, alt: str) -> None:
    """Draw a figure, or move the one of this key to the new data; zoom and hidden lines stay.

    alt : what it shows, for those who cannot see it.
    """
    drawn = figure.to_dict()
    drawn["layout"].pop("template", None)  # plotly's own look, 7 kB; in the browser, the page's takes its place
    height = int(figure.layout.height)
    data = {"figure": to_json_plotly(drawn), "alt": alt, "height": height, "config": dict(PLOT_CONFIG)}
    _plot()(key=key, data={**data, "library": _ADDRESS}, height=height)


def awaited(key: str) -> None:
    """The place of the figure of this key, before there is one: the tab fetches the library while nothing else happens,
    which would take longer than the first picture."""
    _plot()(key=key, data={"library": _ADDRESS}, height=1)


@cache
def _copy() -> Any:
    return st.components.v2.component(
        "dpviz_copy",
        html='<div class="row"><button type="button"></button><span class="said" role="status"></span></div>'
        '<textarea hidden readonly rows="3" aria-label="Text to copy"></textarea>',
        css=(_HERE / "copy.css").read_text(encoding="utf-8"),
        js=(_HERE / "copy.js").read_text(encoding="utf-8"),
    )


def copy(text: str, key: str, label: str) -> None:
    """A button that copies a text to the clipboard and says so, or selects it where the browser forbids that."""
    _copy()(key=key, data={"text": text, "label": label})


@cache
def _words() -> Any:
    told = [{name: getattr(term, name) for name in ("name", "sentence", "formula", "said")} for term in TERMS.values()]
    return st.components.v2.component(
        "dpviz_words",
        html='<button type="button" class="open" popovertarget="panel">Words</button>'
        '<div id="panel" class="panel" popover role="dialog" aria-label="Words of this page"><dl></dl>'
        '<button type="button" class="all">All words</button></div>',
        css=(_HERE / "words.css").read_text(encoding="utf-8"),
        js=f"const TERMS = {json.dumps(told, ensure_ascii=False)};\n{(_HERE / 'words.js').read_text(encoding='utf-8')}",
    )


def words(key: str) -> bool:
    """Mark the terms of the glossary where they stand on the page, so that a press says what they mean, and draw a
    button with all that the page uses. True when somebody asks for the whole list."""
    return bool(_words()(key=key, data={}, on_all_change=lambda: None).all)
