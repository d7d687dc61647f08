"""Tiny worst cases of the gradient methods, for audits.

One row is a 1 with the label 1 on D and -1 on D', all others are 0. Near the starting point its gradient is far longer
than the clip C on either, so that it jumps from -C to C: 2C, as far as any row's can.
The ordinary row is a 0 on D', as all others. Where batches are random, what takes the row's place in them counts, too:
there all others are as the one on D'. Small batches are drawn, in others each row is marked: each has a case.
"""

import numpy as np

from dpviz.audits.audit import KNOWN, Case, Neighbours
from dpviz.audits.one_run import OneRun
from dpviz.datasets import UploadedTable
from dpviz.families.accelerated import algorithms
from dpviz.privacy.budgets import GaussianDP, PureDP
from dpviz.problems.base import SmoothProblem
from dpviz.problems.linear.linear_models import LogisticRegression

ROWS = 20
IDENTITY = "a" * 32
DATA = UploadedTable(identity=IDENTITY, n=ROWS, bounds=((0.0, 1.0),), names=("a",))
PROBLEM = LogisticRegression(data=DATA, clip=0.01)


def neighbours() -> Neighbours:
    """See above."""
    return Neighbours.of(PROBLEM, IDENTITY, np.tile([0.0, 1.0], (ROWS, 1)), (1.0, 1.0), (1.0, -1.0))


def opposed() -> Neighbours:
    """See above, for random batches."""
    return Neighbours.of(PROBLEM, IDENTITY, np.tile([1.0, -1.0], (ROWS, 1)), (1.0, 1.0), (1.0, -1.0))


def ordinary() -> Neighbours:
    """See above."""
    return Neighbours.of(PROBLEM, IDENTITY, np.tile([0.0, 1.0], (ROWS, 1)), (1.0, 1.0), (0.0, 1.0))


TWO = LogisticRegression(
    data=UploadedTable(identity=IDENTITY, n=ROWS, bounds=((0.0, 1.0),) * 2, names=("a", "b")), clip=0.01, clip_norm="l2"
)


def two_features() -> Neighbours:
    """The row is (1, 1), all others are 0: its clipped gradient is longer in L1 than in L2."""
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
    """Row i is the unit vector eᵢ; its label is 1 for heads and -1 for tails."""
    return MANY.build({IDENTITY: np.column_stack([np.eye(CANARIES), np.where(coins, 1.0, -1.0)])})


ONE_RUN = OneRun(algorithms.GradientDescent(iterations=1), CANARIES, tossed)
