"""From the accuracy: the error that one can live with, and the smallest budget that guarantees it."""

from collections.abc import Mapping
from typing import cast

import numpy as np
import streamlit as st

from dpviz import families
from dpviz.experiments import accuracy
from dpviz.experiments.accuracy import ErrorBound
from dpviz.numbers import short_up
from dpviz.plots import planner_figures
from dpviz.privacy.budgets import Budget
from dpviz.specification import Control, registered
from dpviz.ui.budget_planner import texts
from dpviz.ui.budget_planner import view as planner_view
from dpviz.ui.controls import Panel, Settings
from dpviz.ui.experiment.controls import CURRENCIES
from dpviz.ui.experiment.plan import Shown

_HELP = "The bound on the expected error shall be at most this."
ERROR = Control("error", "Error you can live with", _HELP, 0.2, float, 1e-9, 1e6, scale="log")
POINTS = 24


@st.cache_resource
def bounds() -> Mapping[str, type[ErrorBound]]:
    """The error bounds of all families, by the last word of their kind."""
    families.load_all()
    return {cls.kind.rpartition(".")[2]: cast(type[ErrorBound], cls) for cls in registered(ErrorBound)}


def view(panel: Panel, delta: float) -> tuple[Shown, None]:
    """Choose a method and an error: the smallest budget and what else reduces the error. Nothing is planned to be
    released."""
    st.caption(texts.ACCURACY)
    offered = bounds()
    left, right = st.columns([2, 3], gap="large")
    with left:
        titles = {name: cls.title for name, cls in offered.items()}
        name = panel.choice("method", "Algorithms", titles, next(iter(offered)), "Whose error bound is used.")
        bound = offered[name]
        target = panel.number(ERROR, "error")
        names = {key: cls.name for key, cls in CURRENCIES.items()}
        currency = panel.choice("error_currency", "Currency of the answer", names, "pure", texts.CURRENCY_HELP)
        values = panel.specification(bound, [control.name for control in bound.controls()], prefix=f"{name}_")
    with right:
        panel.check()
        built = Settings(bound, values).build()
        return _answer(built, float(target or ERROR.default), CURRENCIES[currency], delta), None


def _answer(bound: ErrorBound, target: float, currency: type[Budget], delta: float) -> Shown:
    required = accuracy.required_budget(bound, target, currency, delta)
    control, floor = currency.controls()[0], bound.without_privacy()
    amount = getattr(required.budget, control.name)
    smallest = f"{'≤' if required.at_least else ''} {required.budget.describe()}".strip()
    least = short_up(floor) if floor > 1e-12 else "about 0"
    planner_view.metrics(
        {
            "Smallest budget": (smallest, texts.SMALLEST_HELP),
            "Steps": (f"{required.best.iterations:,}", "The best number of steps for the bound."),
            "Error without privacy": (least, "What remains of the bound under an infinite budget."),
        }
    )
    st.markdown(
        f"To **halve the error** from {short_up(required.best.bound)} you would need {_levers(bound, required)}."
    )
    assert control.low is not None and control.high is not None
    amounts = np.geomspace(max(control.low, amount / 30), min(control.high, amount * 30), POINTS)
    fixed = {other.name: getattr(required.budget, other.name) for other in currency.controls()[1:]}
    proven = np.array([bound.best(currency(**{control.name: float(value)}, **fixed)).bound for value in amounts])
    figure = planner_figures.error_by_budget(amounts, proven, control.symbol, bound.error_title, target, amount)
    shown = planner_view.chart("error", figure, error=bound.error_title)
    planner_view.in_python(
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
