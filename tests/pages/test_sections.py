"""The first screen belongs to the settings on it, and below it one section is open, on every algorithm's page."""

import json
import re
from functools import partial
from typing import Any
from urllib.parse import parse_qs

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.scriptrunner import RerunData
from streamlit.testing.v1 import AppTest, local_script_runner
from streamlit.testing.v1.element_tree import ElementTree, parse_tree_from_messages

from dpviz.ui import families
from dpviz.ui.accelerated.page import UPLOADS
from dpviz.ui.experiment import texts
from dpviz.ui.experiment.controls import CURRENCIES
from dpviz.ui.experiment.sections import CHECK, RESULTS
from dpviz.ui.experiment.sections import NAMES as SECTIONS
from tests.confirming import confirmed
from tests.pages.reading import Load, drawn, link, run, said, say, stops, text
from tests.pages.test_released_model import people

NAMES = [family.name for family in families.FAMILIES]


def small(name: str, **settings: str) -> dict[str, str]:
    prefix = families.named(name).page().prefix
    few = {"iterations": "8", "replicates": "2", **settings}
    return {f"{prefix}_{control}": value for control, value in few.items()}


def headings(app: AppTest) -> list[str]:
    return [header.value for header in app.header]


@pytest.mark.one_section
@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("name", NAMES)
def test_a_link_opens_one_section_and_nothing_of_the_others_is_drawn(load: Load, name: str, section: str) -> None:
    prefix = families.named(name).page().prefix
    app = run(load(name, **small(name, section=section)), press=f"{prefix}_run", job=f"{prefix}_job")
    assert not app.exception and not app.error and headings(app)[0] == section
    assert not set(headings(app)) & (set(SECTIONS) - {section})
    kept = parse_qs(link(app).partition("?")[2]).get(f"{prefix}_section", [])
    assert kept == [section]
    assert app.dataframe or section != RESULTS
    if section == CHECK:
        assert app.get("page_link"), "there is an audit of the methods that are chosen at first"


@pytest.mark.one_section
@pytest.mark.parametrize("name", NAMES)
def test_the_plan_begins_with_two_charts_and_a_tab_has_the_noise_and_the_others(load: Load, name: str) -> None:
    assert not load(name, **small(name)).main.header, "no section is open at first"
    app = load(name, **small(name, section="Plan"))
    ahead = [part.value for part in app.main.subheader]
    app.session_state[f"{families.named(name).page().prefix}_tabs"] = "More charts"
    app.run()
    others = [part.value for part in app.main.subheader]
    assert not app.exception and len(ahead) == 2 and not set(ahead) & set(others)
    assert len(drawn(app, lambda key: "_hero_" in key)) == 2


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_of_earlier_settings_says_so_and_offers_run(load: Load, name: str) -> None:
    prefix = families.named(name).page().prefix
    app = run(load(name, **small(name)), press=f"{prefix}_run", job=f"{prefix}_job")
    assert texts.EARLIER not in text(app)
    key = next(item.key for item in app.number_input if item.key in (f"{prefix}_epsilon", f"{prefix}_mu"))
    title = app.number_input(key=key).label.removesuffix(", exact value")
    app.number_input(key=key).set_value(0.7).run()
    assert texts.EARLIER in text(app), "and it names what has changed:"
    assert re.search(rf"{title}: \S+ → 0\.7\.", text(app).replace("\\", ""))
    app.button(key=f"{prefix}_run_these").click().run()
    app.session_state[f"{prefix}_job"].job.wait(60)
    app.run()
    assert not app.exception and texts.EARLIER not in text(app)
    assert not [button for button in app.button if button.key == f"{prefix}_run_these"]


@pytest.mark.one_section
@pytest.mark.parametrize("name", NAMES)
def test_reset_sets_every_control_to_its_default(load: Load, name: str) -> None:
    prefix = families.named(name).page().prefix
    app = load(name, **small(name, seed="7", currency="gaussian"))
    assert f"{prefix}_seed=7" in link(app)
    app.button(key=f"{prefix}_reset").click().run()
    left = parse_qs(link(app).partition("?")[2]).keys()
    assert not app.exception and left <= {f"{prefix}_follow"}


