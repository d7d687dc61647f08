"""A lesson in four steps: the setting, a prediction, the outcome, and why.

Its two runs start when it is opened, and are computed once for all visitors. The page lists all lessons in groups.
"""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Literal

import numpy as np
import streamlit as st

from dpviz.compare.pins import Pin, clean
from dpviz.experiments.experiment import Experiment
from dpviz.lessons import lesson as budget_lessons
from dpviz.lessons.lesson import Answer, Axes, Curve, Lesson, Released, Side
from dpviz.plots import lesson_figures
from dpviz.plots.elements.sheets import Sheet
from dpviz.specification import Specification
from dpviz.ui import charts, explain, families, glossary, links, visitors
from dpviz.ui.components import curve
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import pins
from dpviz.ui.experiment import presets as preset_menu
from dpviz.ui.experiment.controls import CURRENCIES
from dpviz.ui.experiment.run import FIRST_PICTURE, Run, runner, until_ended

NAMES = ("Setting", "Predict", "See", "Why")
PLANNER = "planner"  # prefix of the budget planner's keys and query parameters
SETTING, PREDICT, SEE, WHY = range(1, 5)


def show(lesson: Lesson, step: int) -> None:
    """Draw one step of a lesson."""
    st.session_state.pop(links.LESSON, None)  # the visitor is back at a lesson
    begin_runs(lesson)
    st.button("All lessons", key="learn_list", type="tertiary", icon=":material/arrow_back:", on_click=go)
    st.title(lesson.title, anchor=False)
    st.caption(f"Step {step} of {len(NAMES)}: **{NAMES[step - 1]}**. {lesson.minutes} minutes in all.")
    text_column, chart_column = st.columns([4, 7], gap="large")
    with chart_column:
        is_ready = ready(lesson, BOTH if step >= SEE else BOTH[:1])
    before, after = (_side(lesson, which) for which in BOTH)
    with text_column:
        _show_text(lesson, step, before, after, is_ready)
    if is_ready:
        with chart_column:
            _show_chart(lesson, step, before, after)
    _show_buttons(lesson, step)
    glossary.words("learn_words")


def answered(lesson: Lesson) -> bool:
    """Return whether a prediction was made in this tab."""
    return _prediction(lesson) is not None


def go(slug: str = "", step: int = SETTING) -> None:
    """Turn to a step of a lesson or, without a slug, to the list."""
    st.query_params.from_dict({"lesson": slug, "step": str(step)} if slug else {})


def _prediction(lesson: Lesson) -> Answer | None:
    index = visitors.here().notes.get(_key(lesson, "answer"))
    return lesson.answers[index] if isinstance(index, int) else None


def _key(lesson: Lesson, name: str) -> str:
    return f"learn_{lesson.slug}_{name}"


# ----------------------------------------------------------------------------------------------------------------- text


def _show_text(lesson: Lesson, step: int, before: Side, after: Side, is_ready: bool) -> None:
    """Draw the text of a step, with dots in place of numbers while the runs are not ready."""
    fill_in = partial(lesson.told, before=before, after=after, there=is_ready)
    if step == SETTING:
        st.markdown(fill_in(lesson.setting))
        return
    old, new = lesson.change.texts
    if step != WHY:
        st.markdown(f"**{lesson.change.title}:** {old} → {new}")
    if step == PREDICT:
        st.markdown(fill_in(lesson.question))
        if lesson.drawn:
            _explain_drawing(_prediction(lesson))
        else:
            _ask_prediction(lesson)
    elif step == SEE:
        if is_ready:
            _show_verdict(lesson, before, after)
    else:
        st.markdown(fill_in(lesson.why))
        st.markdown(fill_in(lesson.try_it))
        if st.button("Try it yourself", key="learn_try", icon=":material/tune:"):
            _open(lesson)


def _ask_prediction(lesson: Lesson) -> None:
    prediction = _prediction(lesson)
    st.radio(
        "What do you predict?",
        range(len(lesson.answers)),
        index=None if prediction is None else lesson.answers.index(prediction),
        format_func=lambda index: lesson.answers[index].words,
        key=_key(lesson, "choice"),
        on_change=_note,
        args=(lesson,),
    )


def _note(lesson: Lesson) -> None:
    visitors.here().notes[_key(lesson, "answer")] = st.session_state[_key(lesson, "choice")]


def _show_verdict(lesson: Lesson, before: Side, after: Side) -> None:
    right = lesson.answer(lesson.measure.ratio(before, after))
    outcome = lesson.measure.outcome(before, after)
    prediction = _prediction(lesson)
    if prediction is None:
        st.info(f"You made no prediction. It was “{right.words}”: {outcome}.", icon=":material/visibility:")
    elif prediction == right:
        st.success(f"You said “{prediction.words}”, and so it was: {outcome}.", icon=":material/check_circle:")
    else:
        st.info(f"You said “{prediction.words}”. It was “{right.words}”: {outcome}.", icon=":material/lightbulb:")


