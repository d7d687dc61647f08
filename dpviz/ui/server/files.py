"""The middleware for files: it sends scripts compressed, and pages with the address of their server."""

import gzip

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


MIDDLEWARE = [Middleware(Files)]
