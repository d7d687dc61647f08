"""Readings, tables, captions and files: what is shown of plans and runs."""

import csv
import io
from collections.abc import Callable
from types import MappingProxyType

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dpviz.datasets import UploadedTable
from dpviz.execution.runner import Runner
from dpviz.experiments.experiment import Experiment
from dpviz.families.accelerated import presets
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.chart import Chart
from dpviz.plots.elements.lines import line_figure
from dpviz.privacy.budgets import ApproximateDP
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.ui import downloads
from dpviz.ui.experiment import guarantee, results
from dpviz.ui.experiment.run import Run
from dpviz.ui.markdown import escape_name

TINY = Experiment(
    problem=LogisticRegression(),
    arms=presets.arms(["DP-GD", "DP-NAG-opt"], references=True, iterations=4),
    replicates=3,
)


@pytest.fixture(scope="module")
def run() -> Run:
    return Run(Runner().submit(TINY, wait=True), MappingProxyType(TINY.plans()), "accel", "Accelerated gradient")


def test_readings_of_laplace_noise_exist_in_every_currency_and_of_gaussian_noise_not_as_pure_epsilon() -> None:
    laplace = guarantee.readings(TINY.plans()["DP-GD"], 1e-6)
    assert laplace.pure == pytest.approx(2.0) and laplace.epsilon_at_delta <= 2.0
    assert "Pure ε ≤ 2 (DP-GD)." in guarantee.currencies({"DP-GD": laplace})
    arms = presets.arms(["DP-GD"], iterations=4, noise="gaussian")
    gaussian = TINY.replaced(arms=arms, budget=ApproximateDP(epsilon=2.0, delta=1e-6)).plans()["DP-GD"]
    read = guarantee.readings(gaussian, 1e-6)
    assert read.epsilon_at_delta == pytest.approx(2.0, rel=1e-6) and read.mu == pytest.approx(0.44833, rel=1e-4)
    assert "Pure ε: —." in guarantee.currencies({"DP-GD": read})
    assert "Pure ε: — (DP-GD)." in guarantee.currencies({"DP-NAG": laplace, "DP-GD": read})


def reading(epsilon: float, detection: float) -> guarantee.Readings:
    return guarantee.Readings(2.0, 0.1, 0.5, epsilon, "Rényi DP", detection)


def test_a_reading_of_several_methods_is_the_largest_and_names_who_has_it() -> None:
    """Different methods may be worst in different readings; a plan may leave a little of its budget."""
    read = {"a": reading(0.797, 0.02), "b": reading(0.8767, 0.0171), "c": reading(0.8767 * (1 - 1e-4), 0.01)}
    epsilon, detection = (guarantee.worst(read, name) for name in ("epsilon_at_delta", "detection"))
    assert (epsilon.value, epsilon.who, epsilon.smallest) == (0.8767, "b and 1 more", 0.797)
    assert (detection.value, detection.who, detection.smallest) == (0.02, "a", 0.01)
    assert guarantee.worst(read, "rho").who == "every method"
    assert guarantee.worst({"b": read["b"]}, "rho").who == "b"
    assert "2 % of the time (a; less often with the other methods)." in guarantee.consequence(
        detection, "one row replaced"
    )


def test_hidden_diagnostics_leave_released_series_only(run: Run) -> None:
    assert run.job.state == "done" and run.job.trace is not None
    shown = results.metrics(run.job.trace)
    assert next(iter(shown)) == "objective_gap"
    hidden = run.job.trace.visible(diagnostics=False)
    assert hidden.metrics and all(metric.released for metric in results.metrics(hidden).values())


def _final_numbers() -> None:
    import streamlit as st

    from dpviz.ui.experiment import results

    results.show_final_numbers(st.session_state["run"], st.session_state["trace"], 1e-6)


def test_the_table_of_a_run_that_was_stopped_names_whose_numbers_are_those_of_a_whole_plan(run: Run) -> None:
    app = AppTest.from_function(_final_numbers, default_timeout=300)
    app.session_state["run"], app.session_state["trace"] = run, run.job.trace
    assert not any("Not at the end" in caption.value for caption in app.run().caption) and not app.exception
    for step in TINY.stream():
        if step.label == "DP-NAG-opt" and step.snapshot.iteration == 2:
            break
    app.session_state["trace"] = step.trace
    (said,) = [caption.value for caption in app.run().caption if "Not at the end" in caption.value]
    unfinished = {label for label, lane in step.trace.arm_traces.items() if lane.private and lane.iterations[-1] < 4}
    assert not app.exception and "DP-NAG-opt" in unfinished
    assert all((escape_name(label) in said) is (label in unfinished) for label in step.trace.arm_traces)


def test_files_hold_the_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[str, Callable[[], bytes]] = {}
    monkeypatch.setattr(st, "download_button", lambda label, data, *, key, **_: files.update({key: data}))
    trace = run.job.trace
    assert trace is not None
    chart = Chart(line_figure([], Axes("x", "y")), "Heading", "Alt", "Caption")
    downloads.programs("accelerated", TINY)
    downloads.run_files("p", run.experiment, run.plans, trace, 1e-6, charts=lambda: [chart])
    frame = pd.read_csv(io.BytesIO(files["p_csv"]()), comment="#", quoting=csv.QUOTE_NONNUMERIC)
    assert set(frame["algorithm"]) == set(run.plans) and any(name.endswith("_nonprivate") for name in frame)
    compile(files["accelerated_script"](), "script", "exec")
    page = files["p_html"]().decode()
    assert "Heading" in page and "Caption" in page and '"replicates":3' in page.replace("&quot;", '"')


def script() -> None:
    import streamlit as st

    from dpviz.ui.experiment import results

    asked = st.session_state["panel"], st.session_state["experiment"]
    st.session_state["shown"] = results.diagnostics_shown(*asked)
    results.show_diagnostics_switch(asked[0])


def test_diagnostics_of_an_upload_are_off_until_asked_for() -> None:
    from dpviz.ui.controls import Panel

    table = UploadedTable(identity="0" * 32, n=100, bounds=((0.0, 1.0),), names=("a",))
    app = AppTest.from_function(script, default_timeout=300)
    app.session_state["panel"] = Panel("p")
    app.session_state["experiment"] = TINY.replaced(problem=LogisticRegression(data=table))
    app.run()
    assert not app.exception and app.session_state["shown"] is False
    app.toggle(key="p_diagnostics").set_value(True).run()
    assert app.session_state["shown"] is True
