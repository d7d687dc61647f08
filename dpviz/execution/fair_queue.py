"""A fair line: one visitor after the other, and of each visitor one task after the other."""

import threading
from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")
_Tasks = OrderedDict[str, deque[T]]


class Line(Generic[T]):
    """Who comes next. A visitor with a hundred things to do waits as long for each as one with a single thing."""

    def __init__(self) -> None:
        self._visitors: OrderedDict[str, _Tasks[T]] = OrderedDict()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, visitor: str, task: str, items: list[T]) -> None:
        """The visitor has items to do that belong to one task; they keep their order."""
        with self._changed:
            if items:
                self._visitors.setdefault(visitor, OrderedDict()).setdefault(task, deque()).extend(items)
                self._changed.notify(len(items))

    def take(self) -> T | None:
        """The next item, which leaves the line; waits for one. None when the line has been closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._visitors)
            return None if self._closed else _next(self._visitors)

    def withdraw(self, visitor: str, task: str) -> list[T]:
        """The items of a task that have not been taken; they leave the line."""
        with self._changed:
            tasks = self._visitors.get(visitor, OrderedDict())
            items = tasks.pop(task, deque())
            if not tasks:
                self._visitors.pop(visitor, None)
            return list(items)

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
        while (item := _next(copy)) is not first:
            found.append(item)
        return found

    def close(self) -> None:
        """Let everybody go who waits for an item."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def _next(visitors: OrderedDict[str, _Tasks[T]]) -> T:
    """Take the first item of the first task of the first visitor; task and visitor go to the end, or leave."""
    visitor, tasks = next(iter(visitors.items()))
    task, items = next(iter(tasks.items()))
    item = items.popleft()
    if items:
        tasks.move_to_end(task)
    else:
        del tasks[task]
    if tasks:
        visitors.move_to_end(visitor)
    else:
        del visitors[visitor]
    return item
