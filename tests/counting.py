"""Checkpoints that a computation comes to."""

from collections.abc import Callable
from typing import TypeVar

from dpviz.checkpoints import at_checkpoints

T = TypeVar("T")


class Stop(BaseException):
    """What somebody raises at a checkpoint who wants the computation to end."""


def counted(compute: Callable[[], T]) -> tuple[T, int]:
    """What it returns, and at how many checkpoints it came by."""
    passed: list[None] = []
    with at_checkpoints(lambda: passed.append(None)):
        found = compute()
    return found, len(passed)


def at_first(act: Callable[[], object], compute: Callable[[], T]) -> T:
    """What it returns, if that is done at its first checkpoint."""
    done: list[None] = []

    def once() -> None:
        if not done:
            done.append(None)
            act()

    with at_checkpoints(once):
        found = compute()
    assert done, "it came to a checkpoint"
    return found


def stop() -> None:
    raise Stop
