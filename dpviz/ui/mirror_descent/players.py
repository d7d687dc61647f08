"""The budget between the two players: a split of one's own, and at once what it is worth."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dpviz.families.mirror_descent import choice_figures, planning, split, theory
from dpviz.families.mirror_descent.methods.algorithms import VertexSampling
from dpviz.numbers import short
from dpviz.ui import charts
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import own_split
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.explain import SETTINGS_ONLY
from dpviz.ui.mirror_descent.plan import facts_of, sampling
from dpviz.ui.tables import show_table

HEIGHT = 340
(SHARE_X,) = (control for control in VertexSampling.controls() if control.name == "share_x")
STARTS: Mapping[str, Mapping[str, Any]] = {
    "Even": {"split": "own", SHARE_X.name: planning.EVEN},
    "Best by the bound": {"split": "bound"},
}
HOW = "Both players' releases are about the same rows, so both are paid for. Any split keeps the guarantee."
TAKEN = "Every method takes the split with its own smallest bound now."
NAMES = ("x, who minimises", "y, who maximises")
COLUMNS = {
    "Yours": "Part of the bound on the gap that the split decides. Of drawn vertices Σ ln d/(τ T), of noisy gradients "
    "what the noise adds at the best step size.",
    "Even": "The same if both players get half.",
    "Best": "The smallest that any split makes it.",
    "Best share of x": "In closed form; of drawn vertices under (ε, δ), as if these were a budget in ρ.",
    "Player x": "What your split leaves x: the longest step τ, or the noise σ on each coordinate.",
    "Player y": "What your split leaves y: the longest step τ, or the noise σ on each coordinate.",
}
READ = "Bounds hold for every data set and are loose: read the numbers of a method as ratios."


def show(panel: Panel, shown: PlanView) -> None:
    """The split as a slider and a table, and what it is worth beside the even and the best one."""
    told = {arm.label: split.compare(arm.algorithm, shown.plans[arm.label]) for arm in shown.experiment.arms}
    found = {label: one for label, one in told.items() if one is not None}
    own = next((found[arm.label].share for arm in shown.experiment.arms if _is_own(shown, arm.label, found)), None)
    left, right = st.columns([7, 5], gap="medium")
    with right:
        st.caption(HOW if found else f"{HOW} None of the methods chosen has a split.")
        if found:
            own_split.starts(panel, STARTS)
        if own is not None:
            panel.again(SHARE_X, own)
            with st.expander("As a table"):
                own_split.table(panel, SHARE_X, own, NAMES)
        elif found:
            st.markdown(TAKEN)
    with left:
        _chart(panel, shown)
    _worth(found)


def _is_own(shown: PlanView, label: str, found: Mapping[str, split.Compared]) -> bool:
    method = next(arm.algorithm for arm in shown.experiment.arms if arm.label == label)
    return label in found and isinstance(method, split.Split) and method.split == "own"


def _worth(found: Mapping[str, split.Compared]) -> None:
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
        column_config={name: st.column_config.TextColumn(help=help) for name, help in COLUMNS.items()},
        alt="Of every method: the bound with your split, with the even one and with the best one; what each player has",
    )
    st.caption(f"{READ} {SETTINGS_ONLY}")


def _each(one: split.Compared) -> list[tuple[str, float]]:
    return list(zip("xy", one.players, strict=True))


def _chart(panel: Panel, shown: PlanView) -> None:
    facts, budget, method = facts_of(shown), shown.experiment.budget, sampling(shown)
    draws = method.each_draws
    best = theory.optimal_shares(planning.players(facts, draws), budget.pure)[0]
    rounds = min(method.iterations, facts.n)
    figure = choice_figures.split(
        facts,
        budget,
        rounds,
        draws=draws,
        batching=method.batching,
        chosen=method.shares(facts, draws, budget.pure)[0],
        height=HEIGHT,
    )
    formula = "ln d osc" if budget.pure else "(ln d)^(2/3) (K osc²)^(1/3)"
    charts.show(
        figure,
        panel.key("chart_split"),
        "Between the players",
        "Part of the bound on the gap that the split decides, and the whole bound, against x's share of the budget",
        f"Vertex sampling, {rounds:,} rounds. Best split: φ = {best:.2f} for x. Its share grows with its number of "
        f"strategies and of draws and with the range of its gradients, as {formula}. {SETTINGS_ONLY}",
    )
