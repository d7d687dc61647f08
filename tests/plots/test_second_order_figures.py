"""Figures of the second-order family, on traces that are made by hand."""

import numpy as np
import plotly.graph_objects as go
import pytest

from dpviz.experiments.algorithm import Snapshot
from dpviz.experiments.trace import Trace
from dpviz.families.second_order import figures
from dpviz.families.second_order.methods.releases import KIND
from dpviz.plots import clouds as landscape
from dpviz.plots.elements.style import PALETTE, ArmStyle
from dpviz.plots.elements.words import alt_text
from dpviz.problems.base import Metric
from dpviz.ui import charts

LOOK = {"A": ArmStyle(PALETTE["private"], "solid"), "B": ArmStyle(PALETTE["theory"], "dash")}
METRICS = (
    Metric("norm", "Noisy gradient norm", released=True, scale="log"),
    Metric("curvature", "Noisy curvature", released=True),
    KIND,
    Metric("rho_gradient", "ρ", released=True),
    Metric("rho_hessian", "ρ", released=True),
)
NAN = np.nan


@pytest.fixture
def trace() -> Trace:
    """Two runs: the first stops in step 2, the second takes a curvature step in step 1 and goes on to step 4."""
    found = Trace({"A": METRICS})
    kinds = [[NAN, NAN], [0, 1], [2, 0], [2, 0], [2, 2]]
    curvatures = [[NAN, NAN], [NAN, -0.5], [0.1, NAN], [0.1, NAN], [0.1, 0.2]]
    active = [[True, True], [True, True], [False, True], [False, True], [False, False]]
    for t in range(5):
        snapshot = Snapshot(
            t,
            {"x": np.zeros((2, 3))},
            {
                "norm": np.array([NAN, NAN]) if t == 0 else np.array([0.5 / min(t, 2), 1.0 / t]),
                "curvature": np.array(curvatures[t]),
                KIND.name: np.array(kinds[t]),
                "rho_gradient": np.array([min(t, 2), t]) * 0.01,
                "rho_hessian": np.array([0.01 * (t >= 2), 0.01 * (t >= 1)]),
            },
            active=np.array(active[t]),
        )
        found.arm_traces["A"].update_stops(snapshot)
        found.arm_traces["A"].append(snapshot, {}, 0.0)
    return found


def points(figure: go.Figure) -> dict[str, list[tuple[int, float]]]:
    return {
        trace.name: [(x, round(y, 4)) for x, y in zip(trace.x.tolist(), trace.y.tolist(), strict=True)]
        for trace in figure.data
        if trace.mode == "markers"
    }


def test_every_step_of_every_run_is_a_marker_of_its_kind_and_a_run_that_ended_has_no_more(trace: Trace) -> None:
    figure = figures.stopping_test(trace, "A", "norm", 0.3, log_y=True).figure
    assert points(figure) == {
        "gradient step": [(1, 0.5), (2, 0.5), (3, 0.3333)],
        "curvature step": [(1, 1.0)],
        "stop": [(2, 0.25), (4, 0.25)],
    }
    assert len({trace.marker.symbol for trace in figure.data if trace.mode == "markers"}) == 3  # not by colour alone
    (tolerance,) = [trace for trace in figure.data if "lines" in trace.mode]
    assert tolerance.text[0] == "tolerance 0.3" and (tolerance.y == np.float32(0.3)).all()
    assert "gradient step 3, curvature step 1, stop 2" in alt_text(figure)


def test_the_curvature_shows_only_where_it_was_asked_for(trace: Trace) -> None:
    figure = figures.stopping_test(trace, "A", "curvature", -0.2, log_y=False).figure
    assert points(figure) == {"curvature step": [(1, -0.5)], "stop": [(2, 0.1), (4, 0.2)]}
    empty = figures.stopping_test(Trace({"A": METRICS}), "A", "curvature", -0.2, log_y=False).figure
    assert not empty.data and "never asked" in alt_text(empty)


def test_the_budget_is_split_by_purpose_below_the_ceiling(trace: Trace) -> None:
    purposes = {"rho_gradient": "gradients", "rho_hessian": "Hessians", "rho_search": "line search"}
    figure = figures.spent_by_purpose(trace, "A", purposes, 0.1, charged_before=0.005).figure
    ends = {area.name: float(area.y[-1]) for area in figure.data if area.stackgroup}
    assert ends == pytest.approx({"function value": 0.005, "gradients": 0.03, "Hessians": 0.01})
    assert figure.data[-1].name == "ceiling" and "used 45 % of the ceiling 0.1" in figure.layout.annotations[0].text


def test_the_landscape_has_a_dot_for_every_run_and_keeps_who_left_at_its_edge() -> None:
    x, y = np.linspace(-2, 2, 5), np.linspace(-1, 1, 3)
    ground = landscape.Ground(x, y, np.add.outer(y**2, x**2))
    clouds = {
        "A": landscape.Cloud(np.array([[0.0, 0.5], [9.0, -9.0]]), np.zeros((3, 2))),
        "B": landscape.Cloud(np.zeros((2, 2)), np.zeros((3, 2))),
    }
    figure = landscape.contours(ground, clouds, LOOK, ("x", "y"))
    dots = {trace.name: trace for trace in figure.data[1:] if trace.mode == "markers"}
    assert dots["A"].x.tolist() == [0.0, 2.0] and dots["A"].y.tolist() == [0.5, -1.0]
    assert dots["A"].marker.symbol != dots["B"].marker.symbol
    assert [note.name for note in figure.layout.annotations] == ["not private"]
    ways = {f"{label}, way of the first run" for label in clouds}
    assert set(charts.numbers(figure)["curve"]) == {*clouds, *ways} and "A 2, B 2" in alt_text(figure)
