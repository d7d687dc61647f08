"""Links that are short: by a preset's name, or packed; what hostile ones are told."""

from urllib.parse import parse_qs

import pytest
from streamlit.testing.v1 import AppTest

from dpviz.compare.pins import compress
from dpviz.ui import appearance, navigation
from tests.pages.conftest import APP
from tests.pages.reading import Load, charts, link, said

MANY = {
    "accel_uniform_rows": "2000",
    "accel_epsilon": "0.7",
    "accel_iterations": "42",
    "accel_batch_fraction": "0.25",
    "accel_regularisation": "0.05",
    "accel_replicates": "3",
    "accel_seed": "7",
    "accel_scaling": "[-½, ½]",
    "accel_methods": ["DP-GD", "DP-NAG-T*"],
}


def links(app: AppTest) -> list[str]:
    return [code.value for code in app.code if code.value.startswith(link(app).partition("?")[0] + "?")]


def given(address: str) -> dict[str, str | list[str]]:
    return {
        name: values if len(values) > 1 else values[0] for name, values in parse_qs(address.partition("?")[2]).items()
    }


def test_a_packed_link_restores_the_settings_and_is_shorter(load: Load) -> None:
    app = load("accelerated", **MANY)
    full, brief = links(app)
    assert set(given(brief)) == {"s"} and len(brief) < len(full)
    again = load("accelerated", **given(brief))
    assert link(again) == full and "s" not in again.query_params
    assert again.number_input(key="accel_iterations").value == 42


def test_a_link_that_names_a_preset_keeps_what_the_preset_does_not_set(load: Load) -> None:
    app = load("accelerated", accel_references="true")
    app.selectbox(key="accel_preset").set_value("Real data: doctor visits").run()
    full, brief = links(app)
    assert set(given(brief)) == {"preset", "accel_follow"} and given(brief)["accel_follow"] == "false"
    again = load("accelerated", **{"accel_references": "true"} | given(brief))
    assert link(again) == full


def test_an_address_of_before_a_preset_loses_none_of_its_settings(load: Load) -> None:
    """A change that leaves the browser before the preset's address has arrived there brings the old address."""
    app = load("accelerated", accel_seed="5")
    app.selectbox(key="accel_preset").set_value("Real data: doctor visits").run()
    app.query_params.clear()
    app.query_params["accel_seed"] = "5"
    app.number_input(key="accel_replicates").set_value(9.0).run()
    assert app.query_params == given(link(app)) and "accel_seed" not in app.query_params


@pytest.mark.one_section
def test_a_section_that_is_closed_keeps_its_settings_in_the_address(load: Load) -> None:
    app = load("budget_planner", planner_section="Solve for", planner_solve="Rows")
    app.segmented_control(key="planner_section").set_value("Background").run()
    assert app.query_params == {"planner_section": "Background", "planner_solve": "Rows"}


@pytest.mark.parametrize(
    "packed", ["", "%00<b>", compress("{}"), compress("[]"), compress("[1]"), compress("[" + "{}," * 20 + "{}]")]
)
def test_hostile_pins_of_a_short_link_get_a_sentence(load: Load, packed: str) -> None:
    app = load("accelerated", pins=packed)
    assert "A pin was left out." in said(app) and "pins" not in app.query_params


@pytest.mark.parametrize(
    "packed",
    [
        "",
        "!!!",
        "x" * 20_000,
        compress("&" * 9),
        compress("a=1&present=1"),
        compress("A b=1"),
        compress("&".join(["a=1"] * 400)),
    ],
    ids=range(7),
)
def test_a_hostile_packed_link_gets_a_sentence(load: Load, packed: str) -> None:
    app = load("home", s=packed)
    assert "This link could not be read." in said(app) and "s" not in app.query_params


def test_the_first_visitor_of_a_server_is_told_of_a_damaged_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(navigation, "_built", False)
    app = AppTest.from_file(str(APP), default_timeout=300)
    app.query_params["s"], app.query_params["accel_follow"] = "eJx", "false"
    app.switch_page("pages/accelerated.py").run()
    assert not app.exception and "This link could not be read." in said(app) and "s" not in app.query_params


def test_a_lecture_hall_has_large_charts_on_every_page_until_it_is_ended(load: Load) -> None:
    usual = heights(load("accelerated"))
    app = load("accelerated", present="1")
    assert heights(app) == {alt: pytest.approx(appearance.FACTOR * height, abs=1) for alt, height in usual.items()}
    app = load("home", present="1")
    app.button(key="present_end").click().run()
    assert not app.exception and "present" not in app.query_params
    assert not any(button.key == "present_end" for button in app.button)


def heights(app: AppTest) -> dict[str, float]:
    return {alt: spec["layout"]["height"] for alt, spec in charts(app).items()}


def test_the_link_can_be_one_for_a_lecture_hall_or_for_another_web_page(load: Load) -> None:
    app = load("accelerated", accel_epsilon="0.7")
    app.segmented_control(key="accel_link_use").set_value("Lecture hall").run()
    assert given(link(app))["present"] == "1"
    app.segmented_control(key="accel_link_use").set_value("Another web page").run()
    assert given(link(app))["embed"] == "true" and given(link(app))["accel_epsilon"] == "0.7"
