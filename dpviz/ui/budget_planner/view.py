"""What a guarantee is worth, in every currency and in words, and what an attacker can do; for all sections."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from dpviz.errors import UserError
from dpviz.numbers import short_down, short_up
from dpviz.plots import planner_figures
from dpviz.plots.elements.chart import chart as worded_chart
from dpviz.privacy import conversions, tradeoffs
from dpviz.privacy.budgets import Budget, RenyiDP, TradeOff
from dpviz.privacy.deployments import AS_OF, deployments
from dpviz.privacy.events import Event, Relation
from dpviz.privacy.statistics.noisy_means import Guarantee, NoisyMeans
from dpviz.ui import charts, components
from dpviz.ui.budget_planner import texts
from dpviz.ui.controls import Panel
from dpviz.ui.experiment.controls import CURRENCIES
from dpviz.ui.experiment.plan import Charts
from dpviz.ui.markdown import show_table

# The kinds of budget that the page offers: more than other pages do.
ALL_CURRENCIES: Mapping[str, type[Budget]] = {**CURRENCIES, "renyi": RenyiDP, "attack": TradeOff}
ORDER = 8.0  # order α of the Rényi divergence on the screen


@dataclass(frozen=True)
class Releases:
    """Releases planned in the open section, for the chart of the attacker and for the assumptions.

    events : the privacy events of all releases together. name : name of the releases in the chart, with their number.
    relation : the neighbouring relation under which they are private. protects : who is protected, in words.
    batches, composition, constants : sentences for `explain.assumptions`.
    """

    events: tuple[Event, ...]
    name: str
    relation: Relation
    protects: str
    batches: str
    composition: str
    constants: str


def releases_of_means(means: NoisyMeans, budget: Budget, scale: float | None = None) -> Releases:
    """Return the noisy means of the sidebar as planned releases, with the noise that meets the budget.

    They have no events where no noise meets the budget. scale : scale of the noise; None for the one by the budget.
    """
    events: tuple[Event, ...] = ()
    with suppress(UserError):  # the section that draws the noise also draws the error
        events = tuple(means.events(budget) if scale is None else means.events_of_noise(scale))
    return Releases(
        events=events,
        name=f"the noise below ({means.iterations:,} noisy mean{'s' * (means.iterations != 1)})",
        relation=means.relation,
        protects=protected(means),
        batches=texts.NEIGHBOURS.format(relation=means.relation),
        composition=texts.MEANS_FIXED,
        constants=texts.MEANS_DECLARED,
    )


def count_text(count: int) -> str:
    """Return the number of analyses in words."""
    return f"{count} {'analysis' if count == 1 else 'analyses'}"


def protected(means: NoisyMeans) -> str:
    """Return who is protected, in words.

    A batch of all rows, drawn without replacement, counts as no batch: nothing is sampled then.
    """
    uses_all = means.sampling == "wor" and means.batch_size == means.rows
    return means.replaced(sampling="all").protects if uses_all else means.protects


def currency_titles(delta: float, order: float) -> dict[str, str]:
    """Return the titles of the currencies by key, in the order of the screen; Rényi divergences have an order α."""
    return {
        "epsilon": "Pure ε",
        "epsilon_at_delta": f"ε at δ = {short_up(delta)}",
        "rho": "ρ (zCDP)",
        "mu": "μ (Gaussian DP)",
        "renyi": f"Rényi at α = {short_down(order, 5)}",
    }


def show_worth(budget: Budget, relation: Relation, rows_per_person: int, delta: float) -> None:
    """Draw what a guarantee is worth: sentences on how likely a row is noticed and what a suspicion can become, and
    what it implies in every currency, with a dash and the reason where that is nothing."""
    st.markdown("\n".join(f"- {sentence}" for sentence in budget.consequences(relation, rows_per_person)))
    order = budget.own_order(ORDER)  # ORDER unless the budget has one of its own
    implied = conversions.implied(budget, delta, order)
    values: dict[str, tuple[str, str]] = {}
    for name, title in currency_titles(delta, order).items():
        item = implied[name]
        if item.value is None:
            values[title] = "—", item.why
        elif item.exact:
            values[title] = short_up(item.value), "The number that was stated can be computed back from this one."
        else:
            help = "What every algorithm with this guarantee has; says less than it."
            values[title] = f"≤ {short_up(item.value)}", help
    metrics(values)
    missing = list(dict.fromkeys(item.why for item in implied.values() if item.value is None))
    if missing:
        st.caption(" ".join(missing))


def show_deployments(budget: Budget, delta: float) -> Charts:
    """Draw the published guarantees of others by what they protect, as a chart and a table; return the chart."""
    st.subheader("Where others stand", anchor=False)
    groups: dict[str, list[tuple[float, str]]] = {}
    for d in deployments():
        text = f"{d.organisation}, {d.product} ({d.year}): {d.stated}, for {d.unit}"
        groups.setdefault(f"{d.group}, {d.model}", []).append((d.epsilon_at(delta), text))
    yours = budget.to_epsilon_at(delta)
    yours_text = "" if yours is None else f" Yours: {short_up(yours)}."
    figures = chart(
        "others",
        planner_figures.positions(groups, here=yours, title="ε"),
        "Published guarantees",
        "ε of published releases, by what they protect and by whom the noise is added, with yours",
        f"Not a ranking: what is protected differs, and so does what is released. A published ρ is read at "
        f"δ = {short_up(delta)}; other ε are as published. What is ε for a row added or removed is up to 2 ε for one "
        f"replaced.{yours_text}",
    )
    with st.expander("Sources and notes", icon=":material/list:"):
        table = pd.DataFrame(
            {
                "Organisation": [d.organisation for d in deployments()],
                "Product": [d.product for d in deployments()],
                "Year": [str(d.year) for d in deployments()],
                "Protected": [f"{d.unit} ({d.model})" for d in deployments()],
                "Published": [d.stated for d in deployments()],
                "Note": [d.note for d in deployments()],
                "Source": [d.source.split(" ; ")[0] for d in deployments()],  # the first of several
            }
        )
        links = {"Source": st.column_config.LinkColumn()}
        show_table(table, "Published guarantees with their notes and sources", column_config=links)
        st.caption(f"From a registry that volunteers fill in, as of {AS_OF}, and a list of real-world uses.")
    return figures


def show_cost(cost: Guarantee) -> None:
    """Draw the cost of given releases in every currency; a dash and the reason where there is none."""
    values: dict[str, tuple[str, str]] = {}
    for name, title in currency_titles(cost.delta, ORDER).items():
        if name in cost.values:  # Rényi divergences are not
            value = cost.values[name]
            help = cost.missing.get(name) or "Of these releases, by the best route to this currency."
            values[title] = "—" if value is None else f"≤ {short_up(value)}", help
    metrics(values)
    if cost.missing:
        st.caption(" ".join(cost.missing.values()))


def metrics(values: Mapping[str, tuple[str, str]]) -> None:
    """Draw numbers in a row. values : for each number, by title, its text and its help."""
    row = st.container(horizontal=True)
    for title, (value, help) in values.items():
        row.metric(title, value, border=True, help=help)


def by_name(values: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    """Return the values by name, without those that are None, for bars of a chart.

    A name that occurs again gets the number of its position, as two bars need two names.
    """
    result: dict[str, float] = {}
    for number, (name, value) in enumerate(values, 1):
        if value is not None:
            while name in result:
                name = f"{name} ({number})"
            result[name] = value
    return result


def in_python(program: str) -> None:
    """Draw an expander with a program that computes the numbers of the section."""
    with st.expander("The same in Python", icon=":material/code:"):
        st.code(program, language="python")


def attacked_people(budget: Budget, means: NoisyMeans, planned: Releases | None, relation: Relation) -> Charts:
    """Draw 100 people, and about how many of them an attacker is right: by guessing, by the planned releases, and by
    any releases with this guarantee, all under the neighbouring relation `relation`."""
    # Right answers of 100, by what the attacker uses; with an advantage a over guessing they are 50 (1 + a).
    right = {"guessing": 50.0}
    with_plan = ""
    if planned is not None and planned.events:
        by_plan = 50 * (1 + tradeoffs.advantage(planned.events))
        right[f"also with {planned.name}"] = by_plan
        with_plan = f" {short_up(by_plan)} with the plan,"
    by_guarantee = 50 * (1 + budget.advantage())
    right["also with any algorithm of this guarantee"] = by_guarantee
    rows, were = ("row", "was") if means.rows_per_person == 1 else ("rows", "were")
    chance = f"{were} replaced or not" if relation == "replace-one" else f"{were} in the data or not"
    return chart(
        "people_attacked",
        planner_figures.hundred_cases(right),
        "What an attacker can do",
        "Of 100 people, how many the best attacker is right about",
        f"Of 100 people whose {rows} {chance}, as a coin decided, an attacker who knows everybody else's {rows} is "
        f"right about 50 by guessing, about at most{with_plan} {short_up(by_guarantee)} with anything of this "
        "guarantee.",
    )


def attack_chart(
    panel: Panel, budget: Budget, means: NoisyMeans, planned: Releases | None, relation: Relation
) -> Charts:
    """Draw the trade-off curve that the guarantee allows and, if any are planned, that of all releases together.

    A trade-off curve is the lowest rate of missed rows that an attacker can have at each rate of false alarms, here
    under the neighbouring relation `relation`.
    """
    rates = planner_figures.RATES
    name, curve, sentence = "", None, ""
    if planned is not None and planned.events:
        name, curve = planned.name, tradeoffs.tradeoff(planned.events, rates)
        advantage = tradeoffs.advantage(planned.events)
        # A case: a coin decides whether the rows are changed; the best guess is right in (1 + advantage)/2 of them.
        right = short_up(50 * (1 + advantage))
        sentence = (
            f"Of {name}, as a whole: right in at most {right} of 100 cases, where a coin decides about the change."
        )
    unit = "one row" if means.rows_per_person == 1 else "the rows of one person"
    change = "replaced" if relation == "replace-one" else "added or removed"
    return chart(
        "tradeoff",
        planner_figures.tradeoff(budget.tradeoff(rates), curve, name),
        "What an attacker can do",
        "Lowest possible rate of missed rows against the rate of false alarms",
        f"No test of {unit} {change} lies below its trade-off curve. {sentence}",
        panel=panel,
    )


def chart(
    name: str,
    figure: go.Figure,
    heading: str,
    alt: str,
    caption: str,
    *,
    to_download: Callable[[], go.Figure] | None = None,
    panel: Panel | None = None,
) -> Charts:
    """Draw a chart that depends on settings alone; return it in a list, for the download.

    name : part of its key. to_download : returns the figure that is saved, where that differs from the one drawn.
    panel : that of the page, for a chart that keeps the lines before a slider was moved, pale, next to the new ones.
    """
    captioned = worded_chart(figure, heading, alt, caption, to_download=to_download)
    key = f"planner_chart_{name}"
    if panel is None:
        return [charts.show(captioned, key)]
    # The settings are identified by the figure that they give.
    leads = components.Leads(values=panel.lead_texts(), settings=str(hash(figure.to_json())))
    return [charts.show(captioned, key, group=panel.page, leads=leads)]
