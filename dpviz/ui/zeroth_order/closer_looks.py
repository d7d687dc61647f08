"""Tabs of the plan of the zeroth-order methods: running sums, rows needed, and readings of the budget."""

import math
from collections.abc import Callable

import streamlit as st

from dpviz.families.zeroth_order import figures, texts, theory
from dpviz.families.zeroth_order.advice import (
    Forecast,
    bound_constants,
    has_sums,
    noise_over_fresh,
    running_sums_method,
)
from dpviz.numbers import rounded_up, short, short_up
from dpviz.specification import Control
from dpviz.ui import charts, explain
from dpviz.ui.controls import Panel, draw_errors, input_error
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.explain import NOT_GAUSSIAN, SETTINGS_ONLY
from dpviz.ui.markdown import show_table

ACCURACY = Control(
    "accuracy", "Stationarity", texts.ACCURACY_HELP, default=0.3, type=float, low=0.01, high=1.0, unit="L", scale="log"
)


def tabs(panel: Panel, view: PlanView, delta: float) -> dict[str, Callable[[], None]]:
    """Return the functions that draw the tabs, by title."""
    return {
        "Advice": lambda: _reasons(view),
        "Running sums": lambda: _sums(panel, view),
        "Rows needed": lambda: _rows(panel, view),
        "Accounting": lambda: _readings(panel, view, delta),
    }


def _reasons(view: PlanView) -> None:
    """Draw the reason for the advised method, and a table of all options."""
    forecast: Forecast = view.theory
    advice = forecast.advice
    if advice is None:
        st.info(NOT_GAUSSIAN, icon=":material/block:")
        return
    st.markdown(advice.why)
    rows: list[dict[str, object]] = []  # nan is drawn as an empty cell
    # Options by where measured runs end, lowest first; those that were not measured last.
    for option in sorted(advice.options, key=lambda option: option.lowest.median if option.lowest else math.inf):
        length, epochs = option.length_and_epochs
        has_rows = math.isfinite(option.best.bound)  # inf where there are too few rows for an epoch of two steps
        step_noise, epoch_noise = option.noise if has_rows else (math.nan, math.nan)
        rows.append(
            {
                "Option": option.way.name,
                "Runs end at": option.lowest.median if option.lowest else math.nan,
                "T": length,
                "K": epochs,
                "Noise, step": step_noise,
                "Noise, epoch": epoch_noise,
                "Bound": option.bound if has_rows else math.inf,  # as the smallest bound is then
                "Smallest bound": option.best.bound,
                "its T": option.best.length,
                "its K": option.best.epochs,
                "Runs there": math.nan if option.median_at_best is None else option.median_at_best,
            }
        )
    show_table(rows, style=explain.format_numbers, alt="Of every option: what runs came to, its noise, and its bound")
    restriction = "" if forecast.facts.exact else " Bounds do not hold here: values jump, or move faster than L."
    limit = f"From L = {short(forecast.facts.lipschitz)} on a bound says nothing."
    st.caption(f"{texts.OPTIONS}{restriction} {limit} {SETTINGS_ONLY}")


def _sums(panel: Panel, view: PlanView) -> None:
    """Draw the tree by which running sums are added up, their noise next to that of fresh estimates, the ends of
    measured runs, and a table of all ways to add up.

    They are those of the page's first variance-reduced method, or of the defaults.
    """
    method, forecast = running_sums_method(view.experiment), view.theory
    with draw_errors():  # `layout` raises UserError for epochs that do not fit the rows
        layout = method.layout(forecast.facts)
        st.markdown(texts.TREE)
        _tree(panel, view, layout.length)
        # None: without such sums, no mark says "yours".
        planned = noise_over_fresh(method, forecast.facts) if has_sums(view.experiment) else None
        charts.show_side_by_side(
            (figures.noise_ratio(layout.length, planned), panel.key("chart_noise_ratio")),
            (figures.crossover(layout.length, planned and planned[0]), panel.key("chart_crossover")),
        )
        left, right = st.columns(2, gap="medium")
        with left:
            expected = None if forecast.advice is None else forecast.advice.expected
            if expected is None:  # no runs on this kind of problem were measured
                st.caption(texts.UNMEASURED)
            else:
                charts.show(figures.measured_ends(expected), panel.key("chart_measured"))
        with right:
            st.subheader(f"Every way to add up {layout.length:,} steps", anchor=False)
            rows = []
            for name, (title, _) in figures.SUMS.items():
                factors = theory.factorisation(name, layout.length)
                variance = (theory.noise_sensitivity(name, factors) * factors.row_norms) ** 2  # (length,)
                rows.append({"Sums": title, "Mean variance": float(variance.mean()), "Largest": float(variance.max())})
            show_table(
                rows, style=explain.format_numbers, alt="Of every way to add up: mean and largest variance of the noise"
            )
            st.caption(f"{texts.MECHANISMS} {SETTINGS_ONLY}")


