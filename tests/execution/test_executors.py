"""Worker processes: the same numbers as in a thread, and no fault of a run that reaches anybody else."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpviz.datasets import UniformLogistic, UploadedTable
from dpviz.datasets.uploads.files import TableFile
from dpviz.execution.executors import CRASHED, CUT_OFF, Slots
from dpviz.execution.runner import Job, Runner
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.task import OURS, TOO_LARGE, Cell, Outcome, SerialExecutor
from dpviz.experiments.trace import Trace
from dpviz.families.accelerated import GradientDescent, Nesterov
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.specification import MODULES
from tests.execution.test_increments import EXPERIMENTS, same
from tests.waiting import until

PATIENCE = 60.0  # seconds until a test gives up
pytestmark = pytest.mark.slow  # real processes and clocks


def quick(seed: int = 0) -> Experiment:
    arm = Arm(label="NAG", algorithm=Nesterov(iterations=20))
    return Experiment(problem=Quadratic(rows=100, dimension=2), arms=(arm,), replicates=2, seed=seed)


def endless(seed: int = 0, rows: int = 100_000) -> Experiment:
    """Minutes of quick steps, on a table of 17 MB; seconds, on a smaller one."""
    arm = Arm(label="GD", algorithm=GradientDescent(iterations=10_000))
    problem = LogisticRegression(data=UniformLogistic(rows=rows, dimension=20))
    return Experiment(problem=problem, arms=(arm,), replicates=5, seed=seed)


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    found = Runner(slots=1, processes=True)
    yield found
    found.close()


def ended(job: Job) -> Job:
    job.wait(PATIENCE)
    assert not job.active, f"still {job.state}"
    return job


def under_way(runner: Runner, seed: int) -> Job:
    """A run of which something has arrived."""
    job = runner.submit(endless(seed))
    until(lambda: job.trace is not None and bool(job.trace.arm_traces["GD"].iterations))
    return job


def steps(job: Job) -> int:
    assert job.trace is not None
    return len(job.trace.arm_traces["GD"].iterations)


def test_a_worker_finds_what_a_thread_finds_bit_by_bit(runner: Runner, tmp_path: Path) -> None:
    data = UploadedTable(identity="b" * 32, n=30, bounds=((0.0, 1.0),), names=("a",))
    table = {"b" * 32: np.column_stack([np.linspace(0, 1, 30), np.tile([-1.0, 1.0], 15)])}
    stored = tmp_path / "table.parquet"
    pd.DataFrame({"a": np.linspace(0, 1, 30), "target": np.tile([0, 1], 15)}).to_parquet(stored)
    arm = Arm(label="A", algorithm=Nesterov(iterations=3))
    upload = Experiment(problem=LogisticRegression(data=data), arms=(arm,), replicates=1, seed=5)
    cells = [
        *(Cell(experiment) for experiment in EXPERIMENTS.values()),
        *(Cell(experiment, keep="last") for experiment in EXPERIMENTS.values()),
        Cell(upload, table),
        Cell(upload),  # without its table: a sentence
        Cell(upload, {"b" * 32: TableFile(stored)}),  # type: ignore[dict-item]
    ]
    seen: dict[int, Trace] = {}

    def on_progress(number: int, trace: Trace | None, progress: float) -> None:
        if trace is not None:
            seen[number] = trace

    here = dict(SerialExecutor().run(cells, threading.Event()))
    there = dict(runner.slots.executor("somebody").run(cells, threading.Event(), on_progress))
    assert sorted(there) == list(range(len(cells)))
    for number, outcome in here.items():
        assert (outcome.state, outcome.message) == (there[number].state, there[number].message)
        if outcome.trace is not None:
            assert there[number].trace is not None
            without_clocks(outcome)
            without_clocks(there[number])
            same(outcome.trace, there[number].trace)
    assert (here[5].state, here[6].state) == ("failed", "done") and {0, 1} <= set(seen) and seen[0] is there[0].trace


def test_a_method_that_a_worker_has_not_imported_is_a_sentence(runner: Runner) -> None:
    class Mine(GradientDescent):
        kind = "mine.of_this_process"

    experiment = Experiment(Quadratic(), Mine(iterations=2))
    ((_, outcome),) = runner.slots.executor("somebody").run([Cell(experiment)], threading.Event())
    assert outcome.state == "failed" and "mine.of_this_process" in outcome.message and MODULES in outcome.message


def without_clocks(outcome: Outcome) -> None:
    assert outcome.trace is not None
    for lane in outcome.trace.arm_traces.values():
        lane.seconds = 0.0


def test_a_run_arrives_while_it_computes_and_stops_by_itself(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpviz.execution.executors.PATIENCE", PATIENCE)  # on a busy machine a worker hears late
    job = under_way(runner, 1)
    until(lambda: steps(job) > 3)
    assert job.state == "running" and 0 < job.progress < 1
    pid = runner.slots.pids
    job.stop()
    assert ended(job).state == "stopped" and job.message == "" and runner.slots.pids == pid
    assert job.trace is not None and job.trace.arm_traces["GD"].output, "its last state is recorded"


def test_stop_ends_a_worker_that_does_not_hear_and_keeps_what_it_had_sent(runner: Runner) -> None:
    job = under_way(runner, 2)
    (pid,) = runner.slots.pids
    os.kill(pid, signal.SIGSTOP)  # as inside a step that takes minutes
    job.stop()
    assert ended(job).state == "stopped" and job.message == CUT_OFF and steps(job) > 0
    assert ended(runner.submit(quick(2))).state == "done" and runner.slots.pids != [pid]


def test_a_worker_that_is_killed_costs_its_run_only(runner: Runner) -> None:
    job, waiting = under_way(runner, 3), runner.submit(quick(3))
    os.kill(runner.slots.pids[0], signal.SIGKILL)
    assert (ended(job).state, job.message) == ("failed", CRASHED) and steps(job) > 0
    assert ended(waiting).state == "done"


def test_a_worker_that_has_ended_between_two_runs_costs_nobody_anything(runner: Runner) -> None:
    assert ended(runner.submit(quick(31))).state == "done"
    (pid,) = runner.slots.pids
    os.kill(pid, signal.SIGKILL)
    until(lambda: not runner.slots._workers[0]._child.alive)
    assert ended(runner.submit(quick(32))).state == "done" and runner.slots.pids != [pid]


@pytest.mark.parametrize("processes", [True, False], ids=["in a worker", "in a thread"])
def test_who_listens_and_fails_costs_one_run_and_no_slot(runner: Runner, processes: bool) -> None:
    slots = runner.slots if processes else Slots(1)

    def on_progress(number: int, trace: Trace | None, progress: float) -> None:
        raise KeyError("a bug of the page")

    ((_, failed),) = slots.executor().run([Cell(endless(33))], threading.Event(), on_progress)
    assert (failed.state, failed.message) == ("failed", OURS)
    ((_, outcome),) = slots.executor().run([Cell(quick(34))], threading.Event())
    assert outcome.state == "done" and outcome.trace is not None and list(outcome.trace.arm_traces) == ["NAG"]


def test_of_a_task_without_time_left_no_more_cells_begin(runner: Runner) -> None:
    begun: list[int] = []
    cells = [Cell(quick(35 + seed)) for seed in range(3)]
    place = runner.slots.executor(max_seconds=0.0)
    found = dict(place.run(cells, threading.Event(), lambda number, *_: begun.append(number)))
    assert [found[number].state for number in range(3)] == ["timeout"] * 3 and set(begun) <= {0}


def test_time_is_that_of_the_processor_and_ends_a_run_with_what_it_has() -> None:
    runner = Runner(slots=1, processes=True, max_seconds=0.6)
    job = runner.submit(endless(4, rows=10_000))
    until(lambda: job.trace is not None)
    (pid,) = runner.slots.pids
    os.kill(pid, signal.SIGSTOP)  # a process that waits for a processor, for longer than the limit
    threading.Event().wait(0.8)
    assert job.active
    os.kill(pid, signal.SIGCONT)
    assert ended(job).state == "timeout" and steps(job) > 0 and runner.slots.pids == [pid]
    runner.close()


def test_too_much_memory_is_a_sentence_and_the_worker_goes_on() -> None:
    runner = Runner(slots=1, processes=True, max_bytes=12e6)
    (pid,) = runner.slots.pids
    job = ended(runner.submit(endless(5)))
    assert (job.state, job.message) == ("failed", TOO_LARGE)
    assert ended(runner.submit(quick(5))).state == "done" and runner.slots.pids == [pid]
    runner.close()


def test_a_worker_that_has_grown_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpviz.execution.executors.GROWN", 1.0)
    slots = Slots(1, processes=True)
    before = slots.pids
    ((_, outcome),) = slots.executor().run([Cell(quick(6))], threading.Event())
    assert outcome.state == "done" and slots.pids != before
    slots.close()


def test_five_runs_whose_visitors_have_left_let_the_sixth_begin(runner: Runner) -> None:
    left: list[Job] = []
    for seed in range(5):
        left.append(runner.submit(endless(10 + seed), visitor=f"{seed}"))
        until(lambda: left[-1].state == "running" or left[-1].position is not None)
    sixth = runner.submit(quick(7), visitor="sixth")
    until(lambda: sixth.position == 4)
    for job in left:
        job.stop()
    assert ended(sixth).state == "done" and {ended(job).state for job in left} == {"stopped"}
    assert sixth.position is None


def test_a_stop_while_the_worker_is_starting_lets_it_start() -> None:
    slots, stopping = Slots(1, processes=True), threading.Event()
    outcomes: list[tuple[int, Outcome]] = []
    before = slots.pids
    os.kill(before[0], signal.SIGSTOP)  # it has not come far yet
    data = UploadedTable(identity="b" * 32, n=10_000, bounds=((0.0, 1.0),), names=("a",))
    arm = Arm(label="A", algorithm=Nesterov(iterations=3))
    cell = Cell(Experiment(problem=LogisticRegression(data=data), arms=(arm,)), {"b" * 32: np.ones((10_000, 2))})
    place = slots.executor()
    run = threading.Thread(target=lambda: outcomes.extend(place.run([cell], stopping)), daemon=True)
    run.start()
    until(lambda: place.position is None)
    stopping.set()
    run.join(PATIENCE)
    assert [outcome.state for _, outcome in outcomes] == ["stopped"] and slots.pids == before
    os.kill(before[0], signal.SIGCONT)
    ((_, outcome),) = slots.executor().run([Cell(quick(9))], threading.Event())
    assert outcome.state == "done" and slots.pids == before
    slots.close()


def test_the_first_visitor_does_not_wait_for_a_worker_that_is_starting() -> None:
    slots = Slots(1, processes=True)
    os.kill(slots.pids[0], signal.SIGSTOP)  # it never says that it is ready
    ((_, outcome),) = slots.executor(short=True).run([Cell(quick(8))], threading.Event())
    assert outcome.state == "done"
    slots.close()


@pytest.mark.parametrize("own", [False, True])
def test_what_is_still_under_way_when_the_worker_has_started_begins_again_there_unless_it_is_a_release(
    own: bool,
) -> None:
    """On somebody's own file the noise is drawn afresh: two runs are two releases."""
    slots, stopping, heard = Slots(1, processes=True), threading.Event(), dict[int, Trace]()
    os.kill(slots.pids[0], signal.SIGSTOP)
    data = UploadedTable(identity="b" * 32, n=10_000, bounds=((0.0, 1.0),), names=("a",))
    file = Experiment(LogisticRegression(data=data), Nesterov(iterations=3))
    cell = Cell(file, {"b" * 32: np.ones((10_000, 2))}) if own else Cell(endless(41))
    place = slots.executor(short=True)

    def hear(_: int, trace: Trace | None, __: float) -> None:
        if trace is not None:
            heard[id(trace)] = trace

    def run() -> None:
        for _ in place.run([cell], stopping, hear):
            pass

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    until(lambda: place.position is None and (own or len(heard) == 1))
    os.kill(slots.pids[0], signal.SIGCONT)
    until(lambda: len(heard) == 1 + (not own))
    stopping.set()
    thread.join(PATIENCE)
    assert len(heard) == 1 + (not own)
    slots.close()


def test_a_short_run_waits_for_no_long_one() -> None:
    runner = Runner(slots=1, processes=True, short=True)
    long = [runner.submit(endless(seed), visitor=f"{seed}") for seed in (31, 32)]
    until(lambda: long[0].state == "running")
    assert long[1].position == 0
    assert ended(runner.submit(quick(33), visitor="third", short=True)).state == "done"
    assert [job.state for job in long] == ["running", "queued"]
    for job in long:
        job.stop()
    assert {ended(job).state for job in long} == {"stopped"}
    runner.close()
