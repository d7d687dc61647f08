"""Who computes, and where finished cells are kept: the options that `run` and `sweep` share."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from dpviz.execution.cluster import Cluster
from dpviz.execution.executors import Slots
from dpviz.execution.store import VARIABLE, Store, Stored, usual
from dpviz.experiments.task import Executor, InThread
from dpviz.privacy.budgets import ApproximateDP

Command = TypeVar("Command", bound=Callable[..., Any])
DELTA = ApproximateDP().delta  # at which ε is read where a budget has no δ of its own


def common_options(command: Command) -> Command:
    """Adds --diagnostics, --store and --quiet."""
    for option in (
        click.option("--quiet", "-q", is_flag=True, help="No progress."),
        click.option(
            "--store",
            metavar="PATH|off",
            default="",
            help=f"Where finished runs are kept, or off. Default: the variable {VARIABLE}, or your cache folder.",
        ),
        click.option(
            "--diagnostics",
            is_flag=True,
            help="Of your own file also what reads the raw data. That is not private: do not publish it.",
        ),
    ):
        command = option(command)
    return command


def delta_option(command: Command) -> Command:
    """Adds --delta."""
    return click.option(
        "--delta",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        callback=_number,
        default=DELTA,
        show_default=True,
        help="At which ε is read, unless the budget has a δ of its own.",
    )(command)


def _number(_: click.Context, __: click.Parameter, delta: float) -> float:
    if math.isnan(delta):  # which is within every range
        raise click.BadParameter("nan is not a number.")
    return delta


@dataclass(frozen=True)
class Computing:
    """Who computes, and the store that stands before."""

    executor: Executor
    store: Store | None

    def keeps(self, repeatable: bool) -> bool:
        """Whether what is finished can be found again."""
        return repeatable and self.store is not None and not self.store.note


@contextmanager
def computing(store: str, workers: int = 1, cluster: str = "") -> Iterator[Computing]:
    """As the options say; one worker is this process. At the end it is said what is wrong with the store.

    Raises UserError for a cluster's address that is none.
    """
    inner: Executor = Cluster(cluster) if cluster else InThread()
    found = usual(store)
    slots = Slots(workers, processes=True, max_bytes=math.inf) if workers > 1 and not cluster else None
    inner = inner if slots is None else slots.place()
    try:
        yield Computing(inner if found is None else Stored(inner, found), found)
    finally:
        if slots is not None:
            slots.close()
        if found is not None:
            found.close()
            if found.note:
                click.echo(found.note, err=True)
