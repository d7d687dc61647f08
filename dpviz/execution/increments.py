"""Traces as messages: a growing trace is sent in increments, each with its new records.

So results come from workers to their server; whole outcomes go into the store and come from a cluster.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

import numpy as np

from dpviz.experiments.algorithm import Status
from dpviz.experiments.task import Outcome
from dpviz.experiments.trace import ArmTrace, Trace
from dpviz.problems.base import Condition, Metric
from dpviz.processes import pack, unpack

SMALL = 100_000  # bytes of an arm's outputs up to which every increment has them; larger ones are only in the last
_STATUSES: tuple[Status, ...] = get_args(Status)
_CODES = {status: code for code, status in enumerate(_STATUSES)}  # a status is sent as one byte


def outcome_to_bytes(outcome: Outcome) -> bytes:
    """Return an outcome, with its whole trace, as bytes."""
    description, arrays = (None, {}) if outcome.trace is None else Sender().increment(outcome.trace, last=True)
    return b"".join(pack(ending(outcome) | {"trace": description}, arrays))


def ending(outcome: Outcome) -> dict[str, Any]:
    """Return the fields of an outcome other than its trace, for the header of a message."""
    fields = {name: getattr(outcome, name) for name in ("state", "message", "seconds")}
    return fields | {"left_out": dict(outcome.left_out)}


def outcome_from_bytes(message: bytes | bytearray) -> Outcome:
    """Return the outcome that `outcome_to_bytes` wrote. Raises ValueError for bytes that are no outcome."""
    header, arrays = unpack(message)
    try:
        description = header.pop("trace")
        trace = None
        if description is not None:
            trace = Trace({})
            add_increment(trace, description, arrays)
        return Outcome(**header, trace=trace)
    except (KeyError, TypeError, IndexError, AttributeError) as error:  # a header or arrays of another form
        raise ValueError("these bytes are no outcome") from error


@dataclass
class _Sent:
    """The part of one arm that was sent.

    records : number of records. output_at : the iteration of the arm's outputs that were sent last; -1 before any.
    """

    records: int = 0
    output_at: int = -1


class Sender:
    """The sending side of a growing trace: makes increments, each with the records since the previous one."""

    def __init__(self) -> None:
        self._sent: dict[str, _Sent] = {}

    def increment(self, trace: Trace, last: bool = False) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return a header and arrays, to be packed, with the new records of every arm; `add_increment` adds them to a
        copy of the trace.

        The record that was sent last is sent again, since expensive diagnostics and the final status are filled in
        later. last : true for the last increment, which has outputs of any size.
        """
        descriptions: list[dict[str, Any]] = []
        arrays: dict[str, np.ndarray] = {}
        for index, (label, arm_trace) in enumerate(trace.arm_traces.items()):
            sent = self._sent.get(label)
            description: dict[str, Any] = {"label": label, "seconds": arm_trace.seconds}
            if sent is None:
                sent = self._sent[label] = _Sent()
                description |= {
                    "metrics": [asdict(metric) for metric in arm_trace.metrics],
                    "private": arm_trace.private,
                    "keeps_path": arm_trace.keeps_path,
                    "currency": arm_trace.currency,
                    "condition": asdict(arm_trace.condition),
                }
            first = max(0, sent.records - 1)  # the index of the first record of this increment
            description["first"] = first
            new_arrays = _records(arm_trace, first)
            latest = arm_trace.iterations[-1] if arm_trace.iterations else -1
            size = sum(array.nbytes for array in arm_trace.output.values())  # of the outputs of the latest iteration
            if last or (size <= SMALL and latest > sent.output_at):
                new_arrays |= {f"output/{name}": np.asarray(array) for name, array in arm_trace.output.items()}
                sent.output_at = latest
            sent.records = len(arm_trace.iterations)
            arrays |= {f"{index}/{name}": array for name, array in new_arrays.items()}
            descriptions.append(description)
        return {"arm_traces": descriptions}, arrays


def _records(arm_trace: ArmTrace, first: int) -> dict[str, np.ndarray]:
    """Return the records of an arm from index `first` on, as one array per series."""
    arrays = {"iterations": np.array(arm_trace.iterations[first:], dtype=np.int64), "stopped_at": arm_trace.stopped_at}
    codes = [[_CODES[status] for status in statuses] for statuses in arm_trace.statuses[first:]]
    arrays["statuses"] = np.array(codes, dtype=np.uint8)
    for name in ("spent", "cloud"):
        records = getattr(arm_trace, name)
        if records:
            arrays[name] = np.array(records[first:])
    for kind, series in (("values", arm_trace.values), ("path", arm_trace.path)):
        # An empty array passes on the name of a path that is not kept, or of a metric without a record so far.
        arrays |= {f"{kind}/{name}": np.array(records[first:]) for name, records in series.items()}
    return arrays


def add_increment(trace: Trace, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Add an increment of a `Sender` to a trace, which other threads may read at the same time.

    header, arrays : those of `Sender.increment`, unpacked. The first increment of an arm describes it.
    """
    arm_traces = dict(trace.arm_traces)
    for index, description in enumerate(header["arm_traces"]):
        label, first = description["label"], description["first"]
        if label not in arm_traces:
            arm_traces[label] = ArmTrace(
                tuple(Metric(**metric) for metric in description["metrics"]),
                private=description["private"],
                keeps_path=description["keeps_path"],
                currency=description["currency"],
                condition=Condition(tuple(description["condition"]["read"]), description["condition"]["seeded"]),
            )
        arm_trace, prefix = arm_traces[label], f"{index}/"
        # Named as by `_records`, and "output/…" for outputs. Copies: a view would keep the whole message in memory.
        copies = {name.removeprefix(prefix): array.copy() for name, array in arrays.items() if name.startswith(prefix)}
        for name, array in copies.items():
            kind, _, key = name.partition("/")
            if kind in ("values", "path"):
                _put(getattr(arm_trace, kind).setdefault(key, []), first, array)
            elif kind in ("spent", "cloud"):
                _put(getattr(arm_trace, kind), first, array)
        output = {name.removeprefix("output/"): array for name, array in copies.items() if name.startswith("output/")}
        arm_trace.output = output or arm_trace.output  # an increment without outputs leaves the earlier ones
        statuses = [tuple(_STATUSES[code] for code in codes) for codes in copies["statuses"].tolist()]
        _put(arm_trace.statuses, first, statuses)
        arm_trace.stopped_at, arm_trace.seconds = copies["stopped_at"], description["seconds"]
        # The iterations come last: readers take the number of complete records from the length of that list.
        _put(arm_trace.iterations, first, copies["iterations"].tolist())
    if len(arm_traces) > len(trace.arm_traces):
        trace.arm_traces = arm_traces  # in one assignment: a reader sees none of the new arms or all


def _put(series: list[Any], first: int, records: Sequence[Any] | np.ndarray) -> None:
    """Write records into a list from index `first` on, over those that are there."""
    series[first : first + len(records)] = records
