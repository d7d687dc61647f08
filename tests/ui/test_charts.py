"""What a chart is given on its way to the page: the visitor's screen and theme, its words, its numbers."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly
import plotly.graph_objects as go
import pytest
import streamlit as st

from dpviz.experiments.plan import Privacy
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.chart import provenance
from dpviz.plots.elements.labels import NAME
from dpviz.plots.elements.lines import Line, line_figure
from dpviz.plots.elements.style import HUES, NOT_PRIVATE, ArmStyle
from dpviz.ui import charts, components, explain, screen


@pytest.fixture
def figure() -> go.Figure:
    ends = {"DP-GD": 1.0, "DP-HB": 1.0, "DP-NAG": 0.5}
    return drawn(ends)


def drawn(ends: dict[str, float]) -> go.Figure:
    x = np.arange(5)
    lines = [Line(x, np.linspace(2.0, end, 5), name, ArmStyle(HUES[0], "solid")) for name, end in ends.items()]
    return line_figure(lines, Axes("Step t", "Loss"), not_private=True)


@pytest.mark.parametrize("narrow", [True, False])
@pytest.mark.parametrize(("first", "fits"), [("DP-HB", True), ("Multiplicative weights", False)])
def test_a_narrow_screen_has_short_labels_or_a_legend(
    narrow: bool, first: str, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "narrow", lambda: narrow)
    shown = charts.as_shown(drawn({first: 1.0, "DP-NAG-opt": 0.5}))
    assert bool(shown.layout.showlegend) == (narrow and not fits)
    texts = [note.text for note in shown.layout.annotations if note.name == NAME]
    assert "DP-NAG-opt<br><b>0.5</b>" in texts if narrow and fits else bool(texts) != narrow


def test_the_browser_says_whether_charts_are_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    state: dict[str, Any] = {}
    monkeypatch.setattr(st, "session_state", state)
    assert not screen.narrow(), "until it says so"
    state[screen.KEY] = {"narrow": True}
    assert screen.narrow()


def test_the_text_alternative_goes_on_with_what_is_shown(figure: go.Figure, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, Any] = {}
    monkeypatch.setattr(components, "_plot", lambda: lambda data, **_: drawn.update(data))
    charts.plain(figure, "key", "Loss by step")
    assert drawn["alt"] == "Loss by step. Loss: DP-NAG ends lowest, at 0.5; highest DP-GD = DP-HB, 1."
    assert drawn["config"]["displayModeBar"] == "hover"


def test_the_drawing_library_is_of_the_version_that_makes_the_figures() -> None:
    """A part of it, kept here: one from another major version of plotly.js may read a figure in another way."""
    installed = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    kept = Path(components.__file__).parent / "plotly" / Path(components._ADDRESS).name
    made, drawing = (re.search(r"v(\d+)\.[\d.]+", path.read_text()[:200])[1] for path in (installed, kept))
    assert made == drawing and kept.stat().st_size < 1.6e6


def test_the_numbers_keep_the_names_of_curves_that_coincide(figure: go.Figure) -> None:
    table = charts.numbers(figure)
    assert table["curve"].value_counts().to_dict() == {"DP-GD": 5, "DP-HB": 5, "DP-NAG": 5}


def test_words_that_mark_raw_data_suit_the_page(figure: go.Figure, monkeypatch: pytest.MonkeyPatch) -> None:
    for theme in ("light", "dark"):
        monkeypatch.setattr(charts, "theme", lambda theme=theme: theme)
        (said,) = (note for note in charts.as_shown(figure).layout.annotations if note.name == "not private")
        assert said.font.color == NOT_PRIVATE[theme]


def test_tables_write_numbers_as_everywhere() -> None:
    table = pd.DataFrame({"method": ["a", "b"], "loss": [6.356e-10, np.nan], "steps": [1000, 5]})
    page = explain.readable(table).to_html()
    assert all(f">{words}<" in page for words in ("a", "6.356×10⁻¹⁰", "–", "1,000", "5"))


@pytest.mark.parametrize(
    ("curves", "status"),
    [
        (("private", "private"), "private"),
        (("private", "not private"), "partly private"),
        (("private", "private if known beforehand"), "private if known beforehand"),
        (("private if known beforehand", "not private"), "not private"),
        (("not private", "not private"), "not private"),
        ((), "private"),
    ],
)
def test_a_chart_is_stamped_by_its_curves(curves: tuple[Privacy, ...], status: str) -> None:
    """A reference among private curves does not make them less private, nor do they make it more."""
    assert provenance(curves) == status
