import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go
import pytest

from dpviz.plots.elements.axes import Axes, Bound
from dpviz.plots.elements.labels import compact
from dpviz.plots.elements.lines import CEILING, FLOOR, MAX_POINTS, Line, downsample, line_figure
from dpviz.plots.elements.style import HUES, SMALL, ArmStyle
from dpviz.plots.elements.words import alt_text
from tests.bounds import number

BLUE, GREEN = ArmStyle(HUES[0], "solid"), ArmStyle(HUES[2], "dash")
PLAIN = ArmStyle(HUES[0], "dot", reference=True)


def drawn(
    *lines: Line, log_x: bool = False, log_y: bool = False, from_zero: bool = False, **settings: object
) -> go.Figure:
    return line_figure(lines, Axes("Step t", "Loss", log_x, log_y, from_zero), **settings)


def notes(figure: go.Figure) -> str:
    return " ".join(note.text for note in figure.layout.annotations if not note.name)


def test_a_log_axis_never_sees_zero_and_says_so() -> None:
    line = Line(np.arange(4), np.array([1.0, 1e-20, 0.0, -1.0]), "a", BLUE)
    figure = drawn(line, log_y=True)
    assert figure.data[0].y.min() == np.float32(FLOOR)
    assert "values below 10⁻¹² are below the frame" in notes(figure)  # it opens two decades below the lowest point
    low = Line(np.arange(3), np.array([1.0, 1e-11, 0.0]), "a", BLUE)
    assert "values below 10⁻¹² shown at 10⁻¹²" in notes(drawn(low, log_y=True))
    linear = drawn(line)
    assert linear.data[0].y.min() == -1 and not notes(linear)


def test_a_small_figure_without_lines_is_as_small_and_its_reason_fits() -> None:
    layout = line_figure([], Axes("Step t", "Noise"), if_empty="word " * 20, height=SMALL).layout
    assert not layout.xaxis.showticklabels and not layout.yaxis.showticklabels
    assert layout.height == SMALL and max(map(len, layout.annotations[0].text.split("<br>"))) <= 48


def test_a_label_that_does_not_fit_into_a_small_frame_is_in_the_margin() -> None:
    """A frame next to the live chart may have 130 pixels, which are less than 24 and the text take."""
    lines = [Line(np.arange(2), np.array([1.0, 0.5]), "Gaussian marginals", BLUE, value_in_label=False)]
    lines.append(Line(np.arange(101), np.ones(101), "MWEM", BLUE, value_in_label=False))
    labels = [note for note in drawn(*lines, height=SMALL).layout.annotations if note.name]
    assert [(note.text, note.xref) for note in labels] == [("Gaussian marginals", "paper"), ("MWEM", "paper")]
    high = [Line(np.arange(101), np.full(101, 1.0 + k), f"a long method name {k}", BLUE) for k in range(4)]
    early = Line(np.arange(26), np.full(26, 0.123), "MWEM", BLUE)
    labels = [note for note in drawn(*high, early, height=SMALL).layout.annotations if note.name]  # without values
    assert [(note.text, note.xref) for note in labels if "MWEM" in note.text] == [("MWEM", "paper")]


def test_a_label_says_where_its_line_stops_if_there_is_room() -> None:
    lines = [Line(np.arange(2), np.full(2, 1.0 + k), f"a method {k}", BLUE, until=9.0) for k in range(6)]
    few, many = ([note.text for note in drawn(*lines[:n]).layout.annotations if note.name] for n in (2, 6))
    assert [("until" in text) for text in few + many] == [True] * 2 + [False] * 6


def test_names_of_a_legend_are_broken_where_a_phone_ends() -> None:
    name = "home=owned, area=city, work=seeking, schooling=vocational,<br>age=45 to 59"
    wide = drawn(Line(np.arange(3), np.ones(3), name, BLUE), labels=False)
    (trace,) = compact(wide).data
    assert max(map(len, trace.name.split("<br>"))) <= 36 and trace.name.replace("<br>", " ") == name.replace(
        "<br>", " "
    )


def test_names_at_single_points_which_are_in_the_middle_of_a_small_frame_are_in_the_margin() -> None:
    lines = [Line(np.ones(1), np.full(1, 0.2 + k), f"DP-NAG {k}", BLUE) for k in range(2)]
    labels = [note for note in drawn(*lines, height=SMALL).layout.annotations if note.name]
    assert len(labels) == 2 and all(note.xref == "paper" for note in labels)


def test_an_end_is_about_zero_on_a_log_axis_only_below_what_it_shows() -> None:
    ends = {"a": 1000.0, "b": 0.003, "no privacy": 1e-9}
    lines = [Line(np.arange(2), np.array([1.0, end]), name, BLUE) for name, end in ends.items()]
    lines[-1] = replace(lines[-1], style=PLAIN)
    labels = " ".join(note.text for note in drawn(*lines, log_y=True, height=380).layout.annotations if note.name)
    assert "<b>0.003</b>" in labels and "<b>≈\u00a00</b>" in labels


