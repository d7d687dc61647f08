"""The page of second-order solutions: the light before a run, how runs ended, presets, currencies, files of its own."""

import io
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

import dpviz
from dpviz.datasets.bundled import WIDTH
from dpviz.families.second_order import presets, texts
from dpviz.families.second_order.advice import compare
from dpviz.families.second_order.comparison import EPSILONS, TABLES
from dpviz.privacy.budgets import ApproximateDP
from dpviz.privacy.events import Laplace
from dpviz.problems.nonconvex.nonconvex import RobustComponent
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.second_order.page import PAGE as SECOND_ORDER
from tests.confirming import confirmed
from tests.pages.reading import (
    Load,
    charts,
    choose,
    clouds,
    link,
    metrics,
    pictures,
    run,
    said,
    table,
    text,
    type_into,
    y_title,
)
from tests.pages.test_mirror_uploads import people

PAGE = "second_order"
SMALL = {"second_saddle_rows": "2000", "second_saddle_dimension": "3", "second_replicates": "4"}
RED = {"second_gradient_target": "0.05", "second_curvature_target": "0.15", "second_epsilon": "0.25"}
RAW = ("Objective", "Gradient norm", "Smallest eigenvalue")


def lights(app: AppTest) -> dict[str, str]:
    """The traffic light by method, without what it means."""
    found = table(app, "Can it stop?")
    return dict(zip(found["Method"], found["Can it stop?"].str.partition(":")[0], strict=True))


def live(app: AppTest) -> dict[str, Any]:
    """The live picture."""
    (part,) = [part for part in app.get("bidi_component") if part.proto.id.endswith("second_hero")]
    found: dict[str, Any] = json.loads(json.loads(part.proto.json)["figure"])
    return found


# ------------------------------------------------------------------------------------------------------------- the plan


def test_the_light_is_there_before_anything_runs(load: Load) -> None:
    app = load(PAGE, second_references="true")
    assert app.title[0].value == "Second-order solutions" and not app.error
    assert app.selectbox(key="second_preset").value == presets.PRESETS[0].name
    assert presets.PRESETS[0].look_for in text(app) and "second_job" not in app.session_state
    assert lights(app) == {"OPT": "~ amber", presets.FIRST_ORDER: "? cannot tell", presets.PERTURBED: "✓ green"}
    assert "OPT waits W = 27.2 steps, of 1,511" in said(app) and pictures(app) == 4
    app.number_input(key="second_epsilon").set_value(1.0).run()
    assert lights(app)["OPT"] == "✓ green" and "OPT waits W = 1 step, of 1,511" in text(app)
    numbers = table(app, "W").set_index("Method").loc["OPT"]
    assert numbers["Gradient"] == pytest.approx(0.2317, rel=1e-3)  # THEORY.md, section 6
    assert numbers["Curvature"] == pytest.approx(0.3567, rel=1e-3)


def test_noise_that_may_be_smaller_is_called_so_and_is_no_warning(load: Load) -> None:
    app = load(PAGE, second_methods=["OPT", "2OPT"], second_epsilon="1")
    assert "At most so much of 2OPT:" in text(app) and not app.warning


def test_red_says_what_would_turn_it_green_and_that_does(load: Load) -> None:
    app = load(PAGE, second_methods="OPT", **RED)
    assert lights(app) == {"OPT": "✗ red"}
    (verdict,) = (error.value for error in app.error)
    assert "looser targets" in verdict
    rows = verdict.partition("n = ")[2].partition(" rows")[0].replace(",", "")
    epsilon = verdict.partition("ε = ")[2].partition(";")[0]
    more = load(PAGE, second_methods="OPT", **RED, second_saddle_rows=rows)
    assert lights(more) == {"OPT": "✓ green"} and not more.error
    app.number_input(key="second_epsilon").set_value(float(epsilon) * 0.98).run()
    assert lights(app) == {"OPT": "~ amber"}
    app.number_input(key="second_epsilon").set_value(float(epsilon)).run()
    assert lights(app) == {"OPT": "✓ green"} and not app.error


def test_a_constant_below_what_follows_from_the_loss_is_marked_wherever_it_counts(load: Load) -> None:
    app = load(PAGE, second_saddle_loss="Logistic", second_smoothness="0.001", second_methods="OPT")
    assert lights(app) == {"OPT": "? open"} and not app.success
    assert "OPT: stops soon, if G holds" in text(app) and "G = 0.001 (assumed), M = 0.101, f can fall" in text(app)
    assert table(app, "W")[["Rows, proven", "Least decrease"]].isna().all(axis=None)
    assert any("Assumed, not known: G = 0.001 where 0.252 follows" in warning.value for warning in app.warning)
    assert "G = 0.001 is declared and **assumed**: 0.252 follows from the loss" in text(app)