@pytest.mark.parametrize("name", NAMES)
def test_sentences_of_the_first_screen_are_short(name: str) -> None:
    page = families.named(name).page()
    told = [page.texts.QUESTION, *(group.why_missing for group in page.groups)]
    sentences = [part for words in told for part in re.split(r"(?<=[.?!]) ", words)]
    assert not [sentence for sentence in sentences if len(sentence.split()) > 20]


def test_a_file_begins_with_an_empty_frame_in_place_of_the_picture_of_other_data(load: Load) -> None:
    app = run(load("accelerated", **small("accelerated")), press="accel_run", job="accel_job")
    assert app.metric[0].label.endswith("ends at")
    defaults = [app.session_state[f"accel_{name}"] for name in UPLOADS]
    app.button(key="accel_own_file").click().run()
    assert not app.exception and app.selectbox(key="accel_data").value == "upload"
    assert [app.session_state[f"accel_{name}"] for name in UPLOADS] == [on_file for _, on_file in UPLOADS.values()]
    assert "Before Run: your file." in text(app) and "Done:" not in text(app)
    assert "runs start by click only" in text(app) and "accel_follow" not in [toggle.key for toggle in app.toggle]
    assert not [metric for metric in app.metric if "ends at" in metric.label]
    app.file_uploader[0].upload("mine.csv", people(), "text/csv")
    assert "Before Run: how the file is read" in text(app.run())
    confirmed(app)
    assert "Before Run: the range of" in text(app)
    app.button(key="accel_upload_fill").click().run()
    assert next(box for box in app.expander if "mine" in box.label).proto.expanded, (
        "what is optional is still to be seen"
    )
    app.button(key="accel_done").click().run()
    assert not next(box for box in app.expander if "mine" in box.label).proto.expanded
    price = "3 releases, ε = 6 by adding up."  # whatever the repeats on other data
    assert f"Press Run: {price}" in text(app) and f"runs start by click only. Run: {price}" in text(app)
    app.button(key="accel_remove").click().run()
    assert app.selectbox(key="accel_data").value != "upload" and app.metric[0].label.endswith("ends at")
    assert [app.session_state[f"accel_{name}"] for name in UPLOADS] == defaults


