"""Phones of a class in Chromium: a lecturer who acts in memory, and what phones show, send and never send."""

import json
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Any

import pytest
import uvicorn
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect
from starlette.responses import PlainTextResponse

from dpviz.lessons.classroom import (
    Choice,
    Drawing,
    MembershipGame,
    OwnRun,
    Question,
    RandomisedQuestion,
    Room,
    Rooms,
    Threshold,
)
from dpviz.ui.server import Files, OwnOrigins
from dpviz.ui.server.phones import Phones
from tests.browser.conftest import tab_to
from tests.waiting import until

CHOICE = Choice("How <b>much</b> better?", ("Not at all", "2 to 10 times", "More than 10 times"))
X_TICKS, Y_TICKS = ((0.0, "1"), (1.0, "100")), ((0.0, "0.01"), (1.0, "1"))
DRAWING = Drawing("Draw the loss.", (0.25, 0.5, 0.75), ((0.0, 0.9), (1.0, 0.1)), "steps", "loss", X_TICKS, Y_TICKS)
THRESHOLD = Threshold("From which score on?", {"in": (0.0, 0.2, 1.0), "not in": (1.0, 0.5, 0.0)}, "score", X_TICKS)
RUN = OwnRun("Is one run enough?", "loss", (0.5, 0.25, 0.125))
COINS = RandomisedQuestion("Have you?", ("Yes", "No"), 1.1, 0.5)
ODDS = MembershipGame("Was she in?", 1.0, 30, [[30.0 + k for k in range(10)]], [[True] * 10])
ROUNDS = 10


@dataclass(frozen=True)
class Hall:
    url: str
    rooms: Rooms
    room: Room
    server: uvicorn.Server

    @property
    def address(self) -> str:
        return f"{self.url}/{self.room.code}"

    def all_answered(self, number: int) -> None:
        """Wait until that many have answered the last question."""
        until(lambda: len(self.room.questions[-1].answers) == number)


@pytest.fixture
def hall() -> Iterator[Hall]:
    rooms = Rooms()
    app = OwnOrigins(Phones(Files(PlainTextResponse("Streamlit")), rooms))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="error"))
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        until(lambda: server.started)
        yield Hall(f"http://127.0.0.1:{listening.getsockname()[1]}/c", rooms, rooms.open(), server)
        for room in rooms._by_code.values():
            room.end()
        server.should_exit = True
        thread.join(60)


@pytest.fixture
def phone(browser: Browser, hall: Hall) -> Iterator[Callable[..., Page]]:
    """Open the page on a new phone, or on one that had this storage."""
    contexts: list[BrowserContext] = []
    elsewhere: list[str] = []
    mistakes: list[str] = []

    def sent(request: Request) -> None:
        if not request.url.startswith((hall.url, "data:")):
            elsewhere.append(request.url)

    def said(line: ConsoleMessage) -> None:
        if "Content Security" in line.text:
            mistakes.append(line.text)

    def opened(address: str = hall.address, **settings: Any) -> Page:
        look = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
        context = browser.new_context(**(look | settings))
        contexts.append(context)
        context.on("request", sent)
        context.on("weberror", lambda error: mistakes.append(str(error.error)))
        page = context.new_page()
        page.on("console", said)
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert elsewhere == mistakes == []


def is_sound(page: Page) -> None:
    """Nothing is found by axe-core, sticks out, or is too small for a finger."""
    page.evaluate(AXE_SCRIPT)
    found = page.evaluate(
        """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
            .map(({ id, nodes }) => `${id}: ${nodes.map(node => node.html.slice(0, 200))}`)"""
    )
    assert found == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    sizes = page.evaluate("[...document.querySelectorAll('button, label.option')].map(node => node.offsetHeight)")
    assert all(size >= 44 for size in sizes)


def choose(page: Page, index: int) -> None:
    page.get_by_role("radio").nth(index).check()
    page.get_by_role("button").click()


def draw(page: Page, index: int) -> None:
    """From left to right in one sweep, at one height for each phone."""
    sheet = page.locator("svg").bounding_box()
    assert sheet is not None
    x, y = sheet["x"], sheet["y"] + (0.3 + 0.1 * index) * sheet["height"]
    page.mouse.move(x + 0.15 * sheet["width"], y)
    page.mouse.down()
    page.mouse.move(x + 0.9 * sheet["width"], y, steps=10)
    page.mouse.up()
    page.get_by_role("button").click()


def play(page: Page, index: int, rounds: int = ROUNDS) -> None:
    for k in range(rounds):
        expect(page.locator("#body").get_by_text(re.compile(rf"Round \d+ of {ROUNDS}"))).to_be_visible()
        page.get_by_role("button", name=("Not in", "In")[k % 3 != index], exact=True).click()


def press(page: Page, index: int) -> None:
    page.get_by_role("button").click()


