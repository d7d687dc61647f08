"""The plan of the zeroth-order methods: the noise along an epoch, the bound, and the advised method."""

import math
from collections.abc import Iterator

import numpy as np
import streamlit as st

from dpviz.experiments.plan import Plan
from dpviz.families.zeroth_order import figures, presets, texts
from dpviz.families.zeroth_order.advice import Forecast, Option, reach, reduced_of
from dpviz.numbers import short, short_up
from dpviz.plots.elements.chart import Chart
from dpviz.problems.values.value_problem import ValueFacts
from dpviz.ui import explain
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import guarantee
from dpviz.ui.experiment import plan as page_plan
from dpviz.ui.experiment.controls import BY_NAME
from dpviz.ui.experiment.plan import PlanView, advised
from dpviz.ui.explain import SETTINGS_ONLY
from dpviz.ui.markdown import show_table
from dpviz.ui.uploads.file import missing_rule

PREFIX = "zeroth"


def card(label: str, plan: Plan) -> guarantee.Card:
    """Return the card with the noise on each coordinate, as root mean square over the steps."""
    noise = next(iter(plan.noise.values()))
    help = "Standard deviation on each coordinate of the gradient estimate (of DP-ZO: on the one slope), root mean "
    value = short(float(np.sqrt((noise**2).mean())))
    return "Noise of a step", value, f"{label}, {plan.iterations:,} steps", f"{help}square over the steps."


def verdict(view: PlanView) -> None:
    """Draw the advised method for this size, with a button that applies it, after a warning where steps are too few."""
    forecast: Forecast = view.theory
    # No run with epochs gets as far as the minimum, where its distance is known.
    if forecast.far is not None and 0 < forecast.reach < forecast.far:
        st.warning(
            texts.NO_REACH.format(far=short(forecast.far), reach=short_up(forecast.reach)),
            title="Too few steps to get there",
        )
    if forecast.advice is None:
        return
    option = forecast.advice.choice
    length, epochs = option.epochs
    reason = "Advised at your size"  # by measured runs, which rest on no guess
    if option.least is None and forecast.facts.exact:
        reason = f"Smallest bound at your size{', if F* holds' * forecast.facts.guessed}"
    advised(
        f"**{reason}: “{option.way.name}”, T = {length:,}, K = {epochs:,}.** Why: “Advice” below.",
        f"{PREFIX}_advised",
        "Use these settings",
        on_click=_apply,
        args=(option,),
        help="Chooses this method beside the published one, and its epochs. Epochs apply to both.",
    )


def reasons(view: PlanView) -> None:
    """Draw the reason for the advised method, and a table of all options."""
    forecast: Forecast = view.theory
    advice = forecast.advice
    if advice is None:
        st.info(texts.NOT_GAUSSIAN, icon=":material/block:")
        return
    st.markdown(advice.why)
    rows: list[dict[str, object]] = []
    for option in sorted(advice.options, key=lambda option: (option.least or (math.inf,))[0]):
        length, epochs = option.epochs
        is_finite = math.isfinite(option.best.bound)
        step, epoch = option.noise if is_finite else (math.nan, math.nan)
        rows.append(
            {
                "Option": option.way.name,
                "Runs end at": option.least[0] if option.least else math.nan,
                "T": length,
                "K": epochs,
                "Noise, step": step,
                "Noise, epoch": epoch,
                "Bound": option.bound if is_finite else math.inf,
                "Smallest bound": option.best.bound,
                "its T": option.best.length,
                "its K": option.best.epochs,
                "Runs there": math.nan if option.there is None else option.there,
            }
        )
    show_table(rows, style=explain.readable, alt="Of every option: what runs came to, its noise, and its bound")
    restriction = "" if forecast.facts.exact else " Bounds do not hold here: values jump, or move faster than L."
    limit = f"From L = {short(forecast.facts.lipschitz)} on a bound says nothing."
    st.caption(f"{texts.OPTIONS}{restriction} {limit} {SETTINGS_ONLY}")


def _apply(option: Option) -> None:
    """Set the controls to an option: its method, next to the published one, and its epochs."""
    way, label = option.way, presets.label_of(option.way)
    length, epochs = option.epochs
    settings = {
        "methods": list(dict.fromkeys([presets.PUBLISHED, label])),
        "directions": BY_NAME,
        "directions_per_row": None,
        "sums": way.sums if label == presets.PUBLISHED and way.sums else BY_NAME,
        "epoch_length": length,
        "iterations": length * epochs,
        "travel": 1.0,
        "first_share": 0.5,
        "follow_moves": way.follows,
        "clipping": "lipschitz",
        "concentration": None,
        "fresh_start": True,
    }
    Panel(PREFIX).write(settings)


def drawings(view: PlanView) -> Iterator[Chart]:
    """Yield charts of the noise of the steps of an epoch and against the dimension, of the noise of all running sums,
    of the parts of the bound, of μ of the first steps, and of the privacy spent, which is all charged at once."""
    yield figures.noise_of_an_epoch(view.plans, view.styles)
    yield figures.noise_by_dimension(view.experiment.arms, view.plans, view.styles)
    forecast: Forecast = view.theory
    yield figures.running_sums(reduced_of(view.experiment), forecast.facts, view.experiment.budget)
    yield figures.bound_parts(forecast.bounds, forecast.facts, forecast.without)
    yield figures.watched(forecast.watched, view.styles, forecast.mu or 0.0)
    yield page_plan.privacy_spent(view)


def size_note(view: PlanView) -> str:
    """Describe rows, parameters, and the largest distance of a run from its start."""
    facts, far = ValueFacts.of(next(iter(view.plans.values())).facts), reach(view.plans)
    note = f" A run ends within {short_up(far)} of its start." if far else ""
    return f"n = {facts.n:,} rows, d = {facts.d:,} parameters, L = {short(facts.lipschitz)}.{note}"


def assumptions(view: PlanView) -> None:
    """Draw the box of assumptions for these settings."""
    forecast: Forecast = view.theory
    facts = forecast.facts
    problem = view.experiment.problem
    explain.assumptions(
        explain.protects(problem.unit),
        texts.BATCHES,
        texts.COMPOSITION,
        texts.constants(facts.exact, missing_rule(problem.dataset), facts.guessed),
        texts.SCREEN,
        problem.from_data,
    )
