"""The projector of a class: the lecturer opens it, phones follow its lessons, and it shows what the class has said.

The room is on the server; the lecturer's key to it is among the notes of this tab, which survive a reload. Of the
answers of phones nothing is drawn before the lecturer reveals them but their number, except where a class watches an
estimate, or its own runs, grow.
"""

import html
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import plotly.graph_objects as go
import segno
import streamlit as st

from dpviz.lessons.classroom import (
    MAX_PHONES,
    ROOMS,
    Ballot,
    Choice,
    Drawing,
    MembershipGame,
    OwnRun,
    Question,
    RandomisedQuestion,
    Room,
    Threshold,
)
from dpviz.lessons.lesson import Curve, FinalMedian, Lesson, Side
from dpviz.numbers import short, short_up
from dpviz.plots import class_figures
from dpviz.plots.elements.sheets import Sheet
from dpviz.plots.elements.style import with_subscripts
from dpviz.privacy import local
from dpviz.privacy.local import LaplaceCounts, RandomisedResponse
from dpviz.privacy.mechanisms import seed_or_random
from dpviz.ui import appearance, charts, explain, glossary, visitors
from dpviz.ui.controls import draw_errors
from dpviz.ui.experiment.run import draw_repeatedly
from dpviz.ui.markdown import escape_name
from dpviz.ui.server import HERE, phones

KEY = "class"  # query parameter of the class's pages, and name of the visitor's note with the lecturer's key
NEW, HALL, COINS, ODDS = "new", "open", "coins", "odds"  # its values
REDRAW_SECONDS = 1.0  # seconds between two drawings of what phones have sent
MAX_POINTS = 40  # of a curve that phones draw
PROMISE = (
    "No name, no account. A phone is known by a random number. Answers are in this server's memory until the class "
    "ends; the lecturer may save what was answered, but not by whom."
)


def room() -> Room | None:
    """Return the class that this visitor teaches, None if there is none."""
    visitor = visitors.current()
    # Without the note, a laptop was asleep for so long that its session is gone; its tab still knows its old name.
    current = ROOMS.with_key(visitor.notes.get(KEY)) or ROOMS.of_lecturer(visitor.old_name)
    if current is not None:  # so that both find each other the next time
        visitor.notes[KEY] = current.key
        current.lecturer = visitor.name
    return current


def go_to(name: str) -> None:
    """Go to a page of the class; for callbacks."""
    st.query_params.from_dict({KEY: name})


def show(name: str) -> None:
    """Draw the page of the class with this name. NEW opens a class, unless there is one, and begins a presentation."""
    if name == NEW:
        with draw_errors():
            if room() is None:
                visitors.current().notes[KEY] = ROOMS.open().key
            st.session_state[appearance.PRESENT] = True
            go_to(HALL)
            st.rerun()
    current = room()
    if current is None:
        st.title("Teach a class", anchor=False)
        st.info("No class is open in this tab. A class ends after three hours, or when the lecturer ends it.")
        icon = ":material/cast_for_education:"
        st.button("Open a class", key="class_new", type="primary", icon=icon, on_click=go_to, args=(NEW,))
        st.button("All lessons", key="class_lessons", icon=":material/arrow_back:", on_click=st.query_params.clear)
        return
    {COINS: _coins, ODDS: _odds}.get(name, _hall)(current)
    glossary.mark_terms("learn_words")


# --------------------------------------------------------------------------------------------------------- on each page


