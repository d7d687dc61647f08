"""Tabs of the plan of private tuning: advice, privacy by steps, bounds on steps and users, and other ways to look."""

import math
from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from dpviz.families.bayesian_optimization import figures, planning, texts
from dpviz.families.bayesian_optimization.forecast import AMPLITUDE, Forecast, prior_trace
from dpviz.families.bayesian_optimization.planning import Landscape
from dpviz.numbers import short
from dpviz.specification import Control
from dpviz.ui import charts, explain
from dpviz.ui.controls import Panel, input_error
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.explain import NOT_GAUSSIAN, SETTINGS_ONLY
from dpviz.ui.markdown import show_table

# Controls for the constants of the loss that the bounds on steps assume: the fields of `Landscape`, in their order.
_ASSUMED = Control(name="", label="", help="", default=1.0, type=float, low=0.01, high=100.0, scale="log")
ASSUMED = (
    replace(_ASSUMED, name="smoothness", label="Smoothness", symbol="L", default=2.0, help="Largest curvature there."),
    replace(_ASSUMED, name="convexity", label="Convexity", symbol="m", default=0.2, help="Least curvature there."),
    replace(_ASSUMED, name="gap", label="Gap", symbol="Δ₀", help="Loss at the start above the minimum."),
    replace(_ASSUMED, name="radius", label="Radius", symbol="R", help="Of the ball around the minimum that is meant."),
)


def tabs(panel: Panel, view: PlanView, delta: float) -> dict[str, Callable[[], None]]:
    """Return the functions that draw the tabs, by title."""
    return {
        "Advice": lambda: _reasons(view),
        "Privacy": lambda: _privacy(panel, view, delta),
        "Steps and users": lambda: _steps(panel, view),
        "Other ways to look": lambda: _others(panel, view, delta),
    }


def _reasons(view: PlanView) -> None:
    """Draw the reason for the advised bias level, and a table of all levels."""
    forecast: Forecast = view.theory
    if forecast.advice is None or not forecast.selected:
        st.info(NOT_GAUSSIAN if forecast.advice is None else texts.NOT_SELECTED, icon=":material/block:")
        return
    st.markdown(forecast.advice.why)
    rows = [
        {
            "Bias level ω": row.level,
            # Always a text, as all cells of a column need one type.
            "First batch b₁": "more than there are" if row.batch is None else str(row.batch),
            "Planned bias": row.bias,
            "Noise": forecast.advice.noise_length,
            "Trainings of a run, about": row.trainings,
        }
        for row in forecast.advice.rows
    ]
    show_table(rows, style=explain.format_numbers, alt="Of every bias level: first batch, bias, noise, and trainings")
    st.caption(f"{texts.TRAININGS_BY_LEVEL} {SETTINGS_ONLY}")


def _privacy(panel: Panel, view: PlanView, delta: float) -> None:
    """Draw the ε at δ after each step, and the power of attacks on all releases of a run together."""
    charts.show_side_by_side(
        (figures.epsilon_by_step(view.plans, view.styles, delta), panel.key("chart_epsilon")),
        (figures.attacks(view.plans, view.styles), panel.key("chart_attacks")),
    )


def _steps(panel: Panel, view: PlanView) -> None:
    """Draw controls for assumed constants of the loss, the error bound against the number of steps, and a table of
    further bounds."""
    forecast: Forecast = view.theory
    if forecast.mu is None or not forecast.selected:
        st.info(NOT_GAUSSIAN if forecast.mu is None else texts.NOT_SELECTED, icon=":material/block:")
        return
    st.markdown(texts.ASSUMED)
    values = []
    for column, control in zip(st.columns(len(ASSUMED), gap="medium"), ASSUMED, strict=True):
        with column:
            values.append(panel.number(control, control.name))
    if any(input_error(control, value) for control, value in zip(ASSUMED, values, strict=True)):
        return
    landscape = Landscape(*(float(value or 0.0) for value in values))  # `input_error` refuses None
    if landscape.convexity > landscape.smoothness:
        st.warning("The least curvature m is at most the largest, L.")
        return
    method, facts = forecast.method, forecast.facts
    step_size = min(method.step_size, 1 / landscape.smoothness)  # the bounds hold for step sizes up to 1/L
    uncertainty = planning.planned_uncertainty(method.bias_level, facts.d, prior_trace(facts, method))
    bias = planning.bias_bound(AMPLITUDE, uncertainty)  # AMPLITUDE is declared, of the mean loss around the iterates
    left, right = st.columns(2, gap="medium")
    with left:
        charts.show(figures.bound_by_steps(forecast, landscape, step_size, bias), panel.key("chart_steps"))
    with right:
        st.subheader("At your settings", anchor=False)
        _bounds_table(forecast, landscape, step_size, bias)


def _bounds_table(forecast: Forecast, landscape: Landscape, step_size: float, bias: float) -> None:
    """Draw a table of bounds on steps, users and noise, and of where plain gradient steps end.

    step_size : the step size η. bias : upper bound on the length of the bias of a step's gradient. The bounds are those
    of `planning`; each holds except with probability ζ (`figures.FAILURE`).
    """
    assert forecast.mu is not None
    method, facts, zeta = forecast.method, forecast.facts, figures.FAILURE
    users, published = planning.fewest_users(
        landscape, method.clip, method.iterations, forecast.mu, facts.d, bias, zeta
    )
    noise, steps = forecast.noise, method.iterations
    rows = {  # two titles look the same: the second has a space at its end
        "Best number of steps T*": planning.best_steps(
            landscape, step_size, method.clip, facts.n, forecast.mu, facts.d
        ),
        "Users that keep every step in the ball": users,
        "the same, with the published constant": published,
        "Noise that no step exceeds, in 95 % of runs": planning.noise_radius(noise, facts.d, steps, zeta),
        "the same, with the published constant ": planning.published_radius(noise, facts.d, steps, zeta),
        "Where plain steps end up, per setting": math.sqrt(
            planning.noise_floor(step_size, landscape.smoothness, noise)
        ),
        "Bias that is planned": bias,
    }
    table = [{"What": name, "Value": float(value)} for name, value in rows.items()]
    show_table(table, style=explain.format_numbers, alt="What the bounds say at these settings")
    st.caption(f"{texts.TOLD} {SETTINGS_ONLY}")


def _others(panel: Panel, view: PlanView, delta: float) -> None:
    """Draw the privacy of random stopping, how much more noise released losses would need than released slopes, and how
    many trainings a global search would need."""
    forecast: Forecast = view.theory
    if forecast.mu is None or not math.isfinite(forecast.mu):
        st.info(NOT_GAUSSIAN, icon=":material/block:")
        return
    left, right = st.columns(2, gap="medium")
    with left:
        charts.show(figures.random_stopping(forecast.mu, delta), panel.key("chart_stopping"))
    with right:
        st.subheader("Releasing losses instead of slopes", anchor=False)
        facts, method = forecast.facts, forecast.method
        distance = method.placing.nearest * method.surrogate.length_scale  # of the nearest point that is evaluated
        factor = planning.value_release_factor(facts.loss_cap, method.clip, distance, facts.d)
        st.markdown(texts.values(factor, facts.d, distance))
        trainings = planning.global_trainings(gap=0.1, d=facts.d)  # until a tenth of the first error remains
        st.markdown(texts.everywhere(trainings, facts.d))
        st.caption(f"M = {short(facts.loss_cap)}, B = {short(method.clip)}. {SETTINGS_ONLY}")
