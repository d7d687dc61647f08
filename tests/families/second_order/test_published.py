"""The paper's tables with the noise that they were made with (THEORY.md, 7.2): who finishes, and where."""

import math

import pytest

from dpviz.experiments.experiment import Experiment
from dpviz.families.second_order import advice, planning, presets, texts
from dpviz.families.second_order.comparison import EPSILONS, TABLES, Cell, Tolerances
from dpviz.families.second_order.methods.algorithms import NonconvexMethod
from dpviz.families.second_order.theory import Stopping
from dpviz.privacy.budgets import ApproximateDP
from dpviz.problems.nonconvex.nonconvex_risk import NonconvexFacts


def stoppings(experiment: Experiment) -> dict[str, tuple[Stopping, ...]]:
    found = {}
    for arm in experiment.arms:
        plan, method = experiment.plan(arm), arm.algorithm
        assert isinstance(method, NonconvexMethod) and isinstance(plan.facts, NonconvexFacts)
        found[arm.label] = planning.stoppings(method.analysis(plan.facts), method.hessian_noise, plan)
    return found


def cells(tolerances: Tolerances, epsilon: float) -> dict[str, Cell]:
    return {label: found[EPSILONS.index(epsilon)] for label, found in TABLES[tolerances].items()}


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("tolerances", TABLES)
def test_the_waiting_time_predicts_who_finishes(tolerances: Tolerances, epsilon: float) -> None:
    """All phases of all methods: a green one finishes, and who has none but red ones does not. Amber leaves it open:
    first phases of 2OPT and 2OPT-LS, of 20 to 61 steps, are as long as the way there, of up to 28 steps to the loose
    targets and about 90 to the tight ones; so 2OPT has a × where its second phase is red."""
    printed = cells(tolerances, epsilon)
    for label, phases in stoppings(presets.paper(tolerances, epsilon, "published")).items():
        lights = [phase.light for phase in phases]
        assert printed[label].finished or "green" not in lights, label
        assert not printed[label].finished or set(lights) != {"red"}, label
        if len(phases) == 2:
            assert lights[0] == "amber", "nobody knows whether it is there by then"
            lights = lights[1:] if label == "2OPT" else ["amber"]
        if "amber" not in lights:
            assert (lights == ["green"]) == printed[label].finished, label


@pytest.mark.parametrize(("tolerances", "epsilon"), [("loose", 0.2), ("tight", 0.2), ("tight", 0.6), ("tight", 1.0)])
def test_two_phases_are_not_green_where_the_paper_has_a_cross(tolerances: Tolerances, epsilon: float) -> None:
    experiment = presets.paper(tolerances, epsilon, "published")
    plans = experiment.plans()
    chosen = advice.best(advice.forecasts(experiment, plans)["2OPT"])
    assert not cells(tolerances, epsilon)["2OPT"].finished and chosen.light == "amber" and chosen.phase == 1
    said = texts.can_tell(chosen, plans["2OPT"])
    assert "✓" not in texts.light(chosen) and "It may end on the way there" in said
    assert chosen.stopping.iterations in (20, 41) and math.isfinite(chosen.factor)


def test_a_phase_is_green_only_with_the_steps_to_get_there() -> None:
    """Those that the analysis asks for; else 60, or a tenth of those, and the waiting time."""
    method, facts = presets.METHODS["OPT"], presets.PRESETS[0].experiment.problem.facts()
    budget = ApproximateDP(epsilon=50.0, delta=1e-5)
    asked = int(method.plan(facts, budget).resolved["iterations_by_theory"])
    assert asked == 1511
    for iterations, light in (
        (5000, "green"),
        (153, "green"),
        (152, "amber"),
        (60, "amber"),
        (3, "amber"),
        (1, "amber"),
    ):
        plan = method.replaced(iterations=iterations).plan(facts, budget)
        (forecast,) = advice.phases("OPT", method, plan)
        assert forecast.light == light == forecast.stopping.light and forecast.hurried == (light == "amber")
        assert ("✓" in texts.light(forecast)) == (light == "green")
        assert math.isinf(forecast.factor) == (light == "amber")
        if light == "amber":
            assert "No budget and no rows turn that green" in texts.can_tell(forecast, plan)
