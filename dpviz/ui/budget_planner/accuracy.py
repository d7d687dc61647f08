"""A model trained in T noisy steps: the error that its bound guarantees, and rows or budget for an error.

The "noisy means" are the releases of the steps, each a mean of gradients plus noise, set by the controls above.
"""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpviz import families
from dpviz.errors import UserError
from dpviz.experiments import accuracy
from dpviz.experiments.accuracy import ErrorBound
from dpviz.numbers import short, short_up
from dpviz.plots import planner_figures
from dpviz.privacy.budgets import Budget
from dpviz.privacy.statistics.noisy_means import NoisyMeans
from dpviz.specification import Control, registered
from dpviz.ui.budget_planner import tabs, texts
from dpviz.ui.budget_planner import view as planner_view
from dpviz.ui.controls import Panel, Settings
from dpviz.ui.experiment.controls import CURRENCIES
from dpviz.ui.experiment.plan import Charts
from dpviz.ui.markdown import escape_sentence

SHARED = ("rows", "noise", "clip", "iterations")  # fields that a bound takes from the noisy means
# Points of a curve against the budget, and the factor from its middle to both ends: first of the curve in a section,
# then of the one next to the answer, which follows a slider and so has to be quick.
POINTS, FEW = 24, 8
TIMES, NEAR = 30.0, 10.0


@st.cache_resource
def bounds() -> Mapping[str, type[ErrorBound]]:
    """Return the classes of the error bounds of all families, by the last part of their registered kind."""
    families.load_all()
    return {cls.kind.rpartition(".")[2]: cast(type[ErrorBound], cls) for cls in registered(ErrorBound)}


def _method_control() -> Control:
    """Return the control that chooses among the error bounds."""
    titles = {name: cls.title for name, cls in bounds().items()}
    return Control("method", "Algorithms", "Whose error bound is used.", next(iter(titles)), str, options=titles)


def _own_controls(cls: type[ErrorBound]) -> list[Control]:
    """Return the controls of those fields of a bound that the noisy means do not have."""
    return [control for control in cls.controls() if control.name not in SHARED]


def _build(cls: type[ErrorBound], means: NoisyMeans, values: Mapping[str, Any]) -> ErrorBound:
    """Return the bound for the noisy means. values : of the controls in `_own_controls(cls)`, by name.

    Raises UserError for values that do not go together.
    """
    if means.rows_per_person > 1:
        raise UserError(
            "The bounds on a model's error are for people with one row each. The noise of a step is right for "
            f"{means.rows_per_person:,} rows of a person.",
            title="No bound for several rows of a person",
        )
    names = {control.name for control in cls.controls()}
    shared = {name: getattr(means, name) for name in SHARED if name in names}
    return Settings(cls, {**shared, **values}).build()


def answer(
    panel: Panel, means: NoisyMeans, budget: Budget, wanted: float, head: DeltaGenerator, by_rows: bool
) -> Charts:
    """Draw the answer: the error of the model or the rows that it needs, and the noise of its steps; return the chart.

    wanted : the largest acceptable error. head : container for the answer. by_rows : true to draw the rows needed.
    The method and its constants are those of the controls in `show_required_budget`, which may not be drawn.
    """
    name = panel.peek(_method_control(), "method")
    cls = bounds()[name]
    with head:
        try:  # the noise of a step is drawn also where no bound is known
            scale = f"{tabs.symbol(means)} = {short_up(means.noise_scale(budget))}"
            noise = texts.STEP_NOISE.format(steps=means.iterations, noise=scale)
        except UserError as error:
            noise = escape_sentence(str(error))
        try:
            controls = _own_controls(cls)
            values = {control.name: panel.peek(control, f"{name}_{control.name}") for control in controls}
            draw = _show_rows if by_rows else _show_error
            return draw(panel, _build(cls, means, values), means.rows, budget, wanted, noise)
        except UserError as error:
            st.markdown(noise)
            title = f"{escape_sentence(error.title)}: " if error.title else ""
            st.caption(f"{title}{escape_sentence(str(error))}")
            return []


