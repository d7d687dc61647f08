"""Trainings that take long, shared out over processes beside the one that asks for them.

A training depends on its setting alone, so who does it makes no difference. The processes belong to one problem: they
are started when it first has enough to do, and end with it, or with the process that started them. Each runs this
module: `python -m dpviz.problems.tuning.trainers`.
"""

import os
import time
import weakref
from collections import deque
from contextlib import suppress
from itertools import count

import numpy as np

from dpviz.checkpoints import checkpoint
from dpviz.messages import pack, unpack
from dpviz.one_thread import one_thread
from dpviz.problems.tuning.learners import LEARNERS, Learner
from dpviz.processes import Child, Ended, Parent

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
        self.child = Child("dpviz.problems.tuning.trainers")
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


class _Call:
    """Points that somebody asks about: those that wait, and what has been found of the others."""

    def __init__(self, points: np.ndarray, rows: int) -> None:
        self.points, self.found = points, np.empty((len(points), rows))
        self.waiting, self.missing = deque(range(len(points))), len(points)

    def take(self, place: int, losses: np.ndarray) -> None:
        """The losses (v,) at a point."""
        self.found[place] = losses
        self.missing -= 1


class Trainers:
    """Who trains: this process, and others beside it if a training takes `seconds` and that is long.

    Who has been stopped while it asked, or asks again at a checkpoint, disturbs no other one.

    elsewhere : seconds of computing time that the others have taken so far.
    """

    def __init__(self, learner: Learner, seconds: float) -> None:
        self._learner, self.wanted = learner, seconds >= SLOW and beside() > 0
        self._helpers: list[_Helper] = []
        self._given: dict[int, tuple[_Call, int]] = {}  # what the others have, by its number: whose, and which point
        self._started, self._numbers, self.elsewhere = False, count(), 0.0
        weakref.finalize(self, _end, self._helpers)

    def losses(self, points: np.ndarray) -> np.ndarray:
        """(P, v) the losses of the validation rows at points (P, d), with a checkpoint after each training."""
        if not self._started and len(points) > 1:
            self._start()
        call = _Call(points, len(self._learner.arrays["z"]))
        try:
            while call.missing:
                self._share_out(call)
                if call.waiting:
                    place = call.waiting.popleft()
                    call.take(place, self._learner.losses(points[place : place + 1])[0])
                for helper in list(self._helpers):
                    self._hear(helper, 0.0 if call.waiting else LOOK)
                checkpoint()
        finally:  # who has stopped wants no answers
            self._given = {number: asked for number, asked in self._given.items() if asked[0] is not call}
        return call.found

    def _start(self) -> None:
        """Start the others. Where none can be, this process does everything."""
        self._started = True
        with suppress(OSError, RuntimeError):
            for _ in range(beside()):
                self._helpers.append(_Helper())

    def _share_out(self, call: _Call) -> None:
        for helper in list(self._helpers):
            try:
                while call.waiting and len(helper.busy) < AHEAD and helper.ready(self._learner):
                    number, place = next(self._numbers), call.waiting.popleft()
                    self._given[number] = call, place
                    helper.take(number, call.points[place : place + 1])
            except Ended:
                self._lose(helper)

    def _hear(self, helper: _Helper, seconds: float) -> None:
        """Take what a process has found, waiting for it so long if it has something to do."""
        try:
            while helper.busy and (message := helper.child.receive(seconds)) is not None:
                header, arrays = unpack(message)
                helper.busy.discard(header["number"])
                self.elsewhere += header["seconds"]
                asked = self._given.pop(header["number"], None)
                if asked is not None:
                    asked[0].take(asked[1], arrays["losses"][0])
                seconds = 0.0
        except Ended:
            self._lose(helper)

    def _lose(self, helper: _Helper) -> None:
        """A process has ended: what it had must be done by others."""
        self._helpers.remove(helper)
        for number in sorted(helper.busy & set(self._given)):
            call, place = self._given.pop(number)
            call.waiting.append(place)


def _end(helpers: list[_Helper]) -> None:
    for helper in helpers:
        helper.child.kill()


def main() -> None:
    """Take a learner, then points, and answer with the losses there, until nobody asks any more."""
    parent = Parent(lambda _: False)
    messages = parent.messages()
    parent.send(pack({"ready": True}, {}))
    header, arrays = unpack(next(messages))
    learner = LEARNERS[header["learner"]](arrays, **header["settings"])
    for message in messages:
        header, arrays = unpack(message)
        began = time.process_time()
        with one_thread:  # as in the run beside it, whatever the environment says
            losses = learner.losses(arrays["points"])
        parent.send(pack(header | {"seconds": time.process_time() - began}, {"losses": losses}))


if __name__ == "__main__":
    main()
