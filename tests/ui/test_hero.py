"""The first picture and its number: of the run that they are of, and never more than may be seen."""

import pytest
from streamlit.testing.v1 import AppTest

from dpviz.experiments.outcome import Outcome
from dpviz.problems.base import Metric
from dpviz.ui.experiment import hero
from tests.ui.uploaded_run import uploaded_run


def _page() -> None:
    from typing import Any

    import streamlit as st

    from dpviz.ui import charts
    from dpviz.ui.controls import Panel
    from dpviz.ui.experiment import hero

    def plain(figure: Any, key: str, alt: str) -> None:
        st.session_state["drawn"] = {trace.name for trace in figure.data if trace.name}

    kept, charts.plain = charts.plain, plain
    hero._draw(Panel("p"), hero.curves)
    hero.number(Panel("p"), None, hero.lowest)
    charts.plain = kept


def page() -> AppTest:
    """A run on somebody's file that is under way, as far as the page can tell."""
    app = AppTest.from_function(_page)
    app.session_state["p_job"] = uploaded_run()
    return app


def test_a_picture_that_stands_still_hides_the_diagnostics_as_soon_as_they_are_switched_off() -> None:
    app = page()
    app.session_state["p_job"].job.state = "running"
    app.session_state["p_pause"] = True
    app.session_state["p_diagnostics"] = True
    app.run()
    assert not app.exception and "Excess" in app.caption[0].value
    app.session_state["p_diagnostics"] = False
    app.run()
    assert not app.exception and "Excess" not in app.caption[0].value
    assert not any("no privacy" in name for name in app.session_state["drawn"])


def test_the_number_of_a_users_file_is_a_diagnostic() -> None:
    app = page()
    app.run()
    assert not app.exception and not app.metric
    assert not any("no privacy" in name for name in app.session_state["drawn"])
    app.session_state["p_diagnostics"] = True
    app.run()
    assert app.metric[0].label == "DP-GD ends at" and "Without privacy" in app.markdown[0].value


def test_a_picture_that_stands_still_gives_way_to_another_run() -> None:
    app = page()
    app.session_state["p_job"].job.state = "running"
    app.session_state["p_pause"] = True
    app.run()
    first = app.session_state["p_picture"]
    app.run()
    assert app.session_state["p_picture"][1] is first[1]
    app.session_state["p_job"] = page().session_state["p_job"]
    app.session_state["p_job"].job.state = "running"
    app.run()
    assert app.session_state["p_picture"][1] is not first[1]


@pytest.mark.parametrize(
    ("end", "start", "other", "floor", "said"),
    [
        (0.1, 1.0, 0.25, 0.02, "**10 %** of where it started. 2.5 times closer than B. Without privacy: 0.02; the gap"),
        (0.1, 1.0, 0.1001, 0.1, "**10 %** of where it started. About as close as B. As low as without privacy, 0.1."),
        (0.1, 1.0, 0.25, 0.2, "**10 %** of where it started. 2.5 times closer than B. As low as without privacy, 0.2."),
        (0.0, 1.0, 0.0, 0.0, "**0 %** of where it started. About as close as B. As low as without privacy, 0."),
        (-1e-17, 1.0, 1e-17, -1e-17, "**0 %** of where it started. About as close as B. As low as without privacy, "),
        (0.0, 1.0, 0.5, 0.0, "**0 %** of where it started. B ends far above, at 0.5. As low as without privacy, 0."),
        (0.1, 1.0, 1e300, 0.0, "**10 %** of where it started. B ends far above, at 10³⁰⁰. Without privacy: 0; "),
        (
            0.2,
            0.1,
            0.3,
            0.1,
            "**No lower than where it started**: at this budget the noise wins. 1.5 times closer than",
        ),
    ],
)
def test_the_sentence_says_nothing_that_the_numbers_do_not(
    end: float, start: float, other: float, floor: float, said: str
) -> None:
    found = Outcome(Metric("gap", "Gap"), "A", end, start, (("B", other),), floor)
    assert hero.sentence(found).startswith(said)