def bar(
    current: Room, ballot: Ballot | None = None, reveal: Callable[[], None] | None = None, onward: Sequence[Any] = ()
) -> None:
    """Draw the bar of a class: its address, the number of answers, and buttons.

    ballot : the question of this page, if phones have it. reveal : is called by the button that reveals its answers,
    None to draw none. onward : a function that goes to the next step, with its arguments; empty for none.
    """
    with st.container(key="class_bar", horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"**{current.code}** · {escape_name(_without_scheme(_address(current)))}", width="content")
        _watch("class_poll", current, partial(_count, current, ballot))
        if reveal is not None:
            is_closed = ballot is None or not ballot.is_open
            icon = ":material/visibility:"
            st.button("Reveal", key="class_reveal", icon=icon, type="primary", disabled=is_closed, on_click=reveal)
        if onward:
            action, *arguments = onward
            st.button("Next", key="class_next", icon=":material/arrow_forward:", on_click=action, args=arguments)
        if st.button("Class", key="class_hall", icon=":material/groups:"):
            st.switch_page("pages/learn.py", query_params={KEY: HALL})
        with st.popover("End class", key="class_ending", icon=":material/stop_circle:"):
            st.markdown("Phones are told that the class is over, and this server forgets their answers.")
            st.download_button(
                "Results (JSON)",
                lambda: results(current).encode(),
                file_name="dpviz_class.json",
                mime="application/json",
                key="class_results",
                icon=":material/download:",
                help="Counts and curves of the class, not whose they are, and the times of your own acts.",
                on_click="ignore",
            )
            st.button("End class", key="class_end", type="primary", on_click=_end, args=(current,))


def _count(current: Room, ballot: Ballot | None) -> float:
    """Draw the number of phones, and of answers to the question here; return the seconds to the next drawing."""
    total = f"{current.phones} phone{'s' if current.phones != 1 else ''}"
    text = total if ballot is None else f"{len(ballot.answers) + len(ballot.removed)} of {total} answered"
    st.markdown(f":material/smartphone: {text}", width="content")
    # Another period than that of the answers: of two parts that ask at once, one is drawn four seconds later.
    return 1.4 * REDRAW_SECONDS


def _watch(key: str, current: Room, draw: Callable[[], float]) -> None:
    """Draw a part of the page that is drawn again and again, until the class is over.

    The part is in a container: without one, what follows the part was sometimes lost in the browser when a page came
    soon after one with fewer parts. key : of the part. draw : draws it; returns the seconds until it is drawn again.
    """

    def rerun_if_over() -> None:
        """Draw the whole page anew if the class is over; called at each drawing of the part."""
        if current.is_over:
            st.rerun()

    with st.container():
        draw_repeatedly(key, draw, rerun_if_over)


def _end(current: Room) -> None:
    """End the class, and go to the list of lessons if a page of the class is open; for a callback."""
    current.end()
    for stored in (visitors.current().notes, st.session_state):
        for name in [name for name in stored if f"{name}_".startswith(f"{KEY}_")]:  # "class", or "class_…"
            del stored[name]
    st.query_params.pop(KEY, None)


def _address(current: Room) -> str:
    """Return the address at which phones join."""
    return phones.address(st.context.url or "localhost", current.code)


def _ask(current: Room, question: Question) -> None:
    """Have phones ask a question; for a callback, which returns nothing."""
    current.ask(question, anew=True)


def _without_scheme(url: str) -> str:
    """Return an address as one types it."""
    return url.partition("://")[2]


def _hall(current: Room) -> None:
    """Draw the first page of a class: how phones join, and what there is to do."""
    current.show_text()  # phones show “Look up” in place of a question
    bar(current)
    left, right = st.columns([5, 6], gap="large")
    url = _address(current)
    with left:
        picture = segno.make(url, error="m").svg_data_uri(border=4, dark="#000", light="#fff", omitsize=True)
        st.html(f'<img class="dpviz-qr" alt="QR code of {html.escape(url)}" src="{html.escape(picture)}">')
    with right:
        st.title("Join with your phone", anchor=False)
        st.html(f'<div>{html.escape(_without_scheme(url))}</div><div class="dpviz-code">{current.code}</div>')
        if urlsplit(url).hostname in HERE:
            st.warning(
                "Phones cannot reach this address, which names the computer itself. Start the server with `dpviz serve "
                "--class`, or open this page under the server's name in the network."
            )
        st.markdown(PROMISE)
        with st.container(horizontal=True):
            st.button("Lessons", key="class_lessons", icon=":material/school:", on_click=st.query_params.clear)
            st.button("Randomised response", key="class_coins", icon=":material/casino:", on_click=go_to, args=(COINS,))
            st.button("The odds game", key="class_odds", icon=":material/psychology:", on_click=go_to, args=(ODDS,))
            st.download_button(
                "Sheet to print",
                lambda: _page_to_print(url, current.code, picture).encode(),
                file_name=f"dpviz_class_{current.code}.html",
                mime="text/html",
                key="class_sheet",
                icon=":material/print:",
                on_click="ignore",
            )


