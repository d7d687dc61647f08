"""A trace that travels in messages, piece by piece: to a server from its workers, into the store, from a cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

import numpy as np

from dpviz.experiments.algorithm import Status
from dpviz.experiments.task import Outcome
from dpviz.experiments.trace import ArmTrace, Trace
from dpviz.problems.base import Condition, Metric
from dpviz.processes import pack, unpack

SMALL = 100_000  # bytes of the outputs of an arm that travel with every increment; larger ones come once, at the end
_WORDS: tuple[Status, ...] = get_args(Status)
_CODES = {word: code for code, word in enumerate(_WORDS)}


def outcome_to_bytes(outcome: Outcome) -> bytes:
    """An outcome, whole."""
    described, arrays = (None, {}) if outcome.trace is None else Sender().increment(outcome.trace, last=True)
    return b"".join(pack(ending(outcome) | {"trace": described}, arrays))


def ending(outcome: Outcome) -> dict[str, Any]:
    """How it ended, for a header: an outcome without its trace."""
    words = {name: getattr(outcome, name) for name in ("state", "message", "seconds")}
    return words | {"left_out": dict(outcome.left_out)}


def outcome_from_bytes(message: bytes | bytearray) -> Outcome:
    """The inverse of `outcome_to_bytes`. Raises ValueError for bytes that are none."""
    header, arrays = unpack(message)
    try:
        described, trace = header.pop("trace"), None
        if described is not None:
            trace = Trace({})
            extend(trace, described, arrays)
        return Outcome(**header, trace=trace)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError("these bytes are no outcome") from error


@dataclass
class _Sent:
    """What of a lane is on its way already: rows, and the outputs as they were then."""

    rows: int = 0
    output: int = -1  # the iteration of the outputs


class Sender:
    """Cuts a growing trace into increments, each with what is new since the last one."""

    def __init__(self) -> None:
        self._sent: dict[str, _Sent] = {}

    def increment(self, trace: Trace, last: bool = False) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Header and arrays of what is new, to be packed; with `last`, the outputs however large they are.

        The last row that was sent is sent again: expensive diagnostics and the final status are filled in later.
        """
        lanes: list[dict[str, Any]] = []
        arrays: dict[str, np.ndarray] = {}
        for place, (label, lane) in enumerate(trace.lanes.items()):
            sent = self._sent.get(label)
            described: dict[str, Any] = {"label": label, "seconds": lane.seconds}
            if sent is None:
                sent = self._sent[label] = _Sent()
                described |= {
                    "metrics": [asdict(metric) for metric in lane.metrics],
                    "private": lane.private,
                    "keeps_path": lane.keeps_path,
                    "currency": lane.currency,
                    "condition": asdict(lane.condition),
                }
            described["first"] = first = max(0, sent.rows - 1)
            found = _rows(lane, first)
            latest = lane.iterations[-1] if lane.iterations else -1
            size = sum(array.nbytes for array in lane.output.values())
            if last or (size <= SMALL and latest > sent.output):
                found |= {f"output/{name}": np.asarray(array) for name, array in lane.output.items()}
                sent.output = latest
            sent.rows = len(lane.iterations)
            arrays |= {f"{place}/{name}": array for name, array in found.items()}
            lanes.append(described)
        return {"lanes": lanes}, arrays


def _rows(lane: ArmTrace, first: int) -> dict[str, np.ndarray]:
    """What a lane holds from a row on, stacked."""
    found = {"iterations": np.array(lane.iterations[first:], dtype=np.int64), "stopped_at": lane.stopped_at}
    codes = [[_CODES[word] for word in words] for words in lane.statuses[first:]]
    found["statuses"] = np.array(codes, dtype=np.uint8)
    found |= {name: np.array(rows[first:]) for name in ("spent", "cloud") if (rows := getattr(lane, name))}
    for kind, series in (("values", lane.values), ("path", lane.path)):
        # A path that is not kept, and a metric that is not recorded yet, are known by name all the same.
        found |= {f"{kind}/{name}": np.array(rows[first:]) for name, rows in series.items()}
    return found


def extend(trace: Trace, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Add an increment to a trace that others may be reading. The first one names the arms."""
    lanes: Sequence[Mapping[str, Any]] = header["lanes"]
    fresh = dict(trace.lanes)
    for described in lanes:
        if described["label"] not in fresh:
            metrics = tuple(Metric(**metric) for metric in described["metrics"])
            fresh[described["label"]] = ArmTrace(
                metrics,
                described["private"],
                described["keeps_path"],
                described["currency"],
                condition=Condition(tuple(described["condition"]["read"]), described["condition"]["seeded"]),
            )
    for place, described in enumerate(lanes):
        begin = f"{place}/"
        found = {name[len(begin) :]: array for name, array in arrays.items() if name.startswith(begin)}
        _extend_lane(fresh[described["label"]], described, found)
    if len(fresh) > len(trace.lanes):
        trace.lanes = fresh  # at once: readers see no arm or all


def _extend_lane(lane: ArmTrace, described: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    first = described["first"]
    for name, array in arrays.items():
        kind, _, key = name.partition("/")
        if kind in ("values", "path"):
            _put(getattr(lane, kind).setdefault(key, []), first, array.copy())  # a view would keep the whole message
        elif kind in ("spent", "cloud"):
            _put(getattr(lane, kind), first, array.copy())
    output = {name.partition("/")[2]: array.copy() for name, array in arrays.items() if name.startswith("output/")}
    lane.output = output or lane.output
    _put(lane.statuses, first, [tuple(_WORDS[code] for code in row) for row in arrays["statuses"].tolist()])
    lane.stopped_at, lane.seconds = arrays["stopped_at"].copy(), described["seconds"]
    _put(lane.iterations, first, arrays["iterations"].tolist())  # last: readers take the length of that list once


def _put(series: list[Any], first: int, rows: Sequence[Any] | np.ndarray) -> None:
    """Write rows into a list from a place on."""
    series[first : first + len(rows)] = rows
