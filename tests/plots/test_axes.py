"""Axes: what they open with, how their numbers are written, when a zoom no longer fits."""

import math

import numpy as np
import pytest

from dpviz.plots.elements.axes import Range, axis, hover_format, log_ticks, y_range


@pytest.mark.parametrize(
    ("low", "high", "plain"), [(1e-3, 10, True), (3e-5, 1e6, True), (1e-6, 1, False), (1, 1e9, False)]
)
def test_numbers_are_written_without_exponents_where_they_can_be(low: float, high: float, plain: bool) -> None:
    shown = Range(np.log10(low), np.log10(high), True)
    found = axis("Loss", True, shown)
    assert found.get("tickformat") == (",~r" if plain else None) and found["exponentformat"] == "power"
    assert hover_format(shown) == ("%{y:,.3~r}" if plain else "%{y}")
    assert found["separatethousands"]


@pytest.mark.parametrize("decades", np.arange(0.23, 12.0, 0.05).round(2).tolist())
@pytest.mark.parametrize("across", [True, False])
def test_log_axes_have_a_few_labels_at_powers_of_ten(decades: float, across: bool) -> None:
    found = log_ticks(Range(-1.3, -1.3 + decades, True), across)
    assert "minor" not in found, "strokes would touch the labels"
    rough = decades / found["nticks"]  # what Plotly chooses by
    if decades > 2.1:
        every = math.ceil(rough)
        assert rough > 0.7 and every <= 3 and 2 < decades / every <= 6, "powers of ten alone"
    elif decades >= 1 and across:
        assert 2 <= sum(-1.3 <= math.log10(value) <= decades - 1.3 for value in found["tickvals"]) <= 5
        assert found["ticktext"][:4] == ["0.001", "0.003", "0.01", "0.03"]
    else:
        assert rough <= 0.7, "digits between the powers of ten have labels, too"


def test_numbers_with_exponents_between_two_powers_of_ten_are_written_in_full() -> None:
    found = log_ticks(Range(-7.5, -6.0, True))
    assert "3×10⁻⁷" in found["ticktext"] and "tickformat" not in found


def test_a_zoom_is_kept_until_the_data_are_others() -> None:
    values = np.array([0.1, 0.5, 2.0])
    first, same, other = (axis("Loss", True, y_range(v, True, False)) for v in (values, values, 10 * values))
    assert first["uirevision"] == same["uirevision"] != other["uirevision"]


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
