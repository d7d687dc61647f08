"""Tiny worst cases of the gradient methods, for audits.

An audit runs a method many times on two data sets D and D', which differ in one row, the canary, and measures how well
its releases tell them apart. The tables here have 20 rows of one feature and a label, in this order, for logistic
regression. `Neighbours.of` takes such a table and two rows, with which D and D' replace its first one.

The worst canary has the feature 1, and the label 1 on D and -1 on D'; all other rows have the feature 0. Near the
starting point its gradient is far longer than the clip C on both, so that the clipped gradient jumps from -C to C: by
2C, as far as any row's can. The ordinary canary has the feature 1 on D and 0, as all other rows, on D'. Where batches
are random, the row that is in the batch in place of the canary matters, too: there all other rows are like the canary
on D'. Small batches are drawn by row numbers, larger ones by marking each row, so each way has a case.

The second half of the file has implementations with mistakes on purpose, which an audit or its tests must detect.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from dpviz.audits.audit import KNOWN, Case, Neighbours, load_mistakes
from dpviz.audits.one_run import OneRun
from dpviz.datasets import UploadedTable
from dpviz.experiments.algorithm import Algorithm, Snapshot
from dpviz.experiments.plan import Plan
from dpviz.families.accelerated import algorithms
from dpviz.families.accelerated.algorithms import GradientDescent
from dpviz.privacy import batches, events, matrix_factorisation, releases
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.budgets import Budget, GaussianDP, NoPrivacy, PureDP, require
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.verification.broken import (
    LevelMissing,
    OneBatch,
    OneStream,
    OverlappingLeaves,
    Quieter,
    RepeatedNoise,
    Reusing,
    RoundedOff,
    TenthLess,
    Unsampled,
)
from dpviz.privacy.verification.transcripts import Transcript
from dpviz.problems.base import SmoothFacts, SmoothProblem
from dpviz.problems.linear.linear_models import LogisticProblem, LogisticRegression

ROWS = 20
IDENTITY = "a" * 32  # in place of the checksum of an uploaded file
DATA = UploadedTable(identity=IDENTITY, n=ROWS, bounds=((0.0, 1.0),), names=("a",))
PROBLEM = LogisticRegression(data=DATA, clip=0.01)


def neighbours() -> Neighbours:
    """Return D and D' that differ in the label of the first row, 1 or -1; its feature is 1, that of all others 0."""
    return Neighbours.of(PROBLEM, IDENTITY, np.tile([0.0, 1.0], (ROWS, 1)), one=(1.0, 1.0), other=(1.0, -1.0))


def opposed() -> Neighbours:
    """Return D and D' that differ in the label of the first row, 1 or -1; all other rows are like that row on D'.

    For random batches: a batch that contains the first row on D then differs most from one that does not.
    """
    return Neighbours.of(PROBLEM, IDENTITY, np.tile([1.0, -1.0], (ROWS, 1)), one=(1.0, 1.0), other=(1.0, -1.0))


def ordinary() -> Neighbours:
    """Return D and D' that differ in the feature of the first row, which is 1 on D and 0, as in all other rows, on
    D'."""
    return Neighbours.of(PROBLEM, IDENTITY, np.tile([0.0, 1.0], (ROWS, 1)), one=(1.0, 1.0), other=(0.0, 1.0))


TWO = LogisticRegression(
    data=UploadedTable(identity=IDENTITY, n=ROWS, bounds=((0.0, 1.0),) * 2, names=("a", "b")), clip=0.01, clip_norm="l2"
)


def two_features() -> Neighbours:
    """Return D and D' that differ in the label of the first row, whose two features are 1; those of all others are 0.

    The clipped gradient of that row is longer in L1 than in L2, so it shows if noise is scaled in the wrong norm.
    """
    return Neighbours.of(
        TWO, IDENTITY, np.tile([0.0, 0.0, 1.0], (ROWS, 1)), one=(1.0, 1.0, 1.0), other=(1.0, 1.0, -1.0)
    )


