"""How a job is doing, in words."""

import pytest

from dpviz.datasets import UploadedTable
from dpviz.execution import progress
from dpviz.execution.executors import CUT_OFF, SlotExecutor
from dpviz.execution.runner import Job, State
from dpviz.experiments.trace import ArmTrace, Trace
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.ui.experiment.run import MIN_INTERVAL, WAITING_INTERVALS, Run
from tests.ui.test_show import TINY


class Waits(SlotExecutor):
    """A place in some line."""

    position = 0  # type: ignore[assignment]

    def __init__(self, position: int) -> None:
        self.position = position  # type: ignore[misc]


@pytest.mark.parametrize(
    ("before", "which"), [(0, "next"), (1, "2nd"), (2, "3rd"), (3, "4th"), (10, "11th"), (20, "21st"), (111, "112th")]
)
def test_who_waits_sees_the_place_in_line(before: int, which: str) -> None:
    job = Job(TINY, {})
    assert progress.active_text(job, "") == "Starting"  # nobody has given it a place yet
    job.slot_executor = Waits(before)
    assert progress.active_text(job, "") == f"Waiting: {which} in line. Stop leaves the line."


def test_who_runs_sees_how_far_it_is_and_what_is_left() -> None:
    job = Job(TINY, {})
    job.state = "running"
    assert progress.active_text(job, "3 of 100 steps") == "3 of 100 steps"
    job.progress, job.seconds = 0.25, 4.0
    assert progress.active_text(job, "25 of 100 steps") == "25 of 100 steps, about 12 seconds left"


@pytest.mark.parametrize(
    ("state", "message", "words"),
    [
        ("done", "", "Done: 5 steps in 1.5 s"),
        ("stopped", "", "Stopped after 5 steps (1.5 s). What was computed is kept."),
        ("stopped", CUT_OFF, f"Stopped after 5 steps (1.5 s). {CUT_OFF}"),
        ("timeout", "", "Stopped at the time limit after 5 steps (1.5 s). What was computed is kept."),
        ("failed", "It needed more memory.", "Failed: It needed more memory."),
    ],
)
def test_every_ending_has_a_sentence(state: State, message: str, words: str) -> None:
    job = Job(TINY, {})
    job.state, job.message, job.progress, job.seconds = state, message, 0.5, 1.5
    assert progress.ended_text(job, "5 steps") == words


@pytest.mark.parametrize("state", ["running", "done", "stopped", "timeout"])
def test_of_an_own_file_no_time_is_told(state: State) -> None:
    """How long it takes is a function of its rows."""
    upload = UploadedTable(identity="0" * 32, n=100, bounds=((0.0, 1.0),), names=("a",))
    job = Job(TINY.replaced(problem=LogisticRegression(data=upload), seed=None), {})
    job.state, job.progress, job.seconds = state, 0.5, 1.5
    said = progress.active_text(job, "5 steps") if state == "running" else progress.ended_text(job, "5 steps")
    assert (progress.DEPENDS in said) == (state == "timeout")
    assert "5 steps" in said and not any(word in said for word in ("1.5", "second", "left"))
    job.trace = Trace({})
    job.trace.arm_traces = {
        word: ArmTrace((), private=word == "private", iterations=[0, 4]) for word in ("private", "other")
    }
    if state == "done":
        assert Run(job, {}, "accel", "Accelerated gradient").progress_text == "4 private steps"


def test_nothing_is_said_to_be_kept_of_a_run_that_left_the_line() -> None:
    job = Job(TINY, {})
    job.state = "stopped"
    assert progress.ended_text(job, "0 of 9 steps") == "Stopped before it began."


def test_who_waits_long_is_looked_at_less_often_than_who_runs() -> None:
    job = Job(TINY, {})
    run = Run(job, {}, "accel", "Accelerated gradient")
    assert not run.waits and run.poll_interval() == MIN_INTERVAL
    job.slot_executor = Waits(0)
    assert not run.waits and run.poll_interval() == MIN_INTERVAL
    job.slot_executor = Waits(3)
    assert run.waits and run.poll_interval() == 3.0
    job.slot_executor = Waits(40)
    assert run.poll_interval() == WAITING_INTERVALS[1]
    job.state = "running"
    assert not run.waits and run.poll_interval() == run.poll_interval(took=0.01) == MIN_INTERVAL


def test_a_busy_server_is_asked_less_often() -> None:
    """On one that needs 0.2 s for a look: as many looks as without others would take all of its time."""
    run = Run(Job(TINY, {}), {}, "accel", "Accelerated gradient")
    assert MIN_INTERVAL < run.poll_interval(took=0.2) < run.poll_interval(took=5.0) == WAITING_INTERVALS[0]
