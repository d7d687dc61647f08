"""Curvature tests by a few products with the noisy Hessian: they find what the whole matrix would show."""

import numpy as np
import pytest
from pydantic import ValidationError

from dpviz.datasets import Saddle
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.second_order import LineSearch, ShortStep
from dpviz.privacy.budgets import ApproximateDP
from dpviz.privacy.ledger import Filter
from dpviz.problems.nonconvex.nonconvex import RobustComponent
from dpviz.problems.nonconvex.nonconvex_risk import NonconvexRisk

BUDGET = ApproximateDP(epsilon=1.0, delta=1e-5)


def experiment(method: ShortStep | LineSearch, dimension: int, rows: int, replicates: int) -> Experiment:
    problem = RobustComponent(data=Saddle(rows=rows, dimension=dimension))
    arm = Arm(label="a", algorithm=method)
    return Experiment(problem=problem, arms=(arm,), budget=BUDGET, replicates=replicates)


@pytest.mark.parametrize("method", [ShortStep(hessian_products=12), LineSearch(hessian_products=12, phases="two")])
def test_runs_escape_the_saddle_without_a_matrix(
    method: ShortStep | LineSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NonconvexRisk, "hessian", None)
    trace = experiment(method, 30, 20_000, 10).run()
    assert trace.lanes["a"].status.count("converged") >= 9
    solved = (trace.last("a", "gradient_norm") <= 0.11) & (trace.last("a", "smallest_eigenvalue") >= -0.2)
    assert solved.sum() >= 9


def test_many_columns_are_looked_at_through_products_unless_the_noise_forbids_it() -> None:
    few, many = (RobustComponent(data=Saddle(dimension=d)).facts() for d in (300, 301))
    method = ShortStep()
    assert "hessian_products" not in method.plan(few, BUDGET).resolved
    assert method.plan(many, BUDGET).resolved["hessian_products"] == 40
    assert method.replaced(hessian_products=200).plan(few, BUDGET).resolved["hessian_products"] == 200
    assert method.replaced(hessian_products=200).products(RobustComponent().facts()) == 10, "no more than columns"
    upper = method.replaced(hessian_noise="upper")
    assert "hessian_products" not in upper.plan(many, BUDGET).resolved
    with pytest.raises(ValidationError, match="even in all directions"):
        upper.replaced(hessian_products=20)
    plan = upper.plan(many, BUDGET)
    formed = upper.workload(plan, 2, RobustComponent(data=Saddle(dimension=301)).cost(many)).bytes
    assert formed > 2 * 48 * 301**2, "matrices that no diagnostic forms count as the method's"


@pytest.mark.slow
def test_two_thousand_columns_take_seconds_and_less_memory_than_their_hessians() -> None:
    of = experiment(ShortStep(iterations=6), 2000, 5000, 1)
    plans = of.plans()
    assert of.estimated_bytes(plans) < 1e9 and of.estimated_seconds(plans) < 60
    trace = of.run()
    first, last = trace.series("a", "smallest_eigenvalue")[1][[0, -1]]
    assert (first < -0.4).all() and (last > -0.2).all(), "the saddle was left"
    assert np.isfinite(trace.last("a", "objective")).all()


@pytest.mark.slow
def test_a_few_products_do_not_stop_a_run_at_a_curvature_that_is_too_negative() -> None:
    """λ_min = -0.426 at the start, and -0.4/1.1 is tolerated: four products find less than that in every run, and a
    stop would be at the saddle. More products of the same matrix settle it, and nothing else is paid for."""
    of = experiment(ShortStep(hessian_products=4, curvature_target=0.4), 150, 20_000, 8)
    trace, plan = of.run(), of.plans()["a"]
    assert (trace.lanes["a"].stopped_at > 1).all()
    assert isinstance(plan.terms, Filter)
    each = plan.terms.cost(plan.terms.allowed["hessian"]) / 2  # μ² in ρ
    assert trace.series("a", "hessian_charged")[1][1] == pytest.approx(np.full(8, each), rel=1e-9)
    curvature = trace.series("a", "noisy_curvature")[1]
    assert (curvature[1] < -0.4 / 1.1).all()
