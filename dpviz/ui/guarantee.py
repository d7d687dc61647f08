"""The guarantee line: what the budget is, what it means in other currencies, and what an attacker can do."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import streamlit as st

from dpviz.experiments.plan import Plan
from dpviz.privacy import accounting
from dpviz.privacy.budgets import ApproximateDP, Budget, NoPrivacy
from dpviz.privacy.readings import tradeoff
from dpviz.ui.controls import Panel
from dpviz.ui.explain import UNIT, short

FALSE_ALARMS = 0.01  # the attacker's rate of wrong accusations for the attack reading


@dataclass(frozen=True)
class Readings:
    """What the events of one plan mean: infinite where a currency does not exist.

    epsilon_at_delta, accountant : the smallest ε at δ that any accountant proves, and its name.
    detection : largest rate at which an attacker tells a replaced row from the real one, at 1 % false alarms.
    """

    pure: float
    rho: float
    mu: float
    epsilon_at_delta: float
    accountant: str
    detection: float


def readings(plan: Plan, delta: float) -> Readings:
    """All readings of a run; upper bounds, except that Gaussian noise on all rows is exact. The accountants cache."""
    before, events = plan.facts.released, plan.events
    tightest = accounting.tightest(events, delta, before)
    # After an ε-DP release the false alarms that a test of the run may use have grown by at most e^ε.
    false_alarms = min(1.0, FALSE_ALARMS * math.exp(min(accounting.total(before, "epsilon"), 700.0)))
    return Readings(
        pure=accounting.total((*before, *events), "epsilon"),
        rho=accounting.total((*before, *events), "rho"),
        mu=accounting.total((*before, *events), "mu"),
        epsilon_at_delta=tightest.epsilon,
        accountant=accounting.METHOD_NAMES[tightest.method],
        detection=1 - float(tradeoff(events, false_alarms)),
    )


def private(plans: Mapping[str, Plan]) -> dict[str, Plan]:
    """The plans that have a budget."""
    return {label: plan for label, plan in plans.items() if not isinstance(plan.budget, NoPrivacy)}


def telling(plans: Mapping[str, Plan]) -> str:
    """The method whose readings to show first: one whose noise changes over the steps, if there is one."""
    changing = (label for label, plan in plans.items() if np.ptp(plan.schedule.get("noise_scale", np.zeros(1))) > 0)
    return next(changing, next(iter(plans)))


def delta(panel: Panel) -> float:
    """The δ at which runs are read; used wherever the budget has none of its own."""
    (_, control) = ApproximateDP.controls()
    control = replace(control, label="δ of the readings", symbol="", help="At which δ budgets are read as (ε, δ).")
    value = panel.number(control, "delta_reading")
    assert control.low is not None and control.high is not None
    return min(max(value or control.default, control.low), control.high)


Card = tuple[str, str, str, str]  # name, value, what stands below, help


def noise_card(label: str, plan: Plan) -> Card:
    """The scale of the noise in the first and the last step."""
    noise = plan.schedule["noise_scale"]
    return (
        "Noise, first → last step",
        short(noise[0]) if noise[0] == noise[-1] else f"{short(noise[0])} → {short(noise[-1])}",
        f"{label}, {plan.iterations:,} steps",
        "Scale of the noise that is added to each coordinate of the mean gradient.",
    )


def line(
    budget: Budget, plans: Mapping[str, Plan], delta: float, noise: Callable[[str, Plan], Card] = noise_card
) -> None:
    """Budget, reading at δ, noise and attack reading of one method, side by side."""
    shown = private(plans)
    label = telling(shown)
    plan = shown[label]
    read = readings(plan, delta)
    cards = (
        (
            "Budget of each method",
            budget.describe(),
            f"{budget.name}, {UNIT}",
            f"The whole run of each method meets this guarantee; protected is {UNIT}.",
        ),
        (
            "Reading as (ε, δ)",
            f"ε ≤ {short(read.epsilon_at_delta)}",
            f"at δ = {short(delta)}",
            f"Of {label}, by the tightest of our accountants: {read.accountant}. An upper bound.",
        ),
        noise(label, plan),
        ("Attack reading", f"≤ {100 * read.detection:.3g} %", "at 1 % false alarms", consequence(read)),
    )
    row = st.container(horizontal=True, gap="small")
    for name, value, below, help in cards:
        row.metric(name, value, below, border=True, help=help, delta_color="off", delta_arrow="off")
    st.caption(f"{consequence(read)} {currencies(label, read)}")


def consequence(read: Readings) -> str:
    """The attack reading as a sentence."""
    return (
        "An attacker who must be wrong at most 1 % of the time tells a replaced row from the real one at most "
        f"{100 * read.detection:.3g} % of the time."
    )


def currencies(label: str, read: Readings) -> str:
    """The same run in the other currencies; a dash and a reason where a currency does not exist."""
    pure = f"ε = {short(read.pure)}" if np.isfinite(read.pure) else "— (Gaussian noise has no pure ε)"
    rho = f"ρ ≤ {short(read.rho)}" if np.isfinite(read.rho) else "— (no amplified ρ is known for batches)"
    mu = f"μ ≤ {short(read.mu)}" if np.isfinite(read.mu) else "— (no finite μ is known for batches)"
    return f"{label} in other currencies: pure {pure}; zCDP {rho}; GDP {mu}."
