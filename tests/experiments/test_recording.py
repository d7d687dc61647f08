"""What is recorded, and when: from the plan alone; nothing is evaluated twice; few expensive diagnostics."""

import io
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpviz.datasets import UniformLogistic
from dpviz.datasets.synthetic import LatentGame
from dpviz.experiments import results
from dpviz.experiments.algorithm import Algorithm, Snapshot
from dpviz.experiments.experiment import EXPENSIVE, Arm, Experiment, recorded_iterations
from dpviz.experiments.plan import Plan
from dpviz.experiments.trace import LEAST_RECORDS, RECORDS
from dpviz.exports import export
from dpviz.families.accelerated import GradientDescent
from dpviz.families.mirror_descent import BiasReduced, NoisyPayoffs
from dpviz.privacy.budgets import Budget, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import Laplace
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.base import Facts, Metric, Problem, ProblemSpecification
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.linear.linear_models import LogisticProblem, LogisticRegression


class Scale(Problem):
    """A cheap value and an expensive one; counts how often each is asked for, and of how many replicates."""

    metrics = (Metric("value", "Value"), Metric("depth", "Depth", cost="expensive"))

    def __init__(self, seconds: float) -> None:
        self.facts, self.seconds = Facts(n=10, d=1), seconds

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        CALLS.append(("expensive" if expensive else "cheap", int(output["x"][0, 0])))
        found, began = {"value": output["x"][:, 0]}, time.thread_time()
        while expensive and time.thread_time() < began + self.seconds:
            pass
        return found | {"depth": 10 * output["x"][:, 0]} if expensive else found


CALLS: list[tuple[str, int]] = []


class Weighing(ProblemSpecification):
    title = "Weighing"
    seconds: float = 0.0

    def facts(self) -> Facts:
        return Facts(n=10, d=1)

    def build(self, tables: Mapping[str, np.ndarray] = {}) -> Scale:
        return Scale(self.seconds)


