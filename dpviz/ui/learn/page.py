"""The page of lessons: the lesson that the address names, or else the list of lessons with the glossary."""

from collections.abc import Mapping
from urllib.parse import quote

import streamlit as st

from dpviz.lessons.lesson import Lesson, Track
from dpviz.plots.elements.style import GREY, HUES
from dpviz.ui import components, glossary
from dpviz.ui.learn import classroom, steps

NO_LESSON = "This link names no lesson that there is. Choose one from the list."
NO_STEP = "This link names no step of the lesson, so it begins at the first."
STEPS = {str(number): number for number in range(1, len(steps.NAMES) + 1)}  # numbers of the steps by their text
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
    lesson = steps.named(slug) if slug else None
    if lesson is None:
        _list(is_unknown=bool(slug))
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
    lessons = steps.ordered()
    open_lessons = [lesson for lesson in lessons if not steps.answered(lesson)]
    row = st.container(horizontal=True, vertical_alignment="center")
    if open_lessons:
        first, *_ = open_lessons
        label = f"{'Begin' if len(open_lessons) == len(lessons) else 'Go on'}: {first.title}"
        icon = ":material/play_arrow:"
        row.button(label, key="learn_begin", type="primary", icon=icon, on_click=steps.go, args=(first.slug,))
    if classroom.room() is None:
        icon, help = ":material/cast_for_education:", "A class with its phones predicts, you reveal."
        args = (classroom.NEW,)  # the page that opens a class
        row.button("Teach a class", key="class_new", icon=icon, help=help, on_click=classroom.go_to, args=args)
    answered_count = len(lessons) - len(open_lessons)
    done = f"{answered_count} of {len(lessons)} answered. Until you close the tab, this page remembers which."
    row.caption(done, width="content")
    for column, (track, members) in zip(st.columns(len(TRACKS)), steps.lessons_by_track().items(), strict=True):
        with column:
            title, about = TRACKS[track]
            st.header(title, anchor=False)
            st.caption(f"{about} {sum(lesson.minutes for lesson in members)} minutes.")
            for lesson in members:
                _entry(lesson)
    glossary.mark_terms("learn_words", here=True)
    components.figure_placeholder("learn_awaited")  # the tab fetches the plotting library now, as lessons have charts


def _entry(lesson: Lesson) -> None:
    """Draw a lesson of the list: its picture, the button that opens it, and its duration."""
    row = st.container(border=True, horizontal=True, vertical_alignment="center", gap="small", wrap=False)
    paths = "".join(f'<path d="{path}" {_PENS[pen]}/>' for pen, path in lesson.picture.items())
    attributes = 'viewBox="0 0 96 56" fill="none" stroke-linecap="round" stroke-linejoin="round"'
    sketch = quote(f'<svg xmlns="http://www.w3.org/2000/svg" {attributes}>{paths}</svg>')
    row.html(f'<img alt="" width="96" height="56" src="data:image/svg+xml,{sketch}">', width="content")
    with row.container(gap=None):
        is_answered = steps.answered(lesson)
        icon = ":material/check_circle:" if is_answered else None
        key = f"learn_open_{lesson.slug}"
        st.button(lesson.title, key=key, type="tertiary", icon=icon, on_click=steps.go, args=(lesson.slug,))
        st.caption(f"{lesson.minutes} minutes{', answered' if is_answered else ''}")
