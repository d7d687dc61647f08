"""Methods that stop by themselves: who stopped when, what each replicate was charged, progress, table, chart, file."""

import io
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from dpviz.experiments.algorithm import Algorithm, Snapshot
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.plan import Plan
from dpviz.experiments.results import endings, epsilon_reading, final_table, spent_curve
from dpviz.exports.export import to_csv
from dpviz.families.mirror_descent import BiasReduced
from dpviz.plots.elements.style import arm_styles
from dpviz.plots.run_figures import convergence
from dpviz.privacy.budgets import ApproximateDP, Budget, NoPrivacy, PureDP
from dpviz.privacy.events import Laplace
from dpviz.privacy.ledger import charge_counts
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.base import Facts, Problem
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.linear.quadratic import Quadratic

ROUNDS, EPSILON = 8, 0.1


class Leaving(Algorithm[Problem, Facts]):
    """Replicate r takes part in the first 2 (r + 1) of the rounds, and every round costs ε = 0.1."""

    title = "Leaving"

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        return Plan.fixed(
            facts, budget, (Laplace(EPSILON),) * ROUNDS, stops=True, batch_size=np.full(ROUNDS, float(facts.n))
        )

    def run(self, problem: Problem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        last = 2 * (np.arange(mechanisms.replicates) + 1)
        x = np.zeros((mechanisms.replicates, plan.facts.d))
        yield Snapshot(0, {"x": x})
        for t, event in enumerate(plan.events, 1):
            rows = np.flatnonzero(last >= t)
            assert charge_counts(rows, mechanisms.replicates) is not None
            mechanisms.batch(event, rows)
            active = last > t
            yield Snapshot(t, {"x": x}, active=active, status=tuple("running" if on else "converged" for on in active))
            if not active.any():
                return


def leaving(replicates: int) -> Experiment:
    return Experiment(
        problem=Quadratic(rows=100, dimension=2),
        arms=(Arm(label="A", algorithm=Leaving()),),
        budget=PureDP(epsilon=ROUNDS * EPSILON),
        replicates=replicates,
    )


def test_the_trace_knows_who_stopped_when_and_what_each_was_charged() -> None:
    lane = leaving(3).run().arm_traces["A"]
    assert lane.stopped_at.tolist() == [2, 4, 6] and set(lane.status) == {"converged"}
    assert lane.iterations[-1] == 6, "the arm ends with its last replicate"
    iterations, charged = leaving(3).run().spent("A")
    expected = EPSILON * np.minimum(iterations[:, None], [2, 4, 6])
    np.testing.assert_allclose(charged, expected)


def test_progress_counts_replicates_that_ended_and_reaches_one() -> None:
    steps = list(leaving(3).stream())
    progress = [step.progress for step in steps]
    assert progress == sorted(progress) and progress[-1] == 1.0
    assert progress[4] == pytest.approx(2 / 3), "two of three ended, after 4 of at most 8 rounds"


def test_table_and_file_show_used_and_ceiling() -> None:
    experiment = leaving(3)
    trace, plans = experiment.run(), experiment.plans()
    (row,) = final_table(trace, plans).to_dict("records")
    assert (row["finished"], row["median_stop"], row["used"]) == ("3 of 3", 4.0, "0.4 ε")
    assert (row["status"], row["ceiling"]) == ("3 converged", "0.8 ε")
    (guarantee,) = final_table(trace, plans, delta=1e-6)["epsilon_at_delta"]
    assert guarantee == epsilon_reading(plans["A"], ROUNDS, 1e-6).epsilon > epsilon_reading(plans["A"], 6, 1e-6).epsilon
    assert row["spent"] == pytest.approx(ROUNDS * EPSILON * 6 / 8), "what the plan had spent by its last step"
    frame = pd.read_csv(io.StringIO(to_csv(trace, experiment, plans)), comment="#")
    last = frame[frame["iteration"] == 6].sort_values("replicate")
    np.testing.assert_allclose(last["spent_epsilon"], [0.2, 0.4, 0.6])
    np.testing.assert_allclose(last["ceiling_epsilon"], ROUNDS * EPSILON)
    assert last["stopped_at"].tolist() == [2, 4, 6] and set(last["status"]) == {"converged"}
    early = frame[frame["iteration"] == 3].sort_values("replicate")
    assert early["status"].tolist() == ["converged", "running", "running"]
    np.testing.assert_allclose(
        spent_curve(trace, "A", plans["A"], "epsilon")[: 6 + 1], EPSILON * np.array([0, 1, 2, 3, 4, 4, 4])
    )


def test_the_chart_marks_the_median_stop() -> None:
    experiment = leaving(3)
    figure = convergence(experiment.run(), "objective_gap", arm_styles(experiment.arms))
    (marks,) = [trace for trace in figure.data if trace.mode == "markers"]
    assert marks.x.tolist() == [4.0] and marks.text[0] == "A: 3 of 3 runs ended, median step 4"


def test_methods_with_a_fixed_end_have_neither_columns_nor_marks() -> None:
    experiment = Experiment(problem=MatrixGame(), arms=(Arm(label="A", algorithm=BiasReduced(stop_level=8)),))
    assert experiment.replaced(budget=ApproximateDP()).plans()["A"].stops
    fixed = leaving(1).replaced(arms=(Arm(label="A", algorithm=Staying()),))
    table = final_table(fixed.run(), fixed.plans())
    assert not {"finished", "used", "ceiling", "status"} & set(table)
    assert fixed.run().arm_traces["A"].status == ("exhausted",), "it has done all its steps"
    figure = convergence(fixed.run(), "objective_gap", arm_styles(fixed.arms))
    assert not any(trace.text is not None for trace in figure.data)


class Staying(Algorithm[Problem, Facts]):
    """The same with everybody to the end."""

    title = "Staying"

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        return Plan.fixed(facts, budget, (Laplace(EPSILON),) * 2, batch_size=np.full(2, float(facts.n)))

    def run(self, problem: Problem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        for t in range(3):
            if t:
                mechanisms.batch(plan.events[t - 1])
            yield Snapshot(t, {"x": np.zeros((mechanisms.replicates, plan.facts.d))})


def test_the_bias_reduced_oracle_ends_with_progress_one_and_every_replicate_exhausted() -> None:
    experiment = Experiment(
        problem=MatrixGame(),
        arms=(Arm(label="A", algorithm=BiasReduced(stop_level=32)),),
        budget=ApproximateDP(epsilon=2.0, delta=1e-6),
        replicates=6,
    )
    *_, last = experiment.stream()
    lane = last.trace.arm_traces["A"]
    assert last.progress == 1.0 and set(lane.status) == {"exhausted"}
    assert (lane.stopped_at > 0).all() and lane.iterations[-1] == lane.stopped_at.max()
    plan = experiment.plans()["A"]
    _, charged = last.trace.spent("A")
    assert (np.diff(charged, axis=0) >= 0).all() and (charged[-1] <= plan.spent("rho")[-1] * (1 + 1e-9)).all()
    np.testing.assert_allclose(charged[-1], lane.values["rho_spent"][-1])


def test_a_run_that_is_stopped_from_outside_leaves_its_replicates_running() -> None:
    stream = leaving(3).stream()
    trace = [next(stream) for _ in range(4)][-1].trace
    stream.close()  # type: ignore[attr-defined]
    lane = trace.arm_traces["A"]
    assert lane.status == ("converged", "running", "running") and lane.stopped_at.tolist() == [2, -1, -1]
    found = endings(lane)
    assert found is not None and found.describe() == "1 of 3 runs ended, median step 2"
    assert found.reasons() == "2 running, 1 converged"


def test_who_outlives_the_plan_has_used_all_steps_and_did_not_stop_by_itself() -> None:
    lane = leaving(6).run().arm_traces["A"]
    assert lane.status == ("converged",) * 4 + ("exhausted",) * 2 and lane.stopped_at.tolist() == [2, 4, 6, 8, -1, -1]


def test_a_method_that_stops_says_how_it_ended_also_without_privacy_but_not_as_released() -> None:
    experiment = leaving(2).replaced(budget=NoPrivacy())
    text = to_csv(experiment.run(), experiment, experiment.plans())
    frame = pd.read_csv(io.StringIO(text), comment="#")
    assert {"status_nonprivate", "stopped_at_nonprivate"} <= set(frame) and not {"status", "stopped_at"} & set(frame)


class Marked(Algorithm[Problem, Facts]):
    """Asks for two iterations to be recorded that no grid would choose."""

    title = "Marked"

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        return Plan.fixed(facts, budget, (Laplace(1e-3),) * 400, record_at=np.array([137, 251]))

    def run(self, problem: Problem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        x = np.zeros((mechanisms.replicates, plan.facts.d))
        yield Snapshot(0, {"x": x})
        for t, event in enumerate(plan.events, 1):
            mechanisms.batch(event)
            yield Snapshot(t, {"x": x})


def test_what_a_plan_asks_for_is_recorded() -> None:
    experiment = leaving(1).replaced(arms=(Arm(label="A", algorithm=Marked()),))
    assert {137, 251} <= set(experiment.run().arm_traces["A"].iterations)
