"""The budget between the two players: a split of one's own, and at once what it is worth."""

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


def show(panel: Panel, shown: PlanView) -> None:
    """The split as a slider and a table, and what it is worth beside the even and the best one."""
    told = {arm.label: bounds.compare(arm.algorithm, shown.plans[arm.label]) for arm in shown.experiment.arms}
    found = {label: one for label, one in told.items() if one is not None}
    own = next((found[arm.label].share for arm in shown.experiment.arms if _is_own(shown, arm.label, found)), None)
    left, right = st.columns([7, 5], gap="medium")
    with right:
        st.caption(texts.PLAYERS if found else f"{texts.PLAYERS} None of the methods chosen has a split.")
        if found:
            number_table.starts(panel, STARTS)
        if own is not None:
            panel.again(SHARE_X, own)
            with st.expander("As a table"):
                number_table.split(panel, SHARE_X, own, NAMES)
        elif found:
            st.markdown(texts.SPLIT_TAKEN)
    with left:
        _chart(panel, shown)
    _worth(found)


def _is_own(shown: PlanView, label: str, found: Mapping[str, bounds.Compared]) -> bool:
    method = next(arm.algorithm for arm in shown.experiment.arms if arm.label == label)
    return label in found and isinstance(method, bounds.Split) and method.split == "own"


def _worth(found: Mapping[str, bounds.Compared]) -> None:
    if not found:
        return
    show_table(
        [
            {
                "Method": label,
                "Yours": short(one.yours),
                "Even": short(one.even),
                "Best": short(one.best),
                "Best share of x": short(one.best_share, 2),
                **{f"Player {name}": f"{'σ' if one.noisy else 'τ'} = {short(value)}" for name, value in _each(one)},
            }
            for label, one in found.items()
        ],
        help=texts.COLUMNS["players"],
        alt="Of every method: the bound with your split, with the even one and with the best one; what each player has",
    )
    st.caption(f"{texts.BOUNDS_ARE_LOOSE} {SETTINGS_ONLY}")


def _each(one: bounds.Compared) -> list[tuple[str, float]]:
    return list(zip("xy", one.players, strict=True))


def _chart(panel: Panel, shown: PlanView) -> None:
    facts, budget, method = facts_of(shown), shown.experiment.budget, sampling(shown)
    draws, rounds = method.each_draws, min(method.iterations, facts.n)
    drawn, chosen = planning.Sampling(draws, batching=method.batching), method.shares(facts, draws, budget.pure)[0]
    chart = choice_figures.split(facts, budget, rounds, sampling=drawn, chosen=chosen)
    charts.show(chart, panel.key("chart_split"))
