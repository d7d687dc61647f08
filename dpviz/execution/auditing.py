"""Audits as tasks: settings that a worker can run like an experiment, and their results recorded in a trace.

An audit runs an implementation many times on a data set D and on a neighbour D'. An attacker gives every run a score;
if the scores tell D and D' apart better than the budget allows, the implementation is not private.
"""

import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import ClassVar

import numpy as np

from dpviz import families
from dpviz.arguments import check_one_of  # UserError for unknown names
from dpviz.audits.audit import BLOCK, Attack, Audit, Broken, Case, Look, Progress
from dpviz.checkpoints import EVERY, at_checkpoints
from dpviz.datasets.base import NO_TABLES
from dpviz.experiments.algorithm import Snapshot
from dpviz.experiments.experiment import BEFORE, Heartbeat, Step
from dpviz.experiments.trace import ArmTrace, Trace
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.audit import CONFIDENCE, clopper_pearson
from dpviz.privacy.budgets import Budget, PureDP
from dpviz.privacy.verification.implementation import KINDS, Finding, ImplementationVerdict
from dpviz.problems.base import Metric
from dpviz.specification import Specification, number, switch

BROKEN = "broken"  # in place of a family: implementations with a mistake on purpose
ATTACK = "attack"  # label of the trace's only arm
# Metrics of the trace. One record is made after each block of runs.
SCORES = "present", "absent"  # scores of the block's runs on D and on D'; padded with nan to one length
ATTACK_METRICS = "threshold", "reverse"  # of the attack; nan until it is chosen
LOOK_METRICS = "runs", "hits", "false_hits", "bound"  # of an interim analysis after this block; nan if there is none
TESTED = "tested"  # p-value, release, size and entry of each of the `KINDS` of tests, flattened; nan before the end
_METRICS = tuple(Metric(name, name, better="") for name in (*SCORES, *ATTACK_METRICS, *LOOK_METRICS, TESTED))
_RUNS = "Fixed before the audit starts: the confidence holds for this number. A quarter of them is for practice."
_MAX_THRESHOLDS = 400  # of a ROC curve: more would not be seen in a chart


