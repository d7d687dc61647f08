"""A family that nobody has on_progress of: two packages, a page and an entry in the list are all that it needs."""

import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from streamlit.testing.v1 import AppTest

import dpviz.families
import dpviz.ui
from dpviz.experiments.experiment import Experiment
from dpviz.plots import plan_figures
from dpviz.ui import families, navigation
from dpviz.ui.families import Entry
from tests.pages.reading import charts

ROOT = Path(__file__).resolve().parents[2]
SIXTH = ROOT / "tests" / "sixth_family"
ENTRY = Entry(
    name="momentum",
    icon=":material/bolt:",
    title="Momentum",
    guarantee="Pure ε.",
    question="How much momentum can a budget afford?",
)


@pytest.fixture
def visit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., AppTest]:
    """The app with a sixth family."""
    shutil.copy(ROOT / "app.py", tmp_path)
    shutil.copytree(ROOT / "pages", tmp_path / "pages")
    shutil.copy(SIXTH / "pages" / "momentum.py", tmp_path / "pages")
    for package, folder in ((dpviz.families, "families"), (dpviz.ui, "ui")):
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(SIXTH / folder)])
    monkeypatch.setattr(families, "FAMILIES", (*families.FAMILIES, ENTRY))
    monkeypatch.setattr(navigation, "_built", False)

    def opened(**parameters: str) -> AppTest:
        app = AppTest.from_file(str(tmp_path / "app.py"), default_timeout=300)
        for name, value in parameters.items():
            app.query_params[name] = value
        app.run()
        assert not app.exception
        return app

    return opened


def on_its_page(app: AppTest) -> AppTest:
    app.switch_page(ENTRY.address).run()
    assert not app.exception and not app.error
    return app


def test_the_start_page_has_a_card_that_opens_it_with_its_preset(visit: Callable[..., AppTest]) -> None:
    app = visit()
    assert ENTRY.question in [element.value for element in app.markdown]
    app.button(key="home_card_momentum").click().run()
    assert not app.exception and app.title[0].value == "Momentum"
    assert app.selectbox(key="momentum_preset").value == "Start here: a bowl"


def test_it_plans_runs_and_shows(visit: Callable[..., AppTest]) -> None:
    app = on_its_page(visit(momentum_follow="false", momentum_iterations="8", momentum_replicates="2"))
    assert app.metric[0].value == "ε = 2" and "Guarantee of the method" in " ".join(e.value for e in app.markdown)
    app.button(key="momentum_run").click().run()
    job = app.session_state["momentum_job"].job
    job.wait(300.0)
    app.run()
    assert not app.exception and job.state == "done", job.message
    table = app.dataframe[-1].value
    assert list(table["Algorithm"]) == ["Momentum"] and table["Steps"].iloc[0] == 8
    assert table["Spent ε"].iloc[0] == pytest.approx(2.0)


def test_its_settings_can_be_swept(visit: Callable[..., AppTest]) -> None:
    settings = {"momentum_iterations": "8", "momentum_replicates": "2", "momentum_vary_momentum_values": "2"}
    app = on_its_page(visit(momentum_follow="false", momentum_vary_setting="Momentum β", **settings))
    app.session_state["momentum_tabs"] = "Sweep"
    app.run().button(key="momentum_vary_sweep_run").click().run()
    job = app.session_state["momentum_vary_sweep_job"].job
    job.wait(300.0)
    app.run()
    assert not app.exception and job.state == "done", job.message
    assert job.result.series("Momentum")[0].tolist() == [0.0, 0.99]
    assert any(alt.startswith("Excess loss F(x_t) - F* against momentum") for alt in charts(app))


def test_a_move_of_a_control_draws_the_first_figure_and_estimates_once(visit: Callable[..., AppTest]) -> None:
    app = on_its_page(visit(momentum_follow="false"))
    with (
        patch.object(plan_figures, "noise_schedule", side_effect=plan_figures.noise_schedule) as drawn,
        patch.object(Experiment, "estimated_seconds", autospec=True, return_value=1.0) as estimated,
    ):
        app.number_input(key="momentum_iterations").set_value(20).run()
    assert not app.exception and (drawn.call_count, estimated.call_count) == (1, 1)


def test_its_theory_stands_on_its_page(visit: Callable[..., AppTest]) -> None:
    app = on_its_page(visit(momentum_follow="false"))
    assert not any("Theory of the momentum family" in element.value for element in app.markdown)
    app.session_state["momentum_theory"] = True
    app.run()
    assert any(element.value.startswith("### Theory of the momentum family") for element in app.markdown)
