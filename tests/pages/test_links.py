"""Links that somebody mistyped, cut off, or made to break the page: the page works, and says what it could not read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dpviz.ui import controls
from dpviz.ui.families import FAMILIES
from dpviz.ui.mirror_descent import page as games_page
from tests.pages.reading import link

Load = Callable[..., AppTest]
GAMES = [("mirror_descent", {"mirror_problem": entry.title}) for entry in games_page.PROBLEMS.values()]
OTHERS = (*(family.name for family in FAMILIES if family.name != "mirror_descent"), "budget_planner")
SECTIONS = [("budget_planner", {"planner_section": name}) for name in ("From the accuracy", "Split a budget")]
PAGES: list[tuple[str, dict[str, str]]] = [*((page, {}) for page in OTHERS), *GAMES, *SECTIONS]
HOSTILE: list[str | list[str]] = [
    "nan",
    "-1",
    "1e400",
    ["2", "inf", ""],
    "\u202eΩ🎈 <script>alert(1)</script>",
    "\x00\x7f%00\\'\"--",
    "x" * 20_000,
    "True",
]


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The keys that pages put into addresses, and the titles of their controls, as they are drawn."""
    found: dict[str, str] = {}
    begin = controls.Panel._prepare_bind

    def noted(panel: controls.Panel, name: str, title: str, *rest: Any, **more: Any) -> Any:
        found[panel.key(name)] = title
        return begin(panel, name, title, *rest, **more)

    monkeypatch.setattr(controls.Panel, "_prepare_bind", noted)
    return found


def works(app: AppTest) -> bool:
    """It is drawn to its end; whatever is wrong with a number is said at its control."""
    return not app.exception and link(app) is not None  # which stands last


@pytest.mark.parametrize(("page", "given"), PAGES, ids=str)
def test_every_setting_of_every_page_may_be_hostile(
    load: Load, keys: dict[str, str], page: str, given: Mapping[str, str]
) -> None:
    """All settings at once: all empty, then each with another bad value; again, so that these go round."""
    assert works(load(page, **given)) and len(keys) >= 10
    elsewhere = ["planner_split", "planner_section"]  # written by other hands than a Panel's
    others = [key for key in [*keys, *elsewhere] if key not in given and not key.endswith(("_follow", "_references"))]
    assert works(load(page, **given, **dict.fromkeys(others, "")))
    for turn in range(0, len(HOSTILE), 4 if given else 1):
        values = {key: HOSTILE[(turn + place) % len(HOSTILE)] for place, key in enumerate(others)}
        assert works(load(page, **given, **values)), values


def told(app: AppTest) -> Sequence[str]:
    return [toast.value for toast in app.toast]


def test_a_leading_number_that_is_not_finite_is_the_usual_one(load: Load) -> None:
    app = load("accelerated", accel_epsilon="inf", accel_iterations="nan")
    assert not app.error and not app.button(key="accel_run").disabled and "Privacy budget ε" in told(app)[0]


@pytest.mark.parametrize("empty", ["accel_currency", "accel_noise", "accel_loss", "accel_epsilon", "accel_iterations"])
def test_a_setting_without_a_value_has_its_usual_one(load: Load, keys: dict[str, str], empty: str) -> None:
    app = load("accelerated", **{empty: ""})
    assert told(app) == [f"Part of this link could not be read. Check {keys[empty]}."]
    assert not app.error and not app.button(key="accel_run").disabled
    app.segmented_control(key="accel_loss").set_value("huber").run()  # from then on it is as any other
    assert not app.exception and not told(app)
    assert (
        app.segmented_control(key="accel_loss").value == "huber" == app.run().segmented_control(key="accel_loss").value
    )
