"""Visitors: each is one open tab of a browser, whose runs are stopped soon after it was closed.

Streamlit reports the end of a tab's connection (a WebSocket), and keeps its session for a while in case the tab
connects again. It would keep the objects of an old session in memory until the next visitor arrives, so the session is
closed here.

A tab that is loaded again gets a new session. It keeps the name of its visitor, by which the new one takes over runs
and notes of the old one.
"""

import asyncio
import gc
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol
from uuid import uuid4
from weakref import WeakSet, WeakValueDictionary

import streamlit as st
from streamlit import runtime

from dpviz.ui.components import declare_script
from dpviz.ui.streamlit_patches import script_context, with_fallback

GRACE = 10.0  # seconds without a connection after which a visitor has left; a reload takes two or three
BEAT = 1.0  # seconds between two checks of a visitor without a connection
# Share of the time for which Streamlit keeps a session, after which it is closed here: later, Streamlit has lost it.
CLOSE_SHARE = 0.9
KEY = "visitor"  # session key of the visitor


class VisitorRun(Protocol):
    """A run, as far as this module knows it: it goes on while its page is not drawn."""

    @property
    def is_restorable(self) -> bool:
        """True if a tab that is loaded again may have it back; a run on a file may not, as the file is gone then."""

    def abandon(self) -> None:
        """Stop it, because no page will show it any more."""

    def forget_tables(self, tables: Collection[str]) -> None:
        """Forget the uploaded tables of these names."""


@dataclass(eq=False)
class Visitor:
    """One open tab.

    session : Streamlit's name of its session. name : our name of it, also in the queue of runs; a secret of the tab.
    runs : the last run of each panel, by its key in the session. notes : small values that pages keep, by name.
    lost : sentences on why the tab no longer has a run, by the key of the run. old_name : the name that the tab had
    before it was loaded again.
    """

    session: str
    name: str = field(default_factory=lambda: uuid4().hex)
    runs: dict[str, VisitorRun] = field(default_factory=dict)
    notes: dict[str, object] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    old_name: str = ""
    _all: "WeakSet[VisitorRun]" = field(default_factory=WeakSet)  # these runs, and older ones that pages still show
    _connection: object = None  # the connection over which the last page was drawn

    def keep(self, key: str, run: VisitorRun) -> None:
        """Remember a run, also in the session, in place of the last one with the same key."""
        st.session_state[key] = self.runs[key] = run
        self.lost.pop(key, None)
        self._all.add(run)

    def drop(self, key: str) -> None:
        """Forget the run with this key."""
        self.runs.pop(key, None)
        st.session_state.pop(key, None)

    def forget_tables(self, tables: Collection[str]) -> None:
        """Have all runs forget the tables of a file that the visitor has removed. tables : their names."""
        for run in self._all:
            run.forget_tables(tables)

    def abandon_runs(self) -> None:
        """Stop the last run of every panel."""
        for run in tuple(self.runs.values()):
            run.abandon()

    def take_back(self, name: str) -> bool:
        """Take over the runs and notes of the visitor `name`, which this tab was before it was loaded again.

        Return false, and take over nothing, if that visitor is still active: this tab is then a copy of the other's.
        """
        old = _by_name.get(name)
        if old is None or old is self:  # nothing is left to take over
            return True
        if runtime.get_instance().is_active_session(old.session):
            return False
        for key, run in old.runs.items():
            if run.is_restorable and key not in self.runs:
                self.keep(key, run)
            else:
                run.abandon()
        old.runs = {}
        self.notes = old.notes | self.notes
        return True

    def note_drawing(self) -> None:
        """Note that a page is being drawn for this visitor, so that the end of the connection will be noticed."""
        self._connection = _present_connection(self)

    def check_connection(self, connection: object, away_since: float | None = None) -> None:
        """Check a visitor whose connection has ended, every BEAT seconds, until a page is drawn over a new one.

        The runs are stopped after GRACE seconds without a connection. The session is closed, and the checks end, after
        the share CLOSE_SHARE of the time for which Streamlit would keep it.

        connection : the one that has ended. away_since : time of the first check without a connection, by the clock of
        Streamlit's event loop, in which this runs; None if this is the first, or if there was one at the last check.
        """
        if self._connection is not connection:  # a page has been drawn over a new one
            return
        server, loop = runtime.get_instance(), asyncio.get_running_loop()
        if server.is_active_session(self.session):  # connected again, though no page has been drawn yet
            away_since = None
        elif away_since is None:
            away_since = loop.time()
        seconds_away = 0.0 if away_since is None else loop.time() - away_since
        is_over = seconds_away >= CLOSE_SHARE * st.get_option("server.disconnectedSessionTTL")
        if is_over or seconds_away >= GRACE:  # over sooner, if that option is short
            self.abandon_runs()  # again at each check; a run that was stopped ignores it
        if is_over:
            self.runs = {}
            information = with_fallback(lambda: server._session_mgr.get_session_info(self.session), otherwise=None)
            server.close_session(self.session)
            if information is not None:  # its values are cleared, as Streamlit's loop keeps the last session it served
                information.session.session_state.clear()
            loop.call_soon(gc.collect)  # the objects of a session refer to one another in cycles
        else:
            loop.call_later(BEAT, self.check_connection, connection, away_since)


