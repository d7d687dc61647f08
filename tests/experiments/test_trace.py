"""Traces: what was recorded is kept, in order, and can be read while it grows."""

import threading

import numpy as np
import pytest

from dpviz.errors import UserError
from dpviz.experiments.algorithm import Snapshot
from dpviz.experiments.trace import CAPACITY, ArmTrace, Trace, recording_grid
from dpviz.problems.base import Metric

GAP, SPENT = Metric("objective_gap", "Gap", scale="log"), Metric("rho_spent", "ρ", released=True)


def snapshot(iteration: int, replicates: int = 3, **more: object) -> Snapshot:
    x = np.full((replicates, 2), float(iteration))
    return Snapshot(iteration, {"x": x}, {"rho_spent": x[:, 0] / 10}, **more)  # type: ignore[arg-type]


def recorded(iterations: list[int], replicates: int = 3) -> Trace:
    trace = Trace({"A": (GAP, SPENT), "B": (GAP,)})
    for t in iterations:
        trace.arm_traces["A"].append(snapshot(t, replicates), {"objective_gap": np.arange(replicates) + 100.0 * t}, 0.1)
    return trace


@pytest.mark.parametrize("iterations", [1, 2, 5, 9, 10, 11, 98, 99, 100, 101, 150, 1000, 9_999, 10_000])
@pytest.mark.parametrize("points", [10, 100])
def test_the_grid_has_both_ends_and_no_more_points_than_allowed(iterations: int, points: int) -> None:
    grid = recording_grid(iterations, points)
    assert grid[0] == 0 and grid[-1] == iterations
    assert (np.diff(grid) > 0).all() and len(grid) <= points
    if iterations < points:
        assert grid.tolist() == list(range(iterations + 1))


def test_the_grid_is_dense_where_curves_bend_and_leaves_no_gap() -> None:
    grid = recording_grid(10_000)
    assert len(grid) > 50 and {1, 2, 3, 5, 6, 9}.issubset(grid.tolist())
    assert np.diff(grid).max() <= 2 * 10_000 / 29


def test_series_are_iterations_by_replicates_and_empty_if_not_recorded() -> None:
    trace = recorded([0, 3, 7])
    iterations, values = trace.series("A", "objective_gap")
    assert iterations.tolist() == [0, 3, 7] and values.shape == (3, 3) and values[2].tolist() == [700, 701, 702]
    assert trace.last("A", "objective_gap").tolist() == [700, 701, 702]
    iterations, values = trace.series("B", "objective_gap")
    assert len(iterations) == len(values) == len(trace.last("B", "objective_gap")) == 0
    for arm, metric in (("A", "no_such_metric"), ("nobody", "objective_gap")):
        for read in (trace.series, trace.last):
            with pytest.raises(UserError, match="There are: "):
                read(arm, metric)
    assert trace.metrics == {"objective_gap": GAP, "rho_spent": SPENT}


def test_what_may_be_shown_does_not_grow_with_the_trace() -> None:
    trace = recorded([0, 3])
    trace.arm_traces["A"].finish()
    visible = trace.visible(False)
    trace.arm_traces["A"].append(snapshot(7), {"objective_gap": np.zeros(3)}, 0.1, np.ones(3), np.ones((3, 2)))
    arm_trace = visible.arm_traces["A"]
    assert visible.series("A", "rho_spent")[0].tolist() == [0, 3] and len(arm_trace.path["x"]) == 2
    assert arm_trace.status == ("exhausted",) * 3 and not arm_trace.cloud and not arm_trace.spent


def test_what_is_recorded_does_not_change_with_the_snapshot() -> None:
    """A snapshot's arrays are valid until the next step only: the algorithm may write into them."""
    trace, source = recorded([]), snapshot(1)
    gap = np.ones(3)
    trace.arm_traces["A"].append(source, {"objective_gap": gap}, 0.0)
    gap[:] = source.output["x"][:] = source.released["rho_spent"][:] = np.nan
    assert trace.last("A", "objective_gap").tolist() == [1, 1, 1]
    assert np.isfinite(trace.last("A", "rho_spent")).all() and np.isfinite(trace.arm_traces["A"].output["x"]).all()


