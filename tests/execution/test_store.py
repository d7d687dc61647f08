"""Finished cells on disk: what comes back is what was kept, and whatever is wrong with the file, runs go on."""

import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpviz.datasets import UploadedTable
from dpviz.execution import store as stores
from dpviz.execution.increments import outcome_to_bytes
from dpviz.execution.store import Store, Stored, usual, versions
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.task import Cell, InThread, OnProgress, Outcome
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
    ((_, outcome),) = InThread().run([cell], threading.Event())
    return outcome


def numbers(outcome: Outcome) -> bytes:
    """Everything of an outcome but the time that it took."""
    assert outcome.trace is not None
    for lane in outcome.trace.lanes.values():
        lane.seconds = 0.0
    return outcome_to_bytes(replace(outcome, seconds=0.0))


class Counting:
    """Runs cells in this thread and notes which."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def run(
        self, cells: Sequence[Cell], stopping: threading.Event, on_progress: OnProgress | None = None
    ) -> Iterator[tuple[int, Outcome]]:
        for number, outcome in InThread().run(cells, stopping, on_progress):
            self.ran.append(cells[number].key)
            yield number, outcome


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Opens stores, by default all on the same file; they are closed after the test."""
    found: list[Store] = []

    def open_one(path: Path = tmp_path / "made" / "cells.sqlite", **options: int) -> Store:
        found.append(Store(path, **options))
        return found[-1]

    yield open_one
    for each in found:
        each.close()


@pytest.mark.parametrize("keep", ["all", "last"])
def test_what_comes_back_is_what_was_kept_and_only_its_owner_can_read_it(opened, keep: str) -> None:
    store, (cell, other) = opened(), cells(2, keep)
    outcome = replace(run(cell), left_out={"GD": "It does not work here."})
    assert store.get(cell) is None
    store.put(cell, outcome)
    found = opened().get(cell)  # another process, or another day
    assert found is not None and found.restored and outcome_to_bytes(found) == outcome_to_bytes(outcome)
    assert store.get(other) is None
    assert store.get(replace(cell, keep="all" if keep == "last" else "last")) is None
    assert store.note == ""
    if sys.platform != "win32":
        assert store.path.parent.stat().st_mode & 0o777 == 0o700 and store.path.stat().st_mode & 0o777 == 0o600


def test_other_versions_find_nothing_and_can_be_cleared(opened, monkeypatch: pytest.MonkeyPatch) -> None:
    store, (cell,) = opened(), cells(1)
    store.put(cell, run(cell))
    mine = versions()
    assert mine.startswith("dpviz 0") and f"numpy {np.__version__}" in mine
    monkeypatch.setattr(stores, "versions", lambda: mine.replace("numpy ", "numpy 9"))
    assert store.get(cell) is None
    store.put(cell, run(cell))
    assert (store.contents.cells, store.contents.others) == (1, 1)
    store.clear(others=True)
    assert (store.contents.cells, store.contents.others) == (1, 0) and store.get(cell) is not None
    monkeypatch.setattr(stores, "versions", lambda: mine)
    assert store.get(cell) is None and store.contents.others == 1
    store.clear()
    assert store.contents.cells == store.contents.others == 0


