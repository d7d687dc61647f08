"""The page of the accelerated methods: controls, plan, run, results, links."""

from urllib.parse import parse_qs

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.experiments.preset import Preset
from dpviz.families.accelerated import presets
from dpviz.families.accelerated.algorithms import GradientMethod
from dpviz.privacy.budgets import ApproximateDP, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import Laplace
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.specification import Control
from dpviz.ui.accelerated import problem as problem_controls
from dpviz.ui.uploads import table as data_panel
from tests.confirming import confirmed
from tests.pages.reading import Load, chart, charts, link, run, said, text, y_title

TINY = {"accel_uniform_rows": "500", "accel_iterations": "5", "accel_replicates": "2"}


def test_the_plan_is_there_before_anything_runs(load: Load) -> None:
    app = load("accelerated", accel_methods=list(presets.SIX_METHODS))
    assert not app.error and not app.warning
    assert [metric.value for metric in app.metric][:2] == ["ε = 2", "ε ≤ 1.5"]
    assert "tells a replaced row from the real one at most 2.48 %" in text(app)
    found = charts(app)
    assert len(found) == 4
    noise = next(spec for alt, spec in found.items() if alt.startswith("Scale of the noise"))
    assert (
        noise["layout"]["yaxis"]["type"] == "log"
        and sum(len(line.get("meta") or [line["name"]]) for line in noise["data"]) == 6
    )
    assert "DP-NAG-opt beats DP-NAG" in text(app) and "one row replaced" in text(app) + str(app.metric[0].delta)


def test_the_plan_follows_a_control_without_a_run(load: Load) -> None:
    app = load("accelerated")
    before = [metric.value for metric in app.metric]
    app.number_input(key="accel_epsilon").set_value(1.0).run()
    assert not app.exception
    after = [metric.value for metric in app.metric]
    assert after[0] == "ε = 1" and after[2] != before[2]
    assert app.selectbox(key="accel_preset").value == "Your own settings"
    assert "accel_job" not in app.session_state


@pytest.mark.parametrize("preset", presets.PRESETS, ids=lambda preset: preset.name)
def test_a_preset_sets_every_control_and_says_what_to_look_for(load: Load, preset: Preset) -> None:
    app = load("accelerated")
    app.selectbox(key="accel_preset").set_value(preset.name).run()
    assert not app.exception and not app.error
    assert app.selectbox(key="accel_preset").value == preset.name  # so the controls rebuild exactly its experiment
    assert preset.look_for in text(app) and preset.reported in text(app)
    assert "accel_job" not in app.session_state
    offered = parse_qs(link(app).partition("?")[2])
    assert set(app.query_params) == set(offered)  # also of controls that were not shown before


def test_a_changed_preset_is_named_and_can_be_picked_again(load: Load) -> None:
    app = load("accelerated")
    name = presets.PRESETS[4].name
    app.selectbox(key="accel_preset").set_value(name).run()
    app.number_input(key="accel_iterations").set_value(50).run()
    assert app.selectbox(key="accel_preset").value == "Your own settings" and "have been changed" in text(app)
    assert "These settings have been changed: Steps T." in text(app)
    app.selectbox(key="accel_preset").set_value(name).run()
    assert not app.exception and app.number_input(key="accel_iterations").value == 100


@pytest.mark.parametrize("currency", [PureDP, ApproximateDP, ZeroConcentratedDP, GaussianDP], ids=lambda c: c.__name__)
@pytest.mark.parametrize("noise", ["Laplace", "Gaussian"])
def test_every_currency_with_every_noise_plans_or_says_why_not(load: Load, currency: type, noise: str) -> None:
    app = load("accelerated", accel_currency=currency.name, accel_noise=noise, **TINY)  # type: ignore[attr-defined]
    if (currency, noise) == (PureDP, "Gaussian"):
        assert "never gives pure ε-DP" in said(app) and len(charts(app)) == 0
    else:
        assert not app.error and len(charts(app)) == 4
        assert app.metric[0].value.startswith(("ε", "ρ", "μ"))


