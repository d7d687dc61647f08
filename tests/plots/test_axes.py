"""Axes: what they open with, how their numbers are written, when a zoom no longer fits."""

import numpy as np
import pytest

from dpviz.plots.elements.axes import y_range


@pytest.mark.parametrize(("log", "from_zero"), [(True, False), (False, True), (False, False)])
def test_a_range_shows_everything_with_room_above(log: bool, from_zero: bool) -> None:
    values = np.array([0.01, 3.0, 7.0])
    shown = y_range(values, log, from_zero, above=0.1)
    places = [shown.place(value) for value in values]
    assert min(places) >= 0 and max(places) < 0.9 and places == sorted(places)
    assert (shown.low == 0) == from_zero


def test_values_that_are_all_the_same_have_a_range() -> None:
    for values, log in ((np.ones(3), True), (np.zeros(2), False), (np.zeros(2), True), (np.full(2, -3.0), False)):
        shown = y_range(values, log, False)
        assert shown.low < shown.high
