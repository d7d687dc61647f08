"""Mirror descent for private games: choose, plan, run, show."""

from typing import Any

import streamlit as st

from dpviz.experiments.experiment import Experiment
from dpviz.families.mirror_descent import presets, texts
from dpviz.privacy.budgets import delta_of
from dpviz.problems.quadratic_games import QuadraticGame
from dpviz.ui import downloads, explain
from dpviz.ui.controls import Panel, Settings, in_place
from dpviz.ui.experiment import controls as experiment_controls
from dpviz.ui.experiment import guarantee, results
from dpviz.ui.experiment import plan as plan_view
from dpviz.ui.experiment import presets as preset_menu
from dpviz.ui.experiment import run as run_panel
from dpviz.ui.experiment.controls import Catalogue, Chosen
from dpviz.ui.mirror_descent import closer_look as mirror_tabs
from dpviz.ui.mirror_descent import plan as mirror_plan
from dpviz.ui.mirror_descent import problem as game_controls
from dpviz.ui.mirror_descent import results as mirror_results
from dpviz.ui.navigation import ensure_shell

ensure_shell()

CATALOGUE = Catalogue(presets.METHODS, presets.arms, presets.offered(QuadraticGame)[1], by_name=presets.BY_NAME)
REFERENCES = "The best play that is found without privacy, tuned on the data: the floor of the picture."
COMMON = ("iterations", "relative_step", "batching")
ADVANCED = ("draws", "accounting", "parameters", "output", "share_x", "release")
BASELINES = ("gradient_rounds", "euclidean_step", "entropic_step", "responses", "matrix_rounds", "chosen_vertices")
SYNTHETIC = ("measured_queries", "iterate", "fitting_rounds")
REST = ("stop_level", "rows_per_draw", "refresh_draws", "refresh", "output_draws", "theorem")


def settings_of(experiment: Experiment) -> dict[str, Any]:
    """The controls that rebuild an experiment."""
    found = experiment_controls.settings_of(experiment, CATALOGUE) | game_controls.settings_of(experiment.problem)
    return found | {mirror_tabs.methods_name(type(experiment.problem)): found.pop("methods")}


panel = Panel("mirror")
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
        st.subheader("Game", anchor=False)
        choice = game_controls.choose(panel, intro)
        with repeats:
            numbers = experiment_controls.replicates_and_seed(panel, public=not choice.uploaded)
        st.subheader("Privacy", anchor=False)
        budget = experiment_controls.budget(panel, "approximate", 1.0)
        delta = guarantee.delta(panel, budget)
        st.subheader("Algorithm", anchor=False)
        offered, default = presets.offered(choice.problem)
        name = mirror_tabs.methods_name(choice.problem)
        labels = experiment_controls.methods(panel, CATALOGUE, offered, default, name)
        chosen = labels or offered
        common, size_note = st.container(), st.empty()
        with st.expander("Advanced: draws and accounting"):
            references = experiment_controls.references(panel, REFERENCES)
            advanced = game_controls.applicable(ADVANCED, choice.problem, budget.cls)
            settings = experiment_controls.settings(panel, CATALOGUE, advanced, chosen)
        with common:
            settings |= experiment_controls.settings(panel, CATALOGUE, COMMON, chosen)
        rest = game_controls.applicable((*BASELINES, *SYNTHETIC, *REST), choice.problem, budget.cls)
        if experiment_controls.applicable(CATALOGUE, rest, chosen):
            with st.expander("Advanced: other methods"):
                settings |= experiment_controls.settings(panel, CATALOGUE, rest, chosen)
        panel.check()
        arms = Chosen(labels, references, settings).arms(CATALOGUE)
        problem = game_controls.build(choice)
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
        shown = mirror_plan.view(experiment.to_json())
        experiment = shown.experiment  # without the methods that have no plan
        with line:
            guarantee.line(experiment.budget, shown.plans, delta, mirror_plan.range_card)
        with plan:
            plan_view.refusals(shown.refused)
            plan_view.notes(shown.plans)
            mirror_plan.recommendation(shown)
            st.header("Before you run", anchor=False)
            mirror_tabs.tabs(panel, shown, delta)
        size_note.caption(mirror_plan.size_note(shown))
elif choice.uploaded:
    plan.info("The plan and the run follow as soon as your table is ready.", icon=":material/upload_file:")

with bar:
    plans, tables = (shown.plans, choice.tables) if shown is not None else (None, {})
    active = run_panel.bar("mirror", texts.TITLE, experiment, plans, tables)

# Show -------------------------------------------------------------------------------------------------------------
run = run_panel.current("mirror")
diagnostics = run is None or results.diagnostics_shown(panel, run.experiment)
run_panel.live("mirror", active, lambda run, trace: results.live_chart(run, trace, diagnostics))
trace = None  # what may be shown of a run that has ended
if run is not None and not run.job.active and run.job.trace is not None:
    run_panel.changed("mirror", experiment)
    st.header("Results", anchor=False)
    delta = delta_of(run.experiment.budget, delta)
    done, trace = mirror_plan.view(run.experiment.to_json()), run.job.trace.visible(diagnostics)
    mirror_results.summary(panel, run, trace)
    results.diagnostics_switch(panel, run.experiment)
    drawn = results.curves(panel, run, trace, mirror_plan.options(done))
    drawn += mirror_results.show(panel, run, trace, diagnostics)
    results.table(run, trace, delta)
    results.publishing_line(run, trace, delta)
    mirror_results.verdict(run, trace, diagnostics)
with st.container(horizontal=True):
    downloads.link(panel)
    if experiment is not None:
        downloads.script("mirror", experiment)
    if run is not None and trace is not None:
        downloads.run_files("mirror", run, trace, delta, lambda: [*mirror_plan.drawings(done), *drawn])
with st.expander("About this method", icon=":material/menu_book:"):
    st.markdown(texts.ABOUT)
    st.caption(texts.NOT_COVERED)
if shown is not None:
    mirror_plan.assumptions(shown, choice.from_data("mirror"))
with st.expander("Where this tool and the paper differ", icon=":material/rule:"):
    explain.errata(texts.ERRATA)