class Auditing(Specification):
    """Settings of an audit of one case, i.e. of one implementation on a pair of neighbouring data sets, under a budget.

    family, case : a name among the `CASES` of `dpviz.families.<family>.audits`; for the family "broken", the name of a
        mistake among those of `dpviz.families.broken()`.
    mended : for the family "broken", true to audit the same implementation without its mistake.
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
        """True, since the data sets of all cases are synthetic."""
        return True

    @cached_property
    def mistake(self) -> Broken | None:
        """The mistake under audit; None for a sound implementation."""
        return mistake_named(self.case) if self.family == BROKEN and not self.mended else None

    @cached_property
    def audit(self) -> Audit:
        """The audit that these settings describe. Raises UserError where there is no such case."""
        if self.mistake is not None:
            case = self.mistake.case
        elif self.family == BROKEN:
            case = mistake_named(self.case).sound  # the implementation without the mistake
        else:
            case = case_named(self.family, self.case)
        return Audit(case, self.budget, self.runs, seed=self.seed)

    def stream(
        self, tables: Mapping[str, np.ndarray] = NO_TABLES, heartbeat: Heartbeat = lambda _: None
    ) -> Iterator[Step]:
        """Run the audit and yield a step after every block of runs.

        heartbeat : called with the latest step during a block; it may raise an exception to stop. tables : empty, since
        an audit has its own data; it is there because `Experiment.stream` has it.
        """
        assert not tables
        trace, start = Trace({ATTACK: _METRICS}), time.perf_counter()
        done = n_looks = 0  # runs and interim analyses in the trace
        latest, blocks = Step(ATTACK, BEFORE, trace, progress=0.0), self.audit.stream()
        calling_heartbeat = at_checkpoints(lambda: heartbeat(latest), EVERY)  # with the newest `latest` at each call
        while True:
            with calling_heartbeat:
                progress = next(blocks, None)
            if progress is None:
                return
            n_runs = len(progress.present)  # scores of all runs on D so far, as many as on D'
            snapshot = Snapshot(n_runs, {"runs": np.array([[n_runs]])})  # the shape of the output says: one replicate
            padding = (0, BLOCK - (n_runs - done))  # to the runs of a full block: all records have the same shape
            series = zip(SCORES, (progress.present, progress.absent), strict=True)
            values = {name: np.pad(scores[done:], padding, constant_values=np.nan) for name, scores in series}
            values |= _attack_values(progress.attack) | _look_values(progress.looks[n_looks:])
            values |= _test_values(progress.implementation)
            trace.arm_traces[ATTACK].append(snapshot, values, time.perf_counter() - start)
            done, n_looks = n_runs, len(progress.looks)
            latest = Step(ATTACK, snapshot, trace, done / self.runs)
            yield latest

    def progress(self, trace: Trace) -> Progress | None:
        """Return the results that `stream` has recorded in a trace so far; None before the first block has ended."""
        arm_trace = trace.arm_traces.get(ATTACK)
        if arm_trace is None or not arm_trace.iterations:
            return None
        records = len(arm_trace.iterations)  # the complete ones: a thread may add another
        present, absent = (_numbers(arm_trace, name, records) for name in SCORES)
        threshold, reverse = (float(arm_trace.values[name][records - 1][0]) for name in ATTACK_METRICS)
        columns = np.column_stack([_numbers(arm_trace, name, records) for name in LOOK_METRICS])
        looks = tuple(Look(int(runs), int(hits), int(false), bound) for runs, hits, false, bound in columns.tolist())
        attack = None if np.isnan(threshold) else Attack(threshold, bool(reverse))
        implementation = _implementation(arm_trace.values[TESTED][records - 1])
        tuning = self.audit.tuning  # number of the first runs, on which the attack is chosen
        return Progress(present, absent, tuning, attack, looks, implementation)


def case_named(family: str, name: str) -> Case:
    """Return the audit case of a family by its name. Raises UserError where there is none."""
    cases = {case.name: case for case in families.audits().get(family, ())}
    check_one_of(name, cases, f"audit of {family!r} called")
    return cases[name]


def mistake_named(name: str) -> Broken:
    """Return the implementation with the mistake of this name. Raises UserError where there is none."""
    mistakes = {mistake.name: mistake for mistake in families.broken()}
    check_one_of(name, mistakes, "mistake")
    return mistakes[name]


def _numbers(arm_trace: ArmTrace, name: str, records: int) -> Floats:
    """Return the numbers in the first `records` records of a series, without the nan of the padding."""
    values = np.concatenate(arm_trace.values[name][:records])
    return values[~np.isnan(values)]


def _attack_values(attack: Attack | None) -> dict[str, Floats]:
    """Return the record of the attack, by metric; nan while there is no attack."""
    values = (np.nan, np.nan) if attack is None else (attack.threshold, attack.reverse)
    return {name: np.array([value], dtype=float) for name, value in zip(ATTACK_METRICS, values, strict=True)}


def _look_values(looks: tuple[Look, ...]) -> dict[str, Floats]:
    """Return the record of the new interim analyses, of which there is at most one, by metric; nan without one."""
    values = (np.nan,) * len(LOOK_METRICS)
    for look in looks:
        values = (look.runs, look.hits, look.false_hits, look.bound)
    return {name: np.array([value], dtype=float) for name, value in zip(LOOK_METRICS, values, strict=True)}


def _test_values(implementation: ImplementationVerdict | None) -> dict[str, Floats]:
    """Return the record of the tests of the implementation: four numbers for each kind; nan before the tests."""
    rows = np.full((len(KINDS), 4), np.nan)
    findings = () if implementation is None else implementation.findings
    for row, finding in zip(rows, findings, strict=False):  # as many findings as rows, or none
        row[:] = finding.p, finding.release_number, finding.size, finding.entry
    return {TESTED: rows.reshape(-1)}


def _implementation(numbers: Floats) -> ImplementationVerdict | None:
    """Return the results of the tests from the numbers that `_test_values` recorded; None while these are nan."""
    if np.isnan(numbers[0]):
        return None
    rows = numbers.reshape(-1, 4).tolist()
    return ImplementationVerdict(
        tuple(
            Finding(kind, p, int(release), size, int(entry))
            for kind, (p, release, size, entry) in zip(KINDS, rows, strict=True)
        )
    )


def rates(present: Floats, absent: Floats, at: Floats, confidence: float = CONFIDENCE) -> tuple[Floats, Floats, Floats]:
    """Compute the ROC curve, with a band, of the test that answers D where a score reaches a threshold, else D'.

    present, absent : scores of runs on D and on D'.
    at : false positive rates, at which the true positive rates are computed.

    Returns three arrays of the shape of `at`: the true positive rates, and the lower and upper ends of their band. At
    each threshold, the true and the false positive rate each lie in an interval with probability `confidence` (Clopper
    and Pearson); the band is made of the corners of these rectangles. Between two thresholds, a coin decides which of
    them is used, so that the curve is interpolated.
    """
    distinct = np.unique(np.concatenate([present, absent]))
    indices = np.unique(np.linspace(0, len(distinct) - 1, _MAX_THRESHOLDS).round().astype(int))
    thresholds = distinct[indices][::-1]  # descending, so that both rates ascend
    # Numbers of scores that reach each threshold: all but those below it.
    hits = len(present) - np.searchsorted(np.sort(present), thresholds)
    false_hits = len(absent) - np.searchsorted(np.sort(absent), thresholds)
    true_low, true_high = clopper_pearson(hits, len(present), confidence)
    false_low, false_high = clopper_pearson(false_hits, len(absent), confidence)
    return (
        _curve(false_hits / len(absent), hits / len(present), at),
        _curve(false_high, true_low, at),
        _curve(false_low, true_high, at),
    )


def _curve(x: Floats, y: Floats, at: Floats) -> Floats:
    """Interpolate y at `at` between the points (x, y), where x and y ascend; of points with equal x, the last counts.

    The curve begins in (0, 0), unless a point has x = 0, and is constant from the last point to x = 1.
    """
    x, y = np.append(x, 1.0), np.append(y, y[-1])
    is_last = np.append(np.diff(x) > 0, True)  # true for the last of the points with equal x
    x, y = x[is_last], y[is_last]
    if x[0] != 0:
        x, y = np.insert(x, 0, 0.0), np.insert(y, 0, 0.0)
    return np.interp(at, x, y)
