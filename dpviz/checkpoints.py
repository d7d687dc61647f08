"""Checkpoints in long computations, at which the caller can show progress or stop.

Computations call `checkpoint` at intervals, and a caller sets a callback for it by `at_checkpoints`.
"""

import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar

import numpy as np

LONGEST = 0.3  # seconds that a computation should take at most between two checkpoints, by its declared costs
EVERY = 0.05  # seconds by the clock between two calls of a callback that checks for a stop

_CALLBACK: ContextVar[Callable[[], None] | None] = ContextVar("checkpoint", default=None)


def checkpoint() -> None:
    """Call the callbacks of `at_checkpoints` in this thread, if there are any; they may raise an exception to stop."""
    callback = _CALLBACK.get()
    if callback is not None:
        callback()


class at_checkpoints:
    """Context in which every checkpoint of this thread calls `callback`, and then the callback of an outer context.

    It may be used around one step of a generator, but never around a `yield`, as the caller's code would run inside.

    every : shortest time in seconds, by the clock, before the first call and between two calls; checkpoints in between
        do not call `callback`. So no result may depend on the calls.
    """

    def __init__(self, callback: Callable[[], None], every: float = 0.0) -> None:
        self._callback, self._every = callback, every

    def __enter__(self) -> None:
        self._due = time.monotonic() + self._every if self._every else 0.0
        self._outer = _CALLBACK.get()
        self._token = _CALLBACK.set(self._call)

    def __exit__(self, *error: object) -> None:
        _CALLBACK.reset(self._token)

    def _call(self) -> None:
        if not self._every or time.monotonic() >= self._due:
            self._callback()
            self._due = time.monotonic() + self._every
        if self._outer is not None:
            self._outer()


def checkpointed_slices(count: int, seconds: float) -> Iterator[slice]:
    """Yield slices of `count` items, each of which takes `seconds`, so that a slice takes at most `LONGEST` seconds, or
    has a single item; between two slices there is a checkpoint.

    The slices follow from the arguments alone, not from the clock, as the last digits of results may depend on them.
    """
    size = max(1, int(LONGEST / max(seconds, 1e-12)))  # the time of an item may be declared as 0
    for start in range(0, count, size):
        if start:
            checkpoint()
        yield slice(start, min(start + size, count))


def compute_in_slices(compute: Callable[..., np.ndarray], seconds: float, *values: np.ndarray) -> np.ndarray:
    """Return `compute(*values)` for arrays (R, ...) of R replicates, computed slice by slice with checkpoints between.

    seconds : time that `compute` takes for one replicate.
    """
    if not len(values[0]):  # there is no slice to get the shape of the empty result from
        return compute(*values)
    results = [compute(*(value[rows] for value in values)) for rows in checkpointed_slices(len(values[0]), seconds)]
    return results[0] if len(results) == 1 else np.concatenate(results)
