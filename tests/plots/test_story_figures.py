"""Figures of the start page: the numbers that they are given, and words where there is room for them."""

import numpy as np
import pytest

from dpviz.plots import planner_figures

X = np.linspace(0.0, 10.0, 21)
EPSILONS = np.geomspace(0.01, 100.0, 9)


def test_densities_are_filled_and_named(check_finite) -> None:
    one, other = np.exp(-np.abs(X - 4)), np.exp(-np.abs(X - 5))
    figure = planner_figures.two_densities(X, (one, other), ("no", "yes"), "Published count")
    check_finite(figure)
    lines = [trace for trace in figure.data if trace.showlegend]
    assert [line.name for line in lines] == ["no", "yes"] and figure.layout.showlegend
    for line, density in zip(lines, (one, other), strict=True):
        np.testing.assert_allclose(line.y, density, rtol=1e-6)
    assert sum(trace.fill == "tonexty" for trace in figure.data) == 2
    assert figure.layout.yaxis.rangemode == "tozero"


@pytest.mark.parametrize(("epsilon", "side"), [(0.01, "left"), (100.0, "right")])
def test_the_place_on_the_price_is_marked_with_words_inside_the_frame(check_finite, epsilon: float, side: str) -> None:
    bounds = np.minimum(1.0, 1 / EPSILONS)
    figure = planner_figures.price(EPSILONS, bounds, 1.0, (epsilon, 0.5), "Bound on the error")
    check_finite(figure)
    mark = figure.data[-1]
    assert (mark.x[0], mark.y[0]) == (np.float32(epsilon), 0.5) and "ε = " in mark.text[0]
    (words,) = [note for note in figure.layout.annotations if note.text == "you are here"]
    assert words.xanchor == side and 10**words.x == pytest.approx(epsilon) and 10**words.y == pytest.approx(0.5)
