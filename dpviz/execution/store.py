"""Finished cells on disk, in SQLite: what was computed once, on this machine, is not computed again.

What another run would only repeat is kept, nothing of anybody's own table. Several processes may share a file. Whatever
is wrong with it, runs go on, and the store says what is wrong.
"""

import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import numpy as np

import dpviz
from dpviz.execution.increments import outcome_from_bytes, outcome_to_bytes
from dpviz.experiments.task import Cell, Executor, OnProgress, Outcome, Stopping
from dpviz.experiments.trace import Trace

VARIABLE, OFF = "DPVIZ_STORE", "off"
MAX_BYTES = 1_000_000_000
PATIENCE = 5.0  # seconds to wait for another process that writes
SUFFIX = ".sqlite"  # a damaged file is put aside, but not one that may never have been ours
_APPLICATION = 0x6470767A  # "dpvz": written into the file, so that nobody else's is touched
_SHOWS = ("ui", "cli", "plots")  # packages that compute no result
_COMPUTES = (".py", ".toml", ".npy")  # files that results may depend on
# Another layout would be another table.
_TABLE = "CREATE TABLE cells_1 (key TEXT, versions TEXT, checksum BLOB, body BLOB, PRIMARY KEY (key, versions))"
_REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "the file cannot be written",
    sqlite3.SQLITE_IOERR: "the disk is full or does not work",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_BUSY: "another process holds the file",
}
Found = TypeVar("Found")


@dataclass(frozen=True)
class Contents:
    """What a store holds: cells that can be found again, and those of other versions, which cannot."""

    cells: int
    others: int


class Store:
    """Finished cells in a file, found by their key and the versions of what computed them. Never raises.

    path : of the file; it is made, with its folder, if need be. max_bytes : what it may grow to. When it is full,
    nothing more is kept, and what it holds stays: see `note` and `clear`.

    A damaged file is put aside under another name, a damaged cell is computed again.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self.path, self.max_bytes = path, max_bytes
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None  # device and inode of the file that is open
        self._past: dict[str, None] = {}  # what happened, in sentences
        self._now = ""  # what is wrong, until something has been kept again
        with self._lock:
            self._open()

    @property
    def note(self) -> str:
        """What a user should know of it, in sentences; empty if all is well."""
        return " ".join(filter(None, (*self._past, self._now)))

    @property
    def size(self) -> int:
        """What it holds, in bytes, the file's own structure included."""
        return self._tried(_size, 0)

    @property
    def contents(self) -> Contents:
        """What it holds, in numbers."""
        query = "SELECT count(*) FROM cells_1 WHERE versions {} ?"

        def read(connection: sqlite3.Connection) -> Contents:
            return Contents(
                *(connection.execute(query.format(sign), (versions(),)).fetchone()[0] for sign in ("=", "<>"))
            )

        return self._tried(read, Contents(0, 0))

    def get(self, cell: Cell) -> Outcome | None:
        """What was found when this cell was run before, `restored`; None if it was not, and for anybody's own table."""
        if not cell.repeatable:
            return None
        names = (cell.key, versions())
        query = "SELECT checksum, body FROM cells_1 WHERE key = ? AND versions = ?"
        row = self._tried(lambda connection: connection.execute(query, names).fetchone(), None)
        if row is None:
            return None
        try:
            if row[0] != _checksum(*names, row[1]):
                raise ValueError("not what was written")
            return replace(outcome_from_bytes(row[1]), restored=True)
        except (TypeError, ValueError):
            self._past["Some of the finished runs that were kept are damaged; they are computed again."] = None
            return None

    def put(self, cell: Cell, outcome: Outcome) -> None:
        """Keep the outcome of a cell that has been run to its end, unless it is of anybody's own table."""
        if outcome.state != "done" or not cell.repeatable:
            return
        key, body = cell.key, outcome_to_bytes(outcome)
        row = (key, versions(), _checksum(key, versions(), body), body)

        def write(connection: sqlite3.Connection) -> bool:
            with _transaction(connection):
                room = _size(connection) + len(body) <= self.max_bytes
                if room:
                    connection.execute("INSERT OR REPLACE INTO cells_1 VALUES (?, ?, ?, ?)", row)
                return room

        room = self._tried(write, None)
        if room is not None:  # else it has been said what is wrong
            self._now = "" if room else _full(self.max_bytes)

    def clear(self, others: bool = False) -> None:
        """Forget everything, or only what `others`, versions that are not the ones of now, have computed."""

        def delete(connection: sqlite3.Connection) -> bool:
            with _transaction(connection):
                connection.execute(f"DELETE FROM cells_1{' WHERE versions <> ?' if others else ''}", names)
            connection.execute("VACUUM")
            return True

        names = (versions(),) if others else ()
        if self._tried(delete, False):
            self._now = ""

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _tried(self, act: Callable[[sqlite3.Connection], Found], otherwise: Found) -> Found:
        """What `act` does with the file, or `otherwise` if that fails; then it is said why."""
        with self._lock:
            if self._connection is None:
                return otherwise
            try:
                return act(self._connection)
            except sqlite3.Error as error:
                self._failed(error)
                return otherwise

    def _open(self, again: bool = False) -> None:
        try:
            self._file = _identity(_made(self.path))
            self._connection = _connected(self.path)
        except (OSError, sqlite3.Error, _NotOurs) as error:
            self._failed(error, again)

    def _failed(self, error: Exception, again: bool = False) -> None:
        """Say why the file does not work; if it is damaged, put it aside and begin another one."""
        unknown = sqlite3.SQLITE_CANTOPEN if isinstance(error, OSError) else sqlite3.SQLITE_ERROR
        code = vars(error).get("sqlite_errorcode", unknown) & 0xFF  # the kind, without its details
        reason = str(error) if isinstance(error, _NotOurs) else _REASONS.get(code, str(error))
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            if not again and self._put_aside():
                self._open(again=True)
                return
            reason = f"{self.path.name} is damaged, or not a file of this store"
        self._now = (
            f"Finished runs are not kept, because {reason}. Everything works without; a run that is repeated is "
            "computed again."
        )

    def _put_aside(self) -> bool:
        """Give the damaged file another name, unless another process has done so. Whether a new one can be begun."""
        if self.path.suffix != SUFFIX:
            return False
        if _identity(self.path) != self._file:
            return True
        aside = f"{self.path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{uuid4().hex[:8]}"
        try:
            for part in ("-wal", "-shm", ""):
                with suppress(FileNotFoundError):
                    Path(f"{self.path}{part}").rename(self.path.with_name(aside + part))
        except OSError:
            return False
        self._past[f"The store of finished runs was damaged. It was put aside as {aside}, and a new one begun."] = None
        return True