SCENES: dict[str, tuple[Question, Callable[[Page, int], None], dict[str, Any], str]] = {
    "choice": (CHOICE, choose, {"right": 1, "counts": [1, 1, 1]}, "That is right."),
    "drawing": (DRAWING, draw, {"median": [0.5, 0.5, 0.5], "text": "It came lower."}, "It came lower."),
    "threshold": (THRESHOLD, draw, {"best": 0.4, "text": "The best is 40."}, "The best is 40."),
    "run": (RUN, press, {"text": "They differ."}, "They differ."),
    "coins": (COINS, lambda page, index: choose(page, index % 2), {"estimates": [0.4, 0.6]}, "Yes: 40 %"),
    "odds": (ODDS, play, {}, "of your 10 guesses are right"),
}


@pytest.mark.parametrize("kind", SCENES)
def test_three_phones_answer_and_neither_a_reload_nor_a_killed_tab_loses_anything(
    hall: Hall, phone: Callable[..., Page], kind: str
) -> None:
    question, act, result, says = SCENES[kind]
    looks: list[dict[str, Any]] = [
        {},
        {"viewport": {"width": 320, "height": 640}, "color_scheme": "dark"},
        {"reduced_motion": "reduce"},
    ]
    pages = [phone(**look) for look in looks]
    for page in pages:
        expect(page.get_by_role("heading", name="Look up")).to_be_visible()
    asked = hall.room.ask(question)
    for page in pages:
        expect(page.get_by_role("heading", name=question.title)).to_be_visible()  # as text, markup or not
        is_sound(page)
    pages[1].reload()
    for index, page in enumerate(pages):
        act(page, index)
        expect(page.get_by_text("Sent. Look up.")).to_be_visible()
        is_sound(page)
    hall.all_answered(3)
    answers = dict(asked.answers)
    pages[0].reload()
    storage = pages[2].context.storage_state()
    pages[2].context.close()
    pages[2] = phone(storage_state=storage)
    for page in pages:
        expect(page.get_by_text("Sent. Look up.")).to_be_visible()
    assert hall.room.phones == 3 and asked.answers == answers
    score = (lambda seat: {"right": ODDS.count_right(seat, answers[seat])}) if kind == "odds" else None
    hall.room.reveal(asked, result, score)
    expect(pages[1].get_by_text(says).first).to_be_visible()
    for page in pages:
        expect(page.get_by_text("Sent. Look up.")).to_have_count(0)
        is_sound(page)
    hall.room.end()
    for page in pages:
        expect(page.get_by_role("heading", name="This class is over.")).to_be_visible()
    pages[0].reload()
    expect(pages[0].get_by_role("heading", name="This class is over.")).to_be_visible()


def test_a_curve_and_a_game_that_are_not_sent_yet_are_there_after_a_reload(
    hall: Hall, phone: Callable[..., Page]
) -> None:
    page = phone()
    hall.room.ask(DRAWING)
    handle = page.get_by_role("slider").first
    handle.press("PageUp")
    height = handle.get_attribute("aria-valuenow")
    page.reload()
    expect(handle).to_have_attribute("aria-valuenow", str(height))
    asked = hall.room.ask(ODDS)
    play(page, 0, 4)
    page.reload()
    expect(page.locator("#body").get_by_text("Round 5 of 10")).to_be_visible()
    assert asked.answers == {}
    play(page, 1, 6)
    hall.all_answered(1)


def test_by_keyboard_alone(hall: Hall, phone: Callable[..., Page]) -> None:
    page = phone(hall.url)
    field = page.get_by_label("Code of the class")
    expect(field).to_be_focused()
    is_sound(page)
    page.keyboard.type(hall.room.code.lower())
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Look up")).to_be_visible()
    expect(page).to_have_url(hall.address)
    asked = hall.room.ask(CHOICE)
    expect(page.get_by_role("status").filter(has_text=f"New question: {CHOICE.title}")).to_be_attached()
    tab_to(page, page.get_by_role("radio").first, 3)
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    tab_to(page, page.get_by_role("button"), 2)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading")).to_be_focused()
    hall.all_answered(1)
    assert asked.answers == {0: 1}
    asked = hall.room.ask(THRESHOLD)
    tab_to(page, page.get_by_role("slider"), 3)
    for key in ("Home", "PageUp", "ArrowRight"):
        page.keyboard.press(key)
    tab_to(page, page.get_by_role("button"), 2)
    page.keyboard.press("Enter")
    hall.all_answered(1)
    assert asked.answers[0] == pytest.approx(0.12)


