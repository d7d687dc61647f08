"""The plan of private tuning: who is protected, when to stop looking, and what that takes."""

from typing import Any

import streamlit as st

from dpviz.datasets import DatasetSpecification
from dpviz.datasets.users import UserFacts
from dpviz.families.bayesian_optimization import figures, texts
from dpviz.families.bayesian_optimization.forecast import Forecast
from dpviz.numbers import short
from dpviz.problems.tuning.tuning import TuningSpecification
from dpviz.ui import explain
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import plan as page_plan
from dpviz.ui.experiment.plan import Drawing, PlanView, Shown
from dpviz.ui.explain import SETTINGS_ONLY
from dpviz.ui.tables import show_table
from dpviz.ui.uploads.file import missing_rule

PREFIX = "tuning"
ALTS = (
    "Length of the planned bias against the bias level, beside the length of the noise",
    "Trainings of a run against the bias level",
    "Privacy spent after each step, one line per method, and the budget",
)


def protected(problem: TuningSpecification) -> str:
    """Who is protected."""
    unit, data = problem.unit, problem.dataset
    several = isinstance(data, DatasetSpecification) and isinstance(data.facts(), UserFacts)
    public = ", who they are and how many rows each has are public" if several else " is public"
    return (
        f"{unit[0].upper()}{unit[1:]}: that is how neighbouring data sets differ. All rows of a user count as one, by "
        f"their mean. The number of users n{public}."
    )


def verdict(shown: PlanView) -> None:
    """Who is protected and who is not, the advised bias level, and a button that takes it."""
    found: Forecast = shown.theory
    problem = shown.experiment.problem
    assert isinstance(problem, TuningSpecification)
    with st.container(border=True):
        left, right = st.columns(2, gap="medium")
        left.markdown(f":material/shield: **Protected.** {protected(problem)}")
        nobody = "Nothing is trained here: there is nobody else in the data."
        right.markdown(f":material/no_encryption: **Not protected.** {problem.not_protected or nobody}")
    if found.advice is None:
        return
    with st.container(border=True):
        row = st.container(horizontal=True, vertical_alignment="center", gap="medium")
        level = found.advice.level
        fixed = found.method.batch_size is not None or found.method.placing.design == "central"
        said = f" {texts.FIXED}" if fixed else ""
        row.markdown(f"**Stop looking at ω = {short(level)}.** {found.advice.why}{said}", width="stretch")
        row.button(
            "Use this bias level",
            key=f"{PREFIX}_advised",
            icon=":material/tune:",
            on_click=_apply,
            args=(level,),
            disabled=found.method.bias_level == float(short(level)) and not fixed,
            help="Sets the bias level, and leaves the number of evaluations per step to it.",
        )
        with st.expander("Every bias level, in numbers"):
            _levels(found)


def _apply(level: float) -> None:
    settings: dict[str, Any] = {"bias_level": float(short(level)), "batch_size": None}
    if st.session_state.get(f"{PREFIX}_placing_design") == "central":
        settings["placing_design"] = "adaptive"
    Panel(PREFIX).write(settings)


def _levels(found: Forecast) -> None:
    assert found.advice is not None
    rows = [
        {
            "Bias level ω": row.level,
            "First batch b₁": "more than there are" if row.batch is None else str(row.batch),  # a column has one type
            "Planned bias": row.bias,
            "Noise": found.advice.noise,
            "Trainings of a run, about": row.trainings,
        }
        for row in found.advice.rows
    ]
    show_table(rows, style=explain.readable, alt="Of every bias level: first batch, bias, noise, and trainings")
    st.caption(f"{texts.TRAININGS} {SETTINGS_ONLY}")


def noise(shown: PlanView) -> Drawing:
    """Bias beside noise."""
    return "Bias beside noise", figures.bias_and_noise(shown.theory), f"{texts.BIAS} {SETTINGS_ONLY}"


def drawings(shown: PlanView) -> Shown:
    """The other figures of the plan, with headings and captions."""
    found: Forecast = shown.theory
    return [
        ("What it takes", figures.trainings_by_level(found), f"{texts.TRAININGS} {SETTINGS_ONLY}"),
        page_plan.privacy_spent(shown),
    ]


def size_note(shown: PlanView) -> str:
    """Users, settings, and about how many trainings."""
    found: Forecast = shown.theory
    each = "; ".join(f"{label} about {short(count)}" for label, count in found.trainings.items())
    return f"n = {found.facts.n:,} users, d = {found.facts.d:,} settings. Trainings of a run: {each}."


def assumptions(shown: PlanView) -> None:
    """The box of assumptions for these settings."""
    problem = shown.experiment.problem
    assert isinstance(problem, TuningSpecification)
    explain.assumptions(
        f"{protected(problem)} {problem.not_protected}",
        texts.POINTS,
        texts.COMPOSITION,
        texts.constants(missing_rule(problem.dataset)),
        texts.SCREEN,
        problem.from_data,
    )
