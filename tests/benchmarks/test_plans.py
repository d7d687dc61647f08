"""Plans with all that their figures show, for the six methods of the default page at T = 1000.

Target: less than 50 ms for all six, less than 5 ms for a single optimal schedule. The figure of the accountants asks
about one method at a time ("one"); "all" asks about all six. The header reads all of them.
"""

import functools
import gc
import itertools
import math
import time

import numpy as np
import pytest

from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.families.accelerated import GradientDescent, MultistageNesterov, Nesterov, planning, presets
from dpviz.families.accelerated.algorithms import GradientMethod
from dpviz.plots.plan_figures import CHECKPOINTS
from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import ApproximateDP, Budget, PureDP, TradeOff, ZeroConcentratedDP
from dpviz.privacy.tradeoffs import tradeoff
from dpviz.problems.linear_models import LogisticRegression

STEPS, DELTA = 1000, 1e-6
EPSILON = itertools.count(2.0, 0.001)  # budgets that no cache has seen
SETTINGS = {  # by default, a method with the optimal schedule runs the best T by the bound
    "laplace": {"budget": PureDP()},
    "laplace_all_steps": {"budget": PureDP(), "horizon": "fixed"},
    "laplace_on_batches": {"budget": PureDP(), "horizon": "fixed", "batch_fraction": 0.1},
    "laplace_at_delta": {"budget": ApproximateDP(), "horizon": "fixed"},
    "gaussian": {"budget": ApproximateDP(), "horizon": "fixed", "noise": "gaussian"},
}


def experiment(epsilon: float, budget: PureDP | ApproximateDP, **settings: object) -> Experiment:
    """The six methods, all of exactly or at most T = 1000 steps."""
    arms = presets.arms(presets.SIX_METHODS, iterations=STEPS, **settings)
    return Experiment(problem=LogisticRegression(), arms=arms, budget=budget.replaced(epsilon=epsilon))


def figures_data(chosen: Experiment, accounted: str) -> list[object]:
    """What the plan figures draw: noise, privacy spent, error bound against t and against T, every accountant."""
    plans, found = chosen.plans(), []
    for arm in chosen.arms:
        method, plan = arm.algorithm, plans[arm.label]
        assert isinstance(method, GradientMethod)
        found += [plan.spent("epsilon"), method.error_bound(plan), horizon(method, plan.budget)]
    asked = list(plans.values()) if accounted == "all" else [plans["DP-NAG-opt"]]
    return [*found, *map(by_method, asked), readings(plans["DP-NAG-opt"])]


def by_method(plan: Plan) -> dict[str, np.ndarray]:
    """ε at δ by every method, at the steps that the figure asks for."""
    checkpoints = tuple(np.unique(np.linspace(1, plan.iterations, CHECKPOINTS).round().astype(int)).tolist())
    return {name: accountants.epsilon_curve(plan.events, DELTA, name, checkpoints) for name in accountants.METHODS}


def readings(plan: Plan) -> tuple[object, ...]:
    """The guarantee line: the tightest ε at δ, and what an attacker can do."""
    return accountants.tightest(plan.events, DELTA), tradeoff(plan.events, 0.01)


def horizon(method: GradientMethod, budget: Budget) -> object:
    """The bound against T, where there is one."""
    try:
        return planning.bound_by_horizon(method, LogisticRegression().facts(), budget)
    except UserError:
        return None


def forget() -> None:
    """Empty every cache below dpviz."""
    for cached in gc.get_objects():
        if isinstance(cached, functools._lru_cache_wrapper) and str(cached.__module__).startswith("dpviz"):
            cached.cache_clear()


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("state", ["cold", "moved", "warm"])
@pytest.mark.parametrize("accounted", ["one", "all"])
def test_plan_and_figures_of_six_methods(report, state: str, accounted: str, settings: str) -> None:
    """cold: no cache knows anything; moved: the budget was never seen before; warm: the very same settings again."""

    def before() -> tuple[tuple[Experiment, str], dict[str, object]]:
        if state == "cold":
            forget()
        chosen = experiment(1.0 if state == "warm" else next(EPSILON), **SETTINGS[settings])
        return (chosen, accounted), {}

    figures_data(experiment(1.0, **SETTINGS[settings]), accounted)
    report.benchmark.pedantic(figures_data, setup=before, rounds=7)
    report(budget_ms=50)


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_header_reads_every_method_after_a_move(report, settings: str) -> None:
    """The readings that hold for all six methods, at a budget that no cache has seen; methods share releases."""

    def moved() -> tuple[tuple[list[Plan]], dict[str, object]]:
        return (list(experiment(next(EPSILON), **SETTINGS[settings]).plans().values()),), {}

    report.benchmark.pedantic(lambda plans: [readings(plan) for plan in plans], setup=moved, rounds=7)
    report(budget_ms=100)


@pytest.mark.parametrize("method", [GradientDescent, Nesterov, MultistageNesterov])
@pytest.mark.parametrize("batch", [1.0, 0.1])
def test_single_optimal_schedule(report, method: type[GradientMethod], batch: float) -> None:
    chosen = method(iterations=STEPS, schedule="optimal", batch_fraction=batch)
    facts = LogisticRegression().facts()
    plan = report.benchmark(lambda: chosen.plan(facts, PureDP(epsilon=next(EPSILON))))
    assert math.isclose(plan.spent("epsilon")[-1], plan.budget.epsilon, rel_tol=1e-9)
    report(budget_ms=5)


@pytest.mark.parametrize("budget", [ApproximateDP(), TradeOff(), ZeroConcentratedDP()], ids=lambda budget: budget.name)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("fraction", [0.001, 0.01, 0.1, 1.0])
@pytest.mark.parametrize("schedule", ["uniform", "optimal"])
@pytest.mark.parametrize("method", [GradientDescent, Nesterov, MultistageNesterov])
def test_cold_calibration(
    report, method: type[GradientMethod], schedule: str, fraction: float, noise: str, budget: Budget
) -> None:
    """A plan, no cache filled. Targets: 20 ms for equal events; 100 ms for any schedule at m/n >= 1 %, 400 ms below."""
    chosen = method(iterations=STEPS, schedule=schedule, batch_fraction=fraction, noise=noise, horizon="fixed")
    facts = LogisticRegression().facts()
    busy: list[float] = []

    def cold() -> None:
        forget()
        began = time.process_time()
        try:
            chosen.plan(facts, budget)
        except UserError as error:
            report.benchmark.extra_info["refused"] = error.title
        busy.append(time.process_time() - began)

    report.benchmark.pedantic(cold, rounds=5, warmup_rounds=1)
    limit = 20 if schedule == "uniform" else 100 if fraction >= 0.01 else 400
    report(processor_median_ms=float(1000 * np.median(busy)), budget_ms=limit)