# ---------------------------------------------------------------------------------------------------------------- chart


def _show_chart(lesson: Lesson, step: int, before: Side, after: Side) -> None:
    measure = lesson.measure
    axes, old, names = measure.axes(before), measure.curves(before), lesson.change.names
    if step == PREDICT and lesson.drawn:
        _draw_prediction(lesson, before, after)
    else:
        if step == PREDICT:
            figure = lesson_figures.asked(old, names[0], axes, measure.reach(after))
        else:
            new, guess = (measure.curves(after), _drawn_curve(lesson, before, after)) if step >= SEE else ((), None)
            figure = lesson_figures.told(old, new, names, axes, guess)
        charts.plain(figure, _key(lesson, "chart"), f"{axes.describe()}: “{lesson.title}”")
    st.caption(_caption(lesson.after if step >= SEE else lesson.before, axes))


def _caption(settings: Specification, axes: Axes) -> str:
    if not isinstance(settings, Experiment):
        return explain.SETTINGS_ONLY
    repeats, public = settings.replicates, settings.problem.public
    content = f"Where each of {repeats} runs ends, in their order." if axes.each else explain.spread(repeats)
    return " ".join([content, *([explain.diagnostic(repeats, public)] if axes.diagnostic else [])])


# --------------------------------------------------------------------------------------------------------------- onward


def _show_buttons(lesson: Lesson, step: int) -> None:
    is_waiting = step == PREDICT and not answered(lesson)
    row = st.container(horizontal=True, vertical_alignment="center")
    row.button(
        "Back",
        key="learn_back",
        icon=":material/arrow_back:",
        shortcut="Left",
        disabled=step == SETTING,
        on_click=go,
        args=(lesson.slug, step - 1),
    )
    next_lesson = following(lesson)
    is_last = step == WHY
    target = (lesson.slug, step + 1) if not is_last else (next_lesson.slug, SETTING) if next_lesson else ()
    row.button(
        "Next" if not is_last else "Next lesson" if next_lesson else "To the list",
        key="learn_next",
        type="primary",
        icon=":material/arrow_forward:",
        shortcut="Right",
        disabled=is_waiting,
        on_click=go,
        args=target,
    )
    if is_waiting:
        row.caption("Predict to go on. The arrow keys turn the pages, too.", width="content")


def _open(lesson: Lesson) -> None:
    """Turn to the lesson's page with the settings after the change, and those before it as a pin."""
    family = next((family for family in families.FAMILIES if family.name == lesson.page), None)
    st.session_state[links.LESSON] = lesson.slug
    if family is not None and isinstance(lesson.after, Experiment) and isinstance(lesson.before, Experiment):
        page, (old, _) = family.page(), lesson.change.texts
        preset_menu.open_with(page.prefix, lesson.after)
        pin = Pin(clean(f"{lesson.change.title} {old}"), lesson.before)
        pins.take([lambda: [pin]], {page.prefix: page.knows}, page.prefix)
    st.switch_page(f"pages/{lesson.page}.py", query_params=_set_planner(lesson.after))


def _set_planner(settings: Specification) -> dict[str, str]:
    """Set the planner's controls for a lesson without runs and return its address; {} for other lessons."""
    if not isinstance(settings, Released):
        return {}
    panel, address = Panel(PLANNER), {f"{PLANNER}_currency": settings.budget.name}
    panel.write({"currency": next(name for name, cls in CURRENCIES.items() if cls is type(settings.budget))})
    for part in (settings.budget, settings.means):
        declared = {control.name: control for control in part.controls()}
        panel.write({name: getattr(part, name) for name in declared})  # over settings of an earlier visit
        changed = ((declared[key.removeprefix(f"{PLANNER}_")], text) for key, text in part.query(PLANNER).items())
        address |= {panel.key(control.name): (control.options or {}).get(text, text) for control, text in changed}
    return address


# ------------------------------------------------------------------------------------------- a prediction that is drawn

# The visitor draws the curve to come on the axes where it will appear; the end of the curve is the answer.


def _draw_prediction(lesson: Lesson, before: Side, after: Side) -> None:
    """Draw the sheet; remember what the visitor draws on it, and the answer that it amounts to."""
    sheet, last = _sheet(lesson, before, after), lesson.measure.value(before)
    heights = _heights(lesson) or [float(sheet.y.place(np.array(last)))] * len(sheet.handles)
    label = f"{lesson.measure.axes(before).describe()}: draw what you predict"
    curve.draw(_key(lesson, "sheet"), sheet, heights, label, partial(_note_drawing, lesson, sheet, last))