@st.fragment
def _tree(panel: Panel, view: PlanView, length: int) -> None:
    """Draw the tree of the running sums of an epoch of `length` steps, with sliders for a row and a step.

    The tree marks the nodes into which the row enters, and those that are summed up for the step's estimate.
    """
    facts = view.theory.facts
    layout = running_sums_method(view.experiment).layout(facts)
    left, right = st.columns(2, gap="medium")
    row = left.slider(
        "Row, in the public order",
        min_value=1,
        max_value=facts.n,
        value=min(facts.n, layout.first + 3 * layout.batch // 2),  # a row of the second batch after the first step's
        key=panel.key(f"tree_row_{facts.n}_{length}"),
        help="Where the row stands in the random order in which rows are dealt out.",
    )
    step = right.slider(
        "Step t",
        min_value=1,
        max_value=length,
        value=length - 1,
        key=panel.key(f"tree_step_{length}"),
        help="Whose estimate is summed up.",
    )
    charts.show(figures.tree(layout, row, step), panel.key("chart_tree"))


def _rows(panel: Panel, view: PlanView) -> None:
    """Draw how many rows the bound needs for a stationarity that the visitor sets, and from which budget on privacy
    costs nothing more."""
    forecast: Forecast = view.theory
    if forecast.mu is None:
        st.info(NOT_GAUSSIAN, icon=":material/block:")
        return
    left, _ = st.columns(2)
    with left:
        share = panel.number(ACCURACY, ACCURACY.name)
    if input_error(ACCURACY, share) or share is None:
        return
    facts, accuracy = forecast.facts, share * forecast.facts.lipschitz  # the control is in units of L
    rows_needed, _ = figures.rows_needed(bound_constants(facts, forecast.mu), accuracy)  # the numbers are in the chart
    free_privacy = figures.free_privacy(facts.d, facts.lipschitz, accuracy, forecast.mu)
    charts.show_side_by_side((rows_needed, panel.key("chart_rows_0")), (free_privacy, panel.key("chart_rows_1")))
    st.caption(f"{texts.ROWS} {texts.GUESS}" if facts.guessed else texts.ROWS)


def _readings(panel: Panel, view: PlanView, delta: float) -> None:
    """Draw the ε at δ of a run with μ-Gaussian DP: the exact one, and two others that are in use."""
    forecast: Forecast = view.theory
    if forecast.mu is None:
        st.info(NOT_GAUSSIAN, icon=":material/block:")
        return
    mu = forecast.mu * view.experiment.problem.rows_per_person  # a person with k rows has k times the μ of a row
    left, right = st.columns(2, gap="medium")
    with left:
        charts.show(figures.readings(mu, delta), panel.key("chart_readings"))
    with right:
        rows = [
            {"Reading": name, "ε": rounded_up(epsilon_of(mu, delta))} for name, epsilon_of in figures.READINGS.items()
        ]
        st.subheader(f"At δ = {short_up(delta)}", anchor=False)
        show_table(rows, style=explain.format_numbers, alt="ε of the run at δ, read in three ways")
        st.caption(texts.renyi(mu))
