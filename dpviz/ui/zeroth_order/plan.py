"""The plan of the zeroth-order methods: noise along an epoch, what the bound promises, and which method is advised."""

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
    """The noise on each coordinate, on average over the steps."""
    noise = next(iter(plan.noise.values()))
    help = "Standard deviation on each coordinate of the gradient estimate (of DP-ZO: on the one slope), root mean "
    value = short(float(np.sqrt((noise**2).mean())))
    return "Noise of a step", value, f"{label}, {plan.iterations:,} steps", f"{help}square over the steps."


def verdict(shown: PlanView) -> None:
    """Which method is advised at this size, and a button that chooses it."""
    found: Forecast = shown.theory
    _say_reach(shown)
    if found.advice is None:
        return
    chosen = found.advice.choice
    length, epochs = chosen.epochs
    what = "Advised at your size"  # by what runs came to, which rests on no guess
    if chosen.least is None and found.facts.exact:
        what = f"Smallest bound at your size{', if F* holds' * found.facts.guessed}"
    advised(
        f"**{what}: “{chosen.way.name}”, T = {length:,}, K = {epochs:,}.** Why: “Advice” below.",
        f"{PREFIX}_advised",
        "Use these settings",
        on_click=_apply,
        args=(chosen,),
        help="Chooses this method beside the published one, and its epochs. Epochs apply to both.",
    )


def _say_reach(shown: PlanView) -> None:
    """Say if no run with epochs can get to a minimum, where it is known how far that is."""
    found: Forecast = shown.theory
    if found.far is not None and 0 < found.reach < found.far:
        st.warning(
            texts.NO_REACH.format(far=short(found.far), reach=short_up(found.reach)), title="Too few steps to get there"
        )


def reasons(shown: PlanView) -> None:
    """Why a method is advised, and every option in numbers."""
    found: Forecast = shown.theory
    advice = found.advice
    if advice is None:
        st.info(texts.NOT_GAUSSIAN, icon=":material/block:")
        return
    st.markdown(advice.why)
    rows: list[dict[str, object]] = []
    for option in sorted(advice.options, key=lambda one: (one.least or (math.inf,))[0]):
        length, epochs = option.epochs
        known = math.isfinite(option.best.bound)
        step, epoch = option.noise if known else (math.nan, math.nan)
        rows.append(
            {
                "Option": option.way.name,
                "Runs end at": option.least[0] if option.least else math.nan,
                "T": length,
                "K": epochs,
                "Noise, step": step,
                "Noise, epoch": epoch,
                "Bound": option.bound if known else math.inf,
                "Smallest bound": option.best.bound,
                "its T": option.best.length,
                "its K": option.best.epochs,
                "Runs there": math.nan if option.there is None else option.there,
            }
        )
    show_table(rows, style=explain.readable, alt="Of every option: what runs came to, its noise, and its bound")
    only = "" if found.facts.exact else " Bounds do not hold here: values jump, or move faster than L."
    limit = f"From L = {short(found.facts.lipschitz)} on a bound says nothing."
    st.caption(f"{texts.OPTIONS}{only} {limit} {SETTINGS_ONLY}")


def _apply(option: Option) -> None:
    """Choose an option: the method that it stands for, beside the published one, and its epochs."""
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


def drawings(shown: PlanView) -> Iterator[Chart]:
    """The noise of the steps of an epoch, and against the dimension; that of all running sums, what the bound promises,
    what first steps tell, and the privacy spent, which is all charged at once."""
    yield figures.noise_of_an_epoch(shown.plans, shown.styles)
    yield figures.noise_by_dimension(shown.experiment.arms, shown.plans, shown.styles)
    found: Forecast = shown.theory
    yield figures.running_sums(reduced_of(shown.experiment), found.facts, shown.experiment.budget)
    yield figures.bound_parts(found.bounds, found.facts, found.without)
    yield figures.watched(found.watched, shown.styles, found.mu or 0.0)
    yield page_plan.privacy_spent(shown)


def size_note(shown: PlanView) -> str:
    """Rows, parameters, and how far a run may get."""
    facts, far = ValueFacts.of(next(iter(shown.plans.values())).facts), reach(shown.plans)
    note = f" A run ends within {short_up(far)} of its start." if far else ""
    return f"n = {facts.n:,} rows, d = {facts.d:,} parameters, L = {short(facts.lipschitz)}.{note}"


def assumptions(shown: PlanView) -> None:
    """The box of assumptions for these settings."""
    found: Forecast = shown.theory
    problem = shown.experiment.problem
    explain.assumptions(
        explain.protects(problem.unit),
        texts.BATCHES,
        texts.COMPOSITION,
        texts.constants(found.facts.exact, missing_rule(problem.dataset), found.facts.guessed),
        texts.SCREEN,
        problem.from_data,
    )