# -------------------------------------------------------------------------------------------------------------- the run


def test_a_run_says_how_many_stopped_and_where(load: Load) -> None:
    app = run(load(PAGE, second_references="true", second_replicates="20"))
    assert live(app)["data"][0]["type"] == "contour"
    choose(app, "face", "Cloud")
    ended = table(app, "At a minimum").set_index("Method")
    assert ended.loc["OPT", "Finished"] == "20 of 20" == ended.loc[presets.FIRST_ORDER, "Finished"]
    assert int(ended.loc["OPT", "At a minimum"].split()[0]) >= 19  # the rate is 0.99: THEORY.md, section 6
    assert ended.loc[presets.FIRST_ORDER, "At a minimum"] == "0 of 20"
    assert metrics(app)["Runs stopped: OPT"] == "20 of 20" and "none within both targets: only flat" in text(app)
    assert any("green-badge[✓ both targets met]" in part.value for part in app.main.markdown)
    alts = " ".join(charts(app))
    assert "Is the gradient small?" in alts and "Is the curvature not negative?" in alts and "by purpose" in alts
    assert texts.CERTIFIED not in text(app)
    assert "reads the raw data: **not private**" in next(m.help for m in app.metric if m.label.startswith("Runs"))
    (film,) = clouds(app)
    assert {walk["label"] for walk in film["walks"]} == set(ended.index) - {"OPT, no privacy"}
    assert not any(walk["points"][0].any() for walk in film["walks"])  # all start in the middle
    assert film["raw"] and film["ground"]
    for walk in film["walks"]:  # who has ended spends no more
        after = [spent for step, spent in zip(film["steps"], walk["spent"], strict=True) if step >= walk["last"]]
        assert len(set(after)) == 1 < len(set(walk["spent"]))
    assert {walk["label"] for walk in film["walks"] if walk["plain"]} == {
        "OPT"
    }  # a method is beside itself, not another
    choose(app, "tests_of", presets.FIRST_ORDER)
    assert texts.NEVER_ASKED in text(app)


def test_who_does_not_stop_is_told_why_and_what_was_used(load: Load) -> None:
    few = {"second_methods": ["OPT", "OPT-B"], "second_iterations": "2", "second_batch_fraction": "0.5"}
    app = run(load(PAGE, **SMALL | {"second_saddle_rows": "20000"}, **few))
    ended = table(app, "Finished").set_index("Method")
    assert list(ended["Finished"]) == ["0 of 4"] * 2 and ended.loc["OPT-B", "Used"] == "100 %"
    assert texts.TOO_SOON in text(app) and texts.NOISY not in text(app)
    noisy = {"second_methods": "OPT", "second_epsilon": "0.05", "second_gradient_target": "0.01"}
    app = run(load(PAGE, **SMALL | {"second_saddle_rows": "1000"}, **few | noisy))
    assert lights(app) == {"OPT": "✗ red"} and texts.NOISY in text(app)
    app = run(load(PAGE, **SMALL, second_methods=presets.PERTURBED, second_iterations="2"))
    assert texts.TOO_SOON in text(app) and texts.NOISY not in text(app)


def test_the_papers_tables_are_there_before_they_are_filled(load: Load) -> None:
    app = load(PAGE, **SMALL, second_epsilon="1")
    for tab in ("Accounting", "The paper's tables"):
        app.session_state["second_tabs"] = tab
        app.run()
        assert not app.exception and not app.error
    for tolerances in TABLES:
        choose(app, "table", tolerances)
        found = [frame.value for frame in app.dataframe if "Loss, paper" in frame.value]
        assert [list(each["Method"]) for each in found] == [list(TABLES[tolerances])] * len(EPSILONS)
        assert all(each["Loss, here"].isna().all() and each["Before"].notna().all() for each in found)
        choose(app, "table_mode", "published")
        published = table(app, "Loss, paper")
        assert (
            published["Before"].isna() == published["Method"].str.endswith("-B")
        ).all() and texts.SIMULATION in text(app)
        choose(app, "table_mode", "honest")


def test_a_certificate_is_not_read_against_the_line_of_the_matrix(load: Load) -> None:
    settings = {"second_replicates": "2", "second_methods": "OPT", "second_certificate": "true"}
    app = run(load(PAGE, **settings))
    assert (
        texts.CERTIFIED in text(app)
        and "Noise of the gradient s_g, as drawn" in app.selectbox(key="second_second").options
    )


# ---------------------------------------------------------------------------------------------------- files of your own


