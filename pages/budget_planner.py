"""Budget planner: what a guarantee is worth and what it buys. No data needed."""

import streamlit as st

from dpviz.privacy.what_if import NoisyMeans
from dpviz.ui import (
    downloads,
    experiment_controls,
    explain,
    guarantee,
    planner_accuracy,
    planner_split,
    planner_tabs,
    planner_view,
)
from dpviz.ui.controls import Panel, Settings, in_place
from dpviz.ui.navigation import ensure_shell
from dpviz.ui.results import Shown

ensure_shell()
panel = Panel("planner")

st.title("Budget planner", anchor=False)
st.markdown("What is a privacy guarantee worth, and how much noise does it ask for? No data needed.")
worth, buys = st.container(), st.container()

# Choose -----------------------------------------------------------------------------------------------------------
means = budget = None
with st.sidebar:
    st.subheader("Privacy", anchor=False)
    asked = experiment_controls.budget(panel, currencies=planner_view.ALL_CURRENCIES)
    delta = guarantee.delta(panel)
    st.subheader("What is released", anchor=False)
    values = panel.specification(NoisyMeans, [control.name for control in NoisyMeans.controls()])
    target = panel.control(planner_tabs.TARGET, "target")
    with in_place(worth):
        panel.check()
        budget, means = asked.build(), Settings(NoisyMeans, values).build()

# Plan -------------------------------------------------------------------------------------------------------------
drawn: Shown = []
if budget is not None and means is not None:
    with worth:
        st.info(f"{planner_view.NEIGHBOURS[means.relation]} {means.protects}", icon=":material/group:")
        st.header("What this guarantee is worth", anchor=False)
        planner_view.currencies(budget, delta)
        words, chart = st.columns(2)
        with words:
            planner_view.consequences(budget, means.relation)
        with chart:
            drawn += planner_view.attack_chart(budget, means)
    with buys:
        st.header("What it buys", anchor=False)
        st.caption("T means of clipped rows share the budget evenly: the core of most private algorithms.")
        chosen, asked_budget = means, budget
        looks = {
            "Noise": lambda: planner_tabs.noise(panel, chosen, asked_budget),
            "A given noise": lambda: planner_tabs.given_noise(panel, chosen, asked_budget, delta, target),
            "Rows": lambda: planner_tabs.rows(panel, chosen, asked_budget, target),
            "What accounting saves": lambda: planner_tabs.savings(panel, chosen, asked_budget, delta),
            "Start from the accuracy": lambda: planner_accuracy.view(panel, asked_budget, delta),
            "Split a budget": lambda: planner_split.view(panel, asked_budget, delta),
        }
        tabs = st.tabs(list(looks), key=panel.key("tabs"), on_change="rerun")
        for tab, look in zip(tabs, looks.values(), strict=True):
            if tab.open:
                with tab, in_place():
                    drawn += look()

with st.container(horizontal=True):
    downloads.link(panel)
    if drawn:
        downloads.figures(panel, lambda: drawn)
if means is not None:
    explain.assumptions(
        means.protects,
        planner_view.NEIGHBOURS[means.relation].strip("*") + " Composing it with releases that hold under the other "
        "relation is refused.",
        "Number of steps and noise are fixed in advance. The tightest accountant that applies is used; each is valid.",
        "Clip, rows and steps are declared. Clipping enforces the sensitivity whatever the data are.",
        "Everything here follows from your settings. Nothing reads data.",
    )
