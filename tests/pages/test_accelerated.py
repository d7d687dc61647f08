"""The page of the accelerated methods: controls, plan, run, results, links."""

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.experiments.experiment import Experiment
from dpviz.families.accelerated import Nesterov, presets
from dpviz.privacy.events import Laplace
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.ui.accelerated.page import PAGE, QUADRATIC
from dpviz.ui.experiment.run import runner
from dpviz.ui.uploads import table as data_panel
from tests.confirming import confirmed
from tests.pages.reading import Load, chart, charts, run, said, text, y_title

TINY = {"accel_uniform_rows": "500", "accel_iterations": "5", "accel_replicates": "2"}


def test_the_plan_is_there_before_anything_runs(load: Load) -> None:
    app = load("accelerated", accel_methods=list(presets.SIX_METHODS))
    assert not app.error and not app.warning
    assert [metric.value for metric in app.metric][:2] == ["ε = 2", "ε ≤ 1.5"]
    assert "a replaced row is noticed at most 2.49 % of the time" in text(app)
    found = charts(app)
    assert len(found) == 4
    noise = next(spec for alt, spec in found.items() if alt.startswith("Scale of the noise"))
    assert (
        noise["layout"]["yaxis"]["type"] == "log"
        and sum(len(line.get("meta") or [line["name"]]) for line in noise["data"]) == 6
    )
    assert presets.PRESETS[1].look_for in text(app) and "one row replaced" in text(app) + str(app.metric[0].delta)


def test_a_changed_preset_is_named_and_can_be_picked_again(load: Load) -> None:
    app = load("accelerated")
    name, story = presets.PRESETS[4].name, presets.PRESETS[4].look_for
    app.selectbox(key="accel_preset").set_value(name).run()
    assert story in text(app)
    app.number_input(key="accel_iterations").set_value(50).run()
    assert app.selectbox(key="accel_preset").value == "Your own settings" and "have been changed" in text(app)
    assert "These settings have been changed: Steps T." in text(app) and story not in text(app)
    app.selectbox(key="accel_preset").set_value(name).run()
    assert not app.exception and app.number_input(key="accel_iterations").value == 100


KINDS = {**data_panel.GENERATORS, QUADRATIC: Quadratic}


@pytest.mark.parametrize("source", ["uniform", "correlated", "heavy", "paper", "bundled", "quadratic"])
def test_every_data_set_gives_a_plan(load: Load, source: str) -> None:
    app = load("accelerated")
    app.selectbox(key="accel_data").set_value(source).run()
    assert not app.exception and not app.error and len(app.metric) == 4


@pytest.mark.parametrize("tab", ["Tighter accountants", "What limits accuracy", "Heavy ball on quadratics"])
def test_closer_looks_are_drawn_only_while_open(load: Load, tab: str) -> None:
    app = load("accelerated")
    app.session_state["accel_tabs"] = tab
    app.run()
    assert not app.exception
    found = charts(app)
    assert found and not any(alt.startswith("Scale of the noise") for alt in found)


def test_the_certificate_is_solved_on_demand(load: Load) -> None:
    app = load("accelerated", accel_methods=["DP-GD", "DP-HB"])
    app.session_state["accel_tabs"] = "Worst-case certificate"
    app.run()
    assert not app.exception and not charts(app)
    app.button(key="accel_certify").click().run()
    assert not app.exception and "No worst-case certificate" in said(app) and len(charts(app)) == 1


# -------------------------------------------------------------------------------------------------------------- the run


def test_a_run_draws_curves_and_a_table(load: Load) -> None:
    app = run(load("accelerated", **TINY))
    alts = " ".join(charts(app))
    assert "Excess loss" in alts and "Gradient norm" in alts
    table = app.dataframe[-1].value
    assert list(table["Algorithm"]) == list(presets.DEFAULT_METHODS)
    assert {"Steps", "Excess loss", "Best step", "Training accuracy", "Spent ε", "Time [s]"} <= set(table.columns)
    np.testing.assert_allclose(table["Spent ε"], 2.0)
    assert "Not private" in text(app)


