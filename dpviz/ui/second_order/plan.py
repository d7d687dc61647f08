"""The plan of the second-order methods: whether the budget can tell a minimum from a flat place."""

from collections.abc import Mapping
from typing import Literal

import streamlit as st

from dpviz.datasets.covertype import CovertypeUpload
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.families.second_order import advice, figures, texts
from dpviz.families.second_order.advice import Forecast
from dpviz.numbers import short
from dpviz.problems.nonconvex.nonconvex import NonconvexModel
from dpviz.problems.nonconvex.nonconvex_risk import NonconvexFacts
from dpviz.ui import explain
from dpviz.ui.experiment import guarantee
from dpviz.ui.experiment import plan as plan_view
from dpviz.ui.experiment.plan import Drawing, PlanView, Shown
from dpviz.ui.explain import SETTINGS_ONLY
from dpviz.ui.tables import show_table
from dpviz.ui.uploads.file import missing_rule

Theory = Mapping[str, tuple[Forecast, ...]]  # the phases of every private method
COLUMNS = {
    "Can it stop?": "Green: it waits two steps or less at a flat place, and has the steps to get there. Amber: up to "
    "half of its steps, or few steps to get there. Red: longer. Open: rests on a constant that is assumed.",
    "W": "Waiting time: steps at a flat place until both tests pass, on average.",
    "T": "Steps that share the budget.",
    "Gradient": "Noise over tolerance, r_g = √d s_g/ε_g. Above 1 even a zero gradient usually looks large.",
    "Curvature": "Noise over tolerance, r_H = κ s_H/ε_H. Above 1 noise alone usually looks like negative curvature.",
    "Least decrease": "What every step is sure to take off the objective, as long as noise stays within its share.",
    "Rows, practical": "n at which noise is as large as what is tested.",
    "Rows, proven": "n from which on the theorem promises a solution with 95 % confidence, from constants none of "
    "which is assumed. It is very conservative.",
    "Rows, published": "n by the paper's formula (4), √(d/ρ) max(1/ε_g², 1/(ε_g ε_H²), ε_H^(-7/2)): an order of "
    "magnitude, with 1 for its hidden factor of constants and logarithms. Noise as published hides another √d.",
}


def predict(experiment: Experiment, plans: Mapping[str, Plan]) -> Theory:
    """What both tests do at a flat place, for every phase of every private method."""
    return advice.forecasts(experiment, plans)


def card(label: str, plan: Plan) -> guarantee.Card:
    """The noise of gradients, in the first and the last step."""
    name, ends, _, help = guarantee.noise_card(label, plan)
    return name, ends, f"{label}, T = {plan.iterations:,}", help


def traffic_light(shown: PlanView) -> None:
    """Whether each method can stop, in words, and what would make it able to; then the numbers behind it."""
    found: Theory = shown.theory
    if not found:
        return
    st.header("Can your budget tell?", anchor=False)
    chosen = {label: advice.best(phases) for label, phases in found.items()}
    with st.container(horizontal=True, gap="small"):
        for label, forecast in chosen.items():
            color, icon = BLIND if forecast.blind else BADGES[forecast.light]
            st.badge(f"{label}: {texts.light(forecast).partition(': ')[2]}", icon=icon, color=color)
    first = min(chosen.values(), key=lambda forecast: forecast.blind)
    if not first.blind:
        say = {"green": st.success, "amber": st.warning, "red": st.error}[first.light]
        say(texts.can_tell(first, shown.plans[first.label]), icon=BADGES[first.light][1])
    with st.expander("Every method, in numbers", icon=":material/traffic:"):
        _table(found)


Color = Literal["green", "orange", "red", "gray"]
BADGES: Mapping[str, tuple[Color, str]] = {
    "green": ("green", ":material/check_circle:"),
    "amber": ("orange", ":material/schedule:"),
    "red": ("red", ":material/block:"),
}

BLIND: tuple[Color, str] = ("gray", ":material/visibility_off:")


def _table(found: Theory) -> None:
    rows = [_row(forecast) for phases in found.values() for forecast in phases]
    show_table(
        rows,
        placeholder="–",
        column_config={name: st.column_config.Column(help=help) for name, help in COLUMNS.items()},
        style=explain.readable,
        alt="Of every method and phase: whether it can stop, waiting time, steps, noise over tolerance, rows needed",
    )
    st.caption(
        "Read at a stationary point whose curvature is 0: positive curvature shortens the wait. How many steps it "
        f"takes to get there is an estimate, no bound. Rows are for methods that read all of them. {SETTINGS_ONLY}"
    )


