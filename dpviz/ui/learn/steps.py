"""A lesson in four steps: the setting, a prediction, what comes of it, and why.

Its two runs are begun when it is opened, and computed once for all visitors. The page lists all lessons in groups.
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
PLANNER = "planner"  # the prefix of its addresses
SETTING, PREDICT, SEE, WHY = range(1, 5)


def show(lesson: Lesson, step: int) -> None:
    """Draw one step."""
    st.session_state.pop(links.LESSON, None)  # nobody has to find back to it
    begin_runs(lesson)
    st.button("All lessons", key="learn_list", type="tertiary", icon=":material/arrow_back:", on_click=go)
    st.title(lesson.title, anchor=False)
    st.caption(f"Step {step} of {len(NAMES)}: **{NAMES[step - 1]}**. {lesson.minutes} minutes in all.")
    words, chart = st.columns([4, 7], gap="large")
    with chart:
        there = ready(lesson, BOTH if step >= SEE else BOTH[:1])
    before, after = (_side(lesson, which) for which in BOTH)
    with words:
        _words(lesson, step, before, after, there)
    if there:
        with chart:
            _chart(lesson, step, before, after)
    _onward(lesson, step)
    glossary.words("learn_words")


def answered(lesson: Lesson) -> bool:
    """Whether a prediction was made, in this tab."""
    return _chosen(lesson) is not None


def go(slug: str = "", step: int = SETTING) -> None:
    """Turn to a step of a lesson, or to the list."""
    st.query_params.from_dict({"lesson": slug, "step": str(step)} if slug else {})


def _chosen(lesson: Lesson) -> Answer | None:
    place = visitors.here().notes.get(_key(lesson, "answer"))
    return lesson.answers[place] if isinstance(place, int) else None


def _key(lesson: Lesson, what: str) -> str:
    return f"learn_{lesson.slug}_{what}"


# ---------------------------------------------------------------------------------------------------------------- words


def _words(lesson: Lesson, step: int, before: Side, after: Side, there: bool) -> None:
    """What is said at a step; numbers of runs that are under way stand as dots."""
    told = partial(lesson.told, before=before, after=after, there=there)
    if step == SETTING:
        st.markdown(told(lesson.setting))
        return
    was, becomes = lesson.change.texts
    if step != WHY:
        st.markdown(f"**{lesson.change.title}:** {was} → {becomes}")
    if step == PREDICT:
        st.markdown(told(lesson.question))
        if lesson.drawn:
            _say_drawn(_chosen(lesson))
        else:
            _ask(lesson)
    elif step == SEE:
        if there:
            _verdict(lesson, before, after)
    else:
        st.markdown(told(lesson.why))
        st.markdown(told(lesson.try_it))
        if st.button("Try it yourself", key="learn_try", icon=":material/tune:"):
            _open(lesson)


def _ask(lesson: Lesson) -> None:
    chosen = _chosen(lesson)
    st.radio(
        "What do you predict?",
        range(len(lesson.answers)),
        index=None if chosen is None else lesson.answers.index(chosen),
        format_func=lambda place: lesson.answers[place].words,
        key=_key(lesson, "choice"),
        on_change=_note,
        args=(lesson,),
    )


def _note(lesson: Lesson) -> None:
    visitors.here().notes[_key(lesson, "answer")] = st.session_state[_key(lesson, "choice")]


def _verdict(lesson: Lesson, before: Side, after: Side) -> None:
    right = lesson.answer(lesson.measure.ratio(before, after))
    outcome = lesson.measure.outcome(before, after)
    said = _chosen(lesson)
    if said is None:
        st.info(f"You made no prediction. It was “{right.words}”: {outcome}.", icon=":material/visibility:")
    elif said == right:
        st.success(f"You said “{said.words}”, and so it was: {outcome}.", icon=":material/check_circle:")
    else:
        st.info(f"You said “{said.words}”. It was “{right.words}”: {outcome}.", icon=":material/lightbulb:")


# ---------------------------------------------------------------------------------------------------------------- chart


def _chart(lesson: Lesson, step: int, before: Side, after: Side) -> None:
    measure = lesson.measure
    axes, was, names = measure.axes(before), measure.curves(before), lesson.change.names
    if step == PREDICT and lesson.drawn:
        _draw_prediction(lesson, before, after)
    else:
        if step == PREDICT:
            figure = lesson_figures.asked(was, names[0], axes, measure.reach(after))
        else:
            becomes, guess = (measure.curves(after), _drawn(lesson, before, after)) if step >= SEE else ((), None)
            figure = lesson_figures.told(was, becomes, names, axes, guess)
        charts.plain(figure, _key(lesson, "chart"), f"{axes.describe()}: “{lesson.title}”")
    st.caption(_caption(lesson.after if step >= SEE else lesson.before, axes))


def _caption(settings: Specification, axes: Axes) -> str:
    if not isinstance(settings, Experiment):
        return explain.SETTINGS_ONLY
    repeats, public = settings.replicates, settings.problem.public
    said = f"Where each of {repeats} runs ends, in their order." if axes.each else explain.spread(repeats)
    return " ".join([said, *([explain.diagnostic(repeats, public)] if axes.diagnostic else [])])


# --------------------------------------------------------------------------------------------------------------- onward


def _onward(lesson: Lesson, step: int) -> None:
    waits = step == PREDICT and not answered(lesson)
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
    after = following(lesson)
    last = step == WHY
    target = (lesson.slug, step + 1) if not last else (after.slug, SETTING) if after else ()
    row.button(
        "Next" if not last else "Next lesson" if after else "To the list",
        key="learn_next",
        type="primary",
        icon=":material/arrow_forward:",
        shortcut="Right",
        disabled=waits,
        on_click=go,
        args=target,
    )
    if waits:
        row.caption("Predict to go on. The arrow keys turn the pages, too.", width="content")


def _open(lesson: Lesson) -> None:
    """Turn to the page that a lesson is about, with the settings after, and those before as a pin."""
    family = next((family for family in families.FAMILIES if family.name == lesson.page), None)
    st.session_state[links.LESSON] = lesson.slug
    if family is not None and isinstance(lesson.after, Experiment) and isinstance(lesson.before, Experiment):
        page, (was, _) = family.page(), lesson.change.texts
        preset_menu.open_with(page.prefix, lesson.after)
        before = Pin(clean(f"{lesson.change.title} {was}"), lesson.before)
        pins.take([lambda: [before]], {page.prefix: page.knows}, page.prefix)
    st.switch_page(f"pages/{lesson.page}.py", query_params=_planned(lesson.after))


def _planned(settings: Specification) -> dict[str, str]:
    """Set the planner's controls for what nothing runs, and give its address; other settings are their page's task."""
    if not isinstance(settings, Released):
        return {}
    panel, address = Panel(PLANNER), {f"{PLANNER}_currency": settings.budget.name}
    panel.write({"currency": next(name for name, cls in CURRENCIES.items() if cls is type(settings.budget))})
    for part in (settings.budget, settings.means):
        declared = {control.name: control for control in part.controls()}
        panel.write({name: getattr(part, name) for name in declared})  # the page may have been set before
        changed = ((declared[key.removeprefix(f"{PLANNER}_")], text) for key, text in part.query(PLANNER).items())
        address |= {panel.key(control.name): (control.options or {}).get(text, text) for control, text in changed}
    return address


# ------------------------------------------------------------------------------------------- a prediction that is drawn

# The curve of what comes, on the axes where it will appear; its end is the answer.


def _draw_prediction(lesson: Lesson, before: Side, after: Side) -> None:
    """The sheet; what is drawn on it is remembered, and the answer that it is."""
    sheet, last = _sheet(lesson, before, after), lesson.measure.value(before)
    places = _places(lesson) or [float(sheet.y.place(np.array(last)))] * len(sheet.handles)
    label = f"{lesson.measure.axes(before).describe()}: draw what you predict"
    curve.draw(_key(lesson, "sheet"), sheet, places, label, partial(_moved, lesson, sheet, last))


def _say_drawn(answer: Answer | None) -> None:
    """How it is drawn, and what the drawing says."""
    st.markdown("Draw the curve: sweep over the sheet, or move its handles, by pointer or by the arrow keys.")
    st.caption("Its end is your prediction." if answer is None else f"You predict: “{answer.words}”.")


def _drawn(lesson: Lesson, before: Side, after: Side) -> Curve | None:
    """What was drawn, if anything was."""
    places = _places(lesson)
    if places is None:
        return None
    x, y = _sheet(lesson, before, after).drawn(places)
    return Curve(x, y, name="Your curve")


def _sheet(lesson: Lesson, before: Side, after: Side) -> Sheet:
    measure = lesson.measure
    return lesson_figures.sheet(measure.curves(before), measure.axes(before), measure.reach(after))


def _moved(lesson: Lesson, sheet: Sheet, last: float) -> None:
    places = curve.values(_key(lesson, "sheet"), len(sheet.handles))
    if places is not None:
        end = float(sheet.drawn(places)[1][-1])
        notes = visitors.here().notes
        notes[_key(lesson, "places")] = places
        notes[_key(lesson, "answer")] = lesson.answers.index(lesson.answer(end / last))


def _places(lesson: Lesson) -> tuple[float, ...] | None:
    places = visitors.here().notes.get(_key(lesson, "places"))
    return places if isinstance(places, tuple) else None


Which = Literal["before", "after"]
BOTH: tuple[Which, Which] = ("before", "after")


def begin_runs(lesson: Lesson) -> None:
    """Start what has not begun; what anybody has run before is there at once."""
    for which in BOTH:
        settings, run = getattr(lesson, which), _run(lesson, which)
        if isinstance(settings, Experiment) and (run is None or run.job.state == "stopped"):
            plans = settings.plans()
            here = visitors.here()
            job = runner().submit(settings, visitor=here.name, short=True)
            here.keep(_key(lesson, which), Run(job, plans, "learn", lesson.title))


def ready(lesson: Lesson, needed: Sequence[Which]) -> bool:
    """Whether these sides have all that they will have; if not, the page says why, and looks again."""
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
        st.button("Try again", key="learn_again", on_click=_forget, args=(lesson,))
    return failed is None


def _side(lesson: Lesson, which: Which) -> Side:
    """What is known of a side now."""
    settings, run = getattr(lesson, which), _run(lesson, which)
    if run is None:
        return Side(settings)
    return Side(settings, run.plans, run.job.trace if run.job.state == "done" else None)


def _run(lesson: Lesson, which: Which) -> Run | None:
    run: Run | None = st.session_state.get(_key(lesson, which))
    return run


def _forget(lesson: Lesson) -> None:
    for which in BOTH:
        st.session_state.pop(_key(lesson, which), None)


GUARANTEES = "What a guarantee means"


@cache
def grouped() -> Mapping[str, tuple[Lesson, ...]]:
    """The lessons on guarantees, and those of every family that has any, by its title."""
    modules = {family.title: f"dpviz.families.{family.name}.lessons" for family in families.FAMILIES}
    by_family = {title: import_module(name).LESSONS for title, name in modules.items() if find_spec(name) is not None}
    return {GUARANTEES: budget_lessons.LESSONS, **by_family}


def named(slug: str) -> Lesson | None:
    """The lesson with this address, if there is one."""
    return next((lesson for lesson in ordered() if lesson.slug == slug), None)


def ordered() -> tuple[Lesson, ...]:
    """All lessons, in their order."""
    return tuple(lesson for lessons in grouped().values() for lesson in lessons)


def following(lesson: Lesson) -> Lesson | None:
    """The one after it, if it is not the last."""
    known = ordered()
    place = known.index(lesson) + 1
    return known[place] if place < len(known) else None
