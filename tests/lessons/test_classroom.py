"""Rooms: what questions say and take, who sits where, when all is forgotten, and how slow it is to guess a code."""

import json
import math
from typing import Any

import pytest

from dpviz.errors import UserError
from dpviz.lessons import classroom
from dpviz.lessons.classroom import (
    LASTS,
    MAX_PHONES,
    Choice,
    Drawing,
    MembershipGame,
    OwnRun,
    Question,
    RandomisedQuestion,
    Room,
    Rooms,
    Threshold,
    TooOften,
)

LINE = ((0.0, 0.9), (1.0, 0.1))
# Of each kind a question, an answer as JSON has it, and others that are none.
KINDS: dict[str, tuple[Question, Any, list[Any]]] = {
    "choice": (Choice("?", ("a", "b", "c")), 2, [3, 1.0]),
    "drawing": (Drawing("?", (0.2, 0.8), LINE, "x", "y"), [0.0, 1], [[0.5], [0.5, 0.5, 0.5], [0.5, "0.5"], [0.5, [0]]]),
    "threshold": (Threshold("?", {"in": (0.0, 1.0)}, "score"), 0.25, [[0.5]]),
    "run": (OwnRun("?", "loss", (0.1, 0.2, 0.3)), True, [1, False]),
    "coins": (RandomisedQuestion("?", ("yes", "no"), 1.0, 0.5), 1, [2, 0.0]),
    "odds": (
        MembershipGame("?", 1.0, 30, [[30.5, 31.0]], [[True, False]]),
        [True, True],
        [[], [True], [True, 1], [[True], True]],
    ),
}
NONE: list[Any] = [None, "", "0", "true", {}, {"0": 1}, [[[[]]]], -1, 10**4000, math.nan, math.inf, [math.nan] * 2]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_every_kind_of_question_is_here() -> None:
    assert {cls.kind for cls in Question.__subclasses__()} == KINDS.keys()
    assert all(kind == question.kind for kind, (question, _, _) in KINDS.items())


@pytest.mark.parametrize("kind", KINDS)
def test_a_question_goes_to_any_seat_as_json_and_takes_answers_of_its_own_form_only(kind: str) -> None:
    question, answer, wrong = KINDS[kind]
    for seat in (0, MAX_PHONES - 1):
        assert json.dumps(question.facts(seat), allow_nan=False)
    once = question.parse(answer)
    assert json.loads(json.dumps(once)) == answer
    for other in [*NONE, *wrong, *([] if kind == "run" else [True])]:
        with pytest.raises(ValueError, match=r"answer|drawing|game"):
            question.parse(other)


def test_a_game_tells_a_phone_its_counts_and_nothing_of_who_was_in() -> None:
    games = [MembershipGame("?", 1.0, 30, [[30.5, 31.0], [29.0, 28.0]], [[isin, True]] * 2) for isin in (True, False)]
    assert games[0].facts(1) == games[1].facts(1) == {"epsilon": 1.0, "others": 30, "counts": [29.0, 28.0]}
    assert [game.count_right(5, (True, False)) for game in games] == [1, 0]


def test_a_phone_has_one_seat_and_one_answer_whose_removal_it_cannot_tell() -> None:
    room = Room("ABCDE")
    assert [room.join(phone) for phone in ("one", "two", "one")] == [0, 1, 0]
    ballot = room.ask(KINDS["choice"][0])
    assert room.ask(Choice("?", ("a", "b", "c"))) is ballot, "the same question goes on"
    assert [room.answer("two", 1, answer) for answer in (1, 2)] == [True, False] and ballot.answers == {1: 1}
    before = room.state("two")
    room.remove_one(ballot)
    assert ballot.answers == {} and room.state("two") == before and before["answer"] == 1
    assert not room.answer("two", 1, 0), "it may not answer again"
    for phone, number in (("three", 1), ("two", 2)):
        with pytest.raises(ValueError):
            room.answer(phone, number, 0)
    room.close(ballot)  # before the result is computed
    with pytest.raises(ValueError, match="not open"):
        room.answer("one", 1, 0)
    room.reveal(ballot, {"right": 2}, lambda seat: {"seat": seat})
    assert room.state("one")["result"] == {"right": 2, "seat": 0} and room.log[-1][1] == "revealed"
    with pytest.raises(ValueError, match="not open"):
        room.answer("one", 1, 0)


def test_nothing_of_a_result_is_told_before_it_is_revealed() -> None:
    room = Room("ABCDE")
    room.join("one")
    for question, _, _ in KINDS.values():
        ballot = room.ask(question)
        assert "result" not in room.state("one")
        room.reveal(ballot, {"text": "so"})
        assert room.state("one")["result"] == {"text": "so"}


