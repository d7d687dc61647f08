"""Plans that are kept: of public experiments for all visitors, of a file for its own; so many, and nothing else."""

from collections.abc import Iterator
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dpviz.datasets import UploadedTable
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.accelerated import GradientDescent
from dpviz.plots.elements.chart import Chart
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.ui.experiment import plan
from dpviz.ui.experiment.plan import CHARTS_SIZE, Views


def experiment(steps: int = 3, *, public: bool = True, epsilon: float = 1.0) -> Experiment:
    file = UploadedTable(identity="0" * 32, n=40, bounds=((0.0, 1.0),), names=("a",))
    problem = LogisticRegression() if public else LogisticRegression(data=file)
    return Experiment(problem, GradientDescent(iterations=steps), epsilon=epsilon)


def theory(*_: Any) -> None: ...


def _visit(public: bool) -> None:
    import streamlit as st

    from dpviz.ui.experiment import plan
    from tests.ui.test_kept_plans import experiment, theory

    asked = experiment(public=public)
    st.session_state["plan"] = plan.view(asked, theory)
    plan.pack_stops("slider", [asked, None], ["noise"], theory, plan.basic_charts)
    st.session_state["again"] = plan.view(asked, theory)


@pytest.mark.parametrize("public", [True, False])
def test_plans_of_public_experiments_alone_are_those_of_all_visitors(public: bool) -> None:
    visit = AppTest.from_function(_visit, default_timeout=300, args=(public,)).run()
    assert not visit.exception
    seen = visit.session_state["plan"]
    assert visit.session_state["again"] is seen
    assert (plan.shared().of(experiment(public=public).to_json(), theory) is seen) == public


def test_what_is_kept_has_a_size_and_what_was_asked_for_last_stays() -> None:
    views = Views(3 * CHARTS_SIZE + 100)
    texts = [experiment(30, epsilon=1.0 + k).to_json() for k in range(4)]
    first, second, _ = [views.of(text, theory) for text in texts[:3]]
    assert views.of(texts[0], theory) is first and views.size == 3 * (CHARTS_SIZE + 30)
    views.of(texts[3], theory)
    assert views.of(texts[0], theory) is first and views.of(texts[1], theory) is not second
    views.of(experiment(10_000).to_json(), theory)
    assert views.size <= 3 * CHARTS_SIZE + 100
    alone = Views(CHARTS_SIZE)
    assert alone.of(texts[0], theory).plans and alone.size == 0


def test_a_refusal_that_is_kept_holds_no_page() -> None:
    """Its traceback would: with the frames of whoever came first, and what these draw."""
    compared = experiment().replaced(
        arms=(*experiment().arms, Arm(label="B", algorithm=GradientDescent(noise="gaussian")))
    )
    shown = Views(2 * CHARTS_SIZE).of(compared.to_json(), theory)
    (refused,) = shown.refused.values()
    assert str(refused) and refused.__traceback__ is None and refused.__context__ is None


def test_the_charts_of_a_plan_are_made_once_also_when_all_of_them_are_drawn_again() -> None:
    view = Views(2 * CHARTS_SIZE).of(experiment().to_json(), theory)
    made: list[Chart] = []

    def drawings() -> Iterator[Chart]:
        for chart in plan.basic_charts(view):
            made.append(chart)
            yield chart

    first, again = list(plan.cached_charts(view, drawings())), list(plan.cached_charts(view, drawings()))
    assert len(first) == 2 and made == first == again
