"""Sentences about the state of a job, which is in the queue, under way or finished; the same for runs and sweeps.

The time that a run takes depends on its data, and no budget pays for that: no time is shown for a visitor's file.
"""

from dpviz.execution.runner import Job
from dpviz.numbers import about

KEPT, AT_LIMIT = "What was computed is kept.", "Stopped at the time limit"
DEPENDS = "When it stopped depends on the data: no guarantee covers that."


def active_text(job: Job, done: str) -> str:
    """Return a text about a job in the queue or under way. done : its progress, such as "3 of 100 steps"."""
    if job.state == "queued":
        return waiting_text(job)
    remaining = job.seconds_left if job.experiment.public else None
    if remaining is None:
        return done
    return f"{done}, {about(remaining)} left"


def waiting_text(job: Job) -> str:
    """Return a text about the position of a job in the queue."""
    position = job.position
    if position is None:  # it was taken from the queue
        return "Starting"
    return f"Waiting: {'next' if position == 0 else _ordinal(position + 1)} in line. Stop leaves the line."


def ended_text(job: Job, done: str) -> str:
    """Return a text about the end of a job and the results that are kept.

    done : its progress at the end, such as "100 of 100 steps".
    """
    if job.state == "done":
        return f"Done: {done}{duration_text(job)}"
    if job.state == "failed":
        return f"Failed: {job.message}"
    if job.state == "stopped" and not job.seconds:  # seconds since it began
        return "Stopped before it began."
    reason = "Stopped" if job.state == "stopped" else AT_LIMIT
    depends = f" {DEPENDS}" if job.state == "timeout" and not job.experiment.public else ""
    duration = duration_text(job, template=" ({:.1f} s)")
    return f"{reason} after {done}{duration}. {job.message or KEPT}{depends}"


def duration_text(job: Job, template: str = " in {:.1f} s") -> str:
    """Return the seconds that a job took, filled into a template; empty for a visitor's file."""
    return template.format(job.seconds) if job.experiment.public else ""


def _ordinal(number: int) -> str:
    """Return the number as 2nd, 3rd, 4th, 11th, 21st."""
    last_digit = 0 if number % 100 in (11, 12, 13) else number % 10
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{endings.get(last_digit, 'th')}"