def test_an_iteration_is_recorded_once_and_never_backwards() -> None:
    trace = recorded([0, 5, 5, 3, 6])
    assert trace.series("A", "objective_gap")[0].tolist() == [0, 5, 6]
    assert len(trace.series("A", "objective_gap")[1]) == 3


def test_a_lane_does_not_grow_without_limit() -> None:
    lane = ArmTrace((GAP,))
    for t in range(CAPACITY + 50):
        lane.append(snapshot(t, 1), {"objective_gap": np.zeros(1)}, 0.0)
    assert len(lane.iterations) == CAPACITY == len(lane.values["objective_gap"])


def test_status_is_one_word_per_replicate() -> None:
    lane = ArmTrace((GAP,))
    lane.append(snapshot(0), {"objective_gap": np.zeros(3)}, 0.0)
    assert lane.status == ("running",) * 3
    lane.append(snapshot(1, status=("running", "diverged", "running")), {"objective_gap": np.zeros(3)}, 0.0)
    assert lane.status == ("running", "diverged", "running")


def test_the_tidy_table_has_one_row_per_value_and_says_what_was_released() -> None:
    frame = recorded([0, 4]).to_frame()
    assert list(frame.columns) == ["algorithm", "replicate", "iteration", "metric", "value", "released"]
    assert len(frame) == 2 * 2 * 3 and set(frame["algorithm"]) == {"A"}
    gap = frame[(frame["metric"] == "objective_gap") & (frame["iteration"] == 4)]
    assert gap["value"].tolist() == [400, 401, 402] and gap["replicate"].tolist() == [0, 1, 2]
    assert dict(frame.groupby("metric")["released"].unique().map(list)) == {
        "objective_gap": [False],
        "rho_spent": [True],
    }
    empty = recorded([]).to_frame()
    assert list(empty.columns) == list(frame.columns) and len(empty) == 0


def test_readers_see_whole_rows_while_a_writer_appends() -> None:
    """No lock: the iteration number is appended last, so every series that a reader gets is rectangular and ordered."""
    trace, done, wrong = recorded([]), threading.Event(), []

    def write() -> None:
        for t in range(1_500):
            value = np.full(3, float(t))
            trace.arm_traces["A"].append(snapshot(t), {"objective_gap": value}, 0.0)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        for metric, scale in (("objective_gap", 1.0), ("rho_spent", 0.1)):
            iterations, values = trace.series("A", metric)
            if len(iterations) != len(values) or (len(values) and not np.allclose(values[:, 0], iterations * scale)):
                wrong.append((metric, len(iterations), len(values)))
        frame = trace.to_frame()
        if len(frame) % 3:
            wrong.append(("frame", len(frame)))
    writer.join()
    assert wrong == [] and len(trace.arm_traces["A"].iterations) == 1_500


def test_places_are_kept_as_finite_numbers_and_go_with_the_rest() -> None:
    trace = recorded([])
    assert trace.arm_traces["B"].iterations == [] and not len(trace.cloud("B")[1])
    lane, places = trace.arm_traces["A"], np.array([[0.5, -1e300], [np.nan, np.inf], [1.0, 2.0]])
    for t in (0, 4):
        lane.append(snapshot(t), {"objective_gap": np.zeros(3)}, 0.0, points=places)
    places[:] = 0.0
    iterations, found = trace.cloud("A")
    assert iterations.tolist() == [0, 4] and found.shape == (2, 3, 2) and found.dtype == np.float32
    assert found[1, 0, 0] == 0.5 and np.isfinite(found).all() and (np.abs(found[:, 1]) > 1e38).all()
    without = ArmTrace((GAP, SPENT))
    for t in (0, 4):
        without.append(snapshot(t), {"objective_gap": np.zeros(3)}, 0.0)
    assert lane.bytes - without.bytes == 2 * 3 * 2 * 4
    assert not lane.last_record().cloud and len(lane.without_diagnostics().cloud) == 2
    lane.private = False
    assert not trace.visible(False).arm_traces.get("A") and trace.visible(True).cloud("A")[1].shape == (2, 3, 2)