def _explain_drawing(answer: Answer | None) -> None:
    """Show how to draw, and which answer the drawing amounts to."""
    st.markdown("Draw the curve: sweep over the sheet, or move its handles, by pointer or by the arrow keys.")
    st.caption("Its end is your prediction." if answer is None else f"You predict: “{answer.words}”.")


def _drawn_curve(lesson: Lesson, before: Side, after: Side) -> Curve | None:
    """Return the visitor's curve, None if none was drawn."""
    heights = _heights(lesson)
    if heights is None:
        return None
    x, y = _sheet(lesson, before, after).drawn(heights)
    return Curve(x, y, name="Your curve")


def _sheet(lesson: Lesson, before: Side, after: Side) -> Sheet:
    measure = lesson.measure
    return lesson_figures.sheet(measure.curves(before), measure.axes(before), measure.reach(after))


def _note_drawing(lesson: Lesson, sheet: Sheet, last: float) -> None:
    heights = curve.values(_key(lesson, "sheet"), len(sheet.handles))
    if heights is not None:
        end = float(sheet.drawn(heights)[1][-1])
        notes = visitors.here().notes
        notes[_key(lesson, "places")] = heights
        notes[_key(lesson, "answer")] = lesson.answers.index(lesson.answer(end / last))


def _heights(lesson: Lesson) -> tuple[float, ...] | None:
    """Return the heights of the sheet's handles as the visitor left them, None if untouched."""
    heights = visitors.here().notes.get(_key(lesson, "places"))
    return heights if isinstance(heights, tuple) else None


Which = Literal["before", "after"]
BOTH: tuple[Which, Which] = ("before", "after")


def begin_runs(lesson: Lesson) -> None:
    """Start the lesson's runs; a run that any visitor has computed is there at once."""
    for which in BOTH:
        settings, run = getattr(lesson, which), _run(lesson, which)
        if isinstance(settings, Experiment) and (run is None or run.job.state == "stopped"):
            plans = settings.plans()
            here = visitors.here()
            job = runner().submit(settings, visitor=here.name, short=True)
            here.keep(_key(lesson, which), Run(job, plans, "learn", lesson.title))


def ready(lesson: Lesson, needed: Sequence[Which]) -> bool:
    """Return whether the runs of the `needed` sides are done; if not, show why, and poll until they are."""
    runs = [run for which in needed if (run := _run(lesson, which)) is not None]
    for run in runs:
        run.job.wait(FIRST_PICTURE)
    if any(run.job.active for run in runs):
        st.caption(":material/directions_run: The runs of this lesson are under way.")
        until_ended("learn_look", runs)
        return False
    failed = next((run for run in runs if run.job.state != "done"), None)
    if failed is not None:
        st.error(failed.job.message, title="The run of this lesson did not finish")
        st.button("Try again", key="learn_again", on_click=_forget_runs, args=(lesson,))
    return failed is None


def _side(lesson: Lesson, which: Which) -> Side:
    """Return the settings of a side, with plan and trace if its run is done."""
    settings, run = getattr(lesson, which), _run(lesson, which)
    if run is None:
        return Side(settings)
    return Side(settings, run.plans, run.job.trace if run.job.state == "done" else None)


def _run(lesson: Lesson, which: Which) -> Run | None:
    run: Run | None = st.session_state.get(_key(lesson, which))
    return run


def _forget_runs(lesson: Lesson) -> None:
    for which in BOTH:
        st.session_state.pop(_key(lesson, which), None)


GUARANTEES = "What a guarantee means"


@cache
def grouped() -> Mapping[str, tuple[Lesson, ...]]:
    """Return the lessons by the title of their group: on guarantees, and those of every family with lessons."""
    modules = {family.title: f"dpviz.families.{family.name}.lessons" for family in families.FAMILIES}
    by_family = {title: import_module(name).LESSONS for title, name in modules.items() if find_spec(name) is not None}
    return {GUARANTEES: budget_lessons.LESSONS, **by_family}


def named(slug: str) -> Lesson | None:
    """Return the lesson with this address, None if there is none."""
    return next((lesson for lesson in ordered() if lesson.slug == slug), None)


def ordered() -> tuple[Lesson, ...]:
    """Return all lessons in their order."""
    return tuple(lesson for lessons in grouped().values() for lesson in lessons)


def following(lesson: Lesson) -> Lesson | None:
    """Return the next lesson, None after the last."""
    lessons = ordered()
    index = lessons.index(lesson) + 1
    return lessons[index] if index < len(lessons) else None
