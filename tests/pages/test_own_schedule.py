"""A schedule of one's own on the page: link, table, handles, shapes, and what it is worth."""

import json

from streamlit.testing.v1 import AppTest

from dpviz.experiments.experiment import Experiment
from dpviz.families.accelerated import presets, theory
from dpviz.privacy.budgets import PureDP
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.ui.accelerated.page import PAGE
from tests.pages.reading import Load, text, type_into, typed

KNOTS = (0.9, 0.5, 0.0, 0.0, -0.25, -0.9)
OWN = {
    "accel_data": "Quadratic test bench",
    "accel_schedule": "Your own",
    "accel_methods": "DP-GD",
    "accel_knots": "0.9,0.5,0,0,-0.25,-0.9",
}


def handles(app: AppTest) -> list[float]:
    """Where the page puts the handles."""
    (found,) = [part for part in app.get("bidi_component") if "handles" in part.proto.json]
    places: list[float] = json.loads(found.proto.json)["values"]
    return [round((2 * place - 1) * theory.LIMIT, 6) for place in places]


def in_table(app: AppTest) -> list[float]:
    return [box.value for box in typed(app, "accel_own_table")]


def type_into_table(app: AppTest, cells: dict[int, float], **stale: str) -> AppTest:
    return type_into(app, "accel_own_table", cells, stale)


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


def test_settings_hold_the_shape() -> None:
    arms = presets.arms(["DP-GD", "DP-HB"], references=True, schedule="own", knots=KNOTS)
    experiment = Experiment(problem=Quadratic(), arms=arms, budget=PureDP(epsilon=2.0))
    again = Experiment.from_json(experiment.to_json())
    assert again == experiment and PAGE.settings(again)["knots"] == KNOTS
    assert all(arm.algorithm.knots == theory.EVEN for arm in again.arms if arm.reference)  # type: ignore[attr-defined]


def test_where_nothing_is_known_it_says_so(load: Load) -> None:
    app = load("accelerated", **{key: OWN[key] for key in OWN if key != "accel_data"} | {"accel_methods": "DP-HB"})
    assert "Nothing is known of DP-HB before a run." in text(app) and len(handles(app)) == 6
