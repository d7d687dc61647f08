"""Finished cells on disk: what comes back is what was kept, and whatever is wrong with the folder, runs go on."""

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import NoReturn

import numpy as np
import pytest

from dpviz.datasets import UploadedTable
from dpviz.execution import store as stores
from dpviz.execution.increments import outcome_to_bytes
from dpviz.execution.store import Store, StoringExecutor, configured_store, versions
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.task import Cell, OnProgress, Outcome, SerialExecutor
from dpviz.families.accelerated import Nesterov
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic

EXPERIMENT = Experiment(
    problem=Quadratic(rows=100, dimension=2), arms=(Arm(label="NAG", algorithm=Nesterov(iterations=5)),), replicates=2
)
EVEN_LARGER = EXPERIMENT.replaced(arms=(Arm(label="NAG", algorithm=Nesterov(iterations=300)),), replicates=20)


def cells(count: int, keep: str = "last") -> list[Cell]:
    return [Cell(EXPERIMENT.replaced(seed=number), keep=keep) for number in range(count)]


def run(cell: Cell) -> Outcome:
    ((_, outcome),) = SerialExecutor().run([cell], threading.Event())
    return outcome


def numbers(outcome: Outcome) -> bytes:
    """Everything of an outcome but the time that it took."""
    assert outcome.trace is not None
    for lane in outcome.trace.arm_traces.values():
        lane.seconds = 0.0
    return outcome_to_bytes(replace(outcome, seconds=0.0))


