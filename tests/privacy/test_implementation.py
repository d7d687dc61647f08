"""Tests of the implementation on releases by hand: which draws and queries they look at, and what they say."""

import math

import numpy as np
import pytest

from dpviz import families
from dpviz.audits.audit import Audit
from dpviz.privacy.batches import Batch, Replicates
from dpviz.privacy.budgets import PureDP
from dpviz.privacy.events import Event, ExpMech, Gaussian, Laplace, Sub
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.matrix_factorisation import binary_tree
from dpviz.privacy.matrix_products import MatrixQuery
from dpviz.privacy.releases import Query
from dpviz.privacy.verification import broken
from dpviz.privacy.verification.implementation import ERROR, KINDS, Finding, ImplementationVerdict, ReleaseTests
from dpviz.privacy.verification.transcripts import Transcript
from tests.families.test_implementation import drawing, scaled


@pytest.mark.parametrize("noisy", ["laplace", "gaussian", "sums", "choices"])
def test_what_one_replicate_need_not_hide_switches_no_test_off(noisy: str) -> None:
    """A query that no row moves gets no noise: half of the noise of the others is seen all the same."""
    runs, change = 2000, np.ones(2000)
    change[3] = 0.0

    def found(source: type[Transcript], moved: float = 0.0) -> dict[str, Finding]:
        event = {"laplace": Laplace(1.0), "choices": ExpMech(1.0)}.get(noisy, Gaussian(1.0))
        ledger, release_tests = Ledger(FixedEvents((event,)), runs), ReleaseTests(np.empty(0), False, 0)
        true = source(ledger, 7, noisy)
        asked(true, event, np.zeros(runs))
        again = source(Ledger(FixedEvents((event,)), runs), 7, noisy, true)
        asked(again, event, np.where(change > 0, 0.0, moved))
        release_tests.add(true, (true, again))
        return {finding.kind: finding for finding in release_tests.findings() if finding.is_fault}

    def asked(source: Transcript, event: Event, first: np.ndarray) -> None:
        values = np.stack([first, np.ones(runs)], axis=1)
        if noisy == "sums":
            leaves = source.leaves([1], 1)
            sums = source.prefix_sums(event, binary_tree(1), leaves, change[:, None], (2,))
            sums.add(Query(values, change, "l2", leaves.next()))
        elif noisy == "choices":
            source.exponential(Query(values, change, "range"), event)
        else:
            getattr(source, noisy)(Query(values, change, "l1" if noisy == "laplace" else "l2"), event)

    assert not found(Transcript)
    assert ("choices" if noisy == "choices" else "scale") in found(scaled(0.5))
    assert found(Transcript, 0.5)["sensitivity"].size == math.inf


def test_a_release_that_nobody_paid_for_is_seen() -> None:
    class Cheaper(Transcript):
        """Pays for one event, and releases as another one allows."""

        def batch(self, event: Event, replicates: Replicates | None = None, table_rows: int | None = None) -> Batch:
            opened = super().batch(event, replicates, table_rows)
            return Batch(Laplace(2.0), opened.replicates, self, self._ledger.relation)

    release_tests = ReleaseTests(np.empty(0), False, 0)
    true = Cheaper(Ledger(FixedEvents((Laplace(1.0),)), 50), 7)
    true.laplace(Query(np.zeros((50, 1)), 1.0, "l1"), Laplace(1.0))
    release_tests.add(true, (true, true))
    assert [finding.kind for finding in release_tests.findings() if finding.is_fault] == ["releases"]


def test_a_release_more_than_was_paid_for_is_seen() -> None:
    """Of the same event, which is in the ledger once."""
    release_tests, event = ReleaseTests(np.empty(0), False, 0), Laplace(1.0)
    true = Transcript(Ledger(FixedEvents((event,)), 50), 7)
    query = Query(np.zeros((50, 1)), 1.0, "l1")
    true.laplace(query, event)
    Batch(event, range(50), true, "replace-one").laplace(query)
    release_tests.add(true, (true, true))
    assert [finding.kind for finding in release_tests.findings() if finding.is_fault] == ["releases"]


