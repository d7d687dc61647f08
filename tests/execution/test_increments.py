"""The wire format: what arrives is what was sent, bit by bit, and what is no message is refused."""

import threading
from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import numpy as np
import pytest

from dpviz.execution import increments, worker
from dpviz.execution.increments import Sender, add_increment, outcome_from_bytes, outcome_to_bytes
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.task import TOO_LARGE, Cell, Outcome, SerialExecutor, execute
from dpviz.experiments.trace import ArmTrace, Trace
from dpviz.families.accelerated import GradientDescent, Nesterov
from dpviz.families.mirror_descent import BiasReduced
from dpviz.privacy.budgets import ApproximateDP, NoPrivacy
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.processes import pack, unpack


def same(one: Trace, other: Trace) -> None:
    assert list(one.arm_traces) == list(other.arm_traces)
    for label, lane in one.arm_traces.items():
        same_lane(lane, other.arm_traces[label])


def same_lane(one: ArmTrace, other: ArmTrace) -> None:
    assert (one.metrics, one.private, one.keeps_path, one.currency, one.iterations, one.statuses, one.seconds) == (
        other.metrics,
        other.private,
        other.keeps_path,
        other.currency,
        other.iterations,
        other.statuses,
        other.seconds,
    )
    np.testing.assert_array_equal(one.stopped_at, other.stopped_at)
    for mine, theirs in ((one.values, other.values), (one.path, other.path)):
        assert list(mine) == list(theirs)
        for name, rows in mine.items():
            assert [row.tobytes() for row in rows] == [row.tobytes() for row in theirs[name]]
            assert all(a.dtype == b.dtype and a.shape == b.shape for a, b in zip(rows, theirs[name], strict=True))
    assert [row.tobytes() for row in one.spent] == [row.tobytes() for row in other.spent]
    assert [(row.dtype, row.shape, row.tobytes()) for row in one.cloud] == [
        (row.dtype, row.shape, row.tobytes()) for row in other.cloud
    ]
    assert {name: array.tobytes() for name, array in one.output.items()} == {
        name: array.tobytes() for name, array in other.output.items()
    }


EXPERIMENTS = {
    "reference beside a method": Experiment(
        problem=Quadratic(rows=100, dimension=2),
        arms=(
            Arm(label="a / b", algorithm=Nesterov(iterations=30)),
            Arm(label="floor", algorithm=GradientDescent(iterations=7), budget=NoPrivacy()),
        ),
        replicates=3,
    ),
    "expensive diagnostics, stops by itself": Experiment(
        problem=MatrixGame(),
        arms=(Arm(label="filter", algorithm=BiasReduced()),),
        budget=ApproximateDP(epsilon=1.0, delta=1e-6),
        replicates=2,
    ),
}


@pytest.fixture(params=list(EXPERIMENTS.values()), ids=list(EXPERIMENTS))
def experiment(request: pytest.FixtureRequest) -> Experiment:
    return request.param


def test_a_trace_that_travels_in_pieces_arrives_as_it_is_at_every_piece(experiment: Experiment) -> None:
    sender, arrived, pieces = Sender(), Trace({}), 0
    for count, step in enumerate(experiment.stream()):
        if count % 7 == 0 and step.trace.arm_traces:
            add_increment(arrived, *unpack(b"".join(pack(*sender.increment(step.trace)))))
            same(step.trace, arrived)
            pieces += 1
    add_increment(arrived, *unpack(b"".join(pack(*sender.increment(step.trace, last=True)))))
    same(step.trace, arrived)
    assert pieces > 3 and arrived.metrics.keys() == step.trace.metrics.keys()


@pytest.mark.parametrize("keep", ["all", "last"])
def test_an_outcome_arrives_as_it_was(experiment: Experiment, keep: str) -> None:
    outcome = execute(Cell(experiment, keep=keep), threading.Event(), lambda trace, progress: None)
    found = outcome_from_bytes(outcome_to_bytes(outcome))
    assert (found.state, found.message, found.seconds, found.left_out) == ("done", "", outcome.seconds, {})
    assert found.trace is not None and outcome.trace is not None
    same(outcome.trace, found.trace)


