"""What phones ask of the server: joining, answering and news, what is refused, and what a page of theirs may load."""

import asyncio
import gzip
import json
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import streamlit as st
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Scope

from dpviz.lessons import classroom
from dpviz.lessons.classroom import MAX_PHONES, Choice, Rooms
from dpviz.ui.server import Files, OwnOrigins, phones
from dpviz.ui.server.phones import MAX_BODY, Phones, address
from tests.apart import apart

QUESTION = Choice("How <b>much</b>?", ("a", "b"))
JSON = {"content_type": "application/json"}
OPTIONS: dict[str, Any] = {
    "server.allowedHosts": ["localhost"],
    "server.corsAllowedOrigins": [],
    "server.enableCORS": True,
    "browser.serverAddress": "127.0.0.1",
    "server.baseUrlPath": "",
}


@pytest.fixture(autouse=True)
def options(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    options = dict(OPTIONS)
    monkeypatch.setattr(st, "get_option", options.__getitem__)
    yield options


class Hall:
    """A server with one room, behind the middleware that the dashboard has, before a Streamlit that answers all."""

    def __init__(self) -> None:
        self.rooms = Rooms()
        self.room = self.rooms.open()
        self.phones = Phones(Files(PlainTextResponse("Streamlit")), self.rooms)
        self.app: ASGIApp = OwnOrigins(self.phones)

    def scope(self, method: str, path: str, **headers: str) -> Scope:
        raw = [
            (name.replace("_", "-").encode(), text.encode()) for name, text in {"host": "localhost", **headers}.items()
        ]
        return {
            "type": "http",
            "method": method,
            "path": path,
            "headers": raw,
            "query_string": b"",
            "client": ["me", 1],
            "app": self,  # as Starlette adds it
        }

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, Headers, bytes]:
        """Status, headers and body of the answer to one request."""
        messages: list[Message] = []

        async def send(message: Message) -> None:
            messages.append(message)

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(self.scope(method, path, **headers), receive, send)
        text = b"".join(message.get("body", b"") for message in messages[1:])
        return messages[0]["status"], Headers(raw=messages[0]["headers"]), text

    async def post(self, act: str, code: str = "", **body: object) -> tuple[int, dict[str, Any]]:
        """Status and object of the answer to a phone."""
        path = f"/c/{code or self.room.code}/{act}"
        status, _, text = await self.ask("POST", path, json.dumps(body).encode(), **JSON)
        return status, json.loads(text)

    @asynccontextmanager
    async def news(self, phone: str) -> AsyncIterator[Callable[[], Awaitable[Any]]]:
        """The open stream of a phone: a function that waits for its next event, "" for a heartbeat, None at its end."""
        events: asyncio.Queue[Any] = asyncio.Queue()
        is_gone = asyncio.Event()

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                assert message["status"] == 200
                headers = Headers(raw=message["headers"])
                assert headers["content-type"].startswith("text/event-stream") and headers["x-accel-buffering"] == "no"
            for event in message.get("body", b"").decode().split("\n\n")[:-1]:
                assert event.startswith(("data: ", ":"))
                events.put_nowait("" if event.startswith(":") else json.loads(event[6:]))

        async def receive() -> Message:
            await is_gone.wait()
            return {"type": "http.disconnect"}

        scope = self.scope("GET", f"/c/{self.room.code}/news", phone=phone)
        task: asyncio.Task[None] = asyncio.create_task(self.app(scope, receive, send))
        task.add_done_callback(lambda _: events.put_nowait(None))
        yield events.get
        is_gone.set()
        await task


def played(scene: Callable[[Hall], Awaitable[None]]) -> None:
    async def play() -> None:
        async with asyncio.timeout(60):  # a stream that never ends would else hang
            await scene(Hall())

    apart(play())


def test_a_phone_joins_answers_and_has_both_again_when_it_comes_back() -> None:
    async def scene(hall: Hall) -> None:
        assert await hall.post("join", phone="one") == (200, {"scene": 0, "text": "Look up"})
        assert (await hall.post("join", code=hall.room.code.lower(), phone="two"))[0] == 200
        asked = hall.room.ask(QUESTION)
        status, state = await hall.post("answer", phone="one", number=1, answer=1)
        assert status == 200 and state["answer"] == 1 and state["title"] == QUESTION.title
        assert await hall.post("join", phone="one") == (200, state)
        assert (await hall.post("answer", phone="one", number=1, answer=0))[1]["answer"] == 1
        assert asked.answers == {0: 1} and hall.room.phones == 2

    played(scene)