def test_a_tenth_less_noise_in_products_with_a_matrix_is_seen() -> None:
    assert {finding.kind for finding in products(Transcript) if finding.is_fault} == set()
    assert "scale" in {finding.kind for finding in products(scaled(0.9)) if finding.is_fault}
    beside = drawing(lambda drawn: drawn * np.array([1.0, *[2**-0.5] * 3]), (4,))
    assert "scale" in {finding.kind for finding in products(beside) if finding.is_fault}


def test_a_noise_that_comes_again_late_in_a_run_is_seen() -> None:
    runs, release_tests = 200, ReleaseTests(np.empty(0), False, 0)
    true = broken.RepeatedNoise(Ledger(FixedEvents((Gaussian(1.0),) * 6), runs), 7)
    for place in range(6):
        true._stored = None if place < 5 else true._stored  # only the last two releases have one noise
        true.gaussian(Query(np.zeros((runs, 5)), 1.0, "l2"), Gaussian(1.0))
    release_tests.add(true, (true, true))
    assert [finding.kind for finding in release_tests.findings() if finding.is_fault] == ["repeats"]


def products(source: type[Transcript]) -> tuple[Finding, ...]:
    """Of two products with 3 × 3 matrices, in 2,000 runs."""
    runs, release_tests = 2000, ReleaseTests(np.empty(0), False, 0)
    true = source(Ledger(FixedEvents((Gaussian(1.0),)), runs), 7, "products")
    opened = true.matrix_products(MatrixQuery(lambda v: 2 * v, 3, 1.0), Gaussian(1.0))
    first = opened.times(np.tile([1.0, 0.0, 0.0], (runs, 1)))
    opened.times(first)
    release_tests.add(true, (true, true))
    return release_tests.findings()


def test_what_comes_later_numbers_no_earlier_test() -> None:
    """Else whether a run goes on, which its noise decides, would choose the share of the error that this noise gets."""

    def numbered(releases: int) -> tuple[list[tuple[float, int]], list[tuple[float, int]]]:
        event, runs, release_tests = Sub("wor", 4, 8, Gaussian(1.0)), 50, ReleaseTests(np.empty(0), False, 0)
        true = Transcript(Ledger(FixedEvents((event,) * releases), runs), 7, "numbered")
        for _ in range(releases):
            batch = true.batch(event)
            batch.gaussian(Query(np.zeros((runs, 2)), 1.0, "l2", batch))
        release_tests.add(true, (true, true))
        return [test[:2] for test in release_tests._dependence_tests()], [
            test[:2] for test in release_tests._batch_tests()
        ]

    for few, more in zip(numbered(2), numbered(3), strict=True):
        assert len(more) > len(few) > 0 and more[: len(few)] == few


def test_lost_digits_of_a_query_that_hardly_costs_anything_are_no_fault() -> None:
    case = families.audits()["accelerated"][0]
    verdict = Audit(case, PureDP(epsilon=1e-9), runs=200, seed=5).run()
    assert verdict.implementation is not None and not verdict.faulty


def test_what_was_found_is_said_in_words() -> None:
    findings = (
        Finding("scale", ERROR / 2, 2, 0.71, 3),
        Finding("repeats", 0.5),
        Finding("sensitivity", 0.0, 1, 1.0526),
    )
    found = ImplementationVerdict(findings)
    assert [fault.kind for fault in found.faults] == ["scale", "sensitivity"]
    assert "the noise of entry 3 of release 2 is 0.71 times what was declared" in found.sentence()
    assert "one row moves the query of release 1 by 1.053 times what was declared" in found.sentence()
    assert "1 of 100,000 audits" in found.sentence() and "repeats" not in found.sentence()
    assert all(Finding(kind, 0.0, 1, 1.0).sentence() for kind in KINDS)
    assert (
        ImplementationVerdict(findings[1:2])
        .sentence()
        .startswith("What left the mechanisms looks as declared in all 1 ")
    )
