"""Audits as tasks: settings that a worker can run, and the results so far as a trace."""

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

BROKEN = "broken"  # in place of a family: implementations with a mistake on purpose
ATTACK = "attack"  # label of the trace's one arm
SCORES = "present", "absent"  # scores of the runs since the last record, on D and on D'; padded with nan
ATTACK_METRICS = "threshold", "reverse"  # of the attack; nan while there is none
LOOK_METRICS = "runs", "hits", "false_hits", "bound"  # of an interim analysis at this record; else nan
TESTED = "tested"  # p-value, place, size and entry of each of the `KINDS` of tests, flattened; nan before the end
_METRICS = tuple(Metric(name, name, better="") for name in (*SCORES, *ATTACK_METRICS, *LOOK_METRICS, TESTED))
_RUNS = "Fixed before the audit starts: the confidence holds for this number. A quarter of them is for practice."


class Auditing(Specification):
    """An audit of one case under a budget.

    case : name among the `CASES` of `dpviz.families.<family>.audits`; for the family "broken", the name of a mistake
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
        """True: its data sets are synthetic."""
        return True

    @cached_property
    def mistake(self) -> Broken | None:
        """The mistake under audit; None for a sound implementation."""
        return mistake_named(self.case) if self.family == BROKEN and not self.mended else None

    @cached_property
    def audit(self) -> Audit:
        """The audit that is run. Raises ValueError where there is no such case."""
        case = mistake_named(self.case).sound if self.family == BROKEN else case_named(self.family, self.case)
        return Audit(self.mistake.case if self.mistake else case, self.budget, self.runs, seed=self.seed)

    def stream(
        self, tables: Mapping[str, np.ndarray] = NO_TABLES, heartbeat: Heartbeat = lambda _: None
    ) -> Iterator[Step]:
        """Run the audit, yielding a step after every block of runs; heartbeats come inside a block. Needs no tables."""
        assert not tables
        trace, start, done, n_looks = Trace({ATTACK: _METRICS}), time.perf_counter(), 0, 0
        latest, blocks = Step(ATTACK, BEFORE, trace, 0.0), self.audit.stream()
        alive = at_checkpoints(lambda: heartbeat(latest), EVERY)
        while True:
            with alive:
                progress = next(blocks, None)
            if progress is None:
                return
            snapshot = Snapshot(len(progress.present), {"runs": np.array([[len(progress.present)]])})
            padding = (0, BLOCK - len(progress.present) + done)  # every record of an arm has the same shape
            series = zip(SCORES, (progress.present, progress.absent), strict=True)
            values = {name: np.pad(scores[done:], padding, constant_values=np.nan) for name, scores in series}
            values |= _attack_values(progress.attack) | _look_values(progress.looks[n_looks:])
            values |= _test_values(progress.implementation)
            trace.lanes[ATTACK].append(snapshot, values, time.perf_counter() - start)
            done, n_looks = len(progress.present), len(progress.looks)
            latest = Step(ATTACK, snapshot, trace, done / self.runs)
            yield latest

    def progress(self, trace: Trace) -> Progress | None:
        """Return the results that a trace of this audit has recorded so far; None before its first block has ended."""
        arm_trace = trace.lanes.get(ATTACK)
        rows = 0 if arm_trace is None else len(arm_trace.iterations)
        if arm_trace is None or not rows:
            return None
        present, absent = (_joined(arm_trace, name, rows) for name in SCORES)
        threshold, reverse = (float(arm_trace.values[name][rows - 1][0]) for name in ATTACK_METRICS)
        columns = np.column_stack([_joined(arm_trace, name, rows) for name in LOOK_METRICS])
        looks = tuple(Look(int(runs), int(hits), int(false), bound) for runs, hits, false, bound in columns.tolist())
        attack = None if np.isnan(threshold) else Attack(threshold, bool(reverse))
        implementation = _implementation(arm_trace.values[TESTED][rows - 1])
        return Progress(present, absent, self.audit.tuning, attack, looks, implementation)


def case_named(family: str, name: str) -> Case:
    """Return a family's case by its name. Raises ValueError where there is none."""
    if (case := next((case for case in families.audits().get(family, ()) if case.name == name), None)) is None:
        raise ValueError(f"there is no audit {name!r} of {family!r}")
    return case


def mistake_named(name: str) -> Broken:
    """Return a mistake by its name. Raises ValueError where there is none."""
    if (mistake := next((mistake for mistake in families.broken() if mistake.name == name), None)) is None:
        raise ValueError(f"there is no mistake {name!r}")
    return mistake


def _joined(arm_trace: ArmTrace, name: str, rows: int) -> Floats:
    """Return the numbers in the first `rows` records of a series, without the nan of the padding."""
    values = np.concatenate(arm_trace.values[name][:rows])
    return values[~np.isnan(values)]


def _attack_values(attack: Attack | None) -> dict[str, Floats]:
    values = (np.nan, np.nan) if attack is None else (attack.threshold, attack.reverse)
    return {name: np.array([value], dtype=float) for name, value in zip(ATTACK_METRICS, values, strict=True)}


def _look_values(looks: tuple[Look, ...]) -> dict[str, Floats]:
    """Return the metrics of the interim analysis at this record, of which there is one at most; nan without one."""
    values = (np.nan,) * len(LOOK_METRICS)
    for look in looks:
        values = (look.runs, look.hits, look.false_hits, look.bound)
    return {name: np.array([value], dtype=float) for name, value in zip(LOOK_METRICS, values, strict=True)}


def _test_values(implementation: Implementation | None) -> dict[str, Floats]:
    rows = np.full((len(KINDS), 4), np.nan)
    for row, finding in zip(rows, () if implementation is None else implementation.findings, strict=False):
        row[:] = finding.p, finding.release_number, finding.size, finding.entry
    return {TESTED: rows.reshape(-1)}


def _implementation(numbers: Floats) -> Implementation | None:
    """Return the results of the tests from the numbers of a record; None while those are nan."""
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
    """Compute true positive rates at the false positive rates `at`, and their band, for the test that says D where the
    score is high.

    present, absent : (k,) scores on D and on D'. Returns three arrays of the shape of `at`: the rates, their lower and
        their upper ends. At each threshold, both rates lie in their intervals with this confidence each. Between two
        thresholds, a coin decides which of them is used.
    """
    distinct = np.unique(np.concatenate([present, absent]))
    thresholds = distinct[np.unique(np.linspace(0, len(distinct) - 1, 400).round().astype(int))][::-1]
    hits, false_hits = (len(scores) - np.searchsorted(np.sort(scores), thresholds) for scores in (present, absent))
    (p_low, p_high), (q_low, q_high) = (
        clopper_pearson(counts, len(scores), confidence) for counts, scores in ((hits, present), (false_hits, absent))
    )
    return (
        _curve(false_hits / len(absent), hits / len(present), at),
        _curve(q_high, p_low, at),
        _curve(q_low, p_high, at),
    )


def _curve(x: Floats, y: Floats, at: Floats) -> Floats:
    """Interpolate y against x at `at`; both ascend from (0, 0) to x = 1, and where several have one x, the largest y
    counts."""
    x, y = np.append(x, 1.0), np.append(y, y[-1])
    is_last = np.append(np.diff(x) > 0, True)
    x, y = x[is_last], y[is_last]
    return np.interp(at, *((x, y) if x[0] == 0 else (np.insert(x, 0, 0.0), np.insert(y, 0, 0.0))))
