"""An audit as the page runs it: in a worker process, with the buttons and the line of all runs."""

from dataclasses import dataclass
from functools import cached_property

import streamlit as st

from dpviz.audits.audit import Progress
from dpviz.execution.auditing import Auditing
from dpviz.execution.runner import Job
from dpviz.numbers import about, duration, short
from dpviz.ui import visitors
from dpviz.ui.experiment.run import Run, runner


@dataclass(frozen=True, eq=False)
class AuditRun(Run):
    """An audit under way, or at its end."""

    @property
    def auditing(self) -> Auditing:
        """What runs."""
        assert isinstance(self.job.task, Auditing)
        return self.job.task

    @property
    def progress(self) -> Progress | None:
        """What it has found so far; None before its first block of runs."""
        return None if self.job.trace is None else self.auditing.progress(self.job.trace)

    @property
    def done(self) -> str:
        """How many runs are done, on each data set."""
        so_far = f"{round(self.job.progress * self.auditing.runs):,} of " if self.job.state != "done" else ""
        return f"{so_far}{self.auditing.runs:,} runs on each data set"


@dataclass(frozen=True)
class Ready:
    """An audit that can be started."""

    auditing: Auditing
    public: bool = True

    @cached_property
    def likely(self) -> float:
        """About how many seconds it takes."""
        return self.auditing.estimated_seconds

    @property
    def too_much(self) -> bool:
        """Whether it is beyond what a run may take."""
        return self.likely > runner().max_seconds

    def is_that_of(self, job: Job) -> bool:
        """Whether a job is this audit."""
        return job.task == self.auditing

    def started(self, page: str, title: str) -> AuditRun:
        """Put it in line."""
        job = runner().submit(self.auditing, visitor=visitors.here().name, expected=self.likely)
        return AuditRun(job, {}, page, title)


def forecast(ready: Ready) -> None:
    """What the audit takes, and whether that is too much."""
    if not ready.too_much:
        st.caption(f"{ready.auditing.runs:,} runs on each data set, {about(ready.likely)}.")
        return
    limit = runner().max_seconds
    fit = int(ready.auditing.runs * limit / ready.likely)
    most = fit - fit % 10 ** (len(str(fit)) - 1)  # one digit is enough
    st.error(
        f"Runs end after {duration(limit)}. Choose at most {short(most)} runs.",
        title=f"This audit would take about {duration(ready.likely)}",
    )
