"""What a page shows of a run whose worker was ended: rows without outputs, and methods without a single row."""

import pytest
from streamlit.testing.v1 import AppTest

PROBLEMS = ("MarginalQueries", "GroupLoss")


def _page() -> None:
    import streamlit as st

    from dpviz.execution.runner import Runner
    from dpviz.families.mirror_descent import presets
    from dpviz.ui.controls import Panel
    from dpviz.ui.experiment import results as common
    from dpviz.ui.experiment.run import Run
    from dpviz.ui.mirror_descent.page import PAGE

    name = st.session_state["problem"]
    preset = next(found for found in presets.PRESETS if type(found.experiment.problem).__name__ == name)
    arms = tuple(
        arm.model_copy(update={"algorithm": arm.algorithm.replaced(iterations=3)})
        for arm in preset.experiment.arms
        if "iterations" in type(arm.algorithm).model_fields
    )
    planned = preset.experiment.replaced(arms=arms[:2], replicates=2).planned()
    experiment = planned.ready()
    job = Runner(slots=0).submit(experiment, wait=True)
    assert job.trace is not None, job.message
    first, *others = job.trace.arm_traces.values()
    for lane in (first, *others):
        lane.output = {}  # too large to travel with every row
    for lane in others:
        lane.iterations, lane.statuses, lane.spent = [], [], []
        lane.values, lane.path = {name: [] for name in lane.values}, {name: [] for name in lane.path}
    run, panel = Run(job, planned.plans, "toy", "Toy"), Panel("toy")
    PAGE.draw_release(panel, run, job.trace)
    PAGE.draw_results(panel, run, job.trace, True)
    common.show_final_numbers(run, job.trace, 1e-6)
    common.show_publishing_line(run, job.trace, 1e-6)
    PAGE.draw_verdict(run, job.trace, True)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_run_that_was_cut_off_shows_what_had_arrived(problem: str) -> None:
    app = AppTest.from_function(_page, default_timeout=300)
    app.session_state["problem"] = problem
    app.run()
    assert not app.exception, app.exception[0].stack_trace
    (numbers,) = (table.value for table in app.dataframe if "Steps" in table.value)
    assert numbers["Steps"].iloc[0] == 3 and (numbers["Steps"].iloc[1:] == 0).all()