# The visitors by name, as long as their sessions exist. Process-wide on purpose: a tab that is loaded again, in a new
# session, finds its old visitor here.
_by_name: "WeakValueDictionary[str, Visitor]" = WeakValueDictionary()


def current() -> Visitor:
    """Return the visitor for whom this page is drawn."""
    if KEY not in st.session_state:
        context = script_context()  # None if Streamlit lacks a private name: then the session is unknown
        new_visitor = Visitor("" if context is None else context.session_id)
        st.session_state[KEY] = _by_name[new_visitor.name] = new_visitor
    visitor: Visitor = st.session_state[KEY]
    return visitor


@dataclass(eq=False)
class _Connection:
    """An object in Streamlit's cache of a session, which is released when the connection of the tab ends."""

    visitor: Visitor


def _on_end(connection: _Connection) -> None:
    """Begin the checks of a visitor whose connection has ended."""
    with suppress(RuntimeError):  # no event loop here: the connection goes on, and the cache was cleared by hand
        connection.visitor.check_connection(connection)


@st.cache_resource(scope="session", on_release=_on_end, show_spinner=False)
def _present_connection(_visitor: Visitor) -> _Connection:
    """Return the object of the present connection, the same one until the connection ends."""
    return _Connection(_visitor)


TAB = "tab"  # key of the script in the browser that keeps the tab's names
RESTARTED = "The server was restarted."
LOADED = "The page was loaded again, or without a connection for too long."
_SERVER = uuid4().hex  # identifies this process: after a restart, nothing of an old tab is left


def sync_tab() -> None:
    """Tell the script in the tab the visitor's name and the keys of its runs, and read those it had before.

    The script keeps them when the tab is loaded again. Call this once per page, before the page.
    """
    visitor = current()
    _read_report(visitor)
    files = [str(key) for key in st.session_state if str(key).endswith("_upload")]  # which are lost with the session
    data = {
        "visitor": visitor.name,
        "server": _SERVER,
        "has": [*visitor.runs, *visitor.notes, *files],
        "heard": visitor.old_name,  # by which the script knows that its report has arrived
    }
    # The empty callbacks declare the values that the script reports.
    nothing = lambda: None  # noqa: E731
    declare_script("tab")(key=TAB, data=data, on_before_change=nothing, on_back_change=nothing, height=1)


def _read_report(visitor: Visitor) -> None:
    """Take back the runs and notes of the tab's old visitor, if the tab reports one, and note which runs are lost.

    The report has what `sync_tab` sent last before the tab was loaded again; a browser may send it in any form.
    """
    report = (st.session_state.get(TAB) or {}).get("before")
    if not isinstance(report, Mapping):
        return
    name, server, old_keys = report.get("visitor"), report.get("server"), report.get("has")
    # In another form, or taken back already.
    if not isinstance(name, str) or name == visitor.old_name or not isinstance(old_keys, Sequence):
        return
    visitor.old_name = name
    if visitor.take_back(name):
        reason = LOADED if server == _SERVER else RESTARTED
        visitor.lost = {key: reason for key in old_keys if isinstance(key, str) and key not in visitor.runs}
