"""Long computations in parts: generators that pause now and then and return their result, so that whoever runs them can
show progress, or stop."""

from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

import numpy as np

LONGEST = 0.3  # seconds, by declared cost, that a computation in parts should go on without a pause

S = TypeVar("S")
T = TypeVar("T")
Parts = Generator[None, None, T]


def finished(parts: Parts[T]) -> T:
    """The result of a computation in parts, without pausing."""
    while True:
        try:
            next(parts)
        except StopIteration as end:
            result: T = end.value
            return result


def between(parts: Parts[T], latest: S) -> Generator[S, None, T]:
    """The result of a computation in parts, yielding `latest` (again) at every pause: `yield from` it."""
    while True:
        try:
            next(parts)
        except StopIteration as end:
            result: T = end.value
            return result
        yield latest


def slices(count: int, seconds: float) -> Iterator[slice]:
    """0..count in slices that take at most `LONGEST`, if each of the `count` takes `seconds`; one at least."""
    size = max(1, int(LONGEST / max(seconds, 1e-12)))
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def sliced(compute: Callable[..., np.ndarray], seconds: float, *values: np.ndarray) -> Parts[np.ndarray]:
    """What `compute` finds of arrays (R, ...) with a row for each replicate: some rows after the others, if one takes
    `seconds`."""
    if not len(values[0]):
        return compute(*values)
    found: list[np.ndarray] = []
    for part in slices(len(values[0]), seconds):
        if found:
            yield
        found.append(compute(*(value[part] for value in values)))
    return found[0] if len(found) == 1 else np.concatenate(found)


class Pace:
    """Says when a loop is due for a pause: after `LONGEST` of declared seconds."""

    def __init__(self) -> None:
        self._since = 0.0

    def due(self, seconds: float) -> bool:
        """Whether to pause before the next part of the work, which takes so long."""
        due = self._since > 0 and self._since + seconds > LONGEST
        self._since = seconds if due else self._since + seconds
        return due