def test_the_code_counts_as_a_version_but_not_what_only_shows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("__init__.py", "ui/page.py", "problems/quadratic.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    monkeypatch.setattr("dpviz.__file__", str(tmp_path / "__init__.py"))
    fresh = versions.__wrapped__
    before = fresh()
    (tmp_path / "ui/page.py").write_text("changed = True")
    assert fresh() == before
    (tmp_path / "problems/quadratic.py").write_text("changed = True")
    assert (code := fresh()) != before
    (tmp_path / "problems/ranges.toml").write_text("changed = true")
    assert fresh() not in (before, code)


def test_nothing_of_anybodys_own_table_is_kept_or_found(opened) -> None:
    store, (public,) = opened(), cells(1)
    data = UploadedTable(identity="b" * 32, n=30, bounds=((0.0, 1.0),), names=("a",))
    own = Cell(EXPERIMENT.replaced(problem=LogisticRegression(data=data), seed=None))
    brought = replace(public, tables={"table": np.ones(3)})
    outcome = run(public)
    for cell in (own, brought):
        store.put(cell, outcome)
    assert store.contents.cells == 0
    store.put(public, outcome)
    assert store.get(brought) is None and store.get(public) is not None


@pytest.mark.parametrize("state", ["stopped", "timeout", "failed"])
def test_only_what_was_run_to_its_end_is_kept(opened, state: str) -> None:
    store, (cell,) = opened(), cells(1)
    store.put(cell, replace(run(cell), state=state))
    assert store.get(cell) is None and store.note == ""


def test_a_full_store_keeps_what_it_has_and_says_so_until_there_is_room(opened) -> None:
    store, (first, second) = opened(max_bytes=60_000), cells(2)
    large = run(Cell(EVEN_LARGER))
    store.put(first, run(first))
    store.put(second, large)
    assert "is full (0 MB)" in store.note and "python -m dpviz store --clear" in store.note
    assert store.get(second) is None and store.get(first) is not None
    store.clear()
    assert store.note == ""
    store.put(second, run(second))
    assert store.get(second) is not None and store.size < 60_000


def test_a_full_disk_is_said_and_forgotten_when_there_is_room_again(opened) -> None:
    store, (cell,) = opened(), cells(1)
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")  # what SQLite takes for a full disk
    store.put(cell, run(Cell(EVEN_LARGER)))
    assert "the disk is full" in store.note and "Everything works without" in store.note
    assert store.get(cell) is None
    store._connection.execute("PRAGMA max_page_count = 1000000")
    store.put(cell, run(cell))
    assert store.get(cell) is not None and store.note == ""


def test_a_folder_that_cannot_be_made_is_said_and_runs_go_on(opened, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store, (cell,) = opened(tmp_path / "file" / "cells.sqlite"), cells(1)
    assert "Finished runs are not kept" in store.note
    ((_, outcome),) = Stored(InThread(), store).run([cell], threading.Event())
    assert outcome.state == "done" and (store.get(cell), store.size, store.contents.cells) == (None, 0, 0)


def test_a_store_that_nobody_may_write_is_said(opened, monkeypatch: pytest.MonkeyPatch) -> None:
    store, (cell,) = opened(), cells(1)
    store._connection.execute("PRAGMA query_only = ON")  # refuses as a read-only file does, to root, too
    store.put(cell, run(cell))
    assert "the file cannot be written" in store.note


def test_who_waits_too_long_for_another_process_says_so(opened, monkeypatch: pytest.MonkeyPatch) -> None:
    store, other, (cell,) = opened(), opened(), cells(1)
    store._connection.execute("PRAGMA busy_timeout = 1")
    other._connection.execute("BEGIN IMMEDIATE")
    store.put(cell, run(cell))
    assert "another process holds the file" in store.note
    other._connection.execute("COMMIT")
    store.put(cell, run(cell))
    assert store.note == "" and other.get(cell) is not None


def test_a_damaged_cell_is_computed_again(opened) -> None:
    store, (cell, other) = opened(), cells(2)
    store.put(cell, run(cell))
    changes = (
        "body = zeroblob(length(body))",
        "body = 'text'",
        "checksum = NULL",
        "(checksum, body) = (SELECT checksum, body FROM cells_1 WHERE key <> '{key}')",  # sound, but of another cell
    )
    for change in changes:
        store.put(other, run(other))
        store._connection.execute(f"UPDATE cells_1 SET {change} WHERE key = '{cell.key}'".format(key=cell.key))
        assert store.get(cell) is None
    assert store.note == "Some of the finished runs that were kept are damaged; they are computed again."
    store.put(cell, run(cell))
    assert store.get(cell) is not None and store.contents.cells == 2


@pytest.mark.parametrize("content", [b"no database at all", b"SQLite format 3\0" + b"\x55" * 5_000])
def test_a_damaged_file_is_put_aside_and_a_new_one_begun(opened, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cells.sqlite"
    path.write_bytes(content)
    store, (cell,) = opened(path), cells(1)
    (aside,) = tmp_path.glob("cells.sqlite.damaged-*")
    assert aside.read_bytes() == content and aside.name in store.note
    store.put(cell, run(cell))
    assert store.get(cell) is not None and opened(path).note == ""


def test_damage_that_shows_while_it_is_open_is_put_aside_once_by_whoever_meets_it(opened) -> None:
    first, second, (cell, other) = opened(), opened(), cells(2)
    first.put(cell, run(cell))
    with sqlite3.connect(first.path) as third:  # whose change makes the others read the file again
        third.execute("PRAGMA user_version = 7")
        third.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    third.close()
    with first.path.open("r+b") as file:  # under the feet of both
        file.write(b"\x55" * first.path.stat().st_size)
    assert first.get(cell) is None and second.get(cell) is None
    first.put(cell, run(cell))
    second.put(other, run(other))
    assert first.get(other) is not None and second.get(cell) is not None
    aside = {path.name.removesuffix("-wal").removesuffix("-shm") for path in first.path.parent.glob("*.damaged-*")}
    assert len(aside) == 1


def test_a_crash_is_followed_by_a_check(opened, monkeypatch: pytest.MonkeyPatch) -> None:
    store, many = opened(), cells(40)
    outcome = run(Cell(EVEN_LARGER))
    for cell in many:
        store.put(cell, outcome)
    path, copy = store.path, store.path.with_name("copy.sqlite")
    store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    pages = bytearray(path.read_bytes())
    pages[8 * 4096 : 9 * 4096] = b"\x55" * 4096
    copy.write_bytes(pages)
    assert opened(copy).note == ""  # closed in order, so nothing is read that is not asked for
    assert list(copy.parent.glob("copy.sqlite.damaged-*")) == []
    opened(copy).put(cells(41)[-1], outcome)  # two of them have it open: a log lies beside it, as after a kill
    assert "was damaged" in opened(copy).note


@pytest.mark.parametrize("name", ["thesis.txt", "places.sqlite"])
def test_what_is_not_ours_is_left_alone(opened, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if path.suffix == ".sqlite":
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE places (url TEXT)")
        connection.close()
    else:
        path.write_text("Chapter 1. " * 100)
    before = path.read_bytes()
    store, (cell,) = opened(path), cells(1)
    store.put(cell, run(cell))
    assert "Finished runs are not kept" in store.note and path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == [name]


def test_another_layout_of_another_version_stays_beside_ours(opened) -> None:
    path, (cell,) = opened().path, cells(1)
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE cells_1 RENAME TO cells_0")
    connection.close()
    store = opened()
    store.put(cell, run(cell))
    assert store.get(cell) is not None and store.note == ""
    assert store._connection.execute("SELECT count(*) FROM cells_0").fetchone() == (0,)


def test_two_writers_at_once_lose_nothing(opened) -> None:
    outcome, many = run(cells(1)[0]), cells(60)
    writers = [opened(), opened()]

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
    assert writers[1].contents.cells == 60 and all(store.note == "" for store in writers)


def test_an_executor_with_a_store_computes_what_is_missing_and_tells_who_listens(opened) -> None:
    store, many, counting = opened(), cells(5), Counting()
    expected = dict(InThread().run(many, threading.Event()))
    for number in (1, 3):
        store.put(many[number], expected[number])
    told: dict[int, float] = {}
    executor = Stored(counting, store)
    found = dict(executor.run(many, threading.Event(), lambda number, trace, progress: told.update({number: progress})))
    assert counting.ran == [many[number].key for number in (0, 2, 4)]
    assert {number: numbers(outcome) for number, outcome in found.items()} == {
        number: numbers(outcome) for number, outcome in expected.items()
    }
    assert told == dict.fromkeys(range(5), 1.0)
    assert [number for number, _ in executor.run(many, threading.Event())] == list(range(5))
    assert len(counting.ran) == 3  # all of it was known


def test_a_stop_looks_nothing_up_and_keeps_nothing_that_is_not_finished(opened) -> None:
    store, many, stopping = opened(), cells(3), threading.Event()
    for number in (0, 2):
        store.put(many[number], run(many[number]))
    outcomes = Stored(InThread(), store).run(many, stopping)
    assert next(outcomes)[1].restored
    stopping.set()
    assert [outcome.state for _, outcome in outcomes] == ["stopped", "stopped"]
    assert store.contents.cells == 2


def test_the_usual_store_is_in_the_cache_of_the_user_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def path_of(found: Store | None) -> Path:
        assert found is not None
        found.close()
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
        assert path_of(usual()) == tmp_path / folder / "cells.sqlite"
    monkeypatch.setenv("DPVIZ_STORE", str(tmp_path / "chosen.sqlite"))
    assert path_of(usual()) == tmp_path / "chosen.sqlite"
    assert path_of(usual(str(tmp_path / "other.sqlite"))) == tmp_path / "other.sqlite"
    monkeypatch.setenv("DPVIZ_STORE", "off")
    assert usual() is None and usual("OFF") is None
