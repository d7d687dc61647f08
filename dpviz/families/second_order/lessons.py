"""The lesson that nonconvex objectives tell: where it is flat, there may be a way down."""

from dataclasses import dataclass

import numpy as np

from dpviz.experiments.experiment import Experiment
from dpviz.families.second_order.methods.algorithms import NonconvexMethod
from dpviz.families.second_order.presets import arms
from dpviz.lessons.lesson import Ends, Numbers, Side, load
from dpviz.privacy.budgets import ApproximateDP
from dpviz.problems.nonconvex.nonconvex import RobustComponent


@dataclass(frozen=True)
class Valleys(Ends):
    """The share of the runs that end where nothing bends downwards by more than the target."""

    metric: str = "smallest_eigenvalue"

    def ratio(self, before: Side, after: Side) -> float:
        return self.value(after)

    def value(self, side: Side) -> float:
        assert isinstance(side.settings, Experiment) and side.trace is not None
        method = side.settings.arms[0].algorithm
        assert isinstance(method, NonconvexMethod) and method.curvature_target is not None
        return float((self._last(side) >= -method.curvature_target).mean())

    def numbers(self, side: Side) -> Numbers:
        found = dict(super().numbers(side))
        if side.trace is not None:
            gradients = Ends(self.arm, "gradient_norm")
            found |= {"gradient": gradients.value(side), "loss": Ends(self.arm, "objective").value(side)}
            found |= {"valleys": round(self.value(side) * len(self._last(side))), "taken": int(self._steps(side))}
        return found

    def outcome(self, before: Side, after: Side) -> str:
        one, other = self.numbers(before), self.numbers(after)
        return f"{one['valleys']} of {one['repeats']} → {other['valleys']} of {other['repeats']} runs"

    def reach(self, side: Side) -> tuple[float, float]:
        return 0.0, 6.0

    def _last(self, side: Side) -> np.ndarray:
        assert side.trace is not None
        return side.trace.series(self.arm, self.metric)[1][-1]

    def _steps(self, side: Side) -> float:
        assert side.trace is not None
        return float(np.median(side.trace.lanes[self.arm].stopped_at))


def _saddle(curvature: str) -> Experiment:
    """A mountain pass, where every run starts."""
    return Experiment(
        problem=RobustComponent(),
        arms=arms(("OPT",), curvature=curvature, iterations=60),
        budget=ApproximateDP(epsilon=1.0, delta=1e-5),
        replicates=20,
    )


FLAT = load(__package__, "flat", before=_saddle("never"), after=_saddle("always"), measure=Valleys("OPT"))

LESSONS = (FLAT,)
