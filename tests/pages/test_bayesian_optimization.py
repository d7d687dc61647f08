"""The page of private tuning: the plan before a run, who is protected, the advice, presets, problems, own files."""

from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dpviz.datasets import UserUpload
from dpviz.datasets.synthetic import ProcessDraws
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.bayesian_optimization import Gibo, Placing, presets, texts
from dpviz.privacy.budgets import GaussianDP, PureDP
from dpviz.problems.tuning.model_tuning import KernelMachine, LengthScales
from dpviz.ui.bayesian_optimization import page as tuning_page
from dpviz.ui.explain import NOT_GAUSSIAN
from tests.confirming import confirmed
from tests.pages.reading import Load, charts, choose, drawn, lines, link, metrics, pictured, pictures, run, table, text
from tests.pages.test_mirror_uploads import people

PAGE = "bayesian_optimization"
FEW = {"tuning_iterations": "4", "tuning_replicates": "2", "tuning_file_replicates": "2", "tuning_trainings": "6"}
SMALL = FEW | {"tuning_model": "Normal location", "tuning_location_drawn_rows": "200"}
DRAWN = 4  # figures of the plan


# ------------------------------------------------------------------------------------------------------------- the plan


def test_the_plan_says_who_is_protected_and_when_to_stop_before_anything_runs(load: Load) -> None:
    app = load(PAGE, tuning_references="true")
    assert app.title[0].value == texts.TITLE and not app.error and pictures(app) == DRAWN
    assert app.selectbox(key="tuning_preset").value == presets.PRESETS[0].name
    assert presets.PRESETS[0].look_for in text(app) and "tuning_job" not in app.session_state
    assert "One user of the validation data replaced" in text(app)
    assert "The training data are not protected" in text(app)
    assert "Stop looking at ω = 0.02." in text(app) and "DP-GIBO about 202" in text(app)
    assert "a replaced user of the validation data is noticed at most" in text(app)
    assert metrics(app)["Noise, first → last step"] == "0.011"


def test_the_advised_bias_level_is_taken_with_a_button(load: Load) -> None:
    app = load(PAGE, tuning_mu="0.3")
    app.button(key="tuning_advised").click().run()
    assert not app.exception and not app.error
    assert app.number_input(key="tuning_bias_level").value == pytest.approx(0.0533)
    assert app.button(key="tuning_advised").disabled and "tuning_bias_level=0.0533" in link(app)
    app.pills(key="tuning_methods").set_value(["Random search"]).run()  # which has no bias level
    assert not app.exception and not [button for button in app.button if button.key == "tuning_advised"]


QUICK, OTHERS = presets.PRESETS[7:9], (*presets.PRESETS[1:7], *presets.PRESETS[9:])  # Figures 3 and 4


# -------------------------------------------------------------------------------------------------------------- the run


def test_a_run_says_who_ends_lowest_and_after_how_many_trainings(load: Load) -> None:
    app = run(load(PAGE, **SMALL))
    assert "Trainings of a run, on average: " in text(app) and "Random search" in text(app)
    for axis, words in (("trainings", "trainings so far"), ("training_time", "time of the trainings")):
        choose(app, "axis", axis)
        assert f"against {words}" in " ".join(charts(app))
    assert lines(app, "Validation loss")


@pytest.mark.one_section
def test_losses_stand_against_trainings_or_the_budget(load: Load) -> None:
    app = run(load(PAGE, tuning_scales_drawn_rows="150", tuning_scales_training_rows="60", **FEW))
    app.segmented_control(key="tuning_face").set_value("Privacy spent").run()
    figure = app.session_state["tuning_picture"][1].figure
    ends = {trace.name: float(trace.x[-1]) for trace in figure.data if trace.name}
    assert set(ends) == {presets.GIBO, f"{presets.RANDOM}, at its end"} and "tuning_face=Privacy" in link(app)
    assert list(ends.values()) == pytest.approx([1.0, 1.0], rel=1e-5), "all spend μ = 1"
    assert figure.layout.xaxis.title.text.startswith("Privacy spent, μ")
    assert len(drawn(app, lambda key: key.endswith("tuning_hero_further"))) == 1


def test_where_random_search_wins_the_page_says_so(load: Load) -> None:
    """No step is long enough to get anywhere: five runs tell (2 chances in 252 that they did by chance), two do not."""
    settings = SMALL | {"tuning_step_size": "0.01", "tuning_trainings": "100"}
    app = run(load(PAGE, **settings | {"tuning_replicates": "5"}))
    assert "**Random search wins here.**" in text(app)
    app = run(load(PAGE, **settings))
    assert "**Random search does as well here**, as far as these repeats can tell" in text(app)
    assert "with 2 repeats the difference may be chance" in text(app)


def test_a_run_shows_signal_beside_noise_ways_the_process_and_what_it_releases(load: Load) -> None:
    app = run(load(PAGE, tuning_scales_drawn_rows="150", tuning_scales_training_rows="60", **FEW))
    alts = " ".join(charts(app))
    assert "Length of the mean gradient" in alts and "a dot for every run" in alts
    assert {"mean clipped gradient", "bias bound", "its true error"} <= lines(app, "Length of the mean gradient")
    assert "What does the process see?" in text(app) and "**Clipped**" in text(app)
    found = table(app, "from")
    assert len(found) == 10 and found["to"].iloc[0] == pytest.approx(20)
    assert all((found["from"] <= found[one] * (1 + 1e-9)).all() for one in ("DP-GIBO", "Random search"))
    assert presets.REFERENCE not in found and "**Random search**: after 6 trainings" in text(app)
    assert "Not protected" in text(app) and app.get("download_button")
    for key, value in (("tuning_path_0_10", 3), ("tuning_along_10", 4)):
        app.selectbox(key=key).set_value(value).run()
        assert not app.exception


