"""Audits as tasks: settings that travel to a worker, and what comes back while it runs, recorded as a trace."""

import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import ClassVar

import numpy as np

from dpviz import families
from dpviz.audits.audit import BLOCK, Attack, Audit, Broken, Case, Look, Progress
from dpviz.checkpoints import EVERY, at_checkpoints
from dpviz.datasets.base import NO_TABLES
from dpviz.experiments.algorithm import Snapshot
from dpviz.experiments.experiment import BEFORE, Heartbeat, Step
from dpviz.experiments.trace import ArmTrace, Trace
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.audit import CONFIDENCE, clopper_pearson
from dpviz.privacy.budgets import Budget, PureDP
from dpviz.privacy.verification.implementation import KINDS, Finding, Implementation
from dpviz.problems.base import Metric
from dpviz.specification import Specification, number, switch

BROKEN = "broken"  # in place of a family: the mistakes that were made on purpose
ATTACK = "attack"  # the one lane of the trace
SCORES = "present", "absent"  # of the runs since the last record, on D and on D'; nan beyond
CHOSEN = "threshold", "reverse"  # of the attack; nan while there is none
LOOKED = "runs", "hits", "false_hits", "bound"  # of a look that was announced at this record; else nan
TESTED = "tested"  # p-value, place, size and entry of every kind of test, one after the other; nan before the end
_METRICS = tuple(Metric(name, name, better="") for name in (*SCORES, *CHOSEN, *LOOKED, TESTED))
_RUNS = "Fixed before the audit starts: the confidence holds for this number. A quarter of them is for practice."


class Auditing(Specification):
    """An audit of one case under a budget.

    case : its name among the `CASES` of `dpviz.families.<family>.audits`; of the family "broken", that of a mistake
    among those of `dpviz.families.broken()`.
    """

    kind: ClassVar[str] = "experiments.auditing.auditing"
    family: str
    case: str
    budget: Budget = PureDP()
    runs: int = number(10_000, 200, 100_000, label="Runs on each data set", symbol="N", scale="log", help=_RUNS)
    seed: int = number(0, 0, 2**31 - 1, label="Seed", help="Another seed is another audit, with fresh noise.")
    mended: bool = switch(False, label="Without the mistake", help="The same code, but for the mistake.")

    @property
    def public(self) -> bool:
        """Its data sets are made up."""
        return True

    @cached_property
    def mistake(self) -> Broken | None:
        """What is broken on purpose, if it is not mended."""
        return mistake_named(self.case) if self.family == BROKEN and not self.mended else None

    @cached_property
    def audit(self) -> Audit:
        """What is run. Raises ValueError where there is no such case."""
        case = mistake_named(self.case).sound if self.family == BROKEN else case_named(self.family, self.case)
        return Audit(self.mistake.case if self.mistake else case, self.budget, self.runs, seed=self.seed)

    def stream(
        self, tables: Mapping[str, np.ndarray] = NO_TABLES, heartbeat: Heartbeat = lambda _: None
    ) -> Iterator[Step]:
        """Run it, yielding after every block of runs; inside one there is a heartbeat. Needs no tables."""
        assert not tables
        trace, began, done, looks = Trace({ATTACK: _METRICS}), time.perf_counter(), 0, 0
        latest, blocks = Step(ATTACK, BEFORE, trace, 0.0), self.audit.stream()
        alive = at_checkpoints(lambda: heartbeat(latest), EVERY)
        while True:
            with alive:
                progress = next(blocks, None)
            if progress is None:
                return
            snapshot = Snapshot(len(progress.present), {"runs": np.array([[len(progress.present)]])})
            padding = (0, BLOCK - len(progress.present) + done)  # every record of a lane has the same shape
            both = zip(SCORES, (progress.present, progress.absent), strict=True)
            values = {name: np.pad(each[done:], padding, constant_values=np.nan) for name, each in both}
            values |= _chosen(progress.attack) | _looked(progress.looks[looks:]) | _tested(progress.implementation)
            trace.lanes[ATTACK].append(snapshot, values, time.perf_counter() - began)
            done, looks = len(progress.present), len(progress.looks)
            latest = Step(ATTACK, snapshot, trace, done / self.runs)
            yield latest

    def progress(self, trace: Trace) -> Progress | None:
        """What a trace of it has recorded so far; None before its first block has ended."""
        lane = trace.lanes.get(ATTACK)
        rows = 0 if lane is None else len(lane.iterations)
        if lane is None or not rows:
            return None
        present, absent = (_joined(lane, name, rows) for name in SCORES)
        threshold, reverse = (float(lane.values[name][rows - 1][0]) for name in CHOSEN)
        looked = np.column_stack([_joined(lane, name, rows) for name in LOOKED])
        looks = tuple(Look(int(runs), int(hits), int(false), bound) for runs, hits, false, bound in looked.tolist())
        attack = None if np.isnan(threshold) else Attack(threshold, bool(reverse))
        implementation = _found(lane.values[TESTED][rows - 1])
        return Progress(present, absent, self.audit.tuning, attack, looks, implementation)


