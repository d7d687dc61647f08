"""How far off the estimates of time and memory are, on experiments drawn at random from what the pages allow.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python -m pytest tests/benchmarks/test_estimates.py

Below `SECONDS` and `BYTES` nobody minds: what is less counts as so much, and where both are less, it is right. Only
runs that are estimated to take less than `LONGEST` seconds and `LARGEST` bytes are tried. What is compared is a whole
run, without the plans, which a page knows already; its memory is what it takes beside what the process had. Times are
those of a machine of nominal speed: how slow this one is, is measured beside every run.
"""

import ctypes
import itertools
import time
import warnings
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest

from dpviz import families
from dpviz.audits.audit import ORDINARY, Audit, Case
from dpviz.datasets.bundled import BundledTable
from dpviz.datasets.categories import CategoricalBundled
from dpviz.datasets.groups import GroupedBundled
from dpviz.experiments.experiment import Experiment
from dpviz.families.bayesian_optimization import presets as tuning
from dpviz.problems.tuning.model_tuning import KernelMachine
from tests.benchmarks.drawn import PAGES, Drawn, drawn, measured, out_of_reach

EXPERIMENTS = 40  # of each family
SEED = 10
MMAP_THRESHOLD = -3  # of glibc's `mallopt`
SECONDS, BYTES = 0.1, 20e6
LONGEST, LARGEST = 4.0, 1.5e9
WITHIN = 0.9  # share of the estimates that are right within a factor of 2, or that need not be


class Compared(NamedTuple):
    """An estimate over what was measured, of time and of memory; nan where neither counts. Of a run that may stop early
    the page says two times, about how long and at most: the estimate is 1 where what was measured is between them."""

    seconds: float
    bytes: float
    line: str


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """What a process loads once: the linear algebra's buffers, the library of kernel machines, the reader of files."""
    ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, 1 << 20)  # so that no array fits into memory that was freed before
    np.linalg.eigvalsh(np.ones((300, 300)) @ np.ones((300, 300)))
    Experiment(problem=KernelMachine(), arms=tuning.arms(["Random search"], trainings=2)).run()
    for data in (BundledTable, CategoricalBundled, GroupedBundled):
        data().load()


SOURCES = {family: partial(drawn, family) for family in PAGES} | {"second_order_to_the_end": out_of_reach}


@pytest.mark.parametrize("family", SOURCES)
def test_estimates_are_right_within_a_factor_of_two(family: str, report) -> None:
    warnings.simplefilter("ignore")
    allowed = (subject for subject in SOURCES[family](SEED) if _allowed(subject))
    chosen = list(itertools.islice(allowed, EXPERIMENTS))
    found = report.benchmark.pedantic(lambda: [_compared(subject) for subject in chosen], rounds=1)
    print("\n".join(["", *(compared.line for compared in sorted(found))]))
    seconds, memory = (np.array(ratios) for ratios in zip(*((c.seconds, c.bytes) for c in found), strict=True))
    report(**_summary("seconds", seconds), **_summary("bytes", memory))
    assert min(_within(seconds), _within(memory)) >= WITHIN


def _estimated(subject: Drawn) -> tuple[float, float, float]:
    """Seconds that it is likely to take, and at most; bytes."""
    experiment, plans = subject.experiment, subject.plans
    return (experiment.likely_seconds(plans), experiment.estimated_seconds(plans), experiment.estimated_bytes(plans))


def _allowed(subject: Drawn) -> bool:
    _, seconds, memory = _estimated(subject)
    return seconds < LONGEST and memory < LARGEST


def _compared(subject: Drawn) -> Compared:
    (likely, most, memory), taken = _estimated(subject), measured(subject, 10 * LONGEST)
    seconds = min(max(likely, taken.seconds), most)
    time, size = _ratio(seconds, taken.seconds, SECONDS), _ratio(memory, taken.bytes, BYTES)
    of, facts = subject.experiment, subject.experiment.problem.facts()
    return Compared(
        time,
        size,
        f"{time:6.2f} of {taken.seconds:7.3f} s, {size:6.2f} of {taken.bytes / 1e6:7.1f} MB: "
        f"{of.problem.title}, n = {facts.n:,}, d = {facts.d:,}, R = {of.replicates}; "
        + ", ".join(f"{label} {plan.iterations}" for label, plan in subject.plans.items()),
    )


def _ratio(estimated: float, found: float, least: float) -> float:
    """nan where neither is as much as the least that counts; 0 of a run that had to be ended."""
    if np.isnan(found):
        return 0.0
    return max(estimated, least) / max(found, least) if max(estimated, found) > least else np.nan


def _within(ratios: np.ndarray) -> float:
    return float((np.isnan(ratios) | ((ratios >= 0.5) & (ratios <= 2))).mean())


def _summary(name: str, ratios: np.ndarray) -> dict[str, float]:
    low, median, high = np.nanquantile(ratios, [0.05, 0.5, 0.95])
    counted = {"counted": float((~np.isnan(ratios)).sum()), "within_2": _within(ratios)}
    return {f"{name}_{key}": value for key, value in {**counted, "low": low, "median": median, "high": high}.items()}


AUDITS = [
    pytest.param(case, id=f"{family}.{case.name}")
    for family, cases in families.audits().items()
    for case in cases
    if case.canary_name != ORDINARY
]


@pytest.mark.parametrize("case", AUDITS)
def test_an_audit_takes_about_as_long_as_is_said(case: Case) -> None:
    """On one core that does nothing else, within a factor of two."""
    audit = Audit(case, case.budgets[0], runs=case.runs, seed=3)
    began = time.process_time()
    audit.run()
    taken = time.process_time() - began
    print(f"{case.name}: {taken:.2f} s, {case.seconds} s said")
    assert case.seconds / 2 <= taken <= 2 * case.seconds