CANARY = "One row has the label 1 on D and -1 on D': its clipped gradient jumps from -C to C."
OPPOSED = "One row has the label 1 on D and -1 on D', as all others have: its clipped gradient jumps from -C to C."
ORDINARY = "One row is 1 on D and 0 on D', as others are: its clipped gradient moves by C, not by 2C."
PURE = (PureDP(epsilon=1.0), PureDP(epsilon=4.0))
GAUSSIAN = (GaussianDP(mu=1.0), GaussianDP(mu=3.0))
METHODS: dict[str, algorithms.GradientMethod] = {
    "gradient_descent": algorithms.GradientDescent(iterations=3),
    "heavy_ball": algorithms.HeavyBall(iterations=3),
    "nesterov": algorithms.Nesterov(iterations=3, schedule="optimal"),
    "multistage_nesterov": algorithms.MultistageNesterov(iterations=3),
}
GAUSSIAN_NOISE = algorithms.Nesterov(iterations=3, noise="gaussian")
BATCHES = algorithms.GradientDescent(iterations=2, batch_fraction=0.25)
SMALL = algorithms.GradientDescent(iterations=2, batch_fraction=0.1)
# Each case: its name in links and its title, the method, the canary in words, budgets, and the function that makes D
# and D'.
WORST: tuple[Case, ...] = (
    *(Case(name, method.title, method, CANARY, PURE, neighbours) for name, method in METHODS.items()),
    Case("nesterov_gaussian", "DP-NAG, Gaussian noise", GAUSSIAN_NOISE, CANARY, GAUSSIAN, neighbours),
    Case("batches", "DP-SGD, random batches", BATCHES, OPPOSED, PURE, opposed, canary_name=KNOWN),
    Case("small", "DP-SGD, small batches", SMALL, OPPOSED, PURE, opposed, canary_name=KNOWN),
    Case("two_features", "DP-GD, two features", METHODS["gradient_descent"], CANARY, PURE, two_features),
)
CASES: tuple[Case, ...] = (
    *WORST,
    # The data of `ordinary` have one feature.
    *(case.ordinary(ORDINARY, ordinary) for case in WORST if case.data is not two_features),
)

# ------------------------------------------------------------------------------------------------------------- one run

CANARIES = 400
MANY = LogisticRegression(
    data=UploadedTable(
        identity=IDENTITY, n=CANARIES, bounds=((0.0, 1.0),) * CANARIES, names=tuple(f"x{i}" for i in range(CANARIES))
    ),
    clip=0.01,
)


def with_labels_by_coins(coins: np.ndarray) -> SmoothProblem:
    """Return the problem for an audit from a single run, in which every row is a canary of its own.

    Row i is the unit vector eᵢ, so it moves coordinate i of the gradient alone. Its label is 1 where `coins` (n,),
    bool, is True, else -1; the attacker guesses the coins from the releases.
    """
    return MANY.build({IDENTITY: np.column_stack([np.eye(CANARIES), np.where(coins, 1.0, -1.0)])})


ONE_RUN = OneRun(algorithms.GradientDescent(iterations=1), CANARIES, with_labels_by_coins)


# --------------------------------------------------------------------- mistakes made on purpose: no class is registered


class Halved(SmoothProblem):
    """Problem that states half the sensitivity of its mean gradient, C/n in place of 2C/n.

    The mistake: C/n is right if a row is added or removed, but here a row is replaced.
    """

    def __init__(self, problem: SmoothProblem) -> None:
        """Wrap a correct problem, whose values and facts stay as they are."""
        self.facts, self._problem = problem.facts, problem

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        return self._problem.evaluate(output, expensive)

    def mean_gradient(self, x: np.ndarray, batch: batches.Batch, norm: releases.Norm) -> releases.Query:
        query = self._problem.mean_gradient(x, batch, norm)
        return query._replace(sensitivity=query.sensitivity / 2)

    def regulariser_gradient(self, x: np.ndarray) -> np.ndarray:
        return self._problem.regulariser_gradient(x)


def neighbours_with_mistake(
    mistaken: type[Halved] = Halved, build: Callable[[], Neighbours] = neighbours
) -> Neighbours:
    """Return the D and D' that `build` returns, each wrapped in the class `mistaken`, whose queries have a mistake."""
    pair = build()
    assert isinstance(pair.one, SmoothProblem) and isinstance(pair.other, SmoothProblem)
    return Neighbours(mistaken(pair.one), mistaken(pair.other))


class OneFewer(Halved):
    """Problem that divides the sum of its n gradients by n - 1 instead of n, but states the sensitivity for n."""

    def mean_gradient(self, x: np.ndarray, batch: batches.Batch, norm: releases.Norm) -> releases.Query:
        query, n = self._problem.mean_gradient(x, batch, norm), self.facts.n
        return query._replace(value=query.value * n / (n - 1))


class EuclideanNorm(Halved):
    """Problem that states the sensitivity of its gradient in L2 where that in L1 is needed, √d times as large."""

    def mean_gradient(self, x: np.ndarray, batch: batches.Batch, norm: releases.Norm) -> releases.Query:
        query = self._problem.mean_gradient(x, batch, norm)
        return query._replace(sensitivity=query.sensitivity / math.sqrt(self.facts.d))


