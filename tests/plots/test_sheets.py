"""The sheet on which a reader draws: places and values are inverse, axes have room, the curve begins at its start."""

import numpy as np
import pytest

from dpviz.lessons.lesson import Curve, LessonAxes
from dpviz.plots import lesson_figures
from dpviz.plots.elements.sheets import FixedAxis


@pytest.mark.parametrize(
    "ruler", [FixedAxis("x", 0.0, 100.0, False), FixedAxis("x", -0.3, 7.5, False), FixedAxis("y", -3.0, 1.0, True)]
)
def test_places_and_values_are_inverse_and_ticks_are_round(ruler: FixedAxis) -> None:
    places = np.linspace(0, 1, 7)
    assert ruler.place(ruler.value(places)) == pytest.approx(places)
    assert 2 <= len(ruler.ticks) <= 7
    assert "-0" not in dict(ruler.ticks).values()
    for place, label in ruler.ticks:
        assert ruler.value(np.array(place)) == pytest.approx(float(label), abs=1e-12)


def test_a_drawn_curve_begins_where_the_known_one_does_and_ends_at_the_reach() -> None:
    known = Curve(np.array([0.0, 10.0, 20.0]), np.array([0.2, 0.1, 0.05]))
    axes, frame, names = LessonAxes("Step t", "Loss"), ((0.0, 200.0), (0.001, 10.0)), ("T = 20", "T = 200")
    sheet = lesson_figures.sheet((known,), names, axes, frame)
    x, y = sheet.curve([0.5] * len(sheet.handles))
    assert (x[0], x[-1], y[0]) == pytest.approx((0.0, 200.0, 0.2))
    assert [float(sheet.y.value(np.array(end))) for end in (0.0, 1.0)] == pytest.approx([0.001, 10.0])
    told = lesson_figures.before_and_after((known,), (), names, axes, frame).layout  # the axes of other predictions
    assert told.yaxis.range == pytest.approx((sheet.y.low, sheet.y.high))
    assert told.xaxis.range == pytest.approx((0.0, 200.0)) and told.margin.r == sheet.margin