def shared_numbers() -> list:
    declared = {c.name: c for method in presets.METHODS.values() for c in type(method).controls() if c.low is not None}
    budgets = [
        (cls, control) for cls in (PureDP, ApproximateDP, ZeroConcentratedDP, GaussianDP) for control in cls.controls()
    ]
    found = [pytest.param({}, control, id=name) for name, control in declared.items() if name != "momentum"]
    found += [pytest.param({"accel_currency": cls.name}, c, id=f"{cls.__name__}-{c.name}") for cls, c in budgets]
    momentum = declared["momentum"]
    own = {"accel_methods": ["DP-HB"], "accel_momentum_rule": "My own β"}
    return [*found, pytest.param(own, momentum, id="momentum")]


@pytest.mark.parametrize(("others", "control"), shared_numbers())
def test_both_ends_of_every_number_give_a_plan_or_a_sentence(load: Load, others: dict, control: Control) -> None:
    app = load("accelerated", **others)
    for value in (control.low, control.high):
        app.number_input(key=f"accel_{control.name}").set_value(float(value or 0.0)).run()
        assert not app.exception
        assert len(app.metric) == 4 or app.error


KINDS = {**data_panel.GENERATORS, problem_controls.QUADRATIC: Quadratic}


def problem_numbers(source: str) -> list[tuple[str, Control]]:
    """What can be set of the data and, with the first kind of them, of the model."""
    found = [(f"{source}_{control.name}", control) for control in KINDS[source].controls()]  # type: ignore[attr-defined]
    if source == next(iter(KINDS)):
        found += [(c.name, c) for c in LogisticRegression.controls() if c.name in problem_controls.MODEL]
    return [(name, control) for name, control in found if control.low is not None]


@pytest.mark.parametrize("source", KINDS)
def test_both_ends_of_every_number_of_the_problem(load: Load, source: str) -> None:
    app = load("accelerated", accel_data=problem_controls.MENU.sources[""][source].title)
    for name, control in problem_numbers(source):
        for value in (control.low, control.high):
            app.number_input(key=f"accel_{name}").set_value(float(value or 0.0)).run()
            assert not app.exception and (len(app.metric) == 4 or app.error), (name, value)
        back = None if control.default is None else float(control.default)
        app.number_input(key=f"accel_{name}").set_value(back)  # with the next number
    app.run()
    assert not app.exception and not app.error and len(app.metric) == 4


def shared_choices() -> list:
    declared = {c.name: c for method in presets.METHODS.values() for c in type(method).controls() if c.options}
    return [
        pytest.param(name, label, id=f"{name}-{value}")
        for name, c in declared.items()
        for value, label in c.options.items()
    ]


@pytest.mark.parametrize(("name", "label"), shared_choices())
def test_every_choice_gives_a_plan_or_a_sentence(load: Load, name: str, label: str) -> None:
    app = load("accelerated", **{f"accel_{name}": label})
    assert len(app.metric) == 4 or app.error


@pytest.mark.parametrize("source", ["uniform", "correlated", "heavy", "paper", "bundled", "quadratic"])
def test_every_data_set_gives_a_plan(load: Load, source: str) -> None:
    app = load("accelerated")
    app.selectbox(key="accel_data").set_value(source).run()
    assert not app.exception and not app.error and len(app.metric) == 4


def test_one_method_or_none(load: Load) -> None:
    app = load("accelerated")
    app.pills(key="accel_methods").set_value(["DP-HB"]).run()
    assert not app.exception and not app.error and "No bound is known for DP-HB" in text(app)
    app.pills(key="accel_methods").set_value([]).run()
    assert not app.exception and "No method is chosen" in said(app)
    app.pills(key="accel_methods").set_value(["DP-GD", "DP-NAG"]).run()
    assert not app.exception and not app.error


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_an_impossible_budget_is_named_at_its_control_and_at_the_plan(load: Load, value: float) -> None:
    app = load("accelerated")
    app.number_input(key="accel_epsilon").set_value(value).run()
    assert not app.exception
    assert said(app).count("Privacy budget must be between 0.01 and 50") == 2
    assert app.number_input(key="accel_epsilon").value == value and not app.metric