class Unnoised(GradientDescent):
    """Gradient descent that adds no noise, but whose plan states that it keeps the budget."""

    kind: ClassVar[str] = ""

    def plan(self, facts: SmoothFacts, budget: Budget) -> Plan:
        return replace(super().plan(facts, NoPrivacy()), budget=budget)


# ----------------------------------------------------------------------------------------------------- noise used twice


class Both(Algorithm[SmoothProblem, SmoothFacts]):
    """First steps of two methods from the same starting point, with one third and with two thirds of the budget.

    It is correct by itself, and leaks if both steps get the same noise. It releases both new iterates.
    """

    kind: ClassVar[str] = ""

    def plan(self, facts: SmoothFacts, budget: Budget) -> Plan:
        epsilon = require(budget, PureDP).epsilon
        return Plan.fixed(facts, budget, (events.Laplace(epsilon / 3), events.Laplace(2 * epsilon / 3)))

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Release the gradient at the start twice, once for each method, and yield the points after their first steps,
        which differ in their noise only."""
        start = problem.facts.starting_point(mechanisms.replicates)
        yield Snapshot(0, {"x": start})
        for t, event in enumerate(plan.events, 1):
            batch = mechanisms.batch(event)
            noisy = batch.laplace(problem.mean_gradient(start, batch, "l1"))
            yield Snapshot(t, {"x": start - noisy / problem.facts.smoothness})


def without_noise(transcript: Transcript) -> Floats:
    """Return (R,) -g/s for the gradient g of each run of `Both`, in units of the sensitivity s, if its steps used the
    same noise z.

    They then released g + b z and g + b z/2 with the scale b of the first, as the second has twice the ε: twice the
    second less the first is g without noise. -g is larger on D than on D'.
    """
    first, second = transcript.outputs
    sensitivity = 2 * PROBLEM.facts().gradient_bound_l1 / ROWS
    return np.asarray((first - 2 * second)[:, 0] / sensitivity)


class FirstAbove(Algorithm[SmoothProblem, SmoothFacts]):
    """Sparse vector technique on two directions, the first coordinate and its opposite: it releases the index of the
    first one in which the slope of the loss, plus noise, exceeds a noisy threshold."""

    kind: ClassVar[str] = ""

    def plan(self, facts: SmoothFacts, budget: Budget) -> Plan:
        """Return the plan with one release that costs the whole budget."""
        return Plan.fixed(facts, budget, (events.StatedPureDP(require(budget, PureDP).epsilon),))

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Release the index of the first direction, and yield it as the result."""
        x = problem.facts.starting_point(mechanisms.replicates)
        yield Snapshot(0, {"x": x})
        (event,) = plan.events
        batch = mechanisms.batch(event)
        gradient = problem.mean_gradient(x, batch, "l1")
        # Each of the two slopes moves by as much as the gradient, a single number, does in L1.
        query = gradient._replace(value=gradient.value * [1.0, -1.0], norm="linf")
        yield Snapshot(1, {"x": batch.above_threshold(query)[:, None].astype(float)})


# ------------------------------------------------------------------------------------------ data used without a release


class DataStep(GradientDescent):
    """Gradient descent with the mistake of a step size computed from the data, 1/L with L from their largest
    eigenvalue; the lengths of its steps reveal that eigenvalue."""

    kind: ClassVar[str] = ""

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Run gradient descent with the step sizes of the plan replaced by those computed from the data."""
        assert isinstance(problem, LogisticProblem)
        # L = λ_max/4 + 2λ of the logistic loss, whose strong convexity is 2λ.
        smoothness = float(problem.largest_eigenvalue().value[0]) / 4 + problem.facts.strong_convexity
        steps = np.full(plan.iterations, self.relative_step / smoothness)
        return super().run(problem, replace(plan, schedule={**plan.schedule, "step_size": steps}), mechanisms)


def shorter_row() -> Neighbours:
    """Return D and D' that differ in the feature of the first row, 1 on D and 0.5 on D'.

    Its clipped gradient is the same on both, so that releases of gradients do not tell them apart.
    """
    return Neighbours.of(PROBLEM, IDENTITY, np.tile([0.0, 1.0], (ROWS, 1)), one=(1.0, 1.0), other=(0.5, 1.0))


class RunningGradient(Algorithm[SmoothProblem, SmoothFacts]):
    """Running sums of four gradients, each of another quarter of the rows at the starting point, with the noise of a
    binary tree of four leaves: each noise of the tree is shared by the sums that its node is part of."""

    kind: ClassVar[str] = ""
    leaves: ClassVar[int] = 4

    def plan(self, facts: SmoothFacts, budget: Budget) -> Plan:
        """Return the plan with one Gaussian event that pays for all running sums."""
        event = events.Gaussian(require(budget, GaussianDP).mu)
        first_step = np.ones(1, dtype=int)  # number of the step at which the one event is charged
        return Plan.fixed(facts, budget, (event,), charged_at=first_step, iterations=self.leaves)

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Release the running sums of the gradients of four disjoint parts of the rows, and yield each sum."""
        facts, x = problem.facts, problem.facts.starting_point(mechanisms.replicates)
        yield Snapshot(0, {"x": x})
        (event,) = plan.events
        rows_per_leaf = facts.n // self.leaves
        leaves = mechanisms.leaves([rows_per_leaf] * self.leaves, facts.n)
        sensitivity = facts.gradient_sensitivity("l2", rows_per_leaf)
        tree = matrix_factorisation.binary_tree(self.leaves)
        sums = mechanisms.prefix_sums(event, tree, leaves, sensitivity, shape=(facts.d,))
        for t in range(1, self.leaves + 1):  # `sums.add` returns the noisy sum of the gradients so far
            yield Snapshot(t, {"x": sums.add(problem.mean_gradient(x, leaves.next(), "l2"))})