def test_numbers_that_phones_cannot_read_never_reach_them() -> None:
    room = Room("ABCDE")
    ballot = room.ask(KINDS["choice"][0])
    for act in (
        lambda: room.reveal(ballot, {"curve": [[0.5, math.nan]]}),
        lambda: room.ask(OwnRun("?", "loss", (1.0, math.inf))),
    ):
        with pytest.raises(ValueError, match=r"JSON|finite"):
            act()
    assert ballot.is_open and room.current is ballot and room.scene == 1


def test_phones_hear_of_what_they_show_and_not_of_answers() -> None:
    room = Room("ABCDE")
    heard: list[int] = []
    end = room.listen(lambda: heard.append(room.scene))
    room.join("one")
    room.show_text("Look up")  # as before
    room.ask(KINDS["choice"][0])
    room.answer("one", 1, 0)
    assert heard == [1]
    end()
    room.show_text("Listen")
    assert heard == [1] and room.state("one") == {"scene": 2, "text": "Listen"}


def test_a_room_is_full_at_some_time_and_over_after_three_hours() -> None:
    clock = Clock()
    rooms = Rooms(clock)
    room = rooms.open()
    assert [room.join(str(phone)) for phone in range(MAX_PHONES)] == list(range(MAX_PHONES))
    with pytest.raises(UserError, match=str(MAX_PHONES)):
        room.join("one more")
    assert room.join("7") == 7
    ballot = room.ask(KINDS["choice"][0])
    room.answer("7", 1, 0)
    clock.now = LASTS - 1
    assert rooms.with_key(room.key) is room and rooms.with_code(f" {room.code.lower()} ") is room
    clock.now = LASTS
    assert "over" in room.state("7")
    for act in (lambda: room.answer("7", ballot.number, 0), lambda: room.join("8")):
        with pytest.raises((ValueError, UserError)):
            act()
    rooms.tidy()
    assert rooms.with_key(room.key) is rooms.with_code(room.code) is None
    assert room.phones == 0 and room.questions == [] and room.state("7") == {"scene": room.scene, "over": True}


def test_codes_differ_and_there_are_so_many_rooms() -> None:
    rooms = Rooms()
    codes = {rooms.open().code for _ in range(classroom.MAX_ROOMS)}
    assert len(codes) == classroom.MAX_ROOMS and set("".join(codes)) <= set(classroom.LETTERS)
    with pytest.raises(UserError):
        rooms.open()
    first = rooms.with_code(min(codes))
    assert first is not None
    first.end()
    assert rooms.open().code not in codes - {first.code}


@pytest.mark.parametrize("clients", [1, 10_000], ids=["one_address", "as_many_addresses"])
def test_ten_thousand_guesses_of_a_code_take_longer_than_a_class(clients: int) -> None:
    clock = Clock()
    rooms = Rooms(clock)
    room = rooms.open()
    guesses = 0
    while guesses < 10_000:
        try:
            assert rooms.enter("QQQQQ" if room.code != "QQQQQ" else "PPPPP", "thief", str(guesses % clients)) is None
            guesses += 1
        except TooOften as refusal:
            clock.now += refusal.seconds
            if clock.now > LASTS:
                break
    assert guesses < 6000 and clock.now > LASTS
    assert len(rooms._guesses) <= classroom.MAX_CLIENTS


def test_who_guesses_makes_no_phone_wait_that_has_joined_and_none_at_another_address() -> None:
    rooms = Rooms(Clock())
    room = rooms.open()
    joined = rooms.enter(room.code, "early", "router")
    assert joined is room
    room.join("early")
    with pytest.raises(TooOften) as refusal:
        for _ in range(1000):
            rooms.enter("", "thief", "router")
    assert refusal.value.seconds > 0
    with pytest.raises(TooOften):  # a right code is not looked at, or a thief would know it from a wrong one
        rooms.enter(room.code, "late", "router")
    assert rooms.enter(room.code, "early", "router") is rooms.enter(room.code, "late", "elsewhere") is room
    with pytest.raises(TooOften):
        for client in range(1000):
            rooms.enter("", "thief", str(client))
    with pytest.raises(TooOften):
        rooms.enter(room.code, "late", "elsewhere")


def test_a_phone_cannot_answer_without_end() -> None:
    clock = Clock()
    room = Room("ABCDE", clock)
    room.join("one")
    room.join("two")
    room.ask(KINDS["choice"][0])
    with pytest.raises(TooOften):
        for _ in range(100):
            room.answer("one", 1, 0)
    assert room.answer("two", 1, 0)
    clock.now += 1.0
    assert not room.answer("one", 1, 0)
