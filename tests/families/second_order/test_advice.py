"""What a plan says before a run: its light, what would turn it green, and how long a run is likely to take."""

import math
import re
from typing import Any

import numpy as np
import pytest

from dpviz.datasets import Saddle
from dpviz.errors import UserError
from dpviz.experiments.plan import Plan
from dpviz.families.second_order import ShortStep, advice, figures, presets, texts
from dpviz.families.second_order.advice import Forecast
from dpviz.plots.elements.style import arm_styles
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, ZeroConcentratedDP
from dpviz.problems.nonconvex.nonconvex import NonconvexModel, RobustComponent, SigmoidTukey

START, AMBER, RED = (preset.experiment for preset in presets.PRESETS[:3])


def test_the_presets_have_the_light_that_they_are_named_after() -> None:
    """And the page starts where its slider turns the light."""
    around = [START.replaced(budget=START.budget.replaced(epsilon=epsilon)) for epsilon in (0.3, 0.2, 0.1)]
    for experiments in (around, (around[0], AMBER, RED)):
        lights = [advice.forecasts(found, found.plans())["OPT"][0].light for found in experiments]
        assert lights == ["green", "amber", "red"]
    assert around[1] == START


@pytest.mark.parametrize(
    "budget", [ApproximateDP(epsilon=0.5, delta=1e-5), ZeroConcentratedDP(rho=0.01), GaussianDP(mu=0.1)]
)
def test_the_budget_that_is_named_buys_so_many_times_less_noise(budget: Budget) -> None:
    plan = AMBER.replaced(budget=budget).plans()["OPT"]
    _, _, number = advice.budget_for(plan, 1.5).partition(" = ")
    more = budget.replaced(**{budget.controls()[0].name: float(number)})
    noise = [each.noise["hessian"][0] for each in (plan, AMBER.replaced(budget=more).plans()["OPT"])]
    assert (
        1.5 * (1 - 1e-9) <= noise[0] / noise[1] <= 1.5 * 1.01
    )  # three digits are shown, and never fewer than it takes


@pytest.mark.one_in(3)
@pytest.mark.parametrize("label", [label for label in presets.METHODS if not label.endswith("-B")])
def test_what_is_said_to_turn_it_green_does_so_as_it_is_said(label: str) -> None:
    """To the last digit: rows and budgets rounded down would leave it amber."""

    def told(rows: int, budget: Budget, problem: type[NonconvexModel], **settings: Any) -> tuple[Forecast, Plan]:
        made = problem(data=Saddle(rows=rows, dimension=4), **settings)
        plan = presets.METHODS[label].plan(made.facts(), budget)
        return advice.stopping_phase(advice.phase_forecasts(label, presets.METHODS[label], plan)), plan

    start: dict[str, Any] = {"start": "random", "gap": 0.5, "gap_cost": 0.004}  # what was paid before counts, too
    for problem, settings in ((RobustComponent, {}), (SigmoidTukey, {"regularisation": 0.5, **start})):
        for epsilon in (0.055, 0.06, 0.065):
            budget = ApproximateDP(epsilon=epsilon, delta=1e-5)
            forecast, plan = told(3000, budget, problem, **settings)
            said = texts.can_tell(forecast, plan)
            rows, more = re.search(r"n = ([\d,]+) rows", said), re.search(r"ε = ([\d.]+)", said)
            assert forecast.light != "green" and rows is not None and more is not None
            assert told(int(rows[1].replace(",", "")), budget, problem, **settings)[0].light == "green"
            found, _ = told(3000, budget.replaced(epsilon=float(more[1])), problem, **settings)
            assert found.light == "green" and found.factor_until_green > 0.98, "nor is it much more than that takes"


def test_who_has_too_few_steps_to_stop_at_all_is_red_whatever_the_noise() -> None:
    method, facts = presets.METHODS[presets.PERTURBED], RobustComponent().facts()
    for steps, light in ((1, "red"), (12, "red"), (13, "red"), (73, "green")):
        plan = method.replaced(iterations=steps).plan(facts, ApproximateDP(epsilon=50.0, delta=1e-5))
        (forecast,) = advice.phase_forecasts("A", method, plan)
        assert plan.resolved["patience"] == 12 and forecast.light == light


