"""Tabs of the plan of the second-order methods: the budget between gradients and Hessians, with a split that the user
sets and its bound; accounting; and the paper's tables, filled in.
"""

from collections.abc import Callable

import streamlit as st

from dpviz.experiments.plan import Plan
from dpviz.families.second_order import advice, comparison, figures, presets, texts
from dpviz.families.second_order.advice import Compared
from dpviz.families.second_order.comparison import EPSILONS, TABLES, Mode, Tolerances
from dpviz.families.second_order.methods.algorithms import EVEN, NonconvexMethod, ShortStep
from dpviz.families.second_order.methods.trust_region import LineSearch
from dpviz.numbers import short, short_up
from dpviz.plots import plan_figures
from dpviz.sweeps.sweep import Sweep
from dpviz.sweeps.sweep_result import SweepResult
from dpviz.ui import charts, number_table
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import guarantee
from dpviz.ui.experiment import sweep as sweep_panel
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.explain import SETTINGS_ONLY
from dpviz.ui.markdown import show_table

WIDEST = 145  # pixels, of “✓ green in 20 steps”
TARGETS: dict[str, Tolerances] = {"loose": "loose", "tight": "tight"}
TARGET_TITLES = {"loose": "Loose: α = 0.06", "tight": "Tight: α = 0.03"}
MODES: dict[str, Mode] = {"honest": "honest", "published": "published"}
MODE_TITLES = {"honest": "Honest", "published": "As published"}


def tabs(panel: Panel, view: PlanView, delta: float) -> dict[str, Callable[[], None]]:
    """Return the functions that draw the tabs, by title."""
    return {
        "Where the budget goes": lambda: _split(panel, view),
        "Accounting": lambda: _accounting(panel, view, delta),
        "The paper's tables": lambda: _tables(panel),
    }


def _accounting(panel: Panel, view: PlanView, delta: float) -> None:
    """Draw ε of one method's plan by every accountant."""
    with st.columns([1, 2])[0]:
        label = panel.named("accounting_of", "Method", guarantee.private(view.plans), "Whose plan is looked at.")
    caption = "The most that a run can have spent by each step, read by different accountants."
    chart = plan_figures.accountant_curves(view.plans[label], delta, "step at most", caption)
    charts.show(chart, panel.key("chart_accountants"))


def _tables(panel: Panel) -> None:
    """Draw both tables of the paper next to runs of the same methods, targets and budgets."""
    with st.container(horizontal=True, gap="medium"):
        tolerances = TARGETS[
            panel.choice("table", "Targets", TARGET_TITLES, "loose", "Which of the paper's two tables.")
        ]
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
        _draw_table(tolerances, sweep, None, lights)
    sweep_panel.panel(key, "The paper's table", sweep, lambda result: _draw_table(tolerances, sweep, result, lights))


def _draw_table(tolerances: Tolerances, sweep: Sweep, result: SweepResult | None, lights: comparison.Lights) -> None:
    for epsilon, value in zip(EPSILONS, sweep.values, strict=True):
        st.markdown(f"**ε = {short(epsilon)}**")
        show_table(
            comparison.rows(TABLES[tolerances], epsilon, comparison.ends(result, value), lights.get(value, {})),
            placeholder="–",
            column_config={"Before": st.column_config.Column(width=WIDEST)},
            alt=f"At ε = {short(epsilon)}: final loss, who finished, and relative run time, in the paper and here",
        )
    st.caption(texts.TABLES_CAPTION)


(HESSIAN_SHARE,) = (control for control in ShortStep.controls() if control.name == "hessian_share")
NAMES = ("Hessians", "Gradients")


def _split(panel: Panel, view: PlanView) -> None:
    """Draw the split as a slider and a table, and its waiting time next to those of the even and the best splits."""
    all_comparisons = {label: advice.compare(label, _method(view, label), plan) for label, plan in view.plans.items()}
    comparisons = {label: comparison for label, comparison in all_comparisons.items() if comparison is not None}
    if not comparisons:
        st.info(texts.NO_SPLIT)
        return
    left, right = st.columns([7, 5], gap="medium")
    with right:
        label = next(iter(comparisons))
        if len(comparisons) > 1:
            label = panel.named("split_of", "Method", comparisons, "Whose plan is looked at.")
        _controls(panel, _method(view, label), comparisons[label])
        _search_caption(_method(view, label), view.plans[label])
    with left:
        charts.show(figures.by_share(comparisons[label]), panel.key("chart_split"))
    _split_table(comparisons[label])


def _method(view: PlanView, label: str) -> NonconvexMethod:
    method = next(arm.algorithm for arm in view.experiment.arms if arm.label == label)
    assert isinstance(method, NonconvexMethod)
    return method


def _controls(panel: Panel, method: NonconvexMethod, compared: Compared) -> None:
    st.caption(texts.SPLIT)
    if isinstance(method, ShortStep) and method.split == "decrease":
        st.markdown(texts.SPLIT_BY_DECREASE)
        return
    starts = {"Even": EVEN} | {
        name: round(compared.splits[name].share, 2)
        for name in (advice.SOONEST, advice.PROVEN)
        if name in compared.splits
    }
    number_table.starts(panel, {name: {HESSIAN_SHARE.name: share} for name, share in starts.items()})
    share = float(getattr(method, HESSIAN_SHARE.name))
    panel.again(HESSIAN_SHARE, share)
    with st.expander("As a table"):
        number_table.split(panel, HESSIAN_SHARE, share, NAMES)


def _search_caption(method: NonconvexMethod, plan: Plan) -> None:
    if isinstance(method, LineSearch):
        st.caption(
            f"The line search has {short(100 * method.searching(True), 2)} % of an iteration beforehand. Its noise is "
            f"{short(plan.resolved['search_blindness'])} times what it tests. Set its share under “Line search”."
        )


def _split_table(compared: Compared) -> None:
    rows = compared.rows
    show_table(
        [
            {
                "Split": name,
                "Share": short(split.share, 2),
                "Gradient noise": short(split.stopping.gradient_noise),
                "Hessian noise": short(split.stopping.hessian_noise),
                "Can it stop?": texts.stops(split.stopping, compared.assumed),
                "W": short(split.stopping.waiting_time),
                "Rows until W ≤ 2": None if rows is None else short_up(rows * split.stopping.recognised_at),
                "Rows, proven": short_up(rows * split.needed) if rows and split.needed is not None else None,
            }
            for name, split in compared.splits.items()
        ],
        placeholder="–",
        help=texts.COLUMNS["split"],
        alt="Of each split: share of the Hessians, both noises, waiting time, rows until W ≤ 2 and until proven",
    )
    st.caption(f"{texts.SOONEST} {SETTINGS_ONLY}")
