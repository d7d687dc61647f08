"""Mistakes that were made on purpose, on tiny cases of gradient methods: each claims what it does not keep.

Nothing in here can be chosen on a page of methods or named in a link: no class is registered.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from dpviz.audits.audit import Case, Neighbours
from dpviz.audits.broken import Broken
from dpviz.experiments.algorithm import Algorithm, Snapshot
from dpviz.experiments.plan import Plan
from dpviz.families.accelerated.algorithms import GradientDescent
from dpviz.families.accelerated.audits import CANARY, IDENTITY, PROBLEM, ROWS, neighbours
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.batches import Batch
from dpviz.privacy.budgets import Budget, GaussianDP, NoPrivacy, PureDP, require
from dpviz.privacy.events import Gaussian, Laplace, StatedPureDP
from dpviz.privacy.matrix_factorisation import binary_tree
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.queries import Norm, Query
from dpviz.privacy.verification.broken import (
    Again,
    LevelMissing,
    OneBatch,
    OneStream,
    Quieter,
    Reusing,
    TenthLess,
    Twice,
    Unsampled,
)
from dpviz.privacy.verification.transcripts import Transcript
from dpviz.problems.base import SmoothFacts, SmoothProblem
from dpviz.problems.linear.linear_models import LogisticProblem

# ----------------------------------------------------------------------------------------------------- too little noise


class Halved(SmoothProblem):
    """Says of gradients that one row moves them by C/n: true of a row that is added, not of one that is replaced."""

    def __init__(self, problem: SmoothProblem) -> None:
        self.facts, self._problem = problem.facts, problem

    def evaluate(self, output: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return self._problem.evaluate(output)

    def mean_gradient(self, x: np.ndarray, batch: Batch, norm: Norm) -> Query:
        query = self._problem.mean_gradient(x, batch, norm)
        return query._replace(sensitivity=query.sensitivity / 2)

    def regulariser_gradient(self, x: np.ndarray) -> np.ndarray:
        return self._problem.regulariser_gradient(x)


def halved(problem: type[Halved] = Halved) -> Neighbours:
    """The usual neighbours with a mistake in their queries."""
    data = neighbours()
    assert isinstance(data.one, SmoothProblem) and isinstance(data.other, SmoothProblem)
    return Neighbours(problem(data.one), problem(data.other))


class OneFewer(Halved):
    """Divides the sum of gradients by n - 1."""

    def mean_gradient(self, x: np.ndarray, batch: Batch, norm: Norm) -> Query:
        query, n = self._problem.mean_gradient(x, batch, norm), self.facts.n
        return query._replace(value=query.value * n / (n - 1))


class Unnoised(GradientDescent):
    """The reference without privacy under a budget's name."""

    kind: ClassVar[str] = ""

    def plan(self, facts: SmoothFacts, budget: Budget) -> Plan:
        return replace(super().plan(facts, NoPrivacy()), budget=budget)


# ----------------------------------------------------------------------------------------------------- noise used twice


class Both(Algorithm[SmoothProblem, SmoothFacts]):
    """Two methods that begin at the same point, with a third and with two thirds of the budget: their first steps."""

    kind: ClassVar[str] = ""

    def plan(self, facts: SmoothFacts, budget: Budget) -> Plan:
        epsilon = require(budget, PureDP).epsilon
        return Plan.fixed(facts, budget, (Laplace(epsilon / 3), Laplace(2 * epsilon / 3)))

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        x = problem.facts.starting_point(mechanisms.replicates)
        yield Snapshot(0, {"x": x})
        for t, event in enumerate(plan.events, 1):
            batch = mechanisms.batch(event)
            noisy = batch.laplace(problem.mean_gradient(x, batch, "l1"))
            yield Snapshot(t, {"x": x - noisy / problem.facts.smoothness})


def without_noise(transcript: Transcript) -> Floats:
    """-g/s, which is larger on D: of g + s z and g + s z/2, twice the second less the first is g."""
    one, other = transcript.released
    scale = 2 * PROBLEM.facts().gradient_bound_l1 / ROWS
    return np.asarray((one - 2 * other)[:, 0] / scale)


