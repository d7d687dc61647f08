"""The lesson that nonconvex objectives tell: where it is flat, there may be a way down."""

from dataclasses import dataclass

import numpy as np

from dpviz.families.second_order.methods.algorithms import NonconvexMethod
from dpviz.lessons.lesson import Ends, Numbers, Side, load


@dataclass(frozen=True)
class Valleys(Ends):
    """The share of the runs that end where nothing bends downwards by more than the target."""

    metric: str = "smallest_eigenvalue"

    def ratio(self, before: Side, after: Side) -> float:
        return self.value(after)

    def value(self, side: Side) -> float:
        target = side.method(NonconvexMethod).curvature_target  # type: ignore[type-abstract]
        assert target is not None
        return float((side.ends(self.arm, self.metric) >= -target).mean())

    def numbers(self, side: Side) -> Numbers:
        found = dict(super().numbers(side))
        if side.trace is not None:
            gradients = Ends(self.arm, "gradient_norm")
            found |= {"gradient": gradients.value(side), "loss": Ends(self.arm, "objective").value(side)}
            steps = np.median(side.trace.lanes[self.arm].stopped_at)
            found |= {"valleys": round(self.value(side) * side.experiment.replicates), "taken": int(steps)}
        return found

    def outcome(self, before: Side, after: Side) -> str:
        one, other = self.numbers(before), self.numbers(after)
        return f"{one['valleys']} of {one['repeats']} → {other['valleys']} of {other['repeats']} runs"

    def reach(self, side: Side) -> tuple[float, float]:
        return 0.0, 6.0


FLAT = load(__package__, "flat", measure=Valleys("OPT"))

LESSONS = (FLAT,)
