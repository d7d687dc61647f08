"""Accelerated gradient methods: choose, plan, run, show."""

from typing import Any

import streamlit as st

from dpviz.experiments.experiment import Experiment
from dpviz.families.accelerated import presets, texts
from dpviz.privacy.budgets import delta_of
from dpviz.ui import downloads, explain
from dpviz.ui.accelerated import closer_look as accelerated_tabs
from dpviz.ui.accelerated import plan as accelerated_plan
from dpviz.ui.accelerated import problem as problem_controls
from dpviz.ui.accelerated import results as accelerated_results
from dpviz.ui.controls import Panel, Settings, in_place
from dpviz.ui.experiment import controls as experiment_controls
from dpviz.ui.experiment import guarantee, results
from dpviz.ui.experiment import plan as plan_view
from dpviz.ui.experiment import presets as preset_menu
from dpviz.ui.experiment import run as run_panel
from dpviz.ui.experiment.controls import Catalogue, Chosen
from dpviz.ui.navigation import ensure_shell
from dpviz.ui.uploads import table as data_panel

ensure_shell()

CATALOGUE = Catalogue(presets.METHODS, presets.arms, presets.DEFAULT_METHODS, by_name=("schedule", "horizon"))


def settings_of(experiment: Experiment) -> dict[str, Any]:
    """The controls that rebuild an experiment."""
    return experiment_controls.settings_of(experiment, CATALOGUE) | problem_controls.settings_of(experiment.problem)


panel = Panel("accel")
preset_menu.apply_pending(panel, presets.PRESETS, settings_of)

st.title(texts.TITLE, anchor=False)
st.markdown(texts.SUMMARY)
intro, line, plan, bar = st.container(), st.container(), st.container(), st.container()
experiment, preset, delta = None, None, guarantee.DELTA

# Choose -----------------------------------------------------------------------------------------------------------
with bar:
    st.header("Run", anchor=False)
    repeats = st.container()
with st.sidebar:
    menu = st.container()
    with in_place(plan):
        st.subheader("Data", anchor=False)
        data = problem_controls.data(panel, intro)
        with repeats:
            numbers = experiment_controls.replicates_and_seed(panel, public=data.source != "upload")
        st.subheader("Privacy", anchor=False)
        budget = experiment_controls.budget(panel)
        delta = guarantee.delta(panel, budget)
        st.subheader("Algorithm", anchor=False)
        labels = experiment_controls.methods(panel, CATALOGUE)
        settings = experiment_controls.settings(panel, CATALOGUE, ["iterations", "relative_step", "batch_fraction"])
        batch_note = st.empty()
        with st.expander("Advanced: noise and methods"):
            references = experiment_controls.references(panel)
            advanced = ["noise", "schedule", "horizon", "stage_lengths", "momentum_rule"]
            settings |= experiment_controls.settings(panel, CATALOGUE, advanced, labels)
            if settings.get("momentum_rule") == "own":
                settings |= experiment_controls.settings(panel, CATALOGUE, ["momentum"])
        with st.expander("Advanced: model and clipping"):
            problem = problem_controls.model(panel, data, budget, numbers["seed"])
        arms = Chosen(labels, references, settings).arms(CATALOGUE)
        if problem is not None:
            parts = {"problem": problem, "arms": arms, "budget": budget.build(), **numbers}
            experiment = Settings(Experiment, parts).build()
    with menu:
        preset = preset_menu.menu(panel, presets.PRESETS, experiment)
with intro:
    preset_menu.sentence(panel, preset, experiment, settings_of)

# Plan, run --------------------------------------------------------------------------------------------------------
shown = None
if experiment is not None:
    with in_place(plan):
        shown = accelerated_plan.view(experiment.to_json())
        experiment = shown.experiment  # without the methods that have no plan
        with line:
            guarantee.line(experiment.budget, shown.plans, delta)
        with plan:
            plan_view.refusals(shown.refused)
            plan_view.notes(shown.plans)
            st.header("Before you run", anchor=False)
            accelerated_tabs.tabs(panel, shown, delta)
        batch_note.caption(accelerated_plan.batch_note(shown))
elif data.source == "upload":
    plan.info("The plan and the run follow as soon as your table is ready.", icon=":material/upload_file:")

with bar:
    plans, tables = (shown.plans, data.tables) if shown is not None else (None, {})
    active = run_panel.bar("accel", texts.TITLE, experiment, plans, tables)

# Show -------------------------------------------------------------------------------------------------------------
run = run_panel.current("accel")
diagnostics = run is None or results.diagnostics_shown(panel, run.experiment)
run_panel.live("accel", active, lambda run, trace: results.live_chart(run, trace, diagnostics))
trace = None  # what may be shown of a run that has ended
if run is not None and not run.job.active and run.job.trace is not None:
    run_panel.changed("accel", experiment)
    st.header("Results", anchor=False)
    delta = delta_of(run.experiment.budget, delta)
    done, trace = accelerated_plan.view(run.experiment.to_json()), run.job.trace.visible(diagnostics)
    accelerated_results.summary(panel, run, trace)
    results.diagnostics_switch(panel, run.experiment)
    drawn = results.curves(panel, run, trace, accelerated_plan.options(done))
    results.table(run, trace, delta)
    results.publishing_line(run, trace, delta)
with st.container(horizontal=True):
    downloads.link(panel)
    if experiment is not None:
        downloads.script("accel", experiment)
    if run is not None and trace is not None:
        downloads.run_files("accel", run, trace, delta, lambda: [*accelerated_plan.drawings(done), *drawn])
with st.expander("About this method", icon=":material/menu_book:"):
    st.markdown(texts.ABOUT)
    st.caption(texts.NOT_COVERED)
if shown is not None:
    accelerated_plan.assumptions(shown, data_panel.from_data("accel") if data.source == "upload" else ())
with st.expander("Where this tool and the paper differ", icon=":material/rule:"):
    explain.errata(texts.ERRATA)
