"""What the Run button of a page starts."""

from typing import Protocol

from dpviz.execution.runner import Job
from dpviz.ui.visitors import Kept


class Startable(Protocol):
    """An experiment or an audit that is ready to run."""

    @property
    def public(self) -> bool:
        """Whether it may start by itself: it reads no file of a visitor's."""

    @property
    def likely(self) -> float:
        """About how many seconds it is likely to take."""

    @property
    def too_much(self) -> bool:
        """Whether it is beyond what a run may take."""

    def is_that_of(self, job: Job) -> bool:
        """Whether a job is the one that it would start."""

    def started(self, page: str, title: str) -> Kept:
        """The run, put in line."""
