"""The parts of the budget planner: what a guarantee is worth, and what it buys."""

from contextlib import suppress

import streamlit as st

from dpviz.errors import UserError
from dpviz.plots import guarantee_figures
from dpviz.privacy import accounting, readings
from dpviz.privacy.budgets import Budget, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.privacy.what_if import STEPS_LIMIT, NoisyMeans
from dpviz.specification import Control
from dpviz.ui import charts
from dpviz.ui.explain import SETTINGS_ONLY, UNIT, short

FALSE_ALARMS = 0.01
OWN: dict[type[Budget], str] = {PureDP: "epsilon", ZeroConcentratedDP: "rho", GaussianDP: "mu"}
TARGET = Control(
    name="target",
    label="Noise you can live with",
    help="Scale of the noise in every mean, for the what-ifs. Empty: half of what the budget gives.",
    default=None,
    type=float,
    low=1e-12,
    high=1e6,
    scale="log",
    optional=True,
)
NOTHING = {
    "epsilon": "Pure ε does not follow from this guarantee: algorithms that have it may exceed every ε.",
    "epsilon_at_delta": "Nothing follows at a δ below the guarantee's own.",
    "rho": "zCDP does not follow from (ε, δ): its δ never falls below the one given.",
    "mu": "No μ follows from this guarantee for every algorithm that has it.",
}


def currencies(budget: Budget, delta: float) -> None:
    """The same guarantee in the other currencies; a dash and the reason where it implies none."""
    implied = readings.convert(budget, delta)
    own = OWN.get(type(budget), "epsilon_at_delta")
    names = {
        "epsilon": "Pure ε",
        "epsilon_at_delta": f"ε at δ = {short(delta)}",
        "rho": "ρ (zCDP)",
        "mu": "μ (Gaussian DP)",
    }
    row = st.container(horizontal=True)
    for name, title in names.items():
        value = implied[name]
        row.metric(
            title,
            "—" if value is None else short(value) if name == own else f"≤ {short(value)}",
            border=True,
            help=NOTHING[name] if value is None else "What every algorithm with this guarantee has; an upper bound.",
        )
    missing = [NOTHING[name] for name in names if implied[name] is None]
    if missing:
        st.caption(" ".join(missing))


def consequences(budget: Budget) -> None:
    """The guarantee in words: the best attacker's success, and what a suspicion can become."""
    missed = readings.budget_tradeoff(budget, [FALSE_ALARMS])
    detected = 1 - float(missed[0])
    correct = (1 + readings.budget_advantage(budget)) / 2
    posterior = detected / (detected + FALSE_ALARMS)
    st.markdown(
        f"""
- An attacker who knows everybody else's row and must decide which of two rows was used is right in **at most
  {100 * correct:.3g} of 100** fair coin-toss cases. 50 is pure guessing.
- If false alarms are allowed in 1 % of cases, the attacker notices a replaced row **at most {100 * detected:.3g} %** of
  the time.
- A suspicion of 50 % before such an alarm becomes **at most {100 * posterior:.3g} %** after it.
"""
    )


def attack_chart(budget: Budget, means: NoisyMeans) -> None:
    """The trade-off curve of the guarantee and, where the noise can meet it, of the noisy means."""
    rates, plan = guarantee_figures.RATES, None
    with suppress(UserError):  # said where the noise is shown
        plan = readings.tradeoff(means.events(budget), rates)
    figure = guarantee_figures.tradeoff(readings.budget_tradeoff(budget, rates), plan)
    charts.show(
        figure,
        "planner_tradeoff",
        "What an attacker can do",
        "Lowest possible rate of missed rows against the rate of false alarms",
        f"No test of {UNIT} lies below its curve. Worst case over all algorithms with this guarantee. {SETTINGS_ONLY}",
    )


def noise(means: NoisyMeans, budget: Budget) -> float:
    """The noise that the budget allows in every mean."""
    scale = means.noise_scale(budget)
    symbol = "b" if means.noise == "laplace" else "σ"
    row = st.container(horizontal=True)
    row.metric(
        f"Noise scale {symbol} per step",
        short(scale),
        border=True,
        help=f"In every coordinate of the mean of m = {means.batch_size:,} rows, each clipped to norm C.",
    )
    row.metric(
        "Signal to noise",
        short(means.clip / scale),
        border=True,
        help=f"Largest possible mean C, divided by {symbol}.",
    )
    row.metric(
        "Rows for half the noise",
        f"{means.rows_needed(budget, scale / 2):,}",
        border=True,
        help="At the same budget, number of steps and share of rows per batch.",
    )
    return scale


def what_if(means: NoisyMeans, budget: Budget, target: float | None, given: float) -> None:
    """For a noise that one can live with (or half of what is given): how many steps it lasts, and the rows it needs."""
    scale = given / 2 if target is None else target
    steps = means.affordable_steps(budget, scale)
    shown = f"more than {STEPS_LIMIT:,}" if steps >= STEPS_LIMIT else f"{steps:,}"
    st.markdown(
        f"With noise of scale **{short(scale)}** in every mean the budget covers **{shown} steps**; "
        f"{means.iterations:,} steps would need **{means.rows_needed(budget, scale):,} rows**."
    )


def accountants_chart(means: NoisyMeans, budget: Budget, delta: float) -> None:
    """The same noise, read by every accountant that applies."""
    reading = accounting.tightest(means.events(budget), delta)
    if not reading.by_method:
        st.info("No accountant reads this noise at so small a δ. Raise δ.")
        return
    charts.show(
        guarantee_figures.accountants(reading),
        "planner_accountants",
        f"The same noise at δ = {short(delta)}",
        "One bar per accountant: the smallest ε that it proves for the same noise",
        f"Each bar is an upper bound; the lowest, by {accounting.METHOD_NAMES[reading.method]}, holds. {SETTINGS_ONLY}",
    )


def as_python(means: NoisyMeans, budget: Budget) -> None:
    """The lines that compute the same."""
    changed = {name: getattr(means, name) for name in type(means).model_fields}
    arguments = ", ".join(f"{name}={value!r}" for name, value in changed.items())
    sizes = ", ".join(f"{control.name}={getattr(budget, control.name)!r}" for control in budget.controls())
    st.code(
        f"""from dpviz.privacy.budgets import {type(budget).__name__}
from dpviz.privacy.what_if import NoisyMeans

print(NoisyMeans({arguments}).noise_scale({type(budget).__name__}({sizes})))""",
        language="python",
    )
