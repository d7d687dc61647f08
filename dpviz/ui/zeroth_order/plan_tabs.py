"""Closer looks at the plan of the zeroth-order methods: running sums, rows needed, and readings of the budget."""

from collections.abc import Callable

import streamlit as st

from dpviz.families.zeroth_order import figures, texts, theory
from dpviz.families.zeroth_order.advice import Forecast, reduced_of, setting_of
from dpviz.numbers import short
from dpviz.specification import Control
from dpviz.ui import charts, explain
from dpviz.ui.controls import Panel, in_place, mistake
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.explain import SETTINGS_ONLY
from dpviz.ui.markdown import show_table
from dpviz.ui.zeroth_order import plan

ACCURACY = Control(
    "accuracy", "Stationarity", texts.ACCURACY_HELP, 0.3, float, 0.01, 1.0, symbol="ε", unit="L", scale="log"
)


def looks(panel: Panel, shown: PlanView, delta: float) -> dict[str, Callable[[], None]]:
    """The closer looks, by the title of their tab."""
    return {
        "Advice": lambda: plan.reasons(shown),
        "Running sums": lambda: _sums(panel, shown),
        "Rows needed": lambda: _rows(panel, shown),
        "Accounting": lambda: _readings(panel, shown, delta),
    }


# --------------------------------------------------------------------------------------------------------- running sums


def _sums(panel: Panel, shown: PlanView) -> None:
    """The tree of an epoch; and running sums beside fresh estimates, in noise, bound and runs."""
    method, found = reduced_of(shown.experiment), shown.theory
    with in_place():
        layout = method.layout(found.facts)
        st.markdown(texts.TREE)
        _tree(panel, shown, layout.length)
        where = layout.length, method.sums, method.follow_moves
        charts.beside(
            (figures.noise_ratio(*where), panel.key("chart_noise_ratio")),
            (figures.crossover(*where), panel.key("chart_crossover")),
        )
        left, right = st.columns(2, gap="medium")
        with left:
            _measured(panel, found)
        with right:
            st.subheader(f"Every way to add up {layout.length:,} steps", anchor=False)
            _mechanisms(layout.length)


def _measured(panel: Panel, found: Forecast) -> None:
    """What runs came to, where something of the kind was measured."""
    expected = None if found.advice is None else found.advice.expected
    if expected is None:
        st.caption(texts.UNMEASURED)
        return
    charts.show(figures.measured_ends(expected), panel.key("chart_measured"))


@st.fragment
def _tree(panel: Panel, shown: PlanView, length: int) -> None:
    """Choose a row and a step; the nodes that the row enters, and those that the step sums, light up."""
    found: Forecast = shown.theory
    layout = reduced_of(shown.experiment).layout(found.facts)
    left, right = st.columns(2, gap="medium")
    row = left.slider(
        "Row, in the public order",
        1,
        found.facts.n,
        min(found.facts.n, layout.first + 3 * layout.batch // 2),
        key=panel.key(f"tree_row_{found.facts.n}_{length}"),
        help="Where the row stands in the random order in which rows are dealt out.",
    )
    step = right.slider(
        "Step t", 1, length, length - 1, key=panel.key(f"tree_step_{length}"), help="Whose estimate is summed up."
    )
    charts.show(figures.tree(layout, row, step), panel.key("chart_tree"))


def _mechanisms(length: int) -> None:
    rows = []
    for name, (title, _) in figures.SUMS.items():
        variance = theory.factorisation(name, length).rms_error() ** 2
        rows.append({"Sums": title, "Mean variance": float(variance.mean()), "Largest": float(variance.max())})
    show_table(rows, style=explain.readable, alt="Of every way to add up: mean and largest variance of the noise")
    st.caption(f"{texts.MECHANISMS} {SETTINGS_ONLY}")


# ----------------------------------------------------------------------------------------------------------------- rows


def _rows(panel: Panel, shown: PlanView) -> None:
    """How many rows a stationary point takes, and from which budget on privacy is free."""
    found: Forecast = shown.theory
    if found.mu is None:
        st.info(texts.NOT_GAUSSIAN, icon=":material/block:")
        return
    with st.columns(2)[0]:
        share = panel.number(ACCURACY, ACCURACY.name)
    if mistake(ACCURACY, share) or share is None:
        return
    accuracy = share * found.facts.lipschitz
    needed, _ = figures.rows_needed(setting_of(found.facts, found.mu), accuracy)
    free = figures.free_privacy(found.facts.d, found.facts.lipschitz, accuracy, found.mu)
    charts.beside((needed, panel.key("chart_rows_0")), (free, panel.key("chart_rows_1")))
    st.caption(f"{texts.ROWS}{f' {texts.GUESS}' * found.facts.guessed}")


# ------------------------------------------------------------------------------------------------------------- readings


def _readings(panel: Panel, shown: PlanView, delta: float) -> None:
    """ε of the budget at δ: exactly, and as others read it."""
    found: Forecast = shown.theory
    if found.mu is None:
        st.info(texts.NOT_GAUSSIAN, icon=":material/block:")
        return
    left, right = st.columns(2, gap="medium")
    with left:
        charts.show(figures.readings(found.mu, delta), panel.key("chart_readings"))
    with right:
        rows = [{"Reading": name, "ε": float(read(found.mu, delta))} for name, read in figures.READINGS.items()]
        st.subheader(f"At δ = {short(delta)}", anchor=False)
        show_table(rows, style=explain.readable, alt="ε of the budget at δ, read in three ways")
        st.caption(texts.renyi(found.mu))
