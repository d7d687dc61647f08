"""The page of lessons: the lesson that the address names, or else the list of lessons with the glossary.

A lesson has four steps: the setting, a prediction of the visitor, the outcome, and why. It has two sides: an experiment
before a change of one setting, and after it. Both runs start when the lesson is opened, and are computed once for all
visitors. A lesson on the meaning of a guarantee needs no runs. The visitor predicts by a choice among answers or by
drawing the curve to come.
"""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Literal, get_args
from urllib.parse import quote

import numpy as np
import streamlit as st

from dpviz.compare.pins import Pin, clean
from dpviz.experiments.experiment import Experiment
from dpviz.lessons import lesson as budget_lessons
from dpviz.lessons.lesson import Answer, BudgetSettings, Curve, Lesson, LessonAxes, Side, Track
from dpviz.plots import lesson_figures
from dpviz.plots.elements.sheets import Sheet
from dpviz.plots.elements.style import GREY, HUES
from dpviz.specification import Specification
from dpviz.ui import budget_planner, charts, components, explain, families, glossary, links, visitors
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import pins
from dpviz.ui.experiment import presets as preset_menu
from dpviz.ui.experiment.controls import CURRENCIES
from dpviz.ui.experiment.run import START_WAIT, Run, rerun_when_ended, runner
from dpviz.ui.learn import classroom
from dpviz.ui.learn.classroom import Poll

# ---------------------------------------------------------------------------------------------------- steps of a lesson

NAMES = ("Setting", "Predict", "See", "Why")
PLANNER = "planner"  # prefix of the budget planner's keys and query parameters
SETTING, PREDICT, SEE, WHY = range(1, 5)
Which = Literal["before", "after"]  # name of a side, which is also the field of a lesson with its settings
BOTH: tuple[Which, Which] = ("before", "after")


def show_lesson(lesson: Lesson, step: int) -> None:
    """Draw a step of a lesson. step : its number, from SETTING to WHY."""
    st.session_state.pop(links.LESSON, None)  # the visitor is back at a lesson
    begin_runs(lesson)
    room = classroom.room()
    bar_container = st.container()  # the bar of the class is on top, but is drawn later, as it needs the poll
    st.button("All lessons", key="learn_list", type="tertiary", icon=":material/arrow_back:", on_click=go)
    st.title(lesson.title, anchor=False)
    st.caption(f"Step {step} of {len(NAMES)}: **{NAMES[step - 1]}**. {lesson.minutes} minutes in all.")
    text_column, chart_column = st.columns([4, 7], gap="large")
    with chart_column:  # first, as it waits a moment for the runs whose results the text and the poll contain
        is_ready = ready(lesson, BOTH if step >= SEE else ("before",))
    before, after = (_side(lesson, which) for which in BOTH)
    poll = None  # the prediction of the class that this visitor teaches
    if room is not None:
        ballot = reveal = None
        if is_ready:
            poll = Poll(room, lesson, before, after, _sheet(lesson, before, after) if lesson.is_drawn else None)
            if step == PREDICT:
                poll.ask()
                ballot, reveal = poll.ballot, poll.reveal
            elif step == SEE:
                poll.tell()
                ballot = poll.ballot
            else:
                room.show_text()  # phones have nothing to answer
        with bar_container:
            classroom.bar(room, ballot, reveal, onward=(go, lesson.slug, step + 1) if step != WHY else ())
    with text_column:
        _show_text(lesson, step, before, after, is_ready, poll)
    if is_ready:
        with chart_column:
            if (
                room is not None and step == SEE and lesson.change.path == "replicates"
            ):  # the lesson on the number of runs
                classroom.own_runs(room, lesson, after)
            _show_chart(lesson, step, before, after, poll)
    _show_buttons(lesson, step)
    glossary.mark_terms("learn_words")


def is_answered(lesson: Lesson) -> bool:
    """Return true if the visitor has made a prediction in this tab."""
    return _prediction(lesson) is not None


