"""A lesson with a nonconvex objective: at a point without slope there may be a way down.

A lesson runs an experiment twice, before and after one setting changes; each `Side` has the plan, and the trace once it
has run. Its texts are in lessons.toml; the keys of `numbers` are those between braces in these texts.
"""

from dataclasses import dataclass

import numpy as np

from dpviz.families.second_order.methods.algorithms import NonconvexMethod
from dpviz.lessons.lesson import FinalMedian, Numbers, Side, load_lesson


@dataclass(frozen=True)
class Valleys(FinalMedian):
    """Share of the runs that end in a valley: where no curvature is below minus the method's curvature target.

    arm : label of the method. metric : the smallest eigenvalue of the Hessian at the last point of each run.
    """

    metric: str = "smallest_eigenvalue"

    def ratio(self, before: Side, after: Side) -> float:
        """Return the share itself, which the answers of this lesson are about: nothing is compared with `before`."""
        return self.value(after)

    def value(self, side: Side) -> float:
        """Return the share of a side's runs that end in a valley."""
        target = side.method(NonconvexMethod).curvature_target  # type: ignore[type-abstract]
        assert target is not None
        return float((side.ends(self.arm, self.metric) >= -target).mean())

    def numbers(self, side: Side) -> Numbers:
        """Return the numbers of a side that the lesson's text names: of the last points of the runs the medians of
        gradient norm and loss, the number of valleys, and the median number of steps."""
        numbers = dict(super().numbers(side))
        if side.trace is not None:
            gradients = FinalMedian(self.arm, "gradient_norm")
            numbers |= {"gradient": gradients.value(side), "loss": FinalMedian(self.arm, "objective").value(side)}
            arm_trace = side.trace.arm_traces[self.arm]
            # (R,) the last step of each run; `stopped_at` is -1 for those that did not stop.
            steps = np.where(arm_trace.stopped_at < 0, arm_trace.iterations[-1], arm_trace.stopped_at)
            numbers |= {"valleys": round(self.value(side) * side.experiment.replicates), "taken": int(np.median(steps))}
        return numbers

    def outcome(self, before: Side, after: Side) -> str:
        """Return in words how many runs end in a valley before and after the change."""
        old, new = self.numbers(before), self.numbers(after)
        return f"{old['valleys']} of {old['repeats']} → {new['valleys']} of {new['repeats']} runs"

    def reach(self, side: Side) -> tuple[float, float]:
        """Return the range of steps that the chart shows: runs of this lesson stop after a few."""
        return 0.0, 6.0


FLAT = load_lesson(__package__, "flat", measure=Valleys("OPT"))

LESSONS = (FLAT,)
