"""The plan of the second-order methods: can the budget tell a minimum from a flat point?"""

from collections.abc import Iterator, Mapping
from typing import Literal

import streamlit as st

from dpviz.datasets.bundled import CovertypeUpload
from dpviz.experiments.plan import Plan
from dpviz.families.second_order import advice, figures, texts
from dpviz.families.second_order.advice import Forecast
from dpviz.numbers import rounded_up, short, short_up
from dpviz.plots.elements.chart import Chart
from dpviz.problems.nonconvex.nonconvex import NonconvexModel
from dpviz.problems.nonconvex.nonconvex_risk import NonconvexFacts
from dpviz.ui import explain
from dpviz.ui.experiment import guarantee
from dpviz.ui.experiment import plan as plan_view
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.explain import SETTINGS_ONLY
from dpviz.ui.markdown import show_table
from dpviz.ui.uploads.file import missing_rule

Theory = Mapping[str, tuple[Forecast, ...]]  # the phases of every private method, by label


def card(label: str, plan: Plan) -> guarantee.Card:
    """Return the card with the noise of gradients in the first and the last step."""
    name, ends, _, help = guarantee.noise_card(label, plan)
    return name, ends, f"{label}, T = {plan.iterations:,}", help


def traffic_light(view: PlanView) -> None:
    """Say if each method can stop, and how it could otherwise; then draw the numbers for that."""
    theory: Theory = view.theory
    if not theory:
        return
    st.header("Can your budget tell?", anchor=False)
    forecasts = {label: advice.best(phases) for label, phases in theory.items()}
    with st.container(horizontal=True, gap="small"):
        for label, forecast in forecasts.items():
            color, icon = BLIND if forecast.blind else BADGES[forecast.light]
            st.badge(f"{label}: {texts.light(forecast).partition(': ')[2]}", icon=icon, color=color)
    first = min(forecasts.values(), key=lambda forecast: forecast.blind)
    if not first.blind:
        say = {"green": st.success, "amber": st.warning, "red": st.error}[first.light]
        say(texts.can_tell(first, view.plans[first.label]), icon=BADGES[first.light][1])
    with st.expander("Every method, in numbers", icon=":material/traffic:"):
        _table(theory)


Color = Literal["green", "orange", "red", "gray"]
BADGES: Mapping[str, tuple[Color, str]] = {
    "green": ("green", ":material/check_circle:"),
    "amber": ("orange", ":material/schedule:"),
    "red": ("red", ":material/block:"),
}

BLIND: tuple[Color, str] = ("gray", ":material/visibility_off:")


def _table(theory: Theory) -> None:
    rows = [_row(forecast) for phases in theory.values() for forecast in phases]
    show_table(
        rows,
        placeholder="–",
        help=texts.COLUMNS["forecasts"],
        style=explain.readable,
        alt="Of every method and phase: whether it can stop, waiting time, steps, noise over tolerance, rows needed",
    )
    st.caption(f"{texts.FORECASTS} {SETTINGS_ONLY}")


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
        "Rows, practical": _rounded_up(forecast.practical),
        "Rows, proven": _rounded_up(forecast.needed),
        "Rows, published": _rounded_up(forecast.published),
    }


def _rounded_up(rows: float | None) -> float | None:
    return None if rows is None else rounded_up(rows)


def drawings(view: PlanView) -> Iterator[Chart]:
    """Yield charts of the noise in each step, the privacy spent, noise against tolerances, and waiting times."""
    yield figures.noise_and_targets(view.experiment.arms, view.plans, view.styles)
    yield plan_view.privacy_spent(view, after="step at most")
    theory: Theory = view.theory
    yield figures.noise_against_tolerances(
        {
            forecast.name: (forecast.stopping.gradient_ratio, forecast.stopping.hessian_ratio)
            for phases in theory.values()
            for forecast in phases
        }
    )
    last_phases = {
        label: phases[-1] for label, phases in theory.items() if phases[-1].all_rows and not phases[-1].blind
    }
    yield figures.waiting_times({label: _waiting(forecast) for label, forecast in last_phases.items()}, view.styles)


def _waiting(forecast: Forecast) -> figures.Waiting:
    rows, steps = advice.waiting_by_rows(forecast)
    at_these_rows = (forecast.rows, forecast.stopping.waiting_time)
    return figures.Waiting(rows, steps, at_these_rows, forecast.stopping.iterations / 2)


def size_note(view: PlanView) -> str:
    """Describe rows, features and constants; mark the constants that do not follow from the loss."""
    facts = next(iter(view.plans.values())).facts
    assert isinstance(facts, NonconvexFacts)
    return (
        f"n = {facts.n:,} rows, d = {facts.d:,}; G = {short(facts.smoothness)}{_remark(facts, 'G')}, "
        f"M = {short(facts.hessian_lipschitz)}{_remark(facts, 'M')}, f can fall by at most Γ = {short_up(facts.gap)}"
        f"{_remark(facts, 'Γ')}."
    )


def _remark(facts: NonconvexFacts, symbol: str) -> str:
    """Return the remark behind a constant that does not follow from the loss, "" for one that does."""
    if symbol == "Γ" and facts.released:
        return " (released)"
    return " (assumed)" * any(a.symbol == symbol for a in facts.assumed)


def assumptions(view: PlanView) -> None:
    """Draw the box of assumptions for these settings."""
    private = guarantee.private(view.plans).values()
    batch, n = min(int(plan.rows[0]) for plan in private), next(iter(private)).facts.n
    problem = view.experiment.problem
    assert isinstance(problem, NonconvexModel)
    missing = "classes" if isinstance(problem.dataset, CovertypeUpload) else missing_rule(problem.dataset)
    explain.assumptions(
        explain.protects(problem.unit),
        texts.batches(batch, n),
        texts.COMPOSITION,
        texts.constants(problem, missing),
        texts.SCREEN,
        problem.from_data,
    )