def go(slug: str = "", step: int = SETTING) -> None:
    """Go to a step of the lesson with this name in addresses, or to the list if that is ""; for callbacks."""
    st.query_params.from_dict({"lesson": slug, "step": str(step)} if slug else {})


def _prediction(lesson: Lesson) -> Answer | None:
    """Return the answer that the visitor has predicted, None before that."""
    index = visitors.current().notes.get(_key(lesson, "answer"))
    return lesson.answers[index] if isinstance(index, int) else None


def _is_seen(lesson: Lesson) -> bool:
    """Return true if the visitor has seen the outcome after a prediction, which then stays."""
    return _key(lesson, "seen") in visitors.current().notes


def _key(lesson: Lesson, name: str) -> str:
    """Return the key, in the session or among the visitor's notes, of a value or control of a lesson."""
    return f"learn_{lesson.slug}_{name}"


# ----------------------------------------------------------------------------------------------------------------- text


def _show_text(lesson: Lesson, step: int, before: Side, after: Side, is_ready: bool, poll: Poll | None) -> None:
    """Draw the text of a step.

    is_ready : false while runs are not done, so that dots replace their results. poll : the prediction of a class, in
    place of the visitor's.
    """
    fill_in = partial(lesson.fill_in, before=before, after=after, has_run=is_ready)
    if step == SETTING:
        st.markdown(fill_in(lesson.setting))
        return
    old, new = lesson.change.texts
    if step != WHY:
        st.markdown(f"**{lesson.change.title}:** {old} → {new}")
    if step == PREDICT:
        st.markdown(fill_in(lesson.question))
        prediction = _prediction(lesson)  # for a drawing, the answer that its end means
        if poll is not None:
            poll.show_answers()
        elif lesson.is_drawn:
            if not _is_seen(lesson):
                st.markdown("Draw the curve: sweep over the sheet, or move its handles, by pointer or by arrow keys.")
            st.caption("Its end is your prediction." if prediction is None else f"You predict: “{prediction.words}”.")
        else:
            st.radio(
                "What do you predict?",
                range(len(lesson.answers)),
                index=None if prediction is None else lesson.answers.index(prediction),
                format_func=lambda index: lesson.answers[index].words,
                key=_key(lesson, "choice"),
                on_change=_note_choice,
                args=(lesson,),
                disabled=_is_seen(lesson),  # the prediction stays once the outcome was seen
            )
    elif step == SEE:
        if poll is not None:
            poll.show_verdict()
        elif is_ready:
            _show_verdict(lesson, before, after)
    else:
        st.markdown(fill_in(lesson.why))
        st.markdown(fill_in(lesson.try_it))
        if st.button("Try it yourself", key="learn_try", icon=":material/tune:"):
            _open(lesson)


def _note_choice(lesson: Lesson) -> None:
    """Note the answer that was chosen; for a callback."""
    visitors.current().notes[_key(lesson, "answer")] = st.session_state[_key(lesson, "choice")]


def _show_verdict(lesson: Lesson, before: Side, after: Side) -> None:
    """Draw the right answer, which the results decide, next to the visitor's prediction."""
    right = lesson.answer(lesson.measure.ratio(before, after))
    outcome = lesson.measure.outcome(before, after)
    prediction = _prediction(lesson)
    if prediction is not None:
        visitors.current().notes[_key(lesson, "seen")] = True
    if prediction is None:
        st.info(f"You made no prediction. It was “{right.words}”: {outcome}.", icon=":material/visibility:")
    elif prediction == right:
        st.success(f"You said “{prediction.words}”, and so it was: {outcome}.", icon=":material/check_circle:")
    else:
        st.info(f"You said “{prediction.words}”. It was “{right.words}”: {outcome}.", icon=":material/lightbulb:")


# ---------------------------------------------------------------------------------------------------------------- chart


