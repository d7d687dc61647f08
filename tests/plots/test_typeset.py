"""Formulas in words: indices in figures, headings and tables; words of users stay as they are."""

import pytest

from dpviz.plots.elements.style import browser_figure, markup, with_subscripts


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
    assert (markup(text), with_subscripts(text)) == (marked, short)


def test_texts_under_the_pointer_are_typeset_as_those_beside_a_mark() -> None:
    figure = {"data": [{"type": "scatter", "text": ["x_t"], "hovertext": ["x_t"]}], "layout": {}}
    assert browser_figure(figure)["data"][0] == {
        "type": "scatter",
        "text": ["x<sub>t</sub>"],
        "hovertext": ["x<sub>t</sub>"],
    }


def test_a_title_with_indices_is_as_long_as_what_is_read_of_it() -> None:
    drawing = {"data": [], "layout": {"yaxis": {"title": {"text": "Distance travelled ‖x_t - x_0‖"}}}}
    (title,) = browser_figure(drawing)["layout"]["annotations"]
    assert title["text"] == "Distance travelled ‖x<sub>t</sub> − x<sub>0</sub>‖"  # in one row
