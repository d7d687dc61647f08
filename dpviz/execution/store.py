"""Finished cells on disk, so that no cell is computed twice on a machine.

Only cells that another run would repeat exactly are kept, none with a visitor's table. Each cell is a file of its own
in a folder of the versions that computed it, so that several processes may share a store.
"""

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shutil import rmtree
from tempfile import NamedTemporaryFile

from dpviz.execution.increments import outcome_from_bytes, outcome_to_bytes
from dpviz.experiments.task import Cell, Executor, OnProgress, Outcome, StopSignal
from dpviz.experiments.trace import Trace
from dpviz.resources import data_file
from dpviz.version import VERSION

VARIABLE, OFF = "DPVIZ_STORE", "off"  # the variable with the path of the store, and its value for none
MAX_BYTES = 1_000_000_000
_VERSION = "dpviz-"  # prefix of the folders of versions
_WITHOUT_RESULTS = ("ui", "cli", "plots")  # packages on which no result depends
_SUFFIXES = (".py", ".toml", ".npy", ".parquet")  # endings of the files that results may depend on


class Store:
    """Finished cells in a folder, by their key and the versions that computed them. Never raises.

    path : the folder, which is created if need be; only this user may read it.
    max_bytes : the largest size of the folder. When it is full, the cells of other versions are deleted; if that is not
        enough, no further cell is kept.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self.path, self.max_bytes = path, max_bytes
        self._lock = threading.Lock()
        self._size: int | None = None  # in bytes, as far as this process knows
        self._damaged = self._problem = ""  # sentences about cells that could not be read, and not be written
        versions()  # caches those of the code that is imported now: the files may change while this process runs

    @property
    def note(self) -> str:
        """Sentences about problems in reading or writing cells; empty if there were none."""
        return " ".join(filter(None, (self._damaged, self._problem)))

    def keeps(self, cell: Cell) -> bool:
        """Return true if a cell like this one is stored when it is finished, as far as is known so far."""
        return cell.storable and not self._problem

    def get(self, cell: Cell) -> Outcome | None:
        """Return the stored outcome of an earlier run of this cell, marked as `restored`.

        None if there is none, or for a cell that is never stored, as one with a visitor's table or a user's method.
        """
        if not cell.storable:
            return None
        try:
            content = self._file(cell).read_bytes()
            checksum, body = content[:32], content[32:]  # 32 bytes, as of `_checksum`
            if checksum != _checksum(cell, body):
                raise ValueError("not what was written")
            return replace(outcome_from_bytes(body), restored=True)
        except OSError:
            return None
        except ValueError:
            self._damaged = "Some of the finished runs that were kept are damaged; they are computed again."
            return None

    def put(self, cell: Cell, outcome: Outcome) -> None:
        """Store the outcome of a cell that was run to its end, unless another run might not repeat it exactly."""
        if outcome.state != "done" or not cell.storable:
            return
        body = outcome_to_bytes(outcome)
        try:
            with self._lock:
                self._write(self._file(cell), _checksum(cell, body) + body)
        except OSError as error:
            self._problem = f"Finished runs are not kept in {self.path}: {error.strerror or error}."

    def _write(self, file: Path, content: bytes) -> None:
        """Write the file of a cell, after deleting cells of other versions if the store is full."""
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Measured again before the store counts as full, since other processes delete cells, too.
        if self._size is None or self._size + len(content) > self.max_bytes:
            self._size = _size(self.path)
        if self._size + len(content) > self.max_bytes:
            for folder in self.path.glob(f"{_VERSION}*"):
                if folder != file.parent:
                    rmtree(folder, ignore_errors=True)
            self._size = _size(self.path)
        if self._size + len(content) > self.max_bytes:
            self._problem = f"{self.path} is full ({self.max_bytes / 1e6:,.0f} MB): delete it to make room."
            return
        # A temporary file, which only this user may read, takes its place in one piece: no reader sees a part of it.
        with NamedTemporaryFile(dir=file.parent, delete=False) as temporary:
            try:
                temporary.write(content)
                temporary.close()  # Windows does not move an open file
                os.replace(temporary.name, file)
            except OSError:
                Path(temporary.name).unlink(missing_ok=True)
                raise
        self._size += len(content)
        self._problem = ""

    def _file(self, cell: Cell) -> Path:
        return self.path / versions() / sha256(cell.key.encode()).hexdigest()


@dataclass(frozen=True)
class StoringExecutor:
    """An executor that reads finished cells from a store, lets another executor run the rest, and stores each of these.

    A sweep that is killed in the middle loses only the cells that were running, and a repeated sweep computes nothing.
    """

    executor: Executor
    store: Store

    def run(
        self, cells: Sequence[Cell], stopping: StopSignal, on_progress: OnProgress | None = None
    ) -> Iterator[tuple[int, Outcome]]:
        """Run the cells as `Executor.run` describes: yield the number and the outcome of each cell when it ends.

        The stored ones come first, in their order.
        """
        missing = []  # numbers of the cells that are not stored
        for number, cell in enumerate(cells):
            outcome = None if stopping.is_set() else self.store.get(cell)
            if outcome is None:
                missing.append(number)
                continue
            if on_progress is not None:
                on_progress(number, outcome.trace, 1.0)
            yield number, outcome

        def on_missing(index: int, trace: Trace | None, progress: float) -> None:
            if on_progress is not None:
                on_progress(missing[index], trace, progress)

        missing_cells = [cells[number] for number in missing]
        for index, outcome in self.executor.run(missing_cells, stopping, on_missing):
            self.store.put(cells[missing[index]], outcome)
            yield missing[index], outcome


def configured_store(setting: str = "") -> Store | None:
    """Return the store at the path `setting`, or else at that of the variable DPVIZ_STORE; None if that is "off".

    Without a path it is in the cache folder of this user; None for a user without a home folder.
    """
    setting = setting or os.environ.get(VARIABLE, "")
    if setting.lower() == OFF:
        return None
    try:
        return Store(Path(setting).expanduser() if setting else _cache_folder() / "cells")
    except RuntimeError:  # the user has no home folder, as in some containers
        return None


@cache
def versions() -> str:
    """Return the versions of dpviz and the libraries that numbers depend on, and a hash of its own code and data.

    The hash tells apart two states of a checkout with the same version.
    """
    package, data = Path(__file__).parents[1], data_file("digits.parquet").parent
    code_hash = sha256()
    for folder in (package, data):
        for path in sorted(path for path in folder.rglob("*") if path.suffix in _SUFFIXES):
            name = path.relative_to(folder)
            if name.parts[0] not in _WITHOUT_RESULTS:
                code_hash.update(name.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    libraries = []
    for library in ("numpy", "scipy", "scikit-learn"):
        with suppress(PackageNotFoundError):  # without the extra `app` there is no scikit-learn
            libraries.append(f"-{library}-{version(library)}")
    return f"{_VERSION}{VERSION}-{code_hash.hexdigest()[:16]}{''.join(libraries)}"


def _cache_folder() -> Path:
    """Return the folder of dpviz among this user's caches, i.e. for files that can be created again."""
    home = Path("~").expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "dpviz" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "dpviz"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "dpviz"


def _size(folder: Path) -> int:
    """Return the size of all cells' files in the store's folder, in bytes."""
    total = 0
    for file in folder.glob("*/*"):
        with suppress(FileNotFoundError):  # another process may have deleted it
            total += file.stat().st_size
    return total


def _checksum(cell: Cell, body: bytes) -> bytes:
    """Return the 32 bytes in front of a cell's file, a hash of the cell, the versions and the outcome `body`."""
    return sha256(b"\0".join((cell.key.encode(), versions().encode(), body))).digest()