def test_news_come_at_once_to_everybody_and_not_for_answers_of_others() -> None:
    async def scene(hall: Hall) -> None:
        for phone in ("one", "two"):
            await hall.post("join", phone=phone)
        async with hall.news("one") as one, hall.news("two") as two:
            for event in (one, two):
                assert (await event())["text"] == "Look up"
            await asyncio.to_thread(hall.room.ask, QUESTION)
            assert (await one())["title"] == (await two())["title"] == QUESTION.title
            await hall.post("answer", phone="one", number=1, answer=0)
            hall.room.reveal(hall.room.questions[0], {"right": 1})
            hall.room.show_text("Look here")  # both before the loop can send: one message
            assert (await one())["text"] == (await two())["text"] == "Look here"
            hall.room.end()
            assert [await one(), await one()] == [{"scene": hall.room.scene, "over": True}, None]
        assert hall.phones._streams == {} and not hall.room._listeners

    played(scene)


def test_a_phone_has_one_stream_and_one_that_is_gone_leaves_nothing() -> None:
    async def scene(hall: Hall) -> None:
        await hall.post("join", phone="one")
        async with hall.news("one") as old:
            await old()
            async with hall.news("one") as new:
                assert "text" in await new()
                assert [await old(), await old()] == [{"elsewhere": True}, None]
                hall.room.show_text("Still here")
                assert (await new())["text"] == "Still here"
        assert hall.phones._streams == {} and not hall.room._listeners

    played(scene)


def test_a_silent_stream_has_a_heartbeat_which_notices_that_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phones, "HEARTBEAT", 0.01)

    async def scene(hall: Hall) -> None:
        await hall.post("join", phone="one")
        async with hall.news("one") as event:
            assert [await event(), await event()] == [{"scene": 0, "text": "Look up"}, ""]
            hall.room._opened -= classroom.LASTS
            while (last := await event()) == "":
                pass
            assert [last, await event()] == [{"scene": 0, "over": True}, None]

    played(scene)


