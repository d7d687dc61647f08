"""Secret iterates of a run: diagnostics of their own, never mixed up with what is released; and the kept path."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
import pytest

from dpviz.errors import UserError
from dpviz.experiments.algorithm import Algorithm, Snapshot
from dpviz.experiments.experiment import INTERNAL, Arm, Experiment, recorded_metrics
from dpviz.experiments.plan import Plan
from dpviz.experiments.results import columns, final_table
from dpviz.experiments.trace import PATH, ArmTrace, Trace, recording_grid
from dpviz.privacy.budgets import Budget, PureDP
from dpviz.privacy.events import Laplace
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.base import Facts, Metric, Problem, ProblemSpecification

GAP, DEPTH = Metric("duality_gap", "Gap", scale="log"), Metric("depth", "Depth", released=True)


class Line(Problem):
    """The gap of x is |x - 1|."""

    metrics: ClassVar[tuple[Metric, ...]] = (GAP, Metric("objective", "Value", unit="m"))

    def __init__(self, n: int) -> None:
        self.facts = Facts(n=n, d=1)

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        return {"duality_gap": np.abs(output["x"][:, 0] - 1), "objective": 2 * output["x"][:, 0]}


class Ruled(Line):
    """Of what is internal, something else is recorded."""

    internal_metrics = (Metric("length", "Length of the ruler", headline=3),)


class LineSpecification(ProblemSpecification):
    title = "Line"
    rows: int = 10

    def facts(self) -> Facts:
        return Facts(n=self.rows, d=1)

    def build(self, tables: Mapping[str, np.ndarray] = {}) -> Line:
        return Line(self.rows)


class Secretive(Algorithm[Problem, Facts]):
    """Releases t and keeps 10 t + r to itself; on more than 50 rows it has no secret iterate."""

    title = "Secretive"
    metrics = (DEPTH,)

    def has_internal(self, facts: Facts) -> bool:
        return facts.n <= 50

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        return Plan.fixed(facts, budget, (Laplace(0.1),) * 5, batch_size=np.full(5, facts.n))

    def run(self, problem: Problem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        replicates = np.arange(mechanisms.replicates)[:, None]
        shown, hidden = np.zeros((len(replicates), 1)), np.zeros((len(replicates), 1))
        for t in range(plan.iterations + 1):
            if t:
                mechanisms.batch(plan.events[t - 1])
            shown[:], hidden[:] = t, 10 * t + replicates  # the same arrays in every step
            internal = {"x": hidden} if self.has_internal(problem.facts) else {}
            yield Snapshot(t, {"x": shown}, {"depth": np.full(len(replicates), float(t))}, internal)


class Open(Algorithm[Problem, Facts]):
    """Releases t, and has no secret."""

    title = "Open"

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        return Secretive().plan(facts, budget)

    def run(self, problem: Problem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        for t in range(plan.iterations + 1):
            yield Snapshot(t, {"x": np.full((mechanisms.replicates, 1), float(t))})


def experiment(rows: int = 10) -> Experiment:
    arms = (Arm(label="secretive", algorithm=Secretive()), Arm(label="open", algorithm=Open()))
    return Experiment(problem=LineSpecification(rows=rows), arms=arms, replicates=3, budget=PureDP(epsilon=1.0))


def test_secret_iterates_are_judged_like_the_released_ones_under_names_of_their_own() -> None:
    trace = experiment().run()
    t, replicates = np.arange(6), np.arange(3)
    for metric, expected in (
        ("duality_gap", np.abs(np.repeat(t, 3).reshape(6, 3) - 1)),
        ("internal_duality_gap", np.abs(10 * t[:, None] + replicates - 1)),
        ("internal_objective", 2 * (10 * t[:, None] + replicates)),
        ("depth", np.repeat(t, 3).reshape(6, 3)),
    ):
        iterations, values = trace.series("secretive", metric)
        assert iterations.tolist() == t.tolist() and np.array_equal(values, expected), metric
    assert "internal_x" not in trace.arm_traces["secretive"].output
    assert np.array_equal(trace.arm_traces["secretive"].output["x"], np.full((3, 1), 5.0)), "what is released is kept"
    assert np.array_equal(np.array(trace.arm_traces["secretive"].path["x"])[:, 0], t), "and its path"


def test_an_arm_without_secrets_records_none() -> None:
    trace = experiment().run()
    assert set(trace.arm_traces["open"].values) == {"duality_gap", "objective"}
    assert [metric.name for metric in trace.arm_traces["open"].metrics] == ["duality_gap", "objective"]
    assert len(trace.series("open", "internal_duality_gap")[0]) == len(trace.last("open", "internal_objective")) == 0
    many = experiment(rows=100).run()  # whether there are any depends on the problem's facts
    assert set(many.arm_traces["secretive"].values) == {"duality_gap", "objective", "depth"}
    assert not [name for name in many.metrics if name.startswith(INTERNAL)]


def test_secret_metrics_are_diagnostics_with_the_units_and_scales_of_the_others() -> None:
    found = {metric.name: metric for metric in recorded_metrics(Line, Line(10).facts, Secretive())}
    assert list(found) == ["duality_gap", "objective", "internal_duality_gap", "internal_objective", "depth"]
    for name in ("duality_gap", "objective"):
        secret, shown = found[INTERNAL + name], found[name]
        assert (secret.unit, secret.scale) == (shown.unit, shown.scale)
        assert not secret.released and secret.label == f"{shown.label}, internal iterate"
    assert [metric.name for metric in recorded_metrics(Line, Line(100).facts, Secretive())] == [
        "duality_gap",
        "objective",
        "depth",
    ]
    own = recorded_metrics(Ruled, Line(10).facts, Secretive())[-2]
    assert (own.name, own.label, own.headline) == ("internal_length", "Length of the ruler", 3)
    frame = experiment().run().to_frame()
    released = frame.groupby("metric")["released"].unique().map(list)
    assert released.to_dict() == {name: [name == "depth"] for name in found}
    assert set(frame[frame["metric"] == "internal_objective"]["algorithm"]) == {"secretive"}


def test_no_diagnostic_is_recorded_as_released() -> None:
    class Placed(Line):
        metrics = (Metric("place", "Place of x", released=True),)

    class Deep(Line):
        metrics = (Metric("depth", "Depth in the raw rows"),)

    found = {metric.name: metric.released for metric in recorded_metrics(Placed, Line(10).facts, Secretive())}
    assert found == {"place": True, "internal_place": False, "depth": True}
    with pytest.raises(UserError, match="depth"):  # the released one would have the numbers of the other
        recorded_metrics(Deep, Line(10).facts, Secretive())


def test_the_table_has_a_column_for_what_only_some_arms_record() -> None:
    of = experiment()
    trace, headlines = of.run(), ("duality_gap", "internal_duality_gap", "depth")
    table = final_table(trace, of.plans(), headlines=headlines).set_index("algorithm")
    shown = [name for name in columns(trace, headlines) if name in table.columns]
    assert shown == list(table.columns) and {"internal_duality_gap", "depth"} < set(shown)
    assert table["internal_duality_gap"].isna().tolist() == [False, True]
    assert table.loc["secretive", "internal_duality_gap"] == 50.0 and table["duality_gap"].tolist() == [4.0, 4.0]
    assert table.loc["secretive", "depth"] == 5.0 and np.isnan(table.loc["open", "depth"])
    assert table["best_step"].tolist() == [1.0, 1.0]
    first = final_table(trace, of.plans(), headlines=headlines[1:]).set_index("algorithm")
    assert np.isnan(
        first.loc["open", ["internal_duality_gap_low", "internal_duality_gap_high", "best_step"]].tolist()
    ).all()
    assert first.loc["secretive", "best_step"] == 0.0 and first["steps"].tolist() == [5, 5]


# ------------------------------------------------------------------------------------------------------------- the path


def snapshot(iteration: int, size: int, replicates: int = 2) -> Snapshot:
    rows = np.arange(replicates, dtype=float)[:, None]
    return Snapshot(iteration, {"x": np.full((replicates, size), iteration / 3) + rows, "y": rows.copy()})


def test_the_path_is_that_of_the_first_replicate_in_single_precision() -> None:
    lane = ArmTrace((GAP,))
    for iteration in (0, 3, 3, 1, 7):  # some are not recorded
        lane.append(snapshot(iteration, 4), {"duality_gap": np.zeros(2)}, 0.0)
    assert lane.iterations == [0, 3, 7] and {name: len(kept) for name, kept in lane.path.items()} == {"x": 3, "y": 3}
    assert all(point.dtype == np.float32 and point.shape == (4,) for point in lane.path["x"])
    assert np.array_equal(np.array(lane.path["x"]), np.repeat(np.float32([0, 1, 7 / 3])[:, None], 4, axis=1))
    assert np.array_equal(np.array(lane.path["y"]), np.zeros((3, 1)))


def test_the_path_does_not_change_with_the_snapshot() -> None:
    lane, source = ArmTrace((GAP,)), snapshot(1, 2)
    lane.append(source, {"duality_gap": np.zeros(2)}, 0.0)
    source.output["x"][:] = np.nan
    assert np.isfinite(lane.path["x"][0]).all() and np.isfinite(lane.output["x"]).all()


@pytest.mark.parametrize(("size", "kept"), [(PATH, 4), (PATH + 1, 0)])
def test_a_path_that_is_too_large_is_dropped_as_a_whole_and_nothing_else_is(size: int, kept: int) -> None:
    lane = ArmTrace((GAP,))
    for iteration in range(4):
        lane.append(snapshot(iteration, size), {"duality_gap": np.zeros(2)}, 0.0)
    assert len(lane.path["x"]) == kept and len(lane.path["y"]) == 4 == len(lane.iterations)
    assert lane.output["x"].shape == (2, size)


def test_the_paths_of_a_run_stay_small() -> None:
    assert PATH * 4 * len(recording_grid(10_000)) <= 20e6, "bytes of the largest path that a run keeps"


def test_a_trace_of_no_arm_has_no_metrics() -> None:
    assert Trace({}).metrics == {} and len(Trace({}).to_frame()) == 0