def test_closer_looks_at_steps_users_and_other_ways(load: Load) -> None:
    app = load(PAGE)
    for tab, alt in (
        ("Privacy", "Lowest possible rate"),
        ("Steps and users", "Three bounds"),
        ("Other ways to look", "Budget of each try"),
    ):
        app.session_state["tuning_tabs"] = tab
        app.run()
        assert not app.exception and not app.error and alt in " ".join(charts(app))
    assert "63 times the noise" in text(app) and "about 1" in text(app)
    pure = load(PAGE, tuning_currency=PureDP.name)
    pure.session_state["tuning_tabs"] = "Steps and users"
    assert NOT_GAUSSIAN in text(pure.run()) and not pure.exception


@pytest.mark.parametrize(("rows", "declared", "looks"), [(50, 1e-4, True), (50, 8e-3, False), (2000, 1e-5, False)])
def test_the_page_itself_trains_only_what_is_quick_whatever_is_declared(
    rows: int, declared: float, looks: bool
) -> None:
    """Two settings, so that there is a ground; few evaluations are kept, so that a look at the process takes few."""
    data = ProcessDraws(rows=3000 if rows > 50 else 100, dimension=2)
    problem = LengthScales(data=data, training_rows=rows, declared_seconds=declared)
    arm = Arm(label="A", algorithm=Gibo(placing=Placing(window=2.0)))
    experiment = Experiment(problem=problem, arms=(arm,), budget=GaussianDP(mu=1.0))
    run: Any = SimpleNamespace(experiment=experiment, plans=experiment.plans(), has_data=True)
    lane: Any = SimpleNamespace(iterations=[0, 1, 2])
    assert tuning_page._can_draw_process(run, arm, lane) is looks
    assert tuning_page.PAGE.has_map(run) is (rows <= 50 and declared < 4e-3)


# ---------------------------------------------------------------------------------------------------- files of your own


def test_who_has_how_many_rows_is_public_and_stands_beside_who_is_protected() -> None:
    """Two tables that must look alike differ in what one user's rows say, not in how many there are."""
    data = UserUpload(identity="0" * 32, n=60, users=30, bounds=((0.0, 1.0),), names=("age",))
    said = tuning_page.protected(KernelMachine(data=data))
    assert said.endswith("The number of users n, who they are and how many rows each has are public.")
    assert tuning_page.protected(KernelMachine()).endswith("The number of users n is public.")


def test_a_file_runs_by_click_protects_users_and_hides_what_reads_them(load: Load) -> None:
    app = load(PAGE, tuning_data="Your own file", tuning_model="Kernel machine", tuning_follow="true", **FEW)
    app.file_uploader[0].upload("mine.csv", people(), "text/csv")
    confirmed(app.run())
    app.button(key="tuning_users_upload_fill").click().run()
    assert not app.exception and not app.error and "tuning_job" not in app.session_state
    assert "read from the data, which **no budget pays for**: the range" in text(app)
    app = run(app)
    alts = " ".join(charts(app))
    assert "Evaluations in a step" in alts and "Validation loss" not in alts and "Clipped" not in text(app)
    assert "the way of the first, and the box" in pictured(app)  # of released settings, not of trainings
    assert "No lower than where it started" not in text(app)
    assert "mean clipped gradient" not in lines(app, "Length of the mean gradient")
    assert "does the process see" not in text(app) and len(table(app, "from"))
    app.toggle(key="tuning_diagnostics").set_value(True).run()
    assert not app.exception and "Validation loss" in " ".join(charts(app)) and "Clipped" in text(app)


def two_runs_on_a_file() -> None:
    """What the process sees in each of two runs with the same settings."""
    import numpy as np
    import pandas as pd

    from dpviz.datasets import prepare_users
    from dpviz.execution.runner import Runner
    from dpviz.experiments.experiment import Arm, Experiment
    from dpviz.families.bayesian_optimization import Gibo
    from dpviz.privacy.budgets import GaussianDP
    from dpviz.problems.tuning.model_tuning import KernelMachine
    from dpviz.ui.bayesian_optimization import page as tuning_page
    from dpviz.ui.controls import Panel
    from dpviz.ui.experiment.run import Run

    frame = pd.DataFrame({"who": np.arange(60) // 2, "age": np.arange(60.0), "sick": ["no", "yes"] * 30})
    of = {"user": "who", "target": "sick", "positive": "yes", "features": ["age"], "bounds": {"age": (0.0, 60.0)}}
    file = prepare_users(frame, **of)
    arm, tables = Arm(label="A", algorithm=Gibo(iterations=3)), {file.specification.identity: file.table}
    experiment = Experiment(KernelMachine(data=file.specification), [arm], budget=GaussianDP(mu=1.0))
    for page in ("first", "second"):
        job = Runner(slots=0).submit(experiment, tables, wait=True)
        assert job.trace is not None
        tuning_page._process(Panel(page), Run(job, experiment.plans(), page, "P", tables), job.trace, arm)


def test_what_the_process_sees_is_of_the_run_that_is_shown() -> None:
    """Each run on a file has noise of its own, so that the same settings have another path."""
    app = AppTest.from_function(two_runs_on_a_file, default_timeout=300).run()
    assert not app.exception
    first, second = (chart["data"] for _, chart in drawn(app))
    assert first != second