def test_a_legend_of_many_rows_makes_a_figure_higher_and_its_frame_no_lower_on_a_phone() -> None:
    wide = drawn(*(Line(np.arange(3), np.full(3, k + 1.0), f"a method, stops at T = {k}", BLUE) for k in range(9)))
    assert wide.layout.showlegend
    phone = compact(wide).layout
    assert phone.height - wide.layout.height == phone.margin.b - wide.layout.margin.b == 8 * 20


@pytest.mark.parametrize("bound", ["upper", "lower"])
@pytest.mark.parametrize("lines", [1, 2])
def test_what_is_drawn_and_written_of_a_bound_is_on_its_side(bound: Bound, lines: int) -> None:
    """Of two lines that differ in length the values are in words of their own; both are read off and read out."""
    sign, steps = (1 if bound == "upper" else -1), np.arange(40)
    exact = [
        np.random.default_rng(i).uniform(0.1, 9, 40 - 3 * i) * 10.0 ** np.linspace(-2, 3, 40 - 3 * i) for i in (0, 1)
    ]
    curves = [
        Line(steps[:: i + 1][: len(y)], y[: len(steps[:: i + 1])], "ab"[i], BLUE) for i, y in enumerate(exact[:lines])
    ]
    figure = line_figure(curves, Axes("Step t", "Bound", log_y=True, bound=bound))
    for curve, trace in zip(curves, figure.data, strict=False):
        assert (sign * (trace.y - curve.y) >= -1e-6 * curve.y).all()
        np.testing.assert_allclose(trace.y, curve.y, rtol=1.1e-3)
        ends = [note.text for note in figure.layout.annotations if (note.text or "").startswith(curve.name)]
        told = [number(re.findall(r"[\d.,]+", re.sub("<.*?>", "", text))[-1]) for text in ends]
        assert told and all(sign * (one - curve.y[-1]) >= 0 for one in told)
    silent = [trace for trace in figure.data if trace.meta == "readout"]
    assert len(silent) == lines - 1
    for trace in silent:
        for x, words in zip(trace.x, trace.text, strict=True):
            for curve in curves:
                said = re.search(rf"{curve.name}: ([\d.,]+)", words)
                assert said is None or sign * (number(said[1]) - curve.y[list(curve.x).index(x)]) >= 0
    read_out = re.findall(r"(?:to|at|highest b,) ([\d.,]*\d)", alt_text(figure))
    last = sorted(curve.y[-1] for curve in curves)
    assert all(sign * (number(one) - other) >= 0 for one, other in zip(read_out, last, strict=False)) and read_out


@pytest.mark.parametrize("log_y", [True, False])
def test_huge_and_infinite_values_are_drawn_at_the_edge_and_nan_is_left_out(log_y: bool) -> None:
    y = np.array([np.nan, 1.0, 1e200, np.inf, np.nan])
    figure = drawn(Line(np.arange(5), y, "a", BLUE, low=y, high=y), log_y=log_y)
    for trace in figure.data:
        np.testing.assert_array_equal(trace.x, [1, 2, 3])
        assert trace.y.max() == np.float32(CEILING)
    assert "values above 10¹² shown at 10¹²" in notes(figure)


@pytest.mark.parametrize("log_x", [True, False])
def test_downsampling_keeps_ends_and_extremes(log_x: bool) -> None:
    rng = np.random.default_rng(0)
    x = np.arange(1, 50_001)
    y = rng.standard_normal(x.size).cumsum()
    y[31_234], y[77] = 1e4, -1e4
    position = np.log(x) if log_x else x
    kept = downsample(position, y)
    assert len(kept) <= MAX_POINTS and (np.diff(kept) > 0).all()
    assert {0, 77, 31_234, x.size - 1} <= set(kept.tolist())
    # Every bin keeps its lowest and highest value, so a line through the kept points covers the same heights.
    edges = np.linspace(position[0], position[-1], MAX_POINTS // 2)
    for low, high in pairwise(edges):
        inside = (position >= low) & (position < high)
        if inside.any():
            chosen = inside[kept]
            assert y[kept][chosen].min() == y[inside].min() and y[kept][chosen].max() == y[inside].max()


def test_lines_that_coincide_are_one_in_the_name_of_all() -> None:
    x, y = np.arange(3), np.arange(1.0, 4.0)
    overlay = Line(x, y, "bound", BLUE, width=1.0, legend=False)
    figure = drawn(Line(x, y, "a", BLUE), Line(x, y + 1, "b", BLUE), Line(x, y * (1 + 1e-12), "c", GREEN), overlay)
    assert [trace.name for trace in figure.data] == ["a = c", "b", "bound"]
    assert figure.data[0].meta == ("a", "c") and figure.data[0].line.color == BLUE.color
    apart = (Line(x, y * (1 + 1e-8), "b", BLUE), Line(x, y, "c", PLAIN), Line(x, y, "d", BLUE, low=y, high=y))
    assert len(drawn(Line(x, y, "a", BLUE), *apart).data) == 6, "other values, no privacy, a band"
    best = [Line(x, y, f"{name}: T* = 3", BLUE, group=name) for name in "ab"]
    assert drawn(*best).data[0].name == "a = b: T* = 3"