def test_a_bound_that_rests_on_a_typed_starting_error_is_said_to_wherever_it_is_drawn(load: Load) -> None:
    """Charts of the plan and of the run, a schedule of one's own; with what holds for every data set no condition."""
    condition, plans = " if E₀ holds", ("Upper bound on the expected", "Error bound against")
    drawn = {"accel_schedule": "Your own", "accel_overlay": "Bound", "accel_methods": "DP-NAG", **TINY}
    for typed, rests in (({}, False), ({"accel_initial_gap": "0.1"}, True)):
        app = run(load("accelerated", **drawn, **typed))
        assert [y_title(chart(app, start)).endswith(condition) for start in plans] == [rests, rests]
        legends = str(chart(app, "Excess loss"))
        assert "thin lines: bound" in legends and (f"thin lines: bound{condition}" in legends) == rests
        assert f"The bound is on the mean{condition * rests}." in text(app)
        assert ("rror bound if E₀ holds: yours" in text(app)) == rests
        assert ("Upper bound on the mean for every data set." in text(app)) != rests


def test_a_run_that_needs_too_much_memory_is_refused_with_what_would_fit(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"accel_uniform_rows": "10000", "accel_batch_fraction": "0.5", "accel_follow": "false"}
    app = load("accelerated", **settings, accel_replicates="60")
    experiment = app.session_state["accel_settled"].experiment
    most = experiment.replaced(replicates=7).estimated_bytes(experiment.plans())
    monkeypatch.setattr(runner(), "max_bytes", most)
    app = load("accelerated", **settings, accel_replicates="60")
    assert "This run would need about 0 GB" in said(app) and app.button(key="accel_run").disabled
    assert "at most 7 repeats" in said(app)
    assert not load("accelerated", **settings, accel_replicates="7").button(key="accel_run").disabled


# ----------------------------------------------------------------------------------------------------------- the upload


def table(rows: int = 200) -> bytes:
    x = np.random.default_rng(0).random((rows, 3))
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(label=(x[:, 0] > x[:, 1]).astype(int))
    return frame.to_csv(index=False).encode()


def upload(load: Load, **settings: str) -> AppTest:
    small = {"accel_iterations": "5", "accel_file_replicates": "2"}
    app = load("accelerated", accel_data="Your own file", **small, **settings)
    app.file_uploader[0].upload("mine.csv", table(), "text/csv")
    confirmed(app.run())
    assert not app.exception
    assert not app.error, "an upload begins with a hint"
    app.button(key="accel_upload_fill").click().run()
    assert not app.exception and not app.error
    return app


def test_an_uploaded_table_runs_through_all_methods_and_hides_diagnostics(load: Load) -> None:
    app = upload(load)
    app.pills(key="accel_methods").set_value(list(presets.METHODS)).run()
    app = run(app)
    alts = " ".join(charts(app))
    assert "Distance travelled" in alts and "Excess loss" not in alts
    assert "Excess loss" not in " ".join(app.dataframe[-1].value) and len(app.dataframe[-1].value) == len(
        presets.METHODS
    )
    app.toggle(key="accel_diagnostics").set_value(True).run()
    assert not app.exception
    assert "Excess loss" in " ".join(charts(app)) and "Excess loss (not private)" in app.dataframe[-1].value.columns


def test_nothing_of_an_upload_goes_into_the_link(load: Load) -> None:
    app = upload(load)
    link = next(code.value for code in app.code if "accel_" in code.value)
    assert "accel_data=Your+own+file" in link
    assert not any(word in link for word in ("mine", "label", "_upload", "smoothness"))


# ----------------------------------------------------------------------------------------------------- smoothness, link


def test_the_smoothness_is_released_privately_and_paid_for(load: Load) -> None:
    app = load("accelerated", accel_smoothness_source="Released privately")
    assert "Until there is a value" in text(app)
    app.button(key="accel_release").click().run()
    assert not app.exception and not app.error
    assert app.number_input(key="accel_smoothness_cost").value == pytest.approx(0.1)
    assert 0.5 < app.number_input(key="accel_smoothness").value < 2.52
    assert "released privately" in text(app) and app.metric[0].value == "ε = 2"
    app.number_input(key="accel_uniform_dimension").set_value(5).run()
    assert not app.exception and "changed after this L" in said(app)


