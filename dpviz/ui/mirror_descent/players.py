"""The budget between the two players: a split that the user sets, and its bound."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dpviz.families.mirror_descent import bounds, choice_figures, planning, texts
from dpviz.families.mirror_descent.methods.algorithms import VertexSampling
from dpviz.numbers import short
from dpviz.ui import charts, number_table
from dpviz.ui.controls import Panel
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.explain import SETTINGS_ONLY
from dpviz.ui.markdown import show_table
from dpviz.ui.mirror_descent.plan import facts_of, sampling

(SHARE_X,) = (control for control in VertexSampling.controls() if control.name == "share_x")
STARTS: Mapping[str, Mapping[str, Any]] = {
    "Even": {"split": "own", SHARE_X.name: planning.EVEN},
    "Best by the bound": {"split": "bound"},
}
NAMES = ("x, who minimises", "y, who maximises")


def show(panel: Panel, view: PlanView) -> None:
    """Draw the split as a slider and a table, and its bound next to those of the even and the best split."""
    all_comparisons = {arm.label: bounds.compare(arm.algorithm, view.plans[arm.label]) for arm in view.experiment.arms}
    comparisons = {label: comparison for label, comparison in all_comparisons.items() if comparison is not None}
    user_share = next(
        (comparisons[arm.label].share for arm in view.experiment.arms if _has_user_split(view, arm.label, comparisons)),
        None,
    )
    left, right = st.columns([7, 5], gap="medium")
    with right:
        st.caption(texts.PLAYERS if comparisons else f"{texts.PLAYERS} None of the methods chosen has a split.")
        if comparisons:
            number_table.starts(panel, STARTS)
        if user_share is not None:
            panel.again(SHARE_X, user_share)
            with st.expander("As a table"):
                number_table.split(panel, SHARE_X, user_share, NAMES)
        elif comparisons:
            st.markdown(texts.SPLIT_TAKEN)
    with left:
        _chart(panel, view)
    _table(comparisons)


def _has_user_split(view: PlanView, label: str, comparisons: Mapping[str, bounds.Compared]) -> bool:
    method = next(arm.algorithm for arm in view.experiment.arms if arm.label == label)
    return label in comparisons and isinstance(method, bounds.Split) and method.split == "own"


def _table(comparisons: Mapping[str, bounds.Compared]) -> None:
    if not comparisons:
        return
    show_table(
        [
            {
                "Method": label,
                "Yours": short(comparison.yours),
                "Even": short(comparison.even),
                "Best": short(comparison.best),
                "Best share of x": short(comparison.best_share, 2),
                **{
                    f"Player {name}": f"{'σ' if comparison.noisy else 'τ'} = {short(value)}"
                    for name, value in zip("xy", comparison.players, strict=True)
                },
            }
            for label, comparison in comparisons.items()
        ],
        help=texts.COLUMNS["players"],
        alt="Of every method: the bound with your split, with the even one and with the best one; what each player has",
    )
    st.caption(f"{texts.BOUNDS_ARE_LOOSE} {SETTINGS_ONLY}")


def _chart(panel: Panel, view: PlanView) -> None:
    facts, budget, method = facts_of(view), view.experiment.budget, sampling(view)
    draws, rounds = method.each_draws, min(method.iterations, facts.n)
    settings = planning.Sampling(draws, batching=method.batching)
    share = method.shares(facts, draws, budget.pure)[0]
    chart = choice_figures.split(facts, budget, rounds, sampling=settings, chosen=share)
    charts.show(chart, panel.key("chart_split"))
