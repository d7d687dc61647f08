"""Tiny worst cases of private tuning, for audits.

One user of the validation data is at 1 on D and at -1 on D', all others at 0. Where runs begin, the gradients of this
user's loss are opposite and far longer than the clip. The ordinary user is at 0 on D', as all others; to the methods
that estimate a slope or look at the loss where runs begin, that user shows no less.
"""

from functools import partial

import numpy as np

from dpviz.audits.audit import KNOWN, Case, Neighbours, Row
from dpviz.datasets import UploadedTable
from dpviz.families.bayesian_optimization.algorithms import Gibo, GlobalSearch, GradientDescent, RandomSearch
from dpviz.privacy.budgets import GaussianDP, PureDP
from dpviz.problems.tuning.model_tuning import NormalLocation

ROWS = 20
IDENTITY = "b" * 32
DATA = UploadedTable(identity=IDENTITY, n=ROWS, bounds=((-1.0, 1.0),), names=("a",))
PROBLEM = NormalLocation(data=DATA, start=0.0, loss_cap=2.0)


def neighbours(other: Row = (-1.0, 1.0)) -> Neighbours:
    """Return D and D' that differ in one user, who is at `other` on D'."""
    return Neighbours.of(PROBLEM, IDENTITY, np.tile([0.0, 1.0], (ROWS, 1)), (1.0, 1.0), other)


FAR = "One row far from all others"
WIDE = NormalLocation(data=DATA, start=0.0, loss_cap=40.0)


def far() -> Neighbours:
    """Return D and D' that differ in a user whose slope is far longer than the clip; the others' do not reach it."""
    return Neighbours.of(WIDE, IDENTITY, np.tile([0.0, 1.0], (ROWS, 1)), (1.0, 1.0), (-1.0, 1.0))


CANARY = "One user of the validation data is at 1 on D and at -1 on D': the loss at every setting moves, or its slope."
ORDINARY = "One user of the validation data is at 1 on D and at 0 on D', as all others are: losses move half as far."
GAUSSIAN = (GaussianDP(mu=1.0), GaussianDP(mu=3.0))
SELECTION = (PureDP(epsilon=2.0), PureDP(epsilon=6.0))
EXACT, SEARCH = GradientDescent(iterations=2, clip=0.1), GlobalSearch(trainings=2, first=1, candidates=10)
RANDOM = RandomSearch(trainings=2)
GUIDED = Gibo(iterations=2, clip=0.1, batch_size=1)
UNCLIPPED = Case("gibo_far", Gibo.title, GUIDED.replaced(clip=1.0), CANARY, GAUSSIAN, far, 2000, canary_name=FAR)
WORST: tuple[Case, ...] = (
    Case("gibo", Gibo.title, GUIDED, CANARY, GAUSSIAN, neighbours, 2000, canary_name=KNOWN),
    Case("exact_gradients", GradientDescent.title, EXACT, CANARY, GAUSSIAN, neighbours),
    Case("random_search", RandomSearch.title, RANDOM, CANARY, SELECTION, neighbours, canary_name=KNOWN),
    Case("global_search", GlobalSearch.title, SEARCH, CANARY, GAUSSIAN, neighbours, 5000, canary_name=KNOWN),
)
CASES: tuple[Case, ...] = (
    *WORST,
    UNCLIPPED,
    *(
        case.ordinary(ORDINARY, partial(neighbours, (0.0, 1.0)))
        for case in WORST
        if case.name in ("exact_gradients", "random_search")
    ),
)
