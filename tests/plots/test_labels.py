"""Labels at the ends of lines: the final value, none over another, and a legend where there is no room."""

import numpy as np
import plotly.graph_objects as go
import pytest

from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.labels import FRAME, NAME, compact, resized, spread
from dpviz.plots.elements.lines import Line, line_figure
from dpviz.plots.elements.style import HUES, TEXT, ArmStyle

X = np.arange(11)


def drawn(*lines: Line, **settings: object) -> go.Figure:
    log_y = bool(settings.pop("log_y", False))
    return line_figure(lines, Axes("Step t", "Loss", log_y=log_y), **settings)  # type: ignore[arg-type]


def line(name: str, end: float, until: int = 10, dash: str = "solid", **more: object) -> Line:
    x = X[: until + 1]
    return Line(x, np.linspace(1.0, end, len(x)), name, ArmStyle(HUES[0], dash), **more)


def labels(figure: go.Figure) -> list[go.layout.Annotation]:
    return [note for note in figure.layout.annotations if note.name == NAME]


def test_a_label_says_name_and_final_value_after_a_stroke_in_the_lines_look() -> None:
    figure = drawn(line("a", 0.01234), line("b", 3.0, dash="dash", unit="nats"), line("c", 2.0, value=False))
    assert [note.text for note in labels(figure)] == ["a\u2002<b>0.0123</b>", "b\u2002<b>3\u00a0nats</b>", "c"]
    assert all(note.font.color is None for note in labels(figure)), "the text has the theme's colour"
    assert [(s.line.color, s.line.dash) for s in figure.layout.shapes] == [
        (HUES[0], d) for d in ("solid", "dash", "solid")
    ]
    assert not figure.layout.showlegend and figure.layout.margin.r > 60


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


def test_a_line_that_ends_early_has_its_label_where_it_ends() -> None:
    long, short = labels(drawn(line("short", 0.2, until=3), line("long", 0.5)))
    assert (short.xref, short.yref, short.x) == ("x", "y", 3) and short.y == pytest.approx(0.2)
    assert (long.xref, long.x) == ("paper", 1)
    late = labels(drawn(line("late", 0.2, until=int(10 * FRAME) + 1), line("long", 0.5)))
    assert all(note.xref == "paper" for note in late), "its words would run over those beside the frame"
    _, logarithmic = labels(drawn(line("short", 0.01, until=2), line("long", 0.5), log_y=True))
    assert logarithmic.y == pytest.approx(-2)


def test_long_names_are_broken_at_words_and_widen_the_margin() -> None:
    figure = drawn(line("Gaussian mirror descent", 0.5), line("DP-NAG-opt = DP-MASG-opt", 0.1))
    assert [note.text for note in labels(figure)] == [
        "Gaussian mirror<br>descent\u2002<b>0.5</b>",
        "DP-NAG-opt =<br>DP-MASG-opt\u2002<b>0.1</b>",
    ]
    assert 120 < figure.layout.margin.r < 160


def test_a_number_stays_with_its_margin_and_labels_of_several_lines_do_not_touch() -> None:
    two = [line(f"DP-{name}, slope -0.55 ± 0.36", end, value=False) for name, end in (("GD", 0.5), ("NAG", 0.501))]
    figure = drawn(*two)
    assert [note.text.split("<br>")[1] for note in labels(figure)] == ["-0.55\u00a0±\u00a00.36"] * 2
    frame = figure.layout.height - figure.layout.margin.t - figure.layout.margin.b
    spacing = 1.3 * TEXT  # of the lines of a text, as Plotly draws them
    assert abs(labels(figure)[0].y - labels(figure)[1].y) * frame > 2 * spacing + 3


def test_more_than_six_lines_or_too_little_height_have_a_legend() -> None:
    seven = drawn(*(line(f"m{i}", 0.1 * (i + 1)) for i in range(7)))
    assert seven.layout.showlegend and not labels(seven) and not seven.layout.shapes
    low = drawn(*(line(f"a rather long name of a method {i}", 0.1 * (i + 1)) for i in range(6)), height=200)
    assert low.layout.showlegend and not labels(low)
    assert drawn(line("a", 0.1), line("b", 0.2), labels=False).layout.showlegend


def test_a_narrow_screen_has_a_legend_with_room_of_its_own() -> None:
    wide = drawn(*(line(f"Gaussian mirror descent {i}", 0.1 * (i + 1)) for i in range(4)), notes=["one run"])
    narrow = compact(wide)
    assert narrow.layout.showlegend and not labels(narrow) and not narrow.layout.shapes
    assert [note.text for note in narrow.layout.annotations] == ["one run"]
    assert narrow.layout.margin.r < 20 and wide.layout.margin.r > 120
    added = narrow.layout.height - wide.layout.height
    assert added == narrow.layout.margin.b - wide.layout.margin.b == 4 * 20, "the frame is as high as it was"
    assert labels(wide), "the figure itself stays as it is"
    alone = compact(drawn(line("a", 0.1)))
    assert not alone.layout.showlegend and alone.layout.height == drawn(line("a", 0.1)).layout.height


def test_a_smaller_figure_keeps_its_labels_apart_or_has_a_legend() -> None:
    figure = drawn(*(line(f"method {i}", 0.5 + 0.001 * i) for i in range(4)))
    small = resized(figure, 180)
    places = np.array([note.y for note in labels(small)]) * (180 - figure.layout.margin.t - figure.layout.margin.b)
    assert small.layout.height == 180 and np.diff(np.sort(places)).min() >= 13
    assert [stroke.y0 for stroke in small.layout.shapes] == [note.y for note in labels(small)]
    tiny = resized(figure, 110)
    assert not labels(tiny) and tiny.layout.showlegend and tiny.layout.height == 110
    for found in (small, tiny):  # numbers on their side would take the height that the lines need
        assert found.layout.xaxis.nticks == 3 and found.layout.xaxis.tickangle == 0
    assert figure.layout.xaxis.tickangle is None, "the figure itself stays as it is"
    short = drawn(*(line(f"a method that ends early {i}", 0.2 * i + 0.1, until=4) for i in range(3)), line("b", 0.2))
    assert labels(short) and not labels(resized(short, 180)), "those of short lines reach into the margin"


def test_places_are_as_wanted_where_there_is_room() -> None:
    heights = np.full(3, 14.0)
    np.testing.assert_allclose(spread(np.array([100.0, 20.0, 60.0]), 200, heights), [100, 20, 60])
    np.testing.assert_allclose(spread(np.array([100.0, 100.0]), 200, heights[:2]), [93, 107])
    np.testing.assert_allclose(spread(np.array([200.0, 200.0, 199.0]), 200, heights), [179, 193, 165])
    np.testing.assert_allclose(spread(np.zeros(3), 42, heights), [7, 21, 35])
    assert len(spread(np.zeros(0), 42, np.zeros(0))) == 0
