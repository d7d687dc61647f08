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
    assert len(before) == len(drawn(app)) == 3
    assert all(old != new for old, new in zip(before, drawn(app), strict=True))  # one budget moves all pictures
    assert f"more than {math.exp(0.5):.3g} times" in words(app)
    assert "you are here" in [note["text"] for note in drawn(app)[2][1]["layout"]["annotations"]]


@pytest.mark.parametrize("value", [0.0, -1.0, 1e9])
def test_an_impossible_budget_is_named(load: Load, value: float) -> None:
    app = load("home")
    app.number_input(key="home_epsilon").set_value(value).run()
    assert not app.exception and "must be between" in app.error[0].value and not app.metric


ACCELERATED = FAMILIES[0]


@pytest.mark.parametrize(
    ("button", "family", "preset"),
    [
        ("learn", ACCELERATED, "Figure 3: logistic regression, all rows"),
        ("run", ACCELERATED, "Real data: doctor visits"),
    ]
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


def test_every_family_has_a_card(load: Load) -> None:
    app = load("home")
    shown = " ".join(element.value for element in [*app.subheader, *app.markdown, *app.caption])
    assert len({family.page().prefix for family in FAMILIES}) == len(FAMILIES) >= 5
    for family in FAMILIES:
        assert family.title in shown and family.question in shown and family.guarantee in shown


@pytest.mark.parametrize(
    ("door", "title"), [("plan", "Budget planner"), ("lessons", "Lessons"), ("compare", "Compare"), ("check", "Audit")]
)
def test_a_door_opens_its_page(load: Load, door: str, title: str) -> None:
    app = load("home")
    app.button(key=f"home_{door}").click().run()
    assert not app.exception and app.title[0].value == title
