"""Pins of a page: faint lines in its picture, what has changed, at most three, in the address and in files."""

import json
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dpviz.compare import pins
from dpviz.compare.pins import Pin
from dpviz.families.accelerated import presets
from dpviz.families.mirror_descent.presets import PRESETS as GAMES
from dpviz.plots.pinned_overlay import OPACITY
from dpviz.ui import families
from tests.pages.reading import Load, run, text

SETTINGS = {"uniform_rows": "500", "iterations": "5", "replicates": "2"}
TINY = {f"accel_{name}": value for name, value in SETTINGS.items()}


def picture(app: AppTest, prefix: str = "accel") -> dict[str, Any]:
    (part,) = [part for part in app.get("bidi_component") if part.proto.id.endswith(f"{prefix}_hero")]
    figure: dict[str, Any] = json.loads(json.loads(part.proto.json)["figure"])
    return figure


def pinned_overlay(app: AppTest, prefix: str = "accel") -> list[str]:
    return [trace["name"] for trace in picture(app, prefix)["data"] if trace.get("opacity") == OPACITY]


def press(app: AppTest, key: str) -> AppTest:
    app.button(key=key).click().run()
    assert not app.exception
    return app


def listed(app: AppTest) -> list[str]:
    """What is said of every pin."""
    said = ("Changed since the pin", "The same settings as now")
    return [found.value for found in app.markdown if any(words in found.value for words in said)]


def linked(app: AppTest) -> list[str]:
    """The pins of the address."""
    found = app.query_params.get("pin", [])
    return [found] if isinstance(found, str) else list(found)


def warned(app: AppTest) -> str:
    return " ".join(warning.value for warning in app.warning)


SLOW = [pytest.param(family, id=family.name) for family in families.FAMILIES[1:]]


@pytest.mark.parametrize("family", [pytest.param(families.FAMILIES[0], id="accelerated"), *SLOW])
def test_a_pinned_run_of_any_family_is_a_ghost_in_the_next_picture_until_it_is_removed(
    load: Load, family: families.Entry
) -> None:
    prefix = family.page().prefix
    app = load(family.name, **{f"{prefix}_{name}": value for name, value in SETTINGS.items()})
    assert app.button(key=f"{prefix}_pin").disabled  # there is nothing to pin
    run(app)
    press(app, f"{prefix}_pin")
    assert pinned_overlay(app, prefix) and all(name.startswith("Pin 1: ") for name in pinned_overlay(app, prefix))
    assert "The same settings as now" in listed(app)[0] and app.button(key=f"{prefix}_pin").disabled
    run(app.number_input(key=f"{prefix}_replicates").set_value(1.0).run())
    assert pinned_overlay(app, prefix) and "Changed since the pin: Repeats R\\: 2 → 1." in listed(app)[0]
    assert "Faint, to compare with: *Pin 1*." in text(app)
    remove = next(button.key for button in app.button if (button.key or "").endswith("_remove"))
    press(app, remove)
    assert not pinned_overlay(app, prefix) and not listed(app) and "pin" not in app.query_params


