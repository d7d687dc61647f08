"""The budget planner's first part: what a guarantee is worth, in every currency and in words."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import plotly.graph_objects as go
import streamlit as st

from dpviz.errors import UserError
from dpviz.numbers import short_down, short_up
from dpviz.plots import planner_figures
from dpviz.plots.elements.chart import chart as worded_chart
from dpviz.privacy import conversions, tradeoffs
from dpviz.privacy.budgets import Budget, RenyiDP, TradeOff
from dpviz.privacy.events import Event, Relation
from dpviz.privacy.statistics.noisy_means import Guarantee, NoisyMeans
from dpviz.ui import charts
from dpviz.ui.budget_planner import texts
from dpviz.ui.experiment.controls import CURRENCIES
from dpviz.ui.experiment.plan import Shown

ALL_CURRENCIES: Mapping[str, type[Budget]] = {**CURRENCIES, "renyi": RenyiDP, "attack": TradeOff}
ORDER = 8.0  # order α of the Rényi divergence on the screen

NEIGHBOURS: Mapping[Relation, str] = {
    "replace-one": "One row may be exchanged for any other; the number of rows is public.",
    "add/remove-one": "One row may be added or removed; the number of rows is secret.",
}


@dataclass(frozen=True)
class Releases:
    """Releases planned in the open section, for the chart of the attacker and for the assumptions.

    events : mechanisms of all of it together. name : of the releases in the chart, with their number. protects : who is
        protected, in words.
    batches, composition, constants : sentences for `explain.assumptions`.
    """

    events: tuple[Event, ...]
    name: str
    protects: str
    batches: str
    composition: str
    constants: str


def of_means(means: NoisyMeans, budget: Budget, scale: float | None = None) -> Releases:
    """Return the noisy means of the first tabs, with noise of `scale` or, if None, the noise that meets the budget.

    Without events where no noise meets the budget.
    """
    events: tuple[Event, ...] = ()
    with suppress(UserError):  # the section that draws the noise shows it
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
    """Return the number of analyses in words."""
    return f"{count} {'analysis' if count == 1 else 'analyses'}"


def protected(means: NoisyMeans) -> str:
    """Return who is protected, in words; a batch of all rows without replacement is no batch."""
    uses_all = means.sampling == "wor" and means.batch_size == means.rows
    return means.replaced(sampling="all").protects if uses_all else means.protects


def names(delta: float, order: float) -> dict[str, str]:
    """Return the titles of the currencies by key, in the order of the screen."""
    return {
        "epsilon": "Pure ε",
        "epsilon_at_delta": f"ε at δ = {short_up(delta)}",
        "rho": "ρ (zCDP)",
        "mu": "μ (Gaussian DP)",
        "renyi": f"Rényi at α = {short_down(order)}",
    }


def currencies(budget: Budget, delta: float) -> None:
    """Show the guarantee in the other currencies; a dash and the reason where it implies none."""
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
    """Show the guarantee in words, with what a noticed row and a suspicion can become, and in the other currencies."""
    st.markdown("\n".join(f"- {sentence}" for sentence in budget.consequences(relation)))
    currencies(budget, delta)
    return []


def of_events(cost: Guarantee) -> None:
    """Show the cost of given releases in every currency; a dash and the reason where there is none."""
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
    """Draw numbers in a row. values : by title, the text of the number and its help."""
    row = st.container(horizontal=True)
    for title, (value, help) in values.items():
        row.metric(title, value, border=True, help=help)


def by_name(values: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    """Return the values by name without None; number a repeated name by its position in `values`."""
    result: dict[str, float] = {}
    for number, (name, value) in enumerate(values, 1):
        if value is not None:
            result[f"{name} ({number})" if name in result else name] = value
    return result


def in_python(program: str) -> None:
    """Draw an expander with a program that computes the same."""
    with st.expander("The same in Python", icon=":material/code:"):
        st.code(program, language="python")


def attack_chart(budget: Budget, relation: Relation, planned: Releases | None) -> Shown:
    """Draw the trade-off curve of the guarantee and, if any are planned, of all releases together."""
    rates = planner_figures.RATES
    name, curve, sentence = "", None, ""
    if planned is not None and planned.events:
        name, curve = planned.name, tradeoffs.tradeoff(planned.events, rates)
        advantage = tradeoffs.advantage(planned.events)
        right = f"right in at most {short_up(50 * (1 + advantage))} of 100 such cases"
        sentence = f"Of {name}, as a whole: {right}."
    unit = "one row replaced" if relation == "replace-one" else "one row added or removed"
    return chart(
        "tradeoff",
        planner_figures.tradeoff(budget.tradeoff(rates), curve, name),
        "What an attacker can do",
        "Lowest possible rate of missed rows against the rate of false alarms",
        f"No test of {unit} lies below its trade-off curve. {sentence}",
    )


def chart(
    name: str,
    figure: go.Figure,
    heading: str,
    alt: str,
    caption: str,
    *,
    to_download: Callable[[], go.Figure] | None = None,
) -> Shown:
    """Draw a chart of settings alone, and return it for the export. name : of it among the page's keys."""
    made = worded_chart(figure, heading, alt, caption, to_download=to_download)
    return [charts.show(made, f"planner_chart_{name}")]
