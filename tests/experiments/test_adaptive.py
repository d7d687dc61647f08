"""A method under a filter goes through all that plans, runs, exports and shows it, though nothing knows its name."""

import io

import numpy as np
import pandas as pd
import pytest

from dpviz.execution.runner import Runner
from dpviz.experiments import results
from dpviz.experiments.results import (
    budget_spent,
    ceilings,
    columns,
    endings,
    epsilon_reading,
    final_table,
    spent_curve,
)
from dpviz.exports.export import to_csv
from dpviz.plots import plan_figures
from dpviz.plots.elements.style import arm_styles
from dpviz.plots.run_figures import convergence
from dpviz.privacy.ledger import Filter, Ledger
from dpviz.privacy.mechanisms import Mechanisms
from tests.experiments.adaptive import RHO, ROUNDS, careful

EXPERIMENT = careful()
TRACE, PLANS = EXPERIMENT.run(), EXPERIMENT.plans()
STYLES = arm_styles(EXPERIMENT.arms)
LAST = {label: lane.iterations[-1] for label, lane in TRACE.arm_traces.items()}


def notes(figure) -> str:  # type: ignore[no-untyped-def]
    return " ".join(note.text for note in figure.layout.annotations if not note.name)


def test_it_plans_within_its_budget_and_says_at_most_when() -> None:
    planned = EXPERIMENT.planned()
    assert planned.ready() == EXPERIMENT and not planned.refused
    for label, plan in planned.plans.items():
        assert plan.stops and plan.private and plan.currency == "rho"
        assert plan.spent("rho")[[0, -1]].tolist() == [0, RHO if label == "A" else RHO / 4]
        assert budget_spent(plan, 3) == (pytest.approx(plan.spent("rho")[3]), "ρ")
        assert 0 < plan.spent("rho")[1] < plan.spent("rho")[-1], "it cannot spend all in its first round"


def test_replicates_end_for_different_reasons_and_none_is_left_running() -> None:
    assert set(TRACE.arm_traces["A"].status) | set(TRACE.arm_traces["B"].status) == {"converged", "budget"}
    for lane in TRACE.arm_traces.values():
        assert (lane.stopped_at > 0).all() and lane.iterations[-1] == lane.stopped_at.max()
        for words, iteration in zip(lane.statuses, lane.iterations, strict=True):
            going = [word == "running" for word in words]
            assert going == (lane.stopped_at > iteration).tolist()


def test_nobody_is_ever_charged_more_than_the_worst_case() -> None:
    for label, plan in PLANS.items():
        iterations, charged = TRACE.spent(label)
        assert (charged <= plan.spent("rho")[iterations][:, None] * (1 + 1e-9)).all()
        assert (np.diff(charged, axis=0) >= 0).all() and len(np.unique(charged[-1])) > 2


def test_the_ledger_allows_no_more_than_the_filter() -> None:
    plan = PLANS["A"]
    ledger = Ledger(plan.terms, 4)
    arm = EXPERIMENT.arms[0]
    for _ in arm.algorithm.run(EXPERIMENT.problem.build(), plan, Mechanisms(ledger, seed=3)):
        pass
    assert isinstance(plan.terms, Filter)
    for replicate in range(4):
        assert set(ledger.booked(replicate)) <= set(plan.terms.allowed.values())


def test_progress_climbs_to_one() -> None:
    progress = [step.progress for step in EXPERIMENT.stream()]
    assert progress == sorted(progress) and progress[-1] == 1.0


def test_the_table_says_how_many_finished_when_why_and_what_they_used_of_what() -> None:
    table = final_table(TRACE, PLANS, delta=1e-6)
    assert set(table) <= set(columns(TRACE))
    for label, row in table.set_index("algorithm").iterrows():
        lane = TRACE.arm_traces[str(label)]
        found = endings(lane)
        assert found is not None and found.describe() == f"8 of 8 runs ended, median step {row['median_stop']:g}"
        assert (row["finished"], row["status"]) == ("8 of 8", found.reasons())
        used, ceiling = (float(row[name].removesuffix(" ρ")) for name in ("used", "ceiling"))
        assert used == pytest.approx(np.median(lane.spent[-1]), rel=5e-3) and used < ceiling
        assert ceiling == pytest.approx(PLANS[str(label)].terms.cap)  # type: ignore[union-attr]
    assert "7 converged, 1 out of budget" in table["status"].tolist()