def test_an_outcome_without_a_trace_arrives() -> None:
    outcome = Outcome("failed", "Choose another table.", seconds=0.25, left_out={"NAG": "No plan."})
    assert outcome_from_bytes(outcome_to_bytes(outcome)) == outcome


def test_the_ends_of_a_trace_are_its_last_numbers(experiment: Experiment) -> None:
    whole = experiment.run()
    ends = whole.last_records()
    for label, lane in whole.arm_traces.items():
        for metric in lane.metrics:
            np.testing.assert_array_equal(whole.last(label, metric.name), ends.last(label, metric.name))
        assert (
            ends.arm_traces[label].iterations == lane.iterations[-1:] and ends.arm_traces[label].status == lane.status
        )
        assert (
            not ends.arm_traces[label].output and not ends.arm_traces[label].path and not ends.arm_traces[label].cloud
        )


def test_large_outputs_travel_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(increments, "SMALL", 8)
    sender, trace = Sender(), EXPERIMENTS["reference beside a method"].run()
    assert not any("output" in name for name in sender.increment(trace)[1])
    assert sum("output" in name for name in sender.increment(trace, last=True)[1]) == 2


def arrays() -> Iterator[np.ndarray]:
    rng = np.random.default_rng(0)
    yield from (rng.normal(size=(3, 5)), np.asfortranarray(rng.normal(size=(4, 3))), np.empty((0, 3)), np.array(7.0))
    yield from (np.arange(5, dtype=np.int32)[::2], np.array([True, False]), np.array(["a", "ü"]), np.array([np.nan, 1]))


def test_arrays_of_every_kind_keep_their_bits_shape_and_order() -> None:
    sent = {f"{place}": array for place, array in enumerate(arrays())}
    header, found = unpack(b"".join(pack({"ü": [1, None]}, sent)))
    assert header == {"ü": [1, None]} and list(found) == list(sent)
    for name, array in sent.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes() and found[name].flags.aligned
        assert found[name].flags.f_contiguous == np.array(array).flags.f_contiguous


def test_objects_do_not_travel() -> None:
    with pytest.raises(TypeError, match="cannot travel"):
        pack({}, {"rows": np.array([object()])})


@pytest.mark.parametrize("cut", [0, 4, 40, -70])
def test_bytes_that_are_no_message_are_refused(cut: int) -> None:
    whole = b"".join(pack({"a": 1}, {"x": np.arange(100.0)}))
    with pytest.raises(ValueError):
        unpack(whole[:cut])
    with pytest.raises(ValueError):
        outcome_from_bytes(whole)


def test_cells_in_the_callers_thread_share_one_allowance_of_time() -> None:
    cells = [Cell(EXPERIMENTS["reference beside a method"]) for _ in range(3)]
    found = dict(SerialExecutor(max_seconds=0.0).run(cells, threading.Event()))
    assert [found[number].state for number in range(3)] == ["timeout"] * 3
    assert found[0].trace is not None, "its first step is done"
    assert found[1].trace is None and found[2].trace is None, "what has no time left is not begun"


def test_a_run_that_fails_while_it_is_sent_arrives_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the increment that found no memory, the other side knows nothing."""
    sent: list[bytes] = []

    def send(pieces: Sequence[bytes]) -> None:
        if not sent:
            sent.append(b"")
            raise MemoryError
        sent.append(b"".join(pieces))

    reporter = worker._Reporter(SimpleNamespace(send=send), whole=True)  # type: ignore[arg-type]
    cell = Cell(EXPERIMENTS["reference beside a method"])
    monkeypatch.setattr(worker, "EVERY", 0.0)
    outcome = execute(cell, threading.Event(), lambda *advance: reporter.step(*advance) if advance[0] else None)
    assert (outcome.state, outcome.message) == ("failed", TOO_LARGE) and outcome.trace is not None
    reporter.end(outcome)
    header, arrays = unpack(sent[1])
    arrived = Trace({})
    add_increment(arrived, header["trace"], arrays)
    same(arrived, outcome.trace)
