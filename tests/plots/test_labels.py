"""Labels at the ends of lines: the final value, none over another, and a legend where there is no room."""

import numpy as np
import plotly.graph_objects as go
import pytest

from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.labels import NAME, spread
from dpviz.plots.elements.lines import Line, line_figure
from dpviz.plots.elements.style import HUES, ArmStyle

X = np.arange(11)


def drawn(*lines: Line, **settings: object) -> go.Figure:
    log_y = bool(settings.pop("log_y", False))
    return line_figure(lines, Axes("Step t", "Loss", log_y=log_y), **settings)  # type: ignore[arg-type]


def line(name: str, end: float, until: int = 10, dash: str = "solid", **more: object) -> Line:
    x = X[: until + 1]
    return Line(x, np.linspace(1.0, end, len(x)), name, ArmStyle(HUES[0], dash), **more)


def labels(figure: go.Figure) -> list[go.layout.Annotation]:
    return [note for note in figure.layout.annotations if note.name == NAME]


@pytest.mark.parametrize("log_y", [True, False])
def test_labels_keep_their_order_and_stay_apart_inside_the_frame(log_y: bool) -> None:
    ends = [0.5, 0.500001, 0.50001, 0.4999, 0.5002, 0.50015]
    figure = drawn(*(line(f"method {i}", end) for i, end in enumerate(ends)), log_y=log_y)
    places = np.array([note.y for note in labels(figure)])
    frame = figure.layout.height - figure.layout.margin.t - figure.layout.margin.b
    assert (np.argsort(places) == np.argsort(ends)).all()
    assert (
        np.diff(np.sort(places)).min() * frame >= 13 and places.min() * frame >= 6 and places.max() * frame <= frame - 6
    )


def test_more_than_six_lines_or_too_little_height_have_a_legend() -> None:
    seven = drawn(*(line(f"m{i}", 0.1 * (i + 1)) for i in range(7)))
    assert seven.layout.showlegend and not labels(seven) and not seven.layout.shapes
    low = drawn(*(line(f"a rather long name of a method {i}", 0.1 * (i + 1)) for i in range(6)), height=200)
    assert low.layout.showlegend and not labels(low)
    assert drawn(line("a", 0.1), line("b", 0.2), labels=False).layout.showlegend


def test_places_are_as_wanted_where_there_is_room() -> None:
    heights = np.full(3, 14.0)
    np.testing.assert_allclose(spread(np.array([100.0, 20.0, 60.0]), 200, heights), [100, 20, 60])
    np.testing.assert_allclose(spread(np.array([100.0, 100.0]), 200, heights[:2]), [93, 107])
    np.testing.assert_allclose(spread(np.array([200.0, 200.0, 199.0]), 200, heights), [179, 193, 165])
    np.testing.assert_allclose(spread(np.zeros(3), 42, heights), [7, 21, 35])
    assert len(spread(np.zeros(0), 42, np.zeros(0))) == 0
