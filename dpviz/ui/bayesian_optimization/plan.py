"""The plan of private tuning: the protected users, the advised bias level, and the trainings that it takes."""

from collections.abc import Iterator
from typing import Any

import streamlit as st

from dpviz.datasets import DatasetSpecification
from dpviz.datasets.users import UserFacts
from dpviz.families.bayesian_optimization import figures, texts
from dpviz.families.bayesian_optimization.forecast import Forecast
from dpviz.numbers import short
from dpviz.plots import plan_figures
from dpviz.plots.elements.chart import Chart
from dpviz.problems.tuning.tuning import TuningSpecification
from dpviz.ui import explain
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import plan as page_plan
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.explain import SETTINGS_ONLY
from dpviz.ui.markdown import show_table
from dpviz.ui.uploads.file import missing_rule

PREFIX = "tuning"


def protected(problem: TuningSpecification) -> str:
    """Say who is protected: the unit of neighbouring data sets, and which numbers are public."""
    unit, data = problem.unit, problem.dataset
    several = isinstance(data, DatasetSpecification) and isinstance(data.facts(), UserFacts)
    public = ", who they are and how many rows each has are public" if several else " is public"
    return (
        f"{unit[0].upper()}{unit[1:]}: that is how neighbouring data sets differ. All rows of a user count as one, by "
        f"their mean. The number of users n{public}."
    )


def verdict(view: PlanView) -> None:
    """Draw who is protected and who is not, and the advised bias level with a button that sets it."""
    forecast: Forecast = view.theory
    problem = view.experiment.problem
    assert isinstance(problem, TuningSpecification)
    with st.container(border=True):
        left, right = st.columns(2, gap="medium")
        left.markdown(f":material/shield: **Protected.** {protected(problem)}")
        no_others = "Nothing is trained here: there is nobody else in the data."
        right.markdown(f":material/no_encryption: **Not protected.** {problem.not_protected or no_others}")
    trainings = "; ".join(f"{label} about {short(count)}" for label, count in forecast.trainings.items())
    st.caption(f"Trainings of a run: {trainings}.")
    if forecast.advice is None:
        return
    level = forecast.advice.level
    is_fixed = forecast.method.batch_size is not None or forecast.method.placing.design == "central"
    page_plan.advised(
        f"**Stop looking at ω = {short(level)}.** {texts.FIXED if is_fixed else 'Why: “Advice” below.'}",
        f"{PREFIX}_advised",
        "Use this bias level",
        on_click=_apply,
        args=(level,),
        disabled=forecast.method.bias_level == float(short(level)) and not is_fixed,
        help="Sets the bias level, and leaves the number of evaluations per step to it.",
    )


def _apply(level: float) -> None:
    settings: dict[str, Any] = {"bias_level": float(short(level)), "batch_size": None}
    if st.session_state.get(f"{PREFIX}_placing_design") == "central":
        settings["placing_design"] = "adaptive"
    Panel(PREFIX).write(settings)


def reasons(view: PlanView) -> None:
    """Draw the reason for the advised bias level, and a table of all levels."""
    forecast: Forecast = view.theory
    if forecast.advice is None:
        st.info(texts.NOT_GAUSSIAN, icon=":material/block:")
        return
    st.markdown(forecast.advice.why)
    rows = [
        {
            "Bias level ω": row.level,
            "First batch b₁": "more than there are" if row.batch is None else str(row.batch),  # a column has one type
            "Planned bias": row.bias,
            "Noise": forecast.advice.noise,
            "Trainings of a run, about": row.trainings,
        }
        for row in forecast.advice.rows
    ]
    show_table(rows, style=explain.readable, alt="Of every bias level: first batch, bias, noise, and trainings")
    st.caption(f"{texts.TEXTS['CHARTS']['trainings_by_level']['caption']} {SETTINGS_ONLY}")


def drawings(view: PlanView) -> Iterator[Chart]:
    """Yield charts of the noise in each step, the privacy spent, bias next to noise, and trainings by bias level."""
    yield plan_figures.noise_schedule(view.plans, view.styles, texts.NOISE)
    yield page_plan.privacy_spent(view)
    yield figures.bias_and_noise(view.theory)
    yield figures.trainings_by_level(view.theory)


def size_note(view: PlanView) -> str:
    """Describe the numbers of users and settings."""
    facts = next(iter(view.plans.values())).facts
    return f"n = {facts.n:,} users, d = {facts.d:,} settings."


def assumptions(view: PlanView) -> None:
    """Draw the box of assumptions for these settings."""
    problem = view.experiment.problem
    assert isinstance(problem, TuningSpecification)
    explain.assumptions(
        f"{protected(problem)} {problem.not_protected}",
        texts.POINTS,
        texts.COMPOSITION,
        texts.constants(missing_rule(problem.dataset)),
        texts.SCREEN,
        problem.from_data,
    )
