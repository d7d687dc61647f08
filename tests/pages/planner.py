"""Opening and reading the budget planner, as its tests need it."""

from urllib.parse import parse_qsl

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.reading import Load, link

TABS = ("Your analyses", "Solve for", "What it is worth", "Accounting", "Split a budget")
ANALYSES, SOLVE, WORTH, _, SPLIT = TABS
SOLVED = ("Noise", "Steps", "Rows", "People", "Search", "DP-SGD", "Budget")  # for which the second of them solves
VIEWS = (ANALYSES, *SOLVED, *TABS[2:])
SMALL = {"rows": "1000", "batch_fraction": "0.1"}  # n = 1000, m = 100, T = 100: dpviz/privacy/THEORY.md, section 11


def planner(load: Load, tab: str = "Noise", **settings: str) -> AppTest:
    """The page with one section open, or solved for one quantity; settings by the names of their controls."""
    if tab in SOLVED:
        tab, settings = SOLVE, {"solve": tab, **settings}
    app = load("budget_planner", planner_section=tab, **{f"planner_{name}": value for name, value in settings.items()})
    if "planner_section" in app.session_state:  # a mistake beside the tabs leaves none
        assert app.session_state["planner_section"] == tab
    return app


def settings_of(app: AppTest) -> dict[str, str]:
    """The settings in the address that the page offers to copy."""
    return dict(parse_qsl(link(app).partition("?")[2]))


def program(app: AppTest) -> str:
    """The lines of "The same in Python"."""
    (found,) = [code.value for code in app.code if code.value.startswith("from ")]
    return found


def printed(app: AppTest, capsys: pytest.CaptureFixture[str]) -> str:
    """What the offered Python lines print."""
    capsys.readouterr()
    exec(program(app), {})
    return capsys.readouterr().out.strip()
