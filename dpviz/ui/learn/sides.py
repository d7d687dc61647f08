"""The two runs of a lesson: begun when it is opened, and computed once for all visitors."""

from collections.abc import Sequence
from typing import Literal

import streamlit as st

from dpviz.experiments.experiment import Experiment
from dpviz.lessons.lesson import Lesson, Side
from dpviz.ui import visitors
from dpviz.ui.experiment.run import FIRST_PICTURE, POLL, Run, runner

Which = Literal["before", "after"]
BOTH: tuple[Which, Which] = ("before", "after")


def begin(lesson: Lesson) -> None:
    """Start what has not begun; what anybody has run before is there at once."""
    for which in BOTH:
        settings, run = getattr(lesson, which), _run(lesson, which)
        if isinstance(settings, Experiment) and (run is None or run.job.state == "stopped"):
            plans = settings.plans()
            here = visitors.here()
            job = runner().submit(settings, visitor=here.name, expected=settings.estimated_seconds(plans))
            here.keep(_key(lesson, which), Run(job, plans, "learn", lesson.title))


def ready(lesson: Lesson, needed: Sequence[Which]) -> bool:
    """Whether these sides have all that they will have; if not, the page says why, and looks again."""
    runs = [run for which in needed if (run := _run(lesson, which)) is not None]
    for run in runs:
        run.job.wait(FIRST_PICTURE)
    if any(run.job.active for run in runs):
        _look_again(runs)
        return False
    failed = next((run for run in runs if run.job.state != "done"), None)
    if failed is not None:
        st.error(failed.job.message, title="The run of this lesson did not finish")
        st.button("Try again", key="learn_again", on_click=_forget, args=(lesson,))
    return failed is None


def of(lesson: Lesson) -> tuple[Side, Side]:
    """What is known of both sides now."""
    return _side(lesson, "before"), _side(lesson, "after")


def _side(lesson: Lesson, which: Which) -> Side:
    settings, run = getattr(lesson, which), _run(lesson, which)
    if run is None:
        return Side(settings)
    return Side(settings, run.plans, run.job.trace if run.job.state == "done" else None)


def _key(lesson: Lesson, which: Which) -> str:
    return f"learn_{lesson.slug}_{which}"


def _run(lesson: Lesson, which: Which) -> Run | None:
    run: Run | None = st.session_state.get(_key(lesson, which))
    return run


def _forget(lesson: Lesson) -> None:
    for which in BOTH:
        st.session_state.pop(_key(lesson, which), None)


def _look_again(runs: Sequence[Run]) -> None:
    @st.fragment(run_every=max(POLL, *(run.look() for run in runs)))
    def look() -> None:
        st.caption(":material/directions_run: The runs of this lesson are under way.")
        if not any(run.job.active for run in runs):
            st.rerun()

    look()
