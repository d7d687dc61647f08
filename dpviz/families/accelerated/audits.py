"""Tiny worst cases of the gradient methods, for audits.

The canary is a row with the feature 1, whose label is 1 on D and -1 on D'; all other rows have the feature 0. Near the
starting point its gradient is far longer than the clip C on either, so that the clipped gradient jumps from -C to C:
by 2C, as far as any row's can. The ordinary canary has the feature 0 on D', as all others. Where batches are random,
the row that is in the batch in place of the canary counts, too: there all others are as the canary on D'. Row numbers
are drawn for small batches; for larger ones each row is marked: each way has a case.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from dpviz.audits import audit
from dpviz.audits.audit import KNOWN, Case, Neighbours
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
    Again,
    LevelMissing,
    OneBatch,
    OneStream,
    Quieter,
    Reusing,
    RoundedOff,
    TenthLess,
    Twice,
    Unsampled,
)
from dpviz.privacy.verification.transcripts import Transcript
from dpviz.problems.base import SmoothFacts, SmoothProblem
from dpviz.problems.linear.linear_models import LogisticProblem, LogisticRegression

ROWS = 20
IDENTITY = "a" * 32
DATA = UploadedTable(identity=IDENTITY, n=ROWS, bounds=((0.0, 1.0),), names=("a",))
PROBLEM = LogisticRegression(data=DATA, clip=0.01)


def neighbours() -> Neighbours:
    """Return D and D' that differ in the label of one row; all other features are 0."""
    return Neighbours.of(PROBLEM, IDENTITY, np.tile([0.0, 1.0], (ROWS, 1)), (1.0, 1.0), (1.0, -1.0))


def opposed() -> Neighbours:
    """Return D and D' that differ in the label of one row; all other rows are as that row on D', for random batches."""
    return Neighbours.of(PROBLEM, IDENTITY, np.tile([1.0, -1.0], (ROWS, 1)), (1.0, 1.0), (1.0, -1.0))


def ordinary() -> Neighbours:
    """Return D and D' that differ in the feature of one row, which is 1 on D and 0, as all others, on D'."""
    return Neighbours.of(PROBLEM, IDENTITY, np.tile([0.0, 1.0], (ROWS, 1)), (1.0, 1.0), (0.0, 1.0))


TWO = LogisticRegression(
    data=UploadedTable(identity=IDENTITY, n=ROWS, bounds=((0.0, 1.0),) * 2, names=("a", "b")), clip=0.01, clip_norm="l2"
)