def _page_to_print(url: str, code: str, picture: str) -> str:
    """Return a page to print, in HTML, by which phones join. picture : the QR code as a data URI."""
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Class {code}</title>
<style>body {{ font: 18pt sans-serif; margin: 2cm; text-align: center }} img {{ width: 11cm }}
strong {{ font-size: 40pt; letter-spacing: .2em }}</style>
<h1>Join with your phone</h1>
<img alt="QR code" src="{html.escape(picture)}">
<p>{html.escape(_without_scheme(url))}</p>
<p><strong>{code}</strong></p>
<p>{html.escape(PROMISE)}</p>
</html>"""


# -------------------------------------------------------------------------------------------------------------- lessons


def _points(curve: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Return a curve with at most MAX_POINTS of its points, and the last one, as phones draw it."""
    stride = math.ceil(len(curve) / MAX_POINTS)
    thinned = [*curve[:-1:stride], curve[-1]]
    return tuple((round(across, 4), round(up, 4)) for across, up in thinned)


@dataclass(frozen=True, eq=False)
class Poll:
    """The prediction of a class in a lesson.

    before, after : the sides of the lesson, of which the first has run. sheet : on which phones draw, if they do.
    """

    room: Room
    lesson: Lesson
    before: Side
    after: Side
    sheet: Sheet | None

    def ask(self) -> None:
        """Have phones ask the lesson's question, unless its answers are revealed already."""
        if not self.is_revealed:
            self.room.ask(self.question)

    @cached_property
    def question(self) -> Choice | Drawing:
        """The question of the lesson for phones: a choice among its answers, or a drawing."""
        lesson, (old, new) = self.lesson, self.lesson.change.texts
        text = lesson.fill_in(lesson.question, self.before, self.after).replace("**", "")  # a phone shows no Markdown
        title = f"{' '.join(text.split())} {lesson.change.title}: {old} → {new}."  # in one line
        if self.sheet is None:
            return Choice(title, tuple(answer.words for answer in lesson.answers))
        x, y, old_curve = self.sheet.x, self.sheet.y, _points(self.sheet.known)
        titles = with_subscripts(x.title), with_subscripts(y.title)
        return Drawing(title, self.sheet.handles, old_curve, *titles, tuple(x.ticks), tuple(y.ticks))

    @property
    def ballot(self) -> Ballot | None:
        """The last ballot of the class on this question; None if there was none."""
        return next((ballot for ballot in reversed(self.room.questions) if ballot.question == self.question), None)

    @property
    def is_revealed(self) -> bool:
        """True if the answers may be on the projector."""
        return self.ballot is not None and not self.ballot.is_open

    def reveal(self) -> None:
        """Close the question, and have phones and the projector show the class's answers, but not the right one."""
        if self.ballot is not None:
            self.room.close(self.ballot)
            self.room.reveal(self.ballot, self._result())

    def tell(self) -> None:
        """Close the question, and have each phone show the right answer, and whether it was the phone's."""
        ballot, right = self.ballot, self.right
        if ballot is None or "right" in (ballot.result or {}):  # phones have no such question, or know the answer
            return
        self.room.close(ballot)
        answers = self.answers
        result = {"right": right, "text": f"It was “{self.lesson.answers[right].words}”: {self.outcome}."}
        if self.sheet is not None:
            x, y = self.sheet.x, self.sheet.y
            new, *_ = self.lesson.measure.curves(self.after)  # its points as shares of the axes, as phones draw
            result["curve"] = _points(list(zip(x.place(new.x).tolist(), y.place(new.y).tolist(), strict=True)))
        self.room.reveal(ballot, self._result() | result, by_seat=lambda seat: {"is_right": answers.get(seat) == right})

    def _result(self) -> dict[str, Any]:
        """Return the answers of the class as phones show them: how often each was chosen, or the median drawing."""
        if self.ballot is not None and self.sheet is not None and self.ballot.answers:
            return {"median": np.median(list(self.ballot.answers.values()), axis=0).round(4).tolist()}
        counts = Counter(self.answers.values())
        return {"counts": [counts[index] for index in range(len(self.lesson.answers))]}

    @property
    def answers(self) -> Mapping[int, int]:
        """The index of the answer that each phone has given, by seat; of a drawing, the answer that its end means."""
        answers = {} if self.ballot is None else dict(self.ballot.answers)
        if self.sheet is None:
            return answers
        lesson, end_before = self.lesson, self.lesson.measure.value(self.before)
        meanings = {}
        for seat, heights in answers.items():
            _, y = self.sheet.curve(heights)  # in the units of the axes
            meanings[seat] = lesson.answers.index(lesson.answer(float(y[-1]) / end_before))
        return meanings

    @property
    def right(self) -> int:
        """The index of the right answer, once both sides have run."""
        return self.lesson.answers.index(self.lesson.answer(self.lesson.measure.ratio(self.before, self.after)))

    @property
    def outcome(self) -> str:
        """The outcome in words, once both sides have run."""
        return self.lesson.measure.outcome(self.before, self.after)

    def show_answers(self, right: int | None = None) -> None:
        """Draw the answers between which the class chooses; how many chose each, once that is revealed.

        right : index of the right answer, which is marked; None to mark none.
        """
        if not self.is_revealed:
            if self.sheet is None:
                st.markdown("\n".join(f"- {answer.words}" for answer in self.lesson.answers))
            return
        counts, total = Counter(self.answers.values()), len(self.answers)
        for index, answer in enumerate(self.lesson.answers):
            text = f"**{counts[index]}** · {answer.words}"
            if index == right:
                text = f":material/check_circle: {text} **(right)**"
            st.progress(counts[index] / max(total, 1), text=text)  # 0 without answers

    def show_verdict(self) -> None:
        """Draw the right answer, which the results decide, and how many phones gave it."""
        right, answers = self.right, self.answers
        text = f"It was “{self.lesson.answers[right].words}”: {self.outcome}."
        if answers:
            text += f" **{sum(answer == right for answer in answers.values())} of {len(answers)} phones said so.**"
        st.info(text, icon=":material/visibility:")
        if self.is_revealed:
            self.show_answers(right)

    @property
    def median(self) -> Curve | None:
        """The median of the curves that the class has drawn, None before they are revealed."""
        if self.sheet is None or self.ballot is None or not self.is_revealed or not self.ballot.answers:
            return None
        x, y = self.sheet.curve(np.median(list(self.ballot.answers.values()), axis=0).tolist())
        return Curve(x, y, name="Median of the class")

    def with_drawings(self, figure: go.Figure) -> go.Figure:
        """Return a figure of the lesson with the curves that the class has drawn, once they are revealed."""
        if self.sheet is None or self.ballot is None or not self.is_revealed:
            return figure
        return class_figures.with_drawings(figure, list(self.ballot.answers.values()), self.sheet)


