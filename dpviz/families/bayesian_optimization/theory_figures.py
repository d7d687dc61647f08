"""Figures of what theory promises: the bound for every number of steps, what an attacker can do with what is released,
and how much noise random stopping costs."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from dpviz.experiments.plan import Plan
from dpviz.families.bayesian_optimization import theory
from dpviz.families.bayesian_optimization.theory import Landscape
from dpviz.numbers import short
from dpviz.plots.elements import style
from dpviz.plots.elements.lines import Limit, Line, Turn, line_figure
from dpviz.plots.elements.style import ArmStyle
from dpviz.plots.guarantee_figures import RATES, attackers
from dpviz.privacy import tradeoffs
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.closed_forms import gdp_epsilon
from dpviz.privacy.events import Gaussian

STEPS = np.unique(np.geomspace(1, 200, 60).round().astype(int))
TRIES = np.geomspace(2, 1000, 25)
FAILURE = 0.05
BOUNDS = (
    ("in the mean", ArmStyle(style.PALETTE["private"], "solid")),
    ("in 95 % of runs", ArmStyle(style.PALETTE["theory"], "dash")),
    ("as published", ArmStyle(style.GREY, "dot")),
)
STOPPING: tuple[tuple[theory.Stopping, str, ArmStyle], ...] = (
    ("logarithmic", "logarithmic law (η = 0)", ArmStyle(style.PALETTE["private"], "solid")),
    ("geometric", "geometric law (η = 1)", ArmStyle(style.PALETTE["theory"], "dash")),
)
NAIVE = ("every try released", ArmStyle(style.GREY, "dot"))


def bound_by_steps(
    landscape: Landscape,
    step: float,
    clip: float,
    n: int,
    mu: float,
    d: int,
    bias: float,
    steps: int,
    *,
    height: int = style.HEIGHT,
) -> go.Figure:
    """Bounds on the loss above the minimum after T plain steps, against T: each with the noise that T steps need. T* is
    where the one in the mean is smallest. steps : T as it is set."""
    ends = []
    for count in STEPS.tolist():
        found = theory.bounds(landscape, step, 2 * clip * np.sqrt(count) / (n * mu), bias, clip, d, count, FAILURE)
        ends.append((found.expected[-1], found.likely[-1], found.published[-1]))
    lines = [Line(STEPS, curve, *look, value=False) for curve, look in zip(np.array(ends).T, BOUNDS, strict=True)]
    best = theory.best_steps(landscape, step, clip, n, mu, d)
    return line_figure(
        lines,
        x_title="Steps T",
        y_title="Loss above the minimum, at most",
        log_y=True,
        log_x=True,
        turns=[Turn(best, f"T* = {short(best)}")] if STEPS[0] <= best <= STEPS[-1] else [],
        limits=[Limit(landscape.gap, "at the start")],
        notes=[f"set: T = {steps:,}"],
        height=height,
    )


def random_stopping(mu: float, delta: float, *, height: int = style.HEIGHT) -> go.Figure:
    """μ₀ of each try, if the best of K tries is released and K is secret, against the mean of K; and if every try were
    released. All with the (ε, δ) of μ."""
    lines = [
        Line(
            TRIES,
            np.array([theory.stopped_mu(law, tries, mu, delta) for tries in TRIES.tolist()]),
            name,
            look,
            value=False,
        )
        for law, name, look in STOPPING
    ]
    lines.append(Line(TRIES, mu / np.sqrt(TRIES), *NAIVE, value=False))
    return line_figure(
        lines,
        x_title="Mean number of tries E K",
        y_title="μ₀ of each try",
        log_y=True,
        log_x=True,
        limits=[Limit(mu, f"one try: μ = {short(mu)}")],
        height=height,
    )


def epsilon_by_step(
    plans: Mapping[str, Plan], styles: Mapping[str, ArmStyle], delta: float, *, height: int = style.HEIGHT
) -> go.Figure:
    """ε at δ of what a run has released after each step: of Gaussian noise exactly, from the μ of so many steps; of a
    choice by the tightest accountant. One line per private method."""
    lines = []
    for label, plan in plans.items():
        if plan.private:
            epsilons = _epsilons(plan, delta)
            lines.append(Line(np.arange(len(epsilons)), epsilons, label, styles[label]))
    return line_figure(
        lines,
        x_title="Step t",
        y_title=f"ε at δ = {short(delta)}",
        log_y=False,
        from_zero=True,
        height=height,
    )


def _epsilons(plan: Plan, delta: float) -> np.ndarray:
    """(T+1,) ε at δ after each step."""
    if all(isinstance(event, Gaussian) for event in plan.events):
        return np.array([gdp_epsilon(mu, delta) for mu in plan.spent("mu").tolist()])
    steps = range(plan.iterations + 1)
    return np.array([accountants.tightest(plan.charged(t), delta).epsilon if t else 0.0 for t in steps])


def attacks(plans: Mapping[str, Plan], styles: Mapping[str, ArmStyle], *, height: int = style.HEIGHT) -> go.Figure:
    """Smallest rate of missed users against the rate of false alarms, of the best attacker on a whole run of each
    private method; the diagonal is guessing."""
    released = {label: tradeoffs.tradeoff(plan.events, RATES) for label, plan in plans.items() if plan.private}
    return attackers({label: (missed, styles[label]) for label, missed in released.items()}, height)