def test_a_file_runs_by_click_and_hides_what_reads_it(load: Load) -> None:
    app = load(
        PAGE, second_data="Your own file", second_file_replicates="2", second_follow="true", second_methods="OPT"
    )
    app.file_uploader[0].upload("mine.csv", people(), "text/csv")
    confirmed(app.run())
    app.button(key="second_upload_fill").click().run()
    assert not app.exception and set(lights(app)) == {"OPT"} and "second_job" not in app.session_state
    assert "d = 3" in text(app)  # two columns, and the constant one
    app = run(app)
    ended = table(app, "Finished")
    assert "At a minimum" not in ended and list(ended["Method"]) == ["OPT"]
    assert not any("raw data" in metric.help for metric in app.metric if metric.label.startswith("Runs of"))
    trace = app.session_state["second_job"].job.trace
    released = trace.model("OPT")
    assert table(app, "column")["OPT"].tolist() == [*released.coef_, released.intercept_]
    alts = " ".join(charts(app))
    assert "Is the gradient small?" in alts and not any(name in alts for name in RAW) and texts.NOT_NEEDED in text(app)
    assert y_title(live(app)).startswith("Noisy gradient norm")
    app.toggle(key="second_diagnostics").set_value(True).run()
    assert not app.exception and "At a minimum" in table(app, "Finished") and "Objective" in " ".join(charts(app))
    assert "of the rows, which are shortened" in text(app)
    app.toggle(key="second_diagnostics").set_value(False).run()
    assert "of the rows, which are shortened" not in text(app), "it is counted in the raw rows"


def test_a_copy_of_the_papers_file_needs_no_declarations(load: Load) -> None:
    generator = np.random.default_rng(0)
    cells = generator.integers(0, 2, (400, WIDTH + 1))
    cells[:, :10] *= 1000
    cells[:, -1] = np.resize([1, 2, 2, 3], 400)
    content = io.BytesIO()
    pd.DataFrame(cells).to_csv(content, header=False, index=False)
    app = load(PAGE, second_data="Your copy of covtype.data", second_methods="OPT")
    app.file_uploader[0].upload("covtype.data", content.getvalue(), "text/csv")
    confirmed(app.run())
    assert not app.exception and f"{WIDTH} features" in text(app) and "n = 300 rows, d = 54" in text(app)
    assert lights(app) == {"OPT": "✗ red"} and not app.button(key="second_run").disabled
    assert "Rows of other classes were left out: n depends on the data, **not private**" in text(app)


def test_the_gap_of_a_random_start_can_be_bought_and_the_plan_pays_for_it(load: Load) -> None:
    data = {"second_data": "Stand-in for Covertype (synthetic)", "second_covertype_rows": "2000"}
    data |= {"second_start": "Random, the same in all repeats", "second_methods": "OPT", "second_epsilon": "1"}
    app = load(PAGE, **data)
    before = metrics(app)
    assert "Spends ε_Γ" in text(app) and "before the run; the plan gets the rest" in text(app)
    app.button(key="second_release").click().run()
    assert not app.exception
    gap, cost = (app.number_input(key=f"second_{name}").value for name in ("gap", "gap_cost"))
    assert 0.5 < gap < 1.5 and 0 < cost < 0.1, "the bound for every data set is above 7"
    assert app.button(key="second_release").disabled, "again it would cost the budget again"
    assert metrics(app) != before
    app.number_input(key="second_start_seed").set_value(5).run()
    assert "changed after this gap was computed. Compute it again" in said(app)
    app.selectbox(key="second_start").set_value("zero").run()
    assert not app.exception and "second_release" not in [button.key for button in app.button]


RANDOM = {
    "second_data": "Stand-in for Covertype (synthetic)",
    "second_covertype_rows": "2000",
    "second_start": "Random, the same in all repeats",
    "second_methods": "OPT",
}


def test_ranges_that_were_bought_make_no_gap_a_released_one() -> None:
    rows = np.arange(2000)
    frame = pd.DataFrame({"a": rows % 7, "y": rows % 2})
    data = dpviz.table(frame, target="y", positive=1, bounds=dpviz.private_bounds(frame, ["a"], epsilon=5))
    experiment = dpviz.Experiment(dpviz.LogisticTukey(data=data), dpviz.ShortStep(), epsilon=10, delta=1e-5)
    view = PlanView(experiment, experiment.plans(), {}, {}, SECOND_ORDER.predict)
    assert experiment.problem.facts().released and "(released)" not in SECOND_ORDER.size_note(view)


