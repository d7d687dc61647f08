"""Budget planner: what a guarantee is worth and what it buys. No data needed."""

from collections.abc import Callable
from contextlib import suppress

import streamlit as st

from dpviz import privacy
from dpviz.errors import UserError
from dpviz.privacy.statistics.noisy_means import NoisyMeans
from dpviz.ui import downloads, explain, glossary, links
from dpviz.ui.budget_planner import accuracy as planner_accuracy
from dpviz.ui.budget_planner import analyses as planner_analyses
from dpviz.ui.budget_planner import split as planner_split
from dpviz.ui.budget_planner import tabs as planner_tabs
from dpviz.ui.budget_planner import view as planner_view
from dpviz.ui.controls import Panel, Settings, in_place
from dpviz.ui.experiment import controls as experiment_controls
from dpviz.ui.experiment import guarantee
from dpviz.ui.experiment.plan import Shown
from dpviz.ui.navigation import ensure_shell

ensure_shell()
panel, ANALYSES = Panel("planner"), "Your analyses"

st.title("Budget planner", anchor=False)
with st.container(horizontal=True, vertical_alignment="center"):
    st.markdown("**Is my budget enough?** What the guarantee is worth, and what it buys; no data needed.")
    glossary.words("planner_words")
worth, buys = st.container(), st.container()

# Choose -----------------------------------------------------------------------------------------------------------
means = budget = None
with st.sidebar:
    st.subheader("Privacy", anchor=False)
    asked = experiment_controls.budget(panel, currencies=planner_view.ALL_CURRENCIES)
    delta = guarantee.delta(panel, asked)
    st.subheader("What is released", anchor=False)
    values = panel.specification(NoisyMeans, ["rows", "sampling"])
    unused = {*values, "batch_fraction"} if values["sampling"] == "all" else {*values}
    rest = [control.name for control in NoisyMeans.controls() if control.name not in unused]
    values |= panel.specification(NoisyMeans, rest)
    target = panel.number(planner_tabs.TARGET, "target", empty="half of the present noise")
    with in_place(worth):
        panel.check()
        budget, means = asked.build(), Settings(NoisyMeans, values).build()

# Plan -------------------------------------------------------------------------------------------------------------
drawn: Shown = []
if budget is not None and means is not None:
    with worth:
        answer, chart = st.columns(2, gap="medium")
        planner_view.currencies(budget, delta)
        planner_view.consequences(budget, means.relation)
        who = st.container()
    with buys:
        chosen, asked_budget = means, budget
        planned: planner_view.Releases | None = planner_view.of_means(means, budget)
        looks: dict[str, Callable[[], Shown]] = {
            "Noise": lambda: planner_tabs.noise(chosen, asked_budget),
            "A given noise": lambda: planner_tabs.given_noise(chosen, asked_budget, delta, target),
            "Rows": lambda: planner_tabs.rows(chosen, asked_budget, target),
            "What accounting saves": lambda: planner_tabs.savings(chosen, asked_budget, delta),
        }
        # These have controls of their own, which belong to the address even while their tab is closed.
        set_here: dict[str, Callable[[bool], tuple[Shown, planner_view.Releases | None]]] = {
            "Start from the accuracy": lambda is_open: planner_accuracy.view(panel, delta, is_open),
            "Split a budget": lambda is_open: planner_split.view(panel, chosen, asked_budget, delta, is_open),
            ANALYSES: lambda is_open: planner_analyses.view(panel, chosen, asked_budget, delta, is_open, answer),
        }
        names = [ANALYSES, *looks, *(name for name in set_here if name != ANALYSES)]
        tabs = dict(zip(names, st.tabs(names, key=panel.key("tabs"), bind="query-params"), strict=True))
        for name, look in looks.items():
            if tabs[name].open:
                with tabs[name], in_place():
                    drawn += look()
        if tabs["A given noise"].open:
            with suppress(UserError):  # said in the tab
                given = planner_tabs.wanted(means, budget, target)
                planned = planner_view.of_means(means, budget, given)
        for name, view in set_here.items():
            if tabs[name].open:
                planned = None  # unless the tab has a plan of its own
            with tabs[name], in_place():
                shown, own = view(bool(tabs[name].open))
                drawn += shown
                planned = own or planned
        panel.query |= {panel.key("tabs"): name for name in names[1:] if tabs[name].open}
    protects = planned.protects if planned else planner_view.protected(means)
    who.caption(f":material/group: **Who is protected: {means.relation}.** {protects}")
    with chart:
        drawn = planner_view.attack_chart(budget, means.relation, planned) + drawn

panel.say_unread()
with st.container(horizontal=True):
    links.back_to_lesson()
    links.show(panel)
    if drawn:
        downloads.figures(panel, lambda: drawn)
if budget is not None and means is not None:
    told = planned or planner_view.of_means(means, budget)
    explain.assumptions(
        told.protects,
        told.batches,
        told.composition,
        told.constants,
        "Everything here follows from your settings. Of a file, only the names of its columns and its number of rows "
        "are taken; nothing reads its values.",
    )
explain.theory("planner", privacy)
