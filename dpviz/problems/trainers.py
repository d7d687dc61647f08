"""Trainings that take long, shared out over processes beside the one that asks for them.

A training depends on its setting alone, so who does it makes no difference. The processes belong to one problem: they
are started when it first has enough to do, and end with it, or with the process that started them.
"""

import os
import weakref
from collections import deque
from contextlib import suppress

import numpy as np

from dpviz.messages import pack, unpack
from dpviz.pauses import Parts
from dpviz.problems.learners import Learner
from dpviz.processes import Child, Ended

VARIABLE, MOST = "DPVIZ_TRAINERS", 3  # processes beside a run, unless the variable says otherwise; 0: none
SLOW = 5e-3  # declared seconds of a training from which on it is worth to send it elsewhere
LOOK = 0.05  # seconds between two looks at whether somebody wants the run to stop
AHEAD = 2  # points that a process has at a time, so that it need not wait for the next


def beside() -> int:
    """How many processes a run may have beside it: one for each further processor, if nothing else is said."""
    stated = os.environ.get(VARIABLE, "")
    if stated.isdecimal():
        return int(stated)
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MOST, processors - 1)


class _Helper:
    """A process, and the numbers of the points that it has."""

    def __init__(self) -> None:
        self.child = Child("dpviz.problems.trainer")
        self.busy: set[int] = set()
        self._ready = False

    def ready(self, learner: Learner) -> bool:
        """Whether it has started, and so has the learner. Nobody waits for it: there is something to do here, too.
        Raises Ended if it has."""
        if not self._ready and self.child.receive(0.0) is not None:
            self._ready = True
            self.child.send(pack({"learner": learner.name, "settings": learner.settings}, learner.arrays))
        return self._ready

    def take(self, number: int, point: np.ndarray) -> None:
        """Give it a point (1, d). Raises Ended if nobody takes it."""
        self.busy.add(number)
        self.child.send(pack({"number": number}, {"points": point}))


class Trainers:
    """Who trains: this process, and others beside it if a training takes `seconds` and that is long."""

    def __init__(self, learner: Learner, seconds: float) -> None:
        self._learner, self._seconds = learner, seconds
        self.wanted = seconds >= SLOW and beside() > 0
        self._helpers: list[_Helper] = []
        self._started, self._number = False, 0
        weakref.finalize(self, _end, self._helpers)

    def losses_in_parts(self, points: np.ndarray) -> Parts[np.ndarray]:
        """(P, v) the losses of the validation rows at points (P, d), with a pause after each training."""
        if not self._started and len(points) > 1:
            self._start()
        first = self._number
        self._number += len(points)  # an answer to who has asked before, and has stopped, has a smaller number
        found = np.empty((len(points), len(self._learner.arrays["z"])))
        waiting, missing = deque(range(len(points))), set(range(len(points)))
        while missing:
            self._share_out(points, waiting, first)
            if waiting:
                place = waiting.popleft()
                found[place] = self._learner.losses(points[place : place + 1])[0]
                missing.remove(place)
            for helper in list(self._helpers):
                try:
                    self._hear(helper, found, missing, first, 0.0 if waiting else LOOK)
                except Ended:
                    self._lose(helper, waiting, first)
            if missing:
                yield
        return found

    def _start(self) -> None:
        """Start the others. Where none can be, this process does everything."""
        self._started = True
        with suppress(OSError, RuntimeError):
            for _ in range(beside()):
                self._helpers.append(_Helper())

    def _share_out(self, points: np.ndarray, waiting: "deque[int]", first: int) -> None:
        for helper in list(self._helpers):
            try:
                while waiting and len(helper.busy) < AHEAD and helper.ready(self._learner):
                    place = waiting.popleft()
                    helper.take(first + place, points[place : place + 1])
            except Ended:
                self._lose(helper, waiting, first)

    def _hear(self, helper: _Helper, found: np.ndarray, missing: set[int], first: int, seconds: float) -> None:
        """Take what a process has found, waiting for it so long if it has something to do."""
        while helper.busy and (message := helper.child.receive(seconds)) is not None:
            header, arrays = unpack(message)
            helper.busy.discard(header["number"])
            if header["number"] >= first:
                found[header["number"] - first] = arrays["losses"][0]
                missing.discard(header["number"] - first)
            seconds = 0.0

    def _lose(self, helper: _Helper, waiting: "deque[int]", first: int) -> None:
        """A process has ended: what it had must be done by others."""
        self._helpers.remove(helper)
        waiting.extend(sorted(number - first for number in helper.busy if number >= first))


def _end(helpers: list[_Helper]) -> None:
    for helper in helpers:
        helper.child.kill()
