"""A lesson with a nonconvex objective: at a point without slope there may be a way down."""

from dataclasses import dataclass

import numpy as np

from dpviz.families.second_order.methods.algorithms import NonconvexMethod
from dpviz.lessons.lesson import Ends, Numbers, Side, load


@dataclass(frozen=True)
class Valleys(Ends):
    """Share of the runs that end where no curvature is below minus the target."""

    metric: str = "smallest_eigenvalue"

    def ratio(self, before: Side, after: Side) -> float:
        return self.value(after)

    def value(self, side: Side) -> float:
        target = side.method(NonconvexMethod).curvature_target  # type: ignore[type-abstract]
        assert target is not None
        return float((side.ends(self.arm, self.metric) >= -target).mean())

    def numbers(self, side: Side) -> Numbers:
        numbers = dict(super().numbers(side))
        if side.trace is not None:
            gradients = Ends(self.arm, "gradient_norm")
            numbers |= {"gradient": gradients.value(side), "loss": Ends(self.arm, "objective").value(side)}
            steps = np.median(side.trace.lanes[self.arm].stopped_at)
            numbers |= {"valleys": round(self.value(side) * side.experiment.replicates), "taken": int(steps)}
        return numbers

    def outcome(self, before: Side, after: Side) -> str:
        old, new = self.numbers(before), self.numbers(after)
        return f"{old['valleys']} of {old['repeats']} → {new['valleys']} of {new['repeats']} runs"

    def reach(self, side: Side) -> tuple[float, float]:
        return 0.0, 6.0


FLAT = load(__package__, "flat", measure=Valleys("OPT"))

LESSONS = (FLAT,)
