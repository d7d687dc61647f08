"""A noise schedule of one's own: handles, the same numbers in a table, and at once what they are worth."""

from collections.abc import Mapping

import numpy as np
import streamlit as st

from dpviz.families.accelerated import texts, theory
from dpviz.families.accelerated.algorithms import Compared, GradientMethod
from dpviz.families.accelerated.planning import assumed
from dpviz.numbers import short, short_up
from dpviz.plots.elements.sheets import Ruler, Sheet
from dpviz.ui import number_table
from dpviz.ui.accelerated import plan
from dpviz.ui.components import curve
from dpviz.ui.controls import Panel
from dpviz.ui.experiment.plan import PlanView

PREFIX = "accel"
FIELD = "knots"
HANDLES, TABLE = (f"{PREFIX}_own_{name}" for name in ("handles", "table"))
POWER = "Power of ten, by percent of the steps"
ACROSS = Ruler("Percent of the steps", 0.0, 100.0, False)
UP = Ruler("Noise, relative", -theory.LIMIT, theory.LIMIT, True)
PLACES = tuple(np.linspace(0, 1, len(theory.EVEN)).tolist())
# An arrow is a tenth of a power of ten, a page key five.
KEYS = (0.1 / (2 * theory.LIMIT), 0.5 / (2 * theory.LIMIT))
HEIGHT = 300

EXACT = "Exact for this quadratic."
OPTIMAL = "Optimal means: after the last step. On the way it may be far worse."
RECOMMENDED = "No schedule is known to be optimal with this noise and budget; the recommended one is a good one."


def show(shown: PlanView) -> None:
    """The handles and what their schedule is worth, where a method has a schedule of its visitor's own."""
    methods = {arm.label: arm.algorithm for arm in shown.experiment.arms if arm.label in shown.theory.own}
    if not methods:
        return
    method = next(iter(methods.values()))
    assert isinstance(method, GradientMethod)
    told = {label: found for label, found in shown.theory.own.items() if found is not None}
    st.subheader("Your own schedule", anchor=False)
    left, right = st.columns([7, 4], gap="medium")
    with left:
        _handles(method.knots, told)
    with right:
        _shapes()
        _worth(shown, told, [label for label in methods if label not in told])
        with st.expander("As a table"):
            _table(method.knots)


def _handles(knots: theory.Knots, told: Mapping[str, Compared]) -> None:
    known, best = [], next(iter(told), None)
    if best is not None:
        noise = told[best].noise
        across = np.unique(np.rint(np.linspace(0, len(noise) - 1, 100)).astype(int))
        places = UP.place(noise[across]).tolist()
        known = list(zip((across / max(len(noise) - 1, 1)).tolist(), places, strict=True))
    sheet = Sheet(ACROSS, UP, known, None, PLACES, HEIGHT)
    at = [(knot + theory.LIMIT) / (2 * theory.LIMIT) for knot in knots]
    label = "Your noise schedule: six handles for the noise from the first step to the last"
    curve.draw(HANDLES, sheet, at, label, _moved, keys=KEYS, edition=number_table.edition(HANDLES, knots))
    dashed = "" if best is None else f" Dashed: the {_best(told[best])} schedule of {best}, as far as it fits."
    st.caption(f"{texts.SHAPE}{dashed}")


def _moved() -> None:
    places = curve.values(HANDLES, len(PLACES))
    if places is not None:
        knots = tuple(round((2 * place - 1) * theory.LIMIT, 2) + 0.0 for place in places)
        number_table.remember(HANDLES, knots)
        _take(knots)


def _shapes() -> None:
    with st.container(horizontal=True, gap="small"):
        for name, knots in theory.SHAPES.items():
            st.button(name, key=f"{PREFIX}_shape_{name}", on_click=_take, args=(knots,))


def _take(knots: theory.Knots) -> None:
    Panel(PREFIX).write({FIELD: knots})


def _worth(shown: PlanView, told: Mapping[str, Compared], without: list[str]) -> None:
    """The predicted errors, without a run."""
    if told:
        first = next(iter(told.values()))
        best = _best(first)
        rests_on = texts.condition(assumed(shown.experiment.problem))
        bounded = f"expected, at most{',' * bool(rests_on)}{rests_on}"
        st.markdown(f"**Excess loss after the last step, {'expected' if first.exact else bounded}**")
        for label, found in told.items():
            write = short if first.exact else short_up
            numbers = f"yours **{write(found.yours)}**, even {write(found.even)}, {best} {write(found.optimal)}"
            st.markdown(f"{label}: {numbers}.")
        st.caption(f"{EXACT if first.exact else plan.bound_words(shown)} {OPTIMAL if first.proven else RECOMMENDED}")
    if without:
        st.caption(f"Nothing is known of {', '.join(without)} before a run.")


def _best(found: Compared) -> str:
    return "optimal" if found.proven else "recommended"


def _table(knots: theory.Knots) -> None:
    """The same numbers to type."""
    number_table.table(
        TABLE,
        knots,
        [f"{100 * place:g} %" for place in PLACES],
        _typed,
        heading=POWER,
        limits=(-theory.LIMIT, theory.LIMIT),
        help="Of the noise: 1 is ten times as much.",
    )


def _typed(numbers: tuple[float, ...], _: int) -> tuple[float, ...]:
    knots = tuple(min(theory.LIMIT, max(-theory.LIMIT, number)) for number in numbers)
    _take(knots)
    return knots
