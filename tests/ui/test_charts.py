"""What a chart is given on its way to the page: the visitor's screen and theme, its words, its numbers."""

import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import plotly
import plotly.graph_objects as go
import pytest

from dpviz.experiments.plan import Privacy
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.chart import Chart, Provenance, provenance
from dpviz.plots.elements.lines import Line, line_figure
from dpviz.plots.elements.style import HUES, ArmStyle
from dpviz.ui import charts, components, explain


@pytest.fixture
def figure() -> go.Figure:
    ends = {"DP-GD": 1.0, "DP-HB": 1.0, "DP-NAG": 0.5}
    return drawn(ends)


def drawn(ends: dict[str, float]) -> go.Figure:
    x = np.arange(5)
    lines = [Line(x, np.linspace(2.0, end, 5), name, ArmStyle(HUES[0], "solid")) for name, end in ends.items()]
    return line_figure(lines, Axes("Step t", "Loss"), not_private=True)


def test_the_drawing_library_is_of_the_version_that_makes_the_figures() -> None:
    """A part of it, kept here: one from another major version of plotly.js may read a figure in another way."""
    installed = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    kept = Path(components.__file__).parent / "served" / Path(components._LIBRARY).name
    made, drawing = (re.search(r"v(\d+)\.[\d.]+", path.read_text()[:200])[1] for path in (installed, kept))
    assert made == drawing and kept.stat().st_size < 1.6e6


def test_the_numbers_keep_the_names_of_curves_that_coincide(figure: go.Figure) -> None:
    table = charts.numbers(figure)
    assert table["curve"].value_counts().to_dict() == {"DP-GD": 5, "DP-HB": 5, "DP-NAG": 5}


@pytest.mark.parametrize(
    ("of", "mark"),
    [
        ("not private", "# ◉ not private: reads the raw data"),
        ("partly private", "# ◉ not private: DP-GD & co; floor"),
        ("private if known beforehand", "# private if known beforehand"),
        ("private", None),
        ("settings", None),
    ],
)
def test_the_numbers_of_a_chart_say_what_is_not_private(of: Provenance, mark: str | None) -> None:
    said = {"not private": True, "partly private": "not private: DP-GD &amp; co; floor"}.get(of, False)
    x = np.arange(5)
    figure = line_figure([Line(x, x / 5, "a", ArmStyle(HUES[0], "solid"))], Axes("t", "Loss"), not_private=said)
    finer = Chart(figure, "Loss", "Loss", "", of, to_download=lambda: figure)
    for chart in (Chart(figure, "Loss", "Loss", "", of), finer):
        text = charts._csv(chart).decode()
        assert [line for line in text.splitlines() if line[0] == "#"] == [mark] * (mark is not None)
        assert len(pd.read_csv(io.StringIO(text), comment="#")) == len(x)


def test_tables_write_numbers_as_everywhere() -> None:
    table = pd.DataFrame({"method": ["a", "b"], "loss": [6.356e-10, np.nan], "steps": [1000, 5]})
    page = explain.format_numbers(table).to_html()
    assert all(f">{words}<" in page for words in ("a", "6.356×10⁻¹⁰", "–", "1,000", "5"))


@pytest.mark.parametrize(
    ("curves", "stamp"),
    [
        (("private", "private"), "private"),
        (("private", "not private"), "partly private"),
        (("private", "private if known beforehand"), "private if known beforehand"),
        (("private if known beforehand", "not private"), "not private"),
        (
            ("private if known beforehand", "private if the seed stays secret"),
            "private if known beforehand and the seed stays secret",
        ),
        (("not private", "not private"), "not private"),
        ((), "private"),
    ],
)
def test_a_chart_is_stamped_by_its_curves(curves: tuple[Privacy, ...], stamp: str) -> None:
    """A reference among private curves does not make them less private, nor do they make it more."""
    assert provenance(curves) == stamp
