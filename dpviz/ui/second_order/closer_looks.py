"""Tabs of the plan of the second-order methods.

They show the split of the budget between gradients and Hessians, which the user can set; accounting; and the paper's
tables next to results of runs here.
"""

from collections.abc import Callable

import streamlit as st

from dpviz.families.second_order import advice, comparison, figures, presets, texts
from dpviz.families.second_order.advice import Forecast, SplitComparison
from dpviz.families.second_order.comparison import EPSILONS, TABLES, Mode, Tolerances
from dpviz.families.second_order.methods.algorithms import EVEN, NonconvexMethod, ShortStep
from dpviz.families.second_order.methods.trust_region import LineSearch
from dpviz.numbers import short, short_up
from dpviz.plots import plan_figures
from dpviz.sweeps.sweep import Sweep
from dpviz.sweeps.sweep_result import SweepResult
from dpviz.ui import charts, splits
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import guarantee
from dpviz.ui.experiment import sweep as sweep_panel
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.experiment.run import newest_run
from dpviz.ui.explain import SETTINGS_ONLY
from dpviz.ui.markdown import show_table

WIDEST = 145  # pixels: width of the longest forecast in the column "Before", “✓ green in 20 steps”
# Which of the paper's tables is shown, by its tolerances, and with which noise, by value of the menu. The mappings from
# a text to itself give the type checker the literal types.
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
    """Draw ε at δ of one method's plan against the number of steps, one curve for each accountant."""
    with st.columns([1, 2])[0]:
        label = panel.one_of("accounting_of", "Method", guarantee.only_private(view.plans), "Whose plan is looked at.")
    caption = "The most that a run can have spent by each step, read by different accountants."
    chart = plan_figures.accountant_curves(view.plans[label], delta, step_name="step at most", remark=caption)
    charts.show(chart, panel.key("chart_accountants"))


def _tables(panel: Panel) -> None:
    """Draw one of the paper's two tables, at each of its budgets, next to runs of the same methods at the same targets.

    The runs are those of a sweep that the visitor starts; before, the table has the forecasts from the plans.
    """
    with st.container(horizontal=True, gap="medium"):
        target = panel.choice("table", "Targets", TARGET_TITLES, "loose", "Which of the paper's two tables.")
        noise = panel.choice("table_mode", "Noise", MODE_TITLES, "honest", "As it must be, or as the paper has it.")
    tolerances, mode = TARGETS[target], MODES[noise]
    st.markdown(f"{texts.TABLES[mode]} {texts.TABLES_DATA}")
    sweep = presets.table_sweep(tolerances, mode)
    key = panel.key(f"table_{tolerances}_{mode}")
    forecasts: dict[float, dict[str, Forecast]] = {}  # the forecast of every method, by value of the sweep and by label
    for point in sweep_panel.planned(sweep.to_json()):
        if point.experiment is not None:  # None for a value with which no method has a plan
            phases_by_label = advice.forecasts(point.experiment, point.plans)
            forecasts[point.value] = {label: advice.stopping_phase(phases) for label, phases in phases_by_label.items()}
    run = newest_run(key)
    if run is None or run.job.result is None or run.job.result.metric is None:
        _draw_table(tolerances, sweep, result=None, forecasts=forecasts)  # `show_sweep` draws it only with results
    sweep_panel.show_sweep(
        key, "The paper's table", sweep, lambda result: _draw_table(tolerances, sweep, result, forecasts)
    )


def _draw_table(
    tolerances: Tolerances, sweep: Sweep, result: SweepResult | None, forecasts: comparison.ForecastsByValue
) -> None:
    """Draw a table of the paper, one part for each of its budgets ε, next to the results of a sweep so far.

    forecasts : the forecasts, by value of the sweep and by method.
    """
    for epsilon, value in zip(EPSILONS, sweep.values, strict=True):
        st.markdown(f"**ε = {short(epsilon)}**")
        show_table(
            comparison.rows(TABLES[tolerances], epsilon, comparison.runs_at(result, value), forecasts.get(value, {})),
            column_config={"Before": st.column_config.Column(width=WIDEST)},
            alt=f"At ε = {short(epsilon)}: final loss, who finished, and relative run time, in the paper and here",
        )
    st.caption(texts.TABLES_CAPTION)


