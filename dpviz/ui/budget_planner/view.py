"""The budget planner's first part: what a guarantee is worth, in every currency and in words."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import plotly.graph_objects as go
import streamlit as st

from dpviz.errors import UserError
from dpviz.numbers import short
from dpviz.plots import guarantee_figures
from dpviz.privacy import conversions, tradeoffs
from dpviz.privacy.budgets import Budget, RenyiDP, TradeOff
from dpviz.privacy.events import Event, Relation
from dpviz.privacy.statistics.noisy_means import Guarantee, NoisyMeans
from dpviz.ui import charts
from dpviz.ui.experiment.controls import CURRENCIES
from dpviz.ui.experiment.plan import Shown
from dpviz.ui.explain import SETTINGS_ONLY

ALL_CURRENCIES: Mapping[str, type[Budget]] = {**CURRENCIES, "renyi": RenyiDP, "attack": TradeOff}
ORDER = 8.0  # of the Rényi divergence that is shown


NEIGHBOURS: Mapping[Relation, str] = {
    "replace-one": "One row may be exchanged for any other; the number of rows is public (replace-one).",
    "add/remove-one": "One row may be added or removed; the number of rows is secret (add/remove-one).",
}


@dataclass(frozen=True)
class Releases:
    """What is planned where the visitor looks, for the picture of the attacker and the assumptions.

    events : what all of it together does to privacy. name : in the picture, with how many there are. protects : who is
        protected. batches, composition, constants : see `explain.assumptions`.
    """

    events: tuple[Event, ...]
    name: str
    protects: str
    batches: str
    composition: str
    constants: str


def of_means(means: NoisyMeans, budget: Budget, scale: float | None = None) -> Releases:
    """The noisy means that the first tabs ask about, with the noise that meets the budget or of a given scale; without
    events where there is no such noise."""
    events: tuple[Event, ...] = ()
    with suppress(UserError):  # said where the noise is shown
        events = tuple(means.events(budget) if scale is None else means.events_of_noise(scale))
    return Releases(
        events,
        f"the noise below ({means.iterations:,} noisy mean{'s' * (means.iterations != 1)})",
        protected(means),
        f"All releases here hold under {means.relation} neighbours. Composing them with releases that hold under the "
        "other relation is refused.",
        "Number of steps and noise are fixed in advance. The tightest accountant that applies is used; each is valid.",
        "Clip, rows and steps are declared. Clipping enforces the sensitivity whatever the data are.",
    )


def analyses(count: int) -> str:
    """So many of them, in words."""
    return f"{count} {'analysis' if count == 1 else 'analyses'}"


def protected(means: NoisyMeans) -> str:
    """Who is protected, in words; a batch of all rows without replacement is no batch."""
    whole = means.sampling == "wor" and means.batch_size == means.rows
    return means.replaced(sampling="all").protects if whole else means.protects


def names(delta: float, order: float) -> dict[str, str]:
    """What the currencies are called, in the order in which they are shown."""
    return {
        "epsilon": "Pure ε",
        "epsilon_at_delta": f"ε at δ = {short(delta)}",
        "rho": "ρ (zCDP)",
        "mu": "μ (Gaussian DP)",
        "renyi": f"Rényi at α = {short(order)}",
    }


def currencies(budget: Budget, delta: float) -> None:
    """The same guarantee in the other currencies; a dash and the reason where it implies none."""
    order = budget.own_order(ORDER)
    found = conversions.implied(budget, delta, order)
    row = st.container(horizontal=True)
    for name, title in names(delta, order).items():
        item = found[name]
        if item.value is None:
            value, help = "—", item.why
        elif item.exact:
            value, help = short(item.value), "Says exactly as much as the guarantee that was stated."
        else:
            value, help = f"≤ {short(item.value)}", "What every algorithm with this guarantee has; says less than it."
        row.metric(title, value, border=True, help=help)
    missing = list(dict.fromkeys(item.why for item in found.values() if item.value is None))
    if missing:
        st.caption(" ".join(missing))


def of_events(found: Guarantee) -> None:
    """What given releases cost in every currency; a dash and the reason where one does not exist."""
    row = st.container(horizontal=True)
    for name, title in names(found.delta, ORDER).items():
        if name in found.values:
            value = found.values[name]
            help = found.missing.get(name) or "Of these releases, by the best route to this currency."
            row.metric(title, "—" if value is None else f"≤ {short(value)}", border=True, help=help)
    if found.missing:
        st.caption(" ".join(found.missing.values()))


def consequences(budget: Budget, relation: Relation) -> None:
    """The guarantee in words: the best attacker's success, and what a suspicion can become."""
    st.markdown("\n".join(f"- {sentence}" for sentence in budget.consequences(relation)))


def attack_chart(budget: Budget, relation: Relation, planned: Releases | None) -> Shown:
    """The trade-off curve of the guarantee and, if anything is planned, of all of that together."""
    rates = guarantee_figures.RATES
    name, curve, said = "", None, ""
    if planned is not None and planned.events:
        name, curve = planned.name, tradeoffs.tradeoff(planned.events, rates)
        advantage = tradeoffs.advantage(planned.events)
        right = f"right in at most {short(50 * (1 + advantage))} of 100 such cases"
        said = f"Of {name}, as a whole: a guess is {right}, an advantage of {short(advantage)}. "
    unit = "one row replaced" if relation == "replace-one" else "one row added or removed"
    return show(
        guarantee_figures.tradeoff(budget.tradeoff(rates), curve, name),
        "planner_chart_tradeoff",
        "What an attacker can do",
        "Lowest possible rate of missed rows against the rate of false alarms",
        f"No test of {unit} lies below its trade-off curve. Of the guarantee: worst case over all algorithms with it. "
        f"{said}{SETTINGS_ONLY}",
    )


def show(
    figure: go.Figure,
    key: str,
    heading: str,
    alt: str,
    caption: str,
    to_download: Callable[[], go.Figure] | None = None,
) -> Shown:
    """Draw one chart, see `charts.show`; what was drawn, for the export."""
    charts.show(figure, key, heading, alt, caption, to_download=to_download)
    return [(heading, figure, caption)]