def test_the_reading_of_a_run_that_stops_by_itself_is_that_of_its_ceiling() -> None:
    """When it ended is no secret and depends on the data: the cap alone bounds what the whole tells."""
    (before, after) = (final_table(trace, PLANS, delta=1e-6) for trace in (_stopped_early(), TRACE))
    assert (before["epsilon_at_delta"] == after["epsilon_at_delta"]).all()


def _stopped_early():  # type: ignore[no-untyped-def]
    stream = EXPERIMENT.stream()
    trace = [next(stream) for _ in range(6)][-1].trace
    stream.close()  # type: ignore[attr-defined]
    return trace


def test_the_file_holds_what_each_was_charged_its_ceiling_and_how_it_ended() -> None:
    frame = pd.read_csv(io.StringIO(to_csv(TRACE, EXPERIMENT, PLANS)), comment="#")
    lane = TRACE.arm_traces["B"]
    rows = frame[frame["algorithm"] == "B"]
    assert (rows["ceiling_rho"] == RHO / 4).all() and {"noise_scale_cheap", "noise_scale_expensive"} <= set(frame)
    last = rows[rows["iteration"] == LAST["B"]].sort_values("replicate")
    np.testing.assert_allclose(last["spent_rho"], lane.spent[-1])
    assert last["status"].tolist() == list(lane.status) and last["stopped_at"].tolist() == lane.stopped_at.tolist()
    going = rows[rows["iteration"] < rows["stopped_at"]]
    assert set(going["status"]) == {"running"} and "looks" in frame


def test_publishing_several_costs_their_ceilings() -> None:
    (one, _) = results.costs(PLANS, TRACE.arm_traces, EXPERIMENT.budget, EXPERIMENT.replicates, 1e-6)
    assert one.spent == pytest.approx(1.25 * RHO) and 0 < one.epsilon < np.inf


@pytest.mark.slow
def test_its_plan_is_drawn_with_every_noise_and_at_most_what_it_spends() -> None:
    noise = plan_figures.noise_schedule(PLANS, STYLES).figure
    assert [trace.name for trace in noise.data] == ["A, cheap", "A, expensive", "B, cheap", "B, expensive"]
    assert noise.layout.yaxis.title.text == "Noise scale σ_t" and not notes(noise)
    spent = plan_figures.privacy_spent(PLANS, STYLES, "rho", RHO).figure
    assert notes(spent) == "at most; all may stop sooner"
    lines = {trace.name: trace for trace in spent.data if trace.name}
    np.testing.assert_allclose(lines["A"].y, PLANS["A"].spent("rho"), rtol=1.1e-3)
    curves = plan_figures.accountant_curves(PLANS["A"], 1e-6).figure
    (zcdp,) = [trace for trace in curves.data if "zCDP" in (trace.name or "")]
    assert (
        0
        < zcdp.y[0]
        < zcdp.y[-1]
        == pytest.approx(epsilon_reading(PLANS["A"], ROUNDS, 1e-6).by_method["zcdp"], rel=1.1e-3)
    )


def test_against_the_privacy_spent_a_thin_line_leads_from_what_was_used_to_the_ceiling() -> None:
    spent = {label: spent_curve(TRACE, label, plan, "rho") for label, plan in PLANS.items()}
    limits = ceilings(PLANS, "rho")
    assert limits == pytest.approx({"A": RHO, "B": RHO / 4})
    figure = convergence(TRACE, "objective_gap", STYLES, positions=spent, ceilings=limits)
    lines = {trace.name: trace for trace in figure.data if trace.name}
    used = np.median(TRACE.arm_traces["A"].spent[-1])
    assert lines["A"].x[-1] == pytest.approx(used, rel=1e-6)
    assert lines["A, ceiling"].x.tolist() == pytest.approx([used, RHO], rel=1e-6)
    assert np.ptp(lines["A, ceiling"].y) == 0 and not lines["A, ceiling"].showlegend
    assert "up to the ceiling" in notes(figure)
    steps = convergence(TRACE, "objective_gap", STYLES, ceilings=limits)
    assert "ceiling" not in notes(steps) and not any("ceiling" in (trace.name or "") for trace in steps.data)


def test_it_runs_as_a_job() -> None:
    job = Runner(slots=0).submit(EXPERIMENT, wait=True)
    assert job.state == "done" and job.trace is not None and job.progress == 1.0
    assert job.trace.arm_traces["A"].status == TRACE.arm_traces["A"].status and max(LAST.values()) < ROUNDS
