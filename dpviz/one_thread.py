"""Matrix products on one thread: on several threads small products take many times as long, and the last digits of
results depend on the number of threads."""

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
    """Return the BLAS libraries of NumPy and SciPy. They are searched for once, which takes milliseconds; to set their
    number of threads takes microseconds."""
    return ThreadpoolController().select(user_api="blas")


class _OneThread:
    """Context in which the BLAS libraries of this process use one thread.

    The libraries have one setting for the whole process. So the threads inside the context are counted: the first to
    enter changes the setting, and the last to leave restores it.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                # The number is read first, as that is cheaper than to set it.
                has_several = any(library.num_threads != 1 for library in _libraries().lib_controllers)
                self._limits = _libraries().limit(limits=1) if has_several else None
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._limits is not None:
                self._limits.restore_original_limits()


one_thread = _OneThread()


def steps_on_one_thread(function: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """Return a generator function whose steps compute on one thread, while between two steps, when the caller computes,
    the number of threads is as before.

    Closing the generator that it returns closes the generator of `function`.
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
