"""What the page reads off the problem and the run: who is protected, what a run needs, what curves are drawn over."""

import pytest
from streamlit.testing.v1 import AppTest

from dpviz.experiments.experiment import Arm, Experiment
from dpviz.exports.export import to_csv, to_script
from dpviz.families.accelerated import GradientDescent
from dpviz.privacy.budgets import PureDP
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.ui.explain import release_sentence as released_caption


def _page() -> None:
    import streamlit as st

    from dpviz.execution.runner import Runner
    from dpviz.experiments.experiment import Arm, Experiment
    from dpviz.families.accelerated import GradientDescent
    from dpviz.privacy.budgets import NoPrivacy, PureDP
    from dpviz.problems.linear.quadratic import Quadratic
    from dpviz.ui import explain
    from dpviz.ui.controls import Panel
    from dpviz.ui.experiment import guarantee, results
    from dpviz.ui.experiment import run as run_panel

    Quadratic.unit = "one household added"  # type: ignore[method-assign, assignment]
    arms = (
        Arm(label="all", algorithm=GradientDescent(iterations=6)),
        Arm(label="batches", algorithm=GradientDescent(iterations=8, batch_fraction=0.25)),
        Arm(label="plain", algorithm=GradientDescent(iterations=6), budget=NoPrivacy()),
    )
    experiment = Experiment(problem=Quadratic(rows=100), arms=arms, budget=PureDP(epsilon=2.0), replicates=3)
    plans = experiment.plans()
    job = Runner(slots=0).submit(experiment, wait=True)
    run, panel = run_panel.Run(job, plans, "toy", "Toy"), Panel("toy")
    guarantee.show_cards(experiment, plans, 1e-6)
    explain.assumptions(explain.protects(experiment.problem), "", "", "", "")
    st.session_state["toy_axis"] = st.session_state.get("axis", "passes")
    figures = results.show_curves(panel, run, job.trace, results.CurveOptions())
    st.session_state["figure"] = figures[0].figure
    run_panel.runner().max_bytes = 1.0
    run_panel.show_memory_error(run_panel.StartableExperiment(experiment, plans))
    run_panel.bar(
        panel, "Toy", run_panel.StartableExperiment(experiment, plans), st.empty(), file_text="Runs by click only"
    )
    run_panel.runner().max_bytes = 3e9


@pytest.fixture(scope="module")
def page() -> AppTest:
    unit = Quadratic.unit
    try:
        app = AppTest.from_function(_page, default_timeout=300).run()
    finally:
        Quadratic.unit = unit  # type: ignore[method-assign]
    assert not app.exception
    return app


def test_the_page_says_whom_the_problem_protects(page: AppTest) -> None:
    assert any("one household added" in metric.help for metric in page.metric)
    assert any("One household added" in item.value for item in page.markdown)
    arms = (Arm(label="it", algorithm=GradientDescent(iterations=3)),)
    said = released_caption(Experiment(problem=Quadratic(rows=100), arms=arms), 3)
    assert "for one row replaced; publishing all 3 would" in said and "from the data" not in said
    experiment = Experiment(problem=Quadratic(rows=100), arms=arms)
    assert "Each method is private" in released_caption(experiment, 1, 2), "a chart of two methods is two releases"


def test_curves_are_drawn_over_passes_where_a_run_has_them(page: AppTest) -> None:
    axis = page.segmented_control(key="toy_axis") if page.get("segmented_control") else page.selectbox(key="toy_axis")
    assert axis.options == ["Steps", "Privacy spent", "Passes over the data"]
    figure = page.session_state["figure"]
    assert figure.layout.xaxis.title.text == "Passes over the data"
    ends = {trace.name: max(trace.x) for trace in figure.data if trace.name and trace.showlegend is not False}
    assert {"all", "batches", "plain"} <= set(ends)
    assert ends["all"] == ends["plain"] == 6.0 and ends["batches"] == 2.0


def test_a_run_that_needs_too_much_memory_is_refused_with_a_sentence(page: AppTest) -> None:
    (error,) = page.error
    assert "Choose fewer methods or smaller data." in error.value, "not even one repeat would fit"
    assert page.button(key="toy_run").disabled


def test_what_is_taken_away_says_whom_it_protects() -> None:
    arms = (Arm(label="it", algorithm=GradientDescent(iterations=3)),)
    experiment = Experiment(problem=Quadratic(rows=100), arms=arms, budget=PureDP(epsilon=2.0), replicates=2)
    assert "# unit of protection: one row replaced" in to_csv(experiment.run(), experiment, experiment.plans())
    assert "private for one row replaced" in to_script(experiment, "toy")
