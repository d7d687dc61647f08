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
    """Whether the server has asked to stop the cell that runs; it is on_message while that computes."""

    def __init__(self) -> None:
        self.number = self._stopped = -1

    def on_message(self, message: bytearray) -> bool:
        """Take note of a request to stop; False for another message."""
        header, _ = unpack(message)
        if "stop" not in header:
            return False
        self._stopped = header["stop"]
        return True

    def is_set(self) -> bool:
        """Whether it is this cell that shall stop."""
        return self._stopped == self.number


class _Reporter:
    """Sends what a run has recorded, as it goes, but not more often than a page would show it."""

    def __init__(self, parent: Parent, whole: bool) -> None:
        self._parent, self._whole = parent, whole
        self._sender, self._sent, self._begun = Sender(), 0.0, False

    def step(self, trace: Trace | None, progress: float) -> None:
        """The run has come so far."""
        trace = trace if self._whole else None
        first = trace is not None and not self._begun and trace.has_curves
        if first or time.monotonic() - self._sent >= EVERY:
            self._begun = self._begun or first
            described, arrays = ({}, {}) if trace is None else self._sender.increment(trace)
            self._parent.send(pack({"progress": progress, "trace": described}, arrays))
            self._sent = time.monotonic()

    def end(self, outcome: Outcome) -> None:
        """The run has ended. What has failed, perhaps while it was sent, is sent from its beginning."""
        if outcome.state == "failed":
            self._sender = Sender()
        described, arrays = ({}, {}) if outcome.trace is None else self._sender.increment(outcome.trace, last=True)
        self._parent.send(pack({"trace": described, "end": ending(outcome) | {"resident": resident()}}, arrays))


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
    """Run what the server sends, until it is gone."""
    stop = _Stop()
    parent = Parent(stop.on_message)
    families.load_all()  # before the first run asks for one of them
    later.now()
    gc.collect()
    gc.freeze()  # what was imported stays: to look at it again after each run took a sixth of a short one's time
    parent.send(pack({"ready": True}, {}))
    for message in parent.messages():
        header, tables = unpack(message)
        _run(parent, stop, header, tables)
        del message, tables
        gc.collect()


if __name__ == "__main__":
    main()
