"""A visitor's own table beside methods without privacy: what is drawn, listed and exported; the seed; kept tables."""

import csv
import html
import io
import json
from collections.abc import Callable

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from tests.confirming import confirmed
from tests.pages.reading import Load, charts, lines, link, run, table, text, words
from tests.pages.test_accelerated import table as own_file
from tests.pages.test_accelerated import upload as accelerated_upload
from tests.pages.test_from_data import UNCONDITIONAL, badges
from tests.pages.test_mirror_uploads import ready

Files = dict[str, Callable[[], bytes]]


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Files:
    """What the download buttons of the page would deliver, by key; filled at every rerun."""
    found: Files = {}

    def keep(label: str, data: Callable[[], bytes], *, key: str, **_: object) -> None:
        found[key] = data

    monkeypatch.setattr(st, "download_button", keep)
    return found


def names(app: AppTest) -> set[str]:
    """All lines of all charts of results."""
    return {trace["name"] for spec in charts(app).values() for trace in spec["data"] if trace.get("name")}


def diagnostics(app: AppTest, page: str) -> AppTest:
    app.toggle(key=f"{page}_diagnostics").set_value(True).run()
    assert not app.exception
    return app


def test_a_reference_on_an_upload_is_nowhere_until_diagnostics_are_asked_for(load: Load, files: Files) -> None:
    app = accelerated_upload(load)
    app.button(key="accel_upload_knew_ranges").click().run()
    app.toggle(key="accel_references").set_value(True).run()
    app = run(app, press="accel_run", job="accel_job")
    labels = {arm.label for arm in app.session_state["accel_job"].experiment.arms}
    references = {label for label in labels if not label.startswith("DP-")}
    assert references and labels - references
    assert not references & {name for alt in charts(app) for name in lines(app, alt) if alt.startswith("Distance")}
    assert set(app.dataframe[-1].value["Algorithm"]) == labels - references
    taken = pd.read_csv(io.BytesIO(files["accel_csv"]()), comment="#", quoting=csv.QUOTE_NONNUMERIC)
    assert set(taken["algorithm"]) == labels - references and not any("_nonprivate" in name for name in taken)
    page = files["accel_html"]().decode()
    assert f"Guarantee: {app.session_state['accel_job'].experiment.promise}." in html.unescape(page)
    results = page[page.index("<h2>Distance") :] if "<h2>Distance" in page else page
    assert not any(f'"name":"{label}"' in results for label in references)

    diagnostics(app, "accel")
    marked = {label + " (not private)" * (label in references) for label in labels}
    assert references <= names(app) and set(app.dataframe[-1].value["Algorithm"]) == marked
    raw = [name for name in app.dataframe[-1].value if name.endswith("(not private)")]
    assert any("Time" in name for name in raw) and any("accuracy" in name.lower() for name in raw)
    assert "no value of theirs is private" in text(app)
    saved = files["accel_model_csv"]()
    assert f"Guarantee: {app.session_state['accel_job'].experiment.promise}. " in saved.decode()
    released = pd.read_csv(io.BytesIO(saved), comment="#")
    assert labels - references <= {*released} and not references & {*released, *table(app, "column")}
    taken = pd.read_csv(io.BytesIO(files["accel_csv"]()), comment="#", quoting=csv.QUOTE_NONNUMERIC)
    reference = taken[taken["algorithm"].isin(references)].dropna(axis=1, how="all")
    assert "distance_nonprivate" in reference and "distance" not in reference

    trace = app.session_state["accel_job"].job.trace
    trace.arm_traces["DP-GD"].statuses[-1] = ("running",) * len(trace.arm_traces["DP-GD"].status)  # as if cut off
    app.run()
    assert trace.time_note and trace.time_note in files["accel_model_csv"]().decode()


def test_a_chart_that_was_drawn_with_references_is_not_shown_without_diagnostics(load: Load) -> None:
    app = accelerated_upload(load)
    for name, value in (("references", True), ("diagnostics", True)):
        app.toggle(key=f"accel_{name}").set_value(value).run()
    app.session_state["accel_second"] = "distance"
    run(app, press="accel_run", job="accel_job")
    for shown in (True, False):
        app.toggle(key="accel_diagnostics").set_value(shown).run()
        drawn = {name for alt in charts(app) for name in lines(app, alt) if alt.startswith("Distance")}
        assert any("no privacy" in name for name in drawn) == shown and "DP-GD" in drawn


def test_strategies_of_a_reference_on_an_upload_are_not_offered(load: Load) -> None:
    app = ready(load, "groups")
    app.toggle(key="mirror_references").set_value(True).run()
    app = run(app)
    experiment = app.session_state["mirror_job"].experiment
    references = {arm.label for arm in experiment.arms if arm.budget is not None}
    offered = next(widget for widget in [*app.selectbox, *app.segmented_control] if "strategies_of" in str(widget.key))
    assert references and not references & set(offered.options)


