"""A closer look at the plan of a game; each tab is computed only while it is open."""

from collections.abc import Callable

import streamlit as st

from dpviz.families.mirror_descent import VertexSampling, bounds, figures, planning, presets
from dpviz.numbers import short
from dpviz.plots import plan_figures, sweep_figures
from dpviz.privacy.budgets import ApproximateDP
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.quadratic_games import QuadraticGame
from dpviz.specification import Control
from dpviz.sweeps.sweep import Sweep
from dpviz.sweeps.sweep_result import SweepResult
from dpviz.ui import charts
from dpviz.ui.controls import Panel, in_place, mistake
from dpviz.ui.experiment import guarantee
from dpviz.ui.experiment import sweep as sweep_panel
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.explain import SETTINGS_ONLY
from dpviz.ui.mirror_descent import bias, choices
from dpviz.ui.mirror_descent.plan import facts_of

HEIGHT = 380
DATA_SETS = Control(
    "sweep_data_sets",
    "Data sets",
    "Each is generated from a seed of its own, the next ones after the data seed. One alone shows no spread.",
    5,
    int,
    1,
    20,
    symbol="S",
)
LONGEST = {"100": "up to 100", "300": "up to 300", "1000": "up to 1,000", "3000": "up to 3,000"}
DIMENSIONS = (10, 30, 100, 300, 1000, 3000)


def looks(panel: Panel, shown: PlanView, delta: float) -> dict[str, Callable[[], None]]:
    """The closer looks, by the title of their tab."""
    return {
        "Gap against dimension": lambda: _dimension(panel, shown),
        "What accounting saves": lambda: _accounting(panel, shown, delta),
        "Where the budget goes": lambda: choices.budget_split(panel, shown),
        "Rows for a target": lambda: choices.rows_for_gap(panel, shown),
        "Bias of few draws": lambda: bias.show(panel, shown),
        "The paper's bound": lambda: choices.paper_bound(panel, shown),
        "The paper's table": lambda: choices.table(shown),
    }


def _dimension(panel: Panel, shown: PlanView) -> None:
    """The family's headline: the gap against the number of strategies, every chosen method."""
    st.markdown(
        "How does the gap grow with the number of strategies d, at the same rows, budget and settings? Vertex sampling "
        "pays for ln d, Euclidean noise for d. The sweep runs on generated data and streams."
    )
    experiment = shown.experiment
    if not isinstance(experiment.problem, MatrixGame | QuadraticGame):
        st.info("Choose the matrix game or the quadratic game: their number of strategies can be varied.")
        return
    left, right, _ = st.columns(3, vertical_alignment="bottom")
    with left:
        longest = int(panel.choice("sweep_longest", "Strategies", LONGEST, "1000", "The largest number of strategies."))
    with right:
        data_sets = panel.number(DATA_SETS, DATA_SETS.name)
    sweep: Sweep | None = None
    if not mistake(DATA_SETS, data_sets):
        sweep = presets.dimension_sweep(experiment, [d for d in DIMENSIONS if d <= longest], int(data_sets or 1))
    sweep_panel.panel(panel.key("sweep"), "Gap against dimension", sweep, lambda result: _swept(panel, result))


def _swept(panel: Panel, result: SweepResult) -> None:
    """What a sweep has found: the curves, and the laws of their growth."""
    charts.show(
        sweep_figures.against(result, "Strategies of each player", symbol="d"),
        panel.key("chart_sweep"),
        "Duality gap against the number of strategies",
        "Duality gap against the number of strategies, one line per method; crossovers are marked",
        "n, budget and rounds as set. Median and 10-90 % band of all runs on all data sets. Slopes are those of log "
        "gap against log d, with 95 % intervals over data sets and runs; marks show where curves cross, bars from the "
        "least to the largest value over the data sets. **Not private**: the gap reads the data, which are public.",
        "not private",
    )
    sweep_panel.laws(result, "d")


def _accounting(panel: Panel, shown: PlanView, delta: float) -> None:
    st.markdown(
        "A drawn vertex may tell little more than its bounded range η. The paper counts it as an η-DP release and adds "
        "up by advanced composition; counted exactly, its steps cost a fraction of the budget."
    )
    label = next((label for label, plan in guarantee.private(shown.plans).items() if planning.ranges(plan)), None)
    if label is None:
        st.info("Choose a method that draws vertices.")
        return
    chosen = {name: name for name, plan in guarantee.private(shown.plans).items() if len(plan.events) > 0}
    with st.columns([1, 2])[0]:
        label = panel.choice("accounting_of", "Method", chosen, label, "Whose plan is looked at.")
    left, right = st.columns(2, gap="medium")
    with left:
        charts.show(
            plan_figures.accountant_curves(shown.plans[label], delta, height=HEIGHT),
            panel.key("chart_accountants"),
            f"ε at δ = {short(delta)}, by every accountant",
            "ε spent after each round of one method, one line per accountant; the lowest is the tightest",
            f"The same draws, read by different accountants; the lowest one holds. {SETTINGS_ONLY}",
        )
    with right:
        _paper_step(panel, shown)
    _positions(panel, shown)


def _positions(panel: Panel, shown: PlanView) -> None:
    """In a single pass, rows that are read early pay in more draws."""
    label = next(
        (
            arm.label
            for arm in shown.experiment.arms
            if isinstance(arm.algorithm, VertexSampling)
            and arm.algorithm.batching == "single"
            and shown.plans[arm.label].private
        ),
        None,
    )
    if label is None:
        return
    charts.show(
        figures.rho_by_position(shown.plans[label], height=HEIGHT),
        panel.key("chart_positions"),
        f"Who pays how much: {label}",
        "ρ of a row against its position in the single pass",
        "A row only pays in the draws after its own block; the guarantee is that of the first block. An individual "
        f"reading, not the guarantee of the run. {SETTINGS_ONLY}",
    )


def _paper_step(panel: Panel, shown: PlanView) -> None:
    """What the paper's step size really costs."""
    budget = shown.experiment.budget
    facts = facts_of(shown)
    if not isinstance(budget, ApproximateDP) or not (facts.oscillation_x and facts.oscillation_y):
        st.info("The paper states its composition for (ε, δ) and two players who need data.")
        return
    sampling = (arm.algorithm for arm in shown.experiment.arms if isinstance(arm.algorithm, VertexSampling))
    method = next(sampling, VertexSampling())
    paper = method.replaced(accounting="paper", batching="single", parameters="own", relative_step=1.0)
    with in_place():
        plan = paper.plan(facts, budget)
        charts.show(
            figures.accounting_gain(bounds.paper_costs(plan), height=HEIGHT),
            panel.key("chart_gain"),
            "What the paper's step really costs",
            "ε of the paper's step size by four accountings",
            f"Single pass, T = {plan.iterations:,}, the paper's step τ = {short(plan.resolved['step_size_x'])} at δ = "
            f"{short(budget.delta)}. What is left over could have bought larger steps. {SETTINGS_ONLY}",
        )
