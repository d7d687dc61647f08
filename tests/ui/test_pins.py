"""Pins of a run on somebody's own file: nothing of the raw data is kept unless it is shown, and nothing leaves."""

from dataclasses import replace
from typing import Literal

import plotly.graph_objects as go
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.compare import pins
from dpviz.execution.runner import Runner
from dpviz.plots import pinned_overlay
from dpviz.plots.elements.chart import Chart
from dpviz.ui import families
from dpviz.ui.controls import Panel
from dpviz.ui.experiment.pins import PagePin, with_pins
from tests.ui.uploaded_run import uploaded_run


def _page() -> None:
    import streamlit as st

    from dpviz.ui.controls import Panel
    from dpviz.ui.experiment import hero
    from dpviz.ui.experiment import pins as panel
    from dpviz.ui.experiment import run as run_panel
    from dpviz.ui.experiment.run import StartableExperiment

    here = Panel("p")
    panel.read_address(here, lambda _: True)
    panel.show_button(here, hero.curves, lambda _: True)
    run = run_panel.finished_run("p")
    assert run is not None
    panel.show(here, "P", run.experiment, hero.curves, lambda found: StartableExperiment(found, {}))
    picture = panel.with_pins(here, hero.curves)(run, bool(st.session_state.get("p_diagnostics")))
    names = [] if picture is None else [trace.name for trace in picture.figure.data if trace.name]
    st.session_state["pinned_overlay"] = [name for name in names if name.startswith("Pin ")]
    st.session_state["linked"] = here.query


def page() -> AppTest:
    """A run on somebody's file that has ended."""
    app = AppTest.from_function(_page, default_timeout=300)
    app.session_state["p_job"] = uploaded_run()
    app.run()
    assert not app.exception
    return app


def press(app: AppTest) -> PagePin:
    app.button(key="p_pin").click().run()
    assert not app.exception
    (pinned,) = app.session_state["p_pins"]
    return pinned


def test_a_pin_of_a_file_without_diagnostics_keeps_what_is_released() -> None:
    app = page()
    pinned = press(app)
    assert pinned.picture is not None and not pinned.picture.not_private and not pinned.raw
    assert pinned.summary is not None and all(metric.released for metric in pinned.summary.metrics.values())
    assert pinned.picture.axes[1].startswith("Distance travelled") and app.session_state["pinned_overlay"] == [
        "Pin 1: DP-GD"
    ]


def test_lines_of_diagnostics_are_kept_only_while_they_are_shown_and_seen_only_then() -> None:
    app = page()
    app.session_state["p_diagnostics"] = True
    app.run()
    pinned = press(app)
    assert pinned.raw and pinned.picture is not None and pinned.picture.not_private
    assert app.session_state["pinned_overlay"] == ["Pin 1: DP-GD"]
    app.session_state["p_diagnostics"] = False
    app.run()
    assert app.session_state["pinned_overlay"] == []


@pytest.mark.parametrize("state", ["stopped", "timeout"])
def test_a_run_that_was_cut_off_has_no_pin_and_gives_a_pin_no_lines(state: Literal["stopped", "timeout"]) -> None:
    app, run = page(), uploaded_run()
    app.session_state["p_job"].job.state = state
    app.run()
    assert app.button(key="p_pin").disabled
    run.job.state = "timeout"
    app.session_state["p_pins"] = (PagePin(pins.Pin("Theirs", run.experiment), key="k"),)
    app.session_state["p_pin_k_job"] = run
    app.run()
    assert not app.exception and app.session_state["p_pins"][0].picture is None


def test_a_run_on_a_file_is_pinned_once_and_another_one_of_its_settings_again() -> None:
    app = page()
    pin = app.button(key="p_pin")  # as it was drawn before the first press
    press(app)
    pin.click().run()
    assert len(app.session_state["p_pins"]) == 1 and app.button(key="p_pin").disabled
    app.session_state["p_job"] = uploaded_run()
    app.run()
    app.button(key="p_pin").click().run()
    assert len(app.session_state["p_pins"]) == 2


def test_a_pin_of_a_file_holds_no_table_is_in_no_link_and_in_no_file() -> None:
    app = page()
    pinned = press(app)
    assert "stays in this session" in " ".join(found.value for found in app.markdown)
    assert "pin" not in app.query_params and app.session_state["linked"] == {}
    assert app.session_state["visitor"].notes["p_pins"] == ()
    assert not app.get("download_button") and '"pins": []' in pins.to_file([pinned.pin])
    sizes = [part.nbytes for ghost in pinned.picture.pinned_lines for part in (ghost.x, ghost.y)]  # type: ignore[union-attr]
    assert max(sizes) <= 8 * 5  # four steps and the start, of a table of 40 rows


def _removed() -> None:
    import gc
    import weakref

    import streamlit as st

    found = st.session_state["found"] = []
    for run in st.session_state["runs"]:
        built = weakref.ref(run.problem)
        for names in (["c" * 32], list(run.tables)):
            run.forget_tables(names)
            gc.collect()
            found.append((run.has_data, built() is not None))


def test_a_run_of_a_file_that_is_removed_ends_and_what_was_built_for_its_diagnostics_is_forgotten() -> None:
    ended = uploaded_run()
    waiting = replace(
        ended, job=Runner(slots=0).submit(ended.experiment, dict(ended.tables)), tables=dict(ended.tables)
    )
    app = AppTest.from_function(_removed, default_timeout=300)
    app.session_state["runs"] = [ended, waiting]
    assert not app.run().exception
    assert app.session_state["found"] == [(True, True), (False, False)] * 2, "the first time, another file is removed"
    assert waiting.job._stopping.is_set()


def test_a_page_knows_what_it_can_set_and_no_mixture_with_another_familys_methods() -> None:
    pages = [entry.page() for entry in families.FAMILIES]
    every = {page.prefix: [preset.experiment for preset in page.presets] for page in pages}
    for page in pages:
        for prefix, experiments in every.items():
            assert {page.can_express(experiment) for experiment in experiments} == {prefix == page.prefix}
    first, second = (found[0] for found in list(every.values())[:2])
    mixed = second.replaced(arms=(second.arms[0], first.arms[0].replaced(label="Other")))
    assert not any(page.can_express(mixed) for page in pages)


def test_over_an_objective_a_pin_of_another_problem_is_named_and_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    dots = {"x": [0.0, 1.0], "y": [0.0, 1.0], "name": "DP-GD", "mode": "markers", "marker": {"color": "#0072B2"}}
    figure = go.Figure([go.Contour(z=[[0.0, 1.0], [1.0, 2.0]]), go.Scatter(dots)])
    figure.update_layout(xaxis_title="x", yaxis={"title": "y", "range": (0, 1)})
    run, (other, *_) = uploaded_run(), families.FAMILIES[0].page().presets
    drawn = pinned_overlay.pinned_parts(figure, ())
    pinned = (PagePin(pins.Pin("Same", run.experiment), drawn), PagePin(pins.Pin("Other", other.experiment), drawn))
    monkeypatch.setattr("dpviz.ui.experiment.pins.on_page", lambda _: pinned)
    picture = with_pins(Panel("p"), lambda *_: Chart(figure, "", "", ""))(run, True)
    assert picture is not None and [trace.name for trace in picture.figure.data][1:] == ["Same: DP-GD", "DP-GD"]
    drawn_names, _, other_names = picture.caption.partition("Pinned, and not drawn here: ")
    assert "Same" in drawn_names and "Other" in other_names
    assert "Other" not in drawn_names and "Same" not in other_names