def test_the_seed_of_an_upload_is_secret_by_default(load: Load, files: Files) -> None:
    app = accelerated_upload(load)
    assert "drawn afresh for every run" in text(app)
    assert not any(widget.key == "accel_seed" for widget in app.number_input)
    app = run(app, press="accel_run", job="accel_job")
    first = app.session_state["accel_job"].job.trace.last("DP-GD", "distance")
    experiment = app.session_state["accel_job"].experiment
    assert experiment.seed is None and "seed" not in link(app)
    assert '"seed":null' in files["accel_csv"]().decode() and "'seed': None" in files["accel_script"]().decode()
    assert json.loads(files["accel_settings"]())["seed"] is None
    assert "&quot;seed&quot;:null" in files["accel_html"]().decode()
    app = run(app, press="accel_run", job="accel_job")
    assert (first != app.session_state["accel_job"].job.trace.last("DP-GD", "distance")).all()

    app.toggle(key="accel_fixed_seed").set_value(True).run()
    assert "Who knows the seed can subtract the noise" in text(app)
    app.number_input(key="accel_seed").set_value(7).run()
    assert "accel_seed=7" in link(app)
    app = run(app, press="accel_run", job="accel_job")
    assert app.session_state["accel_job"].experiment.seed == 7
    both = "private if known beforehand and the seed stays secret"
    marks = "guarantee", "released model", "first chart", "second chart", "final numbers", "what publishing costs"
    assert text(app).count(f"-badge[:material/lock_open: {both}]") == len(marks)
    assert {chart.provenance for chart in app.session_state["accel_job"].charts.values()} == {both}


def test_what_publishing_costs_stands_below_the_numbers(load: Load) -> None:
    app = load("accelerated", accel_iterations="5", accel_replicates="3", accel_methods=["DP-GD", "DP-NAG"])
    app = run(app, press="accel_run", job="accel_job")
    assert "What publishing costs" in text(app)
    assert "one run of each of 2 methods: ε = 4; ε ≤" in text(
        app
    ) and "all 3 runs of each of 2 methods: ε = 12" in text(app)


def test_the_link_of_a_game_holds_no_seed_of_an_upload(load: Load) -> None:
    app = ready(load, "losses")
    assert "seed" not in link(app)


def test_the_caption_of_each_chart_says_what_its_curves_are(load: Load) -> None:
    app = accelerated_upload(load)
    app.button(key="accel_upload_knew_ranges").click().run()
    app = diagnostics(run(app, press="accel_run", job="accel_job"), "accel")
    made = {chart.heading: chart for chart in app.session_state["accel_job"].charts.values()}
    assert {chart.provenance for chart in made.values()} == {"private", "not private"}
    for chart in made.values():
        assert ("**Not private**: it reads your raw data" in chart.caption) == (chart.provenance == "not private")
        assert (" is private at ε = 2" in chart.caption) == (chart.provenance == "private")


def test_a_fixed_seed_is_a_condition_of_all_that_the_page_says(load: Load, files: Files) -> None:
    app = accelerated_upload(load)
    app.button(key="accel_upload_knew_ranges").click().run()
    app.toggle(key="accel_fixed_seed").set_value(True).run()
    app = run(app, press="accel_run", job="accel_job")
    said = words(app)
    assert not UNCONDITIONAL.search(said), UNCONDITIONAL.search(said)
    assert "private if the seed stays secret" in badges(app) and "private" not in badges(app)
    marks = "guarantee", "released model", "first chart", "second chart", "final numbers", "what publishing costs"
    assert text(app).count("-badge[:material/lock_open: private if the seed stays secret]") == len(marks)
    made = app.session_state["accel_job"].charts.values()
    assert {chart.provenance for chart in made} == {"private if the seed stays secret"}
    assert "◉ private if the seed stays secret" in files["accel_html"]().decode().replace("\\u25c9", "◉")
    taken = pd.read_csv(io.BytesIO(files["accel_csv"]()), comment="#", quoting=csv.QUOTE_NONNUMERIC)
    assert all(column.endswith("_nonprivate") for column in [*taken][3:])
    app.session_state["accel_section"] = "Sweep"
    app.run().number_input(key="accel_vary_epsilon_values").set_value(2.0).run()
    app = run(app, press="accel_vary_sweep_run", job="accel_vary_sweep_job")
    (caption,) = [item.value for item in app.caption if "private at the budget of its point" in item.value]
    assert "if nobody learns the seed" in caption

    app.toggle(key="accel_fixed_seed").set_value(False).run()
    app = run(app, press="accel_run", job="accel_job")
    assert {chart.provenance for chart in app.session_state["accel_job"].charts.values()} == {"private"}


def test_a_file_has_one_run_at_first_and_run_says_what_more_add_up_to(load: Load) -> None:
    """Whatever the repeats on public data are."""
    app = load("accelerated", accel_data="Your own file", accel_iterations="5", accel_replicates="20")
    app.file_uploader[0].upload("mine.csv", own_file(), "text/csv")
    confirmed(app.run())
    app.button(key="accel_upload_fill").click().run()
    price = "3 releases, ε = 6 by adding up."
    assert app.number_input(key="accel_file_replicates").value == 1 and text(app).count(price) == 2
    app.number_input(key="accel_file_replicates").set_value(3).run()
    more = "9 releases, ε = 18 by adding up; with 1 repeat ε = 6."
    assert f"Press Run: {more}" in text(app) and price not in text(app)
    app = run(app, press="accel_run", job="accel_job")
    job = app.session_state["accel_job"].job
    assert sum(len(lane.status) for lane in job.trace.arm_traces.values() if lane.private) == 9
    assert f"runs start by click only. Run: {more}" in text(app), "the next ones cost as much again"
    app.session_state["accel_section"] = "Sweep"
    app.run()
    assert "publishing all of it: 45 releases" in text(app)
