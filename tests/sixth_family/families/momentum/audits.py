"""A tiny worst case of the method, for audits: near the start the canary's gradient is far longer than the clip."""

import numpy as np
from dpviz.families.momentum.algorithms import MomentumDescent

from dpviz.audits.audit import Case, Neighbours
from dpviz.datasets import UploadedTable
from dpviz.privacy.budgets import PureDP
from dpviz.problems.linear.linear_models import LogisticRegression

ROWS = 20
IDENTITY = "a" * 32
DATA = UploadedTable(identity=IDENTITY, n=ROWS, bounds=((0.0, 1.0),), names=("a",))
PROBLEM = LogisticRegression(data=DATA, clip=0.01)
CANARY = "One row has the label 1 on D and -1 on D': its clipped gradient jumps from -C to C."
BUDGETS = (PureDP(epsilon=1.0), PureDP(epsilon=4.0))


def neighbours() -> Neighbours:
    """All other rows are 0, so that their gradients are, too."""
    return Neighbours.of(PROBLEM, IDENTITY, np.tile([0.0, 1.0], (ROWS, 1)), (1.0, 1.0), (1.0, -1.0))


CASES = (Case("momentum", "Momentum", MomentumDescent(iterations=3), CANARY, BUDGETS, neighbours),)
