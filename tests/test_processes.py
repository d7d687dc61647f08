"""Child processes: what they answer, the limits that they have, and how they end. As Linux has it; what only other
systems have (a thread that watches) is tried here, too."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpviz.processes import ROOT, Child, ProcessEnded, resident
from tests.waiting import until

MODULE = "tests.child"
PATIENCE = 30.0  # seconds until a test gives up
pytestmark = pytest.mark.slow  # real processes and clocks


def answer(child: Child, message: bytes) -> bytes:
    child.send([message])
    found = child.receive(PATIENCE)
    assert found is not None
    return bytes(found)


def why(child: Child, message: bytes) -> str:
    child.send([message])
    with pytest.raises(ProcessEnded) as ended:
        child.receive(PATIENCE)
    with pytest.raises(ProcessEnded):
        child.receive(0.0)
    return ended.value.why


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    found = Child(MODULE)
    yield found
    found.kill()


@pytest.fixture
def mortal() -> Iterator[Child]:
    found = Child(MODULE)
    yield found
    found.kill()


def test_messages_of_any_size_come_and_go_and_prints_do_not_disturb_them(child: Child) -> None:
    assert answer(child, b"hello") == b"<hello>"
    large = os.urandom(3_000_000)
    assert answer(child, large) == b"<" + large + b">"
    child.send([b"aside"])
    assert answer(child, b"after") == b"<after>", "what is taken aside is answered by nobody"
    assert child.receive(0.0) is None


def test_who_listens_on_either_side_keeps_no_message(child: Child) -> None:
    """A table would stay until the next one comes."""
    assert answer(child, b"alone") == b"it is", "the child has the message to itself"
    child.send([b"hello"])
    message = child.receive(PATIENCE)
    until(lambda: sys.getrefcount(message) == 2)  # this variable, and the argument


def test_a_child_comes_after_the_server_and_hardly_after_others(child: Child) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert own < int(answer(child, b"niceness")) <= own + 2


def test_memory_is_limited_by_what_is_in_use_already(child: Child) -> None:
    assert answer(child, b"memory 2") == b"fits"
    assert answer(child, b"memory 12") == b"too much"
    assert answer(child, b"memory 2") == b"fits", "the limit was of that one run"


def test_a_watched_child_ends_above_its_memory(mortal: Child) -> None:
    mortal.send([b"watched"])
    assert answer(mortal, b"memory 2") == b"fits"
    assert why(mortal, b"memory 40") == "memory"


@pytest.mark.slow
def test_time_ends_a_child_even_inside_a_long_step(mortal: Child) -> None:
    assert why(mortal, b"time 0.1") == "time"


def test_time_ends_a_watched_child(mortal: Child) -> None:
    mortal.send([b"watched"])
    assert why(mortal, b"burn 0.1") == "time"


def test_a_child_that_ends_by_itself_or_is_killed_has_crashed() -> None:
    child = Child(MODULE)
    assert why(child, b"exit 3") == "crash"
    with pytest.raises(ProcessEnded):
        child.send([b"hello"])
    child = Child(MODULE)
    assert answer(child, b"a") == b"<a>"
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(ProcessEnded):
        child.receive(PATIENCE)


def test_a_killed_child_leaves_no_pipe_open() -> None:
    child = Child(MODULE)
    assert answer(child, b"a") == b"<a>"
    child.kill()
    until(lambda: child._process.stdout.closed and child._process.stdin.closed)  # type: ignore[union-attr]


def test_a_child_can_be_killed_while_somebody_waits_for_it(mortal: Child) -> None:
    threading.Timer(0.05, mortal.kill).start()
    with pytest.raises(ProcessEnded):
        mortal.receive(PATIENCE)


def test_nobody_waits_for_a_child_that_takes_long_to_go(mortal: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does that ran beside busy processes."""

    def wait(timeout: float) -> None:
        assert timeout < 0.5
        raise subprocess.TimeoutExpired("child", timeout)

    with monkeypatch.context() as patched:
        patched.setattr(mortal._process, "wait", wait)
        mortal.kill()
    with pytest.raises(ProcessEnded):
        mortal.receive(PATIENCE)


def test_a_child_ends_with_its_parent_and_not_by_an_interrupt() -> None:
    program = f"""
        import os, signal
        from dpviz.processes import Child
        child = Child({MODULE!r})
        child.send([b"hello"])
        child.receive(30.0)
        os.kill(child.pid, signal.SIGINT)
        child.send([b"burn 60"])
        print(child.pid, flush=True)
        signal.pause()
        """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert running(pid)
    parent.kill()
    parent.wait()
    until(lambda: not running(pid))


def running(pid: int) -> bool:
    """Whether a process is there and does something: one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_memory_in_use_is_what_the_system_says() -> None:
    before, block = resident(), bytearray(b"\x01" * 64_000_000)
    assert 50e6 < resident() - before < 100e6
    del block