def case_named(family: str, name: str) -> Case:
    """A family's case of that name. Raises ValueError where there is none."""
    if (case := next((case for case in families.audits().get(family, ()) if case.name == name), None)) is None:
        raise ValueError(f"there is no audit {name!r} of {family!r}")
    return case


def mistake_named(name: str) -> Broken:
    """The mistake of that name. Raises ValueError where there is none."""
    if (mistake := next((mistake for mistake in families.broken() if mistake.name == name), None)) is None:
        raise ValueError(f"there is no mistake {name!r}")
    return mistake


def _joined(lane: ArmTrace, name: str, rows: int) -> Floats:
    values = np.concatenate(lane.values[name][:rows])
    return values[~np.isnan(values)]


def _chosen(attack: Attack | None) -> dict[str, Floats]:
    values = (np.nan, np.nan) if attack is None else (attack.threshold, attack.reverse)
    return {name: np.array([value], dtype=float) for name, value in zip(CHOSEN, values, strict=True)}


def _looked(looks: tuple[Look, ...]) -> dict[str, Floats]:
    """Of the look at this record, if there is one: there is one at a time."""
    values = (np.nan,) * len(LOOKED)
    for look in looks:
        values = (look.runs, look.hits, look.false_hits, look.bound)
    return {name: np.array([value], dtype=float) for name, value in zip(LOOKED, values, strict=True)}


def _tested(implementation: Implementation | None) -> dict[str, Floats]:
    rows = np.full((len(KINDS), 4), np.nan)
    for row, finding in zip(rows, () if implementation is None else implementation.findings, strict=False):
        row[:] = finding.p, finding.release_number, finding.size, finding.entry
    return {TESTED: rows.reshape(-1)}


def _found(numbers: Floats) -> Implementation | None:
    rows = numbers.reshape(-1, 4).tolist()
    if np.isnan(numbers[0]):
        return None
    return Implementation(
        tuple(
            Finding(kind, p, int(place), size, int(entry))
            for kind, (p, place, size, entry) in zip(KINDS, rows, strict=True)
        )
    )


def rates(present: Floats, absent: Floats, at: Floats, confidence: float = CONFIDENCE) -> tuple[Floats, Floats, Floats]:
    """The true positive rates at these false positive rates of the test that says D where the score is high enough, and
    the band: at each threshold by itself, both rates lie in their intervals with this confidence each.

    present, absent : (k,) scores on D and on D'. Between two thresholds, a coin decides which of them is used.
    """
    both = np.unique(np.concatenate([present, absent]))
    thresholds = both[np.unique(np.linspace(0, len(both) - 1, 400).round().astype(int))][::-1]
    hits, false = (len(scores) - np.searchsorted(np.sort(scores), thresholds) for scores in (present, absent))
    (p_low, p_high), (q_low, q_high) = (
        clopper_pearson(counts, len(scores), confidence) for counts, scores in ((hits, present), (false, absent))
    )
    return (_curve(false / len(absent), hits / len(present), at), _curve(q_high, p_low, at), _curve(q_low, p_high, at))


def _curve(x: Floats, y: Floats, at: Floats) -> Floats:
    """y against x, both ascending, from (0, 0) to x = 1; where several have one x, the largest y counts."""
    x, y = np.append(x, 1.0), np.append(y, y[-1])
    last = np.append(np.diff(x) > 0, True)
    x, y = x[last], y[last]
    return np.interp(at, *((x, y) if x[0] == 0 else (np.insert(x, 0, 0.0), np.insert(y, 0, 0.0))))
