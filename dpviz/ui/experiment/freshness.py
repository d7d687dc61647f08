"""Whether what a page shows belongs to its settings, and which run is to begin by itself. CONTRIBUTING draws it."""

from typing import Literal, Optional, Protocol

from dpviz.execution.runner import Job
from dpviz.ui.visitors import Kept

State = Literal["idle", "queued", "first repeats", "all repeats", "old", "failed", "stopped"]
FIRST = 4  # repeats that are run first
SOON, FOLLOW = 2.0, 5.0  # seconds of a short run, and that all repeats may take to follow the first by themselves


class Startable(Protocol):
    """An experiment or an audit that is ready to run."""

    @property
    def public(self) -> bool:
        """Whether it may start by itself: it reads no file of a visitor's."""

    @property
    def first(self) -> Optional["Startable"]:
        """Its first repeats, if all are more than twice as many; else None."""

    @property
    def few(self) -> bool:
        """Whether it has about as many repeats as the first ones are, and is part of no more."""

    @property
    def times(self) -> float:
        """How many times the work of its first repeats it is."""

    @property
    def too_much(self) -> bool:
        """Whether it needs more memory than a run may use."""

    def is_that_of(self, job: Job) -> bool:
        """Whether a job is the one that it would start."""

    def started(self, page: str, title: str, short: bool) -> Kept:
        """The run, put in line; short : whether it is known to be."""


def belongs(ready: Startable | None, job: Job | None) -> bool:
    """Whether a job is of these settings: all repeats, or the first ones."""
    if ready is None or job is None:
        return False
    return ready.is_that_of(job) or (ready.first is not None and ready.first.is_that_of(job))


def state(ready: Startable | None, newest: Job | None, pictured: Job | None) -> State:
    """What a page shows. ready : its settings; None while they make no run. newest : its last job; pictured : the one
    that its picture, number and sentence are of. What is "queued", "old", "failed" or "stopped" has a picture of these
    settings or a pale one, as `belongs` says."""
    found = next((job for job in (newest, pictured) if belongs(ready, job)), None)
    if ready is None or found is None:
        return "idle" if pictured is None else "old"
    if found.active and not belongs(ready, pictured):
        return "queued"
    if found.state == "failed":
        return "failed"
    if found.state in ("stopped", "timeout"):
        return "stopped"
    return "first repeats" if pictured is not None and not ready.is_that_of(pictured) else "all repeats"


def due(ready: Startable, newest: Job | None, others_wait: bool) -> Startable | None:
    """What is to begin by itself now, where that is allowed; None if nothing is, or what was begun goes on or ended.

    The first repeats begin at once. All follow where the time of the first ones says that they will not take long, and
    nobody else stands in line."""
    if not ready.public or ready.too_much:
        return None
    if newest is None or not belongs(ready, newest):
        return ready.first or ready
    few = newest.state == "done" and not ready.is_that_of(newest)
    return ready if few and not others_wait and newest.computing * ready.times < FOLLOW else None


def is_short(ready: Startable, newest: Job | None) -> bool:
    """Whether what begins in place of a page's newest job is known to be short: it has few repeats, or the first ones
    took so little time."""
    if newest is not None and newest.state == "done" and belongs(ready, newest):
        return newest.computing * ready.times < SOON
    return ready.few