class Counting:
    """Runs cells in this thread and notes which."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def run(
        self, cells: Sequence[Cell], stopping: threading.Event, on_progress: OnProgress | None = None
    ) -> Iterator[tuple[int, Outcome]]:
        for number, outcome in SerialExecutor().run(cells, stopping, on_progress):
            self.ran.append(cells[number].key)
            yield number, outcome


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "made" / "cells")


def kept(store: Store) -> list[Path]:
    """The files of all cells."""
    return sorted(store.path.glob("*/*"))


@pytest.mark.parametrize("keep", ["all", "last"])
def test_what_comes_back_is_what_was_kept_and_only_its_owner_can_read_it(store: Store, keep: str) -> None:
    cell, other = cells(2, keep)
    outcome = replace(run(cell), left_out={"GD": "It does not work here."})
    assert store.get(cell) is None
    store.put(cell, outcome)
    found = Store(store.path).get(cell)  # another process, or another day
    assert found is not None and found.restored and outcome_to_bytes(found) == outcome_to_bytes(outcome)
    assert store.get(other) is None
    assert store.get(replace(cell, keep="all" if keep == "last" else "last")) is None
    assert store.note == ""
    if sys.platform != "win32":
        (file,) = kept(store)
        assert file.parent.stat().st_mode & 0o777 == 0o700 and file.stat().st_mode & 0o777 == 0o600


def test_other_versions_find_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    (cell,) = cells(1)
    store.put(cell, run(cell))
    current = versions()
    assert current.startswith("dpviz-0")
    assert f"-numpy-{np.__version__}-scipy-" in current and "-scikit-learn-" in current
    monkeypatch.setattr(stores, "versions", lambda: current.replace("scipy-", "scipy-9"))
    assert store.get(cell) is None
    store.put(cell, run(cell))
    assert len(kept(store)) == 2


def test_the_code_counts_as_a_version_but_not_what_only_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("__init__.py", "ui/page.py", "problems/quadratic.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    monkeypatch.setattr(stores, "__file__", str(tmp_path / "execution/store.py"))
    fresh = versions.__wrapped__
    before = fresh()
    monkeypatch.setattr(stores, "versions", cache(fresh))
    Store(tmp_path / "cells")  # of a process that has imported this code, and runs it to its end
    (tmp_path / "ui/page.py").write_text("changed = True")
    assert fresh() == before
    (tmp_path / "problems/quadratic.py").write_text("changed = True")
    assert (code := fresh()) != before
    (tmp_path / "problems/ranges.toml").write_text("changed = true")
    assert fresh() not in (before, code) and stores.versions() == before


def test_nothing_of_a_users_own_table_is_kept_or_found(store: Store) -> None:
    (public,) = cells(1)
    data = UploadedTable(identity="b" * 32, n=30, bounds=((0.0, 1.0),), names=("a",))
    own = Cell(EXPERIMENT.replaced(problem=LogisticRegression(data=data), seed=None))
    brought = replace(public, tables={"table": np.ones(3)})
    outcome = run(public)
    for cell in (own, brought):
        store.put(cell, outcome)
    assert kept(store) == []
    store.put(public, outcome)
    assert store.get(brought) is None and store.get(public) is not None


def test_nothing_that_code_of_the_users_computes_is_kept(store: Store) -> None:
    class Changed(Nesterov):
        kind = "mine.changed"

    cell, foreign = (Cell(EXPERIMENT.replaced(arms=(Arm("A", cls(iterations=5)),))) for cls in (Nesterov, Changed))
    assert cell.storable and foreign.repeatable
    store.put(foreign, run(foreign))
    assert kept(store) == []
    store.put(cell, run(cell))
    assert store.get(cell) is not None and store.get(foreign) is None


@pytest.mark.parametrize("state", ["stopped", "timeout", "failed"])
def test_only_what_was_run_to_its_end_is_kept(store: Store, state: str) -> None:
    (cell,) = cells(1)
    store.put(cell, replace(run(cell), state=state))
    assert store.get(cell) is None and store.note == ""


def test_a_full_store_makes_room_of_other_versions_and_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, (first, second, third) = Store(tmp_path, max_bytes=20_000), cells(3)
    for folder, name in (("dpviz-0.0.9-numpy-1", "old"), ("thesis", "chapter")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_bytes(bytes(4_000))
    store.put(first, run(first))
    assert len(kept(store)) == 3 and store.note == ""
    store.put(second, replace(run(second), message="x" * 12_000))
    assert store.get(second) is not None and {file.name for file in kept(store)} & {"old", "chapter"} == {"chapter"}
    store.put(third, run(Cell(EVEN_LARGER)))
    assert "is full" in store.note and store.get(third) is None and store.get(first) is not None
    rmtree(tmp_path)
    store.put(third, run(third))
    assert store.get(third) is not None and store.note == ""


@pytest.mark.parametrize("name", ["file", "file/cells"])
def test_a_folder_that_cannot_be_made_is_said_and_runs_go_on(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("Chapter 1")
    store, (cell,) = Store(tmp_path / name), cells(1)
    ((_, outcome),) = StoringExecutor(SerialExecutor(), store).run([cell], threading.Event())
    assert outcome.state == "done" and store.get(cell) is None and "Finished runs are not kept" in store.note
    assert (tmp_path / "file").read_text() == "Chapter 1"


def test_a_full_disk_is_said_and_forgotten_when_there_is_room_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(28, "No space left on device")

    (cell,) = cells(1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        store.put(cell, run(cell))
    assert "No space left on device" in store.note and kept(store) == [] and not store.keeps(cell)
    store.put(cell, run(cell))
    assert store.get(cell) is not None and store.note == ""


def test_a_damaged_cell_is_computed_again(store: Store) -> None:
    cell, other = cells(2)
    for each in (cell, other):
        store.put(each, run(each))
    by_name = {file.name: file for file in kept(store)}
    file = by_name.pop(sha256(cell.key.encode()).hexdigest())
    content, (foreign,) = file.read_bytes(), (file.read_bytes() for file in by_name.values())
    damaged = (b"", content[:-1], content[:40] + b"\x55" + content[41:], foreign)  # the last is sound, but of another
    for wrong in damaged:
        store._damaged = ""
        file.write_bytes(wrong)
        assert store.get(cell) is None and "damaged" in store.note and store.keeps(cell)
    store.put(cell, run(cell))
    assert store.get(cell) is not None


def test_two_writers_at_once_lose_nothing(store: Store) -> None:
    outcome, many = run(cells(1)[0]), cells(60)
    writers = [store, Store(store.path)]

    def write(store: Store, mine: list[Cell]) -> None:
        for cell in mine:
            store.put(cell, outcome)

    parts = [(writers[0], many[::2]), (writers[1], many[1::2]), (writers[0], many[:10])]  # one store in two threads
    threads = [threading.Thread(target=write, args=part) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(writers[0].get(cell) is not None for cell in many)
    assert len(kept(store)) == 60 and all(store.note == "" for store in writers)


def test_an_executor_with_a_store_computes_what_is_missing_and_tells_who_listens(store: Store) -> None:
    many, counting = cells(5), Counting()
    expected = dict(SerialExecutor().run(many, threading.Event()))
    for number in (1, 3):
        store.put(many[number], expected[number])
    told: dict[int, float] = {}
    executor = StoringExecutor(counting, store)
    found = dict(executor.run(many, threading.Event(), lambda number, trace, progress: told.update({number: progress})))
    assert counting.ran == [many[number].key for number in (0, 2, 4)]
    assert {number: numbers(outcome) for number, outcome in found.items()} == {
        number: numbers(outcome) for number, outcome in expected.items()
    }
    assert told == dict.fromkeys(range(5), 1.0)
    assert [number for number, _ in executor.run(many, threading.Event())] == list(range(5))
    assert len(counting.ran) == 3  # all of it was known


def test_a_stop_looks_nothing_up_and_keeps_nothing_that_is_not_finished(store: Store) -> None:
    many, stopping = cells(3), threading.Event()
    for number in (0, 2):
        store.put(many[number], run(many[number]))
    outcomes = StoringExecutor(SerialExecutor(), store).run(many, stopping)
    assert next(outcomes)[1].restored
    stopping.set()
    assert [outcome.state for _, outcome in outcomes] == ["stopped", "stopped"]
    assert len(kept(store)) == 2


def test_the_usual_store_is_in_the_cache_of_the_user_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def path_of(found: Store | None) -> Path:
        assert found is not None
        return found.path

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "windows"))
    monkeypatch.delenv("DPVIZ_STORE", raising=False)
    for platform, folder in (
        ("linux", "cache/dpviz"),
        ("darwin", "home/Library/Caches/dpviz"),
        ("win32", "windows/dpviz/Cache"),
    ):
        monkeypatch.setattr(sys, "platform", platform)
        assert path_of(configured_store()) == tmp_path / folder / "cells"
    monkeypatch.setenv("DPVIZ_STORE", str(tmp_path / "chosen"))
    assert path_of(configured_store()) == tmp_path / "chosen"
    assert path_of(configured_store(str(tmp_path / "other"))) == tmp_path / "other"
    monkeypatch.setenv("DPVIZ_STORE", "off")
    assert configured_store() is None and configured_store("OFF") is None
