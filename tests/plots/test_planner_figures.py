"""Figures of the budget planner: the numbers they are given, on axes that suit them, with limits and marks in place."""

import numpy as np
import plotly.graph_objects as go
import pytest

from dpviz.plots import planner_figures
from dpviz.plots.elements import style
from dpviz.plots.planner_figures import (
    bars,
    budget_by_steps,
    error_by_budget,
    noise_by_rows,
    noise_by_steps,
    spent_by_steps,
)
from dpviz.privacy.accounting import accountants, closed_forms
from dpviz.privacy.accounting.accountants import METHOD_NAMES, METHODS
from dpviz.privacy.events import Laplace

DELTA = 1e-6
STEPS = np.array([1, 10, 50, 100])


def curves() -> dict[accountants.Method, np.ndarray]:
    events = (Laplace(0.1),) * 100
    found = {method: accountants.epsilon_curve(events, DELTA, method, tuple(STEPS.tolist())) for method in METHODS}
    return {method: curve for method, curve in found.items() if np.isfinite(curve[-1])}


def test_noise_by_steps_marks_the_chosen_number(check_finite) -> None:
    scales = 0.02 * STEPS
    figure = noise_by_steps(STEPS, scales, (50, 1.0), "b")
    check_finite(figure)
    line, mark = figure.data
    np.testing.assert_array_equal(line.x, STEPS)
    np.testing.assert_allclose(line.y, scales, rtol=1e-6)
    assert (mark.x[0], mark.y[0]) == (50, 1) and mark.text[0] == "T = 50: b = 1"
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    assert figure.layout.yaxis.title.text == "Noise scale b" and figure.layout.xaxis.title.text == "Number of steps T"


def test_a_number_of_steps_without_a_plan_is_a_gap(check_finite) -> None:
    steps = np.array([1, 2, 5, 10, 20, 50])
    figure = noise_by_steps(steps, np.array([np.nan, 0.2, 0.5, np.nan, 2.0, 5.0]), (50, 5.0), "b")
    check_finite(figure)
    first, second, _ = figure.data
    assert first.x.tolist() == [2, 5] and second.x.tolist() == [20, 50]
    assert [line.showlegend for line in (first, second)] == [False, True]
    none = noise_by_steps(steps, np.full(6, np.nan), (50, 5.0), "b")
    check_finite(none)


def test_noise_by_rows_meets_the_target_at_the_mark(check_finite) -> None:
    rows = np.geomspace(100, 10_000, 50)
    figure = noise_by_rows(rows, 100 / rows, 0.05, 2000, "σ")
    check_finite(figure)
    line, limit, mark = figure.data
    np.testing.assert_allclose(line.y, 100 / rows, rtol=1e-6)
    assert (limit.y == np.float32(0.05)).all() and limit.text[0] == "wanted: 0.05"
    assert (mark.x[0], mark.y[0], mark.text[0]) == (2000, np.float32(0.05), "n = 2,000")
    assert np.interp(2000, rows, line.y) == pytest.approx(0.05, rel=1e-2)


def test_spent_by_steps_emboldens_the_tightest(check_finite) -> None:
    found = curves()
    figure = spent_by_steps(STEPS, found, DELTA, limit=4.0, affordable=73)
    check_finite(figure)
    *lines, limit, mark = figure.data
    assert [line.name.removesuffix(" (tightest)") for line in lines] == [METHOD_NAMES[method] for method in found]
    (bold,) = [line for line in lines if line.name.endswith("(tightest)")]
    assert bold.name.startswith("privacy loss distribution")  # TV57: 4.6927, the least of all
    assert bold.y[-1] == pytest.approx(4.69266743745, rel=2e-3)
    assert bold.line.width > max(line.line.width for line in lines if line is not bold)
    assert len({(line.line.dash, line.line.color) for line in lines}) == len(lines)
    assert limit.text[0] == "budget ε = 4" and (mark.x[0], mark.y[0]) == (73, 4)
    assert mark.text[0] == "the budget lasts 73 steps"
    assert figure.layout.yaxis.title.text == "ε at δ = 10⁻⁶" and figure.layout.yaxis.rangemode == "tozero"


def test_spent_by_steps_without_a_limit_or_without_any_curve(check_finite) -> None:
    assert len(spent_by_steps(STEPS, curves(), DELTA).data) == len(curves())
    none_left = spent_by_steps(STEPS, curves(), DELTA, limit=0.01, affordable=0)
    assert not any((trace.text or [""])[0].startswith("the budget lasts") for trace in none_left.data)
    empty = spent_by_steps(STEPS, {}, DELTA, limit=1.0, affordable=3)
    assert not empty.data and empty.layout.annotations[0].text == "No accountant gives a finite ε for this noise."


