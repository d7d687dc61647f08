"""The start page: a story in three pictures that one budget moves, doors that open pages, a card per family."""

import math

import pytest

from dpviz.ui.families import FAMILIES, Entry
from tests.pages.reading import Load, drawn, words


def test_the_demonstration_answers_at_once(load: Load) -> None:
    app = load("home")
    assert app.title[0].value == "See what privacy costs"
    assert [metric.value for metric in app.metric] == ["T = 31"]
    before = drawn(app)
    app.number_input(key="home_epsilon").set_value(0.5).run()
    assert not app.exception and int(app.metric[0].value.removeprefix("T = ")) < 31
    assert drawn(app)[0][0]
    assert len(before) == len(drawn(app)) == 2  # beside the runs that move
    assert all(old != new for old, new in zip(before, drawn(app), strict=True))  # one budget moves all pictures
    assert f"more than {math.exp(0.5):.3g} times" in words(app)
    assert "you are here" in [note["text"] for note in drawn(app)[1][1]["layout"]["annotations"]]


ACCELERATED = FAMILIES[0]


@pytest.mark.parametrize(
    ("button", "family", "preset"),
    [("run", ACCELERATED, "Start here: same privacy, three methods")]
    + [(f"card_{family.name}", family, family.page().presets[0].name) for family in FAMILIES],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_every_door_opens_the_page_with_its_preset(load: Load, button: str, family: Entry, preset: str) -> None:
    app, prefix = load("home"), family.page().prefix
    app.button(key=f"home_{button}").click().run()
    assert not app.exception
    assert app.title[0].value == family.title
    assert app.selectbox(key=f"{prefix}_preset").value == preset
    again = load(family.name, **{f"{prefix}_references": "true"} | dict(app.query_params))
    assert again.selectbox(key=f"{prefix}_preset").value == preset  # what a reload of the page shows