@pytest.mark.parametrize("key", ["uniform_rows", "epsilon", "iterations", "regularisation", "replicates"])
def test_a_mistake_hides_no_other_control(load: Load, key: str) -> None:
    app = load("accelerated", accel_seed="7", accel_relative_step="0.5", accel_clip="3")
    before = {widget.key for widget in [*app.number_input, *app.selectbox, *app.segmented_control, *app.pills]}
    app.number_input(key=f"accel_{key}").set_value(-5.0).run()
    assert not app.exception and said(app).count("must be between") == 2 and not app.metric
    assert {widget.key for widget in [*app.number_input, *app.selectbox, *app.segmented_control, *app.pills]} == before
    app.number_input(key=f"accel_{key}").set_value(1000.0 if key == "uniform_rows" else 1.0).run()
    assert not app.error and len(app.metric) == 4
    assert app.number_input(key="accel_seed").value == 7 and app.number_input(key="accel_clip").value == 3


def test_a_batch_larger_than_the_table_is_named(load: Load) -> None:
    app = load("accelerated")
    app.number_input(key="accel_batch_fraction").set_value(1.5).run()
    assert not app.exception and "Batch must be between 0.0001 and 1" in said(app)
    app.number_input(key="accel_batch_fraction").set_value(0.1).run()
    assert not app.error and "m = 1,000 of n = 10,000 rows" in text(app)


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


def test_results_stay_when_settings_change_and_say_so(load: Load) -> None:
    app = run(load("accelerated", **TINY))
    app.number_input(key="accel_epsilon").set_value(3.0).run()
    assert not app.exception
    assert "Settings changed since this run" in text(app) and len(app.dataframe) == 1


def test_stop_keeps_what_was_computed(load: Load) -> None:
    app = load("accelerated", accel_iterations="10000", accel_uniform_rows="500", accel_replicates="2")
    app.button(key="accel_run").click().run()
    job = app.session_state["accel_job"].job
    while job.trace is None or job.progress < 0.001:
        app.run()
        assert not app.exception and job.active
    app.button(key="accel_stop").click().run()
    while job.active:
        app.run()
        assert not app.exception
    app.run()
    assert not app.exception and job.state == "stopped"
    assert 0 < app.dataframe[-1].value["Steps"].max() < 10_000


def test_a_run_can_be_stopped_while_the_settings_are_wrong(load: Load) -> None:
    app = load("accelerated", accel_iterations="10000", accel_uniform_rows="500", accel_replicates="2")
    app.button(key="accel_run").click().run()
    app.number_input(key="accel_epsilon").set_value(-1.0).run()
    assert not app.exception and app.button(key="accel_run").disabled and not app.button(key="accel_stop").disabled
    app.button(key="accel_stop").click().run()
    job = app.session_state["accel_job"].job
    while job.active:
        app.run()
    app.run()
    assert not app.exception and job.state == "stopped"


def test_axis_second_chart_and_bound_can_be_changed(load: Load) -> None:
    app = run(load("accelerated", **TINY))
    app.selectbox(key="accel_axis").set_value("spent")
    app.segmented_control(key="accel_overlay").set_value("bound")
    app.run()
    assert not app.exception and any("against privacy spent" in alt for alt in charts(app))
    app.selectbox(key="accel_second").set_value("distance").run()
    assert not app.exception and any(alt.startswith("Distance travelled") for alt in charts(app))


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
        assert ("at most, if E₀ holds" in text(app)) == rests
        assert ("Upper bound on the mean for every data set;" in text(app)) != rests


def test_references_without_privacy_run_beside_the_private_methods(load: Load) -> None:
    app = run(load("accelerated", accel_references="true", accel_methods=list(presets.SIX_METHODS), **TINY))
    table = app.dataframe[-1].value
    assert sum("no privacy" in label for label in table["Algorithm"]) == 4


