"""Python processes beside the server: started, spoken to, limited and ended. Operating systems differ here alone.

A child talks over its standard input and output, so there is nothing to connect to, and a parent that dies, however,
closes both: the child ends. It is started by a command of its own, because to spawn or fork from a Streamlit server
would execute the app again in the child.

What is tested is Linux, where the kernel itself limits memory and computing time. macOS and Windows have neither limit
for a process to set for itself (macOS knows one of computing time, and we use the same as on Windows): a thread of the
child watches both and ends it.
"""

import contextlib
import json
import math
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Literal, NoReturn

import numpy as np
import psutil

# ------------------------------------------------------------------ messages: a header in JSON and raw arrays behind it
# Nothing is pickled: reading such bytes runs none of them.

_LENGTH, _ALIGNED = struct.Struct("<Q"), 64  # arrays begin at multiples of this, as NumPy's own do
_KINDS = "biufcSU"  # of dtypes that are nothing but their bytes


def pack(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> list[bytes | memoryview]:
    """A message as pieces of bytes, to be sent or joined: what JSON can say, and arrays by name. Nothing is copied that
    lies in one piece. Raises TypeError for an array of Python objects."""
    pieces: list[bytes | memoryview] = []
    described = []
    for name, array in arrays.items():
        if array.dtype.kind not in _KINDS:
            raise TypeError(f"{name}: an array of {array.dtype} cannot travel")
        fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        whole = np.asarray(array, order="F" if fortran else "C")
        described.append([name, array.dtype.str, list(array.shape), fortran])
        flat = whole.ravel(order="K").view(np.uint8) if whole.size else np.empty(0, np.uint8)
        pieces += [flat.data, bytes(-flat.nbytes % _ALIGNED)]
    text = json.dumps({"header": dict(header), "arrays": described}).encode()
    text += b" " * (-(len(text) + _LENGTH.size) % _ALIGNED)
    return [_LENGTH.pack(len(text)), text, *pieces]


def unpack(message: bytes | bytearray) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a message; the arrays are views of it. Raises ValueError if it is none."""
    try:
        (length,) = _LENGTH.unpack_from(message)
        text = json.loads(bytes(message[_LENGTH.size : _LENGTH.size + length]))
        place, arrays = _LENGTH.size + length, {}
        for name, code, shape, fortran in text["arrays"]:
            dtype = np.dtype(code)
            if dtype.kind not in _KINDS:
                raise ValueError(f"an array of {dtype}")
            count = int(np.prod(shape, dtype=np.int64))
            flat = np.frombuffer(message, dtype, count, place) if count else np.empty(0, dtype)
            arrays[name] = flat.reshape(shape, order="F" if fortran else "C")
            place += flat.nbytes + -flat.nbytes % _ALIGNED
        return text["header"], arrays
    except (struct.error, KeyError, TypeError, UnicodeDecodeError, AttributeError) as error:
        raise ValueError("these bytes are no message") from error


# ------------------------------------------------------------------------------------------------------------ processes

Why = Literal["time", "memory", "crash"]
Pieces = Iterable[bytes | memoryview]

ROOT = Path(__file__).resolve().parents[1]  # of the package, where a child finds it
# Steps of niceness below the server. Beside one foreign busy process a core, a run takes 2.5 times its quiet time at 2,
# 13 times at 10, and 80 times at 19.
NICENESS = 2
MEMORY, TIME = 77, 78  # exit codes of a child that ended itself because it had reached a limit
GONE = 0.1  # seconds that somebody waits for a process to be gone that was ended
LATE = 1.0  # seconds beyond its limit that a run may take to end by itself
_WATCH = 0.1  # seconds between two looks at what a child uses, where the kernel has no limit for it
_LINUX = sys.platform == "linux"
# A lower priority, and Ctrl+C for the parent alone; 0 elsewhere.
_WINDOWS_FLAGS = sum(
    getattr(subprocess, name, 0) for name in ("BELOW_NORMAL_PRIORITY_CLASS", "CREATE_NEW_PROCESS_GROUP")
)


class Ended(Exception):
    """The child has ended, by itself or by force. why : a limit that it had reached, or "crash" for all else."""

    def __init__(self, why: Why) -> None:
        super().__init__(f"the process has ended: {why}")
        self.why: Why = why


class Child:
    """A process that runs a module of ours, with a lower priority, and exchanges messages with it.

    module : run as `python -m module`; it takes its messages from a `Parent`.
    """

    def __init__(self, module: str) -> None:
        # One thread for products of matrices: there are as many workers as shall compute at the same time.
        usual = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        usual["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # others reserve 1 GB at once, which counts against the limit
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**usual, **os.environ, "PYTHONPATH": path},
            process_group=0,  # Ctrl+C in a terminal is for the parent
            creationflags=_WINDOWS_FLAGS,
        )
        if hasattr(os, "setpriority"):
            with contextlib.suppress(OSError):  # it may have ended already
                os.setpriority(os.PRIO_PROCESS, self._process.pid, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
        self._messages: queue.SimpleQueue[bytearray | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True, name="dpviz-listener").start()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def send(self, pieces: Pieces) -> None:
        """Send a message. Raises Ended if nobody is there to take it."""
        assert self._process.stdin is not None
        try:
            _write(self._process.stdin, pieces)
        except (OSError, ValueError):
            raise Ended(self._why()) from None

    def receive(self, seconds: float) -> bytearray | None:
        """The next message; None if there is none within that time. Raises Ended after the last one."""
        try:
            message = self._messages.get(timeout=seconds)
        except queue.Empty:
            return None
        if message is None:
            self._messages.put(None)  # for whoever asks again
            raise Ended(self._why())
        return message

    def kill(self) -> None:
        """End it now, whatever it does. Where others compute, it goes as slowly as it ran: nobody waits for that."""
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=GONE)
            self._close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        try:
            while (message := _read(self._process.stdout)) is not None:
                self._messages.put(message)
                del message  # it may be a visitor's file: nobody keeps it until the next one comes
        finally:  # also where there is no memory for a message: who waits for it must hear of it
            self._messages.put(None)
            self._process.wait()

    def _why(self) -> Why:
        """How it ended; called when its pipe is closed."""
        try:
            code = self._process.wait(timeout=LATE)
        except subprocess.TimeoutExpired:  # it closed its pipe and goes on: nothing of ours
            self.kill()
            return "crash"
        self._close()
        limits: dict[int, Why] = {MEMORY: "memory", TIME: "time", -vars(signal).get("SIGXCPU", TIME): "time"}
        return limits.get(code, "crash")

    def _close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()


class Parent:
    """The other end of a `Child`, inside it: where its messages come from, and where its answers go.

    Whatever else the process prints goes to the standard error. It ends with its parent; an interrupt from the
    keyboard is for the parent alone.

    aside : is given every message as it arrives, by a thread of its own, and says whether it has dealt with it.
    """

    def __init__(self, aside: Callable[[bytearray], bool]) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self._aside = aside
        self._messages: queue.SimpleQueue[bytearray] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True, name="dpviz-parent").start()

    def messages(self) -> Iterator[bytearray]:
        """What the parent sends, as long as there is one."""
        while True:
            yield self._messages.get()

    def send(self, pieces: Pieces) -> None:
        """Send a message to the parent."""
        try:
            _write(self._out, pieces)
        except OSError:
            os._exit(0)

    def _listen(self) -> NoReturn:
        try:
            while (message := _read(sys.stdin.buffer)) is not None:
                if not self._aside(message):
                    self._messages.put(message)
                del message  # a table must not stay until the next one comes
        except MemoryError:  # without who listens it would neither stop nor end with its parent
            os._exit(MEMORY)
        os._exit(0)  # at once: nobody is there to whom a result could go


def _write(pipe: IO[bytes], pieces: Pieces) -> None:
    whole = [piece for piece in pieces if len(piece)]
    pipe.write(_LENGTH.pack(sum(len(piece) for piece in whole)))
    for piece in whole:
        pipe.write(piece)
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytearray | None:
    """The next message; None at the end."""
    begin = _filled(pipe, _LENGTH.size)
    return None if begin is None else _filled(pipe, _LENGTH.unpack(begin)[0])


def _filled(pipe: IO[bytes], size: int) -> bytearray | None:
    buffer, place = bytearray(size), 0
    while place < size:
        count = pipe.readinto(memoryview(buffer)[place:])  # type: ignore[attr-defined]  # a buffered reader
        if not count:
            return None
        place += count
    return buffer


@contextlib.contextmanager
def limited(max_bytes: float, max_seconds: float) -> Iterator[None]:
    """Within it, this process may take so much more memory, and about so much computing time (plus `LATE`).

    More memory raises a MemoryError, or ends the process where a library cannot say so; more time ends it.
    """
    with _by_kernel(max_bytes, max_seconds) if _LINUX else watched(max_bytes, max_seconds):
        yield


@contextlib.contextmanager
def _by_kernel(max_bytes: float, max_seconds: float) -> Iterator[None]:
    import resource  # not on Windows

    seconds = math.ceil(time.process_time() + max_seconds + LATE) if math.isfinite(max_seconds) else -1
    memory = int(_private() + max_bytes) if math.isfinite(max_bytes) else -1
    limits = {resource.RLIMIT_DATA: memory, resource.RLIMIT_CPU: seconds, resource.RLIMIT_CORE: 0}
    before = {what: resource.getrlimit(what) for what in limits}
    for what, limit in limits.items():
        hardest = before[what][1]
        resource.setrlimit(what, (limit if hardest < 0 or 0 <= limit <= hardest else hardest, hardest))
    try:
        yield
    finally:
        for what, limits_before in before.items():
            resource.setrlimit(what, limits_before)


def _private() -> int:
    """Bytes of private memory that this process has, as Linux counts them against the limit."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0


@contextlib.contextmanager
def watched(max_bytes: float, max_seconds: float) -> Iterator[None]:
    """As `limited`, by a thread that ends the process."""
    most, latest = resident() + max_bytes, time.process_time() + max_seconds + LATE
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_WATCH):
            if resident() > most:
                os._exit(MEMORY)
            if time.process_time() > latest:
                os._exit(TIME)

    watcher = threading.Thread(target=watch, daemon=True, name="dpviz-limits")
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def resident() -> int:
    """Bytes of memory that this process has in use."""
    return int(psutil.Process().memory_info().rss)
