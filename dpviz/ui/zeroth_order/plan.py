"""The plan of the zeroth-order methods: noise along an epoch, what the bound promises, and which method is advised."""

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from dpviz.errors import UserError
from dpviz.experiments.plan import Plan
from dpviz.families.zeroth_order import figures, noise_figures, presets, texts
from dpviz.families.zeroth_order.advice import Option
from dpviz.families.zeroth_order.noise_figures import SUMS
from dpviz.families.zeroth_order.outlook import Outlook, reduced_of
from dpviz.numbers import short
from dpviz.ui import explain
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import guarantee
from dpviz.ui.experiment.controls import BY_NAME
from dpviz.ui.experiment.plan import Drawing, PlanView, Shown
from dpviz.ui.explain import SETTINGS_ONLY
from dpviz.ui.tables import show_table
from dpviz.ui.uploads.file import missing_rule

PREFIX = "zeroth"


def card(label: str, plan: Plan) -> guarantee.Card:
    """The noise on each coordinate, on average over the steps."""
    noise = next(iter(plan.noise.values()))
    help = "Standard deviation on each coordinate of the gradient estimate (of DP-ZO: on the one slope), root mean "
    value = short(float(np.sqrt((noise**2).mean())))
    return "Noise of a step", value, f"{label}, {plan.iterations:,} steps", f"{help}square over the steps."


def verdict(shown: PlanView) -> None:
    """The guarantee as the paper states it; which method has the smallest bound at this size, why, and a button that
    chooses it."""
    found: Outlook = shown.theory
    _say_reach(shown)
    if found.advice is None or found.mu is None:
        return
    st.caption(texts.renyi(found.mu))
    chosen = found.advice.choice
    with st.container(border=True):
        row = st.container(horizontal=True, vertical_alignment="center", gap="medium")
        what = "Smallest bound" if found.facts.exact else "Advised"
        row.markdown(f"**{what} at your size: {named(chosen)}.** {found.advice.why}", width="stretch")
        row.button(
            "Use these settings",
            key=f"{PREFIX}_advised",
            icon=":material/tune:",
            on_click=_apply,
            args=(chosen,),
            help="Chooses this method beside the published one, and its epochs. Epochs apply to both.",
        )
        with st.expander("Every option, in numbers"):
            _options(found)


def named(option: Option) -> str:
    """The method that an option stands for, and in what it differs."""
    label = presets.label_of(option)
    own = [SUMS[option.sums][0]] if option.sums and label == presets.PUBLISHED and option.sums != "tree" else []
    own += ["batches follow the moves"] * option.follows
    return f"“{label}”{' with ' if own else ''}{', '.join(own).lower()}"


def _say_reach(shown: PlanView) -> None:
    """Say if no run with epochs can get to a minimum, where it is known how far that is."""
    found: Outlook = shown.theory
    if found.far is not None and 0 < found.reach < found.far:
        st.warning(
            texts.NO_REACH.format(far=short(found.far), reach=short(found.reach)), title="Too few steps to get there"
        )


def _options(found: Outlook) -> None:
    assert found.advice is not None
    rows = [
        {
            "Option": named(option),
            "Bound": option.best.bound,
            "T": option.best.length,
            "K": option.best.epochs,
            "Rows, first step": option.best.first,
            "Rows, other steps": option.best.batch,
        }
        for option in found.advice.options
    ]
    show_table(rows, style=explain.readable, alt="Of every option: its smallest bound, and the epochs that have it")
    only = "" if found.facts.exact else "These would hold if values moved by no more than L times the distance. "
    st.caption(
        f"The smallest bound over all T and K that may be set. {only}From L = {short(found.facts.lipschitz)} on a "
        f"bound says nothing; runs may do much better than it. {SETTINGS_ONLY}"
    )


def _apply(option: Option) -> None:
    """Choose an option: the method that it stands for, beside the published one, and its epochs."""
    label = presets.label_of(option)
    settings = {
        "methods": list(dict.fromkeys([presets.PUBLISHED, label])),
        "directions": BY_NAME,
        "directions_per_row": None,
        "sums": option.sums if label == presets.PUBLISHED and option.sums else BY_NAME,
        "epoch_length": option.best.length,
        "iterations": option.best.length * option.best.epochs,
        "travel": 1.0,
        "first_share": 0.5,
        "follow_moves": option.follows,
        "clipping": "lipschitz",
        "concentration": None,
        "fresh_start": True,
    }
    Panel(PREFIX).write(settings)


def noise(shown: PlanView) -> Drawing:
    """The noise of the steps of an epoch."""
    figure = figures.noise_of_an_epoch(shown.plans, shown.styles)
    return "Noise along an epoch", figure, f"{texts.NOISE} {SETTINGS_ONLY}"


def drawings(shown: PlanView) -> Shown:
    """The other figures of the plan, with headings and captions."""
    found: Outlook = shown.theory
    without = f" Without a bound: {', '.join(found.without)}." if found.without else ""
    return [
        ("Noise of every running sum", _sums(shown), f"{texts.SUMS} {SETTINGS_ONLY}"),
        (
            "What the bound promises",
            figures.bound_parts(found.bounds, found.facts.lipschitz),
            f"{texts.PARTS}{without} {SETTINGS_ONLY}",
        ),
        (
            "What the first steps tell",
            figures.watched(found.watched, shown.styles, found.mu or 0.0),
            f"{texts.WATCHED} {SETTINGS_ONLY}",
        ),
    ]


def _sums(shown: PlanView) -> go.Figure:
    found: Outlook = shown.theory
    try:
        return noise_figures.running_sums(reduced_of(shown.experiment), found.facts, shown.experiment.budget)
    except UserError as error:
        return figures.nothing(str(error))


ALTS = (
    "Noise on each coordinate in the steps of an epoch, one line per method",
    "Noise in the running sums of an epoch, one line for every way to add up",
    "The three parts of each method's bound, and the line beyond which it says nothing",
    "Privacy of what the first steps of an epoch release, one line per method",
)


def size_note(shown: PlanView) -> str:
    """Rows, parameters, and how far a run may get."""
    found: Outlook = shown.theory
    facts = found.facts
    far = f" A run may get {short(found.reach)} from its start." if found.reach else ""
    return f"n = {facts.n:,} rows, d = {facts.d:,} parameters, L = {short(facts.lipschitz)}.{far}"


def assumptions(shown: PlanView) -> None:
    """The box of assumptions for these settings."""
    found: Outlook = shown.theory
    problem = shown.experiment.problem
    explain.assumptions(
        explain.protects(problem.unit),
        texts.BATCHES,
        texts.COMPOSITION,
        texts.constants(found.facts.exact, missing_rule(problem.dataset)),
        texts.SCREEN,
        problem.from_data,
    )