# ------------------------------------------------------------------------------------------------------ runs of its own


def own_runs(current: Room, lesson: Lesson, after: Side) -> None:
    """Draw the button by which each phone gets a run of its own; then the ends of the runs that phones have opened."""
    assert isinstance(lesson.measure, FinalMedian)
    first, second = (arm.label for arm in after.experiment.arms)
    metric, axes = lesson.measure.metric, lesson.measure.axes(after)
    ends = {arm: after.ends(arm, metric) for arm in (first, second)}
    ratios = tuple(float(ratio) for ratio in (ends[second] / ends[first]).round(4))  # phones show three digits
    label = f"{with_subscripts(axes.y)}: {second} over {first}"
    question = OwnRun("Your phone has one of the runs. Press, and see how it ends.", label, ratios)
    ballot = next((ballot for ballot in reversed(current.questions) if ballot.question == question), None)
    if ballot is None:
        st.button(
            "A run for each phone",
            key="class_runs",
            icon=":material/casino:",
            help="Every phone opens one of the runs.",
            on_click=_ask,
            args=(current, question),
        )
        return
    if ballot is current.questions[-1]:
        current.ask(question)  # phones have it again, also if the lecturer was at another page meanwhile

    def draw() -> float:
        seats = sorted(ballot.answers)
        text = f"**{len(seats)} of {current.phones} phones have opened their run.**"
        if seats:
            runs = np.array(seats) % len(ratios)
            pairs = ((second, first), (first, second))  # a tie is nobody's win
            wins = [f"{arm} {(ends[arm][runs] < ends[other][runs]).sum()}" for arm, other in pairs]
            st.markdown(f"{text} Wins: {', '.join(wins)}.")
            by_arm = {arm: values[runs] for arm, values in ends.items()}
            figure = class_figures.ends(by_arm, title=axes.y, log=axes.log_y)
            charts.show_figure(figure, "class_ends", f"Where the runs of the class end, {axes.y}; 10 to 90 % range")
        else:
            st.markdown(text)
        st.caption(
            f"Phone number r has run r of {len(ratios)}; further phones begin again with the first. "
            f"{explain.diagnostic_sentence(len(ratios), after.experiment.problem.public)}"
        )
        return REDRAW_SECONDS

    _watch("class_runs_poll", current, draw)