def _show_chart(lesson: Lesson, step: int, before: Side, after: Side, poll: Poll | None) -> None:
    """Draw the chart of a step: the curves before the change; from the step See on also those after it.

    In the step Predict of a lesson with a drawn prediction, the chart is the sheet on which the visitor draws, until
    the outcome was seen. At first it has a level line at the value with which the run before the change ends.

    poll : the prediction of a class, which draws on its phones.
    """
    measure = lesson.measure
    axes, names = measure.axes(before), lesson.change.names
    if step == PREDICT and lesson.is_drawn and poll is None and not _is_seen(lesson):
        sheet, end_before = _sheet(lesson, before, after), measure.value(before)
        level_line = [float(sheet.y.place(np.array(end_before)))] * len(sheet.handles)
        heights = _heights(lesson) or level_line
        note = partial(_note_drawing, lesson, sheet, end_before)
        label = f"{axes.describe()}: draw what you predict"
        components.draw_sheet(_key(lesson, "sheet"), sheet, heights, label, note)
    else:
        new = measure.curves(after) if step >= SEE else ()
        guess = None
        if poll is not None and step in (PREDICT, SEE):
            guess = poll.median
        elif poll is None and step >= PREDICT:
            guess = _drawn_curve(lesson, before, after)
        figure = lesson_figures.before_and_after(
            measure.curves(before), new, names, axes, frame=lesson.frame(after), guess=guess
        )
        if poll is not None and step in (PREDICT, SEE):
            figure = poll.with_drawings(figure)
        charts.show_figure(figure, _key(lesson, "chart"), f"{axes.describe()}: “{lesson.title}”")
    st.caption(_caption(lesson.after if step >= SEE else lesson.before, axes))
    noise = measure.noise(before)
    if noise:
        figure = lesson_figures.noise(
            noise, measure.noise(after), names, x_ends=measure.reach(after), reveal=step != SETTING
        )
        charts.show_figure(figure, _key(lesson, "noise"), f"Noise scale in each step: “{lesson.title}”")
        st.caption(explain.SETTINGS_ONLY)


def _caption(settings: Specification, axes: LessonAxes) -> str:
    """Return the caption of a chart: its contents, and its privacy. settings : those of a side that it shows."""
    if not isinstance(settings, Experiment):
        return explain.SETTINGS_ONLY
    repeats, public = settings.replicates, settings.problem.public
    content = f"Where each of {repeats} runs ends, in their order." if axes.each else explain.spread_sentence(repeats)
    return f"{content} {explain.diagnostic_sentence(repeats, public)}" if axes.diagnostic else content


# --------------------------------------------------------------------------------------------------------------- onward


