"""The start page's demonstration: how many steps a budget allows."""

import streamlit as st

from dpviz.experiments.experiment import Experiment
from dpviz.families.accelerated import presets
from dpviz.numbers import short
from dpviz.plots import plan_figures
from dpviz.privacy.budgets import PureDP
from dpviz.problems.linear_models import LogisticRegression
from dpviz.ui import charts
from dpviz.ui.accelerated import plan
from dpviz.ui.controls import Panel, mistake
from dpviz.ui.experiment import plan as plan_view
from dpviz.ui.explain import SETTINGS_ONLY


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
    shown = plan_view.view(experiment.to_json(), plan.predict)
    best = shown.plans["DP-NAG-opt"].iterations
    with left:
        st.metric(
            "Best number of steps, DP-NAG-opt",
            f"T = {best}",
            f"error at most {short(float(shown.theory.bounds['DP-NAG-opt'][-1]))}",
            delta_color="off",
            delta_arrow="off",
        )
    with right:
        charts.plain(
            plan_figures.bound_by_horizon(shown.theory.by_horizon, shown.styles, start=shown.theory.start),
            "home_chart",
            f"Error bound against the number of steps; at this budget {best} steps are best",
        )
        st.caption(
            "Upper bound on the error of logistic regression, n = 10,000, if the whole budget is spread over T steps. "
            f"Too few steps learn little; too many drown in noise. {SETTINGS_ONLY}"
        )
