"""Formulas in words: indices in figures, headings and tables; words of users stay as they are."""

import numpy as np
import plotly.graph_objects as go
import pytest

from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.lines import Line, line_figure
from dpviz.plots.elements.style import HUES, ArmStyle
from dpviz.plots.elements.typeset import markup, plain, printed
from dpviz.plots.elements.words import in_words

X = np.arange(5)


@pytest.mark.parametrize(
    ("text", "marked", "short"),
    [
        ("Excess loss F(x_t) - F*", "Excess loss F(x<sub>t</sub>) − F*", "Excess loss F(xₜ) - F*"),
        ("Noise scale b_t or σ_t", "Noise scale b<sub>t</sub> or σ<sub>t</sub>", "Noise scale bₜ or σₜ"),
        ("λ_min(∇²f(x_{t-1}))", "λ<sub>min</sub>(∇²f(x<sub>t-1</sub>))", "λₘᵢₙ(∇²f(xₜ₋₁))"),
        ("‖∇F̂_r(x_t)‖_r, at most", "‖∇F̂<sub>r</sub>(x<sub>t</sub>)‖<sub>r</sub>, at most", "‖∇F̂ᵣ(xₜ)‖ᵣ, at most"),
        ("E F(x_T)", "E F(x<sub>T</sub>)", "E F(x_T)"),
        ("γ^2 and T^{1/3}", "γ<sup>2</sup> and T<sup>1/3</sup>", "γ^2 and T^{1/3}"),
        (
            "hours_per_week, x_train, feature_1",
            "hours_per_week, x_train, feature_1",
            "hours_per_week, x_train, feature_1",
        ),
        ("10-90 %", "10-90 %", "10-90 %"),
    ],
)
def test_indices_are_lowered_and_names_with_underscores_are_left_alone(text: str, marked: str, short: str) -> None:
    assert (markup(text), plain(text)) == (marked, short)


def figure(**more: object) -> go.Figure:
    lines = [Line(X, X + 1.0, f"x_{i}", ArmStyle(HUES[i], "solid")) for i in (0, 1)]
    return line_figure(lines, Axes("Step t", "Loss F(x_t)"), **more)  # type: ignore[arg-type]


def test_a_figure_is_typeset_where_readers_see_it_and_its_data_and_words_stay_plain() -> None:
    own = figure(notes=["b_t is known"])
    shown = go.Figure(printed(own))
    assert [trace.name for trace in shown.data] == ["x<sub>0</sub> = x<sub>1</sub>"]
    assert "b<sub>t</sub> is known" in [note.text for note in shown.layout.annotations]
    assert own.layout.yaxis.title.text == "Loss F(x_t)" and "<" not in in_words(own)
    assert shown.data[0].meta == own.data[0].meta == ("x_0", "x_1"), "names of curves in files stay plain"