class FirstAbove(Algorithm[SmoothProblem, SmoothFacts]):
    """Asks with the sparse vector technique in which of two directions the loss rises first."""

    kind: ClassVar[str] = ""

    def plan(self, facts: SmoothFacts, budget: Budget) -> Plan:
        return Plan.fixed(facts, budget, (StatedPureDP(require(budget, PureDP).epsilon),))

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        x = problem.facts.starting_point(mechanisms.replicates)
        yield Snapshot(0, {"x": x})
        (event,) = plan.events
        batch = mechanisms.batch(event)
        gradient = problem.mean_gradient(x, batch, "l1")
        query = gradient._replace(value=gradient.value * [1.0, -1.0], norm="linf")
        yield Snapshot(1, {"x": batch.above_threshold(query)[:, None].astype(float)})


# --------------------------------------------------------------------------------------------- data where nobody looked


class DataStep(GradientDescent):
    """Takes its step size from the largest eigenvalue of the data, which is released by the steps."""

    kind: ClassVar[str] = ""

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        assert isinstance(problem, LogisticProblem)
        smoothness = float(problem.curvature().value[0]) / 4 + problem.facts.strong_convexity
        steps = np.full(plan.iterations, self.relative_step / smoothness)
        return super().run(problem, replace(plan, schedule={**plan.schedule, "step_size": steps}), mechanisms)


def longer() -> Neighbours:
    """One row is half as long on D'; its clipped gradient is the same."""
    return Neighbours.of(PROBLEM, IDENTITY, np.tile([0.0, 1.0], (ROWS, 1)), (1.0, 1.0), (0.5, 1.0))


class RunningGradient(Algorithm[SmoothProblem, SmoothFacts]):
    """Running sums of gradients at the start, each on rows of its own: a binary tree of four leaves."""

    kind: ClassVar[str] = ""
    leaves: ClassVar[int] = 4

    def plan(self, facts: SmoothFacts, budget: Budget) -> Plan:
        event = Gaussian(require(budget, GaussianDP).mu)
        return Plan.fixed(facts, budget, (event,), charged_at=np.ones(1, dtype=int), iterations=self.leaves)

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        facts, x = problem.facts, problem.facts.starting_point(mechanisms.replicates)
        yield Snapshot(0, {"x": x})
        size, (event,) = facts.n // self.leaves, plan.events
        leaves = mechanisms.leaves([size] * self.leaves, facts.n)
        change = facts.gradient_sensitivity("l2", size)
        sums = mechanisms.prefix_sums(event, binary_tree(self.leaves), leaves, change, (facts.d,))
        for t in range(1, self.leaves + 1):
            yield Snapshot(t, {"x": sums.add(problem.mean_gradient(x, leaves.next(), "l2"))})


# ------------------------------------------------------------------------------------------------------------- the list