(HESSIAN_SHARE,) = (control for control in ShortStep.controls() if control.name == "hessian_share")
NAMES = ("Hessians", "Gradients")  # the two parts of a split, in the order of its table


def _split(panel: Panel, view: PlanView) -> None:
    """Draw the split of the budget between Hessians and gradients of one method, with a control, and compare it.

    The chart and the table compare it with the even split and the best ones, in noise, waiting time W and rows needed.
    """
    all_comparisons = {label: advice.compare(label, _method(view, label), plan) for label, plan in view.plans.items()}
    comparisons = {label: comparison for label, comparison in all_comparisons.items() if comparison is not None}
    if not comparisons:
        st.info(texts.NO_SPLIT)
        return
    left, right = st.columns([7, 5], gap="medium")
    with right:
        label, *others = comparisons
        if others:
            label = panel.one_of("split_of", "Method", comparisons, help="Whose plan is looked at.")
        method, compared = _method(view, label), comparisons[label]
        _controls(panel, method, compared)
        if isinstance(method, LineSearch):
            # Of an iteration with a Hessian: a third by default. Gradient and Hessian split the rest.
            share = short(100 * (method.search_share or 1 / 3), 2)
            blindness = short(view.plans[label].resolved["search_blindness"])
            st.caption(
                f"The line search has {share} % of an iteration beforehand. Its noise is {blindness} times what it "
                "tests. Set its share under “Line search”."
            )
    with left:
        charts.show(figures.by_share(compared), panel.key("chart_split"))
    rows = compared.rows  # n, of which the numbers needed are multiples; None where noise does not fall with 1/n
    show_table(
        [
            {
                "Split": name,
                "Share": short(split.share, 2),
                "Gradient noise": short(split.stopping.gradient_noise),
                "Hessian noise": short(split.stopping.hessian_noise),
                "Can it stop?": texts.stops(split.stopping, compared.assumed),
                "W": short(split.stopping.waiting_time),
                "Rows until W ≤ 2": None if rows is None else short_up(rows * split.stopping.factor_until_recognised),
                "Rows, proven": short_up(rows * split.row_factor) if rows and split.row_factor is not None else None,
            }
            for name, split in compared.splits.items()
        ],
        help=texts.COLUMNS["split"],
        alt="Of each split: share of the Hessians, both noises, waiting time, rows until W ≤ 2 and until proven",
    )
    st.caption(f"{texts.SOONEST} {SETTINGS_ONLY}")


def _method(view: PlanView, label: str) -> NonconvexMethod:
    method = next(arm.algorithm for arm in view.experiment.arms if arm.label == label)
    assert isinstance(method, NonconvexMethod)
    return method


def _controls(panel: Panel, method: NonconvexMethod, compared: SplitComparison) -> None:
    """Draw the controls of the share of the Hessians: buttons with good shares, a slider, and a table.

    A method that splits the budget by the decrease that it promises has no such share: it gets a text instead.
    """
    st.caption(texts.SPLIT)
    if isinstance(method, ShortStep) and method.split == "decrease":
        st.markdown(texts.SPLIT_BY_DECREASE)
        return
    share_by_label = {"Even": EVEN}  # of the buttons
    for name in (advice.SOONEST, advice.PROVEN):
        if name in compared.splits:
            share_by_label[name] = round(compared.splits[name].share, 2)
    splits.buttons(panel, {name: {HESSIAN_SHARE.name: share} for name, share in share_by_label.items()})
    share = float(getattr(method, HESSIAN_SHARE.name))
    panel.second_slider(HESSIAN_SHARE, share)
    with st.expander("As a table"):
        splits.inputs(panel, HESSIAN_SHARE, share, NAMES)
