"""Budget planner: what a guarantee is worth and what it buys. No data needed."""

import streamlit as st

from dpviz.privacy.what_if import NoisyMeans
from dpviz.ui import downloads, experiment_controls, explain, guarantee, planner_view
from dpviz.ui.controls import Panel, Settings, in_place
from dpviz.ui.navigation import ensure_shell

ensure_shell()
panel = Panel("planner")

st.title("Budget planner", anchor=False)
st.markdown("What is a privacy guarantee worth, and how much noise does it ask for? No data needed.")
worth, buys = st.container(), st.container()

# Choose -----------------------------------------------------------------------------------------------------------
means = budget = None
with st.sidebar:
    st.subheader("Privacy", anchor=False)
    asked = experiment_controls.budget(panel)
    delta = guarantee.delta(panel)
    st.subheader("What is released", anchor=False)
    values = panel.specification(NoisyMeans, [control.name for control in NoisyMeans.controls()])
    target = panel.control(planner_view.TARGET, "target")
    with in_place(worth):
        panel.check()
        budget, means = asked.build(), Settings(NoisyMeans, values).build()

# Plan -------------------------------------------------------------------------------------------------------------
if budget is not None and means is not None:
    with worth:
        st.header("What this guarantee is worth", anchor=False)
        planner_view.currencies(budget, delta)
        words, chart = st.columns(2)
        with words:
            planner_view.consequences(budget)
        with chart:
            planner_view.attack_chart(budget, means)
    with buys:
        st.header("What it buys", anchor=False)
        st.caption("T means of clipped rows share the budget evenly: the core of most private algorithms.")
    with buys, in_place(buys):
        scale = planner_view.noise(means, budget)
        planner_view.what_if(means, budget, target, scale)
        planner_view.accountants_chart(means, budget, delta)
        with st.expander("The same in Python", icon=":material/code:"):
            planner_view.as_python(means, budget)

downloads.link(panel)
explain.assumptions(
    "One row: the guarantee compares data sets that differ in one replaced row. The number of rows n is public.",
    "Drawn afresh for every mean, without replacement; the amplification counted here holds for that scheme only.",
    "Number of steps and noise are fixed in advance. The tightest accountant that applies is used; each is valid.",
    "Clip, rows and steps are declared. Clipping enforces the sensitivity 2C/m whatever the data are.",
    "Everything here follows from your settings. Nothing reads data.",
)
