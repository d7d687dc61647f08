"""Closer looks at the plan of the accelerated methods, each in a tab that is computed only while it is open."""

from collections.abc import Callable

import streamlit as st

from dpviz.families.accelerated import HeavyBall, certificate, figures, texts
from dpviz.families.accelerated.algorithms import GradientMethod
from dpviz.families.accelerated.planning import assumed_constants
from dpviz.numbers import short, short_down, short_up
from dpviz.plots import plan_figures
from dpviz.problems.base import SmoothFacts
from dpviz.specification import Control
from dpviz.ui import charts
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import guarantee
from dpviz.ui.experiment.plan import PlanView

BENCH_CONVEXITY = Control(
    "bench_convexity",
    "Strong convexity",
    "The smaller eigenvalue of the two-dimensional quadratic; the larger one is L = 1.",
    default=0.5,
    type=float,
    low=0.01,
    high=1.0,
    symbol="μ",
    scale="log",
)
# Options of two menus about the quadratic test bench: step sizes α, in units of 1/L, and noise per step.
STEPS = {str(value): f"{value:g}" for value in figures.RELATIVE_STEPS}
NOISES = {"0.01": "0.01", "0.0001": "0.0001"}


def tabs(panel: Panel, view: PlanView, delta: float) -> dict[str, Callable[[], None]]:
    """Return the functions that draw the tabs, by title."""
    return {
        "Tighter accountants": lambda: _accountants(panel, view, delta),
        "What limits accuracy": lambda: _decomposition(panel, view),
        "Heavy ball on quadratics": lambda: _quadratics(panel),
        "Worst-case certificate": lambda: _certificate(panel, view),
    }


def _select_method(panel: Panel, view: PlanView, name: str) -> str:
    """Draw a menu of the private methods with session key `name`; return the label of the selected one."""
    plans = guarantee.only_private(view.plans)
    with st.columns([1, 2])[0]:
        return panel.one_of(name, "Method", plans, "Whose plan is looked at.", first=guarantee.example_method(plans))


def _accountants(panel: Panel, view: PlanView, delta: float) -> None:
    """Draw ε at δ of one method's releases against the number of steps, one curve for each accountant."""
    plan = view.plans[_select_method(panel, view, "accountants_of")]
    caption = (
        "The same releases, read by different accountants. Each is an upper bound; the lowest one holds. δ is set "
        "under “Privacy”."
    )
    charts.show(plan_figures.accountant_curves(plan, delta, remark=caption), panel.key("chart_accountants"))


def _decomposition(panel: Panel, view: PlanView) -> None:
    """Draw the parts of one method's error along the steps: optimisation, privacy noise, and batch noise.

    They are parts of the error bound or, at the visitor's choice, of the exact error on a quadratic.
    """
    label = _select_method(panel, view, "parts_of")
    exact = panel.switch(
        "parts_exact",
        "On a quadratic, exactly",
        default=False,
        help="Instead of the bound, which counts batch noise at its worst: the exact error on a quadratic whose "
        "eigenvalues lie between μ and L.",
    )
    method = next(arm.algorithm for arm in view.experiment.arms if arm.label == label)
    assert isinstance(method, GradientMethod)
    rests_on = texts.condition(assumed_constants(view.experiment.problem))
    chart = figures.decomposition(method, view.plans[label], exact=exact, condition=rests_on)
    charts.show(chart, panel.key("chart_parts"))


def _quadratics(panel: Panel) -> None:
    """Draw rates of momentum on quadratics with eigenvalues in [μ, 1], and the error of heavy ball on one of them.

    It is a test bench with settings of its own (μ, step size, noise), independent of the plan; L is 1.
    """
    row = st.columns([4, 2, 2, 3], vertical_alignment="bottom")
    with row[0]:
        convexity = float(panel.number(BENCH_CONVEXITY, "bench_convexity") or BENCH_CONVEXITY.default)
    with row[1]:
        step = float(panel.choice("bench_step", "Step size α", STEPS, "1.0", "Step size of the chart on the right."))
    with row[2]:
        noise = float(panel.choice("bench_noise", "Noise per step", NOISES, "0.01", "The noise is T times this."))
    with row[3]:
        published = panel.switch("bench_paper", "The paper's curves", default=False, help=texts.PUBLISHED)
    # A link can hold a number outside of the control's range.
    convexity = min(max(convexity, BENCH_CONVEXITY.low or 0.0), BENCH_CONVEXITY.high or 1.0)
    charts.show_side_by_side(
        (figures.momentum_rates(convexity, published=published), panel.key("chart_rates")),
        (figures.heavy_ball_on_quadratic(convexity, step, noise, published=published), panel.key("chart_quadratic")),
    )


_certify = st.cache_data(max_entries=64, show_spinner="Solving the matrix inequality")(certificate.certify)


def _certificate(panel: Panel, view: PlanView) -> None:
    """Draw a certified rate of heavy ball on all smooth and strongly convex losses, from a linear matrix inequality.

    The search takes seconds, so a press of a button begins it. Its result stays on the page until the constants change.
    """
    st.markdown(texts.CERTIFICATE)
    arm = next((arm for arm in view.experiment.arms if isinstance(arm.algorithm, HeavyBall)), None)
    if arm is None:
        st.info("Choose DP-HB among the methods: the certificate is about heavy ball.")
        return
    plan, method = view.plans[arm.label], arm.algorithm
    assert isinstance(plan.facts, SmoothFacts) and isinstance(method, HeavyBall)
    steps = method.steps(plan.facts, plan.iterations)
    step_size, momentum = float(steps.step_size[0]), float(steps.momentum[0])  # the same in all steps
    strong_convexity, smoothness = plan.facts.strong_convexity, plan.facts.smoothness
    constants = (strong_convexity, smoothness, step_size, momentum)
    was_requested = st.session_state.get(panel.key("certified")) == constants
    if not was_requested and not st.button("Look for a certificate (1-3 s)", key=panel.key("certify")):
        return
    st.session_state[panel.key("certified")] = constants
    certified = _certify(*constants)
    if certified is None:
        max_momentum = max(0.0, 1 - step_size * smoothness / 2)  # found by trial: THEORY.md, section 5.5
        st.warning(
            f"At κ = {short(smoothness / strong_convexity)} and β = {short(momentum)} the matrix inequality has no "
            f"solution at any rate below 1. For a large κ it needs about β ≤ {short_down(max_momentum)}.",
            title="No worst-case certificate",
        )
    else:
        st.success(
            f"Certified rate ρ = {short_up(certified.rate, 5)} per step, noise factor "
            f"{short_up(certified.noise_factor, 4)}."
        )
    charts.show(figures.worst_case(method, plan, certified), panel.key("chart_certificate"))
