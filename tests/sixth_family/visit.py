"""What visitors do with the family; a copy of the house that has it runs this beside its own tests of pages."""

import io
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.experiments.experiment import Experiment
from dpviz.plots import plan_figures
from dpviz.ui.families import FAMILIES, named
from tests.confirming import confirmed
from tests.pages.reading import Load, charts, metrics, run, words

SMALL = {"momentum_iterations": "8", "momentum_replicates": "2"}


def people() -> bytes:
    """Two features and a target with two classes, as CSV."""
    age = np.arange(200) % 60 + 20
    frame = pd.DataFrame(
        {"age": age, "income": 1000 + 40 * (np.arange(200) % 37), "bought": np.where(age > 45, "y", "n")}
    )
    return frame.to_csv(index=False).encode()


def ended(app: AppTest, key: str) -> AppTest:
    app.session_state[key].job.wait(60)
    app.run()
    assert not app.exception and not app.error
    return app


def test_its_card_opens_it_with_its_preset(load: Load) -> None:
    app, family = load("home"), named("momentum")
    assert FAMILIES[-1] == family and family.question in [element.value for element in app.caption]
    app.button(key="home_card_momentum").click().run()
    assert not app.exception and app.title[0].value == family.title
    assert app.selectbox(key="momentum_preset").value == "Start here: a bowl"


def test_it_plans_runs_and_shows(load: Load) -> None:
    app = load("momentum", **SMALL)
    assert app.metric[0].value == "ε = 2" and "Guarantee of the method" in words(app)
    table = run(app).dataframe[-1].value
    assert list(table["Algorithm"]) == ["Momentum"] and table["Steps"].iloc[0] == 8
    assert table["Spent ε"].iloc[0] == pytest.approx(2.0)


def test_its_settings_are_swept(load: Load) -> None:
    swept = {"momentum_vary_setting": "Momentum β", "momentum_vary_momentum_values": "2"}
    app = load("momentum", **SMALL, **swept)
    app.session_state["momentum_section"] = "Sweep"
    app = run(app.run(), press="momentum_vary_sweep_run", job="momentum_vary_sweep_job")
    result = app.session_state["momentum_vary_sweep_job"].job.result
    assert result.series("Momentum")[0].tolist() == [0.0, 0.99]
    assert any(alt.startswith("Excess loss F(x_t) - F* against momentum") for alt in charts(app))


def test_a_file_runs_by_click_only(load: Load) -> None:
    app = load("momentum", **SMALL, momentum_data="Your own file", momentum_follow="true")
    app.file_uploader[0].upload("mine.csv", people(), "text/csv")
    confirmed(app.run())
    (editor,) = [editor for editor in app.data_editor if "_ranges_" in editor.key]
    ranges = {0: {"lowest": 0.0, "highest": 100.0}, 1: {"lowest": 0.0, "highest": 9000.0}}
    app.session_state[editor.key] = {"edited_rows": ranges, "added_rows": [], "deleted_rows": []}
    app.run().number_input(key="momentum_iterations").set_value(6).run()
    assert not app.exception and not app.error and not app.button(key="momentum_run").disabled
    assert "momentum_job" not in app.session_state and "runs start by click only" in words(app)
    job = run(app, press="momentum_run").session_state["momentum_job"].job
    assert not job.task.problem.public and job.task.arms[0].algorithm.iterations == 6
    assert pd.read_csv(io.BytesIO(people())).shape == (job.task.problem.facts().n, 3)


def test_its_worst_case_is_attacked(load: Load) -> None:
    app = load("audit", audit_family="Momentum", audit_momentum_momentum_runs="2000")
    app = ended(app, "audit_job")
    assert metrics(app)["Claimed ε"] == "1" and app.success[0].proto.title == "No violation found"


def test_its_lesson_is_predicted_and_seen(load: Load) -> None:
    app = load("learn")
    app.button(key="learn_open_memory").click().run()
    for which in ("before", "after"):
        ended(app, f"learn_memory_{which}")
    assert app.title[0].value == "What does momentum remember?"
    app.button(key="learn_next").click().run()
    app.radio[0].set_value(2).run()
    app.button(key="learn_next").click().run()
    (verdict,) = app.success
    assert not app.exception and "and so it was" in verdict.value


def test_its_theory_stands_on_its_page(load: Load) -> None:
    app = load("momentum")
    app.session_state["momentum_theory"] = True
    app.run()
    assert any(element.value.startswith("### Theory of the momentum family") for element in app.markdown)


def test_a_move_of_a_control_draws_the_first_figure_and_estimates_once(load: Load) -> None:
    app = load("momentum")
    with (
        patch.object(plan_figures, "noise_schedule", side_effect=plan_figures.noise_schedule) as drawn,
        patch.object(Experiment, "estimated_bytes", autospec=True, return_value=1.0) as estimated,
    ):
        app.number_input(key="momentum_iterations").set_value(23).run()
    assert not app.exception and (drawn.call_count, estimated.call_count) == (1, 1)
