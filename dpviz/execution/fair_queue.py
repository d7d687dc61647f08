"""A fair line: one visitor after the other, and of each visitor one task after the other; last, what can wait."""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
_Tasks = OrderedDict[str, deque[T]]


class Line(Generic[T]):
    """Who comes next. A visitor with a hundred things to do waits as long for each as one with a single thing; one who
    takes something back keeps the place for what comes instead, until it is that visitor's turn. What is put there for
    later stands in a line of its own, whose turn it is when nothing else is there."""

    def __init__(self) -> None:
        self._visitors: OrderedDict[str, _Tasks[T]] = OrderedDict()
        self._later: OrderedDict[str, _Tasks[T]] = OrderedDict()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, visitor: str, task: str, items: list[T], later: bool = False) -> None:
        """The visitor has items to do that belong to one task; they keep their order."""
        with self._changed:
            if items:
                line = self._later if later else self._visitors
                line.setdefault(visitor, OrderedDict()).setdefault(task, deque()).extend(items)
                self._changed.notify_all()  # not each of those who wait takes any item

    def take(self, fits: Callable[[T], bool] | None = None, later: bool = False) -> T | None:
        """The next item, or the next that fits, which leaves the line; waits for one. None when the line has been
        closed. later : whether it may be one that was put there for later."""
        with self._changed:
            while not self._closed:
                if (item := _next(self._visitors, fits)) is not None:
                    return item
                if later and (item := _next(self._later)) is not None:
                    return item
                self._changed.wait()
            return None

    def withdraw(self, visitor: str, task: str) -> list[T]:
        """The items of a task that have not been taken; they leave the line."""
        with self._changed:
            for line in (self._visitors, self._later):
                if items := line.get(visitor, OrderedDict()).pop(task, None):
                    return list(items)
            return []

    def ahead(self, visitor: str, task: str) -> list[T] | None:
        """The items that will be taken before the first one of a task; None if none of it is in line."""
        with self._changed:
            lines = (self._visitors, self._later)
            of = next((line for line in lines if task in line.get(visitor, {})), None)
            if of is None:
                return None
            first = of[visitor][task][0]
            copies = [
                OrderedDict(
                    (name, OrderedDict((key, deque(items)) for key, items in tasks.items()))
                    for name, tasks in line.items()
                )
                for line in (lines if of is self._later else lines[:1])
            ]
        found: list[T] = []
        for copy in copies:
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
