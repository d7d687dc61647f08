"""Child processes of the server: start, messages, limits and end. No other module depends on the operating system.

A child talks over its standard input and output, so there is no port to connect to, and the end of the parent closes
both: then the child ends. It is started by a command of its own, because to spawn or fork from a Streamlit server would
execute the app again in the child.

Linux is tested; there the kernel itself limits memory and computing time. On macOS and Windows a process cannot set
such limits for itself (macOS has one of computing time, and we use the same as on Windows): a thread of the child
watches both and ends it.
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

# -------------------------------------------------------------------- messages: a header in JSON, then raw arrays
# Nothing is pickled: to read a message runs no code in it.

_LENGTH = struct.Struct("<Q")  # a length in 8 bytes: of the header, in front of it; in a pipe, also of each message
_ALIGNED = 64  # arrays begin at multiples of this number of bytes, as those of NumPy do
_KINDS = "biufcSU"  # NumPy's kinds of dtypes whose values are their bytes, unlike Python objects


def pack(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> list[bytes | memoryview]:
    """Return a message as pieces of bytes, which may be sent one by one or joined.

    Contiguous arrays are not copied. Raises TypeError for an array of Python objects.

    header : values that JSON can write. arrays : arrays by name.
    """
    pieces: list[bytes | memoryview] = []
    descriptions = []
    for name, array in arrays.items():
        if array.dtype.kind not in _KINDS:
            raise TypeError(f"{name}: an array of {array.dtype} cannot travel")
        is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        contiguous = np.asarray(array, order="F" if is_fortran else "C")
        descriptions.append([name, array.dtype.str, list(array.shape), is_fortran])
        flat = contiguous.ravel(order="K").view(np.uint8)
        padding = bytes(-flat.nbytes % _ALIGNED)  # zeros up to the next multiple
        pieces += [flat.data, padding]
    text = json.dumps({"header": dict(header), "arrays": descriptions}).encode()
    text += b" " * (-(len(text) + _LENGTH.size) % _ALIGNED)  # so that the first array is aligned, too
    return [_LENGTH.pack(len(text)), text, *pieces]


def unpack(message: bytes | bytearray) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return header and arrays of a message; the arrays are views of it. Raises ValueError if it is no message."""
    try:
        (length,) = _LENGTH.unpack_from(message)
        text = json.loads(bytes(message[_LENGTH.size : _LENGTH.size + length]))
        offset, arrays = _LENGTH.size + length, {}
        for name, dtype_code, shape, is_fortran in text["arrays"]:
            dtype = np.dtype(dtype_code)
            if dtype.kind not in _KINDS:
                raise ValueError(f"an array of {dtype}")
            count = int(np.prod(shape, dtype=np.int64))
            flat = np.frombuffer(message, dtype, count, offset) if count else np.empty(0, dtype)
            arrays[name] = flat.reshape(shape, order="F" if is_fortran else "C")
            padding = -flat.nbytes % _ALIGNED
            offset += flat.nbytes + padding
        return text["header"], arrays
    # A ValueError, of JSON or of NumPy, passes as it is.
    except (struct.error, KeyError, TypeError, UnicodeDecodeError, AttributeError) as error:
        raise ValueError("these bytes are no message") from error


# ------------------------------------------------------------------------------------------------------------ processes

Why = Literal["time", "memory", "crash"]  # reason why a child has ended: one of its limits, or anything else
Pieces = Iterable[bytes | memoryview]  # a message, as `pack` returns it

ROOT = Path(__file__).resolve().parents[1]  # folder from which a child imports the package
# Added to the server's niceness for children, so that pages stay quick. More would make runs slow on a busy machine:
# with one foreign busy process per core, a run takes 2.5 times its quiet time at 2, 13 times at 10, and 80 times at 19.
NICENESS = 2
MEMORY, TIME = 77, 78  # exit codes of a child that ended itself at a limit
GONE = 0.1  # seconds to wait for the end of a process that was killed
LATE = 1.0  # seconds beyond its limit that a run may take to end by itself
_WATCH = 0.1  # seconds between two checks of a child's use, where the kernel has no limit for it
_LINUX = sys.platform == "linux"
# On Windows, flags that give a child a lower priority and leave Ctrl+C to the parent; 0 on other systems.
_WINDOWS_FLAGS = sum(
    getattr(subprocess, name, 0) for name in ("BELOW_NORMAL_PRIORITY_CLASS", "CREATE_NEW_PROCESS_GROUP")
)


