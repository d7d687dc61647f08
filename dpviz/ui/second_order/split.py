"""The budget between gradients and Hessians: a split of one's own, and at once what it is worth."""

import streamlit as st

from dpviz.experiments.plan import Plan
from dpviz.families.second_order import figures, shares, texts
from dpviz.families.second_order.methods.algorithms import EVEN, NonconvexMethod, ShortStep
from dpviz.families.second_order.methods.line_search import LineSearch
from dpviz.families.second_order.shares import Compared
from dpviz.numbers import rounded_up, short
from dpviz.ui import charts
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import own_split
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.explain import SETTINGS_ONLY
from dpviz.ui.tables import show_table

HEIGHT = 340
(HESSIAN_SHARE,) = (control for control in ShortStep.controls() if control.name == "hessian_share")
NOTHING = (
    "None of the methods chosen releases Hessians here, or none is private: gradients get all there is. The curvature "
    "test is left out where it cannot fail."
)
HOW = (
    "A run stops where a noisy gradient *and* a noisy Hessian pass. What one gets the other lacks. Any split keeps the "
    "guarantee, and costs no step."
)
DECREASE = "This method splits by the decrease that a step is sure of. Choose “Share as set” for a split of your own."
NAMES = ("Hessians", "Gradients")
COLUMNS = {
    "Share": "Of what an iteration spends on its gradient and its test of curvature, in ρ.",
    "Gradient noise": "s_g, standard deviation on each coordinate.",
    "Hessian noise": "s_H, of the entries on the diagonal.",
    "W": "Waiting time: steps at a flat place until both tests pass, on average.",
    "Rows until W ≤ 2": "n from which on a run waits two steps or less at a flat place.",
    "Rows, proven": "n from which on the theorem promises a solution with 95 % confidence, from constants none of "
    "which is assumed. It is very conservative.",
}


def show(panel: Panel, shown: PlanView) -> None:
    """The split as a slider and a table, and what it is worth beside the even and the best ones."""
    told = {arm.label: _compared(shown, arm.label) for arm in shown.experiment.arms}
    found = {label: one for label, one in told.items() if one is not None}
    if not found:
        st.info(NOTHING)
        return
    left, right = st.columns([7, 5], gap="medium")
    with right:
        label = next(iter(found))
        if len(found) > 1:
            options = {label: label for label in found}
            label = panel.choice("split_of", "Method", options, label, "Whose plan is looked at.")
        _controls(panel, _method(shown, label), found[label])
        _search(_method(shown, label), shown.plans[label])
    with left:
        charts.show(
            figures.by_share(found[label], height=HEIGHT),
            panel.key("chart_split"),
            "Between gradients and Hessians",
            "Times less noise until a method waits two steps and until it is proven, against the share of Hessians",
            f"{found[label].phase}. Below the line there is less noise than it takes. {SETTINGS_ONLY}",
        )
    _table(found[label])


def _compared(shown: PlanView, label: str) -> Compared | None:
    return shares.compare(label, _method(shown, label), shown.plans[label])


def _method(shown: PlanView, label: str) -> NonconvexMethod:
    method = next(arm.algorithm for arm in shown.experiment.arms if arm.label == label)
    assert isinstance(method, NonconvexMethod)
    return method


def _controls(panel: Panel, method: NonconvexMethod, found: Compared) -> None:
    st.caption(HOW)
    if isinstance(method, ShortStep) and method.split == "decrease":
        st.markdown(DECREASE)
        return
    starts = {"Even": EVEN} | {
        name: round(found.splits[name].share, 2) for name in (shares.SOONEST, shares.PROVEN) if name in found.splits
    }
    own_split.starts(panel, {name: {HESSIAN_SHARE.name: share} for name, share in starts.items()})
    share = float(getattr(method, HESSIAN_SHARE.name))
    panel.again(HESSIAN_SHARE, share)
    with st.expander("As a table"):
        own_split.table(panel, HESSIAN_SHARE, share, NAMES)


def _search(method: NonconvexMethod, plan: Plan) -> None:
    if isinstance(method, LineSearch):
        st.caption(
            f"The line search has {short(100 * method.searching(True), 2)} % of an iteration beforehand. Its noise is "
            f"{short(plan.resolved['search_blindness'])} times what it tests. Set its share under “Line search”."
        )


def _table(found: Compared) -> None:
    rows = found.rows
    show_table(
        [
            {
                "Split": name,
                "Share": short(split.share, 2),
                "Gradient noise": short(split.stopping.gradient_noise),
                "Hessian noise": short(split.stopping.hessian_noise),
                "Can it stop?": texts.stops(split.stopping, found.assumed),
                "W": short(split.stopping.waiting_time),
                "Rows until W ≤ 2": None if rows is None else short(rounded_up(rows * split.stopping.recognised_at)),
                "Rows, proven": short(rounded_up(rows * split.needed)) if rows and split.needed is not None else None,
            }
            for name, split in found.splits.items()
        ],
        placeholder="–",
        column_config={name: st.column_config.TextColumn(help=help) for name, help in COLUMNS.items()},
        alt="Of each split: share of the Hessians, both noises, waiting time, rows until W ≤ 2 and until proven",
    )
    st.caption(
        "Soonest W ≤ 2: with the fewest rows, or the most noise, that still let a run stop at once where it is flat. "
        f"Soonest proven: by the theorem, where it promises anything. {SETTINGS_ONLY}"
    )