def two_features() -> Neighbours:
    """Return D and D' that differ in the label of one row (1, 1), whose clipped gradient is longer in L1 than in L2."""
    return Neighbours.of(TWO, IDENTITY, np.tile([0.0, 0.0, 1.0], (ROWS, 1)), (1.0, 1.0, 1.0), (1.0, 1.0, -1.0))


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
WORST: tuple[Case, ...] = (
    *(Case(name, method.title, method, CANARY, PURE, neighbours) for name, method in METHODS.items()),
    Case("nesterov_gaussian", "DP-NAG, Gaussian noise", GAUSSIAN_NOISE, CANARY, GAUSSIAN, neighbours),
    Case("batches", "DP-SGD, random batches", BATCHES, OPPOSED, PURE, opposed, canary_name=KNOWN),
    Case("small", "DP-SGD, small batches", SMALL, OPPOSED, PURE, opposed, canary_name=KNOWN),
    Case("two_features", "DP-GD, two features", METHODS["gradient_descent"], CANARY, PURE, two_features),
)
CASES: tuple[Case, ...] = (
    *WORST,
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


def tossed(coins: np.ndarray) -> SmoothProblem:
    """Return the problem whose row i is the unit vector eᵢ, with the label 1 if `coins` (n,) has heads, else -1."""
    return MANY.build({IDENTITY: np.column_stack([np.eye(CANARIES), np.where(coins, 1.0, -1.0)])})


ONE_RUN = OneRun(algorithms.GradientDescent(iterations=1), CANARIES, tossed)


# --------------------------------------------------------------------- mistakes made on purpose: no class is registered


class Halved(SmoothProblem):
    """Problem that halves the sensitivity of its gradients, to C/n: right for a row that is added, not replaced."""

    def __init__(self, problem: SmoothProblem) -> None:
        self.facts, self._problem = problem.facts, problem

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        return self._problem.evaluate(output, expensive)

    def mean_gradient(self, x: np.ndarray, batch: batches.Batch, norm: releases.Norm) -> releases.Query:
        query = self._problem.mean_gradient(x, batch, norm)
        return query._replace(sensitivity=query.sensitivity / 2)

    def regulariser_gradient(self, x: np.ndarray) -> np.ndarray:
        return self._problem.regulariser_gradient(x)


def halved(problem: type[Halved] = Halved, pair: Callable[[], audit.Neighbours] = neighbours) -> audit.Neighbours:
    """Return the neighbours of `pair` as problems of the class `problem`, whose queries have a mistake."""
    data = pair()
    assert isinstance(data.one, SmoothProblem) and isinstance(data.other, SmoothProblem)
    return audit.Neighbours(problem(data.one), problem(data.other))


class OneFewer(Halved):
    """Problem that divides the sum of gradients by n - 1."""

    def mean_gradient(self, x: np.ndarray, batch: batches.Batch, norm: releases.Norm) -> releases.Query:
        query, n = self._problem.mean_gradient(x, batch, norm), self.facts.n
        return query._replace(value=query.value * n / (n - 1))


class EuclideanNorm(Halved):
    """Problem that states the sensitivity of a gradient in L2 as its sensitivity in L1."""

    def mean_gradient(self, x: np.ndarray, batch: batches.Batch, norm: releases.Norm) -> releases.Query:
        query = self._problem.mean_gradient(x, batch, norm)
        return query._replace(sensitivity=query.sensitivity / math.sqrt(self.facts.d))


class Unnoised(GradientDescent):
    """Gradient descent without noise, whose plan states that it spends the budget."""

    kind: ClassVar[str] = ""

    def plan(self, facts: SmoothFacts, budget: Budget) -> Plan:
        return replace(super().plan(facts, NoPrivacy()), budget=budget)


# ----------------------------------------------------------------------------------------------------- noise used twice


class Both(Algorithm[SmoothProblem, SmoothFacts]):
    """First steps of two methods that begin at the same point, with a third and with two thirds of the budget."""

    kind: ClassVar[str] = ""

    def plan(self, facts: SmoothFacts, budget: Budget) -> Plan:
        epsilon = require(budget, PureDP).epsilon
        return Plan.fixed(facts, budget, (events.Laplace(epsilon / 3), events.Laplace(2 * epsilon / 3)))

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        x = problem.facts.starting_point(mechanisms.replicates)
        yield Snapshot(0, {"x": x})
        for t, event in enumerate(plan.events, 1):
            batch = mechanisms.batch(event)
            noisy = batch.laplace(problem.mean_gradient(x, batch, "l1"))
            yield Snapshot(t, {"x": x - noisy / problem.facts.smoothness})


def without_noise(transcript: Transcript) -> Floats:
    """Return (R,) -g/s, which is larger on D, where the methods released g + s z and g + s z/2 with the same noise z:
    twice the second less the first is the gradient g."""
    first, second = transcript.released
    scale = 2 * PROBLEM.facts().gradient_bound_l1 / ROWS
    return np.asarray((first - 2 * second)[:, 0] / scale)


class FirstAbove(Algorithm[SmoothProblem, SmoothFacts]):
    """Sparse vector technique that releases the first of two directions in which the loss rises."""

    kind: ClassVar[str] = ""

    def plan(self, facts: SmoothFacts, budget: Budget) -> Plan:
        return Plan.fixed(facts, budget, (events.StatedPureDP(require(budget, PureDP).epsilon),))

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        x = problem.facts.starting_point(mechanisms.replicates)
        yield Snapshot(0, {"x": x})
        (event,) = plan.events
        batch = mechanisms.batch(event)
        gradient = problem.mean_gradient(x, batch, "l1")
        query = gradient._replace(value=gradient.value * [1.0, -1.0], norm="linf")
        yield Snapshot(1, {"x": batch.above_threshold(query)[:, None].astype(float)})


# ------------------------------------------------------------------------------------------ data used without a release


class DataStep(GradientDescent):
    """Gradient descent whose step size is computed from the data's largest eigenvalue, which its steps then reveal."""

    kind: ClassVar[str] = ""

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        assert isinstance(problem, LogisticProblem)
        smoothness = float(problem.curvature().value[0]) / 4 + problem.facts.strong_convexity
        steps = np.full(plan.iterations, self.relative_step / smoothness)
        return super().run(problem, replace(plan, schedule={**plan.schedule, "step_size": steps}), mechanisms)


def longer() -> audit.Neighbours:
    """Return D and D' that differ in the length of one row, on D' half of that on D, with the same clipped gradient."""
    return audit.Neighbours.of(PROBLEM, IDENTITY, np.tile([0.0, 1.0], (ROWS, 1)), (1.0, 1.0), (0.5, 1.0))


class RunningGradient(Algorithm[SmoothProblem, SmoothFacts]):
    """Running sums of four gradients at the start, each of different rows, released by a binary tree of four leaves."""

    kind: ClassVar[str] = ""
    leaves: ClassVar[int] = 4

    def plan(self, facts: SmoothFacts, budget: Budget) -> Plan:
        event = events.Gaussian(require(budget, GaussianDP).mu)
        return Plan.fixed(facts, budget, (event,), charged_at=np.ones(1, dtype=int), iterations=self.leaves)

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        facts, x = problem.facts, problem.facts.starting_point(mechanisms.replicates)
        yield Snapshot(0, {"x": x})
        size, (event,) = facts.n // self.leaves, plan.events
        leaves = mechanisms.leaves([size] * self.leaves, facts.n)
        change = facts.gradient_sensitivity("l2", size)
        sums = mechanisms.prefix_sums(event, matrix_factorisation.binary_tree(self.leaves), leaves, change, (facts.d,))
        for t in range(1, self.leaves + 1):
            yield Snapshot(t, {"x": sums.add(problem.mean_gradient(x, leaves.next(), "l2"))})


# ------------------------------------------------------------------------------------------------------------- the list

DESCENT = GradientDescent(iterations=1)
ONE = audit.Case("one_step", "DP-GD, one step", DESCENT, CANARY, (PureDP(epsilon=1.0),), neighbours)
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
PLANE = replace(ONE, name="one_step_two_features", data=two_features)
BROKEN = audit.load(
    __package__,
    {
        "quieter": (replace(ONE, source=Quieter), ONE),
        "add_remove": (replace(ONE, data=halved), ONE),
        "unsampled": (replace(SAMPLED, source=Unsampled), SAMPLED),
        "one_stream": (replace(PAIR, source=OneStream, score=without_noise), PAIR),
        "reused_noise": (replace(SVT, source=Reusing), SVT),
        "data_step": (replace(STEP, algorithm=DataStep(iterations=1)), STEP),
        "unnoised": (replace(ONE, algorithm=Unnoised(iterations=1)), ONE),
        "leaf_twice": (replace(TREE, source=Twice), TREE),
        "noise_again": (replace(THREE, source=Again), THREE),
        "one_batch": (replace(DEALT, source=OneBatch), DEALT),
        "level_missing": (replace(TREE, source=LevelMissing), TREE),
        "one_fewer": (replace(ONE, data=partial(halved, OneFewer)), ONE),
        "tenth_less": (replace(THREE, source=TenthLess), THREE),
        "euclidean_norm": (replace(PLANE, data=partial(halved, EuclideanNorm, two_features)), PLANE),
        "rounded_off": (replace(ONE, source=RoundedOff), ONE),
    },
)