# -------------------------------------------------------------------------------------------------- randomised response

YES, NUMBER = "Yes or no", "A number, in bins"  # kinds of questions
TARGET = 0.05  # error for which the number of people is told


def _coins(current: Room) -> None:
    """Draw the page of randomised response: the lecturer's question, then the estimate, which grows as reports come."""
    ballot = _last(current, RandomisedQuestion)
    if ballot is None:
        current.show_text()
        bar(current)
        st.title("Randomised response", anchor=False)
        st.markdown(
            "Ask what nobody would like to answer. Each phone tosses coins, and reports the true answer or one that it "
            "drew. So every report leaves a doubt, the more, the smaller ε; and the share can be "
            "estimated, as the coins are known. The true answer does not leave the phone."
        )
        _ask_coins(current)
        return
    question = ballot.question
    assert isinstance(question, RandomisedQuestion)
    bar(current, ballot, reveal=partial(_close_coins, current, ballot))
    st.title(escape_name(question.title), anchor=False)
    response = _response(question)
    random_answer = (
        "yes or no by a fair coin" if question.options == ("Yes", "No") else "an answer that it draws evenly"
    )
    st.markdown(
        f"**ε = {short(question.epsilon)}** for each report. With probability {short(100 * response.coin)} % a phone "
        f"reports the true answer, else {random_answer}."
    )
    # How often each option was reported before one report was removed; None if none was.
    old_counts = visitors.current().notes.get(_old_counts_name(current, ballot))
    if isinstance(old_counts, tuple):
        _compare(question, old_counts, _report_counts(question, ballot))
    else:
        _watch("class_coins_poll", current, partial(_show_estimates, question, ballot))
    if not ballot.is_open:
        spent = sum(
            item.question.epsilon for item in current.questions if isinstance(item.question, RandomisedQuestion)
        )
        st.caption(f"So far this class was asked at ε = {short_up(spent)} together: of one person, reports add up.")
        with st.container(horizontal=True):
            if old_counts is None and ballot.answers:
                icon, args = ":material/person_remove:", (current, ballot, question)
                st.button("Remove one", key="class_remove", icon=icon, on_click=_remove_one, args=args)
            icon = ":material/replay:"
            st.button("Ask another question", key="class_again", icon=icon, on_click=_note_done, args=(current,))


def _last(current: Room, kind: type[Question]) -> Ballot | None:
    """Return the last question of a class, if it is of this kind and the lecturer is not done with it, else None.

    Phones then have it again, also if the lecturer was at another page meanwhile.
    """
    ballot = current.questions[-1] if current.questions else None
    if ballot is None or not isinstance(ballot.question, kind) or visitors.current().notes.get(_done_name(current)):
        return None
    current.ask(ballot.question)  # the same question goes on, with its answers
    return ballot


def _done_name(current: Room) -> str:
    """Return the name of the note that the lecturer is done with the last question of a class."""
    return f"class_{current.code}_{len(current.questions)}_done"


def _note_done(current: Room) -> None:
    """Note that the lecturer is done with the last question; for a callback."""
    visitors.current().notes[_done_name(current)] = True


def _response(question: RandomisedQuestion) -> RandomisedResponse:
    """Return the law of a question's reports."""
    return RandomisedResponse(question.epsilon, len(question.options))


