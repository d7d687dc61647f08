"""The first picture and its number: of the run that they are of, and never more than may be seen."""

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.experiments.summary import HeadlineResult
from dpviz.problems.base import Metric
from dpviz.ui.experiment import hero
from tests.ui.uploaded_run import uploaded_run


def _page() -> None:
    from typing import Any

    import streamlit as st

    from dpviz.ui import charts
    from dpviz.ui.controls import Panel
    from dpviz.ui.experiment import hero

    def alone(
        chart: Any, key: str, pale: bool = False, group: str = "", leads: Any = None, handles: Any = None
    ) -> None:
        st.session_state["drawn"] = {trace.name for trace in chart.figure.data if trace.name}

    kept, charts.show_bare = charts.show_bare, alone
    hero._draw(Panel("p"), hero.curves, hero.lowest_headline, hero.Frame(None, True, "P"))
    charts.show_bare = kept


def page() -> AppTest:
    """A run on somebody's file that is under way, as far as the page can tell."""
    app = AppTest.from_function(_page, default_timeout=300)
    app.session_state["p_job"] = uploaded_run()
    return app


def test_a_picture_that_stands_still_hides_the_diagnostics_as_soon_as_they_are_switched_off() -> None:
    app = page()
    app.session_state["p_diagnostics"] = True
    app.run()
    assert not app.exception and "Excess" in app.caption[-1].value
    app.session_state["p_diagnostics"] = False
    app.run()
    assert not app.exception and "Excess" not in app.caption[-1].value
    assert not any("no privacy" in name for name in app.session_state["drawn"])


def test_the_number_of_a_users_file_is_a_diagnostic() -> None:
    app = page()
    app.run()
    assert not app.exception and not app.metric
    assert not any("no privacy" in name for name in app.session_state["drawn"])
    app.session_state["p_diagnostics"] = True
    app.run()
    assert app.metric[0].label.endswith("Accuracy of DP-GD") and "Without privacy" in app.markdown[0].value


def test_a_picture_that_stands_still_gives_way_to_another_run() -> None:
    app = page()
    app.run()
    first = app.session_state["p_picture"]
    app.run()
    assert app.session_state["p_picture"][1] is first[1]
    app.session_state["p_job"] = page().session_state["p_job"]
    app.run()
    assert app.session_state["p_picture"][1] is not first[1]


def test_a_run_that_was_stopped_has_no_end() -> None:
    run = uploaded_run()
    assert hero.Frame(None, False, "P").hides(run) and not hero.Frame(None, True, "P").hides(run)  # the file is removed
    labels = []
    for state in ("done", "stopped"):
        run.job.state = state
        headline = hero.lowest_headline(run, run.job.trace)
        labels.append("" if headline is None else headline.label)
    assert labels == ["DP-GD ends at", "DP-GD is at"]


GAP, LOSS = Metric("gap", "Gap", scale="log"), Metric("loss", "Loss")
AROUND = np.linspace(-1, 1, 8)


def ended(
    metric: Metric, end: float, start: float, other: float, floor: float, spread: float, repeats: int
) -> HeadlineResult:
    """B is the next method, C the one without privacy; what its repeats come to lies around each end."""
    runs = {label: value + spread * AROUND[:repeats] for label, value in zip("ABC", (end, other, floor), strict=True)}
    return HeadlineResult(metric, "A", end, start, (("B", other),), floor, "C", runs)


@pytest.mark.parametrize(
    ("end", "start", "other", "floor", "said"),
    [
        (0.1, 1.0, 0.25, 0.02, "**10 %** of where it started. 2.5 times closer than B. Without privacy, at best: 0.02"),
        (0.1, 1.0, 0.1001, 0.1, "**10 %** of where it started. About as close as B. As low as without privacy, 0.1."),
        (0.2, 0.1, 0.3, 0.2, "**No lower than where it started**. 1.5 times closer than B. As low as without privacy"),
        (0.0, 1.0, 0.5, 0.0, "**0 %** of where it started. B ends far above"),
    ],
)
def test_the_sentence_says_nothing_that_the_numbers_do_not(
    end: float, start: float, other: float, floor: float, said: str
) -> None:
    assert hero.sentence(ended(GAP, end, start, other, floor, 1e-20, 8)).startswith(said)


def test_two_methods_that_are_alike_are_told_apart_once_in_twenty_times() -> None:
    """Of 400 pairs of 6 runs, at most 20 and three standard errors of √(400 · 0.05 · 0.95) = 4.4 each."""
    drawn = np.random.default_rng(0).standard_normal((400, 2, 6))
    found = [HeadlineResult(GAP, "A", 0.1, 1.0, (), None, runs={"A": one, "B": other}) for one, other in drawn]
    assert sum(not outcome.may_be_chance("A", "B") for outcome in found) < 20 + 3 * 4.4
    for shift, told in ((0.0, False), (10.0, True)):
        runs = {"A": drawn[0, 0], "B": drawn[0, 0] + shift}
        assert HeadlineResult(GAP, "A", 0.1, 1.0, (), None, runs=runs).may_be_chance("A", "B") is not told
    lost = {"A": np.zeros(5), "B": np.array([np.nan, np.inf, np.inf, 1.0, 1.0])}
    assert not HeadlineResult(GAP, "A", 0.1, 1.0, (), None, runs=lost).may_be_chance("A", "B"), (
        "who diverged ended highest"
    )
    accuracy = Metric("accuracy", "Accuracy", better="higher")
    lost = {"A": np.ones(5), "B": np.array([np.nan, np.nan, np.nan, 0.5, 0.5])}
    assert not HeadlineResult(accuracy, "A", 1.0, 0.0, (), None, runs=lost).may_be_chance("A", "B")
    same = {"A": np.zeros(5), "B": np.zeros(5)}
    assert HeadlineResult(GAP, "A", 0.1, 1.0, (), None, runs=same).may_be_chance("A", "B")
