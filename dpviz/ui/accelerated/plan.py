"""The plan of the accelerated methods: what the budget buys, before anything runs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.families.accelerated import planning, texts, theory
from dpviz.families.accelerated.algorithms import Compared, GradientMethod, compare
from dpviz.families.accelerated.planning import assumed
from dpviz.numbers import short
from dpviz.plots import plan_figures
from dpviz.plots.elements.chart import Chart
from dpviz.problems.base import SmoothFacts
from dpviz.problems.linear.linear_base import LinearModel
from dpviz.ui import explain
from dpviz.ui.experiment import guarantee
from dpviz.ui.experiment import plan as plan_view
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.experiment.results import Options, plain_options
from dpviz.ui.uploads.file import missing_rule

WORST_CASE = "Above the error of the start it says nothing."
REMARKS = {
    "bound": "The bound is on the mean{}.",
    "exact expectation": "The expectation is a mean; of so skewed a quantity the median lies below it.",
}
FARTHEST = 10_000  # steps


@dataclass(frozen=True)
class Theory:
    """What theory says of the plans.

    bounds, exact : (T+1,) error bound, and exact error where the problem is a quadratic, per arm.
    by_horizon : numbers of steps and the bound after each, per arm. without : the arms for which no bound is known.
    start : the most that the excess loss can be without a step: a bound above it says nothing.
    own : what schedules of one's own are worth, per arm that has one; None where nothing tells.
    """

    bounds: Mapping[str, np.ndarray]
    exact: Mapping[str, np.ndarray]
    by_horizon: Mapping[str, tuple[np.ndarray, np.ndarray]]
    without: tuple[str, ...]
    start: float
    own: Mapping[str, Compared | None]


def predict(experiment: Experiment, plans: Mapping[str, Plan]) -> Theory:
    """The bounds of all arms."""
    bounds, exact, by_horizon, without, own = {}, {}, {}, [], {}
    start = 0.0
    for arm in experiment.arms:
        method, plan = arm.algorithm, plans[arm.label]
        assert isinstance(method, GradientMethod) and isinstance(plan.facts, SmoothFacts)
        start = plan.facts.initial_gap
        if plan.facts.eigenvalues:
            exact[arm.label] = method.expected_on_quadratic(plan)
        if not plan.private:
            continue
        if method.is_drawn:
            own[arm.label] = compare(method, plan)
        bound = method.error_bound(plan)
        if bound is None:
            without.append(arm.label)
            continue
        bounds[arm.label] = bound
        try:
            farther = method.replaced(iterations=min(FARTHEST, max(2 * method.iterations, 200)))
            by_horizon[arm.label] = planning.bound_by_horizon(farther, plan.facts, plan.budget)[:2]
        except UserError:
            without.append(arm.label)  # no quick bound for this noise or schedule: the curve is left out
    return Theory(bounds, exact, by_horizon, tuple(without), start, own)


def options(shown: PlanView) -> Options:
    """How the curves of a run of this experiment are drawn."""
    rests_on = texts.condition(assumed(shown.experiment.problem))
    remarks = {name: words.format(rests_on) for name, words in REMARKS.items()}
    curves = {"bound": shown.theory.bounds} | ({"exact expectation": shown.theory.exact} if shown.theory.exact else {})
    conditions = {"bound": rests_on}
    return replace(
        plain_options(shown), second="gradient_norm", overlays=curves, remarks=remarks, conditions=conditions
    )


def bound_words(shown: PlanView) -> str:
    """For what the error bounds of these settings hold."""
    problem = shown.experiment.problem
    released = isinstance(problem, LinearModel) and problem.smoothness_source == "released"
    return texts.bound(assumed(problem), released)


def drawn(shown: PlanView) -> dict[str, GradientMethod]:
    """The methods that have a schedule of one's own, by label."""
    methods = {arm.label: arm.algorithm for arm in shown.experiment.arms if shown.plans[arm.label].private}
    return {label: one for label, one in methods.items() if isinstance(one, GradientMethod) and one.is_drawn}


def handles(shown: PlanView) -> dict[str, Any]:
    """What moves the lines of the noise where methods have a schedule of one's own; empty where none has.

    knots : its shape. limit : of each of them. power : 1 where the cost of a step goes with 1 / noise, 2 where with its
    square. lines : the number of steps, and log10 of the noise if all had the same, of each such method; first that
    with most steps, which has the handles.
    """
    own = drawn(shown)
    if not own:
        return {}
    knots, power = next(iter(own.values())).knots, 1 if shown.experiment.budget.pure else 2
    lines = {}
    for label in sorted(own, key=lambda label: -shown.plans[label].iterations):
        noise = shown.plans[label].noise["gradient"]
        lines[label] = [len(noise), theory.even_level(knots, noise, power)]
    return {"knots": knots, "limit": theory.LIMIT, "power": power, "lines": lines}


def drawings(shown: PlanView) -> Iterator[Chart]:
    """The noise in each step, the privacy spent, and what the error bounds promise."""
    words = "Noise added to each coordinate of the mean gradient."
    yield replace(plan_figures.noise_schedule(shown.plans, shown.styles, words), handles=handles(shown))
    yield plan_view.privacy_spent(shown)
    theory: Theory = shown.theory
    rests_on = texts.condition(assumed(shown.experiment.problem))
    none = f" No bound is known for {', '.join(dict.fromkeys(theory.without))}." if theory.without else ""
    by_step = f"{bound_words(shown)} {WORST_CASE}{none}"
    by_horizon = (
        f"Error bound{rests_on}, where the whole budget is spread over T steps. -opt and -T* take the best T up to "
        f"yours.{none}"
    )
    yield plan_figures.error_bounds(theory.bounds, shown.styles, by_step, start=theory.start, condition=rests_on)
    yield plan_figures.bound_by_horizon(
        theory.by_horizon, shown.styles, by_horizon, start=theory.start, condition=rests_on
    )


def batch_note(shown: PlanView) -> str:
    """What the batch means in rows and passes over the data."""
    plan = max(guarantee.private(shown.plans).values(), key=lambda plan: plan.iterations)
    m, n = int(plan.rows[0]), plan.facts.n
    rows = f"All n = {n:,} rows" if m == n else f"m = {m:,} of n = {n:,} rows"
    return f"{rows} in each step: {short(plan.iterations * m / n)} epochs in {plan.iterations:,} steps."


def assumptions(shown: PlanView) -> None:
    """The box of assumptions for these settings."""
    experiment = shown.experiment
    plan = next(iter(guarantee.private(shown.plans).values()))
    m, n = int(plan.rows[0]), plan.facts.n
    problem = experiment.problem
    method = experiment.arms[0].algorithm
    assert isinstance(method, GradientMethod)
    model = problem if isinstance(problem, LinearModel) else None
    explain.assumptions(
        explain.protects(shown.experiment.problem.unit),
        texts.batches(m, n),
        texts.composition(method.noise, m < n),
        texts.constants(
            None if model is None else model.smoothness_source,
            missing_rule(problem.dataset),
            1.0 if model is None else model.curvature,
            assumed(shown.experiment.problem),
        ),
        texts.SCREEN,
        problem.from_data,
    )