def _ask_coins(current: Room) -> None:
    """Draw the controls of a question for randomised response, and the button that asks it."""
    title = st.text_input("Question", key="class_title", max_chars=140, placeholder="Have you ever …?")
    kind = st.segmented_control("Answers", [YES, NUMBER], default=YES, required=True, key="class_kind")
    options: tuple[str, ...] = ("Yes", "No")
    is_ordered = True
    if kind == NUMBER:
        columns = st.columns(3)
        low = columns[0].number_input("First edge", min_value=-1e9, max_value=1e9, value=2.0, key="class_low")
        high = columns[1].number_input("Last edge", min_value=-1e9, max_value=1e9, value=8.0, key="class_high")
        bins = int(columns[2].number_input("Bins", min_value=3, max_value=12, value=5, key="class_bins"))
        is_ordered = low < high
        edges = _edges(low, high, bins - 1)  # the first and the last bin are open
        between = [f"{left} to below {right}" for left, right in pairwise(edges)]
        options = (f"below {edges[0]}", *between, f"{edges[-1]} or more")
        st.caption(" · ".join(options) if is_ordered else "The first edge must be below the last one.")
    epsilon = st.number_input(
        "ε of each report", min_value=0.1, max_value=7.0, value=1.0, step=0.1, key="class_epsilon"
    )
    response = RandomisedResponse(epsilon, len(options))
    _show_needs(response)
    # Edges that are equal, as written, make equal options.
    is_ready = bool(title and title.strip()) and is_ordered and len(set(options)) == len(options)
    question = RandomisedQuestion(" ".join((title or "").split()), options, epsilon, truth=response.coin)
    st.button(
        "Ask",
        key="class_ask",
        type="primary",
        icon=":material/campaign:",
        disabled=not is_ready,
        on_click=_ask,
        args=(current, question),
    )


def _edges(low: float, high: float, count: int) -> list[str]:
    """Return evenly spaced edges as texts, with as many digits as tell both ends exactly, and each edge from others."""
    edges = np.linspace(low, high, count).tolist()
    texts: list[str] = []
    for digits in range(3, 18):
        texts = [short(edge, digits) for edge in edges]
        if len({*texts}) == count and all(float(f"{end:.{digits}g}") == end for end in (low, high)):
            break
    return texts


def _show_needs(response: RandomisedResponse) -> None:
    """Draw how many people local noise and a trusted server need."""
    server = LaplaceCounts(response.eps, response.choices)
    st.markdown(
        f"For an error of at most {short(100 * TARGET)} points in about 95 % of the cases: "
        f"**{response.people(TARGET):,} people** with coins of their own, **{server.people(TARGET):,}** with a server "
        "that they trust."
    )


def _show_estimates(question: RandomisedQuestion, ballot: Ballot) -> float:
    """Draw the estimates from the reports so far; return the seconds to the next drawing."""
    counts, response = _report_counts(question, ballot), _response(question)
    people = sum(counts)
    if people:
        _draw_estimates(question, counts, "class_estimates")
        error = LaplaceCounts(response.eps, response.choices).error(people)
        st.caption(
            f"From {people} report{'s' if people != 1 else ''}, with 95 % intervals"
            f"{' for each answer by itself' if len(counts) > 2 else ''}. "
            "A share below 0 or above 100 % is drawn at that end. A trusted server, which would see every true answer "
            f"and add Laplace noise to the counts, would err by at most {short_up(100 * min(error, 1))} points in 95 % "
            "of the cases, at the same ε; it is not asked here."
        )
    else:
        st.markdown("No reports yet.")
    _show_needs(response)
    return REDRAW_SECONDS


def _report_counts(question: RandomisedQuestion, ballot: Ballot) -> tuple[int, ...]:
    """Return how many phones have reported each option."""
    reports = Counter(ballot.answers.values())
    return tuple(reports[index] for index in range(len(question.options)))


