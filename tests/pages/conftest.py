"""Loading a page with an address."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dpviz.plots.elements.chart import Chart
from dpviz.ui import families
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import plan, sections

SHELL = {"s", "pins", "present"}  # what of an address the entry point reads, before any page
APP = Path(__file__).resolve().parents[2] / "app.py"


@pytest.fixture(autouse=True)
def all_sections(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All sections of a page are drawn, below each other, so that a test can look at any of them, but for a sweep that
    is not open; all charts of the plan are in one tab. With the mark `one_section` it is as a visitor has it."""
    if request.node.get_closest_marker("one_section") is None:
        bar = Panel.open_sections

        def open_sections(panel: Panel, titles: Iterable[str], first: str = "") -> list[str]:
            chosen = bar(panel, titles, first)
            every = panel.page != "planner"  # whose sections need the same names
            return [title for title in titles if title in chosen or (every and title != sections.SWEEP)]

        def tabs(small: Sequence[Chart], drawings: Iterator[Chart], key: str) -> dict[str, Callable[[], None]]:
            return {"Plan": lambda: plan.draw([*small, *drawings], key)}

        monkeypatch.setattr(Panel, "open_sections", open_sections)
        monkeypatch.setattr(plan, "tabs", tabs)


@pytest.fixture
def load() -> Callable[..., AppTest]:
    """`load(page, **parameters)`: the page after its first run, without exceptions.

    Runs do not start by themselves and have no references, unless the parameters say so: what a test looks at shall
    stand still, and cost little.
    """

    def open_page(page: str, **parameters: str | list[str]) -> AppTest:
        app = AppTest.from_file(str(APP), default_timeout=300)
        if page in {family.name for family in families.FAMILIES}:
            prefix = families.named(page).page().prefix
            parameters = {f"{prefix}_follow": "false", f"{prefix}_references": "false", **parameters}
        for name, value in parameters.items():
            app.query_params[name] = value
        if page != "home":
            if SHELL & parameters.keys():
                app.run()
            app.switch_page(f"pages/{page}.py")  # alone, without the entry point: a page takes half the time
        app.run()
        assert not app.exception
        return app

    return open_page