@dataclass(frozen=True)
class Stored:
    """An executor that looks into a store first, and keeps every cell there as soon as it is finished.

    A sweep that is killed in the middle loses the cells that were under way, and a repeated one computes nothing.
    """

    executor: Executor
    store: Store

    def run(
        self, cells: Sequence[Cell], stopping: Stopping, on_progress: OnProgress | None = None
    ) -> Iterator[tuple[int, Outcome]]:
        """As `Executor.run`: first the cells that are known, in their order, then the others as they end."""
        missing = []
        for number, cell in enumerate(cells):
            known = None if stopping.is_set() else self.store.get(cell)
            if known is None:
                missing.append(number)
                continue
            if on_progress is not None:
                on_progress(number, known.trace, 1.0)
            yield number, known

        def hear(place: int, trace: Trace | None, progress: float) -> None:
            if on_progress is not None:
                on_progress(missing[place], trace, progress)

        rest = [cells[number] for number in missing]
        for place, outcome in self.executor.run(rest, stopping, None if on_progress is None else hear):
            self.store.put(cells[missing[place]], outcome)
            yield missing[place], outcome


def usual(setting: str = "") -> Store | None:
    """The store that is asked for by `setting`, or else by the variable DPVIZ_STORE: a path, or "off" for none.

    Without either it is a file in the cache folder of this user, which nobody else may read; none without a home.
    """
    asked = setting or os.environ.get(VARIABLE, "")
    if asked.lower() == OFF:
        return None
    try:
        return Store(Path(asked).expanduser() if asked else _cache_folder() / f"cells{SUFFIX}")
    except RuntimeError:  # a user without an entry, as in some containers
        return None


@cache
def versions() -> str:
    """What numbers depend on beside the settings: the versions of dpviz and NumPy, and dpviz' code and data as of now.

    These count, because a checkout changes between two versions.
    """
    root, code = Path(dpviz.__file__).parent, sha256()
    for path in sorted(path for path in root.rglob("*") if path.suffix in _COMPUTES):
        if path.relative_to(root).parts[0] not in _SHOWS:
            code.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"dpviz {dpviz.__version__} {code.hexdigest()[:16]}, numpy {np.__version__}"


def _cache_folder() -> Path:
    """Where this platform keeps what programs can make again."""
    home = Path("~").expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "dpviz" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "dpviz"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "dpviz"


def _made(path: Path) -> Path:
    """The path, where there is a file now that only this user may read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    return path


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from another one with its name; None without a file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _connected(path: Path) -> sqlite3.Connection:
    """The file, open, with its table. Raises sqlite3.Error if it is damaged or not ours."""
    log = Path(f"{path}-wal")
    unfinished = log.exists() and log.stat().st_size > 0  # who wrote last has not closed it: still there, or killed
    connection = sqlite3.connect(path, PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA synchronous = NORMAL")  # what is written survives a killed process
        _begun(connection)
        if unfinished and connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise _damaged()
    except BaseException:
        connection.close()
        raise
    return connection


def _begun(connection: sqlite3.Connection) -> None:
    """See that the file is ours, make the table if it is new, and let many read while one writes."""
    with _transaction(connection):
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if application != _APPLICATION and tables:
            raise _NotOurs("another program has made the file")
        if "cells_1" not in tables:
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(_TABLE)
    with suppress(sqlite3.OperationalError):  # where that cannot be, as on a network drive, they take turns
        connection.execute("PRAGMA journal_mode = WAL")


class _NotOurs(Exception):
    """A database, but not a store."""


def _damaged() -> sqlite3.DatabaseError:
    """What SQLite itself raises where it meets damage."""
    error = sqlite3.DatabaseError("the check has found damage")
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing, and nobody else writes meanwhile."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # a full disk has rolled it back already
            connection.execute("ROLLBACK")
        raise


def _size(connection: sqlite3.Connection) -> int:
    pages, free, bytes_each = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * bytes_each)


def _checksum(key: str, computed_by: str, body: bytes) -> bytes:
    return sha256(f"{key}\n{computed_by}\n".encode() + body).digest()


def _full(max_bytes: int) -> str:
    return (
        f"The store of finished runs is full ({max_bytes / 1e6:,.0f} MB), so nothing more is kept. Everything works "
        "without; to make room, run: python -m dpviz store --clear"
    )
