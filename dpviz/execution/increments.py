"""Traces in messages, piece by piece: from workers to their server, into the store, from a cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

import numpy as np

from dpviz.experiments.algorithm import Status
from dpviz.experiments.task import Outcome
from dpviz.experiments.trace import ArmTrace, Trace
from dpviz.problems.base import Condition, Metric
from dpviz.processes import pack, unpack

SMALL = 100_000  # bytes of an arm's outputs up to which they are in every increment; larger ones only in the last
_WORDS: tuple[Status, ...] = get_args(Status)
_CODES = {word: code for code, word in enumerate(_WORDS)}


def outcome_to_bytes(outcome: Outcome) -> bytes:
    """Return an outcome with its trace as bytes."""
    description, arrays = (None, {}) if outcome.trace is None else Sender().increment(outcome.trace, last=True)
    return b"".join(pack(ending(outcome) | {"trace": description}, arrays))


def ending(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome without its trace, for a header."""
    fields = {name: getattr(outcome, name) for name in ("state", "message", "seconds")}
    return fields | {"left_out": dict(outcome.left_out)}


def outcome_from_bytes(message: bytes | bytearray) -> Outcome:
    """Return the outcome that `outcome_to_bytes` wrote. Raises ValueError for bytes that are no outcome."""
    header, arrays = unpack(message)
    try:
        description, trace = header.pop("trace"), None
        if description is not None:
            trace = Trace({})
            extend(trace, description, arrays)
        return Outcome(**header, trace=trace)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError("these bytes are no outcome") from error


@dataclass
class _Sent:
    """Progress of sending one arm.

    rows : number of its records that were sent. output : the iteration of the outputs that were sent; -1 before any.
    """

    rows: int = 0
    output: int = -1


class Sender:
    """Cuts a growing trace into increments, each with the records since the last one."""

    def __init__(self) -> None:
        self._sent: dict[str, _Sent] = {}

    def increment(self, trace: Trace, last: bool = False) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return header and arrays of the new records, to be packed; with `last`, with outputs of any size.

        The last record that was sent is sent again: expensive diagnostics and the final status are filled in later.
        """
        descriptions: list[dict[str, Any]] = []
        arrays: dict[str, np.ndarray] = {}
        for index, (label, arm_trace) in enumerate(trace.lanes.items()):
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
            description["first"] = first = max(0, sent.rows - 1)
            new_arrays = _rows(arm_trace, first)
            latest = arm_trace.iterations[-1] if arm_trace.iterations else -1
            size = sum(array.nbytes for array in arm_trace.output.values())
            if last or (size <= SMALL and latest > sent.output):
                new_arrays |= {f"output/{name}": np.asarray(array) for name, array in arm_trace.output.items()}
                sent.output = latest
            sent.rows = len(arm_trace.iterations)
            arrays |= {f"{index}/{name}": array for name, array in new_arrays.items()}
            descriptions.append(description)
        return {"lanes": descriptions}, arrays


def _rows(arm_trace: ArmTrace, first: int) -> dict[str, np.ndarray]:
    """Return the stacked records of an arm from number `first` on."""
    arrays = {"iterations": np.array(arm_trace.iterations[first:], dtype=np.int64), "stopped_at": arm_trace.stopped_at}
    codes = [[_CODES[word] for word in statuses] for statuses in arm_trace.statuses[first:]]
    arrays["statuses"] = np.array(codes, dtype=np.uint8)
    arrays |= {name: np.array(rows[first:]) for name in ("spent", "cloud") if (rows := getattr(arm_trace, name))}
    for kind, series in (("values", arm_trace.values), ("path", arm_trace.path)):
        # An empty array also tells the name of a path that is not kept, or of a metric without a record so far.
        arrays |= {f"{kind}/{name}": np.array(rows[first:]) for name, rows in series.items()}
    return arrays


def extend(trace: Trace, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Add an increment to a trace, which other threads may read at the same time. The first increment names the
    arms."""
    descriptions: Sequence[Mapping[str, Any]] = header["lanes"]
    arm_traces = dict(trace.lanes)
    for description in descriptions:
        if description["label"] not in arm_traces:
            metrics = tuple(Metric(**metric) for metric in description["metrics"])
            arm_traces[description["label"]] = ArmTrace(
                metrics,
                description["private"],
                description["keeps_path"],
                description["currency"],
                condition=Condition(tuple(description["condition"]["read"]), description["condition"]["seeded"]),
            )
    for index, description in enumerate(descriptions):
        prefix = f"{index}/"
        of_arm = {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
        _extend_arm(arm_traces[description["label"]], description, of_arm)
    if len(arm_traces) > len(trace.lanes):
        trace.lanes = arm_traces  # in one assignment: a reader sees no arm or all


def _extend_arm(arm_trace: ArmTrace, description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Add one arm's part of an increment; arrays by name, as of `_rows`."""
    first = description["first"]
    for name, array in arrays.items():
        kind, _, key = name.partition("/")
        if kind in ("values", "path"):
            _put(
                getattr(arm_trace, kind).setdefault(key, []), first, array.copy()
            )  # a view would keep the whole message in memory
        elif kind in ("spent", "cloud"):
            _put(getattr(arm_trace, kind), first, array.copy())
    output = {name.partition("/")[2]: array.copy() for name, array in arrays.items() if name.startswith("output/")}
    arm_trace.output = output or arm_trace.output
    _put(arm_trace.statuses, first, [tuple(_WORDS[code] for code in row) for row in arrays["statuses"].tolist()])
    arm_trace.stopped_at, arm_trace.seconds = arrays["stopped_at"].copy(), description["seconds"]
    _put(arm_trace.iterations, first, arrays["iterations"].tolist())  # last: readers take the length of that list once


def _put(series: list[Any], first: int, rows: Sequence[Any] | np.ndarray) -> None:
    """Write rows into a list from index `first` on."""
    series[first : first + len(rows)] = rows