def test_the_first_repeats_come_first_and_then_all(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpviz.ui.experiment.run.START_WAIT", 0.0)
    monkeypatch.setattr("dpviz.ui.experiment.run.FOLLOW_SECONDS", 0.0)  # however quick the machine
    app = load("accelerated", **small("accelerated", follow="true", replicates="60", iterations="60"))
    first = app.session_state["accel_job"]
    assert first.experiment.replicates == 4
    first.job.wait(60)
    offered = [button.key for button in app.run().button]
    assert "accel_run_all" in offered and "First 4 of 60 runs." in text(app)
    monkeypatch.setattr("dpviz.ui.experiment.run.FOLLOW_SECONDS", 1e9)  # however slow
    app.run()
    whole = app.session_state["accel_job"]
    assert whole.experiment.replicates == 60
    assert "accel_run_all" not in [button.key for button in app.button], "they are under way"
    whole.job.wait(60)
    app.run()
    assert not app.exception and "First 4 of 60 runs." not in text(app) and "Median of 60 runs" in text(app)


def moved_alone(app: AppTest, name: str, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    """Draw the page but its sidebar, as a server does when a number above the picture has changed."""
    parts = app._fragment_storage.resolve_target(f"{name}_whole")
    with monkeypatch.context() as patch:
        patch.setattr(local_script_runner, "RerunData", partial(RerunData, fragment_id_queue=parts))
        return app.run()


@pytest.mark.one_section
@pytest.mark.parametrize("name", NAMES)
def test_a_move_sends_little(load: Load, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the picture of a run on the page, which then belongs to earlier settings."""
    prefix = families.named(name).page().prefix
    app = run(load(name, **small(name)), press=f"{prefix}_run", job=f"{prefix}_job")
    sent: list[ForwardMsg] = []

    def kept(messages: list[ForwardMsg]) -> ElementTree:
        sent[:] = messages
        return parse_tree_from_messages(messages)

    monkeypatch.setattr(local_script_runner, "parse_tree_from_messages", kept)
    number = app.main.number_input[0].set_value(0.7)
    assert number.key is not None
    app.query_params[number.key] = "0.7"  # as a browser has it by then
    moved_alone(app, prefix, monkeypatch)
    assert texts.EARLIER in text(app)
    assert len(sent) <= 62 and sum(message.ByteSize() for message in sent) <= 55_000


def on_screen(app: AppTest, question: str) -> list[object]:
    """All that the page shows beside its sidebar, and the link to it."""
    words = [part.value for part in app.main.markdown if part.value != question]
    values = [words, *([part.value for part in parts] for parts in (app.main.caption, app.main.selectbox))]
    return [*values, said(app), drawn(app), link(app)]


@pytest.mark.one_section
@pytest.mark.parametrize("name", NAMES)
def test_what_is_drawn_without_the_sidebar_is_what_the_whole_page_would_be(
    load: Load, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a mistake is made and mended, and where a preset is picked, which changes the sidebar as well."""
    page = families.named(name).page()
    prefix, question = page.prefix, page.texts.QUESTION
    whole, alone = (load(name, **small(name, section="Plan")) for _ in range(2))
    leads = [box.key for box in alone.main.number_input][:3]
    for key, value in [(leads[0], 0.7), (leads[1], 11.0), (leads[0], -1.0), (leads[0], 1.7)]:
        for app in (whole, alone):
            app.number_input(key=key).set_value(value)
        whole.run()
        moved_alone(alone, prefix, monkeypatch)
        assert not alone.exception and on_screen(alone, question) == on_screen(whole, question)
        assert not alone.sidebar.number_input, "the sidebar stays as it was"
    preset = alone.selectbox(key=f"{prefix}_preset")
    for app in (whole, alone):
        app.selectbox(key=f"{prefix}_preset").set_value(preset.options[0])
    whole.run()
    moved_alone(alone, prefix, monkeypatch)
    assert alone.selectbox(key=f"{prefix}_preset").value == preset.options[0] and alone.sidebar.number_input
    assert on_screen(alone, question) == on_screen(whole, question)


def pressed(app: AppTest, budget: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The slider of the budget, as the browser has it, and the stops that the page sends when it is pressed."""
    assert not stops(app).get("charts")
    (part,) = [part.proto for part in app.get("bidi_component") if part.proto.id.endswith(f"{budget}_slider")]
    say(app, f"{budget}_slider", "press", True)
    return json.loads(part.json), stops(app)


def small_charts(app: AppTest) -> dict[str, str]:
    parts = [json.loads(part.proto.json) for part in app.get("bidi_component") if "_hero_" in part.proto.id]
    return {part["name"]: part["figure"] for part in parts}


def at_stop(sent: dict[str, Any], index: int) -> dict[str, str]:
    return {name: figures[index] for name, figures in sent["charts"].items()}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_drawn_while_a_slider_is_dragged_is_the_plan_of_its_stop(load: Load, name: str) -> None:
    """The browser gets the charts of all stops once, and after the release the server draws the same."""
    page = families.named(name).page()
    budget = CURRENCIES[page.currency].controls()[0].name
    app = load(name, **small(name, follow="false"))
    slider, sent = pressed(app, budget)
    assert sent["slider"] == slider["name"] and sent["settings"][slider["index"]] == sent["now"]
    assert all(len(figures) == len(slider["texts"]) for figures in sent["charts"].values())
    assert at_stop(sent, slider["index"]) == small_charts(app)
    index = slider["index"] - 3
    say(app, f"{budget}_slider", "move", {"index": index, "turn": 1})
    assert stops(app)["now"] == sent["settings"][index] and not stops(app).get("charts")
    assert at_stop(sent, index) == small_charts(app)
    assert app.number_input(key=f"{page.prefix}_{budget}").value == float(slider["texts"][index].replace(",", ""))


def test_the_stops_of_a_slider_are_those_of_ones_own_look_and_no_other_stop_is_taken(load: Load) -> None:
    wide, hall = (
        load("accelerated", **small("accelerated", follow="false"), **look) for look in ({}, {"present": "1"})
    )
    for app in (wide, hall):  # the second finds what was kept for the first
        slider, sent = pressed(app, "epsilon")
        assert at_stop(sent, slider["index"]) == small_charts(app)
    assert small_charts(wide) != small_charts(hall)
    for stop in ({"index": 1000, "turn": 1}, {"index": "1", "turn": 1}, {}, None):
        say(wide, "epsilon_slider", "move", stop)
        assert wide.number_input(key="accel_epsilon").value == 2
