"""The middleware that refuses requests from other web sites before Streamlit sees them.

Streamlit itself looks up its own address on the internet to judge a foreign origin, and answers no request meanwhile.
It checks the name of the host only for the connections of pages.
"""

import logging
from fnmatch import fnmatch
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

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
                    await send({"type": "websocket.close", "code": 1008})
                else:
                    await PlainTextResponse(reason, 403)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _refusal(host: str, origin: str | None) -> str:
    """Return a sentence on why a request is refused, with the setting that would allow it; "" for one that passes.

    host, origin : these headers of the request; the origin is None if the request has none.
    """
    if not _is_allowed(host):
        return f"The host {host[:MAX_LETTERS]!r} is not one of server.allowedHosts."
    if origin is not None and not _is_own(origin, host):
        names = f"{origin[:MAX_LETTERS]!r} is not the host {host[:MAX_LETTERS]!r}"
        return f"The origin {names}, and not one of server.corsAllowedOrigins."
    return ""


def _is_allowed(host: str) -> bool:
    """Return true if the server accepts requests under this host name; without a list of names, it accepts any."""
    patterns: list[str] = st.get_option("server.allowedHosts")
    name = _name(f"//{host}")
    return not patterns or (name != "" and any(fnmatch(name, pattern.strip().lower()) for pattern in patterns))


def _is_own(origin: str, host: str) -> bool:
    """Return true if an origin is the host of the request, this machine, or one of the sites that the settings allow.

    It is also true if the settings switch the check off.
    """
    if not st.get_option("server.enableCORS") or origin.partition("//")[2] == host:
        return True
    sites = [st.get_option("browser.serverAddress"), *(st.get_option("server.corsAllowedOrigins") or ())]
    allowed_names = {_name(site if "//" in site else f"//{site}") for site in sites}
    return _name(origin) in {*HERE, *allowed_names}


def _name(address: str) -> str:
    """Return the name of the host in an address; "" if it has none."""
    try:
        return (urlsplit(address).hostname or "").rstrip(".")
    except ValueError:
        return ""


MIDDLEWARE = [Middleware(OwnOrigins)]
