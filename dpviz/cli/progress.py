"""How far it is, on stderr; and Ctrl+C, which stops a run and keeps what it has found."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import click

STEPS = 1000  # of the bar


class Progress:
    """A bar on a terminal; elsewhere a line whenever there is another one; nothing if quiet. Told by any thread."""

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._lock, self._last = quiet, threading.Lock(), ""
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
