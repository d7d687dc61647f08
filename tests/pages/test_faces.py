"""The faces of a page's picture: along the steps, along the budget, and a family's map. Clouds have their own tests."""

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.execution.runner import Job
from dpviz.sweeps.sweep import Sweep
from dpviz.ui.experiment import texts
from dpviz.ui.experiment.faces import BUDGET, CLOUD, MAP, STEPS
from dpviz.ui.families import FAMILIES, Entry
from tests.pages.reading import Load, array, choose, drawn, link, run, text
from tests.pages.test_accelerated import upload

EACH = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
FEW = {"iterations": "4", "replicates": "2", "references": "true"}


def opened(load: Load, family: Entry, **settings: str) -> AppTest:
    prefix = family.page().prefix
    app = load(family.name, **{f"{prefix}_{name}": value for name, value in (FEW | settings).items()})
    return run(app, press=f"{prefix}_run", job=f"{prefix}_job")


def swept(app: AppTest, family: Entry) -> Job:
    """The sweep of the page, which has ended."""
    job: Job = app.session_state[f"{family.name}_budget_job"].job
    job.wait(120)
    app.run()
    assert not app.exception and not job.active
    return job


def along(app: AppTest) -> dict[str, list[float]]:
    """What is drawn along the budget: where the curves have points, by method; and the present budget, by ""."""
    ((_, figure),) = drawn(app, lambda key: key.endswith("hero_budget"))
    dots = [trace for trace in figure["data"] if "markers" in trace.get("mode", "") and trace.get("name")]
    (here,) = [
        shape for shape in figure["layout"]["shapes"] if shape.get("yref") == "paper" and shape["x0"] == shape["x1"]
    ]
    return {name: array(trace["x"]).tolist() for trace in dots for name in trace.get("meta") or [trace["name"]]} | {
        "": [here["x0"]]
    }


@EACH
def test_along_the_budget_all_budgets_are_there_and_a_move_of_it_moves_the_mark_alone(
    load: Load, family: Entry
) -> None:
    page = family.page()
    app = opened(load, family, face=BUDGET)
    job = swept(app, family)
    assert job.state == "done" and isinstance(job.task, Sweep)
    control = type(job.task.experiment.budget).controls()[0]
    present = app.number_input(key=f"{page.prefix}_{control.name}").value
    at = along(app)
    assert at.pop("") == [present]
    private = {arm.label for arm in job.task.experiment.arms}
    assert at.keys() <= private
    for label, places in at.items():
        left = {item.key.value for item in job.result.left_out if item.label == label} if job.result else set()
        assert np.allclose(places, sorted({*job.task.values, present} - left)), label
    assert len(job.task.values) >= 6 and all(not arm.reference for arm in job.task.experiment.arms)

    app.number_input(key=f"{page.prefix}_{control.name}").set_value(2 * present).run()
    assert app.session_state[f"{family.name}_budget_job"].job is job and along(app)[""] == [2 * present]
    assert texts.EARLIER not in text(app), "the curves are of these settings"
    run(app, press=f"{page.prefix}_run", job=f"{page.prefix}_job")
    assert app.session_state[f"{family.name}_budget_job"].job is job
    assert any(np.isclose(2 * present, places).any() for label, places in along(app).items() if label)

    app.number_input(key=f"{page.prefix}_seed").set_value(7.0).run()
    assert texts.EARLIER in text(app) and app.session_state[f"{family.name}_budget_job"].job is job
    run(app, press=f"{page.prefix}_run", job=f"{page.prefix}_job")
    other = swept(app, family)
    assert other is not job and other.task != job.task and texts.EARLIER not in text(app)
    assert f"{page.prefix}_face=Along+the+budget" in link(app)


@EACH
def test_a_picture_has_its_faces_and_begins_with_its_map_or_the_steps(load: Load, family: Entry) -> None:
    app = opened(load, family)
    (control,) = [control for control in app.segmented_control if control.key == f"{family.page().prefix}_face"]
    further = {"mirror_descent": ["Strategies"], "bayesian_optimization": ["Privacy spent"]}.get(family.name, [])
    usual = [STEPS, BUDGET, CLOUD]
    assert control.options in ([*usual, *further], [MAP, *usual, *further])
    assert f"{family.name}_budget_job" not in app.session_state, "a sweep that nobody has asked for"
    ((_, figure),) = drawn(app, lambda key: key.endswith("_hero"))
    assert any(trace["type"] == "contour" for trace in figure["data"]) == (control.options[0] == MAP)
    if control.options[0] == MAP:
        choose(app, "face", STEPS)
        ((_, figure),) = drawn(app, lambda key: key.endswith("_hero"))
        assert not any(trace["type"] == "contour" for trace in figure["data"])


def test_a_sweep_that_nobody_sees_stops(load: Load) -> None:
    family = FAMILIES[0]
    app = opened(load, family, face=BUDGET, iterations="300")
    job: Job = app.session_state["accelerated_budget_job"].job
    choose(app, "face", STEPS)
    assert job._stopping.is_set() and job.later
    choose(app, "face", BUDGET)
    again = swept(app, family)
    assert again.state == "done" and len(along(app)["DP-GD"]) == len(again.task.values) + 1
    app.session_state["accel_job"].job.state = "stopped"  # as if before its end
    app.run()
    assert not app.exception and len(along(app)["DP-GD"]) == len(again.task.values), "its last values are no final ones"


def test_a_file_has_no_sweep_that_it_has_not_been_asked_for(load: Load) -> None:
    app = run(upload(load, accel_face=BUDGET), press="accel_run", job="accel_job")
    app.toggle(key="accel_diagnostics").set_value(True).run()
    assert not app.exception and "accelerated_budget_job" not in app.session_state
    assert "accel_face" not in [control.key for control in app.segmented_control]
    assert not drawn(app, lambda key: key.endswith("hero_budget")), "each of its points would be a release"


def test_the_faces_of_other_data_leave_with_them_and_their_sweep_stops(load: Load) -> None:
    app = opened(load, FAMILIES[0], face=BUDGET)
    job: Job = app.session_state["accelerated_budget_job"].job
    app.button(key="accel_own_file").click().run()
    assert not app.exception and "accel_face" not in [control.key for control in app.segmented_control]
    assert job._stopping.is_set() and not drawn(app, lambda key: key.endswith("hero_budget"))
