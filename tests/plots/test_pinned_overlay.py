"""Ghosts: what is kept of a picture, and how it stands beneath another one."""

import numpy as np
import plotly.graph_objects as go
import pytest

from dpviz.plots import pinned_overlay
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.labels import compact
from dpviz.plots.elements.lines import Line, line_figure
from dpviz.plots.elements.style import GREY, ArmStyle
from dpviz.ui import charts

BLUE, RED, FLOOR = ArmStyle("#0072B2", "solid"), ArmStyle("#D55E00", "dash"), ArmStyle(GREY, "dot", reference=True)


def figure(
    end: float, steps: int = 10, y_title: str = "Loss", not_private: bool = True, floor: bool = True
) -> go.Figure:
    x = np.arange(steps + 1)
    lines = [Line(x, np.geomspace(1.0, end, len(x)), "A", BLUE), Line(x, np.geomspace(1.0, 2 * end, len(x)), "B", RED)]
    lines += [Line(x, np.geomspace(1.0, end / 9, len(x)), "A, no privacy", FLOOR)] if floor else []
    return line_figure(lines, Axes("Step t", y_title, log_y=True), not_private=not_private, height=380)


def names(drawn: go.Figure) -> list[str]:
    return [trace.name for trace in drawn.data if trace.opacity == pinned_overlay.OPACITY]


def test_ghosts_are_faint_dotted_lines_of_the_same_hue_beneath_the_lines_with_labels_at_their_ends() -> None:
    kept = pinned_overlay.pinned_parts(figure(0.5, steps=20), {"A, no privacy"})
    drawn = pinned_overlay.with_pinned(figure(0.1), [("Pin 1", kept)])
    assert names(drawn) == ["Pin 1: A", "Pin 1: B"] == [trace.name for trace in drawn.data[:2]]
    for trace, color in zip(drawn.data, (BLUE.color, RED.color), strict=False):
        assert (trace.line.color, trace.line.dash, trace.opacity) == (color, "dot", pinned_overlay.OPACITY)
    np.testing.assert_allclose(drawn.data[0].y, np.geomspace(1.0, 0.5, 21), rtol=1e-6)
    assert "Pin 1: A" in set(charts.numbers(drawn)["curve"])
    others = [Line(np.arange(11), np.linspace(1.0, 0.9 - k / 20, 11), f"C{k}", BLUE) for k in range(15)]
    kept = pinned_overlay.pinned_parts(line_figure(others, Axes("Step t", "Loss", log_y=True), labels=False), ())
    labels = [note.text for note in pinned_overlay.with_pinned(figure(0.1), [("P", kept)]).layout.annotations]
    named = [k for k in range(15) if any(f"P: C{k}\u2002" in (text or "") for text in labels)]
    assert named == [*range(15 - len(named), 15)] and named, "the lowest ones"


def test_a_ghost_of_a_line_whose_end_is_thin_has_the_first_part_too() -> None:
    x, y = np.arange(5), np.linspace(1.0, 0.5, 5)
    parts = [Line(x[:3], y[:3], "A", BLUE, legend=False), Line(x[2:], y[2:], "A", BLUE, width=1.0)]
    drawn = line_figure([*parts, Line(x[:1], y[:1], "a point", RED)], Axes("", ""))
    line, point = pinned_overlay.pinned_parts(drawn, ()).pinned_lines
    np.testing.assert_array_equal(line.x, [0, 1, 2, 2, 3, 4])
    assert line.y[0] == 1 and len(point.x) == 1


def test_the_axis_grows_to_hold_a_ghost_but_not_for_ever() -> None:
    own = figure(0.1, floor=False)
    low, high = own.layout.yaxis.range
    above = pinned_overlay.with_pinned(own, [("P", pinned_overlay.pinned_parts(figure(50.0, floor=False), ()))])
    assert above.layout.yaxis.range[1] >= 2 > high and above.layout.yaxis.range[0] == low
    below = pinned_overlay.with_pinned(own, [("P", pinned_overlay.pinned_parts(figure(1e-11, floor=False), ()))])
    assert low - 2.2 < below.layout.yaxis.range[0] < low - 2
    assert below.layout.yaxis.uirevision != own.layout.yaxis.uirevision  # a kept zoom would hide it


def test_a_legend_names_only_ghosts_of_methods_that_the_picture_does_not_show() -> None:
    lines = [Line(np.arange(3), np.full(3, k + 1.0), f"method {k}", BLUE) for k in range(16)]
    own, other = (
        line_figure(part, Axes("Step t", "Loss", log_y=True), labels=False) for part in (lines[:8], lines[8:])
    )
    heights = [own.layout.height + 4 * 20 * is_named for is_named in (False, True)]
    for pinned, is_named in ((own, False), (other, True)):
        drawn = pinned_overlay.with_pinned(own, [("P", pinned_overlay.pinned_parts(pinned, ()))])
        assert drawn.layout.height == heights[is_named] and len(names(drawn)) == 8
        assert (compact(drawn).layout.height > compact(own).layout.height) == is_named


@pytest.mark.parametrize(("own", "kept"), [(False, True), (True, False), (False, False)])
def test_ghosts_that_read_raw_data_carry_their_mark_with_them(own: bool, kept: bool) -> None:
    drawn = pinned_overlay.with_pinned(
        figure(0.1, not_private=own), [("P", pinned_overlay.pinned_parts(figure(0.5, not_private=kept), ()))]
    )
    assert sum(note.name == "not private" for note in drawn.layout.annotations) == (own or kept)