def _show_error(panel: Panel, bound: ErrorBound, rows: int, budget: Budget, wanted: float, noise: str) -> Charts:
    """Draw a sentence with the error that is proven at this budget, and a chart of the error at other budgets.

    rows : the number of rows. wanted : the largest acceptable error. noise : a sentence on the noise of a step.
    """
    best, control = bound.best(budget), budget.controls()[0]  # the smallest proven error; the control of the amount
    when = f"after {best.iterations:,} steps" if best.iterations else "at the start; no steps are proven to lower it"
    result = f"{bound.error_title} ≤ **{short_up(best.bound)}** {when}."
    st.markdown(f"{_verdict(best.bound <= wanted)}: at {budget.describe()}, {rows:,} rows give {result} {noise}")
    amount = getattr(budget, control.name)
    amounts, errors = _by_budget(bound, budget, points=FEW, times=NEAR)
    mark = amount, best.bound, f"{control.symbol} = {short(amount)}: {short_up(best.bound)}"
    figure = planner_figures.proven_error(amounts, errors, f"Budget {control.symbol}", bound.error_title, wanted, mark)
    return planner_view.chart(
        "error",
        figure,
        "The error you get",
        "Proven error against the budget, with yours and the wanted error",
        f"{bound.title}: a bound on the {bound.error_title} for the worst data, all rows in every step, at the "
        "best of up to T steps. Method and constants: *Solve for*, *Budget*.",
        panel=panel,
    )


def _show_rows(panel: Panel, bound: ErrorBound, rows: int, budget: Budget, wanted: float, noise: str) -> Charts:
    """Draw a sentence with the rows needed for the error `wanted`, and a chart of the error at numbers of rows around.

    rows : the number of rows at hand. noise : a sentence on the noise of a step.
    """
    needed = accuracy.rows_needed(bound, wanted, budget)
    budget_text, error = budget.describe(), f"{bound.error_title} ≤ {short_up(wanted)}"
    if needed is None:
        result = f"no number of rows up to {accuracy.MAX_NEEDED:,.0f} is proven to give {error}."
    else:
        result = f"{error} needs **{needed:,} rows** by the bound; you have {rows:,}."
    st.markdown(f"{_verdict(needed is not None and needed <= rows)}: at {budget_text}, {result} {noise}")
    low, high = sorted((rows, needed or rows))  # where no number is proven, around the rows at hand alone
    axis = np.unique(np.geomspace(max(1, low / 4), high * 4, FEW).round().astype(int))  # whole, each once
    # A copy is not checked, as n may lie beyond the range of its control.
    errors = np.array([bound.model_copy(update={"rows": n}).best(budget).bound for n in axis.tolist()])
    mark = None if needed is None else (float(needed), wanted, f"n = {needed:,}")
    figure = planner_figures.proven_error(axis, errors, "Rows n", bound.error_title, wanted, mark)
    return planner_view.chart(
        "error_rows",
        figure,
        "Rows you need",
        "Proven error against the number of rows, with the rows that give the wanted error",
        f"{bound.title}: a bound on the {bound.error_title} for the worst data, all rows in every step, at the "
        "best of up to T steps. Method and constants: *Solve for*, *Budget*.",
        panel=panel,
    )


def _verdict(is_enough: bool) -> str:
    """Return the first words of an answer. It is never "No": without a proof, rows and budget may be enough as well."""
    return "**Yes**" if is_enough else "**Not proven**"


def _by_budget(bound: ErrorBound, budget: Budget, points: int, times: float) -> tuple[np.ndarray, np.ndarray]:
    """Return amounts (k,) of budgets around the given one, and the error (k,) that is proven with each.

    points : k. times : factor from the given budget's amount to the amounts at both ends, unless the limits of its
    control are nearer. The other numbers of the budget, such as δ, stay the same.
    """
    control, *others = budget.controls()  # the first control is that of the amount
    amount = getattr(budget, control.name)
    assert control.low is not None and control.high is not None
    amounts = np.geomspace(max(control.low, amount / times), min(control.high, amount * times), points)
    other_values = {other.name: getattr(budget, other.name) for other in others}
    errors = [bound.best(type(budget)(**{control.name: float(value)}, **other_values)).bound for value in amounts]
    return amounts, np.array(errors)