def test_the_true_answer_never_leaves_the_phone(hall: Hall, phone: Callable[..., Page]) -> None:
    """With the same draws, phones whose true answers differ send and store the same, unless the coin says "true"."""
    draws = """let n = 0; const real = crypto.getRandomValues.bind(crypto);
        const draw = () => (n = (n * 1664525 + 1013904223) >>> 0) ^ (n >>> 13);
        crypto.getRandomValues = (array) => array.length > 2 ? real(array) : array.map(draw);"""
    sent: list[list[str]] = [[], []]

    def note(bodies: list[str], request: Request) -> None:
        bodies.append(f"{request.url} {request.post_data}")

    pages = [phone(hall.url), phone(hall.url)]
    for page, bodies in zip(pages, sent, strict=True):
        page.context.on("request", partial(note, bodies))
        page.add_init_script(draws)
        page.goto(hall.address)
    trials = 40
    for trial in range(trials):
        asked = hall.room.ask(RandomisedQuestion(f"Have you? {trial}", COINS.options, 1.1, 0.5 * (trial % 2)))
        for truth, page in enumerate(pages):
            expect(page.get_by_role("heading", name=asked.question.title, exact=True)).to_be_visible()
            choose(page, truth)
        hall.all_answered(2)
    posts = [[line.partition(" ")[2] for line in bodies if "/answer" in line] for bodies in sent]
    assert [len(line) for line in posts[0]] == [len(line) for line in posts[1]]
    reports: list[list[int]] = [[], []]
    for one, lines in zip(reports, posts, strict=True):
        for body in map(json.loads, lines):
            assert body.keys() == {"phone", "number", "answer"} and body["answer"] in (0, 1)
            one.append(body["answer"])
    assert [len(one) for one in reports] == [trials, trials], "once for each question"
    assert reports[0][::2] == reports[1][::2] and set(reports[0][::2]) == {0, 1}, "where the coin never says true"
    differ = [pair for pair in zip(*reports, strict=True) if pair[0] != pair[1]]
    assert set(differ) == {(0, 1)} and len(differ) < trials // 2
    for page in pages:
        expect(page.get_by_text("Sent. Look up.")).to_be_visible()
        (kept,) = page.evaluate("Object.values(localStorage)")
        assert json.loads(kept).keys() == {"phone", "was"}


def test_coins_fall_as_they_should(hall: Hall, phone: Callable[..., Page]) -> None:
    page = phone()
    hall.room.ask(RandomisedQuestion("Which?", ("a", "b", "c"), 1.1, 0.25))
    expect(page.get_by_role("radio")).to_have_count(3)
    tosses = 40_000
    counts = page.evaluate(
        "tosses => { const n = [0, 0, 0]; for (let i = 0; i < tosses; i++) n[toss(1)] += 1; return n; }", tosses
    )
    for count, share in zip(counts, (0.25, 0.5, 0.25), strict=True):
        assert abs(count - share * tosses) < 6 * (share * (1 - share) * tosses) ** 0.5
    # Draws beyond the last multiple of 3 are thrown away: else 0 would be likelier.
    page.evaluate("() => { const all = [2 ** 32 - 1, 5]; crypto.getRandomValues = () => [all.shift()]; }")
    assert page.evaluate("below(3)") == 2


def test_a_wrong_code_is_a_sentence_and_the_field_again(hall: Hall, phone: Callable[..., Page]) -> None:
    wrong = "QQQQQ" if hall.room.code != "QQQQQ" else "PPPPP"
    page = phone()
    expect(page.get_by_role("heading", name="Look up")).to_be_visible()
    page.goto(f"{hall.url}/{wrong}")
    expect(page.get_by_text(f"There is no class with the code {wrong}.")).to_be_visible()
    expect(page.get_by_label("Code of the class")).to_have_value(wrong)
    is_sound(page)
    page.get_by_label("Code of the class").fill(hall.room.code)
    page.get_by_role("button", name="Join").click()
    expect(page.get_by_role("heading", name="Look up")).to_be_visible()
    assert hall.room.phones == 1, "the seat is the one from before"


def test_a_phone_that_must_wait_joins_by_itself(hall: Hall, phone: Callable[..., Page]) -> None:
    for _ in range(20):
        hall.rooms.enter("", "thief", "127.0.0.1")
    page = phone()
    expect(page.get_by_text("This page tries again by itself.")).to_be_visible()
    hall.rooms._guesses.clear()
    expect(page.get_by_role("heading", name="Look up")).to_be_visible()


def test_a_second_tab_takes_over_and_the_first_says_so(hall: Hall, phone: Callable[..., Page]) -> None:
    first = phone()
    expect(first.get_by_role("heading", name="Look up")).to_be_visible()
    second = first.context.new_page()
    second.goto(hall.address)
    expect(first.get_by_role("heading", name="another tab")).to_be_visible()
    first.get_by_role("button", name="Go on here").click()
    expect(second.get_by_role("heading", name="another tab")).to_be_visible()
    hall.room.ask(CHOICE)
    expect(first.get_by_role("heading", name=CHOICE.title)).to_be_visible()
    assert hall.room.phones == 1


def test_without_a_connection_an_answer_is_kept_and_without_a_stream_the_page_asks(
    hall: Hall, phone: Callable[..., Page]
) -> None:
    page = phone()
    asked = hall.room.ask(COINS)
    expect(page.get_by_role("radio")).to_have_count(2)
    page.context.set_offline(True)
    choose(page, 0)
    expect(page.get_by_text("Your answer is kept")).to_be_visible()
    report = page.evaluate("memory.pending.answer")
    assert asked.answers == {}
    page.context.set_offline(False)
    hall.all_answered(1)
    assert asked.answers == {0: report}, "the coins are not drawn again"
    page.context.route("**/news", lambda route: route.abort())
    page.reload()
    expect(page.get_by_text("Sent. Look up.")).to_be_visible()
    hall.room.show_text("Listen")
    expect(page.get_by_role("heading", name="Listen")).to_be_visible()
