"""A lesson in four steps: the setting, a prediction, what comes of it, and why."""

import streamlit as st

from dpviz.experiments.experiment import Experiment
from dpviz.lessons.budget_lessons import Released
from dpviz.lessons.lesson import Answer, Axes, Lesson, Side
from dpviz.plots import lesson_figures
from dpviz.specification import Specification
from dpviz.ui import charts, explain, families, glossary, visitors
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import presets as preset_menu
from dpviz.ui.experiment.controls import CURRENCIES
from dpviz.ui.learn import drawing, lessons, sides

NAMES = ("Setting", "Predict", "See", "Why")
PLANNER = "planner"  # the prefix of its addresses
SETTING, PREDICT, SEE, WHY = range(1, 5)


def show(lesson: Lesson, step: int) -> None:
    """Draw one step."""
    sides.begin(lesson)
    st.button("All lessons", key="learn_list", type="tertiary", icon=":material/arrow_back:", on_click=go)
    st.title(lesson.title, anchor=False)
    st.caption(f"Step {step} of {len(NAMES)}: **{NAMES[step - 1]}**. {lesson.minutes} minutes in all.")
    if sides.ready(lesson, sides.BOTH if step >= SEE else sides.BOTH[:1]):
        before, after = sides.of(lesson)
        words, chart = st.columns([4, 7], gap="large")
        with words:
            _words(lesson, step, before, after)
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
    place = visitors.here().notes.get(_key(lesson))
    return lesson.answers[place] if isinstance(place, int) else None


def _key(lesson: Lesson) -> str:
    return f"learn_{lesson.slug}_answer"


# ---------------------------------------------------------------------------------------------------------------- words


def _words(lesson: Lesson, step: int, before: Side, after: Side) -> None:
    if step == SETTING:
        st.markdown(lesson.told(lesson.setting, before, after))
        return
    was, becomes = lesson.change.texts
    if step != WHY:
        st.markdown(f"**{lesson.change.title}:** {was} → {becomes}")
    if step == PREDICT:
        st.markdown(lesson.told(lesson.question, before, after))
        if lesson.drawn:
            drawing.said(_chosen(lesson))
        else:
            _ask(lesson)
    elif step == SEE:
        _verdict(lesson, before, after)
    else:
        st.markdown(lesson.told(lesson.why, before, after))
        st.markdown(lesson.told(lesson.try_it, before, after))
        if st.button("Try it yourself", key="learn_try", icon=":material/tune:"):
            _open(lesson)


def _ask(lesson: Lesson) -> None:
    chosen = _chosen(lesson)
    st.radio(
        "What do you predict?",
        range(len(lesson.answers)),
        index=None if chosen is None else lesson.answers.index(chosen),
        format_func=lambda place: lesson.answers[place].words,
        key=f"learn_{lesson.slug}_choice",
        on_change=_note,
        args=(lesson,),
    )


def _note(lesson: Lesson) -> None:
    visitors.here().notes[_key(lesson)] = st.session_state[f"learn_{lesson.slug}_choice"]


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
        drawing.ask(lesson, before, after, _key(lesson))
    else:
        if step == PREDICT:
            figure = lesson_figures.asked(was, names[0], axes, measure.reach(after))
        else:
            becomes, guess = (
                (measure.curves(after), drawing.guess(lesson, before, after)) if step >= SEE else ((), None)
            )
            figure = lesson_figures.told(was, becomes, names, axes, guess)
        charts.plain(figure, f"learn_{lesson.slug}_chart", f"{axes.describe()}: “{lesson.title}”")
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
    after = lessons.following(lesson)
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
    """Turn to the page that a lesson is about, with the settings after."""
    family = next((family for family in families.FAMILIES if family.name == lesson.page), None)
    if family is not None and isinstance(lesson.after, Experiment):
        preset_menu.open_with(family.page().prefix, lesson.after)
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
