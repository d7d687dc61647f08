"""The budget planner's first part: what a guarantee is worth, in every currency and in words."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from dpviz.errors import UserError
from dpviz.numbers import short_down, short_up
from dpviz.plots import planner_figures
from dpviz.plots.elements.chart import worded
from dpviz.privacy import conversions, tradeoffs
from dpviz.privacy.budgets import Budget, RenyiDP, TradeOff
from dpviz.privacy.events import Event, Relation
from dpviz.privacy.statistics.noisy_means import Guarantee, NoisyMeans
from dpviz.ui import charts
from dpviz.ui.budget_planner import texts
from dpviz.ui.experiment.controls import CURRENCIES
from dpviz.ui.experiment.plan import Shown

ALL_CURRENCIES: Mapping[str, type[Budget]] = {**CURRENCIES, "renyi": RenyiDP, "attack": TradeOff}
_worded = worded(__package__)
ORDER = 8.0  # of the Rényi divergence that is shown


NEIGHBOURS: Mapping[Relation, str] = {
    "replace-one": "One row may be exchanged for any other; the number of rows is public.",
    "add/remove-one": "One row may be added or removed; the number of rows is secret.",
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
        texts.NEIGHBOURS.format(relation=means.relation),
        texts.MEANS_FIXED,
        texts.MEANS_DECLARED,
    )


def analyses(count: int) -> str:
    """So many of them, in words."""
    return f"{count} {'analysis' if count == 1 else 'analyses'}"


def protected(means: NoisyMeans) -> str:
    """Who is protected, in words; a batch of all rows without replacement is no batch."""
    uses_all = means.sampling == "wor" and means.batch_size == means.rows
    return means.replaced(sampling="all").protects if uses_all else means.protects


def names(delta: float, order: float) -> dict[str, str]:
    """What the currencies are called, in the order in which they are shown."""
    return {
        "epsilon": "Pure ε",
        "epsilon_at_delta": f"ε at δ = {short_up(delta)}",
        "rho": "ρ (zCDP)",
        "mu": "μ (Gaussian DP)",
        "renyi": f"Rényi at α = {short_down(order)}",
    }


def currencies(budget: Budget, delta: float) -> None:
    """The same guarantee in the other currencies; a dash and the reason where it implies none."""
    order = budget.own_order(ORDER)
    implied = conversions.implied(budget, delta, order)
    values: dict[str, tuple[str, str]] = {}
    for name, title in names(delta, order).items():
        item = implied[name]
        if item.value is None:
            values[title] = "—", item.why
        elif item.exact:
            values[title] = short_up(item.value), "Says exactly as much as the guarantee that was stated."
        else:
            values[title] = (
                f"≤ {short_up(item.value)}",
                "What every algorithm with this guarantee has; says less than it.",
            )
    metrics(values)
    missing = list(dict.fromkeys(item.why for item in implied.values() if item.value is None))
    if missing:
        st.caption(" ".join(missing))


def worth(budget: Budget, relation: Relation, delta: float) -> Shown:
    """The guarantee in words, what a noticed row and a suspicion can become, and in the other currencies."""
    st.markdown("\n".join(f"- {sentence}" for sentence in budget.consequences(relation)))
    currencies(budget, delta)
    return []


def of_events(cost: Guarantee) -> None:
    """What given releases cost in every currency; a dash and the reason where one does not exist."""
    values: dict[str, tuple[str, str]] = {}
    for name, title in names(cost.delta, ORDER).items():
        if name in cost.values:
            value = cost.values[name]
            help = cost.missing.get(name) or "Of these releases, by the best route to this currency."
            values[title] = "—" if value is None else f"≤ {short_up(value)}", help
    metrics(values)
    if cost.missing:
        st.caption(" ".join(cost.missing.values()))


def metrics(values: Mapping[str, tuple[str, str]]) -> None:
    """Numbers in a row, by their titles: what is shown of each, and its help."""
    row = st.container(horizontal=True)
    for title, (value, help) in values.items():
        row.metric(title, value, border=True, help=help)


def by_name(values: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    """The values by name, None left out; a second one of the same name is numbered by its place."""
    named: dict[str, float] = {}
    for number, (name, value) in enumerate(values, 1):
        if value is not None:
            named[f"{name} ({number})" if name in named else name] = value
    return named


def in_python(program: str) -> None:
    """The lines that compute the same."""
    with st.expander("The same in Python", icon=":material/code:"):
        st.code(program, language="python")


def attack_chart(budget: Budget, relation: Relation, planned: Releases | None) -> Shown:
    """The trade-off curve of the guarantee and, if anything is planned, of all of that together."""
    rates = planner_figures.RATES
    name, curve, said = "", None, ""
    if planned is not None and planned.events:
        name, curve = planned.name, tradeoffs.tradeoff(planned.events, rates)
        advantage = tradeoffs.advantage(planned.events)
        right = f"right in at most {short_up(50 * (1 + advantage))} of 100 such cases"
        said = f"Of {name}, as a whole: {right}."
    unit = "one row replaced" if relation == "replace-one" else "one row added or removed"
    return chart("tradeoff", planner_figures.tradeoff(budget.tradeoff(rates), curve, name), unit=unit, said=said)


def chart(name: str, figure: go.Figure, **values: Any) -> Shown:
    """Draw the chart of this name, with its words and these values in them, as `worded` joins them; for the export."""
    return [charts.show(_worded(name, figure, **values), f"planner_chart_{name}")]
