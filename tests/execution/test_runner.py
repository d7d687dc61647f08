"""The runner: a bounded number of jobs at a time, each of which ends in a state that can be shown."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dpviz.datasets import UploadedTable
from dpviz.errors import UserError
from dpviz.execution import executors
from dpviz.execution.runner import Job, Runner
from dpviz.experiments.algorithm import Algorithm, Snapshot
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.plan import Plan
from dpviz.experiments.task import Outcome, SerialExecutor, execute
from dpviz.families.accelerated import Nesterov
from dpviz.privacy.budgets import Budget, NoPrivacy
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.base import Facts, Problem
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.sweeps.sweep import Sweep
from tests.waiting import until

BENCH = Quadratic(rows=100, dimension=2)
PATIENCE = 300.0  # seconds until a test gives up


class Gate:
    """Lets a test hold a run between two steps, and see how many runs are held."""

    def __init__(self) -> None:
        self.open, self.entered = threading.Event(), threading.Semaphore(0)
        self.inside, self.most, self._lock = 0, 0, threading.Lock()

    def wait(self) -> None:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.entered.release()
        assert self.open.wait(PATIENCE)
        with self._lock:
            self.inside -= 1


GATES: dict[int, Gate] = {}


class Held(Algorithm[Problem, Facts]):
    """Waits at a gate after its first snapshot, then goes on for ten seconds and more, or fails."""

    title = "Held"
    gate: int
    failure: str = ""

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        if self.failure == "plan":
            raise UserError("This plan cannot be. Change it.")
        plan = Nesterov(iterations=10_000).plan(BENCH.facts(), NoPrivacy())
        return Plan.fixed(facts, budget, plan.events, batch_size=plan.batch_size)

    def run(self, problem: Problem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        yield Snapshot(0, {"x": np.ones((mechanisms.replicates, 2))})
        GATES[self.gate].wait()
        if self.failure == "run":
            raise ZeroDivisionError("secret row 17")
        for t, event in enumerate(plan.events, 1):
            mechanisms.batch(event)
            time.sleep(1e-3)  # a test that is late on a busy machine still finds it running
            yield Snapshot(t, {"x": np.ones((mechanisms.replicates, 2))})


@pytest.fixture
def gate() -> Iterator[int]:
    key = len(GATES)
    GATES[key] = Gate()
    yield key
    GATES[key].open.set()


def held(gate: int, failure: str = "") -> Experiment:
    algorithm = Held(gate=gate, failure=failure)
    return Experiment(problem=BENCH, arms=(Arm(label="held", algorithm=algorithm),), replicates=1, budget=NoPrivacy())


def short(iterations: int = 20) -> Experiment:
    return Experiment(
        problem=BENCH, arms=(Arm(label="short", algorithm=Nesterov(iterations=iterations)),), replicates=2
    )


def by_dimension(experiment: Experiment, metric: str = "objective_gap") -> Sweep:
    return Sweep(experiment=experiment, fields=("problem.dimension",), values=(2, 4, 8), metric=metric)


def ended(job: Job) -> Job:
    job.wait(PATIENCE)
    assert not job.active, f"still {job.state}"
    return job


def settled(runner: Runner, job: Job) -> Job:
    """When it has ended, and the runner has kept it or not."""
    ended(job)
    until(lambda: job not in runner._active)
    return job


def test_a_job_runs_to_its_end_in_the_background() -> None:
    job = ended(Runner().submit(short()))
    assert (job.state, job.message, job.progress) == ("done", "", 1.0)
    assert job.trace is not None and job.trace.series("short", "objective_gap")[0][-1] == 20
    assert job.seconds > 0 and job.seconds_left == 0.0


def test_waiting_for_a_job_gives_the_same_numbers_as_the_background() -> None:
    runner = Runner()
    here, there = runner.submit(short(), wait=True), ended(runner.submit(short()))
    assert here.state == "done"
    one, two = (job.trace.series("short", "objective_gap")[1] for job in (here, there))  # type: ignore[union-attr]
    assert np.array_equal(one, two)


def test_a_running_job_stops_soon_and_keeps_what_it_has(gate: int) -> None:
    job = Runner().submit(held(gate))
    assert GATES[gate].entered.acquire(timeout=PATIENCE)
    assert job.state == "running" and job.active and job.trace is not None
    assert job.seconds_left is None, "no estimate from a single step"
    job.stop()
    GATES[gate].open.set()
    assert ended(job).state == "stopped"
    iterations = job.trace.arm_traces["held"].iterations
    assert iterations[0] == 0 and iterations[-1] <= 1, "at most the step that was under way"


def test_who_waits_for_curves_goes_on_with_the_first_ones_or_with_the_end(gate: int) -> None:
    runner = Runner()
    job = runner.submit(held(gate))
    assert GATES[gate].entered.acquire(timeout=PATIENCE)
    job.wait_for_curves(0.01)
    assert job.trace is not None and not job.trace.has_curves, "its starting point is no line"
    GATES[gate].open.set()
    job.wait_for_curves(PATIENCE)
    assert job.trace.has_curves
    job.stop()
    assert ended(job).state == "stopped"
    mistake = runner.submit(held(gate, "plan"))
    mistake.wait_for_curves(PATIENCE)
    assert ended(mistake).trace is None, "it will have none"


def test_a_job_in_line_can_be_stopped_before_it_starts(gate: int) -> None:
    runner = Runner(slots=1)
    first = runner.submit(held(gate))
    assert GATES[gate].entered.acquire(timeout=PATIENCE)
    second = runner.submit(short())
    assert second.state == "queued" and runner.waiting == 1
    second.stop(), first.stop()  # type: ignore[func-returns-value]
    GATES[gate].open.set()
    assert ended(second).state == "stopped" and second.trace is None
    assert ended(first).state == "stopped"


def test_a_sweep_runs_to_its_end_in_the_background() -> None:
    sweep = by_dimension(short())
    job = ended(Runner().submit(sweep))
    assert (job.state, job.progress, job.task, job.experiment) == ("done", 1.0, sweep, sweep.experiment)
    assert job.trace is None and job.result is not None and job.result.finished == 3
    for here, there in zip(job.result.series("short")[1], sweep.run().series("short")[1], strict=True):
        np.testing.assert_array_equal(here, there)


def test_a_running_sweep_stops_between_two_iterations(gate: int) -> None:
    job = Runner(slots=1).submit(by_dimension(held(gate)))
    assert GATES[gate].entered.acquire(timeout=PATIENCE)
    assert job.state == "running" and job.result is not None and job.result.finished == 0
    job.stop()
    GATES[gate].open.set()
    assert ended(job).state == "stopped" and job.progress < 1
    assert job.result.finished == 0 and job.result.to_frame().empty, "no point was finished"


def test_a_sweep_for_later_comes_after_all_runs_and_is_computed_once_for_all_who_want_it(gate: int) -> None:
    runner, sweep = Runner(slots=1), by_dimension(short())
    first = runner.submit(held(gate), visitor="a")
    assert GATES[gate].entered.acquire(timeout=PATIENCE)
    jobs = [runner.submit(sweep, visitor=visitor, later=True) for visitor in "ab"]
    runner.submit(short(), visitor="c")
    until(lambda: [job.position for job in jobs] == [1, 1])
    assert runner.waiting == 1, "whom it lets pass does not wait for it"
    first.stop()
    GATES[gate].open.set()
    assert {ended(job).state for job in jobs} == {"done"} and jobs[0].result is jobs[1].result
    until(lambda: runner.submit(sweep, visitor="d", later=True) in jobs)


def test_a_sweep_for_later_of_which_a_point_has_failed_is_kept_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    runner, sweep = Runner(slots=1), by_dimension(short())

    def killed(cell: Any, *others: Any) -> Outcome:
        return execute(cell, *others) if cell.experiment.problem.dimension < 8 else Outcome("failed", "Killed.")

    with monkeypatch.context() as patched:
        patched.setattr(executors, "execute", killed)
        job = settled(runner, runner.submit(sweep, later=True))
    assert job.state == "done" and job.result.finished == 2
    assert ended(runner.submit(sweep, later=True)).result.finished == 3


def test_a_sweep_on_a_cluster_waits_for_no_slot() -> None:
    runner, is_open = Runner(slots=1), threading.Event()

    class Far(SerialExecutor):
        def run(self, *arguments: Any) -> Iterator[tuple[int, Outcome]]:
            assert is_open.wait(PATIENCE)
            yield from super().run(*arguments)

    job = runner.submit(by_dimension(short()), elsewhere=Far())
    assert job.state == "queued" and runner.waiting == 0
    is_open.set()
    assert ended(job).state == "done"


def test_a_sweep_for_later_leaves_a_slot_to_others(gate: int) -> None:
    runner = Runner(slots=2)
    job = runner.submit(by_dimension(held(gate)), later=True)
    assert GATES[gate].entered.acquire(timeout=PATIENCE)
    assert ended(runner.submit(short())).state == "done" and GATES[gate].most == 1
    job.stop()
    GATES[gate].open.set()
    assert ended(job).state == "stopped"


def test_a_mistake_in_a_sweep_is_a_sentence() -> None:
    job = ended(Runner().submit(by_dimension(short(), metric="beauty")))
    assert job.state == "failed" and "no metric 'beauty'" in job.message and job.result is None


def test_no_more_jobs_run_at_once_than_there_are_slots(gate: int) -> None:
    runner = Runner(slots=2)
    jobs = [runner.submit(held(gate).replaced(seed=seed)) for seed in range(6)]
    for _ in range(2):
        assert GATES[gate].entered.acquire(timeout=PATIENCE)
    assert [job.state for job in jobs].count("running") == 2 and runner.waiting == 4
    for job in jobs:
        job.stop()
    GATES[gate].open.set()
    assert {ended(job).state for job in jobs} == {"stopped"} and GATES[gate].most <= 2


def test_a_job_past_its_time_ends_with_what_it_has(gate: int) -> None:
    GATES[gate].open.set()
    job = ended(Runner(max_seconds=0.0).submit(held(gate)))
    assert job.state == "timeout" and job.trace is not None
    assert job.trace.arm_traces["held"].iterations == [0]
    assert 0 <= job.progress < 1


def test_a_users_mistake_is_a_sentence_and_a_bug_gives_nothing_away(
    gate: int, caplog: pytest.LogCaptureFixture
) -> None:
    GATES[gate].open.set()
    mistake = ended(Runner().submit(held(gate, "plan")))
    assert (mistake.state, mistake.message) == ("failed", "This plan cannot be. Change it.")
    bug = ended(Runner().submit(held(gate, "run")))
    assert bug.state == "failed" and "secret" not in bug.message and bug.message.endswith(".")
    assert "secret row 17" in caplog.text, "the log keeps the traceback"
    assert bug.trace is not None and bug.trace.arm_traces["held"].iterations == [0], "what was computed is kept"


def test_a_failed_job_does_not_take_its_worker_along(gate: int) -> None:
    GATES[gate].open.set()
    runner = Runner(slots=1)
    jobs = [runner.submit(held(gate, failure)) for failure in ("run", "plan", "run")]
    assert {ended(job).state for job in jobs} == {"failed"}
    assert ended(runner.submit(short())).state == "done"


def test_who_comes_when_a_run_was_just_kept_leaves_nothing_behind() -> None:
    runner = Runner(slots=1)
    kept, late = ended(runner.submit(short())), Job(short(), {})
    runner._keep(kept)
    assert runner._leader(late) is kept and not runner._leaders


def uploaded() -> tuple[Experiment, dict[str, np.ndarray]]:
    data = UploadedTable(identity="b" * 32, n=30, bounds=((0.0, 1.0),), names=("a",))
    table = np.column_stack([np.linspace(0, 1, 30), np.tile([-1.0, 1.0], 15)])
    arm = Arm(label="A", algorithm=Nesterov(iterations=3))
    return Experiment(problem=LogisticRegression(data=data), arms=(arm,), replicates=1), {"b" * 32: table}


def test_an_upload_does_not_outlive_its_run() -> None:
    runner, (experiment, tables) = Runner(), uploaded()
    job = ended(runner.submit(experiment, tables))
    assert job.state == "done" and not job._tables
    lost = ended(runner.submit(experiment))
    assert lost.state == "failed" and "Upload the file again" in lost.message and not lost._tables


def test_a_run_on_a_file_that_is_removed_ends_and_keeps_no_row(gate: int) -> None:
    runner, (experiment, tables) = Runner(slots=1), uploaded()
    first = runner.submit(held(gate))
    assert GATES[gate].entered.acquire(timeout=PATIENCE)
    job = runner.submit(experiment, tables)
    job.stop_if_using(["c" * 32])
    assert job.active and not job._stopping.is_set(), "another file"
    job.stop_if_using([*tables, "c" * 32])
    assert ended(job).state == "stopped" and not job._tables
    first.stop()


def kept_of(runner: Runner, job: Job) -> Job:
    """What another visitor gets who asks for the same."""
    return settled(runner, runner.submit(settled(runner, job).task))


def test_a_finished_run_on_public_data_is_there_for_everybody_and_nobody_can_spoil_it() -> None:
    runner = Runner(slots=1)
    job = runner.submit(short())
    same = kept_of(runner, job)
    assert same is job and runner.submit(short(), wait=True) is job
    same.stop()
    assert job.state == "done" and runner.submit(short()) is job
    for other in (short(21), short().replaced(seed=1), short().replaced(replicates=3)):
        assert ended(runner.submit(other)) is not job


def test_a_class_that_opens_the_same_run_computes_it_once(gate: int) -> None:
    runner = Runner(slots=2)
    jobs = [runner.submit(held(gate), visitor=f"{number}") for number in range(5)]
    assert GATES[gate].entered.acquire(timeout=PATIENCE)
    until(lambda: all(job.state == "running" and job.trace is not None for job in jobs))
    assert len({id(job.trace) for job in jobs}) == 1 and runner.waiting == 0
    first = next(job for job in jobs if job.slot_executor is not None and job in runner._leaders.values())
    others = [job for job in jobs if job is not first]
    others[0].stop()
    assert ended(others[0]).state == "stopped" and first.active, "who leaves takes nobody along"
    first.stop()
    before, GATES[gate] = GATES[gate], Gate()
    before.open.set()
    assert ended(first).state == "stopped"
    assert GATES[gate].entered.acquire(timeout=PATIENCE), "another one computes it"
    until(lambda: all(job.state == "running" and job.trace is not first.trace for job in others[1:]))
    assert before.most == 1 == GATES[gate].inside, "for the rest"
    for job in others[1:]:
        job.stop()
    GATES[gate].open.set()
    assert {ended(job).state for job in others} == {"stopped"} and GATES[gate].most == 1


def test_visitors_take_turns_and_are_told_their_place(gate: int) -> None:
    runner = Runner(slots=1)
    busy = runner.submit(held(gate).replaced(seed=1), visitor="a")
    assert GATES[gate].entered.acquire(timeout=PATIENCE)
    greedy = []
    for seed in range(2, 5):
        greedy.append(runner.submit(held(gate).replaced(seed=seed), visitor="a"))
        until(lambda: greedy[-1].position is not None)
    modest = runner.submit(short(), visitor="b")
    until(lambda: modest.position is not None)
    assert [job.position for job in (*greedy, modest)] == [0, 2, 3, 1]
    assert busy.position is None
    for job in (busy, *greedy):
        job.stop()
    GATES[gate].open.set()
    assert ended(modest).state == "done" and modest.position is None


def test_who_moves_a_slider_in_line_keeps_the_place_and_is_served_in_turn(gate: int) -> None:
    """Twenty visitors wait; each of them changes the settings three times before the slot is free."""
    runner, order = Runner(slots=1), list(range(20))
    busy = runner.submit(held(gate), visitor="first")
    assert GATES[gate].entered.acquire(timeout=PATIENCE)
    latest: dict[int, Job] = {}
    for move in range(4):
        for visitor in order:
            before = latest.get(visitor)
            if before is not None:
                before.stop()
            job = latest[visitor] = runner.submit(short().replaced(seed=100 * visitor + move), visitor=str(visitor))
            until(lambda job=job: job.position is not None)  # type: ignore[misc]
    assert [latest[visitor].position for visitor in order] == order
    busy.stop()
    GATES[gate].open.set()
    assert {ended(job).state for job in latest.values()} == {"done"}


def test_what_a_visitor_brought_stopped_or_swept_is_kept_for_nobody(gate: int) -> None:
    runner = Runner(slots=1)
    upload, tables = uploaded()
    fixed = upload.replaced(seed=5)
    for task in (upload, fixed):
        assert settled(runner, runner.submit(task, tables)).state == "done"
    stopped = runner.submit(held(gate))
    stopped.stop()
    GATES[gate].open.set()
    settled(runner, stopped), settled(runner, runner.submit(by_dimension(short())))
    assert not runner._kept
    assert runner.submit(fixed, tables, wait=True).trace is not runner.submit(fixed, tables, wait=True).trace


def test_a_problem_that_claims_to_be_public_but_gets_a_table_is_run_on_that_table() -> None:
    """Its settings say nothing of the rows, so equal settings are not equal runs."""
    runner = Runner(slots=1)
    job = kept_of(runner, runner.submit(short()))
    table = {"c" * 32: np.zeros((2, 2))}
    mine = runner.submit(short(), table)
    assert ended(mine) is not job and kept_of(runner, mine) is job


def test_what_is_kept_does_not_outgrow_its_memory() -> None:
    runner = Runner(slots=1)
    one = ended(runner.submit(short(20)))
    assert one.trace is not None
    lane = one.trace.arm_traces["short"]
    assert one.bytes == sum(
        array.nbytes
        for arrays in (*lane.values.values(), *lane.path.values(), lane.cloud, lane.spent)
        for array in arrays
    ) + sum(array.nbytes for array in lane.output.values())
    small = Runner(slots=1, kept_bytes=2.5 * one.bytes)
    jobs = [settled(small, small.submit(short(20).replaced(seed=seed))) for seed in range(4)]
    large = kept_of(small, small.submit(short(20).replaced(replicates=20)))
    assert large.bytes > 2.5 * one.bytes and large.task not in [job.task for job in small._kept.values()]
    assert sum(job.bytes for job in small._kept.values()) <= 2.5 * one.bytes
    assert settled(small, small.submit(jobs[0].task)) is not jobs[0] and small.submit(jobs[-1].task) is jobs[-1]
