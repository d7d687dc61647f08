"""Widgets from declared ranges: grids, the pair of slider and input, mistakes shown in place, addresses."""

import math

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import SelectSlider

from dpviz import families
from dpviz.privacy.budgets import PureDP
from dpviz.specification import Control, Specification, registered
from dpviz.ui.controls import grid, input_error, nearest

families.load_all()
DECLARED = [
    pytest.param(control, id=f"{cls.kind}.{control.name}")
    for cls in registered(Specification)
    for control in cls.controls()
    if control.low is not None
]


@pytest.mark.parametrize("control", DECLARED)
def test_a_grid_is_sorted_keeps_to_the_range_and_contains_both_ends_and_the_default(control: Control) -> None:
    points = grid(control)
    if not points:
        assert control.high is not None and control.high - control.low > 1000
        return
    assert list(points) == sorted(set(points)) and len(points) <= 110
    assert points[0] == control.low and points[-1] == control.high
    assert control.default is None or control.default in points
    if control.type is int:
        assert all(isinstance(point, int) for point in points)


def test_the_nearest_point_is_so_by_ratio_on_a_logarithmic_grid() -> None:
    assert nearest((1.0, 100.0), 9.0) == 1.0 and nearest((1.0, 100.0), 11.0) == 100.0
    assert nearest((1.0, 100.0), -5.0) == 1.0  # out of range, as a user can type it
    assert nearest((-1.0, 0.0, 1.0), 0.4) == 0.0


def test_a_number_out_of_range_is_named_in_a_sentence() -> None:
    (epsilon,) = PureDP.controls()
    assert input_error(epsilon, 0.0) == input_error(epsilon, -3.0) == "Privacy budget must be between 0.01 and 50."
    assert input_error(epsilon, math.inf) and input_error(epsilon, None) and not input_error(epsilon, 2.0)


def script() -> None:
    import streamlit as st

    from dpviz.families.accelerated import HeavyBall
    from dpviz.privacy.budgets import ApproximateDP
    from dpviz.problems.linear.linear_models import LogisticRegression
    from dpviz.ui.controls import Panel

    panel = Panel("p")
    values = panel.draw_controls(ApproximateDP, ["epsilon", "delta"])
    values |= panel.draw_controls(HeavyBall, ["iterations", "noise", "momentum_rule"], prefix="hb_")
    values |= panel.draw_controls(LogisticRegression, ["clip"])
    values["on"] = panel.switch("on", "On", False, "Help.")
    values["several"] = panel.several("several", "Several", ["a", "b"], ["a"], "Help.")
    st.session_state["values"], st.session_state["query"] = values, panel.query


@pytest.fixture
def app() -> AppTest:
    return AppTest.from_function(script, default_timeout=300).run()


def test_values_are_the_declared_defaults_and_the_address_is_empty(app: AppTest) -> None:
    assert not app.exception
    values = app.session_state["values"]
    assert values == {
        "epsilon": 2.0,
        "delta": 1e-6,
        "iterations": 100,
        "noise": "laplace",
        "momentum_rule": "nesterov",
        "clip": None,
        "on": False,
        "several": ["a"],
    }
    assert isinstance(values["iterations"], int)
    assert app.session_state["query"] == {}
    assert app.number_input(key="p_clip").value is None


def test_the_slider_shows_the_number_beside_it_and_leads_away_from_it(app: AppTest) -> None:
    """On a grid of 1, 2, 5 the nearest point to 30 is 20, which is another experiment."""

    def slider() -> SelectSlider:
        return app.select_slider(key="p_hb_iterations_slider")

    number = app.number_input(key="p_hb_iterations")
    number.set_value(30).run()
    assert not app.exception and slider().value == 30 and "30" in slider().options
    slider().set_value(200).run()  # the points stay where they are while the slider is dragged
    assert app.number_input(key="p_hb_iterations").value == 200 and "30" in slider().options
    number.set_value(37).run()
    assert slider().value == 37 and "37" in slider().options and "30" not in slider().options
    number.set_value(50).run()
    assert slider().value == 50
    number.set_value(20_000).run()  # out of range: said below, and no point of the slider
    assert slider().value == 10_000 and "20,000" not in slider().options and app.error


@pytest.mark.parametrize("text", ["1e400", "-inf", "nan", "many", ""])
def test_an_address_with_nonsense_falls_back_to_the_default(text: str) -> None:
    app = AppTest.from_function(script, default_timeout=300)
    app.query_params["p_hb_iterations"] = text
    app.run()
    assert not app.exception and app.session_state["values"]["iterations"] == 100


def test_the_address_restores_every_kind_of_control(app: AppTest) -> None:
    app.number_input(key="p_delta").set_value(1e-8)
    app.number_input(key="p_clip").set_value(3.0)
    app.segmented_control(key="p_hb_noise").set_value("gaussian")
    app.selectbox(key="p_hb_momentum_rule").set_value("polyak")
    app.toggle(key="p_on").set_value(True)
    app.pills(key="p_several").set_value(["a", "b"])
    app.run()
    assert not app.exception
    again = AppTest.from_function(script, default_timeout=300)
    for name, value in app.session_state["query"].items():
        again.query_params[name] = value
    again.run()
    assert not again.exception
    assert again.session_state["values"] == app.session_state["values"]
    assert set(app.session_state["query"]) == {
        "p_delta",
        "p_clip",
        "p_hb_noise",
        "p_hb_momentum_rule",
        "p_on",
        "p_several",
    }