class Counting(Algorithm[Problem, Facts]):
    """Releases t; yields every snapshot `repeats` times."""

    title = "Counting"
    iterations: int = 200
    repeats: int = 1

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        t = self.iterations
        return Plan.fixed(facts, budget, (Laplace(1e-4),) * t, batch_size=np.full(t, facts.n))

    def run(self, problem: Problem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        for t in range(plan.iterations + 1):
            if t:
                mechanisms.batch(plan.events[t - 1])
            snapshot = Snapshot(t, {"x": np.full((mechanisms.replicates, 1), float(t))})
            for _ in range(self.repeats):
                yield snapshot


def weighing(seconds: float = 0.0, **settings: int) -> Experiment:
    CALLS.clear()
    arm = Arm(label="it", algorithm=Counting(**settings))
    return Experiment(problem=Weighing(seconds=seconds), arms=(arm,), replicates=3, budget=PureDP(epsilon=1.0))


@pytest.mark.parametrize("iterations", [1, 60, 100, 10_000])
@pytest.mark.parametrize("asked", [None, np.arange(36), np.arange(0, 3200, 16)])
@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize("rows", [1, 100])
def test_what_is_recorded_follows_from_the_plan_alone(
    iterations: int, asked: np.ndarray | None, stops: bool, rows: int
) -> None:
    read = np.full(iterations, rows)
    plan: Any = SimpleNamespace(
        iterations=iterations, record_at=None, stops=stops, rows=read, facts=SimpleNamespace(n=100)
    )
    if asked is not None:
        plan.record_at = np.unique(np.minimum(asked, iterations))
    grid, expensive = recorded_iterations(plan)
    assert grid[0] == 0 and grid[-1] == iterations and (np.diff(grid) > 0).all()
    assert len(grid) == iterations + 1 if iterations < LEAST_RECORDS else len(grid) <= RECORDS
    if asked is None and iterations >= RECORDS:
        assert len(grid) <= max(LEAST_RECORDS, 1 + read.sum() / 100) and len(grid) > 0.7 * LEAST_RECORDS
    assert set(expensive.tolist()) <= set(grid.tolist()) and len(expensive) <= EXPENSIVE
    assert {0, iterations} <= set(expensive.tolist())
    assert asked is None or len(plan.record_at) > 40 or set(plan.record_at.tolist()) <= set(grid.tolist())


def test_a_state_is_evaluated_once_and_the_last_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    true = LogisticProblem.evaluate
    monkeypatch.setattr(LogisticProblem, "evaluate", lambda *args: calls.append(1) or true(*args))  # type: ignore[func-returns-value]
    problem = LogisticRegression(data=UniformLogistic(rows=500, dimension=2))
    arms = (Arm(label="it", algorithm=GradientDescent(iterations=6)),)
    Experiment(problem=problem, arms=arms, replicates=2).run()
    assert len(calls) == 7, "the start and six steps"


def test_expensive_diagnostics_are_computed_at_few_iterations_and_at_both_ends() -> None:
    of = weighing()
    trace = of.run()
    grid, dear = recorded_iterations(of.plans()["it"])
    iterations, values = trace.series("it", "value")
    assert iterations.tolist() == grid.tolist() and set(iterations) <= set(range(201))
    few, depths = trace.series("it", "depth")
    assert few.tolist() == dear.tolist() and {0, 200} <= set(few.tolist())
    assert 2 < len(few) < len(iterations) / 2 and set(few.tolist()) <= set(iterations.tolist())
    assert np.array_equal(depths, 10.0 * np.tile(few[:, None], 3)) and values.shape == (len(iterations), 3)
    asked = [t for kind, t in CALLS if kind == "expensive"]
    assert asked == few.tolist() and len(CALLS) == len(iterations), "no state is evaluated twice"
    assert len(trace.arm_traces["it"].values["depth"]) == len(iterations), "nan between"
    assert not trace.to_frame()["value"].isna().any()


def test_of_a_run_that_may_end_early_expensive_diagnostics_are_closest_at_its_beginning() -> None:
    of = weighing(iterations=1511)
    plan = of.plans()["it"]
    (grid, _), (same, dear) = recorded_iterations(plan), recorded_iterations(replace(plan, stops=True))
    assert np.array_equal(grid, same)
    expensive = dear.tolist()
    assert expensive[:4] == [0, 1, 2, 3] and expensive[-1] == 1511
    assert 15 <= len(expensive) <= EXPENSIVE and sum(t <= 100 for t in expensive) > len(expensive) / 2


def test_a_run_that_is_stopped_has_its_last_state_with_everything() -> None:
    of = weighing()
    grid, dear = recorded_iterations(of.plans()["it"])
    (cheap, *_) = sorted(set(grid.tolist()) - set(dear.tolist()))
    stream = of.stream()
    step = next(step for step in stream if step.snapshot.iteration == cheap)
    stream.close()  # type: ignore[attr-defined]
    for name in ("value", "depth"):
        iterations, values = step.trace.series("it", name)
        assert iterations[-1] == step.snapshot.iteration and np.isfinite(values[-1]).all()


def test_nobody_who_stops_a_run_waits_for_expensive_diagnostics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpviz.experiments.experiment.LAST_RECORD", 0.01)
    of = weighing(seconds=0.02)
    stream = of.stream()
    step = next(step for step in stream if step.snapshot.iteration == 1)
    stream.close()  # type: ignore[attr-defined]
    assert step.trace.series("it", "value")[0][-1] == 1 and step.trace.series("it", "depth")[0].tolist() == [0]
    ended = weighing(seconds=0.02, iterations=3).run()
    assert ended.series("it", "depth")[0][-1] == 3, "who waits for the end gets everything"


def test_a_run_that_is_stopped_where_it_was_recorded_is_not_evaluated_again() -> None:
    stream = weighing(iterations=30).stream()
    step = next(step for step in stream if step.snapshot.iteration == 5)
    assert step.trace.series("it", "value")[0].tolist() == list(range(6))
    stream.close()  # type: ignore[attr-defined]
    assert [t for _, t in CALLS] == list(range(6))


def test_a_snapshot_that_comes_again_is_recorded_and_counted_once() -> None:
    plain, slow = weighing(iterations=30).run(), weighing(iterations=30, repeats=4)
    steps = list(slow.stream())
    assert len(steps) == 4 * 31
    assert len(CALLS) == 31
    assert (np.diff([step.progress for step in steps]) >= 0).all()
    for name in ("value", "depth"):
        for one, other in zip(plain.series("it", name), steps[-1].trace.series("it", name), strict=True):
            assert np.array_equal(one, other)
    assert [len(spent) for spent in steps[-1].trace.spent("it")] == [31, 31]


def test_passes_over_the_data_are_a_released_axis_that_follows_from_the_plan() -> None:
    problem = LogisticRegression(data=UniformLogistic(rows=1000, dimension=2))
    arms = (
        Arm(label="all", algorithm=GradientDescent(iterations=8)),
        Arm(label="batches", algorithm=GradientDescent(iterations=12, batch_fraction=0.25)),
    )
    of = Experiment(problem=problem, arms=arms, replicates=2)
    trace, plans = of.run(), of.plans()
    found = results.axes(trace, plans)
    assert list(found) == ["passes"] and list(found["passes"].curves) == ["all", "batches"]
    for label, each in (("all", 1.0), ("batches", 0.25)):
        assert found["passes"].curves[label] == pytest.approx(each * np.arange(plans[label].iterations + 1))
    table = pd.read_csv(io.StringIO(export.to_csv(trace, of, plans)), comment="#")
    assert table[table["algorithm"] == "batches"]["passes"].max() == 3.0
    once = NoisyPayoffs(matrix_rounds=5).plan(MatrixGame().facts(), ZeroConcentratedDP(rho=0.1))
    assert once.passes is None, "its rounds read a matrix that was released, and no rows"
    used = BiasReduced().plan(MatrixGame().facts(), ZeroConcentratedDP(rho=0.1))
    assert used.passes is None, "how many rows it uses is random"


def test_a_released_series_that_is_declared_as_an_axis_is_one() -> None:
    method = BiasReduced(stop_level=8)
    game = MatrixGame(data=LatentGame(rows=100, strategies_x=4, strategies_y=5))
    budget = ZeroConcentratedDP(rho=0.1)
    of = Experiment(problem=game, arms=(Arm(label="it", algorithm=method),), budget=budget, replicates=3)
    trace, plans = of.run(), of.plans()
    (axis,) = results.axes(trace, plans).values()
    iterations, values = trace.series("it", "rows_used")
    assert axis.title == "Rows used so far" and (np.diff(axis.curves["it"]) >= 0).all()
    assert axis.curves["it"][iterations] == pytest.approx(np.median(values, axis=1))


def test_a_csv_has_gaps_where_a_expensive_diagnostic_was_not_computed() -> None:
    of = weighing()
    trace = of.run()
    table = pd.read_csv(io.StringIO(export.to_csv(trace, of, of.plans())), comment="#")
    found = table[table["replicate"] == 0]
    assert found["value_nonprivate"].notna().all() and len(found) == len(trace.series("it", "value")[0])
    computed = found[found["depth_nonprivate"].notna()]
    assert computed["iteration"].tolist() == trace.series("it", "depth")[0].tolist()
