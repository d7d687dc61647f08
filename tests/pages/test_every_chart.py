"""Every chart that a page draws says what it shows, to all readers, and what of it may be published."""

from collections.abc import Callable
from typing import Any, get_args

import pytest
from streamlit.testing.v1 import AppTest

from dpviz.experiments.plan import Privacy
from dpviz.plots.elements.chart import Chart
from dpviz.ui import charts, families
from dpviz.ui.controls import Panel

Load = Callable[..., AppTest]
OF_RAW_DATA = {"not private", "partly private"}
PROVENANCES = {"settings", "partly private", *get_args(Privacy)}
PLANNER = ("Noise", "A given noise", "Rows", "Accounting", "From the accuracy", "Your analyses")


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Chart]:
    """What has been drawn so far, by key."""
    found: dict[str, Chart] = {}
    picture = charts.show_captioned

    def recorded(chart: Chart, key: str, *how: Any, **named: Any) -> Chart:
        found[key] = chart
        return picture(chart, key, *how, **named)

    monkeypatch.setattr(charts, "show_captioned", recorded)
    return found


def check(drawn: dict[str, Chart]) -> None:
    for key, chart in drawn.items():
        assert chart.heading.strip() and chart.alt.strip() and chart.caption.strip(), key
        assert chart.provenance in PROVENANCES, key
        in_frame = [note.text for note in chart.figure.layout.annotations if note.name == "not private"]
        if any("not private" in text for text in in_frame):
            assert chart.provenance in OF_RAW_DATA and "private**" in chart.caption, key


@pytest.mark.parametrize("name", [family.name for family in families.FAMILIES])
def test_charts_of_a_family(name: str, load: Load, drawn: dict[str, Chart]) -> None:
    page = families.named(name).page()
    job, small = f"{page.prefix}_job", {f"{page.prefix}_{control}": "8" for control in ("iterations", "replicates")}
    app = load(name, **small | {f"{page.prefix}_references": "true"})
    app.button(key=f"{page.prefix}_run").click().run()
    run = app.session_state[job]
    run.job.wait(60)
    app.run()
    assert not app.exception and f"{page.prefix}_hero" in drawn
    assert {chart.provenance for chart in drawn.values()} > {"settings"}, "the plan, and the run"
    for tab in page.closer_looks(Panel(page.prefix), None, 1e-6):  # type: ignore[arg-type]  # only their names are asked for
        app.session_state[f"{page.prefix}_tabs"] = tab
        app.run()
        assert not app.exception, tab
    check(drawn)


@pytest.mark.parametrize("tab", PLANNER)
def test_charts_of_the_budget_planner(tab: str, load: Load, drawn: dict[str, Chart]) -> None:
    load("budget_planner", planner_section=tab)
    check(drawn)
    assert len(drawn) > 1 and {chart.provenance for chart in drawn.values()} == {"settings"}


def test_charts_of_the_start_page(load: Load, drawn: dict[str, Chart]) -> None:
    load("home")
    check(drawn)
    assert drawn
