"""The page of lessons: the lesson that the address names, or else the list of lessons with the glossary."""

import streamlit as st

from dpviz.lessons.lesson import Lesson
from dpviz.ui import components, glossary
from dpviz.ui.learn import classroom, steps

NO_LESSON = "This link names no lesson that there is. Choose one from the list."
NO_STEP = "This link names no step of the lesson, so it begins at the first."
STEPS = {str(number): number for number in range(1, len(steps.NAMES) + 1)}  # numbers of the steps by their text


def show() -> None:
    """Draw the step of the lesson that the address names, the page of a class, or the list."""
    if classroom.KEY in st.query_params:
        classroom.show(st.query_params[classroom.KEY])
        return
    slug, step = st.query_params.get("lesson"), st.query_params.get("step", "1")
    lesson = steps.named(slug) if slug else None
    if lesson is None:
        _list(bool(slug))
        return
    if step not in STEPS:
        st.info(NO_STEP, icon=":material/link_off:")
    steps.show(lesson, STEPS.get(step, 1))


def _list(is_unknown: bool) -> None:
    """Draw the tabs of lessons and glossary. is_unknown : true if the address names a lesson that does not exist."""
    room = classroom.room()
    if room is not None:
        classroom.bar(room)
    st.title("Lessons", anchor=False)
    first, second = st.tabs(["Lessons", glossary.TAB], key=glossary.TABS, bind="query-params", on_change="rerun")
    if second.open:
        with second:
            glossary.listed()
    with first:
        _lessons(is_unknown)


def _lessons(is_unknown: bool) -> None:
    """Draw the tab of lessons. is_unknown : as in `_list`."""
    st.markdown(
        "One idea each, in a few minutes: predict what happens, see it run, and read why. No answer is written in "
        "advance: the run decides."
    )
    if classroom.room() is None:
        st.button(
            "Teach a class",
            key="class_new",
            icon=":material/cast_for_education:",
            help="You on a projector, a class with its phones: everybody predicts, you reveal.",
            on_click=classroom.go_to,
            args=(classroom.NEW,),
        )
    if is_unknown:
        st.info(NO_LESSON, icon=":material/link_off:")
    lessons = steps.ordered()
    done = sum(steps.answered(lesson) for lesson in lessons)
    st.caption(f"{done} of {len(lessons)} answered. Until you close the tab, this page remembers which.")
    for group, members in steps.grouped().items():
        st.header(group, anchor=False)
        for lesson in members:
            _entry(lesson)
    glossary.words("learn_words", here=True)
    components.awaited("learn_awaited")  # the tab fetches the plotting library now, as lessons have charts


def _entry(lesson: Lesson) -> None:
    """Draw a row of the list: a button that opens a lesson, and its duration."""
    row = st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False)
    icon = ":material/check_circle:" if steps.answered(lesson) else ":material/school:"
    row.button(lesson.title, key=f"learn_open_{lesson.slug}", icon=icon, on_click=steps.go, args=(lesson.slug,))
    suffix = ", answered" if steps.answered(lesson) else ""
    row.caption(f"{lesson.minutes} minutes{suffix}", width="content")
