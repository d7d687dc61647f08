"""A schedule of one's own on the page: link, handles on the noise, shapes, and what it is worth."""

import json
import math
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dpviz.experiments.experiment import Experiment
from dpviz.families.accelerated import presets, theory
from dpviz.privacy.budgets import PureDP
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.ui.accelerated.page import PAGE
from tests.pages.reading import Load, choose, link, say, text

KNOTS = (0.9, 0.5, 0.0, 0.0, -0.25, -0.9)
OWN = {
    "accel_data": "Quadratic test bench",
    "accel_schedule": "Your own",
    "accel_methods": "DP-GD",
    "accel_knots": "0.9,0.5,0,0,-0.25,-0.9",
}
CHART = "accel_hero_noise"


def handles(app: AppTest) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the chart of the noise tells its handles: of the figure, and of the page."""
    (chart,) = [json.loads(part.proto.json) for part in app.get("bidi_component") if part.proto.id.endswith(CHART)]
    return json.loads(chart["figure"]).get("handles", {}), chart.get("handles", {})


def test_what_handles_set_comes_back_to_them_and_is_in_the_address(load: Load) -> None:
    app = load("accelerated", **OWN)
    of, page = handles(app)
    assert of["knots"] == list(KNOTS) and list(of["lines"]) == ["DP-GD"] and page["turn"] == 0
    moved = [-1.6, 1, 0, 0, 0.25, 1.6]
    say(app, CHART, "handles", {"values": moved, "turn": 1})
    newer, page = handles(app)
    assert newer["knots"] == moved and page["turn"] == 1
    assert newer["lines"]["DP-GD"] == pytest.approx(of["lines"]["DP-GD"])  # by which the browser draws another shape
    assert "accel_knots=-1.6%2C1%2C0%2C0%2C0.25%2C1.6" in link(app)
    app.button(key="accel_shape_Even").click().run()
    assert handles(app)[0]["knots"] == [0.0] * 6 and "accel_knots" not in link(app)
    choose(app, "schedule", "uniform")
    assert handles(app) == ({}, {})


@pytest.mark.parametrize("values", [[0.0] * 5, [0, 0, 0, 0, 0, 1.7], [0, 0, 0, 0, 0, math.nan], ["0"] * 6, 7])
def test_what_is_no_schedule_is_not_taken(load: Load, values: object) -> None:
    app = say(load("accelerated", **OWN), CHART, "handles", {"values": values, "turn": 1})
    assert handles(app)[0]["knots"] == list(KNOTS)


@pytest.mark.parametrize("said", ["9,1", "0,0,0,0,0,1.7", "x", ""])
def test_a_link_with_what_is_no_schedule_says_so_and_has_the_even_one(load: Load, said: str) -> None:
    app = load("accelerated", **OWN | {"accel_knots": said})
    assert handles(app)[0]["knots"] == list(theory.EVEN) and "accel_knots" not in link(app)
    assert "Check Your own schedule." in app.toast[0].value


def test_settings_hold_the_shape() -> None:
    arms = presets.arms(["DP-GD", "DP-HB"], references=True, schedule="own", knots=KNOTS)
    experiment = Experiment(problem=Quadratic(), arms=arms, budget=PureDP(epsilon=2.0))
    again = Experiment.from_json(experiment.to_json())
    assert again == experiment and PAGE.settings(again)["knots"] == KNOTS
    assert all(arm.algorithm.knots == theory.EVEN for arm in again.arms if arm.reference)  # type: ignore[attr-defined]


def test_where_nothing_is_known_it_says_so(load: Load) -> None:
    app = load("accelerated", **{key: OWN[key] for key in OWN if key != "accel_data"} | {"accel_methods": "DP-HB"})
    assert "Nothing is known of DP-HB before a run." in text(app) and "rror bound: yours" not in text(app)
    assert list(handles(app)[0]["lines"]) == ["DP-HB"]
