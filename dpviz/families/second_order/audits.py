"""Tiny cases of second-order methods, for audits: one whose gradients differ most, one whose Hessians do, an ordinary
one.

From the start, far out along the first axis, the loss is steepest where a row has the margin 1/√3. Two such rows that
are mirror images have gradients as far apart as any two. At 0, where no row has a gradient, the Hessians of e₁ and e₂
are as far apart as any two. All other rows are 0, in the middle of their declared ranges, and so is the ordinary row on
D'.
"""

from dataclasses import replace

import numpy as np

from dpviz.audits.audit import KNOWN, Case, Neighbours, Row, load
from dpviz.datasets import UploadedTable
from dpviz.families.second_order.methods.algorithms import MiniBatch, NonconvexMethod, PerturbedDescent, ShortStep
from dpviz.families.second_order.methods.trust_region import LineSearch, MiniBatchTrustRegion, TrustRegion
from dpviz.privacy.budgets import ApproximateDP, GaussianDP
from dpviz.privacy.verification.broken import QuietBeside
from dpviz.problems.nonconvex.nonconvex import RobustComponent

ROWS = 20
IDENTITY = "f" * 32
DATA = UploadedTable(identity=IDENTITY, n=ROWS, bounds=((-1.0, 1.0),) * 2, names=("a", "b"))
FAR = RobustComponent(data=DATA, start="random", start_seed=1950)  # x₀ is nearly 4.56 e₁
ZERO = RobustComponent(data=DATA)
GRADIENTS = (
    "One row is mirrored; on D and on D' it lies where the loss is steepest: its gradients are as far apart as any."
)
HESSIANS = (
    "One row is (1, 0) on D and (0, 1) on D': at the saddle where runs begin their Hessians are as far apart as any."
)
ORDINARY = "One row lies where the loss is steepest on D, and is 0 on D', as all others are: there it has no gradient."
SADDLE = "Worst known case at a saddle"
BUDGETS = (GaussianDP(mu=1.0), GaussianDP(mu=3.0))
SAMPLED = (ApproximateDP(epsilon=4.0, delta=1e-3), ApproximateDP(epsilon=16.0, delta=1e-3))


def _pair(problem: RobustComponent, one: Row, other: Row) -> Neighbours:
    """Return D and D' that differ in one row, `one` on D and `other` on D'; all other rows are 0."""
    return Neighbours.of(
        problem, IDENTITY, np.column_stack([np.zeros((ROWS, 2)), np.ones(ROWS)]), (*one, 1), (*other, 1)
    )


def gradients() -> Neighbours:
    """Return D and D' with mirror images of a row at which the loss is steepest, seen from the start far out."""
    along = 1 / np.sqrt(3) / float(FAR.starting_point()[0, 0])
    across = float(np.sqrt(1 - along**2))
    return _pair(FAR, (along, across), (along, -across))


def ordinary() -> Neighbours:
    """Return D and D' with a row at which the loss is steepest on D, which is 0 on D'."""
    along = 1 / np.sqrt(3) / float(FAR.starting_point()[0, 0])
    return _pair(FAR, (along, float(np.sqrt(1 - along**2))), (0.0, 0.0))


def hessians() -> Neighbours:
    """Return D and D' with the row e₁ and e₂, seen from the saddle at 0."""
    return _pair(ZERO, (1.0, 0.0), (0.0, 1.0))


METHODS: dict[str, NonconvexMethod] = {
    "short_step": ShortStep(iterations=2, gradient_target=0.01),
    "line_search": LineSearch(iterations=2, gradient_target=0.01),
    "trust_region": TrustRegion(iterations=2, gradient_target=0.01),
    "perturbed_descent": PerturbedDescent(iterations=2, gradient_target=0.01),
    "mini_batch": MiniBatch(iterations=2, gradient_target=0.01, batch_fraction=0.5),
    "mini_batch_trust_region": MiniBatchTrustRegion(iterations=2, gradient_target=0.01, batch_fraction=0.5),
}
CURVED = ("short_step", "line_search", "trust_region")  # have a case at the saddle, too
WORST: tuple[Case, ...] = tuple(
    Case(name, method.title, method, GRADIENTS, budgets, gradients, canary_name=KNOWN)
    for name, method in METHODS.items()
    for budgets in (SAMPLED if "mini" in name else BUDGETS,)
)
PRODUCTS = ShortStep(iterations=2, gradient_target=0.3, hessian_products=4)
SMALL = MiniBatch(iterations=2, gradient_target=0.3, batch_fraction=0.1)  # some runs release Hessians, some do not
CASES: tuple[Case, ...] = (
    *WORST,
    Case("products", f"{ShortStep.title}, by products", PRODUCTS, HESSIANS, BUDGETS, hessians, canary_name=KNOWN),
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
BROKEN = load(__package__, {"quiet_beside": (replace(SOUND, source=QuietBeside), SOUND)})
