"""What the runs of a method came to: who stopped by the tests, when, and who of them at a true solution."""

from dataclasses import dataclass

import numpy as np

from dpviz.experiments.experiment import Arm
from dpviz.experiments.plan import Plan
from dpviz.experiments.trace import Trace, last_numbers
from dpviz.families.second_order.methods.algorithms import NonconvexMethod
from dpviz.problems.nonconvex.nonconvex_risk import NonconvexFacts

ROUNDING = 1e-9


@dataclass(frozen=True)
class Finish:
    """How R runs of a method ended: functions of released values, but for `solved`.

    finished : how many met both tests. median_step : of these; nan without any. solved : how many of these are at a
    true second-order solution, which reads raw data; None where that may not be shown, or was not computed.
    """

    finished: int
    runs: int
    median_step: float
    solved: int | None


def finish(trace: Trace, arm: Arm, plan: Plan) -> Finish | None:
    """How an arm's runs ended so far; None before their first record."""
    lane = trace.lanes[arm.label]
    if not lane.status or not len(lane.stopped_at):
        return None
    stopped = np.array([word == "converged" for word in lane.status])
    steps = lane.stopped_at[stopped]
    true = solutions(trace, arm, plan)
    solved = None if true is None else int((true & stopped).sum())
    return Finish(int(stopped.sum()), len(stopped), float(np.median(steps)) if len(steps) else float("nan"), solved)


def solutions(trace: Trace, arm: Arm, plan: Plan) -> np.ndarray | None:
    """(R,) bool: whose last point is a true second-order solution. A diagnostic; None where it may not be shown, or was
    not computed."""
    method, facts = arm.algorithm, plan.facts
    assert isinstance(method, NonconvexMethod) and isinstance(facts, NonconvexFacts)
    gradient = last_numbers(trace.series(arm.label, "gradient_norm", gaps=True)[1])
    curvature = last_numbers(trace.series(arm.label, "smallest_eigenvalue", gaps=True)[1])
    if not len(gradient) or not len(curvature) or np.isnan(curvature).any():
        return None
    analysis = method.analysis(facts)
    slack = 1 + ROUNDING
    return np.asarray(
        (gradient <= analysis.gradient_target * slack) & (curvature >= -analysis.curvature * slack), dtype=bool
    )