class ProcessEnded(Exception):
    """Raised where a child has ended, by itself or by force.

    why : the limit that it had reached, or "crash" for any other reason.
    """

    def __init__(self, why: Why) -> None:
        super().__init__(f"the process has ended: {why}")
        self.why: Why = why


class Child:
    """A process that runs one of our modules with a lower priority, and the messages to and from it.

    module : name of the module, which is run as `python -m module` and uses a `ParentConnection` for its messages.
    """

    def __init__(self, module: str) -> None:
        # One thread for matrix products: parallel computations have a worker each.
        defaults = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        defaults["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # others reserve 1 GB at once, which counts against the limit
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],  # -P: no file of the current folder is imported in place of a module
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**defaults, **os.environ, "PYTHONPATH": path},
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
        """Number of the process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True if the process still runs."""
        return self._process.poll() is None

    def send(self, pieces: Pieces) -> None:
        """Send a message. Raises ProcessEnded if the process has ended."""
        assert self._process.stdin is not None
        try:
            _write(self._process.stdin, pieces)
        except (OSError, ValueError):  # a ValueError if this side of the pipe is closed
            raise ProcessEnded(self._why()) from None

    def receive(self, seconds: float) -> bytearray | None:
        """Return the next message; None if none arrives within `seconds`. Raises ProcessEnded if the process has ended
        and all of its messages were returned."""
        try:
            message = self._messages.get(timeout=seconds)
        except queue.Empty:
            return None
        if message is None:
            self._messages.put(None)  # for the next call
            raise ProcessEnded(self._why())
        return message

    def kill(self) -> None:
        """End the process by force. It may take long to disappear on a busy machine, so this waits for it at most
        `GONE` seconds."""
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=GONE)
            self._close()

    def _listen(self) -> None:
        """Put the messages of the process into the queue as they arrive, and None after the last; run by a thread."""
        assert self._process.stdout is not None
        try:
            while (message := _read(self._process.stdout)) is not None:
                self._messages.put(message)
                del message  # it may be a visitor's file, which must not stay in memory until the next message
        finally:  # also where there is no memory for a message: a waiting `receive` must end
            self._messages.put(None)
            self._process.stdout.close()
            self._process.wait()

    def _why(self) -> Why:
        """Return the reason why the process has ended, from its exit code; to be called when its pipe is closed."""
        try:
            code = self._process.wait(timeout=LATE)
        except subprocess.TimeoutExpired:  # it closed its pipe and still runs, which our modules never do
            self.kill()
            return "crash"
        self._close()
        limits: dict[int, Why] = {MEMORY: "memory", TIME: "time"}
        if hasattr(signal, "SIGXCPU"):  # by which Linux ends a process at its limit of computing time; not on Windows
            limits[-signal.SIGXCPU] = "time"  # `subprocess` gives the signal that ended a process as a negative code
        return limits.get(code, "crash")

    def _close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()


class ParentConnection:
    """The connection of a child process to its parent, used inside the child: messages from the parent, and answers.

    Anything else that the process prints goes to the standard error. The process ends when its parent does, and ignores
    an interrupt from the keyboard, which is for the parent alone.

    intercept : called with every message when it arrives, by a thread of its own, also while a computation goes on. It
        returns True if it has dealt with the message, such as a request to stop, so that `messages` leaves it out.
    """

    def __init__(self, intercept: Callable[[bytearray], bool]) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")  # the pipe, before prints go elsewhere
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self._intercept = intercept
        self._messages: queue.SimpleQueue[bytearray] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True, name="dpviz-parent").start()

    def messages(self) -> Iterator[bytearray]:
        """Yield the messages of the parent as they arrive, but for those that `intercept` has dealt with."""
        while True:
            yield self._messages.get()

    def send(self, pieces: Pieces) -> None:
        """Send a message to the parent."""
        try:
            _write(self._out, pieces)
        except OSError:  # there is no parent any more
            os._exit(0)

    def _listen(self) -> NoReturn:
        """Take the messages of the parent as they arrive, and end the process after the last; run by a thread."""
        try:
            while (message := _read(sys.stdin.buffer)) is not None:
                if not self._intercept(message):
                    self._messages.put(message)
                del message  # a table must not stay in memory until the next message
        except MemoryError:  # without this thread the process would neither stop nor end with its parent
            os._exit(MEMORY)
        os._exit(0)  # at once: there is no parent to receive a result


