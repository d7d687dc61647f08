"""Requests from other web sites are refused before Streamlit sees them.

Streamlit looks up its own address on the internet to judge a foreign origin, and answers nobody meanwhile. It checks
the host's name for sessions only.
"""

import logging
from fnmatch import fnmatch
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

HERE = ("localhost", "127.0.0.1")
HEALTH = "/_stcore/health"  # which a probe asks for under any name
LONGEST = 100  # letters of a name in the log
_log = logging.getLogger(__name__)


class OwnOrigins:
    """Passes on what comes under one of `server.allowedHosts`, and from no other web site: such a request is one of the
    page itself, of this machine, of `browser.serverAddress`, or of one of `server.corsAllowedOrigins`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and not scope["path"].endswith(HEALTH):
            headers = Headers(scope=scope)
            if reason := _refusal(headers.get("host", ""), headers.get("origin")):
                _log.warning("Refused: %s", reason)
                if scope["type"] == "websocket":
                    await send({"type": "websocket.close", "code": 1008})
                else:
                    await PlainTextResponse(reason, 403)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _refusal(host: str, origin: str | None) -> str:
    """Why a request is refused, and which setting would allow it; empty for one that is passed on."""
    if not _known(host):
        return f"The host {host[:LONGEST]!r} is not one of server.allowedHosts."
    if origin is not None and not _is_own(origin, host):
        names = f"{origin[:LONGEST]!r} is not the host {host[:LONGEST]!r}"
        return f"The origin {names}, and not one of server.corsAllowedOrigins."
    return ""


def _known(host: str) -> bool:
    """Whether the server may be asked under this name."""
    patterns: list[str] = st.get_option("server.allowedHosts")
    name = _name(f"//{host}")
    return not patterns or (name != "" and any(fnmatch(name, pattern.strip().lower()) for pattern in patterns))


def _is_own(origin: str, host: str) -> bool:
    if not st.get_option("server.enableCORS") or origin.partition("//")[2] == host:
        return True
    allowed = [st.get_option("browser.serverAddress"), *(st.get_option("server.corsAllowedOrigins") or ())]
    return _name(origin) in {*HERE, *(_name(each if "//" in each else f"//{each}") for each in allowed)}


def _name(address: str) -> str:
    """The name of a host in an address; empty where there is none."""
    try:
        return (urlsplit(address).hostname or "").rstrip(".")
    except ValueError:
        return ""


MIDDLEWARE = [Middleware(OwnOrigins)]
