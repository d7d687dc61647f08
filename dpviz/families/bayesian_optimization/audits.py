"""Tiny tuning problems for audits: two data sets, D and D', which differ in one user of the validation data.

All users have one number, and a loss that is smallest there. The worst user is at 1 on D and at -1 on D', all others
are at 0: where runs begin, at 0, the gradients of this user's loss are opposite and far longer than the clip. The
ordinary user is at 1 on D and at 0 on D', as all others are. Methods that estimate a slope, or look at the loss where
runs begin, are not audited with the ordinary user, as they see no less of that user than of the worst one.
"""

from functools import partial

import numpy as np

from dpviz.audits.audit import KNOWN, Case, Neighbours, Row
from dpviz.datasets import UploadedTable
from dpviz.families.bayesian_optimization.algorithms import Gibo, GlobalSearch, GradientDescent, RandomSearch
from dpviz.privacy.budgets import GaussianDP, PureDP
from dpviz.problems.tuning.model_tuning import NormalLocation

ROWS = 20
IDENTITY = "b" * 32  # in place of the checksum of an uploaded file
DATA = UploadedTable(identity=IDENTITY, n=ROWS, bounds=((-1.0, 1.0),), names=("a",))
PROBLEM = NormalLocation(data=DATA, start=0.0, loss_cap=2.0)


def neighbours(other: Row = (-1.0, 1.0)) -> Neighbours:
    """Return the problem on D and on D'. The first row, of the user who differs, is (1, 1) on D and `other` on D'; all
    other rows are (0, 1). A row has a feature, and a target that this problem does not use."""
    return Neighbours.of(PROBLEM, IDENTITY, np.tile([0.0, 1.0], (ROWS, 1)), one=(1.0, 1.0), other=other)


FAR = "One row far from all others"
WIDE = NormalLocation(data=DATA, start=0.0, loss_cap=40.0)  # losses far from the others are not cut off


def far() -> Neighbours:
    """Return D and D' that differ in a user whose gradient is far longer than the clip, while no other user's gradient
    reaches it."""
    return Neighbours.of(WIDE, IDENTITY, np.tile([0.0, 1.0], (ROWS, 1)), one=(1.0, 1.0), other=(-1.0, 1.0))


CANARY = "One user of the validation data is at 1 on D and at -1 on D': the loss at every setting moves, or its slope."
ORDINARY = "One user of the validation data is at 1 on D and at 0 on D', as all others are: losses move half as far."
GAUSSIAN = (GaussianDP(mu=1.0), GaussianDP(mu=3.0))
SELECTION = (PureDP(epsilon=2.0), PureDP(epsilon=6.0))
EXACT, SEARCH = GradientDescent(iterations=2, clip=0.1), GlobalSearch(trainings=2, first=1, candidates=10)
RANDOM = RandomSearch(trainings=2)
GIBO = Gibo(iterations=2, clip=0.1, batch_size=1)
# Fewer runs than the default for the two methods that compute Gaussian processes, which take longest.
FAR_USER = Case("gibo_far", Gibo.title, GIBO.replaced(clip=1.0), CANARY, GAUSSIAN, far, runs=2000, canary_name=FAR)
WITH_WORST_USER: tuple[Case, ...] = (
    Case("gibo", Gibo.title, GIBO, CANARY, GAUSSIAN, neighbours, runs=2000, canary_name=KNOWN),
    Case("exact_gradients", GradientDescent.title, EXACT, CANARY, GAUSSIAN, neighbours),
    Case("random_search", RandomSearch.title, RANDOM, CANARY, SELECTION, neighbours, canary_name=KNOWN),
    Case("global_search", GlobalSearch.title, SEARCH, CANARY, GAUSSIAN, neighbours, runs=5000, canary_name=KNOWN),
)
CASES: tuple[Case, ...] = (
    *WITH_WORST_USER,
    FAR_USER,
    *(
        case.ordinary(ORDINARY, partial(neighbours, (0.0, 1.0)))
        for case in WITH_WORST_USER
        if case.name in ("exact_gradients", "random_search")
    ),
)
