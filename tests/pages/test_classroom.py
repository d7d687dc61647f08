"""A class on the projector: opened, followed through lessons, asked by randomised response, and in the odds game.

Phones answer through the room itself, without a browser.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

import pytest
from streamlit.testing.v1 import AppTest

from dpviz.lessons.classroom import ROOMS, Ballot, Drawing, MembershipGame, OwnRun, RandomisedQuestion, Room
from dpviz.privacy.local import LaplaceCounts, RandomisedResponse, success, success_bound
from dpviz.ui import visitors
from dpviz.ui.learn import classroom
from tests.pages.reading import Load, array, chart, charts, metrics, words


@pytest.fixture
def lecture(load: Load) -> Iterator[tuple[AppTest, Room]]:
    """The page of a class that has just been opened, and its room with eight phones."""
    app = load("learn", **{"class": "new"})
    room = ROOMS.with_key(app.session_state[visitors.KEY].notes[classroom.KEY])
    assert room is not None and app.query_params["class"] in ("open", ["open"])
    for number in range(8):
        room.join(f"phone {number}")
    yield app, room
    room.end()


def step(app: AppTest, lesson: str, number: int) -> AppTest:
    app.query_params.clear()
    app.query_params["lesson"], app.query_params["step"] = lesson, str(number)
    app.run()
    for name in ("before", "after"):
        key = f"learn_{lesson}_{name}"
        if key in app.session_state:
            app.session_state[key].job.wait(300.0)
    app.run()
    assert not app.exception and not app.error
    return app


def press(app: AppTest, key: str) -> AppTest:
    app.button(key=key).click().run()
    assert not app.exception and not app.error
    return app


def answer(room: Room, answers: Sequence[Any]) -> Ballot:
    """Let as many phones answer the question that they show."""
    ballot = room.current
    assert ballot is not None
    for seat, value in enumerate(answers):
        assert room.answer(f"phone {seat}", ballot.number, value)
    return ballot


def shares(app: AppTest) -> list[int]:
    """The bars of a choice, in per cent."""
    return [bar.proto.value for bar in app.get("progress")]


def states(room: Room, phones: int) -> list[dict[str, Any]]:
    return [room.state(f"phone {number}") for number in range(phones)]


def test_a_class_shows_how_phones_join_and_counts_them(lecture: tuple[AppTest, Room]) -> None:
    app, room = lecture
    (picture,) = [part.proto.body for part in app.get("html") if "<img" in part.proto.body]
    assert f"/c/{room.code}" in picture and any(room.code in part.proto.body for part in app.get("html"))
    app.run()
    assert "8 phones" in words(app) and f"/c/{room.code}" in words(app).replace("\\", "")
    assert room.key not in str(app._tree)
    (warning,) = app.warning  # the page is open under a name that phones cannot reach
    assert "serve" in warning.value


def test_a_class_predicts_sees_and_learns_who_was_right(
    lecture: tuple[AppTest, Room], monkeypatch: pytest.MonkeyPatch
) -> None:
    app, room = lecture
    step(app, "steps", 1)
    assert states(room, 1)[0]["text"]
    step(app, "steps", 2)
    assert not app.radio and not app.button(key="learn_next").disabled  # the class predicts, not the lecturer
    ballot = answer(room, [3, 3, 3, 0, 2])
    app.run()
    assert "5 of 8 phones answered" in words(app) and shares(app) == [] and "result" not in states(room, 1)[0]
    reveal = Room.reveal

    def after_a_late_answer(room: Room, *result: Any, **options: Any) -> None:
        with suppress(ValueError):
            room.answer("phone 7", ballot.number, 1)
        reveal(room, *result, **options)

    monkeypatch.setattr(Room, "reveal", after_a_late_answer)
    press(app, "class_reveal")
    assert shares(app) == [20, 0, 20, 60] and not ballot.is_open
    told = states(room, 1)[0]["result"]
    assert told["counts"] == [1, 0, 1, 3] and "right" not in told
    step(app, "steps", 3)
    assert "3 of 5 phones said so" in words(app) and shares(app) == [20, 0, 20, 60]
    assert [state["result"]["is_right"] for state in states(room, 5)] == [True, True, True, False, False]
    assert states(room, 1)[0]["result"]["right"] == 3
    step(app, "steps", 2)
    assert not ballot.is_open and len(room.questions) == 1  # who has seen the outcome predicts no more
    step(app, "steps", 4)
    assert states(room, 1)[0]["text"]


def test_the_outcome_closes_a_question_that_was_not_revealed(lecture: tuple[AppTest, Room]) -> None:
    app, room = lecture
    step(app, "steps", 2)
    ballot = answer(room, [3])
    step(app, "steps", 3)
    assert not ballot.is_open and shares(app) == [0, 0, 0, 100]


def test_drawn_curves_appear_with_their_median_when_they_are_revealed(lecture: tuple[AppTest, Room]) -> None:
    app, room = lecture
    step(app, "shrink", 2)
    heights = [[0.2] * 6, [0.5] * 6, [0.6] * 6]
    ballot = answer(room, heights)
    assert isinstance(ballot.question, Drawing)
    app.run()
    figure = chart(app, "Excess loss")
    assert "Median of the class" not in json.dumps(figure)
    press(app, "class_reveal")
    figure = chart(app, "Excess loss")
    faint = figure["data"][0]
    assert faint["y"].count(None) == 3 and "Median of the class" in {trace.get("name") for trace in figure["data"]}
    assert states(room, 1)[0]["result"]["median"] == [0.5] * 6
    step(app, "shrink", 3)
    figure = chart(app, "Excess loss")
    assert {"Uniform", "Optimal (bound)", "Median of the class"} <= {trace.get("name") for trace in figure["data"]}
    right = [state["result"]["is_right"] for state in states(room, 3)]
    assert f"{sum(right)} of 3 phones said so" in words(app) and states(room, 1)[0]["result"]["curve"]


def test_each_phone_has_a_run_of_its_own(lecture: tuple[AppTest, Room]) -> None:
    app, room = lecture
    step(app, "luck", 3)
    press(app, "class_runs")
    ballot = answer(room, [True, True, True])
    assert isinstance(ballot.question, OwnRun) and len(ballot.question.ends) == 60
    app.run()
    trace = app.session_state["learn_luck_after"].job.trace
    ends = {arm: trace.series(arm, "objective_gap")[1][-1] for arm in ("DP-GD", "DP-MASG")}
    wins = int((ends["DP-MASG"] < ends["DP-GD"])[:3].sum())
    assert f"Wins: DP-MASG {wins}, DP-GD {3 - wins}." in words(app)
    assert states(room, 1)[0]["end"] == pytest.approx(ends["DP-MASG"][0] / ends["DP-GD"][0], abs=1e-4)
    strip = next(figure for alt, figure in charts(app).items() if alt.startswith("Where the runs"))
    dots = {trace["name"]: array(trace["x"]) for trace in strip["data"] if trace["mode"] == "markers"}
    assert all(dots[arm] == pytest.approx(values[:3], rel=1e-6) for arm, values in ends.items())
    step(app, "luck", 4)
    step(app, "luck", 3)
    assert room.current is ballot  # a phone that came late can open its run after the lecturer has looked ahead


def open_question(app: AppTest, title: str, epsilon: float = 1.0) -> AppTest:
    app.query_params.clear()
    app.query_params["class"] = "coins"
    app.run()
    app.text_input(key="class_title").set_value(title).run()
    app.number_input(key="class_epsilon").set_value(epsilon).run()
    return press(app, "class_ask")


def test_randomised_response_estimates_as_the_mathematics_does(lecture: tuple[AppTest, Room]) -> None:
    app, room = lecture
    open_question(app, "Have you **ever** <b>copied</b> [it](http://example.org)?", 1.5)
    assert app.title[0].value.replace("\\", "").replace("\u2060", "") == (
        "Have you **ever** <b>copied</b> [it](http://example.org)?"
    )
    assert "**" not in app.title[0].value.replace("\\*", "") and "<b>" not in app.title[0].value
    assert not app.number_input  # ε is fixed while the question is open
    ballot = answer(room, [0, 0, 0, 0, 1, 1, 0, 1])
    question, response = cast(RandomisedQuestion, ballot.question), RandomisedResponse(1.5)
    assert (question.epsilon, question.truth) == (1.5, response.coin)
    app.run()
    (figure,) = charts(app).values()
    local, server = figure["data"]
    estimate, (low, high) = response.estimate(5, 8), response.interval(5, 8)
    assert array(local["x"]) == pytest.approx([100 * estimate], rel=1e-6)
    assert array(local["error_x"]["array"]) == pytest.approx([100 * (high - estimate)], rel=1e-6)
    assert array(local["error_x"]["arrayminus"]) == pytest.approx([100 * (estimate - low)], rel=1e-6)
    reach = min(100 * LaplaceCounts(1.5).error(8), 100 - 100 * estimate)
    assert array(server["error_x"]["array"]) == pytest.approx([reach], rel=1e-6)
    assert f"{response.people(0.05):,} people" in words(app) and f"{LaplaceCounts(1.5).people(0.05):,} with" in words(
        app
    )
    press(app, "class_reveal")
    assert states(room, 1)[0]["result"]["estimates"] == pytest.approx([estimate, 1 - estimate])
    press(app, "class_remove")
    assert len(ballot.answers) == 7 and sorted(alt[:21] for alt in charts(app)) == [
        "Shares from 7 reports",
        "Shares from 8 reports",
    ]
    assert "8 of 8 phones answered" in words(app)
    press(app, "class_again")
    assert app.text_input(key="class_title").value in ("", None)
    open_question(app, question.title, 1.5)  # once more, of the same people: it costs ε again
    assert len(room.questions) == 2 and states(room, 1)[0]["answer"] is None and states(room, 1)[0]["open"]


def test_a_number_is_asked_in_bins_that_hold_every_number(lecture: tuple[AppTest, Room]) -> None:
    app, room = lecture
    app.query_params["class"] = "coins"
    app.run()
    app.segmented_control(key="class_kind").set_value(classroom.NUMBER).run()
    app.number_input(key="class_bins").set_value(4).run()
    app.text_input(key="class_title").set_value("How many hours?").run()
    app.number_input(key="class_high").set_value(1.0).run()
    assert app.button(key="class_ask").disabled  # the last edge is below the first
    app.number_input(key="class_low").set_value(1995.0)
    app.number_input(key="class_high").set_value(2005.0).run()
    assert "below 1,995 · 1,995 to below 2,000 · 2,000 to below 2,005 · 2,005 or more" in words(app)
    app.number_input(key="class_low").set_value(2.0)
    app.number_input(key="class_high").set_value(8.0).run()
    press(app, "class_ask")
    ballot = answer(room, [0, 1, 2, 3])
    question = cast(RandomisedQuestion, ballot.question)
    assert question.options == ("below 2", "2 to below 5", "5 to below 8", "8 or more")
    assert question.truth == RandomisedResponse(1.0, 4).coin
    app.run()
    (figure,) = charts(app).values()
    assert array(figure["data"][0]["x"]) == pytest.approx([25.0] * 4, rel=1e-6)


def test_the_odds_game_stands_against_the_best_attacker_and_the_bound(lecture: tuple[AppTest, Room]) -> None:
    app, room = lecture
    app.query_params["class"] = "odds"
    app.run()
    app.number_input(key="class_odds_epsilon").set_value(2.0).run()
    press(app, "class_play")
    assert room.current is not None
    question = cast(MembershipGame, room.current.question)
    ballot = answer(room, [list(question.present[0]), [not was_in for was_in in question.present[1]]])
    app.run()
    assert not app.metric and not charts(app)
    press(app, "class_reveal")
    class_score, best, bound = (float(text.removesuffix(" %")) for text in metrics(app).values())
    assert class_score == 50 and best == pytest.approx(100 * success(2.0), abs=0.1)
    assert bound == pytest.approx(100 * success_bound(2.0), abs=0.1)
    assert [state["result"]["right"] for state in states(room, 2)] == [10, 0] and not ballot.is_open


@pytest.mark.parametrize("is_asleep", [False, True])
def test_a_tab_that_is_loaded_again_keeps_the_class(lecture: tuple[AppTest, Room], load: Load, is_asleep: bool) -> None:
    app, room = lecture
    old, other = app.session_state[visitors.KEY], load("learn", **{"class": "open"})
    assert room.code not in words(other)
    if is_asleep:  # so long that the notes are gone with the session; the tab still tells its old name
        other.session_state[visitors.KEY].old_name = old.name
    else:
        other.session_state[visitors.KEY].notes |= old.notes  # as a reload takes them over
    other.run()
    assert room.code in words(other) and "8 phones" in words(other)


def test_a_server_with_too_many_classes_says_so(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpviz.lessons.classroom.MAX_ROOMS", 0)
    app = load("learn", **{"class": "new"})
    assert app.error[0].proto.title == "Too many classes" and app.button(key="class_new")


def test_results_hold_nothing_of_a_person_and_go_when_the_class_ends(lecture: tuple[AppTest, Room]) -> None:
    app, room = lecture
    step(app, "shrink", 2)
    answer(room, [[0.9] * 6, [0.2] * 6])
    press(app, "class_reveal")
    open_question(app, "Late today?")
    answer(room, [1, 0, 1])
    app.run()
    saved = json.loads(classroom.results(room))
    drawn, coins = saved["questions"]
    assert drawn["curves"] == [[0.2] * 6, [0.9] * 6]  # by height, not by seat
    assert coins["counts"] == {"Yes": 1, "No": 2} and coins["epsilon"] == 1.0
    assert [entry["act"] for entry in saved["log"]] == ["asked", "revealed", "asked"] and saved["phones"] == 8
    assert "phone 0" not in json.dumps(saved)
    press(app, "class_end")
    assert room.is_over and not app.session_state[visitors.KEY].notes
    assert app.title[0].value == "Lessons" and not room.questions
