"""Cells on a Dask cluster: a real scheduler and real workers, on this machine."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from distributed import Client

from dpviz.datasets.synthetic import UniformLogistic
from dpviz.errors import UserError
from dpviz.execution import cluster
from dpviz.execution.cluster import UPLOADS, Cluster
from dpviz.execution.increments import outcome_from_bytes
from dpviz.execution.store import versions
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.task import Cell, Outcome, SerialExecutor
from dpviz.families.accelerated import GradientDescent, Nesterov
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from tests.waiting import until

ROOT = Path(__file__).parents[2]
SECONDS = 60.0  # patience with a machine that runs other tests at the same time
TOLD = 10.0  # seconds within which a user is to be told that nobody is there


def cells(number: int, iterations: int = 20) -> list[Cell]:
    arms = (
        Arm(label="GD", algorithm=GradientDescent(iterations=iterations)),
        Arm(label="NAG", algorithm=Nesterov(iterations=iterations)),
    )
    experiment = Experiment(problem=Quadratic(), arms=arms, replicates=3)
    return [Cell(experiment.replaced(seed=seed), keep="last") for seed in range(number)]


def endless(number: int) -> list[Cell]:
    """Cells that take minutes."""
    data = LogisticRegression(data=UniformLogistic(rows=100_000))
    return [
        replace(cell, experiment=cell.experiment.replaced(problem=data))
        for cell in cells(number, iterations=5_000)
        if isinstance(cell.experiment, Experiment)
    ]


class Machines:
    """A scheduler and its workers, each a process of its own on this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        place = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(place))
        until(place.exists)
        until(lambda: '"tcp://' in place.read_text())
        self.address = next(part for part in place.read_text().split('"') if part.startswith("tcp://"))
        self.workers: list[subprocess.Popen[bytes]] = []

    def with_workers(self, number: int) -> Cluster:
        """See that so many are there."""
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        for _ in range(number - len(self.workers)):
            folder = ("--local-directory", str(self._folder))
            self.workers.append(self._start("worker", self.address, "--no-nanny", "--nthreads", "1", *folder))
        with Client(self.address, set_as_default=False) as client:
            until(lambda: len(client.nthreads()) == number)
        return Cluster(self.address)

    def kill(self, number: int) -> None:
        for worker in self.workers[:number]:
            worker.kill()
            worker.wait()

    def end(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()

    def _start(self, role: str, *options: str) -> "subprocess.Popen[bytes]":
        program = [sys.executable, "-m", f"distributed.cli.dask_{role}", *options, "--no-dashboard"]
        with (self._folder / f"{role}.log").open("ab") as log:
            return subprocess.Popen(program, env=self._environment, stdout=log, stderr=log)


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    machines = Machines(tmp_path_factory.mktemp("cluster"))
    yield machines
    machines.end()


def numbers(outcome: Outcome) -> dict[tuple[str, str], list[bytes]]:
    assert outcome.trace is not None
    return {
        (label, name): [np.asarray(row).tobytes() for row in rows]
        for label, lane in outcome.trace.arm_traces.items()
        for name, rows in lane.values.items()
    }


@pytest.mark.slow
def test_a_cluster_finds_what_a_thread_finds_bit_by_bit_and_a_dead_worker_loses_nothing(machines: Machines) -> None:
    here, told = cells(12), []
    found: dict[int, Outcome] = {}
    for number, outcome in machines.with_workers(2).run(here, threading.Event(), lambda *news: told.append(news[0])):
        if not found:
            machines.kill(1)
        assert number not in found and outcome.state == "done"
        found[number] = outcome
    assert sorted(found) == sorted(told) == list(range(12))
    for number, outcome in SerialExecutor().run(here, threading.Event()):
        assert numbers(found[number]) == numbers(outcome)


@pytest.mark.slow
def test_a_stop_ends_what_is_under_way_and_frees_the_worker(machines: Machines) -> None:
    """One worker with one thread: it can run another cell only when it has left the one that takes minutes."""
    one, stopping = machines.with_workers(1), threading.Event()
    with ThreadPoolExecutor(1) as pool, Client(machines.address, set_as_default=False) as client:
        running = pool.submit(lambda: [outcome for _, outcome in one.run(endless(2), stopping)])
        until(lambda: any(client.processing().values()))
        stopping.set()
        assert running.result(SECONDS) == [Outcome("stopped")] * 2
    assert [outcome.state for _, outcome in one.run(cells(1), threading.Event())] == ["done"]


@pytest.mark.slow
@pytest.mark.parametrize("who", ["workers", "scheduler"])
def test_a_user_is_told_soon_that_nobody_is_there(
    machines: Machines, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in the middle of a run: what was found until then is kept, the others say why they were not."""
    if who == "scheduler":
        monkeypatch.setattr(cluster, "PATIENCE", 2.0)
    outcomes = machines.with_workers(1).run([*cells(1), *endless(2)], threading.Event())
    assert next(outcomes)[1].state == "done"
    machines.kill(1)
    if who == "scheduler":
        machines.end()
    began = time.monotonic()
    messages = {outcome.message for _, outcome in outcomes if outcome.state == "failed"}
    assert time.monotonic() - began < TOLD
    reason = {
        "workers": "The cluster at {} has no worker. ",
        "scheduler": "The connection to the cluster at {} was lost. ",
    }
    (message,) = messages
    assert message.startswith(reason[who].format(machines.address))


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer_is_named_within_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 0.5)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        found = [outcome.message for _, outcome in Cluster(address).run(cells(2), threading.Event())]
        assert time.monotonic() - began < TOLD
    assert found == [f"No Dask scheduler answers at {address}. Check the address, or run without it."] * 2


def test_nobodys_own_table_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster._Session, "outcomes", lambda session: pytest.fail("connects"))
    mine = [Cell(cell.experiment, {"rows": np.ones(3)}) for cell in cells(2)]
    found = list(Cluster("tcp://127.0.0.1:8786").run(mine, threading.Event()))
    assert found == [(0, Outcome("failed", UPLOADS)), (1, Outcome("failed", UPLOADS))]


def test_another_version_on_a_worker_is_refused_with_a_sentence() -> None:
    (cell,) = cells(1)
    outcome = outcome_from_bytes(cluster.work(cell.text, "last", "dpviz 0.0.1, numpy 1.0"))
    assert outcome.state == "failed" and outcome.trace is None
    assert "dpviz 0.0.1, numpy 1.0" in outcome.message and "Install the same versions" in outcome.message


def test_a_class_that_a_worker_does_not_know_is_a_sentence() -> None:
    (cell,) = cells(1)
    mine = cell.text.replace("families.accelerated.gradient_descent", "mine.elsewhere")
    outcome = outcome_from_bytes(cluster.work(mine, "last", versions()))
    assert outcome.state == "failed" and "mine.elsewhere" in outcome.message and "DPVIZ_MODULES" in outcome.message


@pytest.mark.parametrize(
    "address", ["", "cluster", "http://a:1", "tcp://a", "tcp://a:1/x", "tcp://a b:1", "inproc://a"]
)
def test_what_is_no_address_is_refused_with_the_form_of_one(address: str) -> None:
    with pytest.raises(UserError, match="tcp://host:8786"):
        Cluster(address)
    Cluster("tls://[::1]:8786")
