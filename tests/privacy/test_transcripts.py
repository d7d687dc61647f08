"""Transcripts: the densities of what left, and what a second run on other data finds out."""

import math
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pytest

from dpviz.audits.audit import Case, scores
from dpviz.experiments.algorithm import Algorithm, Snapshot
from dpviz.experiments.plan import Plan
from dpviz.families.accelerated.audits import neighbours
from dpviz.privacy.budgets import Budget, PureDP
from dpviz.privacy.events import Gaussian, Laplace, StatedPureDP
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.matrix_factorisation import binary_tree
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.releases import NoisyRelease, Query, SelectionRelease, ThresholdRelease
from dpviz.privacy.verification.transcripts import ReplayMismatch, Transcript
from dpviz.problems.base import SmoothFacts, SmoothProblem

EVERYONE = np.arange(3)


def test_densities_are_those_of_the_laws() -> None:
    value, found = np.zeros((2, 2)), np.array([[1.0, -2.0], [0.0, 0.0]])
    laplace = NoisyRelease(value, found, EVERYONE[:2], None, "laplace", 0.5).log_density()
    assert laplace == pytest.approx([-6 - 2 * math.log(0.5), -2 * math.log(0.5)])
    normal = NoisyRelease(value, found, EVERYONE[:2], None, "standard_normal", np.array([1.0, 2.0])).log_density()
    assert normal == pytest.approx([-2.5, -2 * math.log(2.0)])
    without = NoisyRelease(value, found, EVERYONE[:2], None, "laplace", 0.0).log_density()
    assert without.tolist() == [-math.inf, 0.0]
    chosen = SelectionRelease(
        np.array([[0.0, 1.0]] * 2), np.array([[0, -1], [1, 1]]), EVERYONE[:2], None, np.array([2.0, 2.0])
    )
    assert chosen.log_density() == pytest.approx([-math.log1p(math.exp(2)), -2 * math.log1p(math.exp(-2))])


def test_the_density_of_a_sparse_vector_is_how_often_it_answers_so() -> None:
    """20,000 draws: four standard errors are 0.0141 at most."""
    values, runs = np.array([-1.0, 0.5, 2.0]), 20_000
    source = Transcript(Ledger(FixedEvents((StatedPureDP(2.0),)), runs), 3)
    found = source.above_threshold(Query(np.tile(values, (runs, 1)), 1.0, "linf"), StatedPureDP(2.0))
    first = 2.0 / (1 + 2 ** (2 / 3))
    scales = np.full((4, 1), 1 / first), np.full((4, 1), 2 / (2.0 - first))
    outcomes = np.array([0, 1, 2, -1])
    chances = np.exp(ThresholdRelease(np.tile(values, (4, 1)), outcomes, np.arange(4), None, *scales).log_density())
    assert chances.sum() == pytest.approx(1, abs=1e-9)
    assert [(found == outcome).mean() for outcome in outcomes] == pytest.approx(chances.tolist(), abs=0.0141)


def summed(source: Mechanisms, values: np.ndarray) -> list[np.ndarray]:
    leaves = source.leaves([1] * len(values), len(values))
    sums = source.prefix_sums(Gaussian(1.0), binary_tree(len(values)), leaves, 1.0)
    return [sums.add(Query(np.full(3, value), 1.0, "l2", leaves.next())) for value in values]


def test_running_sums_that_are_handed_out_again_cost_what_the_noise_would_have_to_be() -> None:
    """By hand: z = B⁻¹ (y - x)/σ of all steps at once."""
    values, others = np.array([1.0, 2.0, 3.0]), np.array([0.0, 2.0, 3.0])
    terms = FixedEvents((Gaussian(1.0),))
    true = Transcript(Ledger(terms, 3), 1)
    found = summed(true, values)
    again = Transcript(Ledger(terms, 3), 1, first_run=true)
    assert np.array_equal(summed(again, others), found)
    tree, sigma = binary_tree(3), float(binary_tree(3).sensitivity())
    for source, sequence in ((true, values), (again, others)):
        draws = np.linalg.solve(tree.decoder(), (np.array(found) - np.cumsum(sequence)[:, None]) / sigma)
        assert source.public_log_density == pytest.approx(-(draws**2).sum(axis=0) / 2 - 3 * math.log(sigma))


def test_a_run_that_asks_for_something_else_departs() -> None:
    terms = FixedEvents((Laplace(1.0), Laplace(1.0)))
    true = Transcript(Ledger(terms, 3), 1)
    true.laplace(Query(np.zeros((3, 2)), 1.0, "l1"), Laplace(1.0))
    again = Transcript(Ledger(terms, 3), 1, first_run=true)
    with pytest.raises(ReplayMismatch, match="release 1"):
        again.laplace(Query(np.zeros((3, 1)), 1.0, "l1"), Laplace(1.0))
    again = Transcript(Ledger(terms, 3), 1, first_run=true)
    again.laplace(Query(np.zeros((3, 2)), 1.0, "l1"), Laplace(1.0))
    with pytest.raises(ReplayMismatch, match="release 2"):
        again.laplace(Query(np.zeros((3, 2)), 1.0, "l1"), Laplace(1.0))


class Peeking(Algorithm[SmoothProblem, SmoothFacts]):
    """Releases a second gradient only where the first one, without noise, points down."""

    kind: ClassVar[str] = ""

    def plan(self, facts: SmoothFacts, budget: Budget) -> Plan:
        return Plan.fixed(facts, budget, (Laplace(0.5), Laplace(0.5)), stops=True)

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        x = problem.facts.starting_point(mechanisms.replicates)
        for event in plan.events:
            batch = mechanisms.batch(event)
            query = problem.mean_gradient(x, batch, "l1")
            batch.laplace(query)
            if query.value[0, 0] > 0:
                break
        yield Snapshot(0, {"x": x})


def test_who_acts_on_what_was_not_released_is_told_apart_at_once() -> None:
    case = Case("peeking", "", Peeking(), "", (PureDP(epsilon=1.0),), neighbours)
    plan = case.algorithm.plan(case.neighbours.one.facts, PureDP(epsilon=1.0))
    assert (scores(case, plan, 0, 1, "", 5) == math.inf).all()
    assert (scores(case, plan, 1, 1, "", 5) == -math.inf).all()
