"""The panel of a sweep: what may be run, what is shown while it runs and after, and what was left out."""

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from dpviz.datasets import UploadedTable
from dpviz.execution import cluster
from dpviz.execution.runner import Job
from dpviz.execution.store import Store
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.ui.experiment import sweep as sweep_panel
from dpviz.ui.experiment import texts as run_texts

PATIENCE = 300.0  # seconds until a test gives up


def page() -> None:
    import streamlit as st

    from dpviz.experiments.experiment import Arm, Experiment
    from dpviz.families.accelerated import Nesterov
    from dpviz.privacy.budgets import PureDP
    from dpviz.problems.linear.quadratic import Quadratic
    from dpviz.sweeps.sweep import Sweep
    from dpviz.sweeps.sweep_result import SweepResult
    from dpviz.ui.experiment import sweep as sweep_panel

    def draw(result: SweepResult) -> None:
        st.write("curve:", *(f"{value:g}" for value in result.series("DP-NAG")[0]))
        sweep_panel.show_laws(result, "d")

    arms = [Arm(label="DP-NAG", algorithm=Nesterov(iterations=st.session_state.get("iterations", 5)))]
    if st.session_state.get("refused"):
        arms.append(Arm(label="Gaussian", algorithm=Nesterov(iterations=5, noise="gaussian"), budget=PureDP()))
    problem = st.session_state.get("problem", Quadratic(rows=1000))
    experiment = Experiment(problem=problem, arms=tuple(arms), replicates=2)
    values = st.session_state.get("values", (2.0, 4.0, 8.0))
    fields = ("problem.dimension",) if problem.public else ("budget.epsilon",)
    seeds = tuple(range(st.session_state.get("data_sets", 0)))
    more = {"data_seed": "seed", "data_seeds": seeds} if seeds else {}
    sweep = Sweep(experiment=experiment, fields=fields, values=values, metric="objective_gap", **more)
    sweep_panel.show_sweep("p_sweep", "Gap against d", None if st.session_state.get("nothing") else sweep, draw)


@pytest.fixture
def load() -> Callable[..., AppTest]:
    def open_page(**state: object) -> AppTest:
        app = AppTest.from_function(page, default_timeout=300)
        for name, value in state.items():
            app.session_state[name] = value
        app.run()
        assert not app.exception
        return app

    return open_page


def ended(app: AppTest) -> AppTest:
    job: Job = app.session_state["p_sweep_job"].job
    job.wait(PATIENCE)
    app.run()
    assert not app.exception and not job.active
    return app


def texts(app: AppTest) -> str:
    return " ".join(item.value for item in [*app.markdown, *app.caption, *app.warning, *app.error, *app.info])


def test_a_sweep_runs_to_its_end_and_is_drawn(load) -> None:
    app = load()
    app.button(key="p_sweep_run").click().run()
    ended(app)
    assert "curve: 2 4 8" in texts(app) and run_texts.SWEEP_NOT_COVERED in texts(app)
    assert not app.button(key="p_sweep_run").disabled
    run = app.session_state["p_sweep_job"]
    assert run.title == "Gap against d" and list(run.plans) == ["DP-NAG at 2", "DP-NAG at 4", "DP-NAG at 8"]
    app.session_state["iterations"] = 6
    assert "Settings changed" in texts(app.run()) and "curve: 2 4 8" in texts(app)
    run.job.state = "running"  # as if it had not ended yet
    assert "Settings changed" in texts(app.run()) and "curve: 2 4 8" in texts(app)


def test_a_sweep_that_was_stopped_is_resumed_from_the_store(load, tmp_path, monkeypatch) -> None:
    store = Store(tmp_path / "cells")
    monkeypatch.setattr(sweep_panel.runner(), "store", store)  # type: ignore[attr-defined]
    app = load()
    app.button(key="p_sweep_run").click().run()
    job = ended(app).session_state["p_sweep_job"].job
    job.state, job.result.done = "stopped", job.result.done[:2]  # as if somebody had stopped it after two points
    store._problem = "The disk is full."
    assert app.run().button(key="p_sweep_run").label == "Run the sweep"  # as nothing would be found
    store._problem = ""
    assert app.run().button(key="p_sweep_run").label == "Resume the sweep"
    app.button(key="p_sweep_run").click().run()
    assert "3 of 3 points in" in ended(app).get("progress")[0].proto.text
    assert app.get("progress")[0].proto.text.endswith("; 3 of them were known")
    assert app.button(key="p_sweep_run").label == "Run the sweep" and "curve: 2 4 8" in texts(app)


def test_a_cluster_computes_the_points_where_the_operator_allows_it(load, monkeypatch) -> None:
    monkeypatch.setenv(cluster.VARIABLE, cluster.ASK)
    app = load()
    app.text_input(key="p_sweep_cluster").set_value("here").run()
    assert "'here' is no address of a Dask scheduler" in texts(app) and app.button(key="p_sweep_run").disabled
    app.text_input(key="p_sweep_cluster").set_value("tcp://127.0.0.1:1").run()
    assert not app.error and "p_sweep_cluster" not in app.query_params
    data = UploadedTable(identity="0" * 32, n=40, bounds=((0.0, 1.0),), names=("a",))
    assert not load(problem=LogisticRegression(data=data)).text_input, "a visitor's file stays here"


def test_methods_without_a_plan_and_impossible_values_are_said_in_sentences(load) -> None:
    app = load(refused=True)
    assert app.warning[0].value and not app.button(key="p_sweep_run").disabled
    app.button(key="p_sweep_run").click().run()
    assert len(ended(app).warning) == 1, "said once"
    wrong = load(values=(2.0, 5e6))
    assert "At the value 5,000,000: Parameters must be a whole number between 1 and 1,000,000" in wrong.error[0].value
    assert wrong.button(key="p_sweep_run").disabled


def test_a_slope_below_zero_has_no_apostrophe_and_a_formula_has_one() -> None:
    def table() -> None:
        from dpviz.ui.markdown import show_table

        show_table({"p": ["-0.98 ± 0.04", "=1"]}, alt="Slopes")

    app = AppTest.from_function(table, default_timeout=PATIENCE).run()
    assert list(app.dataframe[0].value["p"]) == ["-0.98 ± 0.04", "'=1"]
