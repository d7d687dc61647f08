"""How a job is doing, in words: in line, under way, ended; the same for runs and sweeps.

How long a run takes follows from its data, and no budget pays for that: of a visitor's own file no time is told.
"""

from dpviz.execution.runner import Job
from dpviz.numbers import about

KEPT, AT_LIMIT = "What was computed is kept.", "Stopped at the time limit"
DEPENDS = "When it stopped depends on the data: no guarantee covers that."


def active(job: Job, done: str) -> str:
    """A job in line or under way. done : how far it is, "3 of 100 steps"."""
    if job.state == "queued":
        return waiting(job)
    left = job.seconds_left if job.experiment.public else None
    return f"{done}, {about(left)} left" if left is not None else done


def waiting(job: Job) -> str:
    """A job in line: at which place."""
    if (place := job.position) is None:
        return "Starting"
    return f"Waiting: {'next' if place == 0 else _ordinal(place + 1)} in line. Stop leaves the line."


def ended(job: Job, done: str) -> str:
    """How a job came to its end, and what is left of it. done : how far it came; of one that is done, all there was."""
    if job.state == "done":
        return f"Done: {done}{took(job)}"
    if job.state == "failed":
        return f"Failed: {job.message}"
    if job.state == "stopped" and not job.seconds:
        return "Stopped before it began."
    reason = "Stopped" if job.state == "stopped" else AT_LIMIT
    depends = f" {DEPENDS}" if job.state == "timeout" and not job.experiment.public else ""
    return f"{reason} after {done}{took(job, ' ({:.1f} s)')}. {job.message or KEPT}{depends}"


def took(job: Job, words: str = " in {:.1f} s") -> str:
    """How long it took, to be said behind how far it came; nothing of a visitor's own file."""
    return words.format(job.seconds) if job.experiment.public else ""


def _ordinal(number: int) -> str:
    """2nd, 3rd, 4th, 11th, 21st."""
    last = 0 if number % 100 in (11, 12, 13) else number % 10
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"