def test_a_gap_that_is_typed_beside_a_cost_is_assumed(load: Load) -> None:
    """Neither the cost of another release nor a typed one makes it one: it is charged nothing, and proves nothing."""
    app = load(PAGE, **RANDOM)
    app.button(key="second_release").click().run()
    bought = app.number_input(key="second_gap").value
    assert "is from a release" in text(app) and "f can fall by at most Γ = " in text(app)
    assert "(released)" in text(app) and "(assumed)" not in text(app)
    app.number_input(key="second_gap").set_value(0.01).run()
    assert not app.exception and app.number_input(key="second_gap_cost").value is not None
    assert "Γ = 0.01 is declared and **assumed**" in text(app) and "is from a release" not in text(app)
    assert "This Γ is your own value and no release" in text(app)
    app.number_input(key="second_gap").set_value(bought).run()
    assert "is from a release" in text(app), "the same number is still the one that was bought"
    app = load(PAGE, **RANDOM)
    app.number_input(key="second_gap_cost").set_value(0.01).run()
    app.number_input(key="second_gap").set_value(0.01).run()
    assert "Γ = 0.01 is declared and **assumed**" in text(app) and "is from a release" not in text(app)


def test_a_gap_that_came_by_a_link_with_its_cost_is_a_release(load: Load) -> None:
    app = load(PAGE, **RANDOM, second_gap="1.5", second_gap_cost="0.05")
    assert not app.exception and "Γ = 1.5 is from a release" in text(app)
    app.number_input(key="second_gap_cost").set_value(1e-9).run()
    assert not app.exception and "Γ = 1.5 is from a release" in text(app)
    run(app)
    assert app.session_state["second_job"].experiment.problem.facts().released == (Laplace(0.05),)


def test_every_release_of_the_gap_of_a_file_is_paid_for(load: Load) -> None:
    start = {"second_start": "Random, the same in all repeats", "second_methods": "OPT"}
    app = load(PAGE, second_data="Your own file", second_replicates="2", second_iterations="2", **start)
    app.file_uploader[0].upload("mine.csv", people(), "text/csv")
    confirmed(app.run())
    app.button(key="second_upload_fill").click().run()
    for seed in (5, 6):
        app.number_input(key="second_start_seed").set_value(seed).run()
        app.number_input(key="second_gap_cost").set_value(0.01).run()
        app.button(key="second_release").click().run()
    assert not app.exception and "Spent ε_Γ = 0.01 + 0.01 before" in text(app)
    assert run(app).session_state["second_job"].experiment.problem.facts().released == (Laplace(0.02),)


def test_a_split_of_ones_own_is_told_at_once(load: Load) -> None:
    """Slider and table set the same share, of which the page says what it is worth; so do the splits to start from."""
    app = load(PAGE, second_methods=["OPT", "OPT-LS"], second_epsilon="1")
    app.session_state["second_tabs"] = "Where the budget goes"
    app.run()

    def told(label: str = "OPT", **settings: float) -> None:
        method = presets.METHODS[label].replaced(**settings)
        found = compare(label, method, method.plan(RobustComponent().facts(), ApproximateDP(epsilon=1.0, delta=1e-5)))
        assert found is not None
        rows = table(app, "Rows until W ≤ 2").set_index("Split")
        for name, split in found.splits.items():
            said_of = [split.share, split.stopping.gradient_noise, split.stopping.hessian_noise]
            shown_of = [float(rows.loc[name, column]) for column in ("Share", "Gradient noise", "Hessian noise")]
            assert shown_of == pytest.approx(said_of, rel=0.01)
            assert rows.loc[name, "Can it stop?"] == texts.stops(split.stopping)

    told()
    app.select_slider(key="second_hessian_share_again").set_value(0.8).run()
    assert app.number_input(key="second_hessian_share").value == 0.8 and "second_hessian_share=0.8" in link(app)
    told(hessian_share=0.8)
    type_into(app, "second_hessian_share_table", {1: 30.0})  # of gradients
    assert app.number_input(key="second_hessian_share").value == 0.7
    app.button(key="second_split_Soonest W ≤ 2").click().run()
    told(hessian_share=(chosen := app.number_input(key="second_hessian_share").value))
    assert 0.6 < chosen < 0.65
    app.segmented_control(key="second_split_of").set_value("OPT-LS").run()
    app.button(key="second_split_Even").click().run()
    app.number_input(key="second_search_share").set_value(0.2).run()
    told("OPT-LS", search_share=0.2)
    assert "The line search has 20 %" in text(app) and not app.exception and not app.error
    for methods, reason in ((["OPT"], "split of your own"), (["First order only"], "gradients get all there is")):
        other = load(PAGE, second_methods=methods, second_split="By the decrease that a step is sure of")
        other.session_state["second_tabs"] = "Where the budget goes"
        assert reason in text(other.run()) and not other.exception
