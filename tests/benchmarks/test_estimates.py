"""How far off the estimates of memory are, on experiments drawn at random from what the pages allow.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python -m pytest tests/benchmarks/test_estimates.py

Below `BYTES` nobody minds: what is less counts as so much, and where both are less, it is right. Runs that take longer
than `LONGEST` seconds or are said to need more than `LARGEST` bytes are not counted. What is compared is a whole run,
without the plans, which a page knows already, and the memory that it takes beside what the process had.
"""

import ctypes
import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from dpviz.datasets.bundled import BundledTable
from dpviz.datasets.categories import CategoricalBundled
from dpviz.datasets.groups import GroupedBundled
from dpviz.experiments.experiment import Experiment
from dpviz.families.bayesian_optimization import presets as tuning
from dpviz.problems.tuning.model_tuning import KernelMachine
from tests.benchmarks.drawn import PAGES, Drawn, drawn, measured

EXPERIMENTS = 40  # of each family
SEED = 10
MMAP_THRESHOLD = -3  # of glibc's `mallopt`
BYTES, LONGEST, LARGEST = 20e6, 4.0, 1.5e9
WITHIN = 0.9  # share of the estimates that are right within a factor of 2, or that need not be


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """What a process loads once: the linear algebra's buffers, the library of kernel machines, the reader of files."""
    ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, 1 << 20)  # so that no array fits into memory that was freed before
    np.linalg.eigvalsh(np.ones((300, 300)) @ np.ones((300, 300)))
    Experiment(problem=KernelMachine(), arms=tuning.arms(["Random search"], trainings=2)).run()
    for data in (BundledTable, CategoricalBundled, GroupedBundled):
        data().load()


@pytest.mark.parametrize("family", PAGES)
def test_estimates_are_right_within_a_factor_of_two(family: str, report) -> None:
    few = (subject for subject in drawn(family, SEED) if _estimated(subject) < LARGEST)
    found = report.benchmark.pedantic(lambda: list(itertools.islice(_compared(few), EXPERIMENTS)), rounds=1)
    ratios = np.array([ratio for ratio, _ in found])
    print("\n".join(["", *(line for _, line in sorted(found))]))
    low, median, high = np.nanquantile(ratios, [0.05, 0.5, 0.95])
    within = float((np.isnan(ratios) | ((ratios >= 0.5) & (ratios <= 2))).mean())
    report(counted=float((~np.isnan(ratios)).sum()), within_2=within, low=low, median=median, high=high)
    assert within >= WITHIN


def _estimated(subject: Drawn) -> float:
    return subject.experiment.estimated_bytes(subject.plans)


def _compared(subjects: Iterator[Drawn]) -> Iterator[tuple[float, str]]:
    """The estimate over what was measured, nan where neither counts, and a line that says of what; of runs that came to
    their end."""
    for subject in subjects:
        estimated, taken = _estimated(subject), measured(subject, LONGEST)
        if np.isnan(taken):
            continue
        ratio = max(estimated, BYTES) / max(taken, BYTES) if max(estimated, taken) > BYTES else np.nan
        of, facts = subject.experiment, subject.experiment.problem.facts()
        yield (
            ratio,
            f"{ratio:6.2f} of {taken / 1e6:7.1f} MB: {of.problem.title}, n = {facts.n:,}, d = {facts.d:,}, "
            f"R = {of.replicates}; " + ", ".join(f"{label} {plan.iterations}" for label, plan in subject.plans.items()),
        )