def test_the_published_baseline_is_foreseen_with_the_tolerances_that_it_tests() -> None:
    """Noise over α and ε_H themselves, not over a part of them: 0.26 and 0.93 in the paper's table at ε = 0.2."""
    published = presets.paper("loose", 0.2, "published")
    (forecast,) = advice.forecasts(published, published.plans())["DP-TR"]
    assert (forecast.stopping.gradient_tolerance, forecast.stopping.curvature_tolerance) == (0.06, math.sqrt(0.06))
    assert forecast.stopping.iterations == 205
    (tight,) = (plan for label, plan in presets.paper("tight", 0.2, "published").plans().items() if label == "DP-TR")
    assert tight.iterations == 578, "⌈6 · 0.5/α^1.5⌉"
    assert forecast.stopping.gradient_ratio == pytest.approx(0.26, abs=0.005)
    assert forecast.stopping.hessian_ratio == pytest.approx(0.93, abs=0.005)


def test_the_noise_is_drawn_as_long_as_what_it_is_compared_with_and_the_targets_beside_it() -> None:
    plans = START.plans()
    data = figures.noise_and_targets(START.arms, plans, arm_styles(START.arms)).figure.data
    ends = {trace.name: float(trace.y[-1]) for trace in data if trace.name}
    limits = {trace.text[0]: float(trace.y[0]) for trace in data if trace.text}
    assert limits == pytest.approx({"α = 0.1": 0.1, "ε_H = 0.2": 0.2})
    stopping = advice.forecasts(START, plans)["OPT"][0].stopping
    assert ends["OPT, gradient"] == pytest.approx(stopping.gradient_ratio * stopping.gradient_tolerance, rel=1e-6)
    assert ends["OPT, hessian"] == pytest.approx(stopping.hessian_ratio * stopping.curvature_tolerance, rel=1e-6)
    assert ends["OPT, hessian"] > 0.2 > ends["OPT, gradient"], "the slider moves it across"


@pytest.mark.parametrize(
    ("gradient", "curvature", "said"),
    [
        ((1, 1), (1, 1), "green-badge[✓ both"),
        ((1, 1), (1, 0), "orange-badge[~ both targets met by 1 of 2"),
        ((1, 1), (0, 0), "red-badge[✗ gradient met, curvature not"),
        ((0, 0), (1, 1), "red-badge[✗ curvature met, gradient not"),
        ((1, 0), (0, 1), "red-badge[✗ targets not met"),
    ],
)
def test_whether_targets_are_met_has_a_colour_a_symbol_and_words(
    gradient: tuple[int, int], curvature: tuple[int, int], said: str
) -> None:
    assert texts.targets(np.array(gradient, dtype=bool), np.array(curvature, dtype=bool)).startswith(f":{said}")


def test_waiting_times_fall_with_rows_and_are_the_plans_own_at_its_rows() -> None:
    (forecast,) = advice.forecasts(AMBER, AMBER.plans())["OPT"]
    rows, times = advice.waiting_by_rows(forecast, points=61)
    assert (np.diff(times) <= 0).all() and rows[30] == pytest.approx(forecast.rows)
    assert times[30] == pytest.approx(forecast.stopping.waiting_time)
    more = AMBER.replaced(problem=AMBER.problem.replaced(data=AMBER.problem.data.replaced(rows=40_000)))  # type: ignore[attr-defined]
    (doubled,) = advice.forecasts(more, more.plans())["OPT"]
    assert forecast.stopping.quieter(2).waiting_time == pytest.approx(doubled.stopping.waiting_time, rel=1e-9)


def test_the_smallest_eigenvalue_is_refused_where_it_is_too_large() -> None:
    many = RobustComponent(data=Saddle(dimension=301)).facts()
    with pytest.raises(UserError, match="more than 300 columns"):
        ShortStep(certificate=True).plan(many, ApproximateDP(epsilon=1.0, delta=1e-5))


def test_the_rows_of_the_published_formula_stand_beside_those_that_are_proven() -> None:
    """At ρ = 0.02 and d = 10: √500 times the largest of 1/ε_g² = 121, 1/(ε_g ε_H²) = 332.75 and ε_H^(-7/2) = 390.18."""
    for share in (1.0, 4.0):
        found = START.replaced(budget=ZeroConcentratedDP(rho=0.02 * share))
        (forecast,) = advice.forecasts(found, found.plans())["OPT"]
        assert forecast.rows_published == pytest.approx(390.184 * np.sqrt(500 / share), rel=1e-5)
        assert forecast.rows_needed is not None and forecast.rows_needed > forecast.rows_published, (
            "of which it hides some factors"
        )
    others = START.replaced(arms=presets.arms(["OPT-B", "2OPT"]))
    phases = [phase for each in advice.forecasts(others, others.plans()).values() for phase in each]
    assert [phase.rows_published is None for phase in phases] == [phase.rows_needed is None for phase in phases]
