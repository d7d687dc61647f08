"""Closer looks at the plan of the second-order methods: accounting, and the paper's tables filled in."""

from collections.abc import Callable

import streamlit as st

from dpviz.families.second_order import advice, comparison, presets, texts
from dpviz.families.second_order.published import EPSILONS, TABLES, Mode, Tolerances
from dpviz.numbers import short
from dpviz.plots import plan_figures
from dpviz.sweeps.sweep import Sweep
from dpviz.sweeps.sweep_result import SweepResult
from dpviz.ui import charts
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import guarantee
from dpviz.ui.experiment import sweep as sweep_panel
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.explain import SETTINGS_ONLY
from dpviz.ui.second_order import split
from dpviz.ui.tables import show_table

HEIGHT = 380
WIDEST = 145  # pixels, of “✓ green in 20 steps”
TARGETS: dict[str, Tolerances] = {"loose": "loose", "tight": "tight"}
OFFERED = {"loose": "Loose: α = 0.06", "tight": "Tight: α = 0.03"}
MODES: dict[str, Mode] = {"honest": "honest", "published": "published"}
MODE_TITLES = {"honest": "Honest", "published": "As published"}


def looks(panel: Panel, shown: PlanView, delta: float) -> dict[str, Callable[[], None]]:
    """The closer looks, by the title of their tab."""
    return {
        "Where the budget goes": lambda: split.show(panel, shown),
        "Accounting": lambda: _accounting(panel, shown, delta),
        "The paper's tables": lambda: _tables(panel),
    }


def _accounting(panel: Panel, shown: PlanView, delta: float) -> None:
    """ε of one method's plan by every accountant."""
    plans = guarantee.private(shown.plans)
    with st.columns([1, 2])[0]:
        options = {label: label for label in plans}
        label = panel.choice("accounting_of", "Method", options, next(iter(plans)), "Whose plan is looked at.")
    charts.show(
        plan_figures.accountant_curves(shown.plans[label], delta, height=HEIGHT),
        panel.key("chart_accountants"),
        f"ε at δ = {short(delta)}, by every accountant",
        "ε spent after each step at most, one line per accountant; the lowest is the tightest",
        f"The most that a run can have spent by each step, read by different accountants. {SETTINGS_ONLY}",
    )


def _tables(panel: Panel) -> None:
    """Both tables of the paper, and the same methods, targets and budgets run here."""
    with st.container(horizontal=True, gap="medium"):
        tolerances = TARGETS[panel.choice("table", "Targets", OFFERED, "loose", "Which of the paper's two tables.")]
        mode = MODES[
            panel.choice("table_mode", "Noise", MODE_TITLES, "honest", "As it must be, or as the paper has it.")
        ]
    st.markdown(f"{texts.TABLES[mode]} {texts.TABLES_DATA}")
    sweep = presets.table(tolerances, mode)
    key = panel.key(f"table_{tolerances}_{mode}")
    lights = {
        point.value: {
            label: advice.best(phases) for label, phases in advice.forecasts(point.experiment, point.plans).items()
        }
        for point in sweep_panel.planned(sweep.to_json())
        if point.experiment is not None
    }
    run = sweep_panel.current(key)
    if run is None or run.job.result is None or run.job.result.metric is None:
        _draw(tolerances, sweep, None, lights)
    sweep_panel.panel(key, "The paper's table", sweep, lambda result: _draw(tolerances, sweep, result, lights))


def _draw(tolerances: Tolerances, sweep: Sweep, result: SweepResult | None, lights: comparison.Lights) -> None:
    for epsilon, value in zip(EPSILONS, sweep.values, strict=True):
        st.markdown(f"**ε = {short(epsilon)}**")
        show_table(
            comparison.rows(TABLES[tolerances], epsilon, comparison.ends(result, value), lights.get(value, {})),
            placeholder="–",
            column_config={"Before": st.column_config.Column(width=WIDEST)},
            alt=f"At ε = {short(epsilon)}: final loss, who finished, and relative run time, in the paper and here",
        )
    st.caption(texts.TABLES_CAPTION)
