"""Tabs of the plan of a game; each is computed only while it is open."""

from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from dpviz.families.mirror_descent import VertexSampling, bounds, figures, planning, presets, texts
from dpviz.numbers import short
from dpviz.plots import plan_figures, sweep_figures
from dpviz.plots.elements.chart import Chart
from dpviz.privacy.budgets import ApproximateDP
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.quadratic_games import QuadraticGame
from dpviz.sweeps.sweep import Sweep
from dpviz.sweeps.sweep_result import SweepResult
from dpviz.ui import charts
from dpviz.ui.controls import Panel, in_place, mistake
from dpviz.ui.experiment import guarantee, sweep_tab
from dpviz.ui.experiment import sweep as sweep_panel
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.mirror_descent import bias, choices
from dpviz.ui.mirror_descent.plan import facts_of, sampling

DATA_SETS = replace(sweep_tab.DATA_SETS, name="sweep_data_sets", default=5)
MAX_DIMENSIONS = {"100": "up to 100", "300": "up to 300", "1000": "up to 1,000", "3000": "up to 3,000"}
DIMENSIONS = (10, 30, 100, 300, 1000, 3000)


def looks(panel: Panel, view: PlanView, delta: float) -> dict[str, Callable[[], None]]:
    """Return the functions that draw the tabs, by title."""
    return {
        "Gap against dimension": lambda: _dimension(panel, view),
        "Accounting": lambda: _accounting(panel, view, delta),
        "Where the budget goes": lambda: choices.budget_split(panel, view),
        "Rows for a target": lambda: choices.rows_for_gap(panel, view),
        "Bias of few draws": lambda: bias.show(panel, view),
        "The paper's bound": lambda: choices.paper_bound(panel, view),
        "The paper's table": lambda: choices.table(view),
    }


def _dimension(panel: Panel, view: PlanView) -> None:
    """Draw the sweep of the gap against the number of strategies, with every selected method."""
    st.markdown(texts.DIMENSIONS)
    experiment = view.experiment
    if not isinstance(experiment.problem, MatrixGame | QuadraticGame):
        st.info("Choose the matrix game or the quadratic game: their number of strategies can be varied.")
        return
    left, right, _ = st.columns(3, vertical_alignment="bottom")
    with left:
        max_dimension = int(
            panel.choice("sweep_longest", "Strategies", MAX_DIMENSIONS, "1000", "The largest number of strategies.")
        )
    with right:
        data_sets = panel.number(DATA_SETS, DATA_SETS.name)
    sweep: Sweep | None = None
    if not mistake(DATA_SETS, data_sets):
        sweep = presets.dimension_sweep(experiment, [d for d in DIMENSIONS if d <= max_dimension], int(data_sets or 1))
    sweep_panel.panel(panel.key("sweep"), "Gap against dimension", sweep, lambda result: _draw_sweep(panel, result))


def _draw_sweep(panel: Panel, result: SweepResult) -> None:
    """Draw the results of a sweep: the curves, and the laws of their growth."""
    figure = sweep_figures.against(result, "Strategies of each player", symbol="d")
    chart = Chart(
        figure,
        "Duality gap against the number of strategies",
        "Duality gap against the number of strategies, one line per method; crossovers are marked",
        "n, budget and rounds as set. Median and 10-90 % band of all runs on all data sets. Slopes are those of log "
        "gap against log d, with 95 % intervals over data sets and runs; marks show where curves cross, bars from the "
        "least to the largest value over the data sets. **Not private**: the gap reads the data, which are public.",
        "not private",
    )
    charts.show(chart, panel.key("chart_sweep"))
    sweep_panel.laws(result, "d")


def _accounting(panel: Panel, view: PlanView, delta: float) -> None:
    st.markdown(texts.ACCOUNTING)
    label = next((label for label, plan in guarantee.private(view.plans).items() if planning.ranges(plan)), None)
    if label is None:
        st.info("Choose a method that draws vertices.")
        return
    labels = [name for name, plan in guarantee.private(view.plans).items() if len(plan.events) > 0]
    with st.columns([1, 2])[0]:
        label = panel.named("accounting_of", "Method", labels, "Whose plan is looked at.", label)
    left, right = st.columns(2, gap="medium")
    with left:
        caption = "The same draws, read by different accountants; the lowest one holds."
        chart = plan_figures.accountant_curves(view.plans[label], delta, "round of one method", caption)
        charts.show(chart, panel.key("chart_accountants"))
    with right:
        _paper_step(panel, view)
    _positions(panel, view)


def _positions(panel: Panel, view: PlanView) -> None:
    """Draw the cost of rows by their position: in a single pass, rows that are read early pay in more draws."""
    for arm in view.experiment.arms:
        method, plan = arm.algorithm, view.plans[arm.label]
        if isinstance(method, VertexSampling) and method.batching == "single" and plan.private:
            charts.show(figures.rho_by_position(plan, arm.label), panel.key("chart_positions"))
            return


def _paper_step(panel: Panel, view: PlanView) -> None:
    """Draw the true cost of the paper's step size."""
    budget = view.experiment.budget
    facts = facts_of(view)
    if not isinstance(budget, ApproximateDP) or not (facts.oscillation_x and facts.oscillation_y):
        st.info("The paper states its composition for (ε, δ) and two players who need data.")
        return
    paper = sampling(view).replaced(accounting="paper", batching="single", parameters="own", relative_step=1.0)
    with in_place():
        plan = paper.plan(facts, budget)
        caption = (
            f"Single pass, T = {plan.iterations:,}, the paper's step τ = {short(plan.resolved['step_size_x'])} at δ = "
            f"{short(budget.delta)}."
        )
        charts.show(figures.accounting_gain(bounds.paper_costs(plan), caption), panel.key("chart_gain"))