def test_streams_end_when_the_server_is_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uvicorn would wait for them for ever."""
    server = SimpleNamespace(should_exit=False)
    monkeypatch.setattr(phones, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(signal, "getsignal", lambda _: SimpleNamespace(__self__=server))

    async def scene(hall: Hall) -> None:
        await hall.post("join", phone="one")
        async with hall.news("one") as event:
            assert "text" in await event()
            server.should_exit = True
            assert await event() is None

    played(scene)


async def unknown(hall: Hall) -> list[int]:
    other = "QQQQQ" if hall.room.code != "QQQQQ" else "PPPPP"
    return [
        (await hall.post("join", code=other, phone="one"))[0],
        (await hall.post("answer", code=other, phone="one", number=1, answer=0))[0],
        (await hall.post("answer", phone="stranger", number=1, answer=0))[0],
        (await hall.ask("GET", f"/c/{other}/news", phone="one"))[0],
        (await hall.ask("GET", f"/c/{hall.room.code}/news", phone="stranger"))[0],
    ]


def test_who_has_not_joined_learns_nothing_about_codes() -> None:
    async def scene(hall: Hall) -> None:
        hall.room.ask(QUESTION)
        assert await unknown(hall) == [404] * 5 and hall.room.phones == 0

    played(scene)


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (415, b'{"phone": "one"}', {}),
        (415, b'{"phone": "one"}', {"content_type": "text/plain"}),
        (415, b"phone=one", {"content_type": "application/x-www-form-urlencoded"}),
        (403, b'{"phone": "one"}', JSON | {"origin": "https://elsewhere.example"}),
        (403, b'{"phone": "one"}', JSON | {"host": "elsewhere.example"}),
        (413, b" " * MAX_BODY + b'{"phone": "one"}', JSON),
        (400, b"[" * 4000, JSON),
        (400, b'["one"]', JSON),
        (400, b"\xff", JSON),
        (400, b'{"phone": ["one"]}', JSON),
        (400, b'{"phone": ""}', JSON),
        (400, b'{"phone": "%s"}' % (b"1" * 65), JSON),
    ],
)
def test_what_no_page_of_ours_sends_is_refused(status: int, body: bytes, headers: dict[str, str]) -> None:
    async def scene(hall: Hall) -> None:
        for act in ("join", "answer"):
            found, _, _ = await hall.ask("POST", f"/c/{hall.room.code}/{act}", body, **headers)
            assert found == status or (act, found) == ("answer", 404)
        assert hall.room.phones == 0

    played(scene)


@pytest.mark.parametrize("body", [{"number": 1.0}, {"number": True}, {"number": 2}, {}, {"number": 1, "answer": "0"}])
def test_an_answer_to_no_open_question_is_refused(body: dict[str, Any]) -> None:
    async def scene(hall: Hall) -> None:
        await hall.post("join", phone="one")
        asked = hall.room.ask(QUESTION)
        assert (await hall.post("answer", **{"phone": "one", "answer": 0} | body))[0] == 400 and asked.answers == {}

    played(scene)


def test_no_address_of_phones_moves_or_ends_a_class() -> None:
    async def scene(hall: Hall) -> None:
        code, key = hall.room.code, hall.room.key
        for path in (f"/c/{code}/end", f"/c/{code}/reveal", f"/c/{key}/end", f"/c/{code}/answer/1"):
            for method in ("GET", "POST", "DELETE"):
                assert (await hall.ask(method, path, b"{}", **JSON))[0] in (404, 405)
        assert (await hall.ask("POST", f"/c/{code}", b"{}", **JSON))[0] == 405
        assert (await hall.post("join", code=key, phone="one"))[0] == 404
        assert not hall.room.has_ended and key not in json.dumps(await hall.post("join", phone="one"))

    played(scene)


def test_guesses_wait_and_a_full_or_ended_class_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(hall: Hall) -> None:
        await hall.post("join", phone="early")
        statuses = [(await hall.post("join", code="QQ", phone="thief"))[0] for _ in range(30)]
        assert statuses == [404] * 20 + [429] * 10
        body = json.dumps({"phone": "late"}).encode()
        status, headers, _ = await hall.ask("POST", f"/c/{hall.room.code}/join", body, **JSON)
        assert status == 429 and 1 <= int(headers["retry-after"]) <= 10
        assert (await hall.post("join", phone="early"))[0] == 200
        hall.rooms._guesses.clear()
        monkeypatch.setattr(classroom, "MAX_PHONES", 1)
        status, refusal = await hall.post("join", phone="late")
        assert status == 403 and refusal["sentence"]
        hall.room.end()
        assert (await hall.post("join", phone="early"))[0] == 404

    played(scene)


def test_the_page_runs_its_own_script_and_asks_nobody_else() -> None:
    async def scene(hall: Hall) -> None:
        for path in ("/c", "/c/", "/c/ABCDE", "/c/ABCDE/", "/c/%3Cscript%3E"):
            status, headers, body = await hall.ask("GET", path)
            assert status == 200 and "set-cookie" not in headers and headers["cache-control"] == "no-store"
            policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
            assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
            assert re.fullmatch(r"'sha256-\S+'", policy["script-src"]) and policy["connect-src"] == "'self'"
        page = body.decode()
        assert (await hall.ask("GET", "/c", accept_encoding="gzip"))[2] != body
        assert gzip.decompress((await hall.ask("GET", "/c", accept_encoding="gzip"))[2]) == body
        outside = re.findall(r"https?://[^\"]+", page)
        assert set(outside) == {"http://www.w3.org/2000/svg"}, "the name of a kind of element, not an address"
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|cookie|style=", page)
        assert (await hall.ask("GET", "/classes"))[2] == (await hall.ask("GET", "/"))[2] == b"Streamlit"

    played(scene)


def test_below_a_path_and_by_which_name_phones_find_the_class(options: dict[str, Any]) -> None:
    assert address("http://localhost:8501/learn", "ABCDE") == "http://localhost:8501/c/ABCDE"
    assert address("dpviz.example.org", "ABCDE") == "http://dpviz.example.org/c/ABCDE"
    options["browser.serverAddress"] = "192.168.1.7"
    for page in ("http://localhost:8501/learn?class=new", "127.0.0.1:8501", "http://[::1]:8501"):
        assert address(page, "ABCDE") == "http://192.168.1.7:8501/c/ABCDE"
    assert address("https://dpviz.example.org/lab/dp/learn", "ABCDE") == "https://dpviz.example.org/c/ABCDE"
    options["server.baseUrlPath"] = "/lab/dp/"
    assert address("https://dpviz.example.org/lab/dp/learn", "ABCDE") == "https://dpviz.example.org/lab/dp/c/ABCDE"

    async def scene(hall: Hall) -> None:
        status, _, body = await hall.ask("POST", f"/lab/dp/c/{hall.room.code}/join", b'{"phone": "one"}', **JSON)
        assert status == 200 and json.loads(body)["text"]
        assert (await hall.ask("GET", f"/c/{hall.room.code}"))[2] == b"Streamlit"

    played(scene)


def test_all_seats_hear_the_news() -> None:
    async def scene(hall: Hall) -> None:
        for phone in range(MAX_PHONES):
            assert (await hall.post("join", phone=str(phone)))[0] == 200

        async def hears(phone: int) -> str:
            async with hall.news(str(phone)) as event:
                await event()
                ready.release()
                return (await event())["title"]

        ready = asyncio.Semaphore(0)
        tasks = [asyncio.create_task(hears(phone)) for phone in range(MAX_PHONES)]
        for _ in range(MAX_PHONES):
            await ready.acquire()
        await asyncio.to_thread(hall.room.ask, QUESTION)
        assert set(await asyncio.gather(*tasks)) == {QUESTION.title}

    played(scene)


def test_a_room_is_named_by_no_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(hall: Hall) -> None:
        await hall.post("join", phone="secretphone")
        hall.room.ask(QUESTION)
        await hall.post("answer", phone="secretphone", number=1, answer="secretanswer")
        await hall.ask("POST", f"/c/{hall.room.code}/join", b"{", origin="https://elsewhere.example", **JSON)

    with caplog.at_level("INFO", "dpviz"):
        played(scene)
    assert "elsewhere" in caplog.text and not re.search("secret|/c/", caplog.text)
