"""A schedule of one's own on the page: link, table, handles, shapes, and what it is worth."""

import json

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.experiments.experiment import Experiment
from dpviz.families.accelerated import presets, theory
from dpviz.families.accelerated.comparison import compare
from dpviz.numbers import short
from dpviz.privacy.budgets import PureDP
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.ui.accelerated.page import PAGE
from tests.pages.reading import Load, link, metrics, said, text, type_into, typed, words

KNOTS = (0.9, 0.5, 0.0, 0.0, -0.25, -0.9)
OWN = {
    "accel_data": "Quadratic test bench",
    "accel_schedule": "Your own",
    "accel_methods": "DP-GD",
    "accel_knots": "0.9,0.5,0,0,-0.25,-0.9",
}
NOISE = "Noise, first → last step"


def handles(app: AppTest) -> list[float]:
    """Where the page puts the handles."""
    (found,) = [part for part in app.get("bidi_component") if "handles" in part.proto.json]
    places: list[float] = json.loads(found.proto.json)["values"]
    return [round((2 * place - 1) * theory.LIMIT, 6) for place in places]


def in_table(app: AppTest) -> list[float]:
    return [box.value for box in typed(app, "accel_own_table")]


def type_into_table(app: AppTest, cells: dict[int, float], **stale: str) -> AppTest:
    return type_into(app, "accel_own_table", cells, stale)


def test_a_link_brings_the_shape_and_the_page_gives_it_back(load: Load) -> None:
    app = load("accelerated", **OWN)
    assert not app.error and not app.warning
    assert app.text_input(key="accel_knots").value == "0.9,0.5,0,0,-0.25,-0.9"
    assert handles(app) == list(KNOTS)
    assert in_table(app) == list(KNOTS)
    assert "accel_knots=0.9%2C0.5%2C0%2C0%2C-0.25%2C-0.9" in link(app) or OWN["accel_knots"] in link(app)
    first, last = metrics(app)[NOISE].split(" → ")
    assert np.log10(float(first) / float(last)) == pytest.approx(KNOTS[0] - KNOTS[-1], abs=0.02)


def test_at_once_it_says_what_the_shape_is_worth(load: Load) -> None:
    app = load("accelerated", **OWN)
    method = presets.METHODS["DP-GD"].replaced(schedule="own", knots=KNOTS)
    found = compare(method, method.plan(Quadratic().facts(), PureDP(epsilon=2.0)))
    assert found is not None and found.optimal < found.yours < found.even
    numbers = f"yours {short(found.yours)}, even {short(found.even)}, optimal {short(found.optimal)}"
    assert f"DP-GD: {numbers}." in words(app)
    assert "accel_job" not in app.session_state


def test_table_shapes_and_text_change_the_same_six_numbers(load: Load) -> None:
    app = load("accelerated", **OWN)
    before = metrics(app)[NOISE]
    type_into_table(app, {0: -1.6, 3: 0.0})
    assert app.text_input(key="accel_knots").value == "-1.6,0.5,0,0,-0.25,-0.9"
    assert handles(app) == [-1.6, 0.5, 0.0, 0.0, -0.25, -0.9] and metrics(app)[NOISE] != before
    app.button(key="accel_shape_Even").click().run()
    assert handles(app) == [0.0] * 6 == in_table(app)
    assert metrics(app)[NOISE] == metrics(load("accelerated", **(OWN | {"accel_schedule": "Uniform"})))[NOISE]
    type_into_table(app, {5: -1.0})
    assert handles(app) == [0.0] * 5 + [-1.0]
    app.text_input(key="accel_knots").set_value("0, 0, 0, 0, 0, 1").run()
    assert handles(app) == [0.0] * 5 + [1.0] and in_table(app)[-1] == 1.0
    assert not app.exception and not app.error


def test_a_second_number_typed_at_once_is_not_lost(load: Load) -> None:
    app = load("accelerated", **OWN)
    keys = [box.key for box in typed(app, "accel_own_table")]
    type_into_table(app, {0: -1.6})
    # The browser has not on_progress of the first one yet: it still has the old numbers in the text.
    type_into_table(app, {1: 1.0}, accel_knots=OWN["accel_knots"])
    assert app.text_input(key="accel_knots").value == "-1.6,1,0,0,-0.25,-0.9"
    assert handles(app) == [-1.6, 1.0, 0.0, 0.0, -0.25, -0.9]
    type_into_table(app, {5: 1.6}, accel_knots="-1.6,0.5,0,0,-0.25,-0.9")
    assert handles(app) == [-1.6, 1.0, 0.0, 0.0, -0.25, 1.6] == in_table(app)
    # The same inputs: they keep the cursor, and what is being typed.
    assert keys == [box.key for box in typed(app, "accel_own_table")]


@pytest.mark.parametrize(
    "hostile", ["", "1,2,3,4,5,6", "0,0,0,0,0", "nan,0,0,0,0,0", "0,0,0,0,0,1e999", "<script>", "0," * 5000]
)
def test_a_hostile_link_gets_a_sentence(load: Load, hostile: str) -> None:
    app = load("accelerated", **(OWN | {"accel_knots": hostile}))
    assert not app.exception
    if hostile:
        assert "Your own schedule needs 6 numbers between -1.6 and 1.6, with commas between them." in said(app)


def test_there_are_no_handles_without_a_schedule_of_ones_own(load: Load) -> None:
    app = load("accelerated", accel_knots=OWN["accel_knots"])
    assert "Your own schedule" not in text(app) and not in_table(app)


def test_settings_hold_the_shape() -> None:
    arms = presets.arms(["DP-GD", "DP-HB"], references=True, schedule="own", knots=KNOTS)
    experiment = Experiment(problem=Quadratic(), arms=arms, budget=PureDP(epsilon=2.0))
    again = Experiment.from_json(experiment.to_json())
    assert again == experiment and PAGE.settings(again)["knots"] == KNOTS
    assert all(arm.algorithm.knots == theory.EVEN for arm in again.arms if arm.reference)  # type: ignore[attr-defined]


def test_where_nothing_is_known_it_says_so(load: Load) -> None:
    app = load("accelerated", **{key: OWN[key] for key in OWN if key != "accel_data"} | {"accel_methods": "DP-HB"})
    assert "Nothing is known of DP-HB before a run." in text(app) and len(handles(app)) == 6
