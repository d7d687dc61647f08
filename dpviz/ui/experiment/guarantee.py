"""The guarantee line of a page: the budget, its readings in other currencies, and the power of an attacker.

A reading is an upper bound on the privacy cost of a whole run, computed from the events of its plan: the accesses to
the raw data, each with the noise that hides it.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

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
from dpviz.ui.markdown import escape_sentence

DELTA = ApproximateDP().delta  # the δ at which ε is read by default
FALSE_ALARMS = 0.01  # the rate of false alarms that the attack reading allows the attacker


@dataclass(frozen=True)
class Readings:
    """The readings of one plan. A currency in which its events have no finite cost reads infinity.

    pure, rho, mu : costs as ε of pure DP, ρ of zero-concentrated DP and μ of Gaussian DP.
    epsilon_at_delta, accountant : the smallest ε at δ that any accountant proves, and the name of that accountant.
    detection : the largest rate at which an attacker notices that a row was replaced, with false alarms at the rate
    FALSE_ALARMS.
    """

    pure: float
    rho: float
    mu: float
    epsilon_at_delta: float
    accountant: str
    detection: float


@dataclass(frozen=True)
class Worst:
    """The range of one reading over several methods.

    value, smallest : the largest and the smallest value. who : text that names the methods with the largest.
    """

    value: float
    who: str
    smallest: float

    @property
    def same(self) -> bool:
        """True if all methods have the same value, in the digits that are shown."""
        return _equal(self.smallest, self.value)


def readings(plan: Plan, delta: float) -> Readings:
    """Compute all readings of a run by a plan, with the releases that it depends on. Cached.

    They are upper bounds; for Gaussian noise on all rows they are exact.
    """
    statement = plan.statement  # the plan as the unit of protection sees it, a row or a person
    return _readings(tuple(statement.facts.released), statement.events, statement.budget, delta)


@lru_cache(64)  # the page is drawn again much more often than its plans change
def _readings(earlier: tuple[Event, ...], events: tuple[Event, ...], budget: Budget, delta: float) -> Readings:
    """Compute `readings`. earlier, events : those of the releases from which the plan has facts, and those of its run.
    budget : of all these events together."""
    tightest = accountants.tightest(events, delta, earlier)
    # After earlier releases at the cost ε, the false alarms that a test of the run itself may use have grown by at most
    # the factor e^ε; 700 keeps it finite.
    earlier_epsilon = min(accountants.total(earlier, "epsilon"), 700.0)
    false_alarms = min(1.0, FALSE_ALARMS * math.exp(earlier_epsilon))
    costs = {currency: accountants.total((*earlier, *events), currency) for currency in UNITS}
    return Readings(
        pure=costs["epsilon"],
        rho=costs["rho"],
        mu=costs["mu"],
        epsilon_at_delta=tightest.epsilon,
        accountant=accountants.METHOD_NAMES[tightest.method],
        # A trade-off is a lower bound on the rate of misses; of the two that hold, the larger one counts.
        detection=1 - max(float(tradeoff(events, false_alarms)), float(budget.tradeoff(FALSE_ALARMS))),
    )


def worst(by_label: Mapping[str, Readings], name: str) -> Worst:
    """Return the largest value of one reading over several methods, which is an upper bound for each of them.

    by_label : readings by label of the method; at least one. name : of the reading, a field of `Readings`.
    """
    values = {label: float(getattr(item, name)) for label, item in by_label.items()}
    largest = max(values.values())
    labels = [label for label, value in values.items() if _equal(value, largest)]
    if len(labels) == 1:
        methods = labels[0]
    elif len(labels) == len(values):
        methods = "every method"
    else:
        methods = f"{labels[0]} and {len(labels) - 1} more"
    return Worst(largest, methods, min(values.values()))


def only_private(plans: Mapping[str, Plan]) -> dict[str, Plan]:
    """Return those of the plans, by label, whose method is private; the others are references."""
    return {label: plan for label, plan in plans.items() if plan.private}


def example_method(plans: Mapping[str, Plan]) -> str:
    """Return the label of the method whose noise the page shows in a card: the first whose noise changes over the
    steps, as this tells most; the first of all if the noise of none changes."""
    for label, plan in plans.items():
        if any(np.ptp(scale) > 0 for scale in plan.noise.values()):
            return label
    return next(iter(plans))


def delta(panel: Panel, budget: Settings[Budget], under_pure: bool = False) -> float:
    """Return the δ at which the page reads ε.

    Under pure ε it is DELTA, unless `under_pure`. Else it is the budget's own δ if it has one, or the value of a
    control that is drawn here. A δ out of range is moved to the nearest end of its range.

    budget : the class of the budget, with the values of its controls. under_pure : true to draw the control under
    pure ε, too.
    """
    if budget.cls is PureDP and not under_pure:
        return DELTA
    (_, control) = ApproximateDP.controls()  # those of ε and δ
    assert control.low is not None and control.high is not None
    if control.name in budget.values:
        value = budget.values[control.name]
    else:
        help = "At which δ the guarantee is read as (ε, δ). It changes the readings only, not the noise."
        if under_pure:  # of the planner, which can be asked for a budget in (ε, δ) under any other
            help = "The δ at which ε is read, and that of a smallest budget in (ε, δ). Your budget's noise stays."
        value = panel.number(replace(control, label="δ of the readings", symbol="", help=help), "delta_reading")
    return min(max(value or control.default, control.low), control.high)  # an empty input has no value


class Card(NamedTuple):
    """A number in a frame: its name, its value, the line below, and the help."""

    name: str
    value: str
    below: str
    help: str


def noise_card(label: str, plan: Plan) -> Card:
    """Return the card with the scale of a method's noise, in the first and in the last step that adds any.

    A method may add noise to several quantities, such as gradients and function values; the first that has any counts.
    """
    below = f"{label}, {plan.iterations:,} step{'s' * (plan.iterations > 1)}"
    title = "Noise at most" if plan.noise_varies else "Noise"  # `noise_varies`: the scales are upper bounds
    for name, scale in plan.noise.items():
        added = scale[scale > 0]
        if added.size:
            help = f"Scale of the noise that is added to each coordinate of the {name}."
            return Card(f"{title}, first → last step", first_to_last(added), below, help)
    return Card("Noise", "none", below, "This method adds no noise: what is random is which answers it selects.")


def first_to_last(values: np.ndarray) -> str:
    """Return the first and the last of `values` (k,) as text, such as "2 → 0.5"; one number if they are equal."""
    return short(values[0]) if values[0] == values[-1] else f"{short(values[0])} → {short(values[-1])}"


def in_words(experiment: Experiment, plans: Mapping[str, Plan]) -> str:
    """Return the guarantee that each private method of an experiment has, in one line."""
    several = "each method" if len(only_private(plans)) > 1 else "the method"
    return f"Guarantee of {several}: {experiment.promise}."


def show_sentence(experiment: Experiment, plans: Mapping[str, Plan], key: str) -> None:
    """Draw the guarantee of an experiment in one line, in a container with the key `key`.

    While a slider is dragged, the browser replaces the line in this container by that of the slider's position.
    """
    subject, _, promise = in_words(experiment, plans).partition(": ")  # to draw the subject in bold
    with st.container(key=key, width="content"):
        st.markdown(f"**{subject}:** {escape_sentence(promise)}", width="content")
    if experiment.condition:
        explain.privacy_badge(experiment.privacy)


def show_cards(
    experiment: Experiment, plans: Mapping[str, Plan], delta: float, make_card: Callable[[str, Plan], Card] = noise_card
) -> None:
    """Draw four cards side by side: the budget, ε at `delta`, the noise of one method, and the attack reading.

    The readings are the largest over the private methods, so they hold for each. A caption below has them in sentences.
    make_card : returns the card of the noise, given the label and the plan of the method that is shown.
    """
    budget, unit, condition = experiment.budget, experiment.problem.unit, experiment.condition
    rests_on = f" {escape_sentence(str(condition))}" if condition else ""  # such as " if nobody learns the seed"
    private_plans = only_private(plans)
    by_label = {name: readings(plan, delta) for name, plan in private_plans.items()}
    epsilon, detection = worst(by_label, "epsilon_at_delta"), worst(by_label, "detection")
    accountant_names = ", ".join(dict.fromkeys(item.accountant for item in by_label.values()))
    budget_notes = [budget.name, "one person" if experiment.problem.person else unit]  # short, for a telephone
    if rests_on:
        budget_notes.append(experiment.privacy.removeprefix("private "))  # such as "if known beforehand"
    label = example_method(private_plans)  # whose noise is shown
    cards = (
        Card(
            "Budget of each method",
            budget.describe(),
            ", ".join(budget_notes),
            f"The whole run of each method meets this guarantee{rests_on}; protected is {unit}.",
        ),
        Card(
            f"Reading at δ = {short_up(delta)}",
            f"ε ≤ {short_up(epsilon.value)}",
            epsilon.who,
            f"{_range(epsilon, short_up)} Of each method by the tightest of our accountants: {accountant_names}. "
            "Upper bounds.",
        ),
        make_card(label, private_plans[label]),
        Card(
            "Attack reading",
            f"≤ {_percent(detection.value)}",
            detection.who,
            f"{_range(detection, _percent)} {consequence(detection, unit)}",
        ),
    )
    row = st.container(horizontal=True, gap="small")
    for card in cards:
        row.metric(card.name, card.value, card.below, border=True, help=card.help, delta_color="off", delta_arrow="off")
    reservation = [f"**All of this holds{rests_on}.**"] if rests_on else []
    sentences = [*reservation, consequence(detection, unit), currencies(by_label)]
    stopping = [label for label, plan in private_plans.items() if plan.stops]
    if stopping:
        sentences.append(f"Stops by itself, so at most this much is spent: {', '.join(stopping)}.")
    st.caption(" ".join(sentences))


def consequence(detection: Worst, unit: str) -> str:
    """Return the attack reading as a sentence.

    detection : the largest `detection` of the methods. unit : the unit of protection, such as "one row replaced".
    """
    replaced = unit.removeprefix("one ").removesuffix(" replaced")
    others = "" if detection.same else f" ({detection.who}; less often with the other methods)"
    return (
        f"Even if {short(100 * FALSE_ALARMS)} % false alarms are allowed, a replaced {replaced} is noticed at most "
        f"{_percent(detection.value)} of the time{others}."
    )


def currencies(by_label: Mapping[str, Readings]) -> str:
    """Return sentences with the largest cost of the methods in each currency in which costs add up.

    by_label : readings by label of the method. A currency has a dash if no finite cost of some method is known in it.
    """
    sentences = []
    for name, title in (("pure", "Pure ε"), ("rho", "zCDP ρ"), ("mu", "GDP μ")):
        reading = worst(by_label, name)
        if math.isfinite(reading.value):
            sentences.append(f"{title} ≤ {short_up(reading.value)} ({reading.who}).")
        else:
            sentences.append(f"{title}: —." if reading.same else f"{title}: — ({reading.who}).")
    return " ".join(sentences)


def _equal(value: float, largest: float) -> bool:
    """Return true if a reading is the same as the largest in the digits that are shown, about three."""
    return math.isclose(value, largest, rel_tol=1e-3)  # true for two infinities, too


def _range(reading: Worst, text: Callable[[float], str]) -> str:
    """Return a sentence with the range of a reading over the methods. text : formats one value."""
    low, high = text(reading.smallest), text(reading.value)
    if reading.same or low == high:
        return f"{reading.who[0].upper()}{reading.who[1:]}."
    return f"From {low} to {high} over the methods; shown is the largest, of {reading.who}."


def _percent(share: float) -> str:
    """Return a share in [0, 1] as percent, rounded up, since it is an upper bound."""
    return f"{short_up(100 * share)} %"