DESCENT = GradientDescent(iterations=1)
ONE = Case("one_step", "DP-GD, one step", DESCENT, CANARY, (PureDP(epsilon=1.0),), neighbours, seconds=0.3)
SAMPLED = replace(
    ONE, name="one_batch", title="DP-SGD, one step", algorithm=GradientDescent(iterations=1, batch_fraction=0.1)
)
PAIR = replace(ONE, name="two_methods", title="Two methods", algorithm=Both())
SVT = replace(ONE, name="first_above", title="Sparse vector", algorithm=FirstAbove())
STEP = replace(
    ONE,
    name="step_size",
    title="DP-GD, one step",
    data=longer,
    canary="One row is half as long on D' as on D; its clipped gradient is the same.",
)
TREE = replace(
    ONE, name="running_sums", title="Running sums", algorithm=RunningGradient(), budgets=(GaussianDP(mu=1.0),)
)
THREE = replace(ONE, name="three_steps", title="DP-GD, three steps", algorithm=GradientDescent(iterations=3))
DEALT = replace(
    ONE, name="two_batches", title="DP-SGD, two steps", algorithm=GradientDescent(iterations=2, batch_fraction=0.25)
)
EPSILON, MU = PureDP(epsilon=1.0), GaussianDP(mu=1.0)
BROKEN: tuple[Broken, ...] = (
    Broken(
        "quieter",
        "Noise too small by √2",
        "The standard deviation of Laplace noise, √2 b, is taken for its scale b.",
        "Laplace noise of the scale b/√2 costs √2 ε: outputs on D's side are that much rarer on D'. Published code had "
        "this mistake.",
        replace(ONE, source=Quieter),
        ONE,
        EPSILON,
        3000,
    ),
    Broken(
        "add_remove",
        "Add/remove sensitivity for replace-one",
        "The noise is made for a row that is added or removed, C/n; but n is public, so a row is replaced.",
        "A replaced row jumps from one end of the clip to the other, 2C/n: that is twice as far, and costs 2 ε.",
        replace(ONE, data=halved),
        ONE,
        EPSILON,
        1000,
    ),
    Broken(
        "unsampled",
        "Amplification without sampling",
        "The plan counts on random batches of a tenth of the rows, but the code takes the same rows in every run.",
        "Whose row is among them is in every batch, and gets the noise of one that is drawn once in ten times.",
        replace(SAMPLED, source=Unsampled),
        SAMPLED,
        EPSILON,
        1000,
    ),
    Broken(
        "one_stream",
        "Two methods with one noise stream",
        "Two methods are run with the same seed, so that both draw the same noise, one of them half as much of it.",
        "Twice the second release less the first has no noise at all: it is the exact gradient.",
        replace(PAIR, source=OneStream, score=without_noise),
        PAIR,
        EPSILON,
        400,
    ),
    Broken(
        "reused_noise",
        "A sparse vector that reuses its noise",
        "The noise of the first value is used for all values that are compared with the threshold.",
        "With one noise for all, a value can only be the first above the threshold if it exceeds all before it: an "
        "answer that is possible on D alone.",
        replace(SVT, source=Reusing),
        SVT,
        EPSILON,
        2000,
    ),
    Broken(
        "data_step",
        "A step size taken from the data",
        "The step size is 1/L with the L of the data, which nobody released.",
        "The step that was taken, divided by the noisy gradient, is the step size: the data's largest eigenvalue, "
        "without noise.",
        replace(STEP, algorithm=DataStep(iterations=1)),
        STEP,
        EPSILON,
        400,
    ),
    Broken(
        "unnoised",
        "A reference without privacy, labelled private",
        "The run without noise that others are compared with is shown under the name of a private one.",
        "Its gradient is exact, so that one look tells the data sets apart.",
        replace(ONE, algorithm=Unnoised(iterations=1)),
        ONE,
        EPSILON,
        400,
    ),
    Broken(
        "leaf_twice",
        "Tree leaves that see a row twice",
        "A row is dealt to two leaves of the tree of running sums, whose noise is made for one.",
        "It moves two leaves and all sums above them: further than the columns of one leaf say.",
        replace(TREE, source=Twice),
        TREE,
        MU,
        2000,
    ),
    Broken(
        "noise_again",
        "The noise of one step in the next one",
        "The second step takes the noise that the first one has drawn.",
        "The difference of the two releases has no noise at all. The likelihood ratio under the declared noise does "
        "not look at differences, so the attack on the claim sees nothing.",
        replace(THREE, source=Again),
        THREE,
        EPSILON,
        400,
        "tests",
    ),
    Broken(
        "one_batch",
        "One random batch for all steps",
        "The batch of the first step is taken in all steps, where the plan counts on a fresh one in each.",
        "A row that is in the first batch is in all. The attack on the claim takes every batch for a fresh one.",
        replace(DEALT, source=OneBatch),
        DEALT,
        EPSILON,
        400,
        "tests",
    ),
    Broken(
        "level_missing",
        "A tree that misses a level",
        "The noise is made for leaves that are in two blocks of the tree, and the first leaf is in three.",
        "All noise is smaller than declared by √(2/3). The sizes of the noise show that in far fewer runs than rates.",
        replace(TREE, source=LevelMissing),
        TREE,
        MU,
        400,
        "tests",
    ),
    Broken(
        "one_fewer",
        "A mean over n - 1",
        "The sum of the gradients is divided by n - 1 where the noise is made for a mean over n.",
        "One row moves the mean by n/(n - 1) times what was declared: too little to be seen in the attack's rates.",
        replace(ONE, data=partial(halved, OneFewer)),
        ONE,
        EPSILON,
        400,
        "tests",
    ),
    Broken(
        "tenth_less",
        "Noise too small by a tenth",
        "The noise is multiplied by 0.9.",
        "It costs ε/0.9. To see that in rates takes many runs; the sizes of the noise show it sooner.",
        replace(THREE, source=TenthLess),
        THREE,
        EPSILON,
        2000,
        "tests",
    ),
)