def test_budget_by_steps_meets_the_budget_where_it_is_used_up(check_finite) -> None:
    figure = budget_by_steps(STEPS, 0.04 * STEPS, "Privacy spent, ε (Pure ε)", "ε", 2.0, 50)
    check_finite(figure)
    line, limit, mark = figure.data
    assert np.interp(50, line.x, line.y) == pytest.approx(2.0) and limit.text[0] == "budget ε = 2"
    assert (mark.x[0], mark.y[0], mark.text[0]) == (50, 2, "the budget lasts 50 steps")
    never = budget_by_steps(STEPS, np.full(len(STEPS), np.inf), "Privacy spent, ε (Pure ε)", "ε", 2.0, 0)
    assert not never.data and "no guarantee in the currency" in never.layout.annotations[0].text


def test_bars_compare_lengths_and_one_stands_out() -> None:
    values = {"basic composition": 15.8565, "zCDP": 8.8646, "privacy loss distribution": 5.2352}
    figure = bars(values, "ε", "privacy loss distribution")
    (trace,) = figure.data
    assert trace.x.dtype == np.float32
    assert list(trace.y) == list(values) and figure.layout.yaxis.autorange == "reversed"  # the first on top
    np.testing.assert_allclose(trace.x, list(values.values()), rtol=1e-6)
    assert list(trace.text) == ["15.9", "8.86", "5.24"] and figure.layout.xaxis.title.text == "ε"
    assert list(trace.marker.color) == [style.GREY, style.GREY, style.PALETTE["private"]]
    assert figure.layout.xaxis.type in (None, "linear") and figure.layout.xaxis.rangemode == "tozero"


def test_bars_grow_with_their_number_and_carry_a_unit() -> None:
    many = bars({f"analysis {k}": 5.0 for k in range(20)}, "Share [%]", unit=" %")
    assert many.layout.height > bars({"one": 1.0}, "Share [%]").layout.height
    assert set(many.data[0].text) == {"5 %"} and set(many.data[0].marker.color) == {style.GREY}


def test_the_name_of_a_bar_is_text_and_leaves_room_for_the_bar() -> None:
    """Plotly would make a link of it, in the chart of everybody who opens the address that holds it."""
    names = ['<a href="https://e.example">x</a>', "R&D", "n" * 60]
    figure = bars(dict.fromkeys(names, 1.0), "Rows needed")
    assert list(figure.data[0].y) == names and "<" not in str(figure.layout.yaxis.ticktext + figure.data[0].hovertext)
    assert figure.layout.yaxis.ticktext[1] == "R&amp;D" and len(figure.layout.yaxis.ticktext[2]) < 50
    assert figure.data[0].hovertext[2] == names[2] and "%{y}" not in figure.data[0].hovertemplate


def test_error_by_budget_marks_the_smallest_budget(check_finite) -> None:
    amounts = np.geomspace(0.01, 10, 24)
    figure = error_by_budget(amounts, 0.1 / amounts, "ε", "excess loss", 0.2, 0.5)
    check_finite(figure)
    line, limit, mark = figure.data
    np.testing.assert_allclose(line.y, 0.1 / amounts, rtol=1e-6)
    assert line.line.color == style.PALETTE["theory"] and limit.text[0] == "wanted: 0.2"
    assert mark.x[0] == 0.5 and mark.y[0] == pytest.approx(0.2) and mark.text[0] == "ε = 0.5"
    assert figure.layout.yaxis.title.text == "Bound on the excess loss" and figure.layout.xaxis.title.text == "Budget ε"
    assert len(error_by_budget(amounts, 0.1 / amounts, "ε", "excess loss", 0.2, None).data) == 2


def test_the_trade_off_lies_between_guessing_and_the_guarantee(check_finite) -> None:
    rates = planner_figures.RATES
    guarantee = closed_forms.pure_tradeoff(1.0, rates)
    figure = planner_figures.tradeoff(guarantee, closed_forms.laplace_tradeoff(1.0, rates))
    check_finite(figure)
    guessing, promised, plan = figure.data
    assert (guessing.y >= plan.y - 1e-6).all() and (plan.y >= promised.y - 1e-6).all()
    assert len(planner_figures.tradeoff(guarantee).data) == 2


def test_every_figure_is_small() -> None:
    found = curves()
    figures: list[go.Figure] = [
        noise_by_steps(STEPS, 0.1 * STEPS, (50, 5.0), "b"),
        noise_by_rows(np.geomspace(1, 1e7, 50), np.geomspace(1, 1e-7, 50), 0.1, 10, "b"),
        spent_by_steps(STEPS, found, DELTA, 4.0, 73),
        bars({METHOD_NAMES[method]: curve[-1] for method, curve in found.items()}, "ε"),
        error_by_budget(np.geomspace(0.01, 10, 24), np.geomspace(1, 0.1, 24), "ε", "gap", 0.2, 0.5),
    ]
    assert all(len(figure.to_json()) < 20_000 for figure in figures)