def _write(pipe: IO[bytes], pieces: Pieces) -> None:
    """Write a message into a pipe: its length in 8 bytes, then its pieces."""
    nonempty = [piece for piece in pieces if len(piece)]
    pipe.write(_LENGTH.pack(sum(len(piece) for piece in nonempty)))
    for piece in nonempty:
        pipe.write(piece)
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytearray | None:
    """Wait for the next message in a pipe and return it; None if the pipe is closed."""
    length_bytes = _read_bytes(pipe, _LENGTH.size)
    if length_bytes is None:
        return None
    (length,) = _LENGTH.unpack(length_bytes)
    return _read_bytes(pipe, length)


def _read_bytes(pipe: IO[bytes], size: int) -> bytearray | None:
    """Return the next `size` bytes of a pipe; None if it is closed before."""
    buffer, filled = bytearray(size), 0
    while filled < size:
        count = pipe.readinto(memoryview(buffer)[filled:])  # type: ignore[attr-defined]  # a buffered reader
        if not count:
            return None
        filled += count
    return buffer


@contextlib.contextmanager
def process_limits(max_bytes: float, max_seconds: float) -> Iterator[None]:
    """Limit, in the body of a `with`, the memory that this process takes in addition, and its further computing time.

    At the limit of memory a MemoryError is raised, or the process ends, where a library cannot raise it. `LATE` seconds
    after the limit of time the process ends.
    """
    with _kernel_limits(max_bytes, max_seconds) if _LINUX else thread_limits(max_bytes, max_seconds):
        yield


@contextlib.contextmanager
def _kernel_limits(max_bytes: float, max_seconds: float) -> Iterator[None]:
    """Limit the body as `process_limits` does, by limits of the Linux kernel."""
    import resource  # not on Windows

    # -1, like any negative number, is no limit.
    seconds = math.ceil(time.process_time() + max_seconds + LATE) if math.isfinite(max_seconds) else -1
    memory = int(_private_memory() + max_bytes) if math.isfinite(max_bytes) else -1
    # No core file, as it would hold the memory of the process and so the data.
    limits = {resource.RLIMIT_DATA: memory, resource.RLIMIT_CPU: seconds, resource.RLIMIT_CORE: 0}
    old_limits = {resource_id: resource.getrlimit(resource_id) for resource_id in limits}
    for resource_id, limit in limits.items():
        _, hard_limit = old_limits[resource_id]  # a process may not exceed it
        is_allowed = hard_limit < 0 or 0 <= limit <= hard_limit
        resource.setrlimit(resource_id, (limit if is_allowed else hard_limit, hard_limit))
    try:
        yield
    finally:
        for resource_id, pair in old_limits.items():
            resource.setrlimit(resource_id, pair)


def _private_memory() -> int:
    """Return the bytes of private memory of this process, as Linux counts them against the limit."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024  # the file gives kB
    return 0


@contextlib.contextmanager
def thread_limits(max_bytes: float, max_seconds: float) -> Iterator[None]:
    """Limit the body as `process_limits` does, by a thread that ends the process at either of the limits."""
    max_resident, max_time = resident() + max_bytes, time.process_time() + max_seconds + LATE
    is_over = threading.Event()  # set when the body has ended

    def watch() -> None:
        while not is_over.wait(_WATCH):
            if resident() > max_resident:
                os._exit(MEMORY)
            if time.process_time() > max_time:
                os._exit(TIME)

    watcher = threading.Thread(target=watch, daemon=True, name="dpviz-limits")
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()


def resident() -> int:
    """Return the bytes of memory that this process has in use."""
    return int(psutil.Process().memory_info().rss)
