"""The plan of the accelerated methods: what the budget buys, before anything runs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import streamlit as st

from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.families.accelerated import planning, texts
from dpviz.families.accelerated.algorithms import GradientMethod
from dpviz.numbers import short
from dpviz.plots import plan_figures
from dpviz.plots.style import ArmStyle, arm_styles
from dpviz.privacy.budgets import NoPrivacy
from dpviz.problems.base import SmoothFacts
from dpviz.problems.linear_models import LogisticRegression
from dpviz.ui import explain
from dpviz.ui.experiment import guarantee
from dpviz.ui.experiment import plan as plan_view
from dpviz.ui.experiment.results import Options, Shown
from dpviz.ui.explain import SETTINGS_ONLY

WORST_CASE = (
    "Upper bound for every data set within the declared bounds; real runs are usually far better. Above the error of "
    "the start it says nothing."
)
REMARKS = {
    "bound": "The bound is on the mean, over all data sets.",
    "exact expectation": "The expectation is a mean; of so skewed a quantity the median lies below it.",
}
FARTHEST = 10_000  # steps


@dataclass(frozen=True)
class PlanView:
    """Everything that the plan figures show.

    bounds, exact : (T+1,) error bound, and exact error where the problem is a quadratic, per arm.
    by_horizon : numbers of steps and the bound after each, per arm. without : the arms for which no bound is known.
    refused : why there is no plan, for the arms that were asked for and are not in the experiment.
    """

    experiment: Experiment
    plans: Mapping[str, Plan]
    styles: Mapping[str, ArmStyle]
    bounds: Mapping[str, np.ndarray]
    exact: Mapping[str, np.ndarray]
    by_horizon: Mapping[str, tuple[np.ndarray, np.ndarray]]
    without: tuple[str, ...]
    refused: Mapping[str, UserError]

    @property
    def start(self) -> float:
        """The most that the excess loss can be without a step: a bound above it says nothing."""
        facts = next(iter(self.plans.values())).facts
        assert isinstance(facts, SmoothFacts)
        return facts.initial_gap


@st.cache_resource(max_entries=64, scope="session", show_spinner=False)
def view(text: str) -> PlanView:
    """The plans of an experiment, given as its JSON text, and their bounds. Raises UserError if no arm has a plan."""
    planned = Experiment.from_json(text).planned()
    experiment, plans, refused = planned.ready(), planned.plans, planned.refused
    bounds, exact, by_horizon, without = {}, {}, {}, []
    for arm in experiment.arms:
        method, plan = arm.algorithm, plans[arm.label]
        assert isinstance(method, GradientMethod) and isinstance(plan.facts, SmoothFacts)
        if plan.facts.eigenvalues:
            exact[arm.label] = method.expected_on_quadratic(plan)
        if isinstance(plan.budget, NoPrivacy):
            continue
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
    return PlanView(experiment, plans, arm_styles(experiment.arms), bounds, exact, by_horizon, tuple(without), refused)


def overlays(shown: PlanView) -> dict[str, Mapping[str, np.ndarray]]:
    """Curves of theory that a run can be compared with, by name."""
    found: dict[str, Mapping[str, np.ndarray]] = {"bound": shown.bounds}
    return found | ({"exact expectation": shown.exact} if shown.exact else {})


def options(shown: PlanView) -> Options:
    """How the curves of a run of this experiment are drawn."""
    currency, _, _ = plan_view.native_currency(shown.experiment.budget)
    title = f"Privacy spent, {plan_view.SYMBOLS[currency]}"
    return Options(currency, title, "gradient_norm", overlays(shown), REMARKS)


def drawings(shown: PlanView) -> Shown:
    """The four figures of the plan, with headings and captions."""
    currency, limit, remark = plan_view.native_currency(shown.experiment.budget)
    none = f" No bound is known for {', '.join(dict.fromkeys(shown.without))}." if shown.without else ""
    return [
        (
            "Noise per step",
            plan_figures.noise_schedule(shown.plans, shown.styles),
            f"Noise added to each coordinate of the mean gradient; equal schedules share a line. {SETTINGS_ONLY}",
        ),
        (
            "Privacy spent",
            plan_figures.privacy_spent(shown.plans, shown.styles, currency, limit),
            f"{remark} {SETTINGS_ONLY}",
        ),
        (
            "Predicted error",
            plan_figures.error_bounds(shown.bounds, shown.styles, start=shown.start),
            f"{WORST_CASE}{none}",
        ),
        (
            "How many steps?",
            plan_figures.bound_by_horizon(shown.by_horizon, shown.styles, start=shown.start),
            f"Error bound if the whole budget is spread over T steps. -opt and -T* take the best T up to yours.{none}",
        ),
    ]


def figures(shown: PlanView) -> None:
    """Draw the four figures; they follow every move of a control."""
    alts = (
        "Scale of the noise in each step, one line per method",
        "Privacy spent after each step, one line per method, and the budget",
        "Upper bound on the expected excess loss after each step, one line per method",
        "Error bound against the number of steps that share the budget; the best number is marked",
    )
    plan_view.draw(drawings(shown), alts, "accel_chart_plan")


def batch_note(shown: PlanView) -> str:
    """What the batch means in rows and passes over the data."""
    plan = max(guarantee.private(shown.plans).values(), key=lambda plan: plan.iterations)
    m, n = int(plan.rows[0]), plan.facts.n
    rows = f"All n = {n:,} rows" if m == n else f"m = {m:,} of n = {n:,} rows"
    return f"{rows} in each step: {short(plan.iterations * m / n)} epochs in {plan.iterations:,} steps."


def assumptions(shown: PlanView, taken: Collection[str]) -> None:
    """The box of assumptions for these settings; taken : what of an upload was taken from the data."""
    experiment = shown.experiment
    plan = next(iter(guarantee.private(shown.plans).values()))
    m, n = int(plan.rows[0]), plan.facts.n
    problem = experiment.problem
    missing = getattr(getattr(problem, "data", None), "missing", "")
    explain.assumptions(
        texts.PROTECTED,
        texts.batches(m, n),
        texts.composition(getattr(experiment.arms[0].algorithm, "noise", "laplace"), m < n),
        texts.constants(problem.smoothness_source if isinstance(problem, LogisticRegression) else None, taken, missing),
        texts.SCREEN,
    )
