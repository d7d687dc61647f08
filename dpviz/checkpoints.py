"""Checkpoints in long computations.

Computations call `checkpoint` at intervals. A caller may set a callback there, to show progress or to stop.
"""

import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar

import numpy as np

LONGEST = 0.3  # seconds, by declared costs, that a computation should take between two checkpoints
EVERY = 0.05  # seconds, by the clock, between two calls of a callback that checks for a stop

_CALLBACK: ContextVar[Callable[[], None] | None] = ContextVar("checkpoint", default=None)


def checkpoint() -> None:
    """Call the callbacks of `at_checkpoints` in this thread, if there are any; they may raise an exception to stop."""
    callback = _CALLBACK.get()
    if callback is not None:
        callback()


class at_checkpoints:
    """Context in which every checkpoint of this thread calls `callback`, and then the callback of an outer context.

    every : seconds by the clock from the beginning, and between two calls, without a call. No result may depend on the
        times of calls. Use it around one step of a generator, never around a `yield`.
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


def slices(count: int, seconds: float) -> Iterator[slice]:
    """Yield slices of 0..count that take at most `LONGEST`, if each of the `count` items takes `seconds`; one item at
    least.

    Between two slices there is a checkpoint. Results may depend on the slices, but not on the clock.
    """
    size = max(1, int(LONGEST / max(seconds, 1e-12)))
    for start in range(0, count, size):
        if start:
            checkpoint()
        yield slice(start, min(start + size, count))


def sliced(compute: Callable[..., np.ndarray], seconds: float, *values: np.ndarray) -> np.ndarray:
    """Return `compute(*values)` for arrays (R, ...), computed in slices of the R replicates, of which one takes
    `seconds`."""
    if not len(values[0]):
        return compute(*values)
    results = [compute(*(value[part] for value in values)) for part in slices(len(values[0]), seconds)]
    return results[0] if len(results) == 1 else np.concatenate(results)
