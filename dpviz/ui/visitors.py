"""Who is here: a visitor is one open tab, and what it has under way ends soon after it was closed.

Streamlit says when a connection ends, and keeps the session for a while in case it comes back. What that session had
would stay in memory until the next visitor arrives: it is closed here when its time is over.
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
BEAT = 1.0  # seconds between two looks at a visitor without a connection
KEPT = 0.9  # of the time that Streamlit keeps a session, before it does not find it any more, and does not remove it
KEY = "visitor"


class Kept(Protocol):
    """Something that goes on without its page: a run."""

    @property
    def returns(self) -> bool:
        """Whether a tab that is loaded again may have it back: no rows of a file, which is gone then."""

    def abandon(self) -> None:
        """End it: nobody will see more of it."""

    def let_go(self, tables: Collection[str]) -> None:
        """Forget the uploaded tables of these names."""


@dataclass(eq=False)
class Visitor:
    """One open tab.

    session : Streamlit's name of it. name : ours, for the line of runs; a secret of the tab. runs : the last of every
    panel, by its key in the session. notes : small things that it has said, by names that their pages choose.
    lost : what the tab had before and has no more, by such keys, and why.
    before : the name that it had then.
    """

    session: str
    name: str = field(default_factory=lambda: uuid4().hex)
    runs: dict[str, Kept] = field(default_factory=dict)
    notes: dict[str, object] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    before: str = ""
    _all: "WeakSet[Kept]" = field(default_factory=WeakSet)  # those too that pages still show
    _connection: object = None  # over which a page was last drawn

    def keep(self, key: str, run: Kept) -> None:
        """Remember a run, in place of the one before of the same key."""
        st.session_state[key] = self.runs[key] = run
        self.lost.pop(key, None)
        self._all.add(run)

    def drop(self, key: str) -> None:
        """Remember a run no longer."""
        self.runs.pop(key, None)
        st.session_state.pop(key, None)

    def forget(self, tables: Collection[str]) -> None:
        """Let go of the tables, by name, of a file that its visitor has removed."""
        for run in self._all:
            run.let_go(tables)

    def leave(self) -> None:
        """End what is under way."""
        for run in tuple(self.runs.values()):
            run.abandon()

    def take_back(self, name: str) -> bool:
        """Have what the tab had as another visitor; False if that one is still here: this tab is a copy of its."""
        before = _known.get(name)
        if before is None or before is self:
            return True
        if runtime.get_instance().is_active_session(before.session):
            return False
        for key, run in before.runs.items():
            if run.returns and key not in self.runs:
                self.keep(key, run)
            else:
                run.abandon()
        before.runs = {}
        self.notes = before.notes | self.notes
        return True

    def drawn(self) -> None:
        """A page is being drawn for this visitor, who is here then."""
        self._connection = _connection(self)

    def look(self, connection: object, since: float | None = None) -> None:
        """Look after a visitor without a connection: until a page is drawn over a new one, or the session is over.

        since : when it was first found without one, by the clock of Streamlit's event loop, in which this is called
        and calls itself.
        """
        if self._connection is not connection:
            return
        server, loop = runtime.get_instance(), asyncio.get_running_loop()
        if server.is_active_session(self.session):
            since = None
        elif since is None:
            since = loop.time()
        away = 0.0 if since is None else loop.time() - since
        over = away >= KEPT * st.get_option("server.disconnectedSessionTTL")
        if over or away >= GRACE:
            self.leave()
        if over:
            self.runs = {}
            _closed(server, self.session)
            loop.call_soon(gc.collect)  # a session is full of cycles
        else:
            loop.call_later(BEAT, self.look, connection, since)


def _closed(server: runtime.Runtime, session: str) -> None:
    """Close a session and forget what it had: Streamlit's loop holds on to the last one that it served, until it serves
    another one."""
    information = guarded(lambda: server._session_mgr.get_session_info(session), None)
    server.close_session(session)
    if information is not None:
        information.session.session_state.clear()


# Process-wide on purpose, and no longer than their sessions: a tab that is loaded again finds here what it was.
_known: "WeakValueDictionary[str, Visitor]" = WeakValueDictionary()


def here() -> Visitor:
    """The visitor for whom this page is drawn."""
    if KEY not in st.session_state:
        context = script_context()
        visitor = Visitor("" if context is None else context.session_id)
        st.session_state[KEY] = _known[visitor.name] = visitor
    here: Visitor = st.session_state[KEY]
    return here


@dataclass(eq=False)
class _Connection:
    """Lives as long as the connection of a tab."""

    visitor: Visitor


def _ended(connection: _Connection) -> None:
    with suppress(RuntimeError):  # no event loop: the cache was cleared by hand
        connection.visitor.look(connection)


@st.cache_resource(scope="session", on_release=_ended, show_spinner=False)
def _connection(_visitor: Visitor) -> _Connection:
    return _Connection(_visitor)


TAB = "tab"
RESTARTED = "The server was restarted."
LOADED = "The page was loaded again, or without a connection for too long."
_SERVER = uuid4().hex  # of this process: another one knows nothing of what this one had


@st.cache_resource
def _component() -> Any:
    return st.components.v2.component("dpviz_tab", html="<span></span>", js=source("tab.js"))


def remember() -> None:
    """Tell the tab who it is and what it has, and hear who it was; once per page, before the page."""
    visitor = here()
    _hear(visitor)
    files = [str(key) for key in st.session_state if str(key).endswith("_upload")]
    data = {
        "visitor": visitor.name,
        "server": _SERVER,
        "has": [*visitor.runs, *visitor.notes, *files],
        "heard": visitor.before,
    }
    nothing = lambda: None  # noqa: E731
    _component()(key=TAB, data=data, on_before_change=nothing, on_back_change=nothing, height=1)


def _hear(visitor: Visitor) -> None:
    """Take back what the tab had when it was another visitor, and note what is lost of it."""
    said = (st.session_state.get(TAB) or {}).get("before")
    name, server, had = (
        (said.get(key) for key in ("visitor", "server", "has")) if isinstance(said, Mapping) else [None] * 3
    )
    if not isinstance(name, str) or name == visitor.before or not isinstance(had, Sequence):
        return
    visitor.before = name
    if visitor.take_back(name):
        why = LOADED if server == _SERVER else RESTARTED
        visitor.lost = {key: why for key in had if isinstance(key, str) and key not in visitor.runs}
