"""Freshness of a page's picture: does it belong to the settings, and which run begins by itself? See CONTRIBUTING."""

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
        """True if it may start by itself: it reads no file of a visitor."""

    @property
    def first(self) -> Optional["Startable"]:
        """Its first repeats, if all are more than twice as many; else None."""

    @property
    def few(self) -> bool:
        """True if it has few repeats, about as many as first repeats, and is not itself a part of more."""

    @property
    def times(self) -> float:
        """Its work in multiples of the work of its first repeats."""

    @property
    def too_much(self) -> bool:
        """True if it needs more memory than a run may use."""

    def is_that_of(self, job: Job) -> bool:
        """Return true if a job is the one that it would start."""

    def started(self, page: str, title: str, short: bool) -> Kept:
        """Queue the run and return it. short : true if it is known to be short."""


def belongs(ready: Startable | None, job: Job | None) -> bool:
    """Return true if a job has these settings: all repeats, or the first ones."""
    if ready is None or job is None:
        return False
    return ready.is_that_of(job) or (ready.first is not None and ready.first.is_that_of(job))


def state(ready: Startable | None, newest: Job | None, pictured: Job | None) -> State:
    """Return the state of a page.

    ready : its settings; None while they make no run. newest : its last job. pictured : the job of its picture, number
    and sentence. In the states "queued", "old", "failed" and "stopped" the picture is of these settings, or pale: see
    `belongs`.
    """
    job = next((job for job in (newest, pictured) if belongs(ready, job)), None)
    if ready is None or job is None:
        return "idle" if pictured is None else "old"
    if job.active and not belongs(ready, pictured):
        return "queued"
    if job.state == "failed":
        return "failed"
    if job.state in ("stopped", "timeout"):
        return "stopped"
    return "first repeats" if pictured is not None and not ready.is_that_of(pictured) else "all repeats"


def due(ready: Startable, newest: Job | None, others_wait: bool) -> Startable | None:
    """Return the run that begins by itself now; None if none may, or if the newest job needs no successor.

    The first repeats begin at once. All repeats follow if the time of the first ones shows that they are quick, and no
    other visitor waits.
    """
    if not ready.public or ready.too_much:
        return None
    if newest is None or not belongs(ready, newest):
        return ready.first or ready
    are_first_done = newest.state == "done" and not ready.is_that_of(newest)
    return ready if are_first_done and not others_wait and newest.computing * ready.times < FOLLOW else None


def is_short(ready: Startable, newest: Job | None) -> bool:
    """Return true if the run after a page's newest job is known to be short.

    The time of its first repeats shows it, or it has few repeats.
    """
    if newest is not None and newest.state == "done" and belongs(ready, newest):
        return newest.computing * ready.times < SOON
    return ready.few
