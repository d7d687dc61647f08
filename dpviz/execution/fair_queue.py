"""A fair line: one visitor after the other, and of each visitor one task after the other."""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
_Tasks = OrderedDict[str, deque[T]]


class FairQueue(Generic[T]):
    """Who comes next. A visitor with a hundred things to do waits as long for each as one with a single thing; one who
    takes something back keeps the place for what comes instead, until it is that visitor's turn."""

    def __init__(self) -> None:
        self._visitors: OrderedDict[str, _Tasks[T]] = OrderedDict()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, visitor: str, task: str, items: list[T]) -> None:
        """The visitor has items to do that belong to one task; they keep their order."""
        with self._changed:
            if items:
                self._visitors.setdefault(visitor, OrderedDict()).setdefault(task, deque()).extend(items)
                self._changed.notify_all()  # not each of those who wait takes any item

    def take(self, fits: Callable[[T], bool] | None = None) -> T | None:
        """The next item, or the next that fits, which leaves the line; waits for one. None when the line has been
        closed."""
        with self._changed:
            while not self._closed:
                if (item := _next(self._visitors, fits)) is not None:
                    return item
                self._changed.wait()
            return None

    def withdraw(self, visitor: str, task: str) -> list[T]:
        """The items of a task that have not been taken; they leave the line."""
        with self._changed:
            return list(self._visitors.get(visitor, OrderedDict()).pop(task, deque()))

    def ahead(self, visitor: str, task: str) -> list[T] | None:
        """The items that will be taken before the first one of a task; None if none of it is in line."""
        with self._changed:
            if task not in self._visitors.get(visitor, {}):
                return None
            first = self._visitors[visitor][task][0]
            copy = OrderedDict(
                (name, OrderedDict((key, deque(items)) for key, items in tasks.items()))
                for name, tasks in self._visitors.items()
            )
        found: list[T] = []
        while (item := _next(copy)) is not first and item is not None:
            found.append(item)
        return found

    def close(self) -> None:
        """Let everybody go who waits for an item."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def _next(visitors: OrderedDict[str, _Tasks[T]], fits: Callable[[T], bool] | None = None) -> T | None:
    """Take the first item, or the first that fits, of the first task of the first who has one; task and visitor go to
    the end, or leave."""
    every = ((visitor, task, items) for visitor, tasks in visitors.items() for task, items in tasks.items())
    found = next((one for one in every if fits is None or fits(one[2][0])), None)
    if found is None:
        return None
    visitor, task, items = found
    while fits is None and next(iter(visitors)) != visitor:  # who has taken something back: that turn has passed
        visitors.popitem(last=False)
    tasks, item = visitors[visitor], items.popleft()
    if items:
        tasks.move_to_end(task)
    else:
        del tasks[task]
    if tasks:
        visitors.move_to_end(visitor)
    else:
        del visitors[visitor]
    return item
