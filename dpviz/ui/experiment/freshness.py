"""Freshness of a page's picture: whether it belongs to the present settings, and which run begins by itself.

On public data a change of a setting starts a run of the first few repeats, and all repeats follow if they are quick.
CONTRIBUTING has the table of states.
"""

from typing import Literal, Optional, Protocol

from dpviz.execution.runner import Job
from dpviz.ui.visitors import Kept

State = Literal["idle", "queued", "first repeats", "all repeats", "old", "failed", "stopped"]
FIRST = 4  # number of repeats that are run first
SOON = 2.0  # seconds of computing below which a run counts as short
FOLLOW = 5.0  # seconds of computing below which all repeats follow the first ones by themselves


class Startable(Protocol):
    """An experiment or an audit that is ready to run."""

    @property
    def public(self) -> bool:
        """True if it may start by itself: it reads no file of a visitor."""

    @property
    def first(self) -> Optional["Startable"]:
        """The same with its first repeats alone; None if it has too few repeats for a part of them to pay."""

    @property
    def has_few_repeats(self) -> bool:
        """True if it has so few repeats that all of them are run at once."""

    @property
    def work_ratio(self) -> float:
        """The ratio of its work to the work of its first repeats."""

    @property
    def too_much(self) -> bool:
        """True if it needs more memory than a run may use."""

    def is_task_of(self, job: Job) -> bool:
        """Return true if a job is the one that it would start."""

    def start(self, page: str, title: str, short: bool) -> Kept:
        """Queue the run and return it.

        page : prefix of the keys of its page. title : name of the run in the sidebar. short : true if it is known to
        take less than SOON.
        """


def matches_job(ready: Startable | None, job: Job | None) -> bool:
    """Return true if a job runs these settings, with all repeats or only the first ones."""
    if ready is None or job is None:
        return False
    return ready.is_task_of(job) or (ready.first is not None and ready.first.is_task_of(job))


def state(ready: Startable | None, newest: Job | None, pictured: Job | None) -> State:
    """Return the state of a page.

    ready : its present settings; None while they make no run. newest : the job that began last. pictured : the job
    whose results its picture, number and sentence show. In the states "queued", "old", "failed" and "stopped" the
    picture may be of earlier settings: it is pale unless `matches_job(ready, pictured)`.
    """
    job = next((job for job in (newest, pictured) if matches_job(ready, job)), None)
    if ready is None or job is None:  # no run has these settings
        return "idle" if pictured is None else "old"
    if job.active and not matches_job(ready, pictured):  # it has no curves yet
        return "queued"
    if job.state == "failed":
        return "failed"
    if job.state in ("stopped", "timeout"):
        return "stopped"
    has_first_repeats = pictured is not None and not ready.is_task_of(pictured)
    return "first repeats" if has_first_repeats else "all repeats"


def next_run(ready: Startable, newest: Job | None, others_wait: bool) -> Startable | None:
    """Return the run that is to begin by itself now; None if there is none.

    The first repeats of new settings begin at once. All repeats follow if the computing time of the first ones shows
    that all take less than FOLLOW, and no other visitor waits. Nothing begins by itself on a visitor's file, as each
    run there is a release, or if memory would not suffice.
    """
    if not ready.public or ready.too_much:
        return None
    if newest is None or not matches_job(ready, newest):
        return ready.first or ready
    are_first_done = newest.state == "done" and not ready.is_task_of(newest)  # it matches, so it had the first ones
    is_short_enough = newest.computing * ready.work_ratio < FOLLOW
    return ready if are_first_done and not others_wait and is_short_enough else None


def is_short(ready: Startable, newest: Job | None) -> bool:
    """Return true if the run that follows a page's newest job is known to be short.

    If the newest job had the first repeats of the same settings, their computing time shows it. Otherwise a run counts
    as short if it has few repeats.
    """
    if newest is not None and newest.state == "done" and matches_job(ready, newest):
        return newest.computing * ready.work_ratio < SOON
    return ready.has_few_repeats
