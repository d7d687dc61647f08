"""Tiny worst cases of the gradient methods, for audits.

One row is a 1 with the label 1 on D and -1 on D', all others are 0. Near the starting point its gradient is far longer
than the clip C on either, so that it jumps from -C to C: 2C, as far as any row's can.
"""

import numpy as np

from dpviz.datasets import UploadedTable
from dpviz.experiments.audit import Case, Neighbours
from dpviz.families.accelerated.algorithms import GradientDescent, Nesterov
from dpviz.privacy.budgets import PureDP
from dpviz.problems.linear_models import LogisticRegression

ROWS = 20
IDENTITY = "a" * 32
PROBLEM = LogisticRegression(
    data=UploadedTable(identity=IDENTITY, n=ROWS, bounds=((0.0, 1.0),), names=("a",)), clip=0.01
)


def neighbours() -> Neighbours:
    """See above."""
    problems = []
    for label in (1.0, -1.0):
        table = np.zeros((ROWS, 2))
        table[0], table[1:, 1] = (1.0, label), 1.0
        problems.append(PROBLEM.build({IDENTITY: table}))
    return Neighbours(problems[0], problems[1])


CANARY = "One row has the label 1 on D and -1 on D': its clipped gradient jumps from -C to C."
BUDGETS = (PureDP(epsilon=1.0), PureDP(epsilon=4.0))
CASES: tuple[Case, ...] = (
    Case("gradient_descent", "DP-GD", GradientDescent(iterations=3), CANARY, BUDGETS, neighbours),
    Case("nesterov", "DP-NAG", Nesterov(iterations=3), CANARY, BUDGETS, neighbours),
)
