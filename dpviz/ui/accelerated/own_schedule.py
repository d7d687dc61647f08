"""A noise schedule of one's own: what that is worth which the handles on the chart of the noise set, and shapes."""

import streamlit as st

from dpviz.families.accelerated import texts, theory
from dpviz.families.accelerated.planning import assumed
from dpviz.numbers import short, short_up
from dpviz.specification import address_text
from dpviz.ui.accelerated import plan
from dpviz.ui.experiment.plan import PlanView

PREFIX = "accel"
EXACT = "Exact for this quadratic."
OPTIMAL = "Optimal means: after the last step. On the way it may be far worse."
RECOMMENDED = "No schedule is known to be optimal with this noise and budget; the recommended one is a good one."


def line(shown: PlanView) -> str:
    """What the schedule of one's own of the first method is worth, in a line; empty without one, or a prediction."""
    return next(iter(_worth(shown)), "") if plan.drawn(shown) else ""


def show(shown: PlanView) -> None:
    """Shapes to begin with, and what they are worth, where methods have a schedule of one's own."""
    if not plan.drawn(shown):
        return
    st.markdown(f"**Your own schedule.** {texts.SHAPE}")
    with st.container(horizontal=True, gap="small"):
        for name, knots in theory.SHAPES.items():
            st.button(name, key=f"{PREFIX}_shape_{name}", on_click=_take, args=(knots,))
    if worth := _worth(shown):
        first = next(one for one in shown.theory.own.values() if one is not None)
        st.markdown(" ".join(worth))
        st.caption(f"{EXACT if first.exact else plan.bound_words(shown)} {OPTIMAL if first.proven else RECOMMENDED}")
    if without := [label for label, one in shown.theory.own.items() if one is None]:
        st.caption(f"Nothing is known of {', '.join(without)} before a run.")


def _worth(shown: PlanView) -> list[str]:
    """The predicted errors, without a run, of each method for which there are some, in a sentence."""
    rests_on = texts.condition(assumed(shown.experiment.problem))
    compared = {label: one for label, one in shown.theory.own.items() if one is not None}
    sentences = []
    for label, one in compared.items():
        what, write = ("expected end", short) if one.exact else (f"error bound{rests_on}", short_up)
        what = f"{label}, {what}" if len(compared) > 1 else what[0].upper() + what[1:]
        numbers = f"yours **{write(one.yours)}**, even {write(one.even)}"
        best = "optimal" if one.proven else "recommended"
        sentences.append(f"{what}: {numbers}, {best} {write(one.optimal)}.")
    return sentences


def _take(knots: theory.Knots) -> None:
    st.session_state[f"{PREFIX}_knots"] = address_text(knots)
