"""Methods that stop by themselves on a page: plan, curves against the privacy spent, table, all without their names."""

import pytest
from streamlit.testing.v1 import AppTest


def _page() -> None:
    import streamlit as st

    from dpviz.execution.runner import Runner
    from dpviz.ui.controls import Panel
    from dpviz.ui.experiment import plan as plan_view
    from dpviz.ui.experiment import results
    from dpviz.ui.experiment.plan import PlanView
    from dpviz.ui.experiment.run import Run
    from tests.experiments.adaptive import careful

    experiment = careful()
    planned = experiment.planned()
    shown = PlanView(experiment, planned.plans, plan_view.arm_styles(experiment.arms), planned.refused, lambda *_: None)  # type: ignore[attr-defined]
    plan_view.draw(list(plan_view.basic_charts(shown)), "toy_chart_plan")
    job = Runner(slots=0).submit(experiment, wait=True)
    assert job.trace is not None
    run, panel = Run(job, planned.plans, "toy", "Toy"), Panel("toy")
    longest = [max(arm_trace.iterations) for arm_trace in job.trace.arm_traces.values()]
    assert sum(longest) < sum(plan.iterations for plan in planned.plans.values())
    assert run.progress_text == f"{sum(longest)} steps"
    st.session_state["toy_axis"] = "spent"
    figures = results.show_curves(panel, run, job.trace, results.CurveOptions())
    st.session_state["traces"] = [trace.name for chart in figures for trace in chart.figure.data if trace.name]
    results.show_final_numbers(run, job.trace, 1e-6)
    results.show_publishing_line(run, job.trace, 1e-6)


@pytest.fixture(scope="module")
def page() -> AppTest:
    app = AppTest.from_function(_page, default_timeout=300).run()
    assert not app.exception
    return app


def test_the_curves_against_the_privacy_spent_lead_to_the_ceilings(page: AppTest) -> None:
    assert {"A", "B", "A, ceiling", "B, ceiling"} <= set(page.session_state["traces"])


def test_the_table_shows_how_they_ended_and_what_they_used_of_what(page: AppTest) -> None:
    (table,) = page.dataframe
    row = table.value.set_index("Algorithm").loc["B"]
    assert (row["Finished"], row["Ended"], row["Ceiling"]) == ("8 of 8", "5 converged, 3 out of budget", "0.005 ρ")
    assert row["Used"].endswith(" ρ") and row["Median stop"] > 0
