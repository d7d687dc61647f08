"""Matrix products on one thread: with several threads, small products take many times as long, and last digits
differ."""

import threading
from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import ParamSpec, TypeVar

import scipy.linalg  # noqa: F401  (loads its library, as NumPy does, before `_libraries` searches for them)
from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
T = TypeVar("T")


@cache
def _libraries() -> ThreadpoolController:
    """Return the BLAS libraries of NumPy and SciPy; the search takes milliseconds, to set their threads
    microseconds."""
    return ThreadpoolController().select(user_api="blas")


class _OneThread:
    """Context in which the BLAS libraries of this process use one thread; the last one to leave it restores the old
    number.

    The number of threads is one for the whole process, so the contexts of all threads are counted.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                has_several = any(library.num_threads != 1 for library in _libraries().lib_controllers)
                self._limits = _libraries().limit(limits=1) if has_several else None  # to read is cheaper than to set
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._limits is not None:
                self._limits.restore_original_limits()


one_thread = _OneThread()


def steps_on_one_thread(function: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """Make every step of a generator function compute on one thread; between two steps the number of threads is
    restored.

    Closing the generator closes the one inside.
    """

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        steps = function(*args, **kwargs)
        try:
            while True:
                with one_thread:
                    try:
                        step = next(steps)
                    except StopIteration:
                        return
                yield step
        finally:
            with one_thread:
                steps.close()  # type: ignore[attr-defined]  # it is a generator

    return wrapper
