"""A worker: a process that runs cells for a server, one at a time. Started as `python -m dpviz.execution.worker`."""

import gc
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpviz import families, later
from dpviz.execution.auditing import Auditing
from dpviz.execution.increments import Sender, ending
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.task import Cell, Outcome, execute
from dpviz.experiments.trace import Trace
from dpviz.processes import Parent, limited, pack, resident, unpack
from dpviz.specification import Specification

EVERY = 0.1  # seconds between two increments


class _Stop:
    """The server's requests to stop a cell, by its number. `on_message` is called by another thread while the cell
    computes."""

    def __init__(self) -> None:
        self.number = self._stopped = -1

    def on_message(self, message: bytearray) -> bool:
        """Note a request to stop and return True; return False for another message."""
        header, _ = unpack(message)
        if "stop" not in header:
            return False
        self._stopped = header["stop"]
        return True

    def is_set(self) -> bool:
        """Return whether the cell that runs shall stop."""
        return self._stopped == self.number


class _Reporter:
    """Sends the records of a run to the server during the run, at most every `EVERY` seconds.

    whole : send the trace, too; else only the progress until the end.
    """

    def __init__(self, parent: Parent, whole: bool) -> None:
        self._parent, self._whole = parent, whole
        self._sender, self._sent_at, self._has_sent_curves = Sender(), 0.0, False

    def step(self, trace: Trace | None, progress: float) -> None:
        """Send the trace so far and the progress, if it is time; the first curves are sent at once."""
        trace = trace if self._whole else None
        is_first = trace is not None and not self._has_sent_curves and trace.has_curves
        if is_first or time.monotonic() - self._sent_at >= EVERY:
            self._has_sent_curves = self._has_sent_curves or is_first
            description, arrays = ({}, {}) if trace is None else self._sender.increment(trace)
            self._parent.send(pack({"progress": progress, "trace": description}, arrays))
            self._sent_at = time.monotonic()

    def end(self, outcome: Outcome) -> None:
        """Send the outcome. After a failure, perhaps of sending, the whole trace is sent again."""
        if outcome.state == "failed":
            self._sender = Sender()
        description, arrays = ({}, {}) if outcome.trace is None else self._sender.increment(outcome.trace, last=True)
        self._parent.send(pack({"trace": description, "end": ending(outcome) | {"resident": resident()}}, arrays))


def _run(parent: Parent, stop: _Stop, header: Mapping[str, Any], tables: Mapping[str, np.ndarray]) -> None:
    stop.number = header["number"]
    reporter = _Reporter(parent, header["keep"] == "all")
    with limited(header["max_bytes"], header["max_seconds"]):
        task = Specification.from_json(header["text"])
        assert isinstance(task, Experiment | Auditing)
        cell = Cell(task, tables, header["keep"])
        outcome = execute(cell, stop, reporter.step, header["max_seconds"])
    reporter.end(outcome)


def main() -> None:
    """Run the cells that the server sends, until the server is gone."""
    stop = _Stop()
    parent = Parent(stop.on_message)
    families.load_all()  # before the first run asks for one of them
    later.now()
    gc.collect()
    gc.freeze()  # imported objects stay: to search them again after each run took a sixth of a short one's time
    parent.send(pack({"ready": True}, {}))
    for message in parent.messages():
        header, tables = unpack(message)
        _run(parent, stop, header, tables)
        del message, tables
        gc.collect()


if __name__ == "__main__":
    main()