def test_what_a_preset_compares_with_is_in_its_picture_and_leaves_with_its_settings(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = families.named("accelerated").page()
    small = run(load("accelerated", **TINY)).session_state["accel_job"].experiment
    preset = replace(page.presets[0], experiment=small, comparisons={"Other rows": small.replaced(seed=1)})
    next_experiment, beside_next = small.replaced(seed=2), {"Others still": small.replaced(seed=3)}
    following = replace(page.presets[1], experiment=next_experiment, comparisons=beside_next)
    monkeypatch.setattr(page, "presets", (preset, following, *page.presets[2:]))
    app = run(load("accelerated", preset=preset.slug))
    (beside,) = app.session_state["accel_compared_pins"]
    if (key := f"accel_compared_pin_{beside.key}_job") in app.session_state:
        app.session_state[key].job.wait(60)
        app.run()
    assert not app.exception and pinned_overlay(app) == [f"Other rows: {name}" for name in presets.DEFAULT_METHODS]
    assert not listed(app) and "pin" not in app.query_params
    run(app.number_input(key="accel_iterations").set_value(6).run())
    assert not pinned_overlay(app)
    run(app.selectbox(key="accel_preset").set_value(following.name).run())
    assert [pinned.pin.name for pinned in app.session_state["accel_compared_pins"]] == ["Others still"]


def test_a_pin_stays_through_other_pages_and_is_in_the_link(load: Load) -> None:
    app = press(run(load("accelerated", **TINY)), "accel_pin")
    (packed,) = linked(app)
    assert pins.pin_from_link(packed) == Pin("Pin 1", app.session_state["accel_job"].experiment)
    assert f"pin={packed}" in "".join(code.value for code in app.code)
    app.switch_page("pages/mirror_descent.py").run()
    assert not listed(app)
    app.switch_page("pages/accelerated.py").run()
    assert not app.exception and len(listed(app)) == 1 and pinned_overlay(app)


def test_there_are_at_most_three_with_names_of_ones_own(load: Load) -> None:
    small = [presets.PRESETS[0].experiment.replaced(replicates=1, seed=seed) for seed in range(3)]
    links = [Pin(f"Pin {place}", experiment).to_link() for place, experiment in enumerate(small, 1)]
    app = run(load("accelerated", pin=links, **TINY))
    assert len(listed(app)) == 3 and app.button(key="accel_pin").disabled and linked(app) == links
    field = next(field for field in app.text_input if field.value == "Pin 2")
    field.set_value("Six <b>steps").run()
    assert not app.exception and [pins.pin_from_link(link).name for link in linked(app)] == [
        "Pin 1",
        "Six bsteps",
        "Pin 3",
    ]
    field = next(field for field in app.text_input if field.value == "Six bsteps")
    for typed, name in (("Pin 3", "Pin 3 2"), ("z" * 99, "z" * 30), (" <>\n", "z" * 30), ("Six bsteps", "Six bsteps")):
        field.set_value(typed).run()
        field = next(one for one in app.text_input if one.key == field.key)
        assert not app.exception and field.value == name == pins.pin_from_link(linked(app)[1]).name
    for number in (0, 1):  # both the same, with a blank where the name is cut to make room for a number
        [one for one in app.text_input if (one.key or "").startswith("accel_pin_")][number].set_value(
            "y" * 27 + " yy"
        ).run()
    assert app.session_state["accel_pins"][1].pin.name == "y" * 27 + " 2" == pins.pin_from_link(linked(app)[1]).name
    for number, name in enumerate(("Pin 1", "Six bsteps")):
        [one for one in app.text_input if (one.key or "").startswith("accel_pin_")][number].set_value(name).run()
    assert "room for 3 pins" in text(app)
    remove = [button.key for button in app.button if (button.key or "").endswith("_remove")]
    press(press(app, remove[0]), "accel_pin")
    assert [pins.pin_from_link(link).name for link in linked(app)] == ["Six bsteps", "Pin 3", "Pin 1"]


def test_the_lines_of_a_pin_that_came_with_a_link_are_computed(load: Load) -> None:
    start = presets.PRESETS[0].experiment.replaced(replicates=2)
    app = load("accelerated", pin=Pin("Theirs", start).to_link(), **TINY)
    assert listed(app)[0].startswith(":small[**Theirs.** Changed since the pin: ")
    key = next(iter(app.session_state["accel_pins"])).key
    name = f"accel_pin_{key}_job"
    if name in app.session_state:
        app.session_state[name].job.wait(300.0)
        app.run()
    assert not app.exception and name not in app.session_state
    run(app)
    assert any(ghost.startswith("Theirs: ") for ghost in pinned_overlay(app))


def test_links_that_hold_no_pin_of_this_page_get_a_sentence_and_the_page_works(load: Load) -> None:
    game = Pin("Game", GAMES[0].experiment).to_link()
    app = load("accelerated", pin=["x" * 20_000, "%00<script>", game], **TINY)
    assert not listed(app) and "pin" not in app.query_params
    for sentence in ("longer than", "missing or changed", "belongs to another page"):
        assert "A pin was left out." in warned(app) and sentence in warned(app)
    press(run(app), "accel_pin")
    assert not warned(app)


def test_pins_go_through_a_file(load: Load) -> None:
    experiments = [preset.experiment.replaced(replicates=1) for preset in presets.PRESETS[:2]]
    content = pins.to_file([Pin(f"P{k}", experiment) for k, experiment in enumerate(experiments)]).encode()
    app = load("accelerated", **TINY)
    upload = next(field for field in app.file_uploader if field.label == "Pins from a file")
    upload.upload("pins.json", content, "application/json").run()
    assert not app.exception and [pin.pin.experiment for pin in app.session_state["accel_pins"]] == experiments
    assert any(button.label == "Pins (JSON)" for button in app.get("download_button"))
    upload = next(field for field in app.file_uploader if field.label == "Pins from a file")
    upload.upload("other.json", b'{"pins": "<b>"}', "application/json").run()
    assert not app.exception and "holds no pins" in warned(app) and len(app.session_state["accel_pins"]) == 2