def test_every_release_of_the_smoothness_of_a_file_is_paid_for(load: Load) -> None:
    app = upload(load)
    app.selectbox(key="accel_smoothness_source").set_value("released").run()
    app.button(key="accel_release").click().run()
    app.number_input(key="accel_smoothness_cost").set_value(0.001234).run()  # what the next one would cost
    assert not app.exception and "Spent ε_L = 0.1 before" in text(app)
    app.number_input(key="accel_regularisation").set_value(0.1).run()
    app.button(key="accel_release").click().run()
    assert not app.exception and "Spent ε_L = 0.1 + 0.00124 before" in text(app), "never less than it is"
    run(app)
    facts = app.session_state["accel_job"].experiment.problem.facts()
    assert facts.released == (Laplace(0.101234),)
    app.selectbox(key="accel_smoothness_source").set_value("bounds").run()
    assert "A release of L is not paid for" in said(app)


def test_the_noise_of_a_release_of_a_file_follows_from_no_seed_that_was_fixed(load: Load) -> None:
    """The released L stays when the seed is fresh again, and then no guarantee names the seed."""
    app = upload(load, accel_epsilon="20")
    app.toggle(key="accel_fixed_seed").set_value(True).run()
    app.selectbox(key="accel_smoothness_source").set_value("released").run()
    app.number_input(key="accel_smoothness_cost").set_value(5.0).run()
    released = []
    for regularisation in (0.2, 0.1, 0.2):  # the same release again, after another one
        app.number_input(key="accel_regularisation").set_value(regularisation).run()
        app.button(key="accel_release").click().run()
        released.append(app.number_input(key="accel_smoothness").value)
    assert not app.exception and released[0] != released[2]


def test_how_many_rows_of_a_file_the_clip_reaches_is_hidden_until_diagnostics_are_asked_for(load: Load) -> None:
    app = run(upload(load, accel_clip="0.3"))
    assert app.session_state["accel_job"].experiment.problem.clip == 0.3 and "**The clip**" not in text(app)
    app.toggle(key="accel_diagnostics").set_value(True).run()
    assert not app.exception and "**The clip** C = 0.3 reaches" in text(app)


def test_the_smoothness_estimated_from_data_is_labelled(load: Load) -> None:
    app = load("accelerated", accel_smoothness_source="Estimated from data (not private)")
    app.button(key="accel_estimate").click().run()
    assert not app.exception and not app.error
    assert 0.5 < app.number_input(key="accel_smoothness").value < 2.52
    assert "**not private**" in text(app)


def test_a_smoothness_below_the_convexity_is_named(load: Load) -> None:
    app = load("accelerated", accel_smoothness_source="My own value", accel_smoothness="0.01")
    assert "is below μ" in said(app) and app.number_input(key="accel_smoothness").value == 0.01


def test_a_method_without_a_plan_is_left_out_and_the_others_stay(load: Load) -> None:
    settings = {"accel_currency": "(ε, δ)", "accel_noise": "Gaussian", "accel_batch_fraction": "0.1"}
    app = load("accelerated", accel_methods=list(presets.SIX_METHODS), **settings)
    assert not app.exception and not app.error
    (warning,) = [warning for warning in app.warning if "all rows" in warning.value]
    assert "DP-NAG-opt" in warning.proto.title and "DP-MASG-opt" in warning.proto.title
    assert "Gaussian DP composes exactly" not in text(app)  # no μ is known for it on random batches
    assert app.button(key="accel_run").disabled is False


def test_a_caption_names_as_without_a_bound_only_what_its_chart_lacks() -> None:
    experiment = Experiment(LogisticRegression(), {"quadratics": Nesterov(schedule="envelope")}, epsilon=2)
    along_steps, against_horizon = list(PAGE.plan_charts(PAGE.view(experiment)))[2:]
    assert "quadratics" in str(along_steps.figure) and "quadratics" not in along_steps.caption
    assert "quadratics" in against_horizon.caption
