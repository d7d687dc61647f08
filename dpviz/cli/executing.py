"""Who computes, how far it is, and where finished cells are kept; Ctrl+C stops a run and keeps what it has found."""

import math
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import click

from dpviz.cli.files import Command
from dpviz.errors import UserError
from dpviz.execution.cluster import Cluster
from dpviz.execution.executors import Slots
from dpviz.execution.store import VARIABLE, Store, Stored, usual
from dpviz.experiments.task import Executor, InThread, seconds_left
from dpviz.numbers import duration

STEPS = 1000  # of the bar


def common_options(command: Command) -> Command:
    """Adds --diagnostics, --store, --max-seconds and --quiet."""
    for option in (
        click.option(
            "--max-seconds",
            type=click.FloatRange(0, min_open=True),
            default=math.inf,
            metavar="SECONDS",
            help="Stop after so much computing time, and keep what was computed. Default: no limit.",
        ),
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


@dataclass(frozen=True)
class Computing:
    """Who computes, and the store that stands before."""

    executor: Executor
    store: Store | None

    def keeps(self, repeatable: bool) -> bool:
        """Whether what is finished can be found again."""
        return repeatable and self.store is not None and not self.store.note


@contextmanager
def computing(store: str, max_seconds: float, workers: int = 1, cluster: str = "") -> Iterator[Computing]:
    """As the options say; one worker is this process. At the end it is said what is wrong with the store.

    Raises UserError for a cluster's address that is none, and for a limit that a cluster does not know.
    """
    if cluster and max_seconds < math.inf:
        raise UserError("A cluster knows no limit of time. Leave --max-seconds out.")
    inner: Executor = Cluster(cluster) if cluster else InThread(max_seconds)
    found = usual(store)
    slots = Slots(workers, processes=True, max_bytes=math.inf) if workers > 1 and not cluster else None
    inner = inner if slots is None else slots.place(max_seconds=max_seconds)
    try:
        yield Computing(inner if found is None else Stored(inner, found), found)
    finally:
        if slots is not None:
            slots.close()
        if found is not None and found.note:
            click.echo(found.note, err=True)


class Progress:
    """A bar on a terminal; elsewhere a line whenever there is another one; nothing if quiet. Told by any thread.

    timed : whether the time to the end may be said, which is a function of the data.
    """

    def __init__(self, quiet: bool, timed: bool) -> None:
        self._quiet, self._timed, self._lock, self._last = quiet, timed, threading.Lock(), ""
        self._began = time.monotonic()
        self._bar = None
        if not quiet and sys.stderr.isatty():
            self._bar = click.progressbar(
                length=STEPS,
                file=sys.stderr,
                show_eta=False,
                show_percent=True,
                item_show_func=lambda text: text,
                update_min_steps=0,  # the text may change where the bar does not
            )

    def __enter__(self) -> "Progress":
        if self._bar is not None:
            self._bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.render_finish()

    def time_left(self, share: float, restored: float = 0.0) -> str:
        """Such as "8 seconds left"; empty as long as that cannot be told. As `seconds_left`."""
        gone = time.monotonic() - self._began
        left = seconds_left(gone, share, restored) if self._timed else None
        return f"{duration(left)} left" if left and gone > 1 else ""

    def tell(self, share: float, text: str, line: str) -> None:
        """How much is done, in [0, 1]; what to say of it beside the bar, and as a line elsewhere."""
        with self._lock:
            if self._bar is not None:
                self._bar.update(round(share * STEPS) - self._bar.pos, text)
            elif not self._quiet and line != self._last:
                click.echo(line, err=True)
            self._last = line


@contextmanager
def stopped_by_ctrl_c() -> Iterator[threading.Event]:
    """An event that is set by the first Ctrl+C. The second one ends the program."""
    stopping = threading.Event()

    def interrupt(_: int, __: FrameType | None) -> None:
        if stopping.is_set():
            raise KeyboardInterrupt
        stopping.set()
        click.echo("\nStopping. Press Ctrl+C again to end at once.", err=True)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield stopping
    finally:
        signal.signal(signal.SIGINT, before)