def show_required_budget(panel: Panel, means: NoisyMeans, target: float, delta: float) -> Charts:
    """Draw the controls of the error bound, the smallest budget that proves the error `target`, and what else reduces
    the error; return the chart. delta : δ of a budget in (ε, δ)."""
    st.caption(texts.ACCURACY)
    left, right = st.columns([2, 3], gap="large")
    with left:
        name = panel.control(_method_control(), "method")
        cls = bounds()[name]
        names = {key: currency.name for key, currency in CURRENCIES.items()}
        help = "In which currency the smallest budget is wanted."
        currency = panel.choice("error_currency", "Currency of the answer", names, "pure", help)
        values = panel.draw_controls(cls, [control.name for control in _own_controls(cls)], prefix=f"{name}_")
    with right:
        panel.check()
        return _show_smallest(_build(cls, means, values), target, CURRENCIES[currency], delta)


def _show_smallest(bound: ErrorBound, target: float, currency: type[Budget], delta: float) -> Charts:
    """Draw the smallest budget in a currency that proves the error `target`, with a chart around it; return the chart.

    It comes with its number of steps, the error that remains without privacy, and the changes that halve the error.
    """
    required = accuracy.required_budget(bound, target, currency, delta)
    control, floor = currency.controls()[0], bound.without_privacy()  # of the amount; the error that remains
    amount = getattr(required.budget, control.name)
    smallest = required.budget.describe()
    if required.at_least:  # it is the lower end of the range, so that a smaller one may be enough
        smallest = f"≤ {smallest}"
    floor_text = short_up(floor) if floor > 1e-12 else "about 0"  # of less the digits say nothing
    planner_view.metrics(
        {
            "Smallest budget": (
                smallest,
                "Guarantees the error for every data set within the declared bounds, at the best number of steps.",
            ),
            "Steps": (f"{required.best.iterations:,}", "The best number of steps for the bound."),
            "Error without privacy": (floor_text, "What remains of the bound under an infinite budget."),
        }
    )
    changes = _describe_levers(bound, required)
    st.markdown(f"To **halve the error** from {short_up(required.best.bound)} you would need {changes}.")
    amounts, errors = _by_budget(bound, required.budget, points=POINTS, times=TIMES)
    mark = amount, target, f"{control.symbol} = {short_up(amount)}"
    figure = planner_figures.proven_error(amounts, errors, f"Budget {control.symbol}", bound.error_title, target, mark)
    figures = planner_view.chart(
        "smallest",
        figure,
        "Guaranteed error against the budget",
        "Smallest proven error against the budget, with the wanted error",
        f"Bound on the {bound.error_title}, at the best number of steps. It holds for the worst data; real errors "
        "are usually smaller.",
    )
    arguments = f"bound, {target!r}, {currency.__name__}"
    if "delta" in currency.model_fields:
        arguments += f", delta={delta!r}"
    planner_view.in_python(
        f"from dpviz.experiments.accuracy import required_budget\n"
        f"from {type(bound).__module__} import {type(bound).__name__}\n"
        f"from dpviz.privacy.budgets import {currency.__name__}\n\n"
        f"bound = {bound.to_python()}\n"
        f"print(required_budget({arguments}).budget.describe())"
    )
    return figures


def _describe_levers(bound: ErrorBound, required: accuracy.Required) -> str:
    """Return in words by which factor the budget or one setting alone would have to change to halve the error."""
    levers = accuracy.levers(bound, required.budget)
    control = required.budget.controls()[0]  # of the amount
    parts = []
    if levers.budget is not None:
        parts.append(f"**{short_up(levers.budget)}×** the {control.symbol}")
    controls = {item.name: item for item in type(bound).controls()}
    for name, factor in levers.controls.items():
        if factor is None:  # no change of this number alone is enough
            continue
        label, symbol = controls[name].label.lower(), controls[name].symbol
        if bound.levers[name] == "more":  # the number must grow; else it must fall, by a factor below 1
            parts.append(f"**{short_up(factor)}×** the {label} {symbol}")
        else:
            parts.append(f"the {label} {symbol} divided by **{short_up(1 / factor)}**")
    return ", or ".join(parts) if parts else "something else: no single change does it"
