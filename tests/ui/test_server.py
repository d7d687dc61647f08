"""The files of the server: compressed once, for those who can read that; and a page that knows its server's address."""

import asyncio
import gzip
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import streamlit as st
from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpviz.ui import server
from dpviz.ui.server import ADDRESS, Files, OwnOrigins

SCRIPT = b"let x = 1;" * 1000
PAGE = b"<html><head><title>Streamlit</title></head></html>"


class Streamlit:
    """Answers as it does: with a page, too, where no such script is."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        self.asked.append(path)
        answer: Response = HTMLResponse(PAGE, headers={"etag": "1"})
        if path.startswith("/static/"):
            answer = Response(SCRIPT, media_type="text/javascript", headers={"set-cookie": "visitor=1", "etag": "2"})
        elif path.startswith("/media/"):
            answer = Response(SCRIPT, media_type="text/csv")
        elif "/_stcore/" in path:
            answer = Response(status_code=404)
        await answer(scope, receive, send)


@pytest.fixture
def streamlit() -> Iterator[Streamlit]:
    yield Streamlit()


def get(app: ASGIApp, path: str, method: str = "GET", kind: str = "http", **asked: str) -> tuple[int, Headers, bytes]:
    """Status, headers and body of an answer; of a websocket that is closed 0."""
    messages: list[Message] = []

    async def send(message: Message) -> None:
        messages.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    headers = [(name.replace("_", "-").encode(), text.encode()) for name, text in asked.items()]
    answer = app({"type": kind, "method": method, "path": path, "headers": headers}, receive, send)
    with ThreadPoolExecutor() as thread:  # a browser of an earlier test keeps an event loop in this one
        thread.submit(asyncio.run, answer).result()
    body = b"".join(message.get("body", b"") for message in messages[1:])
    return messages[0].get("status", 0), Headers(raw=messages[0].get("headers", [])), body


def test_a_script_is_compressed_once_and_for_everybody(streamlit: Streamlit) -> None:
    app = Files(streamlit)
    for _ in range(3):
        status, headers, body = get(app, "/static/a.js", accept_encoding="gzip, br")
        assert status == 200 and headers["content-encoding"] == "gzip" and headers["vary"] == "Accept-Encoding"
        assert headers["content-length"] == str(len(body)) and headers["etag"] == "2" and "set-cookie" not in headers
        assert len(body) < 0.1 * len(SCRIPT) and gzip.decompress(body) == SCRIPT
    assert streamlit.asked == ["/static/a.js"]


@pytest.mark.parametrize(
    "asked",
    [{}, {"accept_encoding": "br"}]
    + [{"accept_encoding": "gzip", name: "x"} for name in ("if_none_match", "if_modified_since", "range")],
)
def test_who_cannot_read_it_or_asks_for_less_gets_what_streamlit_sends(
    streamlit: Streamlit, asked: dict[str, str]
) -> None:
    app = Files(streamlit)
    for _ in range(2):
        _, headers, body = get(app, "/static/a.js", **asked)
        assert body == SCRIPT and "content-encoding" not in headers
    assert len(streamlit.asked) == 2
    for path, method in (("/media/table.csv", "GET"), ("/static/a.js", "HEAD")):
        assert get(app, path, method=method, accept_encoding="gzip")[2] == SCRIPT
    assert get(app, "/_stcore/health")[0] == 404


def test_addresses_that_nobody_serves_take_no_memory(streamlit: Streamlit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Streamlit answers them with a page."""
    app = Files(streamlit)
    for i in range(5):
        _, headers, body = get(app, f"/{i}.js", accept_encoding="gzip")
        assert body == PAGE and "content-encoding" not in headers
    monkeypatch.setattr(server, "MAX_FILES", 2)
    for i in (0, 1, 2, 0, 1, 2):
        assert gzip.decompress(get(app, f"/static/{i}.js", accept_encoding="gzip")[2]) == SCRIPT
    assert [streamlit.asked.count(f"/static/{i}.js") for i in range(3)] == [1, 1, 2]


def test_a_page_names_the_address_of_its_server(streamlit: Streamlit) -> None:
    for path in ("/", "/accelerated", "/below/accelerated"):
        status, headers, body = get(Files(streamlit), path)
        assert status == 200 and "etag" not in headers and headers["content-length"] == str(len(body))
        assert body.replace(ADDRESS, b"") == PAGE.replace(b"Streamlit", b"dpviz") and body.count(ADDRESS) == 1


@pytest.mark.parametrize(
    ("host", "origin", "path", "served"),
    [
        ("127.0.0.1:8501", None, "/", True),
        ("[::1]:8501", "http://[::1]:8501", "/", True),
        ("localhost:8501", "http://127.0.0.1:9000", "/", True),
        ("localhost:8501", "http://[::1]:9000", "/", False),
        ("10.0.0.7", None, "/_stcore/health", True),
        ("localhost", "https://elsewhere.example", "/", False),
        ("localhost", "null", "/_stcore/upload_file/a", False),
        ("localhost", "http://localhost.elsewhere.example", "/", False),
        ("localhost", "http://[bad", "/", False),
        ("elsewhere.example", "http://elsewhere.example", "/", False),
        ("", None, "/", False),
        ("shown.example", "https://shown.example", "/", True),
        ("a.lab.example:443", "https://desk.example", "/", True),
    ],
)
def test_other_web_sites_and_names_are_refused_before_streamlit_sees_them(
    streamlit: Streamlit, monkeypatch: pytest.MonkeyPatch, host: str, origin: str | None, path: str, served: bool
) -> None:
    """Without a question to any other machine; a deployment names its own hosts and origins."""
    monkeypatch.setattr(socket, "getaddrinfo", lambda *asked, **_: pytest.fail(f"{asked[0]} is asked"))
    options = {
        "server.allowedHosts": ["localhost", "127.0.0.1", "::1", "shown.example", "*.lab.example"],
        "server.corsAllowedOrigins": ["https://desk.example"],
        "server.enableCORS": True,
        "browser.serverAddress": "localhost",
    }
    monkeypatch.setattr(st, "get_option", options.__getitem__)
    asked = {"host": host} | ({} if origin is None else {"origin": origin})
    status, _, body = get(OwnOrigins(streamlit), path, **asked)
    assert streamlit.asked == [path] * served and served == (status != 403)
    assert served or b"server.allowedHosts" in body or b"server.corsAllowedOrigins" in body
    if not served:
        assert get(OwnOrigins(streamlit), path, kind="websocket", **asked)[0] == 0 and not streamlit.asked
