"""The web server around the pages, which Streamlit starts: `app.py` names its middleware and its start.

The middleware refuses requests from other web sites before Streamlit sees them: Streamlit itself looks up its own
address on the internet to judge a foreign origin, and answers no request meanwhile; and it checks the name of the host
only for the connections of pages. It also sends scripts compressed, and pages with the address of their server.
"""

import gc
import gzip
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from fnmatch import fnmatch
from urllib.parse import urlsplit

import streamlit as st
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpviz.ui.experiment.run import runner

# ---------------------------------------------------------------------------------------------------------------- start

# Seconds after which Python lets another thread run. A thread that sends messages to a visitor waits so long, at most,
# for one that computes for another visitor.
SWITCH = 0.0005


@st.cache_resource(show_spinner=False)
def prepare() -> None:
    """Start the workers of runs and set up the interpreter, once per server.

    Imported objects are excluded from garbage collections, each of which would otherwise spend 45-80 ms on them.
    """
    runner()
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()


@st.cache_resource(ttl=2.0, show_spinner=False)
def tidy() -> None:
    """Collect the garbage of drawn pages, at most every two seconds: until then the cache answers the call.

    A poll of a run does not call it.
    """
    gc.collect()


@asynccontextmanager
async def lifespan(_: st.App) -> AsyncIterator[None]:
    """Prepare everything that pages need before the server answers, so that the first visitor does not wait."""
    await run_in_threadpool(prepare)
    yield


# ---------------------------------------------------------------------------------------- requests from other web sites

HERE = ("localhost", "127.0.0.1")  # names of this machine
HEALTH = "/_stcore/health"  # path that a monitoring probe may request under any host name
MAX_LETTERS = 100  # largest number of letters of a name in the log
_log = logging.getLogger(__name__)


class OwnOrigins:
    """Middleware that refuses requests from other web sites, or under a host name that `server.allowedHosts` lacks.

    It passes on requests that come from the page itself, this machine, `browser.serverAddress`, or one of
    `server.corsAllowedOrigins`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and not scope["path"].endswith(HEALTH):
            headers = Headers(scope=scope)
            reason = _refusal(headers.get("host", ""), headers.get("origin"))
            if reason:
                _log.warning("Refused: %s", reason)
                if scope["type"] == "websocket":
                    await send({"type": "websocket.close", "code": 1008})  # RFC 6455: a policy was violated
                else:
                    await PlainTextResponse(reason, 403)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _refusal(host: str, origin: str | None) -> str:
    """Return a sentence on why a request is refused, with the setting that would allow it; "" for one that passes.

    host, origin : these headers of the request; the origin is None if the request has none.
    """
    patterns: list[str] = st.get_option("server.allowedHosts")  # if there are none, any host is accepted
    name = _name(f"//{host}")
    if patterns and not (name and any(fnmatch(name, pattern.strip().lower()) for pattern in patterns)):
        return f"The host {host[:MAX_LETTERS]!r} is not one of server.allowedHosts."
    if origin is None or not st.get_option("server.enableCORS") or origin.partition("//")[2] == host:
        return ""
    sites = [st.get_option("browser.serverAddress"), *(st.get_option("server.corsAllowedOrigins") or ())]
    allowed_names = {_name(site if "//" in site else f"//{site}") for site in sites}
    if _name(origin) in {*HERE, *allowed_names}:
        return ""
    names = f"{origin[:MAX_LETTERS]!r} is not the host {host[:MAX_LETTERS]!r}"
    return f"The origin {names}, and not one of server.corsAllowedOrigins."


def _name(address: str) -> str:
    """Return the name of the host in an address; "" if it has none."""
    try:
        return (urlsplit(address).hostname or "").rstrip(".")
    except ValueError:
        return ""


# ---------------------------------------------------------------------------------------------------------------- files

MAX_FILES = 1000  # largest number of cached compressed files; there are about 150, but a file has several addresses
# A script for the head of a page. Without it a browser also looks for the server below the address of the page, by two
# requests that nothing answers.
ADDRESS = b'<script>window.__streamlit = { BACKEND_BASE_URL: new URL(".", location).href }</script>'


class Files:
    """Middleware that compresses scripts and style sheets, each once, and changes the head of pages.

    Streamlit by itself sends megabytes uncompressed.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._compressed: dict[str, Response] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        if scope["type"] != "http" or scope["method"] != "GET":
            answer: ASGIApp = self._app
        elif path.endswith((".js", ".css")) and _takes_compressed(Headers(scope=scope)):
            answer = self._compressed.get(path) or await self._file(scope, receive)
        elif "." in path.rpartition("/")[2] or "/_stcore/" in path:  # another file, or Streamlit's own requests
            answer = self._app
        else:
            answer = await self._page(scope, receive)
        await answer(scope, receive, send)

    async def _file(self, scope: Scope, receive: Receive) -> Response:
        """Return a script or style sheet compressed, and cache it; return any other answer of Streamlit as it is."""
        answer = await self._answer(scope, receive)
        kind = answer.headers.get("content-type", "")
        if answer.status_code != 200 or not ("javascript" in kind or "css" in kind):
            return answer
        _fill(answer, await run_in_threadpool(gzip.compress, bytes(answer.body)))
        answer.headers.update({"content-encoding": "gzip", "vary": "Accept-Encoding"})
        del answer.headers["set-cookie"]  # the file is sent to other visitors, too
        if len(self._compressed) < MAX_FILES:
            self._compressed[scope["path"]] = answer
        return answer

    async def _page(self, scope: Scope, receive: Receive) -> Response:
        """Return a page with our title and the script ADDRESS; return any other answer of Streamlit as it is."""
        answer = await self._answer(scope, receive)
        if answer.status_code == 200 and "html" in answer.headers.get("content-type", ""):
            for name in ("etag", "last-modified"):  # these headers belong to the unchanged page
                del answer.headers[name]
            page = bytes(answer.body).replace(b"<title>Streamlit", b"<title>dpviz", 1)
            _fill(answer, page.replace(b"<head>", b"<head>" + ADDRESS, 1))
        return answer

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        """Return Streamlit's answer to a request, complete and uncompressed."""
        messages: list[Message] = []
        headers = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]

        async def keep(message: Message) -> None:
            messages.append(message)

        await self._app({**scope, "headers": headers}, receive, keep)
        start, *parts = messages  # the first message has status and headers, the others have the body
        answer = Response(status_code=start["status"])
        answer.raw_headers = list(start["headers"])
        _fill(answer, b"".join(part.get("body", b"") for part in parts))
        return answer


def _takes_compressed(headers: Headers) -> bool:
    """Return true if a request asks for all of a file and accepts it compressed."""
    partial = {"if-none-match", "if-modified-since", "range"}
    return "gzip" in headers.get("accept-encoding", "") and not partial & {*headers}


def _fill(answer: Response, body: bytes) -> None:
    """Set the body of an answer, and its length in the headers."""
    answer.body = body
    answer.headers["content-length"] = str(len(body))
