"""Tiny worst cases of methods that use values only, for audits.

An audit runs a method many times on two data sets D and D', which differ in one row, the canary, and measures how well
its releases tell them apart. All rows but the first have the feature 0 and the target 1. The first is the canary: it
has the feature 1, and a target that is 1 on D and -1 on D', so that on D' its loss rises along every direction along
which it falls on D. The guarantee holds for every order in which rows are dealt to the steps, so the canary may come
first. The ordinary canary has the feature 0 on D', as all other rows.
"""

from functools import partial

import numpy as np

from dpviz.audits.audit import KNOWN, WORST, Case, Neighbours, Row
from dpviz.datasets import UploadedTable
from dpviz.families.zeroth_order.algorithms import DirectionalDescent, FirstOrder, Naive, VarianceReduced
from dpviz.privacy.budgets import GaussianDP
from dpviz.problems.values.black_box import CappedRegression

ROWS = 20
IDENTITY = "d" * 32  # in place of the checksum of an uploaded file
DATA = UploadedTable(identity=IDENTITY, n=ROWS, bounds=((0.0, 1.0),), names=("a",))
# With L = 0.3, less than the canary's slope of 1, its differences of values reach the clip.
PROBLEM = CappedRegression(data=DATA, cap=2.0, radius=0.5, lipschitz=0.3)


def neighbours(other: Row = (1.0, -1.0)) -> Neighbours:
    """Return D and D' that differ in the first row: (1, 1), feature and target, on D, and `other` on D'."""
    rows = np.tile([0.0, 1.0], (ROWS, 1))
    return Neighbours.of(PROBLEM, IDENTITY, rows, one=(1.0, 1.0), other=other)


CANARY = "One row has the target 1 on D and -1 on D': its loss rises along every direction along which it fell."
ORDINARY = "One row is 1 on D and 0 on D', as all others are: on D' its loss is the same in every direction."
BUDGETS = (GaussianDP(mu=1.0), GaussianDP(mu=3.0))
TITLES = {"optimal_sums": f"{VarianceReduced.title}, optimal sums"}
# In the first three, differences along some directions stay below the clip: another canary might prove more.
WORST_CASES: tuple[Case, ...] = tuple(
    Case(
        name,
        TITLES.get(name, method.title),
        method,
        CANARY,
        BUDGETS,
        neighbours,
        canary_name=KNOWN if name in ("variance_reduced", "optimal_sums", "naive") else WORST,
    )
    for name, method in {
        "variance_reduced": VarianceReduced(iterations=2, epoch_length=2, first_share=0.1),
        "optimal_sums": VarianceReduced(iterations=6, epoch_length=3, first_share=0.1, sums="optimal"),
        "naive": Naive(iterations=2),
        "directional_descent": DirectionalDescent(descent_steps=3, clip=0.1),
        "first_order": FirstOrder(descent_steps=3),
    }.items()
)
CASES: tuple[Case, ...] = (
    *WORST_CASES,
    *(case.ordinary(ORDINARY, partial(neighbours, (0.0, 1.0))) for case in WORST_CASES),
)
