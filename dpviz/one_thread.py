"""Products of matrices on one thread: in several, small ones take many times as long, and all differ in their last
digits."""

import threading
from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import ParamSpec, TypeVar

import scipy.linalg  # noqa: F401  (its library is loaded before libraries are looked for; NumPy's is, too)
from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
T = TypeVar("T")


@cache
def _libraries() -> ThreadpoolController:
    """Those of NumPy and SciPy; to look for them takes milliseconds, to set their threads microseconds."""
    return ThreadpoolController().select(user_api="blas")


class _OneThread:
    """While anybody is inside, the libraries of this process use one thread; the last one to leave restores what there
    was. Their number of threads is one for the whole process, so those inside are counted, in whatever thread."""

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                several = any(library.num_threads != 1 for library in _libraries().lib_controllers)
                self._limits = _libraries().limit(limits=1) if several else None  # to look is cheaper than to set
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._limits is not None:
                self._limits.restore_original_limits()


one_thread = _OneThread()


def steps_on_one_thread(function: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """A generator function of which every step computes on one thread; between two steps its caller has as many as
    before. Whoever closes the generator closes this one inside."""

    @wraps(function)
    def stepped(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
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

    return stepped
