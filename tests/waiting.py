"""Waiting in tests: for what another thread or process does in its own time."""

import time
from collections.abc import Callable


def until(condition: Callable[[], bool], seconds: float = 300.0) -> None:
    """Return as soon as the condition holds; fail where it does not even with so much patience."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it does not come"
        time.sleep(0.005)