def _show_buttons(lesson: Lesson, step: int) -> None:
    """Draw the buttons to the previous and the next step; after the last step, to the next lesson or the list.

    The next step can be opened only when the visitor has made the prediction, or teaches a class.
    """
    is_waiting = step == PREDICT and not is_answered(lesson) and classroom.room() is None
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
    lessons = all_lessons()
    later = lessons[lessons.index(lesson) + 1 :]
    target: tuple[str | int, ...]  # arguments of `go`
    if step != WHY:
        label, target = "Next", (lesson.slug, step + 1)
    elif later:
        label, target = "Next lesson", (later[0].slug, SETTING)
    else:
        label, target = "To the list", ()
    row.button(
        label,
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
    """Go to the page of a lesson's subject, with the settings after the change, and with those before it as a pin.

    A lesson without runs opens the budget planner with its settings.
    """
    family = next((family for family in families.FAMILIES if family.name == lesson.page), None)
    st.session_state[links.LESSON] = lesson.slug
    if family is not None and isinstance(lesson.after, Experiment) and isinstance(lesson.before, Experiment):
        page = family.page()
        old, _ = lesson.change.texts  # the value of the changed setting before, and after
        preset_menu.set_pending(page.prefix, lesson.after)
        pin = Pin(clean(f"{lesson.change.title} {old}"), lesson.before)
        # The only reader returns this pin, as from a link; only the page that opens can take it.
        pins.import_pins([lambda: [pin]], can_express_by_page={page.prefix: page.can_express}, error_page=page.prefix)
    st.switch_page(f"pages/{lesson.page}.py", query_params=_set_planner(lesson.after))


def _set_planner(settings: Specification) -> dict[str, str]:
    """Set the controls of the budget planner to the settings of a lesson without runs, and return the planner's query
    parameters with them, as Streamlit puts no control into the address that it has not drawn yet; for other lessons,
    set nothing and return {}."""
    if not isinstance(settings, BudgetSettings):
        return {}
    panel = Panel(PLANNER)
    address = {
        f"{PLANNER}_currency": settings.budget.name,
        f"{PLANNER}_about": budget_planner.ABOUT["steps"],  # at first, the planner is about statistics
        f"{PLANNER}_section": budget_planner.SOLVED,
    }
    (currency,) = (name for name, cls in CURRENCIES.items() if cls is type(settings.budget))
    panel.set_values({"currency": currency, "about": "steps", "section": budget_planner.SOLVED})
    for part in (settings.budget, settings.means):
        controls = {control.name: control for control in part.controls()}
        # All values, also those that are the defaults: an earlier visit may have left others.
        panel.set_values({name: getattr(part, name) for name in controls})
        for key, text in part.query(PLANNER).items():  # the settings that are not the default
            options = controls[key.removeprefix(f"{PLANNER}_")].options or {}
            address[key] = options.get(text, text)  # an address has the label of an option
    return address


# ------------------------------------------------------------------------------------------- a prediction that is drawn

# The visitor draws the curve to come on the axes where it will appear; the end of the curve is the answer.


def _drawn_curve(lesson: Lesson, before: Side, after: Side) -> Curve | None:
    """Return the visitor's curve, None if none was drawn."""
    heights = _heights(lesson)
    if heights is None:
        return None
    x, y = _sheet(lesson, before, after).curve(heights)
    return Curve(x, y, name="Your curve")


def _sheet(lesson: Lesson, before: Side, after: Side) -> Sheet:
    """Return the sheet with the curves before the change, on the axes of the lesson's chart."""
    measure = lesson.measure
    old_curves, axes = measure.curves(before), measure.axes(before)
    return lesson_figures.sheet(old_curves, lesson.change.names, axes, frame=lesson.frame(after))


def _note_drawing(lesson: Lesson, sheet: Sheet, end_before: float) -> None:
    """Note the visitor's drawing, and the answer that follows from its end, divided by `end_before`; for a callback."""
    heights = components.sheet_heights(_key(lesson, "sheet"), len(sheet.handles))
    if heights is not None:
        _, y = sheet.curve(heights)
        ratio = float(y[-1]) / end_before
        notes = visitors.current().notes
        notes[_key(lesson, "heights")] = heights
        notes[_key(lesson, "answer")] = lesson.answers.index(lesson.answer(ratio))


def _heights(lesson: Lesson) -> tuple[float, ...] | None:
    """Return the heights of the sheet's handles, as shares from 0 to 1; None if the visitor has moved none."""
    heights = visitors.current().notes.get(_key(lesson, "heights"))
    return heights if isinstance(heights, tuple) else None


def begin_runs(lesson: Lesson) -> None:
    """Start the runs of a lesson that are not there yet; a run that any visitor has computed is done at once."""
    for which in BOTH:
        settings, run = getattr(lesson, which), _run(lesson, which)
        if isinstance(settings, Experiment) and (run is None or run.job.state == "stopped"):
            visitor = visitors.current()
            job = runner().submit(settings, visitor=visitor.name, short=True)
            visitor.keep(_key(lesson, which), Run(job, settings.plans(), "learn", lesson.title))


def ready(lesson: Lesson, needed: Sequence[Which]) -> bool:
    """Return true if the runs of the `needed` sides are done.

    If not, draw the reason, and have the page drawn again when a run has ended. A lesson without runs is always ready.
    """
    runs = [run for run in (_run(lesson, which) for which in needed) if run is not None]
    for run in runs:
        run.job.wait(START_WAIT)  # seconds at most; a quick run is done by then
    under_way = [run for run in runs if run.job.active]
    if under_way:
        st.caption(":material/directions_run: The runs of this lesson are under way.")
        rerun_when_ended("learn_poll", under_way)
        return False
    failed = next((run for run in runs if run.job.state != "done"), None)
    if failed is not None:
        st.error(failed.job.message, title="The run of this lesson did not finish")
        st.button("Try again", key="learn_again", on_click=_forget_runs, args=(lesson,))
    return failed is None


def _side(lesson: Lesson, which: Which) -> Side:
    """Return a side of a lesson: its settings, the plans of its run if it has one, and the trace once that is done."""
    settings, run = getattr(lesson, which), _run(lesson, which)
    if run is None:
        return Side(settings)
    return Side(settings, run.plans, run.job.trace if run.job.state == "done" else None)


def _run(lesson: Lesson, which: Which) -> Run | None:
    """Return the run of a side of a lesson; None before it began, and for a lesson without runs."""
    run: Run | None = st.session_state.get(_key(lesson, which))
    return run


def _forget_runs(lesson: Lesson) -> None:
    """Forget the runs of a lesson, so that they start again; for a callback."""
    for which in BOTH:
        st.session_state.pop(_key(lesson, which), None)


@cache
def lessons_by_track() -> Mapping[Track, tuple[Lesson, ...]]:
    """Return the lessons of each track: first those on guarantees, then those of each family that has some."""
    lessons = list(budget_lessons.LESSONS)
    for family in families.FAMILIES:
        module_name = f"dpviz.families.{family.name}.lessons"
        if find_spec(module_name) is not None:
            lessons += import_module(module_name).LESSONS
    return {track: tuple(lesson for lesson in lessons if lesson.track == track) for track in get_args(Track)}


def named(slug: str) -> Lesson | None:
    """Return the lesson with this name in addresses, None if there is none."""
    return next((lesson for lesson in all_lessons() if lesson.slug == slug), None)


def all_lessons() -> tuple[Lesson, ...]:
    """Return all lessons in the order of the list."""
    return tuple(lesson for lessons in lessons_by_track().values() for lesson in lessons)


# ----------------------------------------------------------------------------------------------------------------- page

NO_LESSON = "This link names no lesson that there is. Choose one from the list."
NO_STEP = "This link names no step of the lesson, so it begins at the first."
STEPS = {str(number): number for number in range(1, len(NAMES) + 1)}  # numbers of the steps by their text
TRACKS: Mapping[Track, tuple[str, str]] = {  # title, and what its lessons are about
    "understand": ("Understand", "What guarantees and chance mean."),
    "plan": ("Plan", "What a budget buys."),
    "deep": ("Go deep", "What noise does inside an algorithm."),
}
_PENS = {  # of the sketches: attributes of an SVG path, in colours for both themes; dots are lines without a length
    "line": f'stroke="{GREY}" stroke-width="2"',
    "dash": f'stroke="{GREY}" stroke-width="2" stroke-dasharray="4 4"',
    "dots": f'stroke="{GREY}" stroke-opacity=".5" stroke-width="7"',
    "blue": f'stroke="{HUES[0]}" stroke-width="3"',
    "blot": f'stroke="{HUES[0]}" stroke-width="8"',
    "orange": f'stroke="{HUES[1]}" stroke-width="3"',
    "mark": f'stroke="{HUES[1]}" stroke-width="8"',
}


def show() -> None:
    """Draw the step of the lesson that the address names, the page of a class, or the list."""
    if classroom.KEY in st.query_params:
        classroom.show(st.query_params[classroom.KEY])
        return
    slug, step = st.query_params.get("lesson"), st.query_params.get("step", "1")
    lesson = named(slug) if slug else None
    if lesson is None:
        _list(is_unknown=bool(slug))
        return
    if step not in STEPS:
        st.info(NO_STEP, icon=":material/link_off:")
    show_lesson(lesson, STEPS.get(step, 1))


def _list(is_unknown: bool) -> None:
    """Draw the tabs of lessons and glossary. is_unknown : true if the address names a lesson that does not exist."""
    room = classroom.room()
    if room is not None:
        classroom.bar(room)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.title("Lessons", anchor=False)
        glossary.mark_terms("learn_words", here=True)
    titles = ["Lessons", glossary.TAB]
    lessons_tab, glossary_tab = st.tabs(titles, key=glossary.TABS, bind="query-params", on_change="rerun")
    if glossary_tab.open:
        with glossary_tab:
            glossary.show_list()
    with lessons_tab:
        _lessons(is_unknown)


def _lessons(is_unknown: bool) -> None:
    """Draw the tab of lessons. is_unknown : as in `_list`."""
    st.markdown(
        "One idea each, in a few minutes: predict what happens, see what does, and read why. No answer is written in "
        "advance: it is computed."
    )
    if is_unknown:
        st.info(NO_LESSON, icon=":material/link_off:")
    lessons = all_lessons()
    open_lessons = [lesson for lesson in lessons if not is_answered(lesson)]
    row = st.container(horizontal=True, vertical_alignment="center")
    if open_lessons:
        first, *_ = open_lessons
        label = f"{'Begin' if len(open_lessons) == len(lessons) else 'Go on'}: {first.title}"
        icon = ":material/play_arrow:"
        row.button(label, key="learn_begin", type="primary", icon=icon, on_click=go, args=(first.slug,))
    if classroom.room() is None:
        icon, help = ":material/cast_for_education:", "A class with its phones predicts, you reveal."
        args = (classroom.NEW,)  # the page that opens a class
        row.button("Teach a class", key="class_new", icon=icon, help=help, on_click=classroom.go_to, args=args)
    answered_count = len(lessons) - len(open_lessons)
    done = f"{answered_count} of {len(lessons)} answered. Until you close the tab, this page remembers which."
    row.caption(done, width="content")
    for column, (track, members) in zip(st.columns(len(TRACKS)), lessons_by_track().items(), strict=True):
        with column:
            title, about = TRACKS[track]
            st.header(title, anchor=False)
            st.caption(f"{about} {sum(lesson.minutes for lesson in members)} minutes.")
            for lesson in members:
                _entry(lesson)
    components.figure_placeholder("learn_awaited")  # the tab fetches the plotting library now, as lessons have charts


def _entry(lesson: Lesson) -> None:
    """Draw a lesson of the list: its picture, the button that opens it, and its duration."""
    row = st.container(border=True, horizontal=True, vertical_alignment="center", gap="small", wrap=False)
    paths = "".join(f'<path d="{path}" {_PENS[pen]}/>' for pen, path in lesson.picture.items())
    attributes = 'viewBox="0 0 96 56" fill="none" stroke-linecap="round" stroke-linejoin="round"'
    sketch = quote(f'<svg xmlns="http://www.w3.org/2000/svg" {attributes}>{paths}</svg>')
    row.html(f'<img alt="" width="96" height="56" src="data:image/svg+xml,{sketch}">', width="content")
    with row.container(gap=None):
        has_answer = is_answered(lesson)
        icon = ":material/check_circle:" if has_answer else None
        key = f"learn_open_{lesson.slug}"
        st.button(lesson.title, key=key, type="tertiary", icon=icon, on_click=go, args=(lesson.slug,))
        st.caption(f"{lesson.minutes} minutes{', answered' if has_answer else ''}")