# ------------------------------------------------------------------------------------------------------------- the list

DESCENT = GradientDescent(iterations=1)
ONE_STEP = Case("one_step", "DP-GD, one step", DESCENT, CANARY, (PureDP(epsilon=1.0),), neighbours)
ONE_BATCH = replace(
    ONE_STEP, name="one_batch", title="DP-SGD, one step", algorithm=GradientDescent(iterations=1, batch_fraction=0.1)
)
TWO_METHODS = replace(ONE_STEP, name="two_methods", title="Two methods", algorithm=Both())
SPARSE_VECTOR = replace(ONE_STEP, name="first_above", title="Sparse vector", algorithm=FirstAbove())
STEP_SIZE = replace(
    ONE_STEP,
    name="step_size",
    title="DP-GD, one step",
    data=shorter_row,
    canary="One row is half as long on D' as on D; its clipped gradient is the same.",
)
RUNNING_SUMS = replace(
    ONE_STEP, name="running_sums", title="Running sums", algorithm=RunningGradient(), budgets=(GaussianDP(mu=1.0),)
)
THREE_STEPS = replace(ONE_STEP, name="three_steps", title="DP-GD, three steps", algorithm=GradientDescent(iterations=3))
TWO_BATCHES = replace(
    ONE_STEP,
    name="two_batches",
    title="DP-SGD, two steps",
    algorithm=GradientDescent(iterations=2, batch_fraction=0.25),
)
ONE_STEP_TWO_FEATURES = replace(ONE_STEP, name="one_step_two_features", data=two_features)
# By the name of each mistake: the case that has it, and the same case without it.
BROKEN = load_mistakes(
    __package__,
    {
        "quieter": (replace(ONE_STEP, source=Quieter), ONE_STEP),
        "add_remove": (replace(ONE_STEP, data=neighbours_with_mistake), ONE_STEP),
        "unsampled": (replace(ONE_BATCH, source=Unsampled), ONE_BATCH),
        "one_stream": (replace(TWO_METHODS, source=OneStream, score=without_noise), TWO_METHODS),
        "reused_noise": (replace(SPARSE_VECTOR, source=Reusing), SPARSE_VECTOR),
        "data_step": (replace(STEP_SIZE, algorithm=DataStep(iterations=1)), STEP_SIZE),
        "unnoised": (replace(ONE_STEP, algorithm=Unnoised(iterations=1)), ONE_STEP),
        "leaf_twice": (replace(RUNNING_SUMS, source=OverlappingLeaves), RUNNING_SUMS),
        "noise_again": (replace(THREE_STEPS, source=RepeatedNoise), THREE_STEPS),
        "one_batch": (replace(TWO_BATCHES, source=OneBatch), TWO_BATCHES),
        "level_missing": (replace(RUNNING_SUMS, source=LevelMissing), RUNNING_SUMS),
        "one_fewer": (replace(ONE_STEP, data=partial(neighbours_with_mistake, OneFewer)), ONE_STEP),
        "tenth_less": (replace(THREE_STEPS, source=TenthLess), THREE_STEPS),
        "euclidean_norm": (
            replace(ONE_STEP_TWO_FEATURES, data=partial(neighbours_with_mistake, EuclideanNorm, two_features)),
            ONE_STEP_TWO_FEATURES,
        ),
        "rounded_off": (replace(ONE_STEP, source=RoundedOff), ONE_STEP),
    },
)