def _draw_estimates(question: RandomisedQuestion, counts: tuple[int, ...], key: str) -> None:
    """Draw the estimated shares of the options. counts : how often each option was reported. key : of the chart.

    For yes and no the chart has the share of yes alone, and next to it the interval of a trusted server's error around
    the same share.
    """
    response, people = _response(question), sum(counts)
    rows: dict[str, tuple[float, float, float]] = {}  # by option: share, lower and upper end of its interval, in %
    for option, count in zip(question.options, counts, strict=True):
        low, high = response.interval(count, people)
        share = min(max(response.estimate(count, people), 0.0), 1.0)
        rows[option] = (100 * share, 100 * low, 100 * high)
    groups = {"Coins of their own": rows}
    if len(counts) == 2:  # yes and no, as a number has three bins at least
        middle, low, high = rows["Yes"]
        error = 100 * LaplaceCounts(response.eps).error(people)
        servers = (middle, max(middle - error, 0.0), min(middle + error, 100.0))
        groups = {"Coins of their own": {"Yes": rows["Yes"]}, "A trusted server": {"Trusted server": servers}}
    numbers = "; ".join(
        f"{name} {short(share)} %, {short(low)} to {short(high)}"
        for group in groups.values()
        for name, (share, low, high) in group.items()
    )
    alt = f"Shares from {people} report{'s' if people != 1 else ''}, with 95 % intervals: {numbers}"
    charts.show_figure(class_figures.estimates(groups), key, alt)


def _close_coins(current: Room, ballot: Ballot) -> None:
    """Close a question of randomised response, and have phones show the estimates; for a callback."""
    question = ballot.question
    assert isinstance(question, RandomisedQuestion)
    current.close(ballot)
    counts, response = _report_counts(question, ballot), _response(question)
    people = sum(counts)
    shares = [min(max(response.estimate(count, people), 0.0), 1.0) for count in counts] if people else []
    current.reveal(ballot, {"estimates": shares, "people": people})


def _old_counts_name(current: Room, ballot: Ballot) -> str:
    """Return the name of the note with the reports of a question before one of them was removed."""
    return f"class_{current.code}_{ballot.number}_before"


def _remove_one(current: Room, ballot: Ballot, question: RandomisedQuestion) -> None:
    """Note the reports of a question, and remove one of them; for a callback."""
    visitors.current().notes[_old_counts_name(current, ballot)] = _report_counts(question, ballot)
    current.remove_one(ballot)


def _compare(question: RandomisedQuestion, all_counts: tuple[int, ...], counts: tuple[int, ...]) -> None:
    """Draw the estimates with and without one report. all_counts, counts : reports of each option, with and without."""
    st.header("One report was removed. Can anybody tell whose?", anchor=False)
    for column, (key, option_counts) in zip(st.columns(2), {"all": all_counts, "rest": counts}.items(), strict=True):
        with column:
            st.markdown(f"**Reports: {sum(option_counts)}**")
            if sum(option_counts):
                _draw_estimates(question, option_counts, f"class_estimates_{key}")
    st.markdown(
        "Whoever compares the two can work out what the removed report said. But it was a report, not an answer: of "
        f"the answer behind it, it says no more than ε = {short(question.epsilon)} allows."
    )


# -------------------------------------------------------------------------------------------------------- the odds game


