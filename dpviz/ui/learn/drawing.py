"""A prediction that is drawn: the curve of what comes, on the axes where it will appear. Its end is the answer."""

from functools import partial

import numpy as np
import streamlit as st

from dpviz.lessons.lesson import Answer, Curve, Lesson, Side
from dpviz.plots import lesson_figures
from dpviz.plots.elements.sheets import Sheet
from dpviz.ui import visitors
from dpviz.ui.components import curve

HOW = "Draw the curve: sweep over the sheet, or move its handles, by pointer or by the arrow keys."


def ask(lesson: Lesson, before: Side, after: Side, key: str) -> None:
    """The sheet; what is drawn on it is remembered, and its answer under `key`."""
    sheet, last = _sheet(lesson, before, after), lesson.measure.value(before)
    places = _places(lesson) or [float(sheet.y.place(np.array(last)))] * len(sheet.handles)
    label = f"{lesson.measure.axes(before).describe()}: draw what you predict"
    curve.draw(_component(lesson), sheet, places, label, partial(_moved, lesson, sheet, last, key))


def said(answer: Answer | None) -> None:
    """How it is drawn, and what the drawing says."""
    st.markdown(HOW)
    st.caption("Its end is your prediction." if answer is None else f"You predict: “{answer.words}”.")


def guess(lesson: Lesson, before: Side, after: Side) -> Curve | None:
    """What was drawn, if anything was."""
    places = _places(lesson)
    if places is None:
        return None
    x, y = _sheet(lesson, before, after).drawn(places)
    return Curve(x, y, name="Your curve")


def _sheet(lesson: Lesson, before: Side, after: Side) -> Sheet:
    measure = lesson.measure
    return lesson_figures.sheet(measure.curves(before), measure.axes(before), measure.reach(after))


def _moved(lesson: Lesson, sheet: Sheet, last: float, key: str) -> None:
    places = curve.values(_component(lesson), len(sheet.handles))
    if places is not None:
        end = float(sheet.drawn(places)[1][-1])
        notes = visitors.here().notes
        notes[_key(lesson)], notes[key] = places, lesson.answers.index(lesson.answer(end / last))


def _places(lesson: Lesson) -> tuple[float, ...] | None:
    found = visitors.here().notes.get(_key(lesson))
    return found if isinstance(found, tuple) else None


def _key(lesson: Lesson) -> str:
    return f"learn_{lesson.slug}_places"


def _component(lesson: Lesson) -> str:
    return f"learn_{lesson.slug}_sheet"