def test_a_long_run_is_announced_and_too_long_a_run_refused(load: Load) -> None:
    methods = list(presets.SIX_METHODS)
    app = load("accelerated", accel_uniform_rows="1000000", accel_replicates="60", accel_methods=methods)
    assert "would take about" in said(app) and app.button(key="accel_run").disabled
    assert "repeats" in said(app)


# ----------------------------------------------------------------------------------------------------------- the upload


def table(rows: int = 200) -> bytes:
    x = np.random.default_rng(0).random((rows, 3))
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(label=(x[:, 0] > x[:, 1]).astype(int))
    return frame.to_csv(index=False).encode()


def upload(load: Load) -> AppTest:
    app = load("accelerated", accel_data="Your own file", accel_iterations="5", accel_replicates="2")
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
    assert "Excess loss" not in app.dataframe[-1].value.columns and len(app.dataframe[-1].value) == len(presets.METHODS)
    app.toggle(key="accel_diagnostics").set_value(True).run()
    assert not app.exception
    assert "Excess loss" in " ".join(charts(app)) and "Excess loss" in app.dataframe[-1].value.columns


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
    app.number_input(key="accel_smoothness_cost").set_value(0.001).run()  # what the next one would cost
    assert not app.exception and "Spent ε_L = 0.1 before" in text(app)
    app.number_input(key="accel_regularisation").set_value(0.1).run()
    app.button(key="accel_release").click().run()
    assert not app.exception and "Spent ε_L = 0.1 + 0.001 before" in text(app)
    run(app)
    facts = app.session_state["accel_job"].experiment.problem.facts()
    assert facts.released == (Laplace(0.101),)
    app.selectbox(key="accel_smoothness_source").set_value("bounds").run()
    assert "A release of L is not paid for" in said(app)


def test_the_smoothness_estimated_from_data_is_labelled(load: Load) -> None:
    app = load("accelerated", accel_smoothness_source="Estimated from data (not private)")
    app.button(key="accel_estimate").click().run()
    assert not app.exception and not app.error
    assert 0.5 < app.number_input(key="accel_smoothness").value < 2.52
    assert "**not private**" in text(app)


def test_a_smoothness_below_the_convexity_is_named(load: Load) -> None:
    app = load("accelerated", accel_smoothness_source="My own value", accel_smoothness="0.01")
    assert "is below μ" in said(app) and app.number_input(key="accel_smoothness").value == 0.01


def test_a_link_restores_the_page(load: Load) -> None:
    app = load("accelerated")
    app.selectbox(key="accel_preset").set_value("Figure 4: batches of 1000").run()
    app.number_input(key="accel_seed").set_value(7).run()
    link = next(code.value for code in app.code if "accel_" in code.value)
    again = load("accelerated", **parse_qs(link.partition("?")[2]))
    assert next(code.value for code in again.code if "accel_" in code.value) == link
    assert again.number_input(key="accel_seed").value == 7
    assert [metric.value for metric in again.metric] == [metric.value for metric in app.metric]


@pytest.mark.parametrize("text", ["1e400", "abc", "-5", "nan", "<script>"])
def test_a_hostile_link_gives_a_page(load: Load, text: str) -> None:
    names = [c.name for c in GradientMethod.controls()] + ["epsilon", "methods", "data", "seed", "replicates", "clip"]
    load("accelerated", **{f"accel_{name}": text for name in names})


def test_a_method_without_a_plan_is_left_out_and_the_others_stay(load: Load) -> None:
    settings = {"accel_currency": "(ε, δ)", "accel_noise": "Gaussian", "accel_batch_fraction": "0.1"}
    app = load("accelerated", accel_methods=list(presets.SIX_METHODS), **settings)
    assert not app.exception and not app.error
    (warning,) = [warning for warning in app.warning if "all rows" in warning.value]
    assert "DP-NAG-opt" in warning.proto.title and "DP-MASG-opt" in warning.proto.title
    assert app.button(key="accel_run").disabled is False