def _odds(current: Room) -> None:
    """Draw the page of the odds game: the lecturer's settings, then the class's score."""
    ballot = _last(current, MembershipGame)
    if ballot is None:
        current.show_text()
        bar(current)
        st.title("Was this person in?", anchor=False)
        st.markdown(
            f"Every phone is the attacker, for {local.ROUNDS} rounds. It knows how many others are in a count, and "
            "sees the count with noise. A fair coin decided whether one more person is in. In or not?"
        )
        columns = st.columns(2)
        epsilon = columns[0].number_input(
            "ε of each round", min_value=0.1, max_value=10.0, value=1.0, step=0.1, key="class_odds_epsilon"
        )
        others = int(
            columns[1].number_input("Others in the count", min_value=2, max_value=10_000, value=30, key="class_others")
        )
        st.button(
            "Play",
            key="class_play",
            type="primary",
            icon=":material/play_arrow:",
            on_click=_play,
            args=(current, epsilon, others),
        )
        return
    question = ballot.question
    assert isinstance(question, MembershipGame)
    bar(current, ballot, reveal=partial(_close_odds, current, ballot))
    st.title("Was this person in?", anchor=False)
    bound, best = local.success_bound(question.epsilon), local.success(question.epsilon)
    st.markdown(
        f"**ε = {short(question.epsilon)}** in each round; {question.others:,} others are in the count. The noise is "
        "Laplace's, on a number that one person moves by 1."
    )
    if ballot.is_open:
        st.markdown("The score is drawn when you reveal it.")
        return
    scores = [question.count_right(seat, guesses) for seat, guesses in ballot.answers.items()]
    if scores:
        error = local.score_error(question.epsilon, len(scores))
        mean = float(np.mean(scores)) / local.ROUNDS
        first, second, third = st.columns(3)
        first.metric("The class was right in", f"{short(100 * mean)} %", border=True)
        second.metric("Best attacker for this noise", f"{short(100 * best)} %", border=True)
        third.metric("Most that ε allows anybody", f"{short_up(100 * bound)} %", border=True)
        counts = np.bincount(scores, minlength=local.ROUNDS + 1)
        marks = {"best attacker": local.ROUNDS * best, "bound": local.ROUNDS * bound}
        charts.show_figure(class_figures.scores(counts, marks), "class_scores", "Right guesses of each phone")
        st.caption(
            f"{len(scores)} phone{'s' if len(scores) != 1 else ''}, {local.ROUNDS} rounds each: chance alone moves the "
            f"mean of such a class by about {short(100 * error)} points (one standard error of best attackers). Bounds "
            "hold on average: a class, and all the more a single phone, may be luckier."
        )
    else:
        st.markdown("No phone has finished its rounds.")
    st.button("Play again", key="class_again", icon=":material/replay:", on_click=_note_done, args=(current,))


def _play(current: Room, epsilon: float, others: int) -> None:
    """Sample the rounds of every seat at random, and have phones play them; for a callback."""
    shape = (MAX_PHONES, local.ROUNDS)
    secret_seed = seed_or_random(seed=None)
    present, counts = local.play(epsilon, others, rounds=MAX_PHONES * local.ROUNDS, seed=secret_seed)
    current.ask(
        MembershipGame(
            "Was this person in?", epsilon, others, counts.reshape(shape).tolist(), present.reshape(shape).tolist()
        )
    )


def _close_odds(current: Room, ballot: Ballot) -> None:
    """Close the game, and have each phone show its score; for a callback."""
    question, answers = ballot.question, ballot.answers
    assert isinstance(question, MembershipGame)
    result = {
        "rounds": local.ROUNDS,
        "best": local.success(question.epsilon),
        "bound": local.success_bound(question.epsilon),
    }

    def score_of(seat: int) -> dict[str, int]:
        return {"right": question.count_right(seat, answers[seat])} if seat in answers else {}

    current.reveal(ballot, result, by_seat=score_of)


# --------------------------------------------------------------------------------------------------------- what is left


def results(current: Room) -> str:
    """Return what the class has done as JSON: counts and curves without seats, and the lecturer's acts with times."""
    acts = [{"minutes": round(seconds / 60, 1), "act": act, "question": number} for seconds, act, number in current.log]
    questions = [{"number": ballot.number, **_summary(ballot)} for ballot in current.questions]
    return json.dumps({"phones": current.phones, "questions": questions, "log": acts}, indent=1, ensure_ascii=False)


def _summary(ballot: Ballot) -> dict[str, Any]:
    """Return a question and its answers, from the smallest to the largest, so that no order tells whose they are."""
    question, answers = ballot.question, ballot.answers
    summary: dict[str, Any] = {"kind": question.kind, "question": question.title, "answers": len(answers)}
    if isinstance(question, Choice | RandomisedQuestion):
        counts = Counter(answers.values())
        summary["counts"] = {option: counts[index] for index, option in enumerate(question.options)}
    if isinstance(question, RandomisedQuestion | MembershipGame):
        summary["epsilon"] = question.epsilon
    if isinstance(question, Drawing):
        summary |= {"handles": question.handles, "curves": sorted(answers.values())}
    if isinstance(question, Threshold):
        summary["thresholds"] = sorted(answers.values())
    if isinstance(question, OwnRun):
        summary |= {"label": question.label}
        summary["ends"] = sorted(question.ends[seat % len(question.ends)] for seat in answers)
    if isinstance(question, MembershipGame):
        summary["right"] = sorted(question.count_right(seat, guesses) for seat, guesses in answers.items())
    return summary
