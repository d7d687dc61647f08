"""The guarantee line: the budget, its readings in other currencies, and the power of an attacker."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import streamlit as st

from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.numbers import short, short_up
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.currencies import UNITS
from dpviz.privacy.budgets import ApproximateDP, Budget, PureDP
from dpviz.privacy.events import Event
from dpviz.privacy.tradeoffs import tradeoff
from dpviz.ui import explain
from dpviz.ui.controls import Panel, Settings
from dpviz.ui.markdown import sentence as as_text

DELTA = ApproximateDP().delta  # of readings, by default
FALSE_ALARMS = 0.01  # the attacker's rate of wrong accusations for the attack reading


@dataclass(frozen=True)
class Readings:
    """Readings of the events of one plan: infinite where they have no finite cost in a currency.

    epsilon_at_delta, accountant : the smallest ε at δ that any accountant proves, and its name.
    detection : largest rate at which an attacker tells a replaced row from the real one, at 1 % false alarms.
    """

    pure: float
    rho: float
    mu: float
    epsilon_at_delta: float
    accountant: str
    detection: float


@dataclass(frozen=True)
class Worst:
    """The largest value of one reading over several methods, the methods that have it, and the smallest value."""

    value: float
    who: str
    least: float

    @property
    def same(self) -> bool:
        """True if all methods have the same value."""
        return _equal(self.least, self.value)


def readings(plan: Plan, delta: float) -> Readings:
    """Compute all readings of a run: upper bounds, except that Gaussian noise on all rows is exact. Cached."""
    return _readings(tuple(plan.facts.released), plan.events, delta)


@lru_cache(64)
def _readings(before: tuple[Event, ...], events: tuple[Event, ...], delta: float) -> Readings:
    tightest = accountants.tightest(events, delta, before)
    # After an ε-DP release the false alarms that a test of the run may use have grown by at most e^ε.
    false_alarms = min(1.0, FALSE_ALARMS * math.exp(min(accountants.total(before, "epsilon"), 700.0)))
    released = (*before, *events)
    costs = {currency: accountants.total(released, currency) for currency in UNITS}
    return Readings(
        pure=costs["epsilon"],
        rho=costs["rho"],
        mu=costs["mu"],
        epsilon_at_delta=tightest.epsilon,
        accountant=accountants.METHOD_NAMES[tightest.method],
        detection=1 - float(tradeoff(events, false_alarms)),
    )


def worst(read: Mapping[str, Readings], name: str) -> Worst:
    """Return the largest of the readings called `name`, which holds for each of the methods.

    read : readings by label of the method.
    """
    values = {label: float(getattr(item, name)) for label, item in read.items()}
    largest = max(values.values())
    who = [label for label, value in values.items() if _equal(value, largest)]
    if len(who) == len(values) > 1:
        methods = "every method"
    else:
        methods = who[0] + (f" and {len(who) - 1} more" if len(who) > 1 else "")
    return Worst(largest, methods, min(values.values()))


def private(plans: Mapping[str, Plan]) -> dict[str, Plan]:
    """Return the private plans."""
    return {label: plan for label, plan in plans.items() if plan.private}


def telling(plans: Mapping[str, Plan]) -> str:
    """Return the label of the method whose noise is shown: one whose noise changes over the steps, if there is one."""
    changing = (label for label, plan in plans.items() if any(np.ptp(scale) > 0 for scale in plan.noise.values()))
    return next(changing, next(iter(plans)))


def delta(panel: Panel, budget: Settings[Budget], under_pure: bool = False) -> float:
    """Return the δ of the readings: that of the budget; for a budget without δ, the value of a control.

    under_pure : true to draw the control under pure ε, too.
    """
    if budget.cls is PureDP and not under_pure:
        return DELTA
    (_, control) = ApproximateDP.controls()
    assert control.low is not None and control.high is not None
    if control.name in budget.values:
        value = budget.values[control.name]
    else:
        help = "At which δ the guarantee is read as (ε, δ). It changes the readings only, not the noise."
        value = panel.number(replace(control, label="δ of the readings", symbol="", help=help), "delta_reading")
    return min(max(value or control.default, control.low), control.high)


Card = tuple[str, str, str, str]  # name, value, line below, help


def noise_card(label: str, plan: Plan) -> Card:
    """Return the card with the scale of a method's first kind of noise, in the first and last step that add any."""
    steps = f"{label}, {plan.iterations:,} steps"
    for name, scale in plan.noise.items():
        added = scale[scale > 0]
        if added.size:
            help = f"Scale of the noise that is added to each coordinate of the {name}."
            return "Noise, first → last step", first_to_last(added), steps, help
    return "Noise", "none", steps, "This method adds no noise: what is random is which answers it selects."


def first_to_last(values: np.ndarray) -> str:
    """Return both ends of a series (k,) as text, or a single value if they are equal."""
    return short(values[0]) if values[0] == values[-1] else f"{short(values[0])} → {short(values[-1])}"


