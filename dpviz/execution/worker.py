"""A worker: a process that runs cells, i.e. experiments or audits, for a server, one at a time.

The server starts it as `python -m dpviz.execution.worker`.
"""

import gc
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpviz import families, later
from dpviz.datasets.uploads.files import TableFile
from dpviz.errors import UserError
from dpviz.execution.auditing import Auditing
from dpviz.execution.increments import Sender, ending
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.task import Cell, Outcome, execute
from dpviz.experiments.trace import Trace
from dpviz.processes import ParentConnection, pack, process_limits, resident, unpack
from dpviz.specification import MODULES, Specification

EVERY = 0.1  # seconds between two increments


class _Stop:
    """A signal that the running cell shall stop, by a request of the server that names the cell's number.

    `on_message` is called by another thread while the cell computes.
    """

    def __init__(self) -> None:
        self.number = -1  # of the cell that runs
        self._number_to_stop = -1  # of the cell in the latest request

    def on_message(self, message: bytearray) -> bool:
        """Store a request to stop and return True; return False for any other message."""
        header, _ = unpack(message)
        if "stop" not in header:
            return False
        self._number_to_stop = header["stop"]
        return True

    def is_set(self) -> bool:
        """Return true if the cell that runs shall stop."""
        return self._number_to_stop == self.number


class _Reporter:
    """Sends the records of a run to the server during the run, at most every `EVERY` seconds.

    whole : true to send the trace, too; else only the progress is sent until the end.
    """

    def __init__(self, parent: ParentConnection, whole: bool) -> None:
        self._parent, self._whole = parent, whole
        self._sender, self._sent_at, self._has_sent_curves = Sender(), 0.0, False

    def step(self, trace: Trace | None, progress: float) -> None:
        """Send new records and the progress if the last message is `EVERY` seconds old; the first curves at once."""
        if not self._whole:
            trace = None
        has_first_curves = trace is not None and not self._has_sent_curves and trace.has_curves
        if has_first_curves or time.monotonic() - self._sent_at >= EVERY:
            self._has_sent_curves = self._has_sent_curves or has_first_curves
            description, arrays = ({}, {}) if trace is None else self._sender.increment(trace)
            self._parent.send(pack({"progress": progress, "trace": description}, arrays))
            self._sent_at = time.monotonic()

    def end(self, outcome: Outcome) -> None:
        """Send the outcome with the remaining records.

        After a failure, which sending may have caused, the whole trace is sent again.
        """
        if outcome.state == "failed":
            self._sender = Sender()
        description, arrays = ({}, {}) if outcome.trace is None else self._sender.increment(outcome.trace, last=True)
        end = ending(outcome) | {"resident": resident()}  # by its memory the server decides about another worker
        self._parent.send(pack({"trace": description, "end": end}, arrays))


def _run(parent: ParentConnection, stop: _Stop, header: Mapping[str, Any], tables: Mapping[str, np.ndarray]) -> None:
    """Run the cell of one message of the server, within its limits of memory and time, and send the results."""
    stop.number = header["number"]
    reporter = _Reporter(parent, whole=header["keep"] == "all")
    files: dict[str, Any] = {identity: TableFile(Path(path)) for identity, path in header["files"].items()}
    # The limits end the process if `execute` does not stop in time.
    with process_limits(header["max_bytes"], header["max_seconds"]):
        try:
            task = Specification.from_json(header["text"])
        except UserError as error:  # it holds a kind of the user's own code
            hint = f"Further processes import the modules that {MODULES} names, from folders of PYTHONPATH."
            outcome = Outcome("failed", f"{error} {hint}")
        else:
            assert isinstance(task, Experiment | Auditing)
            cell = Cell(task, {**tables, **files}, header["keep"])
            outcome = execute(cell, stop, reporter.step, header["max_seconds"])
    reporter.end(outcome)


def main() -> None:
    """Run the cells that the server sends, until the server is gone."""
    stop = _Stop()
    parent = ParentConnection(stop.on_message)
    # Import everything now, so that no run has to wait for it.
    families.load_all()
    later.import_tables()
    gc.collect()
    gc.freeze()  # imported objects stay; to search them again after each run took a sixth of the time of a short run
    parent.send(pack({"ready": True}, {}))
    for message in parent.messages():
        header, tables = unpack(message)
        _run(parent, stop, header, tables)
        del message, tables  # a waiting worker must not hold a visitor's table in memory
        gc.collect()


if __name__ == "__main__":
    main()