def _row(forecast: Forecast) -> dict[str, object]:
    stopping = forecast.stopping
    return {
        "Method": forecast.name,
        "Can it stop?": texts.light(forecast),
        "W": stopping.waiting_time,
        "T": stopping.iterations,
        "Gradient": stopping.gradient_ratio,
        "Curvature": stopping.hessian_ratio,
        "Least decrease": None if any(a.symbol in "GM" for a in forecast.assumed) else forecast.decrease,
        "Rows, practical": forecast.practical,
        "Rows, proven": forecast.needed,
        "Rows, published": forecast.published,
    }


def noise(shown: PlanView) -> Drawing:
    """The scale of the noise in each step."""
    heading, figure, _ = plan_view.noise(shown)
    bounded = ", ".join(label for label, plan in shown.plans.items() if plan.noise_varies)
    at_most = f" {texts.AT_MOST.format(bounded)}" if bounded else ""
    return (
        heading,
        figure,
        f"On each coordinate of the mean gradient, and of the Hessian (thin).{at_most} {SETTINGS_ONLY}",
    )


def drawings(shown: PlanView) -> Shown:
    """The other figures of the plan, with headings and captions."""
    found: Theory = shown.theory
    lasts = {label: phases[-1] for label, phases in found.items() if phases[-1].all_rows and not phases[-1].blind}
    waiting = {label: _waiting(forecast) for label, forecast in lasts.items()}
    ratios = {
        forecast.name: (forecast.stopping.gradient_ratio, forecast.stopping.hessian_ratio)
        for phases in found.values()
        for forecast in phases
    }
    return [
        plan_view.privacy_spent(shown),
        (
            "Noise against the tolerances",
            figures.noise_against_tolerances(ratios),
            "A run stops where a noisy number is within its tolerance. Left of the line the noise allows that; far "
            f"right of it no place looks flat, however good it is. {SETTINGS_ONLY}",
        ),
        (
            "Waiting time and rows",
            figures.waiting_times(waiting, shown.styles),
            "How long a run waits at a flat place, if you had more or fewer rows at the same budget: noise falls with "
            f"1/n. Methods on batches are left out. {SETTINGS_ONLY}",
        ),
    ]


def _waiting(forecast: Forecast) -> figures.Waiting:
    rows, steps = advice.waiting_by_rows(forecast)
    here = (forecast.rows, forecast.stopping.waiting_time)
    return figures.Waiting(rows, steps, here, forecast.stopping.iterations / 2)


ALTS = (
    "Scale of the noise in each step, one line per method",
    "Privacy spent after each step at most, one line per method, and the budget",
    "Noise over tolerance of both tests, for every method",
    "Waiting time against the number of rows, one line per method",
)


def size_note(shown: PlanView) -> str:
    """Rows, features and the constants, with those marked that do not follow from the loss."""
    facts = next(iter(shown.plans.values())).facts
    assert isinstance(facts, NonconvexFacts)
    return (
        f"n = {facts.n:,} rows, d = {facts.d:,}; G = {short(facts.smoothness)}{_marked(facts, 'G')}, "
        f"M = {short(facts.hessian_lipschitz)}{_marked(facts, 'M')}, f can fall by at most Γ = {short(facts.gap)}"
        f"{_marked(facts, 'Γ')}."
    )


def _marked(facts: NonconvexFacts, symbol: str) -> str:
    """What is said behind a constant that does not follow from the loss."""
    if symbol == "Γ" and facts.released:
        return " (released)"
    return " (assumed)" * any(a.symbol == symbol for a in facts.assumed)


def assumptions(shown: PlanView) -> None:
    """The box of assumptions for these settings."""
    private = guarantee.private(shown.plans).values()
    m, n = min(int(plan.rows[0]) for plan in private), next(iter(private)).facts.n
    problem = shown.experiment.problem
    assert isinstance(problem, NonconvexModel)
    missing = "classes" if isinstance(problem.dataset, CovertypeUpload) else missing_rule(problem.dataset)
    explain.assumptions(
        explain.protects(problem.unit),
        texts.batches(m, n),
        texts.COMPOSITION,
        texts.constants(problem, missing),
        texts.SCREEN,
        problem.from_data,
    )
