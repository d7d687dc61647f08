"""Figures as one self-contained page: opens offline, and asks the network for nothing."""

import html
import re
from collections.abc import Sequence

import plotly.graph_objects as go
import plotly.io as pio

from dpviz.plots.elements.style import PLOT_CONFIG

# The browser enforces it: inline script and style only, no connection anywhere.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1f2328; }
h1, h2 { line-height: 1.25; } figure { margin: 0 0 2rem; } figcaption { color: #59636e; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f6f8fa; padding: 1rem; }
"""


def to_html(figures: Sequence[tuple[str, go.Figure, str]], settings: str, *, title: str = "dpviz") -> str:
    """A page with every (heading, figure, caption), then the settings; plotly.js is included once, about 5 MB.

    Captions may mark words as **bold**; all other text is taken literally.
    """
    parts = [_section(number, *figure) for number, figure in enumerate(figures)]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{html.escape(title)}</h1>",
            *parts,
            f"<h2>Settings</h2><pre>{html.escape(settings)}</pre>",
            "</body></html>",
        ]
    )


def _section(number: int, heading: str, figure: go.Figure, caption: str) -> str:
    chart = pio.to_html(
        _on_white(figure),
        config=PLOT_CONFIG,
        full_html=False,
        include_plotlyjs=number == 0,
        include_mathjax=False,
        div_id=f"figure-{number}",
    )
    literal = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", caption)  # what Markdown escapes
    words = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", html.escape(literal))
    return f"<h2>{html.escape(heading)}</h2>\n<figure>{chart}<figcaption>{words}</figcaption></figure>"


def _on_white(figure: go.Figure) -> go.Figure:
    """The figure in a template of its own: on screen, colours come from the page's theme, which stays behind."""
    specification = figure.to_plotly_json()
    specification["layout"]["template"] = pio.templates["plotly_white"]
    return go.Figure(specification)
