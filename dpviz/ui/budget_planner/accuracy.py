"""A model that is trained in T noisy steps: the error that its bound guarantees, and the rows or the budget for one."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpviz import families
from dpviz.errors import UserError
from dpviz.experiments import accuracy
from dpviz.experiments.accuracy import ErrorBound
from dpviz.numbers import short, short_down, short_up
from dpviz.plots import planner_figures
from dpviz.plots.elements.chart import worded
from dpviz.privacy import conversions, tradeoffs
from dpviz.privacy.budgets import Budget, RenyiDP, TradeOff
from dpviz.privacy.events import Event, Relation
from dpviz.privacy.statistics.noisy_means import Guarantee, NoisyMeans
from dpviz.specification import Control, registered
from dpviz.ui import charts
from dpviz.ui.budget_planner import tabs, texts
from dpviz.ui.controls import Panel, Settings
from dpviz.ui.experiment.controls import CURRENCIES
from dpviz.ui.experiment.plan import Shown
from dpviz.ui.markdown import sentence

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


SHARED = ("rows", "noise", "clip", "iterations")  # what a bound takes of the noisy means
POINTS, FEW = 24, 8  # of a curve; of one that follows a slider
TIMES, NEAR = 30.0, 10.0  # from the middle of these curves to their ends


@st.cache_resource
def bounds() -> Mapping[str, type[ErrorBound]]:
    """The error bounds of all families, by the last word of their kind."""
    families.load_all()
    return {cls.kind.rpartition(".")[2]: cast(type[ErrorBound], cls) for cls in registered(ErrorBound)}


def _method() -> Control:
    titles = {name: cls.title for name, cls in bounds().items()}
    return Control("method", "Algorithms", "Whose error bound is used.", next(iter(titles)), str, options=titles)


def _own(cls: type[ErrorBound]) -> list[Control]:
    """The controls that a bound has beside those of the noisy means."""
    return [control for control in cls.controls() if control.name not in SHARED]


def _built(cls: type[ErrorBound], means: NoisyMeans, values: Mapping[str, Any]) -> ErrorBound:
    """Raises UserError."""
    known = {control.name for control in cls.controls()}
    shared = {name: getattr(means, name) for name in SHARED if name in known}
    return Settings(cls, {**shared, **values}).build()


def answer(
    panel: Panel, means: NoisyMeans, budget: Budget, wanted: float, head: DeltaGenerator, by_rows: bool
) -> Shown:
    """Draw at `head` the error of the model, or the rows that it needs, and the noise of its steps."""
    method = _method()
    name = panel.peek(method, "method")
    cls = bounds()[name]
    with head:
        try:
            noise = texts.STEP_NOISE.format(steps=means.iterations, noise=tabs.noise_in_words(means, budget))
        except UserError as error:
            noise = sentence(str(error))
        try:
            bound = _built(cls, means, {own.name: panel.peek(own, f"{name}_{own.name}") for own in _own(cls)})
            draw = _rows if by_rows else _error
            return draw(bound, means.rows, budget, wanted, noise)
        except UserError as error:
            st.markdown(noise)
            st.caption(f"{sentence(error.title)}{': ' * bool(error.title)}{sentence(str(error))}")
            return []


def _error(bound: ErrorBound, rows: int, budget: Budget, wanted: float, noise: str) -> Shown:
    """The error at this budget, and against others. noise : a sentence on that of a step."""
    best, control = bound.best(budget), budget.controls()[0]
    after = f"after {best.iterations:,} steps" if best.iterations else "at the start; no steps are proven to lower it"
    said = f"{bound.error_title} ≤ **{short_up(best.bound)}** {after}."
    st.markdown(f"{_proven(best.bound <= wanted)}: at {budget.describe()}, {rows:,} rows give {said} {noise}")
    amount = getattr(budget, control.name)
    amounts, proven = _by_budget(bound, budget, FEW, NEAR)
    mark = amount, best.bound, f"{control.symbol} = {short(amount)}: {short_up(best.bound)}"
    figure = planner_figures.proven_error(amounts, proven, f"Budget {control.symbol}", bound.error_title, wanted, mark)
    return chart("error", figure, error=bound.error_title, model=bound.title)


def _rows(bound: ErrorBound, rows: int, budget: Budget, wanted: float, noise: str) -> Shown:
    """The rows for the error that is wanted, and the error with others. noise : as in `_error`."""
    needed = accuracy.rows_needed(bound, wanted, budget)
    at, error = budget.describe(), f"{bound.error_title} ≤ {short(wanted)}"
    if needed is None:
        said = f"no number of rows up to {accuracy.MOST_NEEDED:,.0f} is proven to give {error}."
    else:
        said = f"{error} needs **{needed:,} rows** by the bound; you have {rows:,}."
    st.markdown(f"{_proven(needed is not None and needed <= rows)}: at {at}, {said} {noise}")
    low, high = sorted((rows, needed or rows))
    axis = np.unique(np.geomspace(max(1, low / 4), high * 4, FEW).round().astype(int))
    proven = np.array([bound.model_copy(update={"rows": n}).best(budget).bound for n in axis.tolist()])
    mark = None if needed is None else (float(needed), wanted, f"n = {needed:,}")
    figure = planner_figures.proven_error(axis, proven, "Rows n", bound.error_title, wanted, mark)
    return chart("error_rows", figure, error=bound.error_title, model=bound.title)


def _proven(enough: bool) -> str:
    """Whether what is there is enough: where a bound does not say so, it may be all the same."""
    return "**Yes**" if enough else "**Not proven**"


def _by_budget(bound: ErrorBound, budget: Budget, points: int, times: float) -> tuple[np.ndarray, np.ndarray]:
    """Amounts (k,) from a part of that of a budget to as many times as much, and what the bound proves at each."""
    control, *others = budget.controls()
    amount = getattr(budget, control.name)
    assert control.low is not None and control.high is not None
    amounts = np.geomspace(max(control.low, amount / times), min(control.high, amount * times), points)
    fixed = {other.name: getattr(budget, other.name) for other in others}
    proven = [bound.best(type(budget)(**{control.name: float(value)}, **fixed)).bound for value in amounts]
    return amounts, np.array(proven)


def view(panel: Panel, means: NoisyMeans, target: float, delta: float) -> Shown:
    """Choose a method and its constants: the smallest budget for the error that is wanted, and what else reduces it."""
    st.caption(texts.ACCURACY)
    left, right = st.columns([2, 3], gap="large")
    with left:
        name = panel.control(_method(), "method")
        cls = bounds()[name]
        names = {key: currency.name for key, currency in CURRENCIES.items()}
        currency = panel.choice("error_currency", "Currency of the answer", names, "pure", texts.CURRENCY_HELP)
        values = panel.specification(cls, [control.name for control in _own(cls)], prefix=f"{name}_")
    with right:
        panel.check()
        return _smallest(_built(cls, means, values), target, CURRENCIES[currency], delta)


def _smallest(bound: ErrorBound, target: float, currency: type[Budget], delta: float) -> Shown:
    required = accuracy.required_budget(bound, target, currency, delta)
    control, floor = currency.controls()[0], bound.without_privacy()
    amount = getattr(required.budget, control.name)
    smallest = f"{'≤' if required.at_least else ''} {required.budget.describe()}".strip()
    least = short_up(floor) if floor > 1e-12 else "about 0"
    metrics(
        {
            "Smallest budget": (smallest, texts.SMALLEST_HELP),
            "Steps": (f"{required.best.iterations:,}", "The best number of steps for the bound."),
            "Error without privacy": (least, "What remains of the bound under an infinite budget."),
        }
    )
    st.markdown(
        f"To **halve the error** from {short_up(required.best.bound)} you would need {_levers(bound, required)}."
    )
    amounts, proven = _by_budget(bound, required.budget, POINTS, TIMES)
    mark = amount, target, f"{control.symbol} = {short_up(amount)}"
    figure = planner_figures.proven_error(amounts, proven, f"Budget {control.symbol}", bound.error_title, target, mark)
    shown = chart("smallest", figure, error=bound.error_title)
    in_python(
        f"from dpviz.experiments.accuracy import required_budget\n"
        f"from {type(bound).__module__} import {type(bound).__name__}\n"
        f"from dpviz.privacy.budgets import {currency.__name__}\n\n"
        f"bound = {bound.to_python()}\n"
        f"print(required_budget(bound, {target!r}, {currency.__name__}).budget.describe())"
    )
    return shown


def _levers(bound: ErrorBound, required: accuracy.Required) -> str:
    """What alone would halve the error, in words."""
    levers = accuracy.levers(bound, required.budget)
    control = required.budget.controls()[0]
    parts = []
    if levers.budget is not None:
        parts.append(f"**{short_up(levers.budget)}×** the {control.symbol}")
    controls = {item.name: item for item in type(bound).controls()}
    for name, factor in levers.controls.items():
        if factor is None:
            continue
        label, symbol = controls[name].label.lower(), controls[name].symbol
        if bound.levers[name] == "more":
            parts.append(f"**{short_up(factor)}×** the {label} {symbol}")
        else:
            parts.append(f"the {label} {symbol} divided by **{short_up(1 / factor)}**")
    return ", or ".join(parts) if parts else "something else: no single change does it"
