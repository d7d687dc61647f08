"""Tiny cases of second-order methods, for audits.

An audit runs a method many times on two data sets D and D', which differ in one row, the canary, and measures how well
its releases tell them apart. The tables here have 20 rows v of two features, for the robust component loss, a function
of the product ⟨v, x⟩ of a row with the parameters x. All rows but the canary are 0.

There are four canaries. One has gradients that differ most: runs start far out along the first axis, where the loss is
steepest for a row with the product 1/√3; two such rows that are mirror images have gradients as far apart as any two.
One has Hessians that differ most: runs start at 0, where no row has a gradient, and the Hessians of the unit vectors e₁
and e₂ are as far apart as any two. Their smallest eigenvalues are equal, so for a method that releases that number
alone the canary is e₁ on D and 0 on D'. The ordinary canary has the steepest loss on D, and is 0 on D', as all other
rows.
"""

from dataclasses import replace

import numpy as np

from dpviz.audits.audit import KNOWN, Case, Neighbours, Row, load_mistakes
from dpviz.datasets import UploadedTable
from dpviz.families.second_order.methods.algorithms import MiniBatch, NonconvexMethod, PerturbedDescent, ShortStep
from dpviz.families.second_order.methods.trust_region import LineSearch, MiniBatchTrustRegion, TrustRegion
from dpviz.privacy.budgets import ApproximateDP, GaussianDP
from dpviz.privacy.verification.broken import QuietOffDiagonal
from dpviz.problems.nonconvex.nonconvex import RobustComponent

ROWS = 20
IDENTITY = "f" * 32  # any name will do, as the rows are made here
DATA = UploadedTable(identity=IDENTITY, n=ROWS, bounds=((-1.0, 1.0),) * 2, names=("a", "b"))
FAR = RobustComponent(data=DATA, start="random", start_seed=1950)  # x₀ is nearly 4.56 e₁
ZERO = RobustComponent(data=DATA)
GRADIENTS = (
    "One row is mirrored; on D and on D' it lies where the loss is steepest: its gradients are as far apart as any."
)
EIGENVALUES = (
    "One row is (1, 0) on D, and 0 on D', as all others: at the saddle where runs begin, the smallest eigenvalue moves."
)
HESSIANS = (
    "One row is (1, 0) on D and (0, 1) on D': at the saddle where runs begin their Hessians are as far apart as any."
)
ORDINARY = "One row lies where the loss is steepest on D, and is 0 on D', as all others are: there it has no gradient."
SADDLE = "Worst known case at a saddle"
BUDGETS = (GaussianDP(mu=1.0), GaussianDP(mu=3.0))
SAMPLED = (ApproximateDP(epsilon=4.0, delta=1e-3), ApproximateDP(epsilon=16.0, delta=1e-3))


def _pair(problem: RobustComponent, one: Row, other: Row) -> Neighbours:
    """Return D and D' that differ in the first row, `one` on D and `other` on D', as the data of `problem`; all other
    rows are 0."""
    zeros = np.column_stack([np.zeros((ROWS, 2)), np.ones(ROWS)])  # two features, and the label 1
    return Neighbours.of(problem, IDENTITY, zeros, one=(*one, 1), other=(*other, 1))


def gradients() -> Neighbours:
    """Return D and D' whose canary has the gradients that differ most at the start far out: two mirror images of a row
    at which the loss is steepest there."""
    along, across = _steepest()
    return _pair(FAR, (along, across), (along, -across))


def ordinary() -> Neighbours:
    """Return D and D' whose canary is, on D, a row at which the loss is steepest at the start far out, and 0 on D'."""
    return _pair(FAR, _steepest(), (0.0, 0.0))


def _steepest() -> tuple[float, float]:
    """Return a row of length 1 whose product with the start far out is 1/√3, where the loss is steepest."""
    along = 1 / np.sqrt(3) / float(FAR.starting_point()[0, 0])
    return along, float(np.sqrt(1 - along**2))


def hessians() -> Neighbours:
    """Return D and D' whose canary has the Hessians that differ most at the saddle at 0: e₁ on D, e₂ on D'."""
    return _pair(ZERO, (1.0, 0.0), (0.0, 1.0))


def eigenvalues() -> Neighbours:
    """Return D and D' whose canary, e₁ on D and 0 on D', moves the smallest eigenvalue of the Hessian at the saddle."""
    return _pair(ZERO, (1.0, 0.0), (0.0, 0.0))


# A target of 0.01 is below the length of most noisy gradients, so that runs step; with 0.3 they often pass the test of
# the gradient, and release Hessians.
METHODS: dict[str, NonconvexMethod] = {
    "short_step": ShortStep(iterations=2, gradient_target=0.01),
    "line_search": LineSearch(iterations=2, gradient_target=0.01),
    "trust_region": TrustRegion(iterations=2, gradient_target=0.01),
    "perturbed_descent": PerturbedDescent(iterations=2, gradient_target=0.01),
    "mini_batch": MiniBatch(iterations=2, gradient_target=0.01, batch_fraction=0.5),
    "mini_batch_trust_region": MiniBatchTrustRegion(iterations=2, gradient_target=0.01, batch_fraction=0.5),
}
CURVED = ("short_step", "line_search", "trust_region")  # have a case at the saddle, too
# Each case: its name in links and its title, the method, the canary in words, budgets, and the function that makes D
# and D'.
WORST: tuple[Case, ...] = tuple(
    Case(name, method.title, method, GRADIENTS, SAMPLED if "mini" in name else BUDGETS, gradients, canary_name=KNOWN)
    for name, method in METHODS.items()
)
PRODUCTS = ShortStep(iterations=2, gradient_target=0.3, hessian_products=4)
CERTIFIED = ShortStep(iterations=2, gradient_target=0.3, certificate=True)
SMALL = MiniBatch(iterations=2, gradient_target=0.3, batch_fraction=0.1)  # some runs release Hessians, some do not
CASES: tuple[Case, ...] = (
    *WORST,
    Case("products", f"{ShortStep.title}, by products", PRODUCTS, HESSIANS, BUDGETS, hessians, canary_name=KNOWN),
    Case(
        "certificate",
        f"{ShortStep.title}, with certificates",
        CERTIFIED,
        EIGENVALUES,
        BUDGETS,
        eigenvalues,
        canary_name=KNOWN,
    ),
    Case("small", f"{MiniBatch.title}, small batches", SMALL, HESSIANS, SAMPLED, hessians, canary_name=KNOWN),
    *(
        replace(
            case,
            name=f"{case.name}_curvature",
            algorithm=case.algorithm.replaced(gradient_target=0.3),
            canary=HESSIANS,
            data=hessians,
            canary_name=SADDLE,
        )
        for case in WORST
        if case.name in CURVED
    ),
    *(case.ordinary(ORDINARY, ordinary) for case in WORST),
)


# -------------------------------------------------------------------------------------------- a mistake made on purpose

(SOUND,) = (case for case in CASES if case.name == "short_step_curvature")
# The case whose source of noise has the mistake, and the same case without it.
BROKEN = load_mistakes(__package__, {"quiet_beside": (replace(SOUND, source=QuietOffDiagonal), SOUND)})
