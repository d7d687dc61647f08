"""The phones of a class: a page of their own and what it asks of the server. None of them is a session of Streamlit.

`/c` asks for the code of a class, `/c/ABCDE` joins it: the shortest address, as halls type it from a projector. The
page posts to `/c/ABCDE/join` and `/c/ABCDE/answer`, both of which return what the phone shows, and reads
`/c/ABCDE/news`, a stream of server-sent events with the same. A phone is known by an identifier in bodies and a header,
never in an address, which proxies log.
"""

import asyncio
import gzip
import hashlib
import json
import re
import signal
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import suppress
from math import ceil
from typing import Any
from urllib.parse import urlsplit

import streamlit as st
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from dpviz import resources
from dpviz.errors import UserError
from dpviz.lessons.classroom import LASTS, MAX_ID, ROOMS, Room, Rooms, TooOften
from dpviz.ui.server import HERE

PATH = "/c"  # below `server.baseUrlPath`
MAX_BODY = 4096  # bytes of a request: ten times the largest answer
PATIENCE = 10.0  # seconds for a body to come
HEARTBEAT = 15.0  # seconds of silence after which a stream sends a comment: proxies end silent ones
CHECK_SECONDS = 0.5  # seconds between two checks whether the server is about to end


def address(page: str, code: str) -> str:
    """Return the address at which phones join a class.

    If the lecturer's page is at a name of this machine itself, which phones cannot use, the address has the name in the
    setting `browser.serverAddress`, which `dpviz serve --class` sets.

    page : the address of the lecturer's page, or the header Host of its request. code : the letters of the class.
    """
    parts = urlsplit(page if "//" in page else f"http://{page}")
    host, server_name = parts.netloc, st.get_option("browser.serverAddress")
    if (parts.hostname or "") in ("", "::1", *HERE) and server_name not in HERE:
        host = f"{server_name}:{parts.port}" if parts.port else server_name
    return f"{parts.scheme}://{host}{_base()}{PATH}/{code}"


def _base() -> str:
    """Return the path below which the server answers, "" for the root."""
    base = st.get_option("server.baseUrlPath").strip("/")
    return f"/{base}" if base else ""


class _Stream:
    """The open stream of a phone. is_news : is set when there may be news. is_last : true if it is to end."""

    def __init__(self) -> None:
        self.is_news, self.is_last = asyncio.Event(), False

    def end(self) -> None:
        """Have the stream end."""
        self.is_last = True
        self.is_news.set()


class _RoomStreams:
    """The open streams of a room. The room may change in any thread; streams are woken in the event loop.

    by_phone : the stream of each phone. If it was not yet able to send, it is woken once for several changes.
    """

    def __init__(self, room: Room) -> None:
        self.by_phone: dict[str, _Stream] = {}
        self._loop = asyncio.get_running_loop()
        self.close = room.listen(self._wake_from_any_thread)  # `close` ends these calls

    def _wake_from_any_thread(self) -> None:
        with suppress(RuntimeError):  # the server has ended
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for stream in self.by_phone.values():
            stream.is_news.set()


