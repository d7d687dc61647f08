"""Figures of the budget planner: the numbers they are given, on axes that suit them, with limits and marks in place."""

import numpy as np
import plotly.graph_objects as go
import pytest

from dpviz.plots import planner_figures
from dpviz.plots.planner_figures import bars, budget_by_steps, noise_by_rows, noise_by_steps, proven_error
from dpviz.privacy.accounting import accountants, closed_forms
from dpviz.privacy.accounting.accountants import METHODS
from dpviz.privacy.events import Laplace

DELTA = 1e-6
STEPS = np.array([1, 10, 50, 100])
NEXT = STEPS[np.searchsorted(STEPS, np.arange(1, 101))]  # of which a staircase has the value, at each step
ROWS, AMOUNTS, RATES = np.geomspace(100, 10_000, 50), np.geomspace(0.01, 10, 24), planner_figures.RATES


@pytest.mark.parametrize(
    ("figure", "y", "limit", "mark"),
    [
        (noise_by_steps(STEPS, 0.02 * STEPS, (50, 1.0), "b"), 0.02 * STEPS, None, (50, 1.0)),
        (noise_by_rows(ROWS, 100 / ROWS, 0.05, 2000, "σ"), 100 / ROWS, 0.05, (2000, 0.05)),
        (budget_by_steps(STEPS, 0.04 * STEPS, "Pure ε", "ε", 2.0, 50), 0.04 * NEXT, 2.0, (50, 2.0)),
        (proven_error(AMOUNTS, 0.1 / AMOUNTS, "ε", "loss", 0.2, (0.5, 0.2, "here")), 0.1 / AMOUNTS, 0.2, (0.5, 0.2)),
        (proven_error(AMOUNTS, 0.1 / AMOUNTS, "ε", "loss", 0.2, None), 0.1 / AMOUNTS, 0.2, None),
        (planner_figures.price(AMOUNTS, 1 / AMOUNTS, 1.0, (0.5, 2.0), "Bound"), 1 / AMOUNTS, None, (0.5, 2.0)),
    ],
    ids=["noise by steps", "noise by rows", "budget by steps", "error by budget", "unreached", "price"],
)
def test_a_curve_has_its_values_its_limit_and_its_mark(
    figure: go.Figure, y: np.ndarray, limit: float | None, mark: tuple[float, float] | None
) -> None:
    line, *others = figure.data
    np.testing.assert_allclose(line.y, y, rtol=1.1e-3)  # bounds have four digits, rounded up
    assert (line.y >= y * (1 - 1e-6)).all()
    if limit is not None:
        assert set(others[0].y) == {np.float32(limit)}
    if mark is None:
        assert len(others) == 1
    else:
        assert (others[-1].x[0], others[-1].y[0]) == pytest.approx(mark)


def test_a_number_of_steps_without_a_plan_is_a_gap_and_without_a_guarantee_there_is_no_curve() -> None:
    noise = np.array([np.nan, 0.2, 0.5, np.nan, 2.0, 5.0])
    first, second, _ = noise_by_steps(np.array([1, 2, 5, 10, 20, 50]), noise, (50, 5.0), "b").data
    assert first.x.tolist() == [2, 5] and second.x.tolist() == [20, 50]
    assert not budget_by_steps(STEPS, np.full(len(STEPS), np.inf), "Pure ε", "ε", 2.0, 0).data
    assert not planner_figures.spent_by_steps(STEPS, {}, DELTA, limit=1.0, affordable=3).data


def test_spent_by_steps_emboldens_the_tightest() -> None:
    events = (Laplace(0.1),) * 100
    curves = {method: accountants.epsilon_curve(events, DELTA, method, tuple(STEPS.tolist())) for method in METHODS}
    curves = {method: curve for method, curve in curves.items() if np.isfinite(curve[-1])}
    *lines, limit, mark = planner_figures.spent_by_steps(STEPS, curves, DELTA, limit=4.0, affordable=73).data
    (bold,) = [line for line in lines if line.name.endswith("(tightest)")]
    assert bold.name.startswith("privacy loss distribution")  # TV57: 4.6927, the least of all
    assert bold.y[-1] == pytest.approx(4.69266743745, rel=2e-3)
    assert bold.line.width > max(line.line.width for line in lines if line is not bold)
    assert len({(line.line.dash, line.line.color) for line in lines}) == len(lines) == len(curves)
    assert (mark.x[0], mark.y[0]) == (73, 4) and set(limit.y) == {4}
    none_left = planner_figures.spent_by_steps(STEPS, curves, DELTA, limit=0.01, affordable=0)
    assert len(none_left.data) == len(curves) + 1


def test_the_name_of_a_bar_is_text_and_its_length_the_value() -> None:
    """Plotly would make a link of it, in the chart of everybody who opens the address that holds it."""
    names = ['<a href="https://e.example">x</a>', "R&D", "n" * 60]
    figure = bars(dict(zip(names, (15.8565, 8.8646, 5.2352), strict=True)), "Rows needed")
    assert list(figure.data[0].y) == names and "<" not in str(figure.layout.yaxis.ticktext + figure.data[0].hovertext)
    assert figure.layout.yaxis.ticktext[1] == "R&amp;D" and len(figure.layout.yaxis.ticktext[2]) < 50
    assert figure.data[0].hovertext[2] == names[2] and "%{y}" not in figure.data[0].hovertemplate
    np.testing.assert_allclose(figure.data[0].x, [15.8565, 8.8646, 5.2352], rtol=1e-6)


def test_the_trade_off_lies_between_guessing_and_the_guarantee() -> None:
    guarantee = closed_forms.pure_tradeoff(1.0, RATES)
    figure = planner_figures.tradeoff(guarantee, closed_forms.laplace_tradeoff(1.0, RATES))
    guessing, promised, plan = figure.data
    assert (guessing.y >= plan.y - 1e-6).all() and (plan.y >= promised.y - 1e-6).all()
