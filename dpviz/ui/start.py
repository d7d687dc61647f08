"""The parts of the start page: doors, a card per family, and the live demonstration."""

from dataclasses import dataclass

import streamlit as st

from dpviz.experiments.experiment import Experiment
from dpviz.families.accelerated import presets
from dpviz.families.mirror_descent import presets as mirror_presets
from dpviz.numbers import short
from dpviz.plots import plan_figures
from dpviz.privacy.budgets import PureDP
from dpviz.problems.linear_models import LogisticRegression
from dpviz.ui import charts
from dpviz.ui.accelerated import plan as accelerated_plan
from dpviz.ui.controls import Panel, mistake
from dpviz.ui.experiment import presets as preset_menu
from dpviz.ui.explain import SETTINGS_ONLY


@dataclass(frozen=True)
class Family:
    """A page, as the start page introduces it; prefix : of the page's keys; preset : where to begin."""

    page: str
    prefix: str
    icon: str
    title: str
    guarantee: str
    question: str
    preset: str


FAMILIES = (
    Family(
        page="pages/accelerated.py",
        prefix="accel",
        icon=":material/rocket_launch:",
        title="Accelerated gradient",
        guarantee="Pure ε with Laplace noise; (ε, δ), ρ-zCDP or μ-GDP with Gaussian noise. One row replaced.",
        question="Momentum needs fewer steps but amplifies noise. For your data and budget: which method, how many "
        "steps, and how should the budget be spread over them?",
        preset=presets.PRESETS[0].name,
    ),
    Family(
        page="pages/mirror_descent.py",
        prefix="mirror",
        icon=":material/casino:",
        title="Private games",
        guarantee="(ε, δ), pure ε, ρ-zCDP or μ-GDP by drawing vertices with the exponential mechanism. One row "
        "replaced.",
        question="Two players, thousands of strategies, one budget: equilibria, fair models for the worst group, "
        "synthetic data. Why does the error hardly grow with the number of strategies?",
        preset=mirror_presets.PRESETS[0].name,
    ),
)


PLANNER = "pages/budget_planner.py"


def door(key: str, icon: str, title: str, text: str, label: str, page: Family | str, preset: str | None = None) -> None:
    """One way into the tool: what it is for, and a button that opens the page, of a family with a preset."""
    with st.container(border=True, height="stretch"):
        st.subheader(f"{icon} {title}", anchor=False)
        st.markdown(text)
        _open(key, label, page, preset)


def card(family: Family) -> None:
    """What a family of methods is about."""
    with st.container(border=True, height="stretch"):
        st.subheader(f"{family.icon} {family.title}", anchor=False)
        st.markdown(family.question)
        st.caption(f"**Guarantee.** {family.guarantee}")
        _open(f"card_{family.prefix}", "Try the preset", family, family.preset)


def _open(key: str, label: str, page: Family | str, preset: str | None) -> None:
    if st.button(label, key=f"home_{key}", icon=":material/arrow_forward:"):
        if isinstance(page, Family) and preset is not None:
            preset_menu.open_with(page.prefix, preset)
        st.switch_page(page.page if isinstance(page, Family) else page)


@st.fragment
def demonstration() -> None:
    """One slider, one curve: how many steps a privacy budget allows."""
    panel = Panel("home")
    (control,) = PureDP.controls()
    left, right = st.columns([2, 3], gap="large", vertical_alignment="center")
    with left:
        st.subheader("Try it: how many steps can you afford?", anchor=False)
        st.markdown("Each step of learning adds noise. Move the budget and watch the best number of steps.")
        epsilon = panel.number(control, "epsilon")
        st.caption(PureDP.direction)
    if mistake(control, epsilon):
        return
    arms = presets.arms(["DP-GD-opt", "DP-NAG-T*", "DP-NAG-opt"], iterations=1000)
    experiment = Experiment(problem=LogisticRegression(), arms=arms, budget=PureDP(epsilon=epsilon or 1.0))
    shown = accelerated_plan.view(experiment.to_json())
    best = shown.plans["DP-NAG-opt"].iterations
    with left:
        st.metric(
            "Best number of steps, DP-NAG-opt",
            f"T = {best}",
            f"error at most {short(float(shown.bounds['DP-NAG-opt'][-1]))}",
            delta_color="off",
            delta_arrow="off",
        )
    with right:
        charts.plain(
            plan_figures.bound_by_horizon(shown.by_horizon, shown.styles, start=shown.start),
            "home_chart",
            f"Error bound against the number of steps; at this budget {best} steps are best",
        )
        st.caption(
            "Upper bound on the error of logistic regression, n = 10,000, if the whole budget is spread over T steps. "
            f"Too few steps learn little; too many drown in noise. {SETTINGS_ONLY}"
        )