def in_words(experiment: Experiment, plans: Mapping[str, Plan]) -> str:
    """Describe the guarantee in one line."""
    several = "each method" if len(private(plans)) > 1 else "the method"
    return f"Guarantee of {several}: {experiment.promise}."


def sentence(experiment: Experiment, plans: Mapping[str, Plan], key: str) -> None:
    """Draw the guarantee in one line, in a container with this key.

    While a slider is dragged, the browser shows the line of its stop there.
    """
    what, _, promise = in_words(experiment, plans).partition(": ")
    with st.container(key=key, width="content"):
        st.markdown(f"**{what}:** {as_text(promise)}", width="content")
    if experiment.condition:
        explain.privacy_badge(experiment.privacy)


def line(
    experiment: Experiment, plans: Mapping[str, Plan], delta: float, noise: Callable[[str, Plan], Card] = noise_card
) -> None:
    """Draw budget, reading at δ, noise and attack reading, side by side; the readings hold for every method."""
    budget, unit, rests_on = experiment.budget, experiment.problem.unit, _rests_on(experiment)
    private_plans = private(plans)
    label = telling(private_plans)
    read = {name: readings(plan, delta) for name, plan in private_plans.items()}
    epsilon, detection = worst(read, "epsilon_at_delta"), worst(read, "detection")
    accountants = ", ".join(dict.fromkeys(item.accountant for item in read.values()))
    cards = (
        (
            "Budget of each method",
            budget.describe(),
            ", ".join([budget.name, unit, *[experiment.privacy.removeprefix("private ")] * bool(rests_on)]),
            f"The whole run of each method meets this guarantee{rests_on}; protected is {unit}.",
        ),
        (
            f"Reading at δ = {short_up(delta)}",
            f"ε ≤ {short_up(epsilon.value)}",
            epsilon.who,
            f"{_range(epsilon, short_up)} Of each method by the tightest of our accountants: {accountants}. "
            "Upper bounds.",
        ),
        noise(label, private_plans[label]),
        (
            "Attack reading",
            f"≤ {_percent(detection.value)}",
            detection.who,
            f"{_range(detection, _percent)} {consequence(detection, unit)}",
        ),
    )
    row = st.container(horizontal=True, gap="small")
    for name, value, below, help in cards:
        row.metric(name, value, below, border=True, help=help, delta_color="off", delta_arrow="off")
    condition = [f"**All of this holds{rests_on}.**"] if rests_on else []
    sentences = [*condition, consequence(detection, unit), currencies(read), *at_most(private_plans)]
    st.caption(" ".join(sentences))


def _rests_on(experiment: Experiment) -> str:
    condition = experiment.condition
    return f" {as_text(str(condition))}" if condition else ""  # blanks at its ends go


def at_most(plans: Mapping[str, Plan]) -> list[str]:
    """Return a sentence on the methods that stop by themselves, whose guarantee is an upper limit, if any."""
    stopping = [label for label, plan in plans.items() if plan.stops]
    return [f"Stops by itself, so at most this much is spent: {', '.join(stopping)}."] if stopping else []


def consequence(detection: Worst, unit: str) -> str:
    """Describe the attack reading in a sentence. unit : of protection, "one row replaced"."""
    replaced = unit.removeprefix("one ").removesuffix(" replaced")
    others = "" if detection.same else f" ({detection.who}; less often with the other methods)"
    return (
        f"Even if {short(100 * FALSE_ALARMS)} % false alarms are allowed, a replaced {replaced} is noticed at most "
        f"{_percent(detection.value)} of the time{others}."
    )


def currencies(read: Mapping[str, Readings]) -> str:
    """Describe the cost of the runs in every currency that adds up; "none" where a method has no finite cost."""
    parts = []
    for name, title, sign in (("pure", "Pure ε", "="), ("rho", "zCDP ρ", "≤"), ("mu", "GDP μ", "≤")):
        reading = worst(read, name)
        if math.isfinite(reading.value):
            parts.append(f"{title} {sign} {short_up(reading.value)} ({reading.who}).")
        else:
            some = "" if reading.same else f" ({reading.who})"
            parts.append(f"{title}: none{some}.")
    return " ".join(parts)


def _equal(value: float, largest: float) -> bool:
    """Return true if two readings are the same in the digits that are shown."""
    return value == largest or math.isclose(value, largest, rel_tol=1e-3)


def _range(reading: Worst, text: Callable[[float], str]) -> str:
    """Describe the range of a reading over the methods in a sentence. text : formats a value."""
    if reading.same:
        return f"{reading.who[0].upper()}{reading.who[1:]}."
    low, high = text(reading.least), text(reading.value)
    return f"From {low} to {high} over the methods; shown is the largest, of {reading.who}."


def _percent(share: float) -> str:
    return f"{short_up(100 * share)} %"
