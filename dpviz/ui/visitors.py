"""Visitors: each is one open tab, whose runs end soon after it was closed.

Streamlit says when a connection ends, and keeps the session for a while in case the tab connects again. The session's
objects would stay in memory until the next visitor arrives, so it is closed here when its time is over.
"""

import asyncio
import gc
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import uuid4
from weakref import WeakSet, WeakValueDictionary

import streamlit as st
from streamlit import runtime

from dpviz.ui.components import source
from dpviz.ui.streamlit_patches import guarded, script_context

GRACE = 10.0  # seconds without a connection after which a visitor has left; a reload takes two or three
BEAT = 1.0  # seconds between two checks of a visitor without a connection
KEPT = 0.9  # share of Streamlit's time to live of a session; after all of it Streamlit would no longer find the session
KEY = "visitor"


class Kept(Protocol):
    """Something that goes on without its page: a run."""

    @property
    def returns(self) -> bool:
        """Whether a tab that is loaded again may have it back; not with rows of a file, which is gone then."""

    def abandon(self) -> None:
        """End it: no page will show more of it."""

    def let_go(self, tables: Collection[str]) -> None:
        """Forget the uploaded tables of these names."""


@dataclass(eq=False)
class Visitor:
    """One open tab.

    session : Streamlit's name of it. name : our name of it in the queue of runs, a secret of the tab.
    runs : the last run of every panel, by its key in the session. notes : small values that pages keep, by name.
    lost : reasons for what the tab had earlier and has no more, by key. old_name : the name of the tab before it was
        loaded again.
    """

    session: str
    name: str = field(default_factory=lambda: uuid4().hex)
    runs: dict[str, Kept] = field(default_factory=dict)
    notes: dict[str, object] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    old_name: str = ""
    _all: "WeakSet[Kept]" = field(default_factory=WeakSet)  # runs, with older ones that pages still show
    _connection: object = None  # of the last page that was drawn

    def keep(self, key: str, run: Kept) -> None:
        """Remember a run, in place of the last one with the same key."""
        st.session_state[key] = self.runs[key] = run
        self.lost.pop(key, None)
        self._all.add(run)

    def drop(self, key: str) -> None:
        """Remember a run no longer."""
        self.runs.pop(key, None)
        st.session_state.pop(key, None)

    def forget(self, tables: Collection[str]) -> None:
        """Let go of the tables, by name, of a file that the visitor has removed."""
        for run in self._all:
            run.let_go(tables)

    def leave(self) -> None:
        """End all runs."""
        for run in tuple(self.runs.values()):
            run.abandon()

    def take_back(self, name: str) -> bool:
        """Take over runs and notes of the tab's old visitor; return False if that one is still active: this tab is
        its copy."""
        old = _by_name.get(name)
        if old is None or old is self:
            return True
        if runtime.get_instance().is_active_session(old.session):
            return False
        for key, run in old.runs.items():
            if run.returns and key not in self.runs:
                self.keep(key, run)
            else:
                run.abandon()
        old.runs = {}
        self.notes = old.notes | self.notes
        return True

    def drawn(self) -> None:
        """Note that a page is being drawn for this visitor, who therefore has a connection."""
        self._connection = _connection(self)

    def look(self, connection: object, since: float | None = None) -> None:
        """Check a visitor without a connection, until a page is drawn over a new one, or the session is over.

        since : time of the first check without a connection, by the clock of Streamlit's event loop, in which this
            runs.
        """
        if self._connection is not connection:
            return
        server, loop = runtime.get_instance(), asyncio.get_running_loop()
        if server.is_active_session(self.session):
            since = None
        elif since is None:
            since = loop.time()
        away = 0.0 if since is None else loop.time() - since
        is_over = away >= KEPT * st.get_option("server.disconnectedSessionTTL")
        if is_over or away >= GRACE:
            self.leave()
        if is_over:
            self.runs = {}
            _close(server, self.session)
            loop.call_soon(gc.collect)  # a session is full of cycles
        else:
            loop.call_later(BEAT, self.look, connection, since)


def _close(server: runtime.Runtime, session: str) -> None:
    """Close a session and forget its state, because Streamlit's loop holds on to the last session that it served."""
    information = guarded(lambda: server._session_mgr.get_session_info(session), None)
    server.close_session(session)
    if information is not None:
        information.session.session_state.clear()


# Process-wide on purpose, but no longer than the sessions: a tab that is loaded again finds its old visitor here.
_by_name: "WeakValueDictionary[str, Visitor]" = WeakValueDictionary()


def here() -> Visitor:
    """Return the visitor for whom this page is drawn."""
    if KEY not in st.session_state:
        context = script_context()
        visitor = Visitor("" if context is None else context.session_id)
        st.session_state[KEY] = _by_name[visitor.name] = visitor
    current: Visitor = st.session_state[KEY]
    return current


@dataclass(eq=False)
class _Connection:
    """Object that lives as long as the connection of a tab."""

    visitor: Visitor


def _on_end(connection: _Connection) -> None:
    with suppress(RuntimeError):  # no event loop: the cache was cleared by hand
        connection.visitor.look(connection)


@st.cache_resource(scope="session", on_release=_on_end, show_spinner=False)
def _connection(_visitor: Visitor) -> _Connection:
    return _Connection(_visitor)


TAB = "tab"
RESTARTED = "The server was restarted."
LOADED = "The page was loaded again, or without a connection for too long."
_SERVER = uuid4().hex  # identifies this process: after a restart, nothing of an old tab is left


@st.cache_resource
def _component() -> Any:
    return st.components.v2.component("dpviz_tab", html="<span></span>", js=source("tab.js"))


def remember() -> None:
    """Tell the tab its name and keys, and read its old name; called once per page, before the page."""
    visitor = here()
    _hear(visitor)
    files = [str(key) for key in st.session_state if str(key).endswith("_upload")]
    data = {
        "visitor": visitor.name,
        "server": _SERVER,
        "has": [*visitor.runs, *visitor.notes, *files],
        "heard": visitor.old_name,
    }
    nothing = lambda: None  # noqa: E731
    _component()(key=TAB, data=data, on_before_change=nothing, on_back_change=nothing, height=1)


def _hear(visitor: Visitor) -> None:
    """Take back the runs and notes of the tab's old visitor, and note what is lost."""
    message = (st.session_state.get(TAB) or {}).get("before")
    name, server, old_keys = (
        (message.get(key) for key in ("visitor", "server", "has")) if isinstance(message, Mapping) else [None] * 3
    )
    if not isinstance(name, str) or name == visitor.old_name or not isinstance(old_keys, Sequence):
        return
    visitor.old_name = name
    if visitor.take_back(name):
        why = LOADED if server == _SERVER else RESTARTED
        visitor.lost = {key: why for key in old_keys if isinstance(key, str) and key not in visitor.runs}