class Phones:
    """Middleware that answers all that phones ask. It comes before the middleware that holds answers back to compress
    or change them, as streams must not wait."""

    def __init__(self, app: ASGIApp, rooms: Rooms = ROOMS) -> None:
        self._app, self._rooms = app, rooms
        self._streams: dict[Room, _RoomStreams] = {}
        self._watch: asyncio.Task[None] | None = None
        self._router = Router(
            [
                Route("/", self._page),
                Route("/{code}", self._page),
                Route("/{code}/join", self._join, methods=["POST"]),
                Route("/{code}/answer", self._answer, methods=["POST"]),
                Route("/{code}/news", self._news),
            ],
            redirect_slashes=False,
        )
        page = resources.text(__package__, "phone.html")
        sources = {kind: _hash(page, kind) for kind in ("script", "style")}
        self._pages = page.encode(), gzip.compress(page.encode())
        self._headers = {
            "content-security-policy": "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; "
            f"form-action 'none'; frame-ancestors 'none'; script-src {sources['script']}; style-src {sources['style']}",
            "referrer-policy": "no-referrer",
            "vary": "Accept-Encoding",
            **_HEADERS,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        prefix = _base() + PATH
        if scope["type"] == "http" and (path == prefix or path.startswith(f"{prefix}/")):
            below = path.removeprefix(prefix).rstrip("/") or "/"
            # Without an app in the scope, the router itself answers what it does not have, in place of an exception.
            inner = {name: value for name, value in scope.items() if name != "app"}
            await self._router({**inner, "path": below, "root_path": ""}, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _page(self, request: Request) -> Response:
        plain, packed = self._pages
        if "gzip" in request.headers.get("accept-encoding", ""):
            return HTMLResponse(packed, headers={**self._headers, "content-encoding": "gzip"})
        return HTMLResponse(plain, headers=self._headers)

    async def _join(self, request: Request) -> Response:
        """Give a phone its seat."""
        body = await _read(request)
        if isinstance(body, Response):
            return body
        phone = body.get("phone")
        if not isinstance(phone, str) or not 0 < len(phone) <= MAX_ID:
            return _refusal(400)
        try:
            client = request.client.host if request.client else ""
            room = self._rooms.enter(request.path_params["code"], phone, client)  # no seat yet
            if room is None:
                return _refusal(404)
            room.join(phone)
            if room.phones == 1:  # the first: answers are to be forgotten when the room ends, though no request comes
                # LASTS counts from the opening of the room, so that it is over by then.
                asyncio.get_running_loop().call_later(LASTS + 1, self._rooms.tidy)
        except TooOften as error:
            return _too_often(error)
        except UserError as error:
            return _refusal(403, str(error))
        return _json(room.state(phone))

    async def _answer(self, request: Request) -> Response:
        """Store an answer; one that came already changes nothing."""
        body = await _read(request)
        if isinstance(body, Response):
            return body
        phone, number = body.get("phone"), body.get("number")
        room = self._room(request, phone)
        if room is None or not isinstance(phone, str):
            return _refusal(404)
        try:
            if type(number) is not int:  # `isinstance` would accept True
                raise ValueError("the number of the question is missing")
            room.answer(phone, number, body.get("answer"))
            return _json(room.state(phone))
        except TooOften as error:
            return _too_often(error)
        except ValueError as error:
            return _refusal(400, str(error))

    async def _news(self, request: Request) -> Response:
        """Stream what a phone shows, now and after every change. A phone has one stream: a new one ends the old."""
        phone = request.headers.get("phone", "")
        room = self._room(request, phone)
        if room is None:
            return _refusal(404)
        if request.method == "HEAD":  # which Starlette routes as it does GET, and for which the stream would not end
            return _refusal(405)
        return StreamingResponse(
            self._events(room, phone),
            media_type="text/event-stream",
            headers={**_HEADERS, "cache-control": "no-store, no-transform", "x-accel-buffering": "no"},
        )

    async def _events(self, room: Room, phone: str) -> AsyncIterator[str]:
        """Yield the server-sent events of a phone's stream, until the class is over or the stream is to end."""
        if self._watch is None or self._watch.done():  # it ends when there are no streams
            self._watch = asyncio.create_task(self._end_with_the_server())
        room_streams = self._streams.get(room)
        if room_streams is None:
            room_streams = self._streams[room] = _RoomStreams(room)
        old, stream = room_streams.by_phone.get(phone), _Stream()
        room_streams.by_phone[phone] = stream
        if old is not None:
            old.end()
        scene = -1  # number of the last state that was sent; it changes with what phones show
        try:
            while not stream.is_last:
                stream.is_news.clear()  # before the state is read, so that a change after that is not missed
                state = room.state(phone)
                if "over" in state or state["scene"] != scene:
                    scene = state["scene"]
                    yield f"data: {json.dumps(state, allow_nan=False)}\n\n"
                    if "over" in state:
                        return
                else:
                    yield ": \n\n"  # nothing new: a comment
                with suppress(TimeoutError):
                    await asyncio.wait_for(stream.is_news.wait(), HEARTBEAT)
            if room_streams.by_phone.get(phone) is not stream:  # a newer stream of the same phone has ended this one
                yield 'data: {"elsewhere": true}\n\n'
        finally:
            if room_streams.by_phone.get(phone) is stream:
                del room_streams.by_phone[phone]
            if not room_streams.by_phone and self._streams.get(room) is room_streams:
                room_streams.close()
                del self._streams[room]

    async def _end_with_the_server(self) -> None:
        """End all streams when the server is to end, as it waits for them without telling the app.

        Return when there are no streams.
        """
        while self._streams:
            await asyncio.sleep(CHECK_SECONDS)
            # uvicorn has registered a method of its server, which sets `should_exit`, as the handler of the signal.
            server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
            if getattr(server, "should_exit", False):
                for room_streams in self._streams.values():
                    for stream in room_streams.by_phone.values():
                        stream.end()

    def _room(self, request: Request, phone: object) -> Room | None:
        """Return the room with the code of a request if the phone has joined it, else None: whether or not there is
        such a room, the answer is the same."""
        room = self._rooms.with_code(request.path_params["code"])
        has_joined = room is not None and isinstance(phone, str) and room.seat(phone) is not None
        return room if has_joined else None


_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


def _hash(page: str, kind: str) -> str:
    """Return the hash by which a content security policy allows the only script, or style sheet, of a page.

    kind : "script" or "style".
    """
    (content,) = re.findall(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
    return f"'sha256-{b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _json(value: object, status: int = 200) -> Response:
    return JSONResponse(value, status, headers=_HEADERS)


def _refusal(status: int, sentence: str = "") -> Response:
    """Return a refusal. sentence : for the phone; "" if its page has a sentence of its own for this status."""
    return _json({"sentence": sentence}, status)


def _too_often(error: TooOften) -> Response:
    answer = _refusal(429)
    answer.headers["retry-after"] = str(ceil(error.seconds))
    return answer


async def _read(request: Request) -> dict[str, Any] | Response:
    """Return the object in the body of a request, or a refusal if the body is no object.

    Only JSON is accepted, which no form on the page of another site can send.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return _refusal(415)
    content = b""
    try:
        async with asyncio.timeout(PATIENCE):
            async for chunk in request.stream():
                content += chunk
                if len(content) > MAX_BODY:
                    return _refusal(413)
        body = json.loads(content)
    except (TimeoutError, ClientDisconnect):
        return _refusal(408)
    except (ValueError, RecursionError):
        return _refusal(400)
    return body if isinstance(body, dict) else _refusal(400)
